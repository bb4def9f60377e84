/* anneal model info | export | import: describes a model from the headers of its files alone (several files,
 * as Hugging Face splits large models, are one model); exports a run's model; imports others for runs. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/merge.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/config.h"
#include "core/model/hugging_face.h"
#include "core/model/safetensors.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/model_tokens.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/loaded_model.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *output, *name;
    int gguf; /* an enum gguf_type; -1: a folder */
    int progress;
    int64_t step;
    bool best, ema, json;
};

static const struct options defaults = {.step = -1, .gguf = -1};

/* ---- info ---- */

enum { WORDS_SHOWN = 96 };

struct description {
    const char *folder;
    struct safetensors weights;
    struct config config;      /* only the sizes of the model are meaningful */
    struct err config_problem; /* status 0: none */
    struct train_state state;  /* of one of our checkpoints */
    struct adapter_config adapter;
    struct adapter_base base; /* of adapters */
    bool trained_here, adapters;
    uint64_t parameters, bytes;
};

static enum status open_description(struct description *m, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    m->folder = folder;
    enum status status = STATUS_OK;
    m->adapters = adapter_file_exists(folder);
    if (m->adapters) {
        status = file_format_path(path, sizeof path, err, "%s/adapter_model.safetensors", folder);
        if (!status) status = safetensors_open(path, &m->weights, err);
        if (!status) status = adapter_file_read(folder, &m->adapter, &m->base, err);
    } else
        status = safetensors_open_folder(folder, &m->weights, err);
    if (status) return status;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct safetensor *tensor = &m->weights.tensors[i];
        uint64_t elements = 1;
        for (int d = 0; d < tensor->dims; d++) elements *= (uint64_t)tensor->shape[d];
        m->parameters += elements;
        m->bytes += tensor->bytes;
    }
    config_init(&m->config);
    struct model_config *sizes = &m->config.model.sizes;
    if (!hugging_face_read_config(folder, sizes, &m->config_problem)) sizes->kind = model_kind_of(sizes);
    m->trained_here = !checkpoint_load_state(folder, &m->state, NULL);
    return STATUS_OK;
}

/* A tensor's name with * for its layer's number, and "48 x 32". */
static void describe(const struct safetensor *t, char name[WORDS_SHOWN], char shape[WORDS_SHOWN])
{
    const char *at = strstr(t->name, "layers.");
    size_t digits = at ? strspn(at + 7, "0123456789") : 0, head = digits ? (size_t)(at + 7 - t->name) : 0;
    snprintf(name, WORDS_SHOWN, "%.*s%s%s", (int)head, t->name, digits ? "*" : "", t->name + head + digits);
    *shape = '\0';
    for (int d = 0; d < t->dims; d++) text_add(shape, WORDS_SHOWN, " x ", "%" PRId64, t->shape[d]);
}

static bool same_kind(const struct safetensor *a, const struct safetensor *b)
{
    char names[2][WORDS_SHOWN], shapes[2][WORDS_SHOWN];
    describe(a, names[0], shapes[0]);
    describe(b, names[1], shapes[1]);
    return strcmp(names[0], names[1]) == 0 && strcmp(shapes[0], shapes[1]) == 0 &&
           strcmp(a->dtype, b->dtype) == 0;
}

static void tensor_json(struct output *o, const struct safetensor *t)
{
    output_item(o);
    OUTPUT_MEMBERS(o, "name", t->name, "dtype", t->dtype, "bytes", (int64_t)t->bytes);
    json_out_open(&o->out, "shape", '[', JSON_OUT_FLAT);
    for (int d = 0; d < t->dims; d++) json_out_int(&o->out, NULL, t->shape[d]);
    json_out_close(&o->out);
}

/* A page shows tensors that are the same in every layer as one line, in the first one's place. */
static void show_tensors(struct output *o, const struct description *m)
{
    const struct safetensor *tensors = m->weights.tensors;
    char name[WORDS_SHOWN], shape[WORDS_SHOWN];
    output_list(o, "tensors", "Tensors");
    for (size_t i = 0; i < m->weights.count; i++) {
        size_t layers = 0, before = 0;
        for (size_t k = 0; k < m->weights.count && !before && !o->json; k++) {
            layers += same_kind(&tensors[i], &tensors[k]);
            before = k < i && layers;
        }
        if (o->json) tensor_json(o, &tensors[i]);
        if (o->json || before) continue;
        describe(&tensors[i], name, shape);
        output_item(o);
        OUTPUT_MEMBERS(o, "name", name, "dtype", tensors[i].dtype, "shape", shape, "bytes",
                       (int64_t)(tensors[i].bytes * layers), "layers", (int64_t)layers);
    }
    output_list_end(o);
}

