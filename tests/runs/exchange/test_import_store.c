/* Runs of another store: each comes whole or not at all, and the other store is never written. */
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/annotation.h"
#include "runs/columns.h"
#include "runs/exchange/export.h"
#include "runs/exchange/import_store.h"
#include "runs/order.h"
#include "runs/recovery.h"
#include "runs/spill.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

struct stores {
    char there[PATH_MAX], here[PATH_MAX], id[RUN_ID_MAX];
    struct store *store; /* the one here */
    struct arena arena;
    struct imported_run *runs;
    size_t count;
    struct err err;
};

static void write_text(const char *home, const char *id, const char *name, const char *text)
{
    char path[3 * PATH_MAX];
    struct err err;
    snprintf(path, sizeof path, "%s/runs/%s/%s", home, id, name);
    *strrchr(path, '/') = '\0';
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/runs/%s/%s", home, id, name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), &err), STATUS_OK);
}

static char *read_text(const char *home, const char *id, const char *name)
{
    char path[3 * PATH_MAX];
    size_t n;
    snprintf(path, sizeof path, "%s/runs/%s/%s", home, id, name);
    return store_fixture_slurp(path, &n);
}

/* A finished run with something in many tables, a log and a checkpoint. */
static void make_run(const char *home, const char *name, char id[RUN_ID_MAX])
{
    struct err err = {0};
    store_fixture_run(home, name, id);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t s = 0; s < 2500; s++) {
        struct step_record step = store_fixture_step(s, 0);
        writer_step(writer, &step);
    }
    writer_eval(writer, &(struct eval_record){200, 7, 1.7e9, 3.5, 2, 12});
    writer_measure(writer, &(struct measure_record){200, "quiz_acc", 0.5});
    writer_sample(writer, &(struct sample_record){200, "a", "b"});
    writer_event(writer, &(struct event_record){-1, 1.5, "warning", "careful", false});
    writer_checkpoint(writer, &(struct checkpoint_record){200, 1.5, "checkpoints/step-200", "last", 5});
    assert_int_equal(writer_close(writer, RUN_FINISHED, "done", &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    if (run_set_tags(store, id, "good", &err) ||
        runs_annotate(store, (const char *const[]){id}, 1, &(struct annotation){.note = "a note"}, &err))
        fail_msg("%s", err.text);
    store_close(store);
    write_text(home, id, "log.txt", "what it printed\n");
    write_text(home, id, "checkpoints/step-200/model.safetensors", "weights");
}

static void open_stores(struct stores *s)
{
    *s = (struct stores){0};
    store_fixture_home("there", s->there, sizeof s->there);
    store_fixture_home("here", s->here, sizeof s->here);
    make_run(s->there, "origin", s->id);
    s->store = store_fixture_open(s->here);
}

static void close_stores(struct stores *s)
{
    arena_release(&s->arena);
    store_close(s->store);
}

static enum status import_with(struct stores *s, const char *filter, enum checkpoint_import checkpoints)
{
    struct store_import request = {s->there, filter, checkpoints};
    s->err = (struct err){0};
    return import_store(s->store, &request, &s->arena, &s->runs, &s->count, &s->err);
}

static void import_all(struct stores *s)
{
    if (import_with(s, NULL, CHECKPOINTS_LINK)) fail_msg("%s", s->err.text);
}

/* All tables of a run but the id, in one text. */
static char *whole_run(const char *home, const char *id)
{
    struct err err = {0};
    struct store *store = store_fixture_open(home);
    char *text = NULL, path[PATH_MAX + 16];
    size_t size = 0;
    FILE *all = open_memstream(&text, &size);
    snprintf(path, sizeof path, "%s/exported.csv", home);
    for (int t = 0; t < TABLE_CSV_COUNT; t++) {
        size_t n;
        if (export_csv(store, &id, 1, (enum store_table)t, path, &err)) fail_msg("%s", err.text);
        char *table = store_fixture_slurp(path, &n);
        for (char *line = table; *line; line = strchr(line, '\n') + 1) {
            const char *from = line + (strncmp(line, id, strlen(id)) == 0 ? strlen(id) : 0);
            fprintf(all, "%.*s\n", (int)strcspn(from, "\n"), from);
        }
        free(table);
    }
    fclose(all);
    store_close(store);
    return text;
}

TEST_CASE(a_run_comes_with_all_that_was_recorded)
{
    struct stores s;
    struct run_info run;
    open_stores(&s);
    char *want = whole_run(s.there, s.id), database[PATH_MAX + 16];
    size_t n, m;
    snprintf(database, sizeof database, "%s/anneal.db", s.there);
    char *before = store_fixture_slurp(database, &n);
    import_all(&s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.runs[0].what, RUN_IMPORTED);
    assert_string_equal(s.runs[0].id, s.id);
    char *got = whole_run(s.here, s.id), *after = store_fixture_slurp(database, &m);
    assert_string_equal(got, want);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    assert_int_equal(run_get(s.store, s.id, &run, &s.err), STATUS_OK);
    assert_string_equal(run.message, "done");
    assert_true(store_fixture_number(s.here, "select count(*) from rollup") ==
                store_fixture_number(s.there, "select count(*) from rollup"));
    char *config = store_fixture_text(s.here, "select config from runs"),
         *original = store_fixture_text(s.there, "select config from runs");
    assert_string_equal(config, original);
    char *log = read_text(s.here, s.id, "log.txt");
    assert_string_equal(log, "what it printed\n");
    free(log);
    free(config);
    free(original);
    free(want);
    free(got);
    free(before);
    free(after);
    import_all(&s); /* again: there is nothing to do */
    assert_int_equal(s.runs[0].what, RUN_IS_HERE);
    close_stores(&s);
}

TEST_CASE(an_id_in_use_changes_and_forks_follow_it)
{
    struct stores s;
    char fork[RUN_ID_MAX], sql[400];
    open_stores(&s);
    make_run(s.there, "fork", fork);
    snprintf(sql, sizeof sql,
             "update runs set parent_id = '%s', parent_step = 3, created_at = created_at + 1 where id = '%s'",
             s.id, fork);
    store_fixture_sql(s.there, sql);
    snprintf(sql, sizeof sql,
             "insert into runs(id, name, status, created_at) values('%s', 'other', 'finished', 1.5)", s.id);
    store_fixture_sql(s.here, sql);
    import_all(&s);
    assert_int_equal(s.count, 2);
    assert_memory_equal(s.runs[0].id, s.id, strlen(s.id));
    assert_string_equal(s.runs[0].id + strlen(s.id), "-2");
    snprintf(sql, sizeof sql, "select count(*) from runs where id = '%s' and parent_id = '%s-2'", fork, s.id);
    assert_true(store_fixture_number(s.here, sql) == 1);
    snprintf(sql, sizeof sql, "select count(*) from steps where run_id = '%s'", s.id);
    assert_true(store_fixture_number(s.here, sql) == 0);
    import_all(&s); /* again: both are known, also under the other id */
    assert_true(s.runs[0].what == RUN_IS_HERE && s.runs[1].what == RUN_IS_HERE);
    assert_string_equal(s.runs[0].id + strlen(s.id), "-2");
    assert_true(store_fixture_number(s.here, "select count(*) from runs") == 3);
    close_stores(&s);
}

/* Of two runs with one history the second may have the id that the first would get here. */
TEST_CASE(runs_that_differ_only_in_their_ids_are_all_imported)
{
    struct stores s;
    char sql[400];
    open_stores(&s);
    snprintf(
        sql, sizeof sql,
        "insert into runs(id, name, status, created_at) select id || '-2', 'origin-2', 'finished', created_at"
        " from runs");
    store_fixture_sql(s.there, sql);
    import_all(&s);
    import_all(&s);
    assert_true(store_fixture_number(s.here, "select count(*) from runs") == 2);
    close_stores(&s);
}

/* Takes away what the newest version of the schema added. */
static void make_older(const char *home)
{
    char sql[200];
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_info *table = &store_tables[t];
        snprintf(sql, sizeof sql, "drop table %s", table->name);
        if (table->since == STORE_VERSION) store_fixture_sql(home, sql);
        for (int c = table->first; c < table->end && table->since < STORE_VERSION; c++) {
            snprintf(sql, sizeof sql, "alter table %s drop column %s", table->name, store_columns[c].name);
            if (store_columns[c].since == STORE_VERSION) store_fixture_sql(home, sql);
        }
    }
    snprintf(sql, sizeof sql, "pragma user_version = %d", STORE_VERSION - 1);
    store_fixture_sql(home, sql);
}

