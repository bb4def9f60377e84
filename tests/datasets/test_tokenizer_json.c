/* tokenizer.json files of others: supported features are read, others are named in an error, and no file can
 * do harm.
 *
 * */
#include <jansson.h>
#include <stdbool.h>

#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

static json_t *fixture(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", TOKENIZER_FIXTURES, name);
    json_t *document = json_load_file(path, 0, NULL);
    assert_non_null(document);
    return document;
}

/* Opens the document and takes ownership of it. */
static enum status open_document(json_t *document, struct tokenizer **out, struct err *err)
{
    char *text = json_dumps(document, JSON_COMPACT);
    assert_non_null(text);
    enum status status = tokenizer_parse_json(text, strlen(text), "t.json", out, err);
    free(text);
    json_decref(document);
    return status;
}

static json_t *json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    return value;
}

TEST_CASE(what_is_not_supported_is_named)
{
    static const struct {
        const char *key, *value, *words;
    } cases[] = {
        {"normalizer", "{\"type\":\"Lowercase\"}", "normalizer: Lowercase"},
        {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Strip\"}]}",
         "normalizer: Strip"},
        {"normalizer", "{\"type\":\"Prepend\"}", "normalizer.Prepend.prepend: is not a text"},
        {"normalizer", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\"\"}",
         "normalizer.Replace.pattern: a regular expression"},
        {"normalizer", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}",
         "normalizer.Replace.pattern: is empty"},
        {"normalizer", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}",
         "normalizer.Replace.content: is not a text"},
        {"normalizer", "{\"type\":\"Precompiled\"}", "normalizer: Precompiled"},
        {"normalizer", "7", "normalizer: a component without \"type\""},
        {"pre_tokenizer", "null", "pre_tokenizer: one without ByteLevel"},
        {"pre_tokenizer", "{\"type\":\"Whitespace\"}", "pre_tokenizer: Whitespace"},
        {"pre_tokenizer", "{\"type\":\"Metaspace\"}", "pre_tokenizer.Metaspace.replacement: is not a text"},
        {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}",
         "pre_tokenizer.Metaspace.replacement: is not one character"},
        {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"\"}",
         "pre_tokenizer.Metaspace.replacement: is not one character"},
        {"pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}",
         "pre_tokenizer.Metaspace: last"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}]}",
         "pre_tokenizer.ByteLevel: add_prefix_space after a Split"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
         "{\"type\":\"ByteLevel\"}]}",
         "pre_tokenizer: ByteLevel after Metaspace"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
         "{\"type\":\"Metaspace\",\"replacement\":\"_\"}]}",
         "pre_tokenizer: Metaspace is not supported"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\",\"replacement\":\"_\",\"split\":"
         "false},"
         "{\"type\":\"Metaspace\",\"replacement\":\"_\"}]}",
         "pre_tokenizer: Metaspace is not supported"},
        {"pre_tokenizer", "{\"type\":\"Sequence\",\"pretokenizers\":[]}",
         "pre_tokenizer: one without ByteLevel"},
        {"post_processor", "{\"type\":\"Odd\"}", "post_processor: Odd"},
        {"post_processor", "{\"type\":\"TemplateProcessing\"}",
         "post_processor.single: does not hold the text"},
        {"post_processor",
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}]}",
         "post_processor.single: names a token that special_tokens lacks"},
        {"post_processor",
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}],"
         "\"special_tokens\":{\"<s>\":{\"ids\":[400]}}}",
         "post_processor: an id is not in the vocabulary"},
        {"post_processor",
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}],"
         "\"special_tokens\":{\"<s>\":{\"ids\":[-1]}}}",
         "post_processor: an id is not in the vocabulary"},
        {"post_processor", "{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\"]}",
         "post_processor: an id is not in the vocabulary"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}",
         "pre_tokenizer: a component after ByteLevel"},
        {"pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":\"Removed\"}",
         "pre_tokenizer.Split.behavior: Removed"},
        {"pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"Regex\":5},\"behavior\":\"Isolated\"}",
         "pre_tokenizer.Split.pattern: is neither a Regex nor a String"},
        {"pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
         "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}",
         "the split pattern \"(\" does not compile: missing closing parenthesis"},
        {"model", "null", "model: is missing"},
        {"model", "{\"type\":\"WordPiece\"}", "model: WordPiece"},
        {"model", "{\"type\":\"Unigram\",\"vocab\":[]}", "model: Unigram"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}", "model.vocab: is missing or empty"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}",
         "no token for the byte 0x00, so some text would be lost"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}",
         "model.vocab: two tokens have the id 0"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}",
         "model.vocab: an id is not a whole number from 0"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":1.5},\"merges\":[]}",
         "model.vocab: an id is not a whole number from 0"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":2097152},\"merges\":[]}",
         "model.vocab: the id 2097152 is too large"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}",
         "model.vocab: the id 4000000000 is too large"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":9223372036854775807},\"merges\":[]}",
         "model.vocab: the id 9223372036854775807 is too large"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"\":0},\"merges\":[]}", "model.vocab: a token is empty"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"dropout\":0.1,\"merges\":[]}",
         "model.dropout: merging at random"},
        {"model", "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"end_of_word_suffix\":\"</w>\",\"merges\":[]}",
         "model: end_of_word_suffix"},
        {"added_tokens", "{}", "added_tokens: is not a list"},
        {"added_tokens", "[5]", "added_tokens: an id is not a whole number from 0"},
        {"added_tokens", "[{\"id\":400}]", "added_tokens: an entry has no \"content\""},
        {"added_tokens", "[{\"id\":400,\"content\":\"\"}]", "added_tokens: an entry has no \"content\""},
        {"added_tokens", "[{\"id\":\"x\",\"content\":\"y\"}]",
         "added_tokens: an id is not a whole number from 0"},
        {"added_tokens", "[{\"id\":99999999,\"content\":\"y\"}]",
         "added_tokens: the id 99999999 is too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = fixture("ours.json");
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        assert_int_equal(json_object_set_new(document, cases[i].key, json(cases[i].value)), 0);
        enum status status = open_document(document, &tokenizer, &err);
        if (!status || !strstr(err.text, cases[i].words) || !strstr(err.text, "t.json"))
            fail_msg("%s = %s: status %d, not \"%s\": %s", cases[i].key, cases[i].value, status,
                     cases[i].words, err.text);
        assert_null(tokenizer);
    }
}

