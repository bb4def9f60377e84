/* anneal evaluate: its results equal those of training, on any data that fits the model; and questions. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/session/loaded_model.h"
#include "tui/session/recorded_run.h"

/* Trains on s.corpus and validates all of `held`, then evaluates the same. */
static void train(const struct stage *s, const char *held)
{
    char *val = kept_format("--data.val=%s", held);
    process_run(0, "train", s->config, val, "--name=mine", "--train.seq_len=32", "--train.batch_size=3",
                "--eval.batches=0", "--eval.every=20", "--progress=none", NULL);
}

static void the_loss_is_the_validation_loss_of_training(void **state)
{
    struct stage *s = *state;
    char *held = stage_path(s, "held.txt");
    char *text = stage_read(s->corpus);
    stage_write(held, text, 2001); /* 62 sequences of 32: the last batches are smaller in both, 3 and 128 */
    train(s, held);
    json_t *json =
        stage_json(process_output("evaluate", "mine", "--data", held, "--seq-len=32", "--json", NULL));
    json_t *runs = stage_runs();
    double trained = stage_real(json_array_get(runs, 0), "best_val_loss"), loss = stage_real(json, "loss");
    char *best = process_output("evaluate", "mine", "--best", "--data", held, "--seq-len=32", "--json", NULL);
    json_t *of_best = stage_json(best);
    if (!(fabs(stage_real(of_best, "loss") - trained) < 1e-5 * trained))
        fail_msg("training measured %.9g, evaluate %.9g", trained, stage_real(of_best, "loss"));
    assert_int_equal(stage_int(json, "tokens"), 62 * 32);
    assert_int_equal(stage_int(json, "bytes"), 62 * 32); /* the tokenizer is bytes */
    assert_int_equal(stage_int(json, "sequences"), 62);
    assert_string_equal(stage_text(json, "precision"), "fp32");
    assert_int_equal(stage_int(json, "left_out_tokens"), 2000 - 62 * 32);
    char *page = process_output("evaluate", "mine", "--data", held, "--seq-len=32", NULL);
    assert_non_null(strstr(page, "left_out_tokens    16\n"));
    assert_true(fabs(stage_real(json, "perplexity") - exp(loss)) < 1e-9 * exp(loss));
    assert_true(fabs(stage_real(json, "bits_per_byte") - loss / M_LN2) < 1e-9);
    assert_true(json_is_true(json_object_get(json, "complete")));
    double seconds = stage_real(json, "seconds");
    assert_true(seconds > 0 && seconds < 600);
    assert_true(fabs(stage_real(json, "tokens_per_sec") * seconds - 62 * 32) < 1e-6);
}

static void padding_and_fewer_batches_leave_tokens_out(void **state)
{
    struct stage *s = *state;
    train(s, s->corpus);
    json_t *all = stage_json(process_output("evaluate", "mine", "--data", s->corpus, "--seq-len=32",
                                            "--batches=1", "--json", NULL)),
           *some = stage_json(process_output("evaluate", "mine", "--data", s->corpus, "--seq-len=32",
                                             "--batches=1", "--padding=32", "--json", NULL));
    char *text = stage_read(s->corpus);
    int64_t spaces = 0;
    for (int i = 1; i <= 4096; i++) spaces += text[i] == ' ';
    assert_int_equal(stage_int(all, "tokens"), 4096);
    assert_true(spaces > 0);
    assert_int_equal(stage_int(some, "tokens"), 4096 - spaces);
    assert_true(stage_real(all, "loss") != stage_real(some, "loss"));
}

static bool has_begun(struct process *p, void *context)
{
    (void)context;
    return strstr(process_stderr(p), "evaluating") && strstr(process_stderr(p), "loss ");
}

/* The text is long enough to last, and what is printed is marked as a part. */
static void ctrl_c_prints_what_is_measured_so_far(void **state)
{
    struct stage *s = *state;
    enum { TIMES = 400 };
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    char *text = stage_read(s->corpus), *much = malloc(TIMES * strlen(text));
    size_t n = strlen(text);
    for (size_t i = 0; i < TIMES; i++) memcpy(much + i * n, text, n);
    char *long_text = stage_path(s, "long.txt");
    stage_write(long_text, much, TIMES * n);
    /* a bar is drawn at once, a line of plain progress after seconds, in which a fast machine has ended */
    struct process *p = process_start("evaluate", "mine", "--data", long_text, "--progress=bar",
                                      "--device=cpu", "--json", NULL);
    process_wait(p, has_begun, NULL);
    process_signal(p, SIGINT);
    assert_int_equal(process_wait_exit(p), 130);
    json_t *json = stage_json(process_stdout(p));
    assert_true(json_is_false(json_object_get(json, "complete")));
    assert_true(stage_int(json, "sequences") < stage_int(json, "of_sequences"));
    assert_non_null(strstr(process_stderr(p), "evaluate: interrupted after "));
    p = process_start("evaluate", "mine", "--data", long_text, "--progress=bar", "--device=cpu", NULL);
    process_wait(p, has_begun, NULL);
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait_exit(p), 128 + SIGTERM);
    free(much);
}

