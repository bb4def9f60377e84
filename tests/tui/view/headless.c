/* See headless.h. */
#include "tests/tui/view/headless.h"

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/command/view_config.h"

const struct form_field headless_fields[HEADLESS_FIELDS] = {
    {"name", "name", "the preset's", "name of the run; its id adds date and time", NULL},
    {"data.train", "data", "kjv", "a recipe (kjv), token files or texts: a name, a folder, a pattern, a list",
     NULL},
    {"train.schedule", "schedule", "cosine", "how the learning rate changes after warm-up",
     "constant|cosine|linear"},
    {"sample.prompt", "sample prompt", "In the beginning", "what the sample text begins with", NULL},
};

struct workbench *headless_open(const char *home, const char *run_id)
{
    return headless_open_with(home, run_id, NULL);
}

static void close_kept(void *workbench)
{
    workbench_close(workbench);
}

struct workbench *headless_open_with(const char *home, const char *run_id, const char *greeting)
{
    struct workbench_options options = {.home = home,
                                        .list = &runs_view,
                                        .run = &run_view,
                                        .run_id = run_id,
                                        .greeting = greeting,
                                        .fields = headless_fields,
                                        .field_count = HEADLESS_FIELDS,
                                        .preview = form_preview_make,
                                        .estimate = form_estimate_read,
                                        .config_rows = config_rows_make};
    struct workbench *workbench;
    struct err err = {0};
    if (workbench_open(&options, &workbench, &err)) fail_msg("%s", err.text);
    return kept(workbench, close_kept);
}

void headless_close(struct workbench *workbench)
{
    kept_forget(workbench);
    workbench_close(workbench);
}

void headless_press(struct workbench *workbench, uint32_t code, int times)
{
    while (times-- > 0) workbench_key(workbench, code);
}

void headless_type(struct workbench *workbench, const char *text)
{
    for (; *text; text++) workbench_key(workbench, (unsigned char)*text);
}

struct grid headless_draw(struct workbench *workbench, int w, int h)
{
    struct grid grid = make_grid(w, h, GLYPHS_BRAILLE);
    grid_fill(&grid, (struct rect){0, 0, w, h}, '#', STYLE_BAD); /* the frame before */
    grid_mark(&grid, (struct rect){0, 0, w, h}, ATTR_REVERSE);
    workbench_draw(workbench, &grid);
    return grid;
}

const char *headless_row_with(struct workbench *workbench, int w, int h, const char *words)
{
    static char row[4096];
    struct grid grid = headless_draw(workbench, w, h);
    bool found = false;
    for (int y = 0; y < h && !found; y++) found = strstr(grid_row(&grid, y, row, sizeof row), words) != NULL;
    grid_release(&grid);
    return found ? row : NULL;
}

void headless_expect_row_all(struct workbench *workbench, int w, int h, const char *words, ...)
{
    va_list texts;
    const char *row = headless_row_with(workbench, w, h, words);
    if (!row) fail_msg("no row holds \"%s\"", words);
    va_start(texts, words);
    for (const char *text; (text = va_arg(texts, const char *));)
        if (!strstr(row, text)) fail_msg("\"%s\" is not in the row \"%s\"", text, row);
    va_end(texts);
}

void headless_go_to(struct workbench *workbench, const char *label)
{
    enum { MARK = 4, LABEL = 18 }; /* bytes of the mark and a blank; of the label in front of every value */
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\u25B8 %-*s", LABEL, label);
    for (int i = 0; i < 200; i++) {
        const char *row = headless_row_with(workbench, 200, 60, "\u25B8");
        if (row && strncmp(strstr(row, "\u25B8"), wanted, MARK + LABEL - 2) == 0) return;
        workbench_key(workbench, K_TAB);
    }
    fail_msg("no field %s", label);
}

static const char *screen_words(struct workbench *workbench, int w, int h, int width)
{
    static char text[100000];
    struct grid grid = headless_draw(workbench, w, h);
    size_t n = 0;
    for (int y = 0; y < h; y++) {
        for (int x = 0; x <= width; x++) { /* a row ends in a space */
            uint32_t glyph = x < width ? grid.cells[y * w + x].glyph : ' ';
            if (glyph == GRID_CONTINUATION || (glyph == ' ' && n > 0 && text[n - 1] == ' ')) continue;
            n += glyph_encode(glyph, text + n, sizeof text - n);
        }
    }
    text[n] = '\0';
    grid_release(&grid);
    return text;
}

void headless_expect_all(struct workbench *workbench, int w, int h, int width, ...)
{
    const char *text = screen_words(workbench, w, h, width), *sentence;
    va_list sentences;
    va_start(sentences, width);
    while ((sentence = va_arg(sentences, const char *)) && strstr(text, sentence)) {
    }
    va_end(sentences);
    if (!sentence) return;
    print_error("%s\n", text);
    fail_msg("at %d x %d \"%s\" cannot be read", w, h, sentence);
}

void headless_expect_not(struct workbench *workbench, int w, int h, const char *words)
{
    if (strstr(screen_words(workbench, w, h, w), words)) fail_msg("at %d x %d there is \"%s\"", w, h, words);
}

int headless_selected_row(struct workbench *workbench, int w, int h)
{
    struct grid grid = headless_draw(workbench, w, h);
    int row = -1;
    for (int y = 2; y < h && row < 0; y++)
        if (grid.cells[y * w + 2].attr & ATTR_REVERSE) row = y;
    grid_release(&grid);
    return row;
}

void headless_expect_selected(struct workbench *workbench, const char *name)
{
    char text[1024];
    int row = headless_selected_row(workbench, 80, 24);
    if (row < 0) fail_msg("no run is selected");
    struct grid grid = headless_draw(workbench, 80, 24);
    grid_row(&grid, row, text, sizeof text);
    grid_release(&grid);
    if (!strstr(text, name)) fail_msg("\"%s\" is selected, not %s", text, name);
}
