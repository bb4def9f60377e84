/* Tokenizers on text: bytes and BPE, the same ids as Hugging Face's library, and no byte ever lost. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>

#include "core/base/text.h"
#include "datasets/normalizer.h"
#include "datasets/pretokenizer.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static struct tokenizer *open_fixture(const char *name)
{
    char path[256];
    struct err err = {0};
    struct tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, "%s%s", TOKENIZER_FIXTURES, name);
    assert_ok(tokenizer_open_json(path, &tokenizer, &err), &err);
    return tokenizer;
}

static void assert_ids(const struct tokenizer *tokenizer, const char *name, const char *text, size_t n,
                       json_t *wanted, size_t count)
{
    struct token_list list = {0};
    struct err err = {0};
    assert_ok(tokenizer_encode(tokenizer, text, n, &list, &err), &err);
    bool same = list.count == count;
    for (size_t i = 0; same && i < json_array_size(wanted); i++)
        same = list.ids[i] == (uint32_t)json_integer_value(json_array_get(wanted, i));
    if (!same) {
        for (size_t i = 0; i < list.count && i < 40; i++) {
            long long id = json_integer_value(json_array_get(wanted, i));
            printf("%u%s%lld ", list.ids[i], list.ids[i] == id ? "=" : "!", id);
        }
        fail_msg("%s encodes \"%.200s\" to %zu ids that are not Hugging Face's %zu", name, text, list.count,
                 count);
    }
    token_list_release(&list);
}

TEST_CASE(encodes_as_hugging_face_does)
{
    json_t *cases = json_load_file(TOKENIZER_FIXTURES "cases.json", 0, NULL), *lists;
    json_t *texts = json_object_get(cases, "texts");
    const char *name;
    size_t n, tokenizers = 0;
    char *sample = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    assert_non_null(cases);
    assert_true(json_array_size(texts) > 80);
    json_object_foreach(json_object_get(cases, "ids"), name, lists) {
        struct tokenizer *tokenizer = open_fixture(name);
        tokenizers++;
        assert_int_equal(json_array_size(lists), json_array_size(texts));
        for (size_t i = 0; i < json_array_size(texts); i++) {
            json_t *text = json_array_get(texts, i), *ids = json_array_get(lists, i);
            assert_ids(tokenizer, name, json_string_value(text), json_string_length(text), ids,
                       json_array_size(ids));
        }
        json_t *whole = json_object_get(json_object_get(cases, "sample"), name);
        assert_ids(tokenizer, name, sample, n, json_object_get(whole, "ids"),
                   (size_t)json_integer_value(json_object_get(whole, "count")));
        tokenizer_close(tokenizer);
    }
    assert_int_equal(tokenizers, 5);
    free(sample);
    json_decref(cases);
}

TEST_CASE(no_byte_is_ever_lost)
{
    static const char *const names[] = {"ours.json", "gpt2_style.json", "llama_style.json",
                                        "digits_style.json"};
    char text[1500];
    struct err err = {0};
    struct tokenizer *bytes = NULL;
    assert_ok(tokenizer_open_bytes(&bytes, &err), &err);
    for (size_t t = 0; t <= sizeof names / sizeof *names; t++) {
        struct tokenizer *tokenizer = t ? open_fixture(names[t - 1]) : bytes;
        for (uint64_t seed = 0; seed < 400; seed++) {
            size_t n = noise_fill(seed, text, sizeof text);
            assert_round_trip(tokenizer, text, n);
        }
        char all[256];
        for (int b = 0; b < 256; b++) all[b] = (char)b;
        assert_round_trip(tokenizer, all, sizeof all);
        assert_round_trip(tokenizer, "", 0);
        tokenizer_close(tokenizer);
    }
}

TEST_CASE(a_normalizer_changes_only_what_it_must)
{
    struct tokenizer *tokenizer = open_fixture("qwen_style.json");
    struct token_list list = {0};
    struct err err = {0};
    static const char text[] = "cafe\xCC\x81 \xFF\xFE caf\xC3\xA9 e\xFF\xCC\x81 \xE2\x84",
                      normal[] = "caf\xC3\xA9 \xFF\xFE caf\xC3\xA9 e\xFF\xCC\x81 \xE2\x84";
    size_t n;
    assert_ok(tokenizer_encode(tokenizer, text, sizeof text - 1, &list, &err), &err);
    char *decoded = tokenizer_decode(tokenizer, list.ids, list.count, &n);
    assert_int_equal(n, sizeof normal - 1);
    assert_memory_equal(decoded, normal, n);
    free(decoded);
    token_list_release(&list);
    tokenizer_close(tokenizer);
}

TEST_CASE(normal_forms_are_unicodes)
{
    static const struct {
        int form;                  /* -1: no step */
        const char *text, *normal; /* NULL: unchanged, so nothing is made */
    } cases[] = {
        {NORMAL_NFC, "plain", NULL},
        {-1, "e\xCC\x81", NULL},
        {NORMAL_NFC, "e\xCC\x81x", "\xC3\xA9x"},
        {NORMAL_NFD, "\xC3\xA9x", "e\xCC\x81x"},
        {NORMAL_NFC, "\xEF\xAC\x81", "\xEF\xAC\x81"},
        {NORMAL_NFKC, "\xEF\xAC\x81", "fi"},
        {NORMAL_NFKD, "\xEF\xAC\x81\xC3\xA9", "fie\xCC\x81"},
        {NORMAL_NFC, "q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        char *made;
        size_t n;
        struct normalizer one = {.count = cases[i].form >= 0};
        if (one.count) one.steps[0].kind = (enum normal_step_kind)cases[i].form;
        assert_ok(normalizer_apply(&one, cases[i].text, strlen(cases[i].text), &made, &n, &err), &err);
        assert_int_equal(made == NULL, cases[i].normal == NULL);
        if (!made) continue;
        assert_int_equal(n, strlen(cases[i].normal));
        assert_memory_equal(made, cases[i].normal, n);
        free(made);
    }
}

