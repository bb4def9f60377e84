/* The faults of the simulated machine. With late streams, work fails when it runs, not when it is queued.
 *
 * A kernel's fault is reported late, as on a GPU: the launch succeeds, does nothing, and the next copy or
 * synchronisation returns the error. From then on the error is sticky, and a caller that has received it must
 * not call again: that is a finding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_sim/machine.hh"

namespace {

enum kind { NOTHING, FAULT, LOST, OOM, NO_ROOM, REFUSED, BROKEN };

struct script {
    enum kind kind;
    uint64_t at, seen; /* the at-th launch, download or allocation fails; number so far */
    char which[64]; /* only kernels with this in their name, or copies of at least so many bytes; "": all */
};

struct script script;
enum sim_machine now;
cudaError_t sticky = cudaSuccess; /* the error of the failed device */
bool returned;                    /* a call has returned it */
cudaError_t refusal;              /* of the last launch: not sticky, returned once */
int gpu_count = 1, faulty = -1;   /* faulty: only this one has the script's fault; -1: any */
int used;                         /* GPU of this process */
/* "8.9" */
int capability_wanted()
{
    const char *wanted = getenv("ANNEAL_SIM_CAPABILITY");
    return wanted == NULL ? 90 : (int)(10 * atof(wanted) + 0.5);
}
int compute_capability = capability_wanted();

/* A failed device keeps its memory until the process ends; here, until the next machine is set. */
void reset(enum sim_machine machine)
{
    if (sticky != cudaSuccess) sim::streams_release(), sim::memory_release();
    now = machine;
    script = {};
    sticky = refusal = cudaSuccess;
    returned = false;
}

bool parse(const char *words)
{
    static const char *const machines[] = {"good", "no_driver",    "old_driver", "no_device", "old_device",
                                           "full", "launch_fault", "mixed",      "new_device"};
    static const char *const kinds[] = {"",           "fault_at",   "lost_at",  "oom_at",
                                        "no_room_at", "refused_at", "broken_at"};
    char word[32];
    reset(SIM_MACHINE_GOOD);
    for (int i = 0; i <= SIM_MACHINE_NEW_DEVICE; i++)
        if (strcmp(machines[i], words) == 0) {
            now = (enum sim_machine)i;
            return true;
        }
    if (strcmp(words, "no_cupti") == 0) {
        sim_set_cupti(false, 0);
        return true;
    }
    unsigned long at = 0;
    if (sscanf(words, "%31[a-z_]:%lu:%63s", word, &at, script.which) < 2 || at == 0) return false;
    script.at = at;
    for (int i = FAULT; i <= BROKEN; i++)
        if (strcmp(kinds[i], word) == 0) script.kind = (enum kind)i;
    return script.kind != NOTHING;
}

/* The machine is good until a test sets another one or, if the simulator is the plugin of a whole process,
 * the environment does. */
struct environment {
    environment()
    {
        const char *words = getenv("ANNEAL_SIM_MACHINE");
        if (words != NULL && !parse(words)) {
            fprintf(stderr, "ANNEAL_SIM_MACHINE=%s: no such machine\n", words);
            abort();
        }
        const char *gpus = getenv("ANNEAL_SIM_GPUS");
        if (gpus != NULL && sscanf(gpus, "%d:%d", &gpu_count, &faulty) < 1) abort();
    }
} environment;

bool due(enum kind kind)
{
    return script.kind == kind && (faulty < 0 || faulty == used) && ++script.seen == script.at;
}

} // namespace

namespace sim {

enum sim_machine machine()
{
    return now;
}

int gpus()
{
    return gpu_count;
}

void use_gpu(int device)
{
    used = device;
}

bool faulted(const char *caller)
{
    if (sticky == cudaSuccess) return false;
    if (returned) fail("%s: called after a sticky error had been returned", caller);
    returned = true;
    return true;
}

cudaError_t sticky_error()
{
    return sticky;
}

bool device_failed()
{
    return sticky != cudaSuccess;
}

bool launch_taken(const char *kernel)
{
    if (returned) fail("%s: launched after a sticky error had been returned", kernel);
    if (strstr(kernel, script.which) != NULL && due(NO_ROOM)) refusal = cudaErrorMemoryAllocation;
    return refusal == cudaSuccess;
}

bool launch_runs(const char *kernel)
{
    if (sticky != cudaSuccess) return false;
    if (now == SIM_MACHINE_LAUNCH_FAULT) sticky = cudaErrorLaunchFailure;
    if (strstr(kernel, script.which) != NULL && due(FAULT)) sticky = cudaErrorLaunchFailure;
    return sticky == cudaSuccess;
}

bool product_refused()
{
    return due(REFUSED);
}

bool product_broken()
{
    return due(BROKEN);
}

cudaError_t last_error(const char *caller)
{
    if (returned) faulted(caller);
    cudaError_t error = refusal;
    refusal = cudaSuccess;
    return error;
}

void download_begins(size_t bytes)
{
    if (bytes >= strtoull(script.which, NULL, 10) && due(LOST)) sticky = cudaErrorDevicesUnavailable;
}

bool allocation_fails()
{
    return now == SIM_MACHINE_FULL || due(OOM);
}

int capability()
{
    return compute_capability;
}

} // namespace sim

extern "C" void sim_set_machine(enum sim_machine machine)
{
    reset(machine);
}

extern "C" void sim_set_gpus(int count)
{
    gpu_count = count;
}

extern "C" void sim_set_capability(int major, int minor)
{
    compute_capability = 10 * major + minor;
}

extern "C" void sim_set_fault(const char *words)
{
    if (!parse(words)) sim::fail("sim_set_fault: %s", words);
}
