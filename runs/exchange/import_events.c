/* TensorBoard's event files, see import.h: records (record_file.h) of the protobuf messages Event, Summary
 * and TensorProto, of which the scalars are read, as `simple_value` and as a tensor with one number. The
 * field numbers are those of event.proto, summary.proto and tensor.proto of TensorFlow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/exchange/import_scalars.h"

enum { TAG_MAX_BYTES = 256 };

/* ---- tensors ---- */

/* The numbers of DataType. */
enum { TYPE_FLOAT = 1, TYPE_DOUBLE = 2 };

/* Whether every dimension is 1. */
static bool is_single(struct protobuf shape)
{
    enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
    struct protobuf_field dim, size;
    while (protobuf_next(&shape, &dim)) {
        uint64_t extent = 0;
        if (dim.number != SHAPE_DIM) continue;
        while (protobuf_next(&dim.bytes, &size))
            if (size.number == DIM_SIZE) extent = size.whole;
        if (extent != 1) return false;
    }
    return !shape.bad;
}

/* A number of raw bytes: the content of a tensor, or the packed values of one. */
static bool read_raw(struct protobuf bytes, uint64_t type, double *out)
{
    bool wide = type == TYPE_DOUBLE;
    struct protobuf_field number = {.kind = wide ? PROTOBUF_FIXED64 : PROTOBUF_FIXED32};
    size_t size = (size_t)(bytes.end - bytes.at);
    if (size != (wide ? 8 : 4)) return false;
    for (size_t i = 0; i < size; i++) number.whole |= (uint64_t)bytes.at[i] << 8 * i;
    *out = protobuf_double(&number);
    return true;
}

/* The number in a tensor that holds one; false: it holds something else. */
static bool read_tensor(struct protobuf tensor, double *out)
{
    enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4, TENSOR_FLOATS = 5, TENSOR_DOUBLES = 6 };
    struct protobuf_field field;
    uint64_t type = 0;
    bool found = false;
    struct protobuf copy = tensor;
    while (protobuf_next(&copy, &field)) {
        if (field.number == TENSOR_TYPE) type = field.whole;
        if (field.number == TENSOR_SHAPE && !is_single(field.bytes)) return false;
    }
    if (type != TYPE_FLOAT && type != TYPE_DOUBLE) return false;
    while (protobuf_next(&tensor, &field)) {
        if (field.number != TENSOR_CONTENT &&
            field.number != (type == TYPE_FLOAT ? TENSOR_FLOATS : TENSOR_DOUBLES))
            continue;
        if (field.kind == PROTOBUF_BYTES && field.bytes.at == field.bytes.end) continue;
        if (found) return false;
        if (field.kind != PROTOBUF_BYTES) *out = protobuf_double(&field);
        found = field.kind != PROTOBUF_BYTES || read_raw(field.bytes, type, out);
        if (!found) return false;
    }
    return found;
}

/* ---- events ---- */

/* Puts the name of the folder before a tag: "validation/loss". add_scalars of PyTorch and of tensorboardX
 * makes a folder for each of its curves, "loss_val" or "loss/val", with the same tag "loss" in all of them.
 * There the tag says nothing new, and the folder alone is the name. It ends with a slash, so that it differs
 * from a tag called like the folder. */
static void name_metric(const char *part, const char *tag, char *buf, size_t size)
{
    char folder[256], word[TAG_MAX_BYTES];
    size_t n = strlen(scalar_word(tag, word, sizeof word));
    scalar_word(part, folder, sizeof folder);
    bool named = n && strncmp(folder, word, n) == 0 && folder[n] == '_';
    snprintf(buf, size, "%s%s%s", part, *part ? "/" : "", named ? "" : tag);
}

/* Whether the value belongs to another part of TensorBoard, such as its histograms. */
static bool is_of_other_plugin(struct protobuf metadata)
{
    enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };
    struct protobuf_field plugin, name;
    char text[32];
    while (protobuf_next(&metadata, &plugin)) {
        if (plugin.number != METADATA_PLUGIN) continue;
        while (protobuf_next(&plugin.bytes, &name))
            if (name.number == PLUGIN_NAME)
                return strcmp(protobuf_text(&name, text, sizeof text), "scalars") != 0;
    }
    return false;
}

