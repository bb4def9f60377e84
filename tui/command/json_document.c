/* See json_document.h. Quoting is left to jansson; numbers and layout are not, because it has one number of
 * digits for a whole document and so writes 0.0003 as 0.00029999999999999997. */
#include "tui/command/json_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

static void indent(int depth)
{
    printf("\n%*s", 2 * depth, "");
}

static void print_real(double value)
{
    char number[32];
    text_format_double(value, number, sizeof number);
    printf("%s%s", number, strpbrk(number, ".e") ? "" : ".0");
}

/* Strings, and what has no parts. */
static bool print_simple(const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (!text) return false;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == 0x7F)
            fputs("\\u007f", stdout);
        else if (*c == 0xC2 && c[1] < 0xA0) /* what jansson holds is UTF-8, so there is a next byte */
            printf("\\u%04x", *++c);
        else
            putchar(*c);
    }
    free(text);
    return true;
}

static bool print_name(const char *name)
{
    json_t *string = json_string(name);
    bool ok = string && print_simple(string);
    json_decref(string);
    return ok;
}

static bool print_value(const json_t *value, int depth)
{
    bool ok = true, first = true;
    if (json_is_real(value)) {
        print_real(json_real_value(value));
    } else if (json_is_object(value) && json_object_size(value)) {
        const char *name;
        json_t *member, *object = (json_t *)(uintptr_t)value; /* iterating does not change it */
        putchar('{');
        json_object_foreach(object, name, member)
        {
            if (!first) putchar(',');
            first = false;
            indent(depth + 1);
            ok = ok && print_name(name);
            fputs(": ", stdout);
            ok = ok && print_value(member, depth + 1);
        }
        indent(depth);
        putchar('}');
    } else if (json_is_array(value) && json_array_size(value)) {
        putchar('[');
        for (size_t i = 0; ok && i < json_array_size(value); i++) {
            if (i) putchar(',');
            indent(depth + 1);
            ok = print_value(json_array_get(value, i), depth + 1);
        }
        indent(depth);
        putchar(']');
    } else {
        ok = print_simple(value);
    }
    return ok;
}

bool json_document_print(const json_t *value)
{
    bool ok = print_value(value, 0);
    putchar('\n');
    return ok;
}
