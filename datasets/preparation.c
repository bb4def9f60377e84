/* See preparation.h. */
#include "datasets/preparation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/processors.h"
#include "core/base/text.h"
#include "datasets/bpe.h"
#include "datasets/bpe_train.h"
#include "datasets/crew.h"
#include "datasets/text_file.h"
#include "datasets/token_file.h"

/* Part of every cache key: change it whenever text is turned into tokens differently. */
#define CACHE_FORMAT        "anneal corpus 1"
#define INSTRUCTIONS_FORMAT "instructions 1"

enum { HASH_BYTES = 4 << 20, KEY_DIGITS = 32, STALE_SECONDS = 3600 };

static const struct text_reading usual;

/* ---- tokenizers ---- */

/* Whether documents end with a token, if the tokenizer has one. */
static bool documents_end(const struct preparation *p)
{
    bool ends = p->reading->ends;
    for (size_t i = 0; i < p->texts->count; i++)
        ends |= text_pieces_are_lines(p->texts->paths[i], p->reading);
    return ends;
}

static enum status learn(const struct preparation *p, int vocab_size, struct tokenizer **out, struct err *err)
{
    struct bpe_trainer *trainer = NULL;
    enum status status = bpe_trainer_new(vocab_size, processors_usable(), p->progress, &trainer, err);
    if (!status)
        status = text_pieces_each(p->texts, 0, p->texts->count, p->reading, false, bpe_trainer_count, trainer,
                                  err);
    if (!status) status = bpe_trainer_learn(trainer, documents_end(p), out, err);
    bpe_trainer_free(trainer);
    return status;
}

enum status preparation_open_tokenizer(const char *word, struct tokenizer **out, struct err *err)
{
    int64_t size = tokenizer_learned_size(word);
    *out = NULL;
    return size > 0 ? bpe_train_check(size, err) : tokenizer_open(word, out, err);
}

static enum status check_name(const char *path, const char *end, const char *what, struct err *err)
{
    size_t n = strlen(path), m = strlen(end);
    if (n > m && text_ends_with(path, end) && path[n - m - 1] != '/') return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s: the name of a %s file ends with %s", path, what, end);
}

enum status corpus_train_tokenizer(const char *const *inputs, size_t count, int vocab_size,
                                   const struct text_reading *reading, const char *cache, const char *path,
                                   const struct progress *progress, struct tokenizer **out, struct err *err)
{
    struct inputs texts = {0};
    struct preparation p = {.texts = &texts, .reading = reading ? reading : &usual, .progress = progress};
    enum status status = check_name(path, ".json", "tokenizer", err);
    if (!status) status = inputs_open_texts(inputs, count, cache, progress, &texts, err);
    if (!status) status = inputs_refuse_output(&texts, path, err);
    if (!status && file_exists(path))
        status = err_set(err, STATUS_USAGE,
                         "%s: the file exists already (name another one: runs may depend on this tokenizer)",
                         path);
    if (!status) inputs_note(&texts, progress);
    if (!status) status = learn(&p, vocab_size, out, err);
    inputs_close(&texts);
    return status;
}

/* ---- encoding ---- */

struct encoding {
    const struct preparation *of;
    const struct tokenizer *tokenizer;
    struct token_writer writer, runs; /* the second of conversations */
    char runs_path[PATH_MAX];
    struct instruction_reader *reader; /* of conversations; NULL: plain texts */
    const struct text_piece *piece;    /* that the calling thread encodes, from its byte `from` on */
    size_t from;
    uint64_t bytes;                                 /* of texts */
    uint64_t reported, total;                       /* bytes of files */
    int64_t end;                                    /* the token that ends documents; -1: none */
    struct crew *crew;                              /* encodes plain texts; NULL: the calling thread does */
    struct bpe_encoder *encoders[CREW_THREADS_MAX]; /* of the crew's threads; NULL until needed */
};

