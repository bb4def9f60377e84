/* `anneal doctor` as a user runs it: it finds each kind of damage, changes nothing, and repairs what is safe.
 */
#include <fcntl.h>
#include <fts.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* ---- the state of a home ---- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void mix(uint64_t *hash, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) *hash = (*hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
}

/* Names, contents and times of all files; without `database` not those of anneal.db, nor the times, nor
 * runs' locks, which name the newest process that held them. anneal.db-shm, which
 * SQLite makes anew whenever the first process opens the database, never counts. */
static uint64_t state_of(const struct stage *s, bool database)
{
    char *roots[] = {(char *)s->home, NULL};
    uint64_t hash = 14695981039346656037u;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    assert_non_null(tree);
    for (FTSENT *e; (e = fts_read(tree));) {
        bool own = strncmp(e->fts_name, "anneal.db", 9) == 0 || strcmp(e->fts_name, "lock") == 0;
        if (e->fts_info == FTS_DP || strcmp(e->fts_name, "anneal.db-shm") == 0 || (own && !database))
            continue;
        mix(&hash, e->fts_path, e->fts_pathlen);
        if (e->fts_info != FTS_F) continue;
        size_t n;
        char *content = store_fixture_slurp(e->fts_path, &n);
        mix(&hash, content, n);
        free(content);
        if (database) mix(&hash, &e->fts_statp->st_mtim, sizeof e->fts_statp->st_mtim);
    }
    fts_close(tree);
    return hash;
}

/* ---- what doctor says ---- */

static const char *doctor(const struct stage *s, int status)
{
    uint64_t before = state_of(s, true);
    const char *out = process_stdout(process_run(status, "doctor", "--progress=none", NULL));
    if (state_of(s, true) != before) fail_msg("doctor has changed the home; it says:\n%s", out);
    return out;
}

static const char *repair(int status)
{
    return process_stdout(process_run(status, "doctor", "--repair", "--progress=none", NULL));
}

/* One line has all of these, and begins with the first. */
#define expect_line(out, ...) expect_line_all(out, __VA_ARGS__, NULL)
__attribute__((sentinel)) static void expect_line_all(const char *out, const char *begin, ...)
{
    char line[4000];
    for (const char *at = out; *at; at += strcspn(at, "\n"), at += *at != '\0') {
        va_list parts;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        bool all = strncmp(line, begin, strlen(begin)) == 0;
        va_start(parts, begin);
        for (const char *part; all && (part = va_arg(parts, const char *));) all = strstr(line, part) != NULL;
        va_end(parts);
        if (all) return;
    }
    fail_msg("no line \"%s ...\" in:\n%s", begin, out);
}

static char *id_of(const struct stage *s, const char *name)
{
    return stage_query(s, kept_format("select id from runs where name = '%s'", name));
}

static char *train(const struct stage *s, const char *name)
{
    process_run(0, "train", s->config, kept_format("--name=%s", name), "--progress=none", NULL);
    return id_of(s, name);
}

static void flip(const char *path, off_t at)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void make_file(const char *path)
{
    stage_write(path, "x", 1);
}

/* ---- the tests ---- */

STAGE_CASE(what_is_sound_is_called_so, struct stage *s)
{
    process_expect_sentence(process_run(1, "doctor", NULL), "there is no store here (ANNEAL_HOME");
    process_expect_sentence(process_run(1, "doctor", "--repair", NULL), "there is no store here");
    assert_int_not_equal(access(s->home, F_OK), 0); /* nothing is made */
    train(s, "base");
    process_run(0, "train", s->config, "--name=halves", "--until=15", "--progress=none", NULL);
    process_run(0, "resume", "halves", "--progress=none", NULL);
    process_run(0, "fork", "base", "--step=30", "--train.total_steps=45", "--name=fork", "--progress=none",
                NULL);
    const char *out = doctor(s, 0);
    expect_line(out, "3 runs and ", "checkpoints: sound");
    assert_null(strstr(out, "problem"));
    assert_null(strstr(out, "note"));
    out = process_output("doctor", "halves", NULL);
    expect_line(out, "1 run and ", "sound");
    process_expect_sentence(process_run(1, "doctor", "nonesuch", NULL), "nonesuch");
}

