/* anneal data prepare | info | fetch | clean: text into token files, what is in them, and what is kept of
 * them. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "datasets/corpus.h"
#include "datasets/corpus_cache.h"
#include "datasets/data_words.h"
#include "datasets/recipe.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/text_options.h"
#include "tui/session/interrupt.h"

enum { TOP_TOKENS = 10, FILES_SHOWN = 20 };

static const char help[] =
    "anneal data: text into token files\n"
    "\n"
    "usage: anneal data prepare INPUT... -o FILE.tok [--tokenizer T] [--json] [--progress "
    "auto|bar|plain|none]\n"
    "       anneal data info FILE... [--tokenizer T] [--json]\n"
    "       anneal data fetch [NAME]\n"
    "       anneal data clean [--dry-run] [--json]\n"
    "\n"
    "prepare  encodes INPUT (files, folders of text files, names of recipes) with the tokenizer T and "
    "writes\n"
    "         FILE.tok, FILE.tok.json (which tokenizer, how many tokens) and FILE.tokenizer.json. T is "
    "bytes, bpe:N\n"
    "         (a BPE of N tokens learned from INPUT; the default is bpe:2048) or the path of a "
    "tokenizer.json,\n"
    "         also Hugging Face's.\n"
    "info     counts tokens and vocabulary, the entropy, and the most frequent tokens of token files: .tok,\n"
    "         llm.c's shards (.bin, ids of 16 or 32 bits), a folder or a pattern of them. --tokenizer names "
    "the\n"
    "         tokenizer.json of files that do not know theirs, as shards.\n"
    "fetch    prepares a recipe's text in $ANNEAL_HOME/data and prints its path; without NAME lists the "
    "recipes.\n"
    "clean    removes the encoded texts that training keeps in $ANNEAL_HOME/data so as not to encode them "
    "again, and "
    "says\n"
    "         what that frees; --dry-run only says it. Nothing is lost: what is needed again is encoded "
    "again, with "
    "the\n"
    "         same tokens. Runs, checkpoints, recipes' texts and your own .tok files stay.\n"
    "\n"
    "examples:\n"
    "  anneal data fetch kjv                                  the King James Bible as plain text\n"
    "  anneal data prepare kjv -o kjv.tok                     the same as tokens, with a BPE of its own\n"
    "  anneal data prepare books/ notes.txt --tokenizer bpe:8192 -o mine.tok\n"
    "  anneal data prepare more.txt --tokenizer mine.tokenizer.json -o more.tok\n"
    "  anneal data info mine.tok\n"
    "  anneal data info 'shards/train_*.bin' --tokenizer gpt2/tokenizer.json\n"
    "\n"
    "`anneal train --data.train=INPUT` does the preparation by itself; see anneal train --help.\n";

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

static void print_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(value);
}

/* ---- prepare ---- */

