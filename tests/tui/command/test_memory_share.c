/* Memory that another process holds: a new run waits for it, or reports the holder. */
#include <signal.h>

#include "core/base/file.h"
#include "core/memory/fit.h"
#include "kernels/device/backend.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/command/fit_report.h"
#include "tui/session/memory_share.h"

enum { MIB = 1 << 20, LOOKS = 3 };

/* ---- a device that another program leaves at the third check ---- */

static int looks;

static void busy_at_first(struct device *device, struct device_info *out)
{
    (void)device;
    looks++;
    *out = (struct device_info){.short_name = "cuda:0",
                                .uuid = "GPU-busy",
                                .total_bytes = 1000 * MIB,
                                .available_bytes = looks < LOOKS ? 150 * MIB : 700 * MIB};
}

STAGE_CASE(who_waits_comes_in_when_the_memory_is_really_free, struct stage *s)
{
    struct err err = {0};
    struct memory_share share = {0};
    struct backend backend = *cpu_backend();
    backend.device_describe = busy_at_first;
    struct memory_wish wish = {
        .holder = "patient", .backend = &backend, .reserve = 0.1, .bytes = 100 * MIB, .may_wait = true};
    looks = 0;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, ", 150.0 MiB are free now (--wait waits for them)"));
    looks = 0;
    wish.wait = true;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_OK);
    assert_int_equal(looks, LOOKS);
    memory_share_release(&share);
}

TEST_CASE(without_a_ledger_what_is_free_decides)
{
    struct err err = {0};
    struct memory_share share = {0};
    struct backend backend = *cpu_backend();
    backend.device_describe = busy_at_first;
    struct memory_wish wish = {.backend = &backend, .reserve = 0.1, .bytes = 51 * MIB};
    setenv("ANNEAL_LEDGER", getenv("ANNEAL_BINARY"), 1); /* no folder */
    looks = 0;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_BUSY);
    wish.bytes = 50 * MIB;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_OK);
    memory_share_release(&share);
}

static int64_t gone; /* bytes that another program has taken since */

static void a_gpu(struct device *device, struct device_info *out)
{
    (void)device;
    *out = (struct device_info){.short_name = "cuda:0",
                                .uuid = "GPU-stand-in",
                                .total_bytes = 1000 * MIB,
                                .available_bytes = 900 * MIB - gone};
}

static void on_the_cpu(struct device *device, struct device_info *out)
{
    (void)device;
    *out = (struct device_info){.short_name = "cpu", .total_bytes = 1000 * MIB};
}

/* A run has measured 300 MiB there; how much of it this process already holds is unknown. */
STAGE_CASE(a_gpu_reservation_has_the_context_that_was_measured, struct stage *s)
{
    struct err err = {0};
    struct memory_share share = {0};
    struct reservation *rows;
    struct device_info gpu;
    struct backend backend = *cpu_backend();
    size_t count;
    a_gpu(NULL, &gpu);
    char *folder = kept_format("%s/cuda", s->home);
    overhead_keep(folder, &gpu, 300 * MIB);
    backend.device_describe = a_gpu;
    struct memory_wish wish = {.holder = "run", .backend = &backend, .reserve = 0.1, .bytes = 501 * MIB};
    assert_int_equal(memory_share_left(&wish), 500 * MIB);
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_BUSY);
    wish.bytes = 500 * MIB;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_OK);
    memory_share_used(&share, "run", 10 * MIB);
    assert_int_equal(ledger_list(share.ledger, gpu.uuid, &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].bytes, 800 * MIB);
    assert_int_equal(rows[0].used, 310 * MIB);
    free(rows);
    memory_share_release(&share);
}

/* A 32nd of what could be reserved goes while the user reads the answer: it starts all the same. Without the
 * margin it would not. */
STAGE_CASE(what_was_said_to_fit_starts_though_some_memory_has_gone_since, struct stage *s)
{
    struct err err = {0};
    struct memory_share share = {0};
    struct device_info gpu;
    struct fit_report report;
    struct backend backend = *cpu_backend();
    gone = 0;
    a_gpu(NULL, &gpu);
    char *folder = kept_format("%s/cuda", s->home);
    overhead_keep(folder, &gpu, 300 * MIB);
    backend.device_describe = a_gpu;
    struct memory_wish wish = {.holder = "run", .backend = &backend, .reserve = 0.1};
    assert_int_equal(fit_report_look(&report, &wish, 0, 300 * MIB, &err), STATUS_OK);
    assert_int_equal(report.memory, 800 * MIB);
    assert_int_equal(report.room, 500 * MIB - fit_margin(800 * MIB));
    gone = report.memory / 32;
    wish.bytes = (int64_t)report.room + report.margin;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_BUSY);
    wish.bytes = (int64_t)report.room;
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_OK);
    memory_share_release(&share);
    free(report.rows);
    gone = 0;
}

/* The first waits for all usable memory, and this process already has a context on the device: both would
 * wait for ever. */
