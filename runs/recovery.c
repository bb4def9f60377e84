/* See recovery.h. */
#include "runs/recovery.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/history.h"
#include "runs/journal.h"
#include "runs/spill.h"
#include "runs/table.h"

enum { ENTRIES_AT_ONCE = 1000 };

static const int64_t STEP_MAX = 1000000000000; /* as train.total_steps allows */

/* ---- from the database ---- */

/* Describes a run of the database; the texts are those of `run`, and of `config`, which is the caller's. */
static enum status describe(struct store *store, const char *run_id, struct run_info *run, char **config,
                            struct run_note *note, struct err *err)
{
    enum status status = run_get(store, run_id, run, err);
    if (!status) status = run_config(store, run_id, config, err);
    if (status) return status;
    *note = (struct run_note){.run = {.name = run->name,
                                      .device = run->device,
                                      .precision = run->precision,
                                      .config = *config,
                                      .parent_id = *run->parent_id ? run->parent_id : NULL,
                                      .tags = run->tags,
                                      .parameters = run->parameters,
                                      .frozen_parameters = run->frozen_parameters,
                                      .total_steps = run->total_steps,
                                      .parent_step = run->parent_step},
                              .note = run->note,
                              .created_at = run->created_at};
    return STATUS_OK;
}

static enum status newest_stored(struct store *store, const char *run_id, int64_t *number, struct err *err)
{
    return store_number(store, number, 0, err, "select recorded from runs where id = ?1", "s", run_id);
}

enum status recovery_begin(struct store *store, const char *run_id, struct spill *spill, struct err *err)
{
    struct run_note note;
    struct run_info run;
    char path[PATH_MAX], *config = NULL;
    int64_t number = 0;
    enum status status = run_path(store, run_id, "records", path, err);
    if (!status) status = describe(store, run_id, &run, &config, &note, err);
    if (!status) status = newest_stored(store, run_id, &number, err);
    if (!status) status = spill_make(spill, path, &note, (uint64_t)number, err);
    run_folder(store, run_id, path, sizeof path);
    file_sync_folder_of(path); /* so that a power cut leaves the new folder in `runs` */
    free(config);
    return status;
}

static enum status save_table(struct store *store, const char *run_id, enum store_table table,
                              struct spill *spill, struct err *err)
{
    char sql[1600], fields[800];
    struct arena arena = {0};
    union message message;
    sqlite3_stmt *select;
    table_fields(table, fields, sizeof fields);
    snprintf(sql, sizeof sql, "select t.segment, %s from %s t where t.run_id = ?1 order by %s", fields,
             store_tables[table].name, store_tables[table].order);
    enum status status = store_query(store, &select, err, sql, "s", run_id);
    while (store_next(store, select, &status, err)) {
        message = (union message){.bytes = {0}};
        if (table_read(table, select, 1, &arena, &message))
            status = spill_add(spill, sqlite3_column_int(select, 0), (int)table, &message, err);
        else
            status = err_no_memory(err, "run %s", run_id);
        arena_release(&arena);
    }
    return status;
}

enum status recovery_save(struct store *store, const char *run_id, struct spill *spill, struct err *err)
{
    enum status status = STATUS_OK;
    for (int t = 0; !status && t < TABLE_COUNT; t++)
        if (message_is_row(t)) status = save_table(store, run_id, (enum store_table)t, spill, err);
    return status;
}

/* ---- into the database ---- */

struct reading {
    struct journal journal;
    struct spill spill;
    double created_at;
    int64_t first, stored; /* first: the lowest step that was added; -1: none */
};

