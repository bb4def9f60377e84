/* See export_markdown.h. */
#include "runs/exchange/export_markdown.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"

enum { TEXT_MAX = 4096 };

/* A backslash before punctuation keeps Markdown from reading it as markup; an underscore within a word is not
 * markup. */
static void write_text(FILE *out, const char *text)
{
    char clean[TEXT_MAX];
    clean_line(clean, sizeof clean, text);
    for (const char *c = clean; *c; c++) {
        bool in_word =
            *c == '_' && c > clean && isalnum((unsigned char)c[-1]) && isalnum((unsigned char)c[1]);
        if (strchr("\\`*_[]<>|~&#!$", *c) && !in_word) putc('\\', out);
        putc(*c, out);
    }
}

static void write_cell(FILE *out, const char *text)
{
    fputs(" ", out);
    write_text(out, text);
    fputs(" |", out);
}

static void write_row(FILE *out, const struct comparison *c, const struct comparison_row *row)
{
    char text[120];
    fputs("|", out);
    write_cell(out, row->name);
    for (size_t i = 0; i < c->count; i++) write_cell(out, comparison_text(c, row, i, text, sizeof text));
    fputs("\n", out);
}

/* Writes the rows of a section as a table, below its titles; nothing if there are none. */
static void write_section(FILE *out, const struct comparison *c, enum comparison_section section,
                          const char *heading, const char *first)
{
    bool any = false;
    for (const struct comparison_row *row = c->rows; row < c->rows + c->row_count; row++) {
        if (row->section != section) continue;
        if (!any) {
            fprintf(out, "%s\n|", heading);
            write_cell(out, first);
            for (size_t i = 0; i < c->count; i++) write_cell(out, c->runs[i].title);
            fputs("\n| --- |", out);
            for (size_t i = 0; i < c->count; i++) fputs(" ---: |", out);
            fputs("\n", out);
        }
        any = true;
        write_row(out, c, row);
    }
}

enum status export_markdown(const struct comparison *comparison, const char *path, struct err *err)
{
    struct file_out file;
    const char *note = comparison_validation_note(comparison),
               *obstacle = comparison_loss_obstacle(comparison);
    char keys[120];
    enum status status = file_out_open(&file, path, err);
    if (status) return status;
    fprintf(file.stream, "# %zu runs compared\n", comparison->count);
    for (size_t i = 0; i < comparison->count; i++) {
        fprintf(file.stream, "\n%zu. ", i + 1);
        write_text(file.stream, comparison->runs[i].info->id);
    }
    fprintf(file.stream, "\n\n## Configuration\n\n%s.\n",
            comparison_count_keys(comparison, keys, sizeof keys));
    write_section(file.stream, comparison, COMPARED_SETTINGS, "", "key");
    write_section(
        file.stream, comparison, COMPARED_OUTCOMES,
        "\n## Outcome\n\nA star marks the best; in brackets is the difference from the first run.\n", "");
    if (obstacle)
        fprintf(file.stream, "\nLosses cannot be compared: %s.\n", obstacle);
    else if (note)
        fprintf(file.stream, "\n%s\n", note);
    write_section(file.stream, comparison, COMPARED_STOPPING, "\n## Early stopping\n", "");
    return file_out_close(&file, STATUS_OK, 0, err);
}
