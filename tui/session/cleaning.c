/* See cleaning.h. */
#include "tui/session/cleaning.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "datasets/preparation.h"
#include "runs/history.h"

/* Another host may be writing a temporary file, whose process this one cannot see: it is a leftover when so
 * many seconds have passed since it was changed. */
enum { STALE_SECONDS = 24 * 3600 };

static enum status add(struct cleaning *c, enum cleaning_kind kind, const char *run, const char *name,
                       const char *why, struct err *err)
{
    char path[PATH_MAX];
    struct stat found;
    struct cleaning_item *item = arena_grow(&c->arena, &c->items, c->count, sizeof *item);
    enum status status = file_format_path(path, sizeof path, err, "%s%s%s/%s", store_home(c->store),
                                          *run ? "/runs/" : "", run, name);
    if (status) return status;
    if (item) *item = (struct cleaning_item){.kind = kind, .why = why};
    if (item) item->run = arena_strdup(&c->arena, run);
    if (item) item->name = arena_strdup(&c->arena, name);
    if (!item || !item->run || !item->name) return err_no_memory(err, "what can be removed");
    if (kind != CLEANING_KEPT) file_tree_bytes(path, &item->bytes);
    if (lstat(path, &found) == 0) item->inode = found.st_ino;
    c->count++;
    return STATUS_OK;
}

enum status cleaning_begin(struct cleaning *c, struct err *err)
{
    return run_references_read(c->store, &c->arena, &c->references, err);
}

void cleaning_release(struct cleaning *c)
{
    arena_release(&c->arena);
}

static bool is_referred_to(const struct cleaning *c, const char *run, int64_t step)
{
    return run_references_find(&c->references, c->store, run, step, 0) < c->references.count;
}

/* ---- the checkpoints of a run ---- */

struct saved {
    int64_t step;
    enum { UNKNOWN, WHOLE, DAMAGED, UNREADABLE } state;
    bool link; /* to the checkpoint of another store: removing it frees nothing */
    bool full, stays;
};

struct run_saves {
    struct cleaning *cleaning;
    char parent[PATH_MAX];
    struct saved *saved; /* (count) newest first */
    size_t count;
};

static enum status look_at(struct run_saves *r, struct saved *saved, struct err *err)
{
    struct cleaning *c = r->cleaning;
    char folder[PATH_MAX + 64];
    struct err why = {0};
    if (saved->state != UNKNOWN) return STATUS_OK;
    snprintf(folder, sizeof folder, "%s/step-%" PRId64, r->parent, saved->step);
    saved->full = checkpoint_is_full(folder);
    if (c->quick) {
        saved->state = checkpoint_looks_damaged(folder) ? DAMAGED : WHOLE;
        return STATUS_OK;
    }
    if (c->meter) c->meter->total += (uint64_t)file_tree_bytes(folder, NULL);
    enum status status = checkpoint_verify(folder, c->meter, &why);
    if (status == STATUS_INTERRUPTED) return err_set(err, status, "%s", "");
    saved->state = !status                                                  ? WHOLE
                   : status == STATUS_CORRUPT || status == STATUS_NOT_FOUND ? DAMAGED
                                                                            : UNREADABLE;
    return STATUS_OK;
}

/* Lets the newest checkpoint stay that is whole and, with `full`, can be resumed. *found: there is one. */
static enum status keep_newest(struct run_saves *r, bool full, bool *found, struct err *err)
{
    enum status status = STATUS_OK;
    *found = false;
    for (size_t i = 0; !status && !*found && i < r->count; i++) {
        status = look_at(r, &r->saved[i], err);
        *found = !status && r->saved[i].state == WHOLE && (!full || r->saved[i].full);
        if (*found) r->saved[i].stays = true;
    }
    return status;
}

static enum status keep_step(struct run_saves *r, int64_t step, bool *found, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < r->count; i++) {
        if (r->saved[i].step != step) continue;
        status = look_at(r, &r->saved[i], err);
        *found = !status && r->saved[i].state == WHOLE;
        if (*found) r->saved[i].stays = true;
    }
    return status;
}

/* Lets the best one stay, or the best before it if that is gone. */
static enum status keep_best(struct run_saves *r, const struct run_info *run, bool *found, struct err *err)
{
    struct arena arena = {0};
    struct checkpoint_record *best = NULL;
    size_t count = 0;
    *found = false;
    enum status status = run_best_checkpoints(r->cleaning->store, run->id, &arena, &best, &count, err);
    for (size_t i = 0; !status && !*found && i < count; i++) status = keep_step(r, best[i].step, found, err);
    if (!status && !*found && run->best_step >= 0) status = keep_step(r, run->best_step, found, err);
    arena_release(&arena);
    return status;
}

/* Chooses what stays; *any: a checkpoint is whole. Without one all stays: what is damaged may be all that is
 * left of a model. */
