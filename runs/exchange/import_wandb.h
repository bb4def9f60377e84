/* Private to runs/exchange: the parts of wandb's records that have a key and a value as JSON, and the
 * configuration, which is made of such. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_WANDB_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_WANDB_H

#include <jansson.h>

#include "runs/exchange/import_stage.h"
#include "runs/exchange/protobuf.h"

enum { ITEM_KEY_MAX = 512 /* bytes of a key, also of a nested one */ };

struct wandb_item {
    char key[ITEM_KEY_MAX]; /* the parts of a nested one are joined by dots */
    struct protobuf json;   /* empty: none */
    double number;          /* NaN is a number, too: see is_number */
    bool is_number;
};

struct wandb_item wandb_item_read(struct protobuf message);

/* The value of an item; what Python writes that is no JSON becomes a string, also integers that are too
 * large. NULL: it has none, or memory is short. Yours to json_decref. */
json_t *wandb_item_value(const struct wandb_item *item);

/* Applies a record of the configuration: an object of the values by key, each of which replaces the earlier
 * one whole. False: memory is short. */
bool wandb_config_update(json_t *config, struct protobuf record);

/* Stages the configuration as keys wandb.NAME; the members of objects as wandb.NAME.MEMBER. */
enum status wandb_config_stage(struct import *import, json_t *config);

#endif
