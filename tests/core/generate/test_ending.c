/* The end of a text: end tokens, a stop text, the length; and that nothing is shown which does not stay. */
/* cmocka wants the four above first */
#include <math.h>

#include "core/generate/ending.h"
#include "core/generate/inference.h"
#include "tests/cmocka.h"

static struct tokenizer *tokenizer; /* one token a byte */
static const struct special_tokens ends = {.bos = -1, .pad = -1, .eos = {3, 7}, .eos_count = 2};

static int open_bytes(void **state)
{
    (void)state;
    return tokenizer_open_bytes(&tokenizer, NULL) ? -1 : 0;
}

static int close_bytes(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

#define TEST(name) TEST_CASE_WITH(name, open_bytes, close_bytes)

/* Writes the bytes of `drawn` until the text ends; what was final at some time must stay. */
static struct growing_text write_bytes(const char *drawn, const char *stop, int64_t most)
{
    const struct ending ending = {&ends, stop, most, false};
    struct growing_text text = {0};
    char shown[256];
    size_t done = 0;
    for (; *drawn && !text.end; drawn++) {
        struct err err = {0};
        if (growing_text_add(&text, &ending, tokenizer, (unsigned char)*drawn, &err))
            fail_msg("%s", err.text);
        assert_in_range(text.final, done, text.n);
        if (done) assert_memory_equal(shown, text.bytes, done);
        done = text.final;
        if (done) memcpy(shown, text.bytes, done);
    }
    return text;
}

static void expect(const char *drawn, const char *stop, int64_t most, const char *wanted, enum end_reason end,
                   int64_t tokens)
{
    struct growing_text text = write_bytes(drawn, stop, most);
    assert_int_equal(text.end, end);
    assert_int_equal(text.n, strlen(wanted));
    if (text.n) assert_memory_equal(text.bytes, wanted, text.n);
    assert_int_equal(text.tokens, tokens);
    if (end) assert_int_equal(text.final, text.n);
    growing_text_release(&text);
}

TEST(each_end_token_ends_a_text_and_is_no_part_of_it)
{
    expect("ab\003cd", "", 99, "ab", END_TOKEN, 3);
    expect("\007", "", 99, "", END_TOKEN, 1);
}

TEST(a_stop_text_ends_it_wherever_the_tokens_cut_it)
{
    expect("one two. three", ". ", 99, "one two", END_STOP_TEXT, 9);
    expect("aaab", "aab", 99, "a", END_STOP_TEXT, 4);
    expect("stop", "stop", 99, "", END_STOP_TEXT, 4);
    expect("sto", "stop", 99, "sto", END_NOT_YET, 3);
}

TEST(the_beginning_of_a_stop_text_is_held_back)
{
    struct growing_text text = write_bytes("Yes.\n\nUse", "\n\nUser:", 99);
    assert_int_equal(text.final, 4);
    growing_text_release(&text);
    text = write_bytes("Yes.\n\nUsa", "\n\nUser:", 99); /* it was another word */
    assert_int_equal(text.final, 9);
    growing_text_release(&text);
}

TEST(half_a_character_is_held_back_until_the_end)
{
    struct growing_text text = write_bytes("a\xe4\xbd", "", 99);
    assert_int_equal(text.final, 1);
    growing_text_release(&text);
    expect("a\xe4\xbd", "", 3, "a\xe4\xbd", END_LENGTH, 3);
    expect("a\xe4\xbd\xa0", "", 99, "a\xe4\xbd\xa0", END_NOT_YET, 4);
}

TEST(a_text_ends_at_its_length_at_the_latest)
{
    expect("abcdef", "zzz", 4, "abcd", END_LENGTH, 4);
    expect("abcdef", "d", 4, "abc", END_STOP_TEXT, 4); /* both at once: the stop text is cut off */
}

TEST(measures_count_the_first_token_to_the_prompt)
{
    struct inference inference = {0};
    inference_begin(&inference, 10);
    struct inference_record none = inference_measure(&inference);
    assert_int_equal(none.new_tokens, 0);
    assert_true(isnan(none.time_to_first_token_ms) && isnan(none.decode_tokens_per_sec));
    for (int i = 0; i < 4; i++) assert_int_equal(inference_token(&inference, NULL), STATUS_OK);
    static const double seconds[] = {0.5, 0.03, 0.01, 0.02}; /* as if it had taken so long */
    memcpy(inference.latencies, seconds, sizeof seconds);
    inference.newest = inference.started + 0.56;
    struct inference_record r = inference_measure(&inference);
    assert_int_equal(r.prompt_tokens, 10);
    assert_int_equal(r.new_tokens, 4);
    assert_true(fabs(r.time_to_first_token_ms - 500) < 1e-9);
    assert_true(fabs(r.latency_median_ms - 20) < 1e-9);
    assert_true(fabs(r.latency_p95_ms - 30) < 1e-9);
    assert_true(fabs(r.prefill_tokens_per_sec - 20) < 1e-9);
    assert_true(fabs(r.decode_tokens_per_sec - 50) < 1e-6);
    assert_true(fabs(r.total_ms - 560) < 1e-6);
    inference_release(&inference);
}

TEST_MAIN()
