#!/usr/bin/env bash
# make check: checks that the compiler does not do. Layout, include arrows, warnings of other compilers, forbidden words,
# names in the documentation.
#
#     tests/check.sh [NAME...]      only the checks whose name contains a NAME
#
# Prints one line per check: ok, FAIL after its findings (file:line: text), or SKIP if a tool is missing. The last line is
# "N passed, N failed, N skipped"; the script fails if a check failed.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8
passed=0 failed=0 skipped=0
scratch=$(mktemp -d) || exit 1
findings=$scratch/findings
trap 'rm -rf "$scratch"' EXIT

# Prints the files of the tree, or those that match one of the patterns.
files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@"
    else
        local pattern
        for pattern in "$@"; do find . -path "./${pattern}" -not -path './build*' -not -path './.git/*' | sed 's|^\./||'; done
    fi | sort -u | while read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done
}

# $1: a check's name; the rest: its command. Any line it prints is a finding.
check() {
    local name=$1
    shift
    [ -z "$only" ] || [[ $name =~ $only ]] || return 0
    "$@" >"$findings" 2>&1
    if [ -s "$findings" ]; then
        head -n 60 "$findings"
        echo "FAIL $name"
        failed=$((failed + 1))
    else
        echo "ok   $name"
        passed=$((passed + 1))
    fi
}

skip() { # NAME WHY
    [ -z "$only" ] || [[ $1 =~ $only ]] || return 0
    echo "SKIP $1: $2"
    skipped=$((skipped + 1))
}

