# shellcheck shell=bash disable=SC2154
# The part of run.sh that times ranks: processes of this machine that train together and share its cores. Of each, the fastest
# of at least six medians, with the slowest behind it. run.sh reads this file; build, rounds and scratch are its variables.

rank_settings=(--device cpu --data.train=kjv --data.tokenizer=bytes --model.preset=tiny --model.vocab_size=256 --train.seq_len=256
    --eval.every=0 --checkpoint.every=0 --sample.every=0 --profile.every=0 --progress none)

# The median step in ms of a run, without its first steps, goes to $scratch/ranks as "NAME MS".
time_ranks() { # NAME RANKS THREADS BATCH [SETTING...]
    local name=$1 ranks=$2 threads=$3 batch=$4
    shift 4
    if ! "$build/anneal" train "${rank_settings[@]}" --ranks "$ranks" --train.threads="$threads" --train.batch_size="$batch" \
        --train.total_steps=16 "$@" >"$scratch/log" 2>&1; then
        failed "train --ranks $ranks: $(tail -n 1 "$scratch/log")"
        return
    fi
    "$build/anneal" export latest --table steps -o - | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 && $at["step"] >= 4 { print $at["step_ms"] }' | sort -g | awk -v name="$name" '
        { ms[NR] = $1 } END { print name, ms[int((NR + 1) / 2)] }' >>"$scratch/ranks"
}

# Prints the bytes that rank 0 sends to rank 1 in a run of so many steps, as Open MPI counts them.
count_bytes() { # STEPS
    OMPI_MCA_pml_monitoring_enable=2 OMPI_MCA_pml_monitoring_enable_output=3 OMPI_MCA_pml_monitoring_filename="$scratch/bytes" \
        "$build/anneal" train "${rank_settings[@]}" --ranks 2 --train.threads=1 --train.batch_size=2 --train.total_steps="$1" \
        >"$scratch/log" 2>&1 || return
    awk '$1 == "E" && $2 == 0 && $3 == 1 { print $4; exit }' "$scratch/bytes.0.prof" 2>/dev/null
}

part_ranks() {
    if [ ! -f "$build/anneal_mpi.so" ]; then
        missing "ranks: this build has no MPI plugin"
        return
    fi
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
