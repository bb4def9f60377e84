/* The schema from columns.def is the published one, whichever version created the database.
 *
 * */
#include <limits.h>
/* cmocka wants the headers above first */
#include <jansson.h>
#include <sqlite3.h>

#include "core/base/file.h"
#include "runs/database.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

/* The exact SQL of the releases: never changed; the SQL of a new version is added when a release has shipped
 * it. */

static const char first_version[] =
    "create table runs("
    " id text not null primary key, name text not null, status text not null, created_at real not null,"
    " ended_at real, device text, precision text, parameters integer, steps integer, tokens integer,"
    " final_loss real, best_val_loss real, best_step integer, tokens_per_sec real,"
    " total_steps integer, segment integer not null default 0, pid integer, heartbeat real,"
    " message text not null default '', config text not null default '', nan integer not null default 0);"
    "create index runs_by_name on runs(name, created_at);"

    "create table segments("
    " run_id text not null, segment integer not null, first_step integer, started_at real not null,"
    " ended_at real, status text, pid integer, host text, primary key(run_id, segment)) without rowid;"

    "create table params("
    " run_id text not null, name text not null, value text not null, primary key(run_id, name)) without "
    "rowid;"
    "create table tags(run_id text not null, tag text not null, primary key(run_id, tag)) without rowid;"

    "create table steps("
    " run_id text not null, segment integer not null, step integer not null, epoch real, tokens integer,"
    " wall_time real, step_ms real, loss real, lr real, grad_norm real, clip_scale real, tokens_per_sec real,"
    " mfu real, nan integer not null default 0, primary key(run_id, segment, step)) without rowid;"

    "create table evals("
    " run_id text not null, segment integer not null, step integer not null, tokens integer, wall_time real,"
    " val_loss real, val_perplexity real, eval_ms real, nan integer not null default 0,"
    " primary key(run_id, segment, step)) without rowid;"

    "create table early_stopping("
    " run_id text not null, segment integer not null, step integer not null, val_loss real, best_val_loss "
    "real,"
    " best_step integer, min_delta real, improved integer, patience_used integer, patience integer, verdict "
    "text,"
    " nan integer not null default 0, primary key(run_id, segment, step)) without rowid;"

    "create table layer_profile("
    " run_id text not null, segment integer not null, step integer not null, phase text not null,"
    " layer integer not null, op text not null, calls integer, time_us real,"
    " primary key(run_id, segment, step, phase, layer, op)) without rowid;"

    "create table memory("
    " run_id text not null, segment integer not null, step integer not null, category text not null,"
    " planned_bytes integer, live_bytes integer, peak_bytes integer,"
    " primary key(run_id, segment, step, category)) without rowid;"

    "create table gpu_samples("
    " run_id text not null, wall_time real not null, gpu integer not null, utilization_pct real,"
    " memory_used_bytes integer, memory_total_bytes integer, power_w real, temperature_c real, sm_clock_mhz "
    "real,"
    " primary key(run_id, wall_time, gpu)) without rowid;"

    "create table samples("
    " id integer primary key, run_id text not null, segment integer not null, step integer not null, prompt "
    "text,"
    " text text);"
    "create index samples_by_run on samples(run_id, segment, step);"

    "create table checkpoints("
    " run_id text not null, segment integer not null, step integer not null, kind text not null, wall_time "
    "real,"
    " path text not null, bytes integer, primary key(run_id, segment, step, kind)) without rowid;"

    "create table orders("
    " id integer primary key autoincrement, run_id text not null, issued_at real not null, verb text not "
    "null,"
    " argument real, issuer text, applied_step integer, result text);"
    "create index orders_by_run on orders(run_id);"

    "create table events("
    " id integer primary key, run_id text not null, segment integer not null, step integer, wall_time real,"
    " level text, text text);"
    "create index events_by_run on events(run_id);"

    "create table rollup("
    " run_id text not null, metric text not null, level integer not null, first_step integer not null,"
    " min real, max real, mean real, last real, count integer not null, non_finite integer not null,"
    " primary key(run_id, metric, level, first_step)) without rowid;";

static const char process_memory[] = "alter table gpu_samples add column process_bytes integer;"
                                     "alter table gpu_samples add column throttle text;";

static const char rates_and_forks[] = "alter table layer_profile add column bytes integer;"
                                      "alter table layer_profile add column flops integer;"
                                      "alter table runs add column parent_id text;"
                                      "alter table runs add column parent_step integer;";

