/* See batch.h. */
#include "core/generate/batch.h"

#include <stdlib.h>

/* A slot of the cache, and the text that is written in it. */
struct lane {
    size_t text;
    bool busy;
    uint32_t token; /* the newest, which the cache does not have yet */
    struct sampler sampler;
};

struct writing {
    const struct batch *batch;
    struct lane *lanes; /* (slots) */
    int slots;
    size_t next;              /* the first text that has not begun */
    float *logits;            /* (slots, V) */
    int32_t *tokens, *places; /* (slots) the rows of a step: token and slot */
};

static enum status open_writing(struct writing *w, const struct batch *b, struct err *err)
{
    const struct plan_input *input = &b->network->plan->input;
    int V = b->network->model->config.vocab_size, rows = input->B * input->T;
    size_t slots = (size_t)(input->cache_slots < rows ? input->cache_slots : rows);
    *w = (struct writing){.batch = b, .slots = (int)slots};
    w->lanes = calloc(slots, sizeof *w->lanes);
    w->logits = calloc(slots, (size_t)V * sizeof *w->logits);
    w->tokens = calloc(slots, sizeof *w->tokens);
    w->places = calloc(slots, sizeof *w->places);
    enum status status = w->lanes && w->logits && w->tokens && w->places
                             ? STATUS_OK
                             : err_no_memory(err, "%zu texts at once", slots);
    for (size_t i = 0; !status && i < slots; i++) status = sampler_open(&w->lanes[i].sampler, V, err);
    return status;
}

static void close_writing(struct writing *w)
{
    for (int i = 0; w->lanes && i < w->slots; i++) sampler_close(&w->lanes[i].sampler);
    free(w->lanes);
    free(w->logits);
    free(w->tokens);
    free(w->places);
}

/* Draws the next token of the lane's text. */
static enum status draw(struct writing *w, int slot, const float *logits, struct err *err)
{
    const struct batch *b = w->batch;
    struct lane *lane = &w->lanes[slot];
    struct growing_text *text = &b->texts[lane->text].text;
    lane->token = sampler_draw(&lane->sampler, &b->sampling, logits, text->tokens);
    sampler_note(&lane->sampler, lane->token, SEEN_IN_TEXT);
    enum status status = sampler_check(&lane->sampler, err);
    if (!status) status = growing_text_add(text, &b->ending, b->tokenizer, lane->token, err);
    if (!status && !text->end && network_cached(b->network, slot) == b->network->plan->input.cache_length) {
        text->end = END_CONTEXT;
        text->final = text->n;
    }
    lane->busy = !text->end;
    if (!status && text->end) b->ended(b->context, lane->text);
    return status;
}

/* Begins texts in the free slots: computes the prompt and draws the first token. */
static enum status begin_texts(struct writing *w, struct err *err)
{
    const struct batch *b = w->batch;
    enum status status = STATUS_OK;
    for (int slot = 0; slot < w->slots; slot++)
        while (!status && !w->lanes[slot].busy && w->next < b->count) {
            struct lane *lane = &w->lanes[slot];
            const struct token_list *prompt = &b->texts[lane->text = w->next++].prompt;
            network_truncate(b->network, slot, 0);
            sampler_begin(&lane->sampler);
            for (size_t i = 0; i < prompt->count; i++)
                sampler_note(&lane->sampler, prompt->ids[i], SEEN_IN_PROMPT);
            int row = network_append(b->network, slot, (const int32_t *)prompt->ids, (int)prompt->count);
            network_logits(b->network, row, 1, w->logits);
            status = b->network->backend->stream_wait(b->network->stream, err);
            if (!status) status = draw(w, slot, w->logits, err);
        }
    return status;
}

/* One pass over the newest tokens of all texts; *rows is their number. */
static enum status step(struct writing *w, int *rows, struct err *err)
{
    const struct batch *b = w->batch;
    size_t V = (size_t)b->network->model->config.vocab_size;
    int N = 0;
    for (int slot = 0; slot < w->slots; slot++) {
        if (!w->lanes[slot].busy) continue;
        w->tokens[N] = (int32_t)w->lanes[slot].token;
        w->places[N++] = slot;
    }
    *rows = N;
    if (!N) return STATUS_OK;
    network_append_rows(b->network, w->tokens, w->places, N);
    network_logits(b->network, 0, N, w->logits);
    enum status status = b->network->backend->stream_wait(b->network->stream, err);
    for (int n = 0; !status && n < N; n++) status = draw(w, w->places[n], w->logits + (size_t)n * V, err);
    return status;
}

enum status batch_write(const struct batch *b, struct err *err)
{
    struct writing w;
    int rows = 1;
    enum status status = open_writing(&w, b, err);
    while (!status && rows && !b->stop(b->context)) {
        status = begin_texts(&w, err);
        if (!status) status = step(&w, &rows, err);
    }
    close_writing(&w);
    return status;
}
