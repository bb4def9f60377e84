/* See preparation.h; corpus_prepare and corpus_train_tokenizer are promised in corpus.h. */
#include "datasets/preparation.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/bpe_train.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
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

int64_t preparation_bpe_size(const char *word)
{
    int64_t size;
    if (strncmp(word, "bpe:", 4) != 0) return 0;
    return text_parse_int(word + 4, &size) && size > 0 && size <= INT32_MAX ? size : -1;
}

enum status preparation_open_tokenizer(const char *word, struct tokenizer **out, struct err *err)
{
    *out = NULL;
    return preparation_bpe_size(word) > 0 ? STATUS_OK : tokenizer_open(word, out, err);
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

enum status preparation_write(const struct text_inputs *inputs, const char *word,
                              const struct tokenizer *opened, const char *path, const char *tokenizer_path,
                              const struct progress *progress, struct corpus_summary *summary,
                              struct err *err)
{
    struct tokenizer *learned = NULL;
    struct encoding work = {.tokenizer = opened, .progress = progress};
    enum status status = STATUS_OK;
    if (!opened && (status = learn(inputs, (int)preparation_bpe_size(word), progress, &learned, err)))
        return status;
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
    if ((status = file_format_path(summary.tokenizer_path, sizeof summary.tokenizer_path, err,
                                   "%.*s.tokenizer.json", stem, path)))
        return status;
    if ((status = preparation_open_tokenizer(tokenizer, &opened, err)) ||
        (status = text_inputs_open(inputs, count, cache, progress, &files, err)) ||
        (status = file_format_path(sidecar, sizeof sidecar, err, "%s.json", path)) ||
        (status = text_inputs_refuse_output(&files, path, err)) ||
        (status = text_inputs_refuse_output(&files, sidecar, err)) ||
        (status = text_inputs_refuse_output(&files, summary.tokenizer_path, err)))
        goto out;
    text_inputs_note(&files, progress);
    status =
        preparation_write(&files, tokenizer, opened, path, summary.tokenizer_path, progress, &summary, err);
    if (!status) *out = summary;
out:
    text_inputs_close(&files);
    tokenizer_close(opened);
    return status;
}
