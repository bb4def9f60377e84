/* See recorded_run.h. */
#include "tui/session/recorded_run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

enum status recorded_run_read(const char *word, struct recorded_run *out, struct err *err)
{
    struct store *store = NULL;
    char *stored = NULL;
    char home[PATH_MAX], folder[PATH_MAX - 16];
    *out = (struct recorded_run){0};
    enum status status = file_anneal_home(home, sizeof home, err);
    if (!status) status = store_open_to_read(home, &store, err);
    if (!status) status = run_find(store, word, &out->info, err);
    if (!status) status = run_config(store, out->info.id, &stored, err);
    config_init(&out->config);
    if (!status) status = config_read_effective(&out->config, stored, out->info.id, err);
    if (!status) status = config_finish(&out->config, err);
    free(stored);
    if (!status && !(out->config_text = config_text(&out->config)))
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the configuration's text");
    if (!status) {
        run_folder(store, out->info.id, folder, sizeof folder);
        status = file_format_path(out->checkpoints, sizeof out->checkpoints, err, "%s/checkpoints", folder);
    }
    store_close(store);
    return status;
}

void recorded_run_release(struct recorded_run *run)
{
    free(run->config_text);
    *run = (struct recorded_run){0};
}

/* These keys fix the shapes and tokens that a checkpoint depends on. */
enum status recorded_run_check(const struct recorded_run *run, const struct config *new, const char *how,
                               struct err *err)
{
    char before[CONFIG_TEXT_MAX], after[CONFIG_TEXT_MAX];
    const char *key = config_changed(&run->config, new);
    if (!key) return STATUS_OK;
    config_get(&run->config, key, before, sizeof before);
    config_get(new, key, after, sizeof after);
    return err_set(err, STATUS_USAGE, "%s = %.80s: the run was trained with %.80s, a %s run must keep that",
                   key, after, before, how);
}
