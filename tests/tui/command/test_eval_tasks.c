/* eval.tasks: questions that every evaluation answers. */
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

enum { QUESTIONS = 60 };

struct exam {
    struct stage stage;
    char quiz[700], other[700], key[1500]; /* "--eval.tasks=QUIZ, OTHER" */
};

/* Questions of many lengths whose answers no model knows, so that scores change while it trains. All begin
 * alike, so that a cache which is not emptied when the weights have changed would be used. */
static void write_questions(const char *path, int seed)
{
    static const char *const words[] = {"the", "quick", "fox", "qq", "zebra", "lazy dog", "x", "rivers run"};
    char text[16384];
    int n = 0;
    for (int i = seed; i < seed + QUESTIONS; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "{\"context\": \"the quick brown fox jumps over the lazy dog while the small rivers "
                      "run down: %s %.*s %s",
                      words[i % 8], i % 11 * 4, "brown fox jumps over a lazy dog while small",
                      words[i / 3 % 8]);
        n += snprintf(text + n, sizeof text - (size_t)n, "\", \"choices\": [\" %s\", \" %s\", \" %s\"], ",
                      words[(i + 1) % 8], words[(i + 3) % 8], words[(i + 6) % 8]);
        n += snprintf(text + n, sizeof text - (size_t)n, "\"answer\": %d}\n", i * 7 / 3 % 3);
    }
    stage_write(path, text, (size_t)n);
}

static int open_exam(void **state)
{
    static struct exam scene, *e = &scene;
    stage_setup(state);
    scene.stage = *(struct stage *)*state;
    *state = &scene;
    snprintf(e->quiz, sizeof e->quiz, "%s/quiz.jsonl", e->stage.folder);
    snprintf(e->other, sizeof e->other, "%s/Other one.v2.jsonl", e->stage.folder);
    snprintf(e->key, sizeof e->key, "--eval.tasks=%s, %s", e->quiz, e->other);
    write_questions(e->quiz, 0);
    write_questions(e->other, 100);
    return 0;
}

#define TEST(name, parameter) STAGE_CASE_SETUP(name, open_exam, parameter)

/* The measure of `name` after `step` steps, as recorded. */
static double measured(const struct stage *s, const char *run, const char *name, int step)
{
    char sql[300];
    snprintf(
        sql, sizeof sql,
        "select value from measures, runs where runs.id = run_id and runs.name = '%s' and measures.name ="
        " '%s' and step = %d order by measures.segment desc limit 1",
        run, name, step);
    char *text = stage_query(s, sql);
    if (!*text) fail_msg("%s: no %s at step %d", run, name, step);
    double value = strtod(text, NULL);
    return value;
}

/* The same share of QUESTIONS; SQLite prints 15 digits. */
static void expect_share(double actual, double expected)
{
    if (!(fabs(actual - expected) < 1e-12)) fail_msg("%.17g, not %.17g", actual, expected);
}

static void expect_scores_of_evaluate(const struct exam *e, const char *run, int step)
{
    const char *const files[] = {e->quiz, e->other}, *const names[] = {"quiz", "Other_one.v2"};
    char name[64];
    char *number = kept_format("--step=%d", step);
    for (int i = 0; i < 2; i++) {
        json_t *json =
            stage_json(process_output("evaluate", run, number, "--tasks", files[i], "--json", NULL));
        assert_non_null(json);
        assert_int_equal(stage_int(json, "questions"), QUESTIONS);
        snprintf(name, sizeof name, "%s_acc", names[i]);
        expect_share(measured(&e->stage, run, name, step), stage_real(json, "accuracy"));
        snprintf(name, sizeof name, "%s_acc_per_byte", names[i]);
        expect_share(measured(&e->stage, run, name, step), stage_real(json, "accuracy_per_byte"));
    }
}

