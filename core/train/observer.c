/* See trainer.h: an observer that notes nothing. */
#include "core/train/trainer.h"

#define NOTHING(name, ...)                                                                                   \
    static void name(__VA_ARGS__)                                                                            \
    {                                                                                                        \
    }
/* clang-format off */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(on_step, void *context, const struct step_record *record)
NOTHING(on_eval, void *context, const struct eval_record *record, const struct measures *measures)
NOTHING(on_stopping, void *context, const struct stopping_record *record)
NOTHING(on_sample, void *context, const struct sample_record *record)
NOTHING(on_moment, void *context)
NOTHING(on_checkpoint, void *context, const struct checkpoint_record *record)
NOTHING(on_memory, void *context, const struct memory_record *record)
NOTHING(on_rank, void *context, const struct rank_record *record)
NOTHING(on_used, void *context, int64_t bytes)
NOTHING(on_profile, void *context, const struct profile_record *record)
NOTHING(on_event, void *context, const struct event_record *record)
NOTHING(on_paused, void *context, enum train_pause pause)
NOTHING(on_order_done, void *context, int64_t id, int64_t step, const char *result)
/* clang-format on */

static enum status reserve(void *context, int64_t bytes, struct err *err)
{
    return STATUS_OK;
}

static bool next_order(void *context, int64_t step, struct order *out)
{
    return false;
}

static bool leave(void *context)
{
    return false;
}

static enum status owns(void *context, struct err *err)
{
    return STATUS_OK;
}
#pragma GCC diagnostic pop

const struct train_observer train_observer_silent = {.reserve = reserve,
                                                     .step = on_step,
                                                     .evaluating = on_moment,
                                                     .lives = on_moment,
                                                     .eval = on_eval,
                                                     .stopping = on_stopping,
                                                     .sample = on_sample,
                                                     .saving = on_moment,
                                                     .safe = on_moment,
                                                     .rolled_back = on_moment,
                                                     .checkpoint = on_checkpoint,
                                                     .memory = on_memory,
                                                     .rank = on_rank,
                                                     .used = on_used,
                                                     .profile = on_profile,
                                                     .event = on_event,
                                                     .paused = on_paused,
                                                     .next_order = next_order,
                                                     .order_done = on_order_done,
                                                     .leave = leave,
                                                     .owns = owns};
