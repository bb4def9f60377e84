/* anneal tokenizer train | encode | decode | info. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/bpe.h"
#include "datasets/bpe_train.h"
#include "datasets/preparation.h"
#include "tui/command/command.h"
#include "tui/command/data.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/process.h"

struct options {
    const char *output, *text, *text_key;
    int64_t vocab;
    int progress;
    bool json, prompt, ends;
};

#define TOKENIZERS                                                                                           \
    "TOKENIZER is bytes (256 ids, one per byte) or the path of a tokenizer.json: made by anneal, or by "     \
    "Hugging Face with byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM) or SentencePiece-like BPE (Llama 2, "   \
    "Mistral)."

/* ---- train ---- */

/* Copies a file that was just written to standard output, and removes it. */
static enum status move_to_stdout(const char *path, struct err *err)
{
    struct file_map map = {0};
    enum status status = file_map_open(path, &map, err);
    if (!status) fwrite(map.data, 1, map.size, stdout);
    file_map_close(&map);
    unlink(path);
    return status;
}

static enum status train(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    char cache[PATH_MAX], path[PATH_MAX + 64];
    struct progress_bar bar;
    struct tokenizer *tokenizer = NULL;
    bool to_stdout = strcmp(o->output, "-") == 0;
    enum status status = file_in_home("data", cache, sizeof cache, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/standard-output-%ld.json", cache, (long)getpid());
    const char *output = to_stdout ? path : o->output;
    if (to_stdout) unlink(path); /* of an earlier process of this number that was killed */
    progress_bar_init(&bar, stderr, o->progress);
    struct text_reading reading = {.text_key = o->text_key, .ends = o->ends};
    double start = clock_monotonic();
    status = corpus_train_tokenizer(words->words, (size_t)words->count, (int)o->vocab, &reading, cache,
                                    output, &bar.progress, &tokenizer, err);
    progress_bar_clear(&bar);
    if (!status) status = tokenizer_save_json(tokenizer, output, err);
    if (!status) {
        int made = tokenizer_vocab_size(tokenizer);
        if (to_stdout) status = move_to_stdout(path, err);
        fprintf(to_stdout ? stderr : stdout, "%s: %s tokens, learned in %s\n",
                to_stdout ? "standard output" : o->output, TEXT_NUMBER(made),
                CLOCK_DURATION(clock_monotonic() - start));
        if (made < o->vocab)
            fprintf(stderr, "anneal: the text has pairs to merge for only %d of the %lld tokens asked for\n",
                    made, (long long)o->vocab);
    }
    tokenizer_close(tokenizer);
    return status;
}

static const struct option_spec train_options[] = {
    OPTION("vocab", OPTION_WHOLE, AT(vocab), "N",
           "number of tokens, for example 2048; the 256 bytes are among them", .required = true,
           .least = BPE_TRAIN_VOCAB_MIN, .most = BPE_TRAIN_VOCAB_MAX),
    OPTION("output", OPTION_TEXT, AT(output), "tokenizer.json", "the file to write; -: standard output",
           .letter = 'o', .required = true),
    TEXT_READING_OPTIONS,
    PROGRESS_OPTION,
    {0},
};

static const struct command train_command = COMMAND(
    "tokenizer train", "INPUT...", 1, -1, train_options, "learn a byte-level BPE", train, (struct options){0},
    .about = "Learns a byte-level BPE from INPUT (files, folders of files, names of recipes). Hugging Face's "
             "library loads the file and encodes text to the same ids. " TEXT_FILES);

/* ---- encode ---- */

static enum status open_tokenizer(const char *word, struct tokenizer **out, struct err *err)
{
    enum status status = data_check_tokenizer(word, err);
    return status ? status : tokenizer_open(word, out, err);
}

/* Reads all of standard input; the caller frees *bytes. */
static enum status read_input(char **bytes, size_t *n, struct err *err)
{
    char piece[1 << 16];
    ssize_t got = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    FILE *all = open_memstream(bytes, n);
    while (all && !interrupt_requested()) {
        if (poll(&input, 1, -1) < 0) continue; /* a signal: Ctrl-C, or it was stopped for a while */
        if ((got = read(0, piece, sizeof piece)) <= 0) break;
        fwrite(piece, 1, (size_t)got, all);
    }
    int code = errno;
    if (!text_stream_end(all, bytes)) return err_no_memory(err, "what standard input has");
    if (interrupt_requested()) return err_set(err, STATUS_INTERRUPTED, "interrupted");
    return got < 0 ? err_set(err, STATUS_IO, "standard input: %s", strerror(code)) : STATUS_OK;
}

struct printing {
    const char *before, *between; /* printed before the next id, and later ones */
};

static enum status print_ids(void *context, const uint32_t *ids, size_t count, uint64_t done, struct err *err)
{
    struct printing *p = context;
    (void)done;
    for (size_t i = 0; i < count; i++) {
        printf("%s%u", p->before, ids[i]);
        p->before = p->between;
    }
    if (ferror(stdout)) return err_set(err, STATUS_IO, "standard output: %s", strerror(errno));
    return interrupt_requested() ? err_set(err, STATUS_INTERRUPTED, "interrupted") : STATUS_OK;
}

static enum status print_prompt(const struct tokenizer *tokenizer, const char *text, size_t n,
                                struct printing *printing, struct err *err)
{
    struct token_list list = {0};
    enum status status = tokenizer_encode_prompt(tokenizer, text, n, &list, err);
    if (!status) status = print_ids(printing, list.ids, list.count, n, err);
    token_list_release(&list);
    return status;
}

static enum status encode(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct tokenizer *tokenizer = NULL;
    struct file_map map = {0};
    struct printing printing = {o->json ? "[" : "", o->json ? ", " : " "};
    struct token_sink sink = {print_ids, &printing};
    char *input = NULL;
    const char *text = o->text, *path = words->words[1];
    size_t n = text ? strlen(text) : 0;
    if (text && path) return err_set(err, STATUS_USAGE, "give FILE or --text, not both");
    interrupt_catch();
    enum status status = open_tokenizer(words->words[0], &tokenizer, err);
    if (!status && path && strcmp(path, "-") != 0) {
        status = file_map_open(path, &map, err);
        text = (const char *)map.data;
        n = map.size;
    } else if (!status && !text) {
        status = read_input(&input, &n, err);
        text = input;
    }
    if (!status) {
        status = o->prompt ? print_prompt(tokenizer, text, n, &printing, err)
                           : tokenizer_encode_stream(tokenizer, text, n, &sink, err);
        if (o->json && *printing.before == '[') putchar('['); /* without any id */
        puts(o->json && !status ? "]" : "");
    }
    file_map_close(&map);
    free(input);
    tokenizer_close(tokenizer);
    return status;
}

static const struct option_spec encode_options[] = {
    OPTION("text", OPTION_ANY_TEXT, AT(text), "TEXT", "the text, instead of FILE"),
    OPTION("prompt", OPTION_FLAG, AT(prompt), NULL,
           "with the tokens that the tokenizer puts around a prompt, such as BOS"),
    JSON_OPTION,
    {0},
};

static const struct command encode_command = COMMAND(
    "tokenizer encode", "TOKENIZER [FILE]", 1, 2, encode_options, "turn text into ids", encode,
    (struct options){0}, .about = "Prints the ids of FILE, TEXT or standard input on one line. " TOKENIZERS);

/* ---- decode ---- */

/* Parses the ids in `text`, separated by blanks, commas or brackets. */
static enum status parse_ids(const char *text, const struct tokenizer *tokenizer, struct token_list *list,
                             struct err *err)
{
    static const char between[] = " \t\r\n\v\f,[]";
    uint32_t limit = (uint32_t)tokenizer_vocab_size(tokenizer);
    enum status status = STATUS_OK;
    for (text += strspn(text, between); !status && *text; text += strspn(text, between)) {
        char *end;
        int length = (int)strcspn(text, between);
        unsigned long long id = strtoull(text, &end, 10);
        if (length > 20) length = 20;
        if (!isdigit((unsigned char)*text) || (*end && !strchr(between, *end)))
            return err_set(err, STATUS_USAGE, "\"%.*s\" is not a token id", length, text);
        if (id >= limit)
            return err_set(err, STATUS_USAGE, "the id %.*s is not in the vocabulary (ids are less than %u)",
                           end - text < 20 ? (int)(end - text) : 20, text, limit);
        uint32_t value = (uint32_t)id;
        status = token_list_append(list, &value, 1, err);
        text = end;
    }
    return status;
}

static enum status decode(const void *options, const struct words *words, struct err *err)
{
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    char *input = NULL, *text = NULL;
    size_t n = 0;
    (void)options;
    interrupt_catch();
    enum status status = open_tokenizer(words->words[0], &tokenizer, err);
    for (int i = 1; i < words->count && !status; i++)
        status = parse_ids(words->words[i], tokenizer, &list, err);
    if (!status && words->count == 1) {
        status = read_input(&input, &n, err);
        if (!status && memchr(input, '\0', n))
            status = err_set(err, STATUS_USAGE,
                             "standard input: contains a zero byte, so it is not a list of ids");
        if (!status) status = parse_ids(input, tokenizer, &list, err);
    }
    if (!status && !(text = tokenizer_decode(tokenizer, list.ids, list.count, &n)))
        status = err_no_memory(err, "the text of %zu tokens", list.count);
    if (!status) clean_print_raw(stdout, text, n);
    free(text);
    free(input);
    token_list_release(&list);
    tokenizer_close(tokenizer);
    return status;
}

static const struct command decode_command =
    COMMAND("tokenizer decode", "TOKENIZER [ID...]", 1, -1, NULL, "turn ids into text", decode,
            (struct options){0}, .blank = true,
            .about = "Reads ids from the command line or standard input (also a JSON list) and prints the "
                     "exact bytes, but no control characters to a terminal. " TOKENIZERS);

/* ---- info ---- */

/* The names of a normalizer's steps, "NFC" or "Prepend, Replace". */
static void name_steps(const struct normalizer *normalizer, char *buf, size_t size)
{
    static const char *const names[] = {
        [NORMAL_NFC] = "NFC",   [NORMAL_NFD] = "NFD",         [NORMAL_NFKC] = "NFKC",
        [NORMAL_NFKD] = "NFKD", [NORMAL_PREPEND] = "Prepend", [NORMAL_REPLACE] = "Replace"};
    snprintf(buf, size, "%s", normalizer->count ? "" : "none");
    for (size_t i = 0; i < normalizer->count; i++)
        text_add(buf, size, ", ", "%s", names[normalizer->steps[i].kind]);
}

/* Where encoding puts a space before text. */
static const char *prefix_space(const struct bpe *bpe)
{
    if (bpe->spaces.prefix) return bpe->spaces.first_only ? "first" : "always";
    for (size_t i = 0; i < bpe->normalizer.count; i++)
        if (bpe->normalizer.steps[i].kind == NORMAL_PREPEND) return "always";
    return "never";
}

/* The tokens around a prompt, as a list. */
static void show_around(struct output *o, const struct tokenizer *tokenizer, const char *name,
                        const struct bpe_around *around)
{
    char text[512] = "";
    if (o->json) json_out_open(&o->out, name, '[', JSON_OUT_FLAT);
    for (size_t i = 0; i < around->count; i++) {
        size_t n;
        const char *bytes = tokenizer_token_bytes(tokenizer, around->ids[i], &n);
        if (o->json) json_out_int(&o->out, NULL, around->ids[i]);
        text_add(text, sizeof text, ", ", "%u (%.*s)", around->ids[i], (int)n, bytes);
    }
    if (o->json) json_out_close(&o->out);
    if (!o->json && around->count) output_text(o, name, text);
}

static void show_definition(struct output *o, const struct tokenizer *tokenizer)
{
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    int vocab = tokenizer_vocab_size(tokenizer), fallback = 0;
    char checksum[17], steps[128];
    size_t longest = 0, n;
    for (int id = 0; id < vocab; id++) {
        tokenizer_token_bytes(tokenizer, (uint32_t)id, &n);
        if (n > longest) longest = n;
    }
    for (int b = 0; b < 256 && bpe->characters; b++) fallback += bpe->fallback_id[b] != BPE_NO_ID;
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)tokenizer_checksum(tokenizer));
    name_steps(&bpe->normalizer, steps, sizeof steps);
    OUTPUT_MEMBERS(o, "kind", tokenizer_kind(tokenizer), "vocab_size", vocab, "merges",
                   (int64_t)bpe->merge_count, "added_tokens", (int64_t)bpe->added_count, "normalizer", steps,
                   "ignore_merges", (bool)bpe->ignore_merges, "longest_token_bytes", (int64_t)longest,
                   "checksum", checksum);
    if (bpe->characters)
        OUTPUT_MEMBERS(o, "byte_fallback", (bool)(fallback == 256), "unknown_token",
                       bpe->unknown_id == BPE_NO_ID ? (int64_t)-1 : (int64_t)bpe->unknown_id);
    output_text(o, "prefix_space", prefix_space(bpe));
    show_around(o, tokenizer, "before_prompt", &bpe->before);
    show_around(o, tokenizer, "after_prompt", &bpe->after);
    if (o->json) json_out_open(&o->out, "split_patterns", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < bpe->pattern_count; i++)
        output_text(o, o->json ? NULL : "split_pattern", bpe->patterns[i]);
    if (o->json) json_out_close(&o->out);
}

