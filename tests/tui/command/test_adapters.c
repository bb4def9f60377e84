/* Adapters (LoRA) on the command line: trained, resumed, evaluated beside their base, merged, and refused
 * beside another one. The bases and peft's adapters are those of tests/fixtures/peft/make_peft.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

#define PEFT "tests/fixtures/peft/"

enum { TOKENS = 400, VOCABULARY = 47 };

static char tokens_path[700];

/* The program ends with an error of one line that contains `sentence`. */
static void refused(struct process *p, const char *sentence)
{
    if (process_wait_exit(p) == 0) fail_msg("it did not fail: %s", sentence);
    process_expect_sentence(p, sentence);
    process_close(p);
}

/* Opens the stage with a file of tokens below the vocabulary of the bases. */
static void open_stage(struct stage *s, const char *name)
{
    struct {
        uint64_t count;
        uint32_t tokens[TOKENS];
    } file = {.count = TOKENS};
    stage_open(s, name);
    for (uint32_t i = 0; i < TOKENS; i++) file.tokens[i] = (i * i + i / 7) % VOCABULARY;
    snprintf(tokens_path, sizeof tokens_path, "%s/text.tok", s->folder);
    stage_write(tokens_path, &file, sizeof file);
}

/* Trains adapters on the base NAME of the fixtures for `steps` steps. */
static struct process *start_training(const char *base, const char *name, const char *steps,
                                      const char *progress)
{
    char from[256], data[720], named[64], total[64];
    snprintf(from, sizeof from, "--model.from=%s", base);
    snprintf(data, sizeof data, "--data.train=%s", tokens_path);
    snprintf(named, sizeof named, "--name=%s", name);
    snprintf(total, sizeof total, "--train.total_steps=%s", steps);
    return process_start("train", from, data, named, total, "--lora.rank=3", "--lora.targets=all",
                         "--lora.dropout=0.2", "--lora.train_norms=true", "--train.batch_size=2",
                         "--train.seq_len=20", "--train.learning_rate=0.02", "--train.warmup_steps=0",
                         "--data.val_fraction=0", "--sample.every=0", "--checkpoint.every=4",
                         "--train.threads=1", progress, NULL);
}

static void train(const char *base, const char *name, const char *steps)
{
    process_close(process_expect(0, start_training(base, name, steps, "--progress=none")));
}

/* The loss of the tokens with a model and, unless NULL, adapters. */
static double loss_of(const char *model, const char *adapter)
{
    char *out =
        adapter ? process_output("evaluate", model, "--adapter", adapter, "--data", tokens_path,
                                 "--seq-len=20", "--json", NULL)
                : process_output("evaluate", model, "--data", tokens_path, "--seq-len=20", "--json", NULL);
    json_t *json = json_loads(out, 0, NULL);
    double loss = stage_real(json, "loss");
    json_decref(json);
    free(out);
    return loss;
}

static char *path_in(const struct stage *s, const char *name)
{
    static char paths[4][700];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", s->folder, name);
    return path;
}

static void adapters_beside_their_base_and_merged_give_the_same_loss(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "merged");
    train(PEFT "qwen3", "tuned", "8");
    double base = loss_of(PEFT "qwen3", NULL), alone = loss_of("tuned", NULL),
           beside = loss_of(PEFT "qwen3", "tuned");
    if (!(alone < 0.9 * base)) fail_msg("from %f to %f", base, alone);
    assert_true(alone == beside);
    const char *merged = path_in(&s, "merged"), *exported = path_in(&s, "exported");
    process_close(process_run(0, "model", "merge", PEFT "qwen3", "tuned", merged, NULL));
    process_close(process_run(0, "model", "export", "tuned", "-o", exported, NULL));
    assert_true(fabs(loss_of(merged, NULL) - alone) < 1e-5);
    assert_true(loss_of(exported, NULL) == alone);
    assert_true(loss_of(PEFT "qwen3", exported) == alone);
    process_close(process_run(0, "model", "merge", PEFT "qwen3", exported, path_in(&s, "again"), NULL));
    refused(process_start("model", "merge", PEFT "qwen3", "tuned", merged, NULL), "exists already");
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static void adapters_of_peft_find_their_base_and_change_its_loss(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "peft");
    double base = loss_of(PEFT "llama", NULL), adapted = loss_of(PEFT "llama/adapter", NULL);
    assert_true(fabs(base - adapted) > 0.01);
    assert_true(adapted == loss_of(PEFT "llama", PEFT "llama/adapter"));
}

