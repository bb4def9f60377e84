/* The texts of inputs, one after the other, in pieces.
 *
 * A plain text is one piece, mapped into memory. A compressed one is cut where a text may be cut (crew.h), so
 * that its tokens are those of the text in it; memory holds one piece. Of JSONL
 * (text_file_is_json_lines) each line is an object, and a piece is its text: the value of text_key, a string.
 * Empty ones are left out, and so is a byte-order mark at the beginning of a file. Lines and pieces have at
 * most TEXT_PIECE_MAX bytes where a file is compressed. */
#ifndef ANNEAL_DATASETS_TEXT_PIECES_H
#define ANNEAL_DATASETS_TEXT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/inputs.h"

enum { TEXT_PIECE = 1 << 22, TEXT_PIECE_MAX = 1 << 28 };

struct chat_format;

/* How texts are read; zeroed: as texts, of JSONL the member "text". All pointers are borrowed. */
struct text_reading {
    const char *text_key; /* of JSONL; NULL: "text" */
    bool ends;            /* a text file ends with the token that ends documents; lines of JSONL always do */
    const struct chat_format
        *conversations; /* files are JSONL of these (instructions.h); NULL: they are not */
};

struct text_piece {
    const char *path; /* of the file; valid as long as the inputs */
    const char *text; /* n bytes, valid during the call */
    size_t n;
    bool ends;              /* the last piece of its document */
    bool is_line;           /* a document of JSONL */
    uint64_t line;          /* lines of the file before this piece; only of conversations */
    uint64_t before, after; /* bytes of all files before the piece and with it, compressed where they are */
    uint64_t total;         /* of all files */
};

/* The bytes of files that are done when `n` bytes of the piece are. */
static inline uint64_t text_piece_done(const struct text_piece *piece, size_t n)
{
    if (!piece->n || n >= piece->n) return piece->after;
    return piece->before + (uint64_t)((unsigned __int128)(piece->after - piece->before) * n / piece->n);
}

typedef enum status (*text_visitor)(void *context, const struct text_piece *piece, struct err *err);

/* Visits the texts from `first` on, `count` of them. `whole`: texts are not cut, as a tokenizer may need.
 * STATUS_CORRUPT names file and line; STATUS_FAILED: there is no text at all. */
enum status text_pieces_each(const struct inputs *texts, size_t first, size_t count,
                             const struct text_reading *reading, bool whole, text_visitor visit,
                             void *context, struct err *err);

/* Visits the files as they are, each as one piece, without expanding any. STATUS_FAILED: all are empty. */
enum status text_pieces_of_files(const struct inputs *texts, text_visitor visit, void *context,
                                 struct err *err);

/* Whether a file is read as JSONL whose lines are documents. */
bool text_pieces_are_lines(const char *path, const struct text_reading *reading);

#endif
