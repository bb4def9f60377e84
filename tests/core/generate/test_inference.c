/* The measures of inference, of times that are given here instead of taken from the clock. */
#include <math.h>

#include "core/generate/inference.h"
#include "tests/cmocka.h"

static void expect(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted))) fail_msg("%.9g, not %.9g", got, wanted);
}

/* Latencies of 1 to 20 ms, not sorted, after a first token that took 500 ms. */
TEST_CASE(each_measure_is_what_its_name_says)
{
    double latencies[21] = {0.5}, sum = 0.5;
    for (int i = 1; i <= 20; i++) sum += latencies[i] = (i * 7 % 20 + 1) * 1e-3;
    struct inference inference = {
        .prompt_tokens = 30, .started = 100, .newest = 100 + sum, .latencies = latencies, .count = 21};
    struct inference_record r = inference_measure(&inference);
    assert_int_equal(r.prompt_tokens, 30);
    assert_int_equal(r.new_tokens, 21);
    expect(r.time_to_first_token_ms, 500);
    expect(r.latency_median_ms, 10);
    expect(r.latency_p95_ms, 19);
    expect(r.prefill_tokens_per_sec, 60);
    expect(r.decode_tokens_per_sec, 20 / 0.21);
    expect(r.total_ms, 710);
}

TEST_CASE(what_was_not_measured_is_not_a_number)
{
    struct inference inference = {0};
    struct err err;
    inference_begin(&inference, 3);
    struct inference_record none = inference_measure(&inference);
    assert_int_equal(none.new_tokens, 0);
    assert_true(isnan(none.time_to_first_token_ms) && isnan(none.prefill_tokens_per_sec));
    assert_int_equal(inference_token(&inference, &err), STATUS_OK);
    struct inference_record one = inference_measure(&inference);
    assert_true(one.new_tokens == 1 && one.time_to_first_token_ms == one.total_ms);
    assert_true(isnan(one.latency_median_ms) && isnan(one.latency_p95_ms));
    assert_true(isnan(one.decode_tokens_per_sec));
    inference_release(&inference);
}

TEST_MAIN()
