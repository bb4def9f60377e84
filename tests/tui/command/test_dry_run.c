/* anneal train --dry-run: training then does what it printed, and it leaves nothing behind. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/model/config.h"
#include "core/train/schedule.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/command/dry_run.h"
#include "tui/command/view_config.h"

/* ---- the schedule ---- */

static struct config planned(enum schedule_kind kind, int64_t warmup, int64_t total)
{
    struct config config;
    struct err err = {0};
    config_init(&config);
    assert_int_equal(config_finish(&config, &err), STATUS_OK);
    config.train.schedule = kind;
    config.train.warmup_steps = warmup;
    config.train.total_steps = total;
    return config;
}

TEST_CASE(points_cover_every_step_once_and_keep_the_peak)
{
    static const int64_t totals[] = {1, 2, 63, 64, 65, 1000, 1000000000000};
    struct series_point points[64];
    for (int k = 0; k < SCHEDULES; k++) {
        for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
            struct config config = planned((enum schedule_kind)k, 77, totals[t]);
            struct schedule schedule = schedule_of(&config);
            double highest = 0;
            size_t n = schedule_points(&config, points, 64);
            assert_int_equal(n, totals[t] < 64 ? totals[t] : 64);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(points[i].first_step, i ? points[i - 1].last_step + 1 : 0);
                assert_true(points[i].last_step >= points[i].first_step);
                assert_true(points[i].last == schedule_lr(&schedule, points[i].last_step));
                highest = fmax(highest, points[i].max);
            }
            assert_int_equal(points[n - 1].last_step, totals[t] - 1);
            bool warms_up = k != SCHEDULE_RISING && totals[t] > 77;
            double peak = schedule_lr(&schedule, warms_up ? 76 : totals[t] - 1);
            if (k > 0 && !(highest == peak))
                fail_msg("%s: %g, not %g", schedule_kind_word((enum schedule_kind)k), highest, peak);
        }
    }
}

TEST_CASE(moments_name_each_step_once_in_order)
{
    struct schedule_moment moments[SCHEDULE_MOMENTS_MAX];
    struct config config = planned(SCHEDULE_COSINE, 100, 2000);
    assert_int_equal(schedule_moments(&config, moments), 4);
    assert_int_equal(moments[1].step, 99);
    assert_true(moments[1].lr == config.train.learning_rate);
    assert_int_equal(moments[2].step, 1000);
    assert_int_equal(moments[3].step, 1999);
    config = planned(SCHEDULE_COSINE, 1500, 2000); /* a warm-up beyond the half of the run */
    assert_int_equal(schedule_moments(&config, moments), 4);
    assert_int_equal(moments[1].step, 1000);
    assert_int_equal(moments[2].step, 1499);
    config = planned(SCHEDULE_COSINE, 5000, 2000); /* that never ends */
    assert_int_equal(schedule_moments(&config, moments), 3);
    config = planned(SCHEDULE_CONSTANT, 100, 2); /* no warm-up at all; half of it is its last step */
    assert_int_equal(schedule_moments(&config, moments), 2);
    config = planned(SCHEDULE_COSINE, 0, 1);
    assert_int_equal(schedule_moments(&config, moments), 1);
    assert_int_equal(moments[0].step, 0);
}

/* ---- the command ---- */

static json_t *dry_run(const struct stage *s, const char *word)
{
    return stage_json(process_output("train", s->config, "--dry-run", "--json", word, NULL));
}

static int64_t asked(const struct stage *s, const char *sql)
{
    char *text = stage_query(s, sql);
    int64_t value = atoll(text);
    return value;
}

