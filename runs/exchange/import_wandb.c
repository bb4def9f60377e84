/* wandb's offline runs, see import.h: records (record_file.h) of the protobuf message Record of wandb, of
 * which the history, the metrics that were defined, the configuration, the summary, and name, notes and tags
 * of the run are read. The field numbers are those of wandb_internal.proto of wandb 0.31.
 *
 * The file is read twice. The first time everything but the values of the history is taken; of these it is
 * seen which there are, because wandb writes those of a row in any order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/exchange/import_scalars.h"
#include "runs/exchange/import_wandb.h"

/* An x axis that the program defined for a metric, or for all that begin with the name, which ends in '*'. */
struct axis {
    char *metric, *step;
};

struct wandb {
    struct import *import;
    struct import_scalars scalars;
    struct import_rows tags;
    json_t *config;
    struct arena arena; /* the axes, and the names of objects */
    struct axis *axes;
    char **objects; /* the names of tables, pictures and the like, with a dot behind */
    size_t axis_count, object_count;
    const char *step_name; /* the metric that is the step; NULL: wandb's number of the row */
    int64_t step;          /* of the newest row of the history */
    char run_id[80], name[RUN_NAME_MAX], note[RUN_NOTE_MAX], start[40];
};

static enum status no_memory(const struct wandb *w)
{
    return err_no_memory(w->import->err, "reading %s", w->import->path);
}

/* ---- the summary ---- */

static enum status note_number(struct wandb *w, const char *key, double number)
{
    struct import_metric *metric = import_metrics_at(&w->import->metrics, key);
    if (!metric) return no_memory(w);
    metric->summed = true;
    metric->summary = number;
    return STATUS_OK;
}

/* Notes the numbers in an object, such as {"min": 3}, by names like val_loss.min. Those of a table, a picture
 * and the like describe a file. */
static enum status note_object(struct wandb *w, const char *key, json_t *object, int depth)
{
    enum { DEPTH_MAX = 8 };
    const char *name;
    json_t *member;
    enum status status = STATUS_OK;
    if (depth == DEPTH_MAX || json_object_get(object, "_type")) return STATUS_OK;
    json_object_foreach(object, name, member) {
        char nested[ITEM_KEY_MAX] = "";
        text_add(nested, sizeof nested, "", "%s.%s", key, name);
        if (status) continue;
        if (json_is_number(member)) status = note_number(w, nested, json_number_value(member));
        if (json_is_object(member)) status = note_object(w, nested, member, depth + 1);
    }
    return status;
}

static enum status read_summary(struct wandb *w, struct protobuf summary)
{
    enum { SUMMARY_UPDATE = 1 };
    struct protobuf_field field;
    enum status status = STATUS_OK;
    while (!status && protobuf_next(&summary, &field)) {
        struct wandb_item item = wandb_item_read(field.bytes);
        if (field.number != SUMMARY_UPDATE || item.key[0] == '_') continue;
        if (item.is_number) status = note_number(w, item.key, item.number);
        if (item.json.at == item.json.end || *item.json.at != '{') continue;
        json_t *value = wandb_item_value(&item);
        status = note_object(w, item.key, value, 0);
        json_decref(value);
    }
    return status;
}

/* Values that were only summed up belong to the end. */
static enum status stage_summary(struct wandb *w)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < w->import->metrics.count; i++) {
        const struct import_metric *metric = &w->import->metrics.all[i];
        if (!metric->count && metric->summed)
            status = import_scalar(&w->scalars, metric->name, w->step, NAN, metric->summary);
    }
    return status;
}

/* ---- the step ---- */

static enum status read_metric(struct wandb *w, struct protobuf metric)
{
    enum { METRIC_NAME = 1, METRIC_GLOB = 2, METRIC_STEP = 4 };
    struct protobuf_field field;
    char name[ITEM_KEY_MAX] = "", step[ITEM_KEY_MAX] = "";
    while (protobuf_next(&metric, &field)) {
        if (field.number == METRIC_NAME || field.number == METRIC_GLOB)
            protobuf_text(&field, name, sizeof name);
        if (field.number == METRIC_STEP) protobuf_text(&field, step, sizeof step);
    }
    if (!*step) return STATUS_OK;
    struct axis *axis = arena_grow(&w->arena, &w->axes, w->axis_count, sizeof *axis);
    if (!axis) return no_memory(w);
    *axis = (struct axis){arena_strdup(&w->arena, name), arena_strdup(&w->arena, step)};
    if (!axis->metric || !axis->step) return no_memory(w);
    w->axis_count++;
    return STATUS_OK;
}

/* The step that was defined for a metric: the newest for its name, else for the beginning of it. NULL: none.
 */
static const char *defined_step(const struct wandb *w, const char *metric)
{
    const char *found = NULL;
    for (size_t i = w->axis_count; i-- > 0;) {
        size_t n = strlen(w->axes[i].metric);
        bool glob = n && w->axes[i].metric[n - 1] == '*';
        if (strcmp(w->axes[i].metric, metric) == 0) return w->axes[i].step;
        if (!found && glob && strncmp(w->axes[i].metric, metric, n - 1) == 0) found = w->axes[i].step;
    }
    return found;
}

