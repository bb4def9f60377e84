#!/usr/bin/env bash
# make bench: how fast this machine trains and generates, beside PyTorch, llm.c, transformers and llama.cpp where it has them.
#
#     tests/bench/run.sh [BUILD] [NAME...]      all parts, or those whose name contains a NAME
#
#     bench_*     the benchmark programs of BUILD (default build), one by one
#     start       from the command to the first step
#     step        a training step in fp32 and bf16, beside PyTorch eager and compiled
#     presets     larger models: share of a large matrix product, peak memory beside PyTorch
#     threads     the same step on 1 thread and more
#     growth      time and memory as T, L, B, V and threads grow, with their exponents
#     llmc        a step of 124 M parameters beside llm.c's CPU trainer
#     interval    what checkpoint.activation_interval costs and saves
#     ranks       processes that share the cores
#     generate    generating, beside transformers and llama.cpp
#     recipe      losses of several recipes after the same time; only where it is named, as it takes more than an hour
#
# Programs that are compared run in turns on the same threads. The tables of training are Markdown, with medians and the spread
# of the rounds. docs/benchmarks.md holds such results and says how to read them.
#
#     OMP_NUM_THREADS         threads (default: all cores)
#     ANNEAL_BENCH_ROUNDS     rounds (default 2)
#     ANNEAL_BENCH_PYTHON     the Python that has PyTorch (default python3)
#     ANNEAL_BENCH_LLMC       a checkout of llm.c; it is copied and built elsewhere
#
# "MISSING ..." names a tool that is not there. The exit status is 1 only if a measurement fails. The output is also in
# BUILD/bench.txt.
set -u
build=${1:-build}
shift || true
# shellcheck disable=SC2034 # the files read below use it
python=${ANNEAL_BENCH_PYTHON:-python3}
rounds=${ANNEAL_BENCH_ROUNDS:-2}
cores=$(env -u OMP_NUM_THREADS nproc)
threads=${OMP_NUM_THREADS:-$cores}
here=$(dirname "$0")
export OMP_NUM_THREADS=$threads LC_ALL=C.UTF-8
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export ANNEAL_HOME="$scratch/home" ANNEAL_LEDGER="$scratch/home"
mkdir -p "$ANNEAL_HOME"

# ---- for all parts ----
missing() { # once
    grep -qxF "$*" "$scratch/missing" 2>/dev/null && return
    echo "$*" >>"$scratch/missing"
    echo "MISSING $*"
}

failed() {
    echo "FAILED $*"
    touch "$scratch/failed"
}

number() { # KEY: the number of that key in the JSON object on stdin, or nothing
    tr '\n' ' ' | sed -nE "s/.*\"$1\": *(-?[0-9][0-9.eE+-]*).*/\1/p"
}

ratio() { # A B [DIGITS]: A / B, or "-" when one is missing
    awk -v a="$1" -v b="$2" -v digits="${3:-2}" 'BEGIN { if (a == "" || b == "" || b + 0 == 0) print "-"; else printf "%.*f\n", digits, a / b }'
}

. "$here/training.sh"
. "$here/ranks.sh"
. "$here/generating.sh"
. "$here/recipe.sh"

print_machine() {
    echo "machine: $(sed -nE 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)," \
        "$cores cores, $(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)," \
        "$(sed -nE 's/^PRETTY_NAME="?([^"]*)"?/\1/p' /etc/os-release 2>/dev/null), $(uname -srm)"
    echo "anneal: $("$build/anneal" --version | head -n 1)"
    echo "threads: $threads; rounds: $rounds; load average before: $(cut -d' ' -f1-3 /proc/loadavg)"
}

# ---- parts ----
wanted() { # NAME WORD...: no words, or one of them is part of the name
    local name=$1 word
    shift
    [ $# -eq 0 ] && return 0
    for word in "$@"; do [[ $name == *"$word"* ]] && return 0; done
    return 1
}

run_programs() {
    local program name
    for program in "$build"/tests/bench/bench_*; do
        if [ ! -x "$program" ] || [[ $program == *.[od] ]]; then continue; fi
        name=$(basename "$program")
        [ "$name" != bench_generate ] || continue # part of `generate`
        wanted "$name" "$@" || continue
        echo
        echo "== $name"
        "$program" 2>&1 || failed "$name: exit status $?"
    done
}

main() {
    local part
    print_machine
    # bench_gemm compares with OpenBLAS's own choice of kernels. Its idle threads would spin on the cores of anneal's.
    unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
    export OPENBLAS_THREAD_TIMEOUT=4
    run_programs "$@"
    for part in start step presets threads growth llmc interval ranks generate recipe; do
        wanted $part "$@" || continue
        if [ $part = recipe ] && [ $# -eq 0 ]; then continue; fi
        echo
        echo "== $part"
        SECONDS=0
        part_$part
        echo "  ($SECONDS s)"
    done
    echo
    echo "load average after: $(cut -d' ' -f1-3 /proc/loadavg)"
}

main "$@" | tee "$build/bench.txt"
[ ! -f "$scratch/failed" ]
