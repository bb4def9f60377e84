/* See labelled.h. */
#include "datasets/labelled.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/philox.h"
#include "core/base/text.h"
#include "datasets/bpe_train.h"
#include "datasets/inputs.h"
#include "datasets/labelled_file.h"

enum { LABELS_MAX = 4096, PROGRESS_ROWS = 256 };

struct reading {
    struct labelled *data;
    const struct labelled_wish *wish;
    const char *path;
    bool fixed; /* no new labels */
};

/* ---- labels ---- */

static int find_label(const struct labelled *data, const char *name, uint64_t hash)
{
    uint64_t at = hash;
    for (uint32_t i; (i = hash_index_next(&data->index, hash, &at)) != HASH_NONE;)
        if (strcmp(data->names[i], name) == 0) return (int)i;
    return -1;
}

static enum status unknown_label(const struct reading *r, const struct labelled_row *row, struct err *err)
{
    const struct labelled *data = r->data;
    char names[160] = "";
    for (int i = 0; i < data->label_count; i++) text_add(names, sizeof names, ", ", "%s", data->names[i]);
    return err_set(err, STATUS_USAGE,
                   "%.200s: line %" PRIu64 ": the training data has no label \"%.60s\"; it has %s%s", r->path,
                   row->line, CLEAN_LINE(row->label), CLEAN_LINE(names),
                   strlen(names) + 1 == sizeof names ? "..." : "");
}

static enum status label_of(const struct reading *r, const struct labelled_row *row, int *out,
                            struct err *err)
{
    struct labelled *data = r->data;
    uint64_t hash = XXH64(row->label, strlen(row->label), 0);
    *out = find_label(data, row->label, hash);
    if (*out >= 0) return STATUS_OK;
    if (r->fixed) return unknown_label(r, row, err);
    if (data->label_count == LABELS_MAX)
        return err_set(err, STATUS_USAGE,
                       "%.200s: line %" PRIu64 ": more than %d labels (is \"%.60s\" the column of "
                       "the label?)",
                       r->path, row->line, LABELS_MAX, r->wish->label_column);
    size_t count = (size_t)data->label_count;
    char **place = arena_grow(&data->arena, &data->names, count, sizeof *data->names);
    char *name = place ? arena_strdup(&data->arena, row->label) : NULL;
    if (!name || !hash_index_add(&data->index, hash, count))
        return err_no_memory(err, "%zu labels", count + 1);
    *place = name;
    *out = data->label_count++;
    return STATUS_OK;
}

struct numbered {
    char *name;
    int number;
    int64_t value;
};

static int by_value(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct numbered *)a)->name, ((const struct numbered *)b)->name);
}

/* Numbers the labels in sorted order. */
static enum status sort_labels(struct labelled *data, struct err *err)
{
    size_t count = (size_t)data->label_count;
    struct arena scratch = {0};
    struct numbered *sorted = arena_alloc_array(&scratch, count, sizeof *sorted);
    int *number = arena_alloc_array(&scratch, count, sizeof *number);
    bool whole = true;
    if (!sorted || !number) {
        arena_release(&scratch);
        return err_no_memory(err, "%zu labels", count);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (struct numbered){data->names[i], (int)i, 0};
        whole = whole && text_parse_int(sorted[i].name, &sorted[i].value);
    }
    qsort(sorted, count, sizeof *sorted, by_name);
    if (whole) qsort(sorted, count, sizeof *sorted, by_value);
    hash_index_release(&data->index);
    bool added = true;
    for (size_t i = 0; i < count; i++) {
        data->names[i] = sorted[i].name;
        number[sorted[i].number] = (int)i;
        added = added && hash_index_add(&data->index, XXH64(sorted[i].name, strlen(sorted[i].name), 0), i);
    }
    for (size_t i = 0; i < data->example_count; i++)
        data->examples[i].label = number[data->examples[i].label];
    arena_release(&scratch);
    return added ? STATUS_OK : err_no_memory(err, "%zu labels", count);
}

/* ---- reading ---- */

