/* See model_folder.h. */
#include "tui/command/model_folder.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/checkpoint.h"
#include "runs/run.h"
#include "tui/command/clean.h"

/* Whether a word on the command line is the folder of a checkpoint, not just a folder named like a run. */
static bool is_model_folder(const char *word)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/config.json", word) < (int)sizeof path && file_exists(path);
}

/* The folder of the checkpoint of `run` that is asked for. */
static enum status find_checkpoint(const char *checkpoints, const struct run_info *run,
                                   const struct model_choice *c, char *folder, size_t size, struct err *err)
{
    char newest[PATH_MAX];
    int64_t step = c->best ? run->best_step : c->step;
    if (c->best && step < 0)
        return err_set(err, STATUS_NOT_FOUND,
                       "run %s: has no best step, it was never evaluated (leave --best out for the newest "
                       "checkpoint)",
                       run->id);
    enum status status = checkpoint_find(checkpoints, step, folder, size, err);
    if (status == STATUS_NOT_FOUND && !file_is_folder(folder)) {
        return step < 0
                   ? err_set(err, status, "run %s: there is no checkpoint below %s", run->id, checkpoints)
                   : err_set(err, status,
                             "run %s: the checkpoint of its %sstep %" PRId64
                             " is not there, or no longer (leave %s out for the newest one)",
                             run->id, c->best ? "best " : "", step, c->best ? "--best" : "--step");
    }
    if (!status && step < 0 && checkpoint_passed_over(checkpoints, folder, newest, sizeof newest)) {
        char shown[PATH_MAX];
        clean_line(shown, sizeof shown, newest);
        fprintf(stderr, "anneal: warning: %s: the newest checkpoint is damaged, %s from %s\n", shown,
                c->doing, strrchr(folder, '/') + 1);
    }
    return status;
}

enum status model_choice_find(const struct model_choice *c, char *folder, size_t size, struct err *err)
{
    char path[PATH_MAX], run_path[PATH_MAX - 16];
    struct store *store = NULL;
    struct run_info run;
    if (is_model_folder(c->source)) {
        if (c->best || c->step >= 0)
            return err_set(err, STATUS_USAGE, "%s: %s is a checkpoint folder, --%s is for runs", c->command,
                           c->source, c->best ? "best" : "step");
        return file_format_path(folder, size, err, "%s", c->source);
    }
    *folder = '\0';
    enum status status = file_anneal_home(path, sizeof path, err);
    if (!status) status = store_open(path, &store, err);
    if (!status) status = run_find(store, c->source, &run, err);
    if (status == STATUS_NOT_FOUND && file_is_folder(c->source))
        err_set(err, status, "%s: there is no run of this name, and the folder holds no config.json",
                c->source);
    if (!status) {
        run_folder(store, run.id, run_path, sizeof run_path);
        snprintf(path, sizeof path, "%s/checkpoints", run_path);
        status = find_checkpoint(path, &run, c, folder, size, err);
    }
    store_close(store);
    return status;
}
