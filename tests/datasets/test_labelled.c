/* Labelled texts: rows of CSV and JSONL, labels in sorted order, the split, and what is wrong with a file, by
 * its line. */
#include <inttypes.h>
#include <jansson.h>

#include "datasets/labelled.h"
#include "datasets/labelled_file.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

static struct labelled_wish wish = {
    .text_column = "text", .label_column = "label", .longest = 16, .truncate = true, .least_labels = 2};

static double held_out = 0.25;

/* Reads `text` as a file of this name, and splits off a quarter. */
static enum status read_text(const char *name, const char *text, size_t n, const char *validation,
                             struct labelled *data, struct err *err)
{
    struct tokenizer *tokenizer;
    char *path = rig_path(name), *val = rig_path("val.csv");
    *err = (struct err){0};
    if (tokenizer_open_bytes(&tokenizer, err)) fail_msg("%s", err->text);
    rig_write(path, text, n);
    if (validation) rig_write(val, validation, strlen(validation));
    wish.tokenizer = tokenizer;
    enum status status = labelled_open(data, path, &wish, err);
    if (!status) status = labelled_split(data, validation ? val : "", held_out, 7, &wish, err);
    tokenizer_close(tokenizer);
    free(path);
    free(val);
    return status;
}

static void expect_labels(const char *name, const char *text, const char *labels)
{
    struct labelled data;
    struct err err;
    char got[200] = "";
    if (read_text(name, text, strlen(text), NULL, &data, &err)) fail_msg("%s: %s", name, err.text);
    for (int i = 0; i < data.label_count; i++) {
        strcat(got, i ? "|" : "");
        strcat(got, data.names[i]);
    }
    assert_string_equal(got, labels);
    labelled_release(&data);
}

TEST_CASE(csv_and_jsonl_give_the_same_labels_sorted)
{
    expect_labels("a.csv", "text,label\none,spam\ntwo,ham\nthree,\"a, b\"\n", "a, b|ham|spam");
    expect_labels("b.csv", "\xEF\xBB\xBFlabel,id,text\r\nx,1,\"two\nlines, \"\"quoted\"\"\"\r\n\r\ny,2,z\r\n",
                  "x|y");
    expect_labels("c.tsv", "text\tlabel\na,b\tx\nc\ty\n", "x|y");
    expect_labels("q.tsv", "text\tlabel\n\"a\tb\"\tx\nc\t\"\"\"y\"\"\"\n", "\"y\"|x"); /* quotes as in CSV */
    expect_labels("g.csv", "text,label\na,x,\nb,y,,\n", "x|y"); /* commas at the end separate nothing */
    expect_labels("d.jsonl",
                  "{\"text\": \"a\", \"label\": \"x\"}\n\n{\"label\": \"y\", \"text\": \"b\", \"n\": [1]}",
                  "x|y");
    expect_labels("d.jsonl",
                  "\xEF\xBB\xBF{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}",
                  "x|y");
    expect_labels("d", "\xEF\xBB\xBF{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}",
                  "x|y");
    expect_labels("e.data", "{\"text\": \"a\", \"label\": 10}\n{\"text\": \"b\", \"label\": 9}", "9|10");
    expect_labels("g.data", "text,label\n{a,x\nb,y\n", "x|y");
    expect_labels("h.tsv", "{text\ttext\tlabel\na\tb\tx\na\tb\ty\n", "x|y");
    expect_labels("f.jsonl", "{\"text\": \"a\", \"label\": true}\n{\"text\": \"b\", \"label\": false}",
                  "false|true");
}

static void expect_refused(const char *name, const char *text, size_t n, const char *validation,
                           const char *says, const char *too)
{
    struct labelled data;
    struct err err;
    if (!read_text(name, text, n, validation, &data, &err)) fail_msg("%s is accepted", text);
    if (!strstr(err.text, says) || !strstr(err.text, too))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", err.text, says, too);
    assert_null(strchr(err.text, '\n'));
    labelled_release(&data);
}
#define REFUSED(name, text, says, too) expect_refused(name, text, sizeof(text) - 1, NULL, says, too)

