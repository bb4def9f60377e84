/* anneal classify: a run that learned labels gives them to texts, alone and in a file, with the probabilities
 * of training's own evaluation; adapters over a language model do the same, merged or not; anneal evaluate
 * measures what training does; what is wrong gets one sentence. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* The label is the first letter of the third word from the end. */
static char *write_texts(const struct stage *s, char path[700], int count)
{
    static const char *const words[] = {"apple", "brick", "cloud"};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "id,text,label\n");
    for (int i = 0; i < count; i++) {
        fprintf(out, "%d,\"", i);
        for (int k = 0; k < i % 5; k++) fprintf(out, "word, ");
        fprintf(out, "%s of it\",%c\n", words[i % 3], "abc"[i % 3]);
    }
    fclose(out);
    snprintf(path, 700, "%s/texts.csv", s->folder);
    stage_write(path, text, size);
    return kept(text, free);
}

static void train(const struct stage *s, const char *name, const char *path, const char *more)
{
    char *data = kept_format("--data.train=%s", path);
    char *named = kept_format("--name=%s", name);
    process_run(0, "train", s->config, named, data, "--data.format=labels", "--progress=none",
                "--train.total_steps=60", "--train.learning_rate=0.01", "--train.seq_len=48",
                "--eval.batches=0", "--eval.metric=accuracy", more, NULL);
}

static json_t *classify_file(const char *run, const char *path)
{
    char *text = process_output("classify", run, "--csv", path, "--json", "--progress=none", NULL);
    json_error_t problem;
    json_t *list = stage_json(text);
    if (!json_is_array(list)) fail_msg("%s: %s", problem.text, text);
    return list;
}

static json_t *evaluate(const char *model, const char *path)
{
    json_t *scores =
        stage_json(process_output("evaluate", model, "--data", path, "--json", "--progress=none", NULL));
    assert_non_null(scores);
    return scores;
}

static void expect_close(double value, double expected, double part)
{
    if (!(fabs(value - expected) <= part * fabs(expected))) fail_msg("%.9g, not %.9g", value, expected);
}

STAGE_CASE(a_run_gives_texts_the_labels_it_learned, struct stage *s)
{
    char path[700];
    write_texts(s, path, 90);
    char *data = kept_format("--data.train=%s", path);
    char *plan = process_output("train", s->config, data, "--data.format=labels", "--dry-run", NULL);
    assert_non_null(strstr(plan, " 81 texts with 3 labels (a 27, b 27, c 27) in "));
    train(s, "abc", path, "--train.seed=3");
    json_t *list = classify_file("abc", path);
    int right = 0;
    assert_int_equal(json_array_size(list), 90);
    for (size_t i = 0; i < 90; i++) {
        const json_t *one = json_array_get(list, i);
        const json_t *shares = json_object_get(one, "probabilities");
        double sum = 0;
        const char *key;
        json_t *share;
        json_object_foreach((json_t *)shares, key, share) sum += json_real_value(share);
        assert_int_equal(stage_int(one, "line"), i + 2);
        assert_true(fabs(sum - 1) < 1e-9);
        right += *stage_text(one, "label") == "abc"[i % 3];
    }
    assert_true(right > 85);
    /* a text alone has the same answer as among others */
    char *alone = process_output("classify", "abc", "brick of it", NULL),
         *two = process_output("classify", "abc", "cloud of it", "brick of it", NULL);
    assert_non_null(strstr(two, alone));
    assert_int_equal(*alone, 'b');
    struct process *p = process_run(0, "classify", "abc", "--csv", path, "--progress=bar", NULL);
    assert_non_null(strstr(process_stderr(p), "classifying   ")); /* first less than 10 % */
    assert_non_null(strstr(process_stderr(p), "  0 texts"));
    assert_non_null(strstr(process_stderr(p), "classifying 100%"));
    p = process_run(0, "classify", "abc", path, NULL); /* as someone would write who means the file */
    process_expect_sentence(p,
                            "is a file, but its name is taken as the text (--csv FILE reads texts from it)");
    p = process_run(0, "evaluate", "abc", "--data", path, "--progress=bar", NULL);
    assert_non_null(strstr(process_stderr(p), "judging "));
    assert_non_null(strstr(process_stderr(p), "  0/90"));
    assert_non_null(strstr(process_stderr(p), "  90/90"));
    char *table =
        process_output("classify", "abc", "--csv", path, "--progress=none", "--probabilities", NULL);
    static const char head[] = "line,text,label,probability,a,b,c\r\n2,apple of it,a,";
    assert_memory_equal(table, head, sizeof head - 1);
    int fields = 1;
    for (const char *c = table + sizeof head - 1; *c != '\r'; c++) fields += *c == ',';
    assert_int_equal(fields, 4); /* its probability and those of three labels */
    assert_non_null(strstr(table, "\"word, brick of it\",b,"));
    char *confusion = stage_query(s, "select sum(count) from confusion where step = 60"),
         *classes = stage_query(s, "select group_concat(label || support) from classes where step = 60");
    assert_string_equal(confusion, "9");
    assert_string_equal(classes, "a3,b3,c3");
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* Overwrites the last numbers of the weights by NaN. */
static void ruin(const char *folder)
{
    unsigned char nan[64];
    memset(nan, 0xff, sizeof nan);
    char *path = kept_format("%s/model.safetensors", folder);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -(long)sizeof nan, SEEK_END), 0);
    assert_int_equal(fwrite(nan, sizeof nan, 1, file), 1);
    fclose(file);
}