STAGE_CASE(a_flipped_byte_is_found_and_set_aside, struct stage *s)
{
    char *id = train(s, "base"), *step = kept_format("%s/runs/%s/checkpoints/step-40", s->home, id);
    flip(kept_format("%s/model.safetensors", step), 2000);
    process_expect_sentence(process_run(1, "doctor", "--progress=none", NULL), "1 problem in ");
    const char *out = doctor(s, 1);
    expect_line(out, "problem", step, "the checkpoint is damaged: model.safetensors", "doctor --repair",
                kept_format("resume %s` continues from step-30", id));
    out = repair(0);
    expect_line(out, "repaired", step, "model.safetensors");
    assert_int_not_equal(access(step, F_OK), 0);
    uint64_t repaired = state_of(s, false);
    out = repair(0);
    assert_null(strstr(out, "repaired"));
    assert_true(state_of(s, false) == repaired);
    expect_line(doctor(s, 0), "note", "step-40.damaged", "set aside");
}

STAGE_CASE(a_checkpoint_with_the_name_of_another_is_found, struct stage *s)
{
    char *id = train(s, "base"), *parent = kept_format("%s/runs/%s/checkpoints", s->home, id);
    char *newest = kept_format("%s/step-40", parent), *older = kept_format("%s/step-30", parent),
         *aside = kept_format("%s/mine", parent);
    assert_int_equal(rename(newest, aside), 0);
    assert_int_equal(rename(older, newest), 0);
    assert_int_equal(rename(aside, older), 0);
    const char *out = repair(1); /* it does not know what the user wants to have */
    expect_line(out, "problem", newest, "holds the checkpoint of step 30 (rename the folder to step-30)");
    expect_line(out, "problem", older, "holds the checkpoint of step 40 (rename the folder to step-40)");
    struct process *p = process_run(1, "resume", "base", "--train.total_steps=50", "--progress=none", NULL);
    process_expect_sentence(p, "step-40: holds the checkpoint of step 30");
}

STAGE_CASE(a_removed_file_is_found, struct stage *s)
{
    char *id = train(s, "base"), *step = kept_format("%s/runs/%s/checkpoints/step-40", s->home, id);
    assert_int_equal(unlink(kept_format("%s/trainer.json", step)), 0);
    expect_line(doctor(s, 1), "problem", step, "trainer.json", "continues from step-30");
    /* with all others damaged, too, there is nothing to continue from */
    char *steps = stage_query(s, "select distinct step from checkpoints where step < 40");
    for (char *n = strtok(steps, "\n"); n; n = strtok(NULL, "\n"))
        unlink(kept_format("%s/runs/%s/checkpoints/step-%s/checksums", s->home, id, n));
    expect_line(doctor(s, 1), "problem", step, "no checkpoint of the run is whole");
    expect_line(repair(1), "problem", step, "no checkpoint of the run is whole");
    assert_int_equal(file_remove_tree(kept_format("%s/runs/%s", s->home, id), NULL), STATUS_OK);
    expect_line(doctor(s, 1), "problem", id, "the folder of the run is missing", "delete");
}

STAGE_CASE(what_may_not_be_read_is_neither_missing_nor_damaged, struct stage *s)
{
    char *id = train(s, "base");
    const char *const closed[] = {"runs", kept_format("runs/%s", id), kept_format("runs/%s/checkpoints", id),
                                  kept_format("runs/%s/checkpoints/step-40", id),
                                  kept_format("runs/%s/checkpoints/step-40/model.safetensors", id)};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        char *path = kept_format("%s/%s", s->home, closed[i]);
        struct stat before;
        assert_int_equal(stat(path, &before), 0);
        assert_int_equal(chmod(path, 0), 0);
        const char *out = process_stdout(process_run_permitted(1, "doctor", NULL));
        expect_line(out, "problem", path, "Permission denied");
        assert_null(strstr(out, "missing"));
        process_expect_sentence(process_run_permitted(1, "generate", "base"),
                                "Permission denied (change its");
        process_expect_sentence(process_run_permitted(1, "resume", "base"), "Permission denied");
        assert_int_equal(chmod(path, before.st_mode & 07777), 0);
        doctor(s, 0); /* and nothing was set aside */
    }
}

