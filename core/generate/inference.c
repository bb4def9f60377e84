/* See inference.h. */
#include "core/generate/inference.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/sort.h"

void inference_begin(struct inference *i, int64_t prompt_tokens)
{
    i->prompt_tokens = prompt_tokens;
    i->started = i->newest = clock_monotonic();
    i->count = 0;
}

enum status inference_token(struct inference *i, struct err *err)
{
    double now = clock_monotonic();
    if (!list_reserve(&i->latencies, i->count, 1, &i->capacity, sizeof *i->latencies))
        return err_no_memory(err, "the times of %zu tokens", i->count);
    i->latencies[i->count++] = now - i->newest;
    i->newest = now;
    return STATUS_OK;
}

/* The nearest-rank percentile of `n` sorted values; NaN if there are none. */
static double percentile(const double *sorted, size_t n, double share)
{
    if (!n) return NAN;
    size_t rank = (size_t)ceil(share * (double)n);
    return sorted[rank ? rank - 1 : 0];
}

struct inference_record inference_measure(struct inference *i)
{
    double first = i->count ? i->latencies[0] : NAN, rest = i->newest - i->started - first;
    size_t later = i->count ? i->count - 1 : 0; /* the first token belongs to the prompt */
    if (later) sort_doubles(i->latencies + 1, later);
    return (struct inference_record){.prompt_tokens = i->prompt_tokens,
                                     .new_tokens = (int64_t)i->count,
                                     .time_to_first_token_ms = 1e3 * first,
                                     .latency_median_ms = 1e3 * percentile(i->latencies + 1, later, 0.5),
                                     .latency_p95_ms = 1e3 * percentile(i->latencies + 1, later, 0.95),
                                     .prefill_tokens_per_sec =
                                         first > 0 ? (double)i->prompt_tokens / first : NAN,
                                     .decode_tokens_per_sec = later && rest > 0 ? (double)later / rest : NAN,
                                     .total_ms = 1e3 * (i->newest - i->started)};
}

void inference_release(struct inference *i)
{
    free(i->latencies);
    *i = (struct inference){0};
}
