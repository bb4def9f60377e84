/* The model: its sizes, the presets, and a record of each parameter under its Hugging Face name.
 *
 * Trainable parameters are in one flat arena of fp32 elements; gradients and moments have the same offsets.
 * Frozen parameters are in a second arena, each in a storage type of its own. In both, matrices come first,
 * then vectors (norms, biases); orthogonal matrices are behind both, so that only what is before them has a
 * second moment. q, k, v and gate, up are adjacent if they are in the same arena and of the same type, so
 * that one matrix product computes them. */
#ifndef ANNEAL_CORE_MODEL_MODEL_H
#define ANNEAL_CORE_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/model/choices.h"
#include "kernels/device/backend.h"

enum { CLASSES_MAX = 4096 };     /* of a classifier: a confusion matrix has their square */
enum { MODEL_LAYER_LIST = 256 }; /* bytes of a list of layers as text, its end included */
enum { MODEL_LAYERS_MAX = 1024, MODEL_TARGETS = 7 }; /* matrices of a layer that may have adapters */

struct model_config {
    int vocab_size;       /* V */
    int hidden_dim;       /* C */
    int num_layers;       /* L */
    int num_heads;        /* NH */
    int num_kv_heads;     /* NKV */
    int head_dim;         /* HS */
    int intermediate_dim; /* F */
    int max_seq_len;
    double rope_base;
    enum rope_scaling rope_scaling; /* this and the next eight: see model_rotary_frequency */
    double rope_factor;             /* linear, llama3 and yarn: at least 1 */
    double rope_low_freq_factor;    /* llama3, in turns over rope_original_len */
    double rope_high_freq_factor;   /* llama3, above the low one */
    int rope_original_len;          /* llama3 and yarn: tokens that the frequencies were made for */
    double rope_attention_factor;   /* yarn; 0: 0.1 · ln(rope_factor) + 1 */
    double rope_beta_fast;          /* yarn, in turns over rope_original_len */
    double rope_beta_slow;          /* yarn, at most the fast one */
    bool rope_truncate;             /* yarn */
    double norm_eps;
    bool tie_weights;   /* the output head is the embedding */
    bool qk_norm;       /* Qwen3 */
    bool qkv_bias;      /* Qwen2; Llama and Qwen3 with attention_bias */
    bool o_bias;        /* Llama and Qwen3 with attention_bias, with qkv_bias */
    bool mlp_bias;      /* Llama: on gate, up and down */
    int sliding_window; /* keys that a query sees, itself included; 0: all before it */
    char full_attention_layers[MODEL_LAYER_LIST]; /* layers without the window, from 0: "0-3,7" */
    enum model_kind kind;                         /* see model_kind_of */
    int num_labels;       /* classes of a classifier, whose head is score.weight; 0: a language model */
    enum pooling pooling; /* a classifier's */
};

/* Low-rank matrices beside the weights: see core/model/adapter.h. */
struct adapter_config {
    int rank; /* 0: the model has none, and the rest does not matter */
    double alpha;
    double dropout; /* of the adapters' input, while training */
    bool rslora;    /* the scale is alpha / sqrt(rank) instead of alpha / rank */
    bool train_norms, train_head, train_embedding; /* beside the adapters */
    uint8_t targets[MODEL_LAYERS_MAX];             /* of each layer: a bit for each enum adapter_target */
};

/* The model whose weights a model with adapters has. */
struct adapter_base {
    char folder[1024];
    uint64_t hash; /* adapter_base_hash; 0: unknown */
};

/* The sizes of a preset. */
struct model_config model_preset(enum preset preset);

/* The model_type that config.json has for these sizes: what `kind` says, or the one that computes them.
 * MODEL_AUTO: none does. */
enum model_kind model_kind_of(const struct model_config *config);

/* Whether a list of layers such as "0-3,7" names this one. */
bool model_list_names(const char *list, int layer);
/* STATUS_USAGE unless the list, the value of `key`, has numbers and ranges in ascending order below `layers`.
 */
enum status model_list_check(const char *list, int layers, const char *key, struct err *err);

