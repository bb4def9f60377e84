/* Each view as a picture: compares the workbench's drawing of the store of tests/fixtures/store.sql, row by
 * row, with tests/tui/view/golden/. After an intended change, ANNEAL_WRITE_GOLDEN=1 writes the pictures
 * again; review the difference. */
#include <ctype.h>
#include <locale.h>
#include <time.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

static const double now = 1e9 + 2000;
static char home[1024];

static int make_store(void **state)
{
    char id[RUN_ID_MAX];
    size_t size;
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    store_fixture_home("golden", home, sizeof home);
    store_fixture_run(home, "made", id);
    char *sql = store_fixture_slurp("tests/fixtures/store.sql", &size);
    store_fixture_sql(home, sql);
    store_fixture_sql(home, "delete from runs where name = 'made'");
    free(sql);
    for (int i = 0; i < 3; i++) fill_checkpoint(home, "20010909-014640-golden", (int[]){150, 250, 300}[i]);
    return 0;
}

/* Row y as a letter a cell for its style, a capital where it is bold, reversed or underlined. */
static void style_row(const struct grid *grid, int y, char *row)
{
    static const char letters[STYLE_COUNT + 1] = ".dragwxtvblns0123456789";
    int end = 0;
    for (int x = 0; x < grid->w; x++) {
        const struct cell *cell = &grid->cells[y * grid->w + x];
        row[x] = cell->glyph == ' ' && !cell->attr ? ' ' : letters[cell->style];
        if (cell->attr) row[x] = cell->style == STYLE_TEXT ? ':' : (char)toupper((unsigned char)row[x]);
        if (row[x] != ' ') end = x + 1;
    }
    row[end] = '\0';
}

/* As in the file of that name. */
static void expect_grid(const struct grid *grid, const char *name, bool styles)
{
    char path[256], row[2048], wanted[2048];
    bool write = getenv("ANNEAL_WRITE_GOLDEN");
    snprintf(path, sizeof path, "tests/tui/view/golden/%s%s.txt", name, styles ? "_styles" : "");
    FILE *file = fopen(path, write ? "w" : "r");
    if (!file) fail_msg("%s: cannot be opened", path);
    for (int y = 0; y < grid->h; y++) {
        if (styles)
            style_row(grid, y, row);
        else
            grid_row(grid, y, row, sizeof row);
        if (write) {
            fprintf(file, "%s\n", row);
            continue;
        }
        if (!fgets(wanted, sizeof wanted, file)) fail_msg("%s ends before row %d", path, y);
        wanted[strcspn(wanted, "\n")] = '\0';
        if (strcmp(row, wanted) != 0) fail_msg("%s, row %d is\n%s\nand should be\n%s", path, y, row, wanted);
    }
    fclose(file);
}

/* A view: opened on a run, or on the list (NULL), given these keys, drawn in w by h cells. */
struct picture {
    const char *name, *run, *typed;
    int w, h;
};

static void expect_picture(const struct picture *picture)
{
    char settings[1100];
    snprintf(settings, sizeof settings, "%s/workbench.ini", home);
    unlink(settings); /* no filter of an earlier picture */
    struct workbench *workbench = headless_open(home, picture->run);
    workbench_tick(workbench, now);
    headless_type(workbench, picture->typed);
    struct grid grid = headless_draw(workbench, picture->w, picture->h);
    expect_grid(&grid, picture->name, false);
    expect_grid(&grid, picture->name, true);
    grid_release(&grid);
    headless_close(workbench);
}

TEST_CASE(every_view_looks_as_in_its_picture)
{
    static const struct picture pictures[] = {
        {"list", NULL, "jCk/o", 120, 16},
        {"list_wide", NULL, "", 200, 16},
        {"list_narrow", NULL, "O", 60, 16},
        {"list_sorted", NULL, "Sstatus,-loss\r", 100, 16},
        {"list_filtered", NULL, "/loss<3 and device=cpu\r", 100, 16},
        {"list_of_groups", NULL, "f", 100, 16},
        {"list_of_marked", NULL, " j Gk ", 100, 16},
        {"columns", NULL, "vjj l", 100, 24},
        {"columns_found", NULL, "v/rate", 80, 24},
        {"message", NULL, "C", 44, 12},
        {"question", NULL, "D", 60, 12},
        {"small", NULL, "", 39, 9},
        {"sweep", NULL, "/tune\rW", 100, 24},
        {"sweep_wide", NULL, "/tune\rWj", 160, 40},
        {"compare", NULL, "/golden or branch\raC", 120, 40},
        {"compare_small", NULL, "/golden or branch or dead\raCj>", 80, 24},
        {"compare_of_tokens", NULL, "/golden or branch\raC\txmhhhh", 120, 40},
        {"compare_to_target", NULL, "/golden or branch\raCt2.9\r", 140, 40},
        {"compare_of_seeds", NULL, "/base or tune\raCfjb", 100, 30},
        {"run", "golden", "", 80, 24},
        {"run_large", "golden", "n\t", 180, 46},
        {"run_enlarged", "golden", "zmyhhh", 100, 30},
        {"run_zoomed", "golden", "++H", 100, 30},
        {"run_of_all_values", "golden", "oX\t", 120, 40},
        {"run_of_a_fork", "branch", "", 120, 40},
        {"run_that_failed", "dead", "", 80, 24},
        {"run_of_a_classifier", "letters", "", 120, 40},
        {"run_of_ranks", "ranks", "", 120, 40},
        {"charts", "golden", "xjj lG ", 80, 24},
        {"memory", "golden", "M", 100, 30},
        {"memory_of_the_device", "golden", "M-", 80, 24},
        {"memory_without_a_record", "branch", "M", 80, 24},
        {"profile", "golden", "Pj\r", 100, 14},
        {"profile_of_all_layers", "golden", "Pa", 120, 40},
        {"profile_together", "golden", "Pto", 120, 40},
        {"evaluations", "golden", "Ejj", 100, 24},
        {"evaluations_of_a_classifier", "letters", "Eb", 120, 24},
        {"checkpoints", "golden", "Cj", 100, 24},
        {"configuration", "branch", "i/rate", 100, 24},
        {"log", "golden", "w", 80, 24},
        {"playground", "golden", "W", 100, 24},
        {"form", NULL, "nmine\t\t ", 110, 24},
        {"help", "golden", "P? ", 80, 24},
        {"help_of_the_list", NULL, "?", 120, 60},
        {"scrolled", "golden", "? jjk", 50, 12},
        {"command_line", "golden", ":lr", 80, 24},
    };
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) expect_picture(&pictures[i]);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(make_store, NULL);
}
