/* See instructions.h. */
#include "datasets/instructions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "datasets/added_tokens.h"
#include "datasets/bpe.h"
#include "datasets/json_lines.h"
#include "datasets/message_text.h"

struct instruction_reader {
    struct chat_template *chat;
    const struct tokenizer *tokenizer; /* borrowed */
    json_t *variables;                 /* of the template: the line's messages, and others */
    struct token_list whole, part;     /* of the conversation, and of a beginning of it */
    struct token_list runs;
    uint64_t divided;
};

enum status instruction_reader_open(const struct chat_format *format, const struct tokenizer *tokenizer,
                                    struct instruction_reader **out, struct err *err)
{
    struct instruction_reader *r = calloc(1, sizeof *r);
    if (!r) return err_no_memory(err, "reading instructions");
    r->tokenizer = tokenizer;
    enum status status = chat_template_parse(format->source, format->n, format->name, &r->chat, err);
    if (!status && !(r->variables = json_copy(format->texts))) status = err_no_memory(err, "instructions");
    if (status)
        instruction_reader_close(r);
    else
        *out = r;
    return status;
}

void instruction_reader_close(struct instruction_reader *r)
{
    if (!r) return;
    chat_template_free(r->chat);
    json_decref(r->variables);
    token_list_release(&r->whole);
    token_list_release(&r->part);
    token_list_release(&r->runs);
    free(r);
}

uint64_t instruction_reader_divided(const struct instruction_reader *r)
{
    return r->divided;
}

/* ---- a line's messages ---- */

static bool is_answer(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

static bool is_trained(const json_t *message)
{
    const json_t *weight = json_object_get(message, "weight");
    return is_answer(message) && !(json_is_number(weight) && json_number_value(weight) == 0);
}

/* Answers are learned or not: another weight would be taken for 1. */
static bool is_weight(const json_t *weight)
{
    double value = json_number_value(weight);
    return !weight || json_is_null(weight) || (json_is_number(weight) && (value == 0 || value == 1));
}

/* The text of "content": a text, or OpenAI's list of {"type": "text", "text": ...}, joined; none for a
 * missing one. NULL: something else, or no memory. */
static char *content_of(const json_t *content)
{
    if (!content || json_is_null(content)) return strdup("");
    if (json_is_string(content)) return strdup(json_string_value(content));
    char *joined = NULL;
    size_t size, i;
    const json_t *part;
    FILE *out = json_is_array(content) ? open_memstream(&joined, &size) : NULL;
    bool good = out;
    json_array_foreach(content, i, part) {
        const char *text = json_string_value(json_object_get(part, "text"));
        good = good && text && fputs(text, out) >= 0;
    }
    if (text_stream_end(out, &joined) && good) return joined;
    free(joined);
    return NULL;
}

/* Checks message `index`, and makes its content the text that the template gets. */
static enum status settle_message(const struct instruction_reader *r, json_t *message, size_t index,
                                  struct err *err)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role) return err_set(err, STATUS_CORRUPT, "message %zu: needs \"role\", a text", index + 1);
    if (text_word_index("system developer user assistant tool", role, strlen(role)) < 0)
        return err_set(
            err, STATUS_CORRUPT,
            "message %zu: unknown role \"%.60s\" (known are system, developer, user, assistant and "
            "tool)",
            index + 1, role);
    if (!is_weight(json_object_get(message, "weight")))
        return err_set(err, STATUS_CORRUPT,
                       "message %zu: \"weight\" must be 0, not to learn the answer, or 1", index + 1);
    char *content = content_of(json_object_get(message, "content"));
    if (!content)
        return err_set(err, STATUS_CORRUPT,
                       "message %zu: \"content\" must be a text, or a list of {\"type\": \"text\"} parts",
                       index + 1);
    bool empty = !content[strspn(content, " \t\r\n")];
    if (empty && is_trained(message) && !json_object_get(message, "tool_calls")) {
        free(content);
        return err_set(err, STATUS_CORRUPT,
                       "message %zu: the answer is empty (remove it, or give it \"weight\": 0, so that it is "
                       "not learned)",
                       index + 1);
    }
    json_t *text = message_text_new(is_answer(message) ? NULL : r->tokenizer, content, strlen(content));
    free(content);
    return text && !json_object_set_new(message, "content", text) ? STATUS_OK
                                                                  : err_no_memory(err, "a message");
}

/* Appends what "prompt" or "completion" has: a text, or messages. */
static bool append_side(json_t *messages, const json_t *side, const char *role)
{
    if (json_is_array(side)) {
        json_t *copy = json_deep_copy(side);
        bool good = copy && !json_array_extend(messages, copy);
        json_decref(copy);
        return good;
    }
    return json_is_string(side) &&
           !json_array_append_new(messages, json_pack("{s: s, s: O}", "role", role, "content", side));
}

