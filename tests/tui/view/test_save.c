/* Charts and comparisons as files, saved from the workbench; the picture of a chart. */
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/widget/chart_svg.h"

/* Types `path` instead of the proposed name. */
static void save_as(struct workbench *workbench, const char *path)
{
    headless_type(workbench, "S");
    workbench_key(workbench, K_CTRL('u'));
    headless_type(workbench, path);
    workbench_key(workbench, K_ENTER);
}

static char *read_file(const char *path)
{
    size_t n;
    return store_fixture_slurp(path, &n);
}

TEST_CASE(the_focused_chart_is_saved_as_picture_or_points)
{
    char home[1024], path[1200], row[128];
    fill_five_hundred("save", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "S");
    headless_expect(workbench, 80, 24, 80, "save as .svg or .csv ended-loss.svg");
    workbench_key(workbench, K_ESCAPE);
    snprintf(path, sizeof path, "%s/loss.csv", home);
    save_as(workbench, path);
    headless_expect(workbench, 200, 24, 200, "wrote ");
    char *points = read_file(path);
    assert_memory_equal(points, "curve,first_step,last_step,mean,min,max,last,smoothed\r\ntrain,0,0,", 63);
    char loss[32]; /* of one step: mean, least, greatest and last, not smoothed */
    text_format_double(fill_loss(480), loss, sizeof loss);
    snprintf(row, sizeof row, "\r\ntrain,480,480,%s,%s,%s,%s,\r\n", loss, loss, loss, loss);
    assert_non_null(strstr(points, row));
    assert_non_null(strstr(points, "\r\nval,"));
    free(points);
    headless_type(workbench, "\t"); /* another chart, smoothed */
    headless_type(workbench, "\tm");
    headless_type(workbench, "S");
    headless_expect(workbench, 80, 24, 80, "ended-gradient_norm.svg");
    workbench_key(workbench, K_ESCAPE);
    snprintf(path, sizeof path, "%s/norm.svg", home);
    save_as(workbench, path);
    char *svg = read_file(path);
    assert_non_null(strstr(svg, ">ended</text>"));
    assert_non_null(strstr(svg, ">gradient norm, ema 0.9<"));
    free(svg);
}

TEST_CASE(the_points_are_those_on_the_screen)
{
    char home[1024], path[1200];
    fill_five_hundred("zoomed", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "+"); /* from 240 on */
    snprintf(path, sizeof path, "%s/loss.csv", home);
    save_as(workbench, path);
    char *points = read_file(path);
    assert_null(strstr(points, "\r\ntrain,239,"));
    assert_non_null(strstr(points, "smoothed\r\ntrain,240,"));
    assert_non_null(strstr(points, "\r\ntrain,480,"));
    assert_null(strstr(points, "\r\nval,200,"));
    assert_non_null(strstr(points, "\r\nval,250,"));
    free(points);
}

TEST_CASE(the_name_that_is_proposed_has_whole_characters)
{
    char home[1024];
    fill_five_hundred("whole", home, sizeof home);
    store_fixture_sql(home, "update runs set name = 'a日本語日本語日本語日本語日本語日本語日本'");
    struct workbench *workbench = headless_open(home, "latest");
    headless_type(workbench, "S");
    headless_expect(workbench, 120, 24, 120, "日本-loss.svg");
}

TEST_CASE(a_run_without_any_value_has_no_chart_to_save)
{
    char home[1024];
    fill_five_hundred("valueless", home, sizeof home);
    store_fixture_sql(home,
                      "update steps set loss = null, lr = null, grad_norm = null, tokens_per_sec = null,"
                      " step_ms = null, mfu = null, clip_scale = null, nan = 0;"
                      "delete from rollup; delete from evals; delete from measures"); /* as of an import */
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "S");
    headless_expect(workbench, 80, 24, 80, "there is no chart to save");
    headless_expect_not(workbench, 80, 24, "save as");
}

