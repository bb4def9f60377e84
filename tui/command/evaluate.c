/* anneal evaluate: measures how well a checkpoint predicts a text: loss, perplexity, bits per byte; or how
 * many multiple-choice questions it answers (evaluate_tasks.c). Reads every sequence of the data once, in
 * file order, without dropout; records nothing. The rest of a file, shorter than a sequence, is not
 * predicted, as in training's evaluations, but counted and reported. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/batch.h"
#include "datasets/corpus.h"
#include "tui/command/command.h"
#include "tui/command/evaluate_tasks.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/loaded_model.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *data, *tasks;
    const char *device;
    int progress;
    int64_t step, length, batches, padding; /* 0: the default, all; -1: none */
    bool best, json;
};

enum { BATCH_TOKENS = 4096, LENGTH_MAX = 1024 };

/* All that is open, and the measurements so far. */
struct evaluation {
    struct loaded_model loaded;
    struct corpus corpus;
    struct split split, none;
    int B, T;
    uint64_t sequences;        /* to evaluate */
    uint64_t tail;             /* tokens at the ends of files, too few for a sequence: never predicted */
    int32_t *inputs, *targets; /* (B,T) */
    double nats, seconds;
    uint64_t done, labels, bytes; /* sequences, tokens that were predicted and the text they stand for */
};

/* ---- opening ---- */

/* Turns text into tokens in ANNEAL_HOME or, if that is read-only and lacks them, in a temporary folder, which
 * is deleted at once: open files stay usable. */
