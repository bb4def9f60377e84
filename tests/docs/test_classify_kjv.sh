#!/usr/bin/env bash
# The small version of make demo-classify runs from the verses to the table, and its baseline is the one that is published.
set -u
cd "$(dirname "$0")/../.." || exit 1
binary=${ANNEAL_BINARY:-build/anneal}
if ! command -v bible >/dev/null; then
    echo "[  SKIPPED ] classify_kjv.sh (bible-kjv is not installed)"
    exit 0
fi
home=$(mktemp -d) || exit 1
trap 'rm -rf "$home"' EXIT
ANNEAL_HOME=$home ANNEAL_LEDGER=$home docs/examples/classify_kjv.sh "$binary" --small >"$home/out" 2>&1
status=$?
if [ $status = 0 ] && grep -Eq '^testament +bag of words +0\.9264 +0\.9037$' "$home/out" &&
    grep -Eq '^group +bag of words +0\.73[0-9]+ ' "$home/out" && grep -Eq '^group +anneal +0\.[0-9]+ +0\.[0-9]+$' "$home/out"; then
    echo "[       OK ] classify_kjv.sh"
else
    cat "$home/out"
    echo "[  FAILED  ] classify_kjv.sh: 1 test(s)"
    exit 1
fi
