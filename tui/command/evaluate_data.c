/* anneal evaluate --data: loss, perplexity, bits per byte of a text, or of the answers of conversations.
 * Reads every sequence of the data once, in file order, without dropout. The rest of a file, shorter than a
 * sequence, is not predicted, as in training's evaluations, but counted and reported. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/generation_config.h"
#include "datasets/batch.h"
#include "datasets/corpus.h"
#include "datasets/examples.h"
#include "datasets/inputs.h"
#include "tui/command/evaluation.h"

enum { BATCH_TOKENS = 4096, LENGTH_MAX = 1024 };

/* The text, and what is measured so far. */
struct reading {
    struct corpus corpus;
    struct split split, none;
    struct example_rows rows, no_rows; /* of conversations, in place of the splits */
    struct batch_source source;        /* of one of these */
    int B, T;
    uint64_t tail; /* tokens at the ends of files, too few for a sequence, or of answers that lie beyond T:
                      never predicted */
    int32_t *inputs, *targets, *positions; /* (B,T); positions of conversations alone */
    double nats;
    uint64_t labels, bytes; /* tokens that were predicted and the text they stand for */
};

/* ---- opening ---- */

/* Turns text into tokens in ANNEAL_HOME or, if that is read-only and lacks them, in a temporary folder, which
 * is deleted at once: open files stay usable. */
