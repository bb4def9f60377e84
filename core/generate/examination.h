/* An examination: a model answers every question of a file (datasets/question_file.h) by likelihood
 * (choices.h). `anneal evaluate --tasks` and eval.tasks share it, so that both give the same score. */
#ifndef ANNEAL_CORE_GENERATE_EXAMINATION_H
#define ANNEAL_CORE_GENERATE_EXAMINATION_H

#include <stdint.h>

#include "core/generate/choices.h"
#include "datasets/progress.h"
#include "datasets/question_file.h"

/* The counts over the questions answered so far. */
struct examination_score {
    uint64_t done, right, right_per_byte;
    uint64_t cut;    /* questions with a shortened context */
    int64_t tokens;  /* of the choices */
    double expected; /* right answers of guessing */
};

struct examination {
    struct question_file file;
    uint64_t questions;  /* in the file, at least 1 */
    int longest;         /* tokens of a context and a choice */
    size_t bytes;        /* of the longest text of these */
    uint64_t long_count; /* questions whose context a model with room for `most` tokens has to shorten */
    struct examination_score score;
};

/* Opens the file and reads every question once, for a model with this vocabulary and room for `most` tokens.
 * STATUS_CORRUPT or STATUS_USAGE for a file without questions, and for one that cannot be answered, with its
 * line; STATUS_INTERRUPTED by `progress`, which may be NULL. On failure nothing is open. */
enum status examination_open(struct examination *examination, const char *path,
                             const struct tokenizer *tokenizer, int vocab_size, int most,
                             const struct progress *progress, struct err *err);
void examination_close(struct examination *examination); /* harmless on a zeroed struct */

/* Back to the first question, with a score of nothing. */
void examination_restart(struct examination *examination);

/* Answers the next question; call it while score.done < questions. Waits for the device. Errors are those of
 * choice_scorer_answer, with file and line, and STATUS_CORRUPT if the file has changed. */
enum status examination_answer(struct examination *examination, struct choice_scorer *scorer,
                               struct err *err);

#endif
