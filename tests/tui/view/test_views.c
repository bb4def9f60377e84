/* The workbench on a grid alone, without a terminal: the run that the list selects again, the text of events,
 * and narrow screens. When the form starts this program as a trainer, it only waits. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/command/view_config.h"

static const char advice[] =
    "the loss rose to 3.162, 7.8 deviations above 1.911, the median of the 100 steps "
    "before (look at the data of this step; if it stays, lower train.learning_rate)";

static void fill_finished(const char *home, const char *name, struct fill_run *run)
{
    fill_run(home,
             &(struct fill){
                 .name = name, .steps = 20, .total_steps = 20, .spike_step = -1, .status = RUN_FINISHED},
             run);
}

/* --- which run is selected --- */

TEST_CASE(the_list_selects_the_run_that_was_watched)
{
    char home[1024];
    struct fill_run run;
    store_fixture_home("watched", home, sizeof home);
    fill_finished(home, "older-one", &run);
    fill_finished(home, "newer-one", &run);
    struct workbench *workbench = headless_open(home, "older-one");
    headless_type(workbench, "q");
    headless_expect_selected(workbench, "older-one");
    headless_type(workbench, "D");
    headless_expect(workbench, 80, 24, 80, "Delete older-one");
}

TEST_CASE(the_list_comes_back_to_a_run_that_has_changed_its_place)
{
    char home[1024];
    struct fill_run run;
    store_fixture_home("moved", home, sizeof home);
    fill_finished(home, "first-one", &run);
    fill_finished(home, "second-one", &run);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "/finished\rj"); /* the older one */
    headless_expect_selected(workbench, "first-one");
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "20 / 20 steps");
    store_fixture_sql(home, "update runs set status = 'failed' where name = 'first-one'");
    fill_finished(home, "third-one", &run);
    headless_type(workbench, "q"); /* the filter does not let it pass any more: it gives way */
    headless_expect_selected(workbench, "first-one");
    headless_expect(workbench, 80, 24, 80, "third-one");
}

/* --- events --- */

static void add_event(const char *home, int step, const char *level, const char *text)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "insert into events(run_id, segment, step, wall_time, level, text)"
             " select id, 1, %d, 1e9, '%s', '%s' from runs",
             step, level, text);
    store_fixture_sql(home, sql);
}

static void make_eventful(const char *name, char *home, size_t size)
{
    struct fill_run run;
    char text[512];
    store_fixture_home(name, home, size);
    fill_finished(home, "eventful", &run);
    snprintf(text, sizeof text, "step 7: %s", advice);
    add_event(home, 7, "warning", text);
}

TEST_CASE(a_chosen_event_is_read_whole_at_every_size)
{
    static const int sizes[][3] = {{40, 10, 40}, {60, 18, 60}, {80, 24, 80}, {120, 40, 120}, {200, 60, 200}};
    char home[1024], sentence[512];
    make_eventful("chosen", home, sizeof home);
    snprintf(sentence, sizeof sentence, "@7 %s", advice);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct workbench *workbench = headless_open(home, "eventful");
        headless_type(workbench, "n");
        headless_expect(workbench, sizes[i][0], sizes[i][1], sizes[i][2], sentence);
        headless_expect_not(workbench, sizes[i][0], sizes[i][1], "step 7:");
        headless_type(workbench, "n");
        headless_expect(workbench, sizes[i][0], sizes[i][1], sizes[i][2],
                        "@19 checkpoint written to step-last");
        headless_close(workbench);
    }
}

TEST_CASE(the_newest_event_has_the_lines_that_the_sample_leaves_blank)
{
    char home[1024], sentence[512];
    make_eventful("newest", home, sizeof home);
    snprintf(sentence, sizeof sentence, "! @7 %s ", advice);
    store_fixture_sql(home, "update samples set text = ' was the word.'");
    store_fixture_sql(home, "delete from events where level = 'info'");
    struct workbench *workbench = headless_open(home, "eventful");
    headless_expect(workbench, 120, 40, 120, sentence);
}

TEST_CASE(the_side_panel_wraps_its_events)
{
    char home[1024];
    make_eventful("side", home, sizeof home);
    struct workbench *workbench = headless_open(home, "eventful");
    char row[2048];
    int lines = 0;
    static const char *const parts[] = {"! @7 the loss rose to 3.162, 7.8 deviations",
                                        "above 1.911, the median", "lower train.learning_rate)"};
    struct grid grid = headless_draw(workbench, 200, 60);
    for (int y = 0; y < grid.h && lines < 3; y++)
        lines += strstr(grid_row(&grid, y, row, sizeof row), parts[lines]) != NULL;
    assert_int_equal(lines, 3);
    grid_release(&grid);
}

