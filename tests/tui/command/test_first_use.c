/* The real binary as a newcomer uses it: messages about the vocabulary and the validation text, runs recorded
 * before a key existed, and option names of other programs. */
#include <dlfcn.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void remove_line(const struct stage *s, const char *key)
{
    char path[800];
    snprintf(path, sizeof path, "%s", s->config);
    char *text = stage_read(path);
    char *line = kept_format("\n%s = ", key);
    char *at = strstr(text, line);
    assert_non_null(at);
    char *end = strchr(at + 1, '\n');
    memmove(at, end, strlen(end) + 1);
    stage_write(path, text, strlen(text));
}

static json_t *lines_of(const char *command, const struct stage *s, const char *a, const char *b)
{
    char *text = process_output(command, s->config, "--json", a, b, NULL);
    json_t *json = stage_json(text);
    if (!json) fail_msg("%s", text);
    return json;
}

/* ---- the vocabulary ---- */

STAGE_CASE(the_vocabulary_is_the_tokenizers_in_plan_dry_run_and_training, struct stage *s)
{
    remove_line(s, "vocab_size");
    json_t *estimate = lines_of("estimate", s, "--model.preset=tiny", NULL),
           *dry = lines_of("train", s, "--model.preset=tiny", "--dry-run");
    assert_int_equal(stage_int(estimate, "vocab_size"), 256);
    assert_int_equal(stage_int(dry, "vocab_size"), 256);
    struct process *p = process_run(0, "train", s->config, "--model.preset=tiny", NULL);
    assert_non_null(strstr(process_stderr(p), "vocabulary: 256, the tokenizer's size; preset tiny has 32000 "
                                              "(model.vocab_size sets another)"));
    char *rows = stage_query(s, "select parameters from runs; select value from params where name = "
                                "'model.vocab_size'");
    char *wanted = kept_format("%lld\n256", (long long)stage_int(dry, "parameters"));
    assert_string_equal(rows, wanted);
    assert_int_equal(stage_int(estimate, "parameters"), stage_int(dry, "parameters"));
    /* a resumed run has what it was trained with, and nothing to say about it */
    p = process_run(0, "resume", "latest", "--train.total_steps=41", NULL);
    assert_null(strstr(process_stderr(p), "vocabulary"));
    dry = lines_of("train", s, "--model.vocab_size=300", "--dry-run");
    assert_int_equal(stage_int(dry, "vocab_size"), 300);
    process_expect_sentence(
        process_run(2, "train", s->config, "--model.vocab_size=200", NULL),
        "model.vocab_size = 200 is smaller than the tokenizer's 256 (set it to at least 256)");
}

/* Token files bring a tokenizer of their own, which data.tokenizer says nothing about; without one the preset
 * counts. */
STAGE_CASE(token_files_bring_their_vocabulary, struct stage *s)
{
    remove_line(s, "vocab_size");
    remove_line(s, "tokenizer");
    char *path = stage_path(s, "own.tok");
    char *setting = kept_format("--data.train=%s", path);
    process_run(0, "data", "prepare", s->corpus, "-t", "bpe:300", "-o", path, "--progress=none", NULL);
    json_t *estimate = lines_of("estimate", s, setting, NULL),
           *dry = lines_of("train", s, setting, "--dry-run");
    assert_int_equal(stage_int(estimate, "vocab_size"), 300);
    assert_int_equal(stage_int(dry, "vocab_size"), 300);
    char *sidecar = kept_format("%s.json", path);
    assert_int_equal(remove(sidecar), 0);
    estimate = lines_of("estimate", s, setting, "--model.preset=tiny");
    assert_int_equal(stage_int(estimate, "vocab_size"), 32000);
}

/* ---- the validation text ---- */

