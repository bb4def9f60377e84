/* The data that a configuration names: text, token files, or conversations. */
#ifndef ANNEAL_TUI_SESSION_CONFIGURED_CORPUS_H
#define ANNEAL_TUI_SESSION_CONFIGURED_CORPUS_H

#include "core/model/config.h"
#include "datasets/corpus.h"

/* Opens data.train and, if it is set, data.val, with the cache in `home`. After a failure *key is the key
 * whose file may be missing. */
enum status configured_corpus_open(const struct config *config, const char *home,
                                   const struct progress *progress, struct corpus *out, const char **key,
                                   struct err *err);

#endif
