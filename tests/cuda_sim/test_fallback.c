/* The real binary with the simulator as its CUDA plugin, and a GPU that fails: at the start, between two
 * steps, in an evaluation, a sample or a checkpoint, at the end. With --device auto the CPU continues from
 * the last good state and the run's history reports it; with --device cuda the run fails with one sentence.
 * The simulator itself checks that nothing calls CUDA after a sticky error: it would end the process. */
#include <jansson.h>
#include <math.h>
#include <signal.h>

#include "tests/cmocka.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

/* As in test_training.c: runs of this length on the simulator and on the CPU may differ by 2e-5 (measured:
 * 1e-7); a fallback has numbers from both. */
static const double LOSS_TOLERANCE = 2e-5;

/* One small layer; eight steps, an evaluation after the fourth and the eighth, a checkpoint every three. */
#define SMALL                                                                                                \
    "--model.hidden_dim=16", "--train.seq_len=8", "--train.schedule=constant", "--train.warmup_steps=0",     \
        "--eval.batches=1", "--train.precision=fp32"
#define EIGHT SMALL, "--train.total_steps=8", "--eval.every=4", "--checkpoint.every=3", "--checkpoint.keep=9"

static void expect_query(const struct stage *s, const char *sql, const char *expected)
{
    char *text = stage_query(s, sql);
    if (strcmp(text, expected) != 0) fail_msg("%s:\n%s\ninstead of\n%s", sql, text, expected);
}

/* Expects the run `name` and the run "cpu" to have the same losses. */
static void expect_losses(const char *name, double tolerance)
{
    struct history want, got;
    want = history_of("cpu");
    got = history_of(name);
    assert_int_equal(got.count, want.count);
    for (int64_t i = 0; i < want.count; i++) {
        double a = strtod(want.steps[i].values, NULL), b = strtod(got.steps[i].values, NULL);
        if (!(fabs(a - b) <= tolerance * fabs(a)))
            fail_msg("step %d: loss %.9g instead of the CPU's %.9g", (int)i, b, a);
    }
}

/* ---- in the midst of training ---- */

struct failure {
    const char *machine, *sample_every;
    const char *says;     /* in the event */
    const char *segments; /* segment:first step:status, … */
    const char *steps;    /* segment:count, … of recorded ones */
    const char *others;   /* evaluations, samples and checkpoints of the first segment */
};

static void expect_fall_back(const struct failure *f)
{
    struct stage s;
    stage_open(&s, "midst");
    simulated_plugin_use(f->machine);
    process_run(0, "train", s.config, EIGHT, f->sample_every, "--name=cpu", "--device=cpu", "--progress=none",
                NULL);
    struct process *p =
        process_run(0, "train", s.config, EIGHT, f->sample_every, "--name=auto", "--progress=plain", NULL);
    const char *said = strstr(process_stderr(p), "warning: ");
    if (!said || strstr(said + 1, "warning: ")) fail_msg("not one warning: %s", process_stderr(p));
    char *event = kept_format("%.*s", (int)strcspn(said, "\r\n"), said);
    if (!strstr(event, f->says)) fail_msg("\"%s\"\ndoes not say \"%s\"", event, f->says);

    expect_query(&s,
                 "select segment, device, precision, status, steps, message from runs where name = 'auto'",
                 "2|cpu|fp32|finished|8|");
    expect_query(&s,
                 "select group_concat(segment || ':' || coalesce(first_step, '') || ':' || status, ' ')"
                 " from segments where run_id like '%auto'",
                 f->segments);
    expect_query(&s,
                 "select group_concat(n, ' ') from (select segment || ':' || count(*) n from steps where"
                 " run_id like '%auto' group by segment)",
                 f->steps);
    expect_query(&s,
                 "select (select count(*) from evals where run_id like '%auto' and segment = 1) || ' ' ||"
                 " (select count(*) from samples where run_id like '%auto' and segment = 1) || ' ' ||"
                 " (select count(*) from checkpoints where run_id like '%auto' and segment = 1)",
                 f->others);
    char *stored = stage_query(&s, "select segment || level || ': ' || text from events");
    if (strncmp(stored, "2warning: ", 10) != 0 || !strstr(stored, f->says)) fail_msg("stored: %s", stored);
    expect_query(&s, "select count(*) from evals where val_loss is null or nan != 0", "0");
    expect_losses("auto", LOSS_TOLERANCE); /* which also reads the CSV */
    assert_int_equal(stage_count_leftovers(&s), 0);
}

