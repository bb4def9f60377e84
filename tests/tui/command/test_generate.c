/* `generate` as a user runs it: where a text ends, and what is said of its speed. */
#include <jansson.h>
#include <signal.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* A run, and its model in a folder that a test may change. */
static void open_model(struct stage *s, char folder[600])
{
    process_run(0, "train", s->config, "--train.total_steps=3", "--progress=none", NULL);
    snprintf(folder, 600, "%s/mine", s->folder);
    process_output("model", "export", "latest", "-o", folder, NULL);
}

static json_t *generate(const char *model, const char *option)
{
    json_t *json = stage_json(process_output("generate", model, "--json", "--prompt=the", "--temperature=0",
                                             "--max-tokens=40", option, NULL));
    assert_non_null(json);
    return json;
}

STAGE_CASE(a_text_ends_at_the_models_end_token_and_at_a_stop_text, struct stage *s)
{
    char folder[600], config[64];
    open_model(s, folder);
    json_t *whole = generate(folder, NULL);
    assert_string_equal(stage_text(whole, "end"), "length");
    assert_int_equal(stage_int(whole, "new_tokens"), 40);
    const char *text = stage_text(whole, "text");
    size_t at = 1; /* the first place of a character that did not come before, and is one byte */
    while (text[at] && (memchr(text, text[at], at) || (text[at] & 0x80) || text[at] < ' ')) at++;
    if (!text[at]) at = 0;

    char *option = kept_format("--stop=%c", text[at]);
    json_t *stopped = generate(folder, option);
    assert_string_equal(stage_text(stopped, "end"), "stop");
    assert_int_equal(strlen(stage_text(stopped, "text")), at);
    assert_memory_equal(stage_text(stopped, "text"), text, at);

    int n = snprintf(config, sizeof config, "{\"eos_token_id\": [300, %d]}", (unsigned char)text[at]);
    char *path = kept_format("%s/generation_config.json", folder);
    stage_write(path, config, (size_t)n);
    json_t *ended = generate(folder, NULL);
    assert_string_equal(stage_text(ended, "end"), "eos");
    assert_string_equal(stage_text(ended, "text"), stage_text(stopped, "text"));
    assert_int_equal(stage_int(ended, "new_tokens"), stage_int(stopped, "new_tokens"));

    stage_write(path, "{\"eos_token_id\": \"x\"}", 21);
    process_expect_sentence(process_run(1, "generate", folder, NULL),
                            "eos_token_id must be the id of a token");
}

STAGE_CASE(its_speed_is_reported_apart_from_the_text, struct stage *s)
{
    char folder[600];
    open_model(s, folder);
    json_t *json = generate(folder, NULL);
    assert_int_equal(stage_int(json, "prompt_tokens"), 3);
    double first = stage_real(json, "time_to_first_token_ms"), total = stage_real(json, "total_ms");
    double median = stage_real(json, "latency_median_ms"), p95 = stage_real(json, "latency_p95_ms");
    assert_true(first > 0 && total > first && median > 0 && p95 >= median);
    double decode = stage_real(json, "decode_tokens_per_sec") * (total - first) / 1e3;
    assert_true(decode > 38.99 && decode < 39.01);                /* 39 tokens after the first */
    process_output("generate", "latest", "--max-tokens=7", NULL); /* a run's: recorded; a folder's: not */
    stage_expect(s,
                 "select checkpoint, prompt_tokens, new_tokens, total_ms > time_to_first_token_ms, "
                 "run_id = (select id from runs) from inference",
                 "step-3|1|7|1|1");
    char *plain = process_output("generate", folder, "--seed=3", NULL);
    struct process *p = process_run(0, "generate", folder, "--seed=3", "--verbose", NULL);
    assert_string_equal(plain, process_stdout(p));
    assert_non_null(strstr(process_stderr(p), "prompt: 1 token, the first new one after "));
    assert_non_null(strstr(process_stderr(p), "text: 200 tokens, "));
}

