/* See form_preview.h. */
#include "tui/command/form_preview.h"

#include <stdio.h>

#include "core/base/text.h"
#include "core/model/model.h"
#include "tui/session/schedule_plan.h"

/* "5.34M parameters; 2000 steps of 4.10k tokens: 8.19M" */
static enum status describe(const struct config *config, struct form_preview *out, struct err *err)
{
    struct model model;
    enum status status = model_init(&model, &config->model.sizes, err);
    if (status) return status;
    int64_t tokens = config->train.batch_size * config->train.seq_len * config->train.accumulation_steps;
    snprintf(out->facts, sizeof out->facts, "%s parameters; %lld step%s of %s token%s, %s in all",
             TEXT_COUNT(model.parameters), (long long)config->train.total_steps,
             text_plural(config->train.total_steps), TEXT_COUNT(tokens), text_plural(tokens),
             TEXT_COUNT((double)tokens * (double)config->train.total_steps));
    model_release(&model);
    return STATUS_OK;
}

void form_preview_make(const char *const *settings, size_t count, struct form_preview *out)
{
    struct config config;
    struct err err = {0};
    enum status status = STATUS_OK;
    config_init(&config);
    for (size_t i = 0; i < count && !status; i++) status = config_read_word(&config, settings[i], &err);
    if (!status) status = config_finish(&config, &err);
    *out = (struct form_preview){0};
    if (!status) status = describe(&config, out, &err);
    if (status) {
        snprintf(out->problem, sizeof out->problem, "%s", err.text);
        return;
    }
    out->total_steps = config.train.total_steps;
    out->count = schedule_plan_points(&config, out->lr, FORM_PREVIEW_POINTS);
}
