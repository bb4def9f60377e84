/* Every parser of foreign data takes the inputs of tests/fuzz/corpora, findings of earlier fuzzing among
 * them, and what a few small changes make of each. `make fuzz` goes on from there. */
#include <dirent.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/fuzz/parsers.h"
#include "tests/long.h"
#include "tests/runs/store_fixture.h"

enum { CHANGES = 4, SLOW_BYTES = 20000 };

static uint32_t draw(uint32_t number, uint32_t what, uint32_t below)
{
    return philox4x32_10(number, what, 0, 0, 0x66757A7A, 0).word[0] % below;
}

/* Cuts the input off, or changes some of its bytes. */
static void parse_changed(const struct parser *parser, const struct parser_place *place,
                          const unsigned char *bytes, size_t n, uint32_t number)
{
    unsigned char *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    size_t length = draw(number, 0, 4) ? n : draw(number, 1, (uint32_t)n);
    for (uint32_t i = 0; length && i < CHANGES; i++)
        copy[draw(number, 2 + 2 * i, (uint32_t)length)] = (unsigned char)draw(number, 3 + 2 * i, 256);
    parser_run(parser, place, copy, length);
    free(copy);
}

static size_t parse_folder(const struct parser *parser, const struct parser_place *place)
{
    char path[600];
    size_t count = 0;
    snprintf(path, sizeof path, "tests/fuzz/corpora/%s", parser->name);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        size_t n;
        if (*entry->d_name == '.') continue;
        snprintf(path, sizeof path, "tests/fuzz/corpora/%s/%s", parser->name, entry->d_name);
        unsigned char *bytes = (unsigned char *)store_fixture_slurp(path, &n);
        parser_run(parser, place, bytes, n);
        for (int i = 0; n && i < (n > SLOW_BYTES ? 20 : long_or(2000, 100)); i++)
            parse_changed(parser, place, bytes, n, (uint32_t)i);
        free(bytes);
        count++;
    }
    if (folder) closedir(folder);
    return count;
}

TEST_CASE(no_input_of_the_corpora_does_harm)
{
    for (size_t i = 0; i < parser_count; i++) {
        struct parser_place place;
        parser_open(&parsers[i], &place);
        size_t count = parse_folder(&parsers[i], &place);
        parser_close(&place);
        if (!count) fail_msg("%s: there is no input for it", parsers[i].name);
    }
}

TEST_MAIN()
