/* Tags, notes and new names, which users write. A trainer never changes them. */
#ifndef ANNEAL_RUNS_ANNOTATION_H
#define ANNEAL_RUNS_ANNOTATION_H

#include "runs/run.h"

#define TAG_ARCHIVED "archived" /* keeps a run out of lists that do not ask for it */
#define TAG_SWEEP    "sweep:"   /* followed by the name of the sweep that the run is of */
#define TAG_RATES    "lr-find"  /* the run is a search for a learning rate, without weights */

enum { TAG_MAX = 40 }; /* bytes of a tag */

/* Whether this is a tag: one word without the signs that separate tags or have a meaning in filters. */
enum status tag_check(const char *tag, struct err *err);
/* The same of all words of `tags`, which blanks or commas separate. */
enum status tags_check(const char *tags, struct err *err);

/* Replaces the tags by the words of `tags`, which blanks or commas separate. STATUS_USAGE for a word that is
 * no tag, and for more than RUN_TAGS_MAX - 1 bytes of them. */
enum status run_set_tags(struct store *store, const char *id, const char *tags, struct err *err);

/* Adds tags to the run's others, in the write transaction that is open. */
enum status run_add_tags(struct store *store, const char *id, const char *tags, struct err *err);

/* A change of what users write on runs. Fields that are NULL or 0 stay as they are. */
struct annotation {
    const char *const *tags; /* (tag_count) "+tag" or "tag" is added, "-tag" removed */
    size_t tag_count;
    const char *note; /* one line, cleaned and cut to RUN_NOTE_MAX - 1 bytes; "" removes it */
    const char *name; /* cleaned first (run_name_clean); the id and the folder keep the old one */
};

/* Changes all of these runs or, after an error, none. STATUS_USAGE for a word that is no tag, for more than
 * RUN_TAGS_MAX - 1 bytes of them, and for a name of which nothing is left or which is "latest";
 * STATUS_NOT_FOUND for a run that is gone. */
enum status runs_annotate(struct store *store, const char *const *ids, size_t count,
                          const struct annotation *annotation, struct err *err);

/* STATUS_NOT_FOUND: there is no run with this id. */
enum status run_exists(struct store *store, const char *id, struct err *err);

bool run_has_tag(const struct run_info *run, const char *tag);

/* The tag of the sweep that the run is of, borrowed, and its bytes: another tag may follow. NULL: of none. */
const char *run_sweep_tag(const struct run_info *run, size_t *bytes);
/* Raises *furthest, the most steps of the runs of a sweep that trained to their end. */
void run_sweep_pass(const struct run_info *run, int64_t *furthest);
/* Whether their sweep has left the run behind: it was stopped, and one that trained to its end came further.
 */
bool run_sweep_left(const struct run_info *run, int64_t furthest);

#endif
