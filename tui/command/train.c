/* anneal train, resume, fork: a new run, another segment of a run, a new run from a checkpoint of another. */
#include "tui/command/train.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/hugging_face.h"
#include "datasets/inputs.h"
#include "tui/command/command.h"
#include "tui/command/dry_run.h"
#include "tui/command/train_report.h"
#include "tui/session/interrupt.h"
#include "tui/session/recorded_run.h"
#include "tui/view/launch.h"

struct options {
    const char *name;
    const char *device;
    int progress;
    int64_t step; /* of a fork; -1: the newest */
    bool wait, watch, dry_run, json, check_allocations, help_config;
};

static const struct options defaults = {.device = "auto", .step = -1};

/* clang-format off */
#define SHARED_OPTIONS \
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, \
     "where to train (default auto: the first GPU that works, else the CPU)"), \
    OPTION("wait", OPTION_FLAG, AT(wait), NULL, \
     "waits until the device has room, where other anneal processes hold its memory: first come, first served; " \
     "only short work (generate, evaluate, bench) passes those who wait, and no more of that once nothing else " \
     "stands in the way of the first"), \
    OPTION("progress", OPTION_CHOICE, AT(progress), "auto|bar|plain|json|none", \
     "how training is shown (default auto: a bar on a terminal, plain lines elsewhere). json: one object a line " \
     "on standard output, the first says which run it is, the last how it ended; between them step, eval, " \
     "sample, checkpoint, event, order, status"), \
    OPTION("check-allocations", OPTION_FLAG, AT(check_allocations), NULL, \
     "fails in the first step after step 1 that allocates memory: on the heap by the training thread, on the " \
     "device or page-locked by any. Not watched: evaluations, samples, saves and the recording of CUDA graphs " \
     "between steps; on the heap, the threads that read batches, write checkpoints and record, and a traced step " \
     "on a GPU, where NVIDIA's CUPTI allocates")
/* clang-format on */

/* ---- configuration ---- */

/* A resumed run may be started from another folder: paths that lead somewhere are kept whole. */
static void make_absolute(char path[CONFIG_TEXT_MAX])
{
    char here[PATH_MAX], whole[PATH_MAX + CONFIG_TEXT_MAX];
    if (*path == '/' || !file_exists(path) || !getcwd(here, sizeof here)) return;
    int n = snprintf(whole, sizeof whole, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path);
    if (n < CONFIG_TEXT_MAX) memcpy(path, whole, (size_t)n + 1);
}

/* Applies the settings on top of `config` and finishes it. */
static enum status apply_settings(const struct words *words, struct config *config, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < words->setting_count; i++)
        status = config_read_word(config, words->settings[i], err);
    if (!status) status = config_finish(config, err);
    if (status) return status;
    char *tokenizer = config->data.tokenizer;
    inputs_make_absolute(config->data.train, sizeof config->data.train);
    inputs_make_absolute(config->data.val, sizeof config->data.val);
    if (strcmp(tokenizer, "bytes") != 0 && strncmp(tokenizer, "bpe:", 4) != 0) make_absolute(tokenizer);
    make_absolute(config->model.from);
    return STATUS_OK;
}

enum status train_read_config(const struct words *words, struct config *config, struct err *err)
{
    config_init(config);
    enum status status = words->count ? config_read_file(config, words->words[0], err) : STATUS_OK;
    return status ? status : apply_settings(words, config, err);
}

/* Of what the options and the report say; the configuration is the caller's. */
static void fill(struct training_options *training, const struct options *o, struct train_report *report)
{
    enum report_mode mode = (enum report_mode)o->progress;
    train_report_init(report, mode);
    training->watcher = train_report_watcher(report);
    training->silent = mode == REPORT_NONE || mode == REPORT_JSON;
    training->device = o->device;
    training->wait = o->wait;
    training->check_allocations = o->check_allocations;
}

/* Ends a session: a run that Ctrl-C has stopped ends with 130 and no sentence. SIGTERM is a request,
 * and leaving is what was asked for, also before the first step. */
static enum status conclude(enum status status, const struct train_report *report, struct err *err)
{
    if (!status) status = train_report_check(report, err);
    if (!status && interrupt_signal() == SIGINT) return err_set(err, STATUS_INTERRUPTED, "%s", "");
    if (status != STATUS_INTERRUPTED || interrupt_signal() != SIGTERM) return status;
    command_say("%s", err->text);
    return STATUS_OK;
}

/* ---- train ---- */

