/* See model.h. */
#include "core/model/model.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/base/text.h"
#include "kernels/partition.h"

struct model_config model_preset(enum preset preset)
{
    /* hidden, layers, heads, intermediate, vocabulary, longest sequence */
    static const int sizes[PRESETS][6] = {[PRESET_SHAKESPEARE] = {256, 6, 4, 704, 2048, 1024},
                                          [PRESET_TINY] = {256, 4, 4, 512, 32000, 1024},
                                          [PRESET_SMALL] = {512, 8, 8, 1408, 32000, 2048},
                                          [PRESET_MEDIUM] = {1024, 16, 16, 2816, 32000, 2048},
                                          [PRESET_GPT2_124M] = {768, 12, 12, 2048, 50304, 1024},
                                          [PRESET_LLAMA_1_5B] = {2048, 28, 16, 5632, 32000, 2048}};
    const int *s = sizes[preset];
    return (struct model_config){.vocab_size = s[4],
                                 .hidden_dim = s[0],
                                 .num_layers = s[1],
                                 .num_heads = s[2],
                                 .num_kv_heads = s[2],
                                 .head_dim = s[0] / s[2],
                                 .intermediate_dim = s[3],
                                 .max_seq_len = s[5],
                                 .rope_base = 10000,
                                 .rope_factor = 1,
                                 .rope_low_freq_factor = 1,
                                 .rope_high_freq_factor = 4,
                                 .rope_original_len = 8192,
                                 .rope_beta_fast = 32,
                                 .rope_beta_slow = 1,
                                 .rope_truncate = true,
                                 .norm_eps = 1e-5,
                                 .tie_weights = true};
}

/* ---- layers with and without the window ---- */

/* The next range "3" or "0-3" of a list; returns what follows it and its comma, NULL if it is none. */
static const char *next_range(const char *list, int range[2])
{
    for (int i = 0; i < 2; i++) {
        size_t digits = strspn(list, "0123456789");
        if (digits < 1 || digits > 4) return NULL;
        range[i] = atoi(list);
        list += digits;
        if (i == 0 && *list == '-')
            list++;
        else if (i == 0)
            i++, range[1] = range[0];
    }
    return *list == ',' && list[1] ? list + 1 : *list ? NULL : list;
}

bool model_list_names(const char *list, int layer)
{
    int range[2];
    while (list && *list)
        if ((list = next_range(list, range)) && layer >= range[0] && layer <= range[1]) return true;
    return false;
}

int model_window(const struct model_config *c, int layer)
{
    return c->sliding_window && !model_list_names(c->full_attention_layers, layer) ? c->sliding_window : 0;
}

enum status model_list_check(const char *list, int layers, const char *key, struct err *err)
{
    int range[2] = {0, -1};
    const char *at = list;
    for (int before = -1; at && *at; before = range[1])
        if ((at = next_range(at, range)) && (range[0] <= before || range[1] < range[0] || range[1] >= layers))
            at = NULL;
    if (at) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s = %.80s: must be numbers and ranges of layers in ascending order with commas between, "
                   "such as 0-3,7, from 0 to model.num_layers - 1 = %d",
                   key, list, layers - 1);
}

/* ---- kinds ---- */

/* The kind that the other keys make; a Llama where a Mistral computes the same. */
static enum model_kind derived_kind(const struct model_config *c)
{
    int windows = 0;
    for (int l = 0; l < c->num_layers; l++) windows += model_window(c, l) > 0;
    if (c->o_bias && !c->qkv_bias) return MODEL_AUTO;
    if (c->qk_norm) return c->mlp_bias ? MODEL_AUTO : MODEL_QWEN3;
    if (c->qkv_bias && !c->o_bias) return c->mlp_bias ? MODEL_AUTO : MODEL_QWEN2;
    if (!windows) return MODEL_LLAMA;
    return c->o_bias || c->mlp_bias || windows < c->num_layers ? MODEL_AUTO : MODEL_MISTRAL;
}

