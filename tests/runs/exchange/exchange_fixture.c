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

void exchange_put(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

uint32_t exchange_crc(uint32_t polynomial, const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

void exchange_put_crc(unsigned char *at, const unsigned char *bytes, size_t size)
{
    uint32_t crc = exchange_crc(0x82F63B78, bytes, size);
    exchange_put(at, (crc >> 15 | crc << 17) + 0xA282EAD8u);
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
