/* anneal estimate: the printed plan equals the real allocations of training. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/memory/fit.h"
#include "core/model/config.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/recommended.h"
#include "tests/tui/command/stage.h"
#include "tui/command/fit_report.h"

static json_t *estimate(const char *config, const char *word)
{
    return stage_json(process_output("estimate", config, word, "--json", NULL));
}

/* run,segment,step,category,planned_bytes,live_bytes,peak_bytes */
static void expect_training_to_allocate_what_is_estimated(const char *config, const char *word)
{
    process_run(0, "train", config, word, "--train.total_steps=2", "--progress=none", NULL);
    char *csv = process_output("export", "latest", "--table", "memory", NULL);
    json_t *json = estimate(config, word);
    json_t *categories = json_object_get(json, "categories");
    json_int_t sum = 0;
    size_t rows = 0, used = 0;
    const char *name;
    json_t *value;
    json_object_foreach(categories, name, value) used += json_integer_value(value) > 0;
    for (char *line = strchr(csv, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        char category[32];
        long long planned, live, peak, expected;
        assert_int_equal(
            sscanf(line, "%*[^,],%*[^,],%*[^,],%31[^,],%lld,%lld,%lld", category, &planned, &live, &peak), 4);
        expected = json_integer_value(json_object_get(categories, category));
        if (live != expected || planned != live || peak != live)
            fail_msg("%s, %s: estimated %lld, planned %lld, live %lld, peak %lld", word, category, expected,
                     planned, live, peak);
        sum += live;
        rows += live > 0;
    }
    assert_int_equal(rows, 2 * used); /* recorded at the beginning and with the last checkpoint */
    assert_int_equal(2 * json_integer_value(json_object_get(json, "total_bytes")), sum);
}

STAGE_CASE(the_estimate_is_what_training_allocates, struct stage *s)
{
    static const char *const words[] = {"--train.dropout=0",
                                        "--train.accumulation_steps=3",
                                        "--checkpoint.activation_interval=1",
                                        "--checkpoint.background=false",
                                        "--checkpoint.contents=weights",
                                        "--train.optimizer=lion",
                                        "--train.loss=plain",
                                        "--train.loss=fused",
                                        "--train.loss_chunk=7",
                                        "--data.padding=32",
                                        "--memory.allocator=basic",
                                        "--memory.allocator=pool",
                                        "--memory.allocator=caching",
                                        "--model.tie_weights=false",
                                        "--train.async=false",
                                        "--profile.every=1"};
    char *text = stage_read(s->config), grouped[4096], path[700];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        expect_training_to_allocate_what_is_estimated(s->config, words[i]);
    snprintf(path, sizeof path, "%s/groups.ini", s->folder);
    int n = snprintf(grouped, sizeof grouped, "%s[param_group.norms]\nmatch = *norm*\nlr_scale = 0\n", text);
    stage_write(path, grouped, (size_t)n);
    expect_training_to_allocate_what_is_estimated(path, "--train.dropout=0.1");
}

static json_int_t bytes_of(const json_t *estimate, const char *category)
{
    return json_integer_value(json_object_get(json_object_get(estimate, "categories"), category));
}

STAGE_CASE(what_is_frozen_costs_its_weights_alone, struct stage *s)
{
    char grouped[4096];
    char *text = stage_read(s->config);
    char *path = stage_path(s, "frozen.ini");
    int n = snprintf(grouped, sizeof grouped, "%s[param_group.mlp]\nmatch = *mlp*\nlr_scale = 0\n", text);
    stage_write(path, grouped, (size_t)n);
    json_t *whole = estimate(s->config, "--train.batch_size=2"),
           *part = estimate(path, "--train.batch_size=2");
    json_int_t frozen = bytes_of(part, "frozen weights");
    assert_true(frozen > 0);
    assert_null(json_object_get(json_object_get(whole, "categories"), "frozen weights"));
    assert_int_equal(bytes_of(whole, "weights"), bytes_of(part, "weights") + frozen);
    assert_int_equal(bytes_of(whole, "gradients"), bytes_of(part, "gradients") + frozen);
    assert_int_equal(bytes_of(whole, "moments"), bytes_of(part, "moments") + 2 * frozen);
    struct process *p = process_run(0, "estimate", path, "--layers", NULL);
    assert_non_null(strstr(process_stdout(p), "frozen weights"));
    expect_training_to_allocate_what_is_estimated(path, "--train.dropout=0.1");
}

/* The shape of Qwen3-0.6B, in a folder without weights. 440,401,920 of its parameters are in the matrices of
 * the layers, 155,582,464 in the embedding, which is the head as well. */
STAGE_CASE(a_base_in_four_bits_is_planned_from_its_sizes_alone, struct stage *s)
{
    static const char config[] =
        "{\"model_type\": \"qwen3\", \"hidden_size\": 1024, \"num_hidden_layers\": 28, "
        "\"num_attention_heads\": "
        "16, \"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 3072, \"vocab_size\": "
        "151936, "
        "\"max_position_embeddings\": 40960, \"rope_theta\": 1000000, \"rms_norm_eps\": 1e-6, "
        "\"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}";
    static const struct {
        const char *base;
        double layers, other; /* bytes of an element */
    } bases[] = {{"fp32", 4, 4}, {"bf16", 2, 2}, {"nf4", 0.5 + 1.0 / 64 + 4.0 / 64 / 256, 2}};
    char path[720], text[1600];
    char *folder = stage_path(s, "qwen");
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    snprintf(path, sizeof path, "%s/config.json", folder);
    stage_write(path, config, sizeof config - 1);
    for (int i = 0; i < 3; i++) {
        int n = snprintf(
            text, sizeof text,
            "[model]\nfrom = %s\n[train]\nbatch_size = 1\nseq_len = 512\nprecision = fp32\n[lora]\nrank = "
            "16\ntargets = all\nbase = %s\n",
            folder, bases[i].base);
        snprintf(path, sizeof path, "%s/qlora.ini", s->folder);
        stage_write(path, text, (size_t)n);
        json_t *plan = estimate(path, "--train.seq_len=512");
        double want = 440401920 * bases[i].layers + 155582464 * bases[i].other,
               got = (double)bytes_of(plan, "frozen weights");
        if (!(got > want && got < want * 1.002))
            fail_msg("%s: %.0f bytes, not %.0f", bases[i].base, got, want);
    }
}

STAGE_CASE(a_batch_that_is_said_to_fit_is_the_largest, struct stage *s)
{
    char word[64];
    json_t *json = estimate(s->config, "--fit=8MiB");
    json_t *fit = json_object_get(json, "fit");
    assert_int_equal(json_integer_value(json_object_get(fit, "memory_bytes")), 8 << 20);
    int batch = (int)json_integer_value(json_object_get(fit, "batch_size"));
    for (int more = 0; more < 2; more++) {
        snprintf(word, sizeof word, "--train.batch_size=%d", batch + more);
        json = estimate(s->config, word);
        assert_int_equal(json_integer_value(json_object_get(json, "total_bytes")) > 8 << 20, more);
    }
    struct process *p = process_run(2, "estimate", "--fit", "12parsecs", NULL);
    process_expect_sentence(p, "--fit: \"12parsecs\" is not an amount of memory");
    p = process_run(0, "estimate", s->config, "--fit=8MiB", "--device=cpu", "--train.batch_size=3",
                    "--train.seed=7", NULL);
    assert_non_null(
        strstr(process_stdout(p), kept_format("\nThis fits: %d sequences of 32 tokens, or ", batch)));
    assert_non_null(strstr(process_stdout(p), kept_format(" train %s --device cpu --train.seed=7 "
                                                          "--train.batch_size=%d",
                                                          s->config, batch)));
    p = process_run(0, "estimate", s->config, "--fit=8MiB", "--ranks=2", NULL);
    assert_non_null(
        strstr(process_stdout(p), kept_format(" train %s --ranks 2 --train.batch_size=", s->config)));
    p = process_run(0, "estimate", s->config, "--fit=1KiB", NULL);
    assert_non_null(strstr(process_stdout(p), "\nNot even one sequence of 32 tokens fits.\n"));
}

/* Where the small letter of I has no dot. */
STAGE_CASE(units_are_the_same_in_a_turkish_locale, struct stage *s)
{
    if (system(kept_format("localedef -i tr_TR -f UTF-8 %s/tr_TR.UTF-8 2>&-", s->folder)) != 0)
        skip(); /* the sources of locales are not installed */
    const char *const environment[] = {kept_format("LOCPATH=%s", s->folder), "LC_ALL=tr_TR.UTF-8", NULL};
    struct process *p = process_start_in(NULL, environment, "estimate", s->config, "--fit=8MIB", NULL);
    assert_non_null(strstr(process_stdout(process_expect(0, p)), "\nThis fits: "));
}

/* "-1" is a bad amount and no option, "abc" one and no file, and the name of a run no configuration. */
STAGE_CASE(what_is_no_amount_and_what_is_no_configuration_is_said_so, struct stage *s)
{
    process_expect_sentence(process_run(2, "estimate", "--fit=-1", NULL),
                            "--fit: \"-1\" is not an amount of memory");
    process_expect_sentence(process_run(2, "estimate", "--fit=abc", NULL),
                            "--fit: \"abc\" is not an amount of memory");
    process_expect_sentence(process_run(1, "estimate", "some-run", NULL),
                            "some-run: there is no such file (this takes a configuration, not a run");
    process_run(0, "estimate", "--fit", s->config, NULL); /* of what the device has */
}

STAGE_CASE(an_interval_of_more_layers_than_there_are_is_left_out, struct stage *s)
{
    for (int layers = 1; layers <= 4; layers += 3) {
        char *word = kept_format("--model.num_layers=%d", layers);
        json_t *json = estimate(s->config, word);
        json_t *trades = json_object_get(json, "activation_checkpointing");
        size_t count = json_array_size(trades);
        assert_int_equal(count, layers == 1 ? 2 : 4);
        json_t *last = json_array_get(trades, count - 1);
        assert_int_equal(json_integer_value(json_object_get(last, "interval")), layers);
    }
}

/* The amount that `anneal devices` lists as reserved is the allocator's, which may exceed the plan. */
STAGE_CASE(the_estimate_knows_what_the_allocator_takes_outside_the_plan, struct stage *s)
{
    static const char *const kinds[] = {"basic", "pool", "arena", "caching"};
    char word[64];
    for (int i = 0; i < 4; i++) {
        snprintf(word, sizeof word, "--memory.allocator=%s", kinds[i]);
        json_t *json = estimate(s->config, word);
        json_int_t total = stage_int(json, "total_bytes"), reserved = stage_int(json, "reserved_bytes");
        if (i < 3)
            assert_int_equal(reserved, total);
        else
            assert_true(reserved > total);
    }
}

static int fitting(const char *config, const char *word)
{
    json_t *json = estimate(config, word);
    int batch = (int)json_integer_value(json_object_get(json_object_get(json, "fit"), "batch_size"));
    return batch;
}

STAGE_CASE(what_others_have_reserved_is_not_there_to_fit_into, struct stage *s)
{
    struct ledger *ledger;
    int64_t id;
    static const struct ledger_room unknown = {"cpu", "cpu", 0, 0, 0, 0, false};
    assert_true(fitting(s->config, "--fit") > 0);
    assert_int_equal(ledger_open(getenv("ANNEAL_HOME"), LEDGER_BUSY_MS, &ledger, NULL), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &unknown, "greedy", (int64_t)1 << 50, &id, NULL), STATUS_OK);
    assert_int_equal(fitting(s->config, "--fit"), 0);
    assert_true(fitting(s->config, "--fit=8MiB") > 0); /* a given amount is not read from the device */
    ledger_close(ledger);
}

