/* See disk.h. The record is a list of changes; a file is a number, which survives renames. Its data before
 * the program began are the start of its contents. */
#include "tests/tui/command/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

enum { PAGE = 4096, ROOT = 0, NONE = -1, SHARED_BYTES = 32768 };

/* A name in a folder, and the file that it has from now on. */
struct entry {
    int folder, file;
    char *name;
};

struct contents {
    unsigned char *bytes;
    size_t size, capacity;
};

struct change {
    enum { NAMES, DATA, SIZE, SYNC, OUTPUT } kind;
    int file;                /* of data, size, sync */
    struct entry entries[2]; /* of names */
    int entry_count;
    size_t at, size;      /* of data; size: the new one */
    unsigned char *bytes; /* of data, output */
};

struct file {
    bool folder;
    struct contents start;
};

struct disk {
    char root[PATH_MAX], out[PATH_MAX];
    struct change *changes;
    struct file *files;
    struct entry *start, *now; /* all names: when the program began, and after all changes */
    size_t change_count, change_room, file_count, file_room, start_count, start_room, now_count, now_room;
    void (*said)(void *context, const char *text);
    void *context;
};

/* ---- names ---- */

static void *more(void *list, size_t count, size_t *room, size_t size)
{
    assert_true(list_reserve(list, count, 1, room, size));
    return *(char **)list + count * size;
}

static int new_file(struct disk *disk, bool folder)
{
    struct file *file = more(&disk->files, disk->file_count, &disk->file_room, sizeof *file);
    *file = (struct file){.folder = folder};
    return (int)disk->file_count++;
}

static int find(const struct entry *entries, size_t count, int folder, const char *name, size_t length)
{
    for (size_t i = count; i-- > 0;)
        if (entries[i].folder == folder && strlen(entries[i].name) == length &&
            memcmp(entries[i].name, name, length) == 0)
            return (int)i;
    return NONE;
}

/* Sets a name in a list, to which it is added if need be. */
static void set(struct entry **entries, size_t *count, size_t *room, const struct entry *entry)
{
    int at = find(*entries, *count, entry->folder, entry->name, strlen(entry->name));
    if (at == NONE) {
        at = (int)*count;
        *(struct entry *)more(entries, (*count)++, room, sizeof **entries) = *entry;
    }
    (*entries)[at].file = entry->file;
}

/* The file of a path, and where its name is; false: not below the root. */
static bool look_up(const struct disk *disk, const char *path, int *file, int *folder, const char **name)
{
    size_t n = strlen(disk->root);
    if (strncmp(path, disk->root, n) != 0 || (path[n] && path[n] != '/') || strstr(path, " (deleted)"))
        return false;
    *file = ROOT, *folder = NONE, *name = "";
    for (path += n; *path == '/';) {
        size_t length = strcspn(++path, "/");
        if (*file == NONE) return false; /* below a folder that is not there */
        *folder = *file;
        *name = path;
        int at = find(disk->now, disk->now_count, *folder, path, length);
        *file = at == NONE ? NONE : disk->now[at].file;
        path += length;
    }
    return true;
}

/* ---- recording ---- */

static struct change *record(struct disk *disk, const struct change *change)
{
    struct change *to = more(&disk->changes, disk->change_count++, &disk->change_room, sizeof *to);
    *to = *change;
    for (int i = 0; i < to->entry_count; i++)
        set(&disk->now, &disk->now_count, &disk->now_room, &to->entries[i]);
    return to;
}

static struct entry entry_of(int folder, const char *name, int file)
{
    struct entry entry = {folder, file, strdup(name)};
    assert_non_null(entry.name);
    return entry;
}

static void record_name(struct disk *disk, int folder, const char *name, int file)
{
    record(disk, &(struct change){NAMES, .entries = {entry_of(folder, name, file)}, .entry_count = 1});
}

static void record_rename(struct disk *disk, const struct traced_call *call, int file, int folder,
                          const char *name)
{
    int other, to_folder;
    const char *to;
    if (!look_up(disk, call->to, &other, &to_folder, &to)) fail_msg("%s leaves the record", call->path);
    bool exchange = call->kind == TRACED_RENAME && call->flags & RENAME_EXCHANGE;
    struct change change = {NAMES, .entries = {entry_of(to_folder, to, file)}, .entry_count = 1};
    if (call->kind == TRACED_RENAME)
        change.entries[change.entry_count++] = entry_of(folder, name, exchange ? other : NONE);
    record(disk, &change);
}

