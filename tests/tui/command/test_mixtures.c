/* Training on several sources with the real binary: from compressed files to a loss of each source, resumed
 * and forked bit for bit. */
#include <math.h>
#include <zlib.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* books.jsonl.gz, and code/ with twenty compressed files. */
static void write_sources(const struct stage *s)
{
    assert_int_equal(file_make_folders(stage_path(s, "code"), NULL), STATUS_OK);
    gzFile books = gzopen(stage_path(s, "books.jsonl.gz"), "w");
    for (int i = 0; i < 400; i++)
        gzprintf(books, "{\"text\": \"In the beginning was chapter %d.\", \"id\": %d}\n", i * 7 % 100, i);
    assert_int_equal(gzclose(books), Z_OK);
    for (int f = 0; f < 20; f++) {
        gzFile code = gzopen(kept_format("%s/%d.txt.gz", stage_path(s, "code"), f), "w");
        for (int i = 0; i < 30; i++) gzprintf(code, "int f%d(int x) { return %d * x; }\n", i % 50, i % 13);
        assert_int_equal(gzclose(code), Z_OK);
    }
}

/* --data.train of both, with these weights. */
static char *mixture(const struct stage *s, const char *books, const char *code)
{
    return kept_format("--data.train=%s : %s, %s/*.txt.gz : %s", stage_path(s, "books.jsonl.gz"), books,
                       stage_path(s, "code"), code);
}

#define LONG_ENOUGH                                                                                          \
    "--train.total_steps=60", "--train.schedule=constant", "--data.shuffle=random", "--progress=none"

/* 60 steps are several epochs of the books. */
static void train(const struct stage *s, const char *name, const char *steps)
{
    process_run(0, "train", s->config, "--name", name, mixture(s, "0.75", "0.25"), "--data.tokenizer=bpe:300",
                "--model.vocab_size=300", LONG_ENOUGH, steps, NULL);
}

static double measure(const struct stage *s, const char *run, const char *name)
{
    char *text =
        stage_query(s, kept_format("select value from measures where name = '%s' and step = (select "
                                   "max(step) from measures) and run_id = (select id from runs where "
                                   "name = '%s')",
                                   name, run));
    char *end;
    double value = strtod(text, &end);
    if (end == text) fail_msg("%s has no %s", run, name);
    return value;
}

/* Beside the number of files that were read. */
static void expect_said(const struct process *p, const char *sentence)
{
    if (!strstr(process_stderr(p), sentence)) fail_msg("not \"%s\": %s", sentence, process_stderr(p));
}

STAGE_CASE(a_mixture_of_compressed_files_takes_two_commands, struct stage *s)
{
    write_sources(s);
    char *tokenizer = stage_path(s, "mixed.json");
    process_run(0, "tokenizer", "train", stage_path(s, "books.jsonl.gz"), stage_path(s, "code"),
                "--vocab=300", "-o", tokenizer, NULL);
    process_run(0, "train", s->config, "--name=mixed", mixture(s, "3", "1"),
                kept_format("--data.tokenizer=%s", tokenizer), "--model.vocab_size=300", LONG_ENOUGH, NULL);
    double books = measure(s, "mixed", "val_loss_books"), code = measure(s, "mixed", "val_loss_code");
    double both = strtod(stage_query(s, "select val_loss from evals order by step desc limit 1"), NULL);
    assert_true(books > 0 && code > 0 && books != code);
    assert_true(fabs(both - (0.75 * books + 0.25 * code)) < 1e-9 * both);
    stage_expect(
        s,
        "select count(*) from events where text like 'a mixture: 75 % books (% sequences, % times), 25 % "
        "code (% sequences, % times)'",
        "1");
}

STAGE_CASE(a_mixture_resumes_and_forks_bit_for_bit, struct stage *s)
{
    write_sources(s);
    train(s, "whole", "--train.total_steps=60");
    train(s, "resumed", "--until=23");
    process_run(0, "resume", "resumed", "--progress=none", NULL);
    process_run(0, "fork", "whole", "--step=50", "--name=forked", "--progress=none", NULL);
    struct history whole = history_of("whole"), resumed = history_of("resumed"),
                   forked = history_of("forked");
    history_expect_equal(&whole, &resumed);
    assert_int_equal(forked.count, 60);
    for (int i = 50; i < 60; i++) assert_string_equal(forked.steps[i].values, whole.steps[i].values);
    assert_true(measure(s, "whole", "val_loss_books") == measure(s, "resumed", "val_loss_books"));
}

