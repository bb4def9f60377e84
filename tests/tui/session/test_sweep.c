/* What a sweep decides and remembers: its rungs, its file, which runs are its own, and which go on. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/stage.h"
#include "tui/session/sweep.h"

TEST_CASE(rungs_are_evaluations_and_leave_one_run_at_the_end)
{
    static const struct {
        int runs, factor;
        int64_t every, total;
        const char *rungs;
    } cases[] = {
        {6, 2, 10, 80, "10 20 40 80"},
        {9, 3, 1, 90, "10 30 90"},
        {6, 2, 30, 80, "30 60 80"},                        /* two of them would be at 30 */
        {1000, 2, 1, 1024, "8 16 32 64 128 256 512 1024"}, /* there is room for 8 */
        {1, 2, 10, 80, "80"},
        {6, 1, 10, 80, "80"},
        {6, 2, 0, 80, "80"}, /* nothing is evaluated */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t rungs[SWEEP_RUNGS_MAX + 8];
        char text[200] = "";
        int count = sweep_choose_rungs(cases[i].runs, cases[i].factor, cases[i].every, cases[i].total, rungs);
        for (int r = 0; r < count; r++) sprintf(text + strlen(text), "%s%d", r ? " " : "", (int)rungs[r]);
        assert_string_equal(text, cases[i].rungs);
    }
}

/* ---- the file ---- */

/* Writes the file of the sweep "d", with "..." replaced by `count` runs, and reads it. */
static enum status read_text(const struct stage *s, const char *text, int count, struct sweep *sweep,
                             struct err *err)
{
    char *folder = kept_format("%s/sweeps/d", s->home), *path = kept_format("%s/sweep.ini", folder);
    const char *runs = strstr(text, "...");
    assert_int_equal(file_make_folders(folder, NULL), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s", (int)(runs ? runs - text : (long)strlen(text)), text);
    for (int i = 1; i <= count; i++) fprintf(file, "[run %d]\nrungs = 9\na = %d\n", i, i);
    if (runs) fputs(runs + 3, file);
    assert_int_equal(fclose(file), 0);
    return sweep_read(sweep, "d", err);
}

STAGE_CASE(a_sweep_that_is_written_is_read_as_it_was, struct stage *s)
{
    struct err err = {0};
    struct sweep back, sweep = {.factor = 2,
                                .ranks = 3,
                                .jobs = 64,
                                .device = "cuda:1",
                                .key_count = 2,
                                .run_count = 2,
                                .rung_count = 2,
                                .keys = {"train.seed", "data.train"}};
    struct sweep_run runs[] = {{.values = {"1", "a = b"}, .rungs = {10, 20}},
                               {.values = {"2", ""}, .rungs = {5, 20}}};
    char one[] = "[train]\n", *configs[] = {one, one};
    sweep.runs = runs;
    assert_int_equal(sweep_name(&sweep, "both", &err), STATUS_OK);
    assert_int_equal(sweep_write(&sweep, configs, &err), STATUS_OK);
    assert_string_equal(stage_read(kept_format("%s/sweeps/both/run-2.ini", s->home)), "[train]\n");
    assert_int_equal(sweep_read(&back, "both", &err), STATUS_OK);
    assert_int_equal(back.factor, 2);
    assert_int_equal(back.ranks, 3);
    assert_int_equal(back.jobs, 64);
    assert_string_equal(back.device, "cuda:1");
    assert_int_equal(back.rung_count, 2);
    assert_int_equal(back.runs[1].rungs[0], 5);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) assert_string_equal(back.runs[i].values[k], runs[i].values[k]);
    sweep_release(&back);
    assert_int_equal(sweep_write(&sweep, configs, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "there is a sweep both already"));
}

