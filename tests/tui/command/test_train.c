/* `train` and `resume` as a user runs them: their output, exit status and records. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/heap.h"
#include "core/base/processors.h"
#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/session/process.h"

/* ---- progress ---- */

STAGE_CASE(progress_json_is_one_object_a_line_from_run_to_end, struct stage *s)
{
    struct process *p = process_run(0, "train", s->config, "--name", "j", "--progress", "json", NULL);
    assert_string_equal(process_stderr(p), "");
    json_t *lines = stage_parse_lines(process_stdout(p)), *runs = stage_runs();
    json_t *first = json_array_get(lines, 0), *last = json_array_get(lines, json_array_size(lines) - 1);
    assert_string_equal(stage_text(first, "type"), "run");
    assert_string_equal(stage_text(first, "run"), stage_text(json_array_get(runs, 0), "id"));
    assert_int_equal(stage_int(first, "pid"), process_pid(p));
    assert_int_equal(stage_int(first, "step"), 0);
    assert_int_equal(stage_int(first, "total_steps"), 40);
    assert_int_equal(stage_count_lines(lines, "step"), 40);
    assert_int_equal(stage_count_lines(lines, "eval"), 4);
    assert_int_equal(stage_count_lines(lines, "sample"), 2);
    assert_int_equal(stage_count_lines(lines, "checkpoint"), 4);
    for (int i = 0; i < 40; i++) assert_int_equal(stage_int(stage_find_line(lines, "step", i), "step"), i);
    assert_string_equal(stage_text(last, "type"), "end");
    assert_string_equal(stage_text(last, "status"), "finished");
    assert_int_equal(stage_int(last, "step"), 40);
    stage_expect(s, "select text from events where level <> 'info'", "");
}

/* With samples, evaluations and checkpoints between the steps, as every run has them; also where rows are
 * packed while it trains. */
STAGE_CASE(a_run_can_check_that_its_steps_allocate_nothing, struct stage *s)
{
    const char *binary = getenv("ANNEAL_BINARY"), *slash = strrchr(binary, '/');
    char *counter = kept_format("%.*s/%s", (int)(slash - binary), binary, HEAP_COUNTER);
    if (file_exists(counter)) {
        process_run(0, "train", s->config, "--check-allocations", "--progress=json", NULL);
        process_run(0, "train", s->config, "--check-allocations", "--data.documents=packed",
                    "--data.end_token=10", NULL);
    } else /* the program of a sanitizer */
        process_expect_sentence(process_run(2, "train", s->config, "--check-allocations", NULL),
                                "--check-allocations: cannot count heap allocations");
}

STAGE_CASE(progress_json_holds_exactly_what_is_recorded, struct stage *s)
{
    struct process *p = process_run(0, "train", s->config, "--name", "j", "--progress", "json", NULL);
    json_t *lines = stage_parse_lines(process_stdout(p));
    struct history history = history_of("j");
    assert_int_equal(history.count, 40);
    for (int i = 0; i < 40; i++) {
        json_t *step = stage_find_line(lines, "step", i);
        double loss, lr, norm;
        assert_int_equal(sscanf(history.steps[i].values, "%lf,%lf,%lf", &loss, &lr, &norm), 3);
        assert_true(stage_real(step, "loss") == loss);
        assert_true(stage_real(step, "lr") == lr);
        assert_true(stage_real(step, "grad_norm") == norm);
        if (i) /* a wall time with nine digits would stand still */
            assert_true(stage_real(step, "wall_time") >
                        stage_real(stage_find_line(lines, "step", i - 1), "wall_time"));
    }
}

STAGE_CASE(progress_json_stays_json_with_a_prompt_that_is_not_utf8, struct stage *s)
{
    struct process *p = process_run(0, "train", s->config, "--progress=json", "--train.total_steps=2",
                                    "--sample.every=1", "--sample.prompt=\xff\"\\ a", NULL);
    json_t *lines = stage_parse_lines(process_stdout(p));
    assert_int_equal(stage_count_lines(lines, "sample"), 2);
    assert_string_equal(stage_text(stage_find_line(lines, "sample", 0), "prompt"), "\xEF\xBF\xBD\"\\ a");
}

