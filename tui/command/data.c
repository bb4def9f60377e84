/* anneal data prepare | info | fetch | clean: text into token files, what is in them, and what is kept of
 * them. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json_out.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "datasets/corpus.h"
#include "datasets/preparation.h"
#include "datasets/recipe.h"
#include "tui/command/command.h"
#include "tui/command/progress_bar.h"
#include "tui/session/interrupt.h"

enum { TOP_TOKENS = 10, FILES_SHOWN = 20 };

struct options {
    const char *tokenizer, *output;
    int progress;
    bool json, dry_run;
};

#define TOKENIZER_OPTION(text) OPTION("tokenizer", OPTION_TEXT, AT(tokenizer), "T", text, .letter = 't')
#define JSON_OPTION            OPTION("json", OPTION_FLAG, AT(json), NULL, "one JSON value instead of text")
#define PROGRESS_OPTION                                                                                      \
    OPTION("progress", OPTION_CHOICE, AT(progress), PROGRESS_STYLES,                                         \
           "how progress is shown on standard error")

/* $ANNEAL_HOME/data, where prepared texts are kept. */
static enum status data_folder(char *buf, size_t size, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    if (status) return status;
    if (snprintf(buf, size, "%s/data", home) >= (int)size)
        return err_set(err, STATUS_USAGE, "ANNEAL_HOME: the path is too long");
    return STATUS_OK;
}

/* ---- prepare ---- */

static enum status print_summary(const struct options *o, const struct corpus_summary *summary,
                                 double seconds, struct err *err)
{
    double ratio = summary->tokens ? (double)summary->text_bytes / (double)summary->tokens : 0;
    if (o->json) {
        struct json_out json;
        command_begin_json(&json, '{');
        json_out_text(&json, "path", o->output);
        json_out_int(&json, "files", (int64_t)summary->files);
        json_out_int(&json, "text_bytes", (int64_t)summary->text_bytes);
        json_out_int(&json, "tokens", (int64_t)summary->tokens);
        json_out_int(&json, "vocab_size", summary->vocab_size);
        json_out_text(&json, "tokenizer", summary->tokenizer_path);
        json_out_real(&json, "bytes_per_token", ratio);
        json_out_real(&json, "seconds", seconds);
        return command_end_json(&json, err);
    }
    printf("%s: %s token%s of %s (%.2f bytes a token), vocabulary %s, in %s\n", o->output,
           TEXT_NUMBER(summary->tokens), text_plural((int64_t)summary->tokens),
           TEXT_BYTES(summary->text_bytes), ratio, TEXT_NUMBER(summary->vocab_size), CLOCK_DURATION(seconds));
    return STATUS_OK;
}

static enum status prepare(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    char cache[PATH_MAX];
    struct progress_bar bar;
    struct corpus_summary summary;
    if (strcmp(o->output, "-") == 0)
        return err_set(err, STATUS_USAGE,
                       "-o -: three files are written, standard output is one (-o FILE.tok)");
    enum status status = data_folder(cache, sizeof cache, err);
    if (status) return status;
    progress_bar_init(&bar, stderr, (enum progress_style)o->progress);
    struct progress progress = progress_bar_observer(&bar);
    interrupt_catch();
    double start = clock_monotonic();
    status = corpus_prepare(words->words, (size_t)words->count, o->tokenizer ? o->tokenizer : "bpe:2048",
                            cache, o->output, &progress, &summary, err);
    progress_bar_clear(&bar);
    if (!status) status = print_summary(o, &summary, clock_monotonic() - start, err);
    return status;
}

