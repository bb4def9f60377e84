/* The language of filters: what passes, how the parts bind, units, what is told about mistakes, and texts
 * made to be slow. */
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/listing.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

static char home[1024];
static struct store *store;
static struct listing listing;
static struct err err;

/* Five runs: "alpha" (finished, 3.5), "beta" (failed, NaN), "Gamma" (running by its row, so crashed; 2.5),
 * and "日本語", "émigré" without any numbers. Names are the last letters of the ids. */
static void make(const char *name)
{
    char id[RUN_ID_MAX], sql[2000];
    store_fixture_home(name, home, sizeof home);
    store_fixture_run(home, "other", id);
    snprintf(
        sql, sizeof sql,
        "insert into runs(id, name, status, created_at, device, steps, total_steps, tokens, final_loss,"
        " best_val_loss, best_step, tokens_per_sec, note, nan) values"
        " ('a', 'alpha', 'finished', %.0f, 'cpu', 1000, 2000, 12000, 3.5, 3.25, 10, 100, 'a long note', 0),"
        " ('b', 'beta', 'failed', %.0f, 'cuda:0', 10, 2000, 120, null, null, null, null, '', 1),"
        " ('c', 'Gamma', 'running', 1e9, 'cpu', 2000, 2000, 3e6, 2.5, 2.25, 10, 200, '', 0),"
        " ('d', '日本語', 'stopped', 1e9 - 1, '', null, null, null, null, null, null, null, '', 0),"
        " ('e', 'émigré', 'stopped', 1e9 - 2, '', null, null, null, null, null, null, null, '', 0);"
        "insert into params values('a', 'train.learning_rate', '3e-4'), ('b', 'train.learning_rate', '0.01'),"
        " ('a', 'data.train', 'kjv'), ('b', 'data.train', 'a, b');"
        "insert into tags values('a', 'good'), ('a', 'v1'), ('c', 'goodish');"
        "insert into measures values('a', 0, 5, 'f1.joy', 0.25, 0), ('a', 0, 9, 'f1.joy', 0.75, 0);"
        "insert into steps(run_id, segment, step, lr, grad_norm) values('a', 0, 8, 0.1, 1),"
        " ('a', 0, 9, 0.2, 7);"
        "delete from runs where name = 'other'",
        clock_wall() - 3600, clock_wall() - 3 * 86400);
    store_fixture_sql(home, sql);
    store = store_fixture_open(home);
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
}

static int forget(void **state)
{
    (void)state;
    listing_release(&listing);
    store_close(store);
    store = NULL;
    return 0;
}

/* Sets the filter and returns the ids of the runs that pass, in the order of the list. */
static const char *passing(const char *filter)
{
    static char ids[64];
    struct listing_request request = {.filter = filter};
    assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
    ids[0] = '\0';
    for (size_t i = 0; i < listing.shown_count; i++) strcat(ids, listing.runs[listing.shown[i]].id);
    return ids;
}

static void expect(const char *filter, const char *ids)
{
    const char *got = passing(filter);
    if (strcmp(got, ids) != 0 || listing.filter.problem.why[0])
        fail_msg("%s: \"%s\", not \"%s\"; problem: %s", filter, got, ids, listing.filter.problem.why);
}

