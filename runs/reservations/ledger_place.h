/* Where the ledger of device memory lies. Devices are a host's, not of one ANNEAL_HOME, and so are those who
 * share them. The first of these that there is:
 *
 *     $ANNEAL_LEDGER         a folder that users of one host may share, and hosts, each with a file
 *     /dev/shm/anneal-UID    of this user alone; only a real folder that nobody else may write. In memory:
 *                            no disk is waited for, and like what it holds it does not outlive the boot
 *     $ANNEAL_HOME           then those of another one are not seen */
#ifndef ANNEAL_RUNS_RESERVATIONS_LEDGER_PLACE_H
#define ANNEAL_RUNS_RESERVATIONS_LEDGER_PLACE_H

#include <limits.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "runs/reservations/ledger.h"

struct ledger_place {
    char folder[PATH_MAX];
    struct err apart; /* its status is not ok: why only those of one ANNEAL_HOME meet here */
};

/* `shm`: in place of /dev/shm. `home`: ANNEAL_HOME, NULL: there is none. With `create` the folder below `shm`
 * is made where it is missing; nothing else ever is. STATUS_USAGE: there is no place, or $ANNEAL_LEDGER is
 * none. */
enum status ledger_place_find(const char *shm, const char *home, bool create, struct ledger_place *out,
                              struct err *err);

/* Opens the ledger there, as one of `home`. Only to look: creates nothing, and *out is NULL where nobody has
 * kept a ledger yet. *apart is that of the place. */
enum status ledger_place_open(const char *home, bool only_look, struct ledger **out, struct err *apart,
                              struct err *err);

#endif
