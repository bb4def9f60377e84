/* anneal train, resume, fork: a new run or several of different seeds, another segment of a run, a new run
 * from a checkpoint of another. train_report.h shows how it goes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "core/train/schedule.h"
#include "datasets/inputs.h"
#include "tui/command/background.h"
#include "tui/command/command.h"
#include "tui/command/dry_run.h"
#include "tui/command/mpirun.h"
#include "tui/command/output.h"
#include "tui/command/train_report.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

/* ---- the options ---- */

struct options {
    const char *name, *device, *tags;
    int progress;
    int64_t step;        /* of a fork; -1: the newest */
    int64_t decay;       /* of a fork: steps until its end, in which the rate falls; 0: not given */
    int64_t until;       /* steps; 0: none */
    int64_t count;       /* of ranks; 0: as many as a launcher has started */
    struct ranks *ranks; /* set once they are there */
    int64_t seeds;       /* 0: one run; else a series */
    int64_t number;      /* of a run in a series, from 1; 0: it is in none */
    bool wait, watch, dry_run, json, check_allocations, help_config, resume_or_start;
};

static const struct options defaults = {.device = "auto", .step = -1};

/* clang-format off */
#define TAG_OPTION OPTION("tag", OPTION_TEXT, AT(tags), "TAG", "tags of the new run, with commas between")
#define SHARED_OPTIONS \
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, \
     "where to train (default auto: the first GPU that works, else the CPU)"), \
    OPTION("ranks", OPTION_WHOLE, AT(count), "N", \
     "trains in N processes of this host, each on its part of every batch (default: as many as a run that is " \
     "resumed or forked had, else 1)", .least = 1, .most = WORLD_RANKS_MAX), \
    OPTION("wait", OPTION_FLAG, AT(wait), NULL, \
     "waits in a queue until the device has enough free memory. Runs start in the order in which they " \
     "asked; short work (generate, evaluate, bench) may pass the queue, but does not delay its first run"), \
    OPTION("progress", OPTION_CHOICE, AT(progress), "auto|bar|plain|json|start|none", \
     "how progress is shown (default auto: a bar on a terminal, plain lines elsewhere). json: one object " \
     "per line on standard output; the first names the run, the last says how it ended, and between them " \
     "come step, eval, sample, checkpoint, event, order and status. start: plain lines until the run " \
     "begins, then nothing"), \
    OPTION("watch", OPTION_FLAG, AT(watch), NULL, "trains in the background and opens the workbench on it"), \
    OPTION("until", OPTION_WHOLE, AT(until), "STEP", \
     "saves a checkpoint after so many steps and stops; `anneal resume` goes on", .least = 1, .most = 1e12), \
    OPTION("check-allocations", OPTION_FLAG, AT(check_allocations), NULL, \
     "ends the run at the first step after step 1 that allocates memory: heap memory in the training " \
     "thread; device or page-locked memory in any thread. Not checked are evaluations, samples, " \
     "checkpoints and the recording of CUDA graphs between steps; and for heap memory a traced step and " \
     "the threads that read batches, write checkpoints and record the run")
/* clang-format on */

/* ---- configuration ---- */

/* Applies the settings on top of `config` and finishes it. A resumed run may be started from another folder,
 * so existing paths become absolute. */
static enum status apply_settings(const struct words *words, struct config *config, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < words->setting_count; i++)
        status = config_read_word(config, words->settings[i], err);
    if (!status) status = model_choice_of_config(config, err);
    if (!status) status = config_finish(config, err);
    if (status) return status;
    inputs_make_absolute(config->data.train, sizeof config->data.train);
    inputs_make_absolute(config->data.val, sizeof config->data.val);
    inputs_make_absolute(config->eval.tasks, sizeof config->eval.tasks);
    inputs_make_absolute(config->model.from, sizeof config->model.from);
    inputs_make_absolute(config->lora.from, sizeof config->lora.from);
    inputs_make_absolute(config->data.template, sizeof config->data.template);
    if (strcmp(config->data.tokenizer, "bytes") != 0 && strncmp(config->data.tokenizer, "bpe:", 4) != 0)
        inputs_make_absolute(config->data.tokenizer, sizeof config->data.tokenizer);
    return STATUS_OK;
}

