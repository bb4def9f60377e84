/* `anneal clean` as a user runs it: what it removes, and what it never does. And what is said of the disk
 * before it is full. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/command/traced.h"
#include "tests/tui/view/pty.h"

/* A run with the checkpoints 10, 20, 30 and 40, of which 20 is the best. Returns its folder. */
static char *train(const struct stage *s, const char *name)
{
    process_run(0, "train", s->config, kept_format("--name=%s", name), "--checkpoint.keep=10",
                "--progress=none", NULL);
    char *id = stage_query(s, kept_format("select id from runs where name = '%s'", name));
    store_fixture_sql(
        s->home, kept_format("delete from checkpoints where run_id = '%s' and kind = 'best';"
                             "update checkpoints set kind = 'best' where run_id = '%s' and step = 20;"
                             "insert or ignore into checkpoints(run_id, segment, step, kind, wall_time, path)"
                             " values('%s', 1, 20, 'best', 1, 'checkpoints/step-20');"
                             "update runs set best_step = 20 where id = '%s'",
                             id, id, id, id));
    return kept_format("%s/runs/%s", s->home, id);
}

static int by_version(const struct dirent **a, const struct dirent **b)
{
    return versionsort(a, b);
}

/* The names in the folder of checkpoints: "step-10 step-20". */
static const char *checkpoints(const char *folder)
{
    struct dirent **entries;
    char *text = kept_format("%s", "");
    int n = scandir(kept_format("%s/checkpoints", folder), &entries, NULL, by_version);
    for (int i = 0; i < n; i++) {
        if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0)
            text = kept_format("%s%s%s", text, *text ? " " : "", entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return text;
}

static void damage(const char *folder, int step)
{
    assert_int_equal(unlink(kept_format("%s/checkpoints/step-%d/trainer.json", folder, step)), 0);
}

static void clean(const char *option)
{
    process_run(0, "clean", "--yes", "--progress=none", option, NULL);
}

STAGE_CASE(the_best_and_the_newest_checkpoint_stay, struct stage *s)
{
    char *folder = train(s, "base");
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30 step-40");
    struct process *p = process_run(0, "clean", "--progress=none", NULL); /* shows, as no terminal can ask */
    assert_non_null(strstr(process_stdout(p), "checkpoints/step-10"));
    assert_null(strstr(process_stdout(p), "checkpoints/step-20"));
    assert_non_null(strstr(process_stderr(p), "nothing was removed"));
    assert_memory_equal(process_output("clean", "--dry-run", "--yes", NULL), "Can be removed\n", 15);
    json_t *shown = stage_json(process_output("clean", "--json", "--only=checkpoints", NULL));
    assert_int_equal(json_array_size(json_object_get(shown, "items")), 2);
    assert_true(json_is_false(json_object_get(shown, "removed")));
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30 step-40");
    json_t *done = stage_json(process_output("clean", "--json", "--only=checkpoints", "--yes", NULL));
    assert_true(json_is_true(json_object_get(done, "removed")));
    assert_int_equal(stage_int(done, "bytes"), stage_int(shown, "bytes"));
    assert_string_equal(checkpoints(folder), "step-20 step-40");
    clean(NULL);
    assert_string_equal(checkpoints(folder), "step-20 step-40");
    process_run(0, "doctor", "--progress=none", NULL);
    process_run(0, "resume", "base", "--train.total_steps=45", "--progress=none", NULL);
    assert_int_equal(history_of("base").count, 45);
}

STAGE_CASE(what_cannot_be_removed_does_not_keep_the_rest, struct stage *s)
{
    char *folder = train(s, "closed"), *other = train(s, "open"),
         *closed = kept_format("%s/checkpoints", folder);
    assert_int_equal(chmod(closed, 0555), 0);
    struct process *p = process_run_permitted(1, "clean", "--yes");
    assert_int_equal(chmod(closed, 0755), 0);
    assert_non_null(strstr(process_stderr(p), kept_format("%s/step-10: cannot", closed)));
    assert_non_null(strstr(process_stderr(p), kept_format("%s/step-30: cannot", closed)));
    assert_non_null(strstr(process_stderr(p), "anneal: 2 of 5 items could not be removed"));
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30 step-40");
    assert_string_equal(checkpoints(other), "step-20 step-40");
}

STAGE_CASE(all_but_the_best_are_removed_on_request, struct stage *s)
{
    char *folder = train(s, "base"), *other = train(s, "other");
    process_run(0, "clean", "--filter", "name=base", "--all-but-best", "--yes", NULL);
    assert_string_equal(checkpoints(folder), "step-20");
    assert_string_equal(checkpoints(other), "step-10 step-20 step-30 step-40");
    process_run(0, "generate", "base", "--best", "--prompt=the", "--max-tokens=4", NULL);
    process_run(0, "resume", "base", "--train.total_steps=45", "--progress=none", NULL);
    assert_int_equal(history_of("base").count, 45);
    /* without a best one the newest stays */
    store_fixture_sql(s->home,
                      "delete from checkpoints where kind = 'best'; update runs set best_step = null");
    const char *before = checkpoints(folder);
    process_run(0, "clean", "other", "--all-but-best", "--yes", NULL);
    assert_string_equal(checkpoints(other), "step-40");
    assert_string_equal(checkpoints(folder), before);
    process_run(0, "clean", "other", "--all-but-best", "--only=checkpoints", "--yes", NULL);
    process_expect_sentence(process_run(2, "clean", "base", "--filter", "name=x", NULL), "not both");
    process_expect_sentence(process_run(2, "clean", "--all-but-best", "--only=damaged", "--yes", NULL),
                            "--all-but-best is of checkpoints, which --only leaves out");
    assert_string_equal(checkpoints(folder), before);
}

STAGE_CASE(what_is_damaged_never_stays_in_place_of_what_is_whole, struct stage *s)
{
    char *folder = train(s, "base");
    damage(folder, 40);
    process_run(0, "clean", "--yes", "--only=damaged", NULL);
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30");
    damage(folder, 20);
    clean(NULL);
    assert_string_equal(checkpoints(folder), "step-30");
    /* the last one may be all that is left of a model */
    char *lost = train(s, "lost");
    for (int step = 10; step <= 40; step += 10) damage(lost, step);
    clean(NULL);
    assert_string_equal(checkpoints(lost), "step-10 step-20 step-30 step-40");
    process_run(1, "doctor", "lost", "--repair", "--progress=none", NULL);
    struct process *p = process_run(0, "clean", "--only=damaged", "--yes", "--progress=none", NULL);
    assert_non_null(strstr(process_stdout(p), "no checkpoint of the run is whole"));
    assert_string_equal(checkpoints(lost), "step-10.damaged step-20.damaged step-30.damaged step-40.damaged");
}

/* The folder that the link names may be the only copy of a model. */
STAGE_CASE(a_checkpoint_that_is_a_link_stays, struct stage *s)
{
    char *folder = train(s, "base"), *step = kept_format("%s/checkpoints/step-10", folder),
         *elsewhere = stage_path(s, "elsewhere");
    assert_true(rename(step, elsewhere) == 0 && symlink(elsewhere, step) == 0);
    clean(NULL);
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-40");
    assert_true(file_exists(kept_format("%s/trainer.json", step)));
}

STAGE_CASE(an_old_checkpoint_that_is_damaged_goes_with_the_damaged_ones, struct stage *s)
{
    char *folder = train(s, "base");
    damage(folder, 10);
    clean("--only=damaged");
    assert_string_equal(checkpoints(folder), "step-20 step-30 step-40");
}

/* As a damaged database may name them. */
STAGE_CASE(a_folder_outside_of_the_runs_is_never_cleaned, struct stage *s)
{
    static const char *const ids[] = {"../victim", ".victim"};
    char *folder = train(s, "base");
    for (int i = 0; i < 2; i++) {
        char *victim = kept_format("%s/runs/%s", s->home, ids[i]),
             *file = kept_format("%s/log.txt.tmp-7", victim);
        assert_int_equal(file_make_folders(victim, NULL), STATUS_OK);
        stage_write(file, "mine", 4);
        store_fixture_sql(s->home,
                          kept_format("pragma foreign_keys = off; update runs set id = '%s'", ids[i]));
        clean(NULL);
        assert_true(file_exists(file));
    }
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30 step-40");
}

STAGE_CASE(what_others_refer_to_stays_and_deleting_it_warns, struct stage *s)
{
    char *folder = train(s, "base");
    process_run(0, "fork", "base", "--step=30", "--train.total_steps=45", "--name=fork", "--progress=none",
                NULL);
    char *link = stage_path(s, "link");
    assert_int_equal(symlink(kept_format("%s/checkpoints/step-10", folder), link), 0);
    process_run(0, "train", s->config, kept_format("--model.from=%s", link), "--name=tuned",
                "--progress=none", NULL);
    struct process *p = process_run(0, "clean", "base", "--all-but-best", "--yes", NULL);
    for (int step = 10; step <= 30; step += 20)
        assert_non_null(
            strstr(process_stdout(p), kept_format("/step-%d  a fork or another run refers to it", step)));
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30");
    process_run(0, "resume", "tuned", "--train.total_steps=42", "--progress=none", NULL);
    p = process_run(0, "delete", "tuned", "--yes", NULL);
    assert_null(strstr(process_stderr(p), "warning"));
    process_run(0, "train", s->config, kept_format("--model.from=%s", link), "--name=tuned",
                "--progress=none", NULL);
    p = process_run(0, "delete", "base", "--yes", NULL);
    assert_non_null(strstr(process_stderr(p), "-fork was forked from "));
    assert_non_null(strstr(process_stderr(p), "-tuned was started from "));
}

STAGE_CASE(runs_that_others_refer_to_can_be_deleted_with_them, struct stage *s)
{
    train(s, "base");
    process_run(0, "fork", "base", "--step=30", "--train.total_steps=45", "--name=fork", "--progress=none",
                NULL);
    struct process *p = process_run(0, "delete", "base", "fork", "--yes", NULL);
    assert_null(strstr(process_stderr(p), "warning"));
}

STAGE_CASE(leftovers_go_and_what_is_not_anneals_stays, struct stage *s)
{
    char *folder = train(s, "base");
    static const char *const ours[] = {"checkpoints/.step-50.tmp-99", "checkpoints/step-15.deleted",
                                       "checkpoints/step-5.damaged", "checkpoints/step-6.suspect",
                                       "checkpoints/step-7.damaged.deleted"},
                             *const theirs[] = {"checkpoints/mine", "thesis", "step-15.deleted",
                                                "checkpoints/mine.damaged", "thesis.deleted"};
    for (int i = 0; i < 5; i++) {
        const char *folders[] = {ours[i], theirs[i]};
        for (int k = 0; k < 2; k++) {
            char *path = kept_format("%s/%s", folder, folders[k]);
            assert_int_equal(mkdir(path, 0777), 0);
            stage_write(kept_format("%s/file", path), "x", 1);
        }
    }
    stage_write(kept_format("%s/log.txt.tmp-77", folder), "x", 1);
    stage_write(kept_format("%s/log.txt.tmp-78.deleted", folder), "x", 1);
    stage_write(kept_format("%s/records.damaged", folder), "x", 1); /* of the history */
    stage_write(kept_format("%s/notes.tmp", folder), "x", 1);
    char *orphan = kept_format("%s/runs/foreign/checkpoints/step-1", s->home),
         *half = kept_format("%s/models/half.tmp-9", s->home),
         *sweep = kept_format("%s/sweeps/half.tmp-9", s->home),
         *young = kept_format("%s/models/new.tmp-9", s->home);
    assert_true(!file_make_folders(orphan, NULL) && !file_make_folders(half, NULL) &&
                !file_make_folders(sweep, NULL) && !file_make_folders(young, NULL));
    const struct timespec old[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, half, old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, sweep, old, 0), 0);
    clean(NULL);
    for (int i = 0; i < 5; i++) {
        assert_false(file_exists(kept_format("%s/%s", folder, ours[i])));
        assert_true(file_exists(kept_format("%s/%s/file", folder, theirs[i])));
    }
    assert_false(file_exists(kept_format("%s/log.txt.tmp-77", folder)));
    assert_false(file_exists(kept_format("%s/log.txt.tmp-78.deleted", folder)));
    assert_true(file_exists(kept_format("%s/records.damaged", folder)));
    assert_true(file_exists(kept_format("%s/notes.tmp", folder)));
    assert_true(file_exists(orphan) && file_exists(young) && !file_exists(half) && !file_exists(sweep));
    assert_true(file_exists(kept_format("%s/records", folder)) &&
                file_exists(kept_format("%s/log.txt", folder)));
}

