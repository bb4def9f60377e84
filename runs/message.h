/* Private to runs/: a message of a trainer to the store: a row of a table, or a note that changes the run. A
 * message is a struct with borrowed texts. Here it is turned into bytes for the run's file of records
 * (spill.h), and back; the bytes may come from anyone.
 *
 *     the table's or the note's name    text
 *     its fields, in the order of their list, each with a letter before it:
 *         i  8 bytes, an integer        d  8 bytes, a double
 *         t  its length (4 bytes), the bytes, a NUL       0  an absent text
 *
 * Numbers have the byte order of the machine. Fields are only ever added at the end of a list: a message of
 * an older anneal lacks the last ones, which are then absent; one of a newer anneal has more, which are
 * skipped. */
#ifndef ANNEAL_RUNS_MESSAGE_H
#define ANNEAL_RUNS_MESSAGE_H

#include "runs/columns.h"
#include "runs/run.h"

/* A table of the store is its number; then come the notes. */
enum message_kind {
    MESSAGE_STATUS = TABLE_COUNT, /* running <-> paused */
    MESSAGE_ORDER,                /* an order is done */
    MESSAGE_SEGMENT,              /* the same trainer begins the next segment */
    MESSAGE_DEVICE,
    MESSAGE_END, /* the trainer has ended */
    MESSAGE_RUN, /* the row of the run, as far as no other message has it; first in its file */
    MESSAGE_KINDS
};

struct status_note {
    int64_t status; /* enum run_status */
};
struct order_note {
    int64_t id, step;
    const char *result;
};
struct segment_note {
    double at;    /* Unix seconds */
    int64_t step; /* its first one; -1: not known */
};
struct device_note {
    const char *device, *precision;
};
struct end_note {
    int64_t status;
    double at;
    const char *message;
};
struct run_note {
    struct run_new run;
    const char *note;
    double created_at;
};

/* Any message. */
union message {
    struct step_record step;
    struct stopping_record stopping;
    struct run_note run;
    char bytes[512];
};

enum { MESSAGE_TEXTS_MAX = 7 };

/* The size of the struct of a message. */
size_t message_size(int kind);

/* Whether a trainer records rows of the table: it has a segment. */
bool message_is_row(int table);

/* The places of its texts in the struct; returns how many. */
int message_texts(int kind, void *message, const char **places[MESSAGE_TEXTS_MAX]);

/* Appends the message's bytes to a malloc'd array. False: no memory. */
bool message_pack(int kind, const void *message, unsigned char **bytes, size_t *n, size_t *capacity);

/* Reads such bytes; texts point into them. Only rows that a trainer records are accepted, and
 * notes. STATUS_CORRUPT: not a message. STATUS_FAILED: of a kind that this anneal does not know. */
enum status message_unpack(const unsigned char *bytes, size_t n, int *kind, union message *out);

#endif
