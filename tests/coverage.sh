#!/usr/bin/env bash
# make coverage: which lines the tests ran. Prints a table of folders and writes a page for every file, with index.html
# as its first page.
#
#     tests/coverage.sh BUILD
#
# BUILD holds a build with COVERAGE=1 whose tests have run. The CPU kernels are compiled once per instruction set: a line
# counts as run if one of them ran it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
mkdir -p "$build/html"
gcovr --root . --object-directory "$build" --exclude tests/ --gcov-ignore-parse-errors --exclude-unreachable-branches \
    --csv "$build/coverage.csv" --html-details "$build/html/index.html" -j "$(nproc)" "$build" >/dev/null
awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    {
        folder = $column["filename"]
        sub(/\/[^\/]*$/, "", folder)
        lines[folder] += $column["line_total"]; run[folder] += $column["line_covered"]
        lines["all"] += $column["line_total"]; run["all"] += $column["line_covered"]
    }
    END { for (f in lines) if (lines[f]) printf "%-22s %6d of %6d lines  %5.1f %%\n", f, run[f], lines[f], 100 * run[f] / lines[f] }
' "$build/coverage.csv" | sort
echo "every file, line by line: $build/html/index.html"
