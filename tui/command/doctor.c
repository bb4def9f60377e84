/* `anneal doctor`: checks the store against its folders and processes, and says what runs hold on disk. It
 * reads, and changes nothing without --repair. What it finds is printed at once, a line each: "problem" (the
 * command then fails), "repaired", or "note" (nothing is wrong, but something can be removed). */
#include "tui/command/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/recovery.h"
#include "runs/reservations/ledger.h"
#include "tui/command/command.h"
#include "tui/session/process.h"

enum { RUNS_SHOWN = 10 };

struct options {
    bool json, repair;
    int progress;
};

/* ---- the database and the reservations ---- */

/* Opens the database without writing to it. One that cannot be read is a finding. */
static void open_store(struct doctor *d)
{
    struct err why = {0};
    if (!file_exists(d->database)) return;
    if (store_open(NULL, STORE_UNTOUCHED, &d->store, &why)) {
        d->store = NULL;
        doctor_report_error(d, PROBLEM, "", d->database, "", &why);
        return;
    }
    store_hurry(d->store, false);
    store_stop_when(d->store, interrupt_requested);
}

static enum status check_database(struct doctor *d, struct err *err)
{
    struct err why = {0};
    enum status status = d->store ? store_check(d->store, &why) : STATUS_OK;
    if (status == STATUS_CORRUPT) { /* or another process began to write it after it was opened */
        store_close(d->store);
        d->store = NULL;
        open_store(d);
        status = d->store ? store_check(d->store, &why) : STATUS_OK;
    }
    if (status == STATUS_INTERRUPTED) return err_set(err, status, "%s", "");
    if (status) doctor_report_error(d, PROBLEM, "", d->database, "", &why);
    return STATUS_OK;
}

static void check_reservations(struct doctor *d)
{
    struct ledger *ledger = NULL;
    struct reservation *rows = NULL;
    size_t count = 0;
    struct err why = {0};
    char remedy[300];
    enum status status = ledger_open_own(d->home, true, &ledger, &why);
    if (!status && ledger) status = ledger_list_ended(ledger, &rows, &count, &why);
    bool removed = !status && count && d->repair && !(status = ledger_remove_ended(ledger, &why));
    snprintf(remedy, sizeof remedy, "it does not count; `%s doctor --repair` removes it", TEXT_PROGRAM);
    for (size_t i = 0; i < count; i++)
        doctor_report(d, removed ? REPAIRED : NOTE, "", ledger_path(ledger), removed ? "" : remedy,
                      "process %" PRId64 " (%s) has ended without its reservation of %s", rows[i].pid,
                      rows[i].holder, TEXT_BYTES(rows[i].bytes));
    if (status) doctor_report_error(d, PROBLEM, "", ledger ? ledger_path(ledger) : "", "", &why);
    free(rows);
    ledger_close(ledger);
}

/* ---- repair ---- */

static void report_repair(struct doctor *d, const struct repair *r)
{
    char path[PATH_MAX + 300], renamed[80] = "";
    snprintf(path, sizeof path, "%s/runs/%s/records", d->home, r->id);
    if (*r->aside) snprintf(renamed, sizeof renamed, "the file is renamed to %s", r->aside);
    if (r->made || r->stored)
        doctor_report(d, REPAIRED, r->id, path, "", "%s%" PRId64 " record%s stored in the database",
                      r->made ? "the run was made again; " : "", r->stored, text_plural(r->stored));
    if (r->listed)
        doctor_report(d, REPAIRED, r->id, d->database, "", "run %s: %" PRId64 " checkpoint%s listed", r->id,
                      r->listed, text_plural(r->listed));
    if (*r->err.text) /* of a file that is cut, all before the damage is stored; of others nothing */
        doctor_report_error(d, r->cut ? REPAIRED : PROBLEM, r->id, d->home, renamed, &r->err);
}

/* Stores what the runs' folders have and the database lacks. */
static enum status repair_records(struct doctor *d, const char *word, struct err *err)
{
    struct store *store = NULL;
    struct repair one = {.made = false}, *repairs = &one;
    struct run_info run;
    size_t count = 0;
    int64_t waiting;
    bool found = false;
    enum status status = store_open(NULL, STORE_WRITE, &store, err);
    if (!status && !word) status = recovery_repair_all(store, &d->arena, &repairs, &count, err);
    if (!status && word && !(status = run_find(store, word, &run, err)))
        (void)recovery_look(store, run.id, &found, &waiting, NULL);
    if (!status && found && recovery_repair(store, run.id, &one, &one.err) != STATUS_BUSY) count = 1;
    /* damage to the database itself is reported once, below */
    for (size_t i = 0; !status && i < count; i++)
        if (word || strncmp(repairs[i].err.text, d->database, strlen(d->database)) != 0)
            report_repair(d, &repairs[i]);
    store_close(store);
    return status;
}

