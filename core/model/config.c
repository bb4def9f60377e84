/* See config.h. */
#include "core/model/config.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/hugging_face.h"
#include "core/model/imported_model.h"
#include "datasets/preparation.h"

enum kind { KIND_INT, KIND_REAL, KIND_BOOL, KIND_TEXT, KIND_CHOICE };

struct key {
    const char *section, *name, *full;
    enum kind kind;
    size_t offset, size;
    const char *fallback; /* "": derived in config_finish */
    double least, most;
    const char *const *words; /* in the order of the enum, NULL at the end */
    const char *list;         /* the words with bars between */
    const char *unit, *help;
    enum { FREE, KEPT } kept;
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

static const struct key keys[] = {
#define KEY(section, name, kind, field, fallback, least, most, words, unit, kept, help)                        \
    {#section, #name, #section "." #name, KIND_##kind, offsetof(struct config, field),                         \
     sizeof(((struct config *)0)->field), fallback, (double)(least), (double)(most), words##_words,            \
     words##_list + 1, unit, help, kept},
#include "core/model/config.def"
};
/* clang-format on */
enum { KEY_COUNT = sizeof keys / sizeof *keys };
_Static_assert(sizeof keys / sizeof *keys <= CONFIG_KEY_MAX, "raise CONFIG_KEY_MAX");

static const struct key *find_key(const char *full)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(keys[i].full, full) == 0) return &keys[i];
    return NULL;
}

static bool *is_set(struct config *config, const char *full)
{
    return &config->set[find_key(full) - keys];
}

/* The number of a word among those of the key; -1: it is none of them. */
static int find_word(const struct key *key, const char *word)
{
    for (int i = 0; key->words[i]; i++)
        if (strcmp(key->words[i], word) == 0) return i;
    return -1;
}

/* Integers are stored as int or int64_t, by the field's size. */
static void store_int(char *field, size_t size, int64_t value)
{
    if (size == sizeof(int))
        *(int *)field = (int)value;
    else
        *(int64_t *)field = value;
}

static enum status bad_value(const struct key *key, const char *value, const char *wanted, struct err *err)
{
    return err_set(err, STATUS_USAGE, "%s = %.100s: must be %s", key->full, value, wanted);
}

static enum status parse_value(struct config *config, const struct key *key, const char *value,
                               struct err *err)
{
    char *field = (char *)config + key->offset, wanted[160], low[32], high[32];
    int64_t integer;
    double real;
    switch (key->kind) {
    case KIND_INT:
        /* the bounds are doubles: the largest int64 rounds up, so it is compared as a double, too */
        if (!text_parse_int(value, &integer) || (double)integer < key->least || (double)integer > key->most) {
            snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", key->least, key->most);
            return bad_value(key, value, wanted, err);
        }
        store_int(field, key->size, integer);
        break;
    case KIND_REAL:
        if (find_word(key, value) >= 0) {
            *(double *)field = NAN;
            break;
        }
        if (!text_parse_double(value, &real) || !(real >= key->least && real <= key->most)) {
            snprintf(wanted, sizeof wanted, "a number from %s to %s%s%s",
                     text_format_double(key->least, low, sizeof low),
                     text_format_double(key->most, high, sizeof high), *key->list ? ", or " : "", key->list);
            return bad_value(key, value, wanted, err);
        }
        *(double *)field = real;
        break;
    case KIND_BOOL:
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return bad_value(key, value, "true or false", err);
        *(bool *)field = value[0] == 't';
        break;
    case KIND_CHOICE:
        if (find_word(key, value) < 0) {
            snprintf(wanted, sizeof wanted, "one of %s", key->list);
            return bad_value(key, value, wanted, err);
        }
        store_int(field, key->size, find_word(key, value));
        break;
    case KIND_TEXT:
        if (strlen(value) >= key->size || strchr(value, '\n'))
            return bad_value(key, value, "one line, and shorter", err);
        strcpy(field, value);
    }
    return STATUS_OK;
}

void config_init(struct config *config)
{
    struct err err = {0};
    *config = (struct config){0};
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (*keys[i].fallback) parse_value(config, &keys[i], keys[i].fallback, &err);
}

