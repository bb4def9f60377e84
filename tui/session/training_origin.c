/* The origin of a session, see training_session.h. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/train/schedule.h"
#include "runs/history.h"
#include "tui/session/recorded_run.h"
#include "tui/session/training_session.h"

/* Called when the trainer has loaded a checkpoint of `run`: fails if no steps are left. A run that was killed
 * between its last checkpoint and its end (not `ended`) has its end left. */
static enum status check_rest(const struct training_session *s, const char *run, bool ended, struct err *err)
{
    int64_t step = trainer_state(s->trainer)->step, total = s->config.train.total_steps,
            until = s->options->until;
    const struct early_stopping *e = &trainer_state(s->trainer)->stopping;
    const char *program = TEXT_PROGRAM, *again = s->options->fork ? "fork" : "resume";
    if (step > total || (step == total && ended))
        return err_set(err, STATUS_USAGE,
                       "run %s: its checkpoint has done %" PRId64 " of train.total_steps = %" PRId64
                       " steps (to train longer: %s %s %s --train.total_steps=%" PRId64
                       "; to start from an earlier checkpoint: %s fork %s --step N)",
                       run, step, total, program, again, run, step * 2, program, run);
    if (until > 0 && (step > until || (step == until && ended)))
        return err_set(err, STATUS_USAGE,
                       "run %s: its checkpoint has done %" PRId64 " steps, and --until %" PRId64
                       " leaves none to do (name a later step; to start from an earlier checkpoint: "
                       "%s fork %s --step N)",
                       run, step, until, program, run);
    if (ended && e->patience > 0 && e->used >= e->patience)
        return err_set(
            err, STATUS_USAGE,
            "run %s: its patience of %" PRId64
            " evaluation%s is used up (to train longer: %s %s %s --eval.early_stopping_patience=%" PRId64
            ", or 0)",
            run, e->patience, text_plural(e->patience), program, again, run, e->used * 2);
    return STATUS_OK;
}

/* A fork with an unchanged configuration continues the other run's early stopping. Else its losses and the
 * best of them are its own. `config` and `parent`: the configurations, as text; NULL: no longer known. */
static void begin_stopping_of_fork(struct training_session *s, const char *config, const char *parent)
{
    if (s->fresh || !config || !parent || strcmp(config, parent) != 0) trainer_begin_stopping(s->trainer);
}

/* ---- resuming ---- */

/* Of a run that had no checkpoint yet: a fork takes that of the other run again, as it may have been killed
 * before it had done so. */
static enum status begin_fork_again(struct training_session *s, const struct run_info *run, struct err *err)
{
    char folder[PATH_MAX];
    enum status status = file_format_path(folder, sizeof folder, err, "%s/runs/%s/checkpoints/step-%" PRId64,
                                          s->home, run->parent_id, run->parent_step);
    if (status) return status;
    if (!file_exists(folder))
        return err_set(
            err, STATUS_NOT_FOUND,
            "run %s: it was forked from %s, and is gone (fork another checkpoint: %s fork RUN --step N)",
            s->id, folder, TEXT_PROGRAM);
    s->fresh = !checkpoint_is_full(folder);
    status = checkpoint_adopt(s->checkpoints, folder, &s->adopted_bytes, err);
    return status ? status : checkpoint_find(s->checkpoints, -1, s->origin, sizeof s->origin, err);
}

/* Fills `origin` with the newest full checkpoint. Without one: with the checkpoint of weights alone that the
 * run was forked from, if it has no other (s->fresh), or with "" to start over, if it never had one
 * (s->anew). */
static enum status find_origin(struct training_session *s, const struct run_info *run, struct err *err)
{
    struct run_history recorded;
    struct arena arena = {0};
    size_t size = sizeof s->origin;
    char newest[PATH_MAX], there[32];
    struct err why = {0};
    enum status status = checkpoint_find(s->checkpoints, CHECKPOINT_NEWEST_FULL, s->origin, size, &why);
    if (!status) return STATUS_OK;
    if (!checkpoint_find(s->checkpoints, -1, newest, sizeof newest, NULL)) {
        s->fresh = *run->parent_id && checkpoint_step(newest) == run->parent_step;
        return file_format_path(s->origin, size, err, "%s", newest); /* else refused as weights alone */
    }
    if (status != STATUS_NOT_FOUND) {
        *err = why;
        return recorded_run_refuse(s->checkpoints, run->id, err);
    }
    *s->origin = '\0';
    status = run_history_read(s->store, run->id, 1, &arena, &recorded, err);
    arena_release(&arena);
    checkpoint_list(s->checkpoints, there, sizeof there);
    if (status) return status;
    bool never = recorded.checkpoint_count == 0 && strcmp(there, "none") == 0 && run->status != RUN_FINISHED;
    if (never && *run->parent_id) return begin_fork_again(s, run, err);
    s->anew = never;
    if (never) return STATUS_OK;
    return err_set(
        err, STATUS_NOT_FOUND,
        "run %s: there is no checkpoint left to continue from below %s (start it again with `%s train`)",
        s->id, s->checkpoints, TEXT_PROGRAM);
}