STAGE_CASE(packed_documents_resume_and_fork_bit_for_bit, struct stage *s)
{
    write_sources(s);
    train(s, "stream", "--train.total_steps=5");
    train(s, "whole", "--data.documents=packed");
    process_run(0, "train", s->config, "--name=resumed", mixture(s, "0.75", "0.25"),
                "--data.tokenizer=bpe:300", "--model.vocab_size=300", LONG_ENOUGH, "--data.documents=packed",
                "--until=23", NULL);
    process_run(0, "resume", "resumed", "--progress=none", NULL);
    struct history stream = history_of("stream"), whole = history_of("whole"),
                   resumed = history_of("resumed");
    history_expect_equal(&whole, &resumed);
    process_run(0, "fork", "whole", "--step=50", "--name=forked", "--progress=none", NULL);
    struct history forked = history_of("forked");
    assert_int_equal(forked.count, 60);
    for (int i = 50; i < 60; i++) assert_string_equal(forked.steps[i].values, whole.steps[i].values);
    assert_string_not_equal(stream.steps[0].values, whole.steps[0].values);
    assert_true(measure(s, "whole", "val_loss_books") > 0);
    stage_expect(s,
                 "select count(*) from events where text like '378 documents in % rows, 42 to validate on; a "
                 "mixture: %'",
                 "4");
}

STAGE_CASE(a_row_of_packed_documents_can_be_shown, struct stage *s)
{
    write_sources(s);
    char *text = process_output("data", "show", stage_path(s, "books.jsonl.gz"), "--data.format=text",
                                "--data.tokenizer=bpe:300", "--data.documents=packed", "--train.seq_len=64",
                                "--json", NULL);
    json_t *row = stage_json(text);
    assert_true(stage_int(row, "sequences") > 1);
    int64_t tokens = (int64_t)json_array_size(json_object_get(row, "tokens"));
    assert_int_equal(stage_int(row, "learned"),
                     tokens - stage_int(row, "sequences")); /* all but the first of each */
    text = process_output("data", "show", stage_path(s, "books.jsonl.gz"), "--data.format=text",
                          "--data.tokenizer=bpe:300", "--data.documents=packed", "--train.seq_len=64", NULL);
    int64_t lines = -1;
    for (const char *at = text; at; at = strstr(at, "\n────\n"), at += at != NULL) lines++;
    assert_int_equal(lines, stage_int(row, "sequences") - 1); /* one between two documents */
}

STAGE_CASE(documents_without_an_end_are_refused, struct stage *s)
{
    struct process *p = process_run(2, "train", s->config, "--data.documents=packed", NULL);
    expect_said(p, "bytes: this tokenizer has no token that ends a document, such as <|endoftext|>");
    p = process_run(2, "data", "prepare", s->corpus, "--tokenizer=bytes", "-o", stage_path(s, "x.tok"),
                    "--ends", NULL);
    expect_said(p, "bytes: this tokenizer has no token that ends a document");
    process_run(0, "data", "prepare", s->corpus, "--tokenizer=bytes", "-o", stage_path(s, "x.tok"), NULL);
    p = process_run(2, "train", s->config, kept_format("--data.train=%s", stage_path(s, "x.tok")),
                    "--data.documents=packed", NULL);
    expect_said(
        p, "data.documents = packed: the tokenizer has no token for the end of a text, so documents cannot "
           "be found (name the id of the token that ends them: data.end_token)");
    p = process_run(2, "train", s->config, kept_format("--data.train=%s", stage_path(s, "x.tok")),
                    "--data.documents=packed", "--data.end_token=255", NULL);
    expect_said(p, "x.tok: no document ends in the text: the token 255 does not occur");
    p = process_run(2, "train", s->config, "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                    "--data.documents=packed", "--data.end_token=1",
                    NULL); /* the text is encoded into a file of the cache */
    expect_said(p, kept_format("data.train = %s: no document ends in the text: the token 1 ", s->corpus));
    assert_int_equal(stage_count_runs(), 0);
}