/* Starts the same command without --watch in the background, waits for its run, opens the workbench on it. */
static enum status train_and_watch(const struct words *words, struct err *err)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    size_t all = 0, count = 0;
    while (words->argv[all]) all++;
    const char **arguments = malloc((all + 4) * sizeof *arguments);
    struct launch launch = {0};
    struct store *store = NULL;
    if (!arguments) return err_set(err, STATUS_NO_MEMORY, "no memory for the command line");
    arguments[count++] = "anneal";
    arguments[count++] = "train";
    for (size_t i = 0; i < all; i++) {
        if (strcmp(words->argv[i], "--progress") == 0)
            i++;
        else if (strcmp(words->argv[i], "--watch") != 0 && strncmp(words->argv[i], "--progress=", 11) != 0)
            arguments[count++] = words->argv[i];
    }
    arguments[count++] = "--progress=none";
    arguments[count] = NULL;
    enum status status = isatty(STDOUT_FILENO)
                             ? file_anneal_home(home, sizeof home, err)
                             : err_set(err, STATUS_FAILED,
                                       "--watch: the workbench needs a terminal, and standard output is none "
                                       "(without --watch it trains and prints its progress)");
    if (!status) status = store_open(home, &store, err);
    if (!status) status = launch_start(&launch, home, arguments, err);
    if (!status) fputs("preparing the corpus and the model...\n", stderr);
    while (!status && (status = launch_poll(&launch, store, id, err)) == STATUS_BUSY) {
        poll(NULL, 0, 50);
        status = STATUS_OK;
    }
    launch_release(&launch);
    store_close(store);
    free(arguments);
    if (status) return status;
    const char *run[] = {id, NULL};
    return command_watch.run(command_watch.defaults, &(struct words){.words = run, .count = 1}, err);
}

static enum status run_train(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct training_options training = {.name = o->name};
    struct train_report report;
    char hidden[PATH_MAX];
    if (o->help_config) {
        config_print_help(stdout);
        return STATUS_OK;
    }
    if (o->json && !o->dry_run)
        return err_set(err, STATUS_USAGE, "--json: only with --dry-run (a run reports with --progress json)");
    if (o->dry_run && o->watch)
        return err_set(err, STATUS_USAGE, "--watch: a dry run leaves nothing to look at");
    enum status status = train_read_config(words, &training.config, err);
    if (status) return status;
    if (o->watch) return train_and_watch(words, err);
    if (o->name && imported_model_find(o->name, hidden, sizeof hidden))
        command_warn(
            "--name %s: from now on means the run, and no longer the imported model (whose folder is %s)",
            o->name, hidden);
    fill(&training, o, &report);
    bool json = o->json;
    status = o->dry_run ? training_try(&training, dry_run_print, &json, err) : training_start(&training, err);
    return conclude(status, &report, err);
}

static const struct option_spec train_options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "what to call the run (default: the preset's name)"),
    SHARED_OPTIONS,
    OPTION("watch", OPTION_FLAG, AT(watch), NULL, "trains in the background and opens the workbench on it"),
    OPTION("dry-run", OPTION_FLAG, AT(dry_run), NULL,
           "checks configuration, data and device, prints what would be trained, how large and with which "
           "learning rate, and leaves no run behind"),
    OPTION("json", OPTION_FLAG, AT(json), NULL, "with --dry-run: as one JSON value"),
    OPTION("help-config", OPTION_FLAG, AT(help_config), NULL,
           "all keys of a configuration with default, unit and accepted values"),
    {0},
};

const struct command command_train = COMMAND(
    "train", "CONFIG.ini", 0, 1, train_options, "train a new run", run_train, defaults, .settings = true,
    .about = "Trains a language model from scratch and records every step. Without a configuration it "
             "trains the preset `shakespeare` on the King James Bible.",
    .notes = "  anneal train                                             the default run\n"
             "  anneal train my.ini --train.learning_rate=1e-3           a file, and a key that overrides "
             "it\n"
             "  anneal train --data.train=corpus.txt --data.tokenizer=bpe:4096 --model.vocab_size=4096\n"
             "  anneal train --data.train='shards/train_*.bin' --data.val='shards/val_*.bin' "
             "--model.vocab_size=50257\n"
             "\n"
             "Before a run allocates memory of a device it reserves it, beside all your runs on this host, "
             "of whatever ANNEAL_HOME; ANNEAL_LEDGER=/FOLDER, the same for all, makes it all users' who may "
             "write there.\n"
             "Ctrl-C saves a checkpoint and leaves (twice: leaves at once); `anneal resume RUN` goes on from "
             "there.");

/* ---- resume ---- */

