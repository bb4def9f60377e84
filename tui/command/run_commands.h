/* What the commands about recorded runs share. */
#ifndef ANNEAL_TUI_COMMAND_RUN_COMMANDS_H
#define ANNEAL_TUI_COMMAND_RUN_COMMANDS_H

#include <jansson.h>

#include "runs/store.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"

/* Opens the store below $ANNEAL_HOME; close it with store_close. */
enum status run_open_store(struct store **out, struct err *err);
/* Likewise, for commands that only look (store_open_to_read). */
enum status run_open_store_to_read(struct store **out, struct err *err);

/* Prints a JSON value on standard output (json_document.h), and frees it; NULL is STATUS_NO_MEMORY. Ask
 * run_check_stdout whether it arrived. */
enum status run_print_json(json_t *value, struct err *err);

/* STATUS_IO when something printed did not reach standard output (a full disk). */
enum status run_check_stdout(struct err *err);

/* The usage error for getopt_long's answer `option` ('?' or ':'); argv[0] is the command's name. */
int run_option_error(char **argv, int option);

#endif
