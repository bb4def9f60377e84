/* See runs_list.h. */
#include "tui/view/runs_list.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/view/labels.h"

static const struct {
    const char *name;
    size_t number; /* of numbers: where struct run_info has it */
    int sign;      /* 1: the smallest first; -1: the largest; 0: no number */
} sorts[SORT_COUNT] = {
    [SORT_CREATED] = {"newest first", 0, 0},
    [SORT_STATUS] = {"status", 0, 0},
    [SORT_NAME] = {"name", 0, 0},
    [SORT_LOSS] = {"loss", offsetof(struct run_info, final_loss), 1},
    [SORT_BEST] = {"best val", offsetof(struct run_info, best_val_loss), 1},
    [SORT_SPEED] = {"tok/s", offsetof(struct run_info, tokens_per_sec), -1},
};

const char *sort_name(enum sort sort)
{
    return sorts[sort].name;
}

void runs_list_init(struct runs_list *list)
{
    memset(list, 0, sizeof *list);
    arena_init(&list->arena, 65536);
}

void runs_list_release(struct runs_list *list)
{
    arena_release(&list->arena);
}

static bool word_in(const struct run_info *run, const char *word)
{
    return strcasestr(run->name, word) || strcasestr(run->id, word) || strcasestr(run->device, word) ||
           strcasestr(label_status(run->status).word, word) || strcasestr(run_status_name(run->status), word);
}

static bool passes(const struct runs_list *list, const struct run_info *run)
{
    char words[INPUT_MAX], *rest = words;
    memcpy(words, list->filter.text, sizeof words);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (*word && !word_in(run, word)) return false;
    return true;
}

static double sorted_number(const struct run_info *run, enum sort sort)
{
    double number;
    memcpy(&number, (const char *)run + sorts[sort].number, sizeof number);
    return number;
}

/* Absent numbers come last, runs that are alike in the order of the list. */
static int compare_shown(const void *left, const void *right, void *opaque)
{
    const struct runs_list *list = opaque;
    size_t i = *(const size_t *)left, k = *(const size_t *)right;
    const struct run_info *a = &list->runs[i], *b = &list->runs[k];
    int order = 0;
    if (list->sort == SORT_STATUS) order = (int)a->status - (int)b->status;
    if (list->sort == SORT_NAME) order = strcmp(a->name, b->name);
    if (sorts[list->sort].sign) {
        double x = sorted_number(a, list->sort), y = sorted_number(b, list->sort);
        order = isnan(x) || isnan(y) ? isnan(x) - isnan(y) : sorts[list->sort].sign * ((x > y) - (x < y));
    }
    if (order == 0) order = (i > k) - (i < k);
    return list->reverse ? -order : order;
}

/* Row of a run among those shown; SIZE_MAX: it is not. */
static size_t row_of(const struct runs_list *list, const char *run_id)
{
    for (size_t i = 0; i < list->shown_count; i++)
        if (strcmp(list->runs[list->shown[i]].id, run_id) == 0) return i;
    return SIZE_MAX;
}

size_t runs_list_row(const struct runs_list *list)
{
    size_t row = row_of(list, list->selected);
    return row == SIZE_MAX ? 0 : row;
}

void runs_list_select(struct runs_list *list, size_t row)
{
    if (row >= list->shown_count) row = list->shown_count ? list->shown_count - 1 : 0;
    if (list->shown_count)
        memcpy(list->selected, list->runs[list->shown[row]].id, sizeof list->selected);
    else
        list->selected[0] = '\0';
}

/* A selection that is not shown any more goes to `row`. */
static void arrange(struct runs_list *list, size_t row)
{
    list->shown_count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (passes(list, &list->runs[i])) list->shown[list->shown_count++] = i;
    qsort_r(list->shown, list->shown_count, sizeof *list->shown, compare_shown, list);
    if (row_of(list, list->selected) == SIZE_MAX) runs_list_select(list, row);
}

void runs_list_arrange(struct runs_list *list)
{
    arrange(list, runs_list_row(list));
}

void runs_list_select_run(struct runs_list *list, const char *run_id)
{
    bool there = false;
    for (size_t i = 0; i < list->count; i++) there = there || strcmp(list->runs[i].id, run_id) == 0;
    if (!there) return;
    snprintf(list->selected, sizeof list->selected, "%s", run_id);
    if (row_of(list, run_id) != SIZE_MAX) return;
    input_set(&list->filter, "");
    runs_list_arrange(list);
}

