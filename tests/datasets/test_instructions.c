/* Conversations become the tokens that transformers makes of them, and the answers are those between its
 * marks. Fixtures: tests/fixtures/instructions/make_instructions.py. */
#include <jansson.h>

#include "datasets/examples.h"
#include "datasets/instructions.h"
#include "datasets/message_text.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define FIXTURES "tests/fixtures/instructions/"
#define TURNS                                                                                                \
    "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"                       \
    "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}"

struct seen {
    int examples;
    struct token_list tokens, mask; /* of all examples */
};

static enum status take(void *context, const struct instruction_example *e, struct err *err)
{
    struct seen *seen = context;
    uint32_t part = 0;
    seen->examples++;
    assert_ok(token_list_append(&seen->tokens, e->tokens, e->token_count, err), err);
    for (size_t i = 0; i < e->run_count; i++, part ^= 1)
        for (uint32_t n = 0; n < e->runs[i]; n++)
            assert_ok(token_list_append(&seen->mask, &part, 1, err), err);
    assert_int_equal(seen->mask.count, seen->tokens.count);
    return STATUS_OK;
}

static void release(struct seen *seen)
{
    token_list_release(&seen->tokens);
    token_list_release(&seen->mask);
    *seen = (struct seen){0};
}

static enum status read_text(const char *template, json_t *texts, const char *tokenizer_name,
                             const char *text, struct seen *seen, struct err *err)
{
    char path[256];
    struct tokenizer *tokenizer;
    struct instruction_reader *reader;
    struct chat_format format = {.source = strdup(template), .n = strlen(template), .name = "the template"};
    struct instruction_sink sink = {take, seen};
    snprintf(path, sizeof path, *tokenizer_name == '/' ? "%s" : "tests/fixtures/%s.json", tokenizer_name);
    format.texts = texts ? json_incref(texts) : json_object();
    *seen = (struct seen){0};
    assert_ok(tokenizer_open(path, &tokenizer, err), err);
    assert_ok(instruction_reader_open(&format, tokenizer, &reader, err), err);
    chat_format_release(&format);
    enum status status = instruction_reader_read(reader, "x.jsonl", 0, text, strlen(text), &sink, err);
    instruction_reader_close(reader);
    tokenizer_close(tokenizer);
    return status;
}

static json_t *load(const char *name)
{
    json_t *json = json_load_file(name, 0, NULL);
    assert_non_null(json);
    return json;
}

static void assert_list(const char *what, const char *line, const struct token_list *got, const json_t *want)
{
    for (size_t i = 0; i < got->count && i < json_array_size(want); i++)
        if (got->ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s: %s %zu is %u", line, what, i, got->ids[i]);
    if (got->count != json_array_size(want)) fail_msg("%s: %zu %ss", line, got->count, what);
}

TEST_CASE(answers_are_those_that_transformers_marks)
{
    json_t *all = load(FIXTURES "cases.json"), *one;
    size_t i, last_tokens = 0;
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        struct seen seen;
        struct err err = {0};
        char tokenizer[64];
        const char *line = json_string_value(json_object_get(one, "line"));
        const json_t *template = json_object_get(json_object_get(all, "templates"),
                                                 json_string_value(json_object_get(one, "template"))),
                     *mask = json_object_get(one, "mask");
        snprintf(tokenizer, sizeof tokenizer, "tokenizer/%s",
                 json_string_value(json_object_get(one, "tokenizer")));
        assert_ok(read_text(json_string_value(json_object_get(template, "template")),
                            json_object_get(template, "texts"), tokenizer, line, &seen, &err),
                  &err);
        assert_int_equal(seen.examples, 1);
        assert_list("token", line, &seen.tokens, json_object_get(one, "ids"));
        assert_list("mask", line, &seen.mask, mask);
        last_tokens += json_array_size(mask);
        release(&seen);
    }
    assert_true(i >= 15 && last_tokens > 500);
    json_decref(all);
}

/* The complaint about models that never stop: their answers were learned without their end. */
TEST_CASE(the_token_that_ends_a_turn_is_learned)
{
    struct seen seen;
    struct err err = {0};
    const uint32_t end = 440; /* <|end|> */
    int ends = 0;
    assert_ok(read_text(TURNS, NULL, "tokenizer/qwen_style",
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                        "\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": "
                        "\"assistant\", \"content\": \"d\"}]}\n",
                        &seen, &err),
              &err);
    for (size_t i = 0; i < seen.tokens.count; i++) {
        bool answers = seen.tokens.ids[i] == end && seen.mask.ids[i];
        ends += answers;
        if (answers) assert_true(seen.mask.ids[i - 1]); /* the answer itself */
        if (answers && i + 1 < seen.mask.count)
            assert_false(seen.mask.ids[i + 1]); /* and nothing behind it */
    }
    assert_int_equal(ends, 2);
    release(&seen);
}

