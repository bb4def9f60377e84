/* GPT-2's byte-level alphabet: a visible Unicode character for each byte, so that a tokenizer.json can spell
 * any bytes as text. Bytes that Latin-1 prints stand for themselves, the other 68 for U+0100, U+0101, … in
 * order. */
#ifndef ANNEAL_DATASETS_BYTE_ALPHABET_H
#define ANNEAL_DATASETS_BYTE_ALPHABET_H

#include <stdint.h>

enum { BYTE_ALPHABET_END = 256 + 68 }; /* code points in use are below */

struct byte_alphabet {
    uint16_t character[256];         /* of a byte */
    int16_t byte[BYTE_ALPHABET_END]; /* of a character; -1: not in the alphabet */
};

static inline void byte_alphabet_init(struct byte_alphabet *alphabet)
{
    uint16_t next = 256;
    for (int c = 0; c < BYTE_ALPHABET_END; c++) alphabet->byte[c] = -1;
    for (int b = 0; b < 256; b++) {
        int printed = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        alphabet->character[b] = printed ? (uint16_t)b : next++;
        alphabet->byte[alphabet->character[b]] = (int16_t)b;
    }
}

#endif
