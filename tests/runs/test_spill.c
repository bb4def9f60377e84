/* A run's file of records: what was added is read again, an entry that a crash cut off is not, and no damage,
 * and no bytes of a stranger, do more harm than the loss of what they took the place of. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "runs/recovery.h"
#include "runs/run.h"
#include "runs/spill.h"
#include "store_fixture.h"
#include "tests/cmocka.h"
#include "tests/long.h"

enum { ENTRIES = 5 };

static const struct run_note about = {.run = {.name = "named",
                                              .config = "[train]\ntotal_steps = 5\n",
                                              .parameters = 42,
                                              .parent_step = -1,
                                              .total_steps = 5},
                                      .created_at = 1.6e9};

static const struct stopping_record verdict = {1, 3.5, 3.5, 1, 0.01, true, 0, 5, VERDICT_STOP, NULL};

static void add(struct spill *spill, int kind, const void *message)
{
    struct err err = {0};
    if (spill_add(spill, 1, kind, message, &err)) fail_msg("%s", err.text);
}

/* A file with ENTRIES entries; ends[i] is where entry i ends, ends[0] where the run_note does. */
static void make(const char *path, int64_t ends[ENTRIES + 1])
{
    struct spill spill;
    struct err err = {0};
    struct step_record step = store_fixture_step(0, 1);
    if (spill_make(&spill, path, &about, 0, &err)) fail_msg("%s", err.text);
    ends[0] = spill.end;
    add(&spill, TABLE_STEPS, &step);
    ends[1] = spill.end;
    add(&spill, TABLE_SAMPLES, &(struct sample_record){1, "In the", "beginning"});
    ends[2] = spill.end;
    add(&spill, TABLE_STOPPING, &verdict);
    ends[3] = spill.end;
    add(&spill, MESSAGE_DEVICE, &(struct device_note){"cpu", "fp32"});
    ends[4] = spill.end;
    add(&spill, MESSAGE_END, &(struct end_note){RUN_STOPPED, 1.8e9, "enough"});
    ends[5] = spill.end;
    spill_close(&spill);
}

/* Reads the file until it ends or is damaged; returns the number of good entries, -1: it cannot be opened. */
static int read_all(const char *path)
{
    struct spill spill;
    struct spill_entry entry;
    struct run_note note;
    struct err err = {0};
    int n = 0;
    spill_open(&spill, path, &note, &err);
    bool opened = spill.first > 0;
    if (opened) assert_string_equal(note.run.name, "named");
    if (opened) assert_null(note.run.parent_id); /* it was absent, and is no empty text */
    while (opened && spill_waits(&spill)) {
        if (spill_next(&spill, &entry, &err)) fail_msg("%s", err.text);
        n++;
        if (n == 2) assert_string_equal(entry.message.step.step == 1 ? "beginning" : "", "beginning");
        if (n == 3) assert_int_equal(entry.message.stopping.verdict, VERDICT_STOP);
        if (n == 3) assert_string_equal(entry.message.stopping.metric, "");
    }
    spill_close(&spill);
    return opened ? n : -1;
}

static int entries_before(const int64_t ends[ENTRIES + 1], int64_t at)
{
    int n = -1;
    while (n < ENTRIES && ends[n + 1] <= at) n++;
    return n;
}

static const char *scratch(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", getenv("ANNEAL_TEST_DIR"), name);
    return path;
}

TEST_CASE(a_file_cut_anywhere_has_all_entries_before)
{
    int64_t ends[ENTRIES + 1];
    struct err err = {0};
    const char *path = scratch("cut");
    make(path, ends);
    assert_int_equal(read_all(path), ENTRIES);
    for (int64_t n = ends[ENTRIES]; n >= 0; n--) {
        assert_int_equal(truncate(path, n), 0);
        assert_int_equal(read_all(path), entries_before(ends, n));
        if (n != ends[2] + 7) continue;
        /* what is added next takes the place of the half entry */
        struct spill spill;
        struct run_note note;
        assert_int_equal(spill_open(&spill, path, &note, &err), STATUS_OK);
        add(&spill, TABLE_STOPPING, &verdict);
        spill_close(&spill);
        assert_int_equal(read_all(path), 3);
    }
}

