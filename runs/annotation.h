/* Tags and notes, which users write. A trainer never changes them. */
#ifndef ANNEAL_RUNS_ANNOTATION_H
#define ANNEAL_RUNS_ANNOTATION_H

#include "runs/run.h"

#define TAG_ARCHIVED "archived" /* keeps a run out of lists that do not ask for it */
#define TAG_SWEEP    "sweep:"   /* followed by the name of the sweep that the run is of */
#define TAG_RATES    "lr-find"  /* the run is a search for a learning rate, without weights */

enum { TAG_MAX = 40 }; /* bytes of a tag */

/* Replaces the note: one line, cleaned and cut to RUN_NOTE_MAX - 1 bytes; "" removes it. */
enum status run_set_note(struct store *store, const char *id, const char *note, struct err *err);

/* Whether this is a tag: one word without the signs that separate tags or have a meaning in filters. */
enum status tag_check(const char *tag, struct err *err);

/* Replaces the tags by the words of `tags`, which blanks or commas separate. STATUS_USAGE for a word that is
 * no tag, and for more than RUN_TAGS_MAX - 1 bytes of them. */
enum status run_set_tags(struct store *store, const char *id, const char *tags, struct err *err);

/* Adds tags to the run's others, in the write transaction that is open. */
enum status run_add_tags(struct store *store, const char *id, const char *tags, struct err *err);

/* Adds each "+tag" or "tag" and removes each "-tag" of `count` words; all of them or, after an error, none.
 */
enum status run_change_tags(struct store *store, const char *id, const char *const *words, size_t count,
                            struct err *err);

bool run_has_tag(const struct run_info *run, const char *tag);

/* The tag of the sweep that the run is of, borrowed, and its bytes: another tag may follow. NULL: of none. */
const char *run_sweep_tag(const struct run_info *run, size_t *bytes);

#endif
