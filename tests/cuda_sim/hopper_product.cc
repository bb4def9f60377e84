/* Products of a warpgroup: wgmma, its descriptors, and the fences and waits for its registers.
 *
 * A product is computed when its warp waits for it, and its sums hold NaN until their registers are named
 * after that; until the wait, its operands must stay as they were. One of a compiled kernel, whose registers have
 * no names, is computed at once, and reads shared memory until the wait all the same. Each warp of the group
 * computes its own 16 rows. */
#include "tests/cuda_sim/hopper.hh"

#include <cuda_bf16.h>

using namespace hopper;

namespace {

/* Where element (row, k) of an operand lies, k below 16: it is element `at` of a chunk. */
struct element_place {
    uint32_t chunk;
    int at;
};

/* A line of 128 bytes holds all k of a row, or, in an operand of columns, one k of 64 rows. */
element_place place_of(uint64_t descriptor, bool columns, int row, int k)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4,
             leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
             stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    uint32_t line = (uint32_t)(columns ? k : row), at = (uint32_t)(columns ? row : k);
    return {permuted(start + line / 8 * stride + line % 8 * 128 + at / 64 * leading + at % 64 / 8 * CHUNK),
            (int)at % 8};
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

/* Calls visit(address) for each chunk of these rows. */
template <typename Visit>
void chunks_of(uint64_t descriptor, bool columns, int row, int end, const Visit &visit)
{
    for (; row < end; row += columns ? 8 : 1)
        for (int k = 0; k < 16; k += columns ? 1 : 8) visit(place_of(descriptor, columns, row, k).chunk);
}

/* For each chunk that the warp reads. */
template <typename Visit> void each_chunk(const shape &p, int warp, const Visit &visit)
{
    int row = warp % GROUP * 16;
    if (!p.from_registers) chunks_of(p.a_at, p.a_columns, row, row + 16, visit);
    chunks_of(p.b_at, p.b_columns, 0, (int)p.columns, visit);
}

bool under_way(int warp, const float *d)
{
    for (const product &p : now->products[warp])
        if (p.d[0] == d) return true;
    return false;
}

/* Fails unless the thread's last fence named these registers, and they are as they were then. */
void expect_fenced(const void *at, size_t words, const char *what)
{
    const uint32_t *from = (const uint32_t *)at;
    for (const saved &s : now->fenced[sim::acting()])
        if (from >= s.at && from + words <= s.at + s.words.size()) {
            if (memcmp(from, s.words.data() + (from - s.at), 4 * words) != 0)
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

float element(element_place of)
{
    size_t bytes;
    uint16_t bits;
    memcpy(&bits, shared_base(&bytes) + of.chunk + 2 * of.at, 2);
    return __bfloat162float({bits});
}

/* Computes a product whose sums hold their values. */
void multiply(const product &p, int w)
{
    static float a[16][16], b[16][256];
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++) {
            if (!p.of.from_registers) {
                a[row][k] = element(place_of(p.of.a_at, p.of.a_columns, w % GROUP * 16 + row, k));
                continue;
            }
            int lane = row % 8 * 4 + k % 8 / 2;
            uint32_t word = p.a[lane][row / 8 + k / 8 * 2];
            a[row][k] = __bfloat162float({(uint16_t)(k % 2 ? word >> 16 : word)});
        }
    for (int k = 0; k < 16; k++)
        for (int column = 0; column < (int)p.of.columns; column++)
            b[k][column] = element(place_of(p.of.b_at, p.of.b_columns, column, k));
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < (int)p.of.columns; column++) {
            float *d = p.d[row % 8 * 4 + column % 8 / 2] + column / 8 * 4 + row / 8 * 2 + column % 2;
            double sum = p.of.add ? *d : 0;
            for (int k = 0; k < 16; k++) sum += (double)a[row][k] * (double)b[k][column];
            *d = (float)sum;
        }
}

void begin(void *const operands[WARP], int thread)
{
    const sim::group_product *first = (const sim::group_product *)operands[0];
    product p = {};
    int w = thread / WARP;
    state();
    p.of = first->of;
    p.at_once = first->at_once;
    p.group = now->groups[w];
    sim::act_as(thread);
    warp();
    if (!p.of.from_registers) check_descriptor(p.of.a_at, p.of.a_columns);
    check_descriptor(p.of.b_at, p.of.b_columns);

    bool chained = !p.at_once && under_way(w, first->d);
    for (int lane = 0; lane < WARP; lane++) {
        const sim::group_product *own = (const sim::group_product *)operands[lane];
        sim::act_as(thread + lane);
        if (!(own->of == p.of)) sim::fail("a product of a warpgroup whose lanes have different operands");
        p.d[lane] = own->d, p.a[lane] = own->a;
        if (p.at_once) continue;
        if (p.of.from_registers) {
            expect_fenced(own->a, 4, "the left operand");
            memcpy(p.a_before[lane], own->a, sizeof p.a_before[lane]);
        }
        size_t sums = p.of.columns / 2; /* of a lane: 64 rows, 128 lanes */
        if (chained) continue;
        expect_fenced(own->d, sums, "the sum");
        p.d_before[lane].assign(own->d, own->d + sums);
        poison(own->d, sums);
    }
    sim::act_as(thread);

    std::vector<shape> *group = &now->group[w / GROUP];
    size_t at = now->begun[w]++;
    if (at == group->size())
        group->push_back(p.of);
    else if (!((*group)[at] == p.of))
        sim::fail("the warps of a warpgroup begin different products");

    each_chunk(p.of, w, [&](uint32_t address) {
        chunk *c = chunk_at(address, "a product");
        if (c->now == chunk::EMPTY)
            sim::fail("a product reads address %u, to which nothing was copied", address);
        if (c->now == chunk::COMING || now->known[w].at[WARPS_MAX + c->barrier] < c->phase)
            sim::fail("a product reads address %u without having waited for the barrier of its copy",
                      address);
        c->reading++;
    });
    if (p.at_once) multiply(p, w);
    now->products[w].push_back(p);
}

void finish(product *p, int w)
{
    size_t sums = p->of.columns / 2;
    for (int lane = 0; lane < WARP && !p->at_once; lane++) {
        sim::act_as(w * WARP + lane);
        for (size_t i = 0; i < sums; i++) {
            uint32_t word;
            memcpy(&word, p->d[lane] + i, sizeof word);
            if (word != NAN_WORD) sim::fail("the sum of a product was changed before group_wait");
            p->d[lane][i] = p->d_before[lane][i];
        }
        if (p->of.from_registers && memcmp(p->a[lane], p->a_before[lane], sizeof p->a_before[lane]) != 0)
            sim::fail("the left operand of a product was changed before group_wait");
    }
    sim::act_as(w * WARP);
    if (!p->at_once) multiply(*p, w);
    each_chunk(p->of, w, [&](uint32_t address) {
        chunk *c = chunk_at(address, "a product");
        c->reading--;
        c->read[w] = now->known[w].at[w];
    });
}

void finish_groups(void *const operands[WARP], int thread)
{
    int w = thread / WARP, pending = *(const int *)operands[0];
    std::vector<product> *all = &state()->products[w];
    while (!all->empty() && all->front().group < now->groups[w] - pending) {
        product p = all->front();
        all->erase(all->begin());
        finish(&p, w);
        if (p.at_once) continue;
        product *next = NULL;
        for (product &other : *all)
            if (next == NULL && other.d[0] == p.d[0]) next = &other;
        for (int lane = 0; lane < WARP; lane++) {
            float *d = p.d[lane];
            size_t sums = p.of.columns / 2;
            saved s = {(uint32_t *)d, std::vector<uint32_t>(sums), 0};
            memcpy(s.words.data(), d, sums * sizeof *d);
            if (next != NULL)
                next->d_before[lane].assign(d, d + sums);
            else
                now->ended[thread + lane].push_back(s);
            if (p.of.from_registers)
                now->ended[thread + lane].push_back(
                    {(uint32_t *)p.a[lane], {p.a_before[lane], p.a_before[lane] + 4}, 0});
            poison(d, sums);
        }
    }
    sim::act_as(thread);
}

} // namespace

namespace sim {

void group_name(uint32_t *at)
{
    block *b = state();
    bool ended = false;
    for (saved &s : b->ended[acting()])
        if (s.named < s.words.size() && at == s.at + s.named) {
            memcpy(at, &s.words[s.named++], sizeof *at);
            ended = true;
        }
    if (ended) return;
    std::vector<saved> *named = &b->named[acting()];
    if (named->empty() || at != named->back().at + named->back().words.size()) named->push_back({at, {}, 0});
    uint32_t word;
    memcpy(&word, at, sizeof word);
    named->back().words.push_back(word);
}

void group_named()
{
    if (now == NULL) return;
    for (const saved &s : now->ended[acting()])
        if (s.named < s.words.size())
            fail("group_wait does not name all registers of a product that it ends");
    now->ended[acting()].clear();
}

void group_fence(const char *file, int line)
{
    std::vector<saved> named;
    named.swap(state()->named[acting()]);
    if (!skipped_here(file, line)) now->fenced[acting()].swap(named);
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

void group_wait(int pending, const char *file, int line)
{
    if (!skipped_here(file, line)) collective(&pending, finish_groups, file, line);
}

} // namespace sim
