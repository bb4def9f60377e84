/* The progress bar of commands: the line at any width, and the output to a terminal or a file. */
#include <math.h>

#include "tests/cmocka.h"
#include "tui/command/progress_bar.h"
#include "tui/command/train_report.h"

static int columns_of(const char *text)
{
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static const struct progress_view training = {"training", "steps", 500, 2000, 12.5, "loss 5.13  12.3k tok/s",
                                              0,          0};

TEST_CASE(a_line_reports_everything_where_there_is_room)
{
    char line[2048];
    progress_bar_line(&training, 120, false, false, line, sizeof line);
    assert_string_equal(line, "training    25% ###########----------------------------------  ETA 2m 00s  "
                              "loss 5.13  12.3k tok/s  500/2000  12.5 step/s");
    struct progress_view bytes = {"encoding", "bytes", 3 << 20, 4 << 20, 1 << 20, NULL, 0, 0};
    progress_bar_line(&bytes, 60, true, false, line, sizeof line);
    assert_string_equal(line, "encoding    75% ━━━━━━━━━━━━─────  ETA 1.0s  3.0 MiB/4.0 MiB");
    struct progress_view view = training; /* evaluations take time too */
    view.speed = 25;
    progress_bar_plain(&view, line, sizeof line);
    assert_string_equal(line, "training: 25% (500 of 2000), 25.0 step/s, ETA 2m 00s, loss 5.13  12.3k tok/s");
    view.left = 3000; /* the batch grows: what is left is as long as 3,000 steps like those before */
    progress_bar_plain(&view, line, sizeof line);
    assert_string_equal(line, "training: 25% (500 of 2000), 25.0 step/s, ETA 4m 00s, loss 5.13  12.3k tok/s");
}

TEST_CASE(a_rate_has_three_digits)
{
    static const struct {
        double rate;
        const char *text;
    } cases[] = {{0.25, "0.25 step/s"}, {9.5, "9.50 step/s"}, {10, "10.0 step/s"},
                 {99.5, "99.5 step/s"}, {100, "100 step/s"},  {1500, "1.50k step/s"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[2048];
        struct progress_view view = training;
        view.speed = cases[i].rate;
        progress_bar_plain(&view, line, sizeof line);
        const char *rate = strstr(line, "), ");
        if (!rate || strncmp(rate + 3, cases[i].text, strlen(cases[i].text)) != 0) fail_msg("%s", line);
    }
}

TEST_CASE(a_line_fits_any_width)
{
    char line[2048];
    static const char *const suffixes[] = {NULL, "", "loss 1",
                                           "a suffix that is much longer than all the rest of this line"};
    for (size_t s = 0; s < 4; s++)
        for (int width = 0; width <= 200; width++)
            for (uint64_t done = 0; done <= 2000; done += 250) {
                struct progress_view view = {"phase", "steps", done, 2000, done % 500, suffixes[s], 0, 0};
                progress_bar_line(&view, width, true, false, line, sizeof line);
                assert_true(columns_of(line) <= width);
                if (width > 30) assert_true(columns_of(line) >= 26); /* a bar is always there */
            }
}

TEST_CASE(what_matters_least_goes_first)
{
    char line[2048];
    progress_bar_line(&training, 80, false, false, line, sizeof line);
    assert_null(strstr(line, "step/s"));
    assert_non_null(strstr(line, "loss 5.13"));
    assert_non_null(strstr(line, "ETA 2m 00s"));
    progress_bar_line(&training, 40, false, false, line, sizeof line);
    assert_null(strstr(line, "loss"));
    assert_non_null(strstr(line, "ETA 2m 00s"));
    progress_bar_line(&training, 10, false, false, line, sizeof line);
    assert_string_equal(line, "training  ");
}

TEST_CASE(odd_numbers_do_no_harm)
{
    char line[2048];
    struct progress_view views[] = {
        {"x", "", 0, 0, 0, NULL, 0, 0},
        {"x", "bytes", UINT64_MAX, 1, 1e300, NULL, 0, 0},
        {"x", "steps", 1, UINT64_MAX, 1e-300, NULL, 0, 0},
        {"x", "steps", 5, 4, -1, NULL, 0, 0},
        {"x", "steps", 5, 10, 0.0 / 0.0, NULL, 0, 0},
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        progress_bar_line(&views[i], 79, true, true, line, sizeof line);
        assert_true(strlen(line) > 0);
        progress_bar_plain(&views[i], line, sizeof line);
        assert_true(strlen(line) > 0);
    }
}

TEST_CASE(colour_changes_no_letter)
{
    char plain[2048], colored[2048], stripped[2048], *to = stripped;
    for (uint64_t done = 0; done <= 100; done += 5) {
        struct progress_view view = {"x", "steps", done, 100, 1, NULL, 0, 0};
        progress_bar_line(&view, 70, true, false, plain, sizeof plain);
        progress_bar_line(&view, 70, true, true, colored, sizeof colored);
        to = stripped;
        for (const char *c = colored; *c; c++) {
            if (*c == '\033')
                c = strchr(c, 'm');
            else
                *to++ = *c;
        }
        *to = '\0';
        assert_string_equal(stripped, plain);
    }
}

TEST_CASE(a_plain_line_is_a_sentence)
{
    char line[2048];
    progress_bar_plain(&training, line, sizeof line);
    assert_string_equal(line, "training: 25% (500 of 2000), 12.5 step/s, ETA 2m 00s, loss 5.13  12.3k tok/s");
}

/* The output of a bar of this style for two phases and a remark. */
static char *written(enum progress_style style, void (*end)(struct progress_bar *))
{
    struct progress_bar bar;
    FILE *file = tmpfile();
    assert_non_null(file);
    progress_bar_init(&bar, file, style);
    for (uint64_t i = 0; i <= 10000; i++) progress_bar_update(&bar, "first", "steps", i, 10000, NULL);
    progress_bar_say(&bar, "remark %d", 7);
    progress_bar_say(&bar, "of \033[31m%d", 8);
    for (uint64_t i = 0; i <= 10000; i++) progress_bar_update(&bar, "second", "steps", i, 10000, "done");
    end(&bar);
    long n = ftell(file);
    char *text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)n, file), n);
    fclose(file);
    return text;
}

