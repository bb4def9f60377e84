/* See allocator.h: the tags, the register of what is live, the scopes and the errors. What the memory is cut
 * from is the strategies' business.
 *
 * The register is a hash table from addresses to records; a record's number never changes while it lives, so
 * scopes link records by number. Numbers and tables grow by doubling and never shrink: a step that has been
 * done once allocates nothing here. */
#include "core/memory/allocator.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/memory/allocator_strategy.h"

enum { TAGS_MAX = 64, TAG_BYTES = 32, FREED_MAX = 256, NONE = -1 };

struct tag {
    char name[TAG_BYTES];
    struct allocator_usage usage;
};

struct record {
    struct allocator_block block;
    size_t asked;                  /* bytes */
    struct allocator_scope *scope; /* that holds it */
    int32_t before, after;         /* in its scope; `after` also links unused records */
    int tag;
    bool host;
};

struct allocator {
    pthread_mutex_t lock;
    struct allocator_options options;
    const struct allocator_strategy *strategy;
    void *state;
    struct allocator_scope root;
    struct tag tags[TAGS_MAX];
    int tag_count;
    struct allocator_usage sum;
    int64_t peak_reserved; /* of the device */
    struct record *records;
    int32_t record_capacity, unused;
    int32_t *table; /* (table_size) numbers of records by address; NONE: free */
    size_t table_size, table_used;
    /* the addresses freed last, to tell a second free from a foreign pointer */
    struct {
        const void *memory;
        int tag;
    } freed[FREED_MAX];
    unsigned freed_next;
};

/* ---- the register ---- */

static size_t slot_of(const struct allocator *a, const void *memory)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)memory >> 8) * 0x9E3779B97F4A7C15u;
    return (size_t)(mixed >> 20) & (a->table_size - 1);
}

/* The slot of this address, or the free one where it belongs. */
static size_t find(const struct allocator *a, const void *memory)
{
    size_t at = slot_of(a, memory);
    while (a->table[at] != NONE && a->records[a->table[at]].block.memory != memory)
        at = (at + 1) & (a->table_size - 1);
    return at;
}

static bool grow_table(struct allocator *a)
{
    size_t size = a->table_size ? a->table_size * 2 : 256, old_size = a->table_size;
    int32_t *old = a->table, *table = malloc(size * sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < size; i++) table[i] = NONE;
    a->table = table;
    a->table_size = size;
    for (size_t i = 0; i < old_size; i++)
        if (old[i] != NONE) a->table[find(a, a->records[old[i]].block.memory)] = old[i];
    free(old);
    return true;
}

static bool grow_records(struct allocator *a)
{
    int32_t capacity = a->record_capacity ? a->record_capacity * 2 : 128;
    struct record *records = realloc(a->records, (size_t)capacity * sizeof *records);
    if (!records) return false;
    a->records = records;
    for (int32_t i = a->record_capacity; i < capacity; i++)
        records[i].after = i + 1 < capacity ? i + 1 : a->unused;
    a->unused = a->record_capacity;
    a->record_capacity = capacity;
    return true;
}

/* Takes an address out; those that had to move on past it move back. */
static void forget(struct allocator *a, size_t at)
{
    size_t mask = a->table_size - 1;
    a->table[at] = NONE;
    a->table_used--;
    for (size_t next = (at + 1) & mask; a->table[next] != NONE; next = (next + 1) & mask) {
        size_t home = slot_of(a, a->records[a->table[next]].block.memory);
        if (((next - home) & mask) < ((next - at) & mask)) continue; /* its home lies behind the gap */
        a->table[at] = a->table[next];
        a->table[next] = NONE;
        at = next;
    }
}

/* ---- tags ---- */

/* Past TAGS_MAX different names the last one stands for all further ones. */
static int tag_of(struct allocator *a, const char *name)
{
    for (int i = 0; i < a->tag_count; i++)
        if (strncmp(a->tags[i].name, name, TAG_BYTES - 1) == 0) return i;
    if (a->tag_count == TAGS_MAX) return TAGS_MAX - 1;
    struct tag *tag = &a->tags[a->tag_count];
    snprintf(tag->name, sizeof tag->name, "%s", a->tag_count == TAGS_MAX - 1 ? "others" : name);
    tag->usage.tag = tag->name;
    return a->tag_count++;
}

