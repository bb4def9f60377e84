/* Writes the reference of the manual from the tables of the program, so that the two cannot disagree: the
 * commands and their options, core/model/config.def, runs/columns.def, tui/keymap.def and the operations of a
 * training step. Part of the build (`make docs`), not of the product.
 *
 *     generate markdown FOLDER             commands.md, configuration.md, columns.md, keys.md and roofline.md
 *     generate man FOLDER VERSION DATE     anneal.1, anneal-COMMAND.1 for each command, anneal.ini.5 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/config.h"
#include "docs/generator/roofline.h"
#include "docs/generator/writer.h"
#include "runs/columns.h"
#include "tui/command/command.h"
#include "tui/view/keys.h"

/* ---- files ---- */

static const char *folder, *version, *date; /* the arguments; version and date of manual pages */

static void close_file(FILE *out)
{
    if (out && fclose(out) == 0) return;
    fprintf(stderr, "generate: %s: %s\n", folder, strerror(errno));
    exit(1);
}

static FILE *open_file(const char *name, const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    FILE *out = fopen(path, "w");
    if (!out) close_file(out);
    return out;
}

/* A manual page, up to its name and what it is about. */
static struct writer open_man(const char *name, const char *section, const char *summary)
{
    char suffix[3] = {'.', section[0]};
    struct writer w = {.out = open_file(name, suffix), .man = true};
    fprintf(w.out, ".TH \"%s\" %s %s \"anneal %s\" \"anneal manual\"\n.nh\n.ad l\n", name, section, date,
            version);
    writer_heading(&w, 1, "Name");
    for (; *name; name++) fprintf(w.out, *name == '-' ? "\\%c" : "%c", *name);
    fprintf(w.out, " \\- %s\n", summary);
    return w;
}

static struct writer open_markdown(const char *name, const char *title, const char *text)
{
    struct writer w = {.out = open_file(name, ".md"), .last = WRITER_TEXT};
    fprintf(w.out, "<!-- Written by `make docs` from the tables of the program: edit those. -->\n\n# %s\n",
            title);
    writer_text(&w, text);
    return w;
}

/* ---- what holds for all commands ---- */

static const char run_text[] =
    "RUN is an id, the start of one, a name (the newest run of that name), or `latest`. "
    "Results go to standard output, everything else to standard error.";

struct entry {
    const char *name, *text;
};

static const struct entry exit_statuses[] = {
    {"0", "the command did its work; also after SIGTERM, which makes training save a checkpoint and stop"},
    {"1", "it failed; one line says why and what to do"},
    {"2", "the command line or the configuration is wrong"},
    {"75",
     "training left early, after saving a checkpoint: SIGUSR1 came, or train.time_limit was nearly over"},
    {"130",
     "Ctrl-C stopped it; training saves a checkpoint first, and another one a second later stops it at once"},
    {0},
};

static const struct entry variables[] = {
    {"ANNEAL_HOME", "folder of all runs, imported models and prepared texts (default: $XDG_DATA_HOME/anneal, "
                    "else `~/.local/share/anneal`)"},
    {"ANNEAL_STORE", "folder for the database alone, on a local disk where the home is not"},
    {"ANNEAL_LEDGER", "folder where processes of this host reserve device memory (default: in `/dev/shm`)"},
    {"ANNEAL_CUDA_PLUGIN", "path of the CUDA plugin, instead of the installed one; `none`: no GPU"},
    {"ANNEAL_CPU_ISA",
     "other CPU kernels than the best ones: `baseline`, `v3`, `v4`, `v4-bf16`, `v4-dot` or `v4-amx`"},
    {"NO_COLOR", "when it is set, the workbench and the progress bar use no colours"},
    {"COLUMNS", "width of tables that are not printed on a terminal"},
    {"LANG, TERM", "whether charts can be drawn with braille, with blocks or with ASCII only"},
    {0},
};

static void write_entries(struct writer *w, const char *title, const struct entry *entries)
{
    writer_heading(w, 1, title);
    for (; entries->name; entries++) writer_item(w, entries->name, entries->text);
}

/* ---- commands ---- */

static void write_usage(struct writer *w, const struct command *command)
{
    char text[400] = " "; /* a line that keeps its layout */
    FILE *line = fmemopen(text + 1, sizeof text - 2, "w");
    if (line) options_print_usage(&command->line, line);
    close_file(line);
    writer_text(w, text);
}

