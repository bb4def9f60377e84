/* See grouping.h. A run's configuration is reduced to the sum of a hash of each key and value, so that the
 * rows of `params` are read once, in any order, and nothing is kept. */
#include "runs/grouping.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runs/annotation.h"
#include "runs/database.h"

enum { ANCESTORS_MAX = 64 };

struct signature {
    const char *id;
    size_t run; /* its number in the list */
    uint64_t own, whole;
    bool recorded;
};

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return XXH64(text, strlen(text), seed);
}

static bool is_listed(const char *keys, const char *name)
{
    size_t n = strlen(name);
    for (; *keys; keys += strcspn(keys, ", ")) {
        keys += strspn(keys, ", ");
        if (strcspn(keys, ", ") == n && n && strncmp(keys, name, n) == 0) return true;
    }
    return false;
}

static int compare_ids(const void *left, const void *right)
{
    return strcmp(((const struct signature *)left)->id, ((const struct signature *)right)->id);
}

static struct signature *find(struct signature *all, size_t count, const char *id)
{
    struct signature key = {.id = id};
    return bsearch(&key, all, count, sizeof *all, compare_ids);
}

static enum status read_params(struct store *store, const char *keys, struct signature *all, size_t count,
                               struct err *err)
{
    sqlite3_stmt *select;
    struct signature *at = NULL;
    enum status status =
        store_query(store, &select, err, "select run_id, name, value from params order by run_id", "");
    while (store_next(store, select, &status, err)) {
        const char *id = (const char *)sqlite3_column_text(select, 0),
                   *name = (const char *)sqlite3_column_text(select, 1),
                   *value = (const char *)sqlite3_column_text(select, 2);
        if (!id || !name) continue;
        if (!at || strcmp(at->id, id) != 0) at = find(all, count, id);
        if (!at) continue;
        at->recorded = true;
        if (!is_listed(keys, name)) at->own += hash_text(value ? value : "", hash_text(name, 0));
    }
    return status;
}

/* Adds where forks come from. */
static uint64_t with_parents(struct signature *all, size_t count, const struct run_info *runs,
                             struct signature *at, int depth)
{
    const struct run_info *run = &runs[at->run];
    if (!*run->parent_id || depth == 0) return at->own;
    struct signature *parent = find(all, count, run->parent_id);
    uint64_t origin =
        parent ? with_parents(all, count, runs, parent, depth - 1) : hash_text(run->parent_id, 0);
    return at->own + XXH64(&run->parent_step, sizeof run->parent_step, origin);
}

static int compare_signatures(const void *left, const void *right)
{
    const struct signature *a = left, *b = right;
    if (a->recorded != b->recorded) return a->recorded ? -1 : 1;
    if (a->whole != b->whole) return a->whole < b->whole ? -1 : 1;
    return (a->run > b->run) - (a->run < b->run);
}

/* Makes a run of a sweep equal to those of the same sweep alone. */
static void sign_with_sweep(struct signature *at, const struct run_info *run)
{
    size_t bytes;
    const char *tag = run_sweep_tag(run, &bytes);
    if (!tag) return;
    at->whole = XXH64(tag, bytes, 0);
    at->recorded = true;
}

enum status grouping_read(struct store *store, const char *keys, bool sweeps, const struct run_info *runs,
                          size_t count, struct arena *arena, size_t **group, struct err *err)
{
    struct signature *all = calloc(count + 1, sizeof *all);
    size_t *first = arena_alloc_array(arena, count + 1, sizeof *first);
    enum status status = all && first ? STATUS_OK : err_no_memory(err, "groups of runs");
    for (size_t i = 0; !status && i < count; i++) all[i] = (struct signature){.id = runs[i].id, .run = i};
    if (!status && count) qsort(all, count, sizeof *all, compare_ids);
    if (!status) status = read_params(store, keys, all, count, err);
    for (size_t i = 0; !status && i < count; i++)
        all[i].whole = with_parents(all, count, runs, &all[i], ANCESTORS_MAX);
    for (size_t i = 0; sweeps && i < count && !status; i++) sign_with_sweep(&all[i], &runs[all[i].run]);
    if (!status && count) qsort(all, count, sizeof *all, compare_signatures);
    for (size_t i = 0; !status && i < count; i++) {
        bool same = i && all[i].recorded && all[i - 1].recorded && all[i].whole == all[i - 1].whole;
        first[all[i].run] = same ? first[all[i - 1].run] : all[i].run;
    }
    free(all);
    if (!status) *group = first;
    return status;
}

void grouping_cut_stem(char *stem, const char *name)
{
    size_t n = 0;
    while (stem[n] && stem[n] == name[n]) n++;
    bool whole = !stem[n] && (!name[n] || strchr("-_.", name[n]));
    while (!whole && n > 0 && (!stem[n] || !strchr("-_.", stem[n]))) n--;
    if (n > 0) stem[n] = '\0';
}
