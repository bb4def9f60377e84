/* See corpus.h. */
#include "datasets/corpus.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/text.h"
#include "datasets/examples.h"
#include "datasets/inputs.h"
#include "datasets/preparation.h"

/* For a mark: the part of a file that is read. */
enum { WHOLE = 16 << 20, PIECE = 64 << 10, PIECES = 256, PIECES_LEAST = 4 };

/* ---- opening ---- */

/* Files without a sidecar are accepted: the user knows which tokenizer wrote them. */
static enum status check_tokenizers(struct corpus *corpus, struct err *err)
{
    const struct token_file *known = NULL;
    for (size_t i = 0; i < corpus->file_count; i++) {
        const struct token_file *file = &corpus->files[i];
        if (!file->tokenizer_checksum) continue;
        if (!known) {
            known = file;
            corpus->described = i;
        } else if (file->tokenizer_checksum != known->tokenizer_checksum) {
            return err_set(
                err, STATUS_USAGE,
                "%.150s: was prepared with another tokenizer (%.50s) than %.150s (%.50s): one of the "
                "two must be prepared again",
                file->path, file->tokenizer, known->path, known->tokenizer);
        }
    }
    return STATUS_OK;
}

static enum status open_files(char *const *paths, size_t count, struct corpus *corpus, struct err *err)
{
    enum status status = STATUS_OK;
    corpus->files = calloc(count, sizeof *corpus->files);
    if (!corpus->files) return err_no_memory(err, "%zu token files", count);
    while (corpus->file_count < count) {
        struct token_file *file = &corpus->files[corpus->file_count];
        if ((status = token_file_open(paths[corpus->file_count], file, err))) return status;
        corpus->file_count++;
        if ((status = token_file_measure(file, err))) return status;
        corpus->tokens += file->count;
        if (file->bound > INT32_MAX)
            return err_set(err, STATUS_CORRUPT, "%s: has the id %" PRIu64 ", too large for any vocabulary",
                           file->path, file->bound - 1);
        if (file->bound > corpus->vocab_size) corpus->vocab_size = (uint32_t)file->bound;
    }
    return check_tokenizers(corpus, err);
}

/* Finds the tokenizer that the sidecar names; it is no error if there is none. */
static enum status find_tokenizer(struct corpus *corpus, struct err *err)
{
    const struct token_file *file = &corpus->files[corpus->described];
    char *path = corpus->tokenizer_word;
    const char *slash = strrchr(file->path, '/'), *names[] = {file->tokenizer_file, file->tokenizer};
    int folder = slash ? (int)(slash - file->path) + 1 : 0;
    if (strcmp(file->tokenizer, "bytes") == 0) {
        strcpy(path, "bytes");
        return tokenizer_open_bytes(&corpus->tokenizer, err);
    }
    for (int i = 0; i < 2; i++) {
        if (!*names[i] || strncmp(names[i], "bpe:", 4) == 0) continue;
        if (snprintf(path, sizeof corpus->tokenizer_word, "%.*s%s", *names[i] == '/' ? 0 : folder, file->path,
                     names[i]) >= (int)sizeof corpus->tokenizer_word ||
            !file_exists(path))
            continue;
        enum status status = tokenizer_open_json(path, &corpus->tokenizer, err);
        if (status) return status;
        if (!file->tokenizer_checksum || tokenizer_checksum(corpus->tokenizer) == file->tokenizer_checksum)
            return STATUS_OK;
        tokenizer_close(corpus->tokenizer);
        corpus->tokenizer = NULL;
    }
    *path = '\0';
    return STATUS_OK;
}

static uint64_t checksum_of_tokenizer(const struct corpus *corpus)
{
    return corpus->tokenizer ? tokenizer_checksum(corpus->tokenizer)
                             : corpus->files[corpus->described].tokenizer_checksum;
}

/* The tokenizer that the user names: it must be the files' own, or becomes theirs if that is unknown. If it
 * is then of a kind that anneal does not read, the files have none: ids are enough to train and evaluate. */
