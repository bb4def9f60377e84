/* anneal estimate: the memory that a run would take, to the byte, without taking it. The plan printed here is
 * the one that training allocates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/memory/fit.h"
#include "core/model/data_format.h"
#include "core/model/trainable.h"
#include "core/train/eval_tasks.h"
#include "tui/command/command.h"
#include "tui/command/dry_run.h"
#include "tui/command/fit_report.h"
#include "tui/command/output.h"
#include "tui/session/device_choice.h"
#include "tui/session/memory_share.h"

struct options {
    const char *device;
    const char *fit; /* NULL: not given; "": into the device's memory */
    int64_t ranks;
    bool layers, json;
};

enum { TRADES = 4 };
static const int intervals[TRADES] = {0, 1, 2, 4};

/* Bytes by category, of a layer or of all outside the layers. */
struct layer_bytes {
    size_t of[PLAN_CATEGORIES], all;
};

struct estimate {
    struct config config;
    const struct options *options;
    struct device_info info;
    struct model model;
    struct plan_input input;
    struct plan plan;
    int counted;     /* categories in the plan's sum: the host's come last */
    size_t reserved; /* of the device: the plan and the allocator's overhead */
    size_t memory;   /* to fit into, if given; 0: the device's */
    struct fit_report report;
    int64_t overhead; /* bytes of the device that are not the plan's; -1: not known */
    struct activation_trade trades[TRADES];
    int trade_count; /* an interval above the number of layers saves as many as there are: it is left out */
};

/* Opens the device, notes the properties that the plan depends on, and closes it. */
static enum status ask_device(struct estimate *e, struct err *err)
{
    struct device_choice choice;
    enum status status = device_choice_open(&choice, e->options->device, (int)e->config.train.threads, err);
    if (!status) status = device_choice_settle_precision(&choice, &e->config.train.precision, err);
    if (!status) {
        e->info = choice.info;
        e->input = plan_input_of(&e->config, &e->model, choice.backend, choice.device);
        plan_input_share(&e->input, &e->config, 0, (int)e->options->ranks);
        status = eval_tasks_cache_length(&e->config, &e->input.cache_length, err);
        e->counted = e->input.host_counts ? PLAN_CATEGORIES : PLAN_HOST;
        e->overhead = memory_share_overhead(&e->info);
        if (*choice.why) output_warn("on the CPU: %s", choice.why);
    }
    struct memory_wish wish = {
        .backend = choice.backend, .device = choice.device, .reserve = e->config.memory.reserve};
    if (!status && e->options->fit)
        status = fit_report_look(&e->report, &wish, (int64_t)e->memory, e->overhead, err);
    device_choice_close(&choice);
    return status;
}

static enum status make_plan(struct estimate *e, struct err *err)
{
    const struct config *c = &e->config;
    struct model_config sizes = c->model.sizes;
    if (!sizes.num_labels) /* more are a few bytes more */
        sizes.num_labels = format_traits(c->data.format)->least_labels;
    enum status status = model_init(&e->model, &sizes, err);
    if (!status) status = ask_device(e, err);
    enum element computed = precision_element(e->input.precision);
    if (!status) status = trainable_choose(&e->model, c, computed, e->info.mixes_elements, err);
    if (!status) status = plan_init(&e->plan, &e->input, err);
    if (!status) status = plan_reserved(&e->plan, &e->reserved, err);
    for (int i = 0; !status && i < TRADES && intervals[i] <= c->model.sizes.num_layers; i++)
        status = fit_trade(e->input, intervals[i], &e->trades[e->trade_count++], err);
    if (status || !e->options->fit) return status;
    return fit_report_solve(&e->report, &e->input, c->model.sizes.max_seq_len, err);
}

/* ---- layers ---- */

/* The layer of "model.layers.3.mlp…": 3; -1: none. */
static int layer_of(const char *name)
{
    static const char prefix[] = "model.layers.";
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? atoi(name + sizeof prefix - 1) : -1;
}

/* A layer's memory: its share of all that mirrors the weights, its activations, and its part of the KV cache.
 * Layer -1: the rest of the plan, outside all layers. */
static struct layer_bytes bytes_of_layer(const struct estimate *e, int layer)
{
    const struct plan *plan = &e->plan;
    const struct model *model = &e->model;
    struct layer_bytes out = {0};
    size_t elements = 0; /* trainable */
    for (size_t i = 0; i < model->param_count; i++)
        if (layer_of(model->params[i].name) != layer)
            continue;
        else if (model->params[i].frozen)
            out.of[PLAN_FROZEN] += param_bytes(&model->params[i]);
        else
            elements += model->params[i].count;
    for (int c = PLAN_WEIGHTS; c <= PLAN_MOMENTS; c++)
        if (c != PLAN_FROZEN)
            out.of[c] = (size_t)((unsigned __int128)plan->category_bytes[c] * elements / model->elements);
    for (size_t i = 0; i < plan->buffer_count; i++)
        if (plan->buffers[i].layer == layer &&
            (plan->buffers[i].category == PLAN_ACTIVATIONS || plan->buffers[i].category == PLAN_CACHE))
            out.of[plan->buffers[i].category] += plan->buffers[i].bytes;
    for (int c = 0; c < e->counted && layer < 0; c++) {
        out.of[c] = plan->category_bytes[c];
        for (int l = 0; l < model->config.num_layers; l++) out.of[c] -= bytes_of_layer(e, l).of[c];
    }
    for (int c = 0; c < e->counted; c++) out.all += out.of[c];
    return out;
}

