/* See import.h: opens the files one after the other, sees what each is, and has the run made. */
#include "runs/exchange/import.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "runs/exchange/import_stage.h"

/* Skips a byte order mark; whether the first line is one of llm.c's log: "s:0 …". */
static bool is_llmc(FILE *file)
{
    int c = getc(file);
    if (c == 0xEF && (c = getc(file)) == 0xBB && (c = getc(file)) == 0xBF) c = getc(file);
    if (c != EOF) ungetc(c, file);
    return c == 's';
}

static enum status read_file(struct import *import, const char *path)
{
    struct err *err = import->err;
    import->path = path;
    import->line = 1;
    if (file_is_folder(path))
        return err_set(err, STATUS_USAGE, "%s: is a folder (name the files in it: %s%s*.csv)", path, path,
                       path[strlen(path) - 1] == '/' ? "" : "/");
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot open: %s", path,
                       strerror(errno));
    enum status status;
    if (!is_llmc(file)) {
        status = import_read_csv(import, file);
    } else if (import->kind != IMPORT_NOTHING) {
        status = err_set(err, STATUS_USAGE,
                         "%s: is of another kind than the file before (llm.c's main.log is imported "
                         "alone)",
                         path);
    } else {
        import->kind = IMPORT_LLMC;
        status = import_read_llmc(import, file);
    }
    fclose(file);
    return status;
}

/* What a run is called that no file names: a file's folder, "logs/main.log" gives "logs"; else the file. */
static void name_after(const char *path, char *buf, size_t size)
{
    char whole[PATH_MAX];
    if (!realpath(path, whole)) snprintf(whole, sizeof whole, "%s", path);
    char *slash = strrchr(whole, '/');
    if (slash && slash > whole) {
        *slash = '\0';
        slash = strrchr(whole, '/');
    }
    const char *base = slash ? slash + 1 : whole;
    snprintf(buf, size, "%s", *base ? base : "imported");
}

static enum status begin(struct import *import)
{
    /* on disk: a long history does not fit into memory; only for a handle without temporary tables */
    enum status status = store_exec(import->store, "pragma temp_store = file", import->err);
    if (!status)
        status = store_exec(import->store,
                            "begin; create temp table stage_events(segment integer, step integer, text text)",
                            import->err);
    return status;
}

/* Drops what was staged; the handle is as before. */
static void end(struct import *import)
{
    if (!sqlite3_get_autocommit(import->store->db)) store_exec(import->store, "rollback", NULL);
    for (int c = 0; c < COLUMN_COUNT; c++) sqlite3_finalize(import->upserts[c]);
    store_exec(import->store, "drop table if exists temp.stage_events", NULL);
    for (int t = 0; t < TABLE_COUNT; t++) {
        char sql[80];
        snprintf(sql, sizeof sql, "drop table if exists temp.stage_%s", store_tables[t].name);
        if (import->staged[t]) store_exec(import->store, sql, NULL);
    }
    store_exec(import->store, "pragma temp_store = memory", NULL);
}

enum status import_files(struct store *store, const char *const *paths, size_t count, const char *name,
                         struct import_outcome *out, struct err *err)
{
    struct err own;
    struct import import = {.store = store, .parameters = -1, .err = err ? err : &own};
    char message[200], fallback[RUN_NAME_MAX];
    enum status status = begin(&import);
    for (size_t i = 0; !status && i < count; i++) status = read_file(&import, paths[i]);
    if (!status) status = store_exec(store, "commit", import.err);
    if (!status) {
        name_after(paths[0], fallback, sizeof fallback);
        int n = snprintf(message, sizeof message, "imported from %.120s", paths[0]);
        if (count > 1)
            snprintf(message + n, sizeof message - (size_t)n, " and %zu more file%s", count - 1,
                     count > 2 ? "s" : "");
        status = import_store(&import, name, fallback, message, out);
    }
    end(&import);
    return status;
}
