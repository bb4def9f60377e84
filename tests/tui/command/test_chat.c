/* `anneal chat`: answers over a growing cache are those of a fresh prompt, end where the model says, and
 * Ctrl-C ends an answer and not the program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

#define TEMPLATE "{% for m in messages %}{{ m.content }}\n{% endfor %}"

/* A model folder "poet" in the stage, returned: one that reads `context` tokens, with a chat template and
 * without an end token. */
static const char *open_poet(struct stage *s, const char *context)
{
    static char folder[700];
    snprintf(folder, sizeof folder, "%s/poet", s->folder);
    char *length = kept_format("--model.max_seq_len=%s", context);
    process_run(0, "train", s->config, "--name", "poet", "--train.total_steps=150", length, "--progress=none",
                NULL);
    process_run(0, "model", "export", "poet", "-o", folder, NULL);
    char *path = kept_format("%s/chat_template.jinja", folder);
    stage_write(path, TEMPLATE, strlen(TEMPLATE));
    return folder;
}

/* Chats with these lines of input; the last of the further words is NULL. */
static struct process *chat(const struct stage *s, int status, const char *lines, const char *const *words)
{
    char *path = stage_path(s, "lines.txt");
    char *prelude = kept_format("exec <%s;", path);
    stage_write(path, lines, strlen(lines));
    struct process_options options = {.arguments = words, .prelude = prelude};
    return process_expect(status, process_open(&options));
}

/* What `anneal generate` adds to the prompt, in `count` tokens. */
static char *continued(const char *folder, const char *prompt, const char *count)
{
    char *text = process_output("generate", folder, "--prompt", prompt, "--max-tokens", count,
                                "--temperature=0", NULL);
    size_t n = strlen(prompt), length = strlen(text);
    assert_true(length > n && memcmp(text, prompt, n) == 0);
    memmove(text, text + n, length - n + 1);
    return text;
}

/* Fails unless `text` holds all of these in this order; returns what follows the last one. */
static const char *expect_in_order(const char *text, const char *const *words, size_t count)
{
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        at = strstr(at, words[i]);
        if (!at) fail_msg("no \"%s\" in\n%s", words[i], text);
        at += strlen(words[i]);
    }
    return at;
}

static void answers_over_the_cache_are_those_of_a_fresh_prompt(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "512");
    const char *const words[] = {"chat", folder, "--temperature=0", "--max-tokens=24", "--verbose", NULL};
    struct process *p = chat(s, 0, "the lord\nand\r\n", words);
    const char *out = process_stdout(p), *second = strchr(out, '\n') + 1;
    char *first = continued(folder, "the lord\n", "24"); /* no newline within, as the next line shows */
    assert_memory_equal(out, first, (size_t)(second - out));
    char *prompt = kept_format("the lord\n%sand\n", first);
    char *next = continued(folder, prompt, "24");
    assert_string_equal(second, next);
    static const char *const stats[] = {"prompt: 9 tokens,", "of which 0 were cached", "prompt: 6 tokens,",
                                        "of which 32 were cached"};
    expect_in_order(process_stderr(p), stats, 4);
    process_close(p);
}

/* `anneal generate --chat`, too, whether the question is a prompt or a line of a file. */
static void a_batch_of_questions_has_the_answers_of_one_chat_each(void **state)
{
    struct stage *s = *state;
    static const char *const questions[] = {"the lord", "and <s>", "the quick brown fox"};
    const char *folder = open_poet(s, "512");
    char *path = stage_path(s, "questions.txt"), line[64];
    stage_write(path, "the lord\nand <s>\nthe quick brown fox\n", 37);
    char *out = process_output("generate", folder, "--chat", "--batch", path, "--temperature=0",
                               "--max-tokens=24", "--progress=none", NULL);
    for (int i = 0; i < 3; i++) {
        json_t *all = stage_json(strsep(&out, "\n")),
               *one = stage_json(process_output("generate", folder, "--chat", "--prompt", questions[i],
                                                "--temperature=0", "--max-tokens=24", "--json", NULL));
        assert_string_equal(stage_text(all, "prompt"), questions[i]);
        assert_string_equal(stage_text(all, "text"), stage_text(one, "text"));
        assert_int_equal(stage_int(all, "prompt_tokens"), stage_int(one, "prompt_tokens"));
        snprintf(line, sizeof line, "%s\n", questions[i]); /* as the template has it */
        if (i == 1) continue;
        char *fresh = continued(folder, line, "24"); /* ends with a new line of the page */
        assert_int_equal(strlen(fresh), strlen(stage_text(one, "text")) + 1);
        assert_memory_equal(fresh, stage_text(one, "text"), strlen(fresh) - 1);
    }
    char *template = kept_format("%s/chat_template.jinja", folder);
    assert_int_equal(remove(template), 0);
    process_expect_sentence(process_run(1, "generate", folder, "--chat", "--batch", path, NULL),
                            "the model has no chat template");
    process_expect_sentence(process_run(2, "generate", folder, "--requests", "--batch", path, NULL),
                            "--batch and --requests do not go together");
}

