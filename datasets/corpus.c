/* See corpus.h. */
#include "datasets/corpus.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/bpe_train.h"
#include "datasets/data_words.h"
#include "datasets/text_inputs.h"
#include "datasets/unfinished.h"

/* Part of every cache key: to be changed with the way text becomes tokens. */
#define CACHE_FORMAT "anneal corpus 1"

enum { HASH_BYTES = 4 << 20 };

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static enum status format_path(char *buf, size_t size, struct err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum status format_path(char *buf, size_t size, struct err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buf, size, format, args);
    va_end(args);
    return n >= 0 && (size_t)n < size ? STATUS_OK
                                      : err_set(err, STATUS_USAGE, "%.200s…: the path is too long", buf);
}

/* ---- tokenizers ---- */

struct counting {
    struct bpe_trainer *trainer;
    const struct progress *progress;
};

static enum status count_text(void *context, const char *path, const char *text, size_t n, uint64_t before,
                              uint64_t total, struct err *err)
{
    struct counting *work = context;
    struct progress_part part;
    (void)path;
    progress_part_init(&part, work->progress, before, total);
    return bpe_trainer_count(work->trainer, text, n, &part.progress, err);
}

static enum status learn(const struct text_inputs *inputs, int vocab_size, const struct progress *progress,
                         struct tokenizer **out, struct err *err)
{
    struct counting work = {NULL, progress};
    if (vocab_size < BPE_TRAIN_VOCAB_MIN || vocab_size > BPE_TRAIN_VOCAB_MAX) /* before the text is read */
        return err_set(err, STATUS_USAGE,
                       "a vocabulary of %d tokens: give a number from %d (the bytes) to %d", vocab_size,
                       BPE_TRAIN_VOCAB_MIN, BPE_TRAIN_VOCAB_MAX);
    enum status status = bpe_trainer_new(&work.trainer, err);
    if (status) return status;
    status = text_inputs_each(inputs, count_text, &work, err);
    if (!status) status = bpe_trainer_learn(work.trainer, vocab_size, progress, out, err);
    bpe_trainer_free(work.trainer);
    return status;
}

enum status corpus_train_tokenizer(const char *const *inputs, size_t count, int vocab_size, const char *cache,
                                   const char *path, const struct progress *progress, struct tokenizer **out,
                                   struct err *err)
{
    struct text_inputs files = {0};
    if (!ends_with(path, ".json") || strlen(path) == 5 || ends_with(path, "/.json"))
        return err_set(err, STATUS_USAGE, "%s: the name of a tokenizer file ends with .json", path);
    enum status status = text_inputs_open(inputs, count, cache, progress, &files, err);
    if (!status) status = text_inputs_refuse_output(&files, path, err);
    if (!status) text_inputs_note(&files, progress);
    if (!status) status = learn(&files, vocab_size, progress, out, err);
    text_inputs_close(&files);
    return status;
}

/* "bpe:N" gives N, anything else 0; -1 where N is no number. */
static int64_t bpe_size(const char *word)
{
    int64_t size;
    if (strncmp(word, "bpe:", 4) != 0) return 0;
    return text_parse_int(word + 4, &size) && size > 0 && size <= INT32_MAX ? size : -1;
}

/* The tokenizer that `word` names, without any text: *out stays NULL for "bpe:N". */
static enum status open_tokenizer(const char *word, struct tokenizer **out, struct err *err)
{
    *out = NULL;
    return bpe_size(word) > 0 ? STATUS_OK : tokenizer_open(word, out, err);
}

/* ---- encoding ---- */

struct encoding {
    const struct tokenizer *tokenizer;
    struct token_writer *writer;
    const struct progress *progress;
    uint64_t before, total, reported; /* bytes of text */
};

static enum status take_tokens(void *context, const uint32_t *ids, size_t count, uint64_t done,
                               struct err *err)
{
    struct encoding *e = context;
    enum status status = token_writer_append(e->writer, ids, count, err);
    uint64_t now = e->before + done, every = e->total / 2000;
    if (status || (now - e->reported < every && now < e->total)) return status;
    e->reported = now;
    if (progress_report(e->progress, "encoding", "bytes", now, e->total)) return STATUS_OK;
    return err_set(err, STATUS_INTERRUPTED, "interrupted while encoding; nothing is kept of it");
}

static enum status encode_text(void *context, const char *path, const char *text, size_t n, uint64_t before,
                               uint64_t total, struct err *err)
{
    struct encoding *e = context;
    struct token_sink sink = {take_tokens, e};
    e->before = before;
    e->total = total;
    enum status status = tokenizer_encode_stream(e->tokenizer, text, n, &sink, err);
    return status == STATUS_FAILED ? err_prefix(err, "%s", path) : status;
}

/* What token files say their tokenizer is: the word that named it, or the last part of a path too long for
 * that. */
static const char *sidecar_name(const char *word)
{
    enum { NAME_BYTES = sizeof((struct token_file *)0)->tokenizer };
    if (strlen(word) < NAME_BYTES) return word;
    const char *last = strrchr(word, '/');
    return last && strlen(last + 1) < NAME_BYTES ? last + 1 : "tokenizer.json";
}

