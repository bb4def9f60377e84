/* See examination.h. */
#include "core/generate/examination.h"

#include <inttypes.h>

enum { QUESTIONS_PER_REPORT = 64 };

/* Puts file and line before the message of a question that cannot be answered. */
static enum status of_question(const struct examination *e, enum status status, struct err *err)
{
    if (status == STATUS_OK || status == STATUS_DEVICE) return status;
    return err_prefix(err, "%s: line %" PRIu64, e->file.lines.path, e->file.lines.line);
}

static enum status read_questions(struct examination *e, const struct tokenizer *tokenizer, int vocab_size,
                                  int most, const struct progress *progress, struct err *err)
{
    struct question question;
    bool more = true;
    enum status status;
    while (!(status = question_file_next(&e->file, &question, &more, err)) && more) {
        int tokens;
        status = question_measure(&question, tokenizer, vocab_size, most, &tokens, err);
        if (status) return of_question(e, status, err);
        if (tokens > e->longest) e->longest = tokens;
        question_count_bytes(&question, &e->bytes);
        e->long_count += tokens > most;
        size_t at = e->file.lines.at < e->file.map.size ? e->file.lines.at : e->file.map.size;
        if (e->questions++ % QUESTIONS_PER_REPORT == 0 &&
            progress_report(progress, "reading", "bytes", at, e->file.map.size, err))
            return err_prefix(err, "%s", e->file.lines.path);
    }
    if (status || e->questions) return status;
    return err_set(err, STATUS_USAGE,
                   "%.300s: has no question (each line is one: {\"context\": ..., \"choices\": [...], "
                   "\"answer\": 0})",
                   e->file.lines.path);
}

enum status examination_open(struct examination *e, const char *path, const struct tokenizer *tokenizer,
                             int vocab_size, int most, const struct progress *progress, struct err *err)
{
    *e = (struct examination){0};
    enum status status = question_file_open(path, &e->file, err);
    if (!status) status = read_questions(e, tokenizer, vocab_size, most, progress, err);
    if (status)
        examination_close(e);
    else
        question_file_rewind(&e->file);
    return status;
}

void examination_close(struct examination *e)
{
    question_file_close(&e->file);
    *e = (struct examination){0};
}

void examination_restart(struct examination *e)
{
    question_file_rewind(&e->file);
    e->score = (struct examination_score){0};
}

enum status examination_answer(struct examination *e, struct choice_scorer *scorer, struct err *err)
{
    struct question question;
    struct choice_answer answer;
    struct examination_score *score = &e->score;
    bool more;
    enum status status = question_file_next(&e->file, &question, &more, err);
    if (status) return status;
    if (!more)
        return err_set(err, STATUS_CORRUPT, "%s: became shorter while it was read", e->file.lines.path);
    status = choice_scorer_answer(scorer, &question, &answer, NULL, err);
    if (status) return of_question(e, status, err);
    score->done++;
    score->cut += answer.cut;
    score->right += answer.likeliest == question.answer;
    score->right_per_byte += answer.likeliest_per_byte == question.answer;
    score->expected += 1.0 / question.count;
    score->tokens += answer.tokens;
    return STATUS_OK;
}
