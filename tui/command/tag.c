/* `anneal tag`: what a user writes on runs: tags, a note, another name. It changes all runs named, or
 * none. */
#include <stdlib.h>
#include <string.h>

#include "runs/annotation.h"
#include "tui/command/command.h"
#include "tui/command/output.h"

struct options {
    const char *note, *name;
};

static bool is_tag(const char *word)
{
    return *word == '+' || *word == '-';
}

static enum status print(struct store *store, const char *id, struct err *err)
{
    struct run_info now;
    enum status status = run_get(store, id, &now, err);
    if (!status)
        output_say("%s: name %s, tags %s, note %s", now.id, now.name, *now.tags ? now.tags : "none",
                   *now.note ? now.note : "none");
    return status;
}

/* Says so where the name that was given has been changed, as training does. */
static void report_name(const char *name)
{
    char clean[RUN_NAME_CLEAN_MAX];
    run_name_clean(name, clean, sizeof clean);
    if (strcmp(name, clean) != 0)
        output_say("the run is called %s: " RUN_NAME_RULE, clean, RUN_NAME_CLEAN_MAX - 1);
}

static enum status run_tag(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct arena arena = {0};
    struct store *store = NULL;
    struct run_info *runs = NULL;
    size_t count = 0, tag_count = 0;
    const char **names = calloc((size_t)words->count + 1, 2 * sizeof *names), **tags = names + words->count;
    struct annotation annotation = {.tags = tags, .note = o->note, .name = o->name};
    if (!names) return err_no_memory(err, "the command line");
    for (int i = 0; i < words->count; i++)
        if (is_tag(words->words[i]))
            tags[tag_count++] = words->words[i];
        else
            names[count++] = words->words[i];
    enum status status = STATUS_OK;
    if (!count)
        status = err_set(err, STATUS_USAGE, "needs a RUN besides the tags");
    else if (!tag_count && !o->note && !o->name)
        status = err_set(err, STATUS_USAGE, "needs +TAG, -TAG, --note or --name");
    else if (o->name && count > 1)
        status = err_set(err, STATUS_USAGE, "--name is given to one run, not to %zu", count);
    else if (o->note && strlen(o->note) >= RUN_NOTE_MAX)
        status = err_set(err, STATUS_USAGE, "--note: %zu bytes are too many (a note has at most %d)",
                         strlen(o->note), RUN_NOTE_MAX - 1);
    if (!status) status = store_open(NULL, STORE_CHANGE, &store, err);
    if (!status) status = run_find_all(store, names, count, &arena, &runs, err);
    for (size_t i = 0; !status && i < count; i++) names[i] = runs[i].id;
    annotation.tag_count = tag_count;
    if (!status) status = runs_annotate(store, names, count, &annotation, err);
    if (!status && o->name) report_name(o->name);
    for (size_t i = 0; !status && i < count; i++) status = print(store, names[i], err);
    store_close(store);
    arena_release(&arena);
    free(names);
    return status;
}

static const struct option_spec options[] = {
    OPTION("note", OPTION_ANY_TEXT, AT(note), "TEXT", "a note of one line; an empty one removes it"),
    OPTION("name", OPTION_TEXT, AT(name), "NAME",
           "another name; the run's id and its folder keep the old one"),
    {0},
};

const struct command command_tag = COMMAND(
    "tag", "RUN... [+TAG] [-TAG]", 1, -1, options, "tag runs, note something down, rename a run", run_tag,
    (struct options){0}, .hyphen = true,
    .about = "Adds and removes tags of runs, sets a note or a name. `anneal runs --filter tag=TAG` lists the "
             "runs with a tag. A run with the tag archived is left out of lists.",
    .notes = "A tag is one word without + or - at its beginning.\n"
             "\n"
             "  anneal tag latest +baseline\n"
             "  anneal tag latest +good -baseline --note 'the first one without dropout'\n"
             "  anneal tag latest --name first");
