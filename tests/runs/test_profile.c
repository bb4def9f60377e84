/* The profile as it is read from the store: averaged over the steps that count, in the order of a step. */
#include <limits.h>
#include <math.h>

#include "runs/profile.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

static void write_row(struct writer *writer, int64_t step, const char *phase, int layer, const char *op,
                      int64_t calls, double time_us, int64_t bytes, int64_t flops)
{
    struct profile_record record = {step, phase, layer, op, calls, time_us, bytes, flops};
    writer_profile(writer, &record);
}

/* Steps first..last, and what the profile of each is, times `factor`. */
static void record(const char *home, const char *id, int64_t first, int64_t last, double factor)
{
    struct err err = {0};
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t step = first; step <= last; step++) {
        struct step_record made = store_fixture_step(step, 0);
        writer_step(writer, &made);
        write_row(writer, step, "unattributed", -1, "unattributed", 1, 5 * factor, 0, 0);
        write_row(writer, step, "optimizer", -1, "adamw", 1, 100 * factor, 28000, 12000);
        for (int layer = 0; layer < 2; layer++) {
            write_row(writer, step, "backward", layer, "attention", 4, (60 + layer) * factor, 2000, 5000);
            write_row(writer, step, "forward", layer, "gemm down", 4, 40 * factor, 1000, 80000);
            write_row(writer, step, "forward", layer, "attention", 4, (10 + layer) * factor, 1000, 2000);
        }
        write_row(writer, step, "data", -1, "upload", 4, 1 * factor, 64, 0);
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
}

static void read_profile(const char *home, const char *id, bool layers, struct profile *out)
{
    struct err err = {0};
    struct store *store = store_fixture_open(home);
    if (profile_read(store, id, layers, out, &err)) fail_msg("%s", err.text);
    store_close(store);
}

static void row_is(const struct profile *profile, size_t index, const char *phase, int layer, const char *op,
                   double calls, double time_us)
{
    assert_true(index < profile->count);
    const struct profile_row *row = &profile->rows[index];
    assert_string_equal(row->phase, phase);
    assert_int_equal(row->layer, layer);
    assert_string_equal(row->op, op);
    assert_true(row->calls == calls);
    assert_true(fabs(row->time_us - time_us) < 1e-9);
}

TEST_CASE(what_the_trainer_recorded_comes_back_in_the_order_of_a_step)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    store_fixture_home("profile", home, sizeof home);
    store_fixture_run(home, "profiled", id);
    record(home, id, 0, 2, 1);

    read_profile(home, id, true, &profile);
    assert_int_equal(profile.count, 9);
    row_is(&profile, 0, "data", -1, "upload", 4, 1);
    row_is(&profile, 1, "forward", 0, "gemm down", 4, 40);
    row_is(&profile, 2, "forward", 0, "attention", 4, 10);
    row_is(&profile, 3, "forward", 1, "gemm down", 4, 40);
    row_is(&profile, 4, "forward", 1, "attention", 4, 11);
    row_is(&profile, 5, "backward", 0, "attention", 4, 60);
    row_is(&profile, 6, "backward", 1, "attention", 4, 61);
    row_is(&profile, 7, "optimizer", -1, "adamw", 1, 100);
    row_is(&profile, 8, "unattributed", -1, "unattributed", 1, 5);
    assert_int_equal(profile.steps, 3);
    assert_int_equal(profile.last_step, 2);
    assert_true(fabs(profile.step_us - 328) < 1e-9);
    assert_true(fabs(profile_rate(profile.rows[7].bytes, profile.rows[7].time_us) - 0.28) < 1e-12);
    assert_true(fabs(profile_rate(profile.rows[7].flops, profile.rows[7].time_us) - 0.12) < 1e-12);
    assert_true(profile_rate(profile.rows[8].flops, profile.rows[8].time_us) == 0);
    assert_true(isnan(profile_rate(1, 0)));
    profile_release(&profile);
}

