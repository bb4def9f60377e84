/* See plan_parts.h. */
#include "tui/command/plan_parts.h"

#include "core/model/param_group.h"

void parts_print_groups(struct output *out, const struct config *c, const struct plan *plan)
{
    struct param_share shares[PARAM_SHARES_MAX];
    int count = param_groups_share(&c->groups, plan->input.model, c->train.weight_decay, shares);
    if (!c->groups.count && !out->json) return;
    output_list(out, "param_groups", "parameter groups");
    for (int i = 0; i < count; i++) {
        output_item(out);
        output_text(out, "name", shares[i].name);
        output_text(out, "match", shares[i].match);
        output_whole(out, "tensors", shares[i].tensors);
        output_whole(out, "parameters", shares[i].parameters);
        output_real(out, "weight_decay", shares[i].weight_decay);
        output_real(out, "lr_scale", shares[i].lr_scale);
    }
    output_list_end(out);
}

void parts_print_categories(struct output *out, const struct plan *plan)
{
    output_open(out, "categories", "categories");
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan_has_category(plan, (enum plan_category)i))
            output_bytes(out, plan_category_name((enum plan_category)i), (int64_t)plan->category_bytes[i]);
    output_close(out);
}
