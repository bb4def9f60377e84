/* Checkpoints while training continues: a checkpoint has the state at its request, whichever thread writes
 * it; when it is reported as saved it is on disk; and one with weights alone can start a new run, but not
 * resume one. */
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "config.json",
                                    "tokenizer.json",    "tokenizer_config.json", "trainer.json",
                                    "checksums"};
enum { FILES = sizeof files / sizeof *files, SECONDS_MOST = 20 };

static char *file_of(const struct session *s, int64_t step, const char *name)
{
    char *path;
    assert_true(asprintf(&path, "%s/step-%lld/%s", s->folder, (long long)step, name) > 0);
    return path;
}

static void expect_same_file(const struct session *a, const struct session *b, int64_t step, const char *name)
{
    struct file_map one, other;
    struct err err = {0};
    char *path = file_of(a, step, name), *path_b = file_of(b, step, name);
    if (file_map_open(path, &one, &err) || file_map_open(path_b, &other, &err)) fail_msg("%s", err.text);
    if (one.size != other.size || memcmp(one.data, other.data, one.size) != 0)
        fail_msg("%s of step %lld differs", name, (long long)step);
    file_map_close(&one);
    file_map_close(&other);
    free(path);
    free(path_b);
}

static void expect_same_steps(const struct session *a, const struct session *b, int from)
{
    for (int i = 0; i < b->story.step_count; i++) {
        assert_memory_equal(&a->story.steps[from + i].loss, &b->story.steps[i].loss, sizeof(double));
        assert_memory_equal(&a->story.steps[from + i].grad_norm, &b->story.steps[i].grad_norm,
                            sizeof(double));
    }
}

/* ---- the writing thread is delayed ---- */

static struct {
    sem_t go;        /* the thread waits for it */
    int64_t release; /* posted when so many steps are done */
    atomic_int late; /* the wait timed out */
    atomic_int held; /* times it waited */
} door;

static void open_door(int64_t release)
{
    sem_init(&door.go, 0, 0);
    door.release = release;
    door.late = door.held = 0;
}

static void release_at_step(struct story *story)
{
    if (story->done == door.release) sem_post(&door.go);
}

/* Holds the first save until training has reached that step; times out if training waits for the save. */
static void hold_first_save(struct story *story)
{
    struct timespec until;
    (void)story;
    if (atomic_fetch_add(&door.held, 1) > 0) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS_MOST;
    if (sem_timedwait(&door.go, &until) != 0) atomic_store(&door.late, 1);
}

TEST_CASE(a_checkpoint_written_while_training_continues_is_that_of_the_moment_it_was_asked_for)
{
    struct session front, back;
    open_door(5);
    session_open(&front, "front", NULL, WORDS("checkpoint.every=3", "checkpoint.background=false"), 900);
    session_open(&back, "back", NULL, WORDS("checkpoint.every=3"), 900);
    back.story.on_step = release_at_step;
    back.story.on_safe = hold_first_save;
    session_start(&front, false);
    session_start(&back, false);
    session_run(&front);
    session_run(&back);
    assert_int_equal(door.late, 0); /* steps 4 and 5 were done before the checkpoint of step 3 was written */
    assert_int_equal(door.held, 4);
    assert_int_equal(back.story.step_count, 12);
    expect_same_steps(&front, &back, 0);
    assert_int_equal(front.story.checkpoint_count, 4);
    assert_int_equal(back.story.checkpoint_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(back.story.checkpoints[i].step, 3 * (i + 1));
        assert_int_equal(back.story.checkpoints[i].bytes, front.story.checkpoints[i].bytes);
        for (int f = 0; f < FILES; f++) expect_same_file(&front, &back, 3 * (i + 1), files[f]);
    }
    sem_destroy(&door.go);
    session_close(&front);
    session_close(&back);
}

TEST_CASE(a_checkpoint_waits_for_the_one_before_and_none_is_lost)
{
    struct session s;
    session_open(&s, "each", NULL, WORDS("checkpoint.every=1"), 900);
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.checkpoint_count, 12);
    for (int i = 0; i < 12; i++) assert_int_equal(s.story.checkpoints[i].step, i + 1);
    session_close(&s);
}

static bool is_there(const struct session *s, int64_t step)
{
    char *path = file_of(s, step, "checksums");
    bool there = file_exists(path);
    free(path);
    return there;
}

static struct session *watched;
static int64_t seen_at; /* the step after which the ordered checkpoint was looked for */
static bool was_there;

static void look_after_order(struct story *story)
{
    if (seen_at || !story->acknowledged) return;
    seen_at = story->done;
    was_there = is_there(watched, 4);
}

