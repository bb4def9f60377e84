/* See training_words.h. */
#include "tui/command/training_words.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/data_words.h"
#include "tui/command/command.h"
#include "tui/session/device_choice.h"
#include "tui/session/interrupt.h"

/* "--name VALUE" or "--name=VALUE": NULL when the word is neither, and when VALUE is missing or empty (an
 * error). Moves *i past a separate value. */
static const char *option_value(const char *name, int argc, char **argv, int *i, struct err *err)
{
    size_t n = strlen(name);
    const char *value = NULL;
    if (strncmp(argv[*i], name, n) != 0 || (argv[*i][n] && argv[*i][n] != '=')) return NULL;
    if (argv[*i][n])
        value = argv[*i] + n + 1;
    else if (*i + 1 < argc)
        value = argv[++*i];
    if (value && *value) return value;
    err_set(err, STATUS_USAGE, "%s: needs a value", name);
    return NULL;
}

static enum status unknown(const char *word, struct err *err)
{
    static const char *const names[] = {"name", "device",      "progress", "watch", "wait",
                                        "help", "help-config", "dry-run",  "json",  "check-allocations"};
    char plain[80];
    size_t dashes = strspn(word, "-");
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word + dashes, "="), word + dashes);
    const char *nearest = text_nearest(plain, names, sizeof names / sizeof *names);
    return err_set(err, STATUS_USAGE, "unknown option %.80s%s%s%s", word, nearest ? " (did you mean --" : "",
                   nearest ? nearest : "", nearest ? "?)" : "");
}

static bool parse_mode(const char *word, enum report_mode *out)
{
    static const char *const names[] = {"auto", "bar", "plain", "json", "none"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(names[i], word) != 0) continue;
        *out = (enum report_mode)i;
        return true;
    }
    return false;
}

enum status training_words_parse(int argc, char **argv, struct training_words *out, struct err *err)
{
    struct training_words w = {.device = "auto"};
    const char *value;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        *err = (struct err){0};
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            w.help = true;
        } else if (strcmp(word, "--help-config") == 0) {
            w.help_config = true;
        } else if (strcmp(word, "--watch") == 0) {
            w.watch = true;
        } else if (strcmp(word, "--wait") == 0) {
            w.wait = true;
        } else if (strcmp(word, "--dry-run") == 0) {
            w.dry_run = true;
        } else if (strcmp(word, "--json") == 0) {
            w.json = true;
        } else if (strcmp(word, "--check-allocations") == 0) {
            w.check_allocations = true;
        } else if ((value = option_value("--name", argc, argv, &i, err))) {
            w.name = value;
        } else if (!err->status && (value = option_value("--device", argc, argv, &i, err))) {
            if (device_choice_check(value, err)) return err->status;
            w.device = value;
        } else if (!err->status && (value = option_value("--progress", argc, argv, &i, err))) {
            if (!parse_mode(value, &w.progress))
                return err_set(err, STATUS_USAGE, "--progress %.40s: must be auto, bar, plain, json or none",
                               value);
        } else if (err->status) {
            return err->status;
        } else if (strncmp(word, "--", 2) == 0 && strchr(word, '.') && strchr(word, '=')) {
            if (w.setting_count == SETTINGS_MAX)
                return err_set(err, STATUS_USAGE,
                               "%.80s: more than %d settings (put them into a file: anneal train CONFIG.ini)",
                               word, SETTINGS_MAX);
            w.settings[w.setting_count++] = word;
        } else if (!*word) {
            return err_set(err, STATUS_USAGE, "a word is empty");
        } else if (word[0] == '-') {
            return strchr(word, '.') ? err_set(err, STATUS_USAGE, "%.80s: must be --section.key=value", word)
                                     : unknown(word, err);
        } else if (w.positional) {
            return err_set(err, STATUS_USAGE, "%.80s: one word too many", word);
        } else {
            w.positional = word;
        }
    }
    *out = w;
    return STATUS_OK;
}

/* A resumed run may be started from another folder: paths that lead somewhere are kept whole. */
static void make_absolute(char path[CONFIG_TEXT_MAX])
{
    char here[PATH_MAX], whole[PATH_MAX + CONFIG_TEXT_MAX];
    if (*path == '/' || !file_exists(path) || !getcwd(here, sizeof here)) return;
    int n = snprintf(whole, sizeof whole, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path);
    if (n < CONFIG_TEXT_MAX) memcpy(path, whole, (size_t)n + 1);
}

enum status training_words_of_a_recorded_run(const struct training_words *words, struct err *err)
{
    if (words->watch)
        return err_set(err, STATUS_USAGE, "--watch: only for train; open `anneal watch` beside it");
    if (words->dry_run || words->json)
        return err_set(err, STATUS_USAGE, "%s: only for train", words->dry_run ? "--dry-run" : "--json");
    return STATUS_OK;
}

enum status training_words_apply(const struct training_words *words, struct config *config, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < words->setting_count; i++)
        status = config_read_word(config, words->settings[i], err);
    if (!status) status = config_finish(config, err);
    if (status) return status;
    char *tokenizer = config->data.tokenizer;
    data_words_absolute(config->data.train, sizeof config->data.train);
    data_words_absolute(config->data.val, sizeof config->data.val);
    if (strcmp(tokenizer, "bytes") != 0 && strncmp(tokenizer, "bpe:", 4) != 0) make_absolute(tokenizer);
    make_absolute(config->model.from);
    return STATUS_OK;
}

enum status training_words_take(const struct training_words *words, struct training_options *options,
                                struct train_report *report, struct err *err)
{
    train_report_init(report, words->progress);
    options->watcher = train_report_watcher(report);
    options->silent = words->progress == REPORT_NONE || words->progress == REPORT_JSON;
    options->device = words->device;
    options->wait = words->wait;
    options->check_allocations = words->check_allocations;
    return training_words_apply(words, &options->config, err);
}

/* SIGTERM is a request, and leaving is what was asked for: also before the first step. */
int training_words_exit(enum status status, const struct train_report *report, struct err *err)
{
    if (!status) status = train_report_check(report, err);
    if (!status) return interrupt_signal() == SIGINT ? 130 : 0;
    int code = command_fail(err);
    return status == STATUS_INTERRUPTED && interrupt_signal() == SIGTERM ? 0 : code;
}
