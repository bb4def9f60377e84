# shellcheck shell=bash disable=SC2154
# The part of run.sh that times generating with preset small: anneal against its bounds (bench_generate), and where they are
# installed transformers and llama.cpp with the same weights. Of each, the fastest of its rounds. run.sh reads this file;
# build, python, here, rounds, threads and scratch are its variables.

part_generate() {
    if write_models; then
        measure_generating
        compare_generating
    else
        failed "bench_generate: $(tail -n 1 "$scratch/log")"
    fi
}

# Folders and GGUF files of the same random weights. A tokenizer is needed only to make the GGUF files.
write_models() {
    local element
    "$build/anneal" tokenizer train kjv --vocab 2048 -o "$scratch/tokenizer.json" >"$scratch/log" 2>&1 ||
        missing "llama.cpp: no tokenizer: $(tail -n 1 "$scratch/log")"
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
        missing "llama.cpp $2: $(tail -n 1 "$scratch/log")"
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
    "$python" "$here/generate_peers.py" "$@" --threads "$threads" 2>"$scratch/log" ||
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
