/* See tokenizer_json.h. */
#include "datasets/tokenizer_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/text.h"
#include "datasets/tokenizer_pipeline.h"

/* The bytes of a vocabulary token; a token that is not in the byte alphabet is literal. Without such an
 * alphabet it is read as it stands. */
static bool decode_token(struct reading *r, const char *text, size_t n, struct bpe_token *token)
{
    unsigned char *bytes = arena_alloc(&r->bpe.arena, n + 1);
    if (!bytes) return false;
    uint32_t count = 0;
    *token = (struct bpe_token){.bytes = (const char *)bytes};
    uint32_t point;
    if (r->bpe.characters) memcpy(bytes, text, count = (uint32_t)n);
    for (size_t at = count, length; at < n; at += length) {
        length = utf8_character(text + at, n - at, &point);
        if (!length || point >= BYTE_ALPHABET_END || r->alphabet.byte[point] < 0) {
            memcpy(bytes, text, n);
            count = (uint32_t)n;
            token->literal = true;
            break;
        }
        bytes[count++] = (unsigned char)r->alphabet.byte[point];
    }
    token->n = count;
    return true;
}

/* Reads one more id, and makes room for it in the vocabulary. */
static enum status read_id(struct reading *r, json_t *value, const char *field)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return reading_corrupt(r, field, "an id is not a whole number from 0");
    if (json_integer_value(value) >= BPE_VOCAB_MAX)
        return err_set(r->err, STATUS_FAILED, "%s: %s: the id %lld is too large (below %d is supported)",
                       r->name, field, (long long)json_integer_value(value), BPE_VOCAB_MAX);
    size_t id = (size_t)json_integer_value(value);
    if (id >= r->bpe.vocab_size) r->bpe.vocab_size = id + 1;
    return STATUS_OK;
}

static enum status read_vocab(struct reading *r, json_t *vocab, json_t *added)
{
    const char *text;
    json_t *value;
    size_t index;
    enum status status;
    if (!json_is_object(vocab) || !json_object_size(vocab))
        return reading_corrupt(r, "model.vocab", "is missing or empty");
    json_object_foreach(vocab, text, value)
        if ((status = read_id(r, value, "model.vocab"))) return status;
    json_array_foreach(added, index, value) {
        if ((status = read_id(r, json_object_get(value, "id"), "added_tokens"))) return status;
    }
    r->bpe.tokens = arena_alloc_array(&r->bpe.arena, r->bpe.vocab_size, sizeof *r->bpe.tokens);
    if (!r->bpe.tokens) return reading_no_memory(r);
    json_object_foreach(vocab, text, value) {
        struct bpe_token *token = &r->bpe.tokens[json_integer_value(value)];
        if (token->bytes)
            return err_set(r->err, STATUS_CORRUPT, "%s: model.vocab: two tokens have the id %lld", r->name,
                           (long long)json_integer_value(value));
        if (!*text) return reading_corrupt(r, "model.vocab", "a token is empty");
        if (!decode_token(r, text, strlen(text), token)) return reading_no_memory(r);
    }
    return STATUS_OK;
}

static enum status read_added_token(struct reading *r, json_t *entry, struct added_token *out)
{
    json_t *content = json_object_get(entry, "content");
    uint32_t id = (uint32_t)json_integer_value(json_object_get(entry, "id")); /* checked by read_vocab */
    size_t n = json_string_length(content);
    char *normal = NULL;
    if (!n) return reading_corrupt(r, "added_tokens", "an entry has no \"content\"");
    const char *text = arena_strdup(&r->bpe.arena, json_string_value(content));
    if (!text) return reading_no_memory(r);
    if (!r->bpe.tokens[id].bytes)
        r->bpe.tokens[id] = (struct bpe_token){.bytes = text, .n = (uint32_t)n, .literal = true};
    *out = (struct added_token){
        .id = id,
        /* Hugging Face's default for a token that is not special is true; files always spell it out. */
        .normalized = json_is_true(json_object_get(entry, "normalized")),
        .special = json_is_true(json_object_get(entry, "special")),
        .lstrip = json_is_true(json_object_get(entry, "lstrip")),
        .rstrip = json_is_true(json_object_get(entry, "rstrip")),
        .single_word = json_is_true(json_object_get(entry, "single_word")),
    };
    if (out->normalized) {
        size_t bytes;
        enum status status = normalizer_apply(&r->bpe.normalizer, text, n, &normal, &bytes, r->err);
        if (status) return status;
        if (normal) { /* not NUL-terminated */
            text = arena_printf(&r->bpe.arena, "%.*s", (int)bytes, normal);
            n = bytes;
        }
        free(normal);
        if (!text) return reading_no_memory(r);
    }
    if (!n) return reading_corrupt(r, "added_tokens", "the normalizer leaves nothing of an entry");
    out->content = text;
    out->n = n;
    return STATUS_OK;
}

static int compare_ids(const void *a, const void *b)
{
    json_int_t left = json_integer_value(json_object_get(*(json_t *const *)a, "id")),
               right = json_integer_value(json_object_get(*(json_t *const *)b, "id"));
    return (left > right) - (left < right);
}