TEST_CASE(decoders_that_are_not_supported_are_named)
{
#define STRIP(start, stop) "{\"type\":\"Strip\",\"content\":\" \",\"start\":" start ",\"stop\":" stop "}"
    static const struct {
        const char *decoders, *words;
    } cases[] = {
        {STRIP("1", "0") ",{\"type\":\"Fuse\"}", "decoder: Strip before Fuse"},
        {"{\"type\":\"Fuse\"}," STRIP("1", "0") "," STRIP("1", "0"), "decoder: a second Strip"},
        {"{\"type\":\"Fuse\"}," STRIP("0", "1"), "decoder.Strip: stop"},
        {"{\"type\":\"Fuse\"}," STRIP("-1", "0"), "decoder.Strip.start: is not a whole number from 0"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}",
         "decoder.Strip.content: is empty"},
        {"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1.5}",
         "decoder.Strip.start: is not a whole number from 0"},
        {"{\"type\":\"WordPiece\"}", "decoder: WordPiece"},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"}",
         "decoder.Replace.pattern: a regular expression"},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}", "decoder.Replace.content: is not a text"},
        {"{\"type\":\"Metaspace\",\"replacement\":\"\"}",
         "decoder.Metaspace.replacement: is not one character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = fixture("llama2_style.json"), *decoder = json("{\"type\":\"Sequence\"}");
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        char list[400];
        snprintf(list, sizeof list, "[%s]", cases[i].decoders);
        json_object_set_new(decoder, "decoders", json(list));
        json_object_set_new(document, "decoder", decoder);
        assert_int_not_equal(open_document(document, &tokenizer, &err), STATUS_OK);
        if (!strstr(err.text, cases[i].words)) fail_msg("%s: %s", cases[i].decoders, err.text);
    }
}

