/* The ledger of device memory: who on this host has reserved how much of which device, for all anneal
 * processes that keep it in the same folder (runs/reservations/ledger_place.h). A process reserves before it
 * allocates, so two that would not fit together are told so before either has failed.
 *
 * Who waits queues in order of arrival, and nobody reserves of a device for which an earlier one waits: a
 * large run would else wait for ever behind small ones. But what is short and cannot wait (generating,
 * evaluating) passes the queue where it fits, until the first there waits for nobody but those who passed it:
 * so it waits only for those that are there already, however many come.
 *
 * One SQLite file a host, FOLDER/ledger-<host>.db. A reservation, and a place in the queue, belong to a
 * process, known by its number, the time it started and the boot it started in: those of processes that are
 * gone count no more, and are removed by whoever looks next. */
#ifndef ANNEAL_RUNS_RESERVATIONS_LEDGER_H
#define ANNEAL_RUNS_RESERVATIONS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct ledger; /* opaque; belongs to one thread */

enum { LEDGER_TEXT = 96, LEDGER_HOME = 512 };

/* The device whose memory is the host's. What a process holds of it anybody sees at any time, so a holder
 * that is only starting, and has told nothing yet, does not count twice: as what is still to come, and as
 * what other programs have taken. */
#define LEDGER_HOST "cpu"

struct reservation {
    int64_t id;
    int64_t pid;
    char device[LEDGER_TEXT]; /* what names the device on this host: LEDGER_HOST, a GPU's UUID */
    char holder[LEDGER_TEXT]; /* what it is for: a run's id */
    int64_t bytes;            /* reserved */
    int64_t used;             /* of them really allocated, as last told, and of LEDGER_HOST also as seen */
    int64_t beside;           /* what the process holds of the device beside that, as it told first */
    bool passes;              /* those who wait: see struct ledger_room */
    double reserve;           /* the share of the device that stays free for it */
    double since;             /* Unix seconds */
    char home[LEDGER_HOME];   /* its process's ANNEAL_HOME; "": not told */
};

/* What a device has. */
struct ledger_room {
    const char *device; /* what names it on this host */
    const char *name;   /* what a sentence calls it: "cuda:0" */
    int64_t total;      /* bytes of its memory; 0: unknown, nothing is refused */
    int64_t available;  /* of it, what no process has taken; 0: unknown */
    double reserve;     /* the share of the total that stays free: 0.05 */
    int64_t taken;      /* of what is asked for, what this process has taken already: a GPU's context */
    bool passes;        /* for a short while, and cannot wait: those who do are passed where there is room */
    int64_t beside;     /* what this process holds of it beside what is asked for: of a CPU, the program */
};

/* Creates folder and file where they are missing; the file with the rights that the folder gives to write in
 * it, and its group. */
enum status ledger_open(const char *folder, struct ledger **out, struct err *err);
/* The same with another patience than ten seconds with whoever keeps the file locked, in milliseconds. */
enum status ledger_open_patiently(const char *folder, int busy_ms, struct ledger **out, struct err *err);
/* Whether its file has been removed or replaced since: then nobody sees what is in it. */
bool ledger_is_lost(struct ledger *ledger);
/* What this process reserves from now on is told to be of this ANNEAL_HOME. */
void ledger_set_home(struct ledger *ledger, const char *home);
const char *ledger_home(const struct ledger *ledger); /* NULL: it was not told */
/* NULL is harmless. Leaves the queue; reservations stay until released. */
void ledger_close(struct ledger *ledger);

/* The share of a device that stays free unless the user says otherwise: of one that other programs need, too
 * (a CPU, a GPU with a screen), or of one that only computes. */
double ledger_auto_reserve(bool shared);

/* The most that could be reserved now; 0 where nothing is left, INT64_MAX where the device's memory is
 * unknown. Without a ledger (NULL) nothing counts as reserved. */
enum status ledger_left(struct ledger *ledger, const struct ledger_room *room, int64_t *left,
                        struct err *err);

/* Whether so many bytes fit into what is free less what stays free, whatever is reserved: for a process that
 * cannot keep the ledger. The errors of ledger_reserve. */
enum status ledger_fits(const struct ledger_room *room, int64_t bytes, struct err *err);

/* Reserves for this process. STATUS_BUSY: it does not fit beside what others hold, with a reservation or
 * without; the sentence has the numbers and the holders. STATUS_NO_MEMORY: it would not fit if this process
 * were alone. STATUS_BUSY too while an earlier one waits for the device; where the room says `passes`, only
 * when that waits for nobody else. *id for what follows. */
enum status ledger_reserve(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err);
/* Writes down what this process holds already, whatever others do: of it `taken` in the room is allocated.
 * For who has reserved it in a ledger that is lost. */
enum status ledger_restore(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                           int64_t bytes, int64_t *id, struct err *err);
/* Takes a place in the queue for the device, once; it lasts until ledger_reserve has succeeded or the ledger
 * is closed. Whoever waits asks ledger_reserve again and again. STATUS_BUSY: one who waits could never come
 * in beside what this process holds already (a GPU's context). */
enum status ledger_wait(struct ledger *ledger, const struct ledger_room *room, const char *holder,
                        int64_t bytes, struct err *err);
/* What is really allocated under a reservation, and what for by now. */
enum status ledger_use(struct ledger *ledger, int64_t id, const char *holder, int64_t used, struct err *err);
enum status ledger_release(struct ledger *ledger, int64_t id, struct err *err);

/* The reservations of living processes, in the order they came; of one device, or of all with NULL. *count of
 * them are yours to free. Without a ledger (NULL) there are none. */
enum status ledger_list(struct ledger *ledger, const char *device, struct reservation **out, size_t *count,
                        struct err *err);
/* The same of those who wait, in the order in which they come in: the bytes they ask for, and of them what
 * they have taken already. */
enum status ledger_queue(struct ledger *ledger, const char *device, struct reservation **out, size_t *count,
                         struct err *err);

#endif
