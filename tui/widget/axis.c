/* See axis.h. */
#include "tui/widget/axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* "3.00e-4"; printf pads exponents to two digits. */
static void format_exponent(double value, int decimals, char *buf, size_t size)
{
    snprintf(buf, size, "%.*e", decimals, value);
    char *e = strchr(buf, 'e');
    int exponent = atoi(e + 1);
    if (decimals == 1 && e[-1] == '0') e -= 2; /* "2e-4" rather than "2.0e-4" */
    snprintf(e, size - (size_t)(e - buf), "e%d", exponent);
}

char *axis_format(double value, char *buf, size_t size)
{
    static const struct {
        double from;
        int decimals;
    } rounded[] = {{999.95, 0}, {99.995, 1}, {9.9995, 2}, {1, 3}, {0, 4}};
    double magnitude = fabs(value);
    size_t i = 0;
    if (isnan(value))
        snprintf(buf, size, "NaN");
    else if (isinf(value) || magnitude == 0)
        snprintf(buf, size, "%.0f", value);
    else if (magnitude >= 1e15)
        format_exponent(value, 1, buf, size);
    else if (magnitude >= 9999.5)
        text_format_count(value, buf, size);
    else if (magnitude < 0.001)
        format_exponent(value, 2, buf, size);
    else {
        while (magnitude < rounded[i].from) i++;
        snprintf(buf, size, "%.*f", rounded[i].decimals, value);
    }
    return buf;
}

char *axis_format_within(double value, int width, char *buf, size_t size)
{
    axis_format(value, buf, size);
    for (int decimals = 1; decimals >= 0 && (int)strlen(buf) > width && strchr(buf, 'e'); decimals--)
        format_exponent(value, decimals, buf, size);
    return buf;
}

/* `step`, the distance between ticks, determines the number of decimals. */
static void format_tick(double value, double step, double largest, char *buf, size_t size)
{
    static const struct {
        double from, scale;
        const char *suffix;
    } units[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "B"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}, {0, 1, ""}};
    size_t u = 0;
    while (largest < units[u].from) u++;
    double decimals = ceil(-log10(step / units[u].scale) - 1e-9);
    if (fabs(value) < step * 1e-9) {
        snprintf(buf, size, "0");
    } else if (largest >= 1e15 || largest < 0.01) {
        decimals = floor(log10(fabs(value)) + 1e-9) - floor(log10(step) + 1e-9);
        format_exponent(value, (int)fmin(fmax(decimals, 0), 3), buf, size);
    } else {
        snprintf(buf, size, "%.*f%s", (int)fmin(fmax(decimals, 0), 6), value / units[u].scale,
                 units[u].suffix);
    }
}

static double round_step(double rough)
{
    double decade = pow(10, floor(log10(rough)));
    double digit = rough / decade;
    return decade * (digit <= 1.0000001 ? 1 : digit <= 2.0000001 ? 2 : digit <= 5.0000001 ? 5 : 10);
}

static void linear_ticks(struct axis *axis, int max_ticks, double least_step)
{
    double step = fmax(round_step((axis->hi - axis->lo) / (max_ticks + 1)), least_step), first, last;
    for (;; step = round_step(step * 1.5)) { /* find the finest step with at most max_ticks */
        first = ceil(axis->lo / step - 1e-9);
        last = floor(axis->hi / step + 1e-9);
        if (last - first < max_ticks) break;
    }
    double largest = fmax(fabs(axis->lo), fabs(axis->hi));
    for (double i = first; i <= last && axis->count < max_ticks; i++) {
        axis->tick[axis->count] = i * step;
        format_tick(i * step, step, largest, axis->label[axis->count++], AXIS_LABEL_MAX);
    }
}

/* Sets ticks at decades with their 2s and 5s; if too many, with their 3s; else at some decades alone. */
static void log_ticks(struct axis *axis, int max_ticks)
{
    static const double digits[3][3] = {{1, 2, 5}, {1, 3, 0}, {1, 0, 0}};
    int first = (int)floor(log10(axis->lo)), last = (int)ceil(log10(axis->hi));
    int inside = (int)ceil(log10(axis->lo) - 1e-9), decades = (int)floor(log10(axis->hi) + 1e-9) - inside;
    bool fits = false;
    for (int detail = 0; detail < 3 && !fits; detail++) {
        int gaps = max_ticks > 1 ? max_ticks - 1 : 1;
        int stride = detail < 2 || decades < 1 ? 1 : (decades + gaps - 1) / gaps;
        fits = true;
        axis->count = 0;
        for (int i = 0; i <= 3 * (last - first) + 2; i++) {
            double decade = pow(10, first + i / 3), value = digits[detail][i % 3] * decade;
            bool is_inside = value >= axis->lo * (1 - 1e-9) && value <= axis->hi * (1 + 1e-9);
            if (!is_inside || (first + i / 3 - inside) % stride != 0) continue;
            if (axis->count == max_ticks) {
                fits = false;
                break;
            }
            axis->tick[axis->count] = value;
            format_tick(value, decade, value, axis->label[axis->count++], AXIS_LABEL_MAX);
        }
    }
}