/* ---- space ---- */

static int larger_first(const void *a, const void *b)
{
    const struct held *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

static void print_space(struct doctor *d, bool all)
{
    static const char *const parts[] = {"runs", "data", "models", "sweeps", "cuda"};
    char path[PATH_MAX + 16], title[80];
    struct output *o = &d->out;
    size_t shown = o->json || d->run_count < RUNS_SHOWN ? d->run_count : RUNS_SHOWN;
    int64_t bytes = file_tree_bytes(d->database, NULL);
    if (d->run_count) qsort(d->held, d->run_count, sizeof *d->held, larger_first);
    snprintf(title, sizeof title,
             shown < d->run_count ? "Runs on disk (the largest %zu of %zu)" : "Runs on disk", shown,
             d->run_count);
    output_list(o, "runs", title);
    for (size_t i = 0; i < shown; i++) {
        const struct held *held = &d->held[i];
        output_item(o);
        OUTPUT_MEMBERS(o, "run", (const char *)held->run->id, "status", status_words[held->run->status],
                       "checkpoints", held->checkpoints, "bytes", held->bytes, "removable_bytes",
                       held->removable);
    }
    output_list_end(o);
    if (!all) return;
    output_list(o, "space", "All on disk");
    output_item(o);
    snprintf(path, sizeof path, "%s-wal", d->database);
    OUTPUT_MEMBERS(o, "part", "anneal.db", "bytes", bytes + file_tree_bytes(path, NULL));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", d->home, parts[i]);
        if (!file_exists(path)) continue;
        output_item(o);
        OUTPUT_MEMBERS(o, "part", parts[i], "bytes", file_tree_bytes(path, NULL));
    }
    output_list_end(o);
}

/* ---- the command ---- */

/* Without a database that can be read there are none; a named one is then an error. */
static enum status list_runs(struct doctor *d, const char *word, struct err *err)
{
    enum status status = STATUS_OK;
    if (!d->store && word)
        return err_set(err, STATUS_NOT_FOUND, "%s: there is no run database that can be read, so no run %s",
                       d->database, word);
    if (!d->store) return STATUS_OK;
    if (word) {
        d->runs = arena_alloc(&d->arena, sizeof *d->runs);
        status = d->runs ? run_find(d->store, word, d->runs, err) : err_no_memory(err, "a run");
        d->run_count = !status;
    } else {
        status = run_list(d->store, &d->arena, &d->runs, &d->run_count, err);
    }
    d->cleaning = (struct cleaning){.store = d->store, .quick = true};
    if (!status) status = cleaning_begin(&d->cleaning, err);
    if (status == STATUS_CORRUPT && !word) { /* check_database has reported it; folders can be read */
        store_close(d->store);
        d->store = NULL;
        d->run_count = 0;
        return STATUS_OK;
    }
    d->held = arena_alloc_array(&d->arena, d->run_count + 1, sizeof *d->held);
    if (!status && !d->held) status = err_no_memory(err, "a list of runs");
    for (size_t i = 0; !status && i < d->run_count; i++) d->held[i].run = &d->runs[i];
    return status;
}

/* Prepares the progress of reading checkpoints. */
static enum status begin_reading(struct doctor *d, const char *word, struct err *err)
{
    char path[PATH_MAX];
    enum status status = file_format_path(path, sizeof path, err, "%s/runs%s%s", d->home, word ? "/" : "",
                                          word ? d->runs[0].id : "");
    if (!status)
        d->meter = (struct progress_meter){&d->bar.progress, "reading checkpoints",
                                           (uint64_t)file_tree_bytes(path, NULL), 0, 0};
    return status;
}

/* Checks all that lies outside of runs. */
static enum status check_rest(struct doctor *d, struct err *err)
{
    enum status status = doctor_check_folders(d, err);
    if (status) return status;
    check_reservations(d);
    size_t first = d->cleaning.count;
    if (d->store) status = cleaning_add_rest(&d->cleaning, d->trains, err);
    for (size_t i = first; !status && i < d->cleaning.count; i++)
        if (d->cleaning.items[i].kind == CLEANING_DAMAGED) doctor_report_leftover(d, &d->cleaning.items[i]);
    return status;
}

