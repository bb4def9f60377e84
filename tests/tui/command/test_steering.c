/* A run that is steered while it trains and ended early: orders, early stopping, and that `runs`, `show`,
 * `export`, `generate` and the database agree. */
#include <jansson.h>
#include <math.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/train/trace_reader.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* ---- orders ---- */

/* A trainer that would go on for very long, its progress on its standard output. */
static struct process *start_long_run(const struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name", "long", "--train.total_steps=100000000",
                                      "--train.schedule=constant", "--eval.every=0", "--sample.every=0",
                                      "--checkpoint.every=0", "--progress", "json", NULL);
    process_wait_lines(p, 5);
    return p;
}

/* Waits for "step N: result" on standard output and returns N. A trainer blocks if its output is not read, so
 * it is read meanwhile. */
static bool has_ended(struct process *order, void *trainer)
{
    process_poll(trainer);
    return process_poll(order);
}

static long order(struct process *trainer, const char *result, const char *verb, const char *value)
{
    long step = -1;
    char text[160] = "";
    struct process *p = process_start("order", "long", verb, "--wait", value, NULL);
    process_wait(p, has_ended, trainer);
    process_expect(0, p);
    assert_int_equal(sscanf(process_stdout(p), "step %ld: %159[^\n]", &step, text), 2);
    if (!strstr(text, result)) fail_msg("%s: \"%s\" instead of \"%s\"", verb, text, result);
    return step;
}

/* In the run's folder, JSON, and named by `anneal show`. */
static void expect_trace(const struct stage *s, long step)
{
    char path[4300];
    static struct trace_reading reading;
    json_t *runs = stage_runs();
    const char *id = stage_text(json_array_get(runs, 0), "id");
    char *name = kept_format("traces/step-%ld.json", step);
    snprintf(path, sizeof path, "%s/runs/%s/%s", s->home, id, name);
    trace_read(path, &reading);
    assert_non_null(trace_find(&reading, "forward"));
    struct process *p = process_run(0, "show", "long", NULL);
    char line[160];
    snprintf(line, sizeof line, "\nTraces\n  step  path\n  %4ld  %s\n", step, name);
    assert_non_null(strstr(process_stdout(p), line));
    const char *found = strstr(process_stdout(p), "\nEvents\n");
    assert_non_null(found);
    assert_non_null(strstr(found, name));
    p = process_run(0, "show", "long", "--json", NULL);
    snprintf(line, sizeof line, "\"path\": \"%s\"", name);
    found = strstr(process_stdout(p), "\"traces\"");
    assert_non_null(found);
    assert_non_null(strstr(found, line));
}

STAGE_CASE(orders_take_effect_and_are_written_down, struct stage *s)
{
    struct process *trainer = start_long_run(s);
    long paused = order(trainer, "done", "pause", NULL);
    process_wait_text(trainer, "\"status\":\"paused\"");
    while (strcmp(stage_status(), "paused") != 0) continue; /* the recorder is a moment behind */
    assert_int_equal(order(trainer, "validation loss ", "eval", NULL), paused);
    assert_int_equal(order(trainer, "done", "sample", NULL), paused);
    char *checkpoint = kept_format("written to checkpoints/step-%ld", paused);
    assert_int_equal(order(trainer, checkpoint, "checkpoint", NULL), paused);
    assert_int_equal(order(trainer, "learning rate × 0.5", "lr-factor", "0.5"), paused);
    assert_string_equal(stage_status(), "paused");
    assert_int_equal(order(trainer, "done", "continue", NULL), paused);
    long traced = order(trainer, "written to traces/step-", "trace", NULL);
    assert_true(traced >= paused);
    expect_trace(s, traced);
    long stopped = order(trainer, "done", "stop", NULL);
    process_expect(0, trainer);
    assert_true(stopped >= paused);
    assert_string_equal(stage_status(), "stopped");

    json_t *lines = stage_parse_lines(process_stdout(trainer)), *line;
    size_t i;
    assert_int_equal(stage_count_lines(lines, "order"), 8);
    assert_int_equal(stage_count_lines(lines, "step"), stopped);
    json_array_foreach(lines, i, line) {
        if (strcmp(stage_text(line, "type"), "step") != 0) continue;
        assert_true(stage_real(line, "lr") == (stage_int(line, "step") < paused ? 3e-3 : 3e-3 * 0.5));
    }
    json_t *sample = stage_find_line(lines, "sample", 0), *eval = stage_find_line(lines, "eval", 0);
    assert_string_equal(stage_text(eval, "verdict"),
                        "ordered"); /* it uses up no patience, and leaves no row */
    assert_int_equal(stage_int(sample, "step"), paused);
    assert_int_equal(stage_int(eval, "step"), paused);

    stage_expect(s, "select count(*) from early_stopping where step < (select max(step) from evals)", "0");
    stage_expect(s,
                 "select group_concat(verb || ' ' || coalesce(argument, '') || issuer, ', ') "
                 "from orders where applied_step is not null",
                 "pause cli, eval cli, sample cli, checkpoint cli, lr-factor 0.5cli, continue "
                 "cli, trace cli, stop cli");
}

