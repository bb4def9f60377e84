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
    switch (context) {
    case CONTEXT_ANY:
        return "Everywhere";
    case CONTEXT_RUNS:
        return "List of runs";
    case CONTEXT_RUN:
        return "One run";
    case CONTEXT_MEMORY:
        return "Memory of a run";
    case CONTEXT_PROFILE:
        return "Profile of a run";
    case CONTEXT_FORM:
        return "New run";
    case CONTEXT_CONFIRM:
        return "Questions";
    case CONTEXT_COUNT:
        break;
    }
    return "";
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
