/* See command_line.h. */
#include "tui/view/command_line.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

static const char blanks[] = " \t";

/* The commands that take an argument: the view gets it as the answer to its prompt (K_ENTERED). */
static const struct argument {
    enum action action;
    const char *name;
    const char *words; /* those that it may be, with | between; NULL: any text */
} arguments[] = {
    {ACTION_FILTER, "FILTER", NULL},
    {ACTION_SORT_BY, "FIELD,-FIELD", NULL},
    {ACTION_TAGS, "+TAG -TAG", NULL},
    {ACTION_NOTE, "TEXT", NULL},
    {ACTION_RENAME, "NAME", NULL},
    {ACTION_LR, "FACTOR", NULL},
    {ACTION_SAVE, "FILE", NULL},
    {ACTION_PALETTE, "PALETTE", "auto|dark|light|none"},
    {ACTION_NOTIFY, "NOTICE", "off|bell|osc9|osc777"},
};

static const struct argument *argument_of(enum action action)
{
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (arguments[i].action == action) return &arguments[i];
    return NULL;
}

const char *command_line_words(enum action action)
{
    const struct argument *argument = argument_of(action);
    return argument ? argument->words : NULL;
}

static bool is_heard(const struct key *key, enum key_context context)
{
    return (key->context == context || key->context == CONTEXT_ANY) && key->action != ACTION_COMMAND &&
           !key_is_mouse(key->code);
}

/* Splits a line at the first blanks after its first word. */
static const char *split(const char *line, char name[COMMAND_NAME_MAX])
{
    line += strspn(line, blanks);
    size_t n = strcspn(line, blanks);
    snprintf(name, COMMAND_NAME_MAX, "%.*s", (int)(n < COMMAND_NAME_MAX ? n : COMMAND_NAME_MAX), line);
    line += n;
    line += strspn(line, blanks);
    return *line ? line : NULL;
}

bool command_line_find(enum key_context context, const char *line, struct typed_command *out, char *why,
                       size_t size)
{
    char typed[COMMAND_NAME_MAX], name[COMMAND_NAME_MAX], fitting[160] = "";
    const char *argument = split(line, typed);
    size_t found = 0;
    why[0] = '\0';
    if (!*typed) return false;
    if (strcmp(typed, "q") == 0 || strcmp(typed, "quit") == 0) strcpy(typed, "leave"); /* as elsewhere */
    for (size_t i = 0; i < KEY_COUNT; i++) {
        command_name(keys[i].action, name);
        bool exact = strcmp(name, typed) == 0;
        if (!is_heard(&keys[i], context) || strncmp(name, typed, strlen(typed)) != 0) continue;
        if (argument && !argument_of(keys[i].action)) {
            if (exact) snprintf(why, size, "%s takes no argument", name);
            continue; /* "sort -best" is sort-by */
        }
        *out = (struct typed_command){&keys[i], argument};
        if (exact) return true;
        text_add(fitting, sizeof fitting, ", ", "%s", name);
        found++;
    }
    if (found == 1) return true;
    if (found > 1)
        snprintf(why, size, "\"%s\" may be %s", typed, fitting);
    else if (!*why)
        snprintf(why, size, "no command \"%s\" here (Tab after : lists them)", typed);
    return false;
}

/* Fills names[] with the commands heard; returns how many. */
static size_t list_names(enum key_context context, const bool without[ACTION_COUNT],
                         char text[KEY_COUNT][COMMAND_NAME_MAX], const char *names[KEY_COUNT])
{
    size_t count = 0;
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (is_heard(&keys[i], context) && !without[keys[i].action])
            names[count] = command_name(keys[i].action, text[count]), count++;
    return count;
}

bool command_line_complete(enum key_context context, const bool without[ACTION_COUNT], struct input *input)
{
    char text[KEY_COUNT][COMMAND_NAME_MAX], typed[COMMAND_NAME_MAX], words[128], *rest = words,
                                                                                 line[COMMAND_NAME_MAX + 2];
    const char *names[KEY_COUNT], *blank = strpbrk(input->text, blanks);
    struct typed_command command;
    size_t count = 0;
    if (!blank || input->text + input->cursor <= blank) {
        count = list_names(context, without, text, names);
        if (input_complete(input, names, count, blanks, words, sizeof words) == 1) {
            split(input->text, typed);
            bool takes = command_line_find(context, typed, &command, words, sizeof words) &&
                         argument_of(command.key->action);
            if (takes && !input->text[input->cursor]) input_key(input, ' ');
        }
        return true;
    }
    split(input->text, typed);
    snprintf(line, sizeof line, "%s -", typed); /* the command that takes an argument */
    if (!command_line_find(context, line, &command, words, sizeof words)) return true;
    const struct argument *argument = argument_of(command.key->action);
    if (!argument || !argument->words) return !argument;
    snprintf(words, sizeof words, "%s", argument->words);
    for (char *word; (word = strsep(&rest, "|")) != NULL;) names[count++] = word;
    input_complete(input, names, count, blanks, typed, sizeof typed);
    return true;
}

char *command_line_describe(const struct keymap *keymap, enum key_context context,
                            const bool without[ACTION_COUNT], const char *line, char *buf, size_t size)
{
    char text[KEY_COUNT][COMMAND_NAME_MAX], typed[COMMAND_NAME_MAX];
    const char *names[KEY_COUNT];
    const char *rest = split(line, typed);
    struct typed_command command;
    if (command_line_find(context, line, &command, buf, size)) {
        const struct argument *argument = argument_of(command.key->action);
        const char *label = keymap->of[command.key - keys].label;
        snprintf(buf, size, "%s%s%s%s%s%s: %s", command_name(command.key->action, typed), argument ? " " : "",
                 argument ? argument->name : "", *label ? "  (" : "", label, *label ? ")" : "",
                 argument && argument->words && !rest ? argument->words : command.key->help);
        return buf;
    }
    if (rest) return buf;                    /* why there is none */
    static const bool nothing[ACTION_COUNT]; /* Enter, too, asks which of all those that begin so is meant */
    size_t count = list_names(context, *typed ? nothing : without, text, names), fitting = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], typed, strlen(typed)) != 0) continue;
        if (!fitting++) buf[0] = '\0'; /* else it says why there is none */
        text_add(buf, size, " ", "%s", names[i]);
    }
    return buf;
}
