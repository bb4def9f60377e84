/* The reservations of a device's memory and the queue for it, as lines below that device's. */
#ifndef ANNEAL_TUI_RESERVATION_LIST_H
#define ANNEAL_TUI_RESERVATION_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "runs/reservations/ledger.h"

struct reservation_list {
    struct reservation *holding, *waiting; /* owned */
    size_t holders, waiters;
};

/* The ledger to list, only looked at; close it with ledger_close. NULL where nobody keeps one, and, with a
 * warning, where it cannot be read. */
struct ledger *reservation_list_ledger(void);

/* `device` as the ledger (NULL: nobody reserves) names it. Empty where nobody has reserved, and, with a
 * warning, where the ledger cannot be read. */
void reservation_list_open(struct ledger *ledger, const char *device, struct reservation_list *out);
void reservation_list_close(struct reservation_list *list);

void reservation_list_print(const struct reservation_list *list);

/* The ledger's name for this process; NULL where it holds nothing. Borrowed. */
const char *reservation_list_holder(const struct reservation_list *list, int64_t pid);

/* The line of one who waits alone, the `place`-th from 1. */
void reservation_list_waiter(const struct reservation *row, size_t place);

#endif
