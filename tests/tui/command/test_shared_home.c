/* The program on a home that several hosts share: the system's list of mounts is that of
 * tests/runs/stand_in/mounts.c. tests/runs/test_shared_home.c tests the database. */
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void preload(const char *type)
{
    const char *binary = getenv("ANNEAL_BINARY");
    const char *slash = strrchr(binary, '/');
    char *path = kept_format("%.*s/tests/runs/stand_in/mounts.so", (int)(slash - binary), binary);
    assert_int_equal(access(path, R_OK), 0);
    setenv("LD_PRELOAD", path, 1);
    setenv("TEST_MOUNT", type, 1);
#ifdef __SANITIZE_ADDRESS__
    skip(); /* its runtime must come before all other libraries */
#endif
}

static int remove_preload(void **state)
{
    unsetenv("LD_PRELOAD");
    unsetenv("TEST_MOUNT");
    unsetenv("TEST_OPENED");
    unsetenv("ANNEAL_STORE");
    return kept_teardown(state);
}

static int count(const char *text, const char *part)
{
    int times = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) times++;
    return times;
}

STAGE_CASE_TEARDOWN(a_run_says_once_that_its_store_is_shared_and_takes_orders, remove_preload,
                    struct stage *s)
{
    preload("nfs4");
    struct process *trainer = process_start("train", s->config, "--name", "far",
                                            "--train.total_steps=100000000", "--progress=plain", NULL);
    process_wait_text(trainer, "the run database is on nfs4");
    process_run(0, "order", "far", "stop", "--wait", NULL);
    process_expect(0, trainer);
    assert_int_equal(count(process_stderr(trainer), "nfs4"), 1);
    char *mode = stage_query(s, "pragma journal_mode");
    assert_string_equal(mode, "delete"); /* the file has no write-ahead log */
}

STAGE_CASE_TEARDOWN(a_store_without_locks_is_refused_with_the_remedy, remove_preload, struct stage *s)
{
    preload("fuse.sshfs");
    process_expect_sentence(process_run(1, "train", s->config, NULL),
                            "set ANNEAL_STORE to a folder on a local disk");
}

/* Of the trainer of another host only the name in the lock's file is seen. */
STAGE_CASE_TEARDOWN(without_locks_runs_of_other_hosts_are_not_cleaned, remove_preload, struct stage *s)
{
    char *store = kept_format("/dev/shm/anneal-test-%d", (int)getpid());
    struct stat dev, memory;
    if (stat("/dev", &dev) || stat("/dev/shm", &memory) || dev.st_dev == memory.st_dev)
        skip(); /* no mount of its own, as in some chroots */
    setenv("ANNEAL_STORE", store, 1);
    process_run(0, "train", s->config, "--checkpoint.keep=10", "--name=far", "--progress=none", NULL);
    char *id = kept(store_fixture_text(store, "select id from runs"), free),
         *oldest = kept_format("%s/runs/%s/checkpoints/step-10", s->home, id);
    stage_write(kept_format("%s/runs/%s/lock", s->home, id), "1 elsewhere\n", 12);
    preload("beegfs");
    struct process *p = process_run(0, "clean", "--yes", NULL);
    assert_non_null(strstr(process_stdout(p), "another host trained it"));
    assert_int_equal(access(oldest, F_OK), 0);
    unsetenv("LD_PRELOAD"); /* where locks hold for all hosts, it has ended */
    process_run(0, "clean", "--yes", NULL);
    assert_int_not_equal(access(oldest, F_OK), 0);
    unsetenv("ANNEAL_STORE");
    assert_int_equal(file_remove_tree(store, NULL), STATUS_OK);
}

STAGE_CASE_TEARDOWN(a_local_home_is_not_mentioned, remove_preload, struct stage *s)
{
    preload("ext4");
    struct process *trainer =
        process_run(0, "train", s->config, "--train.total_steps=1", "--progress=plain", NULL);
    assert_int_equal(count(process_stderr(trainer), "the run database is on"), 0);
    stage_expect(s, "pragma journal_mode", "wal");
}

STAGE_CASE_TEARDOWN(of_several_ranks_the_first_alone_opens_the_database, remove_preload, struct stage *s)
{
    char opened[700];
    stage_need_mpi();
    snprintf(opened, sizeof opened, "%s/opened", s->folder);
    setenv("TEST_OPENED", opened, 1);
    preload("nfs4");
    process_run(0, "train", s->config, "--ranks=2", "--progress=none", NULL);
    char *ranks = stage_read(opened);
    assert_non_null(strstr(ranks, "rank 0\n"));
    if (strstr(ranks, "rank 1\n")) fail_msg("%s", ranks);
}

TEST_MAIN()
