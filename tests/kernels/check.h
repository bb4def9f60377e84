/* Shared by the tests of operations: a target per instruction set of this processor, random and poisoned
 * buffers of exact size (so that a sanitizer detects an access out of bounds), and the error measure: the
 * relative Frobenius norm against a double-precision reference, where NaN never passes. Failures name the
 * operation. */
#ifndef ANNEAL_TESTS_KERNELS_CHECK_H
#define ANNEAL_TESTS_KERNELS_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/device/backend.h"

#define CHECK_ELEMENTWISE 1e-6
#define CHECK_REDUCTION   1e-5

/* One opened CPU table. */
struct check_target {
    const struct backend *backend;
    const char *isa;
    struct device *device;
    struct stream *stream;
};

/* Runs `body` once with every table this processor can run, and with AMX, or its emulation, on `threads`
 * threads. */
void check_each_isa(int threads, void (*body)(const struct check_target *target));

/* Opens one table; fails the test if it cannot. */
void check_open(struct check_target *target, const char *isa, int threads);
void check_close(struct check_target *target);

/* n floats: uniform in [-scale, scale), the same for the same seed. Free with free(). */
float *check_random(size_t n, uint32_t seed, float scale);
float *check_poisoned(size_t n); /* all NaN */
float *check_copy(const float *x, size_t n);
double *check_doubles(const float *x, size_t n); /* the same numbers in fp64; zeros for a NULL x */
void *check_workspace(size_t bytes);             /* poisoned */
int32_t *check_tokens(size_t n, int V, uint32_t seed);
uint32_t check_word(uint32_t seed, uint32_t index); /* a random word */

/* Fails unless ‖out − ref‖ <= tolerance · ‖ref‖; a reference of zeros requires zeros. `what` is printed. */
void check_near(const char *what, const float *out, const double *ref, size_t n, double tolerance);
void check_same_bits(const char *what, const float *a, const float *b, size_t n);

/* grad (n) = central differences of `loss` at x (n), which comes back unchanged. */
void check_differences(double *grad, double *x, size_t n, double (*loss)(const void *context),
                       const void *context);

#endif