/* `most` of a part are read, one more is refused. */
TEST_CASE(more_parts_than_there_is_room_for_are_refused)
{
#define IDS     "\"special_tokens\":{\"<s>\":{\"ids\":[1]}}"
#define SPECIAL "{\"SpecialToken\":{\"id\":\"<s>\"}}"
#define TEXT    "{\"Sequence\":{\"id\":\"A\"}}"
    static const struct {
        const char *key, *head, *part, *tail;
        int most; /* of the parts */
        const char *words;
    } cases[] = {
        {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[", "{\"type\":\"NFC\"}", "]}", 8,
         "normalizer: a longer Sequence"},
        {"pre_tokenizer", "{\"type\":\"Sequence\",\"pretokenizers\":[", "{\"type\":\"Digits\"}", "]}", 8,
         "pre_tokenizer: a longer Sequence"},
        {"decoder", "{\"type\":\"Sequence\",\"decoders\":[",
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"a\"}", "]}", 8,
         "decoder: a longer Sequence"},
        {"post_processor", "{\"type\":\"TemplateProcessing\"," IDS ",\"single\":[" TEXT ",", SPECIAL, "]}",
         64, "post_processor: as many tokens around a text"},
        {"post_processor", "{\"type\":\"TemplateProcessing\"," IDS ",\"single\":[" SPECIAL ",", TEXT, "]}", 1,
         "post_processor.single: the text twice"},
        {"post_processor", "{\"type\":\"Sequence\",\"processors\":[",
         "{\"type\":\"TemplateProcessing\",\"single\":[" TEXT "]}", "]}", 1,
         "post_processor: a second template"},
        {"post_processor", "{\"type\":\"Sequence\",\"processors\":[",
         "{\"type\":\"RobertaProcessing\",\"cls\":[\"\",1],\"sep\":[\"\",2]}", "]}", 1,
         "post_processor: a second template"},
    };
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        char text[8000];
        int count = cases[i / 2].most + (int)(i % 2);
        size_t used = (size_t)snprintf(text, sizeof text, "%s", cases[i / 2].head);
        for (int k = 0; k < count; k++)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s", k ? "," : "", cases[i / 2].part);
        snprintf(text + used, sizeof text - used, "%s", cases[i / 2].tail);
        json_t *document = fixture("llama2_style.json");
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        json_object_set_new(document, cases[i / 2].key, json(text));
        enum status status = open_document(document, &tokenizer, &err);
        if (!status != (count == cases[i / 2].most) || (status && !strstr(err.text, cases[i / 2].words)))
            fail_msg("%d parts of %s: %s", count, cases[i / 2].words, err.text);
        tokenizer_close(tokenizer);
    }
}

TEST_CASE(an_added_token_of_which_the_normalizer_leaves_nothing_is_refused)
{
    json_t *document = fixture("llama2_style.json");
    int size = (int)json_object_size(json_object_get(json_object_get(document, "model"), "vocab"));
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    json_object_set_new(document, "normalizer",
                        json("{\"type\":\"Replace\",\"pattern\":{\"String\":\"<x>\"},\"content\":\"\"}"));
    json_object_set_new(document, "added_tokens",
                        json_pack("[{s:i, s:s, s:b}]", "id", size, "content", "<x>", "normalized", 1));
    json_object_set_new(document, "post_processor", json_null());
    assert_int_equal(open_document(document, &tokenizer, &err), STATUS_CORRUPT);
    if (!strstr(err.text, "added_tokens: the normalizer leaves nothing of an entry"))
        fail_msg("%s", err.text);
}

TEST_CASE(a_pattern_longer_than_64_kib_is_refused)
{
    enum { MOST = 64 << 10 };
    json_t *document = fixture("llama2_style.json");
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    char *pattern = calloc(MOST + 2, 1);
    assert_non_null(pattern);
    memset(pattern, 'a', MOST + 1);
    json_object_set_new(document, "pre_tokenizer",
                        json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "String", pattern,
                                  "behavior", "Isolated"));
    free(pattern);
    assert_int_equal(open_document(document, &tokenizer, &err), STATUS_FAILED);
    if (!strstr(err.text, "pre_tokenizer.Split.pattern: a pattern this long")) fail_msg("%s", err.text);
}