TEST_CASE_WITH(a_filter_passes_what_it_says, NULL, forget)
{
    static const struct {
        const char *filter, *ids;
    } cases[] = {
        {"", "abcde"},
        {"status=finished", "a"},
        {"status!=finished", "bcde"},
        {"status = finished or status == failed", "ab"},
        {"crashed", "c"}, /* a word: also of the status */
        {"ALPHA", "a"},
        {"long", "a"}, /* of the note */
        {"'a long'", "a"},
        {"good", "ac"},
        {"日本", "d"},
        {"ÉMIGR", "e"},
        {"loss<3", "c"},
        {"final_loss >= 2.5 and loss <= 3.5", "ac"},
        {"loss=nan", "b"},
        {"loss!=nan", "acde"}, /* a run without a loss is not one of NaN */
        {"best<3.25", "c"},
        {"steps>=1k", "ac"},
        {"tokens=3M", "c"},
        {"tokens=3m", "c"}, /* not minutes */
        {"steps>=1K", "ac"},
        {"progress>=50%", "ac"},
        {"age<2h", "a"},
        {"created_at>2d", "a"},
        {"created_at>4d", "ab"},
        {"age<1w", "ab"},
        {"created_at<2001-09-10", "cde"},
        {"created_at>2001-09-10", "ab"},
        {"train.learning_rate<1e-3", "a"},
        {"train.learning_rate=0.0003", "a"},
        {"train.learning_rate>.3%", "b"},
        {"train.learning_rate!=3e-4", "bcde"},
        {"data.train='a, b'", "b"},
        {"f1.joy>0.5", "a"}, /* the newest value */
        {"grad_norm=7 lr=.2", "a"},
        {"tag=good", "a"},
        {"tags=v1", "a"},
        {"tag!=good", "bcde"},
        {"tag~good", "ac"},
        {"tag=\"\"", ""},
        {"note~^a.*note$", "a"},
        {"name~^[ab]", "ab"},
        {"name~^(alpha|beta)$", "ab"},
        {"(name~^(alpha|beta)$)", "ab"},
        {"name~a{1,2}$,steps>10", "ac"},
        {"name~gamma", "c"},
        {"name~(?-i)gamma", ""},
        {"name!~a", "de"},
        {"name~\\p{Han}", "d"},
        {"alpha or beta and gamma", "a"}, /* and binds closer */
        {"(alpha or beta) and cuda", "b"},
        {"not alpha", "bcde"},
        {"not (alpha or beta)", "cde"},
        {"not(alpha)and(finished)or(crashed)", "c"},
        {"NOT not alpha", "a"},
        {"alpha AND finished", "a"},
        {"alpha,finished", "a"},
        {"alpha finished", "a"},
        {"alpha failed", ""},
        {"name=and", ""},
        {"'or'", ""},
        {"android", ""}, /* and not a keyword */
        {"run=a", "a"},
        {"tok/s>150", "c"},
    };
    make("passes");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect(cases[i].filter, cases[i].ids);
}

/* A second trainer begins at step 9 and has recorded nothing more: step 9 and what was measured after it do
 * not count. */
TEST_CASE_WITH(the_newest_value_is_one_that_counts, NULL, forget)
{
    make("filter-replaced");
    store_fixture_sql(home, "insert into measures values('a', 0, 10, 'f1.joy', 0.5, 0);"
                            "insert into evals(run_id, segment, step, val_loss) values('a', 0, 9, 4),"
                            " ('a', 0, 10, 6);"
                            "insert into segments(run_id, segment, first_step, started_at)"
                            " values('a', 1, 9, 1e9)");
    expect("f1.joy=0.75", "a");
    expect("lr=0.1", "a");
    expect("val_loss=4", "a");
}