static void show_config(struct output *o, const struct description *m)
{
    static const char shown[] =
        "vocab_size, hidden_dim, num_layers, num_heads, num_kv_heads, head_dim, intermediate_dim, "
        "max_seq_len, rope_base, rope_scaling, rope_factor, norm_eps, tie_weights, qk_norm, qkv_bias, "
        "o_bias, mlp_bias, sliding_window, full_attention_layers, kind";
    char name[64], key[80], value[CONFIG_TEXT_MAX];
    if (m->config_problem.status) {
        output_line(o, "config", "anneal cannot compute it: %s", m->config_problem.text);
        if (o->json) json_out_text(&o->out, "config", NULL);
        return;
    }
    output_open(o, "config", "Configuration");
    for (const char *rest = shown; text_next_name(&rest, name, sizeof name);) {
        snprintf(key, sizeof key, "model.%s", name);
        config_get(&m->config, key, value, sizeof value);
        if (o->json)
            run_param_json(&o->out, name, value);
        else
            output_text(o, name, value);
    }
    output_close(o);
}

/* A config.json that anneal cannot compute is only reported; missing weights, or a missing shard of their
 * index, are errors. */
static enum status run_info(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"describing", words->words[0], o->step, o->best, {0}};
    struct description d = {0};
    struct output out;
    char folder[PATH_MAX];
    enum status status = model_choice_find(&model, folder, sizeof folder, NULL, err);
    if (!status) status = open_description(&d, folder, err);
    if (!status) {
        output_begin(&out, o->json);
        OUTPUT_MEMBERS(&out, "folder", d.folder, "step", d.trained_here ? d.state.step : -1, "optimizer",
                       (bool)checkpoint_is_full(d.folder), "parameters", (int64_t)d.parameters, "bytes",
                       (int64_t)d.bytes);
        if (d.adapters)
            OUTPUT_MEMBERS(&out, "base", d.base.folder, "lora_rank", (int64_t)d.adapter.rank, "lora_alpha",
                           d.adapter.alpha, "lora_scale", adapter_scale(&d.adapter));
        show_config(&out, &d);
        show_tensors(&out, &d);
        status = output_end(&out, err);
        if (!d.config_problem.status && !d.adapters &&
            checkpoint_check_weights(&d.weights, &d.config.model.sizes, &d.config_problem))
            output_warn("config.json and the tensors contradict each other: %s", d.config_problem.text);
    }
    safetensors_close(&d.weights);
    return checkpoint_hold_end(&model.hold, folder, status, err);
}

static const struct option_spec info_options[] = {
    STEP_OPTION,
    BEST_OPTION,
    JSON_OPTION,
    {0},
};

static const struct command model_info = COMMAND(
    "model info", "RUN|FOLDER", 1, 1, info_options, "print sizes, parameters and tensors", run_info, defaults,
    .about = "Prints sizes, parameters, bytes and every tensor with its shape and type, for a run's "
             "checkpoint or for any folder with config.json and model.safetensors (or shards and their "
             "model.safetensors.index.json), such as a Hugging Face checkout. Only headers are read.");

/* ---- list ---- */

static int is_imported(const struct dirent *entry)
{
    char folder[PATH_MAX];
    return !strstr(entry->d_name, ".tmp-") && imported_model_find(entry->d_name, folder, sizeof folder);
}

static void show_imported(struct output *o, const char *name)
{
    struct description d = {0};
    struct err problem = {0};
    char folder[PATH_MAX];
    enum status status = imported_model_folder(name, folder, sizeof folder, &problem);
    if (!status) status = open_description(&d, folder, &problem);
    output_item(o);
    OUTPUT_MEMBERS(o, "name", name, "parameters", status ? -1 : (int64_t)d.parameters, "bytes",
                   status ? -1 : (int64_t)d.bytes, "dtype",
                   !status && d.weights.count ? d.weights.tensors[0].dtype : NULL, "folder", folder);
    if (status) output_warn("%s", problem.text);
    safetensors_close(&d.weights);
}