# ---- who may include whom ----
# The table of arrows: the folder of a file, and the folders that its quoted includes may begin with. A folder may always
# include itself; tests and benchmarks are not in the table and may include any folder.
include_arrows() {
    files '*.c' '*.h' '*.cu' '*.cuh' | grep -Ev '^tests/' | xargs -r grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null |
        awk -F: '
        BEGIN {
            may["core/base"] = ""
            may["kernels"] = "core/base"
            may["datasets"] = "core/base"
            may["core"] = "kernels datasets core/base"
            may["runs"] = "core/base"
            may["tui/widget"] = "runs core/base"
            may["tui/view"] = "runs core/base tui/widget tui/keymap.def"
            may["docs"] = "core/base core runs tui/command tui/view"
            may["tui"] = "core/base kernels tui/session tui/command"
            may["tui/session"] = "core/base kernels datasets core runs"
            may["tui/command"] = "core/base kernels datasets core runs tui/session tui/widget tui/view tui/keymap.def"
            only["sqlite3.h"] = "runs"; only["csv.h"] = "runs datasets"
            only["curses.h"] = only["ncurses.h"] = only["term.h"] = "tui/view tui/widget"
            only["panel.h"] = only["form.h"] = only["menu.h"] = "tui/view tui/widget"
            only["omp.h"] = "kernels"; only["cblas.h"] = "tests"
        }
        function folder(path) { # the longest folder of the table that contains it
            if (path ~ /^core\/base\//) return "core/base"
            if (path ~ /^tui\/(view|widget|session|command)\//) { split(path, part, "/"); return part[1] "/" part[2] }
            if (path == "tui/keymap.def") return path
            split(path, part, "/")
            return part[1]
        }
        function among(word, list,   n, words, i) {
            n = split(list, words, " ")
            for (i = 1; i <= n; i++) if (words[i] == word) return 1
            return 0
        }
        {
            from = folder($1)
            text = $3
            if (match(text, /"[^"]*"/)) {
                path = substr(text, RSTART + 1, RLENGTH - 2)
                to = folder(path)
                if (path !~ /\//) print $1 ":" $2 ": include \"" path "\" by its path from the root"
                else if (!(from in may)) print $1 ":" $2 ": folder " from " is not in the table of include arrows"
                else if (to != from && !among(to, may[from]))
                    print $1 ":" $2 ": " from " may not include " path " (only " from " " may[from] ")"
            } else if (match(text, /<[^>]*>/)) {
                path = substr(text, RSTART + 1, RLENGTH - 2)
                sub(/^ncursesw?\//, "", path)
                if (path in only && !among(from, only[path]))
                    print $1 ":" $2 ": <" path "> belongs to " only[path] " alone"
            }
        }'
}

# Files must not call each other in a circle, directly or through others. nm lists the calls in the object files.
call_circles() {
    files '*.c' | grep -Ev '^tests/' | while read -r file; do
        for object in "build/${file%.c}.o" "build/isa/baseline/${file%.c}.o"; do if [ -f "$object" ]; then echo "$object"; fi; done
    done | xargs -r nm -gA | awk '
        { file = $1; sub(/:.*/, "", file) }
        $(NF - 1) == "U" { users[++n] = file; wanted[n] = $NF; next }
        { home[$NF] = file }
        END { for (i = 1; i <= n; i++) if (wanted[i] in home && home[wanted[i]] != users[i]) print users[i], home[wanted[i]] }' |
        sort -u | tsort 2>&1 >/dev/null | sed -E 's/^tsort: (-: input contains a loop:)?/a circle of calls: /'
}

# Device memory that other files allocate would be missing in the count of --check-allocations.
device_memory() {
    files '*.c' '*.h' '*.cu' '*.cuh' | grep -Ev '^(tests/|kernels/device/cuda_memory\.cu$)' |
        xargs -r grep -nE '\b(cudaMalloc[A-Za-z0-9]*|cudaHostAlloc|cudaHostRegister|cuMem[A-Za-z]*Alloc[A-Za-z]*)\(' /dev/null |
        sed -E 's/^([^:]*:[0-9]+):.*/\1: memory of the device comes from kernels\/device\/cuda_memory.cu alone/'
}

# An operation without a case in op_cases.c is never compared between CPU and CUDA.
operation_cases() {
    { sed -nE 's/^OPERATION\(([a-z0-9_]+),.*/\1/p' kernels/operations.def
      sed -nE 's/^ {4}OPTIMIZER\([A-Z0-9_]+, ([a-z0-9_]+),.*/\1_step\n\18_step/p' kernels/optimizers.h; } |
        while read -r name; do
            [[ $name == mem_* ]] || grep -qw "$name" tests/gpu/op_cases.c tests/gpu/op_cases_some.c tests/gpu/op_desk.c ||
                echo "kernels/operations.def: $name has no case in tests/gpu/op_cases.c"
        done
}

# A planted bug whose text is rewritten would be left out.
planted_texts() {
    TEXT_ONLY=1 tests/cuda_sim/plant.sh build | sed -nE 's/^\| ([0-9]+) \| `(.*)` \| its text is no longer there.*/\2: the old lines of bug \1 in tests\/cuda_sim\/bugs.list are not there exactly once/p'
}

# ---- layout ----
file_openings() {
    local file
    files '*.c' '*.h' '*.cu' | while read -r file; do
        [ "$(head -c 2 "$file")" = '/*' ] || echo "$file:1: begins without a comment that says what the file is for"
    done
    files '*.sh' '.ci/run' | while read -r file; do
        [[ $(sed -n 2p "$file") == '# '* ]] || echo "$file:2: no comment that says what the script is for"
    done
}

header_guards() {
    local file guard
    files '*.h' | while read -r file; do
        guard=$(sed -nE 's/^#ifndef (ANNEAL_[A-Z0-9_]+_H)$/\1/p' "$file" | head -n 1)
        if [ -z "$guard" ] || ! grep -q "^#define $guard\$" "$file"; then
            echo "$file:1: no include guard ANNEAL_..._H"
        else
            echo "$guard $file"
        fi
    done | awk '/: no include guard/ { print; next } seen[$1]++ { print $2 ":1: include guard " $1 " is used twice" }'
}

file_lengths() {
    files '*.c' '*.h' '*.cu' '*.sh' '*.py' | while read -r file; do
        awk -v file="$file" 'END { if (NR > 600) print file ":" NR ": over 600 lines: two subjects, split it" }' "$file"
    done
}

text_hygiene() {
    files '*.c' '*.h' '*.cu' '*.def' '*.sh' '*.py' '*.md' Makefile '.ci/run' | xargs -r grep -nE '[[:space:]]+$' /dev/null |
        sed -E 's/^([^:]*:[0-9]+):.*/\1: blanks at the end of the line/'
    files '*.c' '*.h' '*.cu' '*.def' | xargs -r grep -nP '\t' /dev/null | sed -E 's/^([^:]*:[0-9]+):.*/\1: a tab/'
    files '*.c' '*.h' '*.cu' '*.sh' '*.py' '*.md' | xargs -r grep -nE '^(<{7}|>{7}|={7})( |$)' /dev/null
}

# The pattern is written so that it does not match this line.
forbidden_words() {
    files | grep -vE '\.(safetensors|tok|gz|png)$' |
        xargs -r -d '\n' grep -nIE '/[h]ome/[a-z]|/[r]oot/|/[w]ork/|/[U]sers/|[p]ypi\.org|[p]ythonhosted|[r]egistry\.npmjs|deb\.[d]ebian\.org|archive\.[u]buntu\.com|[p]roxy\.golang' /dev/null |
        sed 's/$/   <- a path or host of one machine/'
}

# ---- documentation ----
# Compares docs/reference with the output of `make docs`.
reference_pages() {
    mkdir -p "$scratch/reference"
    build/docs/generate markdown "$scratch/reference"
    diff -r docs/reference "$scratch/reference" | sed -E 's/^diff -r (.*) .*/\1: differs from the tables of the program (run make docs)/'
}

manual_pages() {
    local page
    for page in build/man/*.[15]; do
        mandoc -Tlint -W warning "$page"
        if command -v groff >/dev/null; then groff -man -ww -K utf8 -T utf8 -z "$page"; fi
    done
}

# $1: a page. Prints a line per name on it: the line number, then `link`, `path`, `target` or `line` (of a diff, with its
# file), then the name. A diff begins with the line "+++ FILE", or "+++ FILE (new)" if the reader creates the file.
names_on_page() {
    awk '
    function say(kind, what) { print NR "\t" kind "\t" what }
    function each(pattern, kind, from, cut,   text, at) {
        for (text = $0; match(text, pattern); text = substr(text, RSTART + RLENGTH)) {
            at = substr(text, RSTART + from, RLENGTH - from - cut)
            say(kind, at)
        }
    }
    /^ *```/ { fenced = !fenced; diff = fenced && /```diff/; file = ""; next }
    diff && /^\+\+\+ / { file = /\(new\)$/ ? "" : $2; if (file != "") say("path", file); next }
    diff && /^[ -]/ && file != "" { say("line", file "\t" substr($0, 2)) }
    fenced && /^ *make [a-z-]+( |$)/ { say("target", $2) }
    fenced { next }
    {
        each("\\]\\([^)]*\\)", "link", 2, 1)
        each("(src|srcset)=\"[^\"]*\"", "link", index($0, "srcset=") ? 8 : 5, 1)
        each("`make [a-z][a-z-]*", "target", 6, 0)
        each("`[a-z.]+/[A-Za-z0-9_./-]*`", "path", 1, 1)
    }' "$1"
}

# The anchors of a page, as a forge makes them from its headings.
anchors() {
    awk '/^ *```/ { fenced = !fenced } !fenced && /^#+ / { sub(/^#+ /, ""); print tolower($0) }' "$1" |
        sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

# Only paths of the repository are checked, not others such as build/ and config/.
documentation() {
    local page number kind what file target targets
    targets=" $(grep -oE '^[a-z][a-z -]*:' Makefile | tr '\n:' '  ') "
    files '*.md' | while read -r page; do
        names_on_page "$page" | while IFS=$'\t' read -r number kind what target; do
            case $kind in
                link)
                    [[ $what != *://* && $what != mailto:* ]] || continue
                    file=${what%%#*}
                    if [ -z "$file" ]; then file=$page; else file=$(dirname "$page")/$file; fi
                    [ -e "$file" ] || { echo "$page:$number: links to $what, which does not exist"; continue; }
                    [[ $what != *'#'* ]] || anchors "$file" | grep -qxF -- "${what#*#}" ||
                        echo "$page:$number: links to $what, but there is no such heading"
                    ;;
                path)
                    case $what in core/* | kernels/* | datasets/* | runs/*.[ch] | tui/* | tests/* | docs/* | packaging/* | .ci/* | .github/*) ;; *) continue ;; esac
                    [ -e "$what" ] || echo "$page:$number: names $what, which does not exist"
                    ;;
                target) [[ $targets == *" $what "* ]] || echo "$page:$number: make has no target $what" ;;
                line)
                    file=$(tr -s ' ' <"$what")
                    [[ $file == *"$(tr -s ' ' <<<"$target")"* ]] || echo "$page:$number: $what has no line \"$target\""
                    ;;
            esac
        done
    done
}

# The messages that docs/troubleshooting.md quotes in its bold lines. Each piece of a quote between numbers and "..." must be
# in a string of the program, whose conversions (%s) are left out, or in a message of the Makefile.
quoted_messages() {
    files '*.c' '*.h' '*.def' '*.cu' 'Makefile' | grep -Ev '^tests/' | xargs -r perl -0777 -pe '
        if ($ARGV ne "Makefile") {
            s/" *\n? *PRI[a-z]+64 *\n? *"/%d/g;
            $_ = join "\n", map { s/"\s*"//gr } /"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*/g;
            s/%%/\0/g, s/%[-+ 0#]*[0-9.*]*(hh|h|ll|l|z|t|L)?[diouxXeEfFgGsc]/\n/g, s/\0/%/g;
        }
        s/\\(["`\\])/$1/g;' >"$scratch/messages"
    perl -ne '
        BEGIN { local (@ARGV, $/) = "'"$scratch/messages"'"; $messages = <> }
        next unless /^\*\*/;
        for $quote (/`([^`]+)`/g) {
            for (split /\.\.\.|[0-9][0-9.,]*(?: ?[KMGT]i?B\b)?/, $quote) {
                s/^\s+|\s+$//g;
                print "docs/troubleshooting.md:$.: no message contains \"$_\"\n" if length > 2 && index($messages, $_) < 0;
            }
        }' docs/troubleshooting.md
}

# ---- compilers ----
make_flags() { # COMPILER: the flags of the Makefile, without the dependency files
    make -s --no-print-directory CC="$1" \
        --eval='show-flags:; @echo $(filter-out -MMD -MP,$(BASE_CFLAGS))' show-flags 2>/dev/null
}

# $1: compiler and flags; $2: further flags; both are split into words. Compiles every .c of the product and the tests.
syntax_of_sources() { # where MPI is missing, its plugin is left out
    local mpi
    mpi=$(mpicc --showme:incdirs 2>/dev/null)
    files '*.c' | if [ -n "$mpi" ]; then cat; else grep -v '^kernels/device/mpi/'; fi |
        xargs -r -n 1 -P "$(nproc)" $1 -fsyntax-only $2 ${mpi:+-idirafter "${mpi%% *}"}
}

syntax_of_headers() {
    files '*.h' | xargs -r -n 1 -P "$(nproc)" $1 -fsyntax-only -Wno-unused-function $2 -x c
}

layout_of_sources() {
    files '*.c' '*.h' | xargs -r "$1" --dry-run -Werror --style=file 2>&1 | grep -E '(error|warning):' |
        awk -F: '!seen[$1]++ { print $1 ":" $2 ": clang-format -i " $1 " would change this line, the first" }'
}

find_clang_format() { # version 14: other versions break lines differently
    local tool
    for tool in clang-format-14 clang-format; do
        if command -v "$tool" >/dev/null && "$tool" --version | grep -q 'version 14\.'; then
            echo "$tool"
            return
        fi
    done
}

# gpu-check must build on a machine that has only gcc and libc's headers, so it may include nothing else.
gpu_check_headers() {
    local out=$scratch/gpu
    ANNEAL_CUDA_PLUGIN=none tests/gpu/build.sh "$out" >"$scratch/gpu.log" 2>&1 || { cat "$scratch/gpu.log"; return; }
    find "$out" -name '*.deps' -exec cat {} + | tr -s ' \\\n' '\n' | grep '^/' | grep -v "^$out" | xargs -r readlink -m | sort -u |
        xargs -r dpkg -S | grep -vE '^(libc6-dev|linux-libc-dev|libgcc-[0-9]+-dev)[:,]'
    ldd "$out/gpu_check" | grep -vE 'linux-vdso|ld-linux|lib(c|m|gomp|dl|pthread)\.so'
}

shell_scripts() {
    files '*.sh' '.ci/run' | xargs -r shellcheck -S warning -e SC2155,SC2086
}

only=$(IFS='|'; echo "$*")
[ -n "$(files '*.c')" ] || { echo "check.sh: no source files below $PWD" >&2; exit 1; }
check 'include arrows' include_arrows
check 'one file asks CUDA for memory' device_memory
check 'every operation has a case on both devices' operation_cases
check 'planted bugs find their lines' planted_texts
check 'every file says what it is for' file_openings
check 'include guards' header_guards
check 'no file over 600 lines' file_lengths
check 'blanks, tabs, conflict marks' text_hygiene
check 'no paths or hosts of one machine' forbidden_words
check 'pages name files, links and targets that exist' documentation
check 'messages that a page quotes exist' quoted_messages

if [ -x build/anneal ]; then
    check 'no circle of calls between files' call_circles
else
    skip 'no circle of calls between files' 'no build/anneal (make)'
fi
if [ -x build/docs/generate ]; then
    check 'docs/reference is up to date' reference_pages
else
    skip 'docs/reference is up to date' 'no build/docs/generate (make)'
fi
if command -v mandoc >/dev/null && [ -d build/man ]; then
    check 'manual pages' manual_pages
else
    skip 'manual pages' 'no mandoc (apt install mandoc) or no build/man (make)'
fi
if command -v gcc >/dev/null; then
    check 'every header compiles alone (gcc)' syntax_of_headers "gcc $(make_flags gcc)" ''
else
    skip 'every header compiles alone (gcc)' 'no gcc'
fi
if ! command -v clang >/dev/null; then
    skip 'clang finds nothing to warn of' 'no clang (apt install clang)'
elif ! echo '#include <omp.h>' | clang -fopenmp -fsyntax-only -x c - 2>/dev/null; then
    skip 'clang finds nothing to warn of' 'clang has no omp.h (apt install libomp-dev)'
else
    check 'clang finds nothing to warn of' syntax_of_sources "clang $(make_flags clang)" ''
fi
if command -v aarch64-linux-gnu-gcc >/dev/null; then # the headers of other libraries are those of this machine
    check 'aarch64 compiles' syntax_of_sources "aarch64-linux-gnu-gcc $(make_flags gcc)" \
        "-idirafter /usr/include -idirafter /usr/include/$(gcc -print-multiarch)"
else
    skip 'aarch64 compiles' 'no aarch64-linux-gnu-gcc (apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)'
fi
if command -v dpkg >/dev/null; then
    check 'gpu-check needs libc alone' gpu_check_headers
else
    skip 'gpu-check needs libc alone' 'no dpkg to ask whose a header is'
fi
clang_format=$(find_clang_format)
if [ -n "$clang_format" ]; then
    check 'clang-format 14 changes nothing' layout_of_sources "$clang_format"
else
    skip 'clang-format 14 changes nothing' 'no clang-format of version 14'
fi
if command -v shellcheck >/dev/null; then
    check 'shellcheck' shell_scripts
else
    skip 'shellcheck' 'no shellcheck (apt install shellcheck)'
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
