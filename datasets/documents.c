/* See documents.h. */
#include "datasets/documents.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/text.h"

/* ---- finding them ---- */

enum status documents_end(const struct corpus *corpus, int64_t id, uint32_t *end, struct err *err)
{
    const struct tokenizer *tokenizer = corpus->tokenizer;
    if (id < 0 && tokenizer) id = tokenizer_end(tokenizer);
    *end = (uint32_t)id;
    if (id >= 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "data.documents = packed: %s, so documents cannot be found (name the id of the token that "
                   "ends them: data.end_token)",
                   tokenizer ? "the tokenizer has no token for the end of a text"
                             : "the tokenizer of the token files is not known");
}

/* The documents of a corpus that have any places, in order. */
struct documents {
    struct document {
        uint64_t first, places; /* the first token is numbered through all files */
    } * list;                   /* count of them, owned */
    size_t count, capacity;
    bool ended; /* one of them, or an empty one, ended with the token */
};

static enum status add_document(struct documents *d, uint64_t first, uint64_t places, struct err *err)
{
    if (!places) return STATUS_OK;
    if (!list_reserve(&d->list, d->count, 1, &d->capacity, sizeof *d->list))
        return err_no_memory(err, "%zu documents", d->count);
    d->list[d->count++] = (struct document){first, places};
    return STATUS_OK;
}

static enum status find_documents(const struct corpus *corpus, uint32_t end, struct documents *d,
                                  struct err *err)
{
    uint64_t before = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < corpus->file_count; i++) {
        const struct token_file *file = &corpus->files[i];
        uint64_t from = 0;
        for (uint64_t at = 0; !status && at < file->count; at++) {
            bool ends = token_file_id(file, at) == end;
            if (!ends && at + 1 < file->count) continue;
            d->ended |= ends;
            status = add_document(d, before + from, at - from, err);
            from = at + 1;
        }
        before += file->count;
    }
    if (status || d->ended) return status;
    return err_set(err, STATUS_USAGE,
                   "no document ends in the text: the token %u does not occur (set data.end_token, or "
                   "data.documents = stream)",
                   end);
}

/* ---- dividing them ---- */

static uint64_t pieces_of(const struct document *document, int T)
{
    return (document->places + (uint64_t)T - 1) / (uint64_t)T;
}

static void add_pieces(struct document_rows *rows, const struct document *document)
{
    uint64_t T = (uint64_t)rows->T, places = document->places;
    rows->documents++;
    for (uint64_t at = 0; at < places; at += T) {
        rows->first[rows->count] = document->first + at;
        rows->lengths[rows->count++] = (uint32_t)(places - at < T ? places - at : T);
    }
}

/* Fills `rows` with the documents that are held out, or with the others, and packs them. */
static enum status take(struct document_rows *rows, const struct documents *d, const struct corpus *corpus,
                        bool held, const struct split_rule *rule, struct err *err)
{
    uint64_t pieces = 0;
    for (size_t i = 0; i < d->count; i++)
        if (split_holds_out(i, d->count, rule) == held) pieces += pieces_of(&d->list[i], rows->T);
    if (!d->count) return err_set(err, STATUS_USAGE, "no document has two tokens (give more text)");
    if (!pieces)
        return err_set(
            err, STATUS_USAGE,
            "%zu document%s, of which data.val_fraction = %g leaves none for %s (give more text, or "
            "set another data.val_fraction)",
            d->count, text_plural((int64_t)d->count), rule->val_fraction, held ? "validation" : "training");
    rows->files = corpus->files;
    rows->file_count = corpus->file_count;
    rows->first = malloc(pieces * sizeof *rows->first);
    rows->lengths = malloc(pieces * sizeof *rows->lengths);
    if (!rows->first || !rows->lengths) return err_no_memory(err, "%" PRIu64 " documents", pieces);
    for (size_t i = 0; i < d->count; i++)
        if (split_holds_out(i, d->count, rule) == held) add_pieces(rows, &d->list[i]);
    return packing_open(rows->lengths, rows->count, rows->T, rule->seed,
                        held ? SHUFFLE_RANDOM : rule->shuffle, &rows->packing, err);
}

enum status document_rows_open(const struct corpus *corpus, uint32_t end, const struct split_rule *rule,
                               struct document_rows *train, struct document_rows *validation, struct err *err)
{
    struct documents d = {0};
    *train = *validation = (struct document_rows){.T = rule->seq_len, .padding = -1};
    enum status status = find_documents(corpus, end, &d, err);
    if (!status) status = take(train, &d, corpus, false, rule, err);
    if (!status && rule->val_fraction > 0) status = take(validation, &d, corpus, true, rule, err);
    free(d.list);
    if (!status) return STATUS_OK;
    document_rows_close(train);
    document_rows_close(validation);
    return status;
}

void document_rows_close(struct document_rows *rows)
{
    packing_close(&rows->packing);
    free(rows->first);
    free(rows->lengths);
    *rows = (struct document_rows){0};
}

/* ---- rows ---- */

/* The file of a piece, and its first token in it. */
static const struct token_file *find(const struct document_rows *rows, uint64_t piece, uint64_t *from)
{
    const struct token_file *file = rows->files;
    *from = rows->first[piece];
    while (*from >= file->count) *from -= file++->count;
    return file;
}

static bool counts(const struct document_rows *rows, uint32_t target)
{
    return rows->padding < 0 || target != (uint64_t)rows->padding;
}

static void fill(const void *context, uint64_t piece, int32_t *inputs, int32_t *targets)
{
    const struct document_rows *rows = context;
    uint64_t from;
    const struct token_file *file = find(rows, piece, &from);
    for (uint32_t t = 0; t < rows->lengths[piece]; t++) {
        uint32_t target = token_file_id(file, from + t + 1);
        inputs[t] = (int32_t)token_file_id(file, from + t);
        if (counts(rows, target)) targets[t] = (int32_t)target;
    }
}

static double labels(const void *context, uint64_t piece)
{
    const struct document_rows *rows = context;
    uint64_t from;
    const struct token_file *file = find(rows, piece, &from);
    uint32_t length = rows->lengths[piece], count = length;
    for (uint32_t t = 0; rows->padding >= 0 && t < length; t++)
        count -= !counts(rows, token_file_id(file, from + t + 1));
    return count;
}

struct batch_source document_rows_source(struct document_rows *rows)
{
    return packing_source(&rows->packing, (struct packed){rows, fill, labels});
}
