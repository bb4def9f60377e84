#!/usr/bin/env bash
# The machine code of CUDA kernels in the built plugin, as cuobjdump reads it, against machine_code.txt: no kernel but those that
# are named there has a stack, and the registers, shared memory and instructions of the hot ones are what their lines say.
#
#     tests/kernels/test_machine_code.sh [PLUGIN]     default: beside $ANNEAL_BINARY; prints a line for each kernel of the table
#
# No GPU is needed. Skipped where nvcc or cuobjdump is missing, as there is nothing to look at.
set -u
export LC_ALL=C
table=tests/kernels/machine_code.txt
binary=${ANNEAL_BINARY:-build/anneal}
plugin=${1:-${binary%/*}/anneal_cuda.so}
name=the_machine_code_of_kernels_is_what_the_table_says
skip() {
    echo "[  SKIPPED ] $name: $1"
    echo "[  SKIPPED ] 1 test(s)."
    exit 0
}
[ -e "$plugin" ] || skip "there is no $plugin (build it with nvcc: make CUDA=1)"
newer=$(find kernels -name '*.cu*' -newer "$plugin" -print -quit)
[ -z "$newer" ] || skip "$plugin is older than $newer (run make CUDA=1)"
export PATH=$PATH:/usr/local/cuda/bin
command -v cuobjdump >/dev/null || skip "cuobjdump of the CUDA Toolkit is not installed"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Lines "ARCHITECTURE REGISTERS STACK SHARED MANGLED", then the same with the name as the source has it, without parameters.
cuobjdump -res-usage "$plugin" | awk '
    function value(key) { match($0, key ":[0-9]+"); return substr($0, RSTART + length(key) + 1, RLENGTH - length(key) - 1) }
    $1 == "arch" { arch = $3 }
    $1 == "Function" { sub(/:$/, "", $2); mangled = $2 }
    $1 ~ /^REG:/ { print arch, value("REG"), value("STACK"), value("SHARED"), mangled }' >"$scratch/mangled"
cut -d ' ' -f 5 "$scratch/mangled" | c++filt | sed -E 's/^void //; s/\(.*//; s/__nv_//g; s/, /,/g' |
    paste -d ' ' "$scratch/mangled" - >"$scratch/kernels"
hot=$(awk 'NR == FNR { if (/^sm_/) hot[$NF]; next } $NF in hot && !seen[$5]++ { printf "%s%s", comma, $5; comma = "," }' \
    "$table" "$scratch/kernels")

# Lines "ARCHITECTURE MANGLED INSTRUCTION": of an instruction only its name and, if it is not 32 bits, its width.
cuobjdump -sass -fun "$hot" "$plugin" 2>/dev/null | awk '
    $1 == "code" { arch = $3 }
    $1 == "Function" { mangled = $3 }
    $1 ~ /^\/\*[0-9a-f]+\*\/$/ {
        opcode = $2 ~ /^@/ ? $3 : $2
        count = split(opcode, part, ".")
        line = arch " " mangled " " part[1]
        for (i = 2; i <= count; i++) if (part[i] ~ /^(128|64|[US](8|16))$/) line = line "." part[i]
        if (!seen[line]++) print line
    }' >"$scratch/instructions"

awk -v instructions="$scratch/instructions" '
    function bad(what) { print "     " what; wrong = 1 }
    # How many warps the registers of a multiprocessor are enough for: each gets them in units of 256, from one of four parts.
    function warps(registers) { return int(16384 / (int((registers * 32 + 255) / 256) * 256)) * 4 }
    BEGIN {
        while ((getline line < instructions) > 0) { split(line, part); has[part[1], part[2], part[3]] = 1 }
    }
    NR == FNR {
        if (!/^sm_/) next
        row[$1, $NF] = FNR; registers[FNR] = $2; stack[FNR] = $3; shared[FNR] = $4
        wanted[FNR] = ""
        for (i = 5; i < NF; i++) wanted[FNR] = wanted[FNR] " " $i
        place[FNR] = FILENAME ":" FNR
        next
    }
    {
        if (!(($1, $6) in row)) {
            if ($3 > 0) bad($1 " " $6 " has a stack of " $3 " bytes: it spills registers, or indexes an array that they do not hold")
            next
        }
        n = row[$1, $6]; found[n] = 1
        printf "%s %s: %d registers (%d warps), %d bytes of stack, %d of shared memory\n", $1, $6, $2, warps($2), $3, $4
        if ($2 > registers[n]) bad(place[n] ": at most " registers[n] " registers (" warps(registers[n]) " warps)")
        if ($3 != stack[n]) bad(place[n] ": " stack[n] " bytes of stack")
        if ($4 != shared[n]) bad(place[n] ": " shared[n] " bytes of shared memory")
        count = split(wanted[n], list)
        for (i = 1; i <= count; i++) {
            no = list[i] ~ /^!/; instruction = substr(list[i], 1 + no)
            if ((($1, $5, instruction) in has) == no) bad(place[n] ": " (no ? "no " : "an instruction ") instruction)
        }
    }
    END {
        for (key in row) if (!(row[key] in found)) bad(place[row[key]] ": the plugin has no such kernel")
        exit wrong
    }' "$table" "$scratch/kernels"
code=$?
[ $code -eq 0 ] && echo "[       OK ] $name" || echo "[  FAILED  ] $name"
exit $code
