/* The profile that the real binary records and shows: the page, its JSON, the exports and the profiled steps
 * agree. */
#include <jansson.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Trains 40 steps of which 5, 15, 25 and 35 are profiled. */
static void train_profiled(struct stage *s, const char *name)
{
    stage_open(s, name);
    process_run(0, "train", s->config, "--name", name, "--progress=none", "--profile.every=10",
                "--train.accumulation_steps=2", "--model.num_layers=2", "--checkpoint.activation_interval=2",
                NULL);
}

static double mean_step_ms(const struct stage *s)
{
    char *text =
        stage_query(s, "select printf('%.17g', avg(step_ms)) from steps where step in (5, 15, 25, 35)");
    double value = strtod(text, NULL);
    return value;
}

static const json_t *find_row(const json_t *profile, const char *phase, const char *op)
{
    const json_t *rows = json_object_get(profile, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(stage_text(row, "phase"), phase) == 0 && strcmp(stage_text(row, "op"), op) == 0)
            return row;
    }
    fail_msg("no row for %s, %s", phase, op);
    return NULL;
}

TEST_CASE(the_rows_are_those_of_the_profiled_steps_and_add_up_to_them)
{
    struct stage s;
    size_t i;
    json_t *row;
    double sum = 0, share = 0;
    train_profiled(&s, "rows");
    json_t *profile = stage_json(process_output("show", "rows", "--profile", "--json", NULL));
    assert_int_equal(stage_int(profile, "steps"), 4);
    assert_int_equal(stage_int(profile, "last_step"), 35);
    json_array_foreach(json_object_get(profile, "rows"), i, row) {
        sum += stage_real(row, "time_us");
        share += stage_real(row, "share");
    }
    double want = mean_step_ms(&s);
    assert_true(fabs(sum / 1e3 - want) < 1e-6 * want);
    assert_true(fabs(stage_real(profile, "step_ms") - want) < 1e-6 * want);
    assert_true(fabs(share - 1) < 1e-9);
    assert_true(stage_real(find_row(profile, "forward", "attention"), "calls") ==
                4); /* layers × micro-batches */
    assert_true(stage_real(find_row(profile, "recompute", "attention"), "calls") == 2);
    const json_t *gemm = find_row(profile, "forward", "gemm down");
    assert_true(stage_real(gemm, "flops") == 4.0 * 2 * (4 * 32) * 48 * 32);
    assert_true(fabs(stage_real(gemm, "gflops_per_sec") -
                     stage_real(gemm, "flops") / stage_real(gemm, "time_us") / 1e3) < 1e-9);

    json_t *layers = stage_json(process_output("show", "rows", "--profile", "--layers", "--json", NULL));
    int64_t of_layers = 0;
    json_array_foreach(json_object_get(layers, "rows"), i, row) {
        if (strcmp(stage_text(row, "op"), "gemm down") != 0) continue;
        assert_true(stage_real(row, "calls") == 2);
        of_layers |= 1 << stage_int(row, "layer");
    }
    assert_int_equal(of_layers, 3);
}

/* The line names the slowest operation that `show --profile` lists, not the time outside all of them, and
 * none where nothing was profiled. */
STAGE_CASE(a_run_ends_with_its_slowest_operations, struct stage *s)
{
    const json_t *slowest = NULL;
    size_t i;
    json_t *row;
    struct process *p =
        process_run(0, "train", s->config, "--name=slowest", "--progress=plain", "--profile.every=10", NULL);
    json_t *profile = stage_json(process_output("show", "slowest", "--profile", "--json", NULL));
    json_array_foreach(json_object_get(profile, "rows"), i, row) {
        if (strcmp(stage_text(row, "phase"), "unattributed") == 0) continue;
        if (!slowest || stage_real(row, "time_us") > stage_real(slowest, "time_us")) slowest = row;
    }
    char *wanted = kept_format("\nslowest operations: %s (%s) %.0f%%, ", stage_text(slowest, "op"),
                               stage_text(slowest, "phase"), 100 * stage_real(slowest, "share"));
    if (!strstr(process_stderr(p), wanted)) fail_msg("no%s in: %s", wanted, process_stderr(p));
    assert_non_null(strstr(process_stderr(p), " --profile\n"));
    assert_null(strstr(process_stderr(p), "(unattributed)"));
    p = process_run(0, "train", s->config, "--name=none", "--progress=plain", "--profile.every=0", NULL);
    assert_null(strstr(process_stderr(p), "slowest operations"));
}

TEST_CASE(each_phase_lists_its_operations_and_their_layers_where_asked)
{
    struct stage s;
    train_profiled(&s, "page");
    char *page = process_output("show", "page", "--profile", NULL);
    assert_non_null(strstr(page, "an average of 4 profiled steps, the newest is step 35\n"));
    const char *forward = strstr(page, "\nforward "), *backward = strstr(page, "\nbackward "),
               *again = strstr(page, "\nrecompute "), *step = strstr(page, "\nstep ");
    assert_true(forward && backward > forward && again > backward && step > again);
    const char *attention = strstr(forward, "\n  attention ");
    assert_true(attention && attention < backward);
    assert_non_null(strstr(step, "100.0%"));
    assert_null(strstr(page, "  layer  "));
    page = process_output("show", "page", "--profile", "--layers", NULL);
    forward = strstr(page, "\nforward ");
    assert_non_null(strstr(page, "  layer  "));
    const char *first = strstr(forward, "\n  attention "), *second = strstr(first + 1, "\n  attention ");
    assert_true(first && second && second < strstr(forward, "\nbackward "));
}

STAGE_CASE(what_cannot_be_shown_is_said, struct stage *s)
{
    process_run(0, "train", s->config, "--name", "none", "--progress=none", "--profile.every=0", NULL);
    char *text = process_output("show", "none", "--profile", NULL);
    assert_non_null(strstr(text, "no step has been profiled"));
    process_expect_sentence(process_run(2, "show", "none", "--layers", NULL), "--layers needs --profile");
}

TEST_CASE(the_exported_report_is_of_the_same_rows)
{
    static const char *const phases[] = {"data",      "forward",   "backward",
                                         "recompute", "optimizer", "unattributed"};
    struct stage s;
    double sum = 0;
    train_profiled(&s, "report");
    json_t *document = stage_json(process_output("export", "report", "--format", "json", NULL));
    json_t *report = json_object_get(json_object_get(document, "training"), "profiler_report");
    double want = mean_step_ms(&s);
    assert_true(fabs(stage_real(report, "avg_step_ms") - want) < 1e-6 * want);
    assert_true(fabs(stage_real(report, "total_time_ms") - 4 * want) < 4e-6 * want);
    const json_t *breakdown = json_object_get(report, "phase_breakdown");
    assert_int_equal(json_object_size(breakdown), 6);
    for (int i = 0; i < 6; i++) sum += stage_real(json_object_get(breakdown, phases[i]), "time_ms");
    assert_true(fabs(sum - 4 * want) < 4e-6 * want);
    const json_t *top = json_object_get(report, "top_operations");
    assert_true(json_array_size(top) > 0);
    assert_true(stage_int(json_array_get(top, 0), "calls") > 0);

    char *csv = process_output("export", "report", "--table", "profile", NULL);
    char *rows = stage_query(&s, "select count(*) from layer_profile");
    size_t lines = 0;
    for (const char *c = csv; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, (size_t)atoi(rows) + 1);
    assert_true(lines > 4 * 60);
}

TEST_MAIN()
