/* Parameter groups: sections [param_group.NAME] of the configuration. Each selects parameters by a pattern on
 * their Hugging Face names and gives them their own weight decay and learning-rate scale. Of several groups
 * that match a name, the first one in the file applies. Parameters without a group are updated as usual:
 * matrices decay by train.weight_decay, vectors do not, all at the full rate.
 *
 * A pattern is a shell pattern: * any letters, ? one letter, [qk] one of these. Only names count, not
 * layouts: q_proj, k_proj and v_proj are parts of one packed matrix and may still be in three groups.
 *
 * Nothing here touches a device: core/train/optimizer.h uploads the resulting ranges. */
#ifndef ANNEAL_CORE_MODEL_PARAM_GROUP_H
#define ANNEAL_CORE_MODEL_PARAM_GROUP_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/model/model.h"
#include "core/model/storage.h"
#include "kernels/device/backend.h"

enum { PARAM_GROUPS_MAX = 32 };

/* config.def lists the fields that keys set. */
struct param_group {
    char name[32];                  /* letters, digits, - and _ */
    char match[128];                /* "" until given */
    double weight_decay;            /* decoupled, times the scaled learning rate; NaN: inherited, see above */
    double lr_scale;                /* of the learning rate. 0 freezes */
    enum group_optimizer optimizer; /* with train.optimizer = muon: which of its two rules */
};

struct param_groups {
    struct param_group at[PARAM_GROUPS_MAX]; /* in the order of the file */
    int count;
};

/* How parameters that no group sets are updated. */
struct update_defaults {
    double weight_decay;  /* of matrices */
    double muon_lr_scale; /* of the learning rate, for orthogonal matrices; also times a group's lr_scale */
};

/* The parameters of a group, or all matrices or vectors without a group, and how they are updated. */
struct param_share {
    const char *name, *match; /* borrowed; match is "" without a group */
    int64_t tensors, parameters;
    double weight_decay, lr_scale;
    bool muon; /* updated by Muon, not by AdamW or Lion */
};
enum { PARAM_SHARES_MAX = PARAM_GROUPS_MAX * 3 + 4 };

/* Lists how parameters are updated: groups in their order, then the rest, last the frozen base of adapters. A
 * group that inherits its decay and has both matrices and vectors gives an entry for each, and one for
 * matrices that Muon updates. Returns the number of entries. */
int param_groups_share(const struct param_groups *groups, const struct model *model,
                       struct update_defaults defaults, struct param_share out[PARAM_SHARES_MAX]);

/* Freezes the parameters of groups whose lr_scale is 0, and of a model with adapters its base. With the
 * optimizer muon, the matrices of the layers become orthogonal, as far as no group chooses AdamW for them.
 * STATUS_USAGE: a group applies to no parameter, because no name matches or earlier groups match them all; it
 * chooses Muon for a vector, embedding or head; or nothing is left to train. */
enum status param_groups_freeze(const struct param_groups *groups, enum optimizer_kind optimizer,
                                struct model *model, const struct storage *storage, struct err *err);

/* The model's trainable arena as ranges that are updated alike, equal neighbours merged. Fills `out`, which
 * has room for model->param_count entries; the last one ends at model->elements, and one ends at
 * model->elementwise. Returns the number of entries. */
int param_groups_ranges(const struct param_groups *groups, const struct model *model,
                        struct update_defaults defaults, struct update_range *out);

#endif
