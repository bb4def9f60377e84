/* See answer.h. */
#include "answer.h"

#include <limits.h>
#include <math.h>
#include <sys/wait.h>

#include "store_fixture.h"
#include "tests/cmocka.h"

/* Runs `anneal ARGUMENTS` (a shell's words) with ANNEAL_HOME set to `home`. */
struct answer answer_of(const char *home, const char *arguments)
{
    const char *binary = getenv("ANNEAL_BINARY");
    char command[4 * PATH_MAX], path[PATH_MAX + 16];
    if (!binary) skip();
    snprintf(command, sizeof command, "ANNEAL_HOME='%s' TZ=UTC '%s' %s >'%s/out' 2>'%s/err' </dev/null", home,
             binary, arguments, home, home);
    int status = system(command);
    struct answer answer = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
    snprintf(path, sizeof path, "%s/out", home);
    answer.out = store_fixture_slurp(path, NULL);
    snprintf(path, sizeof path, "%s/err", home);
    answer.err = store_fixture_slurp(path, NULL);
    return answer;
}

void answer_free(struct answer *answer)
{
    free(answer->out);
    free(answer->err);
}

/* The command must end with `code` and say `words` (on standard output for 0, else on standard error). */
void answer_expect(const char *home, const char *arguments, int code, const char *words)
{
    struct answer a = answer_of(home, arguments);
    if (a.code != code || !strstr(code ? a.err : a.out, words))
        fail_msg("anneal %s: %d, not %d with \"%s\"\nout: %s\nerr: %s", arguments, a.code, code, words, a.out,
                 a.err);
    if (code) assert_string_equal(a.out, "");
    answer_free(&a);
}

json_t *answer_json(const char *home, const char *arguments)
{
    struct answer a = answer_of(home, arguments);
    json_error_t error;
    assert_int_equal(a.code, 0);
    assert_string_equal(a.err, "");
    json_t *json = json_loads(a.out, 0, &error);
    if (!json) fail_msg("%s: %s", error.text, a.out);
    answer_free(&a);
    return json;
}

/* Three runs: one finished, one crashed, one never started. */
void answer_furnish(const char *home, char finished[RUN_ID_MAX], char crashed[RUN_ID_MAX])
{
    char untouched[RUN_ID_MAX];
    struct err err = {0};
    store_fixture_run(home, "psalms", finished);
    store_fixture_run(home, "job", crashed);
    store_fixture_run(home, "ruth", untouched);
    for (int i = 0; i < 2; i++) {
        struct writer *writer = store_fixture_writer(home, i ? crashed : finished);
        for (int64_t s = 0; s < 300; s++) {
            struct step_record step = store_fixture_step(s, i);
            if (s == 7) step.loss = NAN;
            writer_step(writer, &step);
            if (s % 100 == 99) {
                writer_eval(writer,
                            &(struct eval_record){s + 1, 0, 1.7e9, 3.5 - (double)s / 1000 + i, 30, 12});
                writer_stopping(writer,
                                &(struct stopping_record){s + 1, 3.4, 3.3, 100, 0.001, false, s / 100, 3,
                                                          s == 299 ? VERDICT_STOP : VERDICT_WAITING, NULL});
            }
        }
        writer_sample(writer, &(struct sample_record){300, "In the beginning", "God created\nthe heaven"});
        writer_checkpoint(writer,
                          &(struct checkpoint_record){300, 1.7e9, "checkpoints/step-300", "last", 43000000});
        writer_event(writer,
                     &(struct event_record){7, 1.7e9, "warning", "update skipped: the loss is nan", false});
        assert_int_equal(writer_close(writer, RUN_EARLY_STOPPED, "3 evaluations without improvement", &err),
                         STATUS_OK);
    }
    /* a run with status running whose lock no process holds */
    store_fixture_sql(home,
                      "update runs set status = 'running', ended_at = null, message = '' where name = 'job'");
}
