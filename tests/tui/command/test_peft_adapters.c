/* Adapters of peft, and of several folders, on the command line: their base is found or refused, they are
 * used, added up and trained on, and what anneal does not compute is refused. Bases and adapters are those of
 * tests/fixtures/peft/make_peft.py. */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/adapter_stage.h"
#include "tests/tui/command/process.h"

#define PEFT "tests/fixtures/peft/"

ADAPTER_CASE(adapters_of_peft_find_their_base_and_change_its_loss, struct stage *s)
{
    double base = adapter_loss(PEFT "llama", NULL), adapted = adapter_loss(PEFT "llama/adapter", NULL);
    assert_true(fabs(base - adapted) > 0.01);
    assert_true(adapted == adapter_loss(PEFT "llama", PEFT "llama/adapter"));
}

ADAPTER_CASE(an_embedding_that_peft_has_trained_without_its_head_is_refused, struct stage *s)
{
    const char *folder = stage_path(s, "untied"), *config = stage_path(s, "untied/adapter_config.json");
    char command[1600];
    snprintf(command, sizeof command,
             "cp -r " PEFT "llama_tokens/adapter %s && sed -i 's/\"ensure_weight_tying\": true/"
             "\"ensure_weight_tying\": false/' %s",
             folder, config);
    assert_int_equal(system(command), 0);
    adapter_refused(
        process_start("evaluate", PEFT "llama_tokens", "--adapter", folder, "--data", adapter_tokens, NULL),
        "embed_tokens without ensure_weight_tying");
    adapter_refused(
        process_start("model", "merge", PEFT "llama_tokens", folder, stage_path(s, "never"), NULL),
        "embed_tokens without ensure_weight_tying");
}

/* Trains `steps` steps from `from`, with an evaluation of the tokens before the first. */
static struct process *train_on(const char *from, const char *adapters, const char *name, const char *more)
{
    char *model = kept_format("--model.from=%s", from);
    char *lora = kept_format("--lora.from=%s", adapters);
    char *data = kept_format("--data.train=%s", adapter_tokens);
    char *val = kept_format("--data.val=%s", adapter_tokens);
    char *named = kept_format("--name=%s", name);
    return process_start("train", model, lora, data, val, named, "--train.total_steps=6",
                         "--train.batch_size=2", "--train.seq_len=20", "--train.learning_rate=0.02",
                         "--train.warmup_steps=0", "--eval.batches=0", "--sample.every=0", "--progress=none",
                         more, NULL);
}

static double first_loss(const struct stage *s, const char *name)
{
    char query[200];
    snprintf(query, sizeof query,
             "select val_loss from evals e join runs r on r.id = e.run_id where name = '%s' and step = 0",
             name);
    char *text = stage_query(s, query);
    double loss = text ? strtod(text, NULL) : NAN;
    return loss;
}

ADAPTER_CASE(training_goes_on_from_adapters_of_peft, struct stage *s)
{
    static const char *const bases[] = {"llama", "llama_rslora", "qwen3"};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        char path[760];
        char *base = kept_format(PEFT "%s", bases[i]);
        char *adapter = kept_format("%s/adapter", base);
        process_expect(0, train_on(adapter, "", bases[i], NULL));
        double theirs = adapter_loss(adapter, NULL), first = first_loss(s, bases[i]),
               last = adapter_loss(bases[i], NULL);
        if (!(fabs(first - theirs) < 1e-5)) fail_msg("%s begins at %f, not at %f", base, first, theirs);
        if (!(last < 0.95 * theirs)) fail_msg("%s: from %f to %f", base, theirs, last);
        /* what they are has not changed */
        json_t *before, *after;
        snprintf(path, sizeof path, "%s/adapter_config.json", adapter);
        before = json_load_file(path, 0, NULL);
        const char *exported = stage_path(s, bases[i]);
        process_run(0, "model", "export", bases[i], "-o", exported, NULL);
        snprintf(path, sizeof path, "%s/adapter_config.json", exported);
        after = json_load_file(path, 0, NULL);
        static const char *const kept[] = {"r", "use_rslora"};
        for (size_t k = 0; k < 2; k++)
            assert_true(json_equal(json_object_get(before, kept[k]), json_object_get(after, kept[k])));
        static const char *const lists[] = {"target_modules", "modules_to_save"};
        for (size_t k = 0; k < 2; k++)
            assert_int_equal(json_array_size(json_object_get(before, lists[k])),
                             json_array_size(json_object_get(after, lists[k])));
        assert_true(stage_real(before, "lora_alpha") == stage_real(after, "lora_alpha"));
        json_decref(before);
        json_decref(after);
    }
    process_run(0, "resume", "qwen3", "--train.total_steps=8", "--progress=none", NULL);
    adapter_refused(train_on(PEFT "llama/adapter", "", "other", "--lora.rank=7"),
                    "lora.rank = 7: the adapters in " PEFT "llama/adapter have");
}

