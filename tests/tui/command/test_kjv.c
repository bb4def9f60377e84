/* The product's spine on real input: `anneal train` fetches the King James Bible, learns a tokenizer, trains,
 * and must have learned more than which token follows which: its loss on the held-out tail has to be MARGIN
 * nats below that of the best of several smoothed bigram models of the same tokens.
 *
 * The default run (preset shakespeare, 2,000 steps) takes most of an hour on two cores; this one is shrunk to
 * half a minute of one: two layers of width 128, and 512 tokens, of which a bigram sees less of the past.
 * Measured: bigram 3.616, network 3.022 nats. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>

#include "datasets/batch.h"
#include "datasets/token_file.h"
#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

enum { V = 512, T = 64 };
static const double val_fraction = 0.1;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED /* a third of the steps, at several times the price */
#define STEPS "250"
static const double margin = 0.05;
#else
#define STEPS "800"
static const double margin = 0.4;
#endif

/* The token file that training left in the home's cache: the only one. */
static void open_tokens(const struct stage *s, struct token_file *out)
{
    char data[700], path[1000] = "";
    struct err err = {0};
    snprintf(data, sizeof data, "%s/data", s->home);
    DIR *folder = opendir(data);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strlen(entry->d_name) == 32) {
            assert_string_equal(path, "");
            snprintf(path, sizeof path, "%s/%s/corpus.tok", data, entry->d_name);
        }
    closedir(folder);
    if (token_file_open(path, out, &err)) fail_msg("%s", err.text);
    assert_int_equal(out->vocab_size, V);
}

/* Counts over the training tokens. */
struct bigram {
    double pairs[V][V], firsts[V], tokens[V], total;
};

static void count_pairs(struct bigram *b, const struct split *train)
{
    for (uint64_t i = 0; i < train->token_count; i++) {
        b->tokens[train->runs[0].wide[i]]++;
        b->total++;
        if (i + 1 == train->token_count) continue;
        b->pairs[train->runs[0].wide[i]][train->runs[0].wide[i + 1]]++;
        b->firsts[train->runs[0].wide[i]]++;
    }
}

/* Mean nats a token over what the network is judged by. `strength` pseudo-counts are given to each first
 * token, spread evenly or, with `unigram`, as the tokens are in the training text. */
static double bigram_loss(const struct bigram *b, const struct split *validation, double strength,
                          bool unigram)
{
    double sum = 0;
    uint64_t count = validation->sequences * T;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t first = validation->runs[0].wide[i], second = validation->runs[0].wide[i + 1];
        double prior = unigram ? (b->tokens[second] + 1) / (b->total + V) : 1.0 / V;
        sum -= log((b->pairs[first][second] + strength * prior) / (b->firsts[first] + strength));
    }
    return sum / (double)count;
}

/* The best of many strengths, chosen on the validation tokens themselves: more than fair to it. */
static double best_bigram_loss(struct token_file *file)
{
    struct split train, validation;
    struct err err = {0};
    double best = INFINITY;
    struct bigram *b = calloc(1, sizeof *b);
    assert_non_null(b);
    struct corpus corpus = {.files = file, .file_count = 1, .tokens = file->count};
    if (split_corpus(&corpus, &(struct split_rule){VAL_TAIL, val_fraction, T, 0, SHUFFLE_NONE}, &train,
                     &validation, &err))
        fail_msg("%s", err.text);
    count_pairs(b, &train);
    for (double strength = 1; strength < 1000; strength *= 2)
        for (int unigram = 0; unigram < 2; unigram++)
            best = fmin(best, bigram_loss(b, &validation, strength, unigram));
    free(b);
    split_release(&train);
    split_release(&validation);
    return best;
}

STAGE_CASE(the_king_james_bible_is_learned_beyond_bigrams, struct stage *s)
{
    struct token_file file;
    struct process *probe = process_open(&(struct process_options){
        .program = "/bin/sh", .arguments = (const char *const[]){"-c", "command -v bible", NULL}});
    if (process_wait_exit(probe)) {
        print_message("SKIP: the program `bible` is not installed (Debian package bible-kjv)\n");
        skip();
    }
    struct process *p = process_start(
        "train", "--data.train=kjv", "--data.tokenizer=bpe:512", "--data.val_fraction=0.1",
        "--model.vocab_size=512", "--model.hidden_dim=128", "--model.num_layers=2", "--model.num_heads=4",
        "--model.intermediate_dim=352", "--train.seq_len=64", "--train.batch_size=16",
        "--train.learning_rate=3e-3", "--train.warmup_steps=30", "--train.weight_decay=0",
        "--train.total_steps=" STEPS, "--train.threads=1", "--eval.every=0", "--eval.batches=0",
        "--sample.every=0", "--checkpoint.every=0", "--progress=json", NULL);
    process_expect_within(600, 0, p);
    json_t *lines = stage_parse_lines(process_stdout(p));
    double network = stage_real(stage_find_line(lines, "eval", -1), "val_loss");
    open_tokens(s, &file);
    double bigram = best_bigram_loss(&file);
    token_file_close(&file);
    print_message("validation loss: network %.4f, best bigram %.4f nats a token\n", network, bigram);
    assert_true(bigram < 4); /* nats a token: the counting itself is sound */
    assert_true(network > 0);
    if (!(network < bigram - margin))
        fail_msg("the network's %.4f is not %.2f nats below the bigram's %.4f", network, margin, bigram);
    char *text =
        process_output("generate", "latest", "--prompt", "In the beginning", "--max-tokens=20", NULL);
    assert_memory_equal(text, "In the beginning", 16);
}

TEST_MAIN()
