/* Classifiers of transformers: the checkouts of tests/fixtures/classification, made by its
 * make_classifiers.py, have the logits and the loss that transformers computes, also packed into rows; and
 * our config.json names the same classes. */
#include <jansson.h>
#include <limits.h>
#include <math.h>

#include "core/checkpoint/checkpoint.h"
#include "core/generate/classifier.h"
#include "core/model/hugging_face.h"
#include "datasets/batch.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

static const char *const kinds[] = {"llama", "mistral", "qwen2", "qwen3"};
enum { KINDS = sizeof kinds / sizeof *kinds, T = 24, B = 3, TEXTS = 5, LABELS = 3 };

static const char *path_of(int kind, const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "tests/fixtures/classification/%s/%s", kinds[kind], name);
    return path;
}

struct answers {
    json_t *oracle;
    int32_t inputs[B * T], labels[B * T], positions[B * T];
    int rows[TEXTS]; /* of their last tokens */
    int kind, count;
};

/* The texts one after the other, in rows. */
static struct batch_view pack(struct answers *a)
{
    const json_t *texts = json_object_get(a->oracle, "texts"), *labels = json_object_get(a->oracle, "labels");
    int at = 0, row = 0;
    for (int n = 0; n < B * T; n++) a->labels[n] = LABEL_IGNORED, a->positions[n] = 0, a->inputs[n] = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        const json_t *text = json_array_get(texts, i);
        int count = (int)json_array_size(text);
        if (at + count > T) row++, at = 0;
        assert_true(row < B);
        for (int t = 0; t < count; t++, at++) {
            a->inputs[row * T + at] = (int32_t)json_integer_value(json_array_get(text, (size_t)t));
            a->positions[row * T + at] = t;
        }
        a->rows[i] = row * T + at - 1;
        a->labels[a->rows[i]] = (int32_t)json_integer_value(json_array_get(labels, i));
    }
    return (struct batch_view){a->inputs, a->labels, a->positions, B, T};
}

static void compare(void *context, int row, const float *logits)
{
    struct answers *a = context;
    int i = 0;
    while (a->rows[i] != row) i++;
    const json_t *wanted = json_array_get(json_object_get(a->oracle, "logits"), (size_t)i);
    for (int k = 0; k < LABELS; k++) {
        double want = json_real_value(json_array_get(wanted, (size_t)k));
        if (!(fabs(logits[k] - want) < 1e-4 * fmax(1, fabs(want))))
            fail_msg("%s: text %d: logit %d is %.7g, not %.7g", kinds[a->kind], i, k, (double)logits[k],
                     want);
    }
    a->count++;
}

TEST_CASE(logits_and_loss_are_those_of_transformers)
{
    for (int kind = 0; kind < KINDS; kind++) {
        static const float weights[LABELS] = {1, 1, 1};
        struct answers a = {.kind = kind};
        struct model_config config;
        struct classifier classifier;
        struct rig rig;
        struct err err = {0};
        char folder[PATH_MAX];
        if (hugging_face_read_config(path_of(kind, ""), &config, &err)) fail_msg("%s", err.text);
        assert_int_equal(config.num_labels, LABELS);
        a.oracle = json_load_file(path_of(kind, "oracle.json"), 0, NULL);
        rig_open_input(&rig, NULL, &config, (struct plan_input){.B = B, .T = T, .packed = true}, "*");
        snprintf(folder, sizeof folder, "%s", path_of(kind, ""));
        if (checkpoint_load_weights(folder, &rig.network, &err)) fail_msg("%s", err.text);
        network_weigh_classes(&rig.network, weights);
        if (classifier_open(&classifier, &rig.network, &err)) fail_msg("%s", err.text);
        struct batch_view batch = pack(&a);
        classifier_run(&classifier, batch, compare, &a);
        assert_int_equal(a.count, TEXTS);
        double want = json_real_value(json_object_get(a.oracle, "loss")) * TEXTS;
        network_forward(&rig.network, batch);
        double got = network_loss(&rig.network, batch);
        if (!(fabs(got - want) < 1e-5 * want)) fail_msg("%s: loss %.9g, not %.9g", kinds[kind], got, want);
        classifier_close(&classifier);
        rig_close(&rig);
        json_decref(a.oracle);
    }
}

TEST_CASE(classes_survive_our_config)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct model_config config;
        struct model model, back;
        struct err err = {0};
        char *path = rig_path("config.json");
        if (hugging_face_read_config(path_of(kind, ""), &config, &err)) fail_msg("%s", err.text);
        if (model_init(&model, &config, &err) || hugging_face_read_classes(path_of(kind, ""), &model, &err) ||
            hugging_face_write_config(&config, &model.classes, path, &err) ||
            hugging_face_read_config(getenv("ANNEAL_TEST_DIR"), &config, &err) ||
            model_init(&back, &config, &err) ||
            hugging_face_read_classes(getenv("ANNEAL_TEST_DIR"), &back, &err))
            fail_msg("%s", err.text);
        assert_int_equal(config.num_labels, LABELS);
        assert_int_equal(back.classes.pad_token, 46);
        assert_string_equal(back.classes.names[0], "eggs, fried");
        assert_string_equal(back.classes.names[2], "spam ä");
        model_release(&model);
        model_release(&back);
        free(path);
    }
}

/* A config.json with these members instead of those of the Llama. */
static void expect_refused(const char *key, const char *value, const char *says)
{
    struct model_config config;
    struct model model = {0};
    struct err err = {0};
    json_t *json = json_load_file(path_of(0, "config.json"), 0, NULL);
    json_object_set_new(json, key, json_loads(value, JSON_DECODE_ANY, NULL));
    char *text = json_dumps(json, 0), *path = rig_path("config.json");
    rig_write(path, text, strlen(text));
    enum status status = hugging_face_read_config(getenv("ANNEAL_TEST_DIR"), &config, &err);
    if (!status) status = model_init(&model, &config, &err);
    if (!status) status = hugging_face_read_classes(getenv("ANNEAL_TEST_DIR"), &model, &err);
    if (!status || !strstr(err.text, says)) fail_msg("%s = %s: \"%s\"", key, value, err.text);
    model_release(&model);
    json_decref(json);
    free(text);
    free(path);
}

TEST_CASE(a_classifier_that_is_not_computed_is_refused)
{
    char many[120000] = "{";
    size_t used = 1;
    for (int i = 0; i < 5000; i++)
        used += (size_t)snprintf(many + used, sizeof many - used, "\"%d\": \"x\", ", i);
    snprintf(many + used, sizeof many - used, "\"5000\": \"y\"}");
    expect_refused("id2label", many, "more than 4096 labels");
    expect_refused("problem_type", "\"multi_label_classification\"", "single_label_classification");
    expect_refused("problem_type", "7", "problem_type");
    expect_refused("id2label", "{\"0\": \"LABEL_0\"}", "a model with one label gives a score");
    expect_refused("pooling", "\"max\"", "pooling is max");
    expect_refused("id2label", "{\"0\": \"a\", \"2\": \"b\"}", "no name for \"1\"");
    expect_refused("id2label", "{\"0\": \"a\", \"1\": 5}", "no name for \"1\"");
    expect_refused("id2label", "{\"0\": \"a\", \"1\": \"b\", \"2\": \"a\"}",
                   "id2label has the name \"a\" twice, for 0 and 2");
}

TEST_MAIN()
