/* Training adapters beside a model in NF4: against bitsandbytes and peft (a fixture made by
 * tests/fixtures/nf4/make_model.py), and through the keys lora.base and lora.double_quant. */
#include <math.h>

#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "core/model/storage.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

#define FOLDER     "tests/fixtures/nf4/model"
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { BATCH = 2, LENGTH = 40, LABELS = BATCH * (LENGTH - 1) };

/* ---- against bitsandbytes and peft ---- */

static bool freezes(const void *context, const struct param *p, enum element *element)
{
    const struct model *model = ((const void *const *)context)[0];
    const struct storage *storage = ((const void *const *)context)[1];
    bool frozen = !adapter_trains(model, p);
    if (frozen) *element = storage_element(storage, p);
    return frozen;
}

static void open_quantised(struct rig *rig, bool nested)
{
    struct err err = {0};
    struct model_config config;
    struct adapter_config adapters;
    struct adapter_base base;
    struct storage storage = {
        .computed = ELEMENT_FP32, .mixes = true, .base = LORA_BASE_NF4, .nested = nested};
    *rig = (struct rig){.backend = cpu_backend()};
    if (hugging_face_read_config(FOLDER, &config, &err) ||
        adapter_file_read(FOLDER "/adapter", &adapters, &base, &err) ||
        model_init(&rig->model, &config, &err) || adapter_attach(&rig->model, &adapters, &err))
        fail_msg("%s", err.text);
    model_freeze(&rig->model, freezes, (const void *const[]){&rig->model, &storage});
    if (rig->backend->device_open(DEVICE_FIRST, 1, &rig->device, &err)) fail_msg("%s", err.text);
    struct plan_input input = {
        .model = &rig->model, .B = BATCH, .T = LENGTH, .moments = 2, .activation_interval = 1};
    if (plan_init(&rig->plan, &input, &err) ||
        network_open(&rig->network, rig->backend, rig->device, &rig->model, &rig->plan, &err) ||
        checkpoint_load_weights(FOLDER, &rig->network, &err) ||
        checkpoint_load_weights(FOLDER "/adapter", &rig->network, &err))
        fail_msg("%s", err.text);
}

static const void *expected(const struct safetensors *file, const char *kind, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", kind, name);
    const struct safetensor *t = safetensors_find(file, full);
    if (!t) fail_msg("the fixture has no %s", full);
    return t->data;
}

/* Loss and gradients once, of the fixture's tokens. */
static double step(struct rig *rig, const struct safetensors *file)
{
    int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
    struct step_result result;
    memcpy(tokens, expected(file, "", "tokens"), sizeof tokens);
    for (int i = 0; i < BATCH * LENGTH; i++) targets[i] = i % LENGTH == LENGTH - 1 ? -100 : tokens[i + 1];
    network_clear(&rig->network);
    rig_train(&rig->network, tokens, targets, BATCH, LENGTH, 1.0f / LABELS, (struct rig_dropout){0});
    network_result(&rig->network, &result);
    return result.loss_sum / LABELS;
}

/* The fixture was computed in fp32, too: the bounds are a few times what two orders of additions differ by.
 */
TEST_CASE(loss_and_gradients_are_those_of_bitsandbytes_and_peft)
{
    struct safetensors file;
    assert_int_equal(safetensors_open(FOLDER "/expected.safetensors", &file, NULL), STATUS_OK);
    for (int nested = 0; nested < 2; nested++) {
        const char *kind = nested ? "nested." : "nf4.",
                   *kind_gradient = nested ? "nested.grad." : "nf4.grad.";
        struct rig rig;
        double square = 0, norm = 0;
        int trained = 0;
        open_quantised(&rig, nested);
        double want = (double)*(const float *)expected(&file, kind, "loss"), got = step(&rig, &file);
        if (!(fabs(got - want) <= 1e-6 * want)) fail_msg("%s: loss %.9f, not %.9f", kind, got, want);
        for (size_t i = 0; i < rig.model.param_count; i++) {
            const struct param *p = &rig.model.params[i];
            if (p->frozen) continue;
            const float *gradient = expected(&file, kind_gradient, p->name);
            trained++;
            for (size_t j = 0; j < p->count; j++) {
                double d = (double)rig.network.gradients[p->offset + j] - (double)gradient[j];
                square += d * d, norm += (double)gradient[j] * (double)gradient[j];
            }
        }
        assert_int_equal(trained, 2 * 4 * 2);
        if (!(sqrt(square / norm) <= 5e-6))
            fail_msg("%s: the gradients are %.2e away", kind, sqrt(square / norm));
        rig_close(&rig);
    }
    safetensors_close(&file);
}

/* ---- runs ---- */

/* A checkpoint to train adapters on; yours. */
static char *make_base(void)
{
    char *folder = NULL;
    struct session s;
    session_open(&s, "base", NULL, WORDS("train.total_steps=1"), 900);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(asprintf(&folder, "model.from=%s/step-1", s.folder) > 0);
    session_close(&s);
    return folder;
}

#define ADAPTERS "lora.rank=4", "lora.targets=all", "train.total_steps=8", "eval.every=4", "sample.every=5"

/* Trains, with a break after `pause` steps if that is not 0; leaves *s open. */
static void run(struct session *s, const char *name, const char *const *words, int pause)
{
    session_open(s, name, NULL, words, 900);
    s->story.leave_at = pause;
    session_start(s, false);
    if (pause) {
        assert_int_equal(session_run(s), TRAIN_STOPPED);
        s->story.leave_at = 0;
        session_start(s, true);
        assert_int_equal(trainer_state(s->trainer)->step, pause);
    }
    assert_int_equal(session_run(s), TRAIN_FINISHED);
    assert_int_equal(s->story.step_count, 8);
}

