/* See eval_tasks.h. */
#include "core/train/eval_tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/text.h"

enum { ADDED = 16 /* tokens that a tokenizer may add at the ends of a text */ };

/* The files that the key names; none if it is empty. Close `out` after success. */
static enum status find_files(const struct config *config, struct inputs *out, struct err *err)
{
    *out = (struct inputs){0};
    if (!*config->eval.tasks) return STATUS_OK;
    if (inputs_open(config->eval.tasks, NULL, NULL, out, err)) return err_prefix(err, "eval.tasks");
    enum status status = inputs_refuse_weights(out, "eval.tasks", err);
    if (!status && out->count <= EVAL_TASKS_MAX) return STATUS_OK;
    if (!status)
        err_set(err, STATUS_USAGE, "eval.tasks: names %zu files, at most %d can be scored", out->count,
                EVAL_TASKS_MAX);
    inputs_close(out);
    return STATUS_USAGE;
}

/* ---- lengths ---- */

/* Raises *most to the bytes of the longest question of a file. */
static enum status measure_bytes(const char *path, size_t *most, struct err *err)
{
    struct question_file file;
    struct question question;
    bool more = true;
    enum status status = question_file_open(path, &file, err);
    if (status) return status;
    while (!(status = question_file_next(&file, &question, &more, err)) && more)
        question_count_bytes(&question, most);
    question_file_close(&file);
    return status;
}

/* Tokens of a cache for texts of so many bytes. */
static int room_for(const struct config *config, size_t bytes)
{
    size_t most = (size_t)config->model.sizes.max_seq_len;
    return (int)(bytes + ADDED < most ? bytes + ADDED : most);
}

enum status eval_tasks_cache_length(const struct config *config, int *length, struct err *err)
{
    struct inputs files;
    size_t bytes = 0;
    enum status status = find_files(config, &files, err);
    if (status || !files.count) return status;
    for (size_t i = 0; !status && i < files.count; i++)
        if ((status = measure_bytes(files.paths[i], &bytes, err))) err_prefix(err, "eval.tasks");
    inputs_close(&files);
    if (!status && room_for(config, bytes) > *length) *length = room_for(config, bytes);
    return status;
}

/* ---- opening ---- */

/* "data/HellaSwag val.jsonl" gives "HellaSwag_val_acc" and "HellaSwag_val_acc_per_byte": names that may also
 * be names of files. */
static void name_measures(const char *path, struct eval_task *task)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    char name[48];
    text_plain_name(base, n, name, sizeof name);
    snprintf(task->accuracy, sizeof task->accuracy, "%s_acc", name);
    snprintf(task->accuracy_per_byte, sizeof task->accuracy_per_byte, "%s_acc_per_byte", name);
}

static enum status open_task(struct eval_tasks *tasks, const char *path, const struct config *config,
                             const struct tokenizer *tokenizer, const struct progress *progress,
                             struct err *err)
{
    const struct model_config *c = &config->model.sizes;
    struct eval_task *task = &tasks->of[tasks->count];
    name_measures(path, task);
    for (int i = 0; i < tasks->count; i++)
        if (strcmp(tasks->of[i].accuracy, task->accuracy) == 0)
            return err_set(err, STATUS_USAGE,
                           "%s: its measure %s is already that of %s (rename one of the files)", path,
                           task->accuracy, tasks->of[i].examination.file.lines.path);
    enum status status =
        examination_open(&task->examination, path, tokenizer, c->vocab_size, c->max_seq_len, progress, err);
    if (status) return status;
    tasks->count++;
    int longest = task->examination.longest < c->max_seq_len ? task->examination.longest : c->max_seq_len,
        room = room_for(config, task->examination.bytes); /* a normalizer may add characters to it */
    if (longest < room) longest = room;
    if (longest > tasks->longest) tasks->longest = longest;
    return question_file_keep(&task->examination.file, err);
}

enum status eval_tasks_open(struct eval_tasks *tasks, const struct config *config,
                            const struct tokenizer *tokenizer, const struct progress *progress,
                            struct err *err)
{
    *tasks = (struct eval_tasks){0};
    enum status status = find_files(config, &tasks->files, err);
    if (status || !tasks->files.count) return status;
    if (!tokenizer)
        status = err_set(err, STATUS_USAGE,
                         "needs a tokenizer, but the token files of data.train name none (remove it)");
    for (size_t i = 0; !status && i < tasks->files.count; i++)
        status = open_task(tasks, tasks->files.paths[i], config, tokenizer, progress, err);
    if (!status) return STATUS_OK;
    eval_tasks_close(tasks);
    return err_prefix(err, "eval.tasks");
}

void eval_tasks_close(struct eval_tasks *tasks)
{
    for (int i = 0; i < tasks->count; i++) examination_close(&tasks->of[i].examination);
    choice_scorer_close(&tasks->scorer);
    inputs_close(&tasks->files);
    *tasks = (struct eval_tasks){0};
}

int64_t eval_tasks_checksum(const struct eval_tasks *tasks)
{
    uint64_t sum = 0;
    for (int i = 0; i < tasks->count; i++) {
        const struct file_map *map = &tasks->of[i].examination.file.map;
        sum = XXH64(map->data, map->size, sum);
    }
    return (int64_t)sum;
}

enum status eval_tasks_ready(struct eval_tasks *tasks, struct network *network,
                             const struct tokenizer *tokenizer, struct err *err)
{
    return tasks->count ? choice_scorer_open(&tasks->scorer, network, tokenizer, err) : STATUS_OK;
}

/* ---- scoring ---- */

static void add(struct measures *out, const char *name, double right, double done)
{
    if (out->count < MEASURES_MAX) out->of[out->count++] = (struct measure){name, right / done};
}

enum status eval_tasks_measure(struct eval_tasks *tasks, bool (*leave)(void *context), void *context,
                               struct measures *out, struct err *err)
{
    if (tasks->count) choice_scorer_forget(&tasks->scorer); /* the weights are others, and samples came */
    for (int i = 0; i < tasks->count; i++) {
        struct eval_task *task = &tasks->of[i];
        struct examination *e = &task->examination;
        enum status status = STATUS_OK;
        examination_restart(e);
        while (!status && e->score.done < e->questions) {
            if (leave(context))
                return err_set(err, STATUS_INTERRUPTED,
                               "eval.tasks: not all questions were answered, as the run was asked to end");
            status = examination_answer(e, &tasks->scorer, err);
        }
        if (status && status != STATUS_FAILED) return status;
        double done = status ? NAN : (double)e->score.done;
        add(out, task->accuracy, (double)e->score.right, done);
        add(out, task->accuracy_per_byte, (double)e->score.right_per_byte, done);
    }
    return STATUS_OK;
}
