/* See token_set.h. */
#include "datasets/token_set.h"

#include <stdlib.h>
#include <string.h>

/* Files without a sidecar are taken on trust: whoever named them knows what wrote them. */
static enum status check_tokenizers(struct token_set *set, struct err *err)
{
    const struct token_file *known = NULL;
    const char *path = NULL;
    for (size_t i = 0; i < set->count; i++) {
        const struct token_file *file = &set->files[i];
        if (!file->tokenizer_checksum) continue;
        if (!known) {
            known = file;
            path = set->paths[i];
            set->described = i;
        } else if (file->tokenizer_checksum != known->tokenizer_checksum) {
            return err_set(
                err, STATUS_USAGE,
                "%.150s: was prepared with another tokenizer (%.50s) than %.150s (%.50s): one of the "
                "two must be prepared again",
                set->paths[i], *file->tokenizer ? file->tokenizer : "unnamed", path,
                *known->tokenizer ? known->tokenizer : "unnamed");
        }
    }
    return STATUS_OK;
}

enum status token_set_open(char *const *paths, size_t count, struct token_set *out, struct err *err)
{
    struct token_set set = {.files = calloc(count, sizeof *set.files),
                            .paths = calloc(count, sizeof *set.paths)};
    enum status status = STATUS_OK;
    if (!set.files || !set.paths)
        status = err_set(err, STATUS_NO_MEMORY, "not enough memory for %zu token files", count);
    for (; !status && set.count < count; set.count++) {
        if (!(set.paths[set.count] = strdup(paths[set.count])))
            status = err_set(err, STATUS_NO_MEMORY, "not enough memory for %zu token files", count);
        else
            status = token_file_open(paths[set.count], &set.files[set.count], err);
        set.tokens += set.files[set.count].count;
    }
    if (!status) status = check_tokenizers(&set, err);
    if (status)
        token_set_close(&set);
    else
        *out = set;
    return status;
}

void token_set_close(struct token_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        token_file_close(&set->files[i]);
        free(set->paths[i]);
    }
    free(set->files);
    free(set->paths);
    *set = (struct token_set){0};
}

uint32_t token_set_measure(struct token_set *set)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < set->count; i++) {
        token_file_measure(&set->files[i]);
        uint32_t own = token_file_largest(&set->files[i]);
        largest = own > largest ? own : largest;
    }
    return largest;
}

enum status token_set_check(const struct token_set *set, uint32_t vocab_size, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < set->count; i++)
        status = token_file_check(&set->files[i], set->paths[i], vocab_size, err);
    return status;
}
