/* Texts as people have them: compressed, and as JSONL. */
#include <jansson.h>
#include <limits.h>
#include <zlib.h>
#include <zstd.h>

#include "core/base/file.h"
#include "datasets/bpe.h"
#include "datasets/chat_template.h"
#include "datasets/corpus.h"
#include "datasets/labelled_file.h"
#include "datasets/preparation.h"
#include "datasets/text_pieces.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define SAMPLE TOKENIZER_FIXTURES "sample.txt"

/* ---- compressing ---- */

/* Appends one member to `out`. */
static void add_gzip(FILE *out, const char *text, size_t n)
{
    z_stream stream = {0};
    size_t capacity = n + n / 100 + 1000;
    unsigned char *made = malloc(capacity);
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (unsigned char *)(uintptr_t)text;
    stream.avail_in = (unsigned)n;
    stream.next_out = made;
    stream.avail_out = (unsigned)capacity;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    fwrite(made, 1, stream.total_out, out);
    deflateEnd(&stream);
    free(made);
}

static void add_zstd(FILE *out, const char *text, size_t n)
{
    size_t capacity = ZSTD_compressBound(n);
    char *made = malloc(capacity);
    size_t size = ZSTD_compress(made, capacity, text, n, 3);
    assert_false(ZSTD_isError(size));
    fwrite(made, 1, size, out);
    free(made);
}

/* Writes a text as its name says, compressed in `parts` members or frames. */
static const char *write_text(const char *name, const char *text, size_t n, int parts)
{
    const char *path = scratch_path(name), *dot = strrchr(name, '.');
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (int i = 0; i < parts; i++) {
        size_t from = n * (size_t)i / (size_t)parts, to = n * (size_t)(i + 1) / (size_t)parts;
        if (strcmp(dot, ".gz") == 0)
            add_gzip(out, text + from, to - from);
        else if (strcmp(dot, ".zst") == 0)
            add_zstd(out, text + from, to - from);
        else
            fwrite(text + from, 1, to - from, out);
    }
    assert_int_equal(fclose(out), 0);
    return path;
}

static const char *write_lines(const char *name, const char *text)
{
    return write_text(name, text, strlen(text), 1);
}

/* ---- preparing ---- */

/* The token file of a text; the caller frees it. */
static char *prepare(const char *input, const char *tokenizer, const struct text_reading *reading,
                     struct corpus_summary *summary, size_t *n)
{
    const char *path = scratch_path("prepared.tok");
    struct err err = {0};
    assert_ok(corpus_prepare(&input, 1, tokenizer, reading, NULL, path, NULL, summary, &err), &err);
    return scratch_read(path, n);
}

static void assert_refused(const char *input, const char *words)
{
    const char *path = scratch_path("refused.tok");
    struct corpus_summary summary;
    struct err err = {0};
    enum status status = corpus_prepare(&input, 1, "bpe:300", NULL, NULL, path, NULL, &summary, &err);
    if (!status || !strstr(err.text, words) || !strstr(err.text, input))
        fail_msg("%s: status %d, or not \"%s\": %s", input, status, words, err.text);
    assert_false(file_exists(path));
}

/* The sample so often that a compressed one has several pieces. */
static char *long_text(size_t *n)
{
    size_t one;
    char *sample = scratch_read(SAMPLE, &one);
    size_t times = (TEXT_PIECE + TEXT_PIECE / 4) / one + 1;
    char *text = malloc(times * one);
    for (size_t i = 0; i < times; i++) memcpy(text + i * one, sample, one);
    free(sample);
    *n = times * one;
    return text;
}