/* Adapters lack tensors that the base has, which is no error of theirs. */
STAGE_CASE(requests_to_adapters_are_answered_without_an_error, struct stage *s)
{
    const char *const arguments[] = {"generate", "latest", "--requests", "--max-tokens=3", NULL};
    char folder[600];
    open_model(s, folder);
    process_run(0, "train", s->config, kept_format("--model.from=%s", folder), "--lora.rank=2",
                "--train.total_steps=3", "--progress=none", NULL);
    struct process *unread =
        process_open(&(struct process_options){.arguments = arguments, .prelude = "exec </;"});
    process_expect_sentence(process_expect(1, unread), "anneal: cannot read standard input: Is a directory");
    const char *path = stage_path(s, "requests");
    stage_write(path, "--prompt=a\n\n", 12);
    char *prelude = kept_format("exec <'%s';", path);
    struct process *p =
        process_expect(0, process_open(&(struct process_options){arguments, .prelude = prelude}));
    assert_string_equal(process_stderr(p), "");
}

STAGE_CASE(requests_are_answered_one_after_another_by_one_process, struct stage *s)
{
    static const char requests[] =
        "--prompt=the\\n\\\\n\n\n--temperature=-1\n\n--prompt=the\n--max-tokens=1500\n\n"
        "--batch=x\n\n--nonsense\n--prompt=a\n";
    const char *const arguments[] = {"generate", "latest", "--requests", "--max-tokens=9", NULL};
    struct file_map map;
    char folder[600], path[640], *expected;
    open_model(s, folder);
    snprintf(path, sizeof path, "%s/requests", s->folder);
    stage_write(path, requests, sizeof requests - 1);
    char *prelude = kept_format("exec <'%s/requests' >'%s/texts';", s->folder, s->folder);
    struct process *p =
        process_expect(1, process_open(&(struct process_options){arguments, .prelude = prelude}));
    assert_non_null(strstr(process_stderr(p), "\nanneal: generate: 2 of 4 requests failed"));
    assert_non_null(strstr(process_stderr(p), "--temperature -1: must be a number"));
    assert_non_null(strstr(process_stderr(p), "--batch, --adapter and --device are for the command line"));
    char *first = process_output("generate", "latest", "--prompt=the\n\\n", "--max-tokens=9", NULL),
         *second = process_output("generate", "latest", "--prompt=the", "--max-tokens=1500", NULL);
    int n = asprintf(&expected, "%s%c%c%s%c%c", first, 0, 0, second, 0, 0);
    snprintf(path, sizeof path, "%s/texts", s->folder);
    assert_int_equal(file_map_open(path, &map, NULL), STATUS_OK);
    assert_int_equal(map.size, n);
    assert_memory_equal(map.data, expected, (size_t)n);
    file_map_close(&map);
    free(expected);
    snprintf(path, sizeof path, "%s/requests", s->folder);
    char *endless = calloc(1, 3 << 20); /* a line without an end */
    stage_write(path, memset(endless, 'x', 3 << 20), 3 << 20);
    free(endless);
    process_expect_sentence(
        process_expect(1, process_open(&(struct process_options){arguments, .prelude = prelude})),
        "longer than 1 MiB");
}

/* The tokenizer is Llama 2's kind: BOS, then the words, each with its space. */
STAGE_CASE(a_prompt_begins_as_the_tokenizer_says, struct stage *s)
{
    char *fixture = realpath("tests/fixtures/tokenizer/llama2_style.json", NULL), option[4200];
    assert_non_null(fixture);
    snprintf(option, sizeof option, "--data.tokenizer=%s", fixture);
    process_run(0, "train", s->config, option, "--model.vocab_size=563", "--train.total_steps=3",
                "--progress=none", NULL);
    json_t *list = stage_json(process_output("tokenizer", "encode", fixture, "--text=the", "--json", NULL)),
           *json = generate("latest", NULL);
    assert_true(json_array_size(list) > 0);
    assert_int_equal(stage_int(json, "prompt_tokens"), json_array_size(list) + 1);
    free(fixture);
}

