/* Theoretical occupancy: figures computed by hand for known chips, and NVIDIA's own calculator, where the
 * Toolkit is installed. */
#include <limits.h>
#include <math.h>

#include "kernels/device/occupancy.h"
#include "tests/cmocka.h"

/* From table "Technical Specifications per Compute Capability" of NVIDIA's programming guide. */
static const struct chip_facts {
    int major, minor;
    struct multiprocessor each;
} chips[] = {{8, 0, {2048, 32, 65536, 164 << 10, 1 << 10}},
             {8, 6, {1536, 16, 65536, 100 << 10, 1 << 10}},
             {8, 9, {1536, 24, 65536, 100 << 10, 1 << 10}},
             {9, 0, {2048, 32, 65536, 228 << 10, 1 << 10}}};
static const struct multiprocessor *const h100 = &chips[3].each, *const rtx3090 = &chips[1].each;

static struct kernel_launch of_block(int threads, int registers, int shared)
{
    return (struct kernel_launch){{1, 1, 1}, {threads, 1, 1}, registers, 0, shared, 0};
}

static void expect(struct kernel_launch launch, const struct multiprocessor *each, double share,
                   const char *limit)
{
    struct occupancy got;
    occupancy_compute(&launch, each, 1, &got);
    if (fabs(got.share - share) > 1e-9 || strcmp(got.limit, limit) != 0)
        fail_msg("%d threads, %d registers, %d bytes: %g by %s, not %g by %s", launch.block[0],
                 launch.registers, launch.dynamic_shared, got.share, got.limit, share, limit);
}

TEST_CASE(each_limit_gives_the_occupancy_that_it_leaves)
{
    expect(of_block(256, 32, 0), h100, 1, "threads");
    expect(of_block(256, 40, 0), h100, 48.0 / 64, "registers");  /* 1,280 a warp: 12 in each part */
    expect(of_block(1024, 40, 0), h100, 32.0 / 64, "registers"); /* 48 warps, but blocks of 32 */
    expect(of_block(256, 255, 0), h100, 8.0 / 64, "registers");  /* rounded up to 8,192 a warp */
    expect(of_block(32, 16, 0), h100, 32.0 / 64, "blocks");
    expect(of_block(128, 16, 48 << 10), h100, 16.0 / 64, "shared memory"); /* 49 KiB a block: four */
    expect(of_block(256, 32, 0), rtx3090, 1, "threads");
    expect(of_block(1024, 32, 0), rtx3090, 32.0 / 48, "threads");
    expect(of_block(33, 16, 0), rtx3090, 32.0 / 48, "blocks"); /* two warps, one of them with one thread */
}

TEST_CASE(a_grid_is_measured_in_what_the_device_holds_at_a_time)
{
    struct occupancy got;
    struct kernel_launch launch = {{100, 3, 11}, {64, 2, 2}, 32, 0, 0, 0};
    occupancy_compute(&launch, h100, 132, &got);
    assert_true(got.share == 1 && got.waves == 3300.0 / (8 * 132));
}

TEST_CASE(a_launch_that_does_not_fit_or_is_not_known_has_no_occupancy)
{
    expect(of_block(1024, 128, 0), h100, 0, "registers");
    expect(of_block(32, 16, 228 << 10), h100, 0, "shared memory");
    expect((struct kernel_launch){0}, h100, 0, "");
    expect(of_block(256, 32, 0), &(struct multiprocessor){0}, 0, "");
}

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>

static struct cudaOccDeviceProp as_nvidia(const struct chip_facts *chip)
{
    struct cudaOccDeviceProp p;
    memset(&p, 0, sizeof p);
    p.computeMajor = chip->major, p.computeMinor = chip->minor;
    p.maxThreadsPerBlock = 1024, p.warpSize = 32, p.numSms = 1;
    p.maxThreadsPerMultiprocessor = chip->each.threads;
    p.regsPerBlock = p.regsPerMultiprocessor = chip->each.registers;
    p.sharedMemPerBlock = 48 << 10;
    p.sharedMemPerMultiprocessor = (size_t)chip->each.shared;
    p.sharedMemPerBlockOptin = (size_t)(chip->each.shared - chip->each.shared_reserved);
    p.reservedSharedMemPerBlock = (size_t)chip->each.shared_reserved;
    return p;
}

static void compare(const struct chip_facts *chip, int threads, int registers, int shared)
{
    struct cudaOccDeviceProp properties = as_nvidia(chip);
    struct cudaOccDeviceState state = {CACHE_PREFER_NONE, SHAREDMEM_CARVEOUT_DEFAULT};
    struct cudaOccFuncAttributes kernel = {.maxThreadsPerBlock = 1024,
                                           .numRegs = registers,
                                           .partitionedGCConfig = PARTITIONED_GC_OFF,
                                           .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                                           .maxDynamicSharedSizeBytes = (size_t)shared,
                                           .numBlockBarriers = 1};
    struct cudaOccResult theirs = {0};
    struct occupancy ours;
    struct kernel_launch launch = of_block(threads, registers, shared);
    assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &properties, &kernel, &state, threads,
                                                             (size_t)shared),
                     CUDA_OCC_SUCCESS);
    occupancy_compute(&launch, &chip->each, 1, &ours);
    int warps = (threads + 31) / 32, blocks = (int)lround(ours.share * chip->each.threads / 32 / warps);
    if (blocks != theirs.activeBlocksPerMultiprocessor)
        fail_msg("%d.%d, %d threads, %d registers, %d bytes: %d blocks, not %d", chip->major, chip->minor,
                 threads, registers, shared, blocks, theirs.activeBlocksPerMultiprocessor);
}

TEST_CASE(nvidias_calculator_agrees)
{
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        for (int threads = 32; threads <= 1024; threads += 32)
            for (int registers = 16; registers * threads <= 65536 && registers <= 255; registers += 3)
                for (int shared = 0; shared < 100 << 10; shared += 1111)
                    compare(&chips[i], threads, registers, shared);
}
#else
TEST_CASE(nvidias_calculator_agrees)
{
    skip();
}
#endif

TEST_MAIN()
