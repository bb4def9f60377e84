/* See store_fixture.h. */
#include "store_fixture.h"

#include <limits.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "runs/database.h"
#include "tests/cmocka.h"

void store_fixture_home(const char *name, char *buf, size_t size)
{
    const char *base = getenv("ANNEAL_TEST_DIR");
    struct err err = {0};
    snprintf(buf, size, "%s/%s", base ? base : "/tmp/anneal-test-runs", name);
    if (file_remove_tree(buf, &err) || file_make_folders(buf, &err)) fail_msg("%s", err.text);
}

struct store *store_fixture_open(const char *home)
{
    struct err err = {0};
    struct store *store = NULL;
    if (store_open(home, STORE_WRITE, &store, &err)) fail_msg("%s", err.text);
    return store;
}

void store_fixture_run(const char *home, const char *name, char id[RUN_ID_MAX])
{
    struct err err = {0};
    struct store *store = store_fixture_open(home);
    struct run_new run = {.name = name,
                          .device = "cpu",
                          .precision = "fp32",
                          .parameters = 10815744,
                          .total_steps = 2000,
                          .config = "[train]\nbatch_size = 16\nlearning_rate = 3e-4\n[data]\ntrain = kjv\n"};
    if (run_create(store, &run, id, &err)) fail_msg("%s", err.text);
    store_close(store);
}

struct writer *store_fixture_writer(const char *home, const char *id)
{
    struct err err = {0};
    struct writer *writer = NULL;
    struct writer_options options = {.home = home, .run_id = id};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    return writer;
}

struct step_record store_fixture_step(int64_t step, int salt)
{
    struct philox_block random =
        philox4x32_10((uint32_t)step, (uint32_t)(step >> 32), (uint32_t)salt, 0, 7, 9);
    double u = random.word[0] / 4294967296.0;
    double loss = 2 + 8 / (1 + (double)step / 100) + u;
    return (struct step_record){
        .step = step,
        .epoch = (double)step / 977,
        .tokens = (int64_t)(((uint64_t)step + 1) * 4096), /* wraps at the ends of the range */
        .wall_time = 1.7e9 + 0.05 * (double)step,
        .step_ms = 40 + 20 * u,
        .loss = loss,
        .lr = 3e-4 * (1 + cos((double)step / 1000)),
        .grad_norm = random.word[1] / 1e9,
        .clip_scale = 1 / (1 + u),
        .tokens_per_sec = 4096 / (0.04 + 0.02 * u),
        .mfu = step % 3 == 2 ? NAN : u / 2,
        .perplexity = exp(loss),
    };
}

static sqlite3 *open_database(const char *home)
{
    char path[PATH_MAX];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/anneal.db", home);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return db;
}

double store_fixture_number(const char *home, const char *sql)
{
    sqlite3 *db = open_database(home);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    double number =
        sqlite3_column_type(statement, 0) == SQLITE_NULL ? NAN : sqlite3_column_double(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static int write_row(void *opaque, int columns, char **values, char **names)
{
    FILE *out = opaque;
    (void)names;
    for (int i = 0; i < columns; i++) fprintf(out, "%s%s", i ? "|" : "", values[i] ? values[i] : "");
    return fputc('\n', out) == EOF;
}

char *store_fixture_text(const char *home, const char *sql)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    sqlite3 *db = open_database(home);
    assert_non_null(out);
    if (sqlite3_exec(db, sql, write_row, out, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
    fclose(out);
    if (size) text[size - 1] = '\0';
    return text;
}

void store_fixture_sql(const char *home, const char *sql)
{
    sqlite3 *db = open_database(home);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

sqlite3 *store_fixture_lock(const char *home)
{
    sqlite3 *db = open_database(home);
    assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

void store_fixture_unlock(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "rollback", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

void store_fixture_everything(const char *name, char *home, size_t size)
{
    store_fixture_home(name, home, size);
    store_close(store_fixture_open(home));
    char *sql = store_fixture_slurp("tests/fixtures/store.sql", NULL);
    store_fixture_sql(home, sql);
    free(sql);
}

static int refuse(void *opaque, int action, const char *table, const char *column, const char *database,
                  const char *trigger)
{
    struct store_refusal *refusal = opaque;
    (void)table, (void)column, (void)database, (void)trigger;
    bool counts = action == SQLITE_SELECT || action == SQLITE_INSERT || action == SQLITE_UPDATE ||
                  action == SQLITE_DELETE;
    if (!counts || refusal->left-- != 0) return SQLITE_OK;
    refusal->refused = true;
    return SQLITE_DENY;
}

void store_fixture_refuse(struct store *store, struct store_refusal *refusal)
{
    sqlite3_set_authorizer(store->db, refusal ? refuse : NULL, refusal);
}

pid_t store_fixture_fork(int (*body)(void *), void *argument)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(body(argument));
    assert_true(pid > 0);
    return pid;
}

int store_fixture_wait(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void store_fixture_settings(const char *home, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

char *store_fixture_slurp(const char *path, size_t *n)
{
    struct file_map map;
    struct err err = {0};
    if (file_map_open(path, &map, &err)) fail_msg("%s", err.text);
    char *text = malloc(map.size + 1);
    assert_non_null(text);
    memcpy(text, map.data, map.size);
    text[map.size] = '\0';
    if (n) *n = map.size;
    file_map_close(&map);
    return text;
}