TEST(scores_are_those_of_evaluate_and_training_is_the_same_to_the_bit, struct exam *e)
{
    process_run(0, "train", e->stage.config, "--name=plain", "--train.learning_rate=0.03",
                "--model.max_seq_len=256", "--progress=none", NULL);
    struct process *p = process_run(
        0, "train", e->stage.config, e->key, "--name=with", "--train.learning_rate=0.03", "--progress=json",
        "--model.max_seq_len=256", "--checkpoint.keep=9", "--eval.metric=quiz_acc", NULL);
    json_t *lines = stage_parse_lines(process_stdout(p)), *line = stage_find_line(lines, "eval", -1);
    json_t *measures = json_object_get(line, "measures");
    assert_int_equal(json_object_size(measures), 4);
    assert_string_equal(stage_text(line, "metric"), "quiz_acc"); /* of which best_val_loss is a value */
    expect_share(measured(&e->stage, "with", "quiz_acc", 40), stage_real(measures, "quiz_acc"));
    for (int step = 10; step <= 40; step += 10) expect_scores_of_evaluate(e, "with", step);
    history_expect_same("plain", "with");
    stage_expect(&e->stage, "select count(distinct val_loss), count(*) from evals", "4|8");
    char *same = stage_query(&e->stage, "select count(distinct text), count(*) from samples");
    assert_string_equal(same, "2|4");
    char *page = process_output("show", "with", NULL);
    assert_non_null(strstr(page, "Other_one.v2_acc_per_byte"));
    /* all measures of the newest evaluation are on the page, however many */
    stage_query(&e->stage, "with recursive n(i) as (select 10 union all select i + 1 from n where i < 25)"
                           " insert into measures(run_id, segment, step, name, value)"
                           " select id, 1, 41, 'm' || i, 0.5 from runs, n where runs.name = 'with'");
    page = process_output("show", "with", NULL);
    assert_non_null(strstr(page, "Measures of the last evaluations, by step\n"));
    assert_non_null(strstr(page, " m10 "));
}

TEST(a_resumed_run_and_a_fork_go_on_scoring_wherever_they_are_started, struct exam *e)
{
    process_expect(0, process_open(&(struct process_options){
                          .arguments = (const char *const[]){"train", "tiny.ini", "--eval.tasks=quiz.jsonl",
                                                             "--name=mine", "--progress=none",
                                                             "--checkpoint.keep=9", NULL},
                          .folder = e->stage.folder}));
    process_run(0, "resume", "mine", "--train.total_steps=50", "--progress=none", NULL);
    process_run(0, "fork", "mine", "--step=20", "--name=child", "--progress=none", NULL);
    measured(&e->stage, "mine", "quiz_acc", 50);
    measured(&e->stage, "child", "quiz_acc", 30);
    assert_int_equal(rename(e->quiz, e->other), 0);
    process_expect_sentence(
        process_run(1, "resume", "mine", "--train.total_steps=60", "--progress=none", NULL), "eval.tasks: ");
    char *moved = kept_format("--eval.tasks=%s", e->other);
    process_run(0, "resume", "mine", "--train.total_steps=60", moved, "--progress=none", NULL);
    measured(&e->stage, "mine", "Other_one.v2_acc", 60);
    char *events =
        "select count(*) from events where text like 'eval.tasks has other questions than before%'";
    stage_expect(&e->stage, events, "0"); /* the same under another name */
    size_t n;
    char *text = stage_read(e->other), *line = strchr(text, '\n') + 1;
    n = strlen(line);
    stage_write(e->other, line, n);
    process_run(0, "resume", "mine", "--train.total_steps=62", "--progress=none", NULL);
    stage_expect(&e->stage, events, "1");
    process_run(0, "resume", "mine", "--train.total_steps=70", "--eval.tasks=", "--progress=none", NULL);
    stage_expect(&e->stage, "select count(*) from measures where step > 62", "0");
}

