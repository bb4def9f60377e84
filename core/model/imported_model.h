/* Models that were imported: folders of $ANNEAL_HOME/models, which go by their names wherever the folder of a
 * model is asked for. What is in one was checked when it came. */
#ifndef ANNEAL_CORE_MODEL_IMPORTED_MODEL_H
#define ANNEAL_CORE_MODEL_IMPORTED_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/model/model.h"

/* What was looked at before it was taken over. */
struct imported_model {
    struct model_config config;
    size_t tensors, files;
    int64_t bytes;        /* of all that was written */
    int vocabulary;       /* of its tokenizer; 0: it has none that can be read */
    struct err tokenizer; /* why not; status ok: there is none, or it can */
};

/* Where the model of that name is, or would be. */
enum status imported_model_folder(const char *name, char *folder, size_t size, struct err *err);

/* Whether `word` is the name of one; then its folder. */
bool imported_model_find(const char *word, char *folder, size_t size);

/* Takes the checkout in `from` over into the new folder `to`: its description and tokenizer as they are, its
 * weights, of one file or in shards, as one model.safetensors in their own type. An architecture that is not
 * computed, and every tensor that is missing, not known, of another shape, or not F32, BF16 or F16, is
 * refused before anything is written. */
enum status imported_model_write(const char *from, const char *to, struct imported_model *out,
                                 struct err *err);

#endif
