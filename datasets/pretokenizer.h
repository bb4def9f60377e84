/* What happens to text before byte-pair merges: normalization, and pre-tokenization into the pieces inside
 * which merges happen.
 *
 * Normal forms are Unicode's, of text that may hold invalid bytes: valid stretches are normalized with
 * utf8proc, bytes that are not UTF-8 pass through unchanged, and so does ASCII, at the speed of a copy.
 *
 * A pretokenizer is a chain of regular expressions (PCRE2, compiled with JIT where the machine allows it);
 * each stage cuts every piece of the stage before into its matches and the gaps between them, as Hugging
 * Face's Split with behavior "Isolated" does.
 *
 * The pieces, put together, are always the text: nothing is dropped. Bytes that are not valid UTF-8 come as
 * pieces of their own. Immutable once made; each thread brings its own scratch. */
#ifndef ANNEAL_DATASETS_PRETOKENIZER_H
#define ANNEAL_DATASETS_PRETOKENIZER_H

#include <stddef.h>

#include "core/base/err.h"

enum normal_form { NORMAL_NONE, NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD };

/* The normal form of n bytes in *out, *out_n of them, yours to free. *out is NULL where the text is pure
 * ASCII or the form is NORMAL_NONE: the text is its own normal form. STATUS_NO_MEMORY is its only error. */
enum status normalizer_apply(enum normal_form form, const char *text, size_t n, char **out, size_t *out_n,
                             struct err *err);

/* ---- pre-tokenization ---- */

/* GPT-2's pattern, which Hugging Face's ByteLevel uses with "use_regex": contractions, then runs of letters,
 * of digits or of anything else, each with at most one space before it, then white space. */
#define PRETOKENIZER_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { PRETOKENIZER_STAGES = 8 }; /* at most */

struct pretokenizer;
struct pretokenizer_scratch;

/* With count 0 every run of valid text is one piece. `name` stands for the tokenizer in messages.
 * STATUS_FAILED when a pattern does not compile. The patterns must outlive it. */
enum status pretokenizer_new(const char *const *patterns, size_t count, const char *name,
                             struct pretokenizer **out, struct err *err);
void pretokenizer_free(struct pretokenizer *pretokenizer);

enum status pretokenizer_scratch_new(struct pretokenizer_scratch **out, struct err *err);
void pretokenizer_scratch_free(struct pretokenizer_scratch *scratch);

/* Takes one piece (n > 0 bytes inside the text). Any other status than STATUS_OK ends the splitting and is
 * its result. */
typedef enum status (*piece_visitor)(void *context, const char *piece, size_t n, struct err *err);

/* STATUS_FAILED when a pattern gives up on the text (PCRE2's match or heap limit). */
enum status pretokenizer_split(const struct pretokenizer *pretokenizer, struct pretokenizer_scratch *scratch,
                               const char *text, size_t n, piece_visitor visit, void *context,
                               struct err *err);

#endif
