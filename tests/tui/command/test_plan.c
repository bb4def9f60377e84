/* anneal plan: the table over the number of GPUs, as a page and as JSON, and words that are refused. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) fail_msg("%s is no number", name);
    return json_number_value(value);
}

STAGE_CASE(the_table_ends_with_the_number_asked_for, struct stage *s)
{
    static const int gpus[] = {1, 2, 4, 8, 16, 20};
    json_t *json = stage_json(process_output("plan", s->config, "--gpus=20", "--per-host=4",
                                             "--network=100Gb/s", "--tokens=1B", "--gpu=a100",
                                             "--train.accumulation_steps=8", "--json", NULL)),
           *table = json_object_get(json, "table");
    assert_true(json_is_true(json_object_get(json, "estimate")));
    assert_true(number(json, "network_bytes_per_sec") == 12.5e9 && number(json, "tokens") == 1e9);
    assert_true(json_array_size(json_object_get(json, "assumptions")) >= 8);
    assert_int_equal(json_array_size(table), sizeof gpus / sizeof *gpus);
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        const json_t *row = json_array_get(table, i);
        assert_int_equal((int)number(row, "gpus"), gpus[i]);
        assert_int_equal((int)number(row, "hosts"), (gpus[i] + 3) / 4);
        double speed = number(row, "tokens_per_sec"), days = number(row, "days");
        assert_true(fabs(days * 86400 * speed / 1e9 - 1) < 1e-6);
        assert_true(fabs(number(row, "gpu_hours") / (days * 24 * gpus[i]) - 1) < 1e-6);
        assert_true(fabs(number(row, "computing_ms") + number(row, "waiting_ms") - number(row, "step_ms")) <
                    1e-6);
        assert_true(number(row, "efficiency") <= 1 && number(row, "mfu") > 0 && number(row, "mfu") < 1);
    }
}

STAGE_CASE(a_page_says_that_it_is_an_estimate_and_why, struct stage *s)
{
    char *text = process_output("plan", s->config, "--products=500", "--bandwidth=1800", NULL);
    assert_non_null(strstr(text, "not measured"));
    assert_non_null(strstr(text, "TFLOP/s of matrix products, as given"));
    assert_non_null(strstr(text, "GB/s of the GPU's memory, as given"));
    assert_non_null(strstr(text, "Not counted"));
    assert_non_null(strstr(text, "training  GPU hours")); /* in a unit that fits */
}

/* 20 steps of one micro-batch and 10 of four make 60; 50 are made in the 28th step. */
STAGE_CASE(a_batch_that_grows_counts_what_each_step_has, struct stage *s)
{
    static const char *const words[] = {"--train.accumulation_plan=0: 1, 20: 4", "--train.batch_size=2",
                                        "--train.seq_len=16", "--train.total_steps=30"};
    json_t *json =
        stage_json(process_output("plan", s->config, words[0], words[1], words[2], words[3], "--json", NULL));
    assert_true(number(json, "tokens") == 60 * 32 && number(json, "tokens_per_step") == 4 * 32);
    char *text =
        process_output("plan", s->config, words[0], words[1], words[2], words[3], "--tokens=1600", NULL);
    if (!strstr(text, "tokens: 28 steps")) fail_msg("%s", text);
}

STAGE_CASE(operations_are_listed_when_asked_for, struct stage *s)
{
    json_t *json = stage_json(process_output("plan", s->config, "--gpus=1", "--operations", "--json", NULL)),
           *operations = json_object_get(json, "operations"), *operation;
    double ms = 0, step = number(json_array_get(json_object_get(json, "table"), 0), "computing_ms");
    size_t i;
    json_array_foreach(operations, i, operation) ms += number(operation, "estimated_ms");
    assert_true(json_array_size(operations) > 20 && fabs(ms / step - 1) < 1e-6);
    assert_non_null(strstr(process_output("plan", s->config, "--operations", NULL), "estimated ms"));
    assert_null(strstr(process_output("plan", s->config, NULL), "estimated ms"));
}

STAGE_CASE(muon_takes_a_small_part_of_a_step_of_many_tokens, struct stage *s)
{
    json_t *json = stage_json(process_output("plan", "--gpus=1", "--operations", "--json",
                                             "--model.preset=gpt2-124m-shape", "--model.vocab_size=50304",
                                             "--data.tokenizer=bytes", "--train.precision=bf16",
                                             "--train.optimizer=muon", "--train.batch_size=32",
                                             "--train.seq_len=1024", "--train.accumulation_steps=16", NULL)),
           *operation;
    double ms = 0, step = number(json_array_get(json_object_get(json, "table"), 0), "computing_ms");
    size_t i;
    json_array_foreach(json_object_get(json, "operations"), i, operation)
        if (strstr(stage_text(operation, "op"), "muon")) ms += number(operation, "estimated_ms");
    assert_true(number(json, "tokens_per_step") == 524288);
    if (!(ms > 0.001 * step && ms < 0.05 * step)) fail_msg("%g of %g ms", ms, step);
}

STAGE_CASE(a_step_of_seconds_is_shown_in_seconds, struct stage *s)
{
    (void)s;
    const char *table = process_output("plan", "--gpus=1", "--model.preset=llama-1.5b",
                                       "--data.tokenizer=bytes", "--train.accumulation_steps=64", NULL),
               *unit = strstr(table, " s ");
    if (!unit || !isdigit((unsigned char)unit[-1])) fail_msg("%s", table);
}

/* Each matrix is on one rank, so the moments of a rank are about half, and no more with any matrix. */
STAGE_CASE(muon_of_several_ranks_is_planned_like_adamw, struct stage *s)
{
    double bytes[2];
    for (int ranks = 1; ranks <= 2; ranks++) {
        char *of = kept_format("--ranks=%d", ranks);
        json_t *json =
            stage_json(process_output("estimate", s->config, "--train.optimizer=muon", of, "--json", NULL));
        bytes[ranks - 1] = number(json_object_get(json, "categories"), "moments");
    }
    if (bytes[1] < 0.45 * bytes[0] || bytes[1] > 0.75 * bytes[0])
        fail_msg("%g bytes of moments with two ranks, %g with one", bytes[1], bytes[0]);
    process_run(0, "plan", s->config, "--train.optimizer=muon", "--gpus=8", NULL);
    process_run(0, "sweep", s->config, "--train.optimizer=muon", "--ranks=2", "--dry-run", "--train.seed=1,2",
                NULL);
}

STAGE_CASE(wrong_words_are_named, struct stage *s)
{
    static const struct {
        const char *word, *why;
    } bad[] = {
        {"--gpu=h999", "h100, h200-nvl"}, {"--network=400", "400Gb/s"},          {"--tokens=many", "10B"},
        {"--gpus=0", "--gpus"},           {"--train.epochs=2", "give --tokens"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct process *p = process_run(2, "plan", s->config, bad[i].word, NULL);
        if (!strstr(process_stderr(p), bad[i].why)) fail_msg("%s: %s", bad[i].word, process_stderr(p));
    }
}

TEST_MAIN()
