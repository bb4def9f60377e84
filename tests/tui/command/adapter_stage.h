/* A stage for tests of adapters, with a file of tokens that the bases of tests/fixtures/peft know. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_ADAPTER_STAGE_H
#define ANNEAL_TESTS_TUI_COMMAND_ADAPTER_STAGE_H

#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

enum { ADAPTER_VOCABULARY = 47 /* of the bases */ };
extern char adapter_tokens[700]; /* the path of the file */

/* Begins a test on such a stage. */
#define ADAPTER_CASE(name, parameter) STAGE_CASE_SETUP(name, adapter_setup, parameter)
int adapter_setup(void **state);

/* Trains adapters on a base of the fixtures for `steps` steps; adapter_train waits for the end. */
struct process *adapter_start_training(const char *base, const char *name, const char *steps,
                                       const char *progress);
void adapter_train(const char *base, const char *name, const char *steps);

/* The program must end with an error of one line that contains `sentence`. */
void adapter_refused(struct process *p, const char *sentence);

/* The loss of the tokens with a model and, unless NULL, adapters. */
double adapter_loss(const char *model, const char *adapter);

#endif
