/* Checkpoints: what comes back is what was saved, to the bit; what is damaged or half-written is never
 * offered; what fails leaves everything older as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/checkpoint.h"
#include "core/hugging_face.h"
#include "tests/core/rig.h"

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "config.json",
                                    "tokenizer.json",    "tokenizer_config.json", "trainer.json",
                                    "checksums"};
enum { FILES = sizeof files / sizeof *files };

static struct train_state make_state(int64_t step)
{
    return (struct train_state){
        .step = step,
        .cursor = 123456789012345,
        .tokens = 987654321098765,
        .lr_factor = 0.1 + 0.2,
        .skipped_in_a_row = 7,
        .stopping = {.min_delta = 1e-4 / 3, .patience = 5, .best = 2.0 / 3, .best_step = 40, .used = 2}};
}

/* An empty folder of this name below the scratch folder, yours to free. */
static char *fresh_folder(const char *name)
{
    char *path = rig_path(name);
    assert_int_equal(file_remove_tree(path, NULL), STATUS_OK);
    assert_int_equal(file_make_folders(path, NULL), STATUS_OK);
    return path;
}

static void open_trained(struct rig *rig, const struct model_config *config, int moments, uint64_t seed)
{
    rig_open(rig, NULL, config, 2, 8, moments);
    rig_weights(&rig->model, seed, rig->network.weights);
    for (int i = 0; i < moments; i++) {
        size_t offset = i ? rig->plan.moment2 : rig->plan.moment1;
        rig_weights(&rig->model, seed + 100 + (uint64_t)i,
                    (float *)(rig->network.memory[PLAN_MOMENTS] + offset));
    }
}

/* Straight from the rig's network. */
static enum status save_as(const char *parent, struct rig *rig, const struct train_state *state,
                           const struct tokenizer *tokenizer, int64_t *bytes, struct err *err)
{
    struct checkpoint_source source = checkpoint_of_network(&rig->network, true);
    return checkpoint_save(parent, &source, state, tokenizer, bytes, err);
}

static void save(const char *parent, struct rig *rig, int64_t step)
{
    struct err err = {0};
    struct train_state state = make_state(step);
    struct tokenizer *tokenizer;
    int64_t bytes;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    if (save_as(parent, rig, &state, tokenizer, &bytes, &err)) fail_msg("%s", err.text);
    tokenizer_close(tokenizer);
}

/* The step of what checkpoint_find offers; -1 for nothing. */
static int64_t offered(const char *parent, int64_t step)
{
    char path[4096];
    struct err err = {0};
    if (checkpoint_find(parent, step, path, sizeof path, &err)) {
        assert_true(err.text[0]);
        return -1;
    }
    return strtoll(strrchr(path, '-') + 1, NULL, 10);
}

static void expect_equal_memory(const struct rig *a, const struct rig *b)
{
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (i == PLAN_WEIGHTS || i == PLAN_MOMENTS)
            assert_memory_equal(a->network.memory[i], b->network.memory[i], a->plan.category_bytes[i]);
}

static void expect_equal_state(const struct train_state *a, const struct train_state *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->cursor, b->cursor);
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->skipped_in_a_row, b->skipped_in_a_row);
    assert_memory_equal(&a->lr_factor, &b->lr_factor, sizeof(double));
    assert_memory_equal(&a->stopping.best, &b->stopping.best, sizeof(double));
    assert_memory_equal(&a->stopping.min_delta, &b->stopping.min_delta, sizeof(double));
    assert_int_equal(a->stopping.best_step, b->stopping.best_step);
    assert_int_equal(a->stopping.used, b->stopping.used);
    assert_int_equal(a->stopping.patience, b->stopping.patience);
}

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

static char *in_folder(const char *parent, const char *step, const char *name)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s%s%s", parent, step, *name ? "/" : "", name) > 0);
    return path;
}

