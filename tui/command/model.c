/* anneal model info | export | import. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/imported_model.h"
#include "runs/run.h"
#include "tui/command/clean.h"
#include "tui/command/model_info.h"
#include "tui/command/run_commands.h"
#include "tui/session/model_folder.h"

static const char help[] =
    "anneal model: what a model is made of, a run's model for other programs, theirs for runs\n"
    "\n"
    "usage: anneal model info RUN|FOLDER [--step N | --best] [--json]\n"
    "       anneal model export RUN|FOLDER -o FOLDER [--step N | --best]\n"
    "       anneal model import FOLDER [--name NAME | -o FOLDER]\n"
    "\n"
    "info     prints sizes, parameters, bytes and every tensor with shape and type, "
    "of a run's checkpoint or of "
    "any\n"
    "         folder with config.json and model.safetensors, or shards and their "
    "model.safetensors.index.json, such as\n"
    "         a Hugging Face checkout. Only headers are read.\n"
    "export   copies weights, config.json and tokenizer, without the optimizer, into "
    "a new FOLDER that Hugging "
    "Face's\n"
    "         transformers opens with from_pretrained, and anneal generate, too.\n"
    "import   takes a Hugging Face checkout over (Llama, Qwen2 or Qwen3; one "
    "model.safetensors, or shards and their\n"
    "         model.safetensors.index.json), once every tensor has been checked by name, "
    "shape and type (F32, BF16,\n"
    "         F16): as an imported model, which train --model.from, generate, evaluate and "
    "model info take by its NAME,\n"
    "         or into a new FOLDER. A run's name is refused; a later run of this name comes first.\n"
    "\n"
    "  --step N     RUN's checkpoint of step N (default: the newest)\n"
    "  --best       the checkpoint with RUN's best validation loss\n"
    "  --json       info as one JSON object\n"
    "  --name NAME  what to call an imported model (default: the folder's name); it is kept "
    "in $ANNEAL_HOME/models\n"
    "\n"
    "examples:\n"
    "  anneal model info latest\n"
    "  anneal model info Qwen3-0.6B/ --json\n"
    "  anneal model export latest --best -o kjv-model\n"
    "  anneal model import Qwen3-0.6B/ --name qwen\n"
    "  anneal train --model.from=qwen --data.train=books/\n";

struct options {
    const char *verb, *output, *name;
    struct model_choice model;
    bool json;
};

static int read_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"step", required_argument, NULL, 's'}, {"best", no_argument, NULL, 'b'},
        {"json", no_argument, NULL, 'j'},       {"output", required_argument, NULL, 'o'},
        {"name", required_argument, NULL, 'n'}, {0}};
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
        } else if (option == 'n') {
            o->name = optarg;
        } else {
            return run_option_error(argv, option);
        }
    }
    if (argc - optind < 1) return command_usage("model", "what: info, export or import?");
    o->verb = argv[optind];
    bool info = strcmp(o->verb, "info") == 0, export = strcmp(o->verb, "export") == 0,
         import = strcmp(o->verb, "import") == 0;
    if (!info && !export && !import) return command_usage("model", "there is info, export and import");
    if (argc - optind != 2 || !*argv[optind + 1])
        return command_usage("model", import ? "import needs one folder" : "name one run or one folder");
    if (import && (o->model.best || o->model.step >= 0))
        return command_usage("model", "--step and --best are for runs, import takes a folder");
    if (o->output && !*o->output) return command_usage("model", "-o needs a FOLDER");
    if (o->name && !*o->name) return command_usage("model", "--name needs a NAME");
    if (import && o->name && o->output) return command_usage("model", "--name or -o, not both");
    if (!import && o->name) return command_usage("model", "--name is for import");
    if (o->model.best && o->model.step >= 0) return command_usage("model", "--best or --step, not both");
    if (export && !o->output) return command_usage("model", "export needs -o FOLDER");
    if (!info && o->json) return command_usage("model", "--json is for info");
    if (info && o->output) return command_usage("model", "-o is for export and import");
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

/* The last part of a path, without the slashes behind it; for "." and "..", of where they lead. */
static enum status name_of_folder(const char *path, char name[PATH_MAX], struct err *err)
{
    char whole[PATH_MAX];
    if (!realpath(path, whole))
        return err_set(err, STATUS_NOT_FOUND, "%s: cannot open: %s", path, strerror(errno));
    snprintf(name, PATH_MAX, "%s", strrchr(whole, '/') + 1);
    return STATUS_OK;
}