static const struct option_spec prepare_options[] = {
    OPTION("output", OPTION_TEXT, AT(output), "FILE.tok", "the token file to write", .letter = 'o',
           .required = true),
    TOKENIZER_OPTION("bytes, bpe:N (a BPE of N tokens learned from INPUT; the default is bpe:2048) or the "
                     "path of a tokenizer.json, also Hugging Face's"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

static const struct command data_prepare = {
    .line =
        {.name = "data prepare",
         .words = "INPUT...",
         .least = 1,
         .most = -1,
         .options = prepare_options,
         .about =
             "Encodes INPUT (files, folders of text files, names of recipes) with the tokenizer T and writes "
             "FILE.tok, FILE.tok.json (which tokenizer, how many tokens) and FILE.tokenizer.json.\n"
             "`anneal train --data.train=INPUT` does the preparation by itself."},
    .summary = "texts into a token file",
    COMMAND_RUN(prepare, (struct options){0}),
};

/* ---- info ---- */

struct census {
    uint64_t *counts; /* vocab_size of them */
    uint32_t top[TOP_TOKENS];
    int top_count;
    uint64_t used;  /* ids that occur */
    double entropy; /* bits a token, of ids without context */
    uint64_t bytes; /* of text, where the tokenizer is known */
};

static bool count_tokens(const struct corpus *corpus, struct census *out)
{
    struct census census = {.counts = calloc(corpus->vocab_size, sizeof *census.counts)};
    if (!census.counts) return false;
    for (size_t f = 0; f < corpus->file_count; f++)
        for (uint64_t i = 0; i < corpus->files[f].count; i++)
            census.counts[token_file_id(&corpus->files[f], i)]++;
    for (uint32_t id = 0; id < corpus->vocab_size; id++) {
        size_t n = 0;
        uint64_t count = census.counts[id];
        if (!count) continue;
        census.used++;
        census.entropy -=
            (double)count / (double)corpus->tokens * log2((double)count / (double)corpus->tokens);
        if (corpus->tokenizer) tokenizer_token_bytes(corpus->tokenizer, id, &n);
        census.bytes += n * count;
        int at = census.top_count < TOP_TOKENS ? census.top_count++ : TOP_TOKENS;
        for (; at > 0 && census.counts[census.top[at - 1]] < count; at--)
            if (at < TOP_TOKENS) census.top[at] = census.top[at - 1];
        if (at < TOP_TOKENS) census.top[at] = id;
    }
    *out = census;
    return true;
}

/* A token as text on one line: a backslash, control characters and what is not UTF-8 as escapes. */
static char *spell(const struct tokenizer *tokenizer, uint32_t id, char *buf, size_t size)
{
    size_t n = 0, to = 0;
    const char *bytes = tokenizer ? tokenizer_token_bytes(tokenizer, id, &n) : "";
    bool whole = utf8_valid_bytes(bytes, n) == n;
    for (size_t i = 0; i < n && to + 5 < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '\n')
            to += (size_t)sprintf(buf + to, "\\n");
        else if (c == '\t')
            to += (size_t)sprintf(buf + to, "\\t");
        else if (c == '\\')
            to += (size_t)sprintf(buf + to, "\\\\");
        else if (c < 0x20 || c == 0x7F || (c >= 0x80 && !whole))
            to += (size_t)sprintf(buf + to, "\\x%02x", c);
        else
            buf[to++] = (char)c;
    }
    while (to && utf8_valid_bytes(buf, to) != to) to--; /* cut at a character */
    buf[to] = '\0';
    return buf;
}

static uint64_t bytes_of(const struct corpus *corpus)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < corpus->file_count; i++) bytes += corpus->files[i].map.size;
    return bytes;
}

static void print_files_json(struct json_out *json, const struct corpus *corpus)
{
    json_out_open(json, "files", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < corpus->file_count; i++) {
        const struct token_file *file = &corpus->files[i];
        json_out_open(json, NULL, '{', JSON_OUT_LINES);
        json_out_text(json, "path", file->path);
        json_out_text(json, "format", token_format_name(file->format));
        json_out_int(json, "tokens", (int64_t)file->count);
        json_out_int(json, "file_bytes", (int64_t)file->map.size);
        json_out_close(json);
    }
    json_out_close(json);
}

static enum status info_json(const char *path, const struct corpus *corpus, const struct census *census,
                             struct err *err)
{
    char checksum[17], token[256];
    struct json_out json;
    const struct token_file *file = &corpus->files[corpus->described];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)file->tokenizer_checksum);
    command_begin_json(&json, '{');
    json_out_text(&json, "path", path);
    json_out_int(&json, "file_bytes", (int64_t)bytes_of(corpus));
    json_out_int(&json, "tokens", (int64_t)corpus->tokens);
    json_out_int(&json, "vocab_size", (int64_t)corpus->vocab_size);
    json_out_int(&json, "used", (int64_t)census->used);
    json_out_real(&json, "entropy_bits", census->entropy);
    json_out_text(&json, "tokenizer", file->tokenizer);
    json_out_text(&json, "tokenizer_checksum", checksum);
    json_out_bool(&json, "tokenizer_found", corpus->tokenizer != NULL);
    print_files_json(&json, corpus);
    json_out_open(&json, "top", '[', JSON_OUT_LINES);
    for (int i = 0; i < census->top_count; i++) {
        json_out_open(&json, NULL, '{', JSON_OUT_LINES);
        json_out_int(&json, "id", census->top[i]);
        json_out_int(&json, "count", (int64_t)census->counts[census->top[i]]);
        json_out_text(&json, "token", spell(corpus->tokenizer, census->top[i], token, sizeof token));
        json_out_close(&json);
    }
    json_out_close(&json);
    if (census->bytes) json_out_int(&json, "text_bytes", (int64_t)census->bytes);
    return command_end_json(&json, err);
}

