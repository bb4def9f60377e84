/* The other views of a run in a real terminal: its memory and profile, and the forecast in the form of a new
 * run. */
#include <locale.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/memory_usage.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"
#include "tests/runs/flush.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/terminal_fixture.h"
#include "tui/view/run_model.h"

#define MIB ((int64_t)1 << 20)

/* The memory of the live run: 100 MiB planned and allocated, 160 resident, on a machine of 1 GiB. */
static void record_memory(const struct fixture *fixture)
{
    struct err err = {0};
    struct store *store = store_fixture_open(fixture->home);
    struct gpu_record sample = {.wall_time = 1e9,
                                .gpu = -1,
                                .memory_used_bytes = 400 * MIB,
                                .memory_total_bytes = 1024 * MIB,
                                .process_bytes = 160 * MIB};
    assert_int_equal(gpu_samples_add(store, fixture->run.id, &sample, &err), STATUS_OK);
    store_close(store);
    writer_memory(fixture->run.writer, &(struct memory_record){0, "weights", 60 * MIB, 60 * MIB, 60 * MIB});
    writer_memory(fixture->run.writer,
                  &(struct memory_record){0, "activations", 40 * MIB, 40 * MIB, 40 * MIB});
    assert_int_equal(writer_flush(fixture->run.writer, 60, &err), STATUS_OK);
}

TEST_CASE(the_memory_reads_without_colours_and_without_unicode)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    record_memory(fixture);
    struct pty *pty = terminal_open(fixture->environment, 24, 80, "xterm", "LC_ALL=C", arguments);
    pty_wait_text(pty, "kjv-live");
    pty_send(pty, "M");
    pty_wait_text(pty, "W  weights");
    pty_wait_text(pty, "WWWA    "); /* of the device */
    pty_send(pty, "+");
    pty_wait_text(pty, "WWWWWAAAA"); /* of the run */
    pty_close(pty);
    pty = terminal_open(fixture->environment, 24, 80, NULL, "NO_COLOR=1", arguments);
    pty_wait_text(pty, "━ train");
    pty_send(pty, "M");
    pty_wait_text(pty, "█W█");       /* the letter tells */
    pty_wait_text(pty, "─ 1.0 GiB"); /* the ruler: all of the device */
    pty_send(pty, "+");
    pty_wait_text(pty, "─ 160.0 MiB");
    pty_wait_text(pty, "░A░");
    pty_close(pty);
}

TEST_CASE(an_imported_run_has_no_value_where_none_was_recorded)
{
    char home[1024], environment[1100], path[1200];
    struct err err = {0};
    store_fixture_home("imported", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    snprintf(path, sizeof path, "%s/main.log", home);
    const char log[] = "s:0 tel:10.99\ns:0 trl:10.99\ns:1 trl:10.5\ns:250 tel:6.45\n";
    assert_int_equal(file_write_atomic(path, log, sizeof log - 1, &err), STATUS_OK);
    const char *import[] = {"import", path, "--name", "foreign", NULL}, *watch[] = {"watch", "foreign", NULL};
    struct pty *pty = terminal_open(environment, 24, 80, NULL, NULL, import);
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    pty = terminal_open(environment, 60, 200, NULL, NULL, watch);
    pty_wait_text(pty, "loss 10.50");
    pty_wait_text(pty, "250     6.450");              /* without a perplexity */
    assert_false(pty_has_text(pty, "learning rate")); /* nor charts of rates and norms */
    assert_false(pty_has_text(pty, "NaN"));
    assert_false(pty_has_text(pty, "nan"));
    assert_false(pty_has_text(pty, "waiting for the first value"));
    pty_wait_text(pty, "no text was written");
    pty_send(pty, "r"); /* before it asks how far */
    pty_wait_text(pty, "foreign was imported: it has no checkpoint to continue from");
    pty_send(pty, "C");
    pty_wait_text(pty, "none: c in the view of a run that trains");
    assert_false(pty_has_text(pty, "resume"));
    pty_close(pty);
}

TEST_CASE(the_form_foresees_the_learning_rate_as_it_is_typed)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open(fixture->environment, 30, 120, NULL, NULL, NULL);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n");
    pty_wait_text(pty, "learning rate: peak 3.00e-4, end 3.00e-5");
    pty_wait_text(pty, "5.34M parameters; 2000 steps of 4.10k tokens");
    pty_wait_text(pty, "3e-4┤");
    terminal_fill(pty, "steps", "500");
    pty_wait_text(pty, "500 steps of");
    pty_send(pty, "\177\1770"); /* 50: fewer than warm up */
    pty_wait_text(pty, "is not shorter than the run of 50 steps");
    pty_send(pty, "0");
    pty_wait_text(pty, "500 steps of");
    terminal_fill(pty, "learning rate", "1e-");
    pty_wait_text(pty, "train.learning_rate = 1e-: must be a number"); /* and no chart of something else */
    pty_wait_text(pty, "!1e-");                                        /* the field says so, too */
    pty_wait_no_text(pty, "end 3.00e-5");
    pty_send(pty, "2");
    pty_wait_text(pty, "0.010┤");
    terminal_fill(pty, "schedule", "\033[D"); /* from cosine back to warmup_constant */
    pty_wait_text(pty, "learning rate: peak 0.0100, end 0.0100");
    pty_close(pty);
}

