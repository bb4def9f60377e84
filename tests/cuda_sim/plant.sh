#!/usr/bin/env bash
# Plants the bugs of bugs.list, one at a time, and prints for each which test finds it: `make planted`, or
# `make planted BUGS="3 17"` for some of them. The sources stay as they are. The environment comes from the Makefile:
# COMPILE and RACES (a compiler with its flags, and more of them for kernels), LINK and LIBRARIES, SIM_OBJ, PLUGIN_BASE, OTHER.
# TEXT_ONLY=1 only looks whether the lines that the bugs replace are there.
#
# A test is that of tests/cuda_sim with this name; "ops:NAME" is the fuzz of one operation in test_ops, "ops/PATTERN" are those of
# its tests that match. Each gets LIMIT seconds, and counts as having found a bug when it fails or does not end. A bug that its
# own tests do not find is shown to those of FALLBACK, too. Kernels are compiled without warnings as errors, so that the tests
# are judged; but a value that is read before it is set no test can see, so this warning is a finding.
# shellcheck disable=SC2016 # the backquotes are those of Markdown
set -u
build=$1
shift
LIMIT=${LIMIT:-900} FALLBACK=${FALLBACK-ops attention_bf16 far training steps}
list=tests/cuda_sim/bugs.list
export LC_ALL=C.UTF-8 OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2 ANNEAL_CUDA_PLUGIN=none
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Reads bug $1 of the list: file, tests, old, new.
bug_read() {
    local line number
    file='' tests='' old='' new=''
    while IFS= read -r line; do
        case $line in
        bug\ *) read -r _ number file tests <<<"$line" ;;
        -*) [ "$number" != "$1" ] || old+=${line#-}$'\n' ;;
        +*) [ "$number" != "$1" ] || new+=${line#+}$'\n' ;;
        '') [ "${number-}" != "$1" ] || return 0 ;;
        esac
    done <"$list"
    [ "${number-}" = "$1" ]
}
# Puts the changed file below $scratch/bug. Fails if the old lines are not there exactly once.
bug_plant() {
    local text before
    text=$(<"$file")$'\n'
    before=${text%%"$old"*}
    [ "$before" != "$text" ] || return 1
    text=${text:${#before}+${#old}}
    [ "${text/"$old"/}" = "$text" ] || return 1
    mkdir -p "$scratch/bug/$(dirname "$file")"
    printf '%s' "$before$new$text" >"$scratch/bug/$file"
}
# Compiles what the file is part of; `objects` becomes all of the simulator's.
bug_compile() {
    local source object sources=("$file") at
    objects=$SIM_OBJ
    if [[ $file == *.cuh ]]; then
        mapfile -t sources < <(grep -l "[ /]$file" "$build"/sim/kernels/*.d | sed "s|^$build/sim/||; s|d\$|cu|")
    fi
    for source in "${sources[@]}"; do
        object=${source%.cu}.o at=$source
        [ -f "$scratch/bug/$source" ] && at=$scratch/bug/$source
        mkdir -p "$scratch/bug/$(dirname "$object")"
        # shellcheck disable=SC2046,SC2086
        ${COMPILE/ -I. / -I$scratch/bug -I. } -Wno-error -Werror=maybe-uninitialized $(grep -q __global__ "$source" && echo "$RACES") -c "$at" -o "$scratch/bug/$object" \
            2>"$scratch/log" || return 1
        objects=${objects/"$build/sim/$object"/"$scratch/bug/$object"}
    done
}
# Whether the test passes.
passes() {
    local name=test_${1%%[:/]*} run operation='' filter=''
    case $1 in *:*) operation=${1#*:} filter='every_operation_*' ;; */*) filter=${1#*/} ;; esac
    run=$scratch/bug/tests/cuda_sim/$name
    mkdir -p "$(dirname "$run")" "$scratch/bug/home"
    if [ ! -e "$run" ]; then
        # shellcheck disable=SC2086
        $LINK -o "$run" "$build/tests/cuda_sim/$name.o" $objects $OTHER $LIBRARIES || exit 2
    fi
    [ -e "${run%/*}/stand_in" ] || ln -s "$PWD/$build/tests/cuda_sim/stand_in" "${run%/*}/stand_in"
    if grep -q simulated_plugin_use "tests/cuda_sim/$name.c" && [ ! -e "$scratch/bug/anneal" ]; then
        ln -s "$PWD/$build"/{anneal,anneal_mpi.so} "$scratch/bug"
        # shellcheck disable=SC2086
        $LINK -shared -o "${run%/*}/simulated_cuda.so" $objects $PLUGIN_BASE $LIBRARIES || exit 2
    fi
    env ANNEAL_BINARY="$scratch/bug/anneal" ANNEAL_TEST_DIR="$scratch/bug/home" ANNEAL_HOME="$scratch/bug/home" \
        ANNEAL_LEDGER="$scratch/bug/home" ANNEAL_TEST_OPERATION="$operation" ANNEAL_TEST_FILTER="$filter" \
        timeout "$LIMIT" "$run" >"$scratch/log" 2>&1
}
# The first line of the log that says what is wrong.
finding() {
    grep -m 1 -oE 'cuda_sim: .*|ERROR: .*|error: .*|undefined reference.*|\[  FAILED  \] .*' "$scratch/log" | sed 's/^ERROR: //' | cut -c1-140
}

found=0 escaped=0 gone=0 all=()
[ $# -gt 0 ] || mapfile -t all < <(sed -n 's/^bug \([^ ]*\).*/\1/p' "$list")
for number in "$@" "${all[@]}"; do
    bug_read "$number" || { echo "no bug $number in $list" && exit 1; }
    rm -rf "$scratch/bug" "$scratch/log"
    if ! bug_plant; then
        printf '| %s | `%s` | its text is no longer there | |\n' "$number" "$file" && gone=$((gone + 1))
        continue
    fi
    [ -z "${TEXT_ONLY-}" ] || continue
    by=''
    if ! bug_compile; then
        by='the compiler'
    else
        for test in $tests $FALLBACK; do
            [ "$test" != "-" ] || continue
            passes "$test" || { by=test_$test && break; }
        done
    fi
    if [ -n "$by" ]; then found=$((found + 1)); else escaped=$((escaped + 1)); fi
    printf '| %s | `%s` | %s | %s |\n' "$number" "$file" "${by:-nothing}" "$([ -z "$by" ] || finding)"
done
echo "$found found, $escaped escaped, $gone no longer there"
[ $((escaped + gone)) -eq 0 ]
