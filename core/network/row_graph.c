/* See row_graph.h. */
#include "core/network/row_graph.h"

/* A new graph every 256 tokens costs the host about as much as one of those passes. */
enum { STEP = 256 };

int row_graph_bound(int longest, int most)
{
    int bound = (longest + STEP - 1) / STEP * STEP;
    return bound < most ? bound : most;
}

void row_graph_forget(struct row_graph *g, const struct backend *backend)
{
    if (g->graph) backend->graph_close(g->graph);
    *g = (struct row_graph){.on = g->on};
}

void row_graph_run(struct row_graph *g, const struct backend *backend, struct stream *stream, int rows,
                   int longest, void (*work)(void *context), void *context)
{
    if (g->rows != rows || g->longest != longest) {
        row_graph_forget(g, backend);
        g->rows = rows;
        g->longest = longest;
    } else if (!g->graph && !g->refused) {
        g->refused = backend->graph_open(stream, work, context, &g->graph, NULL) != STATUS_OK;
    }
    if (g->graph)
        backend->graph_run(g->graph, stream);
    else
        work(context);
}
