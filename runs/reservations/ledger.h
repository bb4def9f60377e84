/* The ledger of device memory: which process of this host has reserved how much of which device. A process
 * reserves before it allocates, so of two that do not fit together the second is refused before either fails.
 *
 * The queue is first come, first served: while a process waits for a device, later ones cannot reserve any of
 * it, or small runs would keep a large one waiting for ever. Short commands that cannot wait (generating,
 * evaluating) pass the queue where they fit.
 *
 * One SQLite file a host, FOLDER/ledger-<host>.db, as hosts may share a folder. A reservation, and a place in
 * the queue, belong to a process, identified by its number, its start time and the boot it started in. Rows
 * of processes that have ended do not count. */
#ifndef ANNEAL_RUNS_RESERVATIONS_LEDGER_H
#define ANNEAL_RUNS_RESERVATIONS_LEDGER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct ledger; /* opaque; belongs to one thread */

enum { LEDGER_TEXT = 96, LEDGER_HOME = 512, LEDGER_BUSY_MS = 10000 };

/* The device whose memory is the host's. The system shows at any time how much of it a process holds, so the
 * memory of a holder that is still starting and has not reported yet is not counted twice (as to come, and as
 * taken by others). */
#define LEDGER_HOST "cpu"

/* A process's reservation, or its place in the queue. */
struct reservation {
    bool waits;
    int64_t id, pid;
    char device[LEDGER_TEXT]; /* what names the device on this host: LEDGER_HOST, a GPU's UUID */
    char holder[LEDGER_TEXT]; /* what it is for: a run's id */
    int64_t bytes;
    int64_t used;           /* allocated of them, as last reported; of LEDGER_HOST also as the system shows */
    double since;           /* Unix seconds */
    char home[LEDGER_HOME]; /* its process's ANNEAL_HOME; "": not known */
};

/* The memory of a device. */
struct ledger_room {
    const char *device; /* what names it on this host */
    const char *name;   /* what a sentence calls it: "cuda:0" */
    int64_t total;      /* bytes of its memory; 0: unknown, nothing is refused */
    int64_t available;  /* of it, what no process has allocated; 0: unknown */
    double reserve;     /* the share of the total that stays free: 0.05 */
    int64_t taken;      /* of the request, what this process has allocated already: a GPU's context */
    bool passes;        /* a short command that cannot wait: it passes the queue */
};

/* The folder of the ledger. Devices are a host's, not of one ANNEAL_HOME. The first of these that there is:
 *
 *     $ANNEAL_LEDGER     a folder that users of one host may share, and hosts, each with a file
 *     SHM/anneal-UID     (SHM: /dev/shm) of this user alone; only a real folder that nobody else may write
 *     $ANNEAL_HOME       `home`, NULL: there is none; then those of another one are not seen
 *
 * With `create` the second is made where it is missing. STATUS_USAGE: there is none. */
enum status ledger_folder(const char *shm, const char *home, bool create, char folder[PATH_MAX],
                          struct err *err);

/* Creates folder and file where they are missing; whoever may write the folder may write the file. Waits at
 * most so long for another process that keeps the file locked. */
enum status ledger_open(const char *folder, int busy_ms, struct ledger **out, struct err *err);
/* The ledger of this host as one of `home`, which is recorded with what is reserved. Only to look: creates
 * nothing, and *out is NULL where nobody has kept a ledger yet. */
enum status ledger_open_own(const char *home, bool only_look, struct ledger **out, struct err *err);
/* NULL is harmless. Leaves the queue; reservations stay until they are released. */
void ledger_close(struct ledger *ledger);

/* The default share of a device that stays free: of one that other programs use, too (a CPU, a GPU with a
 * screen), or of one that only computes. */
double ledger_auto_reserve(bool shared);

/* The most that could be reserved now; 0 where nothing is left, INT64_MAX where the device's memory is
 * unknown. Without a ledger (NULL) nothing counts as reserved. */
enum status ledger_left(struct ledger *ledger, const struct ledger_room *room, int64_t *left,
                        struct err *err);

/* Reserves for this process. STATUS_BUSY: the request does not fit beside what others hold, reserved or not
 * (the sentence has the numbers and the holders), or an earlier process waits for the device and the room
 * does not say `passes`. STATUS_NO_MEMORY: it would not fit even alone. Without a ledger (NULL) only what is
 * free decides, and nothing is reserved. */
enum status ledger_reserve(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err);
/* Takes a place in the queue for the device, once; it lasts until ledger_reserve succeeds or the ledger is
 * closed. The waiting process calls ledger_reserve again and again. STATUS_BUSY: an earlier process in the
 * queue could never fit beside what this one holds already (a GPU's context). */
enum status ledger_wait(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                        int64_t bytes, struct err *err);
/* Updates how much of a reservation is allocated, and its holder. */
enum status ledger_use(struct ledger *ledger, int64_t id, const char *holder, int64_t used, struct err *err);
enum status ledger_release(struct ledger *ledger, int64_t id, struct err *err);

/* The reservations of living processes, then the queue, both in the order they came; of one device, or of all
 * with NULL. *count of them are yours to free. Without a ledger (NULL) there are none. */
enum status ledger_list(struct ledger *ledger, const char *device, struct reservation **out, size_t *count,
                        struct err *err);

#endif
