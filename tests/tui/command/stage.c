/* See stage.h. */
#include "tests/tui/command/stage.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"

/* ---- the place ---- */

char *stage_path(const struct stage *s, const char *name)
{
    return kept_format("%s/%s", s->folder, name);
}

void stage_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *stage_read(const char *path)
{
    return kept(store_fixture_slurp(path, NULL), free);
}

/* Words in no order, the same ones every time. */
static void write_corpus(const char *path)
{
    static const char *const words[] = {"the",  "quick", "brown", "fox",   "jumps",  "over", "a",
                                        "lazy", "dog",   "while", "small", "rivers", "run",  "down"};
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (uint32_t i = 0; i < 3600; i++) {
        uint32_t word = philox4x32_10(i, 0, 0, 0, 1, 2).word[0] % (sizeof words / sizeof *words);
        fprintf(file, "%s%s", words[word], i % 9 == 8 ? "\n" : " ");
    }
    assert_int_equal(fclose(file), 0);
}

void stage_need_mpi(void)
{
    char plugin[4200];
    const char *binary = getenv("ANNEAL_BINARY"), *slash = strrchr(binary, '/');
    snprintf(plugin, sizeof plugin, "%.*s/anneal_mpi.so", (int)(slash - binary), binary);
    if (access(plugin, R_OK) == 0 && system("command -v mpirun >/dev/null") == 0) return;
    print_message("skipped: %s or mpirun is missing\n", plugin);
    skip();
}

/* Whether the process has this variable in its environment. */
static bool has_variable(const char *pid, const char *variable)
{
    char path[300], *text = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *file = fopen(path, "r");
    while (file && !found && getdelim(&text, &size, '\0', file) > 0) found = strcmp(text, variable) == 0;
    if (file) fclose(file);
    free(text);
    return found;
}

pid_t stage_find_rank(const struct stage *s, int rank)
{
    char home[700], number[64];
    snprintf(home, sizeof home, "ANNEAL_HOME=%s", s->home);
    snprintf(number, sizeof number, "OMPI_COMM_WORLD_RANK=%d", rank);
    DIR *folder = opendir("/proc");
    pid_t pid = 0;
    for (struct dirent *entry; !pid && (entry = readdir(folder));)
        if (has_variable(entry->d_name, home) && has_variable(entry->d_name, number))
            pid = atoi(entry->d_name);
    closedir(folder);
    return pid;
}

const char *const stage_mpirun_environment[] = {"OMPI_MCA_btl=^ofi", /* it sleeps for a second when it ends */
                                                "OMPI_MCA_rmaps_base_oversubscribe=1",
                                                "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
                                                "OMPI_MCA_hwloc_base_binding_policy=none",
                                                "PRTE_MCA_hwloc_default_binding_policy=none",
                                                "OMPI_ALLOW_RUN_AS_ROOT=1",
                                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                                "OMPI_MCA_odls_base_sigkill_timeout=6",
                                                "PRTE_MCA_odls_base_sigkill_timeout=6",
                                                NULL};

void stage_open(struct stage *s, const char *name)
{
    const char *root = getenv("ANNEAL_TEST_DIR");
    struct err err = {0};
    char text[1400];
    assert_non_null(root);
    snprintf(s->folder, sizeof s->folder, "%s/%s", root, name);
    snprintf(s->home, sizeof s->home, "%s/home", s->folder);
    snprintf(s->corpus, sizeof s->corpus, "%s/text.txt", s->folder);
    snprintf(s->config, sizeof s->config, "%s/tiny.ini", s->folder);
    if (file_remove_tree(s->folder, &err) || file_make_folders(s->folder, &err)) fail_msg("%s", err.text);
    setenv("ANNEAL_HOME", s->home, 1);
    setenv("ANNEAL_LEDGER", s->home, 1);
    write_corpus(s->corpus);
    int n = snprintf(text, sizeof text,
                     "[model]\nvocab_size = 256\nhidden_dim = 32\nnum_layers = 1\nnum_heads = 2\n"
                     "intermediate_dim = 48\n"
                     "[data]\ntrain = %s\ntokenizer = bytes\n"
                     "[train]\nseq_len = 32\nbatch_size = 4\ntotal_steps = 40\nwarmup_steps = 10\n"
                     "learning_rate = 3e-3\nthreads = 1\n"
                     "[eval]\nevery = 10\nbatches = 4\nearly = false\n"
                     "[checkpoint]\nevery = 10\n"
                     "[sample]\nevery = 20\nmax_tokens = 8\nearly = false\n",
                     s->corpus);
    stage_write(s->config, text, (size_t)n);
}