TEST_CASE_WITH(a_mistake_is_told_with_its_place_and_does_not_count, NULL, forget)
{
    static const struct {
        const char *filter, *place, *why, *ids;
    } cases[] = {
        {"los<3", "los", "did you mean \"loss\"", "abcde"},
        {"alpha los<3", "los", "called \"los\"", "a"}, /* the rest counts */
        {"los<3 alpha", "los", "called \"los\"", "a"},
        {"not los<3", "los", "called \"los\"", "abcde"},
        {"status=", "status=", "a value is missing after status", "abcde"},
        {"status=finishd", "finishd", "did you mean \"finished\"", "abcde"},
        {"status!=finishd", "finishd", "did you mean \"finished\"", "abcde"},
        {"loss<many", "many", "compared with a number", "abcde"},
        {"lr=seven", "seven", "compared with a number", "abcde"},
        {"loss<3q", "3q", "compared with a number", "abcde"},
        {"loss<2h", "2h", "compared with a number, such as 1e-3, 12k or 50%", "abcde"},
        {"age<2k", "2k", "compared with a duration, such as 90s, 5m, 2h or 3d", "abcde"},
        {"created_at<2G", "2G", "compared with a date or a duration", "abcde"},
        {"created_at<2026-02-29", "2026-02-29", "compared with a date or a duration", "abcde"},
        {"created_at<2026-02-28T", "2026-02-28T", "compared with a date or a duration", "abcde"},
        {"disk>2h", "2h", "compared with a size, such as 1e6, 500MB or 1.5GiB", "abcde"},
        {"loss<infk", "infk", "compared with a number", "abcde"},
        {"name<z", "z", "compared with a number", "abcde"},
        {"name~(", "(", "not a regular expression: missing closing parenthesis", "abcde"},
        {"alpha and", "and", "is missing here", "a"},
        {"alpha or", "or", "is missing after \"or\"", "abcde"},
        {"alpha not", "not", "is missing after \"not\"", "a"},
        {"alpha not ", "not ", "is missing after \"not\"", "a"},
        {"(alpha", "(", "not closed", "a"},
        {"alpha)", ")", "no parenthesis is open", "a"},
        {"alpha) beta", ")", "no parenthesis is open", ""},
        {"'alpha", "'alpha", "not closed", "a"},
        {"=3", "=", "name of a field is missing", "abcde"},
        {"alpha !", "!", "is expected here", "a"},
        {", alpha", ",", "is expected here", "a"},
    };
    make("mistakes");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = passing(cases[i].filter);
        const struct filter_problem *problem = &listing.filter.problem;
        assert_true(problem->from <= problem->to && problem->to <= strlen(cases[i].filter));
        char place[64];
        snprintf(place, sizeof place, "%.*s", (int)(problem->to - problem->from),
                 cases[i].filter + problem->from);
        if (!strstr(problem->why, cases[i].why) || strcmp(got, cases[i].ids) != 0 ||
            strcmp(place, cases[i].place) != 0)
            fail_msg("%s: \"%s\" at \"%s\", passing %s", cases[i].filter, problem->why, place, got);
    }
}

TEST_CASE_WITH(no_text_makes_a_filter_slow_or_breaks_it, NULL, forget)
{
    static const char alphabet[] = "()()  \"',=!<>~\\[]{}*+?|a^$.\xff\xc3\xa9ornd";
    char text[4096], name[20];
    make("hostile");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(text, sizeof text,
             "with recursive n(i) as (select 0 union all select i + 1 from n where i < 999)"
             " insert into runs(id, name, status, created_at, note) select 'n' || i, 'n', 'failed', 1, '%s!' "
             "from n",
             name);
    store_fixture_sql(home, text);
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    passing("tag=v1");
    /* about half a million steps a run, which PCRE2 alone would take */
    struct listing_request slow = {.filter = "note~(a+)+$"};
    assert_int_equal(listing_set(&listing, store, &slow, true, &err), STATUS_OK);
    assert_non_null(strstr(listing.filter.problem.why, "takes too long"));
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = '(';
    text[sizeof text - 1] = '\0';
    struct listing_request deep = {.filter = text};
    assert_int_equal(listing_set(&listing, store, &deep, true, &err), STATUS_OK);
    assert_non_null(strstr(listing.filter.problem.why, "nested too deeply"));
    for (size_t i = 0; i + 2 < sizeof text; i += 2) memcpy(text + i, "a ", 2);
    assert_int_equal(listing_set(&listing, store, &deep, true, &err), STATUS_OK);
    assert_non_null(strstr(listing.filter.problem.why, "more than 128 parts"));
    assert_int_equal(listing.filter.problem.from, 0);
    assert_int_equal(listing.filter.problem.to, strlen(text));
    srand(1);
    for (int round = 0; round < 3000; round++) {
        size_t n = (size_t)(rand() % 40);
        for (size_t i = 0; i < n; i++) text[i] = alphabet[rand() % (int)(sizeof alphabet - 1)];
        text[n] = '\0';
        struct filter filter;
        assert_int_equal(filter_parse(text, listing.names, listing.name_count, &filter, &err), STATUS_OK);
        assert_true(filter.problem.to <= n && filter.problem.from <= filter.problem.to);
        filter_release(&filter);
    }
}