const struct run_info *runs_list_at(const struct runs_list *list, size_t row)
{
    return &list->runs[list->shown[row]];
}

const struct run_info *runs_list_selected(const struct runs_list *list)
{
    return list->shown_count ? &list->runs[list->shown[runs_list_row(list)]] : NULL;
}

const char *runs_list_tag_at(const struct runs_list *list, size_t row)
{
    return list->tags[list->shown[row]];
}

/* --- telling runs of one name apart --- */

enum tag_level { TAG_SHORT, TAG_LONG, TAG_ID };

static void write_tag(const struct run_info *run, double now, enum tag_level level, char tag[RUN_TAG_MAX])
{
    static const char *const todays[] = {"%H:%M", "%H:%M:%S"}, *const older[] = {"%d %b", "%d %b %H:%M"};
    enum { STAMP = 15 }; /* YYYYMMDD-HHMMSS */
    time_t created = (time_t)run->created_at, today = (time_t)now;
    struct tm start, day;
    if (level != TAG_ID && localtime_r(&created, &start) && localtime_r(&today, &day)) {
        bool same_day = start.tm_year == day.tm_year && start.tm_yday == day.tm_yday;
        if (strftime(tag, RUN_TAG_MAX, (same_day ? todays : older)[level], &start)) return;
    }
    size_t n = strlen(run->name);
    bool ours = strlen(run->id) > STAMP + n && strncmp(run->id + STAMP + 1, run->name, n) == 0;
    if (ours)
        snprintf(tag, RUN_TAG_MAX, "%.*s%s", STAMP, run->id, run->id + STAMP + 1 + n);
    else
        snprintf(tag, RUN_TAG_MAX, "%s", run->id);
}

static int compare_names(const void *a, const void *b, void *opaque)
{
    const struct runs_list *list = opaque;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    int order = strcmp(list->runs[i].name, list->runs[k].name);
    return order ? order : (i > k) - (i < k);
}

/* The shortest tag by which a run differs from the one that started before it and the one after it, as far as
 * they have its name. */
static void tag_run(struct runs_list *list, size_t at, double now)
{
    const struct run_info *run = &list->runs[list->by_name[at]];
    char *tag = list->tags[list->by_name[at]], other[RUN_TAG_MAX];
    enum tag_level level = TAG_SHORT;
    tag[0] = '\0';
    for (size_t beside = at ? at - 1 : at + 1; beside <= at + 1 && beside < list->count; beside += 2) {
        const struct run_info *neighbour = &list->runs[list->by_name[beside]];
        if (strcmp(neighbour->name, run->name) != 0) continue;
        for (;; level++) {
            write_tag(run, now, level, tag);
            write_tag(neighbour, now, level, other);
            if (level == TAG_ID || strcmp(tag, other) != 0) break;
        }
    }
    if ((int)strlen(tag) > list->tag_width) list->tag_width = (int)strlen(tag);
}

void runs_list_tag(struct runs_list *list, double now)
{
    for (size_t i = 0; i < list->count; i++) list->by_name[i] = i;
    qsort_r(list->by_name, list->count, sizeof *list->by_name, compare_names, list);
    list->tag_width = 0;
    for (size_t i = 0; i < list->count; i++) tag_run(list, i, now);
}

enum status runs_list_read(struct runs_list *list, struct store *store, double now, struct err *err)
{
    struct runs_list next = *list; /* the old rows stay until the new ones are there */
    arena_init(&next.arena, 65536);
    if (run_list(store, &next.arena, &next.runs, &next.count, err)) {
        arena_release(&next.arena);
        return err->status;
    }
    next.shown = arena_alloc_array(&next.arena, next.count + 1, sizeof *next.shown);
    next.tags = arena_alloc_array(&next.arena, next.count + 1, sizeof *next.tags);
    next.by_name = arena_alloc_array(&next.arena, next.count + 1, sizeof *next.by_name);
    if (!next.shown || !next.tags || !next.by_name) {
        arena_release(&next.arena);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a list of %zu runs", next.count);
    }
    size_t row = runs_list_row(list);
    arena_release(&list->arena);
    *list = next;
    runs_list_tag(list, now);
    arrange(list, row);
    return STATUS_OK;
}
