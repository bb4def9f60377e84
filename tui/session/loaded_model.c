/* See loaded_model.h. Nothing is trained, so all parameters are frozen: held once, without a master copy. */
#include "tui/session/loaded_model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"

static enum status open_network(struct loaded_model *m, const char *folder, struct loaded_wish wish,
                                const char *doing, struct err *err)
{
    const struct backend *backend = m->choice.backend;
    int longest = m->model.config.max_seq_len;
    struct plan_input input = {.model = &m->model,
                               .B = wish.B,
                               .T = wish.T < longest ? wish.T : longest,
                               .cache_slots = wish.cache_slots,
                               .cache_length = wish.cache_length < longest ? wish.cache_length : longest,
                               .allocator = wish.allocator};
    plan_input_for(&input, backend, m->choice.device);
    enum status status = checkpoint_freeze(folder, &m->model, &m->choice.info, &input.precision, err);
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
    if (!status) status = checkpoint_load_weights(folder, &m->network, err);
    if (!status) network_replay_rows(&m->network);
    if (!status) return STATUS_OK;
    network_close(&m->network);
    memory_share_release(&m->share);
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

enum status loaded_model_load(struct loaded_model *m, const char *folder, const char *device,
                              struct loaded_wish wish, const char *doing, struct err *err)
{
    enum status status = device_choice_open(&m->choice, device, 0, err);
    if (!status) status = open_network(m, folder, wish, doing, err);
    if (status && m->choice.device && device_choice_may_fall_back(&m->choice, err)) {
        status = device_choice_fall_back(&m->choice, err, err);
        if (!status) status = open_network(m, folder, wish, doing, err);
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