/* The folder's time does not tell that a process is writing to it: its lock does. */
STAGE_CASE(what_a_preparation_is_writing_stays, struct stage *s)
{
    train(s, "base");
    const struct timespec old[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char *data = kept_format("%s/data", s->home),
         *making = kept_format("%s/0123456789abcdef0123456789abcdef.tmp-9", data),
         *text = kept_format("%s/tiny.txt.tmp-9", data);
    assert_int_equal(mkdir(making, 0777), 0);
    stage_write(text, "x", 1);
    assert_true(!utimensat(AT_FDCWD, making, old, 0) && !utimensat(AT_FDCWD, text, old, 0));
    int writer = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(writer >= 0 && flock(writer, LOCK_SH) == 0);
    clean(NULL);
    assert_true(file_exists(making));
    close(writer);
    clean(NULL);
    assert_false(file_exists(making));
    assert_true(file_exists(text)); /* another process may be fetching it */
}

static int count_caches(const struct stage *s)
{
    int count = 0;
    DIR *folder = opendir(kept_format("%s/data", s->home));
    for (struct dirent *entry; folder && (entry = readdir(folder));) count += strlen(entry->d_name) == 32;
    if (folder) closedir(folder);
    return count;
}

STAGE_CASE(only_the_kinds_that_are_named_go_and_a_text_is_encoded_again_alike, struct stage *s)
{
    char *folder = train(s, "base"), *half = kept_format("%s/checkpoints/step-15.deleted", folder),
         *fetched = kept_format("%s/data/kept.txt", s->home);
    assert_int_equal(mkdir(half, 0777), 0);
    stage_write(fetched, "a recipe's text", 15);
    process_run(0, "clean", "--only=damaged,caches", "--yes", "--progress=none", NULL);
    assert_int_equal(count_caches(s), 0);
    assert_true(!file_exists(half) && file_exists(fetched));
    assert_string_equal(checkpoints(folder), "step-10 step-20 step-30 step-40");
    process_run(0, "resume", "base", "--train.total_steps=42", "--progress=none", NULL); /* the same tokens */
    struct process *p = process_run(2, "clean", "--only=caches,all", NULL);
    process_expect_sentence(p, "must be checkpoints|damaged|caches, or several with commas between");
}

STAGE_CASE(encoded_texts_go_also_where_there_was_never_a_run, struct stage *s)
{
    process_expect_sentence(process_run(1, "clean", NULL), "so there are no runs to clean");
    process_run(0, "data", "show", s->corpus, "--data.tokenizer=bytes", NULL);
    assert_false(file_exists(kept_format("%s/anneal.db", s->home)));
    assert_int_equal(count_caches(s), 1);
    clean(NULL);
    assert_int_equal(count_caches(s), 0);
    assert_false(file_exists(kept_format("%s/anneal.db", s->home)));
}

STAGE_CASE(a_run_that_trains_is_left_as_it_is, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name=live", "--train.total_steps=100000000",
                                      "--checkpoint.every=1", "--checkpoint.keep=4", "--eval.every=0",
                                      "--sample.every=0", "--progress=json", NULL);
    process_wait_lines(p, 40);
    struct process *cleaned = process_run(0, "clean", "--yes", NULL);
    assert_non_null(strstr(process_stdout(cleaned), "it trains"));
    assert_null(strstr(process_stdout(cleaned), "Can be removed"));
    assert_int_equal(count_caches(s), 1);
    process_signal(p, SIGTERM);
    process_expect(0, p);
    char *folder = kept_format("%s/runs/%s", s->home, stage_query(s, "select id from runs"));
    assert_int_equal(strlen(checkpoints(folder)) > 0, 1);
    clean(NULL);
    assert_null(strchr(checkpoints(folder), ' ')); /* one is left */
    assert_int_equal(count_caches(s), 0);
    process_run(0, "resume", "live", kept_format("--until=%s", stage_query(s, "select steps + 1 from runs")),
                "--progress=none", NULL);
}