static void an_answer_ends_at_the_models_own_token(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "512");
    char *text = continued(folder, "the lord\n", "24");
    size_t n = 1;
    while (text[n] == text[0]) n++;
    char *config = kept_format("{\"eos_token_id\": [250, %d]}", (unsigned char)text[n]);
    char *path = kept_format("%s/generation_config.json", folder);
    stage_write(path, config, strlen(config));
    struct process *p =
        chat(s, 0, "the lord", (const char *const[]){"chat", folder, "--temperature=0", NULL});
    assert_memory_equal(process_stdout(p), text, n);
    assert_string_equal(process_stdout(p) + n, "\n");
    assert_null(strstr(process_stderr(p), "names no token that ends"));
    process_close(p);
    p = chat(s, 0, " \nthe lord\n", (const char *const[]){"chat", folder, "--temperature=0", NULL});
    assert_memory_equal(process_stdout(p), "\n", 1); /* an empty line has an empty answer */
    assert_memory_equal(process_stdout(p) + 1, text, n);
    process_close(p);
}

static void the_speed_of_each_answer_is_recorded_with_the_run(void **state)
{
    struct stage *s = *state;
    char *path = kept_format("%s/chat_template.jinja", open_poet(s, "512"));
    const char *const words[] = {"chat", "poet", "--template", path, "--max-tokens=5", NULL};
    chat(s, 0, "the lord\nand\n", words);
    stage_expect(s, "select count(*), sum(new_tokens), min(prompt_tokens) from inference", "2|10|6");
}

static void commands_change_the_conversation(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "512");
    const char *const words[] = {"chat",      folder, "--temperature=0", "--max-tokens=5", "--system=and",
                                 "--verbose", NULL};
    struct process *p =
        chat(s, 0, "the\n/clear\nthe\n/retry\n/system\nthe\n/system so\nthe\n/quit\nthe\n", words);
    static const char *const stats[] = {
        "prompt: 8 tokens,", "which 0 were", "prompt: 1 token,",  "which 7 were", /* the same after /clear */
        "prompt: 1 token,",  "which 7 were", "prompt: 4 tokens,", "which 0 were", /* no system message */
        "prompt: 7 tokens,", "which 0 were"};
    const char *at = expect_in_order(process_stderr(p), stats, 10);
    assert_null(strstr(at, "prompt: ")); /* nothing after /quit */
    process_close(p);
}

static void a_conversation_that_no_longer_fits_loses_its_oldest_messages(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "512");
    const char *const words[] = {"chat", folder, "--temperature=0", "--max-tokens=8", "--context=64", NULL};
    struct process *p = chat(s, 0, "the lord said\nthe lord said\nthe lord said\nthe lord said\n", words);
    assert_non_null(strstr(process_stderr(p), "no longer fits into 64 tokens: its"));
    process_close(p);
    char lines[20 * sizeof "the lord said\n"] = "";
    for (int i = 0; i < 20; i++) strcat(lines, "the lord said\n");
    p = chat(s, 0, lines, words); /* who reads a pipe's messages wants each once */
    const char *said = strstr(process_stderr(p), "forgotten (later ones without another notice)");
    assert_non_null(said);
    assert_null(strstr(said + 1, "no longer fits"));
    process_close(p);
    p = chat(s, 1, "the lord said that this is a line of more than fifty-six letters, and it was\n", words);
    assert_non_null(strstr(process_stderr(p),
                           "the message has 77 tokens, and there is room for 56 (shorten it, "
                           "or make more room with --context)"));
    assert_string_equal(process_stdout(p), "");
    process_close(p);
    char line[602];
    memset(line, 'a', 600);
    strcpy(line + 600, "\n");
    p = chat(s, 1, line, (const char *const[]){"chat", folder, "--system=the lord", NULL});
    assert_non_null(strstr(process_stderr(p),
                           "the message with the system message has 610 tokens, and there is "
                           "room for 384 (the model cannot read more: shorten it)"));
    process_close(p);
    p = chat(s, 0, "the lord\n", (const char *const[]){"chat", folder, "--context=32", NULL});
    assert_non_null(strstr(process_stderr(p), "the context of 32 tokens is full"));
    process_close(p);
}

