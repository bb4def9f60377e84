/* tokenizer_config.json: transformers takes our tokenizer.json as it is, and nothing else of the file is
 * lost. tests/fixtures/tokenizer/check_autotokenizer.py holds transformers against these very texts. */
#include <unistd.h>
/* cmocka wants the four above first */
#include "core/base/file.h"
#include "core/checkpoint/tokenizer_config.h"
#include "tests/cmocka.h"

static const char *const kinds[] = {"llama", "mistral", "qwen2", "qwen3"};

/* The file in a folder of a model type, before ("" for none) and after. The caller frees it. */
static char *settled(const char *model_type, const char *was)
{
    char folder[] = "/tmp/anneal-tokenizer-config-XXXXXX", path[200], config[100];
    struct file_map map;
    struct err err = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    snprintf(config, sizeof config, "{\"model_type\": \"%s\"}", model_type);
    assert_int_equal(file_write_atomic(path, config, strlen(config), &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (*was) assert_int_equal(file_write_atomic(path, was, strlen(was), &err), STATUS_OK);
    if (tokenizer_config_settle(folder, &err)) fail_msg("%s", err.text);
    assert_int_equal(file_map_open(path, &map, &err), STATUS_OK);
    char *text = strndup((const char *)map.data, map.size);
    file_map_close(&map);
    file_remove_tree(folder, NULL);
    return text;
}

static void expect(const char *model_type, const char *was, const char *is)
{
    char *text = settled(model_type, was), *again = settled(model_type, text);
    assert_string_equal(text, is);
    assert_string_equal(again, is);
    free(text);
    free(again);
}

TEST_CASE(a_new_file_names_the_class_that_takes_the_tokenizer_as_it_is)
{
    static const char plain[] = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                                "  \"clean_up_tokenization_spaces\": false\n}\n";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i], "qwen2") != 0) expect(kinds[i], "", plain);
    expect(
        "qwen2", "",
        "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false,\n"
        "  \"trust_remote_code\": true,\n  \"bos_token\": null,\n  \"eos_token\": null,\n"
        "  \"pad_token\": null,\n  \"unk_token\": null\n}\n");
}

TEST_CASE(another_class_is_replaced_and_every_other_key_kept)
{
    expect("llama",
           "{\"add_bos_token\": true, \"tokenizer_class\": \"LlamaTokenizer\", \"eos_token\": {\"content\": "
           "\"</s>\", "
           "\"lstrip\": false}, \"model_max_length\": 1000000000000000019884624838656, \"legacy\": null, "
           "\"added_tokens_decoder\": {\"2\": {\"content\": \"</s>\"}}, \"list\": [1, 2.5, \"\\u00e9\"]}",
           "{\n  \"add_bos_token\": true,\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
           "  \"eos_token\": {\n    \"content\": \"</s>\",\n    \"lstrip\": false\n  },\n"
           "  \"model_max_length\": 1e30,\n  \"legacy\": null,\n"
           "  \"added_tokens_decoder\": {\n    \"2\": {\n      \"content\": \"</s>\"\n    }\n  },\n"
           "  \"list\": [\n    1,\n    2.5,\n    \"\xC3\xA9\"\n  ]\n}\n");
    expect("qwen2", "{\"eos_token\": \"<|im_end|>\", \"unk_token\": null, \"model_max_length\": 131072}",
           "{\n  \"eos_token\": \"<|im_end|>\",\n  \"unk_token\": null,\n  \"model_max_length\": 131072,\n"
           "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"trust_remote_code\": true,\n"
           "  \"bos_token\": null,\n  \"pad_token\": null\n}\n");
    expect("llama",
           "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"auto_map\": {\"AutoTokenizer\": [\"a.B\"]}}",
           "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
}

/* Beside a tokenizer.json that Qwen2's own class builds from the vocabulary, no key has to make it read the
 * file; tests/fixtures/tokenizer/check_autotokenizer.py compares the ids. */
TEST_CASE(a_tokenizer_of_the_qwen2_family_needs_no_trust)
{
    static const char *const files[] = {"qwen_style.json", "llama_style.json", "digits_style.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char folder[] = "/tmp/anneal-tokenizer-config-XXXXXX", path[200], from[100];
        struct file_map map;
        struct err err = {0};
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/config.json", folder);
        assert_int_equal(file_write_atomic(path, "{\"model_type\": \"qwen2\"}", 23, &err), STATUS_OK);
        snprintf(from, sizeof from, "tests/fixtures/tokenizer/%s", files[i]);
        snprintf(path, sizeof path, "%s/tokenizer.json", folder);
        if (file_copy(from, path, &err) || tokenizer_config_settle(folder, &err)) fail_msg("%s", err.text);
        snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
        assert_int_equal(file_map_open(path, &map, &err), STATUS_OK);
        bool trusts = memmem(map.data, map.size, "trust_remote_code", 17) != NULL;
        if (trusts != (i > 0)) fail_msg("%s: %.*s", files[i], (int)map.size, (const char *)map.data);
        assert_non_null(memmem(map.data, map.size, "\"unk_token\": null", 17));
        file_map_close(&map);
        file_remove_tree(folder, NULL);
    }
}

TEST_CASE(a_file_that_needs_no_change_stays_word_for_word)
{
    static const char *const files[] = {
        "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"eos_token\": \"a\",\n\n \"n\": 1e3}",
        "not JSON", "[1]", "{\"tokenizer_class\": \"Llama"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) expect("llama", files[i], files[i]);
}

TEST_MAIN()