TEST_CASE(a_compressed_text_has_the_tokens_of_the_text_in_it)
{
    static const char *const tokenizers[] = {"bytes", "bpe:300", TOKENIZER_FIXTURES "mistral_style.json"},
                             *const names[] = {"long.txt.gz", "long.txt.zst", "long.zst"};
    size_t n, count, again;
    char *text = long_text(&n);
    for (int t = 0; t < 3; t++) {
        struct corpus_summary plain, packed;
        char *tokens = prepare(write_text("long.txt", text, n, 1), tokenizers[t], NULL, &plain, &count);
        for (int i = 0; i < 3; i++) {
            char *same =
                prepare(write_text(names[i], text, n, 1 + 2 * i), tokenizers[t], NULL, &packed, &again);
            assert_int_equal(again, count);
            assert_memory_equal(same, tokens, n);
            assert_int_equal(packed.text_bytes, n);
            free(same);
        }
        free(tokens);
    }
    free(text);
}

TEST_CASE(a_byte_order_mark_is_no_part_of_a_text)
{
    static const char *const names[] = {"marked.txt", "marked.txt.gz", "marked.txt.zst"};
    static const char text[] = "\xEF\xBB\xBFIn the \xEF\xBB\xBF beginning";
    for (int i = 0; i < 3; i++) {
        struct corpus_summary summary;
        size_t n;
        char *tokens = prepare(write_lines(names[i], text), "bytes", NULL, &summary, &n);
        assert_int_equal(summary.text_bytes, sizeof text - 1 - 3);
        assert_int_equal(summary.tokens, sizeof text - 1 - 3);
        for (size_t k = 0; k < summary.tokens; k++)
            assert_int_equal((unsigned char)tokens[8 + 4 * k], (unsigned char)text[3 + k]);
        free(tokens);
    }
    assert_refused(write_lines("mark.txt", "\xEF\xBB\xBF"), "is empty");
}

/* An old entry of the cache, with the mark as tokens, is not used. */
TEST_CASE(texts_that_differ_in_a_byte_order_mark_alone_are_encoded_once)
{
    const char *path = write_lines("same.txt", "\xEF\xBB\xBFone"), *cache = scratch_path("cache_marks");
    struct corpus corpus;
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        assert_ok(corpus_open(path, "bytes", NULL, cache, NULL, &corpus, &err), &err);
        assert_int_equal(corpus.tokens, 3);
        corpus_close(&corpus);
        assert_int_equal(scratch_entries(cache), 1);
        write_lines("same.txt", "one");
    }
}

TEST_CASE(a_token_file_is_not_encoded_as_a_text)
{
    struct corpus_summary summary;
    size_t n;
    free(prepare(write_lines("text.txt", "some text"), "bytes", NULL, &summary, &n));
    assert_refused(scratch_path("prepared.tok"), "prepared.tok: is a token file, not a text");
    free(prepare(write_lines("text.bin", "some text"), "bytes", NULL, &summary, &n)); /* its name alone */
}

struct survey {
    uint64_t bytes, largest, pieces;
};

static enum status look(void *context, const struct text_piece *piece, struct err *err)
{
    struct survey *s = context;
    (void)err;
    assert_true(piece->before <= piece->after && piece->after <= piece->total);
    s->bytes += piece->n;
    s->pieces++;
    if (piece->n > s->largest) s->largest = piece->n;
    return STATUS_OK;
}

static struct survey survey(const char *path, enum status wanted, const char *words)
{
    struct survey s = {0};
    struct inputs texts = {.paths = (char *[]){(char *)(uintptr_t)path}, .count = 1};
    struct err err = {0};
    enum status status = text_pieces_each(&texts, 0, 1, NULL, false, look, &s, &err);
    if (status != wanted || !strstr(err.text, words)) fail_msg("status %d: %s", status, err.text);
    return s;
}

/* Looks at whole lines of conversations, and stops at piece `stop`. */
struct lines {
    uint64_t lines, pieces, stop;
};

static enum status count_lines(void *context, const struct text_piece *piece, struct err *err)
{
    struct lines *seen = context;
    assert_int_equal(piece->line, seen->lines);
    for (size_t i = 0; i < piece->n; i++) seen->lines += piece->text[i] == '\n';
    if (!piece->ends) assert_int_equal(piece->text[piece->n - 1], '\n');
    return ++seen->pieces == seen->stop ? err_set(err, STATUS_INTERRUPTED, "enough") : STATUS_OK;
}

