/* anneal classify: gives texts the labels of a classifier, from the command line or from a column of a CSV or
 * JSONL file. Texts are packed into rows as in training. Results are printed as they come, so that Ctrl-C
 * keeps all lines that were written. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "core/generate/classifier.h"
#include "datasets/batch.h"
#include "datasets/labelled_file.h"
#include "datasets/packing.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/loaded_model.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"

struct options {
    const char *csv, *column, *device, *adapter;
    int progress;
    int64_t step, length;
    bool best, json, all;
};

/* TOKENS: of a batch. TEXTS: that are read, computed and printed at a time. */
enum { TOKENS = 2048, LENGTH_MAX = 1024, TEXTS = 512 };

struct text {
    char *words;   /* owned */
    uint64_t line; /* of the file; or the number of the word on the command line, from 1 */
    size_t first;  /* of its tokens */
    int count;
    int best;
    double *shares; /* (num_labels), in the classification's memory */
};

struct classification {
    const struct options *options;
    struct loaded_model loaded;
    struct tokenizer *tokenizer;
    struct classifier classifier;
    struct progress_bar *bar;
    int B, T, labels;
    struct token_list ids;
    struct text texts[TEXTS]; /* `count` of them are waiting */
    int count;
    uint32_t lengths[TEXTS];
    double *shares;                      /* (TEXTS, num_labels), owned */
    int32_t *inputs, *marks, *positions; /* (B,T), owned: of a batch; the mark of the token that a text is
                                            judged by is its number */
    struct packing packing;
    uint64_t done, truncated, empty, empty_line; /* empty texts of the file, and the line of the first */
    struct json_out json;
    bool began;
};

/* ---- computing ---- */

/* Fills row b of the batch with a packed row. */
static void fill_row(struct classification *c, uint64_t row, int b)
{
    uint64_t texts[PACKING_WINDOW];
    int at = b * c->T, end = at + c->T, count = packing_row(&c->packing, row, texts);
    for (int n = at; n < end; n++) c->marks[n] = LABEL_IGNORED;
    for (int k = 0; k < count; k++) {
        uint64_t i = texts[k];
        const uint32_t *ids = c->ids.ids + c->texts[i].first;
        const struct model *model = &c->loaded.model;
        int place = classifier_place(model->config.pooling, model->classes.pad_token, ids, c->texts[i].count);
        c->marks[at + place] = (int32_t)i;
        for (int t = 0; t < c->texts[i].count; t++, at++) {
            c->inputs[at] = (int32_t)ids[t];
            c->positions[at] = t;
        }
    }
    for (int t = 0; at < end; at++, t++) c->inputs[at] = 0, c->positions[at] = t;
}

static void take(void *context, int row, const float *logits)
{
    struct classification *c = context;
    struct text *text = &c->texts[c->marks[row]];
    text->best = classifier_probabilities(logits, c->labels, text->shares);
}

static enum status compute(struct classification *c, struct err *err)
{
    struct network *net = &c->loaded.network;
    for (int i = 0; i < c->count; i++) c->lengths[i] = (uint32_t)c->texts[i].count;
    packing_close(&c->packing);
    enum status status =
        packing_open(c->lengths, (uint64_t)c->count, c->T, 0, SHUFFLE_NONE, &c->packing, err);
    for (uint64_t row = 0; !status && row < c->packing.rows; row += (uint64_t)c->B) {
        uint64_t left = c->packing.rows - row;
        int rows = left < (uint64_t)c->B ? (int)left : c->B;
        for (int b = 0; b < rows; b++) fill_row(c, row + (uint64_t)b, b);
        classifier_run(&c->classifier, (struct batch_view){c->inputs, c->marks, c->positions, rows, c->T},
                       take, c);
        status = net->backend->stream_wait(net->stream, err);
    }
    for (int i = 0; !status && i < c->count; i++)
        if (c->texts[i].best < 0)
            status = err_set(err, STATUS_CORRUPT,
                             "the model computes no finite number for a text (its weights are damaged: they "
                             "hold NaN or infinity, or are far too large)");
    return status;
}

/* ---- printing ---- */

static const char *label_name(const struct classification *c, int label)
{
    return c->loaded.model.classes.names[label];
}

