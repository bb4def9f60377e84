/* Training steps of the presets, judged: their speed by the GPU's peak, their memory by the plan, and speed,
 * memory and losses by PyTorch's. */
#ifndef ANNEAL_TESTS_GPU_STEPS_H
#define ANNEAL_TESTS_GPU_STEPS_H

#include "tests/gpu/check.h"
#include "tests/gpu/torch.h"
#include "tests/gpu/training.h"

enum { STEPS_LOSSES = 200 }; /* steps that are compared with PyTorch's */

/* Everything, as far as it is wanted. */
void steps_check(struct check *check);

/* What steps_check says about measured figures. */
void steps_judge(struct check *check, const struct training_preset *preset, enum precision precision,
                 const struct training_speed *speed);
void steps_judge_torch(struct check *check, const struct training_preset *preset,
                       const struct training_speed *ours, const struct torch_speed *theirs);
/* `stream`: the type of PyTorch's stream between the layers. */
void steps_judge_losses(struct check *check, const struct training_preset *preset, const char *stream,
                        const double ours[STEPS_LOSSES], const double theirs[STEPS_LOSSES]);

#endif