TEST_CASE(an_older_store_is_read_from_a_copy_and_a_newer_one_refused)
{
    struct stores s;
    open_stores(&s);
    make_older(s.there);
    import_all(&s);
    assert_int_equal(s.count, 1);
    assert_true(store_fixture_number(s.here, "select count(*) from steps") == 2500);
    assert_true(store_fixture_number(s.there, "pragma user_version") == STORE_VERSION - 1); /* not migrated */
    char leftover[PATH_MAX + 16];
    snprintf(leftover, sizeof leftover, "ls %.4000s | grep -q import-", s.here);
    assert_int_not_equal(system(leftover), 0);
    store_fixture_sql(s.there, "pragma user_version = 99");
    assert_int_equal(import_with(&s, NULL, CHECKPOINTS_LINK), STATUS_FAILED);
    assert_non_null(strstr(s.err.text, "was written by a newer anneal"));
    close_stores(&s);
}

TEST_CASE(checkpoints_are_linked_or_copied_but_never_from_elsewhere)
{
    static const enum checkpoint_import ways[] = {CHECKPOINTS_LINK, CHECKPOINTS_COPY, CHECKPOINTS_NONE};
    for (size_t w = 0; w < 3; w++) {
        struct stores s;
        struct stat found;
        char path[3 * PATH_MAX], outside[3 * PATH_MAX];
        open_stores(&s);
        write_text(s.there, "..", "secret/file", "secret");
        store_fixture_sql(s.there,
                          "insert into checkpoints select run_id, 2, 5, 'best', 1, '../../secret', 1 "
                          "from checkpoints");
        if (import_with(&s, NULL, ways[w])) fail_msg("%s", s.err.text);
        snprintf(path, sizeof path, "%s/runs/%s/checkpoints/step-200", s.here, s.id);
        snprintf(outside, sizeof outside, "%s/secret", s.here);
        assert_int_equal(lstat(path, &found), ways[w] == CHECKPOINTS_NONE ? -1 : 0);
        assert_int_not_equal(access(outside, F_OK), 0);
        if (ways[w] != CHECKPOINTS_NONE) {
            assert_true(ways[w] == CHECKPOINTS_LINK ? S_ISLNK(found.st_mode) : S_ISDIR(found.st_mode));
            char *weights = read_text(s.here, s.id, "checkpoints/step-200/model.safetensors");
            assert_string_equal(weights, "weights");
            free(weights);
        }
        /* deleting the run here removes nothing there */
        if (run_delete(s.store, s.id, &s.err)) fail_msg("%s", s.err.text);
        char *weights = read_text(s.there, s.id, "checkpoints/step-200/model.safetensors");
        assert_string_equal(weights, "weights");
        free(weights);
        close_stores(&s);
    }
}

