/* From RUN as a user types it to a run, see run.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/run_row.h"

/* The first row of the select with this tail, `word` being ?1; *found says whether there is one. */
static enum status first_row(struct store *store, const char *tail, const char *word, struct run_info *out,
                             bool *found, struct err *err)
{
    sqlite3_stmt *select;
    enum status status = run_row_select(store, tail, &select, err);
    if (status) return status;
    if (sqlite3_bind_parameter_count(select)) store_bind_text(select, 1, word);
    status = store_step(store, select, found, err);
    if (status || !*found) return status;
    run_row_read(store, select, out);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Rows whose id begins with the word: none leaves *found false; several are an error that names some of them.
 */
static enum status find_prefix(struct store *store, const char *word, struct run_info *out, bool *found,
                               struct err *err)
{
    sqlite3_stmt *statement;
    char names[320] = "";
    size_t used = 0;
    int matches = 0;
    struct run_info info;
    bool row;
    enum status status = run_row_select(
        store, "where substr(id, 1, length(?1)) = ?1 order by created_at desc, rowid desc", &statement, err);
    if (status) return status;
    store_bind_text(statement, 1, word);
    while (!(status = store_step(store, statement, &row, err)) && row) {
        run_row_read(store, statement, &info);
        if (++matches == 1) *out = info;
        if (matches <= 3)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", matches > 1 ? ", " : "", info.id);
        if (used >= sizeof names) used = sizeof names - 1;
    }
    if (status) return status;
    *found = matches == 1;
    if (matches > 1)
        return err_set(err, STATUS_USAGE, "run \"%s\": fits %d runs: %s%s (type more of the id)", word,
                       matches, names, matches > 3 ? ", ..." : "");
    return STATUS_OK;
}

static enum status not_found(struct store *store, const char *word, struct err *err)
{
    enum { NAMES_MAX = 1000 };
    const char *names[NAMES_MAX];
    struct arena arena;
    struct run_info *runs = NULL;
    size_t count = 0;
    arena_init(&arena, 0);
    enum status status = run_list(store, &arena, &runs, &count, err);
    if (!status && count == 0) {
        status = err_set(err, STATUS_NOT_FOUND,
                         "run \"%s\": there are no runs yet (start one with `anneal train`)", word);
    } else if (!status) {
        size_t n = 0;
        for (size_t i = 0; i < count && n + 2 <= NAMES_MAX; i++) {
            names[n++] = runs[i].name;
            names[n++] = runs[i].id;
        }
        const char *nearest = text_nearest(word, names, n);
        status = err_set(err, STATUS_NOT_FOUND,
                         "run \"%s\": there is no such run%s%s%s (`anneal runs` lists them)", word,
                         nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    }
    arena_release(&arena);
    return status;
}

enum status run_find(struct store *store, const char *word, struct run_info *out, struct err *err)
{
    bool found = false;
    enum status status = STATUS_OK;
    struct run_info info;
    if (!*word)
        return err_set(err, STATUS_USAGE, "no run given (an id, the start of one, a name, or latest)");
    if (strcmp(word, "latest") == 0) /* before any name: the word must mean the same everywhere */
        status = first_row(store, "order by created_at desc, rowid desc limit 1", word, &info, &found, err);
    if (!status && !found) status = first_row(store, "where id = ?1", word, &info, &found, err);
    if (!status && !found)
        status = first_row(store, "where name = ?1 order by created_at desc, rowid desc limit 1", word, &info,
                           &found, err);
    if (!status && !found) status = find_prefix(store, word, &info, &found, err);
    if (!status && !found) return not_found(store, word, err);
    if (!status) *out = info;
    return status;
}
