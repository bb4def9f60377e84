/* Sampling: which tokens may be drawn and how often, against the distribution computed from the definitions.
 */
/* cmocka wants the four above first */
#include <math.h>

#include "core/generate/sampling.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { V = 256, DRAWS = 4000 };

static float logits[V];
static struct sampler sampler;

static int open_sampler(void **state)
{
    (void)state;
    for (int v = 0; v < V; v++) logits[v] = (float)(12 * rig_uniform(5, (uint64_t)v) - 6);
    return sampler_open(&sampler, V, NULL) ? -1 : 0;
}

static int close_sampler(void **state)
{
    (void)state;
    sampler_close(&sampler);
    sampler_close(&sampler); /* harmless twice */
    return 0;
}

#define TEST(name) TEST_CASE_WITH(name, open_sampler, close_sampler)

struct likely {
    double p;
    uint32_t token;
};

static int likeliest_first(const void *a, const void *b)
{
    const struct likely *x = a, *y = b;
    return x->p < y->p ? 1 : x->p > y->p ? -1 : x->token < y->token ? -1 : 1;
}

/* The distribution of `sampling`; returns the number of tokens that it leaves. */
static int expected(const struct sampling *sampling, double *p)
{
    struct likely sorted[V];
    double sum = 0, kept = 0;
    int count = sampling->top_k && sampling->top_k < V ? sampling->top_k : V, left = 0;
    for (int v = 0; v < V; v++) {
        double logit = logits[v], penalty = sampling->repetition_penalty ? sampling->repetition_penalty : 1;
        if (sampler.seen[v] != SEEN_NEVER) logit = logit > 0 ? logit / penalty : logit * penalty;
        if (sampler.seen[v] == SEEN_IN_TEXT) logit -= sampling->presence_penalty;
        sorted[v] = (struct likely){exp(logit / sampling->temperature), (uint32_t)v};
    }
    qsort(sorted, V, sizeof *sorted, likeliest_first);
    for (int i = 0; i < count; i++) sum += sorted[i].p;
    memset(p, 0, V * sizeof *p);
    while (left < count && kept < sampling->top_p * sum) kept += sorted[left++].p;
    while (left > 1 && sorted[left - 1].p < sampling->min_p * sorted[0].p) kept -= sorted[--left].p;
    for (int i = 0; i < left; i++) p[sorted[i].token] = sorted[i].p / kept;
    return left;
}

/* Draws with many indices: no token outside the support, and every frequency within six standard deviations
 * (the draws are fixed, so this passes always or never). */
static void expect_distribution(struct sampling sampling, int least_support, int most_support)
{
    double p[V];
    int drawn[V] = {0}, support = expected(&sampling, p);
    for (int i = 0; i < DRAWS; i++) drawn[sampler_draw(&sampler, &sampling, logits, i)]++;
    assert_in_range(support, least_support, most_support);
    for (int v = 0; v < V; v++) {
        double mean = DRAWS * p[v], deviation = sqrt(mean * (1 - p[v]));
        if (p[v] == 0 && drawn[v]) fail_msg("token %d is outside the support of %d tokens", v, support);
        if (fabs(drawn[v] - mean) > 6 * deviation + 1)
            fail_msg("token %d: drawn %d times, expected %.1f", v, drawn[v], mean);
    }
}

TEST(plain_draws_follow_the_softmax)
{
    expect_distribution((struct sampling){.temperature = 1, .top_p = 1, .seed = 1}, V, V);
}

TEST(a_higher_temperature_flattens_the_distribution)
{
    expect_distribution((struct sampling){.temperature = 3, .top_p = 1, .seed = 2}, V, V);
    expect_distribution((struct sampling){.temperature = 0.5, .top_p = 1, .seed = 3}, V, V);
}

TEST(top_k_draws_among_the_k_likeliest_only)
{
    expect_distribution((struct sampling){.temperature = 2, .top_k = 5, .top_p = 1, .seed = 4}, 5, 5);
    expect_distribution((struct sampling){.temperature = 1, .top_k = 100000, .top_p = 1, .seed = 5}, V, V);
}

TEST(top_p_draws_from_the_smallest_set_that_reaches_it)
{
    expect_distribution((struct sampling){.temperature = 2, .top_p = 0.5, .seed = 6}, 3, V / 2);
    expect_distribution((struct sampling){.temperature = 2, .top_p = 0.9, .seed = 7}, 6, V - 1);
}

TEST(min_p_is_a_share_of_the_likeliest)
{
    expect_distribution((struct sampling){.temperature = 2, .top_p = 1, .min_p = 0.3, .seed = 8}, 3, V / 2);
    expect_distribution((struct sampling){.temperature = 2, .top_p = 1, .min_p = 1, .seed = 9}, 1, 1);
}

TEST(top_k_comes_before_top_p_and_min_p_last)
{
    expect_distribution((struct sampling){.temperature = 2, .top_k = 20, .top_p = 0.6, .seed = 8}, 2, 19);
    expect_distribution(
        (struct sampling){.temperature = 2, .top_k = 30, .top_p = 0.9, .min_p = 0.6, .seed = 10}, 2, 25);
    expect_distribution(
        (struct sampling){.temperature = 2, .top_k = 30, .top_p = 1, .min_p = 0.6, .seed = 11}, 2, 29);
}