STAGE_CASE(adapters_and_an_export_classify_as_well, struct stage *s)
{
    char path[700], from[700], export[700], data[720];
    write_texts(s, path, 90);
    process_run(0, "train", s->config, "--name=base", "--progress=none", NULL);
    char *id = stage_query(s, "select id from runs");
    snprintf(from, sizeof from, "%s/runs/%s/checkpoints/step-40", s->home, id);
    char *lora = kept_format("--model.from=%s", from);
    snprintf(data, sizeof data, "--data.train=%s", path);
    train(s, "whole", path, lora);
    snprintf(export, sizeof export, "%s/exported", s->folder);
    process_run(0, "model", "export", "whole", "-o", export, NULL);
    char *of_run = process_output("classify", "whole", "cloud of it", NULL),
         *of_export = process_output("classify", export, "cloud of it", NULL);
    assert_string_equal(of_run, of_export);
    char *next = process_output("model", "import", export, "--name=kept", NULL);
    assert_non_null(strstr(next, " classify kept TEXT"));
    assert_null(strstr(next, "generate")); /* it writes no text */
    char *classifier = kept_format("--model.from=%s", export);
    process_expect_sentence(process_run(2, "train", s->config, classifier, NULL),
                            kept_format("model.from = %s: is a classifier, which cannot predict", export));
    ruin(export);
    struct process *p = process_run(1, "classify", export, "cloud of it", "brick of it", NULL);
    process_expect_sentence(p, "the model computes no finite number for a text");
    assert_string_equal(process_stdout(p), "");
    process_run(0, "train", s->config, "--name=tuned", lora, "--data.format=labels", "--lora.rank=4",
                "--lora.targets=all", "--train.total_steps=60", "--progress=none",
                "--train.learning_rate=0.02", "--train.seq_len=48", data, NULL);
    json_t *list = classify_file("tuned", path);
    int right = 0;
    for (size_t i = 0; i < 90; i++) right += *stage_text(json_array_get(list, i), "label") == "abc"[i % 3];
    if (right <= 60) fail_msg("adapters: %d of 90 right", right);
    process_expect_sentence(process_run(2, "classify", "base", "cloud", NULL), "is a language model");
    /* as peft saves them: without a config.json, which has the labels */
    snprintf(export, sizeof export, "%s/unnamed", s->folder);
    process_run(0, "model", "export", "tuned", "-o", export, NULL);
    snprintf(data, sizeof data, "%s/config.json", export);
    assert_int_equal(unlink(data), 0);
    process_expect_sentence(process_run(2, "classify", from, "--adapter", export, "cloud", NULL),
                            "has no config.json of a classifier");
    /* merged, they are a classifier of their own */
    snprintf(export, sizeof export, "%s/merged", s->folder);
    process_run(0, "model", "merge", from, "tuned", export, "--progress=none", NULL);
    json_t *apart = evaluate("tuned", path), *merged = evaluate(export, path);
    expect_close(stage_real(merged, "loss"), stage_real(apart, "loss"), 1e-4);
    assert_true(stage_real(merged, "accuracy") == stage_real(apart, "accuracy"));
}

static const char *pooling_in(const char *folder)
{
    char path[760];
    snprintf(path, sizeof path, "%s/config.json", folder);
    json_t *config = stage_json(stage_read(path));
    return stage_text(config, "pooling");
}

