/* Texts, parsed JSON and child processes that a test keeps until its end. The teardown releases them, also
 * when the test fails, which cmocka leaves by longjmp. */
#ifndef ANNEAL_TESTS_KEPT_H
#define ANNEAL_TESTS_KEPT_H

/* Keeps a thing for the test's teardown, which calls `release` with it. Returns it; fails the test for NULL.
 */
void *kept(void *thing, void (*release)(void *thing));

/* A formatted text that is kept. */
char *kept_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Forgets a thing that is released earlier, if it is kept. */
void kept_forget(const void *thing);

/* Releases all, the newest first. */
void kept_release(void);
/* The same as the teardown of a test; returns 0. */
int kept_teardown(void **state);

#endif
