/* See options.h. */
#include "core/base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* ---- parsing ---- */

static const struct option_spec help_option =
    OPTION("help", OPTION_FLAG, 0, NULL, "prints this page", .letter = 'h');

struct parser {
    const struct command_line *line;
    char *record;
    struct words *out;
    char **argv; /* the next word */
    uint64_t seen;
    struct err *err;
};

static const struct option_spec *find_option(const struct command_line *line, const char *name, size_t length)
{
    for (const struct option_spec *o = line->options; o && o->kind; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
    return length == 4 && memcmp(name, "help", 4) == 0 ? &help_option : NULL;
}

static const struct option_spec *find_letter(const struct command_line *line, char letter)
{
    for (const struct option_spec *o = line->options; o && o->kind; o++)
        if (o->letter == letter) return o;
    return letter == 'h' ? &help_option : NULL;
}

/* The most similar option; NULL: none. */
static const char *nearest_option(const struct parser *p, const char *word)
{
    const char *names[65];
    char plain[80];
    size_t count = 0, dashes = strspn(word, "-");
    for (const struct option_spec *o = p->line->options; o && o->kind && count < 64; o++)
        names[count++] = o->name;
    names[count++] = help_option.name;
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word + dashes, "="), word + dashes);
    return text_nearest(plain, names, count);
}

static enum status unknown(const struct parser *p, const char *word)
{
    const char *nearest = nearest_option(p, word);
    if (nearest)
        return err_set(p->err, STATUS_USAGE, "unknown option %.80s (did you mean --%s?)", word, nearest);
    return err_set(p->err, STATUS_USAGE, "unknown option %.80s", word);
}

/* Whether a value is the choice: the same word, or for "cuda:N" a number of at most three digits after the
 * colon. */
static bool is_choice(const char *choice, size_t n, const char *value)
{
    bool numbered = n > 2 && choice[n - 2] == ':';
    if (!numbered) return strlen(value) == n && memcmp(choice, value, n) == 0;
    if (strncmp(choice, value, n - 1) != 0) return false;
    size_t digits = strspn(value + n - 1, "0123456789");
    return digits > 0 && digits <= 3 && value[n - 1 + digits] == '\0';
}

/* The number of a word among the choices; -1: it is none of them. */
static int find_choice(const char *choices, const char *word)
{
    for (int index = 0; *choices; index++) {
        size_t n = strcspn(choices, "|");
        if (is_choice(choices, n, word)) return index;
        choices += n + (choices[n] == '|');
    }
    return -1;
}

static enum status take_choice(const struct parser *p, const struct option_spec *o, const char *value)
{
    int found = 0, all = 0;
    char word[80];
    for (const char *at = value; found >= 0 && *at; at += *at == ',') {
        size_t n = o->kind == OPTION_CHOICES ? strcspn(at, ",") : strlen(at);
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        found = find_choice(o->value, word);
        if (found >= 0) all |= 1 << found;
        at += n;
    }
    if (found < 0)
        return err_set(p->err, STATUS_USAGE, "--%s %.60s: must be %s%s", o->name, value, o->value,
                       o->kind == OPTION_CHOICES ? ", or several with commas between" : "");
    if (o->kind == OPTION_DEVICE)
        *(const char **)(p->record + o->offset) = value;
    else
        *(int *)(p->record + o->offset) = o->kind == OPTION_CHOICES ? all : found;
    return STATUS_OK;
}

static enum status take_number(const struct parser *p, const struct option_spec *o, const char *value)
{
    char most[48] = "";
    int64_t whole = 0;
    double number = 0;
    bool is_whole = o->kind == OPTION_WHOLE;
    bool good = is_whole ? text_parse_int(value, &whole) : text_parse_double(value, &number);
    if (is_whole) number = (double)whole;
    if (good && number >= o->least && (o->most == 0 || number <= o->most)) {
        if (is_whole)
            *(int64_t *)(p->record + o->offset) = whole;
        else
            *(double *)(p->record + o->offset) = number;
        return STATUS_OK;
    }
    bool too_large = is_whole && !good && *value && !value[strspn(value, "0123456789")];
    if (o->most != 0)
        snprintf(most, sizeof most, " to %.15g", o->most);
    else if (too_large)
        snprintf(most, sizeof most, " to %" PRId64, INT64_MAX);
    return err_set(p->err, STATUS_USAGE, "--%s %.60s: must be a %snumber from %.10g%s", o->name,
                   *value ? value : "\"\"", is_whole ? "whole " : "", o->least, most);
}

