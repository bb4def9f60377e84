/* For each word of data.format: the properties of model, plan and data that follow from the word alone. */
#ifndef ANNEAL_CORE_MODEL_DATA_FORMAT_H
#define ANNEAL_CORE_MODEL_DATA_FORMAT_H

#include <stdbool.h>

#include "core/model/choices.h"

struct format_traits {
    const char *purpose; /* of a run, beside its name in the list of reservations; "": training on text */
    bool packed;         /* rows hold several sequences */
    bool writes_text;    /* the model predicts the next token */
    bool answers; /* and answers in conversations: samples ask it, and checkpoints have its chat template */
    int least_labels; /* of a classifier, which reads its texts itself; else 0 */
};

static inline const struct format_traits *format_traits(enum data_format format)
{
    static const struct format_traits traits[] = {
        [FORMAT_TEXT] = {.purpose = "", .writes_text = true},
        [FORMAT_INSTRUCTIONS] = {"instructions", .packed = true, .writes_text = true, .answers = true},
        [FORMAT_LABELS] = {"classify", .packed = true, .least_labels = 2}};
    return &traits[format];
}

#endif
