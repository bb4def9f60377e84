/* The configuration: every source (files, words, the output of config_text), every check, the messages. */
#include "core/model/config.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

/* Every key as config.def declares it. */
static const struct {
    const char *section, *name, *kind, *fallback;
} keys[] = {
#define KEY(section, name, kind, field, fallback, ...) {#section, #name, #kind, fallback},
#include "core/model/config.def"
};
enum { KEYS = sizeof keys / sizeof *keys };

/* A value other than the default that every key of its kind accepts, consistent with the rest (mlp_bias
 * cannot be that). */
static const char *other_value(size_t i)
{
    static const char special[] =
        " preset=tiny hidden_dim=24 num_heads=4 num_kv_heads=2 head_dim=6 shuffle=random"
        " optimizer=lion schedule=linear precision=fp32 allocator=caching max_seq_len=128"
        " seq_len=32 rope_base=5000 rope_scaling=llama3 rope_factor=2"
        " coefficients=polar_express decay_shape=sqrt decay_steps=1000 scaling=original pooling=mean "
        "rope_high_freq_factor=8 rope_beta_fast=9 "
        "mlp_bias=false "
        "full_attention_layers=1,3-5 kind=qwen3"
        " layout=gathered shard=off overlap=false timeout=5 at_epoch_end=true graph=off contents=weights "
        "loss=plain moments=8bit accumulation_plan=0:1,7:2"
        " val_split=tail format=instructions too_long=refuse base=bf16 on_nan=stop on_spike=skip "
        "documents=packed "
        "plateau_steps=70 attention=cudnn "
        "trace_step=5 recipe=quick seed=9223372036854775807";
    static char values[KEYS][32];
    char name[64];
    snprintf(name, sizeof name, " %s=", keys[i].name);
    const char *found = strstr(special, name);
    if (found && sscanf(found + strlen(name), "%31s", values[i]) == 1) return values[i];
    return strcmp(keys[i].kind, "INT") == 0    ? "7"
           : strcmp(keys[i].kind, "REAL") == 0 ? "0.125"
           : strcmp(keys[i].kind, "BOOL") == 0 ? (*keys[i].fallback ? "false" : "true")
                                               : "some/where else";
}

static const char *get(const struct config *config, const char *key)
{
    static char value[CONFIG_TEXT_MAX];
    if (!config_get(config, key, value, sizeof value)) fail_msg("%s is no key", key);
    return value;
}

static void finish(struct config *config)
{
    struct err err = {0};
    if (config_finish(config, &err)) fail_msg("%s", err.text);
}

static void set(struct config *config, const char *word)
{
    struct err err = {0};
    if (config_read_word(config, word, &err)) fail_msg("%s", err.text);
}

/* Writes `text` as FILE.ini and reads it. */
static enum status read_bytes(struct config *config, const char *text, size_t n, struct err *err)
{
    char *path = rig_path("run.ini");
    rig_write(path, text, n);
    *err = (struct err){0};
    enum status status = config_read_file(config, path, err);
    free(path);
    return status;
}

static enum status read_ini(struct config *config, const char *text, struct err *err)
{
    return read_bytes(config, text, strlen(text), err);
}

static void expect_text(const struct err *err, const char *part)
{
    if (!strstr(err->text, part)) fail_msg("\"%s\" does not say \"%s\"", err->text, part);
    assert_null(strchr(err->text, '\n'));
}

static void expect_word_refused(const char *word, const char *part)
{
    struct config config;
    struct err err = {0};
    config_init(&config);
    if (!config_read_word(&config, word, &err)) fail_msg("%s is accepted", word);
    assert_int_equal(err.status, STATUS_USAGE);
    expect_text(&err, part);
}

static void expect_file_refused(const char *text, const char *part)
{
    struct config config;
    struct err err;
    config_init(&config);
    assert_int_equal(read_ini(&config, text, &err), STATUS_USAGE);
    expect_text(&err, part);
    expect_text(&err, "run.ini");
}

/* Sets the words, then expects config_finish to refuse the combination. */
static void expect_sizes_refused(const char *const words[], const char *part)
{
    struct config config;
    struct err err = {0};
    config_init(&config);
    for (int i = 0; words[i]; i++) set(&config, words[i]);
    if (!config_finish(&config, &err)) fail_msg("%s … is accepted", words[0]);
    assert_int_equal(err.status, STATUS_USAGE);
    expect_text(&err, part);
}
#define REFUSED(part, ...) expect_sizes_refused((const char *const[]){__VA_ARGS__, NULL}, part)

