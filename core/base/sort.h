/* Sorting numbers. */
#ifndef ANNEAL_CORE_BASE_SORT_H
#define ANNEAL_CORE_BASE_SORT_H

#include <stdlib.h>

static inline int sort_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest first. None of the n values is NaN. */
static inline void sort_doubles(double *values, size_t n)
{
    qsort(values, n, sizeof *values, sort_compare_doubles);
}

#endif
