/* anneal model merge and model add-tokens with models whose tensors are written in several pieces of 1 MiB,
 * and whose files differ from those that anneal writes. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/model/safetensors.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/adapter_stage.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/command/traced.h"

#define PEFT "tests/fixtures/peft/"

enum { ROWS = 300, COLUMNS = 1000, RANK = 2 }; /* a piece ends within row 262 */

static void open_file(const char *folder, const char *name, struct safetensors *out)
{
    struct err err = {0};
    if (safetensors_open(kept_format("%s/%s", folder, name), out, &err)) fail_msg("%s", err.text);
}

static const struct safetensor *find(const struct safetensors *file, const char *name)
{
    const struct safetensor *t = safetensors_find(file, name);
    if (!t) fail_msg("%s: no %s", file->path, name);
    return t;
}

static void expect_same(const struct safetensors *a, const struct safetensors *b, const char *name,
                        const char *name_in_b)
{
    const struct safetensor *left = find(a, name), *right = find(b, name_in_b);
    if (left->bytes != right->bytes || memcmp(left->data, right->data, left->bytes) != 0)
        fail_msg("%s is another one in %s", name, b->path);
}

/* Trains a model with matrices of 1.2 MB, and exports it to the folder. */
static void make_large(const struct stage *s, const char *folder)
{
    process_run(0, "train", s->config, "--name=base", "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                "--model.hidden_dim=1000", "--model.intermediate_dim=300", "--model.num_heads=2",
                "--model.num_kv_heads=2", "--model.head_dim=8", "--model.tie_weights=false",
                "--train.total_steps=1", "--sample.every=0", "--progress=none", NULL);
    process_run(0, "model", "export", "base", "-o", folder, NULL);
}

STAGE_CASE(large_tensors_are_merged_whole, struct stage *s)
{
    static const char prefix[] = "base_model.model.", gate[] = "model.layers.0.mlp.gate_proj";
    struct safetensors file, adapters, whole;
    const char *base = stage_path(s, "base"), *tuned = stage_path(s, "tuned"), *merged = stage_path(s, "to");
    make_large(s, base);
    process_run(0, "train", kept_format("--model.from=%s", base), kept_format("--data.train=%s", s->corpus),
                "--name=tuned", "--train.seq_len=20", "--lora.rank=2", "--lora.alpha=6",
                "--lora.targets=gate", "--lora.train_head=true", "--train.total_steps=2",
                "--train.warmup_steps=0", "--sample.every=0", "--progress=none", NULL);
    process_run(0, "model", "export", "tuned", "-o", tuned, NULL);
    char *words = kept_format("%s/tokenizer.json", tuned),
         *changed = kept_format("%s\n", stage_read(words)); /* the adapters bring their own */
    stage_write(words, changed, strlen(changed));
    process_run(0, "model", "merge", base, tuned, merged, NULL);
    assert_string_equal(stage_read(kept_format("%s/tokenizer.json", merged)), changed);
    open_file(base, "model.safetensors", &file), open_file(tuned, "adapter_model.safetensors", &adapters),
        open_file(merged, "model.safetensors", &whole);
    expect_same(&file, &whole, "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight");
    expect_same(&whole, &adapters, "lm_head.weight", kept_format("%slm_head.weight", prefix));
    const float *w = find(&file, kept_format("%s.weight", gate))->data,
                *sum = find(&whole, kept_format("%s.weight", gate))->data,
                *a = find(&adapters, kept_format("%s%s.lora_A.weight", prefix, gate))->data,
                *b = find(&adapters, kept_format("%s%s.lora_B.weight", prefix, gate))->data;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double product = 0, scale = 6.0 / RANK;
        for (int k = 0; k < RANK; k++)
            product += (double)b[i / COLUMNS * RANK + k] * (double)a[k * COLUMNS + i % COLUMNS];
        if (!(fabs((double)sum[i] - (double)w[i] - scale * product) < 1e-6))
            fail_msg("element %d: %g, %g + %g", i, (double)sum[i], (double)w[i], scale * product);
    }
    safetensors_close(&file), safetensors_close(&adapters), safetensors_close(&whole);
}

STAGE_CASE(large_tensors_get_rows_of_their_own_mean, struct stage *s)
{
    static const char *const names[] = {"model.embed_tokens.weight", "lm_head.weight"};
    struct safetensors file, grown;
    const char *base = stage_path(s, "base"), *to = stage_path(s, "to");
    make_large(s, base);
    process_run(0, "model", "add-tokens", base, to, "<|x|>", "<|y|>", NULL);
    open_file(base, "model.safetensors", &file), open_file(to, "model.safetensors", &grown);
    for (int n = 0; n < 2; n++) {
        const float *old = find(&file, names[n])->data, *new = find(&grown, names[n])->data;
        assert_memory_equal(old, new, ROWS * COLUMNS * sizeof *old);
        for (int j = 0; j < COLUMNS; j++) {
            double mean = 0;
            for (int i = 0; i < ROWS; i++) mean += (double)old[i * COLUMNS + j] / ROWS;
            for (int i = ROWS; i < ROWS + 2; i++)
                if (!(fabs((double)new[i * COLUMNS + j] - mean) < 1e-6))
                    fail_msg("%s: column %d", names[n], j);
        }
    }
    safetensors_close(&file), safetensors_close(&grown);
}