static enum status examine(struct doctor *d, const char *word, struct err *err)
{
    enum status status = d->repair ? repair_records(d, word, err) : STATUS_OK;
    if (status == STATUS_CORRUPT && !word) status = STATUS_OK; /* reported below */
    if (!status) open_store(d);
    if (!status && !word) status = check_database(d, err);
    if (!status) status = list_runs(d, word, err);
    if (!status) status = begin_reading(d, word, err);
    for (size_t i = 0; !status && i < d->run_count; i++) {
        status = doctor_check_run(d, &d->held[i], err);
        if (status == STATUS_CORRUPT && !word) status = STATUS_OK; /* of the database: reported */
    }
    return status || word ? status : check_rest(d, err);
}

/* Whether the word names a run, so that a mistyped one prints no result. What else fails is found later. */
static enum status check_word(const char *word, struct err *err)
{
    struct store *store = NULL;
    struct run_info run;
    if (store_open(NULL, STORE_READ, &store, NULL)) return STATUS_OK;
    enum status status = run_find(store, word, &run, err);
    store_close(store);
    return status == STATUS_NOT_FOUND || status == STATUS_USAGE ? status : STATUS_OK;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct doctor d = {.repair = o->repair};
    const char *word = words->count ? words->words[0] : NULL;
    char runs[PATH_MAX + 8];
    enum status status = file_anneal_home(d.home, sizeof d.home, err);
    if (!status) status = store_path(NULL, d.database, err);
    if (status) return status;
    snprintf(runs, sizeof runs, "%s/runs", d.home);
    if (!file_exists(d.database) && !file_exists(runs))
        return err_set(err, STATUS_NOT_FOUND,
                       "%s: there is no store here (ANNEAL_HOME names its folder; the first run makes one)",
                       d.home);
    if (word && (status = check_word(word, err))) return status;
    progress_bar_init(&d.bar, stderr, o->progress);
    output_begin(&d.out, o->json);
    if (o->json) output_text(&d.out, "home", d.home);
    if (o->json) output_list(&d.out, "findings", "");
    status = examine(&d, word, err);
    progress_bar_clear(&d.bar);
    if (o->json) output_list_end(&d.out);
    if (!status) print_space(&d, !word);
    bool sound = !status && !d.found[PROBLEM];
    if (o->json) output_flag(&d.out, "sound", sound);
    if (!o->json && sound)
        printf("\n%zu run%s and %" PRId64 " checkpoint%s: sound\n", d.run_count,
               text_plural((int64_t)d.run_count), d.checkpoints, text_plural(d.checkpoints));
    enum status written = output_end(&d.out, status ? NULL : err);
    if (!status && !written && !sound)
        status = err_set(err, STATUS_FAILED, "%" PRId64 " problem%s in %s", d.found[PROBLEM],
                         text_plural(d.found[PROBLEM]), d.home);
    cleaning_release(&d.cleaning);
    store_close(d.store);
    arena_release(&d.arena);
    return status ? status : written;
}

static const struct option_spec options[] = {
    OPTION("repair", OPTION_FLAG, AT(repair), NULL,
           "stores what the database lacks and the runs' folders have, such as runs that it has lost, "
           "records that could not be stored in time, and checkpoints; renames damaged checkpoints to "
           "step-N.damaged, so that nothing uses them; removes reservations of processes that have ended. "
           "Nothing else is changed, and a run that trains is left alone"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command command_doctor = COMMAND(
    "doctor", "RUN", 0, 1, options, "check that all that is stored is sound, and what it takes on disk", run,
    (struct options){0},
    .about =
        "Checks the run database, the folders of runs and their checkpoints against it, every checkpoint "
        "against its checksums, the steps of resumed runs for gaps, and the reservations of memory against "
        "the processes; with RUN, one run. Prints a line for each finding, with the file and what to do, "
        "then what the runs hold on disk. It changes nothing without --repair. The exit status is 0 if all "
        "is sound, and 1 after a problem.",
    .notes = "  problem   something is damaged, missing or in the wrong place\n"
             "  repaired  it was, and no longer is (--repair)\n"
             "  note      nothing is wrong, but something is left over: `anneal clean` removes it\n"
             "\n"
             "Checkpoints are read whole, which may take as long as copying them. Ctrl-C ends it at once.\n"
             "\n"
             "  anneal doctor\n"
             "  anneal doctor latest\n"
             "  anneal doctor --repair\n"
             "  anneal doctor --json | jq '.findings[].path'");
