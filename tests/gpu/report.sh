#!/usr/bin/env bash
# One command that answers everything about anneal on a GPU, in one report and in less than ten minutes.
#
#     tests/gpu/report.sh [--programs FOLDER] [--seconds N] [REPORT]      default REPORT: gpu-report.txt
#
# Needs bash, an NVIDIA GPU with its driver, and libcublasLt; PyTorch (ANNEAL_BENCH_PYTHON, default python3), compute-sanitizer
# and ncu are used where they are. The programs are those of FOLDER: that of this script in a bundle (make bundle), in a
# source folder build/gpu, where tests/gpu/build.sh builds them first if they are missing.
#
# Parts, each with a limit of its own: the machine; results of all operations against the CPU; the four tools of compute-sanitizer;
# speeds and steps, judged (gpu_check.c says by what); a short training with a bundle's anneal, and its profile; PyTorch's steps
# beside ours; ncu on the ten heaviest kernels. Every
# line is written to REPORT as soon as it is known, so a run that is cut off leaves what it has. A line begins with ok,
# FAIL, or SKIP with the reason. N (default 570): nothing goes on after so many seconds. Exit status: 0 if something was
# judged and nothing failed, 1 after a FAIL, 2 if nothing was judged.
set -u
here=$(cd "$(dirname "$0")" && pwd)
programs='' seconds=570 report=
while [ $# -gt 0 ]; do
    case $1 in
    --programs) programs=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    -*) sed -n 's/^#     \(tests.*\)/usage: \1/p' "$0" >&2 && exit 2 ;;
    *) report=$1 ;;
    esac
    shift
done
report=${report:-gpu-report.txt}
end=$((SECONDS + seconds))
python=${ANNEAL_BENCH_PYTHON:-python3}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
PATH=$PATH:${CUDA_HOME:=/usr/local/cuda}/bin:$CUDA_HOME/compute-sanitizer
: >"$report" || exit 2

say() { echo "$*" | tee -a "$report"; }

# $1: a limit. What is left of it, in `left`; false if nothing is.
time_left() {
    left=$((end - SECONDS))
    [ "$left" -lt "$1" ] || left=$1
    [ "$left" -ge 5 ]
}

# NAME LIMIT COMMAND...: the output of a part; FAIL if it does not come to its end.
part() {
    local name=$1 limit=$2 code
    shift 2
    say "== $name"
    if ! time_left "$limit"; then say "SKIP $name: the time is over" && return; fi
    timeout -k 5 "$left" "$@" 2>&1 | tee -a "$report"
    code=${PIPESTATUS[0]}
    case $code in
    0 | 1) ;; # 1: after its own FAIL
    124 | 137) say "FAIL $name: no end after $left seconds" ;;
    *) say "FAIL $name: exit status $code" ;;
    esac
}

# NAME LIMIT ARGUMENT...: a part that is gpu_check, which begins nothing new when its time is nearly over.
judged() {
    local name=$1 limit=$2
    shift 2
    time_left "$limit"
    part "$name" "$limit" "$programs/gpu_check" "$@" --seconds $((left > 60 ? left - 20 : left * 2 / 3))
}

# ---- the programs ----
find_plugin() {
    for plugin in "${ANNEAL_CUDA_PLUGIN:-}" "$programs/../bin/anneal_cuda.so" "$programs/anneal_cuda.so"; do
        if [ -f "$plugin" ]; then return 0; fi
    done
    false
}
find_programs() {
    if [ -z "$programs" ] && [ -x "$here/gpu_check" ]; then programs=$here; fi
    programs=$(realpath -m "${programs:-$here/../../build/gpu}")
    if [ -f "$here/build.sh" ] && ! { [ -x "$programs/gpu_check" ] && find_plugin; }; then
        part 'building gpu_check' 400 "$here/build.sh" "$programs"
    fi
    [ -x "$programs/gpu_check" ] || { say "FAIL the programs: there is no $programs/gpu_check" && exit 1; }
    find_plugin || say "SKIP the plugin: there is no $plugin"
    export ANNEAL_CUDA_PLUGIN=$plugin
    # where the toolkit's is missing, PyTorch's package has the library
    if ldd "$plugin" 2>/dev/null | grep -q 'libcublasLt.*not found'; then
        while read -r folder; do
            for folder in "$folder"/nvidia/cu13/lib "$folder"/nvidia/cublas/lib; do
                [ ! -e "$folder/libcublasLt.so.13" ] || export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            done
        done < <("$python" -c 'import sys; print("\n".join(sys.path))' 2>/dev/null)
    fi
}

machine() {
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.sm,power.limit,temperature.gpu --format=csv ||
        echo 'no nvidia-smi'
    nvcc --version 2>/dev/null | tail -n 2 || echo 'no nvcc'
    "$python" -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null || echo "no PyTorch in $python"
    uname -srm
    nproc
}

