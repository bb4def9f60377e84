/* See ini.h. */
#include "core/base/ini.h"

#include <ctype.h>
#include <string.h>

#include "core/base/text.h"

static void cut_comment(char *line)
{
    for (char *c = line + 1; *c; c++)
        if (*c == ';' && isspace((unsigned char)c[-1])) {
            *c = '\0';
            text_trim(line);
            return;
        }
}

static enum ini_line read_line(struct ini *ini, char *line)
{
    if (*line == '[') {
        char *end = strchr(line, ']');
        if (!end || end[1]) return INI_BAD; /* a pair on the same line would be lost */
        *end = '\0';
        ini->section = text_trim(line + 1);
        return INI_END;
    }
    char *mark = ini->exact ? strstr(line, " = ") : strpbrk(line, "=:");
    if (!mark) return INI_BAD;
    *mark = '\0';
    ini->key = text_trim(line);
    ini->value = ini->exact ? mark + 3 : text_trim(mark + 1);
    return INI_PAIR;
}

enum ini_line ini_next(struct ini *ini)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    enum ini_line found = INI_END;
    if (!ini->section) ini->section = "";
    while (!found && ini->rest) {
        char *line = strsep(&ini->rest, "\n");
        if (!ini->line++ && strncmp(line, byte_order_mark, 3) == 0) line += 3;
        if (!ini->exact) line = text_trim(line);
        if (!*line || (!ini->exact && (*line == ';' || *line == '#'))) continue;
        if (!ini->exact && strchr(line, '\r')) return INI_BAD; /* ends of lines that are none here */
        if (!ini->exact) cut_comment(line);
        found = read_line(ini, line);
    }
    return found;
}
