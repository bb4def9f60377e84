/* Adapters (LoRA) on the command line: trained, resumed, evaluated beside their base, and merged. The bases
 * are those of tests/fixtures/peft/make_peft.py. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/adapter_stage.h"
#include "tests/tui/command/process.h"

#define PEFT "tests/fixtures/peft/"

ADAPTER_CASE(adapters_beside_their_base_and_merged_give_the_same_loss, struct stage *s)
{
    adapter_train(PEFT "qwen3", "tuned", "8");
    double base = adapter_loss(PEFT "qwen3", NULL), alone = adapter_loss("tuned", NULL),
           beside = adapter_loss(PEFT "qwen3", "tuned");
    if (!(alone < 0.9 * base)) fail_msg("from %f to %f", base, alone);
    assert_true(alone == beside);
    const char *merged = stage_path(s, "merged"), *exported = stage_path(s, "exported");
    process_run(0, "model", "merge", PEFT "qwen3", "tuned", merged, NULL);
    process_run(0, "model", "export", "tuned", "-o", exported, NULL);
    assert_true(fabs(adapter_loss(merged, NULL) - alone) < 1e-5);
    assert_true(adapter_loss(exported, NULL) == alone);
    assert_true(adapter_loss(PEFT "qwen3", exported) == alone);
    process_run(0, "model", "merge", PEFT "qwen3", exported, stage_path(s, "again"), NULL);
    adapter_refused(process_start("model", "merge", PEFT "qwen3", "tuned", merged, NULL), "exists already");
    assert_int_equal(stage_count_leftovers(s), 0);
}

ADAPTER_CASE(a_checkpoint_of_adapters_holds_no_weight_of_the_base, struct stage *s)
{
    struct stat model, adapters;
    adapter_train(PEFT "llama", "tuned", "4");
    json_t *json = stage_json(process_output("model", "info", "tuned", "--json", NULL));
    /* 3 layers: A and B of rank 3 of q, k, v, o, gate, up, down, and the norms */
    int q = 3 * (24 + 32), k = 3 * (24 + 16), o = 3 * (32 + 24), up = 3 * (24 + 28), down = 3 * (28 + 24);
    assert_int_equal(stage_int(json, "parameters"), 3 * (q + 2 * k + o + 2 * up + down + 2 * 24) + 24);
    assert_non_null(strstr(stage_text(json, "base"), PEFT "llama"));
    char *row = stage_query(s, "select trained_parameters, parameters - frozen_parameters, "
                               "frozen_parameters > 0 from runs");
    char *wanted =
        kept_format("%d|%d|1", (int)stage_int(json, "parameters"), (int)stage_int(json, "parameters"));
    assert_string_equal(row, wanted);
    char *page = process_output("show", "tuned", NULL);
    assert_non_null(strstr(page, " parameters trained\n"));
    char path[1024];
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", stage_text(json, "folder"));
    assert_int_equal(stat(path, &adapters), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", stage_text(json, "folder"));
    assert_int_not_equal(stat(path, &model), 0);
}

ADAPTER_CASE(a_dry_run_shows_what_is_trained_and_what_is_frozen, struct stage *s)
{
    char *data = kept_format("--data.train=%s", adapter_tokens);
    json_t *json =
        stage_json(process_output("train", "--dry-run", "--json", "--model.from=" PEFT "llama", data,
                                  "--train.seq_len=20", "--data.val_fraction=0", "--lora.rank=4", NULL));
    int64_t trained = 3 * 4 * (24 + 32 + 24 + 16), all = stage_int(json, "parameters");
    assert_int_equal(stage_int(json, "trained_parameters"), trained);
    assert_int_equal(stage_int(json, "frozen_parameters"), all - trained);
    assert_true(stage_int(json, "frozen_bytes") >= 4 * (all - trained));
    assert_true(stage_int(json, "checkpoint_bytes") < 4 * (all - trained)); /* without the base */
}

ADAPTER_CASE(a_run_with_adapters_resumes_bit_for_bit_after_kill_9, struct stage *s)
{
    adapter_train(PEFT "qwen2", "whole", "400");
    struct process *killed = adapter_start_training(PEFT "qwen2", "killed", "400", "--progress=plain");
    process_wait_text(killed, "checkpoint");
    process_signal(killed, SIGKILL);
    process_wait_exit(killed);
    process_run(0, "resume", "killed", "--progress=none", NULL);
    assert_int_equal(history_expect_same("whole", "killed"), 400);
    assert_true(adapter_loss("whole", NULL) == adapter_loss("killed", NULL));
}

