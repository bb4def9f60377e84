/* Characters that Unicode 15, 15.1 and 16 added. Hugging Face's tokenizers know them, PCRE2 and utf8proc of
 * older distributions do not: these take an older character of the same category for each. */
#ifndef ANNEAL_DATASETS_RECENT_CHARACTERS_H
#define ANNEAL_DATASETS_RECENT_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

enum { RECENT_PAGES = 0x110000 >> 8 };

/* Sets pages[p] if some of the characters from 256·p to 256·p + 255 are recent. */
void recent_pages(bool pages[RECENT_PAGES]);

/* An older character of the same category and length in UTF-8; `point` itself unless it is recent. */
uint32_t recent_like(uint32_t point);

#endif