static void a_checkpoint_of_adapters_holds_no_weight_of_the_base(void **state)
{
    (void)state;
    struct stage s;
    struct stat model, adapters;
    open_stage(&s, "small");
    train(PEFT "llama", "tuned", "4");
    char *out = process_output("model", "info", "tuned", "--json", NULL);
    json_t *json = json_loads(out, 0, NULL);
    /* 3 layers: A and B of rank 3 of q, k, v, o, gate, up, down, and the norms */
    int q = 3 * (24 + 32), k = 3 * (24 + 16), o = 3 * (32 + 24), up = 3 * (24 + 28), down = 3 * (28 + 24);
    assert_int_equal(stage_int(json, "parameters"), 3 * (q + 2 * k + o + 2 * up + down + 2 * 24) + 24);
    assert_non_null(strstr(stage_text(json, "base"), PEFT "llama"));
    char *row = stage_query(&s, "select trained_parameters, parameters - frozen_parameters, "
                                "frozen_parameters > 0 from runs");
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%d|%d|1", (int)stage_int(json, "parameters"),
             (int)stage_int(json, "parameters"));
    assert_string_equal(row, wanted);
    free(row);
    char *page = process_output("show", "tuned", NULL);
    assert_non_null(strstr(page, " parameters trained\n"));
    free(page);
    char path[1024];
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", stage_text(json, "folder"));
    assert_int_equal(stat(path, &adapters), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", stage_text(json, "folder"));
    assert_int_not_equal(stat(path, &model), 0);
    json_decref(json);
    free(out);
}

static void a_dry_run_shows_what_is_trained_and_what_is_frozen(void **state)
{
    (void)state;
    struct stage s;
    char data[720];
    open_stage(&s, "dry");
    snprintf(data, sizeof data, "--data.train=%s", tokens_path);
    char *out = process_output("train", "--dry-run", "--json", "--model.from=" PEFT "llama", data,
                               "--train.seq_len=20", "--data.val_fraction=0", "--lora.rank=4", NULL);
    json_t *json = json_loads(out, 0, NULL);
    int64_t trained = 3 * 4 * (24 + 32 + 24 + 16), all = stage_int(json, "parameters");
    assert_int_equal(stage_int(json, "trained_parameters"), trained);
    assert_int_equal(stage_int(json, "frozen_parameters"), all - trained);
    assert_true(stage_int(json, "frozen_bytes") >= 4 * (all - trained));
    assert_true(stage_int(json, "checkpoint_bytes") < 4 * (all - trained)); /* without the base */
    json_decref(json);
    free(out);
}

static void a_run_with_adapters_resumes_bit_for_bit_after_kill_9(void **state)
{
    (void)state;
    struct stage s;
    struct history whole, resumed;
    open_stage(&s, "resumed");
    train(PEFT "qwen2", "whole", "400");
    struct process *killed = start_training(PEFT "qwen2", "killed", "400", "--progress=plain");
    process_wait_text(killed, "checkpoint");
    process_signal(killed, SIGKILL);
    process_wait_exit(killed);
    process_close(killed);
    process_close(process_run(0, "resume", "killed", "--progress=none", NULL));
    history_read("whole", &whole);
    history_read("killed", &resumed);
    history_expect_equal(&whole, &resumed);
    assert_int_equal(whole.count, 400);
    assert_true(loss_of("whole", NULL) == loss_of("killed", NULL));
    history_release(&whole);
    history_release(&resumed);
}

