/* anneal bench: the members of its result that other programs compare. */
#include <jansson.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static char *bench(const char *rounds, const char *form)
{
    return process_output("bench", "step", "--model.preset=shakespeare", "--model.num_layers=1",
                          "--train.batch_size=2", "--train.seq_len=32", rounds, form, NULL);
}

STAGE_CASE(steps_learn_their_batch, struct stage *s)
{
    assert_non_null(strstr(bench("--rounds=1", NULL), " shakespeare, lion, batch 2 x 32\n"));
    json_t *json = stage_json(bench("--rounds=3", "--json"));
    assert_true(stage_real(json, "first_loss") > 7.5); /* about log 2048: nothing has been learned */
    assert_true(stage_real(json, "last_loss") < stage_real(json, "first_loss") - 0.1);
    assert_true(stage_real(json, "peak_rss_bytes") > stage_real(json, "planned_bytes"));
    assert_string_equal(stage_text(json, "precision"), "fp32");
}

/* Several times, because times that are not sorted may be in order by chance. */
STAGE_CASE(the_spread_of_the_steps_holds_their_median, struct stage *s)
{
    for (int i = 0; i < 3; i++) {
        json_t *json = stage_json(bench("--rounds=5", "--json"));
        assert_true(stage_real(json, "step_ms_min") > 0);
        assert_true(stage_real(json, "step_ms_min") <= stage_real(json, "step_ms"));
        assert_true(stage_real(json, "step_ms") <= stage_real(json, "step_ms_max"));
    }
}

TEST_MAIN()
