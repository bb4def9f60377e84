/* See corpus.h. */
#include "datasets/corpus.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "datasets/data_words.h"
#include "datasets/preparation.h"
#include "datasets/text_inputs.h"
#include "datasets/unfinished.h"

/* Part of every cache key: to be changed with the way text becomes tokens. */
#define CACHE_FORMAT "anneal corpus 1"

enum { HASH_BYTES = 4 << 20 };

/* ---- the cache ---- */

struct hashing {
    XXH3_state_t *state;
    const struct progress *progress;
};

static enum status hash_text(void *context, const char *path, const char *text, size_t n, uint64_t before,
                             uint64_t total, struct err *err)
{
    struct hashing *h = context;
    uint64_t size = n;
    (void)path;
    XXH3_128bits_update(h->state, &size, sizeof size);
    for (size_t i = 0; i < n; i += HASH_BYTES) {
        XXH3_128bits_update(h->state, text + i, n - i < HASH_BYTES ? n - i : HASH_BYTES);
        if (!progress_report(h->progress, "checking", "bytes", before + i, total))
            return err_set(err, STATUS_INTERRUPTED, "interrupted while reading the corpus");
    }
    if (!progress_report(h->progress, "checking", "bytes", before + n, total))
        return err_set(err, STATUS_INTERRUPTED, "interrupted while reading the corpus");
    return STATUS_OK;
}

/* 32 hexadecimal digits that name these texts under this tokenizer. */
static enum status cache_key(const struct text_inputs *inputs, const char *word,
                             const struct tokenizer *opened, const struct progress *progress, char key[33],
                             struct err *err)
{
    struct hashing work = {XXH3_createState(), progress};
    if (!work.state) return err_set(err, STATUS_NO_MEMORY, "not enough memory to check the corpus");
    XXH3_128bits_reset(work.state);
    XXH3_128bits_update(work.state, CACHE_FORMAT, sizeof CACHE_FORMAT);
    uint64_t tokenizer[2] = {opened ? tokenizer_checksum(opened) : 0,
                             opened ? 0 : (uint64_t)preparation_bpe_size(word)};
    XXH3_128bits_update(work.state, tokenizer, sizeof tokenizer);
    enum status status = text_inputs_each(inputs, hash_text, &work, err);
    XXH128_hash_t digest = XXH3_128bits_digest(work.state);
    XXH3_freeState(work.state);
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)digest.high64, (unsigned long long)digest.low64);
    return status;
}

/* Opens what preparation_write has left in `folder`. */
static enum status open_folder(const char *folder, struct corpus *out, struct err *err)
{
    struct corpus corpus = {0};
    char *tokenizer = corpus.tokenizer_word;
    enum status status;
    if ((status = file_format_path(corpus.path, sizeof corpus.path, err, "%s/corpus.tok", folder)) ||
        (status =
             file_format_path(tokenizer, sizeof corpus.tokenizer_word, err, "%s/tokenizer.json", folder)) ||
        (status = token_file_open(corpus.path, &corpus.file, err)) ||
        (status = tokenizer_open_json(tokenizer, &corpus.tokenizer, err)))
        goto out;
    token_file_measure(&corpus.file);
    if (tokenizer_checksum(corpus.tokenizer) != corpus.file.tokenizer_checksum ||
        (uint32_t)tokenizer_vocab_size(corpus.tokenizer) != corpus.file.vocab_size)
        status = err_set(err, STATUS_CORRUPT, "%s: does not belong to %s", tokenizer, corpus.path);
    else
        status = token_file_check(&corpus.file, corpus.path, corpus.file.vocab_size, err);
out:
    if (status)
        corpus_close(&corpus);
    else
        *out = corpus;
    return status;
}

static enum status open_text(const struct data_words *texts, const char *word, const char *cache,
                             const struct progress *progress, struct corpus *out, struct err *err)
{
    struct text_inputs files = {0};
    struct tokenizer *opened = NULL;
    struct corpus_summary summary;
    struct unfinished making = {.fd = -1};
    char key[33], folder[PATH_MAX], path[PATH_MAX], tokenizer[PATH_MAX];
    enum status status;
    unfinished_sweep(cache);
    if ((status = preparation_open_tokenizer(word, &opened, err)) ||
        (status =
             text_inputs_open((const char *const *)texts->names, texts->count, cache, progress, &files, err)))
        goto out;
    text_inputs_note(&files, progress);
    if ((status = cache_key(&files, word, opened, progress, key, err)) ||
        (status = file_format_path(folder, sizeof folder, err, "%s/%s", cache, key)))
        goto out;
    if (open_folder(folder, out, NULL) == STATUS_OK) goto out;
    /* Missing or damaged: made anew beside it, then put in its place. */
    if ((status = unfinished_open(folder, &making, err)) ||
        (status = file_format_path(path, sizeof path, err, "%s/corpus.tok", making.path)) ||
        (status = file_format_path(tokenizer, sizeof tokenizer, err, "%s/tokenizer.json", making.path)) ||
        (status = preparation_write(&files, word, opened, path, tokenizer, progress, &summary, err)))
        goto out;
    if (rename(making.path, folder) != 0) {
        if (open_folder(folder, out, NULL) == STATUS_OK) goto out; /* another process was faster */
        if ((status = file_remove_tree(folder, err))) goto out;
        if (rename(making.path, folder) != 0) {
            status =
                err_set(err, STATUS_IO, "%s: cannot move it into the cache: %s", folder, strerror(errno));
            goto out;
        }
    }
    status = open_folder(folder, out, err);
out:
    unfinished_close(&making);
    text_inputs_close(&files);
    tokenizer_close(opened);
    return status;
}