static enum status settle_tokenizer(struct corpus *corpus, const char *word, struct err *err)
{
    struct tokenizer *asked = NULL;
    struct err problem = {0};
    uint64_t own = checksum_of_tokenizer(corpus);
    enum status status = *word ? preparation_open_tokenizer(word, &asked, &problem) : STATUS_OK;
    if (status == STATUS_FAILED && !own) return STATUS_OK;
    if (status) return err_set(err, status, "%s", problem.text);
    if (!asked) return STATUS_OK;
    if (own && tokenizer_checksum(asked) != own) {
        const struct token_file *file = &corpus->files[corpus->described];
        status = err_set(
            err, STATUS_USAGE,
            "%s: was prepared with another tokenizer (%s, %u tokens) than %s (%d tokens); name its own or "
            "prepare it again",
            file->path, file->tokenizer, file->vocab_size, word, tokenizer_vocab_size(asked));
    } else if (!corpus->tokenizer) {
        corpus->tokenizer = asked;
        return file_format_path(corpus->tokenizer_word, sizeof corpus->tokenizer_word, err, "%s", word);
    }
    tokenizer_close(asked);
    return status;
}

/* The vocabulary's size, by the tokenizer or a sidecar; 0: unknown. */
static uint32_t said_vocabulary(const struct corpus *corpus)
{
    return corpus->tokenizer ? (uint32_t)tokenizer_vocab_size(corpus->tokenizer)
                             : corpus->files[corpus->described].vocab_size;
}

static enum status check_ids(struct corpus *corpus, struct err *err)
{
    struct corpus_place place;
    uint32_t said = said_vocabulary(corpus);
    if (!said) return STATUS_OK;
    corpus->vocab_size = said;
    if (!corpus_find_id(corpus, said, &place)) return STATUS_OK;
    return err_set(err, STATUS_CORRUPT,
                   "%s: token %" PRIu64
                   " has the id %u, but the vocabulary has %u (prepare it again with this tokenizer)",
                   place.path, place.index, place.id, said);
}

static enum status open_tokens(char *const *paths, size_t count, const char *word, struct corpus *out,
                               struct err *err)
{
    struct corpus corpus = {0};
    enum status status = open_files(paths, count, &corpus, err);
    if (!status) status = find_tokenizer(&corpus, err);
    if (!status) status = settle_tokenizer(&corpus, word, err);
    if (!status) status = check_ids(&corpus, err);
    if (status)
        corpus_close(&corpus);
    else
        *out = corpus;
    return status;
}

/* Opens the runs in a folder of the cache. */
static enum status open_runs(const char *folder, struct corpus *corpus, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/runs.tok", folder);
    corpus->runs = calloc(1, sizeof *corpus->runs);
    if (!corpus->runs) return err_no_memory(err, "the examples");
    enum status status = token_file_open(path, corpus->runs, err);
    if (!status) status = token_file_measure(corpus->runs, err);
    return status ? status : examples_check(corpus, err);
}

/* Opens a folder of the cache. */
static enum status open_folder(const char *folder, bool conversations, struct corpus *out, struct err *err)
{
    char path[PATH_MAX + 16], *paths[] = {path};
    snprintf(path, sizeof path, "%s/corpus.tok", folder);
    enum status status = open_tokens(paths, 1, "", out, err);
    if (status) return status;
    if (!out->tokenizer)
        status = err_set(err, STATUS_CORRUPT, "%s: its tokenizer.json is missing", path);
    else if (conversations)
        status = open_runs(folder, out, err);
    if (status) corpus_close(out);
    return status;
}

static bool is_good_folder(const char *folder, bool conversations)
{
    struct corpus corpus;
    bool good = open_folder(folder, conversations, &corpus, NULL) == STATUS_OK;
    if (good) corpus_close(&corpus);
    return good;
}

