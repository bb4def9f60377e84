/* See clock.h. */
#include "core/base/clock.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

static double seconds_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_monotonic(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double clock_wall(void)
{
    return seconds_of(CLOCK_REALTIME);
}

struct timespec clock_deadline(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double wait = seconds > 1e6 ? 1e6 : seconds > 0 ? seconds : 0;
    int64_t nanoseconds = t.tv_nsec + (int64_t)(wait * 1e9);
    t.tv_sec += (time_t)(nanoseconds / 1000000000);
    t.tv_nsec = (long)(nanoseconds % 1000000000);
    return t;
}

char *clock_format_duration(double seconds, char *buf, size_t size)
{
    if (!isfinite(seconds) || seconds < 0) {
        snprintf(buf, size, "--");
    } else if (seconds < 9.95) {
        snprintf(buf, size, "%.1fs", seconds);
    } else {
        long long s = (long long)(seconds < 1e15 ? seconds + 0.5 : 1e15);
        if (s < 60)
            snprintf(buf, size, "%llds", s);
        else if (s < 3600)
            snprintf(buf, size, "%lldm %02llds", s / 60, s % 60);
        else if (s < 86400)
            snprintf(buf, size, "%lldh %02lldm", s / 3600, s / 60 % 60);
        else
            snprintf(buf, size, "%lldd %lldh", s / 86400, s / 3600 % 24);
    }
    return buf;
}
