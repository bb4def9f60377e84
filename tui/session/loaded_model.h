/* The model of a checkpoint, or a base and its adapters, ready for forward passes, and its device. Shared by
 * the commands that use models without training them. */
#ifndef ANNEAL_TUI_SESSION_LOADED_MODEL_H
#define ANNEAL_TUI_SESSION_LOADED_MODEL_H

#include <limits.h>

#include "core/checkpoint/adapter_stack.h"
#include "core/checkpoint/hold.h"
#include "core/network/network.h"
#include "tui/session/device_choice.h"
#include "tui/session/memory_share.h"

struct loaded_model {
    struct model model;
    struct plan plan;
    struct device_choice choice;
    struct network network;
    struct memory_share share;
    char weights[PATH_MAX], adapters[ADAPTER_STACK_MAX][PATH_MAX]; /* folders of base and adapters */
    int adapter_count;
    struct checkpoint_hold holds[ADAPTER_STACK_MAX]; /* on the adapters, until they are loaded */
    enum lora_base base; /* how the base is stored; with `nested`: NF4 with nested scales */
    bool nested;
    const char *words;  /* the one of them with the tokenizer: the adapters', if they come with one */
    const char *labels; /* the one that names the labels of a classifier */
};

struct loaded_wish {
    int B, T; /* the largest batch and sequence; T no longer than the model's */
    /* sequences in the KV cache, 0: it has none; and the tokens of each, no more than the model's */
    int cache_slots, cache_length;
    bool packed; /* rows may hold several sequences */
    enum allocator_kind allocator;
};

/* The models that a command can use. */
enum loaded_use { LOADED_WRITER, LOADED_CLASSIFIER, LOADED_EITHER };

/* Reads FOLDER/config.json into loaded->model, with the adapters that `adapters` names (NULL: none): runs or
 * folders with commas between, of which what they compute is added up. Zeroes the rest. If FOLDER itself
 * holds adapters, they name their base. STATUS_USAGE: the model is a language model and `use` wants a
 * classifier, or the other way round. Close it even after a failure. */
enum status loaded_model_describe(struct loaded_model *loaded, const char *folder, const char *adapters,
                                  enum loaded_use use, struct err *err);

/* The folders of the adapters that `list` names, as above, with a hold on each of the *count. `doing` as in
 * struct model_choice. */
enum status loaded_model_adapters(const char *list, const char *doing,
                                  char folders[ADAPTER_STACK_MAX][PATH_MAX],
                                  struct checkpoint_hold holds[ADAPTER_STACK_MAX], int *count,
                                  struct err *err);

/* Opens FOLDER/tokenizer.json. STATUS_NOT_FOUND, with a remedy: there is none. */
enum status loaded_model_tokenizer(const char *folder, struct tokenizer **out, struct err *err);

/* For passes over a cache of `slots` sequences of `length` tokens each: long prompts are computed in pieces.
 */
struct loaded_wish loaded_wish_cached(int slots, int length, enum allocator_kind allocator);

/* Then loads the weights onto the device and reserves its memory in the ledger until it is closed; with
 * "auto" onto the CPU, with a warning, if the GPU fails. Weights are held once, as they are stored: F32 and
 * F16 as fp32, BF16 as bf16; beside the adapters of a run, as its lora.base says. A GPU computes in fp32
 * unless all matrices are BF16, then in bf16; the CPU always in fp32. `doing` names the holder of the memory.
 */
enum status loaded_model_load(struct loaded_model *loaded, const char *device, struct loaded_wish wish,
                              const char *doing, struct err *err);
void loaded_model_close(struct loaded_model *loaded); /* harmless on a zeroed struct */

#endif
