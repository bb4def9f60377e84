/* A conversation with a model: its messages, and the tokens that its chat template makes of them.
 *
 * What users type does not become a special token: where a message names one ("<|im_end|>"), a zero-width
 * space behind its first character keeps it text. What the model itself has said is encoded as it came. */
#ifndef ANNEAL_CORE_GENERATE_CONVERSATION_H
#define ANNEAL_CORE_GENERATE_CONVERSATION_H

#include "datasets/chat_template.h"
#include "datasets/tokenizer.h"

struct json_t; /* of Jansson */

struct conversation {
    const struct tokenizer *tokenizer; /* borrowed */
    struct chat_template *chat;
    struct json_t *variables; /* of the template: "messages" and others */
};

/* For the model in `folder`, with the chat template of the file `path`; NULL: the model's own one.
 * STATUS_NOT_FOUND: it has none. Close it even after a failure. */
enum status conversation_open(struct conversation *conversation, const char *folder, const char *path,
                              const struct tokenizer *tokenizer, struct err *err);
/* The same for a format, which is not kept. */
enum status conversation_begin(struct conversation *conversation, const struct chat_format *format,
                               const struct tokenizer *tokenizer, struct err *err);
void conversation_close(struct conversation *conversation); /* harmless on a zeroed struct */

/* The messages, system message included. */
size_t conversation_count(const struct conversation *conversation);
/* The role of the last message; "": there is none. */
const char *conversation_last_role(const struct conversation *conversation);

/* Appends a message of n bytes: of the role "user", which must be UTF-8, or of "assistant", where U+FFFD
 * replaces what is not. */
enum status conversation_add(struct conversation *conversation, const char *role, const char *text, size_t n,
                             struct err *err);
void conversation_remove_last(struct conversation *conversation);

/* Forgets all messages but the system message, which becomes `system`; NULL: it stays as it is, "": none. */
enum status conversation_restart(struct conversation *conversation, const char *system, struct err *err);

/* Appends the tokens that ask the model for the next answer to *out. Errors: those of the template and of
 * the tokenizer. */
enum status conversation_encode(const struct conversation *conversation, struct token_list *out,
                                struct err *err);

/* The same in at most `most` tokens. A longer conversation loses its oldest messages behind the system
 * message, each question with its answer, until half of `most` or the last message is left; *dropped is how
 * many. STATUS_FAILED: the last message alone is too long. On failure no message is dropped. */
enum status conversation_fit(struct conversation *conversation, size_t most, struct token_list *out,
                             int *dropped, struct err *err);

#endif
