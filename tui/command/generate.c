/* anneal generate: text from a checkpoint of a run, normally its newest, or from a checkpoint folder. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clean.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/generate/generate.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/run_commands.h"
#include "tui/session/device_choice.h"
#include "tui/session/interrupt.h"
#include "tui/session/loaded_model.h"
#include "tui/session/model_folder.h"

static const char help[] =
    "usage: anneal generate RUN|FOLDER --prompt TEXT [options]\n"
    "\n"
    "Continues TEXT with the newest checkpoint of RUN, or with a checkpoint folder (one that holds a "
    "config.json),\n"
    "or an imported model by its name (anneal model import).\n"
    "\n"
    "  --best              the checkpoint with RUN's best validation loss\n"
    "  --step N            RUN's checkpoint of step N\n"
    "  --max-tokens N      how many tokens to add (default 200)\n"
    "  --temperature T     0: always the likeliest token (default 0.8)\n"
    "  --top-k K           draw among the K likeliest; 0: all (default 50)\n"
    "  --top-p P           draw among the likeliest that together reach P (default 1)\n"
    "  --seed S            same seed, same text (default 1)\n"
    "  --device D          cpu | cuda | auto (default cpu; fp32)\n"
    "  --json              one JSON object instead of text\n";

struct options {
    const char *prompt, *device;
    int64_t max_tokens;
    struct sampling sampling;
    struct model_choice model;
    bool json;
};

static enum status unknown_option(const char *word, const struct option *longs, struct err *err)
{
    const char *names[16];
    size_t count = 0;
    for (; longs[count].name && count < 16; count++) names[count] = longs[count].name;
    const char *nearest = text_nearest(word + strspn(word, "-"), names, count);
    return err_set(err, STATUS_USAGE, "unknown option %.60s%s%s%s", word, nearest ? " (did you mean --" : "",
                   nearest ? nearest : "", nearest ? "?)" : "");
}

/* What the value of an option must be. */
static const char *wanted(int option)
{
    return option == 'n'   ? "a number of tokens from 1 to 999999"
           : option == 't' ? "a temperature from 0 to 1000"
           : option == 'k' ? "a number of tokens from 0 (all) to 16777216"
           : option == 'P' ? "a probability above 0, at most 1"
           : option == 'N' ? "the step of a checkpoint, from 0"
                           : "a whole number from 0";
}

static enum status read_options(int argc, char **argv, struct options *o, struct err *err)
{
    static const struct option longs[] = {{"prompt", 1, 0, 'p'},
                                          {"max-tokens", 1, 0, 'n'},
                                          {"temperature", 1, 0, 't'},
                                          {"top-k", 1, 0, 'k'},
                                          {"top-p", 1, 0, 'P'},
                                          {"seed", 1, 0, 's'},
                                          {"json", 0, 0, 'j'},
                                          {"best", 0, 0, 'b'},
                                          {"step", 1, 0, 'N'},
                                          {"device", 1, 0, 'd'},
                                          {0}};
    int64_t whole = 0;
    double real = 0;
    *o = (struct options){.prompt = "\n",
                          .device = "cpu",
                          .max_tokens = 200,
                          .model = {"generate", "generating", .step = -1},
                          .sampling = {0.8, 50, 1, 1}};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", longs, NULL)) != -1;) {
        bool good = true;
        switch (c) {
        case 'p':
            o->prompt = optarg;
            break;
        case 'n':
            good = text_parse_int(optarg, &o->max_tokens) && o->max_tokens > 0 && o->max_tokens < 1000000;
            break;
        case 't':
            good = text_parse_double(optarg, &o->sampling.temperature) && o->sampling.temperature >= 0 &&
                   o->sampling.temperature <= 1000;
            break;
        case 'k':
            good = text_parse_int(optarg, &whole) && whole >= 0 && whole <= 1 << 24;
            o->sampling.top_k = (int)whole;
            break;
        case 'P':
            good = text_parse_double(optarg, &real) && real > 0 && real <= 1;
            o->sampling.top_p = real;
            break;
        case 's':
            good = text_parse_int(optarg, &whole) && whole >= 0;
            o->sampling.seed = (uint64_t)whole;
            break;
        case 'j':
            o->json = true;
            break;
        case 'b':
            o->model.best = true;
            break;
        case 'N':
            good = text_parse_int(optarg, &o->model.step) && o->model.step >= 0;
            break;
        case 'd':
            if (device_choice_check(optarg, err)) return err->status;
            o->device = optarg;
            break;
        case ':':
            return err_set(err, STATUS_USAGE, "%.60s needs a value", argv[optind - 1]);
        default:
            return unknown_option(argv[optind - 1], longs, err);
        }
        if (!good) {
            const struct option *option = longs;
            while (option->val != c) option++;
            return err_set(err, STATUS_USAGE, "--%s %.60s: must be %s", option->name, optarg, wanted(c));
        }
    }
    if (optind + 1 != argc) return err_set(err, STATUS_USAGE, "name one run or one checkpoint folder");
    if (o->model.best && o->model.step >= 0) return err_set(err, STATUS_USAGE, "--best or --step, not both");
    o->model.source = argv[optind];
    return STATUS_OK;
}

