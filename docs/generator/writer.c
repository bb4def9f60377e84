/* See writer.h. */
#include "docs/generator/writer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* ---- characters ---- */

/* In roff a hyphen, a quote and their likes would be replaced by typographic ones, and a line that begins
 * with a dot is a request. */
static void put_roff(FILE *out, const char *text, size_t n)
{
    if (n && *text == '.') fputs("\\&", out);
    static const char special[] = "\\-'`^~|";
    static const char *const names[] = {"\\e",   "\\-",   "\\(aq", "\\(ga",
                                        "\\(ha", "\\(ti", "|\\:"}; /* a line may break behind a bar */
    for (size_t i = 0; i < n; i++) {
        const char *at = text[i] ? strchr(special, text[i]) : NULL;
        if (at)
            fputs(names[at - special], out);
        else
            fputc(text[i], out);
    }
}

static void put_code(struct writer *w, const char *text, size_t n)
{
    fputs(w->man ? "\\fB" : "`", w->out);
    if (w->man)
        put_roff(w->out, text, n);
    else
        fwrite(text, 1, n, w->out);
    fputs(w->man ? "\\fR" : "`", w->out);
}

static void put_plain(struct writer *w, const char *text, size_t n)
{
    if (w->man) {
        put_roff(w->out, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] && strchr("\\*<|~", text[i])) fputc('\\', w->out);
        fputc(text[i], w->out);
    }
}

/* The bytes of a word that are set as code: "--device" of "--device," and 0 of "device". */
static size_t code_length(const char *word, size_t n)
{
    bool option = n > 2 && memcmp(word, "--", 2) == 0 && isalpha((unsigned char)word[2]);
    bool variable = n > 1 && word[0] == '$' && isalpha((unsigned char)word[1]);
    while (n > 0 && strchr(".,:;)", word[n - 1])) n--;
    return option || variable ? n : 0;
}

/* Text without line ends. */
static void put_text(struct writer *w, const char *text, size_t n)
{
    const char *end = text + n;
    while (text < end) {
        const char *closing = *text == '`' ? memchr(text + 1, '`', (size_t)(end - text - 1)) : NULL;
        if (closing) {
            put_code(w, text + 1, (size_t)(closing - text - 1));
            text = closing + 1;
            continue;
        }
        size_t word = 0;
        while (text + word < end && text[word] != ' ' && !(word && text[word] == '`')) word++;
        size_t code = code_length(text, word);
        if (code) put_code(w, text, code);
        put_plain(w, text + code, word - code);
        text += word;
        if (text < end && *text == ' ') fputc(*text++, w->out);
    }
}

/* ---- paragraphs ---- */

/* Separates what comes next from what is there: Markdown by an empty line, a manual page by .PP or .TP. */
static void begin(struct writer *w, int next)
{
    bool list_continues = next == WRITER_ITEM && w->last == WRITER_ITEM;
    if (!w->man && !list_continues) fputc('\n', w->out);
    if (w->man && next == WRITER_TEXT && w->last != WRITER_HEADING) fputs(".PP\n", w->out);
    w->last = next;
}

void writer_heading(struct writer *w, int level, const char *text)
{
    static const char *const marks[2][2] = {{"##", "###"}, {".SH", ".SS"}};
    begin(w, WRITER_HEADING);
    fprintf(w->out, "%s ", marks[w->man][level - 1]);
    for (; *text; text++) fputc(w->man && level == 1 ? toupper((unsigned char)*text) : *text, w->out);
    fputc('\n', w->out);
}

/* Lines that begin with a blank, and empty ones between them; returns what follows. */
static const char *put_layout(struct writer *w, const char *text)
{
    size_t indent = SIZE_MAX;
    const char *end = text;
    for (const char *line = text; *line == ' ' || *line == '\n';) {
        size_t n = strcspn(line, "\n"), blanks = strspn(line, " ");
        if (n && blanks < indent) indent = blanks;
        line += n + (line[n] == '\n');
        if (n) end = line;
    }
    begin(w, WRITER_TEXT);
    fputs(w->man ? ".RS 4\n.nf\n" : "```text\n", w->out);
    while (text < end) {
        size_t n = strcspn(text, "\n"), skip = n < indent ? n : indent;
        if (w->man)
            put_roff(w->out, text + skip, n - skip);
        else
            fwrite(text + skip, 1, n - skip, w->out);
        fputc('\n', w->out);
        text += n + (text[n] == '\n');
    }
    fputs(w->man ? ".fi\n.RE\n" : "```\n", w->out);
    return end;
}

void writer_text(struct writer *w, const char *text)
{
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        if (*text == ' ') {
            text = put_layout(w, text);
            continue;
        }
        if (n) {
            begin(w, WRITER_TEXT);
            put_text(w, text, n);
            fputc('\n', w->out);
        }
        text += n + (text[n] == '\n');
    }
}

/* ---- lists and tables ---- */

void writer_item(struct writer *w, const char *term, const char *text)
{
    const char *name = *term == '-' ? strstr(term, "--") : NULL, *value = name ? strchr(name, ' ') : NULL;
    begin(w, WRITER_ITEM);
    if (w->man) {
        fputs(".TP\n", w->out);
        put_code(w, term, value ? (size_t)(value - term) : strlen(term));
        if (value) {
            fputs(" \\fI", w->out);
            put_roff(w->out, value + 1, strlen(value + 1));
            fputs("\\fR", w->out);
        }
        fputc('\n', w->out);
    } else {
        fprintf(w->out, "- `%s`: ", term);
    }
    put_text(w, text, strlen(text));
    if (*text || !w->man) fputc('\n', w->out);
}

/* The arguments up to NULL; returns how many. */
static int take_cells(const char *cells[WRITER_COLUMNS + 1], va_list list)
{
    int n = 0;
    while ((cells[n] = va_arg(list, const char *)) && n < WRITER_COLUMNS) n++;
    return n;
}

void writer_table(struct writer *w, ...)
{
    va_list list;
    va_start(list, w);
    int n = take_cells(w->titles, list);
    va_end(list);
    if (w->man) return;
    begin(w, WRITER_TEXT);
    for (int i = 0; i < 2 * n; i++)
        fprintf(w->out, "| %s %s", i < n ? w->titles[i] : "---", i % n == n - 1 ? "|\n" : "");
}

void writer_row(struct writer *w, ...)
{
    const char *cells[WRITER_COLUMNS + 1];
    va_list list;
    va_start(list, w);
    int n = take_cells(cells, list);
    va_end(list);
    if (w->man) writer_item(w, cells[0], cells[n - 1]);
    if (w->man && n > 2 && *cells[n - 1]) fputs(".br\n", w->out);
    for (int i = w->man; i < n - w->man; i++) {
        if (w->man)
            fprintf(w->out, "%s: ", w->titles[i]);
        else
            fputs("| ", w->out);
        if (i)
            put_text(w, cells[i], strlen(cells[i]));
        else
            put_code(w, cells[i], strlen(cells[i]));
        fputs(w->man ? i < n - 2 ? ". " : ".\n" : i < n - 1 ? " " : " |\n", w->out);
    }
}
