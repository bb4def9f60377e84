#!/usr/bin/env bash
# Builds gpu-check on a machine that has bash, gcc, binutils and nvcc and nothing else: no make, no libraries.
#
#     tests/gpu/build.sh [OUT]      default build/gpu
#
# Makes OUT/gpu_check, OUT/bench_allocator, OUT/anneal_cuda.so (from kernels/nvcc.flags, as the Makefile does) and
# OUT/torch_step.py, which find each other there, and OUT/report.sh, which runs them. The CPU twins are compiled for one instruction set. If ANNEAL_CUDA_PLUGIN names a plugin, or nvcc is missing, none is
# built. A file newer than all sources is not built again. CC and NVCC name other compilers, JOBS the number of
# parallel compilations (default: the number of cores).
# shellcheck disable=SC2010,SC2011,SC2046 # the tree's file names hold no blanks
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build/gpu}
export CC=${CC:-gcc} OBJ=$out/obj NVCC=${NVCC:-}
[ -n "$NVCC" ] || NVCC=$(command -v nvcc || { [ ! -x /usr/local/cuda/bin/nvcc ] || echo /usr/local/cuda/bin/nvcc; })
jobs=${JOBS:-$(nproc)}
isa=
[ "$(uname -m)" != x86_64 ] || isa=-march=x86-64-v3 # AVX2 and FMA: every machine with a supported GPU has them
export C_FLAGS="-std=c17 -D_GNU_SOURCE -O3 -g -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wall -Wextra \
-Wno-unknown-pragmas -fopenmp -pthread $isa -fPIC -fvisibility=hidden -MD -I."

# The parts of core/ that need other libraries are left out; from the archive the linker takes only the objects it needs.
core=$(grep -LE '#include <(jansson|ini|xxhash|pcre2|utf8proc|sqlite3|csv)' $(ls core/*/*.c | grep -v ^core/base/))
base=$(ls core/base/*.c)
twins=$(ls kernels/*.c kernels/device/*.c | grep -v kernels/device/cpu_select.c)
bench=tests/bench/bench_allocator.c
plain=tests/gpu/plain/one_isa.c
check=$(ls tests/gpu/*.c | grep -v /test_)
with=$(sed -n 's/^PLUGIN_BASE := //p' Makefile) # the objects of the plugin that are not .cu files
plugin=
if [ -z "${ANNEAL_CUDA_PLUGIN:-}" ] && [ -n "$NVCC" ]; then plugin=$(ls kernels/*.cu kernels/device/*.cu); fi

# $1: a source. Its object, unless that is newer than everything it could depend on.
compile() {
    local object=$OBJ/$1.o # rope.c and rope.cu are two
    mkdir -p "${object%/*}"
    if [ -f "$object" ] && [ -z "$(find kernels core tests/gpu "$1" -newer "$object" \( -name '*.[ch]' -o -name '*.cu*' \
        -o -name '*.def' -o -name '*.flags' -o -name build.sh \) -print -quit)" ]; then return 0; fi
    case $1 in
    *.cu)
        echo "  NVCC $1"
        "$NVCC" --options-file kernels/nvcc.flags -I"${NVCC%/*}/../extras/CUPTI/include" -c "$1" -o "$object.new"
        ;;
    *) echo "  CC   $1" && "$CC" $C_FLAGS -c "$1" -o "$object.new" -MF "$object.deps" ;;
    esac
    mv "$object.new" "$object"
}
export -f compile

objects() { # the objects of these sources
    local source
    for source; do echo "$OBJ/$source.o"; done
}

mkdir -p "$OBJ"
# the largest first, so that none of them is the last one running
ls -S $plugin $twins $core $base $check $plain $bench | xargs -P "$jobs" -I{} bash -euc 'compile {}'
rm -f "$OBJ/core.a" "$OBJ/base.a"
ar rcs "$OBJ/base.a" $(objects $base)
ar rcs "$OBJ/core.a" $(objects $core)
link() { # $1: a program, of the sources that follow
    local program=$1
    shift
    "$CC" -fopenmp -pthread -Wl,-rpath,'$ORIGIN/../lib' -o "$out/$program" $(objects "$@" $plain $twins) "$OBJ/core.a" "$OBJ/base.a" -lm -ldl
}
link gpu_check $check
link bench_allocator $bench
if [ -n "$plugin" ]; then
    "$NVCC" -shared -cudart static -Xcompiler -static-libstdc++ -Xlinker --exclude-libs,ALL -o "$out/anneal_cuda.so" \
        $(objects $plugin $with) -lcublasLt -Xlinker "-rpath,\$ORIGIN,-rpath,$(dirname "$NVCC")/../lib64,-rpath,/usr/local/cuda/lib64"
elif [ -z "${ANNEAL_CUDA_PLUGIN:-}" ]; then
    echo "nvcc is not on PATH: no plugin was built (install NVIDIA's CUDA Toolkit)"
fi
cp tests/gpu/torch_step.py tests/gpu/report.sh "$out/"
