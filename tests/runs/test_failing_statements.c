/* Whatever statement of the database fails, those who read from it say so, and those who write leave nothing
 * half done. The statements of a call fail one after the other, refused as they are compiled. */
#include <limits.h>
#include <math.h>

#include "core/base/file.h"
#include "runs/annotation.h"
#include "runs/comparison.h"
#include "runs/exchange/export.h"
#include "runs/exchange/import.h"
#include "runs/grouping.h"
#include "runs/history.h"
#include "runs/listing.h"
#include "runs/memory_usage.h"
#include "runs/order.h"
#include "runs/pace.h"
#include "runs/profile.h"
#include "runs/quantity.h"
#include "runs/reach.h"
#include "runs/recovery.h"
#include "runs/reference.h"
#include "runs/series.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

#define GOLDEN  "20010909-014640-golden"
#define BRANCH  "20010909-013000-branch" /* a fork of it */
#define LETTERS "20010909-012000-letters"
#define RANKS   "20010909-011000-ranks"

static char home[PATH_MAX - 100], csv[PATH_MAX], long_csv[PATH_MAX], json[PATH_MAX];

static struct store *open_fixture(const char *name)
{
    store_fixture_everything(name, home, sizeof home);
    snprintf(csv, sizeof csv, "%s/steps.csv", home);
    snprintf(long_csv, sizeof long_csv, "%s/metrics.csv", home);
    snprintf(json, sizeof json, "%s/run.json", home);
    return store_fixture_open(home);
}

/* ---- reading ---- */

static struct arena arena;
static size_t count;

static enum status read_series(struct store *store, struct err *err)
{
    static const struct {
        const char *id, *name;
        enum metric metric;
    } cases[] = {{BRANCH, NULL, METRIC_LOSS},
                 {BRANCH, NULL, METRIC_VAL_LOSS},
                 {LETTERS, "val_accuracy", METRIC_MEASURE},
                 {GOLDEN, "power_w", METRIC_DEVICE},
                 {RANKS, "step_ms", METRIC_RANKS},
                 {GOLDEN, "decode_tokens_per_sec", METRIC_INFERENCE}};
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < sizeof cases / sizeof *cases; i++) {
        struct series series = {.name = cases[i].name, .inherits = true, .decay = 0.9};
        status = series_read(store, cases[i].id, cases[i].metric, 0, -1, 8, &series, err);
        series_release(&series);
    }
    return status;
}

static enum status read_comparison(struct store *store, struct err *err)
{
    struct run_info runs[3];
    struct comparison comparison;
    struct comparison_request request = {
        .runs = runs, .count = 3, .with_history = true, .has_target = true, .target = 2.9};
    enum status status = run_get(store, GOLDEN, &runs[0], err);
    if (!status) status = run_get(store, BRANCH, &runs[1], err);
    if (!status) status = run_get(store, LETTERS, &runs[2], err);
    if (status) return status;
    status = comparison_read(store, &request, &comparison, err);
    comparison_release(&comparison);
    return status;
}

static enum status read_listing(struct store *store, struct err *err)
{
    struct listing listing = {0};
    struct listing_request request = {"tags,lr,val_loss,val_accuracy,train.seed,progress", "loss<9 tag!=x",
                                      "-grad_norm"};
    enum status status = listing_read(&listing, store, err);
    if (!status) status = listing_set(&listing, store, &request, true, err);
    if (!status) status = listing_names(&listing, store, err);
    if (!status) status = listing_read(&listing, store, err);
    listing_release(&listing);
    return status;
}

static enum status read_groups(struct store *store, struct err *err)
{
    struct run_info *runs;
    size_t *group;
    enum status status = run_list(store, &arena, &runs, &count, err);
    return status ? status : grouping_read(store, "train.seed", true, runs, count, &arena, &group, err);
}

static enum status read_profile(struct store *store, struct err *err)
{
    struct profile profile = {0};
    enum status status = profile_read(store, GOLDEN, true, &profile, err);
    if (!status) status = profile_read_first(store, GOLDEN, true, &profile, err);
    profile_release(&profile);
    return status;
}

