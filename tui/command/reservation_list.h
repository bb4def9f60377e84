/* Who holds memory of a device, and who waits for some: lines below that device's. */
#ifndef ANNEAL_TUI_RESERVATION_LIST_H
#define ANNEAL_TUI_RESERVATION_LIST_H

/* `device` as the ledger names it. A ledger that cannot be read is a warning. */
void reservation_list_print(const char *device);

#endif