TEST_CASE(utf8_is_distinguished_from_other_bytes)
{
    static const struct {
        const char *text;
        size_t n, valid;
    } cases[] = {
        {"abc", 3, 3},
        {"\xC3\xA9", 2, 2},
        {"\xC3", 1, 0},
        {"a\xC0\x80", 3, 1},        /* overlong NUL */
        {"\xE0\x9F\xBF", 3, 0},     /* overlong */
        {"\xED\x9F\xBF", 3, 3},     /* U+D7FF */
        {"\xED\xA0\x80", 3, 0},     /* a surrogate */
        {"\xF4\x8F\xBF\xBF", 4, 4}, /* U+10FFFF */
        {"\xF4\x90\x80\x80", 4, 0}, /* beyond */
        {"\xF0\x8F\xBF\xBF", 4, 0}, /* overlong */
        {"12345678\xE2\x82\xAC\x80", 12, 11},
        {"\x80", 1, 0},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(utf8_valid_bytes(cases[i].text, cases[i].n), cases[i].valid);
}

TEST_CASE(bytes_are_their_own_ids)
{
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    struct err err = {0};
    size_t n;
    assert_ok(tokenizer_open_bytes(&tokenizer, &err), &err);
    assert_string_equal(tokenizer_kind(tokenizer), "bytes");
    assert_int_equal(tokenizer_vocab_size(tokenizer), 256);
    assert_ok(tokenizer_encode(tokenizer, "A\0\xFF", 3, &list, &err), &err);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.ids[0], 'A');
    assert_int_equal(list.ids[1], 0);
    assert_int_equal(list.ids[2], 255);
    assert_int_equal(*tokenizer_token_bytes(tokenizer, 255, &n), '\xFF');
    assert_int_equal(n, 1);
    tokenizer_token_bytes(tokenizer, 256, &n);
    assert_int_equal(n, 0);
    token_list_release(&list);
    tokenizer_close(tokenizer);
}

TEST_CASE(an_id_out_of_range_decodes_to_nothing)
{
    struct tokenizer *tokenizer = open_fixture("llama_style.json");
    size_t n = 99;
    uint32_t ids[] = {UINT32_MAX, (uint32_t)tokenizer_vocab_size(tokenizer), 0};
    assert_string_equal(tokenizer_token_bytes(tokenizer, UINT32_MAX, &n), "");
    assert_int_equal(n, 0);
    char *text = tokenizer_decode(tokenizer, ids, 3, &n);
    assert_int_equal(n, 1);
    assert_string_equal(text, "!");
    free(text);
    tokenizer_close(tokenizer);
}

