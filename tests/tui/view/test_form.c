/* The form by itself: what its width does to labels, and which fields decide about the length of a run. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/view/form_length.h"

TEST_CASE(a_long_label_leaves_half_of_the_width_to_the_value)
{
    static const struct form_field field = {
        .key = "a", .label = "a label that is longer than the whole form is wide", .fallback = "the default"};
    struct input input = {0};
    struct form form = {.fields = &field, .input = &input, .count = 1, .at = 1, .empty = ""};
    struct grid grid = make_grid(40, 3, GLYPHS_BRAILLE);
    form_draw(&form, &grid, (struct rect){0, 0, 40, 3}, "start", 1);
    assert_row(&grid, 0, "  a label that is lo… the default");
    grid_release(&grid);
}

enum { STEPS, EPOCHS, OTHER, PACKING, FIELDS };

struct lengths {
    struct form_field fields[FIELDS];
    struct input input[FIELDS];
    const char *was[FIELDS], *note[FIELDS];
    struct form form;
    struct form_length length;
};

/* The form of a run of 2 epochs, which were 500 steps, with another key and one that may say "packed". */
static void open_lengths(struct lengths *l, const char *key)
{
    *l = (struct lengths){.fields = {{.key = "train.total_steps", .fallback = "2000"},
                                     {.key = "train.epochs", .fallback = "0"},
                                     {.key = key, .fallback = "1"},
                                     {.key = "data.documents", .fallback = "stream"}},
                          .was = {"500", "2", "1"}};
    l->form = (struct form){
        .fields = l->fields, .input = l->input, .was = l->was, .note = l->note, .count = FIELDS};
    input_set(&l->input[EPOCHS], "2");
    form_length_init(&l->length, &l->form, l->fields, "500");
}

TEST_CASE(steps_of_epochs_are_known_until_a_key_that_decides_them_is_edited)
{
    static const struct {
        const char *key;
        bool decides;
    } cases[] = {{"data.train", true},
                 {"data.val_fraction", true},
                 {"model.from", true},
                 {"train.batch_size", true},
                 {"train.seq_len", true},
                 {"train.accumulation_steps", true},
                 {"train.accumulation_plan", true},
                 {"train.z_loss", false},
                 {"train.learning_rate", false},
                 {"name", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths l;
        open_lengths(&l, cases[i].key);
        assert_string_equal(form_length_settle(&l.length, &l.form), "500");
        input_set(&l.input[OTHER], "3");
        const char *steps = form_length_settle(&l.length, &l.form);
        if (cases[i].decides ? steps != NULL : !steps || strcmp(steps, "500") != 0)
            fail_msg("%s", cases[i].key);
    }
}

/* Rows of packed documents or examples are as many as their order makes them. */
TEST_CASE(a_seed_decides_the_steps_of_epochs_where_rows_are_packed)
{
    static const struct {
        const char *key, *value;
        bool packs;
    } cases[] = {{"data.documents", "packed", true},
                 {"data.documents", "", false},
                 {"data.format", "instructions", true},
                 {"data.format", "labels", true},
                 {"data.format", "text", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths l;
        open_lengths(&l, "train.seed");
        l.fields[PACKING].key = cases[i].key;
        input_set(&l.input[PACKING], cases[i].value);
        assert_string_equal(form_length_settle(&l.length, &l.form), "500");
        input_set(&l.input[OTHER], "3");
        assert_int_equal(form_length_settle(&l.length, &l.form) == NULL, cases[i].packs);
    }
}

TEST_CASE(steps_stay_while_the_epochs_are_none)
{
    static const struct {
        uint32_t key;
        const char *steps;
    } cases[] = {{'0', "7"}, {'x', "7"}, {'1', ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lengths l;
        open_lengths(&l, "name");
        input_set(&l.input[STEPS], "7");
        input_set(&l.input[EPOCHS], "");
        l.form.at = EPOCHS;
        assert_true(form_length_key(&l.length, &l.form, ACTION_NONE, cases[i].key));
        assert_string_equal(l.input[STEPS].text, cases[i].steps);
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
