/* See complete.h. All candidates come from the program's tables: commands and options, config.def,
 * columns.def, the recipes, and the run store. A new command needs no change here unless it takes a kind of
 * word that `sources` lacks. */
#include "tui/command/complete.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "core/base/file.h"
#include "core/model/config.h"
#include "datasets/recipe.h"
#include "runs/columns.h"
#include "runs/order.h"
#include "runs/run.h"
#include "tui/command/command.h"

enum { RUNS_MAX = 1000 }; /* only the newest are offered */

/* The word at the cursor: `prefix`, with which every candidate begins ("--device="), then `word`, to be
 * completed. */
struct request {
    FILE *out;
    int prefix_length;
    const char *prefix, *word;
};

static void offer(const struct request *r, const char *candidate, const char *meaning)
{
    if (strncmp(candidate, r->word, strlen(r->word)) != 0) return;
    fprintf(r->out, "%.*s%s\t%s\n", r->prefix_length, r->prefix, candidate, meaning);
}

/* Offers each word of "a|b|c". "cuda:N" is left out: its N stands for any number. */
static void offer_choices(const struct request *r, const char *words)
{
    char choice[80];
    for (size_t n; *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        snprintf(choice, sizeof choice, "%.*s", (int)n, words);
        if (n < 2 || strcmp(choice + n - 2, ":N") != 0) offer(r, choice, "");
    }
}

/* ---- sources of candidates ---- */

/* Whether an earlier, newer run in the list has the same name. */
static bool is_taken(const struct run_info *runs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(runs[k].name, runs[i].name) == 0) return true;
    return false;
}

/* Offers names; ids, which are many and long, only after their first letter. */
static void offer_runs(const struct request *r)
{
    struct arena arena = {0};
    struct store *store = NULL;
    struct run_info *runs = NULL;
    size_t count = 0;
    if (!store_open_untouched(&store, NULL)) run_list(store, &arena, &runs, &count, NULL);
    if (count) offer(r, "latest", "the newest run");
    for (size_t i = 0; i < count && i < RUNS_MAX; i++) {
        char meaning[80];
        snprintf(meaning, sizeof meaning, "%s, %" PRId64 " steps", status_words[runs[i].status],
                 runs[i].steps > 0 ? runs[i].steps : 0);
        if (!is_taken(runs, i)) offer(r, runs[i].name, meaning);
        if (*r->word) offer(r, runs[i].id, meaning);
    }
    store_close(store);
    arena_release(&arena);
}

static void offer_models(const struct request *r)
{
    char home[PATH_MAX], path[PATH_MAX];
    if (file_anneal_home(home, sizeof home, NULL) ||
        file_format_path(path, sizeof path, NULL, "%s/models", home))
        return;
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') offer(r, entry->d_name, "imported model");
    if (folder) closedir(folder);
}

static void offer_verbs(const struct request *r)
{
    for (int i = 0; verb_words[i]; i++) offer(r, verb_words[i], "");
}

static void offer_recipes(const struct request *r)
{
    for (int i = 0; recipes[i].name; i++) offer(r, recipes[i].name, recipes[i].summary);
}

static void offer_columns(const struct request *r)
{
    const struct column_info *columns[COLUMNS_MAX];
    int count = table_csv_columns(TABLE_RUNS, columns);
    for (int i = 0; i < count; i++) offer(r, columns[i]->name, "");
}

static void offer_bytes(const struct request *r)
{
    offer(r, "bytes", "256 tokens, one per byte");
}

static void offer_bpe(const struct request *r)
{
    offer(r, "bpe:", "a BPE of N tokens, learned from the text");
}

static void offer_files(const struct request *r)
{
    fputs(":files\n", r->out);
}

static void offer_folders(const struct request *r)
{
    fputs(":folders\n", r->out);
}

/* The help's name for a word, an option's value or a configuration key, and its candidates. Kinds that are
 * not listed (numbers, texts, new names) have none. */
