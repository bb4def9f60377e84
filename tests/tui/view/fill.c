/* See fill.h. */
#include "tests/tui/view/fill.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static void must(enum status status, const struct err *err)
{
    if (status) fail_msg("%s", err->text);
}

double fill_loss(int64_t step)
{
    float noise = philox_uniform(philox4x32_10((uint32_t)step, 0, 0, 0, 7, 7).word[0]);
    return 2.1 + 5.6 * exp(-(double)step / 90) + 0.8 * exp(-(double)step / 900) +
           0.12 * ((double)noise - 0.5);
}

static void write_step(struct fill_run *run, const struct fill *fill, int64_t step)
{
    float noise = philox_uniform(philox4x32_10((uint32_t)step, 1, 0, 0, 7, 7).word[0]);
    double progress = (double)step / (double)fill->total_steps;
    struct step_record record = {
        .step = step,
        .epoch = (double)step * 0.0037,
        .tokens = (step + 1) * 4096,
        .wall_time = run->start + (double)step * 0.33,
        .step_ms = 320 + 20 * (double)noise,
        .loss = step == fill->spike_step ? fill->spike : fill_loss(step),
        .lr = step < 100 ? 3e-4 * (double)(step + 1) / 100 : 3e-5 + 1.35e-4 * (1 + cos(M_PI * progress)),
        .grad_norm = 0.6 + 2.5 * exp(-(double)step / 60) + 0.3 * (double)noise,
        .clip_scale = 1,
        .tokens_per_sec = 4096 / (0.320 + 0.020 * (double)noise),
        .mfu = 0.41,
    };
    writer_step(run->writer, &record);
}

static void write_eval(struct fill_run *run, const struct fill *fill, int64_t step)
{
    double loss = fill_loss(step) + 0.15 +
                  (step > fill->total_steps / 2 ? 0.0004 * (double)(step - fill->total_steps / 2) : 0);
    bool improved = loss < run->best;
    if (improved) {
        run->best = loss;
        run->best_step = step;
        run->waited = 0;
    } else {
        run->waited++;
    }
    struct eval_record eval = {step, (step + 1) * 4096, run->start + (double)step * 0.33,
                               loss, exp(loss),         410};
    writer_eval(run->writer, &eval);
    struct stopping_record stopping = {.step = step,
                                       .val_loss = loss,
                                       .best_val_loss = run->best,
                                       .best_step = run->best_step,
                                       .improved = improved,
                                       .patience_used = run->waited,
                                       .patience = fill->patience,
                                       .verdict = improved ? VERDICT_IMPROVED : VERDICT_WAITING};
    writer_stopping(run->writer, &stopping);
}

static void write_range(struct fill_run *run, const struct fill *fill, int64_t from, int64_t to)
{
    struct err err = {0};
    for (int64_t step = from; step < to; step++) {
        write_step(run, fill, step);
        if (fill->eval_every && step > 0 && step % fill->eval_every == 0) write_eval(run, fill, step);
        if (step % 256 == 255) must(writer_flush(run->writer, 60, &err), &err);
    }
    must(writer_flush(run->writer, 60, &err), &err);
}

void fill_steps(struct fill_run *run, const struct fill *fill, int64_t from, int64_t to)
{
    write_range(run, fill, from, to);
}

void fill_checkpoint(const char *home, const char *run_id, int64_t step)
{
    char path[1200];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/runs/%s/checkpoints/step-%" PRId64, home, run_id, step);
    must(file_make_folders(path, &err), &err);
}