/* ---- token files ---- */

/* The tokenizer that the sidecar of corpus->path leads to; none is no error. */
static enum status find_tokenizer(struct corpus *corpus, struct err *err)
{
    const struct token_file *file = &corpus->file;
    char *path = corpus->tokenizer_word;
    const char *slash = strrchr(corpus->path, '/');
    int folder = slash ? (int)(slash - corpus->path) + 1 : 0;
    if (strcmp(file->tokenizer, "bytes") == 0) {
        strcpy(path, "bytes");
        return tokenizer_open_bytes(&corpus->tokenizer, err);
    }
    const char *names[] = {file->tokenizer_file, file->tokenizer};
    for (int i = 0; i < 2; i++) {
        const char *name = names[i];
        if (!*name || strncmp(name, "bpe:", 4) == 0) continue;
        if (snprintf(path, sizeof corpus->tokenizer_word, "%.*s%s", *name == '/' ? 0 : folder, corpus->path,
                     name) >= (int)sizeof corpus->tokenizer_word ||
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

/* One file with 32-bit ids becomes corpus->file, anything else corpus->set. */
static enum status open_files(const struct data_words *names, struct corpus *corpus, struct err *err)
{
    struct token_set *set = &corpus->set;
    enum status status = token_set_open(names->names, names->count, set, err);
    if (status) return status;
    token_set_measure(set);
    corpus->file = set->files[set->described];
    if ((status =
             file_format_path(corpus->path, sizeof corpus->path, err, "%s", set->paths[set->described])) ||
        (status = find_tokenizer(corpus, err)) ||
        (status = file_format_path(corpus->path, sizeof corpus->path, err, "%s", set->paths[0])))
        goto out;
    if (set->count == 1 && corpus->file.tokens) {
        set->files[0] = (struct token_file){0};
        token_set_close(set);
        return STATUS_OK;
    }
out:
    corpus->file.tokens = NULL; /* borrowed from the set, as is the mapping */
    corpus->file.narrow = NULL;
    corpus->file.map = NULL;
    corpus->file.map_bytes = 0;
    corpus->file.bound = 0;
    corpus->file.count = set->tokens;
    return status;
}

static enum status check_ids(struct corpus *corpus, struct err *err)
{
    size_t count;
    const struct token_file *runs = corpus_runs(corpus, &count);
    if (corpus->file.vocab_size)
        return corpus->set.count ? token_set_check(&corpus->set, corpus->file.vocab_size, err)
                                 : token_file_check(runs, corpus->path, corpus->file.vocab_size, err);
    uint32_t largest = corpus_largest_id(corpus);
    if (largest >= INT32_MAX)
        return err_set(err, STATUS_CORRUPT, "%s: holds the id %u, which no vocabulary has", corpus->path,
                       largest);
    corpus->file.vocab_size = largest + 1;
    return STATUS_OK;
}

static enum status open_tokens(const struct data_words *names, const char *word, struct corpus *out,
                               struct err *err)
{
    struct corpus corpus = {0};
    struct tokenizer *asked = NULL;
    enum status status;
    if ((status = open_files(names, &corpus, err)) ||
        (status = preparation_open_tokenizer(word, &asked, err)))
        goto out;
    uint64_t checksum =
        corpus.tokenizer ? tokenizer_checksum(corpus.tokenizer) : corpus.file.tokenizer_checksum;
    if (asked && checksum && tokenizer_checksum(asked) != checksum) {
        status = err_set(
            err, STATUS_USAGE,
            "%s: was prepared with another tokenizer (%s, %u tokens) than %s (%d tokens); name its own or "
            "prepare it again",
            corpus.path, *corpus.file.tokenizer ? corpus.file.tokenizer : "unnamed", corpus.file.vocab_size,
            word, tokenizer_vocab_size(asked));
        goto out;
    }
    if (asked && !corpus.tokenizer) {
        if ((status = file_format_path(corpus.tokenizer_word, sizeof corpus.tokenizer_word, err, "%s", word)))
            goto out;
        corpus.tokenizer = asked;
        asked = NULL;
    }
    if (corpus.tokenizer) corpus.file.vocab_size = (uint32_t)tokenizer_vocab_size(corpus.tokenizer);
    status = check_ids(&corpus, err);
out:
    tokenizer_close(asked);
    if (status)
        corpus_close(&corpus);
    else
        *out = corpus;
    return status;
}

enum status corpus_open(const char *train, const char *tokenizer, const char *cache,
                        const struct progress *progress, struct corpus *out, struct err *err)
{
    struct data_words words = {0};
    if (!*train)
        return err_set(err, STATUS_USAGE,
                       "data.train is empty: name a .tok file, a text file, a folder or a recipe");
    enum status status = data_words_open(train, &words, err);
    if (!status)
        status = words.tokens ? open_tokens(&words, tokenizer, out, err)
                              : open_text(&words, tokenizer, cache, progress, out, err);
    data_words_close(&words);
    return status;
}

enum status corpus_open_validation(struct corpus *corpus, const char *word, const char *cache,
                                   const struct progress *progress, struct err *err)
{
    struct data_words words = {0};
    struct corpus *other = calloc(1, sizeof *other);
    enum status status = other ? data_words_open(word, &words, err)
                               : err_set(err, STATUS_NO_MEMORY, "not enough memory for the validation data");
    if (status) goto out;
    if (words.tokens)
        status = open_tokens(&words, "bpe:256", other, err);
    else if (!*corpus->tokenizer_word)
        status =
            err_set(err, STATUS_USAGE,
                    "%.200s: is text, and the tokenizer of %.200s is not known (set data.tokenizer to it)",
                    word, corpus->path);
    else
        status = open_text(&words, corpus->tokenizer_word, cache, progress, other, err);
    if (status) goto out;
    uint64_t trained =
                 corpus->tokenizer ? tokenizer_checksum(corpus->tokenizer) : corpus->file.tokenizer_checksum,
             own = other->tokenizer ? tokenizer_checksum(other->tokenizer) : other->file.tokenizer_checksum;
    struct corpus_place place;
    if (trained && own && trained != own)
        status = err_set(
            err, STATUS_USAGE,
            "%.200s: was prepared with another tokenizer than %.200s (prepare it again with that one)", word,
            corpus->path);
    else if (corpus_find_id(other, corpus->file.vocab_size, &place))
        status = err_set(err, STATUS_USAGE,
                         "%.200s: token %llu has the id %u, but the vocabulary of %.200s has %u", place.path,
                         (unsigned long long)place.index, place.id, corpus->path, corpus->file.vocab_size);
    else
        corpus->validation = other;
out:
    data_words_close(&words);
    if (status && other) corpus_close(other);
    if (status) free(other);
    return status;
}

void corpus_close(struct corpus *corpus)
{
    if (corpus->validation) corpus_close(corpus->validation);
    free(corpus->validation);
    token_file_close(&corpus->file);
    token_set_close(&corpus->set);
    tokenizer_close(corpus->tokenizer);
    *corpus = (struct corpus){0};
}

/* ---- what is in it ---- */

const struct token_file *corpus_runs(const struct corpus *corpus, size_t *count)
{
    *count = corpus->set.count ? corpus->set.count : 1;
    return corpus->set.count ? corpus->set.files : &corpus->file;
}

uint32_t corpus_largest_id(const struct corpus *corpus)
{
    size_t count;
    const struct token_file *runs = corpus_runs(corpus, &count);
    uint32_t largest = corpus->validation ? corpus_largest_id(corpus->validation) : 0;
    for (size_t i = 0; i < count; i++)
        if (runs[i].count && token_file_largest(&runs[i]) > largest) largest = token_file_largest(&runs[i]);
    return largest;
}

bool corpus_find_id(const struct corpus *corpus, uint32_t least, struct corpus_place *out)
{
    size_t count;
    const struct token_file *runs = corpus_runs(corpus, &count);
    for (size_t i = 0; i < count; i++) {
        if (!runs[i].count || token_file_largest(&runs[i]) < least) continue;
        uint64_t at = 0;
        while (token_file_id(&runs[i], at) < least) at++;
        *out = (struct corpus_place){corpus->set.count ? corpus->set.paths[i] : corpus->path, at,
                                     token_file_id(&runs[i], at)};
        return true;
    }
    return corpus->validation && corpus_find_id(corpus->validation, least, out);
}
