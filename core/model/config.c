/* See config.h. */
#include "core/model/config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/accumulation.h"
#include "core/base/file.h"
#include "core/base/ini.h"
#include "core/base/text.h"
#include "core/model/hugging_face.h"
#include "core/model/key_names.h"
#include "datasets/corpus.h"

/* A BOOL is a CHOICE between two words. */
enum kind { KIND_INT, KIND_REAL, KIND_TEXT, KIND_CHOICE, KIND_BOOL = KIND_CHOICE };

struct key {
    const char *section, *name, *full;
    enum kind kind;
    size_t offset, size;
    const char *fallback; /* "": config_finish derives it */
    double least, most;
    const char *const *words; /* in the order of the enum, NULL at the end */
    const char *list;         /* the words with bars between */
    const char *unit, *help;
    enum { FREE, SAME, KEPT } kept;
};

/* clang-format off */
#define WORD(constant, word) [constant] = word,
#define WORDS(type, ...) static const char *const type##_words[] = {__VA_ARGS__ NULL};
#define CHOICES(type, count, ...) WORDS(type, __VA_ARGS__)
#include "core/model/config.def"
#define WORD(constant, word) "|" word
#define WORDS(type, ...) static const char type##_list[] = __VA_ARGS__;
#define CHOICES(type, count, ...) WORDS(type, __VA_ARGS__)
#include "core/model/config.def"
static const char *const none_words[] = {NULL};
static const char none_list[] = "|";

#define ENTRY(section, name, kind, record, field, fallback, least, most, words, unit, kept, help)              \
    {#section, #name, #section "." #name, KIND_##kind, offsetof(struct record, field),                         \
     sizeof(((struct record *)0)->field), fallback, (double)(least), (double)(most), words##_words,            \
     words##_list + 1, unit, help, kept},
static const struct key keys[] = {
#define KEY(section, name, kind, ...) ENTRY(section, name, kind, config, __VA_ARGS__)
#include "core/model/config.def"
}, group_keys[] = {
#define GROUP_KEY(name, kind, ...) ENTRY(param_group, name, kind, param_group, name, __VA_ARGS__)
#include "core/model/config.def"
};
/* clang-format on */
enum { KEY_COUNT = sizeof keys / sizeof *keys, GROUP_KEYS = sizeof group_keys / sizeof *group_keys };
_Static_assert(sizeof keys / sizeof *keys <= CONFIG_KEY_MAX, "raise CONFIG_KEY_MAX");

static const struct key *find_key(const char *full)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].full, full) == 0) return &keys[i];
    return NULL;
}

static bool is_size(const struct key *key)
{
    return key->offset >= offsetof(struct config, model.sizes) &&
           key->offset < offsetof(struct config, model.sizes) + sizeof(struct model_config);
}

static bool is_set(const struct config *config, const char *full)
{
    return config->set[find_key(full) - keys];
}

/* ---- values: `record` is the struct that a key's field is in ---- */

/* The index of a word among the key's words; -1: not one of them. */
static int find_word(const struct key *key, const char *word)
{
    for (int i = 0; key->words[i]; i++)
        if (strcmp(key->words[i], word) == 0) return i;
    return -1;
}

/* Stores a whole number, choice or truth value in a field of this size. */
static void store_int(void *field, size_t size, int64_t value)
{
    if (size == sizeof(bool))
        *(bool *)field = value;
    else if (size == sizeof(int))
        *(int *)field = (int)value;
    else
        *(int64_t *)field = value;
}

static int64_t load_int(const void *field, size_t size)
{
    if (size == sizeof(bool)) return *(const bool *)field;
    return size == sizeof(int) ? *(const int *)field : *(const int64_t *)field;
}

/* The upper bound as it is accepted: as a double, the largest int64 is rounded up. */
static int64_t most_int(const struct key *key)
{
    return key->most < 0x1p63 ? (int64_t)key->most : INT64_MAX;
}