/* ---- with other runs on the device ---- */

enum { MIB = 1 << 20 };

/* Reserves all of the CPU's memory but this much, and reports it as in use. */
static struct ledger *hold_all_but(int64_t left)
{
    struct ledger *ledger;
    struct err err = {0};
    int64_t id, total = memory_total(), bytes = total - (int64_t)((double)total * 0.1) - left;
    const struct ledger_room cpu = {"cpu", "cpu", total, 0, 0.1, 0, false};
    if (ledger_open(getenv("ANNEAL_HOME"), LEDGER_BUSY_MS, &ledger, &err)) fail_msg("%s", err.text);
    if (ledger_reserve(ledger, &cpu, "holder", bytes, &id, &err)) fail_msg("%s", err.text);
    assert_int_equal(ledger_use(ledger, id, "holder", bytes, &err), STATUS_OK);
    return ledger;
}

STAGE_CASE(what_fits_next_to_a_holder_starts_there, struct stage *s)
{
    struct ledger *ledger = hold_all_but(400 * MIB);
    struct process *p = process_run(0, "estimate", s->config, "--fit", NULL);
    const char *text = process_stdout(p);
    if (!strstr(text, "\ncan be reserved    400.0 MiB\n")) fail_msg("%s", text);
    char *batch = recommended_command(text, "train.batch_size"),
         *length = recommended_command(text, "train.seq_len");
    assert_int_equal(recommended_run(batch, "--train.total_steps=1 --eval.every=0 --dry-run"), 0);
    assert_int_equal(recommended_run(length, "--train.total_steps=1 --progress=none"), 0);
    /* the holder is really in the way: that many more do not start */
    assert_int_equal(recommended_run(batch, "--train.seq_len=64 --dry-run"), 1);
    ledger_close(ledger);
}

