/* anneal tokenizer train | encode | decode | info. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/bpe.h"
#include "datasets/corpus.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/text_options.h"
#include "tui/session/interrupt.h"

static const char help[] =
    "anneal tokenizer: learn a byte-level BPE, and turn text into token ids and back\n"
    "\n"
    "usage: anneal tokenizer train INPUT... --vocab N -o tokenizer.json [--progress auto|bar|plain|none]\n"
    "       anneal tokenizer encode T [FILE | --text TEXT] [--json]\n"
    "       anneal tokenizer decode T [ID...]\n"
    "       anneal tokenizer info T [--json]\n"
    "\n"
    "T is bytes (256 ids, one a byte) or the path of a tokenizer.json: one of ours, or Hugging Face's with "
    "byte-level\n"
    "BPE (GPT-2, Llama 3, Qwen, SmolLM). What train writes loads in Hugging Face's library and encodes the "
    "same.\n"
    "\n"
    "train    learns from INPUT (files, folders of text files, names of recipes); the 256 bytes count "
    "towards N.\n"
    "encode   reads FILE, TEXT or standard input, prints the ids on one line, or as a JSON list.\n"
    "decode   reads ids from the command line or standard input (also a JSON list) and prints the exact "
    "bytes.\n"
    "\n"
    "examples:\n"
    "  anneal tokenizer train kjv --vocab 2048 -o kjv.json\n"
    "  anneal tokenizer encode kjv.json --text 'In the beginning'\n"
    "  anneal tokenizer encode kjv.json --text 'In the beginning' | anneal tokenizer decode kjv.json\n"
    "  anneal tokenizer info kjv.json\n";

static int fail(enum status status, const char *what, const char *why)
{
    struct err err;
    err_set(&err, status, "%s: %s", what, why);
    return command_fail(&err);
}

/* ---- train ---- */

static int train(const struct text_options *options)
{
    char home[PATH_MAX], cache[PATH_MAX + 8], vocab[32], duration[32];
    struct err err = {0};
    struct progress_bar bar;
    struct tokenizer *tokenizer = NULL;
    if (!options->vocab) return command_usage("tokenizer", "train needs --vocab N, for example --vocab 2048");
    if (!options->output) return command_usage("tokenizer", "train needs -o tokenizer.json");
    if (file_anneal_home(home, sizeof home, &err)) return command_fail(&err);
    snprintf(cache, sizeof cache, "%s/data", home);
    progress_bar_init(&bar, stderr, options->progress);
    struct progress progress = progress_bar_observer(&bar);
    interrupt_catch();
    double start = clock_monotonic();
    enum status status =
        corpus_train_tokenizer((const char *const *)options->words, (size_t)options->word_count,
                               (int)options->vocab, cache, options->output, &progress, &tokenizer, &err);
    progress_bar_clear(&bar);
    if (!status) status = tokenizer_save_json(tokenizer, options->output, &err);
    if (status) {
        tokenizer_close(tokenizer);
        return command_fail(&err);
    }
    int made = tokenizer_vocab_size(tokenizer);
    printf("%s: %s tokens, learned in %s\n", options->output,
           text_options_number((uint64_t)made, vocab, sizeof vocab),
           clock_format_duration(clock_monotonic() - start, duration, sizeof duration));
    if (made < options->vocab)
        fprintf(stderr,
                "anneal: the text has no more pairs to merge than for %d of the %lld tokens asked for\n",
                made, (long long)options->vocab);
    tokenizer_close(tokenizer);
    return 0;
}

/* ---- encode ---- */

