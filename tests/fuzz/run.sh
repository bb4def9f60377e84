#!/usr/bin/env bash
# Fuzzes every parser of foreign data with libFuzzer: run.sh FUZZER SECONDS [NAMES]. The time is for all of them, JOBS at a
# time (default: the number of cores). It begins with tests/fuzz/corpora/NAME and with what earlier runs found worth keeping,
# below the folder of FUZZER. Prints how often each was tried. An input that does harm is kept in findings/ beside it; put
# right, it moves to tests/fuzz/corpora/NAME, where the ordinary suite tries it each time.
set -u
fuzzer=$1 seconds=$2
shift 2
cd "$(dirname "$0")/../.." || exit 1
here=$(dirname "$fuzzer")
export here fuzzer
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
export ANNEAL_CUDA_PLUGIN=none
mkdir -p "$here/corpora" "$here/findings" "$here/logs"
if [ $# -eq 0 ]; then mapfile -t names < <("$fuzzer"); else names=("$@"); fi
jobs=${JOBS:-$(nproc)}
each=$((seconds * jobs / ${#names[@]}))
export each=$((each > 0 ? each : 1))

fuzz_one() { # $1: a name
    local log=$here/logs/$1 code runs
    mkdir -p "$here/corpora/$1"
    PARSER=$1 "$fuzzer" -max_total_time="$each" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
        -artifact_prefix="$here/findings/$1-" "$here/corpora/$1" "tests/fuzz/corpora/$1" >"$log" 2>&1
    code=$?
    runs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-4s %-18s %12s executions\n' "$([ $code -eq 0 ] && echo ok || echo FAIL)" "$1" "${runs:-?}"
    [ $code -eq 0 ] || tail -n 40 "$log"
    return $((code != 0))
}
export -f fuzz_one
printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}'