static bool ended_or_fewer(struct process *p, void *context)
{
    const char *const *was = context;
    return strcmp(checkpoints(was[0]), was[1]) != 0 || process_poll(p);
}

/* Whatever was being removed when it was killed is no checkpoint any more, and the next call goes on. */
STAGE_CASE(killed_at_any_moment_it_leaves_no_half_checkpoint, struct stage *s)
{
    process_run(0, "train", s->config, "--name=many", "--checkpoint.every=1", "--checkpoint.keep=1000",
                "--progress=none", NULL);
    char *folder = kept_format("%s/runs/%s", s->home, stage_query(s, "select id from runs"));
    for (int kills = 0; kills < 12; kills++) {
        const char *was[] = {folder, checkpoints(folder)};
        struct process *p = process_start("clean", "--yes", "--progress=none", NULL);
        process_wait(p, ended_or_fewer, was);
        process_signal(p, SIGKILL);
        process_wait_exit(p);
        process_run(0, "doctor", "--progress=none", NULL);
    }
    clean(NULL);
    assert_true(strlen(checkpoints(folder)) <= strlen("step-39 step-40"));
    process_run(0, "doctor", "--progress=none", NULL);
}

struct killing {
    const char *folder;
    int left; /* calls until it is killed */
};

static int kill_at_last(void *context, const struct traced_call *call)
{
    struct killing *killing = context;
    bool counts = (call->kind == TRACED_REMOVE || call->kind == TRACED_RENAME) &&
                  strncmp(call->path, killing->folder, strlen(killing->folder)) == 0;
    if (counts && killing->left-- == 0) kill(call->thread, SIGKILL);
    return 0;
}