TEST_CASE(defaults_are_complete_and_consistent)
{
    struct config config;
    config_init(&config);
    finish(&config);
    for (size_t i = 0; i < KEYS; i++) {
        char full[96];
        snprintf(full, sizeof full, "%s.%s", keys[i].section, keys[i].name);
        if (strcmp(keys[i].kind, "INT") && strcmp(keys[i].kind, "REAL") && *keys[i].fallback)
            assert_string_equal(get(&config, full), keys[i].fallback);
    }
    assert_int_equal(config.model.sizes.hidden_dim, 256);
    assert_int_equal(config.model.sizes.num_layers, 6);
    assert_int_equal(config.model.sizes.num_heads, 4);
    assert_int_equal(config.model.sizes.num_kv_heads, 4);
    assert_int_equal(config.model.sizes.head_dim, 64);
    assert_int_equal(config.model.sizes.vocab_size, 2048);
    assert_int_equal(config.train.batch_size, 16);
    assert_int_equal(config.train.seq_len, 256);
    assert_int_equal(config.train.total_steps, 2000);
    assert_true(config.train.learning_rate == 3e-4 && config.train.beta2 == 0.95);
    assert_int_equal(config.checkpoint.keep, 2);
    assert_string_equal(config.sample.prompt, "In the beginning");
    assert_int_equal(config.sample.top_k, 50);
    assert_true(config.sample.temperature == 0.8);
}

TEST_CASE(every_key_can_be_given_as_a_word)
{
    struct config config;
    config_init(&config);
    for (size_t i = 0; i < KEYS; i++) {
        char word[160];
        snprintf(word, sizeof word, "--%s.%s=%s", keys[i].section, keys[i].name, other_value(i));
        set(&config, word);
    }
    finish(&config);
    for (size_t i = 0; i < KEYS; i++) {
        char full[96];
        snprintf(full, sizeof full, "%s.%s", keys[i].section, keys[i].name);
        assert_string_equal(get(&config, full), other_value(i));
    }
}

TEST_CASE(every_key_can_be_given_in_a_file)
{
    struct config config;
    struct err err;
    char text[8192] = "; a comment\n# another\n\n";
    for (size_t i = 0; i < KEYS; i++) {
        char line[256];
        bool first = i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0;
        snprintf(line, sizeof line, "%s%s%s  %s =%s   ; of its own\r\n", first ? "[" : "",
                 first ? keys[i].section : "", first ? "]\r\n" : "", keys[i].name, other_value(i));
        strcat(text, line);
    }
    config_init(&config);
    if (read_ini(&config, text, &err)) fail_msg("%s", err.text);
    finish(&config);
    for (size_t i = 0; i < KEYS; i++) {
        char full[96];
        snprintf(full, sizeof full, "%s.%s", keys[i].section, keys[i].name);
        assert_string_equal(get(&config, full), other_value(i));
    }
}

TEST_CASE(the_last_word_wins_and_beats_the_file)
{
    struct config config;
    struct err err;
    config_init(&config);
    assert_int_equal(read_ini(&config, "[train]\nseed = 2", &err), STATUS_OK);
    assert_int_equal(config.train.seed, 2);
    set(&config, "--train.seed=3");
    set(&config, "train.seed=4");
    assert_int_equal(config.train.seed, 4);
}

TEST_CASE(overrides_hold_whether_the_preset_comes_before_or_after)
{
    static const char *const words[] = {"model.preset=medium", "model.hidden_dim=96", "model.num_heads=6"};
    for (int order = 0; order < 3; order++) {
        struct config config;
        config_init(&config);
        for (int i = 0; i < 3; i++) set(&config, words[(i + order) % 3]);
        finish(&config);
        assert_int_equal(config.model.sizes.hidden_dim, 96);
        assert_int_equal(config.model.sizes.num_heads, 6);
        assert_int_equal(config.model.sizes.num_kv_heads, 6);
        assert_int_equal(config.model.sizes.head_dim, 16);
        assert_int_equal(config.model.sizes.num_layers, 16);
        assert_int_equal(config.model.sizes.vocab_size, 2048); /* the tokenizer's */
    }
}

