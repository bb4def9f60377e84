/* anneal chat: a conversation with a model in its own format, line by line, on a terminal or through a pipe.
 */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/generate/conversation.h"
#include "core/generate/ending.h"
#include "core/generate/generate.h"
#include "core/generate/inference.h"
#include "tui/command/command.h"
#include "tui/command/line_input.h"
#include "tui/command/output.h"
#include "tui/command/writing.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *system, *template, *stop, *device, *adapter;
    int64_t max_tokens, context, step;
    struct sampling_options sampling;
    bool best, verbose;
};

/* All that a conversation holds open. */
struct chat {
    const struct options *options;
    bool terminal; /* standard input is one */
    bool leave;
    bool forgets; /* it was said that the oldest messages are forgotten */
    struct line_input *input;
    struct voice voice;
    struct conversation conversation;
    int64_t draws; /* of the whole conversation, so that a repeated answer is another one */
    struct inference_record measures; /* of the last answer */
    int kept;                         /* tokens that were in the cache before it */
};

/* ---- answers ---- */

/* The tokens that are left for the conversation so far when there is to be room for an answer. */
static size_t room_for_messages(const struct chat *c)
{
    int64_t most = c->voice.generator.most, room = most / 4;
    if (c->options->max_tokens && c->options->max_tokens < room) room = c->options->max_tokens;
    return (size_t)(most - room);
}

/* Says what helps against a conversation that is too long. */
static void name_remedy(const struct chat *c, struct err *err)
{
    bool all = c->voice.generator.most >= c->voice.loaded.model.config.max_seq_len;
    text_add(err->text, sizeof err->text, " ", "(%s)",
             all ? "the model cannot read more: shorten it" : "shorten it, or make more room with --context");
}

/* Gives the model the conversation: only what the cache does not have yet is computed. */
static enum status give_messages(struct chat *c, struct err *err)
{
    struct token_list list = {0};
    int dropped = 0, kept = 0;
    enum status status = conversation_fit(&c->conversation, room_for_messages(c), &list, &dropped, err);
    if (status == STATUS_FAILED && list.count > room_for_messages(c)) name_remedy(c, err);
    if (!status) status = generator_set(&c->voice.generator, list.ids, list.count, &kept, err);
    if (!status && dropped && (c->terminal || !c->forgets)) {
        output_say("the conversation no longer fits into %d tokens: its %d oldest message%s forgotten%s",
                   c->voice.generator.most, dropped, dropped == 1 ? " is" : "s are",
                   c->terminal ? "" : " (later ones without another notice)");
        c->forgets = true;
    }
    c->kept = kept;
    inference_begin(&c->voice.inference, (int64_t)list.count - kept);
    token_list_release(&list);
    return status;
}

/* Draws the answer and prints it token by token. */
static enum status draw_answer(struct chat *c, struct growing_text *text, struct err *err)
{
    const struct options *o = c->options;
    const struct sampling sampling = sampling_of(&o->sampling);
    const struct ending ending = {&c->voice.special, o->stop, o->max_tokens ? o->max_tokens : INT64_MAX,
                                  true};
    struct generator *g = &c->voice.generator;
    enum status status = STATUS_OK;
    size_t done = 0;
    while (!status && !text->end && g->length < g->most && !interrupt_requested() && !ferror(stdout)) {
        status = voice_draw(&c->voice, &sampling, &ending, c->draws++, text, err);
        if (!done && text->n) done = tokenizer_added_start(c->voice.tokenizer, text->bytes, text->n);
        if (text->final > done) writing_show(text, &done);
    }
    putchar('\n');
    fflush(stdout);
    if (!status && !text->end && g->length >= g->most)
        output_say("the answer ends here: the context of %d tokens is full", g->most);
    return status;
}

static void print_stats(const struct chat *c)
{
    writing_print_measures(&c->measures);
    fprintf(stderr, "context: %d of %d tokens, of which %d were cached before\n", c->voice.generator.length,
            c->voice.generator.most, c->kept);
}

