/* `anneal clean`: removes what ended runs and caches hold on disk and nobody needs, by rule. It shows what
 * that is first, and asks; without a terminal it only shows, unless --yes takes the place of the answer. */
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/listing.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/cleaning.h"
#include "tui/session/process.h"

struct options {
    const char *filter;
    int only; /* bits of enum cleaning_kind; 0: all kinds */
    bool all_but_best, yes, dry_run, json;
    int progress;
};

struct command_state {
    const struct options *options;
    struct output out;
    struct progress_bar bar;
    struct progress_meter meter;
    struct cleaning cleaning;
    struct listing listing;
    struct arena arena; /* of named runs */
    size_t count;       /* items to remove */
    int64_t bytes;      /* that they hold; later: that were freed */
};

static bool is_wanted(const struct command_state *c, const struct cleaning_item *item)
{
    return item->kind != CLEANING_KEPT && (!c->options->only || c->options->only & 1 << item->kind);
}

/* ---- what can be removed ---- */

static enum status add_runs(struct command_state *c, const struct words *words, struct err *err)
{
    struct run_info *named = NULL;
    const struct listing *l = &c->listing;
    struct store *store = c->cleaning.store;
    const struct listing_request request = {.filter = c->options->filter};
    bool all = !words->count && !c->options->filter, trains = false;
    enum status status = STATUS_OK;
    if (words->count) {
        status = run_find_all(store, words->words, (size_t)words->count, &c->arena, &named, err);
        for (int i = 0; !status && i < words->count; i++)
            status = cleaning_add_run(&c->cleaning, &named[i], err);
        return status;
    }
    status = listing_read(&c->listing, store, err);
    if (!status) status = listing_set(&c->listing, store, &request, true, err);
    if (!status) status = filter_check(&l->filter, request.filter, err);
    for (size_t i = 0; !status && i < (all ? l->count : l->shown_count); i++) {
        const struct run_info *run = &l->runs[all ? i : l->shown[i]];
        if (c->options->only != 1 << CLEANING_CACHE) status = cleaning_add_run(&c->cleaning, run, err);
        trains = trains || run_may_train(store, run->id);
    }
    return status || !all ? status : cleaning_add_rest(&c->cleaning, trains, err);
}

static void print_item(struct output *o, const struct cleaning_item *item)
{
    output_item(o);
    OUTPUT_MEMBERS(o, "run", *item->run ? item->run : NULL, "name", *item->name ? item->name : NULL, "why",
                   item->why);
}

static void print_items(struct command_state *c)
{
    struct output *o = &c->out;
    const struct cleaning *cleaning = &c->cleaning;
    output_list(o, "items", "Can be removed");
    for (size_t i = 0; i < cleaning->count; i++) {
        const struct cleaning_item *item = &cleaning->items[i];
        if (!is_wanted(c, item)) continue;
        print_item(o, item);
        output_bytes(o, "bytes", item->bytes);
        c->count++;
        c->bytes += item->bytes;
    }
    output_list_end(o);
    output_list(o, "kept", "Stays");
    for (size_t i = 0; i < cleaning->count; i++)
        if (cleaning->items[i].kind == CLEANING_KEPT) print_item(o, &cleaning->items[i]);
    output_list_end(o);
    fflush(stdout);
}

/* ---- removing ---- */

/* A run that trains by now keeps what is its own; any other failure ends it. */
static enum status remove_items(struct command_state *c, struct err *err)
{
    enum status status = STATUS_OK;
    size_t removed = 0, failed = 0;
    c->bytes = 0;
    for (size_t i = 0; !status && i < c->cleaning.count; i++) {
        const struct cleaning_item *item = &c->cleaning.items[i];
        struct err why = {0};
        if (!is_wanted(c, item)) continue;
        if (interrupt_requested())
            return err_set(err, STATUS_INTERRUPTED, "interrupted after %zu of %zu (the same command goes on)",
                           removed, c->count);
        status = cleaning_remove(&c->cleaning, item, &why);
        if (!status || status == STATUS_NOT_FOUND) { /* or somebody else has removed it */
            removed++;
            if (!status) c->bytes += item->bytes;
            status = STATUS_OK;
        } else if (status == STATUS_BUSY || status == STATUS_IO) { /* others may be removed all the same */
            output_warn("%s", why.text);
            failed += status == STATUS_IO;
            status = STATUS_OK;
        } else {
            *err = why;
        }
    }
    if (status || !failed) return status;
    return err_set(err, STATUS_IO, "%zu of %zu item%s could not be removed", failed, c->count,
                   text_plural((int64_t)c->count));
}

/* Whether to remove what was shown. */
static bool is_agreed(const struct command_state *c)
{
    const struct options *o = c->options;
    if (!c->count || o->dry_run) return false;
    if (o->yes) return true;
    if (o->json || !isatty(STDIN_FILENO)) {
        fputs("nothing was removed: --yes removes it\n", stderr);
        return false;
    }
    if (output_ask("Remove %zu item%s (%s)?", c->count, text_plural((int64_t)c->count), TEXT_BYTES(c->bytes)))
        return true;
    fputs("nothing was removed\n", stderr);
    return false;
}

