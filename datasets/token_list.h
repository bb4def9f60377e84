/* A growing list of token ids, and where ids go that are too many to keep. */
#ifndef ANNEAL_DATASETS_TOKEN_LIST_H
#define ANNEAL_DATASETS_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* Owned by the caller; zero it before first use. */
struct token_list {
    uint32_t *ids;
    size_t count, capacity;
};
enum status token_list_append(struct token_list *list, const uint32_t *ids, size_t count, struct err *err);
void token_list_release(struct token_list *list);

/* Where ids go that are too many to keep. */
struct token_sink {
    /* Takes the next `count` ids (borrowed); `done` bytes of the text are encoded so far. Called every few
     * thousand ids and at the end. Any other status than STATUS_OK stops the encoding and is its result. */
    enum status (*take)(void *context, const uint32_t *ids, size_t count, uint64_t done, struct err *err);
    void *context;
};

#endif
