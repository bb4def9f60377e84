/* See schema.h. */
#include "runs/schema.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *table, *columns;
    int since;
} indexes[] = {
#define INDEX(name, since, table, columns) {#name, #table, columns, since},
#include "runs/columns.def"
};

static void write_table(FILE *out, const struct table_info *table)
{
    fprintf(out, "create table %s(", table->name);
    for (int c = table->first; c < table->end; c++) {
        const struct column_info *column = &store_columns[c];
        if (column->since > table->since) continue;
        fprintf(out, "%s%s %s", c > table->first ? ", " : "", column->name, column->sql);
    }
    if (table->keyed)
        fprintf(out, ", primary key(run_id, %s)) without rowid;", table->order);
    else
        fprintf(out, ");");
}

char *schema_script(int version)
{
    char *sql = NULL;
    size_t size;
    FILE *out = open_memstream(&sql, &size);
    if (!out) return NULL;
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_info *table = &store_tables[t];
        if (table->since == version) write_table(out, table);
        for (int c = table->first; c < table->end && table->since < version; c++)
            if (store_columns[c].since == version)
                fprintf(out, "alter table %s add column %s %s;", table->name, store_columns[c].name,
                        store_columns[c].sql);
    }
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++)
        if (indexes[i].since == version)
            fprintf(out, "create index %s on %s(%s);", indexes[i].name, indexes[i].table, indexes[i].columns);
    if (fclose(out) == 0) return sql;
    free(sql);
    return NULL;
}

static enum status read_number(struct store *store, const char *sql, int64_t *out, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = store_error(store, err);
    else
        *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

enum status schema_check(struct store *store, int count, int64_t *out, struct err *err)
{
    int64_t application, tables, own, *version = out ? out : &own;
    /* one snapshot: another process may be creating the tables right now */
    bool alone = sqlite3_get_autocommit(store->db);
    enum status status = alone ? store_read_begin(store, err) : STATUS_OK;
    if (!status) status = read_number(store, "select count(*) from sqlite_master", &tables, err);
    if (!status) status = read_number(store, "pragma user_version", version, err);
    if (!status) status = read_number(store, "pragma application_id", &application, err);
    if (alone) store_read_end(store);
    if (status) return status;
    if (application != SCHEMA_APPLICATION_ID && (application != 0 || *version != 0 || tables != 0))
        return err_set(
            err, STATUS_CORRUPT,
            "%s: is the database of another program (move it away, or set ANNEAL_HOME to another folder)",
            store->path);
    if (*version > count)
        return err_set(
            err, STATUS_FAILED,
            "%s: was written by a newer anneal (its version is %lld, this one knows up to %d; update "
            "anneal, or set ANNEAL_HOME to another folder)",
            store->path, (long long)*version, count);
    return *version < 0 ? err_set(err, STATUS_CORRUPT, "%s: its version is negative: %lld", store->path,
                                  (long long)*version)
                        : STATUS_OK;
}

/* Inside a transaction: from `version` to the next. */
static enum status apply(struct store *store, const char *script, int64_t version, struct err *err)
{
    char stamp[96];
    char *own = script ? NULL : schema_script((int)version + 1);
    if (!script && !own) return err_set(err, STATUS_NO_MEMORY, "%s: not enough memory", store->path);
    snprintf(stamp, sizeof stamp, "pragma application_id = %d; pragma user_version = %lld",
             SCHEMA_APPLICATION_ID, (long long)version + 1);
    enum status status = store_exec(store, script ? script : own, err);
    free(own);
    return status ? status : store_exec(store, stamp, err);
}

enum status schema_migrate(struct store *store, const char *const *scripts, int count, struct err *err)
{
    int64_t version;
    enum status status = schema_check(store, count, &version, err);
    while (!status && version < count) {
        status = store_begin(store, err);
        if (status) break;
        /* again, inside the transaction: another process may have been faster */
        status = schema_check(store, count, &version, err);
        if (!status && version < count)
            status = apply(store, scripts ? scripts[version] : NULL, version, err);
        if (!status) status = store_commit(store, err);
        store_rollback(store);
        if (!status) status = schema_check(store, count, &version, err);
    }
    return status;
}
