/* Models that write, for commands: how they are opened, draw a text token by token, and how fast they were.
 * Also the options of sampling: the record's member `sampling` is a struct sampling_options. */
#ifndef ANNEAL_TUI_COMMAND_WRITING_H
#define ANNEAL_TUI_COMMAND_WRITING_H

#include "core/generate/ending.h"
#include "core/generate/generate.h"
#include "core/generate/inference.h"
#include "core/generate/sampling.h"
#include "tui/command/command.h"
#include "tui/session/loaded_model.h"

/* The member `sampling` of a command's options. */
struct sampling_options {
    int64_t top_k, seed;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty;
};

#define SAMPLING_DEFAULTS                                                                                    \
    {                                                                                                        \
        .top_k = 50, .seed = 1, .temperature = 0.8, .top_p = 1, .repetition_penalty = 1                      \
    }

static inline struct sampling sampling_of(const struct sampling_options *o)
{
    return (struct sampling){.repetition_penalty = o->repetition_penalty,
                             .presence_penalty = o->presence_penalty,
                             .temperature = o->temperature,
                             .top_k = (int)o->top_k,
                             .top_p = o->top_p,
                             .min_p = o->min_p,
                             .seed = (uint64_t)o->seed};
}

#define SAMPLING_OPTIONS                                                                                     \
    OPTION("temperature", OPTION_NUMBER, AT(sampling.temperature), "T",                                      \
           "above 1 more random, below 1 less; 0: always the likeliest token (default 0.8)", .most = 1000),  \
        OPTION("top-k", OPTION_WHOLE, AT(sampling.top_k), "K",                                               \
               "draw only from the K likeliest tokens; 0: from all (default 50)", .most = 1 << 24),          \
        OPTION("top-p", OPTION_NUMBER, AT(sampling.top_p), "P",                                              \
               "draw only from the likeliest tokens whose probabilities add up to P (default 1: from all)",  \
               .least = 1e-9, .most = 1),                                                                    \
        OPTION("min-p", OPTION_NUMBER, AT(sampling.min_p), "P",                                              \
               "draw only from tokens at least P times as likely as the likeliest; 0: from all (default 0)", \
               .most = 1),                                                                                   \
        OPTION(                                                                                              \
            "repetition-penalty", OPTION_NUMBER, AT(sampling.repetition_penalty), "R",                       \
            "make tokens of the prompt and the text less likely: divides their positive logits by R; 1: no " \
            "penalty (default 1)",                                                                           \
            .least = 0.01, .most = 100),                                                                     \
        OPTION("presence-penalty", OPTION_NUMBER, AT(sampling.presence_penalty), "D",                        \
               "subtract D from the logits of tokens that the text has already (default 0)", .least = -100,  \
               .most = 100),                                                                                 \
        OPTION("seed", OPTION_WHOLE, AT(sampling.seed), "S",                                                 \
               "the same seed gives the same text (default 1)")

/* A model that writes, and all that it holds open. */
struct voice {
    struct loaded_model loaded;
    struct tokenizer *tokenizer;
    struct special_tokens special;
    struct generator generator;
    struct inference inference;
    char folder[PATH_MAX]; /* of the model */
};

/* Opens what does not depend on the size of the cache, as loaded_model_describe. Close it even after a
 * failure. */
enum status voice_open(struct voice *voice, const char *folder, const char *adapter, struct err *err);
/* Then loads the model with a cache of `slots` sequences of `length` tokens. */
enum status voice_load(struct voice *voice, const char *device, int slots, int64_t length,
                       enum allocator_kind allocator, const char *doing, struct err *err);
void voice_close(struct voice *voice); /* and zeroes it */

/* Draws the next token and adds it to the text, which has not ended. `draw` numbers the draws of a seed. */
enum status voice_draw(struct voice *voice, const struct sampling *sampling, const struct ending *ending,
                       int64_t draw, struct growing_text *text, struct err *err);

/* Prints what is final of the text behind *done bytes, and advances *done: a terminal gets no control
 * characters. */
void writing_show(const struct growing_text *text, size_t *done);

/* How fast a prompt was read and a text written, on standard error. */
void writing_print_measures(const struct inference_record *record);

/* Stores the measures with the run that the checkpoint in `folder` belongs to, if it belongs to one. A store
 * that cannot be written costs a warning only: the text is there. */
void writing_record_measures(const char *folder, struct inference_record *record);

#endif