/* All of standard input, yours to free; NULL after a message. */
static char *read_input(size_t *n)
{
    size_t capacity = 1 << 16, count = 0;
    char *bytes = malloc(capacity);
    while (bytes) {
        ssize_t got = read(0, bytes + count, capacity - count);
        if (got < 0 && errno == EINTR && !interrupt_requested()) continue;
        if (got < 0) {
            fail(errno == EINTR ? STATUS_INTERRUPTED : STATUS_IO, "standard input", strerror(errno));
            free(bytes);
            return NULL;
        }
        if (got == 0) {
            *n = count;
            return bytes;
        }
        count += (size_t)got;
        if (count < capacity) continue;
        char *grown = realloc(bytes, capacity *= 2);
        if (!grown) break;
        bytes = grown;
    }
    free(bytes);
    fail(STATUS_NO_MEMORY, "standard input", "not enough memory to hold it");
    return NULL;
}

struct printing {
    bool json, begun;
};

static enum status print_ids(void *context, const uint32_t *ids, size_t count, uint64_t done, struct err *err)
{
    struct printing *p = context;
    (void)done;
    for (size_t i = 0; i < count; i++) {
        if (p->begun) fputs(p->json ? ", " : " ", stdout);
        p->begun = true;
        printf("%u", ids[i]);
    }
    if (ferror(stdout)) return err_set(err, STATUS_IO, "standard output: %s", strerror(errno));
    return interrupt_requested() ? err_set(err, STATUS_INTERRUPTED, "interrupted") : STATUS_OK;
}

static int encode(const struct text_options *options)
{
    struct err err = {0};
    struct tokenizer *tokenizer = NULL;
    struct file_map map = {0};
    struct printing printing = {.json = options->json};
    struct token_sink sink = {print_ids, &printing};
    char *input = NULL;
    const char *text = options->text;
    size_t n = text ? strlen(text) : 0;
    int code = 0;
    if (text && options->word_count > 1)
        return command_usage("tokenizer", "encode takes FILE or --text, not both");
    interrupt_catch();
    if (tokenizer_open(options->words[0], &tokenizer, &err)) return command_fail(&err);
    if (!text && options->word_count > 1 && strcmp(options->words[1], "-") != 0) {
        if (file_map_open(options->words[1], &map, &err)) {
            code = command_fail(&err);
            goto out;
        }
        text = (const char *)map.data;
        n = map.size;
    } else if (!text) {
        if (!(text = input = read_input(&n))) {
            code = interrupt_requested() ? 130 : 1;
            goto out;
        }
    }
    if (options->json) putchar('[');
    if (tokenizer_encode_stream(tokenizer, text, n, &sink, &err)) {
        putchar('\n');
        code = command_fail(&err);
        goto out;
    }
    puts(options->json ? "]" : "");
out:
    file_map_close(&map);
    free(input);
    tokenizer_close(tokenizer);
    return code;
}

/* ---- decode ---- */

/* The ids that `text` writes with anything but letters between them. */
static enum status parse_ids(const char *text, size_t n, const struct tokenizer *tokenizer,
                             struct token_list *list, struct err *err)
{
    uint32_t limit = (uint32_t)tokenizer_vocab_size(tokenizer);
    for (size_t i = 0; i < n;) {
        if (isspace((unsigned char)text[i]) || strchr(",[]", text[i] ? text[i] : 'x')) {
            i++;
            continue;
        }
        size_t start = i;
        uint64_t id = 0;
        for (; i < n && isdigit((unsigned char)text[i]); i++)
            if (id < limit) id = 10 * id + (uint64_t)(text[i] - '0');
        if (i == start)
            return err_set(err, STATUS_USAGE, "\"%.*s\" is not a token id", n - i < 20 ? (int)(n - i) : 20,
                           text + i);
        if (id >= limit)
            return err_set(err, STATUS_USAGE, "the id %.*s is not in the vocabulary (ids are below %u)",
                           i - start < 20 ? (int)(i - start) : 20, text + start, limit);
        uint32_t value = (uint32_t)id;
        enum status status = token_list_append(list, &value, 1, err);
        if (status) return status;
    }
    return STATUS_OK;
}

