/* The writer: records are stored completely and in order, also across resumes, failures and overflow. */
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runs/history.h"
#include "runs/series.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

TEST_CASE(what_is_recorded_is_there_after_a_flush)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("flush", home, sizeof home);
    store_fixture_run(home, "flush", id);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t i = 0; i < 2500; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    assert_int_equal(writer_flush(writer, 30, &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 2500);
    assert_true(store_fixture_number(home, "select count(*) from steps where mfu is null") == 833);
    struct store *store = store_fixture_open(home);
    struct step_record last, want = store_fixture_step(2499, 1);
    assert_int_equal(run_last_step(store, id, &last, &err), STATUS_OK);
    assert_true(last.step == want.step && last.loss == want.loss && last.lr == want.lr &&
                last.wall_time == want.wall_time && last.mfu == want.mfu && last.tokens == want.tokens &&
                last.grad_norm == want.grad_norm && last.clip_scale == want.clip_scale &&
                last.step_ms == want.step_ms && last.tokens_per_sec == want.tokens_per_sec &&
                last.epoch == want.epoch);
    struct run_info info;
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_true(info.steps == 2500 && info.tokens == want.tokens && info.final_loss == want.loss &&
                info.segment == 1);
    assert_int_equal(info.pid, getpid());
    store_close(store);
    assert_int_equal(writer_close(writer, RUN_FINISHED, "done", &err), STATUS_OK);
}

TEST_CASE(every_kind_of_record_arrives)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("kinds", home, sizeof home);
    store_fixture_run(home, "kinds", id);
    struct writer *writer = store_fixture_writer(home, id);
    struct step_record step = store_fixture_step(0, 1);
    writer_step(writer, &step);
    writer_eval(writer, &(struct eval_record){1, 4096, 1.7e9, 3.5, 33.1, 12});
    writer_stopping(writer,
                    &(struct stopping_record){1, 3.5, 3.5, 1, 0.01, true, 0, 5, VERDICT_IMPROVED, NULL});
    writer_sample(writer,
                  &(struct sample_record){1, "In the \"beginning\"", "line one\nline, two — ünïcode 𝄞"});
    writer_checkpoint(writer, &(struct checkpoint_record){1, 1.7e9, "checkpoints/step-1", "best", 123456});
    writer_memory(writer, &(struct memory_record){1, "weights", 100, 90, 95});
    writer_event(writer, &(struct event_record){-1, 1.7e9, "warning", "the schedule is short", false});
    assert_int_equal(writer_close(writer, RUN_EARLY_STOPPED, "no improvement", &err), STATUS_OK);

    struct store *store = store_fixture_open(home);
    struct run_history history;
    assert_int_equal(run_history_read(store, id, 10, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.eval_count, 1);
    const struct eval_record *evals = history.evals;
    assert_true(evals[0].step == 1 && evals[0].val_loss == 3.5 && evals[0].val_perplexity == 33.1 &&
                evals[0].eval_ms == 12 && evals[0].tokens == 4096);
    const struct stopping_row *stopping = history.stopping;
    assert_int_equal(history.stopping_count, 1);
    assert_true(stopping[0].segment == 1 && stopping[0].record.improved && stopping[0].record.patience == 5 &&
                stopping[0].record.verdict == VERDICT_IMPROVED && stopping[0].record.min_delta == 0.01);
    const struct sample_record *samples = history.samples;
    assert_int_equal(history.sample_count, 1);
    assert_string_equal(samples[0].prompt, "In the \"beginning\"");
    assert_string_equal(samples[0].text, "line one\nline, two — ünïcode 𝄞");
    const struct checkpoint_record *checkpoints = history.checkpoints;
    assert_int_equal(history.checkpoint_count, 1);
    assert_string_equal(checkpoints[0].path, "checkpoints/step-1");
    assert_string_equal(checkpoints[0].kind, "best");
    assert_int_equal(checkpoints[0].bytes, 123456);
    const struct event_record *events = history.events;
    assert_int_equal(history.event_count, 1);
    assert_int_equal(events[0].step, -1);
    assert_string_equal(events[0].text, "the schedule is short");
    assert_true(store_fixture_number(home, "select peak_bytes from memory where category = 'weights'") == 95);
    struct run_info info;
    assert_int_equal(run_find(store, "kinds", &info, &err), STATUS_OK);
    assert_int_equal(info.status, RUN_EARLY_STOPPED);
    assert_string_equal(info.message, "no improvement");
    assert_true(info.best_val_loss == 3.5 && info.best_step == 1 && isfinite(info.ended_at));
    store_close(store);
    arena_release(&arena);
}