static const struct source {
    const char *name;
    void (*offer[3])(const struct request *);
} sources[] = {
    {"RUN", {offer_runs}},
    {"RUN|FOLDER", {offer_runs, offer_models, offer_folders}},
    {"BASE", {offer_runs, offer_models, offer_folders}},
    {"ADAPTERS", {offer_runs, offer_folders}},
    {"VERB", {offer_verbs}},
    {"RECIPE", {offer_recipes}},
    {"KEY", {offer_columns}},
    {"FIELDS", {offer_columns}},
    {"CONFIG.ini", {offer_files}},
    {"FILE", {offer_files}},
    {"FILE.tok", {offer_files}},
    {"PATH", {offer_files}},
    {"FOLDER", {offer_folders}},
    {"tokenizer.json", {offer_files}},
    {"TOKENIZER", {offer_bytes, offer_files}},
    {"T", {offer_bytes, offer_bpe, offer_files}},
    {"INPUT", {offer_recipes, offer_files}},
    {"DATA", {offer_recipes, offer_files}},
    {"data.train", {offer_recipes, offer_files}},
    {"data.val", {offer_recipes, offer_files}},
    {"eval.tasks", {offer_files}},
    {"data.template", {offer_files}},
    {"data.tokenizer", {offer_bytes, offer_bpe, offer_files}},
    {"model.from", {offer_models, offer_folders}},
};

static void offer_source(const struct request *r, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strlen(sources[i].name) == length && memcmp(sources[i].name, name, length) == 0)
            for (int k = 0; k < 3 && sources[i].offer[k]; k++) sources[i].offer[k](r);
}

/* Offers word `position` of a command: of "RUN VERB [VALUE]" or "RUN RUN...". */
static void offer_word(const struct request *r, const struct command_line *line, int position)
{
    const char *at = line->words;
    if (line->most >= 0 && position >= line->most) return;
    for (;; position--) {
        at += strspn(at, " [");
        size_t n = strcspn(at, " .]"), whole = strcspn(at, " ]");
        bool repeats = whole > 3 && memcmp(at + whole - 3, "...", 3) == 0;
        if (position == 0 || repeats) {
            offer_source(r, at, repeats ? n : whole);
            return;
        }
        at += strcspn(at, " ");
        if (!*at) return;
    }
}

/* ---- options and settings ---- */

static const struct {
    const char *section, *full, *help;
} keys[] = {
#define KEY(section, name, kind, field, fallback, least, most, words, unit, kept, help)                      \
    {#section, #section "." #name, help},
#include "core/model/config.def"
};

static const struct {
    const char *name, *help;
} group_keys[] = {
#define GROUP_KEY(name, kind, fallback, least, most, words, unit, kept, help) {#name, help},
#include "core/model/config.def"
};

/* After "--": offers sections, then the keys of one. */
static void offer_keys(const struct request *r)
{
    char text[160];
    const char *dot = strchr(r->word, '.'), *group = dot ? strchr(dot + 1, '.') : NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool first = i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0;
        snprintf(text, sizeof text, dot ? "%s=" : "%s.", dot ? keys[i].full : keys[i].section);
        if (dot || first) offer(r, text, dot ? keys[i].help : "keys of this section");
    }
    if (!dot) offer(r, "param_group.", "keys of a group of parameters");
    for (size_t i = 0; group && i < sizeof group_keys / sizeof *group_keys; i++) {
        snprintf(text, sizeof text, "%.*s%s=", (int)(group + 1 - r->word), r->word, group_keys[i].name);
        if (strncmp(text, "param_group.", 12) == 0) offer(r, text, group_keys[i].help);
    }
}

/* The option that a word names: "--device", "--device=cpu", "-o" or "-oFILE"; NULL: none. */
static const struct option_spec *find_option(const struct command_line *line, const char *word)
{
    for (const struct option_spec *o = line->options; o && o->kind; o++) {
        size_t n = strlen(o->name);
        if (word[1] == '-' && strncmp(word + 2, o->name, n) == 0 && (!word[2 + n] || word[2 + n] == '='))
            return o;
        if (o->letter && word[1] == o->letter) return o;
    }
    return NULL;
}

