/* SentencePiece-like tokenizers, the flags of added tokens, and the tokens around a prompt: the same as
 * Hugging Face's library has, on any text. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>

#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static const char *const names[] = {"llama2_style.json",  "mistral_style.json", "inner_style.json",
                                    "unknown_style.json", "partial_style.json", "flags_style.json"};
enum {
    FIXTURES = sizeof names / sizeof *names,
    ALL_BYTES = 3
}; /* the first ones have a token for every byte */

static struct tokenizer *open_fixture(const char *name)
{
    char path[256];
    struct err err = {0};
    struct tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, "%s%s", TOKENIZER_FIXTURES, name);
    assert_ok(tokenizer_open_json(path, &tokenizer, &err), &err);
    return tokenizer;
}

static json_t *cases(void)
{
    json_t *document = json_load_file(TOKENIZER_FIXTURES "characters.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(document);
    assert_true(json_array_size(json_object_get(document, "texts")) > 80);
    return document;
}

static void assert_ids(const struct token_list *list, json_t *wanted, const char *name, const char *text)
{
    bool same = list->count == json_array_size(wanted);
    for (size_t i = 0; same && i < list->count; i++)
        same = list->ids[i] == (uint32_t)json_integer_value(json_array_get(wanted, i));
    if (!same) fail_msg("%s: other ids than Hugging Face's for \"%.200s\"", name, text);
}

TEST_CASE(encodes_as_hugging_face_does)
{
    json_t *document = cases(), *texts = json_object_get(document, "texts"), *text;
    for (int t = 0; t < FIXTURES; t++) {
        struct tokenizer *tokenizer = open_fixture(names[t]);
        json_t *lists = json_object_get(json_object_get(document, "ids"), names[t]);
        size_t i;
        json_array_foreach(texts, i, text) {
            struct token_list list = {0};
            struct err err = {0};
            assert_ok(
                tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), &list, &err),
                &err);
            assert_ids(&list, json_array_get(lists, i), names[t], json_string_value(text));
            token_list_release(&list);
        }
        tokenizer_close(tokenizer);
    }
    json_decref(document);
}

/* Where bytes are no text, Hugging Face writes U+FFFD; we write the bytes. */
TEST_CASE(decodes_as_hugging_face_does)
{
    json_t *document = cases(), *ids, *id;
    int compared = 0;
    for (int t = 0; t < FIXTURES; t++) {
        struct tokenizer *tokenizer = open_fixture(names[t]);
        json_t *wanted = json_object_get(json_object_get(document, "decoded"), names[t]);
        size_t i, k;
        json_array_foreach(json_object_get(json_object_get(document, "ids"), names[t]), i, ids) {
            const char *text = json_string_value(json_array_get(wanted, i));
            size_t n = json_string_length(json_array_get(wanted, i)), length;
            uint32_t list[4096];
            json_array_foreach(ids, k, id) list[k] = (uint32_t)json_integer_value(id);
            char *decoded = tokenizer_decode(tokenizer, list, json_array_size(ids), &length);
            if (!memmem(text, n, "\xEF\xBF\xBD", 3)) {
                if (length != n || memcmp(decoded, text, n) != 0)
                    fail_msg("%s: \"%s\", not \"%s\"", names[t], decoded, text);
                compared++;
            }
            free(decoded);
        }
        tokenizer_close(tokenizer);
    }
    assert_true(compared > 400);
    json_decref(document);
}

TEST_CASE(a_prompt_has_the_tokens_of_the_post_processor)
{
    json_t *document = cases();
    static const char text[] = "In the <s>beginning";
    for (int t = 0; t < FIXTURES; t++) {
        struct tokenizer *tokenizer = open_fixture(names[t]);
        struct token_list list = {0};
        struct err err = {0};
        assert_ok(tokenizer_encode_prompt(tokenizer, text, strlen(text), &list, &err), &err);
        assert_ids(&list, json_object_get(json_object_get(document, "prompts"), names[t]), names[t], text);
        token_list_release(&list);
        tokenizer_close(tokenizer);
    }
    json_decref(document);
}

/* The pieces of the ids one after the other, as generation prints them, are the text after the space that the
 * tokenizer puts before it. */
