/* Arguments that could do harm or be misunderstood, and how the commands handle them. */
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* ---- outputs ---- */

STAGE_CASE(an_output_never_replaces_the_text_it_is_made_from, struct stage *s)
{
    char folder[700], inside[800], sidecar[800];
    char *before = stage_read(s->corpus);
    process_expect_sentence(
        process_run(2, "tokenizer", "train", s->corpus, "--vocab=300", "-o", s->corpus, NULL),
        "ends with .json");
    /* by another name, and somewhere below a folder */
    char *link = stage_path(s, "other.json");
    assert_int_equal(symlink(s->corpus, link), 0);
    process_expect_sentence(process_run(2, "tokenizer", "train", s->corpus, "--vocab=300", "-o", link, NULL),
                            "is also an input");
    assert_int_equal(unlink(link), 0);
    snprintf(folder, sizeof folder, "%s/texts", s->folder);
    snprintf(inside, sizeof inside, "%s/mine.json", folder);
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    assert_int_equal(rename(s->corpus, inside), 0);
    process_expect_sentence(process_run(2, "tokenizer", "train", folder, "--vocab=300", "-o", inside, NULL),
                            "mine.json: is also an input");
    static const char *const names[] = {"mine.tok", "mine.tok.json", "mine.tokenizer.json"};
    char *token_file = kept_format("%s/mine.tok", folder);
    for (size_t i = 0; i < 3; i++) { /* all three files that data prepare writes */
        snprintf(sidecar, sizeof sidecar, "%s/%s", folder, names[i]);
        assert_int_equal(rename(inside, sidecar), 0);
        process_expect_sentence(process_run(2, "data", "prepare", folder, "-o", token_file, NULL),
                                "is also an input");
        assert_int_equal(rename(sidecar, inside), 0);
    }
    char *after = stage_read(inside);
    assert_string_equal(before, after);
}

STAGE_CASE(a_dash_is_standard_output_and_no_file, struct stage *s)
{
    static const char *const formats[] = {"csv", "long", "json"};
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    for (size_t i = 0; i < 3; i++) {
        const char *plain[] = {"export", "mine", "--format", formats[i], NULL},
                   *dash[] = {"export", "mine", "--format", formats[i], "-o", "-", NULL};
        struct process *a = process_expect(0, process_open(&(struct process_options){.arguments = plain})),
                       *b = process_expect(0, process_open(&(struct process_options){.arguments = dash,
                                                                                     .folder = s->folder}));
        assert_string_equal(process_stdout(a), process_stdout(b));
        process_close(a), process_close(b);
    }
    const char *words[] = {"tokenizer", "train", s->corpus,         "--vocab=260",
                           "-o",        "-",     "--progress=none", NULL};
    struct process *p =
        process_expect(0, process_open(&(struct process_options){.arguments = words, .folder = s->folder}));
    json_t *json = stage_json(process_stdout(p));
    assert_non_null(json_object_get(json, "model"));
    assert_non_null(strstr(process_stderr(p), "260 tokens, learned in"));
    process_expect_sentence(process_run(2, "data", "prepare", s->corpus, "-o", "-", NULL),
                            "three files are written");
    process_expect_sentence(process_run(2, "model", "export", "mine", "-o", "-", NULL),
                            "a model is a folder");
    assert_int_equal(stage_count_leftovers(s), 0);
    char *path = stage_path(s, "-");
    assert_false(file_exists(path));
}

/* ---- names ---- */

