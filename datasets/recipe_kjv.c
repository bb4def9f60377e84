/* See recipe_kjv.h. */
#include "datasets/recipe_kjv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RAW_BYTES = 4404412, RAW_BYTES_MAX = 64 << 20, HEADING_BYTES = 32 };

static const char *const books[KJV_BOOKS] = {
    "Genesis",
    "Exodus",
    "Leviticus",
    "Numbers",
    "Deuteronomy",
    "Joshua",
    "Judges",
    "Ruth",
    "1 Samuel",
    "2 Samuel",
    "1 Kings",
    "2 Kings",
    "1 Chronicles",
    "2 Chronicles",
    "Ezra",
    "Nehemiah",
    "Esther",
    "Job",
    "Psalms",
    "Proverbs",
    "Ecclesiastes",
    "Song of Solomon",
    "Isaiah",
    "Jeremiah",
    "Lamentations",
    "Ezekiel",
    "Daniel",
    "Hosea",
    "Joel",
    "Amos",
    "Obadiah",
    "Jonah",
    "Micah",
    "Nahum",
    "Habakkuk",
    "Zephaniah",
    "Haggai",
    "Zechariah",
    "Malachi",
    "Matthew",
    "Mark",
    "Luke",
    "John",
    "Acts",
    "Romans",
    "1 Corinthians",
    "2 Corinthians",
    "Galatians",
    "Ephesians",
    "Philippians",
    "Colossians",
    "1 Thessalonians",
    "2 Thessalonians",
    "1 Timothy",
    "2 Timothy",
    "Titus",
    "Philemon",
    "Hebrews",
    "James",
    "1 Peter",
    "2 Peter",
    "1 John",
    "2 John",
    "3 John",
    "Jude",
    "Revelation",
};

/* ---- running the program ---- */

/* Its standard output comes through *out. It starts in "/", because it prefers data files of the current
 * folder. */
