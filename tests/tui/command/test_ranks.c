/* Several ranks with the real binary and mpirun on this host: any number of ranks trains the same steps, the
 * same number repeats its bits, all obey an order at the same step, save and end together. Skipped where
 * there is no MPI. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>

#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* `head`, then `tail`, each a list with NULL at the end. */
static struct process *run_words(int status, const char *const *head, const char *const *tail)
{
    const char *words[64];
    size_t n = 0;
    for (; *head; head++) words[n++] = *head;
    for (; *tail; tail++) words[n++] = *tail;
    words[n] = NULL;
    return process_expect_within(400, status, process_open(&(struct process_options){.arguments = words}));
}

static void train(const struct stage *s, const char *name, const char *ranks, const char *const *words)
{
    const char *const head[] = {"train",   s->config, "--name",          name,
                                "--ranks", ranks,     "--progress=none", NULL};
    process_close(run_words(0, head, words));
}

static double number(const char *values, int column)
{
    while (column-- > 0) values = strchr(values, ',') + 1;
    return atof(values);
}

static double final_val_loss(const char *run)
{
    char *text = process_output("show", run, "--json", NULL);
    json_t *show = json_loads(text, 0, NULL), *evals = json_object_get(show, "evals");
    size_t count = json_array_size(evals);
    assert_true(count > 0);
    double loss = stage_real(json_array_get(evals, count - 1), "val_loss");
    json_decref(show);
    free(text);
    return loss;
}

/* Trains with 1 to 4 ranks; losses and gradient norms agree but for the rounding of fp32, which grows with
 * the steps. */
static void expect_alike(const struct stage *s, const char *const *words, int steps)
{
    static const char *const names[] = {"one", "two", "three", "four"}, *const counts[] = {"1", "2", "3",
                                                                                           "4"};
    struct history alone, of;
    for (int n = 0; n < 4; n++) train(s, names[n], counts[n], words);
    history_read("one", &alone);
    assert_int_equal(alone.count, steps);
    for (int n = 1; n < 4; n++) {
        history_read(names[n], &of);
        assert_int_equal(of.count, steps);
        for (int i = 0; i < steps; i++)
            for (int column = 0; column < 3; column++) {
                double a = number(alone.steps[i].values, column), b = number(of.steps[i].values, column),
                       most = column == 2 ? 2e-3 : 2e-5;
                if (!(fabs(a - b) <= most * fabs(a)))
                    fail_msg("%s ranks, step %d, column %d: %.9g, alone %.9g", counts[n], i, column, b, a);
            }
        history_release(&of);
        double a = final_val_loss("one"), b = final_val_loss(names[n]);
        if (!(fabs(a - b) <= 2e-5 * a))
            fail_msg("%s ranks: validation loss %.9g, alone %.9g", counts[n], b, a);
    }
    history_release(&alone);
}

/* Nine rows in three micro-batches, which neither 2 nor 4 ranks divide; padding, dropout and clipping. */
#define UNEVEN                                                                                               \
    "--train.batch_size=3", "--train.accumulation_steps=3", "--train.dropout=0.2",                           \
        "--train.max_grad_norm=0.5", "--eval.batches=3"

static void any_number_of_ranks_trains_the_same_language_model(void **state)
{
    (void)state;
    struct stage s;
    stage_need_mpi();
    stage_open(&s, "ranks-text");
    expect_alike(
        &s,
        (const char *[]){UNEVEN, "--data.padding=32", "--train.total_steps=100", "--train.seq_len=31", NULL},
        100);
}

static void any_number_of_ranks_trains_the_same_classifier(void **state)
{
    (void)state;
    static const char *const words[] = {"apple", "brick", "cloud"};
    struct stage s;
    char *text = NULL, path[700], data[720];
    size_t size;
    stage_need_mpi();
    stage_open(&s, "ranks-labels");
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "text,label\n");
    for (int i = 0; i < 120; i++) fprintf(out, "%.*s%s,%d\n", i % 11, "many words ", words[i % 3], i % 3);
    fclose(out);
    snprintf(path, sizeof path, "%s/texts.csv", s.folder);
    stage_write(path, text, size);
    free(text);
    snprintf(data, sizeof data, "--data.train=%s", path);
    expect_alike(&s, (const char *[]){UNEVEN, data, "--data.format=labels", "--train.total_steps=40", NULL},
                 40);
}

