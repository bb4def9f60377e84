/* See generate.h. Tokens that the cache does not have yet are appended to it in one go: the prompt at first,
 * one token afterwards. */
#include "core/generate/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"

struct candidate {
    float logit;
    uint32_t token;
};

enum status generator_open(struct generator *g, struct network *network, const struct tokenizer *tokenizer,
                           struct err *err)
{
    size_t V = (size_t)network->model->config.vocab_size;
    int most = network->plan->input.cache_length;
    *g = (struct generator){.network = network, .tokenizer = tokenizer, .most = most};
    g->logits = network_at(network, BUFFER_HOST_LOGITS, 0);
    g->context = malloc((size_t)most * sizeof *g->context);
    g->candidates = malloc(V * sizeof *g->candidates);
    if (g->context && g->candidates) return STATUS_OK;
    generator_close(g);
    return err_no_memory(err, "text over %zu tokens", V);
}

void generator_close(struct generator *g)
{
    free(g->context);
    free(g->candidates);
    *g = (struct generator){0};
}

enum status generator_start(struct generator *g, const char *prompt, struct err *err)
{
    struct token_list list = {0};
    int V = g->network->model->config.vocab_size;
    if (!*prompt) prompt = "\n";
    enum status status = tokenizer_encode_prompt(g->tokenizer, prompt, strlen(prompt), &list, err);
    size_t skip = list.count > (size_t)g->most ? list.count - (size_t)g->most : 0;
    g->length = 0;
    network_truncate(g->network, 0, 0);
    for (size_t i = skip; !status && i < list.count; i++) {
        if (list.ids[i] >= (uint32_t)V)
            status = err_set(err, STATUS_USAGE, "prompt: token %u is outside the model's vocabulary of %d",
                             list.ids[i], V);
        g->context[g->length++] = (int32_t)list.ids[i];
    }
    if (!status && g->length == 0)
        status = err_set(err, STATUS_USAGE, "prompt: the tokenizer has no token for any part of it");
    token_list_release(&list);
    return status;
}

static int likeliest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static uint32_t likeliest(const float *logits, int V)
{
    int best = 0;
    for (int i = 1; i < V; i++)
        if (logits[i] > logits[best]) best = i;
    return (uint32_t)best;
}

static uint32_t draw(struct generator *g, const struct sampling *sampling, int V, double uniform)
{
    size_t count = 0, kept;
    double sum = 0, scale = 1 / sampling->temperature;
    for (int i = 0; i < V; i++)
        if (isfinite(g->logits[i])) g->candidates[count++] = (struct candidate){g->logits[i], (uint32_t)i};
    if (!count) return likeliest(g->logits, V);
    qsort(g->candidates, count, sizeof *g->candidates, likeliest_first);
    if (sampling->top_k > 0 && (size_t)sampling->top_k < count) count = (size_t)sampling->top_k;
    double top = g->candidates[0].logit;
    for (size_t i = 0; i < count; i++) sum += exp((g->candidates[i].logit - top) * scale);
    double enough = 0;
    for (kept = 0; kept < count && enough < sampling->top_p * sum; kept++)
        enough += exp((g->candidates[kept].logit - top) * scale);
    double left = uniform * enough;
    for (size_t i = 0; i + 1 < kept; i++)
        if ((left -= exp((g->candidates[i].logit - top) * scale)) < 0) return g->candidates[i].token;
    return g->candidates[kept ? kept - 1 : 0].token;
}

uint32_t generator_next(struct generator *g, const struct sampling *sampling, int64_t index)
{
    struct network *net = g->network;
    int V = net->model->config.vocab_size, cached = network_cached(net, 0);
    network_logits(net, network_append(net, 0, g->context + cached, g->length - cached), 1, g->logits);
    uint64_t s = sampling->seed;
    struct philox_block r = philox4x32_10((uint32_t)index, (uint32_t)((uint64_t)index >> 32), 0, 0x73616D70u,
                                          (uint32_t)s, (uint32_t)(s >> 32));
    uint32_t token = sampling->temperature > 0 ? draw(g, sampling, V, (r.word[0] + 0.5) / 4294967296.0)
                                               : likeliest(g->logits, V);
    if (g->length == g->most) { /* the positions of what stays change, and with them its keys */
        g->length = g->most / 2;
        memmove(g->context, g->context + g->most - g->length, (size_t)g->length * sizeof *g->context);
        network_truncate(net, 0, 0);
    }
    g->context[g->length++] = (int32_t)token;
    return token;
}
