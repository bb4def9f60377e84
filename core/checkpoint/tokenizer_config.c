/* See tokenizer_config.h. The rules are those of transformers' AutoTokenizer
 * (models/auto/tokenization_auto.py, version 5):
 *
 *   PreTrainedTokenizerFast uses tokenizer.json as it is, and for most architectures is used when it is
 * named. For Qwen2 every class that could be named is overruled by Qwen2Tokenizer, which builds a tokenizer
 * of its own from the vocabulary. If the file describes another tokenizer than that, the only key that makes
 * the class take the file as it is is "trust_remote_code"; nothing remote is run. The class also adds
 *   "<|endoftext|>" to the vocabulary for every special token whose key is missing, unlike for null. */
#include "core/checkpoint/tokenizer_config.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/file.h"
#include "datasets/json_file.h"

static const char class_name[] = "PreTrainedTokenizerFast";

/* The object in folder/name; NULL: there is none, or it cannot be read. Numbers are reals, because
 * transformers writes 1e30 in digits for "model_max_length", which no integer holds. */
static json_t *read_json(const char *folder, const char *name)
{
    json_t *json;
    json_file_find(folder, name, JSON_DECODE_INT_AS_REAL, &json, NULL);
    return json;
}

/* Makes whole numbers integers again, so that they are written as such. */
static json_t *with_integers(json_t *value)
{
    const char *key;
    json_t *inside;
    size_t index;
    void *next;
    double number = json_real_value(value);
    if (json_is_real(value) && floor(number) == number && fabs(number) < 0x1p53)
        return json_integer((json_int_t)number);
    json_object_foreach_safe(value, next, key, inside)
    {
        json_object_set_new(value, key, with_integers(inside));
    }
    json_array_foreach(value, index, inside) json_array_set_new(value, index, with_integers(inside));
    return json_incref(value);
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, text) == 0;
}

/* Whether tokenizer.json describes what Qwen2Tokenizer builds from its vocabulary and merges, as that of
 * every model of the Qwen2 family does. */
static bool is_of_qwen2(const char *folder)
{
    static const char pattern[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    json_t *file = read_json(folder, "tokenizer.json");
    const char *normalizer, *first, *regex, *behavior, *second, *model, *decoder;
    int invert, space, use_regex;
    bool same =
        file &&
        !json_unpack(file, "{s:{s:s}, s:{s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}!]}, s:{s:s}, s:{s:s}}",
                     "normalizer", "type", &normalizer, "pre_tokenizer", "pretokenizers", "type", &first,
                     "pattern", "Regex", &regex, "behavior", &behavior, "invert", &invert, "type", &second,
                     "add_prefix_space", &space, "use_regex", &use_regex, "model", "type", &model, "decoder",
                     "type", &decoder) &&
        !strcmp(normalizer, "NFC") && !strcmp(first, "Split") && !strcmp(regex, pattern) &&
        !strcmp(behavior, "Isolated") && !invert && !strcmp(second, "ByteLevel") && !space && !use_regex &&
        !strcmp(model, "BPE") && !strcmp(decoder, "ByteLevel");
    const json_t *bpe = json_object_get(file, "model"), *after = json_object_get(file, "post_processor");
    same = same && !json_is_true(json_object_get(bpe, "ignore_merges")) &&
           !json_is_true(json_object_get(bpe, "byte_fallback")) &&
           !json_is_string(json_object_get(bpe, "unk_token")) &&
           (!json_is_object(after) || is_text(after, "type", "ByteLevel"));
    json_decref(file);
    return same;
}

/* Which of its rules a tokenizer_config.json has to satisfy. */
struct rules {
    bool qwen2, other; /* of a Qwen2 model; whose tokenizer is another than its class builds */
};

/* False if the object has all of it already. */
static bool settle(json_t *object, struct rules rules)
{
    static const char *const tokens[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    bool changed = !is_text(object, "tokenizer_class", class_name);
    json_object_set_new(object, "tokenizer_class", json_string(class_name));
    changed = json_object_del(object, "auto_map") == 0 || changed; /* the class of code that is not here */
    if (!rules.qwen2) return changed;
    if (rules.other) {
        changed = !json_is_true(json_object_get(object, "trust_remote_code")) || changed;
        json_object_set_new(object, "trust_remote_code", json_true());
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        if (json_object_get(object, tokens[i])) continue;
        json_object_set_new(object, tokens[i], json_null());
        changed = true;
    }
    return changed;
}

enum status tokenizer_config_settle(const char *folder, struct err *err)
{
    char path[PATH_MAX];
    json_t *config = read_json(folder, "config.json"), *object = read_json(folder, "tokenizer_config.json");
    enum status status = file_format_path(path, sizeof path, err, "%s/tokenizer_config.json", folder);
    if (!status && !object && !file_exists(path)) {
        object = json_pack("{s:s, s:b}", "tokenizer_class", "", "clean_up_tokenization_spaces", 0);
        if (!object) status = err_no_memory(err, "writing %s", path);
    }
    struct rules rules = {.qwen2 = is_text(config, "model_type", "qwen2")};
    rules.other = rules.qwen2 && !is_of_qwen2(folder);
    if (!status && object && settle(object, rules))
        status = json_file_write(path, with_integers(object), JSON_INDENT(2), err);
    json_decref(object);
    json_decref(config);
    return status;
}
