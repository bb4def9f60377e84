/* See reference.h. */
#include "runs/reference.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs/database.h"

/* Appends a row of the query; false: no memory. */
static bool add(struct run_references *list, struct arena *arena, sqlite3_stmt *row)
{
    char real[PATH_MAX];
    struct run_reference *slot = arena_grow(arena, &list->of, list->count, sizeof *slot);
    if (!slot) return false;
    *slot = (struct run_reference){store_column_copy(row, 0, arena), store_column_copy(row, 1, arena),
                                   store_column_copy(row, 2, arena), NULL};
    list->count++;
    if (!slot->run || !slot->key || !slot->path) return false;
    bool found = realpath(slot->path, real) != NULL;
    if (found) slot->real = arena_strdup(arena, real);
    return !found || slot->real;
}

enum status run_references_read(struct store *store, struct arena *arena, struct run_references *out,
                                struct err *err)
{
    sqlite3_stmt *select;
    struct run_references list = {0};
    enum status status = store_query(
        store, &select, err,
        "select run_id, name, value from params where value <> '' and (name in ('model.from', 'lora.from') or"
        " value like '%/checkpoints/step-%') union"
        " select id, '', parent_id || '/checkpoints/step-' || parent_step from runs"
        " where parent_id is not null order by 1, 2 desc",
        "");
    while (store_next(store, select, &status, err))
        if (!add(&list, arena, select)) status = err_no_memory(err, "the checkpoints that runs refer to");
    if (!status) *out = list;
    return status;
}

/* Whether `text`, which ends with a step's number if there is a step, is at this place and ends there. */
static bool ends_there(const char *at, size_t length, int64_t step)
{
    return step < 0 || !isdigit((unsigned char)at[length]);
}

size_t run_references_find(const struct run_references *references, struct store *store, const char *id,
                           int64_t step, size_t from)
{
    char text[RUN_ID_MAX + 64], path[PATH_MAX + RUN_ID_MAX + 80], real[PATH_MAX];
    int n = snprintf(text, sizeof text, "%s/checkpoints/", id);
    if (step >= 0) n += snprintf(text + n, sizeof text - (size_t)n, "step-%" PRId64, step);
    snprintf(path, sizeof path, "%s/runs/%s", store_home(store), text);
    size_t length = realpath(path, real) ? strlen(real) : 0;
    for (; from < references->count; from++) {
        const struct run_reference *r = &references->of[from];
        if (strcmp(r->run, id) == 0) continue;
        if (length && r->real && strncmp(r->real, real, length) == 0 && ends_there(r->real, length, step))
            return from;
        for (const char *at = r->path; (at = strstr(at, text)); at++)
            if (ends_there(at, (size_t)n, step)) return from;
    }
    return from;
}

enum status run_dependents(struct store *store, const char *const *ids, size_t count, struct arena *arena,
                           struct run_references *out, struct err *err)
{
    struct run_references all;
    size_t kept = 0;
    enum status status = run_references_read(store, arena, &all, err);
    bool *refers = status ? NULL : arena_alloc_array(arena, all.count + 1, sizeof *refers);
    if (!status && !refers) status = err_no_memory(err, "the checkpoints that runs refer to");
    if (status) return status;
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; (r = run_references_find(&all, store, ids[i], -1, r)) < all.count; r++)
            refers[r] = true;
    for (size_t r = 0; r < all.count; r++) {
        bool wanted = refers[r] && (!kept || strcmp(all.of[kept - 1].run, all.of[r].run) != 0);
        for (size_t i = 0; i < count; i++) wanted = wanted && strcmp(ids[i], all.of[r].run) != 0;
        if (wanted) all.of[kept++] = all.of[r];
    }
    all.count = kept;
    *out = all;
    return STATUS_OK;
}
