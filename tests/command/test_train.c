/* `train`, `resume`, `order` and `generate` as a user runs them: what they print, how they end, what they
 * leave recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "tests/command/process.h"
#include "tests/command/stage.h"

/* ---- interruption and resuming ---- */

static void interrupt_and_resume(const char *name, int number, int status)
{
    struct stage s;
    struct history whole, parts;
    stage_open(&s, name);
    process_close(process_run(0, "train", s.config, "--name", "whole", "--train.total_steps=1000",
                              "--progress", "none", NULL));
    struct process *trainer = process_start("train", s.config, "--name", "parts", "--train.total_steps=1000",
                                            "--checkpoint.every=0", "--progress", "json", NULL);
    process_wait_lines(trainer, 37);
    process_signal(trainer, number);
    process_expect(status, trainer);
    process_close(trainer);
    assert_string_equal(stage_status(), "stopped");
    process_close(process_run(0, "resume", "parts", "--progress", "none", NULL));
    assert_string_equal(stage_status(), "finished");
    history_read("whole", &whole);
    history_read("parts", &parts);
    assert_int_equal(whole.count, 1000);
    assert_int_equal(parts.steps[0].segment, 1);
    assert_int_equal(parts.steps[999].segment, 2);
    history_expect_equal(&whole, &parts);
    history_release(&whole);
    history_release(&parts);
}

static void ctrl_c_checkpoints_and_resume_continues_bit_for_bit(void **state)
{
    (void)state;
    interrupt_and_resume("ctrl-c", SIGINT, 130);
}

static void sigterm_checkpoints_and_resume_continues_bit_for_bit(void **state)
{
    (void)state;
    interrupt_and_resume("sigterm", SIGTERM, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ctrl_c_checkpoints_and_resume_continues_bit_for_bit, process_close_all),
        cmocka_unit_test_teardown(sigterm_checkpoints_and_resume_continues_bit_for_bit, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