STAGE_CASE(a_run_says_which_text_it_is_validated_on, struct stage *s)
{
    static const struct {
        const char *setting, *word, *words;
    } cases[] = {
        {"--data.val_split=blocks", "blocks", "evenly spread over the corpus (data.val_split = blocks)"},
        {"--data.val_split=tail", "tail", "at the end of the corpus (data.val_split = tail)"},
        {"--data.val_fraction=0", "none", "validation text: none (data.val_fraction = 0)"},
    };
    char *line = kept_format("--data.val=%s", s->corpus);
    for (int i = 0; i < 4; i++) {
        const char *setting = i < 3 ? cases[i].setting : line,
                   *words = i < 3 ? cases[i].words : "of data.val";
        json_t *dry = lines_of("train", s, setting, "--dry-run");
        assert_string_equal(stage_text(dry, "validation"), i < 3 ? cases[i].word : "data.val");
        char *page = process_output("train", s->config, setting, "--dry-run", NULL);
        assert_non_null(strstr(page, i == 2 ? "none (data.val_fraction = 0)" : words));
        struct process *p = process_run(0, "train", s->config, setting, "--train.total_steps=2", NULL);
        assert_non_null(strstr(process_stderr(p), words));
        const char *remembers = strstr(process_stderr(p), "data.val is the text of data.train: ");
        assert_int_equal(remembers != NULL, i == 3);
    }
}

STAGE_CASE(resume_and_fork_of_blocks_continue_bit_for_bit, struct stage *s)
{
    process_run(0, "train", s->config, "--name=whole", "--progress=none", "--train.schedule=constant", NULL);
    process_run(0, "train", s->config, "--name=parts", "--progress=none", "--train.schedule=constant",
                "--train.total_steps=20", NULL);
    process_run(0, "resume", "parts", "--train.total_steps=40", "--progress=none", NULL);
    history_expect_same("whole", "parts");
    process_run(0, "fork", "whole", "--step=30", "--name=forked", "--progress=none", NULL);
    stage_expect(s,
                 "select count(distinct val_loss) from evals e, runs r where r.id = e.run_id and "
                 "e.step = 40 and r.name in ('whole', 'forked')",
                 "1");
    process_expect_sentence(
        process_run(2, "fork", "whole", "--data.val_split=tail", NULL),
        "data.val_split = tail: the run was trained with blocks, which a forked run must keep");
}

/* A run that was recorded before data.val_split existed: its stored configuration has no such line. */
STAGE_CASE(a_run_from_before_the_key_keeps_its_tail, struct stage *s)
{
    process_run(0, "train", s->config, "--name=new", "--progress=none", "--train.schedule=constant",
                "--data.val_split=tail", NULL);
    process_run(0, "train", s->config, "--name=old", "--progress=none", "--train.schedule=constant",
                "--data.val_split=tail", "--train.total_steps=20", NULL);
    store_fixture_sql(s->home, "update runs set config = replace(config, 'val_split = tail' || char(10), '')"
                               " where name = 'old';"
                               "delete from params where name = 'data.val_split'");
    stage_expect(s, "select instr(config, 'val_split') from runs where name = 'old'", "0");
    process_expect_sentence(process_run(2, "resume", "old", "--data.val_split=blocks", NULL),
                            "data.val_split = blocks: the run was trained with tail");
    process_output("generate", "old", "--prompt=the", "--max-tokens=2", NULL);
    process_run(0, "fork", "old", "--name=forked", "--train.total_steps=40", "--progress=none", NULL);
    process_run(0, "resume", "old", "--train.total_steps=40", "--progress=none", NULL);
    stage_expect(s,
                 "select count(*), count(distinct val_loss) from evals e, runs r where r.id = "
                 "e.run_id and e.step = 40",
                 "3|1");
    stage_expect(s,
                 "select value from params p, runs r where r.id = p.run_id and r.name = 'forked' and p.name "
                 "= 'data.val_split'",
                 "tail");
}

/* ---- words ---- */

