/* The actions on checkpoints, new runs and texts: the checkpoints of a real run, small enough to be trained
 * here, a fork and a new run from it through the form, and the playground. */
#include <locale.h>
#include <signal.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tests/tui/view/trained_base.h"

static const int sizes[][2] = {{14, 60}, {24, 80}, {40, 120}, {60, 200}};

/* Trains "base" for 12 steps, with checkpoints at 4, 8 and 12. */
static int train_base(void **state)
{
    (void)state;
    return trained_base(
        "--train.total_steps=12 --train.warmup_steps=1 --train.weight_decay=0.07 --eval.every=4 "
        "--eval.early=false --checkpoint.every=4 --checkpoint.keep=5");
}

static struct pty *open_checkpoints(int rows, int columns)
{
    struct pty *pty = trained_base_watch(rows, columns);
    pty_send(pty, "C");
    pty_wait_text(pty, "Checkpoints  3, ");
    return pty;
}

/* Types `text` in place of what is in a field. */
static void set(struct pty *pty, const char *field, const char *text)
{
    terminal_fill(pty, field, "\x15"); /* Ctrl-U */
    pty_send(pty, text);
}

TEST_CASE(a_fork_is_started_from_the_form_with_what_was_changed)
{
    struct pty *pty = open_checkpoints(40, 120);
    pty_send(pty, "jf"); /* step 8 */
    pty_wait_text(pty, "Fork  of base from step 8");
    pty_wait_text(pty, "base-fork");
    assert_false(pty_has_text(pty, "optimizer")); /* which a fork keeps */
    set(pty, "train.weight_decay", "0.09");       /* not one of the usual fields */
    pty_wait_text(pty, "was 0.07");
    set(pty, "steps", "11\x12");
    pty_wait_text(pty, "✓ finished");
    pty_wait_text(pty, "base-fork");
    pty_close(pty);
    assert_true(store_fixture_number(trained_home, "select parent_step from runs where name = 'base-fork'") ==
                8);
    assert_true(store_fixture_number(trained_home, "select total_steps from runs where name = 'base-fork'") ==
                11);
    assert_true(store_fixture_number(
                    trained_home, "select value from params p join runs r on r.id = p.run_id"
                                  " where r.name = 'base-fork' and p.name = 'train.weight_decay'") == 0.09);
}

TEST_CASE(a_fork_of_the_last_checkpoint_asks_for_more_steps)
{
    struct pty *pty = open_checkpoints(40, 140);
    pty_send(pty, "f");
    pty_wait_text(pty, "Fork  of base from step 12");
    pty_wait_text(pty, "train.total_steps = 12: the checkpoint has done 12 steps, give more");
    pty_wait_text(pty, "!12 (as it was)");
    assert_false(pty_has_text(pty, "about 0.0s"));
    pty_send(pty, "\x12"); /* leads to the field */
    pty_wait_text(pty, "─ train.total_steps ─");
    assert_false(pty_has_text(pty, "not started"));
    pty_send(pty, "15");
    pty_wait_text(pty, "; 3 left to do");
    pty_send(pty, "\x12");
    pty_wait_text(pty, "15 / 15 steps");
    pty_close(pty);
    store_fixture_sql(trained_home, "delete from runs where name = 'base-fork'");
}

