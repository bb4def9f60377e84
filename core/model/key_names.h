/* Which key of the configuration was meant by a name that no key has: for the sentence about an unknown one.
 */
#ifndef ANNEAL_CORE_MODEL_KEY_NAMES_H
#define ANNEAL_CORE_MODEL_KEY_NAMES_H

/* A key, as "train.learning_rate", or of a parameter group its last part, for "section.name" or a name
 * without a section: one that other programs use (`lr`, config.def's ALIASES), the nearest in spelling, or
 * the same name in another section. NULL: none of these. */
const char *key_name_suggest(const char *full);

#endif
