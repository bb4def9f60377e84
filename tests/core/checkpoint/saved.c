/* See saved.h. */
#include "tests/core/checkpoint/saved.h"
#include "tests/cmocka.h"

#include "core/base/file.h"

struct train_state saved_state(int64_t step)
{
    struct train_state state = {
        .step = step,
        .cursor = 123456789012345,
        .tokens = 987654321098765,
        .lr_factor = 0.1 + 0.2,
        .lr_cut = 0.1 * 0.1,
        .rollbacks = 2,
        .trouble = 71,
        .skipped_in_a_row = 7,
        .best_saved = 30,
        .stopping = {.min_delta = 1e-4 / 3,
                     .patience = 5,
                     .best = 2.0 / 3,
                     .best_step = 40,
                     .reference = 0.7,
                     .used = 2},
        .level = {.count = step, .spike_steps = 3, .calm_steps = 1, .limit = 7.0 / 3, .previous_limit = 0.7}};
    for (int64_t i = 0; i < step; i++) state.level.losses[i % HEALTH_WINDOW] = 1.0 / (double)(i + 3);
    return state;
}

char *saved_folder(const char *name)
{
    char *path = rig_path(name);
    assert_int_equal(file_remove_tree(path, NULL), STATUS_OK);
    assert_int_equal(file_make_folders(path, NULL), STATUS_OK);
    return path;
}

void saved_open(struct rig *rig, const struct model_config *config, int moments, uint64_t seed)
{
    rig_open(rig, NULL, config, 2, 8, moments);
    rig_weights(&rig->model, seed, rig->network.weights);
    for (int i = 0; i < moments; i++) {
        float *moment = network_at(&rig->network, i ? BUFFER_MOMENT2 : BUFFER_MOMENT1, 0);
        rig_weights(&rig->model, seed + 100 + (uint64_t)i, moment);
    }
}

enum status saved_write_state(const char *parent, struct rig *rig, const struct train_state *state,
                              const struct tokenizer *tokenizer, int64_t *bytes, struct err *err)
{
    struct checkpoint_source source = checkpoint_of_network(&rig->network, true);
    return checkpoint_save(parent, &source, state, tokenizer, NULL, bytes, err);
}

void saved_write(const char *parent, struct rig *rig, int64_t step)
{
    struct err err = {0};
    struct train_state state = saved_state(step);
    struct tokenizer *tokenizer;
    int64_t bytes;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    if (saved_write_state(parent, rig, &state, tokenizer, &bytes, &err)) fail_msg("%s", err.text);
    tokenizer_close(tokenizer);
}

int64_t saved_offered(const char *parent, int64_t step)
{
    char path[4096];
    struct err err = {0};
    if (checkpoint_find(parent, step, path, sizeof path, &err)) {
        assert_true(err.text[0]);
        return -1;
    }
    return strtoll(strrchr(path, '-') + 1, NULL, 10);
}

void saved_expect_equal_memory(const struct rig *a, const struct rig *b)
{
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (i == PLAN_WEIGHTS || i == PLAN_MOMENTS)
            assert_memory_equal(a->network.memory[i], b->network.memory[i], a->plan.category_bytes[i]);
}

/* A ring may begin elsewhere. */
static void expect_equal_level(const struct loss_level *a, const struct loss_level *b)
{
    int64_t n = a->count < HEALTH_WINDOW ? a->count : HEALTH_WINDOW;
    assert_true(b->count >= n && (n == HEALTH_WINDOW || b->count == n));
    for (int64_t i = 1; i <= n; i++)
        assert_memory_equal(&a->losses[(a->count - i) % HEALTH_WINDOW],
                            &b->losses[(b->count - i) % HEALTH_WINDOW], sizeof(double));
    assert_int_equal(a->spike_steps, b->spike_steps);
    assert_int_equal(a->calm_steps, b->calm_steps);
    assert_memory_equal(&a->limit, &b->limit, sizeof(double));
    assert_memory_equal(&a->previous_limit, &b->previous_limit, sizeof(double));
}

void saved_expect_equal_state(const struct train_state *a, const struct train_state *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->cursor, b->cursor);
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->skipped_in_a_row, b->skipped_in_a_row);
    assert_memory_equal(&a->lr_factor, &b->lr_factor, sizeof(double));
    assert_memory_equal(&a->lr_cut, &b->lr_cut, sizeof(double));
    assert_int_equal(a->rollbacks, b->rollbacks);
    assert_int_equal(a->trouble, b->trouble);
    expect_equal_level(&a->level, &b->level);
    assert_memory_equal(&a->stopping.best, &b->stopping.best, sizeof(double));
    assert_memory_equal(&a->stopping.reference, &b->stopping.reference, sizeof(double));
    assert_memory_equal(&a->stopping.min_delta, &b->stopping.min_delta, sizeof(double));
    assert_int_equal(a->stopping.best_step, b->stopping.best_step);
    assert_int_equal(a->best_saved, b->best_saved);
    assert_int_equal(a->stopping.used, b->stopping.used);
    assert_int_equal(a->stopping.patience, b->stopping.patience);
}

char *saved_path(const char *parent, const char *step, const char *name)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s%s%s", parent, step, *name ? "/" : "", name) > 0);
    return path;
}

void saved_write_text(const char *parent, const char *step, const char *name, const char *text)
{
    char *path = saved_path(parent, step, name);
    rig_write(path, text, strlen(text));
    free(path);
}
