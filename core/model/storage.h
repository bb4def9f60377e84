/* The type in which a frozen parameter is stored. */
#ifndef ANNEAL_CORE_MODEL_STORAGE_H
#define ANNEAL_CORE_MODEL_STORAGE_H

#include "core/model/choices.h"
#include "core/model/model.h"
#include "core/model/safetensors.h"

struct storage {
    const struct safetensors *file; /* the weights that will be loaded; NULL: unknown */
    enum element computed;          /* of the stream's precision */
    bool mixes;                     /* the device computes in fp32 with matrices in bf16, too */
    enum lora_base base;            /* of the model beside adapters */
    bool nested;                    /* NF4 with nested scales */
};

/* STATUS_USAGE: the device does not compute with matrices of the type that `base` names. */
enum status storage_check(const struct storage *storage, struct err *err);

/* LORA_BASE_AUTO: BF16 matrices of the file stay bf16 if the device mixes elements; all else is stored in the
 * precision, so that no weight is rounded in fp32.
 * LORA_BASE_FP32: the precision, which is fp32.
 * LORA_BASE_BF16: matrices in bf16.
 * LORA_BASE_NF4: the projections of the layers in NF4; other matrices in bf16 if the device computes with
 * them, else in the precision.
 * Vectors and the matrices of adapters are always stored in the precision. */
enum element storage_element(const struct storage *storage, const struct param *param);

/* Whether the file has the parameter as a BF16 matrix. */
bool storage_is_bf16(const struct safetensors *file, const struct param *param);

#endif
