/* Settings without effect and doubtful ones: see config.h. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/config.h"

bool schedule_warms_up(enum schedule_kind kind)
{
    return kind != SCHEDULE_CONSTANT && kind != SCHEDULE_RISING;
}

/* Adds a sentence to those of config_warnings. */
#define WARN(...) snprintf(out[count++], CONFIG_WARNING_SIZE, __VA_ARGS__)

int config_warnings(const struct config *config, char out[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE])
{
    const struct model_config *m = &config->model.sizes;
    bool stretches = m->rope_scaling != ROPE_DEFAULT;
    int count = 0;
    if (stretches != (m->rope_factor != 1))
        WARN("model.rope_factor = %g has no effect with model.rope_scaling = %s (linear, llama3 or yarn with "
             "a factor above 1 would stretch)",
             m->rope_factor, rope_scaling_word(m->rope_scaling));
    if (*m->full_attention_layers && !m->sliding_window)
        WARN(
            "model.full_attention_layers has no effect: with model.sliding_window = 0 no layer has a window");
    if (config->data.padding >= m->vocab_size)
        WARN("data.padding = %lld has no effect: no token has this id, the vocabulary has %d",
             (long long)config->data.padding, m->vocab_size);
    if (*config->data.val && strcmp(config->data.val, config->data.train) == 0)
        WARN("data.val names the data of data.train: the validation loss is measured on what is learned");
    if (config->data.documents == DOCUMENTS_PACKED && config->data.format != FORMAT_TEXT)
        WARN("data.documents = packed has no effect with data.format = %s, which packs its rows anyway",
             data_format_word(config->data.format));
    if (config->data.end_token >= 0 && config->data.documents != DOCUMENTS_PACKED)
        WARN("data.end_token = %lld has no effect without data.documents = packed",
             (long long)config->data.end_token);
    if (schedule_warms_up(config->train.schedule) && config->train.warmup_steps >= config->train.total_steps)
        WARN("train.warmup_steps = %lld is not shorter than the run of %lld step%s: the rate only rises, and "
             "does not stay at train.learning_rate",
             (long long)config->train.warmup_steps, (long long)config->train.total_steps,
             text_plural(config->train.total_steps));
    else if (config->train.schedule == SCHEDULE_WSD &&
             config->train.warmup_steps + config->train.decay_steps > config->train.total_steps)
        WARN("train.warmup_steps = %lld and train.decay_steps = %lld are together longer than the run of "
             "%lld step%s: the decay begins inside the warm-up",
             (long long)config->train.warmup_steps, (long long)config->train.decay_steps,
             (long long)config->train.total_steps, text_plural(config->train.total_steps));
    else if (config->train.schedule == SCHEDULE_WSD && config->train.decay_steps == 1)
        WARN("train.decay_steps = 1 has no effect: the first step of the decay still has the peak");
    if (*config->train.accumulation_plan && config->train.accumulation_steps != 1)
        WARN("train.accumulation_steps = %lld has no effect beside train.accumulation_plan",
             (long long)config->train.accumulation_steps);
    if (config->train.recipe == RECIPE_QUICK && *config->model.from)
        WARN("train.recipe = quick has no effect with model.from: its values are for new models");
    if (config->model.preset != PRESET_SHAKESPEARE && *config->model.from) /* not the default */
        WARN("model.preset = %s has no effect with model.from, whose sizes the model has",
             preset_word(config->model.preset));
    if (config->model.zero_outputs && *config->model.from)
        WARN("model.zero_outputs has no effect with model.from, whose weights are loaded");
    return count;
}
