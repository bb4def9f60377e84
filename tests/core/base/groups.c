/* See groups.h. */
#include "tests/core/base/groups.h"

#include <limits.h>

#include "core/base/file.h"
#include "tests/cmocka.h"

char groups_root[512], groups_file[600];

void groups_begin(const char *name)
{
    struct err err = {0};
    const char *folder = getenv("ANNEAL_TEST_DIR");
    assert_non_null(folder);
    snprintf(groups_root, sizeof groups_root, "%s/groups-%s", folder, name);
    snprintf(groups_file, sizeof groups_file, "%s/groups", groups_root);
    if (file_remove_tree(groups_root, &err) || file_make_folders(groups_root, &err)) fail_msg("%s", err.text);
}

void groups_put(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    struct err err = {0};
    snprintf(path, sizeof path, "%s%s", groups_root, folder);
    if (file_make_folders(path, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s%s/%s", groups_root, folder, name);
    if (file_write_atomic(path, text, strlen(text), &err)) fail_msg("%s", err.text);
}
