/* Weights in shards: files written by transformers give the results of transformers; an index that does not
 * match its shards, or points to another folder, is refused with one sentence that names the file. Fixtures:
 * tests/fixtures/sharded/make_sharded.py. */
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"
#include "tests/cmocka.h"
#include "tests/core/checkpoint/saved.h"
#include "tests/core/network/rig.h"

#define FIXTURES  "tests/fixtures/sharded/"
#define FIRST     "model-00001-of-00003.safetensors"
#define SECOND    "model-00002-of-00003.safetensors"
#define INDEX     "model.safetensors.index.json"
#define EMBEDDING "model.embed_tokens.weight"

static const char *path_of(const char *folder, const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void copy_file(const char *from, const char *to)
{
    struct file_map map;
    struct err err = {0};
    if (file_map_open(from, &map, &err)) fail_msg("%s", err.text);
    rig_write(to, map.data, map.size);
    file_map_close(&map);
}

/* A copy of a fixture that a test may damage; the caller frees its path. */
static char *copy_of(const char *fixture)
{
    char from[PATH_MAX], to[PATH_MAX], *folder = saved_folder(fixture);
    snprintf(from, sizeof from, FIXTURES "%s", fixture);
    DIR *files = opendir(from);
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));) {
        if (*entry->d_name == '.') continue;
        snprintf(from, sizeof from, FIXTURES "%s/%s", fixture, entry->d_name);
        snprintf(to, sizeof to, "%s/%s", folder, entry->d_name);
        copy_file(from, to);
    }
    closedir(files);
    return folder;
}

/* ---- against transformers ---- */

/* The largest difference of a logit from the oracle's, over the largest logit. */
static double worst_logit(const char *fixture, const char *folder)
{
    struct safetensors oracle;
    struct model_config config;
    struct rig rig;
    struct err err = {0};
    char path[PATH_MAX];
    double worst = 0, largest = 0;
    snprintf(path, sizeof path, FIXTURES "%s/oracle.safetensors", fixture);
    if (safetensors_open(path, &oracle, &err)) fail_msg("%s", err.text);
    const struct safetensor *tokens = safetensors_find(&oracle, "tokens"),
                            *logits = safetensors_find(&oracle, "logits");
    int B = (int)tokens->shape[0], T = (int)tokens->shape[1], V = (int)logits->shape[2];
    if (hugging_face_read_config(folder, &config, &err)) fail_msg("%s", err.text);
    assert_int_equal(config.vocab_size, V);
    rig_open(&rig, NULL, &config, B, T, 0);
    if (checkpoint_load_weights(folder, &rig.network, &err)) fail_msg("%s", err.text);
    network_forward(&rig.network, (struct batch_view){.inputs = tokens->data, .B = B, .T = T});
    float *row = malloc((size_t)V * sizeof *row);
    const float *expected = logits->data;
    for (int n = 0; n < B * T; n++) {
        network_logits(&rig.network, n, 1, row);
        for (int v = 0; v < V; v++) {
            worst = fmax(worst, fabs((double)row[v] - (double)expected[n * V + v]));
            largest = fmax(largest, fabs((double)expected[n * V + v]));
        }
    }
    free(row);
    rig_close(&rig);
    safetensors_close(&oracle);
    return worst / largest;
}

static const char *const fixtures[] = {"llama_bf16", "qwen2_fp16", "qwen3_fp32"};

TEST_CASE(a_model_in_shards_computes_what_transformers_computes)
{
    for (int i = 0; i < 3; i++) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, FIXTURES "%s", fixtures[i]);
        double worst = worst_logit(fixtures[i], folder);
        if (!(worst < 1e-5))
            fail_msg("%s: a logit is %g of the largest beside the oracle's", fixtures[i], worst);
    }
}

TEST_CASE(an_import_joins_the_shards_and_computes_the_same)
{
    for (int i = 0; i < 3; i++) {
        char from[PATH_MAX], *to = rig_path("joined");
        int64_t bytes;
        struct err err = {0};
        snprintf(from, sizeof from, FIXTURES "%s", fixtures[i]);
        assert_int_equal(file_remove_tree(to, &err), STATUS_OK);
        if (checkpoint_import(from, to, NULL, &bytes, &err)) fail_msg("%s", err.text);
        assert_true(file_exists(path_of(to, "model.safetensors")));
        assert_false(file_exists(path_of(to, INDEX)));
        double worst = worst_logit(fixtures[i], to);
        if (!(worst < 1e-5))
            fail_msg("%s: a logit is %g of the largest beside the oracle's", fixtures[i], worst);
        free(to);
    }
}

/* ---- work that is stopped ---- */

static bool stop_at_second(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    int *reports = context;
    (void)what;
    assert_string_equal(unit, "bytes");
    assert_true(done > 0 && done <= total);
    return ++*reports < 2;
}

