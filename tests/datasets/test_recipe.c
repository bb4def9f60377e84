/* Recipes: the King James Bible is complete and readable; any other text is refused. */
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "datasets/recipe.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

struct watcher {
    int left; /* reports until it asks to stop */
};

static bool watch(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    struct watcher *watcher = context;
    assert_true(done <= total);
    assert_string_equal(what, "reading kjv");
    assert_string_equal(unit, "verses");
    return watcher->left-- > 0;
}

TEST_CASE(the_bible_is_whole_and_readable)
{
    char path[4096];
    struct err err = {0};
    const struct recipe *kjv = recipe_find("kjv");
    assert_non_null(kjv);
    assert_null(recipe_find("kj"));
    enum status status = recipe_fetch(kjv, scratch_path("cache_kjv"), NULL, path, sizeof path, &err);
    if (status == STATUS_NOT_FOUND && strstr(err.text, "apt install bible-kjv")) skip();
    assert_ok(status, &err);
    size_t n;
    char *text = scratch_read(path, &n);
    assert_true(
        strncmp(text,
                "Genesis 1\n\nIn the beginning God created the heaven and the earth.\nAnd the earth was",
                80) == 0);
    assert_non_null(strstr(text, "\n\nPsalms 23\n\nThe LORD is my shepherd; I shall not want.\n"));
    assert_non_null(strstr(text, "\n\n1 Corinthians 13\n\nThough I speak"));
    assert_non_null(strstr(text, "\n\nJude 1\n\n"));
    static const char end[] = "The grace of our Lord Jesus Christ be with you all. Amen.\n";
    assert_string_equal(text + n - (sizeof end - 1), end);
    int lines = 0, blank = 0;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
        blank += text[i] == '\n' && i && text[i - 1] == '\n';
    }
    assert_int_equal(blank, 2 * KJV_CHAPTERS - 1);
    assert_int_equal(lines - blank - KJV_CHAPTERS, KJV_VERSES);
    free(text);
    /* An existing text is not changed, but another text is not accepted as the Bible. */
    assert_ok(recipe_fetch(kjv, scratch_path("cache_kjv"), NULL, path, sizeof path, &err), &err);
    scratch_write(path, "mine", 4);
    assert_int_equal(recipe_fetch(kjv, scratch_path("cache_kjv"), NULL, path, sizeof path, &err),
                     STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "kjv.txt: was changed since the recipe kjv made it"));
    text = scratch_read(path, NULL);
    assert_string_equal(text, "mine");
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_ok(recipe_fetch(kjv, scratch_path("cache_kjv"), NULL, path, sizeof path, &err), &err);
    size_t again;
    free(scratch_read(path, &again));
    assert_int_equal(again, n);
    /* a text from an older version has no checksum */
    scratch_write(path, "mine", 4);
    char sum[4200];
    snprintf(sum, sizeof sum, "%s.xxh3", path);
    assert_int_equal(unlink(sum), 0);
    assert_ok(recipe_fetch(kjv, scratch_path("cache_kjv"), NULL, path, sizeof path, &err), &err);
}

static enum status layout(const char *raw, size_t raw_n, char **text, size_t *n, struct err *err)
{
    struct watcher watcher = {.left = 1 << 20};
    struct progress progress = {.report = watch, .context = &watcher};
    char empty[1];
    FILE *file = raw_n ? fmemopen((void *)raw, raw_n, "r") : fmemopen(empty, 1, "w+");
    assert_non_null(file);
    enum status status = recipe_kjv_layout(file, &progress, text, n, err);
    fclose(file);
    return status;
}