static enum status parse_value(void *record, const struct key *key, const char *full, const char *value,
                               struct err *err)
{
    char *field = (char *)record + key->offset, wanted[160];
    int word = find_word(key, value);
    int64_t integer = word;
    double real = NAN;
    bool good = word >= 0;
    switch (key->kind) {
    case KIND_INT: /* the bounds are doubles: the largest int64 rounds up, so it is compared as one */
        good =
            text_parse_int(value, &integer) && (double)integer >= key->least && (double)integer <= key->most;
        snprintf(wanted, sizeof wanted, "a whole number from %.0f to %" PRId64, key->least, most_int(key));
        break;
    case KIND_REAL:
        good = good || (text_parse_double(value, &real) && real >= key->least && real <= key->most);
        snprintf(wanted, sizeof wanted, "a number from %.10g to %.10g%s%s", key->least, key->most,
                 *key->list ? ", or " : "", key->list);
        break;
    case KIND_TEXT:
        good = strlen(value) < key->size && !strchr(value, '\n');
        snprintf(wanted, sizeof wanted, "one line of less than %zu bytes%s", key->size,
                 strcmp(full, "data.train") == 0 || strcmp(full, "data.val") == 0
                     ? " (a folder, or a pattern such as books/*.txt, names many files)"
                     : "");
        break;
    case KIND_CHOICE:
        snprintf(wanted, sizeof wanted, "one of %s", key->list);
    }
    if (!good) return err_set(err, STATUS_USAGE, "%s = %.100s: must be %s", full, value, wanted);
    if (key->kind == KIND_TEXT)
        strcpy(field, value);
    else if (key->kind == KIND_REAL)
        *(double *)field = real;
    else
        store_int(field, key->size, integer);
    return STATUS_OK;
}

static void format_value(const void *record, const struct key *key, char *buf, size_t size)
{
    const char *field = (const char *)record + key->offset;
    if (key->kind == KIND_INT)
        snprintf(buf, size, "%lld", (long long)load_int(field, key->size));
    else if (key->kind == KIND_TEXT)
        snprintf(buf, size, "%s", field);
    else if (key->kind == KIND_CHOICE)
        snprintf(buf, size, "%s", key->words[load_int(field, key->size)]);
    else if (isnan(*(const double *)field))
        snprintf(buf, size, "%s", key->words[0]);
    else
        text_format_double(*(const double *)field, buf, size);
}

static void set_defaults(void *record, const struct key *of, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (*of[i].fallback) parse_value(record, &of[i], of[i].full, of[i].fallback, NULL);
}

void config_init(struct config *config)
{
    *config = (struct config){0};
    set_defaults(config, keys, KEY_COUNT);
}

/* ---- keys by name ---- */

/* The part "NAME.key" of a parameter group's key; NULL for a key of another section. */
static const char *group_part(const char *full)
{
    static const char section[] = "param_group.";
    return strncmp(full, section, sizeof section - 1) == 0 ? full + sizeof section - 1 : NULL;
}

/* The key at the end of "NAME.key". */
static const struct key *find_group_key(const char *part)
{
    const char *dot = strrchr(part, '.');
    for (size_t i = 0; dot && i < GROUP_KEYS; i++)
        if (strcmp(group_keys[i].name, dot + 1) == 0) return &group_keys[i];
    return NULL;
}

/* The group that "NAME.key" names: an existing one, or else the entry after the last. */
static struct param_group *find_group(const struct param_groups *groups, const char *part)
{
    size_t length = (size_t)(strrchr(part, '.') - part);
    int i = 0;
    while (i < groups->count &&
           (strlen(groups->at[i].name) != length || memcmp(groups->at[i].name, part, length)))
        i++;
    return (struct param_group *)&groups->at[i];
}

static enum status unknown_key(const char *full, struct err *err)
{
    const char *key = err ? key_name_suggest(full) : NULL; /* the search takes long */
    return err_set(err, STATUS_USAGE, "unknown key %.100s (%s%s%s%s train --help-config lists them)", full,
                   key ? "did you mean " : "", key ? key : "", key ? "? " : "", TEXT_PROGRAM);
}

/* Sets a key of a group; a new name adds a group at the end. */
static enum status set_group_key(struct param_groups *groups, const char *full, const char *value,
                                 struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *part = group_part(full);
    const struct key *key = find_group_key(part);
    if (!key) return unknown_key(full, err);
    struct param_group *group = find_group(groups, part);
    bool new = group == &groups->at[groups->count];
    size_t length = strspn(part, allowed);
    if (part[length] != '.' || strchr(part + length + 1, '.') || length == 0 || length >= sizeof group->name)
        return err_set(err, STATUS_USAGE, "%.100s: a group's name has 1 to %zu letters, digits, - and _",
                       full, sizeof group->name - 1);
    if (new && groups->count == PARAM_GROUPS_MAX)
        return err_set(err, STATUS_USAGE, "%.100s: more than %d groups", full, PARAM_GROUPS_MAX);
    if (new) {
        *group = (struct param_group){0};
        memcpy(group->name, part, length);
        set_defaults(group, group_keys, GROUP_KEYS);
    }
    enum status status = parse_value(group, key, full, value, err);
    groups->count += new && !status;
    return status;
}