/* Delays the first save by that time. */
static void hold_for(int64_t milliseconds)
{
    struct timespec until;
    if (atomic_fetch_add(&door.held, 1) > 0) return;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t nanoseconds = until.tv_nsec + milliseconds * 1000000;
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    while (sem_timedwait(&door.go, &until) == 0) continue;
}

/* Waits, so that an answer that comes too early is detected. */
static void linger(struct story *story)
{
    (void)story;
    hold_for(100);
}

/* This tests a duration: a wait of more than a second is reported. */
static void stay_long(struct story *story)
{
    (void)story;
    hold_for(3000);
}

TEST_CASE(a_checkpoint_that_had_to_wait_long_says_so)
{
    struct session s;
    open_door(-1);
    session_open(&s, "long", NULL, WORDS("checkpoint.every=5", "eval.batches=1"), 900);
    s.story.on_safe = stay_long;
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.event_count, 1);
    assert_string_equal(s.story.last_level, "warning");
    assert_non_null(strstr(s.story.last_event, "the checkpoint of step 10 had to wait "));
    assert_non_null(
        strstr(s.story.last_event, "for the one before it to be written (a larger checkpoint.every"));
    assert_int_equal(s.story.checkpoint_count, 3);
    assert_in_range(s.story.lives_count - s.story.eval_count, 2, 3); /* each second: the run is not hung */
    sem_destroy(&door.go);
    session_close(&s);
}

/* Until then the next checkpoint waits for this one. */
static void stay_and_stop(struct story *story)
{
    (void)story;
    bool first = atomic_load(&door.held) == 0;
    hold_for(300);
    if (first) kill(getpid(), SIGSTOP);
}

/* Trains with a checkpoint that is being written when the process is suspended. Returns whether nothing was
 * reported. */
static int train_suspended(void)
{
    struct session s;
    open_door(-1);
    session_open(&s, "suspended", NULL, WORDS("checkpoint.every=5"), 900);
    s.story.on_safe = stay_and_stop;
    session_start(&s, false);
    session_run(&s);
    bool quiet = s.story.event_count == 0 && s.story.checkpoint_count == 3;
    session_close(&s);
    return quiet ? 0 : 1;
}

/* This tests a duration, too. */
TEST_CASE(time_in_which_a_run_was_suspended_is_not_blamed_on_the_disk)
{
    int how;
    pid_t child = fork();
    if (child == 0) _exit(train_suspended());
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
    nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 500000000}, NULL);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

TEST_CASE(an_ordered_checkpoint_is_on_disk_when_it_is_answered)
{
    struct session s;
    struct story_order script[] = {{.at = 4, .order = {.id = 1, .verb = ORDER_CHECKPOINT}}, {0}};
    open_door(-1);
    session_open(&s, "ordered", NULL, NULL, 900);
    s.story.orders = script;
    s.story.on_step = look_after_order;
    s.story.on_safe = linger;
    watched = &s;
    seen_at = 0;
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(seen_at, 5);
    assert_true(was_there);
    assert_string_equal(s.story.results[1], "written to checkpoints/step-4");
    sem_destroy(&door.go);
    session_close(&s);
}

static struct story_order pause_script[] = {
    {.at = 4, .order = {.id = 1, .verb = ORDER_PAUSE}},
    {.at = 4, .order = {.id = 2, .verb = ORDER_CONTINUE}, .wait = 1000},
    {0}};

/* The pause ends when the checkpoint is reported, or after 20 seconds. */
static void continue_when_saved(struct story *story, bool begins)
{
    if (!begins) pause_script[1].wait = 0;
    if (!begins && story->checkpoint_count == 1) seen_at = story->done;
}

TEST_CASE(a_pause_does_not_hold_a_checkpoint_up)
{
    struct session s;
    session_open(&s, "paused", NULL, WORDS("checkpoint.every=4"), 900);
    s.story.orders = pause_script;
    s.story.on_saving = continue_when_saved;
    seen_at = 0;
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(seen_at, 4); /* and not when the next step is done */
    session_close(&s);
}

static struct story_order evaluate_script[] = {
    {.at = 4, .order = {.id = 1, .verb = ORDER_PAUSE}},
    {.at = 4, .order = {.id = 2, .verb = ORDER_EVAL}, .wait = 10},
    {.at = 4, .order = {.id = 3, .verb = ORDER_CONTINUE}, .wait = 1000},
    {0}};

/* As continue_when_saved. */
static void continue_when_best_saved(struct story *story, bool begins)
{
    if (!begins) evaluate_script[2].wait = 0;
    if (!begins && story->checkpoint_count == 1) seen_at = story->done;
}

TEST_CASE(a_pause_does_not_hold_a_best_up_that_an_order_finds_in_it)
{
    struct session s;
    session_open(&s, "found", NULL, NULL, 900);
    s.story.orders = evaluate_script;
    s.story.on_saving = continue_when_best_saved;
    seen_at = 0;
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(seen_at, 4);
    session_close(&s);
}