/* With the ids that tokenizers 0.23 gives: it ignores those in the file. */
TEST_CASE(added_tokens_have_the_ids_that_hugging_face_gives_or_are_refused)
{
    enum { NONE = -1 };
    const struct {
        const char *content[2];
        int after[2]; /* ids, counted from the size of the vocabulary */
        int refused;  /* this one is; NONE: none is */
        int given;    /* the id that Hugging Face gives it, likewise */
    } cases[] = {
        {{"<x>", "<y>"}, {0, 1}, NONE, 0}, {{"<x>", "<y>"}, {1, 0}, NONE, 0}, /* in any order */
        {{"<x>", "<y>"}, {0, 5}, 1, 1},    {{"<x>", "<y>"}, {3, 4}, 0, 0},
        {{"<x>", "<y>"}, {0, 0}, 1, 1},    {{"<x>", "<x>"}, {0, 1}, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = fixture("gpt2_style.json"), *list = json_array();
        int size = (int)json_object_size(json_object_get(json_object_get(document, "model"), "vocab"));
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        char words[100];
        for (int k = 0; k < 2; k++)
            json_array_append_new(list, json_pack("{s:i, s:s}", "id", size + cases[i].after[k], "content",
                                                  cases[i].content[k]));
        json_object_set_new(document, "added_tokens", list);
        json_object_set_new(document, "post_processor", json_null());
        enum status status = open_document(document, &tokenizer, &err);
        if (cases[i].refused == NONE) {
            struct token_list ids = {0};
            if (status) fail_msg("%s", err.text);
            assert_int_equal(tokenizer_encode(tokenizer, "<y>", 3, &ids, &err), STATUS_OK);
            assert_int_equal(ids.count, 1);
            assert_int_equal(ids.ids[0], size + cases[i].after[1]);
            token_list_release(&ids);
            tokenizer_close(tokenizer);
            continue;
        }
        snprintf(words, sizeof words, "\"%s\" has the id %d, but Hugging Face's tokenizers gives it %d",
                 cases[i].content[cases[i].refused], size + cases[i].after[cases[i].refused],
                 size + cases[i].given);
        assert_int_equal(status, STATUS_CORRUPT);
        if (!strstr(err.text, words)) fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    }
}

TEST_CASE(wrong_merges_are_named)
{
    static const struct {
        const char *merges, *words;
    } cases[] = {
        {"null", "model.merges: is missing"},
        {"[5]", "model.merges: an entry is neither \"a b\" nor [\"a\", \"b\"]"},
        {"[[\"a\"]]", "model.merges: an entry is neither \"a b\" nor [\"a\", \"b\"]"},
        {"[[\"a\", 5]]", "model.merges: an entry is neither \"a b\" nor [\"a\", \"b\"]"},
        {"[\"ab\"]", "model.merges: an entry is neither \"a b\" nor [\"a\", \"b\"]"},
        {"[\"a b c\"]", "model.merges: an entry is neither \"a b\" nor [\"a\", \"b\"]"},
        {"[[\"a\",\"b\",\"c\"]]", "model.merges: an entry is neither \"a b\" nor [\"a\", \"b\"]"},
        {"[\"zzz qqq\"]", "model.merges: \"zzz\" is not in the vocabulary"},
        {"[\"! qqq\"]", "model.merges: \"qqq\" is not in the vocabulary"},
        {"[\"! Q\"]", "model.merges: \"!Q\" is not in the vocabulary"},
        {"[[\"\",\"a\"]]", "model.merges: \"\" is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = fixture("ours.json");
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        json_object_set_new(json_object_get(document, "model"), "merges", json(cases[i].merges));
        assert_int_equal(open_document(document, &tokenizer, &err), STATUS_CORRUPT);
        if (!strstr(err.text, cases[i].words)) fail_msg("%s: %s", cases[i].merges, err.text);
    }
}

TEST_CASE(what_is_absent_has_its_usual_meaning)
{
    json_t *document = fixture("ours.json"), *model = json_object_get(document, "model");
    struct tokenizer *ours = NULL, *bare = NULL;
    struct err err = {0};
    assert_ok(tokenizer_open_json(TOKENIZER_FIXTURES "ours.json", &ours, &err), &err);
    static const char *const keys[] = {"version",    "truncation",     "padding", "added_tokens",
                                       "normalizer", "post_processor", "decoder"};
    json_object_del(json_object_get(document, "pre_tokenizer"), "use_regex"); /* true */
    json_object_del(model, "type");
    json_object_del(model, "ignore_merges");
    json_object_del(model, "dropout");
    for (int null = 1; null >= 0; null--) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            null ? json_object_set_new(document, keys[i], json_null()) : json_object_del(document, keys[i]);
        assert_ok(open_document(json_incref(document), &bare, &err), &err);
        assert_int_equal(tokenizer_checksum(bare), tokenizer_checksum(ours));
        tokenizer_close(bare);
    }
    json_decref(document);
    tokenizer_close(ours);
}

TEST_CASE(merges_may_be_written_either_way)
{
    json_t *document = fixture("ours.json"),
           *merges = json_object_get(json_object_get(document, "model"), "merges"), *pair;
    struct tokenizer *ours = NULL, *legacy = NULL;
    struct err err = {0};
    size_t index;
    json_array_foreach(merges, index, pair) {
        char joined[256];
        snprintf(joined, sizeof joined, "%s %s", json_string_value(json_array_get(pair, 0)),
                 json_string_value(json_array_get(pair, 1)));
        json_array_set_new(merges, index, json_string(joined));
    }
    assert_true(json_array_size(merges) == 144);
    assert_ok(open_document(document, &legacy, &err), &err);
    assert_ok(tokenizer_open_json(TOKENIZER_FIXTURES "ours.json", &ours, &err), &err);
    assert_int_equal(tokenizer_checksum(legacy), tokenizer_checksum(ours));
    tokenizer_close(legacy);
    tokenizer_close(ours);
}

/* Whether a token of `text` under a Split on the literal `pattern` ends at byte `at`. */
static bool cuts_at(const char *pattern, const char *text, size_t at)
{
    json_t *document = fixture("ours.json");
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    struct err err = {0};
    json_object_set_new(document, "pre_tokenizer",
                        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b}]}", "type", "Sequence",
                                  "pretokenizers", "type", "Split", "pattern", "String", pattern, "behavior",
                                  "Isolated", "type", "ByteLevel", "use_regex", 0));
    assert_ok(open_document(document, &tokenizer, &err), &err);
    assert_ok(tokenizer_encode(tokenizer, text, strlen(text), &list, &err), &err);
    size_t end = 0, n;
    for (size_t i = 0; i < list.count && end < at; i++, end += n)
        tokenizer_token_bytes(tokenizer, list.ids[i], &n);
    token_list_release(&list);
    tokenizer_close(tokenizer);
    return end == at;
}

