/* See gguf.h. */
#include "core/model/gguf.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/half.h"
#include "core/base/text.h"
#include "core/model/gguf_metadata.h"
#include "core/model/gguf_tokenizer.h"

enum { ALIGNMENT = 32, BLOCK = 32 }; /* of tensor data in bytes; elements of Q8_0 */

/* The numbers of the format. */
static const struct {
    uint32_t tensor, file; /* ggml_type of a tensor, general.file_type */
} codes[GGUF_TYPES] = {
    [GGUF_F32] = {0, 0}, [GGUF_F16] = {1, 1}, [GGUF_BF16] = {30, 32}, [GGUF_Q8_0] = {8, 7}};

/* ---- the model ---- */

/* A tensor of the file. */
struct entry {
    char name[72];
    const struct safetensor *from; /* NULL: the factors of llama3's rotary frequencies */
    int rows, cols;                /* a vector has one row */
    int heads;                     /* rows are reordered per head; 0: they are not */
    bool matrix;
    enum gguf_type type;
    uint64_t offset, bytes;
};

struct writing {
    const char *folder, *path;
    enum gguf_type type;
    struct model model;
    const struct safetensors *weights;
    struct entry *entries;
    size_t count;
    uint64_t data_bytes;
    const struct progress *progress;
    struct err *err;
};

/* A Mistral without windows is a Llama. */
static const char *architecture_of(const struct model_config *c)
{
    enum model_kind kind = model_kind_of(c);
    return model_kind_word(kind == MODEL_MISTRAL ? MODEL_LLAMA : kind);
}

static enum status check_model(const struct writing *w)
{
    const struct model_config *c = &w->model.config;
    const char *architecture = architecture_of(c);
    if (c->rope_scaling == ROPE_LLAMA3 && strcmp(architecture, "llama") != 0)
        return err_set(w->err, STATUS_USAGE,
                       "%s: llama.cpp reads the rotary scaling \"llama3\" only in Llama models", w->folder);
    struct model_config plain = *c; /* the only yarn that llama.cpp reads from a file */
    plain.rope_beta_fast = 32, plain.rope_beta_slow = 1, plain.rope_truncate = true;
    plain.rope_attention_factor = 0;
    for (int i = 0; i < c->head_dim / 2 && c->rope_scaling == ROPE_YARN; i++)
        if (model_rotary_frequency(&plain, i) != model_rotary_frequency(c, i) ||
            fabs(model_rotary_scale(&plain) - model_rotary_scale(c)) > 1e-6)
            return err_set(
                w->err, STATUS_USAGE,
                "%s: llama.cpp reads the rotary scaling \"yarn\" only with beta_fast 32, beta_slow 1, "
                "whole pairs, and the attention factor that follows from the factor",
                w->folder);
    for (int l = 0; l < c->num_layers; l++)
        if (model_window(c, l) > 0 && model_window(c, l) < c->max_seq_len)
            return err_set(w->err, STATUS_USAGE,
                           "%s: llama.cpp does not compute the attention window of %d tokens in layer %d "
                           "(the window has no effect in texts of at most that length: set "
                           "max_position_embeddings = %d in config.json)",
                           w->folder, model_window(c, l), l, model_window(c, l));
    if (c->qk_norm && c->qkv_bias)
        return err_set(w->err, STATUS_USAGE,
                       "%s: llama.cpp has no model with both qk_norm (Qwen3) and qkv_bias (Qwen2)",
                       w->folder);
    return STATUS_OK;
}