/* As if a script's variable was not set: an empty word must not be taken for something else. */
STAGE_CASE(an_empty_word_is_refused_by_what_it_is_for, struct stage *s)
{
    static const struct {
        const char *words[6], *sentence;
    } cases[] = {
        {{"train", "--name="}, "train: --name: needs a value, NAME"},
        {{"train", "--device", ""}, "train: --device: needs a value"},
        {{"fork", "x", "--step"}, "fork: --step: needs a value"},
        {{"fork", "x", "--step="}, "fork: --step: needs a value"},
        {{"data", "fetch", ""}, "data fetch: argument is empty"},
        {{"data", "fetch", ""}, "data fetch: argument is empty"},
        {{"data", "prepare", "kjv", "-o", ""}, "data prepare: --output: needs a value, FILE.tok"},
        {{"tokenizer", "train", "kjv", "--vocab", ""}, "tokenizer train: --vocab: needs a value, N"},
        {{"tokenizer", "train", "kjv", "-o", ""}, "tokenizer train: --output: needs a value"},
        {{"model", "export", "a", "-o", ""}, "model export: --output: needs a value, PATH"},
        {{"model", "import", "a", "--name", ""}, "model import: --name: needs a value, NAME"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = process_open(&(struct process_options){.arguments = cases[i].words});
        process_expect_sentence(process_expect(2, p), cases[i].sentence);
    }
    char *none = process_output("tokenizer", "decode", "bytes", "", NULL); /* no ids are ids, too */
    assert_string_equal(none, "");
}

/* ---- orders ---- */

static struct process *start_long_run(const struct stage *s, const char *progress)
{
    struct process *p = process_start("train", s->config, "--name=long", "--train.total_steps=100000000",
                                      "--train.schedule=constant", "--eval.every=0", "--sample.every=0",
                                      "--checkpoint.every=0", progress, NULL);
    while (stage_count_runs() == 0 || strcmp(stage_status(), "running") != 0) assert_false(process_poll(p));
    return p;
}

STAGE_CASE(a_run_that_was_stopped_with_wait_can_be_resumed_at_once, struct stage *s)
{
    struct process *trainer = start_long_run(s, "--progress=none");
    for (int i = 0; i < 3; i++) {
        process_run(0, "order", "long", "stop", "--wait", NULL);
        struct process *next = process_start("resume", "long", "--progress=none", NULL);
        process_expect(0, trainer); /* only now: resuming did not wait for its process to end */
        trainer = next;
        while (strcmp(stage_status(), "running") != 0) assert_false(process_poll(trainer));
    }
    process_run(0, "order", "long", "stop", "--wait", NULL);
    process_expect(0, trainer);
}

static bool has_ended(struct process *order, void *trainer)
{
    process_poll(trainer);
    return process_poll(order);
}

STAGE_CASE(a_trainer_that_does_not_answer_is_reported_once, struct stage *s)
{
    struct process *trainer = start_long_run(s, "--progress=json");
    process_wait_blocked(trainer); /* as nobody reads what it prints */
    struct process *order = process_start("order", "latest", "pause", "--wait", NULL);
    process_wait_text(order, "its trainer has not answered for 5 s");
    process_wait(order, has_ended, trainer);
    process_expect(0, order);
    process_expect_sentence(order, "it carries out orders between steps"); /* one line */
    process_run(0, "order", "latest", "stop", "--wait", NULL);
    process_expect(0, trainer);
}

STAGE_CASE(words_of_an_order_are_checked_before_it_is_given, struct stage *s)
{
    static const char *const factors[] = {"-1", "-0.5", "-inf", "1000.5", "inf", "nan", "much", NULL};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        process_expect_sentence(process_run(2, "order", "latest", "lr-factor", factors[i], NULL),
                                "lr-factor needs one number from 0 to 1000");
    process_expect_sentence(process_run(2, "order", "latest", "lr-factor", "-1", "--wait", NULL),
                            "lr-factor needs one number from 0 to 1000");
    process_expect_sentence(process_run(2, "order", "latest", "pause", "-1", NULL), "only lr-factor takes");
    process_expect_sentence(process_run(2, "order", "latest", "pause", "--wiat", NULL),
                            "unknown option --wiat (did you mean --wait?)");
    process_expect_sentence(process_run(2, "order", "latest", "puase", NULL),
                            "there is no order \"puase\"; did you mean \"pause\"? (");
    process_expect_sentence(process_run(2, "order", "latest", "xyzzy", NULL),
                            "there is no order \"xyzzy\" (");
}

/* ---- help ---- */

TEST_CASE(the_version_and_every_help_are_on_standard_output)
{
    struct process *p = process_run(0, "--version", NULL);
    /* the Makefile writes the commit into a file next to the binary; it is empty outside of a checkout */
    const char *binary = getenv("ANNEAL_BINARY");
    char path[PATH_MAX], commit[64] = "", rest[80] = "\n";
    snprintf(path, sizeof path, "%.*s/commit", (int)(strrchr(binary, '/') - binary), binary);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    if (fscanf(f, "%63s", commit) == 1) snprintf(rest, sizeof rest, " (%s)\n", commit);
    fclose(f);
    int major, minor, patch, end = 0;
    assert_int_equal(sscanf(process_stdout(p), "anneal %d.%d.%d%n", &major, &minor, &patch, &end), 3);
    assert_string_equal(process_stdout(p) + end, rest);
    process_expect_sentence(process_run(2, "--version", "extra", NULL),
                            "--version: takes no further argument");
    p = process_run(0, "bench", "step", "--help", NULL);
    assert_non_null(strstr(process_stdout(p), "usage: anneal bench step"));
    assert_string_equal(process_stderr(p), "");
    process_run(0, "bench", "--help", NULL);
    p = process_run(2, "bench", NULL);
    assert_string_equal(process_stdout(p), "");
}

/* ---- generate ---- */

static char *checkpoint_path(const struct stage *s, const char *run, const char *tail)
{
    json_t *runs = stage_runs(), *entry;
    const char *id = NULL;
    size_t i;
    json_array_foreach(runs, i, entry)
        if (strcmp(stage_text(entry, "name"), run) == 0) {
            assert_null(id);
            id = stage_text(entry, "id");
        }
    assert_non_null(id);
    return kept_format("%s/runs/%s/checkpoints%s", s->home, id, tail);
}

STAGE_CASE(a_folder_named_like_a_run_does_not_hide_the_run, struct stage *s)
{
    process_run(0, "train", s->config, "--name=mine", "--progress=none", NULL);
    char *folder = stage_path(s, "mine");
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    struct process *p = process_open(&(struct process_options){
        .folder = s->folder,
        .arguments = (const char *const[]){"generate", "mine", "--prompt=the", "--max-tokens=2", NULL}});
    process_expect(0, p);
    assert_string_equal(process_stderr(p), "");
    process_expect_sentence(process_run(1, "generate", s->folder, NULL), "the folder holds no config.json");
    char *checkpoint = checkpoint_path(s, "mine", "/step-40");
    process_run(0, "generate", checkpoint, "--prompt=the", "--max-tokens=2", NULL);
    process_expect_sentence(process_run(2, "generate", checkpoint, "--best", NULL), "--best is for runs");
}

STAGE_CASE(a_text_can_come_from_any_checkpoint_that_is_left, struct stage *s)
{
    struct err err = {0};
    process_run(0, "train", s->config, "--name=mine", "--progress=none", "--checkpoint.keep=9", NULL);
    char *wanted = checkpoint_path(s, "mine", "/step-20"), *all = checkpoint_path(s, "mine", "");
    char *from_folder = process_output("generate", wanted, "--temperature=2", NULL);
    char *from_run = process_output("generate", "mine", "--step=20", "--temperature=2", NULL);
    char *from_newest = process_output("generate", "mine", "--temperature=2", NULL);
    assert_string_equal(from_folder, from_run);
    assert_string_not_equal(from_folder, from_newest);
    /* this little text is learned better with every step: the best is the last */
    char *from_best = process_output("generate", "mine", "--best", "--temperature=2", NULL);
    assert_string_equal(from_best, from_newest);
    process_expect_sentence(process_run(2, "generate", "mine", "--best", "--step=20", NULL), "not both");
    process_expect_sentence(process_run(2, "generate", "mine", "--step=-1", NULL),
                            "--step -1: must be a whole number from 0");
    process_expect_sentence(process_run(1, "generate", "mine", "--step=21", NULL),
                            "there is no checkpoint of step 21, or it has been removed");
    char *last = checkpoint_path(s, "mine", "/step-40");
    assert_int_equal(file_remove_tree(last, &err), STATUS_OK);
    process_expect_sentence(process_run(0, "generate", "mine", "--best", NULL),
                            "of its best step 40 has been removed, generating from step-30");
    assert_int_equal(file_remove_tree(all, &err), STATUS_OK);
    process_expect_sentence(process_run(1, "generate", "mine", "--best", NULL),
                            "there is no checkpoint of a best step");
    process_expect_sentence(process_run(1, "generate", "mine", NULL), "there is no checkpoint below");
    process_expect_sentence(
        process_run(1, "resume", "mine", "--train.total_steps=60", "--progress=none", NULL),
        "there is no checkpoint left to continue from below");
    process_run(0, "train", s->config, "--name=blind", "--progress=none", "--data.val_fraction=0", NULL);
    process_expect_sentence(process_run(1, "generate", "blind", "--best", NULL),
                            "there is no checkpoint of a best step");
    stage_query(s, "update runs set best_step = 0 where name = 'blind'");
    process_expect_sentence(
        process_run(1, "generate", "blind", "--best", NULL),
        "the best evaluation was the one before the first step, whose weights are not kept");
}

/* min_delta counts for patience alone: the lowest loss is the best in the database, on the page, among the
 * checkpoints that are kept and for --best. */
STAGE_CASE(the_best_is_the_lowest_loss_everywhere, struct stage *s)
{
    process_run(0, "train", s->config, "--name=mine", "--eval.early_stopping_min_delta=100",
                "--checkpoint.keep=1", "--checkpoint.every=0", "--train.total_steps=45", "--sample.every=0",
                "--progress=none", "--train.schedule=constant", "--train.learning_rate=0.3", "--eval.every=3",
                NULL);
    char *best = stage_query(s, "select step from evals order by val_loss limit 1"), text[80];
    char *rows =
        stage_query(s, "select best_step from runs union all select max(step) from checkpoints where "
                       "kind = 'best' union all select best_step from early_stopping where step = 45");
    snprintf(text, sizeof text, "%s\n%s\n%s", best, best, best);
    assert_string_equal(rows, text);
    char *info = process_output("model", "info", "mine", "--best", NULL);
    snprintf(text, sizeof text, "step-%s", best);
    assert_non_null(strstr(info, text));
    char *page = process_output("show", "mine", NULL);
    snprintf(text, sizeof text, " after %s steps\n", best);
    assert_non_null(strstr(page, text));
}

STAGE_CASE(a_damaged_newest_checkpoint_is_passed_over_with_a_word, struct stage *s)
{
    process_run(0, "train", s->config, "--name=mine", "--progress=none", NULL);
    char *weights = checkpoint_path(s, "mine", "/step-40/model.safetensors");
    assert_int_equal(truncate(weights, 100), 0);
    process_expect_sentence(process_run(0, "generate", "mine", "--max-tokens=2", NULL),
                            "checkpoints/step-40: the newest checkpoint is damaged, generating from step-30");
    process_expect_sentence(process_run(0, "fork", "mine", "--train.total_steps=32", "--progress=none", NULL),
                            "checkpoints/step-40: the newest checkpoint is damaged, forking from step-30");
    struct process *p = process_run(2, "resume", "mine", "--train.total_steps=20", "--progress=none", NULL);
    assert_non_null(strstr(process_stderr(p), "the newest checkpoint is damaged, continuing from step-30"));
    assert_non_null(strstr(process_stderr(p), "has done 30 of train.total_steps = 20 steps"));
    process_expect_sentence(
        process_run(0, "resume", "mine", "--train.total_steps=32", "--progress=none", NULL),
        "checkpoints/step-40: the newest checkpoint is damaged, continuing from step-30");
}

/* How often `text` has `part`. */
static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

STAGE_CASE(a_checkpoint_passed_over_is_reported_in_the_history_and_its_place_is_listed_once, struct stage *s)
{
    process_run(0, "train", s->config, "--name=mine", "--progress=none", NULL);
    char *weights = checkpoint_path(s, "mine", "/step-40/model.safetensors");
    assert_int_equal(truncate(weights, 100), 0);
    char *page = process_output("show", "mine", NULL), *id = stage_query(s, "select id from runs"),
         expected[200];
    assert_int_equal(count_of(page, "  damaged"), 1); /* before anything was passed over */
    assert_non_null(strstr(page, "  whole"));
    snprintf(expected, sizeof expected,
             "warning: run %s: checkpoints/step-40: the newest checkpoint is damaged, fork", id);
    struct process *p = process_run(0, "fork", "mine", "--train.total_steps=32", "--progress=none", NULL);
    process_expect_sentence(p, expected); /* the other run's, not the new one's */
    p = process_run(0, "resume", "mine", "--train.total_steps=32", "--progress=plain", NULL);
    assert_int_equal(count_of(process_stderr(p), "the newest checkpoint is damaged"), 1);
    page = process_output("show", "mine", NULL);
    assert_non_null(strstr(page,
                           "  warning  checkpoints/step-40: the newest checkpoint is damaged, continuing "
                           "from step-30 (damaged ones are renamed to step-N.damaged)\n"));
    assert_int_equal(count_of(page, "  damaged"), 1);
    page = process_output("show", "mine-fork", NULL);
    snprintf(expected, sizeof expected,
             "  warning  run %s: checkpoints/step-40: the newest checkpoint is damaged, fork", id);
    assert_non_null(strstr(page, expected));
    process_run(0, "resume", "mine", "--train.total_steps=40", "--progress=none", NULL);
    page = process_output("show", "mine", NULL);
    assert_int_equal(count_of(page, "  checkpoints/step-40  "), 1);
}

STAGE_CASE(where_a_checkpoint_is_damaged_another_is_named_or_that_there_is_none, struct stage *s)
{
    static const char *const commands[] = {"generate", "model", "evaluate"};
    static const char none[] = " has no checkpoint that is whole: train it again, `";
    char *data = kept_format("--data=%s", s->corpus);
    process_run(0, "train", s->config, "--name=mine", "--checkpoint.keep=2", "--progress=none", NULL);
    char *last = checkpoint_path(s, "mine", "/step-40/model.safetensors"),
         *before = checkpoint_path(s, "mine", "/step-30/model.safetensors");
    assert_int_equal(truncate(last, 100), 0); /* the best */
    for (int all = 0; all < 2; all++) {
        const char *said = all ? none : "(the newest that is whole: --step 30)";
        if (all) assert_int_equal(truncate(before, 100), 0);
        process_expect_sentence(process_run(1, commands[0], "mine", "--best", NULL), said);
        process_expect_sentence(process_run(1, commands[1], "info", "mine", "--best", NULL), said);
        process_expect_sentence(process_run(1, commands[2], "mine", data, "--best", NULL), said);
        process_expect_sentence(process_run(1, "fork", "mine", "--step=40", "--progress=none", NULL), said);
    }
    process_expect_sentence(process_run(1, "generate", "mine", NULL), none);
    process_expect_sentence(process_run(1, "fork", "mine", "--progress=none", NULL), none);
    process_expect_sentence(
        process_run(1, "resume", "mine", "--train.total_steps=60", "--progress=none", NULL), none);
    process_expect_sentence(
        process_run(1, "resume", "mine", "--train.total_steps=60", "--progress=none", NULL), "/step-40: ");
    char *text = process_output("show", "mine", "--json", NULL);
    assert_int_equal(count_of(text, "\"damaged\": true"), 2);
}

STAGE_CASE(a_run_that_diverges_before_its_first_checkpoint_says_to_train_again, struct stage *s)
{
    struct process *p =
        process_run(1, "train", s->config, "--name=mine", "--train.learning_rate=1000",
                    "--train.max_grad_norm=0", "--health.on_nan=stop", "--train.warmup_steps=0",
                    "--eval.every=0", "--sample.every=0", "--progress=none", NULL);
    process_expect_sentence(p, "train again: there is no checkpoint from before)");
    process_expect_sentence(p, "health.on_nan = stop (lower train.learning_rate, then ");
}

STAGE_CASE(a_resume_from_before_damaged_checkpoints_prunes_no_good_one_for_them, struct stage *s)
{
    static const char *const there[] = {"/step-20", "/step-29", "/step-30.damaged", "/step-40.damaged"};
    process_run(0, "train", s->config, "--name=mine", "--checkpoint.keep=9", "--progress=none", NULL);
    for (int i = 0; i < 2; i++) {
        char *weights =
            checkpoint_path(s, "mine", i ? "/step-40/model.safetensors" : "/step-30/model.safetensors");
        FILE *file = fopen(weights, "r+");
        assert_non_null(file);
        assert_int_equal(fseek(file, -100, SEEK_END), 0);
        int byte = fgetc(file);
        assert_int_equal(fseek(file, -100, SEEK_END), 0);
        assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
        assert_int_equal(fclose(file), 0);
    }
    process_run(0, "resume", "mine", "--train.total_steps=29", "--checkpoint.keep=2", "--eval.every=0",
                "--progress=none", NULL);
    for (int i = 0; i < 4; i++) {
        char *path = checkpoint_path(s, "mine", there[i]);
        if (!file_is_folder(path)) fail_msg("%s is not there", path);
    }
    process_run(0, "fork", "mine", "--step=20", "--progress=none", NULL);
}

/* ---- inputs ---- */

STAGE_CASE(a_binary_file_of_a_folder_is_skipped_and_one_named_alone_is_read, struct stage *s)
{
    char path[800], token_file[800], setting[800];
    unsigned char noise[3000];
    char *folder = stage_path(s, "texts");
    snprintf(token_file, sizeof token_file, "%s/all.tok", s->folder);
    snprintf(setting, sizeof setting, "--data.train=%s", folder);
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    snprintf(path, sizeof path, "%s/a.txt", folder);
    assert_int_equal(rename(s->corpus, path), 0);
    snprintf(path, sizeof path, "%s/latin1.txt", folder);
    stage_write(path, "caf\xe9 cr\xe8me, na\xefve", 17);
    struct process *p = process_run(0, "data", "prepare", folder, "-t", "bytes", "-o", token_file, NULL);
    assert_null(strstr(process_stderr(p), "looks binary"));
    assert_non_null(strstr(process_stderr(p), "latin1.txt: is not all UTF-8"));
    assert_non_null(strstr(process_stderr(p), "reading 2 files, "));
    assert_int_equal(unlink(path), 0);

    snprintf(path, sizeof path, "%s/image", folder);
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (unsigned char)(0x80 | (i * i / 7)); /* no NUL */
    stage_write(path, noise, sizeof noise);
    p = process_run(0, "data", "prepare", folder, "-t", "bytes", "-o", token_file, "--progress=none", NULL);
    process_expect_sentence(p, "warning: ");
    process_expect_sentence(p, "/texts/image: looks binary, not like text");
    assert_non_null(strstr(process_stdout(p), "bytes_per_token"));

    char *all = stage_read(token_file);
    snprintf(path, sizeof path, "%s/zero\nbytes", folder); /* a name is not trusted with the terminal */
    stage_write(path, "ab\0cd", 5);
    p = process_run(0, "data", "prepare", folder, "-t", "bytes", "-o", token_file, "--progress=none", NULL);
    assert_non_null(strstr(process_stderr(p), "/texts/zero bytes: skipped, it is a binary file"));
    assert_non_null(strstr(process_stderr(p), "/texts/image: looks binary"));
    char *without = stage_read(token_file);
    assert_string_equal(all, without); /* its first bytes, the number of tokens */
    p = process_run(0, "data", "prepare", path, "-t", "bytes", "-o", token_file, "--progress=none", NULL);
    process_expect_sentence(p, "zero bytes: looks binary");
    static const struct {
        const char *bytes, *sentence;
    } others[] = {
        {"\xFF\xFEg\1r\1", "is UTF-16, and learned byte by byte (convert it: iconv -f UTF-16"},
        {"\x1F\x8B\x08 packed", "is gzip, and learned byte by byte (add .gz to its name)"},
        {"\x28\xB5\x2F\xFD packed", "is Zstandard, and learned byte by byte (add .zst"},
        {"caf\xe9 cr\xe8me, enough of it", "is not all UTF-8, and other bytes are learned as they are (if"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *other = stage_path(s, "other");
        stage_write(other, others[i].bytes, strlen(others[i].bytes));
        p = process_run(0, "data", "prepare", other, "-t", "bytes", "-o", token_file, "--progress=none",
                        NULL);
        process_expect_sentence(p, others[i].sentence);
    }

    snprintf(path, sizeof path, "%s/image", folder);
    noise[2999] = '\0'; /* within the first 8,000 bytes */
    stage_write(path, noise, sizeof noise);
    snprintf(path, sizeof path, "%s/tokenizer.json", s->folder);
    p = process_run(0, "tokenizer", "train", folder, "--vocab=300", "-o", path, "--progress=none", NULL);
    process_expect_sentence(p, "skipped 2 binary files: ");
    process_expect_sentence(p, "/texts/image and 1 more");
    process_expect_sentence(process_run(0, "train", s->config, setting, "--progress=none", NULL),
                            "skipped 2 binary files: ");
    snprintf(setting, sizeof setting, "--data.train=%s/[iz]*", folder);
    process_expect_sentence(process_run(1, "train", s->config, setting, NULL),
                            "/texts/[iz]*: 2 files, and none of them is text");
    snprintf(setting, sizeof setting, "--data.train=%s/[ail]*", folder);
    process_expect_sentence(process_run(0, "train", s->config, setting, "--progress=none", NULL),
                            "/texts/image: skipped, it is a binary file");
}

/* ---- latest ---- */

STAGE_CASE(latest_is_the_newest_run_and_no_name, struct stage *s)
{
    struct process *p = process_run(2, "train", s->config, "--name=latest", "--progress=none", NULL);
    process_expect_sentence(p, "--name latest: in every command this word means the newest run");
    assert_int_equal(stage_count_runs(), 0);
    assert_int_equal(stage_count_leftovers(s), 0);
    process_run(0, "train", s->config, "--name=old", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name=new", "--progress=none", NULL);
    /* one that an older version has let in */
    stage_query(s, "update runs set name = 'latest' where name = 'old'");
    p = process_run(0, "show", "latest", "--json", NULL);
    assert_non_null(strstr(process_stdout(p), "-new\""));
    assert_null(strstr(process_stdout(p), "-old\""));
}

/* With losses that fall every evaluation keeps a best checkpoint, and only one of them is the best. */
STAGE_CASE(only_the_newest_best_checkpoint_is_shown_as_the_best, struct stage *s)
{
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=40", "--eval.every=10",
                "--progress=none", NULL);
    char *page = process_output("show", "mine", NULL);
    assert_int_equal(count_of(page, "whole, the best\n"), 1);
    assert_true(count_of(page, "  best  ") > 1);
}

TEST_MAIN()