static enum status run_list_models(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct dirent **entries = NULL;
    struct output out;
    char folder[PATH_MAX];
    (void)words;
    enum status status = imported_model_folder("", folder, sizeof folder, err);
    int count = status ? 0 : scandir(folder, &entries, is_imported, alphasort);
    if (count < 0 && errno != ENOENT)
        status = err_set(err, STATUS_IO, "%s: cannot read the folder: %s", folder, strerror(errno));
    if (status) return status;
    output_begin(&out, o->json);
    output_list(&out, "models", "");
    for (int i = 0; i < count; i++) {
        show_imported(&out, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    output_list_end(&out);
    if (count <= 0 && !o->json)
        fprintf(stderr, "there are no imported models yet (import one with `%s model import FOLDER`)\n",
                TEXT_PROGRAM);
    return output_end(&out, err);
}

static const struct option_spec list_options[] = {JSON_OPTION, {0}};

static const struct command model_list = COMMAND(
    "model list", "", 0, 0, list_options, "list the imported models", run_list_models, defaults,
    .about = "Prints the models that `anneal model import` keeps in $ANNEAL_HOME/models. To remove one, "
             "remove its folder.");

/* ---- export ---- */

static enum status refuse_stdout(const struct options *o, struct err *err)
{
    if (!o->output || strcmp(o->output, "-") != 0) return STATUS_OK;
    if (o->gguf >= 0)
        return err_set(err, STATUS_USAGE,
                       "-o -: standard output has the line that reports the export, so the GGUF file cannot "
                       "go there (give -o FILE.gguf)");
    return err_set(err, STATUS_USAGE,
                   "-o -: a model is a folder, so it cannot go to standard output (give -o FOLDER)");
}

static enum checkpoint_weights chosen_weights(const struct options *o)
{
    return o->ema ? CHECKPOINT_AVERAGE : CHECKPOINT_WEIGHTS;
}

static enum status export_gguf(const struct options *o, const char *folder, const struct progress *progress,
                               int64_t *bytes, struct err *err)
{
    if (file_is_folder(o->output))
        return err_set(err, STATUS_USAGE, "-o %s: is a folder, but GGUF is one file (-o %s/model.gguf)",
                       o->output, o->output);
    return checkpoint_export_gguf(folder, chosen_weights(o), o->output, (enum gguf_type)o->gguf, progress,
                                  bytes, err);
}

static enum status run_export(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"exporting", words->words[0], o->step, o->best, {0}};
    char folder[PATH_MAX];
    int64_t bytes;
    struct progress_bar bar;
    progress_bar_init(&bar, stderr, o->progress);
    enum status status = refuse_stdout(o, err);
    if (!status) status = model_choice_find(&model, folder, sizeof folder, NULL, err);
    if (!status)
        status = o->gguf >= 0
                     ? export_gguf(o, folder, &bar.progress, &bytes, err)
                     : checkpoint_export(folder, chosen_weights(o), o->output, &bar.progress, &bytes, err);
    progress_bar_clear(&bar);
    status = checkpoint_hold_end(&model.hold, folder, status, err);
    if (status) return status;
    printf("%s: %s, from %s\n", CLEAN_LINE(o->output), TEXT_BYTES(bytes),
           strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder);
    return STATUS_OK;
}

static const struct option_spec export_options[] = {
    OPTION("output", OPTION_TEXT, AT(output), "PATH", "a new folder, or with --gguf a file", .letter = 'o',
           .required = true),
    OPTION("gguf", OPTION_CHOICE, AT(gguf), GGUF_WORDS,
           "one GGUF file for llama.cpp and Ollama instead, with matrices of this type"),
    OPTION("ema", OPTION_FLAG, AT(ema), NULL,
           "the averages of the weights (train.ema_decay) instead of the weights"),
    STEP_OPTION,
    BEST_OPTION,
    PROGRESS_OPTION,
    {0},
};

static const struct command model_export = COMMAND(
    "model export", "RUN|FOLDER", 1, 1, export_options, "write a run's model for other programs", run_export,
    defaults,
    .about =
        "Copies weights, config.json and tokenizer, without the optimizer, into a new folder. Hugging Face's "
        "transformers opens it with from_pretrained, and anneal generate opens it, too. With --gguf it "
        "writes one file with weights, tokenizer and chat template, which llama.cpp and Ollama run.");

/* ---- import ---- */

/* The last part of a path without slashes at its end; for "." and "..", of the folder meant. */
static enum status name_of_folder(const char *path, char name[PATH_MAX], struct err *err)
{
    char whole[PATH_MAX];
    if (!realpath(path, whole))
        return err_set(err, STATUS_NOT_FOUND, "%s: cannot open: %s", path, strerror(errno));
    snprintf(name, PATH_MAX, "%s", strrchr(whole, '/') + 1);
    return STATUS_OK;
}

/* Refuses a run's name: the run would hide the import. */
static enum status check_no_run(const char *name, struct err *err)
{
    struct store *store = NULL;
    struct run_info run;
    enum status status = store_open(NULL, STORE_READ, &store, err);
    if (status) return status;
    status = run_find(store, name, &run, NULL);
    store_close(store);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "%.80s: a run has this name, and would be found before the model (choose another with --name)", name);
}