static enum status read_value(struct import_scalars *scalars, struct protobuf value, int64_t step,
                              double wall_time)
{
    enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
    struct protobuf_field field;
    char tag[TAG_MAX_BYTES] = "", name[2 * TAG_MAX_BYTES];
    double number = NAN;
    bool found = false;
    while (protobuf_next(&value, &field)) {
        if (field.number == VALUE_TAG) protobuf_text(&field, tag, sizeof tag);
        if (field.number == VALUE_TAG && strcmp(tag, "model_config/text_summary") == 0)
            scalars->import->steps_done = true; /* by Hugging Face's trainer */
        if (field.number == VALUE_METADATA && is_of_other_plugin(field.bytes)) return STATUS_OK;
        if (field.number == VALUE_SIMPLE) number = protobuf_double(&field);
        if (field.number == VALUE_SIMPLE ||
            (field.number == VALUE_TENSOR && read_tensor(field.bytes, &number)))
            found = true;
    }
    if (value.bad) return import_bad(scalars->import, "a value is damaged");
    if (!found) return STATUS_OK;
    if (step < 0 || step > IMPORT_STEP_MAX) {
        scalars->import->left_out += !scalars->survey;
        return STATUS_OK;
    }
    name_metric(scalars->import->part, tag, name, sizeof name);
    return import_scalar(scalars, name, step, wall_time, number);
}

/* Whether a program begins to log at the step of the event, as PyTorch's says it with purge_step. */
static bool is_start(struct protobuf session)
{
    enum { SESSION_STATUS = 1, SESSION_START = 1 };
    struct protobuf_field field;
    bool start = false;
    while (protobuf_next(&session, &field))
        if (field.number == SESSION_STATUS) start = field.whole == SESSION_START;
    return start;
}

/* Removes what was logged from the step on: after a restart it does not count. */
static enum status take_start(struct import *import, int64_t step)
{
    static const enum store_table tables[] = {TABLE_STEPS, TABLE_EVALS, TABLE_MEASURES};
    char sql[100];
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < sizeof tables / sizeof *tables; i++) {
        if (!import->staged[tables[i]]) continue;
        snprintf(sql, sizeof sql, "delete from temp.stage_%s where segment = ?1 and step >= ?2",
                 store_tables[tables[i]].name);
        status = store_do(import->store, import->err, sql, "ii", (int64_t)import->segment, step);
    }
    import->turn++;
    return status;
}

static enum status read_event(void *context, struct protobuf event)
{
    enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_SUMMARY = 5, EVENT_SESSION = 7, SUMMARY_VALUE = 1 };
    struct import_scalars *scalars = context;
    struct protobuf_field field;
    struct protobuf summary = {0};
    bool start = false;
    double wall_time = NAN;
    int64_t step = 0;
    enum status status = STATUS_OK;
    while (protobuf_next(&event, &field)) {
        if (field.number == EVENT_WALL_TIME) wall_time = protobuf_double(&field);
        if (field.number == EVENT_STEP) step = (int64_t)field.whole;
        if (field.number == EVENT_SUMMARY) summary = field.bytes;
        if (field.number == EVENT_SESSION) start = is_start(field.bytes);
    }
    if (start && !scalars->survey) status = take_start(scalars->import, step);
    while (!status && protobuf_next(&summary, &field))
        if (field.number == SUMMARY_VALUE) status = read_value(scalars, field.bytes, step, wall_time);
    if (event.bad || summary.bad) return import_bad(scalars->import, "an event is damaged");
    return status;
}

enum status import_read_events(struct import *import, struct record_file *file)
{
    enum status status = import_set_kind(import, IMPORT_TENSORBOARD);
    if (!status && import->strangers)
        status =
            err_set(import->err, STATUS_USAGE,
                    "%s: is not in the same folder as other files (import one folder of TensorBoard's at "
                    "a time; only folders named train, validation, eval or test are parts of one run)",
                    import->path);
    struct import_scalars *scalars = calloc(1, sizeof *scalars);
    if (!status && !scalars) status = err_no_memory(import->err, "reading %s", import->path);
    if (!status) {
        scalars->import = import;
        status = import_scalars_read(scalars, file, true, read_event, scalars);
    }
    if (!status) status = import_scalars_read(scalars, file, false, read_event, scalars);
    free(scalars);
    return status;
}
