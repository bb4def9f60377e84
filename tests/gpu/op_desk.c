/* See op_desk.h. */
#include "tests/gpu/op_desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "tests/gpu/warming.h"

enum { FEW = 64 }; /* numbers of a result: with fewer, its error varies much by chance */

static void require(enum status status, const struct err *err)
{
    if (!status) return;
    fprintf(stderr, "op_desk: %s\n", err->text);
    exit(1);
}

/* ---- bf16: the upper half of an fp32, rounded to nearest, ties to even ---- */

static uint16_t narrowed(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (uint16_t)((word + 0x7fffu + (word >> 16 & 1)) >> 16);
}

static float widened(uint16_t x)
{
    uint32_t word = (uint32_t)x << 16;
    float out;
    memcpy(&out, &word, sizeof out);
    return out;
}

/* ---- arrays ---- */

void *desk_put(struct desk *desk, const void *host, size_t bytes, size_t element)
{
    struct err err = {0};
    void *memory = NULL;
    size_t skew = (size_t)desk->shape.skew * element;
    require(desk->side->backend->mem_alloc(desk->side->device, bytes + skew, &memory, &err), &err);
    desk->memory[desk->count++] = memory;
    desk->side->backend->mem_upload((char *)memory + skew, host, bytes, desk->side->stream);
    require(desk->side->backend->stream_wait(desk->side->stream, &err), &err);
    return (char *)memory + skew;
}

/* n floats in [middle − spread, middle + spread): the same on every side. */
static float *drawn(struct desk *desk, size_t n, float middle, float spread)
{
    float *host = malloc((n + 1) * sizeof *host);
    uint32_t stream = desk->draws++;
    struct philox_block block = {0};
    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0) block = philox4x32_10((uint32_t)(i / 4), stream, 0, 0, desk->shape.seed, 0x6f7073u);
        host[i] = middle + spread * (2.0f * philox_uniform(block.word[i % 4]) - 1.0f);
    }
    return host;
}

float *desk_floats(struct desk *desk, size_t n, float middle, float spread)
{
    float *host = drawn(desk, n, middle, spread), *out = desk_put(desk, host, n * sizeof *host, sizeof *host);
    free(host);
    return out;
}

struct matrix desk_logits(struct desk *desk, float spread)
{
    struct op_shape s = desk->shape;
    int stride = s.seed % 2 ? s.V : (s.V + 63) / 64 * 64;
    void *at = desk_tensor(desk, (size_t)s.B * (size_t)s.T * (size_t)stride, 0, spread);
    return matrix_view(at, precision_element(desk->side->precision), stride);
}

void *desk_elements(struct desk *desk, size_t n, const float *values)
{
    uint16_t *narrow = malloc((n + 1) * sizeof *narrow);
    float *wide = malloc((n + 1) * sizeof *wide);
    bool rounded = desk->shape.precision == PRECISION_BF16;
    for (size_t i = 0; i < n; i++) {
        narrow[i] = narrowed(values[i]);
        wide[i] = rounded ? widened(narrow[i]) : values[i];
    }
    void *out = desk->side->precision == PRECISION_BF16
                    ? desk_put(desk, narrow, n * sizeof *narrow, sizeof *narrow)
                    : desk_put(desk, wide, n * sizeof *wide, sizeof *wide);
    free(narrow), free(wide);
    return out;
}

void *desk_tensor(struct desk *desk, size_t n, float middle, float spread)
{
    float *host = drawn(desk, n, middle, spread);
    void *out = desk_elements(desk, n, host);
    free(host);
    return out;
}

void *desk_nf4(struct desk *desk, size_t n, bool nested)
{
    float *x = calloc(n, sizeof *x), *scales = malloc(nf4_blocks(n) * sizeof *scales);
    uint8_t *stored = calloc(1, nf4_bytes(n, nested));
    for (size_t i = 0; i < n; i++)
        x[i] =
            philox_uniform(philox4x32_10((uint32_t)i, 0, 0, 0, desk->shape.seed, 0x6e6634u).word[0]) - 0.3f;
    nf4_quantise(stored, scales, x, n);
    if (nested)
        nf4_nest(stored + nf4_code_bytes(n), scales, nf4_mean(scales, n), n);
    else
        memcpy(stored + nf4_code_bytes(n), scales, nf4_blocks(n) * sizeof *scales);
    void *there = desk_put(desk, stored, nf4_bytes(n, nested), 16);
    free(x), free(scales), free(stored);
    return there;
}

int32_t *desk_tokens(struct desk *desk, size_t n, int below, bool ignored)
{
    int32_t *host = malloc((n + 1) * sizeof *host);
    uint32_t stream = desk->draws++;
    for (size_t i = 0; i < n; i++) {
        struct philox_block r = philox4x32_10((uint32_t)i, stream, 0, 0, desk->shape.seed, 0x746f6bu);
        /* half of them among few, so that tokens repeat */
        host[i] = (int32_t)(r.word[0] % (uint32_t)(r.word[1] & 1 && below > 3 ? 3 : below));
        if (ignored && r.word[2] % 5 == 0) host[i] = -100;
    }
    int32_t *out = desk_put(desk, host, n * sizeof *host, sizeof *host);
    free(host);
    return out;
}