/* The scores of an evaluation in which the run is stopped are missing, not bad. */
TEST(a_stop_among_the_questions_uses_up_no_patience, struct exam *e)
{
    size_t n, copies = 400;
    char *few = stage_read(e->quiz), *many;
    n = strlen(few);
    many = malloc(n * copies);
    for (size_t i = 0; i < copies; i++) memcpy(many + i * n, few, n);
    stage_write(e->quiz, many, n * copies);
    free(many);
    struct process *p =
        process_start("train", e->stage.config, kept_format("--eval.tasks=%s", e->quiz), "--name=cut",
                      "--eval.metric=quiz_acc", "--eval.every=10", "--eval.early=false",
                      "--eval.early_stopping_patience=1", "--progress=json", NULL);
    process_wait_text(p, "\"step\":9,"); /* the questions follow, and take seconds */
    process_signal(p, SIGINT);
    process_wait_exit(p);
    stage_expect(&e->stage, "select count(*) from events where text like '%not all questions were answered%'",
                 "1");
    stage_expect(&e->stage, "select count(*) from early_stopping", "0");
    stage_write(e->quiz, few, n);
    process_run(0, "resume", "cut", "--train.total_steps=12", "--progress=none", NULL);
    measured(&e->stage, "cut", "quiz_acc", 12);
}

/* Most tokenizers make at most a token of a byte, but a normalizer may make many characters of one. */
TEST(a_text_may_have_more_tokens_than_bytes, struct exam *e)
{
    static const char question[] =
        "{\"context\": \"xxxxxxxxx\", \"choices\": [\" xxxxxxxxx\", \" a\"], \"answer\": 0}";
    static const char rule[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"abcdefgh\"},";
    static const char list[] = "\"normalizers\":[";
    char text[32768], corpus[1001];
    char *fixture = stage_read("tests/fixtures/kinds/with_bos.json"),
         *at = strstr(fixture, list) + strlen(list);
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - fixture), fixture, rule, at);
    char *path = kept_format("%s/wide.json", e->stage.folder);
    stage_write(path, text, (size_t)n);
    for (size_t i = 0; i < 1000; i++) corpus[i] = "the rain in the hills "[i % 22];
    stage_write(e->stage.corpus, corpus, 1000);
    stage_write(e->quiz, question, sizeof question - 1);
    char *tokenizer = kept_format("--data.tokenizer=%s", path);
    char *key = kept_format("--eval.tasks=%s", e->quiz);
    process_run(0, "train", e->stage.config, tokenizer, key, "--name=mine", "--model.max_seq_len=256",
                "--train.total_steps=10", "--train.seq_len=16", "--progress=none", NULL);
    json_t *json = stage_json(process_output("evaluate", "mine", "--tasks", e->quiz, "--json", NULL));
    expect_share(measured(&e->stage, "mine", "quiz_acc", 10), stage_real(json, "accuracy"));
}

/* The file is checked before training starts, and a copy of it is scored. */
TEST(what_becomes_of_the_file_while_a_run_trains_does_not_matter, struct exam *e)
{
    struct process *p = process_start("train", e->stage.config, e->key, "--name=mine", "--progress=json",
                                      "--train.total_steps=100000000", NULL);
    process_wait_text(p, "\"type\":\"eval\"");
    assert_int_equal(truncate(e->quiz, 3), 0);
    assert_int_equal(unlink(e->other), 0);
    char *count = NULL;
    do {
        count = stage_query(&e->stage, "select count(distinct step) from measures where value is not null");
    } while (strtol(count, NULL, 10) < 4);
    process_signal(p, SIGINT);
    assert_int_equal(process_wait_exit(p), 130);
    stage_expect(&e->stage, "select count(*) from events where level = 'error'", "0");
}

TEST(the_planned_memory_is_what_estimate_says, struct exam *e)
{
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        const char *key = i ? e->key : "--eval.every=10";
        json_t *json = stage_json(process_output("estimate", e->stage.config, key, "--model.max_seq_len=4096",
                                                 "--device=cpu", "--json", NULL));
        struct process *p = process_run(0, "train", e->stage.config, key, "--model.max_seq_len=4096",
                                        "--device=cpu", "--train.total_steps=1", "--progress=json", NULL);
        json_t *lines = stage_parse_lines(process_stdout(p));
        bytes[i] = stage_int(json, "total_bytes");
        assert_int_equal(stage_int(stage_find_line(lines, "run", 0), "planned_bytes"), bytes[i]);
    }
    assert_true(bytes[1] > bytes[0]);
}