/* A link that leads nowhere is in the way of the folder; and there is no room for a configuration. */
STAGE_CASE(a_sweep_that_cannot_be_written_leaves_nothing, struct stage *s)
{
    struct err err = {0};
    struct sweep_run runs[] = {{.values = {"1"}, .rungs = {10}}};
    struct sweep sweep = {.factor = 2,
                          .device = "cpu",
                          .key_count = 1,
                          .run_count = 1,
                          .rung_count = 1,
                          .keys = {"train.seed"},
                          .runs = runs};
    char long_text[4000], *configs[] = {long_text};
    struct rlimit before, small;
    memset(long_text, '#', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    assert_int_equal(sweep_name(&sweep, "a", &err), STATUS_OK);
    assert_int_equal(file_make_folders(kept_format("%s/sweeps", s->home), NULL), 0);
    assert_int_equal(symlink("nowhere", sweep.folder), 0);
    assert_int_equal(sweep_write(&sweep, configs, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "cannot rename to "));
    assert_int_equal(unlink(sweep.folder), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){1000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status status = sweep_write(&sweep, configs, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.text, "run-1.ini"));
    assert_int_equal(rmdir(kept_format("%s/sweeps", s->home)), 0);
}

STAGE_CASE(a_damaged_sweep_is_refused_with_its_line, struct stage *s)
{
#define HEAD "[sweep]\nfactor = 2\ndevice = cpu\nkeys = a\n"
    static const struct {
        const char *text;
        int runs;
        const char *sentence; /* NULL: it is whole */
    } cases[] = {
        {HEAD "...", 1, NULL},
        {HEAD "...", SWEEP_RUNS_MAX, NULL},
        {HEAD "...", SWEEP_RUNS_MAX + 1, "sweep.ini:3005: the runs must be numbered"},
        {"[sweep]\nfactor = 2\nranks = 1\njobs = 64\ndevice = cpu\nkeys =  a \n\n...\n", 2, NULL},
        {"", 0, "the file ends too early"},
        {HEAD, 0, "the file ends too early"},
        {HEAD "[run 1]\na = 1\n", 0, "the file ends too early"},
        {HEAD "[run 1]\nrungs = 9\n", 0, "the file ends too early"},
        {HEAD "...[run 2]\na = 1\n", 1, "the file ends too early"},
        {"[sweep]\nfactor = 2\nkeys = a\n...", 1, "the file ends too early"},
        {"[sweep]\ndevice = cpu\nkeys = a\n...", 1, "the file ends too early"},
        {"[sweep]\nfactor = 0\n", 0, "sweep.ini:2: factor, ranks and jobs must be"},
        {"[sweep]\nfactor = 1001\n", 0, "sweep.ini:2: factor, ranks and jobs must be"},
        {"[sweep]\nranks = -1\n", 0, "sweep.ini:2: factor, ranks and jobs must be"},
        {"[sweep]\njobs = 65\n", 0, "sweep.ini:2: factor, ranks and jobs must be"},
        {"[sweep]\njobs = 4 \n", 0, "sweep.ini:2: factor, ranks and jobs must be"},
        {"[sweep]\ndevice = a_device_of_more_than_31_letters\n", 0, "sweep.ini:2: device is too long"},
        {"[sweep]\nrungs = 5\n", 0, "sweep.ini:2: this is no line of a sweep"},
        {HEAD "...[sweep]\n", 1, "sweep.ini:8: this is no line of a sweep"},
        {HEAD "...b = 1\n", 1, "sweep.ini:8: this is no line of a sweep"},
        {HEAD "...factor = 2\n", 1, "sweep.ini:8: this is no line of a sweep"},
        {"[run 1]\n", 0, "sweep.ini:1: the runs must be numbered"},
        {HEAD "[run 2]\n", 0, "sweep.ini:5: the runs must be numbered"},
        {HEAD "[run 1]\nrungs = 9 8\n", 0, "sweep.ini:6: rungs must be rising"},
        {HEAD "[run 1]\nrungs = 8 8\n", 0, "sweep.ini:6: rungs must be rising"},
        {HEAD "[run 1]\nrungs = 0\n", 0, "sweep.ini:6: rungs must be rising"},
        {HEAD "[run 1]\nrungs = 9x\n", 0, "sweep.ini:6: rungs must be rising"},
        {HEAD "[run 1]\nrungs = 1 2 3 4 5 6 7 8 9\n", 0, "sweep.ini:6: rungs must be rising"},
        {HEAD "...[run 2]\nrungs = 8 9\n", 1, "sweep.ini:9: every run must have the same number of rungs"},
        {"[sweep]\nkeys = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", 0, "sweep.ini:2: there are too many"},
        {"\xff\x1b[2J\n", 0, "sweep.ini:1: this is no line of a sweep"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sweep sweep;
        struct err err = {0};
        enum status status = read_text(s, cases[i].text, cases[i].runs, &sweep, &err);
        bool as_expected = cases[i].sentence ? status == STATUS_CORRUPT && strstr(err.text, cases[i].sentence)
                                             : !status && sweep.run_count == cases[i].runs;
        if (!as_expected) fail_msg("case %zu: %d, %s", i, status, err.text);
        if (!status)
            assert_string_equal(sweep.runs[sweep.run_count - 1].values[0], kept_format("%d", cases[i].runs));
        sweep_release(&sweep);
    }
}

/* By name, a file that is a folder, and a zero in the text. */
STAGE_CASE(a_sweep_that_is_none_is_refused, struct stage *s)
{
    static const struct {
        const char *name;
        enum status status;
        const char *sentence;
    } cases[] = {
        {"../d", STATUS_USAGE, "is no name of a sweep"},
        {"a-name-of-more-than-thirty-one-bytes", STATUS_USAGE, "is no name of a sweep"},
        {"none", STATUS_NOT_FOUND, "none: there is no such sweep"},
        {"folder", STATUS_USAGE, "folder/sweep.ini: is a folder"},
        {"zero", STATUS_CORRUPT, "sweep.ini:0: this is no text"},
    };
    assert_int_equal(file_make_folders(kept_format("%s/sweeps/folder/sweep.ini", s->home), NULL), 0);
    assert_int_equal(file_make_folders(kept_format("%s/sweeps/zero", s->home), NULL), 0);
    stage_write(kept_format("%s/sweeps/zero/sweep.ini", s->home), "[sweep]\n\0\n", 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sweep sweep;
        struct err err = {0};
        enum status status = sweep_read(&sweep, cases[i].name, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].sentence))
            fail_msg("%s: %d, %s", cases[i].name, status, err.text);
        sweep_release(&sweep);
    }
}