/* The messages of a line, new. */
static enum status messages_of(const json_t *line, json_t **out, struct err *err)
{
    char members[240];
    const json_t *list = json_object_get(line, "messages"), *prompt = json_object_get(line, "prompt"),
                 *completion = json_object_get(line, "completion");
    if (!json_is_object(line))
        return err_set(err, STATUS_CORRUPT, "is not a JSON object (" JSON_LINES_RULE ")");
    if (!list && !(prompt && completion))
        return err_set(
            err, STATUS_CORRUPT, "needs \"messages\", or \"prompt\" and \"completion\" (it has %s%s)",
            json_lines_members(line, members, sizeof members),
            json_is_string(json_object_get(line, "text")) ? "; if its lines are texts, set data.format = text"
                                                          : "");
    json_t *messages = list ? json_deep_copy(list) : json_array();
    bool good =
        json_is_array(messages) &&
        (list || (append_side(messages, prompt, "user") && append_side(messages, completion, "assistant")));
    enum status status = STATUS_OK;
    if (!good)
        status = err_set(err, STATUS_CORRUPT,
                         list ? "\"messages\" must be a list of messages"
                              : "\"prompt\" and \"completion\" must be texts or lists of messages");
    else if (json_object_get(line, "system"))
        status = err_set(err, STATUS_CORRUPT,
                         "\"system\" beside the messages is not read (make it the first message, of the role "
                         "\"system\")");
    if (status)
        json_decref(messages);
    else
        *out = messages;
    return status;
}

/* ---- texts ---- */

struct rendered {
    char *text; /* owned */
    size_t n;
};

/* The first `count` messages as the template writes them; `asks`: and asks for the next answer. */
static enum status render(struct instruction_reader *r, const json_t *messages, size_t count, bool asks,
                          struct rendered *out, struct err *err)
{
    json_t *some = json_array();
    bool good = some;
    for (size_t i = 0; good && i < count; i++) good = !json_array_append(some, json_array_get(messages, i));
    *out = (struct rendered){0};
    if (!good || json_object_set(r->variables, "messages", some) ||
        json_object_set_new(r->variables, "add_generation_prompt", json_boolean(asks))) {
        json_decref(some);
        return err_no_memory(err, "a conversation");
    }
    json_decref(some);
    return chat_template_render(r->chat, r->variables, &out->text, &out->n, err);
}

/* The end of the special token that follows text[at..n) behind white space; 0: none does. */
static size_t end_of_turn(const struct instruction_reader *r, const char *text, size_t n, size_t at)
{
    at += text_blanks(text + at, n - at);
    const struct added_token *token = at < n ? message_special_at(r->tokenizer, text + at, n - at) : NULL;
    return token ? at + token->n : 0;
}

/* The content without white space at its ends, which templates may trim. */
static const char *trimmed(const json_t *message, size_t *n)
{
    const char *content = json_string_value(json_object_get(message, "content"));
    content += strspn(content, " \t\r\n");
    *n = strlen(content);
    while (*n && strchr(" \t\r\n", content[*n - 1])) --*n;
    return content;
}

/* Where the text of the first `count` messages ends in that of all of them; 0: the template writes the first
 * ones differently when no others follow. */
static size_t end_of_messages(struct instruction_reader *r, const json_t *messages, size_t count,
                              const struct rendered *whole)
{
    struct rendered part;
    if (render(r, messages, count, false, &part, NULL)) return 0; /* the template refuses it */
    bool same = part.n <= whole->n && memcmp(part.text, whole->text, part.n) == 0;
    free(part.text);
    return same ? part.n : 0;
}

/* The last special token of text[from..to), a message, or the one that follows if text is left; 0: none. */
static size_t end_of_message(const struct instruction_reader *r, const struct rendered *whole, size_t from,
                             size_t to)
{
    size_t end = 0;
    for (size_t at = from; at < to; at++) {
        const struct added_token *token = message_special_at(r->tokenizer, whole->text + at, to - at);
        if (token) end = at + token->n, at = end - 1;
    }
    bool ends = end + text_blanks(whole->text + end, to - end) == to;
    return ends ? end : end_of_turn(r, whole->text, whole->n, to);
}

/* The end of the answer in text[from..to), its special token included, which may follow behind that; 0: it is
 * not found. Templates may trim the content, write something before it, change it, and write tool calls
 * behind it, with special tokens of their own. to = 0: it is not known where the message ends. */