static enum status set_key(struct config *config, const char *full, const char *value, struct err *err)
{
    if (group_part(full)) return set_group_key(&config->groups, full, value, err);
    const struct key *key = find_key(full);
    if (!key) return unknown_key(full, err);
    enum status status = parse_value(config, key, full, value, err);
    if (!status) config->set[key - keys] = true;
    if (!status && strcmp(full, "train.total_steps") == 0) config->train.epochs = 0;
    return status;
}

bool config_get(const struct config *config, const char *full, char *buf, size_t size)
{
    const char *part = group_part(full);
    const struct key *key = part ? find_group_key(part) : find_key(full);
    const void *record = part && key ? find_group(&config->groups, part) : (const void *)config;
    if (!key || record == &config->groups.at[config->groups.count]) return false;
    format_value(record, key, buf, size);
    return true;
}

const char *config_words(const char *full)
{
    const struct key *key = find_key(full);
    return key ? key->list : "";
}

const char *config_changed(const struct config *before, const struct config *after)
{
    char old[CONFIG_TEXT_MAX], new[CONFIG_TEXT_MAX];
    for (size_t i = 0; i < KEY_COUNT; i++) {
        format_value(before, &keys[i], old, sizeof old);
        format_value(after, &keys[i], new, sizeof new);
        if (keys[i].kept == KEPT && strcmp(old, new) != 0) return keys[i].full;
    }
    return NULL;
}

/* ---- reading ---- */

struct reading {
    struct config *config;
    char seen[(KEY_COUNT + PARAM_GROUPS_MAX * GROUP_KEYS) * 64]; /* the keys so far, each before a newline */
};

/* A key that is given twice is an error: no order of precedence would be obvious to every reader. */
static enum status read_pair(struct reading *r, const struct ini *ini, struct err *err)
{
    char full[128], line[130];
    size_t used = strlen(r->seen);
    snprintf(full, sizeof full, "%s%s%s", ini->section, *ini->section ? "." : "", ini->key);
    snprintf(line, sizeof line, "\n%s\n", full);
    if (strstr(r->seen, line))
        return err_set(err, STATUS_USAGE, "%s is set twice (remove one of the two lines)", full);
    enum status status = set_key(r->config, full, ini->value, err);
    if (!status) snprintf(r->seen + used, sizeof r->seen - used, "%s", line + (used > 0));
    return status;
}

static enum status read_line(struct reading *r, const struct ini *ini, enum ini_line line, const char *path,
                             struct err *err)
{
    if (line == INI_BAD)
        return err_set(err, STATUS_USAGE,
                       "%s:%d: must be [section], key = value, or a comment line, which begins with ; or #",
                       path, ini->line);
    if (line == INI_BAD_ESCAPE)
        return err_set(err, STATUS_USAGE,
                       "%s:%d: %.60s.%.60s: a backslash in double quotes must begin \\\\ (a backslash), "
                       "\\\" (a quote) or \\x and two hexadecimal digits (a byte other than 00 and 0A)",
                       path, ini->line, ini->section, ini->key);
    enum status status = read_pair(r, ini, err);
    if (status)
        err_prefix(err, "%s:%d%s", path, ini->line,
                   strstr(ini->value, " #") ? " (a comment after a value begins with ;)" : "");
    return status;
}

/* Reads on after a mistake, so that the sentence about the first one can say where the others are. */
static enum status read_lines(struct reading *r, char *text, const char *path, struct err *err)
{
    struct ini ini = {.rest = text};
    enum status status = STATUS_OK;
    struct err mistake = {0};
    int first = 0, last = 0, more = -1; /* lines with further mistakes */
    for (enum ini_line line; (line = ini_next(&ini));) {
        enum status one = read_line(r, &ini, line, path, status ? NULL : &mistake);
        if (!one) continue;
        if (++more == 1) first = ini.line;
        status = status ? status : one;
        last = ini.line;
    }
    if (more > 1)
        err_set(err, status, "%s (lines %d to %d have %d more mistakes)", mistake.text, first, last, more);
    else if (more == 1)
        err_set(err, status, "%s (line %d is wrong, too)", mistake.text, first);
    else if (status)
        err_set(err, status, "%s", mistake.text);
    return status;
}

