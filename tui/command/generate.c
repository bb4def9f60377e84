/* anneal generate: text from a checkpoint of a run, normally its newest, or from a checkpoint folder. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/generate/batch.h"
#include "core/generate/conversation.h"
#include "core/generate/ending.h"
#include "core/generate/generate.h"
#include "core/generate/inference.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/command/request.h"
#include "tui/command/writing.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *prompt, *batch, *stop, *adapter;
    int64_t max_tokens, step;
    struct sampling_options sampling;
    const char *device;
    int progress;
    bool best, json, verbose, chat, requests;
};

/* Encodes a prompt, with a conversation (else NULL) as a question in the chat format of the model. */
static enum status encode(const struct voice *v, struct conversation *conversation, const char *prompt,
                          size_t n, struct token_list *out, struct err *err)
{
    enum status status = prompt_check("the prompt", prompt, n, err);
    if (status) return status;
    if (!conversation) return tokenizer_encode_prompt(v->tokenizer, prompt, n, out, err);
    status = conversation_add(conversation, "user", prompt, n, err);
    if (status) return status;
    status = conversation_encode(conversation, out, err);
    conversation_remove_last(conversation);
    return status;
}

/* Encodes the prompt of the command line. */
static enum status encode_prompt(const struct voice *v, const struct options *o, struct token_list *out,
                                 struct err *err)
{
    struct conversation chat = {0};
    int most = v->loaded.model.config.max_seq_len;
    enum status status =
        o->chat ? conversation_open(&chat, v->loaded.words, NULL, v->tokenizer, err) : STATUS_OK;
    if (!status) status = encode(v, o->chat ? &chat : NULL, o->prompt, strlen(o->prompt), out, err);
    conversation_close(&chat);
    if (status) return status;
    if (o->chat && out->count >= (size_t)most)
        return err_set(err, STATUS_USAGE, "the prompt has %zu tokens, the model takes 1 to %d", out->count,
                       most - 1);
    if (!*o->prompt && !out->count) output_warn("the prompt is empty: the text begins after a new line");
    if (out->count > (size_t)most)
        output_warn("the prompt has %zu tokens and the model takes %d: it continues the last %d", out->count,
                    most, most);
    return STATUS_OK;
}

/* JSON keeps control characters, as escapes. */
static enum status print_json(const struct options *o, const struct growing_text *text,
                              const struct inference_record *r, struct err *err)
{
    struct output output;
    output_begin(&output, true);
    output_text(&output, "prompt", o->prompt);
    json_out_bytes(&output.out, "text", text->bytes ? text->bytes : "", text->n);
    output_text(&output, "end", text->end ? end_reason_words[text->end] : "interrupted");
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
    const struct ending ending = {&v->special, o->stop, o->max_tokens, .plain = o->chat};
    enum status status = STATUS_OK;
    size_t done = 0;
    while (!status && !text->end && !interrupt_requested() && !ferror(stdout)) {
        status = voice_draw(v, &sampling, &ending, text->tokens, text, err);
        if (o->chat && !done && text->n) done = tokenizer_added_start(v->tokenizer, text->bytes, text->n);
        if (!o->json) writing_show(text, &done);
    }
    text->final = text->n;
    if (!o->json) writing_show(text, &done);
    if (!o->json) putchar('\n'); /* before an error, too */
    return status;
}

