/* See reservation_list.h. */
#include "tui/command/reservation_list.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "tui/command/clean.h"

/* ", process 17, for 4m 05s": a clock that was set back since has no time to tell. */
static void print_who(const struct reservation *row)
{
    char holder[3 * LEDGER_TEXT], since[32];
    double seconds = clock_wall() - row->since;
    clean_line(holder, sizeof holder, row->holder);
    printf("%s, process %" PRId64, holder, row->pid);
    if (seconds >= 0) printf(", for %s", clock_format_duration(seconds, since, sizeof since));
}

static void print_holder(const struct reservation *row)
{
    char bytes[32];
    printf("         %s reserved by ", text_format_bytes((uint64_t)row->bytes, bytes, sizeof bytes));
    print_who(row);
    if (row->used > 0) printf(", %s in use", text_format_bytes((uint64_t)row->used, bytes, sizeof bytes));
    putchar('\n');
}

/* What it holds meanwhile is there already: a GPU's context, or of a CPU the program itself. */
void reservation_list_waiter(const struct reservation *row, size_t place)
{
    char bytes[32];
    printf("         %s waited for by ", text_format_bytes((uint64_t)row->bytes, bytes, sizeof bytes));
    print_who(row);
    printf(", no. %zu in the queue", place);
    if (row->used + row->beside > 0)
        printf(", holds %s meanwhile",
               text_format_bytes((uint64_t)(row->used + row->beside), bytes, sizeof bytes));
    putchar('\n');
}

void reservation_list_print(const char *device)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct ledger *ledger = NULL;
    struct reservation *holding = NULL, *waiting = NULL;
    size_t holders = 0, waiters = 0;
    if (file_anneal_home(home, sizeof home, NULL) || !file_exists(home)) return;
    enum status status = ledger_open(home, &ledger, &err);
    if (!status) status = ledger_list(ledger, device, &holding, &holders, &err);
    if (!status) status = ledger_queue(ledger, device, &waiting, &waiters, &err);
    for (size_t i = 0; !status && i < holders; i++) print_holder(&holding[i]);
    for (size_t i = 0; !status && i < waiters; i++) reservation_list_waiter(&waiting[i], i + 1);
    if (status) fprintf(stderr, "anneal: warning: who holds memory is not known: %s\n", err.text);
    free(holding);
    free(waiting);
    ledger_close(ledger);
}