/* ---- text ---- */

/* Counts buffers from `first` to `end` with this one's name and category. */
static size_t count_like(const struct plan *plan, const struct plan_buffer *buffer, size_t first, size_t end)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++)
        count +=
            plan->buffers[i].category == buffer->category && strcmp(plan->buffers[i].name, buffer->name) == 0;
    return count;
}

/* Prints buffers of one name, one per layer, as one line. */
static void print_buffers(const struct plan *plan, int category)
{
    for (size_t i = 0; i < plan->buffer_count; i++) {
        const struct plan_buffer *b = &plan->buffers[i];
        if ((int)b->category != category || count_like(plan, b, 0, i)) continue;
        size_t layers = b->layer < 0 ? 1 : count_like(plan, b, i, plan->buffer_count);
        printf("  %-42s %12s", b->name, TEXT_BYTES(b->bytes * layers));
        if (b->layer >= 0)
            printf("   %zu layer%s of %s", layers, text_plural((int64_t)layers), TEXT_BYTES(b->bytes));
        putchar('\n');
    }
}

/* Categories, and their buffers. */
static void print_categories(const struct estimate *e)
{
    const struct plan *plan = &e->plan;
    for (int c = 0; c < PLAN_CATEGORIES; c++) {
        if (!plan->category_bytes[c]) continue;
        printf("\n%-44s %12s", plan_category_name((enum plan_category)c),
               TEXT_BYTES(plan->category_bytes[c]));
        if (c < e->counted)
            printf(" %4.0f %%\n", 100.0 * (double)plan->category_bytes[c] / (double)plan->total_bytes);
        else
            printf("   host memory, not in the total\n");
        print_buffers(plan, c);
        if (c == PLAN_WORKSPACE) printf("  (buffers that are never needed at the same time share a place)\n");
    }
}

static void print_categories_json(struct output *out, const struct plan *plan)
{
    parts_print_categories(out, plan);
    output_list(out, "buffers", "");
    for (size_t i = 0; i < plan->buffer_count; i++) {
        const struct plan_buffer *b = &plan->buffers[i];
        output_item(out);
        OUTPUT_MEMBERS(out, "name", b->name, "category", plan_category_name(b->category), "layer", b->layer,
                       "bytes", (int64_t)b->bytes, "offset", (int64_t)b->offset);
    }
    output_list_end(out);
}

/* ---- as a page or as JSON ---- */

static void print_layers(struct output *out, const struct estimate *e)
{
    output_list(out, "layers", "layers: \"-\" is what belongs to no layer");
    for (int l = -1; l < e->model.config.num_layers; l++) {
        struct layer_bytes bytes = bytes_of_layer(e, l);
        output_item(out);
        output_whole(out, "layer", l);
        for (int c = 0; c < e->counted; c++)
            if (plan_has_category(&e->plan, (enum plan_category)c))
                output_bytes(out, plan_category_name((enum plan_category)c), (int64_t)bytes.of[c]);
        output_whole(out, "bytes", (int64_t)bytes.all);
    }
    output_list_end(out);
}

static void print_trades(struct output *out, const struct estimate *e)
{
    if (!out->json) putchar('\n');
    output_list(out, "activation_checkpointing", "");
    for (int i = 0; i < e->trade_count; i++) {
        const struct activation_trade *t = &e->trades[i];
        size_t most = e->trades[0].bytes;
        output_item(out);
        if (out->json)
            OUTPUT_MEMBERS(out, "interval", t->interval, "total_bytes", (int64_t)t->bytes, "extra_flops",
                           t->extra_flops);
        output_line(out, "checkpoint.activation_interval", "%d", t->interval);
        output_line(out, ">all", "%s", TEXT_BYTES(t->bytes));
        output_line(out, ">saved", "%s", t->bytes < most ? TEXT_BYTES(most - t->bytes) : "-");
        output_line(out, ">more FLOPs", "%.1f %%", 100 * t->extra_flops);
    }
    output_list_end(out);
}

