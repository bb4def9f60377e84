/* Working on the parts of texts in several threads gives what one thread gives. */
#include <jansson.h>
#include <stdatomic.h>
#include <utf8proc.h>

#include "core/base/file.h"
#include "datasets/bpe.h"
#include "datasets/crew.h"
#include "datasets/preparation.h"
#include "datasets/pretokenizer.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

/* ---- the crew ---- */

struct work {
    atomic_int threads[CREW_THREADS_MAX]; /* parts of each */
    int taken;
    uint64_t done, fails_at; /* bytes */
    bool unwilling;
};

static enum status remember(void *context, int thread, const struct crew_part *part, void **result,
                            struct err *err)
{
    struct work *work = context;
    assert_in_range(thread, 0, CREW_THREADS_MAX - 1);
    if (!*result) *result = malloc(sizeof(uint64_t));
    assert_non_null(*result);
    *(uint64_t *)*result = part->done;
    atomic_fetch_add(&work->threads[thread], 1);
    if (work->fails_at == part->done) return err_set(err, STATUS_FAILED, "%s fails", part->path);
    return STATUS_OK;
}

static enum status check(void *context, const struct crew_part *part, void *result, struct err *err)
{
    struct work *work = context;
    assert_int_equal(*(uint64_t *)result, part->done);
    assert_int_equal(part->done, work->done + 1);
    assert_int_equal(*part->text, (char)part->done);
    work->done = part->done;
    work->taken++;
    return work->unwilling && work->taken == 10 ? err_set(err, STATUS_INTERRUPTED, "enough") : STATUS_OK;
}

static enum status give_all(struct work *work, int threads, struct err *err)
{
    struct crew *crew = NULL;
    struct crew_job job = {work, remember, check, free};
    enum status status = crew_open(&job, threads, &crew, err);
    for (uint64_t i = 1; i <= 1000 && !status; i++) {
        char text = (char)i;
        struct crew_part part = {.path = "a text", .text = &text, .n = 1, .done = i};
        status = crew_give(crew, &part, err);
    }
    if (!status) status = crew_finish(crew, err);
    crew_close(crew);
    return status;
}

TEST_CASE(results_are_taken_in_the_order_of_the_parts)
{
    for (int threads = 1; threads < 20; threads += 3) {
        struct work work = {0};
        struct err err = {0};
        assert_ok(give_all(&work, threads, &err), &err);
        assert_int_equal(work.taken, 1000);
    }
}

TEST_CASE(any_number_of_threads_can_be_asked_for)
{
    static const int counts[] = {-1, 0, CREW_THREADS_MAX + 100};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct work work = {0};
        struct err err = {0};
        assert_ok(give_all(&work, counts[i], &err), &err);
        assert_int_equal(work.taken, 1000);
    }
}

TEST_CASE(the_first_part_that_fails_ends_the_work)
{
    for (int threads = 1; threads < 20; threads += 3) {
        struct work work = {.fails_at = 500};
        struct err err = {0};
        assert_int_equal(give_all(&work, threads, &err), STATUS_FAILED);
        assert_string_equal(err.text, "a text fails");
        assert_int_equal(work.taken, 499);
    }
}

TEST_CASE(taking_can_end_the_work)
{
    for (int threads = 1; threads < 20; threads += 3) {
        struct work work = {.unwilling = true};
        struct err err = {0};
        assert_int_equal(give_all(&work, threads, &err), STATUS_INTERRUPTED);
        assert_int_equal(work.taken, 10);
    }
}

/* ---- cutting ---- */