/* Answers the last message, a question. After an error the question is forgotten. */
static enum status answer(struct chat *c, struct err *err)
{
    struct growing_text text = {0};
    enum status status = give_messages(c, err);
    if (!status) status = draw_answer(c, &text, err);
    if (!status) {
        size_t start = text.n ? tokenizer_added_start(c->voice.tokenizer, text.bytes, text.n) : 0;
        status = conversation_add(&c->conversation, "assistant", text.n ? text.bytes + start : "",
                                  text.n - start, err);
    }
    if (status)
        conversation_remove_last(&c->conversation);
    else
        c->measures = inference_measure(&c->voice.inference);
    if (!status && c->options->verbose) print_stats(c);
    if (!status) writing_record_measures(c->voice.folder, &c->measures);
    growing_text_release(&text);
    if (interrupt_signal() == SIGINT && c->terminal) interrupt_forget();
    return status;
}

/* ---- commands ---- */

static enum status run_help(struct chat *c, const char *argument, struct err *err);

static enum status run_clear(struct chat *c, const char *argument, struct err *err)
{
    (void)argument;
    return conversation_restart(&c->conversation, NULL, err);
}

static enum status run_system(struct chat *c, const char *argument, struct err *err)
{
    return conversation_restart(&c->conversation, argument, err);
}

static enum status run_retry(struct chat *c, const char *argument, struct err *err)
{
    (void)argument;
    if (strcmp(conversation_last_role(&c->conversation), "assistant") != 0)
        return err_set(err, STATUS_USAGE, "there is no answer to repeat");
    conversation_remove_last(&c->conversation);
    return answer(c, err);
}

static enum status run_stats(struct chat *c, const char *argument, struct err *err)
{
    (void)argument;
    if (!c->measures.new_tokens) return err_set(err, STATUS_USAGE, "there is no answer yet");
    print_stats(c);
    return STATUS_OK;
}

static enum status run_quit(struct chat *c, const char *argument, struct err *err)
{
    (void)argument, (void)err;
    c->leave = true;
    return STATUS_OK;
}

static const struct {
    const char *name, *help;
    enum status (*run)(struct chat *c, const char *argument, struct err *err);
} commands[] = {
    {"/help", "this list", run_help},
    {"/clear", "forgets the conversation, but for the system message", run_clear},
    {"/system", "TEXT: begins anew with another system message; no TEXT: with none", run_system},
    {"/retry", "another answer to the last question", run_retry},
    {"/stats", "tokens and speed of the last answer", run_stats},
    {"/quit", "ends the program, as Ctrl-D does", run_quit},
};

static enum status run_help(struct chat *c, const char *argument, struct err *err)
{
    (void)c, (void)argument, (void)err;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stderr, "  %-8s %s\n", commands[i].name, commands[i].help);
    fputs("  Ctrl-C   ends an answer; at the prompt it clears the line, and twice in a row\n"
          "           it ends the program\n"
          "Up and Down bring back earlier messages. A pasted text of several lines is one\n"
          "message. A message that begins with / needs a blank before it.\n",
          stderr);
    return STATUS_OK;
}

static enum status obey(struct chat *c, char *line, struct err *err)
{
    char *argument = line + strcspn(line, " \t");
    if (*argument) *argument++ = '\0';
    argument += strspn(argument, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(line, commands[i].name) == 0) return commands[i].run(c, argument, err);
    return err_set(err, STATUS_USAGE, "%.40s: there is no such command (/help lists them)", line);
}

static enum status take_line(struct chat *c, char *line, size_t n, struct err *err)
{
    if (line[0] == '/') return obey(c, line, err);
    if (n == strspn(line, " \t")) {
        if (!c->terminal) putchar('\n'); /* its answer */
        return STATUS_OK;
    }
    enum status status = conversation_add(&c->conversation, "user", line, n, err);
    return status ? status : answer(c, err);
}

/* ---- the loop ---- */

/* Whether the conversation goes on after this error, which it prints then. Through a pipe each line gets one
 * answer, so there the first error is the end. */
static bool survives(const struct chat *c, enum status status, const struct err *err)
{
    bool mild = status == STATUS_USAGE || status == STATUS_FAILED || status == STATUS_CORRUPT;
    if (!c->terminal || !mild || ferror(stdout)) return false;
    output_say("%s", err->text);
    return true;
}

