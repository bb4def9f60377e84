/* Shared by the files of `anneal data`, and private to them. */
#ifndef ANNEAL_TUI_COMMAND_DATA_H
#define ANNEAL_TUI_COMMAND_DATA_H

#include "datasets/tokenizer.h"
#include "tui/command/command.h"

/* A token as text on one line: a backslash, control characters and what is not UTF-8 as escapes. tokenizer
 * NULL: "". Returns buf. */
char *data_spell(const struct tokenizer *tokenizer, uint32_t id, char *buf, size_t size);

/* Refuses a word that names no tokenizer, also bpe:N, which would have to be learned from a text. */
enum status data_check_tokenizer(const char *word, struct err *err);

/* How the texts that a command encodes are read: the members text_key and ends of its options. */
#define TEXT_READING_OPTIONS                                                                                 \
    OPTION("text-key", OPTION_TEXT, AT(text_key), "KEY",                                                     \
           "of JSONL: the key of the text in each line's object (default text)"),                            \
        OPTION("ends", OPTION_FLAG, AT(ends), NULL,                                                          \
               "end each text file, too, with the token that ends documents; lines of JSONL always do")
#define TEXT_FILES                                                                                           \
    "Files are texts, or JSONL (.jsonl) whose lines are documents; both may be compressed (.gz, .zst)."

extern const struct command data_show;

#endif