/* As in GLM-4: nothing follows the last answer, and the next question's token an earlier one. */
TEST_CASE(the_token_that_begins_the_next_turn_ends_an_answer_also_the_last_one)
{
    struct seen seen;
    struct err err = {0};
    const uint32_t end = 440; /* <|end|> */
    size_t learned = 0;
    const char *glm = "{% for m in messages %}{{ '<|end|>' if m.role == 'user' else '<|pad|>' }}\n"
                      "{{ '' + m.content }}{% endfor %}{% if add_generation_prompt %}<|pad|>\n{% endif %}";
    assert_ok(read_text(glm, NULL, "tokenizer/qwen_style",
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                        "\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": "
                        "\"assistant\", \"content\": \"d\"}]}\n",
                        &seen, &err),
              &err);
    for (size_t i = 0; i < seen.mask.count; i++) learned += seen.mask.ids[i];
    assert_int_equal(learned, 4); /* "b", "d", and what ends each */
    assert_int_equal(seen.tokens.ids[seen.tokens.count - 1], end);
    assert_true(seen.mask.ids[seen.mask.count - 1]);
    release(&seen);
}

TEST_CASE(an_answer_without_weight_is_not_learned)
{
    struct seen seen;
    struct err err = {0};
    size_t learned = 0;
    assert_ok(read_text(TURNS, NULL, "tokenizer/qwen_style",
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                        "\"content\": \"a long wrong answer\", \"weight\": 0}, {\"role\": \"user\", "
                        "\"content\": [{\"type\": \"text\", \"text\": \"c\"}]}, "
                        "{\"role\": \"assistant\", \"content\": \"d\"}]}",
                        &seen, &err),
              &err);
    for (size_t i = 0; i < seen.mask.count; i++) learned += seen.mask.ids[i];
    assert_int_equal(learned, 2); /* "d" and <|end|> */
    release(&seen);
}

/* Templates that write no end behind the last answer, and where none is found by going on. */
TEST_CASE(an_answer_has_no_end_where_the_template_goes_on_otherwise)
{
#define GLM                                                                                                  \
    "{% for m in messages %}{{ '<|end|>' if m.role == 'user' else '<|pad|>' }}\n{{ m.content }}{% endfor %}" \
    "{% if add_generation_prompt %}<|pad|>\n{% endif %}"
    static const char *const templates[] = {
        "{% if messages[-1].content == '?' %}{{ raise_exception('too short') }}{% endif %}" GLM,
        "{{ 'B' if messages | length > 2 else 'A' }}" GLM,
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct seen seen;
        struct err err = {0};
        assert_int_equal(read_text(templates[i], NULL, "tokenizer/qwen_style",
                                   "{\"prompt\": \"a\", \"completion\": \"b\"}", &seen, &err),
                         STATUS_FAILED);
        if (!strstr(err.text, "message 2: no special token ends the answer")) fail_msg("%s", err.text);
        release(&seen);
    }
}

/* `learned`: the texts of what a conversation teaches, with / between. */
static void expect_learned_by(const char *name, const char *template, const char *messages,
                              const char *learned)
{
    struct seen seen;
    struct err err = {0};
    struct tokenizer *tokenizer;
    char line[1024], got[1024] = "", path[100];
    snprintf(path, sizeof path, "tests/fixtures/%s.json", name);
    assert_ok(tokenizer_open(path, &tokenizer, &err), &err);
    snprintf(line, sizeof line, "{\"messages\": [%s]}", messages);
    assert_ok(read_text(template, NULL, name, line, &seen, &err), &err);
    for (size_t i = 0, n; i < seen.tokens.count; i += n) {
        for (n = 1; i + n < seen.tokens.count && seen.mask.ids[i + n] == seen.mask.ids[i]; n++) continue;
        size_t bytes, used = strlen(got);
        char *text = tokenizer_decode(tokenizer, seen.tokens.ids + i, n, &bytes);
        if (seen.mask.ids[i])
            snprintf(got + used, sizeof got - used, "%s%.*s", used ? "/" : "", (int)bytes, text);
        free(text);
    }
    assert_string_equal(got, learned);
    release(&seen);
    tokenizer_close(tokenizer);
}