static void what_cannot_be_a_conversation_is_one_sentence(void **state)
{
    struct stage *s = *state;
    static const struct {
        const char *template, *line, *words;
    } cases[] = {
        {"{{ messages | nothing }}", "a", "bad.jinja: line 1: the filter 'nothing' is not supported"},
        {"{{ raise_exception('Only systems may speak') }}", "a",
         "refuses this conversation: Only systems may speak"},
        {"{% if %}", "a", "bad.jinja: line 1: unexpected '%}'"},
        {"", "a", "the chat template makes an empty text"},
        {"{{ messages[0].content }}", "\xff", "the message is not valid UTF-8"},
        {"{{ messages[0].content }}", "/nothing", "/nothing: there is no such command (/help lists them)"},
        {"{{ messages[0].content }}", "/retry", "there is no answer to repeat"},
    };
    const char *folder = open_poet(s, "64");
    char *path = stage_path(s, "bad.jinja");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage_write(path, cases[i].template, strlen(cases[i].template));
        const char *const words[] = {"chat", folder, "--template", path, NULL};
        struct process *p = chat(s, i < 5 ? 1 : 2, cases[i].line, words);
        if (!strstr(process_stderr(p), cases[i].words)) fail_msg("%s: %s", cases[i].words, process_stderr(p));
        assert_string_equal(process_stdout(p), "");
        process_close(p);
    }
    char *own = kept_format("%s/chat_template.jinja", folder);
    remove(own);
    process_expect_sentence(chat(s, 1, "a", (const char *const[]){"chat", folder, NULL}),
                            "chat --template FILE`, or continue a text");
}

static void a_prompt_may_be_as_long_as_the_model_reads(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "64");
    static char prompt[100];
    memset(prompt, 'a', 64);
    struct process *p = process_run(0, "generate", folder, "--prompt", prompt, "--max-tokens=1", NULL);
    assert_string_equal(process_stderr(p),
                        "anneal: with the prompt it has 65 tokens; the model has seen the last 64 of "
                        "them at a time\n");
    prompt[64] = 'b';
    p = process_run(0, "generate", folder, "--prompt", prompt, "--max-tokens=1", NULL);
    assert_non_null(
        strstr(process_stderr(p), "the prompt has 65 tokens and the model takes 64: it continues the"));
    p = process_run(2, "generate", folder, "--chat", "--prompt", prompt, NULL);
    assert_non_null(strstr(process_stderr(p), " tokens, the model takes 1 to 63"));
    process_run(0, "evaluate", folder, "--data", s->corpus, "--seq-len=64", NULL);
    process_expect_sentence(process_run(2, "evaluate", folder, "--data", s->corpus, "--seq-len=65", NULL),
                            "the model was trained for at most 64 tokens");
}

static void ctrl_c_ends_the_answer_and_not_the_program(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "100000");
    const char *const words[] = {"chat", folder, "--context=65536", NULL};
    struct pty *pty = pty_open(&(struct pty_options){.rows = 16, .columns = 100, .arguments = words});
    pty_wait_text(pty, "/help lists the commands");
    pty_send(pty, "/stats\r");
    pty_wait_text(pty, "there is no answer yet");
    pty_send(pty, "the lord\r");                       /* an answer of 65536 tokens */
    pty_wait_no_text(pty, "/help lists the commands"); /* the screen is full of it */
    pty_send(pty, "\003");
    pty_send(pty, "/stats\r"); /* the answer stays part of the conversation */
    pty_wait_text(pty, "prompt: 9 tokens,");
    pty_send(pty, "half a line\003");
    pty_wait_text(pty, "Ctrl-C once more, or Ctrl-D");
    pty_send(pty, "/help\r");
    pty_wait_text(pty, "/retry   another answer");
    pty_send(pty, "\003");
    pty_send(pty, "/nonsense\r"); /* it goes on */
    pty_wait_text(pty, "/nonsense: there is no such command");
    pty_send(pty, "\004");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

/* On a terminal of this kind; a token is a byte, so the prompt's tokens count what the model was given. */
static struct pty *open_terminal(const char *folder, const char *term)
{
    const char *const words[] = {"chat", folder, "--context=65536", "--max-tokens=1", "--verbose", NULL};
    struct pty *pty =
        pty_open(&(struct pty_options){.rows = 24, .columns = 100, .term = term, .arguments = words});
    pty_wait_text(pty, "/help lists the commands");
    pty_wait_text(pty, ">");
    return pty;
}

static void send_letters(struct pty *pty, int count)
{
    char piece[101];
    memset(piece, 'a', 100);
    piece[100] = '\0';
    for (int i = 0; i < count; i += 100) pty_send(pty, piece);
}

/* Presses keys once the line is edited by anneal: until then the terminal itself acts on control characters.
 * Letters show which of them does, and go again. */
static void press(struct pty *pty, const char *letters, const char *keys)
{
    char *shown = kept_format("> %s", letters);
    pty_send(pty, letters);
    pty_wait_text(pty, shown);
    pty_send(pty, "\025");
    pty_send(pty, keys);
}