STAGE_CASE(progress_plain_reports_the_story_on_standard_error, struct stage *s)
{
    struct process *p =
        process_run(0, "train", s->config, "--name", "story", /* auto: no terminal */
                    "--eval.early_stopping_patience=9", "--eval.early_stopping_min_delta=100", NULL);
    const char *output = process_stderr(p);
    assert_string_equal(process_stdout(p), "");
    assert_non_null(strstr(output, "-story: 17.0k parameters, "));
    assert_non_null(strstr(output, "anneal watch "));
    assert_non_null(strstr(output, "evaluation at step 10: val loss "));
    assert_non_null(strstr(output, " (best so far)\n"));
    assert_non_null(strstr(output, " (best so far, 3 of 9 evaluations without enough improvement)\n"));
    assert_non_null(strstr(output, "sample at step 20: In the beginning"));
    assert_non_null(strstr(output, "checkpoint checkpoints/step-40 ("));
    assert_non_null(strstr(output, "finished after step 40; see: "));
    assert_null(strchr(output, '\r'));
    assert_null(strchr(output, '\033'));
}

STAGE_CASE(progress_none_says_nothing, struct stage *s)
{
    struct process *p = process_run(0, "train", s->config, "--progress", "none", NULL);
    assert_string_equal(process_stdout(p), "");
    assert_string_equal(process_stderr(p), "");
    assert_string_equal(stage_status(), "finished");
}

STAGE_CASE(a_reader_that_goes_away_does_not_stop_the_run, struct stage *s)
{
    struct process *p =
        process_start("train", s->config, "--name", "heard", "--progress", "json", "--train.total_steps=1000",
                      "--eval.every=250", "--checkpoint.every=250", NULL);
    process_wait_lines(p, 2);
    process_stop_reading(p);
    process_expect(0, p);
    assert_string_equal(process_stderr(p), "");
    struct history history = history_of("heard");
    assert_int_equal(history.count, 1000);
}

STAGE_CASE(a_hangup_does_not_stop_the_run, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--progress", "json", "--train.total_steps=1000",
                                      "--eval.every=250", "--checkpoint.every=250", NULL);
    process_wait_lines(p, 2);
    process_signal(p, SIGHUP);
    process_expect(0, p);
    assert_string_equal(stage_status(), "finished");
}

/* ---- interruption ---- */

static void interrupt_and_resume(const char *name, int number, int status)
{
    struct stage s;
    stage_open(&s, name);
    process_run(0, "train", s.config, "--name", "whole", "--eval.every=250", "--train.total_steps=1000",
                "--progress", "none", NULL);
    struct process *trainer =
        process_start("train", s.config, "--name", "parts", "--eval.every=250", "--train.total_steps=1000",
                      "--checkpoint.every=0", "--progress", "json", NULL);
    process_wait_lines(trainer, 37);
    process_signal(trainer, number);
    process_expect(status, trainer);
    json_t *lines = stage_parse_lines(process_stdout(trainer)), *end = stage_find_line(lines, "end", 0);
    assert_string_equal(stage_text(end, "status"), "stopped");
    assert_int_equal(stage_int(stage_find_line(lines, "checkpoint", -1), "step"), stage_int(end, "step"));
    assert_string_equal(stage_status(), "stopped");
    struct process *rest = process_run(0, "resume", "parts", "--progress", "json", NULL);
    json_t *others = stage_parse_lines(process_stdout(rest));
    assert_int_equal(stage_int(stage_find_line(others, "run", 0), "step"), stage_int(end, "step"));
    assert_int_equal(stage_int(stage_find_line(others, "step", 0), "step"), stage_int(end, "step"));
    assert_string_equal(stage_status(), "finished");
    struct history whole = history_of("whole"), parts = history_of("parts");
    assert_int_equal(whole.count, 1000);
    assert_int_equal(parts.steps[0].segment, 1);
    assert_int_equal(parts.steps[999].segment, 2);
    history_expect_equal(&whole, &parts);
}