static void expect_same_after_load(const struct model_config *config, int moments, double best)
{
    struct rig saved, loaded;
    struct train_state state = make_state(41), back = {0};
    struct err err = {0};
    char path[4096], *parent = fresh_folder("round-trip");
    int64_t bytes;
    state.stopping.best = best;
    open_trained(&saved, config, moments, 5);
    rig_open(&loaded, NULL, config, 1, 3, moments); /* another batch shape is no obstacle */
    if (save_as(parent, &saved, &state, NULL, &bytes, &err)) fail_msg("%s", err.text);
    if (checkpoint_find(parent, -1, path, sizeof path, &err)) fail_msg("%s", err.text);
    if (checkpoint_load(path, &loaded.network, &back, &err)) fail_msg("%s", err.text);
    expect_equal_memory(&saved, &loaded);
    expect_equal_state(&state, &back);
    rig_weights(&loaded.model, 99, loaded.network.weights);
    if (checkpoint_load_weights(path, &loaded.network, &err)) fail_msg("%s", err.text);
    expect_equal_memory(&saved, &loaded);
    rig_close(&saved);
    rig_close(&loaded);
    free(parent);
}

static void everything_comes_back_bit_for_bit(void **state)
{
    (void)state;
    for (int bits = 0; bits < 8; bits++) {
        struct model_config config = rig_config();
        config.qk_norm = bits & 1;
        config.qkv_bias = bits & 2;
        config.tie_weights = bits & 4;
        expect_same_after_load(&config, 1 + bits % 2, 0.1 * bits);
    }
}

static void a_best_loss_that_is_not_there_yet_comes_back_as_infinity(void **state)
{
    (void)state;
    struct model_config config = rig_config();
    expect_same_after_load(&config, 2, INFINITY);
}

static void the_size_is_that_of_the_files(void **state)
{
    (void)state;
    struct rig rig;
    struct model_config config = rig_config();
    struct train_state train = make_state(1);
    struct tokenizer *tokenizer;
    struct err err = {0};
    int64_t bytes, sum = 0;
    char *parent = fresh_folder("size");
    open_trained(&rig, &config, 2, 5);
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    assert_int_equal(save_as(parent, &rig, &train, tokenizer, &bytes, &err), STATUS_OK);
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        char *path = in_folder(parent, "step-1", files[i]);
        if (stat(path, &st) != 0) fail_msg("%s is missing", path);
        if (strcmp(files[i], "checksums") != 0) sum += st.st_size;
        free(path);
    }
    assert_int_equal(sum, bytes);
    tokenizer_close(tokenizer);
    rig_close(&rig);
    free(parent);
}

