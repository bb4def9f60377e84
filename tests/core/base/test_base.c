/* Tests of core/base: errors, arenas, the ring, the clock, Philox, text, files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/philox.h"
#include "core/base/ring.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "tests/cmocka.h"

TEST_CASE(err_text_is_cut_at_a_character_boundary)
{
    char big[600];
    memset(big, 'x', sizeof big);
    struct err err = {0};
    for (int lead = 0; lead < 3; lead++) { /* the cut falls on each byte of a three-byte character */
        memcpy(big + sizeof err.text - 1 - 1 - lead, "\xE2\x82\xAC", 3);
        big[sizeof big - 1] = '\0';
        assert_int_equal(err_set(&err, STATUS_IO, "%s", big), STATUS_IO);
        size_t n = strlen(err.text);
        if (lead < 2)
            assert_int_equal(n, sizeof err.text - 2 - lead);
        else
            assert_int_equal(n, sizeof err.text - 1);
        memset(big, 'x', sizeof big);
    }
    memcpy(big + sizeof err.text - 3, "\xE2\x82\xAC",
           4); /* too long by the last byte of its last character */
    err_set(&err, STATUS_IO, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 3);
    assert_int_equal(err_prefix(&err, "file.ini"), STATUS_IO);
    assert_memory_equal(err.text, "file.ini: xxx", 13);
    assert_int_equal(err_set(NULL, STATUS_BUSY, "nobody listens"), STATUS_BUSY);
}

TEST_CASE(arena_pieces_are_zeroed_aligned_and_apart)
{
    struct arena arena = {0};
    unsigned char *pieces[200];
    for (size_t i = 0; i < 200; i++) {
        size_t n = i * 7 % 400 + 1;
        pieces[i] = arena_alloc(&arena, n);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < n; j++) assert_int_equal(pieces[i][j], 0);
        memset(pieces[i], (int)i, n);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i * 7 % 400 + 1; j++) assert_int_equal(pieces[i][j], (unsigned char)i);
    assert_null(arena_alloc_array(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_alloc(&arena, SIZE_MAX - 4));
    assert_string_equal(arena_printf(&arena, "%d-%s", 42, "x"), "42-x");
    arena_release(&arena);
    assert_non_null(arena_strdup(&arena, "usable again"));
    arena_release(&arena);
}

struct race {
    struct ring ring;
    uint64_t count;
};

/* Message i: 1 to 40 words of i, in two parts; the second may have a few more bytes. */
static bool push(struct ring *ring, uint64_t i)
{
    uint64_t words[41] = {0}, n = i % 40 + 1;
    for (uint64_t k = 0; k < n; k++) words[k] = i;
    return ring_push(ring, (struct iovec[]){{words, 8}, {words + 1, (n - 1) * 8 + (i % 2 ? 0 : 3)}}, 2);
}

static void *produce(void *argument)
{
    struct race *race = argument;
    for (uint64_t i = 0; i < race->count;)
        if (push(&race->ring, i)) i++;
    return NULL;
}

TEST_CASE(ring_keeps_order_and_content_between_threads)
{
    struct race race = {.count = 200000};
    assert_true(ring_init(&race.ring, 4000));
    assert_int_equal(race.ring.capacity, 4096);
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &race), 0);
    size_t position = 0;
    for (uint64_t i = 0; i < race.count;) {
        const uint64_t *words = ring_next(&race.ring, &position);
        if (!words) continue;
        for (uint64_t k = 0; k < i % 40 + 1; k++) assert_true(words[k] == i);
        if (i++ % 3 == 0) ring_free(&race.ring, position); /* several at a time */
        if (i == race.count) ring_free(&race.ring, position);
    }
    pthread_join(producer, NULL);
    assert_null(ring_next(&race.ring, &position));
    ring_release(&race.ring);
}

struct tally {
    int done[1000];
    atomic_int calls;
};

static void count_range(void *context, size_t from, size_t to)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->calls, 1);
    for (size_t i = from; i < to; i++) tally->done[i]++;
}

