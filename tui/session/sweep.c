/* See sweep.h. */
#include "tui/session/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "kernels/device/world.h"
#include "runs/annotation.h"
#include "runs/history.h"

enum status sweep_name(struct sweep *sweep, const char *name, struct err *err)
{
    char folder[PATH_MAX], clean[RUN_NAME_CLEAN_MAX];
    size_t n = strlen(name);
    if (!run_name_clean(name, clean, sizeof clean) || strcmp(name, clean) != 0 || strchr(name, '.') ||
        n >= sizeof sweep->name)
        return err_set(err, STATUS_USAGE,
                       "\"%.60s\" is no name of a sweep: it has letters of any script, digits, _ and single "
                       "hyphens between them, at most %d bytes",
                       CLEAN_LINE(name), SWEEP_NAME_MAX - 1);
    memcpy(sweep->name, name, n + 1);
    enum status status = file_in_home("sweeps", folder, sizeof folder, err);
    return status ? status
                  : file_format_path(sweep->folder, sizeof sweep->folder, err, "%s/%s", folder, sweep->name);
}

enum status sweep_path(const struct sweep *sweep, int index, const char *ending, char path[PATH_MAX],
                       struct err *err)
{
    return file_format_path(path, PATH_MAX, err, "%s/run-%d.%s", sweep->folder, index + 1, ending);
}

int sweep_choose_rungs(int runs, int factor, int64_t every, int64_t total, int64_t rungs[SWEEP_RUNGS_MAX])
{
    int halvings = 0, count = 0;
    for (int left = runs; factor > 1 && every > 0 && left > 1 && halvings < SWEEP_RUNGS_MAX - 1; halvings++)
        left = (left + factor - 1) / factor;
    for (int k = halvings; k > 0; k--) {
        double share = (double)total / pow(factor, k);
        int64_t step = (int64_t)ceil(share / (double)every) * every;
        if (step < total && (!count || step > rungs[count - 1])) rungs[count++] = step;
    }
    rungs[count++] = total;
    return count;
}

/* ---- the folder ---- */

static void print(FILE *out, const struct sweep *sweep)
{
    fprintf(out, "[sweep]\nfactor = %d\nranks = %d\njobs = %d\ndevice = %s\nkeys =", sweep->factor,
            sweep->ranks, sweep->jobs, sweep->device);
    for (int k = 0; k < sweep->key_count; k++) fprintf(out, " %s", sweep->keys[k]);
    fputc('\n', out);
    for (int i = 0; i < sweep->run_count; i++) {
        const struct sweep_run *run = &sweep->runs[i];
        fprintf(out, "\n[run %d]\nrungs =", i + 1);
        for (int r = 0; r < sweep->rung_count; r++) fprintf(out, " %" PRId64, run->rungs[r]);
        fputc('\n', out);
        for (int k = 0; k < sweep->key_count; k++) fprintf(out, "%s = %s\n", sweep->keys[k], run->values[k]);
    }
}

static enum status write_files(const struct sweep *sweep, char *const *configs, struct err *err)
{
    char path[PATH_MAX];
    struct file_out out;
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < sweep->run_count; i++) {
        status = sweep_path(sweep, i, "ini", path, err);
        if (!status) status = file_write_atomic(path, configs[i], strlen(configs[i]), err);
    }
    if (!status) status = file_format_path(path, sizeof path, err, "%s/sweep.ini", sweep->folder);
    if (!status) status = file_out_open(&out, path, err);
    if (status) return status;
    errno = 0;
    print(out.stream, sweep);
    return file_out_close(&out, STATUS_OK, 0, err);
}

enum status sweep_write(const struct sweep *sweep, char *const *configs, struct err *err)
{
    struct sweep draft = *sweep;
    if (file_exists(sweep->folder))
        return err_set(
            err, STATUS_USAGE,
            "there is a sweep %s already (choose another --name, or continue it: %s sweep --resume "
            "%s)",
            sweep->name, TEXT_PROGRAM, sweep->name);
    enum status status =
        file_format_path(draft.folder, sizeof draft.folder, err, "%s.tmp-%ld", sweep->folder, (long)getpid());
    if (!status) status = file_make_folders(draft.folder, err);
    if (!status) status = write_files(&draft, configs, err);
    if (!status && rename(draft.folder, sweep->folder) != 0)
        status = err_set(err, STATUS_IO, "%s: cannot rename to %s: %s", draft.folder, sweep->folder,
                         strerror(errno));
    if (status) file_remove_tree(draft.folder, NULL);
    return status;
}