/* Chooses the import's folder. Its name is typed like a run's, so the same rules hold. */
static enum status choose_place(const struct options *o, const char *source, char name[PATH_MAX],
                                char to[PATH_MAX], struct err *err)
{
    enum status status = STATUS_OK;
    if (o->output) {
        snprintf(name, PATH_MAX, "%s", o->output);
        return file_format_path(to, PATH_MAX, err, "%s", o->output);
    }
    if (o->name)
        snprintf(name, PATH_MAX, "%s", o->name);
    else
        status = name_of_folder(source, name, err);
    if (!status) status = run_name_check(name, err);
    if (!status && (strchr(name, '/') || *name == '.' || !*name))
        status = err_set(err, STATUS_USAGE, "--name \"%.80s\": must be a plain name, not a path", name);
    if (!status && strcmp(CLEAN_LINE(name), name) != 0)
        status = err_set(err, STATUS_USAGE, "--name \"%.80s\": has a control character or is not valid UTF-8",
                         name);
    if (!status) status = imported_model_folder(name, to, PATH_MAX, err);
    if (!status && file_exists(to))
        status = err_set(err, STATUS_USAGE,
                         "%s: a model of this name has been imported already (choose another name with "
                         "--name, or remove that folder)",
                         to);
    return status ? status : check_no_run(name, err);
}

/* The weights were copied just now, so that reading them costs little. */
static void warn_of_broken_numbers(const struct safetensors *weights)
{
    const char *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < weights->count; i++) {
        if (safetensor_is_finite(&weights->tensors[i])) continue;
        if (!count++) first = weights->tensors[i].name;
    }
    if (count)
        output_warn("%zu of %zu tensors %s numbers that are NaN or infinite, the first is %s (what the model "
                    "computes is useless then: get its files anew, or take an earlier checkpoint)",
                    count, weights->count, count == 1 ? "has" : "have", CLEAN_LINE(first));
}

static void print_import(const struct description *m, const char *name, int64_t bytes)
{
    char path[PATH_MAX], word[PATH_MAX + 8];
    struct tokenizer *tokenizer;
    struct err problem = {0};
    int vocabulary = 0;
    bool there =
        !file_format_path(path, sizeof path, NULL, "%s/tokenizer.json", m->folder) && file_exists(path);
    if (there && !tokenizer_open_json(path, &tokenizer, &problem)) {
        vocabulary = tokenizer_vocab_size(tokenizer);
        tokenizer_close(tokenizer);
    }
    printf("%s: %zu tensors, %s, in %s\n", CLEAN_LINE(name), m->weights.count, TEXT_BYTES(bytes),
           CLEAN_LINE(m->folder));
    if (vocabulary)
        printf("  tokenizer   a vocabulary of %d (the model's has %d)\n", vocabulary,
               m->config.model.sizes.vocab_size);
    text_quote(CLEAN_LINE(name), word, sizeof word);
    bool classifier = m->config.model.sizes.num_labels > 0;
    printf("  train       %s train --model.from=%s%s --data.train=...\n", TEXT_PROGRAM, word,
           classifier ? " --data.format=labels" : "");
    if (vocabulary && classifier)
        printf("  classify    %s classify %s TEXT\n", TEXT_PROGRAM, word);
    else if (vocabulary)
        printf("  write       %s generate %s --prompt ...\n", TEXT_PROGRAM, word);
    if (problem.status)
        output_warn("%s (the model cannot read or write text with it)", problem.text);
    else if (!there)
        output_warn("there is no tokenizer.json (the model cannot read or write text without one)");
    else if (vocabulary > m->config.model.sizes.vocab_size)
        output_warn("the tokenizer has %d tokens, but the model has rows for %d (texts with the others are "
                    "refused, and so is training: remove them from added_tokens of tokenizer.json)",
                    vocabulary, m->config.model.sizes.vocab_size);
    warn_of_broken_numbers(&m->weights);
}

