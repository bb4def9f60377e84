/* See adapter_stage.h. */
#include "tests/tui/command/adapter_stage.h"

#include "tests/cmocka.h"
#include "tests/kept.h"

enum { TOKENS = 400 };

char adapter_tokens[700];

void adapter_refused(struct process *p, const char *sentence)
{
    if (process_wait_exit(p) == 0) fail_msg("it did not fail: %s", sentence);
    process_expect_sentence(p, sentence);
}

int adapter_setup(void **state)
{
    struct {
        uint64_t count;
        uint32_t tokens[TOKENS];
    } file = {.count = TOKENS};
    stage_setup(state);
    for (uint32_t i = 0; i < TOKENS; i++) file.tokens[i] = (i * i + i / 7) % ADAPTER_VOCABULARY;
    snprintf(adapter_tokens, sizeof adapter_tokens, "%s/text.tok", ((struct stage *)*state)->folder);
    stage_write(adapter_tokens, &file, sizeof file);
    return 0;
}

double adapter_loss(const char *model, const char *adapter)
{
    char *out =
        adapter ? process_output("evaluate", model, "--adapter", adapter, "--data", adapter_tokens,
                                 "--seq-len=20", "--json", NULL)
                : process_output("evaluate", model, "--data", adapter_tokens, "--seq-len=20", "--json", NULL);
    return stage_real(stage_json(out), "loss");
}

struct process *adapter_start_training(const char *base, const char *name, const char *steps,
                                       const char *progress)
{
    char from[256], data[720], named[64], total[64];
    snprintf(from, sizeof from, "--model.from=%s", base);
    snprintf(data, sizeof data, "--data.train=%s", adapter_tokens);
    snprintf(named, sizeof named, "--name=%s", name);
    snprintf(total, sizeof total, "--train.total_steps=%s", steps);
    return process_start("train", from, data, named, total, "--lora.rank=3", "--lora.targets=all",
                         "--lora.dropout=0.2", "--lora.train_norms=true", "--train.batch_size=2",
                         "--train.seq_len=20", "--train.learning_rate=0.02", "--train.warmup_steps=0",
                         "--data.val_fraction=0", "--sample.every=0", "--checkpoint.every=4",
                         "--train.threads=1", progress, NULL);
}

void adapter_train(const char *base, const char *name, const char *steps)
{
    process_expect(0, adapter_start_training(base, name, steps, "--progress=none"));
}
