#!/usr/bin/env bash
# Runs the test programs of BUILD (default build) and the test scripts of tests/ in parallel, JOBS at a time (default: the
# number of cores). Prints one line per program in the order of their names, the output of those that fail, and at the end
# "N passed, N failed, N skipped". Further arguments select the programs whose path contains one of them; runs/test_run$ is
# this one alone. LONG=1 runs the long version of soak and crash tests; SOAK=N lets tui/view/test_soak go on for N minutes.
# TIMEOUT=SECONDS ends a program earlier than the usual quarter of an hour.
#
# A program that leaves a process behind fails. With RETRY=1 the programs that failed run once more at the end, one at a time:
# those that pass now are named and count as passed. It is for machines that others keep busy, where a test may wait too short
# a time for something. More than RETRY_MOST failures are no accident: then none is tried again.
set -u
RETRY_MOST=5
export build=${1:-build}
shift || true
export ANNEAL_BINARY="$PWD/$build/anneal"
export ANNEAL_TEST_LONG=${LONG:-}
export seconds=$((900 + 60 * ${SOAK:-0})) # a program may take
[ -z "${LONG:-}" ] || seconds=$((seconds + 4500))
export LC_ALL=C.UTF-8
export ANNEAL_CUDA_PLUGIN=none # the same on every machine; the tests in tests/cuda_sim set their own
export OMP_WAIT_POLICY=passive # tests do many small steps: spinning threads would only block each other
export OMP_NUM_THREADS=2       # sums are in the same order on every machine
# the tests check how an allocation that is too large is reported, so it must not end them
export ASAN_OPTIONS=allocator_may_return_null=1
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
if [[ $build == *-tsan ]]; then # OpenMP's library is not instrumented: the sanitizer would not see its barriers
    export OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1
    export TSAN_OPTIONS=die_after_fork=0:allocator_may_return_null=1