TEST_CASE(a_bad_file_is_refused_with_its_line)
{
    REFUSED("a.csv", "body,label\na,b\n", "has no \"text\"", "\"body\", \"label\"");
    REFUSED("a.csv", "text,class\na,b\n", "has no \"label\"", "\"text\", \"class\"");
    REFUSED("a.csv", "body,label\na,b\n", "line 1 has no \"text\"",
            "(set data.text_column, or the option --column)");
    REFUSED("a.tsv", "text\tclass\na\tb\n",
            "it has \"text\", \"class\" (set data.label_column, or the option ", "--label-column)");
    static const char *const lines[] = {"a.jsonl", "a.ndjson", "a.json"};
    for (int i = 0; i < 3; i++)
        REFUSED(lines[i], "{\"body\": \"a\"}",
                "line 1 has no \"text\"; it has \"body\" (set data.text_column", "");
    REFUSED("a.txt", "In the beginning\n",
            "has no \"text\"; it has \"In the beginning\" (a classifier takes ",
            "CSV or JSONL with a column of texts and one of labels");
    REFUSED("a.csv", "text,label,text\na,x,b\n", "line 1", "twice");
    REFUSED("a.csv", "", "is empty", "header");
    REFUSED("a.csv", "text,label\n", "has no text", "");
    REFUSED("a.csv", "text,label\na,x\nb\n", "line 3", "fewer fields");
    REFUSED("a.csv", "text,label\na,x\nb, c,y\n", "line 3", "more fields than the header");
    REFUSED("a.csv", "label,text\nx,a\ny\n", "line 3", "fewer fields");
    REFUSED("a.csv", "text;label\na;x\n", "has no \"text\"", "commas between");
    REFUSED("a.csv", "text,label\na,x\nb,\n", "line 3", "label is empty");
    REFUSED("a.csv", "text,label\na,x\nb \"q\" c,y\n", "line 3", "quote");
    REFUSED("a.tsv", "text\tlabel\na\tx\n\"b\" c\ty\n", "line 3", "quote");
    REFUSED("a.csv", "text,label\na,x\n\"b,y\nc,z\n", "line 3", "not closed");
    REFUSED("a.csv", "text,label\na,x\nb\0c,y\n", "line 3", "NUL");
    REFUSED("a.csv", "\xFF\xFEt\0e\0x\0t\0", "line 1", "iconv -f UTF-16 -t UTF-8");
    REFUSED("a.csv", "text,label\na,x\nb,\xFF\n", "line 3", "UTF-8");
    REFUSED("a.csv", "text,label\na,x\nb,x\n", "all texts have the label \"x\"", "at least two");
    REFUSED("a.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": }\n",
            "line 2 column", "one JSON object");
    REFUSED("a.jsonl", "text,label\na,x\n", "line 1 column", "one JSON object");
    REFUSED("a.json", "[{\"text\": \"a\", \"label\": \"x\"},\n{\"text\": \"b\", \"label\": \"y\"}]",
            "line 1 column", "one JSON object");
    REFUSED("a.json", "[{\"text\": \"a\", \"label\": \"x\"}]\n", "line 1", "of a list");
    REFUSED("a.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\"}\n", "line 2",
            "it has \"text\"");
    REFUSED("a.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": 5, \"label\": \"x\"}\n", "line 2",
            "not a JSON string");
    REFUSED("a.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": 1.5}\n", "line 2",
            "neither a string");
    static const char good[] = "text,label\na,x\nb,y\nc,x\nd,y\n";
    expect_refused("a.csv", good, sizeof good - 1, "text,label\ne,z\n",
                   "line 2: the training data has no label \"z\"; it has x, y", "");
    expect_refused("a.csv", good, sizeof good - 1, "text,label\n", "no text to validate on", "");
    static const char six[] =
        "text,label\na,a23456789012345678901234567890\nb,b23456789012345678901234567890\n"
        "c,c23456789012345678901234567890\nd,d23456789012345678901234567890\n"
        "e,e23456789012345678901234567890\nf,f23456789012345678901234567890\n";
    expect_refused("a.csv", six, sizeof six - 1, "text,label\ng,g\n",
                   "b23456789012345678901234567890, c23456", ", e23456789012345678901234567890,...");
    char many[20000];
    for (int longer = 0; longer < 2; longer++) { /* a list of 159 bytes has room, one more does not */
        size_t used = (size_t)snprintf(many, sizeof many, "text,label\n");
        for (int i = 0; i < 4; i++)
            used += (size_t)snprintf(many + used, sizeof many - used, "t,%c2345678901234567890\n", 'a' + i);
        used += (size_t)snprintf(many + used, sizeof many - used, "t,e%0*d\n", 159 - 4 * 22 - 1 + longer, 7);
        expect_refused("a.csv", many, used, "text,label\nv,v\n", "it has a2345678901234567890, b",
                       longer ? "00..." : "07");
    }
    size_t used = (size_t)snprintf(many, sizeof many, "text,label\n");
    for (int i = 0; i < 1000; i++)
        used += (size_t)snprintf(many + used, sizeof many - used, "t,label %d\n", i);
    expect_refused("a.csv", many, used, "text,label\nv,v\n", "it has label 0, label 1, label 10", "...");
}

