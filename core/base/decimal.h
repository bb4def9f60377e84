/* The shortest decimal that reads back as the same double. Separate from text.h because it is an algorithm,
 * not a convenience. */
#ifndef ANNEAL_CORE_BASE_DECIMAL_H
#define ANNEAL_CORE_BASE_DECIMAL_H

#include <stdint.h>

/* value = digits · 10^exponent, digits without trailing zeros. `value` is finite and above 0. Of the decimals
 * with the fewest digits that round to `value` (nearest, ties to even) it is the one closest to it. */
void decimal_shortest(double value, uint64_t *digits, int *exponent);

#endif