TEST_CASE(the_form_takes_the_keys_of_adapters)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open(fixture->environment, 40, 120, NULL, NULL, NULL);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n");
    pty_wait_text(pty, "New run");
    terminal_fill(pty, "fine-tune", "tests/fixtures/kinds/llama_biases");
    terminal_fill(pty, "LoRA rank", "8");
    terminal_fill(pty, "LoRA targets", "q,gap");
    terminal_fill(pty, "sequence length", "32");
    pty_wait_text(pty, "this model has no matrix gap");
    terminal_fill(pty, "LoRA targets", "\b\b\bup");
    pty_wait_text(pty, "LoRA targets      q,up");
    pty_wait_text(pty, "2.40k of 16.5k parameters trained");
    terminal_fill(pty, "frozen model", "\033[D"); /* the last of the choices */
    pty_wait_text(pty, "frozen model    \u2190 nf4");
    pty_close(pty);
}

/* Draws the steps from 3,000 on of a series and its averages. */
static void draw_averages(struct grid *grid, const struct series *series, const double *averages)
{
    struct chart chart = {.title = "loss",
                          .trace = {{.points = series->points,
                                     .count = series->count,
                                     .smooth = averages,
                                     .style = STYLE_TRAIN}},
                          .trace_count = 1,
                          .first_step = 3000,
                          .last_step = series->points[series->count - 1].last_step,
                          .cursor = -1,
                          .best_step = -1};
    assert_int_equal(grid_resize(grid, 160, 50, NULL), STATUS_OK);
    chart_draw(grid, (struct rect){0, 0, 160, 50}, &chart);
}

TEST_CASE(averages_of_buckets_are_drawn_dot_for_dot_as_those_of_the_steps)
{
    enum { STEPS = 30000 };
    static const struct fill lasting = {
        .name = "long", .steps = STEPS, .total_steps = STEPS, .spike_step = -1, .status = RUN_FINISHED};
    static double naive[2 * MODEL_POINTS];
    char home[1024];
    struct err err = {0};
    struct fill_run run;
    store_fixture_home("dots", home, sizeof home);
    fill_run(home, &lasting, &run);
    struct store *store = store_fixture_open(home);
    for (int d = 0; d < ROLLUP_DECAYS; d++) {
        struct series series = {.decay = rollup_decay[d]};
        struct grid ours = {.level = GLYPHS_BRAILLE}, theirs = ours;
        double acc = 0, weight = 0;
        size_t at = 0;
        assert_int_equal(series_read(store, run.id, METRIC_LOSS, 0, -1, MODEL_POINTS, &series, &err),
                         STATUS_OK);
        assert_true(series.level > 1 && series.count <= 2 * MODEL_POINTS);
        for (int64_t step = 0; step < STEPS; step++) {
            acc = series.decay * acc + (1 - series.decay) * fill_loss(step);
            weight = series.decay * weight + (1 - series.decay);
            naive[at] = acc / weight; /* the last one of the point stays */
            at += step == series.points[at].last_step;
        }
        draw_averages(&ours, &series, series.smooth);
        draw_averages(&theirs, &series, naive);
        for (int i = 0; i < 160 * 50; i++) assert_int_equal(ours.cells[i].glyph, theirs.cells[i].glyph);
        for (size_t i = 0; i < series.count; i++) naive[i] += 0.005; /* as little is seen */
        draw_averages(&theirs, &series, naive);
        int differ = 0;
        for (int i = 0; i < 160 * 50; i++) differ += ours.cells[i].glyph != theirs.cells[i].glyph;
        assert_true(differ > 100);
        series_release(&series);
        grid_release(&ours);
        grid_release(&theirs);
    }
    store_close(store);
}

/* Step -1 is before training, and an order that nobody has carried out has no step. */
TEST_CASE(charts_mark_what_happened_from_the_first_step_on)
{
    char home[1024], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_model model;
    store_fixture_home("marks", home, sizeof home);
    store_fixture_run(home, "marks", id);
    store_fixture_sql(home, "insert into events(run_id, segment, step, level, text)"
                            " select id, 1, column1, column2, 'said' from runs,"
                            " (values (-1, 'warning'), (0, 'warning'), (1, 'info'), (2, 'error'));"
                            "insert into orders(run_id, issued_at, verb, applied_step)"
                            " select id, 1, 'eval', column1 from runs, (values (null), (0), (3))");
    struct store *store = store_fixture_open(home);
    if (run_model_open(&model, store, "marks", &err)) fail_msg("%s", err.text);
    int64_t events = 0, orders = 0;
    for (size_t i = 0; i < model.mark_count; i++)
        *(model.marks[i].event ? &events : &orders) |= 1 << model.marks[i].step;
    assert_int_equal(model.mark_count, 4);
    assert_int_equal(events, 1 << 0 | 1 << 2);
    assert_int_equal(orders, 1 << 0 | 1 << 3);
    run_model_release(&model);
    store_close(store);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    return TEST_RUN(terminal_make_store, terminal_drop_store);
}