enum status train_read_config(const struct words *words, struct config *config, struct err *err)
{
    const char *file = words->words[0];
    config_init(config);
    if (file && !file_exists(file))
        return err_set(
            err, STATUS_NOT_FOUND,
            "%.200s: there is no such file (this takes a configuration, not a run; `%s show` prints a run's)",
            file, TEXT_PROGRAM);
    enum status status = file ? config_read_file(config, file, err) : STATUS_OK;
    if (!status) status = apply_settings(words, config, err);
    if (status || !*config->lora.from) return status;
    status = adapter_file_require(config->lora.from, err); /* a new run needs them, a resumed one does not */
    return status ? err_prefix(err, "lora.from") : STATUS_OK;
}

/* Sets up a report and, from it and the options, a session; the caller sets the configuration. */
static void open_report(struct report *report, const struct options *o, struct training_options *training)
{
    report_init(report, (enum report_mode)o->progress, &training->watcher);
    training->silent = report->mode >= REPORT_JSON;
    training->device = o->device;
    training->ranks = o->ranks;
    training->wait = o->wait;
    training->until = o->until, training->tags = o->tags;
    training->check_allocations = o->check_allocations;
}

/* Ends a session: a run that Ctrl-C has stopped ends with 130 and no message. SIGTERM is a request to stop,
 * so stopping succeeds, even before the first step. */
static enum status conclude(enum status status, const struct report *report, struct err *err)
{
    if (status == STATUS_INTERRUPTED && interrupt_signal() == SIGUSR1)
        status = err->status = STATUS_PREEMPTED;
    if (!status && report->write_error && report->write_error != EPIPE) /* a closed pipe */
        return err_set(err, STATUS_IO, "standard output: cannot write: %s (the run itself is complete)",
                       strerror(report->write_error));
    if (!status && interrupt_signal() == SIGINT) return err_set(err, STATUS_INTERRUPTED, "%s", "");
    if (status != STATUS_INTERRUPTED || interrupt_signal() != SIGTERM) return status;
    output_say("%s", err->text);
    return STATUS_OK;
}

/* Starts the ranks that --ranks asks for; among several, rank 0 runs the command and the others follow. */
static enum status on_ranks(const char *command, const void *options, const struct words *words,
                            enum status (*run)(const struct options *, const struct words *, struct err *),
                            struct err *err)
{
    struct ranks ranks;
    struct options o = *(const struct options *)options;
    bool launched = world_launched() != 1;
    if (launched && o.watch)
        return err_set(err, STATUS_USAGE, "--watch: not with mpirun or srun (in another terminal: %s watch)",
                       TEXT_PROGRAM);
    if (o.count > 1 && !launched && !o.watch) return mpirun_start(command, o.count, words->argv, err);
    o.ranks = &ranks;
    if (launched) mpirun_join();
    enum status status = ranks_open(&ranks, o.count == 1 || o.watch, err);
    if (launched && !status && ranks.world->rank == 0) mpirun_tell(STATUS_FAILED); /* until it has ended */
    if (!status && ranks.world->rank)
        ranks_follow(&ranks);
    else if (!status)
        status = run(&o, words, err);
    bool speaks = ranks.world->rank == 0;
    if (launched && speaks) mpirun_tell(status); /* first: mpirun may kill it while it leaves the others */
    ranks_end(&ranks);
    return speaks ? status : STATUS_OK;
}

/* Unless the command says how many, a run goes on with as many ranks as it had. */
static enum status on_ranks_of(const char *word, const char *command, const void *options,
                               const struct words *words,
                               enum status (*run)(const struct options *, const struct words *, struct err *),
                               struct err *err)
{
    struct options o = *(const struct options *)options;
    struct recorded_run before;
    enum status status = STATUS_OK;
    if (!o.count && !o.watch && world_launched() == 1) {
        status = recorded_run_read(word, &before, err);
        if (!status && before.ranks.hosts > 1)
            status = err_set(err, STATUS_USAGE,
                             "run %s had %" PRId64 " ranks on %" PRId64
                             " hosts (start it with mpirun or srun again, or say how many ranks this host "
                             "takes: --ranks N)",
                             before.info.id, before.ranks.count, before.ranks.hosts);
        if (!status && before.ranks.count > 1 && o.progress < REPORT_JSON)
            output_say("%" PRId64 " ranks, as before (--ranks sets another number)", before.ranks.count);
        o.count = before.ranks.count;
        recorded_run_release(&before);
    }
    return status ? status : on_ranks(command, &o, words, run, err);
}