static void a_text_shorter_than_a_sequence_is_evaluated_as_it_is(void **state)
{
    struct stage *s = *state;
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    char *tiny = stage_path(s, "tiny.txt");
    stage_write(tiny, "the end", 7);
    json_t *json = stage_json(process_output("evaluate", "mine", "--data", tiny, "--json", NULL));
    assert_int_equal(stage_int(json, "seq_len"), 6);
    assert_int_equal(stage_int(json, "tokens"), 6);
    assert_int_equal(stage_int(json, "left_out_tokens"), 0);
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data", tiny, "--seq-len=8", NULL),
                            "--seq-len 8: among the tokens to evaluate at most 6 in a row can be predicted");
    stage_write(tiny, "t", 1);
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data", tiny, NULL),
                            "a text needs at least 2 tokens");
    stage_write(stage_path(s, "blank.txt"), kept_format("%200s", ""), 200);
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data", stage_path(s, "blank.txt"),
                                        "--padding=32", "--seq-len=8", NULL),
                            "no token counts: all predicted tokens are --padding");
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data", s->corpus, "--padding=256", NULL),
                            "--padding 256: no token has this id, the model's vocabulary has 256");
}

static void what_does_not_fit_is_a_sentence(void **state)
{
    struct stage *s = *state;
    static const uint32_t ids[] = {3, 0, 1, 300, 2}; /* two words of a count of 3, then 1, 300, 2 */
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    char *wide = stage_path(s, "wide.tok");
    stage_write(wide, ids, sizeof ids);
    process_expect_sentence(process_run(2, "evaluate", "mine", NULL),
                            "anneal: evaluate: needs --data DATA or --tasks FILES");
    process_expect_sentence(process_run(2, "evaluate", "--data=x", NULL), "needs RUN|FOLDER");
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data=x", "--bets", NULL),
                            "did you mean --best?");
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data=x", "--seq-len=0", NULL),
                            "--seq-len 0: must be a whole number from 1 to");
    process_expect_sentence(process_run(2, "evaluate", "mine", "--data", s->corpus, "--seq-len=100000", NULL),
                            "the model was trained for at most");
    process_expect_sentence(process_run(1, "evaluate", "mine", "--data", wide, "--seq-len=2", NULL),
                            "token 1 has the id 300, but the vocabulary has 256");
    process_expect_sentence(process_run(1, "evaluate", "nobody", "--data", s->corpus, NULL), "nobody");
}

/* One line of a file of questions. */
static size_t add_question(char *text, size_t n, const char *context, const char *a, const char *b,
                           int answer)
{
    return n + (size_t)sprintf(text + n,
                               "{\"context\": \"%s\", \"choices\": [\"%s\", \"%s\"], \"answer\": %d}\n",
                               context, a, b, answer);
}