TEST(repetition_is_penalised_in_prompt_and_text_presence_only_in_the_text)
{
    for (uint32_t v = 0; v < V; v += 3) sampler_note(&sampler, v, SEEN_IN_PROMPT);
    for (uint32_t v = 0; v < V; v += 4) sampler_note(&sampler, v, SEEN_IN_TEXT);
    sampler_note(&sampler, 0, SEEN_IN_PROMPT); /* stays in the text */
    expect_distribution(
        (struct sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1.5, .seed = 12}, V, V);
    expect_distribution((struct sampling){.temperature = 1, .top_p = 1, .presence_penalty = 2, .seed = 13}, V,
                        V);
    expect_distribution(
        (struct sampling){
            .temperature = 1, .top_p = 0.8, .repetition_penalty = 1.3, .presence_penalty = 0.5, .seed = 14},
        3, V - 1);
    sampler_begin(&sampler);
    for (int v = 0; v < V; v++) assert_int_equal(sampler.seen[v], SEEN_NEVER);
}

/* The candidates are put in order only as far as they are needed. */
TEST(the_k_likeliest_are_found_among_any_number)
{
    for (int n = 2; n <= 12; n++)
        for (int trial = 0; trial < 20; trial++) {
            for (int v = 0; v < V; v++) logits[v] = -INFINITY;
            for (int i = 0; i < n; i++)
                logits[20 * i + trial] = (float)rig_uniform(20, (uint64_t)(1000 * n + 20 * trial + i));
            for (int k = 1; k < n; k++) {
                const struct sampling sampling = {.temperature = 9, .top_k = k, .top_p = 1};
                for (int index = 0; index < 8 * n; index++) {
                    uint32_t token = sampler_draw(&sampler, &sampling, logits, index);
                    int before = 0;
                    for (int v = 0; v < V; v++) before += logits[v] > logits[token];
                    if (before >= k) fail_msg("of %d, number %d of the likeliest %d", n, before + 1, k);
                }
            }
        }
}

static uint32_t likeliest(void)
{
    uint32_t best = 0;
    for (uint32_t v = 1; v < V; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

TEST(the_narrowest_draws_are_greedy)
{
    static const struct sampling narrow[] = {{.temperature = 0, .top_p = 1},
                                             {.temperature = 1, .top_k = 1, .top_p = 1},
                                             {.temperature = 50, .top_k = 1, .top_p = 1},
                                             {.temperature = 1, .top_p = 1e-9},
                                             {.temperature = 1, .top_p = 0},
                                             {.temperature = 1e-9, .top_p = 1},
                                             {.temperature = 1e-310, .top_p = 1},
                                             {.temperature = 50, .top_p = 1, .min_p = 1}};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        for (int index = 0; index < 40; index++)
            assert_int_equal(sampler_draw(&sampler, &narrow[i], logits, index), likeliest());
}

TEST(of_equal_logits_the_lowest_token_is_the_likeliest)
{
    const struct sampling greedy = {.top_p = 1}, one = {.temperature = 1, .top_k = 1, .top_p = 1};
    logits[77] = logits[200] = logits[78] = 9;
    assert_int_equal(sampler_draw(&sampler, &greedy, logits, 0), 77);
    assert_int_equal(sampler_draw(&sampler, &one, logits, 0), 77);
}

TEST(a_draw_is_a_function_of_seed_and_index)
{
    struct sampling a = {.temperature = 1, .top_p = 1, .seed = 0x123456789ABCDEF}, b = a;
    int same = 0;
    b.seed++;
    for (int i = 0; i < 200; i++) {
        uint32_t token = sampler_draw(&sampler, &a, logits, i);
        assert_int_equal(sampler_draw(&sampler, &a, logits, i), token);
        same += sampler_draw(&sampler, &b, logits, i) == token;
    }
    assert_in_range(same, 0, 60);
}

TEST(logits_that_are_not_finite_are_never_drawn)
{
    const struct sampling plain = {.temperature = 1, .top_p = 1}, greedy = {.top_p = 1};
    for (int v = 0; v < V; v++)
        if (v != 5 && v != 9) logits[v] = v % 3 == 0 ? NAN : v % 3 == 1 ? INFINITY : -INFINITY;
    logits[5] = logits[9] = 1;
    for (int i = 0; i < 50; i++) {
        uint32_t token = sampler_draw(&sampler, i % 2 ? &plain : &greedy, logits, i);
        assert_true(token == 5 || token == 9);
        assert_int_equal(sampler_check(&sampler, NULL), STATUS_OK);
    }
    logits[5] = logits[9] = NAN;
    assert_int_equal(sampler_draw(&sampler, &plain, logits, 0), 0);
    assert_int_equal(sampler_check(&sampler, NULL), STATUS_CORRUPT);
}

TEST_MAIN()
