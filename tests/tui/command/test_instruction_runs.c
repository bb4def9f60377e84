/* Instruction tuning with the real binary: a run learns to answer and to stop, resumes bit for bit, and shows
 * what it learns from. */
#include <jansson.h>
#include <math.h>

#include "core/base/file.h"
#include "core/model/safetensors.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

#define TEMPLATE                                                                                             \
    "{% for m in messages %}<|pad|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"                       \
    "{% if add_generation_prompt %}<|pad|>assistant\n{% endif %}"

struct place {
    struct stage stage;
    char data[640], template[640];           /* files */
    char data_word[700], template_word[700]; /* settings */
};

/* Conversations of one or two questions, answered in capital letters. */
static void write_data(const char *path, int count)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    for (int i = 0; i < count; i++) {
        char low = (char)('a' + i % 5), high = (char)('A' + i % 5);
        if (i % 2)
            fprintf(out, "{\"prompt\": \"%c?\", \"completion\": \"%c %c\"}\n", low, high, high);
        else
            fprintf(out,
                    "{\"messages\": [{\"role\": \"user\", \"content\": \"%c?\"}, {\"role\": \"assistant\", "
                    "\"content\": \"%c %c\"}, {\"role\": \"user\", \"content\": \"again\"}, {\"role\": "
                    "\"assistant\", \"content\": \"%c\"}]}\n",
                    low, high, high, high);
    }
    fclose(out);
    stage_write(path, text, n);
    free(text);
}

static int open_place(void **state)
{
    static struct place scene, *p = &scene;
    stage_setup(state);
    scene.stage = *(struct stage *)*state;
    *state = &scene;
    snprintf(p->data, sizeof p->data, "%s/chats.jsonl", p->stage.folder);
    snprintf(p->template, sizeof p->template, "%s/turns.jinja", p->stage.folder);
    snprintf(p->data_word, sizeof p->data_word, "--data.train=%s", p->data);
    snprintf(p->template_word, sizeof p->template_word, "--data.template=%s", p->template);
    write_data(p->data, 60);
    stage_write(p->template, TEMPLATE, strlen(TEMPLATE));
    return 0;
}

#define TEST(name, parameter) STAGE_CASE_SETUP(name, open_place, parameter)

/* Trains a run of this name; returns what it said. */
static struct process *train(const struct place *p, int status, const char *name, const char *steps,
                             const char *more)
{
    return process_run(
        status, "train", p->stage.config, "--name", name, "--data.format=instructions", p->data_word,
        p->template_word, "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json", "--train.seq_len=64",
        "--model.vocab_size=443", "--train.learning_rate=1e-2", "--progress=plain", steps, more, NULL);
}

TEST(a_run_learns_to_answer_and_to_stop, struct place *p)
{
    struct process *run = train(p, 0, "chats", "--train.total_steps=150", "--sample.prompt=c?");
    assert_non_null(strstr(process_stderr(run), "54 conversations in "));
    assert_non_null(strstr(process_stderr(run), "c? C C\n")); /* a sample, without the end token */
    process_close(run);
    char *path = kept_format("%s/lines.txt", p->stage.folder);
    char *prelude = kept_format("exec <%s;", path);
    stage_write(path, "b?\nagain\n", 9);
    const char *words[] = {"chat", "chats", "--temperature=0", NULL}; /* with the template of the run */
    struct process *chat =
        process_expect(0, process_open(&(struct process_options){.arguments = words, .prelude = prelude}));
    assert_string_equal(process_stdout(chat), "B B\nB\n");
    char *text = process_output("evaluate", "chats", "--data", p->data, "--conversations", "--json", NULL);
    json_t *measured = stage_json(text);
    assert_true(stage_real(measured, "loss") < 0.1);
    int64_t learned = stage_int(measured, "tokens"); /* 90 ends, and answers of one to three tokens */
    assert_true(learned >= 90 + 90 && learned <= 90 + 60 * 3 + 30);
    text = process_output("data", "show", p->data, "--model.from=chats", NULL); /* a run, as for training */
    assert_non_null(strstr(text, "<|end|>]]"));
}

/* Rows have different numbers of labels: micro-batches are weighted by them. */
TEST(accumulated_steps_weight_each_label_alike, struct place *p)
{
    process_close(train(p, 0, "one", "--train.total_steps=6", "--train.batch_size=8"));
    process_close(train(p, 0, "two", "--train.total_steps=6", "--train.accumulation_steps=2"));
    struct history one = history_of("one"), two = history_of("two");
    assert_int_equal(one.count, 6);
    for (int i = 0; i < 6; i++) {
        double a = atof(one.steps[i].values), b = atof(two.steps[i].values);
        assert_true(fabs(a - b) < 1e-4 * a);
    }
}