static void print_json(struct classification *c, const struct text *text)
{
    struct json_out *out = &c->json;
    json_out_open(out, NULL, '{', JSON_OUT_FLAT);
    json_out_int(out, c->options->csv ? "line" : "number", (int64_t)text->line);
    JSON_MEMBERS(out, "text", (const char *)text->words, "label", label_name(c, text->best), "probability",
                 text->shares[text->best]);
    json_out_open(out, "probabilities", '{', JSON_OUT_FLAT);
    for (int k = 0; k < c->labels; k++) json_out_real(out, label_name(c, k), text->shares[k]);
    json_out_close(out);
    json_out_close(out);
}

/* A field of CSV, in quotes where it needs them. */
static void print_field(const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        clean_print_raw(stdout, text, strlen(text));
        return;
    }
    putchar('"');
    for (size_t n; *text; text += n) {
        if (*text == '"') putchar('"');
        n = 1 + strcspn(text + 1, "\"");
        clean_print_raw(stdout, text, n);
    }
    putchar('"');
}

/* What the column of a label's probabilities is called: as the label, but "probability of LABEL" if another
 * column is called so, and the same again if that is another label. Yours to free; NULL: memory is short. */
static char *column_name(const struct classification *c, int label)
{
    static const char *const others[] = {"line", "text", "label", "probability"};
    char *name = strdup(label_name(c, label));
    bool taken = false;
    for (size_t i = 0; name && i < sizeof others / sizeof *others; i++)
        taken = taken || strcmp(name, others[i]) == 0;
    while (name && taken) {
        char *longer;
        if (asprintf(&longer, "probability of %s", name) < 0) longer = NULL;
        free(name);
        name = longer;
        taken = false;
        for (int k = 0; name && k < c->labels; k++) taken = taken || strcmp(name, label_name(c, k)) == 0;
    }
    return name;
}

static void print_csv(const struct classification *c, const struct text *text)
{
    char number[32];
    printf("%" PRIu64 ",", text->line);
    print_field(text->words);
    putchar(',');
    print_field(label_name(c, text->best));
    printf(",%s", text_format_double(text->shares[text->best], number, sizeof number));
    for (int k = 0; c->options->all && k < c->labels; k++)
        printf(",%s", text_format_double(text->shares[k], number, sizeof number));
    printf("\r\n");
}

static void print_text(const struct classification *c, const struct text *text)
{
    enum { COLUMNS = 16 };
    output_padded(CLEAN_LINE(label_name(c, text->best)), COLUMNS);
    printf(" %.4f  %s\n", text->shares[text->best], CLEAN_LINE(text->words));
    for (int k = 0; c->options->all && k < c->labels; k++) {
        fputs("    ", stdout);
        output_padded(CLEAN_LINE(label_name(c, k)), COLUMNS);
        printf(" %.4f\n", text->shares[k]);
    }
}

static enum status begin_output(struct classification *c, struct err *err)
{
    c->began = true;
    if (c->options->json) {
        json_out_begin(&c->json, stdout);
        json_out_open(&c->json, NULL, '[', JSON_OUT_LINES);
    } else if (c->options->csv) {
        printf("line,text,label,probability");
        for (int k = 0; c->options->all && k < c->labels; k++) {
            char *name = column_name(c, k);
            if (!name) return err_no_memory(err, "the names of columns");
            putchar(',');
            print_field(name);
            free(name);
        }
        printf("\r\n");
    }
    return STATUS_OK;
}

/* Computes the texts that wait and prints them. */
static enum status flush(struct classification *c, struct err *err)
{
    enum status status = c->count ? compute(c, err) : STATUS_OK;
    if (!status && !c->began) status = begin_output(c, err);
    for (int i = 0; !status && i < c->count; i++) {
        if (c->options->json)
            print_json(c, &c->texts[i]);
        else if (c->options->csv)
            print_csv(c, &c->texts[i]);
        else
            print_text(c, &c->texts[i]);
    }
    fflush(stdout);
    for (int i = 0; i < c->count; i++) free(c->texts[i].words);
    if (!status) c->done += (uint64_t)c->count;
    c->count = 0;
    c->ids.count = 0;
    return status ? status : output_check(err);
}

/* ---- texts ---- */

