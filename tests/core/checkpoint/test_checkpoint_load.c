/* Loading a checkpoint: the loaded network equals the saved one, to the bit; a file that does not fit the
 * model or is not a trainer's state is refused with one sentence that names it. */
#include <math.h>

#include "core/model/hugging_face.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"

static void expect_same_after_load(const struct model_config *config, int moments, double best,
                                   double reference)
{
    struct rig saved, loaded;
    struct train_state state = saved_state(41), back = {0};
    struct err err = {0};
    char path[4096], *parent = saved_folder("round-trip");
    int64_t bytes;
    state.stopping.best = best;
    state.stopping.reference = reference;
    saved_open(&saved, config, moments, 5);
    rig_open(&loaded, NULL, config, 1, 3, moments); /* the batch shape may differ */
    if (saved_write_state(parent, &saved, &state, NULL, &bytes, &err)) fail_msg("%s", err.text);
    if (checkpoint_find(parent, -1, path, sizeof path, &err)) fail_msg("%s", err.text);
    if (checkpoint_load(path, &loaded.network, &back, NULL, &err)) fail_msg("%s", err.text);
    saved_expect_equal_memory(&saved, &loaded);
    saved_expect_equal_state(&state, &back);
    rig_weights(&loaded.model, 99, loaded.network.weights);
    if (checkpoint_load_weights(path, &loaded.network, &err)) fail_msg("%s", err.text);
    saved_expect_equal_memory(&saved, &loaded);
    rig_close(&saved);
    rig_close(&loaded);
    free(parent);
}

TEST_CASE(everything_comes_back_bit_for_bit)
{
    for (int bits = 0; bits < 8; bits++) {
        struct model_config config = rig_config();
        config.qk_norm = bits & 1;
        config.qkv_bias = bits & 2;
        config.o_bias = bits == 2, config.mlp_bias = bits == 2 || bits == 0;
        config.tie_weights = bits & 4;
        expect_same_after_load(&config, 1 + bits % 2, 0.1 * bits, 0.2 * bits);
    }
}

TEST_CASE(a_best_loss_that_is_not_there_yet_comes_back_as_infinity)
{
    struct model_config config = rig_config();
    expect_same_after_load(&config, 2, INFINITY, INFINITY);
    expect_same_after_load(&config, 2, 0.5, INFINITY); /* so far only early evaluations */
}