static void add(struct allocator_usage *u, int64_t bytes, int64_t reserved)
{
    u->live += bytes;
    u->reserved += reserved;
    u->count += bytes >= 0 && reserved > 0 ? 1 : -1;
    if (reserved > 0) u->total++;
    if (u->live > u->peak) u->peak = u->live;
    if (u->reserved > u->peak_reserved) u->peak_reserved = u->reserved;
}

/* Both the tag's and the sum; the sum's reserved is what the device has given, padding or not. */
static void account(struct allocator *a, int tag, int64_t bytes, int64_t reserved)
{
    add(&a->tags[tag].usage, bytes, reserved);
    add(&a->sum, bytes, reserved);
}

/* Pinned host memory is live but not of the device, so live may be above reserved. */
static void sum_of(struct allocator *a, struct allocator_usage *out)
{
    *out = a->sum;
    out->tag = "";
    out->reserved = (int64_t)a->strategy->reserved(a->state);
    out->peak_reserved = a->peak_reserved;
}

static void tell_usage(const struct allocator_usage *u, const char *name,
                       const struct allocator_listener *listener)
{
    char line[160], live[32], peak[32], reserved[32];
    snprintf(line, sizeof line, "  %-32s %12s %12s %12s %8" PRId64, name,
             text_format_bytes((uint64_t)u->live, live, sizeof live),
             text_format_bytes((uint64_t)u->peak, peak, sizeof peak),
             text_format_bytes((uint64_t)u->reserved, reserved, sizeof reserved), u->count);
    listener->line(listener->context, line);
}

/* The lock is held. */
static void tell(struct allocator *a, const struct allocator_listener *listener)
{
    char line[160];
    struct allocator_usage sum;
    if (!listener->line) return;
    sum_of(a, &sum);
    snprintf(line, sizeof line, "device memory, %s allocator:", allocator_kind_word(a->options.kind));
    listener->line(listener->context, line);
    snprintf(line, sizeof line, "  %-32s %12s %12s %12s %8s", "tag", "live", "peak", "reserved", "blocks");
    listener->line(listener->context, line);
    for (int i = 0; i < a->tag_count; i++) tell_usage(&a->tags[i].usage, a->tags[i].name, listener);
    tell_usage(&sum, "all", listener);
}

static void print_line(void *context, const char *line)
{
    fprintf(context, "%s\n", line);
}

static void print(struct allocator *a, FILE *file)
{
    if (file) tell(a, &(struct allocator_listener){print_line, file});
}

/* ---- opening ---- */

enum status allocator_open(const struct allocator_options *options, struct allocator **out, struct err *err)
{
    static const struct allocator_strategy *const strategies[ALLOCATOR_KINDS] = {
        &allocator_basic, &allocator_pool, &allocator_arena, &allocator_caching};
    struct allocator *a = calloc(1, sizeof *a);
    if (!a) return err_set(err, STATUS_NO_MEMORY, "no memory for an allocator");
    a->options = *options;
    a->strategy = strategies[options->kind];
    a->unused = NONE;
    a->root = (struct allocator_scope){a, NONE};
    pthread_mutex_init(&a->lock, NULL);
    enum status status = STATUS_OK;
    if (!grow_table(a) || !grow_records(a))
        status = err_set(err, STATUS_NO_MEMORY, "no memory for an allocator's register");
    if (!status) status = a->strategy->open(options, &a->state, err);
    if (status) {
        allocator_close(a);
        return status;
    }
    *out = a;
    return STATUS_OK;
}

int64_t allocator_close(struct allocator *a)
{
    char live[32];
    int64_t leaks = 0;
    if (!a) return 0;
    FILE *report = a->options.report;
    for (int i = 0; i < a->tag_count; i++) {
        const struct allocator_usage *u = &a->tags[i].usage;
        leaks += u->count;
        if (u->count && report)
            fprintf(report, "never freed: %s, %" PRId64 " block%s of %s together\n", u->tag, u->count,
                    u->count == 1 ? "" : "s", text_format_bytes((uint64_t)u->live, live, sizeof live));
    }
    for (size_t i = 0; i < a->table_size; i++) {
        struct record *r = a->table[i] == NONE ? NULL : &a->records[a->table[i]];
        if (r && r->host)
            a->options.backend->host_free(a->options.device, r->block.memory);
        else if (r)
            a->strategy->give(a->state, &r->block, NULL);
    }
    if (a->state) a->strategy->close(a->state);
    pthread_mutex_destroy(&a->lock);
    free(a->records);
    free(a->table);
    free(a);
    return leaks;
}

