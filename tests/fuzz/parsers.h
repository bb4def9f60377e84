/* Every parser of data from elsewhere, as a function of some bytes: for libFuzzer (fuzz.c, `make fuzz`),
 * which makes up the bytes, and for the ordinary suite (test_corpora.c), which has those of
 * tests/fuzz/corpora. */
#ifndef ANNEAL_TESTS_FUZZ_PARSERS_H
#define ANNEAL_TESTS_FUZZ_PARSERS_H

#include <stddef.h>
#include <stdint.h>

/* Room for the file that a parser reads: its folder, with all else that is there; made and removed here. */
struct parser_place {
    char folder[256], path[400];
};

struct parser {
    const char *name;
    const char *file; /* in the folder, that has the bytes; NULL: the parser takes them from memory */
    /* Makes what else is in the folder; may be NULL. */
    void (*prepare)(const struct parser_place *place);
    void (*parse)(const struct parser_place *place, const unsigned char *bytes, size_t n);
};
extern const struct parser parsers[];
extern const size_t parser_count;

/* NULL: there is none of this name. */
const struct parser *parser_find(const char *name);

/* Rows of a database (rows.c). */
void parse_rows(const struct parser_place *place, const unsigned char *bytes, size_t n);

/* The folder is made below /dev/shm, else /tmp. */
void parser_open(const struct parser *parser, struct parser_place *place);
/* Parses the bytes, and releases all that came of it. */
void parser_run(const struct parser *parser, const struct parser_place *place, const unsigned char *bytes,
                size_t n);
void parser_close(const struct parser_place *place);

#endif