static enum status print(const struct estimate *e, const struct words *words, struct err *err)
{
    struct output out;
    bool json = e->options->json, any = strcmp(e->options->device, "auto") == 0;
    char vocabulary[CONFIG_NOTE_SIZE];
    config_vocabulary_note(&e->config, vocabulary, sizeof vocabulary);
    output_begin(&out, json);
    OUTPUT_MEMBERS(&out, "device", e->info.short_name, "parameters", e->model.parameters, "batch_size",
                   e->input.B, "seq_len", e->input.T, "ranks", e->options->ranks, "optimizer",
                   optimizer_kind_word(e->config.train.optimizer), "precision",
                   precision_name(e->input.precision), "vocab_size", e->model.config.vocab_size);
    if (*vocabulary) output_line(&out, "vocabulary", "%s", vocabulary);
    OUTPUT_MEMBERS(&out, "total_bytes", (int64_t)e->plan.total_bytes, "reserved_bytes", (int64_t)e->reserved,
                   "overhead_bytes", e->overhead);
    if (json)
        print_categories_json(&out, &e->plan);
    else
        print_categories(e);
    parts_print_groups(&out, &e->config, &e->plan);
    if (json || e->options->layers) print_layers(&out, e);
    print_trades(&out, e);
    if (e->options->fit)
        fit_report_print(&out, &e->report, &e->input, words, any ? NULL : e->options->device);
    return output_end(&out, err);
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    struct estimate e = {.options = options};
    const char *fit = e.options->fit;
    if (fit && *fit && !text_parse_bytes(fit, &e.memory))
        return err_set(
            err, STATUS_USAGE,
            "--fit: \"%s\" is not an amount of memory (give bytes, or a number with MiB, GiB, MB or GB)",
            fit);
    enum status status = train_read_config(words, &e.config, err);
    if (!status) status = make_plan(&e, err);
    if (!status) status = print(&e, words, err);
    free(e.report.rows);
    plan_release(&e.plan);
    model_release(&e.model);
    return status;
}

static const struct options defaults = {.device = "auto", .ranks = 1};

static const struct option_spec options[] = {
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS,
           "the device to plan for: its precision and its workspace"),
    OPTION("fit", OPTION_MAYBE, AT(fit), "MEMORY",
           "also prints the largest batch and the longest sequence that fit, with the commands that train "
           "them. MEMORY is a number of bytes, or has a unit (24GiB, 800MB); only a GPU's context, as a run "
           "has measured it, is subtracted from it. Without MEMORY: what a run can use now"),
    OPTION("ranks", OPTION_WHOLE, AT(ranks), "N",
           "the memory of each of N processes that train together (default 1; world.shard)", .least = 1,
           .most = 65536),
    OPTION("layers", OPTION_FLAG, AT(layers), NULL, "also prints what each layer takes"),
    JSON_OPTION,
    {0},
};

const struct command command_estimate = COMMAND(
    "estimate", "CONFIG.ini", 0, 1, options, "print the memory that training would take", run, defaults,
    .settings = true,
    .about = "Prints the memory that `anneal train` would allocate for this configuration, by category "
             "and buffer, without allocating it.",
    .notes = "What a run can use now is the free memory, minus:\n\n"
             "  1. the share that stays free (memory.reserve) and what other runs have reserved\n"
             "  2. a margin of 1/32 and 16 MiB, for changes in the meantime and for rounding up to pages\n"
             "  3. what the program or the GPU's context takes outside the plan\n"
             "  4. what runs in the queue (--wait) will take\n\n"
             "Members of the JSON object (sizes in bytes; null: not known):\n\n"
             "  total_bytes     the size of the plan\n"
             "  reserved_bytes  what its allocator takes\n"
             "  overhead_bytes  what the process takes in addition\n"
             "  categories      bytes of each category; host and snapshot are host memory, and part of\n"
             "                  total_bytes only on a CPU\n"
             "  layers          bytes of each layer, also by category; they add up to total_bytes. Layer\n"
             "                  null: all that is not part of a layer\n"
             "  buffers         name, category, layer, bytes, and offset in the category; buffers of the\n"
             "                  workspace may share memory\n"
             "  activation_checkpointing\n"
             "                  interval, total_bytes, extra_flops (a share of a step's FLOPs)\n"
             "  fit             only with --fit:\n"
             "    memory_bytes  the memory given, or what could be reserved now\n"
             "    beside_bytes, waiting_bytes, margin_bytes\n"
             "                  what is subtracted from it: 3, 4 and 2 of the list above\n"
             "    plan_bytes    what is left for the plan\n"
             "    batch_size, seq_len\n"
             "                  the largest that fit (0: none)\n"
             "    batch_size_limit, seq_len_limit\n"
             "                  why they are not larger: \"memory\", or the key that limits them\n"
             "    needs_no_snapshot\n"
             "                  true: they fit only with checkpoint.background=false\n\n"
             "  anneal estimate --model.preset=small --train.seq_len=1024\n"
             "  anneal estimate my.ini --fit 8GiB");