TEST_CASE(encoding_appends_to_the_list)
{
    struct tokenizer *tokenizer = open_fixture("ours.json");
    struct token_list once = {0}, twice = {0};
    struct err err = {0};
    assert_ok(tokenizer_encode(tokenizer, "God said", 8, &once, &err), &err);
    assert_ok(tokenizer_encode(tokenizer, "God said", 8, &twice, &err), &err);
    assert_ok(tokenizer_encode(tokenizer, "God said", 8, &twice, &err), &err);
    assert_int_equal(twice.count, 2 * once.count);
    assert_memory_equal(twice.ids, once.ids, once.count * sizeof *once.ids);
    assert_memory_equal(twice.ids + once.count, once.ids, once.count * sizeof *once.ids);
    token_list_release(&once);
    token_list_release(&twice);
    tokenizer_close(tokenizer);
}

struct counting_sink {
    uint64_t ids, done;
    int calls, stop_at;
};

static enum status count_ids(void *context, const uint32_t *ids, size_t count, uint64_t done, struct err *err)
{
    struct counting_sink *sink = context;
    (void)ids;
    assert_true(done >= sink->done);
    sink->ids += count;
    sink->done = done;
    return ++sink->calls == sink->stop_at ? err_set(err, STATUS_INTERRUPTED, "enough") : STATUS_OK;
}

TEST_CASE(a_stream_gives_the_same_ids_and_can_be_stopped)
{
    size_t n;
    char *text = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    char *large = malloc(10 * n);
    assert_non_null(large);
    for (int i = 0; i < 10; i++) memcpy(large + (size_t)i * n, text, n);
    for (int kind = 0; kind < 4; kind++) {
        struct tokenizer *tokenizer = NULL;
        struct token_list list = {0};
        struct err err = {0};
        struct counting_sink all = {0}, some = {.stop_at = 2};
        if (kind)
            tokenizer = open_fixture(kind == 2 ? "llama2_style.json" : "ours.json");
        else
            assert_ok(tokenizer_open_bytes(&tokenizer, &err), &err);
        if (kind == 3) memset(large, 'z', 10 * n); /* a single piece */
        assert_ok(tokenizer_encode(tokenizer, large, 10 * n, &list, &err), &err);
        assert_ok(
            tokenizer_encode_stream(tokenizer, large, 10 * n, &(struct token_sink){count_ids, &all}, &err),
            &err);
        assert_int_equal(all.ids, list.count);
        assert_int_equal(all.done, 10 * n);
        assert_true(all.calls > 3);
        enum status status =
            tokenizer_encode_stream(tokenizer, large, 10 * n, &(struct token_sink){count_ids, &some}, &err);
        assert_int_equal(status, STATUS_INTERRUPTED);
        assert_int_equal(some.calls, 2);
        token_list_release(&list);
        tokenizer_close(tokenizer);
    }
    free(text);
    free(large);
}

TEST_CASE(a_long_piece_without_spaces_is_no_trouble)
{
    struct tokenizer *tokenizer = open_fixture("ours.json");
    size_t n = 1 << 20;
    char *text = malloc(n);
    assert_non_null(text);
    uint64_t seed = 7;
    for (size_t i = 0; i < n; i++) text[i] = "theand"[noise_next(&seed) % 6];
    assert_round_trip(tokenizer, text, n);
    memset(text, ' ', n);
    assert_round_trip(tokenizer, text, n);
    memset(text, 0xC3, n);
    assert_round_trip(tokenizer, text, n);
    free(text);
    tokenizer_close(tokenizer);
}

TEST_CASE(checksums_tell_tokenizers_apart_but_not_their_spelling)
{
    struct tokenizer *ours = open_fixture("ours.json"), *llama = open_fixture("llama_style.json"),
                     *again = NULL;
    struct err err = {0};
    assert_int_not_equal(tokenizer_checksum(ours), tokenizer_checksum(llama));
    json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL);
    char *compact = json_dumps(document, JSON_COMPACT | JSON_ENSURE_ASCII);
    assert_ok(tokenizer_parse_json(compact, strlen(compact), "compact", &again, &err), &err);
    assert_int_equal(tokenizer_checksum(ours), tokenizer_checksum(again));
    free(compact);
    json_decref(document);
    tokenizer_close(ours);
    tokenizer_close(llama);
    tokenizer_close(again);
}