struct allocator_scope *allocator_root(struct allocator *a)
{
    return &a->root;
}

void allocator_scope_begin(struct allocator_scope *scope, struct allocator *allocator)
{
    *scope = (struct allocator_scope){allocator, NONE};
}

/* ---- asking ---- */

/* "weights 8.0 KiB, moments 16.0 KiB": who has what, cut where `size` ends. */
static const char *list_live(const struct allocator *a, char *buf, size_t size)
{
    char bytes[32];
    size_t used = 0;
    snprintf(buf, size, "nothing");
    for (int i = 0; i < a->tag_count && used < size; i++)
        if (a->tags[i].usage.live)
            used += (size_t)snprintf(buf + used, size - used, "%s%s %s", used ? ", " : "", a->tags[i].name,
                                     text_format_bytes((uint64_t)a->tags[i].usage.live, bytes, sizeof bytes));
    return buf;
}

static enum status no_room(struct allocator *a, const char *tag, size_t bytes, struct err *err)
{
    struct err why = {0};
    char wanted[32], reserved[32], live[160];
    struct allocator_usage sum;
    if (err) why = *err;
    sum_of(a, &sum);
    text_format_bytes(bytes, wanted, sizeof wanted);
    text_format_bytes((uint64_t)sum.reserved, reserved, sizeof reserved);
    return err_set(err, STATUS_NO_MEMORY, "%s: no room for %s beside %s (%s reserved): %.240s", tag, wanted,
                   list_live(a, live, sizeof live), reserved, why.text);
}

/* Enters a block; the lock is held. */
static void enter(struct allocator *a, struct allocator_scope *scope, int tag, size_t asked, bool host,
                  const struct allocator_block *block)
{
    int32_t number = a->unused;
    struct record *r = &a->records[number];
    a->unused = r->after;
    *r = (struct record){*block, asked, scope, NONE, scope->first, tag, host};
    if (scope->first != NONE) a->records[scope->first].before = number;
    scope->first = number;
    a->table[find(a, block->memory)] = number;
    a->table_used++;
    account(a, tag, (int64_t)asked, (int64_t)block->bytes);
    int64_t reserved = (int64_t)a->strategy->reserved(a->state);
    if (reserved > a->peak_reserved) a->peak_reserved = reserved;
}

