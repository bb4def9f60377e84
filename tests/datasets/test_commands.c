/* anneal data and anneal tokenizer, run as a user runs them: results on stdout, one sentence on stderr, exit
 * codes, and Ctrl-C that leaves nothing half-written. */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/corpus.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

struct result {
    int code; /* exit status, or 1000 + a signal's number */
    char *out, *err;
    size_t out_n;
};

/* Starts `anneal WORDS...` (ended by NULL) with `input` as its standard input. */
static pid_t start(const char *input, const char *const *words)
{
    const char *binary = getenv("ANNEAL_BINARY");
    const char *in = scratch_path("stdin"), *out = scratch_path("stdout"), *err = scratch_path("stderr");
    assert_non_null(binary);
    scratch_write(in, input, strlen(input));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *argv[24] = {binary};
        for (int i = 0; words[i]; i++) argv[i + 1] = words[i];
        int fds[3] = {open(in, O_RDONLY), open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600),
                      open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600)};
        for (int i = 0; i < 3; i++) dup2(fds[i], i);
        execv(binary, (char *const *)argv);
        _exit(126);
    }
    return child;
}

static struct result finish(pid_t child)
{
    struct result result = {0};
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    result.code = WIFEXITED(code) ? WEXITSTATUS(code) : 1000 + WTERMSIG(code);
    result.out = scratch_read(scratch_path("stdout"), &result.out_n);
    result.err = scratch_read(scratch_path("stderr"), NULL);
    return result;
}

#define RUN(input, ...) finish(start(input, (const char *const[]){__VA_ARGS__, NULL}))

static void release(struct result *result)
{
    free(result->out);
    free(result->err);
}

static void assert_run(struct result result, int code, const char *out, const char *err)
{
    if (result.code != code || !strstr(result.out, out) || !strstr(result.err, err))
        fail_msg("exit %d, not %d, or not \"%s\" and \"%s\":\n%s\n%s", result.code, code, out, err,
                 result.out, result.err);
    release(&result);
}

#define SAMPLE TOKENIZER_FIXTURES "sample.txt"

TEST_CASE(help_teaches_with_examples)
{
    assert_run(RUN("", "data", "--help"), 0, "anneal data prepare kjv -o kjv.tok", "");
    assert_run(RUN("", "data", "prepare", "-h"), 0, "usage: anneal data prepare INPUT... -o FILE.tok", "");
    assert_run(RUN("", "tokenizer", "--help"), 0, "anneal tokenizer train kjv --vocab 2048", "");
    assert_run(RUN("", "tokenizer", "decode", "--help"), 0, "usage: anneal tokenizer decode", "");
}

TEST_CASE(wrong_words_are_usage_errors)
{
    const char *path = scratch_path("usage.tok");
    assert_run(RUN("", "data"), 2, "", "anneal data --help)\n");
    assert_run(RUN("", "data", "prepar"), 2, "", "did you mean \"prepare\"?");
    assert_run(RUN("", "data", "prepare"), 2, "", "prepare: needs INPUT...");
    assert_run(RUN("", "tokenizer", "train"), 2, "", "train: needs INPUT...");
    assert_run(RUN("", "tokenizer", "encode"), 2, "", "encode: needs TOKENIZER [FILE]");
    assert_run(RUN("", "tokenizer", "info"), 2, "", "info: needs TOKENIZER");
    assert_run(RUN("", "data", "prepare", SAMPLE), 2, "", "needs -o FILE.tok");
    assert_run(RUN("", "data", "prepare", SAMPLE, "-o"), 2, "", "--output: needs a value, FILE.tok");
    assert_run(RUN("", "data", "prepare", SAMPLE, "-o", path, "--frobnicate"), 2, "",
               "unknown option --frobnicate");
    assert_run(RUN("", "data", "prepare", SAMPLE, "-o", path, "--vocab", "300"), 2, "",
               "unknown option --vocab");
    assert_run(RUN("", "data", "prepare", SAMPLE, "-o", path, "-t", "bpe:many"), 2, "", "\"bpe:many\"");
    assert_run(RUN("", "data", "prepare", SAMPLE, "-o", path, "--progress", "loud"), 2, "", "loud");
    assert_run(RUN("", "data", "info", SAMPLE), 2, "", "end with .tok");
    assert_run(RUN("", "data", "info", SAMPLE, "b.tok"), 2, "", "is a token file and");
    assert_run(RUN("", "data", "info"), 2, "", "info: needs FILE...");
    assert_run(RUN("", "tokenizer", "train", SAMPLE, "-o", "x.json"), 2, "", "--vocab");
    assert_run(RUN("", "tokenizer", "train", SAMPLE, "--vocab", "0", "-o", "x.json"), 2, "", "--vocab");
    assert_run(RUN("", "tokenizer", "train", SAMPLE, "--vocab", "255", "-o", "x.json"), 2, "", "256");
    assert_run(RUN("", "tokenizer", "encode", "bpe:300"), 2, "", "bpe:300");
    assert_run(RUN("", "tokenizer", "decode", "bytes", "12", "x"), 2, "", "\"x\" is not a token id");
    assert_run(RUN("", "tokenizer", "decode", "bytes", "256"), 2, "", "ids are less than 256");
    assert_run(RUN("", "tokenizer", "decode", "bytes", "99999999999999999999999"), 2, "",
               "ids are less than 256");
    assert_false(file_exists(path));
}

