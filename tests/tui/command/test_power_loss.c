/* The power goes at every moment of a short run. A record of all that a command did to the disk (disk.h) is
 * cut at a point, and the home is made as the power cut may leave it. In each such home `anneal runs`,
 * `anneal doctor --repair` and `anneal resume` work, the run comes to the same end bit for bit, and nothing
 * that the command had said is lost: the run, its newest checkpoint, the steps before it, its end.
 *
 * make test-long looks at every point, make test at a sample of them. */
#include <inttypes.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/long.h"
#include "tests/tui/command/disk.h"
#include "tests/tui/command/stage.h"

enum { STEPS = 6, SOME_CUTS = 16, SECONDS = 120 };

#define SETTINGS                                                                                             \
    "--train.total_steps=6", "--checkpoint.every=2", "--checkpoint.keep=1", "--eval.every=3",                \
        "--sample.every=0", "--progress=json"

/* A command that is recorded. */
struct night {
    const struct stage *stage;
    struct disk *disk;
    struct history whole; /* of a run that nothing disturbed */
    char *said;           /* before the record began; "": nothing */
    sqlite3 *holder;      /* of the database's lock */
    bool reads;           /* it reads now */
    char home[700];
};

/* ---- what the command has said ---- */

struct promises {
    bool begun, finished;
    int64_t checkpoint; /* its step; -1: none */
    char run[128];
};

