/* Logs of TensorBoard in several folders: the parts of one run, as Keras, PyTorch and tensorboardX make them,
 * and those of other runs. */
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/exchange/export.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/exchange/exchange_fixture.h"

#define LOGS   "tests/fixtures/logs/"
#define EVENTS "/events.out.tfevents.1"

static void put_as(const char *home, const char *folder, const char *file, const char *log)
{
    char name[EXCHANGE_PATH_MAX], path[EXCHANGE_PATH_MAX];
    size_t size;
    char *bytes = store_fixture_slurp(log, &size);
    snprintf(name, sizeof name, "%s%s", folder, file);
    exchange_write(home, name, bytes, size, path);
    free(bytes);
}

/* Copies a log to a folder below `home`. */
static void put(const char *home, const char *folder, const char *log)
{
    put_as(home, folder, EVENTS, log);
}

/* Imports up to two paths below `home` as a run called `name`. */
static enum status take(const char *home, const char *first, const char *second, const char *name,
                        struct err *err)
{
    char path[2][EXCHANGE_PATH_MAX];
    const char *paths[] = {path[0], path[1]};
    struct import_outcome made;
    struct store *store = store_fixture_open(home);
    snprintf(path[0], sizeof path[0], "%s/%s", home, first);
    snprintf(path[1], sizeof path[1], "%s/%s", home, second ? second : "");
    enum status status = import_files(store, paths, second ? 2 : 1, name, &made, err);
    if (!status && !name) assert_string_equal(made.name, "keras");
    store_close(store);
    return status;
}

static void expect(const char *home, const char *sql, const char *want)
{
    char *got = store_fixture_text(home, sql);
    if (strcmp(got, want) != 0) fail_msg("%s gives:\n%s\nnot:\n%s", sql, got, want);
    free(got);
}

#define LOSSES   "select group_concat(step || ' ' || loss) from steps"
#define VALUES   "select group_concat(step || ' ' || val_loss) from evals"
#define MEASURES "select name, group_concat(value) from measures group by name order by name"

/* The tags of both are train/loss, loss and Loss, of which the last comes first by its bytes. */
TEST_CASE(folders_for_training_and_validation_are_parts_of_a_run)
{
    static const char *const paths[][2] = {{"keras", NULL},
                                           {"keras/train", "keras/validation"},
                                           {"keras/validation" EVENTS, "keras/train" EVENTS}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char home[PATH_MAX];
        struct err err = {0};
        store_fixture_home("parts", home, sizeof home);
        put(home, "keras/train", LOGS "two_losses.tfevents");
        put(home, "keras/validation", LOGS "two_losses.tfevents");
        if (take(home, paths[i][0], paths[i][1], NULL, &err)) fail_msg("%s", err.text);
        expect(home, LOSSES, "0 0.0,1 1.0,2 2.0");
        expect(home, VALUES, "0 0.0,1 1.0,2 2.0");
        expect(home, MEASURES,
               "train_loss|9.0,8.75,8.5\ntrain_train_loss|3.0,2.75,2.5\n"
               "validation_loss|9.0,8.75,8.5\nvalidation_train_loss|3.0,2.75,2.5");
        expect(home, "select count(*), min(segment), max(segment) from segments", "1|1|1");
    }
}

TEST_CASE(the_names_of_keras_are_known)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("names", home, sizeof home);
    put(home, "keras/train", LOGS "keras.tfevents");
    put(home, "keras/validation", LOGS "keras.tfevents");
    if (take(home, "keras", NULL, NULL, &err)) fail_msg("%s", err.text);
    expect(home, "select group_concat(step || ' ' || loss || ' ' || lr) from steps", "0 3.0 0.5,1 2.0 0.5");
    expect(home, VALUES, "0 3.0,1 2.0");
}

/* add_scalars makes a folder for each curve, in which all have one tag. */
TEST_CASE(folders_beside_event_files_are_read_with_their_names)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("curves", home, sizeof home);
    put(home, "run", LOGS "measures.tfevents");
    put(home, "run/train/loss/val", LOGS "two_losses.tfevents");
    put(home, "run/checkpoints/deep", LOGS "measures.tfevents");
    if (take(home, "run", NULL, "run", &err)) fail_msg("%s", err.text);
    expect(
        home, MEASURES,
        "checkpoints_deep_reward_best|0.0,1.0,2.0\ncheckpoints_deep_reward_mean|0.0,0.25,0.5\n"
        "reward_best|0.0,1.0,2.0\nreward_mean|0.0,0.25,0.5\n"
        "train_loss_val|3.0,2.75,2.5\ntrain_loss_val_loss|0.0,1.0,2.0\ntrain_loss_val_loss_2|9.0,8.75,8.5");
}

