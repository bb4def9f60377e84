/* Conversations for instruction tuning, in the format of a model's chat template: JSONL becomes tokens, and
 * it is known which of them are answers. A line is one conversation:
 *
 *     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
 *     {"prompt": "...", "completion": "..."}        texts, or lists of such messages
 *
 * as OpenAI and TRL have them. Roles are system, developer, user, assistant and tool. Every answer, a message
 * of the assistant, is trained on, unless it has "weight": 0. "tools" and "documents" go to the template;
 * other members are ignored.
 *
 * An answer is what the model writes at inference: all from the end of the prompt, which is the template's
 * text of the messages before with add_generation_prompt, to the special token that ends the turn, that token
 * included; in some templates, such as GLM-4's, it is the one that begins the next turn. A template that ends
 * answers with none is refused, as the model would never learn to stop. If a template writes earlier turns
 * differently once a conversation goes on, each answer becomes an example of its own, with the messages
 * before it. A token that begins in the prompt and ends in the answer counts as part of the answer. Names of
 * special tokens in messages of others than the assistant stay text. */
#ifndef ANNEAL_DATASETS_INSTRUCTIONS_H
#define ANNEAL_DATASETS_INSTRUCTIONS_H

#include "core/base/err.h"
#include "datasets/chat_template.h"
#include "datasets/tokenizer.h"

/* One example. Runs are lengths in tokens: not of an answer, of an answer, not, ...; they cover all tokens.
 */
struct instruction_example {
    const uint32_t *tokens, *runs;
    size_t token_count, run_count;
    uint64_t done; /* bytes of the text so far */
};

struct instruction_sink {
    enum status (*take)(void *context, const struct instruction_example *example, struct err *err);
    void *context;
};

struct instruction_reader;
enum status instruction_reader_open(const struct chat_format *format, const struct tokenizer *tokenizer,
                                    struct instruction_reader **out, struct err *err);
void instruction_reader_close(struct instruction_reader *reader); /* NULL is harmless */

/* Passes the examples of a text of n bytes to the sink, which borrows them. `line`: lines of the file before
 * the text. STATUS_CORRUPT, STATUS_FAILED: the message names `path` and the line. */
enum status instruction_reader_read(struct instruction_reader *reader, const char *path, uint64_t line,
                                    const char *text, size_t n, const struct instruction_sink *sink,
                                    struct err *err);

/* Conversations so far whose answers became examples of their own. */
uint64_t instruction_reader_divided(const struct instruction_reader *reader);

#endif