/* Refuses an entry with a status or a step that no trainer writes. */
static enum status check(const struct reading *r, const struct spill_entry *entry, struct err *err)
{
    const union message *m = &entry->message;
    int64_t status = entry->kind == MESSAGE_STATUS || entry->kind == MESSAGE_END ? *(const int64_t *)m : 0;
    bool step = (entry->kind == TABLE_STEPS && (m->step.step < 0 || m->step.step > STEP_MAX)) ||
                (entry->kind == MESSAGE_SEGMENT && ((const struct segment_note *)m)->step > STEP_MAX);
    if (status >= 0 && status < RUN_CRASHED && !step) return STATUS_OK;
    return err_set(err, STATUS_CORRUPT, "%s: record %llu cannot have been written by anneal", r->spill.path,
                   (unsigned long long)entry->number);
}

/* Rows belong to the segment of their entry. */
static enum status enter_segment(struct reading *r, const struct spill_entry *entry, struct err *err)
{
    struct journal *j = &r->journal;
    double at = entry->kind == TABLE_STEPS ? entry->message.step.wall_time : r->created_at;
    if (j->segment == entry->segment) return STATUS_OK;
    j->segment = entry->segment;
    j->has_steps = false;
    enum status status = journal_add_segment(j, at > 0 ? at : 0, err);
    return status ? status
                  : store_do(j->store, err, "update runs set segment = max(segment, ?2) where id = ?1", "sn",
                             j->run_id, j->segment);
}

static enum status take(struct reading *r, const struct spill_entry *entry, struct err *err)
{
    struct journal *j = &r->journal;
    enum status status = check(r, entry, err);
    if (!status) status = enter_segment(r, entry, err);
    if (!status) status = journal_take(j, entry->kind, &entry->message, err);
    if (status) return status;
    if (entry->kind == TABLE_STEPS && (r->first < 0 || entry->message.step.step < r->first))
        r->first = entry->message.step.step;
    r->stored++;
    return store_do(j->store, err, "update runs set recorded = ?2 where id = ?1", "si", j->run_id,
                    (int64_t)entry->number);
}

/* In one transaction: at most ENTRIES_AT_ONCE entries. */
static enum status take_some(struct reading *r, int64_t newest, struct err *err)
{
    struct spill_entry entry;
    enum status status = store_begin(r->journal.store, err);
    if (status) return status;
    for (int n = 0; !status && n < ENTRIES_AT_ONCE && spill_waits(&r->spill); n++) {
        status = spill_next(&r->spill, &entry, err);
        if (!status && (int64_t)entry.number > newest) status = take(r, &entry, err);
    }
    return store_end(r->journal.store, status, err);
}

/* Brings up to date what is computed from the rows: summaries, and the run's row. */
static enum status finish(struct reading *r, struct err *err)
{
    struct journal *j = &r->journal;
    struct rollup rollup;
    int64_t end;
    enum status status = store_begin(j->store, err);
    if (status) return status;
    status = store_number(j->store, &end, 0, err, "select max(step) + 1 from steps where run_id = ?1", "s",
                          j->run_id);
    if (!status && r->first >= 0) status = rollup_begin(&rollup, j->store, j->run_id, r->first, err);
    if (!status && r->first >= 0) status = rollup_begin(&rollup, j->store, j->run_id, end, err);
    if (!status) status = journal_count_steps(j->store, j->run_id, err);
    if (!status) status = journal_count_evals(j->store, j->run_id, err);
    return store_end(j->store, status, err);
}

/* Lists a checkpoint's folder that the database does not list. */
static enum status list_checkpoint(struct store *store, const char *run_id, const char *folder,
                                   const char *name, int64_t *listed, struct err *err)
{
    char whole[PATH_MAX], path[300];
    struct stat info;
    int64_t step, known, segment;
    if (strncmp(name, "step-", 5) != 0 || !text_parse_int(name + 5, &step) || step < 0) return STATUS_OK;
    if (file_format_path(whole, sizeof whole, err, "%s/%s", folder, name)) return err->status;
    if (stat(whole, &info) != 0 || !S_ISDIR(info.st_mode)) return STATUS_OK;
    enum status status = run_lists_checkpoint(store, run_id, step, &known, err);
    if (!status)
        status = store_number(store, &segment, 1, err, "select max(segment) from segments where run_id = ?1",
                              "s", run_id);
    if (status || known) return status;
    snprintf(path, sizeof path, "checkpoints/%s", name);
    struct checkpoint_record record = {step, (double)info.st_mtime, path, "last",
                                       file_tree_bytes(whole, NULL)};
    ++*listed;
    return table_add(store, TABLE_CHECKPOINTS, run_id, (int)segment, &record, err);
}

