/* Documents of a corpus, packed into rows (packing.h), so that a row begins with the beginning of a document
 * or of a piece of one, and attention stays within it.
 *
 * A document ends with the token `end`, or with its file. Input t of a document is its token t, its target
 * token t + 1, so that one of n tokens takes n − 1 places; a document with more than T places is cut into
 * pieces of T, which share no place. So each token of the corpus is a target at most once in an epoch, and
 * only the first of a document never is. Places that stay empty have the token 0 and no target. */
#ifndef ANNEAL_DATASETS_DOCUMENTS_H
#define ANNEAL_DATASETS_DOCUMENTS_H

#include <stdint.h>

#include "core/base/err.h"
#include "datasets/batch.h"
#include "datasets/corpus.h"
#include "datasets/packing.h"

/* The pieces of documents in one part of a corpus. Held out ones are in random order, so that the first rows
 * are a sample of all. */
struct document_rows {
    const struct token_file *files; /* file_count of them, borrowed */
    size_t file_count;
    uint64_t *first;    /* (count) the token at which each piece begins, numbered through all files; owned */
    uint32_t *lengths;  /* (count) places of each, at most T; owned */
    uint64_t count;     /* pieces */
    uint64_t documents; /* that they are of */
    struct packing packing;
    int T;
    int64_t padding; /* a target with this id is LABEL_IGNORED; -1 (initially): none */
};

/* The token that ends documents: `id`, data.end_token, or if that is below 0 the one that the tokenizer has
 * for the end of a text. STATUS_USAGE: it has none. */
enum status documents_end(const struct corpus *corpus, int64_t id, uint32_t *end, struct err *err);

/* Divides the documents into training and validation as split_corpus does sequences; a document is in one of
 * them as a whole. corpus->files must outlive both. STATUS_USAGE: no document ends, or a part that needs
 * documents has none. */
enum status document_rows_open(const struct corpus *corpus, uint32_t end, const struct split_rule *rule,
                               struct document_rows *train, struct document_rows *validation,
                               struct err *err);
void document_rows_close(struct document_rows *rows); /* harmless on a zeroed struct */

struct batch_source document_rows_source(struct document_rows *rows);

#endif