/* Prepares the texts again if the folder is missing or damaged. */
static enum status open_text(const struct inputs *texts, const char *word, const struct text_reading *reading,
                             const char *cache, const struct progress *progress, struct corpus *out,
                             struct err *err)
{
    const struct chat_format *format = reading->conversations;
    struct tokenizer *opened = NULL;
    char folder[PATH_MAX];
    enum status status = preparation_open_tokenizer(word, &opened, err);
    struct preparation preparation = {texts, word, opened, reading, progress};
    if (!status) inputs_note(texts, progress);
    if (!status) status = corpus_cache_find(&preparation, cache, folder, err);
    if (!status && open_folder(folder, format, out, NULL)) {
        status = corpus_cache_make(&preparation, folder, is_good_folder, err);
        if (!status) status = open_folder(folder, format, out, err);
    }
    if (!status) out->learned = tokenizer_learned_size(word) > 0;
    tokenizer_close(opened);
    return status;
}

/* ---- sources ---- */

/* Puts a file in the place of each source of the only one, a .tok file, all in its mapping. */
static enum status divide_file(struct corpus *corpus, size_t count, struct err *err)
{
    struct token_file whole = corpus->files[0], *files = calloc(count, sizeof *files);
    uint64_t before = 0;
    if (whole.source_count != count) {
        free(files);
        return err_set(
            err, STATUS_CORRUPT,
            "%s: its sidecar does not name the tokens of %zu sources (remove its folder to prepare it "
            "again)",
            whole.path, count);
    }
    bool ok = files;
    for (size_t i = 0; ok && i < count; i++) {
        files[i] = whole;
        files[i].sources = NULL;
        files[i].source_count = 0;
        files[i].count = whole.sources[i];
        files[i].tokens += before;
        before += whole.sources[i];
        if (i) files[i].map = (struct file_map){0};
        if (i) ok = (files[i].path = strdup(whole.path)) != NULL;
    }
    if (!ok) {
        for (size_t i = 1; files && i < count; i++) free(files[i].path);
        free(files);
        return err_no_memory(err, "%zu sources", count);
    }
    free(whole.sources);
    free(corpus->files);
    corpus->files = files;
    corpus->file_count = count;
    return STATUS_OK;
}

static enum status take_sources(struct corpus *corpus, const struct inputs *inputs, struct err *err)
{
    size_t count = inputs->source_count;
    double sum = 0;
    if (!count) return STATUS_OK;
    corpus->sources = calloc(count, sizeof *corpus->sources);
    if (!corpus->sources) return err_no_memory(err, "%zu sources", count);
    for (size_t i = 0; i < count; i++) sum += inputs->sources[i].weight;
    for (size_t i = 0; i < count; i++) {
        const struct input_source *from = &inputs->sources[i];
        struct corpus_source *to = &corpus->sources[i];
        double share = round(from->weight / sum * 1e9) / 1e9; /* 7 : 3 is 0.7 : 0.3, to the bit */
        *to = (struct corpus_source){.weight = share, .first = i, .count = 1};
        if (inputs->tokens) to->first = from->first, to->count = from->count;
        memcpy(to->name, from->name, sizeof to->name);
    }
    corpus->source_count = count;
    return inputs->tokens ? STATUS_OK : divide_file(corpus, count, err);
}

struct corpus corpus_of_source(const struct corpus *corpus, size_t i)
{
    struct corpus part = *corpus;
    part.validation = NULL;
    part.sources = NULL;
    part.source_count = 0;
    if (!corpus->source_count) return part;
    part.files += corpus->sources[i].first;
    part.file_count = corpus->sources[i].count;
    part.described = 0;
    part.tokens = 0;
    for (size_t f = 0; f < part.file_count; f++) part.tokens += part.files[f].count;
    return part;
}

/* ---- all of it ---- */

