/* Classification: a text packed into a row with others is computed as if it were alone, the loss is that of
 * the pooled rows by the weights of their classes, its gradient is right for both kinds of pooling; and how
 * the keys of the task change a training run. */
#include <math.h>

#include "core/generate/classifier.h"
#include "datasets/batch.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

enum { LABELS = 3, T = 24, TEXTS = 5 };

static const int lengths[TEXTS] = {7, 1, 11, 4, 9}; /* together in two rows */
static const int classes[TEXTS] = {0, 2, 1, 2, 0};
static const float weights[LABELS] = {0.5f, 2, 1.25f};

static void open_rig(struct rig *rig, enum pooling pooling, int B)
{
    struct model_config config = rig_config();
    config.num_labels = LABELS;
    config.pooling = pooling;
    rig_open_input(rig, NULL, &config, (struct plan_input){.B = B, .T = T, .moments = 2, .packed = true}, "");
    network_weigh_classes(&rig->network, weights);
}

/* A batch with the texts from `from` to `to`, in rows of T. */
struct rows {
    int32_t inputs[2 * T], labels[2 * T], positions[2 * T];
};

static struct batch_view fill(struct rows *r, int from, int to, int B)
{
    int row = 0, at = 0;
    memset(r, 0, sizeof *r);
    for (int n = 0; n < B * T; n++) r->labels[n] = LABEL_IGNORED;
    for (int i = from; i < to; i++) {
        if (at + lengths[i] > T) row++, at = 0;
        for (int t = 0; t < lengths[i]; t++, at++) {
            r->inputs[row * T + at] = (i * 5 + t * 3) % 13;
            r->positions[row * T + at] = t;
        }
        r->labels[row * T + at - 1] = classes[i];
    }
    for (int n = 0; n < B * T; n++) /* the rest of a row is a sequence of its own */
        if (n % T && !r->positions[n] && !r->inputs[n] && r->labels[n] < 0 && r->labels[n - 1] < 0)
            r->positions[n] = r->positions[n - 1] + 1;
    return (struct batch_view){r->inputs, r->labels, r->positions, B, T};
}

/* Adds the gradients of the texts, and returns the sum of their losses. */
static double train(struct rig *rig, int from, int to, int B)
{
    struct rows rows;
    struct step_result result;
    network_train(&rig->network, fill(&rows, from, to, B), 0, (struct step_control){.loss_scale = 1});
    network_result(&rig->network, &result);
    return result.loss_sum;
}

TEST_CASE(packed_texts_have_the_loss_and_gradient_of_texts_alone)
{
    for (int pooling = 0; pooling < POOLINGS; pooling++) {
        struct rig alone, packed;
        open_rig(&alone, (enum pooling)pooling, 1);
        open_rig(&packed, (enum pooling)pooling, 2);
        network_clear(&alone.network);
        network_clear(&packed.network);
        double sum = 0, before = 0, difference = 0, squares = 0;
        for (int i = 0; i < TEXTS; i++) { /* the step's result counts on */
            double now = train(&alone, i, i + 1, 1);
            assert_true(now > before);
            sum = before = now;
        }
        double together = train(&packed, 0, TEXTS, 2);
        if (fabs(together - sum) > 1e-5 * sum) fail_msg("loss %.9g packed, %.9g alone", together, sum);
        for (size_t i = 0; i < alone.model.elements; i++) {
            double a = alone.network.gradients[i], b = packed.network.gradients[i];
            difference += (a - b) * (a - b);
            squares += a * a;
        }
        assert_true(squares > 0);
        if (sqrt(difference / squares) > 1e-5)
            fail_msg("%s: gradients differ by %g", pooling_word((enum pooling)pooling),
                     sqrt(difference / squares));
        rig_close(&alone);
        rig_close(&packed);
    }
}

struct judged {
    double loss;
    int count;
    const int32_t *labels;
};

static void judge(void *context, int row, const float *logits)
{
    struct judged *j = context;
    double p[LABELS];
    classifier_probabilities(logits, LABELS, p);
    j->loss -= weights[j->labels[row]] * log(p[j->labels[row]]);
    j->count++;
}

static double loss_by_logits(struct rig *rig)
{
    struct rows rows;
    struct classifier classifier;
    struct err err;
    struct batch_view batch = fill(&rows, 0, TEXTS, 2);
    struct judged j = {.labels = batch.labels};
    if (classifier_open(&classifier, &rig->network, &err)) fail_msg("%s", err.text);
    classifier_run(&classifier, batch, judge, &j);
    classifier_close(&classifier);
    assert_int_equal(j.count, TEXTS);
    return j.loss;
}