enum model_kind model_kind_of(const struct model_config *c)
{
    enum model_kind kind = derived_kind(c);
    bool plain = kind == MODEL_LLAMA && !c->o_bias && !c->mlp_bias;
    if (c->kind == MODEL_AUTO || c->kind == kind) return kind;
    return c->kind == MODEL_MISTRAL && plain ? MODEL_MISTRAL : MODEL_AUTO;
}

static enum status check_kind(const struct model_config *c, struct err *err)
{
    if (model_kind_of(c) != MODEL_AUTO) return STATUS_OK;
    if (derived_kind(c) != MODEL_AUTO)
        return err_set(
            err, STATUS_USAGE,
            "model.kind = %s: the other keys describe a %s model (set model.kind to that, or to auto)",
            model_kind_word(c->kind), model_kind_word(derived_kind(c)));
    return err_set(err, STATUS_USAGE,
                   "no model_type has these together: qk_norm = %d, qkv_bias = %d, o_bias = %d, mlp_bias = "
                   "%d, sliding_window = %d, full_attention_layers = \"%s\" (model.o_bias needs "
                   "model.qkv_bias; model.mlp_bias goes with none or both of them; a window in some layers "
                   "needs model.qk_norm, or model.qkv_bias without model.o_bias; a window in all layers "
                   "needs one of these, or no bias at all)",
                   c->qk_norm, c->qkv_bias, c->o_bias, c->mlp_bias, c->sliding_window,
                   c->full_attention_layers);
}

/* ---- rotary positions ---- */

static enum status check_yarn(const struct model_config *c, struct err *err)
{
    double fast = c->rope_beta_fast, slow = c->rope_beta_slow, factor = c->rope_attention_factor;
    if (slow > 0 && fast >= slow && isfinite(fast) && factor >= 0 && isfinite(factor) && c->rope_base > 1)
        return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "model.rope_beta_fast = %g, rope_beta_slow = %g, rope_attention_factor = %g, rope_base = "
                   "%g: with model.rope_scaling = yarn the betas must be positive and the fast one not "
                   "below the slow one, the attention factor positive or 0, the base above 1",
                   fast, slow, factor, c->rope_base);
}

static enum status check_rope(const struct model_config *c, struct err *err)
{
    double factor = c->rope_factor, low = c->rope_low_freq_factor, high = c->rope_high_freq_factor;
    bool stretches = factor >= 1 && isfinite(factor);
    if (c->rope_scaling == ROPE_YARN && stretches && c->rope_original_len >= 1) return check_yarn(c, err);
    bool bends = low > 0 && high > low && isfinite(high) && c->rope_original_len >= 1;
    if (c->rope_scaling == ROPE_DEFAULT || (stretches && (c->rope_scaling == ROPE_LINEAR || bends)))
        return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "model.rope_factor = %g, low_freq_factor = %g, high_freq_factor = %g, original_len = %d: with "
        "model.rope_scaling = %s the factor must be at least 1, the others positive, high_freq_factor "
        "above low_freq_factor",
        factor, low, high, c->rope_original_len, rope_scaling_word(c->rope_scaling));
}

