/* What the pretended machine lacks, and when it fails: where streams are late, when the work runs.
 *
 * A kernel's fault is seen late, as on a GPU: the launch succeeds, does nothing, and the next copy or
 * synchronisation returns the error. From then on the error is sticky, and whoever has been told must not
 * call again: that is a finding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_sim/machine.hh"

namespace {

enum kind { NOTHING, FAULT, LOST, OOM, NO_ROOM, REFUSED };

struct script {
    enum kind kind;
    uint64_t at, seen; /* the at-th launch, download or allocation; so many were there */
    char which[64]; /* only kernels with this in their name, or copies of at least so many bytes; "": all */
};

struct script script;
enum sim_machine now;
cudaError_t sticky = cudaSuccess; /* what the device has failed with */
bool told;                        /* and some call has returned it */
cudaError_t refusal;              /* of the last launch: not sticky, returned once */

/* A device that has failed gives its memory back when the process ends: with the next machine. */
void reset(enum sim_machine machine)
{
    if (sticky != cudaSuccess) sim::streams_release(), sim::memory_release();
    now = machine;
    script = {};
    sticky = refusal = cudaSuccess;
    told = false;
}

bool parse(const char *words)
{
    static const char *const machines[] = {"good",       "no_driver", "old_driver",   "no_device",
                                           "old_device", "full",      "launch_fault", "mixed"};
    static const char *const kinds[] = {"", "fault_at", "lost_at", "oom_at", "no_room_at", "refused_at"};
    char word[32];
    reset(SIM_MACHINE_GOOD);
    for (int i = 0; i < 8; i++)
        if (strcmp(machines[i], words) == 0) {
            now = (enum sim_machine)i;
            return true;
        }
    unsigned long at = 0;
    if (sscanf(words, "%31[a-z_]:%lu:%63s", word, &at, script.which) < 2 || at == 0) return false;
    script.at = at;
    for (int i = FAULT; i <= REFUSED; i++)
        if (strcmp(kinds[i], word) == 0) script.kind = (enum kind)i;
    return script.kind != NOTHING;
}

/* The machine is good until told otherwise: by a test, or, where the simulator is the plugin of a whole
 * process, by the environment. */
struct environment {
    environment()
    {
        const char *words = getenv("ANNEAL_SIM_MACHINE");
        if (words != NULL && !parse(words)) {
            fprintf(stderr, "ANNEAL_SIM_MACHINE=%s: no such machine\n", words);
            abort();
        }
    }
} environment;

bool due(enum kind kind)
{
    return script.kind == kind && ++script.seen == script.at;
}

} // namespace

namespace sim {

enum sim_machine machine()
{
    return now;
}

bool faulted(const char *caller)
{
    if (sticky == cudaSuccess) return false;
    if (told) fail("%s: called after a sticky error had been returned", caller);
    told = true;
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
    if (told) fail("%s: launched after a sticky error had been returned", kernel);
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

cudaError_t last_error(const char *caller)
{
    if (told) faulted(caller);
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

} // namespace sim

extern "C" void sim_set_machine(enum sim_machine machine)
{
    reset(machine);
}

extern "C" void sim_set_fault(const char *words)
{
    if (!parse(words)) sim::fail("sim_set_fault: %s", words);
}