static void any_number_of_ranks_learns_the_same_answers(void **state)
{
    (void)state;
    static const char template[] =
        "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}";
    struct stage s;
    char *text = NULL, path[700], data[720], turns[700], turns_word[720];
    size_t size;
    stage_need_mpi();
    stage_open(&s, "ranks-answers");
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < 90; i++)
        fprintf(out, "{\"prompt\": \"%.*s%c?\", \"completion\": \"%c\"}\n", i % 7, "which is ", 'a' + i % 5,
                'A' + i % 5);
    fclose(out);
    snprintf(path, sizeof path, "%s/chats.jsonl", s.folder);
    snprintf(turns, sizeof turns, "%s/turns.jinja", s.folder);
    stage_write(path, text, size);
    stage_write(turns, template, sizeof template - 1);
    free(text);
    snprintf(data, sizeof data, "--data.train=%s", path);
    snprintf(turns_word, sizeof turns_word, "--data.template=%s", turns);
    expect_alike(&s,
                 (const char *[]){UNEVEN, data, turns_word, "--data.format=instructions",
                                  "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json",
                                  "--train.seq_len=64", "--model.vocab_size=443", "--train.total_steps=40",
                                  NULL},
                 40);
}

static void the_same_ranks_repeat_their_bits_over_resume_and_fork(void **state)
{
    (void)state;
    static const char *const whole[] = {UNEVEN, "--train.schedule=constant", "--train.total_steps=20", NULL},
                             *const half[] = {UNEVEN, "--train.schedule=constant", "--train.total_steps=10",
                                              NULL};
    struct stage s;
    struct history first, again, resumed, forked;
    stage_need_mpi();
    stage_open(&s, "ranks-again");
    train(&s, "first", "3", whole);
    train(&s, "again", "3", whole);
    train(&s, "resumed", "3", half);
    process_close(
        process_run(0, "resume", "resumed", "--ranks=3", "--train.total_steps=20", "--progress=none", NULL));
    process_close(
        process_run(0, "fork", "first", "--step=10", "--name=forked", "--ranks=3", "--progress=none", NULL));
    history_read("first", &first);
    history_read("again", &again);
    history_read("resumed", &resumed);
    history_expect_equal(&first, &again);
    history_expect_equal(&first, &resumed);
    history_read("forked", &forked);
    assert_int_equal(forked.count, 20);
    for (int i = 10; i < 20; i++) assert_string_equal(forked.steps[i].values, first.steps[i].values);
    history_release(&first);
    history_release(&again);
    history_release(&resumed);
    history_release(&forked);
}

static bool has_run_for_a_while(struct process *p, void *stage)
{
    process_poll(p);
    if (strcmp(stage_status(), "running") != 0) return false;
    char *enough = stage_query(stage, "select count(*) > 50 from steps");
    bool begun = *enough == '1';
    free(enough);
    return begun;
}

/* Starts a run that goes on until it is told to stop, and waits until it has made some steps. */
static struct process *start(const struct stage *s, const char *program, const char *const *words,
                             const char *const *environment)
{
    const struct process_options options = {
        .program = program, .arguments = words, .environment = environment};
    struct process *p = process_open(&options);
    process_wait(p, has_run_for_a_while, (void *)s);
    return p;
}

#define LONG "--train.total_steps=10000000", "--progress=none"

static struct process *start_long(const struct stage *s)
{
    const char *const words[] = {"train", s->config, "--name=long", "--ranks=2", LONG, NULL};
    return start(s, NULL, words, NULL);
}

static void expect_saved(const struct stage *s)
{
    char *last = stage_query(s, "select max(s.step) + 1 = (select max(step) from checkpoints) from steps s");
    assert_string_equal(stage_status(), "stopped");
    assert_int_equal(*last, '1');
    free(last);
}