/* Which is the case while its disk is not mounted. */
STAGE_CASE(a_checkpoint_that_is_a_link_to_nowhere_is_left_as_it_is, struct stage *s)
{
    char *id = train(s, "base"), *elsewhere = stage_path(s, "elsewhere"), *away = stage_path(s, "away"),
         *step = kept_format("%s/runs/%s/checkpoints/step-30", s->home, id);
    assert_true(rename(step, elsewhere) == 0 && symlink(elsewhere, step) == 0);
    doctor(s, 0);
    assert_int_equal(rename(elsewhere, away), 0);
    expect_line(doctor(s, 1), "problem", id, step, kept_format("leads to %s, which is not there", elsewhere),
                "mount or restore that folder");
    repair(1);
    assert_int_equal(rename(away, elsewhere), 0);
    doctor(s, 0);
}

STAGE_CASE(a_file_in_the_place_of_the_checkpoints_is_found, struct stage *s)
{
    char *id = train(s, "base"), *path = kept_format("%s/runs/%s/checkpoints", s->home, id);
    assert_int_equal(rename(path, stage_path(s, "aside")), 0);
    stage_write(path, "x", 1);
    expect_line(doctor(s, 1), "problem", path, "Not a directory", "restore the folder from a copy");
    struct process *p = process_run(1, "generate", "base", NULL);
    process_expect_sentence(p, "checkpoints: cannot read the folder: Not a directory (");
    assert_null(strstr(process_stderr(p), "permissions"));
}

STAGE_CASE(a_removed_checkpoint_is_found_and_one_that_anneal_removed_is_not, struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--checkpoint.keep=10", "--progress=none", NULL);
    char *id = id_of(s, "base"), *checkpoints = kept_format("%s/runs/%s/checkpoints", s->home, id),
         *away = stage_path(s, "away");
    store_fixture_sql(s->home, "update or replace checkpoints set kind = 'periodic';"
                               "update checkpoints set kind = 'best' where step = 20;"
                               "update runs set best_step = 20");
    static const char *const steps[] = {"20", "40"}, *const words[] = {"best", "newest"};
    for (int i = 0; i < 2; i++) {
        char *step = kept_format("%s/step-%s", checkpoints, steps[i]);
        assert_int_equal(rename(step, away), 0);
        expect_line(doctor(s, 1), "problem", step,
                    kept_format("the %s checkpoint of the run is missing", words[i]));
        assert_int_equal(rename(away, step), 0);
        doctor(s, 0);
    }
    /* killed after it had removed the older checkpoint, and before it listed the newest */
    store_fixture_sql(s->home, "create table kept as select * from checkpoints where step = 40;"
                               "delete from checkpoints where step = 40");
    assert_int_equal(rename(kept_format("%s/step-30", checkpoints), away), 0);
    expect_line(doctor(s, 0), "note", kept_format("%s/step-40", checkpoints), "does not list");
    assert_int_equal(rename(away, kept_format("%s/step-30", checkpoints)), 0);
    store_fixture_sql(s->home, "insert into checkpoints select * from kept; drop table kept");
    /* as a trainer does with checkpoint.keep = 1: then those that anneal removed are newer */
    assert_int_equal(file_remove_tree(kept_format("%s/step-30", checkpoints), NULL), STATUS_OK);
    process_run(0, "clean", "--all-but-best", "--yes", "--progress=none", NULL);
    assert_false(file_exists(kept_format("%s/step-40", checkpoints)));
    stage_expect(s, "select step from checkpoints where kind = 'deleted' and step > 20 order by step", "40");
    doctor(s, 0);
    /* a folder without a row is what a killed trainer leaves */
    store_fixture_sql(s->home, "delete from checkpoints");
    expect_line(doctor(s, 0), "note", kept_format("%s/step-20", checkpoints), "does not list", "--repair");
    expect_line(repair(0), "repaired", "anneal.db", "1 checkpoint listed");
    stage_expect(s, "select step, path, bytes > 1000 from checkpoints", "20|checkpoints/step-20|1");
    assert_null(strstr(doctor(s, 0), "note"));
}

