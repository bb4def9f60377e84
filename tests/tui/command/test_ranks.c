/* Several ranks with the real binary and mpirun on this host: any number of ranks trains the same steps, the
 * same number repeats its bits, all obey an order at the same step, save and end together. Skipped where
 * there is no MPI. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
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

static double final_val_loss(const char *run)
{
    json_t *show = stage_json(process_output("show", run, "--json", NULL)),
           *evals = json_object_get(show, "evals");
    size_t count = json_array_size(evals);
    assert_true(count > 0);
    double loss = stage_real(json_array_get(evals, count - 1), "val_loss");
    return loss;
}

/* Trains with 1 to 4 ranks; losses and gradient norms agree but for the rounding of fp32, which grows with
 * the steps. */
static void expect_alike(const struct stage *s, const char *const *words)
{
    static const char *const names[] = {"one", "two", "three", "four"}, *const counts[] = {"1", "2", "3",
                                                                                           "4"};
    for (int n = 0; n < 4; n++) train(s, names[n], counts[n], words);
    for (int n = 1; n < 4; n++) {
        history_expect_alike("one", names[n], 2e-5);
        double a = final_val_loss("one"), b = final_val_loss(names[n]);
        if (!(fabs(a - b) <= 2e-5 * a))
            fail_msg("%s ranks: validation loss %.9g, alone %.9g", counts[n], b, a);
    }
}

/* Nine rows in three micro-batches, which neither 2 nor 4 ranks divide; padding, dropout and clipping. Of the
 * language model the first steps have three rows: of four ranks one has none. */
#define UNEVEN                                                                                               \
    "--train.batch_size=3", "--train.accumulation_steps=3", "--train.dropout=0.2",                           \
        "--train.max_grad_norm=0.5", "--eval.batches=3"

STAGE_CASE(any_number_of_ranks_trains_the_same_language_model, struct stage *s)
{
    stage_need_mpi();
    expect_alike(s, (const char *[]){UNEVEN, "--data.padding=32", "--train.total_steps=100",
                                     "--train.accumulation_plan=0:1,30:3", "--train.seq_len=31", NULL});
}

STAGE_CASE(any_number_of_ranks_trains_the_same_mixture, struct stage *s)
{
    char *other = stage_path(s, "other.txt"), *text = stage_read(s->corpus);
    stage_need_mpi();
    for (char *c = text; *c; c++) *c = *c == 'e' ? '3' : *c;
    stage_write(other, text, strlen(text) / 3);
    expect_alike(s, (const char *[]){UNEVEN, kept_format("--data.train=%s : 2, %s : 1", s->corpus, other),
                                     "--data.documents=packed", "--data.end_token=32",
                                     "--train.total_steps=60", NULL});
}

STAGE_CASE(any_number_of_ranks_trains_the_same_classifier, struct stage *s)
{
    static const char *const words[] = {"apple", "brick", "cloud"};
    char *text = NULL, path[700], data[720];
    size_t size;
    stage_need_mpi();
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "text,label\n");
    for (int i = 0; i < 120; i++) fprintf(out, "%.*s%s,%d\n", i % 11, "many words ", words[i % 3], i % 3);
    fclose(out);
    snprintf(path, sizeof path, "%s/texts.csv", s->folder);
    stage_write(path, text, size);
    free(text);
    snprintf(data, sizeof data, "--data.train=%s", path);
    expect_alike(s, (const char *[]){UNEVEN, data, "--data.format=labels", "--train.total_steps=40", NULL});
}

STAGE_CASE(any_number_of_ranks_learns_the_same_answers, struct stage *s)
{
    static const char template[] =
        "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}";
    char *text = NULL, path[700], data[720], turns[700], turns_word[720];
    size_t size;
    stage_need_mpi();
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < 90; i++)
        fprintf(out, "{\"prompt\": \"%.*s%c?\", \"completion\": \"%c\"}\n", i % 7, "which is ", 'a' + i % 5,
                'A' + i % 5);
    fclose(out);
    snprintf(path, sizeof path, "%s/chats.jsonl", s->folder);
    snprintf(turns, sizeof turns, "%s/turns.jinja", s->folder);
    stage_write(path, text, size);
    stage_write(turns, template, sizeof template - 1);
    free(text);
    snprintf(data, sizeof data, "--data.train=%s", path);
    snprintf(turns_word, sizeof turns_word, "--data.template=%s", turns);
    expect_alike(s, (const char *[]){UNEVEN, data, turns_word, "--data.format=instructions",
                                     "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json",
                                     "--train.seq_len=64", "--model.vocab_size=443", "--train.total_steps=40",
                                     NULL});
}