/* `done`: bytes of files. */
static enum status report_encoded(struct encoding *e, uint64_t done, struct err *err)
{
    if (done - e->reported < e->total / 2000 && done < e->total) return STATUS_OK;
    e->reported = done;
    return progress_report(e->of->progress, "encoding", "bytes", done, e->total, err);
}

static enum status take_tokens(void *context, const uint32_t *ids, size_t count, uint64_t done,
                               struct err *err)
{
    struct encoding *e = context;
    enum status status = token_writer_append(&e->writer, ids, count, err);
    return status ? status : report_encoded(e, text_piece_done(e->piece, e->from + done), err);
}

static enum status take_example(void *context, const struct instruction_example *example, struct err *err)
{
    struct encoding *e = context;
    uint32_t count = (uint32_t)example->run_count;
    enum status status = token_writer_append(&e->writer, example->tokens, example->token_count, err);
    if (!status) status = token_writer_append(&e->runs, &count, 1, err);
    if (!status) status = token_writer_append(&e->runs, example->runs, example->run_count, err);
    return status ? status : report_encoded(e, text_piece_done(e->piece, example->done), err);
}

static enum status end_document(struct encoding *e, struct err *err)
{
    uint32_t end = (uint32_t)e->end;
    return token_writer_append(&e->writer, &end, 1, err);
}

/* Encodes n bytes from `from` on. */
static enum status encode_here(struct encoding *e, const struct text_piece *piece, size_t from, size_t n,
                               bool ends, struct err *err)
{
    struct token_sink sink = {take_tokens, e};
    e->piece = piece;
    e->from = from;
    enum status status = tokenizer_encode_stream(e->tokenizer, piece->text + from, n, &sink, err);
    if (status == STATUS_FAILED) return err_prefix(err, "%s", piece->path);
    return status || !ends ? status : end_document(e, err);
}

/* ---- encoding in several threads ---- */

static enum status encode_part(void *context, int thread, const struct crew_part *part, void **result,
                               struct err *err)
{
    struct encoding *e = context;
    struct bpe_encoder **encoder = &e->encoders[thread];
    if (!*result && !(*result = calloc(1, sizeof(struct token_list))))
        return err_no_memory(err, "encoding the text");
    struct token_list *list = *result;
    struct token_sink sink = {token_list_take, list};
    enum status status =
        *encoder ? STATUS_OK : bpe_encoder_new(tokenizer_bpe(e->tokenizer), CREW_PART_MAX, encoder, err);
    list->count = 0;
    if (!status) status = bpe_encoder_run(*encoder, part->text, part->n, &sink, err);
    return status == STATUS_FAILED ? err_prefix(err, "%s", part->path) : status;
}

static enum status take_part(void *context, const struct crew_part *part, void *result, struct err *err)
{
    struct encoding *e = context;
    const struct token_list *list = result;
    enum status status = token_writer_append(&e->writer, list->ids, list->count, err);
    if (!status && part->ends) status = end_document(e, err);
    return status ? status : report_encoded(e, part->done, err);
}

static void discard_part(void *result)
{
    if (result) token_list_release(result);
    free(result);
}

static bool is_bytes(const struct tokenizer *tokenizer)
{
    return strcmp(tokenizer_kind(tokenizer), "bytes") == 0;
}

/* Bytes are encoded as quickly as they are written. */
static enum status open_crew(struct encoding *e, struct err *err)
{
    struct crew_job job = {e, encode_part, take_part, discard_part};
    int threads = processors_usable();
    return threads < 2 || is_bytes(e->tokenizer) ? STATUS_OK : crew_open(&job, threads, &e->crew, err);
}

static void close_crew(struct encoding *e)
{
    crew_close(e->crew);
    for (int i = 0; i < CREW_THREADS_MAX; i++) bpe_encoder_free(e->encoders[i]);
}