TEST_CASE(pieces_add_up_to_any_text)
{
    char text[1500];
    for (int t = 0; t < ALL_BYTES; t++) {
        struct tokenizer *tokenizer = open_fixture(names[t]);
        for (uint64_t seed = 0; seed < 400; seed++) {
            struct token_list list = {0};
            struct err err = {0};
            char joined[4 * sizeof text];
            size_t n = noise_fill(seed, text, sizeof text), total = 0;
            if (n && *text == ' ' && t) *text = 'x'; /* Metaspace adds no space before a space */
            if (memmem(text, n, "<", 1) || memmem(text, n, "\xE2\x96\x81", 3)) continue;
            assert_ok(tokenizer_encode(tokenizer, text, n, &list, &err), &err);
            for (size_t i = 0; i < list.count; i++) {
                size_t length;
                const char *piece = tokenizer_token_bytes(tokenizer, list.ids[i], &length);
                memcpy(joined + total, piece, length);
                total += length;
            }
            size_t added = tokenizer_added_start(tokenizer, joined, total);
            if (n && *text != '\n') assert_int_equal(added, 1);
            assert_int_equal(total - added, n);
            assert_memory_equal(joined + added, text, n);
            token_list_release(&list);
        }
        tokenizer_close(tokenizer);
    }
}

TEST_CASE(tokens_with_a_space_inside_are_found)
{
    size_t n;
    char *sample = scratch_read(TOKENIZER_FIXTURES "sample.txt", &n);
    struct tokenizer *tokenizer = open_fixture("inner_style.json");
    struct token_list list = {0};
    struct err err = {0};
    size_t inner = 0, length;
    assert_ok(tokenizer_encode(tokenizer, sample, n, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        const char *piece = tokenizer_token_bytes(tokenizer, list.ids[i], &length);
        if (length > 2 && memmem(piece + 1, length - 1, " ", 1)) inner++;
    }
    assert_true(inner > 500);
    token_list_release(&list);
    tokenizer_close(tokenizer);
    free(sample);
}

/* Such a merge joins characters that have no token; a long piece is not cut between them. */
TEST_CASE(a_merge_with_the_token_of_a_byte_is_found_anywhere)
{
    static const char *const sides[][3] = {{"a", "<0x0A>", "a\n"}, {"<0x0A>", "a", "\na"}};
    for (int i = 0; i < 2; i++) {
        json_t *document = json_load_file(TOKENIZER_FIXTURES "inner_style.json", 0, NULL),
               *model = json_object_get(document, "model"), *vocab = json_object_get(model, "vocab");
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        char joined[20];
        uint32_t id = (uint32_t)json_object_size(vocab);
        snprintf(joined, sizeof joined, "%s%s", sides[i][0], sides[i][1]);
        json_object_set_new(vocab, joined, json_integer(id));
        json_array_append_new(json_object_get(model, "merges"),
                              json_pack("[s, s]", sides[i][0], sides[i][1]));
        char *json = json_dumps(document, 0);
        assert_ok(tokenizer_parse_json(json, strlen(json), "t.json", &tokenizer, &err), &err);
        for (int before = 15; before < 50; before++) {
            char text[60];
            struct token_list list = {0};
            int n = snprintf(text, sizeof text, "%.*s%s", before,
                             "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", sides[i][2]);
            assert_ok(tokenizer_encode(tokenizer, text, (size_t)n, &list, &err), &err);
            assert_int_equal(list.ids[list.count - 1], id);
            token_list_release(&list);
        }
        tokenizer_close(tokenizer);
        json_decref(document);
        free(json);
    }
}

TEST_CASE(a_long_text_without_spaces_takes_no_quadratic_time)
{
    size_t n = 1 << 20;
    char *text = malloc(n);
    uint64_t seed = 7;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) text[i] = "theandofin"[noise_next(&seed) % 10];
    for (int t = 0; t < FIXTURES; t++) {
        struct tokenizer *tokenizer = open_fixture(names[t]);
        struct token_list list = {0};
        struct err err = {0};
        assert_ok(tokenizer_encode(tokenizer, text, n, &list, &err), &err); /* seconds; hours if quadratic */
        assert_true(list.count > n / 8);
        token_list_release(&list);
        tokenizer_close(tokenizer);
    }
    free(text);
}

