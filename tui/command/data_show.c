/* anneal data show: one row as training sees it, with the tokens that are learned. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/data_format.h"
#include "datasets/batch.h"
#include "datasets/documents.h"
#include "datasets/examples.h"
#include "datasets/text_file.h"
#include "tui/command/command.h"
#include "tui/command/data.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/configured_corpus.h"
#include "tui/session/recorded_run.h"

struct options {
    int64_t row;
    int progress;
    bool training, json;
};

/* A row of (T) tokens. */
struct row {
    const struct options *options;
    struct config config;
    struct corpus corpus;
    struct split split, held;                     /* of text */
    struct example_rows examples, none;           /* of conversations */
    struct document_rows documents, no_documents; /* of text that is packed */
    struct batch_source source;                   /* of one of these */
    bool alone;                                   /* a row is one conversation */
    uint64_t rows;
    int T;
    int32_t *memory, *inputs, *targets, *positions;
};

static enum status read_config(struct row *r, const struct words *words, struct err *err)
{
    char word[CONFIG_TEXT_MAX + 16];
    const char *file = words->words[0];
    enum status status = file_format_path(word, sizeof word, err, "data.train=%s", file);
    config_init(&r->config);
    if (!status) status = config_read_word(&r->config, word, err);
    if (!status && text_file_is_json_lines(file))
        status = config_read_word(&r->config, "data.format=instructions", err);
    for (int i = 0; !status && i < words->setting_count; i++)
        status = config_read_word(&r->config, words->settings[i], err);
    if (!status && !format_traits(r->config.data.format)->writes_text)
        return err_set(
            err, STATUS_USAGE,
            "data.format = labels: a classifier learns a label for a text as a whole, so there are "
            "no learned tokens to show (`%s train --dry-run` counts the texts)",
            TEXT_PROGRAM);
    if (!status) status = model_choice_of_config(&r->config, err);
    return status ? status : config_finish(&r->config, err);
}

/* Without --training nothing is held out, and the order is that of the file. */
static enum status open_rows(struct row *r, struct err *err)
{
    const struct config *c = &r->config;
    bool training = r->options->training;
    const struct split_rule rule = {c->data.val_split, training ? c->data.val_fraction : 0, r->T,
                                    (uint64_t)c->train.seed, training ? c->data.shuffle : SHUFFLE_NONE};
    enum status status;
    if (r->corpus.source_count)
        return err_set(err, STATUS_USAGE,
                       "%.200s: is a mixture of %zu sources (name one of them, without a weight)",
                       c->data.train, r->corpus.source_count);
    if (r->corpus.runs) {
        status = example_rows_open(&r->corpus, &rule, c->data.too_long == TOO_LONG_REFUSE, &r->examples,
                                   &r->none, err);
        if (!status) r->source = example_rows_source(&r->examples);
    } else if (c->data.documents == DOCUMENTS_PACKED) {
        uint32_t end;
        status = documents_end(&r->corpus, c->data.end_token, &end, err);
        if (!status)
            status = document_rows_open(&r->corpus, end, &rule, &r->documents, &r->no_documents, err);
        r->documents.padding = c->data.padding;
        if (!status) r->source = document_rows_source(&r->documents);
    } else {
        status = split_corpus(&r->corpus, &rule, &r->split, &r->held, err);
        r->split.padding = c->data.padding;
        if (!status) r->source = split_source(&r->split);
    }
    if (status && !r->corpus.runs) err_prefix(err, "%.200s", CLEAN_LINE(c->data.train));
    r->alone = r->corpus.runs && !training;
    r->rows = r->alone ? r->examples.count : r->source.rows;
    return status;
}

/* How many conversations are not among the rows, as text; "" if all are. */
static const char *left_out(const struct row *r, char *buf, size_t size)
{
    uint64_t count = r->examples.empty;
    *buf = '\0';
    if (count)
        snprintf(buf, size, "; %" PRIu64 " %s left out, as no answer begins within train.seq_len = %d", count,
                 count == 1 ? "is" : "are", r->T);
    return buf;
}