TEST_CASE_WITH(several_keys_sort_and_columns_have_values, NULL, forget)
{
    char text[64];
    make("sorts");
    struct listing_request request = {"name, train.learning_rate,tags", "", "device,-loss"};
    assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
    /* cpu before cuda:0, of the same device the higher loss first, those without a device last */
    static const char order[] = "acbde";
    for (size_t i = 0; i < 5; i++) assert_int_equal(listing.runs[listing.shown[i]].id[0], order[i]);
    assert_int_equal(listing.column_count, 3);
    const struct field_value *value = listing_value(&listing, 1, listing.shown[0]);
    assert_string_equal(field_show(&listing.fields[1].field, value, text, sizeof text), "3e-4");
    assert_string_equal(listing_value(&listing, 2, listing.shown[0])->text, "good v1");
    assert_false(listing_value(&listing, 1, listing.shown[3])->known);
    request.sort = "-steps,nothing";
    assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_USAGE);
    assert_int_equal(listing.runs[listing.shown[1]].id[0], 'c'); /* as it was */
    for (int falling = 0; falling < 2; falling++) {              /* equal ones newest first */
        request.sort = falling ? "-total_steps" : "total_steps";
        assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
        for (size_t i = 0; i < 5; i++) assert_int_equal(listing.shown[i], i);
    }
}

TEST_CASE_WITH(a_key_takes_the_order_to_the_next_column_or_turns_it, NULL, forget)
{
    static const char *const orders[] = {"loss", "x.loss", "x.loss_2", "-tokens", ""};
    char sort[64] = "";
    make("turns");
    store_fixture_sql(home, "insert into params values('a', 'x.loss', '1'), ('a', 'x.loss_2', '2')");
    struct listing_request request = {.columns = "curve,loss,x.loss,x.loss_2,tokens"};
    assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        listing_sort_next(&listing, sort, sizeof sort);
        assert_string_equal(sort, orders[i]);
    }
    static const char *const turns[] = {"created_at", "", "-loss", "loss"};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        if (i == 2) strcpy(sort, "loss");
        listing_sort_reverse(sort, sizeof sort);
        assert_string_equal(sort, turns[i]);
    }
}

TEST_CASE_WITH(one_more_than_there_is_room_for_is_refused, NULL, forget)
{
    make("limits");
    for (int i = 0; i <= FILTER_FIELDS_MAX; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "insert into params values('a', 'x.k%d', '1')", i);
        store_fixture_sql(home, sql);
    }
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    for (int more = 0; more < 2; more++) {
        char columns[400] = "", sort[100] = "", filter[400] = "";
        for (int i = 0; i < LISTING_COLUMNS_MAX + more; i++)
            text_add(columns, sizeof columns, ",", "x.k%d", i);
        for (int i = 0; i < LISTING_KEYS_MAX + more; i++) text_add(sort, sizeof sort, ",", "steps");
        for (int i = 0; i < FILTER_FIELDS_MAX + more; i++) text_add(filter, sizeof filter, " ", "x.k%d=1", i);
        struct listing_request request = {.columns = columns};
        assert_int_equal(listing_set(&listing, store, &request, false, &err), STATUS_OK);
        assert_int_equal(listing.column_count, LISTING_COLUMNS_MAX);
        assert_int_equal(listing_set(&listing, store, &request, true, &err), more ? STATUS_USAGE : STATUS_OK);
        if (more) assert_string_equal(err.text, "more than 32 columns");
        request = (struct listing_request){.sort = sort};
        assert_int_equal(listing_set(&listing, store, &request, true, &err), more ? STATUS_USAGE : STATUS_OK);
        if (more) assert_string_equal(err.text, "more than 8 keys to sort by");
        assert_string_equal(passing(filter), "a");
        assert_string_equal(listing.filter.problem.why, more ? "the filter names more than 32 fields" : "");
    }
}