/* All NaN. */
static void *poisoned(struct desk *desk, size_t bytes, size_t element)
{
    void *host = malloc(bytes + 1);
    memset(host, 0xff, bytes);
    void *out = desk_put(desk, host, bytes, element);
    free(host);
    return out;
}

void *desk_scratch(struct desk *desk, size_t bytes)
{
    return poisoned(desk, bytes, sizeof(float));
}

float *desk_blank(struct desk *desk, size_t n)
{
    return desk_scratch(desk, n * sizeof(float));
}

void *desk_blank_tensor(struct desk *desk, size_t n)
{
    size_t element = precision_bytes(desk->side->precision);
    return poisoned(desk, n * element, element);
}

struct desk desk_open(const struct op_side *side, struct op_shape shape, struct op_outcome *out)
{
    *out = (struct op_outcome){0};
    return (struct desk){.side = side, .shape = shape};
}

bool desk_is_reference(const struct desk *desk)
{
    return desk->shape.precision == PRECISION_BF16 && desk->side->precision != PRECISION_BF16;
}

void desk_round(struct desk *desk, void *tensor, size_t n)
{
    if (!desk_is_reference(desk)) return;
    float *values = malloc((n + 1) * sizeof *values);
    desk->side->backend->mem_download(values, tensor, n * sizeof *values, desk->side->stream);
    for (size_t i = 0; i < n; i++) values[i] = widened(narrowed(values[i]));
    desk->side->backend->mem_upload(tensor, values, n * sizeof *values, desk->side->stream);
    free(values);
}

struct step_control *desk_control(struct desk *d, struct step_control control)
{
    static const struct step_control blank = {0};
    struct step_control *out = desk_put(d, &blank, sizeof blank, sizeof blank.seed);
    d->side->backend->control_set(out, control, d->side->stream);
    return out;
}

struct clip_state *desk_clip(struct desk *d, float scale, int64_t updates)
{
    struct clip_state clip = {2.0f, scale, updates};
    return desk_put(d, &clip, sizeof clip, sizeof clip.updates);
}

struct update_range *desk_ranges(struct desk *d, size_t n, int *count)
{
    struct update_range ranges[] = {{0, 1, 0.1f}, {0, 0.5f, 0}, {0, 4, 0.1f}, {0, 1, 0}, {0, 2, 0.01f}};
    size_t at[] = {n / 3 + 1, n / 3 + 2, n / 2 + 1, n - n / 5 - 1, n};
    *count = 0;
    for (int i = 0; i < 5; i++) { /* small tensors have fewer */
        size_t from = *count ? ranges[*count - 1].end : 0;
        if (at[i] <= from || at[i] > n) continue;
        ranges[*count] = ranges[i];
        ranges[(*count)++].end = at[i];
    }
    return desk_put(d, ranges, (size_t)*count * sizeof *ranges, sizeof(size_t));
}

void desk_result(struct desk *desk, struct op_outcome *out, const char *name, const float *memory, size_t n,
                 double tolerance)
{
    float *values = malloc((n + 1) * sizeof *values);
    desk->side->backend->mem_download(values, memory, n * sizeof *values, desk->side->stream);
    out->outputs[out->count].name = name;
    out->outputs[out->count].values = values;
    out->outputs[out->count].n = n;
    out->outputs[out->count++].tolerance = tolerance;
}

void desk_tensor_result(struct desk *desk, struct op_outcome *out, const char *name, const void *memory,
                        size_t n, double tolerance)
{
    if (desk->side->precision == PRECISION_BF16) {
        uint16_t *narrow = malloc((n + 1) * sizeof *narrow);
        float *values = malloc((n + 1) * sizeof *values);
        desk->side->backend->mem_download(narrow, memory, n * sizeof *narrow, desk->side->stream);
        for (size_t i = 0; i < n; i++) values[i] = widened(narrow[i]);
        free(narrow);
        out->outputs[out->count].name = name;
        out->outputs[out->count].values = values;
        out->outputs[out->count].n = n;
        out->outputs[out->count++].tolerance = tolerance;
        return;
    }
    desk_result(desk, out, name, memory, n, tolerance);
    if (!desk_is_reference(desk)) return;
    int output = out->count - 1;
    struct op_outcome rounded = *out;
    rounded.outputs[output].values = malloc((n + 1) * sizeof(float));
    for (size_t i = 0; i < n; i++)
        rounded.outputs[output].values[i] = widened(narrowed(out->outputs[output].values[i]));
    double least = op_error(&rounded, out, output);
    out->outputs[output].tolerance = tolerance == 0 ? least : (n < FEW ? 3 : 2) * least + tolerance;
    free(rounded.outputs[output].values);
}

void desk_use_cudnn(struct desk *desk, struct attention_problem problem)
{
    const struct op_side *side = desk->side;
    struct err err = {0};
    if (!side->cudnn) return;
    require(warm_cudnn(side->backend, side->device, side->stream, problem, &desk->memory[desk->count], &err),
            &err);
    desk->count++;
}

void desk_close(struct desk *desk, struct op_outcome *out)
{
    out->status = desk->side->backend->stream_wait(desk->side->stream, &out->err);
    if (desk->side->cudnn) desk->side->backend->workspace_lend(desk->side->stream, NULL, 0);
    while (desk->count > 0) desk->side->backend->mem_free(desk->side->device, desk->memory[--desk->count]);
}
