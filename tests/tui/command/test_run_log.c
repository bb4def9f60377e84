/* log.txt in a run's folder: its contents, and that an error in writing it never stops training. */
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/session/run_log.h"

/* The path of the newest run's log. */
static void log_path(const struct stage *stage, char *buf, size_t size)
{
    glob_t found;
    char *pattern = kept_format("%s/runs/*", stage->home);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    snprintf(buf, size, "%s/log.txt", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *c = text; (c = strstr(c, word)); c += strlen(word)) n++;
    return n;
}

/* "2026-11-21 06:14:41  …" */
static void expect_stamped_lines(const char *text)
{
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        for (int i = 0; i < 19; i++)
            if (i == 4 || i == 7)
                assert_int_equal(line[i], '-');
            else if (i == 13 || i == 16)
                assert_int_equal(line[i], ':');
            else
                assert_true(i == 10 ? line[i] == ' ' : line[i] >= '0' && line[i] <= '9');
        assert_memory_equal(line + 19, "  ", 2);
    }
}

TEST_CASE(the_log_reports_the_run_whatever_is_shown_and_continues_after_a_resume)
{
    static const char *const modes[] = {"plain", "json", "none"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct stage s;
        char path[900];
        char *name = kept_format("log-%s", modes[i]);
        stage_open(&s, name);
        process_run(0, "train", s.config, "--name", "a", "--progress", modes[i], NULL);
        log_path(&s, path, sizeof path);
        char *text = stage_read(path);
        expect_stamped_lines(text);
        assert_int_equal(count(text, "  run "), 1);
        assert_int_equal(count(text, "evaluation at step "), 4);
        assert_int_equal(count(text, "checkpoint checkpoints/step-"), 4);
        assert_int_equal(count(text, "sample at step "), 2);
        assert_int_equal(count(text, "finished after step 40"), 1);
        assert_int_equal(count(text, "watch it with"), 0);
        process_run(0, "resume", "a", "--train.total_steps=50", "--progress", modes[i], NULL);
        char *longer = stage_read(path);
        assert_memory_equal(longer, text, strlen(text));
        assert_int_equal(count(longer, "continues after step 40 of 50"), 1);
        assert_int_equal(count(longer, "info: resumed with train.total_steps = 50 (was 40)"), 1);
        assert_int_equal(count(longer, "finished after step 50"), 1);
        expect_stamped_lines(longer);
    }
}

STAGE_CASE(a_log_that_cannot_be_written_stops_no_training, struct stage *s)
{
    char path[900], target[700];
    process_run(0, "train", s->config, "--name", "a", "--progress", "none", NULL);
    log_path(s, path, sizeof path);
    snprintf(target, sizeof target, "%s/elsewhere", s->folder);
    stage_write(target, "mine", 4);
    for (int kind = 0; kind < 3; kind++) {
        assert_int_equal(unlink(path) && rmdir(path), 0);
        if (kind == 0) assert_int_equal(mkdir(path, 0777), 0);
        if (kind == 1) assert_int_equal(symlink(target, path), 0);
        if (kind == 2) assert_int_equal(mkfifo(path, 0666), 0);
        char *steps = kept_format("--train.total_steps=%d", 45 + 5 * kind);
        process_run(0, "resume", "a", steps, "--progress", "none", NULL);
        assert_string_equal(stage_status(), "finished");
    }
    char *text = stage_read(target); /* a link leads nowhere */
    assert_string_equal(text, "mine");
}

TEST_CASE(a_full_disk_leaves_a_gap)
{
    struct run_log log = {.fd = open("/dev/full", O_WRONLY | O_CLOEXEC)};
    assert_true(log.fd >= 0);
    run_log_line(&log, "lost");
    run_log_close(&log);
    assert_int_equal(log.fd, -1);
    run_log_line(&log, "nobody listens");
    run_log_close(&log);
}

STAGE_CASE(a_line_is_one_line_of_bounded_length, struct stage *s)
{
    struct run_log log;
    char path[700], *big = malloc(5001);
    run_log_open(&log, s->folder);
    assert_true(log.fd >= 0);
    run_log_line(&log, "two\nlines\rand \033[2J");
    for (int i = 0; i < 5000; i += 2) memcpy(big + i, "\xC3\xA9", 2);
    big[5000] = '\0';
    run_log_line(&log, big);
    run_log_line(&log, "after");
    run_log_close(&log);
    snprintf(path, sizeof path, "%s/log.txt", s->folder);
    char *text = stage_read(path);
    assert_int_equal(count(text, "\n"), 3);
    assert_non_null(strstr(text, "  two lines\xEF\xBF\xBD"
                                 "and \xEF\xBF\xBD[2J\n"));
    assert_non_null(strstr(text, "\xC3\xA9\n")); /* cut between two characters */
    assert_non_null(strstr(text, "  after\n"));
    free(big);
}

TEST_MAIN()
