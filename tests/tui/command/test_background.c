/* A trainer in the background: --watch of resume and fork, the key that resumes, and leaving while it
 * prepares. */
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/run.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

#define LONG_RUN "--train.total_steps=10000000", "--eval.every=0", "--checkpoint.every=0", "--sample.every=0"

/* A stage with the run "old", which was stopped by SIGINT after some steps of `total`. */
static void open_with_stopped(struct stage *s, const char *total)
{
    struct process *p = process_start("train", s->config, "--name=old", total, "--progress=plain", NULL);
    process_wait_text(p, "checkpoint ");
    process_signal(p, SIGINT);
    process_expect(130, p);
}

static struct pty *open_terminal(const char *const *words)
{
    return pty_open(&(struct pty_options){.rows = 24, .columns = 100, .arguments = words});
}

static void leave(struct pty *pty, const char *keys)
{
    pty_send(pty, keys);
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

/* Ends the newest trainer of run `word`. */
static void end_run(const struct stage *s, const char *word)
{
    struct store *store;
    struct run_info run;
    struct err err = {0};
    assert_int_equal(store_open(s->home, STORE_WRITE, &store, &err), STATUS_OK);
    assert_int_equal(run_find(store, word, &run, &err), STATUS_OK);
    kill((pid_t)run.pid, SIGTERM);
    for (int i = 0; i < 60000 && run_is_alive(store, run.id); i++) usleep(1000);
    store_close(store);
}

STAGE_CASE(resume_and_fork_with_watch_arrive_at_their_run, struct stage *s)
{
    open_with_stopped(s, "--train.total_steps=10000000");
    const char *resume[] = {"resume", "old", "--watch", "--eval.every=0", "--checkpoint.every=0", NULL};
    struct pty *pty = open_terminal(resume);
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "old");
    leave(pty, "qq");
    stage_expect(s, "select name || ' ' || segment from runs", "old 2");
    end_run(s, "old");
    const char *fork[] = {"fork", "old", "--watch", "--name=new", "--progress", "plain", NULL};
    pty = open_terminal(fork);
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "new");
    leave(pty, "qq");
    end_run(s, "new");
    stage_expect(s, "select count(*) from runs", "2");
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(where_no_workbench_can_open_watch_says_what_has_started, struct stage *s)
{
    const char *const train[] = {"train", "--name=new", "--watch", "--", s->config, NULL};
    struct pty *pty =
        pty_open(&(struct pty_options){.rows = 24, .columns = 400, .term = "dumb", .arguments = train});
    assert_int_equal(pty_wait_exit(pty), 1);
    char *id = stage_query(s, "select id from runs");
    pty_wait_text(pty, kept_format("anneal: run %s has started in the background: the workbench cannot", id));
    pty_close(pty);
    end_run(s, "new");
    char *in_vain = kept_format("\"$ANNEAL_BINARY\" train '%s' --watch < /dev/null", s->config);
    const char *const words[] = {"-qec", in_vain, "/dev/null", NULL};
    struct process *p = process_open(&(struct process_options){.program = "script", .arguments = words});
    process_expect(1, p);
    assert_non_null(strstr(process_stdout(p), "--watch: the workbench needs a terminal, but standard input"));
    stage_expect(s, "select count(*) from runs", "1");
}

STAGE_CASE(several_ranks_with_watch_arrive_at_their_run, struct stage *s)
{
    stage_need_mpi();
    const char *train[] = {"train", s->config, "--watch", "--ranks=2", "--name=ranks", LONG_RUN, NULL};
    struct pty *pty = open_terminal(train);
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "ranks");
    leave(pty, "qq");
    stage_expect(s, "select count(*) from runs", "1");
    assert_int_not_equal(stage_find_rank(s, 1), 0);
    end_run(s, "ranks");
    stage_expect(s, "select status from runs", "stopped");
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* As for one process, it fits the terminal. */
STAGE_CASE(several_ranks_draw_a_bar_on_a_terminal, struct stage *s)
{
    stage_need_mpi();
    const char *train[] = {"train", s->config, "--ranks=2", "--name=ranks", LONG_RUN, NULL};
    struct pty *pty = open_terminal(train);
    pty_wait_text(pty, "watch it with: ");
    pty_wait_text(pty, "training     0% ─");
    pty_send(pty, "\003");
    assert_int_equal(pty_wait_exit(pty), 130);
    pty_wait_text(pty, "stopped after step");
    pty_close(pty);
    assert_string_equal(stage_status(), "stopped");
}