static void record_output(struct disk *disk, const struct traced_call *call)
{
    size_t size = (size_t)call->result;
    struct change *change =
        record(disk, &(struct change){OUTPUT, .size = size, .bytes = calloc(1, size + 1)});
    assert_non_null(change->bytes);
    traced_data(call, change->bytes, size);
    if (disk->said) disk->said(disk->context, (const char *)change->bytes);
}

/* The index of a write-ahead log is shared memory, which SQLite makes again after a crash. */
static bool is_shared(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, "-shm") == 0;
}

static void note(void *context, const struct traced_call *call)
{
    struct disk *disk = context;
    int file, folder;
    const char *name;
    if (call->result < 0) return;
    if (call->kind == TRACED_WRITE && strcmp(call->path, disk->out) == 0) record_output(disk, call);
    if (!look_up(disk, call->path, &file, &folder, &name)) return;
    switch (call->kind) {
    case TRACED_OPEN:
        if (file == NONE && call->flags & O_CREAT)
            record_name(disk, folder, name, new_file(disk, false));
        else if (file != NONE && call->flags & O_TRUNC)
            record(disk, &(struct change){SIZE, .file = file});
        break;
    case TRACED_WRITE:
        if (file == NONE || is_shared(name)) break;
        struct change *change = record(disk, &(struct change){DATA, .file = file, .at = (size_t)call->offset,
                                                              .size = (size_t)call->result,
                                                              .bytes = malloc((size_t)call->result + 1)});
        assert_non_null(change->bytes);
        traced_data(call, change->bytes, change->size);
        break;
    case TRACED_TRUNCATE:
        if (file != NONE) record(disk, &(struct change){SIZE, .file = file, .size = call->size});
        break;
    case TRACED_SYNC:
        if (file != NONE) record(disk, &(struct change){SYNC, .file = file});
        break;
    case TRACED_RENAME:
    case TRACED_LINK:
        record_rename(disk, call, file, folder, name);
        break;
    case TRACED_REMOVE:
        record_name(disk, folder, name, NONE);
        break;
    case TRACED_FOLDER:
        record_name(disk, folder, name, new_file(disk, true));
        break;
    default:
        break;
    }
}

/* Takes over what is there before the program begins. */
static void load(struct disk *disk, const char *path, int folder)
{
    DIR *entries = opendir(path);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        char inside[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        assert_true(snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) < (int)sizeof inside);
        int file = new_file(disk, file_is_folder(inside));
        struct entry name = entry_of(folder, entry->d_name, file);
        set(&disk->start, &disk->start_count, &disk->start_room, &name);
        if (disk->files[file].folder) {
            load(disk, inside, file);
        } else {
            struct contents *start = &disk->files[file].start;
            start->bytes = (unsigned char *)store_fixture_slurp(inside, &start->size);
        }
    }
    closedir(entries);
}

struct disk *disk_record(const char *root, const struct traced *traced,
                         void (*said)(void *context, const char *text), void *context, int *status)
{
    struct disk *disk = calloc(1, sizeof *disk);
    struct traced recording = *traced;
    assert_non_null(disk);
    disk->said = said;
    disk->context = context;
    assert_true(realpath(root, disk->root) != NULL);
    snprintf(disk->out, sizeof disk->out, "%s", traced->out);
    new_file(disk, true);
    load(disk, disk->root, ROOT);
    for (size_t i = 0; i < disk->start_count; i++)
        set(&disk->now, &disk->now_count, &disk->now_room, &disk->start[i]);
    recording.before = NULL;
    recording.after = note;
    recording.context = disk;
    *status = traced_run(&recording);
    return disk;
}