/* A text that must not be cut is one part. */
static enum status encode_parts(struct encoding *e, const struct text_piece *piece, bool ends,
                                struct err *err)
{
    enum status status = STATUS_OK;
    bool divides = bpe_divides(tokenizer_bpe(e->tokenizer));
    for (size_t at = 0, length; at < piece->n && !status; at += length) {
        length = divides ? crew_cut(piece->text + at, piece->n - at) : piece->n;
        bool last = ends && at + length == piece->n;
        struct crew_part part = {piece->path, piece->text + at, length, text_piece_done(piece, at + length),
                                 last};
        if (length <= CREW_PART_MAX)
            status = crew_give(e->crew, &part, err);
        else if (!(status = crew_finish(e->crew, err)))
            status = encode_here(e, piece, at, length, last, err);
    }
    return status;
}

static enum status encode_plain(struct encoding *e, const struct text_piece *piece, bool ends,
                                struct err *err)
{
    return e->crew ? encode_parts(e, piece, ends, err) : encode_here(e, piece, 0, piece->n, ends, err);
}

/* Without an end token, a line feed separates the lines of JSONL. */
static enum status encode_text(void *context, const struct text_piece *piece, struct err *err)
{
    struct encoding *e = context;
    struct instruction_sink examples = {take_example, e};
    bool ends = piece->n && piece->ends && (piece->is_line || e->of->reading->ends);
    e->piece = piece;
    e->total = piece->total;
    e->bytes += piece->n;
    if (e->reader)
        return instruction_reader_read(e->reader, piece->path, piece->line, piece->text, piece->n, &examples,
                                       err);
    enum status status = encode_plain(e, piece, ends && e->end >= 0, err);
    if (status || !ends || e->end >= 0 || piece->text[piece->n - 1] == '\n') return status;
    struct text_piece feed = *piece;
    feed.text = "\n";
    feed.n = 1;
    feed.before = feed.after;
    return encode_plain(e, &feed, false, err);
}

/* The tokenizer's name in token files: the word that named it, or the file name of a longer path. */
static const char *sidecar_name(const char *word)
{
    enum { NAME_BYTES = sizeof((struct token_file *)0)->tokenizer };
    if (strlen(word) < NAME_BYTES) return word;
    return strlen(basename(word)) < NAME_BYTES ? basename(word) : "tokenizer.json";
}

static enum status open_conversations(struct encoding *e, const struct chat_format *format, const char *path,
                                      struct err *err)
{
    enum status status = instruction_reader_open(format, e->tokenizer, &e->reader, err);
    if (!status)
        status = file_format_path(e->runs_path, sizeof e->runs_path, err, "%.*s/runs.tok",
                                  (int)(strrchr(path, '/') - path), path);
    return status ? status : token_writer_open(&e->runs, e->runs_path, err);
}

static enum status close_conversations(struct encoding *e, struct err *err)
{
    struct token_sidecar sidecar = {.tokenizer = "lengths of what is not an answer and of answers"};
    uint64_t divided = instruction_reader_divided(e->reader);
    if (!e->runs.count)
        return err_set(err, STATUS_FAILED,
                       "there is no conversation in the data (each line of JSONL is one)");
    char sentence[200];
    snprintf(sentence, sizeof sentence,
             "in %" PRIu64
             " conversation%s each answer is an example of its own, as the chat template writes "
             "earlier turns differently",
             divided, text_plural((int64_t)divided));
    const struct progress *progress = e->of->progress;
    if (divided && progress && progress->note) progress->note(progress->context, false, sentence);
    return token_writer_commit(&e->runs, &sidecar, err);
}

static enum status refuse_without_end(const char *word, struct err *err)
{
    return err_set(err, STATUS_USAGE,
                   "%.200s: this tokenizer has no token that ends a document, such as " TOKENIZER_END
                   " (bpe:N with N of 257 and more learns one; data.end_token names one that the texts have)",
                   word);
}

