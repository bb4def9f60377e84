/* See memory_share.h. */
#include "tui/session/memory_share.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/memory/overhead.h"
#include "runs/reservations/ledger_place.h"
#include "tui/session/interrupt.h"

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
                  not_known[] = "what others have reserved is not known",
                  not_seen[] = "runs of another ANNEAL_HOME are not seen";

/* Asks the device for its memory now. */
static void look(const struct memory_wish *wish, struct device_info *info, struct ledger_room *room)
{
    wish->backend->device_describe(wish->device, info);
    room->device = memory_share_device(info);
    room->name = info->short_name;
    room->total = info->total_bytes;
    room->available = info->available_bytes;
    room->reserve = memory_share_reserve(info, wish->reserve);
    room->passes = !wish->may_wait;
    if (info->uuid[0] == '\0') room->beside = memory_private(getpid());
}

/* The bytes that a process takes of this GPU beside its allocations, as a run under `home` has measured them;
 * 0: not known, or a CPU. *taken of them are taken already. */
static int64_t context_bytes(const char *home, const struct device_info *info, int64_t *taken)
{
    char folder[PATH_MAX];
    *taken = 0;
    if (info->uuid[0] == '\0' || snprintf(folder, sizeof folder, "%s/cuda", home) >= (int)sizeof folder)
        return 0;
    int64_t known = overhead_recall(folder, info);
    if (known <= 0) return 0;
    int64_t now = overhead_measure(info);
    *taken = now < 0 ? 0 : now > known ? known : now;
    return known;
}

static enum status attempt(struct memory_share *share, const struct memory_wish *wish,
                           const struct ledger_room *room, struct err *err)
{
    int64_t bytes = wish->bytes + share->overhead;
    share->beside = room->beside;
    if (!share->ledger) return ledger_fits(room, bytes, err);
    return ledger_reserve(share->ledger, room, wish->holder, bytes, &share->id, err);
}

/* The ledger in place of one whose file has been removed, as systemd does when a user logs out; NULL: it
 * still is there, or there can be no other. */
static struct ledger *open_anew(const struct memory_share *share)
{
    struct ledger *fresh = NULL;
    struct err apart;
    if (share->ledger && ledger_is_lost(share->ledger))
        ledger_place_open(ledger_home(share->ledger), false, &fresh, &apart, NULL);
    return fresh;
}

static void keep_instead(struct memory_share *share, struct ledger *fresh)
{
    ledger_close(share->ledger);
    share->ledger = fresh;
}

enum status memory_share_take(struct memory_share *share, const struct memory_wish *wish, struct err *err)
{
    struct device_info info;
    struct ledger_room room = {0};
    struct err why, apart;
    *share = (struct memory_share){.bytes = wish->bytes};
    look(wish, &info, &room);
    snprintf(share->device, sizeof share->device, "%s", room.device);
    share->reserve = room.reserve;
    share->passes = room.passes;
    if (wish->home) share->overhead = context_bytes(wish->home, &info, &room.taken);
    if (ledger_place_open(wish->home, false, &share->ledger, &apart, &why)) warn(not_reserved, &why);
    if (apart.status) warn(not_seen, &apart);
    enum status status = attempt(share, wish, &room, err);
    bool waiting = status == STATUS_BUSY && wish->wait;
    if (waiting) fprintf(stderr, "anneal: waiting: %s\n", err->text);
    if (waiting && share->ledger) {
        enum status queued =
            ledger_wait(share->ledger, &room, wish->holder, wish->bytes + share->overhead, &why);
        if (queued == STATUS_BUSY) /* waiting would not help: who came before waits for us */
            *err = why, waiting = false;
        else if (queued)
            warn(not_reserved, &why);
    }
    while (status == STATUS_BUSY && waiting) {
        if (interrupt_requested()) {
            status = err_set(err, STATUS_INTERRUPTED, "interrupted while waiting for memory");
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        look(wish, &info, &room);
        struct ledger *fresh = open_anew(share);
        if (fresh) {
            keep_instead(share, fresh);
            ledger_wait(fresh, &room, wish->holder, wish->bytes + share->overhead, NULL);
        }
        status = attempt(share, wish, &room, err);
    }
    if (!status) return STATUS_OK;
    ledger_close(share->ledger);
    share->ledger = NULL;
    why = *err;
    if (status == STATUS_BUSY && wish->may_wait && !wish->wait)
        return err_set(err, status, "%s (--wait waits for them)", why.text);
    if (status == STATUS_BUSY || status == STATUS_NO_MEMORY || status == STATUS_INTERRUPTED) return status;
    warn(not_reserved, err);
    return attempt(share, wish, &room, err); /* without a ledger */
}

int64_t memory_share_left(const struct memory_wish *wish)
{
    struct device_info info;
    struct ledger_room room = {0};
    struct ledger *ledger;
    struct err err, apart;
    int64_t left, overhead = 0;
    look(wish, &info, &room);
    if (wish->home) overhead = context_bytes(wish->home, &info, &room.taken);
    enum status status = ledger_place_open(wish->home, true, &ledger, &apart, &err);
    if (apart.status) warn(not_seen, &apart);
    if (!status) status = ledger_left(ledger, &room, &left, &err);
    if (status) {
        warn(not_known, &err);
        ledger_left(NULL, &room, &left, NULL); /* what is free decides alone, as it will for the run */
    }
    ledger_close(ledger);
    return left == INT64_MAX ? left : left > overhead ? left - overhead : 0;
}

size_t memory_share_queue(const struct memory_wish *wish, struct reservation **out)
{
    struct device_info info;
    struct ledger *ledger;
    struct err err, apart;
    size_t count = 0;
    *out = NULL;
    wish->backend->device_describe(wish->device, &info);
    enum status status = ledger_place_open(wish->home, true, &ledger, &apart, &err);
    if (!status) status = ledger_queue(ledger, memory_share_device(&info), out, &count, &err);
    if (status) warn("who waits is not known", &err);
    ledger_close(ledger);
    return count;
}

void memory_share_used(struct memory_share *share, const char *holder, int64_t bytes)
{
    struct ledger *fresh = open_anew(share);
    int64_t used = bytes + share->overhead;
    if (strcmp(share->device, LEDGER_HOST) == 0) {
        int64_t touched = memory_private(getpid()) - share->beside;
        used = touched < 0 ? 0 : touched < used ? touched : used;
    }
    struct ledger_room room = {.device = share->device,
                               .reserve = share->reserve,
                               .taken = used,
                               .passes = share->passes,
                               .beside = share->beside};
    if (!share->ledger) return;
    if (!fresh)
        ledger_use(share->ledger, share->id, holder, used, NULL);
    else if (!ledger_restore(fresh, &room, holder, share->bytes + share->overhead, &share->id, NULL))
        keep_instead(share, fresh);
    else
        ledger_close(fresh);
}

void memory_share_release(struct memory_share *share)
{
    if (share->ledger && share->id) ledger_release(share->ledger, share->id, NULL);
    ledger_close(share->ledger);
    *share = (struct memory_share){0};
}
