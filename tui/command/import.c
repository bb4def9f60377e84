/* `anneal import`: histories from files, as a new run. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/exchange/import.h"
#include "runs/exchange/import_store.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

struct options {
    const char *name, *store, *filter;
    int checkpoints; /* enum checkpoint_import; -1: not given */
};

/* What was left out or renamed. */
static void print_remarks(const struct import_outcome *outcome)
{
    const char *wanted = CLEAN_LINE(outcome->wanted);
    if (*outcome->remark) output_warn("%s", outcome->remark);
    if (*wanted)
        fprintf(stderr, "the run is called %s, as %s %s\n", CLEAN_LINE(outcome->name),
                strcmp(wanted, "latest") == 0 ? "the newest run is called" : "there is another run", wanted);
    if (outcome->again)
        fprintf(stderr,
                "%s was imported from the same path; if the log has grown since, delete it: %s delete %s\n",
                wanted, TEXT_PROGRAM, wanted);
    if (*outcome->names) fprintf(stderr, "names of the log: %s\n", outcome->names);
}

static void print_amounts(const struct import_outcome *outcome)
{
    fprintf(stderr, "%lld step%s%s%lld evaluation%s", (long long)outcome->steps, text_plural(outcome->steps),
            outcome->measures ? ", " : " and ", (long long)outcome->evals, text_plural(outcome->evals));
    if (outcome->measures)
        fprintf(stderr, " and %lld value%s of other measures", (long long)outcome->measures,
                text_plural(outcome->measures));
}

static enum status import_one(struct store *store, const char *const *paths, size_t count, const char *name,
                              struct err *err)
{
    struct import_outcome outcome;
    enum status status = import_files(store, paths, count, name, &outcome, err);
    if (status) return status;
    puts(CLEAN_LINE(outcome.id));
    print_remarks(&outcome);
    fprintf(stderr, "imported ");
    print_amounts(&outcome);
    fprintf(stderr, "; see: %s show %s\n", TEXT_PROGRAM, CLEAN_LINE(outcome.id));
    return STATUS_OK;
}

/* Imports each run by itself: a log that cannot be read keeps none of the others out. */
static enum status import_each(struct store *store, const struct import_source *sources, size_t count,
                               struct err *err)
{
    struct import_outcome outcome;
    struct err why;
    size_t imported = 0, failed = 0;
    enum status first = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        enum status status = import_once(store, &sources[i], &outcome, &why);
        if (status) {
            output_warn("left out: %s", why.text);
            if (!failed++) first = status;
        } else if (outcome.here) {
            fprintf(stderr, "left out: %s is here already, as %s", CLEAN_LINE(sources[i].name),
                    CLEAN_LINE(outcome.id));
            if (outcome.grown)
                fprintf(stderr, ", and the log has grown (to import it again, delete this run first)");
            fputc('\n', stderr);
        } else {
            imported++;
            puts(CLEAN_LINE(outcome.id));
            print_remarks(&outcome);
            fprintf(stderr, "%s: ", CLEAN_LINE(sources[i].name));
            print_amounts(&outcome);
            fputc('\n', stderr);
        }
    }
    fprintf(stderr, "imported %zu of %zu run%s; see: %s runs\n", imported, count, text_plural((int64_t)count),
            TEXT_PROGRAM);
    return failed ? err_set(err, first, "%zu of %zu logs could not be read", failed, count) : STATUS_OK;
}

static enum status import_logs(struct store *store, const struct words *words, const char *name,
                               struct err *err)
{
    struct arena arena = {0};
    struct import_source *sources;
    size_t count;
    enum status status = import_find(words->words, (size_t)words->count, &arena, &sources, &count, err);
    if (!status && count > 1 && name)
        status = err_set(err, STATUS_USAGE, "--name %s names one run, and these folders hold those of %zu",
                         name, count);
    if (!status && count == 1 && name)
        status = import_one(store, &sources->folder, 1, name, err);
    else if (!status && count)
        status = import_each(store, sources, count, err);
    else if (!status)
        status = import_one(store, words->words, (size_t)words->count, name, err);
    arena_release(&arena);
    return status;
}