/* ---- a full disk ---- */

static bool is_whole(const struct session *s, int64_t step)
{
    char path[4096];
    return checkpoint_find(s->folder, step, path, sizeof path, NULL) == STATUS_OK;
}

static void let_files_be(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static bool older_best_stayed;

/* The disk is full just while the checkpoint of step 8, a new best, is written. */
static void fill_disk_at_step_8(struct story *story, bool begins)
{
    if (begins && story->done == 8) let_files_be(1000);
}

static void look_at_step_10(struct story *story)
{
    let_files_be(RLIM_INFINITY);
    if (story->done == 10) older_best_stayed = is_whole(watched, 4) && is_whole(watched, 9);
}

TEST_CASE(a_best_that_could_not_be_saved_takes_the_one_before_from_nobody)
{
    struct session s;
    signal(SIGXFSZ, SIG_IGN);
    session_open(
        &s, "best-unsaved", NULL,
        WORDS("eval.every=4", "checkpoint.every=3", "checkpoint.keep=1", "checkpoint.background=false"), 900);
    watched = &s;
    older_best_stayed = false;
    s.story.on_saving = fill_disk_at_step_8;
    s.story.on_step = look_at_step_10;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int i = 0; i < 3; i++) assert_true(s.story.stoppings[i].improved);
    assert_non_null(strstr(s.story.last_event, "1 since step 8 could not be written"));
    assert_true(older_best_stayed);
    assert_false(is_whole(&s, 8));
    assert_false(is_whole(&s, 4)); /* the newer best is on disk: now it may go */
    assert_true(is_whole(&s, 12));
    session_close(&s);
}

static int saves_at_the_end;

/* The first save at the last step finds the disk full, the second does not. */
static void fill_disk_once_at_step_12(struct story *story, bool begins)
{
    bool first = begins && story->done == 12 && saves_at_the_end++ == 0;
    let_files_be(first ? 1000 : RLIM_INFINITY);
}

TEST_CASE(a_checkpoint_that_failed_at_the_last_step_is_written_at_the_end)
{
    struct session s;
    signal(SIGXFSZ, SIG_IGN);
    session_open(&s, "last-failed", NULL, WORDS("eval.every=4", "checkpoint.background=false"), 900);
    saves_at_the_end = 0;
    s.story.on_saving = fill_disk_once_at_step_12;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(saves_at_the_end >= 2);
    assert_true(is_whole(&s, 12));
    assert_string_equal(s.story.last_kind, "best"); /* as it is, though the end has saved it */
    session_close(&s);
}

/* From the checkpoint of step 2 to that of step 6. */
static void fill_disk_for_three(struct story *story, bool begins)
{
    let_files_be(begins && story->done <= 6 ? 1000 : RLIM_INFINITY);
}

static int events_at_step_7;

static void count_events(struct story *story)
{
    let_files_be(RLIM_INFINITY);
    if (story->done == 7) events_at_step_7 = story->event_count;
}

TEST_CASE(a_full_disk_is_reported_once_and_again_when_it_is_no_longer_full)
{
    struct session s;
    signal(SIGXFSZ, SIG_IGN);
    session_open(&s, "once", NULL,
                 WORDS("checkpoint.every=2", "checkpoint.background=false", "data.val_fraction=0"), 900);
    s.story.on_saving = fill_disk_for_three;
    s.story.on_step = count_events;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(events_at_step_7, 1);
    assert_int_equal(s.story.event_count, 2);
    assert_string_equal(s.story.last_level, "info");
    assert_string_equal(
        s.story.last_event,
        "checkpoints can be written again: step 8 is saved; 3 since step 2 could not be written");
    session_close(&s);
}

static void fill_disk_for_good(struct story *story, bool begins)
{
    (void)story;
    if (begins) let_files_be(1000);
}

static void free_disk(struct story *story)
{
    (void)story;
    let_files_be(RLIM_INFINITY);
}

TEST_CASE(the_end_counts_those_that_failed_like_the_first)
{
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    signal(SIGXFSZ, SIG_IGN);
    session_open(&s, "one-cause", NULL,
                 WORDS("checkpoint.every=2", "checkpoint.background=false", "data.val_fraction=0"), 900);
    s.story.on_saving = fill_disk_for_good;
    s.story.on_step = free_disk;
    session_start(&s, false);
    assert_int_not_equal(trainer_run(s.trainer, &outcome, &err), STATUS_OK); /* the last one is not there */
    let_files_be(RLIM_INFINITY);
    assert_int_equal(s.story.event_count, 2);
    assert_string_equal(s.story.last_event, "5 checkpoints since step 2 could not be written");
    session_close(&s);
}

static char *event_of_other_cause;

