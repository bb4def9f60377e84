/* A device's state right now: load, memory and who holds it, power, temperature, clocks and what holds
 * them down. Of a GPU through NVIDIA's management library, which is opened at run time and needs no CUDA
 * context; of the CPU the same of this process and machine. Never touches a device's streams, so it may be
 * read from any one thread while training goes on in another. A sick GPU may never answer: whoever must not
 * wait takes a glance. */
#ifndef ANNEAL_KERNELS_DEVICE_GAUGE_H
#define ANNEAL_KERNELS_DEVICE_GAUGE_H

#include "core/base/err.h"
#include "core/base/record.h"

struct gauge; /* opaque; belongs to one thread */

/* uuid: "GPU-…" as device_info has it; empty: the CPU. STATUS_NOT_FOUND: the library is not there, or does
 * not know the GPU. */
enum status gauge_open(const char *uuid, struct gauge **out, struct err *err);
void gauge_close(struct gauge *gauge); /* NULL is harmless */

/* Fills *out; what the device does not tell is NaN, -1 or "". Rates are over the time since the last reading.
 * Its processes are the gauge's, until the next reading; nothing is allocated. */
void gauge_read(struct gauge *gauge, struct gpu_record *out);

/* The same for a GPU that no gauge can be had of: `gpu` as it is numbered, and of the host its load. */
void gauge_read_host(int gpu, struct gpu_record *out);

enum { GLANCE_SECONDS = 5 }; /* a driver that starts a GPU takes up to some */

/* Opens, reads and closes a gauge in a thread of its own. STATUS_BUSY: a GPU has not answered within
 * `seconds`; the thread is left behind and ends when it is answered, if ever. Of out, processes is an array
 * that is yours to free. */
enum status gauge_glance(const char *uuid, double seconds, struct gpu_record *out, struct err *err);

#endif