/* `value` is what follows "=" or the letter; NULL: it is the next word. */
static enum status take(struct parser *p, const struct option_spec *o, const char *value)
{
    if (o == &help_option) {
        p->out->help = true;
        return value ? err_set(p->err, STATUS_USAGE, "--help: takes no value") : STATUS_OK;
    }
    uint64_t bit = UINT64_C(1) << (o - p->line->options);
    if (p->seen & bit) return err_set(p->err, STATUS_USAGE, "--%s: is given twice", o->name);
    p->seen |= bit;
    if (o->kind == OPTION_FLAG) {
        *(bool *)(p->record + o->offset) = true;
        return value ? err_set(p->err, STATUS_USAGE, "--%s: takes no value", o->name) : STATUS_OK;
    }
    const char *next = *p->argv;
    if (!value && o->kind == OPTION_MAYBE && !(next && *next >= '0' && *next <= '9')) {
        *(const char **)(p->record + o->offset) = "";
        return STATUS_OK;
    }
    if (!value && next) value = *p->argv++;
    if (!value || (!*value && o->kind != OPTION_ANY_TEXT))
        return err_set(p->err, STATUS_USAGE, "--%s: needs a value, %s", o->name, o->value);
    if (o->kind >= OPTION_CHOICE) return take_choice(p, o, value);
    if (o->kind == OPTION_WHOLE || o->kind == OPTION_NUMBER) return take_number(p, o, value);
    *(const char **)(p->record + o->offset) = value;
    return STATUS_OK;
}

static enum status take_long(struct parser *p, const char *word)
{
    const char *name = word + 2;
    size_t length = strcspn(name, "=");
    const struct option_spec *o = find_option(p->line, name, length);
    if (o) return take(p, o, name[length] ? name + length + 1 : NULL);
    bool setting = memchr(name, '.', length) ||
                   (name[length] && !nearest_option(p, word)); /* or probably meant as one */
    if (p->line->settings && !setting && !nearest_option(p, word)) {
        p->out->unknown = word;
        return STATUS_OK;
    }
    if (!p->line->settings || !setting) return unknown(p, word);
    if (!name[length]) return err_set(p->err, STATUS_USAGE, "%.80s: must be --section.key=value", word);
    p->out->settings[p->out->setting_count++] = word;
    return STATUS_OK;
}

static bool is_word(const char *word)
{
    double number;
    return word[0] != '-' || word[1] == '\0' || text_parse_double(word, &number);
}

static enum status take_word(struct parser *p, const char *word)
{
    const struct command_line *line = p->line;
    if (!*word && !(line->blank && p->out->count)) return err_set(p->err, STATUS_USAGE, "argument is empty");
    if (line->most >= 0 && p->out->count == line->most)
        return line->most == 0
                   ? err_set(p->err, STATUS_USAGE, "takes no argument, but \"%.80s\" is given", word)
                   : err_set(p->err, STATUS_USAGE, "takes %s, \"%.80s\" is one argument too many",
                             line->words, word);
    p->out->words[p->out->count++] = word;
    return STATUS_OK;
}

/* Checks that all required words and options are given. */
static enum status check_missing(const struct parser *p)
{
    if (p->out->count < p->line->least) return err_set(p->err, STATUS_USAGE, "needs %s", p->line->words);
    for (const struct option_spec *o = p->line->options; o && o->kind; o++)
        if (o->required && !(p->seen & UINT64_C(1) << (o - p->line->options)))
            return o->letter ? err_set(p->err, STATUS_USAGE, "needs -%c %s", o->letter, o->value)
                             : err_set(p->err, STATUS_USAGE, "needs --%s %s", o->name, o->value);
    return STATUS_OK;
}

