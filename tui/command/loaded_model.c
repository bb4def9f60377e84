/* See loaded_model.h. */
#include "tui/command/loaded_model.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/checkpoint.h"
#include "core/hugging_face.h"
#include "runs/run.h"
#include "tui/command/clean.h"

/* ---- which ---- */

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
        snprintf(folder, size, "%s", c->source);
        return STATUS_OK;
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

/* ---- opening ---- */

static enum status open_network(struct loaded_model *m, const char *folder, struct loaded_shape shape,
                                struct err *err)
{
    const struct backend *backend = m->choice.backend;
    int longest = m->model.config.max_seq_len;
    struct plan_input input = {.model = &m->model,
                               .B = shape.B,
                               .T = shape.T < longest ? shape.T : longest,
                               .gemm_workspace = backend->gemm_workspace(m->choice.device)};
    enum status status = plan_init(&m->plan, &input, err);
    if (status) return status;
    status = network_open(&m->network, backend, m->choice.device, &m->model, &m->plan, err);
    if (!status) status = checkpoint_load_weights(folder, &m->network, err);
    if (!status) return STATUS_OK;
    network_close(&m->network);
    plan_release(&m->plan);
    return status;
}

enum status loaded_model_describe(struct loaded_model *m, const char *folder, struct err *err)
{
    char path[PATH_MAX + 32];
    struct model_config config;
    *m = (struct loaded_model){0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum status status = hugging_face_read_config(path, &config, err);
    return status ? status : model_init(&m->model, &config, err);
}

enum status loaded_model_load(struct loaded_model *m, const char *folder, const char *device,
                              struct loaded_shape shape, const char *doing, struct err *err)
{
    enum status status = device_choice_open(&m->choice, device, 0, err);
    if (!status) status = open_network(m, folder, shape, err);
    if (status && m->choice.device && device_choice_may_fall_back(&m->choice, err)) {
        struct err why = *err;
        status = device_choice_fall_back(&m->choice, &why, err);
        if (!status) status = open_network(m, folder, shape, err);
    }
    if (!status && m->choice.why[0] != '\0') {
        char shown[sizeof m->choice.why];
        clean_line(shown, sizeof shown, m->choice.why);
        fprintf(stderr, "anneal: warning: %s on the CPU: %s\n", doing, shown);
    }
    return status;
}

void loaded_model_close(struct loaded_model *m)
{
    network_close(&m->network);
    device_choice_close(&m->choice);
    plan_release(&m->plan);
    model_release(&m->model);
}