TEST_CASE_WITH(numbers_come_before_texts, NULL, forget)
{
    make("mixed");
    store_fixture_sql(home,
                      "insert into params values('a', 'x.k', '2'), ('b', 'x.k', '1a'), ('c', 'x.k', '10'),"
                      " ('d', 'x.k', '3b'), ('e', 'x.k', '9')");
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    static const char *const orders[][2] = {{"x.k", "aecbd"}, {"-x.k", "dbcea"}};
    for (int o = 0; o < 2; o++) {
        struct listing_request request = {.columns = "name", .sort = orders[o][0]};
        assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(listing.runs[listing.shown[i]].id[0], orders[o][1][i]);
    }
}

TEST_CASE_WITH(a_measure_is_known_from_its_first_evaluation_on, NULL, forget)
{
    make("measures");
    expect("f1.joy>0.5", "a");
    store_fixture_sql(home, "insert into measures values('a', 0, 10, 'accuracy', 0.5, 0)");
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    expect("accuracy>=0.5", "a");
    store_fixture_sql(home, "insert into measures values('a', 0, 11, 'recall', 0.5, 0)");
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    struct listing_request request = {.columns = "recall", .sort = "-recall"};
    assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
    assert_true(listing_value(&listing, 0, listing.shown[0])->number == 0.5);
    /* one that the last evaluations lack is still known */
    store_fixture_sql(home, "with recursive n(i) as (select 12 union all select i + 1 from n where i < 500)"
                            " insert into measures select 'a', 0, i, 'other', 1, 0 from n");
    listing_release(&listing);
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    expect("accuracy>=0.5 f1.joy>0.5", "a");
}

/* Programs log rarely what changes rarely. */
TEST_CASE_WITH(a_metric_that_the_newest_steps_lack_is_known, NULL, forget)
{
    make("rare");
    store_fixture_sql(home, "insert into steps(run_id, segment, step, lr) values('e', 1, 1000, 0.25);"
                            "insert into steps(run_id, segment, step, loss) values('e', 1, 1001, 2)");
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    expect("lr=0.25", "e");
    store_fixture_sql(home,
                      "with recursive n(i) as (select 1002 union all select i + 1 from n where i < 1099)"
                      " insert into steps(run_id, segment, step, loss) select 'e', 1, i, 2 from n;"
                      "insert into rollup(run_id, metric, level, first_step, last, count, non_finite)"
                      " values('e', 'lr', 64, 960, 0.25, 1, 0)");
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    expect("lr=0.25", "e");
}

static enum status annotate(const char *id, const struct annotation *annotation)
{
    return runs_annotate(store, &id, 1, annotation, &err);
}

static enum status change_tags(const char *id, const char *const *words, size_t count)
{
    return annotate(id, &(struct annotation){.tags = words, .tag_count = count});
}

