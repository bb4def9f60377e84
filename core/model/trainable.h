/* Chooses what a run trains: all parameters, those of the parameter groups with a learning rate, or with
 * [lora] the adapters beside a frozen model. */
#ifndef ANNEAL_CORE_MODEL_TRAINABLE_H
#define ANNEAL_CORE_MODEL_TRAINABLE_H

#include "core/base/err.h"
#include "core/model/config.h"
#include "core/model/storage.h"

/* After model_init: adds the adapters that the configuration asks for and freezes what is not trained. The
 * matrices of a base that is BF16 in model.from stay bf16 if the device mixes elements; everything else that
 * is frozen is stored in `computed`. Sets model->base. STATUS_USAGE: nothing is left to train, a group
 * applies to no parameter, an adapter does not fit (adapter_attach), or a key of [lora] is set while
 * lora.rank is 0. Other errors: the files of model.from cannot be read; with lora.rank 0 they are not. */
enum status trainable_choose(struct model *model, const struct config *config, enum element computed,
                             bool mixes, struct err *err);

/* Before config_finish: if lora.from is a folder of adapters, or model.from, which then becomes their base
 * and lora.from their folder, sets the other keys of [lora], data.tokenizer and classifier.pooling as the
 * adapters have them. A lora.from that does not exist is left as it is: a resumed run takes its adapters from
 * a checkpoint.
 * STATUS_USAGE: lora.from exists but holds no adapters, model.from is empty or names other adapters, a key
 * has another value than they, the keys cannot say what they are, or there is no model in the folder that
 * they name as their base. */
enum status trainable_follow_adapters(struct config *config, struct err *err);

#endif