static enum status run_resume(const void *options, const struct words *words, struct err *err)
{
    struct training_options training = {0};
    struct train_report report;
    struct recorded_run run;
    enum status status = recorded_run_read(words->words[0], &run, err);
    training.config = run.config;
    if (!status) status = apply_settings(words, &training.config, err);
    if (!status) status = recorded_run_check(&run, &training.config, "resumed", err);
    if (!status) {
        fill(&training, options, &report);
        status = conclude(training_resume(&training, &run.info, err), &report, err);
    }
    recorded_run_release(&run);
    return status;
}

static const struct option_spec resume_options[] = {SHARED_OPTIONS, {0}};

const struct command command_resume = COMMAND(
    "resume", "RUN", 1, 1, resume_options, "go on with a run from its newest checkpoint", run_resume,
    defaults, .settings = true,
    .about = "Goes on from the newest checkpoint of RUN (an id, a unique prefix of one, a name, or "
             "`latest`), as a new segment of the same run; one that ended before its first checkpoint "
             "begins again. Unchanged, the losses that follow are bit for bit those of a run that was "
             "never interrupted.\n"
             "The model, the data and the optimizer must stay as they are; anything else may be changed.",
    .notes = "  anneal resume latest                                 go on where it stopped\n"
             "  anneal resume latest --train.total_steps=4000        train on\n"
             "  anneal resume latest --eval.early_stopping_patience=10");

/* ---- fork ---- */

static enum status find_checkpoint(const struct recorded_run *run, int64_t step, char *folder, size_t size,
                                   struct err *err)
{
    char there[200];
    enum status status = checkpoint_find(run->checkpoints, step, folder, size, err);
    if (status && file_is_folder(folder)) return recorded_run_refuse(run->checkpoints, run->info.id, err);
    if (status != STATUS_NOT_FOUND) return status;
    checkpoint_list(run->checkpoints, there, sizeof there);
    if (step < 0 || strcmp(there, "none") == 0)
        return err_set(err, status, "run %s: it has no checkpoint to fork from", run->info.id);
    return err_set(err, status, "run %s: there is no checkpoint of step %lld, or no longer (there are: %s)",
                   run->info.id, (long long)step, there);
}

static enum status run_fork(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct training_options training = {0};
    struct train_report report;
    struct recorded_run run;
    char folder[PATH_MAX] = "", passed_over[160] = "", sentence[RUN_ID_MAX + 168] = "",
         name[RUN_NAME_MAX + 8];
    enum status status = recorded_run_read(words->words[0], &run, err);
    training.config = run.config;
    if (!status) status = apply_settings(words, &training.config, err);
    if (!status) status = recorded_run_check(&run, &training.config, "forked", err);
    if (!status) status = find_checkpoint(&run, o->step, folder, sizeof folder, err);
    if (!status && o->step < 0 &&
        recorded_run_passed_over(run.checkpoints, folder, "forking", passed_over, sizeof passed_over))
        snprintf(sentence, sizeof sentence, "run %s: %s", run.info.id, passed_over);
    if (!status) {
        struct fork_origin origin = {run.info.id, folder, run.config_text, sentence};
        snprintf(name, sizeof name, "%s-fork", run.info.name);
        fill(&training, o, &report);
        training.name = o->name ? o->name : name;
        training.fork = &origin;
        status = conclude(training_start(&training, err), &report, err);
    }
    recorded_run_release(&run);
    return status;
}

static const struct option_spec fork_options[] = {
    OPTION("step", OPTION_WHOLE, AT(step), "N",
           "RUN's checkpoint of step N (default: the newest; `anneal show RUN` lists them)"),
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "what to call the new run (default: RUN's name and -fork)"),
    SHARED_OPTIONS,
    {0},
};

const struct command command_fork = COMMAND(
    "fork", "RUN", 1, 1, fork_options, "a new run that starts from a checkpoint of another", run_fork,
    defaults, .settings = true,
    .about = "Starts a new run from a checkpoint of RUN (an id, a unique prefix of one, a name, or "
             "`latest`), which stays as it is: to try another learning rate, schedule or batch from the "
             "same point. Steps are counted on from the checkpoint's; unchanged, their losses are bit "
             "for bit those of RUN. The history before is RUN's: `anneal show` says where a run was "
             "forked, `anneal compare` puts both side by side.\n"
             "The model, the data, the optimizer and the seed must stay as they are; anything else may "
             "be changed. A checkpoint of weights alone (checkpoint.contents = weights) begins with a "
             "fresh optimizer.",
    .notes = "  anneal fork base --train.learning_rate=1e-4 --name gentle     from the newest checkpoint\n"
             "  anneal fork base --step 1000 --train.schedule=linear\n"
             "  anneal order base checkpoint --wait && anneal fork base       while RUN trains on");
