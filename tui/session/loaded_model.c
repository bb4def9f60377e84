/* See loaded_model.h. Nothing is trained, so all parameters are frozen: held once, without a master copy. */
#include "tui/session/loaded_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "tui/session/recorded_run.h"

static const char *const *folders_of(const struct loaded_model *m, const char *out[ADAPTER_STACK_MAX])
{
    for (int i = 0; i < m->adapter_count; i++) out[i] = m->adapters[i];
    return out;
}

static enum status load_adapters(struct loaded_model *m, struct err *err)
{
    const char *folders[ADAPTER_STACK_MAX];
    return adapter_stack_load(folders_of(m, folders), m->adapter_count, &m->network, err);
}

static enum status open_network(struct loaded_model *m, struct loaded_wish wish, const char *doing,
                                struct err *err)
{
    const struct backend *backend = m->choice.backend;
    int longest = m->model.config.max_seq_len;
    struct plan_input input = {.model = &m->model,
                               .B = wish.B,
                               .T = wish.T < longest ? wish.T : longest,
                               .packed = wish.packed,
                               .cache_slots = wish.cache_slots,
                               .cache_length = wish.cache_length < longest ? wish.cache_length : longest,
                               .allocator = wish.allocator};
    plan_input_for(&input, backend, m->choice.device);
    const char *folders[ADAPTER_STACK_MAX];
    const struct base_storage base = {m->base, m->nested, folders_of(m, folders), m->adapter_count};
    enum status status =
        checkpoint_freeze(m->weights, &m->model, &base, &m->choice.info, &input.precision, err);
    if (!status) status = plan_init(&m->plan, &input, err);
    if (status) return status;
    struct memory_wish memory = {.holder = doing,
                                 .backend = backend,
                                 .device = m->choice.device,
                                 .reserve = NAN,
                                 .bytes = (int64_t)m->plan.total_bytes};
    status = memory_share_take(&m->share, &memory, err);
    if (!status) status = network_open(&m->network, backend, m->choice.device, &m->model, &m->plan, err);
    if (!status) memory_share_used(&m->share, doing, m->share.bytes); /* before the slow loading of weights */
    if (!status) status = checkpoint_load_weights(m->weights, &m->network, err);
    if (!status && m->adapter_count) status = load_adapters(m, err);
    if (!status) network_replay_rows(&m->network);
    if (!status) return STATUS_OK;
    network_close(&m->network);
    memory_share_release(&m->share);
    plan_release(&m->plan);
    return status;
}

enum status loaded_model_adapters(const char *list, const char *doing,
                                  char folders[ADAPTER_STACK_MAX][PATH_MAX],
                                  struct checkpoint_hold holds[ADAPTER_STACK_MAX], int *count,
                                  struct err *err)
{
    enum status status = STATUS_OK;
    *count = 0;
    for (size_t n; !status && *list; list += n + (list[n] == ','), list += strspn(list, " ")) {
        char name[PATH_MAX], *folder = folders[*count];
        struct model_choice choice = {.doing = doing, .source = name, .step = -1};
        n = strcspn(list, ",");
        if (*count == ADAPTER_STACK_MAX)
            return err_set(err, STATUS_USAGE, "at most %d adapters are added up", ADAPTER_STACK_MAX);
        if (!n) return err_set(err, STATUS_USAGE, "an adapter without a name (leave out a comma)");
        status = file_format_path(name, sizeof name, err, "%.*s", (int)n, list);
        if (!status) status = model_choice_find(&choice, folder, PATH_MAX, NULL, err);
        holds[*count] = choice.hold;
        if (!status) status = adapter_file_require(folder, err);
        if (status) checkpoint_hold_release(&holds[*count]);
        *count += !status;
    }
    return status;
}

/* Finds the folders of base and adapters. */
static enum status find_folders(struct loaded_model *m, const char *folder, const char *adapters,
                                struct err *err)
{
    struct adapter_config config;
    struct adapter_base base;
    bool alone = adapter_file_exists(folder);
    if (alone && adapters)
        return err_set(err, STATUS_USAGE,
                       "%s: holds adapters itself, so --adapter cannot add others (name their base instead)",
                       folder);
    enum status status = file_format_path(m->weights, sizeof m->weights, err, "%s", folder);
    if (!status && alone && !(status = adapter_file_read(folder, &config, &base, err))) {
        snprintf(m->adapters[m->adapter_count++], PATH_MAX, "%s", folder);
        snprintf(m->weights, sizeof m->weights, "%s", base.folder);
    }
    if (!status && adapters)
        status = loaded_model_adapters(adapters, "loading the adapters", m->adapters, m->holds,
                                       &m->adapter_count, err);
    if (status || file_exists_in(m->weights, "config.json") || !alone) return status;
    return err_set(
        err, STATUS_NOT_FOUND,
        "%s: its base model \"%s\" is not a model's folder here (name the base first and the adapters with "
        "--adapter)",
        folder, m->weights);
}

static void release_adapters(struct loaded_model *m)
{
    for (int i = 0; i < ADAPTER_STACK_MAX; i++) checkpoint_hold_release(&m->holds[i]);
}

/* Stores the base as the first run that one of the adapters comes from has trained beside it. */
static void choose_base(struct loaded_model *m)
{
    char id[RUN_ID_MAX];
    bool found = false;
    for (int i = 0; !found && i < m->adapter_count; i++) {
        struct recorded_run run;
        found = recorded_run_of(m->adapters[i], id);
        if (!found) continue;
        recorded_run_read(id, &run, NULL); /* even if the base has moved, else as the file has it */
        m->base = run.config.lora.base;
        m->nested = run.config.lora.double_quant;
        recorded_run_release(&run);
    }
}

