/* Runs of several ranks with slices (world.shard, world.overlap): the same bits as without, the memory that
 * `anneal estimate --ranks` says, and checkpoints from which any number of ranks goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
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
                             "--eval.every=10"};
    int count = 14;
    snprintf(of, sizeof of, "--ranks=%d", ranks);
    snprintf(called, sizeof called, "--name=%s", name);
    for (int i = 0; more[i]; i++) words[count++] = more[i];
    process_close(process_expect(0, process_open(&(struct process_options){.arguments = words})));
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})

/* "RUN'S-FOLDER/checkpoints/step-N/NAME" */
static const char *file_of(const struct stage *s, const char *run, int step, const char *name)
{
    char sql[160];
    snprintf(sql, sizeof sql, "select id from runs where name = '%s'", run);
    char *id = stage_query(s, sql);
    snprintf(folder, sizeof folder, "%s/runs/%s/checkpoints/step-%d/%s", s->home, id, step, name);
    free(id);
    return folder;
}

static void expect_same_checkpoint(const struct stage *s, const char *a, const char *b, int step)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "config.json"};
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

/* Bit for bit, or within the rounding of fp32. */
static void expect_same_losses(const char *a, const char *b, bool bits)
{
    struct history one, other;
    history_read(a, &one);
    history_read(b, &other);
    if (bits) history_expect_equal(&one, &other);
    assert_int_equal(one.count, other.count);
    for (int64_t i = 0; i < one.count; i++) {
        double x = strtod(one.steps[i].values, NULL), y = strtod(other.steps[i].values, NULL);
        if (!(fabs(x - y) <= 2e-6 * fabs(x))) fail_msg("%s, %s: step %d: %.9g, %.9g", a, b, (int)i, x, y);
    }
    history_release(&one);
    history_release(&other);
}

static void slices_and_overlap_change_no_bit(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "slices");
    for (int ranks = 2; ranks <= 3; ranks++) {
        char whole[24], slices[24], after[24], gathered[24];
        snprintf(whole, sizeof whole, "whole%d", ranks);
        snprintf(slices, sizeof slices, "slices%d", ranks);
        snprintf(after, sizeof after, "after%d", ranks);
        snprintf(gathered, sizeof gathered, "gathered%d", ranks);
        train(&s, whole, ranks, WORDS("--world.shard=off"));
        train(&s, slices, ranks, WORDS("--world.shard=auto"));
        train(&s, after, ranks,
              WORDS("--world.shard=on", "--world.overlap=false", "--checkpoint.background=false"));
        train(&s, gathered, ranks,
              WORDS("--checkpoint.layout=gathered",
                    ranks == 2 ? "--checkpoint.background=false" : "--checkpoint.background=true"));
        expect_same_losses(whole, slices, true);
        expect_same_losses(whole, after, true);
        expect_same_losses(whole, gathered, true);
        for (int step = 10; step <= 20; step += 10) {
            expect_same_checkpoint(&s, whole, slices, step);
            expect_same_checkpoint(&s, whole, after, step);
            expect_same_checkpoint(&s, whole, gathered, step);
        }
    }
    assert_int_equal(stage_count_leftovers(&s), 0);
}

/* A model of several pieces. Only rank 0 traces, and in that step exchanges without overlap. */
static void what_one_rank_observes_changes_no_bit(void **state)
{
    (void)state;
    static const char *const ways[][2] = {{"plain", "--profile.trace_step=0"},
                                          {"traced", "--profile.trace_step=2"},
                                          {"after", "--world.overlap=false"}};
    struct stage s;
    stage_open(&s, "observed");
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "--name=%s", ways[i][0]);
        process_close(process_run(0, "train", s.config, "--ranks=2", name, ways[i][1],
                                  "--model.hidden_dim=256", "--model.num_layers=8",
                                  "--model.intermediate_dim=768", "--train.total_steps=5",
                                  "--checkpoint.every=0", "--eval.every=0", "--progress=none", NULL));
        if (i) expect_same_losses("plain", ways[i][0], true);
    }
}