TEST_CASE(ctrl_c_checkpoints_and_resume_continues_bit_for_bit)
{
    interrupt_and_resume("ctrl-c", SIGINT, 130);
}

TEST_CASE(sigterm_checkpoints_and_resume_continues_bit_for_bit)
{
    interrupt_and_resume("sigterm", SIGTERM, 0);
}

TEST_CASE(a_later_ctrl_c_leaves_at_once)
{
    int how;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        interrupt_catch();
        raise(SIGINT), raise(SIGINT);
        usleep(1100000);
        raise(SIGINT);
        _exit(interrupt_signal());
    }
    double start = clock_monotonic();
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGINT);
    assert_true(clock_monotonic() - start > 1);
}

/* timeout(1) sends its signal to the command, and then to the group of processes with the command in it. */
STAGE_CASE(a_signal_that_comes_twice_at_once_is_one_request, struct stage *s)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        struct process *p =
            process_start("train", s->config, "--progress=json", "--train.total_steps=1000000", NULL);
        process_wait_lines(p, 3);
        process_signal(p, numbers[i]);
        usleep(2000); /* else the kernel makes one of both */
        process_signal(p, numbers[i]);
        process_expect(numbers[i] == SIGINT ? 130 : 0, p);
        assert_string_equal(stage_status(), "stopped");
    }
}

/* ---- resuming ---- */

STAGE_CASE(a_finished_run_names_the_remedy_and_more_steps_continue_it, struct stage *s)
{
    /* a schedule that does not depend on the number of steps */
    const char *constant = "--train.schedule=warmup_constant";
    process_run(0, "train", s->config, "--name", "parts", constant, "--progress=none", NULL);
    struct process *p = process_run(2, "resume", "parts", NULL);
    process_expect_sentence(p, "has done 40 of train.total_steps = 40 steps (to train longer: ");
    process_run(0, "resume", "parts", "--train.total_steps=60", "--progress=none", NULL);
    json_t *runs = stage_runs(), *run = json_array_get(runs, 0);
    assert_int_equal(json_array_size(runs), 1);
    assert_int_equal(stage_int(run, "steps"), 60);
    assert_string_equal(stage_text(run, "status"), "finished");
    process_run(0, "train", s->config, "--name", "whole", constant, "--train.total_steps=60",
                "--progress=none", NULL);
    history_expect_same("whole", "parts");
}

STAGE_CASE(what_resume_changes_is_kept_and_reported, struct stage *s)
{
    process_run(0, "train", s->config, "--progress=none", NULL);
    process_run(0, "resume", "latest", "--train.total_steps=50", "--train.learning_rate=1e-3",
                "--progress=none", NULL);
    struct process *p = process_run(2, "resume", "latest", NULL);
    process_expect_sentence(p, "has done 50 of train.total_steps = 50 steps");
    p = process_run(2, "resume", "latest", "--train.total_steps=30", NULL);
    process_expect_sentence(p, "has done 50 of train.total_steps = 30 steps");
    char *text = process_output("show", "latest", "--json", NULL);
    json_t *show = stage_json(text);
    json_t *train = json_object_get(json_object_get(show, "config"), "train");
    assert_int_equal(stage_int(train, "total_steps"), 50);
    assert_true(stage_real(train, "learning_rate") == 1e-3);
    json_t *events = json_object_get(show, "events");
    const char *output = stage_text(json_array_get(events, json_array_size(events) - 1), "text");
    assert_string_equal(output,
                        "resumed with train.total_steps = 50 (was 40), train.learning_rate = 0.001 (was "
                        "0.003)");
    stage_expect(s,
                 "select total_steps from runs; select value from params where name = "
                 "'train.total_steps'",
                 "50\n50");
}

