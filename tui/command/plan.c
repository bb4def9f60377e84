/* anneal plan: what a training would take on GPUs of another machine, or of many: memory, time, communication
 * and how well it scales. An estimate from the recorded operations and data sheets: see core/train/cluster.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/accumulation.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/model/data_format.h"
#include "core/model/trainable.h"
#include "core/train/cluster.h"
#include "core/train/eval_tasks.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/session/device_choice.h"

struct options {
    const char *gpu, *network, *tokens;
    int64_t gpus, per_host;
    double products, bandwidth; /* as measured; 0: by the data sheet */
    bool operations, json;
};

enum { STEPS_MAX = 24 }; /* 1, 2, 4 … and the number asked for */

struct plan_report {
    const struct options *options;
    struct config config;
    struct model model;
    struct plan_input input;
    struct cluster cluster;
    double network; /* bytes per second, as given */
    double tokens;  /* to train on */
    struct cluster_step steps[STEPS_MAX];
    int step_count;
};

static enum status read_options(struct plan_report *r, struct err *err)
{
    const struct options *o = r->options;
    char words[300];
    if (!chip_find(o->gpu))
        return err_set(err, STATUS_USAGE, "--gpu: there is no data sheet of \"%s\" (choose one of %s)",
                       o->gpu, chip_words(words, sizeof words));
    if (!text_parse_rate(o->network, &r->network))
        return err_set(err, STATUS_USAGE,
                       "--network: \"%s\" is not a rate (give bits as in 400Gb/s, or bytes as in 50GB/s)",
                       o->network);
    if (o->tokens && !text_parse_count(o->tokens, &r->tokens))
        return err_set(err, STATUS_USAGE,
                       "--tokens: \"%s\" is not a number of tokens (give one such as 500M or 10B)",
                       o->tokens);
    return STATUS_OK;
}

/* Of the largest step. */
static double tokens_per_step(const struct config *c)
{
    return (double)c->train.batch_size * (double)config_micro_batches_most(c) * (double)c->train.seq_len;
}

/* Steps until so many tokens, with the batch that grows by train.accumulation_plan. */
static double steps_for(const struct config *c, double tokens)
{
    const char *plan = c->train.accumulation_plan;
    double one = (double)c->train.batch_size * (double)c->train.seq_len;
    return *plan ? accumulation_steps(plan, ceil(tokens / one)) : ceil(tokens / tokens_per_step(c));
}

/* The input of a plan for one of the cluster's GPUs. */
static enum status make_input(struct plan_report *r, struct err *err)
{
    const struct config *c = &r->config;
    struct model_config sizes = c->model.sizes;
    struct device_choice choice;
    if (!sizes.num_labels) sizes.num_labels = format_traits(c->data.format)->least_labels;
    enum status status = model_init(&r->model, &sizes, err);
    if (status) return status;
    enum precision precision = plan_precision(c->train.precision, PRECISION_BF16);
    r->cluster = cluster_of(chip_find(r->options->gpu), precision, (int)r->options->per_host, r->network);
    if (r->options->products > 0) r->cluster.rates.products = r->options->products * 1e12;
    if (r->options->bandwidth > 0) r->cluster.rates.memory = r->options->bandwidth * 1e9;
    status = trainable_choose(&r->model, c, precision_element(precision), false, err);
    if (!status) status = device_choice_open(&choice, "cpu", 1, err);
    if (status) return status;
    r->input = plan_input_of(c, &r->model, choice.backend, choice.device);
    device_choice_close(&choice);
    r->input.precision = precision;
    cluster_plan_input(&r->cluster, &r->input);
    return eval_tasks_cache_length(c, &r->input.cache_length, err);
}

static enum status estimate(struct plan_report *r, struct err *err)
{
    int most = (int)r->options->gpus;
    enum status status = STATUS_OK;
    for (int64_t gpus = 1; !status && r->step_count < STEPS_MAX; gpus *= 2) {
        bool last = gpus >= most;
        status = cluster_estimate(&r->cluster, &r->config, &r->input, last ? most : (int)gpus,
                                  &r->steps[r->step_count++], err);
        if (last) break;
    }
    return status;
}

/* ---- as a page or as JSON ---- */