TEST_CASE(a_new_run_begins_with_the_configuration_of_another)
{
    struct pty *pty = trained_base_watch(50, 120);
    pty_send(pty, "b");
    pty_wait_text(pty, "New run  from base");
    pty_wait_text(pty, "base-2");
    pty_wait_text(pty, "train.weight_decay 0.07");
    assert_false(pty_has_text(pty, "was "));
    pty_wait_text(pty, " on cpu, about "); /* memory and time, from the run itself */
    pty_wait_text(pty, "speed of base");
    set(pty, "steps", "many");
    pty_wait_text(pty, "must be a whole number"); /* at the field, before a start */
    pty_wait_text(pty, "!many");
    set(pty, "steps", "7");
    pty_wait_text(pty, "was 12");
    pty_send(pty, "\033");
    pty_wait_no_text(pty, "New run");
    pty_send(pty, "Cf"); /* another form: what was typed is of this one alone */
    pty_wait_text(pty, "Fork  of base from step 12");
    assert_false(pty_has_text(pty, "as you left it"));
    pty_send(pty, "\033");
    pty_wait_text(pty, "Checkpoints");
    pty_send(pty, "qb");
    pty_wait_text(pty, "as you left it");
    pty_wait_text(pty, "was 12");
    set(pty, "batch size", "3");
    pty_wait_text(pty, "7 steps of 48 tokens");
    pty_send(pty, "\x12");
    pty_wait_text(pty, "7 / 7 steps");
    pty_close(pty);
    assert_true(store_fixture_number(trained_home,
                                     "select count(*) from params p join runs r on r.id = p.run_id"
                                     " where r.name = 'base-2' and (p.name, p.value) in (values"
                                     " ('train.weight_decay', '0.07'), ('train.batch_size', '3'),"
                                     " ('model.hidden_dim', '16'), ('data.tokenizer', 'bytes'))") == 4);
}

/* "base" has 384 tokens. A newer run of its size, which was slower, is not its kin. */
TEST_CASE(a_form_foresees_its_time_from_the_speed_of_the_run_it_begins_with)
{
    store_fixture_sql(trained_home,
                      "update runs set tokens_per_sec = 3.2 where name = 'base';"
                      "insert into runs(id, name, status, created_at, device, precision, parameters, steps,"
                      " tokens_per_sec) select 'z', 'newer', status, created_at + 1, device, precision,"
                      " parameters, steps, 1 from runs where name = 'base'");
    struct pty *pty = open_checkpoints(40, 120);
    pty_send(pty, "jf"); /* the last 4 of 12 steps */
    pty_wait_text(pty, "about 40s at the speed of base");
    pty_send(pty, "\033");
    pty_wait_text(pty, "Checkpoints");
    pty_send(pty, "qb");
    pty_wait_text(pty, "about 2m 00s at the speed of base");
    set(pty, "model.hidden_dim", "32");
    pty_wait_no_text(pty, "about 2m 00s");
    pty_wait_text(pty, " at the speed of base");
    pty_close(pty);
    store_fixture_sql(trained_home, "delete from runs where id = 'z'");
}

TEST_CASE(what_does_not_fit_is_said_while_it_is_typed)
{
    struct pty *pty = trained_base_watch(40, 120);
    pty_send(pty, "b");
    pty_wait_text(pty, " on cpu, about ");
    set(pty, "model.hidden_dim", "131072");
    set(pty, "model.num_layers", "200");
    pty_wait_text(pty, "does not fit: ");
    set(pty, "model.num_layers", "1");
    set(pty, "model.hidden_dim", "16");
    pty_wait_no_text(pty, "does not fit");
    set(pty, "model.num_layers", "200"); /* 0.8 GB for a batch of 1, more than 1 TB for this one */
    set(pty, "model.hidden_dim", "64");
    set(pty, "batch size", "65535");
    pty_wait_text(pty, "; batches up to ");
    set(pty, "batch size", "2");
    set(pty, "model.hidden_dim", "16");
    set(pty, "model.num_layers", "1");
    pty_wait_no_text(pty, "does not fit");
    terminal_fill(pty, "device", "\033[D"); /* the last choice: cuda, which the tests do not have */
    pty_wait_text(pty, "--device cuda: ANNEAL_CUDA_PLUGIN is none");
    pty_close(pty);
}