static enum status add_example(struct reading *r, const struct labelled_row *row, struct err *err)
{
    struct labelled *data = r->data;
    const struct labelled_wish *wish = r->wish;
    struct labelled_report *report = &data->report;
    struct labelled_example example = {.first = data->ids.count, .hash = XXH64(row->text, row->length, 0)};
    enum status status = tokenizer_encode_prompt(wish->tokenizer, row->text, row->length, &data->ids, err);
    if (status) return status;
    size_t count = data->ids.count - example.first, most = (size_t)wish->longest;
    report->rows++;
    if (count > report->longest) report->longest = count;
    if (!row->length || !count) {
        if (!report->empty++) report->empty_line = row->line;
        data->ids.count = example.first;
        return STATUS_OK;
    }
    if ((status = label_of(r, row, &example.label, err))) return status;
    if (utf8_valid_bytes(row->text, row->length) < row->length && !report->foreign++)
        report->foreign_line = row->line;
    if (count > most && !wish->truncate)
        return err_set(err, STATUS_USAGE,
                       "%.200s: line %" PRIu64
                       ": the text has %zu tokens, more than train.seq_len = %zu (raise "
                       "train.seq_len, or set data.too_long = cut)",
                       r->path, row->line, count, most);
    report->truncated += count > most;
    example.count = (int)tokenizer_cut_prompt(wish->tokenizer, data->ids.ids + example.first, count, most);
    data->ids.count = example.first + (size_t)example.count;
    if (!list_reserve(&data->examples, data->example_count, 1, &data->example_capacity, sizeof example))
        return err_no_memory(err, "%zu texts", data->example_count);
    data->examples[data->example_count++] = example;
    return STATUS_OK;
}

static enum status on_row(void *context, const struct labelled_row *row, struct err *err)
{
    struct reading *r = context;
    bool reports = r->data->report.rows % PROGRESS_ROWS == 0 || row->done == row->total;
    enum status status = STATUS_OK;
    if (reports)
        status = progress_report(r->wish->progress, "reading texts", "bytes", row->done, row->total, err);
    return status ? status : add_example(r, row, err);
}

static enum status read_files(struct reading *r, const char *value, struct err *err)
{
    struct inputs inputs = {0};
    enum status status = inputs_open(value, NULL, NULL, &inputs, err);
    if (!status) status = inputs_refuse_weights(&inputs, "data.format = labels", err);
    if (!status && inputs.tokens)
        status = err_set(err, STATUS_USAGE,
                         "%.200s: holds tokens without labels; a classifier learns from CSV or JSONL files",
                         value);
    for (size_t i = 0; !status && i < inputs.count; i++) {
        r->path = inputs.paths[i];
        status = labelled_file_each(r->path, r->wish->text_column, r->wish->label_column, on_row, r, err);
    }
    inputs_close(&inputs);
    return status;
}

enum status labelled_open(struct labelled *data, const char *value, const struct labelled_wish *wish,
                          struct err *err)
{
    *data = (struct labelled){0};
    struct reading r = {.data = data, .wish = wish};
    enum status status = read_files(&r, value, err);
    if (status) return status;
    if (!data->example_count)
        return err_set(err, STATUS_USAGE, "%.200s: has no text (\"%.60s\" is the column of the text)", value,
                       wish->text_column);
    if (data->label_count < wish->least_labels)
        return err_set(
            err, STATUS_USAGE,
            "%.200s: all texts have the label \"%.60s\"; a classifier needs at least two (\"%.60s\" is the "
            "column of the label)",
            value, CLEAN_LINE(data->names[0]), wish->label_column);
    data->training = data->example_count;
    return sort_labels(data, err);
}

void labelled_release(struct labelled *data)
{
    free(data->examples);
    token_list_release(&data->ids);
    hash_index_release(&data->index);
    arena_release(&data->arena);
    *data = (struct labelled){0};
}

/* ---- splitting ---- */

struct drawn {
    uint64_t key;
    size_t example;
};

static int by_label_and_key(const void *a, const void *b)
{
    const struct drawn *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->example > y->example) - (x->example < y->example);
}

/* Of each label, the examples with the lowest random keys are held out. */
static enum status hold_out(struct labelled *data, double fraction, uint64_t seed, struct err *err)
{
    size_t n = data->example_count, held = 0, kept = 0;
    struct arena scratch = {0};
    struct drawn *drawn = arena_alloc_array(&scratch, n, sizeof *drawn);
    struct labelled_example *apart = arena_alloc_array(&scratch, n, sizeof *apart);
    bool *out = arena_alloc_array(&scratch, n, sizeof *out);
    if (!drawn || !apart || !out) {
        arena_release(&scratch);
        return err_no_memory(err, "a split of %zu texts", n);
    }
    for (size_t i = 0; i < n; i++) {
        struct philox_block random = philox4x32_10((uint32_t)i, (uint32_t)((uint64_t)i >> 32), 0, 0x73706C74u,
                                                   (uint32_t)seed, (uint32_t)(seed >> 32));
        drawn[i] = (struct drawn){(uint64_t)data->examples[i].label << 32 | random.word[0], i};
    }
    qsort(drawn, n, sizeof *drawn, by_label_and_key);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && drawn[to].key >> 32 == drawn[from].key >> 32;) to++;
        size_t count = to - from, share = (size_t)llround(fraction * (double)count);
        if (!share && count > 1 && fraction > 0) share = 1;
        if (share == count) share--; /* a label that no text teaches could only be wrong */
        for (size_t i = 0; i < share; i++) out[drawn[from + i].example] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (out[i])
            apart[held++] = data->examples[i];
        else
            data->examples[kept++] = data->examples[i];
    memcpy(data->examples + kept, apart, held * sizeof *apart);
    data->training = kept;
    arena_release(&scratch);
    return STATUS_OK;
}