/* *listed grows by the number of those that the database did not list. */
static enum status list_checkpoints(struct store *store, const char *run_id, int64_t *listed, struct err *err)
{
    char folder[PATH_MAX];
    enum status status = run_path(store, run_id, "checkpoints", folder, err);
    DIR *entries = status ? NULL : opendir(folder);
    for (struct dirent *entry; !status && entries && (entry = readdir(entries));)
        status = list_checkpoint(store, run_id, folder, entry->d_name, listed, err);
    if (entries) closedir(entries);
    return status;
}

/* Makes the row of a run that the database does not know. One whose newest checkpoint is that of its last
 * step has finished, unless its file of records says how it ended; any other has been running. */
static enum status restore(struct store *store, const char *run_id, const struct run_note *note, bool *made,
                           struct err *err)
{
    int64_t known, listed = 0;
    enum status status =
        store_number(store, &known, 0, err, "select count(*) from runs where id = ?1", "s", run_id);
    if (status || known) return status;
    status = store_begin(store, err);
    if (!status) status = run_insert(store, &note->run, run_id, note->created_at, err);
    if (!status) status = list_checkpoints(store, run_id, &listed, err);
    if (!status)
        status =
            store_do(store, err,
                     "update runs set status = 'running', note = ?2, steps ="
                     " ifnull((select max(step) from checkpoints where run_id = ?1), steps) where id = ?1",
                     "ss", run_id, note->note ? note->note : "");
    if (!status)
        status = store_do(store, err,
                          "update runs set status = 'finished', ended_at ="
                          " (select max(wall_time) from checkpoints where run_id = ?1)"
                          " where id = ?1 and total_steps > 0 and steps >= total_steps",
                          "s", run_id);
    status = store_end(store, status, err);
    *made = !status;
    return status;
}

/* Renames the file to "records.damaged", or with -2, -3, ... if earlier ones are there, and writes a new one.
 */
static void set_aside(struct store *store, const char *run_id, struct spill *spill, struct repair *out)
{
    char aside[PATH_MAX + 32];
    struct spill fresh;
    int n = snprintf(aside, sizeof aside, "%s.damaged", spill->path);
    for (int i = 2; file_exists(aside); i++) snprintf(aside + n, sizeof aside - (size_t)n, "-%d", i);
    if (rename(spill->path, aside) != 0) return; /* the damaged file stays where it is */
    snprintf(out->aside, sizeof out->aside, "%s", strrchr(aside, '/') + 1);
    out->cut = spill->first > 0;
    spill_close(spill);
    if (!recovery_begin(store, run_id, &fresh, NULL)) spill_close(&fresh);
}

enum status recovery_read(struct store *store, const char *run_id, struct repair *out, struct err *err)
{
    struct reading r = {.first = -1};
    struct run_note note;
    struct err why = {0};
    char path[PATH_MAX];
    int64_t newest = 0;
    enum status status = run_path(store, run_id, "records", path, err);
    if (status) return status;
    status = spill_open(&r.spill, path, &note, &why);
    bool damaged = status == STATUS_CORRUPT;
    if (status && !(damaged && r.spill.first)) {
        if (damaged) set_aside(store, run_id, &r.spill, out);
        spill_close(&r.spill);
        if (status == STATUS_NOT_FOUND) return STATUS_OK;
        return err_set(err, status, "%s", why.text);
    }
    r.created_at = note.created_at;
    status = store_sync_commits(store, true, err); /* the file goes: the disk must have all that it holds */
    if (!status) status = restore(store, run_id, &note, &out->made, err);
    if (!status) status = newest_stored(store, run_id, &newest, err);
    r.journal = (struct journal){.store = store, .late = true, .status = RUN_RUNNING};
    snprintf(r.journal.run_id, sizeof r.journal.run_id, "%s", run_id);
    while (!status && spill_waits(&r.spill)) status = take_some(&r, newest, err);
    if (!status && r.spill.end > r.spill.first) status = finish(&r, err); /* also if all was stored before */
    (void)store_sync_commits(store, false, NULL);
    if (!status && !damaged) spill_clear(&r.spill);
    if (!status && damaged) {
        set_aside(store, run_id, &r.spill, out);
        status = err_set(err, STATUS_CORRUPT, "%s (what comes before it is stored)", why.text);
    }
    spill_close(&r.spill);
    out->stored = r.stored;
    return status;
}