TEST_CASE(a_terminal_sees_one_line_redrawn)
{
    setenv("COLUMNS", "80", 1);
    char *text = written(PROGRESS_BAR, progress_bar_finish);
    assert_non_null(strstr(text, "\rfirst        0%"));
    assert_non_null(strstr(text, "\rfirst      100%"));
    assert_non_null(strstr(text, "\r\033[Kremark 7\nof \xEF\xBF\xBD[31m8\n"));
    const char *last = strrchr(text, '\r');
    assert_non_null(strstr(last, "second     100%"));
    assert_non_null(strstr(last, "done  10000/10000"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_true(strlen(text) < 100000); /* not a line for each of the 20,000 updates */
    free(text);
    text = written(PROGRESS_BAR, progress_bar_clear);
    assert_string_equal(text + strlen(text) - 4, "\r\033[K");
    free(text);
}

TEST_CASE(a_file_gets_plain_lines_or_none)
{
    char *text = written(PROGRESS_AUTO, progress_bar_finish);
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "remark 7\n"));
    free(text);
    text = written(PROGRESS_NONE, progress_bar_finish);
    assert_string_equal(text, "");
    free(text);
}

/* Every second step is reported late, and the next one seems short: two steps take 100 ms. */
TEST_CASE(uneven_steps_do_not_raise_the_speed_of_a_training)
{
    struct training_session session = {.config.train.total_steps = 1000};
    struct report report;
    struct training_watcher watcher;
    report_init(&report, REPORT_NONE, &watcher);
    report.session = &session;
    for (int i = 0; i < 200; i++) {
        double ms = i % 2 ? 1 : 99;
        watcher.step(watcher.context,
                     &(struct step_record){.step = i, .step_ms = ms, .tokens_per_sec = 10 / (ms / 1e3)});
    }
    assert_true(fabs(report.bar.speed - 20) < 2);
    assert_true(fabs(report.tokens / report.seconds - 200) < 20);
}

TEST_MAIN()
