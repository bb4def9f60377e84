/* See decoding.h. */
#include "tests/gpu/decoding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/philox.h"
#include "core/network/network.h"

struct model_config decoding_model(void)
{
    struct model_config c = model_preset(PRESET_TINY);
    c.vocab_size = 256;
    c.hidden_dim = 64;
    c.intermediate_dim = 96;
    c.num_layers = 2;
    c.num_heads = 4;
    c.num_kv_heads = 2;
    c.head_dim = 16;
    c.qkv_bias = true;
    c.sliding_window = 100;
    snprintf(c.full_attention_layers, sizeof c.full_attention_layers, "1");
    return c;
}

double decoding_tolerance(enum precision precision)
{
    return precision == PRECISION_FP32 ? 2e-5 : precision == PRECISION_TF32 ? 5e-3 : 2e-2;
}

double decoding_difference(const struct decoding *a, const struct decoding *b)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < b->count; i++) {
        apart += pow((double)a->logits[i] - (double)b->logits[i], 2);
        size += pow((double)b->logits[i], 2);
    }
    return sqrt(apart / size);
}

void decoding_release(struct decoding *d)
{
    free(d->logits);
    *d = (struct decoding){0};
}

static enum status write_text(struct network *net, struct decoding *out, struct err *err)
{
    int V = net->model->config.vocab_size;
    int32_t tokens[DECODING_PROMPT + DECODING_TEXT], slot = 0;
    double start = 0;
    for (uint32_t i = 0; i < DECODING_PROMPT + DECODING_TEXT; i++)
        tokens[i] = (int32_t)(philox4x32_10(i, 0, 0, 0, 3, 1).word[0] % (uint32_t)V);
    network_append(net, 0, tokens, DECODING_PROMPT);
    for (int i = 0; i < DECODING_TEXT; i++) {
        if (i == DECODING_UNTIMED) start = clock_monotonic();
        network_append_rows(net, tokens + DECODING_PROMPT + i, &slot, 1);
        network_logits(net, 0, 1, out->logits + (size_t)i * (size_t)V);
    }
    out->ms = (clock_monotonic() - start) * 1e3 / (DECODING_TEXT - DECODING_UNTIMED);
    return net->backend->stream_wait(net->stream, err);
}

enum status decoding_run(const struct backend *backend, enum precision precision,
                         const struct model_config *config, bool replay, struct decoding *out,
                         struct err *err)
{
    struct device *device = NULL;
    struct model model = {0};
    struct plan plan = {0};
    struct network net = {0};
    struct plan_input input = {.model = &model,
                               .B = 1,
                               .T = DECODING_PIECE,
                               .cache_slots = 1,
                               .cache_length = DECODING_PROMPT + DECODING_TEXT,
                               .precision = precision};
    *out = (struct decoding){.count = (size_t)DECODING_TEXT * (size_t)config->vocab_size};
    out->logits = malloc(out->count * sizeof *out->logits);
    enum status status = out->logits ? STATUS_OK : err_no_memory(err, "the logits of a text");
    if (!status) status = model_init(&model, config, err);
    if (!status) status = backend->device_open(DEVICE_FIRST, 0, &device, err);
    if (!status) plan_input_for(&input, backend, device);
    if (!status) status = plan_init(&plan, &input, err);
    if (!status) status = network_open(&net, backend, device, &model, &plan, err);
    if (!status) status = network_initialise(&net, 1, err);
    if (!status && replay) network_replay_rows(&net);
    if (!status) status = write_text(&net, out, err);
    network_close(&net);
    if (device) backend->device_close(device);
    plan_release(&plan);
    model_release(&model);
    if (status) decoding_release(out);
    return status;
}