static enum status read_reach(struct store *store, struct err *err)
{
    struct pace pace;
    struct reach reach;
    struct reach_request request = {.metric = METRIC_VAL_LOSS, .target = 2.9};
    enum status status = pace_read(store, BRANCH, &arena, &pace, err);
    return status ? status : reach_read(store, BRANCH, &request, &pace, &reach, err);
}

static enum status read_lists(struct store *store, struct err *err)
{
    struct run_history history;
    enum status status = run_history_read(store, LETTERS, SIZE_MAX, &arena, &history, err);
    if (!status) status = run_history_read(store, RANKS, SIZE_MAX, &arena, &history, err);
    return status;
}

static enum status read_checkpoints(struct store *store, struct err *err)
{
    struct checkpoint_record *checkpoints;
    int64_t listed;
    enum status status = run_checkpoints_read(store, GOLDEN, &arena, &checkpoints, &count, err);
    if (!status) status = run_best_checkpoints(store, GOLDEN, &arena, &checkpoints, &count, err);
    if (!status) status = run_lists_checkpoint(store, GOLDEN, 250, &listed, err);
    return status;
}

static enum status read_facts(struct store *store, struct err *err)
{
    struct run_info run;
    struct run_ranks ranks;
    struct step_record step;
    struct step_range *missing;
    int64_t bytes;
    double value;
    enum status status = run_get(store, RANKS, &run, err);
    if (!status) status = run_peak_memory(store, GOLDEN, &bytes, err);
    if (!status) status = run_measure(store, GOLDEN, "", 300, &value, err);
    if (!status) status = run_measure(store, GOLDEN, "hellaswag_acc", 300, &value, err);
    if (!status) status = run_ranks(store, RANKS, &ranks, err);
    if (!status) status = run_last_step(store, GOLDEN, &step, err);
    return status ? status : run_missing_steps(store, &run, 70, &arena, &missing, &count, err);
}

static enum status read_others(struct store *store, struct err *err)
{
    static const char *const words[] = {"golden", BRANCH, "20010909-0120"};
    struct run_info *runs;
    struct run_references references;
    struct order_row *orders;
    struct quantity *quantities;
    struct memory_usage usage;
    struct gpu_record sample;
    bool found;
    enum status status = run_find_all(store, words, 3, &arena, &runs, err);
    if (!status) status = run_dependents(store, &words[1], 1, &arena, &references, err);
    if (!status) status = order_list(store, GOLDEN, SIZE_MAX, &arena, &orders, &count, err);
    if (!status) status = quantity_list(store, GOLDEN, &arena, &quantities, &count, err);
    if (!status) status = memory_usage_read(store, GOLDEN, &arena, &usage, err);
    return status ? status : gpu_samples_last(store, GOLDEN, &arena, &sample, &found, err);
}

static const char *const exported[] = {GOLDEN, BRANCH};
static const struct metric_choice all = {true, true, NULL}, two = {true, true, "loss,val_loss"};

static enum status write_table(struct store *store, struct err *err)
{
    return export_csv(store, exported, 2, TABLE_STEPS, csv, err);
}

static enum status write_metrics(struct store *store, struct err *err)
{
    enum status status = export_long(store, exported, 2, all, long_csv, err);
    return status ? status : export_long(store, exported, 2, two, long_csv, err);
}

static enum status write_document(struct store *store, struct err *err)
{
    return export_json(store, LETTERS, json, err);
}

static enum status write_folder(struct store *store, struct err *err)
{
    const char **written;
    return export_tensorboard(store, GOLDEN, all, home, &arena, &written, &count, err);
}

/* ---- writing ---- */

static enum status annotate(struct store *store, struct err *err)
{
    static const char *const ids[] = {GOLDEN, BRANCH}, *const tags[] = {"+new", "-good"};
    return runs_annotate(store, ids, 2, &(struct annotation){tags, 2, "a note", "another"}, err);
}

static enum status create(struct store *store, struct err *err)
{
    char id[RUN_ID_MAX];
    struct run_new run = {.name = "made", .config = "[train]\nseed = 1\n", .tags = "a b"};
    return run_create(store, &run, id, err);
}