STAGE_CASE(who_would_keep_the_first_in_the_queue_out_does_not_wait, struct stage *s)
{
    struct err err = {0};
    struct memory_share share = {0};
    struct ledger *ledger, *first;
    struct device_info info;
    struct backend backend = *cpu_backend();
    int64_t id;
    backend.device_describe = on_the_cpu;
    on_the_cpu(NULL, &info);
    struct ledger_room room = {"cpu", "cpu", info.total_bytes, 0, 0.1, 0, false};
    assert_int_equal(ledger_open(s->home, LEDGER_BUSY_MS, &ledger, &err), STATUS_OK);
    assert_int_equal(ledger_open(s->home, LEDGER_BUSY_MS, &first, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &room, "trains", 800 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_wait(first, &room, "first", 900 * MIB, &err), STATUS_OK);
    struct memory_wish wish = {.holder = "second",
                               .backend = &backend,
                               .reserve = 0.1,
                               .bytes = 200 * MIB,
                               .may_wait = true,
                               .wait = true};
    assert_int_equal(memory_share_take(&share, &wish, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "cpu: first (process "));
    assert_non_null(strstr(
        err.text, "needs memory that this process already holds (start this run when that one is training)"));
    ledger_close(first);
    ledger_close(ledger);
}

/* ---- commands that compute and do not train ---- */

static void expect_refused(const char *command, const char *word, const char *more, const char *data)
{
    struct process *p = process_run(1, command, word, more, data, NULL);
    process_expect_sentence(p, "cpu: ");
    process_expect_sentence(p, "; reserved: greedy ");
    assert_null(strstr(process_stderr(p), "--wait"));
}

STAGE_CASE(generate_evaluate_and_bench_reserve_as_training_does, struct stage *s)
{
    struct ledger *ledger;
    struct err err = {0};
    int64_t id;
    static const struct ledger_room unknown = {"cpu", "cpu", 0, 0, 0, 0, false};
    char *data = kept_format("--data=%s", s->corpus);
    process_run(0, "train", s->config, "--train.total_steps=1", "--progress=none", NULL);
    if (ledger_open(getenv("ANNEAL_LEDGER"), LEDGER_BUSY_MS, &ledger, &err)) fail_msg("%s", err.text);
    assert_int_equal(ledger_reserve(ledger, &unknown, "greedy", (int64_t)1 << 50, &id, &err), STATUS_OK);
    expect_refused("generate", "latest", "--max-tokens=1", NULL);
    expect_refused("evaluate", "latest", "--batches=1", data);
    expect_refused("bench", "step", "--rounds=1", NULL);
    assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
    ledger_close(ledger);
    process_run(0, "generate", "latest", "--max-tokens=1", NULL);
}

/* ---- several homes ---- */

STAGE_CASE(a_run_of_one_home_is_seen_from_another_and_its_home_is_reported, struct stage *s)
{
    char other[700];
    const char *const devices[] = {"devices", NULL}, *const at_other[] = {other, NULL};
    snprintf(other, sizeof other, "ANNEAL_HOME=%s/other", s->folder);
    struct process *run = process_start("train", s->config, "--name", "seen", "--train.total_steps=100000000",
                                        "--progress=json", NULL);
    process_wait_lines(run, 3);
    struct process *p = process_expect(
        0, process_open(&(struct process_options){.arguments = devices, .environment = at_other}));
    const char *line = strstr(process_stdout(p), "-seen, process ");
    char *expected = kept_format(", of ANNEAL_HOME=%s, ", s->home);
    if (!line || !strstr(line, expected)) fail_msg("%s", process_stdout(p));
    assert_int_equal(atoi(line + strlen("-seen, process ")), (int)process_pid(run));
    char *own = process_output("devices", NULL);
    assert_non_null(strstr(own, "-seen, process "));
    assert_null(strstr(own, "ANNEAL_HOME"));
    process_signal(run, SIGTERM);
    process_expect(0, run);
}

/* With its own /dev/shm in a namespace: the ledger is there by default for processes that reserve; a folder
 * that others may write is not trusted. */
STAGE_CASE(without_a_word_the_ledger_is_in_memory_and_this_user_s_alone, struct stage *s)
{
    static const char script[] =
        "mount -t tmpfs none /dev/shm || exit 99; unset ANNEAL_LEDGER; train=\"--train.total_steps=1 "
        "--eval.every=0 --progress=none\"\n"
        "\"$0\" devices >/dev/null && \"$0\" estimate \"$1\" --fit >/dev/null; ls -A /dev/shm\n"
        "umask 0; \"$0\" train \"$1\" $train || exit 98; (cd /dev/shm && stat -c '%n %a' *)\n"
        "ls \"$ANNEAL_HOME\" | grep -c ledger\n"
        "echo open >&2; chmod 777 /dev/shm/anneal-0; \"$0\" devices >/dev/null; \"$0\" train \"$1\" $train\n"
        "ls \"$ANNEAL_HOME\" | grep -c ledger\n";
    struct process *p = process_open(&(struct process_options){
        .program = "unshare",
        .arguments =
            (const char *const[]){"-rm", "/bin/sh", "-c", script, getenv("ANNEAL_BINARY"), s->config, NULL}});
    int code = process_wait_exit(p);
    if (code == 99 || strncmp(process_stderr(p), "unshare:", 8) == 0) {
        print_message("SKIP: no mounting here: %s", process_stderr(p));
        skip();
    }
    assert_string_equal(process_stdout(p), "anneal-0 700\n0\n1\n");
    assert_string_equal(process_stderr(p), "open\n");
}

TEST_MAIN()