static const char *pooling_of(const struct stage *s, const char *name)
{
    const char *folder = stage_path(s, name);
    process_run(0, "model", "export", name, "-o", folder, NULL);
    return pooling_in(folder);
}

STAGE_CASE(training_that_begins_with_a_classifier_pools_as_that_does, struct stage *s)
{
    char path[700];
    write_texts(s, path, 90);
    char *data = kept_format("--data.train=%s", path);
    static const char *const more[][3] = {{"whole", "further", "--train.epochs=1"},
                                          {"tuned", "tuned-further", "--train.epochs=1"},
                                          {"whole", "otherwise", "--classifier.pooling=last"}};
    process_run(0, "train", s->config, "--name=base", "--progress=none", NULL);
    train(s, "whole", path, "--classifier.pooling=mean");
    process_run(0, "train", s->config, "--name=tuned", "--model.from=base", "--data.format=labels",
                "--lora.rank=4", "--classifier.pooling=mean", "--train.epochs=1", "--progress=none",
                "--train.seq_len=48", data, NULL);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        process_run(0, "train", s->config, kept_format("--model.from=%s", more[i][0]),
                    kept_format("--name=%s", more[i][1]), "--data.format=labels", "--train.seq_len=48",
                    "--progress=none", data, more[i][2], NULL);
        assert_string_equal(pooling_of(s, more[i][1]), i < 2 ? "mean" : "last");
    }
}

STAGE_CASE(a_classifier_that_is_trained_further_keeps_classes_that_the_data_lack, struct stage *s)
{
    static const char texts[] = "text,label\ncloud of it,c\napple of it,a\ncloud,c\napple,a\n";
    char path[700];
    write_texts(s, path, 90);
    train(s, "whole", path, NULL);
    stage_write(path, texts, sizeof texts - 1);
    process_run(0, "train", s->config, "--name=further", "--model.from=whole", "--data.format=labels",
                "--train.total_steps=1", "--train.seq_len=48", "--progress=none",
                kept_format("--data.train=%s", path), NULL);
    process_run(0, "model", "export", "further", "-o", stage_path(s, "further"), NULL);
    json_t *config = stage_json(stage_read(kept_format("%s/config.json", stage_path(s, "further")))),
           *labels = json_object_get(config, "id2label");
    assert_int_equal(json_object_size(labels), 3);
    assert_string_equal(stage_text(labels, "0"), "a");
    assert_string_equal(stage_text(labels, "1"), "b");
    assert_string_equal(stage_text(labels, "2"), "c");
}

STAGE_CASE(adapters_of_classifiers_and_of_language_models_are_told_apart, struct stage *s)
{
    char path[700];
    write_texts(s, path, 90);
    char *labels = kept_format("--data.train=%s", path);
    process_run(0, "train", s->config, "--name=base", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name=tuned", "--model.from=base", "--data.format=labels",
                "--lora.rank=4", "--train.epochs=1", "--progress=none", "--train.seq_len=48", labels, NULL);
    process_expect_sentence(process_run(2, "train", s->config, "--model.from=tuned", NULL),
                            "holds adapters of a classifier, which cannot predict tokens");
    process_run(0, "train", s->config, "--name=words", "--model.from=base", "--lora.rank=4",
                "--progress=none", NULL);
    process_expect_sentence(process_run(2, "train", s->config, "--model.from=words", "--data.format=labels",
                                        "--train.seq_len=48", labels, NULL),
                            "holds adapters of a language model, and a classifier needs a head");
}

STAGE_CASE(adapters_merged_into_a_classifier_keep_their_pooling, struct stage *s)
{
    char path[700];
    const char *merged = stage_path(s, "merged");
    write_texts(s, path, 90);
    train(s, "whole", path, "--classifier.pooling=mean");
    process_run(0, "train", s->config, "--name=tuned", "--model.from=whole", "--data.format=labels",
                "--lora.rank=4", "--classifier.pooling=last", "--train.epochs=1", "--progress=none",
                "--train.seq_len=48", kept_format("--data.train=%s", path), NULL);
    process_run(0, "model", "merge", "whole", "tuned", merged, "--progress=none", NULL);
    assert_string_equal(pooling_in(merged), "last");
    expect_close(stage_real(evaluate(merged, path), "loss"), stage_real(evaluate("tuned", path), "loss"),
                 1e-4);
}