/* ---- resume ---- */

/* Continues a recorded run; `training` has its configuration, to which the command line's settings are added.
 */
static enum status resume(const char *command, const struct options *o, const struct words *words,
                          struct recorded_run *run, struct training_options *training, struct err *err)
{
    struct report report;
    enum status status = apply_settings(words, &training->config, err);
    if (o->number) training->config.train.seed = run->config.train.seed; /* the settings are those of all */
    recorded_run_find_tokenizer(run, &training->config);
    if (!status) status = recorded_run_check(run, &training->config, "resumed", err);
    if (status) return status;
    bool finished = run->info.status == RUN_FINISHED && training->config.train.total_steps <= run->info.steps;
    if (o->resume_or_start && (finished || run->info.status == RUN_EARLY_STOPPED)) {
        output_say("%s: nothing is left to do, the run %s", run->info.id,
                   finished ? "has finished" : "was stopped early");
        return STATUS_OK;
    }
    bool ended = run->info.status == RUN_FINISHED || run->info.status == RUN_EARLY_STOPPED ||
                 run->info.status == RUN_STOPPED;
    if (ended && o->until > 0 && o->until <= run->info.steps) {
        output_say("%s: nothing is left to do until step %" PRId64 ", the run has %" PRId64 " steps",
                   run->info.id, o->until, run->info.steps);
        return STATUS_OK;
    }
    if (o->watch) return background_watch(command, words->argv, &run->info, err);
    training->before = &run->config;
    open_report(&report, o, training);
    return conclude(training_resume(training, &run->info, err), &report, err);
}

/* Continues the run that `word` names, with its configuration, then the keys of `file` (NULL: none). */
static enum status resume_named(const char *command, const char *word, const char *file,
                                const struct options *o, const struct words *words, struct err *err)
{
    struct training_options training = {0};
    struct recorded_run run;
    enum status status = recorded_run_read(word, &run, err);
    training.config = run.config;
    if (!status && file) status = config_read_file(&training.config, file, err);
    if (!status) status = resume(command, o, words, &run, &training, err);
    recorded_run_release(&run);
    return status;
}

static enum status resume_run(const struct options *o, const struct words *words, struct err *err)
{
    return resume_named("resume", words->words[0], NULL, o, words, err);
}

static enum status run_resume(const void *options, const struct words *words, struct err *err)
{
    return on_ranks_of(words->words[0], "resume", options, words, resume_run, err);
}

/* ---- train ---- */

enum status train_find_named(const char *name, struct run_info *out, struct err *err)
{
    struct store *store = NULL;
    enum status status = store_open(NULL, STORE_READ, &store, err);
    if (!status) status = run_find_named(store, name, out, err);
    store_close(store);
    return status;
}

/* If a command is given twice at the same time, the second process must not start the run again because the
 * first has not made it yet. *fd holds a lock on the byte of a file that stands for the name; -1: locks do
 * not work here. */