STAGE_CASE(a_resumed_run_keeps_its_weights, struct stage *s)
{
    write_sources(s);
    train(s, "mixed", "--until=5");
    struct process *p = process_run(2, "resume", "mixed", mixture(s, "0.5", "0.5"), NULL);
    expect_said(p, "the corpus has changed: the same number of tokens, but different ones, or other "
                   "weights");
    process_run(0, "resume", "mixed", mixture(s, "3", "1"), "--train.total_steps=6", "--progress=none", NULL);
}

STAGE_CASE(early_stopping_can_follow_one_source, struct stage *s)
{
    write_sources(s);
    train(s, "mixed", "--eval.metric=val_loss_code");
    stage_expect(s, "select best_metric from runs", "val_loss_code");
    struct process *p =
        process_run(2, "train", s->config, mixture(s, "1", "1"), "--eval.metric=val_loss_prose", NULL);
    expect_said(p, "eval.metric = val_loss_prose: an evaluation measures val_loss, val_perplexity, "
                   "val_loss_books, val_loss_code");
}

STAGE_CASE(validation_data_can_be_sources_of_their_own, struct stage *s)
{
    write_sources(s);
    process_run(0, "train", s->config, "--name=apart", mixture(s, "1", "1"),
                kept_format("--data.val=%s/0.txt.gz : 1, %s : 1", stage_path(s, "code"), s->corpus),
                LONG_ENOUGH, NULL);
    assert_true(measure(s, "apart", "val_loss_0") > 0 && measure(s, "apart", "val_loss_text") > 0);
    stage_expect(s, "select count(distinct name) from measures", "2");
}

STAGE_CASE(mixtures_that_cannot_be_are_refused, struct stage *s)
{
    write_sources(s);
    char *tiny = stage_path(s, "tiny.txt");
    stage_write(tiny, "too short", 9);
    struct process *p =
        process_run(2, "train", s->config, kept_format("--data.train=%s : 1, %s : 1", s->corpus, tiny), NULL);
    expect_said(p, "tiny, a source of the mixture: the corpus is too short");
    p = process_run(2, "train", s->config, kept_format("--data.train=%s : 0", s->corpus), NULL);
    expect_said(p, "its weight is 0, which is not a number above 0");
    p = process_run(2, "train", s->config, mixture(s, "1", "1e-5"), NULL);
    expect_said(p,
                "data.train: the weight of source 2 is 1e-05 of the sum of all weights, less than 1/10000");
    p = process_run(2, "train", s->config, mixture(s, "1", "1"), "--eval.batches=1", "--train.batch_size=1",
                    LONG_ENOUGH, NULL);
    expect_said(p, "eval.batches = 1: with train.batch_size = 1 an evaluation has 1 row, fewer than the 2 "
                   "sources of validation data");
    p = process_run(2, "train", s->config, "--data.format=labels", mixture(s, "1", "1"), NULL);
    expect_said(p, "data.format = labels: takes no weights");
    p = process_run(2, "data", "show", kept_format("%s : 1", s->corpus), "--data.tokenizer=bytes", NULL);
    expect_said(p, "is a mixture of 1 sources");
    assert_int_equal(stage_count_runs(), 0);
}

/* Their tokens are the same, and of a loss the lower one is best. */
STAGE_CASE(mixtures_with_other_weights_are_compared, const struct stage *s)
{
    write_sources(s);
    train(s, "books", "--train.total_steps=20");
    process_run(0, "train", s->config, "--name=code", mixture(s, "1", "9"), "--data.tokenizer=bpe:300",
                "--model.vocab_size=300", LONG_ENOUGH, "--train.total_steps=20", NULL);
    char *page = process_output("compare", "books", "code", NULL);
    assert_null(strstr(page, "the tokens differ"));
    double a = measure(s, "books", "val_loss_books"), b = measure(s, "code", "val_loss_books");
    char *row = strstr(page, "val_loss_books");
    assert_non_null(row);
    *strchr(row, '\n') = '\0';
    assert_true(a != b);
    assert_non_null(strstr(row, kept_format("%.4f *", a < b ? a : b)));
}

TEST_MAIN()
