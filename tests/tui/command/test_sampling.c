/* The text that a model writes, by `generate` and while it trains: every key and option of sampling counts.
 */
#include <jansson.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void train_poet(struct stage *s)
{
    process_run(0, "train", s->config, "--name", "poet", "--train.total_steps=200", "--progress=none", NULL);
}

static char *write_text(const char *option, const char *seed)
{
    return process_output("generate", "poet", "--max-tokens=40", option, seed, NULL);
}

static void expect_same(const char *a, const char *b, bool same)
{
    char *x = write_text(a, "--seed=3"), *y = write_text(b, "--seed=3");
    if ((strcmp(x, y) == 0) != same) fail_msg("%s and %s give %s and %s", a, b, x, y);
}

STAGE_CASE(every_option_of_generate_counts, struct stage *s)
{
    train_poet(s);
    expect_same("--temperature=0", "--top-k=1", true);
    expect_same("--temperature=0", "--top-p=0.000001", true); /* at least one is left */
    expect_same("--temperature=0", "--temperature=0.01", true);
    expect_same("--temperature=0.8", "--temperature=20", false);
    expect_same("--top-k=50", "--top-k=2", false);
    expect_same("--top-p=1", "--top-p=0.3", false);
    expect_same("--temperature=0.8", "--top-k=50", true); /* the defaults, said */
    expect_same("--prompt=the ", "--prompt=and ", false);
    char *defaults = process_output("generate", "poet", "--max-tokens=40", NULL);
    char *said = write_text("--prompt=\n", "--seed=1");
    assert_string_equal(defaults, said);
}

/* So hot that all which may be drawn are about as likely: one more or less moves every draw. */
STAGE_CASE(the_fifty_likeliest_are_drawn_among_by_default, struct stage *s)
{
    static const char *const said[] = {"--top-k=49", "--top-k=50", "--top-k=51"};
    train_poet(s);
    char *defaults = process_output("generate", "poet", "--max-tokens=40", "--temperature=50", NULL);
    for (int i = 0; i < 3; i++) {
        char *text = process_output("generate", "poet", "--max-tokens=40", "--temperature=50", said[i], NULL);
        if ((strcmp(text, defaults) == 0) != (i == 1))
            fail_msg("%s gives %s, not %s", said[i], text, defaults);
    }
}

/* A terminal must not see them, a program may. */
STAGE_CASE(json_keeps_control_characters, struct stage *s)
{
    train_poet(s);
    char *out =
        process_output("generate", "poet", "--prompt=a\r\x1b[2J\x7f", "--max-tokens=3", "--json", NULL);
    for (const char *c = out; *c; c++) assert_true((unsigned char)*c >= ' ' || *c == '\n');
    json_t *json = stage_json(out);
    assert_string_equal(stage_text(json, "prompt"), "a\r\x1b[2J\x7f");
}

STAGE_CASE(a_prompt_longer_than_the_model_continues_its_end_and_says_so, struct stage *s)
{
    char prompt[3100] = "--prompt=";
    process_run(0, "train", s->config, "--name", "poet", "--train.total_steps=1", "--model.max_seq_len=100",
                "--progress=none", NULL);
    for (int i = 0; i < 1000; i++) strcat(prompt, "xq ");
    struct process *told = process_run(0, "generate", "poet", "--max-tokens=3", prompt, NULL);
    assert_non_null(strstr(process_stderr(told), "the model takes 100: it continues the last 100"));
    struct process *fits = process_run(0, "generate", "poet", "--max-tokens=3", "--prompt=xq", NULL);
    assert_null(strstr(process_stderr(fits), "the model takes"));
}

/* The samples of a run of 4 steps that learns nothing, so that all are written by the same weights. */
static void sample_four_times(const struct stage *s, const char *setting, char *texts[4])
{
    char sql[100];
    process_run(0, "train", s->config, "--train.total_steps=4", "--train.learning_rate=1e-30",
                "--train.weight_decay=0", "--sample.every=1", "--sample.max_tokens=24", "--eval.every=0",
                "--progress=none", setting, NULL);
    for (int i = 0; i < 4; i++) {
        snprintf(sql, sizeof sql, "select hex(text) from samples where step = %d order by rowid desc limit 1",
                 i + 1);
        texts[i] = stage_query(s, sql);
    }
}

STAGE_CASE(every_key_of_sample_counts, struct stage *s)
{
    char *drawn[4], *likeliest[4], *first[4], *again[4], *other[4], *wild[4], *prompted[4];
    sample_four_times(s, NULL, drawn);
    assert_string_not_equal(drawn[0], drawn[1]); /* each step draws anew */
    assert_string_not_equal(drawn[1], drawn[2]);
    sample_four_times(s, "--train.seed=1337", again);
    for (int i = 0; i < 4; i++) assert_string_equal(drawn[i], again[i]);
    sample_four_times(s, "--sample.temperature=0", likeliest);
    assert_string_equal(likeliest[0], likeliest[3]);
    assert_string_not_equal(likeliest[0], drawn[0]);
    sample_four_times(s, "--sample.top_k=1", first);
    assert_string_equal(first[0], likeliest[0]);
    assert_string_equal(first[1], likeliest[0]);
    sample_four_times(s, "--sample.temperature=50", wild);
    assert_string_not_equal(wild[0], drawn[0]);
    sample_four_times(s, "--sample.top_k=3", other);
    assert_string_not_equal(other[0], drawn[0]);
    sample_four_times(s, "--sample.prompt=x", prompted);
    assert_string_not_equal(prompted[0], drawn[0]);
    process_run(0, "train", s->config, "--train.total_steps=1", "--sample.every=1", "--sample.max_tokens=5",
                "--sample.temperature=0", "--train.seed=1337", "--progress=none", NULL);
    char *five =
        stage_query(s, "select length(text) <= 5 and length(text) > 0 from samples order by rowid desc "
                       "limit 1");
    assert_string_equal(five, "1"); /* bytes: a token is a byte, some together a character */
}

TEST_MAIN()
