/* The ledger of device memory: how much of each device each process of this host has reserved. A process
 * reserves before it allocates, so if two do not fit together, the second is refused before either fails.
 *
 * The queue is first come, first served: while a process waits for a device, later ones cannot reserve any of
 * it. Otherwise small runs would keep a large one waiting for ever. Short commands that cannot wait
 * (generating, evaluating) pass the queue if they fit.
 *
 * There is one SQLite file per host, FOLDER/ledger-<host>.db, as hosts may share a folder. A reservation or a
 * place in the queue belongs to a process, identified by its number, its start time and the boot. Rows of
 * ended processes do not count. */
#ifndef ANNEAL_RUNS_RESERVATIONS_LEDGER_H
#define ANNEAL_RUNS_RESERVATIONS_LEDGER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct ledger; /* opaque; belongs to one thread */

enum { LEDGER_TEXT = 144, LEDGER_HOME = 512, LEDGER_BUSY_MS = 10000 };

/* The device whose memory is the host's. The system reports how much of it each process holds, so a process
 * that has allocated but not yet reported its memory is not counted twice. */
#define LEDGER_HOST "cpu"

/* A process's reservation, or its place in the queue. */
struct reservation {
    bool waits;
    int64_t id, pid;
    char device[LEDGER_TEXT]; /* id of the device on this host: LEDGER_HOST or a GPU's UUID */
    char holder[LEDGER_TEXT]; /* the purpose: a run's id, or "ID (qlora)" */
    int64_t bytes;
    int64_t used; /* allocated of these, as last reported; for LEDGER_HOST also as the system reports */
    double since; /* Unix seconds */
    char home[LEDGER_HOME]; /* ANNEAL_HOME of the process; "": not known */
};

/* The memory of a device. */
struct ledger_room {
    const char *device; /* its id on this host */
    const char *name;   /* its name in messages: "cuda:0" */
    int64_t total;      /* bytes of its memory; 0: unknown, every request is granted */
    int64_t available;  /* bytes that no process has allocated; 0: unknown */
    double reserve;     /* the share of the total that stays free: 0.05 */
    int64_t taken;      /* bytes of the request that this process has already allocated: a GPU's context */
    bool passes;        /* a short command that cannot wait: it passes the queue */
};

/* Finds the folder of the ledger. Devices belong to a host, not to one ANNEAL_HOME. The first of these that
 * exists:
 *
 *     $ANNEAL_LEDGER     a folder that users or hosts may share; each host has its file
 *     SHM/anneal-UID     (SHM: /dev/shm) a real folder that only this user can write to
 *     $ANNEAL_HOME       `home`, NULL: none; reservations of other homes are then not seen
 *
 * With `create` the second is created if it is missing. STATUS_USAGE: none exists. */
enum status ledger_folder(const char *shm, const char *home, bool create, char folder[PATH_MAX],
                          struct err *err);

/* Creates folder and file if they are missing; users who may write to the folder may write to the file. Waits
 * at most `busy_ms` for another process that keeps the file locked. */
enum status ledger_open(const char *folder, int busy_ms, struct ledger **out, struct err *err);
/* Opens the ledger of this host for a process of `home`, which is recorded with its reservations. With
 * `only_look` it creates nothing, and *out is NULL if there is no ledger yet. */
enum status ledger_open_own(const char *home, bool only_look, struct ledger **out, struct err *err);
/* Leaves the queue; reservations stay until they are released. NULL is harmless. */
void ledger_close(struct ledger *ledger);

/* The default share of a device to keep free. `shared`: other programs use it too (a CPU, a GPU with a
 * screen). */
double ledger_auto_reserve(bool shared);

/* Computes how many bytes could be reserved now; 0 if nothing is left, INT64_MAX if the device's memory is
 * unknown. Without a ledger (NULL) nothing counts as reserved. */
enum status ledger_left(struct ledger *ledger, const struct ledger_room *room, int64_t *left,
                        struct err *err);

/* Reserves memory for this process. STATUS_BUSY: the request does not fit into the memory that others leave,
 * reserved or not (the message has the numbers and the holders), or an earlier process waits for the device
 * and `passes` is false. STATUS_NO_MEMORY: it would not fit even on an empty device. Without a ledger (NULL)
 * only the free memory is checked, and nothing is reserved. */
enum status ledger_reserve(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err);
/* Queues this process for the device, once; its place lasts until ledger_reserve succeeds or the ledger is
 * closed. The waiting process retries ledger_reserve. STATUS_BUSY: an earlier process in the queue could
 * never fit while this one keeps the memory it already holds (a GPU's context). */
enum status ledger_wait(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                        int64_t bytes, struct err *err);
/* Updates the allocated bytes and the holder of a reservation. */
enum status ledger_use(struct ledger *ledger, int64_t id, const char *holder, int64_t used, struct err *err);
enum status ledger_release(struct ledger *ledger, int64_t id, struct err *err);

/* Lists the reservations of live processes, then the queue, both oldest first; of one device, or of all if it
 * is NULL. The caller frees the array. Without a ledger (NULL) it is empty. */
enum status ledger_list(struct ledger *ledger, const char *device, struct reservation **out, size_t *count,
                        struct err *err);

/* Lists in the same way the rows of processes that have ended: they do not count, and the next reservation
 * removes them. */
enum status ledger_list_ended(struct ledger *ledger, struct reservation **out, size_t *count,
                              struct err *err);
enum status ledger_remove_ended(struct ledger *ledger, struct err *err);

const char *ledger_path(const struct ledger *ledger);

#endif