static void expect_learned(const char *template, const char *messages, const char *learned)
{
    expect_learned_by("tokenizer/qwen_style", template, messages, learned);
}

#define USER(text)    "{\"role\": \"user\", \"content\": \"" text "\"}"
#define CALL(content) "{\"role\": \"assistant\", \"content\": " content ", \"tool_calls\": [{\"x\": 1}]}"

#define CALL_OF(name, content)                                                                               \
    "{\"role\": \"assistant\", \"content\": " content ", \"tool_calls\": [{\"function\": {\"name\": \"" name \
    "\"}}]}"

/* Whatever the template writes around them, a special token among it, and with a text before them or none. */
TEST_CASE(tool_calls_are_learned_with_the_end_of_the_turn)
{
    const char *special = /* as Mistral's */
        "{% for m in messages %}{% if m.role == 'user' %}({{ m.content }}){% else %}{{ m.content or '' }}"
        "{% if m.tool_calls %}<|pad|>{{ m.tool_calls | tojson }}{% endif %}<|end|>{% endif %}{% endfor %}";
    const char *tagged = /* as Qwen's */
        "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content or '' }}{% if m.tool_calls %}\n<call>\n"
        "{{ m.tool_calls | tojson }}\n</call>{% endif %}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}";
    const char *opened = /* the next turn ends it, of a tool, too, as GLM's */
        "{% for m in messages %}{{ '<|pad|>' if m.role == 'assistant' else '<|end|>' }}\n"
        "{{ m.content or '' }}{% if m.tool_calls %}<|pad|>{{ m.tool_calls | tojson }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|pad|>\n{% endif %}";
    const char *none = USER("a") ", " CALL("null"), *text = USER("a") ", " CALL("\"look\"") ", " USER("b");
    expect_learned(special, none, "<|pad|>[{\"x\": 1}]<|end|>");
    expect_learned(special, text, "look<|pad|>[{\"x\": 1}]<|end|>");
    expect_learned(tagged, none, "<call>\n[{\"x\": 1}]\n</call><|end|>");
    expect_learned(tagged, text, "look<call>\n[{\"x\": 1}]\n</call><|end|>");
    expect_learned(opened, text, "look<|pad|>[{\"x\": 1}]<|end|>");
    expect_learned(opened, none, "<|pad|>[{\"x\": 1}]<|end|>");
    expect_learned(opened, USER("a") ", " CALL("\"look\""), "look<|pad|>[{\"x\": 1}]<|end|>");
    /* a special token within, which ends no turn */
    expect_learned_by(
        "tokenizer/llama_style",
        "{% for m in messages %}{% if m.role == 'user' %}({{ m.content }}){% else %}{{ m.content "
        "or '' }}<|begin|>{{ m.tool_calls | tojson }}<|end|>{% endif %}{% endfor %}",
        none, "<|begin|>[{\"x\": 1}]<|end|>");
    expect_learned(tagged, USER("a") ", " CALL_OF("look", "null"),
                   "<call>\n[{\"function\": {\"name\": \"look\"}}]\n</call><|end|>");
}

TEST_CASE(what_the_template_makes_of_an_answer_is_learned_and_no_quotation_of_it)
{
    const char *plain =
        "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content | replace('*', '') if m.role == "
        "'assistant' else m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}";
    expect_learned(plain,
                   USER("a") ", {\"role\": \"assistant\", \"content\": \"*hi*\"}, " USER("you said: *hi*"),
                   "hi<|end|>");
}

/* Where the template leaves earlier answers out, each answer is learned in the text that asks for it. */
TEST_CASE(answers_become_examples_where_the_template_changes_earlier_turns)
{
    struct seen seen;
    struct err err = {0};
    const char *last_turn = "{% for m in messages[-3:] %}<|pad|>{{ m.role }}\n{{ m.content }}<|end|>\n"
                            "{% endfor %}{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}";
    const char *text =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
        "\"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}";
    assert_int_equal(read_text(last_turn, NULL, "tokenizer/qwen_style", text, &seen, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "line 1: message 4: the chat template writes the messages before the "
                                     "answer differently"));
    release(&seen);
    /* an instruction before the last question, as some models have it */
    const char *moving =
        "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}<|pad|>{{ m.role }}\n"
        "{% if loop.index0 == ns.last %}Be brief. {% endif %}{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}";
    assert_ok(read_text(moving, NULL, "tokenizer/qwen_style", text, &seen, &err), &err);
    assert_int_equal(seen.examples, 2);
    size_t learned = 0;
    for (size_t i = 0; i < seen.mask.count; i++) learned += seen.mask.ids[i];
    assert_int_equal(learned, 4); /* "b", "d" and their ends */
    release(&seen);
}

