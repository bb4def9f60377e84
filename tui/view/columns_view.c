/* The columns of the list of runs: all fields that there are. */
#include <string.h>

#include "core/base/text.h"
#include "runs/listing.h"
#include "tui/view/picker.h"
#include "tui/view/run_cells.h"
#include "tui/view/workbench.h"

struct columns_state {
    struct picker picker; /* the first member */
    struct field *fields; /* all, each once; the picker borrows their names */
    size_t count;
};

static const char *unit_words(const struct field *field)
{
    static const char *const words[] = {
        [UNIT_TEXT] = "text",   [UNIT_NUMBER] = "number",    [UNIT_COUNT] = "count",
        [UNIT_TIME] = "time",   [UNIT_SECONDS] = "duration", [UNIT_FRACTION] = "percent",
        [UNIT_WORDS] = "words", [UNIT_BYTES] = "bytes",
    };
    if (field->made == MADE_CURVE) return "the loss as a small curve";
    if (field->column || field->made) return words[field->unit];
    if (field->metric != METRIC_COUNT) return "metric, newest value";
    return strchr(field->name, '.') ? "key of the configuration" : "measure, newest value";
}

/* The field of this name, or another name of the same field; NULL: it is not listed. */
static const struct field *find(const struct columns_state *state, const struct field *field)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct field *listed = &state->fields[i];
        if (strcmp(listed->name, field->name) == 0 || (listed->column && listed->column == field->column))
            return listed;
    }
    return NULL;
}

/* Lists a field once. */
static void add(struct columns_state *state, const char *name)
{
    struct field *field = &state->fields[state->count];
    if (!field_find(name, field) || find(state, field)) return;
    picker_add(&state->picker, field->name, unit_words(field));
    state->count++;
}

/* Chooses the fields of a list with commas. With `listing`, those that no run has any more are listed, too,
 * so that they can be taken away. */
static void choose(struct columns_state *state, const char *columns, bool listing)
{
    char name[FIELD_NAME_MAX];
    for (int i = 0; i < LISTING_COLUMNS_MAX && text_next_name(&columns, name, sizeof name); i++) {
        struct field field;
        if (listing) add(state, name);
        const struct field *listed = field_find(name, &field) ? find(state, &field) : NULL;
        if (listed) picker_choose(&state->picker, picker_find(&state->picker, listed->name));
    }
}

static void choose_usual(struct picker *picker)
{
    choose((struct columns_state *)picker, RUN_CELLS_DEFAULT, false);
}

static enum status columns_open(struct workbench *workbench, void *opaque, const char *argument,
                                struct err *err)
{
    struct columns_state *state = opaque;
    const char *columns = settings_get(&workbench->settings, "runs.columns"), *const * names;
    size_t count;
    (void)argument;
    state->picker.title = "Columns";
    state->picker.noun = "column";
    state->picker.most = LISTING_COLUMNS_MAX;
    state->picker.choose_usual = choose_usual;
    strcpy(state->picker.setting, "runs.columns");
    enum status status = field_names_read(workbench->store, &state->picker.arena, &names, &count, err);
    if (status) return status;
    size_t room = count + LISTING_COLUMNS_MAX + 1;
    state->fields = arena_alloc_array(&state->picker.arena, room, sizeof *state->fields);
    if (!state->fields || !picker_init(&state->picker, room))
        return err_no_memory(err, "a list of %zu columns", count);
    for (size_t i = 0; i < count; i++) add(state, names[i]);
    choose(state, *columns ? columns : RUN_CELLS_DEFAULT, true);
    return STATUS_OK;
}

const struct view_ops columns_view = {
    CONTEXT_COLUMNS, sizeof(struct columns_state), columns_open, picker_read, picker_draw, picker_key,
    picker_close};
