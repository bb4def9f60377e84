/* anneal fork: a new run from a checkpoint of another, which does not change; its steps continue from there
 * bit for bit, it records its origin, and it does not need the other run. */
#include <jansson.h>
#include <signal.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/model/safetensors.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* A finished run "base" of 40 steps with all its checkpoints: 10, 20, 30, 40. */
static void open_base(struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--checkpoint.keep=9",
                "--sample.every=0", NULL);
}

/* Kills a trainer after its first step, long before its last. */
static void kill_after_first_step(struct process *p)
{
    process_wait_text(p, "\"type\":\"step\"");
    process_signal(p, SIGKILL);
    process_wait_exit(p);
    assert_string_equal(stage_status(), "crashed");
}

/* The values of steps 20 to 39 of a run, as in the CSV. */
static char *late_steps(const struct stage *s, const char *name)
{
    char sql[300];
    snprintf(
        sql, sizeof sql,
        "select step, loss, lr, grad_norm, tokens, epoch from steps where step >= 20 and run_id = (select "
        "id from runs where name = '%s') order by step",
        name);
    return stage_query(s, sql);
}

STAGE_CASE(a_fork_continues_bit_for_bit_and_says_where_it_came_from, struct stage *s)
{
    open_base(s);
    process_run(0, "fork", "base", "--step", "20", "--name=twin", "--progress=none", NULL);
    char *base = late_steps(s, "base"), *twin = late_steps(s, "twin");
    assert_string_equal(base, twin);
    assert_non_null(strstr(base, "\n39|"));
    stage_expect(s,
                 "select count(*), min(step), runs.parent_step, runs.steps, runs.parent_id = "
                 "(select id from runs where name = 'base') from steps, runs where run_id = "
                 "runs.id and runs.name = 'twin'",
                 "20|20|20|40|1");
    char *row = stage_query(s, "select count(*) from steps where run_id = (select id from runs where name = "
                               "'base') union all select count(*) from segments");
    assert_string_equal(row, "40\n2"); /* the parent is as it was */
    char *page = process_output("show", "twin", NULL);
    assert_non_null(strstr(page, "-base, after 20 steps\n"));
    json_t *runs = stage_runs(), *newest = json_array_get(runs, 0);
    assert_int_equal(stage_int(newest, "parent_step"), 20);
    assert_non_null(strstr(stage_text(newest, "parent_id"), "-base"));
    assert_true(json_is_null(json_object_get(json_array_get(runs, 1), "parent_id")));
    page = process_output("compare", "base", "twin", NULL);
    assert_non_null(strstr(page, "final loss"));
}

STAGE_CASE(a_resumed_run_keeps_the_checkpoints_on_which_others_stand, struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--train.total_steps=4", "--checkpoint.keep=1",
                "--checkpoint.every=2", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name=adapted", "--model.from=base", "--lora.rank=2",
                "--train.total_steps=2", "--progress=none", NULL);
    process_run(0, "resume", "base", "--train.total_steps=12", "--progress=none", NULL);
    process_run(0, "resume", "adapted", "--train.total_steps=3", "--progress=none", NULL);
    process_run(0, "generate", "adapted", "--prompt=a", "--max-tokens=2", NULL);
}