static enum status choose(struct run_saves *r, const struct run_info *run, bool *any, struct err *err)
{
    bool best, full = false;
    enum status status = keep_best(r, run, &best, err);
    *any = best;
    if (!status && !(best && r->cleaning->all_but_best)) status = keep_newest(r, false, any, err);
    if (!status && !r->cleaning->all_but_best) status = keep_newest(r, true, &full, err);
    return status;
}

/* Lists the folders that are set aside. They are left over only beside a checkpoint that is whole. */
static enum status list_aside(struct run_saves *r, const char *id, struct err *err)
{
    enum status status = STATUS_OK;
    char name[400];
    bool any = false, known = false;
    DIR *entries = opendir(r->parent);
    for (struct dirent *entry; !status && entries && (entry = readdir(entries));) {
        const char *aside = checkpoint_aside(entry->d_name);
        if (!aside) continue;
        if (!known) status = keep_newest(r, false, &any, err);
        known = true;
        snprintf(name, sizeof name, "checkpoints/%s", entry->d_name);
        if (!status)
            status = any ? add(r->cleaning, CLEANING_DAMAGED, id, name, aside, err)
                         : add(r->cleaning, CLEANING_KEPT, id, name,
                               "set aside, but no checkpoint of the run is whole", err);
    }
    if (entries) closedir(entries);
    return status;
}

static enum status list_saves(struct run_saves *r, const struct run_info *run, struct err *err)
{
    struct cleaning *c = r->cleaning;
    char name[64], folder[PATH_MAX + 64];
    bool any = false;
    enum status status = r->count > 1 ? choose(r, run, &any, err) : STATUS_OK;
    for (size_t i = 0; any && !status && i < r->count; i++) {
        struct saved *saved = &r->saved[i];
        snprintf(name, sizeof name, "checkpoints/step-%" PRId64, saved->step);
        snprintf(folder, sizeof folder, "%s/step-%" PRId64, r->parent, saved->step);
        if (saved->stays || saved->link || saved->state == UNREADABLE) continue;
        if (is_referred_to(c, run->id, saved->step))
            status = add(c, CLEANING_KEPT, run->id, name, "a fork or another run refers to it", err);
        else if (saved->state == DAMAGED || checkpoint_looks_damaged(folder))
            status = add(c, CLEANING_DAMAGED, run->id, name, "damaged", err);
        else
            status = add(c, CLEANING_CHECKPOINT, run->id, name,
                         c->all_but_best ? "not the best" : "neither the best nor the newest", err);
    }
    return status;
}

static enum status add_checkpoints(struct cleaning *c, const struct run_info *run, const char *folder,
                                   struct err *err)
{
    struct run_saves r = {.cleaning = c};
    char path[PATH_MAX + 64];
    struct stat found;
    enum status status = file_format_path(r.parent, sizeof r.parent, err, "%s/checkpoints", folder);
    if (status) return status;
    int64_t *steps = checkpoint_steps(r.parent, &r.count);
    r.saved = calloc(r.count + 1, sizeof *r.saved);
    if (!r.saved) status = err_no_memory(err, "the checkpoints of %s", run->id);
    for (size_t i = 0; r.saved && i < r.count; i++) {
        snprintf(path, sizeof path, "%s/step-%" PRId64, r.parent, steps[i]);
        r.saved[i].step = steps[i];
        r.saved[i].link = lstat(path, &found) == 0 && S_ISLNK(found.st_mode);
    }
    if (!status) status = list_saves(&r, run, err);
    if (!status) status = list_aside(&r, run->id, err);
    free(steps);
    free(r.saved);
    return status;
}

/* ---- leftovers ---- */

/* Why a file of a run is left over; NULL: it is not. A process that is killed while it removes a leftover
 * leaves that by another name. */
static const char *leftover_kind(const char *folder, const char *name)
{
    char before[NAME_MAX + 1];
    bool going = text_ends_with(name, FILE_GOING);
    snprintf(before, sizeof before, "%.*s", (int)(strlen(name) - (going ? strlen(FILE_GOING) : 0)), name);
    if (file_is_temporary(before)) return "unfinished: its process was killed";
    if (!*folder && strcmp(name, RUN_CHECKPOINTS_GOING) == 0) return "checkpoints of a run half deleted";
    if (strcmp(folder, "checkpoints/") != 0) return NULL;
    return checkpoint_is_leftover(name) || (going && checkpoint_aside(before)) ? "unfinished or half removed"
                                                                               : NULL;
}

/* Of one folder of a run: "", "checkpoints/", "traces/". */
static enum status add_leftovers(struct cleaning *c, const char *id, const char *home, const char *folder,
                                 struct err *err)
{
    char path[PATH_MAX], name[400];
    enum status status = file_format_path(path, sizeof path, err, "%s/%s", home, folder);
    DIR *entries = status ? NULL : opendir(path);
    for (struct dirent *entry; !status && entries && (entry = readdir(entries));) {
        const char *why = leftover_kind(folder, entry->d_name);
        snprintf(name, sizeof name, "%s%s", folder, entry->d_name);
        if (why) status = add(c, CLEANING_DAMAGED, id, name, why, err);
    }
    if (entries) closedir(entries);
    return status;
}