TEST(long_contexts_are_shortened_as_evaluate_does_and_the_history_says_so, struct exam *e)
{
    process_run(0, "train", e->stage.config, e->key, "--name=mine", "--model.max_seq_len=32",
                "--checkpoint.keep=9", "--progress=none", NULL);
    expect_scores_of_evaluate(e, "mine", 40);
    char *events =
        stage_query(&e->stage, "select text from events where text like '%longer than%' order by id");
    assert_non_null(strstr(events, "quiz.jsonl: "));
    assert_non_null(strstr(events,
                           " of 60 questions are longer than model.max_seq_len = 32: the beginning of "
                           "their contexts is left out"));
}

TEST(a_file_that_cannot_be_scored_is_a_sentence_before_training, struct exam *e)
{
    static const char good[] = "{\"context\": \"a\", \"choices\": [\" b\", \" c\"], \"answer\": 0}\n";
    static const struct {
        const char *line; /* the second of the file; NULL: it is empty */
        int code;
        const char *sentence;
    } cases[] = {
        {NULL, 2, "quiz.jsonl: has no question"},
        {"{\"context\": \"a\", \"choices\": [\" b\", \" c\"], \"answer\": 2}", 1,
         "quiz.jsonl: line 2: \"answer\" must be the index of the right choice"},
        {"{\"context\": \"a\", \"choices\": [\" b\"", 1, "quiz.jsonl: line 2 column "},
        {"nonsense", 1, "quiz.jsonl: line 2 column "},
        {"{\"context\": \"\", \"choices\": [\" b\", \" c\"], \"answer\": 0}", 2,
         "quiz.jsonl: line 2: \"context\" must have a text"},
        {"{\"context\": \"a\", \"choices\": [\" b\", \" a choice of forty tokens, which are too many\"], "
         "\"answer\": 0}",
         2,
         "quiz.jsonl: line 2: \"choices\"[1] has 45 tokens, but the model was trained for at most 32 "
         "(shorten"},
        {"{\"context\": \"a\xFF\", \"choices\": [\" b\", \" c\"], \"answer\": 0}", 1,
         "quiz.jsonl: line 2 column "},
        {"{\"context\": \"a\\u0000b\", \"choices\": [\" b\", \" c\"], \"answer\": 0}", 1,
         "quiz.jsonl: line 2 column "},
    };
    char text[600];
    char *key = kept_format("--eval.tasks=%s", e->quiz);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = cases[i].line ? snprintf(text, sizeof text, "%s%s\n", good, cases[i].line) : 0;
        stage_write(e->quiz, text, (size_t)n);
        struct process *p = process_run(cases[i].code, "train", e->stage.config, key,
                                        "--model.max_seq_len=32", "--progress=none", NULL);
        process_expect_sentence(p, cases[i].sentence);
        process_expect_sentence(p, "eval.tasks: ");
    }
    stage_write(e->quiz, "{}", 2);
    process_expect_sentence(process_run(1, "estimate", e->stage.config, key, NULL), "eval.tasks: ");
    process_expect_sentence(process_run(1, "estimate", e->stage.config, "--eval.tasks=none.tok", NULL),
                            "eval.tasks: none.tok: cannot open");
    snprintf(text, sizeof text, "--eval.tasks=%s", e->other);
    process_expect_sentence(process_run(1, "train", e->stage.config, "--eval.tasks=no/such.jsonl", NULL),
                            "eval.tasks: ");
    process_expect_sentence(process_run(2, "train", e->stage.config, text, "--data.val_fraction=0", NULL),
                            "eval.tasks: needs evaluations, so data.val or a data.val_fraction above 0");
    snprintf(text, sizeof text, "--eval.tasks=%.250s,%.250s", e->other, e->other);
    process_expect_sentence(process_run(2, "train", e->stage.config, text, "--progress=none", NULL),
                            "its measure Other_one.v2_acc is already that of");
    char *folder = stage_path(&e->stage, "many");
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    for (int i = 0; i < 17; i++) stage_write(kept_format("%s/%d.jsonl", folder, i), good, sizeof good - 1);
    process_expect_sentence(
        process_run(2, "train", e->stage.config, kept_format("--eval.tasks=%s", folder), NULL),
        "eval.tasks: names 17 files, at most 16 can be scored");
    assert_int_equal(stage_count_runs(), 0);
}

TEST_MAIN()
