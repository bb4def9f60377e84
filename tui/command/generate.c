/* anneal generate: text from a checkpoint of a run, normally its newest, or from a checkpoint folder. */
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/generate/generate.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/session/loaded_model.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *prompt;
    int64_t max_tokens, top_k, seed, step;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty;
    const char *device;
    bool best, json;
};

/* All that generation holds open. */
struct voice {
    struct loaded_model loaded;
    struct tokenizer *tokenizer;
    struct generator generator;
};

enum { PIECE = 512 }; /* tokens of a prompt that are computed in one pass */

/* How many tokens prompt and text have together, or more. */
static enum status count_tokens(const struct voice *v, const struct options *o, int *out, struct err *err)
{
    struct token_list list = {0};
    enum status status = tokenizer_encode_prompt(v->tokenizer, o->prompt, strlen(o->prompt), &list, err);
    int64_t tokens = (list.count ? (int64_t)list.count : 1) + o->max_tokens; /* an empty prompt becomes one */
    *out = tokens < INT_MAX ? (int)tokens : INT_MAX;
    token_list_release(&list);
    return status;
}

static enum status open_voice(struct voice *v, const char *folder, const struct options *o,
                              enum allocator_kind allocator, struct err *err)
{
    char path[PATH_MAX + 32];
    struct loaded_wish wish = {.B = 1, .T = PIECE, .cache_slots = 1, .allocator = allocator};
    enum status status = loaded_model_describe(&v->loaded, folder, err);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!status && !file_exists(path))
        status = err_set(err, STATUS_NOT_FOUND,
                         "%s: does not exist: the model was trained on token files that name no tokenizer "
                         "(copy their tokenizer.json there)",
                         path);
    if (!status) status = tokenizer_open_json(path, &v->tokenizer, err);
    if (!status) status = count_tokens(v, o, &wish.cache_length, err);
    if (wish.T > wish.cache_length) wish.T = wish.cache_length;
    if (!status) status = loaded_model_load(&v->loaded, folder, o->device, wish, "generating", err);
    return status ? status : generator_open(&v->generator, &v->loaded.network, v->tokenizer, err);
}

static void close_voice(struct voice *v)
{
    generator_close(&v->generator);
    tokenizer_close(v->tokenizer);
    loaded_model_close(&v->loaded);
}

/* Prints the complete characters of text[*done..length) and advances *done: a terminal gets no control
 * characters and no half characters. */
static void print_new_text(const char *text, size_t length, size_t *done)
{
    char clean[1024];
    while (*done < length) {
        size_t n = length - *done < sizeof clean / 4 ? length - *done : sizeof clean / 4;
        size_t complete = n - utf8_incomplete_tail(text + *done, n);
        if (!complete) break;
        clean_block(clean, sizeof clean, text + *done, complete);
        fputs(clean, stdout);
        *done += complete;
    }
    fflush(stdout);
}

static enum status write_text(struct voice *v, const struct options *o, struct err *err)
{
    const struct sampling sampling = {.repetition_penalty = o->repetition_penalty,
                                      .presence_penalty = o->presence_penalty,
                                      .temperature = o->temperature,
                                      .top_k = (int)o->top_k,
                                      .top_p = o->top_p,
                                      .min_p = o->min_p,
                                      .seed = (uint64_t)o->seed};
    struct output output;
    char *text = NULL;
    size_t length = 0, done = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return err_set(err, STATUS_NO_MEMORY, "generate: no memory for the text");
    enum status status = generator_start(&v->generator, o->prompt, err);
    if (!status && !o->json) fputs(o->prompt, stdout);
    for (int64_t i = 0; !status && i < o->max_tokens && !interrupt_requested(); i++) {
        size_t n;
        uint32_t token = generator_next(&v->generator, &sampling, i);
        status = v->loaded.network.backend->stream_wait(v->loaded.network.stream, err);
        if (status) break; /* a failed device returns no valid token */
        const char *piece = tokenizer_token_bytes(v->tokenizer, token, &n);
        fwrite(piece, 1, n, out);
        if (fflush(out) != 0) status = err_set(err, STATUS_NO_MEMORY, "generate: no memory for the text");
        if (!o->json) print_new_text(text, length, &done);
        if (ferror(stdout)) break;
    }
    fclose(out);
    if (!o->json && (done > 0 || !status)) putchar('\n'); /* before an error, too */
    if (!status && o->json) { /* JSON output keeps control characters, as escapes */
        output_begin(&output, true);
        output_text(&output, "prompt", o->prompt);
        json_out_bytes(&output.out, "text", text, length);
        status = output_end(&output, err);
    }
    free(text);
    if (!status && interrupt_requested()) status = err_set(err, STATUS_INTERRUPTED, "generate: interrupted");
    return status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"generating", words->words[0], o->step, o->best};
    struct voice voice = {0};
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    interrupt_catch();
    enum status status = model_choice_find(&model, folder, sizeof folder, &allocator, err);
    if (!status) status = open_voice(&voice, folder, o, allocator, err);
    if (!status) status = write_text(&voice, o, err);
    close_voice(&voice);
    return status;
}

static const struct options defaults = {.prompt = "\n",
                                        .max_tokens = 200,
                                        .top_k = 50,
                                        .seed = 1,
                                        .step = -1,
                                        .temperature = 0.8,
                                        .top_p = 1,
                                        .repetition_penalty = 1,
                                        .device = "cpu"};

static const struct option_spec options[] = {
    OPTION("prompt", OPTION_ANY_TEXT, AT(prompt), "TEXT", "the text to continue (default: a new line)"),
    BEST_OPTION,
    STEP_OPTION,
    OPTION("max-tokens", OPTION_WHOLE, AT(max_tokens), "N", "number of tokens to add (default 200)",
           .least = 1, .most = 999999),
    OPTION("temperature", OPTION_NUMBER, AT(temperature), "T",
           "above 1 more random, below 1 less; 0: always the likeliest token (default 0.8)", .most = 1000),
    OPTION("top-k", OPTION_WHOLE, AT(top_k), "K",
           "draw only from the K likeliest tokens; 0: from all (default 50)", .most = 1 << 24),
    OPTION("top-p", OPTION_NUMBER, AT(top_p), "P",
           "draw only from the likeliest tokens whose probabilities add up to P (default 1: from all)",
           .least = 1e-9, .most = 1),
    OPTION("min-p", OPTION_NUMBER, AT(min_p), "P",
           "draw only from tokens at least P times as likely as the likeliest; 0: from all (default 0)",
           .most = 1),
    OPTION("repetition-penalty", OPTION_NUMBER, AT(repetition_penalty), "R",
           "make tokens of the prompt and the text less likely: divides their positive logits by R; 1: no "
           "penalty (default 1)",
           .least = 0.01, .most = 100),
    OPTION("presence-penalty", OPTION_NUMBER, AT(presence_penalty), "D",
           "subtract D from the logits of tokens that the text has already (default 0)", .least = -100,
           .most = 100),
    OPTION("seed", OPTION_WHOLE, AT(seed), "S", "the same seed gives the same text (default 1)"),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS,
           "where to compute (default cpu): in fp32, or on a GPU in bf16 if all matrices are stored in bf16"),
    JSON_OPTION,
    {0},
};

const struct command command_generate =
    COMMAND("generate", "RUN|FOLDER", 1, 1, options, "continue a text", run, defaults,
            .about = "Continues TEXT with the newest checkpoint of RUN, with a checkpoint folder (it holds a "
                     "config.json), or with an imported model, given by its name (anneal model import).");
