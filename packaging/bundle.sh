#!/usr/bin/env bash
# make bundle: one folder, and the same as .tar.gz, that runs after one copy on a Linux machine with glibc and nothing
# else installed; with its plugin on a GPU server that has NVIDIA's driver and CUDA libraries.
#
#     packaging/bundle.sh BINARY COUNTER PLUGIN MPI-PLUGIN OUT
#
# BINARY is linked with the run path $ORIGIN/../lib. COUNTER is anneal_heap.so; PLUGIN is anneal_cuda.so, MPI-PLUGIN anneal_mpi.so, each empty
# for a bundle without. MPI itself stays the machine's, which has its launcher. Takes the manual pages from
# OUT/man and makes OUT/anneal-VERSION-linux-MACHINE/: bin/, lib/ with every shared library but glibc's and NVIDIA's,
# share/ with the default corpus, manual pages and shell completion, licenses/ with the libraries' own notices,
# README.txt. Ends with packaging/check.sh on what it made.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1 counter=$2 plugin=$3 mpi=$4 out=$5
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "bundle: $1" >&2
    exit 1
}

# Libraries that belong to the system: glibc with what its package brings, and NVIDIA's.
system='^(linux-vdso|linux-gate|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libgcc_s|libcuda|libcublas.*|libnv.*)\.so'

# SONAME PATH of every other library that a program loads.
libraries() {
    ldd "$1" >"$scratch/ldd"
    ! grep 'not found' "$scratch/ldd" | grep -vE "^[[:space:]]*${system#^}" >&2 || fail "$1: libraries are missing"
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' "$scratch/ldd" | grep -vE "$system" || true
}

# The notice of the package that a file is of.
copy_licence() {
    local path package
    path=$(readlink -f "$1")
    package=$(dpkg -S "$path" 2>/dev/null || dpkg -S "${path#/usr}" 2>/dev/null) || fail "$path is of no package, so its licence is not known"
    package=${package%%:*}
    cp -L "/usr/share/doc/$package/copyright" "$target/licenses/$package"
}

version=$("$binary" --version | cut -d' ' -f2)
name=anneal-$version-linux-$(uname -m)
target=$out/$name
rm -rf "$target" "$target.tar.gz"
mkdir -p "$target/bin" "$target/lib" "$target/share/anneal" "$target/licenses"
install -m 755 "$binary" "$target/bin/anneal"
strip --strip-debug "$target/bin/anneal"
install -m 755 "$counter" "$target/bin/anneal_heap.so"
if [ -n "$plugin" ]; then
    install -m 755 "$plugin" "$target/bin/anneal_cuda.so"
    install -D -m 755 -t "$target/gpu-check" build/gpu/gpu_check build/gpu/torch_step.py build/gpu/report.sh
    strip --strip-debug "$target/gpu-check/gpu_check"
fi
if [ -n "$mpi" ]; then install -m 755 "$mpi" "$target/bin/anneal_mpi.so"; fi

libraries "$binary" >"$scratch/libraries"
if [ -n "$plugin" ]; then libraries "$plugin" >>"$scratch/libraries"; fi
sort -u "$scratch/libraries" | while read -r soname path; do
    install -m 644 "$path" "$target/lib/$soname"
    copy_licence "$path"
done

corpus=$(ANNEAL_HOME=$scratch/home "$binary" data fetch kjv) || fail 'no King James Bible (apt install bible-kjv)'
install -m 644 "$corpus" "$target/share/anneal/kjv.txt"
cp -L /usr/share/doc/bible-kjv-text/copyright "$target/licenses/bible-kjv-text"
install -m 644 LICENSE "$target/LICENSE"
install -D -m 644 -t "$target/share/man/man1" "$out"/man/*.1
install -D -m 644 -t "$target/share/man/man5" "$out"/man/*.5
install -m 644 -t "$target/share/anneal" packaging/completion/*

glibc=$(objdump -T "$target"/bin/* "$target"/lib/* | grep -oE 'GLIBC_[0-9.]+' | cut -d_ -f2 | sort -uV | tail -n 1)
if [ -n "$plugin" ]; then
    gpu="bin/anneal_cuda.so trains on NVIDIA GPUs of compute capability 8.0 and newer. It contains NVIDIA's CUDA runtime and needs,
from the machine, a driver for CUDA 13 and libcublasLt.so.13: in /usr/local/cuda/lib64, where the system's loader looks,
in a folder of LD_LIBRARY_PATH, or next to it. \`bin/anneal devices\` says what it found, or what is missing. Traces of a step show its
kernels where libcupti.so.13 of the CUDA Toolkit is in one of these places, too.
gpu-check/report.sh checks and judges all of it on the GPU, in less than ten minutes."
else
    gpu="This bundle was built without CUDA: it trains on the CPU."
fi
if [ -n "$mpi" ]; then
    ranks="bin/anneal_mpi.so trains on several ranks (anneal train --ranks 2). It needs the machine's Open MPI, of the kind that it was built
with: $(objdump -p "$mpi" | awk '$1 == "NEEDED" && $2 ~ /^libmpi/ { print $2 }') (apt install openmpi-bin); between GPUs also libnccl.so.2."
else
    ranks="This bundle was built without MPI: it trains in one process."
fi
cat >"$target/README.txt" <<EOF
anneal $version for Linux on $(uname -m), with glibc $glibc or newer (see ldd --version). Nothing needs to be installed:

    bin/anneal train --watch      train on the King James Bible, and watch
    bin/anneal --help             everything else
    man -M share/man anneal       the manual

Once bin is on the PATH, \`. share/anneal/anneal.bash\` completes commands, runs and keys in bash; zsh and fish find
_anneal and anneal.fish in a folder of theirs.

$gpu

$ranks

State is kept in \$ANNEAL_HOME (default ~/.local/share/anneal). The folder may be moved as a whole.
anneal is under the MIT licence (LICENSE), the libraries in lib/ and the corpus under those in licenses/.
EOF
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -czf "$target.tar.gz" "$name"
echo "$target.tar.gz: $(du -h "$target.tar.gz" | cut -f1), needs glibc $glibc or newer"
packaging/check.sh "$target.tar.gz"
