/* See recorded_run.h. */
#include "tui/session/recorded_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "core/model/trainable.h"
#include "runs/annotation.h"
#include "runs/recovery.h"

/* Fills all but config_text; the configuration is not finished, and has defaults if unreadable. The caller
 * closes *store. */
static enum status read_run(const char *word, struct store **store, struct recorded_run *out, struct err *err)
{
    char folder[PATH_MAX - 16], *stored = NULL;
    *out = (struct recorded_run){0};
    config_init(&out->config);
    enum status status = store_open(NULL, STORE_READ, store, err);
    if (!status) status = run_find(*store, word, &out->info, err);
    if (status) return status;
    run_folder(*store, out->info.id, folder, sizeof folder);
    snprintf(out->checkpoints, sizeof out->checkpoints, "%s/checkpoints", folder);
    status = run_ranks(*store, out->info.id, &out->ranks, err);
    if (!status) status = run_config(*store, out->info.id, &stored, err);
    if (!status) status = config_read_effective(&out->config, stored, out->info.id, err);
    if (status && run_is_imported(&out->info))
        status =
            err_set(err, STATUS_NOT_FOUND,
                    "run %s: was imported with the configuration of another program, and has no checkpoint "
                    "to continue from",
                    out->info.id);
    if (status) config_init(&out->config); /* discard the partial result */
    free(stored);
    return status;
}

/* The folder of a run in place of its name: what the database lacks of it is stored, and *word becomes its
 * id, in `id`. */
static enum status adopt_folder(const char **word, char id[RUN_ID_MAX], struct err *err)
{
    char runs[PATH_MAX], here[PATH_MAX], folder[PATH_MAX];
    struct store *store = NULL;
    struct repair done;
    enum status status = file_in_home("runs", runs, sizeof runs, err);
    if (status || !strchr(*word, '/') || !file_is_folder(*word)) return status;
    if (!realpath(*word, folder) || !realpath(runs, here)) *here = '\0';
    char *name = *here ? strrchr(folder, '/') : NULL;
    if (name) *name++ = '\0';
    if (!name || strcmp(folder, here) != 0 || strlen(name) >= RUN_ID_MAX)
        return err_set(err, STATUS_USAGE, "%.200s: is not the folder of a run below %.200s (move it there)",
                       *word, runs);
    snprintf(id, RUN_ID_MAX, "%s", name);
    *word = id;
    status = store_open(NULL, STORE_WRITE, &store, err);
    if (!status && (status = recovery_repair(store, id, &done, err)) == STATUS_BUSY)
        status = STATUS_OK; /* a run that trains: the caller says so */
    else if (!status && done.cut)
        fprintf(stderr, "anneal: warning: run %s: %s\n", CLEAN_LINE(id), done.err.text);
    store_close(store);
    return status;
}

enum status recorded_run_read(const char *word, struct recorded_run *out, struct err *err)
{
    struct store *store = NULL;
    char id[RUN_ID_MAX];
    *out = (struct recorded_run){.config_text = NULL};
    enum status status = adopt_folder(&word, id, err);
    if (!status) status = read_run(word, &store, out, err);
    store_close(store);
    if (!status) status = config_finish(&out->config, err);
    if (!status && !(out->config_text = config_text(&out->config)))
        status = err_no_memory(err, "the configuration's text");
    return status;
}

void recorded_run_release(struct recorded_run *run)
{
    free(run->config_text);
    *run = (struct recorded_run){0};
}

void recorded_run_find_tokenizer(const struct recorded_run *run, struct config *config)
{
    char folder[PATH_MAX], path[PATH_MAX + 32];
    const char *named = config->data.tokenizer;
    if (strcmp(named, run->config.data.tokenizer) != 0 || !strchr(named, '/') || file_exists(named)) return;
    if (checkpoint_find(run->checkpoints, -1, folder, sizeof folder, NULL)) return;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (file_exists(path) && strlen(path) < sizeof config->data.tokenizer)
        strcpy(config->data.tokenizer, path);
}