static void the_newest_is_offered_and_older_ones_by_number(void **state)
{
    (void)state;
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = fresh_folder("several"), path[8];
    struct err err = {0};
    open_trained(&rig, &config, 2, 5);
    assert_int_equal(offered(parent, -1), -1);
    assert_int_equal(offered("no/such/folder", -1), -1);
    save(parent, &rig, 9);
    save(parent, &rig, 100);
    save(parent, &rig, 20);
    assert_int_equal(offered(parent, -1), 100);
    assert_int_equal(offered(parent, 9), 9);
    assert_int_equal(offered(parent, 10), -1);
    assert_int_equal(checkpoint_find(parent, 10, path, sizeof path, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no checkpoint of step 10"));
    assert_int_not_equal(checkpoint_find(parent, 9, path, sizeof path, &err), STATUS_OK); /* no room for it */
    rig_close(&rig);
    free(parent);
}

enum damage { FLIP_FIRST, FLIP_MIDDLE, TRUNCATE, APPEND, REMOVE, DAMAGES };

static void damage_file(const char *path, enum damage damage)
{
    struct file_map map;
    assert_int_equal(file_map_open(path, &map, NULL), STATUS_OK);
    size_t n = map.size;
    unsigned char *bytes = malloc(n + 1);
    memcpy(bytes, map.data, n);
    file_map_close(&map);
    assert_int_equal(unlink(path), 0);
    bytes[n] = 0;
    if (damage == FLIP_FIRST) bytes[0] ^= 1;
    if (damage == FLIP_MIDDLE) bytes[n / 2] ^= 0x10;
    if (damage != REMOVE) rig_write(path, bytes, damage == TRUNCATE ? n - 2 : damage == APPEND ? n + 1 : n);
    free(bytes);
}

static void a_damaged_one_is_passed_over_for_an_older_one(void **state)
{
    (void)state;
    struct rig rig;
    struct model_config config = rig_config();
    struct err err;
    char path[4096], *parent = fresh_folder("damaged");
    open_trained(&rig, &config, 2, 5);
    save(parent, &rig, 1);
    for (int i = 0; i < FILES; i++)
        for (int d = 0; d < DAMAGES; d++) {
            save(parent, &rig, 2);
            assert_int_equal(offered(parent, -1), 2);
            char *file = in_folder(parent, "step-2", files[i]);
            damage_file(file, (enum damage)d);
            /* one byte behind a list of checksums changes nothing that it says */
            if (strcmp(files[i], "checksums") == 0 && d == APPEND) {
                free(file);
                continue;
            }
            if (offered(parent, -1) != 1) fail_msg("%s with damage %d is offered", files[i], d);
            assert_int_not_equal(checkpoint_find(parent, 2, path, sizeof path, &err), STATUS_OK);
            assert_non_null(strstr(err.text, "step-2"));
            free(file);
        }
    rig_close(&rig);
    free(parent);
}

static void write_text(const char *parent, const char *step, const char *name, const char *text)
{
    char *path = in_folder(parent, step, name);
    rig_write(path, text, strlen(text));
    free(path);
}

static void make_folder(const char *parent, const char *name)
{
    char *path = in_folder(parent, name, "");
    assert_int_equal(mkdir(path, 0777), 0);
    free(path);
}

static void incomplete_folders_and_other_names_are_never_offered(void **state)
{
    (void)state;
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = fresh_folder("incomplete"), *from, *to;
    open_trained(&rig, &config, 2, 5);
    save(parent, &rig, 1);
    save(parent, &rig, 3);
    static const char *const names[] = {
        "step-4x",  "step-",    "step--4", "step- 4", "stepp-4",
        "step-4.1", "xstep-99", "Step-9",  "step-+4", "step-99999999999999999999999"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) { /* good ones, under names that are not ours */
        from = in_folder(parent, "step-3", "");
        to = in_folder(parent, names[i], "");
        assert_int_equal(rename(from, to), 0);
        free(from);
        free(to);
        if (offered(parent, -1) != 1) fail_msg("%s is offered", names[i]);
        save(parent, &rig, 3);
    }
    make_folder(parent, "step-10"); /* empty */
    write_text(parent, "step-11", "", "a file");
    make_folder(parent, "step-12");
    write_text(parent, "step-12", "checksums", "");
    make_folder(parent, ".step-13.tmp-1");
    assert_int_equal(offered(parent, -1), 3);
    rig_close(&rig);
    free(parent);
}

static void a_list_of_checksums_that_is_not_ours_is_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "",
        "nonsense",
        "0123456789abcdef  ../../../../etc/passwd\n",
        "0123456789abcdef  checksums\n",
        "0123456789abcdef  a.name.that.is.longer.than.any.of.ours.and.than.the.buffer.too\n",
        "0123456789abcdef\n",
        "0123456789abcdef0123456789abcdef  config.json\n",
        "-1  config.json\n"};
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = fresh_folder("lists"), *large;
    open_trained(&rig, &config, 2, 5);
    save(parent, &rig, 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        write_text(parent, "step-1", "checksums", lists[i]);
        if (offered(parent, -1) != -1) fail_msg("accepted: %s", lists[i]);
    }
    large = malloc(1 << 20);
    memset(large, 'a', (1 << 20) - 1);
    large[(1 << 20) - 1] = '\0';
    write_text(parent, "step-1", "checksums", large);
    assert_int_equal(offered(parent, -1), -1);
    free(large);
    rig_close(&rig);
    free(parent);
}