static const char processes_and_load[] =
    "alter table gpu_samples add column load_1m real;"
    "alter table gpu_samples add column processes_at real;"
    "create table gpu_processes("
    " run_id text not null, wall_time real not null, gpu integer not null, pid integer not null,"
    " name text not null, bytes integer, primary key(run_id, wall_time, gpu, pid)) without rowid;";

static const char perplexity_and_inference[] =
    "alter table steps add column perplexity real;"
    "create table inference("
    " id integer primary key, run_id text not null, wall_time real not null, checkpoint text,"
    " prompt_tokens integer, new_tokens integer, time_to_first_token_ms real, latency_median_ms real,"
    " latency_p95_ms real, prefill_tokens_per_sec real, decode_tokens_per_sec real, total_ms real);"
    "create index inference_by_run on inference(run_id);";

static const char measures[] =
    "create table measures("
    " run_id text not null, segment integer not null, step integer not null, name text not null, value real,"
    " nan integer not null default 0, primary key(run_id, segment, step, name)) without rowid;";

static const char classes[] =
    "create table classes("
    " run_id text not null, segment integer not null, step integer not null, label text not null, precision "
    "real,"
    " recall real, f1 real, support integer, primary key(run_id, segment, step, label)) without rowid;"
    "create table confusion("
    " run_id text not null, segment integer not null, step integer not null, label text not null,"
    " predicted text not null, count integer, primary key(run_id, segment, step, label, predicted)) without "
    "rowid;"
    "alter table early_stopping add column metric text;";

static const char frozen_parameters[] =
    "alter table runs add column frozen_parameters integer not null default 0;"
    "alter table runs add column trained_parameters integer as (parameters - frozen_parameters);";

static const char notes[] = "alter table runs add column note text not null default '';";

static const char best_of_metric[] = "alter table runs add column best_metric text not null default '';"
                                     "alter table runs add column best_value real;";

static const char ranks[] =
    "create table ranks("
    " run_id text not null, segment integer not null, step integer not null, rank integer not null,"
    " host text, device text, step_ms real, wait_ms real, sent_bytes integer, memory_bytes integer,"
    " primary key(run_id, segment, step, rank)) without rowid;";

static const char averages[] = "alter table rollup add column ema_9 real;"
                               "alter table rollup add column ema_99 real;"
                               "alter table rollup add column ema_999 real;";

static const char records_of_a_file[] = "alter table runs add column recorded integer not null default 0;";

static const char *const published[] = {first_version,
                                        process_memory,
                                        rates_and_forks,
                                        processes_and_load,
                                        perplexity_and_inference,
                                        measures,
                                        classes,
                                        frozen_parameters,
                                        notes,
                                        best_of_metric,
                                        ranks,
                                        averages,
                                        records_of_a_file};
enum { PUBLISHED = sizeof published / sizeof *published };

static void database_at(const char *home, char path[PATH_MAX + 16])
{
    snprintf(path, PATH_MAX + 16, "%s/anneal.db", home);
}