enum status recorded_run_check(const struct recorded_run *run, const struct config *new, const char *how,
                               struct err *err)
{
    char before[CONFIG_TEXT_MAX], after[CONFIG_TEXT_MAX], checkpoint[PATH_MAX];
    struct config same = *new;
    if (run->config.train.schedule == SCHEDULE_RISING && run_has_tag(&run->info, TAG_RATES) &&
        checkpoint_find(run->checkpoints, -1, checkpoint, sizeof checkpoint, NULL) == STATUS_NOT_FOUND)
        return err_set(err, STATUS_USAGE,
                       "run %s: was a search for a learning rate, which keeps no weights, so it cannot be %s "
                       "(search again: %s lr-find)",
                       run->info.id, how, TEXT_PROGRAM);
    if (run_is_partial(&run->info))
        return err_set(err, STATUS_USAGE, "run %s: cannot be %s: it is part of an import that was killed, %s",
                       run->info.id, how, run->info.message);
    if (new->lora.rank &&*new->model.from) { /* adapters tell by a hash whether it is still their base */
        strcpy(same.model.from, run->config.model.from);
        snprintf(after, sizeof after, "%.400s/config.json", new->model.from);
        if (!file_exists(after))
            return err_set(err, STATUS_NOT_FOUND,
                           "run %s: the base of its adapters, %.200s, is not a model's folder (if it was "
                           "moved: --model.from=FOLDER)",
                           run->info.id, new->model.from);
    }
    const char *key = config_changed(&run->config, &same);
    if (!key) return STATUS_OK;
    config_get(&run->config, key, before, sizeof before);
    config_get(new, key, after, sizeof after);
    return err_set(err, STATUS_USAGE, "%s = %.80s: the run was trained with %.80s, which a %s run must keep",
                   key, after, *before ? before : "an empty one", how);
}

/* ---- damaged checkpoints ---- */

bool recorded_run_passed_over(const char *checkpoints, const char *found, const char *doing, char *buf,
                              size_t size)
{
    int64_t newest = checkpoint_passed_over(checkpoints, found);
    *buf = '\0';
    if (newest < 0) return false;
    snprintf(buf, size,
             "checkpoints/step-%" PRId64 ": the newest checkpoint is damaged, %s from step-%" PRId64, newest,
             doing, checkpoint_step(found));
    return true;
}

enum status recorded_run_refuse(const char *checkpoints, const char *run, struct err *err)
{
    char whole[PATH_MAX];
    struct err why = *err;
    if (why.status == STATUS_IO && why.system == EACCES)
        return err_set(err, why.status, "%.400s (change its permissions)", why.text);
    if (!checkpoint_find(checkpoints, -1, whole, sizeof whole, NULL))
        return err_set(err, why.status, "%.360s (the newest that is whole: --step %" PRId64 ")", why.text,
                       checkpoint_step(whole));
    return err_set(err, why.status,
                   "%.360s (run %s has no checkpoint that is whole: train it again, `%s show %s` prints "
                   "its configuration)",
                   why.text, run, TEXT_PROGRAM, run);
}

enum status recorded_run_checkpoint(const struct recorded_run *run, int64_t step, const char *doing,
                                    char *folder, size_t size, struct checkpoint_hold *hold,
                                    char *passed_over, size_t passed_size, struct err *err)
{
    char there[200];
    *passed_over = '\0';
    enum status status = checkpoint_find_held(run->checkpoints, step, folder, size, hold, err);
    if (!status && step < 0)
        recorded_run_passed_over(run->checkpoints, folder, doing, passed_over, passed_size);
    if (!status) return STATUS_OK;
    if (status != STATUS_NOT_FOUND || file_is_folder(folder))
        return recorded_run_refuse(run->checkpoints, run->info.id, err);
    checkpoint_list(run->checkpoints, there, sizeof there);
    if (step < 0 || strcmp(there, "none") == 0)
        return err_set(err, status, "run %s: there is no checkpoint below %s", run->info.id,
                       run->checkpoints);
    return err_set(err, status,
                   "run %s: there is no checkpoint of step %" PRId64
                   ", or it has been removed: the newest %" PRId64
                   " and the best are kept (checkpoint.keep; there are: %s)",
                   run->info.id, step, run->config.checkpoint.keep, there);
}

/* ---- RUN|FOLDER ---- */

/* Finds the newest step of a checkpoint that was saved as the best and exists. */
static enum status find_best_step(struct store *store, const struct recorded_run *run,
                                  const struct model_choice *c, int64_t *step, struct err *err)
{
    struct arena arena = {0};
    char folder[PATH_MAX + 32];
    struct checkpoint_record *best = NULL;
    size_t count = 0, i = 0;
    enum status status = run_best_checkpoints(store, run->info.id, &arena, &best, &count, err);
    for (; !status && i < count; i++) {
        snprintf(folder, sizeof folder, "%s/step-%" PRId64, run->checkpoints, best[i].step);
        if (file_is_folder(folder)) break;
    }
    if (!status && i == count)
        status = err_set(
            err, STATUS_NOT_FOUND, "run %s: %s (without --best the newest checkpoint is used)", run->info.id,
            run->info.best_step == 0
                ? "the best evaluation was the one before the first step, whose weights are not kept"
                : "there is no checkpoint of a best step, or it has been removed");
    if (!status) *step = best[i].step;
    if (!status && i > 0)
        fprintf(stderr,
                "anneal: warning: run %s: the checkpoint of its best step %" PRId64
                " has been removed, %s from step-%" PRId64 "\n",
                CLEAN_LINE(run->info.id), best[0].step, c->doing, best[i].step);
    arena_release(&arena);
    return status;
}

