/* The tokenizer of a GGUF file. */
#ifndef ANNEAL_CORE_MODEL_GGUF_TOKENIZER_H
#define ANNEAL_CORE_MODEL_GGUF_TOKENIZER_H

#include "core/base/err.h"
#include "core/model/gguf_metadata.h"

/* Writes tokenizer, special tokens and chat template of the model in `folder` with `vocab_size` rows of
 * embedding. A model without tokenizer.json is written without one. */
enum status gguf_put_tokenizer(struct gguf_metadata *m, const char *folder, int vocab_size, struct err *err);

#endif
