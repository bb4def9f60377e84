/* See configured_corpus.h. */
#include "tui/session/configured_corpus.h"

#include <limits.h>
#include <string.h>

#include "core/base/file.h"
#include "core/model/data_format.h"
#include "core/model/generation_config.h"
#include "datasets/labelled.h"

static enum status open_both(const struct config *c, const struct text_reading *reading, const char *cache,
                             const struct progress *progress, struct corpus *out, const char **key,
                             struct err *err)
{
    const char *train = c->data.train, *tokenizer = c->data.tokenizer;
    *key = "data.train";
    enum status status = corpus_open(train, tokenizer, reading, cache, progress, out, err);
    size_t length = strlen(tokenizer);
    if (status && err && strncmp(err->text, tokenizer, length) == 0 && err->text[length] == ':')
        *key = "data.tokenizer";
    if (status || !*c->data.val) return status;
    *key = "data.val";
    status = corpus_open_validation(out, c->data.val, reading, cache, progress, err);
    if (status) corpus_close(out);
    return status;
}

enum status configured_corpus_open(const struct config *c, const char *home, const struct progress *progress,
                                   struct corpus *out, const char **key, struct err *err)
{
    char cache[PATH_MAX];
    struct chat_format format = {0};
    bool chats = format_traits(c->data.format)->answers;
    *key = "data.template";
    enum status status = file_format_path(cache, sizeof cache, err, "%s/data", home);
    if (!status && chats) status = chat_format_of_config(c, &format, err);
    if (!status && format_traits(c->data.format)->least_labels) { /* the task reads the texts itself */
        *key = "data.train";
        return labelled_tokenizer(c->data.train, c->data.text_column, c->data.tokenizer, progress, out, err);
    }
    bool ends = c->data.documents == DOCUMENTS_PACKED && c->data.end_token < 0; /* else texts have theirs */
    struct text_reading reading = {
        .text_key = c->data.text_column, .ends = ends && !chats, .conversations = chats ? &format : NULL};
    if (!status) status = open_both(c, &reading, cache, progress, out, key, err);
    chat_format_release(&format);
    return status;
}
