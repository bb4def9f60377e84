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
#include "core/generate/batch.h"
#include "core/generate/ending.h"
#include "core/generate/generate.h"
#include "core/generate/inference.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/command/writing.h"
#include "tui/session/loaded_model.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *prompt, *batch, *stop, *adapter;
    int64_t max_tokens, step;
    struct sampling_options sampling;
    const char *device;
    int progress;
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

/* How many tokens prompt and text have together, or more. */
static enum status count_tokens(const struct voice *v, const struct options *o, int *out, struct err *err)
{
    struct token_list list = {0};
    enum status status = prompt_check("the prompt", o->prompt, strlen(o->prompt), err);
    if (!status) status = tokenizer_encode_prompt(v->tokenizer, o->prompt, strlen(o->prompt), &list, err);
    if (!status && !*o->prompt && !list.count)
        output_warn("the prompt is empty: the text begins after a new line");
    int most = v->loaded.model.config.max_seq_len;
    if (!status && list.count > (size_t)most)
        output_warn("the prompt has %zu tokens and the model takes %d: it continues the last %d", list.count,
                    most, most);
    int64_t tokens = (list.count ? (int64_t)list.count : 1) + o->max_tokens; /* an empty prompt becomes one */
    *out = tokens < INT_MAX ? (int)tokens : INT_MAX;
    token_list_release(&list);
    return status;
}

/* Opens what comes before the size of the cache is known. */
static enum status open_tokenizer(struct voice *v, const char *folder, const char *adapter, struct err *err)
{
    enum status status = loaded_model_describe(&v->loaded, folder, adapter, LOADED_WRITER, err);
    if (!status) status = loaded_model_tokenizer(v->loaded.words, &v->tokenizer, err);
    return status ? status : special_tokens_read(v->loaded.words, &v->special, err);
}

static enum status load(struct voice *v, const struct options *o, int slots, int length,
                        enum allocator_kind allocator, struct err *err)
{
    struct loaded_wish wish = loaded_wish_cached(slots, length, allocator);
    return loaded_model_load(&v->loaded, o->device, wish, "generating", err);
}

static void close_voice(struct voice *v)
{
    inference_release(&v->inference);
    generator_close(&v->generator);
    tokenizer_close(v->tokenizer);
    loaded_model_close(&v->loaded);
}

static const char *end_word(const struct growing_text *text)
{
    return text->end ? end_reason_words[text->end] : "interrupted";
}

/* JSON keeps control characters, as escapes. */
static enum status print_json(const struct options *o, const struct growing_text *text,
                              const struct inference_record *r, struct err *err)
{
    struct output output;
    output_begin(&output, true);
    output_text(&output, "prompt", o->prompt);
    json_out_bytes(&output.out, "text", text->bytes ? text->bytes : "", text->n);
    output_text(&output, "end", end_word(text));
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
        if (!status) status = sampler_check(&v->generator.sampler, err);
        if (status) break; /* a failed device returns no valid token */
        status = inference_token(&v->inference, err);
        if (!status) status = growing_text_add(text, &ending, v->tokenizer, token, err);
        if (!o->json) writing_show(text, &done);
    }
    text->final = text->n;
    if (!o->json) writing_show(text, &done);
    if (!o->json) putchar('\n'); /* before an error, too */
    return status;
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
    if (!status && *o->stop && text.end == END_LENGTH)
        output_say("the text of --stop did not come: it ends after %" PRId64 " token%s", text.tokens,
                   text_plural(text.tokens));
    if (!status && o->verbose) writing_print_measures(&record);
    if (!status) writing_record_measures(folder, &record);
    growing_text_release(&text);
    if (!status && interrupt_requested()) status = err_set(err, STATUS_INTERRUPTED, "generate: interrupted");
    return status;
}

static enum status generate_one(struct voice *v, const struct options *o, const char *folder,
                                enum allocator_kind allocator, struct err *err)
{
    int length = 0;
    enum status status = count_tokens(v, o, &length, err);
    if (!status) status = load(v, o, 1, length, allocator, err);
    if (!status) status = generator_open(&v->generator, &v->loaded.network, v->tokenizer, err);
    return status ? status : write_text(v, o, folder, err);
}