/* What follows the section of a parameter group in a key; NULL: the key is of no group. */
static const char *group_key(const char *full)
{
    static const char section[] = "param_group.";
    return strncmp(full, section, sizeof section - 1) == 0 ? full + sizeof section - 1 : NULL;
}

static const struct key *key_of(const char *section, size_t length, const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strlen(keys[i].section) == length && memcmp(keys[i].section, section, length) == 0 &&
            (!name || strcmp(keys[i].name, name) == 0))
            return &keys[i];
    return NULL;
}

/* Of the section, where there is such a one; else of all, or the key of that very name. NULL: none is near.
 */
static const char *nearest_key(const char *full)
{
    const char *names[KEY_COUNT], *dot = strchr(full, '.'), *nearest = NULL;
    size_t length = dot ? (size_t)(dot - full) : 0, count = 0;
    bool known = dot && key_of(full, length, NULL);
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (!known)
            names[count++] = keys[i].full;
        else if (strlen(keys[i].section) == length && memcmp(keys[i].section, full, length) == 0)
            names[count++] = keys[i].name;
    nearest = text_nearest(known ? dot + 1 : full, names, count);
    if (nearest && known) nearest = key_of(full, length, nearest)->full;
    for (size_t i = 0; !nearest && dot && i < KEY_COUNT; i++)
        if (strcmp(keys[i].name, dot + 1) == 0) nearest = keys[i].full;
    return nearest;
}

static enum status set_key(struct config *config, const char *full, const char *value, struct err *err)
{
    if (group_key(full)) return param_groups_set(&config->groups, group_key(full), value, err);
    const struct key *key = find_key(full);
    if (!key) {
        const char *nearest = nearest_key(full);
        return err_set(err, STATUS_USAGE, "unknown key %.100s (%s%s%sanneal train --help-config lists them)",
                       full, nearest ? "did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
    }
    enum status status = parse_value(config, key, value, err);
    if (!status) config->set[key - keys] = true;
    return status;
}

/* inih asks for one line at a time. Serving the lines ourselves gives their numbers, refuses lines that its
 * buffer would cut in two, and takes the indentation away that it would read as a continuation of the key
 * before. */
struct reading {
    struct config *config;
    const char *name, *rest; /* what has not been served */
    int line;
    struct err *err;
    enum status status; /* of the first bad line */
    struct seen {
        char full[128];
        int line;
    } seen[KEY_COUNT + PARAM_GROUPS_MAX * PARAM_GROUP_KEYS]; /* (seen_count) the keys so far */
    size_t seen_count;
};

/* A key that is there twice is a mistake: whichever counts, somebody believes in the other. */
static enum status check_first(struct reading *reading, const char *full)
{
    for (size_t i = 0; i < reading->seen_count; i++)
        if (strcmp(reading->seen[i].full, full) == 0)
            return err_set(reading->err, STATUS_USAGE,
                           "%s:%d: %s is set a second time, line %d has it already (leave one of them)",
                           reading->name, reading->line, full, reading->seen[i].line);
    return STATUS_OK;
}

static char *serve_line(char *buf, int size, void *user)
{
    struct reading *reading = user;
    if (!*reading->rest || reading->status) return NULL;
    reading->line++;
    reading->rest += strspn(reading->rest, " \t");
    size_t n = strcspn(reading->rest, "\n");
    if (n + 2 > (size_t)size) {
        reading->status =
            err_set(reading->err, STATUS_USAGE,
                    "%s:%d: the line is longer than %d bytes (give this key on the command line)",
                    reading->name, reading->line, size - 2);
        return NULL;
    }
    snprintf(buf, (size_t)size, "%.*s\n", (int)n, reading->rest);
    reading->rest += n + (reading->rest[n] == '\n');
    return buf;
}

static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct reading *reading = user;
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", section, *section ? "." : "", name);
    if (reading->status || (reading->status = check_first(reading, full))) return 1;
    reading->status = set_key(reading->config, full, value, reading->err);
    if (reading->status) {
        err_prefix(reading->err, "%s:%d", reading->name, reading->line);
        return 1;
    }
    struct seen *seen = &reading->seen[reading->seen_count++];
    strcpy(seen->full, full);
    seen->line = reading->line;
    return 1;
}

