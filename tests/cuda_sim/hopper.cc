/* Barriers (mbarrier), copies of boxes (TMA) and registers (setmaxnreg) of compute capability 9.0, as
 * kernels/hopper.cuh wraps them; the products are in hopper_product.cc.
 *
 * The bytes of a box arrive when no thread could go on without them, in any order; until then the place holds
 * NaN. */
#include "tests/cuda_sim/hopper.hh"

namespace hopper {

block *now;

int warp()
{
    int w = sim::acting() / WARP;
    if (w >= WARPS_MAX) sim::fail("the simulator knows barriers and products of %d warps", WARPS_MAX);
    return w;
}

block *state()
{
    if (now == NULL) {
        now = new block();
        now->chunks.resize(TILES_MAX);
        int threads = (int)(blockDim.x * blockDim.y * blockDim.z), group = (int)GROUP * (int)WARP;
        int all = (threads + group - 1) / group * group; /* whole warpgroups */
        for (int w = 0; w < WARPS_MAX; w++) {
            now->known[w].at[w] = 1;
            now->registers[w] = 65536 / all / 8 * 8; /* as __launch_bounds__ allows */
        }
    }
    return now;
}

unsigned char *shared_base(size_t *bytes)
{
    unsigned char *base;
    sim::mark *marks;
    sim::dynamic_shared(&base, &marks, bytes);
    return base;
}

chunk *chunk_at(uint32_t address, const char *who)
{
    size_t bytes;
    shared_base(&bytes);
    if (address % CHUNK != 0 || address + CHUNK > bytes)
        sim::fail("%s: address %u is outside of the %zu bytes of dynamic shared memory", who, address, bytes);
    return &state()->chunks[address / CHUNK];
}

uint32_t permuted(uint32_t address)
{
    return address ^ (address >> 7 & 7) << 4;
}

void nothing(void *const[WARP], int)
{
}

} // namespace hopper

using namespace hopper;

namespace {

/* ---- barriers ---- */

barrier *barrier_at(const sim::span &at)
{
    auto found = state()->barriers.find(at.at);
    if (found == now->barriers.end())
        sim::fail("%s[%td] is used as a barrier without barrier_init", at.name, at.index);
    barrier *b = &found->second;
    if (b->maker != warp() && now->known[warp()].at[b->maker] < b->made)
        sim::fail("%s[%td]: the barrier is used before __syncthreads() made it known", at.name, at.index);
    return b;
}

void end_phase(barrier *b)
{
    if (b->missing > 0 || b->bytes != 0) return;
    b->phases++;
    b->missing = b->count;
    b->ended = b->arriving;
    b->ended.at[WARPS_MAX + b->number] = b->phases;
}

struct waiting {
    const barrier *b;
    unsigned parity;
};

bool reached(void *context)
{
    const waiting *w = (const waiting *)context;
    return (w->b->phases & 1) != w->parity;
}

/* ---- tensors ---- */

/* A tensor map, of four dimensions, inside its 128 bytes. */
struct tensor {
    const unsigned char *address;
    uint64_t strides[3]; /* bytes */
    uint32_t sizes[4], box[4];
    uint32_t magic;
    bool permutes;
};
enum { MAGIC = 0x7e45042a };
static_assert(sizeof(tensor) <= sizeof(CUtensorMap));

bool registers_there(void *wanted)
{
    return now->registers_free >= *(const int *)wanted;
}

} // namespace

