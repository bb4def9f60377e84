/* Checkpoints: a loaded checkpoint equals the saved one, to the bit; a damaged or incomplete one is never
 * found; a failed save leaves older ones unchanged. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"
#include "tests/core/network/rig.h"

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "config.json",
                                    "tokenizer.json",    "tokenizer_config.json", "trainer.json",
                                    "checksums"};
enum { FILES = sizeof files / sizeof *files };

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

TEST_CASE(the_size_is_that_of_the_files)
{
    struct rig rig;
    struct model_config config = rig_config();
    struct train_state train = saved_state(1);
    struct tokenizer *tokenizer;
    struct err err = {0};
    int64_t bytes, sum = 0;
    char *parent = saved_folder("size");
    saved_open(&rig, &config, 2, 5);
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    assert_int_equal(saved_write_state(parent, &rig, &train, tokenizer, &bytes, &err), STATUS_OK);
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        char *path = saved_path(parent, "step-1", files[i]);
        if (stat(path, &st) != 0) fail_msg("%s is missing", path);
        if (strcmp(files[i], "checksums") != 0) sum += st.st_size;
        free(path);
    }
    assert_int_equal(sum, bytes);
    tokenizer_close(tokenizer);
    rig_close(&rig);
    free(parent);
}

TEST_CASE(the_newest_is_offered_and_older_ones_by_number)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("several"), path[8];
    struct err err = {0};
    saved_open(&rig, &config, 2, 5);
    assert_int_equal(saved_offered(parent, -1), -1);
    assert_int_equal(saved_offered("no/such/folder", -1), -1);
    saved_write(parent, &rig, 9);
    saved_write(parent, &rig, 100);
    saved_write(parent, &rig, 20);
    assert_int_equal(saved_offered(parent, -1), 100);
    assert_int_equal(saved_offered(parent, 9), 9);
    assert_int_equal(saved_offered(parent, 10), -1);
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

TEST_CASE(a_damaged_one_is_passed_over_for_an_older_one)
{
    struct rig rig;
    struct model_config config = rig_config();
    struct err err;
    char path[4096], *parent = saved_folder("damaged");
    saved_open(&rig, &config, 2, 5);
    saved_write(parent, &rig, 1);
    for (int i = 0; i < FILES; i++)
        for (int d = 0; d < DAMAGES; d++) {
            saved_write(parent, &rig, 2);
            assert_int_equal(saved_offered(parent, -1), 2);
            char *file = saved_path(parent, "step-2", files[i]);
            damage_file(file, (enum damage)d);
            /* an extra byte after a list of checksums does not change its entries */
            if (strcmp(files[i], "checksums") == 0 && d == APPEND) {
                free(file);
                continue;
            }
            if (saved_offered(parent, -1) != 1) fail_msg("%s with damage %d is offered", files[i], d);
            assert_int_not_equal(checkpoint_find(parent, 2, path, sizeof path, &err), STATUS_OK);
            assert_non_null(strstr(err.text, "step-2"));
            assert_true(checkpoint_looks_damaged(path));
            free(file);
        }
    char *older = saved_path(parent, "step-1", "model.safetensors");
    snprintf(path, sizeof path, "%s/step-1", parent);
    assert_false(checkpoint_looks_damaged(path));
    damage_file(older, (enum damage)0);
    assert_int_not_equal(checkpoint_find(parent, -1, path, sizeof path, &err), STATUS_OK);
    assert_non_null(strstr(err.text, "step-2")); /* of all that are damaged, the newest */
    free(older);
    snprintf(path, sizeof path, "%s/step-3", parent);
    assert_false(checkpoint_looks_damaged(path)); /* it is not there */
    rig_close(&rig);
    free(parent);
}

static void make_folder(const char *parent, const char *name)
{
    char *path = saved_path(parent, name, "");
    assert_int_equal(mkdir(path, 0777), 0);
    free(path);
}

TEST_CASE(incomplete_folders_and_other_names_are_never_offered)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("incomplete"), *from, *to;
    saved_open(&rig, &config, 2, 5);
    saved_write(parent, &rig, 1);
    saved_write(parent, &rig, 3);
    static const char *const names[] = {
        "step-4x",  "step-",    "step--4", "step- 4", "stepp-4",
        "step-4.1", "xstep-99", "Step-9",  "step-+4", "step-99999999999999999999999"};
    for (size_t i = 0; i < sizeof names / sizeof *names;
         i++) { /* good ones, under names that no checkpoint has */
        from = saved_path(parent, "step-3", "");
        to = saved_path(parent, names[i], "");
        assert_int_equal(rename(from, to), 0);
        free(from);
        free(to);
        if (saved_offered(parent, -1) != 1) fail_msg("%s is offered", names[i]);
        saved_write(parent, &rig, 3);
    }
    make_folder(parent, "step-10"); /* empty */
    saved_write_text(parent, "step-11", "", "a file");
    make_folder(parent, "step-12");
    saved_write_text(parent, "step-12", "checksums", "");
    make_folder(parent, ".step-13.tmp-1");
    assert_int_equal(saved_offered(parent, -1), 3);
    rig_close(&rig);
    free(parent);
}

