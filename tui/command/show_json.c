/* `anneal show --json`, see show.h. A number that is not finite is null. */
#include <ini.h>
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/columns.h"
#include "tui/command/command.h"
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

void show_run_json(struct json_out *json, const struct run_info *run)
{
    const struct table_info *table = &store_tables[TABLE_RUNS];
    json_out_text(json, "run", run->id);
    for (int i = table->first; i < table->end; i++) {
        const struct column_info *column = &store_columns[i];
        const char *text = column_text(column, run);
        if (i == COLUMN_RUNS_parent_id && !*text)
            json_out_null(json, column->name);
        else if (column->field != FIELD_NONE)
            column_json(json, column, run);
    }
}

/* Rows are read newest first and written oldest first, as in the CSV; `more` adds members to each. */
static void add_rows(struct json_out *json, const char *name, enum store_table table, const void *rows,
                     size_t count, const struct show *show,
                     void (*more)(struct json_out *json, const struct show *show, size_t row))
{
    json_out_open(json, name, '[', JSON_OUT_LINES);
    for (size_t i = count; i-- > 0;) {
        json_out_open(json, NULL, '{', JSON_OUT_LINES);
        if (rows) table_json(json, table, (const char *)rows + i * store_tables[table].record);
        if (more) more(json, show, i);
        json_out_close(json);
    }
    json_out_close(json);
}

static void stopping_row(struct json_out *json, const struct show *show, size_t row)
{
    json_out_int(json, "segment", show->stopping[row].segment);
    table_json(json, TABLE_STOPPING, &show->stopping[row].record);
}

static void place_of_checkpoint(struct json_out *json, const struct show *show, size_t row)
{
    json_out_bool(json, "exists", show->places[row].exists);
    json_out_bool(json, "damaged", show->places[row].damaged);
}

static void trace(struct json_out *json, const struct show *show, size_t row)
{
    char path[80];
    snprintf(path, sizeof path, "traces/%s", show->traces[row].name);
    json_out_int(json, "step", show->traces[row].step);
    json_out_text(json, "path", path);
}

/* processes is null where nobody can say. */
static void add_device(struct json_out *json, const struct show *show)
{
    const struct gpu_record *r = &show->device;
    if (!show->looked_at) {
        json_out_null(json, "device_sample");
        return;
    }
    json_out_open(json, "device_sample", '{', JSON_OUT_LINES);
    table_json(json, TABLE_GPU, r);
    if (r->process_count < 0) {
        json_out_null(json, "processes");
    } else {
        json_out_open(json, "processes", '[', JSON_OUT_LINES);
        for (int64_t i = 0; i < r->process_count; i++) {
            const struct gpu_process *p = &r->processes[i];
            json_out_open(json, NULL, '{', JSON_OUT_LINES);
            json_out_int(json, "pid", p->pid);
            json_out_text(json, "name", *p->name ? p->name : NULL);
            json_out_whole(json, "bytes", p->bytes);
            json_out_close(json);
        }
        json_out_close(json);
    }
    json_out_close(json);
}

enum status show_json(const struct show *show, struct err *err)
{
    struct json_out json;
    command_begin_json(&json, '{');
    show_run_json(&json, &show->run);
    json_out_text(&json, "folder", show->folder);
    add_configuration(&json, show->config);
    add_rows(&json, "evals", TABLE_EVALS, show->evals, show->eval_count, show, NULL);
    add_rows(&json, "early_stopping", TABLE_STOPPING, NULL, show->stopping_count, show, stopping_row);
    add_rows(&json, "checkpoints", TABLE_CHECKPOINTS, show->checkpoints, show->checkpoint_count, show,
             place_of_checkpoint);
    add_rows(&json, "traces", TABLE_COUNT, NULL, show->trace_count, show, trace);
    add_rows(&json, "samples", TABLE_SAMPLES, show->samples, show->sample_count, show, NULL);
    add_rows(&json, "orders", TABLE_ORDERS, show->orders, show->order_count, show, NULL);
    add_rows(&json, "events", TABLE_EVENTS, show->events, show->event_count, show, NULL);
    add_device(&json, show);
    return command_end_json(&json, err);
}