STAGE_CASE(what_stands_in_the_way_of_a_resume_is_said_and_no_workbench_opens, struct stage *s)
{
    process_run(0, "train", s->config, "--name=old", "--progress=none", NULL);
    const char *resume[] = {"resume", "old", "--watch", NULL};
    struct pty *pty = open_terminal(resume);
    assert_int_equal(pty_wait_exit(pty), 1);
    pty_wait_text(pty, "its checkpoint has done 40 of train.total_steps = 40");
    assert_false(pty_on_alternate_screen(pty));
    pty_close(pty);
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(r_resumes_a_run_that_was_stopped, struct stage *s)
{
    open_with_stopped(s, "--train.total_steps=10000000");
    struct pty *pty = open_terminal(NULL);
    pty_wait_text(pty, "1 run, 0 training");
    pty_send(pty, "r");
    pty_wait_text(pty, "Resume old from its newest checkpoint?");
    pty_send(pty, "n");
    pty_wait_no_text(pty, "Resume old");
    pty_send(pty, "\r");
    pty_wait_text(pty, "r resumes it");
    pty_send(pty, "ry");
    pty_wait_text(pty, "is training again");
    pty_wait_text(pty, "● running");
    pty_send(pty, "r");
    pty_wait_text(pty, "old is training already");
    leave(pty, "qq");
    stage_expect(s, "select name || ' ' || segment from runs", "old 2");
    end_run(s, "old");
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(r_trains_a_finished_run_on_and_says_what_stands_in_the_way, struct stage *s)
{
    process_run(0, "train", s->config, "--name=old", "--progress=none", NULL);
    struct pty *pty = open_terminal(NULL);
    pty_wait_text(pty, "✓ finished");
    pty_send(pty, "r");
    pty_wait_text(pty, "old has done its 40 steps. Train it further, to 80?");
    pty_send(pty, "y");
    pty_wait_text(pty, "is training again");
    pty_send(pty, "\r");
    pty_wait_text(pty, "80 / 80 steps");
    pty_wait_text(pty, "✓ finished");
    leave(pty, "qq");
    assert_int_equal(unlink(s->corpus), 0);
    pty = open_terminal(NULL);
    pty_wait_text(pty, "✓ finished");
    pty_send(pty, "ry");
    pty_wait_text(pty, "text.txt: "); /* the trainer's own sentence */
    leave(pty, "qq");
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(ctrl_c_while_it_prepares_ends_the_trainer_and_leaves_no_run, struct stage *s)
{
    char *path = stage_path(s, "large.txt");
    char *word = kept_format("--data.train=%s", path);
    FILE *file = fopen(path, "w"); /* many different words: counting and merging them takes seconds */
    assert_non_null(file);
    for (uint32_t i = 0, x = 1; i < 2000000; i++) fprintf(file, "%x ", x = x * 1664525u + 1013904223u);
    assert_int_equal(fclose(file), 0);
    const char *words[] = {"train", "--watch", word, "--data.tokenizer=bpe:30000", NULL};
    struct pty *pty = open_terminal(words);
    pty_wait_text(pty, "preparing: "); /* whatever it does: on a busy machine a single phase may be missed */
    pty_send(pty, "\003");
    assert_int_equal(pty_wait_exit(pty), 130);
    assert_false(pty_on_alternate_screen(pty));
    pty_close(pty);
    assert_int_equal(stage_count_runs(), 0);
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* The program lies where a path has a blank in it, and nothing is installed. */
STAGE_CASE(the_command_to_continue_with_can_be_pasted_into_a_shell, struct stage *s)
{
    struct err err = {0};
    char *folder = kept_format("%s/my builds", s->folder);
    char *program = kept_format("%s/anneal", folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    assert_int_equal(symlink(getenv("ANNEAL_BINARY"), program), 0);
    const char *words[] = {"train", s->config, "--train.total_steps=3000", "--progress=plain", NULL};
    struct process *p = process_open(&(struct process_options){.arguments = words, .program = program});
    process_wait_text(p, "checkpoint ");
    process_signal(p, SIGINT);
    p = process_expect(130, p);
    const char *command = strstr(process_stderr(p), "continue with: ");
    assert_non_null(command);
    command += strlen("continue with: ");
    char *line = kept_format("%.*s --progress=none", (int)strcspn(command, "\n"), command);
    assert_non_null(strstr(line, "my builds/anneal' resume "));
    assert_int_equal(system(line), 0);
    assert_string_equal(stage_status(), "finished");
}

TEST_MAIN()
