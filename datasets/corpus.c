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
    char tokenizer[PATH_MAX];
    enum status status;
    if ((status = format_path(corpus.path, sizeof corpus.path, err, "%s/corpus.tok", folder)) ||
        (status = format_path(tokenizer, sizeof tokenizer, err, "%s/tokenizer.json", folder)) ||
        (status = token_file_open(corpus.path, &corpus.file, err)) ||
        (status = tokenizer_open_json(tokenizer, &corpus.tokenizer, err)))
        goto out;
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

static enum status open_text(const char *train, const char *word, const char *cache,
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
        (status = text_inputs_open(&train, 1, cache, progress, &files, err)))
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
    char path[PATH_MAX];
    const char *slash = strrchr(corpus->path, '/');
    int folder = slash ? (int)(slash - corpus->path) + 1 : 0;
    if (strcmp(file->tokenizer, "bytes") == 0) return tokenizer_open_bytes(&corpus->tokenizer, err);
    const char *names[] = {file->tokenizer_file, file->tokenizer};
    for (int i = 0; i < 2; i++) {
        const char *name = names[i];
        if (!*name || strncmp(name, "bpe:", 4) == 0) continue;
        if (snprintf(path, sizeof path, "%.*s%s", *name == '/' ? 0 : folder, corpus->path, name) >=
                (int)sizeof path ||
            !file_exists(path))
            continue;
        enum status status = tokenizer_open_json(path, &corpus->tokenizer, err);
        if (status) return status;
        if (!file->tokenizer_checksum || tokenizer_checksum(corpus->tokenizer) == file->tokenizer_checksum)
            return STATUS_OK;
        tokenizer_close(corpus->tokenizer);
        corpus->tokenizer = NULL;
    }
    return STATUS_OK;
}

static enum status open_tokens(const char *train, const char *word, struct corpus *out, struct err *err)
{
    struct corpus corpus = {0};
    struct tokenizer *asked = NULL;
    enum status status;
    if ((status = format_path(corpus.path, sizeof corpus.path, err, "%s", train)) ||
        (status = token_file_open(train, &corpus.file, err)) || (status = find_tokenizer(&corpus, err)) ||
        (status = open_tokenizer(word, &asked, err)))
        goto out;
    uint64_t checksum =
        corpus.tokenizer ? tokenizer_checksum(corpus.tokenizer) : corpus.file.tokenizer_checksum;
    if (asked && checksum && tokenizer_checksum(asked) != checksum) {
        status = err_set(
            err, STATUS_USAGE,
            "%s: was prepared with another tokenizer (%s, %u tokens) than %s (%d tokens); name its own or "
            "prepare it again",
            train, *corpus.file.tokenizer ? corpus.file.tokenizer : "unnamed", corpus.file.vocab_size, word,
            tokenizer_vocab_size(asked));
        goto out;
    }
    if (asked && !corpus.tokenizer) {
        corpus.tokenizer = asked;
        asked = NULL;
    }
    if (corpus.tokenizer) corpus.file.vocab_size = (uint32_t)tokenizer_vocab_size(corpus.tokenizer);
    if (corpus.file.vocab_size) {
        status = token_file_check(&corpus.file, train, corpus.file.vocab_size, err);
        goto out;
    }
    uint32_t largest = token_file_largest(&corpus.file);
    if (largest >= INT32_MAX)
        status = err_set(err, STATUS_CORRUPT, "%s: holds the id %u, which no vocabulary has", train, largest);
    else
        corpus.file.vocab_size = largest + 1;
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
    if (!*train)
        return err_set(err, STATUS_USAGE,
                       "data.train is empty: name a .tok file, a text file, a folder or a recipe");
    return ends_with(train, ".tok") ? open_tokens(train, tokenizer, out, err)
                                    : open_text(train, tokenizer, cache, progress, out, err);
}

void corpus_close(struct corpus *corpus)
{
    token_file_close(&corpus->file);
    tokenizer_close(corpus->tokenizer);
    *corpus = (struct corpus){0};
}
