#!/usr/bin/env python3
"""Which small bugs do the tests find? `make mutate` plants some at random, one at a time behind a switch, and runs
the tests on each.

    tests/mutate/mutate.py [FILE or FOLDER...]      default: what differs from origin/main, or else in the last commit

The sources are copied to TREE (build-mutate) and stay as they are. A first run of all tests marks which bugs each
program reaches and which would make a difference there (mutant.h). Then each bug is shown to those programs, the
fastest and nearest first, until one fails twice or does not end. Tests run in a process namespace of their own in which
all but TREE is read-only, because a bug may signal or remove what is not its own.

The environment comes from the Makefile: SOURCES (files that may be changed), FLAGS (of the compiler), CUDA_FLAGS (of the one
that compiles CUDA sources for the simulator), BUILD (folder), BUILDER (a make command). The user may set N bugs drawn with
SEED; BUGS (numbers of those to try, the others are only planted); ONLY (words of which a test's name has one), SLOWEST
(seconds that a test may take without a bug); JOBS tests at a time; up to BUDGET seconds of tests a bug, of which each may
take ten times as long as usual and PATIENCE seconds; and no bug is begun after MINUTES. With BUDGET=0 none is tried: those
are named that no test would notice, because none reaches them or the bug makes no difference in any.
"""

import collections
import concurrent.futures
import glob
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from places import CUDA, WITHOUT_CACHE, find_places, plant  # noqa: E402

TREE = os.environ.get("TREE", "build-mutate")
BUILD = os.environ.get("BUILD", "build")
SOURCES = os.environ["SOURCES"].split()
JOBS = int(os.environ.get("JOBS") or os.cpu_count())
BUDGET = float(os.environ.get("BUDGET") or 300)
PATIENCE = float(os.environ.get("PATIENCE") or 20)
SLOWEST = float(os.environ.get("SLOWEST") or 900)
MINUTES = float(os.environ.get("MINUTES") or 1e9)
INSIDE = """mount --bind "$1" "$1" && mount --bind /tmp /tmp && mount -o remount,bind,ro / &&
            case $1/ in /dev/shm/*) mount --bind /dev/shm /dev/shm ;; *) mount -t tmpfs tmpfs /dev/shm ;; esac &&
            case $1/ in /tmp/*) ;; *) mount -t tmpfs tmpfs /tmp ;; esac &&
            cd "$1" && shift && ulimit -S -f 20000000 && trap '' XFSZ && echo 1000 >/proc/self/oom_score_adj && exec "$@" """
NAMESPACE = ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]),
             "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", INSIDE, "sh"]


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def log(text):
    print(text, flush=True)


# ---- choosing ----

def chosen_files(words):
    """The sources named by `words`, or those that were changed."""
    if not words:
        words = output("git", "diff", "--name-only", "origin/main...HEAD") or output("git", "diff", "--name-only", "HEAD~1")
    folders = tuple(word.rstrip("/") + "/" for word in words)
    return [file for file in SOURCES if "." in words or file in words or file.startswith(folders)]


def area(path):
    return "cuda" if path.endswith(CUDA) else path.split("/")[0]


def clang(file, *more):
    """A command that reads a file of this kind."""
    flags = os.environ["CUDA_FLAGS" if file.endswith(CUDA) else "FLAGS"].split()
    return ["clang", *more, *flags, "-w", "-Wno-unknown-warning-option", "-fsyntax-only"]


def choose(files, count, rng):
    """`count` places that do not overlap, the same number from each area as far as it has them. Files are drawn by
    their size before they are read, because clang takes a second for each."""
    chosen = []
    areas = sorted({area(file) for file in files})
    for i, name in enumerate(areas):
        mine = [file for file in files if area(file) == name]
        sizes = [os.path.getsize(file) for file in mine]
        share = (count - len(chosen)) // (len(areas) - i)
        drawn = collections.Counter(rng.choices(mine, sizes, k=share))
        with concurrent.futures.ProcessPoolExecutor(JOBS) as pool:
            found = dict(zip(drawn, pool.map(places_of, drawn)))
        spare = []
        for file, wanted in drawn.items():
            rng.shuffle(found[file])
            taken = []
            for place in found[file]:
                if all(place.stop <= other.start or other.stop <= place.start for other in taken):
                    taken.append(place)
            chosen += taken[:wanted]
            spare += taken[wanted:]
            share -= len(taken[:wanted])
        rng.shuffle(spare)
        chosen += spare[:share]
    return chosen


def places_of(file):
    try:
        return find_places(file, [word for word in clang(file) if word != "-fopenmp"])
    except ValueError as error:
        log(f"left out: {error}")
        return []


def includers(header):
    """The CUDA sources that include it, themselves or through others."""
    included, found = {}, {header}
    for path in SOURCES:
        if path.endswith(CUDA):
            with open(path, encoding="utf-8") as file:
                included[path] = set(re.findall(r'^#include "([^"]+)"', file.read(), re.M))
    while more := {path for path in included if included[path] & found} - found:
        found |= more
    return [path for path in found if path.endswith(".cu")]


