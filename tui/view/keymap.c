/* See keymap.h. */
#include "tui/view/keymap.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

static const char prefix[] = "key.";

#define LOWER_NAME(name, title) #name,
static const char *const context_names[CONTEXT_COUNT] = {CONTEXTS(LOWER_NAME)};

/* Binds key i as tui/keymap.def does. */
static void reset(struct keymap *keymap, size_t i)
{
    struct key_binding *binding = &keymap->of[i];
    binding->code = keys[i].code, binding->other = keys[i].other;
    snprintf(binding->label, sizeof binding->label, "%s", keys[i].label);
}

void keymap_init(struct keymap *keymap)
{
    for (size_t i = 0; i < KEY_COUNT; i++) reset(keymap, i);
}

uint32_t keymap_code(const char *name)
{
    static const struct {
        const char *name;
        uint32_t code;
    } named[] = {
        {"Space", ' '},        {"Tab", K_TAB},       {"Shift-Tab", K_BACK_TAB},
        {"Enter", K_ENTER},    {"Esc", K_ESCAPE},    {"Up", K_UP},
        {"Down", K_DOWN},      {"Left", K_LEFT},     {"Right", K_RIGHT},
        {"Home", K_HOME},      {"End", K_END},       {"PgUp", K_PAGE_UP},
        {"PgDn", K_PAGE_DOWN}, {"Delete", K_DELETE}, {"Backspace", K_BACKSPACE},
        {"Move", K_MOVE},      {"Click", K_CLICK},   {"Drag", K_DRAG},
        {"Wheel", K_WHEEL},
    };
    const char *rest = name;
    uint32_t character = glyph_next(&rest);
    if (character && !*rest) return utf8_is_control(character) || character == ' ' ? K_NONE : character;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcasecmp(named[i].name, name) == 0) return named[i].code;
    /* Ctrl-Z suspends, terminals may take Ctrl-Q and Ctrl-S; others are Tab, Enter and Backspace */
    if (strncasecmp(name, "Ctrl-", 5) == 0 && isalpha((unsigned char)name[5]) && !name[6] &&
        !strchr("hijmqsz", tolower((unsigned char)name[5])))
        return K_CTRL((uint32_t)name[5]);
    int number = strlen(name) <= 3 && toupper((unsigned char)*name) == 'F' ? atoi(name + 1) : 0;
    return number >= 1 && number <= K_F12 - K_F1 + 1 ? K_F1 + (uint32_t)number - 1 : K_NONE;
}

/* The index of the key that "key.CONTEXT.COMMAND" names; KEY_COUNT: there is none. */
static size_t find(const char *setting)
{
    char name[COMMAND_NAME_MAX];
    const char *dot = strchr(setting + strlen(prefix), '.');
    size_t length = dot ? (size_t)(dot - setting) - strlen(prefix) : 0, i = 0;
    for (; dot && i < KEY_COUNT; i++) {
        const char *context = context_names[keys[i].context];
        if (strlen(context) == length && strncasecmp(context, setting + strlen(prefix), length) == 0 &&
            strcmp(command_name(keys[i].action, name), dot + 1) == 0)
            return i;
    }
    return KEY_COUNT;
}

/* Reads the names of at most two keys. */
static bool bind(struct key_binding *binding, enum key_context context, const char *value, char *why,
                 size_t size)
{
    char words[sizeof binding->label], *rest = words, *word;
    uint32_t codes[2] = {K_NONE, K_NONE};
    int n = 0;
    if (strlen(value) >= sizeof words) {
        snprintf(why, size, "is no name of a key, or of two");
        return false;
    }
    strcpy(words, value);
    while ((word = strsep(&rest, " \t")) != NULL) {
        uint32_t code = keymap_code(word);
        if (!*word) continue;
        if (code == K_NONE || n == 2) {
            snprintf(why, size, code ? "more than two keys" : "\"%s\" is no key, or one that no program gets",
                     word);
            return false;
        }
        if (context == CONTEXT_FORM && key_is_text(code)) {
            snprintf(why, size, "\"%s\" is text in the form", word);
            return false;
        }
        codes[n++] = code;
    }
    binding->code = codes[0], binding->other = codes[1];
    strcpy(binding->label, value);
    for (char *c = binding->label; *c; c++)
        if (*c == '\t') *c = ' ';
    return true;
}

/* Another key that has a code of key i where both are heard; KEY_COUNT: none. */
static size_t find_rival(const struct keymap *keymap, size_t i)
{
    for (size_t k = 0; k < KEY_COUNT; k++) {
        bool together = keys[k].context == keys[i].context || keys[k].context == CONTEXT_ANY ||
                        keys[i].context == CONTEXT_ANY;
        const struct key_binding *a = &keymap->of[i], *b = &keymap->of[k];
        if (k == i || !together) continue;
        /* as in keymap.def, y and Esc answer questions whatever they mean elsewhere */
        if ((keys[k].context == CONTEXT_CONFIRM) != (keys[i].context == CONTEXT_CONFIRM)) continue;
        if ((a->code && (a->code == b->code || a->code == b->other)) ||
            (a->other && (a->other == b->code || a->other == b->other)))
            return k;
    }
    return KEY_COUNT;
}

static void report(char *problem, size_t size, size_t *count, const struct settings *settings, size_t line,
                   const char *why)
{
    const struct setting *setting = &settings->lines[line];
    if ((*count)++ == 0)
        snprintf(problem, size, "%s/workbench.ini:%zu: %s = %s: %s", settings->home, line + 1, setting->key,
                 setting->value, why);
}

void keymap_read(struct keymap *keymap, const struct settings *settings, char *problem, size_t size)
{
    size_t line_of[KEY_COUNT] = {0}, count = 0; /* line + 1 that binds the key; 0: none */
    char why[160], name[COMMAND_NAME_MAX];
    problem[0] = '\0';
    for (size_t line = 0; line < settings->count; line++) {
        const struct setting *setting = &settings->lines[line];
        if (!setting->key || strncmp(setting->key, prefix, strlen(prefix)) != 0) continue;
        size_t i = find(setting->key);
        if (i == KEY_COUNT) {
            snprintf(why, sizeof why,
                     "no such command (the list of keys, docs/reference/keys.md, names them)");
        } else if (line_of[i]) {
            snprintf(why, sizeof why, "line %zu binds it already", line_of[i]);
        } else if (bind(&keymap->of[i], keys[i].context, setting->value, why, sizeof why)) {
            line_of[i] = line + 1;
            continue;
        }
        report(problem, size, &count, settings, line, why);
    }
    /* a line whose key is taken loses; without it another line may lose its key, too */
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < KEY_COUNT; i++) {
            size_t rival = line_of[i] ? find_rival(keymap, i) : KEY_COUNT;
            if (rival == KEY_COUNT) continue;
            snprintf(why, sizeof why, "the key is taken by %s (%s)", command_name(keys[rival].action, name),
                     keys[rival].help);
            report(problem, size, &count, settings, line_of[i] - 1, why);
            reset(keymap, i);
            line_of[i] = 0;
            again = true;
        }
    }
    if (count > 1) text_add(problem, size, "; ", "and %zu more line%s", count - 1, count > 2 ? "s" : "");
}