TEST_CASE(a_checkpoint_is_exported_and_evaluated)
{
    char folder[1200], command[1300];
    snprintf(folder, sizeof folder, "%s/ada's", getenv("ANNEAL_TEST_DIR"));
    struct pty *pty = open_checkpoints(30, 200);
    pty_send(pty, "x");
    pty_wait_text(pty, "export to a folder");
    pty_wait_text(pty, "base-step-12");
    snprintf(command, sizeof command, "\x15%s\r", folder);
    pty_send(pty, command);
    pty_wait_text(pty, "done");
    pty_wait_text(pty, "from step-12");
    pty_wait_text(pty, "/ada'\\''s'"); /* the command, as a shell takes it */
    snprintf(command, sizeof command, "%s/model.safetensors", folder);
    assert_true(file_exists(command));
    pty_send(pty, "qx");
    snprintf(command, sizeof command, "\x15%s\r", folder);
    pty_send(pty, command); /* once more to the same place */
    pty_wait_text(pty, "failed");
    pty_send(pty, "qj");
    pty_wait_text(pty, "Checkpoints");
    pty_send(pty, "e");
    pty_wait_text(pty, "corpus.txt"); /* the run's own text */
    pty_send(pty, "\r");
    pty_wait_text(pty, "perplexity");
    pty_wait_text(pty, "step-8");
    pty_close(pty);
}

TEST_CASE(a_checkpoint_is_exported_to_a_gguf_file_of_a_type)
{
    static const struct {
        const char *answer, *words; /* behind the folder */
    } cases[] = {{"base.gguf", "/models.gguf.d/base.gguf --progress"},
                 {"base-2.gguf   f32 ", "/models.gguf.d/base-2.gguf --progress"}};
    char folder[1200], typed[1400], path[1300];
    struct err err = {0};
    snprintf(folder, sizeof folder, "%s/models.gguf.d", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    struct pty *pty = open_checkpoints(30, 200);
    pty_send(pty, "x\x15   \r"); /* no place: nothing is done */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pty_send(pty, "x");
        pty_wait_text(pty, "export to a folder");
        snprintf(typed, sizeof typed, "\x15%s/%s\r", folder, cases[i].answer);
        pty_send(pty, typed);
        pty_wait_text(pty, "done");
        pty_wait_text(pty, i ? "--gguf=f32 --output=" : "--gguf=f16 --output=");
        pty_wait_text(pty, cases[i].words);
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)strcspn(cases[i].answer, " "), cases[i].answer);
        assert_true(file_exists(path));
        pty_send(pty, "q");
        pty_wait_text(pty, "Checkpoints");
    }
    pty_close(pty);
}

/* Whether the workbench has a process that writes texts for it. */
static bool has_child(const struct pty *pty)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pty_pid(pty), (int)pty_pid(pty));
    FILE *file = fopen(path, "r");
    bool found = file && fscanf(file, "%d", &child) == 1;
    if (file) fclose(file);
    return found;
}

TEST_CASE(two_checkpoints_write_side_by_side)
{
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        struct pty *pty = open_checkpoints(sizes[i][0], sizes[i][1]);
        pty_send(pty, " j\r");
        pty_wait_text(pty, "Playground");
        pty_send(pty, "\x15In the \r");
        pty_wait_text(pty, " 8 ─"); /* the titles name the checkpoints */
        pty_wait_text(pty, " 12 ─");
        pty_wait_text(pty, "200 tokens, ");
        pty_wait_no_text(pty, "writing");
        assert_null(strchr(pty_raw(pty), '\a')); /* random bytes of a model that has learned nothing */
        set(pty, "tokens", "7\x12");             /* asks the same processes, which have the models loaded */
        pty_wait_text(pty, "7 tokens, ");
        pty_wait_no_text(pty, "200 tokens, ");
        assert_null(strstr(pty_raw(pty), "ended unexpectedly"));
        set(pty, "tokens", "");
        usleep(500000);              /* so that Esc is not meant for the text */
        bool asked = has_child(pty); /* false where the kernel does not tell */
        pty_send(pty, "\033");
        pty_wait_text(pty, "Checkpoints");
        assert_false(asked && has_child(pty));
        pty_close(pty);
    }
}