static void print_files(const struct corpus *corpus)
{
    const struct token_file *files = corpus->files;
    size_t count = corpus->file_count;
    if (count == 1)
        printf("file        %s (%s, %s)\n", files[0].path, token_format_name(files[0].format),
               TEXT_BYTES(bytes_of(corpus)));
    else
        printf("files       %s (%s)\n", TEXT_NUMBER(count), TEXT_BYTES(bytes_of(corpus)));
    for (size_t i = 0; count > 1 && i < count && i < FILES_SHOWN; i++)
        printf("  %15s token%-1s  %-20s  %s\n", TEXT_NUMBER(files[i].count),
               text_plural((int64_t)files[i].count), token_format_name(files[i].format), files[i].path);
    if (count > FILES_SHOWN) printf("  and %zu more\n", count - FILES_SHOWN);
}

static void info_text(const struct corpus *corpus, const struct census *census)
{
    char a[256];
    const struct token_file *file = &corpus->files[corpus->described];
    print_files(corpus);
    printf("tokens      %s\n", TEXT_NUMBER(corpus->tokens));
    printf("vocabulary  %s, of which %s occur\n", TEXT_NUMBER(corpus->vocab_size), TEXT_NUMBER(census->used));
    if (!*file->tokenizer)
        printf("tokenizer   %s (no %s.json beside it)\n",
               corpus->tokenizer ? corpus->tokenizer_word : "unknown", file->path);
    else
        printf("tokenizer   %s, checksum %016llx%s\n", file->tokenizer,
               (unsigned long long)file->tokenizer_checksum,
               corpus->tokenizer ? "" : " (its tokenizer.json is not there)");
    if (census->bytes)
        printf("text        %s, %.2f bytes a token\n", TEXT_BYTES(census->bytes),
               (double)census->bytes / (double)corpus->tokens);
    printf("entropy     %.3f bits a token without context", census->entropy);
    if (census->bytes)
        printf(", %.3f bits a byte", census->entropy * (double)corpus->tokens / (double)census->bytes);
    printf("\nmost frequent\n");
    for (int i = 0; i < census->top_count; i++) {
        uint64_t count = census->counts[census->top[i]];
        printf("  %7u %12s %5.2f%%  \"%s\"\n", census->top[i], TEXT_NUMBER(count),
               100.0 * (double)count / (double)corpus->tokens,
               spell(corpus->tokenizer, census->top[i], a, sizeof a));
    }
}

/* The words as one value of data.train. False: longer than any such value. */
static bool join_words(const struct words *words, char *buf, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < words->count && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? "," : "", words->words[i]);
    return used < size;
}

static enum status info(const void *options, const struct words *words, struct err *err)
{
    static const size_t size = 1 << 20;
    const struct options *o = options;
    char *path = malloc(size);
    struct corpus corpus = {0};
    struct census census = {0};
    enum status status = STATUS_OK;
    if (!path)
        status = err_set(err, STATUS_NO_MEMORY, "not enough memory for the names of the files");
    else if (!join_words(words, path, size))
        status = err_set(err, STATUS_USAGE, "too many files: name their folder");
    if (!status) status = corpus_open(path, o->tokenizer ? o->tokenizer : "", NULL, NULL, &corpus, err);
    if (!status && !count_tokens(&corpus, &census))
        status = err_set(err, STATUS_NO_MEMORY, "%.200s: not enough memory to count its tokens", path);
    if (!status && o->json)
        status = info_json(path, &corpus, &census, err);
    else if (!status)
        info_text(&corpus, &census);
    free(census.counts);
    corpus_close(&corpus);
    free(path);
    return status;
}

static const struct option_spec info_options[] = {
    TOKENIZER_OPTION("the tokenizer.json of files that do not name theirs, as shards"),
    JSON_OPTION,
    {0},
};

static const struct command data_info = {
    .line = {.name = "data info",
             .words = "FILE...",
             .least = 1,
             .most = -1,
             .options = info_options,
             .about =
                 "Counts tokens and vocabulary, the entropy, and the most frequent tokens of token files: "
                 ".tok, llm.c's shards (.bin, ids of 16 or 32 bits), a folder or a pattern of them."},
    .summary = "what is in token files",
    COMMAND_RUN(info, (struct options){0}),
};

/* ---- fetch ---- */

