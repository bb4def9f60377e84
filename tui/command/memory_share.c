/* See memory_share.h. */
#include "tui/command/memory_share.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "tui/command/interrupt.h"

const char *memory_share_device(const struct device_info *device)
{
    return device->uuid[0] != '\0' ? device->uuid : "cpu";
}

double memory_share_reserve(const struct device_info *device, double wanted)
{
    if (!isnan(wanted)) return wanted;
    return ledger_auto_reserve(device->uuid[0] == '\0' || device->has_display);
}

static void warn(const struct err *err)
{
    fprintf(stderr, "anneal: warning: device memory is not reserved: %s\n", err->text);
}

enum status memory_share_take(struct memory_share *share, const struct memory_wish *wish, struct err *err)
{
    struct ledger_room room = {memory_share_device(wish->device), wish->device->short_name,
                               wish->device->total_bytes, wish->device->available_bytes,
                               memory_share_reserve(wish->device, wish->reserve)};
    enum status status = ledger_open(wish->home, &share->ledger, err);
    if (status) {
        warn(err);
        return STATUS_OK;
    }
    status = ledger_reserve(share->ledger, &room, wish->holder, wish->bytes, &share->id, err);
    if (status == STATUS_BUSY && wish->wait) fprintf(stderr, "anneal: waiting: %s\n", err->text);
    while (status == STATUS_BUSY && wish->wait) {
        if (interrupt_requested()) {
            memory_share_release(share);
            return err_set(err, STATUS_INTERRUPTED, "interrupted while waiting for memory");
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
        room.available = 0; /* what it was when we came says nothing now */
        status = ledger_reserve(share->ledger, &room, wish->holder, wish->bytes, &share->id, err);
    }
    if (!status) {
        share->bytes = wish->bytes;
        return STATUS_OK;
    }
    ledger_close(share->ledger);
    *share = (struct memory_share){0};
    if (status == STATUS_BUSY || status == STATUS_NO_MEMORY) return status;
    warn(err);
    return STATUS_OK;
}

void memory_share_used(struct memory_share *share, const char *holder, int64_t bytes)
{
    if (share->ledger) ledger_use(share->ledger, share->id, holder, bytes, NULL);
}

void memory_share_release(struct memory_share *share)
{
    if (share->ledger && share->id) ledger_release(share->ledger, share->id, NULL);
    ledger_close(share->ledger);
    *share = (struct memory_share){0};
}