/* Else a second trainer could begin to train the same run. */
STAGE_CASE(a_trainer_whose_folder_is_removed_ends_at_once_and_does_not_make_it_again, struct stage *s)
{
    struct process *trainer = start_long_run(s);
    char *id = stage_query(s, "select id from runs"), *message;
    char *folder = kept_format("%s/runs/%s", s->home, id);
    assert_int_equal(file_remove_tree(folder, NULL), STATUS_OK);
    process_expect(1, trainer);
    assert_non_null(strstr(process_stderr(trainer), "was removed or moved while it was training"));
    assert_false(file_exists(folder));
    assert_string_equal(stage_status(), "failed");
    message = stage_query(s, "select message from runs");
    assert_non_null(strstr(message, folder));
}

STAGE_CASE(a_run_set_to_stop_at_a_non_finite_number_saves_no_such_weights_and_continues_from_before,
           struct stage *s)
{
    struct process *p = process_run(1, "train", s->config, "--name", "halted", "--train.learning_rate=1000",
                                    "--train.schedule=constant", "--train.weight_decay=100",
                                    "--train.warmup_steps=0", "--train.max_grad_norm=0", "--eval.every=0",
                                    "--health.on_nan=stop", "--progress=none", NULL);
    process_expect_sentence(p, "is not finite, and health.on_nan = stop");
    assert_string_equal(stage_status(), "failed");
    p = process_run(0, "show", "halted", NULL);
    assert_non_null(strstr(process_stdout(p), "the update was skipped; the run ends here"));
    assert_null(strstr(process_stdout(p), "  last  "));
    process_run(0, "resume", "halted", "--train.learning_rate=0.003", "--train.weight_decay=0.1",
                "--train.max_grad_norm=1", "--progress=none", NULL);
    assert_string_equal(stage_status(), "finished");
}

STAGE_CASE(orders_to_a_run_that_has_ended_are_refused, struct stage *s)
{
    process_run(0, "train", s->config, "--name", "late", "--progress=none", NULL);
    struct process *p = process_run(1, "order", "late", "pause", "--wait", NULL);
    process_expect_sentence(p, "late");
    stage_expect(s, "select count(*) from orders", "0");
}

/* Scripts go on after `order RUN stop --wait` only if it succeeds. */
STAGE_CASE(an_order_that_was_not_carried_out_is_a_failure, struct stage *s)
{
    struct process *trainer = start_long_run(s), *p;
    char *folder = kept_format("%s/runs/%s/checkpoints", s->home, stage_query(s, "select id from runs"));
    assert_int_equal(file_remove_tree(folder, NULL), STATUS_OK);
    stage_write(folder, "a file", 6);
    for (int stop = 0; stop < 2; stop++) {
        p = process_start("order", "long", stop ? "stop" : "checkpoint", "--wait", NULL);
        process_wait(p, has_ended, trainer);
        process_expect(1, p);
        process_expect_sentence(p, ": checkpoint at step ");
        process_expect_sentence(p, folder);
        assert_string_equal(process_stdout(p), "");
        if (!stop) assert_string_equal(stage_status(), "running");
    }
    process_expect(1, trainer);
    assert_string_equal(stage_status(), "failed");
    stage_expect(s,
                 "select group_concat(substr(result, 1, 27) || (applied_step > 0), ', ') from orders order "
                 "by id",
                 "failed: checkpoint at step 1, done1");
}

STAGE_CASE(a_learning_rate_factor_survives_a_resume, struct stage *s)
{
    struct process *trainer = start_long_run(s);
    long from = order(trainer, "learning rate × 0.25", "lr-factor", "0.25");
    order(trainer, "done", "stop", NULL);
    process_expect(0, trainer);
    struct process *rest = process_start("resume", "long", "--progress=json", NULL);
    process_wait_lines(rest, 3);
    process_signal(rest, 15);
    process_expect(0, rest);
    json_t *lines = stage_parse_lines(process_stdout(rest)), *step = stage_find_line(lines, "step", 0);
    assert_true(stage_int(step, "step") >= from);
    assert_true(stage_real(step, "lr") == 3e-3 * 0.25);
}

