/* anneal demo: a first training to watch, also run by `make demo`. Announces what will happen and how long it
 * takes, looks for an earlier demo, asks how to continue, and then becomes the command that does it: train,
 * resume or watch. Without a terminal it asks nothing and trains in the foreground. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/model/config.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/view/screen.h"

#define NAME "demo"

/* Settings of a new demo, before the user's. After so many steps this model has learned what so small a
 * corpus teaches. */
static const char *const told[] = {"--train.recipe=quick", "--train.total_steps=800"};
enum { TOLD = sizeof told / sizeof *told };

struct options {
    bool new;
};

enum way { WAY_NEW, WAY_RESUME, WAY_WATCH, WAY_LEAVE };

static const struct {
    char key;
    const char *what;
} ways[] = {[WAY_NEW] = {'n', "start a new one"},
            [WAY_RESUME] = {'r', "resume it"},
            [WAY_WATCH] = {'w', "watch it"},
            [WAY_LEAVE] = {'q', "leave"}};

/* The way that loses nothing. Without a terminal nobody watches, and a failed run would fail again. */
static enum way default_way(enum run_status status, bool terminal)
{
    bool live = status_is_live(status);
    bool done = status == RUN_FINISHED || status == RUN_EARLY_STOPPED;
    if (terminal) return live || done ? WAY_WATCH : WAY_RESUME;
    return status == RUN_STOPPED || status == RUN_CRASHED ? WAY_RESUME : WAY_NEW;
}

/* Asks until the answer is one of the offers; leaves at the end of the input. */
static enum way ask(const struct run_info *demo, enum way preferred)
{
    const enum way offers[] = {preferred, WAY_NEW, WAY_LEAVE};
    char line[64];
    fprintf(stderr, "There is a demo from %s: it is %s, after %s of %s steps.\n",
            OUTPUT_TIME(demo->created_at), status_words[demo->status],
            TEXT_NUMBER(demo->steps < 0 ? 0 : demo->steps), TEXT_NUMBER(demo->total_steps));
    for (size_t i = 0; i < 3; i++) fprintf(stderr, "  %c  %s\n", ways[offers[i]].key, ways[offers[i]].what);
    for (;;) {
        fprintf(stderr, "What now? [%c] ", ways[preferred].key);
        if (!fgets(line, sizeof line, stdin)) return WAY_LEAVE;
        if (*line == '\n') return preferred;
        for (size_t i = 0; i < 3; i++)
            if (*line == ways[offers[i]].key && line[1] == '\n') return offers[i];
    }
}

/* Seconds for the remaining steps at the earlier demo's speed; 0: not known. */
static double seconds_left(const struct run_info *demo, int64_t steps)
{
    if (!(demo->tokens_per_sec > 0) || demo->tokens <= 0 || demo->steps <= 0) return 0;
    return (double)steps * ((double)demo->tokens / (double)demo->steps) / demo->tokens_per_sec;
}

static void announce(const struct run_info *demo, enum way way, int64_t total, bool terminal)
{
    int64_t steps = way == WAY_RESUME && demo->steps > 0 ? total - demo->steps : total;
    double seconds = seconds_left(demo, steps);
    const char *program = TEXT_PROGRAM, *remedy = screen_locale_remedy();
    fprintf(stderr,
            "The demo trains a small language model on the King James Bible: first it learns\n"
            "a tokenizer (seconds), then come %s steps.\n",
            TEXT_NUMBER(steps));
    if (seconds > 0)
        fprintf(stderr, "The steps take about %s at the speed of the previous demo.\n",
                CLOCK_DURATION(seconds));
    else
        fputs("800 steps take from four minutes on two cores (AMD Zen 5) to a quarter of an hour on\n"
              "older ones; after the first steps the remaining time here is shown (ETA).\n",
              stderr);
    fputs("The model writes sample texts as it learns: noise at first, words after 50 steps,\n"
          "verses after 200.\n\n",
          stderr);
    if (terminal)
        fprintf(stderr,
                "Leave with q or Ctrl-C at any time: the training continues in the background.\n"
                "  %s watch " NAME "         shows it again\n"
                "  %s order " NAME " stop    stops it, with a checkpoint to resume from\n\n",
                program, program);
    else
        fputs("Ctrl-C stops it, with a checkpoint to resume from.\n\n", stderr);
    if (terminal && remedy)
        fprintf(stderr,
                "This locale has no UTF-8, so charts are drawn in ASCII. To draw them with fine dots:\n"
                "  %s %s demo\n\n",
                remedy, getenv("MAKELEVEL") ? "make" : program);
}

/* Replaces this process by the command chosen. */
static enum status become(enum way way, const struct run_info *demo, const struct words *words, bool terminal,
                          struct err *err)
{
    const char **all = calloc((size_t)words->setting_count + 6, sizeof *all);
    size_t n = 0;
    if (!all) return err_no_memory(err, "the command line");
    all[n++] = program_invocation_name;
    all[n++] = way == WAY_NEW ? "train" : way == WAY_RESUME ? "resume" : "watch";
    all[n++] = way == WAY_NEW ? "--name=" NAME : demo->id;
    for (int i = 0; way != WAY_WATCH && i < words->setting_count; i++) all[n++] = words->settings[i];
    if (way != WAY_WATCH) all[n++] = terminal ? "--watch" : "--progress=plain";
    execv("/proc/self/exe", (char **)all);
    free(all);
    return err_set(err, STATUS_FAILED, "demo: cannot start anneal again: %s", strerror(errno));
}

/* of_new: the words for a new demo. */
static enum status start(bool new, const struct words *words, const struct words *of_new, struct err *err)
{
    bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct run_info demo = {.total_steps = 0};
    struct config config;
    enum way way = WAY_NEW;
    enum status status = train_read_config(of_new, &config, err);
    if (status) return status;
    status = train_find_named(NAME, &demo, err);
    if (status && status != STATUS_NOT_FOUND) return status;
    if (!status && !new) {
        way = default_way(demo.status, terminal);
        if (terminal) way = ask(&demo, way);
    }
    if (way == WAY_LEAVE) return STATUS_OK;
    if (way != WAY_WATCH)
        announce(&demo, way, way == WAY_RESUME ? demo.total_steps : config.train.total_steps, terminal);
    return become(way, &demo, way == WAY_NEW ? of_new : words, terminal, err);
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    struct words of_new = *words;
    size_t count = (size_t)words->setting_count;
    of_new.settings = calloc(count + TOLD + 1, sizeof *of_new.settings);
    if (!of_new.settings) return err_no_memory(err, "the command line");
    memcpy(of_new.settings, told, sizeof told);
    if (count) memcpy(of_new.settings + TOLD, words->settings, count * sizeof *words->settings);
    of_new.setting_count += TOLD;
    enum status status = start(((const struct options *)options)->new, words, &of_new, err);
    free(of_new.settings);
    return status;
}

static const struct option_spec options[] = {
    OPTION("new", OPTION_FLAG, AT(new), NULL, "starts a new demo run without asking"),
    {0},
};

const struct command command_demo = COMMAND(
    "demo", "", 0, 0, options, "train a small model on the King James Bible and watch it", run,
    (struct options){0}, .settings = true,
    .about = "Trains the default model on the King James Bible as a run named demo, in the background, and "
             "opens the workbench on it. If there is an earlier demo, it asks whether to resume it, to "
             "watch it, or to start a new one. Without a terminal it trains in the foreground with plain "
             "progress: it resumes a demo that was stopped, else starts a new one.");