TEST_CASE(beta2_follows_the_optimizer_unless_given)
{
    struct config config;
    config_init(&config);
    set(&config, "train.optimizer=lion");
    finish(&config);
    assert_true(config.train.beta2 == 0.99);
    config_init(&config);
    set(&config, "train.beta2=0.9");
    set(&config, "train.optimizer=lion");
    finish(&config);
    assert_true(config.train.beta2 == 0.9);
}

TEST_CASE(an_unknown_key_names_the_nearest)
{
    expect_word_refused("--train.lerning_rate=1", "did you mean train.learning_rate?");
    expect_word_refused("--model.hiden_dim=1", "did you mean model.hidden_dim?");
    expect_word_refused("--eval.early_stoping_patience=1", "did you mean eval.early_stopping_patience?");
    expect_word_refused("--xyzzy.plugh=1", "--help-config");
    expect_word_refused("--seed=1", "unknown key seed");
    expect_file_refused("[train]\nbatch_size = 3 # three\n",
                        "run.ini:2 (a comment after a value begins with ;): train.batch_size = 3 # three: ");
    expect_file_refused("[train]\nseed = 1\n\n; comment\n  batchsize = 4\n",
                        "run.ini:5: unknown key train.batchsize (did you mean train.batch_size?");
    expect_file_refused("seed = 4\n", "run.ini:1: unknown key seed");
}

TEST_CASE(a_key_in_the_wrong_section_names_the_right_one)
{
    expect_word_refused("--optimizer_settings.learning_rate=1", "did you mean train.learning_rate?");
    expect_file_refused("[optimization]\nweight_decay = 0.1\n", "did you mean train.weight_decay?");
}

TEST_CASE(a_bad_value_names_what_is_accepted)
{
    expect_word_refused("train.optimizer=sgd", "must be one of adamw|lion|muon");
    expect_word_refused("train.optimizer=", "must be one of adamw|lion|muon");
    expect_word_refused("train.optimizer=adam", "must be one of adamw|lion|muon");
    expect_word_refused("train.optimizer=adamw|lion", "must be one of adamw|lion|muon");
    expect_word_refused("train.optimizer=|", "must be one of adamw|lion|muon");
    expect_word_refused("train.schedule=constant|warmup_constant|cosine|linear|inverse_sqrt|wsd|rising",
                        "must be one of");
    expect_word_refused("train.batch_size=0", "a whole number from 1 to 65535");
    expect_word_refused("train.batch_size=4.5", "a whole number from 1 to 65535");
    expect_word_refused("train.batch_size=4x", "a whole number");
    expect_word_refused("train.batch_size=", "a whole number");
    expect_word_refused("train.batch_size=99999999999999999999", "a whole number");
    expect_word_refused("train.seed=-1", "a whole number from 0");
    expect_word_refused("train.seed=9223372036854775808", "a whole number from 0 to 9223372036854775807");
    expect_word_refused("train.learning_rate=-1", "a number from 0 to 1000");
    expect_word_refused("train.learning_rate=nan", "a number from 0 to 1000");
    expect_word_refused("train.learning_rate=inf", "a number from 0 to 1000");
    expect_word_refused("train.learning_rate=1e400", "a number from 0 to 1000");
    expect_word_refused("train.learning_rate=fast", "train.learning_rate = fast: must be");
    expect_word_refused("train.dropout=1", "a number from 0 to 0.95");
    expect_word_refused("model.tie_weights=yes", "one of false|true");
    expect_word_refused("sample.prompt=two\nlines", "one line");
    expect_file_refused("[train]\n\nbatch_size = many\n", "run.ini:3: train.batch_size = many");
}

TEST_CASE(a_text_that_is_too_long_is_refused_whole)
{
    char word[CONFIG_TEXT_MAX + 64] = "sample.prompt=";
    struct config config;
    struct err err = {0};
    size_t n = strlen(word);
    config_init(&config);
    memset(word + n, 'a', CONFIG_TEXT_MAX - 1);
    set(&config, word);
    assert_int_equal(strlen(config.sample.prompt), CONFIG_TEXT_MAX - 1);
    word[n + CONFIG_TEXT_MAX - 1] = 'a';
    assert_int_equal(config_read_word(&config, word, &err), STATUS_USAGE);
    expect_text(&err, "one line of less than 1024 bytes");
    assert_int_equal(strlen(config.sample.prompt), CONFIG_TEXT_MAX - 1);
    char files[sizeof word] = "data.val=";
    memset(files + strlen(files), 'a', CONFIG_TEXT_MAX);
    assert_int_equal(config_read_word(&config, files, &err), STATUS_USAGE);
    expect_text(&err, "1024 bytes (a folder, or a pattern such as books/*.txt, names many files)");
}

