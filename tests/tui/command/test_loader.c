/* Training from several files, as a user does: llm.c's shards by a pattern, validation data of its own,
 * batches cut ahead; the same losses however it is done, and the same after a resume from anywhere. */
#include <fcntl.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* The stage's text as three 16-bit shards of unequal length, shards/a.bin to c.bin: 4096, 100 and the rest.
 */
static void write_shards(const struct stage *s)
{
    char path[700], *text = stage_read(s->corpus);
    struct err err = {0};
    size_t n = strlen(text), at = 0;
    const size_t lengths[] = {4096, 100, n - 4196};
    snprintf(path, sizeof path, "%s/shards", s->folder);
    if (file_make_folders(path, &err)) fail_msg("%s", err.text);
    for (int k = 0; k < 3; k++) {
        unsigned char *bytes = calloc(1024 + 2 * lengths[k], 1);
        assert_non_null(bytes);
        memcpy(bytes, (int32_t[]){20240520, 1, (int32_t)lengths[k]}, 12);
        for (size_t i = 0; i < lengths[k]; i++) bytes[1024 + 2 * i] = (unsigned char)text[at++];
        snprintf(path, sizeof path, "%s/shards/%c.bin", s->folder, 'a' + k);
        stage_write(path, bytes, 1024 + 2 * lengths[k]);
        free(bytes);
    }
}

/* Trains in the stage's folder on the pattern shards/?.bin. */
static void train_on_shards(const struct stage *s, const char *name, const char *word, const char *more)
{
    process_expect(0, process_open(&(struct process_options){
                          .folder = s->folder,
                          .arguments = (const char *const[]){"train", "tiny.ini", "--data.train=shards/?.bin",
                                                             "--name", name, "--train.schedule=constant",
                                                             "--progress=none", word, more, NULL}}));
}

static void expect_same_history(const char *one, const char *other)
{
    assert_int_equal(history_expect_same(one, other), 40);
}

STAGE_CASE(batches_cut_ahead_change_no_bit, struct stage *s)
{
    write_shards(s);
    train_on_shards(s, "ahead", "--train.async=true", NULL);
    train_on_shards(s, "instep", "--train.async=false", NULL);
    expect_same_history("ahead", "instep");
}

STAGE_CASE(a_run_on_shards_resumes_bit_for_bit_from_another_folder, struct stage *s)
{
    char *epoch;
    write_shards(s);
    train_on_shards(s, "whole", "--data.shuffle=random", NULL);
    train_on_shards(s, "parts", "--data.shuffle=random", "--train.total_steps=20");
    process_run(0, "resume", "parts", "--train.total_steps=40", "--progress=none", NULL);
    expect_same_history("whole", "parts");

    char *path = stage_path(s, "shards/b.bin");
    size_t n = 1024 + 200;
    struct file_map map;
    struct err err = {0};
    if (file_map_open(path, &map, &err)) fail_msg("%s", err.text);
    assert_int_equal(map.size, n);
    unsigned char bytes[1024 + 200];
    memcpy(bytes, map.data, n);
    file_map_close(&map);
    bytes[n - 2] ^= 1;
    stage_write(path, bytes, n);
    struct process *p = process_run(2, "resume", "parts", "--train.total_steps=60", NULL);
    process_expect_sentence(p, "the corpus has changed: the same number of tokens, but different ones");

    train_on_shards(s, "tail", "--data.val_split=tail", NULL);
    epoch = stage_query(s, "select printf('%.9f', max(epoch)) from steps s, runs r where r.id = s.run_id and "
                           "r.name = 'tail'");
    /* 160 sequences taken, of as many as the files hold below the tenth that is held out */
    char *text = stage_read(s->corpus), wanted[32];
    size_t tokens = strlen(text), kept = tokens - (size_t)((double)tokens * 0.1);
    size_t sequences = 4095 / 32 + 99 / 32 + (kept - 4196 - 1) / 32;
    snprintf(wanted, sizeof wanted, "%.9f", 160.0 / (double)sequences);
    assert_string_equal(epoch, wanted);
}