/* Token files of earlier versions hold these. */
TEST_CASE(checksums_are_those_of_earlier_versions)
{
    static const struct {
        const char *name;
        uint64_t checksum;
    } cases[] = {{"ours.json", 0x2D98AD430BC14D4C},
                 {"llama_style.json", 0x9BCB96A9AA35419E},
                 {"qwen_style.json", 0x7760A38B54EC0E80}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = open_fixture(cases[i].name);
        if (tokenizer_checksum(tokenizer) != cases[i].checksum)
            fail_msg("%s: 0x%016" PRIX64, cases[i].name, tokenizer_checksum(tokenizer));
        tokenizer_close(tokenizer);
    }
}

TEST_CASE(each_normal_form_has_a_checksum_since_earlier_versions)
{
    static const struct {
        const char *form;
        uint64_t checksum;
    } cases[] = {{"NFC", 0x94E83F71633CD4BF},
                 {"NFD", 0x0A9FAED3C9A145AA},
                 {"NFKC", 0x4DF884EF04441CDF},
                 {"NFKD", 0x449115F0C0A4B4B5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL);
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        json_object_set_new(document, "normalizer", json_pack("{s: s}", "type", cases[i].form));
        char *text = json_dumps(document, 0);
        assert_ok(tokenizer_parse_json(text, strlen(text), "t.json", &tokenizer, &err), &err);
        if (tokenizer_checksum(tokenizer) != cases[i].checksum)
            fail_msg("%s: 0x%016" PRIX64, cases[i].form, tokenizer_checksum(tokenizer));
        tokenizer_close(tokenizer);
        json_decref(document);
        free(text);
    }
}

/* Tokens for the 256 bytes, but with rules of their own: not "bytes", which has none. */
TEST_CASE(bytes_with_a_rule_are_not_bytes)
{
    static const char *const changes[][2] = {
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"},
        {"\"added_tokens\": []",
         "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"special\": true}]"},
        {"\"added_tokens\": []", "\"added_tokens\": [{\"id\": 33, \"content\": \"!\", \"special\": true}]"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true"},
    };
    struct err err = {0};
    struct tokenizer *bytes = NULL;
    assert_ok(tokenizer_open_bytes(&bytes, &err), &err);
    assert_ok(tokenizer_save_json(bytes, scratch_path("bytes.json"), &err), &err);
    char *text = scratch_read(scratch_path("bytes.json"), NULL);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct tokenizer *other = NULL;
        char *at = strstr(text, changes[i][0]), *changed = NULL;
        if (!at) fail_msg("%s: %.300s", changes[i][0], text);
        assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, changes[i][1],
                             at + strlen(changes[i][0])) > 0);
        assert_ok(tokenizer_parse_json(changed, strlen(changed), "changed", &other, &err), &err);
        assert_string_not_equal(tokenizer_kind(other), tokenizer_kind(bytes));
        tokenizer_close(other);
        free(changed);
    }
    free(text);
    tokenizer_close(bytes);
}

TEST_CASE(saving_and_opening_again_keeps_everything)
{
    static const char *const names[] = {"ours.json", "llama_style.json", "qwen_style.json"};
    const char *path = scratch_path("saved.json");
    struct err err = {0};
    for (int i = 0; i < 4; i++) {
        struct tokenizer *tokenizer = NULL, *again = NULL;
        if (i < 3)
            tokenizer = open_fixture(names[i]);
        else
            assert_ok(tokenizer_open_bytes(&tokenizer, &err), &err);
        assert_ok(tokenizer_save_json(tokenizer, path, &err), &err);
        assert_ok(tokenizer_open_json(path, &again, &err), &err);
        assert_int_equal(tokenizer_checksum(tokenizer), tokenizer_checksum(again));
        assert_string_equal(tokenizer_kind(tokenizer), tokenizer_kind(again));
        if (i == 1) { /* a foreign file is kept word for word */
            char *was = scratch_read(TOKENIZER_FIXTURES "llama_style.json", NULL),
                 *is = scratch_read(path, NULL);
            assert_string_equal(was, is);
            free(was);
            free(is);
        }
        tokenizer_close(tokenizer);
        tokenizer_close(again);
    }
    struct tokenizer *tokenizer = open_fixture("ours.json");
    assert_int_equal(tokenizer_save_json(tokenizer, scratch_path("absent/folder/t.json"), &err),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, scratch_path("absent/folder/t.json")));
    tokenizer_close(tokenizer);
}

static enum status collect(void *context, const char *piece, size_t n, struct err *err)
{
    char *list = context;
    (void)err;
    strncat(list, piece, n);
    strcat(list, "|");
    return STATUS_OK;
}

