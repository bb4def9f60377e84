/* See occupancy.h. */
#include "kernels/device/occupancy.h"

enum { WARP = 32, PARTS = 4, REGISTER_UNIT = 256, SHARED_UNIT = 128 };

static int64_t units(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t product(const int sides[3])
{
    return (int64_t)sides[0] * sides[1] * sides[2];
}

/* How many blocks of this many warps the registers of a multiprocessor are enough for. */
static int64_t by_registers(int64_t registers, int64_t warps, const struct multiprocessor *each)
{
    return registers > 0 ? each->registers / PARTS / units(registers * WARP, REGISTER_UNIT) * PARTS / warps
                         : INT32_MAX;
}

void occupancy_compute(const struct kernel_launch *launch, const struct multiprocessor *each, int count,
                       struct occupancy *out)
{
    int64_t warps = units(product(launch->block), WARP) / WARP, blocks = INT32_MAX,
            shared = units((int64_t)launch->static_shared + launch->dynamic_shared + each->shared_reserved,
                           SHARED_UNIT);
    *out = (struct occupancy){.limit = ""};
    if (warps < 1 || count < 1 || each->threads < WARP) return;
    const struct {
        const char *name;
        int64_t blocks;
    } limits[] = {{"threads", each->threads / WARP / warps},
                  {"registers", by_registers(launch->registers, warps, each)},
                  {"shared memory", shared > 0 ? each->shared / shared : INT32_MAX},
                  {"blocks", each->blocks}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].blocks < blocks) {
            blocks = limits[i].blocks;
            out->limit = limits[i].name;
        }
    if (blocks < 1) return;
    out->share = (double)(blocks * warps) / (double)(each->threads / WARP);
    out->waves = (double)product(launch->grid) / (double)(blocks * count);
}