static enum status run_import(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    const char *source = words->words[0];
    char name[PATH_MAX], to[PATH_MAX];
    struct description m = {0};
    int64_t bytes;
    struct progress_bar bar;
    if (o->name && o->output) return err_set(err, STATUS_USAGE, "give --name or -o, not both");
    progress_bar_init(&bar, stderr, o->progress);
    enum status status = refuse_stdout(o, err);
    if (!status && file_exists(source) && !file_is_folder(source))
        status = err_set(err, STATUS_USAGE,
                         "%s: is a file (name the folder of a model, with config.json and model.safetensors; "
                         "GGUF files are not read)",
                         source);
    if (!status) status = choose_place(o, source, name, to, err);
    if (!status) status = checkpoint_import(source, to, &bar.progress, &bytes, err);
    progress_bar_clear(&bar);
    if (!status) status = open_description(&m, to, err);
    if (!status) print_import(&m, name, bytes);
    safetensors_close(&m.weights);
    return status;
}

static const struct option_spec import_options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME",
           "what to call the imported model (default: the folder's name); it is kept in $ANNEAL_HOME/models"),
    OPTION("output", OPTION_TEXT, AT(output), "FOLDER", "write a new folder instead", .letter = 'o'),
    PROGRESS_OPTION,
    {0},
};

static const struct command model_import = COMMAND(
    "model import", "FOLDER", 1, 1, import_options, "import a Hugging Face folder", run_import, defaults,
    .about = "Copies a Hugging Face checkout (Llama, Mistral, Qwen2 or Qwen3; one model.safetensors, or "
             "shards and their model.safetensors.index.json) after checking name, shape and type (F32, BF16, "
             "F16) of every tensor. It becomes an imported model, which train --model.from, generate, "
             "evaluate and model info accept by its NAME, or with -o a new FOLDER. NAME must not be the name "
             "of a run; a later run of that name is found before the model.");

/* ---- merge ---- */

static enum status run_merge(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice choice = {"merging", words->words[0], -1, false, {0}};
    const char *to = words->words[2], *adapters[ADAPTER_STACK_MAX];
    char base[PATH_MAX], folders[ADAPTER_STACK_MAX][PATH_MAX];
    struct checkpoint_hold holds[ADAPTER_STACK_MAX] = {{0}};
    int count = 0;
    int64_t bytes;
    struct progress_bar bar;
    progress_bar_init(&bar, stderr, o->progress);
    enum status status = model_choice_find(&choice, base, sizeof base, NULL, err);
    if (!status) status = loaded_model_adapters(words->words[1], "merging", folders, holds, &count, err);
    for (int i = 0; i < ADAPTER_STACK_MAX; i++) adapters[i] = folders[i];
    if (!status) status = checkpoint_merge(base, adapters, count, to, &bar.progress, &bytes, err);
    for (int i = 0; i < count; i++) status = checkpoint_hold_end(&holds[i], folders[i], status, err);
    status = checkpoint_hold_end(&choice.hold, base, status, err);
    progress_bar_clear(&bar);
    if (!status) printf("%s: %s\n", CLEAN_LINE(to), TEXT_BYTES(bytes));
    return status;
}

static const struct option_spec merge_options[] = {PROGRESS_OPTION, {0}};

static const struct command model_merge =
    COMMAND("model merge", "BASE ADAPTERS FOLDER", 3, 3, merge_options,
            "write adapters into a copy of their base", run_merge, defaults,
            .about = "Adds what the adapters (LoRA) in ADAPTERS compute to the weights of BASE and writes "
                     "the model into a new FOLDER, in the types of BASE. BASE and ADAPTERS are runs, folders "
                     "or imported models; peft's folders are read as well. Several adapters, with commas "
                     "between, are added up. Adapters that were trained on other weights are refused.");

static const struct command *const subcommands[] = {
    &model_info, &model_list, &model_export, &model_import, &model_merge, &model_add_tokens, NULL};

const struct command command_model = {
    .line = {.name = "model",
             .words = "info|list|export|import|merge|add-tokens",
             .notes = "  anneal model info latest\n"
                      "  anneal model list\n"
                      "  anneal model info Qwen3-0.6B/ --json\n"
                      "  anneal model export latest --best -o kjv-model\n"
                      "  anneal model export latest --gguf q8_0 -o kjv.gguf\n"
                      "  anneal model import Qwen3-0.6B/ --name qwen\n"
                      "  anneal train --model.from=qwen --data.train=books/\n"
                      "  anneal model merge qwen latest merged/\n"
                      "  anneal model add-tokens qwen chatting/ '<|im_start|>' '<|im_end|>'"},
    .summary = "show what a model is made of; export models, import Hugging Face folders, merge adapters, "
               "add tokens",
    .subcommands = subcommands,
};
