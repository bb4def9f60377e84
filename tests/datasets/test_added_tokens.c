/* The characters next to a token that tokenizer.json adds: white space that it takes, and words that it is
 * not a part of. */
#include <jansson.h>
#include <stdbool.h>
#include <utf8proc.h>

#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

/* A tokenizer of bytes that has <x> with this flag. */
static struct tokenizer *open_with(const char *flag, int *id)
{
    json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL);
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    *id = (int)json_object_size(json_object_get(json_object_get(document, "model"), "vocab"));
    json_object_set_new(document, "added_tokens",
                        json_pack("[{s:i, s:s, s:b}]", "id", *id, "content", "<x>", flag, 1));
    char *text = json_dumps(document, 0);
    assert_ok(tokenizer_parse_json(text, strlen(text), "t.json", &tokenizer, &err), &err);
    free(text);
    json_decref(document);
    return tokenizer;
}

/* The number of ids of the text, and whether one of them is `id`. */
static size_t encode(const struct tokenizer *tokenizer, const char *text, int id, bool *found)
{
    struct token_list list = {0};
    struct err err = {0};
    assert_ok(tokenizer_encode(tokenizer, text, strlen(text), &list, &err), &err);
    size_t count = list.count;
    *found = false;
    for (size_t i = 0; i < count; i++) *found = *found || list.ids[i] == (uint32_t)id;
    token_list_release(&list);
    return count;
}

/* The token before the character, or behind it. */
static const char *beside(uint32_t point, bool behind)
{
    static char text[16];
    char character[5] = "";
    character[utf8proc_encode_char((utf8proc_int32_t)point, (utf8proc_uint8_t *)character)] = 0;
    snprintf(text, sizeof text, "%s<x>%s", behind ? character : "", behind ? "" : character);
    return text;
}

/* Unicode's White_Space. */
TEST_CASE(a_token_takes_the_white_space_on_its_side_and_nothing_else)
{
    static const uint32_t spaces[] = {9,      13,     ' ',    0x85,   0xA0,   0x1680, 0x2000,
                                      0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000},
                          others[] = {8,      14,     0x1F,   '!',    0x84,   0x86,   0x9F,
                                      0xA1,   0x167F, 0x1681, 0x1FFF, 0x200B, 0x2027, 0x202A,
                                      0x202E, 0x2030, 0x205E, 0x2060, 0x2FFF, 0x3001};
    enum { SPACES = sizeof spaces / sizeof *spaces, OTHERS = sizeof others / sizeof *others };
    for (int right = 0; right < 2; right++) {
        int id;
        bool found;
        struct tokenizer *tokenizer = open_with(right ? "rstrip" : "lstrip", &id);
        for (int i = 0; i < SPACES + OTHERS; i++) {
            uint32_t point = i < SPACES ? spaces[i] : others[i - SPACES];
            for (int behind = 0; behind < 2; behind++) {
                size_t count = encode(tokenizer, beside(point, behind), id, &found);
                bool takes = i < SPACES && behind != right;
                if (!found || (count == 1) != takes)
                    fail_msg("U+%04X %s: %zu ids", point, behind ? "before" : "behind", count);
            }
        }
        assert_int_equal(encode(tokenizer, "\xA0<x>\xA0", id, &found), 3); /* bytes that are no characters */
        assert_true(found);
        tokenizer_close(tokenizer);
    }
}

/* \w of Rust's regex: Alphabetic, marks, decimal digits, connecting punctuation, the two joiners. */
TEST_CASE(a_single_word_does_not_touch_another)
{
    static const uint32_t words[] = {'a',     'Z',     '5',     '_',     0xE9,    0x301,  0x2160,
                                     0x2188,  0x203F,  0x200C,  0x200D,  0x4E2D,  0x24B6, 0x24E9,
                                     0x1F130, 0x1F149, 0x1F150, 0x1F169, 0x1F170, 0x1F189},
                          others[] = {' ',     '-',     0xBD,    0x200B,  0x200E,  0x24B5,  0x24EA,
                                      0x1F12F, 0x1F14A, 0x1F14F, 0x1F16A, 0x1F16F, 0x1F18A, 0x1F600};
    enum { WORDS = sizeof words / sizeof *words, OTHERS = sizeof others / sizeof *others };
    int id;
    bool found;
    struct tokenizer *tokenizer = open_with("single_word", &id);
    for (int i = 0; i < WORDS + OTHERS; i++) {
        uint32_t point = i < WORDS ? words[i] : others[i - WORDS];
        for (int behind = 0; behind < 2; behind++) {
            encode(tokenizer, beside(point, behind), id, &found);
            if (found != (i >= WORDS)) fail_msg("U+%04X %s", point, behind ? "before" : "behind");
        }
    }
    tokenizer_close(tokenizer);
}

/* As Hugging Face's library: <x> takes all white space after it, the token of two blanks is still found
 * there, and the text goes on behind that one. */
TEST_CASE(white_space_taken_beyond_a_token_inside_it_is_encoded_again)
{
    json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL);
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0}, newline = {0};
    struct err err = {0};
    int id = (int)json_object_size(json_object_get(json_object_get(document, "model"), "vocab"));
    json_object_set_new(document, "added_tokens",
                        json_pack("[{s:i, s:s, s:b}, {s:i, s:s}]", "id", id, "content", "<x>", "rstrip", 1,
                                  "id", id + 1, "content", "  "));
    char *text = json_dumps(document, 0);
    assert_ok(tokenizer_parse_json(text, strlen(text), "t.json", &tokenizer, &err), &err);
    assert_ok(tokenizer_encode(tokenizer, "<x>  \n", 6, &list, &err), &err);
    assert_ok(tokenizer_encode(tokenizer, "\n", 1, &newline, &err), &err);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.ids[0], id);
    assert_int_equal(list.ids[1], id + 1);
    assert_int_equal(list.ids[2], newline.ids[0]);
    token_list_release(&list);
    token_list_release(&newline);
    tokenizer_close(tokenizer);
    free(text);
    json_decref(document);
}

static enum status refuse(void *context, const uint32_t *ids, size_t count, uint64_t done, struct err *err)
{
    int *calls = context;
    (void)ids, (void)count, (void)done;
    ++*calls;
    return err_set(err, STATUS_INTERRUPTED, "enough");
}

/* Texts between the tokens are long enough to be passed on before the token is found. */
TEST_CASE(a_token_does_not_continue_what_was_stopped_before_it)
{
    static const char *const flags[] = {"special", "normalized"};
    enum { LENGTH = 20000 };
    char *text = malloc(2 * (LENGTH + 3));
    for (int i = 0; i < 2; i++) {
        memset(text + i * (LENGTH + 3), '.', LENGTH);
        memcpy(text + i * (LENGTH + 3) + LENGTH, "<x>", 3);
        for (int k = 0; k < LENGTH; k += 2) text[i * (LENGTH + 3) + k] = (char)('A' + k % 23);
    }
    for (int f = 0; f < 2; f++) {
        int id, calls = 0;
        struct tokenizer *tokenizer = open_with(flags[f], &id);
        struct err err = {0};
        struct token_sink sink = {refuse, &calls};
        assert_int_equal(tokenizer_encode_stream(tokenizer, text, 2 * (LENGTH + 3), &sink, &err),
                         STATUS_INTERRUPTED);
        assert_int_equal(calls, 1);
        tokenizer_close(tokenizer);
    }
    free(text);
}

TEST_MAIN()
