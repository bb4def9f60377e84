/* AMX in plain C, for processors that lack it: the compiler reads this before every file of a table of its
 * own (see the Makefile), whose products test_cpu_bf16.c compares with fp64, and with those of AMX where the
 * processor has it. Aborts where tiles are used before amx_begin or after amx_end. */
#ifndef ANNEAL_TESTS_KERNELS_AMX_EMULATED_H
#define ANNEAL_TESTS_KERNELS_AMX_EMULATED_H

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

enum { EMULATED_ROWS = 16 };

static __attribute__((unused)) _Thread_local struct {
    int ready;
    __m512 tiles[8][EMULATED_ROWS];
} emulated;

static inline __m512 *emulated_tile(int number)
{
    if (!emulated.ready) abort();
    return emulated.tiles[number];
}

static __attribute__((unused)) void emulated_config(const void *config)
{
    const unsigned char *bytes = config;
    emulated.ready = bytes[0] == 1;
    for (int tile = 0; tile < 8; tile++)
        if (bytes[16 + 2 * tile] != 64 || bytes[17 + 2 * tile] != 0 || bytes[48 + tile] != EMULATED_ROWS)
            abort();
    memset(emulated.tiles, 0, sizeof emulated.tiles);
}

static __attribute__((unused)) void emulated_load(int tile, const void *from, long stride)
{
    for (int r = 0; r < EMULATED_ROWS; r++)
        memcpy(emulated_tile(tile) + r, (const char *)from + r * stride, 64);
}

static __attribute__((unused)) void emulated_store(int tile, void *to, long stride)
{
    for (int r = 0; r < EMULATED_ROWS; r++) memcpy((char *)to + r * stride, emulated_tile(tile) + r, 64);
}

/* The first and the second steps of all words are summed apart, then both sums are added to what is there. */
static __attribute__((unused)) void emulated_multiply(int out, int left, int right)
{
    const __m512 *a = emulated_tile(left), *b = emulated_tile(right);
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    for (int r = 0; r < EMULATED_ROWS; r++) {
        __m512 first = _mm512_setzero_ps(), second = first;
        for (int k = 0; k < 16; k++) {
            int word;
            memcpy(&word, (const char *)(a + r) + 4 * k, sizeof word);
            __m512i x = _mm512_set1_epi32(word), y = (__m512i)b[k];
            first =
                _mm512_fmadd_ps((__m512)_mm512_slli_epi32(x, 16), (__m512)_mm512_slli_epi32(y, 16), first);
            second =
                _mm512_fmadd_ps((__m512)_mm512_and_si512(x, high), (__m512)_mm512_and_si512(y, high), second);
        }
        __m512 *to = emulated_tile(out) + r;
        *to = _mm512_add_ps(*to, _mm512_add_ps(first, second));
    }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config)         emulated_config(config)
#define _tile_release()                  ((void)(emulated.ready = 0))
#define _tile_zero(tile)                 ((void)memset(emulated_tile(tile), 0, 64 * EMULATED_ROWS))
#define _tile_loadd(tile, from, stride)  emulated_load(tile, from, stride)
#define _tile_stored(tile, to, stride)   emulated_store(tile, to, stride)
#define _tile_dpbf16ps(out, left, right) emulated_multiply(out, left, right)

#endif