enum status config_read_file(struct config *config, const char *path, struct err *err)
{
    struct file_map map;
    struct reading r = {.config = config};
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    bool is_text = !memchr(map.data, '\0', map.size);
    char *text = is_text ? strndup((const char *)map.data, map.size) : NULL;
    file_map_close(&map);
    if (!is_text)
        status = err_set(err, STATUS_USAGE, "%s: not a configuration file (it must be INI text)", path);
    else
        status = text ? read_lines(&r, text, path, err) : err_no_memory(err, "reading %s", path);
    free(text);
    return status;
}

/* The values of keys that runs had before the key existed, where the default is another one. */
static const char *const older[][2] = {
    {"data.val_split", "tail"}, {"eval.early", "false"}, {"sample.early", "false"}};

enum status config_read_effective(struct config *config, const char *text, const char *name, struct err *err)
{
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        parse_value(config, find_key(older[i][0]), older[i][0], older[i][1], NULL);
    config->model.sizes = model_preset(config->model.preset); /* a size that the text lacks is off there */
    for (size_t i = 0; i < KEY_COUNT; i++) config->set[i] = config->set[i] || is_size(&keys[i]);
    char full[160], *copy = strdup(text);
    struct ini ini = {.rest = copy, .exact = true};
    enum status status = copy ? STATUS_OK : err_no_memory(err, "reading %s", name);
    for (enum ini_line line; !status && (line = ini_next(&ini));) {
        snprintf(full, sizeof full, "%s.%s", ini.section, line == INI_PAIR ? ini.key : "");
        if (line == INI_BAD)
            status = err_set(err, STATUS_CORRUPT, "%s: line %d of the stored configuration cannot be read",
                             name, ini.line);
        else if ((status = set_key(config, full, ini.value, err)))
            err_prefix(err, "%s", name);
    }
    free(copy);
    return status;
}

enum status config_read_word(struct config *config, const char *word, struct err *err)
{
    char full[128];
    const char *key = word + (strncmp(word, "--", 2) == 0 ? 2 : 0), *equals = strchr(key, '=');
    if (!equals || equals == key || (size_t)(equals - key) >= sizeof full)
        return err_set(err, STATUS_USAGE, "%.100s: must be --section.key=value", word);
    snprintf(full, sizeof full, "%.*s", (int)(equals - key), key);
    return set_key(config, full, equals + 1, err);
}

/* ---- finishing ---- */

/* The defaults of train.recipe = quick, for new models. */
static const char *const quick[][2] = {
    {"train.optimizer", "muon"}, {"train.learning_rate", "3e-3"},
    {"muon.iterations", "3"},    {"muon.coefficients", "polar_express"},
    {"model.qk_norm", "true"},
};

static void apply_recipe(struct config *config)
{
    bool quick_start = config->train.recipe == RECIPE_QUICK && !*config->model.from;
    for (size_t i = 0; quick_start && i < sizeof quick / sizeof *quick; i++) {
        const struct key *key = find_key(quick[i][0]);
        bool *set = &config->set[key - keys];
        bool for_muon = strcmp(key->section, "muon") == 0 || strcmp(key->name, "learning_rate") == 0;
        if (*set || (for_muon && config->train.optimizer != OPTIMIZER_MUON)) continue; /* another was given */
        parse_value(config, key, key->full, quick[i][1], NULL);
        *set = true;
    }
}

/* Replaces the name of an imported model by its folder. */
static enum status find_from(struct config *config, struct err *err)
{
    char folder[PATH_MAX];
    if (file_exists_in(config->model.from, "config.json") ||
        !imported_model_find(config->model.from, folder, sizeof folder))
        return STATUS_OK;
    return file_format_path(config->model.from, sizeof config->model.from, err, "%s", folder);
}

/* Reads the base sizes, which keys override. A stored configuration sets every size, so that the folder of
 * model.from may be gone by then. */
