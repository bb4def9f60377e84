/* The functions behind the table in command.c, one a file of that name. Each returns the exit status. */
#ifndef ANNEAL_TUI_COMMANDS_H
#define ANNEAL_TUI_COMMANDS_H

int command_watch(int argc, char **argv);
int command_train(int argc, char **argv);
int command_resume(int argc, char **argv);
int command_fork(int argc, char **argv);
int command_order(int argc, char **argv);
int command_runs(int argc, char **argv);
int command_show(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_export(int argc, char **argv);
int command_import(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_evaluate(int argc, char **argv);
int command_data(int argc, char **argv);
int command_tokenizer(int argc, char **argv);
int command_model(int argc, char **argv);
int command_estimate(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_bench(int argc, char **argv);

#endif
