# shellcheck shell=bash disable=SC2154
# The parts of run.sh that time training: start, step, presets, threads, growth, llmc, interval. run.sh reads this file;
# build, python, here, rounds, cores, threads and scratch are its variables.
#
# Where the processor has no instruction for bf16, only fp32 is measured: both programs would compute in fp32, PyTorch many
# times more slowly.
#
# A measurement is a line "NAME {JSON}" of $scratch/PART; tables.awk makes the tables.

has_bf16() { # reported once if not
    grep -qw -e avx512_bf16 -e amx_bf16 /proc/cpuinfo && return
    missing "bf16: this processor has no instructions for it"
    return 1
}

# One line of a tool's JSON, after the name of the measurement.
record() { # PART NAME, the object on stdin
    printf '%s %s\n' "$2" "$(tr '\n' ' ')" >>"$scratch/$1"
}

run_anneal() { # PART NAME SETTING...
    local part=$1 name=$2
    shift 2
    [[ $* != *=bf16* ]] || has_bf16 || return 0
    if "$build/anneal" bench step --json "$@" >"$scratch/out" 2>"$scratch/log"; then
        record "$part" "$name" <"$scratch/out"
    else
        failed "anneal bench step: $(tail -n 1 "$scratch/log")"
    fi
}

# PyTorch eager and compiled, in one precision; what cannot run is reported once.
run_torch() { # PART NAME PRECISION OPTION...
    local part=$1 name=$2 precision=$3 line mode
    shift 3
    [ "$precision" != bf16 ] || has_bf16 || return 0
    if ! command -v "$python" >/dev/null; then
        missing "PyTorch: no $python on PATH (ANNEAL_BENCH_PYTHON names an interpreter)"
        return
    fi
    "$python" "$here/torch_step.py" --threads "$threads" --precision "$precision" "$@" >"$scratch/out" 2>"$scratch/log" ||
        failed "torch_step.py: $(tail -n 1 "$scratch/log")"
    while read -r line; do
        mode=$(sed -nE 's/.*"mode": "([a-z]+)".*/\1/p' <<<"$line")
        if [[ $line == *'"no PyTorch'* ]]; then
            missing "PyTorch: $(sed -nE 's/.*"skip": "(.*)"\}$/\1/p' <<<"$line")"
        elif [[ $line == *'"skip"'* ]]; then
            missing "torch $mode in $precision: $(sed -nE 's/.*"skip": "(.*)"\}$/\1/p' <<<"$line")"
        else
            record "$part" "$name$mode-$precision" <<<"$line"
        fi
    done <"$scratch/out"
}

table() { # PART
    [ ! -s "$scratch/$1" ] || awk -v part="$1" -v cores="$cores" -f "$here/tables.awk" "$scratch/$1"
}

# ---- the start of a run ----
# From the command to the line "run NAME: ...", after which the first step begins. The first run makes the tokenizer and the
# tokens, and is not counted.
part_start() {
    local i begin line
    for ((i = 0; i <= 5; i++)); do
        begin=$EPOCHREALTIME
        while read -r line; do
            [[ $line != "run "* ]] || echo "$begin $EPOCHREALTIME"
        done < <("$build/anneal" train --train.total_steps=1 --eval.batches=1 --eval.early=false --sample.every=0 \
            --sample.early=false 2>&1) >"$scratch/out"
        [ -s "$scratch/out" ] || { failed "anneal train: $line" && return; }
        [ $i -eq 0 ] || cat "$scratch/out" >>"$scratch/start"
    done
    awk '{ print 1e3 * ($2 - $1) }' "$scratch/start" | sort -n |
        awk '{ ms[NR] = $1 } END { printf "preset shakespeare on kjv: %.0f ms to the first step (%.0f to %.0f)\n", ms[3], ms[1], ms[5] }'
}

# ---- one step, against PyTorch ----
STEPS=6 # measured ones, after two that warm up: the losses of all are those after eight steps

part_step() {
    local round
    for ((round = 1; round <= rounds; round++)); do
        run_anneal step anneal-fp32 --rounds=$STEPS
        run_anneal step anneal-bf16 --train.precision=bf16 --rounds=$STEPS
        run_torch step "" fp32 --steps $STEPS --warmup 2
        run_torch step "" bf16 --steps $STEPS --warmup 2
    done
    table step
}

# ---- presets: share of the product, and memory against PyTorch ----
# GPT-2's shape with a gated feed-forward layer: three matrices of 2,048 have the size of its two of 3,072.
GPT2=(--model.preset=tiny --model.vocab_size=50257 --model.hidden_dim=768 --model.num_layers=12 --model.num_heads=12
    --model.intermediate_dim=2048)

part_presets() {
    local preset batch model torch
    for preset in tiny shakespeare small gpt2; do
        batch=8 model=("--model.preset=$preset")
        [ $preset != gpt2 ] || batch=4 model=("${GPT2[@]}")
        model+=(--train.optimizer=adamw "--train.batch_size=$batch" --train.seq_len=256 --rounds=4)
        run_anneal presets "$preset/$batch/anneal-fp32" "${model[@]}"
        run_anneal presets "$preset/$batch/anneal-bf16" --train.precision=bf16 "${model[@]}"
        torch=(--preset "$preset" --optimizer adamw --batch "$batch" --seq 256 --steps 2 --warmup 1)
        run_torch presets "$preset/$batch/" fp32 "${torch[@]}"
        run_torch presets "$preset/$batch/" bf16 "${torch[@]}" --modes compile
    done
    table presets
}