STAGE_CASE(missing_steps_are_found, struct stage *s)
{
    process_run(0, "train", s->config, "--name=halves", "--until=15", "--progress=none", NULL);
    process_run(0, "resume", "halves", "--progress=none", NULL);
    stage_query(s, "delete from steps where step between 12 and 17 or step = 30");
    expect_line(doctor(s, 1), "problem", "anneal.db", "lacks the steps 12 to 17, 30 to 30");
    stage_query(s, "delete from steps where step < 3");
    expect_line(doctor(s, 1), "problem", "lacks the steps 0 to 2, 12 to 17, 30 to 30 (");
    stage_query(s, "delete from steps where step > 35");
    expect_line(doctor(s, 1), "problem", "lacks the steps 0 to 2, 12 to 17, 30 to 30 and 1 more");
    stage_query(s, "delete from steps");
    expect_line(doctor(s, 1), "problem", "lacks the steps 0 to 39");
    /* of a history from elsewhere there is nothing to say */
    static const char scalars[] = "Wall time,Step,Value\n1,0,3\n2,10,2\n";
    stage_write(stage_path(s, "loss.csv"), scalars, sizeof scalars - 1);
    process_run(0, "import", stage_path(s, "loss.csv"), "--name=far", NULL);
    process_run(0, "doctor", "far", NULL);
}

STAGE_CASE(reservations_of_killed_processes_are_found, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name=killed", "--train.total_steps=100000000",
                                      "--checkpoint.every=0", "--progress=json", NULL);
    process_wait_lines(p, 3);
    expect_line(process_output("doctor", "--progress=none", NULL), "1 run and ", "sound"); /* it trains */
    char *who = kept_format("process %d", (int)process_pid(p));
    process_signal(p, SIGKILL);
    process_wait_exit(p);
    expect_line(doctor(s, 0), "note", s->home, "/ledger-", who, "has ended without its reservation",
                "doctor --repair");
    expect_line(repair(0), "repaired", who);
    assert_null(strstr(doctor(s, 0), who));
    assert_null(strstr(repair(0), "repaired"));
}

STAGE_CASE(folders_of_no_run_are_found, struct stage *s)
{
    char *id = train(s, "base");
    char *foreign = kept_format("%s/runs/foreign", s->home), *empty = kept_format("%s/runs/empty", s->home);
    assert_true(mkdir(foreign, 0777) == 0 && mkdir(empty, 0777) == 0);
    make_file(kept_format("%s/thesis.txt", foreign));
    const char *out = doctor(s, 1);
    expect_line(out, "problem", foreign, "belongs to no run", "move it away");
    assert_null(strstr(out, empty)); /* as of a run that is just being made */
    make_file(kept_format("%s/lock", empty));
    make_file(kept_format("%s/log.txt.tmp-77", empty));
    expect_line(doctor(s, 1), "note", empty, "never began");
    repair(1);
    assert_int_equal(access(kept_format("%s/thesis.txt", foreign), F_OK), 0);
    assert_int_equal(file_remove_tree(foreign, NULL), STATUS_OK);
    static const char *const files[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) unlink(kept_format("%s/anneal.db%s", s->home, files[i]));
    expect_line(doctor(s, 1), "problem", id, "belongs to no run", "doctor --repair` makes the run again");
    expect_line(repair(0), "repaired", id, "the run was made again");
    stage_expect(s, "select name, status, ended_at > created_at - 1 from runs", "base|finished|1");
    doctor(s, 0);
    assert_null(strstr(repair(0), "repaired"));
    for (int i = 0; i < 3; i++) unlink(kept_format("%s/anneal.db%s", s->home, files[i]));
    assert_int_equal(file_remove_tree(kept_format("%s/runs/%s/checkpoints", s->home, id), NULL), STATUS_OK);
    expect_line(repair(0), "repaired", id, "the run was made again");
    stage_expect(s, "select status, steps, ended_at from runs", "running|0|"); /* nothing says how it ended */
}

