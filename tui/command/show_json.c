/* `anneal show --json`, see show.h. A number that is not finite is null. */
#include <ini.h>
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/run_table.h"
#include "tui/command/show.h"

void show_config_value(struct json_out *json, const char *name, const char *value)
{
    int64_t integer;
    double number;
    bool is_true = strcmp(value, "true") == 0;
    if (is_true || strcmp(value, "false") == 0)
        json_out_bool(json, name, is_true);
    else if (text_parse_int(value, &integer))
        json_out_int(json, name, integer);
    else if (text_parse_double(value, &number) && isfinite(number))
        json_out_real(json, name, number);
    else
        json_out_text(json, name, value);
}

/* The section that is open. */
struct config_reader {
    struct json_out *json;
    char section[128];
};

static int add_config(void *context, const char *section, const char *key, const char *value)
{
    struct config_reader *reader = context;
    if (!key) return 1;
    if (strcmp(reader->section, section) != 0) {
        if (*reader->section) json_out_close(reader->json);
        json_out_open(reader->json, section, '{', JSON_OUT_LINES);
        snprintf(reader->section, sizeof reader->section, "%s", section);
    }
    show_config_value(reader->json, key, value ? value : "");
    return 1;
}

static void add_configuration(struct json_out *json, const char *config)
{
    struct config_reader reader = {.json = json};
    json_out_open(json, "config", '{', JSON_OUT_LINES);
    ini_parse_string(config, add_config, &reader);
    if (*reader.section) json_out_close(json);
    json_out_close(json);
}

/* Rows oldest first, as in the CSV; they are read newest first. */
#define LIST(json, name, i, count)                                                                           \
    json_out_open(json, name, '[', JSON_OUT_LINES);                                                          \
    for (size_t i = (count); i-- > 0; json_out_close(json)) /* the object of a row */

static void open_row(struct json_out *json)
{
    json_out_open(json, NULL, '{', JSON_OUT_LINES);
}

static void add_evals(struct json_out *json, const struct show *show)
{
    LIST(json, "evals", i, show->eval_count)
    {
        const struct eval_record *r = &show->evals[i];
        open_row(json);
        json_out_int(json, "step", r->step);
        json_out_whole(json, "tokens", r->tokens);
        json_out_real(json, "wall_time", r->wall_time);
        json_out_real(json, "val_loss", r->val_loss);
        json_out_real(json, "val_perplexity", r->val_perplexity);
        json_out_real(json, "eval_ms", r->eval_ms);
    }
    json_out_close(json);
}

static void add_stopping(struct json_out *json, const struct show *show)
{
    static const char *const verdicts[] = {"improved", "waiting", "stop"};
    LIST(json, "early_stopping", i, show->stopping_count)
    {
        const struct stopping_record *r = &show->stopping[i].record;
        open_row(json);
        json_out_int(json, "segment", show->stopping[i].segment);
        json_out_int(json, "step", r->step);
        json_out_real(json, "val_loss", r->val_loss);
        json_out_real(json, "best_val_loss", r->best_val_loss);
        json_out_whole(json, "best_step", r->best_step);
        json_out_real(json, "min_delta", r->min_delta);
        json_out_bool(json, "improved", r->improved);
        json_out_int(json, "patience_used", r->patience_used);
        json_out_int(json, "patience", r->patience);
        json_out_text(json, "verdict", verdicts[r->verdict]);
    }
    json_out_close(json);
}

static void add_checkpoints(struct json_out *json, const struct show *show)
{
    LIST(json, "checkpoints", i, show->checkpoint_count)
    {
        const struct checkpoint_record *r = &show->checkpoints[i];
        open_row(json);
        json_out_int(json, "step", r->step);
        json_out_real(json, "wall_time", r->wall_time);
        json_out_text(json, "path", r->path);
        json_out_text(json, "kind", r->kind);
        json_out_whole(json, "bytes", r->bytes);
        json_out_bool(json, "exists", show->places[i].exists);
        json_out_bool(json, "damaged", show->places[i].damaged);
    }
    json_out_close(json);
}