/* Trains and measures in the end. Returns the run's loss on all tokens. */
static double train_and_measure(const char *name, const char *from, const char *const keys[4])
{
    char data[720], val[720], named[64];
    snprintf(data, sizeof data, "--data.train=%s", tokens_path);
    snprintf(val, sizeof val, "--data.val=%s", tokens_path);
    snprintf(named, sizeof named, "--name=%s", name);
    process_close(process_run(0, "train", from, data, val, named, "--lora.rank=1", "--train.total_steps=6",
                              "--train.batch_size=2", "--train.seq_len=20", "--train.learning_rate=0.05",
                              "--train.warmup_steps=0", "--eval.every=6", "--eval.batches=0",
                              "--eval.early=false", "--sample.every=0", "--checkpoint.contents=weights",
                              "--progress=none", keys[0], keys[1], keys[2], keys[3], NULL));
    json_t *runs = stage_runs();
    double loss = stage_real(json_array_get(runs, 0), "best_val_loss");
    json_decref(runs);
    return loss;
}

static void expect_loss(double trained, double loss)
{
    if (!(fabs(trained - loss) < 1e-5 * trained))
        fail_msg("trained to %.9g, the checkpoint has %.9g", trained, loss);
}

/* A head that was trained beside matrices in bf16 is not rounded. */
static void a_run_is_evaluated_beside_the_base_that_it_was_trained_beside(void **state)
{
    (void)state;
    static const char *const cases[][5] = {
        {"--model.from=tests/fixtures/nf4/model", "--lora.base=nf4"},
        {"--model.from=tests/fixtures/nf4/model", "--lora.base=nf4", "--lora.double_quant=false"},
        {"--model.from=tests/fixtures/nf4/model", "--lora.base=fp32"},
        {"--model.from=" PEFT "qwen2", "--lora.base=bf16", "--lora.train_head=true"},
        {"--model.from=" PEFT "llama", "--lora.base=bf16", "--lora.train_embedding=true"},
    };
    struct stage s;
    open_stage(&s, "stored");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        snprintf(name, sizeof name, "stored-%zu", i);
        double trained = train_and_measure(name, cases[i][0], cases[i] + 1);
        expect_loss(trained, loss_of(name, NULL));
        expect_loss(trained, loss_of(cases[i][0] + strlen("--model.from="), name));
        if (i) continue;
        const char *exported = path_in(&s, "exported"); /* its base is as the file has it */
        process_close(process_run(0, "model", "export", name, "-o", exported, NULL));
        assert_true(fabs(loss_of(exported, NULL) - trained) > 1e-4);
    }
}

/* Norms and head or embedding are trained beside the adapters: what they have learned is in the checkpoint.
 */
static void trained_beside(const char *base, const char *key, int head_count)
{
    const char *const keys[4] = {"--lora.layers=1", "--lora.train_norms=true", key};
    struct stage s;
    char from[256];
    open_stage(&s, "beside");
    const char *merged = path_in(&s, "merged");
    snprintf(from, sizeof from, "--model.from=%s", base);
    double trained = train_and_measure("beside", from, keys);
    expect_loss(trained, loss_of("beside", NULL));
    process_close(process_run(0, "model", "merge", base, "beside", merged, NULL));
    expect_loss(trained, loss_of(merged, NULL));
    char *out = process_output("model", "info", "beside", "--json", NULL);
    json_t *info = json_loads(out, 0, NULL);
    /* adapters of q and v of one layer, the norms, the head */
    assert_int_equal(stage_int(info, "parameters"),
                     24 + 32 + 24 + 16 + 7 * 24 + head_count * VOCABULARY * 24);
    json_decref(info);
    free(out);
}

static void what_is_trained_beside_the_adapters_is_saved(void **state)
{
    (void)state;
    trained_beside(PEFT "qwen2", "--lora.train_head=true", 1);
}

/* In the file it is there as head, too. */
static void a_trained_embedding_is_saved_and_merged_with_the_head_that_it_is(void **state)
{
    (void)state;
    trained_beside(PEFT "llama", "--lora.train_embedding=true", 2);
}