/* Encodes all texts, and fills the number of tokens of each source. */
static enum status encode_sources(struct encoding *e, bool whole, uint64_t sources[INPUT_SOURCES_MAX],
                                  struct err *err)
{
    const struct inputs *texts = e->of->texts;
    struct input_source all = {.count = texts->count};
    const struct input_source *of = texts->source_count ? texts->sources : &all;
    size_t count = texts->source_count ? texts->source_count : 1;
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++) {
        uint64_t before = e->writer.count;
        status =
            text_pieces_each(texts, of[i].first, of[i].count, e->of->reading, whole, encode_text, e, err);
        if (!status && e->crew) status = crew_finish(e->crew, err);
        sources[i] = e->writer.count - before;
    }
    return status;
}

/* Writes path, path.json and summary->tokenizer_path, and for conversations runs.tok next to them. */
static enum status encode(const struct preparation *p, const char *path, struct corpus_summary *summary,
                          struct err *err)
{
    struct tokenizer *learned = NULL;
    struct encoding work = {.of = p};
    const char *tokenizer_path = summary->tokenizer_path;
    enum status status = STATUS_OK;
    if (!p->opened && (status = learn(p, (int)tokenizer_learned_size(p->word), &learned, err))) return status;
    work.tokenizer = p->opened ? p->opened : learned;
    work.end = tokenizer_end(work.tokenizer);
    if (p->reading->ends && work.end < 0) {
        tokenizer_close(learned);
        return refuse_without_end(p->word, err);
    }
    summary->files = p->texts->count;
    summary->vocab_size = tokenizer_vocab_size(work.tokenizer);
    struct token_sidecar sidecar = {.tokenizer = sidecar_name(p->word),
                                    .tokenizer_file = basename(tokenizer_path),
                                    .vocab_size = (uint32_t)summary->vocab_size,
                                    .tokenizer_checksum = tokenizer_checksum(work.tokenizer)};
    bool replaced = file_exists(tokenizer_path);
    const struct chat_format *format = p->reading->conversations;
    uint64_t sources[INPUT_SOURCES_MAX];
    sidecar.sources = sources;
    sidecar.source_count = p->texts->source_count;
    bool whole = !is_bytes(work.tokenizer) && !bpe_divides(tokenizer_bpe(work.tokenizer));
    status = token_writer_open(&work.writer, path, err);
    if (!status) status = format ? open_conversations(&work, format, path, err) : open_crew(&work, err);
    if (!status) status = encode_sources(&work, whole, sources, err);
    if (!status && format) status = close_conversations(&work, err);
    if (!status) status = tokenizer_save_json(work.tokenizer, tokenizer_path, err);
    if (!status) {
        summary->text_bytes = work.bytes;
        summary->tokens = work.writer.count;
        status = token_writer_commit(&work.writer, &sidecar, err);
        if (status && !replaced) unlink(tokenizer_path);
    }
    close_crew(&work);
    token_writer_abort(&work.writer);
    token_writer_abort(&work.runs);
    instruction_reader_close(work.reader);
    tokenizer_close(learned);
    return status;
}

/* Preparing again may replace what a preparation wrote, which has a sidecar, but nothing else. */
static enum status refuse_to_replace(const char *path, const char *sidecar, const char *tokenizer,
                                     const char *tokenizer_path, struct err *err)
{
    if (file_exists(sidecar) && !token_sidecar_is(sidecar))
        return err_set(
            err, STATUS_USAGE,
            "%s: exists already, and is not what a preparation writes (choose another name, or remove "
            "it)",
            sidecar);
    const char *in_the_way = file_exists(sidecar) ? NULL
                             : file_exists(path)  ? path
                             : strcmp(tokenizer, tokenizer_path) && file_exists(tokenizer_path)
                                 ? tokenizer_path
                                 : NULL;
    if (!in_the_way) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: exists already, without the %s that a preparation writes (choose another name)",
                   in_the_way, sidecar);
}