static int prepare(const struct text_options *options)
{
    char cache[PATH_MAX], tokens[32], text[32], vocab[32], duration[32];
    struct err err = {0};
    struct progress_bar bar;
    struct corpus_summary summary;
    const char *tokenizer = options->tokenizer ? options->tokenizer : "bpe:2048";
    if (!options->output) return command_usage("data", "prepare needs -o FILE.tok");
    if (data_folder(cache, sizeof cache, &err)) return command_fail(&err);
    progress_bar_init(&bar, stderr, options->progress);
    struct progress progress = progress_bar_observer(&bar);
    interrupt_catch();
    double start = clock_monotonic();
    enum status status = corpus_prepare((const char *const *)options->words, (size_t)options->word_count,
                                        tokenizer, cache, options->output, &progress, &summary, &err);
    progress_bar_clear(&bar);
    if (status) return command_fail(&err);
    double ratio = summary.tokens ? (double)summary.text_bytes / (double)summary.tokens : 0;
    if (options->json) {
        print_json(json_pack("{s:s, s:I, s:I, s:I, s:i, s:s, s:f, s:f}", "path", options->output, "files",
                             (json_int_t)summary.files, "text_bytes", (json_int_t)summary.text_bytes,
                             "tokens", (json_int_t)summary.tokens, "vocab_size", summary.vocab_size,
                             "tokenizer", summary.tokenizer_path, "bytes_per_token", ratio, "seconds",
                             clock_monotonic() - start));
        return 0;
    }
    printf("%s: %s token%s of %s (%.2f bytes a token), vocabulary %s, in %s\n", options->output,
           text_options_number(summary.tokens, tokens, sizeof tokens), text_plural((int64_t)summary.tokens),
           text_format_bytes(summary.text_bytes, text, sizeof text), ratio,
           text_options_number((uint64_t)summary.vocab_size, vocab, sizeof vocab),
           clock_format_duration(clock_monotonic() - start, duration, sizeof duration));
    return 0;
}

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
    const struct token_file *file = &corpus->file;
    size_t run_count;
    const struct token_file *runs = corpus_runs(corpus, &run_count);
    struct census census = {.counts = calloc(file->vocab_size, sizeof *census.counts)};
    if (!census.counts) return false;
    for (size_t r = 0; r < run_count; r++)
        for (uint64_t i = 0; i < runs[r].count; i++) census.counts[token_file_id(&runs[r], i)]++;
    for (uint32_t id = 0; id < file->vocab_size; id++) {
        size_t n = 0;
        uint64_t count = census.counts[id];
        if (!count) continue;
        census.used++;
        census.entropy -= (double)count / (double)file->count * log2((double)count / (double)file->count);
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

static const char *run_path(const struct corpus *corpus, size_t run)
{
    return corpus->set.count ? corpus->set.paths[run] : corpus->path;
}

static uint64_t bytes_of(const struct corpus *corpus)
{
    size_t count;
    uint64_t bytes = 0;
    const struct token_file *runs = corpus_runs(corpus, &count);
    for (size_t i = 0; i < count; i++) bytes += runs[i].map_bytes;
    return bytes;
}

static json_t *files_json(const struct corpus *corpus)
{
    size_t count;
    const struct token_file *runs = corpus_runs(corpus, &count);
    json_t *files = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(files, json_pack("{s:s, s:s, s:I, s:I}", "path", run_path(corpus, i), "format",
                                               token_format_name(runs[i].format), "tokens",
                                               (json_int_t)runs[i].count, "file_bytes",
                                               (json_int_t)runs[i].map_bytes));
    return files;
}

static void info_json(const char *path, const struct corpus *corpus, const struct census *census)
{
    char checksum[17], token[256];
    const struct token_file *file = &corpus->file;
    json_t *top = json_array();
    for (int i = 0; i < census->top_count; i++)
        json_array_append_new(top, json_pack("{s:I, s:I, s:s}", "id", (json_int_t)census->top[i], "count",
                                             (json_int_t)census->counts[census->top[i]], "token",
                                             spell(corpus->tokenizer, census->top[i], token, sizeof token)));
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)file->tokenizer_checksum);
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:b, s:o, s:o}", "path", path, "file_bytes",
                  (json_int_t)bytes_of(corpus), "tokens", (json_int_t)file->count, "vocab_size",
                  (json_int_t)file->vocab_size, "used", (json_int_t)census->used, "entropy_bits",
                  census->entropy, "tokenizer", file->tokenizer, "tokenizer_checksum", checksum,
                  "tokenizer_found", corpus->tokenizer != NULL, "files", files_json(corpus), "top", top);
    if (census->bytes) json_object_set_new(root, "text_bytes", json_integer((json_int_t)census->bytes));
    print_json(root);
}

static void print_files(const struct corpus *corpus)
{
    char a[32], b[32];
    size_t count;
    const struct token_file *runs = corpus_runs(corpus, &count);
    text_format_bytes(bytes_of(corpus), a, sizeof a);
    if (count == 1)
        printf("file        %s (%s, %s)\n", run_path(corpus, 0), token_format_name(runs[0].format), a);
    else
        printf("files       %s (%s)\n", text_options_number(count, b, sizeof b), a);
    for (size_t i = 0; count > 1 && i < count && i < FILES_SHOWN; i++)
        printf("  %15s token%-1s  %-20s  %s\n", text_options_number(runs[i].count, a, sizeof a),
               text_plural((int64_t)runs[i].count), token_format_name(runs[i].format), run_path(corpus, i));
    if (count > FILES_SHOWN) printf("  and %zu more\n", count - FILES_SHOWN);
}

static void info_text(const struct corpus *corpus, const struct census *census)
{
    char a[256], b[32];
    const struct token_file *file = &corpus->file;
    print_files(corpus);
    printf("tokens      %s\n", text_options_number(file->count, a, sizeof a));
    printf("vocabulary  %s, of which %s occur\n", text_options_number(file->vocab_size, a, sizeof a),
           text_options_number(census->used, b, sizeof b));
    if (!*file->tokenizer)
        printf("tokenizer   %s (no %s.json beside it)\n",
               corpus->tokenizer ? corpus->tokenizer_word : "unknown", corpus->path);
    else
        printf("tokenizer   %s, checksum %016llx%s\n", file->tokenizer,
               (unsigned long long)file->tokenizer_checksum,
               corpus->tokenizer ? "" : " (its tokenizer.json is not there)");
    if (census->bytes)
        printf("text        %s, %.2f bytes a token\n", text_format_bytes(census->bytes, a, sizeof a),
               (double)census->bytes / (double)file->count);
    printf("entropy     %.3f bits a token without context", census->entropy);
    if (census->bytes)
        printf(", %.3f bits a byte", census->entropy * (double)file->count / (double)census->bytes);
    printf("\nmost frequent\n");
    for (int i = 0; i < census->top_count; i++) {
        uint64_t count = census->counts[census->top[i]];
        printf("  %7u %12s %5.2f%%  \"%s\"\n", census->top[i], text_options_number(count, b, sizeof b),
               100.0 * (double)count / (double)file->count,
               spell(corpus->tokenizer, census->top[i], a, sizeof a));
    }
}

/* The words as one value of data.train. False: longer than any such value. */
static bool join_words(const struct text_options *options, char *buf, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < options->word_count && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? "," : "", options->words[i]);
    return used < size;
}