/* Writes path, path.json and tokenizer_path. `opened` is the tokenizer where `word` did not need the text. */
static enum status write_corpus(const struct text_inputs *inputs, const char *word,
                                const struct tokenizer *opened, const char *path, const char *tokenizer_path,
                                const struct progress *progress, struct corpus_summary *summary,
                                struct err *err)
{
    struct tokenizer *learned = NULL;
    struct encoding work = {.tokenizer = opened, .progress = progress};
    enum status status = STATUS_OK;
    if (!opened && (status = learn(inputs, (int)bpe_size(word), progress, &learned, err))) return status;
    if (!opened) work.tokenizer = learned;
    if ((status = token_writer_open(path, &work.writer, err))) goto out;
    if ((status = text_inputs_each(inputs, encode_text, &work, err))) goto out;
    const char *last = strrchr(tokenizer_path, '/');
    struct token_sidecar sidecar = {
        .tokenizer = sidecar_name(word),
        .tokenizer_file = last ? last + 1 : tokenizer_path,
        .vocab_size = (uint32_t)tokenizer_vocab_size(work.tokenizer),
        .tokenizer_checksum = tokenizer_checksum(work.tokenizer),
    };
    bool replaced = file_exists(tokenizer_path);
    if ((status = tokenizer_save_json(work.tokenizer, tokenizer_path, err))) goto out;
    summary->files = inputs->count;
    summary->text_bytes = work.total;
    summary->tokens = token_writer_count(work.writer);
    summary->vocab_size = tokenizer_vocab_size(work.tokenizer);
    status = token_writer_commit(work.writer, &sidecar, err);
    work.writer = NULL;
    if (status && !replaced) unlink(tokenizer_path);
out:
    token_writer_abort(work.writer);
    tokenizer_close(learned);
    return status;
}

enum status corpus_prepare(const char *const *inputs, size_t count, const char *tokenizer, const char *cache,
                           const char *path, const struct progress *progress, struct corpus_summary *out,
                           struct err *err)
{
    struct text_inputs files = {0};
    struct tokenizer *opened = NULL;
    struct corpus_summary summary = {0};
    char sidecar[PATH_MAX];
    enum status status;
    if (!ends_with(path, ".tok") || strlen(path) == 4 || ends_with(path, "/.tok"))
        return err_set(err, STATUS_USAGE, "%s: the name of a token file ends with .tok", path);
    int stem = (int)strlen(path) - 4;
    if ((status = format_path(summary.tokenizer_path, sizeof summary.tokenizer_path, err,
                              "%.*s.tokenizer.json", stem, path)))
        return status;
    if ((status = open_tokenizer(tokenizer, &opened, err)) ||
        (status = text_inputs_open(inputs, count, cache, progress, &files, err)) ||
        (status = format_path(sidecar, sizeof sidecar, err, "%s.json", path)) ||
        (status = text_inputs_refuse_output(&files, path, err)) ||
        (status = text_inputs_refuse_output(&files, sidecar, err)) ||
        (status = text_inputs_refuse_output(&files, summary.tokenizer_path, err)))
        goto out;
    text_inputs_note(&files, progress);
    status = write_corpus(&files, tokenizer, opened, path, summary.tokenizer_path, progress, &summary, err);
    if (!status) *out = summary;
out:
    text_inputs_close(&files);
    tokenizer_close(opened);
    return status;
}

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
    uint64_t tokenizer[2] = {opened ? tokenizer_checksum(opened) : 0, opened ? 0 : (uint64_t)bpe_size(word)};
    XXH3_128bits_update(work.state, tokenizer, sizeof tokenizer);
    enum status status = text_inputs_each(inputs, hash_text, &work, err);
    XXH128_hash_t digest = XXH3_128bits_digest(work.state);
    XXH3_freeState(work.state);
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)digest.high64, (unsigned long long)digest.low64);
    return status;
}

/* Opens what write_corpus has left in `folder`. */
static enum status open_folder(const char *folder, struct corpus *out, struct err *err)
{
    struct corpus corpus = {0};
    char *tokenizer = corpus.tokenizer_word;
    enum status status;
    if ((status = format_path(corpus.path, sizeof corpus.path, err, "%s/corpus.tok", folder)) ||
        (status = format_path(tokenizer, sizeof corpus.tokenizer_word, err, "%s/tokenizer.json", folder)) ||
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
    if ((status = open_tokenizer(word, &opened, err)) ||
        (status =
             text_inputs_open((const char *const *)texts->names, texts->count, cache, progress, &files, err)))
        goto out;
    text_inputs_note(&files, progress);
    if ((status = cache_key(&files, word, opened, progress, key, err)) ||
        (status = format_path(folder, sizeof folder, err, "%s/%s", cache, key)))
        goto out;
    if (open_folder(folder, out, NULL) == STATUS_OK) goto out;
    /* Missing or damaged: made anew beside it, then put in its place. */
    if ((status = unfinished_open(folder, &making, err)) ||
        (status = format_path(path, sizeof path, err, "%s/corpus.tok", making.path)) ||
        (status = format_path(tokenizer, sizeof tokenizer, err, "%s/tokenizer.json", making.path)) ||
        (status = write_corpus(&files, word, opened, path, tokenizer, progress, &summary, err)))
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
    if ((status = format_path(corpus->path, sizeof corpus->path, err, "%s", set->paths[set->described])) ||
        (status = find_tokenizer(corpus, err)) ||
        (status = format_path(corpus->path, sizeof corpus->path, err, "%s", set->paths[0])))
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
    uint32_t largest = 0;
    const struct token_file *runs = corpus_runs(corpus, &count);
    if (corpus->file.vocab_size)
        return corpus->set.count ? token_set_check(&corpus->set, corpus->file.vocab_size, err)
                                 : token_file_check(runs, corpus->path, corpus->file.vocab_size, err);
    for (size_t i = 0; i < count; i++)
        if (token_file_largest(&runs[i]) > largest) largest = token_file_largest(&runs[i]);
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
    if ((status = open_files(names, &corpus, err)) || (status = open_tokenizer(word, &asked, err))) goto out;
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
        if ((status = format_path(corpus.tokenizer_word, sizeof corpus.tokenizer_word, err, "%s", word)))
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
