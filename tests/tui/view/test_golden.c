/* Each view as a picture: compares the workbench's drawing of one small store, row by row, with
 * tests/tui/view/golden/. After an intended change, ANNEAL_WRITE_GOLDEN=1 writes the pictures again; review
 * the difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <time.h>

#include "tests/runs/store_fixture.h"
#include "tests/tui/view/headless.h"

static const double now = 1e9 + 2000;
static char home[1024];

/* Two runs, everything that a view shows of one of them, nothing that depends on the clock. */
static int make_store(void **state)
{
    char id[RUN_ID_MAX];
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    store_fixture_home("golden", home, sizeof home);
    store_fixture_run(home, "made", id);
    store_fixture_sql(
        home,
        "insert into runs(id, name, status, created_at, ended_at, device, precision, parameters, steps, "
        "tokens,"
        " final_loss, best_val_loss, best_step, tokens_per_sec, total_steps, segment, pid, heartbeat, "
        "config) values"
        " ('20010909-014640-golden', 'golden', 'finished', 1e9, 1e9 + 1000, 'cpu', 'fp32', 10813696, 300, "
        "1228800,"
        " 2.5, 2.75, 250, 12345, 400, 2, 42, 1e9 + 1000, '[train]' || char(10) || 'seed = 1' || char(10)),"
        " ('20010909-014000-other', 'other', 'failed', 1e9 - 400, 1e9 - 300, 'cpu', 'fp32', 1000, 20, 2000,"
        " null, null, null, null, 40, 1, 43, 1e9 - 300, '');"
        "update runs set nan = 1 where name = 'other';"
        "insert into segments(run_id, segment, first_step, started_at, ended_at, status) values"
        " ('20010909-014640-golden', 1, 0, 1e9, 1e9 + 500, 'stopped'),"
        " ('20010909-014640-golden', 2, 150, 1e9 + 700, 1e9 + 1000, 'finished');"
        "with recursive n(i) as (select 0 union all select i + 1 from n where i < 299)"
        " insert into steps(run_id, segment, step, epoch, tokens, wall_time, step_ms, loss, lr, grad_norm, "
        "clip_scale,"
        " tokens_per_sec, mfu) select '20010909-014640-golden', 1 + (i >= 150), i, i / 100.0, (i + 1) * 4096,"
        " 1e9 + i * 3, 331.5, case i when 120 then 9.5 else 2.4 + 6.0 / (1 + i / 15.0) + (i * 37 % 11) / "
        "40.0 end,"
        " 3e-4 * (1 - i / 400.0), 0.5 + 2.0 / (1 + i / 40.0), 1, 12000 + i * 53 % 700, 0.41 from n;"
        "with recursive n(i) as (select 50 union all select i + 50 from n where i < 300)"
        " insert into evals(run_id, segment, step, tokens, wall_time, val_loss, val_perplexity, eval_ms)"
        " select '20010909-014640-golden', 1 + (i > 150), i, i * 4096, 1e9 + i * 3, 2.5 + 62.5 / i, 15.6, "
        "410 from n;"
        "insert into early_stopping(run_id, segment, step, val_loss, best_val_loss, best_step, min_delta, "
        "improved,"
        " patience_used, patience, verdict) values ('20010909-014640-golden', 2, 300, 2.76, 2.75, 250, 0, 0, "
        "1, 5,"
        " 'waiting');"
        "insert into samples(run_id, segment, step, prompt, text) values"
        " ('20010909-014640-golden', 1, 100, 'In the beginning', ' was the word.'),"
        " ('20010909-014640-golden', 2, 299, 'In the beginning', ' God created the heaven and the earth, and "
        "the earth"
        " was without form, and void; and darkness was upon the face of the deep.');"
        "insert into events(run_id, segment, step, wall_time, level, text) values"
        " ('20010909-014640-golden', 1, 120, 1e9, 'warning', 'the loss rose to 9.5'),"
        " ('20010909-014640-golden', 2, 299, 1e9 + 1, 'info', 'checkpoint written');"
        "insert into checkpoints(run_id, segment, step, wall_time, path, kind, bytes) values"
        " ('20010909-014640-golden', 1, 150, 1e9, 'step-150', 'periodic', 43254784),"
        " ('20010909-014640-golden', 2, 250, 1e9, 'best', 'best', 43254784);"
        "insert into orders(run_id, issued_at, verb, argument, issuer, applied_step, result) values"
        " ('20010909-014640-golden', 1e9, 'lr-factor', 0.5, 'workbench', 200, 'learning rate x 0.5');"
        "insert into memory(run_id, segment, step, category, planned_bytes, live_bytes, peak_bytes) values"
        " ('20010909-014640-golden', 2, 0, 'weights', 44040192, 44040192, 44040192),"
        " ('20010909-014640-golden', 2, 0, 'moments', 88080384, 88080384, 88080384),"
        " ('20010909-014640-golden', 2, 0, 'activations', 33554432, 33554432, 35651584);"
        "insert into gpu_samples(run_id, wall_time, gpu, utilization_pct, memory_used_bytes, "
        "memory_total_bytes,"
        " power_w, temperature_c, sm_clock_mhz, process_bytes) values"
        " ('20010909-014640-golden', 1e9 + 990, 0, 97, 4294967296, 8589934592, 312, 64, 1980, 209715200);"
        "insert into layer_profile(run_id, segment, step, phase, layer, op, calls, time_us) values"
        " ('20010909-014640-golden', 2, 200, 'forward', 0, 'attention', 1, 3000),"
        " ('20010909-014640-golden', 2, 200, 'forward', 1, 'attention', 1, 4500),"
        " ('20010909-014640-golden', 2, 200, 'forward', 1, 'gemm', 2, 1500),"
        " ('20010909-014640-golden', 2, 200, 'optimizer', -1, 'adamw', 1, 1000);"
        "delete from runs where name = 'made'");
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

/* Opened, given these keys, drawn. */
static void expect_picture(const char *name, const char *run_id, const char *typed, int w, int h)
{
    char settings[1100];
    snprintf(settings, sizeof settings, "%s/workbench.ini", home);
    unlink(settings); /* no filter of an earlier picture */
    struct workbench *workbench = headless_open(home, run_id);
    workbench_tick(workbench, now);
    headless_type(workbench, typed);
    struct grid grid = headless_draw(workbench, w, h);
    expect_grid(&grid, name, false);
    expect_grid(&grid, name, true);
    grid_release(&grid);
    workbench_close(workbench);
}

static void the_list(void **state)
{
    (void)state;
    expect_picture("list", NULL, "jCk/o", 120, 12);
}

static void a_run(void **state)
{
    (void)state;
    expect_picture("run", "golden", "", 80, 24);
}

static void a_run_on_a_wide_screen(void **state)
{
    (void)state;
    expect_picture("wide", "golden", "n\t", 180, 46);
}

static void the_memory_of_a_run(void **state)
{
    (void)state;
    expect_picture("memory", "golden", "M", 100, 30);
}

static void the_profile_of_a_run(void **state)
{
    (void)state;
    expect_picture("profile", "golden", "Pj\r", 100, 14);
}

static void the_form_of_a_new_run(void **state)
{
    (void)state;
    expect_picture("form", NULL, "nmine\t\t ", 110, 24);
}

static void the_help_over_a_view(void **state)
{
    (void)state;
    expect_picture("help", "golden", "P? ", 80, 24);
}

static void the_help_scrolled_on_a_small_screen(void **state)
{
    (void)state;
    expect_picture("scrolled", "golden", "? jjk", 50, 12);
}

static void a_message_over_the_last_rows(void **state)
{
    (void)state;
    expect_picture("message", NULL, "C", 44, 12);
}

static void a_screen_that_is_too_small(void **state)
{
    (void)state;
    expect_picture("small", NULL, "", 39, 9);
}

static void a_question_over_a_view(void **state)
{
    (void)state;
    expect_picture("question", NULL, "D", 60, 12);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list),
        cmocka_unit_test(a_run),
        cmocka_unit_test(a_run_on_a_wide_screen),
        cmocka_unit_test(the_memory_of_a_run),
        cmocka_unit_test(the_profile_of_a_run),
        cmocka_unit_test(the_form_of_a_new_run),
        cmocka_unit_test(the_help_over_a_view),
        cmocka_unit_test(a_question_over_a_view),
        cmocka_unit_test(the_help_scrolled_on_a_small_screen),
        cmocka_unit_test(a_message_over_the_last_rows),
        cmocka_unit_test(a_screen_that_is_too_small),
    };
    return cmocka_run_group_tests(tests, make_store, NULL);
}
