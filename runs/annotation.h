/* What users write on runs: names, tags and notes. A trainer never changes them. */
#ifndef ANNEAL_RUNS_ANNOTATION_H
#define ANNEAL_RUNS_ANNOTATION_H

#include "runs/run.h"

#define TAG_ARCHIVED "archived" /* keeps a run out of lists that do not ask for it */

enum { TAG_MAX = 40 }; /* bytes of a tag */

/* Changes the name of a run; its id and its folder keep the old one. The name is cleaned first
 * (run_name_clean); STATUS_USAGE if nothing is left of it, or for "latest". */
enum status run_rename(struct store *store, const char *id, const char *name, struct err *err);

/* Replaces the note: one line, cleaned and cut to RUN_NOTE_MAX - 1 bytes; "" removes it. */
enum status run_set_note(struct store *store, const char *id, const char *note, struct err *err);

/* Replaces the tags by the words of `tags`, which blanks or commas separate. STATUS_USAGE for a word that is
 * no tag, and for more than RUN_TAGS_MAX - 1 bytes of them. */
enum status run_set_tags(struct store *store, const char *id, const char *tags, struct err *err);

/* Adds each "+tag" or "tag" and removes each "-tag" of `count` words; all of them or, after an error, none.
 */
enum status run_change_tags(struct store *store, const char *id, const char *const *words, size_t count,
                            struct err *err);

bool run_has_tag(const struct run_info *run, const char *tag);

#endif
