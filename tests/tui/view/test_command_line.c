/* The command line: every command that a key has, with arguments, completion, and earlier lines. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/view/command_line.h"

static const bool all[ACTION_COUNT]; /* no action is of no use */

TEST_CASE(every_command_is_found_by_its_name)
{
    char name[COMMAND_NAME_MAX], why[256];
    struct typed_command command;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].action == ACTION_COMMAND || key_is_mouse(keys[i].code)) continue;
        command_name(keys[i].action, name);
        enum key_context context = keys[i].context == CONTEXT_ANY ? CONTEXT_RUNS : keys[i].context;
        assert_true(command_line_find(context, name, &command, why, sizeof why));
        assert_ptr_equal(command.key, &keys[i]);
        assert_null(command.argument);
    }
}

TEST_CASE(the_beginning_of_a_name_is_enough)
{
    static const struct {
        const char *line;
        enum action action;
        const char *argument, *why;
    } lines[] = {
        {"pause", ACTION_PAUSE, NULL, NULL},
        {"  pau  ", ACTION_PAUSE, NULL, NULL},
        {"sort", ACTION_SORT, NULL, NULL},
        {"sort -best,name", ACTION_SORT_BY, "-best,name", NULL},
        {"q", ACTION_LEAVE, NULL, NULL},
        {"filter a and b", ACTION_FILTER, "a and b", NULL},
        {"tags  +a -b ", ACTION_TAGS, "+a -b ", NULL},
        {"", ACTION_NONE, NULL, ""},
        {"   ", ACTION_NONE, NULL, ""},
        {"pause now", ACTION_NONE, NULL, "pause takes no argument"},
        {"page", ACTION_NONE, NULL, "\"page\" may be page-up, page-down"},
        {"zoom-in", ACTION_NONE, NULL, "no command \"zoom-in\" here"}, /* it is one of a run's view */
        {"command", ACTION_NONE, NULL, "no command"},
        {"PAUSE", ACTION_NONE, NULL, "no command"},
        {"a-word-that-is-longer-than-any-name", ACTION_NONE, NULL, "no command"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct typed_command command = {0};
        char why[256];
        bool found = command_line_find(CONTEXT_RUNS, lines[i].line, &command, why, sizeof why);
        assert_int_equal(found, !lines[i].why);
        if (!found && !(*lines[i].why ? strstr(why, lines[i].why) != NULL : !*why)) fail_msg("%s", why);
        if (!found) continue;
        assert_int_equal(command.key->action, lines[i].action);
        if (lines[i].argument) assert_string_equal(command.argument, lines[i].argument);
        if (!lines[i].argument) assert_null(command.argument);
    }
}

TEST_CASE(tab_completes_names)
{
    static const struct {
        const char *typed, *completed;
    } lines[] = {{"pau", "pause"},
                 {"pa", "pa"},
                 {"page", "page-"},
                 {"fil", "filter "},
                 {"xyz", "xyz"},
                 {"", ""},
                 {"pause x", "pause x"},
                 {"mark-", "mark-all"},
                 {"tag", "tags "},
                 {"palette da", "palette dark"},
                 {"notify osc", "notify osc"},
                 {"notify osc7", "notify osc777"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct input input;
        input_set(&input, lines[i].typed);
        assert_true(command_line_complete(CONTEXT_RUNS, all, &input));
        assert_string_equal(input.text, lines[i].completed);
    }
    struct input input;
    static const char *const before[][2] = {{"pau now", "pause now"}, {"tag x", "tags x"}};
    for (int i = 0; i < 2; i++) { /* at the end of the name, with words behind it */
        input_set(&input, before[i][0]);
        input.cursor = (int)strcspn(before[i][0], " ");
        assert_true(command_line_complete(CONTEXT_RUNS, all, &input));
        assert_string_equal(input.text, before[i][1]);
    }
    input_set(&input, "filter na");
    assert_false(command_line_complete(CONTEXT_RUNS, all, &input)); /* the view knows the fields */
}

TEST_CASE(a_command_does_as_its_key_does)
{
    char home[1024];
    fill_thirty("commands", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, ":");
    headless_expect(workbench, 200, 24, 200, "open up down page-up"); /* those that there are */
    headless_type(workbench, "down\r");
    headless_expect_selected(workbench, "run-01");
    headless_type(workbench, ":tags +x-y +both\r");
    assert_true(store_fixture_number(home, "select count(*) from tags where run_id = 'id-01'") == 2);
    headless_type(workbench, ":sort -na\t\r");
    headless_expect(workbench, 80, 24, 80, "by -name");
    headless_type(workbench, ":filter na\t=run-07\r");
    headless_expect(workbench, 80, 24, 80, "1 match");
    headless_type(workbench, "R"); /* keys are keys again */
    headless_expect(workbench, 80, 24, 80, "name of run-07:");
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, ":filter\r"); /* without an argument it asks for one, as the key does */
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "run-1\r:rename a-new-name\r");
    assert_true(store_fixture_number(home, "select count(*) from runs where name = 'a-new-name'") == 1);
    headless_type(workbench, ":delete\r");
    headless_expect(workbench, 80, 24, 80, "with its history and checkpoints?"); /* asks as the key does */
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, ":q\r");
    assert_true(workbench->left);
}

