/* The entry points of libFuzzer. PARSER in the environment names the parser (parsers.h); without it the names
 * of all are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/parsers.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);
size_t LLVMFuzzerCustomMutator(unsigned char *bytes, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(unsigned char *bytes, size_t n, size_t most); /* of libFuzzer */

static const struct parser *parser;
static struct parser_place place;

static void leave(void)
{
    parser_close(&place);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    parser = parser_find(getenv("PARSER"));
    if (!parser) {
        for (size_t i = 0; i < parser_count; i++) puts(parsers[i].name);
        exit(getenv("PARSER") ? 2 : 0);
    }
    parser_open(parser, &place);
    atexit(leave);
    return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    parser_run(parser, &place, bytes, n);
    return 0;
}

/* Changes a piece of a database in place: where bytes move, SQLite finds no page any more and reads nothing.
 */
size_t LLVMFuzzerCustomMutator(unsigned char *bytes, size_t n, size_t most, unsigned seed)
{
    static const char database[] = "SQLite format 3";
    unsigned char piece[64];
    if (n <= sizeof piece || memcmp(bytes, database, sizeof database) != 0)
        return LLVMFuzzerMutate(bytes, n, most);
    unsigned char *at = bytes + seed % (n - sizeof piece);
    memcpy(piece, at, sizeof piece);
    LLVMFuzzerMutate(piece, sizeof piece, sizeof piece);
    memcpy(at, piece, sizeof piece);
    return n;
}