STAGE_CASE(version_and_help_are_words_too, struct stage *s)
{
    static const char *const pairs[][2][4] = {
        {{"version"}, {"--version"}},
        {{"help"}, {"--help"}},
        {{"help", "train"}, {"train", "--help"}},
        {{"help", "data"}, {"data", "--help"}},
        {{"help", "data", "prepare"}, {"data", "prepare", "--help"}},
        {{"data", "help", "info"}, {"data", "info", "--help"}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *texts[2];
        for (int k = 0; k < 2; k++)
            texts[k] = process_output(pairs[i][k][0], pairs[i][k][1], pairs[i][k][2], NULL);
        assert_true(*texts[0]);
        assert_string_equal(texts[0], texts[1]);
    }
    process_expect_sentence(process_run(2, "help", "trian", NULL),
                            "no command \"trian\"; did you mean \"train\"?");
    process_expect_sentence(process_run(2, "help", "train", "more", NULL), "train: has no command \"more\"");
    process_expect_sentence(process_run(2, "version", "2", NULL), "version: takes no further argument");
}

STAGE_CASE(a_key_as_other_programs_call_it_suggests_ours, struct stage *s)
{
    process_expect_sentence(process_run(2, "train", "--train.lr=1e-3", NULL),
                            "unknown key train.lr (did you mean train.learning_rate?");
    process_expect_sentence(process_run(2, "train", "--lr=1e-3", NULL),
                            "unknown key lr (did you mean train.learning_rate?");
    process_expect_sentence(process_run(2, "train", "--lr", "1e-3", NULL),
                            "unknown option --lr (did you mean --train.learning_rate=VALUE?)");
    process_expect_sentence(process_run(2, "resume", "latest", "--steps", "100", NULL),
                            "unknown option --steps (did you mean --train.total_steps=VALUE?)");
    process_expect_sentence(process_run(2, "train", "--data", "books", NULL),
                            "unknown option --data (did you mean --data.train=VALUE?)");
    process_expect_sentence(
        process_run(2, "train", "--qwertyuiop", NULL),
        "unknown option --qwertyuiop; a key of the configuration is set with --section.key=value");
    process_expect_sentence(process_run(2, "train", "--nme=x", NULL),
                            "unknown option --nme=x (did you mean --name?)");
    process_expect_sentence(process_run(2, "runs", "--lr=1e-3", NULL), "unknown option --lr=1e-3 (see ");
}

STAGE_CASE(a_name_that_is_changed_is_reported, struct stage *s)
{
    struct process *p =
        process_run(0, "train", s->config, "--name=my long run", "--train.total_steps=2", NULL);
    assert_non_null(strstr(process_stderr(p), "the run is called my-long-run"));
    p = process_run(0, "train", s->config, "--name=my-short.run_2", "--train.total_steps=2", NULL);
    assert_null(strstr(process_stderr(p), "is called"));
    stage_expect(s, "select name from runs order by name", "my-long-run\nmy-short.run_2");
    char lengthy[408] = "--name=";
    memset(lengthy + 7, 'x', 400);
    p = process_run(0, "train", s->config, lengthy, "--train.total_steps=2", NULL);
    assert_non_null(strstr(process_stderr(p), "letters, digits, _, . and hyphens, at most 63 bytes"));
}

STAGE_CASE(a_step_that_keep_has_removed_names_the_key_and_what_is_left, struct stage *s)
{
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--checkpoint.every=5",
                "--checkpoint.keep=2", "--eval.every=0", "--data.val_fraction=0", NULL);
    process_expect_sentence(
        process_run(1, "fork", "base", "--step=10", NULL),
        "there is no checkpoint of step 10, or it has been removed: the newest 2 and the best are "
        "kept (checkpoint.keep; there are: 35, 40)");
}

STAGE_CASE(an_export_into_a_folder_prints_paths_that_can_be_pasted, struct stage *s)
{
    char folder[700];
    process_run(0, "train", s->config, "--name=base", "--progress=none", "--train.total_steps=12", NULL);
    static const char *const formats[] = {"csv", "long", "tensorboard", "json"};
    for (int i = 0; i < 4; i++) {
        snprintf(folder, sizeof folder, "%s/results-%d//", s->folder, i);
        struct process *p = process_run(0, "export", "base", "--format", formats[i], "-o", folder, NULL);
        snprintf(folder, sizeof folder, "wrote %s/results-%d/", s->folder, i);
        assert_non_null(strstr(process_stderr(p), folder));
        assert_null(strstr(process_stderr(p), "//"));
    }
}