static enum status hold_name(const char *name, int *fd, struct err *err)
{
    char folder[PATH_MAX - 16], path[PATH_MAX];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    lock.l_start = (off_t)(XXH64(name, strlen(name), 0) >> 2);
    *fd = -1;
    enum status status = file_in_home("runs", folder, sizeof folder, err);
    if (!status) status = file_make_folders(folder, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/.starting", folder);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0 || fcntl(*fd, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES))
        return STATUS_OK;
    close(*fd);
    return err_set(err, STATUS_BUSY, "run \"%s\": another process is starting or training it", name);
}

static enum status start_or_resume(const struct options *o, const struct words *words, struct err *err)
{
    struct training_options training = {.name = o->name};
    struct report report;
    struct run_info before;
    char hidden[PATH_MAX];
    enum status status = o->resume_or_start ? train_find_named(o->name, &before, err) : STATUS_NOT_FOUND;
    if (!status) return resume_named("train", before.id, words->words[0], o, words, err);
    if (status != STATUS_NOT_FOUND) return status;
    status = train_read_config(words, &training.config, err);
    if (status) return status;
    if (o->watch) return background_watch("train", words->argv, NULL, err);
    if (o->number) training.config.train.seed += o->number - 1;
    if (o->name && imported_model_find(o->name, hidden, sizeof hidden))
        output_warn("--name %s: this name now stands for the run, and no longer for the imported model (its "
                    "folder: %s)",
                    o->name, hidden);
    open_report(&report, o, &training);
    bool json = o->json;
    status = o->dry_run ? training_try(&training, dry_run_print, &json, err) : training_start(&training, err);
    return conclude(status, &report, err);
}

static enum status train_one(const struct options *o, const struct words *words, struct err *err)
{
    int lock = -1;
    enum status status = STATUS_OK;
    if (o->resume_or_start && !o->watch) status = hold_name(o->name, &lock, err);
    if (!status) status = start_or_resume(o, words, err);
    if (lock >= 0) close(lock);
    return status;
}

/* Trains the runs of --seeds, NAME-s1, NAME-s2 …, one after the other. The first that fails or is interrupted
 * is the last; one that an order stops is not. */
static enum status train_seeds(const struct options *o, const struct words *words, struct err *err)
{
    enum { ROOM = 8 /* for the number */ };
    struct config config;
    char base[RUN_NAME_CLEAN_MAX], name[RUN_NAME_CLEAN_MAX + 24];
    enum status status = train_read_config(words, &config, err);
    if (status) return status;
    if (config.train.seed > INT64_MAX - o->seeds)
        return err_set(err, STATUS_USAGE,
                       "--seeds %" PRId64 ": train.seed = %" PRId64 " is too large for so many", o->seeds,
                       config.train.seed);
    if (o->watch) return background_watch("train", words->argv, NULL, err);
    run_name_clean(o->name ? o->name : preset_word(config.model.preset), base, sizeof base - ROOM);
    for (int64_t n = 1; !status && n <= o->seeds && !interrupt_signal(); n++) {
        struct options one = *o;
        snprintf(name, sizeof name, "%s-s%" PRId64, base, n);
        one.name = name;
        one.number = n;
        if (o->progress < REPORT_JSON)
            output_say("run %" PRId64 " of %" PRId64 ": %s, train.seed = %" PRId64, n, o->seeds, name,
                       config.train.seed + n - 1);
        status = train_one(&one, words, err);
        if (o->dry_run) return status;
        if ((status || interrupt_signal()) && n < o->seeds) {
            char last[RUN_NAME_CLEAN_MAX + 28] = "";
            if (n + 1 < o->seeds) snprintf(last, sizeof last, " to %s-s%" PRId64, base, o->seeds);
            output_say("not started: %s-s%" PRId64
                       "%s; the same command with --resume-or-start goes on with all of "
                       "them",
                       base, n + 1, last);
        }
    }
    return status;
}

static enum status train_run(const struct options *o, const struct words *words, struct err *err)
{
    if (o->help_config) {
        config_print_help(stdout);
        return STATUS_OK;
    }
    if (o->json && !o->dry_run)
        return err_set(err, STATUS_USAGE, "--json needs --dry-run (a run reports with --progress json)");
    if (o->resume_or_start && o->dry_run)
        return err_set(err, STATUS_USAGE, "--resume-or-start and --dry-run exclude each other");
    if (o->resume_or_start && !o->name && !o->seeds)
        return err_set(err, STATUS_USAGE, "--resume-or-start needs --name, the run to look for");
    char name[RUN_NAME_CLEAN_MAX];
    if (o->resume_or_start && o->name) run_name_clean(o->name, name, sizeof name);
    if (o->resume_or_start && o->name && strcmp(o->name, name) != 0) /* another name may become the same */
        return err_set(err, STATUS_USAGE,
                       "--resume-or-start: a run cannot be called \"%.80s\" (give its name as it is stored: "
                       "--name %s)",
                       o->name, name);
    if (o->dry_run && o->watch)
        return err_set(err, STATUS_USAGE, "--watch: a dry run leaves nothing to watch");
    return (o->seeds ? train_seeds : train_one)(o, words, err);
}

static enum status run_train(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct run_info before;
    bool goes_on = o->resume_or_start && o->name && !o->seeds && !train_find_named(o->name, &before, NULL);
    return goes_on ? on_ranks_of(before.id, "train", options, words, train_run, err)
                   : on_ranks("train", options, words, train_run, err);
}

static const struct option_spec train_options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "name of the run (default: the preset's name)"),
    TAG_OPTION,
    OPTION(
        "seeds", OPTION_WHOLE, AT(seeds), "N",
        "trains N runs one after the other, NAME-s1 to NAME-sN, with train.seed, train.seed + 1, and so on. "
        "The workbench folds them into one row and one curve. The first that fails ends the series",
        .least = 1, .most = 1000),
    OPTION(
        "resume-or-start", OPTION_FLAG, AT(resume_or_start), NULL,
        "with --name: resumes the newest run of that name if there is one, as `anneal resume` does, and does "
        "nothing if it has finished; else starts it. For schedulers that run a job's command again. With "
        "--seeds, too: each run is resumed, started or left as it is"),
    SHARED_OPTIONS,
    OPTION("dry-run", OPTION_FLAG, AT(dry_run), NULL,
           "checks configuration, data and device, prints what would be trained (sizes, memory, learning "
           "rates), and makes no run"),
    OPTION("json", OPTION_FLAG, AT(json), NULL, "with --dry-run: one JSON value instead of text"),
    OPTION("help-config", OPTION_FLAG, AT(help_config), NULL,
           "lists all keys of a configuration with default, unit and accepted values"),
    {0},
};

