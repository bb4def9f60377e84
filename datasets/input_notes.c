/* inputs_note of inputs.h: what is odd about texts before they are read. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/text.h"
#include "datasets/inputs.h"
#include "datasets/text_file.h"

enum { LOOK_BYTES = 64 << 10 };

/* Why the beginning of a file is not UTF-8 text, with the remedy; NULL: it is. */
static const char *doubt(const char *path)
{
    static const struct {
        const char *bytes, *words;
    } known[] = {
        {"\xFF\xFE", "is UTF-16, and learned byte by byte (convert it: iconv -f UTF-16 -t UTF-8)"},
        {"\xFE\xFF", "is UTF-16, and learned byte by byte (convert it: iconv -f UTF-16 -t UTF-8)"},
        {"\x1F\x8B", "is gzip, and learned byte by byte (add .gz to its name)"},
        {"\x28\xB5\x2F\xFD", "is Zstandard, and learned byte by byte (add .zst to its name)"},
    };
    char *text = malloc(LOOK_BYTES);
    size_t n = text ? text_file_head(path, text, LOOK_BYTES) : 0, invalid = 0;
    const char *found = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++) {
        size_t m = strlen(known[i].bytes);
        if (n >= m && memcmp(text, known[i].bytes, m) == 0) found = known[i].words;
    }
    bool zero = n && memchr(text, '\0', n);
    for (size_t i = 0; i < n; i++) {
        i += utf8_valid_bytes(text + i, n - i);
        invalid += i + 4 < n; /* the last character may be cut */
    }
    free(text);
    if (found) return found;
    if (zero || 10 * invalid > 3 * n) return "looks binary, not like text, and is learned byte by byte";
    return invalid
               ? "is not all UTF-8, and other bytes are learned as they are (if it is Latin-1, convert it: "
                 "iconv -f LATIN1 -t UTF-8)"
               : NULL;
}

/* File names may contain control characters, and are printed on a terminal. */
static void note(const struct progress *progress, bool warning, const char *sentence)
{
    char clean[3 * PATH_MAX];
    clean_line(clean, sizeof clean, sentence);
    progress->note(progress->context, warning, clean);
}

static void note_skipped(const struct inputs *texts, const struct progress *progress)
{
    char sentence[2 * PATH_MAX];
    if (texts->skipped == 1)
        snprintf(sentence, sizeof sentence, "%s: skipped, it is a binary file", texts->first_skipped);
    else
        snprintf(sentence, sizeof sentence, "skipped %zu binary files: %s and %zu more", texts->skipped,
                 texts->first_skipped, texts->skipped - 1);
    note(progress, true, sentence);
}

static void note_dead_links(const struct inputs *texts, const struct progress *progress)
{
    char sentence[2 * PATH_MAX], more[64] = "";
    if (texts->dead_links > 1) snprintf(more, sizeof more, " and %zu more", texts->dead_links - 1);
    snprintf(sentence, sizeof sentence,
             "left out the link%s %s%s, which lead%s to no file (links to folders are not followed: name the "
             "folders in the list, too)",
             text_plural((int64_t)texts->dead_links), texts->first_dead_link, more,
             texts->dead_links == 1 ? "s" : "");
    note(progress, true, sentence);
}

void inputs_note(const struct inputs *texts, const struct progress *progress)
{
    char sentence[2 * PATH_MAX];
    size_t doubtful = 0, first = 0;
    const char *why = NULL, *here;
    uint64_t bytes = 0;
    struct stat st;
    if (!progress || !progress->note) return;
    for (size_t i = 0; i < texts->count; i++) {
        if (stat(texts->paths[i], &st) == 0) bytes += (uint64_t)st.st_size;
        if ((here = doubt(texts->paths[i])) && !doubtful++) first = i, why = here;
    }
    if (texts->count > 1) {
        snprintf(sentence, sizeof sentence, "reading %zu files, %s", texts->count, TEXT_BYTES(bytes));
        note(progress, false, sentence);
    }
    if (texts->skipped) note_skipped(texts, progress);
    if (texts->first_dead_link) note_dead_links(texts, progress);
    if (!doubtful) return;
    snprintf(sentence, sizeof sentence, "%s: %s", texts->paths[first], why);
    if (doubtful > 1)
        text_add(sentence, sizeof sentence, "; ", "%zu more of the %zu files are no UTF-8 either",
                 doubtful - 1, texts->count);
    note(progress, true, sentence);
}