/* Until the run was resumed once more, which trained without it. */
STAGE_CASE(what_resume_sets_that_was_empty_is_kept_and_reported, struct stage *s)
{
    process_run(0, "train", s->config, "--until=10", "--progress=none", NULL);
    process_run(0, "resume", "latest", "--until=20", "--train.accumulation_plan=0: 1, 15: 2",
                "--progress=none", NULL);
    process_run(0, "resume", "latest", "--progress=none", NULL);
    stage_expect(s,
                 "select value from params where name = 'train.accumulation_plan'; select text from events "
                 "where text like 'resumed with %'; select count(*) from steps a join steps b on b.step = "
                 "a.step - 1 where a.tokens - b.tokens = 2 * (select tokens from steps where step = 0)",
                 "0: 1, 15: 2\nresumed with train.accumulation_plan = 0: 1, 15: 2 (was empty)\n25");
    process_expect_sentence(
        process_run(2, "fork", "latest", "--eval.metric=val_perplexity", "--train.total_steps=50", NULL),
        "eval.metric = val_perplexity: the run was trained with an empty one, which a forked run must keep");
}

STAGE_CASE(epochs_set_the_number_of_steps_and_resume_follows, struct stage *s)
{
    process_run(0, "train", s->config, "--train.epochs=0.2", "--progress=none", NULL);
    char *steps = stage_query(s, "select steps from runs where steps = total_steps");
    char *seen = stage_query(s, "select epoch >= 0.2 and epoch < 0.21 from steps order by step desc limit 1");
    assert_true(atoi(steps) > 1);
    assert_string_equal(seen, "1");
    process_run(0, "resume", "latest", "--train.epochs=0.4", "--progress=none", NULL);
    char *more = stage_query(s, "select steps from runs where steps = total_steps");
    assert_in_range(atoi(more), 2 * atoi(steps) - 1, 2 * atoi(steps));
    process_run(0, "resume", "latest", "--train.total_steps=70", "--progress=none", NULL);
    stage_expect(s,
                 "select steps from runs; select value from params where name = "
                 "'train.epochs'",
                 "70\n0");
}

STAGE_CASE(resume_refuses_what_a_checkpoint_depends_on_and_names_it, struct stage *s)
{
    static const struct {
        const char *word, *sentence;
    } cases[] = {
        {"--model.hidden_dim=64", "model.hidden_dim = 64: the run was trained with 32"},
        {"--model.num_layers=2", "model.num_layers = 2: the run was trained with 1"},
        {"--model.preset=tiny", "model.preset = tiny: the run was trained with shakespeare"},
        {"--train.optimizer=lion", "train.optimizer = lion: the run was trained with adamw"},
        {"--train.seq_len=16", "train.seq_len = 16: the run was trained with 32"},
        {"--train.seed=7", "train.seed = 7: the run was trained with 1337"},
        {"--data.val_fraction=0.2", "data.val_fraction = 0.2: the run was trained with 0.1"},
        {"--data.val_split=tail", "data.val_split = tail: the run was trained with blocks"},
        {"--data.shuffle=none", "data.shuffle = none: the run was trained with stride"},
    };
    process_run(0, "train", s->config, "--progress=none", NULL);
    struct history before = history_of("latest");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = process_run(2, "resume", "latest", "--train.total_steps=80", cases[i].word, NULL);
        process_expect_sentence(p, cases[i].sentence);
        process_expect_sentence(p, "which a resumed run must keep");
    }
    struct history after = history_of("latest");
    history_expect_equal(&before, &after);
    assert_string_equal(stage_status(), "finished");
}

STAGE_CASE(a_run_is_resumed_from_another_folder, struct stage *s)
{
    process_expect(
        0, process_open(&(struct process_options){
               .folder = s->folder,
               .arguments = (const char *const[]){"train", "tiny.ini", "--data.train=text.txt",
                                                  "--progress=none", "--train.total_steps=20", NULL}}));
    process_run(0, "resume", "latest", "--train.total_steps=30", "--progress=none", NULL);
    assert_string_equal(stage_status(), "finished");
}

STAGE_CASE(a_run_whose_corpus_has_changed_is_not_resumed, struct stage *s)
{
    process_run(0, "train", s->config, "--name", "run", "--progress=none", NULL);
    char *text = stage_read(s->corpus);
    text[5000]++; /* as many tokens as before */
    stage_write(s->corpus, text, strlen(text));
    struct process *p = process_run(2, "resume", "run", "--train.total_steps=60", NULL);
    process_expect_sentence(p,
                            kept_format("data.train = %s: the corpus has changed: the same number of tokens, "
                                        "but different ones (restore it, or train a new run; "
                                        "--model.from=RUN gives it this one's weights)",
                                        s->corpus));
    text[5000]--;
    stage_write(s->corpus, text, strlen(text));
    process_run(0, "resume", "run", "--train.total_steps=60", "--progress=none", NULL);
}