TEST_CASE(a_run_beside_nf4_resumes_bit_for_bit)
{
    char *from = make_base();
    static const char *const nesting[] = {"lora.double_quant=false", "lora.double_quant=true"};
    for (int i = 0; i < 2; i++) {
        struct session whole, part;
        const char *const *words = WORDS(from, ADAPTERS, "lora.base=nf4", "lora.dropout=0.1", nesting[i]);
        run(&whole, "whole", words, 0);
        run(&part, "part", words, 3);
        story_expect_same(&whole.story, &part.story, nesting[i]);
        session_close(&whole);
        session_close(&part);
    }
    free(from);
}

/* Every base gives losses of its own, near those of fp32; and NF4 recomputes activations unless told not to.
 */
TEST_CASE(bases_differ_a_little)
{
    char *from = make_base();
    static const char *const bases[][2] = {{"lora.base=fp32", "lora.double_quant=true"},
                                           {"lora.base=bf16", "lora.double_quant=true"},
                                           {"lora.base=nf4", "lora.double_quant=true"},
                                           {"lora.base=nf4", "lora.double_quant=false"}};
    enum { BASES = sizeof bases / sizeof *bases };
    double losses[BASES];
    for (int i = 0; i < BASES; i++) {
        struct session s;
        run(&s, "base-of", WORDS(from, ADAPTERS, bases[i][0], bases[i][1]), 0);
        losses[i] = s.story.steps[0].loss;
        assert_int_equal(s.config.checkpoint.activation_interval, i >= 2);
        assert_true(fabs(losses[i] - losses[0]) < 0.02 * losses[0]);
        for (int k = 0; k < i; k++) assert_true(losses[k] != losses[i]);
        session_close(&s);
    }
    struct session s;
    run(&s, "saved", WORDS(from, ADAPTERS, "lora.base=nf4", "checkpoint.activation_interval=0"), 0);
    assert_int_equal(s.config.checkpoint.activation_interval, 0);
    assert_true(s.story.steps[0].loss == losses[2]);
    session_close(&s);
    free(from);
}

/* A checkpoint holds the adapters; of the base in 4 bits nothing is written. */
TEST_CASE(a_checkpoint_holds_no_base)
{
    char *from = make_base(), path[4096];
    struct session s;
    struct safetensors file;
    run(&s, "adapters", WORDS(from, ADAPTERS, "lora.base=nf4", "checkpoint.background=true"), 0);
    snprintf(path, sizeof path, "%s/step-8/adapter_model.safetensors", s.folder);
    assert_int_equal(safetensors_open(path, &file, NULL), STATUS_OK);
    assert_int_equal(file.count, 2 * 7 * 2);
    for (size_t i = 0; i < file.count; i++) assert_string_equal(file.tensors[i].dtype, "F32");
    safetensors_close(&file);
    snprintf(path, sizeof path, "%s/step-8/model.safetensors", s.folder);
    assert_int_equal(safetensors_open(path, &file, NULL), STATUS_NOT_FOUND);
    session_close(&s);
    free(from);
}

/* ---- storage ---- */

static enum element stored(enum lora_base base, enum element computed, bool mixes, bool nested,
                           const char *name, int cols)
{
    struct param p = {.rows = 8, .cols = cols};
    snprintf(p.name, sizeof p.name, "%s", name);
    return storage_element(
        &(struct storage){.computed = computed, .mixes = mixes, .base = base, .nested = nested}, &p);
}

TEST_CASE(only_projections_are_in_four_bits)
{
    static const char q[] = "model.layers.3.self_attn.q_proj.weight", head[] = "lm_head.weight",
                      a[] = "model.layers.3.self_attn.q_proj.lora_A.weight", norm[] = "model.norm.weight";
    const enum element wide = ELEMENT_FP32, narrow = ELEMENT_BF16;
    assert_int_equal(stored(LORA_BASE_NF4, wide, true, false, q, 8), ELEMENT_NF4);
    assert_int_equal(stored(LORA_BASE_NF4, narrow, false, true, q, 8), ELEMENT_NF4_NESTED);
    assert_int_equal(stored(LORA_BASE_NF4, wide, true, true, head, 8), narrow);
    assert_int_equal(stored(LORA_BASE_NF4, narrow, false, true, head, 8), narrow);
    assert_int_equal(stored(LORA_BASE_NF4, wide, false, true, head, 8), wide);
    assert_int_equal(stored(LORA_BASE_NF4, wide, true, true, norm, 0), wide);
    assert_int_equal(stored(LORA_BASE_NF4, wide, true, true, a, 8), wide);
    assert_int_equal(stored(LORA_BASE_BF16, wide, true, true, q, 8), narrow);
    assert_int_equal(stored(LORA_BASE_FP32, wide, true, true, q, 8), wide);
    assert_int_equal(stored(LORA_BASE_AUTO, wide, true, true, q, 8), wide); /* no file says bf16 */
}

TEST_CASE(a_base_that_the_device_does_not_compute_with_is_refused)
{
    struct err err;
    struct storage wide = {.computed = ELEMENT_BF16, .base = LORA_BASE_FP32},
                   narrow = {.computed = ELEMENT_FP32, .base = LORA_BASE_BF16};
    assert_int_equal(storage_check(&wide, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "lora.base = fp32"));
    assert_int_equal(storage_check(&narrow, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "lora.base = bf16"));
    narrow.mixes = true;
    assert_int_equal(storage_check(&narrow, &err), STATUS_OK);
}

TEST_MAIN()
