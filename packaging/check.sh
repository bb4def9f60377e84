#!/usr/bin/env bash
# Proves that a bundle needs nothing but glibc: unpacks it into a root folder that holds glibc's files alone, and there
# asks for the version and the devices and trains three steps on the corpus it ships.
#
#     packaging/check.sh BUNDLE.tar.gz
#
# A line a check: ok, FAIL after what was printed, or SKIP where this machine allows no other root folder (as root, or
# with unprivileged user namespaces). Closes with "N passed, N failed, N skipped".
set -u
bundle=$1
passed=0 failed=0 skipped=0
root=$(mktemp -d) || exit 1
trap 'rm -rf "$root"' EXIT
unset LD_LIBRARY_PATH ANNEAL_HOME ANNEAL_CUDA_PLUGIN
export ANNEAL_LEDGER=/tmp/ledger # inside: /dev is the machine's
at=/moved/$(basename "$bundle" .tar.gz) # not where it was built
mkdir -p "$root/moved" "$root/proc" "$root/dev" "$root/tmp"
tar -C "$root/moved" -xzf "$bundle" || exit 1

check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$root/tmp/log" 2>&1; then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        tail -n 20 "$root/tmp/log"
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}

# The loader's own list: what is not of glibc lies inside the bundle, also for the libraries of libraries.
closed() {
    local inside
    inside=$(readlink -f "$root$at/lib")
    ldd "$root$at/bin/anneal" | awk '$2 == "=>" { print $1, $3 }' | while read -r soname path; do
        case $soname in
        libc.so* | libm.so* | libgcc_s.so* | ld-linux*) ;;
        *) [ "$(dirname "$(readlink -f "$path")")" = "$inside" ] || echo "$soname comes from $path" ;;
        esac
    done | tee "$root/tmp/outside"
    [ ! -s "$root/tmp/outside" ]
}

# glibc as its package lays it out, with libgcc_s, which that package needs. Its program loader lies elsewhere.
copy_glibc() {
    local loader folder name
    loader=$(ldd "$root$at/bin/anneal" | grep -oE '/[^ ]*/ld-linux[^ ]*')
    folder=$(dirname "$(ldd "$root$at/bin/anneal" | awk '$1 == "libc.so.6" { print $3 }')")
    mkdir -p "$root$(dirname "$loader")" "$root$folder"
    cp -L "$loader" "$root$loader" || return 1
    for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libgcc_s.so.1; do
        cp -L "$folder/$name" "$root$folder/" || return 1
    done
}

# Runs the bundle's program with the root folder as its world; /proc and /dev are the machine's.
inside() {
    unshare $namespaces sh -euc 'mount --rbind /proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" "$@"' \
        "$root" "$at/bin/anneal" "$@"
}

train() {
    HOME=/tmp inside train --device cpu --train.total_steps=3 --train.batch_size=2 --train.seq_len=16 --progress=plain &&
        HOME=/tmp inside runs --filter status=finished | grep -q shakespeare
}

check 'every library but glibc lies in the bundle' closed
if [ "$(id -u)" = 0 ]; then namespaces=-m; else namespaces=-rm; fi
if copy_glibc && unshare $namespaces true 2>/dev/null; then
    check 'in a root folder of its own: --version' inside --version
    check 'in a root folder of its own: devices' inside devices
    check 'in a root folder of its own: three steps on the corpus it ships' train
else
    echo 'SKIP running in a root folder of its own: this machine allows none (be root)'
    skipped=3
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
