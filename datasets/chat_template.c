/* See chat_template.h; the engine is in jinja.h. */
#include "datasets/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "datasets/jinja.h"

struct chat_template {
    struct arena arena; /* of all that follows */
    const char *name;
    const struct node *body;
};

struct parsing {
    struct text source;
    struct chat_template *out;
};

static void parse(struct jinja *j, void *context)
{
    struct parsing *parsing = context;
    parsing->out->body = jinja_parse(j, parsing->source);
}

enum status chat_template_parse(const char *source, size_t n, const char *name, struct chat_template **out,
                                struct err *err)
{
    struct jinja j = {.name = name, .err = err};
    struct chat_template *chat = calloc(1, sizeof *chat);
    if (!chat) return err_no_memory(err, "the chat template %s", name);
    enum status status = jinja_try(&j, parse, &(struct parsing){{source, n}, chat});
    chat->arena = j.arena;
    chat->name = status ? NULL : arena_strdup(&chat->arena, name);
    if (!status && !chat->name) status = err_no_memory(err, "the chat template %s", name);
    if (status)
        chat_template_free(chat);
    else
        *out = chat;
    return status;
}

struct rendering {
    const struct chat_template *chat;
    const json_t *variables;
    struct buffer text;
};

static void render(struct jinja *j, void *context)
{
    struct rendering *rendering = context;
    struct value variables = value_from_json(j, rendering->variables);
    struct scope globals = {0};
    if (variables.kind == VALUE_DICT) globals.variables = *variables.dict;
    j->scope = &globals, j->out = &rendering->text;
    jinja_render(j, rendering->chat->body);
}

enum status chat_template_render(const struct chat_template *chat, const json_t *variables, char **out,
                                 size_t *n, struct err *err)
{
    struct rendering rendering = {.chat = chat, .variables = variables};
    struct jinja j = {.name = chat->name, .err = err, .builtins = jinja_builtins};
    enum status status = jinja_try(&j, render, &rendering);
    if (status) return status;
    struct text text = buffer_value(&rendering.text).text;
    char *copy = malloc(text.n + 1);
    if (copy) {
        memcpy(copy, text.at, text.n);
        copy[text.n] = 0;
        *out = copy, *n = text.n;
    }
    arena_release(&j.arena);
    return copy ? STATUS_OK : err_no_memory(err, "a conversation in the chat template %s", chat->name);
}

void chat_template_free(struct chat_template *chat)
{
    if (!chat) return;
    arena_release(&chat->arena);
    free(chat);
}

void chat_format_release(struct chat_format *format)
{
    free(format->source);
    json_decref(format->texts);
    *format = (struct chat_format){0};
}