/* Its first life recorded what a run that is not interrupted would have. */
STAGE_CASE(a_killed_run_obeys_its_learning_rate_orders_again_where_it_did, struct stage *s)
{
    char wanted[80], sql[400];
    struct process *trainer = start_long_run(s);
    long saved = order(trainer, "written to checkpoints/", "checkpoint", NULL);
    long from = order(trainer, "learning rate × 0.25", "lr-factor", "0.25");
    long until = order(trainer, "done", "sample", NULL);
    assert_true(saved < from && from < until);
    process_signal(trainer, 9);
    assert_int_equal(process_wait_exit(trainer), 128 + 9);
    struct process *rest = process_start("resume", "long", "--progress=json", NULL);
    snprintf(wanted, sizeof wanted, "\"step\":%ld,", until);
    process_wait_text(rest, wanted);
    process_signal(rest, 15);
    process_expect(0, rest);
    snprintf(sql, sizeof sql,
             "select min(b.step) = %ld, max(b.step) >= %ld, min(b.lr), sum(a.lr is not b.lr or a.loss is not "
             "b.loss) from steps a join steps b using (run_id, step) where a.segment = 1 and b.segment = 2",
             saved, until - 1);
    stage_expect(s, sql, "1|1|0.00075|0");
    char *row = stage_query(s, "select text from events where text like 'learning rate%'");
    snprintf(wanted, sizeof wanted, "learning rate × 0.25 again from step %ld on, as ordered before the run",
             from);
    assert_non_null(strstr(row, wanted));
}

/* The rates of steps 20 to 39 in a resume from step 20, after these orders: (id, step, factor). */
static char *rates_after_orders(struct stage *s, const char *name, const char *orders)
{
    char sql[600], path[900];
    stage_open(s, name);
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--checkpoint.keep=9",
                "--sample.every=0", "--eval.every=0", "--train.schedule=constant", NULL);
    char *id = stage_query(s, "select id from runs");
    for (int step = 30; step <= 40; step += 10) {
        snprintf(path, sizeof path, "%s/runs/%s/checkpoints/step-%d", s->home, id, step);
        assert_int_equal(file_remove_tree(path, NULL), STATUS_OK);
    }
    snprintf(sql, sizeof sql,
             "insert into orders(id, applied_step, argument, run_id, issued_at, verb, issuer, result) select "
             "column1, column2, column3, runs.id, 0, 'lr-factor', 'cli', 'done' from runs, (values %s)",
             orders);
    stage_query(s, sql);
    process_run(0, "resume", "base", "--progress=none", NULL);
    return stage_query(s, "select group_concat(step || ': ' || rate, ', ') from (select min(step) as step, "
                          "round(lr / 0.003, 3) as rate from steps where segment = 2 group by lr order by "
                          "step)");
}

TEST_CASE(of_the_orders_before_a_resume_those_in_force_are_obeyed_again)
{
    struct stage s;
    char *rates = rates_after_orders(&s, "in-order", "(1, 25, 0.25), (2, 31, 0.5), (3, 31, 0.75)");
    assert_string_equal(rates, "20: 1.0, 25: 0.25, 31: 0.75");
    /* the second was given after an earlier resume, the last was refused */
    rates = rates_after_orders(&s, "out-of-order", "(1, 35, 0.25), (2, 25, 0.5), (4, 38, 2000)");
    assert_string_equal(rates, "20: 1.0, 25: 0.5");
    /* the checkpoint of a step is saved before the orders of that step are obeyed */
    rates = rates_after_orders(&s, "own-step", "(1, 20, 0.25)");
    assert_string_equal(rates, "20: 0.25");
    rates = rates_after_orders(&s, "taken-back", "(1, 25, 0.25), (2, 12, 1)");
    assert_string_equal(rates, "20: 1.0");
    stage_expect(&s, "select count(*) from events where text like 'learning rate%'", "0");
}

/* A factor is to be recalled at step 8,000; before that another is ordered. Nobody reads what the trainer
 * says, so that it stands still until the order is there. */
STAGE_CASE(a_new_order_counts_more_than_one_that_is_recalled, struct stage *s)
{
    process_run(0, "train", s->config, "--name=long", "--progress=none", "--sample.every=0", "--eval.every=0",
                "--train.schedule=constant", NULL);
    stage_query(s, "insert into orders(run_id, issued_at, verb, argument, issuer, applied_step, result) "
                   "select id, 0, 'lr-factor', 0.25, 'cli', 8000, 'done' from runs");
    struct process *rest =
        process_start("resume", "long", "--train.total_steps=9000", "--progress=json", NULL);
    process_wait_lines(rest, 3);
    assert_true(order(rest, "learning rate × 0.5", "lr-factor", "0.5") < 8000);
    process_expect_within(120, 0, rest);
    stage_expect(s, "select max(lr) = 0.0015, min(lr) = 0.0015 from steps where step >= 7999", "1|1");
}