/* The content counts, not the path. */
STAGE_CASE(a_run_whose_corpus_was_moved_is_resumed_where_it_is_now, struct stage *s)
{
    char *id, *train;
    process_run(0, "train", s->config, "--name", "run", "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                "--progress=none", NULL);
    char *moved = stage_path(s, "elsewhere.txt");
    assert_int_equal(rename(s->corpus, moved), 0);
    struct process *p = process_run(1, "resume", "run", "--train.total_steps=60", NULL);
    id = stage_query(s, "select id from runs");
    char *hint = kept_format("if it was moved: %s resume %s --data.train=PATH", getenv("ANNEAL_BINARY"), id);
    process_expect_sentence(p, hint);
    char *setting = kept_format("--data.train=%s", moved);
    process_run(0, "resume", "run", "--train.total_steps=60", setting, "--progress=none", NULL);
    assert_string_equal(stage_status(), "finished");
    train = stage_query(s, "select value from params where name = 'data.train'");
    assert_string_equal(train, moved);
    process_run(0, "fork", "run", "--train.total_steps=80", "--progress=none", NULL);
}

/* A learned tokenizer changes with its text: then the text is what to restore. */
STAGE_CASE(text_added_to_a_corpus_is_reported_as_a_change_of_the_corpus, struct stage *s)
{
    process_run(0, "train", s->config, "--name", "run", "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                "--progress=none", NULL);
    FILE *text = fopen(s->corpus, "a");
    assert_non_null(text);
    for (int i = 0; i < 3000; i++) fputs("zebra quartz ", text);
    assert_int_equal(fclose(text), 0);
    struct process *p = process_run(2, "resume", "run", "--train.total_steps=60", NULL);
    process_expect_sentence(p, "the corpus or data.tokenizer has changed");
}

STAGE_CASE(a_run_without_a_checkpoint_says_so, struct stage *s)
{
    char *id;
    struct err err = {0};
    process_run(0, "train", s->config, "--name", "bare", "--progress=none", NULL);
    id = stage_query(s, "select id from runs");
    char *path = kept_format("%s/runs/%s/checkpoints", s->home, id);
    assert_true(file_is_folder(path));
    assert_int_equal(file_remove_tree(path, &err), STATUS_OK);
    struct process *p = process_run(1, "resume", "bare", NULL);
    process_expect_sentence(p, "there is no checkpoint left to continue from");
    assert_string_equal(stage_status(), "finished");
    char *folder = kept_format("%s/runs/%s", s->home, id);
    assert_int_equal(file_remove_tree(folder, &err), STATUS_OK);
    p = process_run(1, "resume", "bare", NULL);
    process_expect_sentence(p, "the run's folder is missing, with its checkpoints");
    assert_false(file_exists(folder));
}

/* How often the report of the newest run's threads is among its events, after a run in this environment. */
static int count_reports(const struct stage *s, const char *name, const char *value, const char *threads,
                         const char *part)
{
    int count = 0;
    setenv(name, value, 1);
    process_run(0, "train", s->config, threads, "--train.total_steps=1", "--eval.every=0", "--sample.every=0",
                "--progress=none", NULL);
    unsetenv(name);
    assert_string_equal(stage_status(), "finished");
    for (const char *at = process_output("show", "latest", NULL); (at = strstr(at, part)); at++) count++;
    return count;
}

STAGE_CASE(what_the_environment_does_to_threads_is_reported_once, const struct stage *s)
{
    const char *many = "OMP_NUM_THREADS = 96: the threads share", *limit = "OMP_THREAD_LIMIT = 1 leaves";
    if (processors_online() >= 96) skip();
    assert_int_equal(count_reports(s, "OMP_NUM_THREADS", "96", "--train.threads=0", many), 1);
    assert_int_equal(count_reports(s, "OMP_NUM_THREADS", "96", "--train.threads=1", many), 0);
    if (processors_allowed() > 1)
        assert_int_equal(count_reports(s, "OMP_THREAD_LIMIT", "1", "--train.threads=2", limit), 1);
    assert_int_equal(count_reports(s, "OMP_THREAD_LIMIT", "1", "--train.threads=1", limit), 0);
    const char *isa = "ANNEAL_CPU_ISA = ";
    assert_int_equal(count_reports(s, "ANNEAL_CPU_ISA", "v9", "--train.threads=1", "v9 has no effect"), 1);
    assert_int_equal(count_reports(s, "ANNEAL_CPU_ISA", "baseline", "--train.threads=1", isa),
                     cpu_backend_for("v3") != NULL);
}

/* How often the newest run says that it goes on with other instructions. */
static int count_other_machines(void)
{
    int count = 0;
    for (const char *at = process_output("show", "latest", NULL);
         (at = strstr(at, "but the checkpoint was computed with SSE2")); at++)
        count++;
    return count;
}

STAGE_CASE(a_run_that_goes_on_with_other_instructions_says_so, const struct stage *s)
{
    if (!cpu_backend_for("v3")) skip();
    setenv("ANNEAL_CPU_ISA", "baseline", 1);
    process_run(0, "train", s->config, "--train.total_steps=2", "--progress=none", NULL);
    setenv("ANNEAL_CPU_ISA", "v3", 1);
    process_run(0, "resume", "latest", "--train.total_steps=3", "--progress=none", NULL);
    assert_int_equal(count_other_machines(), 1);
    process_run(0, "resume", "latest", "--train.total_steps=4", "--progress=none", NULL);
    process_run(0, "resume", "latest", "--train.total_steps=5", "--progress=none", NULL);
    unsetenv("ANNEAL_CPU_ISA");
    assert_int_equal(count_other_machines(), 1);
}

/* Not for ever, which would take the processors from others; the user's own settings stay. */
STAGE_CASE(the_wait_policy_is_set_unless_the_user_set_one, const struct stage *s)
{
    for (int own = 0; own < 2; own++) {
        if (own) setenv("GOMP_SPINCOUNT", "7", 1);
        unsetenv("OMP_WAIT_POLICY");
        struct process *p =
            process_start("train", s->config, "--train.total_steps=100000000", "--eval.every=0",
                          "--sample.every=0", "--checkpoint.every=0", "--progress=json", NULL);
        process_wait_lines(p, 1);
        static char environment[1 << 16];
        FILE *file = fopen(kept_format("/proc/%d/environ", (int)process_pid(p)), "r");
        assert_non_null(file);
        size_t size = fread(environment, 1, sizeof environment, file);
        fclose(file);
        const char *spins = own ? "GOMP_SPINCOUNT=7" : "GOMP_SPINCOUNT=1000",
                   *policy = "OMP_WAIT_POLICY=passive";
        assert_non_null(memmem(environment, size, spins, strlen(spins) + 1));
        assert_int_equal(memmem(environment, size, policy, strlen(policy) + 1) != NULL, !own);
        process_signal(p, SIGTERM);
        process_expect(0, p);
    }
    unsetenv("GOMP_SPINCOUNT");
    setenv("OMP_WAIT_POLICY", "passive", 1);
}

/* OpenMP's binding of its first thread must not be taken for a limit of the process. */
STAGE_CASE(bound_threads_are_as_many_as_unbound_ones, const struct stage *s)
{
    static const char *const bindings[][2] = {
        {"OMP_PROC_BIND", "true"}, {"OMP_PLACES", "cores"}, {"OMP_PROC_BIND", "spread"}};
    process_run(0, "train", s->config, "--train.total_steps=1", "--train.threads=0", "--progress=none", NULL);
    char *device = stage_query(s, "select device from runs");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_reports(s, bindings[i][0], bindings[i][1], "--train.threads=0", "affinity"),
                         0);
        stage_expect(s, "select device from runs order by created_at desc limit 1", device);
    }
}