/* --- narrow screens --- */

TEST_CASE(how_a_run_stands_is_said_in_words_that_fit)
{
    char home[1024];
    struct fill_run run;
    store_fixture_home("stands", home, sizeof home);
    fill_run(home,
             &(struct fill){.name = "waiting",
                            .steps = 120,
                            .total_steps = 1000,
                            .eval_every = 50,
                            .patience = 5,
                            .spike_step = -1,
                            .status = RUN_STOPPED},
             &run);
    struct workbench *workbench = headless_open(home, "waiting");
    headless_expect(workbench, 120, 40, 120, "0 of 5 evaluations without improvement on ");
    headless_expect(workbench, 60, 18, 60, " @100 ");
    headless_expect(workbench, 42, 16, 42, " 0 of 5 evaluations without improvement");
    headless_close(workbench);
    store_fixture_sql(home, "update runs set status = 'crashed'");
    workbench = headless_open(home, "waiting");
    headless_expect(workbench, 60, 18, 60, "its trainer died; r resumes it");
}

TEST_CASE(the_list_says_on_80_columns_how_long_a_run_still_needs)
{
    struct fill_quiet *quiet = fill_quiet("needs");
    store_fixture_sql(quiet->home, "update runs set tokens_per_sec = 10 * tokens / steps");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    headless_expect_row(workbench, 80, 24, "mortal", " in 18s ");
    headless_expect_row(workbench, 120, 24, "mortal", " ETA 18s ");
}

TEST_CASE(the_smallest_screen_says_whole_how_long_a_run_still_needs)
{
    struct fill_quiet *quiet = fill_quiet("narrow");
    store_fixture_sql(quiet->home, "update runs set steps = 184020, total_steps = 1000000,"
                                   " tokens_per_sec = 10 * tokens / 20");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_expect(workbench, 80, 24, 80, "18.4% 184,020 / 1,000,000 steps ETA 22h 39m");
    headless_expect(workbench, 40, 10, 40, "18.4% 184k / 1.00M ETA 22h 39m");
}

/* The trainers that the form has started outlive the workbench, as they should, but not the test. */
static int end_trainers(void **state)
{
    char path[64];
    (void)state;
    kept_release();
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    for (int pid; fscanf(children, "%d", &pid) == 1;) kill(pid, SIGKILL);
    fclose(children);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    return 0;
}

TEST_CASE_WITH(the_form_says_everything_on_narrow_screens, NULL, end_trainers)
{
    static const int sizes[][2] = {{40, 10}, {40, 12}, {60, 18}, {80, 24}, {120, 40}};
    char home[1024];
    store_fixture_home("form", home, sizeof home);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int w = sizes[i][0], h = sizes[i][1];
        struct workbench *workbench = headless_open(home, NULL);
        headless_type(workbench, "n");
        headless_go_to(workbench, "data");
        headless_expect(workbench, w, h, w, headless_fields[1].hint);
        if (w >= 80) headless_expect(workbench, w, h, 50, "sample prompt In the beginning (default)");
        headless_expect_not(workbench, w, h, "…");
        if (h > 10) headless_expect(workbench, w, h, w, "Start training"); /* however the fields scroll */
        headless_go_to(workbench, "sample prompt");
        workbench_key(workbench, K_TAB);
        headless_expect(workbench, w, h, w, "Start training");
        workbench_key(workbench, i % 2 ? K_F5 : K_ENTER);
        headless_expect(workbench, w, h, w,
                        "The trainer prepares its data before the run begins. Esc cancels.");
        headless_close(workbench);
    }
}

TEST_CASE(a_form_that_was_left_begins_as_it_was)
{
    char home[1024];
    store_fixture_home("left", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "nmine");
    headless_go_to(workbench, "schedule");
    workbench_key(workbench, K_RIGHT);
    workbench_key(workbench, K_ESCAPE);
    headless_close(workbench);
    workbench = headless_open(home, NULL); /* another day */
    headless_type(workbench, "n");
    headless_expect(workbench, 80, 24, 80, "as you left it");
    headless_expect(workbench, 80, 24, 50, "name mine", "schedule linear");
    headless_go_to(workbench, "sample prompt");
    workbench_key(workbench, K_TAB);
    workbench_key(workbench, K_CTRL('u'));
    headless_expect(workbench, 80, 24, 50, "schedule cosine (default)");
    workbench_key(workbench, K_ESCAPE);
    headless_type(workbench, "n");
    headless_expect(workbench, 80, 24, 50, "name the preset's (default)");
    headless_expect_not(workbench, 80, 24, "as you left it");
}