/* Each word of a label is a key of its own, and the command follows: "?, F1, :help". */
static void write_key_label(struct writer *w, const struct key *key)
{
    char label[120], name[COMMAND_NAME_MAX];
    const char *blank = strchr(key->label, ' ');
    int first = (int)strcspn(key->label, " ");
    if (key_is_mouse(key->code)) {
        writer_item(w, key->label, key->help);
        return;
    }
    snprintf(label, sizeof label, "%.*s%s%s%s:%s", first, key->label, blank ? ", " : "",
             blank ? blank + 1 : "", *key->label ? ", " : "", command_name(key->action, name));
    writer_item(w, label, key->help);
}

static void write_keys(struct writer *w)
{
#define CONTEXT_TITLE(name, title) title,
    static const char *const titles[] = {CONTEXTS(CONTEXT_TITLE)};
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (i == 0 || keys[i].context != keys[i - 1].context)
            writer_heading(w, w->man ? 2 : 1, titles[keys[i].context]);
        write_key_label(w, &keys[i]);
    }
}

/* Called "Examples" where the notes are nothing else. */
static void write_notes(struct writer *w, int level, const char *notes)
{
    bool examples = true;
    for (const char *line = notes; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        examples = examples && (*line == ' ' || *line == '\n');
    if (notes && level) writer_heading(w, level, examples ? "Examples" : "Notes");
    writer_text(w, notes);
}

/* A command that runs. A page of its own has sections; a subcommand and Markdown have one heading for all. */
static void write_command(struct writer *w, const struct command *command, bool sections)
{
    char term[OPTION_FORMAT_MAX];
    const struct option_spec *o = command->line.options;
    write_usage(w, command);
    if (sections) writer_heading(w, 1, "Description");
    writer_text(w, command->line.about);
    if (sections && o) writer_heading(w, 1, "Options");
    for (; o && o->kind; o++)
        if (o->help) writer_item(w, options_format(o, term), o->help);
    if (sections && command == &command_watch) {
        writer_heading(w, 1, "Keys");
        write_keys(w);
    }
    write_notes(w, sections ? 1 : 0, command->line.notes);
}

static void write_command_heading(struct writer *w, int level, const struct command *command)
{
    char name[120];
    snprintf(name, sizeof name, "anneal %s", command->line.name);
    writer_heading(w, level, name);
}

static void write_command_page(const struct command *command)
{
    char name[120];
    snprintf(name, sizeof name, "anneal-%s", command->line.name);
    struct writer w = open_man(name, "1", command->summary);
    writer_heading(&w, 1, "Synopsis");
    if (command->run) write_command(&w, command, true);
    for (const struct command *const *c = command->subcommands; c && *c; c++) write_usage(&w, *c);
    if (!command->run) writer_heading(&w, 1, "Commands");
    for (const struct command *const *c = command->subcommands; c && *c; c++) {
        write_command_heading(&w, 2, *c);
        write_command(&w, *c, false);
    }
    if (!command->run) write_notes(&w, 1, command->line.notes);
    writer_heading(&w, 1, "See also");
    fprintf(w.out, ".BR anneal (1),\n.BR anneal.ini (5)\n");
    close_file(w.out);
}

/* All commands, and what holds for all of them. */
static void write_overview(struct writer *w)
{
    writer_text(w, command_anneal.line.notes);
    writer_text(w, run_text);
    if (w->man) writer_heading(w, 1, "Commands");
    for (const struct command *const *c = command_anneal.subcommands; *c; c++) {
        char name[120];
        snprintf(name, sizeof name, "anneal %s", (*c)->line.name);
        writer_item(w, name, (*c)->summary);
    }
    write_entries(w, "Exit status", exit_statuses);
    write_entries(w, "Environment", variables);
}

static void write_main_page(void)
{
    struct writer w = open_man("anneal", "1", command_anneal.summary);
    writer_heading(&w, 1, "Synopsis");
    writer_text(&w, " anneal\n anneal COMMAND [ARGUMENT ...]\n anneal COMMAND --help\n anneal --version");
    writer_heading(&w, 1, "Description");
    write_overview(&w);
    writer_heading(&w, 1, "See also");
    for (const struct command *const *c = command_anneal.subcommands; *c; c++)
        fprintf(w.out, ".BR anneal\\-%s (1),\n", (*c)->line.name);
    fprintf(w.out, ".BR anneal.ini (5)\n");
    close_file(w.out);
}

static void write_commands_markdown(void)
{
    struct writer w = open_markdown("commands", "Commands", "");
    write_overview(&w);
    for (const struct command *const *c = command_anneal.subcommands; *c; c++) {
        write_command_heading(&w, 1, *c);
        if ((*c)->run) write_command(&w, *c, false);
        for (const struct command *const *s = (*c)->subcommands; s && *s; s++) {
            write_command_heading(&w, 2, *s);
            write_command(&w, *s, false);
        }
        if (!(*c)->run) write_notes(&w, 2, (*c)->line.notes);
    }
    close_file(w.out);
}

/* ---- configuration ---- */

/* clang-format off */
#define WORD(constant, word) "|" word
#define WORDS(type, ...) static const char type##_list[] = __VA_ARGS__;
#define CHOICES(type, count, ...) WORDS(type, __VA_ARGS__)
#include "core/model/config.def"
static const char none_list[] = "|";

enum kind { KIND_INT, KIND_REAL, KIND_TEXT, KIND_CHOICE, KIND_BOOL };
enum { FREE, SAME, KEPT };

static const struct config_key {
    const char *section, *name, *fallback, *words, *unit, *help;
    enum kind kind;
    long double least, most;
    int kept;
} config_keys[] = {
#define KEY(section, name, kind, field, fallback, least, most, words, unit, kept, help) \
    {#section, #name, fallback, words##_list + 1, unit, help, KIND_##kind, least, most, kept},
#define GROUP_KEY(name, kind, fallback, least, most, words, unit, kept, help) \
    {"param_group.NAME", #name, fallback, words##_list + 1, unit, help, KIND_##kind, least, most, kept},
#include "core/model/config.def"
};
/* clang-format on */

/* "1 to 65535 (sequences)", "`adamw`, `lion`". */
static char *format_values(const struct config_key *key, char *buf, size_t size)
{
    const char *format = key->kind == KIND_INT    ? "%.0Lf to %.0Lf"
                         : key->kind == KIND_REAL ? "%.10Lg to %.10Lg"
                                                  : "";
    FILE *out = fmemopen(buf, size, "w");
    if (!out) close_file(out);
    fprintf(out, format, key->least, key->most);
    if (key->kind == KIND_TEXT) fputs("text", out);
    if (*key->unit) fprintf(out, " (%s)", key->unit);
    for (const char *word = key->words; *word; word += *word == '|') {
        int n = (int)strcspn(word, "|");
        fprintf(out, "%s`%.*s`", word > key->words || *format ? ", " : "", n, word);
        word += n;
    }
    close_file(out);
    return buf;
}

static void write_key(struct writer *w, const struct config_key *key)
{
    char fallback[200], values[400];
    snprintf(fallback, sizeof fallback, "`%s`", key->fallback);
    if (!*key->fallback)
        strcpy(fallback, key->kind == KIND_TEXT                 ? "empty"
                         : strcmp(key->name, "vocab_size") == 0 ? "of the tokenizer"
                         : strcmp(key->section, "model") == 0   ? "of the preset"
                                                                : "derived");
    writer_row(w, key->name, fallback, format_values(key, values, sizeof values),
               key->kept == KEPT   ? "fixed"
               : key->kept == SAME ? "same content"
                                   : "may change",
               key->help, NULL);
}

static const char config_text_of_page[] =
    "A configuration is an INI file: sections in brackets, lines `key = value`, comments after `;`, and on "
    "lines of their own also after `#`. A value that begins or ends with a blank, begins with `;`, or "
    "contains a blank and `;` stands in double quotes: `prompt = \"Dear Sir ; hello\"`. There `\\\"` is a "
    "quote, `\\\\` a backslash and `\\xHH` the byte with this hexadecimal number. Quotes around any other "
    "value are part of it. Every key has "
    "a default. On the command line --section.key=value sets a key and overrides the file:\n"
    "  [model]\n"
    "  preset = tiny\n"
    "  [train]\n"
    "  learning_rate = 1e-3     ; or: anneal train my.ini --train.learning_rate=1e-3\n"
    "An unknown key or a value out of range is an error that names the line and the nearest key. The "
    "complete "
    "configuration is stored with the run. When a run is resumed, the keys that are \"fixed\" must keep "
    "their values, and those of \"same content\" may name another place that holds the same data.";

static const char group_text[] =
    "Any number of sections up to 32, each for the parameters whose names match. The first "
    "section that matches a parameter counts.";
_Static_assert(PARAM_GROUPS_MAX == 32, "group_text names the number");

static void write_configuration(struct writer *w)
{
    const char *section = "";
    int level = w->man ? 2 : 1;
    writer_text(w, config_text_of_page);
    for (size_t i = 0; i < sizeof config_keys / sizeof *config_keys; i++) {
        if (strcmp(config_keys[i].section, section) != 0) {
            char title[60];
            section = config_keys[i].section;
            snprintf(title, sizeof title, "[%s]", section);
            writer_heading(w, level, title);
            writer_text(w, strcmp(section, "param_group.NAME") == 0 ? group_text : "");
            writer_table(w, "Key", "Default", "Values", "On resume", "Meaning", NULL);
        }
        write_key(w, &config_keys[i]);
    }
    writer_heading(w, level, "Presets");
    writer_table(w, "Preset", "Sizes", NULL);
    for (enum preset p = 0; p < PRESETS; p++) {
        struct model_config m = model_preset(p);
        char sizes[200];
        snprintf(sizes, sizeof sizes, "hidden_dim %d, num_layers %d, num_heads %d, vocab_size %d",
                 m.hidden_dim, m.num_layers, m.num_heads, m.vocab_size);
        writer_row(w, preset_word(p), sizes, NULL);
    }
}

/* ---- columns ---- */

static const char columns_text[] = "Every run is recorded in one SQLite database, `anneal.db` in "
                                   "$ANNEAL_HOME. `anneal export` writes the same tables as "
                                   "CSV. Times are Unix seconds with a fraction. A number that is not known "
                                   "is empty in the CSV and NULL in the database.";

static void write_table(struct writer *w, const char *name, const char *csv, const char *help)
{
    char text[400];
    writer_heading(w, 1, name);
    snprintf(text, sizeof text, csv ? "As CSV: `anneal export --table %s`." : "Not exported.", csv);
    writer_text(w, help);
    writer_text(w, text);
    writer_table(w, "Column", "Type", "In the CSV", "Meaning", NULL);
}

static void write_column(struct writer *w, const char *name, const char *sql, const char *in_csv,
                         const char *help)
{
    char type[20];
    snprintf(type, sizeof type, "%.*s", (int)strcspn(sql, " "), sql);
    writer_row(w, name, type, in_csv, help, NULL);
}

/* A column that says where a row belongs. */
static void write_place(struct writer *w, const char *name, const char *sql, bool csv)
{
    bool segment = strcmp(name, "segment") == 0;
    write_column(w, name, sql,
                 !csv      ? "no"
                 : segment ? "yes"
                           : "as `run`",
                 segment ? "number of the trainer, from 1: each resume adds one" : "id of the run");
}

static void write_columns(struct writer *w)
{
    bool csv;
/* clang-format off */
#define TABLE(symbol, name, csv_name, record, since, keyed, order, help) csv = csv_name; write_table(w, #name, csv_name, help);
#define PLACE(symbol, column, since, sql) write_place(w, #column, sql, csv);
#define FIELD(symbol, column, since, null, sql, help) write_column(w, #column, sql, csv ? "yes" : "no", help);
#define WORD(symbol, column, since, words, unknown, sql, help) write_column(w, #column, sql, csv ? "yes" : "no", help);
#define HIDDEN(symbol, column, since, null, sql, help) write_column(w, #column, sql, "no", help);
#define OWN(symbol, column, since, sql, help) write_column(w, #column, sql, "no", help);
#define LOOSE(symbol, column, since, sql, help) write_column(w, #column, sql, "yes", help);
#include "runs/columns.def"
    /* clang-format on */
}

/* ---- all of it ---- */

static void write_reference(void)
{
    write_commands_markdown();
    struct writer w = open_markdown("configuration", "Configuration keys", "");
    write_configuration(&w);
    close_file(w.out);
    w = open_markdown("columns", "Tables and columns", columns_text);
    write_columns(&w);
    close_file(w.out);
    w = open_markdown("keys", "Keys of the workbench", "`?` shows the keys of the view that is open.");
    write_keys(&w);
    close_file(w.out);
    w = open_markdown("roofline", "What a training step takes on a GPU: estimates", "");
    roofline_write(&w);
    close_file(w.out);
}

static void write_manual(void)
{
    write_main_page();
    for (const struct command *const *c = command_anneal.subcommands; *c; c++) write_command_page(*c);
    struct writer w = open_man("anneal.ini", "5", "configuration of a training run");
    writer_heading(&w, 1, "Description");
    write_configuration(&w);
    writer_heading(&w, 1, "See also");
    fputs(".BR anneal (1),\n.BR anneal\\-train (1)\n", w.out);
    close_file(w.out);
}

int main(int argc, char **argv)
{
    bool man = argc == 5 && strcmp(argv[1], "man") == 0;
    if (!man && !(argc == 3 && strcmp(argv[1], "markdown") == 0)) {
        fputs("usage: generate markdown FOLDER | generate man FOLDER VERSION DATE\n", stderr);
        return 2;
    }
    folder = argv[2];
    version = man ? argv[3] : "";
    date = man ? argv[4] : "";
    if (man)
        write_manual();
    else
        write_reference();
    return 0;
}