static void the_help_fits_a_terminal_of_80_columns(void **state)
{
    struct stage *s = *state;
    const char *const words[] = {"chat", open_poet(s, "100000"), "--context=65536", NULL};
    struct pty *pty = pty_open(&(struct pty_options){.rows = 24, .columns = 80, .arguments = words});
    pty_wait_text(pty, "/help lists the commands, Ctrl-D leaves");
    pty_send(pty, "/help\r");
    pty_wait_text(pty, "needs a blank before it.");
    pty_wait_text(pty, "/quit    ends the program");
    int row = 0, wide = 0;
    while (row < 24 && !strstr(pty_row(pty, row), "this list")) row++;
    for (; row < 24; row++) wide += strlen(pty_row(pty, row)) >= 80;
    assert_int_equal(wide, 0); /* no line was broken at the edge */
    pty_send(pty, "\004");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

static void a_line_is_edited_and_earlier_ones_come_back(void **state)
{
    struct stage *s = *state;
    struct pty *pty = open_terminal(open_poet(s, "100000"), NULL);
    press(pty, "=1",
          "/bxd\033[D\177c\033[H\033[C.a\033[D\033[D\033[3~\r"); /* arrows, Backspace, Home, Delete */
    pty_wait_text(pty, "/abcd: there is no such command");
    press(pty, "=2", "/efg\r");
    pty_wait_text(pty, "/efg: there is no such command");
    press(pty, "=3", "not sent\033[A\033[A\033[B\033OAz\r"); /* an earlier line, changed */
    pty_wait_text(pty, "/abcdz: there is no such command");
    press(pty, "=4", "\033[A\027\025/h x\001\013/\303\244\177\303\266\r"); /* words, ends and UTF-8 */
    pty_wait_text(pty, "/\303\266: there is no such command");
    press(pty, "=5", "\032");
    pty_wait_stopped(pty);
    assert_true(pty_modes_restored(pty));
    pty_signal(pty, SIGCONT);
    for (int i = 0; i < 2000 && pty_modes_restored(pty); i++) usleep(10000); /* until it reads keys again */
    press(pty, "=6", "/stixl\033[D\177\033[Fl here\r"); /* the keys are those of before */
    pty_wait_text(pty, "/still: there is no such command");
    press(pty, "=a", "/\303xy\027z\303w\r"); /* two halves of characters, and a word less */
    pty_wait_text(pty, "/\357\277\275z\357\277\275w: there is no such command");
    press(pty, "=7", "\004");
    assert_int_equal(pty_wait_exit(pty), 0);
    assert_true(pty_modes_restored(pty));
    pty_close(pty);
}

static void a_long_pasted_text_is_one_whole_message(void **state)
{
    struct stage *s = *state;
    const char *folder = open_poet(s, "100000");
    struct pty *pty = open_terminal(folder, NULL);
    pty_send(pty, "\033[200~");
    send_letters(pty, 6000);
    pty_send(pty, "\r\033[1;2Xsecond\x7f\trow\r\033[201~!\r");
    pty_wait_text(pty, "prompt: 6014 tokens,"); /* with two newlines and the template's */
    pty_wait_text(pty, "text: 1 token");
    assert_false(pty_has_text(pty, "nan"));
    pty_close(pty);

    pty = open_terminal(folder, "dumb"); /* the terminal itself keeps the line, but not all of it */
    send_letters(pty, 6000);
    pty_send(pty, "\r");
    pty_wait_text(pty, "this terminal passes on at most 4094 bytes of a line");
    pty_send(pty, "the lord\r");
    pty_wait_text(pty, "prompt: 9 tokens,");
    assert_null(strchr(pty_raw(pty), '\033'));
    pty_close(pty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(answers_over_the_cache_are_those_of_a_fresh_prompt),
        STAGE_TEST(a_batch_of_questions_has_the_answers_of_one_chat_each),
        STAGE_TEST(an_answer_ends_at_the_models_own_token),
        STAGE_TEST(the_speed_of_each_answer_is_recorded_with_the_run),
        STAGE_TEST(commands_change_the_conversation),
        STAGE_TEST(a_conversation_that_no_longer_fits_loses_its_oldest_messages),
        STAGE_TEST(what_cannot_be_a_conversation_is_one_sentence),
        STAGE_TEST(a_prompt_may_be_as_long_as_the_model_reads),
        STAGE_TEST(ctrl_c_ends_the_answer_and_not_the_program),
        STAGE_TEST(the_help_fits_a_terminal_of_80_columns),
        STAGE_TEST(a_line_is_edited_and_earlier_ones_come_back),
        STAGE_TEST(a_long_pasted_text_is_one_whole_message),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