STAGE_CASE(leftovers_are_noted, struct stage *s)
{
    char *id = train(s, "base"), *folder = kept_format("%s/runs/%s", s->home, id);
    char *half = kept_format("%s/checkpoints/.step-50.tmp-99", folder),
         *text = kept_format("%s/log.txt.tmp-77", folder),
         *going = kept_format("%s/checkpoints/step-20.deleted", folder);
    assert_true(mkdir(half, 0777) == 0 && mkdir(going, 0777) == 0);
    assert_int_equal(mkdir(kept_format("%s/checkpoints/step-35.suspect", folder), 0777), 0);
    make_file(text);
    make_file(kept_format("%s/notes.tmp", folder)); /* not anneal's */
    char *models = kept_format("%s/models", s->home), *model = kept_format("%s/mine.tmp-77", models);
    assert_int_equal(mkdir(models, 0777), 0);
    make_file(model);
    const struct timespec old[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, model, old, 0), 0);
    const char *out = doctor(s, 0);
    expect_line(out, "note", half, "is left over: unfinished", "anneal clean` removes it");
    expect_line(out, "note", going, "half removed");
    expect_line(out, "note", "step-35.suspect", "whole, but a rollback has set it aside");
    expect_line(out, "note", text, "unfinished");
    expect_line(out, "note", model, "unfinished");
    assert_null(strstr(out, "notes.tmp"));
}

STAGE_CASE(records_that_wait_are_found_and_stored, struct stage *s)
{
    stage_run_without_table(s, "late");
    expect_line(doctor(s, 1), "problem", "/records", "that the database lacks wait",
                "doctor --repair` stores");
    process_run(1, "doctor", "late", NULL);
    expect_line(process_output("doctor", "late", "--repair", NULL), "repaired", "/records",
                "stored in the database");
    assert_null(strstr(repair(0), "repaired"));
    doctor(s, 0);
    stage_expect(s, "select count(*) = max(step) + 1 and min(step) = 0 from steps", "1");
}

STAGE_CASE(records_that_cannot_be_read_are_a_problem, struct stage *s)
{
    char *records = kept_format("%s/runs/%s/records", s->home, train(s, "base"));
    stage_write(records, "ANNLREC\2 of times to come", 26);
    expect_line(doctor(s, 1), "problem", records, "newer anneal");
    expect_line(repair(1), "problem", records, "newer anneal");
    assert_true(file_exists(records));
    stage_write(records, "a text, not records", 19);
    store_fixture_sql(s->home, "delete from checkpoints");
    const char *out = repair(1);
    expect_line(out, "problem", records, "is not a file of a run's records", "records.damaged");
    expect_line(out, "repaired", "anneal.db", "listed");
    assert_true(file_exists(kept_format("%s.damaged", records)));
    assert_null(strstr(repair(0), "repaired")); /* a new file is there */
    stage_write(records, "another text, not records", 25);
    expect_line(repair(1), "problem", records, "records.damaged-2");
    assert_int_equal(strncmp(stage_read(kept_format("%s.damaged", records)), "a text", 6), 0);
    assert_int_equal(strncmp(stage_read(kept_format("%s.damaged-2", records)), "another", 7), 0);
    static const char *const files[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) unlink(kept_format("%s/anneal.db%s", s->home, files[i]));
    expect_line(repair(0), "repaired", records, "the run was made again");
}

