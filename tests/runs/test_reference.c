/* Which runs refer to the checkpoints of another one. */
#include <limits.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/reference.h"
#include "store_fixture.h"
#include "tests/cmocka.h"
#include "tests/kept.h"

/* `value`: a key of the run "user". Whether it then refers to this step of the run "base". */
static bool refers(const char *home, const char *base, const char *value, int64_t step)
{
    struct run_references references;
    struct arena arena = {0};
    struct err err = {0};
    store_fixture_sql(home, kept_format("update params set value = '%s' where name = 'model.from'", value));
    struct store *store = store_fixture_open(home);
    if (run_references_read(store, &arena, &references, &err)) fail_msg("%s", err.text);
    assert_int_equal(references.count, 1);
    bool found = run_references_find(&references, store, base, step, 0) == 0;
    arena_release(&arena);
    store_close(store);
    return found;
}

/* step-1 is the beginning of step-10, as a word and as a path. */
TEST_CASE(a_reference_is_to_one_checkpoint_alone)
{
    char home[PATH_MAX], base[RUN_ID_MAX], user[RUN_ID_MAX];
    store_fixture_home("references", home, sizeof home);
    store_fixture_run(home, "base", base);
    store_fixture_run(home, "user", user);
    store_fixture_sql(home, "delete from params");
    store_fixture_sql(
        home, kept_format("insert into params(run_id, name, value) values('%s', 'model.from', 'x')", user));
    for (int step = 1; step <= 10; step += 9)
        assert_int_equal(
            file_make_folders(kept_format("%s/runs/%s/checkpoints/step-%d", home, base, step), NULL),
            STATUS_OK);
    const char *link = kept_format("%s/link", home),
               *path = kept_format("%s/runs/%s/checkpoints/step-10", home, base);
    assert_int_equal(symlink(path, link), 0);
    const char *const values[] = {path, link, kept_format("/gone/runs/%s/checkpoints/step-10", base)};
    for (int i = 0; i < 3; i++) {
        assert_true(refers(home, base, values[i], 10));
        assert_false(refers(home, base, values[i], 1));
        assert_true(refers(home, base, values[i], -1));  /* any step */
        assert_false(refers(home, user, values[i], 10)); /* the run's own */
    }
    assert_false(refers(home, base, "/elsewhere", -1));
}

/* A damaged row may lack what its table demands. */
TEST_CASE(a_reference_of_no_run_is_listed_too)
{
    char home[PATH_MAX];
    struct run_references references;
    struct arena arena = {0};
    struct err err = {0};
    store_fixture_home("no-run", home, sizeof home);
    store_close(store_fixture_open(home));
    store_fixture_sql(home, "drop table params; create table params(run_id, name, value);"
                            " insert into params values(null, 'model.from', 'x')");
    struct store *store = store_fixture_open(home);
    if (run_references_read(store, &arena, &references, &err)) fail_msg("%s", err.text);
    assert_int_equal(references.count, 1);
    assert_string_equal(references.of[0].run, "");
    assert_string_equal(references.of[0].path, "x");
    arena_release(&arena);
    store_close(store);
}

TEST_MAIN()