TEST_CASE(a_label_has_at_most_255_bytes)
{
    for (int bytes = 255; bytes < 257; bytes++) {
        char text[700], label[300];
        struct labelled data;
        struct err err;
        snprintf(label, sizeof label, "%0*d", bytes, 7);
        size_t n = (size_t)snprintf(text, sizeof text, "text,label\na,x\nb,%s\n", label);
        if (bytes == 256)
            expect_refused("a.csv", text, n, NULL, "line 3: the label is longer than 255 bytes",
                           "the column");
        else if (read_text("a.csv", text, n, NULL, &data, &err))
            fail_msg("%s", err.text);
        else
            assert_string_equal(data.names[0], label), labelled_release(&data);
    }
}

TEST_CASE(more_labels_than_a_classifier_has_are_refused)
{
    char *text = malloc(200000);
    size_t used = (size_t)snprintf(text, 200000, "text,label\n");
    for (int i = 0; i < 5000; i++) used += (size_t)snprintf(text + used, 200000 - used, "t,id %d\n", i);
    expect_refused("a.csv", text, used, NULL, "line 4098", "more than 4096 labels");
    free(text);
}

TEST_CASE(the_split_keeps_a_share_of_every_label)
{
    char text[4000] = "text,label\n";
    struct labelled data;
    struct err err;
    int held[3] = {0};
    size_t used = strlen(text);
    for (int i = 0; i < 100; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "t%d,%s\n", i,
                                 i % 50 == 7 ? "rare"
                                 : i % 4     ? "many"
                                             : "some");
    if (read_text("a.csv", text, used, NULL, &data, &err)) fail_msg("%s", err.text);
    assert_int_equal(data.example_count, 100);
    for (size_t i = data.training; i < data.example_count; i++) held[data.examples[i].label]++;
    assert_int_equal(held[0], 18); /* a quarter of 73 */
    assert_int_equal(held[1], 1);  /* of 2 */
    assert_int_equal(held[2], 6);  /* of 25 */
    labelled_release(&data);
}

TEST_CASE(nothing_is_held_out_where_no_share_is_asked_for)
{
    static const char text[] = "text,label\na,x\nb,x\nc,y\nd,y\n";
    struct labelled data;
    struct err err;
    held_out = 0;
    if (read_text("a.csv", text, sizeof text - 1, NULL, &data, &err)) fail_msg("%s", err.text);
    held_out = 0.25;
    assert_int_equal(data.example_count, 4);
    assert_int_equal(data.training, 4);
    labelled_release(&data);
}

