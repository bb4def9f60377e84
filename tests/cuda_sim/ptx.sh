#!/usr/bin/env bash
# Runs tests of the kernels on the PTX below BUILD/ptx, as GPUs of compute capability 9.0 and 8.0 do, and names the kernels
# that none of them ran: ptx.sh BUILD TEST... See compiled.hh.
set -u
build=$1
shift
export ANNEAL_SIM_PTX=$PWD/$build/ptx ANNEAL_SIM_PTX_RAN=$PWD/$build/ptx/ran LC_ALL=C TIMEOUT=${TIMEOUT:-3600}
rm -f "$ANNEAL_SIM_PTX_RAN"
status=0
tests/run.sh "$build" "${@/%/$}" || status=1
ANNEAL_SIM_CAPABILITY=8.0 tests/run.sh "$build" 'cuda_sim/test_ops$' || status=1
find "$ANNEAL_SIM_PTX/compute_90a" -name '*.ptx' -exec sed -nE 's/.*\.entry ([A-Za-z0-9_]+).*/\1/p' {} + | grep -v module_mark |
    sort -u | comm -23 - <(sort -u "$ANNEAL_SIM_PTX_RAN") | c++filt -p | sed 's/^/no test ran the kernel /'
exit $status
