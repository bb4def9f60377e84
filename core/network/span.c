/* See span.h. */
#include "core/network/span.h"

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASES] = {"data", "forward", "backward", "recompute", "optimizer"};
    return names[phase];
}