/* Its weights would take the place of the frozen ones, and no file would say so. */
ADAPTER_CASE(a_whole_model_is_no_beginning_for_adapters, struct stage *s)
{
    static const char *const commands[][3] = {
        {"train", "--name=never"}, {"train", "--dry-run"}, {"estimate"}, {"lr-find", "--name=never"}};
    static const char none[] =
        "lora.from: " PEFT "llama: holds no adapters (there is no adapter_config.json)";
    char *data = kept_format("--data.train=%s", adapter_tokens);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        adapter_refused(process_start(commands[i][0], "--model.from=" PEFT "llama",
                                      "--lora.from=" PEFT "llama", "--lora.rank=3", data,
                                      "--train.seq_len=20", commands[i][1], NULL),
                        none);
    /* the checkpoint of a run */
    process_run(0, "train", s->config, "--name=whole", "--train.total_steps=1", "--progress=none", NULL);
    adapter_refused(process_start("train", "--model.from=whole", "--lora.from=whole", "--lora.rank=3", data,
                                  "--train.seq_len=20", NULL),
                    "/checkpoints/step-1: holds no adapters");
    /* a folder that is not there */
    adapter_refused(process_start("estimate", "--model.from=" PEFT "llama", "--lora.from=./none",
                                  "--lora.rank=3", data, "--train.seq_len=20", NULL),
                    "lora.from: ./none: holds no adapters");
}

ADAPTER_CASE(adapters_in_lora_from_need_their_base_in_model_from, struct stage *s)
{
    char *data = kept_format("--data.train=%s", adapter_tokens);
    (void)s;
    adapter_refused(process_start("train", "--lora.from=" PEFT "llama/adapter", data, NULL),
                    "lora.from = " PEFT
                    "llama/adapter: model.from must name the base of these adapters (or leave "
                    "lora.from out and set model.from = " PEFT "llama/adapter, which finds the base)");
}

ADAPTER_CASE(adapters_in_model_from_are_not_dropped_or_replaced, struct stage *s)
{
    static const char *const folders[] = {PEFT "llama/adapter", PEFT "llama/../llama/adapter"};
    (void)s;
    adapter_refused(train_on(PEFT "llama/adapter", PEFT "llama_rslora/adapter", "never", NULL),
                    "model.from = " PEFT "llama/adapter: holds adapters itself, so lora.from = " PEFT
                    "llama_rslora/adapter cannot add others (set model.from to the base");
    process_expect(0, train_on(folders[0], folders[1], "twice_the_same", NULL));
}

/* A checkpoint has all that the run's adapters are; adapters that have become a whole model are a mistake. */
ADAPTER_CASE(a_run_resumes_without_the_adapters_that_it_began_with, struct stage *s)
{
    const char *folder = stage_path(s, "first");
    char command[1600];
    snprintf(command, sizeof command, "cp -r " PEFT "llama/adapter %s", folder);
    assert_int_equal(system(command), 0);
    process_expect(0, train_on(PEFT "llama", folder, "begun", NULL));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    process_run(0, "resume", "begun", "--train.total_steps=8", "--progress=none", NULL);
    process_run(0, "fork", "begun", "--train.total_steps=9", "--progress=none", NULL);
    snprintf(command, sizeof command, "cp -r " PEFT "llama %s", folder);
    assert_int_equal(system(command), 0);
    adapter_refused(process_start("resume", "begun", "--train.total_steps=10", NULL),
                    "first: holds no adapters");
    adapter_refused(process_start("fork", "begun", "--train.total_steps=10", NULL),
                    "first: holds no adapters");
}

