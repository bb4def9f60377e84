/* See runs_list.h. */
#include "tui/view/runs_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/view/labels.h"

const char *sort_name(enum sort sort)
{
    static const char *const names[SORT_COUNT] = {"newest first", "status",   "name",
                                                  "loss",         "best val", "tok/s"};
    return names[sort];
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

/* The smaller number first (`sign` 1) or the larger one (-1); absent numbers come last either way. */
static int by_number(double a, double b, int sign)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return sign * ((a > b) - (a < b));
}

static int compare(const struct runs_list *list, size_t a, size_t b)
{
    const struct run_info *left = &list->runs[a], *right = &list->runs[b];
    int order = 0;
    switch (list->sort) {
    case SORT_STATUS:
        order = (int)left->status - (int)right->status;
        break;
    case SORT_NAME:
        order = strcmp(left->name, right->name);
        break;
    case SORT_LOSS:
        order = by_number(left->final_loss, right->final_loss, 1);
        break;
    case SORT_BEST:
        order = by_number(left->best_val_loss, right->best_val_loss, 1);
        break;
    case SORT_SPEED:
        order = by_number(left->tokens_per_sec, right->tokens_per_sec, -1);
        break;
    default:
        break;
    }
    if (order == 0) order = (a > b) - (a < b);
    return list->reverse ? -order : order;
}

static int compare_shown(const void *a, const void *b, void *list)
{
    return compare(list, *(const size_t *)a, *(const size_t *)b);
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
    return strcmp(list->runs[*(const size_t *)a].name, list->runs[*(const size_t *)b].name);
}

static int compare_tags(const void *a, const void *b, void *opaque)
{
    const struct runs_list *list = opaque;
    return strcmp(list->tags[*(const size_t *)a], list->tags[*(const size_t *)b]);
}

/* Tags runs of one name; equal tags of one level are written at the next level. */
static void tag_group(struct runs_list *list, size_t *group, size_t n, double now, enum tag_level level)
{
    for (size_t i = 0; i < n; i++) write_tag(&list->runs[group[i]], now, level, list->tags[group[i]]);
    if (level == TAG_ID) return;
    qsort_r(group, n, sizeof *group, compare_tags, list);
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start + 1; end < n && compare_tags(&group[start], &group[end], list) == 0;) end++;
        if (end - start > 1) tag_group(list, group + start, end - start, now, level + 1);
    }
}

void runs_list_tag(struct runs_list *list, double now)
{
    size_t *by_name = list->by_name;
    for (size_t i = 0; i < list->count; i++) {
        by_name[i] = i;
        list->tags[i][0] = '\0';
    }
    qsort_r(by_name, list->count, sizeof *by_name, compare_names, list);
    for (size_t start = 0, end; start < list->count; start = end) {
        for (end = start + 1; end < list->count && compare_names(&by_name[start], &by_name[end], list) == 0;)
            end++;
        if (end - start > 1) tag_group(list, by_name + start, end - start, now, TAG_SHORT);
    }
    list->tag_width = 0;
    for (size_t i = 0; i < list->count; i++)
        if ((int)strlen(list->tags[i]) > list->tag_width) list->tag_width = (int)strlen(list->tags[i]);
}

enum status runs_list_read(struct runs_list *list, struct store *store, double now, struct err *err)
{
    struct arena arena;
    struct run_info *runs;
    size_t count;
    arena_init(&arena, 65536);
    if (run_list(store, &arena, &runs, &count, err)) {
        arena_release(&arena);
        return err->status;
    }
    size_t *shown = arena_alloc_array(&arena, count + 1, sizeof *shown);
    char(*tags)[RUN_TAG_MAX] = arena_alloc_array(&arena, count + 1, sizeof *tags);
    size_t *by_name = arena_alloc_array(&arena, count + 1, sizeof *by_name);
    if (!shown || !tags || !by_name) {
        arena_release(&arena);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a list of %zu runs", count);
    }
    size_t row = runs_list_row(list);
    arena_release(&list->arena);
    list->arena = arena;
    list->runs = runs;
    list->count = count;
    list->shown = shown;
    list->tags = tags;
    list->by_name = by_name;
    runs_list_tag(list, now);
    arrange(list, row);
    return STATUS_OK;
}