static enum status add(struct classification *c, const char *words, size_t n, uint64_t line, struct err *err)
{
    struct text *text = &c->texts[c->count];
    size_t first = c->ids.count;
    enum status status = tokenizer_encode_prompt(c->tokenizer, words, n, &c->ids, err);
    if (status) return status;
    size_t count = c->ids.count - first;
    if (!n || !count) { /* as in training, whatever tokens the tokenizer puts around a prompt */
        c->ids.count = first;
        if (!c->options->csv) return err_set(err, STATUS_USAGE, "text %" PRIu64 " is empty", line);
        if (!c->empty++) c->empty_line = line;
        return STATUS_OK;
    }
    c->truncated += count > (size_t)c->T;
    count = tokenizer_cut_prompt(c->tokenizer, c->ids.ids + first, count, (size_t)c->T);
    for (size_t i = 0; i < count; i++)
        if (c->ids.ids[first + i] >= (uint32_t)c->loaded.model.config.vocab_size)
            return err_set(err, STATUS_USAGE,
                           "token %u of the tokenizer is outside of the model's vocabulary of %d",
                           c->ids.ids[first + i], c->loaded.model.config.vocab_size);
    *text = (struct text){.words = malloc(n + 1),
                          .line = line,
                          .first = first,
                          .count = (int)count,
                          .shares = c->shares + (size_t)c->count * (size_t)c->labels};
    if (!text->words) return err_no_memory(err, "a text of %zu bytes", n);
    memcpy(text->words, words, n);
    text->words[n] = '\0';
    return ++c->count == TEXTS ? flush(c, err) : STATUS_OK;
}

static enum status on_row(void *context, const struct labelled_row *row, struct err *err)
{
    struct classification *c = context;
    char suffix[48];
    if (interrupt_requested())
        return err_set(err, STATUS_INTERRUPTED, "classify: interrupted after %" PRIu64 " text%s", c->done,
                       text_plural((int64_t)c->done));
    snprintf(suffix, sizeof suffix, "%" PRIu64 " texts", c->done);
    progress_bar_update(c->bar, "classifying", "bytes", row->done, row->total, suffix);
    return add(c, row->text, row->length, row->line, err);
}

/* ---- opening ---- */

static enum status open_model(struct classification *c, const char *folder, enum allocator_kind allocator,
                              struct err *err)
{
    const struct options *o = c->options;
    enum status status = loaded_model_describe(&c->loaded, folder, o->adapter, LOADED_CLASSIFIER, err);
    if (!status) status = loaded_model_tokenizer(c->loaded.words, &c->tokenizer, err);
    if (status) return status;
    int most = c->loaded.model.config.max_seq_len;
    if (o->length > most)
        return err_set(err, STATUS_USAGE, "--seq-len %" PRId64 ": the model takes at most %d tokens",
                       o->length, most);
    c->labels = c->loaded.model.config.num_labels;
    c->T = o->length ? (int)o->length : most < LENGTH_MAX ? most : LENGTH_MAX;
    c->B = c->T < TOKENS ? TOKENS / c->T : 1;
    size_t N = (size_t)c->B * (size_t)c->T;
    c->shares = malloc((size_t)TEXTS * (size_t)c->labels * sizeof *c->shares);
    c->inputs = malloc(N * sizeof *c->inputs);
    c->marks = malloc(N * sizeof *c->marks);
    c->positions = malloc(N * sizeof *c->positions);
    if (!c->shares || !c->inputs || !c->marks || !c->positions)
        return err_no_memory(err, "batches of %zu tokens", N);
    struct loaded_wish wish = {.B = c->B, .T = c->T, .packed = true, .allocator = allocator};
    status = loaded_model_load(&c->loaded, o->device, wish, "classifying", err);
    return status ? status : classifier_open(&c->classifier, &c->loaded.network, err);
}

static void close_model(struct classification *c)
{
    for (int i = 0; i < c->count; i++) free(c->texts[i].words);
    packing_close(&c->packing);
    classifier_close(&c->classifier);
    token_list_release(&c->ids);
    tokenizer_close(c->tokenizer);
    loaded_model_close(&c->loaded);
    free(c->shares);
    free(c->inputs);
    free(c->marks);
    free(c->positions);
}