/* `list` is empty, and has room for the pieces with a bar behind each. */
static void expect_pieces_in(char *list, const char *const *patterns, size_t count, const char *text,
                             const char *pieces)
{
    struct pretokenizer *splitter = NULL;
    struct pretokenizer_scratch *scratch = NULL;
    struct err err = {0};
    assert_ok(pretokenizer_new(patterns, count, "test", &splitter, &err), &err);
    assert_ok(pretokenizer_scratch_new(&scratch, &err), &err);
    assert_ok(pretokenizer_split(splitter, scratch, text, strlen(text), collect, list, &err), &err);
    assert_string_equal(list, pieces);
    pretokenizer_scratch_free(scratch);
    pretokenizer_free(splitter);
}

static void expect_pieces(const char *const *patterns, size_t count, const char *text, const char *pieces)
{
    char list[256] = "";
    expect_pieces_in(list, patterns, count, text, pieces);
}

TEST_CASE(stages_split_the_pieces_of_the_stage_before)
{
    static const char *const patterns[] = {"\\p{N}", PRETOKENIZER_GPT2};
    expect_pieces(patterns, 2, "It's 42 \xFF\xFE  days,\n\nnot 7",
                  "It|'s| |4|2| |\xFF\xFE| | days|,|\n|\n|not| |7|");
}

/* The pieces of these two tests are those of tokenizers 0.23. */
TEST_CASE(words_have_marks_and_few_numbers)
{
    static const char *const word = "\\w+", *const none = "\\W+", *const members = "[]\\w-]+";
    expect_pieces(&word, 1, "e\u0301a_7\u00BD \u2469", "e\u0301a_7\u00BD| \u2469|");
    expect_pieces(&none, 1, "e\u0301a \u2469\u00BD", "e\u0301a| \u2469|\u00BD|");
    expect_pieces(&members, 1, "e\u0301] \u00BD-", "e\u0301]| \u00BD|-|");
    static const char *const edge = "e\\b", *const within = "e\\B";
    expect_pieces(&edge, 1, "e\u0301e e\u00BDe\u2469", "e\u0301|e| e\u00BD|e|\u2469|");
    expect_pieces(&within, 1, "e\u0301e\u2469", "e|\u0301e\u2469|");
}

TEST_CASE(a_script_is_without_the_characters_that_it_shares_with_others)
{
    static const char *const han = "\\p{Han}+", *const none = "[^\\p{Han}\\s]+",
                             *const kana = "\\P{^Katakana}+", *const others = "\\P{Latin}+\\P{Han}";
    expect_pieces(&han, 1, "x漢字。y", "x|漢字|。y|");
    expect_pieces(&none, 1, "漢字。 y", "漢字|。| |y|");
    expect_pieces(&kana, 1, "カーテン", "カ|ー|テン|");
    expect_pieces(&others, 1, "xだよy", "x|だよy|");
}

/* PCRE2 of Debian 12 knows Unicode 14. */
TEST_CASE(characters_up_to_unicode_16_split_as_hugging_face_splits_them)
{
    /* "texts", and "pieces" by pattern: those of each text, with bars between */
    const char *own = getenv("ANNEAL_PIECES"), *pattern; /* of check_patterns.py */
    json_t *document = json_load_file(own ? own : TOKENIZER_FIXTURES "unicode.json", 0, NULL), *wanted, *text;
    size_t i, patterns = 0, wrong = 0;
    assert_non_null(document);
    json_object_foreach(json_object_get(document, "pieces"), pattern, wanted) {
        struct pretokenizer *splitter = NULL;
        struct pretokenizer_scratch *scratch = NULL;
        struct err err = {0};
        patterns++;
        if (pretokenizer_new(&pattern, 1, "test", &splitter, &err)) {
            print_error("%s\n", err.text);
            wrong += !own; /* refused, not other pieces */
            continue;
        }
        assert_ok(pretokenizer_scratch_new(&scratch, &err), &err);
        json_array_foreach(json_object_get(document, "texts"), i, text) {
            char list[4096] = "";
            const char *pieces = json_string_value(json_array_get(wanted, i));
            assert_true(2 * json_string_length(text) < sizeof list);
            if (pretokenizer_split(splitter, scratch, json_string_value(text), json_string_length(text),
                                   collect, list, &err))
                snprintf(list, sizeof list, "%s|", err.text);
            list[strlen(list) - 1] = '\0'; /* the last bar */
            if (strcmp(list, pieces) == 0) continue;
            print_error("%s\n  wanted: %s\n  pieces: %s\n", pattern, pieces, list);
            wrong++;
            break;
        }
        pretokenizer_scratch_free(scratch);
        pretokenizer_free(splitter);
    }
    assert_int_equal(wrong, 0);
    assert_true(patterns >= 3);
    json_decref(document);
}

