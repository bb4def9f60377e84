/* See control_group.h. */
#include "core/base/control_group.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* In a container the process's group may itself be the mount point, and the path that leads to it outside
 * does not exist. below: of version 1, the controller's folder within the mount point. */
static void climb(const char *mounted, const char *below, const char *group, bool second,
                  void (*visit)(void *context, const char *folder, bool second), void *context)
{
    char folder[PATH_MAX], *slash;
    size_t root = strlen(mounted) + strlen(below) + (*below ? 1 : 0);
    int n = snprintf(folder, sizeof folder, "%s%s%s%s", mounted, *below ? "/" : "", below, group);
    if (n >= (int)sizeof folder) return;
    if (folder[n - 1] == '/') folder[n - 1] = '\0';
    for (;; *slash = '\0') {
        visit(context, folder, second);
        if (!(slash = strrchr(folder + root, '/'))) return;
    }
}

/* Whether a list such as "cpu,cpuacct" has the name. */
static bool has_name(const char *names, size_t n, const char *name)
{
    for (size_t at = 0, length; at < n; at += length + 1) {
        const char *comma = memchr(names + at, ',', n - at);
        length = comma ? (size_t)(comma - names) - at : n - at;
        if (length == strlen(name) && memcmp(names + at, name, length) == 0) return true;
    }
    return false;
}

/* A line is "0::/path" of version 2, "4:cpu,memory:/path" of version 1. */
void control_groups_visit(const char *groups, const char *mounted, const char *controller,
                          void (*visit)(void *context, const char *folder, bool second), void *context)
{
    char line[PATH_MAX];
    FILE *file = fopen(groups, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group || group[1] != '/') continue;
        if (group == names + 1)
            climb(mounted, "", group + 1, true, visit, context);
        else if (has_name(names + 1, (size_t)(group - names - 1), controller))
            climb(mounted, controller, group + 1, false, visit, context);
    }
    fclose(file);
}
