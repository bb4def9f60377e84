/* One text in two notations: manual pages (man(7)) and Markdown.
 *
 * A text is plain, in UTF-8, a paragraph a line. `backticks` and words such as --device or $ANNEAL_HOME are
 * set as code; lines that begin with a blank keep their layout. */
#ifndef ANNEAL_DOCS_GENERATOR_WRITER_H
#define ANNEAL_DOCS_GENERATOR_WRITER_H

#include <stdbool.h>
#include <stdio.h>

enum { WRITER_COLUMNS = 9 };

struct writer {
    FILE *out;
    bool man; /* else Markdown */
    /* private: the last thing written, and the titles of the table that is open */
    enum { WRITER_HEADING, WRITER_TEXT, WRITER_ITEM } last;
    const char *titles[WRITER_COLUMNS + 1];
};

/* level 1: a section (.SH, ##); 2: a part of one (.SS, ###). */
void writer_heading(struct writer *w, int level, const char *text);
void writer_text(struct writer *w, const char *text); /* NULL and "" write nothing */

/* An item of a list: a term and what it means. An option's term is "-o, --output PATH". */
void writer_item(struct writer *w, const char *term, const char *text);

/* A table: its titles, then rows of as many cells, the first of them a name; both end with NULL. A manual
 * page has a list instead, whose items end with the cells between the first and the last one. */
void writer_table(struct writer *w, ...) __attribute__((sentinel));
void writer_row(struct writer *w, ...) __attribute__((sentinel));

#endif