enum status model_config_check(const struct model_config *c, struct err *err)
{
    const struct {
        const char *name;
        int value, max;
    } sizes[] = {{"vocab_size", c->vocab_size, 1 << 24},
                 {"hidden_dim", c->hidden_dim, 1 << 17},
                 {"num_layers", c->num_layers, MODEL_LAYERS_MAX},
                 {"num_heads", c->num_heads, 1024},
                 {"num_kv_heads", c->num_kv_heads, 1024},
                 {"head_dim", c->head_dim, 1024},
                 {"intermediate_dim", c->intermediate_dim, 1 << 19},
                 {"max_seq_len", c->max_seq_len, 1 << 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].max)
            return err_set(err, STATUS_USAGE, "model.%s = %d: must be from 1 to %d", sizes[i].name,
                           sizes[i].value, sizes[i].max);
    if (c->num_heads % c->num_kv_heads)
        return err_set(err, STATUS_USAGE,
                       "model.num_heads = %d is not a multiple of model.num_kv_heads = %d (change one)",
                       c->num_heads, c->num_kv_heads);
    if (c->head_dim % 2)
        return err_set(err, STATUS_USAGE,
                       "model.head_dim = %d: must be even, as rotary positions rotate pairs", c->head_dim);
    if (!(c->rope_base > 0) || !(c->norm_eps > 0))
        return err_set(err, STATUS_USAGE, "model.rope_base and model.norm_eps must be positive");
    if (c->sliding_window < 0 || c->sliding_window > 1 << 24)
        return err_set(err, STATUS_USAGE, "model.sliding_window = %d: must be from 0 (none) to 16777216",
                       c->sliding_window);
    enum status status =
        model_list_check(c->full_attention_layers, c->num_layers, "model.full_attention_layers", err);
    if (!status) status = check_kind(c, err);
    return status ? status : check_rope(c, err);
}

/* How much of pair i's frequency yarn divides by the factor, 0 to 1. */
static double yarn_share(const struct model_config *c, int i)
{
    double edges[2] = {c->rope_beta_fast, c->rope_beta_slow};
    for (int k = 0; k < 2; k++) /* the pair, as a real number, that makes so many turns over the length */
        edges[k] = c->head_dim * log(c->rope_original_len / (edges[k] * 2 * M_PI)) / (2 * log(c->rope_base));
    if (c->rope_truncate) edges[0] = floor(edges[0]), edges[1] = ceil(edges[1]);
    double from = fmax(edges[0], 0), to = fmin(edges[1], c->head_dim - 1);
    if (from == to) to += 0.001;
    return fmin(fmax((i - from) / (to - from), 0), 1);
}

double model_rotary_scale(const struct model_config *c)
{
    if (c->rope_scaling != ROPE_YARN) return 1;
    return c->rope_attention_factor > 0 ? c->rope_attention_factor : 0.1 * log(c->rope_factor) + 1;
}

double model_rotary_frequency(const struct model_config *c, int i)
{
    double frequency = pow(c->rope_base, -2.0 * i / c->head_dim);
    if (c->rope_scaling == ROPE_LINEAR) return frequency / c->rope_factor;
    if (c->rope_scaling == ROPE_YARN) {
        double share = yarn_share(c, i);
        return share * frequency / c->rope_factor + (1 - share) * frequency;
    }
    if (c->rope_scaling != ROPE_LLAMA3) return frequency;
    double turns = c->rope_original_len * frequency / (2 * M_PI); /* of this wave over the original length */
    double low = c->rope_low_freq_factor, high = c->rope_high_freq_factor;
    if (turns > high) return frequency;
    if (turns < low) return frequency / c->rope_factor;
    double share = (turns - low) / (high - low);
    return (1 - share) * frequency / c->rope_factor + share * frequency;
}

bool model_rotates_alike(const struct model_config *a, const struct model_config *b)
{
    bool alike = model_rotary_scale(a) == model_rotary_scale(b);
    for (int i = 0; i < a->head_dim / 2; i++)
        alike = alike && model_rotary_frequency(a, i) == model_rotary_frequency(b, i);
    return alike;
}

/* GROUP_ALIGN: elements of the trainable arena; FROZEN_ALIGN: bytes of the other one. */
enum { GROUP_ALIGN = 64, FROZEN_ALIGN = 256 };

const struct param *model_append(struct model *model, bool packed, int layer, int place, int rows, int cols,
                                 const char *format, ...)
{
    struct param *param = &model->params[model->param_count++];
    *param = (struct param){.count = (size_t)rows * (size_t)(cols ? cols : 1),
                            .rows = rows,
                            .cols = cols,
                            .place = param_place(layer, place),
                            .packed = packed};
    TEXT_FORMAT(param->name, format);
    model->parameters += (int64_t)param->count;
    return param;
}