/* OpenMP may start fewer threads than asked for where that is allowed, but operations divide their work for
 * all of them. */
STAGE_CASE(threads_that_openmp_would_save_compute_the_same, const struct stage *s)
{
    char *plain, *dynamic;
    process_run(0, "train", s->config, "--train.threads=3", "--name", "plain", "--progress=none", NULL);
    setenv("OMP_DYNAMIC", "true", 1);
    process_run(0, "train", s->config, "--train.threads=3", "--name", "dynamic", "--progress=none", NULL);
    unsetenv("OMP_DYNAMIC");
    plain = stage_query(s, "select group_concat(loss) from steps, runs where id = run_id and name = 'plain'");
    dynamic =
        stage_query(s, "select group_concat(loss) from steps, runs where id = run_id and name = 'dynamic'");
    assert_true(strlen(plain) > 100);
    assert_string_equal(plain, dynamic);
}

/* One head of one sequence is fewer than the threads, so that attention divides its work otherwise, and 130
 * tokens are several of its tiles. */
STAGE_CASE(the_number_of_threads_changes_no_loss, const struct stage *s)
{
    static const char *const models[] = {"--train.seq_len=32", "--train.seq_len=130"},
                             *const precisions[] = {"--train.precision=fp32", "--train.precision=bf16"},
                             *const threads[] = {"--train.threads=1", "--train.threads=2",
                                                 "--train.threads=3"};
    for (int i = 0; i < 4; i++) {
        char *first = NULL;
        for (int k = 0; k < 3; k++) {
            process_run(0, "train", s->config, "--model.num_heads=1", "--train.batch_size=1", models[i % 2],
                        precisions[i / 2], threads[k], "--train.total_steps=8", "--progress=none", NULL);
            char *losses = stage_query(s, "select group_concat(printf('%!.17g %!.17g', loss, grad_norm)) "
                                          "from steps where run_id = (select id from runs"
                                          " order by created_at desc limit 1)");
            assert_true(strlen(losses) > 100);
            if (k == 0) first = losses;
            assert_string_equal(losses, first);
        }
    }
}

