/* Whatever statement of the database fails once: a view says so, and shows everything when it reads again. */
#include <locale.h>
#include <time.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/headless.h"

static char home[1024];

static int make_store(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    store_fixture_everything("failing", home, sizeof home);
    return 0;
}

static struct workbench *open_view(const char *run, const char *typed)
{
    char settings[1100];
    snprintf(settings, sizeof settings, "%s/workbench.ini", home);
    unlink(settings);
    struct workbench *workbench = headless_open(home, run);
    workbench_tick(workbench, 1e9 + 2000);
    headless_type(workbench, typed);
    return workbench;
}

/* The rows of the screen but the last one, which has hints or a message; yours to free. */
static char *draw_rows(struct workbench *workbench)
{
    enum { W = 150, H = 45 };
    char *text = calloc(H, 4 * W + 1), *end = text;
    struct grid grid = headless_draw(workbench, W, H);
    assert_non_null(text);
    for (int y = 0; y < H - 1; y++) end += sprintf(end, "%s\n", grid_row(&grid, y, (char[4 * W]){0}, 4 * W));
    grid_release(&grid);
    return text;
}

/* Ticks after a commit, which nothing shows. */
static void read_anew(struct workbench *workbench)
{
    store_fixture_sql(home, "update runs set pid = pid + 1");
    workbench_tick(workbench, workbench->now);
}

TEST_CASE(what_a_tick_could_not_read_is_told_and_shown_later)
{
    static const struct {
        const char *run, *typed;
    } views[] = {{NULL, ""},      {NULL, "f"},     {NULL, "/golden or branch\raC"},
                 {"golden", ""},  {"golden", "M"}, {"golden", "P"},
                 {"golden", "E"}, {"golden", "i"}, {"golden", "w"},
                 {"letters", ""}, {"ranks", ""}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct store_refusal refusal = {.refused = true};
        struct workbench *workbench = open_view(views[i].run, views[i].typed);
        char *wanted = draw_rows(workbench);
        for (int n = 0; refusal.refused; n++) {
            refusal = (struct store_refusal){.left = n};
            store_fixture_refuse(workbench->store, &refusal);
            read_anew(workbench);
            free(draw_rows(workbench)); /* some is read when it is drawn */
            store_fixture_refuse(workbench->store, NULL);
            if (refusal.refused != (strstr(workbench->message, "SQLite failed") != NULL))
                fail_msg("%s: statement %d failed: \"%s\"", views[i].typed, n, workbench->message);
            workbench_key(workbench, K_F1 + 11); /* has no meaning, but takes the message away */
            read_anew(workbench);
            char *rows = draw_rows(workbench);
            if (strcmp(rows, wanted) != 0)
                fail_msg("%s: statement %d failed, then there was\n%s\nnot\n%s", views[i].typed, n, rows,
                         wanted);
            free(rows);
        }
        free(wanted);
        headless_close(workbench);
    }
}

/* A form and the playground only look whether the store has something to propose. */
TEST_CASE(what_a_key_could_not_read_is_told)
{
    static const struct {
        const char *run, *before, *typed;
    } cases[] = {
        {NULL, "/tune\r", "W"},
        {NULL, "/golden or branch\ra", "C"},
        {NULL, "/golden or branch\raC", "x"},
        {NULL, "/golden or branch\raC", "\t"},
        {NULL, "/golden or branch\raC", "+"},
        {NULL, "/golden or branch\raC", "t2.9\r"},
        {NULL, "/base or tune\raC", "f"},
        {NULL, "/base or tune\raCj", "b"},
        {NULL, "", "v"},
        {NULL, "", "f"},
        {NULL, "", "\r"},
        {NULL, "Slr,tags", "\r"},
        {NULL, "/grad_norm<", "9"},
        {"golden", "", "x"},
        {"golden", "", "M"},
        {"golden", "", "P"},
        {"golden", "P", "a"},
        {"golden", "P", "o"},
        {"golden", "", "E"},
        {"golden", "", "C"},
        {"golden", "C", "f"},
        {"golden", "", "i"},
        {"golden", "", "w"},
        {"golden", "", "+"},
        {"golden", "", "m"},
        {"branch", "", "n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct store_refusal refusal = {.refused = true};
        for (int n = 0; refusal.refused; n++) {
            struct workbench *workbench = open_view(cases[i].run, cases[i].before);
            free(draw_rows(workbench));
            refusal = (struct store_refusal){.left = n};
            store_fixture_refuse(workbench->store, &refusal);
            headless_type(workbench, cases[i].typed);
            free(draw_rows(workbench));
            store_fixture_refuse(workbench->store, NULL);
            if (refusal.refused && !strstr(workbench->message, "SQLite failed"))
                fail_msg("%s%s: statement %d failed: \"%s\"", cases[i].before, cases[i].typed, n,
                         workbench->message);
            headless_close(workbench);
        }
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(make_store, NULL);
}
