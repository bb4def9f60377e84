/* The ledger of device memory: which process of this host has reserved how much of which device, for all
 * anneal processes that keep it in the same folder (runs/reservations/ledger_place.h). A process reserves
 * before it allocates, so of two that do not fit together the second is refused before either fails.
 *
 * The queue is first come, first served: while a process waits for a device, later ones cannot reserve any of
 * it, or small runs would keep a large one waiting for ever. Short commands that cannot wait (generating,
 * evaluating) pass the queue where they fit, until its first process waits only for those that passed it: so
 * it waits only for the ones that are there already, however many come.
 *
 * One SQLite file a host, FOLDER/ledger-<host>.db. A reservation, and a place in the queue, belong to a
 * process, identified by its number, its start time and the boot it started in. Rows of processes that have
 * ended do not count, and the next look removes them. */
#ifndef ANNEAL_RUNS_RESERVATIONS_LEDGER_H
#define ANNEAL_RUNS_RESERVATIONS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct ledger; /* opaque; belongs to one thread */

enum { LEDGER_TEXT = 96, LEDGER_HOME = 512 };

/* The device whose memory is the host's. The system shows at any time how much of it a process holds, so the
 * memory of a holder that is still starting and has not reported yet is not counted twice (as to come, and as
 * taken by others). */
#define LEDGER_HOST "cpu"

struct reservation {
    int64_t id;
    int64_t pid;
    char device[LEDGER_TEXT]; /* what names the device on this host: LEDGER_HOST, a GPU's UUID */
    char holder[LEDGER_TEXT]; /* what it is for: a run's id */
    int64_t bytes;            /* reserved */
    int64_t used;           /* allocated of them, as last reported; of LEDGER_HOST also as the system shows */
    int64_t beside;         /* what the process holds of the device beside that, as first reported */
    bool passes;            /* see struct ledger_room */
    double reserve;         /* the share of the device that stays free for it */
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
    bool passes;        /* a short command that cannot wait: it passes the queue where there is room */
    int64_t beside;     /* what this process holds of it beside the request: of a CPU, the program */
};

/* The file of a ledger in this folder: FOLDER/ledger-<host>.db, as hosts may share a folder. */
enum status ledger_file_path(const char *folder, char *path, size_t size, struct err *err);

/* Creates folder and file where they are missing; the file with the rights that the folder gives to write in
 * it, and its group. */
enum status ledger_open(const char *folder, struct ledger **out, struct err *err);
/* The same, waiting so many milliseconds for a process that keeps the file locked, instead of ten seconds. */
enum status ledger_open_patiently(const char *folder, int busy_ms, struct ledger **out, struct err *err);
/* Whether its file has been removed or replaced: then no other process sees it. */
bool ledger_is_lost(struct ledger *ledger);
/* Records this ANNEAL_HOME with what the process reserves from now on. */
void ledger_set_home(struct ledger *ledger, const char *home);
const char *ledger_home(const struct ledger *ledger); /* NULL: none has been set */
/* NULL is harmless. Leaves the queue; reservations stay until they are released. */
void ledger_close(struct ledger *ledger);

/* The default share of a device that stays free: of one that other programs use, too (a CPU, a GPU with a
 * screen), or of one that only computes. */
double ledger_auto_reserve(bool shared);

/* The most that could be reserved now; 0 where nothing is left, INT64_MAX where the device's memory is
 * unknown. Without a ledger (NULL) nothing counts as reserved. */
enum status ledger_left(struct ledger *ledger, const struct ledger_room *room, int64_t *left,
                        struct err *err);

/* Whether so many bytes fit into the free memory less the share that stays free, without regard to
 * reservations: for a process that cannot keep the ledger. The errors of ledger_reserve. */
enum status ledger_fits(const struct ledger_room *room, int64_t bytes, struct err *err);

/* Reserves for this process. STATUS_BUSY: the request does not fit beside what others hold, reserved or not
 * (the sentence has the numbers and the holders), or an earlier process waits for the device; where the room
 * says `passes`, only one that waits for nothing but those that passed it. STATUS_NO_MEMORY: it would not fit
 * even alone. */
enum status ledger_reserve(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err);
/* Records what this process holds already, without a check; `taken` of it is allocated. For a reservation
 * made in a ledger whose file is lost. */
enum status ledger_restore(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err);
/* Takes a place in the queue for the device, once; it lasts until ledger_reserve succeeds or the ledger is
 * closed. The waiting process calls ledger_reserve again and again. STATUS_BUSY: an earlier process in the
 * queue could never fit beside what this one holds already (a GPU's context). */
enum status ledger_wait(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                        int64_t bytes, struct err *err);
/* Updates how much of a reservation is allocated, and its holder. */
enum status ledger_use(struct ledger *ledger, int64_t id, const char *holder, int64_t used, struct err *err);
enum status ledger_release(struct ledger *ledger, int64_t id, struct err *err);

/* The reservations of living processes, in the order they came; of one device, or of all with NULL. *count of
 * them are yours to free. Without a ledger (NULL) there are none. */
enum status ledger_list(struct ledger *ledger, const char *device, struct reservation **out, size_t *count,
                        struct err *err);
/* The same of the queue, first to last: the bytes requested, and how many of them are allocated already. */
enum status ledger_queue(struct ledger *ledger, const char *device, struct reservation **out, size_t *count,
                         struct err *err);

#endif
