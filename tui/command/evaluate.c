/* anneal evaluate: measures how well a checkpoint predicts a text (evaluate_data.c), how many multiple-choice
 * questions it answers (evaluate_tasks.c), or how well a classifier knows labels (evaluate_labels.c). Records
 * nothing. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/evaluation.h"
#include "tui/command/progress_bar.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

/* The options' record is shared with the kinds. */
#undef AT
#define AT(field) offsetof(struct evaluate_options, field)

/* Measures until the end or an interrupt. */
static enum status measure(struct evaluation *e, const struct evaluation_kind *kind, void *state,
                           struct progress_bar *bar, struct err *err)
{
    char units[32], suffix[48] = "";
    double start = clock_monotonic();
    snprintf(units, sizeof units, "%ss", kind->unit);
    progress_bar_update(bar, kind->doing, units, 0, e->total, NULL); /* the first step may take long */
    while (e->done < e->total && !interrupt_requested()) {
        enum status status = kind->next(e, state, suffix, err);
        if (status) return status;
        progress_bar_update(bar, kind->doing, units, e->done, e->total, suffix);
    }
    e->seconds = clock_monotonic() - start;
    if (!e->done) return err_set(err, STATUS_INTERRUPTED, "evaluate: interrupted");
    return kind->finish ? kind->finish(e, state, err) : STATUS_OK;
}

static enum status print_result(const struct evaluation *e, const struct evaluation_kind *kind,
                                const void *state, struct err *err)
{
    struct output out;
    output_begin(&out, e->options->json);
    OUTPUT_MEMBERS(&out, "checkpoint", e->folder, "device", e->loaded.choice.info.short_name, "precision",
                   precision_name(e->loaded.plan.input.precision));
    OUTPUT_MEMBERS(&out, "seconds", e->seconds, "complete", (bool)(e->done == e->total));
    kind->print(e, state, &out);
    return output_end(&out, err);
}

static enum status evaluate(struct evaluation *e, const struct evaluation_kind *kind, void *state,
                            struct progress_bar *bar, struct err *err)
{
    enum status status = kind->open(e, state, err);
    if (!status) status = loaded_model_load(&e->loaded, e->options->device, e->wish, "evaluating", err);
    if (!status && kind->ready) status = kind->ready(e, state, err);
    if (!status) status = measure(e, kind, state, bar, err);
    progress_bar_clear(bar);
    if (!status) status = print_result(e, kind, state, err);
    if (!status && e->done < e->total)
        status =
            err_set(err, STATUS_INTERRUPTED, "evaluate: interrupted after %" PRIu64 " of %" PRIu64 " %s%s",
                    e->done, e->total, kind->unit, text_plural((int64_t)e->total));
    kind->close(state);
    return status;
}

/* The kind that suits the model and the options. */
static enum status choose_kind(const struct evaluation *e, const struct evaluation_kind **out,
                               struct err *err)
{
    const struct evaluate_options *o = e->options;
    bool labels = e->loaded.model.config.num_labels;
    *out = labels ? &evaluation_of_labels : o->tasks ? &evaluation_of_tasks : &evaluation_of_data;
    if (labels && (o->tasks || o->conversations || o->padding >= 0))
        return err_set(
            err, STATUS_USAGE,
            "%.300s: is a classifier, which takes labelled texts as --data and neither --tasks nor "
            "--conversations nor --padding",
            e->folder);
    if (!labels && o->label_column)
        return err_set(err, STATUS_USAGE, "%.300s: is a language model; --label-column is for classifiers",
                       e->folder);
    return STATUS_OK;
}

static enum status check_options(const struct evaluate_options *o, struct err *err)
{
    if (!o->data == !o->tasks)
        return err_set(err, STATUS_USAGE, "needs --data DATA or --tasks FILES%s",
                       o->data ? ", not both" : "");
    if (o->tasks && (o->length || o->batches || o->padding >= 0 || o->conversations || o->column))
        return err_set(
            err, STATUS_USAGE,
            "--seq-len, --batches, --padding, --conversations and --column do not go with --tasks");
    if (o->conversations && o->padding >= 0)
        return err_set(err, STATUS_USAGE,
                       "--padding does not go with --conversations, of which only answers are predicted");
    return STATUS_OK;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct evaluate_options *o = options;
    const struct evaluation_kind *kind = NULL;
    struct model_choice model = {"evaluating", words->words[0], o->step, o->best, {0}};
    struct evaluation e = {.options = o};
    struct progress_bar bar;
    char folder[PATH_MAX];
    void *state = NULL;
    enum status status = check_options(o, err);
    if (status) return status;
    progress_bar_init(&bar, stderr, o->progress);
    e.folder = folder;
    e.progress = &bar.progress;
    status = model_choice_find(&model, folder, sizeof folder, &e.wish.allocator, err);
    if (!status) status = loaded_model_describe(&e.loaded, folder, o->adapter, LOADED_EITHER, err);
    if (!status) status = choose_kind(&e, &kind, err);
    if (!status && !(state = calloc(1, kind->state))) status = err_no_memory(err, "an evaluation");
    if (!status) status = evaluate(&e, kind, state, &bar, err);
    loaded_model_close(&e.loaded);
    free(state);
    return checkpoint_hold_end(&model.hold, folder, status, err);
}