static void add_traces(struct json_out *json, const struct show *show)
{
    char path[64];
    LIST(json, "traces", i, show->trace_count)
    {
        snprintf(path, sizeof path, "traces/step-%lld.json", (long long)show->traces[i]);
        open_row(json);
        json_out_int(json, "step", show->traces[i]);
        json_out_text(json, "path", path);
    }
    json_out_close(json);
}

static void add_samples(struct json_out *json, const struct show *show)
{
    LIST(json, "samples", i, show->sample_count)
    {
        open_row(json);
        json_out_int(json, "step", show->samples[i].step);
        json_out_text(json, "prompt", show->samples[i].prompt);
        json_out_text(json, "text", show->samples[i].text);
    }
    json_out_close(json);
}

static void add_orders(struct json_out *json, const struct show *show)
{
    LIST(json, "orders", i, show->order_count)
    {
        const struct order_row *r = &show->orders[i];
        open_row(json);
        json_out_real(json, "issued_at", r->issued_at);
        json_out_text(json, "verb", order_verb_name(r->verb));
        json_out_real(json, "argument", r->argument);
        json_out_text(json, "issuer", r->issuer);
        json_out_whole(json, "applied_step", r->applied_step);
        json_out_text(json, "result", r->result);
    }
    json_out_close(json);
}

static void add_events(struct json_out *json, const struct show *show)
{
    LIST(json, "events", i, show->event_count)
    {
        const struct event_record *r = &show->events[i];
        open_row(json);
        json_out_whole(json, "step", r->step);
        json_out_real(json, "wall_time", r->wall_time);
        json_out_text(json, "level", r->level);
        json_out_text(json, "text", r->text);
    }
    json_out_close(json);
}

/* null where nobody can say. */
static void add_processes(struct json_out *json, const struct gpu_record *device)
{
    if (device->process_count < 0) {
        json_out_null(json, "processes");
        return;
    }
    json_out_open(json, "processes", '[', JSON_OUT_LINES);
    for (int64_t i = 0; i < device->process_count; i++, json_out_close(json)) {
        const struct gpu_process *p = &device->processes[i];
        open_row(json);
        json_out_int(json, "pid", p->pid);
        json_out_text(json, "name", *p->name ? p->name : NULL);
        json_out_whole(json, "bytes", p->bytes);
    }
    json_out_close(json);
}

static void add_device(struct json_out *json, const struct show *show)
{
    const struct gpu_record *r = &show->device;
    if (!show->looked_at) {
        json_out_null(json, "device_sample");
        return;
    }
    json_out_open(json, "device_sample", '{', JSON_OUT_LINES);
    json_out_real(json, "wall_time", r->wall_time);
    json_out_int(json, "gpu", r->gpu);
    json_out_real(json, "utilization_pct", r->utilization_pct);
    json_out_whole(json, "memory_used_bytes", r->memory_used_bytes);
    json_out_whole(json, "memory_total_bytes", r->memory_total_bytes);
    json_out_real(json, "power_w", r->power_w);
    json_out_real(json, "temperature_c", r->temperature_c);
    json_out_real(json, "sm_clock_mhz", r->sm_clock_mhz);
    json_out_whole(json, "process_bytes", r->process_bytes);
    json_out_text(json, "throttle", r->throttle);
    json_out_real(json, "load_1m", r->load_1m);
    add_processes(json, r);
    json_out_close(json);
}

enum status show_json(const struct show *show, struct err *err)
{
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_open(&json, NULL, '{', JSON_OUT_LINES);
    run_table_json(&json, &show->run);
    json_out_text(&json, "folder", show->folder);
    add_configuration(&json, show->config);
    add_evals(&json, show);
    add_stopping(&json, show);
    add_checkpoints(&json, show);
    add_traces(&json, show);
    add_samples(&json, show);
    add_orders(&json, show);
    add_events(&json, show);
    add_device(&json, show);
    json_out_close(&json);
    return command_end_json(&json, err);
}