/* Each program began again at step 2 after it had logged step 4. */
TEST_CASE(a_restart_takes_nothing_back_from_another_part)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("restarts", home, sizeof home);
    put(home, "keras/train", LOGS "restarted.tfevents");
    put(home, "keras/validation", LOGS "restarted.tfevents");
    if (take(home, "keras", NULL, NULL, &err)) fail_msg("%s", err.text);
    expect(home, "select distinct count(*) from measures group by name", "4");
    expect(home, "select count(distinct name) from measures", "6");
}

/* The first program did not say that it starts: PyTorch's says so only when it goes on. */
TEST_CASE(the_first_start_takes_back_what_was_logged_before)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("went-on", home, sizeof home);
    put(home, "run", LOGS "measures.tfevents");
    put_as(home, "run", "/events.out.tfevents.2", LOGS "went_on.tfevents");
    if (take(home, "run", NULL, "run", &err)) fail_msg("%s", err.text);
    expect(home, MEASURES, "reward_best|0.0,5.0\nreward_mean|0.0");
}

TEST_CASE(logs_of_several_runs_are_not_mixed)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("strangers", home, sizeof home);
    put(home, "a/train", LOGS "two_losses.tfevents");
    put(home, "b/train", LOGS "two_losses.tfevents");
    assert_int_equal(take(home, "a/train", "b/train", "run", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is not in the same folder as other files"));
    assert_int_equal(take(home, "a", "b", "run", &err), STATUS_USAGE);
    expect(home, "select count(*) from runs", "0");
}

/* Imports each run that is in a folder. Returns what was found and made of it, a line each. */
static char *take_each_in(const char *home, const char *path, char *buf, size_t size)
{
    const char *const paths[] = {path};
    struct arena arena = {0};
    struct import_source *sources;
    struct import_outcome made;
    struct err err = {0};
    size_t count;
    struct store *store = store_fixture_open(home);
    assert_int_equal(import_find(paths, 1, &arena, &sources, &count, &err), STATUS_OK);
    *buf = '\0';
    for (size_t i = 0; i < count; i++) {
        if (import_once(store, &sources[i], &made, &err)) fail_msg("%s", err.text);
        text_add(buf, size, "\n", "%s %s %s", sources[i].name,
                 made.grown  ? "was"
                 : made.here ? "is"
                             : "became",
                 made.id + 16);
    }
    arena_release(&arena);
    store_close(store);
    return buf;
}

/* The same of a folder below `home`. */
static char *take_each(const char *home, const char *folder, char *buf, size_t size)
{
    return take_each_in(home, kept_format("%s/%s", home, folder), buf, size);
}

/* All logs are the same, so that their runs start at the same time. */
TEST_CASE(each_folder_with_logs_is_a_run_which_is_imported_once)
{
    char home[PATH_MAX], said[400];
    store_fixture_home("each", home, sizeof home);
    put(home, "logs/2", LOGS "two_losses.tfevents");
    put(home, "logs/10", LOGS "two_losses.tfevents");
    put(home, "logs/10/curve", LOGS "two_losses.tfevents"); /* a part of that run */
    put(home, "logs/.hidden", LOGS "two_losses.tfevents");
    put(home, "logs/deep/er/keras/train", LOGS "two_losses.tfevents");
    put(home, "logs/deep/er/keras/validation", LOGS "two_losses.tfevents");
    put_as(home, "logs/deep/other", "/notes.txt", LOGS "two_losses.tfevents");
    assert_string_equal(take_each(home, "logs", said, sizeof said),
                        "2 became 2\n10 became 10\ndeep/er/keras became deep-er-keras");
    assert_string_equal(take_each(home, "logs", said, sizeof said),
                        "2 is 2\n10 is 10\ndeep/er/keras is deep-er-keras");
    /* from a folder lower down the name is shorter */
    assert_string_equal(take_each(home, "logs/deep/er", said, sizeof said), "keras is deep-er-keras");
    assert_string_equal(take_each(home, "logs/2", said, sizeof said), "");
    assert_string_equal(take_each(home, "logs/deep/other", said, sizeof said), "");
    expect(home, "select count(*) from runs", "3");
}

/* Where Lightning logs to TensorBoard, too, its table has the same numbers once more. */
TEST_CASE(a_table_of_lightning_is_a_run_unless_there_are_event_files)
{
    static const char table[] = "epoch,step,train_loss\n0,4,2\n0,9,1\n";
    char home[PATH_MAX], said[400], path[EXCHANGE_PATH_MAX];
    store_fixture_home("lightning", home, sizeof home);
    exchange_write(home, "logs/version_0/metrics.csv", table, sizeof table - 1, path);
    exchange_write(home, "logs/version_1/metrics.csv", table, sizeof table - 1, path);
    put(home, "logs/version_1", LOGS "two_losses.tfevents");
    assert_string_equal(take_each(home, "logs", said, sizeof said),
                        "version_0 became version_0\nversion_1 became version_1");
    struct err err = {0};
    if (take(home, "logs/version_0", NULL, "x", &err)) fail_msg("%s", err.text);
    /* it has no times: what was imported from there is known by its path */
    assert_string_equal(take_each(home, "logs", said, sizeof said),
                        "version_0 is version_0\nversion_1 is version_1");
    exchange_write(home, "more/version_0/metrics.csv", table, sizeof table - 1, path);
    assert_string_equal(take_each(home, "more", said, sizeof said), "version_0 became version_0-2");
}

/* A name that another run has is not enough, and neither is the start of a run that was trained here. */
TEST_CASE(a_log_that_is_here_is_known_by_start_and_name)
{
    char home[PATH_MAX], said[400], path[EXCHANGE_PATH_MAX];
    size_t size;
    store_fixture_home("known", home, sizeof home);
    char *bytes = store_fixture_slurp(LOGS "two_losses.tfevents", &size);
    exchange_write(home, "logs/a" EVENTS, bytes, size * 2 / 3, path);
    assert_string_equal(take_each(home, "logs", said, sizeof said), "a became a");
    exchange_write(home, "logs/a" EVENTS, bytes, size, path);
    assert_string_equal(take_each(home, "logs", said, sizeof said), "a was a");
    store_fixture_sql(home, "update runs set created_at = created_at - 1");
    assert_string_equal(take_each(home, "logs", said, sizeof said), "a became a-2");
    store_fixture_sql(home, "update runs set message = '' where name = 'a-2'");
    assert_string_equal(take_each(home, "logs", said, sizeof said), "a became a-3");
    free(bytes);
}

/* Their paths differ at the end alone, and so do their names. */
TEST_CASE(runs_in_folders_with_long_names_are_told_apart)
{
    static const char table[] = "epoch,step,train_loss\n0,4,2\n0,9,1\n";
    char home[PATH_MAX], said[400], path[EXCHANGE_PATH_MAX], logs[200];
    store_fixture_home("long", home, sizeof home);
    snprintf(logs, sizeof logs, "%0160d", 7);
    exchange_write(home, kept_format("%s/version_1/metrics.csv", logs), table, sizeof table - 1, path);
    exchange_write(home, kept_format("%s/version_10/metrics.csv", logs), table, sizeof table - 1, path);
    put(home, kept_format("%s/run1", logs), LOGS "two_losses.tfevents");
    put(home, kept_format("%s/run10", logs), LOGS "two_losses.tfevents");
    assert_string_equal(take_each(home, logs, said, sizeof said),
                        "run1 became run1\nrun10 became run10\n"
                        "version_1 became version_1\nversion_10 became version_10");
}

/* Lightning's tables have no times: only their paths differ. */
TEST_CASE(folders_are_known_by_their_whole_path)
{
    static const char table[] = "epoch,step,train_loss\n0,4,2\n0,9,1\n";
    char home[PATH_MAX], said[400], path[EXCHANGE_PATH_MAX], here[PATH_MAX];
    store_fixture_home("relative", home, sizeof home);
    assert_non_null(getcwd(here, sizeof here));
    for (int project = 0; project < 2; project++) {
        const char *folder = kept_format("%s/project-%d", home, project);
        exchange_write(folder, "logs/version_0/metrics.csv", table, sizeof table - 1, path);
        put(folder, "logs/run", LOGS "two_losses.tfevents");
        assert_int_equal(chdir(folder), 0);
        take_each_in(home, "logs", said, sizeof said);
        assert_int_equal(chdir(here), 0);
        assert_string_equal(said, project ? "run is run\nversion_0 became version_0-2"
                                          : "run became run\nversion_0 became version_0");
    }
    store_fixture_sql(home, "update runs set name = 'other' where name in ('run', 'version_0-2')");
    assert_string_equal(take_each(home, "project-1/logs/", said, sizeof said),
                        "run became run-2\nversion_0 is version_0-2");
    assert_string_equal(take_each(home, "project-0/logs", said, sizeof said),
                        "run is run\nversion_0 is version_0");
}

/* Lets this process pass permissions, as root may, or not. */
static void set_override(bool on)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    const unsigned bits = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective = on ? data[0].effective | (data[0].permitted & bits) : data[0].effective & ~bits;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

TEST_CASE(what_cannot_be_read_in_a_folder_is_named)
{
    static const char head[] = "epoch,step,train_loss\n";
    static const char *const closed[] = {"logs/a", "logs/b/train", "logs/c/more"};
    char home[PATH_MAX], path[EXCHANGE_PATH_MAX];
    struct err err = {0};
    struct import_source *sources;
    struct arena arena = {0};
    size_t count;
    store_fixture_home("closed", home, sizeof home);
    put(home, "logs/a", LOGS "two_losses.tfevents");
    put(home, "logs/b/train", LOGS "two_losses.tfevents");
    put(home, "logs/b/validation", LOGS "two_losses.tfevents");
    put(home, "logs/c", LOGS "two_losses.tfevents");
    put(home, "logs/c/more", LOGS "two_losses.tfevents");
    exchange_write(home, "table/metrics.csv", head, sizeof head - 1, path);
    assert_int_equal(take(home, "table", NULL, "x", &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "/table: contains neither steps nor evaluations"));
    snprintf(path, sizeof path, "%s/empty", home);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(take(home, "empty", NULL, "x", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "/empty: is a folder without logs of TensorBoard"));
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        assert_int_equal(chmod(kept_format("%s/%s", home, closed[i]), 0), 0);
    snprintf(path, sizeof path, "%s/logs", home);
    const char *const paths[] = {path};
    struct store *store = store_fixture_open(home);
    set_override(false);
    assert_int_equal(import_find(paths, 1, &arena, &sources, &count, &err), STATUS_OK);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        struct import_outcome made;
        assert_int_equal(import_once(store, &sources[i], &made, &err), STATUS_IO);
        assert_non_null(strstr(err.text, kept_format("/%s: cannot open: Permission denied", closed[i])));
    }
    set_override(true);
    store_close(store);
    arena_release(&arena);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        assert_int_equal(chmod(kept_format("%s/%s", home, closed[i]), 0700), 0);
    expect(home, "select count(*) from runs", "0");
}

TEST_CASE(values_at_a_step_that_is_none_are_counted_and_left_out)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct import_outcome made;
    const char *path = LOGS "odd.tfevents";
    store_fixture_home("odd-steps", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (import_files(store, &path, 1, NULL, &made, &err)) fail_msg("%s", err.text);
    assert_string_equal(made.remark,
                        "2 values were left out: the step is not a whole number from 0 to 10^15");
    store_close(store);
    expect(home, LOSSES, "0 3.0,1 2.75,2 2.5,3 2.25");
}

/* The column holds whole numbers. */
TEST_CASE(a_metric_with_fractions_is_a_measure_as_a_whole)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct import_outcome made;
    const char *path = LOGS "odd.tfevents";
    store_fixture_home("odd-tokens", home, sizeof home);
    struct store *store = store_fixture_open(home);
    if (import_files(store, &path, 1, NULL, &made, &err)) fail_msg("%s", err.text);
    store_close(store);
    expect(home, MEASURES, "tokens_2|0.0,0.5,1.0,1.5");
    expect(home, "select count(*), count(tokens) from steps", "4|0");
}

TEST_MAIN()