static enum status read_text(struct config *config, const char *text, const char *name, struct err *err)
{
    struct reading reading = {.config = config, .name = name, .rest = text, .err = err};
    int line = ini_parse_stream(serve_line, &reading, on_pair, &reading);
    if (reading.status && (line <= 0 || reading.line < line)) return reading.status;
    if (line > 0) /* inih reads on after a bad line: its number is the first one's */
        return err_set(err, STATUS_USAGE, "%s:%d: neither [section] nor key = value nor ; comment", name,
                       line);
    return line < 0 ? err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", name) : STATUS_OK;
}

enum status config_read_effective(struct config *config, const char *text, const char *name, struct err *err)
{
    char section[64] = "", full[128], value[CONFIG_TEXT_MAX];
    for (const char *line = text, *next; *line; line = next) {
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] == '\n');
        const char *equals = memmem(line, n, " = ", 3);
        if (n == 0) continue;
        if (*line == '[' && line[n - 1] == ']') {
            snprintf(section, sizeof section, "%.*s", (int)n - 2, line + 1);
            continue;
        }
        if (!equals || line + n - (equals + 3) >= (long)sizeof value)
            return err_set(err, STATUS_CORRUPT, "%s: the stored configuration cannot be read: %.*s", name,
                           n < 60 ? (int)n : 60, line);
        snprintf(full, sizeof full, "%s.%.*s", section, (int)(equals - line), line);
        snprintf(value, sizeof value, "%.*s", (int)(line + n - (equals + 3)), equals + 3);
        enum status status = set_key(config, full, value, err);
        if (status) return err_prefix(err, "%s", name);
    }
    return STATUS_OK;
}

enum status config_read_file(struct config *config, const char *path, struct err *err)
{
    struct file_map map;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    char *text = NULL;
    if (map.size > 1 << 20 || memchr(map.data, '\0', map.size)) {
        status = err_set(err, STATUS_USAGE, "%s: is not a configuration file (INI text)", path);
    } else if (!(text = strndup((const char *)map.data, map.size))) {
        status = err_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    } else {
        status = read_text(config, text, path, err);
    }
    free(text);
    file_map_close(&map);
    return status;
}

enum status config_read_word(struct config *config, const char *word, struct err *err)
{
    char full[128];
    const char *given = word;
    if (strncmp(word, "--", 2) == 0) word += 2;
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || (size_t)(equals - word) >= sizeof full)
        return err_set(err, STATUS_USAGE, "%.100s: must be --section.key=value", given);
    snprintf(full, sizeof full, "%.*s", (int)(equals - word), word);
    return set_key(config, full, equals + 1, err);
}

static bool is_size(const struct key *key)
{
    return key->offset >= offsetof(struct config, model.sizes) &&
           key->offset < offsetof(struct config, model.sizes) + sizeof(struct model_config);
}

/* The name of an imported model becomes its folder. */
static enum status find_from(struct config *config, struct err *err)
{
    char path[CONFIG_TEXT_MAX + 32], folder[PATH_MAX];
    snprintf(path, sizeof path, "%s/config.json", config->model.from);
    if (file_exists(path) || !imported_model_find(config->model.from, folder, sizeof folder))
        return STATUS_OK;
    if (strlen(folder) >= sizeof config->model.from)
        return err_set(err, STATUS_USAGE, "model.from = %s: the path %s is too long", config->model.from,
                       folder);
    strcpy(config->model.from, folder);
    return STATUS_OK;
}

/* The sizes that keys override. A run's stored configuration gives all of them: its folder need not be there
 * any more. */
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
    if (!*is_set(config, "data.tokenizer") && strlen(path) < sizeof config->data.tokenizer &&
        file_exists(path))
        strcpy(config->data.tokenizer, path);
    snprintf(path, sizeof path, "%s/config.json", config->model.from);
    status = hugging_face_read_config(path, &config->model.sizes, err);
    return status ? err_prefix(err, "model.from") : STATUS_OK;
}

