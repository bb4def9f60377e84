/* From JSONL to the loss: conversations packed into one row have the loss and the gradient that transformers
 * computes with position_ids. Fixtures: tests/fixtures/instructions/make_instructions.py. */
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <zlib.h>

#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"
#include "datasets/examples.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { T = 120 };

/* The lines of the fixture as a corpus, prepared in a cache of the scratch folder. */
static void open_corpus(const json_t *fixture, struct corpus *corpus)
{
    struct err err = {0};
    size_t i;
    const json_t *line;
    char *path = rig_path("conversations.jsonl"), *cache = rig_path("cache"), *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    json_array_foreach(json_object_get(fixture, "lines"), i, line)
        fprintf(out, "%s\n", json_string_value(line));
    fclose(out);
    rig_write(path, text, n);
    const char *template = json_string_value(json_object_get(fixture, "template"));
    struct chat_format format = {.source = strdup(template),
                                 .n = strlen(template),
                                 .name = "the template",
                                 .texts = json_incref(json_object_get(fixture, "texts"))};
    struct text_reading reading = {.conversations = &format};
    char *packed = rig_path("conversations.jsonl.gz");
    gzFile gzip = gzopen(packed, "w");
    if (gzwrite(gzip, text, (unsigned)n) != (int)n || gzclose(gzip) != Z_OK) fail_msg("%s", packed);
    for (int again = 0; again < 3; again++) { /* the second time it is found in the cache */
        if (again) corpus_close(corpus);
        if (corpus_open(again < 2 ? path : packed, "tests/fixtures/kinds/without_bos.json", &reading, cache,
                        NULL, corpus, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(corpus->tokens, json_integer_value(json_object_get(fixture, "tokens")));
    struct corpus other = {0};
    memcpy(strstr(format.source, "[INST]"), "people", 6); /* another template has another cache */
    if (corpus_open(path, "tests/fixtures/kinds/without_bos.json", &reading, cache, NULL, &other, &err))
        fail_msg("%s", err.text);
    assert_memory_not_equal(other.files[0].tokens, corpus->files[0].tokens,
                            corpus->tokens * sizeof *corpus->files[0].tokens);
    corpus_close(&other);
    chat_format_release(&format);
    free(path), free(packed), free(cache), free(text);
}

static double norm_of(const struct rig *rig)
{
    double sum = 0;
    for (size_t i = 0; i < rig->model.elements; i++) sum += pow((double)rig->network.gradients[i], 2);
    return sqrt(sum);
}

static void expect_near(const char *name, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 2e-5 * want)) fail_msg("%s: %s %.9g, transformers %.9g", name, what, got, want);
}

TEST_CASE(packed_conversations_have_the_loss_that_transformers_computes)
{
    json_t *fixture = json_load_file("tests/fixtures/instructions/packed.json", 0, NULL), *wanted;
    struct corpus corpus = {0};
    struct example_rows rows, none;
    struct err err = {0};
    const char *name;
    int checkouts = 0;
    assert_non_null(fixture);
    open_corpus(fixture, &corpus);
    if (example_rows_open(&corpus, &(struct split_rule){VAL_BLOCKS, 0, T, 1, SHUFFLE_NONE}, true, &rows,
                          &none, &err))
        fail_msg("%s", err.text);
    assert_int_equal(rows.packing.rows, 1);
    json_object_foreach(json_object_get(fixture, "checkouts"), name, wanted) {
        char folder[PATH_MAX];
        struct model_config config;
        struct rig rig;
        struct step_result result;
        int32_t inputs[T], targets[T], positions[T];
        struct batch_source source = example_rows_source(&rows);
        double labels = source.labels(source.context, 0, 1);
        snprintf(folder, sizeof folder, "tests/fixtures/kinds/%s", name);
        if (hugging_face_read_config(folder, &config, &err)) fail_msg("%s", err.text);
        rig_open_input(&rig, NULL, &config, (struct plan_input){.B = 1, .T = T, .packed = true, .moments = 2},
                       "");
        if (checkpoint_load_weights(folder, &rig.network, &err)) fail_msg("%s", err.text);
        source.fill(source.context, 0, 1, inputs, targets, positions);
        struct batch_view batch = {inputs, targets, positions, 1, T};
        network_clear(&rig.network);
        network_train(&rig.network, batch, 0, (struct step_control){.loss_scale = (float)(1 / labels)});
        network_result(&rig.network, &result);
        assert_int_equal(labels, json_integer_value(json_object_get(wanted, "labels")));
        expect_near(name, "loss", result.loss_sum, json_number_value(json_object_get(wanted, "loss_sum")));
        expect_near(name, "gradient", norm_of(&rig),
                    json_number_value(json_object_get(wanted, "gradient_norm")));
        rig_close(&rig);
        checkouts++;
    }
    assert_int_equal(checkouts, 4);
    example_rows_close(&rows);
    corpus_close(&corpus);
    json_decref(fixture);
}

TEST_MAIN()
