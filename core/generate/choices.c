/* See choices.h. */
#include "core/generate/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/bpe.h"

/* A context and one choice as tokens: the choice's begin at `first`. */
struct continuation {
    struct token_list list;
    size_t first;
};

/* ---- tokens ---- */

static enum status append_text(const struct tokenizer *tokenizer, const char *context, size_t context_bytes,
                               const char *choice, struct token_list *list, struct err *err)
{
    size_t choice_bytes = strlen(choice);
    char *text = malloc(context_bytes + choice_bytes + 1);
    if (!text) return err_no_memory(err, "a text of %zu bytes", context_bytes + choice_bytes);
    memcpy(text, context, context_bytes);
    memcpy(text + context_bytes, choice, choice_bytes + 1);
    enum status status = tokenizer_encode(tokenizer, text, context_bytes + choice_bytes, list, err);
    free(text);
    return status;
}

/* Overwrites *out. */
static enum status encode(const struct tokenizer *tokenizer, const char *context, const char *choice,
                          struct continuation *out, struct err *err)
{
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    size_t bytes = strlen(context), alone = bytes;
    while (alone && strchr(" \t\n\v\f\r", context[alone - 1])) alone--;
    out->list.count = 0;
    enum status status = tokenizer_encode(tokenizer, context, alone, &out->list, err);
    out->first = bpe->before.count + out->list.count;
    out->list.count = 0;
    if (!status) status = token_list_append(&out->list, bpe->before.ids, bpe->before.count, err);
    if (!status) status = append_text(tokenizer, context, bytes, choice, &out->list, err);
    return status;
}

static enum status check(const struct continuation *c, int choice, int vocab_size, int most, struct err *err)
{
    if (!c->first)
        return err_set(err, STATUS_USAGE,
                       "\"context\" must have a text: this tokenizer has no token that begins texts");
    if (c->list.count <= c->first)
        return err_set(err, STATUS_USAGE,
                       "\"choices\"[%d] adds no token to the context (begin it with a blank)", choice);
    if (c->list.count - c->first > (size_t)most)
        return err_set(
            err, STATUS_USAGE,
            "\"choices\"[%d] has %zu tokens, but the model was trained for at most %d (shorten it)", choice,
            c->list.count - c->first, most);
    for (size_t i = 0; i < c->list.count; i++)
        if (c->list.ids[i] >= (uint32_t)vocab_size)
            return err_set(
                err, STATUS_USAGE,
                "\"choices\"[%d] or its context has the token %u, but the model's vocabulary has %d", choice,
                c->list.ids[i], vocab_size);
    return STATUS_OK;
}

enum status question_measure(const struct question *question, const struct tokenizer *tokenizer,
                             int vocab_size, int most, int *tokens, struct err *err)
{
    struct continuation c = {0};
    enum status status = STATUS_OK;
    size_t longest = 0;
    for (int i = 0; i < question->count && !status; i++) {
        status = encode(tokenizer, question->context, question->choices[i], &c, err);
        if (!status) status = check(&c, i, vocab_size, most, err);
        if (c.list.count > longest) longest = c.list.count;
    }
    *tokens = longest < INT32_MAX ? (int)longest : INT32_MAX;
    token_list_release(&c.list);
    return status;
}

/* ---- likelihood ---- */

enum status choice_scorer_open(struct choice_scorer *scorer, struct network *network,
                               const struct tokenizer *tokenizer, struct err *err)
{
    const struct plan_input *in = &network->plan->input;
    *scorer = (struct choice_scorer){.network = network, .tokenizer = tokenizer};
    scorer->held = malloc((size_t)in->cache_length * sizeof *scorer->held);
    scorer->targets = malloc((size_t)in->B * (size_t)in->T * sizeof *scorer->targets);
    if (scorer->held && scorer->targets) return STATUS_OK;
    choice_scorer_close(scorer);
    return err_no_memory(err, "scoring texts of %d tokens", in->cache_length);
}

void choice_scorer_close(struct choice_scorer *scorer)
{
    free(scorer->held);
    free(scorer->targets);
    *scorer = (struct choice_scorer){0};
}

void choice_scorer_forget(struct choice_scorer *scorer)
{
    network_truncate(scorer->network, 0, 0);
}

/* Makes slot 0 hold tokens (count): keeps the beginning that it already has. */
static void hold(struct choice_scorer *s, const uint32_t *tokens, int count)
{
    int had = network_cached(s->network, 0), same = 0;
    while (same < had && same < count && s->held[same] == (int32_t)tokens[same]) same++;
    network_truncate(s->network, 0, same);
    for (int i = same; i < count; i++) s->held[i] = (int32_t)tokens[i];
    if (same < count) network_append(s->network, 0, s->held + same, count - same);
}

/* Σ ln p of tokens [first, count) of a text. All but the last pass through the network; the one before
 * `first` predicts the choice's first token, so it is passed with the choice. */
static double score(struct choice_scorer *s, const uint32_t *tokens, int first, int count)
{
    int most = s->network->plan->input.B * s->network->plan->input.T;
    double nats = 0;
    hold(s, tokens, first - 1);
    for (int from = first - 1, rows; from < count - 1; from += rows) {
        rows = count - 1 - from < most ? count - 1 - from : most;
        for (int i = 0; i < rows; i++) {
            s->held[from + i] = (int32_t)tokens[from + i];
            s->targets[i] = (int32_t)tokens[from + i + 1];
        }
        network_append(s->network, 0, s->held + from, rows);
        nats += network_loss(s->network, (struct batch_view){.labels = s->targets, .B = 1, .T = rows});
    }
    return -nats;
}

/* Leaves out the beginning of a text that is too long for the cache; the last token need not be in it. */
static enum status score_choice(struct choice_scorer *s, const struct question *question, int choice,
                                struct continuation *c, struct choice_answer *out, double *log_likelihood,
                                struct err *err)
{
    size_t most = (size_t)s->network->plan->input.cache_length;
    enum status status = encode(s->tokenizer, question->context, question->choices[choice], c, err);
    if (status) return status;
    size_t skip = c->list.count > most + 1 ? c->list.count - most - 1 : 0;
    *log_likelihood = score(s, c->list.ids + skip, (int)(c->first - skip), (int)(c->list.count - skip));
    out->cut |= skip > 0;
    out->tokens += (int64_t)(c->list.count - c->first);
    if ((status = s->network->backend->stream_wait(s->network->stream, err))) return status;
    return isfinite(*log_likelihood)
               ? STATUS_OK
               : err_set(err, STATUS_FAILED,
                         "the likelihood of \"choices\"[%d] is not a number (are the model's weights "
                         "finite?)",
                         choice);
}

enum status choice_scorer_answer(struct choice_scorer *s, const struct question *question,
                                 struct choice_answer *out, double *log_likelihoods, struct err *err)
{
    struct continuation c = {0};
    enum status status = STATUS_OK;
    double best = -INFINITY, best_per_byte = -INFINITY;
    *out = (struct choice_answer){0};
    for (int i = 0; i < question->count && !status; i++) {
        const char *choice = question->choices[i];
        double nats, per_byte;
        status = score_choice(s, question, i, &c, out, &nats, err);
        if (status) break;
        per_byte = nats / (double)strlen(choice + strspn(choice, " "));
        if (nats > best) best = nats, out->likeliest = i;
        if (per_byte > best_per_byte) best_per_byte = per_byte, out->likeliest_per_byte = i;
        if (log_likelihoods) log_likelihoods[i] = nats;
    }
    token_list_release(&c.list);
    return status;
}
