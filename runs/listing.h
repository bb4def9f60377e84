/* The list of all runs as the workbench and `anneal runs` show it: which columns, which runs pass a filter,
 * in which order. Runs with the tag "archived" are left out unless the filter speaks of them. */
#ifndef ANNEAL_RUNS_LISTING_H
#define ANNEAL_RUNS_LISTING_H

#include "runs/filter.h"

enum { LISTING_COLUMNS_MAX = 32, LISTING_KEYS_MAX = 8 };
enum { LISTING_FIELDS_MAX = LISTING_COLUMNS_MAX + FILTER_FIELDS_MAX + LISTING_KEYS_MAX };

struct listing {
    struct run_info *runs; /* all, newest first */
    size_t count;
    size_t *shown; /* numbers of the runs that are shown, in order */
    size_t shown_count;
    size_t hidden; /* archived runs that are left out */
    struct listing_field {
        struct field field;
        struct field_value *values; /* one per run */
    } fields[LISTING_FIELDS_MAX];   /* the columns first */
    int column_count, field_count;
    struct filter filter;
    /* names of fields that exist though no run may have them; set before the first use, borrowed */
    const char *const *more_names;
    size_t more_count;
    const char *const *names; /* of all fields, by listing_names; NULL: not read yet */
    size_t name_count;

    /* private */
    struct arena arena; /* of runs, values and shown */
    double read_at;     /* Unix seconds */
    struct arena names_arena;
    bool names_old; /* runs were read after the names: they may have recorded others */
    int filter_fields[FILTER_FIELDS_MAX];
    struct {
        int field;
        bool falling;
    } keys[LISTING_KEYS_MAX];
    int key_count;
    bool with_archived;
};

/* Zero a listing before its first use. */
void listing_release(struct listing *listing);

/* Reads all runs anew, and the fields in use. On failure the old ones stay. */
enum status listing_read(struct listing *listing, struct store *store, struct err *err);

/* Names of fields, separated by commas; "" or NULL: none. */
struct listing_request {
    const char *columns;
    const char *filter; /* runs/filter.h */
    const char *sort;   /* "-" before a name: falling; then by the next one; at the end the newest first */
};
/* Sets them for the runs that were read, whose values it reads where they are new. A problem of the filter is
 * in listing->filter; STATUS_USAGE for a field that does not exist in `sort` and, if `strict`, in `columns`:
 * then nothing has changed. */
enum status listing_set(struct listing *listing, struct store *store, const struct listing_request *request,
                        bool strict, struct err *err);

/* Changes a request's `sort` to the column after the one that sorts now, after the last to none; counts begin
 * with the highest. */
void listing_sort_next(const struct listing *listing, char *sort, size_t size);
/* Turns it around. */
void listing_sort_reverse(char *sort, size_t size);

/* Sets the names of all fields, read anew if runs were; valid until the next call or listing_set. */
enum status listing_names(struct listing *listing, struct store *store, struct err *err);

/* The value of column `column` of the run with this number. */
static inline const struct field_value *listing_value(const struct listing *listing, int column, size_t run)
{
    return &listing->fields[column].values[run];
}

#endif