static const struct evaluate_options defaults = {.device = "auto", .step = -1, .padding = -1};

static const struct option_spec options[] = {
    OPTION("data", OPTION_TEXT, AT(data), "DATA", "the text or the tokens to predict"),
    OPTION(
        "tasks", OPTION_TEXT, AT(tasks), "FILES",
        "instead of DATA: multiple-choice questions to answer, one JSON object per line; several files with "
        "commas between, as a pattern or a folder give a row for each and the mean"),
    OPTION("column", OPTION_TEXT, AT(column), "NAME",
           "of JSONL: the key of the text; of labelled data: the column of the text (default text)"),
    OPTION("label-column", OPTION_TEXT, AT(label_column), "NAME",
           "of labelled data: the column of the label (default label)"),
    ADAPTER_OPTION,
    BEST_OPTION,
    STEP_OPTION,
    OPTION("seq-len", OPTION_WHOLE, AT(length), "T",
           "each token is predicted from at most T tokens before it (default: the longest that the model "
           "takes, but at most 1024 and no more than DATA has). A longer context usually predicts better, so "
           "compare models at the same length",
           .least = 1, .most = 1 << 20),
    OPTION("batches", OPTION_WHOLE, AT(batches), "N",
           "only the first N batches, of 4096 tokens or one sequence each (default: all)", .least = 1,
           .most = INT32_MAX),
    OPTION("conversations", OPTION_FLAG, AT(conversations), NULL,
           "DATA is JSONL of conversations, as in instruction tuning: only the answers are predicted"),
    OPTION("padding", OPTION_WHOLE, AT(padding), "ID",
           "id of the token that fills up sequences; predicting it does not count", .most = 1 << 24),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, "where to compute (default auto)"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command command_evaluate = COMMAND(
    "evaluate", "RUN|FOLDER", 1, 1, options,
    "measure how well a checkpoint predicts a text, answers questions, or knows the labels of texts", run,
    defaults,
    .about =
        "Measures how well a checkpoint predicts DATA: token files (.tok, llm.c's .bin), text files, folders "
        "or a recipe, as data.train takes them. Text is encoded with the checkpoint's own tokenizer.json. "
        "FOLDER is a checkpoint of anneal or Hugging Face: a config.json with model.safetensors, in shards "
        "or not, in fp32, bf16 or fp16. It may also be the name of an imported model (anneal model import). "
        "For a classifier DATA is labelled: CSV or JSONL with a column of texts and one of labels. "
        "Weights are held as they are stored, fp16 as fp32. A device for which train.precision = auto is "
        "bf16 computes in bf16 if all matrices are bf16, else in fp32.",
    .notes =
        "  loss           mean of -ln p(next token), in nats: training lowers it. A model that guesses\n"
        "                 has ln(vocabulary)\n"
        "  perplexity     exp(loss): the number of equally likely tokens that the model seems to choose\n"
        "                 from\n"
        "  bits per byte  the same per byte of text: comparable between models whose tokens differ in\n"
        "                 length\n\n"
        "With --tasks FILES it answers multiple-choice questions instead: each line of a file is a JSON "
        "object such as {\"context\": \"The sky is\", \"choices\": [\" blue\", \" loud\"], \"answer\": 0}. "
        "The model's answer is the choice whose tokens are likeliest after the context.\n\n"
        "  accuracy              share of right answers, by the likelihood of the whole choice\n"
        "  accuracy per byte     the same, by the likelihood per byte of the choice without blanks at its\n"
        "                        beginning: the usual score of HellaSwag, whose choices differ in length\n"
        "  accuracy of guessing  the expected accuracy of random answers\n\n"
        "A classifier gets what training's evaluations measure: loss (without class weights), accuracy, "
        "the means over the classes of F1, precision and recall, these for each class, and the confusion "
        "matrix.\n\n"
        "Ctrl-C stops and prints what has been measured so far.\n\n"
        "  anneal evaluate latest --best --data held-out.txt\n"
        "  anneal evaluate ~/models/tiny-llama --data kjv --seq-len 512 --json\n"
        "  anneal evaluate latest --tasks hellaswag.jsonl,arc.jsonl\n"
        "  anneal evaluate spam --data mails.csv --label-column label");