TEST_CASE(keys_that_are_bound_anew_edit_the_texts_of_a_form)
{
    static const char settings[] = "key.form.clear = Ctrl-K\nkey.form.choice-left = Ctrl-A\n";
    char home[1024];
    store_fixture_home("bound", home, sizeof home);
    store_fixture_settings(home, settings);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "nmin");
    workbench_key(workbench, K_CTRL('a'));
    headless_type(workbench, "e");
    headless_expect(workbench, 80, 24, 50, "name mien");
    workbench_key(workbench, K_CTRL('k'));
    headless_expect(workbench, 80, 24, 50, "name the preset's (default)");
    headless_close(workbench);
}

TEST_CASE(the_form_turns_choices_and_edits_texts)
{
    char home[1024];
    store_fixture_home("choices", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "n");
    headless_go_to(workbench, "schedule");
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← cosine (default)");
    workbench_key(workbench, K_RIGHT);
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← linear ");
    headless_type(workbench, " "); /* round about */
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← constant ");
    headless_type(workbench, "x"); /* no text */
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← constant ");
    workbench_key(workbench, K_LEFT);
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← linear ");
    headless_expect(workbench, 120, 24, 120, "learning rate: peak 3.00e-4, end "); /* and the chart follows */
    workbench_key(workbench, K_LEFT);                                              /* the default again */
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← cosine (default)");
    workbench_key(workbench, K_LEFT);
    workbench_key(workbench, K_BACKSPACE);
    headless_expect(workbench, 80, 24, 80, "▸ schedule ← cosine (default)");
    workbench_key(workbench, K_DOWN);
    headless_type(workbench, "bcd?q");
    workbench_key(workbench, K_HOME);
    headless_type(workbench, "ax");
    workbench_key(workbench, K_BACKSPACE);
    workbench_key(workbench, K_RIGHT);
    workbench_key(workbench, K_DELETE);
    workbench_key(workbench, K_END);
    headless_type(workbench, "!");
    headless_expect(workbench, 80, 24, 80, "▸ sample prompt abd?q! ");
    workbench_key(workbench, K_LEFT);
    headless_type(workbench, "-");
    headless_expect(workbench, 80, 24, 80, "▸ sample prompt abd?q-! ");
    workbench_key(workbench, K_CTRL('u'));
    headless_expect(workbench, 80, 24, 80, "▸ sample prompt In the beginning (default)");
    workbench_key(workbench, K_ENTER); /* the line that starts: characters are keys there */
    headless_expect(workbench, 80, 24, 80,
                    "Enter starts the trainer; it continues when the workbench is closed.");
    headless_type(workbench, "?");
    headless_expect(workbench, 80, 24, 80, "the next field; on the last line: start the run");
    headless_type(workbench, "x");
    workbench_key(workbench, K_DOWN); /* round about */
    headless_expect(workbench, 80, 24, 80, "▸ name ");
    workbench_key(workbench, K_UP);
    workbench_key(workbench, K_UP);
    headless_expect(workbench, 80, 24, 80, "▸ sample prompt ");
    headless_type(workbench, "it scrolls to keep the end that is being typed in sight");
    headless_expect(workbench, 80, 24, 80, "▸ sample prompt is being typed in sight");
    workbench_key(workbench, K_ESCAPE);
    headless_expect(workbench, 80, 24, 80, "No runs yet.");
}

TEST_CASE_WITH(escape_ends_a_trainer_that_the_form_has_started, NULL, end_trainers)
{
    char home[1024];
    int how = 0;
    store_fixture_home("cancelled", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "n");
    workbench_key(workbench, K_F5);
    headless_expect(workbench, 80, 24, 80, "starting ...");
    workbench_key(workbench, K_ESCAPE);
    headless_expect(workbench, 80, 24, 80, "cancelled: the run was not started", "No runs yet.");
    headless_close(workbench);
    if (waitpid(-1, &how, 0) < 0)
        assert_int_equal(errno, ECHILD); /* it had ended so soon that the list has reaped it */
    else
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
}

TEST_CASE(questions_and_answers_are_read_whole_on_narrow_screens)
{
    char home[1024];
    struct fill_run run;
    store_fixture_home("asked", home, sizeof home);
    fill_finished(home, "quite-a-long-name", &run);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "D");
    headless_expect(workbench, 40, 12, 40, "Delete quite-a-long-name with its history and checkpoints?",
                    "(y: yes; any other key: no)");
    headless_type(workbench, "nC");
    headless_expect(workbench, 40, 12, 40, "mark the runs to compare with Space, then press C");
    workbench_key(workbench, K_DOWN); /* the keys again */
    headless_expect(workbench, 40, 12, 40, "? help q leave");
}