# ---- compute-sanitizer ----
# All four at once: nothing is timed.
sanitize() {
    local tool code
    say '== compute-sanitizer'
    if ! command -v compute-sanitizer >/dev/null; then
        say 'SKIP compute-sanitizer: it is not installed (part of the CUDA Toolkit)'
        return
    fi
    if ! time_left 90; then say 'SKIP compute-sanitizer: the time is over' && return; fi
    for tool in memcheck racecheck initcheck synccheck; do
        {
            timeout -k 5 "$left" compute-sanitizer --tool $tool --error-exitcode 9 \
                "$programs/gpu_check" --no-timing --small --shapes 2 --seconds $((left - 20)) >"$scratch/$tool" 2>&1
            echo $? >"$scratch/$tool.code"
        } &
    done
    wait
    for tool in memcheck racecheck initcheck synccheck; do
        code=$(cat "$scratch/$tool.code")
        if grep -qE '^=+ (Invalid|Misaligned|Error:|Uninitialized|Race|Barrier error|Program hit)' "$scratch/$tool" || [ "$code" -eq 9 ]; then
            grep -E '^=' "$scratch/$tool" | head -n 60 | tee -a "$report"
            say "FAIL compute-sanitizer $tool"
        elif [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
            say "SKIP compute-sanitizer $tool: no end after $left seconds; no error until then"
        elif [ "$code" -ne 0 ]; then
            tail -n 20 "$scratch/$tool" | tee -a "$report"
            say "FAIL compute-sanitizer $tool: exit status $code"
        elif grep -q '^ok ' "$scratch/$tool"; then
            say "ok   compute-sanitizer $tool: $(tail -n 20 "$scratch/$tool" | grep -E '^[0-9]+ passed')"
        else
            say "SKIP compute-sanitizer $tool: $(grep -m 1 '^SKIP' "$scratch/$tool" || echo 'no check ran')"
        fi
    done
}

# ---- a training ----
# The product itself, which a bundle has, and where its time goes: to be compared with docs/reference/roofline.md.
train() {
    local anneal=$programs/../bin/anneal
    say '== a training with anneal'
    if [ ! -x "$anneal" ]; then say "SKIP a training: there is no $anneal (make bundle has one)" && return; fi
    if ! time_left 60; then say 'SKIP a training: the time is over' && return; fi
    export ANNEAL_HOME=$scratch/home ANNEAL_LEDGER=$scratch/home
    if timeout -k 5 "$left" "$anneal" train --name gpu-check --device cuda --progress plain --model.preset=gpt2-124m-shape \
        --model.vocab_size=50304 --data.tokenizer=bytes --train.batch_size=32 --train.seq_len=1024 --train.optimizer=adamw \
        --train.total_steps=65 --profile.every=10 --eval.every=0 --sample.every=0 >"$scratch/train" 2>&1; then
        "$anneal" show gpu-check --profile 2>&1 | tee -a "$report"
        say "ok   a training: $(tail -n 1 "$scratch/train")"
    else
        tail -n 20 "$scratch/train" | tee -a "$report"
        say 'FAIL a training'
    fi
}

# ---- ncu ----
# The heaviest kernels that gpu_check has listed, by the name of their function.
profile() {
    local name
    say '== ncu'
    if ! command -v ncu >/dev/null; then say 'SKIP ncu: it is not installed (Nsight Compute, part of the CUDA Toolkit)' && return; fi
    sed -nE 's/^ +heaviest +[0-9]+:.* occupancy: //p' "$report" | sed -E 's/^void //; s/[<(].*//; s/.*:://' | awk '!seen[$0]++' >"$scratch/kernels"
    [ -s "$scratch/kernels" ] || say 'SKIP ncu: gpu_check has listed no kernels'
    while read -r name; do
        if ! time_left 30; then say "SKIP ncu $name: the time is over" && continue; fi
        timeout -k 5 "$left" ncu --kernel-name "regex:^$name\$" --launch-skip 2 --launch-count 1 --kill yes \
            --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy --section LaunchStats --section WarpStateStats \
            "$programs/gpu_check" --no-results --no-torch --only kernels >"$scratch/ncu" 2>&1 </dev/null
        if grep -q ERR_NVGPUCTRPERM "$scratch/ncu"; then
            say 'SKIP ncu: this user may not read the counters (ERR_NVGPUCTRPERM)'
            return
        elif grep -q 'Section:' "$scratch/ncu"; then
            say "     ncu $name"
            sed -n '/Section:/,$p' "$scratch/ncu" | tee -a "$report"
        else
            say "SKIP ncu $name: $(tail -n 1 "$scratch/ncu")"
        fi
    done <"$scratch/kernels"
}

find_programs
export -f machine
export python
part 'the machine' 15 bash -c machine
judged 'results' 130 --no-timing --shapes 30
sanitize
judged 'speeds and steps' 140 --no-results --no-torch
train
judged 'PyTorch' 240 --no-results --only torch
profile
passed=$(grep -c '^ok ' "$report") failed=$(grep -c '^FAIL ' "$report") skipped=$(grep -c '^SKIP ' "$report")
say "== $passed passed, $failed failed, $skipped skipped, after $SECONDS s"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 2
