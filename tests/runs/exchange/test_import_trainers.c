/* What metrics, settings and summaries of the logs of trainers become: logs of TensorBoard and wandb, made by
 * tests/fixtures/logs/make_logs.py. */
#include <limits.h>

#include "runs/quantity.h"
#include "tests/cmocka.h"
#include "tests/runs/exchange/exchange_fixture.h"

#define LOGS "tests/fixtures/logs/"

/* The values by name of one run, in a store of its own; yours to free. */
static char *imported_text(const char *name, const char *log, const char *sql, struct import_outcome *made)
{
    char home[PATH_MAX];
    store_fixture_home(name, home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct err err = {0};
    if (import_files(store, &log, 1, NULL, made, &err)) fail_msg("%s", err.text);
    store_close(store);
    return store_fixture_text(home, sql);
}

static void expect_imported(const char *name, const char *log, const char *sql, const char *expected)
{
    struct import_outcome made;
    char *text = imported_text(name, log, sql, &made);
    assert_string_equal(text, expected);
    free(text);
}

#define LOSSES "select group_concat(step || ' ' || loss || ' ' || lr) from steps"

/* Hugging Face's trainer counts the steps done, and evaluates the best model once more at the end. A row
 * without its step goes with the one before. */
TEST_CASE(the_step_that_a_trainer_logs_is_the_step)
{
    static const char *const files[] = {LOGS "trainer.wandb", LOGS "hugging_face.tfevents"};
    for (int i = 0; i < 2; i++) {
        expect_imported("trainer", files[i], LOSSES, "9 3.0 0.5,19 2.75 0.5,29 2.5 0.5");
        expect_imported("trainer-runs", files[i], "select steps, total_steps from runs", "30|30");
        expect_imported("trainer-evals", files[i], "select step, val_loss, wall_time > 1e9 from evals",
                        "30|2.5|1");
    }
    struct import_outcome made;
    char *measures = imported_text("trainer-measures", files[0],
                                   "select step, name, value from measures order by name", &made);
    assert_string_equal(measures,
                        "30|eval_accuracy|0.75\n30|own|4.0\n30|train_loss|2.75\n30|train_train_loss|2.75");
    assert_string_equal(made.names, "");
    assert_non_null(strstr(made.remark, "2 values came again for the same step"));
    free(measures);
}

/* nanoGPT's step is called iter, and its mfu is in percent. */
TEST_CASE(a_log_of_nanogpt_has_its_step_and_its_utilisation)
{
    expect_imported("nanogpt", LOGS "nanogpt.wandb", "select step, loss, ifnull(mfu, '-') from steps",
                    "0|3.0|-\n500|2.75|0.375\n1000|2.5|0.375");
    expect_imported("nanogpt-evals", LOGS "nanogpt.wandb", "select step, val_loss from evals",
                    "0|3.5\n500|3.25\n1000|3.0");
    expect_imported("nanogpt-measures", LOGS "nanogpt.wandb", "select count(*) from measures", "0");
}

/* Lightning's loss of a step is the loss where there is no other. */
TEST_CASE(the_step_that_a_log_defines_is_the_step)
{
    struct import_outcome made;
    char *steps = imported_text("axis", LOGS "axis.wandb", "select step, loss from steps", &made);
    assert_string_equal(steps, "0|3.0\n64|2.75\n128|2.5");
    assert_string_equal(made.names, "loss is train_loss_step");
    assert_string_equal(made.remark, "");
    expect_imported("axis-evals", LOGS "axis.wandb", "select step, val_loss from evals", "128|2.5");
    expect_imported("axis-measures", LOGS "axis.wandb", "select distinct name from measures order by name",
                    "iter\ntrain_loss_epoch");
    free(steps);
}

/* wandb writes the values of a row in any order: what has which name must not depend on that. */
TEST_CASE(metrics_have_names_that_do_not_depend_on_their_order)
{
    const char *log = LOGS "names.wandb";
    struct import_outcome made;
    expect_imported("names", log, "select loss from steps", "1.0");
    expect_imported("names-evals", log, "select val_loss from evals", "3.0");
    char *measures =
        imported_text("names-measures", log, "select name, value from measures order by name", &made);
    assert_string_equal(
        measures,
        "a_b|20.0\na_b_2|10.0\naccuracy|0.5\naccuracy_max|0.5\naccuracy_mean|0.5\nbest_2|0.25\neval_loss|4."
        "0\n"
        "grad_norm_base_model_model_model_layers_0_mlp__roj_lora_a_default_weight_of_the_second_adapter|2.0\n"
        "grad_norm_base_model_model_model_layers_0_mlp_gate_proj_lora_a_default_weight|1.0\n"
        "grad_norm_base_model_model_model_layers_1_mlp__roj_lora_a_default_weight_of_the_second_adapter|2.0\n"
        "grad_norm_base_model_model_model_layers_1_mlp_gate_proj_lora_a_default_weight|1.0\n"
        "test_deep_er|1.0\ntest_f1|0.75\nthroughput|5.0\ntrain_loss|2.0");
    assert_non_null(strstr(made.names, "a_b_2 is a/b, best_2 is best, eval_loss is eval/loss, grad_norm_"));
    assert_non_null(strstr(made.names, " and 3 more"));
    free(measures);
    expect_imported("names-events", log, "select text from events where text like 'train%'",
                    "train_loss is the metric train/loss of the log");
}

/* Also those of measures with long names. */
TEST_CASE(a_chart_can_show_every_metric_of_a_log)
{
    char home[PATH_MAX];
    const char *log = LOGS "names.wandb";
    struct import_outcome made;
    struct arena arena = {0};
    struct quantity *all;
    struct err err = {0};
    size_t count, longest = 0;
    store_fixture_home("charts", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (import_files(store, &log, 1, NULL, &made, &err)) fail_msg("%s", err.text);
    if (quantity_list(store, made.id, &arena, &all, &count, &err)) fail_msg("%s", err.text);
    assert_int_equal(count, 2 + 15); /* two losses and the measures */
    for (size_t i = 0; i < count; i++)
        if (strlen(all[i].name) > longest) longest = strlen(all[i].name);
    assert_int_equal(longest, 94);
    arena_release(&arena);
    store_close(store);
}

/* A setting is replaced whole, as wandb does it. */
TEST_CASE(a_configuration_is_that_of_the_last_update)
{
    struct import_outcome made;
    char *params = imported_text("update", LOGS "names.wandb",
                                 "select name, substr(value, 1, 30) from params order by name", &made);
    assert_string_equal(params, "wandb.list|[0.30000000000000004,0.1]\nwandb.model.q|5\n"
                                "wandb.prompt|pppppppppppppppppppppppppppppp");
    assert_string_equal(made.remark,
                        "1 value of the configuration was cut to 1023 bytes, such as wandb.prompt");
    free(params);
}

/* A message of protobuf, as far as it is written; a field of bytes has fewer than 128. */
struct message {
    unsigned char bytes[200];
    size_t size;
};

static void put_bytes(struct message *m, const void *bytes, size_t size)
{
    assert_true(m->size + size <= sizeof m->bytes);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put_field(struct message *m, int number, const void *bytes, size_t size)
{
    put_bytes(m, (unsigned char[]){(unsigned char)(number << 3 | 2), (unsigned char)size}, 2);
    put_bytes(m, bytes, size);
}

/* A record of TensorBoard: an event of step 1 with a tensor of these dimensions, up to -1, that has one
 * number, 0.5. */
static void put_tensor_event(struct message *file, const char *tag, const int dimensions[3])
{
    struct message shape = {0}, tensor = {.bytes = {8, 1}, .size = 2}, value = {0}, summary = {0},
                   event = {.bytes = {[0] = 9, [9] = 16, [10] = 1}, .size = 11};
    unsigned char check[4], length[8] = {0};
    for (int i = 0; dimensions[i] >= 0; i++)
        put_field(&shape, 2, (unsigned char[]){8, (unsigned char)dimensions[i]}, 2);
    put_field(&tensor, 2, shape.bytes, shape.size);
    put_bytes(&tensor, "\x2D\0\0\0\x3F", 5);
    put_field(&value, 1, tag, strlen(tag));
    put_field(&value, 8, tensor.bytes, tensor.size);
    put_field(&summary, 1, value.bytes, value.size);
    put_field(&event, 5, summary.bytes, summary.size);
    length[0] = (unsigned char)event.size;
    put_bytes(file, length, sizeof length);
    exchange_put_crc(check, length, sizeof length);
    put_bytes(file, check, sizeof check);
    put_bytes(file, event.bytes, event.size);
    exchange_put_crc(check, event.bytes, event.size);
    put_bytes(file, check, sizeof check);
}

TEST_CASE(a_tensor_is_a_number_if_each_dimension_is_1)
{
    static const struct {
        const char *tag;
        int dimensions[3];
        bool number;
    } cases[] = {{"none", {-1}, true},         {"one", {1, -1}, true},  {"ones", {1, 1, -1}, true},
                 {"empty", {0, -1}, false},    {"two", {2, -1}, false}, {"row", {1, 2, -1}, false},
                 {"column", {3, 1, -1}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char home[PATH_MAX];
        struct message file = {0};
        struct import_outcome made;
        struct err err = {0};
        put_tensor_event(&file, "always", (int[3]){-1});
        put_tensor_event(&file, cases[i].tag, cases[i].dimensions);
        store_fixture_home(cases[i].tag, home, sizeof home);
        struct store *store = store_fixture_open(home);
        assert_int_equal(exchange_import(store, "events.out.tfevents.1", file.bytes, file.size, &made, &err),
                         STATUS_OK);
        store_close(store);
        assert_true(store_fixture_number(home, "select count(*) from measures where value = 0.5") ==
                    1 + cases[i].number);
    }
}

TEST_MAIN()
