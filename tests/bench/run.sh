#!/usr/bin/env bash
# make bench: measures this machine and the build in BUILD (default build) and, if it is installed, PyTorch.
#
#     tests/bench/run.sh [BUILD] [NAME...]      only the parts whose name contains a NAME: step, memory, interval, ranks,
#                                               generate, or a bench_ program
#
# Prints the machine, every benchmark program's own lines, then the training step of preset tiny (batch 16 x 256, fp32,
# Lion) three ways, in turns with the same threads: `anneal bench step --json`, PyTorch eager, torch.compile; of each the
# fastest of ANNEAL_BENCH_ROUNDS (default 2) medians; and the ratios. Then the peak memory of a process that does the same
# AdamW steps of presets tiny and small (batch 8 x 256), in total, and without the memory that importing PyTorch needs. Then
# checkpoint.activation_interval 0 and 1, AdamW of preset tiny (batch 2 x 256), in turns: time and peak memory, and the
# ratios. Then one rank and two, which share the cores: step time, scaling, what overlap and slices make of it, and the bytes
# that a rank sends in a step against the theory; each the fastest of ANNEAL_BENCH_ROUNDS (here at least 6) medians, in turns,
# with the slowest behind it. Then generating with preset small in fp32 and bf16, of anneal against its bounds (bench_generate), and where they are
# installed of transformers and llama.cpp with the same weights, in turns, each the fastest of its rounds.
# A line that begins with MISSING names each missing tool; the exit status is 1 only if a measurement
# fails. The output is also written to BUILD/bench.txt.
# OMP_NUM_THREADS sets the threads; ANNEAL_BENCH_PYTHON names the interpreter that has PyTorch (default python3).
# OpenBLAS chooses its kernels itself: the script reports and ignores a choice in the environment, unless
# ANNEAL_BENCH_CORETYPE names one.
set -u
build=${1:-build}
shift || true
python=${ANNEAL_BENCH_PYTHON:-python3}
rounds=${ANNEAL_BENCH_ROUNDS:-2}
here=$(dirname "$0")
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)}
export LC_ALL=C.UTF-8
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export ANNEAL_HOME="$scratch/home" ANNEAL_LEDGER="$scratch/home"
mkdir -p "$ANNEAL_HOME"

