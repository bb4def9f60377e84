/* The simulator's tensor cores and asynchronous copies.
 *
 * A warp's instruction runs when all its lanes have reached it, with the operands that each posted. A product
 * is summed in fp64 and rounded once; a value that ldmatrix reads counts as read by the lane that receives
 * it.
 *
 * A copy reads global memory when it is issued and keeps the bytes until a wait covers its group. Until then
 * the target counts as being written, so any access is a race. After the wait it counts as written by the
 * waiting thread, so other threads need a barrier. */
#include <stdio.h>

#include <vector>

#include "tests/cuda_sim/machine.hh"

#include <tensor_core.h>

namespace {

using sim::WARP;

float bf16(uint32_t word, int high)
{
    return __bfloat162float({(uint16_t)(high ? word >> 16 : word)});
}

/* ---- mma.m16n8k16 ---- */

struct product {
    float *const *d;
    const uint32_t *a, *b;
    const float *c;
};

void multiply(void *const operands[WARP], int)
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < WARP; lane++) {
        const product *p = (const product *)operands[lane];
        int g = lane / 4, c = lane % 4 * 2;
        for (int i = 0; i < 2; i++) {
            a[g][c + i] = bf16(p->a[0], i);
            a[g + 8][c + i] = bf16(p->a[1], i);
            a[g][c + 8 + i] = bf16(p->a[2], i);
            a[g + 8][c + 8 + i] = bf16(p->a[3], i);
            b[c + i][g] = bf16(p->b[0], i);
            b[c + 8 + i][g] = bf16(p->b[1], i);
        }
    }
    for (int lane = 0; lane < WARP; lane++) {
        const product *p = (const product *)operands[lane];
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            double sum = p->c[i];
            for (int k = 0; k < 16; k++) sum += (double)a[row][k] * (double)b[k][column];
            *p->d[i] = (float)sum;
        }
    }
}

/* ---- ldmatrix.x4 ---- */

struct matrices {
    uint32_t *const *f;
    sim::span row;
    bool transposed;
};

void gather(void *const operands[WARP], int thread)
{
    for (int lane = 0; lane < WARP; lane++) {
        const matrices *own = (const matrices *)operands[lane];
        sim::act_as(thread + lane);
        for (int i = 0; i < 4; i++) {
            uint16_t element[2];
            for (int j = 0; j < 2; j++) {
                int row = own->transposed ? lane % 4 * 2 + j : lane / 4;
                int column = own->transposed ? lane / 4 : lane % 4 * 2 + j;
                const sim::span &from = ((const matrices *)operands[i * 8 + row])->row;
                sim::check_read(from.marks + column, from.name, from.index + column);
                memcpy(&element[j], from.at + 2 * column, 2);
            }
            *own->f[i] = (uint32_t)element[0] | (uint32_t)element[1] << 16;
        }
    }
}

/* ---- cp.async ---- */

struct copy {
    sim::span to;
    unsigned char bytes[16];
    int group; /* number within its thread, from 0 */
};

struct copies {
    std::vector<copy> under_way; /* in the order of their groups */
    int groups;                  /* closed ones */
} of_thread[sim::THREADS_MAX];

} // namespace

namespace sim {

void mma_bf16(float *const d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], const char *file,
              int line)
{
    product p = {d, a, b, c};
    collective(&p, multiply, file, line);
}

void matrices_load(uint32_t *const f[4], const span &row, bool transposed, const char *file, int line)
{
    matrices m = {f, row, transposed};
    collective(&m, gather, file, line);
}

void copy_async(const span &to, const void *from, bool there)
{
    copies *mine = &of_thread[acting()];
    copy c = {to, {}, mine->groups};
    if (there && (uintptr_t)from % to.bytes != 0)
        fail("an asynchronous copy from %p, which is not on a boundary of %zu bytes", from, to.bytes);
    if (there) memory_touched(from, to.bytes, false);
    if (there && to.bytes == 16) memcpy(c.bytes, from, 16);
    if (there && to.bytes == 4) memcpy(c.bytes, from, 4);
    for (size_t i = 0; i < to.bytes / MARKED; i++)
        check_copy_begin(to.marks + i, to.name, to.index + (ptrdiff_t)i);
    mine->under_way.push_back(c);
}

void copy_commit()
{
    of_thread[acting()].groups++;
}

void copy_wait(int pending, const char *file, int line)
{
    if (skipped_here(file, line)) return;
    copies *mine = &of_thread[acting()];
    size_t done = 0;
    for (; done < mine->under_way.size() && mine->under_way[done].group < mine->groups - pending; done++) {
        const copy &c = mine->under_way[done];
        memcpy(c.to.at, c.bytes, c.to.bytes);
        for (size_t i = 0; i < c.to.bytes / MARKED; i++)
            check_copy_end(c.to.marks + i, c.to.name, c.to.index + (ptrdiff_t)i);
    }
    mine->under_way.erase(mine->under_way.begin(), mine->under_way.begin() + (ptrdiff_t)done);
}

void copies_end()
{
    copies *mine = &of_thread[acting()];
    if (!mine->under_way.empty()) {
        const span &to = mine->under_way[0].to;
        fail("ended with %zu asynchronous copies that it never waited for, the first to %s[%td]",
             mine->under_way.size(), to.name, to.index);
    }
    mine->groups = 0;
}

} // namespace sim
