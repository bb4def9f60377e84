/* See allocator.h: tags, live bytes, scopes and errors. The strategies get the memory itself. */
#include "core/memory/allocator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/memory/allocator_strategy.h"

enum { TAGS_MAX = 64 };

/* One allocation. */
struct record {
    struct record *next; /* older */
    struct allocator_block block;
    size_t asked; /* bytes */
    const struct allocator_scope *scope;
    int tag;
    bool host;
};

struct allocator {
    struct allocator_options options;
    struct allocator_source source;
    struct allocator_scope root;
    struct allocator_usage tags[TAGS_MAX], sum;
    int tag_count;
    struct record *records; /* newest first */
};

/* ---- tags ---- */

/* Beyond TAGS_MAX different names, all further ones count as the last one. */
static int tag_of(struct allocator *a, const char *name)
{
    size_t size = sizeof a->sum.tag;
    for (int i = 0; i < a->tag_count; i++)
        if (strncmp(a->tags[i].tag, name, size - 1) == 0) return i;
    if (a->tag_count == TAGS_MAX) return TAGS_MAX - 1;
    snprintf(a->tags[a->tag_count].tag, size, "%s", a->tag_count == TAGS_MAX - 1 ? "others" : name);
    return a->tag_count++;
}

static void account(struct allocator_usage *u, const struct record *r, int sign)
{
    u->live += sign * (int64_t)r->asked;
    u->reserved += sign * (int64_t)r->block.bytes;
    u->count += sign;
    if (u->live > u->peak) u->peak = u->live;
}

/* Pinned host memory is live but not reserved on the device, so live may exceed reserved. */
void allocator_sum(const struct allocator *a, struct allocator_usage *out)
{
    *out = a->sum;
    out->reserved = (int64_t)allocator_source_reserved(&a->source);
}

int allocator_tags(const struct allocator *a, struct allocator_usage *out, int max)
{
    int count = a->tag_count < max ? a->tag_count : max;
    memcpy(out, a->tags, (size_t)count * sizeof *out);
    return count;
}

static void tell_usage(const struct allocator_usage *u, const char *name,
                       const struct allocator_listener *listener)
{
    char line[160];
    snprintf(line, sizeof line, "  %-32s %12s %12s %12s %8" PRId64, name, TEXT_BYTES(u->live),
             TEXT_BYTES(u->peak), TEXT_BYTES(u->reserved), u->count);
    listener->line(listener->context, line);
}

void allocator_report(const struct allocator *a, const struct allocator_listener *listener)
{
    char line[160];
    struct allocator_usage sum;
    if (!listener->line) return;
    allocator_sum(a, &sum);
    snprintf(line, sizeof line, "device memory, %s allocator:", allocator_kind_word(a->options.kind));
    listener->line(listener->context, line);
    snprintf(line, sizeof line, "  %-32s %12s %12s %12s %8s", "tag", "live", "peak", "reserved", "blocks");
    listener->line(listener->context, line);
    for (int i = 0; i < a->tag_count; i++) tell_usage(&a->tags[i], a->tags[i].tag, listener);
    tell_usage(&sum, "all", listener);
}

/* ---- opening ---- */

enum status allocator_open(const struct allocator_options *options, struct allocator **out, struct err *err)
{
    struct allocator *a = calloc(1, sizeof *a);
    if (!a) return err_no_memory(err, "an allocator");
    a->options = *options;
    allocator_scope_begin(&a->root, a);
    enum status status = allocator_source_open(&a->source, options, err);
    if (status)
        free(a);
    else
        *out = a;
    return status;
}

/* Frees the memory of this scope, or with NULL of all scopes, the newest first. */
static void free_records(struct allocator *a, const struct allocator_scope *scope)
{
    for (struct record **at = &a->records, *r; (r = *at);) {
        if (scope && r->scope != scope) {
            at = &r->next;
            continue;
        }
        account(&a->tags[r->tag], r, -1);
        account(&a->sum, r, -1);
        if (r->host)
            a->options.backend->host_free(a->options.device, r->block.memory);
        else
            a->source.strategy->give(&a->source, &r->block);
        *at = r->next;
        free(r);
    }
}

int64_t allocator_close(struct allocator *a)
{
    if (!a) return 0;
    int64_t leaks = a->sum.count;
    for (int i = 0; i < a->tag_count; i++) {
        const struct allocator_usage *u = &a->tags[i];
        if (u->count && a->options.report)
            fprintf(a->options.report, "never freed: %s, %" PRId64 " block%s of %s together\n", u->tag,
                    u->count, text_plural(u->count), TEXT_BYTES(u->live));
    }
    free_records(a, NULL);
    allocator_source_close(&a->source);
    free(a);
    return leaks;
}

struct allocator_scope *allocator_root(struct allocator *a)
{
    return &a->root;
}