static enum status info(const void *options, const struct words *words, struct err *err)
{
    struct output o;
    struct tokenizer *tokenizer = NULL;
    enum status status = open_tokenizer(words->words[0], &tokenizer, err);
    if (status) return status;
    output_begin(&o, ((const struct options *)options)->json);
    show_definition(&o, tokenizer);
    status = output_end(&o, err);
    tokenizer_close(tokenizer);
    return status;
}

static const struct option_spec info_options[] = {
    JSON_OPTION,
    {0},
};

static const struct command info_command =
    COMMAND("tokenizer info", "TOKENIZER", 1, 1, info_options, "describe a tokenizer", info,
            (struct options){0}, .about = "Describes a tokenizer. " TOKENIZERS);

static const struct command *const subcommands[] = {&train_command, &encode_command, &decode_command,
                                                    &info_command, NULL};

const struct command command_tokenizer = {
    .line = {.name = "tokenizer",
             .words = "train|encode|decode|info",
             .notes = "  anneal tokenizer train kjv --vocab 2048 -o kjv.json\n"
                      "  anneal tokenizer encode kjv.json --text 'In the beginning'\n"
                      "  anneal tokenizer encode kjv.json --text 'In the beginning' | anneal tokenizer "
                      "decode kjv.json\n"
                      "  anneal tokenizer info kjv.json"},
    .summary = "learn a tokenizer, turn text into ids and back",
    .subcommands = subcommands,
};