static void an_embedding_that_peft_has_trained_without_its_head_is_refused(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "untied");
    const char *folder = path_in(&s, "untied"), *config = path_in(&s, "untied/adapter_config.json");
    char command[1600];
    snprintf(command, sizeof command,
             "cp -r " PEFT "llama_tokens/adapter %s && sed -i 's/\"ensure_weight_tying\": true/"
             "\"ensure_weight_tying\": false/' %s",
             folder, config);
    assert_int_equal(system(command), 0);
    refused(process_start("evaluate", PEFT "llama_tokens", "--adapter", folder, "--data", tokens_path, NULL),
            "embed_tokens without ensure_weight_tying");
    refused(process_start("model", "merge", PEFT "llama_tokens", folder, path_in(&s, "never"), NULL),
            "embed_tokens without ensure_weight_tying");
}

static void a_fork_of_adapters_goes_on_from_them(void **state)
{
    (void)state;
    struct stage s;
    struct history whole, fork;
    open_stage(&s, "forked");
    train(PEFT "qwen3", "whole", "12");
    process_close(process_run(0, "fork", "whole", "--step=8", "--name=fork", "--progress=none", NULL));
    history_read("whole", &whole);
    history_read("fork", &fork);
    assert_true(whole.count == 12 && fork.count == 12);
    for (int i = 8; i < 12; i++) assert_string_equal(whole.steps[i].values, fork.steps[i].values);
    assert_true(loss_of("whole", NULL) == loss_of("fork", NULL));
    history_release(&whole);
    history_release(&fork);
}

static void a_base_that_has_moved_is_found_in_its_new_place_and_no_other_one(void **state)
{
    (void)state;
    struct stage s;
    char command[1600], from[800];
    open_stage(&s, "moved");
    const char *base = path_in(&s, "base"), *moved = path_in(&s, "moved"), *other = path_in(&s, "other");
    process_close(process_run(0, "model", "export", PEFT "llama", "-o", base, NULL));
    process_close(process_run(0, "model", "merge", PEFT "llama", PEFT "llama/adapter", other, NULL));
    train(base, "tuned", "4");
    double loss = loss_of("tuned", NULL);
    snprintf(command, sizeof command, "mv %s %s", base, moved);
    assert_int_equal(system(command), 0);
    refused(process_start("evaluate", "tuned", "--data", tokens_path, NULL), "is not a model's folder here");
    refused(process_start("resume", "tuned", "--train.total_steps=8", NULL), "--model.from=FOLDER");
    assert_true(loss_of(moved, "tuned") == loss);
    snprintf(from, sizeof from, "--model.from=%s", other);
    refused(process_start("resume", "tuned", from, "--train.total_steps=8", "--progress=none", NULL),
            "was trained on a base whose weights have the hash");
    snprintf(from, sizeof from, "--model.from=%s", moved);
    process_close(process_run(0, "resume", "tuned", from, "--train.total_steps=8", "--progress=none", NULL));
    process_close(process_run(0, "resume", "tuned", "--train.total_steps=12", "--progress=none", NULL));
    assert_true(loss_of("tuned", NULL) < loss);
}