/* Characters that patterns, normal forms and added tokens treat in different ways. */
static const char *const bits[] = {"\n",
                                   "\n",
                                   "\n",
                                   "\n",
                                   "a",
                                   "B",
                                   "e\xCC\x81",
                                   "\xC3\xA9",
                                   "\xCC\x81",
                                   " ",
                                   " ",
                                   "  ",
                                   "\t",
                                   "\r",
                                   "'s",
                                   "'",
                                   "/",
                                   ".",
                                   "!!",
                                   "1",
                                   "23456",
                                   "\xC2\xA0",
                                   "_",
                                   "\xE3\x80\x80",
                                   "\xE3\x80\x82",
                                   "\xE6\x97\xA5",
                                   "\xF0\x9F\x99\x82",
                                   "\xE2\x80\xA8",
                                   "\xC2\x85",
                                   "\xE2\x80\x8B",
                                   "\xFF",
                                   "\xC3",
                                   "\xE1\xA0\x8E",
                                   "<|endoftext|>",
                                   "<|end|>",
                                   "the",
                                   "ing",
                                   "\xE2\x84\xAB",
                                   "\xC2\xA8",
                                   "0",
                                   "\xD9\xA1"};

static char *write_nasty(uint32_t *seed, int count)
{
    char *text = calloc((size_t)count, 16), *to = text;
    assert_non_null(text);
    for (int i = 0; i < count; i++) {
        *seed = *seed * 1664525 + 1013904223;
        to = stpcpy(to, bits[(*seed >> 8) % (sizeof bits / sizeof *bits)]);
    }
    return text;
}

static enum status note_end(void *context, const char *piece, size_t n, struct err *err)
{
    (void)piece;
    return token_list_append(context, &(uint32_t){(uint32_t)n}, 1, err);
}

/* The lengths of the pieces, which a vocabulary with few merges does not show. */
static void add_pieces(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_list *out)
{
    struct pretokenizer_scratch *scratch = NULL;
    struct err err = {0};
    assert_ok(pretokenizer_scratch_new(&scratch, &err), &err);
    assert_ok(
        pretokenizer_split(tokenizer_bpe(tokenizer)->pretokenizer, scratch, text, n, note_end, out, &err),
        &err);
    pretokenizer_scratch_free(scratch);
}

static void expect_same(const struct token_list *a, const struct token_list *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
}

static void expect_cuts_change_nothing(const struct tokenizer *tokenizer, const char *text, int *cuts)
{
    struct err err = {0};
    struct token_list whole = {0}, parts = {0}, pieces = {0}, apart = {0};
    size_t n = strlen(text);
    assert_ok(tokenizer_encode(tokenizer, text, n, &whole, &err), &err);
    add_pieces(tokenizer, text, n, &pieces);
    for (size_t at = 1; at < n; at++) {
        if (!crew_may_cut(text, n, at)) continue;
        ++*cuts;
        parts.count = apart.count = 0;
        assert_ok(tokenizer_encode(tokenizer, text, at, &parts, &err), &err);
        assert_ok(tokenizer_encode(tokenizer, text + at, n - at, &parts, &err), &err);
        add_pieces(tokenizer, text, at, &apart);
        add_pieces(tokenizer, text + at, n - at, &apart);
        expect_same(&parts, &whole);
        expect_same(&apart, &pieces);
    }
    token_list_release(&whole);
    token_list_release(&parts);
    token_list_release(&pieces);
    token_list_release(&apart);
}

TEST_CASE(cutting_a_text_does_not_change_its_tokens)
{
    static const char *const files[] = {"gpt2_style",  "ours",       "trained",
                                        "llama_style", "qwen_style", "digits_style"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        char path[256];
        uint32_t seed = 1;
        int cuts = 0;
        snprintf(path, sizeof path, TOKENIZER_FIXTURES "%s.json", files[f]);
        assert_ok(tokenizer_open_json(path, &tokenizer, &err), &err);
        assert_true(bpe_divides(tokenizer_bpe(tokenizer)));
        for (int i = 0; i < 3000; i++) {
            char *text = write_nasty(&seed, 12);
            expect_cuts_change_nothing(tokenizer, text, &cuts);
            free(text);
        }
        assert_true(cuts > 500);
        tokenizer_close(tokenizer);
    }
}