/* The printed amounts add up, and the plan of the batch is not larger than its share. */
STAGE_CASE(the_memory_to_fit_into_is_accounted_for, struct stage *s)
{
    struct device_info cpu = {.uuid = ""};
    char *folder = kept_format("%s/cuda", s->home);
    int64_t own = stage_int(json_object_get(estimate(s->config, "--fit"), "fit"), "beside_bytes");
    assert_true(own > MIB && own < 100 * MIB); /* before any run: what the command itself takes */
    overhead_keep(folder, &cpu, 100 * MIB);    /* as a run has measured it */
    struct ledger *ledger = hold_all_but(400 * MIB);
    json_t *json = estimate(s->config, "--fit");
    json_t *fit = json_object_get(json, "fit");
    assert_int_equal(stage_int(fit, "memory_bytes"), 400 * MIB);
    assert_int_equal(stage_int(fit, "beside_bytes"), 100 * MIB);
    assert_int_equal(stage_int(fit, "margin_bytes"), fit_margin(400 * MIB));
    assert_int_equal(json_array_size(json_object_get(fit, "waiting")), 0);
    assert_int_equal(stage_int(fit, "plan_bytes"), 300 * MIB - fit_margin(400 * MIB));
    char *word = kept_format("--train.batch_size=%d", (int)stage_int(fit, "batch_size"));
    json_t *plan = estimate(s->config, word);
    assert_true(stage_int(plan, "reserved_bytes") <= stage_int(fit, "plan_bytes"));
    assert_true(stage_int(plan, "reserved_bytes") > stage_int(fit, "plan_bytes") - MIB);
    ledger_close(ledger);
}