/* The model has learned the words of the corpus, so it knows them from others. */
static void questions_about_what_was_learned_are_answered(void **state)
{
    struct stage *s = *state;
    char questions[4096];
    size_t n = 0;
    int blanks = 0;
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=150", "--train.seq_len=32",
                "--model.max_seq_len=64", "--progress=none", NULL);
    char *tasks = stage_path(s, "tasks.jsonl");
    char *corpus = stage_read(s->corpus);
    for (int i = 0; i < 8; i++) { /* 8 times a real continuation beside one that cannot occur */
        char context[25] = "", next[9] = "";
        memcpy(context, corpus + 100 + 200 * i, 24);
        memcpy(next, corpus + 124 + 200 * i, 8);
        for (char *c = context; *c; c++)
            if (*c < ' ' || *c == '"' || *c == '\\') *c = ' ';
        for (char *c = next; *c; c++)
            if (*c < ' ' || *c == '"' || *c == '\\') *c = ' ';
        blanks += context[23] == ' '; /* a blank at the end counts as the choices' */
        n = i % 2 ? add_question(questions, n, context, "#%&@~^#%", next, 1)
                  : add_question(questions, n, context, next, "#%&@~^#%", 0);
    }
    stage_write(tasks, questions, n);
    struct process *p =
        process_run(0, "evaluate", "mine", "--tasks", tasks, "--progress=plain", "--json", NULL);
    json_t *json = stage_json(process_stdout(p));
    assert_true(stage_real(json, "accuracy") == 1);
    assert_true(stage_real(json, "accuracy_per_byte") == 1);
    assert_true(stage_real(json, "accuracy_of_guessing") == 0.5);
    assert_int_equal(stage_int(json, "questions"), 8);
    assert_int_equal(stage_int(json, "of_questions"), 8);
    assert_int_equal(stage_int(json, "scored_tokens"), 2 * (8 * 8 + blanks));
    assert_int_equal(stage_int(json, "shortened_contexts"), 0);
    assert_true(json_is_true(json_object_get(json, "complete")));
    char long_context[200];
    memset(long_context, 'a', sizeof long_context - 1);
    long_context[sizeof long_context - 1] = '\0';
    n = add_question(questions, 0, long_context, " b", " c", 0); /* of 199 tokens; the model takes 64 */
    stage_write(tasks, questions, n);
    char *page = process_output("evaluate", "mine", "--tasks", tasks, NULL);
    const char *shortened = strstr(page, "shortened_contexts ");
    assert_non_null(shortened);
    assert_int_equal(strtol(shortened + strlen("shortened_contexts "), NULL, 10), 1);
}

static void several_files_of_questions_give_a_row_for_each_and_the_mean(void **state)
{
    struct stage *s = *state;
    static const char *const shares[] = {"accuracy", "accuracy_per_byte", "accuracy_of_guessing"};
    char questions[1024], row[200];
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    char *folder = stage_path(s, "exams"), *paths[2];
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    json_t *alone[2];
    for (int i = 0; i < 2; i++) {
        size_t n = add_question(questions, 0, "the quick", " fox", " zzzz", i);
        if (i) n = add_question(questions, n, "a lazy", " dog", " qqqqqq", 0);
        paths[i] = kept_format("%s/%d.jsonl", folder, i);
        stage_write(paths[i], questions, n);
        alone[i] = stage_json(process_output("evaluate", "mine", "--tasks", paths[i], "--json", NULL));
    }
    char *list = kept_format("%s, %s", paths[0], paths[1]);
    for (int form = 0; form < 2; form++) { /* a list, a folder */
        json_t *all =
            stage_json(process_output("evaluate", "mine", "--tasks", form ? folder : list, "--json", NULL));
        json_t *files = json_object_get(all, "files");
        assert_int_equal(json_array_size(files), 2);
        assert_int_equal(stage_int(all, "questions"), 3);
        for (int k = 0; k < 3; k++) {
            double sum = 0;
            for (size_t i = 0; i < 2; i++) {
                json_t *file = json_array_get(files, i);
                assert_string_equal(stage_text(file, "file"), paths[i]);
                assert_true(stage_real(file, shares[k]) == stage_real(alone[i], shares[k]));
                sum += stage_real(file, shares[k]);
            }
            assert_true(stage_real(all, shares[k]) == sum / 2);
        }
        assert_int_equal(stage_int(json_array_get(files, 1), "questions"), 2);
    }
    char *page = process_output("evaluate", "mine", "--tasks", list, NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(row, sizeof row, "%.*s  ", 180, paths[i]);
        assert_non_null(strstr(page, row));
    }
    assert_non_null(strstr(page, "\n  mean  "));
    stage_write(paths[1], "\n", 1); /* all are checked before the first question */
    process_expect_sentence(process_run(2, "evaluate", "mine", "--tasks", list, "--progress=none", NULL),
                            "1.jsonl: has no question");
}