STAGE_CASE(what_it_says_is_what_training_does, struct stage *s)
{
    json_t *json = dry_run(s, "--train.total_steps=35");
    assert_int_equal(stage_count_runs(), 0);
    process_run(0, "train", s->config, "--train.total_steps=35", "--progress=none", NULL);
    assert_int_equal(stage_int(json, "evaluations"), asked(s, "select count(*) from evals"));
    assert_int_equal(stage_int(json, "samples"), asked(s, "select count(*) from samples"));
    assert_int_equal(
        stage_int(json, "checkpoints"),
        asked(s, "select count(distinct step) from checkpoints where step % 10 = 0 or step = 35"));
    assert_int_equal(stage_int(json, "total_tokens"), asked(s, "select max(tokens) from steps"));
    assert_int_equal(stage_int(json, "parameters"), asked(s, "select parameters from runs"));
    assert_int_equal(stage_int(json_object_get(json, "memory"), "planned_bytes"),
                     asked(s, "select sum(live_bytes) from memory where step = 0"));
    assert_int_equal(stage_int(json, "tokens_per_step"), 4 * 32);
    assert_int_equal(stage_int(json, "sequences_per_evaluation"), 4 * 4);
    assert_true(fabs(stage_real(json, "epochs") * stage_real(json, "steps_per_epoch") - 35) < 1e-9);
    int64_t bytes = 3 * 4 * asked(s, "select parameters from runs"); /* weights and two moments */
    assert_in_range(stage_int(json, "checkpoint_bytes"), bytes, bytes + bytes / 50); /* rounded up */
    assert_string_equal(stage_text(json, "schedule"), "cosine");
    json_t *first = json_array_get(json_object_get(json, "learning_rate"), 0);
    assert_string_equal(stage_text(first, "what"), "the first step");
    /* an epoch: how far the steps came in one */
    char *epoch = stage_query(s, "select epoch from steps order by step desc limit 1");
    assert_true(fabs(atof(epoch) - stage_real(json, "epochs")) < 1e-9);
    json_t *moments = json_object_get(json, "learning_rate"), *moment;
    size_t i;
    assert_int_equal(json_array_size(moments), 4);
    json_array_foreach(moments, i, moment) {
        char *sql =
            kept_format("select lr from steps where step = %lld", (long long)stage_int(moment, "step"));
        char *text = stage_query(s, sql);
        assert_true(fabs(atof(text) - stage_real(moment, "lr")) < 1e-12);
    }
}

/* Some epochs end where an evaluation is due anyway, and one with the last step. */
STAGE_CASE(evaluations_at_the_ends_of_epochs_are_counted, struct stage *s)
{
    static const char *const plans[] = {"0: 1", "0: 2, 9: 8, 30: 1"};
    for (int i = 0; i < 4; i++) {
        char *words[] = {kept_format("--train.accumulation_plan=%s", plans[i % 2]),
                         kept_format("--eval.every=%d", i / 2 * 5)};
        json_t *json = stage_json(process_output("train", s->config, "--dry-run", "--json",
                                                 "--data.val_fraction=0.9", "--eval.at_epoch_end=true",
                                                 "--train.epochs=5", words[0], words[1], NULL));
        process_run(0, "train", s->config, "--data.val_fraction=0.9", "--eval.at_epoch_end=true",
                    "--train.epochs=5", words[0], words[1], "--progress=none", NULL);
        int64_t wanted = asked(s, "select count(*) from evals where run_id = (select id from runs order by "
                                  "created_at desc limit 1)");
        assert_int_equal(stage_int(json, "evaluations"), wanted);
        assert_in_range(wanted, 3, 40);
    }
}

/* Another run has reserved and reports to use all but 300 MiB: the rest is that minus this plan. */
STAGE_CASE(what_others_have_reserved_is_not_left, struct stage *s)
{
    struct ledger *ledger;
    struct err err = {0};
    int64_t id, left = (int64_t)300 << 20, total = memory_total(),
                bytes = total - (int64_t)((double)total * 0.1) - left;
    const struct ledger_room cpu = {"cpu", "cpu", total, 0, 0.1, 0, false};
    if (ledger_open(s->home, LEDGER_BUSY_MS, &ledger, &err)) fail_msg("%s", err.text);
    if (ledger_reserve(ledger, &cpu, "holder", bytes, &id, &err)) fail_msg("%s", err.text);
    assert_int_equal(ledger_use(ledger, id, "holder", bytes, &err), STATUS_OK);
    json_t *json = dry_run(s, "--memory.allocator=arena"), *memory = json_object_get(json, "memory");
    assert_int_equal(stage_int(memory, "headroom_bytes"), left - stage_int(memory, "planned_bytes"));
    ledger_close(ledger);
}