TEST_CASE(what_hugging_face_reads_otherwise_is_refused)
{
    static const char *const cases[][2] = {
        {"[a[bc]]", "[ or && in brackets"},
        {"[\\p{L}&&[^a]]", "[ or && in brackets"},
        {"[[:alpha:]]", "[ or &&"},
        {"\\p{N}{1,3}+", "{n} followed by + or ?"},
        {"a{3}?", "{n} followed by"},
        {"a{,3}", "{,n}"},
        {"(?im:.)", "(?m)"},
        {"\\h+", "has \\h, which is not supported"},
        {"[\\W]", "has \\W,"},
        {"\\pL", "has \\p,"},
        {"a\\Q.\\E", "has \\Q,"},
        {"[\\B]", "has \\B,"},
        {"a\\", "does not compile: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pretokenizer *splitter = NULL;
        struct err err = {0};
        assert_int_equal(pretokenizer_new(&cases[i][0], 1, "t.json", &splitter, &err), STATUS_FAILED);
        if (!strstr(err.text, cases[i][1])) fail_msg("%s: %s", cases[i][0], err.text);
    }
    static const char *const good = "a{1,3}?|b{2}|\\{3}+|(?i:[m{,1}])|c(?=m)|(?<m>:)|d{}+";
    expect_pieces(&good, 1, "aaabb{3}}Mcm:d{}}", "a|a|a|bb|{3}}|M|c|m|:|d{}}|");
}

TEST_CASE(patterns_that_match_nothing_or_everything_lose_nothing)
{
    static const char *const patterns[] = {"",  "x*", "(?=a)",  "\\K",     "a\\K", "$",
                                           "^", ".",  "(?s).*", "(?<=a)b", "z"};
    static const char text[] = "aab\nxxab\xC3\xA9\xFF"
                               "aa";
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct pretokenizer *splitter = NULL;
        struct pretokenizer_scratch *scratch = NULL;
        struct err err = {0};
        char list[256] = "", joined[64] = "";
        assert_ok(pretokenizer_new(&patterns[i], 1, "test", &splitter, &err), &err);
        assert_ok(pretokenizer_scratch_new(&scratch, &err), &err);
        assert_ok(pretokenizer_split(splitter, scratch, text, sizeof text - 1, collect, list, &err), &err);
        char *to = joined;
        for (char *c = list; *c; c++)
            if (*c != '|') *to++ = *c;
        assert_string_equal(joined, text);
        assert_null(strstr(list, "||")); /* no empty piece */
        pretokenizer_scratch_free(scratch);
        pretokenizer_free(splitter);
    }
}

/* Each `a` takes some of the stack that PCRE2's machine code has. */
TEST_CASE(a_piece_too_long_for_machine_code_is_split_without_it)
{
    enum { LENGTH = 100000 };
    static char list[LENGTH + 8], text[LENGTH + 1], pieces[LENGTH + 8];
    const char *pattern = "(?:a|b)+z";
    memset(text, 'a', LENGTH);
    memcpy(text + LENGTH - 2, "zc", 2);
    sprintf(pieces, "%.*s|c|", LENGTH - 1, text);
    expect_pieces_in(list, &pattern, 1, text, pieces);
}

TEST_CASE(a_runaway_pattern_is_an_error_not_a_hang)
{
    static const char *const pattern = "(?:a+)+[bc]";
    struct pretokenizer *splitter = NULL;
    struct pretokenizer_scratch *scratch = NULL;
    struct err err = {0};
    char text[200], list[1024] = "";
    memset(text, 'a', sizeof text);
    assert_ok(pretokenizer_new(&pattern, 1, "test", &splitter, &err), &err);
    assert_ok(pretokenizer_scratch_new(&scratch, &err), &err);
    enum status status = pretokenizer_split(splitter, scratch, text, sizeof text, collect, list, &err);
    assert_int_equal(status, STATUS_FAILED);
    assert_non_null(strstr(err.text, "failed on this text"));
    pretokenizer_scratch_free(scratch);
    pretokenizer_free(splitter);
}

TEST_MAIN()
