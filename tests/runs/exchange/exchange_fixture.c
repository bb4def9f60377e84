/* See exchange_fixture.h. */
#include "tests/runs/exchange/exchange_fixture.h"

#include "core/base/file.h"
#include "runs/exchange/export.h"
#include "tests/cmocka.h"

void exchange_write(const char *home, const char *name, const void *bytes, size_t size,
                    char path[EXCHANGE_PATH_MAX])
{
    struct err err = {0};
    char folder[EXCHANGE_PATH_MAX];
    snprintf(path, EXCHANGE_PATH_MAX, "%s/%s", home, name);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (file_make_folders(folder, &err) || file_write_atomic(path, bytes, size, &err))
        fail_msg("%s", err.text);
}

enum status exchange_import(struct store *store, const char *name, const void *bytes, size_t size,
                            struct import_outcome *out, struct err *err)
{
    char path[EXCHANGE_PATH_MAX];
    const char *paths[] = {path};
    exchange_write(store_home(store), name, bytes, size, path);
    *err = (struct err){0};
    enum status status = import_files(store, paths, 1, NULL, out, err);
    assert_int_equal(status, err->status);
    if (status) assert_true(*err->text && !strchr(err->text, '\n'));
    return status;
}

char *exchange_table(struct store *store, const char *id, enum store_table table)
{
    char path[EXCHANGE_PATH_MAX];
    struct err err = {0};
    size_t n;
    snprintf(path, sizeof path, "%s/exported.csv", store_home(store));
    if (export_csv(store, &id, 1, table, path, &err)) fail_msg("%s", err.text);
    return store_fixture_slurp(path, &n);
}
