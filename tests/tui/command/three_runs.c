/* See three_runs.h. */
#include "tests/tui/command/three_runs.h"

#include <math.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

void three_runs_home(const char *name, char home[PATH_MAX])
{
    store_fixture_home(name, home, PATH_MAX);
    setenv("ANNEAL_HOME", home, 1);
    unsetenv("COLUMNS");
}

void three_runs_add(const char *home, const char *name, const char *config, double loss, double val_loss,
                    double tokens_per_sec, int64_t bytes, char id[RUN_ID_MAX])
{
    struct err err = {0};
    struct store *store = store_fixture_open(home);
    struct run_new run = {
        .name = name, .device = "cpu", .precision = "fp32", .total_steps = 100, .config = config};
    if (run_create(store, &run, id, &err)) fail_msg("%s", err.text);
    store_close(store);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t s = 0; s < 100; s++) {
        struct step_record step = store_fixture_step(s, 0);
        step.loss = loss;
        step.tokens_per_sec = tokens_per_sec;
        writer_step(writer, &step);
    }
    writer_eval(writer, &(struct eval_record){100, 0, 1.7e9, val_loss, exp(val_loss), 1});
    writer_memory(writer, &(struct memory_record){0, "weights", bytes, bytes, bytes});
    writer_memory(writer, &(struct memory_record){50, "weights", bytes, bytes, bytes / 2});
    writer_memory(writer, &(struct memory_record){0, "moments", 24, 24, 24});
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

void three_runs_make(const char *home, char ids[3][RUN_ID_MAX])
{
    three_runs_add(home, "base", "[train]\nlearning_rate = 3e-4\nbatch_size = 16\n[data]\ntrain = kjv\n", 3,
                   3.5, 1000, 1000, ids[0]);
    three_runs_add(home, "fast", "[train]\nlearning_rate = 0.001\nbatch_size = 16\n[data]\ntrain = kjv\n",
                   2.5, 3.25, 2000, 1000, ids[1]);
    three_runs_add(home, "odd",
                   "[train]\nlearning_rate = 0.0003\nbatch_size = 16\n[data]\ntrain = a text\x1B[2J,"
                   " with a long name that goes on\n",
                   NAN, NAN, 500, 3000, ids[2]);
}
