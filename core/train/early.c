/* See early.h. */
#include "core/train/early.h"

bool early_is_due(bool wanted, int64_t every, int64_t step)
{
    if (!wanted || every <= 0 || step > every / 2) return false;
    while (step >= 100 && step % 10 == 0) step /= 10;
    return step == 0 || step == 10 || step == 20 || step == 50;
}

int64_t early_count(bool wanted, int64_t every, int64_t total)
{
    static const int64_t digits[] = {1, 2, 5};
    int64_t count = early_is_due(wanted, every, 0);
    for (int64_t ten = 10; ten < total && ten <= every / 2; ten *= 10)
        for (int i = 0; i < 3; i++)
            count += digits[i] * ten < total && early_is_due(wanted, every, digits[i] * ten);
    return count;
}
