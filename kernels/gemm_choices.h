/* The algorithms that were chosen for matrix products, as they are kept between processes: a run that is
 * resumed on the same device and build must round as before, so it must not choose anew.
 *
 * One file a device: a header that names the device, then fixed records, little-endian as the machines that
 * have such devices are. The file is opened as hostile: a size, a checksum or a field that is off makes it
 * damaged, another device's name in it foreign; either way it counts as empty and the next writing replaces
 * it. What an algorithm's 64 bytes mean is not looked at here: who uses one has cuBLASLt check it.
 *
 * A choice in the file is replaced only where it cannot run. Whoever has the choices open keeps other
 * processes waiting (FILE.lock, flock) until it has measured what is missing and written it, so that of two
 * processes the second takes the first one's choices. The file is replaced whole or not at all. */
#ifndef ANNEAL_KERNELS_GEMM_CHOICES_H
#define ANNEAL_KERNELS_GEMM_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { GEMM_TRANSPOSE_A = 1, GEMM_TRANSPOSE_B = 2, GEMM_ACCUMULATE = 4 };

/* What an algorithm is chosen for; without padding, compared and stored as bytes. */
struct gemm_key {
    int32_t M, N, K, out_stride, a_stride, b_stride;
    uint8_t flags;                             /* GEMM_… */
    uint8_t precision;                         /* enum precision */
    uint8_t alignment;                         /* of all operands in bytes: 2, 4, 8 or 16 */
    uint8_t out_element, a_element, b_element; /* enum element */
    uint8_t zero[2];                           /* 0 */
    uint64_t workspace;                        /* bytes that it may use */
};

struct gemm_choice {
    struct gemm_key key;
    uint64_t algorithm[8];
};

enum { GEMM_CHOICES_MAX = 16384, GEMM_IDENTITY_MAX = 192 };

struct gemm_choices {
    struct gemm_choice *at; /* owned */
    int count, capacity;
    int lock;     /* owned descriptor; -1: none, the folder cannot be written */
    bool changed; /* against the file */
};

/* Reads what the file holds for `identity` (shorter than GEMM_IDENTITY_MAX), once no other process has it
 * open; makes its folder if needed. No file: no choices, and STATUS_OK. STATUS_CORRUPT: damaged or foreign,
 * no choices. STATUS_INTERRUPTED: a signal came while waiting. Another failure: it cannot be read, no
 * choices. */
enum status gemm_choices_open(struct gemm_choices *out, const char *path, const char *identity,
                              struct err *err);
void gemm_choices_close(struct gemm_choices *choices); /* also after a failure */

/* NULL: there is none. Valid until the next addition. */
const struct gemm_choice *gemm_choices_find(const struct gemm_choices *choices, const struct gemm_key *key);

/* Adds it, or puts it in the place of the one for its key. */
enum status gemm_choices_set(struct gemm_choices *choices, const struct gemm_choice *choice, struct err *err);

/* Writes the file, if there is anything new. */
enum status gemm_choices_save(struct gemm_choices *choices, const char *path, const char *identity,
                              struct err *err);

#endif