int stage_setup(void **state)
{
    static struct stage stage;
    char name[24];
    snprintf(name, sizeof name, "%s", (const char *)*state);
    stage_open(&stage, name);
    *state = &stage;
    return 0;
}

/* ---- what is recorded ---- */

char *stage_query(const struct stage *s, const char *sql)
{
    return kept(store_fixture_text(s->home, sql), free);
}

void stage_expect(const struct stage *s, const char *sql, const char *answer)
{
    char *got = stage_query(s, sql);
    if (strcmp(got, answer) != 0) fail_msg("\"%s\" instead of \"%s\": %s", got, answer, sql);
}

json_t *stage_runs(void)
{
    return stage_json(process_output("runs", "--json", NULL));
}

size_t stage_count_runs(void)
{
    return json_array_size(stage_runs());
}

const char *stage_status(void)
{
    return stage_text(json_array_get(stage_runs(), 0), "status");
}

static int count_leftovers(const char *path, int depth)
{
    int count = 0;
    DIR *folder = depth < 16 ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char inside[1200];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        count += strstr(entry->d_name, ".tmp-") || strncmp(entry->d_name, "launch-", 7) == 0;
        if (entry->d_type == DT_DIR &&
            snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) < (int)sizeof inside)
            count += count_leftovers(inside, depth + 1);
    }
    if (folder) closedir(folder);
    return count;
}

int stage_count_leftovers(const struct stage *s)
{
    return count_leftovers(s->folder, 0);
}

/* ---- JSON ---- */

static void forget_json(void *json)
{
    json_decref(json);
}

json_t *stage_json(const char *text)
{
    json_error_t problem;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!json) fail_msg("no JSON: %s: %s", problem.text, text);
    return kept(json, forget_json);
}

json_t *stage_parse_lines(const char *text)
{
    json_error_t problem;
    json_t *lines = kept(json_array(), forget_json);
    for (const char *next; *text; text = next) {
        size_t n = strcspn(text, "\n");
        if (text[n] != '\n') fail_msg("the last line has no end: %s", text);
        next = text + n + 1;
        json_t *line = json_loadb(text, n, JSON_REJECT_DUPLICATES, &problem);
        if (!json_is_object(line)) fail_msg("no JSON object: %s: %.*s", problem.text, (int)n, text);
        json_array_append_new(lines, line);
    }
    return lines;
}

json_t *stage_find_line(const json_t *lines, const char *type, int n)
{
    json_t *line, *found = NULL;
    size_t i;
    json_array_foreach(lines, i, line) {
        if (strcmp(stage_text(line, "type"), type) != 0) continue;
        found = line;
        if (n-- == 0) return found;
    }
    return n < 0 ? found : NULL;
}

size_t stage_count_lines(const json_t *lines, const char *type)
{
    json_t *line;
    size_t i, count = 0;
    json_array_foreach(lines, i, line) count += strcmp(stage_text(line, "type"), type) == 0;
    return count;
}

const char *stage_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

int64_t stage_int(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_integer(value)) fail_msg("\"%s\" is no whole number", name);
    return json_integer_value(value);
}

double stage_real(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (json_is_null(value)) return NAN;
    if (!json_is_number(value)) fail_msg("\"%s\" is no number", name);
    return json_number_value(value);
}

/* ---- history ---- */