/* The window of a layer's attention; 0: none. */
int model_window(const struct model_config *config, int layer);

/* STATUS_USAGE names the key of an impossible size (heads that do not divide, odd head_dim, overflow), or the
 * keys that no kind of model has together. */
enum status model_config_check(const struct model_config *config, struct err *err);

/* Radians by which pair i of a head rotates per position, in fp64:
 *
 *     default   f(i) = base^(−2i/HS), i from 0 to HS/2 − 1
 *     linear    f(i) / factor: positions are compressed
 *     llama3    waves shorter than original/high_freq_factor unchanged, waves longer than
 *               original/low_freq_factor divided by factor, a blend between (Meta, "The Llama 3 Herd of
 *               Models", 2024; computed as in transformers)
 *     yarn      pairs up to the one that makes beta_fast turns over the original length unchanged, pairs from
 *               the one that makes beta_slow turns on divided by factor, a linear blend over i between; with
 *               truncate, the two pairs are rounded outwards to whole numbers (Peng et al., "YaRN", 2023;
 *               computed as in transformers) */
double model_rotary_frequency(const struct model_config *config, int i);

/* The factor of the rotated queries and keys: 1, or yarn's attention factor. */
double model_rotary_scale(const struct model_config *config);
/* Whether two models of one head_dim rotate queries and keys in the same way. */
bool model_rotates_alike(const struct model_config *a, const struct model_config *b);

/* Places of a layer in which parameters are used, in the order of the forward pass. */
enum layer_place {
    PLACE_ATTENTION_NORM,
    PLACE_QKV, /* and its bias */
    PLACE_QK_NORM,
    PLACE_O,
    PLACE_FEED_FORWARD_NORM,
    PLACE_GATE_UP,
    PLACE_DOWN,
    PLACES
};
/* The embedding comes before all layers; the final norm and the head follow the last one, as places of layer
 * L. */
enum { PLACE_EMBEDDING = -1, PLACE_FINAL_NORM = 0, PLACE_HEAD = 1 };
static inline int param_place(int layer, int place)
{
    return layer * PLACES + place;
}

/* One tensor, under its Hugging Face name. */
struct param {
    char name[72];
    size_t count;         /* elements */
    size_t offset;        /* trainable: in elements, also of its gradient and moments; frozen: in bytes */
    enum element element; /* how its arena stores it; trainable: fp32 */
    int rows, cols;       /* (rows, cols); a vector has rows = its length and cols = 0 */
    int place;            /* where it is used first */
    bool packed;          /* adjacent to the previous tensor */
    bool frozen;
    bool orthogonal; /* trainable: updated by Muon, as a whole matrix (core/network/muon.h) */
};

enum weight { WEIGHT_HEAD, WEIGHT_QKV, WEIGHT_O, WEIGHT_GATE_UP, WEIGHT_DOWN, WEIGHTS };

/* Whether it is A or B of an adapter. */
bool param_is_adapter(const struct param *param);

/* The bytes of a parameter in its arena. */
static inline size_t param_bytes(const struct param *param)
{
    return element_storage(param->element, param->count);
}

/* Whether param[1] follows param[0] as an operand: it lies directly behind it in memory, in the same type.
 * Parameters in NF4 are operands of their own, so that only one at a time is dequantised. */
bool param_is_followed(const struct param *param);

/* A projection's weight (rows, cols): one matrix, or several, whose rows follow each other in memory if they
 * are in the same arena and of the same type. */
struct linear {
    enum weight weight;        /* for profiles */
    const struct param *parts; /* (count) */
    int count, rows, cols;
    const struct param *bias;      /* of as many parts; NULL: none */
    const struct adapter *adapter; /* NULL: none */
};

/* The adapters of a projection: of all its parts or of some. */
struct adapter {
    struct linear a;          /* (count · rank, cols): their matrices A, in the order of the parts */
    const struct param *b[3]; /* (count): B of each, (rows of its part, rank) */
    int first_row[3];         /* (count): of its part in the projection */
    int rank, count;
    float scale, dropout;
};

