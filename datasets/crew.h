/* Threads that work on the parts of texts, in any order; their results are taken in the order of the texts,
 * so that they do not depend on the number of threads.
 *
 * A text is cut after a line feed that follows a character and is followed by a letter, a digit or a
 * character beyond ASCII, neither of them white space: there GPT-2's pattern and the like begin a new piece,
 * whatever comes before and after (see bpe_divides in bpe.h).
 *
 * Always: a part is copied when it is given away, so a text need not outlive the call; memory holds two parts
 * for each thread and their results. */
#ifndef ANNEAL_DATASETS_CREW_H
#define ANNEAL_DATASETS_CREW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { CREW_PART = 1 << 19, CREW_PART_MAX = 1 << 22, CREW_THREADS_MAX = 256 };

struct crew;

struct crew_part {
    const char *path; /* of the text, for messages; must outlive the crew */
    const char *text; /* n bytes */
    size_t n;
    uint64_t done; /* bytes of all files up to the end of this part */
    bool ends;     /* a document ends with it */
};

/* All functions are mandatory. A status other than STATUS_OK ends the work and is its result. */
struct crew_job {
    void *context;
    /* In one of the threads, which are numbered from 0. *result is NULL, or an earlier one to use again. */
    enum status (*work)(void *context, int thread, const struct crew_part *part, void **result,
                        struct err *err);
    /* In the thread that gives the parts away, one part after the other. */
    enum status (*take)(void *context, const struct crew_part *part, void *result, struct err *err);
    void (*discard)(void *result); /* harmless on NULL */
};

/* With one thread everything happens in the calling one. */
enum status crew_open(const struct crew_job *job, int threads, struct crew **out, struct err *err);
/* Ends the threads; drops what has not been taken. Harmless on NULL. */
void crew_close(struct crew *crew);

/* Gives a part away, and takes results. Waits while there are too many. */
enum status crew_give(struct crew *crew, const struct crew_part *part, struct err *err);
/* Takes all that is left. */
enum status crew_finish(struct crew *crew, struct err *err);

/* Whether a text of n bytes may be cut at text[at]. */
bool crew_may_cut(const char *text, size_t n, size_t at);

/* The bytes of the next part of n > 0 bytes of text: CREW_PART or some more, or the rest of the text. More
 * than CREW_PART_MAX: there is no place to cut before. */
size_t crew_cut(const char *text, size_t n);

#endif