TEST_CASE(the_loss_is_that_of_the_logits_by_the_weights_of_the_classes)
{
    for (int pooling = 0; pooling < POOLINGS; pooling++) {
        struct rig rig;
        struct rows rows;
        open_rig(&rig, (enum pooling)pooling, 2);
        network_clear(&rig.network);
        double trained = train(&rig, 0, TEXTS, 2), expected = loss_by_logits(&rig);
        struct batch_view batch = fill(&rows, 0, TEXTS, 2);
        network_forward(&rig.network, batch);
        double evaluated = network_loss(&rig.network, batch);
        assert_true(fabs(trained - expected) < 1e-5 * expected);
        assert_true(fabs(evaluated - expected) < 1e-5 * expected);
        rig_close(&rig);
    }
}

/* Of every parameter, the element with the largest gradient. */
TEST_CASE(the_gradient_agrees_with_central_differences)
{
    for (int pooling = 0; pooling < POOLINGS; pooling++) {
        struct rig rig;
        open_rig(&rig, (enum pooling)pooling, 2);
        network_clear(&rig.network);
        train(&rig, 0, TEXTS, 2);
        for (size_t i = 0; i < rig.model.param_count; i++) {
            const struct param *p = &rig.model.params[i];
            float *gradient = rig.network.gradients + p->offset, *weight = rig.network.weights + p->offset;
            size_t k = 0;
            for (size_t n = 1; n < p->count; n++)
                if (fabsf(gradient[n]) > fabsf(gradient[k])) k = n;
            const float before = weight[k], h = 1e-3f;
            weight[k] = before + h;
            double above = loss_by_logits(&rig);
            weight[k] = before - h;
            double below = loss_by_logits(&rig), numeric = (above - below) / (2 * (double)h);
            weight[k] = before;
            if (fabs(numeric - gradient[k]) > 0.02 * fabs(numeric) + 1e-3)
                fail_msg("%s, %s: gradient %g, by differences %g", pooling_word((enum pooling)pooling),
                         p->name, (double)gradient[k], numeric);
        }
        rig_close(&rig);
    }
}

/* ---- the keys ---- */

/* The two labels, the rare one last; in the classifier they are in the order of their bytes. */
static const char *const ham_and_spam[2] = {"ham", "spam"};
static const char *const *trial_labels = ham_and_spam;

/* 60 texts of two classes, one of them rare, in columns of other names. */
static char *write_texts(const char *name)
{
    char text[8192] = "body,kind\n", *path = rig_path(name);
    size_t used = strlen(text);
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s number %d%s,%s\n", i % 4 ? "plain" : "odd", i,
            i == 7 ? " which is much longer than the others are" : "", trial_labels[i % 4 == 0]);
    rig_write(path, text, used);
    return path;
}

struct trial {
    struct session session;
    char *data;
    enum status status;
    struct err err;
};

static const struct backend *trial_backend; /* NULL: the CPU */

/* Trains 20 steps with these words; a failure to open is no failure of the test. */
static void try_words(struct trial *t, const char *const *words)
{
    const char *all[24] = {"data.format=labels",   "data.text_column=body", "data.label_column=kind",
                           "train.seq_len=32",     "train.total_steps=20",  "train.learning_rate=0.01",
                           "train.warmup_steps=0", "eval.every=5",          "data.val_fraction=0.25"};
    size_t count = 9;
    char key[700];
    t->data = write_texts("texts.csv");
    snprintf(key, sizeof key, "data.train=%s", t->data);
    all[count++] = key;
    while (words && *words) all[count++] = *words++;
    session_open(&t->session, "classes", trial_backend, all, 4096);
    struct err err;
    if (!t->session.corpus.tokenizer && tokenizer_open_bytes(&t->session.corpus.tokenizer, &err))
        fail_msg("%s", err.text);
    t->status = session_try(&t->session, &t->err);
    if (!t->status) session_run(&t->session);
}

static void close_trial(struct trial *t)
{
    session_close(&t->session);
    free(t->data);
}
#define TRY(trial, ...) try_words(trial, (const char *const[]){__VA_ARGS__, NULL})