/* A run of that name would stand before the import wherever a word means either. */
static enum status check_no_run(const char *name, struct err *err)
{
    struct store *store = NULL;
    struct run_info run;
    enum status status = run_open_store(&store, err);
    if (status) return status;
    status = run_find(store, name, &run, NULL);
    store_close(store);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "%.80s: means a run already, which would come before the model (choose another with --name)", name);
}

/* Where the import goes. A name stands for itself among runs, too, so the same rules hold. */
static enum status choose_place(const struct options *o, char name[PATH_MAX], char to[PATH_MAX],
                                struct err *err)
{
    enum status status = STATUS_OK;
    if (o->output) {
        snprintf(name, PATH_MAX, "%s", o->output);
        return file_format_path(to, PATH_MAX, err, "%s", o->output);
    }
    if (o->name)
        snprintf(name, PATH_MAX, "%s", o->name);
    else
        status = name_of_folder(o->model.source, name, err);
    if (!status) status = run_name_check(name, err);
    if (!status && (strchr(name, '/') || *name == '.' || !*name))
        status = err_set(err, STATUS_USAGE, "--name \"%.80s\": must be a plain word, no path", name);
    if (!status) status = imported_model_folder(name, to, PATH_MAX, err);
    if (!status && file_exists(to))
        status = err_set(
            err, STATUS_USAGE,
            "%s: a model of this name was imported before (choose another with --name, or remove that "
            "folder)",
            to);
    return status ? status : check_no_run(name, err);
}

static void print_import(const struct options *o, const struct imported_model *m, const char *name,
                         const char *to)
{
    char size[32], files[48] = "", shown[PATH_MAX], place[PATH_MAX];
    clean_line(shown, sizeof shown, name);
    clean_line(place, sizeof place, to);
    if (m->files > 1) snprintf(files, sizeof files, " of %zu files", m->files);
    printf("%s: %zu tensors%s, %s, in %s\n", shown, m->tensors, files,
           text_format_bytes((uint64_t)m->bytes, size, sizeof size), place);
    if (m->vocabulary)
        printf("  tokenizer   a vocabulary of %d, the model's is %d\n", m->vocabulary, m->config.vocab_size);
    printf("  train       anneal train --model.from=%s --data.train=...\n", shown);
    if (m->vocabulary) printf("  write       anneal generate %s --prompt ...\n", shown);
    if (m->tokenizer.status) {
        clean_line(place, sizeof place, m->tokenizer.text);
        fprintf(stderr, "anneal: warning: %s (no text can be written or tokenized with it)\n", place);
    } else if (!m->vocabulary) {
        fprintf(stderr, "anneal: warning: %s: has no tokenizer.json (no text can be written or tokenized)\n",
                o->model.source);
    } else if (m->vocabulary > m->config.vocab_size) {
        fprintf(stderr, "anneal: warning: the tokenizer's vocabulary is larger than the model's\n");
    }
}

static enum status import_model(const struct options *o, struct err *err)
{
    char name[PATH_MAX], to[PATH_MAX];
    struct imported_model model;
    enum status status = choose_place(o, name, to, err);
    if (!status) status = imported_model_write(o->model.source, to, &model, err);
    if (!status) print_import(o, &model, name, to);
    return status;
}

int command_model(int argc, char **argv)
{
    struct options o;
    struct err err = {0};
    char folder[PATH_MAX];
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return 0;
        }
    int code = read_options(argc, argv, &o);
    if (code) return code;
    bool import = strcmp(o.verb, "import") == 0;
    enum status status =
        import ? import_model(&o, &err) : model_choice_find(&o.model, folder, sizeof folder, NULL, &err);
    if (!status && !import)
        status = strcmp(o.verb, "info") == 0 ? model_info_print(folder, o.json, &err)
                                             : export_model(&o, folder, &err);
    if (!status) status = run_check_stdout(&err);
    return status ? command_fail(&err) : 0;
}
