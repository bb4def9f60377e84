#!/usr/bin/env bash
# make mutate on a tree of a few files: of their bugs those are found that the test can notice, and the others are named.
set -u
here=$(cd "$(dirname "$0")" && pwd)
for tool in clang g++ python3 unshare git; do
    command -v $tool >/dev/null || { echo "[  SKIPPED ] mutate ($tool is not installed)" && exit 0; }
done
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src" "$tree/tests/small" && cd "$tree" || exit 1
cp "$here/../run.sh" tests/

# One line a pattern. `unnoticed` is the bound that the test does not try, `unreached` is never called, and where `equal` is
# changed nothing differs; nor would anything if `least` and `most` compared otherwise. Without its bound `endless` does not end.
cat >src/small.c <<'C'
#include <stdarg.h>
#include <string.h>

struct config { struct config_train { int steps; } train; };
void config_init(struct config *config) { config->train.steps = 10; }
int data_sync(int fd) { return fd; }
static int between(int a, int b) { return a * 10 / b; }

int less(int a, int b) { return a < b; }
int unnoticed(int a) { return a > 100; }
int before(int n) { return n + 1; }
int checked(int n)
{
    if (n * n == 49) return 1;
    return 2;
}
int both(int a, int b) { return a && b; }
int order(int a, int b) { return between(a, b); }
int steps(struct config *config) { return config->train.steps; }
int synced(void) { return data_sync(3) == 3; }
void put(char *out, const char *text) { strcpy(out, text); }
int unreached(int a) { return a <= 3; }
int equal(int a) { return a * 0 - a * 0; }
int endless(int n)
{
    while (1) {
        if (!--n) break;
    }
    return n;
}
#if 0
int left_out(int a) { return a < 3; }
#endif
enum { SIZE = 3 + 1 };
static int table[SIZE - 1] = {SIZE > 3};
int first(void) { return table[0]; }
int least(int a, int b) { return a < b ? a : b; }
int most(int a, int b)
{
    if (a > b) b = a;
    return b;
}
int taken(int n, ...)
{
    va_list list;
    va_start(list, n);
    int first = between(n, va_arg(list, int)), second = va_arg(list, int);
    va_end(list);
    return first + second;
}
C
# CUDA's sources are C++ here. A template is one text, whatever it becomes, and the compiler chooses what is constexpr.
cat >src/picked.cuh <<'C'
template <bool TWICE, typename T> static T picked(const T *row, int i, int n)
{
    if constexpr (TWICE) i *= 2;
    if (i >= n) return 0;
    return row[i % n];
}
C
cat >src/kernel.cu <<'C'
#include "src/picked.cuh"

extern "C" int pick(const int *row, int i, int n) { return picked<true>(row, i, n) * n; }
C
cat >tests/small/test_small.c <<'C'
#include <stdio.h>
struct config { int steps; };
int less(int, int), unnoticed(int), before(int), checked(int), both(int, int), order(int, int), synced(void), equal(int), endless(int), most(int, int), taken(int, ...);
int steps(struct config *);
void put(char *, const char *);
int pick(const int *, int, int);
int main(void)
{
    char text[10] = "";
    const int row[] = {3, 4, 5, 6};
    struct config config = {11};
    put(text, "x");
    int ok = !less(2, 2) && unnoticed(101) && before(1) == 2 && checked(7) == 1 && checked(6) == 2 && !both(1, 0) && order(4, 2) == 20 &&
             steps(&config) == 11 && synced() && text[0] == 'x' && equal(2) == 0 && endless(3) == 0 &&
             most(3, 2) == 3 && taken(2, 4, 7) == 12 && pick(row, 1, 4) == 20 && pick(row, 2, 4) == 0;
    puts(ok ? "[       OK ] small" : "[  FAILED  ] small: 1 test(s)");
    return !ok;
}
C
cat >Makefile <<'M'
tests: build/tests/small/test_small
build/tests/small/test_small: tests/small/test_small.c src/small.c src/kernel.cu
	@mkdir -p $(@D)
	g++ $(CPPFLAGS) -I. -c -o build/kernel.o -x c++ src/kernel.cu
	gcc $(CPPFLAGS) -I. -o $@ tests/small/test_small.c src/small.c build/kernel.o
M
git init -q && git add . || exit 1
export FLAGS='-std=c17 -D_GNU_SOURCE -I.' CUDA_FLAGS='-x c++ -std=c++20 -I.' SOURCES='src/small.c src/kernel.cu src/picked.cuh' BUILD=build \
    BUILDER=make TREE=build-mutate N=100 JOBS=1 PATIENCE=10
python3 "$here/mutate.py" src >out 2>&1
status=$?
if grep -q 'needs a process namespace' out; then
    echo "[  SKIPPED ] mutate (no process namespace here)"
    exit 0
fi
bad=0
expect() { # $1: a pattern of a line of the output
    grep -Eq "$1" out || { echo "no line: $1" && bad=1; }
}
[ $status = 0 ] || bad=1
expect '^found .*:9: comparison: a < b  ->  a <= b'
expect '^survived .*:10: comparison: a > 100  ->  a >= 100'
expect '^ +1 tests reach it, it makes a difference in 0'
expect '^found .*:11: bound: n \+ 1  ->  n$'
expect '^found .*:14: (dropped check: if \(n \* n == 49\)  ->  no check|comparison: n \* n == 49  ->  n \* n != 49)'
expect '^found .*:17: dropped check: a && b  ->  a$'
expect '^found .*:18: swapped order: between\(a, b\)  ->  between\(b, a\)'
expect '^found .*:19: ignored key: config->train.steps  ->  MUTANT_CONFIG->train.steps'
expect '^found .*:20: (missing sync: data_sync\(3\)  ->  0|comparison)'
expect '^found .*:21: dropped call: strcpy'
expect '^survived .*:22: comparison: a <= 3'
expect '^survived .*:23: swapped order: a \* 0 - a \* 0'
expect '^ +0 tests reach it'
if grep -Eq ':3[1-6]:|:(3[7-9]|40): comparison' out; then bad=1; fi
expect '^found .*:40: dropped check: if \(a > b\)'
expect '^\| src \| [0-9]+ \| [0-9]+ \| 3 \| [0-9]+ \|'
expect '^found .*:27: dropped check: if \(!--n\)  ->  no check'
expect 'did not end'
expect '^found .*kernel.cu:3: lost operand: picked<true>\(row, i, n\) \* n  ->  picked<true>\(row, i, n\)$'
expect '^found .*picked.cuh:4: (comparison: i >= n  ->  i > n|dropped check: if \(i >= n\))'
expect '^survived .*picked.cuh:5: lost operand: i % n  ->  i$'
grep -Eq 'picked.cuh:3:' out && bad=1
grep -q MUTANT src/small.c && bad=1

# Without a budget those are named that no test could notice, and the others are not tried.
BUDGET=0 python3 "$here/mutate.py" src >out 2>&1 || bad=1
expect '^survived .*:10: comparison: a > 100  ->  a >= 100'
expect '^[0-9]+ were not tried$'
grep -q '^found' out && bad=1
if [ $bad = 0 ]; then
    echo "[       OK ] mutate"
else
    cat out
    echo "[  FAILED  ] mutate: 1 test(s)"
    exit 1
fi
