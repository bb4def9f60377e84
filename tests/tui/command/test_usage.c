/* Invalid words on the command line: exit status 2, one line, and a pointer to the help. */
#include <string.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

STAGE_CASE(words_that_mean_nothing_are_one_line_that_points_to_the_help, struct stage *s)
{
    static const char *const commands[] = {"watch",    "train",    "resume",  "fork",      "order",
                                           "runs",     "show",     "compare", "export",    "import",
                                           "generate", "evaluate", "data",    "tokenizer", "model",
                                           "estimate", "devices",  "bench",   "doctor",    "clean"};
    static const char *const words[][3] = {{"-o"}, {"\x1b[2J", "--frobnicate"}};
    char pointer[64];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(pointer, sizeof pointer, "/anneal %s --help)", commands[i]);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            const char *arguments[5] = {commands[i], words[w][0], words[w][1], words[w][2]};
            struct process *p = process_open(&(struct process_options){.arguments = arguments});
            process_expect_sentence(process_expect(2, p), pointer);
            assert_null(strchr(process_stderr(p), '\x1b'));
            assert_string_equal(process_stdout(p), "");
        }
        for (int h = 0; h < 2; h++) {
            struct process *p = process_run(0, commands[i], h ? "--help" : "-h", NULL);
            assert_non_null(strstr(process_stdout(p), "anneal "));
            assert_string_equal(process_stderr(p), "");
        }
    }
    assert_non_null(strstr(process_output("train", "--help-config", NULL), "learning_rate"));
    static const char *const empty[][4] = {{"train", ""},
                                           {"resume", ""},
                                           {"fork", ""},
                                           {"estimate", ""},
                                           {"import", ""},
                                           {"data", ""},
                                           {"model", "info", "a", "b"},
                                           {"model", "import"},
                                           {"model", "info", ""},
                                           {"data", "prepare"},
                                           {"tokenizer", "info", "--frobnicate"},
                                           {"model", "import", "a", "--best"},
                                           {"model", "import", "a", "--json"},
                                           {"model", "info", "a", "--name=b"},
                                           {"bench"},
                                           {"bench", "step", "--rounds=0"},
                                           {"generate", "a", "b"},
                                           {"train", "a.ini", "b.ini"},
                                           {"show", "a", "b"},
                                           {"order", "a", "pause", "stop"}};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        const char *arguments[5] = {empty[i][0], empty[i][1], empty[i][2], empty[i][3]};
        struct process *p = process_open(&(struct process_options){.arguments = arguments});
        snprintf(pointer, sizeof pointer, "/anneal %s", empty[i][0]);
        process_expect_sentence(process_expect(2, p), pointer);
    }
}

STAGE_CASE(words_that_do_not_go_together_are_named, struct stage *s)
{
    const struct {
        const char *words[8], *sentence;
    } cases[] = {
        {{"clean", "--filter", "loss<"}, "clean: --filter: a value is missing after loss: \"loss<\" ("},
        {{"clean", "mine", "--filter", "loss<3"}, "clean: give runs or --filter, not both"},
        {{"runs", "--filter", "loss<"}, "runs: --filter: a value is missing after loss: \"loss<\""},
        {{"import", s->corpus, "--filter", "loss<3"}, "--filter and --checkpoints need --store FOLDER"},
        {{"model", "import", "a", "--name", "x", "-o", "y"}, "model import: give --name or -o, not both"},
        {{"plan", "--network", "fast"},
         "--network: \"fast\" is not a rate (give bits as in 400Gb/s, or bytes"},
        {{"sweep", "a.ini", "b.ini"}, "sweep: one CONFIG.ini, not 2"},
        {{"sweep", "--resume", "x", "--train.seed=3"},
         "--resume takes no settings: a sweep is stated before its"},
        {{"sweep", "show", "x", "--train.seed=3"},
         "show takes no settings: a sweep is stated before its start"},
        {{"sweep", "--resume", "x", "c.ini"}, "sweep: --resume takes no CONFIG.ini"},
        {{"tokenizer", "encode", "bytes", s->corpus, "--text", "x"}, "encode: give FILE or --text, not both"},
        {{"generate", "mine", "--best", "--step", "3"}, "generate: give --best or --step, not both"},
        {{"generate", "tests/fixtures/kinds/llama_yarn", "--best"},
         "generate: tests/fixtures/kinds/llama_yarn is a checkpoint folder, --best is for runs"},
        {{"generate", "tests/fixtures/kinds/llama_yarn", "--step", "3"},
         "generate: tests/fixtures/kinds/llama_yarn is a checkpoint folder, --step is for runs"},
        {{"tag", "mine"}, "tag: needs +TAG, -TAG, --note or --name"},
        {{"compare", "mine", "mine", "--json", "--markdown"}, "--json and --markdown exclude each other"},
        {{"show", "mine", "--profile", "--all"}, "--profile shows all its rows and takes no --all"},
        {{"classify", "mine", "a text", "--column=text"}, "--column needs --csv FILE"},
        {{"evaluate", "mine", "--tasks=a.jsonl", "--column=text"}, "--column do not go with --tasks"},
        {{"sweep", "--train.seed=1,2", "--seed=7"}, "--seed is that of --samples N"},
        {{"clean", "mine", "--only=caches"}, "a cache belongs to no run (leave the runs out)"},
        {{"clean", "--only=damaged", "--all-but-best"},
         "--all-but-best is of checkpoints, which --only leaves"},
    };
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = process_open(&(struct process_options){.arguments = cases[i].words});
        process_expect_sentence(process_expect(2, p), cases[i].sentence);
        assert_string_equal(process_stdout(p), "");
    }
    stage_expect(s, "select count(*) || name from runs", "1mine"); /* and nothing was done */
}

