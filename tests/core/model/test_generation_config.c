/* The files beside a model's weights: ids of special tokens, and the chat template. */
#include <jansson.h>

#include "core/base/file.h"
#include "core/model/generation_config.h"
#include "tests/cmocka.h"

static char folder[] = "/tmp/anneal-generation-config-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) ? -1 : 0;
}

#define TEST(name) TEST_CASE_WITH(name, make_folder, remove_folder)

static void put(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), NULL), STATUS_OK);
}

static void expect_template(const char *expected)
{
    char *text;
    struct err err = {0};
    if (chat_template_read(folder, &text, &err)) fail_msg("%s", err.text);
    if (expected)
        assert_string_equal(text, expected);
    else
        assert_null(text);
    free(text);
}

TEST(generation_config_comes_before_config)
{
    struct special_tokens tokens;
    struct err err = {0};
    put("config.json", "{\"bos_token_id\": 1, \"eos_token_id\": 2, \"pad_token_id\": null}");
    assert_int_equal(special_tokens_read(folder, &tokens, &err), STATUS_OK);
    assert_int_equal(tokens.bos, 1);
    assert_int_equal(tokens.pad, -1);
    assert_int_equal(tokens.eos_count, 1);
    assert_int_equal(tokens.eos[0], 2);
    put("generation_config.json", "{\"eos_token_id\": [7, 9], \"temperature\": 0.6}");
    assert_int_equal(special_tokens_read(folder, &tokens, &err), STATUS_OK);
    assert_int_equal(tokens.bos, 1); /* still config.json's */
    assert_int_equal(tokens.eos_count, 2);
    assert_int_equal(tokens.eos[0], 7);
    assert_int_equal(tokens.eos[1], 9);
}

TEST(a_folder_without_the_files_names_no_tokens)
{
    struct special_tokens tokens;
    assert_int_equal(special_tokens_read(folder, &tokens, NULL), STATUS_OK);
    assert_int_equal(tokens.bos, -1);
    assert_int_equal(tokens.pad, -1);
    assert_int_equal(tokens.eos_count, 0);
    expect_template(NULL);
}

TEST(minus_one_is_no_token)
{
    struct special_tokens tokens;
    struct err err = {0};
    put("config.json", "{\"bos_token_id\": -1, \"eos_token_id\": [-1, 2, -1, 3], \"pad_token_id\": -1}");
    if (special_tokens_read(folder, &tokens, &err)) fail_msg("%s", err.text);
    assert_true(tokens.bos == -1 && tokens.pad == -1);
    assert_int_equal(tokens.eos_count, 2);
    assert_true(tokens.eos[0] == 2 && tokens.eos[1] == 3);
}

TEST(bad_ids_are_one_sentence_each)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{\"eos_token_id\": -2}", "generation_config.json: eos_token_id must be the id of a token"},
        {"{\"eos_token_id\": \"</s>\"}", "eos_token_id must be"},
        {"{\"eos_token_id\": [2, 3.5]}", "eos_token_id must be"},
        {"{\"bos_token_id\": [1, 2]}", "bos_token_id lists more than 1"},
        {"{\"pad_token_id\": 2147483648}", "pad_token_id must be"},
        {"{\"eos_token_id\": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}", "lists more than 16 tokens"},
        {"[]", "not a JSON object"},
        {"{", "generation_config.json:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct special_tokens tokens = {.bos = 77};
        struct err err = {0};
        put("generation_config.json", cases[i].text);
        assert_int_equal(special_tokens_read(folder, &tokens, &err), STATUS_CORRUPT);
        if (!strstr(err.text, cases[i].part)) fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(tokens.bos, 77); /* unchanged */
    }
}

TEST(the_template_file_comes_before_the_tokenizers_configuration)
{
    put("tokenizer_config.json",
        "{\"chat_template\": \"one\", \"model_max_length\": 1000000000000000019884624838656}");
    expect_template("one");
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, "
                                 "{\"name\": \"default\", \"template\": \"two\"}]}");
    expect_template("two");
    put("chat_template.jinja", "three\n");
    expect_template("three\n");
    put("chat_template.jinja", "bad \xff");
    char *text;
    struct err err = {0};
    assert_int_equal(chat_template_read(folder, &text, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "chat_template.jinja: not UTF-8 text"));
    assert_null(text);
}

TEST(texts_of_special_tokens_come_from_both_files)
{
    struct err err = {0};
    json_t *texts;
    assert_int_equal(special_texts_read(folder, &texts, &err), STATUS_OK);
    assert_int_equal(json_object_size(texts), 0);
    json_decref(texts);
    put("special_tokens_map.json", "{\"bos_token\": \"<old>\", \"unk_token\": {\"content\": \"<unk>\"}}");
    put("tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"eos_token\": null, "
        "\"pad_token\": \"<pad>\", \"add_bos_token\": true, \"model_max_length\": "
        "1000000000000000019884624838656}");
    assert_int_equal(special_texts_read(folder, &texts, &err), STATUS_OK);
    json_t *expected =
        json_pack("{s: s, s: s, s: s}", "bos_token", "<s>", "unk_token", "<unk>", "pad_token", "<pad>");
    assert_true(json_equal(texts, expected));
    json_decref(expected);
    json_decref(texts);
    put("tokenizer_config.json", "[]");
    assert_int_equal(special_texts_read(folder, &texts, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "tokenizer_config.json: not a JSON object"));
}

TEST_MAIN()