static double value_of(const struct trial *t, const char *name)
{
    for (int i = 0; i < t->session.story.measures.count; i++)
        if (strcmp(t->session.story.measures.of[i].name, name) == 0)
            return t->session.story.measures.of[i].value;
    fail_msg("no measure %s", name);
    return NAN;
}

TEST_CASE(training_learns_the_labels_and_measures_every_class)
{
    struct trial t;
    TRY(&t, "train.total_steps=60");
    if (t.status) fail_msg("%s", t.err.text);
    const struct story *story = &t.session.story;
    assert_true(story->steps[0].loss > 0.5 && story->steps[0].loss < 0.9); /* ln 2 */
    assert_true(story->steps[story->step_count - 1].loss < 0.2);
    assert_true(story->eval_count > 0 && story->evals[story->eval_count - 1].val_loss > 0);
    assert_true(story->evals[story->eval_count - 1].val_loss < 0.4);
    assert_true(value_of(&t, "accuracy") > 0.9);
    assert_true(value_of(&t, "macro_f1") > 0.85);
    close_trial(&t);
}

/* data.text_column, data.label_column, data.too_long, classifier.weights, eval.metric */
TEST_CASE(a_key_that_cannot_be_is_refused_with_what_can)
{
    static const struct {
        const char *word, *says[2];
    } cases[] = {
        {"data.text_column=text", {"\"text\"", "\"body\", \"kind\""}},
        {"data.label_column=class", {"\"class\"", "\"body\", \"kind\""}},
        {"data.label_column=body", {"", ""}},
        {"data.too_long=refuse", {"line 9", "train.seq_len = 32"}},
        {"classifier.weights=ham:1", {"\"spam\" has no weight", ""}},
        {"classifier.weights=ham\\, eggs:1,spam:2", {"no label \"ham, eggs\"", ""}},
        {"classifier.weights=ham, eggs:1,spam:2",
         {"\"ham\" must be a label", "a comma in a label is written \\,"}},
        {"classifier.weights=ham:1,spam:-2", {"positive weight", ""}},
        {"classifier.weights=ham:1,spam:0", {"positive weight", ""}},
        {"classifier.weights=ham:1,spam:2,eggs:3", {"no label \"eggs\"", ""}},
        {"eval.metric=f2", {"eval.metric = f2", "macro_f1"}},
        {"eval.metric=recall.eggs", {"no label \"eggs\"", "only ham, spam"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial t;
        TRY(&t, cases[i].word);
        bool allowed = !*cases[i].says[0]; /* each text its own label is odd, but possible */
        if (!t.status != allowed) fail_msg("%s: %s", cases[i].word, t.status ? t.err.text : "is accepted");
        for (int k = 0; k < 2 && t.status; k++)
            if (!strstr(t.err.text, cases[i].says[k]))
                fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].word, t.err.text, cases[i].says[k]);
        close_trial(&t);
    }
}

/* eval.metric */
TEST_CASE(a_metric_may_be_the_score_of_one_class)
{
    static const char *const words[] = {"eval.metric=f1.spam", "eval.metric=precision.spam",
                                        "eval.metric=recall.ham"};
    for (int i = 0; i < 3; i++) {
        struct trial t;
        TRY(&t, words[i], "train.total_steps=12");
        if (t.status) fail_msg("%s: %s", words[i], t.err.text);
        const struct story *story = &t.session.story;
        struct class_scores of = confusion_scores(&story->measures.confusion, i < 2); /* ham, spam */
        double expected = i == 0 ? of.f1 : i == 1 ? of.precision : of.recall;
        assert_true(value_of(&t, words[i] + strlen("eval.metric=")) == expected);
        assert_true(story->stoppings[story->stopping_count - 1].val_loss == expected);
        close_trial(&t);
    }
}

