/* Logs of TensorBoard and wandb, made by tests/fixtures/logs/make_logs.py: what they hold is imported, and no
 * damage does more than fail with a sentence. check_logs.py beside it compares logs at random. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <zlib.h>

#include "core/base/file.h"
#include "runs/annotation.h"
#include "runs/exchange/export.h"
#include "runs/exchange/protobuf.h"
#include "runs/exchange/record_file.h"
#include "runs/quantity.h"
#include "tests/cmocka.h"
#include "tests/long.h"
#include "tests/runs/exchange/exchange_fixture.h"

#define LOGS  "tests/fixtures/logs/"
#define WANDB LOGS "offline.wandb"

/* Without the lines' first field, the id. */
static void expect_rows(struct store *store, const char *id, enum store_table table, const char *rows)
{
    char *text = exchange_table(store, id, table), *line = strchr(text, '\n') + 1;
    for (; *line; line = strchr(line, '\n') + 1, rows += strcspn(rows, "\n") + 1) {
        const char *own = strchr(line, ',') + 1;
        size_t n = strcspn(own, "\r");
        if (n != strcspn(rows, "\n") || strncmp(own, rows, n) != 0)
            fail_msg("%.*s is not %.*s", (int)n, own, (int)strcspn(rows, "\n"), rows);
    }
    assert_string_equal(rows, "");
    free(text);
}

static struct import_outcome import_one(struct store *store, const char *path)
{
    struct import_outcome outcome;
    struct err err = {0};
    if (import_files(store, &path, 1, NULL, &outcome, &err)) fail_msg("%s", err.text);
    return outcome;
}

#define EVALS    "1,4,,1700000004,4.125,,\n1,8,,1700000008,3.625,,\n1,12,,1700000012,3.125,,\n"
#define MEASURES "1,4,eval_accuracy,0.1875\n1,8,eval_accuracy,0.4375\n1,12,eval_accuracy,0.6875\n"

TEST_CASE(scalars_of_both_forms_become_steps_evaluations_and_measures)
{
    static const char *const files[] = {LOGS "tensorboardX.tfevents", LOGS "tensorboard.tfevents"};
    for (size_t i = 0; i < 2; i++) {
        char home[PATH_MAX];
        store_fixture_home("events", home, sizeof home);
        struct store *store = store_fixture_open(home);
        struct import_outcome made = import_one(store, files[i]);
        assert_int_equal(made.steps, 12);
        assert_int_equal(made.evals, 3);
        assert_string_equal(made.remark, "");
        assert_memory_equal(made.id, "20231114-", 9); /* begins when the run did */
        char *text = exchange_table(store, made.id, TABLE_STEPS);
        assert_non_null(strstr(text, ",1,0,,,1700000000,,4,0.125,,,,,\r\n"));
        assert_non_null(strstr(text, ",1,3,,,1700000003,,nan,0.03125,,,,,\r\n"));
        assert_non_null(strstr(text, ",1,4,,,1700000004,,inf,0.02500000037252903,,,,,\r\n"));
        free(text);
        expect_rows(store, made.id, TABLE_EVALS, EVALS);
        expect_rows(store, made.id, TABLE_MEASURES, MEASURES);
        store_close(store);
    }
}

/* The column's own name has it, wherever it comes in the log. */
TEST_CASE(names_of_one_column_do_not_mix)
{
    char home[PATH_MAX];
    store_fixture_home("two-losses", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, LOGS "two_losses.tfevents");
    char *text = exchange_table(store, made.id, TABLE_STEPS);
    assert_non_null(strstr(text, ",1,0,,,1700000000,,9,,"));
    assert_non_null(strstr(text, ",1,2,,,1700000002,,8.5,,"));
    free(text);
    expect_rows(store, made.id, TABLE_MEASURES,
                "1,0,loss_2,0\n1,0,train_loss,3\n1,1,loss_2,1\n1,1,train_loss,2.75\n1,2,loss_2,2\n"
                "1,2,train_loss,2.5\n");
    assert_string_equal(made.names, "loss_2 is Loss, train_loss is train/loss");
    store_close(store);
}

