/* Reads the components around the model of a tokenizer.json: normalizer, pre_tokenizer, decoder and
 * post_processor. Private to tokenizer_json.c, which reads the rest. */
#ifndef ANNEAL_DATASETS_TOKENIZER_PIPELINE_H
#define ANNEAL_DATASETS_TOKENIZER_PIPELINE_H

#include <jansson.h>

#include "datasets/bpe.h"

/* The tokenizer that is being read. */
struct reading {
    const char *name;
    struct byte_alphabet alphabet;
    struct bpe bpe;
    struct arena scratch;
    struct err *err;
};

/* The errors of a reading; each returns its status. `field` is a path in the file. */
enum status reading_corrupt(struct reading *r, const char *field, const char *what);
enum status reading_unsupported(struct reading *r, const char *field, const char *what);
enum status reading_no_memory(struct reading *r);

/* The "type" of a component, or words that say there is none. */
const char *reading_type(json_t *component);

/* Fill in normalizer, patterns, spaces, and whether merging begins with characters: what the vocabulary's
 * spelling depends on. */
enum status pipeline_read_splitting(struct reading *r, json_t *root);

/* Fills in what tokens decode to, and what is stripped. After the vocabulary. */
enum status pipeline_read_decoder(struct reading *r, json_t *decoder);

/* Fills in the ids before and after a prompt. After the vocabulary. */
enum status pipeline_read_post_processor(struct reading *r, json_t *processor);

#endif
