/* Checkpoints of a rig's network in a test: writes and finds them, and compares them with the saved network.
 * Every failure fails the running test; the caller frees paths. */
#ifndef ANNEAL_TESTS_CORE_CHECKPOINT_SAVED_H
#define ANNEAL_TESTS_CORE_CHECKPOINT_SAVED_H

#include "core/checkpoint/checkpoint.h"
#include "tests/core/network/rig.h"

/* A state in which no field has its default value. */
struct train_state saved_state(int64_t step);

/* An empty folder of this name below the scratch folder. */
char *saved_folder(const char *name);
/* PARENT/STEP[/NAME] */
char *saved_path(const char *parent, const char *step, const char *name);
void saved_write_text(const char *parent, const char *step, const char *name, const char *text);

/* A rig whose weights and moments are drawn from the seed. */
void saved_open(struct rig *rig, const struct model_config *config, int moments, uint64_t seed);

/* Writes a full checkpoint straight from the rig's network. */
enum status saved_write_state(const char *parent, struct rig *rig, const struct train_state *state,
                              const struct tokenizer *tokenizer, int64_t *bytes, struct err *err);
/* The same with saved_state(step) and a tokenizer; it must succeed. */
void saved_write(const char *parent, struct rig *rig, int64_t step);

/* The step of the checkpoint that checkpoint_find returns; -1 for none. */
int64_t saved_offered(const char *parent, int64_t step);

void saved_expect_equal_memory(const struct rig *a, const struct rig *b); /* weights and moments */
void saved_expect_equal_state(const struct train_state *a, const struct train_state *b);

#endif
