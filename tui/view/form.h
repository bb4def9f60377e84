/* Lines of labelled fields that are typed or turned, and below them a line that does something: what the form
 * of a new run and the playground share. */
#ifndef ANNEAL_TUI_FORM_H
#define ANNEAL_TUI_FORM_H

#include "tui/view/keys.h"
#include "tui/view/settings.h"

/* One line: a configuration key as `anneal train --section.key=value` takes it, or another setting. */
struct form_field {
    const char *key;      /* "train.batch_size"; "name" and "device" are options of their own */
    const char *label;    /* "batch size" */
    const char *fallback; /* the default, shown when the field is empty */
    const char *hint;     /* one line: meaning, unit, limits */
    const char *choices;  /* "adamw|lion"; NULL: free text */
};

struct form {
    const struct form_field *fields; /* (count) borrowed */
    struct input *input;             /* (count) borrowed; "": the default */
    const char *
        *was; /* (count) borrowed: the values of the run that this one is made from, or NULL; NULL: none */
    size_t count, at; /* at == count: on the last line */
    size_t scroll;
    const char *empty; /* said behind a default: "(default)" */
    const char **note; /* (count) borrowed: said behind the default of a field instead, or NULL; NULL: none */
};

/* The field in focus; NULL: the last line. */
const struct form_field *form_at(const struct form *form);

/* The value of a field: as typed, or the default. */
const char *form_value(const struct form *form, size_t field);

/* The number of the field with this key; `count`: there is none. */
size_t form_find(const struct form *form, const char *key);

/* Keeps what is typed in the settings "prefix.key"; `drop`: forgets it. */
void form_keep(const struct form *form, struct settings *settings, const char *prefix, bool drop);
/* Fills the fields as they were kept, empty ones too, and returns true, unless none was kept that is not
 * empty: then they stay. */
bool form_recall(struct form *form, const struct settings *settings, const char *prefix);

/* Moves between the lines or edits the field in focus; false: the key is not one of these. */
bool form_key(struct form *form, enum action action, uint32_t code);

/* Draws the fields, a blank row and the last line, which says `button`. Where they do not fit, the fields
 * scroll above that line; in a single row, only the line in focus is drawn. `wrong`: the number of a field
 * with a bad value; `count`: none. */
void form_draw(struct form *form, struct grid *grid, struct rect area, const char *button, size_t wrong);

#endif
