/* Checks the buffer lifetimes of a recorded walk: in a computing walk, all data in the shared workspace that
 * is no longer needed is set to NaN before each call. Losses and gradients must equal those of an undisturbed
 * walk, to the bit. */
#include "core/model/config.h"
#include "core/network/record.h"
#include "tests/cmocka.h"
#include "tests/core/network/plan_trial.h"
#include "tests/core/network/rig.h"

enum { BLOCK = 256, TRIALS = 60 };

struct spoiler {
    const struct network *network;
    const struct record *record;
    int call;      /* the one that comes */
    size_t next;   /* the first touch of it */
    size_t blocks; /* spoilt so far */
};

/* Whether the buffer's content is read from this touch on, before all of it is written anew. */
static bool is_needed(const struct record *record, enum buffer b, size_t from)
{
    for (size_t i = from; i < record->touch_count; i++) {
        const struct touch *t = &record->touches[i];
        if (t->buffer != b || t->access == ACCESS_SCRATCH) continue;
        if (t->access != ACCESS_WRITTEN) return true;
        bool also_read = false; /* by the same call */
        for (size_t k = i + 1; k < record->touch_count && record->touches[k].call == t->call; k++)
            also_read |= record->touches[k].buffer == b && record->touches[k].access == ACCESS_READ;
        return also_read || t->from > 0;
    }
    return false;
}

/* Used at once, and yet in one place? */
static void expect_apart(const struct network *net, const bool *used)
{
    const struct buffer_place *p = net->plan->places; /* of layer 0, which shares */
    const size_t *bytes = net->plan->bytes;
    for (int a = 0; a < BUFFERS; a++)
        for (int b = 0; used[a] && b < a; b++)
            if (used[b] && p[a].offset < p[b].offset + bytes[b] && p[b].offset < p[a].offset + bytes[a])
                fail_msg("%s and %s overlap", buffer_facts[a].name, buffer_facts[b].name);
}

static void spoil(void *context, const struct operation_call *call)
{
    struct spoiler *s = context;
    const struct network *net = s->network;
    size_t blocks = net->plan->category_bytes[PLAN_WORKSPACE] / BLOCK, i = 0;
    unsigned char *memory = net->memory[PLAN_WORKSPACE], *kept = calloc(blocks, 1);
    bool needed[BUFFERS], used[BUFFERS];
    (void)call;
    assert_non_null(kept);
    while (s->next < s->record->touch_count && s->record->touches[s->next].call < s->call) s->next++;
    for (int b = 0; b < BUFFERS; b++) used[b] = needed[b] = is_needed(s->record, (enum buffer)b, s->next);
    for (size_t k = s->next; k < s->record->touch_count && s->record->touches[k].call == s->call; k++)
        used[s->record->touches[k].buffer] = true; /* what it writes, too */
    expect_apart(net, used);
    for (i = 0; i < net->plan->buffer_count; i++) {
        const struct plan_buffer *b = &net->plan->buffers[i];
        bool shared =
            buffer_facts[b->buffer].kind == BUFFER_SHARED || buffer_facts[b->buffer].kind == BUFFER_LAYER;
        if (b->category == PLAN_WORKSPACE && (!shared || needed[b->buffer]))
            memset(kept + b->offset / BLOCK, 1, (b->bytes + BLOCK - 1) / BLOCK);
    }
    for (i = 0; i < blocks; i++) {
        if (kept[i]) continue;
        memset(memory + i * BLOCK, 0xFF, BLOCK);
        s->blocks++;
    }
    s->call++;
    free(kept);
}

/* A network on the CPU, and what a walk over it gives. */
struct walk {
    struct model model;
    struct plan plan;
    struct device *device;
    struct network network;
    struct step_result result;
    double loss;
    float logit; /* of the last pass over the cache */
};

