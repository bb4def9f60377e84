/* See world.h. */
#include "kernels/device/world.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/file.h"

enum { MESSAGE = 1 << 24, SUM_PIECE = 16 }; /* bytes; values */

const struct world *world_of_one(void)
{
    static const struct world one = {.size = 1, .local_size = 1};
    return &one;
}

/* ---- opening ---- */

int world_launched(void)
{
    /* Open MPI, launchers with PMI, Slurm */
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && atoi(size) > 0) return atoi(size);
    }
    return getenv("PMIX_RANK") ? 0 : 1;
}

enum status world_plugin(char path[PATH_MAX], struct err *err)
{
    const char *wish = getenv("ANNEAL_MPI_PLUGIN");
    enum status status = wish && *wish ? file_format_path(path, PATH_MAX, err, "%s", wish)
                                       : file_of_program("anneal_mpi.so", path, PATH_MAX, err);
    if (status || file_exists(path)) return status;
    return err_set(err, STATUS_NOT_FOUND,
                   "several ranks need the MPI plugin, and %s is missing (build it where mpicc is: apt "
                   "install libopenmpi-dev openmpi-bin, then make MPI=1)",
                   path);
}

static enum status open_plugin(const struct mpi_plugin **out, struct err *err)
{
    char path[PATH_MAX];
    enum status status = world_plugin(path, err);
    if (status) return status;
    /* parts that MPI loads itself look for its symbols among the global ones */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return err_set(
            err, STATUS_FAILED,
            "the MPI plugin cannot be loaded: %s (install the MPI that it was built with: apt install "
            "openmpi-bin)",
            dlerror());
    const struct mpi_plugin *plugin = dlsym(library, "mpi_plugin");
    if (!plugin || plugin->plugin_bytes != sizeof *plugin || plugin->world_bytes != sizeof(struct world))
        return err_set(err, STATUS_FAILED,
                       "%s belongs to another build of anneal (build and install both together)", path);
    *out = plugin;
    return STATUS_OK;
}

/* The plugin stays loaded until the process ends. */
struct opened {
    struct world world; /* first: callers have its address */
    const struct mpi_plugin *plugin;
    struct world_watched watched;
    bool watches;
};

enum status world_open(const struct world **out, struct err *err)
{
    const struct mpi_plugin *plugin;
    int launched = world_launched();
    *out = world_of_one();
    if (launched == 1) return STATUS_OK;
    enum status status = open_plugin(&plugin, err);
    if (status) return status;
    struct opened *opened = calloc(1, sizeof *opened);
    if (!opened) return err_no_memory(err, "the world");
    opened->plugin = plugin;
    const char *failure = plugin->open(&opened->world);
    if (failure) {
        free(opened);
        return err_set(err, STATUS_FAILED, "MPI: %s", failure);
    }
    pthread_mutex_init(&opened->watched.lock, NULL);
    opened->world.watched = &opened->watched;
    *out = &opened->world;
    if (launched && opened->world.size != launched)
        return err_set(
            err, STATUS_FAILED,
            "%d processes were started together, but MPI knows of %d (start them with the mpirun of the "
            "MPI that anneal was built with, or srun --mpi=pmix)",
            launched, opened->world.size);
    return STATUS_OK;
}

void world_watch(const struct world *world, double seconds, world_lost *lost, void *context)
{
    struct opened *opened = (struct opened *)world;
    if (world->size == 1 || opened->watches) return;
    opened->watches = true;
    opened->plugin->watch(&opened->world, seconds, lost, context);
}

void world_also_watch(const struct world *world, world_failure *failure, void *context)
{
    struct world_watched *w = world->watched;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->failure = failure;
    w->context = context;
    pthread_mutex_unlock(&w->lock);
}

void world_close(const struct world *world)
{
    if (!world || world == world_of_one()) return;
    struct opened *opened = (struct opened *)world;
    opened->plugin->close(&opened->world);
    free(opened);
}

/* ---- exchanging ---- */

uint64_t world_sent(const struct world *world)
{
    uint64_t sent = world->meter ? __atomic_load_n(&world->meter->sent, __ATOMIC_RELAXED) : 0;
    return world->beside ? sent + world_sent(world->beside) : sent;
}

double world_waited(const struct world *world)
{
    return world->meter ? 1e-9 * (double)__atomic_load_n(&world->meter->waited, __ATOMIC_RELAXED) : 0;
}

static void share_from(const struct world *world, int root, void *memory, size_t bytes)
{
    struct world_piece send[WORLD_RANKS_MAX], receive[WORLD_RANKS_MAX];
    for (int r = 0; r < world->size; r++) {
        send[r] = (struct world_piece){memory, world->rank == root ? bytes : 0};
        receive[r] = (struct world_piece){memory, r == root ? bytes : 0};
    }
    world->exchange(world, send, receive);
}

void world_send(const struct world *world, int from, int to, void *memory, size_t bytes)
{
    struct world_piece send[WORLD_RANKS_MAX] = {0}, receive[WORLD_RANKS_MAX] = {0}, piece = {memory, bytes};
    if (world->rank == from) send[to] = piece;
    if (world->rank == to) receive[from] = piece;
    world->exchange(world, send, receive);
}

void world_share(const struct world *world, void *memory, size_t bytes)
{
    for (size_t at = 0; world->size > 1 && at < bytes; at += MESSAGE)
        share_from(world, 0, (char *)memory + at, bytes - at < MESSAGE ? bytes - at : MESSAGE);
}

void world_gather(const struct world *world, void *all, size_t bytes)
{
    struct world_piece send[WORLD_RANKS_MAX], receive[WORLD_RANKS_MAX];
    if (world->size == 1) return;
    for (int r = 0; r < world->size; r++) {
        send[r] = (struct world_piece){(char *)all + (size_t)world->rank * bytes, bytes};
        receive[r] = (struct world_piece){(char *)all + (size_t)r * bytes, bytes};
    }
    world->exchange(world, send, receive);
}

enum status world_agree(const struct world *world, enum status status, struct err *err)
{
    int all[WORLD_RANKS_MAX] = {0}, r = 0;
    struct err first = {0};
    if (world->size == 1) return status;
    all[world->rank] = (int)status;
    world_gather(world, all, sizeof *all);
    while (r + 1 < world->size && !all[r]) r++;
    if (!all[r]) return STATUS_OK;
    if (r == world->rank) first = *err;
    share_from(world, r, &first, sizeof first);
    if (r)
        err_set(err, (enum status)all[r], "rank %d on %s: %.400s", r, world->hosts[r], first.text);
    else
        *err = first;
    err->system = first.system;
    return err->status = (enum status)all[r];
}

void world_sum(const struct world *world, double *values, size_t count)
{
    double all[WORLD_RANKS_MAX][SUM_PIECE];
    for (size_t at = 0; world->size > 1 && at < count; at += SUM_PIECE) {
        size_t n = count - at < SUM_PIECE ? count - at : SUM_PIECE;
        for (size_t i = 0; i < n; i++) all[world->rank][i] = values[at + i];
        world_gather(world, all, sizeof *all);
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (int r = 0; r < world->size; r++) sum += all[r][i];
            values[at + i] = sum;
        }
    }
}