STAGE_CASE(a_resume_stores_the_records_that_the_database_lacks, struct stage *s)
{
    stage_run_without_table(s, "late");
    struct process *p = process_start("resume", "late", "--progress=plain", NULL);
    process_wait_text(p, " records that the database lacked were read from the run's folder");
    process_signal(p, SIGTERM);
    process_expect(0, p);
    stage_expect(s, "select count(*) = max(step) + 1 and min(step) = 0 from steps", "1");
}

STAGE_CASE(a_run_that_the_database_has_lost_goes_on_from_its_folder, struct stage *s)
{
    process_run(0, "train", s->config, "--name", "whole", "--progress=none", NULL);
    struct history whole = history_of("whole");
    process_run(0, "train", s->config, "--name", "half", "--until=20", "--tag=kept", "--progress=none", NULL);
    char *id = stage_query(s, "select id from runs where name = 'half'");
    char *folder = kept_format("%s/runs/%s", s->home, id), *records = kept_format("%s/records", folder);
    static const char *const files[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) unlink(kept_format("%s/anneal.db%s", s->home, files[i]));
    process_expect_sentence(process_run(1, "resume", "half", "--progress=none", NULL),
                            "has folders of runs, but its database has no run");
    process_expect_sentence(process_run(2, "import", records, NULL), "anneal doctor --repair");
    process_expect_sentence(process_run(2, "resume", s->home, NULL), "is not the folder of a run below ");
    process_run(0, "resume", folder, "--progress=none", NULL);
    struct history half = history_of("half");
    assert_int_equal(half.count, 40);
    for (int i = 0; i < 40; i++)
        assert_string_equal(half.steps[i].values, i < 20 ? "" : whole.steps[i].values);
    stage_expect(s, "select name, status, steps from runs", "half|finished|40");
    stage_expect(s, "select tag from tags", "kept");
    stage_expect(s, "select count(*) from events where text like 'steps 0 to 19 are missing in the history%'",
                 "1");
}

TEST_MAIN()
