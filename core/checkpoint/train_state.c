/* See checkpoint.h. Here: trainer.json, the trainer's state. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/checkpoint/checkpoint.h"
#include "datasets/json_file.h"

/* A member of trainer.json. Older files may lack optional ones; a real that is not finite is omitted. */
static const struct member {
    const char *name;
    enum { COUNT, WHOLE, REAL } kind; /* a count is not negative */
    bool optional;
    size_t offset;
} members[] = {
#define AT(field) offsetof(struct train_state, field)
    {"step", COUNT, false, AT(step)},
    {"updates", COUNT, false, AT(updates)},
    {"cursor", COUNT, false, AT(cursor)},
    {"tokens", COUNT, false, AT(tokens)},
    {"lr_factor", REAL, false, AT(lr_factor)},
    {"skipped_in_a_row", COUNT, false, AT(skipped_in_a_row)},
    {"best_step", WHOLE, false, AT(stopping.best_step)},
    {"patience_used", COUNT, false, AT(stopping.used)},
    {"patience", WHOLE, false, AT(stopping.patience)},
    {"min_delta", REAL, false, AT(stopping.min_delta)},
    {"corpus_tokens", WHOLE, false, AT(corpus.tokens)},
    {"corpus_checksum", WHOLE, false, AT(corpus.checksum)},
    {"tokenizer_checksum", WHOLE, false, AT(corpus.tokenizer)},
    {"questions_checksum", WHOLE, true, AT(questions)},
    {"best_saved", WHOLE, true, AT(best_saved)},
    {"best_val_loss", REAL, true, AT(stopping.best)},
    {"patience_loss", REAL, true, AT(stopping.reference)},
    {"lr_cut", REAL, true, AT(lr_cut)},
    {"rollbacks", COUNT, true, AT(rollbacks)},
    {"trouble", COUNT, true, AT(trouble)},
    {"spike_steps", COUNT, true, AT(level.spike_steps)},
    {"calm_steps", COUNT, true, AT(level.calm_steps)},
    {"loss_limit", REAL, true, AT(level.limit)},
    {"previous_loss_limit", REAL, true, AT(level.previous_limit)},
};

/* The usual losses, oldest first. */
static int write_losses(const struct loss_level *level, json_t *json)
{
    int64_t n = level->count < HEALTH_WINDOW ? level->count : HEALTH_WINDOW;
    json_t *losses = json_array();
    int failed = 0;
    for (int64_t i = level->count - n; i < level->count; i++)
        failed |= json_array_append_new(losses, json_real(level->losses[i % HEALTH_WINDOW]));
    return failed | json_object_set_new(json, "losses", losses);
}

static bool read_losses(const json_t *json, struct loss_level *level)
{
    const json_t *losses = json_object_get(json, "losses");
    size_t n = json_array_size(losses);
    if (n > HEALTH_WINDOW || (losses && !json_is_array(losses))) return false;
    for (size_t i = 0; i < n; i++) {
        if (!json_is_real(json_array_get(losses, i))) return false;
        level->losses[i] = json_real_value(json_array_get(losses, i));
    }
    level->count = (int64_t)n;
    return level->spike_steps <= HEALTH_WINDOW && level->calm_steps <= HEALTH_WINDOW;
}

enum status checkpoint_write_state(const struct train_state *s, const char *path, struct err *err)
{
    json_t *json = json_object();
    int failed = 0;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const char *field = (const char *)s + members[i].offset;
        if (members[i].kind != REAL)
            failed |= json_object_set_new(json, members[i].name, json_integer(*(const int64_t *)field));
        else if (isfinite(*(const double *)field))
            failed |= json_object_set_new(json, members[i].name, json_real(*(const double *)field));
    }
    failed |= write_losses(&s->level, json);
    if (*s->machine) failed |= json_object_set_new(json, "computed_with", json_string(s->machine));
    if (!failed) return json_file_write(path, json, JSON_INDENT(2), err);
    json_decref(json);
    return err_no_memory(err, "writing %s", path);
}

static bool read_member(const json_t *json, const struct member *m, struct train_state *s)
{
    const json_t *value = json_object_get(json, m->name);
    char *field = (char *)s + m->offset;
    if (!value) return m->optional;
    if (m->kind == REAL)
        *(double *)field = json_number_value(value);
    else
        *(int64_t *)field = json_integer_value(value);
    return m->kind == REAL ? json_is_number(value)
                           : json_is_integer(value) && (m->kind == WHOLE || json_integer_value(value) >= 0);
}

enum status checkpoint_load_state(const char *folder, struct train_state *out, struct err *err)
{
    struct train_state s = {
        .best_saved = INT64_MIN, .lr_cut = 1, .stopping = {.best = INFINITY, .reference = INFINITY}};
    char path[CHECKPOINT_PATH];
    const char *bad = NULL;
    json_t *json;
    checkpoint_join(path, folder, "trainer.json");
    enum status status = json_file_read(path, JSON_REJECT_DUPLICATES, &json, err);
    if (status) return status;
    for (size_t i = 0; !bad && i < sizeof members / sizeof *members; i++)
        if (!read_member(json, &members[i], &s)) bad = members[i].name;
    if (s.lr_factor < 0) bad = "lr_factor";
    if (s.lr_cut < 0 || s.lr_cut > 1) bad = "lr_cut";
    if (!bad && !read_losses(json, &s.level)) bad = "losses";
    if (!json_object_get(json, "patience_loss") && !json_object_get(json, "lr_cut"))
        s.stopping.reference = s.stopping.best; /* older versions had one number for both */
    const char *machine = json_string_value(json_object_get(json, "computed_with"));
    snprintf(s.machine, sizeof s.machine, "%s", machine ? machine : "");
    json_decref(json);
    if (bad) return err_set(err, STATUS_CORRUPT, "%s: %s is missing or not a valid number", path, bad);
    int64_t named = checkpoint_step(folder);
    if (named >= 0 && named != s.step)
        return err_set(err, STATUS_CORRUPT,
                       "%s: holds the checkpoint of step %" PRId64 " (rename the folder to step-%" PRId64 ")",
                       folder, s.step, s.step);
    if (s.best_saved == INT64_MIN)
        s.best_saved = s.stopping.best_step; /* older versions assumed that every best was saved */
    *out = s;
    return STATUS_OK;
}
