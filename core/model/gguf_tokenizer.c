/* See gguf_tokenizer.h. The vocabulary is written as tokenizer.json spells it. llama.cpp has no general split
 * patterns: it knows a number of them by name. */
#include "core/model/gguf_tokenizer.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/half.h"
#include "core/model/generation_config.h"
#include "datasets/bpe.h"
#include "datasets/json_file.h"

/* llama.cpp's numbers for the kinds of tokens. */
enum token_kind {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE
};

/* ---- how text is split and merged ---- */

/* How text is split before merges. */
static const struct splitting {
    const char *name; /* llama.cpp's */
    const char *patterns[2];
    bool ignore_merges;
} splittings[] = {
    {"gpt-2", {PRETOKENIZER_GPT2}, false},
    {"llama-bpe", {PRETOKENIZER_LLAMA3}, true},
    {"qwen2", {PRETOKENIZER_QWEN}, false},
    {"smollm", {"\\p{N}", PRETOKENIZER_GPT2}, false},
};

static const char *find_splitting(const struct bpe *bpe)
{
    for (size_t i = 0; i < sizeof splittings / sizeof *splittings; i++) {
        const struct splitting *s = &splittings[i];
        size_t count = s->patterns[1] ? 2 : 1;
        bool same = count == bpe->pattern_count && s->ignore_merges == bpe->ignore_merges;
        for (size_t p = 0; same && p < count; p++) same = strcmp(s->patterns[p], bpe->patterns[p]) == 0;
        if (same) return s->name;
    }
    return bpe->merge_count ? NULL : "default"; /* without merges it makes no difference */
}

/* Whether a SentencePiece-like tokenizer puts a space before a text. */
static bool adds_space(const struct bpe *bpe)
{
    return bpe->spaces.prefix || (bpe->normalizer.count && bpe->normalizer.steps[0].kind == NORMAL_PREPEND);
}

/* "default" for a SentencePiece-like tokenizer as llama.cpp has it: all bytes have tokens, spaces become
 * SENTENCEPIECE_SPACE, maybe with one before the text, and nothing else changes; else NULL. */
static const char *find_spaces(const struct bpe *bpe)
{
    static const char space[] = SENTENCEPIECE_SPACE;
    const struct normalizer *n = &bpe->normalizer;
    bool replaced = bpe->spaces.space && strcmp(bpe->spaces.space, space) == 0, known = !bpe->pattern_count;
    for (size_t i = 0; i < n->count; i++) {
        const struct normal_step *step = &n->steps[i];
        bool first = step->kind == NORMAL_PREPEND && i == 0;
        bool replaces = step->kind == NORMAL_REPLACE && strcmp(step->from, " ") == 0;
        known = known && (first || replaces) && strcmp(step->to, space) == 0;
        replaced = replaced || replaces;
    }
    for (int b = 0; b < 256; b++) known = known && bpe->fallback_id[b] != BPE_NO_ID;
    return known && replaced && !bpe->ignore_merges ? "default" : NULL;
}

/* ---- special tokens ---- */

/* GGUF has no list of end tokens, but names for three: of a text, a turn and a message. The token that
 * llama.cpp puts before a text is that of the tokenizer, whatever config.json names. */
static void put_special_tokens(struct gguf_metadata *m, const struct special_tokens *tokens,
                               const struct bpe *bpe)
{
    int64_t bos = bpe->before.count ? bpe->before.ids[0] : tokens->bos;
    int64_t eos = tokens->eos_count ? tokens->eos[0] : -1;
    if (eos < 0 && bpe->after.count) eos = bpe->after.ids[0];
    if (bos >= 0) gguf_put_u32(m, "tokenizer.ggml.bos_token_id", bos);
    if (eos >= 0) gguf_put_u32(m, "tokenizer.ggml.eos_token_id", eos);
    if (tokens->pad >= 0) gguf_put_u32(m, "tokenizer.ggml.padding_token_id", tokens->pad);
    if (tokens->eos_count > 1) gguf_put_u32(m, "tokenizer.ggml.eot_token_id", tokens->eos[1]);
    if (tokens->eos_count > 2) gguf_put_u32(m, "tokenizer.ggml.eom_token_id", tokens->eos[2]);
    gguf_put_bool(m, "tokenizer.ggml.add_bos_token", bpe->before.count > 0);
    gguf_put_bool(m, "tokenizer.ggml.add_eos_token", bpe->after.count > 0);
}