static enum status clean(struct command_state *c, const struct words *words, struct err *err)
{
    enum status status = cleaning_begin(&c->cleaning, err);
    if (!status) status = add_runs(c, words, err);
    progress_bar_clear(&c->bar);
    if (status) return status;
    output_begin(&c->out, c->options->json);
    print_items(c);
    bool agreed = is_agreed(c);
    if (agreed)
        status = remove_items(c, err);
    else if (interrupt_requested())
        status = err_set(err, STATUS_INTERRUPTED, "%s", "");
    if (!c->options->json && !c->count) fputs("there is nothing to remove\n", stderr);
    if (c->options->json) output_bytes(&c->out, "bytes", c->bytes);
    if (c->options->json) output_flag(&c->out, "removed", agreed && !status);
    if (!c->options->json && agreed) fprintf(stderr, "freed %s\n", TEXT_BYTES(c->bytes));
    enum status written = output_end(&c->out, status ? NULL : err);
    return status ? status : written;
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct command_state c = {.options = o};
    char database[PATH_MAX], caches[PATH_MAX];
    if (o->filter && words->count) return err_set(err, STATUS_USAGE, "give runs or --filter, not both");
    if (o->only == 1 << CLEANING_CACHE && (o->filter || words->count))
        return err_set(err, STATUS_USAGE, "--only caches: a cache belongs to no run (leave %s out)",
                       o->filter ? "--filter" : "the runs");
    if (o->all_but_best && o->only && !(o->only & 1 << CLEANING_CHECKPOINT))
        return err_set(err, STATUS_USAGE, "--all-but-best is of checkpoints, which --only leaves out");
    enum status status = store_path(NULL, database, err);
    if (!status) status = file_in_home("data", caches, sizeof caches, err);
    if (!status && !file_exists(database) && !file_exists(caches))
        return err_set(err, STATUS_NOT_FOUND, "%s: there is no run database, so there are no runs to clean",
                       database);
    if (!status) status = store_open(NULL, STORE_READ, &c.cleaning.store, err);
    if (status) return status;
    progress_bar_init(&c.bar, stderr, o->progress);
    c.meter = (struct progress_meter){&c.bar.progress, "reading checkpoints", 0, 0, 0};
    c.cleaning.meter = &c.meter;
    c.cleaning.all_but_best = o->all_but_best;
    status = clean(&c, words, err);
    struct store *store = c.cleaning.store;
    listing_release(&c.listing);
    cleaning_release(&c.cleaning);
    arena_release(&c.arena);
    store_close(store);
    return status;
}

static const struct option_spec options[] = {
    OPTION("only", OPTION_CHOICES, AT(only), "checkpoints|damaged|caches",
           "only this, or several with commas between (default: all three)"),
    OPTION("all-but-best", OPTION_FLAG, AT(all_but_best), NULL,
           "also the newest checkpoint of a run whose best one is whole: it is then used, forked and resumed "
           "from its best one"),
    OPTION("filter", OPTION_TEXT, AT(filter), "EXPR", "of the runs that pass, as for `anneal runs`"),
    OPTION("yes", OPTION_FLAG, AT(yes), NULL, "removes without asking", .letter = 'y'),
    OPTION("dry-run", OPTION_FLAG, AT(dry_run), NULL, "only shows what would be removed"),
    JSON_OPTION,
    PROGRESS_OPTION,
    {0},
};

const struct command command_clean = COMMAND(
    "clean", "RUN...", 0, -1, options, "free space: remove checkpoints and caches that nobody needs", run,
    (struct options){0},
    .about =
        "Shows what can be removed, and how much that frees, then asks. Without a terminal it only shows; "
        "--yes takes the place of the answer. With RUN or --filter, of these runs; else of all ended runs, "
        "and the caches.\n\n"
        "  checkpoints  of ended runs all but the best one and the newest, from which the run can be "
        "resumed\n"
        "  damaged      checkpoints with a wrong checksum or set aside, if the run has one that is whole;\n"
        "               what killed processes have left half written or half removed\n"
        "  caches       texts encoded for training, which are encoded again when they are needed",
    .notes =
        "Never removed: anything of a run that trains, also on another host; a checkpoint that a fork "
        "or another run refers to; the history of a run; files that are not anneal's. Checkpoints that "
        "stay are read whole first, so that none stays that is damaged in place of one that is not. "
        "Whoever is killed here leaves nothing that looks complete, and the next call removes the rest.\n"
        "\n"
        "  anneal clean                           show, then ask\n"
        "  anneal clean --only damaged,caches --yes\n"
        "  anneal clean --filter 'age>30d' --all-but-best\n"
        "\n"
        "`anneal runs --columns name,disk --sort -disk` shows the largest runs, `anneal delete` removes "
        "whole runs.");
