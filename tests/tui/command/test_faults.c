/* One call of a short run fails, and then every call of its kind from there on: each open, read, write, sync,
 * rename and so on, and each allocation, one after the other. The command never crashes and never records a
 * wrong number; where something is missing in the end a sentence says so; and afterwards the run goes on to
 * the same end, bit for bit.
 *
 * make test-long tries all of them, make test a sample. Several processes share the work, because a trainer
 * whose storage fails waits for it: the test starts itself again with its share in TEST_SHARE. One fault
 * alone, as the output names it: TEST_FAULT='read 2: Interrupted system call' TEST_SHARE=... test_faults
 * calls */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/long.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/command/traced.h"

enum { STEPS = 4, SHARES = 10, SECONDS = 60, SOME_CALLS = 16, SOME_PLACES = 16 };

#define SETTINGS                                                                                             \
    "--train.total_steps=4", "--checkpoint.every=2", "--checkpoint.keep=1", "--eval.every=2",                \
        "--sample.every=2", "--progress=json"

/* The errors that such a call may have. */
static const int errors[TRACED_KINDS][4] = {
    [TRACED_OPEN] = {EIO, EMFILE, ENOSPC},
    [TRACED_READ] = {EIO, EINTR},
    [TRACED_WRITE] = {ENOSPC, EIO, EINTR},
    [TRACED_TRUNCATE] = {EIO},
    [TRACED_SYNC] = {EIO, EINTR},
    [TRACED_RENAME] = {EIO, ENOSPC},
    [TRACED_LINK] = {EIO},
    [TRACED_REMOVE] = {EIO},
    [TRACED_FOLDER] = {ENOSPC, EIO},
    [TRACED_MAP] = {ENOMEM},
    [TRACED_LOCK] = {ENOLCK, EINTR},
};

/* What fails: a call, or an allocation. */
struct fault {
    enum traced_kind kind;
    size_t number; /* of the calls of this kind, from 1; 0: none */
    int error;
    char place[24]; /* of memory.c; "": none */
    bool for_good;
};

struct trial {
    const struct stage *stage;
    struct fault fault;
    struct history whole;
    char *out, *err;
    bool begun;                 /* it has come to the files of the stage */
    size_t count[TRACED_KINDS]; /* of calls so far */
};

/* ---- a run with a fault ---- */

static int choose_error(void *context, const struct traced_call *call)
{
    struct trial *t = context;
    size_t n = strlen(t->stage->folder);
    t->begun = t->begun || strncmp(call->path, t->stage->folder, n) == 0;
    if (!t->begun || !*call->path || !strcmp(call->path, t->out) || !strcmp(call->path, t->err)) return 0;
    size_t number = ++t->count[call->kind];
    if (call->kind != t->fault.kind || !t->fault.number) return 0;
    return number == t->fault.number || (t->fault.for_good && number > t->fault.number) ? t->fault.error : 0;
}

static char *memory_library(void)
{
    const char *binary = getenv("ANNEAL_BINARY");
    return kept_format("%.*s/tests/runs/stand_in/memory.so", (int)(strrchr(binary, '/') - binary), binary);
}

/* Trains in an empty home: the exit status. */
static int train(struct trial *t, const char *log)
{
    const struct stage *s = t->stage;
    const char *words[] = {"train", s->config, "--name", "night", SETTINGS, NULL}, *environment[6] = {0};
    int n = 0;
    assert_int_equal(file_remove_tree(s->home, NULL), STATUS_OK);
    t->begun = false;
    memset(t->count, 0, sizeof t->count);
    if (log || *t->fault.place) environment[n++] = kept_format("LD_PRELOAD=%s", memory_library());
    if (log) environment[n++] = kept_format("TEST_MEMORY_LOG=%s", log);
    if (*t->fault.place) environment[n++] = kept_format("TEST_MEMORY_PLACE=%s", t->fault.place);
    if (*t->fault.place && t->fault.for_good) environment[n++] = "TEST_MEMORY_FOR_GOOD=1";
    struct traced traced = {.arguments = words,
                            .environment = environment,
                            .out = t->out,
                            .err = t->err,
                            .seconds = SECONDS,
                            .before = choose_error,
                            .context = t};
    return traced_run(&traced);
}

