/* anneal model: shows the contents of a model's folder, ours or another program's, from its headers; and
 * exports a run's model as a folder that other programs open. */
#include <jansson.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void open_base(struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--checkpoint.keep=9",
                "--sample.every=0", NULL);
}

static json_t *info(const char *source, const char *more)
{
    return stage_json(process_output("model", "info", source, "--json", more, NULL));
}

STAGE_CASE(info_counts_what_training_counted, struct stage *s)
{
    open_base(s);
    json_t *json = info("base", NULL), *older = info("base", "--step=10"), *runs = stage_runs();
    int64_t parameters = stage_int(json, "parameters"), sum = 0;
    assert_int_equal(parameters, stage_int(json_array_get(runs, 0), "parameters"));
    assert_int_equal(stage_int(json, "bytes"), 4 * parameters);
    assert_int_equal(stage_int(json, "step"), 40);
    assert_int_equal(stage_int(older, "step"), 10);
    assert_true(json_is_true(json_object_get(json, "optimizer")));
    assert_int_equal(stage_int(json_object_get(json, "config"), "hidden_dim"), 32);
    json_t *tensors = json_object_get(json, "tensors"), *tensor;
    size_t i;
    json_array_foreach(tensors, i, tensor) sum += stage_int(tensor, "bytes");
    assert_int_equal(sum, 4 * parameters);
    char *page = process_output("model", "info", "base", NULL);
    assert_non_null(strstr(page, "\nhidden_dim         32\n"));
    assert_non_null(strstr(page, "\noptimizer          yes\n"));
    assert_non_null(strstr(page, "model.layers.*.mlp.down_proj.weight"));
}

STAGE_CASE(info_names_the_kind_and_the_rotary_scaling_of_a_checkout, struct stage *s)
{
    json_t *yarn = info("tests/fixtures/kinds/llama_yarn", NULL),
           *window = info("tests/fixtures/kinds/mistral_window", NULL);
    const json_t *config = json_object_get(yarn, "config");
    assert_string_equal(stage_text(config, "kind"), "llama");
    assert_string_equal(stage_text(config, "rope_scaling"), "yarn");
    assert_true(stage_real(config, "rope_factor") == 4);
    config = json_object_get(window, "config");
    assert_string_equal(stage_text(config, "kind"), "mistral");
    assert_string_equal(stage_text(config, "rope_scaling"), "default");
    assert_int_equal(stage_int(config, "sliding_window"), 7);
}

