/* See storage.h. */
#include "core/model/storage.h"

#include <string.h>

#include "core/base/text.h"

bool storage_is_bf16(const struct safetensors *file, const struct param *param)
{
    const struct safetensor *t = file && param->cols ? safetensors_find(file, param->name) : NULL;
    return t && strcmp(t->dtype, "BF16") == 0;
}

enum status storage_check(const struct storage *s, struct err *err)
{
    bool bf16 = s->computed == ELEMENT_BF16;
    if (s->base == LORA_BASE_FP32 && bf16)
        return err_set(
            err, STATUS_USAGE,
            "lora.base = fp32: matrix products in bf16 take no other weights (set train.precision = "
            "fp32 or tf32, or lora.base = bf16 or nf4)");
    if (s->base == LORA_BASE_BF16 && !bf16 && !s->mixes)
        return err_set(
            err, STATUS_USAGE,
            "lora.base = bf16: in fp32 this device takes no weights in bf16 (set train.precision = "
            "bf16, or lora.base = fp32 or nf4)");
    return STATUS_OK;
}

enum element storage_element(const struct storage *s, const struct param *param)
{
    enum element narrow = s->mixes ? ELEMENT_BF16 : s->computed;
    if (!param->cols || param_is_adapter(param) || s->base == LORA_BASE_FP32) return s->computed;
    if (s->base == LORA_BASE_AUTO && !storage_is_bf16(s->file, param)) return s->computed;
    if (s->base == LORA_BASE_NF4 && text_ends_with(param->name, "_proj.weight"))
        return s->nested ? ELEMENT_NF4_NESTED : ELEMENT_NF4;
    return narrow;
}