/* peft names a base by the id of a hub; where it is here cannot be known, and whether it is it is said. */
ADAPTER_CASE(a_base_of_a_hub_has_to_be_named_and_is_not_verified, struct stage *s)
{
    char *folder = stage_path(s, "hub"), path[760];
    mkdir(folder, 0777);
    json_t *json = json_load_file(PEFT "llama/adapter/adapter_config.json", 0, NULL);
    json_object_set_new(json, "base_model_name_or_path", json_string("somebody/tiny"));
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    assert_int_equal(json_dump_file(json, path, 0), 0);
    json_decref(json);
    char *from = realpath(PEFT "llama/adapter/adapter_model.safetensors", NULL);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    assert_int_equal(symlink(from, path), 0);
    free(from);
    adapter_refused(train_on(folder, "", "none", NULL),
                    "whose base \"somebody/tiny\" is not a model's folder here");
    process_expect(0, train_on(PEFT "llama", folder, "named", NULL));
    char *text = stage_query(s, "select text from events where level = 'warning' and text like "
                                "'%somebody/tiny%cannot be verified%'");
    assert_non_null(text);
    struct process *p =
        process_run(0, "evaluate", PEFT "llama", "--adapter", folder, "--data", adapter_tokens, NULL);
    assert_non_null(strstr(process_stderr(p), "cannot be verified"));
}