enum status corpus_open(const char *train, const char *tokenizer, const struct text_reading *reading,
                        const char *cache, const struct progress *progress, struct corpus *out,
                        struct err *err)
{
    static const struct text_reading usual;
    struct inputs inputs = {0};
    if (!reading) reading = &usual;
    const struct chat_format *format = reading->conversations;
    if (!*train)
        return err_set(err, STATUS_USAGE, "data.train is empty: name %s",
                       format ? "a file of JSONL, or a folder"
                              : "a .tok file, a text file, a folder or a recipe");
    if (format && tokenizer_learned_size(tokenizer))
        return err_set(err, STATUS_USAGE,
                       "data.tokenizer = %s: conversations need the tokenizer of the model that their chat "
                       "template belongs to (name its tokenizer.json)",
                       tokenizer);
    enum status status = inputs_open(train, cache, progress, &inputs, err);
    if (!status && format) status = inputs_refuse_weights(&inputs, "data.format = instructions", err);
    if (!status && inputs.tokens && format)
        status = err_set(err, STATUS_USAGE,
                         "%.200s: is a token file, and instruction tuning needs conversations as JSONL",
                         inputs.paths[0]);
    if (!status && !inputs.tokens && !cache)
        status = err_set(err, STATUS_USAGE,
                         "%.200s: is text, which needs a tokenizer (name token files, which "
                         "end with .tok or .bin; `%s data prepare` makes one of a text)",
                         train, TEXT_PROGRAM);
    if (!status)
        status = inputs.tokens ? open_tokens(inputs.paths, inputs.count, tokenizer, out, err)
                               : open_text(&inputs, tokenizer, reading, cache, progress, out, err);
    if (!status && (status = take_sources(out, &inputs, err))) corpus_close(out);
    inputs_close(&inputs);
    return status;
}

/* ---- the vocabulary ---- */

static int64_t size_of_tokenizer(const char *word)
{
    struct tokenizer *tokenizer;
    int64_t size = tokenizer_learned_size(word);
    if (size || tokenizer_open(word, &tokenizer, NULL)) return size;
    size = tokenizer_vocab_size(tokenizer);
    tokenizer_close(tokenizer);
    return size;
}

/* The vocabulary size of the first file whose sidecar has one. */
static int64_t size_in_sidecars(const struct inputs *inputs)
{
    uint32_t size = 0;
    for (size_t i = 0; i < inputs->count && !size; i++) {
        struct token_file file;
        if (token_file_open(inputs->paths[i], &file, NULL)) continue;
        size = file.vocab_size;
        token_file_close(&file);
    }
    return size;
}

int64_t corpus_vocabulary(const char *train, const char *tokenizer)
{
    struct inputs inputs = {0};
    int64_t size = 0;
    bool tokens = inputs_peek(train, &inputs, NULL) == STATUS_OK && inputs.tokens;
    if (tokens) size = size_in_sidecars(&inputs);
    if (!size && !(tokens && tokenizer_learned_size(tokenizer))) size = size_of_tokenizer(tokenizer);
    inputs_close(&inputs);
    return size;
}

enum status corpus_open_validation(struct corpus *corpus, const char *word,
                                   const struct text_reading *reading, const char *cache,
                                   const struct progress *progress, struct err *err)
{
    struct corpus *other = calloc(1, sizeof *other);
    struct corpus_place place;
    if (!other) return err_no_memory(err, "the validation data");
    const char *tokenizer = corpus->tokenizer_word;
    enum status status =
        corpus_open(word, tokenizer, reading, *tokenizer ? cache : NULL, progress, other, err);
    uint64_t trained = checksum_of_tokenizer(corpus), own = status ? 0 : checksum_of_tokenizer(other);
    if (!status && trained && own && trained != own)
        status = err_set(
            err, STATUS_USAGE,
            "%.200s: was prepared with another tokenizer than data.train (prepare it again with --tokenizer "
            "%.200s)",
            word, corpus->tokenizer_word);
    else if (!status && said_vocabulary(corpus) && corpus_find_id(other, corpus->vocab_size, &place))
        status = err_set(err, STATUS_USAGE,
                         "%.200s: token %" PRIu64 " has the id %u, but the vocabulary of data.train has %u",
                         place.path, place.index, place.id, corpus->vocab_size);
    if (!status) {
        if (!said_vocabulary(corpus) && other->vocab_size > corpus->vocab_size)
            corpus->vocab_size = other->vocab_size;
        corpus->validation = other;
        return STATUS_OK;
    }
    corpus_close(other);
    free(other);
    return status;
}

void corpus_close(struct corpus *corpus)
{
    if (corpus->validation) corpus_close(corpus->validation);
    free(corpus->validation);
    for (size_t i = 0; i < corpus->file_count; i++) token_file_close(&corpus->files[i]);
    free(corpus->files);
    free(corpus->sources);
    if (corpus->runs) token_file_close(corpus->runs);
    free(corpus->runs);
    tokenizer_close(corpus->tokenizer);
    *corpus = (struct corpus){0};
}

