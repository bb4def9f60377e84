#!/usr/bin/env bash
# Compares what commands print with tests/tui/command/transcripts/*.txt, to the last character.
#
#     tests/tui/command/test_transcripts.sh [NAME...]       ANNEAL_WRITE_GOLDEN=1 writes them again: review the difference
#
# A line of a transcript that begins with "$ " is a command, run by a shell in the folder of the sources; what follows is its
# output, with standard error after it and its exit status if that is not 0. Each transcript has a home of its own, with the
# runs of tests/fixtures/store.sql; $ANNEAL_HOME stands for its path, $DIR for that of an empty folder, and $ROOT for that of
# the sources.
set -u
root=$(cd "$(dirname "$0")/../../.." && pwd)
binary=${ANNEAL_BINARY:-$root/build/anneal}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" && ln -s "$binary" "$scratch/bin/anneal"
export PATH=$scratch/bin:$PATH LC_ALL=C.UTF-8 TZ=UTC TERM=dumb ANNEAL_CUDA_PLUGIN=none OMP_NUM_THREADS=2
unset COLUMNS
cd "$root" || exit 1

# $1: a transcript. Prints it as it is today.
run_transcript() {
    local name line status
    name=$(basename "$1" .txt)
    export ANNEAL_HOME=$scratch/$name.home ANNEAL_LEDGER=$scratch DIR=$scratch/$name.dir
    mkdir -p "$ANNEAL_HOME" "$DIR" && : >"$ANNEAL_HOME/anneal.db" && anneal runs >"$scratch/stdout" 2>&1 &&
        sqlite3 -bail "$ANNEAL_HOME/anneal.db" <tests/fixtures/store.sql || return
    grep '^\$ ' "$1" | while read -r line; do
        echo "$line"
        bash -c "${line#\$ }" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null
        status=$?
        cat "$scratch/stdout"
        [ -z "$(tail -c 1 "$scratch/stdout")" ] || echo "[no end of line]"
        cat "$scratch/stderr"
        [ $status -eq 0 ] || echo "[exit status $status]"
    done | sed -e "s|$ANNEAL_HOME|\$ANNEAL_HOME|g" -e "s|$DIR|\$DIR|g" -e "s|$root/|\$ROOT/|g"
}

failed=0
for name in "${@:-*}"; do
    for transcript in tests/tui/command/transcripts/$name.txt; do
        if run_transcript "$transcript" >"$scratch/now.txt"; then
            [ -z "${ANNEAL_WRITE_GOLDEN:-}" ] || cp "$scratch/now.txt" "$transcript"
            diff -u "$transcript" "$scratch/now.txt" && echo "[       OK ] $transcript" && continue
        fi
        failed=$((failed + 1))
    done
done
[ $failed -eq 0 ] || echo "[  FAILED  ] transcripts: $failed test(s)"
[ $failed -eq 0 ]