static void set_range(struct axis *axis, double lo, double hi)
{
    if (!(isfinite(lo) && isfinite(hi) && lo <= hi)) {
        lo = 0;
        hi = 1;
    }
    lo = fmin(fmax(lo, -1e300), 1e300);
    hi = fmin(fmax(hi, -1e300), 1e300);
    /* Centre a flat line in a range of about its magnitude; below 1e-300 a step between ticks may be 0. */
    double largest = fmax(fabs(lo), fabs(hi));
    bool flat = hi - lo <= fmax(largest * 1e-12, 1e-300);
    double around = !flat ? 0 : largest > 0 ? fmax(largest * 0.1, 1e-300) : 1;
    *axis = (struct axis){.lo = lo - around, .hi = hi + around};
}

static void init(struct axis *axis, double lo, double hi, bool log, int max_ticks, double least_step)
{
    log = log && hi > 0 && lo <= hi;
    if (log && lo <= 0) lo = hi * 1e-6;
    set_range(axis, lo, hi);
    if (axis->hi - axis->lo < least_step) axis->hi = axis->lo + least_step;
    axis->log = log && axis->lo > 0;
    max_ticks = max_ticks < 1 ? 1 : max_ticks > AXIS_TICKS_MAX ? AXIS_TICKS_MAX : max_ticks;
    if (axis->log) log_ticks(axis, max_ticks);
    if (!axis->log || (axis->count < 2 && axis->hi < 100 * axis->lo)) { /* linear ticks tell more */
        axis->count = 0;
        linear_ticks(axis, max_ticks, least_step);
    }
}

void axis_init(struct axis *axis, double lo, double hi, bool log, int max_ticks)
{
    init(axis, lo, hi, log, max_ticks, 0);
}

void axis_init_steps(struct axis *axis, double lo, double hi, bool log, int max_ticks)
{
    init(axis, log ? fmax(lo, 1) : lo, log ? fmax(hi, 1) : hi, log, max_ticks, 1);
}

/* "+0.5", "+15e-7": a whole number of decades, so that it is exact. */
static void format_distance(double distance, double step, int width, char *buf, size_t size)
{
    double exponent = floor(log10(step) + 1e-9), count = round(distance / pow(10, exponent));
    snprintf(buf, size, "+%.9g", count * pow(10, exponent));
    if ((int)strlen(buf) <= width && !strchr(buf, 'e')) return;
    for (; count != 0 && fmod(count, 10) == 0; count /= 10) exponent++;
    snprintf(buf, size, "+%.0fe%.0f", count, exponent);
    if ((int)strlen(buf) > width) *buf = '\0';
}

void axis_shorten(struct axis *axis, int width)
{
    bool fits = true;
    for (int i = 0; i < axis->count; i++)
        fits = fits && (int)strlen(axis->label[i]) <= width &&
               (i == 0 || strcmp(axis->label[i], axis->label[i - 1]) != 0);
    if (fits) return;
    axis_format_within(axis->tick[0], width, axis->label[0], AXIS_LABEL_MAX);
    for (int i = 1; i < axis->count; i++)
        format_distance(axis->tick[i] - axis->tick[0], axis->tick[1] - axis->tick[0], width, axis->label[i],
                        AXIS_LABEL_MAX);
}

double axis_position(const struct axis *axis, double value)
{
    if (isnan(value)) return NAN;
    if (!axis->log) return (value - axis->lo) / (axis->hi - axis->lo);
    if (value <= 0) return NAN;
    return (log10(value) - log10(axis->lo)) / (log10(axis->hi) - log10(axis->lo));
}

double axis_value(const struct axis *axis, double position)
{
    if (!axis->log) return axis->lo + position * (axis->hi - axis->lo);
    return axis->lo * pow(axis->hi / axis->lo, position);
}