TEST_CASE(a_word_without_a_value_says_how_it_should_look)
{
    expect_word_refused("--train.seed", "must be --section.key=value");
    expect_word_refused("--=4", "must be --section.key=value");
    expect_word_refused("", "must be --section.key=value");
    char key[140]; /* with one byte less it is an unknown key */
    for (int bytes = 127; bytes <= 128; bytes++) {
        snprintf(key, sizeof key, "--train.%0*d=1", bytes - 6, 0);
        expect_word_refused(key, bytes == 128 ? "must be --section.key=value" : "unknown key");
    }
    char word[400];
    memset(word, 'k', sizeof word);
    memcpy(word + 390, "=1", 3);
    expect_word_refused(word, "must be --section.key=value");
}

TEST_CASE(a_key_that_a_file_has_twice_is_refused)
{
    expect_file_refused("[train]\nlearning_rate = 1e-3\n[eval]\nevery = 5\n[train]\nlearning_rate = 1e-4\n",
                        "run.ini:6: train.learning_rate is set twice");
    expect_file_refused("[param_group.norms]\nmatch = *norm*\nlr_scale = 1\nlr_scale = 2\n",
                        "run.ini:4: param_group.norms.lr_scale is set twice");
}

TEST_CASE(a_file_with_several_mistakes_is_told_where_they_are)
{
    struct config config;
    struct err err;
    expect_file_refused("[train]\nlearning_rat = 1\nseq_len = 8\nseed = x\n",
                        "run.ini:2: unknown key train.learning_rat (did you mean train.learning_rate? ");
    expect_file_refused("[train]\nlearning_rat = 1\nseq_len = 8\nseed = x\n", ") (line 4 is wrong, too)");
    expect_file_refused("[train]\nseed = x\nbatch\nseq_len = 8\nseq_len = 8\n",
                        "(lines 3 to 5 have 2 more mistakes)");
    config_init(&config);
    assert_int_equal(read_ini(&config, "[train]\nseq_len = 8\nseed = x\n", &err), STATUS_USAGE);
    assert_null(strstr(err.text, "line"));
}

TEST_CASE(a_line_that_is_no_pair_is_named_by_its_number)
{
    expect_file_refused("[train]\nseed = 1\nwhat is this\n", "run.ini:3: must be [section]");
    expect_file_refused("[train\nseed = 1\n", "run.ini:1: must be [section]");
}

TEST_CASE(a_long_line_is_read_whole_or_refused)
{
    struct config config;
    struct err err;
    char text[4096] = "[sample]\nprompt = ", *end = text + strlen(text);
    memset(end, 'x', 3000);
    memcpy(end + 1000, " ; \n", 5);
    config_init(&config);
    assert_int_equal(read_ini(&config, text, &err), STATUS_OK);
    assert_int_equal(strspn(config.sample.prompt, "x"), 1000);
    assert_int_equal(strlen(config.sample.prompt), 1000);
    memset(end, 'x', 3000);
    expect_file_refused(text, "run.ini:2: sample.prompt = xxx");
}

TEST_CASE(a_bad_escape_in_quotes_names_the_line_the_key_and_the_good_ones)
{
    struct config config;
    struct err err;
    expect_file_refused(
        "[sample]\n\nprompt = \"C:\\dir ; D:\\\\dir\" ; why\n",
        "run.ini:3: sample.prompt: a backslash in double quotes must begin \\\\ (a backslash), \\\" "
        "(a quote) or \\x and two hexadecimal digits");
    config_init(&config);
    assert_int_equal(read_ini(&config, "[hooks]\non_event = \"my prog\" --x \"C:\\\" ; why\n", &err),
                     STATUS_OK);
    assert_string_equal(config.hooks.on_event, "\"my prog\" --x \"C:\\\"");
}