/* ---- early stopping ---- */

STAGE_CASE(early_stopping_ends_the_run_and_reports_why, struct stage *s)
{
    /* nothing improves by ten nats but the first evaluation */
    struct process *p =
        process_run(0, "train", s->config, "--eval.every=5", "--eval.early_stopping_patience=2",
                    "--eval.early_stopping_min_delta=10", "--progress=json", NULL);
    json_t *lines = stage_parse_lines(process_stdout(p)), *end = stage_find_line(lines, "end", 0);
    assert_string_equal(stage_text(end, "status"), "early_stopped");
    assert_int_equal(stage_int(end, "step"), 15);
    assert_string_equal(stage_text(stage_find_line(lines, "eval", -1), "verdict"), "stop");
    assert_int_equal(stage_int(stage_find_line(lines, "eval", -1), "best_step"), 15);
    assert_string_equal(stage_status(), "early_stopped");
    stage_expect(s,
                 "select group_concat(step || verdict || patience_used || '/' || patience, ' ') "
                 "from early_stopping",
                 "5improved0/2 10waiting1/2 15stop2/2");
    assert_non_null(strstr(process_output("show", "latest", NULL), "--eval.early_stopping_patience=4"));
    stage_query(s, "alter table early_stopping rename to elsewhere;"
                   "create table early_stopping as select * from elsewhere where false");
    process_output("show", "latest", NULL); /* as after a recording that failed */
    stage_query(s, "drop table early_stopping; alter table elsewhere rename to early_stopping");
    /* a run with more patience goes on */
    process_run(0, "resume", "latest", "--eval.early_stopping_patience=0", "--progress=none", NULL);
    assert_string_equal(stage_status(), "finished");
}

STAGE_CASE(a_run_killed_when_its_patience_was_used_up_ends_when_it_is_resumed, struct stage *s)
{
    process_run(0, "train", s->config, "--eval.every=5", "--eval.early_stopping_patience=2",
                "--eval.early_stopping_min_delta=10", "--progress=none", NULL);
    assert_string_equal(stage_status(), "early_stopped");
    stage_query(s, "update runs set status = 'running'");
    assert_string_equal(stage_status(), "crashed");
    process_run(0, "resume", "latest", "--progress=none", NULL);
    assert_string_equal(stage_status(), "early_stopped");
    stage_expect(s, "select max(step) from steps", "14");
    process_expect_sentence(process_run(2, "resume", "latest", NULL),
                            ": its patience of 2 evaluations is used up");
}

STAGE_CASE(a_finished_run_whose_patience_is_used_up_is_not_said_to_have_stopped_early, struct stage *s)
{
    process_run(0, "train", s->config, "--train.total_steps=15", "--eval.every=5",
                "--eval.early_stopping_patience=2", "--eval.early_stopping_min_delta=10", "--progress=none",
                NULL);
    assert_string_equal(stage_status(), "finished");
    process_expect_sentence(process_run(2, "resume", "latest", "--train.total_steps=30", NULL),
                            ": its patience of 2 evaluations is used up (to train longer: ");
}

/* ---- one story ---- */

/* Row `row` (0: the header) and column `column` of a CSV without quotes; the buffer is overwritten. */
static const char *csv_cell(const char *csv, int row, int column)
{
    static char cell[128];
    while (row-- && (csv = strchr(csv, '\n'))) csv++;
    while (csv && column-- && (csv = strpbrk(csv, ",\n")) && *csv == ',') csv++;
    assert_non_null(csv);
    snprintf(cell, sizeof cell, "%.*s", (int)strcspn(csv, ",\r\n"), csv);
    return cell;
}

static int csv_rows(const char *csv)
{
    int rows = 0;
    while ((csv = strchr(csv, '\n'))) csv++, rows++;
    return rows - 1;
}

static char *read_table(const struct stage *s, const char *table)
{
    char path[700];
    snprintf(path, sizeof path, "%s/csv/%s.csv", s->folder, table);
    return stage_read(path);
}

