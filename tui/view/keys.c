/* See keys.h. */
#include "tui/view/keys.h"

const struct key keys[] = {
#define KEY(context, action, code, other, label, hint, help)                                                 \
    {CONTEXT_##context, ACTION_##action, (uint32_t)(code), (uint32_t)(other), label, hint, help},
#include "tui/keymap.def"
#undef KEY
};
const size_t key_count = sizeof keys / sizeof *keys;

const char *key_context_title(enum key_context context)
{
    static const char *const titles[CONTEXT_COUNT] = {
        [CONTEXT_ANY] = "Everywhere",
        [CONTEXT_RUNS] = "List of runs",
        [CONTEXT_RUN] = "One run",
        [CONTEXT_MEMORY] = "Memory of a run",
        [CONTEXT_PROFILE] = "Profile of a run",
        [CONTEXT_FORM] = "New run",
        [CONTEXT_CONFIRM] = "Questions",
    };
    return titles[context];
}

enum action key_action(enum key_context context, uint32_t code)
{
    if (code == K_NONE) return ACTION_NONE;
    for (int pass = 0; pass < 2; pass++) {
        enum key_context wanted = pass == 0 ? context : CONTEXT_ANY;
        for (size_t i = 0; i < key_count; i++)
            if (keys[i].context == wanted && (keys[i].code == code || keys[i].other == code))
                return keys[i].action;
    }
    return ACTION_NONE;
}

bool keys_move(enum action action, size_t *at, size_t count, size_t page)
{
    size_t last = count ? count - 1 : 0, up = action == ACTION_UP ? 1 : page;
    switch (action) {
    case ACTION_UP:
    case ACTION_PAGE_UP:
        *at -= *at < up ? *at : up;
        return true;
    case ACTION_DOWN:
    case ACTION_PAGE_DOWN:
        *at += action == ACTION_DOWN ? 1 : page;
        break;
    case ACTION_FIRST:
        *at = 0;
        break;
    case ACTION_LAST:
        *at = last;
        break;
    default:
        return false;
    }
    if (*at > last) *at = last;
    return true;
}

void keys_print_markdown(FILE *out)
{
    for (int context = 0; context < CONTEXT_COUNT; context++) {
        fprintf(out, "%s| %s | |\n| --- | --- |\n", context ? "\n" : "",
                key_context_title((enum key_context)context));
        for (size_t i = 0; i < key_count; i++) {
            if (keys[i].context != (enum key_context)context) continue;
            fputs("| ", out);
            for (const char *c = keys[i].label; *c;) { /* each word is one key */
                fputc('`', out);
                while (*c && *c != ' ') fputc(*c++, out);
                fputc('`', out);
                if (*c == ' ') fputc(*c++, out);
            }
            fprintf(out, " | %s |\n", keys[i].help);
        }
    }
}
