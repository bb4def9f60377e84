/* `anneal delete`: deletes ended runs with all that belongs to them. On a terminal it asks first; elsewhere
 * --yes takes the place of the answer. It deletes all runs named, or none. */
#include <stdio.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/reference.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

struct options {
    bool yes;
};

static enum status check_ended(struct store *store, const struct run_info *runs, size_t count,
                               struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!run_is_alive(store, runs[i].id)) continue;
        if (runs[i].status > RUN_PAUSED)
            return err_set(err, STATUS_BUSY,
                           "run %s is being deleted, repaired or resumed by another process; nothing was "
                           "deleted (try again when that has ended)",
                           runs[i].id);
        return err_set(err, STATUS_BUSY,
                       "run %s is training; nothing was deleted (stop it first: %s order %s stop --wait)",
                       runs[i].id, TEXT_PROGRAM, runs[i].id);
    }
    return STATUS_OK;
}

/* Warns of the other runs that refer to checkpoints of these. */
static enum status warn_of_dependents(struct store *store, const struct run_info *runs, size_t count,
                                      struct arena *arena, struct err *err)
{
    struct run_references others = {0};
    const char **ids = arena_alloc_array(arena, count, sizeof *ids);
    if (!ids) return err_no_memory(err, "the names of the runs");
    for (size_t i = 0; i < count; i++) ids[i] = runs[i].id;
    enum status status = run_dependents(store, ids, count, arena, &others, err);
    for (size_t i = 0; i < others.count; i++) {
        const struct run_reference *other = &others.of[i];
        if (*other->key)
            output_warn("run %s was started from %s (%s), and may need it", other->run, other->path,
                        other->key);
        else
            output_warn("run %s was forked from %s: the steps before are recorded there alone", other->run,
                        other->path);
    }
    return status;
}

/* Whether the user confirms it. */
static bool ask(const struct run_info *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s  %s, %s steps\n", CLEAN_LINE(runs[i].id), status_words[runs[i].status],
                TEXT_NUMBER(runs[i].steps < 0 ? 0 : runs[i].steps));
    return output_ask("Delete %s with history and checkpoints?", count == 1 ? "this run" : "these runs");
}

static enum status run_deletion(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct arena arena = {0};
    struct store *store = NULL;
    struct run_info *runs = NULL;
    size_t count = (size_t)words->count;
    if (!o->yes && !isatty(STDIN_FILENO))
        return err_set(err, STATUS_USAGE, "needs --yes where no terminal can ask");
    enum status status = store_open(NULL, STORE_CHANGE, &store, err);
    if (!status) status = run_find_all(store, words->words, count, &arena, &runs, err);
    if (!status) status = check_ended(store, runs, count, err);
    if (!status) status = warn_of_dependents(store, runs, count, &arena, err);
    bool agreed = !status && (o->yes || ask(runs, count));
    for (size_t i = 0; !status && agreed && i < count; i++) {
        status = run_delete(store, runs[i].id, err);
        if (!status) fprintf(stderr, "deleted %s\n", CLEAN_LINE(runs[i].id));
    }
    if (!status && !agreed) fputs("nothing was deleted\n", stderr);
    store_close(store);
    arena_release(&arena);
    return status;
}

static const struct option_spec options[] = {
    OPTION("yes", OPTION_FLAG, AT(yes), NULL, "deletes without asking", .letter = 'y'),
    {0},
};

const struct command command_delete = COMMAND(
    "delete", "RUN...", 1, -1, options, "delete runs with their history and checkpoints", run_deletion,
    (struct options){0},
    .about =
        "Deletes ended runs: the history, the checkpoints and the folder of each. This cannot be undone. "
        "Asks first; without a terminal it needs --yes. A run that is training is refused, and then none "
        "is deleted. Warns of other runs that were started or forked from one of these.",
    .notes = "RUN is an id, the start of one, a name (the newest of that name), or latest:\n"
             "  anneal delete latest --yes");