static double share_of(const json_t *list, size_t i, const char *label)
{
    return json_real_value(json_object_get(json_object_get(json_array_get(list, i), "probabilities"), label));
}

static void set_pad_token(const char *config, json_t *id)
{
    json_t *json = json_load_file(config, 0, NULL);
    json_object_set_new(json, "pad_token_id", id);
    assert_int_equal(json_dump_file(json, config, 0), 0);
    json_decref(json);
}

/* As in transformers: the token may be one that the tokenizer puts behind every text. */
STAGE_CASE(pad_tokens_at_the_end_of_a_text_are_not_what_it_is_judged_by, struct stage *s)
{
    char path[700];
    const char *texts = "text,label\napple of it,a\napple of it!!,b\n!!,a\n";
    write_texts(s, path, 90);
    train(s, "abc", path, NULL);
    char *folder = stage_path(s, "padded"), *config = kept_format("%s/config.json", folder);
    stage_write(path, texts, strlen(texts));
    process_run(0, "model", "export", "abc", "-o", folder, NULL);
    json_t *before = classify_file(folder, path);
    set_pad_token(config, json_integer('!'));
    json_t *after = classify_file(folder, path), *scores = evaluate(folder, path);
    assert_true(share_of(before, 0, "a") != share_of(before, 1, "a"));
    expect_close(share_of(after, 1, "a"), share_of(before, 0, "a"), 1e-4);
    expect_close(share_of(after, 2, "a"), share_of(before, 2, "a"), 1e-4); /* nothing else is in it */
    double a = share_of(before, 0, "a"), b = share_of(before, 0, "b"), alone = share_of(before, 2, "a");
    double wanted = -(log(a) + log(b) + log(alone)) / 3;
    expect_close(stage_real(scores, "loss"), wanted, 1e-4);
}

STAGE_CASE(adapters_merged_into_a_classifier_keep_their_pad_token, struct stage *s)
{
    char path[700];
    char *folder = stage_path(s, "unpadded"), *merged = stage_path(s, "merged");
    write_texts(s, path, 90);
    train(s, "whole", path, NULL);
    process_run(0, "model", "export", "whole", "-o", folder, NULL);
    set_pad_token(kept_format("%s/config.json", folder), json_null());
    process_run(0, "train", s->config, "--name=tuned", kept_format("--model.from=%s", folder),
                "--data.format=labels", "--lora.rank=4", "--train.epochs=1", "--progress=none",
                "--train.seq_len=48", kept_format("--data.train=%s", path), NULL);
    process_run(0, "model", "merge", folder, "tuned", merged, "--progress=none", NULL);
    json_t *config = stage_json(stage_read(kept_format("%s/config.json", merged)));
    assert_int_equal(stage_int(config, "pad_token_id"), 255); /* which no text has */
}

STAGE_CASE(the_first_batches_of_an_evaluation_are_a_fair_sample, struct stage *s)
{
    char path[700], data[720], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size); /* sorted by label and by length; none shares a row */
    fprintf(out, "text,label\n");
    for (int i = 0; i < 120; i++) fprintf(out, "%0*d,%s\n", i < 60 ? 40 : 30, i, i < 60 ? "first" : "second");
    fclose(out);
    snprintf(path, sizeof path, "%s/sorted.csv", s->folder);
    snprintf(data, sizeof data, "--data.train=%s", path);
    stage_write(path, text, size);
    kept(text, free);
    process_run(0, "train", s->config, "--name=sampled", data, "--data.format=labels", "--progress=none",
                "--train.total_steps=1", "--train.seq_len=48", "--train.batch_size=4", "--eval.batches=3",
                "--eval.every=1", "--eval.early=false", "--data.val_fraction=0.5", NULL);
    char *classes = stage_query(s, "select count(*) from classes where support > 2"),
         *all = stage_query(s, "select sum(support) from classes");
    assert_string_equal(classes, "2");
    assert_string_equal(all, "12");
}

STAGE_CASE(the_line_of_an_evaluation_names_the_measure_that_is_followed, struct stage *s)
{
    char path[700];
    write_texts(s, path, 30);
    char *data = kept_format("--data.train=%s", path);
    struct process *p = process_run(0, "train", s->config, "--name=followed", data, "--data.format=labels",
                                    "--progress=plain", "--train.total_steps=2", "--train.seq_len=48",
                                    "--eval.metric=accuracy", NULL);
    assert_non_null(strstr(process_stderr(p), " (best accuracy so far), accuracy "));
    char *export = stage_path(s, "exported");
    char *from = kept_format("--model.from=%s", export);
    process_run(0, "model", "export", "followed", "-o", export, NULL);
    ruin(export);
    p = process_run(0, "train", s->config, "--name=ruined", data, "--data.format=labels", "--progress=plain",
                    "--train.total_steps=2", "--train.seq_len=48", from, NULL);
    assert_non_null(strstr(process_stderr(p), "val loss nan (no best yet), accuracy nan"));
}