/* ---- what came of it ---- */

static void fail_with(const struct trial *t, const char *why)
{
    fail_msg("%s\nstandard output:\n%s\nstandard error:\n%s", why, stage_read(t->out), stage_read(t->err));
}

/* Whether the command has said that something went wrong. */
static bool has_said(const struct trial *t)
{
    const char *out = stage_read(t->out), *err = stage_read(t->err);
    return strstr(err, "anneal: ") || strstr(out, "\"level\":\"error\"") ||
           strstr(out, "\"level\":\"warning\"");
}

/* The recorded steps are right; returns how many of them are missing. */
static int64_t check_steps(const struct trial *t)
{
    struct history got = history_of("night");
    int64_t missing = STEPS;
    assert_true(got.count <= STEPS);
    for (int64_t i = 0; i < got.count; i++) {
        if (!*got.steps[i].values) continue;
        if (strcmp(got.steps[i].values, t->whole.steps[i].values) != 0)
            fail_with(t, "a recorded step is wrong");
        missing--;
    }
    return missing;
}

static bool is_known(void)
{
    json_t *runs = stage_runs(), *run;
    size_t i;
    json_array_foreach(runs, i, run)
        if (strcmp(stage_text(run, "name"), "night") == 0) return true;
    return false;
}

static void check(const struct trial *t, int status)
{
    const struct stage *s = t->stage;
    if (status >= 128) fail_with(t, kept_format("the command was ended by signal %d", status - 128));
    if (status && !has_said(t)) fail_with(t, "the command failed and does not say why");
    bool made = file_exists(kept_format("%s/anneal.db", s->home)); /* else there is no store to repair */
    process_run(!made, "doctor", "--repair", NULL);
    bool known = is_known();
    int64_t missing = known ? check_steps(t) : STEPS;
    bool finished = known && strcmp(stage_status(), "finished") == 0;
    if (!finished && !status) fail_with(t, "the command succeeded, and the run is not finished");
    if (missing && !has_said(t)) fail_with(t, "steps are missing, and nothing says so");
    if (known && !finished)
        process_run(0, "resume", "night", "--progress=none", NULL);
    else if (!known)
        process_run(0, "train", s->config, "--name", "night", SETTINGS, NULL);
    int64_t lost = check_steps(t);
    if (lost && !t->fault.for_good) fail_with(t, "one fault has lost steps for good");
    stage_expect(s, "pragma integrity_check", "ok");
    assert_int_equal(stage_count_leftovers(s), 0);
}

static void attempt(struct trial *t)
{
    const struct fault *f = &t->fault;
    const char *only = getenv("TEST_FAULT"), *lasts = f->for_good ? ", for good" : "";
    char text[120];
    if (*f->place)
        snprintf(text, sizeof text, "memory at %s%s", f->place, lasts);
    else
        snprintf(text, sizeof text, "%s %zu: %s%s", traced_words[f->kind], f->number, strerror(f->error),
                 lasts);
    if (only && strcmp(only, text) != 0) return;
    print_message("%s\n", text);
    check(t, train(t, NULL));
    kept_release();
}

/* ---- all of them ---- */

static uint32_t choose(size_t number, uint32_t of, uint32_t below)
{
    return philox4x32_10((uint32_t)number, of, 0, 0, 0x6661756C, 0).word[0] % below;
}

static void begin(struct trial *t, const struct stage *s)
{
    *t = (struct trial){.stage = s};
    process_run(0, "train", s->config, "--name", "whole", SETTINGS, NULL);
    t->whole = history_of("whole");
    kept_forget(t->whole.steps);
    assert_int_equal(t->whole.count, STEPS);
    t->out = strdup(stage_path(s, "out"));
    t->err = strdup(stage_path(s, "err"));
}

static void end(struct trial *t)
{
    free(t->whole.steps), free(t->out), free(t->err);
}

