/* anneal fork: a new run that starts from a checkpoint of another. */
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/training_words.h"
#include "tui/session/checkpoint_choice.h"
#include "tui/session/recorded_run.h"

static const char help[] =
    "usage: anneal fork RUN [--step N] [--section.key=value ...] [--name NAME] [--device D] [--wait]\n"
    "                       [--progress P]\n"
    "\n"
    "Starts a new run from a checkpoint of RUN (an id, a unique prefix of one, a name, or `latest`), which "
    "stays "
    "as it\n"
    "is: to try another learning rate, schedule or batch from the same point. Steps are counted on from the "
    "checkpoint's;\n"
    "unchanged, their losses are bit for bit those of RUN. The history before is RUN's: `anneal show` says "
    "where "
    "a run\n"
    "was forked, `anneal compare` puts both side by side.\n"
    "\n"
    "  --step N           RUN's checkpoint of step N (default: the newest; `anneal show RUN` lists them)\n"
    "  --name NAME        what to call the new run (default: RUN's name and -fork)\n"
    "  --device, --wait, --progress, --check-allocations as for anneal train\n"
    "\n"
    "The model, the data, the optimizer and the seed must stay as they are; anything else may be changed. A "
    "checkpoint\n"
    "of weights alone (checkpoint.contents = weights) begins with a fresh optimizer.\n"
    "\n"
    "  anneal fork base --train.learning_rate=1e-4 --name gentle     from the newest checkpoint\n"
    "  anneal fork base --step 1000 --train.schedule=linear\n"
    "  anneal order base checkpoint --wait && anneal fork base       while RUN trains on\n";

/* Takes "--step N" or "--step=N" out of the words; the rest is training's. */
static enum status take_step(int argc, char **argv, char **rest, int *count, int64_t *step, struct err *err)
{
    *count = 0;
    for (int i = 0; i < argc; i++) {
        const char *value = NULL;
        if (strncmp(argv[i], "--step=", 7) == 0)
            value = argv[i] + 7;
        else if (strcmp(argv[i], "--step") == 0)
            value = argv[i + 1] ? argv[++i] : "";
        if (value && !*value) return err_set(err, STATUS_USAGE, "--step: needs a value");
        if (!value)
            rest[(*count)++] = argv[i];
        else if (!text_parse_int(value, step) || *step < 0)
            return err_set(err, STATUS_USAGE, "--step %.40s: must be the step of a checkpoint, from 0",
                           value);
        if (*count == SETTINGS_MAX + 16) return err_set(err, STATUS_USAGE, "too many words");
    }
    rest[*count] = NULL;
    return STATUS_OK;
}

static enum status find_checkpoint(const struct recorded_run *run, int64_t step, char *folder, size_t size,
                                   struct err *err)
{
    char there[200];
    enum status status = checkpoint_find(run->checkpoints, step, folder, size, err);
    if (status && file_is_folder(folder))
        return checkpoint_choice_refuse(run->checkpoints, run->info.id, err);
    if (status != STATUS_NOT_FOUND) return status;
    checkpoint_list(run->checkpoints, there, sizeof there);
    if (step < 0 || strcmp(there, "none") == 0)
        return err_set(err, status, "run %s: it has no checkpoint to fork from", run->info.id);
    return err_set(err, status, "run %s: there is no checkpoint of step %lld, or no longer (there are: %s)",
                   run->info.id, (long long)step, there);
}

int command_fork(int argc, char **argv)
{
    struct training_words words;
    struct training_options options = {0};
    struct train_report report;
    struct recorded_run run = {0};
    struct fork_origin origin;
    struct err err = {0};
    char *rest[SETTINGS_MAX + 17], folder[PATH_MAX] = "", passed_over[160] = "",
                                   sentence[RUN_ID_MAX + 168] = "", name[RUN_NAME_MAX + 8];
    int64_t step = -1;
    int count;
    enum status status = take_step(argc, argv, rest, &count, &step, &err);
    if (!status) status = training_words_parse(count, rest, &words, &err);
    if (!status && !words.help && !words.positional) return command_usage("fork", "which run?");
    if (!status && !words.help) status = training_words_of_a_recorded_run(&words, &err);
    if (status) return command_usage("fork", err.text);
    if (words.help) {
        fputs(help, stdout);
        return 0;
    }
    status = recorded_run_read(words.positional, &run, &err);
    options.config = run.config;
    if (!status) status = training_words_take(&words, &options, &report, &err);
    if (!status) status = recorded_run_check(&run, &options.config, "forked", &err);
    if (!status) status = find_checkpoint(&run, step, folder, sizeof folder, &err);
    snprintf(name, sizeof name, "%s-fork", run.info.name);
    if (!status && step < 0 &&
        checkpoint_choice_passed_over(run.checkpoints, folder, "forking", passed_over, sizeof passed_over))
        snprintf(sentence, sizeof sentence, "run %s: %s", run.info.id, passed_over);
    origin = (struct fork_origin){run.info.id, folder, run.config_text, sentence};
    options.name = !status && words.name ? words.name : name;
    options.fork = &origin;
    int code =
        status ? command_fail(&err) : training_words_exit(training_start(&options, &err), &report, &err);
    recorded_run_release(&run);
    return code;
}