TEST_CASE(a_label_keeps_a_text_to_train_on)
{
    static const char text[] = "text,label\na,x\nb,y\nc,y\nd,z\ne,z\nf,z\n";
    struct labelled data;
    struct err err;
    held_out = 0.9;
    if (read_text("a.csv", text, sizeof text - 1, NULL, &data, &err)) fail_msg("%s", err.text);
    held_out = 0.25;
    bool taught[3] = {false};
    for (size_t i = 0; i < data.training; i++) taught[data.examples[i].label] = true;
    assert_true(taught[0] && taught[1] && taught[2]);
    assert_int_equal(data.training, 3);
    labelled_release(&data);
}

TEST_CASE(what_is_noteworthy_is_counted)
{
    static const char text[] =
        "text,label\nsame,x\nother,y\nsame,y\n,none\nsame,x\na text of more than sixteen bytes,x\n"
        "b,y\nc\xf1,x\nd\xf1,x\nof sixteen bytes,y\n";
    struct labelled data;
    struct err err;
    if (read_text("a.csv", text, sizeof text - 1, NULL, &data, &err)) fail_msg("%s", err.text);
    assert_int_equal(data.report.rows, 10);
    assert_int_equal(data.report.conflicts, 1);
    assert_int_equal(data.report.empty, 1);
    assert_int_equal(data.report.empty_line, 5);
    assert_int_equal(data.label_count, 2); /* an empty text makes no class */
    assert_int_equal(data.report.truncated, 1);
    assert_int_equal(data.report.foreign, 2);
    assert_int_equal(data.report.foreign_line, 9);
    assert_int_equal(data.report.longest, 33);
    assert_int_equal(data.example_count, 9);
    labelled_release(&data);
    wish.truncate = false;
    expect_refused("a.csv", text, sizeof text - 1, NULL, "line 7", "33 tokens");
    static const char exact[] = "text,label\nof sixteen bytes,x\nb,y\n";
    if (read_text("a.csv", exact, sizeof exact - 1, NULL, &data, &err)) fail_msg("%s", err.text);
    labelled_release(&data);
    wish.truncate = true;
}

/* A run is resumed with the data that it was begun with, by any version. */
TEST_CASE(the_checksum_sees_every_text_and_label)
{
    static const char *const files[] = {
        "text,label\na,x\nb,y\nc,x\nd,y\n",      "text,label\na,x\nb,z\nc,x\nd,z\n",
        "text,label\na,w\nb,y\nc,w\nd,y\n",      "text,label\na,x\nb,y\nc,y\nd,y\n",
        "text,label\na,x\nb,y\nc,x\ne,y\n",      "text,label\nb,x\nb,y\nc,x\nd,y\n",
        "text,label\na,x\nb,y\ncd,x\n,y\ne,y\n",
    };
    uint64_t sums[7];
    for (int i = 0; i < 7; i++) {
        struct labelled data;
        struct err err;
        if (read_text("a.csv", files[i], strlen(files[i]), NULL, &data, &err)) fail_msg("%s", err.text);
        sums[i] = data.checksum;
        for (int k = 0; k < i; k++)
            if (sums[k] == sums[i]) fail_msg("%s and %s", files[k], files[i]);
        labelled_release(&data);
    }
    if (sums[0] != 0xd6bfbc7159bbb0a0) fail_msg("0x%016" PRIx64, sums[0]);
}

TEST_CASE(a_text_with_two_labels_is_one_conflict_wherever_its_rows_are)
{
    char text[2000] = "text,label\n";
    struct labelled data;
    struct err err;
    size_t used = strlen(text);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 20; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "t%d,%s\n", i,
                                     round == 1 && i % 2 ? "x" : "y");
    if (read_text("a.csv", text, used, NULL, &data, &err)) fail_msg("%s", err.text);
    assert_int_equal(data.report.conflicts, 10);
    labelled_release(&data);
}

