/* See form_length.h. */
#include "tui/view/form_length.h"

#include <string.h>

#include "core/base/text.h"

#define STEPS  "train.total_steps"
#define EPOCHS "train.epochs"

static bool has_text(const struct form *form, size_t field)
{
    return field < form->count && *form->input[field].text;
}

/* Whether the field has a number of epochs to train for; 0 means that none count. */
static bool has_epochs(const struct form *form, size_t field)
{
    double epochs;
    return field < form->count && text_parse_double(form_value(form, field), &epochs) && epochs > 0;
}

/* Whether examples or documents are packed into rows, whose number then depends on their order. */
static bool packs_rows(const struct form *form)
{
    size_t format = form_find(form, "data.format"), documents = form_find(form, "data.documents");
    return (format < form->count && strcmp(form_value(form, format), "text") != 0) ||
           (documents < form->count && strcmp(form_value(form, documents), "packed") == 0);
}

/* Whether an epoch has as many steps as in the run that the form begins with: nothing is edited that decides
 * how many sequences the data and a step have. A model that is trained further brings its tokenizer. */
static bool steps_are_those_of_base(const struct form *form)
{
    static const char *const deciding[] = {"data.",         "model.from",         EPOCHS, "train.batch_size",
                                           "train.seq_len", "train.accumulation_"};
    bool packs = packs_rows(form);
    for (size_t i = 0; i < form->count; i++) {
        bool decides = packs && strcmp(form->fields[i].key, "train.seed") == 0;
        for (size_t k = 0; k < sizeof deciding / sizeof *deciding; k++)
            decides = decides || strncmp(form->fields[i].key, deciding[k], strlen(deciding[k])) == 0;
        if (decides && form->was[i] && strcmp(form_value(form, i), form->was[i]) != 0) return false;
    }
    return true;
}

/* A fork keeps the epochs of its base where the field is empty. */
static void exclude_epochs(struct form *form, size_t epochs)
{
    input_set(&form->input[epochs], "");
    if (has_epochs(form, epochs)) input_set(&form->input[epochs], "0");
}

static void restore_epochs(struct form *form, size_t epochs)
{
    const char *was = form->was[epochs];
    input_set(&form->input[epochs], was && strcmp(was, form->fields[epochs].fallback) != 0 ? was : "");
}

void form_length_init(struct form_length *length, struct form *form, struct form_field *fields,
                      const char *of_base)
{
    size_t steps = form_find(form, STEPS);
    *length = (struct form_length){.of_base = of_base};
    if (steps == form->count) return;
    length->steps = &fields[steps];
    length->fallback = fields[steps].fallback;
    if (of_base) form->was[steps] = of_base;
}

bool form_length_key(const struct form_length *length, struct form *form, enum action action, uint32_t code)
{
    size_t steps = form_find(form, STEPS), epochs = form_find(form, EPOCHS), at = form->at;
    bool had_steps = has_text(form, steps);
    if (!form_key(form, action, code)) return false;
    if (form->at != at || !length->steps || epochs == form->count) return true;
    if (at == epochs && has_epochs(form, epochs)) input_set(&form->input[steps], "");
    if (at == steps && had_steps && !has_text(form, steps)) restore_epochs(form, epochs);
    return true;
}

const char *form_length_settle(const struct form_length *length, struct form *form)
{
    size_t steps = form_find(form, STEPS), epochs = form_find(form, EPOCHS);
    if (epochs == form->count) return NULL;
    if (has_text(form, steps) && has_epochs(form, epochs)) exclude_epochs(form, epochs);
    bool counted = has_epochs(form, epochs), known = length->of_base && steps_are_those_of_base(form);
    const char *unset = counted ? known ? length->of_base : NULL : length->fallback;
    if (length->steps) {
        length->steps->fallback = unset ? unset : "-";
        form->note[steps] = counted ? "(from epochs)" : NULL;
    }
    return has_text(form, steps) ? NULL : unset;
}
