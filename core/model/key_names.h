/* Suggests the configuration key that was meant, for the error about an unknown one. */
#ifndef ANNEAL_CORE_MODEL_KEY_NAMES_H
#define ANNEAL_CORE_MODEL_KEY_NAMES_H

/* The likely key for "section.name", or for a name without a section: the key of an alias (`lr`, config.def's
 * ALIASES), the nearest spelling, or the same name in another section. "train.learning_rate", or the last
 * part of a parameter group's key; NULL: none. */
const char *key_name_suggest(const char *full);

#endif