/* <s> and </s>, which this tokenizer puts around a text, stay, as with transformers' truncation. */
TEST_CASE(a_text_that_is_cut_keeps_the_tokens_around_it)
{
    struct token_list whole = {0}, cut = {0};
    struct tokenizer *tokenizer;
    struct err err;
    enum { MOST = 5 };
    const char *text = "A text of more than five tokens.";
    if (tokenizer_open("tests/fixtures/tokenizer/partial_style.json", &tokenizer, &err))
        fail_msg("%s", err.text);
    if (tokenizer_encode_prompt(tokenizer, text, strlen(text), &whole, &err)) fail_msg("%s", err.text);
    if (token_list_append(&cut, whole.ids, whole.count, &err)) fail_msg("%s", err.text);
    assert_true(whole.count > MOST && whole.ids[0] == 1 && whole.ids[whole.count - 1] == 2);
    assert_int_equal(tokenizer_cut_prompt(tokenizer, cut.ids, cut.count, cut.count), cut.count);
    assert_memory_equal(cut.ids, whole.ids, whole.count * sizeof *whole.ids);
    assert_int_equal(tokenizer_cut_prompt(tokenizer, cut.ids, cut.count, MOST), MOST);
    assert_memory_equal(cut.ids, whole.ids, (MOST - 1) * sizeof *whole.ids);
    assert_int_equal(cut.ids[MOST - 1], 2);
    struct labelled data; /* and so in a file of labelled texts */
    char *path = rig_path("cut.csv");
    const char *rows = "text,label\nA text of more than five tokens.,x\nb,y\n";
    rig_write(path, rows, strlen(rows));
    struct labelled_wish short_ones = wish;
    short_ones.tokenizer = tokenizer, short_ones.longest = MOST;
    if (labelled_open(&data, path, &short_ones, &err)) fail_msg("%s", err.text);
    assert_int_equal(data.examples[0].count, MOST);
    assert_memory_equal(data.ids.ids + data.examples[0].first, cut.ids, MOST * sizeof *cut.ids);
    labelled_release(&data);
    token_list_release(&whole);
    token_list_release(&cut);
    tokenizer_close(tokenizer);
    free(path);
}

