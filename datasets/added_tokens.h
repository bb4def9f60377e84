/* Added tokens: whole strings, such as "<|endoftext|>", that become one id before anything else looks at the
 * text. Where several match, the leftmost and then the longest wins, as in Hugging Face's tokenizers. */
#ifndef ANNEAL_DATASETS_ADDED_TOKENS_H
#define ANNEAL_DATASETS_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct added_token {
    const char *content; /* n > 0 bytes */
    size_t n;
    uint32_t id;
    bool normalized; /* looked for in the normalized text, after those that are not */
};

/* A set of added tokens ready for searching. */
struct added_set {
    struct added_token *tokens; /* by first byte, then longest first; contents are borrowed */
    size_t count;
    uint32_t first[257]; /* tokens beginning with byte b are first[b] … first[b+1]-1 */
};

/* Takes those of `tokens` whose `normalized` is as given. The contents must outlive the set. */
enum status added_set_init(struct added_set *set, const struct added_token *tokens, size_t count,
                           bool normalized, struct err *err);
void added_set_release(struct added_set *set); /* harmless on a zeroed struct */

/* The first match in text at or after `start`, its position in *where; NULL when there is none. */
const struct added_token *added_set_find(const struct added_set *set, const char *text, size_t n,
                                         size_t start, size_t *where);

#endif