STAGE_CASE(the_same_ranks_repeat_their_bits_over_resume_and_fork, struct stage *s)
{
    static const char *const whole[] = {UNEVEN, "--train.schedule=constant", "--train.total_steps=20", NULL},
                             *const half[] = {UNEVEN, "--train.schedule=constant", "--train.total_steps=10",
                                              NULL},
                             *const begun[] = {UNEVEN, "--train.schedule=constant", "--train.total_steps=20",
                                               "--until=10", NULL};
    stage_need_mpi();
    train(s, "first", "3", whole);
    train(s, "again", "3", whole);
    train(s, "resumed", "3", half);
    /* with three ranks again, though nothing says so */
    process_run(0, "resume", "resumed", "--train.total_steps=20", "--progress=none", NULL);
    process_run(0, "fork", "first", "--step=10", "--name=forked", "--progress=none", NULL);
    train(s, "queued", "3", begun);
    run_words(
        0,
        (const char *[]){"train", s->config, "--name=queued", "--resume-or-start", "--progress=none", NULL},
        whole);
    struct history first = history_of("first"), again = history_of("again"), resumed = history_of("resumed"),
                   forked = history_of("forked"), queued = history_of("queued");
    history_expect_equal(&first, &again);
    history_expect_equal(&first, &resumed);
    history_expect_equal(&first, &queued);
    assert_int_equal(forked.count, 20);
    for (int i = 10; i < 20; i++) assert_string_equal(forked.steps[i].values, first.steps[i].values);
}

STAGE_CASE(a_series_of_seeds_trains_on_the_same_ranks, struct stage *s)
{
    stage_need_mpi();
    train(s, "series", "2", (const char *[]){"--seeds=2", NULL});
    train(s, "alone", "2", (const char *[]){"--train.seed=1338", NULL});
    struct history alone = history_of("alone"), second = history_of("series-s2");
    history_expect_equal(&alone, &second);
    stage_expect(s, "select count(distinct run_id) from ranks where rank = 1", "3");
}

static bool has_run_for_a_while(struct process *p, void *stage)
{
    process_poll(p);
    if (strcmp(stage_status(), "running") != 0) return false;
    return *stage_query(stage, "select count(*) > 50 from steps") == '1';
}

#define LONG "--train.total_steps=10000000", "--progress=none"

/* Waits until it has made some steps. */
static struct process *begun(const struct stage *s, struct process *p)
{
    process_wait(p, has_run_for_a_while, (void *)s);
    return p;
}

static struct process *start_long(const struct stage *s)
{
    return begun(s, process_start("train", s->config, "--name=long", "--ranks=2", LONG, NULL));
}

static void expect_saved(const struct stage *s)
{
    assert_string_equal(stage_status(), "stopped");
    stage_expect(s, "select max(s.step) + 1 = (select max(step) from checkpoints) from steps s", "1");
}

#define AFTER_ORDER "from evals where step >= (select max(applied_step) from orders where verb = 'lr-factor')"

static bool many_evaluations_follow_the_order(struct process *p, void *stage)
{
    process_poll(p);
    return *stage_query(stage, "select count(*) >= 20 " AFTER_ORDER) == '1';
}

/* Every rank has a row in each report, the work and the waiting of a step take about its time, and each sends
 * at least the gradients of the other ranks' slices. */
STAGE_CASE(the_store_has_a_row_for_each_rank, struct stage *s)
{
    stage_need_mpi();
    train(s, "rows", "3", (const char *[]){"--train.batch_size=3", "--train.total_steps=60", NULL});
    stage_expect(s,
                 "select count(*) = 3 * count(distinct step) and count(distinct rank) = 3 and count(*) > 0"
                 " and min(length(host)) > 0 and min(device) = 'cpu' and min(memory_bytes) > 0 from ranks",
                 "1");
    stage_expect(s, "select min(step) = 1 and max(step) = 60 from ranks", "1");
    stage_expect(s, "select min(sent_bytes) > (select parameters from runs) * 4 / 2 from ranks", "1");
    stage_expect(s,
                 "select min(step_ms) > 0 and min(wait_ms) > 0"
                 " and min(step_ms + wait_ms) > 0.5 * (select min(step_ms) from steps)"
                 " and max(step_ms + wait_ms) < 2 * (select max(step_ms) from steps) from ranks",
                 "1");
    stage_expect(s,
                 "select count(*) > 0 and min(time_us) > 0 from layer_profile"
                 " where op = 'wait for other ranks' and phase = 'optimizer'",
                 "1");
    char *page = process_output("show", "rows", NULL), *text = process_output("show", "rows", "--json", NULL),
         *csv = process_output("export", "rows", "--table", "ranks", NULL);
    assert_non_null(strstr(page, "Ranks, slowest first"));
    assert_memory_equal(csv, "run,segment,step,rank,host,", 27);
    json_t *show = stage_json(text), *ranks = json_object_get(show, "ranks");
    assert_int_equal(json_array_size(ranks), 3);
    for (size_t i = 1; i < 3; i++)
        assert_true(stage_real(json_array_get(ranks, i - 1), "step_ms") >=
                    stage_real(json_array_get(ranks, i), "step_ms"));
    train(s, "alone", "1", (const char *[]){"--train.total_steps=5", NULL});
    stage_expect(s, "select count(*) = 0 from ranks r join runs on id = run_id where name = 'alone'", "1");
}