STAGE_CASE(a_model_folder_that_contradicts_itself_is_warned_of, struct stage *s)
{
    char path[800];
    process_run(0, "train", s->config, "--name=base", "--progress=none", NULL);
    char *folder = stage_path(s, "model");
    process_run(0, "model", "export", "base", "-o", folder, NULL);
    struct process *p = process_run(0, "model", "info", folder, NULL);
    assert_string_equal(process_stderr(p), "");
    snprintf(path, sizeof path, "%s/config.json", folder);
    char *text = stage_read(path), *size = strstr(text, "\"intermediate_size\": 48");
    assert_non_null(size);
    memcpy(size + 21, "64", 2);
    stage_write(path, text, strlen(text));
    p = process_run(0, "model", "info", folder, NULL);
    process_expect_sentence(p, "warning: config.json and the tensors contradict each other: ");
    process_expect_sentence(p, "gate_proj.weight is (48, 32), this model needs (64, 32)");
    assert_non_null(strstr(process_stdout(p), "Tensors"));
}

TEST_CASE(a_command_by_another_name_suggests_ours)
{
    static const char *const cases[][2] = {
        {"rm", "delete RUN"}, {"ls", "runs"}, {"stop", "order RUN stop"}, {"log", "show RUN"}};
    char sentence[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(sentence, sizeof sentence, "no command \"%s\"; did you mean \"%s\"?", cases[i][0],
                 cases[i][1]);
        process_expect_sentence(process_run(2, cases[i][0], NULL), sentence);
    }
}

STAGE_CASE(a_wrong_word_is_refused_before_the_texts_are_read, struct stage *s)
{
    static const char *const words[] = {"--name=latest", "--tag=good,a=b", "--data.tokenizer=bpe:100",
                                        "--data.tokenizer=gpt2"};
    static const char *const sentences[] = {"--name latest", "\"a=b\" is no tag",
                                            "a vocabulary of 100 tokens", "tokenizer \"gpt2\""};
    char *data = kept_format("--data.train=%s,%s", s->corpus, s->config); /* two: the reading is reported */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct process *p = process_run(2, "train", s->config, data, words[i], "--progress=plain", NULL);
        process_expect_sentence(p, sentences[i]);
        p = process_run(2, "train", s->config, data, words[i], "--dry-run", "--progress=plain", NULL);
        process_expect_sentence(p, sentences[i]);
    }
}

STAGE_CASE(progress_start_names_each_phase_once, struct stage *s)
{
    struct process *p = process_run(0, "train", s->config, "--until=1", "--progress=start", NULL);
    assert_string_equal(process_stderr(p), "planning memory and making the model\n");
}

STAGE_CASE(a_text_too_small_for_its_tokenizer_is_reported, struct stage *s)
{
    char *text = calloc(1, 8001);
    for (int i = 0; i < 8000; i++) text[i] = "the cat sat "[i % 12];
    stage_write(s->corpus, text, 8000);
    free(text);
    static const char *const ends[] = {"--dry-run", "--progress=plain"};
    int learned = 0;
    for (int i = 0; i < 2; i++) {
        struct process *p =
            process_run(0, "train", s->config, "--data.tokenizer=bpe:2048", "--model.vocab_size=2048",
                        "--train.total_steps=2", "--train.warmup_steps=0", ends[i], NULL);
        const char *where = i ? process_stderr(p) : process_stdout(p);
        const char *sentence = strstr(where, "the text was enough for only ");
        assert_non_null(sentence);
        assert_int_equal(sscanf(sentence, "the text was enough for only %d of the 2048 tokens", &learned), 1);
        assert_in_range(learned, 257, 300);
    }
    char *enough = kept_format("--data.tokenizer=bpe:%d", learned);
    assert_null(
        strstr(process_output("train", s->config, enough, "--model.vocab_size=2048", "--dry-run", NULL),
               "the text was enough"));
}

