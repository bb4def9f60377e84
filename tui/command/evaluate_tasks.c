/* See evaluate_tasks.h. */
#include "tui/command/evaluate_tasks.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/generate/choices.h"
#include "datasets/question_file.h"
#include "datasets/tokenizer.h"
#include "tui/command/output.h"
#include "tui/session/loaded_model.h"
#include "tui/session/process.h"

/* All that is open, and the answers so far. */
struct examination {
    struct loaded_model loaded;
    struct tokenizer *tokenizer;
    struct question_file file;
    struct choice_scorer scorer;
    int longest;        /* tokens of a context and a choice */
    uint64_t questions; /* in the file */
    uint64_t done, cut; /* answered, and of these with a shortened context */
    uint64_t right, right_per_byte;
    int64_t tokens;          /* of the choices */
    double guessed, seconds; /* right answers to expect from guessing */
};

/* Puts file and line before the message of a question that cannot be answered. */
static enum status of_question(const struct examination *e, enum status status, struct err *err)
{
    if (status == STATUS_OK || status == STATUS_DEVICE) return status;
    return err_prefix(err, "%s: line %" PRIu64, e->file.path, e->file.line);
}

/* Reads every question once: how many there are, how long they are, and whether all can be answered. */
static enum status read_questions(struct examination *e, struct progress_bar *bar, struct err *err)
{
    const struct model_config *c = &e->loaded.model.config;
    struct question question;
    bool more = true;
    enum status status = STATUS_OK;
    while (!(status = question_file_next(&e->file, &question, &more, err)) && more) {
        int tokens;
        if (interrupt_requested()) return err_set(err, STATUS_INTERRUPTED, "evaluate: interrupted");
        status = question_measure(&question, e->tokenizer, c->vocab_size, c->max_seq_len, &tokens, err);
        if (status) return of_question(e, status, err);
        if (tokens > e->longest) e->longest = tokens;
        e->questions++;
        progress_bar_update(bar, "reading", "bytes",
                            e->file.at < e->file.map.size ? e->file.at : e->file.map.size, e->file.map.size,
                            NULL);
    }
    if (!status && !e->questions)
        status =
            err_set(err, STATUS_USAGE, "--tasks %.300s: has no question (each line is one)", e->file.path);
    question_file_rewind(&e->file);
    return status;
}

static enum status open_examination(struct examination *e, const char *folder, const char *path,
                                    const char *device, enum allocator_kind allocator,
                                    struct progress_bar *bar, struct err *err)
{
    enum status status = loaded_model_describe(&e->loaded, folder, err);
    if (!status) status = loaded_model_tokenizer(folder, &e->tokenizer, err);
    if (!status) status = question_file_open(path, &e->file, err);
    if (!status) status = read_questions(e, bar, err);
    if (status) return status;
    struct loaded_wish wish = loaded_wish_cached(1, e->longest, allocator);
    status = loaded_model_load(&e->loaded, folder, device, wish, "evaluating", err);
    return status ? status : choice_scorer_open(&e->scorer, &e->loaded.network, e->tokenizer, err);
}

static void close_examination(struct examination *e)
{
    choice_scorer_close(&e->scorer);
    question_file_close(&e->file);
    tokenizer_close(e->tokenizer);
    loaded_model_close(&e->loaded);
}

/* Answers until the end or an interrupt. */
static enum status answer_questions(struct examination *e, struct progress_bar *bar, struct err *err)
{
    double start = clock_monotonic();
    while (e->done < e->questions && !interrupt_requested()) {
        struct question question;
        struct choice_answer answer;
        char suffix[48];
        bool more;
        enum status status = question_file_next(&e->file, &question, &more, err);
        if (status) return status;
        if (!more) return err_set(err, STATUS_CORRUPT, "%s: became shorter while it was read", e->file.path);
        status = choice_scorer_answer(&e->scorer, &question, &answer, NULL, err);
        if (status) return of_question(e, status, err);
        e->done++;
        e->cut += answer.cut;
        e->right += answer.likeliest == question.answer;
        e->right_per_byte += answer.likeliest_per_byte == question.answer;
        e->guessed += 1.0 / question.count;
        e->tokens += answer.tokens;
        snprintf(suffix, sizeof suffix, "accuracy %.3f", (double)e->right / (double)e->done);
        progress_bar_update(bar, "answering", "questions", e->done, e->questions, suffix);
    }
    e->seconds = clock_monotonic() - start;
    return e->done ? STATUS_OK : err_set(err, STATUS_INTERRUPTED, "evaluate: interrupted");
}

static enum status print_score(const struct examination *e, const char *folder, bool json, struct err *err)
{
    struct output out;
    double done = (double)e->done;
    output_begin(&out, json);
    OUTPUT_MEMBERS(&out, "checkpoint", folder, "tasks", e->file.path, "device",
                   e->loaded.choice.info.short_name, "accuracy", (double)e->right / done, "accuracy_per_byte",
                   (double)e->right_per_byte / done, "accuracy_of_guessing", e->guessed / done);
    OUTPUT_MEMBERS(&out, "questions", (int64_t)e->done, "of_questions", (int64_t)e->questions,
                   "shortened_contexts", (int64_t)e->cut, "scored_tokens", e->tokens, "seconds", e->seconds,
                   "questions_per_sec", done / e->seconds, "complete", (bool)(e->done == e->questions));
    return output_end(&out, err);
}

enum status evaluate_tasks(const char *folder, const char *path, const char *device,
                           enum allocator_kind allocator, bool json, struct progress_bar *bar,
                           struct err *err)
{
    struct examination e = {0};
    enum status status = open_examination(&e, folder, path, device, allocator, bar, err);
    if (!status) status = answer_questions(&e, bar, err);
    progress_bar_clear(bar);
    if (!status) status = print_score(&e, folder, json, err);
    if (!status && e.done < e.questions)
        status = err_set(err, STATUS_INTERRUPTED,
                         "evaluate: interrupted after %" PRIu64 " of %" PRIu64 " question%s", e.done,
                         e.questions, text_plural((int64_t)e.questions));
    close_examination(&e);
    return status;
}
