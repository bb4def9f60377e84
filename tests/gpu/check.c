/* See check.h. */
#include "tests/gpu/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"

bool check_wanted(const struct check *check, const char *name)
{
    return !check->only || strstr(name, check->only);
}

bool check_is_late(const struct check *check)
{
    return clock_monotonic() >= check->end;
}

bool check_begins(struct check *check, const char *name)
{
    if (!check_wanted(check, name)) return false;
    if (!check->cuda) {
        check->skipped++; /* for a reason that is printed once, for all */
        return false;
    }
    if (!check_is_late(check)) return true;
    check_skips(check, name, "--seconds are over");
    return false;
}

void check_ends(struct check *check, const char *name, bool good, const char *format, ...)
{
    va_list arguments;
    printf("%-4s %-40s ", good ? "ok" : "FAIL", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    good ? check->passed++ : check->failed++;
}

void check_skips(struct check *check, const char *name, const char *format, ...)
{
    va_list arguments;
    printf("SKIP %s: ", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    check->skipped++;
}