static void put_model(struct gguf_metadata *m, const struct writing *w)
{
    const struct model_config *c = &w->model.config;
    const char *file = basename(w->path);
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
    gguf_put_text(m, "general.architecture", m->architecture);
    gguf_put_text(m, "general.name", name);
    gguf_put_u32(m, "general.file_type", codes[w->type].file);
    gguf_put_u32(m, "general.quantization_version", 2);
    gguf_put_u32(m, ".vocab_size", c->vocab_size);
    gguf_put_u32(m, ".context_length", c->max_seq_len);
    gguf_put_u32(m, ".embedding_length", c->hidden_dim);
    gguf_put_u32(m, ".block_count", c->num_layers);
    gguf_put_u32(m, ".feed_forward_length", c->intermediate_dim);
    gguf_put_u32(m, ".attention.head_count", c->num_heads);
    gguf_put_u32(m, ".attention.head_count_kv", c->num_kv_heads);
    gguf_put_u32(m, ".attention.key_length", c->head_dim);
    gguf_put_u32(m, ".attention.value_length", c->head_dim);
    gguf_put_f32(m, ".attention.layer_norm_rms_epsilon", c->norm_eps);
    gguf_put_u32(m, ".rope.dimension_count", c->head_dim);
    gguf_put_f32(m, ".rope.freq_base", c->rope_base);
    if (c->rope_scaling != ROPE_LINEAR && c->rope_scaling != ROPE_YARN) return;
    gguf_put_text(m, ".rope.scaling.type", rope_scaling_word(c->rope_scaling));
    gguf_put_f32(m, ".rope.scaling.factor", c->rope_factor);
    if (c->rope_scaling == ROPE_YARN)
        gguf_put_u32(m, ".rope.scaling.original_context_length", c->rope_original_len);
}

/* ---- tensors ---- */

/* "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight". */
static void name_tensor(const char *from, char *out, size_t size)
{
    static const struct {
        const char *from, *to;
    } names[] = {{"model.embed_tokens", "token_embd"},
                 {"model.norm", "output_norm"},
                 {"lm_head", "output"},
                 {"input_layernorm", "attn_norm"},
                 {"self_attn.q_proj", "attn_q"},
                 {"self_attn.k_proj", "attn_k"},
                 {"self_attn.v_proj", "attn_v"},
                 {"self_attn.o_proj", "attn_output"},
                 {"self_attn.q_norm", "attn_q_norm"},
                 {"self_attn.k_norm", "attn_k_norm"},
                 {"post_attention_layernorm", "ffn_norm"},
                 {"mlp.gate_proj", "ffn_gate"},
                 {"mlp.up_proj", "ffn_up"},
                 {"mlp.down_proj", "ffn_down"}};
    char block[24] = "";
    int layer, used = 0;
    if (sscanf(from, "model.layers.%d.%n", &layer, &used) == 1 && used) {
        snprintf(block, sizeof block, "blk.%d.", layer);
        from += used;
    }
    const char *kind = strrchr(from, '.'); /* ".weight" or ".bias" */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].from) == (size_t)(kind - from) &&
            memcmp(names[i].from, from, (size_t)(kind - from)) == 0) {
            snprintf(out, size, "%s%s%s", block, names[i].to, kind);
            return;
        }
    assert(!"every parameter of the model has a name in GGUF");
}

static uint64_t row_bytes(enum gguf_type type, int cols)
{
    uint64_t n = (uint64_t)cols;
    return type == GGUF_F32 ? 4 * n : type == GGUF_Q8_0 ? n / BLOCK * (2 + BLOCK) : 2 * n;
}