void disk_free(void *opaque)
{
    struct disk *disk = opaque;
    for (size_t i = 0; i < disk->change_count; i++) {
        for (int k = 0; k < disk->changes[i].entry_count; k++) free(disk->changes[i].entries[k].name);
        free(disk->changes[i].bytes);
    }
    for (size_t i = 0; i < disk->start_count; i++) free(disk->start[i].name);
    for (size_t i = 0; i < disk->file_count; i++) free(disk->files[i].start.bytes);
    free(disk->changes), free(disk->files), free(disk->start), free(disk->now);
    free(disk);
}

size_t disk_count(const struct disk *disk)
{
    return disk->change_count;
}

bool disk_is_sync(const struct disk *disk, size_t point)
{
    return point > 0 && disk->changes[point - 1].kind == SYNC;
}

char *disk_output(const struct disk *disk, size_t point)
{
    char *text = calloc(1, 1);
    size_t used = 0;
    for (size_t i = 0; i < point; i++) {
        const struct change *change = &disk->changes[i];
        if (change->kind != OUTPUT) continue;
        text = realloc(text, used + change->size + 1);
        assert_non_null(text);
        memcpy(text + used, change->bytes, change->size + 1);
        used += change->size;
    }
    return text;
}

/* ---- rebuilding ---- */

static uint32_t draw(const struct disk_cut *cut, size_t change, size_t piece)
{
    return philox4x32_10((uint32_t)change, (uint32_t)piece, (uint32_t)cut->point, (uint32_t)cut->fate,
                         cut->seed, 0x64697363)
        .word[0];
}

/* For each change before the cut, whether it was synced. */
static bool *find_synced(const struct disk *disk, size_t point)
{
    bool *synced = calloc(disk->file_count, 1), *safe = calloc(point + 1, 1);
    assert_true(synced && safe);
    for (size_t i = point; i-- > 0;) {
        const struct change *change = &disk->changes[i];
        if (change->kind == SYNC) synced[change->file] = true;
        safe[i] = synced[change->file];
        if (change->kind == NAMES) {
            safe[i] = synced[change->entries[0].folder];
            if (change->entry_count > 1) safe[i] = safe[i] && synced[change->entries[1].folder];
        }
    }
    free(synced);
    return safe;
}

static void resize(struct contents *c, size_t size)
{
    if (size > c->capacity) {
        c->bytes = realloc(c->bytes, c->capacity = 2 * size);
        assert_non_null(c->bytes);
    }
    if (size > c->size) memset(c->bytes + c->size, 0, size - c->size);
    c->size = size;
}

/* Writes the pages of a change that the disk has. */
static void write_pages(const struct change *change, struct contents *c, bool safe,
                        const struct disk_cut *cut, size_t number)
{
    static const uint32_t third = UINT32_MAX / 3;
    uint32_t way = draw(cut, number, 0); /* all, none, or some */
    bool all = safe || cut->fate == DISK_DATA || (cut->fate == DISK_ANY && way < third);
    bool some = !all && cut->fate == DISK_ANY && way < 2 * third;
    bool sized = cut->fate != DISK_LOST && cut->seed % 2; /* the size is there, and the data are not */
    size_t end = change->at + change->size;
    if (!all && !some && sized && end > c->size) resize(c, end);
    for (size_t at = change->at, next; (all || some) && at < end; at = next) {
        next = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
        if (!all && draw(cut, number, 1 + at / PAGE) % 2) continue;
        if (next > c->size) resize(c, next);
        memcpy(c->bytes + at, change->bytes + (at - change->at), next - at);
    }
}

/* Whether a change that was not synced happened all the same. */
static bool happened(const struct change *change, const struct disk_cut *cut, size_t number)
{
    if (cut->fate == DISK_ANY) { /* in the order of a journal, or in none */
        size_t journal = draw(cut, 0, 3) % (cut->point + 1);
        return draw(cut, 0, 2) % 2 ? number < journal : draw(cut, number, 0) % 2;
    }
    return cut->fate == (change->kind == NAMES ? DISK_NAMES : DISK_DATA);
}