TEST_CASE(failures_are_one_sentence)
{
    const char *path = scratch_path("failed.tok");
    scratch_write(scratch_path("empty.txt"), "", 0);
    assert_run(RUN("", "data", "prepare", scratch_path("absent"), "-o", path), 1, "",
               "/absent: no such file");
    assert_run(RUN("", "data", "prepare", scratch_path("empty.txt"), "-o", path), 1, "", "is empty");
    assert_run(RUN("", "data", "prepare", SAMPLE, "-o", scratch_path("absent/x.tok")), 1, "",
               "/absent/x.tok");
    assert_run(RUN("", "data", "info", scratch_path("absent.tok")), 1, "", "/absent.tok");
    assert_run(RUN("", "data", "fetch", "kjw"), 1, "", "kjw: no such recipe");
    assert_run(RUN("", "tokenizer", "info", SAMPLE), 1, "", "is this a tokenizer.json?");
    assert_run(RUN("", "tokenizer", "encode", "bytes", scratch_path("absent")), 1, "", "/absent");
    struct result result = RUN("", "data", "info", scratch_path("absent.tok"));
    assert_string_equal(result.out, "");
    assert_ptr_equal(strchr(result.err, '\n'), result.err + strlen(result.err) - 1); /* one line */
    release(&result);
}

TEST_CASE(prepared_text_can_be_looked_into)
{
    const char *path = scratch_path("looked.tok");
    assert_run(RUN("", "data", "prepare", SAMPLE, "--tokenizer", "bpe:300", "-o", path), 0,
               "vocab_size         300\n", "");
    assert_run(RUN("", "data", "info", path), 0, "tokenizer          bpe:300\n", "");
    struct result result = RUN("", "data", "info", path, "--json");
    assert_int_equal(result.code, 0);
    json_t *info = json_loads(result.out, 0, NULL);
    assert_non_null(info);
    assert_int_equal(json_integer_value(json_object_get(info, "vocab_size")), 300);
    assert_int_equal(json_integer_value(json_object_get(info, "text_bytes")), 39920);
    assert_int_equal(json_array_size(json_object_get(info, "top")), 10);
    size_t n;
    char *sidecar = scratch_read(scratch_path("looked.tok.json"), &n);
    const char *checksum = json_string_value(json_object_get(info, "tokenizer_checksum"));
    assert_true(checksum && strlen(checksum) == 16 && memmem(sidecar, n, checksum, 16));
    free(sidecar);
    double entropy = json_real_value(json_object_get(info, "entropy_bits"));
    assert_true(entropy > 4 && entropy < 8.3);
    json_int_t before =
        json_integer_value(json_object_get(json_array_get(json_object_get(info, "top"), 0), "count"));
    for (size_t i = 1; i < 10; i++) {
        json_t *entry = json_array_get(json_object_get(info, "top"), i);
        assert_true(json_integer_value(json_object_get(entry, "count")) <= before);
        before = json_integer_value(json_object_get(entry, "count"));
    }
    json_decref(info);
    release(&result);
    result = RUN("", "data", "prepare", SAMPLE, "-t", "bytes", "-o", path, "--json");
    json_t *made = json_loads(result.out, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(made, "tokens")), 39920);
    json_decref(made);
    release(&result);
    const char *odd = scratch_path("odd.txt");
    scratch_write(odd, "\x7F\x7F\x7F\\\\\x01", 6);
    assert_run(RUN("", "data", "prepare", odd, "-t", "bytes", "-o", path), 0, "", "");
    result = RUN("", "data", "info", path);
    assert_true(strstr(result.out, " \\x7f\n") && strstr(result.out, " \\x5c\n") &&
                strstr(result.out, " \\x01\n"));
    release(&result);
}

