/* See param_group.h. */
#include "core/model/param_group.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "core/model/adapter.h"

/* The index of the group that applies to a parameter; -1: none. */
static int find_group(const struct param_groups *groups, const char *param)
{
    for (int i = 0; i < groups->count; i++)
        if (fnmatch(groups->at[i].match, param, 0) == 0) return i;
    return -1;
}

/* How one parameter is updated; the caller sets `end`. */
static struct update_range range_of(const struct param_group *group, const struct param *param,
                                    double weight_decay)
{
    struct update_range range = {.lr_scale = 1, .weight_decay = param->cols ? (float)weight_decay : 0};
    if (group) range.lr_scale = (float)group->lr_scale;
    if (group && !isnan(group->weight_decay)) range.weight_decay = (float)group->weight_decay;
    return range;
}

int param_groups_share(const struct param_groups *groups, const struct model *model, double weight_decay,
                       struct param_share out[PARAM_SHARES_MAX])
{
    struct param_share shares[PARAM_SHARES_MAX] = {0};
    int count = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        int which = find_group(groups, param->name);
        const struct param_group *group = which < 0 ? NULL : &groups->at[which];
        bool base = param->frozen && !(group && group->lr_scale == 0);
        bool decays = group && !isnan(group->weight_decay), vector = !param->cols && !decays;
        struct param_share *share =
            &shares[base ? PARAM_SHARES_MAX - 1 : 2 * (which < 0 ? groups->count : which) + vector];
        share->name = base     ? "frozen base"
                      : group  ? group->name
                      : vector ? "other vectors"
                               : "other matrices";
        share->match = group && !base ? group->match : "";
        share->tensors++;
        share->parameters += (int64_t)param->count;
        share->lr_scale = base ? 0 : group ? group->lr_scale : 1;
        share->weight_decay = base ? 0 : decays ? group->weight_decay : vector ? 0 : weight_decay;
    }
    for (int i = 0; i < PARAM_SHARES_MAX; i++)
        if (shares[i].name) out[count++] = shares[i];
    return count;
}

/* STATUS_USAGE if a group applies to no parameter. */
static enum status check_used(const struct param_groups *groups, const struct model *model, struct err *err)
{
    size_t used[PARAM_GROUPS_MAX + 1] = {0}, last = model->param_count - 1;
    for (size_t i = 0; i <= last; i++) used[find_group(groups, model->params[i].name) + 1]++;
    for (int i = 0; i < groups->count; i++)
        if (!used[i + 1])
            return err_set(
                err, STATUS_USAGE,
                "param_group.%s.match = %s: matches no parameter of this model that is left by earlier "
                "groups (names are like %s, %s)",
                groups->at[i].name, groups->at[i].match, model->params[0].name, model->params[last].name);
    return STATUS_OK;
}

struct freezing {
    const struct param_groups *groups;
    const struct model *model;
    const struct storage *storage;
};

static bool is_frozen(const void *context, const struct param *param, enum element *element)
{
    const struct freezing *f = context;
    int which = find_group(f->groups, param->name);
    bool frozen = which >= 0 && f->groups->at[which].lr_scale == 0;
    frozen = frozen || (f->model->adapter.rank && !adapter_trains(f->model, param));
    if (frozen) *element = storage_element(f->storage, param);
    return frozen;
}

enum status param_groups_freeze(const struct param_groups *groups, struct model *model,
                                const struct storage *storage, struct err *err)
{
    enum status status = check_used(groups, model, err);
    if (status) return status;
    model_freeze(model, is_frozen, &(struct freezing){groups, model, storage});
    if (model->frozen_parameters < model->parameters) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "param_group.%s.lr_scale = 0: nothing is left to train, as the groups freeze all parameters",
        groups->at[groups->count - 1].name);
}

int param_groups_ranges(const struct param_groups *groups, const struct model *model, double weight_decay,
                        struct update_range *out)
{
    int n = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        if (param->frozen) continue;
        int which = find_group(groups, param->name);
        struct update_range range = range_of(which < 0 ? NULL : &groups->at[which], param, weight_decay),
                            *before = n ? &out[n - 1] : NULL;
        bool alike =
            before && before->lr_scale == range.lr_scale && before->weight_decay == range.weight_decay;
        /* the gaps are zero and stay zero in any range */
        if (before) before->end = param->offset;
        if (!alike) out[n++] = range;
    }
    assert(n > 0);
    out[n - 1].end = model->elements;
    return n;
}
