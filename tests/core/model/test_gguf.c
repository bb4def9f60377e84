/* GGUF files, read back by a small reader of the format: every tensor with its values, the sizes, and the
 * tokenizer; and models that llama.cpp could not run are refused. tests/fixtures/gguf/check_gguf.py holds the
 * same files against llama.cpp itself. */
#include <jansson.h>
#include <math.h>

#include "core/base/file.h"
#include "core/base/half.h"
#include "core/model/hugging_face.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"
#include "tests/core/model/gguf_reader.h"
#include "tests/core/network/rig.h"

/* ---- the fixtures of tests/fixtures/sharded ---- */

static const struct {
    const char *folder, *architecture;
} models[] = {{"llama_bf16", "llama"}, {"qwen2_fp16", "qwen2"}, {"qwen3_fp32", "qwen3"}};

static double source_value(const struct safetensor *t, size_t index)
{
    uint16_t narrow;
    float wide;
    if (strcmp(t->dtype, "F32") == 0) return memcpy(&wide, (const char *)t->data + 4 * index, 4), wide;
    memcpy(&narrow, (const char *)t->data + 2 * index, 2);
    return strcmp(t->dtype, "F16") == 0 ? float_of_f16(narrow) : float_of_bf16(narrow);
}

static char *export_fixture(const char *name, enum gguf_type type)
{
    char folder[128];
    char *path = rig_path("model.gguf");
    int64_t bytes;
    struct err err = {0};
    snprintf(folder, sizeof folder, "tests/fixtures/sharded/%s", name);
    if (checkpoint_export_gguf(folder, CHECKPOINT_WEIGHTS, path, type, NULL, &bytes, &err))
        fail_msg("%s: %s", name, err.text);
    return path;
}

/* The row of Hugging Face's tensor that llama.cpp, which rotates adjacent pairs, wants at `row`: elements i
 * and i + width/2 of a head become 2i and 2i + 1. */
static size_t wanted_row(const char *name, const char *architecture, size_t row, size_t width)
{
    bool rotated = strstr(name, "q_proj") || strstr(name, "k_proj");
    if (!rotated || strcmp(architecture, "llama") != 0) return row;
    size_t head = row / width, at = row % width;
    return head * width + (at % 2 ? width / 2 + at / 2 : at / 2);
}

/* A number of Q8_0 is rounded to a whole step, and the step, of which it has up to 127, to F16. */
#define Q8_STEPS (0.501 + 127 * 0x1p-11)

static void compare(struct gguf *g, const struct safetensors *source, const char *architecture, size_t width,
                    const char *from, const char *to)
{
    const struct safetensor *s = safetensors_find(source, from);
    struct tensor t = reader_tensor(g, to);
    bool matrix = s->dims == 2;
    size_t rows = matrix ? (size_t)s->shape[0] : 1, cols = (size_t)s->shape[s->dims - 1];
    assert_int_equal(t.dims, s->dims);
    assert_int_equal(t.shape[0], cols);
    if (matrix) assert_int_equal(t.shape[1], rows);
    if (!matrix) assert_int_equal(t.type, 0);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            size_t at = matrix ? wanted_row(from, architecture, r, width) * cols + c
                               : wanted_row(from, architecture, c, width);
            double step, value = reader_element(g, &t, r, c, &step), wanted = source_value(s, at);
            double off = t.type == 8 ? Q8_STEPS * step : 0.5 * step * fabs(wanted) + 0x1p-25;
            if (!(fabs(value - wanted) <= (t.type ? off : 0)))
                fail_msg("%s (%zu, %zu): %g, not %g", to, r, c, value, wanted);
        }
}