static enum status reconfigure(struct store *store, struct err *err)
{
    return run_reconfigure(store, GOLDEN, 500, "[train]\nseed = 3\nlearning_rate = 1\n", err);
}

static enum status record_loss(struct store *store, struct err *err)
{
    return run_record_loss(store, RANKS, "rank 2 is lost", err);
}

static enum status add_inference(struct store *store, struct err *err)
{
    return run_add_inference(store, GOLDEN, &(struct inference_record){.checkpoint = "step-250"}, err);
}

static enum status add_sample(struct store *store, struct err *err)
{
    struct gpu_process processes[] = {{.pid = 1, .bytes = 10}, {.pid = 2, .bytes = 20}};
    struct gpu_record record = {.wall_time = 2e9, .processes = processes, .process_count = 2};
    return gpu_samples_add(store, GOLDEN, &record, err);
}

static enum status import(struct store *store, struct err *err)
{
    char path[PATH_MAX];
    const char *paths[] = {path};
    struct import_outcome outcome;
    static const char text[] = "Wall time,Step,Value\n1e9,0,2.5\n1e9,1,nan\n";
    snprintf(path, sizeof path, "%s/run-tag-loss.csv", home);
    enum status status = file_write_atomic(path, text, sizeof text - 1, err);
    return status ? status : import_files(store, paths, 1, NULL, &outcome, err);
}

/* ---- the tests ---- */

struct call {
    const char *name;
    enum status (*make)(struct store *store, struct err *err);
};

/* Makes a call again and again, each time with another statement that is refused, until it ends well. With
 * `kept`, SQL whose rows tell what the store holds, none of the others may change it. */
static void refuse_each(struct store *store, const struct call *call, const char *kept)
{
    struct store_refusal refusal = {.refused = true};
    char *before = kept ? store_fixture_text(home, kept) : NULL;
    for (int n = 0; refusal.refused; n++) {
        struct err err = {0};
        refusal = (struct store_refusal){.left = n};
        store_fixture_refuse(store, &refusal);
        enum status status = call->make(store, &err);
        store_fixture_refuse(store, NULL);
        arena_release(&arena);
        if (!refusal.refused && !status) status = call->make(store, &err); /* it can be made again */
        if (!refusal.refused && status) fail_msg("%s: %s", call->name, err.text);
        if (!refusal.refused) break;
        if (!status || !strstr(err.text, "SQLite failed"))
            fail_msg("%s: statement %d failed: %s", call->name, n, status ? err.text : "nobody said so");
        if (!kept) continue;
        char *after = store_fixture_text(home, kept);
        if (strcmp(before, after) != 0)
            fail_msg("%s: statement %d failed and left\n%s", call->name, n, after);
        free(after);
    }
    free(before);
}

TEST_CASE(whoever_reads_says_that_a_statement_failed)
{
    static const struct call calls[] = {
        {"series", read_series},   {"comparison", read_comparison},
        {"listing", read_listing}, {"groups", read_groups},
        {"profile", read_profile}, {"reach", read_reach},
        {"history", read_lists},   {"checkpoints", read_checkpoints},
        {"facts", read_facts},     {"others", read_others},
        {"csv", write_table},      {"long csv", write_metrics},
        {"json", write_document},  {"tensorboard", write_folder},
    };
    struct store *store = open_fixture("reads");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) refuse_each(store, &calls[i], NULL);
    store_close(store);
}

TEST_CASE(whoever_writes_leaves_nothing_half_done)
{
    static const struct call calls[] = {{"annotate", annotate},
                                        {"create", create},
                                        {"reconfigure", reconfigure},
                                        {"record a loss", record_loss},
                                        {"add a text", add_inference},
                                        {"add a sample", add_sample},
                                        {"import", import}};
    struct store *store = open_fixture("writes");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        refuse_each(store, &calls[i],
                    "select * from runs; select * from steps; select * from params; select * from tags; "
                    "select * from events;"
                    " select * from inference; select * from gpu_samples; select * from gpu_processes");
    store_close(store);
}

TEST_MAIN()