/* "a", the character if it comes before, a line feed, and the character, or "a". */
static bool may_cut_beside(uint32_t point, bool before)
{
    char text[16] = "a";
    size_t n = 1;
    if (before) n += (size_t)utf8proc_encode_char((utf8proc_int32_t)point, (utf8proc_uint8_t *)text + n);
    text[n++] = '\n';
    size_t at = n;
    if (before) text[n++] = 'a';
    if (!before) n += (size_t)utf8proc_encode_char((utf8proc_int32_t)point, (utf8proc_uint8_t *)text + n);
    return crew_may_cut(text, n, at);
}

TEST_CASE(a_text_is_cut_between_lines_that_neither_end_nor_begin_with_white_space)
{
    static const uint32_t white[] = {1,      '\t',   ' ',    0x7F,   0x80,   0x85,   0xA0,   0x1680,
                                     0x180E, 0x2000, 0x200F, 0x2028, 0x202F, 0x205F, 0x206F, 0x3000},
                          visible[] = {0xA1,    0x167F, 0x1681, 0x180D, 0x180F, 0x1FFF, 0x2010,
                                       0x2027,  0x2030, 0x205E, 0x2070, 0x2FFF, 0x3001, 0xE9,
                                       0x1F642, '0',    '9',    'a',    'z',    'A',    'Z'},
                          signs[] = {'!', '/', ':', '@', '[', '`', '{', '~'};
    for (size_t i = 0; i < sizeof white / sizeof *white; i++)
        if (may_cut_beside(white[i], true) || may_cut_beside(white[i], false)) fail_msg("U+%04X", white[i]);
    for (size_t i = 0; i < sizeof visible / sizeof *visible; i++)
        if (!may_cut_beside(visible[i], true) || !may_cut_beside(visible[i], false))
            fail_msg("U+%04X", visible[i]);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) /* patterns join them with a line feed */
        if (!may_cut_beside(signs[i], true) || may_cut_beside(signs[i], false)) fail_msg("%c", signs[i]);
    assert_false(crew_may_cut("\na", 2, 1)); /* nothing comes before the line feed */
    assert_false(crew_may_cut("a\n", 2, 2)); /* nothing comes behind it */
    assert_false(crew_may_cut("aaa", 3, 2));
}

/* The bytes behind a cut must be there: the reader may hold half a character. */
TEST_CASE(a_text_is_not_cut_before_half_a_character)
{
    static const char text[] = "line\n\xE2\x82\xAC"; /* a euro sign */
    assert_true(crew_may_cut(text, 8, 5));
    for (size_t n = 5; n < 8; n++) assert_false(crew_may_cut(text, n, 5));
}

TEST_CASE(a_tokenizer_that_looks_beyond_the_end_of_a_line_is_not_cut)
{
    static const char *const files[] = {"inner_style", "unknown_style", "flags_style", "mistral_style"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        char path[256];
        snprintf(path, sizeof path, TOKENIZER_FIXTURES "%s.json", files[f]);
        assert_ok(tokenizer_open_json(path, &tokenizer, &err), &err);
        assert_false(bpe_divides(tokenizer_bpe(tokenizer)));
        tokenizer_close(tokenizer);
    }
}

/* Whatever joins the end of a line with the next one: a normal form, a pattern of its own, a prefix, a token.
 */