/* A safetensors file of zeros with this header. */
static void write_tensors(const struct stage *s, const char *name, const char *header, size_t data)
{
    unsigned char bytes[2048] = {0};
    size_t n = strlen(header);
    assert_true(8 + n + data <= sizeof bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(bytes + 8, header, n);
    char *path = kept_format("%s/checkout/%s", s->folder, name);
    stage_write(path, bytes, 8 + n + data);
}

STAGE_CASE(a_checkout_of_several_files_and_another_kind_is_described_all_the_same, struct stage *s)
{
    static const char config[] = "{\"model_type\": \"mixtral\", \"hidden_size\": 8}";
    char path[700];
    char *folder = stage_path(s, "checkout");
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    snprintf(path, sizeof path, "%s/config.json", folder);
    stage_write(path, config, sizeof config - 1);
    process_expect_sentence(process_run(1, "model", "info", folder, NULL), "has neither model.safetensors");
    write_tensors(
        s, "model-00001-of-00002.safetensors",
        "{\"model.layers.0.up.weight\":{\"dtype\":\"BF16\",\"shape\":[8,4],\"data_offsets\":[0,64]},"
        "\"model.layers.1.up.weight\":{\"dtype\":\"BF16\",\"shape\":[8,4],\"data_offsets\":[64,128]}}",
        128);
    write_tensors(s, "model-00002-of-00002.safetensors",
                  "{\"head\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}}", 20);
    static const char index[] =
        "{\"weight_map\": {\"model.layers.0.up.weight\": \"model-00001-of-00002.safetensors\", "
        "\"model.layers.1.up.weight\": \"model-00001-of-00002.safetensors\", "
        "\"head\": \"model-00002-of-00002.safetensors\"}}";
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    stage_write(path, index, sizeof index - 1);
    char *page = process_output("model", "info", folder, NULL);
    assert_non_null(strstr(page, "anneal cannot compute it: "));
    assert_non_null(strstr(page, "model_type is mixtral"));
    assert_non_null(strstr(page, "\nparameters         69\nbytes              148 B\n"));
    assert_non_null(strstr(page, "model.layers.*.up.weight"));
    assert_non_null(strstr(page, "  2\n"));
    assert_null(strstr(page, "step "));
    json_t *json = info(folder, NULL);
    assert_true(json_is_null(json_object_get(json, "config")));
    assert_int_equal(json_array_size(json_object_get(json, "tensors")), 3);
    write_tensors(s, "model-00002-of-00002.safetensors",
                  "{\"head\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,20]}}",
                  20);
    process_expect_sentence(
        process_run(1, "model", "info", folder, NULL),
        "model-00002-of-00002.safetensors: not a valid safetensors file: head: the shape is "
        "negative or overflows");
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", folder);
    assert_int_equal(unlink(path), 0);
    process_expect_sentence(process_run(1, "model", "info", folder, NULL),
                            "model-00002-of-00002.safetensors: cannot open");
}

STAGE_CASE(an_exported_model_stands_on_its_own, struct stage *s)
{
    char path[700];
    struct stat st, original;
    open_base(s);
    char *folder = stage_path(s, "mine"), *left = kept_format("%s.tmp-999999999", folder);
    assert_int_equal(file_make_folders(left, NULL), STATUS_OK);
    stage_write(kept_format("%s/model.safetensors", left), "half", 4);
    assert_int_equal(utimes(left, (const struct timeval[2]){{1000000000, 0}, {1000000000, 0}}), 0);
    char *said =
        process_output("model", "export", "base", "-o", kept_format("%s/", folder), "--step=20", NULL);
    assert_non_null(strstr(said, "/mine/: 71.9 KiB, from step-20\n"));
    assert_false(file_exists(left)); /* of one that was killed */
    static const char *const absent[] = {"optimizer.safetensors", "trainer.json", "checksums"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, absent[i]);
        assert_false(file_exists(path));
    }
    char *from_run = process_output("generate", "base", "--step=20", "--prompt=the", "--max-tokens=20", NULL);
    char *from_folder = process_output("generate", folder, "--prompt=the", "--max-tokens=20", NULL);
    assert_string_equal(from_run, from_folder);
    /* a copy: what is done to it does not reach the run */
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(stat(path, &st), 0);
    char *id = stage_query(s, "select id from runs");
    snprintf(path, sizeof path, "%s/runs/%s/checkpoints/step-20/model.safetensors", s->home, id);
    assert_int_equal(stat(path, &original), 0);
    assert_true(st.st_ino != original.st_ino && st.st_size == original.st_size);
    process_expect_sentence(process_run(2, "model", "export", "base", "-o", folder, NULL),
                            "/mine: exists already (name a new or an empty folder)");
    process_expect_sentence(process_run(1, "model", "export", "base", "-o", "/proc/mine", NULL),
                            "/proc/mine");
    process_expect_sentence(process_run(1, "model", "export", "base", "--step=7", "-o", path, NULL),
                            "there is no checkpoint of step 7, or it has been removed");
    process_expect_sentence(process_run(2, "model", "export", "base", NULL), "needs -o PATH");
    snprintf(path, sizeof path, "%s/averaged", s->folder);
    process_expect_sentence(
        process_run(2, "model", "export", "base", "--ema", "-o", path, NULL),
        "holds no averages of the weights (they are kept where train.ema_decay is above 0)");
    process_expect_sentence(process_run(2, "model", NULL), "no command given: info|list|export|import");
    process_expect_sentence(process_run(2, "model", "export", "base", "-o", "-", NULL),
                            "a model is a folder, so it cannot go to standard output (give -o FOLDER)");
    process_expect_sentence(process_run(2, "model", "export", "base", "--gguf", "f32", "-o", "-", NULL),
                            "-o -: standard output has the line that reports the export, so the GGUF file "
                            "cannot go there (give -o FILE.gguf)");
    process_expect_sentence(process_run(2, "model", "import", s->folder, "-o", "-", NULL),
                            "a model is a folder, so it cannot go to standard output (give -o FOLDER)");
    process_expect_sentence(process_run(2, "model", "export", "base", "--gguf", "f16", "-o", s->folder, NULL),
                            "is a folder, but GGUF is one file (-o ");
    process_expect_sentence(process_run(2, "model", "export", "base", "--gguf", "f16", "-o", s->corpus, NULL),
                            "text.txt: exists already and holds something else");
    snprintf(path, sizeof path, "%s/%0300d", s->folder, 0);
    process_expect_sentence(process_run(1, "model", "export", "base", "-o", path, NULL),
                            "File name too long");
    snprintf(path, sizeof path, "%s/mine.gguf", s->folder);
    for (int i = 0; i < 2; i++) /* the second time over the first one's */
        process_output("model", "export", "base", "--gguf", "q8_0", "-o", path, NULL);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < original.st_size / 2);
    snprintf(path, sizeof path, "%s/best/", s->folder); /* a slash at the end names the same folder */
    said = process_output("model", "export", "base", "--best", "-o", path, NULL);
    char *best = stage_query(s, "select 'from step-' || best_step from runs");
    assert_non_null(strstr(said, best));
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* A learning rate of 0 changes nothing: the evaluation of `still` at the end is of the exported weights. */
STAGE_CASE(an_exported_average_has_the_loss_that_was_recorded, struct stage *s)
{
    char *folder = stage_path(s, "mean"), *from = kept_format("--model.from=%s", folder);
    process_run(0, "train", s->config, "--name=averaged", "--train.ema_decay=0.9", "--eval.batches=0", NULL);
    process_output("model", "export", "averaged", "--ema", "-o", folder, NULL);
    process_run(0, "train", s->config, "--name=plain", NULL);
    assert_null(strstr(process_output("compare", "plain", "averaged", NULL), "nan"));
    process_run(0, "train", s->config, "--name=still", from, "--train.learning_rate=0",
                "--train.total_steps=1", "--eval.batches=0", NULL);
    char *average = stage_query(s, "select value from measures where name = 'val_loss_ema' order by step "
                                   "desc limit 1"),
         *raw = stage_query(s, "select val_loss from evals where run_id = (select id from runs where name = "
                               "'averaged') order by step desc limit 1");
    stage_expect(s,
                 "select val_loss from evals where run_id = (select id from runs where name = 'still') order "
                 "by step desc limit 1",
                 average);
    assert_string_not_equal(raw, average);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    stage_write(path, text, strlen(text));
}

