/* See view_config.h. */
#include "tui/command/view_config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/ini.h"
#include "core/base/text.h"
#include "core/model/config.h"
#include "core/model/model.h"
#include "core/model/trainable.h"
#include "datasets/inputs.h"
#include "datasets/preparation.h"
#include "tui/command/dry_run.h"
#include "tui/session/recorded_run.h"
#include "tui/view/labels.h"

/* ---- a stored configuration as rows ---- */

static const struct declared {
    const char *name, *help;
    enum { FREE, SAME, KEPT } kept;
} declared[] = {
#define KEY(section, name, kind, field, fallback, least, most, words, unit, kept, help)                      \
    {#section "." #name, help, kept},
#include "core/model/config.def"
};

static const struct declared *find_declared(const char *key)
{
    for (size_t i = 0; i < sizeof declared / sizeof *declared; i++)
        if (strcmp(declared[i].name, key) == 0) return &declared[i];
    return NULL;
}

/* Keys on which the defaults of others depend. */
static const char *const deciding[] = {"model.preset", "train.recipe", "train.optimizer", "data.format"};

/* The configuration that `config` would be if only those keys were given. */
static enum status make_defaults(const struct config *config, struct config *out, struct err *err)
{
    char value[CONFIG_TEXT_MAX], word[CONFIG_TEXT_MAX + 64];
    enum status status = STATUS_OK;
    config_init(out);
    for (size_t i = 0; !status && i < sizeof deciding / sizeof *deciding; i++) {
        config_get(config, deciding[i], value, sizeof value);
        snprintf(word, sizeof word, "%s=%s", deciding[i], value);
        status = config_read_word(out, word, err);
    }
    return status ? status : config_finish(out, err);
}

/* Whether the value follows from another key: a size from the model that is trained on, steps from epochs. */
static bool is_derived(const struct config *config, const char *key)
{
    if (strcmp(key, "train.total_steps") == 0) return config->train.epochs > 0;
    return *config->model.from && strncmp(key, "model.", 6) == 0 && strcmp(key, "model.from") != 0;
}

/* Fills in what config.def says of the key; a key of a parameter group is not in it. */
static void describe(struct config_row *row, const struct config *config, const struct config *defaults,
                     struct arena *arena)
{
    const struct declared *key = find_declared(row->key);
    struct config start;
    char value[CONFIG_TEXT_MAX];
    row->fallback = row->help = row->choices = "";
    row->differs = true;
    if (!key) return;
    row->help = key->help;
    row->choices = config_words(row->key);
    row->kept = key->kept == KEPT;
    config_get(defaults, row->key, value, sizeof value);
    for (size_t i = 0; i < sizeof deciding / sizeof *deciding; i++)
        if (strcmp(row->key, deciding[i]) == 0) {
            config_init(&start);
            config_get(&start, row->key, value, sizeof value);
        }
    row->fallback = is_derived(config, row->key) ? row->value : arena_strdup(arena, value);
    row->differs = row->fallback && strcmp(row->fallback, row->value) != 0;
}

static enum status make_rows(const struct config *config, char *text, struct arena *arena,
                             struct config_row **out, size_t *count, struct err *err)
{
    struct config *defaults = arena_alloc(arena, sizeof *defaults);
    struct ini ini = {.rest = text, .exact = true};
    size_t most = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) most++;
    struct config_row *rows = arena_alloc_array(arena, most + 1, sizeof *rows);
    if (!defaults || !rows) return err_no_memory(err, "%zu keys of a configuration", most);
    if (make_defaults(config, defaults, err)) return err->status;
    *count = 0;
    while (ini_next(&ini) == INI_PAIR) {
        const char *name = arena_printf(arena, "%s.%s", ini.section, ini.key);
        if (!name) return err_no_memory(err, "%zu keys of a configuration", most);
        rows[*count] = (struct config_row){.key = name, .value = ini.value};
        describe(&rows[(*count)++], config, defaults, arena);
    }
    *out = rows;
    return STATUS_OK;
}

enum status config_rows_make(const char *text, struct arena *arena, struct config_row **out, size_t *count,
                             struct err *err)
{
    struct config *config = malloc(sizeof *config);
    char *complete = NULL, *kept = NULL;
    if (!config) return err_no_memory(err, "a configuration");
    config_init(config);
    enum status status = config_read_effective(config, text, "the run", err);
    if (!status) status = config_finish(config, err);
    if (!status && (!(complete = config_text(config)) || !(kept = arena_strdup(arena, complete))))
        status = err_no_memory(err, "a configuration");
    if (!status) status = make_rows(config, kept, arena, out, count, err);
    free(complete);
    free(config);
    return status;
}

/* ---- the form of a new run ---- */