TEST_CASE_WITH(tags_notes_and_names_are_written_cleanly, NULL, forget)
{
    static const char *const change[] = {"+x", "-good", "y"}, *const wrong[] = {"+z", "a b"};
    char many[2000] = "", tag[64];
    struct run_info run;
    make("tags");
    assert_int_equal(change_tags("a", change, 3), STATUS_OK);
    assert_int_equal(run_get(store, "a", &run, &err), STATUS_OK);
    assert_string_equal(run.tags, "v1 x y");
    assert_true(run_has_tag(&run, "x") && !run_has_tag(&run, "v"));
    assert_int_equal(change_tags("a", wrong, 2), STATUS_USAGE);
    assert_int_equal(run_set_tags(store, "a", "\033[31mred", &err), STATUS_USAGE);
    for (int i = 0; i < 40; i++) {
        snprintf(tag, sizeof tag, "tag-%d ", i);
        strcat(many, tag);
    }
    assert_int_equal(run_set_tags(store, "a", many, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "bytes of tags"));
    assert_int_equal(run_get(store, "a", &run, &err), STATUS_OK);
    assert_string_equal(run.tags, "v1 x y"); /* none of it */
    char each[40][16];
    const char *words[40];
    for (int i = 0; i < 40; i++) {
        snprintf(each[i], sizeof each[i], "tag-%d", i);
        words[i] = each[i];
    }
    assert_int_equal(change_tags("a", words, 40), STATUS_USAGE);
    assert_non_null(strstr(err.text, "bytes of tags"));
    assert_int_equal(run_set_tags(store, "a", " 日本, y ", &err), STATUS_OK);
    assert_int_equal(annotate("a", &(struct annotation){.note = "two\nlines \033]0;title\a"}), STATUS_OK);
    assert_int_equal(annotate("a", &(struct annotation){.name = "été / 1"}), STATUS_OK);
    assert_int_equal(annotate("a", &(struct annotation){.name = "///"}), STATUS_USAGE);
    assert_int_equal(annotate("a", &(struct annotation){.name = "latest"}), STATUS_USAGE);
    assert_int_equal(run_get(store, "a", &run, &err), STATUS_OK);
    assert_string_equal(run.tags, "y 日本");
    assert_string_equal(run.name, "été-1");
    assert_null(strpbrk(run.note, "\n\033\a"));
    assert_int_equal(run_delete(store, "a", &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from tags where run_id = 'a'") == 0);
}

TEST_CASE_WITH(a_change_of_tags_note_and_name_is_made_in_all_runs_or_in_none, NULL, forget)
{
    static const char *const add[] = {"+another"}, *const ids[] = {"a", "b"};
    struct annotation change = {.tags = add, .tag_count = 1, .note = "changed", .name = "latest"};
    struct run_info run;
    char many[RUN_TAGS_MAX] = "";
    make("together");
    assert_int_equal(annotate("a", &change), STATUS_USAGE);
    while (strlen(many) + 4 < sizeof many) snprintf(many + strlen(many), 5, "t%02zu ", strlen(many) / 4);
    strcat(many, "t63"); /* 255 bytes */
    assert_int_equal(run_set_tags(store, "b", many, &err), STATUS_OK);
    assert_int_equal(run_get(store, "b", &run, &err), STATUS_OK);
    assert_string_equal(run.tags, many);
    change.name = NULL;
    assert_int_equal(runs_annotate(store, ids, 2, &change, &err), STATUS_USAGE); /* b has room for no tag */
    assert_int_equal(run_get(store, "a", &run, &err), STATUS_OK);
    assert_false(run_has_tag(&run, "another"));
    assert_string_not_equal(run.note, "changed");
    assert_int_equal(run_set_tags(store, "b", "few", &err), STATUS_OK);
    assert_int_equal(runs_annotate(store, ids, 2, &change, &err), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_get(store, ids[i], &run, &err), STATUS_OK);
        assert_true(run_has_tag(&run, "another"));
        assert_string_equal(run.note, "changed");
    }
}

TEST_CASE_WITH(a_tag_has_at_most_39_bytes_and_a_filter_at_most_32_levels, NULL, forget)
{
    static const char tag[] = "0123456789012345678901234567890123456789";
    make("longest");
    assert_int_equal(run_set_tags(store, "a", tag + 1, &err), STATUS_OK);
    assert_int_equal(run_set_tags(store, "a", tag, &err), STATUS_USAGE);
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    for (int levels = 31; levels <= 32; levels++) {
        char filter[100];
        snprintf(filter, sizeof filter, "%.*sid=a%.*s", levels, "((((((((((((((((((((((((((((((((", levels,
                 "))))))))))))))))))))))))))))))))");
        passing(filter);
        assert_int_equal(strstr(listing.filter.problem.why, "deep") != NULL, levels == 32);
    }
}

TEST_CASE_WITH(archived_runs_are_left_out_unless_the_filter_speaks_of_them, NULL, forget)
{
    static const char *const archive[] = {"+archived"};
    make("archived");
    assert_int_equal(change_tags("c", archive, 1), STATUS_OK);
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    assert_int_equal(listing.hidden, 1);
    expect("", "abde");
    expect("gamma", "");
    expect("tag=archived", "c");
    expect("archived or alpha", "ac");
}

TEST_CASE(a_name_may_be_in_any_script)
{
    static const struct {
        const char *name, *clean;
    } cases[] = {
        {"日本語", "日本語"},
        {"émigré", "émigré"},
        {"e\xcc\x81t\xc3\xa9", "été"}, /* composed */
        {"Ελλάδα 2", "Ελλάδα-2"},
        {"हिन्दी", "हिन्दी"},
        {"🚀 launch", "🚀-launch"},
        {"👍🏽 best", "👍🏽-best"},
        {"עברית", "עברית"},
        {"a/../b", "a-..-b"},
        {"..\\x", "x"},
        {"a\xe2\x80\xae"
         "b",
         "a-b"}, /* a mark that turns the direction of text */
        {"a\xff\xfe"
         "b",
         "a-b"},
        {"\033[31mred", "31mred"},
        {"a\u2028b\u00a0c", "a-b-c"},
        {"my long run", "my-long-run"},
        {"end.-.", "end"},
        {"...", NULL},
        {"", NULL},
        {NULL, NULL},
    };
    char name[RUN_NAME_CLEAN_MAX], longer[400];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(run_name_clean(cases[i].name, name, sizeof name), cases[i].clean != NULL);
        assert_string_equal(name, cases[i].clean ? cases[i].clean : "run");
    }
    for (size_t i = 0; i + 3 < sizeof longer; i += 3) memcpy(longer + i, "日", 4);
    assert_true(run_name_clean(longer, name, sizeof name));
    assert_int_equal(strlen(name), 63); /* whole characters */
    assert_int_equal(strspn(name, "日"), 63);
}

