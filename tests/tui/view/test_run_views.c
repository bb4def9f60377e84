/* The other views of a run in a real terminal: its memory and profile, and the forecast in the form of a new
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/memory_usage.h"
#include "runs/reservations/ledger.h"
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

static void the_memory_reads_without_colours_and_without_unicode(void **state)
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

static void an_imported_run_has_no_value_where_none_was_recorded(void **state)
{
    char home[1024], environment[1100], path[1200];
    struct err err = {0};
    (void)state;
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
    pty_wait_text(pty, "250     6.450"); /* without a perplexity */
    pty_wait_text(pty, "not recorded");  /* the charts of rates and norms */
    assert_false(pty_has_text(pty, "NaN"));
    assert_false(pty_has_text(pty, "nan"));
    assert_false(pty_has_text(pty, "waiting for the first value"));
    pty_close(pty);
}

/* The other run's curve has the resolution of the run itself, from its first step on, however long the other
 * is; it grows while the run continues. */
static void a_long_run_is_compared_step_by_step_with_a_short_one(void **state)
{
    static const struct fill live = {
        .name = "short", .steps = 100, .total_steps = 9000, .spike_step = -1, .keep_alive = true};
    static const struct fill lasting = {
        .name = "long", .steps = 20000, .total_steps = 20000, .spike_step = -1, .status = RUN_FINISHED};
    char home[1024];
    struct err err = {0};
    struct fill_run run, other;
    struct run_model model;
    (void)state;
    store_fixture_home("compared", home, sizeof home);
    fill_run(home, &live, &run);
    fill_run(home, &lasting, &other);
    struct store *store = store_fixture_open(home);
    const struct series *series = &model.series[TRACE_OTHER];
    assert_int_equal(run_model_open(&model, store, run.id, &err), STATUS_OK);
    assert_int_equal(run_model_compare(&model, store, other.id, &err), STATUS_OK);
    assert_int_equal(series->level, 1);
    assert_int_equal(series->points[0].last_step, 0);
    assert_true(series->points[0].last == fill_loss(0));
    fill_steps(&run, &live, 100, 3000);
    assert_int_equal(run_model_update(&model, store, &err), STATUS_OK);
    assert_true(series->points[series->count - 1].last_step >= 2999);
    run_model_release(&model);
    store_close(store);
    fill_end(&run, RUN_FINISHED, "");
}

static void the_form_foresees_the_learning_rate_as_it_is_typed(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open(fixture->environment, 30, 120, NULL, NULL, NULL);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n");
    pty_wait_text(pty, "learning rate: peak 3.00e-4, end 3.00e-5");
    pty_wait_text(pty, "5.34M parameters; 2000 steps of 4.10k tokens");
    pty_wait_text(pty, "3e-4┤");
    pty_send(pty, "\t\t\t\t\t\t\t\t\t\t\t\t500");
    pty_wait_text(pty, "500 steps of");
    pty_send(pty, "\t\t\t1e-");
    pty_wait_text(pty, "train.learning_rate = 1e-: must be a number"); /* and no chart of something else */
    pty_wait_no_text(pty, "end 3.00e-5");
    pty_send(pty, "2");
    pty_wait_text(pty, "0.010┤");
    pty_send(pty, "\t\t\033[D"); /* schedule: from cosine back to warmup_constant */
    pty_wait_text(pty, "learning rate: peak 0.0100, end 0.0100");
    pty_close(pty);
}

static void the_form_takes_the_keys_of_adapters(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open(fixture->environment, 40, 120, NULL, NULL, NULL);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n\t\ttests/fixtures/kinds/llama_biases\t8\t\tq,gap\t\t\t\t\t\t\t\t\t32");
    pty_wait_text(pty, "this model has no matrix gap");
    pty_send(pty, "\033[A\033[A\033[A\033[A\033[A\033[A\033[A\033[A\033[A\b\b\bup");
    pty_wait_text(pty, "LoRA targets      q,up");
    pty_wait_text(pty, "2.40k of 16.5k parameters trained");
    pty_send(pty, "\t\033[D"); /* the last of the choices */
    pty_wait_text(pty, "frozen model    \u2190 nf4");
    pty_close(pty);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_memory_reads_without_colours_and_without_unicode),
        cmocka_unit_test(an_imported_run_has_no_value_where_none_was_recorded),
        cmocka_unit_test(a_long_run_is_compared_step_by_step_with_a_short_one),
        cmocka_unit_test(the_form_foresees_the_learning_rate_as_it_is_typed),
        cmocka_unit_test(the_form_takes_the_keys_of_adapters),
    };
    return cmocka_run_group_tests(tests, terminal_make_store, terminal_drop_store);
}