struct layer_params {
    const struct param *attn_norm;       /* (C) */
    struct linear qkv;                   /* ((NH+2*NKV)*HS, C): q_proj, k_proj, v_proj */
    const struct param *q_norm, *k_norm; /* (HS), only with qk_norm */
    int window;                          /* keys that a query sees, itself included; 0: all before it */
    struct linear o;                     /* (C, NH*HS) */
    const struct param *mlp_norm;        /* (C) */
    struct linear gate_up;               /* (2*F, C): gate_proj, up_proj */
    struct linear down;                  /* (C, F) */
};

/* The classes of a classifier. */
struct classes {
    const char **names; /* (num_labels) UTF-8, no two the same; NULL: not known */
    int pad_token; /* no text has this token, so that transformers may fill up batches with it; -1: none */
};

struct model {
    struct model_config config;
    struct classes classes;
    struct arena arena;   /* owns params, layers and the names of classes */
    struct param *params; /* in arena order */
    size_t param_count;
    struct layer_params *layers;    /* (L) */
    const struct param *embed;      /* (V, C) */
    struct linear head;             /* (V, C); the embedding when tied; of a classifier (num_labels, C) */
    const struct param *final_norm; /* (C) */
    struct adapter_config adapter;  /* rank 0: none */
    struct adapter_base base;       /* with adapters */
    int adapter_rows;               /* of A, packed, at most: the width of x Aᵀ; 0: no adapters */
    size_t elements;     /* of the trainable arena; packs start at multiples of 64, gaps stay zero */
    size_t elementwise;  /* those before the first orthogonal matrix; all: there is none */
    size_t orthogonal;   /* elements of the largest orthogonal matrix */
    int orthogonal_side; /* the largest of their shorter sides */
    size_t frozen_bytes; /* of the frozen arena; parts start at multiples of 256; 0: nothing is frozen */
    size_t nf4_largest;  /* elements of the largest NF4 parameter */
    int64_t parameters;  /* in both arenas, without the gaps */
    int64_t frozen_parameters;
    bool zero_outputs; /* for model_initialise_param: o_proj and down_proj begin as 0 */
    int lowest;        /* the first place of a trainable parameter: no gradient is needed before it */
};

/* Makes all parameters trainable. */
enum status model_init(struct model *model, const struct model_config *config, struct err *err);

/* For core/model/adapter.c: adds a parameter of this name, whose offset model_freeze sets; `packed` puts it
 * directly behind the previous one if they may be adjacent. */
const struct param *model_append(struct model *model, bool packed, int layer, int place, int rows, int cols,
                                 const char *format, ...) __attribute__((format(printf, 7, 8)));

/* Decides whether a parameter is frozen, and if so sets the type to store it in. The CPU computes with
 * matrices of fp32 or bf16; every device with vectors, and CUDA with matrices, of its stream's precision. */
typedef bool param_freezer(const void *context, const struct param *param, enum element *element);
/* Freezes the parameters that `freezes` selects and unfreezes all others; offsets in the arenas change. */
void model_freeze(struct model *model, param_freezer *freezes, const void *context);
void model_release(struct model *model); /* harmless on a zeroed struct */

/* Copies the classes of a classifier. */
enum status model_set_classes(struct model *model, const struct classes *classes, struct err *err);

const struct param *model_find(const struct model *model, const char *name);

/* Writes elements [from, to) of a parameter's fresh weights to w: normal(0, 0.02), residual projections times
 * 1/sqrt(2L), norms 1, biases 0; of an adapter, A uniform within ±1/sqrt(its columns), B 0. A pure function
 * of (seed, tensor, element). */
void model_initialise_param(const struct model *model, const struct param *param, uint64_t seed, size_t from,
                            size_t to, float *w);

/* Model FLOPs per trained token: 6N + 12·L·NH·HS·T, with N excluding the input embedding unless tied; in
 * layers with a window shorter than T that counts instead of T. A frozen parameter counts 4 instead of 6, as
 * its gradient is not computed. Of sequences of different length T is the mean over all tokens (task.h). */
double model_flops_per_token(const struct model *model, double seq_len);

#endif