TEST_CASE(files_that_are_no_configuration_are_refused)
{
    struct config config;
    struct err err = {0};
    config_init(&config);
    assert_int_equal(read_bytes(&config, "[train]\nseed\0= 1\n", 17, &err), STATUS_USAGE);
    expect_text(&err, "not a configuration file");
    assert_int_equal(config_read_file(&config, "no/such/file.ini", &err), STATUS_NOT_FOUND);
    expect_text(&err, "no/such/file.ini: cannot open");
    assert_int_equal(config_read_file(&config, "tests", &err), STATUS_USAGE);
    expect_text(&err, "is a folder");
    assert_int_equal(config_read_file(&config, "/dev/zero", &err), STATUS_USAGE);
    assert_int_equal(read_bytes(&config, "", 0, &err), STATUS_OK);
}

/* Random bytes that matter to an INI reader: the result is a status and one printable line. */
TEST_CASE(random_files_end_in_a_status_never_in_a_crash)
{
    static const char alphabet[] = "[]=;:# \t\r\n\x1b\x7f\xff\"\"\\x'|trainseedmodl.0123456789-e";
    static const char *const starts[] = {"", "[train]\n",
                                         "[train]\nseed = ", "[sample]\nprompt = ", "\xEF\xBB\xBF[train]\n"};
    for (uint64_t round = 0; round < 3000; round++) {
        char text[256];
        struct config config;
        struct err err;
        size_t n = (size_t)snprintf(text, sizeof text, "%s", starts[round % 5]);
        size_t end = n + (size_t)(rig_uniform(round, 0) * 200);
        for (uint64_t k = 1; n < end; k++)
            text[n++] = alphabet[(size_t)(rig_uniform(round, k) * (sizeof alphabet - 1))];
        config_init(&config);
        enum status status = read_bytes(&config, text, n, &err);
        if (!status) continue;
        assert_int_equal(status, err.status);
        for (const char *c = err.text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                fail_msg("round %d: a control character in the error", (int)round);
    }
}

TEST_CASE(impossible_sizes_are_one_sentence_each)
{
    REFUSED("eval.early_stopping_patience = 2: needs evaluations", "--eval.every=0",
            "--eval.early_stopping_patience=2");
    REFUSED("needs evaluations", "--data.val_fraction=0", "--eval.early_stopping_patience=2");
    REFUSED("model.hidden_dim = 256 is not a multiple of model.num_heads = 3", "model.num_heads=3");
    REFUSED("model.num_heads = 4 is not a multiple of model.num_kv_heads = 3", "model.num_kv_heads=3");
    REFUSED("model.head_dim = 5: must be even", "model.head_dim=5");
    REFUSED("health.plateau_steps = 31: must be 0 (off) or at least 32", "health.plateau_steps=31");
    REFUSED("model.head_dim = 1: must be", "model.hidden_dim=4", "model.num_heads=4");
    REFUSED("train.seq_len = 2048 is longer than model.max_seq_len = 1024", "train.seq_len=2048");
    REFUSED("train.moments = 8bit: muon orthogonalises its moment", "train.moments=8bit",
            "train.optimizer=muon");
    REFUSED("at most 67108864", "train.batch_size=65535", "train.seq_len=1048576",
            "model.max_seq_len=1048576");
    REFUSED("model.head_dim = 131072: must be from 1 to 1024", "model.hidden_dim=131072",
            "model.num_heads=1");
}

TEST_CASE(a_trace_of_a_step_that_never_comes_is_refused)
{
    static const char *const past[] = {"train.total_steps=40", "profile.trace_step=40", NULL};
    expect_sizes_refused(past, "profile.trace_step = 40: no such step, as train.total_steps = 40");
    struct config config;
    config_init(&config);
    set(&config, "train.total_steps=40");
    set(&config, "profile.trace_step=39");
    finish(&config);
}

static void expect_round_trip(const struct config *config)
{
    struct config again;
    struct err err = {0};
    char *text = config_text(config), *second;
    assert_non_null(text);
    config_init(&again);
    if (config_read_effective(&again, text, "stored", &err)) fail_msg("%s", err.text);
    finish(&again);
    second = config_text(&again);
    assert_string_equal(text, second);
    for (size_t i = 0; i < KEYS; i++) {
        char full[96], value[CONFIG_TEXT_MAX];
        snprintf(full, sizeof full, "%s.%s", keys[i].section, keys[i].name);
        assert_true(config_get(config, full, value, sizeof value));
        assert_string_equal(get(&again, full), value);
    }
    free(text);
    free(second);
}

TEST_CASE(a_configuration_stored_before_a_key_existed_means_what_it_meant)
{
    struct config config, again;
    struct err err = {0};
    config_init(&config);
    finish(&config);
    assert_string_equal(get(&config, "data.val_split"), "blocks");
    char *text = config_text(&config), *line = strstr(text, "val_split = blocks\n");
    assert_non_null(line);
    memmove(line, line + 19, strlen(line + 19) + 1); /* as it was written before */
    config_init(&again);
    if (config_read_effective(&again, text, "stored", &err)) fail_msg("%s", err.text);
    finish(&again);
    assert_string_equal(get(&again, "data.val_split"), "tail");
    assert_string_equal(config_changed(&config, &again), "data.val_split");
    free(text);
}

TEST_CASE(the_effective_configuration_reads_back_equal)
{
    struct config config;
    config_init(&config);
    finish(&config);
    expect_round_trip(&config);
    set(&config, "train.learning_rate=0.1234567890123456789");
    set(&config, "train.beta2=0.98765432109876543");
    set(&config, "train.seed=9223372036854775807");
    set(&config, "model.num_kv_heads=2");
    set(&config, "model.head_dim=20");
    set(&config, "model.qk_norm=true");
    finish(&config);
    expect_round_trip(&config);
}

TEST_CASE(texts_that_ini_would_mangle_read_back_equal)
{
    static const char *const prompts[] = {"",
                                          " ",
                                          "   blanks around   ",
                                          "a ; comment that is none",
                                          "# not a comment",
                                          "; not a comment",
                                          "a = b = c",
                                          "= b",
                                          " = ",
                                          "[train]",
                                          "\ttab\t",
                                          "\"quoted\"",
                                          "carriage\rreturn",
                                          "na\xC3\xAFve \xE2\x98\x83",
                                          "\xff\xfe not UTF-8"};
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        struct config config;
        char word[128];
        config_init(&config);
        snprintf(word, sizeof word, "sample.prompt=%s", prompts[i]);
        set(&config, word);
        assert_string_equal(config.sample.prompt, prompts[i]);
        finish(&config);
        expect_round_trip(&config);
    }
    struct config config;
    char word[CONFIG_TEXT_MAX + 16] = "sample.prompt=";
    memset(word + 14, 'y', CONFIG_TEXT_MAX - 1);
    config_init(&config);
    set(&config, word);
    finish(&config);
    expect_round_trip(&config);
}

