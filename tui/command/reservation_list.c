/* See reservation_list.h. */
#include "tui/command/reservation_list.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clean.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/reservations/ledger_place.h"

/* Whether the commands of this ANNEAL_HOME do not know it. */
static bool is_elsewhere(const struct reservation *row)
{
    char home[PATH_MAX];
    return row->home[0] && (file_anneal_home(home, sizeof home, NULL) || strcmp(row->home, home) != 0);
}

/* ", process 17, for 4m 05s, of ANNEAL_HOME=/scratch/runs": a clock that was set back since has no time to
 * tell.
 */
static void print_who(const struct reservation *row)
{
    char holder[3 * LEDGER_TEXT], home[3 * LEDGER_HOME];
    double seconds = clock_wall() - row->since;
    clean_line(holder, sizeof holder, row->holder);
    printf("%s, process %" PRId64, holder, row->pid);
    if (seconds >= 0) printf(", for %s", CLOCK_DURATION(seconds));
    clean_line(home, sizeof home, row->home);
    if (is_elsewhere(row)) printf(", of ANNEAL_HOME=%s", home);
}

static void print_holder(const struct reservation *row)
{
    printf("         %s reserved by ", TEXT_BYTES(row->bytes));
    print_who(row);
    if (row->used > 0) printf(", %s in use", TEXT_BYTES(row->used));
    putchar('\n');
}

/* The memory held meanwhile is a GPU's context or, on a CPU, the program itself. */
void reservation_list_waiter(const struct reservation *row, size_t place)
{
    printf("         %s waited for by ", TEXT_BYTES(row->bytes));
    print_who(row);
    printf(", no. %zu in the queue", place);
    if (row->used + row->beside > 0) printf(", holds %s meanwhile", TEXT_BYTES(row->used + row->beside));
    putchar('\n');
}

static void warn(const char *what, const struct err *err)
{
    fprintf(stderr, "anneal: warning: %s: %s\n", what, err->text);
}

static const char not_known[] = "who holds memory is not known";

struct ledger *reservation_list_ledger(void)
{
    char home[PATH_MAX];
    struct err err, apart;
    struct ledger *ledger;
    bool at_home = !file_anneal_home(home, sizeof home, NULL);
    if (ledger_place_open(at_home ? home : NULL, true, &ledger, &apart, &err)) warn(not_known, &err);
    if (apart.status) warn("runs of another ANNEAL_HOME are not seen", &apart);
    return ledger;
}

void reservation_list_open(struct ledger *ledger, const char *device, struct reservation_list *out)
{
    struct err err = {0};
    *out = (struct reservation_list){0};
    enum status status = ledger_list(ledger, device, &out->holding, &out->holders, &err);
    if (!status) status = ledger_queue(ledger, device, &out->waiting, &out->waiters, &err);
    if (!status) return;
    warn(not_known, &err);
    reservation_list_close(out);
}

void reservation_list_close(struct reservation_list *list)
{
    free(list->holding);
    free(list->waiting);
    *list = (struct reservation_list){0};
}

void reservation_list_print(const struct reservation_list *list)
{
    for (size_t i = 0; i < list->holders; i++) print_holder(&list->holding[i]);
    for (size_t i = 0; i < list->waiters; i++) reservation_list_waiter(&list->waiting[i], i + 1);
}

const char *reservation_list_holder(const struct reservation_list *list, int64_t pid)
{
    for (size_t i = 0; i < list->holders; i++)
        if (list->holding[i].pid == pid) return list->holding[i].holder;
    return NULL;
}
