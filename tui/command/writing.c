/* See writing.h. */
#include "tui/command/writing.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "tui/command/output.h"
#include "tui/session/recorded_run.h"

enum status voice_open(struct voice *v, const char *folder, const char *adapter, struct err *err)
{
    enum status status = loaded_model_describe(&v->loaded, folder, adapter, LOADED_WRITER, err);
    if (!status) status = loaded_model_tokenizer(v->loaded.words, &v->tokenizer, err);
    if (!status) status = special_tokens_read(v->loaded.words, &v->special, err);
    return status ? status : file_format_path(v->folder, sizeof v->folder, err, "%s", folder);
}

enum status voice_load(struct voice *v, const char *device, int slots, int64_t length,
                       enum allocator_kind allocator, const char *doing, struct err *err)
{
    struct loaded_wish wish = loaded_wish_cached(slots, length < INT_MAX ? (int)length : INT_MAX, allocator);
    enum status status = loaded_model_load(&v->loaded, device, wish, doing, err);
    return status ? status : generator_open(&v->generator, &v->loaded.network, v->tokenizer, err);
}

void voice_close(struct voice *v)
{
    inference_release(&v->inference);
    generator_close(&v->generator);
    tokenizer_close(v->tokenizer);
    loaded_model_close(&v->loaded);
    *v = (struct voice){0};
}

enum status voice_draw(struct voice *v, const struct sampling *sampling, const struct ending *ending,
                       int64_t draw, struct growing_text *text, struct err *err)
{
    uint32_t token = generator_next(&v->generator, sampling, draw);
    enum status status = v->loaded.network.backend->stream_wait(v->loaded.network.stream, err);
    if (!status) status = sampler_check(&v->generator.sampler, err);
    if (status) return status; /* a failed device returns no valid token */
    status = inference_token(&v->inference, err);
    return status ? status : growing_text_add(text, ending, v->tokenizer, token, err);
}

void writing_show(const struct growing_text *text, size_t *done)
{
    if (text->final > *done) clean_print(stdout, text->bytes + *done, text->final - *done);
    *done = text->final > *done ? text->final : *done;
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
    fprintf(stderr, "prompt: %" PRId64 " token%s, the first new one after %s (%s tokens/s)\n",
            r->prompt_tokens, text_plural(r->prompt_tokens), time_text(r->time_to_first_token_ms, first),
            TEXT_SHORT(r->prefill_tokens_per_sec));
    fprintf(stderr, "text: %" PRId64 " token%s", r->new_tokens, text_plural(r->new_tokens));
    if (r->new_tokens > 1)
        fprintf(stderr, ", %s tokens/s after the first; between two: median %s, p95 %s",
                TEXT_SHORT(r->decode_tokens_per_sec), time_text(r->latency_median_ms, median),
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
    enum status status = store_open(NULL, STORE_WRITE, &store, &why);
    if (!status) status = run_add_inference(store, id, record, &why);
    if (status) output_warn("the speed is not recorded: %s", why.text);
    store_close(store);
}
