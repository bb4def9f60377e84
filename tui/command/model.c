/* anneal model info | export. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/checkpoint.h"
#include "tui/command/clean.h"
#include "tui/command/model_folder.h"
#include "tui/command/model_info.h"
#include "tui/command/run_commands.h"

static const char help[] = "anneal model: what a model is made of, and a run's model for other programs\n"
                           "\n"
                           "usage: anneal model info RUN|FOLDER [--step N | --best] [--json]\n"
                           "       anneal model export RUN|FOLDER -o FOLDER [--step N | --best]\n"
                           "\n"
                           "info     prints sizes, parameters, bytes and every tensor with shape and type, "
                           "of a run's checkpoint or of "
                           "any\n"
                           "         folder with config.json and model*.safetensors, such as a Hugging Face "
                           "checkout. Only headers are "
                           "read.\n"
                           "export   copies weights, config.json and tokenizer, without the optimizer, into "
                           "a new FOLDER that Hugging "
                           "Face's\n"
                           "         transformers opens with from_pretrained, and anneal generate, too.\n"
                           "\n"
                           "  --step N     RUN's checkpoint of step N (default: the newest)\n"
                           "  --best       the checkpoint with RUN's best validation loss\n"
                           "  --json       info as one JSON object\n"
                           "\n"
                           "examples:\n"
                           "  anneal model info latest\n"
                           "  anneal model info Qwen3-0.6B/ --json\n"
                           "  anneal model export latest --best -o kjv-model\n";

struct options {
    const char *verb, *output;
    struct model_choice model;
    bool json;
};

static int read_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"step", required_argument, NULL, 's'},
                                          {"best", no_argument, NULL, 'b'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"output", required_argument, NULL, 'o'},
                                          {0}};
    *o = (struct options){.model = {.command = "model", .step = -1}};
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:", longs, NULL)) != -1;) {
        if (option == 's') {
            if (!text_parse_int(optarg, &o->model.step) || o->model.step < 0)
                return command_usage("model", "--step must be the step of a checkpoint, from 0");
        } else if (option == 'b') {
            o->model.best = true;
        } else if (option == 'j') {
            o->json = true;
        } else if (option == 'o') {
            o->output = optarg;
        } else {
            return run_option_error(argv, option);
        }
    }
    if (argc - optind < 1) return command_usage("model", "what: info or export?");
    o->verb = argv[optind];
    bool info = strcmp(o->verb, "info") == 0, export = strcmp(o->verb, "export") == 0;
    if (!info && !export) return command_usage("model", "there is info and export");
    if (argc - optind != 2) return command_usage("model", "name one run or one folder");
    if (o->model.best && o->model.step >= 0) return command_usage("model", "--best or --step, not both");
    if (export && !o->output) return command_usage("model", "export needs -o FOLDER");
    if (export && o->json) return command_usage("model", "--json is for info");
    if (info && o->output) return command_usage("model", "-o is for export");
    o->model.doing = info ? "describing" : "exporting";
    o->model.source = argv[optind + 1];
    return 0;
}

static enum status export_model(const struct options *o, const char *folder, struct err *err)
{
    char size[32], shown[PATH_MAX];
    int64_t bytes;
    enum status status = checkpoint_export(folder, o->output, &bytes, err);
    if (status) return status;
    clean_line(shown, sizeof shown, o->output);
    printf("%s: %s, from %s\n", shown, text_format_bytes((uint64_t)bytes, size, sizeof size),
           strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder);
    return STATUS_OK;
}

int command_model(int argc, char **argv)
{
    struct options o;
    struct err err = {0};
    char folder[PATH_MAX];
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return 0;
        }
    int code = read_options(argc, argv, &o);
    if (code) return code;
    enum status status = model_choice_find(&o.model, folder, sizeof folder, &err);
    if (!status)
        status = strcmp(o.verb, "info") == 0 ? model_info_print(folder, o.json, &err)
                                             : export_model(&o, folder, &err);
    if (!status) status = run_check_stdout(&err);
    return status ? command_fail(&err) : 0;
}
