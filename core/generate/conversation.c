/* See conversation.h. */
#include "core/generate/conversation.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/generate/generate.h"
#include "core/model/generation_config.h"
#include "datasets/message_text.h"

static json_t *messages_of(const struct conversation *c)
{
    return json_object_get(c->variables, "messages");
}

static enum status no_memory(struct err *err)
{
    return err_no_memory(err, "the conversation");
}

/* ---- opening ---- */

enum status conversation_open(struct conversation *c, const char *folder, const char *path,
                              const struct tokenizer *tokenizer, struct err *err)
{
    struct chat_format format = {0};
    *c = (struct conversation){0};
    enum status status = chat_format_read(folder, path, &format, err);
    if (status == STATUS_NOT_FOUND && !path)
        err_set(err, status,
                "%s: the model has no chat template (name one with `%s chat --template FILE`, or continue a "
                "text with `%s generate` without --chat)",
                folder, TEXT_PROGRAM, TEXT_PROGRAM);
    if (!status) status = conversation_begin(c, &format, tokenizer, err);
    chat_format_release(&format);
    return status;
}

enum status conversation_begin(struct conversation *c, const struct chat_format *format,
                               const struct tokenizer *tokenizer, struct err *err)
{
    *c = (struct conversation){.tokenizer = tokenizer, .variables = json_copy(format->texts)};
    enum status status = chat_template_parse(format->source, format->n, format->name, &c->chat, err);
    if (!status && (json_object_set_new(c->variables, "messages", json_array()) ||
                    json_object_set_new(c->variables, "tools", json_null()) ||
                    json_object_set_new(c->variables, "documents", json_null()) ||
                    json_object_set_new(c->variables, "add_generation_prompt", json_true())))
        status = no_memory(err);
    return status;
}

void conversation_close(struct conversation *c)
{
    chat_template_free(c->chat);
    json_decref(c->variables);
    *c = (struct conversation){0};
}

/* ---- messages ---- */

size_t conversation_count(const struct conversation *c)
{
    return json_array_size(messages_of(c));
}

static const char *role_of(const struct conversation *c, size_t index)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages_of(c), index), "role"));
    return role ? role : "";
}

const char *conversation_last_role(const struct conversation *c)
{
    size_t count = conversation_count(c);
    return count ? role_of(c, count - 1) : "";
}

static enum status insert(struct conversation *c, size_t index, const char *role, json_t *content,
                          struct err *err)
{
    json_t *message = json_pack("{s: s, s: o}", "role", role, "content", content);
    if (!message || json_array_insert_new(messages_of(c), index, message)) return no_memory(err);
    return STATUS_OK;
}

enum status conversation_add(struct conversation *c, const char *role, const char *text, size_t n,
                             struct err *err)
{
    bool own = strcmp(role, "assistant") == 0;
    enum status status = own ? STATUS_OK : prompt_check("the message", text, n, err);
    if (status) return status;
    json_t *content = message_text_new(own ? NULL : c->tokenizer, text, n);
    return content ? insert(c, conversation_count(c), role, content, err) : no_memory(err);
}

void conversation_remove_last(struct conversation *c)
{
    size_t count = conversation_count(c);
    if (count) json_array_remove(messages_of(c), count - 1);
}

enum status conversation_restart(struct conversation *c, const char *system, struct err *err)
{
    bool had = conversation_count(c) && strcmp(role_of(c, 0), "system") == 0, keep = had && !system;
    enum status status = system ? prompt_check("the system message", system, strlen(system), err) : STATUS_OK;
    if (status) return status;
    while (conversation_count(c) > (size_t)keep) conversation_remove_last(c);
    if (!system || !*system) return STATUS_OK;
    json_t *content = message_text_new(c->tokenizer, system, strlen(system));
    return content ? insert(c, 0, "system", content, err) : no_memory(err);
}

/* ---- tokens ---- */

enum status conversation_encode(const struct conversation *c, struct token_list *out, struct err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum status status = chat_template_render(c->chat, c->variables, &text, &n, err);
    if (!status) status = tokenizer_encode(c->tokenizer, text, n, out, err);
    if (!status && !out->count)
        status = err_set(err, STATUS_FAILED, "the chat template makes an empty text of the conversation");
    free(text);
    return status;
}

enum status conversation_fit(struct conversation *c, size_t most, struct token_list *out, int *dropped,
                             struct err *err)
{
    json_t *all = json_copy(messages_of(c)); /* comes back after a failure */
    enum status status = all ? STATUS_OK : no_memory(err);
    *dropped = 0;
    for (size_t wanted = most; !status; wanted = most / 2) { /* to half, so that it happens rarely */
        size_t first = strcmp(role_of(c, 0), "system") == 0;
        out->count = 0;
        status = conversation_encode(c, out, err);
        bool last = conversation_count(c) < first + 2;
        if (status || out->count <= wanted || (last && out->count <= most)) break;
        if (last) {
            status = err_set(err, STATUS_FAILED, "the message%s has %zu tokens, and there is room for %zu",
                             first ? " with the system message" : "", out->count, most);
            break;
        }
        do { /* up to the next question */
            json_array_remove(messages_of(c), first);
            ++*dropped;
        } while (conversation_count(c) > first + 1 && strcmp(role_of(c, first), "user") != 0);
    }
    if (status && all) json_object_set(c->variables, "messages", all), *dropped = 0;
    json_decref(all);
    return status;
}