static int info(const struct text_options *options)
{
    static const size_t size = 1 << 20;
    char *path = malloc(size);
    struct data_words words = {0};
    struct corpus corpus = {0};
    struct census census = {0};
    struct err err = {0};
    int code = 0;
    enum status status = STATUS_OK;
    if (!path)
        status = err_set(&err, STATUS_NO_MEMORY, "not enough memory for the names of the files");
    else if (!join_words(options, path, size))
        status = err_set(&err, STATUS_USAGE, "too many files: name their folder");
    if (!status) status = data_words_open(path, &words, &err);
    if (!status && !words.tokens) {
        code = command_usage("data",
                             "info reads token files, whose names end with .tok (data prepare makes them) "
                             "or .bin (llm.c's shards)");
        goto out;
    }
    if (!status)
        status =
            corpus_open(path, options->tokenizer ? options->tokenizer : "bpe:256", "", NULL, &corpus, &err);
    if (!status && !count_tokens(&corpus, &census))
        status = err_set(&err, STATUS_NO_MEMORY, "%.200s: not enough memory to count its tokens", path);
    if (status)
        code = command_fail(&err);
    else if (options->json)
        info_json(path, &corpus, &census);
    else
        info_text(&corpus, &census);
out:
    free(census.counts);
    corpus_close(&corpus);
    data_words_close(&words);
    free(path);
    return code;
}

/* ---- fetch ---- */

static int fetch(const struct text_options *options)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct err err = {0};
    struct progress_bar bar;
    if (data_folder(folder, sizeof folder, &err)) return command_fail(&err);
    if (options->word_count == 0) {
        for (const struct recipe *recipe = recipes; recipe->name; recipe++)
            printf("%-10s %s (package %s)\n", recipe->name, recipe->summary, recipe->package);
        return 0;
    }
    const struct recipe *recipe = recipe_find(options->words[0]);
    if (!recipe) {
        err_set(&err, STATUS_NOT_FOUND, "%.100s: no such recipe (anneal data fetch lists them)",
                options->words[0]);
        return command_fail(&err);
    }
    progress_bar_init(&bar, stderr, options->progress);
    struct progress progress = progress_bar_observer(&bar);
    interrupt_catch();
    enum status status = recipe_fetch(recipe, folder, &progress, path, sizeof path, &err);
    progress_bar_clear(&bar);
    if (status) return command_fail(&err);
    puts(path);
    return 0;
}

/* ---- clean ---- */

struct cleaning {
    const struct text_options *options;
    json_t *entries; /* NULL: text is wanted */
    uint64_t count, bytes;
};

static enum status clean_entry(void *context, const struct corpus_cache_entry *entry, struct err *err)
{
    struct cleaning *c = context;
    char tokens[32], bytes[32];
    enum status status = c->options->dry_run ? STATUS_OK : corpus_cache_remove(entry->path, err);
    if (status) return status;
    c->count++;
    c->bytes += entry->bytes;
    if (c->entries)
        json_array_append_new(c->entries, json_pack("{s:s, s:s, s:I, s:I}", "key", entry->key, "tokenizer",
                                                    entry->tokenizer, "tokens", (json_int_t)entry->tokens,
                                                    "bytes", (json_int_t)entry->bytes));
    else
        printf("%s  %15s token%-1s  %10s  %s\n", entry->key,
               text_options_number(entry->tokens, tokens, sizeof tokens), text_plural((int64_t)entry->tokens),
               text_format_bytes(entry->bytes, bytes, sizeof bytes),
               *entry->tokenizer ? entry->tokenizer : "unreadable");
    return STATUS_OK;
}

static int clean(const struct text_options *options)
{
    char folder[PATH_MAX], bytes[32];
    struct err err = {0};
    struct cleaning cleaning = {.options = options, .entries = options->json ? json_array() : NULL};
    enum status status = data_folder(folder, sizeof folder, &err);
    if (!status) status = corpus_cache_each(folder, clean_entry, &cleaning, &err);
    if (!status && options->json)
        print_json(json_pack("{s:b, s:I, s:O}", "removed", !options->dry_run, "bytes",
                             (json_int_t)cleaning.bytes, "entries", cleaning.entries));
    else if (!status)
        printf("%s %" PRIu64 " encoded text%s, %s\n", options->dry_run ? "would remove" : "removed",
               cleaning.count, cleaning.count == 1 ? "" : "s",
               text_format_bytes(cleaning.bytes, bytes, sizeof bytes));
    json_decref(cleaning.entries);
    return status ? command_fail(&err) : 0;
}

int command_data(int argc, char **argv)
{
    static const struct subcommand subcommands[] = {
        {"prepare", "tojp", 1, -1, "an INPUT: a file, a folder or the name of a recipe", false, prepare},
        {"info", "tj", 1, -1, "a FILE: a .tok file, a shard (.bin), or a folder of them", false, info},
        {"fetch", "p", 0, 1, NULL, false, fetch},
        {"clean", "nj", 0, 0, NULL, false, clean},
        {0},
    };
    return text_command_run(argc, argv, subcommands, help);
}
