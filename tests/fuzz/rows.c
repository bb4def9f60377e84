/* The rows of a damaged or strange database. SQLite keeps what is stored as it is, whatever the type of the
 * column, so that the readers of runs/ may meet any value anywhere. The bytes say which rows there are, in
 * tables without types and conditions, and which of the readers reads them: far more tries in a second than
 * with files, of which SQLite refuses most.
 *
 *     the reader, a number for it, then for each row its table and its values
 *     a value: its kind, then 1 or 8 bytes, or a length and as many bytes
 */
#include <stdlib.h>
#include <string.h>

#include "runs/comparison.h"
#include "runs/history.h"
#include "runs/lineage.h"
#include "runs/listing.h"
#include "runs/memory_usage.h"
#include "runs/profile.h"
#include "runs/quantity.h"
#include "runs/reach.h"
#include "runs/reference.h"
#include "runs/series.h"
#include "runs/table.h"
#include "tests/fuzz/parsers.h"

static const char run_id[] = "20260101-000000-r";

/* ---- the rows ---- */

struct source {
    const unsigned char *at, *end;
};

static unsigned take(struct source *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static const unsigned char *take_bytes(struct source *s, size_t n, size_t *taken)
{
    const unsigned char *bytes = s->at;
    *taken = n < (size_t)(s->end - s->at) ? n : (size_t)(s->end - s->at);
    s->at += *taken;
    return bytes;
}

static void bind_word(sqlite3_stmt *insert, int at, const char *const *words, unsigned which)
{
    unsigned count = 0;
    while (words && words[count]) count++;
    sqlite3_bind_text(insert, at, count ? words[which % count] : "", -1, SQLITE_STATIC);
}

static void bind_value(sqlite3_stmt *insert, int at, const struct column_info *column, struct source *s)
{
    enum { ABSENT, ID, WORD, SMALL, INTEGER, REAL, TEXT, BLOB, KINDS };
    unsigned kind = take(s) % KINDS;
    int64_t integer = 0;
    double real = 0;
    size_t n;
    const unsigned char *bytes;
    switch (kind) {
    case ABSENT:
        sqlite3_bind_null(insert, at);
        break;
    case ID:
        sqlite3_bind_text(insert, at, run_id, -1, SQLITE_STATIC);
        break;
    case WORD:
        bind_word(insert, at, column->words, take(s));
        break;
    case SMALL:
        sqlite3_bind_int(insert, at, (signed char)take(s));
        break;
    case INTEGER:
        bytes = take_bytes(s, sizeof integer, &n);
        memcpy(&integer, bytes, n);
        sqlite3_bind_int64(insert, at, integer);
        break;
    case REAL:
        bytes = take_bytes(s, sizeof real, &n);
        memcpy(&real, bytes, n);
        sqlite3_bind_double(insert, at, real);
        break;
    default:
        bytes = take_bytes(s, take(s), &n);
        if (kind == TEXT)
            sqlite3_bind_text(insert, at, (const char *)bytes, (int)n, SQLITE_STATIC);
        else
            sqlite3_bind_blob(insert, at, bytes, (int)n, SQLITE_STATIC);
    }
}

static void add_row(struct store *store, enum store_table which, struct source *s)
{
    const struct table_info *table = &store_tables[which];
    char sql[300];
    sqlite3_stmt *insert;
    struct err err;
    size_t n = (size_t)snprintf(sql, sizeof sql, "insert into %s values(?", table->name);
    for (int c = table->first + 1; c < table->end; c++) n += (size_t)snprintf(sql + n, sizeof sql - n, ", ?");
    snprintf(sql + n, sizeof sql - n, ")");
    if (store_prepare(store, sql, &insert, &err)) abort();
    for (int c = table->first; c < table->end; c++)
        bind_value(insert, c - table->first + 1, &store_columns[c], s);
    if (store_run(store, insert, &err)) abort();
    sqlite3_clear_bindings(insert);
}

/* A database in memory, as there is no file. */
static struct store *open_rows(const struct parser_place *place)
{
    struct store *store;
    struct err err;
    if (store_open(place->folder, STORE_READ, &store, &err)) abort();
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_info *table = &store_tables[t];
        char sql[1200];
        size_t n =
            (size_t)snprintf(sql, sizeof sql, "drop table %s; create table %s(", table->name, table->name);
        for (int c = table->first; c < table->end; c++)
            n += (size_t)snprintf(sql + n, sizeof sql - n, "%s%s", c > table->first ? ", " : "",
                                  store_columns[c].name);
        snprintf(sql + n, sizeof sql - n, ")");
        if (store_exec(store, sql, &err)) abort();
    }
    return store;
}

/* ---- the readers ---- */

static void read_list(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct listing listing = {0};
    struct listing_request request = {"name,status,loss,val_loss,elapsed,tags,note,acc,train.learning_rate",
                                      "loss < 3 or acc > 0 or tag:good", "-val_loss,name"};
    struct run_param *params;
    struct err err;
    char *config;
    size_t count;
    if (!listing_read(&listing, store, &err)) listing_set(&listing, store, &request, false, &err);
    for (size_t i = 0; i < listing.count; i++) {
        if (!run_config(store, listing.runs[i].id, &config, &err)) free(config);
        run_params_list(store, listing.runs[i].id, arena, &params, &count, &err);
    }
    listing_release(&listing);
}

