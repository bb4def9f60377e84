/* hooks.on_event: the command runs for each event, with the event on its standard input, and disturbs
 * nothing. */
#include <glob.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/session/hook.h"

struct hooked {
    struct stage stage;
    char events[700]; /* the file that the command appends each event to */
    char command[2000];
};

/* The command notes the event, then does what `then` says. */
static void open_hooked(struct hooked *h, const char *name, const char *then)
{
    stage_open(&h->stage, name);
    snprintf(h->events, sizeof h->events, "%s/events", h->stage.folder);
    snprintf(h->command, sizeof h->command, "--hooks.on_event=cat >>'%s'; %s", h->events, then);
}

static char *read_log(const struct hooked *h)
{
    glob_t found;
    char *pattern = kept_format("%s/runs/*/log.txt", h->stage.home);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    char *text = stage_read(found.gl_pathv[0]);
    globfree(&found);
    return text;
}

/* The events were these words, NULL at the end, of a run with this status at the last. */
static json_t *expect_events(const struct hooked *h, const char *const *words, const char *status)
{
    char *text = stage_read(h->events);
    json_t *lines = stage_parse_lines(text);
    size_t n = 0;
    for (; words[n]; n++) assert_string_equal(stage_text(json_array_get(lines, n), "event"), words[n]);
    assert_int_equal(json_array_size(lines), n);
    json_t *last = json_array_get(lines, n - 1);
    assert_string_equal(stage_text(last, "status"), status);
    assert_string_equal(stage_text(last, "name"), "hooked");
    assert_non_null(strstr(stage_text(last, "folder"), stage_text(last, "run")));
    assert_string_equal(stage_status(), status);
    return lines;
}

TEST_CASE(the_end_of_a_run_is_told_with_its_outcome)
{
    struct hooked h;
    open_hooked(&h, "hook-end", "echo 'all \033[31mdone'; ls /proc/self/fd; exit 3");
    struct process *p =
        process_run(0, "train", h.stage.config, "--name", "hooked", h.command, "--progress=none", NULL);
    process_expect_sentence(p, "warning: hooks.on_event failed 1 time (see ");
    json_t *lines = expect_events(&h, (const char *const[]){"end", NULL}, "finished");
    assert_int_equal(stage_int(json_array_get(lines, 0), "step"), 40);
    assert_true(stage_real(json_array_get(lines, 0), "time") > 1e9);
    char *log = read_log(&h);
    assert_non_null(strstr(log, "all \033[31mdone\n0\n1\n2\n3\n")); /* 3 is the folder that ls reads */
    assert_null(strstr(log, "\n4\n"));                              /* no file of the trainer */
    assert_non_null(strstr(log, "hooks.on_event, end: the command failed with exit status 3"));
}

TEST_CASE(a_command_that_a_signal_ends_is_reported)
{
    struct hooked h;
    open_hooked(&h, "hook-killed", "kill -KILL $$");
    process_run(0, "train", h.stage.config, "--name", "hooked", h.command, "--train.total_steps=1", NULL);
    expect_events(&h, (const char *const[]){"end", NULL}, "finished");
    assert_non_null(strstr(read_log(&h), "hooks.on_event, end: the command was ended by signal 9"));
}

TEST_CASE(a_run_that_diverges_and_fails_says_both)
{
    struct hooked h;
    open_hooked(&h, "hook-failure", "true");
    process_run(1, "train", h.stage.config, "--name", "hooked", h.command, "--train.learning_rate=1000",
                "--train.warmup_steps=0", "--health.on_nan=stop", "--health.loss_spike=0",
                "--train.max_grad_norm=0", NULL);
    json_t *lines = expect_events(&h, (const char *const[]){"divergence", "failure", NULL}, "failed");
    assert_non_null(strstr(stage_text(json_array_get(lines, 1), "message"), "not finite"));
}

static bool has_checkpoint(struct process *process, void *context)
{
    glob_t found;
    (void)process;
    char *pattern = kept_format("%s/runs/*/checkpoints/step-*", ((struct stage *)context)->home);
    bool any = glob(pattern, 0, NULL, &found) == 0;
    if (any) globfree(&found);
    return any;
}

TEST_CASE(no_step_waits_for_the_command)
{
    struct hooked h;
    open_hooked(&h, "hook-crash", "true");
    char *go = kept_format("%s/go", h.stage.folder);
    char *then = kept_format("while [ ! -e '%s' ]; do sleep 0.05; done", go);
    struct process *process =
        process_start("train", h.stage.config, "--name", "hooked", h.command, "--train.total_steps=1000000",
                      "--checkpoint.every=10", "--progress", "none", NULL);
    process_wait(process, has_checkpoint, &h.stage);
    process_signal(process, SIGKILL);
    assert_int_equal(process_wait_exit(process), 128 + SIGKILL);
    snprintf(h.command, sizeof h.command, "--hooks.on_event=cat >>'%s'; %s", h.events, then);
    process = process_start("resume", "hooked", h.command, "--progress", "json", NULL);
    process_wait_lines(process, 20); /* it trains while the command for "resume" waits */
    process_signal(process, SIGTERM);
    process_wait_text(process, "\"stopped\"");
    stage_write(go, "", 0);
    assert_int_equal(process_wait_exit(process), 0);
    expect_events(&h, (const char *const[]){"resume", "end", NULL}, "stopped");
}

