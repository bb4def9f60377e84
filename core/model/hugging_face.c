/* See hugging_face.h. */
#include "core/model/hugging_face.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/hugging_face_keys.h"
#include "datasets/json_file.h"

/* Values of transformers' own classes. A config.json leaves them out where it has the same. */
static const struct {
    const char *name; /* of the architecture */
    int kv_heads;     /* 0: as many as heads */
    int head_dim;     /* 0: hidden_size / num_attention_heads */
    int positions;    /* max_position_embeddings */
} defaults[MODEL_KINDS] = {
    [MODEL_LLAMA] = {"Llama", 0, 0, 2048},
    [MODEL_MISTRAL] = {"Mistral", 8, 0, 131072},
    [MODEL_QWEN2] = {"Qwen2", 32, 0, 32768},
    [MODEL_QWEN3] = {"Qwen3", 32, 128, 32768},
};
enum { DEFAULT_WINDOW = 4096, DEFAULT_WINDOW_FROM = 28 };
static const char causal[] = "ForCausalLM", classifier[] = "ForSequenceClassification";
static const char sliding[] = "sliding_attention", full[] = "full_attention";

/* ---- writing: to a NULL, where memory ran out, Jansson adds nothing ---- */

/* The older spelling, written next to rope_theta: all versions of transformers read it. */
static json_t *rope_scaling_json(const struct model_config *c)
{
    json_t *json =
        json_pack("{s:s s:f}", "rope_type", rope_scaling_word(c->rope_scaling), "factor", c->rope_factor);
    if (c->rope_scaling == ROPE_LLAMA3 || c->rope_scaling == ROPE_YARN)
        json_object_set_new(json, "original_max_position_embeddings", json_integer(c->rope_original_len));
    if (c->rope_scaling == ROPE_LLAMA3) {
        json_object_set_new(json, "low_freq_factor", json_real(c->rope_low_freq_factor));
        json_object_set_new(json, "high_freq_factor", json_real(c->rope_high_freq_factor));
    }
    if (c->rope_scaling == ROPE_YARN) {
        json_object_set_new(json, "attention_factor", json_real(model_rotary_scale(c)));
        json_object_set_new(json, "beta_fast", json_real(c->rope_beta_fast));
        json_object_set_new(json, "beta_slow", json_real(c->rope_beta_slow));
        json_object_set_new(json, "truncate", json_boolean(c->rope_truncate));
    }
    return json;
}

/* A Qwen says of each layer whether it has the window; older versions of transformers know only how many
 * layers, from the first one on, have none. */
static void write_window(json_t *json, const struct model_config *c, enum model_kind kind)
{
    json_t *types = json_array();
    int before = 0;
    bool splits = true;
    json_object_set_new(json, "sliding_window",
                        c->sliding_window ? json_integer(c->sliding_window) : json_null());
    for (int l = 0; l < c->num_layers; l++) {
        bool window = model_window(c, l) > 0;
        json_array_append_new(types, json_string(window ? sliding : full));
        before += !window;
        splits = splits && (window || before == l + 1);
    }
    if (kind != MODEL_MISTRAL) {
        json_object_set_new(json, "use_sliding_window", json_true());
        if (splits) json_object_set_new(json, "max_window_layers", json_integer(before));
        json_object_set(json, "layer_types", types);
    }
    json_decref(types);
}

/* Classes without names get those of transformers. */
static const char *class_name(const struct classes *classes, int i, char unnamed[24])
{
    snprintf(unnamed, 24, "LABEL_%d", i);
    return classes->names ? classes->names[i] : unnamed;
}

static void write_classes(json_t *json, const struct model_config *c, const struct classes *classes)
{
    json_t *names = json_object(), *ids = json_object();
    char number[24], unnamed[24];
    for (int i = 0; i < c->num_labels; i++) {
        const char *name = class_name(classes, i, unnamed);
        snprintf(number, sizeof number, "%d", i);
        json_object_set_new(names, number, json_string(name));
        json_object_set_new(ids, name, json_integer(i));
    }
    json_object_set_new(json, "id2label", names);
    json_object_set_new(json, "label2id", ids);
    json_object_set_new(json, "problem_type", json_string("single_label_classification"));
    json_object_set_new(json, "pooling", json_string(pooling_word(c->pooling)));
    if (classes->pad_token >= 0) json_object_set_new(json, "pad_token_id", json_integer(classes->pad_token));
}