/* The content of a file; NULL: there is none. */
static char *content(const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_exists(path) ? stage_read(path) : NULL;
}

static void expect_content(const char *folder, const char *name, const char *expected)
{
    char *text = content(folder, name);
    if (!text) fail_msg("%s/%s: is missing", folder, name);
    assert_string_equal(text, expected);
}

/* Import, training, resuming and export keep the files that say how text begins, ends and is formatted. */
STAGE_CASE(the_files_beside_the_weights_survive_training, struct stage *s)
{
    static const char *const kept[][2] = {
        {"generation_config.json", "{\"eos_token_id\": [7, 9], \"temperature\": 0.6}"},
        {"chat_template.jinja", "{{ messages }}"},
        {"special_tokens_map.json", "{\"eos_token\": \"a\"}"},
        {"tokenizer_config.json",
         "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"eos_token\": \"a\"}"}};
    enum { KEPT = sizeof kept / sizeof *kept };
    char out[600];
    open_base(s);
    char *folder = stage_path(s, "mine");
    char *train = kept_format("--data.train=%s", s->corpus);
    process_output("model", "export", "base", "-o", folder, NULL);
    for (int i = 0; i < KEPT; i++) put(folder, kept[i][0], kept[i][1]);
    process_output("model", "import", folder, "--name=taken", NULL);
    process_run(0, "train", "--model.from=taken", train, "--name=child", "--train.seq_len=32",
                "--train.batch_size=4", "--train.threads=1", "--train.total_steps=2", "--sample.every=0",
                "--progress=none", NULL);
    process_run(0, "resume", "child", "--train.total_steps=4", "--progress=none", NULL);
    process_run(0, "fork", "child", "--name=grandchild", "--train.total_steps=6", "--progress=none", NULL);
    snprintf(out, sizeof out, "%s/out", s->folder);
    process_output("model", "export", "grandchild", "-o", out, NULL);
    for (int i = 0; i < KEPT; i++) expect_content(out, kept[i][0], kept[i][1]);
    /* another tokenizer: its ids mean other tokens */
    process_run(0, "train", "--model.from=taken", train, "--name=other", "--data.tokenizer=bpe:256",
                "--train.seq_len=32", "--train.batch_size=4", "--train.threads=1", "--train.total_steps=2",
                "--sample.every=0", "--progress=none", NULL);
    snprintf(out, sizeof out, "%s/other", s->folder);
    process_output("model", "export", "other", "-o", out, NULL);
    assert_null(content(out, "generation_config.json"));
    assert_null(content(out, "chat_template.jinja"));
}