TEST_CASE(conversations_are_cut_between_lines_and_numbered)
{
    static const char line[] = "{\"prompt\": \"of a compressed file\", \"completion\": \"x\"} \n";
    size_t n = sizeof line - 1, count = 2 * (size_t)TEXT_PIECE / n;
    char *text = malloc(count * n);
    for (size_t i = 0; i < count; i++) memcpy(text + i * n, line, n);
    const char *path = write_text("turns.jsonl.gz", text, count * n - 1, 1);
    struct chat_format format = {0}; /* pieces do not read it */
    struct text_reading reading = {.conversations = &format};
    struct inputs texts = {.paths = (char *[]){(char *)(uintptr_t)path}, .count = 1};
    struct lines seen = {0};
    struct err err = {0};
    for (int whole = 0; whole < 2; whole++) { /* whatever the tokenizer needs */
        seen = (struct lines){0};
        assert_ok(text_pieces_each(&texts, 0, 1, &reading, whole, count_lines, &seen, &err), &err);
        assert_int_equal(seen.lines, count - 1);
        assert_in_range(seen.pieces, 2, 3);
    }
    free(text);
}

TEST_CASE(files_without_text_are_refused)
{
    char *paths[] = {(char *)(uintptr_t)write_lines("hollow.txt", ""),
                     (char *)(uintptr_t)write_lines("hollow.jsonl", "\n")};
    for (size_t count = 1; count < 3; count++) {
        struct survey s = {0};
        struct inputs texts = {.paths = paths, .count = count};
        struct err err = {0};
        assert_int_equal(text_pieces_each(&texts, 0, count, NULL, false, look, &s, &err), STATUS_FAILED);
        assert_string_equal(strstr(err.text, "hollow.txt"),
                            count == 1 ? "hollow.txt: is empty"
                                       : "hollow.txt: is empty, as the other files are");
    }
}

static enum status stop(void *context, const struct text_piece *piece, struct err *err)
{
    struct lines *seen = context;
    (void)piece;
    return ++seen->pieces == seen->stop ? err_set(err, STATUS_INTERRUPTED, "enough") : STATUS_OK;
}

TEST_CASE(reading_ends_where_the_reader_has_enough)
{
    static const char *const names[] = {"four.jsonl", "four.jsonl.gz", "a.txt"};
    for (int i = 0; i < 3; i++) {
        const char *path = write_lines(names[i], "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"
                                                 "{\"text\": \"c\"}\n{\"text\": \"d\"}\n");
        char *paths[] = {(char *)(uintptr_t)path, (char *)(uintptr_t)path};
        struct inputs texts = {.paths = paths, .count = 2};
        struct lines seen = {.stop = i < 2 ? 3 : 1};
        struct err err = {0};
        assert_int_equal(text_pieces_each(&texts, 0, 2, NULL, false, stop, &seen, &err), STATUS_INTERRUPTED);
        assert_int_equal(seen.pieces, seen.stop);
    }
}

TEST_CASE(a_text_that_must_stay_whole_is_one_piece)
{
    size_t n;
    char *text = long_text(&n);
    const char *path = write_text("whole.txt.zst", text, n, 1);
    struct inputs texts = {.paths = (char *[]){(char *)(uintptr_t)path}, .count = 1};
    for (int whole = 0; whole < 2; whole++) {
        struct survey s = {0};
        struct err err = {0};
        assert_ok(text_pieces_each(&texts, 0, 1, NULL, whole, look, &s, &err), &err);
        assert_int_equal(s.bytes, n);
        assert_int_equal(s.pieces, whole ? 1 : 2);
    }
    free(text);
}