TEST_CASE(a_finished_run_is_trained_further_with_a_warning_of_the_learning_rate)
{
    char home[1024];
    struct fill_run run;
    store_fixture_home("further", home, sizeof home);
    fill_run(home,
             &(struct fill){
                 .name = "done", .steps = 400, .total_steps = 400, .spike_step = -1, .status = RUN_FINISHED},
             &run);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "r");
    headless_expect(workbench, 80, 24, 80, "done has done its 400 steps. Train it further, to 800?",
                    "Its schedule then spans them all: the learning rate jumps from 3.00e-5 to 1.95e-4.");
    store_fixture_sql(home, "update params set value = 'constant' where name = 'train.schedule'");
    headless_type(workbench, "nr");
    headless_expect(workbench, 80, 24, 80, "Train it further, to 800?");
    headless_expect_not(workbench, 80, 24, "learning rate");
}

TEST_CASE(an_imported_run_is_not_trained_further)
{
    char home[1024];
    struct fill_run run;
    store_fixture_home("imported", home, sizeof home);
    fill_finished(home, "done", &run);
    store_fixture_sql(home, "update runs set message = 'imported from wandb/run-1'");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "r");
    headless_expect(workbench, 80, 24, 80, "done was imported: it has no checkpoint to continue from");
    headless_expect_not(workbench, 80, 24, "Train it further");
}

TEST_CASE(views_do_not_pile_up_without_end)
{
    char home[1024];
    fill_five_hundred("piled", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    while (workbench->depth < WORKBENCH_DEPTH) workbench_push(workbench, &run_view, "ended");
    headless_expect_not(workbench, 80, 24, "too many views");
    workbench_push(workbench, &run_view, "ended");
    headless_expect(workbench, 80, 24, 80, "too many views lie one on another: Esc leaves this one");
    headless_press(workbench, K_ESCAPE, 1);
    assert_int_equal(workbench->depth, WORKBENCH_DEPTH - 1);
}

TEST_CASE(one_of_a_thing_is_not_many)
{
    static const char *const one[] = {"train.total_steps=1", "train.batch_size=1", "train.seq_len=1",
                                      "train.warmup_steps=0"};
    static struct form_preview preview;
    form_preview_make(one, 4, &preview);
    assert_string_equal(preview.problem, "");
    assert_non_null(strstr(preview.facts, " parameters; 1 step of 1 token, 1 in all"));
    assert_string_equal(preview.warning, "");
    form_preview_make(one, 1, &preview);
    assert_non_null(
        strstr(preview.warning, "train.warmup_steps = 100 is not shorter than the run of 1 step:"));
    assert_non_null(strstr(preview.facts, " parameters; 1 step of 4.10k tokens, "));
}

TEST_CASE(the_form_misses_token_files_and_texts_alike)
{
    static const char *const missing[] = {"/nowhere.tok", "/nowhere.bin", "/nowhere.txt"};
    static struct form_preview preview;
    char word[64];
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(word, sizeof word, "data.val=%s", missing[i]);
        form_preview_make((const char *const[]){word}, 1, &preview);
        char *wanted = kept_format("data.val: %s: no such file", missing[i]);
        assert_memory_equal(preview.problem, wanted, strlen(wanted));
    }
}

TEST_CASE(the_form_foresees_how_much_of_a_model_its_adapters_train)
{
    static const char *const settings[] = {"model.from=tests/fixtures/peft/llama", "train.seq_len=16",
                                           "train.total_steps=1", "lora.rank=2"};
    static struct form_preview preview;
    form_preview_make(settings, 2, &preview);
    assert_string_equal(preview.problem, "");
    assert_memory_equal(preview.facts, "14.3k parameters; ", 18);
    form_preview_make(settings, 4, &preview);
    assert_string_equal(preview.problem, "");
    assert_non_null(strstr(preview.facts, "576 of 14.8k parameters trained; 1 step of "));
    form_preview_make((const char *const[]){settings[0], settings[1], "lora.rank=99"}, 3, &preview);
    assert_non_null(strstr(preview.problem, "lora.rank = 99"));
}

TEST_CASE(the_playground_asks_for_a_model)
{
    char home[PATH_MAX];
    store_fixture_home("no-model", home, sizeof home);
    store_close(store_fixture_open(home));
    struct workbench *workbench = headless_open(home, NULL);
    headless_press(workbench, 'P', 1);
    headless_expect(workbench, 100, 24, 100, "Playground");
    headless_press(workbench, K_ENTER, 1);
    headless_expect(workbench, 100, 24, 100, "name a model first: a run, an imported model or a folder");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "train") == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* never longer than its test */
        alarm(60);
        pause();
        return 0;
    }
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
