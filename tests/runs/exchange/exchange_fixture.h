/* Shared by the tests of exports and imports. */
#ifndef ANNEAL_TESTS_RUNS_EXCHANGE_EXCHANGE_FIXTURE_H
#define ANNEAL_TESTS_RUNS_EXCHANGE_EXCHANGE_FIXTURE_H

#include <limits.h>

#include "runs/exchange/import.h"
#include "tests/runs/store_fixture.h"

#define STEPS_HEADER                                                                                         \
    "run,segment,step,epoch,tokens,wall_time,step_ms,loss,lr,grad_norm,clip_scale,tokens_per_sec,mfu\r\n"
#define ORIGIN "20260102-030405-origin" /* an id */

enum { EXCHANGE_PATH_MAX = PATH_MAX + 64 };

/* Writes a file below `home`, with the folders that its name has; `path` becomes its path. */
void exchange_write(const char *home, const char *name, const void *bytes, size_t size,
                    char path[EXCHANGE_PATH_MAX]);

/* Imports one file with this content; *err is the error, or empty. Any error is one sentence. */
enum status exchange_import(struct store *store, const char *name, const void *bytes, size_t size,
                            struct import_outcome *out, struct err *err);

/* Four bytes, the least first. */
void exchange_put(unsigned char *at, uint32_t value);
/* CRC-32 with this polynomial, reversed. */
uint32_t exchange_crc(uint32_t polynomial, const unsigned char *bytes, size_t size);
/* The checksum that TensorBoard puts behind these bytes. */
void exchange_put_crc(unsigned char *at, const unsigned char *bytes, size_t size);

/* A table of a run as CSV, yours to free. */
char *exchange_table(struct store *store, const char *id, enum store_table table);

#endif