TEST_CASE_WITH(a_fault_before_the_first_checkpoint_starts_from_the_beginning, NULL, simulated_plugin_forget)
{
    expect_fall_back(&(struct failure){
        "fault_at:2:embedding_gather", "--sample.every=0",
        "cuda:0 failed after step 1; training continues on the CPU from the beginning, repeating 1 step, "
        "in fp32: a kernel",
        "1:0:failed 2:0:finished", "1:1 2:8", "0 0 0"});
}

TEST_CASE_WITH(a_fault_continues_from_the_newest_checkpoint, NULL, simulated_plugin_forget)
{
    (void)state; /* eight forward passes are of seven steps and an evaluation */
    expect_fall_back(
        &(struct failure){"fault_at:9:embedding_gather", "--sample.every=0",
                          "after step 7; training continues on the CPU from the checkpoint of step 6, "
                          "repeating 1 step, in fp32: a kernel",
                          "1:0:failed 2:6:finished", "1:7 2:2", "1 0 3"});
}

TEST_CASE_WITH(a_fault_in_an_evaluation_leaves_no_evaluation, NULL, simulated_plugin_forget)
{
    (void)state; /* this kernel is of evaluations alone */
    expect_fall_back(&(struct failure){"fault_at:1:cross_entropy_rows<false,", "--sample.every=0",
                                       "after step 4; ", "1:0:failed 2:3:finished", "1:4 2:5", "0 0 1"});
}

TEST_CASE_WITH(a_fault_in_a_sample_leaves_no_sample, NULL, simulated_plugin_forget)
{
    (void)state; /* the fourth forward pass is the sample's second */
    expect_fall_back(&(struct failure){"fault_at:4:embedding_gather", "--sample.every=2", "after step 2; ",
                                       "1:0:failed 2:0:finished", "1:2 2:8", "0 0 0"});
}

TEST_CASE_WITH(a_device_lost_in_a_checkpoint_leaves_no_checkpoint, NULL, simulated_plugin_forget)
{
    (void)state; /* only weights and moments are that large: the first of them in the second checkpoint */
    expect_fall_back(&(struct failure){
        "lost_at:4:16384", "--sample.every=0",
        "training continues on the CPU from the checkpoint of step 3, repeating 1 step, in fp32: ",
        "1:0:failed 2:3:finished", "1:4 2:5", "1 0 1"});
}

TEST_CASE_WITH(a_launch_without_memory_loses_no_step, NULL, simulated_plugin_forget)
{
    (void)state; /* the state in the device's memory is saved before the CPU takes over */
    expect_fall_back(&(struct failure){
        "no_room_at:3:optimizer_update", "--sample.every=0",
        "training continues on the CPU from the checkpoint of step 2, in fp32: ", "1:0:failed 2:2:finished",
        "1:2 2:6", "0 0 1"});
}

/* The faulty step is queued before the previous one is reported, and the fault is found when the host waits
 * for that one. */
TEST_CASE_WITH(streams_that_are_late_fall_back_from_the_same_step, NULL, simulated_plugin_forget)
{
    setenv("ANNEAL_SIM_STREAMS", "late", 1);
    a_fault_continues_from_the_newest_checkpoint(state);
    a_launch_without_memory_loses_no_step(state);
}