/* Fills passed_over if a checkpoint newer than the run's origin exists. */
static void find_passed_over(struct training_session *s)
{
    char newest[PATH_MAX];
    int64_t from = checkpoint_step(s->origin);
    if (!recorded_run_passed_over(s->checkpoints, s->origin, "continuing", s->passed_over,
                                  sizeof s->passed_over) &&
        !checkpoint_find(s->checkpoints, -1, newest, sizeof newest, NULL) && checkpoint_step(newest) > from)
        snprintf(s->passed_over, sizeof s->passed_over,
                 "checkpoints/step-%" PRId64 ": holds weights alone; continuing from step-%" PRId64
                 ", which is full",
                 checkpoint_step(newest), from);
}

enum status training_open_resumed(struct training_session *s, struct err *err)
{
    s->fresh = s->anew = false;
    struct run_info run;
    enum status status = run_get(s->store, s->id, &run, err);
    if (!status) status = find_origin(s, &run, err);
    if (!status && s->anew && *s->config.model.from) s->weights = s->config.model.from;
    if (!status) status = training_session_open_trainer(s, err);
    if (status || s->anew) return status;
    find_passed_over(s);
    status = s->fresh ? trainer_fork(s->trainer, s->origin, &s->fresh, err)
                      : trainer_resume(s->trainer, s->origin, err);
    if (!status && *run.parent_id && checkpoint_step(s->origin) == run.parent_step) {
        /* the other run's, as adopted: to be changed again as the fork has changed it */
        struct recorded_run own, parent;
        status = recorded_run_read(s->id, &own, err);
        recorded_run_read(run.parent_id, &parent, NULL);
        if (!status) begin_stopping_of_fork(s, own.config_text, parent.config_text);
        recorded_run_release(&own);
        recorded_run_release(&parent);
    }
    return status ? status
                  : check_rest(s, s->id, run.status == RUN_FINISHED || run.status == RUN_EARLY_STOPPED, err);
}

void training_report_passed_over(struct training_session *s, bool resumed)
{
    if (*s->passed_over && (!resumed || s->options->silent)) /* where no report shows it */
        fprintf(stderr, "anneal: warning: run %s: %s\n", CLEAN_LINE(s->id), s->passed_over);
    if (!resumed || s->anew) return;
    bool moved = checkpoint_set_damaged_aside(s->checkpoints, s->origin);
    if (*s->passed_over)
        training_session_event(s, trainer_state(s->trainer)->step, "warning", "%s%s", s->passed_over,
                               moved ? " (damaged ones are renamed to step-N.damaged)" : "");
}

enum status training_recall_orders(struct training_session *s, struct err *err)
{
    struct order_row *rows; /* newest first */
    size_t count, kept = 0, late = 0;
    int64_t from = trainer_state(s->trainer)->step;
    enum status status = order_list(s->store, s->id, SIZE_MAX, &s->recalled_memory, &rows, &count, err);
    if (status || count == 0) return status;
    struct order_row *recalled = arena_alloc_array(&s->recalled_memory, count, sizeof *recalled);
    if (!recalled) return err_no_memory(err, "the orders of run %s", s->id);
    for (size_t i = count; i-- > 0;) {
        const struct order_row *row = &rows[i];
        if (row->verb != ORDER_LR_FACTOR || row->applied_step < 0 ||
            !(row->argument >= 0 && row->argument <= LR_FACTOR_MAX))
            continue;
        while (kept > 0 && recalled[kept - 1].applied_step >= row->applied_step) kept--;
        recalled[kept++] = *row;
    }
    while (late < kept && recalled[late].applied_step < from) late++; /* the checkpoint has them */
    s->recalled = recalled + late;
    s->recalled_count = kept - late;
    return STATUS_OK;
}

/* Lists the lines of `after` that differ from `before`, which has the same keys in the same order, but may
 * lack parameter groups at the end: "train.total_steps = 60 (was 40), …", cut at `size`. */
static void describe_changes(const char *before, const char *after, char *buf, size_t size)
{
    char section[64] = "";
    buf[0] = '\0';
    while (*after) {
        size_t n = strcspn(after, "\n"), m = strcspn(before, "\n");
        size_t key = strcspn(before, "=") + 2;
        if (*after == '[') snprintf(section, sizeof section, "%.*s", (int)n - 2, after + 1);
        if ((n != m || memcmp(before, after, n) != 0) && key <= m)
            text_add(buf, size, ", ", "%s.%.*s (was %.*s)", section, (int)n, after,
                     key < m ? (int)(m - key) : 5, key < m ? before + key : "empty");
        if (!m && n && *after != '[') text_add(buf, size, ", ", "%s.%.*s", section, (int)n, after);
        after += n + (after[n] == '\n');
        before += m + (before[m] == '\n');
    }
}