namespace sim {

uint32_t shared_address(const span &at)
{
    size_t bytes;
    unsigned char *base = shared_base(&bytes);
    if (at.at < base || at.at >= base + bytes) fail("%s is not in dynamic shared memory", at.name);
    return (uint32_t)(at.at - base);
}

void barrier_init(const span &at, unsigned count)
{
    block *b = state();
    int number = (int)b->barriers.size();
    if (b->barriers.count(at.at) != 0) fail("%s[%td]: the barrier is made a second time", at.name, at.index);
    if (number == BARRIERS_MAX) fail("more than %d barriers", BARRIERS_MAX);
    if (count == 0 || count > TX_MOST) fail("%s[%td]: a barrier for %u threads", at.name, at.index, count);
    barrier made = {};
    made.count = made.missing = count;
    made.number = number;
    made.maker = warp();
    made.made = b->known[warp()].at[warp()];
    b->barriers[at.at] = made;
}

void barriers_ready()
{
    block *b = state();
    for (auto &each : b->barriers)
        if (each.second.maker == warp()) each.second.ready = true;
}

void barrier_arrive(const span &at, unsigned bytes)
{
    barrier *b = barrier_at(at);
    clocks *known = &now->known[warp()];
    b->bytes += bytes;
    if (b->bytes > TX_MOST) fail("%s[%td] expects more than %d bytes", at.name, at.index, TX_MOST);
    if (b->missing == 0) fail("%s[%td]: more than %u arrivals in a phase", at.name, at.index, b->count);
    b->missing--;
    b->arriving.join(*known);
    known->at[warp()]++;
    end_phase(b);
}

bool barrier_wait(const span &at, unsigned parity, const char *file, int line)
{
    if (skipped_here(file, line)) return true;
    barrier *b = barrier_at(at);
    waiting w = {b, parity & 1};
    bool there = reached(&w);
    if (there)
        now->known[warp()].join(b->ended);
    else
        wait_for(reached, &w, file, line);
    return there;
}

void box_load(uint32_t to, const CUtensorMap *map, const span &at, const int (&from)[4])
{
    barrier *b = barrier_at(at);
    tensor t;
    memcpy(&t, map, sizeof t);
    if (t.magic != MAGIC) fail("a box of a tensor that cuTensorMapEncodeTiled did not describe");
    if (!b->ready) fail("%s[%td]: a copy uses the barrier before barriers_ready", at.name, at.index);
    if (to % (t.permutes ? 1024 : 128) != 0) fail("a box to address %u, which is not on its boundary", to);
    box loaded = {at, {}, {}};
    uint32_t place = to;
    clocks *known = &now->known[warp()];
    uint32_t i[4];
    for (i[3] = 0; i[3] < t.box[3]; i[3]++)
        for (i[2] = 0; i[2] < t.box[2]; i[2]++)
            for (i[1] = 0; i[1] < t.box[1]; i[1]++)
                for (i[0] = 0; i[0] < t.box[0]; i[0] += CHUNK / 2, place += CHUNK) {
                    unsigned char bytes[CHUNK] = {};
                    for (int e = 0; e < CHUNK / 2; e++) {
                        bool there = true;
                        const unsigned char *element = t.address;
                        for (int k = 0; k < 4; k++) {
                            int64_t c = (int64_t)from[k] + i[k] + (k == 0 ? e : 0);
                            there = there && c >= 0 && c < (int64_t)t.sizes[k];
                            element += c * (int64_t)(k == 0 ? 2 : t.strides[k - 1]);
                        }
                        if (!there) continue;
                        memory_touched(element, 2, false);
                        memcpy(bytes + 2 * e, element, 2);
                    }
                    uint32_t address = t.permutes ? permuted(place) : place;
                    chunk *c = chunk_at(address, "a box");
                    if (c->now == chunk::COMING)
                        fail("a box is copied to address %u, where another one is on its way", address);
                    if (c->reading > 0)
                        fail("a box is copied to address %u, which a product still reads", address);
                    for (int w = 0; w < WARPS_MAX; w++)
                        if (c->read[w] > known->at[w])
                            fail("a box is copied to address %u without having waited until warp %d has read "
                                 "it",
                                 address, w);
                    if (c->now == chunk::THERE && known->at[WARPS_MAX + c->barrier] < c->phase)
                        fail("a box is copied to address %u without having waited for the one before it",
                             address);
                    c->now = chunk::COMING;
                    loaded.places.push_back(address);
                    loaded.bytes.insert(loaded.bytes.end(), bytes, bytes + CHUNK);
                    size_t size;
                    memset(shared_base(&size) + address, 0xff, CHUNK);
                }
    now->boxes.push_back(loaded);
}

bool box_arrives()
{
    if (now == NULL || now->boxes.empty()) return false;
    int which = pick((int)now->boxes.size());
    box arriving = now->boxes[(size_t)which];
    now->boxes.erase(now->boxes.begin() + which);
    barrier *b = &now->barriers[arriving.barrier_at.at];
    size_t size;
    unsigned char *base = shared_base(&size);
    for (size_t i = 0; i < arriving.places.size(); i++) {
        chunk *c = &now->chunks[arriving.places[i] / CHUNK];
        memcpy(base + arriving.places[i], arriving.bytes.data() + i * CHUNK, CHUNK);
        c->now = chunk::THERE;
        c->barrier = b->number;
        c->phase = b->phases + 1;
    }
    b->bytes -= (int64_t)arriving.bytes.size();
    end_phase(b);
    return true;
}

void registers_set(int count, bool more, const char *file, int line)
{
    collective(NULL, nothing, file, line);
    state();
    if (acting() % WARP != 0) return;
    int *own = &now->registers[warp()], wanted = count - *own;
    if (count % 8 != 0 || count < 24 || count > 256) fail("%d registers of a thread", count);
    if (more != (wanted >= 0))
        fail("the number of registers changes from %d to %d, the wrong way", *own, count);
    while (!registers_there(&wanted)) wait_for(registers_there, &wanted, file, line); /* others take, too */
    now->registers_free -= wanted;
    *own = count;
}

void hopper_barrier()
{
    if (now == NULL) return;
    clocks all = {};
    for (int w = 0; w < WARPS_MAX; w++) all.join(now->known[w]);
    for (int w = 0; w < WARPS_MAX; w++) {
        now->known[w] = all;
        now->known[w].at[w]++;
    }
}

void hopper_thread_ends()
{
    if (now == NULL || acting() / WARP >= WARPS_MAX) return;
    group_named();
    if (!now->products[acting() / WARP].empty()) fail("ended with a product that it never waited for");
}

void hopper_block_ends()
{
    if (now == NULL) return;
    if (!now->boxes.empty()) fail("the block ended while %zu boxes were on their way", now->boxes.size());
    for (auto &each : now->barriers)
        if (each.second.bytes != 0 || each.second.missing != each.second.count)
            fail("the block ended in the middle of a barrier's phase: %u arrivals and %ld bytes are missing",
                 each.second.missing, (long)each.second.bytes);
    for (int w = 0; w < WARPS_MAX; w++)
        if (now->registers[w] != now->registers[w / GROUP * GROUP])
            fail("the warps of a warpgroup have different numbers of registers");
    for (int w = 0; w < WARPS_MAX; w++)
        if (now->begun[w] != now->group[w / GROUP].size())
            fail("warp %d has not begun all products of its warpgroup", w);
    delete now;
    now = NULL;
}

} // namespace sim

CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    tensor t = {};
    if (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || rank != 4 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        sim::fail("a tensor map that the simulator does not know: type %d, rank %u", type, rank);
    if ((uintptr_t)address % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < 4; i++) {
        if (sizes[i] == 0 || sizes[i] >> 32 != 0 || box[i] == 0 || box[i] > 256 || steps[i] != 1)
            return CUDA_ERROR_INVALID_VALUE;
        t.sizes[i] = (uint32_t)sizes[i], t.box[i] = box[i];
    }
    for (int i = 0; i < 3; i++) {
        if (strides[i] % 16 != 0 || strides[i] >> 40 != 0 || (i > 0 && strides[i] < strides[i - 1]))
            return CUDA_ERROR_INVALID_VALUE;
        t.strides[i] = strides[i];
    }
    if (box[0] * 2 % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B && box[0] * 2 > 128) return CUDA_ERROR_INVALID_VALUE;
    t.address = (const unsigned char *)address;
    t.permutes = swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
    t.magic = MAGIC;
    memset(out, 0, sizeof *out);
    memcpy(out, &t, sizeof t);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                             unsigned long long, enum cudaDriverEntryPointQueryResult *result)
{
    bool known = strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
    *function = known ? (void *)cuTensorMapEncodeTiled : NULL;
    *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