/* Copies a fixture's adapter_config.json with `from` replaced by `to`, and its tensors. */
static const char *changed_adapter(const struct stage *s, const char *from, const char *to)
{
    const char *folder = path_in(s, "changed");
    char path[800], *text = stage_read(PEFT "llama/adapter/adapter_config.json"), *at = strstr(text, from),
                    new[4096];
    if (!at) fail_msg("no %s", from);
    snprintf(new, sizeof new, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    stage_write(path, new, strlen(new));
    snprintf(path, sizeof path, "cp -f " PEFT "llama/adapter/adapter_model.safetensors %s/", folder);
    assert_int_equal(system(path), 0);
    free(text);
    return folder;
}

/* A copy of a fixture's adapters, whose base is on a hub, so that nothing tells its type. */
static const char *adapters_of_hub(const struct stage *s, const char *name)
{
    const char *folder = path_in(s, "hub");
    char command[1600];
    snprintf(command, sizeof command,
             "cp -r " PEFT
             "%s/adapter %s && sed -i 's,\"tests/.*\",\"someone/a-model\",' %s/adapter_config.json",
             name, folder, folder);
    assert_int_equal(system(command), 0);
    return folder;
}

/* With one merged into the base and the other beside that; and with both beside the base. */
static void several_adapters_are_added_up(void **state)
{
    (void)state;
    struct stage s;
    char both[1600], twice[1600];
    open_stage(&s, "several");
    const char *merged = path_in(&s, "merged"), *rslora = PEFT "llama_rslora/adapter",
               *other = changed_adapter(&s, "\"lora_alpha\": 8", "\"lora_alpha\": 3");
    process_close(process_run(0, "model", "merge", PEFT "llama_rslora", other, merged, NULL));
    snprintf(both, sizeof both, "%s,%s", rslora, other);
    double want = loss_of(merged, rslora), got = loss_of(PEFT "llama_rslora", both);
    if (!(fabs(want - got) < 1e-5 * want)) fail_msg("together %.9g, one by one %.9g", got, want);
    assert_true(fabs(got - loss_of(PEFT "llama_rslora", rslora)) > 1e-3);
    assert_true(fabs(got - loss_of(PEFT "llama_rslora", other)) > 1e-3);
    snprintf(twice, sizeof twice, "%s,%s", PEFT "qwen2/adapter", PEFT "qwen2/adapter");
    refused(process_start("evaluate", PEFT "qwen2", "--adapter", twice, "--data", tokens_path, NULL),
            "both bring");
    snprintf(twice, sizeof twice, "%s,%s", other, adapters_of_hub(&s, "qwen2"));
    refused(process_start("evaluate", PEFT "llama", "--adapter", twice, "--data", tokens_path, NULL),
            "lm_head");
}

/* peft puts adapters into the layers that layers_to_transform lists, null for all. */
static void the_layers_with_adapters_are_named_for_peft(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"--lora.layers=0,2", "[0,2]"}, {"--lora.layers=", "null"}};
    struct stage s;
    open_stage(&s, "layers");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const names[] = {"some", "all"};
        const char *const keys[4] = {cases[i][0], "--lora.targets=q,down"};
        double trained = train_and_measure(names[i], "--model.from=" PEFT "llama_rslora", keys);
        const char *folder = path_in(&s, names[i]);
        char config[800];
        process_close(process_run(0, "model", "export", names[i], "-o", folder, NULL));
        snprintf(config, sizeof config, "%s/adapter_config.json", folder);
        json_t *json = json_load_file(config, 0, NULL),
               *want = json_loads(cases[i][1], JSON_DECODE_ANY, NULL);
        assert_true(json_equal(json_object_get(json, "layers_to_transform"), want));
        assert_true(json_is_integer(json_object_get(json, "lora_alpha"))); /* 16, not 16.0 */
        json_decref(json), json_decref(want);
        expect_loss(trained, loss_of(folder, NULL));
    }
}

static void what_peft_computes_otherwise_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *sentence;
    } cases[] = {
        {"\"use_dora\": false", "\"use_dora\": true", "use_dora is true, only false is supported"},
        {"\"bias\": \"none\"", "\"bias\": \"all\"", "bias is \"all\""},
        {"\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 2}", "rank_pattern is {\"q_proj\":2}"},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": 2}", "alpha_pattern is {\"q_proj\":2}"},
        {"\"r\": 4", "\"r\": 0", "r is 0, must be a whole number from 1"},
        {"\"r\": 4", "\"r\": 25", "self_attn.q_proj.weight is 32 x 24"},
        {"\"r\": 4", "\"r\": 4.5", "r is 4.5"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": \"8\"", "lora_alpha is"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": 8, \"new_thing\": 1",
         "new_thing is not a key that anneal knows"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"", "which changed the base, too"},
        {"\"peft_type\": \"LORA\"", "\"peft_type\": \"LOHA\"", "peft_type is \"LOHA\""},
        {"{", "{\"a_key_of_ia3\": 1, ", "a_key_of_ia3 is not a key"},
        {"\"peft_type\": \"LORA\"", "\"a_key_of_ia3\": 1, \"peft_type\": \"IA3\"", "peft_type is \"IA3\""},
        {"{", "[", "adapter_config.json"},
    };
    struct stage s;
    open_stage(&s, "config");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = changed_adapter(&s, cases[i].from, cases[i].to);
        refused(process_start("evaluate", PEFT "llama", "--adapter", folder, "--data", tokens_path, NULL),
                cases[i].sentence);
    }
}