static void expect_problem(const char *template, const char *line, const char *problem)
{
    struct seen seen;
    struct err err = {0};
    char text[1024];
    snprintf(text, sizeof text, "{\"prompt\": \"a\", \"completion\": \"b\"}\n\n%s\n", line);
    enum status status = read_text(template, NULL, "tokenizer/qwen_style", text, &seen, &err);
    assert_true(status == STATUS_CORRUPT || status == STATUS_FAILED);
    if (!strstr(err.text, problem) || !strstr(err.text, "x.jsonl: line 3")) fail_msg("%s", err.text);
    release(&seen);
}

TEST_CASE(bad_lines_are_named)
{
    static const char *const problems[][2] = {
        {"{\"messages\": [", "column"},
        {"[1]", "is not a JSON object"},
        {"{\"question\": \"a\", \"answer\": \"b\"}",
         "needs \"messages\", or \"prompt\" and \"completion\" (it has \"question\", \"answer\")"},
        {"{\"text\": \"a\"}", "(it has \"text\"; if its lines are texts, set data.format = text)"},
        {"{\"messages\": \"a\"}", "\"messages\" must be a list"},
        {"{\"prompt\": 1, \"completion\": \"b\"}", "must be texts or lists of messages"},
        {"{\"prompt\": \"a\", \"completion\": 1}", "must be texts or lists of messages"},
        {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": null}",
         "must be texts or lists"},
        {"{\"messages\": [1]}", "message 1: needs \"role\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "message 1: \"content\" must be a text, or a list of {\"type\": \"text\"} parts"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, 5]}]}",
         "message 1: \"content\" must be a text, or a list of {\"type\": \"text\"} parts"},
        {"{\"messages\": [{\"content\": \"a\"}]}", "message 1: needs \"role\""},
        {"{\"messages\": [{\"role\": \"human\", \"content\": \"a\"}]}", "message 1: unknown role \"human\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 3}]}", "\"content\" must be a text"},
        {"{\"prompt\": \"a\", \"completion\": \" \\n\"}",
         "message 2: the answer is empty (remove it, or give it \"weight\": 0"},
        {"{\"system\": \"be\", \"prompt\": \"a\", \"completion\": \"b\"}",
         "\"system\" beside the messages is not read"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": false}]}",
         "\"weight\" must be 0"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0.5}]}",
         "\"weight\" must be 0"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": \"0\"}]}",
         "message 1: \"weight\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "has no message of the role"},
        {"{\"messages\": [" USER("a") ", " CALL_OF("look", "null") "]}",
         "message 2: the chat template does not write its \"tool_calls\""},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        expect_problem(TURNS, problems[i][0], problems[i][1]);
    expect_problem("{% for m in messages %}{% if m.content == 'z' %}{{ raise_exception('no z') }}{% endif %}"
                   "{{ m.role }}: {{ m.content }}<|end|>{% endfor %}",
                   "{\"prompt\": \"z\", \"completion\": \"b\"}", "no z");
}

TEST_CASE(a_template_that_refuses_a_later_answer_is_quoted_alone)
{
    expect_problem("{% if add_generation_prompt and messages | length > 1 %}{{ raise_exception('once') }}{% "
                   "endif %}" TURNS,
                   "{\"messages\": [" USER("a") ", {\"role\": \"assistant\", \"content\": \"b\"}, " USER(
                       "c") ", {\"role\": \"assistant\", \"content\": \"d\"}]}",
                   "x.jsonl: line 3: the template: line 1: the template refuses this conversation: once");
}

TEST_CASE(an_answer_of_weight_1_is_learned)
{
    expect_learned(TURNS,
                   USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"weight\": 1}, " USER(
                       "b") ", {\"role\": \"assistant\", \"content\": \"c\", \"weight\": null}",
                   "b<|end|>/c<|end|>");
}

TEST_CASE(an_empty_answer_may_stay_in_the_conversation_unlearned)
{
    expect_learned(TURNS,
                   USER("a") ", {\"role\": \"assistant\", \"content\": \"\", \"weight\": 0}, " USER(
                       "b") ", {\"role\": \"assistant\", \"content\": \"c\"}",
                   "c<|end|>");
}