STAGE_CASE(counts_of_a_run_of_any_length_are_right, struct stage *s)
{
    char *text = process_output("train", s->config, "--dry-run", "--train.total_steps=1000000000000",
                                "--sample.every=100", NULL);
    assert_non_null(strstr(text, "\nsteps              1000000000000, each on "));
    assert_non_null(strstr(text, "\nevaluations        100000000000, each on "));
    assert_non_null(strstr(text, "\ncheckpoints        "));
    assert_non_null(strstr(text, "\nsamples            10000000000\n"));
}

STAGE_CASE(the_page_draws_the_schedule_in_what_the_terminal_has, struct stage *s)
{
    const char *const arguments[] = {"train", s->config, "--dry-run", NULL};
    const char *const ascii[] = {"LC_ALL=C", NULL}, *const utf8[] = {"LC_ALL=C.UTF-8", "TERM=xterm", NULL};
    struct process *p = process_expect(
        0, process_open(&(struct process_options){.arguments = arguments, .environment = ascii}));
    const char *text = process_stdout(p);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c >= 0x7F) fail_msg("not ASCII: %.40s", c);
    assert_non_null(
        strstr(text, "\nsteps              40, each on 4 sequences (128 tokens); 5.12k tokens in all\n"));
    assert_non_null(strstr(text, "\nepochs             the run reads "));
    assert_non_null(strstr(text, "% of the training data; one epoch takes "));
    assert_non_null(strstr(text, " learning rate "));
    assert_non_null(strstr(text, "  the end of the warm-up\n"));
    assert_non_null(strstr(text, " planned: it fits; "));
    assert_non_null(strstr(text, "no run was made"));
    json_t *json =
        stage_json(process_output("train", s->config, "--dry-run", "--json", "--train.batch_size=1", NULL));
    int64_t sequences = stage_int(json, "train_sequences");
    assert_true(sequences > 200);
    text = process_output("train", s->config, "--dry-run", "--train.batch_size=1",
                          kept_format("--train.total_steps=%" PRId64, sequences - 1), NULL);
    assert_non_null(strstr(text, "\nepochs             the run reads 99 % of the training data;"));
    p = process_expect(0,
                       process_open(&(struct process_options){.arguments = arguments, .environment = utf8}));
    assert_non_null(strstr(process_stdout(p), "⠤"));
    assert_int_equal(stage_count_runs(), 0);
}

STAGE_CASE(parameter_groups_are_shown_as_estimate_shows_them, struct stage *s)
{
    char *page = process_output("train", s->config, "--dry-run", NULL);
    assert_null(strstr(page, "parameter group")); /* there is none */
    static const char match[] = "--param_group.norms.match=*norm*",
                      decay[] = "--param_group.norms.lr_scale=0";
    page = process_output("train", s->config, "--dry-run", match, decay, NULL);
    char *plan = process_output("estimate", s->config, match, decay, NULL);
    const char *table = strstr(plan, "parameter group"), *end = table ? strstr(table, "\n\n") : NULL;
    assert_non_null(end);
    plan[end - plan] = '\0';
    assert_non_null(strstr(page, table));
    json_t *json = dry_run(s, match), *groups = json_object_get(json, "param_groups");
    page = process_output("estimate", s->config, match, "--json", NULL);
    json_t *estimate = stage_json(page);
    assert_string_equal(stage_text(json_array_get(groups, 0), "name"), "norms");
    assert_true(json_equal(groups, json_object_get(estimate, "param_groups")));
}

STAGE_CASE(a_vocabulary_that_is_not_the_presets_is_said, struct stage *s)
{
    char *text = process_output("train", kept_format("--data.train=%s", s->corpus), "--data.tokenizer=bytes",
                                "--model.hidden_dim=32", "--model.num_layers=1", "--model.num_heads=2",
                                "--train.seq_len=32", "--dry-run", NULL);
    assert_non_null(strstr(text, "256, the tokenizer's size; preset shakespeare has "));
}