/* Hugging Face's tokenizers does not take the ids of added tokens from the file. In the order of these ids, a
 * token of the vocabulary keeps its id there, and any other gets the next one behind the vocabulary and those
 * added before. With other ids in the file a model would be trained on other tokens than it is used with. */
static enum status check_added_ids(struct reading *r, json_t *vocab, json_t *list)
{
    size_t count = json_array_size(list);
    json_int_t size = (json_int_t)json_object_size(vocab), next = size;
    json_t **entries = arena_alloc_array(&r->scratch, count, sizeof *entries), *known = json_object();
    enum status status = entries && known ? STATUS_OK : reading_no_memory(r);
    for (size_t i = 0; !status && i < count; i++) entries[i] = json_array_get(list, i);
    if (!status) qsort(entries, count, sizeof *entries, compare_ids);
    for (size_t i = 0; !status && i < count; i++) {
        json_t *id = json_object_get(entries[i], "id");
        const char *content = json_string_value(json_object_get(entries[i], "content"));
        if (!content || !*content) break; /* read_added_token reports it */
        json_t *other = json_object_get(known, content);
        if (!other) other = json_object_get(vocab, content);
        json_int_t expected = other ? json_integer_value(other) : next;
        if (json_integer_value(id) != expected)
            status =
                err_set(r->err, STATUS_CORRUPT,
                        "%s: added_tokens: \"%.60s\" has the id %lld, but Hugging Face's tokenizers "
                        "gives it %lld (ids of added tokens leave no gaps: correct it, or add the tokens "
                        "between)",
                        r->name, CLEAN_LINE(content), (long long)json_integer_value(id), (long long)expected);
        else if (json_object_set(known, content, id))
            status = reading_no_memory(r);
        if (expected >= size) next = expected + 1;
    }
    json_decref(known);
    return status;
}

static enum status read_added(struct reading *r, json_t *vocab, json_t *list)
{
    size_t index;
    json_t *entry;
    enum status status = check_added_ids(r, vocab, list);
    if (status) return status;
    r->bpe.added = arena_alloc_array(&r->bpe.arena, json_array_size(list), sizeof *r->bpe.added);
    if (!r->bpe.added) return reading_no_memory(r);
    r->bpe.added_count = json_array_size(list);
    json_array_foreach(list, index, entry)
        if ((status = read_added_token(r, entry, &r->bpe.added[index]))) break;
    return status;
}

static enum status merge_part(struct reading *r, json_t *vocab, const char *text, uint32_t *out)
{
    json_t *id = json_object_get(vocab, text);
    if (!id)
        return err_set(r->err, STATUS_CORRUPT, "%s: model.merges: \"%.100s\" is not in the vocabulary",
                       r->name, text);
    *out = (uint32_t)json_integer_value(id);
    return STATUS_OK;
}

/* "a b", or ["a", "b"] */
static enum status read_merge(struct reading *r, json_t *vocab, json_t *entry, struct bpe_merge *merge)
{
    const char *left = json_string_value(json_array_get(entry, 0)),
               *right = json_string_value(json_array_get(entry, 1));
    enum status status;
    if (json_is_string(entry)) {
        char *pair = arena_strdup(&r->scratch, json_string_value(entry));
        if (!pair) return reading_no_memory(r);
        left = strsep(&pair, " ");
        right = pair;
    }
    if (!left || !right || json_array_size(entry) > 2 || (json_is_string(entry) && strchr(right, ' ')))
        return reading_corrupt(r, "model.merges", "an entry is neither \"a b\" nor [\"a\", \"b\"]");
    char *joined = arena_alloc(&r->scratch, strlen(left) + strlen(right) + 1);
    if (!joined) return reading_no_memory(r);
    stpcpy(stpcpy(joined, left), right);
    if ((status = merge_part(r, vocab, left, &merge->left)) ||
        (status = merge_part(r, vocab, right, &merge->right)))
        return status;
    return merge_part(r, vocab, joined, &merge->result);
}

static enum status read_merges(struct reading *r, json_t *vocab, json_t *list)
{
    size_t index;
    json_t *entry;
    enum status status = STATUS_OK;
    if (!json_is_array(list)) return reading_corrupt(r, "model.merges", "is missing");
    r->bpe.merges = arena_alloc_array(&r->bpe.arena, json_array_size(list), sizeof *r->bpe.merges);
    if (!r->bpe.merges) return reading_no_memory(r);
    r->bpe.merge_count = json_array_size(list);
    json_array_foreach(list, index, entry)
        if ((status = read_merge(r, vocab, entry, &r->bpe.merges[index]))) break;
    return status;
}

/* Reads how characters without a token are encoded. */
static void read_unknown(struct reading *r, json_t *model, json_t *vocab)
{
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    json_t *id = unknown ? json_object_get(vocab, unknown) : NULL;
    bool fallback = json_is_true(json_object_get(model, "byte_fallback"));
    r->bpe.unknown_id = id ? (uint32_t)json_integer_value(id) : BPE_NO_ID;
    r->bpe.fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        id = fallback ? json_object_get(vocab, name) : NULL;
        r->bpe.fallback_id[b] = id ? (uint32_t)json_integer_value(id) : BPE_NO_ID;
    }
}