/* Measures have no times of their own in the store. */
TEST_CASE(a_log_of_measures_alone_keeps_its_times)
{
    char home[PATH_MAX];
    store_fixture_home("measures", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, LOGS "measures.tfevents");
    assert_true(made.steps == 0 && made.evals == 0 && made.measures == 6);
    assert_memory_equal(made.id, "20231114-", 9);
    assert_true(store_fixture_number(home, "select created_at from runs") == 1700000000);
    assert_true(store_fixture_number(home, "select ended_at from runs") == 1700000120.5);
    assert_true(store_fixture_number(home, "select started_at from segments") == 1700000000);
    assert_true(store_fixture_number(home, "select ended_at from segments") == 1700000120.5);
    store_close(store);
}

TEST_CASE(a_log_of_measures_alone_has_their_steps_and_their_charts)
{
    char home[PATH_MAX];
    struct arena arena = {0};
    struct quantity *charts;
    size_t count;
    struct run_info run;
    struct err err = {0};
    store_fixture_home("measured", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, LOGS "measures.tfevents");
    assert_int_equal(run_get(store, made.id, &run, &err), STATUS_OK);
    assert_true(run.steps == 2 && run.total_steps == 2);
    assert_int_equal(quantity_list(store, made.id, &arena, &charts, &count, &err), STATUS_OK);
    assert_int_equal(count, 2);
    assert_string_equal(charts[0].name, "reward_best");
    assert_string_equal(charts[1].name, "reward_mean");
    arena_release(&arena);
    store_close(store);
}

TEST_CASE(what_a_restart_has_taken_back_does_not_count)
{
    char home[PATH_MAX];
    store_fixture_home("restarted", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, LOGS "restarted.tfevents");
    assert_true(made.steps == 4 && made.evals == 4);
    expect_rows(store, made.id, TABLE_MEASURES,
                "1,0,accuracy,0\n1,1,accuracy,1\n1,2,accuracy,2\n1,3,accuracy,3\n");
    store_close(store);
}

TEST_CASE(names_that_differ_little_stay_apart)
{
    char home[PATH_MAX];
    store_fixture_home("alike", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, LOGS "alike.tfevents");
    expect_rows(store, made.id, TABLE_MEASURES,
                "1,0,accuracy,3\n1,0,accuracy_2,4\n1,0,loss_train,1\n"
                "1,0,validation_in_distribution_benchmark_reasoning_accuracy,5\n"
                "1,0,validation_in_distribution_benchmark_reasoning_f1,6\n");
    store_close(store);
}

/* Seals the part of a record whose content is behind its header; returns where the next one begins. */
static size_t seal_part(unsigned char *file, size_t at, int kind, size_t size)
{
    unsigned char *part = file + at;
    part[6] = (unsigned char)kind;
    uint32_t crc = (uint32_t)crc32(0, part + 6, (uInt)size + 1);
    for (int i = 0; i < 4; i++) part[i] = (unsigned char)(crc >> 8 * i);
    part[4] = (unsigned char)size, part[5] = (unsigned char)(size >> 8);
    return at + 7 + size;
}

/* The same with this content: the text, or for a larger size zeros. */
static size_t add_part(unsigned char *file, size_t at, int kind, const char *text, size_t size)
{
    memcpy(file + at + 7, text, size < strlen(text) ? size : strlen(text));
    return seal_part(file, at, kind, size);
}

