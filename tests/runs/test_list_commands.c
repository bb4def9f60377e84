/* `anneal runs` and `anneal tag`: filters, order, columns, tags. */
#include <limits.h>

#include <jansson.h>

#include "answer.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

TEST_CASE(runs_lists_filters_and_sorts)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-runs", home, sizeof home);
    answer_expect(home, "runs", 0, "");
    answer_furnish(home, finished, crashed);
    struct answer a = answer_of(home, "runs");
    assert_int_equal(a.code, 0);
    assert_memory_equal(a.out, "RUN ", 4);
    char *ruth = strstr(a.out, "-ruth"), *job = strstr(a.out, crashed), *psalms = strstr(a.out, finished);
    assert_true(ruth && job && psalms && ruth < job && job < psalms);
    assert_non_null(strstr(job, "crashed"));
    assert_non_null(strstr(psalms, "early_stopped"));
    assert_non_null(strstr(psalms, "300/2000"));
    answer_free(&a);

    json_t *list = answer_json(home, "runs --json");
    assert_int_equal(json_array_size(list), 3);
    json_t *last = json_array_get(list, 2);
    assert_string_equal(json_string_value(json_object_get(last, "id")), finished);
    assert_string_equal(json_string_value(json_object_get(last, "status")), "early_stopped");
    assert_int_equal(json_integer_value(json_object_get(last, "steps")), 300);
    assert_true(json_real_value(json_object_get(last, "final_loss")) == store_fixture_step(299, 0).loss);
    assert_true(json_is_null(json_object_get(json_array_get(list, 0), "final_loss")));
    assert_true(json_is_null(json_object_get(json_array_get(list, 1), "ended_at")));
    json_decref(list);

    static const struct {
        const char *words;
        size_t count;
        const char *first;
    } cases[] = {
        {"--filter status=crashed", 1, "job"},
        {"--filter 'best_val_loss>3.3,name~o'", 1, "job"},
        {"--filter status!=created --sort best_val_loss", 2, "psalms"},
        {"--sort -best_val_loss", 3, "job"}, /* the one without a value comes last either way */
        {"--sort name", 3, "job"},
        {"--sort -name", 3, "ruth"},
        {"--filter 'steps>=300,tokens>0,parameters=10815744'", 2, "job"},
        {"--filter name=nobody", 0, NULL},
        {"--filter 'train.learning_rate<1e-3'", 3, "ruth"}, /* of the configuration: 3e-4, as a number */
        {"--filter eval.every=100", 0, NULL},               /* a key that these runs do not have */
        {"--sort -train.learning_rate", 3, "ruth"},         /* alike in all of them */
        {"--sort eval.every", 3, "ruth"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments, "runs --json %s", cases[i].words);
        list = answer_json(home, arguments);
        assert_int_equal(json_array_size(list), cases[i].count);
        if (cases[i].count)
            assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")),
                                cases[i].first);
        json_decref(list);
    }
    answer_expect(home, "runs --filter los=3", 2, "no column, key or metric is called \"los\"");
    answer_expect(home, "runs --sort name,shoe_size", 2, "--sort: no column");
    answer_expect(home, "runs --sideways", 2, "unknown option --sideways");
    answer_expect(home, "runs --filter", 2, "needs a value");
    answer_expect(home, "runs --help", 0, "anneal runs --filter status=running");
    answer_expect(home, "runs --json >/dev/full; echo", 0, "");
}

TEST_CASE(the_help_of_runs_names_every_field)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], word[80];
    const char *name;
    json_t *value;
    store_fixture_home("c-fields", home, sizeof home);
    answer_furnish(home, finished, crashed);
    json_t *list = answer_json(home, "runs --json");
    struct answer help = answer_of(home, "runs --help");
    json_object_foreach(json_array_get(list, 0), name, value) {
        snprintf(word, sizeof word, " %s", name);
        if (strcmp(name, "run") != 0 && !strstr(help.out, word)) fail_msg("no %s in: %s", name, help.out);
    }
    answer_free(&help);
    json_decref(list);
}