static enum status write_text(struct voice *v, const struct options *o, const struct token_list *prompt,
                              struct err *err)
{
    struct growing_text text = {0};
    int cached = 0;
    enum status status = o->chat ? generator_set(&v->generator, prompt->ids, prompt->count, &cached, err)
                                 : generator_start(&v->generator, o->prompt, err);
    inference_begin(&v->inference, v->generator.length - cached);
    if (!status && !o->json && !o->chat) clean_print_raw(stdout, o->prompt, strlen(o->prompt));
    if (!status) status = draw_text(v, o, &text, err);
    struct inference_record record = inference_measure(&v->inference);
    if (!status && o->json) status = print_json(o, &text, &record, err);
    if (!status && *o->stop && text.end == END_LENGTH)
        output_say("the text of --stop did not come: it ends after %" PRId64 " token%s", text.tokens,
                   text_plural(text.tokens));
    int64_t length = (int64_t)prompt->count + text.tokens, most = v->loaded.model.config.max_seq_len;
    if (!status && length > most &&
        (int64_t)prompt->count <= most) /* a longer prompt has had its own warning */
        output_say("with the prompt it has %" PRId64 " tokens; the model has seen the last %" PRId64
                   " of them at a time",
                   length, most);
    if (!status) writing_record_measures(v->folder, &record);
    if (!status && o->verbose) writing_print_measures(&record);
    growing_text_release(&text);
    if (!status && interrupt_requested()) status = err_set(err, STATUS_INTERRUPTED, "generate: interrupted");
    return status;
}

/* Loads the model with room for so many tokens, unless it is there already. */
static enum status load(struct voice *v, const struct options *o, int64_t length, const char *folder,
                        enum allocator_kind allocator, struct err *err)
{
    enum { STEP = 1024 }; /* of the room that several texts share */
    int room = v->generator.most;
    if (room && (length <= room || room >= v->loaded.model.config.max_seq_len)) return STATUS_OK;
    if (o->requests) length += STEP - length % STEP;
    if (room) voice_close(v);
    enum status status = room ? voice_open(v, folder, o->adapter, err) : STATUS_OK;
    return status ? status : voice_load(v, o->device, 1, length, allocator, "generating", err);
}

static enum status generate_one(struct voice *v, const struct options *o, const char *folder,
                                enum allocator_kind allocator, struct err *err)
{
    struct token_list prompt = {0};
    enum status status = v->generator.most ? STATUS_OK : voice_open(v, folder, o->adapter, err);
    if (!status) status = encode_prompt(v, o, &prompt, err);
    int64_t length = (int64_t)prompt.count + !prompt.count + o->max_tokens; /* an empty prompt becomes one */
    if (!status) status = load(v, o, length, folder, allocator, err);
    if (!status) status = write_text(v, o, &prompt, err);
    token_list_release(&prompt);
    return status;
}

/* ---- many prompts ---- */

enum { BATCH_SLOTS = 8 }; /* texts that are written at the same time */

/* The prompts of a file, one a line, and their texts. */
struct prompt_file {
    const struct options *options;
    struct file_map map;
    struct conversation conversation; /* with --chat */
    struct batch_text *texts;
    struct prompt_line {
        const char *text; /* borrowed from the map */
        size_t length;
    } * lines; /* (count) */
    size_t count, text_capacity, line_capacity, printed, ended;
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
    conversation_close(&f->conversation);
    file_map_close(&f->map);
}

static enum status add_prompt(struct prompt_file *f, const struct voice *v, const char *line, size_t n,
                              size_t number, struct err *err)
{
    int V = v->loaded.model.config.vocab_size, most = v->loaded.model.config.max_seq_len;
    if (!list_reserve(&f->texts, f->count, 1, &f->text_capacity, sizeof *f->texts) ||
        !list_reserve(&f->lines, f->count, 1, &f->line_capacity, sizeof *f->lines))
        return err_no_memory(err, "%zu prompts", f->count);
    struct batch_text *text = &f->texts[f->count];
    f->lines[f->count++] = (struct prompt_line){line, n};
    *text = (struct batch_text){0};
    enum status status = encode(v, f->options->chat ? &f->conversation : NULL, line, n, &text->prompt, err);
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
    at += utf8_mark(at, f->map.size);
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
    json_out_bytes(&out, "prompt", f->lines[i].text, f->lines[i].length);
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
            "%zu texts: %" PRId64 " token%s read and %" PRId64 " written in %s, %s tokens/s written\n",
            f->ended, read, text_plural(read), written, CLOCK_DURATION(seconds),
            TEXT_SHORT(seconds > 0 ? (double)written / seconds : 0));
}