TEST_CASE(settings_whose_names_differ_little_stay_apart)
{
    char home[PATH_MAX];
    store_fixture_home("alike-settings", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, LOGS "alike.wandb");
    char *params = exchange_table(store, made.id, TABLE_PARAMS);
    assert_non_null(strstr(params, ",wandb.a_b,1\r\n"));
    assert_non_null(strstr(params, ",wandb.a_b_2,8\r\n")); /* 2 before it was changed */
    assert_non_null(strstr(params, ",wandb.a_b_3,3\r\n"));
    assert_non_null(strstr(params, ",wandb.in.c_d,6\r\n"));
    assert_non_null(strstr(params, ",wandb.in.c_d_2,7\r\n"));
    assert_non_null(strstr(params, "longlongl,4\r\n"));
    assert_non_null(strstr(params, "_2,5\r\n"));
    store_close(store);
    free(params);
}

/* wandb's blocks have 32,768 bytes, the header of a record's part seven: that fits exactly, or else zeros
 * fill the block. */
TEST_CASE(records_of_wandb_go_on_at_any_end_of_a_block)
{
    enum { BLOCK = 32768, HEADER = 7, FULL = 1, FIRST, MIDDLE, LAST };
    static unsigned char file[2 * BLOCK];
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/blocks.wandb", getenv("ANNEAL_TEST_DIR"));
    for (size_t gap = 0; gap <= HEADER + 1; gap++) { /* bytes that the first record leaves of the block */
        size_t at = HEADER;
        struct record_file records;
        const unsigned char *bytes;
        size_t size;
        struct err err = {0};
        memset(file, 0, sizeof file);
        memcpy(file, ":W&B\xE1\xBE", 6);
        at = add_part(file, at, FULL, "x", BLOCK - 2 * HEADER - gap);
        if (gap >= HEADER) at = add_part(file, at, FIRST, "abc", gap - HEADER);
        at = add_part(file, at < BLOCK ? BLOCK : at, gap >= HEADER ? LAST : FULL, "yz", 2);
        assert_int_equal(file_write_atomic(path, file, at, &err), STATUS_OK);
        assert_int_equal(record_file_open(&records, path, &err), STATUS_OK);
        if (record_file_next(&records, &bytes, &size, &err)) fail_msg("%zu: %s", gap, err.text);
        assert_int_equal(size, BLOCK - 2 * HEADER - gap);
        if (record_file_next(&records, &bytes, &size, &err)) fail_msg("%zu: %s", gap, err.text);
        assert_int_equal(size, gap > HEADER ? 3 : 2);
        assert_memory_equal(bytes, gap > HEADER ? "ayz" : "yz", size);
        assert_int_equal(record_file_next(&records, &bytes, &size, &err), STATUS_OK);
        assert_null(bytes);
        assert_false(records.cut);
        record_file_close(&records);
    }
}

TEST_CASE(a_run_of_wandb_keeps_its_name_configuration_tags_and_summary)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct run_info run;
    store_fixture_home("wandb", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, WANDB);
    assert_int_equal(made.steps, 12);
    assert_int_equal(run_get(store, made.id, &run, &err), STATUS_OK);
    assert_string_equal(run.name, "first-try");
    assert_string_equal(run.note, "a | note");
    assert_string_equal(run.tags, "baseline good_one");
    char *params = exchange_table(store, made.id, TABLE_PARAMS),
         *steps = exchange_table(store, made.id, TABLE_STEPS),
         *evals = exchange_table(store, made.id, TABLE_EVALS),
         *measures = exchange_table(store, made.id, TABLE_MEASURES);
    assert_non_null(strstr(params, ",wandb.lr,0.125\r\n"));
    assert_non_null(strstr(params, ",wandb.model.dim,64\r\n"));
    assert_non_null(strstr(params, ",wandb.flag,true\r\n"));
    assert_non_null(strstr(params, ",wandb.layers,\"[1,2]\"\r\n"));
    assert_non_null(strstr(params, ",wandb.text,two lines\r\n"));
    assert_non_null(strstr(params, ",wandb.long,xxxx"));
    assert_non_null(strstr(params, ",wandb.third,0.3333333333333333\r\n"));
    assert_non_null(strstr(params, ",wandb.odd.clip,Infinity\r\n")); /* Python's, but no JSON */
    assert_non_null(strstr(params, ",wandb.odd.seed,1000000000000000000000000000000\r\n"));
    assert_non_null(strstr(params, ",wandb.odd.text,\"Infinity \\ \"\"x\"\"\"\r\n"));
    assert_non_null(strstr(params, ",wandb.odd.list,\"[\"\"-Infinity\"\",1]\"\r\n"));
    assert_null(strstr(params, "_wandb"));
    assert_non_null(strstr(steps, ",inf,0.025,"));
    assert_non_null(strstr(steps, ",nan,0.03125,"));
    assert_non_null(strstr(evals, ",1,12,,"));
    assert_non_null(strstr(evals, ",3.125,,\r\n"));
    assert_non_null(strstr(measures, ",1,11,nested_inner,11\r\n"));
    assert_non_null(strstr(measures, "longlo__glong"));        /* without the middle */
    assert_non_null(strstr(measures, "longlong_b,11\r\n"));    /* differs from another far behind */
    assert_non_null(strstr(measures, ",1,12,best_2,1.5\r\n")); /* of the summary alone: at the end */
    assert_null(strstr(measures, "timestamp"));
    free(params);
    free(steps);
    free(evals);
    free(measures);
    store_close(store);
}