# ---- threads ----
part_threads() {
    local round n all
    all=$(for ((n = 1; n < threads; n *= 2)); do echo $n; done && echo "$threads")
    for ((round = 1; round <= rounds; round++)); do
        for n in $all; do
            run_anneal threads "fp32/$n" --train.threads="$n" --rounds=5
            run_anneal threads "bf16/$n" --train.precision=bf16 --train.threads="$n" --rounds=5
        done
    done
    table threads
}

# ---- cost as work grows ----
# From T 128, L 2, B 2, V 2048 one size doubles at a time, V from 8,192: below, other buffers than the logits need more memory.
# The fastest step counts, so at least three rounds. Threads may be more than cores, for their memory; tables.awk leaves out
# the times of these.
part_growth() {
    local round value
    for ((round = 1; round <= (rounds > 3 ? rounds : 3); round++)); do
        for value in 128 256 512 1024 2048; do run_growth T $value --train.seq_len=$value; done
        for value in 2 4 8 16 32; do run_growth L $value --model.num_layers=$value; done
        for value in 2 4 8 16 32; do run_growth B $value --train.batch_size=$value; done
        for value in 8192 16384 32768 65536 131072; do run_growth V $value --model.vocab_size=$value; done
        for value in 1 2 4 8; do run_growth threads $value --train.batch_size=16 --train.threads=$value; done
    done
    table growth
}

run_growth() { # VARIABLE VALUE SETTING...
    local name=$1/$2
    shift 2
    run_anneal growth "$name" --model.hidden_dim=128 --model.num_heads=2 --model.intermediate_dim=352 \
        --model.vocab_size=2048 --model.num_layers=2 --model.max_seq_len=4096 --train.batch_size=2 --train.seq_len=128 \
        --train.optimizer=adamw --rounds=5 "$@"
}

# ---- llm.c ----
# Its trainer has a fixed batch of 4 x 64. It is built and run in a copy, with files of random weights and tokens. It takes a
# minute, so at most two rounds.
part_llmc() {
    local checkout=${ANNEAL_BENCH_LLMC:-} folder=$scratch/llm.c round
    local model=("${GPT2[@]}" --train.optimizer=adamw --train.batch_size=4 --train.seq_len=64 --rounds=5)
    if [ ! -f "$checkout/train_gpt2.c" ]; then
        missing "llm.c: ANNEAL_BENCH_LLMC names no checkout"
    elif ! command -v "$python" >/dev/null; then
        missing "llm.c: no $python on PATH, which writes its files"
    elif ! build_llmc "$checkout" "$folder" >"$scratch/log" 2>&1; then
        missing "llm.c: it does not build: $(grep -m 1 -iE 'error|not found' "$scratch/log")"
    elif ! "$python" "$here/llmc_files.py" "$folder" 2>"$scratch/log"; then
        failed "llmc_files.py: $(tail -n 1 "$scratch/log")"
    fi
    echo "  llm.c: commit $(git -C "$checkout" rev-parse --short HEAD 2>/dev/null || echo unknown), $(${CC:-cc} --version | head -n 1)"
    for ((round = 1; round <= (rounds < 2 ? rounds : 2); round++)); do
        [ -f "$folder/gpt2_124M.bin" ] || break
        run_anneal llmc anneal-fp32 "${model[@]}"
        run_anneal llmc anneal-bf16 --train.precision=bf16 "${model[@]}"
        run_llmc "$folder"
    done
    rm -rf "$folder"
    table llmc
}

build_llmc() { # CHECKOUT FOLDER
    mkdir -p "$2" && cp -r "$1/train_gpt2.c" "$1/llmc" "$1/Makefile" "$2/" && make -C "$2" train_gpt2
}

# The program trains 40 steps and writes samples: four steps are enough, of which the first allocates. The shell of its own
# ends it, also where run.sh is interrupted.
run_llmc() ( # FOLDER
    steps=4
    : >"$scratch/llmc.log" # of an earlier round
    (cd "$1" && exec stdbuf -oL ./train_gpt2) >"$scratch/llmc.log" 2>&1 &
    pid=$!
    trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null' EXIT
    while kill -0 $pid 2>/dev/null && [ "$(grep -c '^step ' "$scratch/llmc.log")" -lt $steps ]; do sleep 0.5; done
    peak=$(awk '/^VmHWM/ { printf "%.0f", 1024 * $2 }' "/proc/$pid/status" 2>/dev/null)
    sed -nE 's/^step ([0-9]+): train loss ([0-9.]+) \(took ([0-9.]+) ms\).*/\1 \2 \3/p' "$scratch/llmc.log" |
        head -n $steps | awk -v peak="${peak:-0}" '
            NR == 1 { first = $2; next }
            { ms[NR - 1] = $3; last = $2 }
            END {
                n = NR - 1
                if (n < 3) exit 1
                for (i = 2; i <= n; i++) for (k = i; k > 1 && ms[k] < ms[k - 1]; k--) { x = ms[k]; ms[k] = ms[k - 1]; ms[k - 1] = x }
                printf "{\"step_ms\": %.1f, \"step_ms_min\": %.1f, \"step_ms_max\": %.1f, \"tokens_per_sec\": %.1f, ", \
                    ms[2], ms[1], ms[3], 256e3 / ms[2]
                printf "\"first_loss\": %s, \"last_loss\": %s, \"peak_rss_bytes\": %.0f}\n", first, last, peak
            }' >"$scratch/out" || { failed "llm.c: $(tail -n 1 "$scratch/llmc.log")" && return; }
    record llmc llmc <"$scratch/out"
)

# ---- checkpoint.activation_interval ----
part_interval() {
    local round interval
    for ((round = 1; round <= rounds; round++)); do
        for interval in 0 1; do
            run_anneal interval "interval/$interval" --train.optimizer=adamw --train.batch_size=2 \
                --train.seq_len=256 --checkpoint.activation_interval=$interval
        done
    done
    table interval
}
