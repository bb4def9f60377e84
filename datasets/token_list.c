/* See token_list.h. */
#include "datasets/token_list.h"

#include <stdlib.h>
#include <string.h>

enum status token_list_append(struct token_list *list, const uint32_t *ids, size_t count, struct err *err)
{
    if (list->capacity - list->count < count) {
        size_t capacity = list->count + count;
        capacity += capacity / 2 + 64;
        uint32_t *grown = realloc(list->ids, capacity * sizeof *grown);
        if (!grown) return err_set(err, STATUS_NO_MEMORY, "not enough memory for %zu tokens", capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    if (count) memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return STATUS_OK;
}

void token_list_release(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}