TEST_CASE(a_tokenizer_is_cut_where_nothing_reaches_over_the_end_of_a_line)
{
#define SPLIT(pattern)                                                                                       \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"}"
#define LIST(parts)    "{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]}"
#define TOKEN(members) "[{\"id\":400,\"content\":" members "}]"
    static const struct {
        const char *key, *value;
        bool divides;
    } cases[] = {
        {"normalizer", "{\"type\":\"NFC\"}", true},
        {"normalizer", "{\"type\":\"NFD\"}", true},
        {"normalizer", "{\"type\":\"NFKC\"}", false},
        {"normalizer", "{\"type\":\"Prepend\",\"prepend\":\" \"}", false},
        {"pre_tokenizer", LIST("{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}"), true},
        {"pre_tokenizer", LIST(SPLIT("a+") ",{\"type\":\"ByteLevel\"}"), false},
        {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"use_regex\":false}", false},
        {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", false},
        {"added_tokens", TOKEN("\"a\\nb\""), false},
        {"added_tokens", TOKEN("\"ab\",\"lstrip\":true"), false},
        {"added_tokens", TOKEN("\"ab\",\"rstrip\":true"), true},
        {"added_tokens", TOKEN("\"<ab>\",\"lstrip\":true"), true}, /* no line that is cut begins with it */
        {"added_tokens", TOKEN("\"[ab]\",\"lstrip\":true"), true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = json_load_file(TOKENIZER_FIXTURES "ours.json", 0, NULL);
        struct tokenizer *tokenizer = NULL;
        struct err err = {0};
        json_object_set_new(document, cases[i].key, json_loads(cases[i].value, 0, NULL));
        char *text = json_dumps(document, 0);
        assert_ok(tokenizer_parse_json(text, strlen(text), "t.json", &tokenizer, &err), &err);
        if (bpe_divides(tokenizer_bpe(tokenizer)) != cases[i].divides) fail_msg("%s", cases[i].value);
        tokenizer_close(tokenizer);
        json_decref(document);
        free(text);
    }
}

TEST_CASE(a_text_without_a_place_to_cut_stays_whole)
{
    enum { N = 2 * CREW_PART_MAX };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    assert_int_equal(crew_cut(text, N), N);
    text[CREW_PART - 1] = '\n';
    assert_int_equal(crew_cut(text, N), CREW_PART);
    assert_int_equal(crew_cut(text, CREW_PART + 1), CREW_PART); /* a part of one byte is left */
    text[CREW_PART] = ' ';
    assert_int_equal(crew_cut(text, N), N);
    text[CREW_PART + 100] = '\n';
    assert_int_equal(crew_cut(text, N), CREW_PART + 101);
    assert_int_equal(crew_cut(text, 10), 10);
    free(text);
}

/* ---- preparing a corpus ---- */

/* A large file, one without a line, and many small ones. */
static void write_corpus(const char *folder)
{
    struct err err = {0};
    char path[512];
    uint32_t seed = 7;
    for (int i = 0; i < 30; i++) {
        char *text = write_nasty(&seed, i == 3 ? 1000000 : i == 5 ? 200000 : 10 * i + 1);
        for (char *c = text; i == 5 && *c; c++)
            if (*c == '\n') *c = 'n';
        snprintf(path, sizeof path, "%s/%02d.txt", folder, i);
        assert_ok(file_write_atomic(path, text, strlen(text), &err), &err);
        free(text);
    }
}

static char *prepare(const char *folder, const char *tokenizer, const char *threads, size_t *n)
{
    struct corpus_summary summary;
    struct err err = {0};
    char path[512];
    setenv("OMP_NUM_THREADS", threads, 1);
    snprintf(path, sizeof path, "%s-%s.tok", folder, threads);
    assert_ok(corpus_prepare(&folder, 1, tokenizer, NULL, NULL, path, NULL, &summary, &err), &err);
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(summary.files, 30);
    return scratch_read(path, n);
}

TEST_CASE(any_number_of_threads_prepares_the_same_tokens)
{
    static const char *const tokenizers[] = {"bpe:300", TOKENIZER_FIXTURES "qwen_style.json",
                                             TOKENIZER_FIXTURES "mistral_style.json"},
                             *const threads[] = {"2", "3", "16"};
    char folder[512];
    struct err err = {0};
    snprintf(folder, sizeof folder, "%s/crew", getenv("ANNEAL_TEST_DIR"));
    assert_ok(file_make_folders(folder, &err), &err);
    write_corpus(folder);
    for (size_t t = 0; t < 3; t++) {
        size_t n, m;
        char *alone = prepare(folder, tokenizers[t], "1", &n);
        assert_true(n > 1000000);
        for (size_t i = 0; i < 3; i++) {
            char *together = prepare(folder, tokenizers[t], threads[i], &m);
            assert_int_equal(m, n);
            assert_memory_equal(together, alone, n);
            free(together);
        }
        free(alone);
    }
}

TEST_MAIN()