#define AFTER_ORDER "from evals where step >= (select max(applied_step) from orders where verb = 'lr-factor')"

static bool many_evaluations_follow_the_order(struct process *p, void *stage)
{
    process_poll(p);
    char *count = stage_query(stage, "select count(*) >= 20 " AFTER_ORDER);
    bool enough = *count == '1';
    free(count);
    return enough;
}

/* Every rank has a row in each report, the work and the waiting of a step take about its time, and each sends
 * at least the gradients of the other ranks' slices. */
static void the_store_has_a_row_for_each_rank(void **state)
{
    (void)state;
    struct stage s;
    stage_need_mpi();
    stage_open(&s, "ranks-rows");
    train(&s, "rows", "3", (const char *[]){"--train.batch_size=3", "--train.total_steps=60", NULL});
    char *counts = stage_query(
             &s, "select count(*) = 3 * count(distinct step) and count(distinct rank) = 3 and count(*) > 0"
                 " and min(length(host)) > 0 and min(device) = 'cpu' and min(memory_bytes) > 0 from ranks"),
         *last = stage_query(&s, "select max(step) = 60 from ranks"),
         *sent = stage_query(&s, "select min(sent_bytes) > (select parameters from runs) * 4 / 2 from ranks"),
         *times = stage_query(
             &s, "select min(step_ms) > 0 and min(wait_ms) > 0 and max(abs(step_ms + wait_ms -"
                 " (select avg(step_ms) from steps))) < (select avg(step_ms) from steps) from ranks"),
         *page = process_output("show", "rows", NULL), *text = process_output("show", "rows", "--json", NULL),
         *csv = process_output("export", "rows", "--table", "ranks", NULL);
    assert_string_equal(counts, "1");
    assert_string_equal(last, "1");
    assert_string_equal(sent, "1");
    assert_string_equal(times, "1");
    assert_non_null(strstr(page, "Ranks, slowest first"));
    assert_memory_equal(csv, "run,segment,step,rank,host,", 27);
    json_t *show = json_loads(text, 0, NULL), *ranks = json_object_get(show, "ranks");
    assert_int_equal(json_array_size(ranks), 3);
    for (size_t i = 1; i < 3; i++)
        assert_true(stage_real(json_array_get(ranks, i - 1), "step_ms") >=
                    stage_real(json_array_get(ranks, i), "step_ms"));
    json_decref(show);
    train(&s, "alone", "1", (const char *[]){"--train.total_steps=5", NULL});
    char *alone =
        stage_query(&s, "select count(*) from ranks r join runs on id = run_id where name = 'alone'");
    assert_string_equal(alone, "0");
    char *const all[] = {counts, last, sent, times, page, text, csv, alone};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* With a rate of 0 the weights stay. Each rank evaluates a half, so a rank that went on would change the
 * loss. */
static void all_ranks_obey_an_order_at_the_same_step(void **state)
{
    (void)state;
    struct stage s;
    stage_need_mpi();
    stage_open(&s, "ranks-order");
    struct process *p = start_long(&s);
    process_close(process_run(0, "order", "long", "pause", "--wait", NULL));
    assert_string_equal(stage_status(), "paused");
    process_close(process_run(0, "order", "long", "continue", "--wait", NULL));
    process_close(process_run(0, "order", "long", "lr-factor", "0", "--wait", NULL));
    process_wait(p, many_evaluations_follow_the_order, &s);
    process_close(process_run(0, "order", "long", "stop", "--wait", NULL));
    assert_int_equal(process_wait_exit(p), 0);
    char *before = stage_query(&s, "select count(distinct val_loss) > 1 from evals"),
         *after = stage_query(&s, "select count(distinct val_loss) " AFTER_ORDER);
    assert_string_equal(before, "1");
    assert_string_equal(after, "1");
    free(before);
    free(after);
    process_close(p);
}

static void ranks_save_and_end_together(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1}, codes[] = {0, 130, 75};
    stage_need_mpi();
    for (int i = 0; i < 3; i++) {
        struct stage s;
        stage_open(&s, "ranks-end");
        struct process *p = start_long(&s);
        process_signal(p, signals[i]);
        assert_int_equal(process_wait_exit(p), codes[i]);
        expect_saved(&s);
        assert_int_equal(stage_count_leftovers(&s), 0);
        process_close(p);
    }
}

