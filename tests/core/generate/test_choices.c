/* Multiple choice: likelihoods equal those of the reference in double precision, however the texts pass
 * through the cache. */
#include <math.h>

#include "core/generate/choices.h"
#include "tests/cmocka.h"
#include "tests/core/network/reference_network.h"
#include "tests/core/network/rig.h"

enum { V = 256, LONGEST = 40 };

struct scene {
    struct rig rig;
    struct tokenizer *tokenizer; /* one token a byte */
    struct choice_scorer scorer;
    double *weights;
};

/* Passes of at most T tokens, a cache for `length`. */
static void open_scene(struct scene *s, int T, int length)
{
    struct model_config config = rig_config();
    struct plan_input input = {.B = 1, .T = T, .cache_slots = 1, .cache_length = length};
    struct err err = {0};
    config.vocab_size = V;
    rig_open_input(&s->rig, NULL, &config, input, "");
    assert_int_equal(tokenizer_open_bytes(&s->tokenizer, &err), STATUS_OK);
    if (choice_scorer_open(&s->scorer, &s->rig.network, s->tokenizer, &err)) fail_msg("%s", err.text);
    s->weights = malloc(s->rig.model.elements * sizeof *s->weights);
    for (size_t i = 0; i < s->rig.model.elements; i++) s->weights[i] = s->rig.network.weights[i];
}

static void close_scene(struct scene *s)
{
    free(s->weights);
    choice_scorer_close(&s->scorer);
    choice_scorer_close(&s->scorer); /* harmless twice */
    tokenizer_close(s->tokenizer);
    rig_close(&s->rig);
}

/* Σ ln p of the bytes of text[first..n), by the reference. */
static double reference(const struct scene *s, const char *text, int first, int n)
{
    int32_t inputs[LONGEST], targets[LONGEST];
    assert_in_range(n, 2, LONGEST);
    for (int i = 0; i + 1 < n; i++) {
        inputs[i] = (unsigned char)text[i];
        targets[i] = i + 1 < first ? -100 : (unsigned char)text[i + 1];
    }
    return -reference_loss(&s->rig.model, s->weights, inputs, targets, 1, n - 1, (struct rig_dropout){0},
                           NULL);
}

static struct choice_answer answer(struct scene *s, const struct question *q, double *likelihoods)
{
    struct choice_answer out;
    struct err err = {0};
    if (choice_scorer_answer(&s->scorer, q, &out, likelihoods, &err)) fail_msg("%s", err.text);
    return out;
}

static const struct question questions[] = {
    {"the quick brown", {" fox", " f", " foxes and geese", " zebra"}, 4, 0},
    {"the quick red", {" fox", "dish fox"}, 2, 0}, /* shares its beginning with the one before */
    {"x", {"y", "z", "x"}, 3, 0},
};

TEST_CASE(likelihoods_are_those_of_the_reference_in_passes_of_any_size)
{
    static const int sizes[] = {1, 3, 7, LONGEST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct scene s;
        open_scene(&s, sizes[i], LONGEST);
        for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
            const struct question *question = &questions[q];
            double got[4], best = -INFINITY, best_per_byte = -INFINITY;
            int likeliest = 0, likeliest_per_byte = 0;
            int64_t tokens = 0;
            struct choice_answer out = answer(&s, question, got);
            for (int c = 0; c < question->count; c++) {
                const char *choice = question->choices[c];
                char text[LONGEST + 1];
                snprintf(text, sizeof text, "%s%s", question->context, choice);
                double want = reference(&s, text, (int)strlen(question->context), (int)strlen(text));
                size_t bytes = strlen(choice) - (*choice == ' ');
                if (!(fabs(got[c] - want) < 1e-4)) fail_msg("%s: %.9g, not %.9g", text, got[c], want);
                if (want > best) best = want, likeliest = c;
                if (want / (double)bytes > best_per_byte)
                    best_per_byte = want / (double)bytes, likeliest_per_byte = c;
                tokens += (int64_t)strlen(choice);
            }
            assert_int_equal(out.likeliest, likeliest);
            assert_int_equal(out.likeliest_per_byte, likeliest_per_byte);
            assert_int_equal(out.tokens, tokens);
            assert_false(out.cut);
        }
        close_scene(&s);
    }
}

TEST_CASE(of_equal_choices_the_first_is_taken)
{
    struct scene s;
    const struct question q = {"x", {"y", "y", "y"}, 3, 0};
    open_scene(&s, 7, LONGEST);
    struct choice_answer out = answer(&s, &q, NULL);
    assert_int_equal(out.likeliest, 0);
    assert_int_equal(out.likeliest_per_byte, 0);
    close_scene(&s);
}

/* The weights are arbitrary, so it depends on the letter whether the two measures agree. */
TEST_CASE(a_longer_choice_can_win_per_byte)
{
    struct scene s;
    struct question q = {"abc", {"d", "efghijklmnop"}, 2, 0};
    double nats[2];
    int differ = 0;
    open_scene(&s, 16, LONGEST);
    for (char first = 'A'; first <= 'Z'; first++) {
        char one[] = {first, '\0'};
        q.choices[0] = one;
        struct choice_answer out = answer(&s, &q, nats);
        assert_int_equal(out.likeliest, nats[1] > nats[0]);
        assert_int_equal(out.likeliest_per_byte, nats[1] / 12 > nats[0]);
        differ += out.likeliest != out.likeliest_per_byte;
    }
    assert_true(differ > 0);
    close_scene(&s);
}