static enum status open_corpus(struct evaluation *e, const char *data, const char *tokenizer,
                               const char *home, const struct progress *progress, struct err *err)
{
    char cache[PATH_MAX + 8];
    const char *temporary = getenv("TMPDIR");
    snprintf(cache, sizeof cache, "%s/data", home);
    enum status status = corpus_open(data, tokenizer, *tokenizer ? cache : NULL, progress, &e->corpus, err);
    if (status != STATUS_IO || !file_is_read_only(home)) return status;
    snprintf(cache, sizeof cache, "%s/anneal-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(cache))
        return err_set(err, STATUS_IO,
                       "%s: cannot create the folder: %s (set TMPDIR to one you may write to)", cache,
                       strerror(errno));
    status = corpus_open(data, tokenizer, cache, progress, &e->corpus, err);
    file_remove_tree(cache, NULL);
    return status;
}

/* The data as tokens of this model. */
static enum status open_data(struct evaluation *e, const struct options *o, const char *folder,
                             const struct progress *progress, struct err *err)
{
    char home[PATH_MAX], tokenizer[PATH_MAX + 32];
    struct corpus_place place;
    int V = e->loaded.model.config.vocab_size;
    enum status status = file_anneal_home(home, sizeof home, err);
    if (status) return status;
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", folder);
    bool known = file_exists(tokenizer);
    status = open_corpus(e, o->data, known ? tokenizer : "", home, progress, err);
    if (status) return status;
    if (!corpus_find_id(&e->corpus, (uint32_t)V, &place)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: token %" PRIu64
                   " is %u, but the model's vocabulary has %d (the tokens were made with another tokenizer)",
                   place.path, place.index, place.id, V);
}

/* Cuts the tokens into sequences of --seq-len, by default as long as the model and the longest file allow. */
static enum status cut_sequences(struct evaluation *e, const struct options *o, struct err *err)
{
    int most = e->loaded.model.config.max_seq_len;
    uint64_t longest = 0, predictable = 0;
    for (size_t i = 0; i < e->corpus.file_count; i++) { /* the first token of each has no context */
        uint64_t count = e->corpus.files[i].count, n = count ? count - 1 : 0;
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
    e->T = o->length ? (int)o->length : most < LENGTH_MAX ? most : LENGTH_MAX;
    if ((uint64_t)e->T > longest) e->T = (int)longest;
    enum status status =
        split_corpus(&e->corpus, VAL_TAIL, 0, e->T, 0, SHUFFLE_NONE, &e->split, &e->none, err);
    if (!status) e->tail = predictable - e->split.sequences * (uint64_t)e->T;
    return status;
}

static enum status open_evaluation(struct evaluation *e, const struct options *o, const char *folder,
                                   enum allocator_kind allocator, const struct progress *progress,
                                   struct err *err)
{
    enum status status = loaded_model_describe(&e->loaded, folder, err);
    if (status || (status = open_data(e, o, folder, progress, err))) return status;
    const struct model_config *c = &e->loaded.model.config;
    if (o->padding >= c->vocab_size)
        return err_set(err, STATUS_USAGE,
                       "--padding %" PRId64 ": no token has this id, the model's vocabulary has %d",
                       o->padding, c->vocab_size);
    if ((status = cut_sequences(e, o, err))) return status;
    e->split.padding = o->padding;
    e->B = e->T < BATCH_TOKENS ? BATCH_TOKENS / e->T : 1;
    if ((uint64_t)e->B > e->split.sequences) e->B = (int)e->split.sequences;
    e->sequences = e->split.sequences;
    if (o->batches && (uint64_t)o->batches * (uint64_t)e->B < e->sequences)
        e->sequences = (uint64_t)o->batches * (uint64_t)e->B;
    size_t N = (size_t)e->B * (size_t)e->T;
    e->inputs = malloc(N * sizeof *e->inputs);
    e->targets = malloc(N * sizeof *e->targets);
    if (!e->inputs || !e->targets)
        return err_set(err, STATUS_NO_MEMORY, "evaluate: no memory for batches of %zu tokens", N);
    return loaded_model_load(&e->loaded, folder, o->device,
                             (struct loaded_wish){.B = e->B, .T = e->T, .allocator = allocator}, "evaluating",
                             err);
}

static void close_evaluation(struct evaluation *e)
{
    loaded_model_close(&e->loaded);
    split_release(&e->split);
    split_release(&e->none);
    corpus_close(&e->corpus);
    free(e->inputs);
    free(e->targets);
}

/* ---- measuring ---- */

/* Measures until the end or an interrupt. */
static enum status measure(struct evaluation *e, struct progress_bar *bar, struct err *err)
{
    struct network *net = &e->loaded.network;
    uint64_t T = (uint64_t)e->T;
    double start = clock_monotonic();
    while (e->done < e->sequences && !interrupt_requested()) {
        int b = e->sequences - e->done < (uint64_t)e->B ? (int)(e->sequences - e->done) : e->B;
        char suffix[48];
        split_batch(&e->split, e->done, b, e->inputs, e->targets);
        network_forward(net, (struct batch_view){.inputs = e->inputs, .B = b, .T = e->T});
        double nats = network_loss(net, (struct batch_view){.labels = e->targets, .B = b, .T = e->T});
        enum status status = net->backend->stream_wait(net->stream, err);
        if (status) return status; /* a failed device returns no valid loss */
        e->nats += nats;
        for (uint64_t i = 0; i < (uint64_t)b * T; i++) {
            size_t bytes = 0;
            if (e->targets[i] == LABEL_IGNORED) continue;
            e->labels++;
            if (e->corpus.tokenizer)
                tokenizer_token_bytes(e->corpus.tokenizer, (uint32_t)e->targets[i], &bytes);
            e->bytes += bytes;
        }
        e->done += (uint64_t)b;
        snprintf(suffix, sizeof suffix, "loss %s", TEXT_LOSS(e->labels ? e->nats / (double)e->labels : NAN));
        progress_bar_update(bar, "evaluating", "tokens", e->done * T, e->sequences * T, suffix);
    }
    e->seconds = clock_monotonic() - start;
    if (e->labels) return STATUS_OK;
    return interrupt_requested()
               ? err_set(err, STATUS_INTERRUPTED, "evaluate: interrupted")
               : err_set(err, STATUS_USAGE, "no token counts: all predicted tokens are --padding");
}

static enum status print_result(const struct evaluation *e, const char *folder, const struct options *o,
                                struct err *err)
{
    struct output out;
    double loss = e->nats / (double)e->labels;
    double bits_per_byte = e->bytes ? e->nats / M_LN2 / (double)e->bytes : NAN;
    output_begin(&out, o->json);
    OUTPUT_MEMBERS(&out, "checkpoint", folder, "data", o->data, "device", e->loaded.choice.info.short_name,
                   "loss", loss, "perplexity", exp(loss), "bits_per_byte", bits_per_byte, "tokens",
                   (int64_t)e->labels, "bytes", e->bytes ? (int64_t)e->bytes : -1);
    OUTPUT_MEMBERS(&out, "sequences", (int64_t)e->done, "of_sequences", (int64_t)e->sequences, "seq_len",
                   e->T, "left_out_tokens", (int64_t)e->tail, "seconds", e->seconds, "tokens_per_sec",
                   (double)e->done * e->T / e->seconds, "complete", (bool)(e->done == e->sequences));
    return output_end(&out, err);
}

static enum status evaluate_data(const char *folder, const struct options *o, enum allocator_kind allocator,
                                 const struct progress *progress, struct progress_bar *bar, struct err *err)
{
    struct evaluation e = {0};
    enum status status = open_evaluation(&e, o, folder, allocator, progress, err);
    if (!status) status = measure(&e, bar, err);
    progress_bar_clear(bar);
    if (!status) status = print_result(&e, folder, o, err);
    if (!status && e.done < e.sequences)
        status = err_set(err, STATUS_INTERRUPTED,
                         "evaluate: interrupted after %" PRIu64 " of %" PRIu64 " sequence%s", e.done,
                         e.sequences, text_plural((int64_t)e.sequences));
    close_evaluation(&e);
    return status;
}

static enum status check_options(const struct options *o, struct err *err)
{
    if (!o->data == !o->tasks)
        return err_set(err, STATUS_USAGE, "evaluate: needs --data DATA or --tasks FILE%s",
                       o->data ? ", not both" : "");
    if (o->tasks && (o->length || o->batches || o->padding >= 0))
        return err_set(err, STATUS_USAGE,
                       "evaluate: --seq-len, --batches and --padding do not go with --tasks");
    return STATUS_OK;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"evaluating", words->words[0], o->step, o->best};
    struct progress_bar bar;
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    enum status status = check_options(o, err);
    if (status) return status;
    struct progress progress = progress_bar_init(&bar, stderr, (enum progress_style)o->progress);
    status = model_choice_find(&model, folder, sizeof folder, &allocator, err);
    if (status) return status;
    return o->tasks ? evaluate_tasks(folder, o->tasks, o->device, allocator, o->json, &bar, err)
                    : evaluate_data(folder, o, allocator, &progress, &bar, err);
}

static const struct options defaults = {.device = "auto", .step = -1, .padding = -1};

static const struct option_spec options[] = {
    OPTION("data", OPTION_TEXT, AT(data), "DATA", "the text or the tokens to predict"),
    OPTION("tasks", OPTION_TEXT, AT(tasks), "FILE",
           "instead of DATA: multiple-choice questions to answer, one JSON object per line"),
    BEST_OPTION,
    STEP_OPTION,
    OPTION("seq-len", OPTION_WHOLE, AT(length), "T",
           "each token is predicted from at most T tokens before it (default: the longest that the model "
           "takes, but at most 1024 and no more than DATA has). A longer context usually predicts better, so "
           "compare models at the same length",
           .least = 1, .most = 1 << 20),
    OPTION("batches", OPTION_WHOLE, AT(batches), "N",
           "only the first N batches, of 4096 tokens or one sequence each (default: all)", .least = 1,
           .most = INT32_MAX),
    OPTION("padding", OPTION_WHOLE, AT(padding), "ID",
           "id of the token that fills up sequences; predicting it does not count", .most = 1 << 24),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, "where to compute (default auto)"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command command_evaluate = COMMAND(
    "evaluate", "RUN|FOLDER", 1, 1, options,
    "measure how well a checkpoint predicts a text (loss, perplexity, bits per byte) or answers questions",
    run, defaults,
    .about =
        "Measures how well a checkpoint predicts DATA: token files (.tok, llm.c's .bin), text files, folders "
        "or a recipe, as data.train takes them. Text is encoded with the checkpoint's own tokenizer.json. "
        "FOLDER is a checkpoint of anneal or Hugging Face: a config.json with model.safetensors, in shards "
        "or not, in fp32, bf16 or fp16. It may also be the name of an imported model (anneal model import). "
        "Weights are held as they are stored, fp16 as fp32. A GPU computes in bf16 if all matrices are bf16, "
        "else in fp32; the CPU always computes in fp32.",
    .notes =
        "  loss           mean of -ln p(next token), in nats: training lowers it. A model that guesses\n"
        "                 has ln(vocabulary)\n"
        "  perplexity     exp(loss): the number of equally likely tokens that the model seems to choose\n"
        "                 from\n"
        "  bits per byte  the same per byte of text: comparable between models whose tokens differ in\n"
        "                 length\n\n"
        "With --tasks FILE it answers multiple-choice questions instead: each line of FILE is a JSON object "
        "such as {\"context\": \"The sky is\", \"choices\": [\" blue\", \" loud\"], \"answer\": 0}. The "
        "model's "
        "answer is the choice whose tokens are likeliest after the context.\n\n"
        "  accuracy              share of right answers, by the likelihood of the whole choice\n"
        "  accuracy per byte     the same, by the likelihood per byte of the choice without blanks at its\n"
        "                        beginning: the usual score of HellaSwag, whose choices differ in length\n"
        "  accuracy of guessing  the expected accuracy of random answers\n\n"
        "Ctrl-C stops and prints what has been measured so far.\n\n"
        "  anneal evaluate latest --best --data held-out.txt\n"
        "  anneal evaluate ~/models/tiny-llama --data kjv --seq-len 512 --json\n"
        "  anneal evaluate latest --tasks hellaswag.jsonl");
