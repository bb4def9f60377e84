/* The recorded run whose speed says most about a new one. */
#include "runs/alike.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static void add(const char *home, const char *name, const char *device, int64_t parameters, int frozen,
                int steps)
{
    char id[RUN_ID_MAX], sql[400];
    store_fixture_run(home, name, id);
    snprintf(sql, sizeof sql,
             "update runs set device = '%s', precision = 'fp32', parameters = %lld, frozen_parameters = %d,"
             " tokens_per_sec = 100, steps = %d where id = '%s'",
             device, (long long)parameters, frozen, steps, id);
    store_fixture_sql(home, sql);
}

TEST_CASE(the_nearest_in_size_on_the_same_device_is_taken_and_a_parent_before_all)
{
    static const struct {
        struct run_info wanted;
        const char *parent, *found; /* names; found NULL: none */
    } cases[] = {
        {{.device = "cpu", .parameters = 1100}, NULL, "small"},
        {{.device = "cpu", .parameters = 4000}, NULL, "large"},
        {{.device = "cpu", .parameters = 1100, .precision = "bf16"}, NULL, NULL},
        {{.device = "cpu", .parameters = 1100, .frozen_parameters = 9}, NULL, "adapters"},
        {{.device = "cpu", .parameters = 1000}, "large", "large"},
        {{.device = "cpu", .parameters = 1000000}, NULL, NULL}, /* none is of about this size */
        {{.device = "cpu"}, NULL, NULL},
        {{.device = "cuda:1", .parameters = 1000}, NULL, NULL},
    };
    char home[1024];
    store_fixture_home("alike", home, sizeof home);
    add(home, "large", "cpu", 5000, 0, 100);
    add(home, "small", "cpu", 1000, 0, 100);
    add(home, "adapters", "cpu", 1100, 1000, 100);
    add(home, "elsewhere", "cuda:0", 1100, 0, 100);
    add(home, "brief", "cpu", 1100, 0, 1);
    struct store *store = store_fixture_open(home);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_info wanted = cases[i].wanted, parent, found = {0};
        if (cases[i].parent) {
            assert_int_equal(run_find(store, cases[i].parent, &parent, NULL), STATUS_OK);
            memcpy(wanted.parent_id, parent.id, sizeof wanted.parent_id);
        }
        bool any = run_find_alike(store, &wanted, &found);
        if (any != (cases[i].found != NULL) || (any && strcmp(found.name, cases[i].found) != 0))
            fail_msg("case %zu: %s", i, any ? found.name : "none");
    }
    store_close(store);
}

TEST_MAIN()