static void questions_that_cannot_be_answered_are_a_sentence(void **state)
{
    struct stage *s = *state;
    char questions[512], folder[1024];
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    char *tasks = stage_path(s, "tasks.jsonl");
    size_t n = add_question(questions, 0, "a", "b", "c", 0);
    stage_write(tasks, questions, add_question(questions, n, "a", "b", "c", 2));
    process_expect_sentence(process_run(1, "evaluate", "mine", "--tasks", tasks, "--json", NULL),
                            "tasks.jsonl: line 2: \"answer\" must be the index of the right choice");
    stage_write(tasks, questions, add_question(questions, n, "", "b", "c", 0));
    process_expect_sentence(process_run(2, "evaluate", "mine", "--tasks", tasks, NULL),
                            "tasks.jsonl: line 2: \"context\" must have a text");
    stage_write(tasks, "\n", 1);
    process_expect_sentence(process_run(2, "evaluate", "mine", "--tasks", tasks, NULL), "has no question");
    process_expect_sentence(process_run(2, "evaluate", "mine", "--tasks", tasks, "--data", s->corpus, NULL),
                            "needs --data DATA or --tasks FILES, not both");
    static const char *const of_data[] = {"--batches=1", "--seq-len=8", "--padding=0", "--conversations"};
    for (int i = 0; i < 4; i++)
        process_expect_sentence(process_run(2, "evaluate", "mine", "--tasks", tasks, of_data[i], NULL),
                                "do not go with --tasks");
    process_expect_sentence(
        process_run(2, "evaluate", "mine", "--data", s->corpus, "--label-column=kind", NULL),
        "is a language model; --label-column is for classifiers");
    struct model_choice choice = {.doing = "evaluating", .source = "mine", .step = -1};
    enum allocator_kind kind;
    struct err err = {0};
    if (model_choice_find(&choice, folder, sizeof folder, &kind, &err)) fail_msg("%s", err.text);
    snprintf(questions, sizeof questions, "%.480s/tokenizer.json", folder);
    struct file_map other; /* a tokenizer with more tokens than the model has rows */
    if (file_map_open("tests/fixtures/tokenizer/ours.json", &other, &err)) fail_msg("%s", err.text);
    stage_write(questions, other.data, other.size);
    file_map_close(&other);
    process_expect_sentence(process_run(2, "evaluate", folder, "--data", s->corpus, NULL),
                            "tokenizer.json makes tokens of it such as ");
    remove(questions);
    process_expect_sentence(process_run(1, "evaluate", folder, "--tasks", tasks, NULL),
                            "copy there the one of the tokens");
}

static enum allocator_kind allocator_of(const char *source, char folder[1024])
{
    struct model_choice choice = {.doing = "evaluating", .source = source, .step = -1};
    enum allocator_kind kind = ALLOCATOR_KINDS;
    struct err err = {0};
    if (model_choice_find(&choice, folder, 1024, &kind, &err)) fail_msg("%s", err.text);
    return kind;
}

static void memory_of_a_run_comes_from_where_its_configuration_says(void **state)
{
    struct stage *s = *state;
    char key[64], folder[1024], same[1024], first[4096] = "";
    struct err err = {0};
    for (enum allocator_kind kind = 0; kind < ALLOCATOR_KINDS; kind++) {
        const char *name = allocator_kind_word(kind);
        struct loaded_model loaded;
        snprintf(key, sizeof key, "--memory.allocator=%s", name);
        process_run(0, "train", s->config, key, "--train.total_steps=1", "--progress=none", "--name", name,
                    NULL);
        assert_int_equal(allocator_of(name, folder), kind);
        struct loaded_wish wish = {.B = 1, .T = 16, .allocator = kind};
        if (loaded_model_describe(&loaded, folder, NULL, LOADED_WRITER, &err) ||
            loaded_model_load(&loaded, "cpu", wish, "evaluating", &err))
            fail_msg("%s: %s", name, err.text);
        assert_int_equal(loaded.plan.input.allocator, kind);
        loaded_model_close(&loaded);
        char *text = process_output("generate", name, "--max-tokens=9", "--seed=1", "--prompt=a", NULL);
        if (kind == 0) snprintf(first, sizeof first, "%s", text);
        assert_string_equal(text, first);
        process_output("evaluate", name, "--data", s->corpus, "--batches=1", NULL);
    }
    assert_int_equal(allocator_of(folder, same), ALLOCATOR_ARENA); /* a folder: the key's default */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_loss_is_the_validation_loss_of_training),
        STAGE_TEST(padding_and_fewer_batches_leave_tokens_out),
        STAGE_TEST(ctrl_c_prints_what_is_measured_so_far),
        STAGE_TEST(a_text_shorter_than_a_sequence_is_evaluated_as_it_is),
        STAGE_TEST(questions_about_what_was_learned_are_answered),
        STAGE_TEST(several_files_of_questions_give_a_row_for_each_and_the_mean),
        STAGE_TEST(questions_that_cannot_be_answered_are_a_sentence),
        STAGE_TEST(what_does_not_fit_is_a_sentence),
        STAGE_TEST(memory_of_a_run_comes_from_where_its_configuration_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
