/* See listing.h. */
#include "runs/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/annotation.h"

void listing_release(struct listing *listing)
{
    filter_release(&listing->filter);
    arena_release(&listing->arena);
    arena_release(&listing->names_arena);
    *listing = (struct listing){0};
}

enum status listing_names(struct listing *listing, struct store *store, struct err *err)
{
    const char *const *names, **all;
    size_t count, more = listing->more_count;
    if (listing->names && !listing->names_old) return STATUS_OK;
    listing->names = NULL;
    arena_release(&listing->names_arena);
    enum status status = field_names_read(store, &listing->names_arena, &names, &count, err);
    if (status) return status;
    all = arena_alloc_array(&listing->names_arena, count + more, sizeof *all);
    if (!all) return err_no_memory(err, "a list of runs");
    memcpy(all, names, count * sizeof *all);
    if (more) memcpy(all + count, listing->more_names, more * sizeof *all);
    listing->names = all;
    listing->name_count = count + more;
    listing->names_old = false;
    return STATUS_OK;
}

/* ---- filter and order ---- */

/* Runs without a value come last, equal ones newest first. */
static int compare(const void *left, const void *right, void *opaque)
{
    const struct listing *listing = opaque;
    size_t a = *(const size_t *)left, b = *(const size_t *)right;
    for (int k = 0; k < listing->key_count; k++) {
        const struct field_value *values = listing->fields[listing->keys[k].field].values;
        int order = field_compare(&values[a], &values[b], listing->keys[k].falling);
        if (order) return order;
    }
    return (a > b) - (a < b);
}

static void arrange(struct listing *listing)
{
    const struct field_value *values[FILTER_FIELDS_MAX];
    size_t kept = 0;
    for (int i = 0; i < listing->filter.field_count; i++)
        values[i] = listing->fields[listing->filter_fields[i]].values;
    size_t passed = filter_run(&listing->filter, listing->runs, listing->count, values, listing->shown);
    for (size_t i = 0; i < passed; i++)
        if (listing->with_archived || !run_has_tag(&listing->runs[listing->shown[i]], TAG_ARCHIVED))
            listing->shown[kept++] = listing->shown[i];
    listing->hidden = passed - kept;
    listing->shown_count = kept;
    if (kept) qsort_r(listing->shown, kept, sizeof *listing->shown, compare, listing);
}

/* ---- fields ---- */

/* The number of the field in the list, to which it is added if need be. */
static int add_field(struct listing *listing, const struct field *field)
{
    struct listing_field *at = &listing->fields[listing->field_count];
    for (int i = 0; i < listing->field_count; i++)
        if (strcmp(listing->fields[i].field.name, field->name) == 0) return i;
    *at = (struct listing_field){*field, NULL};
    return listing->field_count++;
}

static enum status add_columns(struct listing *listing, const char *names, bool strict, struct err *err)
{
    char name[FIELD_NAME_MAX];
    struct field field;
    enum status status = STATUS_OK;
    while (!status && names && text_next_name(&names, name, sizeof name)) {
        if (strict) status = field_check(name, listing->names, listing->name_count, err);
        if (!status && listing->column_count == LISTING_COLUMNS_MAX)
            return strict ? err_set(err, STATUS_USAGE, "more than %d columns", LISTING_COLUMNS_MAX)
                          : STATUS_OK;
        if (!status && field_find(name, &field)) add_field(listing, &field);
        listing->column_count = listing->field_count; /* a name that is repeated adds no column */
    }
    return status;
}

static enum status add_keys(struct listing *listing, const char *names, struct err *err)
{
    char word[FIELD_NAME_MAX];
    struct field field;
    enum status status = STATUS_OK;
    while (!status && names && text_next_name(&names, word, sizeof word)) {
        const char *name = word + (*word == '-');
        status = field_check(name, listing->names, listing->name_count, err);
        if (!status && listing->key_count == LISTING_KEYS_MAX)
            status = err_set(err, STATUS_USAGE, "more than %d keys to sort by", LISTING_KEYS_MAX);
        if (status || !field_find(name, &field)) continue;
        listing->keys[listing->key_count].field = add_field(listing, &field);
        listing->keys[listing->key_count++].falling = *word == '-';
    }
    return status;
}

/* The values of a field that are set in the listing; NULL: none. */
static struct field_value *find_values(const struct listing *listing, const char *name)
{
    struct field_value *found = NULL;
    for (int i = 0; listing && !found && i < listing->field_count; i++)
        if (strcmp(listing->fields[i].field.name, name) == 0) found = listing->fields[i].values;
    return found;
}