STAGE_CASE(a_batch_prints_an_object_for_each_line_in_the_order_of_the_file, struct stage *s)
{
    char folder[600], path[640], text[400] = "\xEF\xBB\xBF"; /* a byte-order mark is no part of the first */
    open_model(s, folder);
    snprintf(path, sizeof path, "%s/prompts.txt", s->folder);
    for (int i = 0; i < 19; i++) sprintf(text + strlen(text), i == 7 ? "\n\r\n" : "line %d\n", i);
    stage_write(path, text, strlen(text));
    char *out = process_output("generate", folder, "--batch", path, "--max-tokens=9", "--temperature=0",
                               "--progress=none", NULL),
         *rest = out;
    for (int i = 0; i < 19; i++) {
        if (i == 7) continue; /* empty lines are no prompts */
        json_t *json = stage_json(strsep(&rest, "\n"));
        char *prompt = kept_format("line %d", i);
        assert_string_equal(stage_text(json, "prompt"), prompt);
        assert_int_equal(stage_int(json, "new_tokens"), 9);
        assert_string_equal(stage_text(json, "end"), "length");
        if (i == 18) {
            json_t *one = stage_json(process_output("generate", folder, "--json", "--prompt=line 18",
                                                    "--max-tokens=9", "--temperature=0", NULL));
            assert_string_equal(stage_text(json, "text"), stage_text(one, "text"));
        }
    }
    assert_string_equal(rest, "");
    stage_write(path, "\n\n", 2);
    process_expect_sentence(process_run(2, "generate", folder, "--batch", path, NULL),
                            "prompts.txt: holds no prompt (write one a line)");
    memset(text, 'x', 399);
    stage_write(path, "ok\n", 3);
    FILE *file = fopen(path, "a");
    for (int i = 0; i < 20; i++) fputs(text, file);
    fclose(file);
    process_expect_sentence(process_run(2, "generate", folder, "--batch", path, NULL),
                            "prompts.txt: line 2: the prompt has ");
    process_expect_sentence(process_run(1, "generate", folder, "--batch", "/nowhere", NULL), "/nowhere: ");
}

STAGE_CASE(a_text_of_a_batch_that_fills_the_context_ends_there_and_says_so, struct stage *s)
{
    char prompts[64];
    process_run(0, "train", s->config, "--train.total_steps=3", "--model.max_seq_len=64", "--progress=none",
                NULL);
    const char *path = stage_path(s, "prompts.txt");
    int n = snprintf(prompts, sizeof prompts, "the\n%050d\n", 0);
    stage_write(path, prompts, (size_t)n);
    struct process *p = process_run(0, "generate", "latest", "--batch", path, "--max-tokens=40",
                                    "--temperature=0", "--progress=none", NULL);
    assert_string_equal(process_stderr(p),
                        "anneal: warning: 1 of 2 texts ended before --max-tokens, where prompt and text "
                        "filled the model's context of 64 tokens (to continue a prompt beyond it, give it "
                        "alone, with --prompt instead of --batch)\n");
    char *rest = kept_format("%s", process_stdout(p));
    json_t *fits = stage_json(strsep(&rest, "\n")), *fills = stage_json(strsep(&rest, "\n"));
    assert_string_equal(stage_text(fits, "end"), "length");
    assert_int_equal(stage_int(fits, "new_tokens"), 40);
    assert_string_equal(stage_text(fills, "end"), "context");
    assert_int_equal(stage_int(fills, "new_tokens"), 15); /* the last one needs no place */
    char *prompt = kept_format("--prompt=%050d", 0);
    json_t *alone = stage_json(
        process_output("generate", "latest", prompt, "--max-tokens=40", "--temperature=0", "--json", NULL));
    assert_string_equal(stage_text(alone, "end"), "length");
    assert_int_equal(stage_int(alone, "new_tokens"), 40);
    const char *beginning = stage_text(fills, "text");
    assert_memory_equal(stage_text(alone, "text"), beginning, strlen(beginning));
    p = process_run(0, "generate", "latest", "--batch", path, "--max-tokens=15", "--progress=none", NULL);
    assert_string_equal(process_stderr(p), ""); /* the last token of --max-tokens filled it */
}

