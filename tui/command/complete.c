/* See complete.h. All candidates come from the program's tables: commands and options, config.def,
 * columns.def, the recipes, and the run store. A new command needs no change here unless it takes a kind of
 * word that `sources` lacks. */
#include "tui/command/complete.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/config.h"
#include "datasets/recipe.h"
#include "runs/field.h"
#include "runs/order.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/session/sweep.h"

enum { RUNS_MAX = 1000 }; /* only the newest are offered */

/* The word at the cursor: `prefix`, with which every candidate begins ("--device="), then `word`, to be
 * completed. The prefix of a value is what stands before it in memory. */
struct request {
    FILE *out;
    int prefix_length;
    const char *prefix, *word;
};

/* The same for what follows the first `done` bytes of a value. */
static struct request behind(const struct request *r, size_t done)
{
    return (struct request){r->out, r->prefix_length + (int)done, r->prefix_length ? r->prefix : r->word,
                            r->word + done};
}

/* The same for the last of several names with commas between. */
static struct request last_name(const struct request *r)
{
    const char *comma = strrchr(r->word, ',');
    return behind(r, comma ? (size_t)(comma + 1 - r->word) : 0);
}

static void offer(const struct request *r, const char *candidate, const char *meaning)
{
    if (strncmp(candidate, r->word, strlen(r->word)) != 0) return;
    if (strcmp(candidate, CLEAN_LINE(candidate)) != 0) return; /* the shell would show control characters */
    fprintf(r->out, "%.*s%s\t%s\n", r->prefix_length, r->prefix, candidate, CLEAN_LINE(meaning));
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

/* The newest runs; none where there is no store that can be read at once. */
static size_t newest_runs(struct arena *arena, struct run_info **runs)
{
    struct store *store = NULL;
    size_t count = 0;
    if (!store_open(NULL, STORE_UNTOUCHED, &store, NULL)) run_list(store, arena, runs, &count, NULL);
    store_close(store);
    return count < RUNS_MAX ? count : RUNS_MAX;
}

/* Offers names; ids, which are many and long, only after their first letter. */
static void offer_runs(const struct request *r)
{
    struct arena arena = {0};
    struct run_info *runs = NULL;
    size_t count = newest_runs(&arena, &runs);
    if (count) offer(r, "latest", "the newest run");
    for (size_t i = 0; i < count; i++) {
        char meaning[80];
        snprintf(meaning, sizeof meaning, "%s, %" PRId64 " steps", status_words[runs[i].status],
                 runs[i].steps > 0 ? runs[i].steps : 0);
        if (!is_taken(runs, i)) offer(r, runs[i].name, meaning);
        if (*r->word) offer(r, runs[i].id, meaning);
    }
    arena_release(&arena);
}

/* Offers the tags of the newest runs; the shells drop those that come twice. */
static void offer_tags(const struct request *r)
{
    struct arena arena = {0};
    struct run_info *runs = NULL;
    size_t count = newest_runs(&arena, &runs);
    for (size_t i = 0; i < count; i++)
        for (char *rest = runs[i].tags, *tag; (tag = strsep(&rest, " "));)
            if (*tag) offer(r, tag, "tag");
    arena_release(&arena);
}

static void offer_models(const struct request *r)
{
    char path[PATH_MAX];
    DIR *folder = file_in_home("models", path, sizeof path, NULL) ? NULL : opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') offer(r, entry->d_name, "imported model");
    if (folder) closedir(folder);
}

static void offer_sweeps(const struct request *r)
{
    struct arena arena = {0};
    const char **names;
    size_t count;
    if (sweep_list(&arena, &names, &count, NULL)) count = 0;
    for (size_t i = 0; i < count; i++) offer(r, names[i], "sweep");
    arena_release(&arena);
}

static void offer_verbs(const struct request *r)
{
    for (int i = 0; verb_words[i]; i++) offer(r, verb_words[i], "");
}

static void offer_recipes(const struct request *r)
{
    for (int i = 0; recipes[i].name; i++) offer(r, recipes[i].name, recipes[i].summary);
}

/* Whether a field is a metric or a measure. */
static bool is_metric(const char *name)
{
    struct field field;
    return field_find(name, &field) && !field.column && !field.made &&
           (field.metric != METRIC_COUNT || !strchr(name, '.'));
}

/* Offers the fields of runs, or only their metrics; keys of the configuration, which are many, only after a
 * letter. */
static void offer_names(const struct request *r, bool metrics)
{
    struct arena arena = {0};
    struct store *store = NULL;
    const char *const *names = NULL;
    size_t count = 0;
    if (metrics) offer(r, metric_name(METRIC_LOSS), "");
    if (metrics) offer(r, metric_name(METRIC_TOKENS_PER_SEC), "");
    if (!store_open(NULL, STORE_UNTOUCHED, &store, NULL))
        field_names_read(store, &arena, &names, &count, NULL);
    for (size_t i = 0; names && i < count; i++)
        if (metrics ? is_metric(names[i]) && strcmp(names[i], metric_name(METRIC_LOSS)) != 0
                    : *r->word || !strchr(names[i], '.'))
            offer(r, names[i], "");
    store_close(store);
    arena_release(&arena);
}

/* For the last of the names, which "-" may precede in an order. */
static void offer_fields(const struct request *r)
{
    struct request name = last_name(r);
    name = behind(&name, *name.word == '-');
    offer_names(&name, false);
}

static void offer_metrics(const struct request *r)
{
    struct request name = last_name(r);
    offer_names(&name, true);
}

static void offer_adapters(const struct request *r)
{
    struct request name = last_name(r);
    offer_runs(&name);
}

/* For the last word of a filter (filter.h), unless it is a value. */
static void offer_filter(const struct request *r)
{
    size_t done = strlen(r->word);
    while (done && !strchr(" ,(=!<>~\"'", r->word[done - 1])) done--;
    struct request name = behind(r, done);
    if (!done || !strchr("=!<>~\"'", r->word[done - 1])) offer_names(&name, false);
}

/* Candidates that are always the same. */
#define BYTES   "bytes\t256 tokens, one per byte\n"
#define BPE     "bpe:\ta BPE of N tokens, learned from the text\n"
#define SHOW    "show\tthe results of a sweep\n"
#define FILES   ":files\n"
#define FOLDERS ":folders\n"

/* The help's name for a word, an option's value or a configuration key, and its candidates. Kinds that are
 * not listed (numbers, texts, new names) have none. */
static const struct source {
    const char *name;
    void (*offer[2])(const struct request *);
    const char *more;
} sources[] = {
    {"RUN", {offer_runs}, ""},
    {"RUN|FOLDER", {offer_runs, offer_models}, FOLDERS},
    {"BASE", {offer_runs, offer_models}, FOLDERS},
    {"ADAPTERS", {offer_adapters}, FOLDERS},
    {"VERB", {offer_verbs}, ""},
    {"RECIPE", {offer_recipes}, ""},
    {"KEY", {offer_fields}, ""},
    {"FIELDS", {offer_fields}, ""},
    {"NAME,...", {offer_metrics}, ""},
    {"EXPR", {offer_filter}, ""},
    {"CONFIG.ini", {NULL}, FILES},
    {"CONFIG.ini|show", {NULL}, FILES SHOW},
    {"SWEEP", {offer_sweeps}, ""},
    {"TAG", {offer_tags}, ""},
    {"FILE", {NULL}, FILES},
    {"FILES", {NULL}, FILES},
    {"FILE.tok", {NULL}, FILES},
    {"PATH", {NULL}, FILES},
    {"FOLDER", {NULL}, FOLDERS},
    {"tokenizer.json", {NULL}, FILES},
    {"TOKENIZER", {NULL}, BYTES FILES},
    {"T", {NULL}, BYTES BPE FILES},
    {"INPUT", {offer_recipes}, FILES},
    {"DATA", {offer_recipes}, FILES},
    {"data.train", {offer_recipes}, FILES},
    {"data.val", {offer_recipes}, FILES},
    {"eval.tasks", {NULL}, FILES},
    {"data.template", {NULL}, FILES},
    {"data.tokenizer", {NULL}, BYTES BPE FILES},
    {"model.from", {offer_models}, FOLDERS},
};

/* Offers the lines "candidate TAB meaning"; one that begins with a colon asks the shell to complete a path.
 */
static void offer_lines(const struct request *r, const char *lines)
{
    size_t typed = strlen(r->word);
    for (size_t n; *lines; lines += n) {
        n = strcspn(lines, "\n") + 1;
        bool path = *lines == ':';
        if (!path && strncmp(lines, r->word, typed) != 0) continue;
        fprintf(r->out, "%.*s%.*s", path ? 0 : r->prefix_length, r->prefix, (int)n, lines);
    }
}

static void offer_source(const struct request *r, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (strlen(sources[i].name) != length || memcmp(sources[i].name, name, length) != 0) continue;
        for (int k = 0; k < 2 && sources[i].offer[k]; k++) sources[i].offer[k](r);
        offer_lines(r, sources[i].more);
    }
}

/* Offers tags behind "+" or "-" where a command takes them so. */
static void offer_signed_tags(const struct request *r, const struct command_line *line)
{
    struct request tag = {r->out, 1, r->word, r->word + 1};
    if (strstr(line->words, *r->word == '+' ? "[+TAG]" : "[-TAG]")) offer_tags(&tag);
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
    struct request last = last_name(r);
    if (option->kind >= OPTION_CHOICE)
        offer_choices(option->kind == OPTION_CHOICES ? &last : r, option->value);
    else if (option->kind == OPTION_TEXT || option->kind == OPTION_ANY_TEXT)
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
    else if (r->word[0] == '+')
        offer_signed_tags(r, line);
    else if (options && (r->word[0] == '-' || (full && !*r->word))) {
        offer_options(r, line, given, count);
        if (r->word[0] == '-' && r->word[1] != '-') offer_signed_tags(r, line);
    } else
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
