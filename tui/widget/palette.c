/* See palette.h. Blue, orange and red-purple are told apart with any of the three kinds of colour blindness
 * (after Okabe and Ito, "Color Universal Design", 2008); green serves only beside them. */
#include "tui/widget/palette.h"

enum { OWN = -1, RED = 1, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE, BRIGHT = 8 };

/* Columns: 256, 16 and 8 colours. On a light background the 16 and 8 have few that can be read. */
static const short palettes[BACKGROUND_COUNT][STYLE_COUNT][3] = {
    [BACKGROUND_DARK] = {[STYLE_TEXT] = {OWN, OWN, OWN},
                         [STYLE_DIM] = {247, BRIGHT, OWN},
                         [STYLE_RULE] = {243, BRIGHT, OWN},
                         [STYLE_ACCENT] = {75, BRIGHT + CYAN, CYAN},
                         [STYLE_GOOD] = {80, BRIGHT + GREEN, GREEN},
                         [STYLE_WARN] = {220, BRIGHT + YELLOW, YELLOW},
                         [STYLE_BAD] = {209, BRIGHT + RED, RED},
                         [STYLE_TRAIN] = {75, BRIGHT + CYAN, CYAN},
                         [STYLE_VAL] = {214, BRIGHT + YELLOW, YELLOW},
                         [STYLE_BEST] = {230, BRIGHT + WHITE, WHITE},
                         [STYLE_LR] = {204, BRIGHT + MAGENTA, MAGENTA},
                         [STYLE_GRAD] = {79, BRIGHT + CYAN, CYAN},
                         [STYLE_SPEED] = {186, BRIGHT + GREEN, GREEN},
                         [STYLE_CURVE + 0] = {75, BRIGHT + CYAN, CYAN},
                         [STYLE_CURVE + 1] = {214, BRIGHT + YELLOW, YELLOW},
                         [STYLE_CURVE + 2] = {204, BRIGHT + MAGENTA, MAGENTA},
                         [STYLE_CURVE + 3] = {229, BRIGHT + WHITE, WHITE},
                         [STYLE_CURVE + 4] = {50, BRIGHT + GREEN, GREEN},
                         [STYLE_CURVE + 5] = {143, YELLOW, RED},
                         [STYLE_CURVE + 6] = {153, CYAN, CYAN},
                         [STYLE_CURVE + 7] = {139, MAGENTA, YELLOW},
                         [STYLE_CURVE + 8] = {155, GREEN, MAGENTA},
                         [STYLE_CURVE + 9] = {149, WHITE, GREEN}},
    [BACKGROUND_LIGHT] = {[STYLE_TEXT] = {OWN, OWN, OWN},         [STYLE_DIM] = {241, BRIGHT, OWN},
                          [STYLE_RULE] = {245, BRIGHT, OWN},      [STYLE_ACCENT] = {25, BLUE, BLUE},
                          [STYLE_GOOD] = {29, BLUE, BLUE},        [STYLE_WARN] = {130, MAGENTA, MAGENTA},
                          [STYLE_BAD] = {88, RED, RED},           [STYLE_TRAIN] = {25, BLUE, BLUE},
                          [STYLE_VAL] = {130, RED, RED},          [STYLE_BEST] = {16, OWN, OWN},
                          [STYLE_LR] = {93, MAGENTA, MAGENTA},    [STYLE_GRAD] = {23, BLUE, BLUE},
                          [STYLE_SPEED] = {58, RED, RED},         [STYLE_CURVE + 0] = {25, BLUE, BLUE},
                          [STYLE_CURVE + 1] = {130, RED, RED},    [STYLE_CURVE + 2] = {93, MAGENTA, MAGENTA},
                          [STYLE_CURVE + 3] = {16, OWN, OWN},     [STYLE_CURVE + 4] = {161, BRIGHT, BLUE},
                          [STYLE_CURVE + 5] = {18, BLUE, RED},    [STYLE_CURVE + 6] = {53, RED, MAGENTA},
                          [STYLE_CURVE + 7] = {88, MAGENTA, OWN}, [STYLE_CURVE + 8] = {60, OWN, BLUE},
                          [STYLE_CURVE + 9] = {127, BRIGHT, RED}},
};

short palette_colour(enum background background, int colours, enum style style)
{
    return palettes[background][style][colours >= 256 ? 0 : colours >= 16 ? 1 : 2];
}
