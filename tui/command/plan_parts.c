/* See plan_parts.h. */
#include "tui/command/plan_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/text.h"
#include "core/model/param_group.h"

void parts_print_groups(const struct config *c, const struct model *model)
{
    struct param_share shares[PARAM_SHARES_MAX];
    int count = param_groups_share(&c->groups, model, c->train.weight_decay, shares);
    if (!c->groups.count) return;
    printf("\n%-16s %-28s %8s %11s %13s %9s\n", "parameter group", "match", "tensors", "parameters",
           "weight_decay", "lr_scale");
    for (int i = 0; i < count; i++)
        printf("%-16s %-28s %8" PRId64 " %11s %13g %9g%s\n", shares[i].name, shares[i].match,
               shares[i].tensors, TEXT_COUNT((double)shares[i].parameters), shares[i].weight_decay,
               shares[i].lr_scale, shares[i].lr_scale == 0 ? "  frozen" : "");
}

void parts_print_groups_json(struct json_out *json, const struct config *c, const struct model *model)
{
    struct param_share shares[PARAM_SHARES_MAX];
    int count = param_groups_share(&c->groups, model, c->train.weight_decay, shares);
    json_out_open(json, "param_groups", '[', JSON_OUT_LINES);
    for (int i = 0; i < count; i++) {
        json_out_open(json, NULL, '{', JSON_OUT_LINES);
        JSON_MEMBERS(json, "name", shares[i].name, "match", shares[i].match, "tensors", shares[i].tensors,
                     "parameters", shares[i].parameters, "weight_decay", shares[i].weight_decay, "lr_scale",
                     shares[i].lr_scale);
        json_out_close(json);
    }
    json_out_close(json);
}

void parts_print_categories_json(struct json_out *json, const struct plan *plan)
{
    json_out_open(json, "categories", '{', JSON_OUT_LINES);
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan_has_category(plan, (enum plan_category)i))
            json_out_int(json, plan_category_name((enum plan_category)i), (int64_t)plan->category_bytes[i]);
    json_out_close(json);
}