enum status options_parse(const struct command_line *line, int argc, char **argv, void *record,
                          struct words *out, struct err *err)
{
    size_t room = (size_t)argc + 1;
    bool options = true;
    enum status status = STATUS_OK;
    *out = (struct words){.argv = argv + 1, .words = calloc(2 * room, sizeof *out->words)};
    if (!out->words) return err_no_memory(err, "the command line");
    out->settings = out->words + room;
    struct parser p = {line, record, out, argv + 1, 0, err};
    while (!status && !out->help && !out->unknown && *p.argv) {
        const char *word = *p.argv++;
        if (!options || is_word(word)) {
            status = take_word(&p, word);
        } else if (strcmp(word, "--") == 0) {
            options = false;
        } else if (word[1] == '-') {
            status = take_long(&p, word);
        } else {
            const struct option_spec *o = find_letter(line, word[1]);
            status = o              ? take(&p, o, word[2] ? word + 2 : NULL)
                     : line->hyphen ? take_word(&p, word)
                                    : unknown(&p, word);
        }
    }
    return status || out->help || out->unknown ? status : check_missing(&p);
}

void words_release(struct words *words)
{
    free(words->words);
    *words = (struct words){0};
}

/* ---- help ---- */

enum { PAGE_WIDTH = 100, OPTION_WIDTH = 26 };

/* The columns that UTF-8 text takes on a screen; wide characters are not supported. */
static int columns_of(const char *text, size_t length)
{
    int columns = 0;
    for (size_t i = 0; i < length; i++) columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

/* Prints the words up to the end of the line, wrapped to lines that begin with `indent` blanks; the first
 * word begins in `column`. Returns the end of the line. */
static const char *print_paragraph(FILE *out, const char *text, int indent, int column)
{
    bool begun = false;
    while (*text && *text != '\n') {
        size_t n = strcspn(text, " \n");
        int width = columns_of(text, n);
        if (begun && column + 1 + width > PAGE_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (begun) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, n, out);
        column += width;
        begun = true;
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
    return text;
}

static void print_text(FILE *out, const char *text)
{
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        if (*text == ' ' || n == 0)
            fprintf(out, "%.*s\n", (int)n, text);
        else
            print_paragraph(out, text, 0, 0);
        text += n + (text[n] == '\n');
    }
}

char *options_format(const struct option_spec *o, char buf[OPTION_FORMAT_MAX])
{
    char letter[8] = "";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const char *gap = o->kind == OPTION_FLAG ? "" : o->kind == OPTION_MAYBE ? " [" : " ";
    snprintf(buf, OPTION_FORMAT_MAX, "%s--%s%s%s%s", letter, o->name, gap, o->value ? o->value : "",
             o->kind == OPTION_MAYBE ? "]" : "");
    return buf;
}

static void print_option(FILE *out, const struct option_spec *o)
{
    char buf[OPTION_FORMAT_MAX], *left = options_format(o, buf), *end;
    int indent = 2;
    if (!o->help) return;
    while (indent + columns_of(left, strlen(left)) > PAGE_WIDTH && /* choices take several lines */
           (end = memrchr(left, '|', PAGE_WIDTH - OPTION_WIDTH)) != NULL) {
        fprintf(out, "%*s%.*s\n", indent, "", (int)(end + 1 - left), left);
        left = end + 1;
        indent = OPTION_WIDTH;
    }
    if (indent + columns_of(left, strlen(left)) + 2 > OPTION_WIDTH)
        fprintf(out, "%*s%s\n%*s", indent, "", left, OPTION_WIDTH, "");
    else
        fprintf(out, "  %-*s", OPTION_WIDTH - 2, left);
    print_paragraph(out, o->help, OPTION_WIDTH, OPTION_WIDTH);
}

void options_print_usage(const struct command_line *line, FILE *out)
{
    bool any = false;
    fprintf(out, "anneal %s", line->name);
    if (*line->words) fprintf(out, line->least ? " %s" : " [%s]", line->words);
    for (const struct option_spec *o = line->options; o && o->kind; o++) {
        if (o->required && o->letter)
            fprintf(out, " -%c %s", o->letter, o->value);
        else if (o->required)
            fprintf(out, " --%s %s", o->name, o->value);
        any = any || (!o->required && o->help);
    }
    fprintf(out, "%s%s", line->settings ? " [--section.key=value ...]" : "", any ? " [options]" : "");
}

void options_print_help(const struct command_line *line, FILE *out)
{
    fputs("usage: ", out);
    options_print_usage(line, out);
    fputs("\n\n", out);
    print_text(out, line->about);
    if (line->options && line->options->kind) fputc('\n', out);
    for (const struct option_spec *o = line->options; o && o->kind; o++) print_option(out, o);
    if (line->notes) fputc('\n', out);
    print_text(out, line->notes);
}
