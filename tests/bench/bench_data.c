/* How fast text becomes batches, on the King James Bible: reading it from the distribution's program,
 * learning a BPE of 2,048 tokens, encoding, decoding, opening the cache, cutting batches. The median of
 * several runs each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "datasets/batch.h"
#include "datasets/bpe_train.h"
#include "datasets/corpus.h"
#include "datasets/recipe.h"

enum { RUNS = 7, VOCAB = 2048, B = 16, T = 256, BATCHES = 2000 };

struct bench {
    char *text;
    size_t n;
    struct tokenizer *tokenizer;
    struct token_list list;
    struct corpus corpus;
    char cache[4096];
};

static void stop_on(enum status status, const struct err *err)
{
    if (!status) return;
    printf("bench_data: %s\n", err->text);
    exit(1);
}

static void run_recipe(struct bench *bench)
{
    struct err err;
    free(bench->text);
    bench->text = NULL;
    stop_on(recipes[0].make(NULL, &bench->text, &bench->n, &err), &err);
}

static void run_learn(struct bench *bench)
{
    struct err err;
    struct bpe_trainer *trainer = NULL;
    tokenizer_close(bench->tokenizer);
    bench->tokenizer = NULL;
    stop_on(bpe_trainer_new(VOCAB, 1, NULL, &trainer, &err), &err);
    struct text_piece text = {
        .path = "", .text = bench->text, .n = bench->n, .after = bench->n, .total = bench->n};
    stop_on(bpe_trainer_count(trainer, &text, &err), &err);
    stop_on(bpe_trainer_learn(trainer, false, &bench->tokenizer, &err), &err);
    bpe_trainer_free(trainer);
}

static void run_encode(struct bench *bench)
{
    struct err err;
    bench->list.count = 0;
    stop_on(tokenizer_encode(bench->tokenizer, bench->text, bench->n, &bench->list, &err), &err);
}

static void run_decode(struct bench *bench)
{
    size_t n = 0;
    char *text = tokenizer_decode(bench->tokenizer, bench->list.ids, bench->list.count, &n);
    struct err err;
    if (!text || n != bench->n || memcmp(text, bench->text, n) != 0)
        stop_on(err_set(&err, STATUS_FAILED, "decoding does not give the text back"), &err);
    free(text);
}

static void run_open(struct bench *bench)
{
    struct err err;
    corpus_close(&bench->corpus);
    stop_on(corpus_open("kjv", "bpe:2048", NULL, bench->cache, NULL, &bench->corpus, &err), &err);
}

static void run_batches(struct bench *bench)
{
    static int32_t inputs[B * T], targets[B * T];
    struct split train, validation;
    struct err err;
    stop_on(split_corpus(&bench->corpus, &(struct split_rule){VAL_TAIL, 0.1, T, 1337, SHUFFLE_RANDOM}, &train,
                         &validation, &err),
            &err);
    for (int i = 0; i < BATCHES; i++) split_batch(&train, (uint64_t)i * B, B, inputs, targets);
    split_release(&train);
    split_release(&validation);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct bench *bench, const char *name, void (*run)(struct bench *), double amount,
                    const char *unit)
{
    double seconds[RUNS];
    run(bench);
    for (int i = 0; i < RUNS; i++) {
        double start = clock_monotonic();
        run(bench);
        seconds[i] = clock_monotonic() - start;
    }
    qsort(seconds, RUNS, sizeof *seconds, by_value);
    printf("%-24s %9.2f ms", name, 1e3 * seconds[RUNS / 2]);
    if (amount > 0) printf("  %9.1f %s/s", amount / seconds[RUNS / 2], unit);
    putchar('\n');
}

int main(void)
{
    struct bench bench = {0};
    struct err err;
    char home[4000];
    stop_on(file_anneal_home(home, sizeof home, &err), &err);
    snprintf(bench.cache, sizeof bench.cache, "%s/data", home);
    run_recipe(&bench);
    double mib = (double)bench.n / (1 << 20);
    printf("the King James Bible, %.2f MiB, BPE of %d tokens, one thread\n", mib, VOCAB);
    measure(&bench, "recipe", run_recipe, mib, "MiB");
    measure(&bench, "learn bpe:2048", run_learn, mib, "MiB");
    measure(&bench, "encode", run_encode, mib, "MiB");
    measure(&bench, "decode", run_decode, mib, "MiB");
    measure(&bench, "open from the cache", run_open, mib, "MiB");
    measure(&bench, "2000 batches of 16x256", run_batches, BATCHES * (double)B * T / 1e6, "Mtok");
    free(bench.text);
    token_list_release(&bench.list);
    tokenizer_close(bench.tokenizer);
    corpus_close(&bench.corpus);
    return 0;
}
