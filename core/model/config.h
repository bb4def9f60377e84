/* The configuration of a run: INI text, command-line words `--section.key=value`, and defaults. Every key is
 * declared once, in core/model/config.def, with its default, unit and check. Sections [param_group.NAME], any
 * number of them, are described in core/model/param_group.h. The error for an unknown key or a bad value
 * names the file, the line, the key, the accepted values and the nearest known name. */
#ifndef ANNEAL_CORE_MODEL_CONFIG_H
#define ANNEAL_CORE_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"
#include "core/model/choices.h"
#include "core/model/model.h"
#include "core/model/param_group.h"
#include "datasets/batch.h"

enum { CONFIG_TEXT_MAX = 1024, CONFIG_KEY_MAX = 160 };
enum { CONFIG_BATCH_SIZE_MOST = 65535 };
enum { CONFIG_MICRO_BATCH_TOKENS = 1 << 26 }; /* the most that train.batch_size x train.seq_len may be */
enum { CONFIG_PLATEAU_STEPS_LEAST = 32 };     /* of health.plateau_steps, unless it is 0 */

/* config.<section>.<key>, as config.def lists them; a REAL_OR is NaN where its word is given. */
/* clang-format off */
struct config {
#define SECTION(name) struct config_##name {
#define RECORD(type, name) struct type name;
#define END(name) } name;
#define INT(section, name, ...) int64_t name;
#define REAL(section, name, ...) double name;
#define REAL_OR(section, name, ...) double name;
#define BOOL(section, name, ...) bool name;
#define TEXT(section, name, ...) char name[CONFIG_TEXT_MAX];
#define CHOICE(section, name, type, ...) enum type name;
#include "core/model/config.def"
    struct param_groups groups; /* [param_group.NAME], in the order of the file */
    bool set[CONFIG_KEY_MAX];   /* private: given by a file or the command line, by key number */
};
/* clang-format on */

/* Sets all defaults. */
void config_init(struct config *config);

/* Reads INI text from a file. */
enum status config_read_file(struct config *config, const char *path, struct err *err);

/* Reads the output of config_text, also that of an earlier version: its canonical lines, values verbatim and
 * of any length. A key that the text lacks keeps its default, or the value that runs had before the key
 * existed. `name` is for messages. */
enum status config_read_effective(struct config *config, const char *text, const char *name, struct err *err);

/* One word "section.key=value" (leading "--" allowed). */
enum status config_read_word(struct config *config, const char *word, struct err *err);

/* Call after all input: applies the preset to sizes that are not given, derives values from other keys
 * (head_dim, betas of the optimizer), and checks keys against each other. */
enum status config_finish(struct config *config, struct err *err);

/* Sets train.total_steps from train.epochs, if that is given, for a corpus of `sequences` training sequences.
 * STATUS_USAGE: profile.trace_step comes after the last step, or there are too many steps. */
enum status config_settle_steps(struct config *config, uint64_t sequences, struct err *err);

/* For config_finish. STATUS_USAGE: something must happen after the last step. */
enum status config_check_length(const struct config *config, struct err *err);

/* Micro-batches of a step, the most that any step has, and those of the first `steps` steps together: by
 * train.accumulation_plan, or else train.accumulation_steps. */
int64_t config_micro_batches(const struct config *config, int64_t step);
int64_t config_micro_batches_most(const struct config *config);
double config_micro_batches_sum(const struct config *config, int64_t steps);

/* Whether the schedule has a warm-up, of train.warmup_steps. */
bool schedule_warms_up(enum schedule_kind kind);

/* The source of a finished configuration's vocabulary size, unless it is the preset or a key: "256, the
 * tokenizer's size; preset tiny has 32000 ..."; else "". */
enum { CONFIG_NOTE_SIZE = 120 };
void config_vocabulary_note(const struct config *config, char *buf, size_t size);

enum { CONFIG_WARNINGS_MAX = 12, CONFIG_WARNING_SIZE = 200 };
/* Settings of a finished configuration that have no effect or make a result mean less, one sentence each;
 * returns how many. */
int config_warnings(const struct config *config, char out[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE]);

/* The complete effective configuration as INI text, which the caller frees; config_read_effective reads back
 * an equal configuration. */
char *config_text(const struct config *config);

/* All keys with default, unit, accepted values and a sentence each: `anneal train --help-config`. */
void config_print_help(FILE *out);

/* The accepted words of "section.key" with bars between, "adamw|lion"; "" where it has none. */
const char *config_words(const char *key);

/* The first key, as "section.key", that differs although a resumed run must not change it; NULL: none. */
const char *config_changed(const struct config *before, const struct config *after);

/* The value of "section.key" as text; false for an unknown key. */
bool config_get(const struct config *config, const char *key, char *buf, size_t size);

#endif