/* A disk that fills up during a long entry takes a shorter one after it. */
TEST_CASE(of_an_entry_that_did_not_fit_nothing_stays)
{
    static char text[10000];
    struct spill spill;
    struct err err = {0};
    struct rlimit limit, before;
    const char *path = scratch("full");
    memset(text, 'x', sizeof text - 1);
    if (spill_make(&spill, path, &about, 0, &err)) fail_msg("%s", err.text);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)spill.end + 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum status status = spill_add(&spill, 1, TABLE_SAMPLES, &(struct sample_record){1, "", text}, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, STATUS_IO);
    add(&spill, MESSAGE_END, &(struct end_note){RUN_STOPPED, 1.8e9, "enough"});
    spill_close(&spill);
    assert_int_equal(read_all(path), 1);
}

TEST_CASE(any_changed_byte_is_noticed)
{
    int64_t ends[ENTRIES + 1];
    const char *path = scratch("changed");
    make(path, ends);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (int64_t i = 0; i < ends[ENTRIES]; i++) {
        char byte, other;
        assert_int_equal(pread(fd, &byte, 1, i), 1);
        other = (char)(byte ^ 1 << i % 8);
        assert_int_equal(pwrite(fd, &other, 1, i), 1);
        assert_int_equal(read_all(path), entries_before(ends, i));
        assert_int_equal(pwrite(fd, &byte, 1, i), 1);
    }
    close(fd);
}

/* Checksums protect against accidents, not against people: the content is checked, too. */
TEST_CASE(any_bytes_are_a_message_or_refused)
{
    struct step_record step = store_fixture_step(0, 1);
    struct sample_record sample = {1, "In the", "beginning"};
    const struct {
        int kind;
        const void *message;
    } good[] = {{TABLE_STEPS, &step}, {TABLE_SAMPLES, &sample}, {MESSAGE_RUN, &about}};
    int rounds = long_or(300000, 20000), refused = 0, accepted = 0;
    for (int round = 0; round < rounds; round++) {
        unsigned char *packed = NULL;
        size_t n = 0, capacity = 0;
        union message message;
        int kind = 0;
        struct philox_block draw = philox4x32_10((uint32_t)round, 1, 2, 3, 4, 5);
        assert_true(message_pack(good[round % 3].kind, good[round % 3].message, &packed, &n, &capacity));
        for (uint32_t i = 0; i <= draw.word[0] % 3; i++)
            packed[(draw.word[1] + i * 977) % n] ^= (unsigned char)(draw.word[2] >> i * 8);
        n -= draw.word[3] % 4 ? 0 : draw.word[3] % n;
        unsigned char *exact = malloc(n ? n : 1); /* reading beyond it is an error of a sanitizer */
        assert_non_null(exact);
        memcpy(exact, packed, n);
        if (message_unpack(exact, n, &kind, &message)) {
            refused++;
        } else {
            const char **texts[MESSAGE_TEXTS_MAX];
            int count = message_texts(kind, &message, texts);
            for (int i = 0; i < count; i++)
                if (*texts[i]) assert_true(strlen(*texts[i]) < n);
            accepted++;
        }
        free(exact);
        free(packed);
    }
    assert_true(refused > rounds / 10 && accepted > rounds / 10);
}

/* The file describes the run, and has no entries. */
static void expect_fresh(const char *path)
{
    struct spill spill;
    struct run_note note;
    struct err err = {0};
    if (spill_open(&spill, path, &note, &err)) fail_msg("%s", err.text);
    assert_string_equal(note.run.name, "named");
    assert_false(spill_waits(&spill));
    spill_close(&spill);
}