/* Trains and measures in the end. Returns the run's loss on all tokens. */
static double train_and_measure(const char *name, const char *from, const char *const keys[4])
{
    char *data = kept_format("--data.train=%s", adapter_tokens);
    char *val = kept_format("--data.val=%s", adapter_tokens);
    char *named = kept_format("--name=%s", name);
    process_run(0, "train", from, data, val, named, "--lora.rank=1", "--train.total_steps=6",
                "--train.batch_size=2", "--train.seq_len=20", "--train.learning_rate=0.05",
                "--train.warmup_steps=0", "--eval.every=6", "--eval.batches=0", "--eval.early=false",
                "--sample.every=0", "--checkpoint.contents=weights", "--progress=none", keys[0], keys[1],
                keys[2], keys[3], NULL);
    json_t *runs = stage_runs();
    double loss = stage_real(json_array_get(runs, 0), "best_val_loss");
    return loss;
}

static void expect_loss(double trained, double loss)
{
    if (!(fabs(trained - loss) < 1e-5 * trained))
        fail_msg("trained to %.9g, the checkpoint has %.9g", trained, loss);
}

/* A head that was trained beside matrices in bf16 is not rounded. */
ADAPTER_CASE(a_run_is_evaluated_beside_the_base_that_it_was_trained_beside, struct stage *s)
{
    static const char *const cases[][5] = {
        {"--model.from=tests/fixtures/nf4/model", "--lora.base=nf4"},
        {"--model.from=tests/fixtures/nf4/model", "--lora.base=nf4", "--lora.double_quant=false"},
        {"--model.from=tests/fixtures/nf4/model", "--lora.base=fp32"},
        {"--model.from=" PEFT "qwen2", "--lora.base=bf16", "--lora.train_head=true"},
        {"--model.from=" PEFT "llama", "--lora.base=bf16", "--lora.train_embedding=true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = kept_format("stored-%zu", i);
        double trained = train_and_measure(name, cases[i][0], cases[i] + 1);
        expect_loss(trained, adapter_loss(name, NULL));
        expect_loss(trained, adapter_loss(cases[i][0] + strlen("--model.from="), name));
        if (i) continue;
        const char *exported = stage_path(s, "exported"); /* its base is as the file has it */
        process_run(0, "model", "export", name, "-o", exported, NULL);
        assert_true(fabs(adapter_loss(exported, NULL) - trained) > 1e-4);
    }
}

/* Norms and head or embedding are trained beside the adapters: what they have learned is in the checkpoint.
 */
static void trained_beside(const struct stage *s, const char *base, const char *key, int head_count)
{
    const char *const keys[4] = {"--lora.layers=1", "--lora.train_norms=true", key};
    const char *merged = stage_path(s, "merged");
    char *from = kept_format("--model.from=%s", base);
    double trained = train_and_measure("beside", from, keys);
    expect_loss(trained, adapter_loss("beside", NULL));
    process_run(0, "model", "merge", base, "beside", merged, NULL);
    expect_loss(trained, adapter_loss(merged, NULL));
    json_t *info = stage_json(process_output("model", "info", "beside", "--json", NULL));
    /* adapters of q and v of one layer, the norms, the head */
    assert_int_equal(stage_int(info, "parameters"),
                     24 + 32 + 24 + 16 + 7 * 24 + head_count * ADAPTER_VOCABULARY * 24);
}

ADAPTER_CASE(what_is_trained_beside_the_adapters_is_saved, struct stage *s)
{
    trained_beside(s, PEFT "qwen2", "--lora.train_head=true", 1);
}

/* In the file it is there as head, too. */
ADAPTER_CASE(a_trained_embedding_is_saved_and_merged_with_the_head_that_it_is, struct stage *s)
{
    trained_beside(s, PEFT "llama", "--lora.train_embedding=true", 2);
}

ADAPTER_CASE(a_fork_of_adapters_goes_on_from_them, struct stage *s)
{
    adapter_train(PEFT "qwen3", "whole", "12");
    process_run(0, "fork", "whole", "--step=8", "--name=fork", "--progress=none", NULL);
    struct history whole = history_of("whole"), fork = history_of("fork");
    assert_true(whole.count == 12 && fork.count == 12);
    for (int i = 8; i < 12; i++) assert_string_equal(whole.steps[i].values, fork.steps[i].values);
    assert_true(adapter_loss("whole", NULL) == adapter_loss("fork", NULL));
}

ADAPTER_CASE(a_base_that_has_moved_is_found_in_its_new_place_and_no_other_one, struct stage *s)
{
    char from[800];
    const char *base = stage_path(s, "base"), *moved = stage_path(s, "moved"),
               *other = stage_path(s, "other");
    process_run(0, "model", "export", PEFT "llama", "-o", base, NULL);
    process_run(0, "model", "merge", PEFT "llama", PEFT "llama/adapter", other, NULL);
    adapter_train(base, "tuned", "4");
    double loss = adapter_loss("tuned", NULL);
    char *command = kept_format("mv %s %s", base, moved);
    assert_int_equal(system(command), 0);
    adapter_refused(process_start("evaluate", "tuned", "--data", adapter_tokens, NULL),
                    "is not a model's folder here");
    adapter_refused(process_start("resume", "tuned", "--train.total_steps=8", NULL), "--model.from=FOLDER");
    assert_true(adapter_loss(moved, "tuned") == loss);
    snprintf(from, sizeof from, "--model.from=%s", other);
    adapter_refused(process_start("resume", "tuned", from, "--train.total_steps=8", "--progress=none", NULL),
                    "was trained on a base whose weights have the hash");
    snprintf(from, sizeof from, "--model.from=%s", moved);
    process_run(0, "resume", "tuned", from, "--train.total_steps=8", "--progress=none", NULL);
    process_run(0, "resume", "tuned", "--train.total_steps=12", "--progress=none", NULL);
    assert_true(adapter_loss("tuned", NULL) < loss);
}

/* peft puts adapters into the layers that layers_to_transform lists, null for all. */
ADAPTER_CASE(the_layers_with_adapters_are_named_for_peft, struct stage *s)
{
    static const char *const cases[][2] = {{"--lora.layers=0,2", "[0,2]"}, {"--lora.layers=", "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const names[] = {"some", "all"};
        const char *const keys[4] = {cases[i][0], "--lora.targets=q_proj,down"};
        double trained = train_and_measure(names[i], "--model.from=" PEFT "llama_rslora", keys);
        const char *folder = stage_path(s, names[i]);
        process_run(0, "model", "export", names[i], "-o", folder, NULL);
        char *config = kept_format("%s/adapter_config.json", folder);
        json_t *json = json_load_file(config, 0, NULL),
               *want = json_loads(cases[i][1], JSON_DECODE_ANY, NULL);
        assert_true(json_equal(json_object_get(json, "layers_to_transform"), want));
        assert_true(json_is_integer(json_object_get(json, "lora_alpha"))); /* 16, not 16.0 */
        json_decref(json), json_decref(want);
        expect_loss(trained, adapter_loss(folder, NULL));
    }
}

ADAPTER_CASE(the_reservation_says_what_is_trained, struct stage *s)
{
    static const char *const cases[][3] = {{"--lora.rank=2", "--lora.base=auto", " (lora), process "},
                                           {"--lora.rank=2", "--lora.base=nf4", " (qlora), process "},
                                           {"--train.seed=2", "--train.optimizer=lion", ", process "}};
    for (int i = 0; i < 3; i++) {
        char held[64];
        char *data = kept_format("--data.train=%s", adapter_tokens);
        char *name = kept_format("--name=held-%d", i);
        snprintf(held, sizeof held, "-held-%d%s", i, cases[i][2]);
        struct process *run =
            process_start("train", "--model.from=tests/fixtures/nf4/model", data, name, cases[i][0],
                          cases[i][1], "--train.total_steps=100000000", "--train.batch_size=2",
                          "--train.seq_len=20", "--sample.every=0", "--progress=json", NULL);
        process_wait_lines(run, 3);
        char *out = process_output("devices", NULL);
        if (!strstr(out, held)) fail_msg("%s: %s", held, out);
        process_signal(run, SIGTERM);
        process_expect(0, run);
    }
}

ADAPTER_CASE(keys_that_fit_no_matrix_are_refused, struct stage *s)
{
    static const struct {
        const char *key, *sentence;
    } cases[] = {
        {"--lora.targets=q,w",
         "has no matrix w (it has q, k, v, o, gate, up and down; all means all of them)"},
        {"--lora.targets=q_pro", "has no matrix q_pro (it has"},
        {"--lora.targets=,", "names no matrix"},
        {"--lora.rank=29", "lora.rank = 29: is more than a side of the matrix "
                           "model.layers.0.self_attn.q_proj, 24"},
        {"--lora.rank=0", "lora.targets has no effect with lora.rank = 0"},
        {"--lora.layers=3", "from 0 to model.num_layers - 1 = 2"},
        {"--lora.layers=x", "lora.layers = x"},
        {"--lora.train_head=true", "set lora.train_embedding instead"},
        {"--model.from=", "set model.from"},
    };
    char *data = kept_format("--data.train=%s", adapter_tokens);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        adapter_refused(process_start("train", "--model.from=" PEFT "llama", data, "--train.seq_len=20",
                                      "--lora.rank=4", "--lora.targets=q,k", "--data.val_fraction=0",
                                      cases[i].key, NULL),
                        cases[i].sentence);
    /* without a rank none has an effect */
    static const char *const idle[] = {
        "targets=q",        "layers=1",        "dropout=0.1",          "rslora=true", "base=nf4",
        "train_norms=true", "train_head=true", "train_embedding=true", "alpha=8"};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        adapter_refused(
            process_start("train", "--model.from=" PEFT "llama", data, "--train.seq_len=20",
                          kept_format("--lora.%s", idle[i]), NULL),
            kept_format("lora.%.*s has no effect with lora.rank = 0", (int)strcspn(idle[i], "="), idle[i]));
    assert_int_equal(stage_count_runs(), 0);
}

TEST_MAIN()
