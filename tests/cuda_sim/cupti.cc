/* The simulator's CUPTI and NVTX: each piece of work on the simulated device becomes a record with the
 * simulated time while its kind is enabled; buffers are requested and returned as in CUPTI, and ranges are
 * counted. A kernel's name is the text of its launch. */
#include <cupti.h>
#include <nvtx3/nvToolsExt.h>
#include <string.h>

#include <map>
#include <string>

#include "tests/cuda_sim/machine.hh"

namespace {

constexpr uint64_t EPOCH = 1000000000; /* start of CUPTI's clock; differs from the simulator's */
constexpr size_t RECORD = 96;          /* bytes in a buffer that each takes */
constexpr uint16_t REGISTERS = 40;     /* of a thread of any kernel: the simulator has none */

static_assert(sizeof(CUpti_ActivityKernel10) <= RECORD && sizeof(CUpti_ActivityMemcpy6) <= RECORD, "no room");

bool missing;
int records_most; /* in a buffer; 0: as many as fit */
CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
unsigned enabled; /* bits of kinds */
uint8_t *buffer;
size_t buffer_bytes, used, dropped;
auto &ranges = *new std::map<std::string, uint64_t>;
int open_ranges;

void give_back()
{
    if (buffer != NULL) complete(NULL, 0, buffer, buffer_bytes, used);
    buffer = NULL;
    used = 0;
}

void *room()
{
    bool full = used + RECORD > buffer_bytes || (records_most > 0 && used >= RECORD * (size_t)records_most);
    size_t records;
    if (buffer != NULL && full) give_back();
    if (buffer == NULL) request(&buffer, &buffer_bytes, &records);
    if (buffer == NULL) return NULL;
    used += RECORD;
    return memset(buffer + used - RECORD, 0, RECORD);
}

CUpti_ActivityKind kind_of(sim::work kind)
{
    return kind == sim::KERNEL ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
           : kind == sim::FILL ? CUPTI_ACTIVITY_KIND_MEMSET
                               : CUPTI_ACTIVITY_KIND_MEMCPY;
}

uint64_t nanoseconds(double at)
{
    return EPOCH + (uint64_t)(at * 1e3);
}

} // namespace

namespace sim {

void *cupti_library()
{
    return missing ? NULL : &missing;
}

void cupti_record(work kind, const char *name, size_t bytes, double from, double to,
                  const launch_shape &shape)
{
    CUpti_ActivityKind as = kind_of(kind);
    if (!(enabled >> as & 1)) return;
    void *at = room();
    uint64_t start = nanoseconds(from), end = nanoseconds(to);
    if (at == NULL) {
        dropped++;
    } else if (kind == KERNEL) {
        const dim3 &grid = shape.grid, &block = shape.block;
        *(CUpti_ActivityKernel10 *)at = {as,
                                         REGISTERS,
                                         start,
                                         end,
                                         7,
                                         (int32_t)grid.x,
                                         (int32_t)grid.y,
                                         (int32_t)grid.z,
                                         (int32_t)block.x,
                                         (int32_t)block.y,
                                         (int32_t)block.z,
                                         (int32_t)shape.static_shared,
                                         (int32_t)shape.dynamic_shared,
                                         0,
                                         name};
    } else if (kind == FILL) {
        *(CUpti_ActivityMemset4 *)at = {as, bytes, start, end, 7};
    } else {
        uint8_t copy = kind == UPLOAD     ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                       : kind == DOWNLOAD ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                          : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
        *(CUpti_ActivityMemcpy6 *)at = {as, copy, bytes, start, end, 7};
    }
}

} // namespace sim

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed)
{
    request = requested;
    complete = completed;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    enabled |= 1u << kind;
    return request != NULL ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    enabled &= ~(1u << kind);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t)
{
    give_back();
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *records, size_t valid, CUpti_Activity **record)
{
    uint8_t *next = *record == NULL ? records : (uint8_t *)*record + RECORD;
    if (next + RECORD > records + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *out)
{
    *out = dropped;
    dropped = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = nanoseconds(sim::clock_now());
    return CUPTI_SUCCESS;
}

extern "C" void sim_set_cupti(bool there, int records)
{
    missing = !there;
    records_most = records;
}

int nvtxRangePushA(const char *message)
{
    ranges[message]++;
    return open_ranges++;
}

int nvtxRangePop(void)
{
    if (open_ranges == 0) sim::fail("nvtxRangePop: no range is open");
    return --open_ranges;
}

extern "C" uint64_t sim_ranges(const char *name)
{
    return ranges[name];
}

extern "C" int sim_open_ranges(void)
{
    return open_ranges;
}
