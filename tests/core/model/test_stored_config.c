/* Configurations that were stored before a key existed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "core/model/config.h"

static void a_run_stored_without_early_evaluations_and_samples_has_none_when_resumed(void **state)
{
    (void)state;
    struct config config;
    struct err err = {0};
    config_init(&config);
    assert_true(config.eval.early && config.sample.early);
    assert_int_equal(config_read_effective(&config, "[eval]\nevery = 100\n", "stored", &err), STATUS_OK);
    assert_false(config.eval.early || config.sample.early);
    assert_int_equal(config_read_effective(&config, "[eval]\nearly = true\n", "stored", &err), STATUS_OK);
    assert_true(config.eval.early && !config.sample.early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_stored_without_early_evaluations_and_samples_has_none_when_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
