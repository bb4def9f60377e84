/* Which runs of a sweep can be compared, by the measure that decides; what is said once or for each of them;
 * and how much work and memory a plan counts. */
#include <math.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static const char labelled[] =
    "text,label\nnice,good\npoor,bad\nkind,good\nrude,bad\nnice one,good\npoor one,bad\n";
static const char question[] =
    "{\"context\": \"the quick\", \"choices\": [\" fox\", \" dog\"], \"answer\": 0}\n";

static char *file(const struct stage *s, const char *name, const char *text)
{
    char *path = stage_path(s, name);
    stage_write(path, text, strlen(text));
    return path;
}

/* The files' names stand for themselves: each command runs in the stage's folder. */
static struct process *sweep(const struct stage *s, const char *const settings[6])
{
    const char *words[16] = {"sweep", "tiny.ini", "--dry-run"};
    for (int i = 0; i < 6 && settings[i]; i++) words[3 + i] = settings[i];
    struct process *p = process_open(&(struct process_options){.arguments = words, .folder = s->folder});
    process_wait_exit(p);
    return p;
}

static void write_files(const struct stage *s)
{
    file(s, "rows.csv", labelled);
    file(s, "more.csv", labelled);
    file(s, "quiz.jsonl", question);
    file(s, "other.jsonl", question);
    char *text = stage_read(s->corpus);
    file(s, "a.txt", text);
    text[strlen(text) / 2] = '\0';
    file(s, "b.txt", text);
}

#define LABELS  "--data.format=labels", "--data.train=rows.csv", "--data.val_fraction=0.4"
#define LEARNED "--model.vocab_size=300"

STAGE_CASE(the_measure_decides_what_may_differ, struct stage *s)
{
    static const struct {
        const char *settings[6], *key; /* that is refused; NULL: none */
    } cases[] = {
        {{"--eval.tasks=quiz.jsonl,quiz.jsonl\\,other.jsonl"}, NULL},
        {{"--eval.tasks=quiz.jsonl,quiz.jsonl\\,other.jsonl", "--eval.metric=quiz_acc"}, "eval.tasks"},
        {{"--data.val=a.txt,b.txt"}, "data.val"},
        {{"--data.val=a.txt,b.txt", "--eval.tasks=quiz.jsonl", "--eval.metric=quiz_acc"}, NULL},
        {{"--data.tokenizer=bytes,bpe:300", LEARNED}, "data.tokenizer"},
        {{"--data.tokenizer=bytes,bpe:300", LEARNED, "--eval.tasks=quiz.jsonl", "--eval.metric=quiz_acc"},
         NULL},
        {{"--data.format=labels,text", "--data.train=rows.csv", "--data.val_fraction=0.4",
          "--train.seq_len=8"},
         "data.format"},
        {{LABELS, "--data.tokenizer=bytes,bpe:300", LEARNED}, NULL},
        {{LABELS, "--data.tokenizer=bytes,bpe:300", LEARNED, "--eval.metric=accuracy"}, NULL},
        {{"--data.format=labels", "--data.train=rows.csv,more.csv", "--data.val=rows.csv",
          "--data.tokenizer=bpe:300", LEARNED},
         NULL},
        {{"--data.format=labels", "--data.train=rows.csv", "--data.val=rows.csv,more.csv",
          "--eval.metric=accuracy"},
         "data.val"},
        {{"--train.optimizer=adamw,lion", "--checkpoint.contents=weights", "--factor=1"}, NULL},
    };
    write_files(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = sweep(s, cases[i].settings);
        char *wanted =
            kept_format("run 2: %s must be the same for all runs", cases[i].key ? cases[i].key : "");
        bool right = cases[i].key ? strstr(process_stderr(p), wanted) != NULL : process_wait_exit(p) == 0;
        if (!right) fail_msg("case %zu, %s: %s", i, cases[i].settings[0], process_stderr(p));
    }
}

/* Runs that read a text in the same way get its notes once; another way of reading gets notes of its own. */
STAGE_CASE(notes_are_for_the_first_run_that_reads_the_texts_so, struct stage *s)
{
    static const struct {
        const char *settings[6];
        int notes;
    } cases[] = {
        {{"--data.train=c.txt", "--train.learning_rate=1e-3,1e-4"}, 1},
        {{"--data.train=c.txt,d.txt", "--factor=1"}, 2},
        {{"--data.train=a.txt", "--data.val=c.txt,d.txt", "--factor=1"}, 2},
        {{"--data.train=c.txt", "--data.tokenizer=bytes,bpe:300", LEARNED, "--factor=1"}, 2},
    };
    write_files(s);
    char *text = stage_read(s->corpus);
    text[100] = '\xe9';
    file(s, "c.txt", text), file(s, "d.txt", text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *said = process_stderr(sweep(s, cases[i].settings));
        int notes = 0;
        for (const char *at = said; (at = strstr(at, "is not all UTF-8")) != NULL; at++) notes++;
        if (notes != cases[i].notes) fail_msg("case %zu: %d notes: %s", i, notes, said);
    }
}

STAGE_CASE(a_plan_counts_the_steps_of_every_rung_and_the_memory_of_all_ranks, struct stage *s)
{
    process_run(0, "train", s->config, "--progress=none", NULL);
    double speed = stage_real(json_array_get(stage_runs(), 0), "tokens_per_sec"), bytes[2];
    for (int ranks = 1; ranks <= 2; ranks++) {
        json_t *json = stage_json(process_output("sweep", s->config, "--train.learning_rate=1e-3,2e-3,3e-3",
                                                 "--eval.every=10", "--dry-run", "--json",
                                                 ranks == 2 ? "--ranks=2" : NULL, NULL));
        /* three runs of 10 steps, two of 10 more, and one of 20; of 4 rows of 32 tokens */
        double wanted = (30 + 20 + 20) * 4 * 32 / speed, seconds = stage_real(json, "estimated_seconds");
        if (!(fabs(seconds - wanted) < 1e-3 * wanted)) fail_msg("%g seconds, not %g", seconds, wanted);
        bytes[ranks - 1] = stage_real(json_array_get(json_object_get(json, "runs"), 0), "planned_bytes");
        assert_int_equal(stage_int(json, "side_by_side"), 3 - ranks); /* on two processors */
    }
    if (!(bytes[1] > bytes[0] && bytes[1] < 2 * bytes[0])) fail_msg("%g, then %g bytes", bytes[0], bytes[1]);
}

TEST_MAIN()