TEST_CASE(shards_can_be_looked_into)
{
    static const uint32_t ids[] = {72, 105, 72, 255, 10};
    const char *a = scratch_path("a.bin"), *b = scratch_path("b.bin");
    scratch_shard(a, SHARD_16, 1, 5, ids, 5);
    scratch_shard(b, SHARD_32, 7, 4, ids, 4);
    assert_run(RUN("", "data", "info", a), 0, "  llm.c shard, 16 bits       5     1.0 KiB\n", "");
    assert_run(RUN("", "data", "info", a), 0, "tokenizer_found    no\n", "");
    assert_run(RUN("", "data", "info", a, b), 0, "\nfile_bytes         2.0 KiB\n", "");
    assert_run(RUN("", "data", "info", a, b), 0, "  llm.c shard, 32 bits       4     1.0 KiB\n", "");
    assert_run(RUN("", "data", "info", a, b, "-t", "bytes"), 0, "   72      4  0.4444  H\n", "");
    struct result result = RUN("", "data", "info", b, a, "--json");
    json_t *info = json_loads(result.out, 0, NULL), *files = json_object_get(info, "files");
    assert_int_equal(json_integer_value(json_object_get(info, "tokens")), 9);
    assert_int_equal(json_integer_value(json_object_get(info, "vocab_size")), 256);
    assert_int_equal(json_array_size(files), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(files, 0), "path")), b);
    assert_string_equal(json_string_value(json_object_get(json_array_get(files, 1), "format")),
                        "llm.c shard, 16 bits");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 1), "tokens")), 5);
    json_decref(info);
    release(&result);
    scratch_shard(b, SHARD_32, 7, 40, ids, 4);
    assert_run(RUN("", "data", "info", a, b), 1, "", "b.bin: is truncated");
}

TEST_CASE(a_tokenizer_is_trained_encodes_and_decodes)
{
    const char *path = scratch_path("trained.json");
    assert_run(RUN("", "tokenizer", "train", SAMPLE, "--vocab", "300", "-o", path), 0, "300 tokens", "");
    assert_run(RUN("", "tokenizer", "train", SAMPLE, "--vocab", "310", "-o", path), 2, "",
               "the file exists already");
    assert_run(RUN("", "tokenizer", "info", path), 0, "vocab_size         300\n", "");
    assert_run(RUN("", "tokenizer", "info", path, "--json"), 0, "\"merges\": 44", "");
    assert_run(RUN("", "tokenizer", "info", "bytes"), 0, "kind               bytes\n", "");
    struct result ids = RUN("God \xFF said\n", "tokenizer", "encode", path);
    assert_int_equal(ids.code, 0);
    struct result text = RUN(ids.out, "tokenizer", "decode", path);
    assert_int_equal(text.code, 0);
    assert_string_equal(text.out, "God \xFF said\n");
    release(&ids);
    release(&text);
    ids = RUN("", "tokenizer", "encode", path, "--json", "--text", "and the earth");
    json_t *list = json_loads(ids.out, 0, NULL);
    assert_true(json_array_size(list) > 1);
    json_decref(list);
    text = RUN(ids.out, "tokenizer", "decode", path);
    assert_string_equal(text.out, "and the earth");
    release(&ids);
    release(&text);
    assert_run(RUN("", "tokenizer", "encode", "bytes", "--text", "AB"), 0, "65 66\n", "");
    assert_run(RUN("", "tokenizer", "encode", "bytes", "--json"), 0, "[]\n", "");
    assert_run(RUN("", "tokenizer", "decode", "bytes", "72", "105"), 0, "Hi", "");
    assert_run(RUN("[72,\n 105]\n", "tokenizer", "decode", "bytes"), 0, "Hi", "");
    ids = RUN("", "tokenizer", "encode", "bytes", SAMPLE);
    assert_true(ids.out_n > 100000);
    release(&ids);
    assert_int_equal(unlink(path), 0);
    assert_run(RUN("", "tokenizer", "train", SAMPLE, "--vocab", "100000", "-o", path), 0, "learned in",
               "pairs to merge for only");
}

