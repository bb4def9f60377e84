/* See conversation.h. */
#include "core/generate/conversation.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/generation_config.h"
#include "datasets/bpe.h"

static json_t *messages_of(const struct conversation *c)
{
    return json_object_get(c->variables, "messages");
}

static enum status no_memory(struct err *err)
{
    return err_no_memory(err, "the conversation");
}

/* ---- opening ---- */

static enum status read_template(const char *folder, const char *path, char **text, size_t *n,
                                 struct err *err)
{
    struct file_map map;
    *text = NULL;
    enum status status = path ? file_map_open(path, &map, err) : chat_template_read(folder, text, err);
    if (status) return status;
    if (path) {
        *text = malloc(map.size + 1);
        if (*text)
            memcpy(*text, map.data, map.size), *n = map.size;
        else
            status = no_memory(err);
        file_map_close(&map);
    } else if (*text) {
        *n = strlen(*text);
    } else {
        status = err_set(
            err, STATUS_NOT_FOUND,
            "%s: the model has no chat template (name one with --template FILE, or continue a text with "
            "`%s generate`)",
            folder, TEXT_PROGRAM);
    }
    return status;
}

enum status conversation_open(struct conversation *c, const char *folder, const char *path,
                              const struct tokenizer *tokenizer, struct err *err)
{
    char *text = NULL, name[PATH_MAX + 32];
    size_t n = 0;
    *c = (struct conversation){.tokenizer = tokenizer};
    snprintf(name, sizeof name, path ? "%s" : "the chat template of %s", path ? path : folder);
    enum status status = read_template(folder, path, &text, &n, err);
    if (!status) status = chat_template_parse(text, n, name, &c->chat, err);
    if (!status) status = special_texts_read(folder, &c->variables, err);
    if (!status && (json_object_set_new(c->variables, "messages", json_array()) ||
                    json_object_set_new(c->variables, "tools", json_null()) ||
                    json_object_set_new(c->variables, "documents", json_null()) ||
                    json_object_set_new(c->variables, "add_generation_prompt", json_true())))
        status = no_memory(err);
    free(text);
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

/* The special token that begins at text[0..n), or NULL. */
static const struct added_token *special_at(const struct tokenizer *tokenizer, const char *text, size_t n)
{
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    for (size_t i = 0; i < bpe->added_count; i++) {
        const struct added_token *token = &bpe->added[i];
        if (token->special && token->n <= n && memcmp(text, token->content, token->n) == 0) return token;
    }
    return NULL;
}

/* The length of what begins at text[0..n) and is not a character: the beginning of one, or a single byte. */
static size_t broken_bytes(const char *text, size_t n)
{
    for (size_t length = n < 3 ? n : 3; length > 1; length--)
        if (utf8_incomplete_tail(text, length) == length) return length;
    return 1;
}

/* The text as a message: with U+FFFD for what is not UTF-8, as transformers decodes it, and with a zero-width
 * space in each name of a special token unless `tokenizer` is NULL. NULL: no memory. */
static json_t *content_new(const struct tokenizer *tokenizer, const char *text, size_t n)
{
    char *copy = NULL;
    size_t size = 0, length;
    uint32_t point;
    FILE *out = open_memstream(&copy, &size);
    for (size_t at = 0; out && at < n; at += length) {
        length = utf8_character(text + at, n - at, &point);
        if (length)
            fwrite(text + at, 1, length, out);
        else
            fputs("\uFFFD", out), length = broken_bytes(text + at, n - at);
        if (tokenizer && special_at(tokenizer, text + at, n - at)) fputs("\u200B", out);
    }
    bool whole = out && fclose(out) == 0;
    json_t *value = whole ? json_stringn(copy, size) : NULL;
    free(copy);
    return value;
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
    if (!own && utf8_valid_bytes(text, n) < n)
        return err_set(err, STATUS_FAILED, "the message is not valid UTF-8");
    json_t *content = content_new(own ? NULL : c->tokenizer, text, n);
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
    if (system && utf8_valid_bytes(system, strlen(system)) < strlen(system))
        return err_set(err, STATUS_FAILED, "the system message is not valid UTF-8");
    while (conversation_count(c) > (size_t)keep) conversation_remove_last(c);
    if (!system || !*system) return STATUS_OK;
    json_t *content = content_new(c->tokenizer, system, strlen(system));
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
