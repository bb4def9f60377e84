/* See tokenizer_pipeline.h. */
#include "datasets/tokenizer_pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum { PATTERN_MAX = 64 << 10 };

enum status reading_corrupt(struct reading *r, const char *field, const char *what)
{
    return err_set(r->err, STATUS_CORRUPT, "%s: %s: %s (is this a tokenizer.json?)", r->name, field, what);
}

enum status reading_unsupported(struct reading *r, const char *field, const char *what)
{
    return err_set(r->err, STATUS_FAILED,
                   "%s: %s: %.100s is not supported (anneal reads byte-level and SentencePiece-like BPE)",
                   r->name, field, what);
}

enum status reading_no_memory(struct reading *r)
{
    return err_no_memory(r->err, "the tokenizer %s", r->name);
}

const char *reading_type(json_t *component)
{
    const char *type = json_string_value(json_object_get(component, "type"));
    return type ? type : "a component without \"type\"";
}

static bool is_type(json_t *component, const char *type)
{
    return strcmp(reading_type(component), type) == 0;
}

typedef enum status component_reader(struct reading *r, json_t *component, void *context);

/* Reads a component, or those that a Sequence has under the key `list`; null is none. */
static enum status read_components(struct reading *r, json_t *component, const char *list,
                                   component_reader *read, void *context)
{
    enum status status = STATUS_OK;
    json_t *inside;
    size_t index;
    if (!component || json_is_null(component)) return STATUS_OK;
    if (!is_type(component, "Sequence")) return read(r, component, context);
    json_array_foreach(json_object_get(component, list), index, inside)
        if ((status = read_components(r, inside, list, read, context))) break;
    return status;
}

/* A text that outlives the file. NULL: the value is no string, or memory ran out, with *status set. */
static const char *read_text(struct reading *r, json_t *value, const char *field, enum status *status)
{
    const char *text = NULL;
    if (!json_is_string(value))
        *status = reading_corrupt(r, field, "is not a text");
    else if (!(text = arena_strdup(&r->bpe.arena, json_string_value(value))))
        *status = reading_no_memory(r);
    return text;
}

/* The text that a Replace looks for; NULL with *status set if it is a regular expression or no text. */
static const char *read_replaced(struct reading *r, json_t *component, const char *field, enum status *status)
{
    json_t *pattern = json_object_get(component, "pattern");
    const char *text = NULL;
    if (json_object_get(pattern, "Regex"))
        *status = reading_unsupported(r, field, "a regular expression");
    else if ((text = read_text(r, json_object_get(pattern, "String"), field, status)) && !*text)
        *status = reading_corrupt(r, field, "is empty");
    return *status ? NULL : text;
}

/* ---- normalizer ---- */

static enum status add_step(struct reading *r, struct normal_step step)
{
    struct normalizer *normalizer = &r->bpe.normalizer;
    if (normalizer->count == NORMALIZER_STEPS)
        return reading_unsupported(r, "normalizer", "a longer Sequence");
    normalizer->steps[normalizer->count++] = step;
    return STATUS_OK;
}

static enum status read_normalizer(struct reading *r, json_t *normalizer, void *context)
{
    static const char *const forms[] = {
        [NORMAL_NFC] = "NFC", [NORMAL_NFD] = "NFD", [NORMAL_NFKC] = "NFKC", [NORMAL_NFKD] = "NFKD"};
    struct normal_step step = {0};
    enum status status = STATUS_OK;
    (void)context;
    for (int form = NORMAL_NFC; form <= NORMAL_NFKD; form++)
        if (is_type(normalizer, forms[form]))
            return add_step(r, (struct normal_step){.kind = (enum normal_step_kind)form});
    if (is_type(normalizer, "Prepend")) {
        step.kind = NORMAL_PREPEND;
        step.to = read_text(r, json_object_get(normalizer, "prepend"), "normalizer.Prepend.prepend", &status);
    } else if (is_type(normalizer, "Replace")) {
        step.kind = NORMAL_REPLACE;
        step.from = read_replaced(r, normalizer, "normalizer.Replace.pattern", &status);
        if (!status)
            step.to =
                read_text(r, json_object_get(normalizer, "content"), "normalizer.Replace.content", &status);
    } else {
        return reading_unsupported(r, "normalizer", reading_type(normalizer));
    }
    return status ? status : add_step(r, step);
}

/* ---- pre_tokenizer ---- */