/* As lm-evaluation-harness has it; so both spellings score the same. */
TEST_CASE(a_blank_between_belongs_to_the_choice_wherever_it_is_written)
{
    struct scene s;
    const struct question before = {"one two ", {"three", "four"}, 2, 0};
    const struct question after = {"one two", {" three", " four"}, 2, 0};
    double a[2], b[2];
    open_scene(&s, 16, LONGEST);
    struct choice_answer of_before = answer(&s, &before, a), of_after = answer(&s, &after, b);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(&of_before, &of_after, sizeof of_before);
    close_scene(&s);
}

/* BOS comes before the context, so that even an empty one has a token that predicts the first of the choice.
 */
TEST_CASE(texts_begin_with_the_tokens_that_the_tokenizer_puts_before_them)
{
    static const struct question asked[] = {{"the ark", {" and", " of the Lord"}, 2, 0},
                                            {"", {"the ark", "Noah"}, 2, 0}};
    struct rig rig;
    struct tokenizer *tokenizer;
    struct choice_scorer scorer;
    struct err err = {0};
    if (tokenizer_open("tests/fixtures/tokenizer/llama2_style.json", &tokenizer, &err))
        fail_msg("%s", err.text);
    struct model_config config = rig_config();
    struct plan_input input = {.B = 1, .T = LONGEST, .cache_slots = 1, .cache_length = LONGEST};
    config.vocab_size = tokenizer_vocab_size(tokenizer);
    rig_open_input(&rig, NULL, &config, input, "");
    assert_int_equal(choice_scorer_open(&scorer, &rig.network, tokenizer, &err), STATUS_OK);
    double *weights = malloc(rig.model.elements * sizeof *weights);
    for (size_t i = 0; i < rig.model.elements; i++) weights[i] = rig.network.weights[i];
    for (int q = 0; q < 2; q++)
        for (int c = 0; c < 2; c++) {
            int32_t targets[LONGEST];
            double got[2];
            struct choice_answer out;
            struct token_list list = {0}, context = {0};
            char text[LONGEST];
            snprintf(text, sizeof text, "%s%s", asked[q].context, asked[q].choices[c]);
            tokenizer_encode_prompt(tokenizer, text, strlen(text), &list, &err);
            tokenizer_encode_prompt(tokenizer, asked[q].context, strlen(asked[q].context), &context, &err);
            assert_int_equal(list.ids[0], 1); /* <s> */
            for (size_t i = 0; i + 1 < list.count; i++)
                targets[i] = i + 1 < context.count ? -100 : (int32_t)list.ids[i + 1];
            double want = -reference_loss(&rig.model, weights, (const int32_t *)list.ids, targets, 1,
                                          (int)list.count - 1, (struct rig_dropout){0}, NULL);
            assert_int_equal(choice_scorer_answer(&scorer, &asked[q], &out, got, &err), STATUS_OK);
            if (!(fabs(got[c] - want) < 1e-4)) fail_msg("%s: %.9g, not %.9g", text, got[c], want);
            token_list_release(&list);
            token_list_release(&context);
        }
    free(weights);
    choice_scorer_close(&scorer);
    tokenizer_close(tokenizer);
    rig_close(&rig);
}

TEST_CASE(a_context_that_is_too_long_loses_its_beginning)
{
    struct scene s;
    const struct question q = {"0123456789abcdef", {"gh", "ijklm"}, 2, 0};
    double got[2];
    open_scene(&s, 8, 8);
    assert_true(answer(&s, &q, got).cut);
    assert_true(fabs(got[0] - reference(&s, "9abcdefgh", 7, 9)) < 1e-4);
    assert_true(fabs(got[1] - reference(&s, "cdefijklm", 4, 9)) < 1e-4);
    close_scene(&s);
}

TEST_CASE(what_cannot_be_scored_is_named)
{
    static const struct {
        struct question question;
        int vocab_size, most;
        const char *why;
    } bad[] = {
        {{"", {"a", "b"}, 2, 0}, V, 8, "\"context\" must have a text"},
        {{" ", {"a", "b"}, 2, 0}, V, 8, "\"context\" must have a text"},
        {{"a", {"b", "123456789"}, 2, 0}, V, 8, "\"choices\"[1] has 9 tokens"},
        {{"a", {"b", "z"}, 2, 0}, 'z', 8, "\"choices\"[1] or its context has the token 122"},
    };
    struct tokenizer *tokenizer;
    int tokens;
    assert_int_equal(tokenizer_open_bytes(&tokenizer, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {0};
        assert_int_equal(
            question_measure(&bad[i].question, tokenizer, bad[i].vocab_size, bad[i].most, &tokens, &err),
            STATUS_USAGE);
        if (!strstr(err.text, bad[i].why)) fail_msg("%s, not %s", err.text, bad[i].why);
    }
    assert_int_equal(question_measure(&questions[0], tokenizer, V, 16, &tokens, NULL), STATUS_OK);
    assert_int_equal(tokens, 15 + 16);
    tokenizer_close(tokenizer);
}

TEST_CASE(weights_that_are_not_numbers_are_no_answer)
{
    struct scene s;
    struct choice_answer out;
    struct err err = {0};
    open_scene(&s, 16, LONGEST);
    for (size_t i = 0; i < s.rig.model.elements; i++) s.rig.network.weights[i] = NAN;
    network_weights_written(&s.rig.network);
    assert_int_equal(choice_scorer_answer(&s.scorer, &questions[0], &out, NULL, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "\"choices\"[0] is not a number"));
    close_scene(&s);
}

TEST_MAIN()
