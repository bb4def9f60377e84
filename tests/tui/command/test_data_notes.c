/* What a dry run says of texts with labels and of conversations: how many there are, and all that is odd
 * about them. A run stores the same sentence. */
#include <jansson.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* The note of a dry run with these lines as data, and two more words. */
static const char *note_of(const struct stage *s, const char *file, const char *lines, const char *format,
                           const char *tokenizer, const char *more, const char *last)
{
    const char *path = stage_path(s, file);
    stage_write(path, lines, strlen(lines));
    return stage_text(
        stage_json(process_output("train", s->config, kept_format("--data.train=%s", path),
                                  kept_format("--data.format=%s", format), tokenizer, "--train.seq_len=32",
                                  "--model.vocab_size=443", "--dry-run", "--json", more, last, NULL)),
        "data_note");
}

#define A31 "abcdefghijklmnopqrstuvwxyzabcde"
#define A32 A31 "f"

STAGE_CASE(what_is_odd_about_labelled_texts_is_said, struct stage *s)
{
    static const struct {
        const char *lines, *more, *note;
    } cases[] = {
        {"a,x\nb,x\nc,y\nd,y\n", "--data.val_fraction=0.5",
         "2 texts with 2 labels (x 1, y 1) in 1 row, 2 texts to validate on"},
        {"a,x\nb,x\nc,y\n", "--data.val_fraction=0.5",
         "2 texts with 2 labels (x 1, y 1) in 1 row, 1 text to validate on"},
        {"a,x\nb,y\n", "--data.val_fraction=0.5",
         "2 texts with 2 labels (x 1, y 1) in 1 row, 0 texts to validate on, as no label has two"},
        {"a,x\nb,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels (x 1, y 1) in 1 row, 0 texts to validate on"},
        {"a,1\nb,2\nc,3\nd,4\ne,5\nf,6\ng,7\nh,8\n", "--data.val_fraction=0",
         "8 texts with 8 labels (1 1, 2 1, 3 1, 4 1, 5 1, 6 1, 7 1, 8 1) in 1 row, 0 texts to validate on"},
        {"a,1\nb,2\nc,3\nd,4\ne,5\nf,6\ng,7\nh,8\ni,9\n", "--data.val_fraction=0",
         "9 texts with 9 labels in 1 row, 0 texts to validate on"},
        {"a," A32 "\nb,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels (" A32 " 1, y 1) in 1 row, 0 texts to validate on"},
        {"a," A32 "g\nb,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels in 1 row, 0 texts to validate on"},
        {"a,x\n,x\nb,y\n,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels (x 1, y 1) in 1 row, 0 texts to validate on; 2 empty, the first in line 3, "
         "left out"},
        {"a,x\nb\xff,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels (x 1, y 1) in 1 row, 0 texts to validate on; 1 not UTF-8, the first in line "
         "3, learned byte by byte (Latin-1: iconv -f LATIN1 -t UTF-8)"},
        {"a,x\na,y\nb,x\n", "--data.val_fraction=0",
         "3 texts with 2 labels (x 2, y 1) in 1 row, 0 texts to validate on; 1 text occurs more than once, "
         "with different labels"},
        {"a,x\na,y\nb,x\nb,y\n", "--data.val_fraction=0",
         "4 texts with 2 labels (x 2, y 2) in 1 row, 0 texts to validate on; 2 texts occur more than once, "
         "with different labels"},
        {A32 "g,x\nb,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels (x 1, y 1) in 2 rows, 0 texts to validate on; 1 longer than 32 tokens is "
         "cut, "
         "the longest has 33"},
        {A32 "g,x\n" A32 "gh,y\n", "--data.val_fraction=0",
         "2 texts with 2 labels (x 1, y 1) in 2 rows, 0 texts to validate on; 2 longer than 32 tokens are "
         "cut, the longest has 34"},
        {"a," A31 "1\na," A31 "2\nb\xff," A31 "3\n,x\n" A32 "g," A31 "4\nd," A31 "5\ne," A31 "6\nf," A31
         "7\ng," A31 "8\n",
         "--data.val_fraction=0",
         "8 texts with 8 labels (" A31 "1 1, " A31 "2 1, " A31 "3 1, " A31 "4 1, " A31 "5 1, " A31 "6 1, " A31
         "7 1, " A31
         "8 1) in 2 rows, 0 texts to validate on; 1 longer than 32 tokens is cut, the longest has "
         "33; 1 empty, the first in line 5, left out; 1 not UTF-8, the first in line 4, learned byte by byte "
         "(Latin-1: iconv -f LATIN1 -t UTF-8); 1 text occurs more than once, with different labels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *lines = kept_format("text,label\n%s", cases[i].lines);
        assert_string_equal(
            note_of(s, "texts.csv", lines, "labels", "--data.tokenizer=bytes", cases[i].more, NULL),
            cases[i].note);
    }
}

STAGE_CASE(what_is_odd_about_conversations_is_said, struct stage *s)
{
    static const char good[] = "{\"prompt\": \"b\", \"completion\": \"c\"}\n",
                      cut[] = "{\"prompt\": \"b\", \"completion\": \"0123456789012345678901234567890123\"}\n",
                      late[] =
                          "{\"prompt\": \"0123456789012345678901234567890123\", \"completion\": \"c\"}\n";
    static const struct {
        const char *lines[4], *note;
    } cases[] = {
        {{good, good}, "2 conversations in 1 row, 0 to validate on"},
        {{good, cut}, "2 conversations in 2 rows, 0 to validate on; 1 longer than train.seq_len = 32 is cut"},
        {{good, cut, cut},
         "3 conversations in 3 rows, 0 to validate on; 2 longer than train.seq_len = 32 are cut"},
        {{good, late},
         "1 conversation in 1 row, 0 to validate on; 1 longer than train.seq_len = 32 is cut; 1 is "
         "left out, as no answer begins within that"},
        {{good, cut, late, late},
         "2 conversations in 2 rows, 0 to validate on; 3 longer than train.seq_len = 32 are cut; 2 are left "
         "out, as no answer begins within that"},
    };
    static const char template[] = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<|end|>{% endfor %}"
                                   "{% if add_generation_prompt %}a:{% endif %}";
    const char *path = stage_path(s, "turns.jinja");
    stage_write(path, template, sizeof template - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *l = cases[i].lines;
        char *lines = kept_format("%s%s%s%s", l[0], l[1], l[2] ? l[2] : "", l[3] ? l[3] : "");
        assert_string_equal(note_of(s, "turns.jsonl", lines, "instructions",
                                    "--data.tokenizer=tests/fixtures/tokenizer/qwen_style.json",
                                    "--data.val_fraction=0", kept_format("--data.template=%s", path)),
                            cases[i].note);
    }
}

TEST_MAIN()
