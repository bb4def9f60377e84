/* See recommended.h. */
#include "tests/tui/command/recommended.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <sys/wait.h>

char *recommended_command(const char *text, const char *key)
{
    char setting[80];
    snprintf(setting, sizeof setting, " --%s=", key);
    for (const char *at = text; (at = strstr(at, "\n  anneal train ")); at++) {
        char *line = strndup(at + strlen("\n  anneal "), strcspn(at + 1, "\n") - strlen("  anneal "));
        if (strstr(line, setting)) return line;
        free(line);
    }
    fail_msg("no command with%s in: %s", setting, text);
    return NULL;
}

int recommended_run(const char *command, const char *more)
{
    char words[4096];
    snprintf(words, sizeof words, "'%s' %s %s </dev/null >/dev/null 2>&1", getenv("ANNEAL_BINARY"), command,
             more);
    int status = system(words);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
