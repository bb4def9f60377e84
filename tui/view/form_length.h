/* How long the run of a form will be. Two of its fields say that: train.total_steps, and train.epochs, from
 * which the trainer computes the steps when it has counted the data. The one edited last counts, as on the
 * command line; the other one then shows that it does not. The number of steps that epochs come to is known
 * in a form that begins with a run of as many epochs, while nothing else on which it depends is edited. */
#ifndef ANNEAL_TUI_FORM_LENGTH_H
#define ANNEAL_TUI_FORM_LENGTH_H

#include "tui/view/form.h"

struct form_length {
    struct form_field *steps; /* the field train.total_steps; borrowed; NULL: the form has none */
    const char *fallback;     /* its default if no epochs count */
    const char *of_base;      /* steps of the run that the form begins with; borrowed; NULL: there is none */
};

/* Finds the fields, when the form has all of them and before they are edited. `fields`: those of the form.
 * The steps of the base are what its field was, also if they followed from epochs. */
void form_length_init(struct form_length *length, struct form *form, struct form_field *fields,
                      const char *of_base);

/* form_key for a form with these fields: steps exclude epochs, and epochs exclude steps. If the steps are
 * cleared, the epochs of the base count again. */
bool form_length_key(const struct form_length *length, struct form *form, enum action action, uint32_t code);

/* Gives the field train.total_steps the default that fits the other fields, after any of them has changed.
 * Returns the steps of the run if the filled-in fields do not give them; NULL: these do, or the steps are not
 * known. */
const char *form_length_settle(const struct form_length *length, struct form *form);

#endif
