/* Who holds memory of a device, and who waits for some: lines below that device's. */
#ifndef ANNEAL_TUI_RESERVATION_LIST_H
#define ANNEAL_TUI_RESERVATION_LIST_H

#include "runs/ledger.h"

/* `device` as the ledger names it. A ledger that cannot be read is a warning. */
void reservation_list_print(const char *device);

/* The line of one who waits alone, the `place`-th from 1. */
void reservation_list_waiter(const struct reservation *row, size_t place);

#endif