bool corpus_find_id(const struct corpus *corpus, uint32_t least, struct corpus_place *out)
{
    uint64_t index;
    for (size_t i = 0; i < corpus->file_count; i++) {
        const struct token_file *file = &corpus->files[i];
        if (!token_file_find(file, least, &index)) continue;
        *out = (struct corpus_place){file->path, index, token_file_id(file, index)};
        return true;
    }
    return corpus->validation && corpus_find_id(corpus->validation, least, out);
}

/* ---- the mark ---- */

static uint64_t checksum_of(const unsigned char *bytes, uint64_t size, uint64_t whole, uint64_t pieces,
                            uint64_t sum)
{
    if (size <= whole || size <= PIECE) return XXH64(bytes, size, sum);
    for (uint64_t i = 0; i < pieces; i++) sum = XXH64(bytes + (size - PIECE) / (pieces - 1) * i, PIECE, sum);
    return XXH64(bytes + size - PIECE, PIECE, sum);
}

/* Each file continues the checksum of the previous ones. Files share the bytes that are read: enough to tell
 * corpora apart, and fast even for a thousand files. */
static uint64_t mark_file(const struct token_file *file, uint64_t whole, uint64_t pieces, uint64_t sum)
{
    uint64_t size = file->count * (file->narrow ? sizeof *file->narrow : sizeof *file->tokens);
    const void *ids = file->narrow ? (const void *)file->narrow : (const void *)file->tokens;
    return checksum_of(size ? ids : "", size, whole, pieces, sum);
}

static uint64_t mark_files(const struct corpus *corpus, uint64_t sum)
{
    uint64_t count = corpus->file_count, whole = WHOLE / count,
             pieces = PIECES / count > PIECES_LEAST ? PIECES / count : PIECES_LEAST;
    for (size_t i = 0; i < count; i++) sum = mark_file(&corpus->files[i], whole, pieces, sum);
    for (size_t i = 0; i < corpus->source_count; i++)
        sum = XXH64(&corpus->sources[i].weight, sizeof corpus->sources[i].weight, sum);
    return corpus->runs ? mark_file(corpus->runs, whole, pieces, sum) : sum;
}

struct corpus_mark corpus_mark_of(const struct corpus *corpus)
{
    uint64_t sum = mark_files(corpus, 0);
    if (corpus->validation) sum = mark_files(corpus->validation, sum + 1);
    return (struct corpus_mark){.tokens = corpus->tokens,
                                .checksum = sum,
                                .tokenizer = corpus->tokenizer ? tokenizer_checksum(corpus->tokenizer) : 0,
                                .learned = corpus->learned,
                                .mixed = corpus->source_count > 0};
}

/* After "restore the corpus". */
#define NEW_RUN "or train a new run; --model.from=RUN gives it this one's weights"

enum status corpus_mark_check(const struct corpus_mark *trained, const struct corpus_mark *now,
                              struct err *err)
{
    if (trained->tokenizer != now->tokenizer && now->learned)
        return err_set(err, STATUS_USAGE,
                       "the corpus or data.tokenizer has changed: the tokenizer that is learned from the "
                       "corpus is not the one this run was trained with (restore the corpus, " NEW_RUN ")");
    if (trained->tokenizer != now->tokenizer)
        return err_set(
            err, STATUS_USAGE,
            "the tokenizer is not the one this run was trained with: its token ids mean other text "
            "(restore the corpus and the tokenizer, " NEW_RUN ")");
    if (trained->tokens != now->tokens)
        return err_set(err, STATUS_USAGE,
                       "the corpus has changed: this run was trained on %" PRIu64
                       " tokens, now there are %" PRIu64 " (restore it, " NEW_RUN ")",
                       trained->tokens, now->tokens);
    if (trained->checksum != now->checksum)
        return err_set(
            err, STATUS_USAGE,
            "the corpus has changed: the same number of tokens, but different ones%s (restore it, " NEW_RUN
            ")",
            now->mixed ? ", or other weights" : "");
    return STATUS_OK;
}
