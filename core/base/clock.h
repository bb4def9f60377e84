/* Time: a monotonic clock for durations, the wall clock for records. Both in seconds. */
#ifndef ANNEAL_CORE_BASE_CLOCK_H
#define ANNEAL_CORE_BASE_CLOCK_H

#include <stddef.h>
#include <time.h>

double clock_monotonic(void); /* seconds since an arbitrary start; never goes back */
double clock_wall(void);      /* Unix seconds with a fraction */

/* The monotonic time that many seconds from now (at most a million), for calls that take a deadline. */
struct timespec clock_deadline(double seconds);

/* "3.2s", "42s", "4m 05s", "2h 13m", "5d 3h"; negative or not finite gives "--". Returns buf. */
char *clock_format_duration(double seconds, char *buf, size_t size);
/* The same in an array of the enclosing block: for an argument of printf. */
#define CLOCK_DURATION(seconds) clock_format_duration(seconds, (char[32]){0}, 32)

#endif