/* ---- for users ---- */

enum status recovery_look(struct store *store, const char *run_id, bool *found, int64_t *waiting,
                          struct err *err)
{
    struct spill spill;
    struct spill_entry entry;
    struct run_note note;
    char path[PATH_MAX];
    int64_t newest = 0;
    *found = false;
    *waiting = 0;
    enum status status = run_path(store, run_id, "records", path, err);
    if (!status) status = newest_stored(store, run_id, &newest, err);
    if (status) return status;
    status = spill_open(&spill, path, &note, err);
    *found = status != STATUS_NOT_FOUND;
    while (spill.first && spill_waits(&spill) && !spill_next(&spill, &entry, NULL))
        *waiting += (int64_t)entry.number > newest;
    spill_close(&spill);
    return *found ? status : STATUS_OK;
}

/* Lists the checkpoints of a run, if the database knows it. */
static enum status list_known(struct store *store, const char *run_id, int64_t *listed, struct err *err)
{
    int64_t known = 0;
    enum status status = store_begin(store, err);
    if (status) return status;
    status = store_number(store, &known, 0, err, "select count(*) from runs where id = ?1", "s", run_id);
    if (!status && known) status = list_checkpoints(store, run_id, listed, err);
    return store_end(store, status, err);
}

enum status recovery_repair(struct store *store, const char *run_id, struct repair *out, struct err *err)
{
    struct run_lock lock;
    struct err other;
    *out = (struct repair){.made = false};
    snprintf(out->id, sizeof out->id, "%s", run_id);
    enum status status = run_lock_acquire(store, run_id, &lock, err);
    if (status) return status;
    status = recovery_read(store, run_id, out, err);
    if (!status)
        status = list_known(store, run_id, &out->listed, err);
    else if (*out->aside) /* the folder beside the damaged file may be sound */
        (void)list_known(store, run_id, &out->listed, &other);
    run_lock_release(&lock);
    if (status != STATUS_CORRUPT || !out->cut) return status;
    out->err = *err;
    return out->err.status = STATUS_OK;
}

enum status recovery_repair_all(struct store *store, struct arena *arena, struct repair **out, size_t *count,
                                struct err *err)
{
    char runs[PATH_MAX], path[PATH_MAX];
    struct dirent **folders = NULL;
    void *list = NULL;
    enum status status = file_format_path(runs, sizeof runs, err, "%s/runs", store_home(store));
    int n = status ? 0 : scandir(runs, &folders, file_is_visible, alphasort);
    *count = 0;
    for (int i = 0; i < n; i++) {
        const char *id = folders[i]->d_name;
        struct repair *repair = status ? NULL : arena_grow(arena, &list, *count, sizeof *repair);
        if (!status && !repair) status = err_no_memory(err, "the runs to repair");
        if (!status && strlen(id) < RUN_ID_MAX && !run_path(store, id, "records", path, NULL) &&
            file_exists(path) && !run_is_alive(store, id)) {
            *repair = (struct repair){.made = false};
            recovery_repair(store, id, repair, &repair->err);
            *count += repair->made || repair->stored || repair->listed || repair->cut || repair->err.status;
        }
        free(folders[i]);
    }
    free(folders);
    *out = list;
    return status;
}