/* The base is loaded again from its folder, the adapters from the newest whole checkpoint. */
TEST_CASE_WITH(adapters_go_on_beside_their_base_on_the_cpu, NULL, simulated_plugin_forget)
{
    static const char *const cases[4][3] = {
        {"fault_at:2:embedding_gather", "auto", "1:0:failed 2:0:finished"},
        {"fault_at:9:embedding_gather", "nf4", "1:0:failed 2:6:finished"},
        {"lost_at:6:256", "auto", "1:0:failed 2:3:finished"},
        {"no_room_at:3:optimizer_update", "nf4", "1:0:failed 2:2:finished"},
    };
    for (int i = 0; i < 4; i++) {
        struct stage s;
        char base[32];
        stage_open(&s, "adapters");
        char *from = kept_format("--model.from=%s/base", s.folder);
        snprintf(base, sizeof base, "--lora.base=%s", cases[i][1]);
        simulated_plugin_use(cases[i][0]);
        process_run(0, "train", s.config, SMALL, "--train.total_steps=4", "--name=base", "--device=cpu",
                    "--progress=none", NULL);
        process_run(0, "model", "export", "base", "-o", strchr(from, '/'), NULL);
#define ADAPTERS                                                                                             \
    s.config, EIGHT, from, base, "--lora.rank=4", "--train.learning_rate=0.02", "--sample.every=0",          \
        "--progress=none"
        process_run(0, "train", ADAPTERS, "--name=cpu", "--device=cpu", NULL);
        process_run(0, "train", ADAPTERS, "--name=auto", NULL);
        expect_query(&s,
                     "select group_concat(segment || ':' || coalesce(first_step, '') || ':' || status, ' ')"
                     " from segments where run_id like '%auto'",
                     cases[i][2]);
        expect_losses("auto", *cases[i][1] == 'n' ? 2e-3 : LOSS_TOLERANCE);
        assert_int_equal(stage_count_leftovers(&s), 0);
    }
}

STAGE_CASE_TEARDOWN(a_bf16_run_continues_in_fp32, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("fault_at:9:embedding_gather");
    process_run(0, "train", s->config, EIGHT, "--train.precision=bf16", "--progress=none", NULL);
    expect_query(s, "select device, precision, status, segment from runs", "cpu|fp32|finished|2");
    expect_query(s,
                 "select count(*) from events where text like '%training continues on the CPU from %, in "
                 "fp32 instead of bf16: %'",
                 "1");
}

/* ---- with --device cuda ---- */

STAGE_CASE_TEARDOWN(cuda_alone_fails_with_a_sentence_and_can_be_resumed_on_the_cpu, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("fault_at:9:embedding_gather");
    process_run(0, "train", s->config, EIGHT, "--name=cpu", "--device=cpu", "--progress=none", NULL);
    process_expect_sentence(
        process_run(1, "train", s->config, EIGHT, "--name=gpu", "--device=cuda", "--progress=none", NULL),
        "unspecified launch failure (continue from the last checkpoint: ");
    expect_query(s, "select device, status, steps, segment from runs where name = 'gpu'",
                 "cuda:0|failed|7|1");
    process_run(0, "resume", "gpu", "--device=cpu", "--progress=none", NULL);
    expect_query(s, "select device, status, steps, segment from runs where name = 'gpu'", "cpu|finished|8|2");
    expect_query(s,
                 "select count(*) from events where segment = 2 and text like 'continues with %, but the "
                 "checkpoint was computed with CUDA, cuBLASLt 13.%.%, CUDA simulator: %'",
                 "1");
    expect_losses("gpu", LOSS_TOLERANCE);
}

STAGE_CASE_TEARDOWN(cuda_alone_without_a_checkpoint_says_that_there_is_none, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("lost_at:2"); /* the second step's result */
    process_expect_sentence(
        process_run(1, "train", s->config, EIGHT, "--device=cuda", "--progress=none", NULL),
        "CUDA-capable device(s) is/are busy or unavailable (there is no checkpoint to continue from");
    expect_query(s, "select device, status, steps from runs", "cuda:0|failed|1");
}

/* ---- orders and signals ---- */

#define LONG                                                                                                 \
    SMALL, "--train.total_steps=100000000", "--eval.every=0", "--sample.every=0", "--checkpoint.every=0",    \
        "--name=long", "--progress=json"

/* The device is lost in the checkpoint that the end is made of. */
STAGE_CASE_TEARDOWN(ctrl_c_is_obeyed_when_the_device_is_lost_meanwhile, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("lost_at:1:16384");
    struct process *p = process_start("train", s->config, LONG, NULL);
    process_wait_lines(p, 4);
    process_signal(p, SIGINT);
    process_expect(130, p);
    json_t *lines = stage_parse_lines(process_stdout(p));
    assert_int_equal(stage_count_lines(lines, "event"), 2); /* the other: so few data for so many steps */
    assert_string_equal(stage_text(stage_find_line(lines, "end", 0), "status"), "stopped");
    expect_query(s, "select device, status, segment, message from runs", "cpu|stopped|2|stopped by a signal");
    expect_query(s, "select segment, step, kind from checkpoints", "2|0|last");
}

