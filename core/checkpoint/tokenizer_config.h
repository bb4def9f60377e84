/* tokenizer_config.json of the folders that we write: with it transformers encodes exactly as the
 * tokenizer.json next to it says, which is what anneal does. By itself transformers takes a class of the
 * architecture, which splits text in its own way. */
#ifndef ANNEAL_CORE_CHECKPOINT_TOKENIZER_CONFIG_H
#define ANNEAL_CORE_CHECKPOINT_TOKENIZER_CONFIG_H

#include "core/base/err.h"

/* Makes `folder`, with its config.json in place, name that class: a new file, or the keys of the one that is
 * there with only the class changed. A file that names it already, or is no JSON object, stays word for word.
 */
enum status tokenizer_config_settle(const char *folder, struct err *err);

#endif