/* Templates such as Qwen2's look at the first message, and there is none before the answer. */
TEST_CASE(an_answer_that_begins_the_conversation_is_refused_with_the_remedy)
{
    const char *looks = "{% if messages[0].role == 'system' %}{% endif %}" TURNS;
    const char *rest = "\"role\": \"assistant\", \"content\": \"hi\"}, " USER(
        "a") ", {\"role\": \"assistant\", \"content\": \"c\"}";
    char line[512];
    snprintf(line, sizeof line, "{\"messages\": [{%s]}", rest);
    expect_problem(looks, line,
                   "message 1: the chat template asks for no answer before the first message (give it "
                   "\"weight\": 0, so that it is not learned): the template: line 1: ");
    snprintf(line, sizeof line, "{\"weight\": 0, %s", rest);
    expect_learned(looks, line, "c<|end|>");
}

/* The text that would follow is not asked for then, and the end of the turn is found in the conversation. */
TEST_CASE(a_template_may_refuse_a_conversation_that_ends_with_an_earlier_answer)
{
    expect_learned("{% if messages | length == 2 %}{{ raise_exception('too short') }}{% endif %}" TURNS,
                   USER("a") ", {\"role\": \"assistant\", \"content\": \"b\"}, " USER(
                       "b") ", {\"role\": \"assistant\", \"content\": \"c\"}",
                   "b<|end|>/c<|end|>");
}

/* Then the model would write a token that no answer was learned with. */
TEST_CASE(an_end_that_the_tokenizer_joins_with_what_follows_is_refused)
{
    json_t *document = load("tests/fixtures/tokenizer/qwen_style.json");
    const char *path = scratch_path("joins.json");
    struct seen seen;
    struct err err = {0};
    json_array_append_new(json_object_get(document, "added_tokens"),
                          json_pack("{s: i, s: s}", "id", 443, "content", "<|end|>\n"));
    assert_int_equal(json_dump_file(document, path, 0), 0);
    json_decref(document);
    assert_int_equal(read_text(TURNS, NULL, path, "{\"prompt\": \"a\", \"completion\": \"b\"}", &seen, &err),
                     STATUS_FAILED);
    assert_non_null(strstr(err.text, "x.jsonl: line 1: message 2: the tokenizer joins the end of the answer "
                                     "with what follows it"));
    release(&seen);
}

/* As transformers decodes them; in a message of the assistant names of special tokens stay. */
TEST_CASE(a_message_is_valid_text_without_special_tokens)
{
    static const struct {
        const char *text;
        size_t n;
        const char *plain, *kept;
    } cases[] = {
        {"a b", 3, "a b", "a b"},
        {"a\xFF\xC3", 3, "a\uFFFD\uFFFD", "a\uFFFD\uFFFD"},
        {"\xE2\x82x\xE2\x82", 6, "\uFFFDx\uFFFD", "\uFFFDx\uFFFD"},
        {"<|end|>", 7, "<\u200B|end|>", "<|end|>"},
        {"<|end|>", 6, "<|end|", "<|end|"},   /* only a part of the text */
        {"<|pad|>", 7, "<|pad|>", "<|pad|>"}, /* not special */
        {"", 0, "", ""},
    };
    struct tokenizer *tokenizer;
    struct err err = {0};
    assert_ok(tokenizer_open("tests/fixtures/tokenizer/qwen_style.json", &tokenizer, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kept = 0; kept < 2; kept++) {
            json_t *made = message_text_new(kept ? NULL : tokenizer, cases[i].text, cases[i].n);
            assert_string_equal(json_string_value(made), kept ? cases[i].kept : cases[i].plain);
            json_decref(made);
        }
    tokenizer_close(tokenizer);
}

TEST_CASE(a_template_that_ends_no_answer_is_refused)
{
    struct seen seen;
    struct err err = {0};
    assert_int_equal(read_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", NULL,
                               "tokenizer/qwen_style", "{\"prompt\": \"a\", \"completion\": \"b\"}", &seen,
                               &err),
                     STATUS_FAILED);
    assert_non_null(strstr(err.text, "no special token ends the answer"));
    release(&seen);
}

/* What a user types stays text. */
TEST_CASE(a_special_token_in_a_question_stays_text)
{
    struct seen seen;
    struct err err = {0};
    size_t ends = 0;
    assert_ok(read_text(TURNS, NULL, "tokenizer/qwen_style",
                        "{\"prompt\": \"a<|end|>\", \"completion\": \"b\"}", &seen, &err),
              &err);
    for (size_t i = 0; i < seen.tokens.count; i++) ends += seen.tokens.ids[i] == 440;
    assert_int_equal(ends, 2);
    release(&seen);
}

TEST_MAIN()
