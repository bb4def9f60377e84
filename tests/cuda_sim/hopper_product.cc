/* Products of a warpgroup: wgmma, its descriptors, and the fences and waits for its registers.
 *
 * A product is computed when its warp waits for it. Until then its sums hold NaN, and its operands must stay
 * as they were. Each warp of the group computes its own 16 rows. */
#include "tests/cuda_sim/hopper.hh"

using namespace hopper;

namespace {

/* The address of a chunk of eight elements of an operand: rows of 16 columns, or 16 rows of columns. */
uint32_t rows_chunk(uint64_t descriptor, int row, int half)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, stride = (uint32_t)(descriptor >> 32 & 0x3fff)
                                                                    << 4;
    return permuted(start + (uint32_t)(row / 8) * stride + (uint32_t)(row % 8) * 128 +
                    (uint32_t)half * CHUNK);
}

uint32_t columns_chunk(uint64_t descriptor, int row, int eight)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4,
             leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
             stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    return permuted(start + (uint32_t)(eight / 8) * leading + (uint32_t)(eight % 8) * CHUNK +
                    (uint32_t)(row / 8) * stride + (uint32_t)(row % 8) * 128);
}

void check_descriptor(uint64_t descriptor, bool columns)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4;
    if (descriptor >> 62 != SWIZZLE_128)
        sim::fail("a descriptor of mode %u: the simulator knows 128 bytes (1)", (unsigned)(descriptor >> 62));
    if (descriptor & ((uint64_t)3 << 14 | (uint64_t)3 << 30 | (uint64_t)0xffff << 46))
        sim::fail("a descriptor %#lx with bits that must be 0", descriptor);
    if (columns ? start % 1024 != 0 : start % 1024 > 96 || start % 32 != 0)
        sim::fail("an operand from address %u: its pattern does not begin on a boundary of 1024 bytes",
                  start);
}

/* Calls visit(address) for each chunk that the warp reads. */
template <typename Visit> void each_chunk(const product &p, int warp, Visit visit)
{
    for (int row = 0; row < 16 && !p.from_registers; row++)
        for (int half = 0; half < 2; half++) visit(rows_chunk(p.a_at, warp % GROUP * 16 + row, half));
    if (p.from_registers)
        for (int row = 0; row < 16; row++)
            for (int eight = 0; eight < (int)p.columns / 8; eight++) visit(columns_chunk(p.b_at, row, eight));
    else
        for (int row = 0; row < (int)p.columns; row++)
            for (int half = 0; half < 2; half++) visit(rows_chunk(p.b_at, row, half));
}

bool under_way(int warp, const float *d)
{
    for (const product &p : now->products[warp])
        if (p.d[0] == d) return true;
    return false;
}

/* Fails unless the thread's last fence named these registers, and they are as they were then. */
void expect_fenced(const void *at, size_t bytes, const char *what)
{
    const unsigned char *from = (const unsigned char *)at;
    for (const saved &s : now->fenced[sim::acting()])
        if (from >= s.at && from + bytes <= s.at + s.bytes.size()) {
            if (memcmp(from, s.bytes.data() + (from - s.at), bytes) != 0)
                sim::fail("%s of a product was changed after group_fence", what);
            return;
        }
    sim::fail("%s of a product is not named by the last group_fence", what);
}

void poison(float *d, size_t n)
{
    uint32_t word = NAN_WORD;
    for (size_t i = 0; i < n; i++) memcpy(d + i, &word, sizeof word);
}

void begin(void *const operands[WARP], int thread)
{
    const sim::group_product *first = (const sim::group_product *)operands[0];
    product p = {};
    int w = thread / WARP;
    state();
    p.a_at = first->a_at, p.b_at = first->b_at, p.columns = first->columns, p.add = first->add;
    p.from_registers = first->a != NULL;
    p.group = now->groups[w];
    sim::act_as(thread);
    warp();
    if (!p.from_registers) check_descriptor(p.a_at, false);
    check_descriptor(p.b_at, p.from_registers);

    bool chained = under_way(w, first->d);
    for (int lane = 0; lane < WARP; lane++) {
        const sim::group_product *own = (const sim::group_product *)operands[lane];
        sim::act_as(thread + lane);
        if (own->a_at != p.a_at || own->b_at != p.b_at || own->add != p.add || own->columns != p.columns)
            sim::fail("a product of a warpgroup whose lanes have different operands");
        p.d[lane] = own->d, p.a[lane] = own->a;
        if (p.from_registers) {
            expect_fenced(own->a, sizeof p.a_before[lane], "the left operand");
            memcpy(p.a_before[lane], own->a, sizeof p.a_before[lane]);
        }
        size_t sums = p.columns / 2; /* of a lane: 64 rows, 128 lanes */
        if (chained) continue;
        expect_fenced(own->d, sums * sizeof *own->d, "the sum");
        p.d_before[lane].assign(own->d, own->d + sums);
        poison(own->d, sums);
    }
    sim::act_as(thread);

    shape of = {p.a_at, p.b_at, p.columns, p.add, p.from_registers};
    std::vector<shape> *group = &now->group[w / GROUP];
    size_t at = now->begun[w]++;
    if (at == group->size())
        group->push_back(of);
    else if (!((*group)[at] == of))
        sim::fail("the warps of a warpgroup begin different products");

    each_chunk(p, w, [&](uint32_t address) {
        chunk *c = chunk_at(address, "a product");
        if (c->now == chunk::EMPTY)
            sim::fail("a product reads address %u, to which nothing was copied", address);
        if (c->now == chunk::COMING || now->known[w].at[WARPS_MAX + c->barrier] < c->phase)
            sim::fail("a product reads address %u without having waited for the barrier of its copy",
                      address);
        c->reading++;
    });
    now->products[w].push_back(p);
}