/* As it is written, or by its plain name if no other label has that; the measure has a plain name always. */
TEST_CASE(the_label_of_a_metric_is_found_by_its_own_name_first)
{
    static const struct {
        const char *labels[2], *word, *measure;
        int class; /* -1: refused */
        const char *says;
    } cases[] = {
        {{"a b", "a_b"}, "eval.metric=recall.a_b", "recall.a_b", 1, ""},
        {{"a b", "a_b"}, "eval.metric=recall.a b", "recall.a_b", 0, ""},
        {{"a+b", "c d"}, "eval.metric=f1.c_d", "f1.c_d", 1, ""},
        {{"坏", "好"}, "eval.metric=f1.好", "f1.___", 1, ""},
        {{"坏", "好"}, "eval.metric=f1.___", "", -1, "\"___\" may be the label \"坏\" or \"好\""},
        {{"a b", "a+b"}, "eval.metric=f1.a_b", "", -1, "\"a_b\" may be the label \"a b\" or \"a+b\""},
        {{"a b", "a+b"}, "eval.metric=f1.a-b", "", -1, "there is no label \"a-b\", only a b, a+b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial t;
        trial_labels = cases[i].labels;
        TRY(&t, cases[i].word, "train.total_steps=12");
        trial_labels = ham_and_spam;
        if (!t.status != (cases[i].class >= 0) || (t.status && !strstr(t.err.text, cases[i].says)))
            fail_msg("%s: \"%s\"", cases[i].word, t.status ? t.err.text : "is accepted");
        if (!t.status) {
            struct class_scores of = confusion_scores(&t.session.story.measures.confusion, cases[i].class);
            double expected = strstr(cases[i].word, "recall") ? of.recall : of.f1;
            assert_true(value_of(&t, cases[i].measure) == expected);
            assert_true(t.session.story.stoppings[t.session.story.stopping_count - 1].val_loss == expected);
        }
        close_trial(&t);
    }
}

/* classifier.weights */
TEST_CASE(a_weight_may_be_for_a_label_with_commas_and_colons)
{
    static const char *const plain[] = {"eggs", "spam"}, *const odd[] = {"\"eggs, 1:2\"", "\"spam,, ham\""};
    static const char *const words[] = {"classifier.weights=eggs:0.5,spam:3",
                                        "classifier.weights=eggs\\, 1:2:0.5, spam\\,\\, ham:3"};
    double losses[2];
    for (int i = 0; i < 2; i++) {
        struct trial t;
        trial_labels = i ? odd : plain;
        TRY(&t, words[i], "train.total_steps=3");
        trial_labels = ham_and_spam;
        if (t.status) fail_msg("%s: %s", words[i], t.err.text);
        losses[i] = t.session.story.steps[2].loss;
        close_trial(&t);
    }
    assert_true(losses[0] == losses[1]);
}

/* The FLOPs of attention per token that a profile has. */
static double attention_flops(const char *seq_len, double tokens)
{
    struct trial t;
    double sum = 0;
    TRY(&t, seq_len, "profile.every=1", "profile.warmup_steps=0", "train.total_steps=1", "eval.every=0");
    if (t.status) fail_msg("%s", t.err.text);
    for (int i = 0; i < t.session.story.profile_count; i++)
        if (strcmp(t.session.story.profile[i].op, "attention") == 0)
            sum += (double)t.session.story.profile[i].flops;
    close_trial(&t);
    return sum / tokens;
}

/* Forward and backward, 2 layers, 2 heads of width 8; B 2. Texts have about 16 tokens. */
TEST_CASE(attention_costs_what_the_texts_in_a_row_do)
{
    double of_short = attention_flops("train.seq_len=64", 2 * 64),
           of_long = attention_flops("train.seq_len=240", 2 * 240);
    double of_sixteen = 12.0 * 2 * 2 * 8 * (16 + 1) / 2;
    assert_true(of_short > 0.8 * of_sixteen && of_short < 2 * of_sixteen);
    assert_true(of_long > 0.8 * of_sixteen && of_long < 3 * of_sixteen); /* whole rows: 14 times */
}

/* classifier.pooling */
TEST_CASE(pooling_and_class_weights_change_the_loss)
{
    static const char *const words[] = {"classifier.pooling=last", "classifier.pooling=mean",
                                        "classifier.weights=balanced", "classifier.weights=ham:1,spam:7"};
    double losses[4];
    for (int i = 0; i < 4; i++) {
        struct trial t;
        TRY(&t, words[i]);
        if (t.status) fail_msg("%s: %s", words[i], t.err.text);
        losses[i] = t.session.story.steps[10].loss;
        for (int k = 0; k < i; k++)
            if (losses[k] == losses[i]) fail_msg("%s and %s have the same loss", words[k], words[i]);
        close_trial(&t);
    }
}

/* All texts are in one row, and validate, too. */
TEST_CASE(an_evaluation_has_the_loss_of_a_step_on_the_same_texts)
{
    static const char *const ways[] = {"none", "balanced", "ham:1,spam:3"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct trial t;
        char by[60], *data = write_texts("same.csv"), *key = NULL;
        snprintf(by, sizeof by, "classifier.weights=%s", ways[i]);
        assert_true(asprintf(&key, "data.val=%s", data) > 0);
        TRY(&t, by, key, "train.seq_len=2048", "model.max_seq_len=2048", "train.batch_size=1",
            "train.total_steps=1", "eval.early=true", "eval.batches=0", "classifier.pooling=mean");
        if (t.status) fail_msg("%s", t.err.text);
        double trained = t.session.story.steps[0].loss, evaluated = t.session.story.evals[0].val_loss;
        assert_int_equal(t.session.story.evals[0].step, 0);
        if (!(fabs(trained - evaluated) < 1e-6)) fail_msg("%s: %.12g and %.12g", ways[i], trained, evaluated);
        close_trial(&t);
        free(data);
        free(key);
    }
}

/* Rows of 64 tokens hold two or three of these texts, rows of 240 ten or more. */
TEST_CASE(an_evaluation_does_not_depend_on_how_texts_are_packed)
{
    static const char *const lengths_of_rows[] = {"train.seq_len=64", "train.seq_len=240"};
    double losses[2];
    for (int i = 0; i < 2; i++) {
        struct trial t;
        TRY(&t, lengths_of_rows[i], "eval.early=true", "eval.batches=0", "train.total_steps=1",
            "classifier.pooling=mean");
        if (t.status) fail_msg("%s", t.err.text);
        assert_int_equal(t.session.story.evals[0].step, 0);
        losses[i] = t.session.story.evals[0].val_loss;
        close_trial(&t);
    }
    if (!(fabs(losses[0] - losses[1]) < 2e-7)) fail_msg("%.12g and %.12g", losses[0], losses[1]);
}

TEST_CASE(the_best_is_the_highest_value_of_the_metric)
{
    struct trial t;
    TRY(&t, "eval.metric=macro_f1", "train.total_steps=40");
    if (t.status) fail_msg("%s", t.err.text);
    const struct story *story = &t.session.story;
    double best = -INFINITY;
    assert_true(story->stopping_count > 4);
    for (int i = 0; i < story->stopping_count; i++) {
        const struct stopping_record *r = &story->stoppings[i];
        assert_true(r->improved == (r->val_loss > best));
        if (r->improved) best = r->val_loss;
        assert_true(r->best_val_loss == best && best <= 1);
        assert_true(r->val_loss != story->evals[i].val_loss);
    }
    assert_true(best == value_of(&t, "macro_f1") ||
                story->stoppings[story->stopping_count - 1].best_step < 40);
    close_trial(&t);
}

/* The seventh update makes weights of NaN. */
static int updates;

static void ruinous_adamw(float *w, void *narrow, float *m, float *v, const float *g, size_t n,
                          const struct update_range *ranges, int range_count, struct optimizer_params params,
                          struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    cpu_backend()->adamw_step(w, narrow, m, v, g, n, ranges, range_count, params, control, clip, stream);
    if (++updates != 7) return;
    for (size_t i = 0; i < n; i++) w[i] = NAN;
}

/* Answers that nothing has computed are neither counted nor the best. */
TEST_CASE(numbers_that_are_not_finite_are_reported_and_measure_nothing)
{
    struct backend backend = *cpu_backend();
    struct trial t;
    backend.adamw_step = ruinous_adamw;
    trial_backend = &backend;
    updates = 0;
    TRY(&t, "eval.metric=accuracy", "checkpoint.every=5");
    trial_backend = NULL;
    if (t.status) fail_msg("%s", t.err.text);
    const struct story *story = &t.session.story;
    int reported = 0, skipped = 0;
    for (int i = 0; i < story->event_count; i++) reported += strstr(story->events[i], "not finite") != NULL;
    for (int i = 0; i < story->step_count; i++) skipped += story->steps[i].clip_scale == 0;
    assert_true(reported >= 1);
    assert_int_equal(skipped, 20 - 7);
    assert_true(isnan(story->evals[story->eval_count - 1].val_loss));
    assert_true(isnan(value_of(&t, "accuracy")));
    assert_int_equal(story->measures.confusion.classes, 0);
    for (int i = 0; i < story->stopping_count; i++)
        assert_true(!story->stoppings[i].improved || story->stoppings[i].step <= 5);
    for (int i = 0; i < story->checkpoint_count; i++) assert_true(story->checkpoints[i].step <= 5);
    close_trial(&t);
}

TEST_MAIN()