static struct promises promises_of(const struct night *night, size_t point)
{
    struct promises p = {.checkpoint = -1};
    char *said = disk_output(night->disk, point), *text = kept_format("%s%s", night->said, said);
    free(said);
    for (char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
        if (*line && *line != '{') *line = '\0'; /* from here on a repair has spoken */
    char *end = strrchr(text, '\n');
    if (!end) return p;
    end[1] = '\0'; /* a line that is only begun says nothing */
    json_t *lines = stage_parse_lines(text), *line;
    size_t i;
    json_array_foreach(lines, i, line) {
        const char *type = stage_text(line, "type");
        if (strcmp(type, "run") == 0) p.begun = true;
        if (strcmp(type, "run") == 0) snprintf(p.run, sizeof p.run, "%s", stage_text(line, "run"));
        if (strcmp(type, "checkpoint") == 0) p.checkpoint = stage_int(line, "step");
        if (strcmp(type, "end") == 0) p.finished = strcmp(stage_text(line, "status"), "finished") == 0;
    }
    return p;
}

/* ---- one home after a power cut ---- */

static void use_home(const char *home)
{
    setenv("ANNEAL_HOME", home, 1);
    setenv("ANNEAL_LEDGER", home, 1);
}

/* The database is whole, and has the steps before `step`. */
static void expect_steps(const struct stage *dark, int64_t step)
{
    stage_expect(dark, "pragma integrity_check", "ok");
    char *sql = kept_format("select count(distinct step) from steps where step < %" PRId64, step);
    stage_expect(dark, sql, kept_format("%" PRId64, step));
}

/* Goes on to the end, by name or by folder. */
static void resume(const struct stage *dark, const struct promises *p, bool by_folder)
{
    const char *name = by_folder ? kept_format("%s/runs/%s", dark->home, p->run) : "night";
    struct process *process =
        p->finished ? process_run(0, "resume", name, "--progress=none", "--train.total_steps=8", NULL)
                    : process_run(0, "resume", name, "--progress=none", NULL);
    const char *said = process_stderr(process);
    if (strstr(said, "malformed") || strstr(said, "not a database")) fail_msg("%s", said);
}

static void expect_right(const struct night *night, const struct stage *dark, const struct promises *p)
{
    bool anew = p->checkpoint <= 0;
    struct history all = history_of("night");
    all.count -= p->finished ? 2 : 0;
    history_expect_equal(&night->whole, &all);
    if (anew) return;
    char *sql = kept_format("select ifnull(first_step, 99) >= %" PRId64
                            " from segments order by segment desc limit 1",
                            p->checkpoint);
    stage_expect(dark, sql, "1"); /* it went on from there, and not from before */
    sql = kept_format("select count(distinct step) from steps where step < %" PRId64
                      " and segment < (select max(segment) from segments)",
                      p->checkpoint);
    stage_expect(dark, sql, kept_format("%" PRId64, p->checkpoint));
}

static void expect_nothing_lost(struct night *night, const struct disk_cut *cut)
{
    char why[400];
    struct stage dark = *night->stage;
    struct promises p = promises_of(night, cut->point);
    print_message("%s\n", disk_describe(night->disk, cut, why));
    snprintf(dark.home, sizeof dark.home, "%s/dark/home", dark.folder);
    assert_int_equal(file_remove_tree(stage_path(&dark, "dark"), NULL), STATUS_OK);
    disk_rebuild(night->disk, cut, stage_path(&dark, "dark"));
    use_home(dark.home);
    bool repair = p.finished || cut->seed % 3, by_folder = p.begun && (cut->seed % 2 || !repair);
    process_run(0, "runs", NULL);
    if (repair && p.begun) process_run(0, "doctor", "--repair", NULL);
    if (repair && !p.begun) /* it may find that the folder of such a run is missing */
        assert_true(process_wait_exit(process_start("doctor", "--repair", NULL)) <= 1);
    if (repair && p.checkpoint > 0) expect_steps(&dark, p.checkpoint);
    if (repair && p.finished) assert_string_equal(stage_status(), "finished");
    if (strcmp(stage_status(), "finished") == 0) p.finished = true; /* though it had no time to say so */
    if (!p.begun && stage_count_runs() == 0)
        process_run(0, "train", dark.config, "--name", "night", SETTINGS, NULL);
    else
        resume(&dark, &p, by_folder);
    expect_right(night, &dark, &p);
    stage_expect(&dark, "pragma integrity_check", "ok");
    kept_release();
}

/* ---- all of them ---- */

static uint32_t choose(size_t number, uint32_t of, uint32_t below)
{
    return philox4x32_10((uint32_t)number, of, 0, 0, 0x6E696768, 0).word[0] % below;
}

/* At every sync all fates, and between them any: those of a sample, or all. */
static void cut_everywhere(struct night *night)
{
    size_t points = disk_count(night->disk), tried = 0, most = (size_t)long_or(1 << 30, SOME_CUTS);
    struct disk_cut *cuts = calloc((points + 1) * (DISK_FATES + 1), sizeof *cuts);
    size_t count = 0;
    assert_non_null(cuts);
    for (size_t point = 0; point <= points; point++) {
        bool sync = disk_is_sync(night->disk, point + 1) || point == points; /* the most is not synced then */
        for (int fate = sync ? 0 : DISK_ANY; fate <= DISK_ANY + sync; fate++) {
            enum disk_fate such = fate < DISK_ANY ? (enum disk_fate)fate : DISK_ANY;
            cuts[count] = (struct disk_cut){point, such, choose(count, 0, 1000)};
            count++;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (choose(i, 1, (uint32_t)(count - i)) >= most - tried) continue;
        expect_nothing_lost(night, &cuts[i]);
        tried++;
    }
    print_message("%zu of %zu power cuts\n", tried, count);
    free(cuts);
}

/* The record is complete: a folder made from it is the folder. */
static void expect_complete(const struct night *night, const char *root)
{
    char *copy = stage_path(night->stage, "copy");
    assert_int_equal(file_remove_tree(copy, NULL), STATUS_OK);
    disk_copy(night->disk, disk_count(night->disk), copy);
    process_expect(0, process_start_in("diff", NULL, "-r", "-x", "*-shm", root, copy, NULL));
}

static void record(struct night *night, const char *root, const char *const *arguments, int status,
                   void (*said)(void *context, const char *text))
{
    int got;
    struct traced traced = {.arguments = arguments,
                            .out = stage_path(night->stage, "out"),
                            .err = stage_path(night->stage, "err"),
                            .seconds = SECONDS};
    night->disk = disk_record(root, &traced, said, night, &got);
    if (got != status) fail_msg("it ended with %d: %s", got, stage_read(traced.err));
    expect_complete(night, root);
}

/* A run that nothing disturbs, and an empty folder for the next. */
static void begin(struct night *night, const struct stage *s, char *root)
{
    night->stage = s;
    night->said = "";
    process_run(0, "train", s->config, "--name", "whole", SETTINGS, NULL);
    night->whole = history_of("whole");
    kept_forget(night->whole.steps);
    assert_int_equal(night->whole.count, STEPS);
    sprintf(root, "%s/lit", s->folder);
    assert_int_equal(mkdir(root, 0777), 0);
    snprintf(night->home, sizeof night->home, "%s/home", root);
    use_home(night->home);
}

static void end(struct night *night)
{
    disk_free(night->disk);
    free(night->whole.steps);
}

STAGE_CASE(a_power_cut_at_any_point_of_training_loses_nothing_that_was_said, const struct stage *s)
{
    char root[600];
    struct night night = {0};
    const char *const words[] = {"train", s->config, "--name", "night", SETTINGS, NULL};
    begin(&night, s, root);
    record(&night, root, words, 0, NULL);
    cut_everywhere(&night);
    end(&night);
}

/* ---- while the database is locked ---- */

/* Another program holds the database from the first step to the first checkpoint, and then reads to the end,
 * so that the log cannot be emptied. */
static void hold_it(void *context, const char *text)
{
    struct night *night = context;
    if (!night->holder && strstr(text, "\"type\":\"step\"")) {
        assert_int_equal(sqlite3_open(kept_format("%s/anneal.db", night->home), &night->holder), SQLITE_OK);
        sqlite3_db_config(night->holder, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        sqlite3_busy_timeout(night->holder, 10000);
        assert_int_equal(sqlite3_exec(night->holder, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    }
    static const char reads[] = "rollback; begin; select count(*) from runs";
    if (strstr(text, "\"type\":\"checkpoint\"") && !night->reads) {
        assert_int_equal(sqlite3_exec(night->holder, reads, NULL, NULL, NULL), SQLITE_OK);
        night->reads = true;
    }
}

/* The home as a kill leaves it when the first checkpoint is said: the records wait in the run's folder. */
static void kill_it_there(struct night *night, const char *to)
{
    size_t point = 0;
    while (promises_of(night, point).checkpoint < 0) point++;
    disk_copy(night->disk, point, to);
    night->said = disk_output(night->disk, point);
    snprintf(night->home, sizeof night->home, "%s/home", to);
    use_home(night->home);
    kept_release();
}

STAGE_CASE(a_power_cut_loses_no_record_that_waited_for_a_locked_database, const struct stage *s)
{
    char root[600], killed[600];
    struct night night = {0};
    const char *const train[] = {"train", s->config, "--name", "night", SETTINGS, NULL}, *const repair[] = {
                                                                                             "doctor",
                                                                                             "--repair",
                                                                                             NULL};
    begin(&night, s, root);
    record(&night, root, train, 0, hold_it);
    sqlite3_close(night.holder);
    cut_everywhere(&night);

    struct disk *training = night.disk;
    snprintf(killed, sizeof killed, "%s/killed", s->folder);
    kill_it_there(&night, killed);
    record(&night, killed, repair, 0, NULL);
    disk_free(training);
    cut_everywhere(&night);
    free(night.said);
    end(&night);
}

TEST_MAIN()
