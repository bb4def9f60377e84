/* See recommended.h. */
#include "tests/tui/command/recommended.h"

#include <sys/wait.h>

#include "tests/cmocka.h"
#include "tests/kept.h"

char *recommended_command(const char *text, const char *key)
{
    char setting[80];
    snprintf(setting, sizeof setting, " --%s=", key);
    for (const char *at = text; (at = strstr(at, "\n  ")); at++) {
        char *line = kept(strndup(at + 3, strcspn(at + 3, "\n")), free);
        if (strstr(line, " train ") && strstr(line, setting)) return line;
    }
    fail_msg("no command with%s in: %s", setting, text);
    return NULL;
}

int recommended_run(const char *command, const char *more)
{
    char words[4096];
    snprintf(words, sizeof words, "%s %s </dev/null >/dev/null 2>&1", command, more);
    int status = system(words);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
