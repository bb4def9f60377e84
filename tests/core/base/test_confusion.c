/* The scores of a classifier, and which classes count for their mean. */
#include <math.h>

#include "core/base/confusion.h"
#include "tests/cmocka.h"

TEST_CASE(a_class_counts_for_the_mean_if_a_text_has_its_label_or_was_given_it)
{
    static const struct {
        int64_t counts[9];
        double precision, recall, f1, accuracy; /* by scikit-learn's precision_recall_fscore_support */
    } cases[] = {
        {{2, 0, 0, 0, 2, 0, 0, 0, 2}, 1, 1, 1, 1},
        {{2, 0, 0, 0, 2, 0, 0, 0, 0}, 1, 1, 1, 1},                               /* no text, never given */
        {{2, 0, 2, 0, 4, 0, 0, 0, 0}, 2 / 3.0, 0.5, (2 / 3.0 + 1) / 3, 6 / 8.0}, /* no text, but given */
        {{2, 0, 0, 0, 4, 0, 2, 0, 0}, 0.5, 2 / 3.0, (2 / 3.0 + 1) / 3, 6 / 8.0}, /* texts, never given */
        {{0, 0, 0, 0, 0, 0, 0, 0, 0}, NAN, NAN, NAN, NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t counts[9], texts = 0;
        for (int k = 0; k < 9; k++) texts += counts[k] = cases[i].counts[k];
        struct confusion confusion = {.classes = 3, .counts = counts};
        struct class_scores mean = confusion_macro(&confusion);
        const double got[] = {mean.precision, mean.recall, mean.f1, confusion_accuracy(&confusion)};
        const double wanted[] = {cases[i].precision, cases[i].recall, cases[i].f1, cases[i].accuracy};
        for (int k = 0; k < 4; k++)
            if (isnan(wanted[k]) ? !isnan(got[k]) : !(fabs(got[k] - wanted[k]) < 1e-12))
                fail_msg("case %zu: %g, not %g", i, got[k], wanted[k]);
        assert_int_equal(mean.support, texts);
    }
}

TEST_MAIN()
