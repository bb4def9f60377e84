/* The switch of the bugs that `make mutate` plants: the first include of each file that has one. MUTANT names
 * the bug that this process runs with. MUTANT_MARKS names a file of one byte a bug, in which a process
 * without a bug marks those whose place it reached (1), and those that would have made a difference there
 * (2). */
#ifndef ANNEAL_TESTS_MUTATE_MUTANT_H
#define ANNEAL_TESTS_MUTATE_MUTANT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Weak, so that all files of a program or a library share them. */
__attribute__((weak)) int mutant_chosen; /* 0: none, -1: places are marked */
__attribute__((weak)) unsigned char *mutant_marks;

/* A mapped file: the marks of a process that is killed remain, and marking is no system call. */
__attribute__((constructor)) static void mutant_start(void)
{
    const char *chosen = getenv("MUTANT"), *path = getenv("MUTANT_MARKS");
    if (chosen) mutant_chosen = atoi(chosen);
    if (!path || mutant_chosen) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat file;
    if (fd < 0) return;
    void *at = fstat(fd, &file) ? MAP_FAILED
                                : mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return;
    mutant_marks = (unsigned char *)at;
    mutant_chosen = -1;
}

/* Not instrumented: the simulator takes ThreadSanitizer's place in kernels, without atomic operations. */
__attribute__((no_sanitize("thread"))) static inline bool mutant_mark(int number, bool differs)
{
    unsigned char marks = differs ? 3 : 1;
    if ((mutant_marks[number] & marks) != marks)
        __atomic_fetch_or(&mutant_marks[number], marks, __ATOMIC_RELAXED);
    return false;
}

/* Whether this process has bug `number`. The second argument tells whether the bug makes a difference here;
 * it is evaluated only while places are marked. */
#define MUTANT(number, ...)                                                                                  \
    (mutant_chosen < 0 ? mutant_mark(number, (__VA_ARGS__)) : mutant_chosen == (number))

/* The result of a check that the bug replaces by `without`. */
static inline bool mutant_check(int number, bool without, bool result)
{
    return MUTANT(number, result != without) ? without : result;
}
#define MUTANT_CHECK(number, without, ...) mutant_check(number, without, (__VA_ARGS__))

/* The configuration with every key at its default. */
#define MUTANT_CONFIG                                                                                        \
    ({                                                                                                       \
        static struct config mutant_config;                                                                  \
        config_init(&mutant_config);                                                                         \
        &mutant_config;                                                                                      \
    })

#endif