fi
scratch=$(mktemp -d) || exit 1
export scratch memory=
# Tests sync what they write, for which a disk takes most of their time: in memory, then, unless TMPDIR names a place, where
# there are 4 GB of it and programs can be started there.
if [ -z "${TMPDIR:-}" ] && [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null &&
    ! grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts; then
    memory=$(mktemp -d -p /dev/shm)
fi

# A program built with clang that is killed leaves a file /dev/shm/__KMP_REGISTERED_LIB_PID_UID behind, in which clang's
# OpenMP library registers itself. Those made since the start go when their process has ended.
registrations() { find /dev/shm -maxdepth 1 -user "$(id -u)" -name '__KMP_REGISTERED_LIB_*' 2>/dev/null | sort; }
registrations >"$scratch/registered"
# Of a run that is killed, xargs and all that it started would go on: they have "scratch" in their environment, this shell
# does not. Twice, as one of them may be starting another.
finish() {
    local left
    for _ in 1 2; do
        left=$(own=$scratch && unset scratch && grep -lzsxF "scratch=$own" /proc/[0-9]*/environ | cut -d/ -f3)
        [ -z "$left" ] || kill -9 $left 2>/dev/null
    done
    registrations | comm -13 "$scratch/registered" - | while read -r file; do
        pid=${file#*_LIB_} pid=${pid%%_*}
        [ -d "/proc/$pid" ] || rm -f "$file"
    done
    rm -rf "$scratch" ${memory:+"$memory"}
}
trap finish EXIT

# The slowest programs start first, so that none of them runs alone at the end.
longest=(docs/test_pages.sh cuda_sim/test_ops tui/command/test_kjv cuda_sim/test_steps tui/command/test_kill cuda_sim/test_gpu_check
    cuda_sim/test_fallback core/memory/test_allocator_random cuda_sim/test_plan_allocated_sim cuda_sim/test_fit
    tui/command/test_bad_input tui/view/test_run_views tui/command/test_words runs/reservations/test_ledger_file)

program_of() { # $1: path below BUILD/tests, or below tests for a script
    if [[ $1 == *.sh ]]; then echo "tests/$1"; else echo "$build/tests/$1"; fi
}
# $1: a program, as for program_of. Writes its output, exit status, time and the processes that it left behind
# to $scratch, then prints its name.
run_one() {
    local name=$1 at=$scratch/${1//\//.} start=${EPOCHREALTIME/./} code left
    local dir=${memory:-$scratch}/${1//\//.}.dir
    case $name in # /dev/shm is another place for the first two, and in memory no kill comes in the middle of a save
        tui/command/test_memory_share | tui/command/test_shared_home | tui/command/test_kill) dir=$at.dir ;;
    esac
    rm -f "$at.left"
    mkdir -p "$dir/home"
    # No products in bf16 by dot products or AMX, so that train.precision = auto means fp32 on every machine. Operations are
    # tested with the best instructions that this machine has.
    local isa=
    ! grep -qw avx512_bf16 /proc/cpuinfo || isa=v4-bf16
    [[ $name != kernels/* ]] || isa=${ANNEAL_CPU_ISA:-}
    # separate from other tests and from the user's runs
    env ANNEAL_TEST_DIR="$dir" TMPDIR="$dir" ANNEAL_HOME="$dir/home" ANNEAL_LEDGER="$dir/home" \
        ANNEAL_CPU_ISA="$isa" CMOCKA_MESSAGE_OUTPUT=STDOUT timeout -k 10 "${TIMEOUT:-$seconds}" "$(program_of "$name")" >"$at.log" 2>&1
    code=$?
    left=$(grep -lzsxF "ANNEAL_TEST_DIR=$dir" /proc/[0-9]*/environ | cut -d/ -f3)
    for pid in $left; do
        printf 'left behind: process %s: %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline")" >>"$at.left"
        kill -9 "$pid"
    done 2>/dev/null
    echo "$code $(((${EPOCHREALTIME/./} - start) / 100000))" >"$at.result.part"
    mv "$at.result.part" "$at.result" # the file appears only when it is complete
    rm -rf "$dir"
    echo "$name"
}
export -f run_one program_of

# $1: a program that has ended. Adds to passed, failed and skipped, and prints its line. Keeps failures in `again`.
report_one() {
    local at=$scratch/${1//\//.} code tenths ok skip bad
    read -r code tenths <"$at.result"
    # cmocka lists failed and skipped tests again at the end, with their number: use that number
    ok=$(grep -c '^\[       OK \]' "$at.log")
    listed() { sed -nE "s/^\[  $1 *\].* ([0-9]+) test\(s\).*/\1/p" "$at.log" | tail -n 1; }
    skip=$(listed SKIPPED) bad=$(listed FAILED)
    skip=${skip:-0} bad=${bad:-0}
    if [ -s "$at.left" ] || [ "$code" -ne 0 ]; then [ "$bad" -gt 0 ] || bad=1; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%-4s %-44s %3d passed %2d failed %2d skipped %6d.%ds\n' "$([ "$bad" -eq 0 ] && echo ok || echo FAIL)" \
        "$1" "$ok" "$bad" "$skip" $((tenths / 10)) $((tenths % 10))
    if [ "$bad" -ne 0 ]; then
        again+=("$1 $ok $bad $skip")
        echo "---- exit status $code; the end of its output:"
        # of what is above these lines the reasons, which reports of leaks follow in a test that has failed
        head -n -60 "$at.log" | grep -m 5 -A 2 -E '^ERROR: |error: Failure|runtime error|ERROR: AddressSanitizer'
        tail -n 60 "$at.log"
        cat "$at.left" 2>/dev/null
        echo "----"
    fi
}

# Runs the programs of `again` once more, and counts their second result in place of their first.
retry() {
    local one name ok bad skip before first=("${again[@]}")
    for one in "${first[@]}"; do
        read -r name ok bad skip <<<"$one"
        passed=$((passed - ok)) failed=$((failed - bad)) skipped=$((skipped - skip)) before=$failed
        echo "again, alone: $name"
        run_one "$name" >/dev/null
        report_one "$name"
        [ "$failed" -gt "$before" ] || echo "passed only at the second try: $name"
    done
}

matches() { # $1: a program; the rest: words, one of which its path must contain; without words any program matches
    local program=$1
    shift
    [ $# -gt 0 ] || return 0
    for word; do [[ $build/tests/$program$ == *"$word"* ]] && return 0; done
    return 1
}
among() { # $1: a word, $2...: a list
    local word=$1
    shift
    for one; do [ "$one" = "$word" ] && return 0; done
    return 1
}
pool=()
for program in "$build"/tests/*/test_* "$build"/tests/*/*/test_* tests/*/test_*.sh tests/*/*/test_*.sh; do
    case $program in *.o | *.d) continue ;; esac
    [ -x "$program" ] && [ -f "$program" ] || continue
    [[ $program != *.sh || $build != *-tsan ]] || continue # a script runs programs with OpenMP's threads
    name=${program#"$build"/} name=${name#tests/}
    matches "$name" "$@" || continue
    pool+=("$name")
done
start_order() {
    for name in "${longest[@]}"; do among "$name" "${pool[@]}" && echo "$name"; done
    for name in "${pool[@]}"; do among "$name" "${longest[@]}" || echo "$name"; done
}

start_order | xargs -r -P "${JOBS:-$(nproc)}" -I{} bash -c 'run_one {}' | {
    passed=0 failed=0 skipped=0 next=0 again=()
    while read -r _; do
        while [ $next -lt ${#pool[@]} ] && [ -f "$scratch/${pool[next]//\//.}.result" ]; do report_one "${pool[next++]}"; done
    done
    for name in "${pool[@]:next}"; do # the shell that ran it was killed
        echo "FAIL $name: did not end" && failed=$((failed + 1))
    done
    [ -z "${RETRY:-}" ] || [ ${#again[@]} -gt $RETRY_MOST ] || retry
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
