/* See class_scores.h. */
#include "tui/command/class_scores.h"

#include <inttypes.h>

#include "core/base/text.h"

enum { MATRIX_MAX = 12 /* classes of a matrix on a page */, TITLE = 32 };

static void begin_item(struct output *o, int64_t step)
{
    output_item(o);
    if (step >= 0) output_whole(o, "step", step);
}

static void print_classes(struct output *o, const struct confusion *c, int64_t step)
{
    output_list(o, "classes", step < 0 ? "Classes" : "Classes in the newest evaluation");
    for (int i = 0; i < c->classes; i++) {
        struct class_scores of = confusion_scores(c, i);
        begin_item(o, step);
        OUTPUT_MEMBERS(o, "label", c->names[i], "precision", of.precision, "recall", of.recall, "f1", of.f1,
                       "support", of.support);
    }
    output_list_end(o);
}

static void print_matrix(struct output *o, const struct confusion *c)
{
    output_list(o, "confusion", "Confusion: texts of a class (rows) by the label they were given (columns)");
    for (int i = 0; i < c->classes; i++) {
        output_item(o);
        output_text(o, "class", c->names[i]);
        for (int k = 0; k < c->classes; k++) {
            char title[TITLE] = ">";
            clean_line(title + 1, sizeof title - 1, c->names[k]);
            output_line(o, title, "%" PRId64, c->counts[i * c->classes + k]);
        }
    }
    output_list_end(o);
}

static void print_pairs(struct output *o, const struct confusion *c, int64_t step)
{
    output_list(o, "confusion", step < 0 ? "Confusion" : "Confusion in the newest evaluation");
    for (int i = 0; i < c->classes; i++)
        for (int k = 0; k < c->classes; k++) {
            int64_t count = c->counts[(size_t)i * (size_t)c->classes + (size_t)k];
            if (!count) continue;
            begin_item(o, step);
            OUTPUT_MEMBERS(o, "label", c->names[i], "predicted", c->names[k], "count", count);
        }
    output_list_end(o);
}

void class_scores_print(struct output *o, const struct confusion *c, int64_t step)
{
    print_classes(o, c, step);
    if (o->json || c->classes > MATRIX_MAX)
        print_pairs(o, c, step);
    else
        print_matrix(o, c);
}