/* The file while it is read. */
struct reading {
    struct sweep *sweep;
    const char *path;
    int line, section; /* section: -1: none, 0: [sweep], else the number of the run */
    struct err *err;
};

static enum status refuse(const struct reading *r, const char *what)
{
    return err_set(r->err, STATUS_CORRUPT, "%s:%d: %s (start the sweep anew under another name)", r->path,
                   r->line, what);
}

static enum status read_keys(struct reading *r, const char *value)
{
    struct sweep *sweep = r->sweep;
    char *rest = arena_strdup(&sweep->arena, value);
    if (!rest) return err_no_memory(r->err, "reading %s", r->path);
    for (char *key; (key = strsep(&rest, " "));) {
        if (!*key) continue;
        if (sweep->key_count == SWEEP_KEYS_MAX) return refuse(r, "there are too many keys");
        sweep->keys[sweep->key_count++] = key;
    }
    return STATUS_OK;
}

static enum status read_rungs(struct reading *r, struct sweep_run *run, const char *value)
{
    int count = 0;
    char *end;
    for (; *value; value = end + strspn(end, " ")) {
        int64_t step = strtoll(value, &end, 10);
        bool rises = step > (count ? run->rungs[count - 1] : 0);
        if (end == value || (*end && *end != ' ') || !rises || count == SWEEP_RUNGS_MAX)
            return refuse(r, "rungs must be rising numbers of steps");
        run->rungs[count++] = step;
    }
    if (!count || (r->section > 1 && count != r->sweep->rung_count))
        return refuse(r, "every run must have the same number of rungs");
    r->sweep->rung_count = count;
    return STATUS_OK;
}

static enum status read_value(struct reading *r, const char *name, const char *value)
{
    struct sweep *sweep = r->sweep;
    bool factor = strcmp(name, "factor") == 0, ranks = strcmp(name, "ranks") == 0;
    if (r->section == 0 && (factor || ranks || strcmp(name, "jobs") == 0)) {
        int64_t number, most = factor ? SWEEP_RUNS_MAX : ranks ? WORLD_RANKS_MAX : SWEEP_JOBS_MAX;
        if (!text_parse_int(value, &number) || number < 1 || number > most)
            return refuse(r, "factor, ranks and jobs must be whole numbers from 1 on");
        *(factor ? &sweep->factor : ranks ? &sweep->ranks : &sweep->jobs) = (int)number;
        return STATUS_OK;
    }
    if (r->section == 0 && strcmp(name, "device") == 0) {
        if (strlen(value) >= sizeof sweep->device) return refuse(r, "device is too long");
        strcpy(sweep->device, value);
        return STATUS_OK;
    }
    if (r->section == 0 && strcmp(name, "keys") == 0) return read_keys(r, value);
    if (r->section > 0) {
        struct sweep_run *run = &sweep->runs[r->section - 1];
        if (strcmp(name, "rungs") == 0) return read_rungs(r, run, value);
        for (int k = 0; k < sweep->key_count; k++)
            if (strcmp(name, sweep->keys[k]) == 0) {
                run->values[k] = arena_strdup(&sweep->arena, value);
                return run->values[k] ? STATUS_OK : err_no_memory(r->err, "reading %s", r->path);
            }
    }
    return refuse(r, "this is no line of a sweep");
}

static enum status read_line(struct reading *r, char *line)
{
    int number;
    char *equals = strstr(line, " = ");
    if (!*line) return STATUS_OK;
    if (strcmp(line, "[sweep]") == 0 && r->section < 0) {
        r->section = 0;
        return STATUS_OK;
    }
    if (sscanf(line, "[run %d]", &number) == 1) {
        if (r->section < 0 || number != r->section + 1 || number > SWEEP_RUNS_MAX)
            return refuse(r, "the runs must be numbered from 1 on");
        r->section = r->sweep->run_count = number;
        return STATUS_OK;
    }
    if (!equals) return refuse(r, "this is no line of a sweep");
    *equals = '\0';
    return read_value(r, line, equals + 3);
}

