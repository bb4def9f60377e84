/* anneal generate: text from a checkpoint of a run, normally its newest, or from a checkpoint folder. */
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/generate/ending.h"
#include "core/generate/generate.h"
#include "core/generate/inference.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/writing.h"
#include "tui/session/loaded_model.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *prompt, *stop;
    int64_t max_tokens, step;
    struct sampling_options sampling;
    const char *device;
    bool best, json, verbose;
};

/* All that generation holds open. */
struct voice {
    struct loaded_model loaded;
    struct tokenizer *tokenizer;
    struct special_tokens special;
    struct generator generator;
    struct inference inference;
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
    if (!status) status = special_tokens_read(folder, &v->special, err);
    if (!status) status = count_tokens(v, o, &wish.cache_length, err);
    if (wish.T > wish.cache_length) wish.T = wish.cache_length;
    if (!status) status = loaded_model_load(&v->loaded, folder, o->device, wish, "generating", err);
    return status ? status : generator_open(&v->generator, &v->loaded.network, v->tokenizer, err);
}

static void close_voice(struct voice *v)
{
    inference_release(&v->inference);
    generator_close(&v->generator);
    tokenizer_close(v->tokenizer);
    loaded_model_close(&v->loaded);
}

/* JSON keeps control characters, as escapes. */
static enum status print_json(const struct options *o, const struct growing_text *text,
                              const struct inference_record *r, struct err *err)
{
    struct output output;
    output_begin(&output, true);
    output_text(&output, "prompt", o->prompt);
    json_out_bytes(&output.out, "text", text->bytes ? text->bytes : "", text->n);
    output_text(&output, "end", end_reason_words[text->end]);
    OUTPUT_MEMBERS(&output, "prompt_tokens", r->prompt_tokens, "new_tokens", r->new_tokens,
                   "time_to_first_token_ms", r->time_to_first_token_ms, "latency_median_ms",
                   r->latency_median_ms, "latency_p95_ms", r->latency_p95_ms);
    OUTPUT_MEMBERS(&output, "prefill_tokens_per_sec", r->prefill_tokens_per_sec, "decode_tokens_per_sec",
                   r->decode_tokens_per_sec, "total_ms", r->total_ms);
    return output_end(&output, err);
}

/* Draws tokens until the text ends or the user interrupts it, and shows the text meanwhile. */
static enum status draw_text(struct voice *v, const struct options *o, struct growing_text *text,
                             struct err *err)
{
    const struct sampling sampling = sampling_of(&o->sampling);
    const struct ending ending = {.special = &v->special, .stop = o->stop, .max_tokens = o->max_tokens};
    enum status status = STATUS_OK;
    size_t done = 0;
    while (!status && !text->end && !interrupt_requested() && !ferror(stdout)) {
        uint32_t token = generator_next(&v->generator, &sampling, text->tokens);
        status = v->loaded.network.backend->stream_wait(v->loaded.network.stream, err);
        if (status) break; /* a failed device returns no valid token */
        status = inference_token(&v->inference, err);
        if (!status) status = growing_text_add(text, &ending, v->tokenizer, token, err);
        if (!o->json) writing_show(text, &done);
    }
    text->final = text->n;
    if (!o->json) writing_show(text, &done);
    if (!o->json && (done > 0 || !status)) putchar('\n'); /* before an error, too */
    return status;
}

/* Stores the measures with the run that the checkpoint belongs to. A store that cannot be written costs a
 * warning only: the text is there. */
static void record_measures(const char *folder, struct inference_record *record)
{
    char id[RUN_ID_MAX];
    struct store *store;
    struct err why = {0};
    if (!record->new_tokens || !recorded_run_of(folder, id)) return;
    record->wall_time = clock_wall();
    record->checkpoint = strrchr(folder, '/') + 1;
    enum status status = store_open(NULL, false, &store, &why);
    if (!status) status = run_add_inference(store, id, record, &why);
    if (status) output_warn("the speed is not recorded: %s", why.text);
    store_close(store);
}

static enum status write_text(struct voice *v, const struct options *o, const char *folder, struct err *err)
{
    struct growing_text text = {0};
    enum status status = generator_start(&v->generator, o->prompt, err);
    inference_begin(&v->inference, v->generator.length);
    if (!status && !o->json) fputs(o->prompt, stdout);
    if (!status) status = draw_text(v, o, &text, err);
    struct inference_record record = inference_measure(&v->inference);
    if (!status && o->json) status = print_json(o, &text, &record, err);
    if (!status && o->verbose) writing_print_measures(&record);
    if (!status) record_measures(folder, &record);
    growing_text_release(&text);
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
    if (!status) status = write_text(&voice, o, folder, err);
    close_voice(&voice);
    return status;
}

static const struct options defaults = {.prompt = "\n",
                                        .stop = "",
                                        .max_tokens = 200,
                                        .step = -1,
                                        .sampling = SAMPLING_DEFAULTS,
                                        .device = "cpu"};

static const struct option_spec options[] = {
    OPTION("prompt", OPTION_ANY_TEXT, AT(prompt), "TEXT", "the text to continue (default: a new line)"),
    BEST_OPTION,
    STEP_OPTION,
    OPTION("max-tokens", OPTION_WHOLE, AT(max_tokens), "N", "number of tokens to add (default 200)",
           .least = 1, .most = 999999),
    OPTION("stop", OPTION_TEXT, AT(stop), "TEXT",
           "end before this text, as soon as the model writes it; the model's own end token always ends the "
           "text"),
    SAMPLING_OPTIONS,
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS,
           "where to compute (default cpu): in fp32, or on a GPU in bf16 if all matrices are stored in bf16"),
    OPTION("verbose", OPTION_FLAG, AT(verbose), NULL,
           "also print, on standard error, how fast the prompt was read and the text written"),
    JSON_OPTION,
    {0},
};

const struct command command_generate =
    COMMAND("generate", "RUN|FOLDER", 1, 1, options, "continue a text", run, defaults,
            .about = "Continues TEXT with the newest checkpoint of RUN, with a checkpoint folder (it holds a "
                     "config.json), or with an imported model, given by its name (anneal model import).");
