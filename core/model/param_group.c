/* See param_group.h. */
#include "core/model/param_group.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "core/model/adapter.h"

/* The group that applies to a parameter; NULL: none. */
static const struct param_group *find_group(const struct param_groups *groups, const struct param *param)
{
    for (int i = 0; i < groups->count; i++)
        if (fnmatch(groups->at[i].match, param->name, 0) == 0) return &groups->at[i];
    return NULL;
}

static bool keeps_still(const struct param_group *group)
{
    return group && group->lr_scale == 0;
}

struct rule {
    double lr_scale, weight_decay;
};

/* How one parameter is updated. */
static struct rule rule_of(const struct param_group *group, const struct param *param,
                           struct update_defaults defaults)
{
    struct rule rule = {param->orthogonal ? defaults.muon_lr_scale : 1,
                        param->cols ? defaults.weight_decay : 0};
    if (group) rule.lr_scale *= group->lr_scale;
    if (group && !isnan(group->weight_decay)) rule.weight_decay = group->weight_decay;
    return rule;
}

int param_groups_share(const struct param_groups *groups, const struct model *model,
                       struct update_defaults defaults, struct param_share out[PARAM_SHARES_MAX])
{
    struct param_share shares[PARAM_SHARES_MAX] = {0};
    int count = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        const struct param_group *group = find_group(groups, param);
        bool base = param->frozen && !keeps_still(group);
        bool decays = group && !isnan(group->weight_decay), vector = !param->cols && !decays;
        bool muon = param->orthogonal;
        int kind = vector ? 1 : muon ? 2 : 0;
        ptrdiff_t place = group ? group - groups->at : groups->count;
        struct param_share *share = &shares[base ? PARAM_SHARES_MAX - 1 : 3 * place + kind];
        share->name = base     ? "frozen base"
                      : group  ? group->name
                      : vector ? "other vectors"
                      : muon   ? "matrices of layers"
                               : "other matrices";
        share->match = group && !base ? group->match : "";
        share->tensors++;
        share->parameters += (int64_t)param->count;
        share->muon = muon;
        struct rule rule = rule_of(group, param, defaults);
        share->lr_scale = base ? 0 : rule.lr_scale;
        share->weight_decay = base ? 0 : rule.weight_decay;
    }
    for (int i = 0; i < PARAM_SHARES_MAX; i++)
        if (shares[i].name) out[count++] = shares[i];
    return count;
}

/* STATUS_USAGE if a group applies to no parameter. */
static enum status check_used(const struct param_groups *groups, const struct model *model, struct err *err)
{
    bool used[PARAM_GROUPS_MAX] = {0};
    size_t last = model->param_count - 1;
    for (size_t i = 0; i <= last; i++) {
        const struct param_group *group = find_group(groups, &model->params[i]);
        if (group) used[group - groups->at] = true;
    }
    for (int i = 0; i < groups->count; i++)
        if (!used[i])
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
    /* beside a base, what is trained is what is saved: there a rate of 0 keeps it as it is */
    bool frozen =
        f->model->adapter.rank ? !adapter_trains(f->model, param) : keeps_still(find_group(f->groups, param));
    if (frozen) *element = storage_element(f->storage, param);
    return frozen;
}

/* Chooses the matrices that Muon updates. */
static enum status choose_orthogonal(const struct param_groups *groups, enum optimizer_kind optimizer,
                                     struct model *model, struct err *err)
{
    bool muon = optimizer == OPTIMIZER_MUON;
    for (size_t i = 0; i < model->param_count; i++) {
        struct param *p = &model->params[i];
        const struct param_group *group = find_group(groups, p);
        enum group_optimizer chosen = group ? group->optimizer : GROUP_OPTIMIZER_AUTO;
        bool hidden = p->cols && p != model->embed && p != model->head.parts;
        if (chosen != GROUP_OPTIMIZER_AUTO && !muon)
            return err_set(
                err, STATUS_USAGE,
                "param_group.%s.optimizer: only train.optimizer = muon has two rules (this run has %s)",
                group->name, optimizer_kind_word(optimizer));
        if (chosen == GROUP_OPTIMIZER_MUON && !hidden)
            return err_set(err, STATUS_USAGE,
                           "param_group.%s.optimizer = muon: matches %s, %s; Muon updates matrices of layers "
                           "(choose a narrower match)",
                           group->name, p->name, p->cols ? "embedding or head" : "a vector");
        p->orthogonal = muon && hidden && chosen != GROUP_OPTIMIZER_ADAMW;
    }
    return STATUS_OK;
}

enum status param_groups_freeze(const struct param_groups *groups, enum optimizer_kind optimizer,
                                struct model *model, const struct storage *storage, struct err *err)
{
    enum status status = check_used(groups, model, err);
    if (!status) status = choose_orthogonal(groups, optimizer, model, err);
    if (status) return status;
    model_freeze(model, is_frozen, &(struct freezing){groups, model, storage});
    for (size_t i = 0; i < model->param_count; i++)
        if (!model->params[i].frozen && !keeps_still(find_group(groups, &model->params[i]))) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "param_group.%s.lr_scale = 0: nothing is left to train, as the groups freeze all parameters",
        groups->at[groups->count - 1].name);
}

/* Writes the ranges of the orthogonal parameters, or of all others, which end at element `end`. */
static int add_ranges(const struct param_groups *groups, const struct model *model,
                      struct update_defaults defaults, bool orthogonal, size_t end, struct update_range *out)
{
    int n = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        if (param->frozen || param->orthogonal != orthogonal) continue;
        struct rule rule = rule_of(find_group(groups, param), param, defaults);
        struct update_range range = {.lr_scale = (float)rule.lr_scale,
                                     .weight_decay = (float)rule.weight_decay},
                            *before = n ? &out[n - 1] : NULL;
        bool alike =
            before && before->lr_scale == range.lr_scale && before->weight_decay == range.weight_decay;
        /* the gaps are zero and stay zero in any range */
        if (before) before->end = param->offset;
        if (!alike) out[n++] = range;
    }
    if (n) out[n - 1].end = end;
    return n;
}

int param_groups_ranges(const struct param_groups *groups, const struct model *model,
                        struct update_defaults defaults, struct update_range *out)
{
    int n = add_ranges(groups, model, defaults, false, model->elementwise, out);
    n += add_ranges(groups, model, defaults, true, model->elements, out + n);
    assert(n > 0);
    return n;
}
