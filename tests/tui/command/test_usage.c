/* Words on the command line that cannot be meant: exit status 2, one line, and where the help is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdio.h>

#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void words_that_mean_nothing_are_one_line_that_points_to_the_help(void **state)
{
    (void)state;
    static const char *const commands[] = {"watch", "train",     "resume", "fork",     "order",    "runs",
                                           "show",  "compare",   "export", "import",   "generate", "evaluate",
                                           "data",  "tokenizer", "model",  "estimate", "devices",  "bench"};
    static const char *const words[][3] = {{"--frobnicate"},
                                           {"x", "--frobnicate=3"},
                                           {"-o"},
                                           {"\x1b[2J", "--frobnicate"},
                                           {"--frobnicate", "--frobnicate"}};
    struct stage s;
    char pointer[64];
    stage_open(&s, "meaningless");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(pointer, sizeof pointer, " (see anneal %s --help)\n", commands[i]);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            const char *arguments[5] = {commands[i], words[w][0], words[w][1], words[w][2]};
            struct process *p = process_open(&(struct process_options){.arguments = arguments});
            process_expect_sentence(process_expect(2, p), pointer);
            assert_null(strchr(process_stderr(p), '\x1b'));
            assert_string_equal(process_stdout(p), "");
            process_close(p);
        }
        for (int h = 0; h < 2; h++) {
            struct process *p = process_run(0, commands[i], h ? "--help" : "-h", NULL);
            assert_non_null(strstr(process_stdout(p), "anneal "));
            assert_string_equal(process_stderr(p), "");
            process_close(p);
        }
    }
    static const char *const empty[][4] = {{"train", ""},
                                           {"resume", ""},
                                           {"fork", ""},
                                           {"estimate", ""},
                                           {"import", ""},
                                           {"data", ""},
                                           {"model", "info", "a", "b"},
                                           {"model", "import"},
                                           {"model", "info", ""},
                                           {"data", "prepare"},
                                           {"tokenizer", "info", "--frobnicate"},
                                           {"model", "import", "a", "--best"},
                                           {"model", "import", "a", "--json"},
                                           {"model", "info", "a", "--name=b"},
                                           {"bench"},
                                           {"bench", "step", "--rounds=0"},
                                           {"generate", "a", "b"},
                                           {"train", "a.ini", "b.ini"},
                                           {"show", "a", "b"},
                                           {"order", "a", "pause", "stop"}};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        const char *arguments[5] = {empty[i][0], empty[i][1], empty[i][2], empty[i][3]};
        struct process *p = process_open(&(struct process_options){.arguments = arguments});
        snprintf(pointer, sizeof pointer, " (see anneal %s --help)\n", empty[i][0]);
        process_expect_sentence(process_expect(2, p), pointer);
        process_close(p);
    }
}

static void an_unknown_command_or_option_suggests_the_nearest(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "words");
    process_expect_sentence(process_run(2, "trian", NULL), "no command \"trian\"; did you mean \"train\"?");
    process_expect_sentence(process_run(2, "xyzzy", NULL), "no command \"xyzzy\" (anneal --help lists them)");
    process_expect_sentence(process_run(2, "runs", "--jsno", NULL), "no option --jsno");
    process_expect_sentence(process_run(2, "resume", NULL), "which run?");
    process_expect_sentence(process_run(2, "order", "latest", "puase", NULL),
                            "no verb \"puase\"; did you mean \"pause\"?");
    process_expect_sentence(process_run(2, "order", "latest", "lr-factor", "-1", NULL),
                            "lr-factor needs one number from 0 to 1000");
    process_expect_sentence(process_run(2, "export", "latest", "--table", "stpes", NULL),
                            "no table \"stpes\" (tables: steps, ");
    process_expect_sentence(process_run(2, "generate", "x", "--promt", "y", NULL),
                            "unknown option --promt (did you mean --prompt?)");
    process_expect_sentence(process_run(2, "generate", "x", "--top-p", "1.5", NULL),
                            "--top-p 1.5: must be a probability above 0, at most 1");
    process_expect_sentence(process_run(2, "resume", "x", "--waitt", NULL),
                            "unknown option --waitt (did you mean --wait?)");
    process_close_all(state);
    process_expect_sentence(process_run(2, "resume", "x", "--step", NULL), /* near none */
                            "unknown option --step (see anneal resume --help)");
    process_expect_sentence(process_run(2, "train", "--train.nope=1", NULL),
                            "unknown key train.nope (anneal train --help-config lists them)");
    process_expect_sentence(process_run(2, "bench", "step", "--nope", NULL), "unknown option --nope");
    process_expect_sentence(process_run(2, "bench", "step", "--rounds", "x", NULL),
                            "--rounds \"x\": must be a whole number from 1 to 15");
    process_expect_sentence(process_run(2, "bench", "step", "--train.seed", NULL),
                            "bench: --train.seed: must be --section.key=value");
    process_expect_sentence(process_run(2, "resume", "latest", "--name", "x", NULL),
                            "--name: a resumed run keeps its name");
    process_expect_sentence(process_run(1, "resume", "latest", NULL),
                            "run \"latest\": there are no runs yet (start one with `anneal train`)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(words_that_mean_nothing_are_one_line_that_points_to_the_help,
                                  process_close_all),
        cmocka_unit_test_teardown(an_unknown_command_or_option_suggests_the_nearest, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