static bool is_paused(struct process *p, void *context)
{
    (void)p, (void)context;
    return strcmp(stage_status(), "paused") == 0;
}

static bool trains_on(struct process *p, void *context)
{
    (void)context;
    return strstr(strstr(process_stdout(p), "validation loss "), "\"type\":\"step\"") != NULL;
}

static void order(struct process *trainer, const char *verb, const char *value)
{
    struct process *p = process_start("order", "long", verb, value, NULL);
    process_expect(0, p);
    process_poll(trainer);
}

STAGE_CASE_TEARDOWN(a_stop_order_is_obeyed_when_the_device_is_lost_meanwhile, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("lost_at:1:16384");
    struct process *p = process_start("train", s->config, LONG, NULL);
    process_wait_lines(p, 4);
    order(p, "stop", NULL);
    process_expect(0, p);
    expect_query(s, "select device, status, segment from runs", "cpu|stopped|2");
    expect_query(s, "select verb, result from orders", "stop|done");
}

/* The run is paused at half the rate, a trace of the next step is waiting, and the GPU fails in an ordered
 * evaluation.
 *
 * */
STAGE_CASE_TEARDOWN(orders_in_force_and_under_way_go_over_to_the_cpu, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("fault_at:1:cross_entropy_rows<false,");
    struct process *p = process_start("train", s->config, LONG, NULL);
    process_wait_lines(p, 4);
    order(p, "lr-factor", "0.5");
    order(p, "pause", NULL);
    process_wait_text(p, "\"status\":\"paused\"");
    order(p, "trace", NULL);
    order(p, "eval", NULL);
    process_wait_text(p, "validation loss ");
    process_wait(p, is_paused, NULL); /* the recorder is a moment behind */
    expect_query(s, "select device, segment from runs", "cpu|2");
    order(p, "continue", NULL);
    process_wait(p, trains_on, NULL);
    order(p, "stop", NULL);
    process_expect(0, p);
    expect_query(s,
                 "select group_concat(verb || ':' || (result is not null and applied_step is not null), ' ')"
                 " from orders",
                 "lr-factor:1 pause:1 trace:1 eval:1 continue:1 stop:1");
    expect_query(s, "select applied_step, result from orders where verb = 'trace'",
                 "0|written to traces/step-0.json"); /* by the CPU, from the beginning */
    expect_query(s, "select segment, step from evals", "2|0");
    expect_query(s, "select distinct lr from steps where segment = 2", "0.0015");
}

/* The workbench during a fallback: the header shows the new device, the newest event shows the reason. */
STAGE_CASE_TEARDOWN(the_workbench_shows_the_fall_back_live, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("fault_at:1:cross_entropy_rows<false,");
    struct process *p = process_start("train", s->config, LONG, NULL);
    process_wait_lines(p, 4);
    order(p, "pause", NULL); /* which ends the reading of its lines, until it goes on */
    char *home = kept_format("ANNEAL_HOME=%s", s->home);
    struct pty *screen =
        pty_open(&(struct pty_options){24, 110, NULL, (const char *[]){home, "LC_ALL=C.UTF-8", NULL},
                                       (const char *[]){"watch", "long", NULL}});
    pty_wait_text(screen, "paused  cuda:0 fp32");
    order(p, "eval", NULL);
    pty_wait_text(screen, "cuda:0 failed after step ");
    pty_wait_text(screen, "paused  cpu fp32");
    order(p, "stop", NULL);
    process_expect(0, p);
    pty_close(screen);
}

/* ---- at the start ---- */

#define BY_CATEGORY "--memory.allocator=basic" /* one allocation each, where the arena is one for all */

