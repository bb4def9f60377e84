/* `import` as a user runs it. */
#include <limits.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/recovery.h"
#include "runs/spill.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/command/three_runs.h"

TEST_CASE(import_says_how_many_values_of_measures_it_read)
{
    char home[PATH_MAX];
    three_runs_home("import-measures", home);
    struct process *p = process_run(0, "import", "tests/fixtures/logs/measures.tfevents", NULL);
    assert_non_null(
        strstr(process_stderr(p), "imported 0 steps, 0 evaluations and 6 values of other measures; see: "));
}

TEST_CASE(import_prints_the_id_and_every_command_knows_the_run)
{
    char home[PATH_MAX], other[PATH_MAX], ids[3][RUN_ID_MAX], steps[PATH_MAX + 32], evals[PATH_MAX + 32];
    three_runs_home("import-from", home);
    three_runs_make(home, ids);
    snprintf(steps, sizeof steps, "%s/steps.csv", home);
    snprintf(evals, sizeof evals, "%s/evals.csv", home);
    process_run(0, "export", "base", "-o", steps, NULL);
    process_run(0, "export", "base", "--table", "evals", "-o", evals, NULL);
    three_runs_home("import-to", other);
    struct process *p = process_run(0, "import", steps, evals, NULL);
    char want[RUN_ID_MAX + 2];
    snprintf(want, sizeof want, "%s\n", ids[0]);
    assert_string_equal(process_stdout(p), want);
    assert_non_null(strstr(process_stderr(p), "imported 100 steps and 1 evaluation; see: "));
    char *again = process_output("export", "base", NULL), *first = stage_read(steps);
    assert_string_equal(again, first);
    char *out = process_output("runs", NULL);
    assert_non_null(strstr(out, "100/100"));
    out = process_output("show", "base", NULL);
    assert_non_null(strstr(out, "finished: imported from "));
    assert_null(strstr(out, "parameters"));
    process_run(0, "import", steps, "--name", "mine", NULL);
    out = process_output("compare", "base", "mine", NULL);
    assert_non_null(strstr(out, "0 of 0 keys differ (fewer than two runs have a recorded configuration)"));
    process_expect_sentence(process_run(1, "resume", "base", NULL), "no checkpoint left to continue from");

    /* a run that a killed import has left cannot be resumed */
    store_fixture_sql(other,
                      "update runs set status = 'created', message = 'incomplete: imported from x (import "
                      "the same files again)' where name = 'base'");
    assert_null(strstr(process_output("show", "base", NULL), "resume"));
    process_expect_sentence(
        process_run(2, "resume", "base", NULL),
        "cannot be resumed: it is part of an import that was killed, incomplete: imported from x "
        "(import the same files again)");

    process_expect_sentence(process_run(2, "import", NULL), "needs a FILE, or --store FOLDER");
    process_expect_sentence(process_run(2, "import", steps, "--name", "", NULL), "--name: needs a value");
    process_expect_sentence(process_run(1, "import", "/nowhere.csv", NULL), "/nowhere.csv: cannot open");
    process_expect_sentence(process_run(2, "import", home, NULL), "is a folder");
    out = process_output("import", "--help", NULL);
    assert_non_null(strstr(out, "main.log"));
}

/* One log can be read, one has been read before it had grown, one is of another kind; the fourth folder is a
 * link to a run, as wandb's latest-run is. */
