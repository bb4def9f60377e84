/* See axis.h. */
#include "tui/widget/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

/* "3e-4" for 3e-04: printf pads exponents to two digits. */
static void shorten_exponent(char *text)
{
    char *e = strchr(text, 'e');
    if (!e) return;
    if (e - text > 2 && e[-1] == '0' && e[-2] == '.') { /* "2e-4" rather than "2.0e-4" */
        memmove(e - 2, e, strlen(e) + 1);
        e -= 2;
    }
    char *digits = e + 2, *from = digits;
    while (from[0] == '0' && from[1]) from++;
    memmove(digits, from, strlen(from) + 1);
    if (e[1] == '+') memmove(e + 1, e + 2, strlen(e + 2) + 1);
}

char *axis_format(double value, char *buf, size_t size)
{
    if (isnan(value)) {
        snprintf(buf, size, "NaN");
        return buf;
    }
    if (isinf(value)) {
        snprintf(buf, size, value < 0 ? "-inf" : "inf");
        return buf;
    }
    double magnitude = fabs(value);
    if (magnitude >= 9999.5) {
        if (magnitude < 1e15) return text_format_count(value, buf, size);
        snprintf(buf, size, "%.1e", value);
        shorten_exponent(buf);
    } else if (magnitude == 0) {
        snprintf(buf, size, "0");
    } else if (magnitude < 0.001) {
        snprintf(buf, size, "%.2e", value);
        shorten_exponent(buf);
    } else {
        int decimals = magnitude >= 999.95   ? 0
                       : magnitude >= 99.995 ? 1
                       : magnitude >= 9.9995 ? 2
                       : magnitude >= 1      ? 3
                                             : 4;
        snprintf(buf, size, "%.*f", decimals, value);
    }
    return buf;
}

/* `step` is the distance between ticks: it decides the decimals. */
static void format_tick(double value, double step, double largest, char *buf, size_t size)
{
    if (fabs(value) < step * 1e-9) value = 0;
    if (value == 0) {
        snprintf(buf, size, "0");
        return;
    }
    if (largest >= 1e15 || largest < 0.01) {
        int digits = (int)floor(log10(fabs(value)) + 1e-9) - (int)floor(log10(step) + 1e-9);
        snprintf(buf, size, "%.*e", digits < 0 ? 0 : digits > 3 ? 3 : digits, value);
        shorten_exponent(buf);
        return;
    }
    static const struct {
        double from, scale;
        const char *suffix;
    } units[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "B"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}, {0, 1, ""}};
    size_t u = 0;
    while (largest < units[u].from) u++;
    int decimals = (int)ceil(-log10(step / units[u].scale) - 1e-9);
    snprintf(buf, size, "%.*f%s",
             decimals < 0   ? 0
             : decimals > 6 ? 6
                            : decimals,
             value / units[u].scale, units[u].suffix);
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
    for (;; step = round_step(step * 1.5)) { /* the finest step that gives no more than max_ticks */
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

static void log_ticks(struct axis *axis, int max_ticks)
{
    static const double digits[3][3] = {{1, 2, 5}, {1, 3, 0}, {1, 0, 0}};
    int first = (int)floor(log10(axis->lo)), last = (int)ceil(log10(axis->hi));
    for (int detail = 0; detail < 3; detail++) {
        int stride = detail < 2 ? 1 : (last - first) / max_ticks + 1;
        int count = 0;
        for (int decade = first; decade <= last && count <= max_ticks; decade += stride) {
            for (int d = 0; d < 3 && digits[detail][d] > 0; d++) {
                double value = digits[detail][d] * pow(10, decade);
                if (value < axis->lo * (1 - 1e-9) || value > axis->hi * (1 + 1e-9)) continue;
                if (count++ >= max_ticks) break;
                axis->tick[count - 1] = value;
                double step =
                    fabs(value) < 0.01 ? pow(10, floor(log10(value) + 1e-9)) : fmin(pow(10, decade), 1);
                format_tick(value, step, value, axis->label[count - 1], AXIS_LABEL_MAX);
            }
        }
        if (count <= max_ticks) {
            axis->count = count;
            return;
        }
    }
}

static int cap_ticks(int max_ticks)
{
    return max_ticks < 1 ? 1 : max_ticks > AXIS_TICKS_MAX ? AXIS_TICKS_MAX : max_ticks;
}

static void set_range(struct axis *axis, double lo, double hi)
{
    if (!isfinite(lo) || !isfinite(hi)) {
        lo = 0;
        hi = 1;
    }
    if (lo > hi) {
        double swap = lo;
        lo = hi;
        hi = swap;
    }
    lo = fmax(lo, -1e300);
    hi = fmin(hi, 1e300);
    /* a flat line lies in the middle of a range worth its size */
    if (hi - lo <= fmax(fabs(lo), fabs(hi)) * 1e-12) {
        double around = fmax(fabs(hi) * 0.1, hi == 0 ? 1 : 1e-300);
        lo -= around;
        hi += around;
    }
    *axis = (struct axis){.lo = lo, .hi = hi};
}

void axis_init(struct axis *axis, double lo, double hi, bool log, int max_ticks)
{
    bool positive = hi > 0 && lo <= hi;
    if (log && positive && !(lo > 0)) lo = hi * 1e-6;
    set_range(axis, lo, hi);
    axis->log = log && positive && axis->lo > 0;
    max_ticks = cap_ticks(max_ticks);
    if (axis->log) log_ticks(axis, max_ticks);
    if (axis->count < 2) { /* less than a decade: linear values say more */
        axis->count = 0;
        linear_ticks(axis, max_ticks, 0);
    }
}

void axis_init_steps(struct axis *axis, double lo, double hi, int max_ticks)
{
    set_range(axis, lo, hi);
    if (axis->hi - axis->lo < 1) axis->hi = axis->lo + 1;
    linear_ticks(axis, cap_ticks(max_ticks), 1);
}

double axis_position(const struct axis *axis, double value)
{
    if (isnan(value)) return NAN;
    if (!axis->log) return (value - axis->lo) / (axis->hi - axis->lo);
    if (value <= 0) return NAN;
    return (log10(value) - log10(axis->lo)) / (log10(axis->hi) - log10(axis->lo));
}