STAGE_CASE_TEARDOWN(a_device_without_room_for_a_category_falls_back_with_the_numbers, simulated_plugin_forget,
                    struct stage *s)
{
    for (int i = 1; i <= 4; i++) { /* cuBLASLt's workspace, then the plan's categories */
        char *machine = kept_format("oom_at:%d", i);
        simulated_plugin_use(machine);
        process_expect_sentence(
            process_run(1, "train", s->config, EIGHT, BY_CATEGORY, "--device=cuda", "--progress=none", NULL),
            "MiB");
        struct process *p = process_run(0, "train", s->config, EIGHT, BY_CATEGORY, "--progress=json", NULL);
        json_t *lines = stage_parse_lines(process_stdout(p));
        assert_int_equal(stage_count_lines(lines, "event"), 1);
        const char *text = stage_text(stage_find_line(lines, "event", 0), "text");
        if (!strstr(text, "training on the CPU: ") || !strstr(text, "MiB")) fail_msg("event: %s", text);
    }
    expect_query(s, "select device, status, segment, count(*) from runs", "cpu|finished|1|4");
}

STAGE_CASE_TEARDOWN(a_resume_falls_back_too, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("good");
    process_run(0, "train", s->config, EIGHT, "--device=cuda", "--progress=none", NULL);
    simulated_plugin_use("oom_at:3");
    process_run(0, "resume", "latest", "--train.total_steps=10", BY_CATEGORY, "--progress=none", NULL);
    expect_query(s, "select device, status, segment, steps from runs", "cpu|finished|2|10");
    expect_query(s, "select count(*) from events where segment = 2 and text like 'training on the CPU: %'",
                 "1");
}

