/* See runs_list.h. */
#include "tui/view/runs_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Numbers that are not there come last. */
static int by_number(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
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
        order = by_number(left->final_loss, right->final_loss);
        break;
    case SORT_BEST:
        order = by_number(left->best_val_loss, right->best_val_loss);
        break;
    case SORT_SPEED:
        order = by_number(right->tokens_per_sec, left->tokens_per_sec);
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

size_t runs_list_row(const struct runs_list *list)
{
    for (size_t i = 0; i < list->shown_count; i++)
        if (strcmp(list->runs[list->shown[i]].id, list->selected) == 0) return i;
    return 0;
}

void runs_list_select(struct runs_list *list, size_t row)
{
    if (row >= list->shown_count) row = list->shown_count ? list->shown_count - 1 : 0;
    if (list->shown_count)
        memcpy(list->selected, list->runs[list->shown[row]].id, sizeof list->selected);
    else
        list->selected[0] = '\0';
}

void runs_list_arrange(struct runs_list *list)
{
    size_t row = runs_list_row(list);
    list->shown_count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (passes(list, &list->runs[i])) list->shown[list->shown_count++] = i;
    qsort_r(list->shown, list->shown_count, sizeof *list->shown, compare_shown, list);
    size_t now = runs_list_row(list);
    bool there = list->shown_count && strcmp(list->runs[list->shown[now]].id, list->selected) == 0;
    if (!there) runs_list_select(list, row);
}

const struct run_info *runs_list_at(const struct runs_list *list, size_t row)
{
    return &list->runs[list->shown[row]];
}

const struct run_info *runs_list_selected(const struct runs_list *list)
{
    return list->shown_count ? &list->runs[list->shown[runs_list_row(list)]] : NULL;
}

enum status runs_list_read(struct runs_list *list, struct store *store, struct err *err)
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
    if (!shown) {
        arena_release(&arena);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a list of %zu runs", count);
    }
    arena_release(&list->arena);
    list->arena = arena;
    list->runs = runs;
    list->count = count;
    list->shown = shown;
    list->shown_count = 0;
    runs_list_arrange(list);
    return STATUS_OK;
}