/* Places an entry behind the others. */
static void place(struct writing *w, struct entry *e)
{
    e->offset = w->data_bytes;
    e->bytes = (uint64_t)e->rows * row_bytes(e->type, e->cols);
    w->data_bytes += (e->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    w->count++;
}

static enum status lay_out(struct writing *w)
{
    const struct model *model = &w->model;
    const struct model_config *c = &model->config;
    bool reorder = strcmp(architecture_of(c), "llama") == 0;
    w->entries = calloc(model->param_count + 1, sizeof *w->entries);
    if (!w->entries) return err_no_memory(w->err, "writing %zu tensors", model->param_count);
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        struct entry *e = &w->entries[w->count];
        bool matrix = p->cols > 0, query = strstr(p->name, "q_proj"), key = strstr(p->name, "k_proj");
        *e = (struct entry){.from = safetensors_find(w->weights, p->name),
                            .rows = matrix || query || key ? p->rows : 1,
                            .cols = matrix         ? p->cols
                                    : query || key ? 1
                                                   : p->rows,
                            .heads = !reorder ? 0
                                     : query  ? c->num_heads
                                     : key    ? c->num_kv_heads
                                              : 0,
                            .matrix = matrix,
                            .type = matrix ? w->type : GGUF_F32};
        if (e->type == GGUF_Q8_0 && p->cols % BLOCK) e->type = GGUF_F16;
        name_tensor(p->name, e->name, sizeof e->name);
        place(w, e);
    }
    if (c->rope_scaling != ROPE_LLAMA3) return STATUS_OK;
    struct entry *e = &w->entries[w->count];
    *e = (struct entry){.name = "rope_freqs.weight", .rows = 1, .cols = c->head_dim / 2};
    place(w, e);
    return STATUS_OK;
}

static void put_entries(FILE *stream, const struct writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct entry *e = &w->entries[i];
        gguf_string(stream, e->name, strlen(e->name));
        gguf_u32(stream, e->matrix ? 2 : 1);
        gguf_u64(stream, (uint64_t)(e->matrix ? e->cols : e->rows * e->cols));
        if (e->matrix) gguf_u64(stream, (uint64_t)e->rows);
        gguf_u32(stream, codes[e->type].tensor);
        gguf_u64(stream, e->offset);
    }
}

/* ---- data ---- */

/* Row `row` of the file is this row of the tensor: of each head, first halves and second halves alternate. */
static int source_row(const struct entry *e, int row)
{
    if (!e->heads) return row;
    int width = e->rows / e->heads, head = row / width, at = row % width;
    return head * width + at % 2 * (width / 2) + at / 2;
}

static void read_row(const struct entry *e, const struct model_config *c, int row, float *out)
{
    if (!e->from) { /* llama.cpp divides the frequencies of the unscaled base by these */
        struct model_config plain = *c;
        plain.rope_scaling = ROPE_DEFAULT;
        for (int i = 0; i < e->cols; i++)
            out[i] = (float)(model_rotary_frequency(&plain, i) / model_rotary_frequency(c, i));
        return;
    }
    size_t columns = (size_t)e->cols;
    safetensor_read(e->from, (size_t)source_row(e, row) * columns, columns, out);
}

static unsigned char *put_u16(unsigned char *to, uint16_t value)
{
    *to++ = (unsigned char)value;
    *to++ = (unsigned char)(value >> 8);
    return to;
}

static unsigned char *quantise_block(unsigned char *to, const float *x)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++) most = fmaxf(most, fabsf(x[i]));
    float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    to = put_u16(to, f16_of_float(scale));
    for (int i = 0; i < BLOCK; i++) *to++ = (unsigned char)(signed char)roundf(x[i] * inverse);
    return to;
}

/* Returns false if a finite number is too large for the type. */
static bool encode_row(enum gguf_type type, const float *x, int n, unsigned char *to)
{
    bool fits = true;
    for (int i = 0; i < n && type == GGUF_Q8_0; i += BLOCK) to = quantise_block(to, x + i);
    for (int i = 0; i < n && type != GGUF_Q8_0; i++) {
        uint32_t bits = htole32(float_bits(x[i]));
        uint16_t narrow = type == GGUF_F16 ? f16_of_float(x[i]) : bf16_of_float(x[i]);
        if (type == GGUF_F16 && (narrow & 0x7c00) == 0x7c00 && isfinite(x[i])) fits = false;
        if (type == GGUF_F32)
            to = (unsigned char *)memcpy(to, &bits, sizeof bits) + sizeof bits;
        else
            to = put_u16(to, narrow);
    }
    return fits;
}