static enum status add_pattern(struct reading *r, const char *pattern)
{
    if (r->bpe.pattern_count == PRETOKENIZER_STAGES)
        return reading_unsupported(r, "pre_tokenizer", "a longer Sequence");
    if (!pattern) return reading_no_memory(r);
    r->bpe.patterns[r->bpe.pattern_count++] = pattern;
    return STATUS_OK;
}

/* A literal string as a pattern: escapes every special character. */
static const char *quote(struct reading *r, const char *text)
{
    char *quoted = arena_alloc(&r->bpe.arena, 2 * strlen(text) + 1), *to = quoted;
    for (; quoted && *text; text++) {
        if (strchr("\\^$.[]|()?*+{}#-", *text)) *to++ = '\\';
        *to++ = *text;
    }
    return quoted;
}

static enum status read_split(struct reading *r, json_t *split)
{
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    json_t *pattern = json_object_get(split, "pattern");
    json_t *regex = json_object_get(pattern, "Regex"), *literal = json_object_get(pattern, "String");
    if (!behavior || strcmp(behavior, "Isolated") != 0)
        return reading_unsupported(r, "pre_tokenizer.Split.behavior", behavior ? behavior : "nothing");
    json_t *text = json_is_string(regex) ? regex : literal;
    if (!json_is_string(text))
        return reading_corrupt(r, "pre_tokenizer.Split.pattern", "is neither a Regex nor a String");
    if (json_string_length(text) > PATTERN_MAX)
        return reading_unsupported(r, "pre_tokenizer.Split.pattern", "a pattern this long");
    return add_pattern(r, text == regex ? arena_strdup(&r->bpe.arena, json_string_value(regex))
                                        : quote(r, json_string_value(literal)));
}

/* The character that a Metaspace writes for a space; NULL with *status set. */
static const char *read_replacement(struct reading *r, json_t *metaspace, const char *field,
                                    enum status *status)
{
    const char *text = read_text(r, json_object_get(metaspace, "replacement"), field, status);
    uint32_t point;
    if (text && (!*text || utf8_character(text, strlen(text), &point) != strlen(text)))
        *status = reading_corrupt(r, field, "is not one character");
    return *status ? NULL : text;
}

/* "always" (the default), "first" or "never"; older files have add_prefix_space instead. */
static const char *prepend_scheme(json_t *metaspace)
{
    const char *scheme = json_string_value(json_object_get(metaspace, "prepend_scheme"));
    if (json_is_false(json_object_get(metaspace, "add_prefix_space"))) return "never";
    return scheme ? scheme : "always";
}

/* Splits before every space, too, unless `split` is false. */
static enum status read_metaspace(struct reading *r, json_t *component)
{
    static const char field[] = "pre_tokenizer.Metaspace";
    const char *scheme = prepend_scheme(component);
    enum status status = STATUS_OK;
    const char *space = read_replacement(r, component, "pre_tokenizer.Metaspace.replacement", &status);
    if (status) return status;
    r->bpe.spaces.space = space;
    if (strcmp(scheme, "never") != 0) r->bpe.spaces.prefix = space;
    r->bpe.spaces.first_only = strcmp(scheme, "first") == 0;
    if (strcmp(scheme, "always") != 0 && strcmp(scheme, "never") != 0 && !r->bpe.spaces.first_only)
        return reading_unsupported(r, field, scheme);
    if (json_is_false(json_object_get(component, "split"))) return STATUS_OK;
    const char *quoted = quote(r, space);
    return add_pattern(r, quoted ? arena_printf(&r->bpe.arena, "%s[^%s]*", quoted, quoted) : NULL);
}

static enum status read_byte_level(struct reading *r, json_t *component)
{
    if (r->bpe.spaces.space) return reading_unsupported(r, "pre_tokenizer", "ByteLevel after Metaspace");
    if (json_is_true(json_object_get(component, "add_prefix_space"))) {
        if (r->bpe.pattern_count)
            return reading_unsupported(r, "pre_tokenizer.ByteLevel", "add_prefix_space after a Split");
        r->bpe.spaces.prefix = " ";
    }
    return json_is_false(json_object_get(component, "use_regex")) ? STATUS_OK
                                                                  : add_pattern(r, PRETOKENIZER_GPT2);
}