STAGE_CASE(a_model_of_numbers_that_are_not_finite_is_reported, struct stage *s)
{
    static const char sentence[] = "the model computes no finite number for any next token";
    char folder[600], path[640];
    struct file_map map;
    open_model(s, folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(file_map_open(path, &map, NULL), STATUS_OK);
    unsigned char *bytes = malloc(map.size);
    assert_non_null(bytes);
    memcpy(bytes, map.data, map.size);
    memset(bytes + map.size - 32 * sizeof(float), 0xff, 32 * sizeof(float)); /* NaN in all of the last norm */
    size_t size = map.size;
    file_map_close(&map);
    stage_write(path, bytes, size);
    free(bytes);
    struct process *p = process_run(1, "generate", folder, "--prompt=the", NULL);
    process_expect_sentence(p, sentence);
    assert_string_equal(process_stdout(p), "the\n");
    p = process_run(1, "generate", folder, "--json", NULL);
    process_expect_sentence(p, sentence);
    assert_string_equal(process_stdout(p), "");
    p = process_run(1, "evaluate", folder, "--data", s->corpus, "--batches=1", NULL);
    process_expect_sentence(p, "the loss of its data is not a finite number");
    assert_string_equal(process_stdout(p), "");
    snprintf(path, sizeof path, "%s/prompts.txt", s->folder);
    stage_write(path, "the\nand\n", 8);
    char *batch = kept_format("--batch=%s", path);
    p = process_run(1, "generate", folder, batch, NULL);
    process_expect_sentence(p, sentence);
    assert_string_equal(process_stdout(p), "");
}

STAGE_CASE(a_batch_says_how_fast_it_was_and_takes_no_other_prompt, struct stage *s)
{
    char folder[600], batch[640];
    open_model(s, folder);
    char *path = stage_path(s, "prompts.txt");
    stage_write(path, "the\n\nand\n", 9);
    snprintf(batch, sizeof batch, "--batch=%s", path);
    const char *const words[] = {"generate", folder, batch, "--max-tokens=5", NULL};
    struct process *p = process_expect(
        1, process_open(&(struct process_options){.arguments = words, .prelude = "exec >/dev/full;"}));
    process_expect_sentence(p, "standard output: cannot write: No space left on device");
    p = process_run(0, "generate", folder, batch, "--max-tokens=5", "--verbose", NULL);
    assert_non_null(strstr(process_stderr(p), "2 texts: 6 tokens read and 10 written in "));
    char many[8000];
    for (size_t i = 0; i < sizeof many; i += 4) memcpy(many + i, "the\n", 4);
    stage_write(path, many, sizeof many);
    p = process_start("generate", folder, batch, "--max-tokens=30", NULL);
    process_wait_lines(p, 1);
    process_signal(p, SIGINT);
    process_expect_sentence(process_expect(130, p), "generate: interrupted after ");
    process_expect_sentence(process_run(2, "generate", folder, batch, "--prompt=the", NULL),
                            "generate: give --prompt or --batch, not both");
    process_expect_sentence(process_run(1, "generate", path, NULL),
                            "prompts.txt: is neither a run nor the folder of a model");
    process_expect_sentence(process_run(1, "generate", "no/such/folder", NULL),
                            "no/such/folder: there is no such folder");
    process_expect_sentence(process_run(2, "generate", folder, "--seed=18446744073709551615", NULL),
                            "must be a whole number from 0 to 9223372036854775807");
}

/* Copies the fixture's file `from` to `to` in the folder. */
static void copy_fixture(const char *from, const char *folder, const char *to)
{
    struct err err = {0};
    char *source = kept_format("tests/fixtures/kinds/%s", from);
    char *target = kept_format("%s/%s", folder, to);
    if (file_copy(source, target, &err)) fail_msg("%s", err.text);
}

/* The tokens, one by one: tests/core/model/test_kinds.c. */
STAGE_CASE(a_downloaded_model_writes_what_transformers_writes_with_bos_and_without, struct stage *s)
{
    static const char *const kinds[] = {"llama_biases", "llama_yarn", "mistral_window", "qwen2_sliding",
                                        "qwen3_layer_types"};
    static const char *const tokenizers[] = {"with_bos", "without_bos"};
    char path[200], option[200];
    char *prompts = stage_path(s, "prompts.txt");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        snprintf(path, sizeof path, "%s/config.json", kinds[k]);
        copy_fixture(path, s->folder, "config.json");
        snprintf(path, sizeof path, "%s/model.safetensors", kinds[k]);
        copy_fixture(path, s->folder, "model.safetensors");
        snprintf(path, sizeof path, "tests/fixtures/kinds/%s/texts.json", kinds[k]);
        json_t *texts = json_load_file(path, 0, NULL);
        const char *prompt = stage_text(texts, "prompt");
        snprintf(option, sizeof option, "--prompt=%s", prompt);
        stage_write(prompts, prompt, strlen(prompt));
        for (int t = 0; t < 2; t++) {
            const json_t *want = json_object_get(texts, tokenizers[t]);
            snprintf(path, sizeof path, "%s.json", tokenizers[t]);
            copy_fixture(path, s->folder, "tokenizer.json");
            for (int batch = 0; batch < 2; batch++) {
                char *out =
                    process_output("generate", s->folder, "--temperature=0", "--max-tokens=22", "--json",
                                   batch ? "--batch" : option, batch ? prompts : NULL, NULL);
                json_t *json = stage_json(out);
                assert_non_null(json);
                assert_string_equal(stage_text(json, "text"), stage_text(want, "text"));
                assert_int_equal(stage_int(json, "prompt_tokens"),
                                 json_array_size(json_object_get(want, "ids")));
            }
        }
        json_decref(texts);
    }
}