/* ---- the vocabulary ---- */

struct vocabulary {
    struct entry {
        const char *text; /* borrowed from the JSON; NULL: the id is unused */
        int type;
    } * entries;
    size_t count; /* rows of the embedding */
};

/* Stores the text of a token. tokenizer_parse_json has checked that ids are whole numbers. */
static enum status set_entry(struct vocabulary *v, const json_t *id, const char *text, int type,
                             struct err *err)
{
    size_t at = (size_t)json_integer_value(id);
    if (at >= v->count)
        return err_set(err, STATUS_USAGE,
                       "tokenizer.json: token %zu (\"%.40s\") is outside the model's vocabulary of %zu", at,
                       text, v->count);
    v->entries[at] = (struct entry){text, type};
    return STATUS_OK;
}

static enum status read_vocabulary(struct vocabulary *v, json_t *json, struct err *err)
{
    json_t *vocab = json_object_get(json_object_get(json, "model"), "vocab"), *id, *token;
    const char *text;
    size_t index;
    enum status status = STATUS_OK;
    json_object_foreach(vocab, text, id)
        if ((status = set_entry(v, id, text, TOKEN_NORMAL, err))) return status;
    json_array_foreach(json_object_get(json, "added_tokens"), index, token) {
        bool special = json_is_true(json_object_get(token, "special"));
        status =
            set_entry(v, json_object_get(token, "id"), json_string_value(json_object_get(token, "content")),
                      special ? TOKEN_CONTROL : TOKEN_USER_DEFINED, err);
        if (status) return status;
    }
    return STATUS_OK;
}

static void put_vocabulary(struct gguf_metadata *m, const struct vocabulary *v)
{
    char unused[32];
    gguf_put_list(m, "tokenizer.ggml.tokens", GGUF_VALUE_TEXT, v->count);
    for (size_t i = 0; i < v->count; i++) {
        const char *text = v->entries[i].text;
        snprintf(unused, sizeof unused, "[PAD%zu]", i);
        gguf_string(m->stream, text ? text : unused, strlen(text ? text : unused));
    }
    gguf_put_list(m, "tokenizer.ggml.token_type", GGUF_VALUE_I32, v->count);
    for (size_t i = 0; i < v->count; i++)
        gguf_u32(m->stream, (uint32_t)(v->entries[i].text ? v->entries[i].type : TOKEN_UNUSED));
}

/* Merges are "a b", or ["a", "b"]; llama.cpp reads "a b". */
static void put_merges(struct gguf_metadata *m, const json_t *json)
{
    const json_t *merges = json_object_get(json_object_get(json, "model"), "merges"), *merge;
    size_t index;
    gguf_put_list(m, "tokenizer.ggml.merges", GGUF_VALUE_TEXT, json_array_size(merges));
    json_array_foreach(merges, index, merge) {
        const json_t *left = json_is_string(merge) ? merge : json_array_get(merge, 0);
        const json_t *right = json_array_get(merge, 1);
        size_t n = json_string_length(left) + (right ? 1 + json_string_length(right) : 0);
        gguf_u64(m->stream, n);
        fwrite(json_string_value(left), 1, json_string_length(left), m->stream);
        if (right) fprintf(m->stream, " %s", json_string_value(right));
    }
}

/* ---- all of it ---- */

