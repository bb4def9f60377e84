/* See labels.h. */
#include "tui/view/labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

struct status_label label_status(enum run_status status)
{
    static const struct status_label labels[] = {
        [RUN_CREATED] = {0x25CB, "created", STYLE_DIM},
        [RUN_RUNNING] = {0x25CF, "running", STYLE_GOOD},
        [RUN_PAUSED] = {0x2016, "paused", STYLE_WARN},
        [RUN_FINISHED] = {0x2713, "finished", STYLE_ACCENT},
        [RUN_EARLY_STOPPED] = {0x2713, "early stop", STYLE_ACCENT},
        [RUN_STOPPED] = {0x25A0, "stopped", STYLE_DIM},
        [RUN_FAILED] = {0x2717, "failed", STYLE_BAD},
        [RUN_CRASHED] = {0x2717, "crashed", STYLE_BAD},
    };
    return labels[status];
}

bool label_is_live(enum run_status status)
{
    return status == RUN_RUNNING || status == RUN_PAUSED;
}

double label_progress(const struct run_info *run)
{
    if (run->total_steps <= 0) return NAN;
    return fmin(fmax((double)run->steps / (double)run->total_steps, 0), 1);
}

double label_eta(const struct run_info *run)
{
    if (run->status != RUN_RUNNING || run->steps <= 0 || run->tokens <= 0 || run->total_steps < run->steps)
        return NAN;
    if (!(run->tokens_per_sec > 0) || isinf(run->tokens_per_sec)) return NAN;
    double tokens_per_step = (double)run->tokens / (double)run->steps;
    return (double)(run->total_steps - run->steps) * tokens_per_step / run->tokens_per_sec;
}

double label_elapsed(const struct run_info *run, double now)
{
    double since = label_is_live(run->status) ? now - run->heartbeat : 0;
    return run->elapsed + (since > 0 ? since : 0);
}

char *label_device(const struct gpu_record *sample, char *buf, size_t size)
{
    const struct {
        double value;
        const char *unit;
    } parts[] = {{sample->utilization_pct, sample->gpu < 0 ? "% of all processors busy" : "% busy"},
                 {sample->power_w, "W"},
                 {sample->temperature_c, "C"},
                 {sample->sm_clock_mhz, "MHz"}};
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts && used < size; i++)
        if (!isnan(parts[i].value))
            used += (size_t)snprintf(buf + used, size - used, "%s%.0f %s", used ? ", " : "", parts[i].value,
                                     parts[i].unit);
    return buf;
}

char *label_age(double since, double now, char *buf, size_t size)
{
    static const struct {
        double below, seconds;
        const char *unit;
    } units[] = {{60, 1, "s"}, {3600, 60, "m"}, {86400, 3600, "h"}, {30 * 86400.0, 86400, "d"}};
    double age = now - since;
    if (age < 1) {
        snprintf(buf, size, "now");
        return buf;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (age < units[i].below) {
            snprintf(buf, size, "%.0f%s ago", floor(age / units[i].seconds), units[i].unit);
            return buf;
        }
    time_t when = isnan(age) ? 0 : (time_t)since;
    struct tm date;
    if (isnan(age) || !localtime_r(&when, &date) ||
        strftime(buf, size, age < 330 * 86400.0 ? "%d %b" : "%Y-%m", &date) == 0)
        snprintf(buf, size, "--");
    return buf;
}

char *label_thousands(int64_t n, char *buf, size_t size)
{
    char digits[32];
    int count = snprintf(digits, sizeof digits, "%" PRId64, n < 0 ? -n : n);
    size_t at = 0;
    if (n < 0 && size > 1) buf[at++] = '-';
    for (int i = 0; i < count && at + 2 < size; i++) {
        if (i > 0 && (count - i) % 3 == 0) buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}
