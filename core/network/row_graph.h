/* The pass over the newest tokens of some sequences, recorded once as a graph and then replayed token by
 * token: a host that queues each operation may need longer for it than a GPU needs to compute it. What
 * differs from token to token, the tokens and their places in the cache, is in device memory.
 *
 * A graph is right for one number of rows and one bound of the sequences' length. The bound grows in steps,
 * so that a graph serves many tokens; attention finds no keys behind the end of a sequence. The first pass of
 * a kind runs call by call, because it may load code and prepare products; the second one is recorded. A
 * device that cannot record goes on call by call. */
#ifndef ANNEAL_CORE_NETWORK_ROW_GRAPH_H
#define ANNEAL_CORE_NETWORK_ROW_GRAPH_H

#include <stdbool.h>

#include "kernels/device/backend.h"

/* More rows keep the host and the device equally busy. */
enum { ROW_GRAPH_ROWS_MAX = 64 };

struct row_graph {
    bool on;             /* passes are replayed */
    bool refused;        /* the device cannot record this kind of pass */
    int rows, longest;   /* the kind of the last pass; 0: none yet */
    struct graph *graph; /* owned; NULL: not recorded */
};

/* The bound for sequences of up to `longest` tokens: at least that, at most `most`. */
int row_graph_bound(int longest, int most);

/* Runs `work` over this many rows, recorded or not. `context` must be the same in every call. */
void row_graph_run(struct row_graph *g, const struct backend *backend, struct stream *stream, int rows,
                   int longest, void (*work)(void *context), void *context);

/* Before the device closes; the graph may be run again and is then recorded anew. Harmless on a zeroed
 * struct. */
void row_graph_forget(struct row_graph *g, const struct backend *backend);

#endif