enum status corpus_prepare(const char *const *inputs, size_t count, const char *tokenizer,
                           const struct text_reading *reading, const char *cache, const char *path,
                           const struct progress *progress, struct corpus_summary *out, struct err *err)
{
    struct inputs texts = {0};
    struct tokenizer *opened = NULL;
    struct preparation p = {
        .texts = &texts, .word = tokenizer, .reading = reading ? reading : &usual, .progress = progress};
    char sidecar[PATH_MAX];
    enum status status = check_name(path, ".tok", "token", err);
    if (!status) status = preparation_open_tokenizer(tokenizer, &opened, err);
    if (!status)
        status = file_format_path(out->tokenizer_path, sizeof out->tokenizer_path, err, "%.*s.tokenizer.json",
                                  (int)strlen(path) - 4, path);
    if (!status) status = file_format_path(sidecar, sizeof sidecar, err, "%s.json", path);
    if (!status) status = inputs_open_texts(inputs, count, cache, progress, &texts, err);
    const char *outputs[] = {path, sidecar, out->tokenizer_path};
    for (int i = 0; !status && i < 3; i++) status = inputs_refuse_output(&texts, outputs[i], err);
    if (!status) status = refuse_to_replace(path, sidecar, tokenizer, out->tokenizer_path, err);
    if (!status) inputs_note(&texts, progress);
    p.opened = opened;
    if (!status) status = encode(&p, path, out, err);
    inputs_close(&texts);
    tokenizer_close(opened);
    return status;
}

/* ---- the cache ---- */

struct hashing {
    XXH3_state_t *state;
    const struct preparation *of;
};

static enum status hash_file(void *context, const struct text_piece *file, struct err *err)
{
    struct hashing *h = context;
    uint64_t size = file->n;
    const struct text_reading *reading = h->of->reading;
    const char *key = reading->text_key ? reading->text_key : "text";
    if (text_file_compressed(file->path)) XXH3_128bits_update(h->state, "compressed", sizeof "compressed");
    if (text_pieces_are_lines(file->path, reading)) XXH3_128bits_update(h->state, key, strlen(key) + 1);
    XXH3_128bits_update(h->state, &size, sizeof size);
    enum status status = STATUS_OK;
    for (size_t done = 0, part; !status && done < file->n; done += part) {
        part = file->n - done < HASH_BYTES ? file->n - done : HASH_BYTES;
        XXH3_128bits_update(h->state, file->text + done, part);
        status = progress_report(h->of->progress, "checking", "bytes", file->before + done + part,
                                 file->total, err);
    }
    return status;
}

/* Text encoded as conversations of this format differs from plain text. */
static void hash_format(XXH3_state_t *state, const struct chat_format *format)
{
    char *texts = json_dumps(format->texts, JSON_SORT_KEYS | JSON_COMPACT);
    XXH3_128bits_update(state, INSTRUCTIONS_FORMAT, sizeof INSTRUCTIONS_FORMAT);
    XXH3_128bits_update(state, format->source, format->n);
    if (texts) XXH3_128bits_update(state, texts, strlen(texts));
    free(texts);
}

enum status corpus_cache_find(const struct preparation *p, const char *cache, char folder[PATH_MAX],
                              struct err *err)
{
    struct hashing work = {XXH3_createState(), p};
    if (!work.state) return err_no_memory(err, "checking the corpus");
    uint64_t made_with[2] = {p->opened ? tokenizer_checksum(p->opened) : 0,
                             p->opened ? 0 : (uint64_t)tokenizer_learned_size(p->word)};
    XXH3_128bits_reset(work.state);
    XXH3_128bits_update(work.state, CACHE_FORMAT, sizeof CACHE_FORMAT);
    XXH3_128bits_update(work.state, made_with, sizeof made_with);
    if (p->reading->conversations) hash_format(work.state, p->reading->conversations);
    if (p->reading->ends) XXH3_128bits_update(work.state, TOKENIZER_END, sizeof TOKENIZER_END);
    for (size_t i = 0; i < p->texts->source_count; i++)
        XXH3_128bits_update(work.state, &p->texts->sources[i].count, sizeof p->texts->sources[i].count);
    enum status status = text_pieces_of_files(p->texts, hash_file, &work, err);
    XXH128_hash_t key = XXH3_128bits_digest(work.state);
    XXH3_freeState(work.state);
    if (status) return status;
    return file_format_path(folder, PATH_MAX, err, "%s/%016llx%016llx", cache, (unsigned long long)key.high64,
                            (unsigned long long)key.low64);
}

