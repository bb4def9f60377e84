/* See imported_model.h. */
#include "core/model/imported_model.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"

enum status imported_model_folder(const char *name, char *folder, size_t size, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : file_format_path(folder, size, err, "%s/models/%s", home, name);
}

bool imported_model_find(const char *word, char *folder, size_t size)
{
    char config[PATH_MAX];
    return *word && *word != '.' && !strchr(word, '/') && !imported_model_folder(word, folder, size, NULL) &&
           !file_format_path(config, sizeof config, NULL, "%s/config.json", folder) && file_exists(config);
}

static enum status check_weights(const char *folder, struct imported_model *m, struct err *err)
{
    struct model model = {0};
    struct safetensors files = {0};
    enum status status = model_init(&model, &m->config, err);
    if (!status) status = safetensors_open_folder(folder, &files, err);
    if (!status) status = checkpoint_check_weights(&files, &model, err);
    m->files = files.shard_count;
    m->tensors = files.count;
    safetensors_close(&files);
    model_release(&model);
    return status;
}

/* One that cannot be read is no reason to refuse the weights: token files may name another. */
static void look_at_tokenizer(const char *folder, struct imported_model *m)
{
    char path[PATH_MAX];
    struct tokenizer *tokenizer;
    if (file_format_path(path, sizeof path, &m->tokenizer, "%s/tokenizer.json", folder) ||
        !file_exists(path) || tokenizer_open_json(path, &tokenizer, &m->tokenizer))
        return;
    m->vocabulary = tokenizer_vocab_size(tokenizer);
    tokenizer_close(tokenizer);
}

enum status imported_model_write(const char *from, const char *to, struct imported_model *out,
                                 struct err *err)
{
    struct imported_model m = {0};
    char path[PATH_MAX];
    enum status status = file_format_path(path, sizeof path, err, "%s/config.json", from);
    if (!status) status = hugging_face_read_config(path, &m.config, err);
    if (!status) status = check_weights(from, &m, err);
    if (!status) look_at_tokenizer(from, &m);
    if (!status) status = checkpoint_export(from, to, &m.bytes, err);
    if (!status) *out = m;
    return status;
}