/* After a rollback to step 8 that has recorded nothing yet, the scores of the evaluation at 10 no longer
 * count. */
TEST_CASE(the_newest_of_a_history_are_rows_that_count)
{
    char home[PATH_MAX], id[RUN_ID_MAX], sql[600];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("replaced", home, sizeof home);
    store_fixture_run(home, "replaced", id);
    snprintf(sql, sizeof sql,
             "insert into segments(run_id, segment, first_step, started_at) values('%s', 1, 0, 1e9),"
             " ('%s', 2, 8, 1e9);"
             "insert into steps(run_id, segment, step) values('%s', 1, 7), ('%s', 1, 8), ('%s', 1, 9);"
             "insert into classes(run_id, segment, step, label, support) values('%s', 1, 5, 'spam', 3),"
             " ('%s', 1, 10, 'spam', 4)",
             id, id, id, id, id, id, id);
    store_fixture_sql(home, sql);
    struct store *store = store_fixture_open(home);
    struct run_history history;
    struct step_record last;
    assert_int_equal(run_history_read(store, id, 10, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.class_count, 1);
    assert_int_equal(history.classes[0].step, 5);
    assert_int_equal(run_last_step(store, id, &last, &err), STATUS_OK);
    assert_int_equal(last.step, 7);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(a_text_too_long_is_cut_at_a_character)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("cut", home, sizeof home);
    store_fixture_run(home, "cut", id);
    struct writer *writer = store_fixture_writer(home, id);
    size_t n = 600000;
    char *text = malloc(n + 1);
    for (size_t i = 0; i < n; i += 3) memcpy(text + i, "\xE2\x82\xAC", 3); /* euro signs */
    text[n] = '\0';
    writer_sample(writer, &(struct sample_record){1, "p", text});
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    struct run_history history;
    assert_int_equal(run_history_read(store, id, 1, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.sample_count, 1);
    const struct sample_record *samples = history.samples;
    size_t kept = strlen(samples[0].text);
    assert_true(kept > 200000 && kept < n && kept % 3 == 0);
    assert_memory_equal(samples[0].text, text, kept);
    free(text);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(resumed_segments_are_numbered_and_the_last_one_counts)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("resume", home, sizeof home);
    store_fixture_run(home, "resume", id);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t i = 0; i < 700; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
        if (i % 100 == 99)
            writer_eval(writer, &(struct eval_record){i + 1, 0, 0, 5.0 - (double)i / 700, 1, 1});
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    struct run_info info;
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_int_equal(info.best_step, 700);

    writer = store_fixture_writer(home, id);
    for (int64_t i = 500; i < 600; i++) {
        struct step_record record = store_fixture_step(i, 2);
        writer_step(writer, &record);
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_int_equal(info.segment, 2);
    assert_int_equal(info.steps, 600);
    assert_int_equal(info.best_step,
                     500); /* evaluations at 600 and 700 belong to the part that was replaced */

    struct series series = {0};
    assert_int_equal(series_read(store, id, METRIC_LOSS, 0, -1, 10000, &series, &err), STATUS_OK);
    assert_int_equal(series.level, 1);
    assert_int_equal(series.count, 600);
    for (int64_t i = 0; i < 600; i++)
        assert_true(series.points[i].last == store_fixture_step(i, i < 500 ? 1 : 2).loss);
    assert_int_equal(series_read(store, id, METRIC_VAL_LOSS, 0, -1, 10000, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 5);
    series_release(&series);
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 800); /* the history keeps both */
}

enum { NO_FILTER = 77 };

static void record_every_kind(struct writer *writer, int64_t i)
{
    struct order order;
    struct step_record record = store_fixture_step(i, 1);
    writer_step(writer, &record);
    writer_eval(writer, &(struct eval_record){i + 1, 0, 0, 5, 1, 1});
    writer_stopping(writer,
                    &(struct stopping_record){i + 1, 3.5, 3.5, 1, 0, true, 0, 5, VERDICT_IMPROVED, NULL});
    writer_sample(writer, &(struct sample_record){i + 1, "prompt", "text"});
    writer_event(writer, &(struct event_record){i, 0, "warning", "text", false});
    writer_checkpoint(writer, &(struct checkpoint_record){i + 1, 0, "path", "last", 1});
    writer_memory(writer, &(struct memory_record){i, "weights", 1, 1, 1});
    writer_order_done(writer, 1, i, "done");
    writer_status(writer, RUN_RUNNING);
    writer_next_order(writer, &order);
}

/* Records of every kind from a thread that the kernel kills at its first system call but the last. */
static int record_without_the_kernel(void *home)
{
    char id[RUN_ID_MAX];
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    store_fixture_run(home, "quiet", id);
    struct writer *writer = store_fixture_writer(home, id);
    record_every_kind(writer, 0);
    if (writer_flush(writer, 30, NULL)) return 1; /* now its thread has begun, and waits for more */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return NO_FILTER;
    for (int64_t i = 1; i < 30000; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
        if (i % 1000 == 0) record_every_kind(writer, i);
    }
    return (int)syscall(SYS_exit_group, 0); /* does not return; sanitizers do more in _exit */
}

TEST_CASE(recording_makes_no_system_call)
{
    char home[PATH_MAX];
    store_fixture_home("quiet", home, sizeof home);
    int code = store_fixture_wait(store_fixture_fork(record_without_the_kernel, home));
    if (code == NO_FILTER) skip(); /* a kernel without seccomp */
    assert_int_equal(code, 0);
}

/* ---- trouble ---- */

struct complaints {
    atomic_int count;
    char first[512];
};

static void complain(void *context, const char *sentence)
{
    struct complaints *complaints = context;
    if (strstr(sentence, "trying for up to 10 s")) return; /* said when it is closed too soon */
    if (complaints->count == 0) snprintf(complaints->first, sizeof complaints->first, "%s", sentence);
    complaints->count++;
}

TEST_CASE(a_damaged_file_of_an_earlier_trainer_is_reported_and_kept)
{
    char home[PATH_MAX], id[RUN_ID_MAX], folder[PATH_MAX + 100], path[PATH_MAX + 120];
    struct err err = {0};
    struct complaints complaints = {0};
    struct writer *writer;
    store_fixture_home("damaged", home, sizeof home);
    store_fixture_run(home, "damaged", id);
    snprintf(folder, sizeof folder, "%s/runs/%s", home, id);
    snprintf(path, sizeof path, "%s/records", folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    assert_int_equal(file_write_atomic(path, "a text, not records", 19, &err), STATUS_OK);
    struct writer_options options = {home, id, complain, &complaints};
    assert_int_equal(writer_open(&options, &writer, &err), STATUS_OK);
    assert_int_equal(complaints.count, 1);
    assert_non_null(strstr(complaints.first, path));
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    strcat(path, ".damaged");
    assert_true(file_exists(path));
}

TEST_CASE(a_full_ring_loses_records_and_says_how_many)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("overflow", home, sizeof home);
    store_fixture_run(home, "overflow", id);
    struct complaints complaints = {0};
    struct writer *writer;
    struct writer_options options = {home, id, complain, &complaints};
    assert_int_equal(writer_open(&options, &writer, &err), STATUS_OK);
    /* somebody holds the database while more steps come than the ring has room for */
    sqlite3 *db = store_fixture_lock(home);
    enum { STEPS = 60000 };
    for (int64_t i = 0; i < STEPS; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    assert_int_equal(writer_flush(writer, 0.01, &err), STATUS_BUSY);
    store_fixture_unlock(db);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, " of its records were lost: they could not be stored"));

    double stored = store_fixture_number(home, "select count(*) from steps");
    assert_true(stored < STEPS && stored >= 32768);
    struct store *store = store_fixture_open(home);
    struct run_history history;
    assert_int_equal(run_history_read(store, id, 10, &arena, &history, &err), STATUS_OK);
    struct run_info info;
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_true(strtod(info.message, NULL) == STEPS - stored);
    double said = 0; /* perhaps in two sentences: it may commit while records are still being lost */
    for (size_t i = 0; i < history.event_count; i++)
        if (strstr(history.events[i].text, "records were lost")) said += strtod(history.events[i].text, NULL);
    assert_true(said == STEPS - stored);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(a_locked_database_is_reported_once_and_retried)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("locked", home, sizeof home);
    store_fixture_run(home, "locked", id);
    struct complaints complaints = {0};
    struct writer *writer;
    struct writer_options options = {home, id, complain, &complaints};
    assert_int_equal(writer_open(&options, &writer, &err), STATUS_OK);
    sqlite3 *db = store_fixture_lock(home);
    struct step_record record = store_fixture_step(0, 1);
    writer_step(writer, &record);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK); /* in the file */
    assert_int_equal(complaints.count, 0); /* a short lock is none of a user's business */
    double deadline = clock_monotonic() + 60;
    while (complaints.count == 0 && clock_monotonic() < deadline) usleep(1000);
    assert_int_equal(complaints.count, 1);
    assert_non_null(strstr(complaints.first, "locked by another process"));
    assert_non_null(strstr(complaints.first, "anneal.db"));
    store_fixture_unlock(db);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    assert_int_equal(complaints.count, 1);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 1);
    assert_true(store_fixture_number(
                    home, "select count(*) from events where text like 'storage works again%'") == 1);
}

