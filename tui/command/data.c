/* anneal data prepare | info | fetch: turns text into token files, describes them, and prepares the texts of
 * recipes. `data show` is in data_show.c. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/corpus.h"
#include "datasets/preparation.h"
#include "datasets/recipe.h"
#include "tui/command/data.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"

enum { TOP_TOKENS = 10 };

struct options {
    const char *tokenizer, *output, *text_key;
    int progress;
    bool json, ends;
};

#define TOKENIZER_OPTION(text) OPTION("tokenizer", OPTION_TEXT, AT(tokenizer), "T", text, .letter = 't')

/* ---- prepare ---- */

static enum status prepare(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    char cache[PATH_MAX];
    struct progress_bar bar;
    struct corpus_summary made;
    struct output out;
    if (strcmp(o->output, "-") == 0)
        return err_set(
            err, STATUS_USAGE,
            "-o -: three files are written, so they cannot go to standard output (give -o FILE.tok)");
    enum status status = file_in_home("data", cache, sizeof cache, err);
    if (status) return status;
    progress_bar_init(&bar, stderr, o->progress);
    struct text_reading reading = {.text_key = o->text_key, .ends = o->ends};
    double start = clock_monotonic();
    status = corpus_prepare(words->words, (size_t)words->count, o->tokenizer ? o->tokenizer : "bpe:2048",
                            &reading, cache, o->output, &bar.progress, &made, err);
    progress_bar_clear(&bar);
    if (status) return status;
    output_begin(&out, o->json);
    OUTPUT_MEMBERS(&out, "path", o->output, "files", (int64_t)made.files, "text_bytes",
                   (int64_t)made.text_bytes, "tokens", (int64_t)made.tokens, "vocab_size", made.vocab_size,
                   "tokenizer", made.tokenizer_path, "bytes_per_token",
                   made.tokens ? (double)made.text_bytes / (double)made.tokens : 0, "seconds",
                   clock_monotonic() - start);
    return output_end(&out, err);
}

static const struct option_spec prepare_options[] = {
    OPTION("output", OPTION_TEXT, AT(output), "FILE.tok", "the token file to write", .letter = 'o',
           .required = true),
    TOKENIZER_OPTION("bytes, bpe:N (a BPE of N tokens learned from INPUT; the default is bpe:2048) or the "
                     "path of a tokenizer.json, also Hugging Face's"),
    TEXT_READING_OPTIONS,
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

static const struct command data_prepare = COMMAND(
    "data prepare", "INPUT...", 1, -1, prepare_options, "encode texts into a token file", prepare,
    (struct options){0},
    .about =
        "Encodes INPUT (files, folders of files, names of recipes) with the tokenizer T and writes "
        "FILE.tok, FILE.tok.json (which tokenizer, how many tokens) and FILE.tokenizer.json. " TEXT_FILES "\n"
        "`anneal train --data.train=INPUT` prepares its texts by itself.");

/* ---- info ---- */

struct census {
    uint64_t *counts; /* vocab_size of them */
    uint64_t used;    /* ids that occur */
    double entropy;   /* bits a token, of ids without context */
    uint64_t bytes;   /* of text, where the tokenizer is known */
};

static bool count_tokens(const struct corpus *corpus, struct census *out)
{
    struct census census = {.counts = calloc(corpus->vocab_size, sizeof *census.counts)};
    if (!census.counts) return false;
    for (size_t f = 0; f < corpus->file_count; f++)
        for (uint64_t i = 0; i < corpus->files[f].count; i++)
            census.counts[token_file_id(&corpus->files[f], i)]++;
    for (uint32_t id = 0; id < corpus->vocab_size; id++) {
        uint64_t count = census.counts[id];
        if (!count) continue;
        census.used++;
        census.entropy -=
            (double)count / (double)corpus->tokens * log2((double)count / (double)corpus->tokens);
        if (corpus->tokenizer) census.bytes += count * tokenizer_text_bytes(corpus->tokenizer, id);
    }
    *out = census;
    return true;
}

/* Zeroes the counts of the tokens that it shows. */
static void show_most_frequent(struct output *o, const struct corpus *corpus, const struct census *census)
{
    char token[256];
    output_list(o, "top", "Most frequent");
    for (int i = 0; i < TOP_TOKENS; i++) {
        uint32_t most = 0;
        for (uint32_t id = 0; id < corpus->vocab_size; id++)
            if (census->counts[id] > census->counts[most]) most = id;
        uint64_t n = census->counts[most];
        if (!n) break;
        census->counts[most] = 0;
        data_spell(corpus->tokenizer, most, token, sizeof token);
        output_item(o);
        OUTPUT_MEMBERS(o, "id", most, "count", (int64_t)n, "share", (double)n / (double)corpus->tokens,
                       "token", token);
    }
    output_list_end(o);
}

static enum status print_info(const char *path, const struct corpus *corpus, const struct census *census,
                              bool json, struct err *err)
{
    char checksum[17];
    struct output o;
    const struct token_file *file = &corpus->files[corpus->described];
    size_t bytes = 0;
    for (size_t i = 0; i < corpus->file_count; i++) bytes += corpus->files[i].map.size;
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)file->tokenizer_checksum);
    double per_byte = census->bytes ? census->entropy * (double)corpus->tokens / (double)census->bytes : NAN;
    output_begin(&o, json);
    OUTPUT_MEMBERS(&o, "path", path, "file_bytes", (int64_t)bytes, "text_bytes",
                   census->bytes ? (int64_t)census->bytes : -1, "tokens", (int64_t)corpus->tokens,
                   "vocab_size", corpus->vocab_size, "used", (int64_t)census->used);
    OUTPUT_MEMBERS(&o, "entropy_bits", census->entropy, "bits_per_byte", per_byte, "tokenizer",
                   file->tokenizer, "tokenizer_checksum", checksum, "tokenizer_found",
                   (bool)(corpus->tokenizer != NULL));
    output_list(&o, "files", "Files");
    for (size_t i = 0; i < corpus->file_count; i++) {
        const struct token_file *f = &corpus->files[i];
        output_item(&o);
        OUTPUT_MEMBERS(&o, "path", f->path, "format", token_format_name(f->format), "tokens",
                       (int64_t)f->count, "file_bytes", (int64_t)f->map.size);
    }
    output_list_end(&o);
    show_most_frequent(&o, corpus, census);
    return output_end(&o, err);
}