TEST_CASE(a_text_of_which_the_tokenizer_leaves_nothing_is_empty)
{
    json_t *document = json_load_file("tests/fixtures/tokenizer/ours.json", 0, NULL);
    const char *rows = "text,label\na,x\n--,z\nb,y\n";
    char *path = rig_path("nothing.csv");
    struct labelled data;
    struct labelled_wish own = wish;
    struct tokenizer *tokenizer;
    struct err err;
    json_object_set_new(
        document, "normalizer",
        json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", "-", "content", ""));
    char *text = json_dumps(document, 0);
    if (tokenizer_parse_json(text, strlen(text), "t.json", &tokenizer, &err)) fail_msg("%s", err.text);
    own.tokenizer = tokenizer;
    rig_write(path, rows, strlen(rows));
    if (labelled_open(&data, path, &own, &err)) fail_msg("%s", err.text);
    assert_int_equal(data.report.empty, 1);
    assert_int_equal(data.report.empty_line, 3);
    assert_int_equal(data.example_count, 2);
    assert_int_equal(data.label_count, 2);
    labelled_release(&data);
    tokenizer_close(tokenizer);
    json_decref(document);
    free(text);
    free(path);
}

/* Number of tokens of a text. */
static size_t count_tokens(const struct tokenizer *tokenizer, const char *text)
{
    struct token_list list = {0};
    struct err err = {0};
    if (tokenizer_encode(tokenizer, text, strlen(text), &list, &err)) fail_msg("%s", err.text);
    size_t count = list.count;
    token_list_release(&list);
    return count;
}

TEST_CASE(a_tokenizer_is_learned_from_the_texts_of_all_files_and_from_nothing_else)
{
    static const char *const rows[] = {"label,text\nyyyyyyyy,abababab\nyyyyyyyy,abab\n",
                                       "{\"label\": \"yyyyyyyy\", \"text\": \"cdcdcdcd\"}\n"};
    char *paths[2] = {rig_path("one.csv"), rig_path("two.jsonl")}, value[600];
    struct corpus corpus = {0};
    struct err err = {0};
    for (int i = 0; i < 2; i++) rig_write(paths[i], rows[i], strlen(rows[i]));
    snprintf(value, sizeof value, "%s, %s", paths[0], paths[1]);
    if (labelled_tokenizer(value, "text", "bpe:260", NULL, &corpus, &err)) fail_msg("%s", err.text);
    assert_true(corpus.learned);
    assert_int_equal(corpus.vocab_size, 260);
    assert_string_equal(corpus.tokenizer_word, "");
    assert_int_equal(count_tokens(corpus.tokenizer, "abababab"), 2);
    assert_int_equal(count_tokens(corpus.tokenizer, "cdcdcdcd"), 2);
    assert_int_equal(count_tokens(corpus.tokenizer, "yyyyyyyy"), 8);
    tokenizer_close(corpus.tokenizer);
    if (labelled_tokenizer(value, "text", "bytes", NULL, &corpus, &err)) fail_msg("%s", err.text);
    assert_false(corpus.learned);
    assert_string_equal(corpus.tokenizer_word, "bytes");
    tokenizer_close(corpus.tokenizer);
    char weighted[700], missing[600];
    snprintf(weighted, sizeof weighted, "%s : 2, %s : 1", paths[0], paths[1]);
    snprintf(missing, sizeof missing, "%s.gone", paths[0]);
    const struct {
        const char *value, *column, *word, *words;
    } refused[] = {
        {value, "text", "bpe:3", "a vocabulary of 3 tokens"},
        {missing, "text", "bpe:260", ".gone"},
        {weighted, "text", "bpe:260", "data.format = labels"},
        {value, "body", "bpe:260", "one.csv: line 1 has no \"body\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct corpus none = {0};
        assert_int_not_equal(
            labelled_tokenizer(refused[i].value, refused[i].column, refused[i].word, NULL, &none, &err), 0);
        if (!strstr(err.text, refused[i].words)) fail_msg("%s: %s", refused[i].words, err.text);
        assert_null(none.tokenizer);
    }
    free(paths[0]);
    free(paths[1]);
}

/* Whatever bytes: a status, never a crash. */
TEST_CASE(random_files_end_in_a_status)
{
    static const char pieces[] = "{}[]\":,\n\r\t textlabel\\0019\xC3\xFF";
    for (uint64_t seed = 0; seed < 500; seed++) {
        char text[200];
        size_t n = (size_t)(rig_uniform(seed, 0) * sizeof text);
        struct labelled data;
        struct err err;
        for (size_t i = 0; i < n; i++)
            text[i] = pieces[(size_t)(rig_uniform(seed, i + 1) * (sizeof pieces - 1))];
        static const char head[] = "text,label\n";
        if (seed % 2 && n > sizeof head) memcpy(text, head, sizeof head - 1);
        read_text(seed % 3 ? "r.csv" : "r.jsonl", text, n, NULL, &data, &err);
        labelled_release(&data);
    }
}

static bool stop_at(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    int *left = context;
    assert_string_equal(what, "reading texts");
    assert_string_equal(unit, "bytes");
    assert_true(done <= total);
    return (*left)-- > 0;
}

/* At its first report and at its last one. */
TEST_CASE(reading_stops_when_it_is_asked_to)
{
    for (int reports = 0, left = 0;; left = ++reports) {
        struct labelled data;
        struct err err;
        const char *text = "text,label\na,x\nb,y\nc,x\nd,y\n";
        struct progress progress = {.report = stop_at, .context = &left};
        wish.progress = &progress;
        enum status status = read_text("stops.csv", text, strlen(text), NULL, &data, &err);
        wish.progress = NULL;
        labelled_release(&data);
        if (left >= 0) { /* it has not been asked */
            assert_int_equal(status, STATUS_OK);
            assert_true(reports >= 2);
            return;
        }
        assert_int_equal(left, -1);
        assert_int_equal(status, STATUS_INTERRUPTED);
    }
}

TEST_MAIN()