static void offer_value(const struct request *r, const struct option_spec *option)
{
    if (option->kind == OPTION_CHOICE || option->kind == OPTION_DEVICE)
        offer_choices(r, option->value);
    else if (option->kind == OPTION_TEXT)
        offer_source(r, option->value, strlen(option->value));
}

/* Completes "--name=VALUE" for an option or a key. */
static void offer_behind_equals(const struct request *r, const struct command_line *line, const char *equals)
{
    const struct option_spec *option = find_option(line, r->word);
    struct request value = {r->out, (int)(equals + 1 - r->word), r->word, equals + 1};
    char key[80];
    snprintf(key, sizeof key, "%.*s", (int)(equals - r->word - 2), r->word + 2);
    if (option) {
        offer_value(&value, option);
    } else if (line->settings) {
        offer_choices(&value, config_words(key));
        offer_source(&value, key, strlen(key));
    }
}

/* `given`: the words before the cursor. */
static void offer_options(const struct request *r, const struct command_line *line, char **given, int count)
{
    struct request name = {r->out, 2, "--", r->word + (*r->word ? 2 : 0)};
    if (*r->word && strncmp(r->word, "--", strlen(r->word) < 2 ? 1 : 2) != 0) return; /* "-o" */
    if (r->word[0] && !r->word[1]) name.word = "";                                    /* "-" */
    for (const struct option_spec *o = line->options; o && o->kind; o++) {
        bool is_given = !o->help;
        for (int i = 0; i < count; i++)
            is_given = is_given || (*given[i] == '-' && find_option(line, given[i]) == o);
        if (!is_given) offer(&name, o->name, o->help);
    }
    offer(&name, "help", "print the help of this command");
    if (line->settings) offer_keys(&name);
}

/* ---- the words of the line ---- */

static void complete_command(const struct request *r, const struct command_line *line, char **given,
                             int count)
{
    const struct option_spec *waits = NULL; /* the option whose value comes next */
    bool options = true;
    int position = 0;
    for (int i = 0; i < count; i++) {
        const char *word = given[i];
        bool is_option = options && word[0] == '-' && word[1];
        if (waits || !is_option) {
            position += !waits;
            waits = NULL;
            continue;
        }
        options = strcmp(word, "--") != 0;
        waits = find_option(line, word);
        bool has_value = word[1] == '-' ? strchr(word, '=') != NULL : word[2] != '\0';
        if (waits && (has_value || waits->kind == OPTION_FLAG || waits->kind == OPTION_MAYBE)) waits = NULL;
    }
    const char *equals = strchr(r->word, '=');
    bool full = line->most >= 0 && position >= line->most;
    if (waits)
        offer_value(r, waits);
    else if (options && strncmp(r->word, "--", 2) == 0 && equals)
        offer_behind_equals(r, line, equals);
    else if (options && (r->word[0] == '-' || (full && !*r->word)))
        offer_options(r, line, given, count);
    else
        offer_word(r, line, position);
}

/* The last word of a command's name. */
static const char *last_word(const struct command *command)
{
    const char *blank = strrchr(command->line.name, ' ');
    return blank ? blank + 1 : command->line.name;
}

int complete_print(int count, char **words, FILE *out)
{
    const struct command *command = &command_anneal;
    struct request r = {out, 0, "", count ? words[count - 1] : ""};
    int i = count > 1 && strcmp(words[0], "help") == 0; /* "help train" */
    for (; command->subcommands && i < count - 1; i++) {
        const struct command *const *c = command->subcommands;
        while (*c && strcmp(last_word(*c), words[i]) != 0) c++;
        if (!*c) return 0; /* no such command */
        command = *c;
    }
    if (command->run) {
        complete_command(&r, &command->line, words + i, count - 1 - i);
        return 0;
    }
    for (const struct command *const *c = command->subcommands; *c; c++)
        offer(&r, last_word(*c), (*c)->summary);
    if (*r.word == '-') offer(&r, "--help", "print the help");
    if (*r.word == '-' && command == &command_anneal) offer(&r, "--version", "print the version");
    return 0;
}