/* Ids are enough to train and evaluate; text is refused, by the name of what anneal does not read. */
STAGE_CASE(a_folder_whose_tokenizer_is_not_read_trains_and_evaluates_on_token_files, struct stage *s)
{
    static const char unigram[] = "{\"model\": {\"type\": \"Unigram\",  \"vocab\": [[\"a\", 0.0]]}}";
    struct process *p;
    char out[600];
    open_base(s);
    char *folder = stage_path(s, "mine");
    char *from = kept_format("--model.from=%s", folder);
    char *tokens = stage_path(s, "alone.tok");
    char *train = kept_format("--data.train=%s", tokens);
    char *text = kept_format("--data.train=%s", s->corpus);
    process_output("model", "export", "base", "-o", folder, NULL);
    put(folder, "tokenizer.json", unigram);
    process_output("data", "prepare", s->corpus, "--tokenizer=bytes", "-o", tokens, NULL);
    snprintf(out, sizeof out, "%s.json", tokens);
    assert_int_equal(unlink(out), 0); /* nobody knows which tokenizer made these */
    process_run(0, "train", from, train, "--name=child", "--train.seq_len=32", "--train.batch_size=4",
                "--train.threads=1", "--train.total_steps=2", "--progress=none", NULL);
    process_output("evaluate", "child", "--data", tokens, NULL);
    process_output("evaluate", folder, "--data", tokens, NULL);
    snprintf(out, sizeof out, "%s/out", s->folder);
    process_output("model", "export", "child", "-o", out, NULL);
    expect_content(out, "tokenizer.json", unigram);
    p = process_run(1, "evaluate", "child", "--data", s->corpus, NULL);
    assert_non_null(strstr(process_stderr(p), "model: Unigram is not supported"));
    p = process_run(1, "train", from, text, "--name=other", "--progress=none", NULL);
    assert_non_null(strstr(process_stderr(p), "model: Unigram is not supported"));
}

static void expect_ids(const char *folder, const char *ids)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    char *text = content(folder, "config.json");
    json_t *config = stage_json(text), *wanted = stage_json(ids);
    assert_non_null(config);
    for (int i = 0; i < 3; i++)
        if (!json_equal(json_object_get(config, keys[i]), json_object_get(wanted, keys[i])))
            fail_msg("%s: %s", keys[i], text);
}

/* generation_config.json may name other tokens: transformers ends a text at those, other programs at those of
 * config.json. 0 is a token, too. */
STAGE_CASE(the_special_tokens_in_config_json_survive_training, struct stage *s)
{
    char out[600];
    open_base(s);
    char *folder = stage_path(s, "mine");
    char *train = kept_format("--data.train=%s", s->corpus);
    char *from = kept_format("--model.from=%s", folder);
    process_output("model", "export", "base", "-o", folder, NULL);
    char *config = content(folder, "config.json");
    for (int i = 0; i < 2; i++) {
        char *at = strstr(config, i ? "\"bos_token_id\": null" : "\"eos_token_id\": null");
        assert_non_null(at);
        memcpy(strstr(at, "null"), i ? "   0" : "   5", 4);
    }
    put(folder, "config.json", config);
    for (int named = 0; named < 2; named++) {
        if (named) put(folder, "generation_config.json", "{\"eos_token_id\": [5, 7], \"pad_token_id\": 0}");
        process_run(0, "train", train, named ? "--name=named" : "--name=child", "--train.seq_len=32",
                    "--train.batch_size=4", "--train.threads=1", "--train.total_steps=2", "--sample.every=0",
                    "--progress=none", from, NULL);
        process_run(0, "resume", named ? "named" : "child", "--train.total_steps=4", "--progress=none", NULL);
        snprintf(out, sizeof out, "%s/out%d", s->folder, named);
        process_output("model", "export", named ? "named" : "child", "-o", out, NULL);
        expect_ids(out, named ? "{\"bos_token_id\": 0, \"eos_token_id\": 5, \"pad_token_id\": 0}"
                              : "{\"bos_token_id\": 0, \"eos_token_id\": 5, \"pad_token_id\": null}");
    }
}