static enum status read_base(struct config *config, struct err *err)
{
    char path[CONFIG_TEXT_MAX + 32];
    bool complete = true;
    for (size_t i = 0; i < KEY_COUNT; i++) complete = complete && (!is_size(&keys[i]) || config->set[i]);
    config->model.sizes = model_preset(config->model.preset);
    if (!*config->model.from || complete) return STATUS_OK;
    enum status status = find_from(config, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/tokenizer.json", config->model.from);
    if (!is_set(config, "data.tokenizer") && strlen(path) < sizeof config->data.tokenizer &&
        file_exists(path))
        strcpy(config->data.tokenizer, path);
    status = hugging_face_read_config(config->model.from, &config->model.sizes, err);
    return status ? err_prefix(err, "model.from") : STATUS_OK;
}

/* Sets the vocabulary to the tokenizer's size; the preset's is for an unknown tokenizer. */
static void follow_tokenizer(struct config *config)
{
    if (is_set(config, "model.vocab_size") || *config->model.from) return;
    int64_t size = corpus_vocabulary(config->data.train, config->data.tokenizer);
    if (size > 0 && size <= 1 << 24) config->model.sizes.vocab_size = (int)size;
}

/* Derives values that are not given from other keys. */
static enum status derive(struct config *config, struct err *err)
{
#define BETA2(KIND, name, moments, beta2, flops) [OPTIMIZER_##KIND] = beta2,
    static const double beta2_of[OPTIMIZERS] = {OPTIMIZER_LIST(BETA2)};
    struct model_config *sizes = &config->model.sizes;
    bool from = *config->model.from, nf4 = config->lora.rank && config->lora.base == LORA_BASE_NF4;
    if (!is_set(config, "train.beta2")) config->train.beta2 = beta2_of[config->train.optimizer];
    if (!is_set(config, "checkpoint.activation_interval")) config->checkpoint.activation_interval = nf4;
    if (from && sizes->num_labels && !is_set(config, "classifier.pooling"))
        config->classifier.pooling = sizes->pooling;
    follow_tokenizer(config);
    if (is_set(config, "model.num_heads") && !is_set(config, "model.num_kv_heads"))
        sizes->num_kv_heads = sizes->num_heads;
    if (is_set(config, "model.head_dim") || (from && !is_set(config, "model.hidden_dim"))) return STATUS_OK;
    if (sizes->hidden_dim % sizes->num_heads)
        return err_set(err, STATUS_USAGE,
                       "model.hidden_dim = %d is not a multiple of model.num_heads = %d (change one, or set "
                       "model.head_dim)",
                       sizes->hidden_dim, sizes->num_heads);
    sizes->head_dim = sizes->hidden_dim / sizes->num_heads;
    return STATUS_OK;
}

/* Checks that concern several keys. */
static enum status check_together(const struct config *c, struct err *err)
{
    long long T = c->train.seq_len, tokens = c->train.batch_size * T;
    bool evaluates =
        (c->eval.every > 0 || c->eval.at_epoch_end) && (c->data.val_fraction > 0 || *c->data.val);
    if (T > c->model.sizes.max_seq_len)
        return err_set(err, STATUS_USAGE, "train.seq_len = %lld is longer than model.max_seq_len = %d %s", T,
                       c->model.sizes.max_seq_len,
                       *c->model.from ? "(lower train.seq_len, or raise model.max_seq_len, for example with "
                                        "model.rope_scaling = yarn)"
                                      : "(raise model.max_seq_len)");
    if (c->eval.early_stopping_patience > 0 && !evaluates)
        return err_set(err, STATUS_USAGE,
                       "eval.early_stopping_patience = %lld: needs evaluations, so eval.every (or "
                       "eval.at_epoch_end) and data.val_fraction must be above 0",
                       (long long)c->eval.early_stopping_patience);
    if (c->health.plateau_steps > 0 && c->health.plateau_steps < CONFIG_PLATEAU_STEPS_LEAST)
        return err_set(err, STATUS_USAGE, "health.plateau_steps = %lld: must be 0 (off) or at least %d",
                       (long long)c->health.plateau_steps, CONFIG_PLATEAU_STEPS_LEAST);
    if (c->train.schedule == SCHEDULE_RISING && c->train.learning_rate * c->train.min_lr_factor <= 0)
        return err_set(err, STATUS_USAGE,
                       "train.schedule = rising: no rate rises from 0 (set train.learning_rate and "
                       "train.min_lr_factor above 0)");
    if (c->train.moments == MOMENTS_8BIT && c->train.optimizer == OPTIMIZER_MUON)
        return err_set(err, STATUS_USAGE,
                       "train.moments = 8bit: muon%s orthogonalises its moment, which must be exact (set "
                       "train.optimizer = adamw or lion, or train.moments = fp32)",
                       c->train.recipe == RECIPE_QUICK ? ", the optimizer of train.recipe = quick," : "");
    if (tokens > CONFIG_MICRO_BATCH_TOKENS)
        return err_set(err, STATUS_USAGE,
                       "train.batch_size × train.seq_len = %lld tokens per micro-batch: at most %d (use "
                       "train.accumulation_steps)",
                       tokens, CONFIG_MICRO_BATCH_TOKENS);
    enum status status = accumulation_check(c->train.accumulation_plan, err);
    return status || c->train.epochs > 0 ? status : config_check_length(c, err);
}

enum status config_finish(struct config *config, struct err *err)
{
    apply_recipe(config);
    const struct config given = *config;
    enum status status = read_base(config, err);
    for (size_t i = 0; !status && i < KEY_COUNT; i++)
        if (is_size(&keys[i]) && config->set[i])
            memcpy((char *)config + keys[i].offset, (const char *)&given + keys[i].offset, keys[i].size);
    if (!status) status = derive(config, err);
    if (!status) status = model_config_check(&config->model.sizes, err);
    return status ? status : check_together(config, err);
}

void config_vocabulary_note(const struct config *config, char *buf, size_t size)
{
    int of_preset = model_preset(config->model.preset).vocab_size;
    *buf = '\0';
    if (is_set(config, "model.vocab_size") || *config->model.from ||
        config->model.sizes.vocab_size == of_preset)
        return;
    snprintf(buf, size, "%d, the tokenizer's size; preset %s has %d (model.vocab_size sets another)",
             config->model.sizes.vocab_size, preset_word(config->model.preset), of_preset);
}

/* ---- writing ---- */

static void begin_section(FILE *out, size_t i)
{
    if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0)
        fprintf(out, "%s[%s]\n", i ? "\n" : "", keys[i].section);
}