/* ---- many prompts ---- */

enum { BATCH_SLOTS = 8 }; /* texts that are written at the same time */

/* The prompts of a file, one a line, and their texts. */
struct prompt_file {
    const struct options *options;
    struct file_map map;
    struct batch_text *texts;
    const char **lines; /* (count) with their lengths, borrowed from the map */
    size_t *lengths, count, capacity, printed, ended;
    int longest; /* tokens of the longest prompt */
    int error;   /* errno of standard output */
    struct progress_bar bar;
};

static void close_prompts(struct prompt_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        token_list_release(&f->texts[i].prompt);
        growing_text_release(&f->texts[i].text);
    }
    free(f->texts);
    free(f->lines);
    free(f->lengths);
    file_map_close(&f->map);
}

static enum status add_prompt(struct prompt_file *f, const struct voice *v, const char *line, size_t n,
                              size_t number, struct err *err)
{
    int V = v->loaded.model.config.vocab_size, most = v->loaded.model.config.max_seq_len;
    size_t texts = f->capacity, lines = f->capacity, lengths = f->capacity;
    if (!list_reserve(&f->texts, f->count, 1, &texts, sizeof *f->texts) ||
        !list_reserve(&f->lines, f->count, 1, &lines, sizeof *f->lines) ||
        !list_reserve(&f->lengths, f->count, 1, &lengths, sizeof *f->lengths))
        return err_no_memory(err, "%zu prompts", f->count);
    f->capacity = lengths;
    struct batch_text *text = &f->texts[f->count];
    f->lines[f->count] = line;
    f->lengths[f->count++] = n;
    *text = (struct batch_text){0};
    enum status status = prompt_check("the prompt", line, n, err);
    if (!status) status = tokenizer_encode_prompt(v->tokenizer, line, n, &text->prompt, err);
    for (size_t i = 0; !status && i < text->prompt.count; i++)
        if (text->prompt.ids[i] >= (uint32_t)V)
            status = err_set(err, STATUS_USAGE, "token %u is outside the model's vocabulary of %d",
                             text->prompt.ids[i], V);
    if (!status && (text->prompt.count == 0 || text->prompt.count >= (size_t)most))
        status = err_set(err, STATUS_USAGE, "the prompt has %zu tokens, the model takes 1 to %d",
                         text->prompt.count, most - 1);
    if (status) return err_prefix(err, "%s: line %zu", f->options->batch, number);
    if ((int)text->prompt.count > f->longest) f->longest = (int)text->prompt.count;
    return STATUS_OK;
}

/* Empty lines are skipped. */
static enum status read_prompts(struct prompt_file *f, const struct voice *v, struct err *err)
{
    enum status status = file_map_open(f->options->batch, &f->map, err);
    const char *at = (const char *)f->map.data, *end = at + f->map.size;
    for (size_t number = 1; !status && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        size_t n = (size_t)(stop - at);
        if (n && at[n - 1] == '\r') n--;
        if (n) status = add_prompt(f, v, at, n, number, err);
        at = newline ? newline + 1 : end;
    }
    if (!status && !f->count)
        status = err_set(err, STATUS_USAGE, "%s: holds no prompt (write one a line)", f->options->batch);
    return status;
}

/* One JSON object on a line. */
static void print_object(struct prompt_file *f, size_t i)
{
    const struct batch_text *t = &f->texts[i];
    struct json_out out;
    json_out_begin(&out, stdout);
    json_out_open(&out, NULL, '{', JSON_OUT_FLAT);
    json_out_bytes(&out, "prompt", f->lines[i], f->lengths[i]);
    json_out_bytes(&out, "text", t->text.n ? t->text.bytes : "", t->text.n);
    json_out_text(&out, "end", end_reason_words[t->text.end]);
    json_out_int(&out, "prompt_tokens", (int64_t)t->prompt.count);
    json_out_int(&out, "new_tokens", t->text.tokens);
    json_out_close(&out);
    int error = json_out_finish(&out);
    if (!f->error) f->error = error;
}

/* Prints the texts that have ended, in the order of the file: up to the first that has not, or with `all`
 * past it. */