static enum status take(struct allocator_scope *scope, const char *tag, size_t bytes, bool host,
                        struct stream *stream, void **out, struct err *err)
{
    struct allocator *a = scope->allocator;
    struct allocator_block block = {.stream = stream};
    size_t rounded = (bytes + (bytes == 0) + ALLOCATOR_ALIGN - 1) & ~(size_t)(ALLOCATOR_ALIGN - 1);
    enum status status = STATUS_OK;
    pthread_mutex_lock(&a->lock);
    if (rounded < bytes || bytes > PTRDIFF_MAX) {
        print(a, a->options.report);
        pthread_mutex_unlock(&a->lock);
        return err_set(err, STATUS_NO_MEMORY, "%s: a size of %zu bytes overflows", tag, bytes);
    }
    if ((a->unused == NONE && !grow_records(a)) || (a->table_used * 2 >= a->table_size && !grow_table(a)))
        status = err_set(err, STATUS_NO_MEMORY, "%s: no host memory for the allocator's register", tag);
    if (!status && host) {
        block.bytes = rounded;
        status = a->options.backend->host_alloc(a->options.device, rounded, &block.memory, err);
    } else if (!status) {
        status = a->strategy->take(a->state, rounded, stream, &block, err);
    }
    if (status == STATUS_NO_MEMORY) {
        status = no_room(a, tag, bytes, err);
        tell(a, &a->options.full);
    }
    if (!status) {
        enter(a, scope, tag_of(a, tag), bytes, host, &block);
        *out = block.memory;
    }
    pthread_mutex_unlock(&a->lock);
    return status;
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

enum status allocator_alloc_f32(struct allocator_scope *scope, const char *tag, size_t count,
                                struct stream *stream, float **out, struct err *err)
{
    void *memory = NULL;
    if (count > SIZE_MAX / sizeof **out)
        return err_set(err, STATUS_NO_MEMORY, "%s: a size of %zu numbers overflows", tag, count);
    enum status status = take(scope, tag, count * sizeof **out, false, stream, &memory, err);
    if (!status) *out = memory;
    return status;
}

/* ---- giving back ---- */

/* The lock is held. */
static void leave(struct allocator *a, size_t at, struct stream *stream)
{
    int32_t number = a->table[at];
    struct record *r = &a->records[number];
    if (r->before != NONE) a->records[r->before].after = r->after;
    if (r->after != NONE) a->records[r->after].before = r->before;
    if (r->scope->first == number) r->scope->first = r->after;
    account(a, r->tag, -(int64_t)r->asked, -(int64_t)r->block.bytes);
    a->freed[a->freed_next].memory = r->block.memory;
    a->freed[a->freed_next].tag = r->tag;
    a->freed_next = (a->freed_next + 1) % FREED_MAX;
    forget(a, at);
    if (r->host)
        a->options.backend->host_free(a->options.device, r->block.memory);
    else
        a->strategy->give(a->state, &r->block, stream);
    r->after = a->unused;
    a->unused = number;
}

enum status allocator_free(struct allocator *a, void *memory, struct stream *stream, struct err *err)
{
    enum status status = STATUS_OK;
    if (!memory) return STATUS_OK;
    pthread_mutex_lock(&a->lock);
    size_t at = find(a, memory);
    if (a->table[at] != NONE) {
        leave(a, at, stream);
    } else {
        const char *tag = NULL;
        for (int i = 0; i < FREED_MAX; i++)
            if (a->freed[i].memory == memory) tag = a->tags[a->freed[i].tag].name;
        print(a, a->options.report);
        status = tag ? err_set(err, STATUS_FAILED, "%s: its memory was freed twice", tag)
                     : err_set(err, STATUS_FAILED, "memory was freed that this allocator never gave");
    }
    pthread_mutex_unlock(&a->lock);
    return status;
}

void allocator_scope_end(struct allocator_scope *scope)
{
    struct allocator *a = scope->allocator;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    while (scope->first != NONE) {
        struct record *r = &a->records[scope->first];
        leave(a, find(a, r->block.memory), r->block.stream);
    }
    pthread_mutex_unlock(&a->lock);
}

size_t allocator_trim(struct allocator *a)
{
    pthread_mutex_lock(&a->lock);
    size_t bytes = a->strategy->trim(a->state);
    pthread_mutex_unlock(&a->lock);
    return bytes;
}

enum status allocator_stream_closes(struct allocator *a, struct stream *stream, struct err *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; !status && i < a->table_size; i++) {
        const struct record *r = a->table[i] == NONE ? NULL : &a->records[a->table[i]];
        if (r && !r->host && r->block.stream == stream)
            status =
                err_set(err, STATUS_FAILED, "%s: its stream closes while it is in use", a->tags[r->tag].name);
    }
    if (!status) a->strategy->stream_closes(a->state, stream);
    pthread_mutex_unlock(&a->lock);
    return status;
}

/* ---- telling ---- */

void allocator_tell(struct allocator *a, const struct allocator_listener *listener)
{
    pthread_mutex_lock(&a->lock);
    tell(a, listener);
    pthread_mutex_unlock(&a->lock);
}

void allocator_sum(struct allocator *a, struct allocator_usage *out)
{
    pthread_mutex_lock(&a->lock);
    sum_of(a, out);
    pthread_mutex_unlock(&a->lock);
}

int allocator_tags(struct allocator *a, struct allocator_usage *out, int max)
{
    pthread_mutex_lock(&a->lock);
    int count = a->tag_count < max ? a->tag_count : max;
    for (int i = 0; i < count; i++) out[i] = a->tags[i].usage;
    pthread_mutex_unlock(&a->lock);
    return count;
}
