/* Runs of several ranks with slices (world.shard, world.overlap): the same bits as without, the memory that
 * `anneal estimate --ranks` says, and checkpoints from which any number of ranks goes on. */
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "tests/cmocka.h"
#include "tests/core/train/trace_reader.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static char folder[1024]; /* of files that are compared */

/* Trains a run of this name with `ranks`; further words end with NULL. Accumulation, padding of the last
 * micro-batch of some ranks, clipping, dropout. */
static void train(const struct stage *s, const char *name, int ranks, const char *const *more)
{
    char of[32], called[64];
    const char *words[24] = {"train",
                             s->config,
                             of,
                             called,
                             "--progress=none",
                             "--train.batch_size=5",
                             "--train.accumulation_steps=2",
                             "--train.total_steps=20",
                             "--train.schedule=constant",
                             "--train.dropout=0.1",
                             "--train.max_grad_norm=0.5",
                             "--checkpoint.every=10",
                             "--checkpoint.keep=9",
                             "--train.ema_decay=0.9",
                             "--eval.every=10"};
    int count = 15;
    snprintf(of, sizeof of, "--ranks=%d", ranks);
    snprintf(called, sizeof called, "--name=%s", name);
    for (int i = 0; more[i]; i++) words[count++] = more[i];
    process_expect(0, process_open(&(struct process_options){.arguments = words}));
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})

/* "RUN'S-FOLDER/checkpoints/step-N/NAME" */
static const char *file_of(const struct stage *s, const char *run, int step, const char *name)
{
    char *sql = kept_format("select id from runs where name = '%s'", run);
    char *id = stage_query(s, sql);
    snprintf(folder, sizeof folder, "%s/runs/%s/checkpoints/step-%d/%s", s->home, id, step, name);
    return folder;
}

static void expect_same_checkpoint(const struct stage *s, const char *a, const char *b, int step)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "ema.safetensors",
                                        "config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct file_map one, other;
        assert_int_equal(file_map_open(file_of(s, a, step, names[i]), &one, NULL), STATUS_OK);
        assert_int_equal(file_map_open(file_of(s, b, step, names[i]), &other, NULL), STATUS_OK);
        if (one.size != other.size || memcmp(one.data, other.data, one.size) != 0)
            fail_msg("%s and %s differ in %s of step %d", a, b, names[i], step);
        file_map_close(&one);
        file_map_close(&other);
    }
}