TEST_CASE(a_literal_split_pattern_means_itself)
{
    assert_false(cuts_at("zz", "and the th.e", 9)); /* " th" is one token */
    assert_true(cuts_at("h.", "and the th.e", 9));
    assert_false(cuts_at("h.", "and the thxe", 9)); /* the dot is a dot */
    assert_true(cuts_at("(h|", "and the t(h|e", 9));
    assert_true(cuts_at("h\\E", "and the th\\E", 9));
}

TEST_CASE(a_file_cut_anywhere_is_refused)
{
    size_t n;
    char *text = scratch_read(TOKENIZER_FIXTURES "llama_style.json", &n);
    while (text[n - 1] != '}') n--;
    for (size_t cut = 0; cut < n; cut += cut < 300 ? 1 : 61) {
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        char *copy = malloc(cut ? cut : 1); /* exactly as long, so that a sanitizer sees reads beyond */
        assert_non_null(copy);
        memcpy(copy, text, cut);
        assert_int_equal(tokenizer_parse_json(copy, cut, "cut.json", &tokenizer, &err), STATUS_CORRUPT);
        assert_non_null(strstr(err.text, "cut.json"));
        free(copy);
    }
    free(text);
}

/* Replaces, removes or doubles a part of a document somewhere. */
static void damage(json_t *value, uint64_t *seed, int depth)
{
    static const char *const junk[] = {"null",
                                       "true",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "-1",
                                       "1e308",
                                       "9223372036854775807",
                                       "\"\\ud83d\\ude00\"",
                                       "[[[]]]",
                                       "\" \"",
                                       "4294967295"};
    size_t size = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    if (!size || depth > 5) return;
    size_t at = noise_next(seed) % size;
    int act = (int)(noise_next(seed) % 4);
    json_t *replacement = json(junk[noise_next(seed) % (sizeof junk / sizeof *junk)]);
    if (json_is_object(value)) {
        void *entry = json_object_iter(value);
        while (at--) entry = json_object_iter_next(value, entry);
        char key[512];
        snprintf(key, sizeof key, "%s", json_object_iter_key(entry));
        json_t *inside = json_object_get(value, key);
        if (act == 0)
            json_object_set(value, key, replacement);
        else if (act == 1 && depth)
            json_object_del(value, key);
        else
            damage(inside, seed, depth + 1);
    } else {
        if (act == 0)
            json_array_set(value, at, replacement);
        else if (act == 1)
            json_array_remove(value, at);
        else
            damage(json_array_get(value, at), seed, depth + 1);
    }
    json_decref(replacement);
}