static size_t end_of_answer(const struct instruction_reader *r, const struct rendered *whole, size_t from,
                            size_t to, const json_t *message)
{
    size_t n, limit = to ? to : whole->n;
    const char *content = trimmed(message, &n), *found;
    bool calls = to && json_array_size(json_object_get(message, "tool_calls"));
    for (size_t at = from; !calls && at < limit; at++) {
        found = n ? memmem(whole->text + at, limit - at, content, n) : whole->text + at;
        if (!found) break;
        at = (size_t)(found - whole->text);
        size_t end = end_of_turn(r, whole->text, whole->n, at + n);
        if (end) return end;
    }
    return to ? end_of_message(r, whole, from, to) : 0;
}

/* Whether text[0..n) ends with a special token. */
static bool ends_with_special(const struct instruction_reader *r, const char *text, size_t n)
{
    const struct bpe *bpe = tokenizer_bpe(r->tokenizer);
    bool ends = false;
    for (size_t i = 0; i < bpe->added_count; i++) {
        const struct added_token *token = &bpe->added[i];
        ends |= token->special && token->n <= n && memcmp(text + n - token->n, token->content, token->n) == 0;
    }
    return ends;
}

/* In some templates the token that begins the next turn ends an answer, so nothing ends the last one. Then
 * the text of `count` messages gets the token that would follow if the user, or a tool that it calls, went
 * on. */
static void end_last_answer(struct instruction_reader *r, const json_t *messages, size_t count,
                            struct rendered *whole)
{
    struct rendered longer;
    size_t n, size = whole->n;
    const json_t *last = json_array_get(messages, count - 1);
    const char *content = trimmed(last, &n);
    bool calls = json_array_size(json_object_get(last, "tool_calls"));
    while (size && strchr(" \t\r\n", whole->text[size - 1])) size--;
    bool open = calls ? !ends_with_special(r, whole->text, size)
                      : n && n <= size && memcmp(whole->text + size - n, content, n) == 0;
    if (!is_trained(last) || !open) return;
    json_t *more = json_copy((json_t *)messages),
           *next = json_pack("{s: s, s: s}", "role", calls ? "tool" : "user", "content", "?");
    bool good = more && !json_array_insert_new(more, count, next);
    good = good && !render(r, more, count + 1, false, &longer, NULL); /* else the template refuses it */
    json_decref(more);
    if (!good) return;
    bool goes_on = longer.n > size && memcmp(longer.text, whole->text, size) == 0;
    size_t end = goes_on ? end_of_turn(r, longer.text, longer.n, size) : 0;
    free(end ? whole->text : longer.text);
    if (end) *whole = (struct rendered){longer.text, end};
}

/* ---- tokens ---- */

/* How many tokens at the beginning of the conversation are those of its first n bytes alone. */
static enum status count_tokens(struct instruction_reader *r, const struct rendered *whole, size_t n,
                                size_t *out, struct err *err)
{
    r->part.count = *out = 0;
    enum status status = tokenizer_encode(r->tokenizer, whole->text, n, &r->part, err);
    while (!status && *out < r->part.count && *out < r->whole.count &&
           r->part.ids[*out] == r->whole.ids[*out])
        ++*out;
    return status;
}

static enum status add_run(struct instruction_reader *r, size_t length, struct err *err)
{
    uint32_t run = (uint32_t)length;
    return token_list_append(&r->runs, &run, 1, err);
}

/* Whether text[from..to), an answer, has the names of the functions that the message calls. */
static bool writes_calls(const json_t *message, const char *text, size_t from, size_t to)
{
    size_t i;
    const json_t *call;
    json_array_foreach(json_object_get(message, "tool_calls"), i, call) {
        const json_t *function = json_object_get(call, "function");
        const char *name = json_string_value(json_object_get(function ? function : call, "name"));
        if (name && !memmem(text + from, to - from, name, strlen(name))) return false;
    }
    return true;
}

/* Adds the runs up to the end of the answer in message `index`. `done` is the tokens before. */
static enum status add_answer(struct instruction_reader *r, const json_t *messages, size_t index,
                              const struct rendered *whole, size_t *done, bool *differs, struct err *err)
{
    struct rendered prompt;
    size_t first = 0, end = 0;
    enum status status = render(r, messages, index, true, &prompt, err);
    size_t from = prompt.n;
    if (status == STATUS_FAILED && !index)
        err_prefix(err, "message 1: the chat template asks for no answer before the first message (give it "
                        "\"weight\": 0, so that it is not learned)");
    *differs = !status && (from > whole->n || memcmp(prompt.text, whole->text, from) != 0);
    free(prompt.text);
    if (status || *differs) return status;
    size_t to = end_of_answer(r, whole, from, end_of_messages(r, messages, index + 1, whole),
                              json_array_get(messages, index));
    if (!to)
        return err_set(
            err, STATUS_FAILED,
            "message %zu: no special token ends the answer in the text of the chat template, so "
            "the model would not learn to stop (use a template that writes eos_token or a token "
            "for the end of a turn, which tokenizer.json must list as special: `%s model add-tokens`)",
            index + 1, TEXT_PROGRAM);
    if (!writes_calls(json_array_get(messages, index), whole->text, from, to))
        return err_set(
            err, STATUS_FAILED,
            "message %zu: the chat template does not write its \"tool_calls\" (name one that does: "
            "data.template)",
            index + 1);
    status = count_tokens(r, whole, from, &first, err);
    if (!status) status = count_tokens(r, whole, to, &end, err);
    if (!status && (end != r->part.count || first < *done || end <= first))
        status =
            err_set(err, STATUS_FAILED,
                    "message %zu: the tokenizer joins the end of the answer with what follows it", index + 1);
    if (!status) status = add_run(r, first - *done, err);
    if (!status) status = add_run(r, end - first, err);
    *done = end;
    return status;
}

