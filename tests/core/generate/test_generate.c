/* Generation: the likeliest tokens of the reference, prompts, and the window that slides over a long text. */
#include <math.h>

#include "core/base/file.h"
#include "core/generate/generate.h"
#include "tests/cmocka.h"
#include "tests/core/network/reference_network.h"
#include "tests/core/network/rig.h"

enum { V = 256 };

struct scene {
    struct rig rig;
    struct tokenizer *tokenizer;
    struct generator generator;
};

/* A cache of `most` tokens, and passes of at most T. */
static void open_scene_of_passes(struct scene *s, int T, int most, int vocab_size)
{
    struct model_config config = rig_config();
    struct plan_input input = {.B = 1, .T = T, .cache_slots = 1, .cache_length = most};
    struct err err = {0};
    config.vocab_size = vocab_size;
    rig_open_input(&s->rig, NULL, &config, input, "");
    assert_int_equal(tokenizer_open_bytes(&s->tokenizer, &err), STATUS_OK);
    if (generator_open(&s->generator, &s->rig.network, s->tokenizer, &err)) fail_msg("%s", err.text);
}

static void open_scene(struct scene *s, int T, int vocab_size)
{
    open_scene_of_passes(s, T, T, vocab_size);
}

static void close_scene(struct scene *s)
{
    generator_close(&s->generator);
    generator_close(&s->generator); /* harmless twice */
    tokenizer_close(s->tokenizer);
    rig_close(&s->rig);
}

static void start(struct scene *s, const char *prompt)
{
    struct err err = {0};
    if (generator_start(&s->generator, prompt, &err)) fail_msg("%s", err.text);
}

static void write_tokens(struct scene *s, struct sampling sampling, uint32_t *tokens, int count)
{
    start(s, "abc");
    for (int i = 0; i < count; i++) tokens[i] = generator_next(&s->generator, &sampling, i);
}

static const struct sampling greedy = {.temperature = 0, .top_p = 1};

TEST_CASE(greedy_takes_the_likeliest_token_of_the_reference)
{
    struct scene s;
    open_scene(&s, 16, V);
    size_t n = s.rig.model.elements;
    double *w = malloc(n * sizeof *w), *logits = malloc(16 * V * sizeof *logits);
    for (size_t i = 0; i < n; i++) w[i] = s.rig.network.weights[i];
    start(&s, "abc");
    for (int i = 0; i < 12; i++) {
        int32_t inputs[16], targets[16] = {0};
        int length = s.generator.length, best = 0;
        memcpy(inputs, s.generator.context, (size_t)length * sizeof *inputs);
        reference_loss(&s.rig.model, w, inputs, targets, 1, length, (struct rig_dropout){0}, logits);
        const double *last = logits + (length - 1) * V;
        for (int v = 1; v < V; v++)
            if (last[v] > last[best]) best = v;
        assert_int_equal(generator_next(&s.generator, &greedy, i), best);
    }
    free(w);
    free(logits);
    close_scene(&s);
}

TEST_CASE(greedy_is_the_same_every_time_and_ignores_the_seed)
{
    struct scene s;
    uint32_t a[40], b[40];
    struct sampling one = greedy, other;
    one.repetition_penalty = 4; /* of tokens in the same text */
    other = one;
    other.seed = 99;
    open_scene(&s, 16, V);
    write_tokens(&s, one, a, 40);
    write_tokens(&s, other, b, 40);
    assert_memory_equal(a, b, sizeof a);
    close_scene(&s);
}

TEST_CASE(a_full_context_drops_its_older_half_and_continues)
{
    static const int lengths[] = {1, 2, 3, 8, 13};
    for (int i = 0; i < 5; i++) {
        struct scene s;
        int T = lengths[i], length = 0;
        int32_t want[16];
        open_scene(&s, T, V);
        start(&s, "q");
        want[length++] = 'q';
        for (int k = 0; k < 60; k++) {
            uint32_t token = generator_next(&s.generator, &greedy, k);
            if (length == T) {
                length = T / 2;
                memmove(want, want + T - length, (size_t)length * sizeof *want);
            }
            want[length++] = (int32_t)token;
            assert_int_equal(s.generator.length, length);
            assert_memory_equal(s.generator.context, want, (size_t)length * sizeof *want);
        }
        close_scene(&s);
    }
}