TEST_CASE(saving_keeps_the_file_word_for_word)
{
    for (int t = 0; t < FIXTURES; t++) {
        char path[256];
        struct err err = {0};
        struct tokenizer *tokenizer = open_fixture(names[t]), *again = NULL;
        snprintf(path, sizeof path, "%s%s", TOKENIZER_FIXTURES, names[t]);
        assert_ok(tokenizer_save_json(tokenizer, scratch_path("kept.json"), &err), &err);
        char *was = scratch_read(path, NULL), *is = scratch_read(scratch_path("kept.json"), NULL);
        assert_string_equal(was, is);
        assert_ok(tokenizer_open_json(scratch_path("kept.json"), &again, &err), &err);
        assert_int_equal(tokenizer_checksum(tokenizer), tokenizer_checksum(again));
        free(was);
        free(is);
        tokenizer_close(tokenizer);
        tokenizer_close(again);
    }
}

/* Characters that are all spelled in bytes: the same ids, and other rules. */
TEST_CASE(tokens_for_bytes_that_have_no_character_are_not_bytes)
{
    json_t *vocab = json_object(), *document;
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        json_object_set_new(vocab, name, json_integer(b));
    }
    document = json_pack("{s:{s:b, s:o, s:[]}, s:{s:s}}", "model", "byte_fallback", 1, "vocab", vocab,
                         "merges", "decoder", "type", "ByteFallback");
    char *text = json_dumps(document, 0);
    assert_ok(tokenizer_parse_json(text, strlen(text), "t.json", &tokenizer, &err), &err);
    assert_string_equal(tokenizer_kind(tokenizer), "sentencepiece");
    assert_round_trip(tokenizer, "a\xC3\xA9\xFF", 4);
    tokenizer_close(tokenizer);
    json_decref(document);
    free(text);
}

#define NEVER_PREPENDED 0x29364717903CD627 /* of the first change below, in earlier versions */

/* Whatever changes ids changes the checksum, so that no token file is read with another tokenizer. */
TEST_CASE(checksums_see_every_rule_of_encoding)
{
    static const char *const changes[][2] = {
        {"\"prepend_scheme\":\"always\"", "\"prepend_scheme\":\"never\""},
        {"\"fuse_unk\":true", "\"fuse_unk\":false"},
        {"\"unk_token\":\"<unk>\"", "\"unk_token\":\"\\u2581\""},
        {"\"split\":true", "\"split\":false"},
        {"\"individual_digits\":true", "\"individual_digits\":false"},
        {"\"lstrip\":false", "\"lstrip\":true"},
        {"\"single_word\":false", "\"single_word\":true"},
    };
    struct tokenizer *tokenizer = open_fixture("unknown_style.json");
    size_t n;
    char *text = scratch_read(TOKENIZER_FIXTURES "unknown_style.json", &n);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct tokenizer *other = NULL;
        struct err err = {0};
        char *at = strstr(text, changes[i][0]), *changed = NULL;
        assert_non_null(at);
        assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, changes[i][1],
                             at + strlen(changes[i][0])) > 0);
        assert_ok(tokenizer_parse_json(changed, strlen(changed), "changed.json", &other, &err), &err);
        if (tokenizer_checksum(other) == tokenizer_checksum(tokenizer)) fail_msg("%s", changes[i][1]);
        if (i == 0 && tokenizer_checksum(other) != NEVER_PREPENDED)
            fail_msg("0x%016" PRIX64, tokenizer_checksum(other));
        tokenizer_close(other);
        free(changed);
    }
    free(text);
    tokenizer_close(tokenizer);
}

/* Token files of earlier versions hold these. */
TEST_CASE(checksums_are_those_of_earlier_versions)
{
    static const uint64_t were[FIXTURES] = {0x88AF720EC52FB01A, 0xC2EE53C441FFEA50, 0x12D78A0D2F2EC8DA,
                                            0x750B64E428DF9E1E, 0x7340B291E0199AD8, 0x90D0E723F94F4CDD};
    for (int t = 0; t < FIXTURES; t++) {
        struct tokenizer *tokenizer = open_fixture(names[t]);
        if (tokenizer_checksum(tokenizer) != were[t])
            fail_msg("%s: 0x%016" PRIX64, names[t], tokenizer_checksum(tokenizer));
        tokenizer_close(tokenizer);
    }
}

TEST_MAIN()