const struct command command_train = COMMAND(
    "train", "CONFIG.ini", 0, 1, train_options, "train a new run", run_train, defaults, .settings = true,
    .about =
        "Trains a language model from scratch, or from the weights that model.from names, and records "
        "every step. Without a configuration it trains the preset `shakespeare` on the King James Bible. "
        "CONFIG.ini is a text with lines such as `learning_rate = 1e-3` below a line `[train]`: "
        "`anneal show RUN` ends with one, and --help-config lists the keys.",
    .notes =
        "  anneal train                                             the default run\n"
        "  anneal train my.ini --train.learning_rate=1e-3           a file, and a key that overrides it\n"
        "  anneal train --data.train=corpus.txt --data.tokenizer=bpe:4096\n"
        "  anneal train --data.train='shards/train_*.bin' --data.val='shards/val_*.bin' "
        "--model.vocab_size=50257\n\n"
        "Before a run allocates memory of a device, it reserves that memory, so that all your runs on this "
        "host share the device, whatever their ANNEAL_HOME. If several users set the same "
        "ANNEAL_LEDGER=/FOLDER, where all of them may write, their runs share it, too.\n"
        "Ctrl-C saves a checkpoint and stops (again a second later: at once); `anneal resume RUN` continues "
        "from there. SIGUSR1 saves a checkpoint and stops with exit status 75, as does train.time_limit "
        "before it is over: sbatch --signal=USR1@120 --requeue, with --name NAME --resume-or-start.");

static const struct option_spec resume_options[] = {SHARED_OPTIONS, {0}};

const struct command command_resume = COMMAND(
    "resume", "RUN", 1, 1, resume_options, "continue a run from its newest checkpoint", run_resume, defaults,
    .settings = true,
    .about =
        "Continues RUN (an id, a unique prefix of one, a name, `latest`, or the folder of a run, which the "
        "database need not know) from its newest checkpoint, as a new segment of the same run. A run that "
        "ended before its first checkpoint begins again. If no key is changed, the losses that follow are "
        "bit for bit those of a run that was never interrupted.\n"
        "The model, the data and the optimizer must stay as they are; all other keys may be changed.",
    .notes = "  anneal resume latest                                 continue where it stopped\n"
             "  anneal resume latest --train.total_steps=4000        train on\n"
             "  anneal resume latest --eval.early_stopping_patience=10");

/* ---- fork ---- */

/* Sets what --decay stands for. */
static enum status decay(const struct options *o, const struct words *words, int64_t step,
                         struct config *config, struct err *err)
{
    static const char *const keys[] = {"train.total_steps", "train.decay_steps", "train.schedule",
                                       "train.epochs"};
    for (int i = 0; i < words->setting_count; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const char *word = words->settings[i] + strspn(words->settings[i], "-");
            if (strncmp(word, keys[k], strlen(keys[k])) == 0 && word[strlen(keys[k])] == '=')
                return err_set(err, STATUS_USAGE, "--decay sets %s itself (leave one of the two out)",
                               keys[k]);
        }
    config->train.schedule = SCHEDULE_WSD;
    config->train.decay_steps = o->decay;
    config->train.total_steps = step + o->decay;
    config->train.epochs = 0;
    if (step < config->train.warmup_steps)
        return err_set(err, STATUS_USAGE,
                       "--decay: the checkpoint of step %" PRId64 " lies in the warm-up of %" PRId64
                       " steps (fork from a later one with --step, or set a shorter --train.warmup_steps)",
                       step, config->train.warmup_steps);
    return STATUS_OK;
}