static void read_history(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct run_history history;
    struct checkpoint_record *checkpoints;
    struct run_ranks ranks;
    struct err err;
    int64_t bytes;
    size_t count;
    run_history_read(store, run_id, 100, arena, &history, &err);
    run_checkpoints_read(store, run_id, arena, &checkpoints, &count, &err);
    run_best_checkpoints(store, run_id, arena, &checkpoints, &count, &err);
    run_peak_memory(store, run_id, &bytes, &err);
    run_ranks(store, run_id, &ranks, &err);
}

static void read_steps(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct run_info run;
    struct step_range *missing;
    struct step_record last;
    struct err err;
    size_t count;
    if (!run_get(store, run_id, &run, &err))
        run_missing_steps(store, &run, 10, arena, &missing, &count, &err);
    run_last_step(store, run_id, &last, &err);
}

static void read_series(struct store *store, const struct quantity *quantity)
{
    struct series series = {.name = quantity->column,
                            .device = quantity->device,
                            .decay = 0.9,
                            .inherits = true,
                            .fine_start = true};
    struct series_value value;
    struct err err;
    if (!series_read(store, run_id, quantity->metric, 0, -1, 16, &series, &err)) {
        series_value_read(store, run_id, &series, 5, &value, &err);
        series_update(store, run_id, &series, &err);
    }
    series_release(&series);
}

static void read_metric(struct store *store, struct arena *arena, unsigned pick)
{
    (void)arena;
    read_series(store, &(struct quantity){.metric = pick % METRIC_COUNT});
}

static void read_quantity(struct store *store, struct arena *arena, unsigned pick)
{
    struct quantity *quantities;
    struct err err;
    size_t count;
    if (!quantity_list(store, run_id, arena, &quantities, &count, &err) && count)
        read_series(store, &quantities[pick % count]);
}

static void read_pace(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct pace pace;
    struct reach reach;
    struct reach_request request = {.metric = METRIC_LOSS, .target = 2};
    struct err err;
    if (!pace_read(store, run_id, arena, &pace, &err))
        reach_read(store, run_id, &request, &pace, &reach, &err);
}

static void read_profile(struct store *store, struct arena *arena, unsigned pick)
{
    (void)arena;
    struct profile profile = {0};
    struct err err;
    if (!profile_read(store, run_id, pick % 2, &profile, &err))
        profile_read_first(store, run_id, pick % 2, &profile, &err);
    profile_release(&profile);
}

static void read_memory(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct memory_usage usage;
    struct err err;
    memory_usage_read(store, run_id, arena, &usage, &err);
}

static void read_relations(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct run_references references;
    struct lineage lineage;
    struct err err;
    run_references_read(store, arena, &references, &err);
    lineage_read(store, run_id, &lineage, &err);
}

static void read_comparison(struct store *store, struct arena *arena, unsigned pick)
{
    (void)pick;
    struct comparison comparison = {0};
    struct comparison_request request = {.with_history = true, .has_target = true, .target = 2};
    struct run_info *runs;
    struct err err;
    if (run_list(store, arena, &runs, &request.count, &err) || !request.count) return;
    request.runs = runs;
    comparison_read(store, &request, &comparison, &err);
    comparison_release(&comparison);
}

/* ---- all of it ---- */

static void empty_tables(struct store *store, const bool filled[TABLE_COUNT])
{
    struct err err;
    char sql[60];
    for (int t = 0; t < TABLE_COUNT; t++) {
        snprintf(sql, sizeof sql, "delete from %s", store_tables[t].name);
        if (filled[t] && store_do(store, &err, sql, "")) abort();
    }
}

void parse_rows(const struct parser_place *place, const unsigned char *bytes, size_t n)
{
    static void (*const readers[])(struct store * store, struct arena * arena, unsigned pick) = {
        read_list, read_history, read_steps,  read_metric,    read_quantity,
        read_pace, read_profile, read_memory, read_relations, read_comparison};
    static struct store *store;
    static bool filled[TABLE_COUNT];
    struct source s = {bytes, bytes + n};
    struct arena arena = {0};
    struct err err;
    if (!store) store = open_rows(place);
    unsigned reader = take(&s) % (sizeof readers / sizeof *readers), pick = take(&s);
    if (store_do(store, &err, "begin", "")) abort();
    empty_tables(store, filled);
    memset(filled, 0, sizeof filled);
    for (int rows = 0; s.at < s.end && rows < 40; rows++) {
        unsigned table = take(&s) % TABLE_COUNT;
        add_row(store, (enum store_table)table, &s);
        filled[table] = true;
    }
    if (store_do(store, &err, "commit", "")) abort();
    readers[reader](store, &arena, pick);
    arena_release(&arena);
}