TEST_CASE(without_layers_an_operation_of_a_phase_is_one_row)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    store_fixture_home("collapsed", home, sizeof home);
    store_fixture_run(home, "profiled", id);
    record(home, id, 0, 0, 1);

    read_profile(home, id, false, &profile);
    assert_int_equal(profile.count, 6);
    row_is(&profile, 1, "forward", -1, "gemm down", 8, 80);
    row_is(&profile, 2, "forward", -1, "attention", 8, 21);
    row_is(&profile, 3, "backward", -1, "attention", 8, 121);
    assert_true(profile.rows[3].bytes == 4000 && profile.rows[3].flops == 10000);
    assert_true(fabs(profile.step_us - 328) < 1e-9);
    profile_release(&profile);
}

TEST_CASE(of_a_resumed_run_the_steps_since_then_are_averaged)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    store_fixture_home("replaced", home, sizeof home);
    store_fixture_run(home, "profiled", id);
    record(home, id, 0, 3, 1);
    record(home, id, 2, 3, 4); /* the device may be another one */

    read_profile(home, id, false, &profile);
    assert_int_equal(profile.steps, 2);
    assert_int_equal(profile.last_step, 3);
    row_is(&profile, 4, "optimizer", -1, "adamw", 1, 400);
    profile_release(&profile);
}

TEST_CASE(of_a_long_run_the_newest_steps_are_averaged)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    store_fixture_home("long", home, sizeof home);
    store_fixture_run(home, "long", id);
    record(home, id, 0, 9, 1000);
    record(home, id, 10, 9 + PROFILE_STEPS_MAX, 2);
    read_profile(home, id, false, &profile);
    assert_int_equal(profile.steps, PROFILE_STEPS_MAX);
    assert_int_equal(profile.last_step, 9 + PROFILE_STEPS_MAX);
    row_is(&profile, 4, "optimizer", -1, "adamw", 1, 200);
    profile_release(&profile);
}

TEST_CASE(a_run_without_a_profiled_step_has_no_rows)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    store_fixture_home("none", home, sizeof home);
    store_fixture_run(home, "plain", id);
    read_profile(home, id, true, &profile);
    assert_int_equal(profile.count, 0);
    assert_int_equal(profile.steps, 0);
    assert_int_equal(profile.last_step, -1);
    assert_true(profile.step_us == 0);
    profile_release(&profile);
}

TEST_CASE(an_imported_profile_may_not_know_its_rates)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    store_fixture_home("imported", home, sizeof home);
    store_fixture_run(home, "imported", id);
    record(home, id, 0, 0, 1);
    store_fixture_sql(home, "update layer_profile set bytes = null, flops = null where op = 'adamw'");
    read_profile(home, id, false, &profile);
    row_is(&profile, 4, "optimizer", -1, "adamw", 1, 100);
    assert_true(isnan(profile_rate(profile.rows[4].bytes, profile.rows[4].time_us)));
    assert_true(isnan(profile_rate(profile.rows[4].flops, profile.rows[4].time_us)));
    profile_release(&profile);
}

TEST_CASE(each_row_knows_its_time_in_the_first_profile)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct profile profile = {0};
    struct err err = {0};
    store_fixture_home("first", home, sizeof home);
    store_fixture_run(home, "slower", id);
    record(home, id, 0, PROFILE_FIRST_STEPS - 1, 1);
    for (int more = 0; more < 2; more++) {
        if (more) record(home, id, PROFILE_FIRST_STEPS, 3 * PROFILE_FIRST_STEPS - 1, 4);
        for (int layers = 0; layers < 2; layers++) {
            read_profile(home, id, layers, &profile);
            struct store *store = store_fixture_open(home);
            assert_int_equal(profile_read_first(store, id, layers, &profile, &err), STATUS_OK);
            store_close(store);
            for (size_t i = 0; i < profile.count; i++) {
                const struct profile_row *row = &profile.rows[i];
                if (!more) assert_true(row->first_us == 0); /* it is the first profile itself */
                if (more) assert_true(fabs(row->time_us / row->first_us - 4) < 1e-9);
            }
        }
    }
    profile_release(&profile);
}

TEST_MAIN()
