/* See storage.h. */
#include "core/model/storage.h"

#include <string.h>

bool storage_is_bf16(const struct safetensors *file, const struct param *param)
{
    const struct safetensor *t = file && param->cols ? safetensors_find(file, param->name) : NULL;
    return t && strcmp(t->dtype, "BF16") == 0;
}

enum element storage_element(const struct storage *s, const struct param *param)
{
    return s->mixes && storage_is_bf16(s->file, param) ? ELEMENT_BF16 : s->computed;
}
