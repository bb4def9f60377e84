/* See run_change.h. */
#include "tui/view/run_change.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/reference.h"
#include "tui/view/labels.h"

enum { WORDS_MAX = RUN_NAME_MAX + 16 };

bool run_change_takes_many(enum action action)
{
    return action == ACTION_TAGS || action == ACTION_ARCHIVE || action == ACTION_DELETE;
}

bool run_change_knows(enum action action)
{
    return run_change_takes_many(action) || action == ACTION_NOTE || action == ACTION_RENAME;
}

/* Names the runs: a name, or "3 runs". */
static const char *words_of(const struct run_info *const *runs, size_t count, char buf[WORDS_MAX])
{
    if (count > 1)
        snprintf(buf, WORDS_MAX, "%zu runs", count);
    else
        clean_line(buf, WORDS_MAX, runs[0]->name);
    return buf;
}

/* How many other runs refer to checkpoints of these; 0 where that cannot be read now. */
static size_t count_dependents(struct workbench *workbench, const struct run_info *const *runs, size_t count)
{
    struct arena arena = {0};
    struct run_references others = {0};
    const char **ids = arena_alloc_array(&arena, count, sizeof *ids);
    for (size_t i = 0; ids && i < count; i++) ids[i] = runs[i]->id;
    if (ids) (void)run_dependents(workbench->store, ids, count, &arena, &others, NULL);
    arena_release(&arena);
    return others.count;
}

/* Checks that the runs can be deleted, and asks. */
static bool delete_runs(struct workbench *workbench, const struct run_info *const *runs, size_t count,
                        bool confirmed)
{
    char words[WORDS_MAX], others[48] = "";
    size_t needing;
    struct run_lock lock;
    words_of(runs, count, words);
    for (size_t i = 0; i < count; i++) {
        if (status_is_live(runs[i]->status)) {
            workbench_say(workbench, "%s is training: stop it before deleting it", runs[i]->name);
            return false;
        }
        if (!workbench_did(workbench,
                           run_lock_acquire(workbench->store, runs[i]->id, &lock, &workbench->err)))
            return false;
        run_lock_release(&lock); /* until then it can be resumed, and then stays */
    }
    if (confirmed) {
        workbench_say(workbench, "%s %s deleted when you leave; %s brings %s back", words,
                      count == 1 ? "is" : "are", WORKBENCH_KEY(workbench, ACTION_UNDO),
                      count == 1 ? "it" : "them");
    } else {
        if ((needing = count_dependents(workbench, runs, count)))
            snprintf(others, sizeof others, " %zu other run%s may need %s.", needing,
                     text_plural((int64_t)needing), count == 1 ? "it" : "them");
        workbench_ask(workbench, ACTION_DELETE, "Delete %s with %s history and checkpoints?%s", words,
                      count == 1 ? "its" : "their", others);
    }
    return confirmed;
}

/* Says so where the name that was typed has been changed, as training does. */
static void report_name(struct workbench *workbench, const char *name)
{
    char clean[RUN_NAME_CLEAN_MAX];
    run_name_clean(name, clean, sizeof clean);
    if (strcmp(name, clean) != 0)
        workbench_say(workbench, "the run is called %s: " RUN_NAME_RULE, clean, RUN_NAME_CLEAN_MAX - 1);
}

/* Says what is noted now: a narrow list has no room for it. */
static void report_words(struct workbench *workbench, const struct run_info *const *runs, size_t count,
                         enum action action)
{
    char words[WORDS_MAX];
    const char *what = action == ACTION_TAGS ? "tags" : "note";
    struct run_info run;
    if (count > 1)
        workbench_say(workbench, "%s of %s changed", what, words_of(runs, count, words));
    else if (workbench_did(workbench, run_find(workbench->store, runs[0]->id, &run, &workbench->err))) {
        const char *text = action == ACTION_TAGS ? run.tags : run.note;
        workbench_say(workbench, "%s of %s: %s", what, run.name, *text ? text : "none");
    }
}

/* Makes a change of each run. STATUS_BUSY: it waits, and the last row says so. */
static enum status change_runs(struct workbench *workbench, const struct run_info *const *runs, size_t count,
                               enum change_kind kind, const char *text)
{
    struct change change = {.kind = kind};
    enum status status = STATUS_OK;
    snprintf(change.text, sizeof change.text, "%s", text);
    for (size_t i = 0; i < count && (!status || status == STATUS_BUSY); i++) {
        memcpy(change.run_id, runs[i]->id, sizeof change.run_id);
        status = workbench_change(workbench, &change, NULL);
    }
    return status;
}

/* Archives the runs, or brings all back if one of them is archived. */
static bool archive(struct workbench *workbench, const struct run_info *const *runs, size_t count)
{
    char words[WORDS_MAX];
    const char *change = "+" TAG_ARCHIVED;
    for (size_t i = 0; i < count; i++)
        if (run_has_tag(runs[i], TAG_ARCHIVED)) change = "-" TAG_ARCHIVED;
    enum status status = change_runs(workbench, runs, count, CHANGE_TAGS, change);
    if (status == STATUS_BUSY) return false;
    if (workbench_did(workbench, status))
        workbench_say(workbench,
                      *change == '+' ? "%s archived: /archived shows what is" : "%s no longer archived",
                      words_of(runs, count, words));
    return !status;
}

static void prompt(struct workbench *workbench, const struct run_info *const *runs, size_t count,
                   enum action action)
{
    char words[WORDS_MAX];
    words_of(runs, count, words);
    if (count > 1)
        workbench_prompt(workbench, action, "", "tags of %s, such as +new -old:", words);
    else if (action == ACTION_TAGS)
        workbench_prompt(workbench, action, runs[0]->tags, "tags of %s:", words);
    else if (action == ACTION_NOTE)
        workbench_prompt(workbench, action, runs[0]->note, "note of %s:", words);
    else
        workbench_prompt(workbench, action, runs[0]->name, "name of %s:", words);
}

bool run_change(struct workbench *workbench, const struct run_info *const *runs, size_t count,
                enum action action, uint32_t code)
{
    if (action == ACTION_DELETE) return delete_runs(workbench, runs, count, code == K_CONFIRMED);
    if (action == ACTION_ARCHIVE) return archive(workbench, runs, count);
    if (code != K_ENTERED) {
        prompt(workbench, runs, count, action);
        return false;
    }
    /* words such as +new -old change tags; of one run, other words replace them all */
    const char *text = workbench->answer.text;
    enum change_kind tags = count > 1 || *text == '+' || *text == '-' ? CHANGE_TAGS : CHANGE_ALL_TAGS;
    enum status status = change_runs(workbench, runs, count,
                                     action == ACTION_TAGS   ? tags
                                     : action == ACTION_NOTE ? CHANGE_NOTE
                                                             : CHANGE_NAME,
                                     text);
    if (status == STATUS_BUSY) return false;
    if (!workbench_did(workbench, status))
        workbench->prompted = action;
    else if (action == ACTION_RENAME)
        report_name(workbench, text);
    else
        report_words(workbench, runs, count, action);
    return !status;
}