TEST_CASE(a_list_of_checksums_that_is_not_ours_is_refused)
{
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
    struct err err = {0};
    struct model_config config = rig_config();
    char *parent = saved_folder("lists"), *large, path[4096];
    saved_open(&rig, &config, 2, 5);
    saved_write(parent, &rig, 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        saved_write_text(parent, "step-1", "checksums", lists[i]);
        if (saved_offered(parent, -1) != -1) fail_msg("accepted: %s", lists[i]);
    }
    snprintf(path, sizeof path, "%s/step-1", parent);
    saved_write_text(parent, "step-1", "checksums", "0123456789abcdef  other.json\n");
    assert_int_equal(checkpoint_verify(path, NULL, &err), STATUS_CORRUPT);
    if (!strstr(err.text, "/step-1: the checkpoint is damaged: an unknown file is listed"))
        fail_msg("%s", err.text);
    large = malloc(1 << 20);
    memset(large, 'a', (1 << 20) - 1);
    large[(1 << 20) - 1] = '\0';
    saved_write_text(parent, "step-1", "checksums", large);
    assert_int_equal(saved_offered(parent, -1), -1);
    free(large);
    rig_close(&rig);
    free(parent);
}

TEST_CASE(saving_the_same_step_again_replaces_it_whole)
{
    struct rig first, second, loaded;
    struct model_config config = rig_config();
    struct train_state back;
    char *parent = saved_folder("again"), *path = saved_path(parent, "step-7", "");
    saved_open(&first, &config, 2, 5);
    saved_open(&second, &config, 2, 6);
    rig_open(&loaded, NULL, &config, 1, 1, 2);
    saved_write(parent, &first, 7);
    saved_write(parent, &second, 7);
    assert_int_equal(checkpoint_load(path, &loaded.network, &back, NULL, NULL), STATUS_OK);
    saved_expect_equal_memory(&second, &loaded);
    assert_int_equal(count_entries(parent), 1);
    rig_close(&first);
    rig_close(&second);
    rig_close(&loaded);
    free(path);
    free(parent);
}

static const struct needed_steps nothing_needed = {0};

TEST_CASE(what_other_runs_need_is_never_removed)
{
    static const int64_t steps[] = {2, 4};
    const struct needed_steps needed = {steps, 2};
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("needed");
    saved_open(&rig, &config, 2, 5);
    for (int64_t step = 1; step <= 6; step++) saved_write(parent, &rig, step);
    checkpoint_prune(parent, 1, 6, -1, needed);
    assert_int_equal(count_entries(parent), 3);
    assert_true(saved_offered(parent, 2) == 2 && saved_offered(parent, 4) == 4);
    assert_int_equal(checkpoint_remove_oldest(parent, -1, needed), -1);
    assert_int_equal(checkpoint_remove_oldest(parent, -1, (struct needed_steps){steps, 1}), 4);
    rig_close(&rig);
    free(parent);
}

/* As in a process that reads a checkpoint while another one trains. */
TEST_CASE(what_somebody_reads_is_removed_only_later)
{
    struct rig rig;
    struct model_config config = rig_config();
    struct checkpoint_hold first, second;
    struct err err = {0};
    char path[PATH_MAX], other[PATH_MAX], *parent = saved_folder("held");
    saved_open(&rig, &config, 2, 5);
    for (int64_t step = 1; step <= 2; step++) saved_write(parent, &rig, step);
    assert_int_equal(checkpoint_find_held(parent, -1, path, sizeof path, &first, &err), STATUS_OK);
    assert_int_equal(checkpoint_find_held(parent, 2, other, sizeof other, &second, &err), STATUS_OK);
    for (int64_t step = 3; step <= 4; step++) saved_write(parent, &rig, step);
    checkpoint_prune(parent, 1, 4, -1, nothing_needed);
    assert_int_equal(count_entries(parent), 2);
    assert_int_equal(checkpoint_hold_end(&second, other, STATUS_OK, &err), STATUS_OK);
    checkpoint_prune(parent, 1, 4, -1, nothing_needed);
    assert_int_equal(saved_offered(parent, 2), 2);
    checkpoint_hold_release(&first);
    checkpoint_prune(parent, 1, 4, -1, nothing_needed);
    assert_int_equal(count_entries(parent), 1);
    assert_false(checkpoint_hold_take(&first, path));
    rig_close(&rig);
    free(parent);
}