/* Deletes the run and is killed before one of its removals and renames. Returns whether it ended before. */
static bool delete_killed(const struct stage *s, const char *folder, int calls)
{
    static const char *const words[] = {"delete", "gone", "--yes", NULL};
    struct killing killing = {folder, calls};
    int code = traced_run(&(struct traced){.arguments = words,
                                           .out = stage_path(s, "out"),
                                           .err = stage_path(s, "err"),
                                           .seconds = 60,
                                           .before = kill_at_last,
                                           .context = &killing});
    assert_true(code == 0 || code == 128 + SIGKILL);
    return code == 0;
}

STAGE_CASE(a_deletion_that_is_killed_leaves_no_half_checkpoint_and_goes_on, struct stage *s)
{
    char *other = train(s, "other"), *folder = train(s, "gone");
    const char *whole = checkpoints(folder);
    process_run(0, "fork", "gone", "--name=heir", "--until=41", "--train.total_steps=60", "--progress=none",
                NULL);
    for (int calls = 0; !delete_killed(s, folder, calls); calls++) {
        const char *now = checkpoints(folder);
        bool left = strcmp(now, "") != 0;
        assert_true(!left || strcmp(now, whole) == 0);
        const char *found = process_stdout(process_run(0, "doctor", "--repair", "--progress=none", NULL));
        assert_non_null(strstr(found, "deleting this run was interrupted"));
        assert_non_null(strstr(found, "deletes the rest"));
        assert_int_equal(stage_count_runs(), 3);
        if (calls == 9) clean(NULL);
        if (!left) process_run(1, "generate", "gone", "--prompt=the", "--max-tokens=4", NULL);
        assert_string_equal(checkpoints(folder), now);
        assert_true(calls < 100);
    }
    assert_false(file_exists(folder));
    assert_int_equal(stage_count_runs(), 2);
    assert_true(strlen(checkpoints(other)) > 0);
    process_run(0, "doctor", "--progress=none", NULL);
    process_run(0, "resume", "heir", "--train.total_steps=60", "--until=45", "--progress=none", NULL);
}