static void the_reservation_says_what_is_trained(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"auto", "(lora), process "}, {"nf4", "(qlora), process "}};
    struct stage s;
    open_stage(&s, "purpose");
    for (int i = 0; i < 2; i++) {
        char data[720], base[32], name[16], held[64];
        snprintf(data, sizeof data, "--data.train=%s", tokens_path);
        snprintf(base, sizeof base, "--lora.base=%s", cases[i][0]);
        snprintf(name, sizeof name, "--name=held-%d", i);
        snprintf(held, sizeof held, "-held-%d %s", i, cases[i][1]);
        struct process *run =
            process_start("train", "--model.from=tests/fixtures/nf4/model", data, base, name, "--lora.rank=2",
                          "--train.total_steps=100000000", "--train.batch_size=2", "--train.seq_len=20",
                          "--sample.every=0", "--progress=json", NULL);
        process_wait_lines(run, 3);
        char *out = process_output("devices", NULL);
        if (!strstr(out, held)) fail_msg("%s: %s", held, out);
        free(out);
        process_signal(run, SIGTERM);
        process_close(process_expect(0, run));
    }
}

static void another_base_is_refused_in_a_sentence(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "another");
    const char *data = tokens_path, *merged = path_in(&s, "merged");
    train(PEFT "llama", "tuned", "4");
    /* the same sizes and names, other weights */
    process_close(process_run(0, "model", "merge", PEFT "llama", PEFT "llama/adapter", merged, NULL));
    refused(process_start("evaluate", merged, "--adapter", "tuned", "--data", data, NULL),
            "was trained on a base whose weights have the hash");
    refused(process_start("model", "merge", merged, "tuned", path_in(&s, "never"), NULL),
            "was trained on a base whose weights have the hash");
    assert_int_equal(stage_count_leftovers(&s), 0);
    /* other matrices; and another hidden size */
    refused(process_start("evaluate", PEFT "llama", "--adapter", adapters_of_hub(&s, "qwen2"), "--data", data,
                          NULL),
            "base_model.model.lm_head.weight");
    process_close(
        process_run(0, "train", s.config, "--name=wide", "--train.total_steps=1", "--progress=none", NULL));
    refused(process_start("evaluate", "wide", "--adapter", PEFT "llama/adapter", "--data", data, NULL),
            "lora_A");
    /* the same sizes, and fewer layers */
    process_close(process_run(0, "train", s.config, "--name=shallow", "--model.hidden_dim=24",
                              "--model.num_heads=4", "--model.num_kv_heads=2", "--model.head_dim=8",
                              "--model.intermediate_dim=28", "--train.total_steps=1", "--progress=none",
                              NULL));
    refused(process_start("evaluate", "shallow", "--adapter", PEFT "llama/adapter", "--data", data, NULL),
            "has a tensor base_model.model.model.layers.1.");
    /* none at all */
    refused(process_start("evaluate", PEFT "llama", "--adapter", "wide", "--data", data, NULL),
            "holds no adapters");
    refused(process_start("model", "merge", "tuned", "tuned", path_in(&s, "never"), NULL),
            "holds adapters alone");
    refused(process_start("generate", PEFT "llama/adapter", "--adapter", "tuned", NULL),
            "holds adapters itself");
    refused(process_start("model", "export", "tuned", "--gguf", "f32", "-o", path_in(&s, "x.gguf"), NULL),
            "holds adapters alone");
}