static enum status fetch(const void *options, const struct words *words, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct progress_bar bar;
    enum status status = data_folder(folder, sizeof folder, err);
    if (status) return status;
    if (words->count == 0) {
        for (const struct recipe *recipe = recipes; recipe->name; recipe++)
            printf("%-10s %s (package %s)\n", recipe->name, recipe->summary, recipe->package);
        return STATUS_OK;
    }
    const struct recipe *recipe = recipe_find(words->words[0]);
    if (!recipe)
        return err_set(err, STATUS_NOT_FOUND, "%.100s: no such recipe (anneal data fetch lists them)",
                       words->words[0]);
    progress_bar_init(&bar, stderr, (enum progress_style)((const struct options *)options)->progress);
    struct progress progress = progress_bar_observer(&bar);
    interrupt_catch();
    status = recipe_fetch(recipe, folder, &progress, path, sizeof path, err);
    progress_bar_clear(&bar);
    if (!status) puts(path);
    return status;
}

static const struct option_spec fetch_options[] = {PROGRESS_OPTION, {0}};

static const struct command data_fetch = {
    .line = {.name = "data fetch",
             .words = "NAME",
             .most = 1,
             .options = fetch_options,
             .about = "Prepares a recipe's text in $ANNEAL_HOME/data and prints its path; without NAME lists "
                      "the recipes."},
    .summary = "the text of a recipe",
    COMMAND_RUN(fetch, (struct options){0}),
};

/* ---- clean ---- */

struct cleaning {
    const struct options *options;
    struct json_out json;
    uint64_t count, bytes;
};

static enum status clean_entry(void *context, const struct corpus_cache_entry *entry, struct err *err)
{
    struct cleaning *c = context;
    enum status status = c->options->dry_run ? STATUS_OK : corpus_cache_remove(entry->path, err);
    if (status) return status;
    c->count++;
    c->bytes += entry->bytes;
    if (c->options->json) {
        json_out_open(&c->json, NULL, '{', JSON_OUT_LINES);
        json_out_text(&c->json, "key", entry->key);
        json_out_text(&c->json, "tokenizer", entry->tokenizer);
        json_out_int(&c->json, "tokens", (int64_t)entry->tokens);
        json_out_int(&c->json, "bytes", (int64_t)entry->bytes);
        json_out_close(&c->json);
    } else {
        printf("%s  %15s token%-1s  %10s  %s\n", entry->key, TEXT_NUMBER(entry->tokens),
               text_plural((int64_t)entry->tokens), TEXT_BYTES(entry->bytes),
               *entry->tokenizer ? entry->tokenizer : "unreadable");
    }
    return STATUS_OK;
}

static enum status clean(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    char folder[PATH_MAX];
    struct cleaning c = {.options = o};
    (void)words;
    enum status status = data_folder(folder, sizeof folder, err);
    if (status) return status;
    if (o->json) {
        command_begin_json(&c.json, '{');
        json_out_bool(&c.json, "removed", !o->dry_run);
        json_out_open(&c.json, "entries", '[', JSON_OUT_LINES);
    }
    status = corpus_cache_each(folder, clean_entry, &c, err);
    if (o->json) {
        json_out_close(&c.json);
        json_out_int(&c.json, "bytes", (int64_t)c.bytes);
        enum status written = command_end_json(&c.json, status ? NULL : err);
        if (!status) status = written;
    } else if (!status) {
        printf("%s %" PRIu64 " encoded text%s, %s\n", o->dry_run ? "would remove" : "removed", c.count,
               text_plural((int64_t)c.count), TEXT_BYTES(c.bytes));
    }
    return status;
}

static const struct option_spec clean_options[] = {
    OPTION("dry-run", OPTION_FLAG, AT(dry_run), NULL, "only prints what would be removed"),
    JSON_OPTION,
    {0},
};

static const struct command data_clean = {
    .line =
        {.name = "data clean",
         .words = "",
         .options = clean_options,
         .about =
             "Removes the encoded texts that training keeps in $ANNEAL_HOME/data so as not to encode them "
             "again, and prints how much that frees. Nothing is lost: what is needed again is encoded again, "
             "with the same tokens. Runs, checkpoints, recipes' texts and your own .tok files stay."},
    .summary = "removes encoded texts that training has kept",
    COMMAND_RUN(clean, (struct options){0}),
};

static const struct command *const subcommands[] = {&data_prepare, &data_info, &data_fetch, &data_clean,
                                                    NULL};

const struct command command_data = {
    .line =
        {.name = "data",
         .words = "prepare|info|fetch|clean",
         .notes =
             "  anneal data fetch kjv                                  the King James Bible as plain text\n"
             "  anneal data prepare kjv -o kjv.tok                     the same as tokens, with a BPE of its "
             "own\n"
             "  anneal data prepare books/ notes.txt --tokenizer bpe:8192 -o mine.tok\n"
             "  anneal data prepare more.txt --tokenizer mine.tokenizer.json -o more.tok\n"
             "  anneal data info mine.tok\n"
             "  anneal data info 'shards/train_*.bin' --tokenizer gpt2/tokenizer.json"},
    .summary = "text into token files",
    .subcommands = subcommands,
};