/* Some seconds after a SIGTERM mpirun passes it on, and kills as many seconds later; meanwhile it reads no
 * output. */
static void a_sigterm_to_mpirun_saves(void **state)
{
    (void)state;
    struct stage s;
    stage_need_mpi();
    stage_open(&s, "ranks-mpirun");
    const char *const words[] = {"-n", "2", getenv("ANNEAL_BINARY"), "train", s.config, "--name=mpirun",
                                 LONG, NULL};
    const char *const environment[] = {"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_ALLOW_RUN_AS_ROOT=1",
                                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                       "OMPI_MCA_odls_base_sigkill_timeout=6", NULL};
    struct process *p = start(&s, "mpirun", words, environment);
    process_signal(p, SIGTERM);
    process_wait_exit(p);
    expect_saved(&s);
    process_close(p);
}

static void what_is_wrong_is_said_once(void **state)
{
    (void)state;
    struct stage s;
    stage_need_mpi();
    stage_open(&s, "ranks-wrong");
    struct process *p = process_run(2, "train", s.config, "--ranks=2", "--train.batch_size=0", NULL);
    process_expect_said_once(p, "train.batch_size = 0");
    process_close(p);
    p = process_run(1, "train", s.config, "--ranks=2", "--data.train=/nowhere.txt", NULL);
    process_expect_said_once(p, "/nowhere.txt");
    process_close(p);
    assert_int_equal(stage_count_runs(), 0);
}

static void without_the_plugin_one_sentence_names_the_packages(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "ranks-without");
    const char *const words[] = {"train", s.config, NULL}, *const environment[] = {
                                                               "ANNEAL_MPI_PLUGIN=/nowhere.so",
                                                               "OMPI_COMM_WORLD_SIZE=2", NULL};
    struct process *p = process_expect(
        1, process_open(&(struct process_options){.arguments = words, .environment = environment}));
    process_expect_sentence(p, "apt install libopenmpi-dev openmpi-bin");
    process_close(p);
}

/* One process has nothing to do with MPI: the plugin is not loaded. */
static void one_process_loads_no_mpi(void **state)
{
    (void)state;
    struct stage s;
    char path[64], line[4200];
    stage_open(&s, "ranks-none");
    const char *const words[] = {"train", s.config, LONG, NULL};
    struct process *p = start(&s, NULL, words, NULL);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process_pid(p));
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) assert_null(strstr(line, "mpi"));
    fclose(maps);
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait_exit(p), 0);
    process_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(any_number_of_ranks_trains_the_same_language_model, process_close_all),
        cmocka_unit_test_teardown(any_number_of_ranks_trains_the_same_classifier, process_close_all),
        cmocka_unit_test_teardown(any_number_of_ranks_learns_the_same_answers, process_close_all),
        cmocka_unit_test_teardown(the_same_ranks_repeat_their_bits_over_resume_and_fork, process_close_all),
        cmocka_unit_test_teardown(the_store_has_a_row_for_each_rank, process_close_all),
        cmocka_unit_test_teardown(all_ranks_obey_an_order_at_the_same_step, process_close_all),
        cmocka_unit_test_teardown(ranks_save_and_end_together, process_close_all),
        cmocka_unit_test_teardown(a_sigterm_to_mpirun_saves, process_close_all),
        cmocka_unit_test_teardown(what_is_wrong_is_said_once, process_close_all),
        cmocka_unit_test_teardown(without_the_plugin_one_sentence_names_the_packages, process_close_all),
        cmocka_unit_test_teardown(one_process_loads_no_mpi, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