static const float *adapter_of(const char *folder, struct safetensors *file, const char *part, size_t *bytes)
{
    struct err err;
    if (safetensors_open(kept_format("%s/adapter_model.safetensors", folder), file, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < file->count; i++)
        if (strstr(file->tensors[i].name, part)) {
            *bytes = file->tensors[i].bytes;
            return file->tensors[i].data;
        }
    fail_msg("no %s", part);
    return NULL;
}

/* LoRA-FA: the first matrices stay as they were drawn, and are saved with the others. */
STAGE_CASE(a_checkpoint_that_is_used_stays_until_it_is_read_while_its_run_trains, struct stage *s)
{
    char *out = stage_path(s, "exported");
    struct process *p = process_start("train", s->config, "--name=live", "--train.total_steps=100000000",
                                      "--checkpoint.every=1", "--checkpoint.keep=1", "--eval.every=0",
                                      "--sample.every=0", "--progress=json", NULL);
    process_wait_lines(p, 40);
    for (int i = 0; i < 6; i++) {
        process_run(0, "fork", "live", "--decay=1", "--train.warmup_steps=0", "--progress=none", NULL);
        process_run(0, "generate", "live", "--prompt=the", "--max-tokens=2", NULL);
        process_run(0, "model", "export", "live", "-o", out, NULL);
        assert_int_equal(file_remove_tree(out, NULL), STATUS_OK);
    }
    process_signal(p, SIGTERM);
    process_expect(0, p);
}

STAGE_CASE(adapters_of_a_group_without_a_rate_stay_as_they_are, struct stage *s)
{
    struct safetensors early, late;
    size_t bytes;
    process_run(0, "train", s->config, "--name=base", "--train.total_steps=2", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name=adapted", "--model.from=base", "--lora.rank=2",
                "--train.total_steps=4", "--train.warmup_steps=0", "--train.precision=fp32",
                "--checkpoint.every=2", "--checkpoint.keep=5", "--param_group.a.match=*lora_A*",
                "--param_group.a.lr_scale=0", "--progress=none", NULL);
    char *runs = kept_format("%s/runs", s->home),
         *id = stage_query(s, "select id from runs where name = 'adapted'");
    char *first = kept_format("%s/%s/checkpoints/step-2", runs, id),
         *last = kept_format("%s/%s/checkpoints/step-4", runs, id);
    for (int part = 0; part < 2; part++) {
        const char *name = part ? "lora_B" : "lora_A";
        const float *before = adapter_of(first, &early, name, &bytes),
                    *after = adapter_of(last, &late, name, &bytes);
        assert_int_equal(memcmp(before, after, bytes) != 0, part);
        safetensors_close(&early), safetensors_close(&late);
    }
    process_run(0, "generate", "adapted", "--prompt=a", "--max-tokens=2", NULL);
    process_run(0, "resume", "adapted", "--train.total_steps=5", "--progress=none", NULL);
    process_expect_sentence(process_run(2, "train", s->config, "--model.from=base", "--lora.rank=2",
                                        "--param_group.a.match=*lora*", "--param_group.a.lr_scale=0", NULL),
                            "param_group.a.lr_scale = 0: nothing is left to train");
}

STAGE_CASE(a_fork_of_a_long_name_is_not_called_as_its_parent, struct stage *s)
{
    char name[64];
    memset(name, 'n', 63), name[63] = '\0';
    process_run(0, "train", s->config, "--name", name, "--train.total_steps=2", "--progress=none", NULL);
    process_run(0, "fork", name, "--train.total_steps=3", "--progress=none", NULL);
    char *names = stage_query(s, "select name from runs order by steps");
    memset(name + 58, '\0', 5);
    char *wanted = kept_format("%snnnnn\n%s-fork", name, name);
    assert_string_equal(names, wanted);
}

STAGE_CASE(a_fork_continues_bit_for_bit_with_every_form_of_moments_and_with_averaged_weights, struct stage *s)
{
    static const char *const forms[] = {"--train.optimizer=muon", "--train.optimizer=lion",
                                        "--train.moments=8bit"};
    static const char averages[] =
        "select step, value from measures where name = 'val_loss_ema' and step > 20 and run_id = (select id "
        "from runs where name = '%s') order by step";
    for (int i = 0; i < 3; i++) {
        char *base = kept_format("base-%d", i), *twin = kept_format("twin-%d", i);
        process_run(0, "train", s->config, "--name", base, forms[i], "--train.ema_decay=0.9",
                    "--checkpoint.keep=9", "--progress=none", NULL);
        process_run(0, "fork", base, "--step=20", "--name", twin, "--progress=none", NULL);
        char *steps = late_steps(s, base), *evaluations = stage_query(s, kept_format(averages, base));
        assert_non_null(strstr(steps, "\n39|"));
        assert_non_null(strstr(evaluations, "\n40|"));
        assert_string_equal(late_steps(s, twin), steps);
        assert_string_equal(stage_query(s, kept_format(averages, twin)), evaluations);
    }
}

/* The early-stopping rows of a run's evaluations after step 20. */
static char *decisions(const struct stage *s, const char *name)
{
    char sql[400];
    snprintf(
        sql, sizeof sql,
        "select step, val_loss, best_val_loss, best_step, improved, patience_used, verdict from "
        "early_stopping where step > 20 and run_id = (select id from runs where name = '%s') order by step",
        name);
    return stage_query(s, sql);
}

STAGE_CASE(a_fork_keeps_the_history_of_early_stopping_only_where_nothing_is_changed, struct stage *s)
{
    open_base(s);
    process_run(0, "fork", "base", "--step=20", "--name=twin", "--progress=none", NULL);
    char *base = decisions(s, "base"), *twin = decisions(s, "twin");
    assert_string_equal(base, twin);
    assert_non_null(strstr(base, "40|"));
    /* worse than all that base was evaluated at, but the best of its own */
    process_run(0, "fork", "base", "--name=wild", "--train.learning_rate=1", "--train.total_steps=440",
                "--eval.every=100", "--progress=none", NULL);
    char *wild = decisions(s, "wild");
    assert_int_equal(strncmp(wild, "100|", 4), 0);
    assert_non_null(strstr(wild, "|100|1|0|improved\n"));
    char *info = process_output("model", "info", "wild", "--best", NULL);
    assert_non_null(strstr(info, "step-"));
    /* also where it is killed before its first checkpoint, and goes on from that of the other run */
    kill_after_first_step(process_start("fork", "base", "--name=killed", "--train.learning_rate=1",
                                        "--train.total_steps=440", "--eval.every=100", "--checkpoint.every=0",
                                        "--progress=json", NULL));
    process_run(0, "resume", "killed", "--progress=none", NULL);
    char *killed = decisions(s, "killed");
    assert_string_equal(wild, killed);
}

/* At such a rate no weight changes, so the first evaluation stays the best. */
STAGE_CASE(the_checkpoint_that_a_fork_began_with_is_its_best_until_it_improves, struct stage *s)
{
    static const char *const settings[] = {"--train.learning_rate=1e-30", "--eval.early=false",
                                           "--sample.every=0", "--checkpoint.keep=9", "--progress=none"};
    process_run(0, "train", s->config, "--name=base", settings[0], settings[1], settings[2], settings[3],
                settings[4], NULL);
    process_run(0, "fork", "base", "--step=10", "--name=twin", "--progress=none", NULL);
    stage_expect(s, "select count(*) from checkpoints where kind = 'best'", "1"); /* that of base */
    char *info = process_output("model", "info", "twin", "--best", NULL);
    assert_non_null(strstr(info, "twin/checkpoints/step-10"));
    process_run(0, "clean", "twin", "--yes", NULL);
    info = process_output("model", "info", "twin", "--best", NULL);
    assert_non_null(strstr(info, "twin/checkpoints/step-10"));
    process_run(1, "model", "info", "twin", "--step=20", NULL); /* neither the best nor the newest */
}

/* A run of 30 steps that decays in its last 10, and the decay alone from a run that has a stable rate for
 * longer. */
STAGE_CASE(a_decay_from_a_checkpoint_is_the_end_of_a_run_of_that_length, struct stage *s)
{
    static const char *const common[] = {"--train.schedule=wsd", "--train.decay_shape=1-sqrt",
                                         "--progress=none"};
    process_run(0, "train", s->config, "--name=stable", "--train.decay_steps=5", "--checkpoint.keep=9",
                common[0], common[1], common[2], NULL);
    process_run(0, "train", s->config, "--name=short", "--train.decay_steps=10", "--train.total_steps=30",
                common[0], common[1], common[2], NULL);
    process_run(0, "fork", "stable", "--step=20", "--decay=10", "--name=ended", "--progress=none", NULL);
    char *wanted = late_steps(s, "short"), *got = late_steps(s, "ended");
    assert_string_equal(wanted, got);
    assert_non_null(strstr(got, "29|"));
    assert_null(strstr(got, "30|"));
    struct process *p = process_run(2, "fork", "stable", "--decay=10", "--train.total_steps=99", NULL);
    process_expect_sentence(p, "--decay sets train.total_steps itself");
    static const char again[] = "the learning rate had fallen to ";
    p = process_run(0, "fork", "short", "--decay=5", "--progress=plain", NULL);
    assert_non_null(strstr(process_stderr(p), again));
    p = process_run(0, "fork", "stable", "--step=30", "--decay=5", "--progress=plain", NULL);
    assert_null(strstr(process_stderr(p), again));
    char *last =
        stage_query(s, "select lr from steps where step = 29 and run_id in (select id from runs where "
                       "name = 'short')");
    char *said = kept_format("%s%.3g; it begins at ", again, strtod(last, NULL));
    p = process_run(0, "resume", "short", "--train.total_steps=32", "--progress=plain", NULL);
    if (!strstr(process_stderr(p), said)) fail_msg("no \"%s\" in %s", said, process_stderr(p));
    p = process_run(0, "resume", "short", "--train.total_steps=34", "--train.learning_rate=1e-4",
                    "--progress=plain", NULL);
    assert_null(strstr(process_stderr(p), again)); /* another rate is wanted */
    p = process_run(2, "fork", "stable", "--step=20", "--decay=5", "--train.warmup_steps=21", NULL);
    process_expect_sentence(p, "--decay: the checkpoint of step 20 lies in the warm-up of 21 steps");
    const struct process *refused =
        process_run(2, "train", s->config, common[0], "--train.decay_steps=41", NULL);
    assert_non_null(
        strstr(process_stderr(refused), "train.decay_steps = 41: the run has 40 (train.total_steps)"));
}

STAGE_CASE(another_batch_makes_other_epochs_which_is_said, struct stage *s)
{
    static const char said[] = "train.epochs counts all steps with the new batch, so the run ends after ";
    process_run(0, "train", s->config, "--name=half", "--train.epochs=1", "--until=40", "--progress=none",
                NULL);
    char *steps = stage_query(s, "select value from params where name = 'train.total_steps'");
    struct process *p = process_run(0, "resume", "half", "--until=41", "--progress=plain", NULL);
    assert_null(strstr(process_stderr(p), said));
    p = process_run(0, "fork", "half", "--train.batch_size=8", "--progress=plain", NULL);
    const char *warning = strstr(process_stderr(p), said);
    assert_non_null(warning);
    const char *named = strstr(warning, "--train.total_steps=");
    assert_non_null(named);
    assert_int_equal(atoi(named + 20), 41 + (atoi(steps) - 41) / 2);
    p = process_run(0, "fork", "half", "--train.batch_size=8",
                    kept_format("--train.total_steps=%d", atoi(named + 20)), "--progress=plain", NULL);
    assert_null(strstr(process_stderr(p), said));
    char *epoch = stage_query(s, "select printf('%.1f', max(epoch)) from steps where run_id = (select id from"
                                 " runs order by created_at desc, id desc limit 1)");
    assert_string_equal(epoch, "1.0");
}

STAGE_CASE(a_model_named_from_one_folder_is_found_from_another, struct stage *s)
{
    open_base(s);
    process_run(0, "model", "export", "base", "-o", stage_path(s, "my,model"), NULL);
    const char *words[] = {"train",        "tiny.ini",        "--model.from=my,model",
                           "--name=tuned", "--progress=none", NULL};
    process_expect(0, process_open(&(struct process_options){.arguments = words, .folder = s->folder}));
    process_run(0, "resume", "tuned", "--train.total_steps=42", "--progress=none", NULL);
    stage_expect(s, "select value from params where name = 'model.from' and value <> ''",
                 stage_path(s, "my,model"));
}

STAGE_CASE(parameters_that_are_thawed_begin_with_moments_of_zero, struct stage *s)
{
    process_run(0, "train", s->config, "--name=still", "--param_group.n.match=*norm*",
                "--param_group.n.lr_scale=0", "--progress=none", NULL);
    process_run(0, "fork", "still", "--name=thawed", "--param_group.n.lr_scale=1", "--train.total_steps=42",
                "--progress=none", NULL);
    process_run(0, "resume", "still", "--param_group.n.lr_scale=1", "--train.total_steps=42",
                "--progress=none", NULL);
    stage_expect(
        s, "select count(*) from events where text like '%which was frozen%begin with moments of zero%'",
        "2");
}

STAGE_CASE(what_a_fork_changes_is_said_and_the_rest_is_refused_by_its_key, struct stage *s)
{
    open_base(s);
    process_run(0, "fork", "base", "--step=30", "--train.schedule=linear", "--train.learning_rate=1e-3",
                "--progress=none", NULL);
    char *text = stage_query(s, "select text from events where text like 'forked%'");
    assert_non_null(strstr(text, "after 30 steps, with train.learning_rate = 0.001 (was 0.003), "
                                 "train.schedule = linear (was cosine)"));
    text = stage_query(s, "select name || lr from runs, steps where run_id = runs.id and name = 'base-fork' "
                          "and step = 30");
    assert_true(strtod(text + strlen("base-fork"), NULL) < 1e-3); /* the new schedule, at this step */
    process_expect_sentence(process_run(2, "fork", "base", "--step=20", "--model.num_layers=2", NULL),
                            "model.num_layers = 2: the run was trained with 1, which a forked run must keep");
    process_expect_sentence(
        process_run(2, "resume", "base", "--model.rope_base=500", NULL),
        "model.rope_base = 500: the run was trained with 10000, which a resumed run must keep");
    process_expect_sentence(
        process_run(1, "fork", "base", "--step=7", NULL),
        "there is no checkpoint of step 7, or it has been removed: the newest 9 and the best are kept "
        "(checkpoint.keep; there are: 10, 20, 30, 40)");
    process_expect_sentence(process_run(1, "fork", "base", "--step=0", NULL), "no checkpoint of step 0, or ");
    process_expect_sentence(process_run(2, "fork", "base", "--step=ten", NULL),
                            "--step ten: must be a whole number from 0");
    process_expect_sentence(process_run(2, "fork", "base", NULL),
                            "has done 40 of train.total_steps = 40 steps (to train longer: ");
    assert_int_equal(stage_count_runs(), 2);
    assert_int_equal(stage_count_leftovers(s), 0);
    process_run(0, "fork", "base", "--step=30", "--name=grouped", "--param_group.norms.match=*norm*",
                "--param_group.norms.lr_scale=0.5", "--progress=none", NULL);
    text = stage_query(
        s, "select text from events, runs where run_id = runs.id and name = 'grouped' and text like "
           "'forked%'");
    assert_non_null(strstr(text, "after 30 steps, with param_group.norms.match = *norm*, "));
    assert_non_null(strstr(text, ", param_group.norms.lr_scale = 0.5"));
    stage_query(s, "delete from runs where name = 'grouped'");
    /* stored by an anneal that did not know these keys: they have not changed */
    stage_query(s, "update runs set config = replace(replace(config, 'background = true' || char(10), "
                   "''), 'from = ' || char(10), '') where name = 'base'");
    process_run(0, "resume", "base", "--train.total_steps=50", "--train.schedule=constant", "--progress=none",
                NULL);
    stage_expect(s, "select text from events where text like 'resumed%'",
                 "resumed with train.total_steps = 50 (was 40), train.schedule = constant (was "
                 "cosine)");
}

STAGE_CASE(a_fork_says_which_learning_rate_it_inherits_by_order, struct stage *s)
{
    struct process *trainer =
        process_start("train", s->config, "--name=base", "--train.total_steps=100000000", "--eval.every=0",
                      "--sample.every=0", "--checkpoint.every=0", "--progress=plain", NULL);
    while (stage_count_runs() == 0 || strcmp(stage_status(), "running") != 0) continue;
    process_run(0, "order", "base", "pause", "--wait", NULL);
    process_run(0, "order", "base", "lr-factor", "0.1", "--wait", NULL);
    process_run(0, "order", "base", "stop", "--wait", NULL);
    process_expect(0, trainer);
    const char *paused = strstr(process_stderr(trainer), "paused after step ");
    assert_non_null(paused);
    assert_non_null(strstr(paused, "; continue with: "));
    char *step = stage_query(s, "select steps from runs"), total[64];
    snprintf(total, sizeof total, "--train.total_steps=%ld", strtol(step, NULL, 10) + 2);
    process_run(0, "fork", "base", "--name=twin", "--progress=none", total, NULL);
    char *text = stage_query(s, "select text from events where text like 'forked%'");
    assert_non_null(
        strstr(text, ", with learning rate × 0.1 by order in the original, with train.total_steps"));
    text = stage_query(s, "select count(*) from orders, runs where run_id = runs.id and name = 'twin'");
    assert_string_equal(text, "0"); /* they stay those of the original */
}

/* The description next to the weights is another model's: the tensors' shapes may be equal. */
STAGE_CASE(a_checkpoint_of_another_model_is_refused_by_the_field, struct stage *s)
{
    char path[900];
    open_base(s);
    char *id = stage_query(s, "select id from runs");
    snprintf(path, sizeof path, "%s/runs/%s/checkpoints/step-40/config.json", s->home, id);
    char *text = stage_read(path), *at = strstr(text, "\"rope_theta\": 10000");
    assert_non_null(at);
    at[strlen("\"rope_theta\": ")] = '2';
    stage_write(path, text, strlen(text));
    /* damaged, until its checksum is that of what is there: then it is another model's */
    process_expect_sentence(process_run(1, "fork", "base", "--step=40", "--train.total_steps=60", NULL),
                            "step-40: the checkpoint is damaged: config.json");
    char *sum = kept_format("%016llx", (unsigned long long)XXH64(text, strlen(text), 0));
    strcpy(strrchr(path, '/'), "/checksums");
    text = stage_read(path);
    memcpy(strstr(text, "  config.json") - 16, sum, 16);
    stage_write(path, text, strlen(text));
    process_expect_sentence(process_run(2, "resume", "base", "--train.total_steps=60", NULL),
                            "was saved with model.rope_base = 20000, this model has 10000");
}

STAGE_CASE(a_fork_can_be_resumed_before_its_first_checkpoint_and_without_its_parent, struct stage *s)
{
    struct err err = {0};
    open_base(s);
    struct history base = history_of("base");
    struct process *p = process_start("fork", "base", "--step=20", "--name=child", "--checkpoint.every=0",
                                      "--eval.every=0", "--progress=json", NULL);
    process_wait_text(p, "\"type\":\"step\"");
    process_signal(p, SIGKILL);
    process_wait_exit(p);
    char *id = stage_query(s, "select id from runs where name = 'base'");
    char *folder = kept_format("%s/runs/%s", s->home, id);
    assert_int_equal(file_remove_tree(folder, &err), STATUS_OK);
    if (strcmp(stage_status(), "crashed") == 0) process_run(0, "resume", "child", "--progress=none", NULL);
    assert_string_equal(stage_status(), "finished");
    struct history child = history_of("child");
    for (int i = 20; i < 40; i++) assert_string_equal(child.steps[i].values, base.steps[i].values);
}

/* As if it had been killed before it took the checkpoint of the other run. */
STAGE_CASE(a_fork_killed_at_its_very_start_takes_the_checkpoint_again, struct stage *s)
{
    open_base(s);
    struct history base = history_of("base");
    process_run(0, "fork", "base", "--step=20", "--name=child", "--until=25", "--progress=none", NULL);
    char *id = stage_query(s, "select id from runs where name = 'child'");
    assert_int_equal(file_remove_tree(kept_format("%s/runs/%s/checkpoints", s->home, id), NULL), STATUS_OK);
    stage_query(s, kept_format("delete from checkpoints where run_id = '%s'", id));
    process_run(0, "resume", "child", "--progress=none", NULL);
    struct history child = history_of("child");
    for (int i = 20; i < 40; i++) assert_string_equal(child.steps[i].values, base.steps[i].values);
    process_run(0, "fork", "base", "--step=20", "--name=orphan", "--until=25", "--progress=none", NULL);
    id = stage_query(s, "select id from runs where name = 'orphan'");
    assert_int_equal(file_remove_tree(kept_format("%s/runs/%s/checkpoints", s->home, id), NULL), STATUS_OK);
    stage_query(s, kept_format("delete from checkpoints where run_id = '%s'", id));
    id = stage_query(s, "select id from runs where name = 'base'");
    assert_int_equal(file_remove_tree(kept_format("%s/runs/%s", s->home, id), NULL), STATUS_OK);
    process_expect_sentence(process_run(1, "resume", "orphan", "--progress=none", NULL),
                            "checkpoints/step-20, and is gone");
}

STAGE_CASE(a_run_killed_before_its_first_checkpoint_begins_again_bit_for_bit, struct stage *s)
{
    process_run(0, "train", s->config, "--name=whole", "--progress=none", "--checkpoint.every=0",
                "--train.total_steps=400", "--eval.every=0", NULL);
    kill_after_first_step(process_start("train", s->config, "--name=again", "--train.total_steps=400",
                                        "--checkpoint.every=0", "--eval.every=0", "--progress=json", NULL));
    process_run(0, "resume", "again", "--progress=none", NULL);
    assert_string_equal(stage_status(), "finished");
    struct history whole = history_of("whole"), again = history_of("again");
    history_expect_equal(&whole, &again);
    stage_expect(s,
                 "select count(*) from events where text like 'begins again%' and run_id = (select "
                 "id from runs where name = 'again')",
                 "1");
    assert_int_equal(again.steps[0].segment, 2);
}

STAGE_CASE(a_fork_of_weights_killed_before_its_first_checkpoint_continues_from_them, struct stage *s)
{
    process_run(0, "train", s->config, "--name=light", "--checkpoint.contents=weights",
                "--checkpoint.every=20", "--checkpoint.keep=9", "--train.total_steps=20", "--progress=none",
                NULL);
    process_run(0, "fork", "light", "--name=whole", "--train.total_steps=400", "--checkpoint.contents=full",
                "--progress=none", NULL);
    kill_after_first_step(process_start("fork", "light", "--name=again", "--train.total_steps=400",
                                        "--checkpoint.contents=full", "--checkpoint.every=0",
                                        "--eval.every=0", "--progress=json", NULL));
    process_run(0, "resume", "again", "--progress=none", NULL);
    struct history whole = history_of("whole"), again = history_of("again");
    assert_int_equal(again.count, 400);
    for (int i = 20; i < 400; i++) assert_string_equal(again.steps[i].values, whole.steps[i].values);
}

/* A run resumes from a full checkpoint even if there are newer ones of weights alone; a stopped run reports
 * what is possible. */
STAGE_CASE(a_resume_finds_the_newest_full_checkpoint_and_a_stop_names_the_command_that_continues,
           struct stage *s)
{
    open_base(s);
    process_run(0, "resume", "base", "--train.total_steps=60", "--checkpoint.contents=weights",
                "--progress=none", NULL);
    struct process *p = process_run(0, "resume", "base", "--train.total_steps=50", "--progress=none", NULL);
    process_expect_sentence(p, "step-60: holds weights alone; continuing from step-40, which is full");
    p = process_start("train", s->config, "--name=long", "--train.total_steps=1000000",
                      "--checkpoint.contents=weights", "--progress=plain", NULL);
    process_wait_text(p, "checkpoint");
    process_signal(p, SIGTERM);
    process_wait_exit(p);
    assert_non_null(strstr(process_stderr(p), "anneal fork "));
    assert_null(strstr(process_stderr(p), "anneal resume"));
}

STAGE_CASE(weights_alone_resume_no_run_but_fork_with_a_fresh_optimizer, struct stage *s)
{
    process_run(0, "train", s->config, "--name=light", "--checkpoint.contents=weights", "--progress=none",
                NULL);
    process_expect_sentence(
        process_run(2, "resume", "light", "--train.total_steps=60", NULL),
        "holds weights alone (checkpoint.contents = weights), a run cannot be resumed from that; "
        "`");
    struct process *p = process_run(0, "generate", "light", "--prompt=the", "--max-tokens=4", NULL);
    assert_int_equal(strncmp(process_stdout(p), "the", 3), 0);
    process_run(0, "fork", "light", "--train.total_steps=60", "--progress=none", "--checkpoint.contents=full",
                NULL);
    char *text = stage_query(s, "select text from events where text like 'forked%'");
    assert_non_null(strstr(text, "after 40 steps, from weights alone: the optimizer begins anew, with "
                                 "train.total_steps = 60 (was 40)"));
    process_run(0, "resume", "light-fork", "--train.total_steps=70", "--progress=none", NULL);
}

STAGE_CASE(a_run_starts_from_the_weights_of_another_one_by_its_name, struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name=more", "--model.from=base", "--train.total_steps=1",
                "--progress=none", NULL);
    char *text = stage_query(s, "select text from events where text like 'starts with the weights of %'");
    const char *end = text ? strstr(text, "-base/checkpoints/step-40") : NULL;
    assert_non_null(end);
    process_run(0, "resume", "more", "--train.total_steps=2", "--progress=none", NULL);
    process_expect_sentence(process_run(1, "train", s->config, "--model.from=nobody", NULL),
                            "model.from: run \"nobody\": there is no such run");
    process_run(0, "train", s->config, "--name=tuned", "--model.from=base", "--lora.rank=2",
                "--train.total_steps=1", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name=again", "--model.from=tuned", "--train.total_steps=1",
                "--progress=none", NULL);
    text = stage_query(s, "select text from events where text like '%-base/checkpoints/step-40 and the "
                          "adapters of %-tuned/checkpoints/step-1'");
    assert_non_null(text);
}

TEST_MAIN()