static double disk_of(const char *id)
{
    size_t i = 0;
    while (strcmp(listing.runs[i].id, id) != 0) i++;
    return listing_value(&listing, 0, i)->number;
}

static void write_at(const char *folder, const char *name, size_t size)
{
    char path[2000], bytes[65536] = "x";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

TEST_CASE_WITH(what_an_ended_run_takes_on_the_disk_is_read_again_when_its_folder_has_changed, NULL, forget)
{
    char folder[1200], step[1300], checkpoints[1300];
    const struct timespec old[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    const struct listing_request request = {.columns = "disk"};
    make("disk");
    snprintf(folder, sizeof folder, "%s/runs/a", home);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    snprintf(step, sizeof step, "%s/step-1", checkpoints);
    assert_int_equal(file_make_folders(step, &err), STATUS_OK);
    write_at(step, "file", 65536);
    assert_true(!utimensat(AT_FDCWD, folder, old, 0) && !utimensat(AT_FDCWD, checkpoints, old, 0));
    assert_int_equal(listing_set(&listing, store, &request, true, &err), STATUS_OK);
    double first = disk_of("a");
    assert_true(first >= 65536);
    write_at(step, "file", 65536); /* nobody does that: it shows that the files were not looked at */
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    assert_true(disk_of("a") == first);
    assert_int_equal(mkdir(strcat(checkpoints, "/step-2"), 0777), 0);
    assert_int_equal(listing_read(&listing, store, &err), STATUS_OK);
    assert_true(disk_of("a") >= first + 65536);
    expect("disk>=128KiB disk<1GB", "a");
    expect("disk>0.1M", "a");
    expect("disk>1g", "");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