static void print_value(FILE *out, const void *record, const struct key *key)
{
    char value[CONFIG_TEXT_MAX];
    format_value(record, key, value, sizeof value);
    fprintf(out, "%s = %s\n", key->name, value);
}

char *config_text(const struct config *config)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        begin_section(out, i);
        print_value(out, config, &keys[i]);
    }
    for (int i = 0; i < config->groups.count; i++) {
        fprintf(out, "\n[param_group.%s]\n", config->groups.at[i].name);
        for (size_t k = 0; k < GROUP_KEYS; k++) print_value(out, &config->groups.at[i], &group_keys[k]);
    }
    text_stream_end(out, &text);
    return text;
}

static void print_key_help(FILE *out, const struct key *k)
{
    const char *otherwise = k->kind == KIND_TEXT                 ? "(empty)"
                            : strcmp(k->name, "vocab_size") == 0 ? "(tokenizer)"
                            : strcmp(k->section, "model") == 0   ? "(preset)"
                                                                 : "(derived)";
    fprintf(out, "  %-26s default %-12s", k->name, *k->fallback ? k->fallback : otherwise);
    if (k->kind == KIND_INT) fprintf(out, "  %.0f..%" PRId64, k->least, most_int(k));
    if (k->kind == KIND_REAL) fprintf(out, "  %.9g..%.9g", k->least, k->most);
    if (*k->list) fprintf(out, "  %s", k->list);
    if (*k->unit) fprintf(out, "  [%s]", k->unit);
    fprintf(out, "\n");
    if (*k->help) fprintf(out, "      %s\n", k->help);
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        begin_section(out, i);
        print_key_help(out, &keys[i]);
    }
    fprintf(out,
            "\n[param_group.NAME]\n"
            "  up to %d sections, each for the parameters whose names match its pattern; of several that\n"
            "  match a parameter, the first one in the file applies\n",
            PARAM_GROUPS_MAX);
    for (size_t k = 0; k < GROUP_KEYS; k++) print_key_help(out, &group_keys[k]);
}