/* Checks the word; a file is read when the training starts. */
static enum status check_tokenizer(const char *word, struct err *err)
{
    struct tokenizer *tokenizer;
    if (file_exists(word)) return STATUS_OK;
    enum status status = preparation_open_tokenizer(word, &tokenizer, err);
    tokenizer_close(tokenizer);
    return status ? err_prefix(err, "data.tokenizer") : STATUS_OK;
}

/* Checks that what is named is there; it is read when the training starts. */
static enum status check_data(const char *key, const char *value, struct err *err)
{
    struct inputs inputs = {0};
    enum status status = *value ? inputs_peek(value, &inputs, err) : STATUS_OK;
    for (size_t i = 0; !status && i < inputs.count && inputs.tokens; i++)
        if (!file_exists(inputs.paths[i]))
            status = err_set(err, STATUS_NOT_FOUND, "%.200s: no such file", inputs.paths[i]);
    inputs_close(&inputs);
    return status ? err_prefix(err, "%s", key) : STATUS_OK;
}

/* Facts: "5.34M parameters; 2000 steps of 4.10k tokens, 8.19M in all". */
void form_preview_make(const char *const *settings, size_t count, struct form_preview *out)
{
    struct config config;
    struct model model = {0};
    struct err err = {0};
    enum status status = STATUS_OK;
    config_init(&config);
    for (size_t i = 0; i < count && !status; i++) status = config_read_word(&config, settings[i], &err);
    if (!status) status = model_choice_of_config(&config, &err);
    if (!status) status = config_finish(&config, &err);
    if (!status) status = check_data("data.train", config.data.train, &err);
    if (!status) status = check_data("data.val", config.data.val, &err);
    if (!status) status = check_tokenizer(config.data.tokenizer, &err);
    *out = (struct form_preview){0};
    if (!status) status = model_init(&model, &config.model.sizes, &err);
    config.model.from[0] = '\0'; /* its sizes are known, and its weights are not needed */
    if (!status) status = trainable_choose(&model, &config, ELEMENT_FP32, true, &err);
    if (status) {
        snprintf(out->problem, sizeof out->problem, "%s", err.text);
        model_release(&model);
        return;
    }
    struct run_info run = {.parameters = model.parameters,
                           .frozen_parameters = model.frozen_parameters,
                           .trained_parameters = model.parameters - model.frozen_parameters};
    const char *parameters = label_parameters(&run, (char[80]){0}, 80);
    int64_t steps = config.train.total_steps, micro_batch = config.train.batch_size * config.train.seq_len,
            tokens = micro_batch * config_micro_batches(&config, 0);
    double all = config_micro_batches_sum(&config, steps) * (double)micro_batch;
    bool grows = *config.train.accumulation_plan;
    if (config.train.epochs > 0) /* the number of steps depends on the corpus, which is not open */
        snprintf(out->facts, sizeof out->facts, "%s; %g epoch%s in steps of %s token%s%s", parameters,
                 config.train.epochs, config.train.epochs == 1 ? "" : "s", TEXT_COUNT(tokens),
                 text_plural(tokens), grows ? " at first" : "");
    else
        snprintf(out->facts, sizeof out->facts, "%s; %lld step%s of %s token%s%s, %s in all", parameters,
                 (long long)steps, text_plural(steps), TEXT_COUNT(tokens), text_plural(tokens),
                 grows ? " at first" : "", TEXT_COUNT(all));
    out->parameters = run.parameters;
    out->frozen_parameters = run.frozen_parameters;
    out->total_tokens = config.train.epochs > 0 ? NAN : all;
    model_release(&model);
    char warnings[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE];
    if (config.train.epochs > 0) config.train.total_steps = INT64_MAX; /* no warning of an unknown length */
    if (config_warnings(&config, warnings))
        snprintf(out->warning, sizeof out->warning, "%.199s", warnings[0]);
    if (config.train.epochs > 0) return;
    out->total_steps = steps;
    out->count = schedule_points(&config, out->lr, FORM_PREVIEW_POINTS);
}

bool form_estimate_read(const char *json, struct form_estimate *out)
{
    json_t *page = json_loads(json, 0, NULL), *fit = json_object_get(page, "fit");
    json_t *bytes = json_object_get(page, "total_bytes"), *room = json_object_get(fit, "plan_bytes");
    const char *device = json_string_value(json_object_get(page, "device"));
    bool known = device && json_is_number(bytes) && json_is_number(room);
    *out = (struct form_estimate){.bytes = json_number_value(bytes),
                                  .room = json_number_value(room),
                                  .batch = json_integer_value(json_object_get(fit, "batch_size"))};
    snprintf(out->device, sizeof out->device, "%s", known ? device : "");
    json_decref(page);
    return known;
}
