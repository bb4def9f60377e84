/* A trainer in the background: --watch of resume and fork, the key that resumes, and leaving while it
 * prepares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/run.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

/* A stage with the run "old", which was stopped by SIGINT after some steps of `total`. */
static void open_with_stopped(struct stage *s, const char *name, const char *total)
{
    stage_open(s, name);
    struct process *p = process_start("train", s->config, "--name=old", total, "--progress=plain", NULL);
    process_wait_text(p, "checkpoint ");
    process_signal(p, SIGINT);
    process_close(process_expect(130, p));
}

static struct pty *open_terminal(const struct stage *s, const char *const *words)
{
    static char home[1100];
    const char *environment[] = {home, NULL};
    snprintf(home, sizeof home, "ANNEAL_HOME=%s", s->home);
    return pty_open(
        &(struct pty_options){.rows = 24, .columns = 100, .environment = environment, .arguments = words});
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
    assert_int_equal(store_open(s->home, false, &store, &err), STATUS_OK);
    assert_int_equal(run_find(store, word, &run, &err), STATUS_OK);
    kill((pid_t)run.pid, SIGTERM);
    for (int i = 0; i < 60000 && run_is_alive(store, run.id); i++) usleep(1000);
    store_close(store);
}

static void expect_answer(const struct stage *s, const char *sql, const char *answer)
{
    char *text = stage_query(s, sql);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, answer);
    free(text);
}

static void resume_and_fork_with_watch_arrive_at_their_run(void **state)
{
    (void)state;
    struct stage s;
    open_with_stopped(&s, "watched", "--train.total_steps=10000000");
    const char *resume[] = {"resume", "old", "--watch", "--eval.every=0", "--checkpoint.every=0", NULL};
    struct pty *pty = open_terminal(&s, resume);
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "old");
    leave(pty, "qq");
    expect_answer(&s, "select name || ' ' || segment from runs", "old 2");
    end_run(&s, "old");
    const char *fork[] = {"fork", "old", "--watch", "--name=new", "--progress", "plain", NULL};
    pty = open_terminal(&s, fork);
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "new");
    leave(pty, "qq");
    end_run(&s, "new");
    expect_answer(&s, "select count(*) from runs", "2");
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static void what_stands_in_the_way_of_a_resume_is_said_and_no_workbench_opens(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "done");
    process_close(process_run(0, "train", s.config, "--name=old", "--progress=none", NULL));
    const char *resume[] = {"resume", "old", "--watch", NULL};
    struct pty *pty = open_terminal(&s, resume);
    assert_int_equal(pty_wait_exit(pty), 1);
    pty_wait_text(pty, "its checkpoint has done 40 of train.total_steps = 40");
    assert_false(pty_on_alternate_screen(pty));
    pty_close(pty);
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static void r_resumes_a_run_that_was_stopped(void **state)
{
    (void)state;
    struct stage s;
    open_with_stopped(&s, "key", "--train.total_steps=10000000");
    struct pty *pty = open_terminal(&s, NULL);
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
    expect_answer(&s, "select name || ' ' || segment from runs", "old 2");
    end_run(&s, "old");
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static void r_trains_a_finished_run_on_and_says_what_stands_in_the_way(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "on");
    process_close(process_run(0, "train", s.config, "--name=old", "--progress=none", NULL));
    struct pty *pty = open_terminal(&s, NULL);
    pty_wait_text(pty, "✓ finished");
    pty_send(pty, "r");
    pty_wait_text(pty, "old has done its 40 steps. Train it further, to 80?");
    pty_send(pty, "y");
    pty_wait_text(pty, "is training again");
    pty_send(pty, "\r");
    pty_wait_text(pty, "80 / 80 steps");
    pty_wait_text(pty, "✓ finished");
    leave(pty, "qq");
    assert_int_equal(unlink(s.corpus), 0);
    pty = open_terminal(&s, NULL);
    pty_wait_text(pty, "✓ finished");
    pty_send(pty, "ry");
    pty_wait_text(pty, "text.txt: "); /* the trainer's own sentence */
    leave(pty, "qq");
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static void ctrl_c_while_it_prepares_ends_the_trainer_and_leaves_no_run(void **state)
{
    (void)state;
    struct stage s;
    char path[700], word[800];
    stage_open(&s, "prepares");
    snprintf(path, sizeof path, "%s/large.txt", s.folder);
    snprintf(word, sizeof word, "--data.train=%s", path);
    FILE *file = fopen(path, "w"); /* many different words: counting and merging them takes seconds */
    assert_non_null(file);
    for (uint32_t i = 0, x = 1; i < 2000000; i++) fprintf(file, "%x ", x = x * 1664525u + 1013904223u);
    assert_int_equal(fclose(file), 0);
    const char *words[] = {"train", "--watch", word, "--data.tokenizer=bpe:30000", NULL};
    struct pty *pty = open_terminal(&s, words);
    pty_wait_text(pty, "preparing: "); /* whatever it does: on a busy machine a single phase may be missed */
    pty_send(pty, "\003");
    assert_int_equal(pty_wait_exit(pty), 130);
    assert_false(pty_on_alternate_screen(pty));
    pty_close(pty);
    assert_int_equal(stage_count_runs(), 0);
    assert_int_equal(stage_count_leftovers(&s), 0);
}

/* The program lies where a path has a blank in it, and nothing is installed. */
static void the_command_to_continue_with_can_be_pasted_into_a_shell(void **state)
{
    (void)state;
    struct stage s;
    struct err err = {0};
    char folder[700], program[800], line[2048];
    stage_open(&s, "pasted");
    snprintf(folder, sizeof folder, "%s/my builds", s.folder);
    snprintf(program, sizeof program, "%s/anneal", folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    assert_int_equal(symlink(getenv("ANNEAL_BINARY"), program), 0);
    const char *words[] = {"train", s.config, "--train.total_steps=3000", "--progress=plain", NULL};
    struct process *p = process_open(&(struct process_options){.arguments = words, .program = program});
    process_wait_text(p, "checkpoint ");
    process_signal(p, SIGINT);
    p = process_expect(130, p);
    const char *command = strstr(process_stderr(p), "continue with: ");
    assert_non_null(command);
    command += strlen("continue with: ");
    snprintf(line, sizeof line, "%.*s --progress=none", (int)strcspn(command, "\n"), command);
    assert_non_null(strstr(line, "my builds/anneal' resume "));
    assert_int_equal(system(line), 0);
    assert_string_equal(stage_status(), "finished");
    process_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(resume_and_fork_with_watch_arrive_at_their_run, process_close_all),
        cmocka_unit_test_teardown(what_stands_in_the_way_of_a_resume_is_said_and_no_workbench_opens,
                                  process_close_all),
        cmocka_unit_test_teardown(r_resumes_a_run_that_was_stopped, process_close_all),
        cmocka_unit_test_teardown(r_trains_a_finished_run_on_and_says_what_stands_in_the_way,
                                  process_close_all),
        cmocka_unit_test_teardown(the_command_to_continue_with_can_be_pasted_into_a_shell, process_close_all),
        cmocka_unit_test_teardown(ctrl_c_while_it_prepares_ends_the_trainer_and_leaves_no_run,
                                  process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
