/* From the configuration to tokens: which corpora are prepared, cached, found again and refused. */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/batch.h"
#include "datasets/corpus.h"
#include "datasets/preparation.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

#define SAMPLE TOKENIZER_FIXTURES "sample.txt"

static void assert_text(const struct corpus *corpus, const char *text, size_t n)
{
    size_t back;
    char *decoded = tokenizer_decode(corpus->tokenizer, corpus->files[0].tokens, corpus->tokens, &back);
    assert_non_null(decoded);
    assert_int_equal(back, n);
    assert_memory_equal(decoded, text, n);
    free(decoded);
}

static void assert_refused(const char *train, const char *tokenizer, const char *cache, enum status wanted,
                           const char *words)
{
    struct corpus corpus = {0};
    struct err err = {0};
    enum status status = corpus_open(train, tokenizer, NULL, cache, NULL, &corpus, &err);
    if (status != wanted || !strstr(err.text, words))
        fail_msg("%s with %s: status %d, not %d, or not \"%s\": %s", train, tokenizer, status, wanted, words,
                 err.text);
    assert_null(corpus.tokenizer);
    assert_null(corpus.files);
}

struct watcher {
    int left; /* reports until it asks to stop */
    int reports, encodings;
    const char *stopped; /* the phase in which it has asked; no other one begins */
};

static bool watch(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct watcher *watcher = context;
    assert_true(done <= total);
    assert_string_equal(unit, strcmp(what, "learning merges") == 0 ? "merges" : "bytes");
    watcher->reports++;
    watcher->encodings += strcmp(what, "encoding") == 0;
    if (watcher->stopped) assert_string_equal(what, watcher->stopped);
    if (watcher->left == 0) watcher->stopped = what;
    return watcher->left-- > 0;
}

TEST_CASE(a_text_is_prepared_once_and_then_found)
{
    static const char *const tokenizers[] = {"bytes", "bpe:300", TOKENIZER_FIXTURES "llama_style.json"};
    const char *cache = scratch_path("cache_once");
    size_t n;
    char *text = scratch_read(SAMPLE, &n);
    for (int i = 0; i < 3; i++) {
        struct watcher first = {.left = 1 << 20}, second = {.left = 1 << 20};
        struct progress progress = {.report = watch, .context = &first},
                        again = {.report = watch, .context = &second};
        struct corpus corpus = {0};
        struct err err = {0};
        assert_ok(corpus_open(SAMPLE, tokenizers[i], NULL, cache, &progress, &corpus, &err), &err);
        assert_text(&corpus, text, n);
        assert_string_equal(corpus.files[corpus.described].tokenizer, tokenizers[i]);
        assert_int_equal(corpus.vocab_size, tokenizer_vocab_size(corpus.tokenizer));
        assert_true(first.encodings > 0);
        uint64_t count = corpus.tokens, checksum = tokenizer_checksum(corpus.tokenizer);
        corpus_close(&corpus);
        assert_ok(corpus_open(SAMPLE, tokenizers[i], NULL, cache, &again, &corpus, &err), &err);
        assert_int_equal(second.encodings, 0);
        assert_int_equal(corpus.tokens, count);
        assert_int_equal(tokenizer_checksum(corpus.tokenizer), checksum);
        assert_true(strncmp(corpus.files[0].path, cache, strlen(cache)) == 0);
        corpus_close(&corpus);
        assert_int_equal(scratch_entries(cache), i + 1);
    }
    free(text);
}

struct phases {
    char what[32];
    uint64_t done, total;
    int ended;
};

/* A phase must have reported its end before the next one begins. */
static bool follow(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct phases *phases = context;
    (void)unit;
    if (strcmp(phases->what, what) != 0) {
        if (*phases->what && (phases->done != phases->total || !phases->total))
            fail_msg("%s ended at %d of %d", phases->what, (int)phases->done, (int)phases->total);
        snprintf(phases->what, sizeof phases->what, "%s", what);
        phases->ended++;
    }
    phases->done = done;
    phases->total = total;
    return true;
}