static enum status start_bible(pid_t *child, int *out, struct err *err)
{
    static char *const arguments[] = {"bible", "-f", "gen1:1-rev22:21", NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, STATUS_IO, "kjv: cannot make a pipe: %s", strerror(errno));
    int code = posix_spawn_file_actions_init(&actions);
    if (!code) {
        if (!(code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) &&
            !(code = posix_spawn_file_actions_adddup2(&actions, ends[1], 1)) &&
            !(code = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)) &&
            !(code = posix_spawn_file_actions_addchdir_np(&actions, "/")))
            code = posix_spawnp(child, arguments[0], &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (!code) {
        *out = ends[0];
        return STATUS_OK;
    }
    close(ends[0]);
    if (code == ENOENT)
        return err_set(err, STATUS_NOT_FOUND,
                       "kjv: the program \"bible\" is not installed (apt install bible-kjv)");
    return err_set(err, STATUS_FAILED, "kjv: cannot run \"bible\": %s (apt install bible-kjv)",
                   strerror(code));
}

static enum status read_all(int fd, const struct progress *progress, char **text, size_t *n, struct err *err)
{
    size_t capacity = RAW_BYTES + 1, count = 0;
    char *bytes = malloc(capacity);
    while (bytes) {
        if (count == capacity) {
            char *grown = capacity < RAW_BYTES_MAX ? realloc(bytes, 2 * capacity) : NULL;
            if (!grown) break;
            bytes = grown;
            capacity *= 2;
        }
        size_t room = capacity - count < 65536 ? capacity - count : 65536;
        ssize_t got = read(fd, bytes + count, room);
        if (got < 0 && errno != EINTR) {
            enum status status =
                err_set(err, STATUS_IO, "kjv: cannot read from \"bible\": %s", strerror(errno));
            free(bytes);
            return status;
        }
        if (got == 0) {
            *text = bytes;
            *n = count;
            if (count)
                progress_report(progress, "reading kjv", "bytes", count, count); /* no guess any more */
            return STATUS_OK;
        }
        if (got > 0) count += (size_t)got;
        if (!progress_report(progress, "reading kjv", "bytes", count,
                             count > RAW_BYTES ? count : RAW_BYTES)) {
            free(bytes);
            return err_set(err, STATUS_INTERRUPTED, "interrupted while reading the King James Bible");
        }
    }
    free(bytes);
    return err_set(err, STATUS_NO_MEMORY, "kjv: not enough memory for what \"bible\" prints");
}

/* ---- laying it out ---- */

struct verse {
    const char *book, *text;
    size_t book_n, text_n;
    int chapter;
};

/* "1Cor13:4 Charity suffereth long": a book, perhaps with a digit in front, chapter, verse, text. */
static bool parse_verse(const char *line, size_t n, struct verse *verse)
{
    const char *c = line, *end = line + n;
    if (c < end && *c >= '1' && *c <= '9') c++;
    while (c < end && ((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z'))) c++;
    verse->book = line;
    verse->book_n = (size_t)(c - line);
    verse->chapter = 0;
    const char *digits = c;
    for (; c < end && c - digits < 3 && *c >= '0' && *c <= '9'; c++)
        verse->chapter = 10 * verse->chapter + (*c - '0');
    if (c == digits || c == end || *c++ != ':') return false;
    for (digits = c; c < end && c - digits < 3 && *c >= '0' && *c <= '9';) c++;
    if (c == digits || end - c < 2 || *c++ != ' ') return false;
    while (c < end && *c == ' ') c++;
    while (end > c && end[-1] == ' ') end--;
    verse->text = c;
    verse->text_n = (size_t)(end - c);
    return verse->book_n > 1 && verse->text_n > 0;
}

enum status recipe_kjv_layout(const char *raw, size_t raw_n, char **text, size_t *n, struct err *err)
{
    struct verse verse, before = {0};
    int verses = 0, chapters = 0, number = 0;
    char *made = malloc(raw_n + (size_t)KJV_CHAPTERS * HEADING_BYTES + 1), *to = made;
    if (!made) return err_set(err, STATUS_NO_MEMORY, "kjv: not enough memory for its text");
    for (const char *line = raw, *end = raw + raw_n; line < end; verses++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((stop ? stop : end) - line);
        if (!parse_verse(line, length, &verse)) goto unexpected;
        bool new_book = !before.book || verse.book_n != before.book_n ||
                        memcmp(verse.book, before.book, verse.book_n) != 0;
        if (new_book || verse.chapter != before.chapter) {
            number += new_book;
            if (number > KJV_BOOKS || ++chapters > KJV_CHAPTERS) goto unexpected;
            to += sprintf(to, "%s%s %d\n\n", chapters > 1 ? "\n" : "", books[number - 1], verse.chapter);
        }
        to = mempcpy(to, verse.text, verse.text_n);
        *to++ = '\n';
        before = verse;
        line += length + (stop ? 1 : 0);
    }
    if (verses != KJV_VERSES || chapters != KJV_CHAPTERS || number != KJV_BOOKS) goto unexpected;
    *text = made;
    *n = (size_t)(to - made);
    return STATUS_OK;
unexpected:
    free(made);
    return err_set(
        err, STATUS_FAILED,
        "kjv: \"bible\" does not print the whole King James Bible: %d verses in %d chapters of %d books "
        "instead of %d, %d, %d (apt install --reinstall bible-kjv bible-kjv-text)",
        verses, chapters, number, KJV_VERSES, KJV_CHAPTERS, KJV_BOOKS);
}

enum status recipe_kjv_make(const struct progress *progress, char **text, size_t *n, struct err *err)
{
    pid_t child;
    int out = -1, code = 0;
    char *raw = NULL;
    size_t raw_n = 0;
    enum status status = start_bible(&child, &out, err);
    if (status) return status;
    status = read_all(out, progress, &raw, &raw_n, err);
    close(out);
    if (status) kill(child, SIGTERM);
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
    if (!status && WIFEXITED(code) && WEXITSTATUS(code) == 127)
        status = err_set(err, STATUS_NOT_FOUND,
                         "kjv: the program \"bible\" is not installed (apt install bible-kjv)");
    if (!status) status = recipe_kjv_layout(raw, raw_n, text, n, err);
    free(raw);
    return status;
}
