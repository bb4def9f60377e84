/* See writing.h. */
#include "tui/command/writing.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "tui/command/output.h"
#include "tui/session/recorded_run.h"

void writing_show(const struct growing_text *text, size_t *done)
{
    char clean[1024];
    while (*done < text->final) {
        size_t n = text->final - *done < sizeof clean / 4 ? text->final - *done : sizeof clean / 4;
        size_t complete = n - utf8_incomplete_tail(text->bytes + *done, n);
        if (!complete) complete = n; /* at the end of a text that ends within a character */
        clean_block(clean, sizeof clean, text->bytes + *done, complete);
        fputs(clean, stdout);
        *done += complete;
    }
    fflush(stdout);
}

static const char *time_text(double ms, char buf[32])
{
    if (isnan(ms)) return "-";
    snprintf(buf, 32, ms < 10 ? "%.2f ms" : "%.0f ms", ms);
    return buf;
}

void writing_print_measures(const struct inference_record *r)
{
    char first[32], median[32], p95[32];
    fprintf(stderr, "prompt: %" PRId64 " token%s, the first new one after %s (%.3g tokens/s)\n",
            r->prompt_tokens, text_plural(r->prompt_tokens), time_text(r->time_to_first_token_ms, first),
            r->prefill_tokens_per_sec);
    fprintf(stderr, "text: %" PRId64 " token%s", r->new_tokens, text_plural(r->new_tokens));
    if (r->new_tokens > 1)
        fprintf(stderr, ", %.3g tokens/s after the first; between two: median %s, p95 %s",
                r->decode_tokens_per_sec, time_text(r->latency_median_ms, median),
                time_text(r->latency_p95_ms, p95));
    putc('\n', stderr);
}

void writing_record_measures(const char *folder, struct inference_record *record)
{
    char id[RUN_ID_MAX];
    struct store *store = NULL;
    struct err why = {0};
    if (!record->new_tokens || !recorded_run_of(folder, id)) return;
    record->wall_time = clock_wall();
    record->checkpoint = strrchr(folder, '/') + 1;
    enum status status = store_open(NULL, false, &store, &why);
    if (!status) status = run_add_inference(store, id, record, &why);
    if (status) output_warn("the speed is not recorded: %s", why.text);
    store_close(store);
}