/* As where the file system has no locks. */
TEST_CASE(a_failure_says_that_the_checkpoint_was_removed_meanwhile)
{
    struct rig rig;
    struct model_config config = rig_config();
    struct checkpoint_hold hold;
    struct err err = {0};
    char path[PATH_MAX], *parent = saved_folder("replaced");
    saved_open(&rig, &config, 2, 5);
    saved_write(parent, &rig, 1);
    for (int gone = 0; gone < 2; gone++) {
        assert_int_equal(checkpoint_find_held(parent, -1, path, sizeof path, &hold, &err), STATUS_OK);
        if (gone) assert_int_equal(file_remove_whole(path, &err), STATUS_OK);
        enum status status = err_set(&err, STATUS_NOT_FOUND, "config.json: cannot open");
        assert_int_equal(checkpoint_hold_end(&hold, path, status, &err), STATUS_NOT_FOUND);
        assert_string_equal(err.text, gone ? "config.json: cannot open (the trainer of this run has removed "
                                             "this checkpoint meanwhile: try again)"
                                           : "config.json: cannot open");
    }
    rig_close(&rig);
    free(parent);
}

TEST_CASE(pruning_keeps_the_newest_and_clears_what_a_killed_trainer_left)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("prune");
    saved_open(&rig, &config, 2, 5);
    for (int64_t step = 8; step <= 12; step++) saved_write(parent, &rig, step);
    make_folder(parent, ".step-13.tmp-4242");
    saved_write_text(parent, ".step-13.tmp-4242", "model.safetensors", "half");
    saved_write_text(parent, "notes.txt", "", "mine");
    checkpoint_prune(parent, 2, 12, -1, nothing_needed);
    assert_int_equal(count_entries(parent), 3);
    assert_int_equal(saved_offered(parent, -1), 12);
    assert_int_equal(saved_offered(parent, 11), 11);
    assert_int_equal(saved_offered(parent, 10), -1);
    char *notes = saved_path(parent, "notes.txt", "");
    assert_true(file_exists(notes));
    checkpoint_prune(parent, 5, 12, -1, nothing_needed);
    assert_int_equal(count_entries(parent), 3);
    checkpoint_prune("no/such/folder", 5, 12, -1, nothing_needed);
    free(notes);
    rig_close(&rig);
    free(parent);
}

/* A run resumes from the newest complete checkpoint: it sets the damaged ones aside, and prunes after its own
 * next save. */
TEST_CASE(damaged_ones_are_set_aside_and_push_no_good_one_out)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("damaged-newest"), *found = saved_path(parent, "step-20", "");
    saved_open(&rig, &config, 2, 5);
    for (int64_t step = 10; step <= 40; step += 10) saved_write(parent, &rig, step);
    for (int i = 0; i < 2; i++) {
        char *file = saved_path(parent, i ? "step-40" : "step-30", "model.safetensors");
        damage_file(file, FLIP_MIDDLE);
        free(file);
    }
    assert_int_equal(saved_offered(parent, -1), 20);
    assert_int_equal(checkpoint_set_damaged_aside(parent, found), 2);
    assert_int_equal(checkpoint_set_damaged_aside(parent, found), 0);
    saved_write(parent, &rig, 35);
    checkpoint_prune(parent, 2, 35, -1, nothing_needed);
    assert_int_equal(saved_offered(parent, -1), 35);
    assert_int_equal(saved_offered(parent, 20), 20);
    assert_int_equal(count_entries(parent), 4); /* and the two set aside */
    rig_close(&rig);
    free(found);
    free(parent);
}

/* A run resumed from an older checkpoint finds later ones of the previous trainer, which are not its own. */
TEST_CASE(the_one_just_written_stays_whatever_is_newer)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("newer");
    saved_open(&rig, &config, 2, 5);
    for (int64_t step = 1; step <= 6; step++) saved_write(parent, &rig, step);
    checkpoint_prune(parent, 2, 4, 1, nothing_needed);
    assert_int_equal(saved_offered(parent, 4), 4);
    assert_int_equal(saved_offered(parent, 3), 3);
    assert_int_equal(saved_offered(parent, 2), -1);
    assert_int_equal(saved_offered(parent, 1), 1); /* the best */
    assert_int_equal(saved_offered(parent, 6), 6);
    checkpoint_prune(parent, 0, 6, -1, nothing_needed);
    assert_int_equal(saved_offered(parent, -1), 6);
    assert_int_equal(count_entries(parent), 1);
    rig_close(&rig);
    free(parent);
}