TEST_CASE(shared_work_is_done_once_by_any_number_of_threads)
{
    static const struct {
        const char *threads;
        size_t count, least;
        int calls;
    } cases[] = {{"1", 1000, 1, 1}, {"3", 1000, 1, 3},    {"7", 1000, 400, 2}, {"1000", 1000, 1, 64},
                 {"4", 3, 10, 1},   {"4", 1000, 1000, 1}, {"5", 4, 1, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct tally tally = {0};
        setenv("OMP_NUM_THREADS", cases[c].threads, 1);
        thread_share(cases[c].count, cases[c].least, count_range, &tally);
        assert_int_equal(tally.calls, cases[c].calls);
        for (size_t i = 0; i < 1000; i++) assert_int_equal(tally.done[i], i < cases[c].count);
    }
    unsetenv("OMP_NUM_THREADS");
}

TEST_CASE(ring_refuses_when_full_and_gives_again_what_is_not_freed)
{
    struct ring ring;
    assert_true(ring_init(&ring, 64));
    for (int64_t i = 0; i < 4; i++) assert_true(ring_push(&ring, &(struct iovec){&i, sizeof i}, 1));
    int64_t extra = 9;
    assert_false(ring_push(&ring, &(struct iovec){&extra, sizeof extra}, 1));
    for (int round = 0; round < 2; round++) {
        size_t position = ring.tail;
        for (int64_t i = 0; i < 4; i++) assert_true(*(int64_t *)ring_next(&ring, &position) == i);
        assert_null(ring_next(&ring, &position));
    }
    size_t position = ring.tail;
    ring_next(&ring, &position);
    ring_free(&ring, position);
    assert_true(ring_push(&ring, &(struct iovec){&extra, sizeof extra}, 1));
    assert_false(ring_push(&ring, &(struct iovec){&extra, sizeof extra}, 1));
    ring_release(&ring);
}

/* The known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10 rounds). */
TEST_CASE(philox_matches_the_published_vectors)
{
    static const uint32_t vector[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
         0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
         0x5001e420, 0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        const uint32_t *v = vector[i];
        struct philox_block block = philox4x32_10(v[0], v[1], v[2], v[3], v[4], v[5]);
        for (int j = 0; j < 4; j++) assert_int_equal(block.word[j], v[6 + j]);
    }
    assert_true(philox_uniform(0) == 0.0f && philox_uniform(UINT32_MAX) < 1.0f);
}

TEST_CASE(durations_are_readable)
{
    char buf[32];
    assert_string_equal(clock_format_duration(3.24, buf, sizeof buf), "3.2s");
    assert_string_equal(clock_format_duration(59.4, buf, sizeof buf), "59s");
    assert_string_equal(clock_format_duration(59.6, buf, sizeof buf), "1m 00s");
    assert_string_equal(clock_format_duration(7980, buf, sizeof buf), "2h 13m");
    assert_string_equal(clock_format_duration(442800, buf, sizeof buf), "5d 3h");
    assert_string_equal(clock_format_duration(9.95, buf, sizeof buf), "10s");
    assert_string_equal(clock_format_duration(60, buf, sizeof buf), "1m 00s");
    assert_string_equal(clock_format_duration(3600, buf, sizeof buf), "1h 00m");
    assert_string_equal(clock_format_duration(86400, buf, sizeof buf), "1d 0h");
    assert_string_equal(clock_format_duration(NAN, buf, sizeof buf), "--");
    assert_string_equal(clock_format_duration(-1, buf, sizeof buf), "--");
    double before = clock_monotonic();
    assert_true(clock_monotonic() >= before && clock_wall() > 1.6e9);
}

TEST_CASE(text_suggests_the_nearest_name)
{
    static const char *const names[] = {"learning_rate", "batch_size", "seq_len", "dropout"};
    assert_string_equal(text_nearest("lerning_rate", names, 4), "learning_rate");
    assert_string_equal(text_nearest("batchsize", names, 4), "batch_size");
    assert_string_equal(text_nearest("seq_lne", names, 4), "seq_len"); /* neighbours exchanged: one mistake */
    assert_string_equal(text_nearest("DROPOUT", names, 4), "dropout");
    assert_null(text_nearest("xyzzyxyzzy", names, 4));
    static const char *const options[] = {"help", "name"};
    assert_string_equal(text_nearest("nmae", options, 2), "name");
    assert_null(text_nearest("step", options, 2)); /* half of its letters differ */
    static const char *const short_names[] = {"ay", "lr"};
    assert_null(text_nearest("xa", short_names, 2)); /* a letter in both is no exchange of neighbours */
    assert_string_equal(text_nearest("l", short_names, 2), "lr");
    static const char *const verbs[] = {"pause", "sample", "lr-factor", "lr-find"};
    assert_string_equal(text_nearest("lr-fa", verbs, 4), "lr-factor"); /* half of its letters are missing */
    assert_string_equal(text_nearest("lr", verbs, 3), "lr-factor");
    assert_null(text_nearest("lr", verbs, 4)); /* either */
    char longest[66];
    const char *const name = longest;
    memset(longest, 'x', sizeof longest);
    longest[64] = '\0';
    assert_string_equal(text_nearest(longest + 1, &name, 1), longest);
    assert_string_equal(text_nearest(longest, &name, 1), longest);
    assert_string_equal(DID_YOU_MEAN("name"), "; did you mean \"name\"?");
    assert_string_equal(DID_YOU_MEAN(NULL), "");
}

TEST_CASE(numbers_are_written_short_and_read_back)
{
    char buf[64];
    static const double values[] = {0.1,  3e-4,      1.0 / 3, 5e-324, 1.7976931348623157e308,
                                    -2.5, 123456789, 0,       1e15,   6.02e23};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_true(strtod(text_format_double(values[i], buf, sizeof buf), NULL) == values[i]);
    assert_string_equal(text_format_double(0.1, buf, sizeof buf), "0.1");
    assert_string_equal(text_format_double(-INFINITY, buf, sizeof buf), "-inf");
    assert_string_equal(text_format_double(NAN, buf, sizeof buf), "nan");
    assert_string_equal(text_format_count(10815744, buf, sizeof buf), "10.8M");
    static const struct {
        double number;
        const char *text;
    } shorts[] = {{0.012345, "0.0123"}, {12.345, "12.3"}, {999.4, "999"}, {999.6, "1000"},
                  {12345.6, "12346"},   {-1234, "-1234"}, {0, "0"},       {1e20, "1e+20"}};
    for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++)
        assert_string_equal(text_format_short(shorts[i].number, buf, sizeof buf), shorts[i].text);
    assert_string_equal(text_format_count(999.6, buf, sizeof buf), "1.00k");
    assert_string_equal(text_format_count(999.5, buf, sizeof buf), "1.00k");
    assert_string_equal(text_format_count(9995, buf, sizeof buf), "10.0k");
    assert_string_equal(text_format_count(99950, buf, sizeof buf), "100k");
    assert_string_equal(text_format_double(0.125, buf, 5), "0.12"); /* cut */
    assert_string_equal(text_format_bytes(1536, buf, sizeof buf), "1.5 KiB");
    assert_string_equal(text_format_bytes((1 << 20) - 50, buf, sizeof buf), "1.0 MiB");
    assert_string_equal(text_format_bytes(UINT64_MAX, buf, sizeof buf), "16.0 EiB");
    assert_string_equal(text_format_number(123456, buf, sizeof buf), "123,456");
    assert_string_equal(text_format_number(1234567, buf, 6), "1,23"); /* cut */
    int64_t n;
    double d;
    assert_true(text_parse_int("-12", &n) && n == -12);
    assert_false(text_parse_int("12x", &n) || text_parse_int("", &n) ||
                 text_parse_int("99999999999999999999", &n));
    assert_true(text_parse_int("1e4", &n) && n == 10000);
    assert_false(text_parse_int("1.5e0", &n) || text_parse_int("0xE", &n) || text_parse_int("1e30", &n) ||
                 text_parse_int("1e", &n) || text_parse_int("2.0", &n) || text_parse_int(" 5", &n) ||
                 text_parse_int("\t5e2", &n));
    assert_true(text_parse_double("3e-4", &d) && d == 3e-4);
    assert_true(text_parse_double("-inf", &d) && d < 0 && isinf(d));
    assert_true(text_parse_double("nan", &d) && isnan(d));
    assert_false(text_parse_double("1e999", &d) || text_parse_double("abc", &d) ||
                 text_parse_double("0x10", &d) || text_parse_double("-0X1p3", &d) ||
                 text_parse_double(" 5", &d) || text_parse_double("nan(5)", &d));
}