/* With a rate of 0 the weights stay. Each rank evaluates a half, so a rank that went on would change the
 * loss. */
STAGE_CASE(all_ranks_obey_an_order_at_the_same_step, struct stage *s)
{
    stage_need_mpi();
    struct process *p = start_long(s);
    process_signal(p, SIGHUP); /* a closed terminal stops nothing */
    process_run(0, "order", "long", "pause", "--wait", NULL);
    assert_string_equal(stage_status(), "paused");
    process_run(0, "order", "long", "continue", "--wait", NULL);
    process_run(0, "order", "long", "lr-factor", "0", "--wait", NULL);
    process_wait(p, many_evaluations_follow_the_order, s);
    process_run(0, "order", "long", "trace", "--wait", NULL);
    process_run(0, "order", "long", "stop", "--wait", NULL);
    assert_int_equal(process_wait_exit(p), 0);
    stage_expect(s, "select count(distinct val_loss) > 1 from evals", "1");
    stage_expect(s, "select count(distinct val_loss) " AFTER_ORDER, "1");
    stage_expect(s, "select count(*) from orders where result like 'written to traces/%'", "1");
}

TEST_CASE(ranks_save_and_end_together)
{
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
    }
}

static pid_t parent_of(pid_t pid)
{
    int parent = 0;
    FILE *stat = fopen(kept_format("/proc/%d/stat", (int)pid), "r");
    assert_non_null(stat);
    assert_int_equal(fscanf(stat, "%*d (%*[^)]) %*c %d", &parent), 1);
    fclose(stat);
    return parent;
}

/* Schedulers and service managers signal all processes of a job. mpirun ends with 1 when it gets a SIGTERM
 * itself. */
STAGE_CASE(a_sigterm_to_all_processes_saves_and_succeeds, struct stage *s)
{
    stage_need_mpi();
    struct process *p = start_long(s);
    pid_t ranks[] = {stage_find_rank(s, 0), stage_find_rank(s, 1)}, mpirun = parent_of(ranks[0]);
    assert_int_equal(parent_of(mpirun), process_pid(p));
    process_signal(p, SIGTERM);
    kill(mpirun, SIGTERM);
    for (int r = 0; r < 2; r++) {
        kill(ranks[r], SIGUSR2); /* mpirun may also pass on the starter's request first */
        kill(ranks[r], SIGTERM);
    }
    assert_int_equal(process_wait_exit(p), 0);
    expect_saved(s);
}

/* The request to stop finds rank 0 halted, so that it cannot save before mpirun kills it. */
STAGE_CASE(ranks_that_are_killed_before_they_have_saved_do_not_succeed, struct stage *s)
{
    stage_need_mpi();
    struct process *p = start_long(s);
    pid_t rank = stage_find_rank(s, 0), mpirun = parent_of(rank);
    kill(rank, SIGSTOP);
    process_signal(p, SIGTERM);
    kill(rank, SIGKILL);
    kill(mpirun, SIGTERM);
    assert_int_equal(process_wait_exit(p), 1);
    assert_string_equal(stage_status(), "crashed");
}

/* Some seconds after a SIGTERM mpirun passes it on, and kills as many seconds later; meanwhile it reads no
 * output. */
STAGE_CASE(a_sigterm_to_mpirun_saves, struct stage *s)
{
    stage_need_mpi();
    struct process *p =
        begun(s, process_start_in("mpirun", stage_mpirun_environment, "-n", "2", getenv("ANNEAL_BINARY"),
                                  "train", s->config, "--name=mpirun", LONG, NULL));
    process_signal(p, SIGTERM);
    process_wait_exit(p);
    expect_saved(s);
}