STAGE_CASE(what_would_fail_in_training_fails_here_with_the_same_sentence, struct stage *s)
{
    static const char *const words[] = {"--data.train=nowhere.txt", "--train.learning_rate=fast",
                                        "--model.num_heads=5",      "--device=cuda",
                                        "--train.seq_len=1048576",  "--name=latest"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *const train[] = {"train", s->config, words[i], NULL};
        const char *const dry[] = {"train", s->config, words[i], "--dry-run", NULL};
        struct process *real = process_open(&(struct process_options){.arguments = train});
        struct process *tried = process_open(&(struct process_options){.arguments = dry});
        int status = process_wait_exit(real);
        assert_int_not_equal(status, 0);
        assert_int_equal(process_wait_exit(tried), status);
        size_t n = strcspn(process_stderr(real), "0123456789"); /* how much is free changes meanwhile */
        assert_true(n > 20);
        assert_memory_equal(process_stderr(tried), process_stderr(real), n);
        assert_string_equal(process_stdout(tried), "");
    }
    assert_int_equal(stage_count_runs(), 0);
}

/* It reads the weights that training would begin with. */
STAGE_CASE(weights_that_training_could_not_read_fail_here_too, struct stage *s)
{
    char from[1100];
    process_run(0, "train", s->config, "--train.total_steps=2", NULL);
    char *step = stage_query(s, "select id || '/' || path from checkpoints join runs on id = run_id limit 1");
    char *folder = kept_format("%s/runs/%s", s->home, step);
    char *file = kept_format("%s/model.safetensors", folder);
    snprintf(from, sizeof from, "--model.from=%s", folder);
    process_run(0, "train", s->config, from, "--dry-run", NULL);
    assert_int_equal(truncate(file, 100), 0);
    struct process *p = process_run(1, "train", s->config, from, "--dry-run", NULL);
    process_expect_sentence(p, "model.safetensors");
    assert_int_equal(stage_count_runs(), 1);
}

STAGE_CASE(a_table_that_is_learned_as_text_is_pointed_out, struct stage *s)
{
    char *text = stage_read(s->corpus);
    char *path = stage_path(s, "texts.csv");
    stage_write(path, text, strlen(text));
    char *data = kept_format("--data.train=%s", path);
    char *page = process_output("train", s->config, "--dry-run", data, NULL);
    assert_non_null(strstr(page, "a .csv file is learned as it stands"));
    page = process_output("train", s->config, "--dry-run", NULL);
    assert_null(strstr(page, "as it stands"));
}

STAGE_CASE(the_form_describes_fine_tuning_of_a_run, struct stage *s)
{
    static struct form_preview preview;
    static const char *const run[] = {"--model.from=learned", "--lora.rank=2"},
                             *const none[] = {"--model.from=lerned"},
                             *const word[] = {"--data.tokenizer=abc"},
                             *const file[] = {"--data.tokenizer=abc.json"};
    process_run(0, "train", s->config, "--name=learned", "--train.total_steps=2", NULL);
    form_preview_make(run, 2, &preview);
    assert_string_equal(preview.problem, "");
    assert_non_null(strstr(preview.facts, " trained"));
    char *page = process_output("train", "--dry-run", run[0], "--train.recipe=quick", s->config, NULL);
    assert_non_null(strstr(page, "train.recipe = quick has no effect with model.from"));
    assert_null(strstr(page, "muon"));
    form_preview_make(none, 1, &preview);
    assert_non_null(strstr(preview.problem, "did you mean \"learned\"?"));
    form_preview_make(word, 1, &preview);
    assert_memory_equal(preview.problem, "data.tokenizer: ", 16); /* the form marks the key's field */
    form_preview_make(file, 1, &preview);
    assert_memory_equal(preview.problem, "data.tokenizer: ", 16);
}