STAGE_CASE(on_a_terminal_it_asks, struct stage *s)
{
    char *folder = train(s, "base");
    static const char *const words[] = {"clean", "--only=checkpoints", NULL};
    static const char *const answers[] = {"\r", "n\r", "y\r"};
    for (int i = 0; i < 3; i++) {
        struct pty *pty = pty_open(&(struct pty_options){.rows = 30, .columns = 120, .arguments = words});
        pty_wait_text(pty, "Remove 2 items (");
        pty_send(pty, answers[i]);
        assert_int_equal(pty_wait_exit(pty), 0);
        pty_close(pty);
        assert_string_equal(checkpoints(folder),
                            i < 2 ? "step-10 step-20 step-30 step-40" : "step-20 step-40");
    }
}

STAGE_CASE(deleting_asks_on_a_terminal_too, struct stage *s)
{
    train(s, "base");
    static const char *const words[] = {"delete", "base", NULL};
    static const char *const answers[] = {"\r", "n\r", "y\r"}, *const ends[] = {"nothing was deleted",
                                                                                "nothing was deleted",
                                                                                "deleted 2"};
    for (int i = 0; i < 3; i++) {
        struct pty *pty = pty_open(&(struct pty_options){.rows = 30, .columns = 120, .arguments = words});
        pty_wait_text(pty, "-base  finished, 40 steps");
        pty_wait_text(pty, "Delete this run with history and checkpoints?");
        pty_send(pty, answers[i]);
        pty_wait_text(pty, ends[i]);
        assert_int_equal(pty_wait_exit(pty), 0);
        pty_close(pty);
        assert_int_equal(stage_count_runs(), i < 2 ? 1 : 0);
    }
}