/* The log of the newest run has all these words, in this order. */
static void expect_logged(const struct stage *s, const char *const *words)
{
    char *id = stage_query(s, "select id from runs order by created_at desc limit 1"), path[1200];
    snprintf(path, sizeof path, "%s/runs/%s/log.txt", s->home, id);
    char *text = stage_read(path);
    const char *at = text;
    for (int i = 0; words[i]; i++)
        if (!(at = strstr(at, words[i]))) fail_msg("no \"%s\" in its place:\n%s", words[i], text);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The message is one line; the run's log has the request and a table of the memory in use. */
STAGE_CASE_TEARDOWN(a_device_without_room_leaves_the_table_in_the_log, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("oom_at:3");
    process_run(0, "train", s->config, EIGHT, BY_CATEGORY, "--progress=none", NULL);
    expect_logged(s, WORDS("training on the CPU: gradients: no room for", "device memory, basic allocator:",
                           "  tag ", "  weights ", "  all ", "finished after step 8"));
    simulated_plugin_use("oom_at:2"); /* the arena is one block, not used by anything yet */
    process_run(0, "train", s->config, EIGHT, "--progress=none", NULL);
    expect_logged(s, WORDS("training on the CPU: arena: no room for ", "finished after step 8"));
    simulated_plugin_use("no_room_at:3:optimizer_update"); /* in the midst of a step */
    process_run(0, "train", s->config, EIGHT, "--progress=none", NULL);
    expect_logged(s,
                  WORDS("device memory, arena allocator:", "  weights ", "  gradients ", "  moments ",
                        "  all ", "training continues on the CPU from the checkpoint of step 2", "finished"));
}

STAGE_CASE_TEARDOWN(a_resume_without_room_leaves_the_table_in_the_log, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("good");
    process_run(0, "train", s->config, EIGHT, "--device=cuda", "--progress=none", NULL);
    simulated_plugin_use("oom_at:3");
    process_expect_sentence(process_run(1, "resume", "latest", "--train.total_steps=10", BY_CATEGORY,
                                        "--device=cuda", "--progress=none", NULL),
                            "gradients: no room for");
    expect_logged(s, WORDS("finished after step 8", "gradients: no room for",
                           "device memory, basic allocator:", "  weights "));
}

STAGE_CASE_TEARDOWN(a_head_too_wide_for_the_gpu_is_known_before_the_first_step, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("good");
    process_expect_sentence(
        process_run(1, "train", s->config, EIGHT, "--model.head_dim=258", "--device=cuda", NULL),
        "model.head_dim = 258: attention on cuda:0 takes heads up to 256 wide");
    assert_int_equal(stage_count_runs(), 0);
    process_run(0, "train", s->config, EIGHT, "--train.total_steps=1", "--model.head_dim=258",
                "--progress=none", NULL);
    expect_query(s, "select device, status from runs", "cpu|finished");
}

STAGE_CASE_TEARDOWN(a_precision_that_the_cpu_lacks_names_its_key, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("no_device");
    process_expect_sentence(
        process_run(2, "train", s->config, "--train.precision=tf32", "--device=cpu", NULL),
        "train.precision = tf32: cpu: computes in fp32 and bf16, not in tf32 (set it to auto)");
    process_expect_sentence(
        process_run(1, "train", s->config, "--train.precision=tf32", "--device=cuda", NULL),
        "--device cuda: the NVIDIA driver shows no GPU");
    assert_int_equal(stage_count_runs(), 0);
}

/* No GPU, a full one, a resume without one: with `auto` the run uses the CPU in fp32 and reports it. */
TEST_CASE_WITH(auto_trains_on_the_cpu_in_its_own_precision, NULL, simulated_plugin_forget)
{
    static const char *const machines[] = {"no_device", "full"};
    struct stage s;
    for (int i = 0; i < 2; i++) {
        stage_open(&s, machines[i]);
        simulated_plugin_use(machines[i]);
        process_run(0, "train", s.config, EIGHT, "--train.precision=tf32", "--progress=none", NULL);
        expect_query(&s, "select device, precision, status from runs", "cpu|fp32|finished");
        expect_query(&s, "select count(*) from events where text like '%CPU: %in fp32 instead of tf32'", "1");
    }
    stage_open(&s, "again");
    simulated_plugin_use("good");
    process_run(0, "train", s.config, EIGHT, "--train.precision=tf32", "--progress=none", NULL);
    simulated_plugin_use("no_device");
    process_run(0, "resume", "latest", "--train.total_steps=10", "--progress=none", NULL);
    expect_query(&s, "select device, precision, status, segment, steps from runs", "cpu|fp32|finished|2|10");
}

/* ---- from one device to the other ---- */

STAGE_CASE_TEARDOWN(a_checkpoint_of_either_device_resumes_on_the_other, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("good");
    process_run(0, "train", s->config, EIGHT, "--train.total_steps=12", "--name=cpu", "--device=cpu",
                "--progress=none", NULL);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "from-cpu" : "from-gpu";
        process_run(0, "train", s->config, EIGHT, "--train.total_steps=6", "--name", name, "--device",
                    i ? "cpu" : "cuda", "--progress=none", NULL);
        process_run(0, "resume", name, "--train.total_steps=12", "--device", i ? "cuda" : "cpu",
                    "--progress=none", NULL);
        expect_losses(name, LOSS_TOLERANCE);
    }
    expect_query(s,
                 "select group_concat(name || ' ' || device || ' ' || steps, ', ') from (select * from runs"
                 " where segment = 2 order by name)",
                 "from-cpu cuda:0 12, from-gpu cpu 12");
}

/* ---- generating ---- */

STAGE_CASE_TEARDOWN(text_is_generated_on_either_device, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("good");
    process_run(0, "train", s->config, EIGHT, BY_CATEGORY, "--device=cpu", "--progress=none", NULL);
#define GENERATE "generate", "latest", "--prompt=the ", "--max-tokens=12", "--temperature=0"
    char *cpu = process_output(GENERATE, NULL), *cuda = process_output(GENERATE, "--device=cuda", NULL);
    assert_string_equal(cpu, cuda);
    simulated_plugin_use("oom_at:2");
    struct process *p = process_run(0, GENERATE, "--device=auto", NULL);
    assert_string_equal(process_stdout(p), cpu);
    assert_non_null(strstr(process_stderr(p), "anneal: warning: generating on the CPU: "));
    simulated_plugin_use("fault_at:5:embedding_gather"); /* in the fifth token */
    process_expect_sentence(process_run(1, GENERATE, "--device=cuda", "--json", NULL), "launch failure");
    process_expect_sentence(process_run(2, GENERATE, "--device=gpu", NULL),
                            "--device gpu: must be auto|cpu|cuda|cuda:N");
}

TEST_MAIN()
