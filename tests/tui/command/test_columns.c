/* Every column of the run store is filled: a few runs do everything that is recorded, and no column may stay
 * empty or 0 in all rows. */
#include <signal.h>

#include "runs/columns.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Columns that runs on a CPU which go well leave empty; a column NULL stands for all of the table. */
static const struct {
    const char *table, *column;
} left_empty[] = {
    {"steps", "mfu"}, /* only where the device's peak is known */
    {"gpu_samples", "power_w"},
    {"gpu_samples", "temperature_c"},
    {"gpu_samples", "sm_clock_mhz"},
    {"gpu_samples", "throttle"},
    {"gpu_samples", "processes_at"},
    {"gpu_processes", NULL},
    {"ranks", NULL}, /* of several ranks: test_ranks.c */
    {"runs", "message"},
    {"runs", "recorded"}, /* only where records came from the file: test_failing_store.c */
    {"rollup", "non_finite"},
};

static bool may_be_empty(const char *table, const char *column)
{
    if (strcmp(column, "nan") == 0) return true; /* bits of values that are NaN */
    for (size_t i = 0; i < sizeof left_empty / sizeof *left_empty; i++)
        if (strcmp(left_empty[i].table, table) == 0 &&
            (!left_empty[i].column || strcmp(left_empty[i].column, column) == 0))
            return true;
    return false;
}

static void record_classes(const struct stage *s)
{
    char texts[800] = "text,label\n", path[800], key[820];
    size_t used = strlen(texts);
    for (int i = 0; i < 40; i++)
        used += (size_t)snprintf(texts + used, sizeof texts - used, "%s %d,%s\n", i % 2 ? "a" : "zz", i,
                                 i % 2 ? "one" : "two");
    snprintf(path, sizeof path, "%s/labels.csv", s->folder);
    snprintf(key, sizeof key, "--data.train=%s", path);
    stage_write(path, texts, used);
    process_run(0, "train", s->config, "--name=labels", "--progress=none", key, "--data.format=labels",
                "--eval.metric=accuracy", "--train.learning_rate=0.01", NULL);
}

static void record_adapters(const struct stage *s)
{
    char *base = stage_path(s, "exported");
    char *key = kept_format("--model.from=%s", base);
    process_run(0, "model", "export", "base", "-o", base, NULL);
    process_run(0, "train", s->config, "--name=adapters", "--progress=none", key, "--lora.rank=2", NULL);
}

static void record_everything(struct stage *s)
{
    static const char questions[] = "{\"context\": \"the\", \"choices\": [\" fox\", \" %\"], \"answer\": 0}\n"
                                    "{\"context\": \"a\", \"choices\": [\" dog\", \" $\"], \"answer\": 0}";
    stage_open(s, "columns");
    char *tasks = stage_path(s, "quiz.jsonl");
    char *key = kept_format("--eval.tasks=%s", tasks);
    stage_write(tasks, questions, sizeof questions - 1);
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--profile.every=10",
                "--eval.early_stopping_patience=100", "--eval.early_stopping_min_delta=100", key, NULL);
    process_run(0, "fork", "base", "--name=other", "--train.total_steps=130", "--progress=none",
                NULL); /* 64 steps make a row of rollup */
    process_run(0, "tag", "base", "+good", "--note=the first", NULL);
    process_output("generate", "base", "--max-tokens=5", NULL);
    record_classes(s);
    record_adapters(s);
    struct process *steered = process_start("train", s->config, "--name=steered",
                                            "--train.total_steps=10000000", "--progress=plain", NULL);
    process_wait_text(steered, "checkpoint ");
    process_run(0, "order", "steered", "lr-factor", "0.5", "--wait", NULL);
    process_run(0, "order", "steered", "stop", "--wait", NULL);
    process_expect(0, steered);
}

TEST_CASE(no_column_stays_empty)
{
    struct stage s;
    record_everything(&s);
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_info *table = &store_tables[t];
        for (int c = table->first; c < table->end; c++) {
            const char *column = store_columns[c].name;
            if (may_be_empty(table->name, column)) continue;
            char *sql = kept_format("select count(*) from %s where %s is not null and %s <> 0 and %s <> ''",
                                    table->name, column, column, column);
            char *filled = stage_query(&s, sql);
            bool empty = strtol(filled, NULL, 10) == 0;
            if (empty)
                fail_msg("%s.%s: empty or 0 in every row: fill it where the record is made", table->name,
                         column);
        }
    }
    assert_int_equal(stage_count_leftovers(&s), 0);
}

TEST_MAIN()