TEST_CASE(what_a_killed_import_has_left_is_replaced)
{
    struct stores s;
    char sql[400];
    open_stores(&s);
    snprintf(sql, sizeof sql,
             "insert into runs(id, name, status, created_at, message) select '%s', 'origin', 'created', 1,"
             " 'incomplete: import of %s from another store (import it again)';"
             "insert into tags values('%s', 'half')",
             s.id, s.id, s.id);
    store_fixture_sql(s.here, sql);
    import_all(&s);
    assert_int_equal(s.runs[0].what, RUN_IMPORTED);
    assert_string_equal(s.runs[0].id, s.id);
    assert_true(store_fixture_number(s.here, "select count(*) from runs where status = 'finished'") == 1);
    assert_true(store_fixture_number(s.here, "select count(*) from runs") == 1);
    assert_true(store_fixture_number(s.here, "select count(*) from tags where tag = 'half'") == 0);
    close_stores(&s);
}

/* It could not be completed later. */
TEST_CASE(a_run_whose_records_wait_is_repaired_first)
{
    struct stores s;
    struct spill spill;
    struct repair repair;
    open_stores(&s);
    struct store *there = store_fixture_open(s.there);
    if (recovery_begin(there, s.id, &spill, &s.err)) fail_msg("%s", s.err.text);
    if (spill_add(&spill, 2, TABLE_SAMPLES, &(struct sample_record){300, "late", "text"}, &s.err))
        fail_msg("%s", s.err.text);
    spill_close(&spill);
    import_all(&s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.runs[0].what, RUN_IS_PARTIAL);
    assert_true(store_fixture_number(s.here, "select count(*) from runs") == 0);
    if (recovery_repair(there, s.id, &repair, &s.err)) fail_msg("%s", s.err.text);
    store_close(there);
    import_all(&s);
    assert_int_equal(s.runs[0].what, RUN_IMPORTED);
    assert_true(store_fixture_number(s.here, "select count(*) from samples where prompt = 'late'") == 1);
    close_stores(&s);
}