/* Reads the values that are missing, after looking for them among `old`, a listing of the same runs; `before`
 * is one of an earlier time. */
static enum status read_values(struct listing *listing, const struct listing *old,
                               const struct listing *before, struct store *store, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < listing->field_count; i++) {
        struct listing_field *at = &listing->fields[i];
        if (!at->values) at->values = find_values(old, at->field.name);
        if (at->values) continue;
        struct field_past past = {.values = find_values(before, at->field.name)};
        if (past.values) past.runs = before->runs, past.count = before->count, past.read_at = before->read_at;
        status = field_read(store, &at->field, listing->runs, listing->count, past.values ? &past : NULL,
                            &listing->arena, &at->values, err);
    }
    return status;
}

enum status listing_read(struct listing *listing, struct store *store, struct err *err)
{
    struct listing next = *listing;
    next.arena = (struct arena){0};
    next.read_at = clock_wall();
    enum status status = run_list(store, &next.arena, &next.runs, &next.count, err);
    if (!status) next.shown = arena_alloc_array(&next.arena, next.count + 1, sizeof *next.shown);
    if (!status && !next.shown) status = err_no_memory(err, "a list of runs");
    for (int i = 0; i < next.field_count; i++) next.fields[i].values = NULL;
    if (!status) status = read_values(&next, NULL, listing, store, err);
    if (status) {
        arena_release(&next.arena);
        return status;
    }
    next.names_old = true;
    arena_release(&listing->arena);
    *listing = next;
    arrange(listing);
    return STATUS_OK;
}

/* listing_set with the names that the listing has. */
static enum status set(struct listing *listing, struct store *store, const struct listing_request *request,
                       bool strict, struct err *err)
{
    const char *filter = request->filter ? request->filter : "";
    enum status status = STATUS_OK;
    struct listing next = *listing;
    next.column_count = next.field_count = next.key_count = 0;
    next.filter = (struct filter){0};
    next.with_archived = strstr(filter, TAG_ARCHIVED) != NULL;
    status = add_columns(&next, request->columns, strict, err);
    if (!status) status = add_keys(&next, request->sort, err);
    if (!status && *filter) status = filter_parse(filter, next.names, next.name_count, &next.filter, err);
    for (int i = 0; !status && i < next.filter.field_count; i++)
        next.filter_fields[i] = add_field(&next, &next.filter.fields[i]);
    if (!status) status = read_values(&next, listing, NULL, store, err);
    if (status) {
        filter_release(&next.filter);
        listing->arena = next.arena; /* which may have got new blocks */
        return status;
    }
    filter_release(&listing->filter);
    *listing = next;
    if (listing->shown) arrange(listing);
    return STATUS_OK;
}

enum status listing_set(struct listing *listing, struct store *store, const struct listing_request *request,
                        bool strict, struct err *err)
{
    bool named = strict || (request->filter && *request->filter) || (request->sort && *request->sort);
    enum status status = STATUS_OK;
    if (named && !listing->names) status = listing_names(listing, store, err);
    if (!status) status = set(listing, store, request, strict, err);
    /* To read the names of many runs takes too long for each letter of a filter: only an unknown one needs
     * it. */
    if (!named || !listing->names_old || (status ? status != STATUS_USAGE : !listing->filter.problem.why[0]))
        return status;
    status = listing_names(listing, store, err);
    return status ? status : set(listing, store, request, strict, err);
}

/* ---- words for an order ---- */

void listing_sort_next(const struct listing *listing, char *sort, size_t size)
{
    const char *now = sort + (*sort == '-');
    int c = -1;
    while (*now && ++c < listing->column_count) {
        const char *name = listing->fields[c].field.name;
        if (strncmp(now, name, strlen(name)) == 0 && strchr(",", now[strlen(name)])) break;
    }
    while (++c < listing->column_count && listing->fields[c].field.made == MADE_CURVE) continue;
    *sort = '\0';
    if (c < listing->column_count)
        snprintf(sort, size, "%s%s",
                 listing->fields[c].field.unit == UNIT_COUNT || listing->fields[c].field.unit == UNIT_BYTES
                     ? "-"
                     : "",
                 listing->fields[c].field.name);
}

void listing_sort_reverse(char *sort, size_t size)
{
    char turned[1024];
    const char *now = *sort ? sort : "-created_at";
    snprintf(turned, sizeof turned, "%s%s", *now == '-' ? "" : "-", now + (*now == '-'));
    snprintf(sort, size, "%.*s", (int)size - 1, turned);
    if (strcmp(sort, "-created_at") == 0) *sort = '\0'; /* as it is without an order */
}
