/* How fast tokens on disk become batches: from a .tok file, a 16-bit shard and several of them, with the page
 * cache warm and cold, cut in the step and by the prefetch thread. For each: tokens/s without other work, and
 * the time that a trainer of a million tokens/s waits for a batch. For comparison: the speed of a memory
 * copy.
 *
 * The files (256 MiB in all) are made in $ANNEAL_HOME and removed. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "datasets/prefetch.h"

enum { TOKENS = 32 << 20, SHARDS = 8, B = 16, T = 1024, BATCHES = 800, STEPS = 120, RUNS = 3, VOCAB = 50257 };

static const double aim = 1e6; /* tokens/s */

struct source {
    const char *name;
    char paths[SHARDS][PATH_MAX];
    size_t count;
    int width; /* bytes an id */
    struct token_file files[SHARDS];
    struct split train, validation;
};

static void stop_on(enum status status, const struct err *err)
{
    if (!status) return;
    printf("bench_batches: %s\n", err->text);
    exit(1);
}

static void write_file(const char *path, int width, size_t tokens)
{
    size_t header = width == 2 ? 1024 : 8, bytes = header + (size_t)width * tokens;
    unsigned char *data = calloc(bytes, 1);
    struct err err = {0};
    uint64_t noise = 88172645463325252ull;
    if (!data) stop_on(err_set(&err, STATUS_NO_MEMORY, "no memory for %zu bytes", bytes), &err);
    if (width == 2)
        memcpy(data, (int32_t[]){20240520, 1, (int32_t)tokens}, 12);
    else
        memcpy(data, (uint64_t[]){tokens}, 8);
    for (size_t i = 0; i < tokens; i++) {
        noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
        uint32_t id = (uint32_t)(noise >> 33) % VOCAB;
        memcpy(data + header + (size_t)width * i, &id, (size_t)width); /* little-endian */
    }
    stop_on(file_write_atomic(path, data, bytes, &err), &err); /* synced: clean pages can be dropped */
    free(data);
}

static void make_source(struct source *s, const char *folder, const char *name, int width, size_t count)
{
    *s = (struct source){.name = name, .count = count, .width = width};
    for (size_t i = 0; i < count; i++) {
        snprintf(s->paths[i], sizeof s->paths[i], "%.3000s/bench-%d-%zu-%zu.%s", folder, width, count, i,
                 width == 2 ? "bin" : "tok");
        write_file(s->paths[i], width, TOKENS / count);
    }
}

static void close_source(struct source *s)
{
    split_release(&s->train);
    split_release(&s->validation);
    for (size_t i = 0; i < s->count; i++) token_file_close(&s->files[i]);
}

/* Pages of a mapping, and how many of them are in memory. */
static void count_pages(void *map, size_t bytes, size_t *pages, size_t *in)
{
    size_t count = (bytes + 4095) / 4096;
    unsigned char *held = malloc(count);
    if (held && mincore(map, bytes, held) == 0)
        for (size_t i = 0; i < count; i++) *in += held[i] & 1;
    *pages += count;
    free(held);
}

/* Drops the pages from the page cache, as far as the system allows. */
static void drop(const char *path)
{
    struct file_map map;
    size_t pages, in = 1;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || file_map_open(path, &map, NULL)) return;
    for (int attempt = 0; in && attempt < 20; attempt++) {
        pages = in = 0;
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        count_pages((void *)map.data, map.size, &pages, &in);
    }
    file_map_close(&map);
    close(fd);
}

/* Opens the files anew, with all of them in memory or none. Returns the share that is. */
static double open_source(struct source *s, bool cold)
{
    struct err err = {0};
    size_t pages = 0, in = 0;
    struct corpus corpus = {.files = s->files, .file_count = s->count};
    for (size_t i = 0; i < s->count; i++) {
        if (cold) drop(s->paths[i]);
        stop_on(token_file_open(s->paths[i], &s->files[i], &err), &err);
        if (!cold) token_file_measure(&s->files[i], NULL);
        count_pages((void *)s->files[i].map.data, s->files[i].map.size, &pages, &in);
        corpus.tokens += s->files[i].count;
    }
    stop_on(split_corpus(&corpus, &(struct split_rule){VAL_TAIL, 0.01, T, 1337, SHUFFLE_RANDOM}, &s->train,
                         &s->validation, &err),
            &err);
    return (double)in / (double)pages;
}