static void saving_the_same_step_again_replaces_it_whole(void **state)
{
    (void)state;
    struct rig first, second, loaded;
    struct model_config config = rig_config();
    struct train_state back;
    char *parent = fresh_folder("again"), *path = in_folder(parent, "step-7", "");
    open_trained(&first, &config, 2, 5);
    open_trained(&second, &config, 2, 6);
    rig_open(&loaded, NULL, &config, 1, 1, 2);
    save(parent, &first, 7);
    save(parent, &second, 7);
    assert_int_equal(checkpoint_load(path, &loaded.network, &back, NULL), STATUS_OK);
    expect_equal_memory(&second, &loaded);
    assert_int_equal(count_entries(parent), 1);
    rig_close(&first);
    rig_close(&second);
    rig_close(&loaded);
    free(path);
    free(parent);
}

static void pruning_keeps_the_newest_and_clears_what_a_killed_trainer_left(void **state)
{
    (void)state;
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = fresh_folder("prune");
    open_trained(&rig, &config, 2, 5);
    for (int64_t step = 8; step <= 12; step++) save(parent, &rig, step);
    make_folder(parent, ".step-13.tmp-4242");
    write_text(parent, ".step-13.tmp-4242", "model.safetensors", "half");
    write_text(parent, "notes.txt", "", "mine");
    checkpoint_prune(parent, 2, -1);
    assert_int_equal(count_entries(parent), 3);
    assert_int_equal(offered(parent, -1), 12);
    assert_int_equal(offered(parent, 11), 11);
    assert_int_equal(offered(parent, 10), -1);
    char *notes = in_folder(parent, "notes.txt", "");
    assert_true(file_exists(notes));
    checkpoint_prune(parent, 5, -1);
    assert_int_equal(count_entries(parent), 3);
    checkpoint_prune("no/such/folder", 5, -1);
    free(notes);
    rig_close(&rig);
    free(parent);
}

/* Loads a checkpoint of `saved` into a network of `other`; the sentence must name `part`. */
static void expect_other_model_refused(const struct model_config *saved, int saved_moments,
                                       const struct model_config *other, int moments, const char *part)
{
    struct rig a, b;
    struct train_state back;
    struct err err = {0};
    char *parent = fresh_folder("other"), *path = in_folder(parent, "step-1", "");
    open_trained(&a, saved, saved_moments, 5);
    rig_open(&b, NULL, other, 1, 1, moments);
    save(parent, &a, 1);
    assert_int_equal(checkpoint_load(path, &b.network, &back, &err), STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_non_null(strstr(err.text, path));
    rig_close(&a);
    rig_close(&b);
    free(path);
    free(parent);
}

static void a_model_that_differs_is_refused_naming_the_field(void **state)
{
    (void)state;
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
    expect_other_model_refused(&config, 1, &config, 2,
                               "optimizer.safetensors: has no tensor v.model.embed_tokens.weight");
}

static void tensors_that_do_not_fit_their_description_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const parts[] = {"has a tensor lm_head.weight, which this model does not have",
                                        "has no tensor model.layers.0.self_attn.q_norm.weight",
                                        "model.embed_tokens.weight is (13, 10), this model needs (14, 10)"};
    for (int i = 0; i < 3; i++) { /* the description is that of another model */
        struct model_config config = rig_config(), other = config;
        struct rig a, b;
        struct err err = {0};
        char *parent = fresh_folder("mixed"), *path = in_folder(parent, "step-1", ""),
             *description = in_folder(parent, "step-1", "config.json");
        other.tie_weights = i == 0;
        other.qk_norm = i == 1;
        other.vocab_size += i == 2;
        open_trained(&a, &config, 2, 5);
        open_trained(&b, &other, 2, 6);
        save(parent, &a, 1);
        assert_int_equal(hugging_face_write_config(&other, description, &err), STATUS_OK);
        assert_int_equal(checkpoint_load_weights(path, &b.network, &err), STATUS_USAGE);
        if (!strstr(err.text, parts[i])) fail_msg("\"%s\" does not say \"%s\"", err.text, parts[i]);
        rig_close(&a);
        rig_close(&b);
        free(description);
        free(path);
        free(parent);
    }
}