/* Steps 2 and 4: full; from step 6 on there is a file in the place of the folder. */
static void change_the_cause(struct story *story, bool begins)
{
    if (begins && story->done <= 4) let_files_be(1000);
    if (begins && story->done == 6) {
        assert_int_equal(file_remove_tree(watched->folder, NULL), STATUS_OK);
        rig_write(watched->folder, "a file", 6);
    }
}

static void keep_event(struct story *story)
{
    let_files_be(RLIM_INFINITY);
    if (story->done == 11) event_of_other_cause = strdup(story->last_event);
}

TEST_CASE(another_cause_is_reported_too)
{
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    signal(SIGXFSZ, SIG_IGN);
    session_open(&s, "two-causes", NULL,
                 WORDS("checkpoint.every=2", "checkpoint.background=false", "data.val_fraction=0"), 900);
    watched = &s;
    s.story.on_saving = change_the_cause;
    s.story.on_step = keep_event;
    session_start(&s, false);
    assert_int_not_equal(trainer_run(s.trainer, &outcome, &err), STATUS_OK); /* the last one is not there */
    assert_int_equal(s.story.event_count, 3);
    assert_non_null(strstr(event_of_other_cause, "checkpoint at step 6: "));
    assert_string_equal(s.story.last_event, "5 checkpoints since step 2 could not be written");
    free(event_of_other_cause);
    session_close(&s);
}

/* ---- weights alone ---- */

TEST_CASE(without_moments_a_checkpoint_is_smaller_and_resumes_no_run)
{
    struct session full, light;
    struct err err = {0};
    session_open(&full, "full", NULL, NULL, 900);
    session_open(&light, "light", NULL, WORDS("checkpoint.contents=weights"), 900);
    session_start(&full, false);
    session_start(&light, false);
    size_t weights = trainer_plan(light.trainer)->category_bytes[PLAN_SNAPSHOT];
    assert_int_equal(trainer_plan(full.trainer)->category_bytes[PLAN_SNAPSHOT], 3 * weights);
    session_run(&full);
    session_run(&light);
    expect_same_file(&full, &light, 12, "model.safetensors");
    expect_same_file(&full, &light, 12, "trainer.json");
    char *moments = file_of(&light, 12, "optimizer.safetensors"), *folder = file_of(&light, 12, "");
    assert_false(file_exists(moments));
    assert_true(light.story.checkpoints[0].bytes < full.story.checkpoints[0].bytes * 2 / 3);
    if (session_try(&light, &err)) fail_msg("%s", err.text);
    assert_int_equal(trainer_resume(light.trainer, folder, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "holds weights alone (checkpoint.contents = weights)"));
    assert_non_null(strstr(err.text, " fork` starts a new run from it, with a fresh optimizer"));
    free(moments);
    free(folder);
    session_close(&full);
    session_close(&light);
}

/* Trains 6 steps, then a second trainer forks from there to 12. */
static void fork_half_way(struct session *s, const char *name, const char *contents, bool fresh)
{
    struct err err = {0};
    char word[64], *folder;
    bool was_fresh;
    snprintf(word, sizeof word, "checkpoint.contents=%s", contents);
    session_open(s, name, NULL, WORDS("checkpoint.every=6", word), 900);
    session_start(s, false);
    session_run(s);
    folder = file_of(s, 6, "");
    s->story.step_count = 0;
    if (session_try(s, &err)) fail_msg("%s", err.text);
    if (trainer_fork(s->trainer, folder, &was_fresh, &err)) fail_msg("%s", err.text);
    assert_int_equal(was_fresh, fresh);
    assert_int_equal(trainer_state(s->trainer)->step, 6);
    assert_int_equal(trainer_state(s->trainer)->updates, fresh ? 0 : 6);
    session_run(s);
    assert_int_equal(s->story.step_count, 6);
    assert_int_equal(s->story.steps[0].step, 6);
    free(folder);
}

TEST_CASE(a_fork_of_a_full_checkpoint_continues_bit_for_bit_and_of_weights_with_a_fresh_optimizer)
{
    struct session whole, full, light;
    session_open(&whole, "whole", NULL, NULL, 900);
    session_start(&whole, false);
    session_run(&whole);
    fork_half_way(&full, "fork-full", "full", false);
    expect_same_steps(&whole, &full, 6);
    fork_half_way(&light, "fork-light", "weights", true);
    /* the first loss is of the same weights and batch, the second of an update with fresh moments */
    assert_memory_equal(&whole.story.steps[6].loss, &light.story.steps[0].loss, sizeof(double));
    assert_true(whole.story.steps[7].loss != light.story.steps[1].loss);
    assert_int_equal(light.story.steps[5].tokens, whole.story.steps[11].tokens);
    session_close(&whole);
    session_close(&full);
    session_close(&light);
}

TEST_MAIN()