def compiles(text, file):
    """Whether clang takes the changed text; of a header, each source that includes it."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.dirname(f"{folder}/{file}"))
        with open(f"{folder}/{file}", "wb") as changed:
            changed.write(text)
        command = clang(file, f"-I{folder}", f"-I{HERE}", "-I" + os.path.dirname(file))
        sources = includers(file) if file.endswith(".cuh") else [f"{folder}/{file}"]
        return all(subprocess.run([*command, source], capture_output=True, check=False, env=WITHOUT_CACHE).returncode == 0
                   for source in sources)


def planted_text(file, places):
    """The file with its bugs, without those that do not compile, which leave `places`."""
    with open(file, "rb") as source:
        text = source.read()
    if not compiles(plant(text, places), file):
        for each in [each for each in places if not compiles(plant(text, [each]), file)]:
            log(f"left out: {each[1].path}:{each[1].line}: does not compile: {each[1].after}")
            places.remove(each)
    return plant(text, places)


# ---- the copy of the tree ----

def write_if_changed(path, text):
    try:
        with open(path, "rb") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "wb") as file:
        file.write(text)


def copy_tree(changed):
    """Copies what git knows, with `changed` (path: text) in place of the originals, and at first what was built of it:
    times are kept, so that only changed files are compiled again."""
    first = not os.path.isdir(f"{TREE}/{BUILD}")
    os.makedirs(TREE, exist_ok=True)
    files = output("git", "ls-files", "-co", "--exclude-standard")
    for file in files:
        target = f"{TREE}/{file}"
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        if file not in changed and os.path.isfile(file) and not os.path.islink(file):
            with open(file, "rb") as source:
                text = source.read()
            if os.path.exists(target):
                write_if_changed(target, text)
            else:
                shutil.copy2(file, target)
        elif os.path.islink(file) and not os.path.lexists(target):
            os.symlink(os.readlink(file), target)
    for file, text in changed.items():
        write_if_changed(f"{TREE}/{file}", text)
    known = set(files)
    for name in set(os.listdir(TREE)) - {file.split("/")[0] for file in files} - {BUILD}:
        path = f"{TREE}/{name}"  # what bugs of an earlier run have written
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
    for folder, _, names in os.walk(TREE):  # wildcards of the Makefile would find what was removed
        for name in names:
            path = os.path.relpath(f"{folder}/{name}", TREE)
            if name.endswith((".c", ".cu", ".cc")) and path not in known and not path.startswith("build"):
                os.remove(f"{TREE}/{path}")
    shutil.copy2(f"{HERE}/mutant.h", TREE)
    if first and os.path.isdir(BUILD):
        shutil.rmtree(f"{TREE}/part", ignore_errors=True)
        shutil.copytree(BUILD, f"{TREE}/part", symlinks=True, ignore=linked_programs)
        os.rename(f"{TREE}/part", f"{TREE}/{BUILD}")


def linked_programs(folder, names):
    return [name for name in names if folder.startswith(f"{BUILD}/tests") and "." not in name
            and os.path.isfile(f"{folder}/{name}") or name in ("release", "bundle")]


def build_tree():
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    command = os.environ["BUILDER"].split() + [f"-j{JOBS}", "CPPFLAGS=-w", "LDFLAGS=-Wl,--strip-debug", "tests"]
    if os.environ.get("ONLY"):  # no others are linked
        command.append("TESTS=" + " ".join(f"{BUILD}/{source[:-2]}" for pattern in ("*/test_*.c", "*/*/test_*.c")
                                           for source in glob.glob(f"tests/{pattern}") if wanted(source[6:])))
    with open(f"{TREE}/build.log", "wb") as file:
        done = subprocess.run(command, cwd=TREE, env=environment, stdout=file, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            sys.exit(f"mutate: the changed sources do not build: see {TREE}/build.log")


def wanted(name):
    words = os.environ.get("ONLY", "").split()
    return not name.startswith("mutate/") and (not words or any(word in name for word in words))


# ---- running ----

def test_programs():
    names = [path[len(f"{TREE}/{BUILD}/tests/"):] for pattern in ("*/test_*", "*/*/test_*")
             for path in glob.glob(f"{TREE}/{BUILD}/tests/{pattern}") if "." not in os.path.basename(path)]
    scripts = [path[len(f"{TREE}/tests/"):] for pattern in ("*", "*/*") for path in glob.glob(f"{TREE}/tests/{pattern}/test_*.sh")]
    there = [name for name in names if os.path.exists(f"{TREE}/tests/{name}.c")]  # not one built of what was removed
    return [name for name in sorted(there + scripts) if wanted(name)]


def run_test(name, limit, **variables):
    """(whether it passed, seconds)"""
    environment = {**os.environ, **variables, "TIMEOUT": str(int(limit)), "JOBS": "1",
                   "TMPDIR": os.path.abspath(f"{TREE}/scratch")}
    for key in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "FLAGS", "CUDA_FLAGS", "ANNEAL_TEST_DIR"):
        environment.pop(key, None)
    start = time.monotonic()
    command = [*NAMESPACE, os.path.abspath(TREE), "tests/run.sh", BUILD, f"tests/{name}$"]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=limit + 120, check=False)
    return done.returncode == 0, time.monotonic() - start


def record(name, count):
    """What a test marks without a bug: (name, seconds, marks), or None where it fails."""
    marks = os.path.abspath(f"{TREE}/scratch/marks.{name.replace('/', '.')}")
    for _ in range(2):
        with open(marks, "wb") as file:
            file.write(bytes(count + 1))
        passed, seconds = run_test(name, SLOWEST, MUTANT_MARKS=marks)
        with open(marks, "rb") as file:
            found = file.read()
        if passed:
            return name, seconds, found
        if seconds > SLOWEST:
            break
    log(f"not used, because it fails without a bug or takes over {SLOWEST:.0f} s: {name}")
    return None


def nearness(name, place):
    """Smaller for a test of the same file, and of the same folder."""
    stem = os.path.splitext(os.path.basename(place.path))[0]
    if os.path.basename(name) == f"test_{stem}":
        return 0.03
    return 0.3 if os.path.dirname(name) == os.path.dirname(place.path) else 1


def hunt(number, place, tests, deadline):
    """(result, text): found, survived or untried, and by which test or before which."""
    reached = [test for test in tests if test[2][number]]
    noticing = sorted((test for test in reached if test[2][number] & 2),
                      key=lambda test: test[1] * nearness(test[0], place))
    if time.monotonic() > deadline or (noticing and not BUDGET):
        return "untried", ""
    left, shown = BUDGET, []
    for name, usual, _ in noticing:
        if left < 0:
            break
        limit = int(PATIENCE + 10 * usual)
        try:
            passed, seconds = run_test(name, limit, MUTANT=str(number))
            if not passed and seconds < limit:
                passed, _ = run_test(name, limit, MUTANT=str(number))
        except subprocess.TimeoutExpired:
            passed, seconds = False, limit
        if not passed:
            return "found", name if seconds < limit else f"{name} (did not end)"
        left -= seconds
        shown.append(name)
    text = f"{len(reached)} tests reach it, it makes a difference in {len(noticing)}"
    if len(shown) < len(noticing):
        text += f", of which {len(shown)} ran"
    return "survived", text + (": " + " ".join(shown) if shown else "")


def table(results):
    """Markdown: planted, found, survived, by area and by kind."""
    lines = []
    for title, key in (("area", lambda place: area(place.path)), ("kind", lambda place: place.kind)):
        lines += ["", f"| {title} | planted | found | survived | found of 100 |", "| --- | --: | --: | --: | --: |"]
        groups = collections.defaultdict(collections.Counter)
        for place, result, _ in results:
            for name in (key(place), "all"):
                groups[name][result] += 1
        for name in sorted(groups, key=lambda name: (name == "all", name)):
            found, survived = groups[name]["found"], groups[name]["survived"]
            tried = found + survived
            lines.append(f"| {name} | {tried} | {found} | {survived} | {100 * found // max(tried, 1)} |")
    untried = sum(result == "untried" for _, result, _ in results)
    lines += [f"{untried} were not tried" + (" for want of time" if BUDGET else "")] if untried else []
    return "\n".join(lines)


def main():
    files = chosen_files(sys.argv[1:])
    if not files:
        sys.exit("mutate: none of these files is a C source of the program")
    if subprocess.run([*NAMESPACE, os.path.abspath("."), "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        sys.exit("mutate: needs a process namespace, so that a bug cannot signal other processes; "
                 "unshare makes none here")
    start = time.monotonic()
    rng = random.Random(int(os.environ.get("SEED") or 1))
    chosen = choose(files, int(os.environ.get("N") or 40), rng)
    numbered = list(enumerate(sorted(chosen, key=lambda place: (place.path, place.start)), 1))
    changed = {}
    for file, group in itertools.groupby(numbered, key=lambda each: each[1].path):
        changed[file] = list(group)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        texts = dict(zip(changed, pool.map(planted_text, changed, changed.values())))
    numbered = [each for group in changed.values() for each in group]
    log(f"{len(numbered)} bugs in {len(changed)} of {len(files)} files; building them in {TREE}")
    copy_tree(texts)
    os.makedirs(f"{TREE}/scratch")
    build_tree()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        names = test_programs()
        log(f"{time.monotonic() - start:.0f} s: running {len(names)} test programs without a bug")
        count = max((number for number, _ in numbered), default=0)
        tests = [test for test in pool.map(lambda name: record(name, count), names) if test]
        log(f"{time.monotonic() - start:.0f} s: with each bug those to which it makes a difference")
        deadline, results = start + 60 * MINUTES, []
        again = set(map(int, os.environ.get("BUGS", "").split()))
        numbered = [each for each in numbered if not again or each[0] in again]
        rng.shuffle(numbered)
        hunts = pool.map(lambda each: (*each, *hunt(*each, tests, deadline)), numbered)
        for number, place, result, text in hunts:
            results.append((place, result, text))
            if result != "untried":
                log(f"{result:8} {number:3} {place.path}:{place.line}: {place.kind}: {place.before}  ->  {place.after}"
                    f"\n             {text}")
    log(table(results))


if __name__ == "__main__":
    main()
