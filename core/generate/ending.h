/* The end of a generated text, and which of its bytes are final: a text that is shown while it grows must not
 * show half a character, nor the beginning of the text that ends it. */
#ifndef ANNEAL_CORE_GENERATE_ENDING_H
#define ANNEAL_CORE_GENERATE_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/generation_config.h"
#include "datasets/tokenizer.h"

/* The rules that end a text. The token or the text that ends it is not part of it. */
struct ending {
    const struct special_tokens *special; /* borrowed: its end tokens */
    const char *stop;                     /* this text; "": none */
    int64_t max_tokens;
    bool plain; /* control tokens that do not end the text leave nothing in it */
};

/* END_CONTEXT: a text of a batch has filled the model's context (batch.h); growing_text_add never sets it */
enum end_reason { END_NOT_YET, END_TOKEN, END_STOP_TEXT, END_LENGTH, END_CONTEXT };
extern const char *const end_reason_words[]; /* "", "eos", "stop", "length", "context" */

/* A text as it grows; zero it before its first token. */
struct growing_text {
    char *bytes;     /* n of them, owned; not NUL-terminated */
    size_t n, final; /* the first `final` bytes will not change any more */
    size_t capacity;
    int64_t tokens; /* of the text, with the one that ended it */
    enum end_reason end;
};

/* Adds a token to a text that has not ended. Fails only with STATUS_NO_MEMORY. */
enum status growing_text_add(struct growing_text *text, const struct ending *ending,
                             const struct tokenizer *tokenizer, uint32_t token, struct err *err);
void growing_text_release(struct growing_text *text);

#endif
