/* Endurance: two trainers, five workbenches in terminals, and orders, exports and imports all the while. In
 * the end every step has one row, every import has the rows of its export, and no process has grown or keeps
 * more files open than after the first quarter. Some seconds in `make test`, a minute in `make test-long`,
 * which takes the number of minutes as SOAK. */
#include <dirent.h>
#include <locale.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/long.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

enum { TRAINERS = 2, WORKBENCHES = 5, WATCHED = TRAINERS + WORKBENCHES, SAMPLES = 4096, QUARTERS = 4 };

static const char *const names[TRAINERS] = {"one", "two"};

/* What a process holds, at its least in each quarter of the time: what is only in use for a moment does not
 * count. */
struct holding {
    const char *name;
    pid_t pid;
    long kilobytes[QUARTERS];
    int files[QUARTERS];
};

struct soak {
    struct stage *stage;
    struct process *trainers[TRAINERS];
    struct pty *workbenches[WORKBENCHES];
    struct holding holdings[WATCHED];
    double began, seconds;
    uint32_t turn; /* of the random numbers */
    int orders, exports, keys;
};

static double soak_seconds(void)
{
    const char *minutes = getenv("SOAK");
    double wish = minutes ? atof(minutes) * 60 : 0;
    return wish > 0 ? wish : long_or(60, 6);
}

static uint32_t draw(struct soak *k, uint32_t below)
{
    return philox4x32_10(k->turn++, 0, 0, 0, 19, 7).word[0] % below;
}

/* ---- what they hold ---- */

/* Memory of its own: what only files lie behind is left out. */
static long kilobytes_of(pid_t pid)
{
    char line[256], path[64];
    long sum = 0, value;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "r");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld", &value) == 1) sum = value;
    fclose(status);
    return sum;
}

static int files_of(pid_t pid)
{
    int count = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void measure(struct soak *k)
{
    int quarter = (int)((clock_monotonic() - k->began) / k->seconds * QUARTERS);
    if (quarter >= QUARTERS) return;
    for (int i = 0; i < WATCHED; i++) {
        struct holding *h = &k->holdings[i];
        long kilobytes = kilobytes_of(h->pid);
        int files = files_of(h->pid);
        if (!h->files[quarter] || files < h->files[quarter]) h->files[quarter] = files;
        if (!h->kilobytes[quarter] || kilobytes < h->kilobytes[quarter]) h->kilobytes[quarter] = kilobytes;
    }
}

/* AddressSanitizer keeps what was freed for a while. */
#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS_FREED = 1 };
#else
enum { KEEPS_FREED = 0 };
#endif

/* The first quarter warms up: caches fill, histories reach what a chart reads. */
static void expect_flat(const struct soak *k)
{
    enum { SLACK = 4096 };
    for (int i = 0; i < WATCHED; i++) {
        const struct holding *h = &k->holdings[i];
        print_message("%-12s KiB %ld %ld %ld %ld, files %d %d %d %d\n", h->name, h->kilobytes[0],
                      h->kilobytes[1], h->kilobytes[2], h->kilobytes[3], h->files[0], h->files[1],
                      h->files[2], h->files[3]);
    }
    for (int i = 0; i < WATCHED; i++) {
        const struct holding *h = &k->holdings[i];
        if (!h->files[1] || !h->files[3]) continue; /* so short that one export took a quarter */
        if (!KEEPS_FREED && h->kilobytes[3] > h->kilobytes[1] + h->kilobytes[1] / 10 + SLACK)
            fail_msg("%s has grown from %ld to %ld KiB", h->name, h->kilobytes[1], h->kilobytes[3]);
        /* one more: SQLite keeps the file of a second connection to the database until the first one closes
         */
        if (h->files[3] > h->files[1] + 1)
            fail_msg("%s keeps %d files open instead of %d", h->name, h->files[3], h->files[1]);
    }
}

/* ---- what goes on ---- */

static void begin(struct soak *k, struct stage *s)
{
    static const char *const titles[WORKBENCHES] = {"list", "run one", "run two", "memory", "profile"},
                             *const keys[WORKBENCHES] = {"", "", "", "M", "P"};
    *k = (struct soak){.stage = s, .seconds = soak_seconds()};
    for (int i = 0; i < TRAINERS; i++) {
        k->trainers[i] =
            process_start("train", s->config, "--name", names[i], "--progress=none", "--train.seq_len=64",
                          "--train.batch_size=8", "--model.hidden_dim=64", "--train.total_steps=1000000000",
                          "--train.schedule=constant", "--eval.every=300", "--sample.every=500",
                          "--checkpoint.every=400", "--checkpoint.keep=2", "--profile.every=100", NULL);
        k->holdings[i] = (struct holding){.name = names[i], .pid = process_pid(k->trainers[i])};
    }
    while (stage_count_runs() < TRAINERS ||
           *stage_query(s, "select count(distinct run_id) from steps") != '2')
        process_poll(k->trainers[0]);
    for (int i = 0; i < WORKBENCHES; i++) {
        const char *arguments[] = {"watch", names[i == 2], NULL};
        struct pty_options options = {.rows = 24, .columns = 80 + 10 * i, .arguments = i ? arguments : NULL};
        k->workbenches[i] = pty_open(&options);
        pty_wait_text(k->workbenches[i], names[i == 2]);
        pty_send(k->workbenches[i], keys[i]);
        k->holdings[TRAINERS + i] = (struct holding){.name = titles[i], .pid = pty_pid(k->workbenches[i])};
    }
    k->began = clock_monotonic();
}

static void give_order(struct soak *k)
{
    static const char *const verbs[][2] = {{"eval"},  {"sample"},           {"checkpoint"},
                                           {"trace"}, {"lr-factor", "0.5"}, {"lr-factor", "1"}};
    size_t verb = draw(k, sizeof verbs / sizeof *verbs);
    const char *run = names[draw(k, TRAINERS)];
    process_output("order", run, verbs[verb][0], "--wait", verbs[verb][1], NULL);
    if (draw(k, 4) == 0) {
        process_output("order", run, "pause", "--wait", NULL);
        process_output("order", run, "continue", "--wait", NULL);
    }
    k->orders++;
}

/* The rows of an import are those of the export. */
static void export_and_import(struct soak *k)
{
    const char *run = names[draw(k, TRAINERS)], *path = stage_path(k->stage, "steps.csv");
    process_output("export", run, "--output", path, NULL);
    process_output("import", path, "--name=copy", NULL);
    FILE *file = fopen(path, "r"); /* it may be long */
    long rows = -1;                /* the header */
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;) rows += c == '\n';
    fclose(file);
    const char *stored =
        stage_query(k->stage, "select count(*) || ' ' || max(step) from steps join runs on id = "
                              "run_id where name = 'copy'");
    assert_string_equal(stored, kept_format("%ld %ld", rows, rows - 1));
    process_output("delete", "copy", "--yes", NULL);
    k->exports++;
}

