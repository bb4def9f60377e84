/* See documents.h. */
#include "datasets/documents.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- finding them ---- */

/* Goes through the documents of a corpus. */
struct walk {
    const struct corpus *corpus;
    uint32_t end;
    size_t file;
    uint64_t at;     /* the next token of the file */
    uint64_t before; /* tokens of the files before it */
    uint64_t ended;  /* documents that ended with the token */
};

/* The first token, numbered through all files, and the places of the next document that has any. */
static bool next_document(struct walk *w, uint64_t *first, uint64_t *places)
{
    for (; w->file < w->corpus->file_count; w->file++) {
        const struct token_file *file = &w->corpus->files[w->file];
        while (w->at < file->count) {
            uint64_t from = w->at;
            while (w->at < file->count && token_file_id(file, w->at) != w->end) w->at++;
            if (w->at < file->count) w->at++, w->ended++;
            *first = w->before + from;
            *places = w->at - from - 1;
            if (*places) return true;
        }
        w->before += file->count;
        w->at = 0;
    }
    return false;
}

static bool is_held(uint64_t i, uint64_t count, enum val_split val_split, double fraction)
{
    return fraction > 0 && split_holds_out(i, count, val_split, fraction);
}

static enum status reserve(struct document_rows *rows, const struct corpus *corpus, uint64_t pieces,
                           struct err *err)
{
    rows->files = corpus->files;
    rows->file_count = corpus->file_count;
    rows->first = malloc((pieces + 1) * sizeof *rows->first);
    rows->lengths = malloc((pieces + 1) * sizeof *rows->lengths);
    return rows->first && rows->lengths ? STATUS_OK : err_no_memory(err, "%" PRIu64 " documents", pieces);
}

static void add_document(struct document_rows *rows, uint64_t first, uint64_t places)
{
    uint64_t T = (uint64_t)rows->T;
    rows->documents++;
    for (uint64_t at = 0; at < places; at += T) {
        rows->first[rows->count] = first + at;
        rows->lengths[rows->count++] = (uint32_t)(places - at < T ? places - at : T);
    }
}

/* Adds the corpus's documents to `train`, or those that are held out to `held`, unless that is NULL. */
static enum status divide(const struct corpus *corpus, uint32_t end, enum val_split val_split,
                          double fraction, struct document_rows *train, struct document_rows *held,
                          struct err *err)
{
    struct walk count = {.corpus = corpus, .end = end}, add = count;
    uint64_t documents = 0, pieces[2] = {0}, first, places, T = (uint64_t)train->T;
    while (next_document(&count, &first, &places)) documents++;
    if (!count.ended)
        return err_set(err, STATUS_USAGE,
                       "%.200s: no document ends in it: the token %u does not occur (set data.end_token, or "
                       "data.documents = stream)",
                       corpus->files->path, end);
    count = add;
    for (uint64_t i = 0; next_document(&count, &first, &places); i++)
        pieces[held && is_held(i, documents, val_split, fraction)] += (places + T - 1) / T;
    enum status status = reserve(train, corpus, pieces[0], err);
    if (!status && held) status = reserve(held, corpus, pieces[1], err);
    for (uint64_t i = 0; !status && next_document(&add, &first, &places); i++)
        add_document(held && is_held(i, documents, val_split, fraction) ? held : train, first, places);
    return status;
}

static enum status pack(struct document_rows *rows, uint64_t seed, enum shuffle shuffle, const char *what,
                        struct err *err)
{
    if (rows->count)
        return packing_open(rows->lengths, rows->count, rows->T, seed, shuffle, &rows->packing, err);
    return err_set(err, STATUS_USAGE,
                   "there are too few documents: none is left for %s (give more text, or set another "
                   "data.val_fraction)",
                   what);
}

enum status document_rows_open(const struct corpus *corpus, uint32_t end, enum val_split val_split,
                               double val_fraction, int T, uint64_t seed, enum shuffle shuffle,
                               int64_t padding, struct document_rows *train, struct document_rows *validation,
                               struct err *err)
{
    const struct corpus *own = corpus->validation;
    bool holds = !own && val_fraction > 0;
    *train = *validation = (struct document_rows){.T = T, .padding = padding};
    enum status status = divide(corpus, end, val_split, val_fraction, train, holds ? validation : NULL, err);
    if (!status && own) status = divide(own, end, val_split, 0, validation, NULL, err);
    if (!status) status = pack(train, seed, shuffle, "training", err);
    if (!status && (own || holds)) status = pack(validation, seed, SHUFFLE_RANDOM, "validation", err);
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

static void fill_row(const struct document_rows *rows, uint64_t row, int32_t *inputs, int32_t *targets,
                     int32_t *positions)
{
    uint64_t chosen[PACKING_WINDOW], at = 0, from;
    int count = packing_row(&rows->packing, row, chosen);
    for (int i = 0; i < count; i++) {
        const struct token_file *file = find(rows, chosen[i], &from);
        for (uint32_t t = 0; t < rows->lengths[chosen[i]]; t++, at++) {
            uint32_t target = token_file_id(file, from + t + 1);
            inputs[at] = (int32_t)token_file_id(file, from + t);
            targets[at] = counts(rows, target) ? (int32_t)target : LABEL_IGNORED;
            positions[at] = (int32_t)t;
        }
    }
    for (int32_t t = 0; at < (uint64_t)rows->T; t++, at++)
        inputs[at] = 0, targets[at] = LABEL_IGNORED, positions[at] = t;
}

static void fill(const void *context, uint64_t cursor, int B, int32_t *inputs, int32_t *targets,
                 int32_t *positions)
{
    const struct document_rows *rows = context;
    for (uint64_t b = 0, T = (uint64_t)rows->T; b < (uint64_t)B; b++)
        fill_row(rows, cursor + b, inputs + b * T, targets + b * T, positions + b * T);
}

static double labels(const void *context, uint64_t cursor, uint64_t count)
{
    const struct document_rows *rows = context;
    uint64_t chosen[PACKING_WINDOW], from, sum = 0;
    for (uint64_t b = 0; b < count; b++)
        for (int i = packing_row(&rows->packing, cursor + b, chosen); i-- > 0;) {
            const struct token_file *file = find(rows, chosen[i], &from);
            uint32_t length = rows->lengths[chosen[i]];
            sum += length;
            for (uint32_t t = 0; rows->padding >= 0 && t < length; t++)
                sum -= !counts(rows, token_file_id(file, from + t + 1));
        }
    return (double)sum;
}

struct batch_source document_rows_source(const struct document_rows *rows)
{
    return packing_source(&rows->packing, rows, fill, labels);
}