STAGE_CASE(slices_and_overlap_change_no_bit, struct stage *s)
{
    for (int ranks = 2; ranks <= 3; ranks++) {
        char *whole = kept_format("whole%d", ranks);
        char *slices = kept_format("slices%d", ranks);
        char *after = kept_format("after%d", ranks);
        char *gathered = kept_format("gathered%d", ranks);
        train(s, whole, ranks, WORDS("--world.shard=off"));
        train(s, slices, ranks, WORDS("--world.overlap=true"));
        train(s, after, ranks,
              WORDS("--world.shard=on", "--world.overlap=false", "--checkpoint.background=false"));
        train(s, gathered, ranks,
              WORDS("--checkpoint.layout=gathered",
                    ranks == 2 ? "--checkpoint.background=false" : "--checkpoint.background=true"));
        history_expect_same(whole, slices);
        history_expect_same(whole, after);
        history_expect_same(whole, gathered);
        for (int step = 10; step <= 20; step += 10) {
            expect_same_checkpoint(s, whole, slices, step);
            expect_same_checkpoint(s, whole, after, step);
            expect_same_checkpoint(s, whole, gathered, step);
        }
    }
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* No block of moments in 8 bits, and no matrix that Muon updates, is in two slices. */
STAGE_CASE(other_moments_are_divided_and_put_together, struct stage *s)
{
    static const char *const ways[][3] = {{"--train.moments=8bit", "--train.beta1=0.9", "--train.beta2=0.9"},
                                          {"--train.optimizer=muon", "--param_group.keys.match=*k_proj*",
                                           "--param_group.keys.optimizer=adamw"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *a = ways[i][0], *b = ways[i][1], *c = ways[i][2];
        char *whole = kept_format("whole-%zu", i), *slices = kept_format("slices-%zu", i);
        char *gathered = kept_format("gathered-%zu", i), *forked = kept_format("--name=forked-%zu", i);
        train(s, whole, 3, WORDS(a, b, c, "--world.shard=off"));
        train(s, slices, 3, WORDS(a, b, c, "--world.overlap=true"));
        train(s, gathered, 3, WORDS(a, b, c, "--checkpoint.layout=gathered"));
        history_expect_same(whole, slices);
        history_expect_same(whole, gathered);
        for (int step = 10; step <= 20; step += 10) {
            expect_same_checkpoint(s, whole, slices, step);
            expect_same_checkpoint(s, whole, gathered, step);
        }
        train(s, kept_format("longer-%zu", i), 3, WORDS(a, b, c, "--train.total_steps=30"));
        process_run(0, "fork", slices, "--ranks=2", forked, "--train.total_steps=30", "--progress=none",
                    NULL);
        process_run(0, "resume", slices, "--ranks=3", "--train.total_steps=30", "--progress=none", NULL);
        process_run(0, "resume", whole, "--ranks=2", "--train.total_steps=30", "--progress=none", NULL);
        expect_same_checkpoint(s, kept_format("longer-%zu", i), slices, 30);
        expect_same_checkpoint(s, whole, forked + strlen("--name="), 30);
    }
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* The trace of step 2 has both ranks as processes, on one clock, and says how long collectives wait. */
static void expect_trace_of_both(const struct stage *s)
{
    static struct trace_reading reading;
    const struct trace_event *steps[2] = {0};
    char path[1200], sql[] = "select id from runs where name = 'traced'", *id = stage_query(s, sql);
    id[strcspn(id, "\n")] = '\0';
    snprintf(path, sizeof path, "%s/runs/%s/traces/step-2.json", s->home, id);
    trace_read(path, &reading);
    for (int rank = 0; rank < 2; rank++) {
        int process = 1 + 2 * rank, collectives = 0;
        char *name = kept_format("rank %d on ", rank);
        assert_memory_equal(reading.processes[process], name, strlen(name));
        for (int i = 0; i < reading.count; i++) {
            const struct trace_event *event = &reading.events[i];
            if (event->process != process) continue;
            if (strcmp(event->category, "step") == 0) steps[rank] = event;
            if (strcmp(event->category, "collective") == 0) {
                collectives++;
                assert_true(event->wait > 0 && event->wait <= 1e-3 * (double)event->duration + 1);
            }
        }
        assert_true(collectives >= 2);
    }
    assert_true(steps[0] && steps[1]); /* neither ends before the other begins: they wait for each other */
    assert_true(steps[0]->start < steps[1]->start + steps[1]->duration);
    assert_true(steps[1]->start < steps[0]->start + steps[0]->duration);
}

/* A model of several pieces. A traced step exchanges without overlap. */
STAGE_CASE(what_is_observed_changes_no_bit, struct stage *s)
{
    static const char *const ways[][3] = {{"plain", "--profile.trace_step=0", "--world.overlap=true"},
                                          {"traced", "--profile.trace_step=2", "--world.overlap=true"},
                                          {"after", "--profile.trace_step=0", "--world.overlap=false"}};
    for (int i = 0; i < 3; i++) {
        char *name = kept_format("--name=%s", ways[i][0]);
        process_run(0, "train", s->config, "--ranks=2", name, ways[i][1], ways[i][2],
                    "--model.hidden_dim=256", "--model.num_layers=8", "--model.intermediate_dim=768",
                    "--train.total_steps=5", "--checkpoint.every=0", "--eval.every=0", "--progress=none",
                    NULL);
        if (i) history_expect_same("plain", ways[i][0]);
    }
    expect_trace_of_both(s);
}

STAGE_CASE(any_number_of_ranks_goes_on_with_a_run, struct stage *s)
{
    static const int ways[][2] = {{1, 3}, {3, 1}, {4, 2}, {2, 2}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int from = ways[i][0], to = ways[i][1];
        char *whole = kept_format("whole%d%d", from, to);
        char *resumed = kept_format("resumed%d%d", from, to);
        char *forked = kept_format("forked%d%d", from, to);
        char *fork_name = kept_format("--name=%s", forked);
        char *ranks = kept_format("--ranks=%d", to);
        train(s, whole, from, WORDS("--train.total_steps=30"));
        train(s, resumed, from, NO_WORDS);
        process_run(0, "fork", resumed, ranks, fork_name, "--train.total_steps=30", "--progress=none", NULL);
        process_run(0, "resume", resumed, ranks, "--train.total_steps=30", "--progress=none", NULL);
        history_expect_alike(whole, resumed, 2e-6);
        if (from == to) history_expect_same(whole, resumed);
        if (from == to) expect_same_checkpoint(s, whole, resumed, 30);
        expect_same_checkpoint(s, resumed, forked, 30);
    }
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(each_rank_takes_the_memory_that_the_estimate_says, struct stage *s)
{
    static const char *const ways[] = {"--world.shard=on", "--world.shard=off",
                                       "--checkpoint.layout=gathered", "--train.moments=8bit",
                                       "--train.optimizer=muon"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *word = ways[i];
        json_t *json = stage_json(
                   process_output("estimate", s->config, word, "--ranks=3", "--device=cpu", "--json", NULL)),
               *categories = json_object_get(json, "categories");
        process_run(0, "train", s->config, word, "--ranks=3", "--name=run", "--train.total_steps=2",
                    "--progress=none", NULL);
        char *csv = process_output("export", "latest", "--table", "memory", NULL);
        int rows = 0;
        for (char *line = strchr(csv, '\n') + 1; *line; line = strchr(line, '\n') + 1, rows++) {
            char category[32];
            long long planned, live;
            assert_int_equal(
                sscanf(line, "%*[^,],%*[^,],%*[^,],%31[^,],%lld,%lld", category, &planned, &live), 3);
            assert_int_equal(live, json_integer_value(json_object_get(categories, category)));
        }
        assert_true(rows >= 6);
    }
}

STAGE_CASE(a_rank_that_cannot_write_its_part_is_named_and_older_checkpoints_stay, struct stage *s)
{
    struct process *run =
        process_start("train", s->config, "--ranks=2", "--name=full", "--train.total_steps=1000000",
                      "--checkpoint.every=50", "--progress=plain", NULL);
    process_wait_text(run, "checkpoint checkpoints/step-50 ");
    pid_t pid = stage_find_rank(s, 1);
    assert_true(pid > 0);
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &(struct rlimit){1000, RLIM_INFINITY}, NULL), 0);
    process_wait_text(run, "rank 1 on ");
    process_wait_text(run, "cannot write: File too large; training continues");
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}, NULL), 0);
    process_wait_text(run, "checkpoints can be written again");
    process_signal(run, SIGTERM);
    process_expect(0, run);
    assert_string_equal(stage_status(), "stopped");
    assert_int_equal(stage_count_leftovers(s), 0);
}

static bool has_mpi(void)
{
    char path[4200];
    const char *binary = getenv("ANNEAL_BINARY"), *slash = strrchr(binary, '/');
    snprintf(path, sizeof path, "%.*s/anneal_mpi.so", (int)(slash - binary), binary);
    return access(path, R_OK) == 0;
}

int main(void)
{
    if (!has_mpi()) {
        puts("SKIP: this build has no anneal_mpi.so");
        return 0;
    }
    return TEST_RUN(NULL, NULL);
}
