/* See plan_parts.h. */
#include "tui/command/plan_parts.h"

#include "core/base/text.h"
#include "core/model/param_group.h"

void parts_print_groups(struct output *out, const struct config *c, const struct plan *plan)
{
    struct param_share shares[PARAM_SHARES_MAX];
    int count = param_groups_share(&c->groups, plan->input.model, c->train.weight_decay, shares);
    if (!c->groups.count && !out->json) return;
    output_list(out, "param_groups", "parameter groups");
    for (int i = 0; i < count; i++) {
        output_item(out);
        OUTPUT_MEMBERS(out, "name", shares[i].name, "match", shares[i].match, "tensors", shares[i].tensors,
                       "parameters", shares[i].parameters, "weight_decay", shares[i].weight_decay, "lr_scale",
                       shares[i].lr_scale);
    }
    output_list_end(out);
}

void parts_print_bytes(struct output *out, const char *name, size_t bytes)
{
    if (out->json)
        output_whole(out, name, (int64_t)bytes);
    else
        output_text(out, name, TEXT_BYTES(bytes));
}

void parts_print_categories(struct output *out, const struct plan *plan)
{
    output_open(out, "categories", "categories");
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan_has_category(plan, (enum plan_category)i))
            parts_print_bytes(out, plan_category_name((enum plan_category)i), plan->category_bytes[i]);
    output_close(out);
}