TEST_CASE(all_commands_that_enter_asks_about_are_listed_before)
{
    struct fill_quiet *quiet = fill_quiet("quiet-listed");
    run_lock_release(&quiet->lock); /* an ended run has no evaluation to ask for */
    store_fixture_sql(quiet->home, "update runs set status = 'finished'; delete from events");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_type(workbench, ":e");
    headless_expect(workbench, 120, 24, 120, "enlarge event-next event-previous evaluate");
    headless_type(workbench, "\r");
    headless_expect(workbench, 120, 24, 120, "\"e\" may be enlarge, event-next, event-previous, evaluate");
}

TEST_CASE(what_no_command_is_can_be_typed_on)
{
    char home[1024];
    fill_thirty("mistyped", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, ":dwn\r");
    headless_expect(workbench, 80, 24, 80, "no command \"dwn\" here");
    headless_expect(workbench, 80, 24, 80, ": dwn");
    headless_press(workbench, K_BACKSPACE, 2);
    headless_expect(workbench, 80, 24, 80, "down delete dismiss : d"); /* what begins so */
    headless_type(workbench, "ow");
    headless_expect(workbench, 80, 24, 80, "down (Down j): select the run below");
    headless_type(workbench, "n\r");
    headless_expect_selected(workbench, "run-01");
    headless_type(workbench, ":");
    headless_press(workbench, K_UP, 2); /* there is one only */
    headless_expect(workbench, 80, 24, 80, ": down");
    headless_press(workbench, K_DOWN, 1);
    headless_expect_not(workbench, 80, 24, ": down");
    headless_press(workbench, K_UP, 1);
    headless_press(workbench, K_ENTER, 1);
    headless_expect_selected(workbench, "run-02");
    headless_type(workbench, ":");
    headless_press(workbench, K_BACKSPACE, 1); /* of an empty line it goes back */
    headless_type(workbench, "j");
    headless_expect_selected(workbench, "run-03");
}

