/* The binary in a folder as `make bundle` lays it out: what lies beside it is found there. The bundle itself
 * is proven by packaging/check.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void copy_program(const char *to)
{
    struct file_map map;
    struct err err = {0};
    assert_int_equal(file_map_open(getenv("ANNEAL_BINARY"), &map, &err), STATUS_OK);
    stage_write(to, map.data, map.size);
    assert_int_equal(chmod(to, 0755), 0);
    file_map_close(&map);
}

static void a_shipped_corpus_needs_no_package(void **state)
{
    (void)state;
    static const char text[] = "Genesis 1\n\nIn the beginning\n";
    static const char *const words[] = {"data", "fetch", "kjv", NULL}, *const environment[] = {
                                                                           "PATH=/nonexistent", NULL};
    struct stage s;
    struct err err = {0};
    char program[700], folder[700], path[800];
    stage_open(&s, "shipped");
    snprintf(folder, sizeof folder, "%s/bundle/bin", s.folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    snprintf(program, sizeof program, "%.600s/anneal", folder);
    copy_program(program);
    const struct process_options options = {
        .arguments = words, .environment = environment, .program = program};

    process_expect_sentence(process_expect(1, process_open(&options)), "apt install bible-kjv");

    snprintf(folder, sizeof folder, "%s/bundle/share/anneal", s.folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    snprintf(path, sizeof path, "%.600s/kjv.txt", folder);
    stage_write(path, text, sizeof text - 1);
    struct process *fetched = process_expect(0, process_open(&options));
    snprintf(path, sizeof path, "%s/data/kjv.txt\n", s.home);
    assert_string_equal(process_stdout(fetched), path);
    path[strlen(path) - 1] = '\0';
    char *got = stage_read(path);
    assert_string_equal(got, text);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_shipped_corpus_needs_no_package, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
