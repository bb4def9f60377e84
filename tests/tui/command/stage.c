/* See stage.h. */
#include "tests/tui/command/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"

/* ---- the place ---- */

void stage_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *stage_read(const char *path)
{
    return store_fixture_slurp(path, NULL);
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

/* ---- what is recorded ---- */

char *stage_query(const struct stage *s, const char *sql)
{
    return store_fixture_text(s->home, sql);
}

json_t *stage_runs(void)
{
    json_error_t problem;
    char *text = process_output("runs", "--json", NULL);
    json_t *runs = json_loads(text, 0, &problem);
    if (!json_is_array(runs)) fail_msg("runs --json is no JSON list: %s: %s", problem.text, text);
    free(text);
    return runs;
}

size_t stage_count_runs(void)
{
    json_t *runs = stage_runs();
    size_t count = json_array_size(runs);
    json_decref(runs);
    return count;
}

const char *stage_status(void)
{
    static char status[32];
    json_t *runs = stage_runs();
    const char *word = json_string_value(json_object_get(json_array_get(runs, 0), "status"));
    snprintf(status, sizeof status, "%s", word ? word : "(no run)");
    json_decref(runs);
    return status;
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

json_t *stage_parse_lines(const char *text)
{
    json_error_t problem;
    json_t *lines = json_array();
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
    json_array_foreach(lines, i, line)
    {
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
    char values[160];
    assert_true(step >= 0 && segment > 0);
    if (step >= history->count) {
        history->steps = realloc(history->steps, (size_t)(step + 1) * sizeof *history->steps);
        assert_non_null(history->steps);
        for (int64_t i = history->count; i <= step; i++) history->steps[i] = (struct history_step){0, NULL};
        history->count = step + 1;
    }
    struct history_step *slot = &history->steps[step];
    assert_int_not_equal(slot->segment, segment); /* once a segment */
    if (slot->segment > segment) return;
    snprintf(values, sizeof values, "%s,%s,%s", fields[LOSS], fields[LR], fields[GRAD_NORM]);
    free(slot->values);
    assert_non_null(slot->values = strdup(values));
    slot->segment = segment;
}

void history_read(const char *run, struct history *out)
{
    char *csv = process_output("export", run, NULL), *rest = csv, *line, *fields[FIELDS];
    bool header = true;
    *out = (struct history){0};
    while ((line = strsep(&rest, "\n"))) {
        line[strcspn(line, "\r")] = '\0';
        if (!*line) continue;
        split_line(line, fields);
        if (header) assert_string_equal(fields[GRAD_NORM], "grad_norm");
        if (!header) add_step(out, fields);
        header = false;
    }
    assert_false(header);
    free(csv);
}

void history_release(struct history *history)
{
    for (int64_t i = 0; i < history->count; i++) free(history->steps[i].values);
    free(history->steps);
    *history = (struct history){0};
}

void history_expect_equal(const struct history *expected, const struct history *actual)
{
    assert_int_equal(actual->count, expected->count);
    for (int64_t i = 0; i < expected->count; i++) {
        const char *a = expected->steps[i].values, *b = actual->steps[i].values;
        if (!a || !b || strcmp(a, b) != 0)
            fail_msg("step %" PRId64 ": %s instead of %s (loss, lr, grad_norm)", i, b ? b : "nothing",
                     a ? a : "nothing");
    }
}