/* Joins the words into a value of data.train, which the caller frees; NULL: no memory. */
static char *join_words(const struct words *words)
{
    size_t size = 1;
    for (int i = 0; i < words->count; i++) size += strlen(words->words[i]) + 1;
    char *joined = malloc(size), *end = joined;
    for (int i = 0; joined && i < words->count; i++)
        end += sprintf(end, "%s%s", i ? "," : "", words->words[i]);
    return joined;
}

enum status data_check_tokenizer(const char *word, struct err *err)
{
    bool path = file_exists(word) || strchr(word, '/') || strstr(word, ".json");
    if (strcmp(word, "bytes") == 0 || (path && strncmp(word, "bpe:", 4) != 0)) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "tokenizer \"%.100s\": must be bytes or the path of a tokenizer.json (each checkpoint of a run "
        "holds one, `%s tokenizer train` makes one)",
        word, TEXT_PROGRAM);
}

static enum status info(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    char *path = join_words(words);
    struct corpus corpus = {0};
    struct census census = {0};
    enum status status = path ? STATUS_OK : err_no_memory(err, "the names of the files");
    if (!status && o->tokenizer) status = data_check_tokenizer(o->tokenizer, err);
    if (!status) status = corpus_open(path, o->tokenizer ? o->tokenizer : "", NULL, NULL, NULL, &corpus, err);
    if (!status && !count_tokens(&corpus, &census))
        status = err_no_memory(err, "counts of the tokens of %.200s", path);
    if (!status) status = print_info(path, &corpus, &census, o->json, err);
    free(census.counts);
    corpus_close(&corpus);
    free(path);
    return status;
}

static const struct option_spec info_options[] = {
    TOKENIZER_OPTION("the tokenizer.json for files that do not name one, such as llm.c's shards"),
    JSON_OPTION,
    {0},
};

static const struct command data_info = COMMAND(
    "data info", "FILE...", 1, -1, info_options, "show what token files contain", info, (struct options){0},
    .about = "Prints the number of tokens, the vocabulary, the entropy and the most frequent tokens of token "
             "files: .tok, llm.c's shards (.bin, ids of 16 or 32 bits), a folder or a pattern of them.");

/* ---- fetch ---- */

static enum status fetch(const void *options, const struct words *words, struct err *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct progress_bar bar;
    enum status status = file_in_home("data", folder, sizeof folder, err);
    if (status) return status;
    if (words->count == 0) {
        for (const struct recipe *recipe = recipes; recipe->name; recipe++)
            printf("%-10s %s (package %s)\n", recipe->name, recipe->summary, recipe->package);
        return STATUS_OK;
    }
    const struct recipe *recipe = recipe_find(words->words[0]);
    if (!recipe)
        return err_set(err, STATUS_NOT_FOUND, "%.100s: no such recipe (%s data fetch lists them)",
                       words->words[0], TEXT_PROGRAM);
    progress_bar_init(&bar, stderr, ((const struct options *)options)->progress);
    status = recipe_fetch(recipe, folder, &bar.progress, path, sizeof path, err);
    progress_bar_clear(&bar);
    if (!status) puts(CLEAN_LINE(path));
    return status;
}

static const struct option_spec fetch_options[] = {PROGRESS_OPTION, {0}};

static const struct command data_fetch = COMMAND(
    "data fetch", "RECIPE", 0, 1, fetch_options, "prepare the text of a recipe", fetch, (struct options){0},
    .about = "Prepares a recipe's text in $ANNEAL_HOME/data and prints its path; without RECIPE lists the "
             "recipes.");

static const struct command *const subcommands[] = {&data_prepare, &data_info, &data_show, &data_fetch, NULL};

const struct command command_data = {
    .line =
        {.name = "data",
         .words = "prepare|info|show|fetch",
         .notes =
             "  anneal data fetch kjv                                  the King James Bible as plain text\n"
             "  anneal data prepare kjv -o kjv.tok                     the same as tokens, with a BPE of its "
             "own\n"
             "  anneal data prepare books/ notes.txt --tokenizer bpe:8192 -o mine.tok\n"
             "  anneal data prepare more.txt --tokenizer mine.tokenizer.json -o more.tok\n"
             "  anneal data prepare pages.jsonl.gz code/ --text-key content -o web.tok\n"
             "  anneal data info mine.tok\n"
             "  anneal data show chats.jsonl --row 3 --model.from=my-model\n"
             "  anneal data info 'shards/train_*.bin' --tokenizer gpt2/tokenizer.json"},
    .summary = "encode texts into token files, and look into such files",
    .subcommands = subcommands,
};
