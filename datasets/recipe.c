/* See recipe.h. The table, the files, and the work of each recipe. */
#include "datasets/recipe.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/text.h"

/* ---- kjv ---- */

/* The books in order. */
static const char books[] =
    "Genesis,Exodus,Leviticus,Numbers,Deuteronomy,Joshua,Judges,Ruth,1 Samuel,2 Samuel,1 Kings,2 Kings,"
    "1 Chronicles,2 Chronicles,Ezra,Nehemiah,Esther,Job,Psalms,Proverbs,Ecclesiastes,Song of Solomon,"
    "Isaiah,Jeremiah,Lamentations,Ezekiel,Daniel,Hosea,Joel,Amos,Obadiah,Jonah,Micah,Nahum,Habakkuk,"
    "Zephaniah,Haggai,Zechariah,Malachi,Matthew,Mark,Luke,John,Acts,Romans,1 Corinthians,2 Corinthians,"
    "Galatians,Ephesians,Philippians,Colossians,1 Thessalonians,2 Thessalonians,1 Timothy,2 Timothy,"
    "Titus,Philemon,Hebrews,James,1 Peter,2 Peter,1 John,2 John,3 John,Jude,Revelation";

/* "1Cor13:4 Charity suffereth long": a book, which may begin with a digit, chapter, verse, text. Ends the
 * line after the book and returns the text; NULL for any other line. */
static char *parse_verse(char *line, int *chapter)
{
    int book = 0, text = 0, digit = isdigit((unsigned char)*line) != 0;
    if (sscanf(line + digit, "%*[A-Za-z]%n%3d:%*3d %n", &book, chapter, &text) != 1) return NULL;
    if (!text || !line[digit + text]) return NULL;
    line[digit + book] = '\0';
    return line + digit + text;
}

enum status recipe_kjv_layout(FILE *raw, const struct progress *progress, char **text, size_t *n,
                              struct err *err)
{
    const char *name = NULL;
    char *line = NULL, book[32] = "";
    size_t capacity = 0;
    int verses = 0, chapters = 0, number = 0, chapter, last = 0;
    enum status status = STATUS_OK;
    FILE *out = open_memstream(text, n);
    if (!out) return err_no_memory(err, "the text of kjv");
    for (ssize_t length; !status && (length = getline(&line, &capacity, raw)) > 0; verses++) {
        while (length && isspace((unsigned char)line[length - 1])) line[--length] = '\0';
        const char *verse = parse_verse(line, &chapter);
        bool new_book = verse && strcmp(line, book) != 0;
        if (!verse || verses == KJV_VERSES || number + new_book > KJV_BOOKS) break;
        if (new_book || chapter != last) {
            if (new_book) name = number++ ? strchr(name, ',') + 1 : books;
            fprintf(out, "%s%.*s %d\n\n", chapters++ ? "\n" : "", (int)strcspn(name, ","), name, chapter);
            status = progress_report(progress, "reading kjv", "verses", (uint64_t)verses, KJV_VERSES, err);
        }
        fprintf(out, "%s\n", verse);
        snprintf(book, sizeof book, "%s", line);
        last = chapter;
    }
    free(line);
    if (!status && (verses != KJV_VERSES || chapters != KJV_CHAPTERS || number != KJV_BOOKS || !feof(raw)))
        status = err_set(
            err, STATUS_FAILED,
            "kjv: \"bible\" does not print the whole King James Bible: %d verses in %d chapters of %d books "
            "instead of %d, %d, %d (apt install --reinstall bible-kjv bible-kjv-text)",
            verses, chapters, number, KJV_VERSES, KJV_CHAPTERS, KJV_BOOKS);
    if (!text_stream_end(out, text) && !status) status = err_no_memory(err, "the text of kjv");
    if (!status) {
        progress_report(progress, "reading kjv", "verses", KJV_VERSES, KJV_VERSES, NULL);
        return STATUS_OK;
    }
    free(*text);
    *text = NULL;
    return status;
}

/* Runs `bible` in "/", because it prefers data files of the current folder. */
static enum status make_kjv(const struct progress *progress, char **text, size_t *n, struct err *err)
{
    FILE *bible = popen("exec 2>/dev/null </dev/null; cd / && exec bible -f gen1:1-rev22:21", "re");
    if (!bible) return err_set(err, STATUS_FAILED, "kjv: cannot run \"bible\": %s", strerror(errno));
    enum status status = recipe_kjv_layout(bible, progress, text, n, err);
    int code = pclose(bible);
    if (status == STATUS_FAILED && WIFEXITED(code) && WEXITSTATUS(code) == 127)
        return err_set(err, STATUS_NOT_FOUND,
                       "kjv: the program \"bible\" is not installed (apt install bible-kjv)");
    return status;
}

/* ---- the table and the files ---- */

const struct recipe recipes[] = {
    {"kjv", "the King James Bible: 31,102 verses, 4.1 MB of English prose", "bible-kjv", make_kjv},
    {0},
};

const struct recipe *recipe_find(const char *name)
{
    for (const struct recipe *recipe = recipes; recipe->name; recipe++)
        if (strcmp(recipe->name, name) == 0) return recipe;
    return NULL;
}

/* The checksum of the text at `path` as 16 digits. */
static enum status sum_text(const char *path, char sum[17], struct err *err)
{
    struct file_map map;
    enum status status = file_map_open(path, &map, err);
    if (status) return status;
    snprintf(sum, 17, "%016llx", (unsigned long long)XXH3_64bits(map.data, map.size));
    file_map_close(&map);
    return STATUS_OK;
}

/* Whether the text is unchanged: the user may have overwritten it. */
static enum status check_text(const struct recipe *recipe, const char *path, const char *sum_path,
                              struct err *err)
{
    char now[17];
    struct file_map made;
    if (!file_exists(sum_path)) return STATUS_OK;
    enum status status = sum_text(path, now, err);
    if (!status) status = file_map_open(sum_path, &made, err);
    if (status) return status;
    bool same = made.size >= 16 && memcmp(made.data, now, 16) == 0;
    file_map_close(&made);
    if (same) return STATUS_OK;
    return err_set(err, STATUS_CORRUPT,
                   "%.300s: was changed since the recipe %s made it (move it away, and it is made "
                   "again; to train on it, move it and give its path)",
                   path, recipe->name);
}

static enum status write_sum(const char *path, const char *sum_path, struct err *err)
{
    char sum[17];
    enum status status = sum_text(path, sum, err);
    return status ? status : file_write_atomic(sum_path, sum, 16, err);
}

enum status recipe_fetch(const struct recipe *recipe, const char *folder, const struct progress *progress,
                         char *path, size_t size, struct err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum status status = file_make_folders(folder, err);
    if (!status) status = file_format_path(path, size, err, "%s/%s.txt", folder, recipe->name);
    if (status) return status;
    char name[80], shipped[PATH_MAX], sum_path[PATH_MAX + 8];
    snprintf(sum_path, sizeof sum_path, "%s.xxh3", path);
    if (file_exists(path)) return check_text(recipe, path, sum_path, err);
    snprintf(name, sizeof name, "../share/anneal/%s.txt", recipe->name); /* as a bundle has it */
    if (!file_of_program(name, shipped, sizeof shipped, NULL) && file_exists(shipped)) {
        status = file_copy(shipped, path, err);
    } else if (!(status = recipe->make(progress, &text, &n, err))) {
        status = file_write_atomic(path, text, n, err);
        free(text);
    }
    return status ? status : write_sum(path, sum_path, err);
}
