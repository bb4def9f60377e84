/* The formats of `export` as a user runs them. */
#include <jansson.h>
#include <limits.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/command/three_runs.h"

TEST_CASE(export_writes_every_format_where_it_is_asked_to)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX], path[PATH_MAX + 200], file[PATH_MAX + 200];
    three_runs_home("formats", home);
    three_runs_make(home, ids);
    process_expect_sentence(process_run(2, "export", "base", "fast", "base", NULL),
                            "which was already named");
    char *out = process_output("export", "base", "fast", "--format", "long", NULL);
    assert_memory_equal(out, "run,step,wall_time,metric,value\r\n", 33);
    assert_non_null(strstr(out, "-base,99,"));
    assert_non_null(strstr(out, "-fast,100,"));
    snprintf(file, sizeof file, "%s/both.csv", home);
    process_run(0, "export", "base", "fast", "--format", "long", "-o", file, NULL);
    char *text = stage_read(file);
    assert_string_equal(text, out);
    out = process_output("export", "base", "--format", "long", "--table", "evals", NULL);
    assert_null(strstr(out, ",loss,"));
    assert_non_null(strstr(out, ",val_loss,3.5"));

    snprintf(path, sizeof path, "%s/one", home);
    process_run(0, "export", "base", "--format", "tensorboard", "-o", path, NULL);
    snprintf(file, sizeof file, "%s/loss.csv", path);
    assert_true(file_exists(file));
    snprintf(path, sizeof path, "%s/two/", home);
    struct process *wrote =
        process_run(0, "export", "base", "fast", "--format", "tensorboard", "-o", path, NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s%s/val_loss.csv", path, ids[i]);
        assert_true(file_exists(file));
        assert_non_null(strstr(process_stderr(wrote), file)); /* one slash */
    }
    wrote = process_run(0, "export", "base", "fast", "--format", "events", "-o", path, NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s%s/events.out.tfevents.", path, ids[i]);
        assert_non_null(strstr(process_stderr(wrote), file));
        process_run(0, "import", "--name", "back", kept_format("%s%s", path, ids[i]), NULL);
        process_run(0, "delete", "back", "--yes", NULL);
    }

    out = process_output("export", "fast", "--format", "json", NULL);
    json_t *root = stage_json(out);
    assert_string_equal(json_string_value(json_object_get(root, "run_id")), ids[1]);
    process_run(0, "export", "base", "fast", "--format", "json", "-o", path, NULL);
    snprintf(file, sizeof file, "%s%s.json", path, ids[1]);
    text = stage_read(file);
    assert_string_equal(text, out);

    static const struct {
        const char *words[5], *sentence;
    } cases[] = {
        {{"base", "--format", "tensorboard"}, "several files need a folder"},
        {{"base", "fast", "--format", "json"}, "several files need a folder"},
        {{"base", "--format", "json", "--table", "steps"}, "takes no --table"},
        {{"base", "--format", "long", "--table", "memory"}, "the metrics of --table steps, evals"},
        {{"--format", "long"}, "needs a RUN"},
        {{"--format", "json", "--table", "runs"}, "takes no --table"},
        {{"base", "--format", "xml"}, "--format xml: must be csv|long|tensorboard|events|json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arguments[8] = {"export"};
        for (int w = 0; w < 5; w++) arguments[w + 1] = cases[i].words[w];
        struct process *p = process_open(&(struct process_options){.arguments = arguments});
        process_expect_sentence(process_expect(2, p), cases[i].sentence);
    }
    store_fixture_sql(home, "update runs set id = '../../escaped' where name = 'odd'");
    process_expect_sentence(process_run(1, "export", "odd", "base", "--format", "json", "-o", path, NULL),
                            "its id cannot be the name of a file");
    process_expect_sentence(
        process_run(1, "export", "odd", "base", "--format", "tensorboard", "-o", path, NULL),
        "its id cannot be the name of a file");
    snprintf(file, sizeof file, "%s/both.csv/x", home);
    process_expect_sentence(process_run(1, "export", "base", "--format", "json", "-o", file, NULL),
                            "both.csv/x");
}

TEST_CASE(a_run_far_above_the_others_does_not_flatten_the_picture)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX];
    three_runs_home("far", home);
    three_runs_make(home, ids);
    store_fixture_sql(
        home, "update steps set loss = loss * 1000 where run_id = (select id from runs where name = 'fast')");
    char *out = process_output("export", "base", "fast", "--format", "svg", NULL);
    assert_null(strstr(out, "000</text>")); /* no such number on the axis */
    assert_non_null(strstr(out, " values beyond the scale</text>"));
    out = process_output("export", "fast", "--format", "svg", NULL);
    assert_non_null(strstr(out, "000</text>"));
}

TEST_CASE(export_draws_metrics_of_several_runs_as_a_picture)
{
    char home[PATH_MAX], ids[3][RUN_ID_MAX];
    three_runs_home("picture", home);
    three_runs_make(home, ids);
    char *out = process_output("export", "base", "--format", "svg", NULL);
    assert_memory_equal(out, "<svg ", 5);
    assert_non_null(strstr(out, ">loss</text>"));
    assert_non_null(strstr(out, ">val_loss</text>"));
    out =
        process_output("export", "base", "fast", "--format", "svg", "--metric", "loss,tokens_per_sec", NULL);
    assert_non_null(strstr(out, ">2 runs</text>"));
    assert_non_null(strstr(out, ">fast tokens_per_sec</text>"));
    out = process_output("export", "base", "--format", "long", "--metric", "val_loss", NULL);
    assert_non_null(strstr(out, ",val_loss,3.5\r\n"));
    assert_null(strstr(out, ",loss,"));
    out = process_output("export", "base", "--format", "long", "--metric", "val_loss , lr", NULL);
    assert_non_null(strstr(out, ",val_loss,3.5\r\n"));
    assert_non_null(strstr(out, ",lr,"));
    out = process_output("export", "base", "--format", "svg", "--metric", "loss, lr", NULL);
    assert_non_null(strstr(out, ">lr</text>"));
    process_expect_sentence(process_run(1, "export", "base", "--format", "long", "--metric", "lr,los", NULL),
                            "los: no value is recorded under this name; did you mean \"loss\"?");
    process_expect_sentence(process_run(2, "export", "base", "--format", "long", "--metric", " ,", NULL),
                            "--metric names no metric");
    process_expect_sentence(process_run(2, "export", "base", "--format", "svg", "--metric", "los", NULL),
                            "--metric los: no chart of it is recorded");
    process_expect_sentence(process_run(2, "export", "base", "--metric", "loss", NULL),
                            "--metric needs --format svg or long");
    process_expect_sentence(process_run(2, "export", "base", "--format", "svg", "-o", "x.csv", NULL),
                            "--format svg writes a picture");
}

TEST_MAIN()