static bool has_written(struct process *p, void *context)
{
    (void)context;
    return strlen(process_stdout(p)) > 100;
}

STAGE_CASE(ctrl_c_ends_a_text_with_a_status_of_its_own, struct stage *s)
{
    process_run(0, "train", s->config, "--train.total_steps=3", "--model.max_seq_len=100000",
                "--progress=none", NULL);
    struct process *p = process_start("generate", "latest", "--prompt=the", "--max-tokens=90000", NULL);
    process_wait(p, has_written, NULL);
    process_signal(p, SIGINT);
    process_expect_sentence(process_expect(130, p), "generate: interrupted");
    const char *text = process_stdout(p);
    assert_true(strncmp(text, "the", 3) == 0 && text[strlen(text) - 1] == '\n');
}

/* Two requests, of which the first gets this signal while it writes. */
static struct process *interrupted_request(struct stage *s, int signal)
{
    const char *const arguments[] = {"generate", "latest", "--requests", "--max-tokens=90000", NULL};
    process_run(0, "train", s->config, "--train.total_steps=3", "--model.max_seq_len=100000",
                "--progress=none", NULL);
    const char *path = stage_path(s, "requests");
    stage_write(path, "--prompt=the\n\n--max-tokens=2\n\n", 30);
    char *prelude = kept_format("exec <'%s';", path);
    struct process *p = process_open(&(struct process_options){arguments, .prelude = prelude});
    process_wait(p, has_written, NULL);
    process_signal(p, signal);
    return p;
}

STAGE_CASE(ctrl_c_ends_the_text_of_a_request_without_a_failure, struct stage *s)
{
    struct process *p = interrupted_request(s, SIGINT);
    process_expect(0, p);
    assert_string_equal(process_stderr(p), "");
}

STAGE_CASE(sigterm_ends_all_requests_with_its_status, struct stage *s)
{
    process_expect_sentence(process_expect(143, interrupted_request(s, SIGTERM)), "generate: interrupted");
}

TEST_MAIN()