TEST_CASE(every_tensor_has_its_values_in_every_type)
{
    static const char *const pairs[][2] = {
        {"model.embed_tokens.weight", "token_embd.weight"},
        {"model.norm.weight", "output_norm.weight"},
        {"model.layers.1.input_layernorm.weight", "blk.1.attn_norm.weight"},
        {"model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"},
        {"model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight"},
        {"model.layers.1.self_attn.v_proj.weight", "blk.1.attn_v.weight"},
        {"model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
        {"model.layers.1.mlp.gate_proj.weight", "blk.1.ffn_gate.weight"},
        {"model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight"},
        {"model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int type = 0; type < GGUF_TYPES; type++) {
            struct gguf g;
            struct safetensors source;
            char folder[128];
            char *path = export_fixture(models[m].folder, (enum gguf_type)type);
            snprintf(folder, sizeof folder, "tests/fixtures/sharded/%s", models[m].folder);
            assert_int_equal(safetensors_open_folder(folder, &source, NULL), STATUS_OK);
            reader_open(&g, path);
            assert_int_equal(g.tensors, source.count);
            reader_expect(&g, "general.architecture", models[m].architecture);
            reader_expect(&g, "tokenizer.ggml.model", "none");
            char key[64];
            snprintf(key, sizeof key, "%s.attention.key_length", models[m].architecture);
            size_t width = reader_number(&g, key);
            for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
                compare(&g, &source, models[m].architecture, width, pairs[i][0], pairs[i][1]);
            if (m == 1) {
                compare(&g, &source, "qwen2", width, "model.layers.1.self_attn.q_proj.bias",
                        "blk.1.attn_q.bias");
                compare(&g, &source, "qwen2", width, "model.layers.0.self_attn.k_proj.bias",
                        "blk.0.attn_k.bias");
                compare(&g, &source, "qwen2", width, "model.layers.0.self_attn.v_proj.bias",
                        "blk.0.attn_v.bias");
            } else if (m == 2) {
                compare(&g, &source, "qwen3", width, "model.layers.1.self_attn.k_norm.weight",
                        "blk.1.attn_k_norm.weight");
            }
            safetensors_close(&source);
            file_map_close(&g.map);
            free(path);
        }
}

static void open_export(struct gguf *g, const char *folder, enum gguf_type type)
{
    char *path = rig_path("export.gguf");
    int64_t bytes;
    struct err err = {0};
    if (checkpoint_export_gguf(folder, CHECKPOINT_WEIGHTS, path, type, NULL, &bytes, &err))
        fail_msg("%s", err.text);
    reader_open(g, path);
    assert_int_equal(g->map.size, bytes);
    free(path);
}

/* llama.cpp divides the frequencies of the base by a tensor of factors for llama3, and computes yarn itself.
 */
TEST_CASE(rotary_scaling_is_written_as_llama_cpp_reads_it)
{
    struct gguf g;
    struct model_config config;
    double step;
    open_export(&g, "tests/fixtures/kinds/llama_llama3", GGUF_F32);
    assert_int_equal(hugging_face_read_config("tests/fixtures/kinds/llama_llama3", &config, NULL), STATUS_OK);
    assert_true(reader_real(&g, "llama.rope.freq_base") == 100);
    assert_false(reader_find(&g, "llama.rope.scaling.type", 8));
    struct tensor t = reader_tensor(&g, "rope_freqs.weight");
    assert_true(t.dims == 1 && t.shape[0] == (uint64_t)config.head_dim / 2);
    for (int i = 0; i < config.head_dim / 2; i++) {
        double base = pow(config.rope_base, -2.0 * i / config.head_dim),
               got = base / reader_element(&g, &t, 0, (size_t)i, &step),
               wanted = model_rotary_frequency(&config, i);
        if (!(fabs(got - wanted) < 1e-6 * wanted)) fail_msg("pair %d turns by %g, not %g", i, got, wanted);
    }
    file_map_close(&g.map);
    open_export(&g, "tests/fixtures/kinds/llama_yarn", GGUF_F32);
    reader_expect(&g, "llama.rope.scaling.type", "yarn");
    assert_true(reader_real(&g, "llama.rope.scaling.factor") == 4);
    assert_int_equal(reader_number(&g, "llama.rope.scaling.original_context_length"), 16);
    file_map_close(&g.map);
}

TEST_CASE(every_size_is_in_the_header)
{
    struct gguf g;
    struct model_config c;
    open_export(&g, "tests/fixtures/sharded/qwen3_fp32", GGUF_F16);
    assert_int_equal(hugging_face_read_config("tests/fixtures/sharded/qwen3_fp32", &c, NULL), STATUS_OK);
    const struct {
        const char *key;
        int size;
    } sizes[] = {{"vocab_size", c.vocab_size},
                 {"context_length", c.max_seq_len},
                 {"embedding_length", c.hidden_dim},
                 {"block_count", c.num_layers},
                 {"feed_forward_length", c.intermediate_dim},
                 {"attention.head_count", c.num_heads},
                 {"attention.head_count_kv", c.num_kv_heads},
                 {"attention.key_length", c.head_dim},
                 {"attention.value_length", c.head_dim},
                 {"rope.dimension_count", c.head_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[64];
        snprintf(key, sizeof key, "qwen3.%s", sizes[i].key);
        assert_int_equal(reader_number(&g, key), sizes[i].size);
    }
    assert_int_equal(reader_number(&g, "general.file_type"), 1);
    assert_int_equal(reader_number(&g, "general.quantization_version"), 2);
    assert_true(reader_real(&g, "qwen3.attention.layer_norm_rms_epsilon") == (double)(float)c.norm_eps);
    assert_true(reader_real(&g, "qwen3.rope.freq_base") == (double)(float)c.rope_base);
    file_map_close(&g.map);
}

TEST_CASE(a_matrix_whose_rows_are_no_blocks_stays_in_16_bits)
{
    struct gguf g;
    char *path = export_fixture("llama_bf16", GGUF_Q8_0); /* 24 and 40 wide: not multiples of 32 */
    reader_open(&g, path);
    assert_int_equal(reader_tensor(&g, "blk.0.attn_q.weight").type, 1);
    file_map_close(&g.map);
    free(path);
}

/* ---- tokenizers ---- */

/* A checkpoint with 576 rows of embedding, 64 wide, and this tokenizer. */
static char *folder_with(const char *tokenizer_path)
{
    struct model_config config = rig_config();
    struct rig rig;
    struct tokenizer *tokenizer;
    struct train_state state = saved_state(1);
    int64_t bytes;
    struct err err = {0};
    config.vocab_size = 576;
    config.hidden_dim = 64;
    saved_open(&rig, &config, 0, 3);
    char *parent = saved_folder("tokenizers");
    if (tokenizer_open(tokenizer_path, &tokenizer, &err)) fail_msg("%s", err.text);
    struct checkpoint_source source = checkpoint_of_network(&rig.network, false);
    if (checkpoint_save(parent, &source, &state, tokenizer, NULL, &bytes, &err)) fail_msg("%s", err.text);
    tokenizer_close(tokenizer);
    rig_close(&rig);
    char *folder = saved_path(parent, "step-1", "");
    free(parent);
    return folder;
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    rig_write(path, text, strlen(text));
}

TEST_CASE(blocks_of_8_bits_have_the_scale_of_their_largest_number)
{
    struct gguf narrow, whole;
    char *folder = folder_with("tests/fixtures/tokenizer/trained.json");
    open_export(&narrow, folder, GGUF_Q8_0);
    open_export(&whole, folder, GGUF_F32);
    struct tensor t = reader_tensor(&narrow, "token_embd.weight"),
                  u = reader_tensor(&whole, "token_embd.weight");
    assert_int_equal(t.type, 8);
    assert_int_equal(t.shape[0], 64); /* two blocks */
    for (size_t r = 0; r < 576; r++)
        for (size_t block = 0; block < 64; block += 32) {
            double step = 0, none, most = 0;
            for (size_t c = block; c < block + 32; c++) {
                double wanted = reader_element(&whole, &u, r, c, &none),
                       value = reader_element(&narrow, &t, r, c, &step);
                most = fmax(most, fabs(wanted));
                if (!(fabs(value - wanted) <= Q8_STEPS * step))
                    fail_msg("(%zu, %zu): %g, not %g in steps of %g", r, c, value, wanted, step);
            }
            if (!(fabs(step - most / 127) <= most / 127 / 1024))
                fail_msg("(%zu, %zu): %g, not %g", r, block, step, most / 127);
        }
    file_map_close(&narrow.map);
    file_map_close(&whole.map);
    free(folder);
}

TEST_CASE(blocks_of_zeros_stay_zeros)
{
    struct model_config config = rig_config();
    struct rig rig;
    struct gguf g;
    config.hidden_dim = 64;
    saved_open(&rig, &config, 0, 3);
    for (size_t c = 0; c < 64; c++) rig.network.weights[rig.model.embed->offset + c] = 0;
    char *parent = saved_folder("zeros");
    saved_write(parent, &rig, 1);
    char *folder = saved_path(parent, "step-1", ""), tokenizer[4096];
    rig_close(&rig);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", folder);
    remove(tokenizer); /* its 256 tokens are more than the model has */
    open_export(&g, folder, GGUF_Q8_0);
    struct tensor t = reader_tensor(&g, "token_embd.weight");
    for (size_t c = 0; c < 64; c++) {
        double step = 1;
        assert_true(reader_element(&g, &t, 0, c, &step) == 0 && step == 0);
    }
    file_map_close(&g.map);
    free(parent);
    free(folder);
}

TEST_CASE(split_patterns_have_llama_cpps_names)
{
    static const char *const cases[][2] = {{"gpt2_style", "gpt-2"},
                                           {"llama_style", "llama-bpe"},
                                           {"qwen_style", "qwen2"},
                                           {"digits_style", "smollm"},
                                           {"trained", "gpt-2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf g;
        char path[128];
        snprintf(path, sizeof path, "tests/fixtures/tokenizer/%s.json", cases[i][0]);
        char *folder = folder_with(path);
        open_export(&g, folder, GGUF_F16);
        reader_expect(&g, "tokenizer.ggml.model", "gpt2");
        reader_expect(&g, "tokenizer.ggml.pre", cases[i][1]);
        assert_true(reader_find(&g, "tokenizer.ggml.add_bos_token", 7) && !reader_take(&g, 1));
        file_map_close(&g.map);
        free(folder);
    }
    struct gguf g;
    static const char *const spaced[] = {"llama2_style", "mistral_style"};
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/fixtures/tokenizer/%s.json", spaced[i]);
        char *with_spaces = folder_with(path);
        put(with_spaces, "generation_config.json", "{\"bos_token_id\": 5}"); /* not the tokenizer's */
        open_export(&g, with_spaces, GGUF_F16);
        reader_expect(&g, "tokenizer.ggml.model", "llama");
        assert_true(reader_find(&g, "tokenizer.ggml.add_space_prefix", 7) && reader_take(&g, 1));
        assert_true(reader_find(&g, "tokenizer.ggml.add_bos_token", 7) && reader_take(&g, 1));
        assert_int_equal(reader_number(&g, "tokenizer.ggml.bos_token_id"), 1);
        assert_int_equal(reader_number(&g, "tokenizer.ggml.unknown_token_id"), 0);
        assert_true(reader_find(&g, "tokenizer.ggml.token_type", 9));
        g.at += 12;
        static const unsigned kinds[] = {2, 3, 3, 6, 6};
        for (int id = 0; id < 5; id++) assert_int_equal(reader_take(&g, 4), kinds[id]);
        assert_true(reader_find(&g, "tokenizer.ggml.scores", 9));
        file_map_close(&g.map);
        free(with_spaces);
    }
    char *folder = folder_with("bytes");
    open_export(&g, folder, GGUF_F16);
    reader_expect(&g, "tokenizer.ggml.pre", "default");
    file_map_close(&g.map);
    free(folder);
}

TEST_CASE(tokens_merges_special_tokens_and_the_chat_template_are_written)
{
    struct gguf g;
    json_t *json = json_load_file("tests/fixtures/tokenizer/llama_style.json", 0, NULL), *model, *id;
    const char *text;
    char *folder = folder_with("tests/fixtures/tokenizer/llama_style.json");
    put(folder, "generation_config.json",
        "{\"bos_token_id\": 451, \"eos_token_id\": [452, 453, 454], \"pad_token_id\": 0}");
    put(folder, "chat_template.jinja", "{{ messages }}");
    open_export(&g, folder, GGUF_F32);
    model = json_object_get(json, "model");
    assert_true(reader_find(&g, "tokenizer.ggml.tokens", 9));
    assert_int_equal(reader_take(&g, 4), 8);
    assert_int_equal(reader_take(&g, 8), 576);
    size_t n, texts = g.at;
    for (int i = 0; i < 576; i++) {
        const char *token = reader_take_text(&g, &n);
        json_object_foreach(json_object_get(model, "vocab"), text, id)
            if (json_integer_value(id) == i) assert_memory_equal(token, text, n);
    }
    g.at = texts;
    for (int i = 0; i < 451; i++) reader_take_text(&g, &n);
    reader_expect_text(&g, "<|begin|>");
    for (int i = 452; i < 575; i++) reader_take_text(&g, &n);
    reader_expect_text(&g, "[PAD575]"); /* a row of the embedding without a token */
    assert_true(reader_find(&g, "tokenizer.ggml.token_type", 9));
    g.at += 12;
    for (int i = 0; i < 576; i++) assert_int_equal(reader_take(&g, 4), i < 451 ? 1 : i < 455 ? 3 : 5);
    assert_true(reader_find(&g, "tokenizer.ggml.merges", 9));
    assert_int_equal(reader_take(&g, 4), 8);
    const json_t *merges = json_object_get(model, "merges"), *first = json_array_get(merges, 0);
    assert_int_equal(reader_take(&g, 8), json_array_size(merges));
    char merge[64];
    snprintf(merge, sizeof merge, "%s %s", json_string_value(json_array_get(first, 0)),
             json_string_value(json_array_get(first, 1)));
    reader_expect_text(&g, json_is_string(first) ? json_string_value(first) : merge);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.bos_token_id"), 451);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.eos_token_id"), 452);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.eot_token_id"), 453);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.eom_token_id"), 454);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.padding_token_id"), 0);
    reader_expect(&g, "tokenizer.chat_template", "{{ messages }}");
    json_decref(json);
    file_map_close(&g.map);
    free(folder);
}