/* What generation holds open. */
struct voice {
    struct loaded_model loaded;
    struct tokenizer *tokenizer;
    struct generator generator;
};

static enum status open_voice(struct voice *v, const char *folder, const char *device,
                              enum allocator_kind allocator, struct err *err)
{
    char path[PATH_MAX + 32];
    struct loaded_wish wish = {.B = 1, .T = 512, .allocator = allocator};
    enum status status = loaded_model_describe(&v->loaded, folder, err);
    if (!status) status = loaded_model_load(&v->loaded, folder, device, wish, "generating", err);
    if (!status && *v->loaded.choice.why) command_warn("generating on the CPU: %s", v->loaded.choice.why);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!status && !file_exists(path))
        status = err_set(
            err, STATUS_NOT_FOUND,
            "%s: is not there: the model was trained on token files that name no tokenizer (copy theirs "
            "to this place)",
            path);
    if (!status) status = tokenizer_open_json(path, &v->tokenizer, err);
    return status ? status : generator_open(&v->generator, &v->loaded.network, v->tokenizer, err);
}

static void close_voice(struct voice *v)
{
    generator_close(&v->generator);
    tokenizer_close(v->tokenizer);
    loaded_model_close(&v->loaded);
}

/* `bytes` as JSON text: what is not UTF-8 becomes U+FFFD. NULL without memory. */
static json_t *json_text(const char *bytes, size_t length)
{
    char *clean = malloc(3 * length + 1);
    if (!clean) return NULL;
    clean_block(clean, 3 * length + 1, bytes, length);
    json_t *json = json_string(clean);
    free(clean);
    return json;
}

/* Prints what is complete of text[*done..length) and moves *done behind it: a terminal gets no control
 * characters and no half characters. */
static void print_new_text(const char *text, size_t length, size_t *done)
{
    char clean[1024];
    while (*done < length) {
        size_t n = length - *done < sizeof clean / 4 ? length - *done : sizeof clean / 4;
        size_t complete = n - utf8_incomplete_tail(text + *done, n);
        if (!complete) break;
        clean_block(clean, sizeof clean, text + *done, complete);
        fputs(clean, stdout);
        *done += complete;
    }
    fflush(stdout);
}

static enum status speak(struct voice *v, const struct options *o, struct err *err)
{
    char *text = NULL;
    size_t length = 0, done = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return err_set(err, STATUS_NO_MEMORY, "generate: no memory for the text");
    enum status status = generator_start(&v->generator, o->prompt, err);
    if (!status && !o->json) fputs(o->prompt, stdout);
    for (int64_t i = 0; !status && i < o->max_tokens && !interrupt_requested(); i++) {
        size_t n;
        uint32_t token = generator_next(&v->generator, &o->sampling, i);
        status = v->loaded.network.backend->stream_wait(v->loaded.network.stream, err);
        if (status) break; /* what came from a device that has failed is no token */
        const char *piece = tokenizer_token_bytes(v->tokenizer, token, &n);
        fwrite(piece, 1, n, out);
        if (fflush(out) != 0) status = err_set(err, STATUS_NO_MEMORY, "generate: no memory for the text");
        if (!o->json) print_new_text(text, length, &done);
        if (ferror(stdout)) break;
    }
    fclose(out);
    if (!o->json && (done > 0 || !status)) putchar('\n'); /* before an error, too */
    if (!status && o->json)
        status = run_print_json(json_pack("{s:o s:o}", "prompt", json_text(o->prompt, strlen(o->prompt)),
                                          "text", json_text(text, length)),
                                err);
    free(text);
    if (!status) status = run_check_stdout(err);
    if (!status && interrupt_requested()) status = err_set(err, STATUS_INTERRUPTED, "generate: interrupted");
    return status;
}

int command_generate(int argc, char **argv)
{
    struct options options;
    struct voice voice = {0};
    struct err err = {0};
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return 0;
        }
    if (read_options(argc, argv, &options, &err)) return command_usage("generate", err.text);
    interrupt_catch();
    enum status status = model_choice_find(&options.model, folder, sizeof folder, &allocator, &err);
    if (!status) status = open_voice(&voice, folder, options.device, allocator, &err);
    if (!status) status = speak(&voice, &options, &err);
    close_voice(&voice);
    return status ? command_fail(&err) : 0;
}