/* Waiting processes come first: memory that they wait for is not available, and a new process has to wait,
 * too. */
STAGE_CASE(those_who_wait_are_reported_and_come_first, struct stage *s)
{
    struct err err = {0};
    struct ledger *waiter, *second;
    static const struct ledger_room unknown = {"cpu", "cpu", 0, 0, 0, 30 * MIB, false};
    struct ledger *ledger = hold_all_but(600 * MIB);
    assert_int_equal(ledger_open(s->home, LEDGER_BUSY_MS, &waiter, &err), STATUS_OK);
    assert_int_equal(ledger_open(s->home, LEDGER_BUSY_MS, &second, &err), STATUS_OK);
    assert_int_equal(ledger_wait(waiter, &unknown, "patient", 90 * MIB, &err), STATUS_OK);
    assert_int_equal(ledger_wait(second, &unknown, "too", 50 * MIB, &err), STATUS_OK);
    json_t *json = estimate(s->config, "--fit");
    json_t *fit = json_object_get(json, "fit");
    json_t *waiting = json_object_get(fit, "waiting");
    assert_int_equal(json_array_size(waiting), 2);
    assert_string_equal(stage_text(json_array_get(waiting, 0), "holder"), "patient");
    assert_int_equal(stage_int(json_array_get(waiting, 0), "bytes"), 90 * MIB);
    assert_int_equal(stage_int(json_array_get(waiting, 0), "process"), getpid());
    assert_true(stage_real(json_array_get(waiting, 0), "since") > 1e9);
    assert_string_equal(stage_text(json_array_get(waiting, 1), "holder"), "too");
    assert_int_equal(stage_int(fit, "waiting_bytes"), 80 * MIB);
    assert_int_equal(stage_int(fit, "plan_bytes"), stage_int(fit, "memory_bytes") - 80 * MIB -
                                                       stage_int(fit, "beside_bytes") -
                                                       stage_int(fit, "margin_bytes"));
    char *text = process_output("estimate", s->config, "--fit", NULL);
    assert_non_null(strstr(text, "\nwaiting runs       80.0 MiB less\n"));
    char *command = recommended_command(text, "train.batch_size");
    assert_non_null(strstr(command, " --wait"));
    text = process_output("devices", NULL);
    char *first_line = strstr(text, "90.0 MiB requested by patient, process "),
         *second_line = strstr(text, "50.0 MiB requested by too, process ");
    if (!first_line || !second_line || second_line < first_line) fail_msg("%s", text);
    assert_non_null(strstr(first_line, ", no. 1 in the queue, holds 30.0 MiB meanwhile\n"));
    assert_non_null(strstr(second_line, ", no. 2 in the queue, holds 30.0 MiB meanwhile\n"));
    ledger_close(waiter);
    ledger_close(second);
    ledger_close(ledger);
}

