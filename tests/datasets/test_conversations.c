/* A corpus of conversations: their tokens and runs are prepared once, and again whenever what they are made
 * of is another. */
#include <jansson.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/chat_template.h"
#include "datasets/corpus.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define TOKENIZER TOKENIZER_FIXTURES "qwen_style.json"
#define TURNS                                                                                                \
    "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"                       \
    "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}"
/* The last question has an instruction before it, so that each answer is an example of its own. */
#define MOVING                                                                                               \
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"                       \
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}<|pad|>{{ m.role }}\n"     \
    "{% if loop.index0 == ns.last %}Be brief. {% endif %}{{ m.content }}<|end|>\n{% endfor %}"               \
    "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}"
#define PAIR "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
#define FOUR                                                                                                 \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "      \
    "\"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}\n"

struct heard {
    int encodings;
    char note[400];
};

static bool report(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct heard *heard = context;
    (void)unit;
    assert_true(done <= total);
    heard->encodings += strcmp(what, "encoding") == 0;
    return true;
}

static void note(void *context, bool warning, const char *sentence)
{
    struct heard *heard = context;
    assert_false(warning);
    snprintf(heard->note, sizeof heard->note, "%s", sentence);
}

static const char *write_file(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    scratch_write(path, text, strlen(text));
    return path;
}

/* `date`: a text that the template may use. */
static enum status open_corpus(const char *train, const char *tokenizer, const char *template,
                               const char *date, const char *cache, struct heard *heard, struct corpus *out,
                               struct err *err)
{
    struct chat_format format = {.source = strdup(template), .n = strlen(template), .name = "the template"};
    struct text_reading reading = {.conversations = &format};
    struct progress progress = {.context = heard, .report = report, .note = note};
    format.texts = json_pack("{s: s}", "date", date);
    *heard = (struct heard){0};
    enum status status = corpus_open(train, tokenizer, &reading, scratch_path(cache), &progress, out, err);
    chat_format_release(&format);
    return status;
}

TEST_CASE(conversations_are_prepared_once_for_each_template_and_its_texts)
{
    static const char *const templates[][2] = {
        {TURNS, "one"}, {TURNS, "one"}, {TURNS, "two"}, {MOVING, "one"}, {MOVING, "one"}};
    static const int entries[] = {1, 1, 2, 3, 3};
    const char *path = write_file("turns.jsonl", PAIR FOUR);
    uint64_t marks[5];
    for (int i = 0; i < 5; i++) {
        struct corpus corpus;
        struct heard heard;
        struct err err = {0};
        bool prepared = !i || entries[i] > entries[i - 1];
        assert_ok(open_corpus(path, TOKENIZER, templates[i][0], templates[i][1], "cache_turns", &heard,
                              &corpus, &err),
                  &err);
        assert_int_equal(heard.encodings > 0, prepared);
        assert_int_equal(scratch_entries(scratch_path("cache_turns")), entries[i]);
        assert_non_null(corpus.runs);
        /* of a pair and of four turns: the number of lengths, and these */
        assert_int_equal(corpus.runs->count, i < 3 ? 4 + 6 : 4 + 4 + 4);
        marks[i] = corpus_mark_of(&corpus).checksum;
        corpus_close(&corpus);
        if (i == 3)
            assert_string_equal(heard.note, "in 1 conversation each answer is an example of its own, as the "
                                            "chat template writes earlier turns differently");
        else
            assert_string_equal(heard.note, "");
    }
    assert_true(marks[0] == marks[1] && marks[0] == marks[2] && marks[3] == marks[4]);
    assert_true(marks[0] != marks[3]);
}

TEST_CASE(damaged_or_missing_runs_are_made_anew)
{
    const char *path = write_file("runs.jsonl", PAIR PAIR);
    struct corpus corpus;
    struct heard heard;
    struct err err = {0};
    for (int i = 0; i < 4; i++) {
        char victim[8192];
        uint32_t wrong = 9;
        assert_ok(open_corpus(path, TOKENIZER, TURNS, "", "cache_runs", &heard, &corpus, &err), &err);
        assert_true(heard.encodings > 0);
        assert_int_equal(corpus.runs->count, 2 * 4);
        snprintf(victim, sizeof victim, "%s%s", corpus.runs->path, i == 3 ? ".json" : "");
        corpus_close(&corpus);
        if (i == 0)
            assert_int_equal(unlink(victim), 0);
        else if (i == 1)
            assert_int_equal(truncate(victim, 20), 0);
        else if (i == 2)
            scratch_tok(victim, &wrong, 1); /* whole, and of other tokens */
        else
            scratch_write(victim, "{", 1);
    }
    assert_ok(open_corpus(path, TOKENIZER, TURNS, "", "cache_runs", &heard, &corpus, &err), &err);
    corpus_close(&corpus);
    assert_int_equal(scratch_entries(scratch_path("cache_runs")), 1);
}

TEST_CASE(what_has_no_conversations_is_refused)
{
    static const uint32_t ids[] = {1, 2, 3};
    const char *good = write_file("good.jsonl", PAIR), *tokens = scratch_path("some.tok");
    char weighted[8192];
    scratch_tok(tokens, ids, 3);
    snprintf(weighted, sizeof weighted, "%s : 1", good);
    const struct {
        const char *train, *tokenizer, *words;
    } cases[] = {
        {"", TOKENIZER, "data.train is empty: name a file of JSONL, or a folder"},
        {good, "bpe:300", "data.tokenizer = bpe:300: conversations need the tokenizer of the model"},
        {weighted, TOKENIZER, "data.format = instructions: takes no weights"},
        {tokens, TOKENIZER, "some.tok: is a token file, and instruction tuning needs conversations as JSONL"},
        {write_file("blank.jsonl", "\n \n"), TOKENIZER, "there is no conversation in the data"},
        {write_file("empty.jsonl", ""), TOKENIZER, "empty.jsonl: is empty"},
        {write_file("bad.jsonl", PAIR "\n{}\n"), TOKENIZER, "bad.jsonl: line 3: needs \"messages\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct corpus corpus = {0};
        struct heard heard;
        struct err err = {0};
        assert_int_not_equal(
            open_corpus(cases[i].train, cases[i].tokenizer, TURNS, "", "cache_none", &heard, &corpus, &err),
            STATUS_OK);
        if (!strstr(err.text, cases[i].words)) fail_msg("%s: %s", cases[i].words, err.text);
        assert_null(corpus.files);
        assert_int_equal(scratch_entries(scratch_path("cache_none")), 0);
    }
    struct corpus corpus = {0};
    struct heard heard;
    struct err err = {0};
    assert_int_not_equal(open_corpus(good, TOKENIZER, "{% if %}", "", "cache_none", &heard, &corpus, &err),
                         STATUS_OK);
    assert_non_null(strstr(err.text, "the template: line 1"));
}

TEST_MAIN()