/* Prints the ids of the imported runs, and on standard error why others were left out. failed: an error ended
 * it. */
static void print_imported(const char *folder, const struct imported_run *runs, size_t count, bool failed)
{
    size_t imported = 0;
    for (size_t i = 0; i < count; i++) {
        const char *from = CLEAN_LINE(runs[i].from), *id = CLEAN_LINE(runs[i].id);
        imported += runs[i].what == RUN_IMPORTED;
        if (runs[i].what == RUN_IMPORTED)
            puts(id);
        else if (runs[i].what == RUN_IS_PARTIAL)
            fprintf(
                stderr,
                "left out: run %s has records in its folder that the database lacks: `ANNEAL_HOME=\"%s\" %s "
                "doctor --repair` stores them, then import it again\n",
                from, CLEAN_LINE(folder), TEXT_PROGRAM);
        else if (runs[i].what == RUN_IS_HERE && runs[i].steps < runs[i].steps_there)
            fprintf(stderr,
                    "left out: run %s is here already, with %lld of the %lld steps that it has there (to "
                    "take that one, "
                    "delete this one, then import it again)\n",
                    from, (long long)runs[i].steps, (long long)runs[i].steps_there);
        else
            fprintf(stderr, "left out: run %s %s\n", from,
                    runs[i].what == RUN_IS_HERE ? "is here already"
                                                : "still trains: import it when it has ended");
        if (runs[i].what == RUN_IMPORTED && strcmp(from, id) != 0)
            fprintf(stderr, "run %s is %s here, as the id was in use\n", from, id);
    }
    fprintf(stderr, "imported %zu of %zu run%s%s\n", imported, count, text_plural((int64_t)count),
            failed ? " before the error" : "");
}

static enum status import_runs(struct store *store, const struct options *o, struct err *err)
{
    struct arena arena = {0};
    struct imported_run *runs = NULL;
    size_t count = 0;
    const struct store_import request = {
        o->store, o->filter, o->checkpoints < 0 ? CHECKPOINTS_LINK : (enum checkpoint_import)o->checkpoints};
    enum status status = import_store(store, &request, &arena, &runs, &count, err);
    if (!status || count) print_imported(o->store, runs, count, status != STATUS_OK);
    arena_release(&arena);
    return status;
}

static enum status look_for(const char *path, struct err *err)
{
    if (access(path, R_OK) == 0) return STATUS_OK;
    return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot open: %s", path,
                   strerror(errno));
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct store *store = NULL;
    enum status status = STATUS_OK;
    if (!o->store && !words->count) return err_set(err, STATUS_USAGE, "needs a FILE, or --store FOLDER");
    if (o->store && (words->count || o->name))
        return err_set(err, STATUS_USAGE,
                       "--store imports runs as they are called there: no FILE and no --name");
    if (!o->store && (o->filter || o->checkpoints >= 0))
        return err_set(err, STATUS_USAGE, "--filter and --checkpoints need --store FOLDER");
    /* before the store is opened, which makes one where there is none: a mistyped path must leave nothing */
    if (o->store) status = look_for(o->store, err);
    for (int i = 0; !status && i < words->count; i++) status = look_for(words->words[i], err);
    if (!status) status = store_open(NULL, STORE_WRITE, &store, err);
    if (!status) status = o->store ? import_runs(store, o, err) : import_logs(store, words, o->name, err);
    store_close(store);
    return status;
}

static const struct options defaults = {.checkpoints = -1};