TEST_CASE(a_damaged_stored_configuration_is_an_error)
{
    static const char *const texts[] = {"[train]\nseed\n", "nonsense", "[train]\nseed = x\n", "[]\n[\n",
                                        "[train]\nno_such = 1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct config config;
        struct err err = {0};
        config_init(&config);
        assert_int_not_equal(config_read_effective(&config, texts[i], "run 7", &err), STATUS_OK);
        expect_text(&err, "run 7");
    }
    char text[3000] = "[sample]\nprompt = ";
    memset(text + strlen(text), 'z', 2000);
    struct config config;
    struct err err = {0};
    config_init(&config);
    assert_int_not_equal(config_read_effective(&config, text, "run 7", &err), STATUS_OK);
}

TEST_CASE(the_help_lists_every_key)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_print_help(out);
    fclose(out);
    for (size_t i = 0; i < KEYS; i++) {
        char line[96];
        snprintf(line, sizeof line, "\n  %s ", keys[i].name);
        if (!strstr(text, line)) fail_msg("%s is not in the help", keys[i].name);
    }
    assert_non_null(strstr(text, "adamw|lion|muon"));
    assert_non_null(strstr(text, "default 3e-4"));
    assert_non_null(
        strstr(text, "\n  total_steps                default 2000          1..1000000000000  [steps]\n"));
    assert_non_null(strstr(text, "\n  vocab_size                 default (tokenizer) "));
    assert_non_null(strstr(text, "\n  hidden_dim                 default (preset) "));
    free(text);
}

TEST_CASE(an_unknown_key_has_no_value)
{
    struct config config;
    char value[32];
    config_init(&config);
    assert_false(config_get(&config, "train.sed", value, sizeof value));
    assert_true(config_get(&config, "sample.prompt", value, 6));
    assert_string_equal(value, "In th"); /* cut to the buffer, never past it */
}

TEST_MAIN()