TEST_CASE(who_waits_for_a_store_that_stalls_waits_once)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_home("stalls", home, sizeof home);
    store_fixture_run(home, "stalls", id);
    struct writer *writer = store_fixture_writer(home, id);
    assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 0, &err), STATUS_OK);
    sqlite3 *db = store_fixture_lock(home);
    struct step_record record = store_fixture_step(0, 1);
    writer_step(writer, &record);
    uint64_t mark = writer_flush_begin(writer);
    assert_int_equal(writer_flush_wait(writer, mark, 0.01, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "1 records are not stored yet"));
    double before = clock_monotonic();
    assert_int_equal(writer_flush_wait(writer, mark, 600, &err), STATUS_BUSY);
    assert_true(clock_monotonic() - before < 300);
    store_fixture_unlock(db);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    assert_int_equal(writer_flush_wait(writer, mark, 0, &err), STATUS_OK);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

/* Takes all the room there is. */
static void fill_disk(const char *path)
{
    char block[4096] = {0};
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    setvbuf(out, NULL, _IONBF, 0);
    while (fwrite(block, 1, sizeof block, out) == sizeof block) continue;
    fclose(out);
}

/* Fails unless every complete bucket of 64 steps matches the rows of the loss and the norm. */
static void expect_rollups_of_rows(const char *home, int steps)
{
    static const char *const metrics[] = {"loss", "grad_norm"};
    char sql[800];
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        snprintf(sql, sizeof sql,
                 "select count(*) from rollup r where metric = '%s' and level = 64 and count = 64"
                 " and non_finite = 0 and (count, min, max) ="
                 " (select count(*), min(%s), max(%s) from steps where step / 64 = r.first_step / 64)"
                 " and abs(mean - (select avg(%s) from steps where step / 64 = r.first_step / 64)) < 1e-9"
                 " and last = (select %s from steps where step = r.first_step + 63)",
                 metrics[m], metrics[m], metrics[m], metrics[m], metrics[m]);
        assert_int_equal((int)store_fixture_number(home, sql), steps / 64);
        snprintf(sql, sizeof sql, "select count(*) from rollup where metric = '%s' and level = 64",
                 metrics[m]);
        assert_int_equal((int)store_fixture_number(home, sql), steps / 64);
    }
}

