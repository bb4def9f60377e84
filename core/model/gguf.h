/* GGUF, the file format of llama.cpp and what builds on it (Ollama, LM Studio): one file with the model's
 * sizes, its tokenizer and its weights. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md,
 * version 3. Only written here, never read.
 *
 * llama.cpp rotates adjacent pairs in models of the architecture "llama", where Hugging Face's order rotates
 * split halves: the rows of their q and k projections are written in another order. */
#ifndef ANNEAL_CORE_MODEL_GGUF_H
#define ANNEAL_CORE_MODEL_GGUF_H

#include <stdint.h>

#include "core/model/model.h"
#include "core/model/safetensors.h"
#include "datasets/progress.h"

/* The type of matrices; vectors are always F32. Q8_0: blocks of 32 elements in 8 bits with one F16 scale;
 * a matrix whose rows are no multiple of 32 wide stays F16. */
enum gguf_type { GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q8_0, GGUF_TYPES };
#define GGUF_WORDS "f32|f16|bf16|q8_0" /* in the order of the enum */

/* Writes a model to `path`, atomically, and reports to `progress` (may be NULL), which may stop it: `config`,
 * `weights`, which must match it (checkpoint_check_weights), and the tokenizer, special tokens and chat
 * template in `folder`. *bytes is the size of the file. STATUS_USAGE: llama.cpp cannot compute this model or
 * split text as its tokenizer does, or a weight is too large for F16. */
enum status gguf_write(const char *folder, const struct model_config *config,
                       const struct safetensors *weights, const char *path, enum gguf_type type,
                       const struct progress *progress, int64_t *bytes, struct err *err);

#endif