TEST_CASE(writing_is_stopped_by_a_key_and_a_failure_is_said)
{
    struct pty *pty = trained_base_watch(40, 120);
    pty_send(pty, "W");
    pty_wait_text(pty, "Playground");
    pty_wait_text(pty, "\u25B8 prompt"); /* drawn as a whole: the run view has marks, too */
    set(pty, "tokens", "999999\x12");
    pty_wait_text(pty, "writing, ");
    pty_send(pty, "\x03"); /* Ctrl-C does not leave the workbench now */
    pty_wait_text(pty, "stopped after");
    set(pty, "temperature", "-3\x12");
    pty_wait_text(pty, "temperature");
    pty_wait_text(pty, "-3");
    pty_wait_text(pty, "must be a number from 0");
    set(pty, "temperature", "");
    set(pty, "model", "\x12");
    pty_wait_text(pty, "name a model first");
    set(pty, "model", "no-such-model\x12");
    pty_wait_text(pty, "no-such-model");
    pty_wait_text(pty, "there is no such run");
    set(pty, "tokens", ""); /* the settings are remembered */
    set(pty, "model", "base\x12");
    pty_wait_text(pty, "200 tokens, ");
    pty_send(pty, "\x1b"); /* meant for the text, and too late: it does not leave, either */
    pty_wait_text(pty, "Esc once more goes back");
    pty_send(pty, "\x12");
    pty_wait_text(pty, "writing, ");
    pty_wait_text(pty, "200 tokens, ");
    pty_send(pty, "\x03");
    pty_wait_text(pty, "Ctrl-C once more leaves the workbench");
    pty_send(pty, "\x03");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(a_model_with_a_chat_template_answers_questions)
{
    char folder[1200], path[1300], command[3000];
    struct err err = {0};
    const char template[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
    snprintf(folder, sizeof folder, "%s/chatting", getenv("ANNEAL_TEST_DIR"));
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    snprintf(command, sizeof command, "ANNEAL_HOME=%s %s model export base -o %s >%s.log 2>&1", trained_home,
             getenv("ANNEAL_BINARY"), folder, folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(file_write_atomic(path, template, sizeof template - 1, &err), STATUS_OK);
    struct pty *pty = trained_base_watch(40, 120);
    pty_send(pty, "W");
    pty_wait_text(pty, "Playground");
    pty_wait_text(pty, "\u25B8 prompt"); /* drawn as a whole: the run view has marks, too */
    set(pty, "model", "");
    pty_send(pty, folder);
    set(pty, "tokens", "5");
    terminal_fill(pty, "format", " "); /* from text to chat */
    set(pty, "prompt", "Who?\r");
    pty_wait_text(pty, "5 tokens, ");
    set(pty, "model", "base\x12");
    pty_wait_text(pty, "no chat template"); /* which a run on plain text does not have */
    set(pty, "tokens", "");
    set(pty, "prompt", "");
    pty_close(pty);
}

TEST_CASE(deleting_asks_and_can_be_undone_until_the_view_is_left)
{
    char folder[1200], path[1300];
    struct run_info run;
    struct err err = {0};
    struct store *store = store_fixture_open(trained_home);
    assert_int_equal(run_find(store, "base", &run, &err), STATUS_OK);
    run_folder(store, run.id, folder, sizeof folder);
    store_close(store);
    snprintf(path, sizeof path, "%s/checkpoints/step-4", folder);
    struct pty *pty = open_checkpoints(24, 90);
    pty_send(pty, "jr");
    pty_wait_text(pty, "resumes from its newest checkpoint, step 12");
    pty_send(pty, "jD");
    pty_wait_text(pty, "Delete the checkpoint of step 4");
    pty_send(pty, "n");
    pty_wait_text(pty, "Checkpoints  3, ");
    pty_send(pty, "D");
    pty_wait_text(pty, "Delete the checkpoint of step 4");
    pty_send(pty, "y");
    pty_wait_text(pty, "Checkpoints  2, ");
    pty_send(pty, "gr");
    pty_wait_text(pty, "a checkpoint is to be deleted when you leave: leave first, or u brings it back");
    pty_send(pty, "u");
    pty_wait_text(pty, "Checkpoints  3, ");
    assert_true(file_exists(path));
    pty_send(pty, "GD");
    pty_wait_text(pty, "Delete the checkpoint of step 4");
    pty_send(pty, "y");
    pty_wait_text(pty, "Checkpoints  2, ");
    assert_true(file_exists(path));
    pty_send(pty, "q");
    pty_wait_no_text(pty, "Checkpoints");
    assert_false(file_exists(path));
    pty_send(pty, "C");
    pty_wait_text(pty, "Checkpoints  2, ");
    pty_close(pty);
}

/* ---- without a terminal ---- */

/* As `anneal import --store` makes them. */
TEST_CASE(a_linked_checkpoint_is_listed_as_long_as_it_is_there)
{
    char other[1024], folder[1200], path[1300], away[1100];
    struct run_info run;
    struct err err = {0};
    fill_five_hundred("linked", other, sizeof other);
    struct store *store = store_fixture_open(other);
    assert_int_equal(run_find(store, "ended", &run, &err), STATUS_OK);
    run_folder(store, run.id, folder, sizeof folder);
    store_close(store);
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/checkpoints/step-3", folder);
    snprintf(away, sizeof away, "%s/away", other);
    assert_int_equal(file_make_folders(away, &err), STATUS_OK);
    assert_int_equal(symlink(away, path), 0);
    store_fixture_sql(other, "delete from checkpoints;"
                             "insert into checkpoints(run_id, segment, step, kind, wall_time, path, bytes)"
                             " select id, 1, 3, 'last', 0, 'checkpoints/step-3', 9 from runs");
    struct workbench *workbench = headless_open(other, "ended");
    headless_type(workbench, "C");
    headless_expect(workbench, 80, 24, 80, "Checkpoints 1, ");
    headless_type(workbench, "q");
    assert_int_equal(file_remove_tree(away, &err), STATUS_OK);
    headless_type(workbench, "C");
    headless_expect(workbench, 80, 24, 80, "Checkpoints 0, ");
    assert_int_equal(file_make_folders(away, &err), STATUS_OK);
    headless_type(workbench, "qCDyq");
    assert_false(file_exists(path));
    assert_true(file_is_folder(away)); /* the link alone is removed */
    headless_close(workbench);
}

TEST_CASE(paths_of_the_store_that_leave_the_run_are_not_listed)
{
    char other[1024], folder[1200], path[1300];
    struct run_info run;
    struct run_lock lock;
    struct err err = {0};
    fill_five_hundred("hostile-paths", other, sizeof other);
    struct store *store = store_fixture_open(other);
    assert_int_equal(run_find(store, "ended", &run, &err), STATUS_OK);
    run_folder(store, run.id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/checkpoints/step-3", folder);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    store_fixture_sql(
        other,
        "delete from checkpoints; insert into checkpoints(run_id, segment, step, kind, wall_time, path,"
        " bytes) select id, 1, 3, char(27) || '[2J', 1e300, 'checkpoints/step-3', -5 from runs;"
        "insert into checkpoints(run_id, segment, step, kind, wall_time, path, bytes)"
        " select id, 1, 2, 'best', 0, '../../..', 9 from runs;"
        "insert into checkpoints(run_id, segment, step, kind, wall_time, path, bytes)"
        " select id, 1, -7, 'best', 0, 'checkpoints/step-99', 9 from runs");
    struct workbench *workbench = headless_open(other, "ended");
    headless_type(workbench, "C");
    headless_expect(workbench, 80, 24, 80, "Checkpoints 1, ");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        headless_expect_not(workbench, sizes[i][1], sizes[i][0], "\033");
    headless_type(workbench, "Dy");
    headless_expect(workbench, 80, 24, 80, "none: ");
    headless_type(workbench, "Df re\r"); /* nothing to act on */
    headless_type(workbench, "ux");
    headless_expect(workbench, 120, 24, 120, "export to a folder", "ended-step-3");
    store_fixture_sql(other, "update checkpoints set step = 4 where step = 3");
    workbench_tick(workbench, workbench->now + 1);
    headless_press(workbench, K_ENTER, 1);
    headless_expect(workbench, 80, 24, 80, "nothing was done: the checkpoint is gone");
    store_fixture_sql(other, "update checkpoints set step = 3 where step = 4");
    workbench_tick(workbench, workbench->now + 2);
    headless_type(workbench, "Dy");
    assert_int_equal(run_lock_acquire(store, run.id, &lock, &err), STATUS_OK);
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "! run "); /* it trains again */
    assert_true(file_exists(path));
    run_lock_release(&lock);
    headless_type(workbench, "CDyq");
    assert_false(file_exists(path));
    headless_close(workbench);
    store_close(store);
}

TEST_CASE(checkpoints_of_a_run_that_trains_stay)
{
    char folder[1200], path[1300], other[1300];
    struct err err = {0};
    struct run_info run;
    struct fill_quiet *quiet = fill_quiet("quiet-checkpoints");
    assert_int_equal(run_find(quiet->store, "mortal", &run, &err), STATUS_OK);
    run_folder(quiet->store, run.id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/checkpoints/step-3", folder);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    snprintf(other, sizeof other, "%s/checkpoints/step-2", folder);
    assert_int_equal(file_make_folders(other, &err), STATUS_OK);
    store_fixture_sql(quiet->home,
                      "insert into checkpoints(run_id, segment, step, kind, wall_time, path, bytes)"
                      " select id, 1, 2, 'last', 0, 'checkpoints/step-2', 9 from runs;"
                      "insert into checkpoints(run_id, segment, step, kind, wall_time, path, bytes)"
                      " select id, 1, 3, 'last', 0, 'checkpoints/step-3', 9 from runs");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_type(workbench, "CD");
    headless_expect(workbench, 80, 24, 80, "mortal is training: stop it before deleting");
    headless_type(workbench, "u");
    headless_expect(workbench, 80, 24, 80, "no checkpoint was deleted");
    headless_type(workbench, " ");
    headless_expect(workbench, 80, 24, 80, "Enter on another one prompts it beside step 19");
    headless_type(workbench, "W"); /* it is not beside itself */
    headless_expect_row(workbench, 120, 40, "checkpoint ", "19");
    headless_expect_row(workbench, 120, 40, "beside it", "no other");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect(workbench, 80, 24, 80, "Checkpoints 3, ");
    headless_type(workbench, " "); /* not any more */
    headless_expect_not(workbench, 80, 24, "beside step");
    assert_int_equal(run_remove(quiet->store, run.id, "checkpoints/step-3", &err), STATUS_BUSY);
    workbench_mouse(workbench, K_CLICK, &(struct pointer){5, 6, 0}); /* the third row */
    headless_type(workbench, "W");
    headless_expect(workbench, 120, 40, 44, "checkpoint 2");
    headless_close(workbench);
    assert_true(file_exists(path));
}

TEST_CASE(a_run_that_learned_to_answer_is_asked_in_its_format)
{
    static const char *const formats[] = {"instructions", "text"};
    for (int i = 0; i < 2; i++) {
        char home[1024], sql[200];
        fill_five_hundred(formats[i], home, sizeof home);
        snprintf(sql, sizeof sql, "insert or replace into params select id, 'data.format', '%s' from runs",
                 formats[i]);
        store_fixture_sql(home, sql);
        struct workbench *workbench = headless_open(home, "ended");
        headless_type(workbench, "W");
        headless_expect_row(workbench, 120, 40, "format ", i ? "text (default)" : "chat");
        headless_close(workbench);
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    return TEST_RUN(train_base, NULL);
}