/* Stores the keys that the command line has changed, and describes them for the run's history. */
enum status training_keep_changes(struct training_session *s, char *changes, size_t size, struct err *err)
{
    struct recorded_run before;
    char *after = config_text(&s->config);
    enum status status = recorded_run_read(s->id, &before, err);
    if (!status && !after) status = err_no_memory(err, "the configuration's text");
    if (!status) describe_changes(before.config_text, after, changes, size);
    if (!status && *changes)
        status = run_reconfigure(s->store, s->id, s->config.train.total_steps, after, err);
    recorded_run_release(&before);
    free(after);
    return status;
}

/* ---- forking ---- */

enum status training_open_forked(struct training_session *s, struct err *err)
{
    const struct fork_origin *fork = s->options->fork;
    enum status status = training_session_open_trainer(s, err);
    if (!status) status = trainer_fork(s->trainer, fork->checkpoint, &s->fresh, err);
    char *config = config_text(&s->config);
    if (!status) begin_stopping_of_fork(s, config, fork->config);
    free(config);
    return status ? status : check_rest(s, fork->run, true, err);
}

void training_report_fork(struct training_session *s)
{
    const struct fork_origin *fork = s->options->fork;
    int64_t step = trainer_state(s->trainer)->step;
    double factor = trainer_state(s->trainer)->lr_factor, cut = trainer_state(s->trainer)->lr_cut;
    char changes[240] = "", path[64], rate[80] = "", by_rollback[80] = "", *after = config_text(&s->config);
    if (after) describe_changes(fork->config, after, changes, sizeof changes);
    free(after);
    if (factor != 1)
        snprintf(rate, sizeof rate, ", with learning rate × %g by order in the original", factor);
    if (cut != 1)
        snprintf(by_rollback, sizeof by_rollback, ", with learning rate × %g by its rollbacks", cut);
    training_session_event(s, step, "info", "forked from %s after %" PRId64 " steps%s%s%s%s%s", fork->run,
                           step, s->fresh ? ", from weights alone: the optimizer begins anew" : "", rate,
                           by_rollback, *changes ? ", with " : "", changes);
    if (*fork->passed_over && s->options->silent) fprintf(stderr, "anneal: warning: %s\n", fork->passed_over);
    if (*fork->passed_over) training_session_event(s, step, "warning", "%s", fork->passed_over);
    snprintf(path, sizeof path, "checkpoints/step-%" PRId64, step);
    struct checkpoint_record adopted = {
        .step = step, .wall_time = clock_wall(), .path = path, .kind = "forked", .bytes = s->adopted_bytes};
    writer_checkpoint(s->writer, &adopted);
    s->watcher->checkpoint(s->watcher->context, &adopted);
}

void training_report_rate(struct training_session *s)
{
    const struct config *before = s->options->before;
    if (!before) return;
    const struct schedule was = schedule_of(before), now = schedule_of(&s->config);
    int64_t step = trainer_state(s->trainer)->step;
    if (step <= was.warmup || was.lr != now.lr) return;
    double last = schedule_lr(&was, step - 1), next = schedule_lr(&now, step);
    if (next <= 1.001 * last) return;
    training_session_event(s, step, "warning",
                           "the learning rate had fallen to %.3g; it begins at %.3g again "
                           "(train.learning_rate sets another)",
                           last, next);
}

void training_report_length(struct training_session *s)
{
    const struct config *c = &s->config, *before = s->options->before;
    const struct train_state *state = trainer_state(s->trainer);
    char remedy[80] = "";
    if (!before || !c->train.epochs || c->train.total_steps == before->train.total_steps) return;
    double sequences = (double)trainer_sequences(s->trainer, TASK_TRAINING), done = (double)state->cursor,
           batch = (double)c->train.batch_size * config_micro_batches(c, state->step),
           all = done + (double)c->train.batch_size * (config_micro_batches_sum(c, c->train.total_steps) -
                                                       config_micro_batches_sum(c, state->step)),
           meant = c->train.epochs * sequences;
    if (fabs(all - meant) < 2 * batch) return;
    if (meant > done + batch && !*c->train.accumulation_plan)
        snprintf(remedy, sizeof remedy, " (--train.total_steps=%.0f ends it after %g)",
                 (double)state->step + floor((meant - done) / batch), c->train.epochs);
    training_session_event(
        s, state->step, "warning",
        "train.epochs counts all steps with the new batch, so the run ends after %.2f epochs%s",
        all / sequences, remedy);
}