/* ---- what llama.cpp cannot run ---- */

static void expect_refused(const char *folder, enum gguf_type type, const char *part)
{
    char *path = rig_path("refused.gguf");
    int64_t bytes;
    struct err err = {0};
    assert_int_equal(checkpoint_export_gguf(folder, CHECKPOINT_WEIGHTS, path, type, NULL, &bytes, &err),
                     STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("%s", err.text);
    assert_false(file_exists(path));
    free(path);
}

/* Those of GPT-NeoX. */
TEST_CASE(special_tokens_may_have_the_id_0)
{
    struct gguf g;
    char *folder = folder_with("tests/fixtures/tokenizer/llama_style.json");
    put(folder, "generation_config.json", "{\"bos_token_id\": 0, \"eos_token_id\": [0, 3]}");
    open_export(&g, folder, GGUF_F16);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.bos_token_id"), 0);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.eos_token_id"), 0);
    assert_int_equal(reader_number(&g, "tokenizer.ggml.eot_token_id"), 3);
    assert_false(reader_find(&g, "tokenizer.ggml.eom_token_id", 4));
    file_map_close(&g.map);
    free(folder);
}

TEST_CASE(a_pattern_without_a_name_is_refused)
{
    struct file_map map;
    char *folder = folder_with("tests/fixtures/tokenizer/qwen_style.json");
    assert_int_equal(file_map_open("tests/fixtures/tokenizer/qwen_style.json", &map, NULL), STATUS_OK);
    char *text = strndup((const char *)map.data, map.size), *at = strstr(text, "\\\\p{N}|");
    assert_non_null(at);
    at[4] = 'M'; /* marks instead of numbers */
    put(folder, "tokenizer.json", text);
    expect_refused(folder, GGUF_F16, "llama.cpp cannot split text in the way of this tokenizer");
    free(text);
    file_map_close(&map);
    free(folder);
}

