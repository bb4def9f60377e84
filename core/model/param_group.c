/* See param_group.h. */
#include "core/model/param_group.h"

#include <assert.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/text.h"

static const char *const key_names[PARAM_GROUP_KEYS] = {"match", "weight_decay", "lr_scale"};
enum { KEY_MATCH, KEY_DECAY, KEY_SCALE };

/* ---- keys ---- */

/* The number of the key behind the last dot; -1: no key. *length is that of the group's name. */
static int split_key(const char *key, size_t *length)
{
    const char *dot = strrchr(key, '.');
    *length = dot ? (size_t)(dot - key) : 0;
    for (int i = 0; dot && i < PARAM_GROUP_KEYS; i++)
        if (strcmp(dot + 1, key_names[i]) == 0) return i;
    return -1;
}

static int find_name(const struct param_groups *groups, const char *name, size_t length)
{
    for (int i = 0; i < groups->count; i++)
        if (strlen(groups->at[i].name) == length && memcmp(groups->at[i].name, name, length) == 0) return i;
    return -1;
}

static bool name_allowed(const char *name, size_t length)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return length > 0 && length < sizeof((struct param_group){0}).name && strspn(name, allowed) == length;
}

static enum status unknown_key(const char *key, struct err *err)
{
    const char *dot = strrchr(key, '.'),
               *nearest = text_nearest(dot ? dot + 1 : key, key_names, PARAM_GROUP_KEYS);
    return err_set(
        err, STATUS_USAGE,
        "unknown key param_group.%.100s (%s%s%sa group is [param_group.NAME] with match, weight_decay, "
        "lr_scale)",
        key, nearest ? "did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
}

static enum status set_match(struct param_group *group, const char *value, struct err *err)
{
    if (!*value || strlen(value) >= sizeof group->match || strchr(value, '\n'))
        return err_set(err, STATUS_USAGE,
                       "param_group.%s.match = %.100s: must be a pattern of 1 to %zu bytes, as *norm*",
                       group->name, value, sizeof group->match - 1);
    strcpy(group->match, value);
    return STATUS_OK;
}

/* Bounds as those of train.weight_decay; a scale as large as a learning rate may become. */
static enum status set_number(struct param_group *group, int key, const char *value, struct err *err)
{
    double number, most = key == KEY_DECAY ? 100 : 1000;
    bool inherits = key == KEY_DECAY && strcmp(value, "inherit") == 0;
    if (inherits) {
        group->decays = false;
        group->weight_decay = 0;
        return STATUS_OK;
    }
    if (!text_parse_double(value, &number) || !(number >= 0 && number <= most))
        return err_set(err, STATUS_USAGE, "param_group.%s.%s = %.100s: must be a number from 0 to %g%s",
                       group->name, key_names[key], value, most, key == KEY_DECAY ? ", or inherit" : "");
    *(key == KEY_DECAY ? &group->weight_decay : &group->lr_scale) = number;
    if (key == KEY_DECAY) group->decays = true;
    return STATUS_OK;
}

enum status param_groups_set(struct param_groups *groups, const char *key, const char *value, struct err *err)
{
    size_t length;
    int which = split_key(key, &length), index = find_name(groups, key, length);
    if (which < 0) return unknown_key(key, err);
    if (!name_allowed(key, length))
        return err_set(err, STATUS_USAGE,
                       "param_group.%.100s: a group's name has 1 to %zu letters, digits, - and _", key,
                       sizeof groups->at[0].name - 1);
    if (index < 0 && groups->count == PARAM_GROUPS_MAX)
        return err_set(err, STATUS_USAGE, "param_group.%.100s: more than %d groups", key, PARAM_GROUPS_MAX);
    struct param_group group = {.lr_scale = 1};
    if (index >= 0)
        group = groups->at[index];
    else
        memcpy(group.name, key, length);
    enum status status =
        which == KEY_MATCH ? set_match(&group, value, err) : set_number(&group, which, value, err);
    if (status) return status;
    groups->at[index >= 0 ? index : groups->count++] = group;
    return STATUS_OK;
}

enum status param_groups_check(const struct param_groups *groups, struct err *err)
{
    for (int i = 0; i < groups->count; i++) {
        const struct param_group *group = &groups->at[i];
        if (!*group->match)
            return err_set(err, STATUS_USAGE,
                           "param_group.%s: has no match (say which parameters it is for, as match = *norm*)",
                           group->name);
        for (int k = 0; k < i; k++)
            if (strcmp(group->match, groups->at[k].match) == 0)
                return err_set(
                    err, STATUS_USAGE,
                    "param_group.%s.match = %s: param_group.%s has the same pattern (make them one group)",
                    group->name, group->match, groups->at[k].name);
    }
    return STATUS_OK;
}

static void format_value(const struct param_group *group, int key, char *buf, size_t size)
{
    char number[32];
    if (key == KEY_MATCH)
        snprintf(buf, size, "%s", group->match);
    else if (key == KEY_DECAY && !group->decays)
        snprintf(buf, size, "inherit");
    else
        snprintf(buf, size, "%s",
                 text_format_double(key == KEY_DECAY ? group->weight_decay : group->lr_scale, number,
                                    sizeof number));
}

bool param_groups_get(const struct param_groups *groups, const char *key, char *buf, size_t size)
{
    size_t length;
    int which = split_key(key, &length), index = find_name(groups, key, length);
    if (which < 0 || index < 0) return false;
    format_value(&groups->at[index], which, buf, size);
    return true;
}

void param_groups_print(const struct param_groups *groups, FILE *out)
{
    char value[sizeof groups->at[0].match];
    for (int i = 0; i < groups->count; i++) {
        fprintf(out, "\n[param_group.%s]\n", groups->at[i].name);
        for (int key = 0; key < PARAM_GROUP_KEYS; key++) {
            format_value(&groups->at[i], key, value, sizeof value);
            fprintf(out, "%s = %s\n", key_names[key], value);
        }
    }
}

void param_groups_print_help(FILE *out)
{
    fputs(
        "\n[param_group.NAME]\n"
        "  any number of sections up to 32, each for the parameters that its pattern chooses; the first that "
        "matches has\n"
        "  a parameter, in the order of the file\n"
        "  match                                           pattern of Hugging Face names: *norm*, "
        "*.layers.0.*, "
        "*[qk]_proj*\n"
        "  weight_decay               default inherit       0..100|inherit\n"
        "      decoupled, of these alone; inherit: train.weight_decay for matrices, none for vectors\n"
        "  lr_scale                   default 1             0..1000  [of the learning rate]\n"
        "      0 freezes them: no gradients, no moments, no part in the gradient norm\n",
        out);
}

/* ---- what they come to ---- */

int param_groups_find(const struct param_groups *groups, const char *param)
{
    for (int i = 0; i < groups->count; i++)
        if (fnmatch(groups->at[i].match, param, 0) == 0) return i;
    return -1;
}

/* How one parameter is updated; its end is not set. */
static struct update_range range_of(const struct param_group *group, const struct param *param,
                                    double weight_decay)
{
    struct update_range range = {.lr_scale = 1, .weight_decay = param->cols ? (float)weight_decay : 0};
    if (group) range.lr_scale = (float)group->lr_scale;
    if (group && group->decays) range.weight_decay = (float)group->weight_decay;
    return range;
}

int param_groups_share(const struct param_groups *groups, const struct model *model, double weight_decay,
                       struct param_share out[PARAM_SHARES_MAX])
{
    struct param_share shares[PARAM_SHARES_MAX] = {0};
    int count = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        int which = param_groups_find(groups, param->name);
        const struct param_group *group = which < 0 ? NULL : &groups->at[which];
        bool vector = !param->cols && !(group && group->decays);
        struct param_share *share = &shares[2 * (which < 0 ? groups->count : which) + vector];
        share->name = group ? group->name : vector ? "other vectors" : "other matrices";
        share->match = group ? group->match : "";
        share->tensors++;
        share->parameters += (int64_t)param->count;
        share->lr_scale = group ? group->lr_scale : 1;
        share->weight_decay = group && group->decays ? group->weight_decay : vector ? 0 : weight_decay;
    }
    for (int i = 0; i < PARAM_SHARES_MAX; i++)
        if (shares[i].name) out[count++] = shares[i];
    return count;
}