/* A database as a release with `count` of the scripts left it, with a run and a step. */
static void make_published(const char *home, int count)
{
    char path[PATH_MAX + 16], stamp[80];
    sqlite3 *db;
    database_at(home, path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (int i = 0; i < count; i++)
        if (sqlite3_exec(db, published[i], NULL, NULL, NULL)) fail_msg("%s", sqlite3_errmsg(db));
    snprintf(stamp, sizeof stamp, "pragma application_id = %d; pragma user_version = %d",
             STORE_APPLICATION_ID, count);
    assert_int_equal(sqlite3_exec(db, stamp, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "insert into runs(id, name, status, created_at, parameters)"
                                  " values('r', 'r', 'finished', 1, 42);"
                                  "insert into steps(run_id, segment, step, loss) values('r', 1, 0, 2.5)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
}

static int write_row(void *out, int count, char **values, char **names)
{
    (void)names;
    for (int i = 0; i < count; i++) fprintf(out, "%s ", values[i] ? values[i] : "-");
    fputc('\n', out);
    return 0;
}

/* Tables, their columns with type, default and key, and indexes; yours to free. */
static char *describe(const char *home)
{
    static const char *const questions[] = {
        "select name, type, wr from pragma_table_list where schema = 'main' and name not like 'sqlite%' "
        "order by name",
        "select m.name, c.cid, c.name, c.type, c.\"notnull\", c.dflt_value, c.pk from sqlite_master m"
        " join pragma_table_xinfo(m.name) c where m.type = 'table' and m.name not like 'sqlite%' order by "
        "m.name, c.cid",
        "select m.name, l.name, l.\"unique\", l.origin, i.seqno, i.name from sqlite_master m"
        " join pragma_index_list(m.name) l join pragma_index_info(l.name) i where m.type = 'table'"
        " and m.name not like 'sqlite%' order by m.name, l.name, i.seqno",
        "select count(*) from sqlite_master where sql like '%autoincrement%'",
    };
    char path[PATH_MAX + 16], *text = NULL;
    size_t size;
    sqlite3 *db;
    FILE *out = open_memstream(&text, &size);
    database_at(home, path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (sqlite3_exec(db, questions[i], write_row, out, NULL)) fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    fclose(out);
    return text;
}

TEST_CASE(a_new_database_is_as_the_releases_made_it)
{
    char home[PATH_MAX], old[PATH_MAX];
    store_fixture_home("new", home, sizeof home);
    store_fixture_home("old", old, sizeof old);
    store_close(store_fixture_open(home));
    make_published(old, PUBLISHED);
    char *got = describe(home), *want = describe(old);
    assert_true(strlen(want) > 4000);
    assert_string_equal(got, want);
    free(got);
    free(want);
}

TEST_CASE(a_database_of_any_version_becomes_the_same_and_keeps_what_it_holds)
{
    char home[PATH_MAX];
    struct run_info info;
    struct err err = {0};
    store_fixture_home("today", home, sizeof home);
    store_close(store_fixture_open(home));
    char *want = describe(home);
    for (int version = 1; version <= PUBLISHED; version++) {
        store_fixture_home("earlier", home, sizeof home);
        make_published(home, version);
        struct store *store = store_fixture_open(home);
        if (run_find(store, "r", &info, &err)) fail_msg("%s", err.text);
        assert_int_equal(info.status, RUN_FINISHED);
        assert_int_equal(info.trained_parameters, 42); /* old runs trained them all */
        assert_int_equal(info.frozen_parameters, 0);
        store_close(store);
        char *got = describe(home);
        assert_string_equal(got, want);
        assert_true(store_fixture_number(home, "pragma user_version") == STORE_VERSION);
        assert_true(store_fixture_number(home, "select loss from steps") == 2.5);
        free(got);
    }
    free(want);
}

/* The list's own rules. */
TEST_CASE(new_columns_come_last_and_nan_bits_are_apart)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_info *table = &store_tables[t];
        int since = 0, bits = 0;
        assert_true(table->end - table->first <= COLUMNS_MAX);
        for (int c = table->first; c < table->end; c++) {
            const struct column_info *column = &store_columns[c];
            assert_in_range(column->since, since, STORE_VERSION);
            since = column->since;
            if (!column_is_real(column) || !column->null) continue;
            assert_int_equal(column->null & (column->null - 1), 0);
            assert_int_equal(bits & column->null, 0);
            assert_non_null(table_column((enum store_table)t, "nan"));
            bits |= column->null;
        }
        assert_int_equal(table->csv != NULL, t < TABLE_CSV_COUNT);
    }
}

/* Whoever reads a record as JSON finds what its columns promise, whatever the types of their values. */
TEST_CASE(a_record_as_json_has_a_member_for_each_of_its_columns)
{
    static const union {
        char bytes[2048];
        double aligned;
    } record;
    for (int t = 0; t < TABLE_COUNT; t++) {
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);
        struct json_out out;
        assert_true(store_tables[t].record <= sizeof record);
        json_out_begin(&out, stream);
        json_out_open(&out, NULL, '{', JSON_OUT_FLAT);
        table_json(&out, (enum store_table)t, &record);
        json_out_close(&out);
        fclose(stream);
        json_t *json = json_loads(text, 0, NULL);
        assert_non_null(json);
        for (int c = store_tables[t].first; c < store_tables[t].end; c++) {
            const struct column_info *column = &store_columns[c];
            if (column->csv && column->field && !json_object_get(json, column->name))
                fail_msg("%s: no \"%s\" in %s", store_tables[t].name, column->name, text);
        }
        json_decref(json);
        free(text);
    }
}

TEST_MAIN()