/* The reference, with printf and strtod: the fewest digits that read back the same. */
static int fewest_digits(double value)
{
    char text[64];
    for (int digits = 1;; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value) return digits;
    }
}

/* Counts the digits of a number in printf's %g form, without leading and trailing zeros. */
static int digits_of(const char *text)
{
    int count = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (!count && *text == '0')) continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        count++;
    }
    return count - zeros;
}

TEST_CASE(doubles_are_written_as_short_as_can_be)
{
    for (uint32_t i = 0; i < 60000; i++) {
        struct philox_block random = philox4x32_10(i, 0, 0, 0, 11, 12);
        uint64_t bits = (uint64_t)random.word[0] << 32 | random.word[1];
        double value;
        switch (i % 5) {
        case 0:
            bits &= INT64_MAX;
            break; /* any size at all */
        case 1:
            bits = (bits >> 12) | (uint64_t)(1023 - 126 + random.word[2] % 179) << 52;
            break; /* the usual ones */
        case 2:
            bits = (uint64_t)(random.word[2] % 2047) << 52;
            break; /* powers of two */
        default:
            bits >>= 12; /* below the normal ones */
        }
        memcpy(&value, &bits, sizeof value);
        if (i % 5 == 3) value = (float)(random.word[0] * 1e-9);
        if (i % 5 == 4 && i % 2) value = random.word[0] % 1000000 / pow(10, random.word[1] % 8);
        if (!(value > 0) || !isfinite(value)) continue;
        char buf[32];
        assert_true(strtod(text_format_double(-value, buf, sizeof buf), NULL) == -value);
        /* above a power of two a decimal that is not the nearest of its length can read back the same */
        if (digits_of(buf) > fewest_digits(value))
            fail_msg("%.17g: %s, not at most %d digits", value, buf, fewest_digits(value));
    }
}