void allocator_scope_begin(struct allocator_scope *scope, struct allocator *allocator)
{
    *scope = (struct allocator_scope){allocator};
}

void allocator_scope_end(struct allocator_scope *scope)
{
    if (scope->allocator) free_records(scope->allocator, scope);
}

size_t allocator_trim(struct allocator *a)
{
    return a->source.strategy->trim(&a->source);
}

/* ---- allocating ---- */

/* "weights 8.0 KiB, moments 16.0 KiB": the live memory per tag, cut to `size`. */
static const char *list_live(const struct allocator *a, char *buf, size_t size)
{
    *buf = '\0';
    for (int i = 0; i < a->tag_count; i++)
        if (a->tags[i].live) text_add(buf, size, ", ", "%s %s", a->tags[i].tag, TEXT_BYTES(a->tags[i].live));
    return *buf ? buf : "nothing";
}

static enum status no_room(struct allocator *a, const char *tag, size_t bytes, struct err *err)
{
    struct err why = {0};
    char live[160];
    struct allocator_usage sum;
    if (err) why = *err;
    allocator_sum(a, &sum);
    allocator_report(a, &a->options.full);
    return err_set(err, STATUS_NO_MEMORY, "%s: no room for %s (in use: %s; reserved: %s): %.240s", tag,
                   TEXT_BYTES(bytes), list_live(a, live, sizeof live), TEXT_BYTES(sum.reserved), why.text);
}

static enum status take(struct allocator_scope *scope, const char *tag, size_t bytes, bool host,
                        struct stream *stream, void **out, struct err *err)
{
    struct allocator *a = scope->allocator;
    size_t rounded = (bytes + (bytes == 0) + ALLOCATOR_ALIGN - 1) & ~(size_t)(ALLOCATOR_ALIGN - 1);
    enum status status;
    if (rounded < bytes || bytes > PTRDIFF_MAX)
        return err_set(err, STATUS_NO_MEMORY, "%s: a size of %zu bytes is too large", tag, bytes);
    struct record *r = calloc(1, sizeof *r);
    if (!r) return err_no_memory(err, "the allocator's record of %s", tag);
    *r = (struct record){.block = {.bytes = rounded}, .asked = bytes, .scope = scope, .host = host};
    if (host)
        status = a->options.backend->host_alloc(a->options.device, rounded, &r->block.memory, err);
    else
        status = a->source.strategy->take(&a->source, rounded, stream, &r->block, err);
    if (status) {
        free(r);
        return status == STATUS_NO_MEMORY ? no_room(a, tag, bytes, err) : status;
    }
    r->tag = tag_of(a, tag);
    r->next = a->records;
    a->records = r;
    account(&a->tags[r->tag], r, 1);
    account(&a->sum, r, 1);
    *out = r->block.memory;
    return STATUS_OK;
}

enum status allocator_alloc(struct allocator_scope *scope, const char *tag, size_t bytes,
                            struct stream *stream, void **out, struct err *err)
{
    return take(scope, tag, bytes, false, stream, out, err);
}

enum status allocator_alloc_host(struct allocator_scope *scope, const char *tag, size_t bytes, void **out,
                                 struct err *err)
{
    return take(scope, tag, bytes, true, NULL, out, err);
}

/* ---- rehearsal: caching on a device that returns addresses without memory ---- */

static enum status ghost_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    (void)device, (void)bytes, (void)err;
    *out = (void *)(uintptr_t)ALLOCATOR_ALIGN;
    return STATUS_OK;
}

static void ghost_free(struct device *device, void *memory)
{
    (void)device, (void)memory;
}

static enum status rehearse_caching(const size_t *sizes, int count, size_t *out, struct err *err)
{
    static const struct backend ghost = {.mem_alloc = ghost_alloc, .mem_free = ghost_free};
    struct allocator_options options = {.kind = ALLOCATOR_CACHING, .backend = &ghost};
    struct allocator *allocator;
    void *memory;
    struct allocator_usage sum;
    enum status status = allocator_open(&options, &allocator, err);
    if (status) return status;
    for (int i = 0; !status && i < count; i++)
        if (sizes[i]) status = allocator_alloc(allocator_root(allocator), "", sizes[i], NULL, &memory, err);
    allocator_sum(allocator, &sum);
    *out = (size_t)sum.reserved;
    allocator_close(allocator);
    return status;
}

enum status allocator_rehearse(enum allocator_kind kind, size_t pool_unit, const size_t *sizes, int count,
                               size_t *out, struct err *err)
{
    size_t unit = kind == ALLOCATOR_POOL && pool_unit > ALLOCATOR_ALIGN ? pool_unit : ALLOCATOR_ALIGN;
    if (kind == ALLOCATOR_CACHING) return rehearse_caching(sizes, count, out, err);
    *out = 0;
    for (int i = 0; i < count; i++) *out += (sizes[i] + unit - 1) / unit * unit;
    return STATUS_OK;
}
