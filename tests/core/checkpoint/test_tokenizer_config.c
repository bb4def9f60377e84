/* tokenizer_config.json: transformers takes our tokenizer.json as it is, and nothing else of the file is
 * lost. tests/fixtures/tokenizer/check_autotokenizer.py holds transformers against these very texts. */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
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
    expect(
        "qwen2",
        "{\"tokenizer_class\": \"Qwen2Tokenizer\", \"trust_remote_code\": true, \"bos_token\": null, "
        "\"eos_token\": null, \"pad_token\": null, \"unk_token\": null}",
        "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"trust_remote_code\": true,\n"
        "  \"bos_token\": null,\n  \"eos_token\": null,\n  \"pad_token\": null,\n  \"unk_token\": null\n}\n");
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

/* Sets the value that a path such as "model.type" leads to; a digit is the place in a list. */
static void put(json_t *document, const char *path, const char *value)
{
    char key[40];
    const char *dot = strchr(path, '.');
    snprintf(key, sizeof key, "%.*s", dot ? (int)(dot - path) : (int)strlen(path), path);
    json_t *inside = json_is_array(document) ? json_array_get(document, (size_t)atoi(key))
                                             : json_object_get(document, key);
    if (dot)
        put(inside, dot + 1, value);
    else
        json_object_set_new(document, key, json_loads(value, JSON_DECODE_ANY, NULL));
}

TEST_CASE(a_tokenizer_that_differs_anywhere_from_those_of_qwen2_needs_trust)
{
    static const struct {
        const char *path, *value;
        bool same;
    } changes[] = {
        {"post_processor", "null", true},
        {"post_processor", "{\"type\": \"ByteLevel\"}", true},
        {"post_processor", "{\"type\": \"TemplateProcessing\"}", false},
        {"normalizer.type", "\"NFKC\"", false},
        {"normalizer", "null", false},
        {"pre_tokenizer.pretokenizers.0.type", "\"Punctuation\"", false},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"x\"", false},
        {"pre_tokenizer.pretokenizers.0.behavior", "\"Removed\"", false},
        {"pre_tokenizer.pretokenizers.0.invert", "true", false},
        {"pre_tokenizer.pretokenizers.1.type", "\"Metaspace\"", false},
        {"pre_tokenizer.pretokenizers.1.add_prefix_space", "true", false},
        {"pre_tokenizer.pretokenizers.1.use_regex", "true", false},
        {"model.type", "\"Unigram\"", false},
        {"model.ignore_merges", "true", false},
        {"model.byte_fallback", "true", false},
        {"model.unk_token", "\"<unk>\"", false},
        {"decoder.type", "\"Metaspace\"", false},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char folder[] = "/tmp/anneal-tokenizer-config-XXXXXX", path[200];
        struct err err = {0};
        assert_non_null(mkdtemp(folder));
        json_t *document = json_load_file("tests/fixtures/tokenizer/qwen_style.json", 0, NULL);
        put(document, changes[i].path, changes[i].value);
        snprintf(path, sizeof path, "%s/tokenizer.json", folder);
        assert_int_equal(json_dump_file(document, path, 0), 0);
        json_decref(document);
        snprintf(path, sizeof path, "%s/config.json", folder);
        assert_int_equal(file_write_atomic(path, "{\"model_type\": \"qwen2\"}", 23, &err), STATUS_OK);
        if (tokenizer_config_settle(folder, &err)) fail_msg("%s", err.text);
        snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
        json_t *settled = json_load_file(path, 0, NULL);
        if (!json_object_get(settled, "trust_remote_code") != changes[i].same)
            fail_msg("%s = %s", changes[i].path, changes[i].value);
        json_decref(settled);
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