TEST_CASE(every_phase_ends_with_its_total)
{
    static const struct {
        const char *tokenizer;
        int phases;
    } cases[] = {{"bytes", 2}, {"bpe:256", 3}, {"bpe:300", 4}, {"bpe:300", 1}}; /* the last is cached */
    const char *cache = scratch_path("cache_phases"), *folder = scratch_path("phases");
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    scratch_write(scratch_path("phases/a.txt"), "one two two three", 17);
    scratch_write(scratch_path("phases/b.txt"), "two", 3);
    scratch_write(scratch_path("phases/c.txt"), "", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct phases phases = {0};
        struct progress progress = {.report = follow, .context = &phases};
        struct corpus corpus;
        assert_ok(corpus_open(folder, cases[i].tokenizer, NULL, cache, &progress, &corpus, &err), &err);
        corpus_close(&corpus);
        assert_int_equal(phases.ended, cases[i].phases);
        assert_int_equal(phases.done, phases.total);
    }
}

TEST_CASE(a_changed_text_is_prepared_again)
{
    const char *cache = scratch_path("cache_changed"), *path = scratch_path("changing.txt");
    struct corpus corpus = {0};
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        char text[] = "one text";
        text[0] = (char)('a' + i % 2);
        scratch_write(path, text, sizeof text - 1);
        assert_ok(corpus_open(path, "bytes", NULL, cache, NULL, &corpus, &err), &err);
        assert_text(&corpus, text, sizeof text - 1);
        corpus_close(&corpus);
    }
    assert_int_equal(scratch_entries(cache), 2); /* the third is the first again */
}

static void copy_file(const char *from, const char *to)
{
    size_t n;
    char *bytes = scratch_read(from, &n);
    scratch_write(to, bytes, n);
    free(bytes);
}

TEST_CASE(a_tokenizer_changed_at_its_path_is_never_served_the_tokens_of_the_old_one)
{
    static const char *const versions[] = {"ours.json", "gpt2_style.json", "ours.json"};
    const char *cache = scratch_path("cache_tokenizer"), *path = scratch_path("changing.json");
    for (int i = 0; i < 3; i++) {
        char fixture[100];
        struct corpus corpus = {0};
        struct tokenizer *tokenizer = NULL;
        struct token_list expected = {0};
        struct err err = {0};
        size_t n;
        char *text = scratch_read(SAMPLE, &n);
        snprintf(fixture, sizeof fixture, TOKENIZER_FIXTURES "%s", versions[i]);
        copy_file(fixture, path);
        assert_ok(tokenizer_open_json(fixture, &tokenizer, &err), &err);
        assert_ok(tokenizer_encode(tokenizer, text, n, &expected, &err), &err);
        assert_ok(corpus_open(SAMPLE, path, NULL, cache, NULL, &corpus, &err), &err);
        assert_int_equal(corpus.tokens, expected.count);
        assert_memory_equal(corpus.files[0].tokens, expected.ids, n < 100 ? n : 100);
        assert_int_equal(tokenizer_checksum(corpus.tokenizer), tokenizer_checksum(tokenizer));
        corpus_close(&corpus);
        tokenizer_close(tokenizer);
        token_list_release(&expected);
        free(text);
    }
    assert_int_equal(scratch_entries(cache), 2); /* the third is the first again */
}

TEST_CASE(a_damaged_cache_is_made_anew)
{
    const char *cache = scratch_path("cache_damaged"), *path = scratch_path("damaged.txt");
    static const char *const files[] = {"corpus.tok", "corpus.tok.json", "tokenizer.json"};
    struct err err = {0};
    scratch_write(path, "hello hello hello", 17);
    for (int i = 0; i < 6; i++) {
        struct corpus corpus = {0};
        char victim[8192];
        assert_ok(corpus_open(path, "bpe:258", NULL, cache, NULL, &corpus, &err), &err);
        assert_text(&corpus, "hello hello hello", 17);
        char *slash = strrchr(corpus.files[0].path, '/');
        snprintf(victim, sizeof victim, "%.*s/%s", (int)(slash - corpus.files[0].path), corpus.files[0].path,
                 files[i % 3]);
        corpus_close(&corpus);
        if (i < 3)
            assert_int_equal(truncate(victim, 9), 0);
        else
            assert_int_equal(unlink(victim), 0);
    }
    struct corpus corpus = {0};
    assert_ok(corpus_open(path, "bpe:258", NULL, cache, NULL, &corpus, &err), &err);
    /* an id beyond the vocabulary, for which the model would read beyond its table; and one that is only
     * another letter */
    static const uint32_t wrong[] = {999, 'J'};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(corpus.files[0].path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, 8, SEEK_SET), 0);
        assert_int_equal(fwrite(&wrong[i], sizeof wrong[i], 1, file), 1);
        fclose(file);
        corpus_close(&corpus);
        assert_ok(corpus_open(path, "bpe:258", NULL, cache, NULL, &corpus, &err), &err);
        assert_text(&corpus, "hello hello hello", 17);
    }
    corpus_close(&corpus);
    assert_int_equal(scratch_entries(cache), 1);
}

