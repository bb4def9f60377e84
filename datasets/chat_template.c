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

enum status chat_template_parse(const char *source, size_t n, const char *name, struct chat_template **out,
                                struct err *err)
{
    struct jinja j = {.name = name, .err = err};
    const struct node *body = jinja_parse(&j, (struct text){source, n});
    struct chat_template *chat = body ? malloc(sizeof *chat) : NULL;
    name = arena_strdup(&j.arena, name);
    if (chat && name) {
        *chat = (struct chat_template){j.arena, name, body};
        *out = chat;
        return STATUS_OK;
    }
    free(chat);
    arena_release(&j.arena);
    return j.status ? j.status : err_no_memory(err, "the chat template %s", name ? name : "");
}

enum status chat_template_render(const struct chat_template *chat, const json_t *variables, char **out,
                                 size_t *n, struct err *err)
{
    struct buffer text = {0};
    struct scope globals = {0};
    struct jinja j = {.name = chat->name, .err = err, .out = &text, .scope = &globals};
    struct value values = value_from_json(&j, variables);
    char *copy = NULL;
    if (values.kind == VALUE_DICT && !j.status) globals.variables = *values.dict;
    jinja_render(&j, chat->body);
    if (!j.status && !(copy = malloc(text.n + 1)))
        j.status = err_no_memory(err, "a conversation in the chat template %s", chat->name);
    if (copy) {
        if (text.n) memcpy(copy, text.at, text.n);
        copy[text.n] = 0;
        *out = copy, *n = text.n;
    }
    arena_release(&j.arena);
    return j.status;
}

void chat_template_free(struct chat_template *chat)
{
    if (!chat) return;
    struct arena arena = chat->arena;
    arena_release(&arena);
    free(chat);
}

void chat_format_release(struct chat_format *format)
{
    free(format->source);
    json_decref(format->texts);
    *format = (struct chat_format){0};
}
