/* Private to runs/exchange: the event files of TensorBoard, written. */
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_EVENTS_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_EVENTS_H

#include "runs/exchange/record_file.h"

enum { EVENT_TAG_MAX = 128 };

/* Writes the start of an event file: its format, and the Unix time in seconds of its run. An error stays in
 * out->error. */
void event_out_begin(struct record_writer *out, FILE *stream, double wall_time);

/* Writes a value, rounded to a float. `tag` has fewer than EVENT_TAG_MAX bytes. `wall_time` not finite:
 * unknown. */
void event_out_scalar(struct record_writer *out, const char *tag, int64_t step, double wall_time,
                      double value);

#endif
