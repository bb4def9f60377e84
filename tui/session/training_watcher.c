/* See training.h: a watcher that shows nothing. */
#include "tui/session/training.h"

#define NOTHING(name, ...)                                                                                   \
    static void name(__VA_ARGS__)                                                                            \
    {                                                                                                        \
    }
/* clang-format off */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(prepared, void *context)
NOTHING(begin, void *context, const struct training_session *session)
NOTHING(step, void *context, const struct step_record *record)
NOTHING(eval, void *context, const struct eval_record *record, const struct measures *measures,
        const struct stopping_record *stopping)
NOTHING(sample, void *context, const struct sample_record *record)
NOTHING(checkpoint, void *context, const struct checkpoint_record *record)
NOTHING(event, void *context, const struct event_record *record)
NOTHING(order, void *context, const char *verb, int64_t step, const char *result)
NOTHING(paused, void *context, int64_t step, enum train_pause pause)
NOTHING(end, void *context, const char *status, int64_t step, const char *message)
#pragma GCC diagnostic pop
/* clang-format on */

const struct training_watcher training_watcher_silent = {.prepared = prepared,
                                                         .begin = begin,
                                                         .step = step,
                                                         .eval = eval,
                                                         .sample = sample,
                                                         .checkpoint = checkpoint,
                                                         .event = event,
                                                         .order = order,
                                                         .paused = paused,
                                                         .end = end};
