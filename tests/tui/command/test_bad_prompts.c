/* What a model cannot continue, answer or measure: each is one sentence with a remedy, and nothing is printed
 * that looks like a result. */
#include <jansson.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

#define TEMPLATE "{% for m in messages %}{{ m.content }}\n{% endfor %}"

struct scene {
    struct stage stage;
    char model[700], lines[700], template[800], tasks[700];
};

/* A model in a folder that reads 64 tokens, one a byte, with a chat template. */
static int open_scene(void **state)
{
    static struct scene scene, *s = &scene;
    stage_setup(state);
    scene.stage = *(struct stage *)*state;
    *state = &scene;
    static const char question[] =
        "{\"context\": \"the\", \"choices\": [\" fox\", \" dog\"], \"answer\": 0}\n";
    snprintf(s->model, sizeof s->model, "%s/mine", s->stage.folder);
    snprintf(s->lines, sizeof s->lines, "%s/lines.txt", s->stage.folder);
    snprintf(s->tasks, sizeof s->tasks, "%s/tasks.jsonl", s->stage.folder);
    snprintf(s->template, sizeof s->template, "%s/chat_template.jinja", s->model);
    process_run(0, "train", s->stage.config, "--train.total_steps=2", "--model.max_seq_len=64",
                "--progress=none", NULL);
    process_output("model", "export", "latest", "-o", s->model, NULL);
    stage_write(s->template, TEMPLATE, strlen(TEMPLATE));
    stage_write(s->tasks, question, sizeof question - 1);
    return 0;
}

#define TEST(name, parameter) STAGE_CASE_SETUP(name, open_scene, parameter)

/* A way to give the model the bytes of `lines`. */
enum way { PROMPT, PROMPT_JSON, BATCH, CHAT, WAYS };

static struct process *give(const struct scene *s, enum way way, const char *bytes, size_t n,
                            const char *option)
{
    const char *words[10] = {way == CHAT ? "chat" : "generate", s->model};
    int count = 2;
    stage_write(s->lines, bytes, n);
    char *prompt = kept_format("--prompt=%s", bytes);
    char *prelude = kept_format("exec <%s;", s->lines);
    if (way == PROMPT || way == PROMPT_JSON) words[count++] = prompt;
    if (way == PROMPT_JSON) words[count++] = "--json";
    if (way == BATCH) words[count++] = "--batch", words[count++] = s->lines;
    if (option) words[count++] = option;
    struct process *p =
        process_open(&(struct process_options){.arguments = words, .prelude = way == CHAT ? prelude : NULL});
    process_wait_exit(p);
    return p;
}

/* It fails, prints nothing on standard output, and its last line on standard error has the sentence. */
static void expect_refused(struct process *p, const char *sentence)
{
    const char *text = process_stderr(p), *last = text + strlen(text);
    while (last > text && last[-1] == '\n') last--;
    while (last > text && last[-1] != '\n') last--;
    if (process_wait_exit(p) == 0) fail_msg("it succeeds, with %s", process_stdout(p));
    assert_string_equal(process_stdout(p), "");
    if (strncmp(last, "anneal: ", 8) != 0 || !strstr(last, sentence))
        fail_msg("no \"%s\" in the last line of:\n%s", sentence, text);
}

TEST(bytes_that_are_no_text_are_refused, struct scene *s)
{
    for (enum way way = PROMPT; way < WAYS; way++)
        expect_refused(give(s, way, "the \xff\xfe fox", 10, NULL),
                       way == BATCH  ? "lines.txt: line 1: the prompt is not valid UTF-8"
                       : way == CHAT ? "the message is not valid UTF-8"
                                     : "the prompt is not valid UTF-8");
    expect_refused(give(s, BATCH, "a fox\nthe\0fox\n", 14, NULL),
                   "lines.txt: line 2: the prompt holds a zero byte: it is not text");
    expect_refused(give(s, CHAT, "the\0fox\n", 8, NULL), "the message holds a zero byte: it is not text");
    expect_refused(give(s, CHAT, "the fox\n", 8, "--system=\xff"), "the system message is not valid UTF-8");
}

TEST(a_text_longer_than_the_model_reads_is_cut_with_a_warning_or_refused, struct scene *s)
{
    char text[201];
    memset(text, 'a', 200);
    text[200] = '\0';
    for (enum way way = PROMPT; way <= PROMPT_JSON; way++) {
        struct process *p = process_expect(0, give(s, way, text, 200, "--max-tokens=5"));
        assert_string_equal(process_stderr(p),
                            "anneal: warning: the prompt has 200 tokens and the model takes "
                            "64: it continues the last 64\n");
    }
    expect_refused(give(s, BATCH, text, 200, NULL),
                   "lines.txt: line 1: the prompt has 200 tokens, the model takes 1 to 63");
    expect_refused(give(s, CHAT, text, 200, NULL), "the message has 201 tokens, and there is room for 48");
}

TEST(an_empty_prompt_is_said_to_be_one, struct scene *s)
{
    struct process *p = process_expect(0, give(s, PROMPT, "", 0, "--max-tokens=5"));
    assert_string_equal(process_stderr(p),
                        "anneal: warning: the prompt is empty: the text begins after a new line\n");
    expect_refused(give(s, BATCH, "", 0, NULL), "lines.txt: holds no prompt (write one a line)");
    expect_refused(give(s, BATCH, "\n\r\n\n", 4, NULL), "lines.txt: holds no prompt (write one a line)");
    p = process_expect(0, give(s, CHAT, "\n \n", 3, NULL));
    assert_string_equal(process_stdout(p), "\n\n"); /* as many answers as lines */
}