/* They are no part of the shape of any weight: a model learns longer texts with them. */
STAGE_CASE(a_new_run_may_stretch_the_positions_of_the_weights_it_starts_from, struct stage *s)
{
    static const char evaluated[] =
        "select count(distinct val_loss) from evals e join runs r on r.id = e.run_id"
        " where r.name in ('plain', 'child') and e.step = 0";
    open_base(s);
    char *folder = stage_path(s, "mine"), *from = kept_format("--model.from=%s", folder),
         *train = kept_format("--data.train=%s", s->corpus), *out = stage_path(s, "out");
    process_output("model", "export", "base", "-o", folder, NULL);
    json_int_t length = json_integer_value(
        json_object_get(stage_json(content(folder, "config.json")), "max_position_embeddings"));
    char *longer = kept_format("--model.max_seq_len=%d", 2 * (int)length);
    for (int i = 0; i < 2; i++)
        process_run(0, "train", from, train, longer, i ? "--name=child" : "--name=plain",
                    i ? "--model.rope_scaling=yarn" : "--model.rope_factor=1",
                    i ? "--model.rope_factor=2" : "--model.rope_factor=1", "--train.seq_len=32",
                    "--train.batch_size=4", "--train.threads=1", "--train.total_steps=2", "--sample.every=0",
                    "--progress=none", NULL);
    stage_expect(s, evaluated, "2");
    stage_expect(s, "select count(*) from events where text like '%other rotary frequencies%'", "1");
    process_run(0, "resume", "child", "--train.total_steps=4", "--progress=none", NULL);
    process_output("model", "export", "child", "-o", out, NULL);
    json_t *rope = json_object_get(stage_json(content(out, "config.json")), "rope_scaling");
    assert_string_equal(json_string_value(json_object_get(rope, "rope_type")), "yarn");
    assert_int_equal(json_integer_value(json_object_get(rope, "original_max_position_embeddings")), length);
    /* whoever loads adapters rotates as their base says */
    process_expect_sentence(process_run(2, "train", from, train, "--lora.rank=2",
                                        "--model.rope_scaling=linear", "--model.rope_factor=2",
                                        "--train.seq_len=32", "--progress=none", NULL),
                            "in the config.json of a copy of their base");
}

STAGE_CASE(a_new_run_starts_with_the_weights_sizes_and_tokenizer_of_a_folder, struct stage *s)
{
    char from[640];
    open_base(s);
    char *folder = stage_path(s, "mine");
    snprintf(from, sizeof from, "--model.from=%s", folder);
    char *train = kept_format("--data.train=%s", s->corpus);
    process_output("model", "export", "base", "-o", folder, NULL);
    process_run(0, "train", from, train, "--name=child", "--train.seq_len=32", "--train.batch_size=4",
                "--train.threads=1", "--train.total_steps=2", "--train.learning_rate=0", "--eval.batches=4",
                "--sample.every=0", "--progress=none", NULL);
    stage_expect(s,
                 "select count(distinct val_loss), count(*) from evals where (run_id, step) in "
                 "(select id, steps from runs)",
                 "1|2");
    char *row =
        stage_query(s, "select value from params where name = 'data.tokenizer' and run_id = (select id from "
                       "runs where name = 'child')");
    assert_non_null(strstr(row, "/mine/tokenizer.json"));
    row = stage_query(s, "select text from events where text like 'starts with the weights of %/mine'");
    assert_string_not_equal(row, "");
    process_expect_sentence(process_run(2, "train", s->config, from, "--model.num_layers=2", NULL),
                            "was saved with model.num_layers = 1, this model has 2");
    process_expect_sentence(
        process_run(1, "train", "--model.from=/nowhere", NULL),
        "model.from: /nowhere/config.json: cannot open: No such file or directory (name the "
        "folder of a model: it has config.json and model.safetensors)");
    process_expect_sentence(process_run(2, "resume", "child", "--train.total_steps=4", "--model.from=", NULL),
                            "model.from = : the run was trained with ");
    char *tokenizer = content(folder, "tokenizer.json");
    char *path = kept_format("%s/tokenizer.json", folder);
    assert_int_equal(unlink(path), 0);
    process_expect_sentence(process_run(2, "train", from, train, "--train.seq_len=32", NULL),
                            "has no tokenizer.json");
    put(folder, "tokenizer.json", tokenizer);
    /* a resumed run has weights and a tokenizer of its own */
    assert_int_equal(file_remove_tree(folder, NULL), STATUS_OK);
    process_run(0, "resume", "child", "--train.total_steps=4", "--progress=none", NULL);
}