/* The entries of the folder that holds `path` whose names begin with the name of `path`. */
static int count_beginning_with(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char parent[PATH_MAX];
    int count = 0;
    snprintf(parent, sizeof parent, "%.*s", (int)(name - path), path);
    DIR *folder = opendir(parent);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strncmp(entry->d_name, name, strlen(name)) == 0;
    closedir(folder);
    return count;
}

TEST_CASE(a_copy_that_is_stopped_leaves_nothing_behind)
{
    static const char *const places[] = {"stopped-shards", "stopped-file", "stopped.gguf"};
    char *joined = rig_path("to-stop");
    int64_t bytes;
    struct err err = {0};
    assert_int_equal(file_remove_tree(joined, &err), STATUS_OK);
    if (checkpoint_import(FIXTURES "llama_bf16", joined, NULL, &bytes, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) {
        char *to = rig_path(places[i]);
        int reports = i == 1; /* one file is one piece: it stops at the first report */
        struct progress progress = {.report = stop_at_second, .context = &reports};
        enum status status =
            i == 2 ? checkpoint_export_gguf(joined, CHECKPOINT_WEIGHTS, to, GGUF_F16, &progress, &bytes, &err)
                   : checkpoint_import(i ? joined : FIXTURES "llama_bf16", to, &progress, &bytes, &err);
        assert_int_equal(status, STATUS_INTERRUPTED);
        assert_int_equal(reports, 2);
        assert_int_equal(count_beginning_with(to), 0);
        free(to);
    }
    free(joined);
}

/* ---- what cannot be trusted ---- */

static void expect_refused(const char *folder, enum status status, const char *part)
{
    int64_t bytes;
    struct model_config config;
    struct rig rig;
    struct err err = {0};
    char *to = rig_path("refused");
    if (hugging_face_read_config(folder, &config, &err)) fail_msg("%s", err.text);
    rig_open(&rig, NULL, &config, 1, 4, 0);
    assert_int_equal(checkpoint_load_weights(folder, &rig.network, &err), status);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_non_null(strstr(err.text, folder));
    assert_int_equal(checkpoint_import(folder, to, NULL, &bytes, &err), status);
    assert_false(file_exists(to));
    rig_close(&rig);
    free(to);
}

/* The fixture with a weight_map in which `tensor` is in `shard`; NULL: nowhere. */
static char *with_place(const char *tensor, const char *shard)
{
    char *folder = copy_of("llama_bf16");
    json_t *index = json_load_file(path_of(folder, INDEX), 0, NULL),
           *map = json_object_get(index, "weight_map");
    if (shard)
        json_object_set_new(map, tensor, json_string(shard));
    else
        json_object_del(map, tensor);
    assert_int_equal(json_dump_file(index, path_of(folder, INDEX), 0), 0);
    json_decref(index);
    return folder;
}

TEST_CASE(a_folder_without_its_weights_says_what_is_there_instead)
{
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
        "size 12345\n";
    char *folder = copy_of("llama_bf16");
    rig_write(path_of(folder, FIRST), pointer, sizeof pointer - 1);
    expect_refused(folder, STATUS_CORRUPT, FIRST ": is a pointer of Git LFS, not the file itself");
    remove(path_of(folder, INDEX));
    expect_refused(folder, STATUS_NOT_FOUND, "has neither model.safetensors nor " INDEX);
    rig_write(path_of(folder, "pytorch_model.bin"), "PK", 2);
    expect_refused(folder, STATUS_NOT_FOUND, "(pytorch_model.bin is not read: ");
    assert_int_equal(symlink("../../blobs/0123", path_of(folder, "model.safetensors")), 0);
    expect_refused(folder, STATUS_NOT_FOUND, "model.safetensors: cannot open: No such file");
    free(folder);
}

TEST_CASE(a_shard_is_a_plain_name_in_the_same_folder)
{
    char outside[PATH_MAX];
    char *target = rig_path("outside.safetensors");
    copy_file(FIXTURES "llama_bf16/" FIRST, target);
    snprintf(outside, sizeof outside, "%s", *target == '/' ? target : "/etc/x.safetensors");
    const char *const names[] = {outside,     "../outside.safetensors", "./" FIRST,     "..",          ".",
                                 "",          ".hidden.safetensors",    ".safetensors", "config.json", INDEX,
                                 "sub/" FIRST};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *folder = with_place(EMBEDDING, names[i]);
        expect_refused(folder, STATUS_CORRUPT, "is not the name of a .safetensors file in the same folder");
        free(folder);
    }
    free(target);
}

TEST_CASE(an_index_that_disagrees_with_its_shards_is_refused)
{
    char *folder = with_place("model.more.weight", SECOND);
    expect_refused(folder, STATUS_CORRUPT, INDEX ": lists ");
    free(folder);
    folder = with_place(EMBEDDING, NULL);
    expect_refused(folder, STATUS_CORRUPT, INDEX ": lists ");
    free(folder);
    folder = with_place("model.more.weight", "model-00009-of-00003.safetensors");
    expect_refused(folder, STATUS_NOT_FOUND, "model-00009-of-00003.safetensors: cannot open");
    free(folder);
}