static enum status open_corpus(struct reading *r, const char *data, const char *tokenizer,
                               const struct text_reading *reading, const char *home,
                               const struct progress *progress, struct err *err)
{
    char cache[PATH_MAX + 8];
    const char *temporary = getenv("TMPDIR");
    snprintf(cache, sizeof cache, "%s/data", home);
    enum status status =
        corpus_open(data, tokenizer, reading, *tokenizer ? cache : NULL, progress, &r->corpus, err);
    if (status != STATUS_IO || !file_is_read_only(home)) return status;
    snprintf(cache, sizeof cache, "%s/anneal-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(cache))
        return err_set(err, STATUS_IO,
                       "%s: cannot create the folder: %s (set TMPDIR to one you may write to)", cache,
                       strerror(errno));
    status = corpus_open(data, tokenizer, reading, cache, progress, &r->corpus, err);
    file_remove_tree(cache, NULL);
    return status;
}

/* Whether the data are texts, by the names of the files. */
static bool are_texts(const char *data)
{
    struct inputs inputs;
    bool texts = inputs_peek(data, &inputs, NULL) == STATUS_OK && !inputs.tokens;
    inputs_close(&inputs);
    return texts;
}

/* The data as tokens of this model. */
static enum status open_text(const struct evaluation *e, struct reading *r, struct err *err)
{
    char home[PATH_MAX], tokenizer[PATH_MAX + 32];
    struct corpus_place place;
    int V = e->loaded.model.config.vocab_size;
    enum status status = file_anneal_home(home, sizeof home, err);
    if (status) return status;
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", e->loaded.words);
    bool known = file_exists(tokenizer);
    if (!known && are_texts(e->options->data)) {
        struct tokenizer *none = NULL;
        status = loaded_model_tokenizer(e->loaded.words, &none, err); /* says so */
        tokenizer_close(none);
        if (status) return status;
    }
    struct chat_format format = {0}, *chats = e->options->conversations ? &format : NULL;
    if (chats) status = chat_format_read(e->loaded.words, NULL, chats, err);
    struct text_reading reading = {.text_key = e->options->column, .conversations = chats};
    if (!status)
        status = open_corpus(r, e->options->data, known ? tokenizer : "", &reading, home, e->progress, err);
    chat_format_release(&format);
    if (status) return status;
    if (r->corpus.source_count)
        return err_set(err, STATUS_USAGE,
                       "--data %.200s: takes no weights (evaluate one source after the other)",
                       e->options->data);
    if (!corpus_find_id(&r->corpus, (uint32_t)V, &place)) return STATUS_OK;
    if (are_texts(e->options->data))
        return err_set(
            err, STATUS_USAGE,
            "--data %.200s: %s makes tokens of it such as %u, but the model's vocabulary has %d (put "
            "the model's own tokenizer.json there)",
            e->options->data, tokenizer, place.id, V);
    return err_set(err, STATUS_USAGE,
                   "%s: token %" PRIu64
                   " is %u, but the model's vocabulary has %d (the tokens were made with another tokenizer)",
                   place.path, place.index, place.id, V);
}

static enum status pack_conversations(struct reading *r, const struct split_rule *whole, struct err *err)
{
    enum status status = example_rows_open(&r->corpus, whole, false, &r->rows, &r->no_rows, err);
    r->tail = r->rows.lost;
    if (status != STATUS_USAGE) return status;
    return err_set(
        err, status,
        "in no conversation an answer begins within --seq-len = %d tokens (raise it, or shorten what "
        "comes before the answers)",
        r->T);
}

/* Cuts the tokens into sequences of --seq-len, by default as long as the model and the longest file allow. */
static enum status cut_sequences(const struct evaluation *e, struct reading *r, struct err *err)
{
    const struct evaluate_options *o = e->options;
    int most = e->loaded.model.config.max_seq_len;
    uint64_t longest = 0, predictable = 0;
    for (size_t i = 0; i < r->corpus.file_count; i++) { /* the first token of each has no context */
        uint64_t count = r->corpus.files[i].count, n = count ? count - 1 : 0;
        predictable += n;
        if (n > longest) longest = n;
    }
    if (o->length > most)
        return err_set(err, STATUS_USAGE,
                       "--seq-len %" PRId64 ": the model was trained for at most %d tokens", o->length, most);
    if (!longest)
        return err_set(err, STATUS_USAGE,
                       "--data %.200s: there is nothing to predict: a text needs at least 2 tokens", o->data);
    if ((uint64_t)o->length > longest)
        return err_set(err, STATUS_USAGE,
                       "--seq-len %" PRId64 ": among the tokens to evaluate at most %" PRIu64
                       " in a row can be predicted (give --seq-len %" PRIu64 " or less)",
                       o->length, longest, longest);
    r->T = o->length ? (int)o->length : most < LENGTH_MAX ? most : LENGTH_MAX;
    struct split_rule whole = {.val_split = VAL_TAIL, .seq_len = r->T, .shuffle = SHUFFLE_NONE};
    if (o->conversations) return pack_conversations(r, &whole, err);
    if ((uint64_t)r->T > longest) r->T = whole.seq_len = (int)longest;
    enum status status = split_corpus(&r->corpus, &whole, &r->split, &r->none, err);
    if (!status) r->tail = predictable - r->split.sequences * (uint64_t)r->T;
    return status;
}

static enum status open_reading(struct evaluation *e, void *state, struct err *err)
{
    struct reading *r = state;
    const struct evaluate_options *o = e->options;
    const struct model_config *c = &e->loaded.model.config;
    enum status status = open_text(e, r, err);
    if (status) return status;
    if (o->padding >= c->vocab_size)
        return err_set(err, STATUS_USAGE,
                       "--padding %" PRId64 ": no token has this id, the model's vocabulary has %d",
                       o->padding, c->vocab_size);
    if ((status = cut_sequences(e, r, err))) return status;
    r->split.padding = o->padding;
    r->B = r->T < BATCH_TOKENS ? BATCH_TOKENS / r->T : 1;
    r->source = o->conversations ? example_rows_source(&r->rows) : split_source(&r->split);
    e->total = r->source.rows;
    if ((uint64_t)r->B > e->total) r->B = (int)e->total;
    if (o->batches && (uint64_t)o->batches * (uint64_t)r->B < e->total)
        e->total = (uint64_t)o->batches * (uint64_t)r->B;
    e->wish.B = r->B;
    e->wish.T = r->T;
    e->wish.packed = o->conversations;
    size_t N = (size_t)r->B * (size_t)r->T;
    r->inputs = malloc(N * sizeof *r->inputs);
    r->targets = malloc(N * sizeof *r->targets);
    r->positions = malloc(N * sizeof *r->positions);
    return r->inputs && r->targets && r->positions ? STATUS_OK
                                                   : err_no_memory(err, "batches of %zu tokens", N);
}

static void close_reading(void *state)
{
    struct reading *r = state;
    split_release(&r->split);
    split_release(&r->none);
    example_rows_close(&r->rows);
    example_rows_close(&r->no_rows);
    corpus_close(&r->corpus);
    free(r->positions);
    free(r->inputs);
    free(r->targets);
}

/* ---- measuring ---- */

/* A batch. */
static enum status read_on(struct evaluation *e, void *state, char *suffix, struct err *err)
{
    struct reading *r = state;
    struct network *net = &e->loaded.network;
    int b = e->total - e->done < (uint64_t)r->B ? (int)(e->total - e->done) : r->B;
    int32_t *positions = r->source.packed ? r->positions : NULL;
    struct batch_view batch = {
        .inputs = r->inputs, .labels = r->targets, .positions = positions, .B = b, .T = r->T};
    r->source.fill(r->source.context, e->done, b, r->inputs, r->targets, positions);
    network_forward(net, batch);
    double nats = network_loss(net, batch);
    enum status status = net->backend->stream_wait(net->stream, err);
    if (status) return status; /* a failed device returns no valid loss */
    if (!isfinite(nats))
        return err_set(err, STATUS_CORRUPT,
                       "%s: the loss of its data is not a finite number (are the model's weights finite?)",
                       e->folder);
    r->nats += nats;
    for (uint64_t i = 0; i < (uint64_t)b * (uint64_t)r->T; i++) {
        if (r->targets[i] == LABEL_IGNORED) continue;
        r->labels++;
        if (r->corpus.tokenizer)
            r->bytes += tokenizer_text_bytes(r->corpus.tokenizer, (uint32_t)r->targets[i]);
    }
    e->done += (uint64_t)b;
    snprintf(suffix, 48, "loss %s", TEXT_LOSS(r->labels ? r->nats / (double)r->labels : NAN));
    return STATUS_OK;
}

static enum status check_reading(const struct evaluation *e, const void *state, struct err *err)
{
    if (((const struct reading *)state)->labels) return STATUS_OK;
    return e->done < e->total
               ? err_set(err, STATUS_INTERRUPTED, "evaluate: interrupted")
               : err_set(err, STATUS_USAGE, "no token counts: all predicted tokens are --padding");
}

static void print_reading(const struct evaluation *e, const void *state, struct output *out)
{
    const struct reading *r = state;
    double loss = r->nats / (double)r->labels;
    double bits_per_byte = r->bytes ? r->nats / M_LN2 / (double)r->bytes : NAN;
    OUTPUT_MEMBERS(out, "data", e->options->data, "loss", loss, "perplexity", exp(loss), "bits_per_byte",
                   bits_per_byte, "tokens", (int64_t)r->labels, "bytes", r->bytes ? (int64_t)r->bytes : -1);
    OUTPUT_MEMBERS(out, "sequences", (int64_t)e->done, "of_sequences", (int64_t)e->total, "seq_len", r->T,
                   "left_out_tokens", (int64_t)r->tail, "tokens_per_sec",
                   (double)e->done * r->T / e->seconds);
}

const struct evaluation_kind evaluation_of_data = {.unit = "sequence",
                                                   .doing = "evaluating",
                                                   .state = sizeof(struct reading),
                                                   .open = open_reading,
                                                   .next = read_on,
                                                   .finish = check_reading,
                                                   .print = print_reading,
                                                   .close = close_reading};