static void walk_open(struct walk *w, const struct plan_trial *t)
{
    struct err err = {0};
    struct plan_input input = t->input;
    int32_t tokens[2 * 4 * 20];
    int N = input.B * input.T;
    *w = (struct walk){0};
    input.model = &w->model;
    input.micro_batches = 1;
    if (cpu_backend()->device_open(DEVICE_FIRST, 1, &w->device, &err)) fail_msg("%s", err.text);
    plan_trial_model(t, &w->model);
    if (plan_init(&w->plan, &input, &err)) fail_msg("%s: %s", t->story, err.text);
    if (network_open(&w->network, cpu_backend(), w->device, &w->model, &w->plan, &err))
        fail_msg("%s: %s", t->story, err.text);
    rig_weights(&w->model, 1, network_at(&w->network, BUFFER_WEIGHTS, 0)); /* of all ranks */
    for (size_t i = 0; i < w->model.frozen_bytes / sizeof(float); i++)     /* of adapters' base, in fp32 */
        ((float *)w->network.frozen)[i] = 0.05f * (float)((int)(i % 17) - 8);
    rig_tokens(7, t->config.vocab_size, tokens, 2 * N);
    memcpy(network_batch(&w->network, 0), tokens, 2 * (size_t)N * sizeof *tokens);
    int32_t *positions = network_at(&w->network, BUFFER_ROW_POSITIONS, 0); /* all rows are of slot 0 */
    for (int i = 0; input.cache_slots && i < N; i++) positions[i] = i % input.cache_length;
    if (input.moments)
        network_control(&w->network, (struct step_control){.seed = 5, .loss_scale = 1.0f / (float)N});
}

static void walk_run(struct walk *w, struct observer *observer)
{
    network_observe(&w->network, observer);
    if (w->plan.input.cache_slots) {
        network_walk_rows(&w->network);
        w->logit = *(float *)network_at(&w->network, BUFFER_LOGITS, 0);
    }
    if (w->model.frozen_bytes) network_walk(&w->network, 0); /* as the record */
    network_walk(&w->network, w->network.plan->input.moments > 0 ? 0.5f : 0);
    network_observe(&w->network, NULL);
    if (w->plan.input.moments) network_result(&w->network, &w->result);
    w->loss = *(double *)network_at(&w->network, BUFFER_LOSS_SUM, 0);
}

static void walk_close(struct walk *w)
{
    network_close(&w->network);
    cpu_backend()->device_close(w->device);
    plan_release(&w->plan);
    model_release(&w->model);
}

static void expect_the_same(const struct plan_trial *t)
{
    struct walk plain, spoilt;
    struct record record;
    walk_open(&plain, t);
    walk_open(&spoilt, t);
    assert_int_equal(record_init(&record, &spoilt.plan, NULL), STATUS_OK);
    struct spoiler spoiler = {.network = &spoilt.network, .record = &record};
    struct observer observer = {.note = spoil, .context = &spoiler};
    walk_run(&plain, NULL);
    walk_run(&spoilt, &observer);
    assert_int_equal(spoiler.call, record.calls);
    assert_true(spoiler.blocks > 0);
    if (!(spoilt.logit == plain.logit && spoilt.loss == plain.loss &&
          spoilt.result.loss_sum == plain.result.loss_sum && plain.loss > 0))
        fail_msg("%s: losses %g and %g, not %g and %g; a logit %g, not %g", t->story, spoilt.loss,
                 spoilt.result.loss_sum, plain.loss, plain.result.loss_sum, spoilt.logit, plain.logit);
    if (t->input.moments &&
        memcmp(spoilt.network.gradients, plain.network.gradients, plain.model.elements * sizeof(float)) != 0)
        fail_msg("%s: the gradients differ", t->story);
    record_release(&record);
    walk_close(&plain);
    walk_close(&spoilt);
}

TEST_CASE(what_no_later_operation_reads_may_be_spoilt)
{
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct plan_trial trial;
        plan_trial_draw(seed, true, &trial);
        expect_the_same(&trial);
    }
}

/* More rows than a chunk of the loss has, and a tail: the gradient of the stream is written in pieces. */
TEST_CASE(pieces_of_the_loss_keep_what_the_others_have_written)
{
    for (int loss = PLAN_LOSS_FUSED; loss <= PLAN_LOSS_PLAIN; loss++) {
        struct plan_trial trial = {.config = rig_config(), .story = "pieces"};
        trial.input = (struct plan_input){
            .B = 4, .T = 20, .moments = 2, .loss = (enum plan_loss)loss, .host_counts = true};
        expect_the_same(&trial);
    }
}

/* The test itself works: a walk whose needed data is set to NaN gives another result. */
TEST_CASE(spoiling_what_is_needed_is_noticed)
{
    struct plan_trial trial = {.config = rig_config(), .story = "planted"};
    trial.input = (struct plan_input){.B = 3, .T = 7, .moments = 2, .host_counts = true};
    struct walk w;
    struct record record;
    walk_open(&w, &trial);
    assert_int_equal(record_init(&record, &w.plan, NULL), STATUS_OK);
    int planted = 0;
    for (size_t i = 0; i < record.touch_count;
         i++) { /* the gradient of the stream is not added to, but written */
        struct touch *t = &record.touches[i];
        if (t->buffer != BUFFER_DX || t->access != ACCESS_ADDED) continue;
        t->access = ACCESS_WRITTEN;
        planted++;
    }
    assert_true(planted > 0);
    struct spoiler spoiler = {.network = &w.network, .record = &record};
    struct observer observer = {.note = spoil, .context = &spoiler};
    walk_run(&w, &observer);
    assert_true(w.result.clip.norm != w.result.clip.norm || w.result.clip.scale == 0);
    record_release(&record);
    walk_close(&w);
}