TEST_CASE(a_long_prompt_keeps_its_end)
{
    struct scene s;
    open_scene(&s, 4, V);
    start(&s, "the end");
    assert_int_equal(s.generator.length, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(s.generator.context[i], " end"[i]);
    generator_next(&s.generator, &greedy, 0);
    close_scene(&s);
}

TEST_CASE(a_prompt_may_take_several_passes)
{
    struct scene whole, pieces;
    open_scene(&whole, 100, V);
    open_scene_of_passes(&pieces, 7, 100, V);
    start(&whole, "In the beginning was a prompt of forty");
    start(&pieces, "In the beginning was a prompt of forty");
    for (int i = 0; i < 100; i++) /* past a full context */
        assert_int_equal(generator_next(&pieces.generator, &greedy, i),
                         generator_next(&whole.generator, &greedy, i));
    close_scene(&whole);
    close_scene(&pieces);
}

TEST_CASE(an_empty_prompt_starts_from_a_newline)
{
    struct scene s;
    open_scene(&s, 4, V);
    start(&s, "");
    assert_int_equal(s.generator.length, 1);
    assert_int_equal(s.generator.context[0], '\n');
    close_scene(&s);
}

TEST_CASE(a_prompt_outside_the_vocabulary_is_refused)
{
    struct scene s;
    struct err err = {0};
    open_scene(&s, 8, 100);
    const uint32_t ids[] = {97, 100};
    int kept = 0;
    assert_int_equal(generator_start(&s.generator, "ad", &err), STATUS_USAGE); /* 97, 100 */
    assert_non_null(strstr(err.text, "token 100 is outside the model's vocabulary of 100"));
    err = (struct err){0};
    assert_int_equal(generator_set(&s.generator, ids, 2, &kept, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "token 100 is outside the model's vocabulary of 100"));
    start(&s, "ac"); /* the generator still works */
    generator_next(&s.generator, &greedy, 0);
    close_scene(&s);
}

TEST_CASE(a_prompt_without_a_token_is_refused)
{
    static const char json[] = /* it removes z */
        "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"z\"}, \"content\": \"\"},"
        " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"\\n\": 1}, \"merges\": [], \"unk_token\": "
        "\"a\"}}";
    char path[512];
    struct scene s;
    struct err err = {0};
    open_scene(&s, 8, V);
    tokenizer_close(s.tokenizer);
    snprintf(path, sizeof path, "%s/two.json", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(file_write_atomic(path, json, sizeof json - 1, &err), STATUS_OK);
    if (tokenizer_open_json(path, &s.tokenizer, &err)) fail_msg("%s", err.text);
    s.generator.tokenizer = s.tokenizer;
    assert_int_equal(generator_start(&s.generator, "zz", &err), STATUS_USAGE);
    assert_string_equal(err.text, "prompt: the tokenizer has no token for any part of it");
    start(&s, "");
    assert_int_equal(s.generator.context[0], 1);
    close_scene(&s);
}

TEST_CASE(a_broken_model_still_gives_a_token)
{
    struct scene s;
    struct sampling sampling = {.temperature = 1, .top_k = 3, .top_p = 0.9};
    open_scene(&s, 8, V);
    for (size_t i = 0; i < s.rig.model.elements; i++) s.rig.network.weights[i] = NAN;
    start(&s, "abc");
    for (int i = 0; i < 20; i++)
        assert_in_range(generator_next(&s.generator, i % 2 ? &sampling : &greedy, i), 0, V - 1);
    close_scene(&s);
}

TEST_MAIN()