static void any_number_of_ranks_goes_on_with_a_run(void **state)
{
    (void)state;
    static const int ways[][2] = {{1, 3}, {3, 1}, {4, 2}, {2, 2}};
    struct stage s;
    stage_open(&s, "elastic");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char whole[24], resumed[24], forked[24], ranks[24], fork_name[32];
        int from = ways[i][0], to = ways[i][1];
        snprintf(whole, sizeof whole, "whole%d%d", from, to);
        snprintf(resumed, sizeof resumed, "resumed%d%d", from, to);
        snprintf(forked, sizeof forked, "forked%d%d", from, to);
        snprintf(fork_name, sizeof fork_name, "--name=%s", forked);
        snprintf(ranks, sizeof ranks, "--ranks=%d", to);
        train(&s, whole, from, WORDS("--train.total_steps=30"));
        train(&s, resumed, from, NO_WORDS);
        process_close(process_run(0, "fork", resumed, ranks, fork_name, "--train.total_steps=30",
                                  "--progress=none", NULL));
        process_close(
            process_run(0, "resume", resumed, ranks, "--train.total_steps=30", "--progress=none", NULL));
        expect_same_losses(whole, resumed, from == to);
        if (from == to) expect_same_checkpoint(&s, whole, resumed, 30);
        expect_same_checkpoint(&s, resumed, forked, 30);
    }
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static void each_rank_takes_the_memory_that_the_estimate_says(void **state)
{
    (void)state;
    struct stage s;
    json_error_t problem;
    stage_open(&s, "memory");
    static const char *const ways[] = {"--world.shard=on", "--world.shard=off",
                                       "--checkpoint.layout=gathered"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *word = ways[i];
        char *text = process_output("estimate", s.config, word, "--ranks=3", "--device=cpu", "--json", NULL);
        json_t *json = json_loads(text, 0, &problem), *categories = json_object_get(json, "categories");
        process_close(process_run(0, "train", s.config, word, "--ranks=3", "--name=run",
                                  "--train.total_steps=2", "--progress=none", NULL));
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
        json_decref(json);
        free(text);
        free(csv);
    }
}

/* The process of a rank of the stage's run, by its environment; 0: there is none. */
static pid_t rank_of(int rank)
{
    char path[64], wanted[64], home[700];
    pid_t found = 0;
    snprintf(wanted, sizeof wanted, "OMPI_COMM_WORLD_RANK=%d", rank);
    snprintf(home, sizeof home, "ANNEAL_HOME=%s", getenv("ANNEAL_HOME"));
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && !found && (entry = readdir(all));) {
        int64_t pid;
        if (!text_parse_int(entry->d_name, &pid)) continue;
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        FILE *file = fopen(path, "re");
        char *variable = NULL;
        size_t room = 0;
        bool is_rank = false, is_ours = false;
        while (file && getdelim(&variable, &room, '\0', file) > 0) {
            is_rank = is_rank || strcmp(variable, wanted) == 0;
            is_ours = is_ours || strcmp(variable, home) == 0;
        }
        free(variable);
        if (file) fclose(file);
        if (is_rank && is_ours) found = (pid_t)pid;
    }
    if (all) closedir(all);
    return found;
}

static void a_rank_that_cannot_write_its_part_is_named_and_older_checkpoints_stay(void **state)
{
    (void)state;
    struct stage s;
    stage_open(&s, "full");
    struct process *run =
        process_start("train", s.config, "--ranks=2", "--name=full", "--train.total_steps=1000000",
                      "--checkpoint.every=50", "--progress=plain", NULL);
    process_wait_text(run, "checkpoint checkpoints/step-50 ");
    pid_t pid = rank_of(1);
    assert_true(pid > 0);
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &(struct rlimit){1000, RLIM_INFINITY}, NULL), 0);
    process_wait_text(run, "rank 1 on ");
    process_wait_text(run, "cannot write: File too large; training continues");
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}, NULL), 0);
    process_wait_text(run, "checkpoints can be written again");
    process_signal(run, SIGTERM);
    process_close(process_expect(0, run));
    assert_string_equal(stage_status(), "stopped");
    assert_int_equal(stage_count_leftovers(&s), 0);
}

static bool has_mpi(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", getenv("ANNEAL_BINARY"));
    snprintf(strrchr(path, '/'), 32, "/anneal_mpi.so");
    return access(path, R_OK) == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(slices_and_overlap_change_no_bit, process_close_all),
        cmocka_unit_test_teardown(what_one_rank_observes_changes_no_bit, process_close_all),
        cmocka_unit_test_teardown(any_number_of_ranks_goes_on_with_a_run, process_close_all),
        cmocka_unit_test_teardown(each_rank_takes_the_memory_that_the_estimate_says, process_close_all),
        cmocka_unit_test_teardown(a_rank_that_cannot_write_its_part_is_named_and_older_checkpoints_stay,
                                  process_close_all),
    };
    if (!has_mpi()) {
        puts("SKIP: this build has no anneal_mpi.so");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
