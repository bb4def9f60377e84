/* anneal watch: opens the workbench, on the list of runs or on one run. `anneal` alone is the same. */

#include "core/base/file.h"
#include "core/model/config.h"
#include "tui/command/command.h"
#include "tui/command/view_config.h"
#include "tui/view/screen.h"

/* The fields of the form of a new run: the keys used most. An empty field is left to the trainer; the
 * defaults shown are the configuration's, except where the list has a word of its own. */
static const struct form_field offered[] = {
    {"name", "name", "the preset's", "name of the run; its id adds date and time", NULL},
    {"model.preset", "preset", NULL, "size of the model", NULL},
    {"model.from", "fine-tune", "no model",
     "a model to train further, with its sizes and tokenizer: a folder, an imported model or one of your "
     "runs",
     NULL},
    {"lora.rank", "LoRA rank", NULL,
     "rank of the adapters that are trained beside that model, which stays frozen; 0: it is trained itself",
     NULL},
    {"lora.alpha", "LoRA alpha", NULL, "what the adapters compute is multiplied by alpha / rank", NULL},
    {"lora.targets", "LoRA targets", NULL,
     "matrices that get adapters: q, k, v, o, gate, up, down with commas between, or all", NULL},
    {"lora.base", "frozen model", NULL,
     "how the frozen model is stored; nf4: its layers in 4 bits, which needs the least memory", NULL},
    {"data.train", "data", NULL, "a recipe (kjv), token files or texts: a name, a folder, a pattern, a list",
     NULL},
    {"data.format", "data format", NULL,
     "text; instructions: conversations, of which the answers are learned; labels: texts to classify", NULL},
    {"data.text_column", "text column", NULL, "of texts with labels: the name of their column or member",
     NULL},
    {"data.label_column", "label column", NULL,
     "of texts with labels: the name of the label's column or member", NULL},
    {"data.tokenizer", "tokenizer", NULL, "bytes, bpe:N or a tokenizer.json", NULL},
    {"train.total_steps", "steps", NULL, "optimizer steps until the run is finished", NULL},
    {"train.batch_size", "batch size", NULL, "sequences per micro-batch", NULL},
    {"train.seq_len", "sequence length", NULL, "tokens per sequence", NULL},
    {"train.learning_rate", "learning rate", NULL, "the peak of the schedule", NULL},
    {"train.optimizer", "optimizer", NULL, "the rule that turns gradients into updates", NULL},
    {"train.schedule", "schedule", NULL, "how the learning rate changes after warm-up", NULL},
    {"train.warmup_steps", "warm-up", NULL, "steps until the learning rate reaches its peak", NULL},
    {"eval.every", "evaluate every", NULL, "steps between evaluations on the held-out text", NULL},
    {"eval.metric", "best by", "val_loss",
     "the value of an evaluation that early stopping and the best follow", NULL},
    {"eval.early_stopping_patience", "patience", NULL,
     "evaluations without improvement until it stops; 0: never", NULL},
    {"sample.prompt", "sample prompt", NULL, "how the sample texts begin", NULL},
    {"train.seed", "seed", NULL, "the same seed gives the same run", NULL},
    {"device", "device", "auto", "where to train", "auto|cpu|cuda"},
};
enum { OFFERED = sizeof offered / sizeof *offered };

static void fill_defaults(struct form_field fields[OFFERED], char text[OFFERED][64])
{
    struct config config;
    config_init(&config);
    for (int i = 0; i < OFFERED; i++) {
        fields[i] = offered[i];
        if (*config_words(fields[i].key)) fields[i].choices = config_words(fields[i].key);
        if (fields[i].fallback) continue;
        if (!config_get(&config, fields[i].key, text[i], 64)) text[i][0] = '\0';
        fields[i].fallback = text[i];
    }
}

static enum status open_workbench(const char *run_id, const char *greeting, struct err *err)
{
    char home[4096], defaults[OFFERED][64];
    struct form_field fields[OFFERED];
    fill_defaults(fields, defaults);
    struct workbench_options workbench = {.home = home,
                                          .list = &runs_view,
                                          .run = &run_view,
                                          .run_id = run_id,
                                          .greeting = greeting,
                                          .fields = fields,
                                          .field_count = OFFERED,
                                          .preview = form_preview_make,
                                          .estimate = form_estimate_read,
                                          .config_rows = config_rows_make};
    enum status status = file_anneal_home(home, sizeof home, err);
    return status ? status : screen_run(&workbench, err);
}

enum status watch_started(const char *run_id, struct err *err)
{
    return open_workbench(
        run_id,
        "Leave with q or Ctrl-C: the training continues in the background. ETA, above, is the "
        "time that is left; ? lists the keys.",
        err);
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    (void)options;
    return open_workbench(words->words[0], NULL, err);
}

const struct command command_watch = {
    .line = {.name = "watch",
             .words = "RUN",
             .most = 1,
             .about = "Opens the workbench, on the list of runs or on RUN: an id, a unique prefix of one, a "
                      "name, or latest. Leaving it (q, Ctrl-C) does not stop any run."},
    .summary = "open the workbench, on the list of runs or on one run",
    .run = run,
};