static enum status converse(struct chat *c, struct err *err)
{
    enum status status = STATUS_OK;
    bool warned = false;
    while (!c->leave && !status) {
        char *line = NULL;
        size_t n = 0;
        status = line_input_next(c->input, &line, &n, err);
        if (c->terminal && status == STATUS_INTERRUPTED && interrupt_signal() == SIGINT) {
            interrupt_forget();
            putchar('\n');
            c->leave = warned;
            if (!warned) output_say("Ctrl-C once more, or Ctrl-D, ends the conversation");
            warned = true;
            status = STATUS_OK;
            continue;
        }
        if (!status) {
            warned = false;
            status = take_line(c, line, n, err);
        }
        if (status && survives(c, status, err)) status = STATUS_OK;
        /* Ctrl-C during a command counts as one at the next prompt */
        bool next = c->terminal && interrupt_signal() == SIGINT;
        if (!status && interrupt_requested() && !next) status = STATUS_INTERRUPTED;
    }
    if (c->terminal && status == STATUS_NOT_FOUND) putchar('\n');
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status open_chat(struct chat *c, const char *folder, enum allocator_kind allocator,
                             struct err *err)
{
    const struct options *o = c->options;
    enum status status = line_input_open("> ", &c->input, err);
    if (!status) status = voice_open(&c->voice, folder, o->adapter, err);
    if (!status)
        status =
            conversation_open(&c->conversation, c->voice.loaded.words, o->template, c->voice.tokenizer, err);
    if (!status) status = conversation_restart(&c->conversation, o->system, err);
    return status ? status : voice_load(&c->voice, o->device, 1, o->context, allocator, "chatting", err);
}

static void close_chat(struct chat *c)
{
    conversation_close(&c->conversation);
    voice_close(&c->voice);
    line_input_close(c->input);
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"chatting", words->words[0], o->step, o->best, {0}};
    char folder[PATH_MAX];
    struct chat chat = {.options = o, .terminal = isatty(STDIN_FILENO)};
    enum allocator_kind allocator;
    interrupt_catch();
    enum status status = model_choice_find(&model, folder, sizeof folder, &allocator, err);
    if (!status) status = open_chat(&chat, folder, allocator, err);
    status = checkpoint_hold_end(&model.hold, folder, status, err);
    if (!status && chat.terminal)
        output_say("a context of %d tokens; /help lists the commands, Ctrl-D leaves",
                   chat.voice.generator.most);
    if (!status && !chat.voice.special.eos_count)
        output_say("the model names no token that ends an answer, so an answer ends at --max-tokens, or with "
                   "Ctrl-C");
    if (!status) status = converse(&chat, err);
    close_chat(&chat);
    return status;
}

static const struct options defaults = {
    .stop = "", .context = 4096, .step = -1, .sampling = SAMPLING_DEFAULTS, .device = "cpu"};

static const struct option_spec options[] = {
    OPTION("system", OPTION_ANY_TEXT, AT(system), "TEXT",
           "the system message, which comes before all others"),
    OPTION("template", OPTION_TEXT, AT(template), "FILE",
           "a chat template (Jinja) instead of the model's own one"),
    ADAPTER_OPTION,
    BEST_OPTION,
    STEP_OPTION,
    OPTION("max-tokens", OPTION_WHOLE, AT(max_tokens), "N",
           "limit of tokens for an answer (default: as many as fit into the context)", .least = 1,
           .most = 999999),
    OPTION("stop", OPTION_TEXT, AT(stop), "TEXT",
           "end an answer before this text, too, as soon as the model writes it"),
    OPTION("context", OPTION_WHOLE, AT(context), "N",
           "limit of tokens for the conversation, at most what the model can read (default 4096)",
           .least = 16, .most = 1 << 24),
    SAMPLING_OPTIONS,
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, "where to compute (default cpu)"),
    OPTION("verbose", OPTION_FLAG, AT(verbose), NULL, "prints tokens and speed after each answer"),
    {0},
};

const struct command command_chat =
    COMMAND("chat", "RUN|FOLDER", 1, 1, options, "talk with a model", run, defaults,
            .about = "Each line of the input is a message, which the model answers in the format that it was "
                     "trained on, its chat template. On a terminal, /help lists commands such as /clear and "
                     "/retry, and Ctrl-C ends an answer. Through a pipe, each line gets one answer.",
            .notes = "  anneal chat my-model --system 'Answer briefly.'\n"
                     "  echo 'Who was Moses?' | anneal chat my-model");