STAGE_CASE(what_is_wrong_is_said_once, struct stage *s)
{
    stage_need_mpi();
    struct process *p = process_run(2, "train", s->config, "--ranks=2", "--train.batch_size=0", NULL);
    process_expect_said_once(p, "train.batch_size = 0");
    p = process_run(1, "train", s->config, "--ranks=2", "--data.train=/nowhere.txt", NULL);
    process_expect_said_once(p, "/nowhere.txt");
    assert_int_equal(stage_count_runs(), 0);
}

STAGE_CASE(without_the_plugin_one_sentence_names_the_packages, struct stage *s)
{
    const char *const environment[] = {"ANNEAL_MPI_PLUGIN=/nowhere.so", "OMPI_COMM_WORLD_SIZE=2", NULL};
    struct process *p = process_expect(1, process_start_in(NULL, environment, "train", s->config, NULL));
    process_expect_sentence(p, "apt install libopenmpi-dev openmpi-bin");
    p = process_expect(1, process_start_in(NULL, (const char *const[]){environment[0], NULL}, "train",
                                           s->config, "--ranks=3", NULL));
    process_expect_sentence(p, "apt install libopenmpi-dev openmpi-bin"); /* not one of each rank */
}

struct mpirun_case {
    const char *mpirun; /* a script in its place */
    int status;
};

static void expect_statuses(const struct stage *s, const struct mpirun_case *cases, size_t count)
{
    char *program = stage_path(s, "mpirun");
    for (size_t i = 0; i < count; i++) {
        stage_write(program, cases[i].mpirun, strlen(cases[i].mpirun));
        assert_int_equal(chmod(program, 0700), 0);
        const char *const environment[] = {kept_format("PATH=%s:/usr/bin:/bin", s->folder),
                                           kept_format("ANNEAL_MPI_PLUGIN=%s", program), NULL};
        process_close(process_expect(
            cases[i].status, process_start_in(NULL, environment, "train", s->config, "--ranks=2", NULL)));
    }
}

/* Open MPI's status of a rank that a signal has killed is 128 and the signal's number. */
STAGE_CASE(a_rank_that_dies_of_the_request_to_stop_has_not_failed, struct stage *s)
{
    static const struct mpirun_case cases[] = {
        {"#!/bin/sh\nexit 140\n", 0}, {"#!/bin/sh\nexit 138\n", 75}, {"#!/bin/sh\nexit 139\n", 1}};
    expect_statuses(s, cases, sizeof cases / sizeof *cases);
}

/* Rank 0 writes '0' and its enum status. */
STAGE_CASE(what_rank_0_tells_counts_more_than_the_status_of_a_stopped_mpirun, struct stage *s)
{
#define ASKED "#!/bin/sh\ntrap '' USR2\nkill -TERM $PPID\n"
    static const struct mpirun_case cases[] = {
        {ASKED "printf 0 > $ANNEAL_OUTCOME; exit 1\n", 0},
        {ASKED "printf : > $ANNEAL_OUTCOME; exit 1\n", 75}, /* STATUS_PREEMPTED */
        {ASKED "printf 1 > $ANNEAL_OUTCOME; exit 0\n", 1},  /* killed before it had saved */
        {"#!/bin/sh\nprintf 1 > $ANNEAL_OUTCOME; exit 140\n", 1},
        {ASKED "exit 1\n", 1},
        {"#!/bin/sh\nprintf 0 > $ANNEAL_OUTCOME; exit 1\n", 1}}; /* nobody has asked mpirun to end */
    expect_statuses(s, cases, sizeof cases / sizeof *cases);
}

/* The mpirun of another MPI: each process finds itself alone. */
STAGE_CASE(ranks_of_another_mpi_are_refused, struct stage *s)
{
    stage_need_mpi();
    const char *const environment[] = {"PMI_SIZE=2", "PMI_RANK=1", "OMPI_ALLOW_RUN_AS_ROOT=1",
                                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    struct process *p = process_expect(1, process_start_in(NULL, environment, "train", s->config, NULL));
    process_expect_said_once(p, "2 processes were started together, but MPI knows of 1");
    assert_int_equal(stage_count_runs(), 0);
}

/* One process has nothing to do with MPI: the plugin is not loaded. */
STAGE_CASE(one_process_loads_no_mpi, struct stage *s)
{
    char line[4200];
    struct process *p = begun(s, process_start("train", s->config, LONG, NULL));
    char *path = kept_format("/proc/%d/maps", (int)process_pid(p));
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) assert_null(strstr(line, "mpi"));
    fclose(maps);
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait_exit(p), 0);
}

TEST_MAIN()