/* The matrices that these adapters are for have the same names and sizes in all kinds of models. */
static void adapters_of_peft_for_another_kind_of_model_are_refused(void **state)
{
    (void)state;
    struct stage s;
    open_stage(&s, "kinds");
    const char *folder = PEFT "llama_rslora/adapter", *data = tokens_path;
    refused(process_start("evaluate", PEFT "qwen3", "--adapter", folder, "--data", data, NULL),
            "trained on a model of the type llama, but " PEFT "qwen3 is of the type qwen3");
    refused(process_start("model", "merge", PEFT "qwen3", folder, path_in(&s, "never"), NULL),
            "is of the type qwen3");
    refused(process_start("evaluate", PEFT "qwen3", "--adapter", PEFT "llama/adapter," PEFT "qwen3/adapter",
                          "--data", data, NULL),
            "is of the type qwen3");
    /* the base is on a hub */
    char command[1600];
    folder = adapters_of_hub(&s, "llama");
    assert_true(loss_of(PEFT "llama", folder) == loss_of(PEFT "llama", PEFT "llama/adapter"));
    snprintf(command, sizeof command,
             "sed -i 's/\"auto_mapping\": null/\"auto_mapping\": {\"base_model_class\": "
             "\"Qwen2ForCausalLM\"}/' %s/adapter_config.json",
             folder);
    assert_int_equal(system(command), 0);
    refused(process_start("evaluate", PEFT "llama", "--adapter", folder, "--data", data, NULL),
            "trained on a model of the type qwen2, but " PEFT "llama is of the type llama");
}

static void keys_that_fit_no_matrix_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *sentence;
    } cases[] = {
        {"--lora.targets=q,w",
         "has no matrix w (it has q, k, v, o, gate, up and down; all means all of them)"},
        {"--lora.targets=,", "names no matrix"},
        {"--lora.rank=29", "q_proj.weight is 32 x 24, so its adapter's rank is at most 24"},
        {"--lora.rank=0", "lora.targets has no effect with lora.rank = 0"},
        {"--lora.layers=3", "from 0 to model.num_layers - 1 = 2"},
        {"--lora.layers=x", "lora.layers = x"},
        {"--lora.train_head=true", "set lora.train_embedding instead"},
        {"--model.from=", "set model.from"},
    };
    struct stage s;
    char data[720];
    open_stage(&s, "keys");
    snprintf(data, sizeof data, "--data.train=%s", tokens_path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(process_start("train", "--model.from=" PEFT "llama", data, "--train.seq_len=20",
                              "--lora.rank=4", "--lora.targets=q,k", "--data.val_fraction=0", cases[i].key,
                              NULL),
                cases[i].sentence);
    assert_int_equal(stage_count_runs(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(adapters_beside_their_base_and_merged_give_the_same_loss,
                                  process_close_all),
        cmocka_unit_test_teardown(adapters_of_peft_find_their_base_and_change_its_loss, process_close_all),
        cmocka_unit_test_teardown(a_checkpoint_of_adapters_holds_no_weight_of_the_base, process_close_all),
        cmocka_unit_test_teardown(a_dry_run_shows_what_is_trained_and_what_is_frozen, process_close_all),
        cmocka_unit_test_teardown(a_run_with_adapters_resumes_bit_for_bit_after_kill_9, process_close_all),
        cmocka_unit_test_teardown(what_is_trained_beside_the_adapters_is_saved, process_close_all),
        cmocka_unit_test_teardown(a_run_is_evaluated_beside_the_base_that_it_was_trained_beside,
                                  process_close_all),
        cmocka_unit_test_teardown(a_trained_embedding_is_saved_and_merged_with_the_head_that_it_is,
                                  process_close_all),
        cmocka_unit_test_teardown(an_embedding_that_peft_has_trained_without_its_head_is_refused,
                                  process_close_all),
        cmocka_unit_test_teardown(a_fork_of_adapters_goes_on_from_them, process_close_all),
        cmocka_unit_test_teardown(a_base_that_has_moved_is_found_in_its_new_place_and_no_other_one,
                                  process_close_all),
        cmocka_unit_test_teardown(several_adapters_are_added_up, process_close_all),
        cmocka_unit_test_teardown(the_layers_with_adapters_are_named_for_peft, process_close_all),
        cmocka_unit_test_teardown(what_peft_computes_otherwise_is_refused_by_name, process_close_all),
        cmocka_unit_test_teardown(the_reservation_says_what_is_trained, process_close_all),
        cmocka_unit_test_teardown(another_base_is_refused_in_a_sentence, process_close_all),
        cmocka_unit_test_teardown(adapters_of_peft_for_another_kind_of_model_are_refused, process_close_all),
        cmocka_unit_test_teardown(keys_that_fit_no_matrix_are_refused, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