static const struct param *append_to_layer(struct model *model, bool packed, int layer, int place, int rows,
                                           int cols, const char *name)
{
    return model_append(model, packed, layer, place, rows, cols, "model.layers.%d.%s", layer, name);
}

static size_t aligned(size_t size, size_t align)
{
    return (size + align - 1) & ~(align - 1);
}

static bool same_arena(const struct param *a, const struct param *b)
{
    return a->frozen == b->frozen && a->element == b->element && a->orthogonal == b->orthogonal;
}

bool param_is_followed(const struct param *p)
{
    if (!same_arena(p, p + 1) || element_is_nf4(p->element)) return false;
    return p[1].offset == p->offset + (p->frozen ? param_bytes(p) : p->count);
}

/* Places the orthogonal parameters in their arena, or all others in theirs. `end`: of the trainable arena, in
 * elements; of the frozen one, in bytes. */
static void lay_part(struct model *model, bool orthogonal, size_t end[2])
{
    static const size_t aligns[2] = {GROUP_ALIGN, FROZEN_ALIGN};
    for (size_t i = 0; i < model->param_count; i++) {
        struct param *p = &model->params[i];
        size_t *at = &end[p->frozen];
        int side = p->rows < p->cols ? p->rows : p->cols;
        if (p->orthogonal != orthogonal) continue;
        bool nf4 = element_is_nf4(p->element), follows = p->packed && same_arena(p - 1, p);
        if (!follows || nf4) *at = aligned(*at, aligns[p->frozen]);
        p->offset = *at;
        *at += p->frozen ? param_bytes(p) : p->count;
        if (p->frozen) model->frozen_parameters += (int64_t)p->count;
        if (!p->frozen && p->place < model->lowest) model->lowest = p->place;
        if (nf4 && p->count > model->nf4_largest) model->nf4_largest = p->count;
        if (orthogonal && p->count > model->orthogonal) model->orthogonal = p->count;
        if (orthogonal && side > model->orthogonal_side) model->orthogonal_side = side;
    }
}

/* Gives every parameter its offset. */
static void lay(struct model *model)
{
    size_t end[2] = {0, 0};
    model->frozen_parameters = 0;
    model->nf4_largest = model->orthogonal = 0;
    model->orthogonal_side = 0;
    model->lowest = INT_MAX;
    lay_part(model, false, end);
    model->elementwise = end[0] = aligned(end[0], GROUP_ALIGN);
    lay_part(model, true, end);
    model->elements = aligned(end[0], GROUP_ALIGN);
    model->frozen_bytes = aligned(end[1], FROZEN_ALIGN);
}

void model_freeze(struct model *model, param_freezer *freezes, const void *context)
{
    for (size_t i = 0; i < model->param_count; i++) {
        struct param *p = &model->params[i];
        p->element = ELEMENT_FP32;
        p->frozen = freezes(context, p, &p->element);
        p->orthogonal = p->orthogonal && !p->frozen;
        assert(p->frozen || p->element == ELEMENT_FP32);
    }
    lay(model);
}

/* The last `count` tensors, as one matrix. */
static struct linear pack(const struct model *model, enum weight weight, int count)
{
    struct linear w = {.weight = weight, .parts = model->params + model->param_count - count, .count = count};
    w.cols = w.parts->cols;
    for (int i = 0; i < count; i++) w.rows += w.parts[i].rows;
    return w;
}