enum status hugging_face_write_config(const struct model_config *c, const struct classes *classes,
                                      const char *path, struct err *err)
{
    enum model_kind kind = model_kind_of(c);
    char architecture[48];
    snprintf(architecture, sizeof architecture, "%s%s", defaults[kind].name,
             c->num_labels ? classifier : causal);
    /* null ids: without them transformers would use Llama's 1 and 2, ordinary tokens here */
    json_t *json = json_pack(
        "{s:[s] s:s s:i s:i s:i s:i s:i s:i s:i s:i s:f s:f s:b s:b s:s s:s s:n s:n s:n}", "architectures",
        architecture, "model_type", model_kind_word(kind), "vocab_size", c->vocab_size, "hidden_size",
        c->hidden_dim, "intermediate_size", c->intermediate_dim, "num_hidden_layers", c->num_layers,
        "num_attention_heads", c->num_heads, "num_key_value_heads", c->num_kv_heads, "head_dim", c->head_dim,
        "max_position_embeddings", c->max_seq_len, "rms_norm_eps", c->norm_eps, "rope_theta", c->rope_base,
        "tie_word_embeddings", c->tie_weights, "attention_bias", c->qkv_bias, "hidden_act", "silu",
        "torch_dtype", "float32", "bos_token_id", "eos_token_id", "pad_token_id");
    if (c->rope_scaling != ROPE_DEFAULT) json_object_set_new(json, "rope_scaling", rope_scaling_json(c));
    if (c->mlp_bias) json_object_set_new(json, "mlp_bias", json_true());
    if (kind == MODEL_QWEN3 && c->qkv_bias) json_object_set_new(json, "o_bias", json_boolean(c->o_bias));
    if (c->sliding_window || kind == MODEL_MISTRAL) write_window(json, c, kind);
    if (c->num_labels) write_classes(json, c, classes);
    return json_file_write(path, json, JSON_INDENT(2), err);
}

/* ---- reading: null is the same as no key ---- */

/* A file while it is read; after the first error, which is kept, reading continues without effect. */
struct reading {
    const char *path;
    struct err *err;
    enum status status;
};

/* Notes an error: path, and what is wrong. */
__attribute__((format(printf, 3, 4))) static void fail(struct reading *r, enum status status,
                                                       const char *format, ...)
{
    char text[sizeof r->err->text];
    TEXT_FORMAT(text, format);
    if (!r->status) r->status = err_set(r->err, status, "%s: %s", r->path, text);
}

static const json_t *find(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_null(value) ? NULL : value;
}

/* A whole number from `least`; `fallback` where there is none, which is an error if that is negative. */
static int read_size(struct reading *r, const json_t *json, const char *key, int least, int fallback)
{
    const json_t *value = find(json, key);
    json_int_t number = json_integer_value(value);
    if (!value && fallback >= 0) return fallback;
    if (json_is_integer(value) && number >= least && number <= 1 << 24) return (int)number;
    fail(r, STATUS_CORRUPT, "%s %s a whole number from %d to 16777216", key,
         value ? "must be" : "is missing, which must be", least);
    return 1;
}