void fill_run(const char *home, const struct fill *fill, struct fill_run *out)
{
    struct err err = {0};
    struct store *store;
    memset(out, 0, sizeof *out);
    out->best = INFINITY;
    out->best_step = -1;
    must(store_open(home, STORE_WRITE, &store, &err), &err);
    struct run_new new = {
        .name = fill->name,
        .device = "cpu",
        .precision = "fp32",
        .parameters = 10813696,
        .total_steps = fill->total_steps,
        .config = "[model]\npreset = shakespeare\n[data]\ntrain = kjv\nval_fraction = 0.1\ntokenizer = "
                  "bpe:2048\n[train]\nbatch_size = 16\nseq_len = 256\nlearning_rate = 3e-4\n"
                  "optimizer = adamw\nschedule = cosine\n"};
    must(run_create(store, &new, out->id, &err), &err);
    must(run_lock_acquire(store, out->id, &out->lock, &err), &err);
    store_close(store);
    out->start = clock_wall() - (double)fill->steps * 0.33;
    struct writer_options options = {.home = home, .run_id = out->id};
    must(writer_open(&options, &out->writer, &err), &err);
    write_range(out, fill, 0, fill->steps);
    if (fill->steps > 0) {
        struct sample_record older = {fill->steps / 2, "In the beginning",
                                      " was the word of the man, and the man said unto him"};
        writer_sample(out->writer, &older);
        struct sample_record sample = {
            fill->steps - 1, "In the beginning",
            " of the house of the LORD, and the king of Israel said unto him, Go up to the mountain; for the "
            "day is come.\n"
            "And it came to pass, when the men of the city had heard these words, that they rose up early "
            "and went "
            "forth \xC3\xA0 la ville \xE2\x80\x94 and there was none that answered."};
        writer_sample(out->writer, &sample);
        fill_checkpoint(home, out->id, fill->steps - 1);
        char path[64];
        snprintf(path, sizeof path, "checkpoints/step-%" PRId64, fill->steps - 1);
        struct checkpoint_record checkpoint = {fill->steps - 1, clock_wall(), path, "periodic", 43254784};
        writer_checkpoint(out->writer, &checkpoint);
        struct event_record spike = {fill->spike_step, clock_wall(), "warning", "the loss rose", false};
        if (fill->spike_step >= 0) writer_event(out->writer, &spike);
        struct event_record event = {fill->steps - 1, clock_wall(), "info", "checkpoint written to step-last",
                                     false};
        writer_event(out->writer, &event);
    }
    must(writer_flush(out->writer, 60, &err), &err);
    if (!fill->keep_alive) fill_end(out, fill->status, fill->message);
}

void fill_end(struct fill_run *run, enum run_status status, const char *message)
{
    struct err err = {0};
    if (!run->writer) return;
    must(writer_close(run->writer, status, message ? message : "", &err), &err);
    run->writer = NULL;
    run_lock_release(&run->lock);
}

void fill_five_hundred(const char *name, char *home, size_t size)
{
    struct fill_run run;
    store_fixture_home(name, home, size);
    fill_run(home,
             &(struct fill){.name = "ended",
                            .steps = 481,
                            .total_steps = 481,
                            .eval_every = 50,
                            .patience = 3,
                            .spike_step = 240,
                            .spike = 12,
                            .status = RUN_FINISHED},
             &run);
}

static void quiet_close(void *kept_quiet)
{
    struct fill_quiet *quiet = kept_quiet;
    run_lock_release(&quiet->lock);
    store_close(quiet->store);
    free(quiet);
}

struct fill_quiet *fill_quiet(const char *name)
{
    static const struct fill ended = {
        .name = "mortal", .steps = 20, .total_steps = 200, .spike_step = -1, .status = RUN_FINISHED};
    struct fill_quiet *quiet = calloc(1, sizeof *quiet);
    struct fill_run run;
    struct err err = {0};
    char sql[256];
    assert_non_null(quiet);
    store_fixture_home(name, quiet->home, sizeof quiet->home);
    fill_run(quiet->home, &ended, &run);
    quiet->now = (double)(int64_t)clock_wall();
    snprintf(sql, sizeof sql, "update runs set status = 'running', ended_at = null, heartbeat = %.0f",
             quiet->now);
    store_fixture_sql(quiet->home, sql);
    quiet->store = store_fixture_open(quiet->home);
    assert_int_equal(run_lock_acquire(quiet->store, run.id, &quiet->lock, &err), STATUS_OK);
    return kept(quiet, quiet_close);
}

void fill_thirty(const char *name, char *home, size_t size)
{
    char id[RUN_ID_MAX];
    store_fixture_home(name, home, size);
    store_fixture_run(home, "first", id);
    store_fixture_sql(home,
                      "with recursive n(i) as (select 0 union all select i + 1 from n where i < 29)"
                      " insert into runs(id, name, status, created_at, ended_at, device, steps, total_steps)"
                      " select printf('id-%02d', i), printf('run-%02d', i), 'finished', 1e9 - i * 100,"
                      " 1e9 - i * 100 + 50, 'cpu', 10, 20 from n;"
                      "delete from runs where name = 'first'");
}