static void print_ended(struct prompt_file *f, bool all)
{
    for (; f->printed < f->count && (all || f->texts[f->printed].text.end); f->printed++)
        if (f->texts[f->printed].text.end) print_object(f, f->printed);
    fflush(stdout);
}

static void on_ended(void *context, size_t text)
{
    struct prompt_file *f = context;
    (void)text;
    print_ended(f, false);
    progress_bar_update(&f->bar, "generating", "texts", ++f->ended, f->count, NULL);
}

static bool on_stop(void *context)
{
    (void)context;
    return interrupt_requested() || ferror(stdout);
}

static void print_batch_speed(const struct prompt_file *f, double seconds)
{
    int64_t read = 0, written = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (!f->texts[i].text.tokens) continue;
        read += (int64_t)f->texts[i].prompt.count;
        written += f->texts[i].text.tokens;
    }
    fprintf(stderr,
            "%zu texts: %" PRId64 " token%s read and %" PRId64 " written in %s, %.3g tokens/s written\n",
            f->ended, read, text_plural(read), written, CLOCK_DURATION(seconds),
            seconds > 0 ? (double)written / seconds : 0);
}

static enum status generate_batch(struct voice *v, const struct options *o, const char *folder,
                                  enum allocator_kind allocator, struct err *err)
{
    (void)folder;
    struct prompt_file f = {.options = o};
    progress_bar_init(&f.bar, stderr, (enum progress_style)o->progress);
    enum status status = read_prompts(&f, v, err);
    int slots = f.count < BATCH_SLOTS ? (int)f.count : BATCH_SLOTS;
    if (!status) status = load(v, o, slots, f.longest + (int)o->max_tokens, allocator, err);
    const struct batch batch = {
        .network = &v->loaded.network,
        .tokenizer = v->tokenizer,
        .sampling = sampling_of(&o->sampling),
        .ending = {.special = &v->special, .stop = o->stop, .max_tokens = o->max_tokens},
        .texts = f.texts,
        .count = f.count,
        .context = &f,
        .stop = on_stop,
        .ended = on_ended};
    double start = clock_monotonic();
    if (!status) status = batch_write(&batch, err);
    progress_bar_clear(&f.bar);
    print_ended(&f, true);
    if (!status && f.error)
        status = err_set(err, STATUS_IO, "standard output: cannot write: %s", strerror(f.error));
    if (!status && o->verbose) print_batch_speed(&f, clock_monotonic() - start);
    if (!status && interrupt_requested())
        status = err_set(err, STATUS_INTERRUPTED, "generate: interrupted after %zu of %zu texts", f.ended,
                         f.count);
    close_prompts(&f);
    return status;
}

static const char default_prompt[] = "\n";

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"generating", words->words[0], o->step, o->best};
    struct voice voice = {0};
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    if (o->batch && o->prompt != default_prompt)
        return err_set(err, STATUS_USAGE, "give --prompt or --batch, not both");
    interrupt_catch();
    enum status status = model_choice_find(&model, folder, sizeof folder, &allocator, err);
    if (!status) status = open_tokenizer(&voice, folder, o->adapter, err);
    if (!status) status = (o->batch ? generate_batch : generate_one)(&voice, o, folder, allocator, err);
    close_voice(&voice);
    return status;
}

static const struct options defaults = {.prompt = default_prompt,
                                        .stop = "",
                                        .max_tokens = 200,
                                        .step = -1,
                                        .sampling = SAMPLING_DEFAULTS,
                                        .device = "cpu"};

static const struct option_spec options[] = {
    OPTION("prompt", OPTION_ANY_TEXT, AT(prompt), "TEXT", "the text to continue (default: a new line)"),
    OPTION("batch", OPTION_TEXT, AT(batch), "FILE",
           "continue every line of FILE that is not empty, several at a time; prints one JSON object a line, "
           "in the same order"),
    ADAPTER_OPTION,
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
           "also print, on standard error, how fast the prompt was read and the text written (with --batch, "
           "all texts together)"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command command_generate =
    COMMAND("generate", "RUN|FOLDER", 1, 1, options, "continue a text", run, defaults,
            .about = "Continues TEXT with the newest checkpoint of RUN, with a checkpoint folder (it holds a "
                     "config.json), or with an imported model, given by its name (anneal model import).");
