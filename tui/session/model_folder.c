/* See model_folder.h. */
#include "tui/session/model_folder.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/config.h"
#include "core/model/imported_model.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/session/checkpoint_choice.h"

/* Whether a word on the command line is the folder of a checkpoint, not just a folder named like a run. */
static bool is_model_folder(const char *word)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/config.json", word) < (int)sizeof path && file_exists(path);
}

/* The newest checkpoint that was written as the best and is there. */
static enum status find_best(struct store *store, const char *checkpoints, const struct run_info *run,
                             const struct model_choice *c, char *folder, size_t size, struct err *err)
{
    struct arena arena;
    int64_t *steps = NULL;
    size_t count = 0, i = 0;
    arena_init(&arena, 0);
    enum status status = series_best_steps(store, run->id, SIZE_MAX, &arena, &steps, &count, err);
    for (; !status && i < count; i++) {
        status = file_format_path(folder, size, err, "%s/step-%" PRId64, checkpoints, steps[i]);
        if (status || file_is_folder(folder)) break;
    }
    if (!status && i < count) {
        status = checkpoint_find(checkpoints, steps[i], folder, size, err);
        if (status) checkpoint_choice_refuse(checkpoints, run->id, err);
        if (!status && i > 0)
            fprintf(stderr,
                    "anneal: warning: run %s: the checkpoint of its best step %" PRId64
                    " is no longer there, %s from step-%" PRId64 "\n",
                    run->id, steps[0], c->doing, steps[i]);
    } else if (!status && count) {
        status = err_set(err, STATUS_NOT_FOUND,
                         "run %s: the checkpoint of its best step %" PRId64
                         " is not there, or no longer (leave --best out for the newest one)",
                         run->id, steps[0]);
    } else if (!status) {
        status =
            err_set(err, STATUS_NOT_FOUND,
                    "run %s: has no best step, %s (leave --best out for the newest checkpoint)", run->id,
                    run->best_step < 0 ? "it was never evaluated"
                    : *run->parent_id  ? "no evaluation was better than those of the run it was forked from"
                                       : "no checkpoint of it was written");
    }
    arena_release(&arena);
    return status;
}

/* The folder of the checkpoint of `run` that is asked for. */
static enum status find_checkpoint(struct store *store, const char *checkpoints, const struct run_info *run,
                                   const struct model_choice *c, char *folder, size_t size, struct err *err)
{
    char passed_over[160];
    if (c->best) return find_best(store, checkpoints, run, c, folder, size, err);
    enum status status = checkpoint_find(checkpoints, c->step, folder, size, err);
    if (status == STATUS_NOT_FOUND && !file_is_folder(folder)) {
        return c->step < 0
                   ? err_set(err, status, "run %s: there is no checkpoint below %s", run->id, checkpoints)
                   : err_set(err, status,
                             "run %s: the checkpoint of its step %" PRId64
                             " is not there, or no longer (leave --step out for the newest one)",
                             run->id, c->step);
    }
    if (status) return checkpoint_choice_refuse(checkpoints, run->id, err);
    if (c->step < 0 &&
        checkpoint_choice_passed_over(checkpoints, folder, c->doing, passed_over, sizeof passed_over))
        fprintf(stderr, "anneal: warning: run %s: %s\n", run->id, passed_over);
    return STATUS_OK;
}

/* Only a run has checkpoints to choose among. */
static enum status check_alone(const struct model_choice *c, const char *what, struct err *err)
{
    if (!c->best && c->step < 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s is %s, --%s is for runs", c->source, what,
                   c->best ? "best" : "step");
}

/* `run` NULL: the key's default. */
static enum allocator_kind find_allocator(struct store *store, const char *run)
{
    struct config config;
    char *stored = NULL;
    config_init(&config);
    if (run && !run_config(store, run, &stored, NULL) && config_read_effective(&config, stored, run, NULL))
        config_init(&config); /* half of it was read */
    free(stored);
    return config.memory.allocator;
}

enum status model_choice_find(const struct model_choice *c, char *folder, size_t size,
                              enum allocator_kind *allocator, struct err *err)
{
    char path[PATH_MAX], run_path[PATH_MAX - 16];
    struct store *store = NULL;
    struct run_info run;
    if (c->best && c->step >= 0) return err_set(err, STATUS_USAGE, "--best or --step, not both");
    if (allocator) *allocator = find_allocator(NULL, NULL);
    if (is_model_folder(c->source)) {
        enum status status = check_alone(c, "a checkpoint folder", err);
        return status ? status : file_format_path(folder, size, err, "%s", c->source);
    }
    *folder = '\0';
    enum status status = file_anneal_home(path, sizeof path, err);
    if (!status) status = store_open_to_read(path, &store, err);
    if (!status) status = run_find(store, c->source, &run, err);
    if (status == STATUS_NOT_FOUND && imported_model_find(c->source, folder, size)) {
        store_close(store);
        return check_alone(c, "an imported model", err);
    }
    if (status == STATUS_NOT_FOUND && file_is_folder(c->source))
        err_set(err, status, "%s: there is no run of this name, and the folder holds no config.json",
                c->source);
    if (!status) {
        run_folder(store, run.id, run_path, sizeof run_path);
        snprintf(path, sizeof path, "%s/checkpoints", run_path);
        status = find_checkpoint(store, path, &run, c, folder, size, err);
        if (allocator) *allocator = find_allocator(store, run.id);
    }
    store_close(store);
    return status;
}