TEST_CASE(a_command_that_hangs_is_ended_with_all_that_it_started)
{
    struct hooked h;
    char pids[700];
    open_hooked(&h, "hook-hangs", "");
    snprintf(pids, sizeof pids, "%s/pids", h.stage.folder);
    char *then = kept_format("trap '' TERM; sleep 1000 & echo $$ $! >'%s'; wait; sleep 1000", pids);
    snprintf(h.command, sizeof h.command, "--hooks.on_event=cat >>'%s'; %s", h.events, then);
    process_run(0, "train", h.stage.config, "--name", "hooked", h.command, "--hooks.timeout=0.2", NULL);
    expect_events(&h, (const char *const[]){"end", NULL}, "finished");
    char *log = read_log(&h), *text = stage_read(pids);
    assert_non_null(strstr(log, "hooks.on_event, end: the command is ended after hooks.timeout = 0.2 s"));
    char *end;
    pid_t shell = (pid_t)strtol(text, &end, 10);
    assert_true(shell > 1 && kill(shell, 0) != 0); /* and no zombie of the trainer, which has ended */
}

/* A trainer inherits blocked signals, and that SIGCHLD is ignored, from the program that starts it. */
TEST_CASE(what_a_trainer_inherits_of_signals_hides_no_request_and_no_end)
{
    struct hooked h;
    sigset_t blocked, before;
    open_hooked(&h, "hook-signals", "exit 3");
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    struct process *process = process_open(&(struct process_options){
        .prelude = "trap '' CHLD;",
        .arguments = (const char *const[]){"train", h.stage.config, "--name=hooked", h.command,
                                           "--train.total_steps=1000000", "--progress=json", NULL}});
    sigprocmask(SIG_SETMASK, &before, NULL);
    process_wait_lines(process, 3);
    process_signal(process, SIGTERM);
    process_expect(0, process);
    expect_events(&h, (const char *const[]){"end", NULL}, "stopped");
    assert_non_null(strstr(read_log(&h), "hooks.on_event, end: the command failed with exit status 3"));
}

/* Waits until the file holds `count` lines. */
static void wait_lines(const char *path, size_t count)
{
    for (size_t lines = 0; lines < count;) {
        FILE *file = fopen(path, "r");
        lines = 0;
        for (int c; file && (c = getc(file)) != EOF;) lines += c == '\n';
        if (file) fclose(file);
        usleep(1000);
    }
}

/* As hooks.stall sets it. */
TEST_CASE(a_run_without_steps_has_stalled_once)
{
    struct hooked h;
    struct err err = {0};
    struct hook *hook;
    struct run_log log = {-1};
    open_hooked(&h, "hook-stall", "true");
    struct hook_options options = {.command = strchr(h.command, '=') + 1,
                                   .timeout = 60,
                                   .stall = 0.01,
                                   .log = &log,
                                   .run = "id",
                                   .name = "a \"name\"",
                                   .folder = "/there"};
    assert_int_equal(hook_start(&options, &hook, &err), STATUS_OK);
    wait_lines(h.events, 1);
    hook_step(hook, 6);
    wait_lines(h.events, 2); /* and again after a step */
    hook_excuse(hook, HOOK_PAUSED, true);
    hook_excuse(hook, HOOK_EVALUATES, true);
    hook_excuse(hook, HOOK_PAUSED, false); /* it still evaluates */
    hook_step(hook, 7);
    hook_event(hook, "end", "finished", 8, "");
    wait_lines(h.events, 3);
    hook_stop(hook);
    char *text = stage_read(h.events);
    json_t *lines = stage_parse_lines(text);
    assert_int_equal(json_array_size(lines), 3);
    assert_string_equal(stage_text(json_array_get(lines, 1), "event"), "stall");
    assert_int_equal(stage_int(json_array_get(lines, 1), "step"), 7);
    assert_string_equal(stage_text(json_array_get(lines, 1), "name"), "a \"name\"");
    options.command = "";
    assert_int_equal(hook_start(&options, &hook, &err), STATUS_OK);
    assert_null(hook);
    hook_event(hook, "end", "finished", 0, ""); /* harmless */
    hook_stop(hook);
}

/* Starts a hook that looks for a stall of `stall` seconds and notes it in a file NAME of the stage. */
static struct hook *start_watch(const struct stage *stage, const char *name, double stall, char path[700])
{
    static const struct run_log log = {-1};
    struct err err = {0};
    struct hook *hook;
    snprintf(path, 700, "%s/%s", stage->folder, name);
    char *command = kept_format("cat >>'%s'", path);
    struct hook_options options = {.command = command, .timeout = 60, .stall = stall, .log = &log};
    options.run = options.name = options.folder = "";
    assert_int_equal(hook_start(&options, &hook, &err), STATUS_OK);
    return hook;
}

/* A hook looks once a second: when one that was started later has found a stall, those before it have
 * looked. */
TEST_CASE(no_stall_is_told_twice_nor_while_it_is_excused_or_none_is_looked_for)
{
    struct stage stage;
    char excused[700], none[700], first[700], second[700];
    stage_open(&stage, "hook-watches");
    struct hook *hooks[4];
    hooks[0] = start_watch(&stage, "excused", 0.01, excused);
    hook_excuse(hooks[0], HOOK_PAUSED, true);
    hook_excuse(hooks[0], HOOK_EVALUATES, true);
    hook_excuse(hooks[0], HOOK_PAUSED, false); /* it still evaluates */
    hooks[1] = start_watch(&stage, "none", 0, none);
    hooks[2] = start_watch(&stage, "first", 0.01, first);
    wait_lines(first, 1);
    hooks[3] = start_watch(&stage, "second", 0.01, second);
    wait_lines(second, 1);
    for (int i = 0; i < 4; i++) hook_stop(hooks[i]);
    assert_true(access(excused, F_OK) != 0);
    assert_true(access(none, F_OK) != 0);
    assert_int_equal(json_array_size(stage_parse_lines(stage_read(first))), 1);
}

TEST_MAIN()