TEST_CASE(pieces_stay_small_whatever_a_file_expands_to)
{
    enum { LINES = 20000000 };
    char *text = malloc(2 * (size_t)LINES);
    for (size_t i = 0; i < LINES; i++) memcpy(text + 2 * i, "a\n", 2);
    const char *lines = write_text("lines.txt.gz", text, 2 * (size_t)LINES, 1);
    memset(text, 'a', 2 * (size_t)LINES);
    const char *line = scratch_path("line.txt.zst");
    FILE *out = fopen(line, "w");
    assert_non_null(out);
    for (int i = 0; i < 7; i++) add_zstd(out, text, 2 * (size_t)LINES);
    assert_int_equal(fclose(out), 0);
    free(text);
    struct survey s = survey(lines, STATUS_OK, "");
    assert_int_equal(s.bytes, 2 * (uint64_t)LINES);
    assert_true(s.largest <= TEXT_PIECE);
    assert_int_equal(
        survey(line, STATUS_CORRUPT, "holds 256 MiB of text without a line end where it may be cut").pieces,
        0);
    const char *documents = scratch_path("line.jsonl.zst");
    assert_int_equal(rename(line, documents), 0);
    survey(documents, STATUS_CORRUPT, "line.jsonl.zst: line 1: is longer than 256 MiB");
}

/* ---- JSONL ---- */

#define LINES                                                                                                \
    "{\"text\": \"one two\", \"id\": 1}\n\n"                                                                 \
    "{\"id\": 2, \"text\": \"\"}\n"                                                                          \
    "{\"text\": \"three\\nlines \\u0000 \\u00e9\\n\", \"body\": \"other\"}"

TEST_CASE(lines_of_jsonl_are_documents_that_end_with_a_token)
{
    static const char *const names[] = {"docs.jsonl", "docs.jsonl.gz", "docs.jsonl.zst"};
    for (int i = 0; i < 3; i++) {
        const char *path = write_lines(names[i], LINES);
        struct corpus corpus;
        struct err err = {0};
        assert_ok(corpus_open(path, "bpe:300", NULL, scratch_path("cache_lines"), NULL, &corpus, &err), &err);
        int64_t end = tokenizer_end(corpus.tokenizer);
        size_t n;
        assert_int_equal(end, corpus.vocab_size - 1);
        assert_true(tokenizer_is_special(corpus.tokenizer, (uint32_t)end));
        char *text = tokenizer_decode(corpus.tokenizer, corpus.files[0].tokens, corpus.tokens, &n);
        static const char wanted[] = "one two<|endoftext|>three\nlines \0 \u00e9\n<|endoftext|>";
        assert_int_equal(n, sizeof wanted - 1);
        assert_memory_equal(text, wanted, n);
        assert_int_equal(token_file_id(&corpus.files[0], corpus.tokens - 1), end);
        for (uint64_t k = 0; k < corpus.tokens; k++)
            n -= tokenizer_text_bytes(corpus.tokenizer, token_file_id(&corpus.files[0], k));
        assert_int_equal(n, 2 * strlen(TOKENIZER_END)); /* which are no text */
        free(text);
        corpus_close(&corpus);
    }
}

TEST_CASE(a_learned_end_is_read_again_as_it_was)
{
    const char *path = write_lines("docs.jsonl", LINES), *made = scratch_path("ends.json");
    struct tokenizer *learned, *read;
    struct err err = {0};
    assert_ok(corpus_train_tokenizer(&path, 1, 262, NULL, NULL, made, NULL, &learned, &err), &err);
    assert_int_equal(tokenizer_vocab_size(learned), 262);
    assert_ok(tokenizer_save_json(learned, made, &err), &err);
    assert_ok(tokenizer_open_json(made, &read, &err), &err);
    assert_int_equal(tokenizer_checksum(read), tokenizer_checksum(learned));
    assert_int_equal(tokenizer_end(read), 261);
    struct token_list list = {0};
    assert_ok(tokenizer_encode(read, "a<|endoftext|>", 14, &list, &err), &err);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.ids[1], 261);
    token_list_release(&list);
    tokenizer_close(read);
    tokenizer_close(learned);
}

