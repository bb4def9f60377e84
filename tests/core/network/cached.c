/* See cached.h. */
#include "tests/core/network/cached.h"
#include "tests/cmocka.h"

/* cmocka wants the first three above */
#include <math.h>

#include "tests/core/network/rig.h"

enum { LLAMA, TIED, BIASES, QK_NORM, WIDTH, WINDOW };
enum { SLOTS = 3, LENGTH = 24, LONG = 300, PASS = 40 };

struct scene {
    struct rig rig, full; /* with the cache; another one in fp32 on the CPU, which computes everything */
    struct rig same;      /* computes everything as `rig` does, on the same table */
    bool bf16;
    int V, length;
    int32_t *tokens[SLOTS]; /* the sequences */
    float *want[SLOTS];     /* (length, V): the logits of `full` */
    float *other[SLOTS];    /* (length, V): of `same` */
    float *got;             /* (V) */
    double error, allowed;  /* squares of the differences from `want`: through the cache, and of `same` */
};

static struct model_config config_of(int kind, bool bf16)
{
    struct model_config c = rig_config();
    if (bf16) { /* its matrix products need sizes that are multiples of 8 */
        c.vocab_size = 24;
        c.hidden_dim = 16;
        c.head_dim = 8;
        c.intermediate_dim = 24;
    }
    c.max_seq_len = 512;
    c.tie_weights = kind == TIED;
    c.qkv_bias = kind == BIASES;
    c.qk_norm = kind == QK_NORM;
    if (kind == WIDTH) {
        c.num_heads = 6;
        c.num_kv_heads = 2;
        c.head_dim = bf16 ? 24 : 6;
    }
    return c;
}

/* Σ (got − want)²; want NULL: zeros */
static double squares(const float *got, const float *want, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += pow((double)got[i] - (want ? (double)want[i] : 0), 2);
    return sum;
}

/* All logits (length, V) of a sequence, by one pass. */
static void logits_of(struct rig *rig, const int32_t *tokens, int length, float *out)
{
    network_forward(&rig->network, (struct batch_view){.inputs = tokens, .B = 1, .T = length});
    network_logits(&rig->network, 0, length, out);
}

static void open_rig(struct rig *rig, const struct backend *backend, const struct model_config *config,
                     int kind, struct plan_input input)
{
    rig_open_input(rig, backend, config, input, "");
    if (kind == WINDOW) rig->model.layers[1].window = 5;
    network_weights_written(&rig->network);
    assert_int_equal(rig->backend->stream_wait(rig->network.stream, NULL), STATUS_OK);
}

static void open_scene(struct scene *s, const struct backend *backend, enum precision precision, int kind,
                       int length, int pass)
{
    bool bf16 = precision == PRECISION_BF16;
    struct model_config config = config_of(kind, bf16);
    struct plan_input whole = {.B = 1, .T = length}, cached = {.B = 1, .T = pass};
    *s = (struct scene){.bf16 = bf16, .V = config.vocab_size, .length = length};
    cached.cache_slots = SLOTS;
    cached.cache_length = length;
    open_rig(&s->full, NULL, &config, kind, whole);
    whole.precision = cached.precision = precision;
    open_rig(&s->same, backend, &config, kind, whole);
    open_rig(&s->rig, backend, &config, kind, cached);
    size_t n = (size_t)length * (size_t)s->V;
    s->got = malloc((size_t)s->V * sizeof *s->got);
    for (int i = 0; i < SLOTS; i++) {
        s->tokens[i] = malloc((size_t)length * sizeof *s->tokens[i]);
        s->want[i] = malloc(n * sizeof *s->want[i]);
        rig_tokens((uint64_t)i + 5, s->V, s->tokens[i], length);
        logits_of(&s->full, s->tokens[i], length, s->want[i]);
        s->other[i] = malloc(n * sizeof *s->other[i]);
        logits_of(&s->same, s->tokens[i], length, s->other[i]);
    }
}

/* One row's error in bf16 is a matter of chance, so all rows are judged together. */
static void close_scene(struct scene *s)
{
    if (s->bf16 && !(s->error <= 4 * s->allowed))
        fail_msg("the logits are off by %g, those without a cache by %g", sqrt(s->error), sqrt(s->allowed));
    for (int i = 0; i < SLOTS; i++) free(s->tokens[i]), free(s->want[i]), free(s->other[i]);
    free(s->got);
    rig_close(&s->rig);
    rig_close(&s->full);
    rig_close(&s->same);
}