/* A lifetime that is cut short lets two buffers overlap that are needed at once. */
TEST_CASE(a_conflict_that_is_forgotten_makes_buffers_overlap)
{
    struct plan_trial trial = {.config = rig_config()};
    struct walk w;
    struct record record;
    uint64_t conflicts[BUFFERS];
    trial.input = (struct plan_input){.B = 3, .T = 7, .moments = 2, .host_counts = true};
    walk_open(&w, &trial);
    assert_int_equal(record_init(&record, &w.plan, NULL), STATUS_OK);
    record_conflicts(&record, conflicts);
    assert_memory_equal(conflicts, w.plan.conflicts, sizeof conflicts);
    assert_true(conflicts[BUFFER_DX] >> BUFFER_BRANCH & 1);
    assert_true(conflicts[BUFFER_NORM] >> BUFFER_LOGITS & 1);
    assert_false(conflicts[BUFFER_DATTN] >> BUFFER_LOGITS & 1);
    assert_false(conflicts[BUFFER_NORM] >> BUFFER_DATTN & 1);
    for (int i = record.touch_count - 1; i >= 0; i--) /* as if the last norm's backward pass did not follow */
        if (record.touches[i].buffer == BUFFER_DX) record.touches[i].access = ACCESS_SCRATCH;
    record_conflicts(&record, conflicts);
    assert_true(__builtin_popcountll(conflicts[BUFFER_DX]) <
                __builtin_popcountll(w.plan.conflicts[BUFFER_DX]));
    record_release(&record);
    walk_close(&w);
}

/* Lifetimes of hand-made records: buffers NORM, ACT, DX, each of 16 bytes. */
static uint64_t conflicts_of(struct touch *touches, int count, enum buffer b)
{
    struct record record = {.touches = touches, .touch_count = count};
    uint64_t conflicts[BUFFERS];
    record_conflicts(&record, conflicts);
    return conflicts[b];
}

#define BIT(buffer) ((uint64_t)1 << BUFFER_##buffer)

TEST_CASE(a_content_lives_from_its_writing_to_its_last_reading)
{
    struct touch touches[] = {
        {0, BUFFER_NORM, ACCESS_WRITTEN, 0, 16}, {1, BUFFER_ACT, ACCESS_WRITTEN, 0, 16},
        {1, BUFFER_NORM, ACCESS_READ, 0, 16},    {2, BUFFER_DX, ACCESS_WRITTEN, 0, 16},
        {2, BUFFER_ACT, ACCESS_READ, 0, 16},     {3, BUFFER_NORM, ACCESS_WRITTEN, 0, 16},
        {4, BUFFER_NORM, ACCESS_READ, 0, 16}};
    assert_int_equal(conflicts_of(touches, 7, BUFFER_NORM), BIT(ACT)); /* dead while DX is there */
    assert_int_equal(conflicts_of(touches, 7, BUFFER_ACT), BIT(NORM) | BIT(DX));
    touches[5].access = ACCESS_ADDED; /* what was there is read */
    assert_int_equal(conflicts_of(touches, 7, BUFFER_NORM), BIT(ACT) | BIT(DX));
    assert_int_equal(conflicts_of(touches, 6, BUFFER_NORM), BIT(ACT) | BIT(DX)); /* also as its last use */
}

TEST_CASE(what_is_written_in_pieces_lives_from_the_first_one)
{
    struct touch touches[] = {{0, BUFFER_DX, ACCESS_WRITTEN, 0, 16},   {1, BUFFER_DX, ACCESS_READ, 0, 16},
                              {2, BUFFER_NORM, ACCESS_WRITTEN, 0, 8},  {3, BUFFER_ACT, ACCESS_SCRATCH, 0, 16},
                              {4, BUFFER_NORM, ACCESS_WRITTEN, 8, 16}, {5, BUFFER_NORM, ACCESS_READ, 0, 16}};
    assert_int_equal(conflicts_of(touches, 6, BUFFER_NORM), BIT(ACT));
    touches[5].from = 8; /* the first piece is not read: the second is the beginning */
    assert_int_equal(conflicts_of(touches, 6, BUFFER_NORM), 0);
}

TEST_MAIN()
