/* Checks the declarations of kernels/device/nvml.h: against the offsets that NVIDIA's documentation implies
 * on a 64-bit machine and, if the CUDA Toolkit is installed, against its nvml.h. */
#include "kernels/device/nvml.h"
#include "tests/cmocka.h"

#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAVE_HEADER 1
#endif

TEST_CASE(structs_have_the_documented_layout)
{
    assert_int_equal(sizeof(struct nvml_utilization), 8);
    assert_int_equal(offsetof(struct nvml_utilization, memory), 4);
    assert_int_equal(sizeof(struct nvml_memory), 24);
    assert_int_equal(offsetof(struct nvml_memory, free), 8);
    assert_int_equal(offsetof(struct nvml_memory, used), 16);
    assert_int_equal(sizeof(struct nvml_process), 24);
    assert_int_equal(offsetof(struct nvml_process, used), 8);
    assert_int_equal(offsetof(struct nvml_process, gpu_instance), 16);
    assert_int_equal(offsetof(struct nvml_process, compute_instance), 20);
}

/* _Static_assert names the line, and fails before anything runs. */
TEST_CASE(what_is_declared_is_what_nvidias_header_says)
{
#ifdef HAVE_HEADER
#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is not " #theirs)
    SAME(sizeof(struct nvml_utilization), sizeof(nvmlUtilization_t));
    SAME(offsetof(struct nvml_utilization, gpu), offsetof(nvmlUtilization_t, gpu));
    SAME(offsetof(struct nvml_utilization, memory), offsetof(nvmlUtilization_t, memory));
    SAME(sizeof(struct nvml_memory), sizeof(nvmlMemory_t));
    SAME(offsetof(struct nvml_memory, total), offsetof(nvmlMemory_t, total));
    SAME(offsetof(struct nvml_memory, free), offsetof(nvmlMemory_t, free));
    SAME(offsetof(struct nvml_memory, used), offsetof(nvmlMemory_t, used));
    SAME(sizeof(struct nvml_process), sizeof(nvmlProcessInfo_t));
    SAME(offsetof(struct nvml_process, pid), offsetof(nvmlProcessInfo_t, pid));
    SAME(offsetof(struct nvml_process, used), offsetof(nvmlProcessInfo_t, usedGpuMemory));
    SAME(offsetof(struct nvml_process, gpu_instance), offsetof(nvmlProcessInfo_t, gpuInstanceId));
    SAME(offsetof(struct nvml_process, compute_instance), offsetof(nvmlProcessInfo_t, computeInstanceId));
    SAME((int)NVML_CODE_SUCCESS, (int)NVML_SUCCESS);
    SAME((int)NVML_SENSOR_GPU, (int)NVML_TEMPERATURE_GPU);
    SAME((int)NVML_DOMAIN_SM, (int)NVML_CLOCK_SM);
#ifdef nvmlClocksThrottleReasonGpuIdle /* the names that every header up to CUDA 13 has */
    SAME(NVML_REASON_IDLE, nvmlClocksThrottleReasonGpuIdle);
    SAME(NVML_REASON_SET_CLOCKS, nvmlClocksThrottleReasonApplicationsClocksSetting);
    SAME(NVML_REASON_POWER_CAP, nvmlClocksThrottleReasonSwPowerCap);
    SAME(NVML_REASON_HARDWARE, nvmlClocksThrottleReasonHwSlowdown);
    SAME(NVML_REASON_SYNC_BOOST, nvmlClocksThrottleReasonSyncBoost);
    SAME(NVML_REASON_THERMAL, nvmlClocksThrottleReasonSwThermalSlowdown);
    SAME(NVML_REASON_HARDWARE_THERMAL, nvmlClocksThrottleReasonHwThermalSlowdown);
    SAME(NVML_REASON_POWER_BRAKE, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
    SAME(NVML_REASON_DISPLAY, nvmlClocksThrottleReasonDisplayClockSetting);
#endif
#else
    print_message("no nvml.h beside nvcc to compare with (NVIDIA's package cuda-nvml-dev has it)\n");
    skip();
#endif
}

TEST_MAIN()