/* Whether nothing is missing. */
static enum status check(struct reading *r)
{
    const struct sweep *sweep = r->sweep;
    bool whole = sweep->factor > 0 && *sweep->device && sweep->rung_count > 0; /* so there is a run */
    for (int i = 0; i < sweep->run_count; i++) {
        whole = whole && sweep->runs[i].rungs[sweep->rung_count - 1] > 0;
        for (int k = 0; k < sweep->key_count; k++) whole = whole && sweep->runs[i].values[k];
    }
    return whole ? STATUS_OK : refuse(r, "the file ends too early");
}

static enum status read_file(struct reading *r)
{
    struct file_map map;
    enum status status = file_map_open(r->path, &map, r->err);
    if (status) return status;
    bool text = !memchr(map.data, '\0', map.size);
    char *copy = text ? strndup((const char *)map.data, map.size) : NULL, *rest = copy;
    if (!copy) status = text ? err_no_memory(r->err, "reading %s", r->path) : refuse(r, "this is no text");
    for (char *line; !status && (line = strsep(&rest, "\n"));) {
        r->line++;
        status = read_line(r, line);
    }
    free(copy);
    file_map_close(&map);
    return status ? status : check(r);
}

enum status sweep_read(struct sweep *sweep, const char *name, struct err *err)
{
    char path[PATH_MAX];
    *sweep = (struct sweep){.ranks = 1, .jobs = 1}; /* which older ones do not state */
    enum status status = sweep_name(sweep, name, err);
    if (!status) status = file_format_path(path, sizeof path, err, "%s/sweep.ini", sweep->folder);
    if (status) return status;
    if (!file_exists(path))
        return err_set(err, STATUS_NOT_FOUND, "%s: there is no such sweep (`%s sweep show` lists them)", name,
                       TEXT_PROGRAM);
    sweep->runs = arena_alloc(&sweep->arena, SWEEP_RUNS_MAX * sizeof *sweep->runs);
    if (!sweep->runs) return err_no_memory(err, "reading %s", path);
    return read_file(&(struct reading){.sweep = sweep, .path = path, .section = -1, .err = err});
}

void sweep_release(struct sweep *sweep)
{
    arena_release(&sweep->arena);
    *sweep = (struct sweep){0};
}

static int is_sweep(const struct dirent *entry)
{
    return !strchr(entry->d_name, '.');
}

enum status sweep_list(struct arena *arena, const char ***out, size_t *count, struct err *err)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    enum status status = file_in_home("sweeps", path, sizeof path, err);
    int n = status ? 0 : scandir(path, &entries, is_sweep, alphasort);
    *count = n > 0 ? (size_t)n : 0; /* without the folder there is none */
    *out = arena_alloc_array(arena, *count + 1, sizeof **out);
    for (size_t i = 0; i < *count; i++) {
        if (*out && !((*out)[i] = arena_strdup(arena, entries[i]->d_name))) *out = NULL;
        free(entries[i]);
    }
    free(entries);
    return status ? status : *out ? STATUS_OK : err_no_memory(err, "the list of sweeps");
}

/* ---- the runs ---- */

/* The number in an id "20260901-120000-NAME-3", which may end with "-2" if the id was taken; 0: none. */
static int number_in(const char *id, const char *name)
{
    char *end;
    size_t n = strlen(name);
    if (strlen(id) < 17 + n || strncmp(id + 16, name, n) != 0 || id[16 + n] != '-') return 0;
    long number = strtol(id + 17 + n, &end, 10);
    return number > 0 && number <= SWEEP_RUNS_MAX && (!*end || *end == '-') ? (int)number : 0;
}

static bool has_ended(const struct run_info *info)
{
    return info->status == RUN_FINISHED || info->status == RUN_EARLY_STOPPED || info->status == RUN_FAILED;
}

/* A run that was stopped early counts at later rungs with its last value, one that failed does not. */
static enum status look_at(const struct sweep *sweep, struct sweep_run *run, struct store *store,
                           struct err *err)
{
    enum status status = run_measure(store, run->info.id, sweep->measure, INT64_MAX, &run->newest, err);
    for (int r = 0; !status && r < sweep->rung_count; r++)
        if (run->info.steps >= run->rungs[r] || (has_ended(&run->info) && run->info.status != RUN_FAILED))
            status = run_measure(store, run->info.id, sweep->measure, run->rungs[r], &run->value[r], err);
    return status;
}

