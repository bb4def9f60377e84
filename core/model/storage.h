/* The type in which a frozen parameter is stored. */
#ifndef ANNEAL_CORE_MODEL_STORAGE_H
#define ANNEAL_CORE_MODEL_STORAGE_H

#include "core/model/model.h"
#include "core/model/safetensors.h"

struct storage {
    const struct safetensors *file; /* the weights that will be loaded; NULL: unknown */
    enum element computed;          /* of the stream's precision */
    bool mixes;                     /* the device computes in fp32 with matrices in bf16, too */
};

/* BF16 matrices of the file stay bf16 if the device mixes elements; all else is stored in the precision, so
 * that no weight is rounded in fp32. */
enum element storage_element(const struct storage *storage, const struct param *param);

/* Whether the file has the parameter as a BF16 matrix. */
bool storage_is_bf16(const struct safetensors *file, const struct param *param);

#endif