/* A name without its wildcards, to look for its like. */
static void plain_pattern(const char *pattern, char *buf, size_t size)
{
    size_t n = 0;
    for (; *pattern && n + 1 < size; pattern++)
        if (!strchr("*?[]", *pattern)) buf[n++] = *pattern;
    buf[n] = '\0';
}

/* Why a group has no parameter, with the names that its pattern may mean. */
static enum status refuse_empty(const struct param_groups *groups, int which, const struct model *model,
                                struct err *err)
{
    const struct param_group *group = &groups->at[which];
    const char *parts[] = {"embed_tokens",
                           "lm_head",
                           "q_proj",
                           "k_proj",
                           "v_proj",
                           "o_proj",
                           "gate_proj",
                           "up_proj",
                           "down_proj",
                           "input_layernorm",
                           "post_attention_layernorm",
                           "q_norm",
                           "k_norm",
                           "model.norm",
                           "self_attn",
                           "mlp",
                           "weight",
                           "bias"};
    char plain[sizeof group->match];
    for (size_t i = 0; i < model->param_count; i++) {
        if (fnmatch(group->match, model->params[i].name, 0) != 0) continue;
        return err_set(
            err, STATUS_USAGE,
            "param_group.%s.match = %s: earlier groups have all that it matches, %s among them, which "
            "is in %s (put the narrower pattern first)",
            group->name, group->match, model->params[i].name,
            groups->at[param_groups_find(groups, model->params[i].name)].name);
    }
    plain_pattern(group->match, plain, sizeof plain);
    const char *nearest = text_nearest(plain, parts, sizeof parts / sizeof *parts);
    const struct param *first = &model->params[0], *last = &model->params[model->param_count - 1];
    if (nearest)
        return err_set(err, STATUS_USAGE,
                       "param_group.%s.match = %s: matches no parameter of this model (did you mean *%s*?)",
                       group->name, group->match, nearest);
    return err_set(
        err, STATUS_USAGE,
        "param_group.%s.match = %s: matches no parameter of this model (they are named as %s, %s, %s)",
        group->name, group->match, first->name, model->params[model->config.tie_weights ? 1 : 2].name,
        last->name);
}