/* Metaspace comes first, ByteLevel last: then merging begins with bytes. */
static enum status read_pretokenizer(struct reading *r, json_t *component, void *context)
{
    (void)context;
    if (!r->bpe.characters) return reading_unsupported(r, "pre_tokenizer", "a component after ByteLevel");
    if (is_type(component, "Split")) return read_split(r, component);
    if (is_type(component, "Digits"))
        return add_pattern(r, json_is_true(json_object_get(component, "individual_digits")) ? "\\p{N}"
                                                                                            : "\\p{N}+");
    if (is_type(component, "Metaspace") && !r->bpe.pattern_count && !r->bpe.spaces.space)
        return read_metaspace(r, component);
    if (!is_type(component, "ByteLevel"))
        return reading_unsupported(r, "pre_tokenizer", reading_type(component));
    r->bpe.characters = false;
    return read_byte_level(r, component);
}

enum status pipeline_read_splitting(struct reading *r, json_t *root)
{
    r->bpe.characters = true;
    enum status status =
        read_components(r, json_object_get(root, "normalizer"), "normalizers", read_normalizer, NULL);
    if (!status)
        status = read_components(r, json_object_get(root, "pre_tokenizer"), "pretokenizers",
                                 read_pretokenizer, NULL);
    if (!status && r->bpe.characters && is_type(json_object_get(root, "decoder"), "ByteLevel"))
        status = reading_unsupported(r, "pre_tokenizer", "one without ByteLevel");
    return status;
}

/* ---- decoder ---- */

struct decoding {
    struct normalizer replace;
    bool fallback, fused;
};

static enum status add_replacement(struct reading *r, struct decoding *d, const char *from, const char *to)
{
    if (d->replace.count == NORMALIZER_STEPS) return reading_unsupported(r, "decoder", "a longer Sequence");
    d->replace.steps[d->replace.count++] = (struct normal_step){NORMAL_REPLACE, from, to};
    return STATUS_OK;
}

/* Removes `content`, at most `start` times, from the beginning of the text. */
static enum status read_strip(struct reading *r, json_t *strip, const struct decoding *d)
{
    json_t *start = json_object_get(strip, "start"), *stop = json_object_get(strip, "stop");
    enum status status = STATUS_OK;
    if (!d->fused) return reading_unsupported(r, "decoder", "Strip before Fuse");
    if (r->bpe.stripped.text) return reading_unsupported(r, "decoder", "a second Strip");
    if (json_integer_value(stop)) return reading_unsupported(r, "decoder.Strip", "stop");
    if (!json_is_integer(start) || json_integer_value(start) < 0)
        return reading_corrupt(r, "decoder.Strip.start", "is not a whole number from 0");
    const char *text = read_text(r, json_object_get(strip, "content"), "decoder.Strip.content", &status);
    if (!status && !*text) return reading_corrupt(r, "decoder.Strip.content", "is empty");
    if (!status) r->bpe.stripped = (struct stripped){text, (size_t)json_integer_value(start), false};
    return status;
}

static enum status read_decoder(struct reading *r, json_t *decoder, void *context)
{
    struct decoding *d = context;
    enum status status = STATUS_OK;
    if (is_type(decoder, "Fuse")) d->fused = true;
    if (is_type(decoder, "ByteFallback")) d->fallback = true;
    if (is_type(decoder, "Fuse") || is_type(decoder, "ByteFallback")) return STATUS_OK;
    if (is_type(decoder, "Strip")) return read_strip(r, decoder, d);
    if (is_type(decoder, "Replace")) {
        const char *from = read_replaced(r, decoder, "decoder.Replace.pattern", &status), *to = NULL;
        if (!status)
            to = read_text(r, json_object_get(decoder, "content"), "decoder.Replace.content", &status);
        return status ? status : add_replacement(r, d, from, to);
    }
    if (!is_type(decoder, "Metaspace")) return reading_unsupported(r, "decoder", reading_type(decoder));
    const char *from = read_replacement(r, decoder, "decoder.Metaspace.replacement", &status);
    if (status) return status;
    if (strcmp(prepend_scheme(decoder), "never") != 0)
        r->bpe.stripped = (struct stripped){" ", SIZE_MAX, true};
    return add_replacement(r, d, from, " ");
}

/* "<0x0A>" gives 10, any other text -1. */
static int byte_of(const char *text, size_t n)
{
    unsigned byte;
    int end = 0;
    if (n != 6 || sscanf(text, "<0x%2x>%n", &byte, &end) != 1 || end != 6) return -1;
    return (int)byte;
}