STAGE_CASE(a_label_that_is_called_like_a_column_gets_one_of_another_name, struct stage *s)
{
    char path[700];
    write_texts(s, path, 90);
    char *sed = kept_format("sed -i 's/,a$/,text/; s/,b$/,probability of text/; s/,c$/,line/' %s", path);
    assert_int_equal(system(sed), 0);
    train(s, "columns", path, "--train.total_steps=5");
    char *table =
        process_output("classify", "columns", "--csv", path, "--progress=none", "--probabilities", NULL);
    static const char head[] = "line,text,label,probability,probability of line,probability of text,"
                               "probability of probability of text\r\n";
    assert_memory_equal(table, head, sizeof head - 1);
    const json_t *first = json_array_get(classify_file("columns", path), 0);
    assert_non_null(json_object_get(json_object_get(first, "probabilities"), "text"));
}

STAGE_CASE(a_metric_of_a_label_that_no_evaluation_sees_gets_a_warning, struct stage *s)
{
    static const char warning[] = "eval.metric = f1.c: no text that an evaluation reads has this label";
    char path[700];
    write_texts(s, path, 90);
    char *val = stage_path(s, "val.csv");
    char *grep = kept_format("grep -v ',c$' %s > %s", path, val);
    assert_int_equal(system(grep), 0);
    char *data = kept_format("--data.train=%s", path), *without = kept_format("--data.val=%s", val);
    const char *const
        unseen[] = {"train", s->config, data, without, "--data.format=labels", "--eval.metric=f1.c"},
        *const seen[] = {"train", s->config, data, without, "--data.format=labels", "--eval.metric=f1.b"};
    for (int i = 0; i < 2; i++) {
        const char *const *words = i ? seen : unseen;
        char *plan =
            process_output(words[0], words[1], words[2], words[3], words[4], words[5], "--dry-run", NULL);
        assert_int_equal(strstr(plan, warning) != NULL, !i);
        process_run(0, words[0], words[1], words[2], words[3], words[4], words[5], "--train.total_steps=1",
                    "--progress=none", NULL);
    }
    char *told =
        kept_format("select count(*) from events where level = 'warning' and text like '%s%%'", warning);
    stage_expect(s, told, "1");
}

/* The store, which finds the best evaluation by the measure's name, has it as a plain one. */
STAGE_CASE(the_best_is_found_by_a_label_that_is_no_plain_name, struct stage *s)
{
    char path[700];
    write_texts(s, path, 90);
    char *sed = kept_format("sed -i 's/,a$/,an apple/' %s", path);
    assert_int_equal(system(sed), 0);
    train(s, "spaced", path, "--eval.metric=f1.an apple");
    stage_expect(s, "select best_metric || ' ' || (best_value > 0) from runs", "f1.an_apple 1");
    stage_expect(s, "select count(*) > 0 from measures where name = 'f1.an_apple'", "1");
    process_run(0, "resume", "spaced", "--train.total_steps=62", "--eval.metric=f1.an apple",
                "--progress=none", NULL);
    process_run(0, "evaluate", "spaced", "--best", "--data", path, NULL);
}

/* The last evaluation of a run and `anneal evaluate` of the same texts measure the same. */
STAGE_CASE(an_evaluation_measures_what_training_does, struct stage *s)
{
    char path[700];
    char *text = write_texts(s, path, 45);
    char *held = stage_path(s, "held.csv");
    stage_write(held, text, strlen(text));
    write_texts(s, path, 90);
    char *val = kept_format("--data.val=%s", held);
    train(s, "abc", path, val);
    json_t *scores = evaluate("abc", held);
    const json_t *classes = json_object_get(scores, "classes");
    char *stored = stage_query(s, "select val_loss from evals where step = 60");
    expect_close(stage_real(scores, "loss"), strtod(stored, NULL), 1e-5);
    static const char *const names[] = {"accuracy", "macro_f1", "macro_precision", "macro_recall"};
    for (int i = 0; i < 4; i++) {
        char *query = kept_format("select value from measures where step = 60 and name = '%s'", names[i]);
        char *value = stage_query(s, query);
        expect_close(stage_real(scores, names[i]), strtod(value, NULL), 1e-9);
    }
    assert_int_equal(stage_int(scores, "texts"), 45);
    assert_int_equal(json_array_size(classes), 3);
    assert_int_equal(stage_int(json_array_get(classes, 0), "support"), 15);
    char *page = process_output("evaluate", "abc", "--data", held, "--progress=none", "--seq-len=8", NULL);
    assert_non_null(strstr(page, "longer than 8 tokens are cut"));
    assert_non_null(strstr(page, "\nConfusion: texts of a class (rows)"));
}

