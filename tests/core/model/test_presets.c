/* The presets: their sizes are those of the table, the numbers of parameters are the published ones; how
 * the vocabulary depends on the tokenizer; and the recipe. */
#include "core/model/config.h"
#include "core/model/model.h"
#include "tests/cmocka.h"

/* With a tokenizer that is not known, so that the preset's vocabulary counts. */
static void set_preset(struct config *config, const char *name)
{
    char word[64];
    snprintf(word, sizeof word, "model.preset=%s", name);
    config_init(config);
    assert_int_equal(config_read_word(config, word, NULL), STATUS_OK);
    assert_int_equal(config_read_word(config, "data.tokenizer=/nowhere/tokenizer.json", NULL), STATUS_OK);
    assert_int_equal(config_finish(config, NULL), STATUS_OK);
}

TEST_CASE(the_tiny_preset_has_the_published_number_of_parameters)
{
    struct config config;
    struct model model;
    set_preset(&config, "tiny");
    assert_int_equal(model_init(&model, &config.model.sizes, NULL), STATUS_OK);
    assert_int_equal(model.parameters, 10815744);
    model_release(&model);
}

TEST_CASE(every_preset_has_its_table_sizes)
{
    static const int sizes[PRESETS][4] = {{256, 6, 4, 2048},     {256, 4, 4, 32000},   {512, 8, 8, 32000},
                                          {1024, 16, 16, 32000}, {768, 12, 12, 50304}, {2048, 28, 16, 32000}};
    for (int i = 0; i < PRESETS; i++) {
        struct config config;
        set_preset(&config, preset_word((enum preset)i));
        const struct model_config *m = &config.model.sizes;
        int got[] = {m->hidden_dim, m->num_layers, m->num_heads, m->vocab_size};
        for (int k = 0; k < 4; k++) assert_int_equal(got[k], sizes[i][k]);
    }
}

TEST_CASE(a_vocabulary_that_is_not_set_follows_the_tokenizer)
{
    static const struct {
        const char *words[4];
        int vocabulary;
        const char *note;
    } cases[] = {{{"model.preset=shakespeare", "data.tokenizer=bpe:2048"}, 2048, ""},
                 {{"model.preset=shakespeare", "data.tokenizer=bpe:5000"},
                  5000,
                  "5000, the tokenizer's size; preset shakespeare has 2048 (model.vocab_size sets another)"},
                 {{"model.preset=shakespeare", "data.tokenizer=bytes"},
                  256,
                  "256, the tokenizer's size; preset shakespeare has 2048 (model.vocab_size sets another)"},
                 {{"model.preset=tiny", "data.tokenizer=bpe:5000"},
                  5000,
                  "5000, the tokenizer's size; preset tiny has 32000 (model.vocab_size sets another)"},
                 {{"model.preset=tiny", "data.tokenizer=bytes", "model.vocab_size=300"}, 300, ""},
                 {{"model.preset=tiny", "data.tokenizer=bytes", "model.vocab_size=32000"}, 32000, ""},
                 {{"model.preset=shakespeare", "data.tokenizer=bpe:5000", "model.vocab_size=3000"}, 3000, ""},
                 {{"model.preset=shakespeare", "data.tokenizer=bpe:2000000000"}, 2048, ""},
                 {{"model.preset=shakespeare", "data.tokenizer=/nowhere/tokenizer.json"}, 2048, ""},
                 {{"model.preset=shakespeare", "data.tokenizer=tests/fixtures/tokenizer/trained.json",
                   "model.vocab_size=9"},
                  9,
                  ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct err err = {0};
        config_init(&config);
        for (int w = 0; w < 4 && cases[i].words[w]; w++)
            if (config_read_word(&config, cases[i].words[w], &err)) fail_msg("%s", err.text);
        if (config_finish(&config, &err)) fail_msg("%s", err.text);
        char note[CONFIG_NOTE_SIZE];
        config_vocabulary_note(&config, note, sizeof note);
        assert_int_equal(config.model.sizes.vocab_size, cases[i].vocabulary);
        assert_string_equal(note, cases[i].note);
    }
}

/* A stored configuration keeps the vocabulary it was trained with, even if its tokenizer has changed. */
TEST_CASE(a_stored_vocabulary_stays_with_a_larger_tokenizer)
{
    struct config config, back;
    struct err err = {0};
    config_init(&config);
    if (config_finish(&config, &err)) fail_msg("%s", err.text);
    snprintf(config.data.tokenizer, sizeof config.data.tokenizer, "bpe:5000");
    char *text = config_text(&config);
    config_init(&back);
    if (config_read_effective(&back, text, "stored", &err)) fail_msg("%s", err.text);
    if (config_finish(&back, &err)) fail_msg("%s", err.text);
    assert_int_equal(back.model.sizes.vocab_size, 2048);
    free(text);
}

TEST_CASE(a_recipe_sets_what_is_not_given)
{
    struct config config, read;
    static const char *const words[] = {"train.learning_rate=0.5", "train.recipe=quick"};
    config_init(&config);
    for (int i = 0; i < 2; i++) assert_int_equal(config_read_word(&config, words[i], NULL), STATUS_OK);
    assert_int_equal(config_finish(&config, NULL), STATUS_OK);
    assert_int_equal(config.train.optimizer, OPTIMIZER_MUON);
    assert_true(config.train.learning_rate == 0.5 && config.muon.iterations == 3);
    assert_int_equal(config.muon.coefficients, MUON_POLAR_EXPRESS);
    assert_true(config.model.sizes.qk_norm);

    config_init(&read); /* its rate is for its rule */
    assert_int_equal(config_read_word(&read, "train.recipe=quick", NULL), STATUS_OK);
    assert_int_equal(config_read_word(&read, "train.optimizer=lion", NULL), STATUS_OK);
    assert_int_equal(config_finish(&read, NULL), STATUS_OK);
    assert_true(read.train.learning_rate == 3e-4 && read.model.sizes.qk_norm);

    char *text =
        config_text(&config); /* as a run stores it, so that a recipe that changes later changes no run */
    config_init(&read);
    assert_int_equal(config_read_effective(&read, text, "run", NULL), STATUS_OK);
    assert_int_equal(config_read_word(&read, "train.optimizer=lion", NULL), STATUS_OK);
    assert_int_equal(config_finish(&read, NULL), STATUS_OK);
    assert_int_equal(read.train.optimizer, OPTIMIZER_LION);
    assert_true(read.train.learning_rate == 0.5 && read.model.sizes.qk_norm);
    free(text);
}

TEST_MAIN()
