/* See json_line.h. Numbers are formatted here, because jansson writes 0.1 as 0.10000000000000001; texts are
 * left to it. */
#include "tui/command/json_line.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clean.h"
#include "core/base/text.h"

void json_line_begin(const char *type)
{
    printf("{\"type\":\"%s\"", type);
}

void json_line_int(const char *name, int64_t value)
{
    printf(",\"%s\":%" PRId64, name, value);
}

void json_line_real(const char *name, double value)
{
    char number[32];
    printf(",\"%s\":%s", name, isfinite(value) ? text_format_double(value, number, sizeof number) : "null");
}

void json_line_bool(const char *name, bool value)
{
    printf(",\"%s\":%s", name, value ? "true" : "false");
}

void json_line_text(const char *name, const char *value)
{
    size_t length = strlen(value), size = 3 * length + 1; /* cleaning may make three bytes of one */
    char *clean = malloc(size), *quoted = NULL;
    json_t *string = NULL;
    if (clean) {
        clean_block(clean, size, value, length);
        string = json_string(clean);
    }
    if (string) quoted = json_dumps(string, JSON_ENCODE_ANY);
    printf(",\"%s\":%s", name, quoted ? quoted : "null");
    free(quoted);
    json_decref(string);
    free(clean);
}

int json_line_end(void)
{
    fputs("}\n", stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    int code = errno ? errno : EIO;
    clearerr(stdout);
    return code;
}