/* Adapters of peft note nothing of the base's weights: names and shapes have to do. Says so where not even
 * the folder that they name tells. */
static void warn_unverified(const struct loaded_model *m)
{
    struct adapter_config config;
    struct adapter_base base;
    for (int i = 0; i < m->adapter_count; i++)
        if (!adapter_file_read(m->adapters[i], &config, &base, NULL) && !base.hash &&
            !file_exists_in(base.folder, "config.json"))
            fprintf(
                stderr,
                "anneal: warning: %s names \"%.100s\" as its base, and notes no hash of it: names and shapes "
                "fit, whether it is the same model cannot be verified\n",
                CLEAN_LINE(m->adapters[i]), CLEAN_LINE(base.folder));
}

/* Attaches the adapters to the model. */
static enum status attach_adapters(struct loaded_model *m, struct err *err)
{
    struct adapter_config adapters;
    struct safetensors weights = {0};
    const char *folders[ADAPTER_STACK_MAX];
    enum status status = adapter_stack_read(folders_of(m, folders), m->adapter_count, &adapters, err);
    if (status) return status;
    status = adapter_attach(&m->model, &adapters, err);
    if (status) return err_prefix(err, "%s", m->adapters[0]);
    snprintf(m->model.base.folder, sizeof m->model.base.folder, "%s", m->weights);
    status = safetensors_open_folder(m->weights, &weights, err);
    if (!status) m->model.base.hash = adapter_base_hash(&weights);
    safetensors_close(&weights);
    return status;
}

static enum status no_classifier(const struct loaded_model *m, struct err *err)
{
    for (int i = 0; i < m->adapter_count; i++)
        if (!file_exists_in(m->adapters[i], "config.json"))
            return err_set(
                err, STATUS_USAGE,
                "%.300s: has no config.json of a classifier, so its labels are unknown (peft saves "
                "none: write one there, with \"architectures\": "
                "[\"...ForSequenceClassification\"] and \"id2label\")",
                m->adapters[i]);
    return err_set(
        err, STATUS_USAGE,
        "%.300s/config.json: is a language model, not a classifier (train one from it with data.format = "
        "labels)",
        m->weights);
}

/* The model's sizes and, of adapters that make a classifier of a language model, the classes of those. */
static enum status read_sizes(struct loaded_model *m, enum loaded_use use, struct err *err)
{
    struct model_config config, own;
    m->labels = m->weights;
    enum status status = hugging_face_read_config(m->weights, &config, err);
    for (int i = 0; !status && i < m->adapter_count; i++) {
        if (!file_exists_in(m->adapters[i], "config.json")) continue;
        status = hugging_face_read_config(m->adapters[i], &own, err);
        if (status || !own.num_labels) continue;
        config.num_labels = own.num_labels;
        config.pooling = own.pooling;
        m->labels = m->adapters[i];
    }
    if (!status && use == LOADED_CLASSIFIER && !config.num_labels) status = no_classifier(m, err);
    if (!status && use == LOADED_WRITER && config.num_labels)
        status = err_set(err, STATUS_USAGE,
                         "%.300s/config.json: is a classifier, which writes no text (use `%s classify`)",
                         m->labels, TEXT_PROGRAM);
    if (!status) status = model_init(&m->model, &config, err);
    return status || !config.num_labels ? status : hugging_face_read_classes(m->labels, &m->model, err);
}

enum status loaded_model_describe(struct loaded_model *m, const char *folder, const char *adapters,
                                  enum loaded_use use, struct err *err)
{
    *m = (struct loaded_model){0};
    enum status status = find_folders(m, folder, adapters, err);
    m->words = m->weights;
    for (int i = m->adapter_count; i-- > 0;)
        if (file_exists_in(m->adapters[i], "tokenizer.json")) m->words = m->adapters[i];
    if (!status) status = read_sizes(m, use, err);
    if (!status) choose_base(m);
    return status || !m->adapter_count ? status : attach_adapters(m, err);
}

enum status loaded_model_tokenizer(const char *folder, struct tokenizer **out, struct err *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (file_exists(path)) return tokenizer_open_json(path, out, err);
    return err_set(
        err, STATUS_NOT_FOUND,
        "%s: does not exist, and text needs it (copy there the one of the tokens that the model was "
        "trained on, or let transformers make it of other files: "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))",
        path);
}

struct loaded_wish loaded_wish_cached(int slots, int length, enum allocator_kind allocator)
{
    enum { PIECE = 512 }; /* tokens of a prompt that are computed in one pass */
    return (struct loaded_wish){.B = 1,
                                .T = length < PIECE ? length : PIECE,
                                .cache_slots = slots,
                                .cache_length = length,
                                .allocator = allocator};
}

enum status loaded_model_load(struct loaded_model *m, const char *device, struct loaded_wish wish,
                              const char *doing, struct err *err)
{
    enum status status = device_choice_open(&m->choice, device, 0, err);
    if (!status) status = open_network(m, wish, doing, err);
    if (status && m->choice.device && device_choice_may_fall_back(&m->choice, err)) {
        status = device_choice_fall_back(&m->choice, err, err);
        if (!status) status = open_network(m, wish, doing, err);
    }
    if (!status) warn_unverified(m);
    release_adapters(m);
    if (!status && *m->choice.why)
        fprintf(stderr, "anneal: warning: %s on the CPU: %s\n", doing, m->choice.why);
    return status;
}

void loaded_model_close(struct loaded_model *m)
{
    network_close(&m->network);
    release_adapters(m);
    memory_share_release(&m->share);
    device_choice_close(&m->choice);
    plan_release(&m->plan);
    model_release(&m->model);
}
