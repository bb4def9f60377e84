/* Unicode normalization of text that may hold invalid bytes: valid stretches are normalized with utf8proc,
 * bytes that are not UTF-8 pass through unchanged, and so does ASCII, at the speed of a copy. */
#ifndef ANNEAL_DATASETS_NORMALIZER_H
#define ANNEAL_DATASETS_NORMALIZER_H

#include <stddef.h>

#include "core/base/err.h"

enum normal_form { NORMAL_NONE, NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD };

/* The normal form of n bytes in *out, *out_n of them, yours to free. *out is NULL where the text is pure
 * ASCII or the form is NORMAL_NONE: the text is its own normal form. STATUS_NO_MEMORY is its only error. */
enum status normalizer_apply(enum normal_form form, const char *text, size_t n, char **out, size_t *out_n,
                             struct err *err);

#endif
