#!/usr/bin/env bash
# tests/gpu/report.sh with stand-ins for gpu_check, compute-sanitizer and ncu: what it fails for, what it skips, and that a run
# which is cut off leaves its report. Prints a line for each test as the programs of cmocka do.
set -u
script=$PWD/tests/gpu/report.sh
cd "$ANNEAL_TEST_DIR" || exit 1
unset ANNEAL_CUDA_PLUGIN
export CUDA_HOME=$PWD/empty
mkdir -p programs tools empty && : >programs/anneal_cuda.so
failed=0

# $1: a name, $2: the exit status that is expected, $3...: patterns, each of which a line of the report must match
judge() {
    local name=$1 expected=$2 good=true
    shift 2
    [ "$code" -eq "$expected" ] || { echo "exit status $code instead of $expected" && good=false; }
    for pattern; do grep -qE -- "$pattern" report.txt || { echo "no line matches: $pattern" && good=false; }; done
    if $good; then
        echo "[       OK ] $name"
    else
        cat report.txt
        echo "[  FAILED  ] $name"
        failed=$((failed + 1))
    fi
}

stand_in() { # $1: a path; standard input: its commands
    { echo '#!/usr/bin/env bash' && cat; } >"$1"
    chmod +x "$1"
}
passing() {
    stand_in programs/gpu_check <<'EOF'
echo "ok   speed bf16 add        0.1 ms"
case "$*" in *--no-results*) echo "     heaviest  1:  40.0 %   1.000 ms   12 calls,  90 registers, 0 bytes local,  50 % occupancy: void forward<float, 4>(int)" ;; esac
echo "1 passed, 0 failed, 0 skipped"
EOF
}
run() { # PATH without what a machine may have of NVIDIA's tools
    PATH=$PWD/$1:/usr/bin:/bin "$script" --programs programs "${@:2}" report.txt >/dev/null 2>&1
    code=$?
}

passing
run empty
judge a_run_without_tools_passes_and_says_what_it_skips 0 '^ok   speed' '^SKIP compute-sanitizer: it is not' '^SKIP a training: there is no' '^SKIP ncu: it is not'

stand_in tools/compute-sanitizer <<'EOF'
shift 4
"$@"
EOF
stand_in tools/ncu <<'EOF'
echo "==PROF== $*" && echo "    Section: GPU Speed Of Light Throughput"
EOF
run tools
judge all_tools_are_run 0 '^ok   compute-sanitizer racecheck: 1 passed' '^ok   compute-sanitizer initcheck' '^     ncu forward' 'Section: GPU Speed'

stand_in tools/compute-sanitizer <<'EOF'
if [ "$2" = racecheck ]; then echo "========= Error: Race reported between Write access at forward" && exit 9; fi
shift 4
"$@"
EOF
run tools
judge a_race_fails_the_run 1 '^========= Error: Race' '^FAIL compute-sanitizer racecheck' '^ok   compute-sanitizer memcheck'

mkdir bin
stand_in bin/anneal <<'EOF'
case $1 in train) echo "finished" ;; show) echo "  gemm gate_up  1.0 ms" ;; esac
EOF
rm tools/compute-sanitizer
run empty
judge a_training_leaves_its_profile 0 '^ok   a training: finished' '^  gemm gate_up'

stand_in bin/anneal <<'EOF'
echo "the device has failed" && exit 1
EOF
run empty
judge a_training_that_fails_fails_the_run 1 '^the device has failed' '^FAIL a training'
rm -r bin

stand_in programs/gpu_check <<'EOF'
echo "ok   add fp32"
case "$*" in *--no-results*) echo "FAIL speed bf16 add       40 % of what copy and gemm allow (at least 70 %)" && exit 1 ;; esac
EOF
run empty
judge a_slow_operation_fails_the_run 1 '^FAIL speed bf16 add' '^== 3 passed, 2 failed'

stand_in programs/gpu_check <<'EOF'
echo "ok   add fp32"
case "$*" in *--no-torch*) kill -SEGV $$ ;; esac
EOF
run empty
judge a_crash_fails_the_run 1 '^FAIL speeds and steps: exit status 139'

stand_in programs/gpu_check <<'EOF'
echo "SKIP no GPU was found"
EOF
run empty
judge without_a_gpu_nothing_passes 2 '^SKIP no GPU was found' '^== 0 passed, 0 failed'

stand_in programs/gpu_check <<'EOF'
echo "ok   add fp32"
exec sleep 60
EOF
run empty --seconds 6
judge a_part_that_hangs_ends_in_time_and_fails 1 '^ok   add fp32' '^FAIL results: no end after [56] seconds' '^SKIP PyTorch: the time is over'
[ "$failed" -eq 0 ]