enum status cleaning_add_run(struct cleaning *c, const struct run_info *run, struct err *err)
{
    static const char *const folders[] = {"", "checkpoints/", "traces/"};
    char folder[PATH_MAX];
    enum status status = STATUS_OK;
    if (strchr(run->id, '/') || *run->id == '.') return STATUS_OK; /* no trainer makes such a folder */
    if (run_is_alive(c->store, run->id)) return add(c, CLEANING_KEPT, run->id, "", "it trains", err);
    if (run_may_train(c->store, run->id))
        return add(c, CLEANING_KEPT, run->id, "", "another host trained it, and may still do so", err);
    run_folder(c->store, run->id, folder, sizeof folder);
    for (int i = 0; !status && i < 3; i++) status = add_leftovers(c, run->id, folder, folders[i], err);
    return status ? status : add_checkpoints(c, run, folder, err);
}

/* ---- outside of runs ---- */

/* Lists what has such a name in a folder of $ANNEAL_HOME, and was last changed before a time. */
static enum status add_each(struct cleaning *c, const char *folder, bool (*is_ours)(const char *name),
                            double before, enum cleaning_kind kind, const char *why, struct err *err)
{
    char path[PATH_MAX], name[400], whole[PATH_MAX + 400];
    struct stat found;
    enum status status = file_format_path(path, sizeof path, err, "%s/%s", store_home(c->store), folder);
    DIR *entries = status ? NULL : opendir(path);
    for (struct dirent *entry; !status && entries && (entry = readdir(entries));) {
        snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        snprintf(whole, sizeof whole, "%s/%s", path, entry->d_name);
        if (is_ours(entry->d_name) && lstat(whole, &found) == 0 && (double)found.st_mtime < before)
            status = add(c, kind, "", name, why, err);
    }
    if (entries) closedir(entries);
    return status;
}

enum status cleaning_add_rest(struct cleaning *c, bool trains, struct err *err)
{
    static const char unfinished[] = "unfinished: its process was killed";
    double stale = clock_wall() - STALE_SECONDS;
    char cache[PATH_MAX];
    enum status status = file_format_path(cache, sizeof cache, err, "%s/data", store_home(c->store));
    if (!status)
        status = add_each(c, "data", corpus_cache_is_entry, INFINITY, trains ? CLEANING_KEPT : CLEANING_CACHE,
                          trains ? "a run trains, which may read it" : "an encoded text", err);
    int lock = status ? -1 : corpus_cache_lock(cache);
    if (lock >= 0) {
        status = add_each(c, "data", corpus_cache_is_unfinished, stale, CLEANING_DAMAGED, unfinished, err);
        close(lock);
    }
    for (int i = 0; !status && i < 2; i++)
        status =
            add_each(c, i ? "sweeps" : "models", file_is_temporary, stale, CLEANING_DAMAGED, unfinished, err);
    return status;
}

/* ---- removing ---- */

/* Outside of runs; a preparation may have begun to write to data/ meanwhile. */
static enum status remove_stale(const char *path, bool cached, struct err *err)
{
    char cache[PATH_MAX];
    if (!cached) return file_remove_tree(path, err);
    snprintf(cache, sizeof cache, "%.*s", (int)(strrchr(path, '/') - path), path);
    int lock = corpus_cache_lock(cache);
    if (lock < 0) return err_set(err, STATUS_BUSY, "%s: a process is writing to this folder by now", cache);
    enum status status = file_remove_tree(path, err);
    close(lock);
    return status;
}

enum status cleaning_remove(struct cleaning *c, const struct cleaning_item *item, struct err *err)
{
    char path[PATH_MAX];
    struct stat found;
    int64_t step = checkpoint_step(item->name);
    bool of_run = *item->run != '\0';
    enum status status = file_format_path(path, sizeof path, err, "%s%s%s/%s", store_home(c->store),
                                          of_run ? "/runs/" : "", item->run, item->name);
    if (!status && (lstat(path, &found) != 0 || found.st_ino != item->inode))
        return err_set(err, STATUS_NOT_FOUND, "%s: is gone by now", path);
    if (!status && of_run && step >= 0) { /* others may have begun meanwhile */
        status = run_references_read(c->store, &c->arena, &c->references, err);
        if (!status && is_referred_to(c, item->run, step))
            status =
                err_set(err, STATUS_BUSY, "run %s: another run refers to %s by now", item->run, item->name);
    }
    if (status) return status;
    if (of_run) return run_remove(c->store, item->run, item->name, err);
    if (item->kind == CLEANING_CACHE) return corpus_cache_remove(path, err);
    return remove_stale(path, strncmp(item->name, "data/", 5) == 0, err);
}