/* The metric of this name if its values can be steps; NULL: it is not logged, or they cannot. */
static struct import_metric *step_metric(struct wandb *w, const char *name)
{
    struct import_metric *metric = import_metrics_at(&w->import->metrics, name);
    bool can = metric && metric->count && !metric->fractions && metric->least >= 0 && metric->most < 1e15;
    return can ? metric : NULL;
}

/* Chooses the step of all rows: what the program has defined as the x axis of the loss, else what trainers
 * are known to log as their step (Hugging Face's, Lightning's, nanoGPT's), if it never falls, else wandb's
 * own, which counts rows. That of Hugging Face counts the steps done. */
static void choose_step(struct wandb *w)
{
    static const char hugging_face[] = "train/global_step";
    static const char *const known[] = {hugging_face, "trainer/global_step", "iter"};
    const struct import_metrics *metrics = &w->import->metrics;
    const struct import_metric *loss = import_metrics_owner(metrics, COLUMN(STEPS, loss));
    if (!loss) loss = import_metrics_owner(metrics, COLUMN(EVALS, val_loss));
    const char *defined = defined_step(w, loss ? loss->name : "*");
    struct import_metric *step = defined ? step_metric(w, defined) : NULL;
    for (size_t i = 0; !step && i < sizeof known / sizeof *known; i++)
        if ((step = step_metric(w, known[i])) && step->falls) step = NULL;
    if (defined && (!step || strcmp(step->name, defined) != 0))
        text_add(w->import->remark, sizeof w->import->remark, "; ",
                 "%.60s, the step that the log defines, is not a whole number in all its rows: %.60s is used",
                 defined, step ? step->name : "the number of the row");
    if (!step) return;
    w->step_name = step->name;
    w->import->steps_done = strcmp(step->name, hugging_face) == 0;
    if (!step->column) step->left_out = true;
}

/* The step of a row. Where rows have that of the program, one without it goes with the row before. */
static int64_t step_of(const struct wandb *w, struct protobuf history, double *wall_time)
{
    enum { HISTORY_ITEM = 1, HISTORY_STEP = 2, STEP_NUMBER = 1 };
    struct protobuf_field field, number;
    int64_t row = 0, step = w->step;
    while (protobuf_next(&history, &field)) {
        if (field.number == HISTORY_STEP)
            while (protobuf_next(&field.bytes, &number))
                if (number.number == STEP_NUMBER) row = (int64_t)number.whole;
        if (field.number != HISTORY_ITEM) continue;
        struct wandb_item item = wandb_item_read(field.bytes);
        bool whole = item.number >= 0 && item.number < 1e15 && floor(item.number) == item.number;
        if (strcmp(item.key, "_timestamp") == 0) *wall_time = item.number;
        if (strcmp(item.key, "_step") == 0 && whole) row = (int64_t)item.number;
        if (w->step_name && strcmp(item.key, w->step_name) == 0 && whole) step = (int64_t)item.number;
    }
    return w->step_name ? step : row;
}

/* ---- the history ---- */

/* Remembers the object to which a key belongs: "tab._type" gives "tab.". */
static enum status note_type(struct wandb *w, const char *key)
{
    char *name;
    size_t n = strlen(key) - strlen("_type");
    for (size_t i = 0; i < w->object_count; i++)
        if (strlen(w->objects[i]) == n && strncmp(w->objects[i], key, n) == 0) return STATUS_OK;
    if (!(name = arena_printf(&w->arena, "%.*s", (int)n, key))) return no_memory(w);
    char **slot = arena_grow(&w->arena, &w->objects, w->object_count, sizeof *slot);
    if (!slot) return no_memory(w);
    *slot = name;
    w->object_count++;
    return STATUS_OK;
}

/* Leaves out the numbers that describe a table, a picture and the like, such as its size. */
static void leave_out_objects(struct wandb *w)
{
    for (size_t i = 0; i < w->import->metrics.count; i++) {
        struct import_metric *metric = &w->import->metrics.all[i];
        for (size_t k = 0; k < w->object_count; k++)
            metric->left_out |= strncmp(metric->name, w->objects[k], strlen(w->objects[k])) == 0;
    }
}

static enum status read_history(struct wandb *w, struct protobuf history)
{
    enum { HISTORY_ITEM = 1 };
    struct protobuf_field field;
    double wall_time = NAN;
    enum status status = STATUS_OK;
    if (!w->scalars.survey) w->step = step_of(w, history, &wall_time);
    while (!status && protobuf_next(&history, &field)) {
        struct wandb_item item = wandb_item_read(field.bytes);
        if (field.number != HISTORY_ITEM || item.key[0] == '_') continue;
        if (item.is_number) status = import_scalar(&w->scalars, item.key, w->step, wall_time, item.number);
        if (w->scalars.survey && text_ends_with(item.key, "._type")) status = note_type(w, item.key);
    }
    return status;
}

/* ---- the run ---- */

