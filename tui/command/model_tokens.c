/* anneal model add-tokens: special tokens for a chat template, with rows of their own. */
#include <limits.h>
#include <stdio.h>

#include "core/base/text.h"
#include "core/checkpoint/add_tokens.h"
#include "tui/command/model_tokens.h"
#include "tui/command/progress_bar.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *chat_template;
    int progress;
};

static enum status add(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"adding tokens", words->words[0], -1, false, {0}};
    struct token_addition addition = {words->words + 2, (size_t)words->count - 2, o->chat_template};
    struct tokens_added added;
    char folder[PATH_MAX];
    struct progress_bar bar;
    progress_bar_init(&bar, stderr, o->progress);
    enum status status = model_choice_find(&model, folder, sizeof folder, NULL, err);
    if (!status)
        status = checkpoint_add_tokens(folder, &addition, words->words[1], &bar.progress, &added, err);
    progress_bar_clear(&bar);
    status = checkpoint_hold_end(&model.hold, folder, status, err);
    if (status) return status;
    printf("%s: %s, %d new token%s, %d new row%s, vocabulary of %d\n", CLEAN_LINE(words->words[1]),
           TEXT_BYTES(added.bytes), added.tokens, text_plural(added.tokens), added.rows,
           text_plural(added.rows), added.vocab_size);
    if (added.tokens == 0)
        puts("  The tokenizer had each of these tokens already.");
    else
        puts("  New tokens mean nothing until they are trained: train all parameters, or with adapters set\n"
             "  lora.train_embedding, and lora.train_head if the head is not the embedding.");
    return STATUS_OK;
}

static const struct option_spec add_options[] = {
    OPTION("template", OPTION_TEXT, AT(chat_template), "FILE", "a chat template (Jinja) for the new model"),
    PROGRESS_OPTION,
    {0},
};

const struct command model_add_tokens = COMMAND(
    "model add-tokens", "BASE FOLDER TOKEN...", 3, -1, add_options, "add special tokens to a copy of a model",
    add, (struct options){0},
    .about =
        "Writes BASE (a run, a folder or an imported model) into a new FOLDER, whose tokenizer has each "
        "TOKEN as a special token, and whose embedding and head have a row for each: the mean of all rows. "
        "For instruction tuning of a model without the tokens of a chat template. Train all parameters, or "
        "adapters with lora.train_embedding, so that the new rows are trained.");