TEST_CASE(a_file_is_never_replaced_and_its_ending_must_be_known)
{
    char home[1024], path[1200];
    struct stat found;
    fill_five_hundred("refused", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    snprintf(path, sizeof path, "%s/anneal.db", home);
    save_as(workbench, path);
    headless_expect(workbench, 200, 24, 200, "exists already (type another name)", "anneal.db");
    headless_type(workbench, ".png\r"); /* the name is typed on */
    headless_expect(workbench, 200, 24, 200, "must end in .svg (a picture) or .csv (the points)");
    snprintf(path, sizeof path, "%s/anneal.db.png", home);
    assert_int_equal(stat(path, &found), -1);
    headless_type(workbench, ".md\r"); /* which is for comparisons */
    headless_expect(workbench, 200, 24, 200, "must end in .svg (a picture) or .csv (the points)");
    snprintf(path, sizeof path, "%s/none/loss.svg", home);
    workbench_key(workbench, K_ESCAPE);
    save_as(workbench, path);
    headless_expect(workbench, 200, 24, 200, "cannot create");
    workbench_key(workbench, K_ESCAPE);
    save_as(workbench, ""); /* no name: nothing happens */
}

TEST_CASE(a_comparison_is_saved_as_markdown_and_its_chart_as_picture)
{
    char home[1024], path[1200];
    struct fill_run run;
    fill_five_hundred("compared", home, sizeof home);
    fill_run(home,
             &(struct fill){.name = "other",
                            .steps = 200,
                            .total_steps = 200,
                            .eval_every = 50,
                            .spike_step = -1,
                            .status = RUN_FINISHED},
             &run);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "aC");
    snprintf(path, sizeof path, "%s/both.md", home);
    save_as(workbench, path);
    char *text = read_file(path);
    assert_memory_equal(text, "# 2 runs compared\n", 18);
    assert_non_null(strstr(text, "\n| steps | "));
    free(text);
    snprintf(path, sizeof path, "%s/both.png", home);
    save_as(workbench, path);
    headless_expect(workbench, 200, 24, 200, "must end in .svg (a picture), .csv (the points) or .md (the");
    workbench_key(workbench, K_ESCAPE);
    snprintf(path, sizeof path, "%s/both.svg", home);
    save_as(workbench, path);
    text = read_file(path);
    assert_non_null(strstr(text, ">1 1 "));
    assert_non_null(strstr(text, "by step"));
    free(text);
    static const char *const places[] = {"step", "tokens", "wall_time_ms", "active_time_ms", "relative_step"};
    for (int axis = 0; axis < 5; axis++, headless_type(workbench, "x")) {
        char header[80];
        snprintf(path, sizeof path, "%s/%s.csv", home, places[axis]);
        snprintf(header, sizeof header, "curve,first_%s,last_%s,mean,", places[axis], places[axis]);
        save_as(workbench, path);
        text = read_file(path);
        assert_memory_equal(text, header, strlen(header));
        free(text);
    }
}

/* ---- the picture ---- */

/* Fails unless the elements of the document are closed in order and each attribute is quoted. */
static void expect_well_formed(const char *text)
{
    char open[16][16];
    int depth = 0, roots = 0;
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        size_t n = strcspn(at + 1 + (at[1] == '/'), " />\n");
        assert_true(n > 0 && n < 16);
        if (at[1] == '/') {
            assert_true(depth > 0 && strlen(open[depth - 1]) == n &&
                        strncmp(open[depth - 1], at + 2, n) == 0);
            depth--;
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            roots += depth == 0;
            snprintf(open[depth++], 16, "%.*s", (int)n, at + 1);
        }
        int quotes = 0;
        for (const char *c = at; c < end; c++) quotes += *c == '"';
        assert_int_equal(quotes % 2, 0);
        assert_null(memchr(at + 1, '<', (size_t)(end - at - 1)));
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
    for (const char *c = text; *c; c++) assert_true((unsigned char)*c >= ' ' || *c == '\n');
}

static char *picture_of(const struct chart *chart, const char *heading)
{
    char path[PATH_MAX];
    struct err err = {0};
    store_fixture_home("picture", path, sizeof path - 16);
    strcat(path, "/chart.svg");
    if (chart_write_svg(chart, heading, path, &err)) fail_msg("%s", err.text);
    char *text = read_file(path);
    expect_well_formed(text);
    for (const char *d = text; (d = strstr(d, " d=\"")); d++) { /* numbers alone */
        size_t n = strcspn(d + 4, "\"");
        assert_true(strspn(d + 4, "MLHVhmvlz0123456789 .-") >= n);
    }
    return text;
}

static struct series_point points[1000];

static struct chart chart_of(size_t count, double (*value)(size_t))
{
    for (size_t i = 0; i < count; i++) points[i] = series_point_of((int64_t)i, value(i));
    return (struct chart){.title = "loss",
                          .trace_count = 1,
                          .trace = {{.name = "a", .points = points, .count = count, .style = STYLE_TRAIN}},
                          .last_step = (int64_t)count,
                          .cursor = -1,
                          .best_step = -1};
}

static double falling(size_t i)
{
    return 5 - (double)i / 500;
}

static double hostile(size_t i)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 5e-324, 0, 1};
    return odd[i % 8];
}

TEST_CASE(no_data_make_a_broken_picture)
{
    static const size_t counts[] = {0, 1, 2, 1000};
    for (size_t c = 0; c < 4; c++)
        for (int log = 0; log < 4; log++) {
            struct chart chart = chart_of(counts[c], hostile);
            chart.log = log & 1;
            chart.log_steps = log & 2;
            chart.exponential = log == 3;
            chart.best_step = 3;
            chart.best = NAN;
            free(picture_of(&chart, "x"));
        }
}

