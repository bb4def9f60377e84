/* Chat templates: a model's own `chat_template`, which turns a conversation into the text that the model was
 * trained on. The language is Jinja2 as transformers runs it (a sandbox in which values never change, with
 * trim_blocks, lstrip_blocks and loopcontrols), as far as templates of models use it:
 *
 * statements: for, if, set (also of a namespace, or of a block), macro, break, continue, filter, generation;
 * expressions: and, or, not, comparisons, + - * % ~, slices, conditions, tests, filters, and methods of
 * strings and dictionaries; functions: namespace, dict, range, raise_exception, strftime_now.
 *
 * jinja_builtins.c has the table of what can be called. Of 194 templates of models, three need more: a call
 * block, self, or a list of arguments with a star.
 *
 * Anything else is an error that names it, its line and the template: a template never renders to another
 * text than in jinja2. Reading and rendering are safe for any template: nesting, steps and memory are bounded
 * (jinja.h). */
#ifndef ANNEAL_DATASETS_CHAT_TEMPLATE_H
#define ANNEAL_DATASETS_CHAT_TEMPLATE_H

#include <stddef.h>

#include "core/base/err.h"

struct json_t; /* of Jansson */

struct chat_template;

/* The format of a model's conversations: its chat template as text, not parsed yet. */
struct chat_format {
    char *source; /* of the template, n bytes; owned */
    size_t n;
    char name[4096];      /* of the template, for messages */
    struct json_t *texts; /* of special tokens, such as "bos_token", an object; owned */
};
void chat_format_release(struct chat_format *format); /* harmless on a zeroed struct */

/* `source` is n bytes; `name` is for messages. STATUS_CORRUPT: no Jinja; STATUS_FAILED: an unsupported part.
 * Parts that only show when they are reached, such as filters, fail in chat_template_render. */
enum status chat_template_parse(const char *source, size_t n, const char *name, struct chat_template **out,
                                struct err *err);

/* Renders with the members of `variables` (an object): messages, a list of {"role", "content"};
 * add_generation_prompt; bos_token, eos_token; tools and documents, null if there are none. *out is
 * NUL-terminated UTF-8, which the caller frees; *n is its length. STATUS_FAILED also when the template itself
 * refuses the conversation. */
enum status chat_template_render(const struct chat_template *chat, const struct json_t *variables, char **out,
                                 size_t *n, struct err *err);

void chat_template_free(struct chat_template *chat);

#endif