STAGE_CASE(what_is_wrong_gets_one_sentence, struct stage *s)
{
    char path[700];
    write_texts(s, path, 30);
    train(s, "abc", path, "--train.total_steps=2");
    process_expect_sentence(process_run(2, "classify", "abc", NULL), "needs texts, or --csv FILE");
    process_expect_sentence(process_run(2, "classify", "abc", "x", "--csv", path, NULL), "not both");
    process_expect_sentence(process_run(2, "classify", "abc", "--csv", path, "--column=body", NULL),
                            "\"id\", \"text\"");
    process_expect_sentence(process_run(2, "classify", "abc", "x", "--seq-len=99999", NULL),
                            "--seq-len 99999: the model takes at most ");
    process_expect_sentence(process_run(2, "classify", "abc", "", NULL), "argument is empty");
    process_expect_sentence(process_run(2, "classify", "abc", "x", "", NULL), "argument is empty");
    process_expect_sentence(process_run(2, "generate", "abc", NULL), "is a classifier");
    process_expect_sentence(process_run(2, "evaluate", "abc", "--data", path, "--conversations", NULL),
                            "is a classifier");
    process_expect_sentence(process_run(2, "evaluate", "abc", "--data", path, "--padding=0", NULL),
                            "is a classifier");
    process_expect_sentence(process_run(2, "evaluate", "abc", "--tasks", path, NULL), "is a classifier");
    process_expect_sentence(process_run(2, "evaluate", "abc", "--data", path, "--label-column=kind", NULL),
                            "\"id\", \"text\", \"label\"");
    process_expect_sentence(process_run(2, "evaluate", "abc", "--data", path, "--label-column=id", NULL),
                            "the data have the label \"0\", which the classifier");
    process_expect_sentence(process_run(2, "evaluate", "abc", "--data", s->corpus, NULL),
                            "(a classifier takes labelled data: CSV or JSONL with a column of texts");
    char *more = kept_format("%s98,one more,new\n99,another,new\n", stage_read(path));
    stage_write(path, more, strlen(more));
    process_expect_sentence(process_run(2, "resume", "abc", "--train.total_steps=4", NULL),
                            "step-2: was saved with 3 labels, this model has 4 (a classifier keeps");
}

STAGE_CASE(empty_texts_of_a_file_are_left_out_and_counted, struct stage *s)
{
    char path[700];
    write_texts(s, path, 30);
    train(s, "abc", path, "--train.total_steps=2");
    static const char some[] = "text\nbrick of it\n\"\"\n\"\"\ncloud of it\n";
    stage_write(path, some, sizeof some - 1);
    struct process *p = process_run(0, "classify", "abc", "--csv", path, "--progress=none", NULL);
    assert_non_null(strstr(process_stderr(p), "2 empty texts are left out, the first in line 3"));
    assert_non_null(strstr(process_stdout(p), "\r\n2,brick of it,"));
    assert_non_null(strstr(process_stdout(p), "\r\n5,cloud of it,"));
    assert_null(strstr(process_stdout(p), "\r\n3,"));
}

STAGE_CASE(an_interrupt_keeps_what_is_written, struct stage *s)
{
    char path[700];
    write_texts(s, path, 40);
    train(s, "abc", path, "--train.total_steps=2");
    write_texts(s, path, 400000);
    struct process *p = process_start("classify", "abc", "--csv", path, "--json", "--progress=none", NULL);
    process_wait_lines(p, 600);
    process_signal(p, SIGINT);
    assert_int_equal(process_wait_exit(p), 130);
    json_t *list = stage_json(process_stdout(p)); /* a whole document */
    size_t count = json_array_size(list);
    assert_true(count >= 512 && count < 400000);
}

TEST_MAIN()