enum status param_groups_check_model(const struct param_groups *groups, const struct model *model,
                                     struct err *err)
{
    for (int i = 0; i < groups->count; i++) {
        bool any = false;
        for (size_t k = 0; !any && k < model->param_count; k++)
            any = param_groups_find(groups, model->params[k].name) == i;
        if (!any) return refuse_empty(groups, i, model, err);
    }
    return STATUS_OK;
}

static bool is_frozen(const void *context, const struct param *param)
{
    const struct param_groups *groups = context;
    int which = param_groups_find(groups, param->name);
    return which >= 0 && groups->at[which].lr_scale == 0;
}

enum status param_groups_freeze(const struct param_groups *groups, struct model *model, struct err *err)
{
    enum status status = param_groups_check_model(groups, model, err);
    if (status) return status;
    model_freeze(model, is_frozen, groups);
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
        int which = param_groups_find(groups, param->name);
        struct update_range range = range_of(which < 0 ? NULL : &groups->at[which], param, weight_decay),
                            *before = n ? &out[n - 1] : NULL;
        bool alike =
            before && before->lr_scale == range.lr_scale && before->weight_decay == range.weight_decay;
        /* the gaps between are zero and stay so in whatever range they are */
        if (before) before->end = param->offset;
        if (!alike) out[n++] = range;
    }
    assert(n > 0);
    out[n - 1].end = model->elements;
    return n;
}
