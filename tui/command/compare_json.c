/* `anneal compare --json`, see comparison.h. A value that is absent or not finite is null. */
#include <math.h>

#include "tui/command/comparison.h"
#include "tui/command/run_table.h"
#include "tui/command/show.h"

static json_t *outcome_number(enum outcome which, double value, bool present)
{
    if (!present || !isfinite(value)) return json_null();
    bool whole = which == STEPS || which == BEST_STEP || which == PEAK_MEMORY;
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *run_json(const struct comparison *c, size_t i)
{
    const struct compared *run = &c->runs[i];
    json_t *object = run_table_json(&run->info), *delta = json_object();
    int failed = !object || !delta;
    for (int o = 0; !failed && o < OUTCOMES; o++) {
        double difference = run->values[o] - c->runs[0].values[o];
        failed |=
            json_object_set_new(delta, outcomes[o].json, outcome_number((enum outcome)o, difference, true));
        if (o == PEAK_MEMORY || o == WALL_TIME)
            failed |= json_object_set_new(object, outcomes[o].json,
                                          outcome_number((enum outcome)o, run->values[o], run->present[o]));
    }
    if (!failed) failed = json_object_set(object, "delta", delta);
    json_decref(delta);
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *config_json(const struct comparison *c)
{
    json_t *object = json_object();
    for (size_t d = 0; object && d < c->difference_count; d++) {
        json_t *list = json_array();
        for (size_t i = 0; list && i < c->count; i++) {
            const char *value = c->differences[d].values[i];
            json_array_append_new(list, value ? show_config_value(value) : json_null());
        }
        if (json_object_set_new(object, c->differences[d].key, list)) {
            json_decref(list);
            json_object_del(object, c->differences[d].key); /* a key that is not UTF-8 */
        }
    }
    return object;
}

static json_t *best_json(const struct comparison *c)
{
    json_t *object = json_object();
    for (int o = 0; object && o < OUTCOMES; o++) {
        if (!outcomes[o].better) continue;
        json_t *list = json_array();
        for (size_t i = 0; list && i < c->count; i++)
            if (comparison_is_best(c, i, (enum outcome)o))
                json_array_append_new(list, json_string(c->runs[i].info.id));
        json_object_set_new(object, outcomes[o].json, list);
    }
    return object;
}

json_t *comparison_json(const struct comparison *c)
{
    json_t *object = json_object(), *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < c->count; i++) failed |= json_array_append_new(list, run_json(c, i));
    failed |= json_object_set_new(object, "runs", list);
    failed |= json_object_set_new(object, "config", config_json(c));
    failed |= json_object_set_new(object, "best", best_json(c));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}