static enum status write_data(FILE *stream, const struct writing *w, const struct entry *e,
                              struct progress_meter *meter)
{
    static const unsigned char zeros[ALIGNMENT];
    size_t bytes = (size_t)row_bytes(e->type, e->cols);
    float *row = malloc((size_t)e->cols * sizeof *row);
    unsigned char *encoded = malloc(bytes);
    enum status status = row && encoded ? STATUS_OK : err_no_memory(w->err, "writing %s", e->name);
    for (int r = 0; !status && r < e->rows; r++) {
        read_row(e, &w->model.config, r, row);
        if (!encode_row(e->type, row, e->cols, encoded))
            status = err_set(w->err, STATUS_USAGE,
                             "%s: %s has a number beyond 65504, which F16 cannot hold (write bf16 or f32)",
                             e->from->path, e->from->name);
        else if (fwrite(encoded, 1, bytes, stream) != bytes)
            status = STATUS_IO;
        else
            status = progress_advance(meter, bytes, w->err);
    }
    free(row);
    free(encoded);
    size_t gap = (size_t)(-e->bytes % ALIGNMENT);
    if (!status && fwrite(zeros, 1, gap, stream) != gap) status = STATUS_IO;
    return status;
}

/* ---- the file ---- */

/* Header, metadata and the list of tensors, in memory: the header has their numbers. */
static enum status make_head(const struct writing *w, char **head, size_t *size)
{
    char *text = NULL;
    size_t length = 0;
    enum status status = STATUS_OK;
    struct gguf_metadata m = {.stream = open_memstream(&text, &length),
                              .architecture = architecture_of(&w->model.config)};
    FILE *stream = open_memstream(head, size);
    if (m.stream) {
        put_model(&m, w);
        status = gguf_put_tokenizer(&m, w->folder, w->model.config.vocab_size, w->err);
        put_entries(m.stream, w);
    }
    bool made = text_stream_end(m.stream, &text);
    if (made && stream) {
        fwrite("GGUF", 1, 4, stream);
        gguf_u32(stream, 3); /* version */
        gguf_u64(stream, w->count);
        gguf_u64(stream, m.count);
        fwrite(text, 1, length, stream);
        for (size_t at = 24 + length; at % ALIGNMENT; at++) putc(0, stream);
    }
    free(text);
    made = text_stream_end(stream, head) && made;
    return made || status ? status : err_no_memory(w->err, "the head of the file");
}

static enum status write_file(const struct writing *w, const char *path, int64_t *bytes)
{
    char *head = NULL;
    size_t size = 0;
    struct file_out out;
    struct progress_meter meter = {w->progress, "writing", w->data_bytes, 0, 0};
    enum status status = make_head(w, &head, &size);
    if (!status && !(status = file_out_replace(&out, path, "GGUF", w->err))) {
        int error = 0;
        if (fwrite(head, 1, size, out.stream) != size) status = STATUS_IO;
        for (size_t i = 0; !status && i < w->count; i++)
            status = write_data(out.stream, w, &w->entries[i], &meter);
        if (status == STATUS_IO) error = errno ? errno : EIO;
        status = file_out_close(&out, error ? STATUS_OK : status, error, w->err);
        *bytes = (int64_t)(size + w->data_bytes);
    }
    free(head);
    return status;
}

enum status gguf_write(const char *folder, const struct model_config *config,
                       const struct safetensors *weights, const char *path, enum gguf_type type,
                       const struct progress *progress, int64_t *bytes, struct err *err)
{
    struct writing w = {
        .folder = folder, .path = path, .type = type, .weights = weights, .progress = progress, .err = err};
    enum status status = model_init(&w.model, config, err);
    if (!status) status = check_model(&w);
    if (!status) status = lay_out(&w);
    if (!status) status = write_file(&w, path, bytes);
    free(w.entries);
    model_release(&w.model);
    return status;
}