/* The tokens that data.tokenizer has, or is to learn; 0: not known here, and whoever opens it says why. */
static int64_t tokenizer_size(const char *word)
{
    struct tokenizer *tokenizer;
    int64_t size = preparation_bpe_size(word);
    if (size || tokenizer_open(word, &tokenizer, NULL)) return size;
    size = tokenizer_vocab_size(tokenizer);
    tokenizer_close(tokenizer);
    return size;
}

/* A preset's vocabulary that nobody asked for gives way to a larger tokenizer's. */
static void follow_tokenizer(struct config *config)
{
    if (*is_set(config, "model.vocab_size") || *config->model.from) return;
    int64_t size = tokenizer_size(config->data.tokenizer);
    if (size > config->model.sizes.vocab_size && size <= 1 << 24) config->model.sizes.vocab_size = (int)size;
}

enum status config_finish(struct config *config, struct err *err)
{
    struct model_config given = config->model.sizes, *sizes = &config->model.sizes;
    enum status status = read_base(config, err);
    if (status) return status;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        size_t from = keys[i].offset;
        if (is_size(&keys[i]) && config->set[i])
            memcpy((char *)config + from, (char *)&given + (from - offsetof(struct config, model.sizes)),
                   keys[i].size);
    }
    follow_tokenizer(config);
    if (*is_set(config, "model.num_heads") && !*is_set(config, "model.num_kv_heads"))
        sizes->num_kv_heads = sizes->num_heads;
    if (!*is_set(config, "model.head_dim") && (!*config->model.from || *is_set(config, "model.hidden_dim"))) {
        if (sizes->hidden_dim % sizes->num_heads)
            return err_set(
                err, STATUS_USAGE,
                "model.hidden_dim = %d is not a multiple of model.num_heads = %d (change one, or set "
                "model.head_dim)",
                sizes->hidden_dim, sizes->num_heads);
        sizes->head_dim = sizes->hidden_dim / sizes->num_heads;
    }
#define BETA2(KIND, name, moments, beta2, flops) [OPTIMIZER_##KIND] = beta2,
    static const double beta2_of[OPTIMIZERS] = {OPTIMIZER_LIST(BETA2)};
    if (!*is_set(config, "train.beta2")) config->train.beta2 = beta2_of[config->train.optimizer];
    status = model_config_check(sizes, err);
    if (!status) status = param_groups_check(&config->groups, err);
    if (status) return status;
    if (config->train.seq_len > sizes->max_seq_len)
        return err_set(err, STATUS_USAGE,
                       "train.seq_len = %lld is longer than model.max_seq_len = %d (raise that one)",
                       (long long)config->train.seq_len, sizes->max_seq_len);
    if (config->eval.early_stopping_patience > 0 &&
        ((config->eval.every == 0 && !config->eval.at_epoch_end) ||
         (config->data.val_fraction == 0 && !*config->data.val)))
        return err_set(err, STATUS_USAGE,
                       "eval.early_stopping_patience = %lld: needs evaluations, so eval.every (or "
                       "eval.at_epoch_end) and "
                       "data.val_fraction must be above 0",
                       (long long)config->eval.early_stopping_patience);
    if (config->health.plateau_steps > 0 && config->health.plateau_steps < CONFIG_PLATEAU_STEPS_LEAST)
        return err_set(err, STATUS_USAGE, "health.plateau_steps = %lld: must be 0 (off) or at least %d",
                       (long long)config->health.plateau_steps, CONFIG_PLATEAU_STEPS_LEAST);
    if (config->profile.trace_step > 0 && config->profile.trace_step >= config->train.total_steps)
        return err_set(err, STATUS_USAGE,
                       "profile.trace_step = %lld: there is no such step with train.total_steps = %lld (they "
                       "are numbered from 0, the last one is %lld)",
                       (long long)config->profile.trace_step, (long long)config->train.total_steps,
                       (long long)config->train.total_steps - 1);
    if (config->train.batch_size * config->train.seq_len > CONFIG_MICRO_BATCH_TOKENS)
        return err_set(err, STATUS_USAGE,
                       "train.batch_size × train.seq_len = %lld tokens a micro-batch: at most %d (use "
                       "train.accumulation_steps)",
                       (long long)(config->train.batch_size * config->train.seq_len),
                       CONFIG_MICRO_BATCH_TOKENS);
    return STATUS_OK;
}