/* Tokens/s of BATCHES batches, one after the other. */
static double measure_rate(struct source *s, bool async)
{
    struct prefetch *prefetch;
    struct err err = {0};
    stop_on(prefetch_open(split_source(&s->train), B, async, &prefetch, &err), &err);
    double start = clock_monotonic();
    for (uint64_t i = 0; i < BATCHES; i++) prefetch_take(prefetch, i * B, B);
    double seconds = clock_monotonic() - start;
    prefetch_close(prefetch);
    return (double)BATCHES * B * T / seconds;
}

/* The time that each of STEPS steps waits for its batch; the rest of a step takes the time that the aim
 * leaves for it.
 *
 * */
static void measure_waits(struct source *s, bool async, double *mean, double *worst)
{
    struct prefetch *prefetch;
    struct err err = {0};
    struct timespec step = {.tv_nsec = (long)(1e9 * B * T / aim)};
    stop_on(prefetch_open(split_source(&s->train), B, async, &prefetch, &err), &err);
    *mean = *worst = 0;
    for (uint64_t i = 0; i < STEPS; i++) {
        double start = clock_monotonic();
        prefetch_take(prefetch, i * B, B);
        double waited = clock_monotonic() - start;
        nanosleep(&step, NULL);
        if (!i) continue; /* nothing is ahead of the first */
        *mean += waited / (STEPS - 1);
        if (waited > *worst) *worst = waited;
    }
    prefetch_close(prefetch);
}

static void measure(struct source *s, bool cold, bool async)
{
    double best = 0, share = 0, mean, worst;
    for (int run = 0; run < RUNS; run++) {
        share = open_source(s, cold);
        double rate = measure_rate(s, async);
        if (rate > best) best = rate;
        close_source(s);
    }
    open_source(s, cold);
    measure_waits(s, async, &mean, &worst);
    close_source(s);
    printf("%-22s %-5s %4.0f%%  %-10s %8.1f  %7.2f  %9.1f %9.1f %8.3f%%\n", s->name, cold ? "cold" : "warm",
           100 * share, async ? "prefetch" : "in step", best / 1e6, best * (s->width + 8) / 1e9, 1e6 * mean,
           1e6 * worst, 100 * mean * aim / B / T);
}

/* Bytes a second that memcpy reads and writes, far beyond the caches; the best of several. */
static double measure_copy(void)
{
    enum { BYTES = 256 << 20 };
    char *from = malloc(BYTES), *to = malloc(BYTES);
    double best = 0;
    if (!from || !to) return 0;
    memset(from, 1, BYTES);
    for (int run = 0; run < 5; run++) {
        double start = clock_monotonic();
        memcpy(to, from, BYTES);
        double rate = 2.0 * BYTES / (clock_monotonic() - start);
        if (run && rate > best) best = rate;
    }
    if (to[BYTES / 2] != 1) printf("copied wrongly\n"); /* and so it is not left out */
    free(from);
    free(to);
    return best;
}

int main(void)
{
    static struct source sources[3];
    char home[4000];
    struct err err = {0};
    stop_on(file_anneal_home(home, sizeof home, &err), &err);
    stop_on(file_make_folders(home, &err), &err);
    make_source(&sources[0], home, ".tok", 4, 1);
    make_source(&sources[1], home, "shard, 16 bits", 2, 1);
    make_source(&sources[2], home, "8 shards, 16 bits", 2, SHARDS);
    double copy = measure_copy();
    printf("%d tokens, batches of %d x %d, shuffled at random; the aim is %.0f Mtok/s\n", TOKENS, B, T,
           aim / 1e6);
    printf("memory is copied at %.1f GB/s, read and written: the limit is %.0f Mtok/s from 32 bits, %.0f "
           "from 16\n",
           copy / 1e9, copy / 12 / 1e6, copy / 10 / 1e6);
    printf("%44s %8s  %7s  %29s\n", "", "as fast", "moved", "waits at 1 Mtok/s: us a step");
    printf("%-22s %-5s %5s  %-10s %8s  %7s  %9s %9s %9s\n", "from", "cache", "held", "cut", "Mtok/s", "GB/s",
           "mean", "worst", "of a step");
    for (int i = 0; i < 3; i++)
        for (int cold = 0; cold < 2; cold++)
            for (int async = 0; async < 2; async++) measure(&sources[i], cold, async);
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < sources[i].count; k++) unlink(sources[i].paths[k]);
    return 0;
}