TEST_CASE(names_and_headings_are_escaped)
{
    struct chart chart = chart_of(10, falling);
    chart.trace[0].name = "<b>&\"'\x1b[31m";
    chart.title = "</svg>";
    char *text = picture_of(&chart, "a<script>\x07");
    assert_null(strstr(text, "<b>"));
    assert_null(strstr(text, "<script"));
    assert_non_null(strstr(text, "&#60;b&#62;&#38;&#34;&#39;"));
    free(text);
}

/* How many pieces the paths of the curve have. */
static int count_moves(const char *text)
{
    int moves = 0;
    for (const char *line = strstr(text, "<g class=\"s7\">\n"); *line && strncmp(line, "</g>", 4) != 0;
         line++)
        moves += *line == 'M';
    return moves;
}

static double with_gap(size_t i)
{
    return i == 500 ? NAN : falling(i);
}

TEST_CASE(a_missing_number_breaks_the_line_and_is_marked)
{
    struct chart whole = chart_of(1000, falling);
    char *text = picture_of(&whole, "x");
    int moves = count_moves(text);
    assert_null(strstr(text, "l6 6m0 -6l-6 6"));
    free(text);
    struct chart gap = chart_of(1000, with_gap);
    text = picture_of(&gap, "x");
    assert_int_equal(count_moves(text), moves + 2); /* the second part, and the cross */
    assert_non_null(strstr(text, "l6 6m0 -6l-6 6"));
    free(text);
}

static double without_number(size_t i)
{
    (void)i;
    return NAN;
}

TEST_CASE(a_curve_without_a_number_is_marked)
{
    struct chart chart = chart_of(20, without_number);
    char *text = picture_of(&chart, "x");
    assert_non_null(strstr(text, "no finite value in this range"));
    assert_non_null(strstr(text, "l6 6m0 -6l-6 6"));
    free(text);
}

static double with_jump(size_t i)
{
    return i == 500 ? 1000 : falling(i);
}

TEST_CASE(an_infinite_perplexity_breaks_the_line_and_is_counted)
{
    struct chart chart = chart_of(1000, falling);
    chart.exponential = true;
    char *text = picture_of(&chart, "x");
    int moves = count_moves(text);
    free(text);
    chart = chart_of(1000, with_jump);
    chart.exponential = true;
    text = picture_of(&chart, "x");
    assert_int_equal(count_moves(text), moves + 1);
    assert_non_null(strstr(text, ", 1 values beyond the scale"));
    free(text);
}

/* A line for the steps before the fork, which are another run's, and one for those after it. */
TEST_CASE(what_a_run_has_inherited_is_a_faint_line)
{
    struct chart chart = chart_of(1000, falling);
    chart.trace[0].fork_step = 400;
    char *text = picture_of(&chart, "x"), *faint = strstr(text, "<path class=\"line faint\"");
    assert_non_null(faint);
    char *own = strstr(faint, "<path class=\"line\"");
    assert_non_null(own);
    assert_null(strstr(own, "<path class=\"line faint\""));
    free(text);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

/* Orders and events of the steps that are shown, and the best value. */
TEST_CASE(marks_are_drawn_where_their_steps_are_shown)
{
    static const struct chart_mark marks[] = {{0, false},    {500, false}, {1000, false},
                                              {1001, false}, {20, true},   {-1, true}};
    static const char order[] = "l-4 8h8z", event[] = ">!</text>", star[] = "\u2605</text>";
    static const int64_t best[] = {-1, 0, 1000, 1001};
    for (int i = 0; i < 4; i++) {
        struct chart chart = chart_of(1000, falling);
        chart.marks = marks, chart.mark_count = 6, chart.events = i % 2;
        chart.best_step = best[i], chart.best = 3;
        char *text = picture_of(&chart, "x");
        assert_int_equal(count_of(text, order), 3);
        assert_int_equal(count_of(text, event), i % 2);
        assert_int_equal(count_of(text, star), i == 1 || i == 2);
        free(text);
    }
}

TEST_CASE(a_long_legend_takes_rows_above_the_plot)
{
    struct chart chart = chart_of(10, falling);
    char names[CHART_TRACES_MAX][80];
    chart.trace_count = CHART_TRACES_MAX;
    for (int t = 0; t < CHART_TRACES_MAX; t++) {
        snprintf(names[t], sizeof names[t], "a run with a name of a certain length, number %d", t);
        chart.trace[t] = chart.trace[0];
        chart.trace[t].name = names[t];
    }
    char *text = picture_of(&chart, "x");
    int lowest = 0, top, x, y;
    for (const char *at = text; (at = strstr(at, "stroke-width:3\" d=\"M")); at++) {
        assert_int_equal(sscanf(at + 20, "%d %d", &x, &y), 2);
        assert_true(x < 800);
        if (y > lowest) lowest = y;
    }
    const char *axis = strstr(text, "class=\"s2 line\" d=\"M72 ");
    assert_non_null(axis);
    assert_int_equal(sscanf(axis + 23, "%d", &top), 1);
    assert_true(lowest > 60 && top > lowest);
    free(text);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