enum { SEGMENT = 1, STEP = 2, LOSS = 7, LR = 8, GRAD_NORM = 9, FIELDS = 14 };

/* Cuts a line of the steps' CSV, which has no quotes, into its fields. */
static void split_line(char *line, char *fields[FIELDS])
{
    int n = 0;
    for (char *rest = line, *field; (field = strsep(&rest, ","));) {
        assert_true(n < FIELDS);
        fields[n++] = field;
    }
    assert_int_equal(n, FIELDS);
}

static void add_step(struct history *history, char *fields[FIELDS])
{
    int64_t step = strtoll(fields[STEP], NULL, 10);
    int segment = atoi(fields[SEGMENT]);
    assert_true(step >= 0 && segment > 0);
    if (step >= history->count) {
        history->steps = realloc(history->steps, (size_t)(step + 1) * sizeof *history->steps);
        assert_non_null(history->steps);
        for (int64_t i = history->count; i <= step; i++) history->steps[i] = (struct history_step){0};
        history->count = step + 1;
    }
    struct history_step *slot = &history->steps[step];
    assert_int_not_equal(slot->segment, segment); /* once a segment */
    if (slot->segment > segment) return;
    snprintf(slot->values, sizeof slot->values, "%s,%s,%s", fields[LOSS], fields[LR], fields[GRAD_NORM]);
    slot->segment = segment;
}

struct history history_of(const char *run)
{
    char *rest = process_output("export", run, NULL), *line, *fields[FIELDS];
    bool header = true;
    struct history out = {0};
    while ((line = strsep(&rest, "\n"))) {
        line[strcspn(line, "\r")] = '\0';
        if (!*line) continue;
        split_line(line, fields);
        if (header) assert_string_equal(fields[GRAD_NORM], "grad_norm");
        if (!header) add_step(&out, fields);
        header = false;
    }
    assert_false(header);
    if (out.steps) kept(out.steps, free);
    return out;
}

void history_expect_equal(const struct history *expected, const struct history *actual)
{
    assert_int_equal(actual->count, expected->count);
    for (int64_t i = 0; i < expected->count; i++) {
        const char *a = expected->steps[i].values, *b = actual->steps[i].values;
        if (!*a || strcmp(a, b) != 0)
            fail_msg("step %" PRId64 ": \"%s\" instead of \"%s\" (loss, lr, grad_norm)", i, b, a);
    }
}

void history_expect_alike(const char *a, const char *b, double most)
{
    struct history x = history_of(a), y = history_of(b);
    assert_int_equal(x.count, y.count);
    for (int64_t i = 0; i < x.count; i++) {
        double one[3], other[3];
        assert_int_equal(sscanf(x.steps[i].values, "%lf,%lf,%lf", one, one + 1, one + 2), 3);
        assert_int_equal(sscanf(y.steps[i].values, "%lf,%lf,%lf", other, other + 1, other + 2), 3);
        for (int k = 0; k < 3; k++)
            if (!(fabs(one[k] - other[k]) <= (k == 2 ? 100 * most : most) * fabs(one[k])))
                fail_msg("step %" PRId64 ": %s: %s, %s: %s (loss, lr, grad_norm)", i, a, x.steps[i].values, b,
                         y.steps[i].values);
    }
}

int64_t history_expect_same(const char *expected, const char *actual)
{
    struct history a = history_of(expected), b = history_of(actual);
    history_expect_equal(&a, &b);
    return a.count;
}

struct process *stage_run_without_table(struct stage *s, const char *name)
{
    struct process *p =
        process_start("train", s->config, kept_format("--name=%s", name), "--train.total_steps=100000000",
                      "--eval.every=0", "--sample.every=0", "--checkpoint.every=0", "--progress=json", NULL);
    process_wait_lines(p, 3);
    stage_query(s, "alter table steps rename to elsewhere");
    process_wait_text(p, "anneal: recording: ");
    process_signal(p, SIGTERM);
    process_expect(1, p);
    stage_query(s, "alter table elsewhere rename to steps");
    return p;
}
