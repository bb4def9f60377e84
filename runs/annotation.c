/* See annotation.h. */
#include "runs/annotation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/database.h"

#define SEPARATORS " \t\n,"

/* ---- tags ---- */

enum status tag_check(const char *tag, struct err *err)
{
    char clean[4 * TAG_MAX];
    clean_line(clean, sizeof clean, tag);
    if (*tag && strlen(tag) < TAG_MAX && strcmp(tag, clean) == 0 && !strpbrk(tag, SEPARATORS "()=!<>~\"'") &&
        !strchr("+-", *tag))
        return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "\"%.60s\" is no tag: a tag is one word of at most %d bytes, without any of ( ) = ! < > ~ "
                   "and quotation marks, and does not begin with + or -",
                   clean, TAG_MAX - 1);
}

static enum status add_tag(struct store *store, const char *id, const char *tag, struct err *err)
{
    enum status status = tag_check(tag, err);
    if (status) return status;
    return store_do(store, err, "insert or ignore into tags(run_id, tag) values(?1, ?2)", "ss", id, tag);
}

static enum status check_size(struct store *store, const char *id, struct err *err)
{
    int64_t bytes = 0;
    enum status status =
        store_number(store, &bytes, 0, err,
                     "select sum(length(cast(tag as blob)) + 1) from tags where run_id = ?1", "s", id);
    if (status || bytes <= RUN_TAGS_MAX) return status;
    return err_set(err, STATUS_USAGE, "run %s: more than %d bytes of tags (remove some: %s tag %s -TAG)", id,
                   RUN_TAGS_MAX - 1, TEXT_PROGRAM, id);
}

/* Adds each of the tags; store NULL: only checks them. */
static enum status each_tag(struct store *store, const char *id, const char *tags, struct err *err)
{
    enum status status = STATUS_OK;
    char *copy = strdup(tags), *rest = copy;
    if (!copy) return err_no_memory(err, "the tags of a run");
    for (char *tag; !status && (tag = strsep(&rest, SEPARATORS)) != NULL;)
        if (*tag) status = store ? add_tag(store, id, tag, err) : tag_check(tag, err);
    free(copy);
    return status;
}

enum status tags_check(const char *tags, struct err *err)
{
    return each_tag(NULL, "", tags, err);
}

enum status run_add_tags(struct store *store, const char *id, const char *tags, struct err *err)
{
    enum status status = each_tag(store, id, tags, err);
    return status ? status : check_size(store, id, err);
}

enum status run_set_tags(struct store *store, const char *id, const char *tags, struct err *err)
{
    enum status status = store_begin(store, err);
    if (!status) status = store_do(store, err, "delete from tags where run_id = ?1", "s", id);
    if (!status) status = run_add_tags(store, id, tags, err);
    return store_end(store, status, err);
}

static enum status change_tags(struct store *store, const char *id, const struct annotation *a,
                               struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < a->tag_count; i++) {
        const char *word = a->tags[i];
        if (*word == '-')
            status =
                store_do(store, err, "delete from tags where run_id = ?1 and tag = ?2", "ss", id, word + 1);
        else
            status = add_tag(store, id, word + (*word == '+'), err);
    }
    return status || !a->tag_count ? status : check_size(store, id, err);
}

/* ---- all of it ---- */

static enum status set_note(struct store *store, const char *id, const char *note, struct err *err)
{
    char clean[RUN_NOTE_MAX];
    clean_line(clean, sizeof clean, note);
    return store_do(store, err, "update runs set note = ?2 where id = ?1", "ss", id, clean);
}

static enum status set_name(struct store *store, const char *id, const char *name, struct err *err)
{
    char clean[RUN_NAME_CLEAN_MAX];
    enum status status = run_name_check(name, err);
    if (status) return status;
    run_name_clean(name, clean, sizeof clean);
    return store_do(store, err, "update runs set name = ?2 where id = ?1", "ss", id, clean);
}

enum status run_exists(struct store *store, const char *id, struct err *err)
{
    int64_t count;
    enum status status =
        store_number(store, &count, 0, err, "select count(*) from runs where id = ?1", "s", id);
    if (status || count) return status;
    return err_set(err, STATUS_NOT_FOUND, "run %s: there is no such run", id);
}

enum status runs_annotate(struct store *store, const char *const *ids, size_t count,
                          const struct annotation *a, struct err *err)
{
    enum status status = store_begin(store, err);
    if (status) return status;
    for (size_t i = 0; !status && i < count; i++) {
        status = run_exists(store, ids[i], err); /* an update of a run that is gone is no error to SQLite */
        if (!status) status = change_tags(store, ids[i], a, err);
        if (!status && a->note) status = set_note(store, ids[i], a->note, err);
        if (!status && a->name) status = set_name(store, ids[i], a->name, err);
    }
    return store_end(store, status, err);
}

const char *run_sweep_tag(const struct run_info *run, size_t *bytes)
{
    const char *at = run->tags;
    while ((at = strstr(at, TAG_SWEEP)) != NULL && at > run->tags && at[-1] != ' ') at++;
    *bytes = at ? strcspn(at, " ") : 0;
    return at;
}

void run_sweep_pass(const struct run_info *run, int64_t *furthest)
{
    bool ended = run->status == RUN_FINISHED || run->status == RUN_EARLY_STOPPED;
    if (ended && run->steps > *furthest) *furthest = run->steps;
}

bool run_sweep_left(const struct run_info *run, int64_t furthest)
{
    return run->status == RUN_STOPPED && run->steps < furthest;
}

bool run_has_tag(const struct run_info *run, const char *tag)
{
    return text_word_index(run->tags, tag, strlen(tag)) >= 0;
}