STAGE_CASE(runs_show_export_and_the_database_agree, struct stage *s)
{
    static const char *const tables[] = {"steps", "evals",   "early_stopping", "profile", "memory",
                                         "gpu",   "samples", "orders",         "runs"};
    static const char *const members[] = {"status", "steps",         "tokens",    "final_loss",
                                          "name",   "best_val_loss", "best_step", "parameters"};
    char *shown, *text, sql[200];
    process_run(0, "train", s->config, "--name", "agree", "--progress=none", NULL);
    char *folder = stage_path(s, "csv");
    process_run(0, "export", "agree", "--table", "all", "-o", folder, NULL);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) read_table(s, tables[i]);

    json_t *runs = stage_runs(), *run = json_array_get(runs, 0);
    json_t *show = stage_json(shown = process_output("show", "agree", "--json", NULL));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        assert_true(json_equal(json_object_get(run, members[i]), json_object_get(show, members[i])));

    char *csv = read_table(s, "runs");
    assert_string_equal(csv_cell(csv, 1, 0), stage_text(run, "id"));
    assert_string_equal(csv_cell(csv, 1, 2), "finished");
    assert_true(strtod(csv_cell(csv, 1, 10), NULL) == stage_real(run, "final_loss"));
    assert_true(strtod(csv_cell(csv, 1, 11), NULL) == stage_real(run, "best_val_loss"));

    csv = read_table(s, "steps");
    assert_int_equal(csv_rows(csv), 40);
    assert_true(strtod(csv_cell(csv, 40, 7), NULL) == stage_real(run, "final_loss"));
    assert_int_equal(atoi(csv_cell(csv, 40, 4)), stage_int(run, "tokens"));

    csv = read_table(s, "evals");
    json_t *evals = json_object_get(show, "evals");
    assert_int_equal(csv_rows(csv), 4);
    assert_int_equal(json_array_size(evals), 4);
    for (int i = 0; i < 4; i++) {
        double loss = stage_real(json_array_get(evals, (size_t)i), "val_loss");
        assert_true(strtod(csv_cell(csv, i + 1, 5), NULL) == loss);
        snprintf(sql, sizeof sql,
                 "select count(*) from evals where step = %d and abs(val_loss - %.17g) < 1e-12", 10 * (i + 1),
                 loss);
        assert_string_equal(text = stage_query(s, sql), "1");
    }

    stage_expect(s,
                 "select status || steps || '/' || total_steps || ' ' || (select count(*) from steps) "
                 "|| ' ' || (select count(*) from checkpoints) from runs",
                 "finished40/40 40 4");
    json_t *checkpoints = json_object_get(show, "checkpoints"), *checkpoint;
    size_t i, kept = 0;
    json_array_foreach(checkpoints, i, checkpoint)
        kept += json_is_true(json_object_get(checkpoint, "exists"));
    assert_int_equal(json_array_size(checkpoints), 4);
    assert_int_equal(kept, 2); /* checkpoint.keep */
}

/* ---- text ---- */

STAGE_CASE(generate_gives_the_same_text_for_the_same_seed, struct stage *s)
{
    char *id;
    process_run(0, "train", s->config, "--name", "poet", "--train.total_steps=200", "--progress=none", NULL);
    char *a =
        process_output("generate", "poet", "--prompt", "the ", "--max-tokens", "40", "--seed", "7", NULL);
    char *b =
        process_output("generate", "poet", "--prompt", "the ", "--max-tokens", "40", "--seed", "7", NULL);
    char *c =
        process_output("generate", "poet", "--prompt", "the ", "--max-tokens", "40", "--seed", "8", NULL);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    assert_int_equal(strlen(a), 4 + 40 + 1); /* bytes: a token is a byte */
    assert_memory_equal(a, "the ", 4);
    id = stage_query(s, "select id from runs");
    char *folder = kept_format("%s/runs/%s/checkpoints/step-200", s->home, id);
    char *d = process_output("generate", folder, "--prompt", "the ", "--max-tokens", "40", "--seed=7", NULL);
    assert_string_equal(a, d);
    char *e =
        process_output("generate", "poet", "--prompt=the ", "--max-tokens=40", "--seed=7", "--json", NULL);
    json_t *json = stage_json(e);
    assert_string_equal(stage_text(json, "prompt"), "the ");
    assert_memory_equal(stage_text(json, "text"), a + 4, 40);
}

STAGE_CASE(generate_without_temperature_is_greedy, struct stage *s)
{
    process_run(0, "train", s->config, "--name", "poet", "--train.total_steps=200", "--progress=none", NULL);
    char *a = process_output("generate", "poet", "--temperature=0", "--seed=1", "--max-tokens=20", NULL);
    char *b = process_output("generate", "poet", "--temperature=0", "--seed=2", "--max-tokens=20", NULL);
    char *c = process_output("generate", "poet", "--top-k=1", "--seed=3", "--max-tokens=20", NULL);
    assert_string_equal(a, b);
    assert_string_equal(a, c);
}

TEST_MAIN()
