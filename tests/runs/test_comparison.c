/* Two runs can be compared if their lists of sources name the same texts. */
#include "runs/comparison.h"
#include "tests/cmocka.h"

static void expect_same(bool same, const char *x, const char *y)
{
    if (comparison_same_sources(x, y) != same || comparison_same_sources(y, x) != same)
        fail_msg("\"%s\" and \"%s\" are%s the same sources", x, y, same ? " not" : "");
}

/* Weights, and blanks around names, say nothing of the texts. */
TEST_CASE(sources_are_the_same_if_their_names_are)
{
    static const char *const lists[] = {"a.txt,b c.txt", "a.txt, b c.txt", "a.txt , b c.txt  ",
                                        "a.txt:2,b c.txt:0.5", "a.txt : 2 , b c.txt: 1e-3"};
    static const char *const others[] = {"",
                                         "a.txt",
                                         "a.txt,b",
                                         "a.txt,b c.txt,d",
                                         "b c.txt,a.txt",
                                         "a.tx,b c.txt",
                                         "a.txt:x,b c.txt",
                                         "a.txt,b  c.txt"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) expect_same(true, lists[i], lists[k]);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) expect_same(false, lists[i], others[k]);
    }
    expect_same(true, "", "");
}

TEST_MAIN()
