/* See generate.h. Tokens that the cache does not have yet are appended to it in one go: the prompt at first,
 * one token afterwards. */
#include "core/generate/generate.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum status generator_open(struct generator *g, struct network *network, const struct tokenizer *tokenizer,
                           struct err *err)
{
    int V = network->model->config.vocab_size;
    int most = network->plan->input.cache_length;
    *g = (struct generator){.network = network, .tokenizer = tokenizer, .most = most};
    g->logits = network_at(network, BUFFER_HOST_LOGITS, 0);
    g->context = malloc((size_t)most * sizeof *g->context);
    enum status status =
        g->context ? sampler_open(&g->sampler, V, err) : err_no_memory(err, "a text of %d tokens", most);
    if (status) generator_close(g);
    return status;
}

void generator_close(struct generator *g)
{
    free(g->context);
    sampler_close(&g->sampler);
    *g = (struct generator){0};
}

enum status prompt_check(const char *name, const char *text, size_t n, struct err *err)
{
    if (memchr(text, '\0', n))
        return err_set(err, STATUS_FAILED, "%s holds a zero byte: it is not text", name);
    if (utf8_valid_bytes(text, n) < n) return err_set(err, STATUS_FAILED, "%s is not valid UTF-8", name);
    return STATUS_OK;
}

enum status generator_start(struct generator *g, const char *prompt, struct err *err)
{
    struct token_list list = {0};
    enum status status = tokenizer_encode_prompt(g->tokenizer, prompt, strlen(prompt), &list, err);
    if (!status && !*prompt && !list.count)
        status = tokenizer_encode_prompt(g->tokenizer, "\n", 1, &list, err);
    if (!status && !list.count)
        status = err_set(err, STATUS_USAGE, "prompt: the tokenizer has no token for any part of it");
    else if (!status && (status = generator_start_tokens(g, &list, err)))
        err_prefix(err, "prompt");
    token_list_release(&list);
    return status;
}

enum status generator_start_tokens(struct generator *g, const struct token_list *tokens, struct err *err)
{
    size_t most = (size_t)g->most, skip = tokens->count > most ? tokens->count - most : 0;
    int kept;
    network_truncate(g->network, 0, 0);
    return generator_set(g, tokens->ids + skip, tokens->count - skip, &kept, err);
}

enum status generator_set(struct generator *g, const uint32_t *tokens, size_t count, int *kept,
                          struct err *err)
{
    int V = g->network->model->config.vocab_size, same = 0, cached = network_cached(g->network, 0);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= (uint32_t)V)
            return err_set(err, STATUS_USAGE, "token %u is outside the model's vocabulary of %d", tokens[i],
                           V);
    while (same < cached && (size_t)same + 1 < count && g->context[same] == (int32_t)tokens[same]) same++;
    network_truncate(g->network, 0, same); /* the last token is computed anew: its logits are wanted */
    sampler_begin(&g->sampler);
    for (size_t i = 0; i < count; i++) {
        g->context[i] = (int32_t)tokens[i];
        sampler_note(&g->sampler, tokens[i], SEEN_IN_PROMPT);
    }
    g->length = (int)count;
    *kept = same;
    return STATUS_OK;
}

uint32_t generator_next(struct generator *g, const struct sampling *sampling, int64_t index)
{
    struct network *net = g->network;
    int cached = network_cached(net, 0);
    network_logits(net, network_append(net, 0, g->context + cached, g->length - cached), 1, g->logits);
    uint32_t token = sampler_draw(&g->sampler, sampling, g->logits, index);
    sampler_note(&g->sampler, token, SEEN_IN_TEXT);
    if (g->length == g->most) { /* the positions of what stays change, and with them its keys */
        g->length = g->most / 2;
        memmove(g->context, g->context + g->most - g->length, (size_t)g->length * sizeof *g->context);
        network_truncate(net, 0, 0);
    }
    g->context[g->length++] = (int32_t)token;
    return token;
}