/* As that of GPT-NeoX and others. */
TEST_CASE(the_token_that_ends_a_document_may_have_the_id_0)
{
    json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL), *id;
    json_t *vocab = json_object_get(json_object_get(document, "model"), "vocab");
    const char *tokenizer = scratch_path("end_0.json"), *token;
    json_object_foreach(vocab, token, id) json_integer_set(id, json_integer_value(id) + 1);
    json_object_set_new(vocab, TOKENIZER_END, json_integer(0));
    json_object_set_new(document, "added_tokens",
                        json_pack("[{s:i, s:s, s:b}]", "id", 0, "content", TOKENIZER_END, "special", 1));
    assert_int_equal(json_dump_file(document, tokenizer, 0), 0);
    json_decref(document);
    static const char *const texts[][2] = {{"zero.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"},
                                           {"zero.txt", "ab"}};
    static const struct text_reading ends = {.ends = true};
    for (int i = 0; i < 2; i++) {
        struct corpus_summary summary;
        size_t n;
        char *tokens =
            prepare(write_lines(texts[i][0], texts[i][1]), tokenizer, i ? &ends : NULL, &summary, &n);
        assert_int_equal(summary.tokens, i ? 3 : 4);
        for (uint64_t k = 1; k < summary.tokens; k++) {
            uint32_t value;
            memcpy(&value, tokens + 8 + 4 * k, sizeof value);
            assert_int_equal(value == 0, i ? k == 2 : k % 2);
        }
        free(tokens);
    }
}

TEST_CASE(without_such_a_token_a_line_ends_with_a_line_feed)
{
    struct corpus_summary summary;
    size_t n;
    char *tokens = prepare(write_lines("docs.jsonl", LINES), "bytes", NULL, &summary, &n);
    static const char wanted[] = "one two\nthree\nlines \0 \u00e9\n";
    assert_int_equal(n, 8 + 4 * (sizeof wanted - 1));
    for (size_t i = 0; i + 1 < sizeof wanted; i++)
        assert_int_equal(((const unsigned char *)tokens)[8 + 4 * i], (unsigned char)wanted[i]);
    free(tokens);
}

TEST_CASE(text_files_end_with_the_token_where_that_is_asked_for)
{
    const char *path = write_lines("plain.txt", "some text"), *refused = scratch_path("refused.tok");
    struct text_reading ends = {.ends = true};
    struct corpus_summary summary;
    struct err err = {0};
    size_t with, without;
    free(prepare(path, "bpe:258", NULL, &summary, &without));
    free(prepare(path, "bpe:259", &ends, &summary, &with)); /* the same merges, and the token */
    assert_int_equal(with, without + 4);
    assert_int_equal(corpus_prepare(&path, 1, "bytes", &ends, NULL, refused, NULL, &summary, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "no token that ends a document"));
    assert_false(file_exists(refused));
    static const char line[] = "abcdefghijklmnopqrstuvwxyz\n", end[] = TOKENIZER_END;
    without =
        (TEXT_PIECE / 26) * (sizeof line - 1); /* two pieces, of which only the last one ends the text */
    char *text = malloc(without);
    for (size_t i = 0; i < without; i++) text[i] = line[i % (sizeof line - 1)];
    struct corpus corpus;
    assert_ok(corpus_open(write_text("lines.txt.gz", text, without, 1), "bpe:300", &ends,
                          scratch_path("cache_long"), NULL, &corpus, &err),
              &err);
    char *decoded = tokenizer_decode(corpus.tokenizer, corpus.files[0].tokens, corpus.tokens, &with);
    assert_int_equal(with, without + strlen(end));
    assert_memory_equal(decoded, text, without);
    assert_memory_equal(decoded + without, end, strlen(end));
    corpus_close(&corpus);
    free(decoded);
    free(text);
}

