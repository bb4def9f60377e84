/* Tables and results as output.h prints them: widths, blocks, cuts, and the same members as a page and as
 * JSON. */
#include <locale.h>
#include <math.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tui/command/output.h"

/* The standard output of `print`; the caller frees it. */
static char *printed(void (*print)(int argument), int argument)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    assert_true(kept >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    print(argument);
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    long n = ftell(file);
    if (fseek(file, 0, SEEK_END) == 0) n = ftell(file);
    char *text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)n, file), n);
    fclose(file);
    return text;
}

static void expect(void (*print)(int argument), int argument, const char *wanted)
{
    char *text = printed(print, argument);
    assert_string_equal(text, wanted);
    free(text);
}

static void fill(struct table *table)
{
    static const char *const names[] = {"a", "\u65E5\u672C", "c\x1B[2J"};
    for (int i = 0; i < 3; i++) {
        table_row(table);
        table_cell(table, "name", "%s", names[i]);
        table_cell(table, ">count", "%d", 1 << (5 * i));
        table_cell(table, "word", "%s", i ? "x" : "longer");
    }
}

static void print_blocks(int width)
{
    struct table table = {0};
    fill(&table);
    table_print(&table, 2, width, TABLE_BLOCKS);
}

static void print_cut(int width)
{
    struct table table = {0};
    table_row(&table);
    table_cell(&table, "RUN", "20260101-000000-a-name-that-goes-on-and-on-2");
    table_cell(&table, "STATUS", "finished");
    table_cell(&table, ">STEP", "7/9");
    table_print(&table, 0, width, TABLE_CUT);
}

TEST_CASE(columns_are_as_wide_as_their_cells_and_blocks_as_the_page)
{
    expect(print_blocks, 0,
           "  name   count  word\n"
           "  a          1  longer\n"
           "  \u65E5\u672C      32  x\n"
           "  c\uFFFD[2J   1024  x\n");
    expect(print_blocks, 16,
           "  name   count\n"
           "  a          1\n"
           "  \u65E5\u672C      32\n"
           "  c\uFFFD[2J   1024\n"
           "\n"
           "  name   word\n"
           "  a      longer\n"
           "  \u65E5\u672C   x\n"
           "  c\uFFFD[2J  x\n");
}

TEST_CASE(the_first_column_is_cut_before_another_is_left_out)
{
    expect(print_cut, 0,
           "RUN                                           STATUS    STEP\n"
           "20260101-000000-a-name-that-goes-on-and-on-2  finished   7/9\n");
    expect(print_cut, 40,
           "RUN                       STATUS    STEP\n"
           "20260101-000000-a-n~on-2  finished   7/9\n");
    expect(print_cut, 36,
           "RUN                         STATUS\n"
           "20260101-000000-a-nam~on-2  finished\n");
    expect(print_cut, 10, "RUN\n20260~on-2\n");
}

static void print_long_titles(int width)
{
    struct table table = {0};
    for (int row = 0; row < 2; row++) {
        table_row(&table);
        table_cell(&table, "", row ? "loss" : "status");
        table_cell(&table, "1 a-name-that-a-script-has-made-for-it", row ? "3.5" : "finished");
        table_cell(&table, "2 another-name-that-goes-on-and-on",
                   row ? "3.25" : "a cell of twenty-eight columns");
    }
    table_print(&table, 0, width, TABLE_BLOCKS);
}

TEST_CASE(titles_are_cut_where_no_cell_is_as_wide)
{
    expect(print_long_titles, 80,
           "        1 a-name-that-a-script-has-~r-it  2 another-name-that-goes-on~d-on\n"
           "status  finished                          a cell of twenty-eight columns\n"
           "loss    3.5                               3.25\n");
}

static void print_result(int json)
{
    struct output output;
    struct err err = {0};
    output_begin(&output, (bool)json);
    OUTPUT_MEMBERS(&output, "path", "a\tb", "tokens", 12345, "file_bytes", (int64_t)2048, "loss", 1.5, "rate",
                   (double)NAN, "whole", (bool)true, "step", -1);
    output_list(&output, "files", "Files");
    for (int i = 0; i < 2; i++) {
        output_item(&output);
        OUTPUT_MEMBERS(&output, "name", i ? "" : "first", "bytes", (int64_t)(1000 + i));
    }
    output_list_end(&output);
    output_list(&output, "none", "Nothing");
    output_list_end(&output);
    assert_int_equal(output_end(&output, &err), STATUS_OK);
}

TEST_CASE(a_result_is_a_page_or_json)
{
    expect(print_result, 0,
           "path               a b\n"
           "tokens             12,345\n"
           "file_bytes         2.0 KiB\n"
           "loss               1.5000\n"
           "whole              yes\n"
           "\n"
           "Files\n"
           "  name    bytes\n"
           "  first  1000 B\n"
           "  -      1001 B\n");
    expect(print_result, 1,
           "{\n"
           "  \"path\": \"a\\u0009b\",\n"
           "  \"tokens\": 12345,\n"
           "  \"file_bytes\": 2048,\n"
           "  \"loss\": 1.5,\n"
           "  \"rate\": null,\n"
           "  \"whole\": true,\n"
           "  \"step\": null,\n"
           "  \"files\": [\n"
           "    {\n"
           "      \"name\": \"first\",\n"
           "      \"bytes\": 1000\n"
           "    },\n"
           "    {\n"
           "      \"name\": \"\",\n"
           "      \"bytes\": 1001\n"
           "    }\n"
           "  ],\n"
           "  \"none\": []\n"
           "}\n");
}

static void print_numbers(int json)
{
    struct output output;
    struct err err = {0};
    output_begin(&output, (bool)json);
    output_list(&output, "first", "First");
    output_item(&output);
    output_real(&output, "share", 0.123456);
    output_list_end(&output);
    OUTPUT_MEMBERS(&output, "loss", 0.0123456, "bits_per_byte", 2.3456789, "seconds", 0.05676623,
                   "tokens_per_sec", 144311.4, "f1.gr\303\266\303\237e", 0.5);
    assert_int_equal(output_end(&output, &err), STATUS_OK);
}

TEST_CASE(a_page_rounds_numbers_and_never_begins_with_an_empty_line)
{
    expect(print_numbers, 0,
           "First\n"
           "   share\n"
           "  0.1235\n"
           "loss               0.0123\n"
           "bits_per_byte      2.3457\n"
           "seconds            0.05677\n"
           "tokens_per_sec     144,311\n"
           "f1.gr\303\266\303\237e           0.5\n");
    char *text = printed(print_numbers, 1);
    assert_non_null(strstr(text, "\"bits_per_byte\": 2.3456789,"));
    assert_non_null(strstr(text, "\"tokens_per_sec\": 144311.4,\n"));
    free(text);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8"); /* how wide characters are */
    return TEST_RUN(NULL, NULL);
}