/* Loads a checkpoint of `saved` into a network of `other`; the sentence must name `part`. */
static void expect_other_model_refused(const struct model_config *saved, int saved_moments,
                                       const struct model_config *other, int moments, const char *part)
{
    struct rig a, b;
    struct train_state back;
    struct err err = {0};
    char *parent = saved_folder("other"), *path = saved_path(parent, "step-1", "");
    saved_open(&a, saved, saved_moments, 5);
    rig_open(&b, NULL, other, 1, 1, moments);
    saved_write(parent, &a, 1);
    assert_int_equal(checkpoint_load(path, &b.network, &back, NULL, &err), STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_non_null(strstr(err.text, path));
    rig_close(&a);
    rig_close(&b);
    free(path);
    free(parent);
}

TEST_CASE(a_model_that_differs_is_refused_naming_the_field)
{
    const struct model_config config = rig_config();
    struct model_config other = config;
    other.vocab_size = 14;
    expect_other_model_refused(&config, 2, &other, 2,
                               "was saved with model.vocab_size = 13, this model has 14");
    other = config;
    other.num_layers = 3;
    expect_other_model_refused(&config, 2, &other, 2, "model.num_layers = 2, this model has 3");
    other = config;
    other.tie_weights = true;
    expect_other_model_refused(&config, 2, &other, 2, "model.tie_weights = 0, this model has 1");
    other = config;
    other.qk_norm = true;
    expect_other_model_refused(&config, 2, &other, 2, "model.qk_norm = 0, this model has 1");
    other = config; /* no tensor has another shape */
    other.num_heads = 2;
    other.head_dim = 8;
    other.num_kv_heads = 1;
    expect_other_model_refused(&config, 2, &other, 2, "model.num_heads = 4, this model has 2");
    other = config;
    other.rope_base *= 2;
    expect_other_model_refused(&config, 2, &other, 2, "model.rope_base = ");
    other = config;
    other.norm_eps = 1e-3;
    expect_other_model_refused(&config, 2, &other, 2, "model.norm_eps = ");
    other = config;
    other.rope_scaling = ROPE_LINEAR;
    other.rope_factor = 2;
    expect_other_model_refused(&config, 2, &other, 2, "set model.rope_scaling");
    other = config;
    other.rope_scaling = ROPE_YARN;
    other.rope_factor = 1, other.rope_attention_factor = 2; /* only the factor of the queries differs */
    other.rope_beta_fast = 32, other.rope_beta_slow = 1, other.rope_original_len = 64;
    expect_other_model_refused(&config, 2, &other, 2, "set model.rope_scaling");
    other = config;
    other.mlp_bias = true;
    expect_other_model_refused(&config, 2, &other, 2, "model.mlp_bias = 0, this model has 1");
    other = config; /* no tensor differs */
    other.sliding_window = 5;
    expect_other_model_refused(&config, 2, &other, 2,
                               "an attention window of 0 in layer 0, this model has 5");
    expect_other_model_refused(&config, 1, &config, 2,
                               "optimizer.safetensors: has no tensor v.model.embed_tokens.weight");
}

TEST_CASE(tensors_that_do_not_fit_their_description_are_refused_by_name)
{
    static const char *const parts[] = {"has a tensor lm_head.weight, which this model does not have",
                                        "has no tensor model.layers.0.self_attn.q_norm.weight",
                                        "model.embed_tokens.weight is (13, 10), this model needs (14, 10)"};
    for (int i = 0; i < 3; i++) { /* the description is that of another model */
        struct model_config config = rig_config(), other = config;
        struct rig a, b;
        struct err err = {0};
        char *parent = saved_folder("mixed"), *path = saved_path(parent, "step-1", ""),
             *description = saved_path(parent, "step-1", "config.json");
        other.tie_weights = i == 0;
        other.qk_norm = i == 1;
        other.vocab_size += i == 2;
        saved_open(&a, &config, 2, 5);
        saved_open(&b, &other, 2, 6);
        saved_write(parent, &a, 1);
        assert_int_equal(hugging_face_write_config(&other, NULL, description, &err), STATUS_OK);
        assert_int_equal(checkpoint_load_weights(path, &b.network, &err), STATUS_USAGE);
        if (!strstr(err.text, parts[i])) fail_msg("\"%s\" does not say \"%s\"", err.text, parts[i]);
        rig_close(&a);
        rig_close(&b);
        free(description);
        free(path);
        free(parent);
    }
}

/* The value of a 16-bit float, computed step by step. */
static float value_of(uint16_t bits, bool bf16)
{
    int exponent = bf16 ? bits >> 7 & 255 : bits >> 10 & 31, digits = bf16 ? 7 : 10, bias = bf16 ? 127 : 15;
    int fraction = bits & ((1 << digits) - 1);
    double value =
        exponent ? ldexp(1 + ldexp(fraction, -digits), exponent - bias) : ldexp(fraction, 1 - bias - digits);
    return (float)(bits & 0x8000 ? -value : value);
}

/* Replaces model.safetensors by all tensors with two bytes per element. */
static uint16_t *write_short_weights(const struct model *model, const char *path, const char *dtype)
{
    struct safetensor *tensors = calloc(model->param_count, sizeof *tensors);
    uint16_t *halves = calloc(model->elements, sizeof *halves);
    struct err err = {0};
    uint16_t infinite = strcmp(dtype, "BF16") == 0 ? 0x7F80 : 0x7C00;
    for (size_t i = 0; i < model->elements; i++) {
        halves[i] = (uint16_t)(i * 2654435761u >> 16);
        if ((halves[i] & infinite) == infinite) halves[i] ^= infinite;
    }
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        tensors[i] = (struct safetensor){p->name,
                                         dtype,
                                         {p->rows, p->cols},
                                         p->cols ? 2 : 1,
                                         halves + p->offset,
                                         p->count * sizeof *halves,
                                         path,
                                         0};
    }
    if (safetensors_write(path, tensors, model->param_count, safetensors_fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    free(tensors);
    return halves;
}

TEST_CASE(weights_of_two_bytes_are_read_exactly)
{
    static const char *const dtypes[] = {"BF16", "F16"};
    struct model_config config = rig_config();
    config.vocab_size = 60000; /* more than a piece of the staging memory */
    for (int d = 0; d < 2; d++) {
        struct rig rig;
        struct err err = {0};
        char *parent = saved_folder("short"), *folder = saved_path(parent, "step-1", ""),
             *weights = saved_path(parent, "step-1", "model.safetensors");
        saved_open(&rig, &config, 1, 5);
        saved_write(parent, &rig, 1);
        uint16_t *halves = write_short_weights(&rig.model, weights, dtypes[d]);
        if (checkpoint_load_weights(folder, &rig.network, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < rig.model.param_count; i++)
            for (size_t k = 0; k < rig.model.params[i].count; k++) {
                size_t at = rig.model.params[i].offset + k;
                float wanted = value_of(halves[at], d == 0);
                if (memcmp(&rig.network.weights[at], &wanted, sizeof wanted) != 0)
                    fail_msg("%s 0x%04x is read as %g, not %g", dtypes[d], halves[at],
                             (double)rig.network.weights[at], (double)wanted);
            }
        free(halves);
        rig_close(&rig);
        free(weights);
        free(folder);
        free(parent);
    }
}

/* Replaces model.safetensors by the upper halves of these weights, except for one matrix in F32. */
static uint16_t *write_upper_halves(const struct model *model, const float *weights, const char *f32,
                                    const char *path)
{
    struct safetensor *tensors = calloc(model->param_count, sizeof *tensors);
    uint16_t *halves = calloc(model->elements, sizeof *halves);
    struct err err = {0};
    for (size_t i = 0; i < model->elements; i++)
        memcpy(&halves[i], (const unsigned char *)&weights[i] + sizeof *halves, sizeof *halves);
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        bool wide = strcmp(p->name, f32) == 0;
        tensors[i] =
            (struct safetensor){.name = p->name,
                                .dtype = wide ? "F32" : "BF16",
                                .shape = {p->rows, p->cols},
                                .dims = p->cols ? 2 : 1,
                                .data = wide ? (const void *)(weights + p->offset) : halves + p->offset,
                                .bytes = p->count * (wide ? 4 : 2)};
    }
    if (safetensors_write(path, tensors, model->param_count, safetensors_fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    free(tensors);
    return halves;
}

static double loss_of(struct network *network, int V)
{
    int32_t inputs[5], targets[5];
    rig_tokens(1, V, inputs, 5);
    rig_tokens(2, V, targets, 5);
    network_forward(network, (struct batch_view){.inputs = inputs, .B = 1, .T = 5});
    return network_loss(network, (struct batch_view){.labels = targets, .B = 1, .T = 5});
}

/* Whether a frozen parameter holds exactly these weights: bf16 matrices as they are, all else widened. */
static void expect_stored(const struct network *network, const struct param *p, enum element element,
                          const uint16_t *halves, const float *weights)
{
    const unsigned char *stored = (const unsigned char *)network->frozen + p->offset;
    assert_true(p->frozen);
    assert_int_equal(p->element, element);
    for (size_t k = 0; k < p->count; k++) {
        float wide = 0;
        memcpy((unsigned char *)&wide + sizeof *halves, &halves[k], sizeof *halves);
        if (weights) wide = weights[k];
        assert_memory_equal(stored + k * element_bytes(element),
                            element == ELEMENT_BF16 ? (const void *)&halves[k] : (const void *)&wide,
                            element_bytes(element));
    }
}

/* Opened and loaded like a model that a command generates with. */
TEST_CASE(what_is_bf16_stays_bf16_where_nothing_is_trained)
{
    const char *f32[] = {"", "model.layers.0.self_attn.k_proj.weight"}; /* cuts packed q, k, v into three */
    for (int i = 0; i < 2; i++) {
        struct model_config config = rig_config();
        struct rig whole, bare = {.backend = cpu_backend()};
        struct device_info info;
        struct err err = {0};
        char *parent = saved_folder("halves"), *folder = saved_path(parent, "step-1", ""),
             *path = saved_path(parent, "step-1", "model.safetensors");
        saved_open(&whole, &config, 1, 5);
        saved_write(parent, &whole, 1);
        size_t bytes = whole.model.elements * sizeof(float);
        float *weights = malloc(bytes);
        assert_non_null(weights);
        memcpy(weights, whole.network.weights, bytes);
        uint16_t *halves = write_upper_halves(&whole.model, weights, f32[i], path);
        if (checkpoint_load_weights(folder, &whole.network, &err)) fail_msg("%s", err.text);

        struct plan_input input = {.model = &bare.model, .B = 1, .T = 5};
        const struct base_storage as_stored = {0};
        assert_int_equal(model_init(&bare.model, &config, NULL), STATUS_OK);
        assert_int_equal(bare.backend->device_open(DEVICE_FIRST, 1, &bare.device, NULL), STATUS_OK);
        bare.backend->device_describe(bare.device, &info);
        assert_int_equal(checkpoint_freeze(folder, &bare.model, &as_stored, &info, &input.precision, NULL),
                         STATUS_OK);
        assert_int_equal(input.precision, PRECISION_FP32); /* the CPU computes in fp32 */
        if (plan_init(&bare.plan, &input, &err)) fail_msg("%s", err.text);
        assert_int_equal(bare.plan.category_bytes[PLAN_WEIGHTS], 0);
        assert_true(bare.plan.category_bytes[PLAN_FROZEN] < bytes * 3 / 4);
        if (network_open(&bare.network, bare.backend, bare.device, &bare.model, &bare.plan, &err) ||
            checkpoint_load_weights(folder, &bare.network, &err))
            fail_msg("%s", err.text);
        for (size_t k = 0; k < bare.model.param_count; k++) {
            const struct param *p = &bare.model.params[k];
            size_t at = whole.model.params[k].offset;
            bool wide = strcmp(p->name, f32[i]) == 0;
            expect_stored(&bare.network, p, p->cols && !wide ? ELEMENT_BF16 : ELEMENT_FP32, halves + at,
                          wide ? weights + at : NULL);
        }
        double want = loss_of(&whole.network, config.vocab_size),
               got = loss_of(&bare.network, config.vocab_size);
        assert_true(fabs(got - want) <= 1e-6 * want);

        info.best = PRECISION_BF16; /* like a GPU, which has one type for all */
        info.mixes_elements = false;
        assert_int_equal(checkpoint_freeze(folder, &bare.model, &as_stored, &info, &input.precision, NULL),
                         STATUS_OK);
        assert_int_equal(input.precision, i ? PRECISION_FP32 : PRECISION_BF16);
        for (size_t k = 0; k < bare.model.param_count; k++)
            assert_int_equal(bare.model.params[k].element, i ? ELEMENT_FP32 : ELEMENT_BF16);
        rig_close(&whole), rig_close(&bare);
        free(halves), free(weights), free(path), free(folder), free(parent);
    }
}

TEST_CASE(a_trainer_state_that_is_incomplete_or_wrong_is_refused)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"step\": 1}",
        "{\"step\": -1, \"cursor\": 0, \"tokens\": 0, \"lr_factor\": 1.0, \"skipped_in_a_row\": 0, "
        "\"best_step\": 0,"
        " \"patience_used\": 0, \"patience\": 0, \"min_delta\": 0.0}",
        "{\"step\": 1.5, \"cursor\": 0, \"tokens\": 0, \"lr_factor\": 1.0, \"skipped_in_a_row\": 0, "
        "\"best_step\": 0,"
        " \"patience_used\": 0, \"patience\": 0, \"min_delta\": 0.0}",
        "{\"step\": 99999999999999999999, \"cursor\": 0, \"tokens\": 0, \"lr_factor\": 1.0, "
        "\"skipped_in_a_row\": 0,"
        " \"best_step\": 0, \"patience_used\": 0, \"patience\": 0, \"min_delta\": 0.0}",
        "{\"step\": 1, \"cursor\": 0, \"tokens\": 0, \"lr_factor\": \"x\", \"skipped_in_a_row\": 0, "
        "\"best_step\": 0,"
        " \"patience_used\": 0, \"patience\": 0, \"min_delta\": 0.0}",
        "{\"step\": 1, \"cursor\": 0, \"tokens\": 0, \"lr_factor\": -1.0, \"skipped_in_a_row\": 0, "
        "\"best_step\": 0,"
        " \"patience_used\": 0, \"patience\": 0, \"min_delta\": 0.0}"};
    struct rig rig;
    struct model_config config = rig_config();
    struct err err;
    char *parent = saved_folder("state"), *path = saved_path(parent, "step-1", "");
    saved_open(&rig, &config, 2, 5);
    saved_write(parent, &rig, 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct train_state back = saved_state(77), before = back;
        saved_write_text(parent, "step-1", "trainer.json", texts[i]);
        if (checkpoint_load(path, &rig.network, &back, NULL, &err) != STATUS_CORRUPT)
            fail_msg("accepted: %s", texts[i]);
        assert_non_null(strstr(err.text, "trainer.json"));
        saved_expect_equal_state(&back, &before);
    }
    rig_close(&rig);
    free(path);
    free(parent);
}

/* All that older versions wrote, and one member more. */
#define STATE                                                                                                \
    "{\"step\": 1, \"updates\": 1, \"cursor\": 0, \"tokens\": 0, \"lr_factor\": 1.0, "                       \
    "\"skipped_in_a_row\": 0, \"best_step\": 0, \"patience_used\": 0, \"patience\": 0, "                     \
    "\"min_delta\": 0.0, \"corpus_tokens\": 1, \"corpus_checksum\": 1, \"tokenizer_checksum\": 1"

TEST_CASE(usual_losses_and_cuts_that_cannot_be_are_refused_and_may_be_missing)
{
    static const struct {
        const char *text, *bad;
    } cases[] = {{STATE ", \"best_val_loss\": 1.5}", NULL},
                 {STATE ", \"best_val_loss\": 1.5, "
                        "\"losses\": [0.5, 0.25], \"lr_cut\": 0.5}",
                  NULL},
                 {STATE ", \"best_val_loss\": 1.5, \"losses\": [0.5, 0.25], \"lr_cut\": 0.5, "
                        "\"spike_steps\": 64, \"calm_steps\": 64}",
                  NULL},
                 {STATE ", \"spike_steps\": 65}", "losses"},
                 {STATE ", \"losses\": {}}", "losses"},
                 {STATE ", \"losses\": [0.5, \"x\"]}", "losses"},
                 {STATE ", \"losses\": [0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,"
                        "0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,"
                        "0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,"
                        "0.1,0.1,0.1,0.1,0.1,0.1]}",
                  "losses"},
                 {STATE ", \"spike_steps\": 9223372036854775807}", "losses"},
                 {STATE ", \"calm_steps\": 65}", "losses"},
                 {STATE ", \"lr_cut\": 1.5}", "lr_cut"},
                 {STATE ", \"lr_cut\": -0.5}", "lr_cut"},
                 {STATE ", \"rollbacks\": -1}", "rollbacks"}};
    char *parent = saved_folder("losses"), *path = saved_path(parent, "step-1", "");
    assert_int_equal(file_make_folders(path, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct train_state read = {0};
        struct err err = {0};
        saved_write_text(parent, "step-1", "trainer.json", cases[i].text);
        enum status status = checkpoint_load_state(path, &read, &err);
        if (status != (cases[i].bad ? STATUS_CORRUPT : STATUS_OK))
            fail_msg("%s: %s", cases[i].text, err.text);
        if (cases[i].bad) assert_non_null(strstr(err.text, cases[i].bad));
        if (cases[i].bad) continue;
        assert_true(read.lr_cut == (i ? 0.5 : 1) && read.level.count == (i ? 2 : 0));
        assert_int_equal(read.best_saved, read.stopping.best_step);   /* it once was always saved */
        assert_true(read.stopping.reference == (i ? INFINITY : 1.5)); /* it once was that of the best */
    }
    free(path), free(parent);
}

TEST_MAIN()