/* ---- its runs ---- */

/* A run of this name with the sweep's tag and an evaluation at each of the steps, whose loss is the step's
 * inverse. */
static void add_run(const struct stage *s, const char *name, const char *tags, const char *steps,
                    enum run_status status)
{
    char id[RUN_ID_MAX];
    struct err err = {0};
    struct run_new run = {.name = name,
                          .device = "cpu",
                          .precision = "fp32",
                          .total_steps = 40,
                          .config = "[train]\n",
                          .tags = tags};
    struct store *store = store_fixture_open(s->home);
    if (run_create(store, &run, id, &err)) fail_msg("%s", err.text);
    store_close(store);
    struct writer *writer = store_fixture_writer(s->home, id);
    char *end;
    for (int64_t done = 0, step; (step = strtoll(steps, &end, 10)); steps = end) {
        for (; done < step; done++) {
            struct step_record record = store_fixture_step(done, 0);
            writer_step(writer, &record);
        }
        writer_eval(writer, &(struct eval_record){step, 0, 1.7e9, 1. / (double)step, 1, 1});
    }
    assert_int_equal(writer_close(writer, status, NULL, &err), STATUS_OK);
}

STAGE_CASE(runs_of_a_sweep_are_those_with_its_tag_name_and_a_number, struct stage *s)
{
    static const struct {
        const char *name, *tag;
        int number; /* 0: none of the sweep's */
    } runs[] = {
        {"lr-1", "sweep:lr", 1},    {"lr-1", "sweep:lr", 1},     {"lr-2", "sweep:other", 0},
        {"lr-3x", "sweep:lr", 0},   {"lr-0", "sweep:lr", 0},     {"ab-4", "sweep:lr", 0},
        {"lrx5", "sweep:lr", 0},    {"lr", "sweep:lr", 0},       {"lr-1000", "sweep:lr", 1000},
        {"lr-1001", "sweep:lr", 0}, {"lr-6", "a,sweep:lr,z", 6},
    };
    struct sweep sweep;
    struct err err = {0};
    const char *text = "[sweep]\nfactor = 2\ndevice = cpu\nkeys = a\n...";
    assert_int_equal(read_text(s, text, SWEEP_RUNS_MAX, &sweep, &err), STATUS_OK);
    strcpy(sweep.name, "lr");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        add_run(s, runs[i].name, runs[i].tag, i == 1 ? "2" : "1", RUN_STOPPED);
    struct store *store = store_fixture_open(s->home);
    kept(store, (void (*)(void *))store_close);
    assert_int_equal(sweep_look(&sweep, store, &err), STATUS_OK);
    for (int i = 0; i < sweep.run_count; i++) {
        bool own = false;
        for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) own = own || runs[k].number == i + 1;
        if (own != sweep.runs[i].begun) fail_msg("run %d: %d", i + 1, sweep.runs[i].begun);
    }
    assert_int_equal(sweep.runs[0].info.steps, 1); /* the older of the two */
    sweep_release(&sweep);
}