TEST_CASE(a_bible_that_is_missing_or_wrong_is_refused)
{
    static const char *const raw[] = {"",
                                      "\n",
                                      "Ge1:1 In the beginning\n",
                                      "Ge1:1\n",
                                      "Ge1 text\n",
                                      "1:1 text\n",
                                      "Ge1:x text\n",
                                      "Ge1:1text\n",
                                      "usage: bible",
                                      "Ge9999:1 text"};
    struct err err = {0};
    char *text = NULL, *path = strdup(getenv("PATH")), *own = strdup(scratch_path("bin"));
    size_t n;
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        assert_int_equal(layout(raw[i], strlen(raw[i]), &text, &n, &err), STATUS_FAILED);
        assert_non_null(strstr(err.text, "31102"));
    }
    assert_int_equal(layout("Ge1:1 \n", 7, &text, &n, &err), STATUS_FAILED); /* a verse without words */
    assert_non_null(strstr(err.text, " 0 verses"));
    /* 32,000 chapters: more than there is room for */
    size_t capacity = 32000 * 16, count = 0;
    char *many = malloc(capacity);
    for (int i = 0; i < 32000; i++) count += (size_t)sprintf(many + count, "Ge%d:1 x\n", i % 900);
    assert_int_equal(layout(many, count, &text, &n, &err), STATUS_FAILED);
    free(many);

    assert_ok(file_make_folders(own, &err), &err);
    setenv("PATH", own, 1);
    assert_int_equal(recipe_find("kjv")->make(NULL, &text, &n, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "apt install bible-kjv"));
    char program[8192];
    snprintf(program, sizeof program, "%s/bible", own);
    static const char script[] = "#!/bin/sh\necho Ge1:1 In the beginning\n";
    scratch_write(program, script, sizeof script - 1);
    assert_int_equal(chmod(program, 0755), 0);
    assert_int_equal(recipe_find("kjv")->make(NULL, &text, &n, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "1 verses"));
    setenv("PATH", path, 1);
    free(path);
    free(own);
}

/* Lines as the program prints them: a chapter for each verse as long as there are chapters, a book for each
 * chapter as long as there are books. */
static enum status layout_of(int verses, int chapters, int books, const char *end, char **text,
                             struct err *err)
{
    size_t n, used = 0, size = (size_t)verses * 16 + 64;
    char *raw = malloc(size);
    for (int v = 0; v < verses; v++) {
        int chapter = v < chapters ? v : chapters - 1, book = chapter < books ? chapter : books - 1;
        used += (size_t)sprintf(raw + used, "%d%c%c%d:1 x\n", book / 100 % 10, 'A' + book / 10 % 10,
                                'a' + book % 10, 1 + chapter % 900);
    }
    used += (size_t)sprintf(raw + used, "%s", end);
    enum status status = layout(raw, used, text, &n, err);
    free(raw);
    return status;
}

TEST_CASE(a_bible_is_whole_by_its_verses_chapters_and_books)
{
    static const struct {
        int verses, chapters, books;
        const char *end;
    } wrong[] = {
        {1, 0, 0, ""},  {-1, 0, 0, ""}, {0, 1, 0, ""},      {0, -1, 0, ""},
        {0, 0, -1, ""}, {0, 0, 1, ""},  {0, 0, 0, "end\n"},
    };
    struct err err = {0};
    char *text = NULL;
    assert_ok(layout_of(KJV_VERSES, KJV_CHAPTERS, KJV_BOOKS, "", &text, &err), &err);
    assert_ptr_equal(strstr(text, "Genesis 1\n\nx\n\nExodus 2\n\nx\n\nLeviticus 3\n"), text);
    assert_non_null(strstr(text, "\n\nRevelation 66\n\nx\n\nRevelation 67\n"));
    free(text);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        enum status status = layout_of(KJV_VERSES + wrong[i].verses, KJV_CHAPTERS + wrong[i].chapters,
                                       KJV_BOOKS + wrong[i].books, wrong[i].end, &text, &err);
        if (status != STATUS_FAILED || !strstr(err.text, "does not print the whole King James Bible"))
            fail_msg("%zu: status %d: %s", i, status, err.text);
        assert_null(text);
    }
}

TEST_CASE(the_bible_can_be_interrupted)
{
    const char *cache = scratch_path("cache_stop");
    for (int left = 0; left < 3; left++) {
        struct watcher watcher = {.left = left};
        struct progress progress = {.report = watch, .context = &watcher};
        char path[4096];
        struct err err = {0};
        enum status status = recipe_fetch(recipe_find("kjv"), cache, &progress, path, sizeof path, &err);
        if (status == STATUS_NOT_FOUND) skip();
        assert_int_equal(status, STATUS_INTERRUPTED);
        assert_int_equal(scratch_entries(cache), 0);
    }
}

TEST_MAIN()