TEST_CASE(shards_that_are_missing_cut_or_hold_a_tensor_twice_are_refused)
{
    char *folder = copy_of("llama_bf16"), *first = saved_path(folder, FIRST, ""), copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path_of(folder, SECOND));
    assert_int_equal(truncate(copy, 9000), 0);
    expect_refused(folder, STATUS_CORRUPT, SECOND ": not a valid safetensors file");
    copy_file(first, copy);
    expect_refused(folder, STATUS_CORRUPT, INDEX ": lists ");
    assert_int_equal(unlink(copy), 0);
    expect_refused(folder, STATUS_NOT_FOUND, SECOND ": cannot open");
    assert_int_equal(symlink(SECOND, copy), 0); /* to itself */
    expect_refused(folder, STATUS_IO, SECOND ": cannot open");
    free(first);
    free(folder);
}

TEST_CASE(an_index_that_is_none_is_refused)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"", ":1: "},
                 {"[]", "not a JSON object"},
                 {"{}", "weight_map is missing or empty"},
                 {"{\"weight_map\": {}}", "weight_map is missing or empty"},
                 {"{\"weight_map\": \"" FIRST "\"}", "weight_map is missing or empty"},
                 {"{\"weight_map\": {\"" EMBEDDING "\": 1}}", "is not the name of a .safetensors file"},
                 {"{\"weight_map\": {\"" EMBEDDING "\": \"" FIRST "\", \"" EMBEDDING "\": \"" SECOND "\"}}",
                  "duplicate"}};
    char *folder = copy_of("llama_bf16");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_write(path_of(folder, INDEX), cases[i].text, strlen(cases[i].text));
        expect_refused(folder, STATUS_CORRUPT, cases[i].says);
    }
    free(folder);
}

TEST_CASE(tensors_of_another_shape_or_type_are_refused_before_anything_is_written)
{
    char *folder = copy_of("llama_bf16"), text[2048];
    struct file_map map;
    struct err err = {0};
    static const struct {
        const char *from, *to, *says;
    } edits[] = {
        {"\"vocab_size\": 67", "\"vocab_size\": 68", "is (67, 24), this model needs (68, 24)"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
         "has a tensor model.layers.1.input_layernorm.weight, which this model does not have"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", INDEX ": has no tensor model.layers.2."}};
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        if (file_map_open(FIXTURES "llama_bf16/config.json", &map, &err)) fail_msg("%s", err.text);
        snprintf(text, sizeof text, "%.*s", (int)map.size, (const char *)map.data);
        file_map_close(&map);
        char *at = strstr(text, edits[i].from);
        assert_non_null(at);
        memcpy(at, edits[i].to, strlen(edits[i].to));
        rig_write(path_of(folder, "config.json"), text, strlen(text));
        expect_refused(folder, STATUS_USAGE, edits[i].says);
    }
    copy_file(FIXTURES "llama_bf16/config.json", path_of(folder, "config.json"));
    if (file_map_open(path_of(folder, FIRST), &map, &err)) fail_msg("%s", err.text);
    char *bytes = malloc(map.size);
    memcpy(bytes, map.data, map.size);
    for (size_t i = 8; i + 6 < map.size; i++)
        if (memcmp(bytes + i, "\"BF16\"", 6) == 0) memcpy(bytes + i, "\"I16\" ", 6);
    rig_write(path_of(folder, FIRST), bytes, map.size);
    file_map_close(&map);
    free(bytes);
    expect_refused(folder, STATUS_USAGE, "is I16, only F32, BF16 and F16 are read");
    free(folder);
}

/* Qwen3's smaller checkouts hold it. */
TEST_CASE(a_tied_head_that_repeats_the_embedding_is_let_pass_and_another_is_not)
{
    char *folder = copy_of("qwen3_fp32");
    struct safetensors files;
    struct err err = {0};
    struct safetensor tensors[64];
    size_t count = 0;
    if (safetensors_open_folder(folder, &files, &err)) fail_msg("%s", err.text);
    while (count < files.count) tensors[count] = files.tensors[count], count++;
    for (size_t i = 0; i < count; i++)
        if (strcmp(tensors[i].name, EMBEDDING) == 0) tensors[count] = tensors[i];
    tensors[count].name = "lm_head.weight";
    const char *path = path_of(folder, "model.safetensors");
    if (safetensors_write(path, tensors, count + 1, safetensors_fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    assert_true(worst_logit("qwen3_fp32", folder) < 1e-5);
    float *other = calloc(1, tensors[count].bytes);
    tensors[count].data = other;
    path = path_of(folder, "model.safetensors");
    if (safetensors_write(path, tensors, count + 1, safetensors_fetch_host, NULL, &err))
        fail_msg("%s", err.text);
    expect_refused(folder, STATUS_USAGE,
                   "has a tensor lm_head.weight, which this model does not have (if this is the head, set "
                   "tie_word_embeddings = false in config.json)");
    free(other);
    safetensors_close(&files);
    free(folder);
}

TEST_MAIN()