static int decode(const struct text_options *options)
{
    struct err err = {0};
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    enum status status = STATUS_OK;
    char *input = NULL, *text = NULL;
    size_t n = 0;
    int code = 0;
    interrupt_catch();
    if (tokenizer_open(options->words[0], &tokenizer, &err)) return command_fail(&err);
    for (int i = 1; i < options->word_count && !status; i++)
        status = parse_ids(options->words[i], strlen(options->words[i]), tokenizer, &list, &err);
    if (!status && options->word_count == 1) {
        if (!(input = read_input(&n))) {
            code = interrupt_requested() ? 130 : 1;
            goto out;
        }
        status = parse_ids(input, n, tokenizer, &list, &err);
    }
    if (!status && !(text = tokenizer_decode(tokenizer, list.ids, list.count, &n)))
        status = err_set(&err, STATUS_NO_MEMORY, "not enough memory to decode %zu tokens", list.count);
    if (status)
        code = command_fail(&err);
    else if (fwrite(text, 1, n, stdout) != n)
        code = fail(STATUS_IO, "standard output", strerror(errno));
out:
    free(text);
    free(input);
    token_list_release(&list);
    tokenizer_close(tokenizer);
    return code;
}

/* ---- info ---- */

static int info(const struct text_options *options)
{
    static const char *const forms[] = {"none", "NFC", "NFD", "NFKC", "NFKD"};
    struct err err = {0};
    struct tokenizer *tokenizer = NULL;
    char checksum[17];
    size_t longest = 0, n;
    if (tokenizer_open(options->words[0], &tokenizer, &err)) return command_fail(&err);
    const struct bpe *bpe = tokenizer_bpe(tokenizer);
    const struct bpe_spec none = {0}, *spec = bpe ? bpe_definition(bpe) : &none;
    int vocab = tokenizer_vocab_size(tokenizer);
    for (int id = 0; id < vocab; id++) {
        tokenizer_token_bytes(tokenizer, (uint32_t)id, &n);
        if (n > longest) longest = n;
    }
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)tokenizer_checksum(tokenizer));
    if (options->json) {
        json_t *patterns = json_array();
        for (size_t i = 0; i < spec->pattern_count; i++)
            json_array_append_new(patterns, json_string(spec->patterns[i]));
        json_t *root = json_pack(
            "{s:s, s:i, s:I, s:I, s:s, s:b, s:I, s:s, s:o}", "kind", tokenizer_kind(tokenizer), "vocab_size",
            vocab, "merges", (json_int_t)spec->merge_count, "added_tokens", (json_int_t)spec->added_count,
            "normalizer", forms[spec->normal_form], "ignore_merges", spec->ignore_merges,
            "longest_token_bytes", (json_int_t)longest, "checksum", checksum, "split_patterns", patterns);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else {
        printf("kind         %s\nvocabulary   %d\nmerges       %zu%s\nadded        %zu\nnormalizer   %s\n",
               tokenizer_kind(tokenizer), vocab, spec->merge_count,
               spec->ignore_merges ? " (not asked for pieces that are tokens)" : "", spec->added_count,
               forms[spec->normal_form]);
        for (size_t i = 0; i < spec->pattern_count; i++) printf("split        %s\n", spec->patterns[i]);
        printf("longest      %zu bytes\nchecksum     %s\n", longest, checksum);
    }
    tokenizer_close(tokenizer);
    return 0;
}

int command_tokenizer(int argc, char **argv)
{
    static const char tokenizer_needed[] = "a tokenizer T: bytes, or the path of a tokenizer.json";
    static const struct subcommand subcommands[] = {
        {"train", "vop", 1, -1, "an INPUT: a file, a folder or the name of a recipe", false, train},
        {"encode", "xj", 1, 2, tokenizer_needed, false, encode},
        {"decode", "", 1, -1, tokenizer_needed, true, decode},
        {"info", "j", 1, 1, tokenizer_needed, false, info},
        {0},
    };
    return text_command_run(argc, argv, subcommands, help);
}
