/* The colours of 256: their contrast with backgrounds, after WCAG 2, and that readers with a kind of colour
 * blindness (Machado, Oliveira and Fernandes, 2009) can tell apart what one chart or one column shows. */
#include <math.h>

#include "tests/cmocka.h"
#include "tui/widget/palette.h"

struct linear {
    double of[3];
};

static double linear(int level)
{
    double c = level / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static struct linear from_rgb(int rgb)
{
    return (struct linear){{linear(rgb >> 16 & 255), linear(rgb >> 8 & 255), linear(rgb & 255)}};
}

/* A colour of xterm's cube of 6 × 6 × 6 or of its 24 greys; `own` is the terminal's text. */
static struct linear from_number(int number, int own)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    if (number < 0) return from_rgb(own);
    if (number >= 232) return from_rgb((8 + 10 * (number - 232)) * 0x010101);
    assert_true(number >= 16);
    number -= 16;
    return from_rgb(levels[number / 36] << 16 | levels[number / 6 % 6] << 8 | levels[number % 6]);
}

static double luminance(struct linear c)
{
    return 0.2126 * c.of[0] + 0.7152 * c.of[1] + 0.0722 * c.of[2];
}

static double contrast(struct linear a, struct linear b)
{
    double x = luminance(a), y = luminance(b);
    return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

/* Blindness to red, to green, to blue, and none. */
static const double seen[4][3][3] = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

static double cube_root(double t)
{
    return t > 0.008856 ? cbrt(t) : 7.787 * t + 16.0 / 116;
}

static void to_lab(struct linear c, const double seen_as[3][3], double lab[3])
{
    double l[3];
    for (int i = 0; i < 3; i++) {
        double sum = seen_as[i][0] * c.of[0] + seen_as[i][1] * c.of[1] + seen_as[i][2] * c.of[2];
        l[i] = fmin(fmax(sum, 0), 1);
    }
    double x = cube_root((0.4124 * l[0] + 0.3576 * l[1] + 0.1805 * l[2]) / 0.95047),
           y = cube_root(0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]),
           z = cube_root((0.0193 * l[0] + 0.1192 * l[1] + 0.9505 * l[2]) / 1.08883);
    lab[0] = 116 * y - 16, lab[1] = 500 * (x - y), lab[2] = 200 * (y - z);
}

/* The smallest distance in CIE Lab (1976) that any reader sees. */
static double distance(struct linear a, struct linear b)
{
    double least = INFINITY, p[3], q[3];
    for (int kind = 0; kind < 4; kind++) {
        to_lab(a, seen[kind], p);
        to_lab(b, seen[kind], q);
        least = fmin(least, hypot(hypot(p[0] - q[0], p[1] - q[1]), p[2] - q[2]));
    }
    return least;
}

static struct linear colour_of(enum background background, enum style style)
{
    return from_number(palette_colour(background, 256, style),
                       background == BACKGROUND_LIGHT ? 0x000000 : 0xE0E0E0);
}

TEST_CASE(every_style_can_be_read_on_its_backgrounds)
{
    static const int behind[BACKGROUND_COUNT][3] = {{0x000000, 0x1E1E1E, 0x282C34},
                                                    {0xFFFFFF, 0xFDF6E3, 0xF0F0F0}};
    for (int b = 0; b < BACKGROUND_COUNT; b++)
        for (int style = 0; style < STYLE_COUNT; style++)
            for (int i = 0; i < 3; i++) {
                double least = style == STYLE_RULE ? 3 : i == 0 ? 4.5 : 3.9; /* a rule is no text */
                double got =
                    contrast(colour_of((enum background)b, (enum style)style), from_rgb(behind[b][i]));
                if (got < least) fail_msg("style %d on #%06x: %.2f", style, behind[b][i], got);
            }
}

TEST_CASE(colour_blind_readers_tell_curves_and_states_apart)
{
    static const enum style groups[3][4] = {{STYLE_TRAIN, STYLE_VAL, STYLE_BEST, STYLE_LR},
                                            {STYLE_GOOD, STYLE_WARN, STYLE_BAD, STYLE_COUNT},
                                            {STYLE_CURVE, STYLE_CURVE + 1, STYLE_CURVE + 2, STYLE_CURVE + 3}};
    for (int b = 0; b < BACKGROUND_COUNT; b++)
        for (int g = 0; g < 3; g++)
            for (int i = 0; i < 4; i++)
                for (int k = 0; k < i; k++) {
                    if (groups[g][i] == STYLE_COUNT) continue;
                    double got = distance(colour_of((enum background)b, groups[g][i]),
                                          colour_of((enum background)b, groups[g][k]));
                    if (got < 25) fail_msg("styles %d and %d: %.1f", groups[g][i], groups[g][k], got);
                }
}

/* Their markers differ, too. */
TEST_CASE(ten_curves_have_ten_colours)
{
    for (int b = 0; b < BACKGROUND_COUNT; b++)
        for (int i = 0; i < STYLE_CURVES; i++)
            for (int k = 0; k < i; k++) {
                double got = distance(colour_of((enum background)b, (enum style)(STYLE_CURVE + i)),
                                      colour_of((enum background)b, (enum style)(STYLE_CURVE + k)));
                if (got < 12) fail_msg("curves %d and %d: %.1f", i, k, got);
            }
}

TEST_CASE(few_colours_are_used_where_there_are_few)
{
    for (int b = 0; b < BACKGROUND_COUNT; b++)
        for (int style = 0; style < STYLE_COUNT; style++) {
            short eight = palette_colour((enum background)b, 8, (enum style)style),
                  sixteen = palette_colour((enum background)b, 88, (enum style)style);
            assert_int_equal(palette_colour((enum background)b, 16, (enum style)style), sixteen);
            assert_in_range(eight + 1, 0, 8);
            assert_in_range(sixteen + 1, 0, 16);
            if (b != BACKGROUND_LIGHT) continue;
            /* green, yellow, cyan and white cannot be read on white, nor can the bright ones but grey */
            assert_true(eight != 2 && eight != 3 && eight != 6 && eight != 7);
            assert_true(sixteen <= 8 && sixteen != 2 && sixteen != 3 && sixteen != 6 && sixteen != 7);
        }
}

TEST_MAIN()