STAGE_CASE(validation_data_of_its_own_is_validated_on, struct stage *s)
{
    write_shards(s);
    char *path = stage_path(s, "val.txt");
    char text[400];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('A' + 7 * i % 26); /* training has only small letters */
    stage_write(path, text, sizeof text);
    char *word = kept_format("--data.val=%s", path);
    train_on_shards(s, "apart", "--data.val=val.txt", "--data.val_fraction=0");
    train_on_shards(s, "tail", "--data.val_split=tail", NULL);
    char *apart = stage_query(
        s, "select min(val_loss) from evals e, runs r where r.id = e.run_id and r.name = 'apart'");
    char *tail =
        stage_query(s, "select max(val_loss) from evals e, runs r where r.id = e.run_id and r.name = 'tail'");
    if (!(atof(apart) > atof(tail)))
        fail_msg("validation loss %s on capitals, %s on the held-out tail", apart, tail);
    struct process *p = process_run(2, "resume", "apart", "--train.total_steps=60", "--data.val=", NULL);
    process_expect_sentence(p, "the corpus has changed");
    process_run(0, "resume", "apart", "--train.total_steps=41", "--progress=none", NULL);
    text[200]++;
    stage_write(path, text, sizeof text);
    p = process_run(2, "resume", "apart", "--train.total_steps=60", NULL);
    process_expect_sentence(p, "the corpus has changed");
    p = process_run(1, "train", s->config, "--data.val=/nonexistent.tok", NULL);
    process_expect_sentence(p, "/nonexistent.tok: cannot open");
    /* early stopping needs something to be validated on, whichever */
    process_run(0, "train", s->config, "--progress=none", word, "--data.val_fraction=0",
                "--eval.early_stopping_patience=3", NULL);
}

STAGE_CASE(an_id_beyond_the_vocabulary_names_its_shard, struct stage *s)
{
    write_shards(s);
    unsigned char bytes[1024 + 2 * 200] = {0};
    memcpy(bytes, (int32_t[]){20240520, 1, 200}, 12);
    bytes[1024 + 2 * 7 + 1] = 2; /* id 512 */
    char *path = stage_path(s, "shards/b.bin");
    stage_write(path, bytes, sizeof bytes);
    char *word = kept_format("--data.train=%s/shards", s->folder);
    struct process *p = process_run(2, "train", s->config, word, "--data.tokenizer=bpe:300", NULL);
    process_expect_sentence(
        p, "shards/b.bin: token 7 is 512, but model.vocab_size = 256 (set it to at least 513)");
    p = process_run(1, "train", s->config, word, NULL);
    process_expect_sentence(p, "shards/b.bin: token 7 has the id 512, but the vocabulary has 256");
    assert_int_equal(stage_count_runs(), 0);
}

static void change_ids(const struct stage *s, uint16_t id)
{
    char *path = stage_path(s, "shards/c.bin");
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (off_t at = 1024; at < 1024 + 2 * 4000; at += 2)
        assert_int_equal(pwrite(fd, &id, sizeof id, at), sizeof id);
    close(fd);
}

static void expect_no_strange_token(const struct stage *s, const char *name, const char *word,
                                    const char *key)
{
    char *data = kept_format("--data.train=%s/shards", s->folder);
    write_shards(s);
    struct process *p = process_start("train", s->config, data, "--name", name, "--train.total_steps=1000000",
                                      "--checkpoint.every=1", "--progress=json", word, NULL);
    process_wait_lines(p, 20);
    change_ids(s, 60000);
    process_expect(1, p);
    char *sentence = kept_format("%s: has the token 60000 now, which the model does not know", key);
    if (!strstr(process_stderr(p), sentence)) fail_msg("%s", process_stderr(p));
    stage_expect(s, "select count(*) from steps where loss is null or nan", "0");
    process_close(p);
    write_shards(s);
    char *total =
        kept_format("--train.total_steps=%d", atoi(stage_query(s, "select max(steps) from runs")) + 5);
    process_run(0, "resume", name, total, "--progress=none", NULL);
}

STAGE_CASE(a_file_of_tokens_that_is_changed_while_it_is_trained_on_ends_the_run, struct stage *s)
{
    expect_no_strange_token(s, "ahead", "--train.async=true", "data.train");
    expect_no_strange_token(s, "instep", "--train.async=false", "data.train");
}

STAGE_CASE(a_file_of_tokens_that_is_cut_while_it_is_trained_on_is_named, struct stage *s)
{
    char *data = kept_format("--data.train=%s/shards", s->folder), *path = stage_path(s, "shards/c.bin");
    write_shards(s);
    struct process *p = process_start("train", s->config, data, "--name=cut", "--train.total_steps=1000000",
                                      "--checkpoint.every=1", "--progress=json", NULL);
    process_wait_lines(p, 20);
    assert_int_equal(truncate(path, 1024), 0);
    process_expect(1, p);
    process_expect_sentence(p, "shards/c.bin: was cut or cannot be read any more while it was in use");
    assert_string_equal(stage_status(), "crashed");
    write_shards(s);
    char *total =
        kept_format("--train.total_steps=%d", atoi(stage_query(s, "select max(steps) from runs")) + 5);
    process_run(0, "resume", "cut", total, "--progress=none", NULL);
}

TEST_MAIN()