enum status sweep_look(struct sweep *sweep, struct store *store, struct err *err)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count;
    char tag[SWEEP_NAME_MAX + 8];
    snprintf(tag, sizeof tag, TAG_SWEEP "%s", sweep->name);
    enum status status = run_list(store, &arena, &runs, &count, err);
    if (status) count = 0;
    for (int i = 0; i < sweep->run_count; i++) {
        sweep->runs[i].begun = false;
        for (int r = 0; r < sweep->rung_count; r++) sweep->runs[i].value[r] = NAN;
    }
    strcpy(sweep->measure, "val_loss");
    for (size_t i = count; !status && i-- > 0;) { /* the oldest first */
        int number = run_has_tag(&runs[i], tag) ? number_in(runs[i].id, sweep->name) : 0;
        if (!number || number > sweep->run_count || sweep->runs[number - 1].begun) continue;
        sweep->runs[number - 1].begun = true;
        sweep->runs[number - 1].info = runs[i];
        if (*runs[i].best_metric) memcpy(sweep->measure, runs[i].best_metric, sizeof sweep->measure);
    }
    for (int i = 0; !status && i < sweep->run_count; i++)
        if (sweep->runs[i].begun) status = look_at(sweep, &sweep->runs[i], store, err);
    arena_release(&arena);
    return status;
}

/* A trainer records the evaluation at a rung after the step, so "running" there is not yet done. A crashed
 * run may lack it. */
bool sweep_run_done(const struct sweep_run *run)
{
    if (run->left || run->given_up || !run->begun) return run->left || run->given_up;
    int64_t rung = run->rungs[run->rung];
    return has_ended(&run->info) || run->info.steps > rung ||
           (run->info.steps == rung && run->info.status == RUN_STOPPED);
}

bool sweep_run_missing(const struct sweep *sweep, const struct sweep_run *run)
{
    bool further = false;
    for (int i = 0; i < sweep->run_count; i++)
        further = further || (sweep->runs[i].begun && sweep->runs[i].info.steps > sweep->runs[i].rungs[0]);
    return further && !run->begun;
}

const char *sweep_measure_words(const struct sweep *sweep)
{
    return strcmp(sweep->measure, "val_loss") == 0 ? "val loss" : sweep->measure;
}

/* Of the runs that trained for the rung, leaves all but the best. */
static void halve(struct sweep *sweep, int *order)
{
    int count = 0, keep;
    sweep_sort(sweep, order);
    for (int i = 0; i < sweep->run_count; i++) count += !sweep->runs[i].left;
    keep = (count + sweep->factor - 1) / sweep->factor;
    for (int i = 0; i < sweep->run_count; i++) {
        struct sweep_run *run = &sweep->runs[order[i]];
        if (run->left) continue;
        if (keep-- > 0 && isfinite(run->value[sweep->rung]))
            run->rung = sweep->rung + 1;
        else
            run->left = true;
    }
}

int sweep_judge(struct sweep *sweep)
{
    int order[SWEEP_RUNS_MAX];
    for (; sweep->rung < sweep->rung_count; sweep->rung++) {
        for (int i = 0; i < sweep->run_count; i++)
            if (!sweep_run_done(&sweep->runs[i])) return sweep->rung;
        if (sweep->rung < sweep->rung_count - 1) halve(sweep, order);
    }
    return sweep->rung;
}

/* Whether run a is better than run b. */
static bool is_better(const struct sweep *sweep, const struct sweep_run *a, const struct sweep_run *b)
{
    int rung = a->rung;
    if (a->rung != b->rung) return a->rung > b->rung;
    if (isnan(a->value[rung]) && isnan(b->value[rung]) && rung > 0) rung--; /* neither is there yet */
    double x = a->value[rung], y = b->value[rung];
    if (isnan(x) || isnan(y)) return !isnan(x) && isnan(y);
    return measure_falls(sweep->measure) ? x < y : x > y;
}

void sweep_sort(const struct sweep *sweep, int *order)
{
    for (int i = 0; i < sweep->run_count; i++) { /* by insertion: equal runs stay in their order */
        int at = i;
        for (; at > 0 && is_better(sweep, &sweep->runs[i], &sweep->runs[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}