enum status pipeline_read_decoder(struct reading *r, json_t *decoder)
{
    struct decoding d = {0};
    if (!r->bpe.characters) return STATUS_OK; /* ByteLevel: the bytes of the alphabet */
    char *bytes = arena_alloc(&r->bpe.arena, 256);
    enum status status =
        bytes ? read_components(r, decoder, "decoders", read_decoder, &d) : reading_no_memory(r);
    for (int b = 0; b < 256 && !status; b++) bytes[b] = (char)b;
    for (size_t id = 0; id < r->bpe.vocab_size; id++) {
        r->bpe.tokens[id].piece = r->bpe.tokens[id].bytes;
        r->bpe.tokens[id].piece_n = r->bpe.tokens[id].n;
    }
    for (size_t i = 0; i < r->bpe.added_count; i++) { /* such a token decodes to its normalized text */
        const struct added_token *added = &r->bpe.added[i];
        if (!added->normalized) continue;
        r->bpe.tokens[added->id].bytes = added->content;
        r->bpe.tokens[added->id].n = (uint32_t)added->n;
    }
    for (size_t id = 0; id < r->bpe.vocab_size && !status; id++) {
        struct bpe_token *token = &r->bpe.tokens[id];
        char *made = NULL;
        size_t n;
        if (!token->bytes) continue;
        status = normalizer_apply(&d.replace, token->bytes, token->n, &made, &n, r->err);
        if (made && !(token->bytes = arena_printf(&r->bpe.arena, "%.*s", (int)n, made)))
            status = reading_no_memory(r);
        if (made) token->n = (uint32_t)n;
        free(made);
        int byte = d.fallback && !status ? byte_of(token->bytes, token->n) : -1;
        if (byte < 0) continue;
        token->bytes = bytes + byte;
        token->n = 1;
    }
    return status;
}

/* ---- post_processor ---- */

static enum status add_id(struct reading *r, json_t *value, struct bpe_around *around)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= (json_int_t)r->bpe.vocab_size)
        return reading_corrupt(r, "post_processor", "an id is not in the vocabulary");
    if (around->count == BPE_AROUND_MAX)
        return reading_unsupported(r, "post_processor", "as many tokens around a text");
    around->ids[around->count++] = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

static enum status read_template(struct reading *r, json_t *processor)
{
    json_t *tokens = json_object_get(processor, "special_tokens"), *item, *value;
    enum status status = STATUS_OK;
    size_t index, at;
    bool text_seen = false;
    json_array_foreach(json_object_get(processor, "single"), index, item) {
        json_t *special = json_object_get(item, "SpecialToken");
        const char *name = json_string_value(json_object_get(special, "id"));
        if (json_object_get(item, "Sequence")) {
            if (text_seen) return reading_unsupported(r, "post_processor.single", "the text twice");
            text_seen = true;
            continue;
        }
        json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        if (!json_is_array(ids))
            return reading_corrupt(r, "post_processor.single", "names a token that special_tokens lacks");
        json_array_foreach(ids, at, value)
            if ((status = add_id(r, value, text_seen ? &r->bpe.after : &r->bpe.before))) return status;
    }
    return text_seen ? STATUS_OK : reading_corrupt(r, "post_processor.single", "does not hold the text");
}

/* Adds the ids of one processor. `found`: whether one that adds ids was there before. */
static enum status read_processor(struct reading *r, json_t *processor, void *context)
{
    bool *found = context,
         pair = is_type(processor, "BertProcessing") || is_type(processor, "RobertaProcessing");
    if (is_type(processor, "ByteLevel")) return STATUS_OK; /* moves offsets only */
    if (!pair && !is_type(processor, "TemplateProcessing"))
        return reading_unsupported(r, "post_processor", reading_type(processor));
    if (*found) return reading_unsupported(r, "post_processor", "a second template");
    *found = true;
    if (!pair) return read_template(r, processor);
    enum status status = add_id(r, json_array_get(json_object_get(processor, "cls"), 1), &r->bpe.before);
    return status ? status : add_id(r, json_array_get(json_object_get(processor, "sep"), 1), &r->bpe.after);
}

enum status pipeline_read_post_processor(struct reading *r, json_t *processor)
{
    bool found = false;
    return read_components(r, processor, "processors", read_processor, &found);
}