STAGE_CASE(a_text_that_is_read_hundreds_of_times_is_told, struct stage *s)
{
    static const char *const meant[][2] = {{"--train.epochs=4000"},
                                           {"--train.total_steps=40000", "--eval.early_stopping_patience=3"},
                                           {"--train.total_steps=4"}};
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        assert_null(strstr(process_output("train", s->config, "--dry-run", meant[i][0], meant[i][1], NULL),
                           "the training data are so few"));
    json_t *dry = lines_of("train", s, "--train.total_steps=40000", "--dry-run");
    json_t *warnings = json_object_get(dry, "warnings");
    assert_int_equal(json_array_size(warnings), 1);
    const char *sentence = json_string_value(json_array_get(warnings, 0));
    double times = 0;
    assert_int_equal(
        sscanf(sentence, "the training data are so few that the run reads them %lf times", &times), 1);
    double epochs = json_real_value(json_object_get(dry, "epochs"));
    assert_true(epochs > 100 && times >= epochs - 0.5 && times <= epochs + 0.5);
    /* a run reports it once, before its first step */
    struct process *p =
        process_start("train", s->config, "--train.total_steps=40000", "--progress=plain", NULL);
    process_wait_text(p, sentence);
}

/* A build with the CUDA plugin serves machines without a GPU as one without it does. */
STAGE_CASE(without_any_nvidia_device_the_cpu_needs_no_warning, struct stage *s)
{
    char program[700];
    const char *binary = getenv("ANNEAL_BINARY");
    struct err err = {0};
    if (system("grep -qs 0x10de /sys/bus/pci/devices/*/vendor || test -e /proc/driver/nvidia/version || "
               "test -e /dev/dxg || test -e /dev/nvidiactl") == 0)
        skip();
    snprintf(program, sizeof program, "%s/anneal", s->folder);
    assert_int_equal(file_copy(binary, program, &err), STATUS_OK);
    assert_int_equal(chmod(program, 0755), 0);
    char *plugin = kept_format("%.*s/tests/kernels/stand_in/anneal_cuda.so",
                               (int)(strrchr(binary, '/') - binary), binary);
    assert_int_equal(file_copy(plugin, strcat(strcpy(program, s->folder), "/anneal_cuda.so"), &err),
                     STATUS_OK);
    snprintf(program, sizeof program, "%s/anneal", s->folder);
    struct process_options options = {
        .program = program,
        .environment = (const char *const[]){"ANNEAL_CUDA_PLUGIN", NULL},
        .arguments = (const char *const[]){"train", s->config, "--progress=plain", NULL}};
    struct process *p = process_expect(0, process_open(&options));
    assert_null(strstr(process_stderr(p), "warning"));
    options.arguments = (const char *const[]){"train", s->config, "--device=cuda", NULL};
    /* without a driver's library the plugin, which brings hundreds of megabytes, is not even loaded */
    bool library = dlopen("libcuda.so.1", RTLD_LAZY) != NULL;
    process_expect_sentence(process_expect(1, process_open(&options)),
                            library ? "no NVIDIA driver is loaded" : "no NVIDIA driver is installed");
}

/* ---- a run's configuration as a file ---- */

STAGE_CASE(what_show_prints_trains_the_same_run_again, struct stage *s)
{
    char *path = stage_path(s, "again.ini"), *folder = stage_path(s, "semi ; dir");
    struct err err = {0};
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(file_copy(s->corpus, kept_format("%s/text.txt", folder), &err), STATUS_OK);
    process_run(0, "train", s->config, "--name=first", kept_format("--data.train=%s", folder),
                "--hooks.on_event=\"cat\" >/dev/null ; true # \\x",
                "--sample.prompt=  Dear \"Sir\" ; h\xC3\xA4\x1B ", NULL);
    char *page = process_output("show", "first", NULL), *text = strstr(page, "[model]\n");
    assert_non_null(text);
    assert_non_null(strstr(text, "\nprompt = \"  Dear \\\"Sir\\\" ; h\xC3\xA4\\x1B \"\n"));
    assert_non_null(strstr(text, "\ntokenizer = bytes\n"));
    stage_write(path, text, strlen(text));
    process_run(0, "train", path, "--name=second", NULL);
    page = process_output("compare", "first", "second", NULL);
    assert_non_null(strstr(page, "Configuration: 0 of "));
    stage_expect(s, "select count(distinct config) from runs", "1");
}

TEST_MAIN()