int config_warnings(const struct config *config, char out[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE])
{
    const struct model_config *m = &config->model.sizes;
    bool stretches = m->rope_scaling != ROPE_DEFAULT;
    int count = 0;
    if (!stretches && m->rope_factor != 1)
        snprintf(out[count++], CONFIG_WARNING_SIZE,
                 "model.rope_factor = %g has no effect with model.rope_scaling = default (linear or llama3 "
                 "would stretch)",
                 m->rope_factor);
    if (stretches && m->rope_factor == 1)
        snprintf(
            out[count++], CONFIG_WARNING_SIZE,
            "model.rope_scaling = %s has no effect with model.rope_factor = 1 (more than 1 would stretch)",
            rope_scaling_word(m->rope_scaling));
    if (config->data.padding >= m->vocab_size)
        snprintf(out[count++], CONFIG_WARNING_SIZE,
                 "data.padding = %lld has no effect: no token has this id, the vocabulary has %d",
                 (long long)config->data.padding, m->vocab_size);
    if (config->train.schedule != SCHEDULE_CONSTANT && config->train.warmup_steps > config->train.total_steps)
        snprintf(out[count++], CONFIG_WARNING_SIZE,
                 "train.warmup_steps = %lld is longer than the run of %lld step%s: the rate never reaches "
                 "train.learning_rate",
                 (long long)config->train.warmup_steps, (long long)config->train.total_steps,
                 config->train.total_steps == 1 ? "" : "s");
    return count;
}

static void format_value(const struct config *config, const struct key *key, char *buf, size_t size)
{
    const char *field = (const char *)config + key->offset;
    switch (key->kind) {
    case KIND_INT:
        snprintf(buf, size, "%lld",
                 key->size == sizeof(int) ? (long long)*(const int *)field
                                          : (long long)*(const int64_t *)field);
        break;
    case KIND_REAL:
        if (isnan(*(const double *)field))
            snprintf(buf, size, "%s", key->words[0]);
        else
            text_format_double(*(const double *)field, buf, size);
        break;
    case KIND_BOOL:
        snprintf(buf, size, "%s", *(const bool *)field ? "true" : "false");
        break;
    case KIND_CHOICE:
        snprintf(buf, size, "%s", key->words[*(const int *)field]);
        break;
    case KIND_TEXT:
        snprintf(buf, size, "%s", field);
    }
}

bool config_get(const struct config *config, const char *full, char *buf, size_t size)
{
    if (group_key(full)) return param_groups_get(&config->groups, group_key(full), buf, size);
    const struct key *key = find_key(full);
    if (key) format_value(config, key, buf, size);
    return key != NULL;
}

int64_t config_most(const char *full)
{
    const struct key *key = find_key(full);
    return key && key->kind == KIND_INT ? (int64_t)key->most : 0;
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

char *config_text(const struct config *config)
{
    char *text = NULL, value[CONFIG_TEXT_MAX];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0)
            fprintf(out, "%s[%s]\n", i ? "\n" : "", keys[i].section);
        format_value(config, &keys[i], value, sizeof value);
        fprintf(out, "%s = %s\n", keys[i].name, value);
    }
    param_groups_print(&config->groups, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct key *k = &keys[i];
        if (i == 0 || strcmp(k->section, keys[i - 1].section) != 0)
            fprintf(out, "%s[%s]\n", i ? "\n" : "", k->section);
        fprintf(out, "  %-26s default %-12s", k->name,
                *k->fallback                       ? k->fallback
                : strcmp(k->section, "model") == 0 ? "(preset)"
                                                   : "(derived)");
        if (k->kind == KIND_INT) fprintf(out, "  %.0f..%.0f", k->least, k->most);
        if (k->kind == KIND_REAL) fprintf(out, "  %g..%g", k->least, k->most);
        if (k->kind == KIND_BOOL) fprintf(out, "  true|false");
        if (*k->list) fprintf(out, "  %s", k->list);
        if (*k->unit) fprintf(out, "  [%s]", k->unit);
        fprintf(out, "\n");
        if (*k->help) fprintf(out, "      %s\n", k->help);
    }
    param_groups_print_help(out);
}
