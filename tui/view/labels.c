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
    switch (status) {
    case RUN_CREATED:
        return (struct status_label){0x25CB, "created", STYLE_DIM};
    case RUN_RUNNING:
        return (struct status_label){0x25CF, "running", STYLE_GOOD};
    case RUN_PAUSED:
        return (struct status_label){0x2016, "paused", STYLE_WARN};
    case RUN_FINISHED:
        return (struct status_label){0x2713, "finished", STYLE_ACCENT};
    case RUN_EARLY_STOPPED:
        return (struct status_label){0x2713, "early stop", STYLE_ACCENT};
    case RUN_STOPPED:
        return (struct status_label){0x25A0, "stopped", STYLE_DIM};
    case RUN_FAILED:
        return (struct status_label){0x2717, "failed", STYLE_BAD};
    case RUN_CRASHED:
        return (struct status_label){0x2717, "crashed", STYLE_BAD};
    }
    return (struct status_label){'?', "unknown", STYLE_DIM};
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
    double age = now - since;
    if (isnan(age)) {
        snprintf(buf, size, "--");
    } else if (age < 1) {
        snprintf(buf, size, "now");
    } else if (age < 60) {
        snprintf(buf, size, "%.0fs ago", floor(age));
    } else if (age < 3600) {
        snprintf(buf, size, "%.0fm ago", floor(age / 60));
    } else if (age < 86400) {
        snprintf(buf, size, "%.0fh ago", floor(age / 3600));
    } else if (age < 30 * 86400.0) {
        snprintf(buf, size, "%.0fd ago", floor(age / 86400));
    } else {
        time_t when = (time_t)since;
        struct tm date;
        if (!localtime_r(&when, &date) ||
            strftime(buf, size, age < 330 * 86400.0 ? "%d %b" : "%Y-%m", &date) == 0)
            snprintf(buf, size, "--");
    }
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
