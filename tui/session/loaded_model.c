/* See loaded_model.h. Nothing is trained, so all parameters are frozen: held once, without a master copy. */
#include "tui/session/loaded_model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "tui/session/recorded_run.h"

static enum status open_network(struct loaded_model *m, struct loaded_wish wish, const char *doing,
                                struct err *err)
{
    const struct backend *backend = m->choice.backend;
    int longest = m->model.config.max_seq_len;
    struct plan_input input = {.model = &m->model,
                               .B = wish.B,
                               .T = wish.T < longest ? wish.T : longest,
                               .packed = wish.packed,
                               .cache_slots = wish.cache_slots,
                               .cache_length = wish.cache_length < longest ? wish.cache_length : longest,
                               .allocator = wish.allocator};
    plan_input_for(&input, backend, m->choice.device);
    enum status status = checkpoint_freeze(m->weights, &m->model, &m->choice.info, &input.precision, err);
    if (!status) status = plan_init(&m->plan, &input, err);
    if (status) return status;
    struct memory_wish memory = {.holder = doing,
                                 .backend = backend,
                                 .device = m->choice.device,
                                 .reserve = NAN,
                                 .bytes = (int64_t)m->plan.total_bytes};
    status = memory_share_take(&m->share, &memory, err);
    if (!status) status = network_open(&m->network, backend, m->choice.device, &m->model, &m->plan, err);
    if (!status) memory_share_used(&m->share, doing, m->share.bytes); /* before the slow loading of weights */
    if (!status) status = checkpoint_load_weights(m->weights, &m->network, err);
    if (!status && *m->adapter) status = checkpoint_load_weights(m->adapter, &m->network, err);
    if (!status) network_replay_rows(&m->network);
    if (!status) return STATUS_OK;
    network_close(&m->network);
    memory_share_release(&m->share);
    plan_release(&m->plan);
    return status;
}

static bool has(const char *folder, const char *file)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return file_exists(path);
}

/* Finds the folders of base and adapters, and reads what the adapters are. */
static enum status find_folders(struct loaded_model *m, const char *folder, const char *adapter,
                                struct adapter_config *config, struct adapter_base *base, struct err *err)
{
    struct model_choice choice = {.doing = "loading the adapters", .source = adapter, .step = -1};
    bool alone = adapter_file_exists(folder);
    enum status status = STATUS_OK;
    if (alone && adapter)
        return err_set(err, STATUS_USAGE,
                       "%s: holds adapters itself, so --adapter cannot add others (name their base instead)",
                       folder);
    if (alone)
        status = file_format_path(m->adapter, sizeof m->adapter, err, "%s", folder);
    else
        status = file_format_path(m->weights, sizeof m->weights, err, "%s", folder);
    if (!status && adapter) status = model_choice_find(&choice, m->adapter, sizeof m->adapter, NULL, err);
    if (status || !*m->adapter) return status;
    if (!adapter_file_exists(m->adapter))
        return err_set(err, STATUS_USAGE, "%s: holds no adapters (there is no adapter_config.json)",
                       m->adapter);
    status = adapter_file_read(m->adapter, config, base, err);
    if (!status && alone) snprintf(m->weights, sizeof m->weights, "%s", base->folder);
    if (status || has(m->weights, "config.json")) return status;
    return err_set(
        err, STATUS_NOT_FOUND,
        "%s: its base model \"%s\" is not a model's folder here (name the base first and the adapters with "
        "--adapter)",
        m->adapter, m->weights);
}

/* The model's sizes and, of adapters that make a classifier of a language model, the classes of those. */
static enum status read_sizes(struct loaded_model *m, bool classifier, struct err *err)
{
    char path[PATH_MAX + 32];
    struct model_config config, own;
    snprintf(path, sizeof path, "%s/config.json", m->weights);
    enum status status = hugging_face_read_config(path, &config, err);
    if (!status && *m->adapter && has(m->adapter, "config.json")) {
        snprintf(path, sizeof path, "%s/config.json", m->adapter);
        status = hugging_face_read_config(path, &own, err);
        config.num_labels = status ? 0 : own.num_labels;
        config.pooling = status ? POOLING_LAST : own.pooling;
    }
    if (!status && classifier && !config.num_labels)
        status =
            err_set(err, STATUS_USAGE,
                    "%.300s: is a language model, not a classifier (train one from it with data.format = "
                    "labels)",
                    path);
    if (!status && !classifier && config.num_labels)
        status =
            err_set(err, STATUS_USAGE, "%.300s: is a classifier, which writes no text (use `%s classify`)",
                    path, TEXT_PROGRAM);
    if (!status) status = model_init(&m->model, &config, err);
    return status || !config.num_labels ? status : hugging_face_read_classes(path, &m->model, err);
}

static enum status describe(struct loaded_model *m, const char *folder, const char *adapter, bool classifier,
                            struct err *err)
{
    struct adapter_config adapters = {0};
    struct adapter_base base = {0};
    struct safetensors weights = {0};
    *m = (struct loaded_model){0};
    enum status status = find_folders(m, folder, adapter, &adapters, &base, err);
    m->words = *m->adapter && has(m->adapter, "tokenizer.json") ? m->adapter : m->weights;
    if (!status) status = read_sizes(m, classifier, err);
    if (status || !*m->adapter) return status;
    status = adapter_attach(&m->model, &adapters, err);
    if (status) return err_prefix(err, "%s", m->adapter);
    snprintf(m->model.base.folder, sizeof m->model.base.folder, "%s", m->weights);
    status = safetensors_open_folder(m->weights, &weights, err);
    if (!status) m->model.base.hash = adapter_base_hash(&weights);
    safetensors_close(&weights);
    return status;
}

enum status loaded_model_describe(struct loaded_model *m, const char *folder, const char *adapter,
                                  struct err *err)
{
    return describe(m, folder, adapter, false, err);
}

enum status loaded_model_describe_classifier(struct loaded_model *m, const char *folder, const char *adapter,
                                             struct err *err)
{
    return describe(m, folder, adapter, true, err);
}

enum status loaded_model_tokenizer(const char *folder, struct tokenizer **out, struct err *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (file_exists(path)) return tokenizer_open_json(path, out, err);
    return err_set(err, STATUS_NOT_FOUND,
                   "%s: does not exist: the model was trained on token files that name no tokenizer (copy "
                   "their tokenizer.json there)",
                   path);
}

struct loaded_wish loaded_wish_cached(int slots, int length, enum allocator_kind allocator)
{
    enum { PIECE = 512 }; /* tokens of a prompt that are computed in one pass */
    return (struct loaded_wish){.B = 1,
                                .T = length < PIECE ? length : PIECE,
                                .cache_slots = slots,
                                .cache_length = length,
                                .allocator = allocator};
}

enum status loaded_model_load(struct loaded_model *m, const char *device, struct loaded_wish wish,
                              const char *doing, struct err *err)
{
    enum status status = device_choice_open(&m->choice, device, 0, err);
    if (!status) status = open_network(m, wish, doing, err);
    if (status && m->choice.device && device_choice_may_fall_back(&m->choice, err)) {
        status = device_choice_fall_back(&m->choice, err, err);
        if (!status) status = open_network(m, wish, doing, err);
    }
    if (!status && *m->choice.why)
        fprintf(stderr, "anneal: warning: %s on the CPU: %s\n", doing, m->choice.why);
    return status;
}

void loaded_model_close(struct loaded_model *m)
{
    network_close(&m->network);
    memory_share_release(&m->share);
    device_choice_close(&m->choice);
    plan_release(&m->plan);
    model_release(&m->model);
}