/* The logits after row `row` of the last pass are those after token `at` of sequence `which`. */
static void expect_logits(struct scene *s, int row, int which, int at)
{
    size_t V = (size_t)s->V, from = (size_t)at * V;
    const float *want = s->want[which] + from;
    network_logits(&s->rig.network, row, 1, s->got);
    double apart = squares(s->got, want, V), size = squares(want, NULL, V);
    s->error += apart;
    s->allowed += squares(s->other[which] + from, want, V);
    if (!s->bf16 && !(apart <= 1e-10 * size)) /* nor NaN */
        fail_msg("sequence %d, token %d: the logits are off by %g", which, at, sqrt(apart / size));
}

/* Appends tokens [from, to) of a sequence to a slot in one go, and looks at the last one's logits. */
static void append(struct scene *s, int slot, int which, int from, int to)
{
    assert_int_equal(network_cached(&s->rig.network, slot), from);
    int row = network_append(&s->rig.network, slot, s->tokens[which] + from, to - from);
    assert_int_equal(network_cached(&s->rig.network, slot), to);
    expect_logits(s, row, which, to - 1);
}

void cached_pieces_agree(const struct backend *backend, enum precision precision, int kind)
{
    static const int pieces[] = {1, 2, 3, 5, 7, LENGTH};
    struct scene s;
    open_scene(&s, backend, precision, kind, LENGTH, LENGTH);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (int at = 0, to; at < LENGTH; at = to) {
            to = at + pieces[i] < LENGTH ? at + pieces[i] : LENGTH;
            append(&s, 1, 0, at, to);
        }
        network_truncate(&s.rig.network, 1, 0);
    }
    append(&s, 2, 1, 0, 9); /* a prompt, then token by token */
    for (int at = 9; at < LENGTH; at++) append(&s, 2, 1, at, at + 1);
    close_scene(&s);
}

void cached_mixture_agrees(const struct backend *backend, enum precision precision, int kind)
{
    static const int order[] = {0, 2, 0, 1, 1, 2, 0, 0, 0, 1, 2};
    enum { ROWS = sizeof order / sizeof *order };
    struct scene s;
    open_scene(&s, backend, precision, kind, LENGTH, LENGTH);
    append(&s, 0, 0, 0, 3);
    append(&s, 2, 2, 0, 11);
    for (int round = 0; round < 3; round++) {
        int32_t tokens[ROWS], slots[ROWS];
        int at[ROWS], next[SLOTS], count = ROWS - round * 3;
        for (int i = 0; i < SLOTS; i++) next[i] = network_cached(&s.rig.network, i);
        for (int i = 0; i < count; i++) {
            slots[i] = order[(i + round) % ROWS];
            at[i] = next[slots[i]]++;
            tokens[i] = s.tokens[slots[i]][at[i]];
        }
        network_append_rows(&s.rig.network, tokens, slots, count);
        for (int i = 0; i < count; i++) expect_logits(&s, i, slots[i], at[i]);
    }
    close_scene(&s);
}

void cached_reuse_agrees(const struct backend *backend, enum precision precision)
{
    struct scene s;
    open_scene(&s, backend, precision, LLAMA, LENGTH, LENGTH);
    for (int which = 0; which < SLOTS; which++) {
        append(&s, 0, which, 0, LENGTH - which);
        network_truncate(&s.rig.network, 0, 7); /* back to the seventh token, and on from there */
        append(&s, 0, which, 7, 8);
        append(&s, 0, which, 8, 20);
        network_truncate(&s.rig.network, 0, 0);
    }
    close_scene(&s);
}

void cached_long_sequence_agrees(const struct backend *backend, enum precision precision)
{
    struct scene s;
    open_scene(&s, backend, precision, WIDTH, LONG, PASS);
    append(&s, 0, 0, 0, 1);
    append(&s, 0, 0, 1, 270);
    append(&s, 1, 1, 0, 33);
    for (int at = 270; at < 275; at++) append(&s, 0, 0, at, at + 1);
    append(&s, 0, 0, 275, LONG);
    close_scene(&s);
}

void cached_decoding_agrees(const struct backend *backend, enum precision precision)
{
    struct scene s;
    open_scene(&s, backend, precision, WIDTH, LONG, PASS);
    network_replay_rows(&s.rig.network);
    append(&s, 0, 0, 0, 250);
    for (int at = 250; at < 260; at++) append(&s, 0, 0, at, at + 1);
    append(&s, 2, 1, 0, 3);
    for (int i = 0; i < 4; i++) {
        const int32_t tokens[] = {s.tokens[1][3 + i], s.tokens[0][260 + i]}, slots[] = {2, 0};
        network_append_rows(&s.rig.network, tokens, slots, 2);
        expect_logits(&s, 0, 1, 3 + i);
        expect_logits(&s, 1, 0, 260 + i);
    }
    network_truncate(&s.rig.network, 0, 255); /* back, and on with the graph of the shorter bound */
    for (int at = 255; at < 260; at++) append(&s, 0, 0, at, at + 1);
    close_scene(&s);
}
