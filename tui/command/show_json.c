/* `anneal show --json`, see show.h. A value that cannot be represented (NaN, text that is not UTF-8) is null.
 */
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/command/run_table.h"
#include "tui/command/show.h"

static json_t *text(const char *value)
{
    json_t *string = value ? json_string(value) : NULL;
    return string ? string : json_null();
}

static json_t *whole(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

json_t *show_config_value(const char *value)
{
    int64_t integer;
    double number;
    if (strcmp(value, "true") == 0) return json_true();
    if (strcmp(value, "false") == 0) return json_false();
    if (text_parse_int(value, &integer)) return json_integer(integer);
    if (text_parse_double(value, &number) && isfinite(number)) return json_real(number);
    return text(value);
}

static int add_config(void *context, const char *section, const char *key, const char *value)
{
    json_t *config = context, *object = json_object_get(config, section);
    if (!key) return 1;
    if (!object) {
        object = json_object();
        if (json_object_set_new(config, section, object)) return 0;
    }
    return json_object_set_new(object, key, show_config_value(value ? value : "")) == 0;
}

static json_t *config_json(const char *config)
{
    json_t *object = json_object();
    if (object) ini_parse_string(config, add_config, object);
    return object;
}

static json_t *evals_json(const struct show *show)
{
    json_t *list = json_array();
    for (size_t i = show->eval_count; list && i-- > 0;) {
        const struct eval_record *r = &show->evals[i];
        json_array_append_new(list, json_pack("{sI so so so so so}", "step", (json_int_t)r->step, "tokens",
                                              whole(r->tokens), "wall_time", run_table_number(r->wall_time),
                                              "val_loss", run_table_number(r->val_loss), "val_perplexity",
                                              run_table_number(r->val_perplexity), "eval_ms",
                                              run_table_number(r->eval_ms)));
    }
    return list;
}

static json_t *stopping_json(const struct show *show)
{
    static const char *const verdicts[] = {"improved", "waiting", "stop"};
    json_t *list = json_array();
    for (size_t i = show->stopping_count; list && i-- > 0;) {
        const struct stopping_record *r = &show->stopping[i].record;
        json_array_append_new(
            list, json_pack("{si sI so so so so sb sI sI ss}", "segment", show->stopping[i].segment, "step",
                            (json_int_t)r->step, "val_loss", run_table_number(r->val_loss), "best_val_loss",
                            run_table_number(r->best_val_loss), "best_step", whole(r->best_step), "min_delta",
                            run_table_number(r->min_delta), "improved", (int)r->improved, "patience_used",
                            (json_int_t)r->patience_used, "patience", (json_int_t)r->patience, "verdict",
                            verdicts[r->verdict]));
    }
    return list;
}

static json_t *checkpoints_json(const struct show *show)
{
    json_t *list = json_array();
    for (size_t i = show->checkpoint_count; list && i-- > 0;) {
        const struct checkpoint_record *r = &show->checkpoints[i];
        json_array_append_new(list, json_pack("{sI so so so so sb sb}", "step", (json_int_t)r->step,
                                              "wall_time", run_table_number(r->wall_time), "path",
                                              text(r->path), "kind", text(r->kind), "bytes", whole(r->bytes),
                                              "exists", (int)show->places[i].exists, "damaged",
                                              (int)show->places[i].damaged));
    }
    return list;
}

static json_t *samples_json(const struct show *show)
{
    json_t *list = json_array();
    for (size_t i = show->sample_count; list && i-- > 0;) {
        const struct sample_record *r = &show->samples[i];
        json_array_append_new(list, json_pack("{sI so so}", "step", (json_int_t)r->step, "prompt",
                                              text(r->prompt), "text", text(r->text)));
    }
    return list;
}

static json_t *orders_json(const struct show *show)
{
    json_t *list = json_array();
    for (size_t i = show->order_count; list && i-- > 0;) {
        const struct order_row *r = &show->orders[i];
        json_array_append_new(list,
                              json_pack("{so ss so so so so}", "issued_at", run_table_number(r->issued_at),
                                        "verb", order_verb_name(r->verb), "argument",
                                        run_table_number(r->argument), "issuer", text(r->issuer),
                                        "applied_step", whole(r->applied_step), "result", text(r->result)));
    }
    return list;
}

static json_t *events_json(const struct show *show)
{
    json_t *list = json_array();
    for (size_t i = show->event_count; list && i-- > 0;) {
        const struct event_record *r = &show->events[i];
        json_array_append_new(list, json_pack("{so so so so}", "step", whole(r->step), "wall_time",
                                              run_table_number(r->wall_time), "level", text(r->level), "text",
                                              text(r->text)));
    }
    return list;
}

static json_t *traces_json(const struct show *show)
{
    char path[64];
    json_t *list = json_array();
    for (size_t i = show->trace_count; list && i-- > 0;) {
        snprintf(path, sizeof path, "traces/step-%lld.json", (long long)show->traces[i]);
        json_array_append_new(list, json_pack("{sI ss}", "step", (json_int_t)show->traces[i], "path", path));
    }
    return list;
}

/* "processes" is null where nobody told. */
static json_t *processes_json(const struct gpu_record *device)
{
    json_t *list = device->process_count < 0 ? json_null() : json_array();
    for (int64_t i = 0; list && i < device->process_count; i++) {
        const struct gpu_process *p = &device->processes[i];
        json_array_append_new(list,
                              json_pack("{sI so so}", "pid", (json_int_t)p->pid, "name",
                                        *p->name ? text(p->name) : json_null(), "bytes", whole(p->bytes)));
    }
    return list;
}

static json_t *device_json(const struct show *show)
{
    const struct gpu_record *r = &show->device;
    if (!show->looked_at) return json_null();
    return json_pack("{so si so so so so so so so ss so so}", "wall_time", run_table_number(r->wall_time),
                     "gpu", r->gpu, "utilization_pct", run_table_number(r->utilization_pct),
                     "memory_used_bytes", whole(r->memory_used_bytes), "memory_total_bytes",
                     whole(r->memory_total_bytes), "power_w", run_table_number(r->power_w), "temperature_c",
                     run_table_number(r->temperature_c), "sm_clock_mhz", run_table_number(r->sm_clock_mhz),
                     "process_bytes", whole(r->process_bytes), "throttle", r->throttle, "load_1m",
                     run_table_number(r->load_1m), "processes", processes_json(r));
}

json_t *show_json(const struct show *show)
{
    json_t *object = run_table_json(&show->run);
    if (!object) return NULL;
    int failed = json_object_set_new(object, "folder", text(show->folder));
    failed |= json_object_set_new(object, "config", config_json(show->config));
    failed |= json_object_set_new(object, "evals", evals_json(show));
    failed |= json_object_set_new(object, "early_stopping", stopping_json(show));
    failed |= json_object_set_new(object, "checkpoints", checkpoints_json(show));
    failed |= json_object_set_new(object, "traces", traces_json(show));
    failed |= json_object_set_new(object, "samples", samples_json(show));
    failed |= json_object_set_new(object, "orders", orders_json(show));
    failed |= json_object_set_new(object, "events", events_json(show));
    failed |= json_object_set_new(object, "device_sample", device_json(show));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}