TEST_CASE(the_newest_lines_are_kept)
{
    char home[1024], line[32];
    fill_thirty("recalled", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    for (int i = 0; i <= COMMANDS_KEPT; i++) {
        snprintf(line, sizeof line, ":filter run-%02d\r", i);
        headless_type(workbench, line);
    }
    headless_type(workbench, ":");
    headless_press(workbench, K_UP, COMMANDS_KEPT + 3);
    headless_expect(workbench, 80, 24, 80, ": filter run-01"); /* the first one is gone */
    headless_press(workbench, K_DOWN, COMMANDS_KEPT - 1);
    headless_expect(workbench, 80, 24, 80, ": filter run-16");
}

/* The first bytes of é and è are equal, and so are three of the four of the two faces. */
TEST_CASE(what_names_share_ends_with_a_whole_character)
{
    static const char *const names[] = {"caf\xC3\xA9", "caf\xC3\xA8"}, *const faces[] = {"x\xF0\x9F\x98\x80",
                                                                                         "x\xF0\x9F\x98\x81"};
    struct input input = {0};
    char list[64];
    input_set(&input, "c");
    assert_int_equal(input_complete(&input, names, 2, " ", list, sizeof list), 2);
    assert_string_equal(input.text, "caf");
    input_set(&input, "x");
    assert_int_equal(input_complete(&input, faces, 2, " ", list, sizeof list), 2);
    assert_string_equal(input.text, "x");
    input_set(&input, "c");
    assert_int_equal(input_complete(&input, names, 1, " ", list, sizeof list), 1);
    assert_string_equal(input.text, "caf\xC3\xA9");
}

TEST_CASE(the_learning_rate_takes_a_factor)
{
    struct fill_quiet *quiet = fill_quiet("quiet-factor");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_type(workbench, ":lr 0.3\r");
    headless_expect(workbench, 80, 24, 80, "multiply its scheduled learning rate by 0.3;");
    assert_true(store_fixture_number(quiet->home, "select max(argument) from orders") == 0.3);
    static const char *const wrong[] = {"x", "-1", "nan", "inf", "1 2", "1e999", "1e9", "1000.1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        headless_type(workbench, "*");
        headless_expect(workbench, 80, 24, 80,
                        "factor of the scheduled learning rate, now 0.3000, of mortal: ");
        headless_type(workbench, wrong[i]);
        headless_press(workbench, K_ENTER, 1);
        headless_expect(workbench, 80, 24, 80, "is no factor: a number from 0 to 1000");
        headless_press(workbench, K_ESCAPE, 1);
    }
    for (int i = 0; i < 2; i++) { /* the least and the greatest */
        headless_type(workbench, i ? ":lr 1000\r" : ":lr 0\r");
        headless_expect(workbench, 80, 24, 80, i ? "learning rate by 1000;" : "learning rate by 0;");
    }
    store_fixture_sql(quiet->home, "delete from orders where argument != 0.3");
    headless_type(workbench, ">n<");
    headless_expect(workbench, 80, 24, 80, "Halve the learning rate of mortal from its next step on?");
    headless_type(workbench, "q"); /* a no */
    assert_true(store_fixture_number(quiet->home, "select count(*) from orders") == 1);
}

TEST_CASE(what_is_typed_is_seen_however_long_its_label_is)
{
    struct fill_quiet *quiet = fill_quiet("quiet-label");
    store_fixture_sql(quiet->home, "update runs set name = 'lr-sweep-warmup-2000-b16'");
    struct workbench *workbench = headless_open(quiet->home, "lr-sweep-warmup-2000-b16");
    headless_type(workbench, "*0.125");
    headless_expect_row(workbench, 80, 24, "factor of the scheduled learning rate, now 1.000,", "… 0.125");
    headless_expect_row(workbench, 40, 10, "factor of the scheduled", "… 0.125");
    headless_press(workbench, K_ESCAPE, 1);
    headless_press(workbench, 'q', 1);
    headless_type(workbench, "N0123456789abcdefghij");
    headless_expect_row(workbench, 40, 10, "note of lr-sweep", " abcdefghij");
}

TEST_CASE(a_form_has_commands_though_letters_are_text)
{
    char home[1024];
    fill_thirty("form-commands", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "n:x");
    headless_expect(workbench, 80, 24, 80, ":x"); /* the first field */
    headless_press(workbench, K_F2, 1);
    headless_type(workbench, "back\r");
    headless_expect(workbench, 80, 24, 80, "30 runs");
}

TEST_CASE(a_command_is_no_letter_of_the_filter_that_is_typed)
{
    char home[1024];
    fill_thirty("no-letter", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "/run-1");
    headless_press(workbench, K_F2, 1);
    headless_type(workbench, "mark\r");
    headless_expect(workbench, 80, 24, 80, "/run-1 10 match 1 marked");
    headless_type(workbench, "/0");
    headless_press(workbench, K_F2, 1);
    headless_type(workbench, "help\rx"); /* x closes the help; the filter is still typed */
    headless_type(workbench, "?");
    headless_expect(workbench, 80, 24, 80, "/run-10? 0 match");
}

TEST_CASE(sentences_name_the_keys_that_the_user_has_bound)
{
    char home[1024];
    fill_five_hundred("bound", home, sizeof home);
    store_fixture_settings(home, "key.runs.compare = V\nkey.runs.mark = F7\nkey.run.resume = F8\n"
                                 "key.run.sample-older = F9\nkey.checkpoints.prompt = F10\n"
                                 "key.run.checkpoint = F11\n");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "V");
    headless_expect(workbench, 80, 24, 80, "mark the runs to compare with F7, then press V");
    store_fixture_sql(home, "update runs set status = 'stopped', message = ''; delete from early_stopping");
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "stopped; F8 resumes it", "(F9: older)");
    headless_type(workbench, "C ");
    headless_expect(workbench, 80, 24, 80, "F10 on another one prompts it");
    headless_type(workbench, "Dyq");
    headless_type(workbench, "C");
    headless_expect(workbench, 80, 24, 80, "none: F11 in the view of a run");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