/* config.json of the run's checkpoint at step 40. */
static struct file_map config_of(const struct stage *s, const char *run)
{
    struct file_map map;
    char *id = stage_query(s, kept_format("select id from runs where name = '%s'", run));
    char *path = kept_format("%s/runs/%s/checkpoints/step-40/config.json", s->home, id);
    assert_int_equal(file_map_open(path, &map, NULL), STATUS_OK);
    return map;
}

TEST(a_resumed_run_continues_bit_for_bit, struct place *p)
{
    process_close(train(p, 0, "half", "--train.total_steps=20", "--train.schedule=constant"));
    process_close(train(p, 0, "same", "--train.total_steps=40", "--train.schedule=constant"));
    process_run(0, "resume", "half", "--train.total_steps=40", "--progress=none", NULL);
    assert_int_equal(history_expect_same("same", "half"), 40);
    struct file_map same = config_of(&p->stage, "same"), half = config_of(&p->stage, "half");
    assert_int_equal(same.size, half.size);
    assert_memory_equal(same.data, half.data, same.size);
    file_map_close(&same), file_map_close(&half);
    write_data(p->data, 61);
    struct process *changed =
        process_run(2, "resume", "half", "--train.total_steps=60", "--progress=none", NULL);
    assert_non_null(strstr(process_stderr(changed), "the corpus has changed"));
}

TEST(a_broken_line_is_named_and_leaves_no_run, struct place *p)
{
    const char *text = "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n";
    stage_write(p->data, text, strlen(text));
    struct process *run = train(p, 1, "broken", "--train.total_steps=4", NULL);
    assert_non_null(strstr(process_stderr(run), "chats.jsonl: line 2: needs \"messages\", or \"prompt\" and "
                                                "\"completion\" (it has \"prompt\")"));
    process_close(run);
    stage_write(p->data, "\n \n", 3);
    run = train(p, 1, "blank", "--train.total_steps=4", NULL);
    assert_non_null(strstr(process_stderr(run), "there is no conversation in the data"));
    process_close(run);
    assert_int_equal(stage_count_runs(), 0);
    assert_int_equal(stage_count_leftovers(&p->stage), 0);
}

TEST(without_a_chat_template_the_remedy_is_named, struct place *p)
{
    struct process *run = process_run(2, "train", p->stage.config, "--data.format=instructions", p->data_word,
                                      "--data.tokenizer=bytes", NULL);
    assert_non_null(strstr(process_stderr(run), "name the model whose chat template"));
    assert_non_null(strstr(process_stderr(run), "if its lines are texts, set data.format = text"));
}

TEST(the_row_that_is_shown_marks_what_is_learned, struct place *p)
{
    const char *tokenizer = "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json";
    char *text = process_output("data", "show", p->data, "--row", "3", tokenizer, p->template_word, NULL);
    assert_non_null(strstr(text,
                           "<|pad|>user\nc?<|end|>\n<|pad|>assistant\n[[C C<|end|>]]\n<|pad|>user\nagain"
                           "<|end|>\n<|pad|>assistant\n[[C<|end|>]]\n"));
    text = process_output("data", "show", p->data, "--training", "--json", tokenizer, p->template_word, NULL);
    json_t *row = stage_json(text);
    assert_true(json_integer_value(json_object_get(row, "sequences")) > 1);
    assert_true(json_integer_value(json_object_get(row, "learned")) > 8);
    text =
        process_output("data", "show", p->stage.corpus, "--data.tokenizer=bytes", "--train.seq_len=8", NULL);
    assert_non_null(strstr(text, ": 9 tokens, 8 learned, 1 sequence"));
    /* the keys that choose what training reads */
    static const char *const keys[] = {"--data.val_split=tail", "--data.val_fraction=0.5", "--train.seed=2",
                                       "--data.shuffle=none", "--data.padding=32"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *random = i == 3 ? NULL : "--data.shuffle=random";
        text = process_output("data", "show", p->stage.corpus, "--data.tokenizer=bytes", "--train.seq_len=64",
                              "--training", "--row=9", "--data.shuffle=random", NULL);
        char *other = process_output("data", "show", p->stage.corpus, "--data.tokenizer=bytes",
                                     "--train.seq_len=64", "--training", "--row=9", keys[i], random, NULL);
        if (strcmp(text, other) == 0) fail_msg("%s changes nothing: %s", keys[i], text);
    }
    process_expect_sentence(process_run(2, "data", "show", p->data, "--data.too_long=refuse",
                                        "--train.seq_len=4", tokenizer, p->template_word, NULL),
                            "train.seq_len");
    process_expect_sentence(
        process_run(2, "data", "show", p->data, "--data.format=labels", "--data.tokenizer=bytes", NULL),
        "learns a label for a text as a whole");
}