/* The example of the first `count` messages; `last`: only the last one is an answer to learn. *differs: the
 * template writes the beginning of the conversation differently; then there is no example. */
static enum status pass_example(struct instruction_reader *r, const json_t *messages, size_t count, bool last,
                                const struct json_lines *lines, const struct instruction_sink *sink,
                                bool *differs, struct err *err)
{
    struct rendered whole;
    size_t done = 0;
    r->whole.count = r->runs.count = 0;
    enum status status = render(r, messages, count, false, &whole, err);
    if (!status) end_last_answer(r, messages, count, &whole);
    if (!status) status = tokenizer_encode(r->tokenizer, whole.text, whole.n, &r->whole, err);
    *differs = false;
    if (!status && r->whole.count > INT32_MAX) status = err_set(err, STATUS_FAILED, "is too long");
    for (size_t i = last ? count - 1 : 0; !status && !*differs && i < count; i++)
        if (is_trained(json_array_get(messages, i)))
            status = add_answer(r, messages, i, &whole, &done, differs, err);
    free(whole.text);
    if (status || *differs) return status;
    if (done < r->whole.count) status = add_run(r, r->whole.count - done, err);
    struct instruction_example example = {.tokens = r->whole.ids,
                                          .runs = r->runs.ids,
                                          .token_count = r->whole.count,
                                          .run_count = r->runs.count,
                                          .done = lines->at < lines->n ? lines->at : lines->n};
    return status ? status : sink->take(sink->context, &example, err);
}

static enum status pass_conversation(struct instruction_reader *r, json_t *messages,
                                     const struct json_lines *lines, const struct instruction_sink *sink,
                                     struct err *err)
{
    size_t count = json_array_size(messages), answers = 0;
    enum status status = STATUS_OK;
    bool differs = false;
    for (size_t i = 0; !status && i < count; i++) {
        status = settle_message(r, json_array_get(messages, i), i, err);
        answers += !status && is_trained(json_array_get(messages, i));
    }
    if (!status && !answers)
        status = err_set(err, STATUS_CORRUPT,
                         "has no message of the role \"assistant\" (with a weight other than 0) to learn");
    if (!status) status = pass_example(r, messages, count, false, lines, sink, &differs, err);
    if (status || !differs) return status;
    r->divided++;
    for (size_t i = 0; !status && i < count; i++) {
        if (!is_trained(json_array_get(messages, i))) continue;
        status = pass_example(r, messages, i + 1, true, lines, sink, &differs, err);
        if (!status && differs)
            status = err_set(err, STATUS_FAILED,
                             "message %zu: the chat template writes the messages before the answer "
                             "differently when it asks for it, so the answer's place cannot be found",
                             i + 1);
    }
    return status;
}

static enum status read_line(struct instruction_reader *r, const struct json_lines *lines,
                             const struct instruction_sink *sink, struct err *err)
{
    static const char *const passed_on[] = {"tools", "documents"};
    json_t *messages = NULL;
    enum status status = messages_of(lines->object, &messages, err);
    for (int i = 0; !status && i < 2; i++) {
        json_t *value = json_object_get(lines->object, passed_on[i]);
        if (json_object_set(r->variables, passed_on[i], value ? value : json_null()))
            status = err_no_memory(err, "a conversation");
    }
    if (!status) status = pass_conversation(r, messages, lines, sink, err);
    json_decref(messages);
    return status;
}

enum status instruction_reader_read(struct instruction_reader *r, const char *path, uint64_t line,
                                    const char *text, size_t n, const struct instruction_sink *sink,
                                    struct err *err)
{
    struct json_lines lines = {.path = path, .text = text, .n = n, .line = line};
    bool more;
    enum status status;
    while (!(status = json_lines_next(&lines, &more, err)) && more) {
        status = read_line(r, &lines, sink, err);
        if (status == STATUS_CORRUPT || status == STATUS_FAILED)
            err_prefix(err, "%s: line %" PRIu64, path, lines.line);
        if (status) break;
    }
    json_lines_close(&lines);
    return status;
}
