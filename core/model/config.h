/* The configuration of a run: INI text, command-line words `--section.key=value`, defaults; every key
 * declared once in core/model/config.def with its default, unit and check; sections [param_group.NAME], of
 * which there may be any number, are core/model/param_group.h's. An unknown key or a bad value is one
 * sentence that names the file, the line, the key, what is accepted, and the nearest known name. */
#ifndef ANNEAL_CORE_MODEL_CONFIG_H
#define ANNEAL_CORE_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"
#include "core/model/model.h"
#include "core/model/param_group.h"

enum { CONFIG_TEXT_MAX = 1024, CONFIG_KEY_MAX = 96 };
enum { CONFIG_MICRO_BATCH_TOKENS = 1 << 26 }; /* the most that train.batch_size x train.seq_len may be */

/* Field names are the keys; see config.def for units and defaults. */
struct config {
    struct {
        char preset[32], from[CONFIG_TEXT_MAX];
        struct model_config sizes; /* of the preset or the folder, less what keys override */
    } model;
    struct {
        char train[CONFIG_TEXT_MAX], val[CONFIG_TEXT_MAX], tokenizer[CONFIG_TEXT_MAX], shuffle[16];
        double val_fraction;
        int64_t padding;
    } data;
    struct {
        int64_t batch_size, seq_len, accumulation_steps, total_steps, warmup_steps, seed, threads;
        char optimizer[16], schedule[24], precision[8], loss[8];
        double learning_rate, min_lr_factor, weight_decay, beta1, beta2, adam_eps, max_grad_norm, dropout;
        bool async;
        char graph[8];
    } train;
    struct {
        int64_t every, batches, early_stopping_patience;
        double early_stopping_min_delta;
        bool at_epoch_end;
    } eval;
    struct {
        int64_t every, keep, activation_interval;
        bool background;
        char contents[16];
    } checkpoint;
    struct {
        char allocator[8];
        double reserve; /* NaN: auto */
    } memory;
    struct {
        int64_t every, warmup_steps, trace_step;
    } profile;
    struct {
        int64_t every, max_tokens, top_k;
        double temperature;
        char prompt[CONFIG_TEXT_MAX];
    } sample;
    struct {
        char on_nan[8];
        int64_t plateau_steps;
        double loss_spike, plateau_delta, throughput_drop, starvation;
    } health;
    struct param_groups groups; /* [param_group.NAME], in the order of the file */
    bool set[CONFIG_KEY_MAX];   /* private: given by a file or the command line, by key number */
};

/* All defaults. */
void config_init(struct config *config);

/* Reads INI text from a file. */
enum status config_read_file(struct config *config, const char *path, struct err *err);

/* Reads what config_text wrote: its canonical lines, values verbatim and of any length. `name` is for
 * messages. */
enum status config_read_effective(struct config *config, const char *text, const char *name, struct err *err);

/* One word "section.key=value" (leading "--" allowed). */
enum status config_read_word(struct config *config, const char *word, struct err *err);

/* After all input: applies the preset under the keys that were given, fills what follows from other keys
 * (head_dim, betas of the optimizer), and checks what concerns several keys. */
enum status config_finish(struct config *config, struct err *err);

enum { CONFIG_WARNINGS_MAX = 3, CONFIG_WARNING_SIZE = 200 };
/* What a finished configuration says without effect, a sentence each; returns how many. */
int config_warnings(const struct config *config, char out[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE]);

/* The most that a whole number "section.key" may be, whatever the others are; 0: there is no such key. */
int64_t config_most(const char *key);

/* The complete effective configuration as INI text, yours to free; config_read_effective
 * gives an equal configuration. */
char *config_text(const struct config *config);

/* All keys with default, unit, accepted values and a sentence each: `anneal train --help-config`. */
void config_print_help(FILE *out);

/* The value of "section.key" as text; false for an unknown key. For the workbench's form and for comparisons.
 */
bool config_get(const struct config *config, const char *key, char *buf, size_t size);

#endif