TEST_CASE(a_folder_is_read_in_sorted_order)
{
    const char *cache = scratch_path("cache_folder");
    struct corpus corpus = {0};
    struct err err = {0};
    assert_ok(file_make_folders(scratch_path("books/b/deep"), &err), &err);
    scratch_write(scratch_path("books/c.txt"), "5", 1);
    scratch_write(scratch_path("books/a.txt"), "1\xFF", 2);
    scratch_write(scratch_path("books/B.txt"), "0", 1);
    scratch_write(scratch_path("books/b/z.txt"), "4", 1);
    scratch_write(scratch_path("books/b/a.txt"), "2", 1);
    scratch_write(scratch_path("books/b/deep/x"), "3", 1);
    scratch_write(scratch_path("books/empty"), "", 0);
    scratch_write(scratch_path("books/.hidden"), "9", 1);
    assert_int_equal(symlink("..", scratch_path("books/b/loop")), 0);
    assert_int_equal(symlink("nowhere", scratch_path("books/dangling")), 0);
    assert_ok(corpus_open(scratch_path("books"), "bytes", NULL, cache, NULL, &corpus, &err), &err);
    assert_text(&corpus,
                "01\xFF"
                "2345",
                7);
    corpus_close(&corpus);
}

TEST_CASE(what_a_killed_preparation_left_is_swept_a_living_ones_is_not)
{
    static const char key[] = "0123456789abcdef0123456789abcdef";
    const char *cache = scratch_path("cache_swept");
    char left[5000], foreign[5000], text[5000], fresh[5000], inside[5100];
    struct err err = {0};
    struct corpus corpus;
    snprintf(left, sizeof left, "%s/%s.tmp-%ld", cache, key,
             (long)getppid()); /* whoever has its number now */
    snprintf(foreign, sizeof foreign, "%s/mine.tmp-7", cache);
    snprintf(text, sizeof text, "%s/kjv.txt.tmp-7", cache);
    snprintf(fresh, sizeof fresh, "%s/new.txt.tmp-7", cache);
    const char *folders[] = {left, foreign};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(file_make_folders(folders[i], &err), &err);
        snprintf(inside, sizeof inside, "%s/corpus.tok.tmp-1", folders[i]);
        scratch_write(inside, "half", 4);
    }
    scratch_write(text, "half", 4);
    scratch_write(fresh, "half", 4);
    assert_int_equal(utimensat(AT_FDCWD, text, (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    for (int living = 1; living >= 0; living--) {
        int fd = open(cache, O_RDONLY | O_DIRECTORY); /* as a maker does */
        if (living) assert_int_equal(flock(fd, LOCK_SH), 0);
        scratch_write(scratch_path("swept.txt"), living ? "some words" : "some other", 10);
        assert_ok(corpus_open(scratch_path("swept.txt"), "bytes", NULL, cache, NULL, &corpus, &err), &err);
        corpus_close(&corpus);
        close(fd);
        assert_int_equal(file_exists(left), living);
        assert_int_equal(file_exists(text), living);
        assert_true(file_exists(foreign) && file_exists(fresh));
    }
    assert_int_equal(scratch_entries(cache), 4); /* two texts, foreign, fresh */
}

/* Another process must not remove the files of a preparation that is still running. */
static bool open_another(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    const char *cache = context;
    struct corpus corpus;
    struct err err = {0};
    (void)unit;
    if (strcmp(what, "encoding") != 0 || done == total) return true;
    scratch_write(scratch_path("another.txt"), &done, sizeof done);
    assert_ok(corpus_open(scratch_path("another.txt"), "bytes", NULL, cache, NULL, &corpus, &err), &err);
    corpus_close(&corpus);
    return true;
}

TEST_CASE(a_preparation_at_work_is_not_swept_by_another)
{
    const char *cache = scratch_path("cache_shared");
    struct progress progress = {.report = open_another, .context = (void *)cache};
    struct corpus corpus;
    struct err err = {0};
    size_t n;
    char *text = scratch_read(SAMPLE, &n);
    scratch_write(scratch_path("shared_b.txt"), text, n);
    char value[3 * 4096];
    snprintf(value, sizeof value, "%s,%s", SAMPLE, scratch_path("shared_b.txt"));
    assert_ok(corpus_open(value, "bytes", NULL, cache, &progress, &corpus, &err), &err);
    assert_int_equal(corpus.tokens, 2 * n);
    corpus_close(&corpus);
    assert_true(scratch_entries(cache) > 1);
    free(text);
}

TEST_CASE(an_interruption_anywhere_leaves_nothing_half_written)
{
    const char *cache = scratch_path("cache_interrupted");
    enum status status = STATUS_INTERRUPTED;
    int left = 0;
    for (; status == STATUS_INTERRUPTED; left++) {
        struct watcher watcher = {.left = left};
        struct progress progress = {.report = watch, .context = &watcher};
        struct corpus corpus = {0};
        struct err err = {0};
        status = corpus_open(SAMPLE, "bpe:300", NULL, cache, &progress, &corpus, &err);
        assert_int_equal(scratch_entries(cache), status == STATUS_OK);
        if (status) {
            assert_int_equal(status, STATUS_INTERRUPTED);
            assert_null(corpus.tokenizer);
        }
        corpus_close(&corpus);
        assert_true(left < 10000);
    }
    assert_true(left > 5);
}

TEST_CASE(bad_inputs_are_refused_in_words)
{
    const char *cache = scratch_path("cache_bad"), *empty = scratch_path("empty.txt");
    struct err err = {0};
    scratch_write(empty, "", 0);
    assert_ok(file_make_folders(scratch_path("hollow/inside"), &err), &err);
    assert_refused(scratch_path("missing.txt"), "bytes", cache, STATUS_NOT_FOUND,
                   "no such file, folder or recipe");
    assert_refused("", "bytes", cache, STATUS_USAGE, "empty");
    assert_refused(empty, "bytes", cache, STATUS_FAILED, "empty.txt: is empty");
    assert_refused(scratch_path("hollow"), "bytes", cache, STATUS_FAILED, "no files in this folder");
    assert_refused("/dev/null", "bytes", cache, STATUS_USAGE, "/dev/null: is a device");
    assert_refused(SAMPLE, "bpe:255", cache, STATUS_USAGE, "255");
    assert_refused(SAMPLE, "bpe:", cache, STATUS_USAGE, "bpe:N");
    assert_refused(SAMPLE, "bpe:99999999999999999999", cache, STATUS_USAGE, "bpe:N");
    assert_refused(SAMPLE, "bpe:4294967552", cache, STATUS_USAGE, "bpe:N");
    assert_refused(SAMPLE, "bpe:-5", cache, STATUS_USAGE, "bpe:N");
    assert_refused(SAMPLE, "bpe:0", cache, STATUS_USAGE, "bpe:N");
    assert_refused(SAMPLE, "words", cache, STATUS_USAGE, "\"words\"");
    assert_refused(SAMPLE, "./none.json", cache, STATUS_NOT_FOUND, "none.json");
    assert_refused(SAMPLE, SAMPLE, cache, STATUS_CORRUPT, "sample.txt");
    assert_refused(SAMPLE, "bytes", "/proc/none", STATUS_NOT_FOUND, "/proc/none");
    assert_refused(scratch_path("missing.tok"), "bytes", cache, STATUS_NOT_FOUND, "missing.tok");
    assert_int_equal(scratch_entries(cache), 0);
}

TEST_CASE(a_folder_without_permission_is_refused)
{
    const char *locked = scratch_path("locked"), *folder = getenv("ANNEAL_TEST_DIR");
    char here[4096];
    struct err err = {0};
    bool root = geteuid() == 0; /* who may read everything */
    assert_ok(file_make_folders(locked, &err), &err);
    assert_int_equal(chmod(locked, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0); /* which the folders above it may hide */
    if (root) assert_int_equal(seteuid(65534), 0);
    assert_refused("locked", "bytes", scratch_path("cache_locked"), STATUS_IO,
                   "locked: cannot list the folder: Permission denied");
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(chmod(locked, 0700), 0);
}

TEST_CASE(a_token_file_brings_its_tokenizer)
{
    static const char *const words[] = {"bytes", "bpe:270", TOKENIZER_FIXTURES "digits_style.json"};
    const char *path = scratch_path("own.tok"), *cache = scratch_path("cache_own");
    const char *second = scratch_path("second.txt");
    const char *const inputs[] = {SAMPLE, second};
    size_t n;
    char *text = scratch_read(SAMPLE, &n), *twice = malloc(2 * n);
    memcpy(twice, text, n);
    memcpy(twice + n, text, n);
    scratch_write(second, text, n);
    for (int i = 0; i < 3; i++) {
        struct corpus corpus = {0};
        struct corpus_summary summary;
        struct err err = {0};
        assert_ok(corpus_prepare(inputs, 2, words[i], NULL, cache, path, NULL, &summary, &err), &err);
        assert_int_equal(summary.files, 2);
        assert_int_equal(summary.text_bytes, 2 * n);
        assert_true(file_exists(summary.tokenizer_path));
        assert_ok(corpus_open(path, "bpe:9999", NULL, cache, NULL, &corpus, &err), &err);
        assert_int_equal(summary.tokens, corpus.tokens);
        assert_int_equal(summary.vocab_size, corpus.vocab_size);
        assert_string_equal(corpus.files[corpus.described].tokenizer, words[i]);
        assert_string_equal(corpus.files[0].path, path);
        assert_text(&corpus, twice, 2 * n);
        corpus_close(&corpus);
        assert_ok(corpus_open(path, summary.tokenizer_path, NULL, cache, NULL, &corpus, &err), &err);
        corpus_close(&corpus);
        if (i) assert_refused(path, "bytes", cache, STATUS_USAGE, "another tokenizer");
        assert_refused(path, TOKENIZER_FIXTURES "ours.json", cache, STATUS_USAGE, "another tokenizer");
    }
    free(text);
    free(twice);
}

TEST_CASE(a_token_file_without_its_tokenizer_still_opens)
{
    const char *path = scratch_path("bare.tok"), *cache = scratch_path("cache_bare"), *input = SAMPLE;
    struct corpus corpus = {0};
    struct corpus_summary summary;
    struct err err = {0};
    assert_ok(corpus_prepare(&input, 1, "bpe:280", NULL, cache, path, NULL, &summary, &err), &err);
    assert_int_equal(unlink(summary.tokenizer_path), 0);
    assert_ok(corpus_open(path, "bpe:2048", NULL, cache, NULL, &corpus, &err), &err);
    assert_null(corpus.tokenizer);
    assert_int_equal(corpus.vocab_size, 280); /* the sidecar knows */
    corpus_close(&corpus);
    /* it cannot be the one that the sidecar knows */
    FILE *unread = fopen(scratch_path("wordpiece.json"), "w");
    assert_non_null(unread);
    fputs("{\"model\": {\"type\": \"WordPiece\"}}", unread);
    fclose(unread);
    assert_refused(path, scratch_path("wordpiece.json"), cache, STATUS_FAILED, "WordPiece");
    assert_int_equal(unlink(scratch_path("bare.tok.json")), 0);
    assert_ok(corpus_open(path, scratch_path("wordpiece.json"), NULL, cache, NULL, &corpus, &err), &err);
    assert_null(corpus.tokenizer);
    corpus_close(&corpus);
    assert_ok(corpus_open(path, "bpe:2048", NULL, cache, NULL, &corpus, &err), &err);
    assert_null(corpus.tokenizer);
    assert_int_equal(corpus.vocab_size, corpus.files[0].bound);
    corpus_close(&corpus);
    assert_refused(path, "bytes", cache, STATUS_CORRUPT, "the vocabulary has 256");
}

TEST_CASE(validation_data_of_an_unknown_tokenizer_is_taken_as_it_is)
{
    const char *path = scratch_path("trained.tok"), *bare = scratch_path("unknown.tok"), *input = SAMPLE,
               *cache = scratch_path("cache_unknown");
    struct corpus corpus = {0};
    struct corpus_summary summary;
    struct err err = {0};
    assert_ok(corpus_prepare(&input, 1, "bpe:280", NULL, cache, bare, NULL, &summary, &err), &err);
    assert_ok(corpus_prepare(&input, 1, "bpe:290", NULL, cache, path, NULL, &summary, &err), &err);
    assert_int_equal(unlink(summary.tokenizer_path), 0); /* its checksum is still known */
    assert_ok(corpus_open(path, "", NULL, cache, NULL, &corpus, &err), &err);
    assert_int_equal(corpus_open_validation(&corpus, bare, NULL, cache, NULL, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "unknown.tok: was prepared with another tokenizer than "));
    assert_int_equal(unlink(scratch_path("unknown.tok.json")), 0);
    assert_ok(corpus_open_validation(&corpus, bare, NULL, cache, NULL, &err), &err);
    corpus_close(&corpus);
    scratch_tok(bare, (const uint32_t[]){289, 295}, 2);
    assert_ok(corpus_open(path, "", NULL, cache, NULL, &corpus, &err), &err);
    assert_int_equal(corpus_open_validation(&corpus, bare, NULL, cache, NULL, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text,
                           "unknown.tok: token 1 has the id 295, but the vocabulary of data.train has "
                           "290"));
    corpus_close(&corpus);
}

TEST_CASE(a_changed_tokenizer_is_told_apart_from_a_changed_text)
{
    static const char *const words[] = {"bytes", "bpe:280", "bpe:290", TOKENIZER_FIXTURES "ours.json"};
    const char *cache = scratch_path("cache_marks");
    struct corpus_mark marks[4];
    struct err err = {0};
    for (int i = 0; i < 4; i++) {
        struct corpus corpus = {0};
        assert_ok(corpus_open(SAMPLE, words[i], NULL, cache, NULL, &corpus, &err), &err);
        marks[i] = corpus_mark_of(&corpus);
        corpus_close(&corpus);
    }
    for (int trained = 0; trained < 4; trained++)
        for (int now = 0; now < 4; now++) {
            enum status status = corpus_mark_check(&marks[trained], &marks[now], &err);
            assert_int_equal(status, trained == now ? STATUS_OK : STATUS_USAGE);
            const char *part = now == 1 || now == 2 ? "that is learned from the corpus" : "mean other text";
            if (status && !strstr(err.text, part))
                fail_msg("%s, then %s: %s", words[trained], words[now], err.text);
        }
    struct corpus_mark other = marks[0];
    other.tokens++;
    assert_int_equal(corpus_mark_check(&marks[0], &other, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the corpus has changed: this run was trained on "));
    other = marks[0];
    other.checksum++;
    assert_int_equal(corpus_mark_check(&marks[0], &other, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "but different ones (restore it"));
    other.mixed = true;
    assert_int_equal(corpus_mark_check(&marks[0], &other, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "but different ones, or other weights (restore it"));
}

TEST_CASE(preparing_writes_three_files_or_none)
{
    const char *folder = scratch_path("out"), *path = scratch_path("out/x.tok"),
               *cache = scratch_path("cache_out");
    const char *const inputs[] = {SAMPLE, scratch_path("absent/input")};
    struct corpus_summary summary;
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    assert_int_equal(corpus_prepare(inputs, 2, "bytes", NULL, cache, path, NULL, &summary, &err),
                     STATUS_NOT_FOUND);
    assert_int_equal(
        corpus_prepare(inputs, 1, "bytes", NULL, cache, scratch_path("out/x.txt"), NULL, &summary, &err),
        STATUS_USAGE);
    assert_non_null(strstr(err.text, ".tok"));
    assert_int_equal(
        corpus_prepare(inputs, 1, "bytes", NULL, cache, scratch_path("absent/x.tok"), NULL, &summary, &err),
        STATUS_NOT_FOUND);
    for (int left = 0; left < 6; left++) {
        struct watcher watcher = {.left = left};
        struct progress progress = {.report = watch, .context = &watcher};
        assert_int_equal(corpus_prepare(inputs, 1, "bpe:400", NULL, cache, path, &progress, &summary, &err),
                         STATUS_INTERRUPTED);
        assert_int_equal(scratch_entries(folder), 0);
    }
    assert_ok(corpus_prepare(inputs, 1, "bpe:400", NULL, cache, path, NULL, &summary, &err), &err);
    assert_int_equal(scratch_entries(folder), 3);
}

TEST_CASE(a_corpus_shorter_than_a_sequence_is_found_out_by_the_split)
{
    const char *path = scratch_path("short.txt");
    struct corpus corpus = {0};
    struct split train, validation;
    struct err err = {0};
    scratch_write(path, "short", 5);
    assert_ok(corpus_open(path, "bytes", NULL, scratch_path("cache_short"), NULL, &corpus, &err), &err);
    assert_int_equal(split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0.1, 256, 0, SHUFFLE_STRIDE},
                                  &train, &validation, &err),
                     STATUS_USAGE);
    assert_non_null(strstr(err.text, "too short"));
    corpus_close(&corpus);
}

TEST_MAIN()