/* llama.cpp would give other ids, and nothing would tell. */
TEST_CASE(a_tokenizer_with_spaces_is_written_only_as_llama_cpp_has_it)
{
#define PREPEND(text) "{\"type\": \"Prepend\", \"prepend\": \"" text "\"}"
#define REPLACE(from, to)                                                                                    \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"
#define SEQUENCE(steps) "{\"type\": \"Sequence\", \"normalizers\": [" steps "]}"
#define METASPACE(space, split)                                                                              \
    "{\"type\": \"Metaspace\", \"replacement\": \"" space                                                    \
    "\", \"prepend_scheme\": \"first\", \"split\": " split "}"
    enum { REFUSED = -1 };
    static const struct {
        const char *tokenizer, *key, *value;
        int adds_space;
    } cases[] = {
        {"llama2_style", "normalizer", SEQUENCE(PREPEND("\u2581") ", " REPLACE(" ", "\u2581")), 1},
        {"llama2_style", "normalizer", REPLACE(" ", "\u2581"), 0},
        {"llama2_style", "normalizer", SEQUENCE(PREPEND("_") ", " REPLACE(" ", "\u2581")), REFUSED},
        {"llama2_style", "normalizer", SEQUENCE(PREPEND("\u2581") ", " REPLACE(" ", "_")), REFUSED},
        {"llama2_style", "normalizer", SEQUENCE(REPLACE(" ", "\u2581") ", " PREPEND("\u2581")), REFUSED},
        {"llama2_style", "normalizer", SEQUENCE(REPLACE(" ", "\u2581") ", " REPLACE("a", "\u2581")), REFUSED},
        {"llama2_style", "normalizer", SEQUENCE("{\"type\": \"NFC\"}, " REPLACE(" ", "\u2581")), REFUSED},
        {"llama2_style", "normalizer", PREPEND("\u2581"), REFUSED},
        {"llama2_style", "normalizer", "null", REFUSED},
        {"llama2_style", "ignore_merges", "true", REFUSED},
        {"mistral_style", "pre_tokenizer", METASPACE("\u2581", "false"), 1},
        {"mistral_style", "pre_tokenizer", METASPACE("\u2581", "true"), REFUSED},
        {"mistral_style", "pre_tokenizer", METASPACE("_", "false"), REFUSED},
        {"mistral_style", "byte_fallback", "false", REFUSED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/fixtures/tokenizer/%s.json", cases[i].tokenizer);
        json_t *json = json_load_file(path, 0, NULL);
        bool of_model = json_object_get(json_object_get(json, "model"), cases[i].key);
        json_object_set_new(of_model ? json_object_get(json, "model") : json, cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        char *text = json_dumps(json, 0), *folder = folder_with(path);
        put(folder, "tokenizer.json", text);
        if (cases[i].adds_space == REFUSED) {
            expect_refused(folder, GGUF_F16, "llama.cpp cannot split text in the way of this tokenizer");
        } else {
            struct gguf g;
            open_export(&g, folder, GGUF_F16);
            assert_true(reader_find(&g, "tokenizer.ggml.add_space_prefix", 7));
            assert_int_equal(reader_take(&g, 1), cases[i].adds_space);
            file_map_close(&g.map);
        }
        free(text);
        free(folder);
        json_decref(json);
    }
}

TEST_CASE(a_token_outside_the_vocabulary_is_refused)
{
    char *folder = folder_with("tests/fixtures/tokenizer/qwen_style.json");
    json_t *json = json_load_file("tests/fixtures/tokenizer/qwen_style.json", 0, NULL);
    json_t *added = json_object_get(json, "added_tokens");
    char content[16];
    for (int id = 443; id <= 576; id++) { /* the model has 576 rows */
        snprintf(content, sizeof content, "<|%d|>", id);
        json_array_append_new(added, json_pack("{s:i, s:s}", "id", id, "content", content));
    }
    char *text = json_dumps(json, 0);
    put(folder, "tokenizer.json", text);
    expect_refused(folder, GGUF_F16, "token 576 (\"<|576|>\") is outside the model's vocabulary of 576");
    free(text);
    json_decref(json);
    free(folder);
}

TEST_CASE(what_llama_cpp_does_not_compute_is_refused)
{
    expect_refused("tests/fixtures/kinds/mistral_window", GGUF_F32,
                   "the attention window of 7 tokens in layer 0");
    expect_refused("tests/fixtures/kinds/qwen2_sliding", GGUF_F32,
                   "the attention window of 5 tokens in layer 1");
    expect_refused("tests/fixtures/kinds/llama_yarn_given", GGUF_F32, "\"yarn\" only with beta_fast 32");
    expect_refused("tests/fixtures/kinds/llama_yarn_mscale", GGUF_F32, "\"yarn\" only with beta_fast 32");
    expect_refused("tests/fixtures/classification/llama", GGUF_F32, "is a classifier");
    char *folder = rig_path("llama3"), *command;
    assert_true(asprintf(&command, "cp -r tests/fixtures/kinds/qwen3_layer_types %s", folder) > 0);
    assert_int_equal(system(command), 0);
    json_t *config = json_load_file("tests/fixtures/kinds/qwen3_layer_types/config.json", 0, NULL);
    json_object_set_new(config, "rope_parameters", json_null());
    json_object_set_new(config, "rope_scaling",
                        json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", 2.0,
                                  "low_freq_factor", 1.0, "high_freq_factor", 4.0,
                                  "original_max_position_embeddings", 16));
    char *text = json_dumps(config, 0);
    put(folder, "config.json", text);
    expect_refused(folder, GGUF_F32, "llama.cpp reads the rotary scaling \"llama3\" only in Llama models");
    json_decref(config);
    free(text);
    free(command);
    free(folder);
    expect_refused("tests/fixtures/kinds/qwen3_biases", GGUF_F32, "both qk_norm (Qwen3) and qkv_bias");
}

TEST_CASE(a_weight_that_f16_cannot_hold_is_refused_by_name)
{
    struct model_config config = rig_config();
    struct rig rig;
    saved_open(&rig, &config, 0, 3);
    rig.network.weights[rig.model.layers[1].o.parts->offset + 2] = 70000;
    char *parent = saved_folder("large");
    saved_write(parent, &rig, 1);
    char *folder = saved_path(parent, "step-1", "");
    rig_close(&rig);
    char tokenizer[4096];
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", folder);
    remove(tokenizer); /* its 256 tokens are more than the model has */
    expect_refused(folder, GGUF_F16, "model.layers.1.self_attn.o_proj.weight has a number beyond 65504");
    char *path = rig_path("bf16.gguf");
    int64_t bytes;
    assert_int_equal(checkpoint_export_gguf(folder, CHECKPOINT_WEIGHTS, path, GGUF_BF16, NULL, &bytes, NULL),
                     STATUS_OK);
    free(path);
    free(parent);
    free(folder);
}

TEST_CASE(halves_round_to_the_nearest)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = float_of_f16((uint16_t)bits);
        if (value != value) {
            assert_int_equal(f16_of_float(value) & 0x7c00, 0x7c00);
            assert_int_not_equal(f16_of_float(value) & 0x3ff, 0);
            continue;
        }
        assert_int_equal(f16_of_float(value), bits);
        if ((bits & 0x7fff) >= 0x7bff) continue;
        float next = float_of_f16((uint16_t)(bits + 1)), middle = (value + next) / 2;
        assert_int_equal(f16_of_float(middle), bits + (bits & 1)); /* ties to even */
        assert_int_equal(f16_of_float(nextafterf(middle, value)), bits);
        assert_int_equal(f16_of_float(nextafterf(middle, next)), bits + 1);
    }
    assert_int_equal(f16_of_float(65519.99f), 0x7bff);
    assert_int_equal(f16_of_float(65520), 0x7c00);
    assert_int_equal(bf16_of_float(float_of_bits(0x3f808000)), 0x3f80);
    assert_int_equal(bf16_of_float(float_of_bits(0x3f818000)), 0x3f82);
}

TEST_MAIN()