static int by_hash(const void *a, const void *b)
{
    const struct labelled_example *x = *(const struct labelled_example *const *)a,
                                  *y = *(const struct labelled_example *const *)b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->label > y->label) - (x->label < y->label);
}

/* Counts the texts that are there with different labels. */
static enum status count_conflicts(struct labelled *data, struct err *err)
{
    size_t n = data->example_count;
    const struct labelled_example **sorted = malloc(n * sizeof *sorted);
    if (!sorted) return err_no_memory(err, "a list of %zu texts", n);
    for (size_t i = 0; i < n; i++) sorted[i] = &data->examples[i];
    qsort(sorted, n, sizeof *sorted, by_hash);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && sorted[to]->hash == sorted[from]->hash;) to++;
        data->report.conflicts += sorted[from]->label != sorted[to - 1]->label;
    }
    free(sorted);
    return STATUS_OK;
}

static void sum_up(struct labelled *data)
{
    data->checksum = XXH64(data->ids.ids, data->ids.count * sizeof *data->ids.ids, 0);
    for (size_t i = 0; i < data->example_count; i++) {
        const struct labelled_example *e = &data->examples[i];
        uint64_t parts[] = {(uint64_t)e->first, (uint64_t)e->count, (uint64_t)e->label};
        data->checksum = XXH64(parts, sizeof parts, data->checksum);
    }
    for (int i = 0; i < data->label_count; i++)
        data->checksum = XXH64(data->names[i], strlen(data->names[i]) + 1, data->checksum);
}

enum status labelled_split(struct labelled *data, const char *value, double fraction, uint64_t seed,
                           const struct labelled_wish *wish, struct err *err)
{
    struct reading r = {.data = data, .wish = wish, .fixed = true};
    enum status status = *value ? read_files(&r, value, err) : hold_out(data, fraction, seed, err);
    if (!status) status = count_conflicts(data, err);
    if (status) return status;
    if (*value && data->training == data->example_count)
        return err_set(err, STATUS_USAGE, "%.200s: has no text to validate on", value);
    sum_up(data);
    return STATUS_OK;
}

/* ---- learning a tokenizer ---- */

static enum status count_row(void *context, const struct labelled_row *row, struct err *err)
{
    struct text_piece piece = {.path = "",
                               .text = row->text,
                               .n = row->length,
                               .before = row->done,
                               .after = row->done,
                               .total = row->total};
    return bpe_trainer_count(context, &piece, err);
}

static enum status learn(const char *value, const char *text_column, int64_t size,
                         const struct progress *progress, struct tokenizer **out, struct err *err)
{
    struct inputs inputs = {0};
    struct bpe_trainer *trainer = NULL;
    enum status status = bpe_train_check(size, err);
    if (!status) status = inputs_open(value, NULL, NULL, &inputs, err);
    if (!status) status = inputs_refuse_weights(&inputs, "data.format = labels", err);
    if (!status) status = bpe_trainer_new((int)size, 1, progress, &trainer, err);
    for (size_t i = 0; !status && i < inputs.count; i++)
        status = labelled_file_each(inputs.paths[i], text_column, NULL, count_row, trainer, err);
    if (!status) status = bpe_trainer_learn(trainer, false, out, err);
    bpe_trainer_free(trainer);
    inputs_close(&inputs);
    return status;
}

enum status labelled_tokenizer(const char *value, const char *text_column, const char *word,
                               const struct progress *progress, struct corpus *out, struct err *err)
{
    int64_t size = tokenizer_learned_size(word);
    struct tokenizer *tokenizer = NULL;
    enum status status = size ? learn(value, text_column, size, progress, &tokenizer, err)
                              : tokenizer_open(word, &tokenizer, err);
    if (status) return status;
    *out = (struct corpus){
        .tokenizer = tokenizer, .vocab_size = (uint32_t)tokenizer_vocab_size(tokenizer), .learned = size > 0};
    return file_format_path(out->tokenizer_word, sizeof out->tokenizer_word, err, "%s", size ? "" : word);
}
