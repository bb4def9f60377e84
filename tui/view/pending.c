/* See pending.h. */
#include "tui/view/pending.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "runs/annotation.h"
#include "runs/order.h"

static enum status annotate(struct store *store, const struct change *change,
                            const struct annotation *annotation, struct err *err)
{
    const char *id = change->run_id;
    return runs_annotate(store, &id, 1, annotation, err);
}

static enum status change_tags(struct store *store, const struct change *change, struct err *err)
{
    const char *words[INPUT_MAX];
    char text[INPUT_MAX], *rest = text;
    size_t n = 0;
    memcpy(text, change->text, sizeof text);
    for (char *word; (word = strsep(&rest, " ,")) != NULL;)
        if (*word) words[n++] = word;
    return annotate(store, change, &(struct annotation){.tags = words, .tag_count = n}, err);
}

static enum status make(struct store *store, const struct change *change, int64_t *order_id, struct err *err)
{
    switch (change->kind) {
    case CHANGE_ORDER:
        return order_issue(store, change->run_id, change->verb, change->argument, "workbench", order_id, err);
    case CHANGE_TAGS:
        return change_tags(store, change, err);
    case CHANGE_ALL_TAGS:
        return run_set_tags(store, change->run_id, change->text, err);
    case CHANGE_NOTE:
        return annotate(store, change, &(struct annotation){.note = change->text}, err);
    case CHANGE_NAME:
        return annotate(store, change, &(struct annotation){.name = change->text}, err);
    }
    return STATUS_OK;
}

enum status pending_make(struct pending *pending, struct store *store, const struct change *change,
                         int64_t *order_id, struct err *err)
{
    if (order_id) *order_id = 0;
    enum status status = pending->count ? STATUS_BUSY : make(store, change, order_id, err);
    if (status != STATUS_BUSY) return status;
    if (!list_reserve(&pending->changes, pending->count, 1, &pending->capacity, sizeof *change))
        return err_no_memory(err, "a change that waits");
    pending->changes[pending->count++] = *change;
    return err_set(err, STATUS_BUSY,
                   "another process has locked the database; what you asked for waits until it is free");
}

enum status pending_retry(struct pending *pending, struct store *store, struct err *err)
{
    if (!pending->count) return STATUS_OK;
    enum status status = make(store, &pending->changes[0], NULL, err);
    if (status == STATUS_BUSY) return status;
    memmove(pending->changes, pending->changes + 1, --pending->count * sizeof *pending->changes);
    return status;
}

void pending_release(struct pending *pending)
{
    free(pending->changes);
    *pending = (struct pending){0};
}
