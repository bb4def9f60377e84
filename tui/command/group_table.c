/* See group_table.h. */
#include "tui/command/group_table.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/text.h"
#include "core/model/param_group.h"

void group_table_print(const struct config *c, const struct model *model)
{
    struct param_share shares[PARAM_SHARES_MAX];
    char parameters[32];
    int count = param_groups_share(&c->groups, model, c->train.weight_decay, shares);
    if (!c->groups.count) return;
    printf("\n%-16s %-28s %8s %11s %13s %9s\n", "parameter group", "match", "tensors", "parameters",
           "weight_decay", "lr_scale");
    for (int i = 0; i < count; i++)
        printf("%-16s %-28s %8" PRId64 " %11s %13g %9g%s\n", shares[i].name, shares[i].match,
               shares[i].tensors,
               text_format_count((double)shares[i].parameters, parameters, sizeof parameters),
               shares[i].weight_decay, shares[i].lr_scale, shares[i].lr_scale == 0 ? "  frozen" : "");
}

json_t *group_table_json(const struct config *c, const struct model *model)
{
    struct param_share shares[PARAM_SHARES_MAX];
    json_t *groups = json_array();
    int count = param_groups_share(&c->groups, model, c->train.weight_decay, shares);
    for (int i = 0; i < count; i++)
        json_array_append_new(groups,
                              json_pack("{s:s, s:s, s:I, s:I, s:f, s:f}", "name", shares[i].name, "match",
                                        shares[i].match, "tensors", (json_int_t)shares[i].tensors,
                                        "parameters", (json_int_t)shares[i].parameters, "weight_decay",
                                        shares[i].weight_decay, "lr_scale", shares[i].lr_scale));
    return groups;
}