/* A text alone goes on there: it drops its oldest tokens. The texts of a batch share one cache, where that is
 * not possible. */
static void warn_of_context(const struct prompt_file *f, int context)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) count += f->texts[i].text.end == END_CONTEXT;
    if (count)
        output_warn("%zu of %zu texts ended before --max-tokens, where prompt and text filled the model's "
                    "context of %d tokens (to continue a prompt beyond it, give it alone, with --prompt "
                    "instead of --batch)",
                    count, f->count, context);
}

static enum status generate_batch(struct voice *v, const struct options *o, const char *folder,
                                  enum allocator_kind allocator, struct err *err)
{
    struct prompt_file f = {.options = o};
    progress_bar_init(&f.bar, stderr, o->progress);
    enum status status = voice_open(v, folder, o->adapter, err);
    if (!status && o->chat)
        status = conversation_open(&f.conversation, v->loaded.words, NULL, v->tokenizer, err);
    if (!status) status = read_prompts(&f, v, err);
    int slots = f.count < BATCH_SLOTS ? (int)f.count : BATCH_SLOTS;
    if (!status)
        status = voice_load(v, o->device, slots, f.longest + o->max_tokens, allocator, "generating", err);
    const struct batch batch = {
        .network = &v->loaded.network,
        .tokenizer = v->tokenizer,
        .sampling = sampling_of(&o->sampling),
        .ending = {.special = &v->special, .stop = o->stop, .max_tokens = o->max_tokens, .plain = o->chat},
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
    if (!status) warn_of_context(&f, v->loaded.model.config.max_seq_len);
    if (!status && o->verbose) print_batch_speed(&f, clock_monotonic() - start);
    if (!status && interrupt_requested())
        status = err_set(err, STATUS_INTERRUPTED, "generate: interrupted after %zu of %zu texts", f.ended,
                         f.count);
    close_prompts(&f);
    return status;
}

/* ---- requests ---- */

/* The checkpoint that was found last. It is looked for again only when the folder of checkpoints has
 * changed: finding one reads all of it. */
struct found {
    bool best;
    int64_t step;
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    struct timespec changed;
    struct checkpoint_hold hold; /* until the request is answered */
};

static struct timespec change_of(const char *folder)
{
    char parent[PATH_MAX + 4];
    struct stat now;
    snprintf(parent, sizeof parent, "%s/..", folder);
    return stat(parent, &now) ? (struct timespec){0} : now.st_mtim;
}

static enum status find(struct found *found, const struct options *o, const char *model, struct err *err)
{
    struct timespec now = change_of(found->folder);
    struct model_choice choice = {"generating", model, o->step, o->best, {0}};
    if (*found->folder && found->step == o->step && found->best == o->best &&
        memcmp(&found->changed, &now, sizeof now) == 0)
        return STATUS_OK;
    enum status status =
        model_choice_find(&choice, found->folder, sizeof found->folder, &found->allocator, err);
    found->hold = choice.hold;
    found->step = o->step;
    found->best = o->best;
    found->changed = change_of(found->folder);
    if (status) *found->folder = '\0';
    return status;
}

static enum status answer(struct voice *v, struct found *found, const struct options *o,
                          const struct options *before, const char *model, struct err *err)
{
    if (o->batch || o->adapter != before->adapter || strcmp(o->device, before->device) != 0)
        return err_set(err, STATUS_USAGE, "--batch, --adapter and --device are for the command line");
    enum status status = find(found, o, model, err);
    if (!status && (!v->generator.most || strcmp(found->folder, v->folder) != 0)) voice_close(v);
    if (!status) status = generate_one(v, o, found->folder, found->allocator, err);
    return checkpoint_hold_end(&found->hold, found->folder, status, err);
}

/* Ctrl-C ends a text, the end of the input the command. Each text or error is followed by a NUL. A request
 * that fails is reported at once, and the command fails when the input has ended; a text that Ctrl-C has
 * ended is no failure. */
static enum status generate_requests(struct voice *v, const struct options *o, const struct words *words,
                                     struct err *err)
{
    struct line_input *in = NULL;
    struct found found = {0};
    size_t asked = 0, failed = 0;
    enum status status = line_input_open("", &in, err);
    while (!status && !ferror(stdout)) {
        struct options options = *o;
        struct request request;
        struct err why = {0};
        enum status answered = STATUS_OK; /* `why` may hold an error that was mended */
        status = request_read(in, &command_generate.line, words, &options, &request, err);
        if (status == STATUS_USAGE)
            why = *err, answered = status;
        else if (!status)
            answered = answer(v, &found, &options, o, words->words[0], &why);
        request_release(&request);
        if (status && status != STATUS_USAGE) break;
        status = interrupt_signal() == SIGTERM ? STATUS_INTERRUPTED : STATUS_OK;
        if (!status) interrupt_forget();
        asked++;
        if (answered && answered != STATUS_INTERRUPTED) {
            failed++;
            output_say("%s", why.text);
        }
        putchar('\0');
        fflush(stdout);
    }
    line_input_close(in);
    if (status == STATUS_INTERRUPTED) return err_set(err, status, "generate: interrupted");
    if (status && status != STATUS_NOT_FOUND) return status;
    if (!failed || ferror(stdout)) return STATUS_OK; /* the caller checks standard output */
    return err_set(err, STATUS_FAILED, "generate: %zu of %zu request%s failed (the reasons are above)",
                   failed, asked, text_plural((int64_t)asked));
}

static const char default_prompt[] = "\n";

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"generating", words->words[0], o->step, o->best, {0}};
    struct voice voice = {0};
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    enum status status = STATUS_OK;
    if (o->batch && o->prompt != default_prompt)
        return err_set(err, STATUS_USAGE, "give --prompt or --batch, not both");
    if (o->batch && o->requests)
        return err_set(err, STATUS_USAGE, "--batch and --requests do not go together (leave one out)");
    interrupt_catch();
    if (o->requests) {
        status = generate_requests(&voice, o, words, err);
    } else {
        status = model_choice_find(&model, folder, sizeof folder, &allocator, err);
        if (!status) status = (o->batch ? generate_batch : generate_one)(&voice, o, folder, allocator, err);
        status = checkpoint_hold_end(&model.hold, folder, status, err);
    }
    voice_close(&voice);
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
    OPTION(
        "chat", OPTION_FLAG, AT(chat), NULL,
        "the prompt, or each line of --batch, is a question, which the model answers in its own format (its "
        "chat template)"),
    OPTION("batch", OPTION_TEXT, AT(batch), "FILE",
           "continue every line of FILE that is not empty, several at a time; prints one JSON object a line, "
           "in the same order. A text also ends where it has filled the model's context: its end is then "
           "context"),
    OPTION(
        "requests", OPTION_FLAG, AT(requests), NULL,
        "keep the model loaded and answer requests from standard input: each is options of this command, "
        "one a line, such as --seed=2, up to an empty line. Options that it leaves out are those of "
        "the command line, \\n in a line is a new line, \\\\ a backslash, and a zero byte follows each text. "
        "A request that fails has no text or an unfinished one, its reason is on standard error, and the "
        "exit status is 1 after the last request"),
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
           "where to compute (default cpu), in bf16 if all matrices are stored in it and the device "
           "multiplies it faster, else in fp32"),
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
                     "config.json), or with an imported model, given by its name (anneal model import).",
            .notes = "  anneal generate latest --prompt 'In the beginning'\n"
                     "  anneal generate latest --best --temperature 0 --max-tokens 50\n"
                     "  anneal generate latest --batch prompts.txt > texts.jsonl");