wanted() { # NAME WORD...: no words, or one of them is part of the name
    local name=$1 word
    shift
    [ $# -eq 0 ] && return 0
    for word in "$@"; do [[ $name == *"$word"* ]] && return 0; done
    return 1
}

number() { # KEY: the number of that key in the JSON object on stdin, or nothing
    tr '\n' ' ' | sed -nE "s/.*\"$1\": *(-?[0-9][0-9.eE+-]*).*/\1/p"
}

ratio() { # A B [DIGITS]: A / B, or "-" when one is missing
    awk -v a="$1" -v b="$2" -v digits="${3:-2}" 'BEGIN { if (a == "" || b == "" || b + 0 == 0) print "-"; else printf "%.*f\n", digits, a / b }'
}

row() { # NAME STEP_MS TOKENS_PER_SEC PEAK_RSS_BYTES
    printf '  %-16s %10.1f ms %12.0f tokens/s %9.0f MiB\n' "$1" "$2" "$3" "$(ratio "$4" 1048576 3)"
}

print_machine() {
    echo "machine: $(sed -nE 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(nproc) cores, $(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)," \
        "$(sed -nE 's/^PRETTY_NAME="?([^"]*)"?/\1/p' /etc/os-release 2>/dev/null), $(uname -srm)"
    if [ -n "${OPENBLAS_CORETYPE:-}" ] && [ -z "${ANNEAL_BENCH_CORETYPE:-}" ]; then
        echo "OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE in the environment is set aside (ANNEAL_BENCH_CORETYPE keeps one)"
    fi
    echo "threads: $OMP_NUM_THREADS; load average before: $(cut -d' ' -f1-3 /proc/loadavg)"
}

run_programs() {
    local program name
    for program in "$build"/tests/bench/bench_*; do
        if [ ! -x "$program" ] || [[ $program == *.[od] ]]; then continue; fi
        name=$(basename "$program")
        [ "$name" != bench_generate ] || continue # a part of its own
        wanted "$name" "$@" || continue
        echo
        echo "== $name"
        "$program" 2>&1 || { echo "FAILED $name: exit status $?" && touch "$scratch/failed"; }
    done
}

# One line a call, so that a busy moment shows: the machine is as fast as its best line.
measure_gemm() {
    "$build/tests/bench/bench_gemm" --json 2>/dev/null | number gemm_gflops >>"$scratch/gemm"
}

# Keeps the fastest round of each in $scratch/anneal, /eager and /compile: one JSON object, or no file.
keep_faster() { # NAME, the object on stdin
    cat >"$scratch/new"
    if [ ! -f "$scratch/$1" ] || awk -v new="$(number step_ms <"$scratch/new")" \
        -v old="$(number step_ms <"$scratch/$1")" 'BEGIN { exit !(new < old) }'; then
        mv "$scratch/new" "$scratch/$1"
    fi
}

measure_anneal() {
    if "$build/anneal" bench step --json >"$scratch/out" 2>"$scratch/log"; then
        keep_faster anneal <"$scratch/out"
    elif grep -q 'no command "bench"' "$scratch/log"; then
        echo "MISSING anneal bench step: this build has no such command"
    else
        echo "FAILED anneal bench step: $(tail -n 1 "$scratch/log")"
        touch "$scratch/failed"
    fi
}

measure_torch() {
    if ! command -v "$python" >/dev/null; then
        echo "MISSING PyTorch: no $python on PATH (ANNEAL_BENCH_PYTHON names an interpreter)"
        return
    fi
    if ! "$python" "$here/torch_step.py" --threads "$OMP_NUM_THREADS" >"$scratch/out" 2>"$scratch/log"; then
        echo "FAILED torch_step.py: $(tail -n 1 "$scratch/log")"
        touch "$scratch/failed"
    fi
    local line mode
    while read -r line; do
        mode=$(sed -nE 's/.*"mode": "([a-z]+)".*/\1/p' <<<"$line")
        if [[ $line == *'"skip"'* ]]; then
            [[ $line != *"no PyTorch"* ]] || mode=eager,compile
            echo "MISSING torch $mode: $(sed -nE 's/.*"skip": "(.*)"\}$/\1/p' <<<"$line")"
        else
            keep_faster "$mode" <<<"$line"
        fi
    done <"$scratch/out"
}

# In turns, so that a busy moment of the machine affects all of them; a missing tool is reported once.
measure_steps() {
    local round
    for ((round = 1; round <= rounds; round++)); do
        measure_gemm
        measure_anneal
        measure_torch
    done | sort -u
    measure_gemm
}

compare_steps() {
    local who gemm
    gemm=$(sort -g "$scratch/gemm" | tail -n 1)
    declare -A ms rate rss title=([anneal]=anneal [eager]="torch eager" [compile]="torch compile")
    for who in anneal eager compile; do
        [ -f "$scratch/$who" ] || continue
        ms[$who]=$(number step_ms <"$scratch/$who")
        rate[$who]=$(number tokens_per_sec <"$scratch/$who")
        rss[$who]=$(number peak_rss_bytes <"$scratch/$who")
        row "${title[$who]}" "${ms[$who]:-0}" "${rate[$who]:-0}" "${rss[$who]:-0}"
    done
    [ -n "${rate[anneal]:-}" ] || return
    awk -v rate="${rate[anneal]}" -v parameters="$(number parameters <"$scratch/anneal")" -v gemm="${gemm:-0}" \
        -v own="$(number gemm_gflops <"$scratch/anneal")" 'BEGIN {
        gflops = rate * 6 * parameters / 1e9
        printf "  anneal: %.1f GFLOP/s on 6 N tokens (N %d)", gflops, parameters
        if (own > 0) printf ",\n    %.1f %% of the SGEMM timed between its steps (%.1f GFLOP/s)", 100 * gflops / own, own
        if (gemm > 0) printf ", %.1f %% of the best of bench_gemm (%.1f GFLOP/s)", 100 * gflops / gemm, gemm
        print ""
    }'
    for who in eager compile; do
        [ -n "${rate[$who]:-}" ] || continue
        echo "  anneal / torch $who: $(ratio "${rate[anneal]}" "${rate[$who]}") x tokens/s," \
            "$(ratio "${rss[anneal]:-}" "${rss[$who]:-}") x peak memory"
    done
}

# The peak memory (VmHWM) of a process that trains with AdamW; of PyTorch also without its libraries.
measure_memory() { # PRESET
    local preset=$1 ours line mode rss base
    if ! "$build/anneal" bench step --model.preset="$preset" --train.optimizer=adamw --train.batch_size=8 \
        --train.seq_len=256 --rounds=1 --json >"$scratch/out" 2>"$scratch/log"; then
        echo "FAILED anneal bench step: $(tail -n 1 "$scratch/log")"
        touch "$scratch/failed"
        return
    fi
    ours=$(number peak_rss_bytes <"$scratch/out")
    printf '  %-6s %-14s %8.0f MiB   (plan %.0f MiB, 48 MiB more for its own matrix product)\n' "$preset" anneal \
        "$(ratio "$ours" 1048576 3)" "$(ratio "$(number planned_bytes <"$scratch/out")" 1048576 3)"
    command -v "$python" >/dev/null || return
    "$python" "$here/torch_step.py" --threads "$OMP_NUM_THREADS" --preset "$preset" --optimizer adamw --batch 8 \
        --seq 256 --steps 2 --warmup 1 >"$scratch/out" 2>"$scratch/log" || true
    while read -r line; do
        mode=$(sed -nE 's/.*"mode": "([a-z]+)".*/\1/p' <<<"$line")
        if [[ $line == *'"skip"'* ]]; then
            echo "MISSING torch $mode: $(sed -nE 's/.*"skip": "(.*)"\}$/\1/p' <<<"$line")"
            continue
        fi
        rss=$(number peak_rss_bytes <<<"$line")
        base=$(number base_rss_bytes <<<"$line")
        printf '  %-6s %-14s %8.0f MiB   anneal / torch %s; without the %.0f MiB of its libraries %s\n' "$preset" \
            "torch $mode" "$(ratio "$rss" 1048576 3)" "$(ratio "$ours" "$rss")" "$(ratio "$base" 1048576 3)" \
            "$(ratio "$ours" "$((rss - base))")"
    done <"$scratch/out"
}

# Each interval in turn; of each the fastest of the medians, and the peak memory of its process.
compare_intervals() {
    local round interval
    for ((round = 1; round <= rounds; round++)); do
        for interval in 0 1; do
            if "$build/anneal" bench step --train.optimizer=adamw --train.batch_size=2 --train.seq_len=256 \
                --checkpoint.activation_interval=$interval --json >"$scratch/out" 2>"$scratch/log"; then
                keep_faster "interval-$interval" <"$scratch/out"
            else
                echo "FAILED anneal bench step: $(tail -n 1 "$scratch/log")"
                touch "$scratch/failed"
            fi
        done
    done
    for interval in 0 1; do
        [ -f "$scratch/interval-$interval" ] || return
        row "interval $interval" "$(number step_ms <"$scratch/interval-$interval")" \
            "$(number tokens_per_sec <"$scratch/interval-$interval")" \
            "$(number peak_rss_bytes <"$scratch/interval-$interval")"
    done
    echo "  1 / 0: $(ratio "$(number step_ms <"$scratch/interval-1")" "$(number step_ms <"$scratch/interval-0")") x time," \
        "$(ratio "$(number peak_rss_bytes <"$scratch/interval-1")" "$(number peak_rss_bytes <"$scratch/interval-0")") x peak memory;" \
        "planned $(ratio "$(($(number planned_bytes <"$scratch/interval-0") - $(number planned_bytes <"$scratch/interval-1")))" 1048576 1) MiB less"
}

# ---- ranks: processes of this machine that train together ----
rank_settings=(--device cpu --data.train=kjv --data.tokenizer=bytes --model.preset=tiny --model.vocab_size=256 --train.seq_len=256
    --eval.every=0 --checkpoint.every=0 --sample.every=0 --profile.every=0 --progress none)

# The median step in ms of a run, without its first steps, goes to $scratch/ranks as "NAME MS".
time_ranks() { # NAME RANKS THREADS BATCH [SETTING...]
    local name=$1 ranks=$2 threads=$3 batch=$4
    shift 4
    if ! "$build/anneal" train "${rank_settings[@]}" --ranks "$ranks" --train.threads="$threads" --train.batch_size="$batch" \
        --train.total_steps=16 "$@" >"$scratch/log" 2>&1; then
        echo "FAILED train --ranks $ranks: $(tail -n 1 "$scratch/log")"
        touch "$scratch/failed"
        return
    fi
    "$build/anneal" export latest --table steps -o - | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 && $at["step"] >= 4 { print $at["step_ms"] }' | sort -g | awk -v name="$name" '
        { ms[NR] = $1 } END { print name, ms[int((NR + 1) / 2)] }' >>"$scratch/ranks"
}

# What Open MPI counts that rank 0 sends to rank 1 in a run of so many steps.
count_bytes() { # STEPS
    OMPI_MCA_pml_monitoring_enable=2 OMPI_MCA_pml_monitoring_enable_output=3 OMPI_MCA_pml_monitoring_filename="$scratch/bytes" \
        "$build/anneal" train "${rank_settings[@]}" --ranks 2 --train.threads=1 --train.batch_size=2 --train.total_steps="$1" \
        >"$scratch/log" 2>&1 || return
    awk '$1 == "E" && $2 == 0 && $3 == 1 { print $4; exit }' "$scratch/bytes.0.prof" 2>/dev/null
}

measure_ranks() {
    local round few many
    for ((round = 1; round <= (rounds > 6 ? rounds : 6); round++)); do
        time_ranks one-2 1 2 8
        time_ranks two-1 2 1 8
        time_ranks two-1-beside 2 1 8 --world.overlap=true
        time_ranks two-1-whole 2 1 8 --world.shard=off
        time_ranks one-1 1 1 4
    done
    few=$(count_bytes 4) many=$(count_bytes 12)
    awk -v few="$few" -v many="$many" '
        { if (!($1 in ms) || $2 < ms[$1]) ms[$1] = $2; if ($2 > most[$1]) most[$1] = $2 }
        function show(title, name) { printf "  %-52s %8.1f ms a step (to %.1f)\n", title, ms[name], most[name] }
        END {
            show("1 rank of 2 threads, 8 sequences", "one-2")
            show("2 ranks of 1 thread, 8 sequences", "two-1")
            show("the same, world.overlap = true", "two-1-beside")
            show("the same, world.shard = off", "two-1-whole")
            show("1 rank of 1 thread, 4 sequences", "one-1")
            printf "  strong scaling: 2 ranks of 1 thread have %.2f x the speed of 1 rank of 2 threads\n", ms["one-2"] / ms["two-1"]
            printf "  weak scaling:   2 ranks take %.2f x the time of 1 with half of the sequences\n", ms["two-1"] / ms["one-1"]
            printf "  overlap:        %.2f x the speed without\n", ms["two-1"] / ms["two-1-beside"]
            if (few == "" || many == "") print "MISSING the bytes: this MPI does not count them (pml_monitoring)"
        }' "$scratch/ranks"
    [ -z "$few" ] || [ -z "$many" ] || compare_bytes "$(((many - few) / 8))"
}

# Each rank sends half of the gradients, and then half of the weights.
compare_bytes() { # BYTES
    local elements
    elements=$("$build/anneal" estimate --device cpu --model.preset=tiny --model.vocab_size=256 --json 2>/dev/null |
        sed -nE 's/.*"gradients": *([0-9]+).*/\1/p' | head -n 1)
    echo "  rank 0 sends $1 bytes a step; the theory of 2 (n - 1) / n x 4 bytes a parameter says $elements: $(ratio "$1" "$elements" 4) x"
}

# ---- generating ----
# Folders and GGUF files of the same random weights. A tokenizer is needed only to make the GGUF files.
write_models() {
    local element
    "$build/anneal" tokenizer train kjv --vocab 2048 -o "$scratch/tokenizer.json" >"$scratch/log" 2>&1 ||
        echo "MISSING llama.cpp: no tokenizer: $(tail -n 1 "$scratch/log")"
    for element in fp32 bf16; do
        "$build/tests/bench/bench_generate" --write "$scratch/$element" small $element || return 1
        [ -f "$scratch/tokenizer.json" ] || continue
        cp "$scratch/tokenizer.json" "$scratch/$element/"
    done
    export_gguf fp32 f32
    export_gguf bf16 bf16
    export_gguf bf16 f16
}

export_gguf() { # FOLDER TYPE
    "$build/anneal" model export "$scratch/$1" --gguf "$2" -o "$scratch/$2.gguf" >"$scratch/log" 2>&1 ||
        echo "MISSING llama.cpp $2: $(tail -n 1 "$scratch/log")"
}

# One JSON object a line in $scratch/generate, of every round and contestant.
measure_generating() {
    local round element type
    for ((round = 1; round <= rounds; round++)); do
        for element in fp32 bf16; do
            "$build/tests/bench/bench_generate" --json small $element
            run_peer transformers "$scratch/$element" $element
        done
        for type in f32 bf16 f16; do
            [ ! -f "$scratch/$type.gguf" ] || run_peer llama.cpp "$scratch/$type.gguf" $type
        done
    done >"$scratch/generate"
}

run_peer() { # WHO MODEL WEIGHTS
    command -v "$python" >/dev/null || return 0
    "$python" "$here/generate_peers.py" "$@" --threads "$OMP_NUM_THREADS" 2>"$scratch/log" ||
        echo "{\"who\": \"$1\", \"skip\": \"$(tail -n 1 "$scratch/log" | tr -d '"\\')\"}"
}

compare_generating() {
    sed -nE 's/.*"who": "([^"]*)", "skip": "(.*)"\}$/MISSING \1: \2/p' "$scratch/generate" | sort -u
    local line
    while read -r line; do
        [[ $line != *'"skip"'* ]] || continue
        printf '%s|%s|%s|%s|%s|%s\n' "$(sed -nE 's/.*"who": "([^"]*)".*/\1/p' <<<"$line")" \
            "$(sed -nE 's/.*"weights": "([^"]*)".*/\1/p' <<<"$line")" "$(number prefill <<<"$line")" \
            "$(number decode <<<"$line")" "$(number prefill_bound <<<"$line")" "$(number decode_bound <<<"$line")"
    done <"$scratch/generate" | awk -F'|' '
        { key = $1 "|" $2; if (!(key in prefill)) order[++count] = key }
        $3 > prefill[key] { prefill[key] = $3 + 0 }
        $4 > decode[key] { decode[key] = $4 + 0 }
        $5 > prefill_bound[key] { prefill_bound[key] = $5 + 0 }
        $6 > decode_bound[key] { decode_bound[key] = $6 + 0 }
        END {
            for (i = 1; i <= count; i++) {
                split(order[i], name, "|")
                printf "  %-42s %-4s %7.0f tokens/s of a prompt %7.1f next tokens/s", name[1], name[2], prefill[order[i]], decode[order[i]]
                if (decode_bound[order[i]] > 0)
                    printf "   %.0f %% and %.0f %% of the bounds", 100 * prefill[order[i]] / prefill_bound[order[i]],
                        100 * decode[order[i]] / decode_bound[order[i]]
                else {
                    own = "anneal|" (name[2] ~ /16/ ? "bf16" : "fp32")
                    printf "   anneal %.2f x and %.2f x", prefill[own] / prefill[order[i]], decode[own] / decode[order[i]]
                }
                print ""
            }
        }'
}

main() {
    print_machine
    unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
    [ -z "${ANNEAL_BENCH_CORETYPE:-}" ] || export OPENBLAS_CORETYPE=$ANNEAL_BENCH_CORETYPE
    run_programs "$@"
    if wanted step "$@"; then
        echo
        echo "== training step, preset tiny, batch 16 x 256, fp32, Lion; the fastest of $rounds medians"
        measure_steps
        compare_steps
    fi
    if wanted memory "$@"; then
        echo
        echo "== peak memory, AdamW, batch 8 x 256, fp32"
        measure_memory tiny
        measure_memory small
    fi
    if wanted interval "$@"; then
        echo
        echo "== checkpoint.activation_interval, preset tiny, AdamW, batch 2 x 256, fp32; the fastest of $rounds medians"
        compare_intervals
    fi
    if wanted ranks "$@" && [ -f "$build/anneal_mpi.so" ]; then
        echo
        echo "== ranks, preset tiny, AdamW, sequences of 256, fp32; the fastest of $rounds medians"
        measure_ranks
    fi
    if wanted generate "$@"; then
        echo
        echo "== generating, preset small, a prompt of 512 tokens and 64 more; the fastest of $rounds rounds"
        if write_models; then
            measure_generating
            compare_generating
        else
            echo "FAILED bench_generate" && touch "$scratch/failed"
        fi
    fi
    echo
    echo "load average after: $(cut -d' ' -f1-3 /proc/loadavg)"
}

main "$@" | tee "$build/bench.txt"
[ ! -f "$scratch/failed" ]