TEST_CASE(a_foreign_tokenizer_is_described_and_begins_a_prompt)
{
    static const char llama2[] = TOKENIZER_FIXTURES "llama2_style.json",
                      flags[] = TOKENIZER_FIXTURES "flags_style.json";
    assert_run(RUN("", "tokenizer", "info", llama2), 0, "kind               sentencepiece\n", "");
    assert_run(RUN("", "tokenizer", "info", llama2), 0, "normalizer         Prepend, Replace\n", "");
    assert_run(RUN("", "tokenizer", "info", llama2), 0, "byte_fallback      yes\n", "");
    assert_run(RUN("", "tokenizer", "info", llama2), 0, "prefix_space       always\n", "");
    assert_run(RUN("", "tokenizer", "info", TOKENIZER_FIXTURES "partial_style.json"), 0,
               "prefix_space       never\n", "");
    assert_run(RUN("", "tokenizer", "info", llama2), 0, "before_prompt      1 (<s>)\n", "");
    assert_run(RUN("", "tokenizer", "info", flags, "--json"), 0, "\"after_prompt\": [381]", "");
    assert_run(RUN("", "tokenizer", "info", TOKENIZER_FIXTURES "mistral_style.json"), 0,
               "prefix_space       first\n", "");
    assert_run(RUN("", "tokenizer", "info", "bytes", "--json"), 0, "\"before_prompt\": []", "");
    assert_run(RUN("", "tokenizer", "encode", llama2, "--text", "In the"), 0, "336 497 263\n", "");
    assert_run(RUN("", "tokenizer", "encode", llama2, "--text", "In the", "--prompt"), 0, "1 336 497 263\n",
               "");
    assert_run(RUN("", "tokenizer", "encode", llama2, "--text", "", "--prompt", "--json"), 0, "[1]\n", "");
    assert_run(RUN("", "tokenizer", "encode", llama2, "--text", "", "--json"), 0, "[]\n", "");
    assert_run(RUN("", "tokenizer", "encode", flags, "--text", "", "--prompt"), 0, "380 381\n", "");
    assert_run(RUN("", "tokenizer", "decode", llama2, "336", "497", "263"), 0, "In the", "");
}

TEST_CASE(recipes_are_listed_and_fetched)
{
    assert_run(RUN("", "data", "fetch"), 0, "kjv ", "");
    struct result result = RUN("", "data", "fetch", "kjv");
    if (result.code && strstr(result.err, "apt install bible-kjv")) {
        release(&result);
        skip();
    }
    assert_int_equal(result.code, 0);
    assert_string_equal(result.err, "");
    result.out[strcspn(result.out, "\n")] = '\0';
    assert_true(strncmp(result.out, getenv("ANNEAL_HOME"), strlen(getenv("ANNEAL_HOME"))) == 0);
    size_t n;
    char *text = scratch_read(result.out, &n);
    assert_true(n > 4000000);
    free(text);
    release(&result);
}

TEST_CASE(an_interrupt_leaves_nothing_half_written)
{
    /* The input is a pipe without a writer: the command waits for it until the signal. */
    const char *folder = scratch_path("interrupted"), *fifo = scratch_path("interrupted/fifo");
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_run(RUN("", "data", "prepare", fifo, "-o", scratch_path("interrupted/x.tok")), 2, "",
               "a device or pipe");
    assert_int_equal(unlink(fifo), 0);
    /* A signal as soon as the temporary token file is there: the text is long enough to be still encoding. */
    size_t n;
    char *text = scratch_read(SAMPLE, &n), *large = malloc(600 * n);
    assert_non_null(large);
    for (int i = 0; i < 600; i++) memcpy(large + (size_t)i * n, text, n);
    const char *input = scratch_path("large.txt"), *path = scratch_path("interrupted/x.tok");
    scratch_write(input, large, 600 * n);
    free(text);
    free(large);
    static const int signals[] = {SIGINT, SIGTERM}, codes[] = {130, 143};
    for (int i = 0; i < 2; i++) {
        char temporary[8192];
        pid_t child = start("", (const char *const[]){"data", "prepare", input, "-t",
                                                      TOKENIZER_FIXTURES "ours.json", "-o", path, NULL});
        snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)child);
        while (!file_exists(temporary) && waitpid(child, NULL, WNOHANG) == 0) usleep(200);
        assert_int_equal(kill(child, signals[i]), 0);
        assert_run(finish(child), codes[i], "", "interrupted");
        assert_int_equal(scratch_entries(folder), 0);
    }
}

TEST_MAIN()
