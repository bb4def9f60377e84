/* Private to runs/: a run's file of records, runs/<id>/records: messages that the database does not have. It
 * begins with a run_note, so that the run can be made again where the database has lost it. The trainer
 * appends what it cannot commit; the writer, a resume or a repair reads that into the database (recovery.h).
 *
 *     8 bytes   "ANNLREC" and the version, 1
 *     entries   XXH64 of all that follows it in the entry (8 bytes), number (8), segment (4), n (4),
 *               n bytes of a message (message.h)
 *
 * Numbers count up from entry to entry, also over several lives of the file; the database knows the newest
 * that it has (runs.recorded), so reading an entry twice adds nothing. A file that ends within an entry was
 * cut by a crash: all before it counts. No other process may write the file meanwhile: the run's lock sees to
 * that. */
#ifndef ANNEAL_RUNS_SPILL_H
#define ANNEAL_RUNS_SPILL_H

#include <limits.h>
#include <stdint.h>

#include "core/base/err.h"
#include "runs/message.h"

enum { SPILL_MAX = 1 << 30, SPILL_ENTRY_MAX = 1 << 24 /* bytes of a file, of an entry */ };

struct spill {
    char path[PATH_MAX];
    int fd;              /* -1: closed */
    bool unsynced;       /* it was written since spill_sync */
    uint64_t number;     /* of the newest entry */
    int64_t end;         /* of the last whole entry */
    int64_t first, next; /* the first entry after the run_note; the next one that spill_next reads */
    unsigned char *bytes;
    size_t capacity;
};

struct spill_entry {
    uint64_t number;
    int segment, kind;
    union message message; /* its texts are valid until the next call for the file */
};

/* Opens a file for reading and appending, and checks every entry. *run: its first message; texts as in
 * spill_entry. STATUS_NOT_FOUND: there is none. STATUS_CORRUPT: not such a file, or an entry is damaged; if
 * `first` is not 0, *run and the entries before that one can be read all the same. Close it also after an
 * error. */
enum status spill_open(struct spill *spill, const char *path, struct run_note *run, struct err *err);
/* Whether bytes begin as such a file does, of any version. */
bool spill_is_file(const void *bytes, size_t n);
/* Makes the file anew, with this message alone; entries begin after `number`. */
enum status spill_make(struct spill *spill, const char *path, const struct run_note *run, uint64_t number,
                       struct err *err);
void spill_close(struct spill *spill);

/* Appends an entry, or fails and leaves the file as it was. */
enum status spill_add(struct spill *spill, int segment, int kind, const void *message, struct err *err);
/* Waits until the disk has all entries. */
enum status spill_sync(struct spill *spill, struct err *err);

/* Whether entries are left to read. */
static inline bool spill_waits(const struct spill *spill)
{
    return spill->fd >= 0 && spill->next < spill->end;
}
/* Reads the next entry; to repeat that, set `next` to what it was. */
enum status spill_next(struct spill *spill, struct spill_entry *out, struct err *err);
/* Removes all entries but the run_note. */
void spill_clear(struct spill *spill);

#endif
