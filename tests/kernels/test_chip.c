/* The peaks of chips: the table and the rule from the clock. */
#include <math.h>

#include "kernels/device/chip.h"
#include "tests/cmocka.h"

static void expect_peaks(struct chip chip, enum chip_source source, double fp32, double tf32, double bf16)
{
    double peak[PRECISIONS] = {-1, -1, -1};
    const double wanted[] = {fp32, tf32, bf16};
    assert_int_equal(chip_peaks(&chip, peak), source);
    for (int p = 0; p < PRECISIONS; p++)
        if (fabs(peak[p] / 1e12 - wanted[p]) > 0.02 * wanted[p])
            fail_msg("%s in %s: %.1f TFLOP/s, not %.1f", chip.name, precision_name((enum precision)p),
                     peak[p] / 1e12, wanted[p]);
}

TEST_CASE(known_chips_have_their_published_peaks)
{
    expect_peaks((struct chip){"NVIDIA A100-SXM4-80GB", 8, 0, 108, 1.41e9}, CHIP_PUBLISHED, 19.5, 156, 312);
    expect_peaks((struct chip){"NVIDIA H100 80GB HBM3", 9, 0, 132, 1.98e9}, CHIP_PUBLISHED, 66.9, 494.7,
                 989.4);
    expect_peaks((struct chip){"NVIDIA H100 PCIe", 9, 0, 114, 1.755e9}, CHIP_PUBLISHED, 51.2, 378, 756);
    expect_peaks((struct chip){"NVIDIA H200", 9, 0, 132, 1.98e9}, CHIP_PUBLISHED, 66.9, 494.7, 989.4);
    expect_peaks((struct chip){"NVIDIA L40S", 8, 9, 142, 2.52e9}, CHIP_PUBLISHED, 91.6, 183, 362);
    expect_peaks((struct chip){"NVIDIA GeForce RTX 4090", 8, 9, 128, 2.52e9}, CHIP_PUBLISHED, 82.6, 82.6,
                 165.2);
}

/* Names that contain a known one, and partitions of chips: the table's figure would be wrong for them. */
TEST_CASE(namesakes_and_slices_go_by_their_clock)
{
    expect_peaks((struct chip){"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9, 0, 16, 1.98e9}, CHIP_BY_CLOCK, 8.11,
                 64.9, 129.8);
    expect_peaks((struct chip){"NVIDIA GeForce RTX 4090 Laptop GPU", 8, 9, 76, 2.04e9}, CHIP_BY_CLOCK, 39.7,
                 39.7, 79.4);
    expect_peaks((struct chip){"NVIDIA A1000", 8, 6, 108, 1e9}, CHIP_BY_CLOCK, 27.6, 55.3, 110.6);
}

/* The rule gives the published figure at the clock on which that is based. */
TEST_CASE(the_rule_agrees_with_the_table)
{
    expect_peaks((struct chip){"A", 8, 0, 108, 1.41e9}, CHIP_BY_CLOCK, 19.5, 156, 312);
    expect_peaks((struct chip){"H", 9, 0, 132, 1.83e9}, CHIP_BY_CLOCK, 61.8, 494.7, 989.4);
    expect_peaks((struct chip){"L", 8, 6, 72, 1.695e9}, CHIP_BY_CLOCK, 31.2, 62.5, 125);
    expect_peaks((struct chip){"GeForce R", 8, 9, 128, 2.52e9}, CHIP_BY_CLOCK, 82.6, 82.6, 165.2);
}

TEST_CASE(what_is_not_known_is_zero)
{
    expect_peaks((struct chip){"NVIDIA Orin", 8, 7, 16, 1.3e9}, CHIP_BY_CLOCK, 5.32, 0, 0);
    expect_peaks((struct chip){"NVIDIA V100", 7, 0, 80, 1.5e9}, CHIP_UNKNOWN, 0, 0, 0);
    expect_peaks((struct chip){"NVIDIA New", 10, 0, 148, 0}, CHIP_UNKNOWN, 0, 0, 0);
    expect_peaks((struct chip){"NVIDIA New", 12, 0, 148, 2e9}, CHIP_BY_CLOCK, 75.8, 0, 0);
    expect_peaks((struct chip){"NVIDIA Later", 13, 0, 148, 2e9}, CHIP_UNKNOWN, 0, 0, 0);
}

TEST_CASE(every_sheet_is_found_by_its_name)
{
    static const char *const words[] = {"a100",     "a40",     "rtx3090",   "l4",       "l40s",
                                        "l40",      "rtx4090", "h100-pcie", "h100-nvl", "h100",
                                        "h200-nvl", "h200",    "gh200"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const struct chip_sheet *sheet = chip_find(words[i]);
        assert_non_null(sheet);
        char name[64];
        snprintf(name, sizeof name, "NVIDIA %s", sheet->model);
        struct chip chip = {.name = name, .major = sheet->major, .multiprocessors = sheet->multiprocessors};
        expect_peaks(chip, CHIP_PUBLISHED, sheet->teraflops[0], sheet->teraflops[1], sheet->teraflops[2]);
    }
}

/* The driver's name and the word of an option lead to the same figures. */
TEST_CASE(a_gpu_is_found_by_its_word)
{
    char words[300];
    const struct chip_sheet *sheet = chip_find("H100");
    assert_non_null(sheet);
    expect_peaks((struct chip){"NVIDIA H100 80GB HBM3", 9, 0, 132, 0}, CHIP_PUBLISHED, sheet->teraflops[0],
                 sheet->teraflops[1], sheet->teraflops[2]);
    assert_true(sheet->memory_gib == 80 && sheet->bandwidth_gbs == 3350 && sheet->link_gbs == 450);
    assert_true(chip_find("a100")->memory_gib == 80 && chip_find("a100-40gb")->memory_gib == 40);
    assert_null(chip_find("h10"));
    assert_null(chip_find(""));
    assert_true(strlen(chip_words(words, sizeof words)) < sizeof words - 40); /* room for some more */
    assert_non_null(strstr(words, ", rtx4090, "));
}

TEST_MAIN()
