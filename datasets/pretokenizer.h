/* Splits text into the pieces in which merges happen.
 *
 * A pretokenizer is a chain of regular expressions (PCRE2, compiled with JIT if the machine allows it). Each
 * stage splits every piece of the previous stage into its matches and the gaps between them, like Hugging
 * Face's Split with behavior "Isolated".
 *
 * Letters, digits, marks and so on are those of Unicode 16, as in Hugging Face's library, whatever the
 * version of PCRE2: patterns see an older character of the same category for a newer one
 * (recent_characters.def).
 *
 * The pieces always add up to the text: nothing is dropped. Invalid UTF-8 bytes are pieces of their own. A
 * pretokenizer does not change; each thread needs its own scratch. */
#ifndef ANNEAL_DATASETS_PRETOKENIZER_H
#define ANNEAL_DATASETS_PRETOKENIZER_H

#include <stddef.h>

#include "core/base/err.h"

/* GPT-2's pattern, which Hugging Face's ByteLevel uses with "use_regex": contractions, then runs of letters,
 * of digits or of anything else, each with at most one space before it, then white space. */
#define PRETOKENIZER_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* The patterns of Llama 3 and of Qwen, which split numbers in their own ways. */
#define PRETOKENIZER_LLAMA3 PRETOKENIZER_WITH_NUMBERS("\\p{N}{1,3}")
#define PRETOKENIZER_QWEN   PRETOKENIZER_WITH_NUMBERS("\\p{N}")
#define PRETOKENIZER_WITH_NUMBERS(numbers)                                                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

enum { PRETOKENIZER_STAGES = 8 }; /* at most */

struct pretokenizer;
struct pretokenizer_scratch;

/* `count`: at most PRETOKENIZER_STAGES; with 0 every run of valid text is one piece. `name` is for messages.
 * STATUS_FAILED if a pattern does not compile. The patterns must outlive the pretokenizer. */
enum status pretokenizer_new(const char *const *patterns, size_t count, const char *name,
                             struct pretokenizer **out, struct err *err);
void pretokenizer_free(struct pretokenizer *pretokenizer);

enum status pretokenizer_scratch_new(struct pretokenizer_scratch **out, struct err *err);
void pretokenizer_scratch_free(struct pretokenizer_scratch *scratch);

/* Receives one piece (n > 0 bytes). A status other than STATUS_OK ends the splitting and is its result. */
typedef enum status (*piece_visitor)(void *context, const char *piece, size_t n, struct err *err);

/* STATUS_FAILED if a pattern fails on the text (PCRE2's match or heap limit). */
enum status pretokenizer_split(const struct pretokenizer *pretokenizer, struct pretokenizer_scratch *scratch,
                               const char *text, size_t n, piece_visitor visit, void *context,
                               struct err *err);

#endif