STAGE_CASE(the_configuration_of_a_run_is_shown_without_its_base, struct stage *s)
{
    static struct config config;
    struct arena arena = {0};
    struct config_row *rows;
    struct err err = {0};
    size_t count, own = 0;
    config_init(&config);
    assert_int_equal(config_read_word(&config, "model.preset=tiny", &err), STATUS_OK);
    assert_int_equal(config_finish(&config, &err), STATUS_OK);
    strcpy(config.model.from, "/nowhere/base");
    config.train.batch_size = 3;
    char *text = config_text(&config);
    if (config_rows_make(text, &arena, &rows, &count, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++)
        if (rows[i].differs) {
            own++;
            assert_true(strcmp(rows[i].key, "model.from") == 0 ||
                        strcmp(rows[i].key, "train.batch_size") == 0);
        }
    assert_int_equal(own, 2);
    arena_release(&arena);
    free(text);
}

STAGE_CASE(a_key_without_effect_is_reported_in_both, struct stage *s)
{
    char *plain = process_output("train", s->config, "--dry-run", NULL), *disk = strstr(plain, "\ndisk ");
    assert_true(disk && strstr(disk, "up to "));
    assert_true(strcspn(disk, "K") < strcspn(disk, ";")); /* KiB of checkpoints, but GiB are free */
    assert_true(strstr(disk, "iB are free\n") && !strstr(disk, "KiB are free\n"));
    static const struct {
        const char *words[2], *note;
    } cases[] = {
        {{"--model.rope_factor=4", "--model.rope_scaling=default"}, "model.rope_factor = 4 has no effect"},
        {{"--model.rope_scaling=llama3", "--model.rope_factor=1"},
         "model.rope_factor = 1 has no effect with model.rope_scaling = llama3"},
        {{"--data.padding=256", "--train.graph=auto"}, "data.padding = 256 has no effect"},
        {{"--train.warmup_steps=50", "--train.graph=auto"},
         "train.warmup_steps = 50 is not shorter than the run of "},
        {{"--model.full_attention_layers=0", "--model.qk_norm=true"},
         "model.full_attention_layers has no effect: with model.sliding_window = 0"},
        {{"--train.accumulation_plan=0:2", "--train.accumulation_steps=3"},
         "train.accumulation_steps = 3 has no effect beside train.accumulation_plan"},
        {{"--data.padding=255", "--train.accumulation_plan=0:2"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *a = cases[i].words[0], *b = cases[i].words[1], *note = cases[i].note;
        char *page = process_output("train", s->config, a, b, "--dry-run", NULL);
        char *text = process_output("train", s->config, a, b, "--dry-run", "--json", NULL);
        process_run(0, "train", s->config, a, b, "--train.total_steps=1", "--progress=none", NULL);
        char *run = process_output("show", "latest", NULL);
        const char *const all[] = {page, text, run};
        for (size_t k = 0; k < 3; k++)
            if (note ? !strstr(all[k], note) : !!strstr(all[k], "has no effect")) fail_msg("%s", all[k]);
    }
}

/* With --device auto a CPU stands in for a GPU, in its own precision: all three say so. */
STAGE_CASE(a_precision_of_a_gpu_is_replaced_on_a_cpu_everywhere, struct stage *s)
{
    static const char sentence[] = "in fp32 instead of tf32";
    char *page = process_output("train", s->config, "--dry-run", "--train.precision=tf32", NULL);
    assert_non_null(strstr(page, sentence));
    json_t *json = stage_json(
               process_output("train", s->config, "--dry-run", "--json", "--train.precision=tf32", NULL)),
           *warnings = json_object_get(json, "warnings");
    assert_int_equal(json_array_size(warnings), 1);
    assert_non_null(strstr(json_string_value(json_array_get(warnings, 0)), sentence));
    struct process *p = process_run(0, "estimate", s->config, "--json", "--train.precision=tf32", NULL);
    assert_non_null(strstr(process_stderr(p), sentence));
    json = stage_json(process_stdout(p));
    assert_string_equal(stage_text(json, "precision"), "fp32");
    process_expect_sentence(
        process_run(2, "estimate", s->config, "--device=cpu", "--train.precision=tf32", NULL),
        "train.precision = tf32");
}

STAGE_CASE(its_words_belong_to_train_alone, struct stage *s)
{
    struct process *p = process_run(2, "train", s->config, "--json", NULL);
    process_expect_sentence(p, "--json needs --dry-run");
    p = process_run(2, "resume", "latest", "--dry-run", NULL);
    process_expect_sentence(p, "unknown option --dry-run");
    p = process_run(2, "train", "--dry-run", "--watch", NULL);
    process_expect_sentence(p, "--watch: a dry run leaves nothing to watch");
}

TEST_MAIN()