static enum status fork_run(const struct options *o, const struct words *words, struct err *err)
{
    struct training_options training = {0};
    struct report report;
    struct recorded_run run;
    struct checkpoint_hold hold = {0};
    static const char ending[] = "-fork";
    char folder[PATH_MAX] = "", passed_over[160] = "", sentence[RUN_ID_MAX + 168] = "",
         name[RUN_NAME_CLEAN_MAX];
    enum status status = recorded_run_read(words->words[0], &run, err);
    training.config = run.config;
    if (!status) status = apply_settings(words, &training.config, err);
    recorded_run_find_tokenizer(&run, &training.config);
    if (!status) status = recorded_run_check(&run, &training.config, "forked", err);
    if (!status)
        status = recorded_run_checkpoint(&run, o->step, "forking", folder, sizeof folder, &hold, passed_over,
                                         sizeof passed_over, err);
    if (!status && *passed_over) snprintf(sentence, sizeof sentence, "run %s: %s", run.info.id, passed_over);
    if (!status && o->decay) status = decay(o, words, checkpoint_step(folder), &training.config, err);
    if (!status && o->watch) {
        checkpoint_hold_release(&hold);
        status = background_watch("fork", words->argv, NULL, err);
    } else if (!status) {
        struct fork_origin origin = {run.info.id, folder, run.config_text, sentence, &hold};
        run_name_clean(run.info.name, name, sizeof name - strlen(ending));
        strcat(name, ending);
        open_report(&report, o, &training);
        training.name = o->name ? o->name : name;
        training.fork = &origin;
        training.before = &run.config;
        status = conclude(training_start(&training, err), &report, err);
    }
    checkpoint_hold_release(&hold);
    recorded_run_release(&run);
    return status;
}

static enum status run_fork(const void *options, const struct words *words, struct err *err)
{
    return on_ranks_of(words->words[0], "fork", options, words, fork_run, err);
}

static const struct option_spec fork_options[] = {
    OPTION("step", OPTION_WHOLE, AT(step), "N",
           "RUN's checkpoint of step N (default: the newest; `anneal show RUN` lists them)"),
    OPTION(
        "decay", OPTION_WHOLE, AT(decay), "N",
        "end N steps after the checkpoint, with a learning rate that falls until then: sets train.schedule "
        "= wsd, train.decay_steps = N and train.total_steps. The first of the N steps still has the peak, so "
        "that with N = 1 nothing falls",
        .least = 1, .most = 1000000000),
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "name of the new run (default: RUN's name and -fork)"),
    TAG_OPTION,
    SHARED_OPTIONS,
    {0},
};

const struct command command_fork = COMMAND(
    "fork", "RUN", 1, 1, fork_options, "start a new run from a checkpoint of another", run_fork, defaults,
    .settings = true,
    .about = "Starts a new run from a checkpoint of RUN (an id, a unique prefix of one, a name, or "
             "`latest`), to try another learning rate, schedule or batch from the same point. RUN stays as "
             "it is. The new run counts its steps on from the checkpoint's; if no key is changed, their "
             "losses are bit for bit those of RUN. The steps before belong to RUN: `anneal show` says where "
             "a run was forked, `anneal compare` shows both side by side.\n"
             "The model, the data, the optimizer and the seed must stay as they are; all other keys may be "
             "changed. A fork from a checkpoint of weights alone (checkpoint.contents = weights) begins with "
             "a fresh optimizer. Other data need a new run: `anneal train --model.from=RUN` begins with "
             "RUN's weights.",
    .notes = "  anneal fork base --train.learning_rate=1e-4 --name gentle     from the newest checkpoint\n"
             "  anneal fork base --train.total_steps=4000 --train.schedule=linear\n"
             "  anneal fork base --decay 200                         as if it had been planned to end then\n"
             "  anneal order base checkpoint --wait && anneal fork base       while base is training");