TEST_CASE(a_batch_that_fails_halfway_leaves_rollups_that_agree_with_the_rows)
{
    enum { BEFORE = 100, STEPS = 300, REFUSED = 250 };
    char home[PATH_MAX], id[RUN_ID_MAX], trigger[200];
    struct err err = {0};
    store_fixture_home("halfway", home, sizeof home);
    store_fixture_run(home, "halfway", id);
    struct complaints complaints = {0};
    struct writer *writer;
    struct writer_options options = {home, id, complain, &complaints};
    assert_int_equal(writer_open(&options, &writer, &err), STATUS_OK);
    for (int64_t i = 0; i < BEFORE; i++) { /* a bucket is open when the trouble begins */
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    assert_int_equal(writer_flush(writer, 30, &err), STATUS_OK);
    /* the database refuses one step, which comes after the end of several buckets of its batch */
    snprintf(
        trigger, sizeof trigger,
        "create trigger no before insert on steps when new.step = %d begin select raise(abort, 'no'); end",
        REFUSED);
    store_fixture_sql(home, trigger);
    for (int64_t i = BEFORE; i < STEPS; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    writer_eval(writer, &(struct eval_record){STEPS, 0, 0, 5, 1, 1});
    double deadline = clock_monotonic() + 60;
    while (complaints.count == 0 && clock_monotonic() < deadline) usleep(1000);
    assert_int_equal(complaints.count, 1);
    assert_true(store_fixture_number(home, "select max(step) from steps") < REFUSED);
    store_fixture_sql(home, "drop trigger no");
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from steps") == STEPS);
    assert_true(store_fixture_number(home, "select steps from runs") == STEPS);
    assert_true(store_fixture_number(home, "select count(*) from evals") == 1);
    expect_rollups_of_rows(home, STEPS);
}

TEST_CASE(a_full_disk_is_reported_and_nothing_is_lost_once_there_is_room)
{
    enum { STEPS = 5000 };
    char home[PATH_MAX], id[RUN_ID_MAX], ballast[PATH_MAX + 16];
    struct err err = {0};
    struct complaints complaints = {0};
    store_fixture_home("full-disk", home, sizeof home);
    if (mount("tmpfs", home, "tmpfs", 0, "size=8m") != 0) skip();
    store_fixture_run(home, "full", id);
    struct writer *writer = NULL;
    struct writer_options options = {home, id, complain, &complaints};
    enum status opened = writer_open(&options, &writer, &err), flushed = STATUS_FAILED,
                closed = STATUS_FAILED;
    double stored = -1, summed = -1, bad = -1;
    if (!opened) {
        snprintf(ballast, sizeof ballast, "%s/ballast", home);
        fill_disk(ballast);
        for (int64_t i = 0; i < STEPS; i++) {
            struct step_record record = store_fixture_step(i, 1);
            writer_step(writer, &record);
        }
        double deadline = clock_monotonic() + 60;
        while (complaints.count == 0 && clock_monotonic() < deadline) usleep(1000);
        unlink(ballast);
        flushed = writer_flush(writer, 60, &err);
        closed = writer_close(writer, RUN_FINISHED, NULL, &err);
        stored = store_fixture_number(home, "select count(*) from steps");
        summed = store_fixture_number(
            home, "select sum(count) from rollup where metric = 'loss' and level = 64 and count = 64");
        bad = store_fixture_number(
            home, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'");
    }
    umount2(home, MNT_DETACH);
    assert_int_equal(opened, STATUS_OK);
    assert_int_equal(complaints.count, 1);
    if (!strstr(complaints.first, "full") && !strstr(complaints.first, "No space"))
        fail_msg("%s", complaints.first);
    assert_int_equal(flushed, STATUS_OK);
    assert_int_equal(closed, STATUS_OK);
    assert_true(stored == STEPS && summed == STEPS / 64 * 64 && bad == 0);
}

TEST_CASE(a_trainer_that_continues_elsewhere_begins_a_segment_and_keeps_its_orders)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_info info;
    struct order order;
    store_fixture_home("elsewhere", home, sizeof home);
    store_fixture_run(home, "elsewhere", id);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t i = 0; i < 130; i++) writer_step(writer, &(struct step_record){.step = i, .loss = 2});
    writer_eval(writer, &(struct eval_record){.step = 120, .val_loss = 1});
    store_fixture_sql(home, "insert into orders(run_id, issued_at, verb) select id, 1, 'stop' from runs");
    writer_next_segment(writer, 100);
    writer_device(writer, "cpu", "fp32");
    assert_int_equal(writer_flush(writer, 30, &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from orders where result is null") == 1);
    assert_true(store_fixture_number(home, "select steps from runs") == 100); /* also if it stopped here */
    while (!writer_next_order(writer, &order)) writer_flush(writer, 0.01, NULL);
    assert_int_equal(order.verb, ORDER_STOP);
    for (int64_t i = 100; i < 128; i++) writer_step(writer, &(struct step_record){.step = i, .loss = 4});
    assert_int_equal(writer_close(writer, RUN_FINISHED, "", &err), STATUS_OK);

    struct store *store = store_fixture_open(home);
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_true(info.segment == 2 && info.steps == 128 && info.final_loss == 4 && info.best_step == -1);
    assert_string_equal(info.device, "cpu");
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from steps where segment = 1") == 130);
    assert_true(store_fixture_number(home, "select first_step from segments where segment = 2") == 100);
    assert_true(store_fixture_number(home, "select count(*) from segments where status = 'failed' and"
                                           " segment = 1 and ended_at is not null") == 1);
    /* the second bucket of 64 steps: 36 of the first segment, 28 of the second */
    assert_true(store_fixture_number(home, "select abs(mean - (36 * 2 + 28 * 4) / 64.0) < 1e-12 from rollup"
                                           " where metric = 'loss' and level = 64 and first_step = 64") == 1);
}

TEST_CASE(a_run_resumed_to_end_at_its_checkpoint_loses_the_steps_beyond_it)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_info info;
    struct arena arena = {0};
    struct run_history history;
    store_fixture_home("shorter", home, sizeof home);
    store_fixture_run(home, "shorter", id);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t i = 0; i < 130; i++)
        writer_step(writer, &(struct step_record){.step = i, .loss = i < 100 ? 2 : 1, .tokens = i + 1});
    writer_eval(writer, &(struct eval_record){.step = 100, .val_loss = 2});
    writer_eval(writer, &(struct eval_record){.step = 120, .val_loss = 1});
    assert_int_equal(writer_close(writer, RUN_STOPPED, "", &err), STATUS_OK);
    writer = store_fixture_writer(home, id); /* of these steps none counts in the end */
    for (int64_t i = 100; i < 110; i++)
        writer_step(writer, &(struct step_record){.step = i, .loss = 1, .tokens = i + 1});
    assert_int_equal(writer_close(writer, RUN_STOPPED, "", &err), STATUS_OK);

    store_fixture_sql(home, "update runs set total_steps = 100"); /* resume --train.total_steps=100 */
    writer = store_fixture_writer(home, id);
    assert_int_equal(writer_close(writer, RUN_FINISHED, "", &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_true(info.steps == 100 && info.tokens == 100 && info.final_loss == 2);
    assert_true(info.best_step == 100 && info.best_val_loss == 2);
    assert_int_equal(run_history_read(store, id, 10, &arena, &history, &err), STATUS_OK);
    assert_int_equal(history.eval_count, 1);
    arena_release(&arena);
    store_close(store);
}

TEST_CASE(a_writer_for_an_unknown_run_is_refused)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct writer *writer = NULL;
    store_fixture_home("unknown", home, sizeof home);
    struct writer_options options = {.home = home, .run_id = "nobody"};
    assert_int_equal(writer_open(&options, &writer, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "nobody"));
    assert_null(writer);
}

TEST_MAIN()