STAGE_CASE(an_import_warns_of_numbers_that_are_not_finite, struct stage *s)
{
    static const unsigned char infinite[] = {0, 0, 0x80, 0x7F};
    open_base(s);
    char *folder = stage_path(s, "mine");
    process_output("model", "export", "base", "-o", folder, NULL);
    struct process *p = process_run(0, "model", "import", folder, "--name=good", NULL);
    assert_null(strstr(process_stderr(p), "NaN"));
    FILE *weights = fopen(kept_format("%s/model.safetensors", folder), "r+e");
    assert_non_null(weights);
    assert_int_equal(fseek(weights, -(long)sizeof infinite, SEEK_END), 0);
    assert_int_equal(fwrite(infinite, sizeof infinite, 1, weights), 1);
    assert_int_equal(fclose(weights), 0);
    p = process_run(0, "model", "import", folder, "--name=bad", NULL);
    assert_non_null(strstr(process_stderr(p), "1 of 11 tensors has numbers that are NaN or infinite"));
    assert_non_null(strstr(process_stderr(p), ", the first is model.norm.weight ("));
}

/* A checkout is imported by a name, which then stands for it everywhere. */
STAGE_CASE(an_imported_model_goes_by_its_name, struct stage *s)
{
    char path[700];
    open_base(s);
    char *folder = stage_path(s, "mine"), *place = kept_format("%s/models", s->home);
    char *data = kept_format("--data=%s", s->corpus);
    stage_write(place, "", 0);
    process_expect_sentence(process_run(1, "model", "list", NULL),
                            kept_format("%s/: cannot read the folder: Not a directory", place));
    assert_int_equal(unlink(place), 0);
    assert_string_equal(process_output("model", "list", NULL), "");
    char *train = kept_format("--data.train=%s", s->corpus);
    process_output("model", "export", "base", "-o", folder, NULL);
    char *said = process_output("model", "import", folder, NULL);
    assert_non_null(strstr(said, "mine: 11 tensors, 71.9 KiB, in "));
    assert_non_null(strstr(said, "anneal train --model.from=mine "));
    char *elsewhere = stage_path(s, "elsewhere");
    said = process_output("model", "import", folder, "-o", elsewhere, NULL);
    assert_non_null(strstr(said, kept_format("%s: 11 tensors, 71.9 KiB, in %s", elsewhere, elsewhere)));
    process_run(0, "evaluate", elsewhere, data, "--seq-len=32", NULL);
    said = process_output("model", "import", folder, "--name", "kept", NULL);
    assert_int_equal(file_remove_tree(folder, NULL), STATUS_OK); /* nothing depends on where it came from */
    char *from_run = process_output("generate", "base", "--prompt=the", "--max-tokens=20", NULL);
    char *from_import = process_output("generate", "kept", "--prompt=the", "--max-tokens=20", NULL);
    assert_string_equal(from_run, from_import);
    process_run(0, "evaluate", "mine", data, "--seq-len=32", NULL);
    said = process_output("model", "list", NULL);
    assert_non_null(strstr(said, "\nkept  "));
    assert_non_null(strstr(said, "\nmine  "));
    process_expect_sentence(process_run(1, "generate", "keft", NULL), " model list` lists those)");
    json_t *described = info("kept", NULL);
    assert_int_equal(json_array_size(json_object_get(described, "tensors")), 11);
    process_run(0, "train", "--model.from=kept", train, "--name=child", "--train.seq_len=32",
                "--train.batch_size=4", "--train.total_steps=2", "--eval.batches=4", "--sample.every=0",
                "--progress=none", NULL);
    char *row = stage_query(s, "select text from events where text like 'starts with the weights of "
                               "/%/models/kept'");
    assert_string_not_equal(row, "");
    snprintf(path, sizeof path, "%s/models/mine/model.safetensors", s->home);
    stage_write(path, "", 0);
    struct process *list = process_run(0, "model", "list", "--json", NULL);
    assert_non_null(strstr(process_stderr(list), "the header is cut off"));
    json_t *listed = stage_json(process_stdout(list)), *models = json_object_get(listed, "models");
    assert_int_equal(json_array_size(models), 2);
    assert_string_equal(stage_text(json_array_get(models, 0), "name"), "kept");
    assert_int_equal(stage_int(json_array_get(models, 0), "bytes"),
                     4 * stage_int(json_array_get(models, 0), "parameters"));
    assert_true(json_is_null(json_object_get(json_array_get(models, 1), "parameters")));
    snprintf(path, sizeof path, "%s/models/kept", s->home);
    process_expect_sentence(
        process_run(2, "model", "import", path, NULL),
        "/models/kept: a model of this name has been imported already (choose another name with --name");
    process_expect_sentence(process_run(2, "generate", "kept", "--best", NULL),
                            "kept is an imported model, --best is for runs");
    process_expect_sentence(process_run(1, "model", "import", "/nowhere", NULL), "/nowhere: cannot open");
    process_expect_sentence(process_run(2, "model", "import", s->corpus, NULL),
                            "is a file (name the folder of a model, with config.json");
    process_expect_sentence(
        process_run(2, "train", "--model.from=kept", kept_format("--data.train=%s", s->corpus),
                    "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json", NULL),
        "tokens, but the model of model.from has rows for 256 (take the model's own tokenizer");
    process_expect_sentence(
        process_run(1, "model", "import", s->folder, NULL),
        "config.json: cannot open: No such file or directory (name the folder of a model");
    process_expect_sentence(process_run(2, "model", "import", path, "--name=a/b", NULL),
                            "--name \"a/b\": must be a plain name, not a path");
    process_expect_sentence(process_run(2, "model", "import", path, "--name=a\nb", NULL),
                            "has a control character");
    said = process_output("model", "import", path, "--name=two words", NULL);
    assert_non_null(strstr(said, "anneal generate 'two words' --prompt"));
    process_expect_sentence(process_run(2, "model", "import", path, "--name=latest", NULL),
                            "--name latest: in every command this word means the newest run");
    process_expect_sentence(process_run(2, "model", "import", path, "--name=base", NULL),
                            "base: a run has this name, and would be found before the model (choose another");
    struct process *hides = process_run(0, "train", s->config, "--name=kept", "--dry-run", NULL);
    assert_non_null(strstr(process_stderr(hides), "--name kept: this name now stands for the run"));
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(a_checkout_in_shards_is_evaluated_and_exported_as_one, struct stage *s)
{
    static const char checkout[] = "tests/fixtures/sharded/qwen3_fp32";
    char data[720], digits[4000];
    for (size_t i = 0; i < sizeof digits; i++) digits[i] = (char)('0' + i * i / 7 % 10);
    char *text = stage_path(s, "digits");
    stage_write(text, digits, sizeof digits);
    char *tokens = stage_path(s, "digits.tok"); /* all ids are below the model's 67 */
    process_run(0, "data", "prepare", text, "-t", "bytes", "-o", tokens, "--progress=none", NULL);
    snprintf(data, sizeof data, "--data=%s", tokens);
    char *out = stage_path(s, "whole");
    process_run(0, "model", "export", checkout, "-o", out, NULL);
    const char *const folders[] = {checkout, out};
    double losses[2];
    for (int i = 0; i < 2; i++) {
        json_t *json =
            stage_json(process_output("evaluate", folders[i], data, "--seq-len=16", "--json", NULL));
        losses[i] = stage_real(json, "loss");
    }
    assert_true(losses[0] > 0 && losses[0] == losses[1]);
}

TEST_MAIN()
