/* Shared by the tests of datasets/: fixtures, scratch files, reproducible noise. */
#ifndef ANNEAL_TESTS_DATASETS_HELP_H
#define ANNEAL_TESTS_DATASETS_HELP_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/corpus.h"
#include "datasets/tokenizer.h"

#define TOKENIZER_FIXTURES "tests/fixtures/tokenizer/"

/* The path of a scratch file below ANNEAL_TEST_DIR, the same pointer for the same name, for the whole run. */
const char *scratch_path(const char *name);
void scratch_write(const char *path, const void *bytes, size_t n);
char *scratch_read(const char *path, size_t *n); /* NUL-terminated, to be freed */
int scratch_entries(const char *folder);         /* names in a folder other than . and .. */

/* Writes an llm.c shard, valid or not: the first three numbers of the header as given, then `n` ids.
 *
 * */
void scratch_shard(const char *path, int32_t magic, int32_t version, int32_t count, const uint32_t *ids,
                   size_t n);
enum { SHARD_16 = 20240520, SHARD_32 = 20240801 }; /* the magics; ids are as wide as they say */

/* Writes a .tok file without a sidecar. */
void scratch_tok(const char *path, const uint32_t *ids, size_t n);

/* The files as a corpus, which borrows them. */
struct corpus corpus_of(struct token_file *files, size_t count);

/* Writes at most `capacity` bytes of a kind that depends on the seed: any bytes, broken UTF-8, text, long
 * runs. Returns the number. */
size_t noise_fill(uint64_t seed, char *to, size_t capacity);
uint64_t noise_next(uint64_t *state);

/* Fails the test with the text of `err` if status is not ok. */
void assert_ok(enum status status, const struct err *err);

/* decode(encode(text)) is text. */
void assert_round_trip(const struct tokenizer *tokenizer, const char *text, size_t n);

#endif