/* A path with a blank and a quote is quoted so that the shell returns it unchanged. */
STAGE_CASE(the_command_keeps_the_words_it_was_asked_with, struct stage *s)
{
    char *path = kept_format("%s/it's a text.txt", s->folder);
    char *corpus = stage_read(s->corpus);
    stage_write(path, corpus, strlen(corpus));
    char *word = kept_format("--data.train=%s", path);
    char *text = process_output("estimate", s->config, word, "--fit=8MiB", "--train.batch_size=3", NULL);
    char *command = recommended_command(text, "train.batch_size");
    assert_null(strstr(command, "--train.batch_size=3 "));
    assert_null(strstr(command, "--fit"));
    assert_int_equal(recommended_run(command, "--train.total_steps=1 --progress=none"), 0);
}

/* With memory for more than the keys accept, the answer is the largest accepted value. */
STAGE_CASE(what_memory_does_not_limit_the_keys_do, struct stage *s)
{
    static const struct {
        const char *more, *key, *limit; /* more: a word in addition to --fit */
        int most;
    } cases[] = {
        {"--train.seq_len=32", "batch_size", "train.batch_size", 65535},
        {"--train.seq_len=2048", "batch_size", "the most tokens of a micro-batch", (1 << 26) / 2048},
        {"--train.batch_size=4", "seq_len", "model.max_seq_len", 100},
        {"--model.max_seq_len=1048576", "seq_len", "model.max_seq_len", 1048576},
        {"--train.batch_size=65535", "seq_len", "the most tokens of a micro-batch", (1 << 26) / 65535},
    };
    char name[32], word[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool short_model = cases[i].most == 100;
        const char *length = short_model ? "--model.max_seq_len=100" : "--model.max_seq_len=1048576";
        char *text =
            process_output("estimate", s->config, length, cases[i].more, "--fit=4096GiB", "--json", NULL);
        json_t *json = stage_json(text), *fit = json_object_get(json, "fit");
        assert_int_equal(stage_int(fit, cases[i].key), cases[i].most);
        snprintf(name, sizeof name, "%s_limit", cases[i].key);
        assert_string_equal(stage_text(fit, name), cases[i].limit);
        snprintf(word, sizeof word, "--train.%s=%d", cases[i].key, cases[i].most);
        process_run(0, "estimate", s->config, length, cases[i].more, word, NULL);
        snprintf(word, sizeof word, "--train.%s=%d", cases[i].key, cases[i].most + 1);
        struct process *p = process_start("estimate", s->config, length, cases[i].more, word, NULL);
        assert_int_not_equal(process_wait_exit(p), 0);
    }
    char *text = process_output("estimate", s->config, "--fit=4096GiB", NULL);
    assert_non_null(strstr(text, " 65535 sequences of "));
    assert_non_null(strstr(text, " tokens (the limit is train.batch_size)"));
}