TEST_CASE(only_ended_runs_that_pass_the_filter_are_imported)
{
    struct stores s;
    struct run_lock lock;
    char live[RUN_ID_MAX];
    open_stores(&s);
    make_run(s.there, "live", live);
    struct store *there = store_fixture_open(s.there);
    assert_int_equal(run_lock_acquire(there, live, &lock, &s.err), STATUS_OK);
    if (import_with(&s, "name=live", CHECKPOINTS_LINK)) fail_msg("%s", s.err.text);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.runs[0].what, RUN_IS_TRAINED);
    assert_true(store_fixture_number(s.here, "select count(*) from runs") == 0);
    run_lock_release(&lock);
    if (import_with(&s, "name=live", CHECKPOINTS_LINK)) fail_msg("%s", s.err.text);
    assert_int_equal(s.runs[0].what, RUN_IMPORTED);
    assert_true(store_fixture_number(s.here, "select count(*) from runs where name = 'live'") == 1);
    assert_true(store_fixture_number(s.here, "select count(*) from runs") == 1);
    assert_int_equal(import_with(&s, "nme=live", CHECKPOINTS_LINK), STATUS_USAGE);
    assert_memory_equal(s.err.text, "--filter: ", 10);
    store_close(there);
    close_stores(&s);
}

TEST_CASE(what_is_no_other_store_is_refused)
{
    struct stores s;
    char link[PATH_MAX + 8], path[PATH_MAX + 16];
    open_stores(&s);
    char there[PATH_MAX];
    memcpy(there, s.there, sizeof there);
    snprintf(link, sizeof link, "%s-link", s.here);
    unlink(link);
    assert_int_equal(symlink(s.here, link), 0);
    snprintf(s.there, sizeof s.there, "%s", link);
    assert_int_equal(import_with(&s, NULL, CHECKPOINTS_LINK), STATUS_USAGE);
    assert_non_null(strstr(s.err.text, "is this store itself"));
    snprintf(s.there, sizeof s.there, "/nowhere");
    assert_int_equal(import_with(&s, NULL, CHECKPOINTS_LINK), STATUS_NOT_FOUND);
    store_fixture_home("damaged", s.there, sizeof s.there);
    assert_int_equal(import_with(&s, NULL, CHECKPOINTS_LINK), STATUS_NOT_FOUND);
    assert_non_null(strstr(s.err.text, "there is no such run database"));
    snprintf(path, sizeof path, "%s/anneal.db", s.there);
    assert_int_equal(file_write_atomic(path, "no database", 11, &s.err), STATUS_OK);
    assert_int_not_equal(import_with(&s, NULL, CHECKPOINTS_LINK), STATUS_OK);
    assert_non_null(strstr(s.err.text, path));
    assert_non_null(strstr(s.err.text, "(name the folder that is ANNEAL_HOME there")); /* not ours */
    memcpy(s.there, there, sizeof there); /* an id that leads out of the folder, and one that is the folder */
    static const char *const ids[] = {"../../up", ""};
    for (int i = 0; i < 2; i++) {
        char sql[120];
        snprintf(sql, sizeof sql, "update runs set id = '%s'; update steps set run_id = '%s'", ids[i],
                 ids[i]);
        store_fixture_sql(there, sql);
        assert_int_equal(import_with(&s, NULL, CHECKPOINTS_LINK), STATUS_CORRUPT);
        assert_non_null(strstr(s.err.text, "its id cannot be the name of a folder"));
        assert_true(store_fixture_number(s.here, "select count(*) from runs") == 0);
    }
    close_stores(&s);
}

TEST_MAIN()
