/* Parameter groups: sections [param_group.NAME] of the configuration, which give the parameters that a
 * pattern chooses by their Hugging Face names a weight decay and a scale of the learning rate of their own.
 * Groups are asked in the order of the file, and the first whose pattern matches a name has it; what no group
 * has is updated as without groups: matrices decay by train.weight_decay, vectors do not, all at the full
 * rate.
 *
 * A pattern is a shell's: * any letters, ? one, [qk] one of these. Names and not layouts count: q_proj,
 * k_proj and v_proj lie in one packed matrix and may still be in three groups.
 *
 * Does not touch a device: core/train/optimizer.h carries the ranges that come out of this there. */
#ifndef ANNEAL_CORE_MODEL_PARAM_GROUP_H
#define ANNEAL_CORE_MODEL_PARAM_GROUP_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/model/model.h"
#include "kernels/device/backend.h"

enum { PARAM_GROUPS_MAX = 32 };

/* config.def lists the fields that keys set. */
struct param_group {
    char name[32];       /* letters, digits, - and _ */
    char match[128];     /* "" until it is given */
    double weight_decay; /* decoupled, times the scaled learning rate; NaN: as without the group */
    double lr_scale;     /* of the learning rate. 0 freezes */
};

struct param_groups {
    struct param_group at[PARAM_GROUPS_MAX]; /* in the order of the file */
    int count;
};

/* The share of a model that a group has, or without a group all other matrices or vectors. */
struct param_share {
    const char *name, *match; /* borrowed; match is "" where no group has them */
    int64_t tensors, parameters;
    double weight_decay, lr_scale;
};
enum { PARAM_SHARES_MAX = PARAM_GROUPS_MAX * 2 + 2 };

/* Lists who is updated how: groups in their order, then what is in none. A group that inherits its decay and
 * has matrices and vectors is two entries. Returns how many. */
int param_groups_share(const struct param_groups *groups, const struct model *model, double weight_decay,
                       struct param_share out[PARAM_SHARES_MAX]);

/* Freezes the parameters of groups whose lr_scale is 0. STATUS_USAGE: a group has no parameter, because none
 * has such a name, or earlier groups have them all; or nothing would be left to train. */
enum status param_groups_freeze(const struct param_groups *groups, struct model *model, struct err *err);

/* The model's trainable arena as stretches that are updated alike, neighbours that do not differ as one:
 * fills `out`, of at least model->param_count entries, the last of which ends at model->elements; returns how
 * many. */
int param_groups_ranges(const struct param_groups *groups, const struct model *model, double weight_decay,
                        struct update_range *out);

#endif