static double read_real(struct reading *r, const json_t *json, const char *key, double fallback)
{
    const json_t *value = find(json, key);
    if (value && !json_is_number(value)) fail(r, STATUS_CORRUPT, "%s must be a number", key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static bool read_bool(struct reading *r, const json_t *json, const char *key, bool fallback)
{
    const json_t *value = find(json, key);
    if (value && !json_is_boolean(value)) fail(r, STATUS_CORRUPT, "%s must be true or false", key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* Newer files have everything in `rope_parameters`; older ones have `rope_theta` and `rope_scaling`, where
 * the kind may be called `type`. */
static const json_t *find_rope(struct reading *r, const json_t *json, const char **name)
{
    const json_t *newer = find(json, "rope_parameters"), *older = find(json, "rope_scaling");
    *name = older ? "rope_scaling" : "rope_parameters";
    if (newer && older && !json_equal(newer, older))
        fail(r, STATUS_USAGE, "rope_scaling and rope_parameters differ (set one of them to null)");
    const json_t *rope = older ? older : newer;
    if (rope && !json_is_object(rope)) fail(r, STATUS_CORRUPT, "%s must be an object", *name);
    return rope;
}

/* yarn's attention factor, 0 where it follows from the factor alone. */
static double read_attention_factor(struct reading *r, const json_t *rope, double factor)
{
    double given = read_real(r, rope, "attention_factor", NAN), scale = read_real(r, rope, "mscale", 0),
           all = read_real(r, rope, "mscale_all_dim", 0), grown = factor > 1 ? 0.1 * log(factor) : 0;
    if (given <= 0) fail(r, STATUS_USAGE, "attention_factor = %g must be positive", given);
    if (!isnan(given)) return given;
    return scale != 0 && all != 0 ? (grown * scale + 1) / (grown * all + 1) : 0;
}

/* A number that transformers replaces where it is 0. */
static double or_else(double number, double otherwise)
{
    return number != 0 ? number : otherwise;
}

static void read_rope(struct reading *r, const json_t *json, struct model_config *c)
{
    static const struct {
        unsigned scalings; /* bits */
        const char *key;
    } needed[] = {{1 << ROPE_LINEAR | 1 << ROPE_LLAMA3 | 1 << ROPE_YARN, "factor"},
                  {1 << ROPE_LLAMA3, "low_freq_factor"},
                  {1 << ROPE_LLAMA3, "high_freq_factor"}};
    const char *name;
    const json_t *rope = find_rope(r, json, &name), *kind = find(rope, "rope_type");
    if (!kind) kind = find(rope, "type");
    const char *word = !kind ? "default" : json_is_string(kind) ? json_string_value(kind) : "?";
    int scaling = rope_scaling_find(word);
    if (scaling < 0)
        fail(r, STATUS_USAGE,
             "rotary scaling \"%.40s\" is not supported, only \"default\", \"linear\", \"llama3\" and "
             "\"yarn\"",
             word);
    if (!r->status)
        r->status = hugging_face_check_rope_keys(rope, (enum rope_scaling)scaling, name, r->path, r->err);
    if (r->status) return;
    bool from_length = scaling == ROPE_LLAMA3 || scaling == ROPE_YARN;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].scalings & 1u << scaling && !find(rope, needed[i].key))
            fail(r, STATUS_CORRUPT, "rotary scaling \"%s\" needs a number \"%s\"", word, needed[i].key);
    c->rope_scaling = (enum rope_scaling)scaling;
    c->rope_base = read_real(r, rope, "rope_theta", read_real(r, json, "rope_theta", 10000));
    c->rope_factor = read_real(r, rope, "factor", 1);
    c->rope_low_freq_factor = read_real(r, rope, "low_freq_factor", 1);
    c->rope_high_freq_factor = read_real(r, rope, "high_freq_factor", 4);
    c->rope_original_len = c->max_seq_len;
    if (from_length)
        c->rope_original_len = read_size(r, rope, "original_max_position_embeddings", 1, c->max_seq_len);
    c->rope_attention_factor = read_attention_factor(r, rope, c->rope_factor);
    c->rope_beta_fast = or_else(read_real(r, rope, "beta_fast", 0), 32);
    c->rope_beta_slow = or_else(read_real(r, rope, "beta_slow", 0), 1);
    c->rope_truncate = read_bool(r, rope, "truncate", !json_object_get(rope, "truncate")); /* null: false */
}

/* Layer types as a list, or as transformers makes it where there is none:
 * layers from `from` on have the window. */
static bool has_window(struct reading *r, const json_t *types, int layer, int from)
{
    const json_t *type = json_array_get(types, (size_t)layer);
    const char *word = json_is_string(type) ? json_string_value(type) : "";
    if (!types) return layer >= from;
    if (strcmp(word, sliding) != 0 && strcmp(word, full) != 0)
        fail(r, STATUS_USAGE,
             "layer_types must have \"%s\" or \"%s\" for each layer; for layer %d it has %.40s", full,
             sliding, layer, *word ? word : "neither");
    return strcmp(word, sliding) == 0;
}

/* Adds a range of layers to the list of those without a window. */
static void add_full(struct reading *r, struct model_config *c, int from, int to)
{
    char *list = c->full_attention_layers, range[16];
    size_t used = strlen(list);
    snprintf(range, sizeof range, to > from ? "%s%d-%d" : "%s%d", used ? "," : "", from, to);
    if (used + strlen(range) < sizeof c->full_attention_layers)
        strcpy(list + used, range);
    else
        fail(r, STATUS_USAGE,
             "layer_types changes too often (the list of its layers without a window must be shorter than %d "
             "characters)",
             MODEL_LAYER_LIST);
}

/* Lists the layers without the window; returns how many have it. */
static int list_layers(struct reading *r, const json_t *types, struct model_config *c, int from)
{
    int windows = 0;
    for (int l = 0, begin = -1; l <= c->num_layers && !r->status; l++) {
        bool window = l < c->num_layers && has_window(r, types, l, from),
             without = l < c->num_layers && !window;
        windows += window;
        if (without && begin < 0) begin = l;
        if (without || begin < 0) continue;
        add_full(r, c, begin, l - 1);
        begin = -1;
    }
    return windows;
}

static void read_window(struct reading *r, const json_t *json, struct model_config *c, enum model_kind kind)
{
    const json_t *types = find(json, "layer_types");
    bool qwen = kind == MODEL_QWEN2 || kind == MODEL_QWEN3, given = json_object_get(json, "sliding_window");
    int window = given ? read_size(r, json, "sliding_window", 1, 0) : DEFAULT_WINDOW, /* null: none */
        from = qwen ? read_size(r, json, "max_window_layers", 0, DEFAULT_WINDOW_FROM) : 0;
    if (kind == MODEL_LLAMA || (qwen && !read_bool(r, json, "use_sliding_window", false))) window = 0;
    if (types && json_array_size(types) != (size_t)c->num_layers)
        fail(r, STATUS_CORRUPT, "layer_types must be a list of num_hidden_layers = %d", c->num_layers);
    int windows = types || window ? list_layers(r, types, c, from) : 0;
    if (windows && !window)
        fail(r, STATUS_USAGE, "layer_types has \"%s\", but the file has no window (sliding_window%s)",
             sliding, qwen ? " with use_sliding_window" : "");
    if (windows < c->num_layers && window && !qwen)
        fail(r, STATUS_USAGE, "layer_types has \"%s\", but all layers of a Mistral have its window", full);
    c->sliding_window = windows ? window : 0;
    if (!windows) *c->full_attention_layers = '\0';
}

static enum status read_kind(const json_t *json, const char *path, enum model_kind *kind, struct err *err)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    int found = model_kind_find(type);
    if (found > MODEL_AUTO) {
        *kind = (enum model_kind)found;
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE,
                   "%s: model_type is %.40s; llama, mistral, qwen2 and qwen3 are supported", path,
                   type ? type : "missing");
}

static void read_activation(struct reading *r, const json_t *json)
{
    const json_t *value = find(json, "hidden_act");
    const char *word = json_string_value(value);
    if (!value || (word && (strcmp(word, "silu") == 0 || strcmp(word, "swish") == 0))) return;
    fail(r, STATUS_USAGE, "hidden_act is %.40s; only silu is computed", word ? word : "not a string");
}

/* A Qwen3 that anneal wrote may have a bias on q, k and v alone, and says so. One that it wrote before it
 * knew of any other bias says nothing, but transformers always leaves its version. */
static bool read_o_bias(struct reading *r, const json_t *json, const struct model_config *c,
                        enum model_kind kind)
{
    if (kind == MODEL_QWEN2) return false;
    return c->qkv_bias &&
           read_bool(r, json, "o_bias", kind == MODEL_LLAMA || find(json, "transformers_version"));
}

/* How many classes a classifier has; 0: the file describes a language model. As transformers counts them: by
 * id2label, else by num_labels, else 2. */
static int read_label_count(struct reading *r, const json_t *json)
{
    const char *architecture = json_string_value(json_array_get(find(json, "architectures"), 0));
    size_t named = json_object_size(find(json, "id2label"));
    if (!architecture || !text_ends_with(architecture, classifier)) return 0;
    const json_t *problem = find(json, "problem_type");
    const char *type = json_string_value(problem);
    if (problem && (!type || strcmp(type, "single_label_classification") != 0))
        fail(r, STATUS_USAGE, "problem_type is %.40s; only single_label_classification is computed",
             type ? type : "not a string");
    int count = named <= CLASSES_MAX ? (int)named : CLASSES_MAX + 1;
    if (!named) count = read_size(r, json, "num_labels", 1, 2);
    if (count > CLASSES_MAX) fail(r, STATUS_USAGE, "the classifier has more than %d labels", CLASSES_MAX);
    if (count == 1 && !problem) /* transformers takes it for a regression */
        fail(r, STATUS_USAGE,
             "a model with one label gives a score, such as a reward, and no class; only "
             "single_label_classification is computed (if it is that, add it as problem_type)");
    return count;
}

static enum pooling read_pooling(struct reading *r, const json_t *json)
{
    const json_t *value = find(json, "pooling");
    const char *word = json_string_value(value);
    int found = value ? pooling_find(word) : POOLING_LAST;
    if (found >= 0) return (enum pooling)found;
    fail(r, STATUS_USAGE, "pooling is %.40s; last and mean are known", word ? word : "not a string");
    return POOLING_LAST;
}

static enum status read_fields(const json_t *json, const char *path, struct model_config *c, struct err *err)
{
    struct reading reading = {path, err, STATUS_OK}, *r = &reading;
    enum model_kind kind = MODEL_AUTO;
    enum status status = read_kind(json, path, &kind, err);
    if (status || (status = hugging_face_check_keys(json, kind, path, err))) return status;
    read_activation(r, json);
    c->qk_norm = kind == MODEL_QWEN3;
    c->qkv_bias =
        kind == MODEL_QWEN2 || (kind != MODEL_MISTRAL && read_bool(r, json, "attention_bias", false));
    c->o_bias = read_o_bias(r, json, c, kind);
    c->mlp_bias = kind == MODEL_LLAMA && read_bool(r, json, "mlp_bias", false);
    c->tie_weights = read_bool(r, json, "tie_word_embeddings", false);
    c->norm_eps = read_real(r, json, "rms_norm_eps", 1e-6);
    c->vocab_size = read_size(r, json, "vocab_size", 1, -1);
    c->hidden_dim = read_size(r, json, "hidden_size", 1, -1);
    c->intermediate_dim = read_size(r, json, "intermediate_size", 1, -1);
    c->num_layers = read_size(r, json, "num_hidden_layers", 1, -1);
    c->num_heads = read_size(r, json, "num_attention_heads", 1, -1);
    int heads = json_object_get(json, "num_key_value_heads") ? 0 : defaults[kind].kv_heads,
        width = json_object_get(json, "head_dim") ? 0 : defaults[kind].head_dim;
    c->num_kv_heads = read_size(r, json, "num_key_value_heads", 1, heads ? heads : c->num_heads);
    c->head_dim = read_size(r, json, "head_dim", 1, width ? width : c->hidden_dim / c->num_heads);
    c->max_seq_len = read_size(r, json, "max_position_embeddings", 1, defaults[kind].positions);
    read_rope(r, json, c);
    read_window(r, json, c, kind);
    c->num_labels = read_label_count(r, json);
    if (c->num_labels) c->pooling = read_pooling(r, json);
    if (r->status) return r->status;
    if ((status = model_config_check(c, err))) return err_prefix(err, "%s", path);
    if (kind == MODEL_MISTRAL && model_kind_of(c) == MODEL_LLAMA) c->kind = MODEL_MISTRAL;
    return STATUS_OK;
}

/* Reads the config.json of a folder, which is `path`. */
static enum status open_json(const char *folder, char path[PATH_MAX], json_t **out, struct err *err)
{
    enum status status = file_format_path(path, PATH_MAX, err, "%s/config.json", folder);
    if (!status) status = json_file_read(path, JSON_REJECT_DUPLICATES, out, err);
    if (status != STATUS_NOT_FOUND) return status;
    if (!file_exists_in(folder, "adapter_config.json")) {
        if (err)
            text_add(err->text, sizeof err->text, " ",
                     "(name the folder of a model: it has config.json and model.safetensors)");
        return status;
    }
    return err_set(err, STATUS_USAGE,
                   "%s: does not exist, but adapter_config.json does: the folder holds adapters, not the "
                   "model that they were trained on (name that model)",
                   path);
}

enum status hugging_face_read_config(const char *folder, struct model_config *out, struct err *err)
{
    char path[PATH_MAX];
    struct model_config config = {0};
    json_t *json;
    enum status status = open_json(folder, path, &json, err);
    if (status) return status;
    status = read_fields(json, path, &config, err);
    json_decref(json);
    if (!status) *out = config;
    return status;
}

bool hugging_face_read_type(const char *folder, char *type, size_t size)
{
    char path[PATH_MAX];
    json_t *json;
    if (open_json(folder, path, &json, NULL)) return false;
    const char *word = json_string_value(json_object_get(json, "model_type"));
    bool fits = word && strlen(word) < size;
    if (fits) snprintf(type, size, "%s", word);
    json_decref(json);
    return fits;
}

enum status hugging_face_read_classes(const char *folder, struct model *model, struct err *err)
{
    char path[PATH_MAX];
    int count = model->config.num_labels;
    char(*unnamed)[24] = malloc((size_t)count * sizeof *unnamed);
    const char **names = malloc((size_t)count * sizeof *names);
    json_t *json = NULL, *seen = json_object(); /* the numbers of the names so far */
    enum status status = unnamed && names && seen ? open_json(folder, path, &json, err)
                                                  : err_no_memory(err, "%d labels", count);
    const json_t *pad = find(json, "pad_token_id"), *given = find(json, "id2label");
    struct classes classes = {names, json_is_integer(pad) ? (int)json_integer_value(pad) : -1};
    for (int i = 0; !status && i < count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%d", i);
        names[i] = json_string_value(json_object_get(given, number));
        const json_t *other = names[i] ? json_object_get(seen, names[i]) : NULL;
        if (other)
            status = err_set(err, STATUS_CORRUPT,
                             "%s: id2label has the name \"%.60s\" twice, for %lld and %d (give each label a "
                             "name of its own)",
                             path, CLEAN_LINE(names[i]), (long long)json_integer_value(other), i);
        if (names[i]) json_object_set_new(seen, names[i], json_integer(i));
        if (names[i]) continue;
        if (given)
            status = err_set(err, STATUS_CORRUPT, "%s: id2label has %d labels, but no name for \"%d\"", path,
                             count, i);
        names[i] = class_name(&(struct classes){0}, i, unnamed[i]);
    }
    if (!status) status = model_set_classes(model, &classes, err);
    json_decref(seen);
    json_decref(json);
    free(unnamed);
    free(names);
    return status;
}

/* ---- models by name ---- */

enum status imported_model_folder(const char *name, char *folder, size_t size, struct err *err)
{
    char home[PATH_MAX];
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : file_format_path(folder, size, err, "%s/models/%s", home, name);
}

bool imported_model_find(const char *word, char *folder, size_t size)
{
    return *word && *word != '.' && !strchr(word, '/') && !imported_model_folder(word, folder, size, NULL) &&
           file_exists_in(folder, "config.json");
}