/* Classifies all texts. After an interrupt what was computed is printed. */
static enum status classify(struct classification *c, const struct words *words, struct err *err)
{
    const struct options *o = c->options;
    enum status status = STATUS_OK;
    if (o->csv) status = labelled_file_each(o->csv, o->column ? o->column : "text", NULL, on_row, c, err);
    for (int i = 1; !status && i < words->count; i++) {
        if (file_exists(words->words[i]) && !file_is_folder(words->words[i]))
            output_warn(
                "%.200s: is a file, but its name is taken as the text (--csv FILE reads texts from it)",
                CLEAN_LINE(words->words[i]));
        status = add(c, words->words[i], strlen(words->words[i]), (uint64_t)i, err);
    }
    if (!status) status = flush(c, err);
    progress_bar_clear(c->bar);
    if (o->json && c->began) {
        json_out_close(&c->json);
        if (json_out_finish(&c->json) && !status)
            status = err_set(err, STATUS_IO, "standard output has not taken all of the result");
    }
    if (c->empty)
        output_warn("%" PRIu64 " empty text%s left out, the first in line %" PRIu64, c->empty,
                    c->empty == 1 ? " is" : "s are", c->empty_line);
    if (c->truncated)
        output_warn("%" PRIu64 " text%s more than %d tokens: only the first of them count", c->truncated,
                    c->truncated == 1 ? " has" : "s have", c->T);
    return status;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct model_choice model = {"classifying", words->words[0], o->step, o->best, {0}};
    struct progress_bar bar;
    char folder[PATH_MAX];
    enum allocator_kind allocator;
    if (!o->csv == (words->count < 2))
        return err_set(err, STATUS_USAGE, "needs texts, or --csv FILE%s", o->csv ? ", not both" : "");
    if (o->column && !o->csv) return err_set(err, STATUS_USAGE, "--column needs --csv FILE");
    progress_bar_init(&bar, stderr, o->progress);
    enum status status = model_choice_find(&model, folder, sizeof folder, &allocator, err);
    if (status) return status;
    struct classification *c = calloc(1, sizeof *c);
    if (!c) return checkpoint_hold_end(&model.hold, folder, err_no_memory(err, "classifying"), err);
    c->options = o;
    c->bar = &bar;
    status = checkpoint_hold_end(&model.hold, folder, open_model(c, folder, allocator, err), err);
    if (!status) status = classify(c, words, err);
    close_model(c);
    free(c);
    return status;
}

static const struct options defaults = {.device = "auto", .step = -1};

static const struct option_spec options[] = {
    OPTION("csv", OPTION_TEXT, AT(csv), "FILE", "the texts of a CSV or JSONL file; the result is CSV"),
    OPTION("column", OPTION_TEXT, AT(column), "NAME", "of --csv: the column of the text (default text)"),
    OPTION("probabilities", OPTION_FLAG, AT(all), NULL,
           "the probability of every label, not only of the likeliest"),
    ADAPTER_OPTION,
    BEST_OPTION,
    STEP_OPTION,
    OPTION("seq-len", OPTION_WHOLE, AT(length), "T",
           "of each text only the first T tokens count (default: as many as the model takes, at most 1024)",
           .least = 1, .most = 1 << 20),
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, "where to compute (default auto)"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command command_classify = COMMAND(
    "classify", "RUN|FOLDER TEXT...", 1, INT_MAX, options, "give texts the labels of a classifier", run,
    defaults,
    .about =
        "Gives each TEXT, or each text of a CSV or JSONL file, the likeliest label of a classifier, and "
        "its probability. FOLDER is a checkpoint of anneal or of Hugging Face (…ForSequenceClassification), "
        "or the name of an imported model. A text is judged as in training: its last token or the mean "
        "over its tokens, whatever texts are computed with it.",
    .notes =
        "With --csv the result is CSV: line, text, label, probability. --probabilities adds a column for "
        "each label, called as the label; as \"probability of LABEL\" if one of the four is called so. "
        "With --json it is one list of objects with the probability of every label. Ctrl-C ends the list "
        "after the texts that are "
        "done. Empty texts of a file are left out, and counted at the end.\n\n"
        "  anneal classify latest \"You have won a prize\"\n"
        "  anneal classify spam --csv mails.csv --column text > labelled.csv");