TEST_CASE(what_comes_before_the_damage_is_stored_and_the_file_kept_aside)
{
    char home[PATH_MAX], folder[PATH_MAX + 16], path[PATH_MAX + 32];
    int64_t ends[ENTRIES + 1];
    struct err err = {0};
    struct repair done;
    store_fixture_home("aside", home, sizeof home);
    snprintf(folder, sizeof folder, "%s/runs/lost", home);
    snprintf(path, sizeof path, "%s/records", folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    make(path, ends);
    FILE *file = fopen(path, "r+");
    assert_true(file && fseek(file, (long)ends[3] + 3, SEEK_SET) == 0 && fputc('x', file) == 'x');
    fclose(file);
    struct store *store = store_fixture_open(home);
    assert_int_equal(recovery_repair(store, "lost", &done, &err), STATUS_OK);
    assert_non_null(strstr(done.err.text, "a record has a wrong checksum at byte "));
    assert_true(done.made && done.cut && done.stored == 3);
    expect_fresh(path);
    strcat(path, ".damaged");
    assert_true(file_exists(path));
    path[strlen(path) - strlen(".damaged")] = '\0';
    assert_int_equal(file_write_atomic(path, "something else", 14, &err), STATUS_OK);
    assert_int_equal(recovery_repair(store, "lost", &done, &err), STATUS_CORRUPT);
    expect_fresh(path);
    assert_string_equal(done.aside, "records.damaged-2");
    store_close(store);
    char *row = store_fixture_text(home, "select name, status, steps, parameters, total_steps from runs");
    assert_string_equal(row, "named|running|1|42|5");
    free(row);
    assert_true(store_fixture_number(home, "select started_at = wall_time from segments, steps") == 1);
    assert_true(store_fixture_number(home, "select count(*) from samples where text = 'beginning'") == 1);
}

/* Its checksum is right, but steps are counted and summed up. */
TEST_CASE(what_no_trainer_writes_is_refused_as_a_whole)
{
    struct step_record before = store_fixture_step(-1, 1), beyond = store_fixture_step(INT64_MAX, 1);
    const struct {
        int kind;
        const void *message;
    } wrong[] = {{TABLE_STEPS, &before},
                 {TABLE_STEPS, &beyond},
                 {MESSAGE_SEGMENT, &(struct segment_note){1.7e9, INT64_MAX}},
                 {MESSAGE_STATUS, &(struct status_note){-1}},
                 {MESSAGE_STATUS, &(struct status_note){RUN_CRASHED}},
                 {MESSAGE_END, &(struct end_note){RUN_CRASHED, 1.8e9, ""}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char home[PATH_MAX], path[PATH_MAX + 32];
        struct err err = {0};
        struct repair done;
        struct spill spill;
        struct step_record good = store_fixture_step(0, 1);
        store_fixture_home("wrong", home, sizeof home);
        snprintf(path, sizeof path, "%s/runs/lost", home);
        assert_int_equal(file_make_folders(path, &err), STATUS_OK);
        strcat(path, "/records");
        if (spill_make(&spill, path, &about, 0, &err)) fail_msg("%s", err.text);
        add(&spill, TABLE_STEPS, &good);
        add(&spill, wrong[i].kind, wrong[i].message);
        spill_close(&spill);
        struct store *store = store_fixture_open(home);
        assert_int_equal(recovery_repair(store, "lost", &done, &err), STATUS_CORRUPT);
        if (!strstr(err.text, "records: record 3 cannot have been written by anneal"))
            fail_msg("%s", err.text);
        store_close(store);
        assert_true(store_fixture_number(home, "select count(*) from steps") == 0);
        assert_true(file_exists(path));
    }
}

TEST_CASE(a_file_that_is_none_and_a_device_are_refused)
{
    struct spill spill;
    struct run_note note;
    struct err err = {0};
    const char *path = scratch("none");
    assert_int_equal(spill_open(&spill, path, &note, &err), STATUS_NOT_FOUND);
    assert_int_equal(file_write_atomic(path, "a text, not records", 19, &err), STATUS_OK);
    assert_int_equal(spill_open(&spill, path, &note, &err), STATUS_CORRUPT);
    spill_close(&spill);
    assert_int_equal(file_write_atomic(path, "ANNLREC\2 of times to come", 26, &err), STATUS_OK);
    assert_int_equal(spill_open(&spill, path, &note, &err), STATUS_FAILED); /* which is no damage */
    spill_close(&spill);
    assert_int_equal(spill_open(&spill, "/dev/zero", &note, &err), STATUS_CORRUPT);
    spill_close(&spill);
}

TEST_MAIN()