TEST_CASE(tag_writes_on_runs_and_lists_know_it)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX], words[400];
    store_fixture_home("c-tag", home, sizeof home);
    answer_furnish(home, finished, crashed);
    answer_expect(home, "tag psalms job +good +日本 --note 'a note'", 0, "");
    answer_expect(home, "tag job -good -nothing", 0, ""); /* one that it has not is no error */
    answer_expect(home, "tag +good", 2, "needs a RUN besides the tags");
    answer_expect(home, "tag psalms", 2, "needs +TAG, -TAG, --note or --name");
    answer_expect(home, "tag psalms job --name x", 2, "--name is given to one run, not to 2");
    answer_expect(home, "tag psalms +good '+a b'", 2, "is no tag");
    answer_expect(home, "tag nobody +x", 1, "no such run");
    answer_expect(home, "tag psalms --name /", 2, "needs a letter or a digit");
    answer_expect(home, "runs --filter tag=good --columns name,tags,note,steps,train.learning_rate", 0,
                  "psalms  good 日本  a note    300  3e-4");
    answer_expect(home, "runs --filter tag=good --columns name,steps,name", 0, "  name    steps\n");
    answer_expect(home, "runs --columns name,nothing", 2, "--columns: no column");
    answer_expect(home, "show psalms", 0, "tags               good 日本\nnote               a note\n");
    answer_expect(home, "tag psalms --name '詩 1' --note ''", 0, "");
    answer_expect(home, "show 詩-1", 0, "name               詩-1\n");
    answer_expect(home, "show 詩-1", 0, finished); /* the id is what it was */
    answer_expect(home, "tag job ruth +archived", 0, "");
    struct answer a = answer_of(home, "runs");
    assert_non_null(strstr(a.out, finished));
    assert_null(strstr(a.out, crashed));
    assert_non_null(strstr(a.err, "not listed: 2 archived"));
    answer_free(&a);
    json_t *list = answer_json(home, "runs --filter archived --json --columns tags,steps,note");
    assert_int_equal(json_array_size(list), 2);
    json_t *job = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(job, "run")), crashed);
    assert_string_equal(json_string_value(json_object_get(job, "tags")), "archived 日本");
    assert_int_equal(json_integer_value(json_object_get(job, "steps")), 300);
    assert_true(json_is_null(json_object_get(json_array_get(list, 0), "note")));
    json_decref(list);
    snprintf(words, sizeof words, "show %s --json", finished);
    json_t *shown = answer_json(home, words);
    assert_string_equal(json_string_value(json_object_get(shown, "tags")), "good 日本");
    json_decref(shown);
}

TEST_CASE(the_texts_of_a_run_stay_texts_in_json)
{
    char home[PATH_MAX], finished[RUN_ID_MAX], crashed[RUN_ID_MAX];
    store_fixture_home("c-texts", home, sizeof home);
    answer_furnish(home, finished, crashed);
    answer_expect(home, "tag psalms --name 007 --note 1e5 +true", 0, "");
    json_t *list = answer_json(home, "runs --filter name=007 --json --columns"
                                     " name,note,tags,steps,train.learning_rate,disk,elapsed");
    json_t *run = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(run, "name")), "007");
    assert_string_equal(json_string_value(json_object_get(run, "note")), "1e5");
    assert_string_equal(json_string_value(json_object_get(run, "tags")), "true");
    assert_int_equal(json_integer_value(json_object_get(run, "steps")), 300); /* as without --columns */
    assert_true(json_is_integer(json_object_get(run, "disk")));
    assert_true(json_is_real(json_object_get(run, "elapsed")));
    assert_true(json_real_value(json_object_get(run, "train.learning_rate")) == 3e-4);
    json_decref(list);
}

TEST_MAIN()