/* A run that has stopped early is judged by its last value at all later rungs, a failed one is not. */
STAGE_CASE(the_value_at_a_rung_is_that_of_the_last_evaluation_before_it, struct stage *s)
{
    static const struct {
        const char *evaluations;
        enum run_status status;
        double values[3]; /* at 10, 20 and 40 */
    } runs[] = {
        {"10 20 40", RUN_FINISHED, {.1, .05, .025}},
        {"10 15", RUN_EARLY_STOPPED, {.1, 1. / 15, 1. / 15}},
        {"10 15", RUN_FAILED, {.1, NAN, NAN}},
        {"5 10", RUN_STOPPED, {.1, NAN, NAN}},
    };
    struct sweep sweep = {.name = "v", .factor = 2, .run_count = 4, .rung_count = 3};
    struct sweep_run all[4] = {0};
    struct err err = {0};
    sweep.runs = all;
    for (int i = 0; i < 4; i++) {
        memcpy(all[i].rungs, (int64_t[]){10, 20, 40}, 3 * sizeof(int64_t));
        add_run(s, kept_format("v-%d", i + 1), "sweep:v", runs[i].evaluations, runs[i].status);
    }
    struct store *store = store_fixture_open(s->home);
    kept(store, (void (*)(void *))store_close);
    assert_int_equal(sweep_look(&sweep, store, &err), STATUS_OK);
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < 3; r++) {
            double value = all[i].value[r], expected = runs[i].values[r];
            if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) < 1e-6))
                fail_msg("run %d, rung %d: %g", i + 1, r + 1, value);
        }
}

TEST_CASE(a_run_is_done_with_its_rung_when_it_cannot_go_on_or_has_reached_it)
{
    static const struct {
        struct sweep_run run;
        bool done;
    } cases[] = {
        {{.begun = false}, false},
        {{.left = true}, true},
        {{.given_up = true}, true},
        {{.begun = true, .given_up = true, .info = {.status = RUN_CRASHED}}, true},
        {{.begun = true, .left = true, .info = {.status = RUN_STOPPED}}, true},
        {{.begun = true, .info = {.status = RUN_RUNNING, .steps = 10}}, false},
        {{.begun = true, .info = {.status = RUN_RUNNING, .steps = 11}}, true},
        {{.begun = true, .info = {.status = RUN_STOPPED, .steps = 10}}, true},
        {{.begun = true, .info = {.status = RUN_STOPPED, .steps = 9}}, false},
        {{.begun = true, .info = {.status = RUN_CRASHED, .steps = 10}}, false},
        {{.begun = true, .info = {.status = RUN_FAILED, .steps = 3}}, true},
        {{.begun = true, .info = {.status = RUN_EARLY_STOPPED, .steps = 3}}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sweep_run run = cases[i].run;
        run.rungs[0] = 10;
        if (sweep_run_done(&run) != cases[i].done) fail_msg("case %zu", i);
    }
}

TEST_CASE(the_best_runs_come_first_and_equal_ones_stay_in_their_order)
{
    static const struct {
        const char *measure;
        struct {
            int rung;
            double before, value; /* at the rung before it, and at it */
        } runs[5];
        int order[5];
    } cases[] = {
        {"val_loss", {{0, 0, 2}, {0, 0, 1}, {0, 0, 2}, {0, 0, 1}, {0, 0, NAN}}, {1, 3, 0, 2, 4}},
        {"accuracy", {{0, 0, .2}, {0, 0, .1}, {0, 0, .2}, {0, 0, NAN}, {0, 0, .1}}, {0, 2, 1, 4, 3}},
        {"val_loss", {{0, 0, 1}, {1, 1, 9}, {1, 1, 8}, {0, 0, 2}, {1, 1, NAN}}, {2, 1, 4, 0, 3}},
        {"val_loss", {{1, 3, NAN}, {1, 1, NAN}, {1, 2, NAN}, {0, 0, NAN}, {0, 0, NAN}}, {1, 2, 0, 3, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sweep_run runs[5] = {0};
        struct sweep sweep = {.run_count = 5, .rung_count = 2, .runs = runs};
        int order[5];
        strcpy(sweep.measure, cases[i].measure);
        for (int k = 0; k < 5; k++) {
            runs[k].rung = cases[i].runs[k].rung;
            runs[k].value[0] = cases[i].runs[k].before;
            runs[k].value[runs[k].rung] = cases[i].runs[k].value;
        }
        sweep_sort(&sweep, order);
        for (int k = 0; k < 5; k++)
            if (order[k] != cases[i].order[k]) fail_msg("case %zu, place %d: %d", i, k, order[k]);
    }
}

TEST_MAIN()