TEST(a_limit_of_no_token_is_refused, struct scene *s)
{
    for (enum way way = PROMPT; way < WAYS; way++)
        expect_refused(give(s, way, "the", 3, "--max-tokens=0"),
                       "--max-tokens 0: must be a whole number from 1 to 999999");
}

TEST(a_stop_text_that_never_comes_leaves_the_other_ends, struct scene *s)
{
    char words[64];
    struct process *p = process_expect(0, process_start("generate", s->model, "--prompt=the",
                                                        "--stop=no such text", "--max-tokens=5", NULL));
    assert_string_equal(process_stderr(p),
                        "anneal: the text of --stop did not come: it ends after 5 tokens\n");
    json_t *json = stage_json(process_output("generate", s->model, "--prompt=the", "--stop=no such text",
                                             "--max-tokens=5", "--json", NULL));
    assert_string_equal(stage_text(json, "end"), "length");
    /* in chat it ends an answer where it comes */
    p = process_expect(0, give(s, CHAT, "the\n", 4, "--stop=no such text"));
    size_t whole = strlen(process_stdout(p));
    char second = process_stdout(p)[1];
    assert_true(whole > 3);
    if (second & 0x80 || second < ' ') return; /* the words of a fresh model may be any bytes */
    snprintf(words, sizeof words, "--stop=%c", second);
    p = process_expect(0, give(s, CHAT, "the\n", 4, words));
    assert_in_range(strlen(process_stdout(p)), 1, 2);
}

TEST(a_text_longer_than_the_model_reads_is_told, struct scene *s)
{
    struct process *p =
        process_expect(0, process_start("generate", s->model, "--prompt=the", "--max-tokens=61", NULL));
    assert_string_equal(process_stderr(p), ""); /* 64 in all */
    p = process_expect(0, process_start("generate", s->model, "--prompt=the", "--max-tokens=62", NULL));
    assert_string_equal(process_stderr(p),
                        "anneal: with the prompt it has 65 tokens; the model has seen the last 64 of "
                        "them at a time\n");
}

TEST(a_model_without_a_tokenizer_says_so, struct scene *s)
{
    static const char sentence[] = "tokenizer.json: does not exist, and text needs it (copy there the one of "
                                   "the tokens that the model was "
                                   "trained on, or let transformers make it of other files: "
                                   "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))";
    char *path = kept_format("%s/tokenizer.json", s->model);
    assert_int_equal(unlink(path), 0);
    for (enum way way = PROMPT; way < WAYS; way++) expect_refused(give(s, way, "the", 3, NULL), sentence);
    expect_refused(process_run(1, "evaluate", s->model, "--tasks", s->tasks, "--json", NULL), sentence);
    expect_refused(process_run(1, "evaluate", s->model, "--data", s->stage.corpus, "--json", NULL), sentence);
}

TEST(a_template_that_fails_is_named_with_its_line, struct scene *s)
{
    static const struct {
        const char *template, *sentence;
    } cases[] = {
        {"{{ raise_exception('roles must alternate') }}",
         "line 1: the template refuses this conversation: roles must alternate"},
        {"\n\n{{ messages[0].nope.nix }}", "line 3: 'nope' is undefined, so it has no 'nix'"},
        {"{% for", "line 1: a tag has no end; expected '%}' (is this a Jinja template?)"},
        {"{{ messages | no_such_filter }}", "line 1: the filter 'no_such_filter' is not supported"},
        {"", "the chat template makes an empty text of the conversation"},
        {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "line 1: nested more than 500 deep"},
        {"\xff", "chat_template.jinja: not UTF-8 text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage_write(s->template, cases[i].template, strlen(cases[i].template));
        expect_refused(give(s, CHAT, "the fox\n", 8, NULL), cases[i].sentence);
    }
    assert_int_equal(unlink(s->template), 0);
    expect_refused(give(s, CHAT, "the fox\n", 8, NULL), "chat --template FILE`, or continue a text with `");
    expect_refused(give(s, CHAT, "the fox\n", 8, "--template=/nowhere.jinja"), "/nowhere.jinja: cannot open");
}

TEST(adapters_alone_are_no_model, struct scene *s)
{
    static const char config[] = "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"no/such-model\", "
                                 "\"r\": 8, \"lora_alpha\": 16, "
                                 "\"target_modules\": [\"q_proj\"], \"task_type\": \"CAUSAL_LM\"}";
    char *folder = kept_format("%s/peft", s->stage.folder);
    char *path = kept_format("%s/adapter_config.json", folder);
    char *from = kept_format("--model.from=%s", folder);
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK);
    stage_write(path, config, sizeof config - 1);
    expect_refused(process_run(2, "model", "import", folder, NULL), "holds adapters");
    /* the others look for their numbers, or for the model that the file names */
    expect_refused(process_run(1, "train", s->stage.config, from, "--progress=none", NULL), "adapter_model");
    snprintf(s->model, sizeof s->model, "%s", folder);
    for (enum way way = PROMPT; way < WAYS; way++) expect_refused(give(s, way, "the", 3, NULL), "/peft");
    expect_refused(process_run(1, "evaluate", folder, "--tasks", s->tasks, "--json", NULL), "/peft");
    expect_refused(process_run(1, "evaluate", folder, "--data", s->stage.corpus, "--json", NULL), "/peft");
}

TEST_MAIN()