static bool begins_with_key(const char *name)
{
    return strspn(name, "0123456789abcdef") == KEY_DIGITS;
}

bool corpus_cache_is_entry(const char *name)
{
    return begins_with_key(name) && !name[KEY_DIGITS];
}

bool corpus_cache_is_unfinished(const char *name)
{
    return begins_with_key(name) && strncmp(name + KEY_DIGITS, ".tmp-", 5) == 0;
}

int corpus_cache_lock(const char *cache)
{
    int fd = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

/* Removes leftovers; call it only while no process is writing to this cache. */
static void sweep(const char *cache)
{
    char path[PATH_MAX];
    struct stat st;
    DIR *folder = opendir(cache);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *name = entry->d_name, *infix = strstr(name, ".tmp-");
        if (!infix || snprintf(path, sizeof path, "%s/%s", cache, name) >= (int)sizeof path) continue;
        if (corpus_cache_is_unfinished(name))
            file_remove_tree(path, NULL);
        else if (infix - name > 4 && strncmp(infix - 4, ".txt", 4) == 0 && lstat(path, &st) == 0 &&
                 S_ISREG(st.st_mode) && st.st_mtime < time(NULL) - STALE_SECONDS) /* a recipe's text */
            unlink(path);
    }
    if (folder) closedir(folder);
}

/* Registers this process as a writer of the cache: returns the descriptor that holds the lock, or -1. */
static int enter(const char *cache)
{
    int fd = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) sweep(cache);
    if (fd >= 0) flock(fd, LOCK_SH);
    return fd;
}

enum status corpus_cache_make(const struct preparation *p, const char *folder,
                              bool (*is_good)(const char *folder, bool conversations), struct err *err)
{
    struct corpus_summary summary;
    char cache[PATH_MAX], making[PATH_MAX], path[PATH_MAX];
    enum status status;
    if ((status = file_format_path(cache, sizeof cache, err, "%.*s", (int)(strrchr(folder, '/') - folder),
                                   folder)) ||
        (status = file_format_path(making, sizeof making, err, "%s.tmp-%ld", folder, (long)getpid())) ||
        (status = file_format_path(path, sizeof path, err, "%s/corpus.tok", making)) ||
        (status = file_format_path(summary.tokenizer_path, sizeof summary.tokenizer_path, err,
                                   "%s/tokenizer.json", making)) ||
        (status = file_make_folders(cache, err)))
        return status;
    int entered = enter(cache);
    status = file_make_folders(making, err);
    if (!status) status = encode(p, path, &summary, err);
    if (!status && rename(making, folder) != 0 &&
        !is_good(folder, p->reading->conversations)) { /* is_good: another process was faster */
        status = file_remove_tree(folder, err);
        if (!status && rename(making, folder) != 0)
            status =
                err_set(err, STATUS_IO, "%s: cannot move it into the cache: %s", folder, strerror(errno));
    }
    file_remove_tree(making, NULL);
    if (entered >= 0) close(entered);
    return status;
}

/* Renames the entry to an unfinished one before removing it: a reader finds all of it or nothing, and the
 * next preparation removes what a killed process leaves. */
enum status corpus_cache_remove(const char *path, struct err *err)
{
    char going[PATH_MAX];
    enum status status = file_format_path(going, sizeof going, err, "%s.tmp-%ld", path, (long)getpid());
    if (status) return status;
    if (rename(path, going) == 0) return file_remove_tree(going, err);
    if (errno == EXDEV) return file_remove_tree(path, err); /* as file_remove_whole */
    if (errno == ENOENT) return STATUS_OK;
    return err_set(err, STATUS_IO, "%.200s: cannot be removed: %s", path, strerror(errno));
}