TEST_CASE(the_key_of_the_text_can_be_named)
{
    const char *path = write_lines("bodies.jsonl.gz", "{\"body\": \"abc\", \"text\": 3}\n"),
               *cache = scratch_path("cache_keys");
    static const char *const keys[] = {"body", "body", "text"};
    for (int i = 0; i < 3; i++) {
        struct text_reading reading = {.text_key = keys[i]};
        struct corpus corpus = {0};
        struct err err = {0};
        enum status status = corpus_open(path, "bytes", &reading, cache, NULL, &corpus, &err);
        assert_int_equal(status, i < 2 ? STATUS_OK : STATUS_CORRUPT);
        if (!status) assert_int_equal(corpus.tokens, 4);
        corpus_close(&corpus);
        assert_int_equal(scratch_entries(cache), 1);
    }
}

/* ---- what cannot be read ---- */

TEST_CASE(lines_that_are_no_documents_are_refused_by_their_number)
{
    static const struct {
        const char *lines, *words;
    } cases[] = {
        {"{\"text\": \"a\"}\n{\"text\": \"b\"", "is the line cut off?"},
        {"{\"text\": \"a\"}\n\nhello\n", "line 3 column"},
        {"{\"text\": \"a\"}\n[1]\n", "line 2: is not an object"},
        {"{\"body\": \"a\", \"id\": 1}\n",
         "line 1: has no \"text\" (set data.text_column, --text-key or --column to the "
         "key of the text; the line has \"body\", \"id\")"},
        {"{}\n", "line 1: has no \"text\""},
        {"{\"text\": \"a\"}\n{\"text\": 7}\n", "line 2: its \"text\" is not a string"},
        {"{\"text\": \"a\"}\n{\"text\": \"\xff\xfe\"}\n",
         "(JSON is UTF-8; iconv -f latin1 -t utf8 FILE converts Latin-1)"},
        {"{\"messages\": []}\n",
         "line 1: has no \"text\" but a conversation (set data.format = instructions"},
        {"{\"text\": 7, \"prompt\": \"a\"}\n", "line 1: its \"text\" is not a string"},
        {"{\"story\": \"a\", \"prompt\": \"b\"}\n", "the line has \"story\", \"prompt\")"},
        {"{\"text\": \"\\ud800\"}\n", "(half of a character: write \\ufffd instead)"},
        {"{\"text\": \"a\", \"id\": NaN}\n", "(JSON has no NaN and no Infinity: write null)"},
        {"{\"text\": \"a\", \"id\": Infinity}\n", "(JSON has no NaN and no Infinity: write null)"},
        {"{\"text\": \"a\", \"id\": -Infinity}\n", "(JSON has no NaN and no Infinity: write null)"},
        {"{\"text\": \"a\", \"id\": -x}\n", "(each line must be one JSON object"},
        {"{\"text\": \"a\", \"id\": -xxxxxxxxxxxx}\n", "(each line must be one JSON object"},
        {"{\"text\": \"a\", \"text\": \"b\"}\n", "(an object has each key once)"},
        {"\xff\xfe{", "(JSON is UTF-8; iconv -f UTF-16 -t UTF-8 FILE converts UTF-16)"},
        {"\xfe\xff{", "(JSON is UTF-8; iconv -f UTF-16 -t UTF-8 FILE converts UTF-16)"},
        {"\n\n", "is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(write_lines("bad.jsonl", cases[i].lines), cases[i].words);
        assert_refused(write_lines("bad.jsonl.zst", cases[i].lines), cases[i].words);
    }
}

TEST_CASE(lines_are_numbered_through_all_pieces_of_a_file)
{
    enum { COUNT = 200000 };
    static const char line[] = "{\"text\": \"the same text in every line of the file\"}\n";
    size_t n = sizeof line - 1;
    char *text = malloc(COUNT * n + 2);
    for (size_t i = 0; i < COUNT; i++) memcpy(text + i * n, line, n);
    memcpy(text + COUNT * n, "{", 1);
    assert_refused(write_text("many.jsonl.gz", text, COUNT * n + 1, 3), "line 200001 column");
    free(text);
}

TEST_CASE(the_name_says_what_has_lines_and_what_is_not_read)
{
    static const struct text_reading reading;
    static const struct {
        const char *name;
        bool lines;
    } names[] = {{"a.jsonl", true},    {"a.JSONL.GZ", true},    {"a.ndjson", true}, {"a.ndjson.zst", true},
                 {"c4.json.gz", true}, {"package.json", false}, {"jsonl", false},   {"a.jsonl.txt", false},
                 {"a.txt.gz", false},  {"a.json.old", false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_pieces_are_lines(names[i].name, &reading) != names[i].lines) fail_msg("%s", names[i].name);
    static const char *const archives[][2] = {
        {"a.txt.bz2", "a.txt.bz2: .bz2 files are not read, of compressed ones only .gz and .zst (unpack it)"},
        {"a.TAR.GZ", "a.TAR.GZ: .tar.gz files are not read"},
        {"a.tar.zst", "a.tar.zst: .tar.zst files are not read"},
        {"a.tgz", "a.tgz: .tgz files are not read"},
        {"a.zip", "a.zip: .zip files are not read"},
        {"pages.parquet", "pages.parquet: Parquet is not read (convert it, in Python: "}};
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        struct inputs inputs;
        struct err err = {0};
        const char *path = scratch_path(archives[i][0]);
        scratch_write(path, "PAR1", 4);
        assert_int_equal(inputs_open(path, NULL, NULL, &inputs, &err), STATUS_USAGE);
        if (!strstr(err.text, archives[i][1])) fail_msg("%s", err.text);
    }
}

TEST_CASE(damaged_files_are_refused)
{
    size_t n, m;
    char *text = long_text(&n);
    static const char *const names[] = {"whole.txt.gz", "whole.txt.zst"};
    for (int i = 0; i < 2; i++) {
        char *packed = scratch_read(write_text(names[i], text, n / 8, 1), &m);
        const char *path = scratch_path(i ? "bad.txt.zst" : "bad.txt.gz");
        static const size_t kept[] = {0, 3, 1000};
        for (int k = 0; k < 4; k++) {
            scratch_write(path, packed, k < 3 ? kept[k] : m - 1);
            assert_refused(path, "is cut off: its compressed data end in the middle");
        }
        scratch_write(path, "this is a text, not what the name says", 38);
        assert_refused(path, " of 38: "); /* bytes */
        memset(packed + m / 2, 0xA5, 200);
        scratch_write(path, packed, m);
        assert_refused(path, "cannot be decompressed after byte");
        free(packed);
    }
    free(text);
}

static enum status no_row(void *context, const struct labelled_row *row, struct err *err)
{
    (void)context, (void)row;
    return err_set(err, STATUS_FAILED, "a row");
}

TEST_CASE(labelled_texts_must_not_be_compressed)
{
    const char *path = write_lines("mails.csv.gz", "text,label\nhello,ham\n");
    struct err err = {0};
    assert_int_equal(labelled_file_each(path, "text", "label", no_row, NULL, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "mails.csv.gz: is compressed"));
}

TEST_CASE(compressed_files_that_hold_no_text_are_skipped_in_a_folder)
{
    const char *folder = scratch_path("archive");
    struct inputs inputs;
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    write_text("archive/a.txt.gz", "some text", 9, 1);
    write_text("archive/b.tar.gz", "name\0\0\0\0", 8, 1);
    assert_ok(inputs_open(folder, NULL, NULL, &inputs, &err), &err);
    assert_int_equal(inputs.count, 1);
    assert_int_equal(inputs.skipped, 1);
    assert_non_null(strstr(inputs.first_skipped, "b.tar.gz"));
    inputs_close(&inputs);
}

TEST_MAIN()