TEST_CASE(a_folder_of_logs_is_imported_run_by_run)
{
    char home[PATH_MAX], *log;
    size_t size;
    three_runs_home("import-folder", home);
    const char *logs = kept_format("%s/logs", home), *name = "events.out.tfevents.1";
    static const char *const folders[] = {"grown", "new", "other"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(file_make_folders(kept_format("%s/%s", logs, folders[i]), NULL), STATUS_OK);
    assert_int_equal(symlink("new", kept_format("%s/latest-run", logs)), 0);
    log = store_fixture_slurp("tests/fixtures/logs/two_losses.tfevents", &size);
    stage_write(kept_format("%s/grown/%s", logs, name), log, size * 2 / 3);
    struct process *p = process_run(0, "import", logs, NULL);
    char *id = kept_format("%s", process_stdout(p));
    assert_non_null(strstr(id, "-grown\n"));
    assert_non_null(strstr(process_stderr(p), "grown: 2 steps, "));
    assert_non_null(strstr(process_stderr(p), "\nimported 1 of 1 run; see: "));
    p = process_run(0, "import", logs, "--name", "x", NULL);
    assert_non_null(strstr(process_stdout(p), "-x\n"));
    process_run(0, "delete", "x", "--yes", NULL);

    stage_write(kept_format("%s/grown/%s", logs, name), log, size);
    stage_write(kept_format("%s/new/%s", logs, name), log, size);
    stage_write(kept_format("%s/other/%s", logs, name), "who knows\n", 10);
    free(log);
    p = process_run(1, "import", logs, NULL);
    assert_null(strchr(strchr(process_stdout(p), '\n') + 1, '\n'));
    assert_non_null(strstr(process_stdout(p), "-new\n"));
    id[strcspn(id, "\n")] = '\0';
    assert_non_null(
        strstr(process_stderr(p), kept_format("left out: grown is here already, as %s, and the log has "
                                              "grown (to import it again, delete this run first)\n",
                                              id)));
    assert_non_null(strstr(process_stderr(p), "\nnew: 3 steps"));
    assert_non_null(
        strstr(process_stderr(p), kept_format("warning: left out: %s/other: contains neither", logs)));
    assert_non_null(strstr(process_stderr(p), "\nimported 1 of 3 runs; see: "));
    assert_non_null(strstr(process_stderr(p), ": 1 of 3 logs could not be read"));
    p = process_run(1, "import", kept_format("%s/new", logs), kept_format("%s/grown", logs), home, NULL);
    assert_non_null(strstr(process_stderr(p), "left out: new is here already, as "));
    assert_non_null(strstr(process_stderr(p), "imported 0 of 5 runs"));
    process_expect_sentence(process_run(2, "import", logs, "--name", "x", NULL),
                            "--name x names one run, and these folders hold those of 3");
}

TEST_CASE(importing_a_log_again_says_how_to_keep_the_newer_run_alone)
{
    char home[PATH_MAX];
    three_runs_home("import-again", home);
    const char *log = kept_format("%s/train/main.log", home),
               *other = kept_format("%s/b/train/main.log", home);
    assert_int_equal(file_make_folders(kept_format("%s/train", home), NULL), STATUS_OK);
    assert_int_equal(file_make_folders(kept_format("%s/b/train", home), NULL), STATUS_OK);
    stage_write(log, "s:0 trl:3\n", 10);
    stage_write(other, "s:0 trl:3\n", 10);
    process_run(0, "import", log, NULL);
    assert_null(strstr(process_stderr(process_run(0, "import", other, NULL)), "delete"));
    stage_write(log, "s:0 trl:3\ns:1 trl:2\n", 20);
    struct process *p = process_run(0, "import", log, NULL);
    assert_non_null(strstr(process_stderr(p), "the run is called train-3, as there is another run train\n"
                                              "train was imported from the same path; if the log has grown "
                                              "since, delete it: "));
    assert_non_null(strstr(process_stderr(p), " delete train\n"));
}

TEST_CASE(logs_of_one_name_in_folders_of_one_name_are_not_the_same)
{
    static const char *const places[] = {"here", "there"};
    char home[PATH_MAX];
    three_runs_home("import-namesake", home);
    for (int i = 0; i < 2; i++) {
        const char *folder = kept_format("%s/%s/logs", home, places[i]);
        assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
        stage_write(kept_format("%s/main.log", folder), "s:0 trl:3\n", 10);
        struct process *p = process_expect(
            0, process_open(&(struct process_options){
                   .arguments = (const char *const[]){"import", "main.log", NULL}, .folder = folder}));
        assert_null(strstr(process_stderr(p), "was imported from the same path"));
        assert_int_equal(strstr(process_stderr(p), "the run is called logs-2") != NULL, i);
    }
}

TEST_CASE(a_folder_called_latest_gives_a_run_that_can_be_named)
{
    char home[PATH_MAX];
    three_runs_home("import-latest", home);
    const char *log = kept_format("%s/latest/main.log", home);
    assert_int_equal(file_make_folders(kept_format("%s/latest", home), NULL), STATUS_OK);
    stage_write(log, "s:0 trl:3\n", 10);
    struct process *p = process_run(0, "import", log, NULL);
    assert_non_null(
        strstr(process_stderr(p), "the run is called latest-2, as the newest run is called latest\n"));
    assert_non_null(strstr(process_output("show", "latest-2", NULL), "imported from "));
    process_expect_sentence(process_run(2, "import", log, "--name", "latest", NULL), "--name latest: ");
}

TEST_CASE(a_run_with_the_configuration_of_another_program_cannot_be_resumed)
{
    static const char *const commands[] = {"resume", "fork"};
    char home[PATH_MAX];
    three_runs_home("import-wandb", home);
    process_run(0, "import", "tests/fixtures/logs/offline.wandb", NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        process_expect_sentence(
            process_run(1, commands[i], "latest", NULL),
            "was imported with the configuration of another program, and has no checkpoint "
            "to continue from");
}

STAGE_CASE(importing_what_is_not_there_makes_no_store, struct stage *s)
{
    const char *away = stage_path(s, "away"), *one = stage_path(s, "loss.csv");
    stage_write(one, "step,loss\n", 10);
    assert_int_equal(setenv("ANNEAL_HOME", away, 1), 0);
    process_expect_sentence(process_run(1, "import", "/nowhere.csv", NULL),
                            "/nowhere.csv: cannot open: No such");
    process_expect_sentence(process_run(1, "import", one, "/nowhere.csv", NULL), "/nowhere.csv: cannot open");
    process_expect_sentence(process_run(1, "import", "--store", "/nowhere", NULL), "/nowhere: cannot open");
    assert_false(file_exists(away));
}

/* Of a run that the database lacks records of, one that is there with fewer steps, and one whose id another
 * run has. */
TEST_CASE(importing_a_store_says_why_runs_are_left_out_and_which_got_another_id)
{
    char home[PATH_MAX], other[PATH_MAX], ids[3][RUN_ID_MAX], id[RUN_ID_MAX];
    three_runs_home("store-from", home);
    three_runs_make(home, ids);
    three_runs_home("store-to", other);
    process_run(0, "import", "--store", home, NULL);
    store_fixture_sql(other, "update runs set steps = 60 where name = 'base'");
    store_fixture_sql(other, "update runs set created_at = 1 where name = 'odd'");
    struct process *p = process_run(0, "import", "--store", home, NULL);
    static const char *const texts[] = {
        "left out: run %s is here already, with 60 of the 100 steps that it has there (to take that one, ",
        "left out: run %s is here already\n", "run %s is %s-2 here, as the id was in use\n"};
    for (int i = 0; i < 3; i++) {
        char line[400];
        snprintf(line, sizeof line, texts[i], ids[i], ids[i]);
        if (!strstr(process_stderr(p), line)) fail_msg("no \"%s\" in: %s", line, process_stderr(p));
    }
    assert_non_null(strstr(process_stderr(p), "imported 1 of 3 runs\n"));
    assert_string_equal(process_stdout(p), kept_format("%s-2\n", ids[2]));

    three_runs_add(home, "late", "[train]\n", 3, 3, 1, 1, id);
    struct err err = {0};
    struct spill spill;
    struct store *store = store_fixture_open(home);
    if (recovery_begin(store, id, &spill, &err) ||
        spill_add(&spill, 2, TABLE_SAMPLES, &(struct sample_record){9, "late", "text"}, &err))
        fail_msg("%s", err.text);
    spill_close(&spill);
    store_close(store);
    p = process_run(0, "import", "--store", home, "--filter", "name=late", NULL);
    assert_non_null(
        strstr(process_stderr(p), kept_format("left out: run %s has records in its folder that the "
                                              "database lacks: `ANNEAL_HOME=\"%s\" ",
                                              id, home)));
    assert_non_null(strstr(process_stderr(p), " doctor --repair` stores them, then import it again\n"
                                              "imported 0 of 1 run\n"));
}

/* Whose logs have the same name, as those of many trainers have. */
TEST_CASE(imports_at_the_same_time_leave_each_other_alone)
{
    enum { IMPORTS = 6 };
    char home[PATH_MAX], path[PATH_MAX + 64], text[4000] = "";
    struct process *all[IMPORTS];
    three_runs_home("import-parallel", home);
    for (int s = 0, n = 0; s < 200; s++)
        n += snprintf(text + n, sizeof text - (size_t)n, "s:%d trl:%d\n", s, s);
    for (int i = 0; i < IMPORTS; i++) {
        snprintf(path, sizeof path, "%s/job%d", home, i);
        assert_int_equal(file_make_folders(path, NULL), STATUS_OK);
        snprintf(path, sizeof path, "%s/job%d/main.log", home, i);
        stage_write(path, text, strlen(text));
    }
    for (int i = 0; i < IMPORTS; i++) {
        const char *const words[] = {"import", "main.log", NULL};
        snprintf(path, sizeof path, "%s/job%d", home, i);
        all[i] = process_open(&(struct process_options){.arguments = words, .folder = path});
    }
    for (int i = 0; i < IMPORTS; i++) process_expect(0, all[i]);
    assert_true(store_fixture_number(home, "select count(*) from runs where status = 'finished'") == IMPORTS);
    assert_true(store_fixture_number(home, "select count(*) from steps") == 200 * IMPORTS);
}

TEST_MAIN()