static enum status read_model(struct reading *r, json_t *model, json_t *added)
{
    json_t *type = json_object_get(model, "type"), *dropout = json_object_get(model, "dropout");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    enum status status;
    if (!json_is_object(model)) return reading_corrupt(r, "model", "is missing");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return reading_unsupported(r, "model", reading_type(model));
    if (json_is_number(dropout) && json_number_value(dropout) != 0)
        return reading_unsupported(r, "model.dropout", "merging at random");
    for (size_t i = 0; i < 2; i++)
        if (json_string_length(json_object_get(model, affixes[i])))
            return reading_unsupported(r, "model", affixes[i]);
    if (added && !json_is_array(added) && !json_is_null(added))
        return reading_corrupt(r, "added_tokens", "is not a list");
    json_t *vocab = json_object_get(model, "vocab");
    if ((status = read_vocab(r, vocab, added)) || (status = read_added(r, vocab, added))) return status;
    read_unknown(r, model, vocab);
    r->bpe.ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    return read_merges(r, vocab, json_object_get(model, "merges"));
}

enum status tokenizer_json_read(const char *json, size_t n, const char *name, struct bpe *out,
                                struct err *err)
{
    struct reading r = {.name = name, .err = err};
    enum status status;
    json_error_t where;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return err_set(err, STATUS_CORRUPT, "%s: line %d column %d: %s (is this a tokenizer.json?)", name,
                       where.line, where.column, where.text);
    byte_alphabet_init(&r.alphabet);
    if (!json_is_object(root))
        status = reading_corrupt(&r, "the file", "is not a JSON object");
    else if (!(status = pipeline_read_splitting(&r, root)) &&
             !(status =
                   read_model(&r, json_object_get(root, "model"), json_object_get(root, "added_tokens"))) &&
             !(status = pipeline_read_decoder(&r, json_object_get(root, "decoder"))))
        status = pipeline_read_post_processor(&r, json_object_get(root, "post_processor"));
    arena_release(&r.scratch);
    json_decref(root);
    if (status)
        bpe_release(&r.bpe);
    else
        *out = r.bpe;
    return status;
}

/* ---- writing ---- */

/* The bytes of a token, written in the byte alphabet. */
static const char *spell(struct arena *arena, const struct byte_alphabet *alphabet,
                         const struct bpe_token *token)
{
    char *text = arena_alloc(arena, 2 * (size_t)token->n + 1), *to = text;
    for (uint32_t i = 0; text && i < token->n; i++) {
        unsigned point = alphabet->character[(unsigned char)token->bytes[i]];
        if (point >= 0x80) *to++ = (char)(0xC0 | point >> 6);
        *to++ = (char)(point >= 0x80 ? 0x80 | (point & 0x3F) : point);
    }
    return text;
}

static json_t *model_of(const struct bpe *bpe)
{
    struct byte_alphabet alphabet;
    struct arena arena = {0};
    json_t *vocab = json_object(), *merges = json_array();
    byte_alphabet_init(&alphabet);
    const char **spelled = arena_alloc_array(&arena, bpe->vocab_size, sizeof *spelled);
    bool ok = spelled && vocab && merges;
    for (size_t id = 0; ok && id < bpe->vocab_size - bpe->added_count; id++)
        ok = (spelled[id] = spell(&arena, &alphabet, &bpe->tokens[id])) &&
             json_object_set_new(vocab, spelled[id], json_integer((json_int_t)id)) == 0;
    for (size_t i = 0; ok && i < bpe->merge_count; i++)
        ok = json_array_append_new(merges, json_pack("[s, s]", spelled[bpe->merges[i].left],
                                                     spelled[bpe->merges[i].right])) == 0;
    arena_release(&arena);
    json_t *model =
        !ok ? NULL
            : json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout",
                        "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                        "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
    json_decref(vocab);
    json_decref(merges);
    return model;
}

/* A learned one has its added tokens at the end of the vocabulary. */
static json_t *added_of(const struct bpe *bpe)
{
    json_t *list = json_array();
    bool ok = list;
    for (size_t i = 0; ok && i < bpe->added_count; i++) {
        const struct added_token *t = &bpe->added[i];
        ok = json_array_append_new(list,
                                   json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)t->id,
                                             "content", t->content, t->n, "single_word", t->single_word,
                                             "lstrip", t->lstrip, "rstrip", t->rstrip, "normalized",
                                             t->normalized, "special", t->special)) == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

enum status tokenizer_json_write(const struct bpe *bpe, char **out, struct err *err)
{
    json_t *model = model_of(bpe), *added = added_of(bpe), *root = NULL;
    if (model && added)
        root =
            json_pack("{s:s, s:n, s:n, s:O, s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, s:O}",
                      "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
                      "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                      "use_regex", bpe->pattern_count > 0, "post_processor", "decoder", "type", "ByteLevel",
                      "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", model);
    *out = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(model);
    json_decref(added);
    json_decref(root);
    return *out ? STATUS_OK : err_no_memory(err, "writing the tokenizer");
}
