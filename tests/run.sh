#!/usr/bin/env bash
# Runs every test program of BUILD (default build) and prints a line each, the output of those that fail, and a
# closing line "N passed, N failed, N skipped". With names as further arguments, only programs that match them.
set -u
build=${1:-build}
shift || true
passed=0 failed=0 skipped=0
export ANNEAL_BINARY="$PWD/$build/anneal"
export LC_ALL=C.UTF-8
export ANNEAL_CUDA_PLUGIN=none # the same run on every machine; tests/cuda_sim names its own
export OMP_WAIT_POLICY=passive # the tests are many small steps: spinning threads would only wait for each other
# an allocation that is too large is an error that the tests want to see, not one that ends them
export ASAN_OPTIONS=allocator_may_return_null=1
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
if [[ $build == *-tsan ]]; then # OpenMP's library is not instrumented: what its threads wait for is not seen
    export OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1
    export TSAN_OPTIONS=die_after_fork=0:allocator_may_return_null=1
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
for program in "$build"/tests/*/test_* "$build"/tests/*/*/test_*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    case $program in *.o | *.d) continue ;; esac
    if [ $# -gt 0 ]; then
        match=
        for word in "$@"; do [[ $program == *"$word"* ]] && match=1; done
        [ -n "$match" ] || continue
    fi
    export ANNEAL_TEST_DIR="$scratch/$(basename "$program")" ANNEAL_HOME="$scratch/$(basename "$program")/home"
    export ANNEAL_LEDGER=$ANNEAL_HOME # apart from each other, and from what the user runs
    mkdir -p "$ANNEAL_HOME"
    start=${EPOCHREALTIME/./}
    CMOCKA_MESSAGE_OUTPUT=STDOUT timeout 900 "$program" >"$scratch/log" 2>&1
    code=$?
    # cmocka names a failed or skipped test twice, when it happens and in a list at the end: count the first kind
    ok=$(grep -c '^\[       OK \]' "$scratch/log")
    listed() { sed -nE "s/^\[  $1 *\].* ([0-9]+) test\(s\).*/\1/p" "$scratch/log" | tail -n 1; }
    skip=$(listed SKIPPED) bad=$(listed FAILED)
    skip=${skip:-0} bad=${bad:-0}
    if [ $code -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%-4s %-44s %3d passed %2d failed %2d skipped %7.1fs\n' "$([ "$bad" -eq 0 ] && echo ok || echo FAIL)" \
        "${program#"$build"/tests/}" "$ok" "$bad" "$skip" "$(( (${EPOCHREALTIME/./} - start) / 100000 ))e-1"
    if [ "$bad" -ne 0 ]; then
        echo "---- exit status $code; the end of its output:"
        tail -n 60 "$scratch/log"
        echo "----"
    fi
    rm -rf "$ANNEAL_TEST_DIR"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