static void write_tree(const struct disk *disk, const struct entry *names, size_t count, int folder,
                       const struct contents *contents, const struct disk_cut *cut, const char *to)
{
    char path[PATH_MAX];
    assert_int_equal(mkdir(to, 0777), 0);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &names[i];
        if (entry->folder != folder || entry->file == NONE) continue;
        const struct contents *c = &contents[entry->file];
        assert_true(snprintf(path, sizeof path, "%s/%s", to, entry->name) < (int)sizeof path);
        if (disk->files[entry->file].folder) {
            write_tree(disk, names, count, entry->file, contents, cut, path);
            continue;
        }
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
        assert_true(fd >= 0);
        if (!is_shared(entry->name)) assert_int_equal(file_write_all(fd, c->bytes, c->size, path, NULL), 0);
        for (uint32_t n = 0, word; is_shared(entry->name) && cut->seed % 2 && n < SHARED_BYTES;
             n += sizeof word) {
            word = draw(cut, i, n);
            assert_int_equal(write(fd, &word, sizeof word), sizeof word);
        }
        close(fd);
    }
}

void disk_rebuild(const struct disk *disk, const struct disk_cut *cut, const char *to)
{
    struct contents *contents = calloc(disk->file_count, sizeof *contents);
    struct entry *names = NULL;
    size_t count = 0, room = 0;
    bool *safe = find_synced(disk, cut->point);
    assert_non_null(contents);
    for (size_t i = 0; i < disk->start_count; i++) set(&names, &count, &room, &disk->start[i]);
    for (size_t i = 0; i < disk->file_count; i++) {
        resize(&contents[i], disk->files[i].start.size);
        if (contents[i].size) memcpy(contents[i].bytes, disk->files[i].start.bytes, contents[i].size);
    }
    for (size_t i = 0; i < cut->point; i++) {
        const struct change *change = &disk->changes[i];
        bool done = safe[i] || (change->kind != DATA && happened(change, cut, i));
        if (change->kind == DATA) write_pages(change, &contents[change->file], safe[i], cut, i);
        if (change->kind == SIZE && done) resize(&contents[change->file], change->size);
        for (int k = 0; done && k < change->entry_count; k++) set(&names, &count, &room, &change->entries[k]);
    }
    write_tree(disk, names, count, ROOT, contents, cut, to);
    for (size_t i = 0; i < disk->file_count; i++) free(contents[i].bytes);
    free(contents), free(names), free(safe);
}

void disk_copy(const struct disk *disk, size_t point, const char *to)
{
    struct disk synced = *disk;
    synced.changes = calloc(point + disk->file_count, sizeof *synced.changes);
    assert_non_null(synced.changes);
    memcpy(synced.changes, disk->changes, point * sizeof *synced.changes);
    synced.change_count = point + disk->file_count;
    for (size_t i = 0; i < disk->file_count; i++)
        synced.changes[point + i] = (struct change){SYNC, .file = (int)i};
    disk_rebuild(&synced, &(struct disk_cut){synced.change_count, DISK_LOST, 0}, to);
    free(synced.changes);
}

/* ---- messages ---- */

/* The newest name of a file. */
static const char *name_of(const struct disk *disk, int file)
{
    for (size_t i = disk->change_count; i-- > 0;)
        for (int k = 0; k < disk->changes[i].entry_count; k++)
            if (disk->changes[i].entries[k].file == file) return disk->changes[i].entries[k].name;
    for (size_t i = 0; i < disk->start_count; i++)
        if (disk->start[i].file == file) return disk->start[i].name;
    return "";
}

const char *disk_describe(const struct disk *disk, const struct disk_cut *cut, char buf[400])
{
    static const char *const kinds[] = {"name", "write", "truncate", "sync", "say"},
                             *const fates[DISK_FATES] = {"lost", "names alone", "data alone", "any"};
    const struct change *change = cut->point ? &disk->changes[cut->point - 1] : NULL;
    const char *name = !change                  ? ""
                       : change->kind == NAMES  ? change->entries[0].name
                       : change->kind == OUTPUT ? (const char *)change->bytes
                                                : name_of(disk, change->file);
    snprintf(buf, 400, "after %zu of %zu changes (%s %.*s): what was not synced: %s, seed %u", cut->point,
             disk->change_count, change ? kinds[change->kind] : "", (int)(strcspn(name, "\n") % 200), name,
             fates[cut->fate], cut->seed);
    return buf;
}
