/* A device's current state: load, memory and the processes that hold it, power, temperature, clocks and why
 * they are reduced. For a GPU through NVIDIA's management library, which is opened at run time and needs no
 * CUDA context; for the CPU the same values of this process and machine. Never touches a device's streams, so
 * any one thread may read it while another trains. A broken GPU may never answer: callers that must not wait
 * use gauge_glance. */
#ifndef ANNEAL_KERNELS_DEVICE_GAUGE_H
#define ANNEAL_KERNELS_DEVICE_GAUGE_H

#include "core/base/err.h"
#include "core/base/record.h"

struct gauge; /* opaque; belongs to one thread */

/* uuid: "GPU-…" as in device_info; empty: the CPU. STATUS_NOT_FOUND: there is no such library, or it does not
 * know the GPU. */
enum status gauge_open(const char *uuid, struct gauge **out, struct err *err);
void gauge_close(struct gauge *gauge); /* NULL is harmless */

/* Fills *out; unknown values are NaN, -1 or "". Rates are over the time since the last reading. The gauge
 * owns the processes, until its next reading; nothing is allocated. */
void gauge_read(struct gauge *gauge, struct gpu_record *out);

/* For a GPU without a gauge: sets its number `gpu` and the load of the host. */
void gauge_read_host(int gpu, struct gpu_record *out);

enum { GLANCE_SECONDS = 5 }; /* a driver takes a few seconds to start a GPU */

/* Opens, reads and closes a gauge in a separate thread. STATUS_BUSY: a GPU has not answered within `seconds`;
 * the thread stays, and ends when it gets an answer, if ever. The caller frees out->processes. */
enum status gauge_glance(const char *uuid, double seconds, struct gpu_record *out, struct err *err);

#endif