TEST_CASE(damaged_files_are_read_or_refused_and_never_lose_bytes)
{
    static const char *const names[] = {"llama_style.json", "digits_style.json", "gpt2_style.json"};
    int opened = 0, refused = 0;
    char text[200];
    for (uint64_t round = 0; round < 600; round++) {
        uint64_t seed = round * 2654435761u + 1;
        json_t *document = fixture(names[round % 3]);
        for (uint64_t times = noise_next(&seed) % 4 + 1; times; times--) damage(document, &seed, 0);
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        if (open_document(document, &tokenizer, &err)) {
            refused++;
            assert_true(strlen(err.text) > 10);
            continue;
        }
        opened++;
        size_t n = noise_fill(round, text, sizeof text);
        assert_round_trip(tokenizer, text, n);
        tokenizer_close(tokenizer);
    }
    assert_true(opened > 50 && refused > 50);
}

/* Their texts need not come back: they have normalizers, and characters without a token. */
TEST_CASE(damaged_sentencepiece_files_are_read_or_refused)
{
    static const char *const names[] = {"llama2_style.json",  "mistral_style.json", "inner_style.json",
                                        "unknown_style.json", "partial_style.json", "flags_style.json"};
    int opened = 0, refused = 0;
    char text[200];
    for (uint64_t round = 0; round < 900; round++) {
        uint64_t seed = round * 2654435761u + 1;
        json_t *document = fixture(names[round % 6]);
        for (uint64_t times = noise_next(&seed) % 4 + 1; times; times--) damage(document, &seed, 0);
        struct tokenizer *tokenizer = NULL;
        struct token_list list = {0};
        struct err err = {0};
        if (open_document(document, &tokenizer, &err)) {
            refused++;
            assert_true(strlen(err.text) > 10);
            continue;
        }
        opened++;
        size_t n = noise_fill(round, text, sizeof text), back;
        assert_ok(tokenizer_encode_prompt(tokenizer, text, n, &list, &err), &err);
        for (size_t i = 0; i < list.count; i++)
            assert_true(list.ids[i] < (uint32_t)tokenizer_vocab_size(tokenizer));
        char *decoded = tokenizer_decode(tokenizer, list.ids, list.count, &back);
        assert_non_null(decoded);
        free(decoded);
        token_list_release(&list);
        tokenizer_close(tokenizer);
    }
    assert_true(opened > 50 && refused > 50);
}

TEST_CASE(flipped_bytes_do_no_harm)
{
    size_t n;
    char *text = scratch_read(TOKENIZER_FIXTURES "qwen_style.json", &n);
    uint64_t seed = 11;
    for (int round = 0; round < 400; round++) {
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, text, n);
        for (int flips = 0; flips < 3; flips++) copy[noise_next(&seed) % n] = (char)noise_next(&seed);
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        if (tokenizer_parse_json(copy, n, "flipped.json", &tokenizer, &err) == STATUS_OK) {
            struct token_list list = {0};
            assert_ok(tokenizer_encode(tokenizer, text, 300, &list, &err), &err);
            token_list_release(&list);
            tokenizer_close(tokenizer);
        }
        free(copy);
    }
    free(text);
}

TEST_CASE(deep_nesting_and_other_kinds_of_file_are_refused)
{
    size_t n = 1 << 20;
    char *deep = malloc(n);
    assert_non_null(deep);
    memset(deep, '[', n);
    struct tokenizer *tokenizer = NULL;
    struct err err = {0};
    assert_int_equal(tokenizer_parse_json(deep, n, "deep.json", &tokenizer, &err), STATUS_CORRUPT);
    free(deep);
    assert_int_equal(tokenizer_parse_json("", 0, "empty.json", &tokenizer, &err), STATUS_CORRUPT);
    assert_int_equal(tokenizer_parse_json("[]", 2, "list.json", &tokenizer, &err), STATUS_CORRUPT);
    assert_int_equal(tokenizer_parse_json("{}", 2, "bare.json", &tokenizer, &err), STATUS_CORRUPT);
    assert_int_equal(tokenizer_open_json(scratch_path("none.json"), &tokenizer, &err), STATUS_NOT_FOUND);
    assert_int_equal(tokenizer_open("bpe:12", &tokenizer, &err), STATUS_USAGE);
    assert_int_equal(tokenizer_open("byte", &tokenizer, &err), STATUS_USAGE);
    assert_int_equal(tokenizer_open("no/such.json", &tokenizer, &err), STATUS_NOT_FOUND);
    assert_int_equal(tokenizer_open("nosuch.json", &tokenizer, &err), STATUS_NOT_FOUND);
    assert_null(tokenizer);
}

TEST_MAIN()