float element(uint32_t chunk, int i)
{
    size_t bytes;
    uint16_t bits;
    memcpy(&bits, shared_base(&bytes) + chunk + 2 * i, 2);
    return __bfloat162float({bits});
}

/* Computes a product whose sums hold their values. */
void multiply(const product &p, int w)
{
    static float a[16][16], b[16][256];
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++) {
            if (!p.from_registers) {
                a[row][k] = element(rows_chunk(p.a_at, w % GROUP * 16 + row, k / 8), k % 8);
                continue;
            }
            int lane = row % 8 * 4 + k % 8 / 2;
            uint32_t word = p.a[lane][row / 8 + k / 8 * 2];
            a[row][k] = __bfloat162float({(uint16_t)(k % 2 ? word >> 16 : word)});
        }
    for (int k = 0; k < 16; k++)
        for (int column = 0; column < (int)p.columns; column++)
            b[k][column] = p.from_registers ? element(columns_chunk(p.b_at, k, column / 8), column % 8)
                                            : element(rows_chunk(p.b_at, column, k / 8), k % 8);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < (int)p.columns; column++) {
            float *d = p.d[row % 8 * 4 + column % 8 / 2] + column / 8 * 4 + row / 8 * 2 + column % 2;
            double sum = p.add ? *d : 0;
            for (int k = 0; k < 16; k++) sum += (double)a[row][k] * (double)b[k][column];
            *d = (float)sum;
        }
}

void finish(product *p, int w)
{
    size_t sums = p->columns / 2;
    for (int lane = 0; lane < WARP; lane++) {
        sim::act_as(w * WARP + lane);
        for (size_t i = 0; i < sums; i++) {
            uint32_t word;
            memcpy(&word, p->d[lane] + i, sizeof word);
            if (word != NAN_WORD) sim::fail("the sum of a product was changed before group_wait");
            p->d[lane][i] = p->d_before[lane][i];
        }
        if (p->from_registers && memcmp(p->a[lane], p->a_before[lane], sizeof p->a_before[lane]) != 0)
            sim::fail("the left operand of a product was changed before group_wait");
    }
    sim::act_as(w * WARP);
    multiply(*p, w);
    each_chunk(*p, w, [&](uint32_t address) {
        chunk *c = chunk_at(address, "a product");
        c->reading--;
        c->read[w] = now->known[w].at[w];
    });
}

struct wait_operands {
    int pending;
    const sim::registers *list;
    size_t count;
};

void finish_groups(void *const operands[WARP], int thread)
{
    int w = thread / WARP, pending = ((const wait_operands *)operands[0])->pending;
    std::vector<product> *all = &state()->products[w];
    while (!all->empty() && all->front().group < now->groups[w] - pending) {
        product p = all->front();
        all->erase(all->begin());
        finish(&p, w);
        product *next = NULL;
        for (product &other : *all)
            if (next == NULL && other.d[0] == p.d[0]) next = &other;
        for (int lane = 0; lane < WARP; lane++) {
            const wait_operands *own = (const wait_operands *)operands[lane];
            sim::act_as(thread + lane);
            if (next != NULL) {
                next->d_before[lane].assign(p.d[lane], p.d[lane] + p.columns / 2);
                poison(p.d[lane], p.columns / 2);
                continue;
            }
            bool named = false;
            for (size_t i = 0; i < own->count; i++) named = named || own->list[i].at == p.d[lane];
            if (!named) sim::fail("group_wait does not name the sum of a product that it ends");
        }
    }
    sim::act_as(thread);
}

} // namespace

namespace sim {

void group_fence(const registers *list, size_t count, const char *file, int line)
{
    if (!skipped_here(file, line)) {
        std::vector<saved> *fenced = &state()->fenced[acting()];
        fenced->clear();
        for (size_t i = 0; i < count; i++) {
            unsigned char *at = (unsigned char *)list[i].at;
            fenced->push_back({at, std::vector<unsigned char>(at, at + list[i].bytes)});
        }
    }
    collective(NULL, nothing, file, line);
}

void group_product_begin(const group_product &product, const char *file, int line)
{
    sim::group_product own = product;
    state();
    collective(&own, begin, file, line);
}

void group_commit(const char *file, int line)
{
    collective(
        NULL, [](void *const[WARP], int thread) { state()->groups[thread / WARP]++; }, file, line);
}

void group_wait(int pending, const registers *list, size_t count, const char *file, int line)
{
    wait_operands own = {pending, list, count};
    if (skipped_here(file, line)) return;
    collective(&own, finish_groups, file, line);
}

} // namespace sim