TEST_CASE(doubles_are_laid_out_plainly)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {1, "1"},
                 {-12.5, "-12.5"},
                 {0.0001, "0.0001"},
                 {1e-5, "1e-05"},
                 {3e-4, "0.0003"},
                 {1e16, "1e+16"},
                 {1e15, "1000000000000000"},
                 {1.5e300, "1.5e+300"},
                 {123456789, "123456789"},
                 {1700000000.25, "1700000000.25"},
                 {9007199254740992.0, "9007199254740992"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {5e-324, "5e-324"}};
    char buf[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(text_format_double(cases[i].value, buf, sizeof buf), cases[i].text);
    assert_string_equal(text_format_double(1234.5678, buf, 5), "1234");
}

/* A signal interrupts the next so many. */
static int interrupted;

int fsync(int fd)
{
    (void)fd;
    errno = EINTR;
    return interrupted-- > 0 ? -1 : 0;
}

TEST_CASE(a_signal_while_a_file_is_synced_is_no_error)
{
    char path[PATH_MAX];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/interrupted", getenv("ANNEAL_TEST_DIR"));
    interrupted = 2;
    if (file_write_atomic(path, "abc", 3, &err)) fail_msg("%s", err.text);
    assert_true(interrupted < 0);
}

TEST_CASE(files_are_replaced_whole_and_errors_name_the_path)
{
    const char *base = getenv("ANNEAL_TEST_DIR") ? getenv("ANNEAL_TEST_DIR") : "/tmp/anneal-test-base";
    char folder[512], path[600];
    struct err err = {0};
    snprintf(folder, sizeof folder, "%s/a/b/c", base);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(file_write_atomic(path, "first", 5, &err), STATUS_OK);
    assert_int_equal(file_write_atomic(path, "second", 6, &err), STATUS_OK);
    struct file_map map;
    assert_int_equal(file_map_open(path, &map, &err), STATUS_OK);
    assert_int_equal(map.size, 6);
    assert_memory_equal(map.data, "second", 6);
    file_map_close(&map);
    assert_int_equal(file_write_atomic(path, "", 0, &err), STATUS_OK);
    assert_int_equal(file_map_open(path, &map, &err), STATUS_OK);
    assert_int_equal(map.size, 0);
    file_map_close(&map);
    assert_int_equal(file_map_open(folder, &map, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(file_map_open("/nowhere/at/all", &map, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    assert_int_equal(file_make_folders(path, &err), STATUS_IO);
    snprintf(path, sizeof path, "%s/a", base);
    assert_int_equal(file_remove_tree(path, &err), STATUS_OK);
    assert_false(file_exists(path));
    assert_int_equal(file_remove_tree(path, &err), STATUS_OK);
}

TEST_CASE(a_write_removes_what_killed_processes_have_left_of_the_file_an_hour_ago)
{
    static const char *const gone[] = {"x.tmp-999999999", "x.tmp-999999998"};
    static const char *const stay[] = {"x.tmp-999999997", "x.tmp-mine", "x.tmp-", "y.tmp-999999999",
                                       "x.tmp-1.tmp-999999999"};
    static const char *const folders[] = {"x.tmp-999999996", "x.tmp-999999995"};
    enum { GONE = sizeof gone / sizeof *gone, STAY = sizeof stay / sizeof *stay };
    const struct timespec old[2] = {{time(NULL) - 4000, 0}, {time(NULL) - 4000, 0}};
    char folder[512], path[600], living[600];
    struct err err = {0};
    snprintf(folder, sizeof folder, "%s/left", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    snprintf(living, sizeof living, "%s/x.tmp-%ld", folder, (long)getppid());
    for (int i = 0; i < GONE + STAY + 1; i++) {
        if (i < GONE + STAY)
            snprintf(path, sizeof path, "%s/%s", folder, i < GONE ? gone[i] : stay[i - GONE]);
        int fd = open(i < GONE + STAY ? path : living, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        assert_true(fd >= 0);
        if (i != GONE) assert_int_equal(futimens(fd, old), 0); /* that one is young */
        close(fd);
    }
    for (int i = 0; i < 2; i++) { /* of which the second one is young */
        snprintf(path, sizeof path, "%s/%s/inside", folder, folders[i]);
        assert_int_equal(file_make_folders(path, &err), STATUS_OK);
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        if (i == 0) assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    snprintf(path, sizeof path, "%s/x", folder);
    assert_int_equal(file_write_atomic(path, "whole", 5, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        assert_int_equal(file_exists(path), i);
    }
    for (int i = 0; i < GONE + STAY; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i < GONE ? gone[i] : stay[i - GONE]);
        if (file_exists(path) != (i >= GONE)) fail_msg("%s: is %s", path, i < GONE ? "there" : "gone");
    }
    assert_true(file_exists(living));
    assert_int_equal(file_remove_tree(folder, &err), STATUS_OK);
}

TEST_CASE(anneal_home_follows_the_environment)
{
    char buf[512];
    struct err err = {0};
    char *saved = getenv("ANNEAL_HOME") ? strdup(getenv("ANNEAL_HOME")) : NULL;
    setenv("ANNEAL_HOME", "/tmp/x//", 1);
    assert_int_equal(file_anneal_home(buf, sizeof buf, &err), STATUS_OK);
    assert_string_equal(buf, "/tmp/x");
    assert_int_equal(file_anneal_home(buf, strlen("/tmp/x"), &err), STATUS_USAGE);
    unsetenv("ANNEAL_HOME");
    setenv("XDG_DATA_HOME", "/tmp/data", 1);
    assert_int_equal(file_anneal_home(buf, sizeof buf, &err), STATUS_OK);
    assert_string_equal(buf, "/tmp/data/anneal");
    unsetenv("XDG_DATA_HOME");
    if (saved) setenv("ANNEAL_HOME", saved, 1);
    free(saved);
}

TEST_CASE(a_loss_is_short_and_has_no_sign_if_it_is_no_number)
{
    char buf[32];
    assert_string_equal(text_format_loss(3.21006, buf, sizeof buf), "3.2101");
    assert_string_equal(text_format_loss(NAN, buf, sizeof buf), "nan");
    assert_string_equal(text_format_loss(-NAN, buf, sizeof buf), "nan");
    assert_string_equal(text_format_loss(INFINITY, buf, sizeof buf), "inf");
    assert_string_equal(text_format_loss(-INFINITY, buf, sizeof buf), "-inf");
    assert_string_equal(text_format_loss(0, buf, sizeof buf), "0.0000");
    assert_string_equal(text_format_loss(0.001, buf, sizeof buf), "0.0010");
    assert_string_equal(text_format_loss(9.99e-4, buf, sizeof buf), "9.99e-04");
    assert_string_equal(text_format_loss(-5e-28, buf, sizeof buf), "-5.00e-28");
    assert_string_equal(text_format_loss(999999.5, buf, sizeof buf), "999999.5000");
    assert_string_equal(text_format_loss(1.797e308, buf, sizeof buf), "1.80e+308");
    assert_string_equal(text_format_loss(12.5, buf, 4), "12."); /* cut, never beyond the buffer */
}

TEST_CASE(memory_that_was_written_to_is_private)
{
#ifdef __SANITIZE_THREAD__ /* the sanitizer's shadow of touched memory is resident, too */
    skip();
#endif
    size_t bytes = (size_t)64 << 20;
    int64_t before = memory_private(getpid());
    assert_true(before > 0);
    unsigned char *memory = malloc(bytes);
    assert_non_null(memory);
    for (size_t i = 0; i < bytes; i += 1024) ((volatile unsigned char *)memory)[i] = 1;
    assert_in_range(memory_private(getpid()) - before, 60 << 20, 80 << 20);
    free(memory);
}

TEST_CASE(amounts_of_memory_are_read_with_their_units)
{
    static const struct {
        const char *word;
        size_t bytes;
    } good[] = {{"1", 1},
                {"1048576", 1048576},
                {"24GiB", (size_t)24 << 30},
                {"24 gib", (size_t)24 << 30},
                {"512m", 512 << 20},
                {"1.5k", 1536},
                {"2MB", 2000000},
                {"80GB", 80000000000u},
                {"3 B", 3}};
    static const char *const bad[] = {"",    "GiB", "-1",   "0",      "1x",     "1GiBs",
                                      "1 2", "nan", "1e30", "0x10k!", "5 K iB", "0x10k"};
    size_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!text_parse_bytes(good[i].word, &bytes)) fail_msg("\"%s\" is refused", good[i].word);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (text_parse_bytes(bad[i], &bytes)) fail_msg("\"%s\" is taken", bad[i]);
}

TEST_CASE(counts_and_rates_have_units)
{
    static const struct {
        const char *word;
        double value;
    } counts[] = {{"1", 1},     {"10B", 10e9},   {"33.5m", 33.5e6}, {"2 T", 2e12},
                  {"1e9", 1e9}, {"500k", 500e3}, {"9k", 9e3},       {"1e18", 1e18}},
      rates[] = {{"9B/s", 9},        {"1e18B/s", 1e18}, {"400Gb/s", 50e9}, {"100 Gbit/s", 12.5e9},
                 {"10gbps", 1.25e9}, {"50GB/s", 50e9},  {"8b/s", 1}};
    static const char *const bad_counts[] = {"",     "B",           "-1",   "0",   "0.5", "10Q",
                                             "10BB", "10 B tokens", "1e30", "nan", "0x10"},
                             *const bad_rates[] = {"",       "400",    "400G", "400Gb",  "0Gb/s",
                                                   "-1Gb/s", "1 Gb/h", "Gb/s", "0x8Gb/s"};
    double value;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!text_parse_count(counts[i].word, &value)) fail_msg("\"%s\" is refused", counts[i].word);
        assert_true(fabs(value / counts[i].value - 1) < 1e-12);
    }
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        if (!text_parse_rate(rates[i].word, &value)) fail_msg("\"%s\" is refused", rates[i].word);
        assert_true(fabs(value / rates[i].value - 1) < 1e-12);
    }
    for (size_t i = 0; i < sizeof bad_counts / sizeof *bad_counts; i++)
        if (text_parse_count(bad_counts[i], &value)) fail_msg("\"%s\" is taken", bad_counts[i]);
    for (size_t i = 0; i < sizeof bad_rates / sizeof *bad_rates; i++)
        if (text_parse_rate(bad_rates[i], &value)) fail_msg("\"%s\" is taken", bad_rates[i]);
}

TEST_MAIN()