STAGE_CASE(a_disk_without_room_for_the_checkpoints_is_foreseen, struct stage *s)
{
    static const char warning[] = "the disk has no room for all checkpoints";
    json_t *plan = stage_json(process_output("train", s->config, "--dry-run", "--json", NULL));
    assert_int_equal(json_array_size(json_object_get(plan, "warnings")), 0);
    int64_t one = stage_int(plan, "checkpoint_bytes");
    assert_true(stage_real(plan, "checkpoints_most_bytes") ==
                4.0 * (double)one); /* keep = 2, the best, a new one */
    assert_true(stage_real(plan, "disk_free_bytes") > 0);
    json_t *weights = stage_json(
        process_output("train", s->config, "--dry-run", "--json", "--checkpoint.contents=weights", NULL));
    assert_true(stage_int(weights, "checkpoint_bytes") == one / 3);
#define HUGE_RUN                                                                                             \
    "--train.total_steps=1000000000", "--checkpoint.every=1", "--checkpoint.keep=1000000", "--eval.every=0", \
        "--sample.every=0", "--model.hidden_dim=512"
    plan = stage_json(process_output("train", s->config, "--dry-run", "--json", HUGE_RUN, NULL));
    if (stage_real(plan, "disk_free_bytes") > stage_real(plan, "checkpoints_most_bytes")) skip();
    const char *said = "no warning"; /* another is that the data are read millions of times */
    size_t index;
    json_t *each;
    json_array_foreach(json_object_get(plan, "warnings"), index, each)
        if (strstr(json_string_value(each), warning)) said = json_string_value(each);
    if (!strstr(said, "clean`")) fail_msg("%s", said);
    process_run(0, "train", s->config, HUGE_RUN, "--until=2", "--progress=none", "--name=huge", NULL);
    stage_expect(
        s, "select count(*) from events where level = 'warning' and text like 'the disk has no room%'", "1");
    process_run(0, "train", s->config, "--until=2", "--progress=none", "--name=small", NULL);
    stage_expect(
        s, "select count(*) from events where level = 'warning' and text like 'the disk has no room%'", "1");
}

STAGE_CASE(the_list_of_runs_shows_what_each_holds, struct stage *s)
{
    char *large = train(s, "large");
    process_run(0, "train", s->config, "--name=small", "--checkpoint.keep=1", "--progress=none", NULL);
    json_t *list = stage_json(process_output("runs", "--columns=name,disk", "--sort=-disk", "--json", NULL));
    json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
    assert_string_equal(stage_text(first, "name"), "large");
    assert_true(stage_real(first, "disk") == (double)file_tree_bytes(large, NULL));
    assert_true(stage_real(first, "disk") > stage_real(second, "disk"));
    assert_non_null(strstr(process_output("runs", "--columns=disk", NULL), "KiB"));
    list = stage_json(process_output("runs", "--filter=disk>1G", "--json", NULL));
    assert_int_equal(json_array_size(list), 0);
}

/* As in a container whose image holds the home: folders of a lower layer cannot be renamed. */
STAGE_CASE(folders_of_the_lower_layer_of_an_overlay_are_set_aside_and_removed, struct stage *s)
{
    static const char script[] =
        "mkdir \"$2\" && mount -t tmpfs none \"$2\" && cd \"$2\" && mkdir up work home && mount -t overlay "
        "-o "
        "\"userxattr,lowerdir=$1,upperdir=$2/up,workdir=$2/work\" none home || exit 77\n"
        "export ANNEAL_HOME=\"$2/home\"\n"
        "\"$0\" doctor --repair > /dev/null; echo \"doctor $?\"; ls home/runs/*/checkpoints\n"
        "\"$0\" clean --yes > /dev/null; echo \"clean $?\"; ls home/runs/*/checkpoints; ls home/data\n";
    damage(train(s, "base"), 40);
    struct process *p = process_open(&(struct process_options){
        .program = "unshare",
        .arguments = (const char *const[]){"-rm", "/bin/sh", "-c", script, getenv("ANNEAL_BINARY"), s->home,
                                           kept_format("%s/over", s->folder), NULL}});
    int code = process_wait_exit(p);
    if (code) {
        print_message("SKIP: no overlay can be mounted here: %s", process_stderr(p));
        skip();
    }
    assert_string_equal(process_stdout(p), "doctor 0\nstep-10\nstep-20\nstep-30\nstep-40.damaged\n"
                                           "clean 0\nstep-20\nstep-30\n");
}

TEST_MAIN()
