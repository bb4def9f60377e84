/* The state of a block that uses the instructions of compute capability 9.0, shared by hopper.cc and
 * hopper_product.cc.
 *
 * Who may read or overwrite a tile is decided by what is known, not by what happened: each warp has a clock
 * for every warp and every barrier, the last of whose events it knows of. A barrier passes on what the warps
 * that arrived knew. A product may read only what was copied in a phase of a barrier whose end its warp
 * knows; a copy may overwrite only what nobody reads any more as far as the copying warp knows. So a wait
 * that is missing is found, whichever order the threads ran in. */
#ifndef ANNEAL_TESTS_CUDA_SIM_HOPPER_HH
#define ANNEAL_TESTS_CUDA_SIM_HOPPER_HH

#include <cuda.h>

#include <map>
#include <vector>

#include "tests/cuda_sim/machine.hh"

#include <ptx.h>

namespace hopper {

using sim::WARP;
enum {
    WARPS_MAX = 12,
    BARRIERS_MAX = 20,
    CLOCKS = WARPS_MAX + BARRIERS_MAX,
    CHUNK = 16, /* bytes: what is permuted as one, and known as one */
    TILES_MAX = (227 << 10) / CHUNK,
    GROUP = 4, /* warps of a warpgroup */
    TX_MOST = (1 << 20) - 1,
    SWIZZLE_128 = 1, /* in a descriptor */
    NAN_WORD = 0x7fc0dead
};

struct clocks {
    uint32_t at[CLOCKS];
    void join(const clocks &other)
    {
        for (int i = 0; i < CLOCKS; i++)
            if (other.at[i] > at[i]) at[i] = other.at[i];
    }
};

struct barrier {
    unsigned count, missing; /* arrivals of a phase, and those yet to come in this one */
    int64_t bytes;           /* that this phase waits for */
    uint32_t phases;         /* that have ended */
    clocks arriving, ended;  /* known to those that arrived so far, and to the end of the last phase */
    int number, maker;       /* the warp that made it */
    uint32_t made;           /* when, by the maker's clock */
    bool ready;              /* known to copies */
};

struct chunk {
    enum { EMPTY, COMING, THERE } now;
    int barrier;    /* its number */
    uint32_t phase; /* after so many of its phases the bytes are there */
    uint32_t read[WARPS_MAX];
    int reading; /* products that have begun and not ended */
};

struct box {
    sim::span barrier_at;         /* of bytes */
    std::vector<uint32_t> places; /* chunks of shared memory */
    std::vector<unsigned char> bytes;
};

/* What the warps of a warpgroup must agree about. */
struct shape {
    uint64_t a_at, b_at;
    size_t columns;            /* of the sums */
    bool add, from_registers;  /* a is in registers */
    bool a_columns, b_columns; /* as columns_operand describes them, not rows_operand */
    bool operator==(const shape &) const = default;
};

struct product {
    shape of;
    bool at_once; /* its sums are there already */
    float *d[WARP];
    const uint32_t *a[WARP];
    uint32_t a_before[WARP][4];
    std::vector<float> d_before[WARP]; /* of the first that is under way with these sums */
    long group;
};

/* Registers one behind another, and their words at some time. */
struct saved {
    uint32_t *at;
    std::vector<uint32_t> words;
    size_t named; /* the first words, whose registers were named since */
};

/* The state of a block; made anew at its first instruction of this kind. */
struct block {
    clocks known[WARPS_MAX];
    std::map<const void *, barrier> barriers;
    std::vector<chunk> chunks;
    std::vector<box> boxes;
    std::vector<product> products[WARPS_MAX]; /* under way, in order */
    std::vector<shape> group[WARPS_MAX / GROUP];
    size_t begun[WARPS_MAX];
    long groups[WARPS_MAX]; /* closed ones */
    /* registers named by the last fence; and since then; those of the products that a wait ended */
    std::vector<saved> fenced[sim::THREADS_MAX], named[sim::THREADS_MAX], ended[sim::THREADS_MAX];
    int registers[WARPS_MAX], registers_free; /* of a thread; of a warp's threads */
};
extern block *now; /* NULL: the block has not used them yet */

block *state(); /* makes it */
int warp();     /* of the running thread */
unsigned char *shared_base(size_t *bytes);
chunk *chunk_at(uint32_t address, const char *who);
/* Where the chunk of this address lies in the mode of 128 bytes. */
uint32_t permuted(uint32_t address);
/* Work of a whole warp that only waits for all its lanes. */
void nothing(void *const operands[WARP], int thread);

} // namespace hopper

namespace sim {

void barrier_init(const span &barrier, unsigned count);
void barriers_ready();
void barrier_arrive(const span &barrier, unsigned bytes);
/* False where it had to wait, as if the time of a try had run out just before the phase ended. Waits are
 * counted as sim_skip_barrier counts barriers, and group_wait's and group_fence's, too. */
bool barrier_wait(const span &barrier, unsigned parity, const char *file, int line);
void box_load(uint32_t to, const CUtensorMap *tensor, const span &barrier, const int (&at)[4]);
void registers_set(int count, bool more, const char *file, int line);

/* A product of a warpgroup, as one thread calls it. */
struct group_product {
    hopper::shape of;
    float *d;
    const uint32_t *a; /* left operand in registers */
    bool at_once;      /* d holds the sums when the call returns: of registers nothing is known */
};
/* Names a register for the next fence, or for the wait before. */
void group_name(uint32_t *at);
/* Fails unless the registers of all products have been named that the thread's last wait ended. */
void group_named();
void group_fence(const char *file, int line);
void group_product_begin(const group_product &product, const char *file, int line);
void group_commit(const char *file, int line);
void group_wait(int pending, const char *file, int line);

} // namespace sim

#endif
