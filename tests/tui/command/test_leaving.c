/* How a run begins and how it ends when something goes wrong: a run that cannot start leaves no run, a
 * failure is never reported as a success, and no checkpoint is newer than the history. */
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Whether the process would catch a SIGTERM by now. */
static bool catches_sigterm(struct process *p, void *context)
{
    char text[4096];
    unsigned long long caught = 0;
    (void)context;
    char *path = kept_format("/proc/%d/status", (int)process_pid(p));
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *line = strstr(text, "SigCgt:");
    return line && sscanf(line, "SigCgt: %llx", &caught) == 1 && caught >> (SIGTERM - 1) & 1;
}

static void write_long_corpus(const struct stage *s)
{
    size_t size = 48 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) text[i] = (char)('a' + i % 23);
    stage_write(s->corpus, text, size);
    free(text);
}

STAGE_CASE(a_signal_while_the_corpus_is_prepared_leaves_no_run, struct stage *s)
{
    static const int signals[] = {SIGTERM, SIGINT}, codes[] = {0, 130};
    write_long_corpus(s);
    for (int i = 0; i < 2; i++) {
        struct process *p = process_start("train", s->config, "--progress=none", NULL);
        process_wait(p, catches_sigterm, NULL);
        process_signal(p, signals[i]);
        process_expect(codes[i], p);
        process_expect_sentence(p, "interrupted while ");
        process_close(p);
        assert_int_equal(stage_count_runs(), 0);
        assert_int_equal(stage_count_leftovers(s), 0);
    }
}

/* Sent to that process alone, not to those that check the runs. */
STAGE_CASE(a_signal_while_a_sweep_is_planned_leaves_none, struct stage *s)
{
    static const int signals[] = {SIGTERM, SIGINT}, codes[] = {143, 130};
    static const char *const ways[] = {"--dry-run", "--jobs=1"};
    write_long_corpus(s);
    for (int i = 0; i < 2; i++) {
        struct process *p = process_start("sweep", s->config, "--train.seed=1,2", ways[i], NULL);
        process_wait(p, catches_sigterm, NULL);
        process_signal(p, signals[i]);
        process_expect(codes[i], p);
        process_expect_sentence(p, "interrupted while checking the runs");
        process_close(p);
        assert_int_equal(stage_count_leftovers(s), 0);
        assert_non_null(strstr(process_stderr(process_run(0, "sweep", "show", NULL)), "no sweeps yet"));
    }
}

static int count_folders(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Its row is there, and then its first segment cannot be recorded. */
STAGE_CASE(a_start_that_fails_leaves_no_run, struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--progress=none", NULL);
    stage_query(s, "create trigger refuse before insert on segments begin select raise(abort, 'refused'); "
                   "end");
    process_expect_sentence(process_run(1, "train", s->config, "--name=ghost", "--progress=none", NULL),
                            "refused");
    process_expect_sentence(
        process_run(1, "fork", "base", "--train.total_steps=50", "--name=ghost", "--progress=none", NULL),
        "refused");
    assert_int_equal(stage_count_runs(), 1);
    char *path = kept_format("%s/runs", s->home);
    assert_int_equal(count_folders(path), 1);
}

/* That is no success; but its records are kept, and stored as soon as they can be. */
STAGE_CASE(a_run_whose_records_cannot_be_stored_fails, struct stage *s)
{
    struct process *p = stage_run_without_table(s, "lost");
    const char *sentence = strstr(process_stderr(p), "its last records are not in the database yet");
    if (!sentence) fail_msg("%s", process_stderr(p));
    process_run(0, "doctor", "--repair", NULL);
    stage_expect(s, "select count(*) = max(step) + 1 and min(step) = 0 from steps", "1");
}

static bool is_there(struct process *p, void *path)
{
    (void)p;
    return access(path, F_OK) == 0;
}

/* Killed as soon as a checkpoint is there, long before a quarter of a second is over. */
TEST_CASE(a_checkpoint_is_never_ahead_of_the_history)
{
    static const char *const background[] = {"--checkpoint.background=true", "--checkpoint.background=false"};
    for (int i = 0; i < 2; i++) {
        struct stage s;
        stage_open(&s, "ahead");
        /* its first life gives the run an id */
        process_run(0, "train", s.config, "--name=ahead", "--train.total_steps=1", "--progress=none",
                    "--eval.every=0", NULL);
        char *id = stage_query(&s, "select id from runs");
        char *path = kept_format("%s/runs/%s/checkpoints/step-40", s.home, id);
        struct process *p = process_start("resume", "ahead", "--train.total_steps=100000000",
                                          "--checkpoint.every=40", "--checkpoint.keep=1000", "--eval.every=0",
                                          "--sample.every=0", "--progress=none", background[i], NULL);
        process_wait(p, is_there, path);
        process_signal(p, SIGKILL);
        process_wait_exit(p);
        char *ahead = stage_query(&s, "select max(step) >= 39 from steps");
        assert_string_equal(ahead, "1");
    }
}

STAGE_CASE(a_signal_cuts_no_line_that_waits_for_its_reader, struct stage *s)
{
    static const int signals[] = {SIGTERM, SIGINT}, codes[] = {0, 130};
    for (int i = 0; i < 2; i++) {
        struct process *p =
            process_start("train", s->config, "--train.total_steps=100000000", "--progress=json", NULL);
        process_wait_blocked(p);
        process_signal(p, SIGHUP); /* a closed terminal stops nothing */
        process_signal(p, signals[i]);
        process_expect(codes[i], p);
        const char *text = process_stdout(p), *end = strstr(text, "\n{\"type\":\"end\"");
        assert_non_null(end);
        assert_string_equal(strrchr(text, '}'), "}\n");
        for (const char *line = text, *next; *line; line = next + 1) {
            next = strchr(line, '\n');
            assert_memory_equal(line, "{\"type\":", 8);
            assert_int_equal(next[-1], '}');
        }
        process_close(p);
    }
}

TEST_MAIN()