static enum status fill(struct row *r, struct err *err)
{
    char others[96];
    uint64_t number = (uint64_t)r->options->row - 1;
    size_t T = (size_t)r->T;
    if (number >= r->rows)
        return err_set(err, STATUS_NOT_FOUND, "--row %" PRId64 ": the last row is %" PRIu64 "%s",
                       r->options->row, r->rows, left_out(r, others, sizeof others));
    r->memory = calloc(3 * T, sizeof *r->memory);
    if (!r->memory) return err_no_memory(err, "a row of %d tokens", r->T);
    r->inputs = r->memory, r->targets = r->inputs + T, r->positions = r->targets + T;
    for (size_t t = 0; t < T; t++) r->positions[t] = (int32_t)t; /* of a row that is one sequence */
    if (r->alone)
        example_rows_single(&r->examples, number, r->inputs, r->targets, r->positions);
    else
        r->source.fill(r->source.context, number, 1, r->inputs, r->targets,
                       r->source.packed ? r->positions : NULL);
    return STATUS_OK;
}

/* ---- the tokens, in order ---- */

struct place {
    uint32_t id;
    int position; /* in its sequence */
    bool learned;
};

/* Whether the sequence that begins at t is the empty rest of a packed row. */
static bool is_rest(const struct row *r, int t)
{
    if (!r->source.packed) return false;
    for (int u = t; u < r->T; u++)
        if (r->targets[u] != LABEL_IGNORED || r->inputs[u] != 0 || r->positions[u] != u - t) return false;
    return true;
}

/* Fills places, at most 2·T, and returns how many. The token behind an input is its target or, where that
 * does not count, the next input of the sequence. */
static int list_places(const struct row *r, struct place *places)
{
    int count = 0;
    for (int t = 0; t < r->T; t++) {
        bool first = r->positions[t] == 0, more = t + 1 < r->T && r->positions[t + 1] != 0;
        if (first && is_rest(r, t)) break;
        if (first) places[count++] = (struct place){(uint32_t)r->inputs[t], 0, false};
        bool learned = r->targets[t] != LABEL_IGNORED;
        if (learned || more)
            places[count++] = (struct place){(uint32_t)(learned ? r->targets[t] : r->inputs[t + 1]),
                                             r->positions[t] + 1, learned};
    }
    return count;
}

/* ---- printing ---- */

char *data_spell(const struct tokenizer *tokenizer, uint32_t id, char *buf, size_t size)
{
    size_t n = 0, to = 0;
    const char *bytes = tokenizer ? tokenizer_token_bytes(tokenizer, id, &n) : "";
    bool whole = utf8_valid_bytes(bytes, n) == n;
    for (size_t i = 0; i < n && to + 5 < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = c >= 0x20 && c != 0x7F && c != '\\' && (c < 0x80 || whole);
        to += (size_t)snprintf(buf + to, size - to, plain ? "%c" : "\\x%02x", c);
    }
    to = utf8_valid_bytes(buf, to); /* cut at a character */
    buf[to] = '\0';
    return buf;
}

/* The text of places [from, to), which has to be freed; NULL: no memory, or no tokenizer. */
static char *text_of(const struct row *r, const struct place *places, int from, int to, size_t *n)
{
    if (!r->corpus.tokenizer) return NULL;
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    for (int i = from; out && i < to; i++) {
        size_t length;
        const char *bytes = tokenizer_token_bytes(r->corpus.tokenizer, places[i].id, &length);
        fwrite(bytes, 1, length, out);
    }
    text_stream_end(out, &text);
    return text;
}