STAGE_CASE(a_damaged_database_is_found_and_folders_are_checked_all_the_same, struct stage *s)
{
    char *id = train(s, "base"), *step = kept_format("%s/runs/%s/checkpoints/step-40", s->home, id);
    stage_query(s, "pragma wal_checkpoint(truncate)");
    char *database = kept_format("%s/anneal.db", s->home);
    int fd = open(database, O_RDWR);
    char zeros[4096] = "";
    off_t end = lseek(fd, 0, SEEK_END);
    for (off_t at = 4096; at < end; at += 4096) (void)!pwrite(fd, zeros, sizeof zeros, at);
    close(fd);
    flip(kept_format("%s/model.safetensors", step), 2000);
    const char *out = doctor(s, 1);
    expect_line(out, "problem", database, "the database is damaged");
    expect_line(out, "problem", database,
                "or move it away: `anneal doctor --repair` then makes the runs again");
    expect_line(out, "problem", step, "model.safetensors");
    stage_write(database, "not a database at all, but a text of some length", 48);
    out = doctor(s, 1);
    expect_line(out, "problem", database, "is not a run database");
    assert_null(strstr(out, "belongs to no run")); /* who knows */
    expect_line(out, "problem", step, "model.safetensors");
    process_expect_sentence(process_run(1, "doctor", "base", NULL),
                            "there is no run database that can be read, so no run base");
}

STAGE_CASE(damage_that_concerns_all_runs_is_reported_once, struct stage *s)
{
    train(s, "one");
    train(s, "two");
    stage_query(s, "pragma wal_checkpoint(truncate)");
    char *page = stage_query(s, "select rootpage from sqlite_master where name = 'sqlite_autoindex_runs_1'");
    char zeros[4096] = "", *database = kept_format("%s/anneal.db", s->home);
    int fd = open(database, O_RDWR);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, (atoi(page) - 1) * 4096), 4096);
    close(fd);
    const char *said = strstr(repair(1), "the database is damaged");
    assert_non_null(said);
    assert_null(strstr(said + 1, "the database is damaged"));
}

STAGE_CASE(json_has_the_same, struct stage *s)
{
    char *id = train(s, "base"), *step = kept_format("%s/runs/%s/checkpoints/step-40", s->home, id);
    assert_memory_equal(process_output("doctor", "--progress=none", NULL), "Runs on disk\n", 13);
    json_t *sound = stage_json(process_output("doctor", "--json", NULL));
    assert_true(json_is_true(json_object_get(sound, "sound")));
    assert_int_equal(json_array_size(json_object_get(sound, "findings")), 0);
    flip(kept_format("%s/optimizer.safetensors", step), 2000);
    json_t *all = stage_json(process_stdout(process_run(1, "doctor", "--json", NULL)));
    json_t *finding = json_array_get(json_object_get(all, "findings"), 0);
    assert_true(json_is_false(json_object_get(all, "sound")));
    assert_string_equal(stage_text(finding, "level"), "problem");
    assert_string_equal(stage_text(finding, "run"), id);
    assert_string_equal(stage_text(finding, "path"), step);
    assert_non_null(strstr(stage_text(finding, "text"), "optimizer.safetensors"));
    assert_non_null(strstr(stage_text(finding, "remedy"), "--repair"));
    json_t *run = json_array_get(json_object_get(all, "runs"), 0);
    int64_t weights = stage_int(run, "bytes");
    struct stat found;
    assert_int_equal(stat(kept_format("%s/optimizer.safetensors", step), &found), 0);
    assert_true(weights > found.st_size);
    assert_non_null(json_array_get(json_object_get(all, "space"), 1));
    assert_int_equal(file_make_folders(kept_format("%s/sweeps/mine", s->home), NULL), STATUS_OK);
    assert_non_null(strstr(process_stdout(process_run(1, "doctor", NULL)), "\n  sweeps "));
}

/* A terabyte of zeros that takes no room on the disk. */
STAGE_CASE(ctrl_c_ends_it_at_once, struct stage *s)
{
    char *id = train(s, "base");
    char *path = kept_format("%s/runs/%s/checkpoints/step-40/model.safetensors", s->home, id);
    if (truncate(path, (off_t)1 << 40)) skip();
    struct process *p = process_start("doctor", "--progress=plain", NULL);
    process_wait_text(p, "reading checkpoints");
    process_signal(p, SIGINT);
    process_expect_within(5, 130, p);
}

STAGE_CASE(a_lock_that_is_a_pipe_holds_nobody_up, struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--train.total_steps=2", NULL);
    char *lock = kept_format("%s/runs/%s/lock", s->home, stage_query(s, "select id from runs"));
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mkfifo(lock, 0600), 0);
    process_run(0, "doctor", NULL);
}

TEST_MAIN()
