/* One reading of a device's gauge for who cannot wait for a GPU that hangs. */
#ifndef ANNEAL_KERNELS_DEVICE_GLANCE_H
#define ANNEAL_KERNELS_DEVICE_GLANCE_H

#include "core/base/err.h"
#include "core/base/record.h"

enum { GLANCE_SECONDS = 5 }; /* a driver that starts a GPU takes up to some */

/* Opens, reads and closes a gauge (see gauge.h, also for uuid) in a thread of its own. STATUS_BUSY: a GPU has
 * not answered within `seconds`; the thread is left behind and ends when it is answered, if ever. Of out,
 * processes is an array that is yours to free. */
enum status glance_take(const char *uuid, double seconds, struct gpu_record *out, struct err *err);

#endif