enum status model_init(struct model *model, const struct model_config *config, struct err *err)
{
    enum status status = model_config_check(config, err);
    if (status) return status;
    int L = config->num_layers, C = config->hidden_dim, F = config->intermediate_dim, HS = config->head_dim;
    int q = config->num_heads * HS, kv = config->num_kv_heads * HS, V = config->vocab_size;
    *model = (struct model){.config = *config, .classes.pad_token = -1};
    model->layers = arena_alloc_array(&model->arena, (size_t)L, sizeof *model->layers);
    size_t most = (size_t)L * (18 + 2 * MODEL_TARGETS) + 3; /* parameters, those of adapters included */
    model->params = arena_alloc_array(&model->arena, most, sizeof *model->params);
    if (!model->layers || !model->params) {
        model_release(model);
        return err_no_memory(err, "the description of %d layers", L);
    }
    model->embed = model_append(model, false, 0, PLACE_EMBEDDING, V, C, "model.embed_tokens.weight");
    if (config->num_labels)
        model_append(model, false, L, PLACE_HEAD, config->num_labels, C, "score.weight");
    else if (!config->tie_weights)
        model_append(model, false, L, PLACE_HEAD, V, C, "lm_head.weight");
    model->head = pack(model, WEIGHT_HEAD, 1);
    for (int l = 0; l < L; l++) {
        struct layer_params *p = &model->layers[l];
        p->window = model_window(config, l);
        append_to_layer(model, false, l, PLACE_QKV, q, C, "self_attn.q_proj.weight");
        append_to_layer(model, true, l, PLACE_QKV, kv, C, "self_attn.k_proj.weight");
        append_to_layer(model, true, l, PLACE_QKV, kv, C, "self_attn.v_proj.weight");
        p->qkv = pack(model, WEIGHT_QKV, 3);
        append_to_layer(model, false, l, PLACE_O, C, q, "self_attn.o_proj.weight");
        p->o = pack(model, WEIGHT_O, 1);
        append_to_layer(model, false, l, PLACE_GATE_UP, F, C, "mlp.gate_proj.weight");
        append_to_layer(model, true, l, PLACE_GATE_UP, F, C, "mlp.up_proj.weight");
        p->gate_up = pack(model, WEIGHT_GATE_UP, 2);
        append_to_layer(model, false, l, PLACE_DOWN, C, F, "mlp.down_proj.weight");
        p->down = pack(model, WEIGHT_DOWN, 1);
    }
    for (int l = 0; l < L; l++) {
        struct layer_params *p = &model->layers[l];
        p->attn_norm = append_to_layer(model, false, l, PLACE_ATTENTION_NORM, C, 0, "input_layernorm.weight");
        p->mlp_norm = append_to_layer(model, false, l, PLACE_FEED_FORWARD_NORM, C, 0,
                                      "post_attention_layernorm.weight");
        if (config->qkv_bias) {
            p->qkv.bias = append_to_layer(model, false, l, PLACE_QKV, q, 0, "self_attn.q_proj.bias");
            append_to_layer(model, true, l, PLACE_QKV, kv, 0, "self_attn.k_proj.bias");
            append_to_layer(model, true, l, PLACE_QKV, kv, 0, "self_attn.v_proj.bias");
        }
        if (config->o_bias)
            p->o.bias = append_to_layer(model, false, l, PLACE_O, C, 0, "self_attn.o_proj.bias");
        if (config->mlp_bias) {
            p->gate_up.bias = append_to_layer(model, false, l, PLACE_GATE_UP, F, 0, "mlp.gate_proj.bias");
            append_to_layer(model, true, l, PLACE_GATE_UP, F, 0, "mlp.up_proj.bias");
            p->down.bias = append_to_layer(model, false, l, PLACE_DOWN, C, 0, "mlp.down_proj.bias");
        }
        if (config->qk_norm) {
            p->q_norm = append_to_layer(model, false, l, PLACE_QK_NORM, HS, 0, "self_attn.q_norm.weight");
            p->k_norm = append_to_layer(model, false, l, PLACE_QK_NORM, HS, 0, "self_attn.k_norm.weight");
        }
    }
    model->final_norm = model_append(model, false, L, PLACE_FINAL_NORM, C, 0, "model.norm.weight");
    assert(model->param_count <= most);
    lay(model);
    return STATUS_OK;
}

void model_release(struct model *model)
{
    arena_release(&model->arena);
    *model = (struct model){0};
}