static void print_assumption(struct output *out, const char *name, double value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void print_assumption(struct output *out, const char *name, double value, const char *format, ...)
{
    char about[200];
    TEXT_FORMAT(about, format);
    output_item(out);
    OUTPUT_MEMBERS(out, "name", name, "value", value, "about", (const char *)about);
}

static void print_assumptions(struct output *out, const struct plan_report *r)
{
    const struct cluster *c = &r->cluster;
    const struct chip_sheet *chip = c->chip;
    const struct options *o = r->options;
    double peak = chip->teraflops[r->input.precision];
    const char *precision = precision_name(r->input.precision);
    output_list(out, "assumptions", "Assumptions");
    if (o->products > 0)
        print_assumption(out, "products", o->products, "TFLOP/s of matrix products, as given");
    else
        print_assumption(out, "products", ROOFLINE_PRODUCTS,
                         "of the peak, %.1f TFLOP/s in %s, that matrix products reach", peak, precision);
    print_assumption(out, "attention", ROOFLINE_ATTENTION, "of the peak that attention reaches");
    if (o->bandwidth > 0)
        print_assumption(out, "memory", o->bandwidth, "GB/s of the GPU's memory, as given");
    else
        print_assumption(out, "memory", ROOFLINE_MEMORY,
                         "of the memory's %.0f GB/s that all other operations reach", chip->bandwidth_gbs);
    print_assumption(out, "operation_us", ROOFLINE_STARTING * 1e6,
                     "microseconds: the least that an operation takes");
    print_assumption(out, "link", CLUSTER_LINK, "of %s's %.0f GB/s in each direction, between GPUs of a host",
                     chip->link, chip->link_gbs);
    print_assumption(out, "network", CLUSTER_NETWORK,
                     "of the %.1f GB/s that a host sends through all its adapters together",
                     r->network / 1e9);
    print_assumption(out, "link_hop_us", CLUSTER_LINK_DELAY * 1e6,
                     "microseconds for each hop between GPUs of a host");
    print_assumption(out, "network_hop_us", CLUSTER_NETWORK_DELAY * 1e6,
                     "microseconds for each hop between hosts");
    print_assumption(out, "bucket_mib", CLUSTER_BUCKET / (1 << 20),
                     "MiB: smaller parts of the model are exchanged together");
    print_assumption(out, "overhead_gib", (double)CLUSTER_OVERHEAD / (1 << 30),
                     "GiB of a GPU's memory beside the plan");
    output_list_end(out);
    if (!out->json)
        puts("\nCommunication costs no time while a pass computes: gradients travel during the last backward "
             "pass of a\n"
             "step, weights during the first forward pass. Not counted: evaluations, checkpoints, reading "
             "data, and\n"
             "hosts that are slower than others. No rate is a measurement of anneal's kernels.");
}

static void print_steps(struct output *out, const struct plan_report *r)
{
    double flops = model_flops_per_token(&r->model, (int)r->config.train.seq_len),
           tokens = tokens_per_step(&r->config);
    double peak = r->cluster.chip->teraflops[r->input.precision] * 1e12, alone = r->steps[0].seconds;
    output_list(out, "table", "");
    for (int i = 0; i < r->step_count; i++) {
        const struct cluster_step *s = &r->steps[i];
        double rate = tokens / s->seconds, days = r->tokens / rate / 86400,
               mfu = rate * flops / peak / s->gpus, efficiency = alone / s->seconds / s->gpus;
        output_item(out);
        if (out->json) {
            OUTPUT_MEMBERS(out, "gpus", s->gpus, "hosts", s->hosts, "batch_size", s->batch_size,
                           "micro_batches", s->micro_batches, "memory_bytes", (int64_t)s->bytes, "fits",
                           s->fits);
            OUTPUT_MEMBERS(out, "step_ms", 1e3 * s->seconds, "computing_ms", 1e3 * s->computing,
                           "communication_ms", 1e3 * s->communication, "waiting_ms", 1e3 * s->waiting,
                           "sent_bytes", (int64_t)s->sent, "host_sent_bytes", (int64_t)s->host_sent);
            OUTPUT_MEMBERS(out, "tokens_per_sec", rate, "efficiency", efficiency, "mfu", mfu, "days", days,
                           "gpu_hours", days * 24 * s->gpus);
        }
        output_line(out, ">GPUs", "%d", s->gpus);
        output_line(out, ">hosts", "%d", s->hosts);
        output_line(out, ">memory", "%s%s", TEXT_BYTES(s->bytes), s->fits ? "" : " (too much)");
        output_line(out, ">batch", "%d x %d", s->micro_batches, s->batch_size);
        if (s->seconds < 1)
            output_line(out, ">step", "%.1f ms", 1e3 * s->seconds);
        else
            output_line(out, ">step", "%.2f s", s->seconds);
        output_line(out, ">sends", "%s", TEXT_BYTES(s->sent));
        output_line(out, ">waits", "%.1f %%", 100 * s->waiting / s->seconds);
        output_line(out, ">tokens/s", "%s", TEXT_COUNT(rate));
        output_line(out, ">efficiency", "%.0f %%", 100 * efficiency);
        output_line(out, ">MFU", "%.0f %%", 100 * mfu);
        output_line(out, ">training", "%s", CLOCK_DURATION(days * 86400));
        output_line(out, ">GPU hours", "%s", TEXT_SHORT(days * 24 * s->gpus));
    }
    output_list_end(out);
}

/* Of a step on one GPU. */
static void print_operations(struct output *out, const struct plan_report *r)
{
    const struct cluster_step *step = &r->steps[0];
    output_list(out, "operations", "Operations of a step on one GPU");
    for (int i = 0; i < step->cost_count; i++) {
        const struct cluster_cost *cost = &step->costs[i];
        output_item(out);
        if (out->json)
            OUTPUT_MEMBERS(out, "phase", phase_name(cost->phase), "op", cost->op, "calls", cost->calls,
                           "bytes", cost->bytes, "flops", cost->flops, "estimated_ms", 1e3 * cost->seconds);
        output_line(out, "phase", "%s", phase_name(cost->phase));
        output_line(out, "operation", "%s", cost->op);
        output_line(out, ">calls", "%.0f", cost->calls);
        output_line(out, ">GB", "%.3f", cost->bytes / 1e9);
        output_line(out, ">GFLOP", "%.0f", cost->flops / 1e9);
        output_line(out, ">estimated ms", "%.3f", 1e3 * cost->seconds);
        output_line(out, ">share", "%.1f %%", 100 * cost->seconds / step->computing);
    }
    output_list_end(out);
}

static enum status print(const struct plan_report *r, struct err *err)
{
    struct output out;
    const struct config *c = &r->config;
    const struct chip_sheet *chip = r->cluster.chip;
    int64_t sequences = c->train.batch_size * config_micro_batches_most(c);
    double flops = model_flops_per_token(&r->model, (int)c->train.seq_len), tokens = tokens_per_step(c);
    char vocabulary[CONFIG_NOTE_SIZE];
    config_vocabulary_note(c, vocabulary, sizeof vocabulary);
    output_begin(&out, r->options->json);
    if (out.json) {
        OUTPUT_MEMBERS(&out, "estimate", (bool)true, "gpu", chip->word, "per_host", r->options->per_host,
                       "network_bytes_per_sec", r->network, "precision", precision_name(r->input.precision),
                       "parameters", r->model.parameters, "sequences_per_step", sequences);
        OUTPUT_MEMBERS(&out, "tokens_per_step", tokens, "flops_per_token", flops, "tokens", r->tokens,
                       "flops", r->tokens * flops);
    }
    output_line(&out, "estimate", "from the operations of a step and data sheets, not measured");
    output_line(&out, "GPU", "%s: %.1f TFLOP/s in %s, %g GiB at %.0f GB/s", chip->word,
                chip->teraflops[r->input.precision], precision_name(r->input.precision), chip->memory_gib,
                chip->bandwidth_gbs);
    output_line(&out, "host", "%d GPUs with %s at %.0f GB/s, network %.1f GB/s", (int)r->options->per_host,
                chip->link, chip->link_gbs, r->network / 1e9);
    output_line(&out, "model", "%s parameters, %s FLOPs per token", TEXT_COUNT(r->model.parameters),
                TEXT_COUNT(flops));
    if (*vocabulary) output_line(&out, "vocabulary", "%s", vocabulary);
    output_line(&out, "step", "%d sequences of %d tokens: %s tokens", (int)sequences, (int)c->train.seq_len,
                TEXT_COUNT(tokens));
    output_line(&out, "training", "%s tokens: %s steps, %.3g FLOPs", TEXT_COUNT(r->tokens),
                TEXT_NUMBER(steps_for(c, r->tokens)), r->tokens * flops);
    if (!out.json) putchar('\n');
    print_steps(&out, r);
    if (!out.json && r->options->gpus > sequences)
        printf(
            "\nA step has %d sequences: more GPUs than that have nothing to do (train.accumulation_steps).\n",
            (int)sequences);
    if (r->options->operations) print_operations(&out, r);
    print_assumptions(&out, r);
    return output_end(&out, err);
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    struct plan_report *r = calloc(1, sizeof *r);
    if (!r) return err_no_memory(err, "a plan");
    r->options = options;
    enum status status = read_options(r, err);
    if (!status) status = train_read_config(words, &r->config, err);
    if (!status && !r->tokens && r->config.train.epochs > 0)
        status = err_set(
            err, STATUS_USAGE,
            "train.epochs = %g: an epoch has as many tokens as the texts, which are not read here (give "
            "--tokens)",
            r->config.train.epochs);
    if (!status && !r->tokens) {
        const struct config_train *train = &r->config.train;
        r->tokens = config_micro_batches_sum(&r->config, train->total_steps) * (double)train->batch_size *
                    (double)train->seq_len;
    }
    if (!status) status = make_input(r, err);
    if (!status) status = estimate(r, err);
    if (!status) status = print(r, err);
    model_release(&r->model);
    free(r);
    return status;
}

static const struct options defaults = {.gpu = "h100", .network = "400Gb/s", .gpus = 8, .per_host = 8};

static const struct option_spec options[] = {
    OPTION("gpus", OPTION_WHOLE, AT(gpus), "N",
           "the most GPUs: the table has 1, 2, 4 and so on up to N (default 8)", .least = 1, .most = 65536),
    OPTION("per-host", OPTION_WHOLE, AT(per_host), "N", "GPUs of one host (default 8)", .least = 1,
           .most = 1024),
    OPTION("network", OPTION_TEXT, AT(network), "RATE",
           "what a host can send to other hosts, through all its adapters together: bits as in 400Gb/s (the "
           "default) or bytes as in 50GB/s"),
    OPTION("gpu", OPTION_TEXT, AT(gpu), "NAME",
           "the GPU, by its data sheet: h100 (the default), h200, a100, l40s, rtx4090 and others, which the "
           "error for a wrong name lists"),
    OPTION("tokens", OPTION_TEXT, AT(tokens), "COUNT",
           "the tokens to train on, such as 500M or 10B (default: those of train.total_steps)"),
    OPTION("products", OPTION_NUMBER, AT(products), "TFLOPS",
           "what matrix products reach on your GPU, as measured, instead of a share of its peak",
           .least = 0.001, .most = 1e6),
    OPTION("bandwidth", OPTION_NUMBER, AT(bandwidth), "GBS",
           "what the memory of your GPU reaches, as measured", .least = 0.1, .most = 1e6),
    OPTION(
        "operations", OPTION_FLAG, AT(operations), NULL,
        "also every operation of a step on one GPU: the bytes that it moves at least, its FLOPs, its time"),
    JSON_OPTION,
    {0},
};

const struct command command_plan = COMMAND(
    "plan", "CONFIG.ini", 0, 1, options, "estimate a training on other or many GPUs", run, defaults,
    .settings = true,
    .about = "Estimates memory, time of a step, communication and scaling of `anneal train` with this "
             "configuration on GPUs that need not be in this machine. The memory is that of `anneal estimate "
             "--ranks`; the time follows from the operations of a step and from data sheets. All assumptions "
             "are printed.",
    .notes =
        "The batch of a step (train.batch_size times train.accumulation_steps) stays the same: each GPU "
        "takes its part of it.\n\n"
        "Columns: the plan's memory on each GPU; the micro-batches of a GPU and the sequences of each; the "
        "time of a step; what a GPU sends in it; the share of the step that waits for communication; the "
        "speed, compared with as many times one GPU (efficiency) and with the peak of the GPUs (MFU); and "
        "how long the training takes.\n\n"
        "  anneal plan --model.preset=medium --gpus 16 --gpu a100\n"
        "  anneal plan --model.preset=gpt2-124m-shape --gpus 1 --operations\n"
        "  anneal plan my.ini --gpus 64 --per-host 8 --network 400Gb/s --tokens 10B");
