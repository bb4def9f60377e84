/* See run.h: which names runs may have. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/text.h"
#include "runs/run.h"

/* Letters, digits and marks of any script, and symbols such as emoji. No punctuation, blanks, controls or
 * characters that change the direction of text: a name is part of a path and is printed on terminals. */
static bool is_name_character(uint32_t point)
{
    if (point < 0x80) return isalnum((int)point) || point == '_' || point == '.';
    switch (utf8proc_category((utf8proc_int32_t)point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_SO:
        return true;
    case UTF8PROC_CATEGORY_SK:
        return point >= 0x1F3FB && point <= 0x1F3FF; /* the colours of skin of emoji */
    default:
        return false;
    }
}

bool run_name_clean(const char *name, char *buf, size_t size)
{
    char kept[4 * RUN_NAME_MAX]; /* more than fits a name, as composing makes a text shorter */
    size_t n = 0, length, left = name ? strlen(name) : 0;
    for (; left && n + 5 < sizeof kept; name += length, left -= length) {
        uint32_t point = 0;
        length = utf8_character(name, left, &point);
        if (length && is_name_character(point) && (n || point != '.')) {
            memcpy(kept + n, name, length);
            n += length;
        } else if (n && kept[n - 1] != '-') {
            kept[n++] = '-';
        }
        if (!length) length = 1;
    }
    kept[n] = '\0';
    char *composed = (char *)utf8proc_NFC((const utf8proc_uint8_t *)kept);
    const char *text = composed ? composed : kept;
    n = utf8_cut(text, strnlen(text, size - 1));
    memcpy(buf, text, n);
    free(composed);
    while (n && (buf[n - 1] == '-' || buf[n - 1] == '.')) n--;
    buf[n] = '\0';
    if (n == 0) snprintf(buf, size, "run");
    return n > 0;
}

enum status run_name_check(const char *name, struct err *err)
{
    char clean[RUN_NAME_CLEAN_MAX];
    if (!run_name_clean(name, clean, sizeof clean))
        return err_set(err, STATUS_USAGE, "--name %s: a name needs a letter or a digit", CLEAN_LINE(name));
    if (strcmp(clean, "latest") != 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "--name latest: in every command this word means the newest run (choose another name)");
}
