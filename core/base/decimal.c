/* See decimal.h. The method is Raffaello Giulietti's ("The Schubfach way to render doubles", 2020): scale the
 * value and the two ends of the interval that rounds to it by a power of ten so that the interval is between
 * 1 and 10 wide; then at most one multiple of ten, or else one of two neighbouring integers, is the answer.
 * Scaling is one multiplication with 126 bits of the power, rounded to odd, which keeps every comparison
 * exact.
 *
 * Powers 10^0 … 10^54 fit 128 bits exactly and are products of two 64-bit powers of five, so there is no
 * table to get wrong. They serve values from about 1e-38 up to 2^53, nearly all that is ever measured; others
 * take the slow way through printf and strtod. */
#include "core/base/decimal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANTISSA_BITS = 52, POWER_MAX = 54 };

__extension__ typedef unsigned __int128 uint128;

static const uint64_t power_of_five[28] = {
    1u,
    5u,
    25u,
    125u,
    625u,
    3125u,
    15625u,
    78125u,
    390625u,
    1953125u,
    9765625u,
    48828125u,
    244140625u,
    1220703125u,
    6103515625u,
    30517578125u,
    152587890625u,
    762939453125u,
    3814697265625u,
    19073486328125u,
    95367431640625u,
    476837158203125u,
    2384185791015625u,
    11920928955078125u,
    59604644775390625u,
    298023223876953125u,
    1490116119384765625u,
    7450580596923828125u,
};

/* 5^k, shifted left until its top bit is bit 127; 0 <= k <= POWER_MAX. */
static uint128 normalized_power(int k)
{
    uint128 power = k < 28 ? power_of_five[k] : (uint128)power_of_five[27] * power_of_five[k - 27];
    uint64_t high = (uint64_t)(power >> 64);
    return power << (high ? __builtin_clzll(high) : 64 + __builtin_clzll((uint64_t)power));
}

/* floor(power · c / 2^128), its lowest bit set when anything below was not zero. */
static uint64_t scale(uint128 power, uint64_t c)
{
    uint128 low = (uint128)(uint64_t)power * c, high = (uint128)(uint64_t)(power >> 64) * c;
    high += low >> 64;
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

static void strip_zeros(uint64_t *digits, int *exponent)
{
    while (*digits % 10 == 0) {
        *digits /= 10;
        ++*exponent;
    }
}

static void slow(double value, uint64_t *digits, int *exponent)
{
    char text[40];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod(text, NULL) != value) continue;
        *digits = 0;
        char *c = text;
        for (; *c && *c != 'e'; c++)
            if (*c >= '0' && *c <= '9') *digits = *digits * 10 + (uint64_t)(*c - '0');
        *exponent = atoi(c + 1) - precision;
        break;
    }
}

static void fast(uint64_t c, int q, bool lower_is_closer, int k, uint64_t *digits, int *exponent)
{
    /* k = floor(log10 of the interval's width); h aligns c · 2^q · 10^-k with the top of the power */
    int h = q + ((-k * 1741647) >> 19) + 1;
    bool even = c % 2 == 0; /* only then the ends of the interval round to the value, too */
    uint128 power = normalized_power(-k);
    uint64_t lower = scale(power, (4 * c - 2 + lower_is_closer) << h) + !even;
    uint64_t middle = scale(power, (4 * c) << h);
    uint64_t upper = scale(power, (4 * c + 2) << h) - !even;
    uint64_t s = middle / 4;
    *exponent = k;
    if (s >= 10) {
        uint64_t tens = s / 10;
        bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;
        if (down != up) {
            *digits = tens + up;
            *exponent = k + 1;
            return;
        }
    }
    bool down = lower <= 4 * s, up = 4 * s + 4 <= upper;
    if (down != up) {
        *digits = s + up;
        return;
    }
    uint64_t half = 4 * s + 2;
    *digits = s + (middle > half || (middle == half && s % 2 == 1));
}

void decimal_shortest(double value, uint64_t *digits, int *exponent)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t mantissa = bits & (((uint64_t)1 << MANTISSA_BITS) - 1);
    int biased = (int)(bits >> MANTISSA_BITS & 0x7ff);
    int q = (biased ? biased : 1) - 1075;
    uint64_t c = biased ? mantissa | (uint64_t)1 << MANTISSA_BITS : mantissa;
    if (q <= 0 && q >= -MANTISSA_BITS && (c & (((uint64_t)1 << -q) - 1)) == 0) {
        *digits = c >> -q;
        *exponent = 0;
    } else {
        bool lower_is_closer = mantissa == 0 && biased > 1;
        int k = (q * 1262611 - (lower_is_closer ? 524031 : 0)) >> 22;
        if (k > 0 || -k > POWER_MAX)
            slow(value, digits, exponent);
        else
            fast(c, q, lower_is_closer, k, digits, exponent);
    }
    strip_zeros(digits, exponent);
}