/* Page-locked memory of a GPU's host: a run without a snapshot for checkpoints wants less of it. */
TEST_CASE(a_snapshot_that_the_host_has_no_room_for_is_reported)
{
    static const char *const widths[] = {"model.hidden_dim=64", "model.hidden_dim=65536"};
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        struct fit_report report = {.gpu = true, .now = true};
        struct config config;
        struct model model;
        config_init(&config);
        assert_int_equal(config_read_word(&config, widths[i], &err), STATUS_OK);
        assert_int_equal(config_read_word(&config, "model.head_dim=64", &err), STATUS_OK);
        assert_int_equal(config_read_word(&config, "model.vocab_size=16777216", &err), STATUS_OK);
        if (config_finish(&config, &err)) fail_msg("%s", err.text);
        assert_int_equal(model_init(&model, &config.model.sizes, &err), STATUS_OK);
        struct plan_input input = {.model = &model, .B = 2, .T = 64, .moments = 2, .snapshot = i ? 3 : 0};
        assert_int_equal(fit_report_solve(&report, &input, 64, &err), STATUS_OK);
        assert_int_equal(report.no_snapshot, i);
        model_release(&model);
    }
}

/* ---- sums ---- */

/* Of the layers by category, of the categories, and of the places of the buffers. */
STAGE_CASE(layers_are_rows_of_the_page, struct stage *s)
{
    char *with = process_output("estimate", s->config, "--layers", "--model.num_layers=2", "--sample.every=5",
                                "--sample.prompt=a", NULL),
         *without = process_output("estimate", s->config, "--model.num_layers=2", NULL);
    char *layers = strstr(with, "\nlayers: "), *trades = strstr(with, "\ncheckpoint.activation_interval");
    assert_null(strstr(without, "\nlayers: "));
    assert_non_null(strstr(without, "   2 layers of "));
    assert_null(strstr(without, "   1 layer of ")); /* the same buffer again, of the second layer */
    assert_true(layers && trades && layers < trades);
    const char *rows[] = {"\n      -  ", "\n      0  ", "\n      1  "};
    for (size_t i = 0; i < 3; i++) assert_true(strstr(layers, rows[i]) && strstr(layers, rows[i]) < trades);
    char *third = strstr(layers, "\n      2  ");
    assert_true(!third || third > trades);
    for (int i = 1; i < 3; i++) { /* behind five other columns */
        char cache[16] = "";
        sscanf(strstr(layers, rows[i]), "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %15s", cache);
        if (!(atof(cache) > 0)) fail_msg("a layer has %s of the cache: %.600s", cache, layers);
    }
}

STAGE_CASE(a_page_says_which_matrices_muon_updates, struct stage *s)
{
    char *adamw = process_output("estimate", s->config, "--train.optimizer=adamw", NULL),
         *muon = process_output("estimate", s->config, "--train.optimizer=muon", NULL);
    assert_null(strstr(adamw, "parameter groups")); /* nothing differs from one to the next */
    char *groups = strstr(muon, "\nparameter groups");
    assert_true(groups && strstr(groups, " muon\n") && strstr(groups, " adamw\n"));
}

STAGE_CASE(all_sums_agree, struct stage *s)
{
    static const char *const words[] = {"--train.precision=fp32",
                                        "--train.loss=plain",
                                        "--checkpoint.activation_interval=1",
                                        "--train.optimizer=lion",
                                        "--checkpoint.background=false",
                                        "--model.num_layers=3"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        json_t *json = estimate(s->config, words[w]), *value, *entry;
        const char *name;
        json_int_t total = 0;
        size_t i;
        json_object_foreach(json_object_get(json, "categories"), name, value) {
            json_int_t of_layers = 0, end = 0;
            total += json_integer_value(value);
            json_array_foreach(json_object_get(json, "layers"), i, entry)
                of_layers += json_integer_value(json_object_get(entry, name));
            json_array_foreach(json_object_get(json, "buffers"), i, entry) {
                if (strcmp(stage_text(entry, "category"), name) != 0) continue;
                json_int_t last = stage_int(entry, "offset") + (stage_int(entry, "bytes") + 255) / 256 * 256;
                if (last > end) end = last;
            }
            assert_int_equal(of_layers, json_integer_value(value));
            assert_int_equal(end, json_integer_value(value));
        }
        assert_int_equal(total, stage_int(json, "total_bytes"));
        json_array_foreach(json_object_get(json, "buffers"), i, entry)
            assert_true(*stage_text(entry, "name"));
        total = 0;
        json_array_foreach(json_object_get(json, "layers"), i, entry) total += stage_int(entry, "bytes");
        assert_int_equal(total, stage_int(json, "total_bytes"));
    }
}

TEST_MAIN()