/* What 16 bits mean, worked out the long way. */
static float value_of(uint16_t bits, bool bf16)
{
    int exponent = bf16 ? bits >> 7 & 255 : bits >> 10 & 31, digits = bf16 ? 7 : 10, bias = bf16 ? 127 : 15;
    int fraction = bits & ((1 << digits) - 1);
    double value =
        exponent ? ldexp(1 + ldexp(fraction, -digits), exponent - bias) : ldexp(fraction, 1 - bias - digits);
    return (float)(bits & 0x8000 ? -value : value);
}

static enum status fetch_host(void *context, void *host, const void *data, size_t bytes, struct err *err)
{
    (void)context;
    (void)err;
    memcpy(host, data, bytes);
    return STATUS_OK;
}

/* Every tensor of the model as two bytes an element, in the place of model.safetensors. */
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
                                         p->count * sizeof *halves};
    }
    if (safetensors_write(path, tensors, model->param_count, fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    free(tensors);
    return halves;
}

static void weights_of_two_bytes_are_read_exactly(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"BF16", "F16"};
    struct model_config config = rig_config();
    config.vocab_size = 60000; /* more than a piece of the staging memory */
    for (int d = 0; d < 2; d++) {
        struct rig rig;
        struct err err = {0};
        char *parent = fresh_folder("short"), *folder = in_folder(parent, "step-1", ""),
             *weights = in_folder(parent, "step-1", "model.safetensors");
        open_trained(&rig, &config, 1, 5);
        save(parent, &rig, 1);
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

static void a_trainer_state_that_is_incomplete_or_wrong_is_refused(void **state)
{
    (void)state;
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
    char *parent = fresh_folder("state"), *path = in_folder(parent, "step-1", "");
    open_trained(&rig, &config, 2, 5);
    save(parent, &rig, 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct train_state back = make_state(77), before = back;
        write_text(parent, "step-1", "trainer.json", texts[i]);
        if (checkpoint_load(path, &rig.network, &back, &err) != STATUS_CORRUPT)
            fail_msg("accepted: %s", texts[i]);
        assert_non_null(strstr(err.text, "trainer.json"));
        expect_equal_state(&back, &before);
    }
    rig_close(&rig);
    free(path);
    free(parent);
}

static void a_full_disk_leaves_older_ones_untouched_and_nothing_half_written(void **state)
{
    (void)state;
    struct rig old, new, loaded;
    struct model_config config = rig_config();
    struct train_state train = make_state(2), back;
    struct rlimit before, small;
    struct tokenizer *tokenizer;
    struct err err;
    int64_t bytes;
    int refused = 0;
    char *parent = fresh_folder("full"), *path = in_folder(parent, "step-2", "");
    open_trained(&old, &config, 2, 5);
    open_trained(&new, &config, 2, 6);
    rig_open(&loaded, NULL, &config, 1, 1, 2);
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    save(parent, &old, 1);
    save(parent, &old, 2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0;; limit = limit ? limit * 3 / 2 + 1 : 1) {
        small = before;
        small.rlim_cur = limit;
        train.step = limit % 2 ? 2 : 3; /* a new step, and one that is there already */
        err = (struct err){0};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        enum status status = save_as(parent, &new, &train, tokenizer, &bytes, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (!status) break;
        refused++;
        assert_int_equal(status, STATUS_IO);
        assert_non_null(strstr(err.text, "File too large"));
        assert_non_null(strstr(err.text, "checkpoint at step"));
        assert_int_equal(count_entries(parent), 2);
        assert_int_equal(offered(parent, -1), 2);
        assert_int_equal(checkpoint_load(path, &loaded.network, &back, &err), STATUS_OK);
        expect_equal_memory(&old, &loaded);
    }
    assert_true(refused > 10); /* each file was once the one that did not fit */
    signal(SIGXFSZ, SIG_DFL);
    tokenizer_close(tokenizer);
    rig_close(&old);
    rig_close(&new);
    rig_close(&loaded);
    free(path);
    free(parent);
}

static void a_parent_that_is_a_file_is_an_error(void **state)
{
    (void)state;
    struct rig rig;
    struct model_config config = rig_config();
    struct train_state train = make_state(2);
    struct err err = {0};
    int64_t bytes;
    char *parent = rig_path("just-a-file");
    rig_write(parent, "x", 1);
    open_trained(&rig, &config, 2, 5);
    assert_int_not_equal(save_as(parent, &rig, &train, NULL, &bytes, &err), STATUS_OK);
    assert_non_null(strstr(err.text, "just-a-file"));
    rig_close(&rig);
    free(parent);
}

static void expect_text(json_t *json, const char *key, const char *want)
{
    const char *got = json_string_value(json_object_get(json, key));
    if (!got || strcmp(got, want) != 0) fail_msg("%s is %s, expected %s", key, got ? got : "missing", want);
}

static void config_json_tells_hugging_face_the_architecture(void **state)
{
    (void)state;
    static const char *const types[] = {"llama", "qwen3", "qwen2"};
    static const char *const classes[] = {"LlamaForCausalLM", "Qwen3ForCausalLM", "Qwen2ForCausalLM"};
    char *parent = fresh_folder("config"), *path = in_folder(parent, "step-1", "config.json");
    for (int i = 0; i < 3; i++) {
        struct rig rig;
        struct model_config config = rig_config();
        config.qk_norm = i == 1;
        config.qkv_bias = i == 2;
        config.norm_eps = 1.0 / 3;
        open_trained(&rig, &config, 2, 5);
        save(parent, &rig, 1);
        json_t *json = json_load_file(path, 0, NULL);
        assert_non_null(json);
        expect_text(json, "model_type", types[i]);
        assert_string_equal(json_string_value(json_array_get(json_object_get(json, "architectures"), 0)),
                            classes[i]);
        assert_int_equal(json_integer_value(json_object_get(json, "hidden_size")), 10);
        assert_int_equal(json_integer_value(json_object_get(json, "num_key_value_heads")), 2);
        assert_int_equal(json_integer_value(json_object_get(json, "head_dim")), 4);
        assert_true(json_real_value(json_object_get(json, "rms_norm_eps")) == 1.0 / 3);
        assert_true(json_is_false(json_object_get(json, "tie_word_embeddings")));
        assert_true(json_is_null(json_object_get(json, "eos_token_id"))); /* or a text would end at id 2 */
        json_decref(json);
        rig_close(&rig);
    }
    free(path);
    free(parent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back_bit_for_bit),
        cmocka_unit_test(a_best_loss_that_is_not_there_yet_comes_back_as_infinity),
        cmocka_unit_test(the_size_is_that_of_the_files),
        cmocka_unit_test(the_newest_is_offered_and_older_ones_by_number),
        cmocka_unit_test(a_damaged_one_is_passed_over_for_an_older_one),
        cmocka_unit_test(incomplete_folders_and_other_names_are_never_offered),
        cmocka_unit_test(a_list_of_checksums_that_is_not_ours_is_refused),
        cmocka_unit_test(saving_the_same_step_again_replaces_it_whole),
        cmocka_unit_test(pruning_keeps_the_newest_and_clears_what_a_killed_trainer_left),
        cmocka_unit_test(a_model_that_differs_is_refused_naming_the_field),
        cmocka_unit_test(tensors_that_do_not_fit_their_description_are_refused_by_name),
        cmocka_unit_test(weights_of_two_bytes_are_read_exactly),
        cmocka_unit_test(a_trainer_state_that_is_incomplete_or_wrong_is_refused),
        cmocka_unit_test(a_full_disk_leaves_older_ones_untouched_and_nothing_half_written),
        cmocka_unit_test(a_parent_that_is_a_file_is_an_error),
        cmocka_unit_test(config_json_tells_hugging_face_the_architecture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