TEST_CASE(the_oldest_makes_room_but_neither_the_newest_nor_the_best)
{
    struct rig rig;
    struct model_config config = rig_config();
    char *parent = saved_folder("oldest");
    saved_open(&rig, &config, 2, 5);
    for (int64_t step = 0; step <= 3; step++) saved_write(parent, &rig, step);
    assert_int_equal(checkpoint_remove_oldest(parent, 1, nothing_needed),
                     0); /* of a run stopped before its first step */
    assert_int_equal(checkpoint_remove_oldest(parent, 1, nothing_needed), 2);
    assert_int_equal(checkpoint_remove_oldest(parent, 1, nothing_needed), -1);
    assert_int_equal(saved_offered(parent, 1), 1);
    assert_int_equal(saved_offered(parent, -1), 3);
    rig_close(&rig);
    free(parent);
}

TEST_CASE(a_full_disk_leaves_older_ones_untouched_and_nothing_half_written)
{
    struct rig old, new, loaded;
    struct model_config config = rig_config();
    struct train_state train = saved_state(2), back;
    struct rlimit before, small;
    struct tokenizer *tokenizer;
    struct err err;
    int64_t bytes;
    int refused = 0;
    char *parent = saved_folder("full"), *path = saved_path(parent, "step-2", "");
    saved_open(&old, &config, 2, 5);
    saved_open(&new, &config, 2, 6);
    rig_open(&loaded, NULL, &config, 1, 1, 2);
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    saved_write(parent, &old, 1);
    saved_write(parent, &old, 2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0;; limit = limit ? limit * 3 / 2 + 1 : 1) {
        small = before;
        small.rlim_cur = limit;
        train.step = limit % 2 ? 2 : 3; /* a new step, and one that is there already */
        err = (struct err){0};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        enum status status = saved_write_state(parent, &new, &train, tokenizer, &bytes, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (!status) break;
        refused++;
        assert_int_equal(status, STATUS_IO);
        assert_non_null(strstr(err.text, "File too large"));
        assert_non_null(strstr(err.text, "checkpoint at step"));
        assert_int_equal(count_entries(parent), 2);
        assert_int_equal(saved_offered(parent, -1), 2);
        assert_int_equal(checkpoint_load(path, &loaded.network, &back, NULL, &err), STATUS_OK);
        saved_expect_equal_memory(&old, &loaded);
    }
    assert_true(refused > 10); /* each file was the one that did not fit at least once */
    signal(SIGXFSZ, SIG_DFL);
    tokenizer_close(tokenizer);
    rig_close(&old);
    rig_close(&new);
    rig_close(&loaded);
    free(path);
    free(parent);
}

TEST_CASE(a_parent_that_is_a_file_is_an_error)
{
    struct rig rig;
    struct model_config config = rig_config();
    struct train_state train = saved_state(2);
    struct err err = {0};
    int64_t bytes;
    char *parent = rig_path("just-a-file");
    rig_write(parent, "x", 1);
    saved_open(&rig, &config, 2, 5);
    assert_int_not_equal(saved_write_state(parent, &rig, &train, NULL, &bytes, &err), STATUS_OK);
    assert_non_null(strstr(err.text, "just-a-file"));
    assert_int_equal(checkpoint_look(parent, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "just-a-file: cannot read the folder: Not a directory"));
    assert_int_equal(checkpoint_look("nowhere/checkpoints", &err), STATUS_OK);
    rig_close(&rig);
    free(parent);
}

static void expect_text(json_t *json, const char *key, const char *want)
{
    const char *got = json_string_value(json_object_get(json, key));
    if (!got || strcmp(got, want) != 0) fail_msg("%s is %s, expected %s", key, got ? got : "missing", want);
}

TEST_CASE(config_json_tells_hugging_face_the_architecture)
{
    static const char *const types[] = {"llama", "qwen3", "qwen2"};
    static const char *const classes[] = {"LlamaForCausalLM", "Qwen3ForCausalLM", "Qwen2ForCausalLM"};
    char *parent = saved_folder("config"), *path = saved_path(parent, "step-1", "config.json");
    for (int i = 0; i < 3; i++) {
        struct rig rig;
        struct model_config config = rig_config();
        config.qk_norm = i == 1;
        config.qkv_bias = i == 2;
        config.norm_eps = 1.0 / 3;
        saved_open(&rig, &config, 2, 5);
        saved_write(parent, &rig, 1);
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
        assert_true(
            json_is_null(json_object_get(json, "eos_token_id"))); /* otherwise a text would end at id 2 */
        json_decref(json);
        rig_close(&rig);
    }
    free(path);
    free(parent);
}

TEST_MAIN()