static void use_workbenches(struct soak *k)
{
    static const char *const keys[] = {"\t", "j", "k", "+", "-", "0", "f", "h", "l", "n", "N", "m"};
    for (int i = 0; i < WORKBENCHES; i++) {
        pty_draw(k->workbenches[i]);
        pty_send(k->workbenches[i], keys[draw(k, sizeof keys / sizeof *keys)]);
        if (draw(k, 8) == 0) pty_resize(k->workbenches[i], 12 + (int)draw(k, 40), 60 + (int)draw(k, 100));
        k->keys++;
    }
}

static void end(struct soak *k)
{
    for (int i = 0; i < WORKBENCHES; i++) {
        pty_send(k->workbenches[i], "\003");
        int code = pty_wait_exit(k->workbenches[i]);
        if (code != 0 && code != 130) fail_msg("a workbench ended with %d", code);
        pty_close(k->workbenches[i]);
    }
    for (int i = 0; i < TRAINERS; i++) {
        process_output("order", names[i], "stop", "--wait", NULL);
        process_expect_within(60, 0, k->trainers[i]);
        assert_string_equal(process_stderr(k->trainers[i]), "");
    }
}

STAGE_CASE(two_trainers_and_five_workbenches_go_on_without_losing_a_row_or_growing, struct stage *s)
{
    struct soak k;
    begin(&k, s);
    while (clock_monotonic() - k.began < k.seconds) {
        use_workbenches(&k);
        if (draw(&k, 3) == 0) give_order(&k);
        if (draw(&k, 6) == 0) export_and_import(&k);
        measure(&k);
    }
    end(&k);
    print_message("%.0f s: %d orders, %d exports and imports, %d keys, %s steps\n", k.seconds, k.orders,
                  k.exports, k.keys, stage_query(s, "select group_concat(steps) from runs"));
    assert_true(k.orders > 0 && k.exports > 0);
    /* a row for each step up to the last checkpoint, which is the end */
    for (int i = 0; i < TRAINERS; i++)
        stage_expect(s,
                     kept_format("select status, count(*) = max(step) + 1, count(distinct step) = count(*),"
                                 " max(step) + 1 = (select max(step) from checkpoints c where c.run_id = id)"
                                 " from steps join runs on id = run_id where name = '%s'",
                                 names[i]),
                     "stopped|1|1|1");
    stage_expect(s, "select count(*) from orders where result is null", "0");
    stage_expect(s, "select count(*) from events where level = 'error'", "0");
    stage_expect(s, "pragma integrity_check", "ok");
    assert_int_equal(stage_count_leftovers(s), 0);
    expect_flat(&k);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
