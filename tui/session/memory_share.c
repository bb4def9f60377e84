/* See memory_share.h. */
#include "tui/session/memory_share.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/memory/fit.h"
#include "tui/session/process.h"

const char *memory_share_device(const struct device_info *device)
{
    return device->uuid[0] != '\0' ? device->uuid : LEDGER_HOST;
}

double memory_share_reserve(const struct device_info *device, double wanted)
{
    if (!isnan(wanted)) return wanted;
    return ledger_auto_reserve(device->uuid[0] == '\0' || device->has_display);
}

static void warn(const char *what, const struct err *err)
{
    fprintf(stderr, "anneal: warning: %s: %s\n", what, err->text);
}

static const char not_reserved[] = "device memory is not reserved",
                  not_known[] = "what others have reserved is not known";

/* Asks the device for its present memory. */
static void look(const struct memory_wish *wish, struct device_info *info, struct ledger_room *room)
{
    wish->backend->device_describe(wish->device, info);
    room->device = memory_share_device(info);
    room->name = info->short_name;
    room->total = info->total_bytes;
    room->available = info->available_bytes;
    room->reserve = memory_share_reserve(info, wish->reserve);
    room->passes = !wish->may_wait;
}

/* ANNEAL_HOME; NULL: not known. */
static const char *find_home(char home[PATH_MAX])
{
    return file_anneal_home(home, PATH_MAX, NULL) ? NULL : home;
}

int64_t memory_share_overhead(const struct device_info *device)
{
    char home[PATH_MAX], folder[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s/cuda", find_home(home) ? home : "");
    int64_t known = overhead_recall(folder, device);
    return known < 0 && device->uuid[0] == '\0' ? overhead_measure(device) : known;
}

/* The bytes that a process takes of this GPU outside its allocations; 0: unknown, or a CPU. *taken: the part
 * already taken. */
static int64_t context_bytes(const struct device_info *info, int64_t *taken)
{
    *taken = 0;
    int64_t known = info->uuid[0] == '\0' ? 0 : memory_share_overhead(info);
    if (known <= 0) return 0;
    int64_t now = overhead_measure(info);
    *taken = now < 0 ? 0 : now > known ? known : now;
    return known;
}

/* Queues until the request fits or a signal interrupts. The texts of `room` are in `info`. */
static enum status wait_for(struct memory_share *share, const struct memory_wish *wish,
                            struct device_info *info, struct ledger_room *room, int64_t bytes,
                            struct err *err)
{
    fprintf(stderr, "anneal: waiting: %s\n", err->text);
    enum status status =
        share->ledger ? ledger_wait(share->ledger, room, wish->holder, bytes, err) : STATUS_OK;
    if (status) return status;
    do {
        if (interrupt_requested())
            return err_set(err, STATUS_INTERRUPTED, "interrupted while waiting for memory");
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        look(wish, info, room);
        status = ledger_reserve(share->ledger, room, wish->holder, bytes, &share->id, err);
    } while (status == STATUS_BUSY);
    return status;
}

enum status memory_share_take(struct memory_share *share, const struct memory_wish *wish, struct err *err)
{
    struct device_info info;
    struct ledger_room room = {0};
    char home[PATH_MAX];
    struct err why;
    *share = (struct memory_share){.bytes = wish->bytes};
    look(wish, &info, &room);
    share->on_host = info.uuid[0] == '\0';
    share->overhead = context_bytes(&info, &room.taken);
    int64_t bytes = wish->bytes + share->overhead;
    if (ledger_open_own(find_home(home), false, &share->ledger, &why)) warn(not_reserved, &why);
    enum status status = ledger_reserve(share->ledger, &room, wish->holder, bytes, &share->id, err);
    if (status == STATUS_BUSY && wish->wait) status = wait_for(share, wish, &info, &room, bytes, err);
    if (!status) return STATUS_OK;
    ledger_close(share->ledger);
    share->ledger = NULL;
    why = *err;
    if (status == STATUS_BUSY && wish->may_wait && !wish->wait)
        return err_set(err, status, "%s (--wait waits for them)", why.text);
    if (status != STATUS_IO) return status;
    warn(not_reserved, err);
    return ledger_reserve(NULL, &room, wish->holder, bytes, &share->id, err);
}

int64_t memory_share_left(const struct memory_wish *wish)
{
    struct device_info info;
    struct ledger_room room = {0};
    struct ledger *ledger;
    char home[PATH_MAX];
    struct err err;
    int64_t left;
    look(wish, &info, &room);
    int64_t overhead = context_bytes(&info, &room.taken);
    enum status status = ledger_open_own(find_home(home), true, &ledger, &err);
    if (!status) status = ledger_left(ledger, &room, &left, &err);
    if (status) {
        warn(not_known, &err);
        ledger_left(NULL, &room, &left, NULL); /* only the free memory counts, as it will for the run */
    }
    ledger_close(ledger);
    return left == INT64_MAX ? left : left > overhead ? left - overhead : 0;
}

struct reservation *memory_share_list(const char *device, size_t *count)
{
    char home[PATH_MAX];
    struct err err;
    struct ledger *ledger;
    struct reservation *rows = NULL;
    enum status status = ledger_open_own(find_home(home), true, &ledger, &err);
    if (!status) status = ledger_list(ledger, device, &rows, count, &err);
    ledger_close(ledger);
    if (!status) return rows;
    warn(not_known, &err);
    *count = 0;
    return NULL;
}

void memory_share_used(struct memory_share *share, const char *holder, int64_t bytes)
{
    int64_t used = bytes + share->overhead;
    if (!share->ledger) return;
    if (share->on_host && memory_private(getpid()) < used) used = memory_private(getpid());
    ledger_use(share->ledger, share->id, holder, used, NULL);
}

void memory_share_release(struct memory_share *share)
{
    if (share->ledger && share->id) ledger_release(share->ledger, share->id, NULL);
    ledger_close(share->ledger);
    *share = (struct memory_share){0};
}
