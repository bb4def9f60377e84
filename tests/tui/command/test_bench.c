/* anneal bench: the members of its result that other programs compare. */
#include <jansson.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

STAGE_CASE(steps_learn_their_batch_and_the_spread_holds_the_median, struct stage *s)
{
    json_t *json = stage_json(process_output("bench", "step", "--model.preset=shakespeare",
                                             "--model.num_layers=1", "--train.batch_size=2",
                                             "--train.seq_len=32", "--rounds=3", "--json", NULL));
    assert_true(stage_real(json, "first_loss") > 7.5); /* about log 2048: nothing has been learned */
    assert_true(stage_real(json, "last_loss") < stage_real(json, "first_loss") - 0.1);
    assert_true(stage_real(json, "step_ms_min") > 0);
    assert_true(stage_real(json, "step_ms_min") <= stage_real(json, "step_ms"));
    assert_true(stage_real(json, "step_ms") <= stage_real(json, "step_ms_max"));
    assert_true(stage_real(json, "peak_rss_bytes") > stage_real(json, "planned_bytes"));
    assert_string_equal(stage_text(json, "precision"), "fp32");
}

TEST_MAIN()