/* Marks the tokens that stand for a byte, and the unknown token. */
static void mark_fallbacks(struct vocabulary *v, const struct bpe *bpe)
{
    for (int b = 0; b < 256; b++)
        if (bpe->fallback_id[b] < v->count) v->entries[bpe->fallback_id[b]].type = TOKEN_BYTE;
    if (bpe->unknown_id < v->count) v->entries[bpe->unknown_id].type = TOKEN_UNKNOWN;
}

/* SentencePiece merges the neighbours with the best score: a merge's score is its rank, negative. */
static enum status put_scores(struct gguf_metadata *m, const struct bpe *bpe, size_t count, struct err *err)
{
    float *scores = calloc(count, sizeof *scores);
    if (!scores) return err_no_memory(err, "the scores of %zu tokens", count);
    for (size_t i = bpe->merge_count; i-- > 0;) scores[bpe->merges[i].result] = -1 - (float)i;
    gguf_put_list(m, "tokenizer.ggml.scores", GGUF_VALUE_F32, count);
    for (size_t i = 0; i < count; i++) gguf_u32(m->stream, float_bits(scores[i]));
    free(scores);
    return STATUS_OK;
}

static enum status put_bpe(struct gguf_metadata *m, const struct bpe *bpe, json_t *json,
                           const struct special_tokens *tokens, int vocab_size, struct err *err)
{
    struct vocabulary v = {.count = (size_t)vocab_size};
    const char *splitting = bpe->characters ? find_spaces(bpe) : find_splitting(bpe);
    if (!splitting)
        return err_set(
            err, STATUS_USAGE,
            "tokenizer.json: llama.cpp cannot split text in the way of this tokenizer, so it would choose "
            "other tokens (it knows the ways of GPT-2, Llama 2 and 3, Mistral, Qwen2 and SmolLM)");
    if (!(v.entries = calloc(v.count, sizeof *v.entries)))
        return err_no_memory(err, "a vocabulary of %zu", v.count);
    enum status status = read_vocabulary(&v, json, err);
    if (!status && bpe->characters) {
        mark_fallbacks(&v, bpe);
        gguf_put_bool(m, "tokenizer.ggml.add_space_prefix", adds_space(bpe));
        if (bpe->unknown_id < v.count) gguf_put_u32(m, "tokenizer.ggml.unknown_token_id", bpe->unknown_id);
        status = put_scores(m, bpe, v.count, err);
    } else if (!status) {
        put_merges(m, json);
    }
    if (!status) {
        gguf_put_text(m, "tokenizer.ggml.model", bpe->characters ? "llama" : "gpt2");
        gguf_put_text(m, "tokenizer.ggml.pre", splitting);
        put_vocabulary(m, &v);
        put_special_tokens(m, tokens, bpe);
    }
    free(v.entries);
    return status;
}

static enum status put_chat_template(struct gguf_metadata *m, const char *folder, struct err *err)
{
    char *text;
    enum status status = chat_template_read(folder, &text, err);
    if (!status && text) gguf_put_text(m, "tokenizer.chat_template", text);
    free(text);
    return status;
}

enum status gguf_put_tokenizer(struct gguf_metadata *m, const char *folder, int vocab_size, struct err *err)
{
    char path[PATH_MAX];
    struct tokenizer *tokenizer = NULL;
    json_t *json = NULL;
    struct special_tokens tokens;
    enum status status = file_format_path(path, sizeof path, err, "%s/tokenizer.json", folder);
    if (!status && !file_exists(path)) { /* "none" is llama.cpp's word for ids alone */
        gguf_put_text(m, "tokenizer.ggml.model", "none");
        return STATUS_OK;
    }
    if (!status) status = special_tokens_read(folder, &tokens, err);
    if (!status) status = tokenizer_open_json(path, &tokenizer, err);
    if (!status) status = json_file_read(path, 0, &json, err);
    if (!status) status = put_bpe(m, tokenizer_bpe(tokenizer), json, &tokens, vocab_size, err);
    if (!status) status = put_chat_template(m, folder, err);
    json_decref(json);
    tokenizer_close(tokenizer);
    return status;
}