enum status model_set_classes(struct model *model, const struct classes *classes, struct err *err)
{
    size_t count = (size_t)model->config.num_labels;
    const char **names = arena_alloc_array(&model->arena, count, sizeof *names);
    bool copied = names != NULL;
    for (size_t i = 0; copied && i < count; i++)
        copied = (names[i] = arena_strdup(&model->arena, classes->names[i])) != NULL;
    if (!copied) return err_no_memory(err, "the names of %zu labels", count);
    model->classes = (struct classes){names, classes->pad_token};
    return STATUS_OK;
}

const struct param *model_find(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->param_count; i++)
        if (strcmp(model->params[i].name, name) == 0) return &model->params[i];
    return NULL;
}

bool param_is_adapter(const struct param *param)
{
    return text_ends_with(param->name, ".lora_A.weight") || text_ends_with(param->name, ".lora_B.weight");
}

/* Kaiming's uniform distribution with a = sqrt(5), as peft and torch's linear layers have it: within
 * ±1/sqrt(columns). */
static void initialise_adapter(const struct param *param, uint32_t which, uint64_t seed, size_t from,
                               size_t to, float *w)
{
    bool zero = text_ends_with(param->name, ".lora_B.weight");
    double bound = 1 / sqrt(param->cols);
    for (size_t j = from; j < to; j++) {
        struct philox_block r = philox4x32_10((uint32_t)(j / 4), (uint32_t)((j / 4) >> 32), which,
                                              0x6C6F7261u, (uint32_t)seed, (uint32_t)(seed >> 32));
        w[j - from] = zero ? 0 : (float)(bound * (2 * (r.word[j % 4] + 0.5) / 4294967296.0 - 1));
    }
}

void model_initialise_param(const struct model *model, const struct param *param, uint64_t seed, size_t from,
                            size_t to, float *w)
{
    uint32_t which = (uint32_t)(param - model->params);
    if (param_is_adapter(param)) {
        initialise_adapter(param, which, seed, from, to, w);
        return;
    }
    if (!param->cols) {
        bool norm = !text_ends_with(param->name, ".bias");
        for (size_t j = from; j < to; j++) w[j - from] = norm;
        return;
    }
    bool output =
        text_ends_with(param->name, "o_proj.weight") || text_ends_with(param->name, "down_proj.weight");
    double deviation = output ? 0.02 / sqrt(2.0 * model->config.num_layers) : 0.02;
    if (output && model->zero_outputs) {
        memset(w, 0, (to - from) * sizeof *w);
        return;
    }
    for (size_t j = from & ~(size_t)3; j < to; j += 4) { /* Box-Muller: four words make four normals */
        struct philox_block r = philox4x32_10((uint32_t)(j / 4), (uint32_t)((j / 4) >> 32), which,
                                              0x696E6974u, (uint32_t)seed, (uint32_t)(seed >> 32));
        for (int pair = 0; pair < 2; pair++) {
            double u = (r.word[2 * pair] + 0.5) / 4294967296.0,
                   angle = 2 * M_PI * r.word[2 * pair + 1] / 4294967296.0;
            double radius = deviation * sqrt(-2 * log(u));
            size_t k = j + 2 * (size_t)pair;
            if (k >= from && k < to) w[k - from] = (float)(radius * cos(angle));
            if (k + 1 >= from && k + 1 < to) w[k + 1 - from] = (float)(radius * sin(angle));
        }
    }
}

double model_flops_per_token(const struct model *model, double seq_len)
{
    const struct model_config *c = &model->config;
    bool untied = !c->tie_weights || c->num_labels;
    double n = (double)model->parameters, frozen = (double)model->frozen_parameters,
           keys = 0; /* over all layers */
    for (int l = 0; l < c->num_layers; l++) {
        int window = model->layers[l].window;
        keys += window > 0 && window < seq_len ? window : seq_len;
    }
    if (untied) n -= (double)model->embed->count;
    if (untied && model->embed->frozen) frozen -= (double)model->embed->count;
    return 6 * n - 2 * frozen + 12.0 * c->num_heads * c->head_dim * keys;
}
