/* See kept.h. */
#include "tests/kept.h"

#include "tests/cmocka.h"

static struct {
    void *thing; /* NULL: forgotten */
    void (*release)(void *);
} * things;
static size_t count, capacity;

void *kept(void *thing, void (*release)(void *thing))
{
    assert_non_null(thing);
    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        things = realloc(things, capacity * sizeof *things);
        assert_non_null(things);
    }
    things[count].thing = thing;
    things[count++].release = release;
    return thing;
}

char *kept_format(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&text, format, arguments);
    va_end(arguments);
    assert_true(n >= 0);
    return kept(text, free);
}

void kept_forget(const void *thing)
{
    for (size_t i = 0; i < count; i++)
        if (things[i].thing == thing) things[i].thing = NULL;
}

void kept_release(void)
{
    while (count > 0) {
        void *thing = things[--count].thing;
        if (thing) things[count].release(thing);
    }
    free(things);
    things = NULL;
    capacity = 0;
}

int kept_teardown(void **state)
{
    (void)state;
    kept_release();
    return 0;
}
