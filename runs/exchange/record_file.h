/* Files of records with checksums, as other programs write their logs. Two forms:
 *
 *   TFRecord        TensorBoard's event files: length, its checksum, bytes, their checksum
 *                   (https://www.tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details")
 *   LevelDB's log   wandb's offline runs, after a header of seven bytes: blocks of 32 KiB, in which a record
 *                   may be split (https://github.com/google/leveldb/blob/main/doc/log_format.md)
 *
 * A file that is still written may end within a record: all before it is read. */
#ifndef ANNEAL_RUNS_EXCHANGE_RECORD_FILE_H
#define ANNEAL_RUNS_EXCHANGE_RECORD_FILE_H

#include <stdbool.h>

#include "core/base/file.h"

enum record_form { RECORDS_NONE, RECORDS_TENSORBOARD, RECORDS_WANDB };

struct record_file {
    const char *path; /* borrowed */
    struct file_map map;
    enum record_form form; /* RECORDS_NONE: neither; such a file has no records */
    size_t at;             /* of the next byte */
    unsigned char *joined; /* the parts of a record */
    size_t joined_size, joined_capacity;
    uint32_t crc[256]; /* of each byte */
    bool cut;          /* the last record is incomplete, and left out */
};

/* Opens a file and recognises its form by its first bytes. Close it also after an error. */
enum status record_file_open(struct record_file *out, const char *path, struct err *err);
void record_file_close(struct record_file *file);

/* The next record, valid until the next call; *bytes is NULL at the end. STATUS_CORRUPT: a checksum is wrong,
 * or a length impossible. */
enum status record_file_next(struct record_file *file, const unsigned char **bytes, size_t *size,
                             struct err *err);

/* Goes back to the first record. */
void record_file_rewind(struct record_file *file);

/* Writes TFRecords to a stream. */
struct record_writer {
    FILE *stream; /* borrowed */
    int error;    /* errno of the first record that could not be written; 0: none */
    uint32_t crc[256];
};

void record_writer_init(struct record_writer *out, FILE *stream);
void record_writer_add(struct record_writer *out, const void *bytes, size_t size);

#endif
