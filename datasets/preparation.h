/* How texts become a token file: a tokenizer is opened or learned from them, they are encoded one after the
 * other, and the file appears with its sidecar and its tokenizer, whole or not at all. Where the result is
 * kept, and whether it is there already, is corpus.h's business. */
#ifndef ANNEAL_DATASETS_PREPARATION_H
#define ANNEAL_DATASETS_PREPARATION_H

#include <stdint.h>

#include "core/base/err.h"
#include "datasets/corpus.h"
#include "datasets/text_inputs.h"

/* "bpe:N" gives N, anything else 0; -1 where N is no number. */
int64_t preparation_bpe_size(const char *word);

/* The tokenizer that `word` names, without any text: *out stays NULL for "bpe:N". */
enum status preparation_open_tokenizer(const char *word, struct tokenizer **out, struct err *err);

/* Writes path, path.json and tokenizer_path. `opened` is the tokenizer where `word` did not need the text,
 * else NULL: it is learned from `inputs`. */
enum status preparation_write(const struct text_inputs *inputs, const char *word,
                              const struct tokenizer *opened, const char *path, const char *tokenizer_path,
                              const struct progress *progress, struct corpus_summary *summary,
                              struct err *err);

#endif
