/* Shared memory: each element has a mark, of who wrote and read it last and between which barriers. Accesses of
 * two threads, one of which writes, need a barrier between; so does an asynchronous copy before its data are
 * read. machine.hh has the interface, simulator.cc the arrays. */
#include "tests/cuda_sim/machine.hh"

namespace {

using sim::WARP, sim::running, sim::block_begin, sim::block_epoch, sim::warp_epoch;

/* Whether an access in these intervals is ordered before the running thread's next access. */
bool ordered(int thread, uint32_t epoch, uint16_t of_warp)
{
    return thread == running || epoch != block_epoch ||
           (thread / WARP == running / WARP && of_warp != (uint16_t)warp_epoch[running / WARP]);
}

[[noreturn]] void race(const char *name, ptrdiff_t index, int other, const char *what)
{
    uint3 o = sim::index_of(other);
    sim::fail("race on shared memory: %s[%td]: %s thread (%u,%u,%u) without a barrier between", name, index,
              what, o.x, o.y, o.z);
}

[[noreturn]] void under_way(const char *name, ptrdiff_t index, int other, const char *what)
{
    uint3 o = sim::index_of(other);
    sim::fail("race on shared memory: %s[%td]: %s while an asynchronous copy of thread (%u,%u,%u), not yet "
              "waited for, writes it",
              name, index, what, o.x, o.y, o.z);
}

} // namespace

namespace sim {

void check_read(mark *mark, const char *name, ptrdiff_t index)
{
    if (mark->write_epoch < block_begin)
        fail("%s[%td] is read, but no thread of this block wrote it", name, index);
    if (mark->copying) under_way(name, index, mark->writer, "read");
    if (!ordered(mark->writer, mark->write_epoch, mark->write_warp_epoch))
        race(name, index, mark->writer, "read after a write by");
    if (mark->read_epoch != block_epoch)
        mark->other_reader = -1;
    else if (mark->reader != running)
        mark->other_reader = mark->reader;
    mark->reader = (int16_t)running;
    mark->read_epoch = block_epoch;
    mark->read_warp_epoch = (uint16_t)warp_epoch[running / WARP];
}

void check_write(mark *mark, const char *name, ptrdiff_t index)
{
    bool written = mark->write_epoch >= block_begin, read = mark->read_epoch >= block_begin;
    if (written && mark->copying) under_way(name, index, mark->writer, "written");
    if (written && !ordered(mark->writer, mark->write_epoch, mark->write_warp_epoch))
        race(name, index, mark->writer, "written after a write by");
    if (read && !ordered(mark->reader, mark->read_epoch, mark->read_warp_epoch))
        race(name, index, mark->reader, "written after a read by");
    /* for the second reader only the block's barrier is tracked, so a lane of another warp counts */
    if (mark->read_epoch == block_epoch && mark->other_reader >= 0 &&
        mark->other_reader / WARP != running / WARP)
        race(name, index, mark->other_reader, "written after a read by");
    mark->writer = (int16_t)running;
    mark->write_epoch = block_epoch;
    mark->write_warp_epoch = (uint16_t)warp_epoch[running / WARP];
    mark->copying = false;
}

void check_copy_begin(mark *mark, const char *name, ptrdiff_t index)
{
    check_write(mark, name, index);
    mark->copying = true;
}

void check_copy_end(mark *mark, const char *name, ptrdiff_t index)
{
    mark->copying = false;
    check_write(mark, name, index);
}

void misaligned(const char *name, ptrdiff_t index, size_t bytes)
{
    fail("shared memory: %s[%td] does not lie on a boundary of %zu bytes", name, index, bytes);
}

void out_of_range(const char *name, ptrdiff_t index, size_t count)
{
    fail("shared memory out of range: %s[%td] of %zu", name, index, count);
}

} // namespace sim