static void print_text(const struct row *r, const struct place *places, int count)
{
    bool color = output_has_color(stdout);
    for (int from = 0, to; from < count; from = to) {
        bool learned = places[from].learned;
        for (to = from + 1; to < count && places[to].learned == learned && places[to].position; to++) {
        }
        size_t n = 0;
        char *text = text_of(r, places, from, to, &n), *clean = malloc(4 * n + 1);
        if (places[from].position == 0 && from) fputs(color ? "\033[90m\n────\033[0m\n" : "\n────\n", stdout);
        if (text && clean) clean_block(clean, 4 * n + 1, text, n);
        if (!text)
            for (int i = from; i < to; i++) printf(learned ? "[%u]" : "%u ", places[i].id);
        else if (clean && learned)
            printf(color ? "\033[32m%s\033[0m" : "[[%s]]", clean);
        else if (clean)
            fputs(clean, stdout);
        free(text), free(clean);
    }
    putchar('\n');
}

static enum status print(const struct row *r, const struct place *places, int count, struct err *err)
{
    struct output o;
    int64_t learned = 0, sequences = 0;
    for (int i = 0; i < count; i++) learned += places[i].learned, sequences += places[i].position == 0;
    if (!r->options->json) {
        char others[96];
        printf("row %" PRId64 " of %" PRIu64 ": %d tokens, %" PRId64 " learned, %" PRId64 " sequence%s%s\n\n",
               r->options->row, r->rows, count, learned, sequences, text_plural(sequences),
               left_out(r, others, sizeof others));
        print_text(r, places, count);
        return output_check(err);
    }
    output_begin(&o, true);
    OUTPUT_MEMBERS(&o, "row", r->options->row, "rows", (int64_t)r->rows, "learned", learned, "sequences",
                   sequences);
    output_list(&o, "tokens", "");
    for (int i = 0; i < count; i++) {
        char token[256];
        output_item(&o);
        OUTPUT_MEMBERS(&o, "id", places[i].id, "token",
                       data_spell(r->corpus.tokenizer, places[i].id, token, sizeof token), "position",
                       places[i].position, "learned", places[i].learned);
    }
    output_list_end(&o);
    return output_end(&o, err);
}

static enum status show(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct row *r = calloc(1, sizeof *r);
    struct place *places = NULL;
    struct progress_bar bar;
    char home[PATH_MAX];
    const char *key;
    if (!r) return err_no_memory(err, "a row");
    r->options = o;
    progress_bar_init(&bar, stderr, o->progress);
    enum status status = read_config(r, words, err);
    if (!status) status = file_anneal_home(home, sizeof home, err);
    if (!status) status = configured_corpus_open(&r->config, home, &bar.progress, &r->corpus, &key, err);
    progress_bar_clear(&bar);
    r->T = (int)r->config.train.seq_len;
    if (!status) status = open_rows(r, err);
    if (!status) status = fill(r, err);
    if (!status && !(places = malloc(2 * (size_t)r->T * sizeof *places)))
        status = err_no_memory(err, "a row of %d tokens", r->T);
    if (!status) status = print(r, places, list_places(r, places), err);
    free(places);
    free(r->memory);
    example_rows_close(&r->examples);
    example_rows_close(&r->none);
    document_rows_close(&r->documents);
    document_rows_close(&r->no_documents);
    split_release(&r->split);
    split_release(&r->held);
    corpus_close(&r->corpus);
    free(r);
    return status;
}

static const struct option_spec show_options[] = {
    OPTION("row", OPTION_WHOLE, AT(row), "N", "which one, from 1 (the default)", .least = 1),
    OPTION("training", OPTION_FLAG, AT(training), NULL,
           "the Nth row that training sees: shuffled, without what is held out, and conversations packed"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command data_show = COMMAND(
    "data show", "FILE", 1, 1, show_options, "show a row as training sees it, and what of it is learned",
    show, (struct options){.row = 1}, .settings = true,
    .about =
        "Shows conversation N of FILE, JSONL, as the chat template writes it, or sequence N of a text. On a "
        "terminal what is learned is green, elsewhere it is [[in brackets]].\n"
        "FILE and the settings mean the same as in `anneal train`: --model.from or --data.tokenizer names "
        "the model, --data.template another chat template, --train.seq_len the tokens of a row.");