/* Appends a field of a message, a text of n bytes; returns the message's new size. */
static size_t add_field(unsigned char *message, size_t at, unsigned number, const void *text, size_t n)
{
    const unsigned key = number << 3 | PROTOBUF_BYTES;
    if (key > 0x7F) message[at++] = (unsigned char)(key | 0x80);
    message[at++] = (unsigned char)(key > 0x7F ? key >> 7 : key);
    if (n > 0x7F) message[at++] = (unsigned char)(n | 0x80);
    message[at++] = (unsigned char)(n > 0x7F ? n >> 7 : n);
    memcpy(message + at, text, n);
    return at + n;
}

/* An item {key, value} in field 1 of a message. */
static size_t add_item(unsigned char *message, size_t at, const char *key, const char *json)
{
    unsigned char item[200];
    size_t n = add_field(item, 0, 1, key, strlen(key));
    n = add_field(item, n, 16, json, strlen(json));
    return add_field(message, at, 1, item, n);
}

/* Integers are zigzag: 6 is 3 and 5 is -3. A setting without a name is "_"; beside a NaN, which is no JSON,
 * numbers stay numbers. The summary of the run's own record counts, too. */
TEST_CASE(a_run_of_wandb_may_hold_what_the_library_seldom_writes)
{
    char home[PATH_MAX], path[PATH_MAX];
    unsigned char part[300], run[2000], record[3000], file[8000] = ":W&B\xE1\xBE";
    char tag[TAG_MAX];
    struct err err = {0};
    size_t at = 7, n, size = add_field(run, 0, 1, "id", 2);
    n = add_item(part, 0, "a", "{\"\":1,\"b\":[NaN,0.12345678901234567890]}");
    size = add_field(run, size, 4, part, n);
    n = add_item(part, 0, "left", "2.5");
    size = add_field(run, size, 5, part, n);
    memset(tag, 1, sizeof tag); /* each becomes a replacement character of three bytes */
    tag[0] = 'x';
    size = add_field(run, size, 10, tag, sizeof tag - 1);
    n = add_field(record, 0, 17, run, size);
    memcpy(file + at + 7, record, n);
    at = seal_part(file, at, 1, n);
    n = add_field(part, 0, 1, "\x12\x02up\x28\x06", 6); /* item: nested key, integer */
    n = add_field(part, n, 1,
                  "\x12\x04"
                  "down\x28\x05",
                  8);
    n = add_field(part, n, 2, "\x08\x04", 2); /* step 4 */
    size = add_field(record, 0, 2, part, n);
    memcpy(file + at + 7, record, size);
    at = seal_part(file, at, 1, size);
    store_fixture_home("wandb-seldom", home, sizeof home);
    snprintf(path, sizeof path, "%s/run.wandb", home);
    assert_int_equal(file_write_atomic(path, file, at, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    struct import_outcome made = import_one(store, path);
    expect_rows(store, made.id, TABLE_MEASURES, "1,4,down,-3\n1,4,left,2.5\n1,4,up,3\n");
    store_close(store);
    char *params = store_fixture_text(home, "select name, value from params where name like 'wandb.a%'"),
         *tags = store_fixture_text(home, "select length(cast(tag as blob)) from tags");
    assert_string_equal(params, "wandb.a._|1\nwandb.a.b|[\"NaN\",0.12345678901234568]");
    assert_string_equal(tags, "37"); /* of TAG_MAX - 1 at most */
    free(params);
    free(tags);
}

/* A log of a large model has a metric for each of its tensors. */
TEST_CASE(a_summary_is_kept_beside_any_number_of_metrics)
{
    enum { METRICS = 1100 };
    static unsigned char part[20000], record[20100], file[30000] = ":W&B\xE1\xBE";
    char home[PATH_MAX], path[PATH_MAX + 16], key[16];
    struct err err = {0};
    size_t at = 7, n = 0;
    for (int i = 0; i < METRICS; i++) {
        snprintf(key, sizeof key, "k%d", i);
        n = add_item(part, n, key, "1");
    }
    n = add_field(record, 0, 2, part, n);
    memcpy(file + at + 7, record, n);
    at = seal_part(file, at, 1, n);
    n = add_item(part, 0, "last", "2.5");
    n = add_field(record, 0, 3, part, n);
    memcpy(file + at + 7, record, n);
    at = seal_part(file, at, 1, n);
    store_fixture_home("wandb-large", home, sizeof home);
    snprintf(path, sizeof path, "%s/run.wandb", home);
    assert_int_equal(file_write_atomic(path, file, at, &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    assert_int_equal(import_one(store, path).measures, METRICS + 1);
    assert_true(store_fixture_number(home, "select value from measures where name = 'last'") == 2.5);
    store_close(store);
}

/* Messages of a few bytes, at the ends of what a field can be. Nothing past their end is read. */
TEST_CASE(fields_of_a_message_have_their_limits)
{
    static const struct {
        const char *bytes;
        size_t size;
        bool good;
        uint32_t number;
        uint64_t whole;
    } cases[] = {
        {"\x08\x05", 2, true, 1, 5},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, true, 1, UINT64_MAX},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, false, 0, 0},
        {"\x08\x80", 2, false, 0, 0},
        {"\xf8\xff\xff\xff\x7f\x07", 6, true, UINT32_MAX, 7},
        {"\x80\x80\x80\x80\x80\x01\x07", 7, false, 0, 0}, /* 2^32 */
        {"\x00\x07", 2, false, 0, 0},
        {"\x0d\x01\x02\x03\x04", 5, true, 1, 0x04030201},
        {"\x0d\x01\x02\x03", 4, false, 0, 0},
        {"\x09\x01\x02\x03\x04\x05\x06\x07\x08", 9, true, 1, 0x0807060504030201},
        {"\x0a\x03"
         "ab",
         4, false, 0, 0},
        {"\x0b\x0c", 2, false, 0, 0}, /* a group */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned char *bytes = (const unsigned char *)cases[i].bytes;
        struct protobuf message = {bytes, bytes + cases[i].size, false};
        struct protobuf_field field;
        bool good = protobuf_next(&message, &field);
        if (good != cases[i].good || message.bad == good) fail_msg("case %zu: %d", i, good);
        if (good && (field.number != cases[i].number || field.whole != cases[i].whole))
            fail_msg("case %zu: %" PRIu32 " %" PRIx64, i, field.number, field.whole);
        assert_false(protobuf_next(&message, &field));
    }
    const unsigned char text[] = "\x0a\x04"
                                 "ab\xc3\xa9";
    struct protobuf message = {text, text + 6, false};
    struct protobuf_field field;
    assert_true(protobuf_next(&message, &field));
    static const char *const cut[] = {"", "a", "ab", "ab", "ab\xc3\xa9", "ab\xc3\xa9"};
    for (size_t size = 1; size <= 6; size++) {
        char buf[8] = "xxxxxxx";
        assert_string_equal(protobuf_text(&field, buf, size), cut[size - 1]);
        if (size < 6) assert_int_equal(buf[size], 'x');
    }
}

/* ---- damage ---- */

/* A log in memory, and where its records lie. */
struct log {
    unsigned char *bytes;
    size_t size;
    bool wandb;
};

static struct log read_log(const char *path)
{
    struct log log = {.wandb = strstr(path, ".wandb") != NULL};
    log.bytes = (unsigned char *)store_fixture_slurp(path, &log.size);
    return log;
}

/* The part of a record that begins at or after *at: where its bytes are and how many; false at the end. */
static bool next_part(const struct log *log, size_t *at, size_t *content, size_t *size)
{
    if (log->wandb && 32768 - *at % 32768 < 7) *at += 32768 - *at % 32768;
    if (*at + 16 > log->size) return false;
    const unsigned char *header = log->bytes + *at;
    *content = *at + (log->wandb ? 7 : 12);
    *size = log->wandb ? (size_t)(header[4] | header[5] << 8) : (size_t)(header[0] | header[1] << 8);
    *at = *content + *size + (log->wandb ? 0 : 4);
    return true;
}

/* Makes the checksums right again after the contents were changed. */
static void seal(struct log *log)
{
    size_t at = log->wandb ? 7 : 0, content, size;
    while (next_part(log, &at, &content, &size)) {
        unsigned char *bytes = log->bytes + content;
        if (log->wandb)
            exchange_put(bytes - 7, exchange_crc(0xEDB88320, bytes - 1, size + 1));
        else
            exchange_put_crc(bytes + size, bytes, size);
    }
}

static const char *const logs[] = {LOGS "tensorboardX.tfevents", LOGS "tensorboard.tfevents", WANDB};

TEST_CASE(a_log_that_ends_anywhere_is_read_up_to_there)
{
    for (size_t f = 0; f < sizeof logs / sizeof *logs; f++) {
        char home[PATH_MAX];
        struct err err;
        struct import_outcome made;
        store_fixture_home("cut", home, sizeof home);
        struct store *store = store_fixture_open(home);
        struct log log = read_log(logs[f]);
        int64_t steps = 0, runs = 0, cut = 0;
        for (size_t part = 0, n; part <= 60; part++) {
            n = log.size * part / 60;
            enum status status = exchange_import(store, "log", log.bytes, n, &made, &err);
            if (status && !strstr(err.text, "neither steps nor evaluations")) assert_int_equal(n, 0);
            if (status) continue;
            assert_true(made.steps >= steps);
            steps = made.steps;
            runs++;
            cut += strstr(made.remark, "ends within a record") != NULL;
        }
        assert_int_equal(steps, 12);
        assert_true(cut > 5 && cut < runs);
        assert_true(store_fixture_number(home, "select count(*) from runs") == (double)runs);
        free(log.bytes);
        store_close(store);
    }
}

/* As after a power cut. */
TEST_CASE(zeros_at_the_end_of_a_log_are_left_out)
{
    for (size_t f = 0; f < sizeof logs / sizeof *logs; f++) {
        char home[PATH_MAX];
        struct err err;
        struct import_outcome made;
        store_fixture_home("zeros", home, sizeof home);
        struct store *store = store_fixture_open(home);
        struct log log = read_log(logs[f]);
        unsigned char *longer = calloc(log.size + 5000, 1);
        memcpy(longer, log.bytes, log.size);
        if (exchange_import(store, "log", longer, log.size + 5000, &made, &err)) fail_msg("%s", err.text);
        assert_int_equal(made.steps, 12);
        assert_non_null(strstr(made.remark, "ends within a record"));
        memset(longer + log.size - 6, 0, 6); /* from within a record on, whose checksum comes last */
        if (!log.wandb)
            assert_int_equal(exchange_import(store, "log", longer, log.size + 5000, &made, &err), STATUS_OK);
        free(longer);
        free(log.bytes);
        store_close(store);
    }
}

/* A program that was killed before it wrote leaves a file without content. */
TEST_CASE(event_files_without_a_record_are_passed_over)
{
    char home[PATH_MAX], path[3][PATH_MAX + 40];
    store_fixture_home("begun", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct log log = read_log(logs[0]);
    const size_t sizes[] = {0, log.size, 11};
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/events.out.tfevents.%d", home, i);
        FILE *file = fopen(path[i], "w");
        assert_true(file && fwrite(log.bytes, 1, sizes[i], file) == sizes[i] && fclose(file) == 0);
    }
    struct import_outcome made = import_one(store, home);
    assert_int_equal(made.steps, 12);
    assert_non_null(strstr(made.remark, "ends within a record"));
    struct err err = {0};
    assert_int_equal(import_files(store, (const char *[]){path[0]}, 1, NULL, &made, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "neither steps nor evaluations"));
    free(log.bytes);
    store_close(store);
}

TEST_CASE(a_changed_bit_is_noticed)
{
    for (size_t f = 0; f < sizeof logs / sizeof *logs; f++) {
        char home[PATH_MAX];
        struct err err;
        struct import_outcome made;
        store_fixture_home("bit", home, sizeof home);
        struct store *store = store_fixture_open(home);
        struct log log = read_log(logs[f]);
        for (size_t at = 12; at < log.size; at += log.size / 50) {
            log.bytes[at] ^= 4;
            assert_int_equal(exchange_import(store, "log", log.bytes, log.size, &made, &err), STATUS_CORRUPT);
            assert_non_null(strstr(err.text, "log: the record at byte "));
            log.bytes[at] ^= 4;
        }
        assert_true(store_fixture_number(home, "select count(*) from runs") == 0);
        free(log.bytes);
        store_close(store);
    }
}

/* Whoever writes hostile bytes also writes the right checksums. */
TEST_CASE(hostile_contents_are_read_or_refused)
{
    uint64_t random = 42;
    int rounds = long_or(20000, 60), refused = 0;
    for (size_t f = 0; f < sizeof logs / sizeof *logs; f++) {
        char home[PATH_MAX];
        struct err err;
        struct import_outcome made;
        struct log log = read_log(logs[f]);
        store_fixture_home("hostile", home, sizeof home);
        struct store *store = store_fixture_open(home);
        for (int round = 0; round < rounds; round++) {
            struct log changed = log;
            changed.bytes = malloc(log.size);
            memcpy(changed.bytes, log.bytes, log.size);
            for (int change = 0; change < 1 + round % 4; change++) {
                size_t at = log.wandb ? 7 : 0, content, size;
                random = random * 6364136223846793005u + 1442695040888963407u;
                for (uint64_t skip = (random >> 33) % 60; skip-- && next_part(&log, &at, &content, &size);) {
                }
                if (next_part(&log, &at, &content, &size) && size)
                    changed.bytes[content + (random >> 20) % size] = (unsigned char)(random >> 50);
            }
            seal(&changed);
            refused += exchange_import(store, "log", changed.bytes, changed.size, &made, &err) != STATUS_OK;
            free(changed.bytes);
        }
        assert_true(store_fixture_number(home, "select count(*) from runs where status <> 'finished'") == 0);
        assert_true(store_fixture_number(home, "select count(*) from steps where run_id not in (select id "
                                               "from runs)") == 0);
        free(log.bytes);
        store_close(store);
    }
    assert_true(refused > 0);
}

TEST_MAIN()
