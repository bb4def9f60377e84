# shellcheck shell=bash disable=SC2154
# The part of run.sh that compares recipes, run only where its name is given: each trains preset shakespeare on the King James
# Bible for the same time, with several seeds. run.sh reads this file; build and scratch are its variables.
#
#     ANNEAL_BENCH_MINUTES    of training, evaluations not counted (default 3)
#     ANNEAL_BENCH_SEEDS      how many (default 3)
#
# A run has as many steps as fit into the minutes, so that its schedule ends with them. The speed of all recipes is measured
# first, twice in turns, of which the faster counts: the losses do not depend on what else the machine does after that.

RECIPES=(
    "adamw, cosine|--train.learning_rate=3e-3"
    "lion, cosine|--train.optimizer=lion --train.learning_rate=5e-4"
    "muon, cosine|--train.optimizer=muon --train.learning_rate=6e-3"
    "quick|--train.recipe=quick"
    "quick, with half the rate|--train.recipe=quick --train.learning_rate=1.5e-3"
    "quick, with twice the rate|--train.recipe=quick --train.learning_rate=6e-3"
    "quick, with adamw|--train.recipe=quick --train.optimizer=adamw --train.learning_rate=3e-3"
    "quick, without model.qk_norm|--train.recipe=quick --model.qk_norm=false"
    "quick, with 5 iterations|--train.recipe=quick --muon.iterations=5"
    "quick, with quintic|--train.recipe=quick --muon.coefficients=quintic"
    "quick, with model.zero_outputs|--train.recipe=quick --model.zero_outputs=true"
    "quick, ending at a hundredth of the rate|--train.recipe=quick --train.min_lr_factor=0.01"
)

part_recipe() {
    local minutes=${ANNEAL_BENCH_MINUTES:-3} seeds=${ANNEAL_BENCH_SEEDS:-3} seed loss i ms optimizer settings step_ms=()
    for i in "${!RECIPES[@]}" "${!RECIPES[@]}"; do
        optimizer=adamw # `bench step` has others as its defaults
        [[ ${RECIPES[i]} != *=quick* ]] || optimizer=muon
        read -ra settings <<<"${RECIPES[i]#*|}"
        ms=$("$build/anneal" bench step --json --model.preset=shakespeare --model.vocab_size=2048 \
            --train.precision=auto --train.optimizer=$optimizer "${settings[@]}" 2>"$scratch/log" | number step_ms)
        [ -n "$ms" ] || { failed "anneal bench step: $(tail -n 1 "$scratch/log")" && return; }
        step_ms[i]=$(printf '%s\n' "$ms" ${step_ms[i]:+"${step_ms[i]}"} | sort -n | head -n 1)
    done
    echo "| preset shakespeare on kjv, $minutes minute$([ "$minutes" = 1 ] || echo s) | step | steps | validation loss | of the seeds |"
    echo "| --- | --- | --- | --- | --- |"
    for i in "${!RECIPES[@]}"; do
        read -ra settings <<<"${RECIPES[i]#*|}"
        settings+=("--train.total_steps=$(awk -v ms="${step_ms[i]}" -v minutes="$minutes" \
            'BEGIN { printf "%.0f", minutes * 60e3 / ms }')")
        : >"$scratch/losses"
        for ((seed = 1; seed <= seeds; seed++)); do
            loss=$(train_recipe "recipe-$seed" "--train.seed=$seed" "${settings[@]}")
            [ -n "$loss" ] || { failed "anneal train: $(tail -n 1 "$scratch/log")" && return; }
            echo "$loss" >>"$scratch/losses"
        done
        sort -n "$scratch/losses" | awk -v name="${RECIPES[i]%%|*}" -v ms="${step_ms[i]}" -v steps="${settings[-1]#*=}" '
            { sum += $1; loss[NR] = $1 }
            END { printf "| %s | %.0f ms | %d | %.3f | %.3f–%.3f |\n", name, ms, steps, sum / NR, loss[1], loss[NR] }'
    done
}

# Prints the lowest validation loss, over all of the text that is held out.
train_recipe() { # NAME SETTING...
    local name=$1
    shift
    "$build/anneal" train --name "$name" --eval.every=100 --eval.early=false --eval.batches=0 --sample.every=0 \
        --sample.early=false --checkpoint.every=0 --checkpoint.contents=weights "$@" >"$scratch/log" 2>&1 &&
        "$build/anneal" show "$name" --json | number best_val_loss
}