static const struct option_spec options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME",
           "the name of the new run (default: the name of the run or of the folder that the files come "
           "from, with -2, -3 and so on if a run has that name). A run from anneal's CSV keeps its id unless "
           "that id is taken"),
    OPTION("store", OPTION_TEXT, AT(store), "FOLDER",
           "imports the runs of another store instead, which is only read: FOLDER is ANNEAL_HOME there, or a "
           "copy"),
    OPTION("filter", OPTION_TEXT, AT(filter), "EXPR",
           "of that store the runs that pass, as for `anneal runs` (default: all that are not archived)"),
    OPTION(
        "checkpoints", OPTION_CHOICE, AT(checkpoints), "link|copy|none",
        "link (the default): the runs' checkpoints stay in FOLDER, and are used from there. copy: they are "
        "copied. none: only their list is imported"),
    {0},
};

const struct command command_import = COMMAND(
    "import", "FILE...", 0, -1, options, "make a run from CSV, JSON, or a log of TensorBoard, wandb or llm.c",
    run, defaults,
    .about =
        "Makes one new run, with status finished, from the history in the files, and prints its id. The "
        "commands runs, show, watch, compare and export treat it like any other run. If a file is bad, "
        "nothing is imported.\n\n"
        "Folders that hold logs of several runs, of TensorBoard, wandb or Lightning, make a run of each. "
        "Those that were imported before are left out, so the command can be repeated when there are more. "
        "Those that cannot be read are named, and the exit status is then not 0.\n\n"
        "With --store FOLDER, imports the runs of another store, such as a server's, with their "
        "configuration, history, tags, log and checkpoints, and prints their ids. Runs that are here already "
        "or still train there are left out.\n\n"
        "  anneal's CSV   what `anneal export` wrote: any of its tables, of one run, several files at once\n"
        "  other CSV      with a column step, global_step, iteration or epoch; every other column with "
        "numbers\n"
        "                 is a metric, as in Lightning's and Keras's CSVLogger; one file at a time\n"
        "  JSON           an object for each step with such a number, one in a line or all in a list, or "
        "the\n"
        "                 trainer_state.json of Hugging Face's trainer; one file at a time\n"
        "  TensorBoard    scalars as CSV, Wall time,Step,Value; the metric is the file's name: loss.csv,\n"
        "                 run-7-tag-val_loss.csv; known are loss, lr, grad_norm, clip_scale, "
        "tokens_per_sec,\n"
        "                 step_ms, mfu, epoch, tokens, val_loss, val_perplexity, eval_ms, and some names\n"
        "                 of other programs (train/loss, learning_rate, validation_loss, perplexity, ...)\n"
        "                 Its event files (events.out.tfevents...), or the folder with them: metrics by the\n"
        "                 same names, all other scalars become measures of the evaluations. Folders in it\n"
        "                 are parts of the run, as are train/ and validation/ of Keras in a folder: loss in\n"
        "                 validation/ is validation/loss\n"
        "  wandb          an offline run (run-ID.wandb), or its folder: the history as above, the\n"
        "                 configuration as keys wandb.NAME, name, notes and tags; numbers of the summary "
        "that\n"
        "                 the history lacks are measures at the end. Its step is that of define_metric,\n"
        "                 else train/global_step, trainer/global_step or iter, else the number of the row\n"
        "  llm.c          its main.log: s:STEP trl:LOSS lr:LR norm:NORM, s:STEP tel:LOSS, s:STEP eval:X",
    .notes = "A log that is named by itself makes a new run each time. To have one again that has grown, "
             "delete its run before.\n\n"
             "  anneal import results/*.csv\n"
             "  anneal import log124M/main.log --name gpt2-124M\n"
             "  anneal import scalars/*.csv --name other\n"
             "  anneal import checkpoint-500/trainer_state.json --name tuned\n"
             "  anneal import runs/May05_12-00-00\n"
             "  anneal import wandb/offline-run-20260505_120000-abcd1234\n"
             "  anneal import runs wandb lightning_logs\n"
             "  anneal import --store server/anneal --filter 'status=finished and age<7d'");