/* Finds the folder of the requested checkpoint. */
static enum status find_checkpoint(struct store *store, const struct recorded_run *run,
                                   struct model_choice *c, char *folder, size_t size, struct err *err)
{
    char passed_over[160] = "";
    int64_t step = c->step;
    enum status status = c->best ? find_best_step(store, run, c, &step, err) : STATUS_OK;
    if (!status)
        status = recorded_run_checkpoint(run, step, c->doing, folder, size, &c->hold, passed_over,
                                         sizeof passed_over, err);
    if (!status && *passed_over)
        fprintf(stderr, "anneal: warning: run %s: %s\n", CLEAN_LINE(run->info.id), passed_over);
    return status;
}

/* Refuses --best and --step without a run. */
static enum status check_alone(const struct model_choice *c, const char *what, struct err *err)
{
    if (!c->best && c->step < 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s is %s, --%s is for runs", c->source, what,
                   c->best ? "best" : "step");
}

bool recorded_run_of(const char *folder, char id[RUN_ID_MAX])
{
    char runs[PATH_MAX], whole[PATH_MAX], found[PATH_MAX];
    if (file_in_home("runs", runs, sizeof runs, NULL)) return false;
    if (!realpath(runs, whole) || !realpath(folder, found)) return false;
    size_t length = strlen(whole);
    if (strncmp(found, whole, length) != 0 || found[length] != '/') return false;
    const char *name = found + length + 1;
    size_t n = strcspn(name, "/");
    if (n == 0 || n >= RUN_ID_MAX || strncmp(name + n, "/checkpoints/", 13) != 0) return false;
    snprintf(id, RUN_ID_MAX, "%.*s", (int)n, name);
    return true;
}

enum status model_choice_find(struct model_choice *c, char *folder, size_t size,
                              enum allocator_kind *allocator, struct err *err)
{
    struct store *store = NULL;
    struct recorded_run run = {0};
    enum status status;
    c->hold = (struct checkpoint_hold){0};
    config_init(&run.config);
    if (c->best && c->step >= 0) return err_set(err, STATUS_USAGE, "give --best or --step, not both");
    *folder = '\0';
    if (file_exists_in(c->source, "config.json") || adapter_file_exists(c->source)) {
        status = check_alone(c, "a checkpoint folder", err);
        if (!status) status = file_format_path(folder, size, err, "%s", c->source);
    } else {
        status = read_run(c->source, &store, &run, err);
        if (*run.checkpoints)
            status = find_checkpoint(store, &run, c, folder, size, err);
        else if (status == STATUS_NOT_FOUND && imported_model_find(c->source, folder, size))
            status = check_alone(c, "an imported model", err);
        else if (status == STATUS_NOT_FOUND && file_is_folder(c->source))
            err_set(err, status, "%s: there is no run of this name, and the folder holds no config.json",
                    c->source);
        else if (status == STATUS_NOT_FOUND && file_exists(c->source))
            err_set(err, status, "%s: is neither a run nor the folder of a model", c->source);
        else if (status == STATUS_NOT_FOUND && strchr(c->source, '/'))
            err_set(err, status, "%s: there is no such folder", c->source);
        else if (status == STATUS_NOT_FOUND && err && strcmp(c->source, "latest") != 0)
            text_add(err->text, sizeof err->text, ", ",
                     "and no imported model of this name (`%s model list` lists those)", TEXT_PROGRAM);
    }
    if (allocator) *allocator = run.config.memory.allocator;
    store_close(store);
    return status;
}

/* Replaces the name of a run or an imported model by its folder. */
static enum status find_named(char *name, const char *key, struct err *err)
{
    char folder[CONFIG_TEXT_MAX];
    struct model_choice choice = {.doing = "starting", .source = name, .step = -1};
    if (!*name || strchr(name, '/')) return STATUS_OK;
    enum status status = model_choice_find(&choice, folder, sizeof folder, NULL, err);
    checkpoint_hold_release(&choice.hold);
    if (status) return err_prefix(err, "%s", key);
    memcpy(name, folder, sizeof folder);
    return STATUS_OK;
}

enum status model_choice_of_config(struct config *config, struct err *err)
{
    enum status status = find_named(config->model.from, "model.from", err);
    if (!status) status = find_named(config->lora.from, "lora.from", err);
    return status ? status : trainable_follow_adapters(config, err);
}