/* Copies a model's folder, with all weights in `dtype` and, with `head`, the embedding once more as head. */
static void rewrite(const char *from, const char *to, const char *dtype, bool head)
{
    struct safetensors file;
    struct safetensor tensors[64];
    struct err err = {0};
    assert_int_equal(system(kept_format("cp -rL %s %s", from, to)), 0);
    open_file(from, "model.safetensors", &file);
    assert_true(file.count < 64);
    for (size_t i = 0; i <= file.count; i++) {
        struct safetensor *t = &tensors[i];
        *t = i < file.count ? file.tensors[i] : *find(&file, "model.embed_tokens.weight");
        if (i == file.count) t->name = "lm_head.weight";
        size_t count = t->bytes / safetensor_width(t);
        float *numbers = kept(malloc(count * sizeof *numbers), free);
        safetensor_read(t, 0, count, numbers);
        t->dtype = dtype;
        t->bytes = count * safetensor_width(t);
        t->data = kept(malloc(t->bytes), free);
        safetensor_encode(t, numbers, count, (unsigned char *)t->data);
    }
    if (safetensors_write(kept_format("%s/model.safetensors", to), tensors, file.count + head,
                          safetensors_fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    safetensors_close(&file);
}

/* Some files of models have it twice, and some of adapters once. */
ADAPTER_CASE(a_head_that_repeats_the_embedding_is_merged_as_that_is, struct stage *s)
{
    struct safetensors whole, adapters;
    struct safetensor kept_ones[64];
    struct err err = {0};
    size_t count = 0;
    const char *base = stage_path(s, "base"), *merged = stage_path(s, "to"), *adapter = stage_path(s, "once");
    rewrite(PEFT "llama_tokens", base, "F32", true);
    assert_int_equal(system(kept_format("cp -r " PEFT "llama_tokens/adapter %s", adapter)), 0);
    open_file(adapter, "adapter_model.safetensors", &adapters);
    assert_true(adapters.count <= 64);
    for (size_t i = 0; i < adapters.count; i++)
        if (!strstr(adapters.tensors[i].name, "lm_head")) kept_ones[count++] = adapters.tensors[i];
    assert_int_equal(count, adapters.count - 1);
    if (safetensors_write(kept_format("%s/adapter_model.safetensors", adapter), kept_ones, count,
                          safetensors_fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    process_run(0, "model", "merge", base, adapter, merged, NULL);
    open_file(merged, "model.safetensors", &whole);
    expect_same(&whole, &whole, "model.embed_tokens.weight", "lm_head.weight");
    expect_same(&whole, &adapters, "lm_head.weight", "base_model.model.lm_head.weight");
    safetensors_close(&whole), safetensors_close(&adapters);
    double beside = adapter_loss(base, adapter);
    assert_true(fabs(adapter_loss(merged, NULL) - beside) < 1e-5);
}

STAGE_CASE(a_new_head_has_the_type_of_the_model_and_replaces_the_old_one, struct stage *s)
{
    static const char rows[] = "text,label\nnice,good\npoor,bad\nkind,good\nrude,bad\n";
    struct safetensors whole;
    const char *plain = stage_path(s, "plain"), *base = stage_path(s, "base"), *merged = stage_path(s, "to"),
               *data = stage_path(s, "rows.csv");
    stage_write(data, rows, sizeof rows - 1);
    process_run(0, "train", s->config, "--name=plain", "--train.total_steps=1", "--progress=none", NULL);
    process_run(0, "model", "export", "plain", "-o", plain, NULL);
    rewrite(plain, base, "BF16", true);
    process_run(0, "train", s->config, "--name=tuned", kept_format("--model.from=%s", base),
                kept_format("--data.train=%s", data), "--data.format=labels", "--lora.rank=1",
                "--train.total_steps=2", "--data.val_fraction=0", "--progress=none", NULL);
    process_run(0, "model", "merge", base, "tuned", merged, NULL);
    open_file(merged, "model.safetensors", &whole);
    assert_null(safetensors_find(&whole, "lm_head.weight"));
    for (size_t i = 0; i < whole.count; i++) assert_string_equal(whole.tensors[i].dtype, "BF16");
    assert_int_equal(find(&whole, "score.weight")->shape[0], 2);
    safetensors_close(&whole);
    process_run(0, "classify", merged, "nice", NULL);
}

/* Copies the model's folder, with tokenizer.json as `change` leaves it, in one line. */
static void change_tokenizer(const char *from, const char *to, void change(json_t *tokenizer))
{
    assert_int_equal(system(kept_format("cp -r %s %s", from, to)), 0);
    char *path = kept_format("%s/tokenizer.json", to);
    json_t *json = json_load_file(path, 0, NULL);
    change(json);
    assert_int_equal(json_dump_file(json, path, JSON_COMPACT), 0);
    json_decref(json);
}

static void drop_added_tokens(json_t *tokenizer)
{
    json_object_del(tokenizer, "added_tokens");
}

/* Its lines take four times as many bytes when they are indented. */
static void add_numbers(json_t *tokenizer)
{
    json_t *numbers = json_array();
    for (int i = 0; i < 100000; i++) json_array_append_new(numbers, json_integer(0));
    json_object_set_new(tokenizer, "numbers", numbers);
}

STAGE_CASE(tokens_fill_the_rows_that_no_token_has_first, struct stage *s)
{
    const char *folder = stage_path(s, "padded"), *none = stage_path(s, "none");
    process_run(0, "train", s->config, "--name=padded", "--data.tokenizer=bpe:300", "--model.vocab_size=303",
                "--train.total_steps=1", "--progress=none", NULL);
    process_run(0, "model", "export", "padded", "-o", folder, NULL);
    change_tokenizer(folder, none, drop_added_tokens);
    static const struct {
        const char *tokens[5], *said;
    } cases[] = {
        {{"<|a|>", "<|b|>"}, "2 new tokens, 0 new rows, vocabulary of 303"},
        {{"<|a|>", "<|b|>", "<|c|>"}, "3 new tokens, 0 new rows, vocabulary of 303"},
        {{"<|a|>", "<|b|>", "<|c|>", "<|d|>", "<|e|>"}, "5 new tokens, 2 new rows, vocabulary of 305"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *t = cases[i].tokens, *to = stage_path(s, kept_format("to-%zu", i));
        char *said =
            process_output("model", "add-tokens", i ? none : folder, to, t[0], t[1], t[2], t[3], t[4], NULL);
        if (!strstr(said, cases[i].said)) fail_msg("%s: %s", cases[i].said, said);
        assert_non_null(strstr(stage_read(kept_format("%s/tokenizer.json", to)), "\"<|b|>\""));
    }
}

STAGE_CASE(what_cannot_be_added_leaves_no_folder, struct stage *s)
{
    const char *folder = stage_path(s, "plain"), *to = stage_path(s, "to"), *bad = stage_path(s, "bad.jinja"),
               *large = stage_path(s, "large"), *bytes = stage_path(s, "bytes");
    stage_write(bad, "{% if %}", 8);
    process_run(0, "train", s->config, "--name=plain", "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                "--train.total_steps=1", "--progress=none", NULL);
    process_run(0, "model", "export", "plain", "-o", folder, NULL);
    change_tokenizer(folder, large, add_numbers);
    assert_int_equal(system(kept_format("cp -r %s %s && rm %s/tokenizer.json", folder, bytes, bytes)), 0);
    process_expect_sentence(process_run(2, "model", "add-tokens", folder, to, "", NULL), "is empty");
    process_expect_sentence(process_run(2, "model", "add-tokens", bytes, to, "<|x|>", NULL),
                            "has no tokenizer.json to add tokens to");
    process_expect_sentence(
        process_run(1, "model", "add-tokens", folder, to, "<|x|>", "--template", bad, NULL),
        "bad.jinja: line 1");
    const char *words[] = {"model", "add-tokens", large, to, "<|x|>", NULL};
    process_expect_sentence(
        process_expect(1, process_open(&(struct process_options){.arguments = words,
                                                                 .prelude = "trap '' XFSZ; ulimit -f 800;"})),
        "File too large");
    assert_false(file_exists(to));
    assert_int_equal(stage_count_leftovers(s), 0);
}

struct newcomer {
    const char *folder;
    int late;
};

/* How many files of the new folder are written after it has its name. */
static int count_late(void *context, const struct traced_call *call)
{
    const char *to = call->kind == TRACED_RENAME ? call->to : call->path;
    bool writes = call->kind == TRACED_RENAME || call->kind == TRACED_WRITE || call->kind == TRACED_REMOVE;
    struct newcomer *n = context;
    n->late += writes && strncmp(to, n->folder, strlen(n->folder)) == 0 && to[strlen(n->folder)] == '/';
    return 0;
}

STAGE_CASE(a_model_with_more_tokens_is_whole_as_soon_as_it_has_its_name, struct stage *s)
{
    struct newcomer n = {stage_path(s, "more"), 0};
    const char *template = stage_path(s, "chat.jinja");
    const char *words[] = {"model", "add-tokens", "plain", n.folder, "<|x|>", "--template", template, NULL};
    stage_write(template, "{{ messages }}", 14);
    process_run(0, "train", s->config, "--name=plain", "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                "--train.total_steps=1", "--progress=none", NULL);
    struct traced traced = {.arguments = words,
                            .out = stage_path(s, "out"),
                            .err = stage_path(s, "err"),
                            .seconds = 60,
                            .before = count_late,
                            .context = &n};
    assert_int_equal(traced_run(&traced), 0);
    assert_int_equal(n.late, 0);
    assert_string_equal(stage_read(kept_format("%s/chat_template.jinja", n.folder)), "{{ messages }}");
    assert_non_null(strstr(stage_read(kept_format("%s/config.json", n.folder)), "\"vocab_size\": 301"));
}

TEST_MAIN()