/* Whether this process tries that one. */
static bool is_ours(size_t number, size_t all, size_t some)
{
    size_t share = strtoul(getenv("TEST_SHARE"), NULL, 10);
    bool wanted = long_or(1, 0) || choose(number, 0, (uint32_t)all) < some;
    return wanted && number % SHARES == share;
}

static void every_call(void **state)
{
    struct trial t;
    size_t counts[TRACED_KINDS], all = 0, number = 0, tried = 0;
    begin(&t, *state);
    int status = train(&t, NULL);
    if (status) fail_with(&t, "it does not even work without a fault");
    memcpy(counts, t.count, sizeof counts);
    for (int kind = 0; kind < TRACED_KINDS; kind++) all += 2 * counts[kind];
    for (int kind = 0; kind < TRACED_KINDS; kind++)
        for (size_t i = 0; i < 2 * counts[kind]; i++) {
            int several = 1;
            if (!is_ours(number++, all, SOME_CALLS)) continue;
            while (errors[kind][several]) several++;
            t.fault = (struct fault){.kind = (enum traced_kind)kind, .number = i / 2 + 1, .for_good = i % 2};
            t.fault.error = errors[kind][(i / 2) % (size_t)several];
            if (t.fault.for_good && t.fault.error == EINTR) t.fault.error = EIO; /* none lasts */
            attempt(&t);
            tried++;
        }
    print_message("%zu of %zu faults of calls\n", tried, all);
    end(&t);
}

static void every_allocation(void **state)
{
    struct trial t;
    const struct stage *s = *state;
    size_t number = 0, tried = 0;
    if (!file_exists(memory_library())) skip(); /* a sanitizer has an allocator of its own */
    begin(&t, s);
    char *log = stage_path(s, "places");
    if (train(&t, log)) fail_with(&t, "it does not even work without a fault");
    char *places = strdup(stage_read(log));
    size_t all = 2 * strlen(places) / 17;
    for (const char *place = places; *place; place += 17)
        for (int for_good = 0; for_good < 2; for_good++) {
            if (!is_ours(number++, all, SOME_PLACES)) continue;
            t.fault = (struct fault){.for_good = for_good};
            snprintf(t.fault.place, sizeof t.fault.place, "%.16s", place);
            attempt(&t);
            tried++;
        }
    print_message("%zu of %zu faults of allocations\n", tried, all);
    free(places);
    end(&t);
}

/* ---- the shares ---- */

static void share_out(const char *test)
{
    struct process *shares[SHARES];
    char program[4096] = "";
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    for (int i = 0; i < SHARES; i++) {
        char *folder = kept_format("%s/share%d", getenv("ANNEAL_TEST_DIR"), i);
        assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
        const char *environment[] = {kept_format("TEST_SHARE=%d", i),
                                     kept_format("ANNEAL_TEST_DIR=%s", folder), NULL};
        shares[i] = process_start_in(program, environment, test, NULL);
    }
    for (int i = 0; i < SHARES; i++) {
        process_expect_within(long_or(5300, 880), 0, shares[i]);
        const char *summary = strstr(process_stdout(shares[i]), " faults of ");
        while (summary && summary > process_stdout(shares[i]) && summary[-1] != '\n') summary--;
        if (summary) print_message("%.*s\n", (int)strcspn(summary, "\n"), summary);
    }
}

TEST_CASE(a_call_that_fails_ends_in_a_sentence_and_a_run_that_goes_on)
{
    share_out("calls");
}

TEST_CASE(an_allocation_that_fails_ends_in_a_sentence_and_a_run_that_goes_on)
{
    share_out("memory");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest calls[] = {STAGE_TEST(every_call)}, memory[] = {STAGE_TEST(every_allocation)};
    if (argc > 1 && strcmp(argv[1], "calls") == 0) return cmocka_run_group_tests(calls, NULL, NULL);
    if (argc > 1) return cmocka_run_group_tests(memory, NULL, NULL);
    return TEST_RUN(NULL, NULL);
}