/* Copies a fixture's adapter_config.json with `from` replaced by `to`, and its tensors. */
static const char *changed_adapter(const struct stage *s, const char *from, const char *to)
{
    const char *folder = stage_path(s, "changed");
    char path[800], *text = stage_read(PEFT "llama/adapter/adapter_config.json"), *at = strstr(text, from),
                    new[4096];
    if (!at) fail_msg("no %s", from);
    snprintf(new, sizeof new, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    stage_write(path, new, strlen(new));
    snprintf(path, sizeof path, "cp -f " PEFT "llama/adapter/adapter_model.safetensors %s/", folder);
    assert_int_equal(system(path), 0);
    return folder;
}

/* A copy of a fixture's adapters, whose base is on a hub, so that nothing tells its type. */
static const char *adapters_of_hub(const struct stage *s, const char *name)
{
    const char *folder = stage_path(s, "hub");
    char command[1600];
    snprintf(command, sizeof command,
             "cp -r " PEFT
             "%s/adapter %s && sed -i 's,\"tests/.*\",\"someone/a-model\",' %s/adapter_config.json",
             name, folder, folder);
    assert_int_equal(system(command), 0);
    return folder;
}

/* peft's modules_to_save may name any module. */
ADAPTER_CASE(what_could_not_be_trained_on_is_no_beginning, struct stage *s)
{
    const char *folder = stage_path(s, "another");
    char command[1600];
    snprintf(
        command, sizeof command,
        "cp -r " PEFT "qwen3/adapter %s && LC_ALL=C sed -i "
        "'s/layers.1.input_layernorm.weight/layers.1.self_attn.kv_proj.bias/' %s/adapter_model.safetensors",
        folder, folder);
    assert_int_equal(system(command), 0);
    adapter_refused(train_on(PEFT "qwen3", folder, "another", NULL),
                    "layers.1.self_attn.kv_proj.bias, which can be used and merged, but not trained on");
}

#define RSLORA PEFT "llama_rslora/adapter"

/* With one merged into the base and the other beside that; with both beside the base; and both merged. */
ADAPTER_CASE(several_adapters_are_added_up, struct stage *s)
{
    char twice[1600];
    const char *merged = stage_path(s, "merged"), *whole = stage_path(s, "whole"), *rslora = RSLORA,
               *other = changed_adapter(s, "\"lora_alpha\": 8", "\"lora_alpha\": 3");
    process_run(0, "model", "merge", PEFT "llama_rslora", other, merged, NULL);
    char *both = kept_format("%s,%s", rslora, other);
    double want = adapter_loss(merged, rslora), got = adapter_loss(PEFT "llama_rslora", both);
    if (!(fabs(want - got) < 1e-5 * want)) fail_msg("together %.9g, one by one %.9g", got, want);
    process_run(0, "model", "merge", PEFT "llama_rslora", both, whole, NULL);
    if (!(fabs(want - adapter_loss(whole, NULL)) < 1e-5 * want)) fail_msg("both merged, not %.9g", want);
    assert_true(fabs(got - adapter_loss(PEFT "llama_rslora", rslora)) > 1e-3);
    assert_true(fabs(got - adapter_loss(PEFT "llama_rslora", other)) > 1e-3);
    static const char *const eight = RSLORA "," RSLORA "," RSLORA "," RSLORA "," RSLORA "," RSLORA "," RSLORA
                                            "," RSLORA; /* their ranks are 32, the matrices 24 wide */
    const char *sum = stage_path(s, "sum");
    process_run(0, "model", "merge", PEFT "llama_rslora", eight, sum, NULL);
    want = adapter_loss(PEFT "llama_rslora", eight), got = adapter_loss(sum, NULL);
    if (!(fabs(want - got) < 1e-5 * want)) fail_msg("eight beside the base %.9g, merged %.9g", want, got);
    snprintf(twice, sizeof twice, "%s,%s", PEFT "qwen2/adapter", PEFT "qwen2/adapter");
    adapter_refused(
        process_start("evaluate", PEFT "qwen2", "--adapter", twice, "--data", adapter_tokens, NULL),
        "both bring");
    snprintf(twice, sizeof twice, "%s,%s", other, adapters_of_hub(s, "qwen2"));
    adapter_refused(
        process_start("evaluate", PEFT "llama", "--adapter", twice, "--data", adapter_tokens, NULL),
        "lm_head");
}

/* The head comes with those of peft, which know no hash of their base. */
ADAPTER_CASE(a_tensor_that_one_of_several_adapters_has_trained_whole_is_used, struct stage *s)
{
    const char *merged = stage_path(s, "merged"), *qwen = PEFT "qwen2/adapter";
    process_expect(0, train_on(PEFT "qwen2", "", "tuned", "--lora.rank=2"));
    process_run(0, "model", "merge", PEFT "qwen2", "tuned", merged, NULL);
    double want = adapter_loss(merged, qwen);
    assert_true(fabs(want - adapter_loss(PEFT "qwen2", "tuned")) > 1e-3);
    for (int second = 0; second < 2; second++) {
        char *both = kept_format(second ? "tuned,%s" : "%s, tuned", qwen);
        double got = adapter_loss(PEFT "qwen2", both);
        if (!(fabs(want - got) < 1e-5 * want)) fail_msg("%s: %.9g, one by one %.9g", both, got, want);
    }
    static const char *const lists[] = {"nowhere," PEFT "qwen2/adapter", PEFT "qwen2/adapter,nowhere"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        adapter_refused(
            process_start("evaluate", PEFT "qwen2", "--adapter", lists[i], "--data", adapter_tokens, NULL),
            "nowhere");
}

/* Tensors that were trained whole, beside the adapters, must have the shapes of the base. */
ADAPTER_CASE(what_adapters_bring_has_to_fit_the_model, struct stage *s)
{
    static const char *const changes[][2] = {
        {"s/\"shape\":\\[47,24\\]/\"shape\":[24,47]/",
         "lm_head.weight is (24, 47), this model needs (47, 24)"},
        {"s/\"F32\",\"shape\":\\[47,24\\]/\"I32\",\"shape\":[47,24]/", "lm_head.weight is I32"}};
    const char *folder = stage_path(s, "misfit");
    char command[1600];
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(command, sizeof command,
                 "rm -rf %s && cp -r " PEFT
                 "qwen2/adapter %s && LC_ALL=C sed -i '%s' %s/adapter_model.safetensors",
                 folder, folder, changes[i][0], folder);
        assert_int_equal(system(command), 0);
        adapter_refused(process_start("model", "merge", PEFT "qwen2", folder, stage_path(s, "never"), NULL),
                        changes[i][1]);
    }
}

/* Names of the same length, as the tensors follow them in the file. */
ADAPTER_CASE(adapters_beside_other_matrices_are_refused_by_name, struct stage *s)
{
    static const char was[] = "layers.1.self_attn.q_proj.lora_A.weight";
    static const char *const names[] = {
        "layers.1.self_attn.q_proj.lora_C.weight", "layers.1.self_attn.q_port.lora_A.weight",
        "layers.1.self_atta.q_proj.lora_A.weight", "layers.1.mlp.up_proj.lora_A.weight.more",
        "layers.9999.mlp.gate_proj.lora_A.weight", "layers.-001.mlp.gate_proj.lora_A.weight",
        "layers.1.self_attn.gate__proj.lora_A.wei"};
    const char *folder = stage_path(s, "renamed");
    char command[1600], wanted[200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(command, sizeof command,
                 "rm -rf %s && cp -r " PEFT "llama/adapter %s && LC_ALL=C sed -i 's/%s/%.*s/' "
                 "%s/adapter_model.safetensors",
                 folder, folder, was, (int)strlen(was), names[i], folder);
        assert_int_equal(system(command), 0);
        snprintf(wanted, sizeof wanted, "has adapters base_model.model.model.%.*s, but anneal has them only",
                 (int)strlen(was), names[i]);
        adapter_refused(
            process_start("evaluate", PEFT "llama", "--adapter", folder, "--data", adapter_tokens, NULL),
            wanted);
    }
}

ADAPTER_CASE(what_peft_computes_otherwise_is_refused_by_name, struct stage *s)
{
    static const struct {
        const char *from, *to, *sentence;
    } cases[] = {
        {"\"use_dora\": false", "\"use_dora\": true", "use_dora = true (only false is computed)"},
        {"\"bias\": \"none\"", "\"bias\": \"all\"",
         "bias = \"all\" (only \"none\" is computed); set a key to null if you know that it changes nothing, "
         "or "
         "merge the adapters into their base with peft (merge_and_unload)"},
        {"\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 2}", "rank_pattern = {\"q_proj\":2}"},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": 2}", "alpha_pattern = {\"q_proj\":2}"},
        {"\"r\": 4", "\"r\": 0", "r is 0, must be a whole number from 1"},
        {"\"r\": 4", "\"r\": 25", "self_attn.q_proj.lora_A.weight"},
        {"\"r\": 4", "\"r\": 4.5", "r is 4.5"},
        {"\"r\": 4", "\"r\": 4097", "r is 4097"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": \"8\"", "lora_alpha is nan, must be a positive number"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": 0", "lora_alpha is 0"},
        {"\"lora_dropout\": 0.0", "\"lora_dropout\": 1", "lora_dropout is 1, must be at least 0 and below 1"},
        {"\"lora_dropout\": 0.0", "\"lora_dropout\": -0.1", "lora_dropout is -0.1"},
        {"\"use_rslora\": false", "\"use_rslora\": \"no\"", "use_rslora must be true or false"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": 8, \"new_thing\": 1", "does not compute: new_thing = 1;"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_4\"",
         "which changed the base, too"},
        {"\"peft_type\": \"LORA\"", "\"peft_type\": \"LOHA\"", "peft_type = \"LOHA\" (only"},
        {"{", "{\"a_key_of_ia3\": 1, ", "does not compute: a_key_of_ia3 = 1;"},
        {"\"peft_type\": \"LORA\"", "\"a_key_of_ia3\": 1, \"peft_type\": \"IA3\"",
         "peft_type = \"IA3\" (only"},
        {"{", "[", "adapter_config.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = changed_adapter(s, cases[i].from, cases[i].to);
        adapter_refused(
            process_start("evaluate", PEFT "llama", "--adapter", folder, "--data", adapter_tokens, NULL),
            cases[i].sentence);
    }
    char *long_name = kept_format("\"%01024d\"", 7);
    adapter_refused(process_start("evaluate", PEFT "llama", "--adapter",
                                  changed_adapter(s, "\"" PEFT "llama\"", long_name), "--data",
                                  adapter_tokens, NULL),
                    "base_model_name_or_path is longer than 1023 bytes");
    process_run(0, "evaluate", PEFT "llama", "--adapter",
                changed_adapter(s, "\"init_lora_weights\": true", "\"init_lora_weights\": \"gaussian\""),
                "--data", adapter_tokens, NULL);
}

ADAPTER_CASE(another_base_is_refused_in_a_sentence, struct stage *s)
{
    const char *data = adapter_tokens, *merged = stage_path(s, "merged");
    adapter_train(PEFT "llama", "tuned", "4");
    /* the same sizes and names, other weights */
    process_run(0, "model", "merge", PEFT "llama", PEFT "llama/adapter", merged, NULL);
    adapter_refused(process_start("evaluate", merged, "--adapter", "tuned", "--data", data, NULL),
                    "was trained on a base whose weights have the hash");
    adapter_refused(process_start("model", "merge", merged, "tuned", stage_path(s, "never"), NULL),
                    "was trained on a base whose weights have the hash");
    assert_int_equal(stage_count_leftovers(s), 0);
    /* other matrices; and another hidden size */
    adapter_refused(process_start("evaluate", PEFT "llama", "--adapter", adapters_of_hub(s, "qwen2"),
                                  "--data", data, NULL),
                    "base_model.model.lm_head.weight");
    process_run(0, "train", s->config, "--name=wide", "--train.total_steps=1", "--progress=none", NULL);
    adapter_refused(
        process_start("evaluate", "wide", "--adapter", PEFT "llama/adapter", "--data", data, NULL), "lora_A");
    /* the same sizes, and fewer layers */
    process_run(0, "train", s->config, "--name=shallow", "--model.hidden_dim=24", "--model.num_heads=4",
                "--model.num_kv_heads=2", "--model.head_dim=8", "--model.intermediate_dim=28",
                "--train.total_steps=1", "--progress=none", NULL);
    adapter_refused(
        process_start("evaluate", "shallow", "--adapter", PEFT "llama/adapter", "--data", data, NULL),
        "has a tensor base_model.model.model.layers.1.");
    /* none at all */
    adapter_refused(process_start("evaluate", PEFT "llama", "--adapter", "wide", "--data", data, NULL),
                    "holds no adapters");
    adapter_refused(process_start("model", "merge", "tuned", "tuned", stage_path(s, "never"), NULL),
                    "holds adapters alone");
    const char *both = stage_path(s, "both"), *alone = stage_path(s, "alone");
    assert_int_equal(
        system(kept_format("cp -rL " PEFT "llama %s && cp " PEFT "llama/adapter/* %s", both, both)), 0);
    adapter_refused(process_start("model", "merge", both, PEFT "llama/adapter", stage_path(s, "never"), NULL),
                    "holds adapters beside a model");
    adapter_refused(process_start("generate", PEFT "llama/adapter", "--adapter", "tuned", NULL),
                    "holds adapters itself");
    adapter_refused(
        process_start("model", "export", "tuned", "--gguf", "f32", "-o", stage_path(s, "x.gguf"), NULL),
        "holds adapters alone");
    assert_int_equal(system(kept_format("cd %s && rm model.safetensors && mkdir %s && mv *.* %s && cd %s && "
                                        "cp adapter_model.safetensors ema.safetensors",
                                        both, alone, alone, alone)),
                     0);
    adapter_refused(process_start("model", "export", alone, "--ema", "--gguf", "f32", "-o",
                                  stage_path(s, "x.gguf"), NULL),
                    "holds adapters alone");
}

/* The matrices that these adapters are for have the same names and sizes in all kinds of models. */
ADAPTER_CASE(adapters_of_peft_for_another_kind_of_model_are_refused, struct stage *s)
{
    const char *folder = PEFT "llama_rslora/adapter", *data = adapter_tokens;
    adapter_refused(process_start("evaluate", PEFT "qwen3", "--adapter", folder, "--data", data, NULL),
                    "trained on a model of the type llama, but " PEFT "qwen3 is of the type qwen3");
    adapter_refused(process_start("model", "merge", PEFT "qwen3", folder, stage_path(s, "never"), NULL),
                    "is of the type qwen3");
    adapter_refused(process_start("evaluate", PEFT "qwen3", "--adapter",
                                  PEFT "llama/adapter," PEFT "qwen3/adapter", "--data", data, NULL),
                    "is of the type qwen3");
    /* the base is on a hub */
    char command[1600];
    folder = adapters_of_hub(s, "llama");
    assert_true(adapter_loss(PEFT "llama", folder) == adapter_loss(PEFT "llama", PEFT "llama/adapter"));
    snprintf(command, sizeof command,
             "sed -i 's/\"auto_mapping\": null/\"auto_mapping\": {\"base_model_class\": "
             "\"Qwen2ForCausalLM\"}/' %s/adapter_config.json",
             folder);
    assert_int_equal(system(command), 0);
    adapter_refused(process_start("evaluate", PEFT "llama", "--adapter", folder, "--data", data, NULL),
                    "trained on a model of the type qwen2, but " PEFT "llama is of the type llama");
}

TEST_MAIN()
