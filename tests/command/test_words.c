/* Words that would do harm or mean something else than they say: what the commands make of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/command/process.h"
#include "tests/command/stage.h"

/* ---- outputs ---- */

static void an_output_never_replaces_the_text_it_is_made_from(void **state)
{
    (void)state;
    struct stage s;
    char link[700], folder[700], inside[800], sidecar[800], token_file[800];
    stage_open(&s, "outputs");
    char *before = stage_read(s.corpus);
    process_expect_sentence(
        process_run(2, "tokenizer", "train", s.corpus, "--vocab=300", "-o", s.corpus, NULL),
        "ends with .json");
    /* by another name, and somewhere below a folder */
    snprintf(link, sizeof link, "%s/other.json", s.folder);
    assert_int_equal(symlink(s.corpus, link), 0);
    process_expect_sentence(process_run(2, "tokenizer", "train", s.corpus, "--vocab=300", "-o", link, NULL),
                            "is also the text to read");
    assert_int_equal(unlink(link), 0);
    snprintf(folder, sizeof folder, "%s/texts", s.folder);
    snprintf(inside, sizeof inside, "%s/mine.json", folder);
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    assert_int_equal(rename(s.corpus, inside), 0);
    process_expect_sentence(process_run(2, "tokenizer", "train", folder, "--vocab=300", "-o", inside, NULL),
                            "mine.json: is also the text to read");
    static const char *const names[] = {"mine.tok", "mine.tok.json", "mine.tokenizer.json"};
    snprintf(token_file, sizeof token_file, "%s/mine.tok", folder);
    for (size_t i = 0; i < 3; i++) { /* all three files that data prepare writes */
        snprintf(sidecar, sizeof sidecar, "%s/%s", folder, names[i]);
        assert_int_equal(rename(inside, sidecar), 0);
        process_expect_sentence(process_run(2, "data", "prepare", folder, "-o", token_file, NULL),
                                "is also the text to read");
        assert_int_equal(rename(sidecar, inside), 0);
    }
    char *after = stage_read(inside);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, process_close_all)
    const struct CMUnitTest tests[] = {
        TEST(an_output_never_replaces_the_text_it_is_made_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