static enum status read_tag(struct wandb *w, const struct protobuf_field *field)
{
    char text[TAG_MAX], tag[3 * TAG_MAX + 1];
    clean_line(tag, sizeof tag, protobuf_text(field, text, sizeof text));
    tag[utf8_cut(tag, strnlen(tag, TAG_MAX - 1))] = '\0';
    for (char *c = tag; *c; c++)
        if (strchr(" ,()=!<>~\"'", *c) || (c == tag && strchr("+-", *c))) *c = '_';
    return tag_check(tag, NULL) ? STATUS_OK : import_rows_add(&w->tags, (const char *[]){tag});
}

static void read_start(struct wandb *w, struct protobuf timestamp)
{
    enum { TIME_SECONDS = 1 };
    struct protobuf_field field;
    while (protobuf_next(&timestamp, &field))
        if (field.number == TIME_SECONDS) snprintf(w->start, sizeof w->start, "%lld", (long long)field.whole);
}

static enum status read_run(struct wandb *w, struct protobuf run)
{
    enum {
        RUN_ID = 1,
        RUN_CONFIG = 4,
        RUN_SUMMARY = 5,
        RUN_NAME = 8,
        RUN_NOTES = 9,
        RUN_TAG = 10,
        RUN_START = 17
    };
    struct protobuf_field field;
    char note[RUN_NOTE_MAX];
    enum status status = STATUS_OK;
    while (!status && protobuf_next(&run, &field)) {
        if (field.number == RUN_ID) protobuf_text(&field, w->run_id, sizeof w->run_id);
        if (field.number == RUN_NAME) protobuf_text(&field, w->name, sizeof w->name);
        if (field.number == RUN_NOTES)
            clean_line(w->note, sizeof w->note, protobuf_text(&field, note, sizeof note));
        if (field.number == RUN_TAG) status = read_tag(w, &field);
        if (field.number == RUN_START) read_start(w, field.bytes);
        if (field.number == RUN_CONFIG && !wandb_config_update(w->config, field.bytes)) status = no_memory(w);
        if (field.number == RUN_SUMMARY) status = read_summary(w, field.bytes);
    }
    return status;
}

/* Name, note and start, as a row of `runs`. */
static enum status store_run_row(struct wandb *w)
{
    const char *name = *w->name ? w->name : w->run_id;
    struct import_rows rows = {.import = w->import,
                               .table = TABLE_RUNS,
                               .columns = {COLUMN(RUNS, name), COLUMN(RUNS, note), COLUMN(RUNS, created_at)}};
    if (!*name) return STATUS_OK;
    enum status status = import_rows_begin(&rows);
    if (status) return status;
    return import_rows_add(&rows, (const char *[]){name, w->note, *w->start ? w->start : "0"});
}

/* ---- all of it ---- */

static enum status read_record(void *context, struct protobuf record)
{
    enum { RECORD_HISTORY = 2, RECORD_SUMMARY = 3, RECORD_CONFIG = 5, RECORD_METRIC = 12, RECORD_RUN = 17 };
    struct wandb *w = context;
    struct protobuf_field field;
    enum status status = STATUS_OK;
    while (!status && protobuf_next(&record, &field)) {
        if (field.number == RECORD_HISTORY) status = read_history(w, field.bytes);
        if (!w->scalars.survey) continue;
        if (field.number == RECORD_SUMMARY) status = read_summary(w, field.bytes);
        if (field.number == RECORD_CONFIG && !wandb_config_update(w->config, field.bytes))
            status = no_memory(w);
        if (field.number == RECORD_METRIC) status = read_metric(w, field.bytes);
        if (field.number == RECORD_RUN) status = read_run(w, field.bytes);
    }
    return status || !record.bad ? status : import_bad(w->import, "is a damaged record");
}

static enum status begin(struct wandb *w, struct import *import)
{
    w->import = w->scalars.import = import;
    w->tags = (struct import_rows){
        .import = import, .table = TABLE_TAGS, .columns = {COLUMN(TAGS, tag)}, .value = COLUMN(TAGS, tag)};
    if (!(w->config = json_object())) return no_memory(w);
    return import_rows_begin(&w->tags);
}

/* Reads the file twice: the names of all metrics are known when the first value is stored. */
static enum status read_twice(struct wandb *w, struct record_file *file)
{
    enum status status = import_scalars_read(&w->scalars, file, true, read_record, w);
    if (!status) leave_out_objects(w);
    if (!status && !import_metrics_assign(&w->import->metrics)) status = no_memory(w);
    if (!status) choose_step(w);
    if (!status) status = import_scalars_read(&w->scalars, file, false, read_record, w);
    if (!status) status = stage_summary(w);
    if (!status) status = wandb_config_stage(w->import, w->config);
    return status ? status : store_run_row(w);
}

enum status import_read_wandb(struct import *import, struct record_file *file)
{
    enum status status = import_set_kind(import, IMPORT_WANDB);
    struct wandb *w = calloc(1, sizeof *w);
    if (!status && !w) status = err_no_memory(import->err, "reading %s", import->path);
    if (!status) status = begin(w, import);
    if (!status) status = read_twice(w, file);
    if (w) {
        json_decref(w->config);
        arena_release(&w->arena);
    }
    free(w);
    return status;
}