STAGE_CASE(an_unknown_command_or_option_suggests_the_nearest, struct stage *s)
{
    static const struct {
        const char *words[5], *sentence;
    } cases[] = {
        {{"trian"}, "no command \"trian\"; did you mean \"train\"?"},
        {{"xyzzy"}, "anneal --help)"},
        {{"data", "--zson"}, "anneal data --help)"},
        {{"data", "ifno"}, "no command \"ifno\"; did you mean \"info\"?"},
        {{"runs", "--jsno"}, "runs: unknown option --jsno (did you mean --json?)"},
        {{"resume"}, "needs RUN"},
        {{"order", "latest", "puase"}, "there is no order \"puase\"; did you mean \"pause\"?"},
        {{"order", "latest", "lr", "3"}, "there is no order \"lr\"; did you mean \"lr-factor\"?"},
        {{"order", "latest", "set", "key", "3"}, "there is no order \"set\""},
        {{"order", "latest", "lr-factor", "1", "2"}, "lr-factor needs one number from 0 to 1000"},
        {{"order", "latest", "pause", "1", "2"}, "only lr-factor takes a value"},
        {{"order", "latest", "lr-factor", "-1"}, "lr-factor needs one number from 0 to 1000"},
        {{"export", "latest", "--table", "stpes"}, "--table stpes: must be steps|evals|"},
        {{"generate", "x", "--top-p", "1.5"}, "--top-p 1.5: must be a number from "},
        {{"generate", "x", "--max-tokens", ""}, "--max-tokens: needs a value, N"},
        {{"generate", "x", "--seed=1", "--seed=2"}, "--seed: is given twice"},
        {{"train", "--train.zebra=1"}, "anneal train --help-config lists them)"},
        {{"bench", "step", "--rounds", "x"}, "--rounds x: must be a whole number from 1 to 15"},
        {{"bench", "step", "--train.seed"}, "--train.seed: must be --section.key=value"},
        {{"resume", "latest", "--name", "x"}, "resume: unknown option --name"}, /* it keeps its name */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = process_open(&(struct process_options){.arguments = cases[i].words});
        process_expect_sentence(process_expect(2, p), cases[i].sentence);
    }
    process_expect_sentence(process_run(1, "resume", "latest", NULL),
                            "run \"latest\": there are no runs yet in /");
}

STAGE_CASE(a_value_of_the_wrong_kind_gets_a_remedy_that_works, struct stage *s)
{
    char many[1001] = "";
    memset(many, 'x', sizeof many - 1);
    const struct {
        int status;
        const char *words[8], *sentence;
    } cases[] = {
        {2, {"compare", "mine", "mine", "--to-loss", "0x10"}, "--to-loss 0x10: must be a number from "},
        {2, {"generate", "mine", "--max-tokens", " 5"}, "--max-tokens  5: must be a whole number from 1"},
        {2, {"estimate", "--fit", "0x10G"}, "--fit"},
        {2,
         {"tokenizer", "encode", "bpe:300"},
         "must be bytes or the path of a tokenizer.json (each checkpoint"},
        {2,
         {"data", "info", "none.tok", "-t", "bpe:300"},
         "must be bytes or the path of a tokenizer.json (each checkpoint"},
        {2, {"tokenizer", "info", "mine"}, "must be bytes or the path of a tokenizer.json (each checkpoint"},
        {2,
         {"tokenizer", "train", "none.txt", "--vocab=5", "-o", "t.json"},
         "--vocab 5: must be a whole number from 256"},
        {2, {"data", "info", s->corpus}, " data prepare` makes one of a text)"},
        {2, {"model", "export", "mine", "-o", "."}, ".: exists already (name a new or an empty folder)"},
        {2, {"model", "export", "mine", "-o", s->corpus}, "exists already (name a new or an empty folder)"},
        {2, {"tokenizer", "decode", "bytes", "65x"}, "\"65x\" is not a token id"},
        {1, {"show", many}, "xxx\": there is no such run (`"},
        {1, {"doctor", "yours", "--json"}, "run \"yours\": there is no such run"},
    };
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = process_open(&(struct process_options){.arguments = cases[i].words});
        process_expect_sentence(process_expect(cases[i].status, p), cases[i].sentence);
        assert_string_equal(process_stdout(p), "");
    }
}

STAGE_CASE(a_refused_change_of_tags_note_or_name_changes_nothing, struct stage *s)
{
    char note[300];
    memset(note, 'n', sizeof note);
    note[256] = '\0';
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    process_expect_sentence(process_run(2, "tag", "mine", "+good", "--note=new", "--name=latest", NULL),
                            "--name latest: in every command this word means the newest run");
    process_expect_sentence(process_run(2, "tag", "mine", "+good", "--note", note, NULL),
                            "--note: 256 bytes are too many (a note has at most 255)");
    stage_expect(s, "select name || ifnull(note, '') || (select count(*) from tags) from runs", "mine0");
}

STAGE_CASE(a_name_that_is_changed_is_said_so, struct stage *s)
{
    char name[71] = "";
    memset(name, 'n', sizeof name - 1);
    process_run(0, "train", s->config, "--name=mine", "--train.total_steps=2", "--progress=none", NULL);
    struct process *p = process_run(0, "tag", "mine", "--name", name, NULL);
    name[63] = '\0';
    stage_expect(s, "select name from runs", name);
    assert_non_null(strstr(process_stderr(p), "n: a name consists of letters, digits, _, . and hyphens, at "
                                              "most 63 bytes\n"));
    p = process_run(0, "tag", "latest", "--name=other", NULL);
    assert_null(strstr(process_stderr(p), "a name consists of"));
}

TEST_MAIN()