/* A terminal that knows no colours gets brackets, as a file does. */
TEST(what_is_learned_is_marked_on_any_terminal, struct place *p)
{
    const char *const words[] = {
        "data", "show", p->stage.corpus, "--data.tokenizer=bytes", "--train.seq_len=8", NULL};
    struct pty *pty =
        pty_open(&(struct pty_options){.rows = 24, .columns = 80, .term = "dumb", .arguments = words});
    pty_wait_text(pty, "[[");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST(conversations_without_a_row_are_counted, struct place *p)
{
    const char *tokenizer = "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json";
    char *path = stage_path(&p->stage, "long.jsonl"), line[600];
    int n = snprintf(line, sizeof line,
                     "{\"prompt\": \"%0400d\", \"completion\": \"a\"}\n"
                     "{\"prompt\": \"b\", \"completion\": \"c\"}\n",
                     0);
    stage_write(path, line, (size_t)n);
    char *text =
        process_output("data", "show", path, tokenizer, p->template_word, "--train.seq_len=64", NULL);
    assert_non_null(strstr(
        text, "1 sequence; 1 is left out, as no answer begins within train.seq_len = 64\n\n<|pad|>user\nb"));
    process_expect_sentence(process_run(1, "data", "show", path, "--row=2", tokenizer, p->template_word,
                                        "--train.seq_len=64", NULL),
                            "--row 2: the last row is 1; 1 is left out");
}

TEST(an_evaluation_counts_the_answers_that_it_leaves_out, struct place *p)
{
    char *path = stage_path(&p->stage, "long.jsonl"), line[600];
    int n = snprintf(line, sizeof line,
                     "{\"prompt\": \"%0100d\", \"completion\": \"a\"}\n"
                     "{\"prompt\": \"b\", \"completion\": \"%060d\"}\n",
                     0, 0);
    stage_write(path, line, (size_t)n);
    process_close(train(p, 0, "short", "--train.total_steps=1", NULL));
    const char *words[] = {"evaluate", "short", "--data", path, "--conversations", "--json", NULL, NULL};
    int64_t all = 0, learned[2];
    static const char *const lengths[] = {NULL, "--seq-len=32"};
    for (int i = 0; i < 2; i++) {
        words[6] = lengths[i];
        struct process *run = process_expect(0, process_open(&(struct process_options){.arguments = words}));
        json_t *measured = stage_json(process_stdout(run));
        learned[i] = stage_int(measured, "tokens");
        if (!i) all = learned[i];
        if (!i) assert_int_equal(stage_int(measured, "bytes"), 61); /* end tokens are no text */
        assert_int_equal(stage_int(measured, "left_out_tokens"), all - learned[i]);
        process_close(run);
    }
    assert_true(learned[1] < all - 2); /* of the first answer nothing, of the second a part */
    process_expect_sentence(
        process_run(2, "evaluate", "short", "--data", path, "--conversations", "--seq-len=4", NULL),
        "in no conversation an answer begins within --seq-len = 4 tokens");
    process_expect_sentence(
        process_run(2, "evaluate", "short", "--data", path, "--conversations", "--padding=0", NULL),
        "--padding does not go with --conversations");
}

/* The embedding of the model in `folder`: rows of 32 numbers, in the file that is opened. */
static const float *open_embedding(const char *folder, struct safetensors *file, size_t rows)
{
    struct err err = {0};
    if (safetensors_open_folder(folder, file, &err)) fail_msg("%s", err.text);
    const struct safetensor *t = safetensors_find(file, "model.embed_tokens.weight");
    assert_true(t && t->shape[0] == (int64_t)rows && t->shape[1] == 32);
    return t->data;
}

TEST(rows_of_added_tokens_are_trained_and_saved, struct place *p)
{
    struct safetensors base, tuned;
    char exported[640];
    const char *turns = "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
                        "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}";
    stage_write(p->template, turns, strlen(turns));
    char *folder = kept_format("%s/with-tokens", p->stage.folder);
    char *from = kept_format("--model.from=%s", folder);
    process_run(0, "train", p->stage.config, "--name", "plain", "--data.tokenizer=bpe:300",
                "--model.vocab_size=300", "--progress=none", NULL);
    char *said = process_output("model", "add-tokens", "plain", folder, "<|turn|>", "<|end|>", "<|turn|>",
                                "--template", p->template, NULL);
    assert_non_null(strstr(said, "2 new tokens, 2 new rows, vocabulary of 302\n"));
    assert_non_null(strstr(said, "lora.train_embedding"));
    const float *rows = open_embedding(folder, &base, 302);
    for (int j = 0; j < 32; j++) {
        double mean = 0;
        for (int i = 0; i < 300; i++) mean += (double)rows[i * 32 + j] / 300;
        assert_true(fabs((double)rows[300 * 32 + j] - mean) < 1e-6 &&
                    rows[301 * 32 + j] == rows[300 * 32 + j]);
    }
    static const char *const keys[][2] = {{NULL}, {"--lora.rank=2", "--lora.train_embedding=true"}};
    for (int adapters = 0; adapters < 2; adapters++) {
        const char *name = adapters ? "adapters" : "tuned";
        snprintf(exported, sizeof exported, "%s/%s", p->stage.folder, name);
        process_run(0, "train", from, "--name", name, "--data.format=instructions", p->data_word,
                    "--train.seq_len=64", "--train.batch_size=4", "--train.total_steps=30",
                    "--train.threads=1", "--progress=none", keys[adapters][0], keys[adapters][1], NULL);
        process_close(adapters ? process_run(0, "model", "merge", folder, name, exported, NULL)
                               : process_run(0, "model", "export", name, "-o", exported, NULL));
        const float *trained = open_embedding(exported, &tuned, 302);
        for (int i = 300; i < 302; i++)
            assert_true(memcmp(trained + i * 32, rows + i * 32, 32 * sizeof *rows) != 0);
        safetensors_close(&tuned);
    }
    safetensors_close(&base);
    process_run(2, "model", "add-tokens", "plain", folder, "x", NULL); /* it exists */
    char *none = kept_format("%s/none", p->stage.folder);
    process_expect_sentence(process_run(2, "model", "add-tokens", "plain", none, "<|x|>", "\xFF", NULL),
                            "a token to add is not UTF-8");
    assert_int_equal(stage_count_leftovers(&p->stage), 0);
}

/* transformers takes the id of the vocabulary, whatever the file says, and numbers the others without it. */
TEST(a_token_of_the_vocabulary_keeps_its_id, struct place *p)
{
    const char *text, *known = NULL;
    json_t *id, *token;
    size_t i;
    process_run(0, "train", p->stage.config, "--name", "plain", "--data.tokenizer=bpe:300",
                "--model.vocab_size=300", "--train.total_steps=1", "--progress=none", NULL);
    process_run(0, "model", "add-tokens", "plain", kept_format("%s/one", p->stage.folder), "<|x|>", NULL);
    json_t *before = json_load_file(kept_format("%s/one/tokenizer.json", p->stage.folder), 0, NULL);
    json_t *vocab = json_object_get(json_object_get(before, "model"), "vocab");
    json_object_foreach(vocab, text, id)
        if (json_integer_value(id) == 270) known = text;
    assert_non_null(known);
    char *folder = kept_format("%s/known", p->stage.folder);
    char *said = process_output("model", "add-tokens", "plain", folder, known, "<|x|>", NULL);
    assert_non_null(strstr(said, "1 new token, 1 new row, vocabulary of 301\n"));
    assert_non_null(strstr(said, "until they are trained"));
    said = process_output("model", "add-tokens", folder, kept_format("%s/again", p->stage.folder), "<|x|>",
                          NULL);
    assert_non_null(strstr(said, "0 new tokens, 0 new rows, vocabulary of 301\n"));
    assert_non_null(strstr(said, "had each of these tokens already"));
    json_t *after = json_load_file(kept_format("%s/tokenizer.json", folder), 0, NULL);
    json_array_foreach(json_object_get(after, "added_tokens"), i, token) {
        const char *content = json_string_value(json_object_get(token, "content"));
        int64_t wanted = strcmp(content, known) == 0 ? 270 : strcmp(content, "<|x|>") == 0 ? 300 : -1;
        if (wanted >= 0) assert_int_equal(json_integer_value(json_object_get(token, "id")), wanted);
    }
    assert_true(i >= 2);
    json_decref(before);
    json_decref(after);
}

TEST_MAIN()
