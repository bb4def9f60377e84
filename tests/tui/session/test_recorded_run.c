/* How a word of the command line becomes a run, a checkpoint, a model's folder or adapters. */
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/stage.h"
#include "tui/session/loaded_model.h"
#include "tui/session/recorded_run.h"

/* A folder of the stage, made with its parents. */
static char *make_folder(const char *parent, const char *name)
{
    char *path = kept_format("%s/%s", parent, name);
    assert_int_equal(file_make_folders(path, NULL), STATUS_OK);
    return path;
}

/* A name of n letters. */
static char *letters(int n)
{
    return kept_format("%s", (char *)memset(kept(calloc((size_t)n + 1, 1), free), 'a', (size_t)n));
}

STAGE_CASE(the_run_of_a_checkpoint_is_known_by_its_folder, struct stage *s)
{
    const char *most = letters(RUN_ID_MAX - 1), *more = letters(RUN_ID_MAX);
    const struct {
        const char *folder, *run; /* NULL: none */
    } cases[] = {
        {"home/runs/a/checkpoints/step-1", "a"},
        {"home/runs/a/checkpoints/best/deeper", "a"},
        {"home/runs/a/checkpoints", NULL},
        {"home/runs/a/others/step-1", NULL},
        {"home/runs/a", NULL},
        {"home/runs", NULL},
        {"home/runs2/a/checkpoints/step-1", NULL},
        {"home/running/checkpoints/step-1", NULL},
        {"elsewhere/runs/a/checkpoints/step-1", NULL},
        {kept_format("home/runs/%s/checkpoints/step-1", most), most},
        {kept_format("home/runs/%s/checkpoints/step-1", more), NULL},
    };
    char id[RUN_ID_MAX];
    assert_false(recorded_run_of(make_folder(s->folder, "early/checkpoints/step-1"), id)); /* no home yet */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = make_folder(s->folder, cases[i].folder);
        bool found = recorded_run_of(folder, id);
        if (found != (cases[i].run != NULL)) fail_msg("%s: %d", cases[i].folder, found);
        if (found) assert_string_equal(id, cases[i].run);
    }
    assert_false(recorded_run_of(kept_format("%s/nowhere", s->folder), id));
}

STAGE_CASE(a_folder_in_place_of_a_name_is_that_of_a_run_here, struct stage *s)
{
    const char *more = letters(RUN_ID_MAX);
    char id[RUN_ID_MAX];
    struct recorded_run run;
    struct err err = {0};
    char *other = make_folder(s->folder, "elsewhere/runs/a");
    const char sentence[] = "is not the folder of a run below ";
    assert_int_equal(recorded_run_read(other, &run, &err), STATUS_USAGE); /* no home yet */
    assert_non_null(strstr(err.text, sentence));
    store_fixture_run(s->home, "here", id);
    const char *const folders[] = {other, s->home, make_folder(s->home, "runs/deep/er"),
                                   make_folder(s->home, kept_format("runs/%s", more))};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        assert_int_equal(recorded_run_read(folders[i], &run, &err), STATUS_USAGE);
        if (!strstr(err.text, sentence)) fail_msg("%s", err.text);
        recorded_run_release(&run);
    }
    char *folder = kept_format("%s/runs/%s", s->home, id), *link = kept_format("%s/link", s->folder);
    assert_int_equal(symlink(folder, link), 0);
    const char *const words[] = {folder, kept_format("%s/", folder), link, id, "here"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (recorded_run_read(words[i], &run, &err)) fail_msg("%s: %s", words[i], err.text);
        assert_string_equal(run.info.id, id);
        recorded_run_release(&run);
    }
}

STAGE_CASE(a_step_and_the_best_one_are_asked_of_runs, struct stage *s)
{
    char id[RUN_ID_MAX], *model = make_folder(s->folder, "model");
    stage_write(kept_format("%s/config.json", model), "{}", 2);
    store_fixture_run(s->home, "bare", id);
    const struct {
        struct model_choice choice;
        enum status status;
        const char *sentence; /* NULL: it is the folder itself */
    } cases[] = {
        {{.source = model, .step = -1}, STATUS_OK, NULL},
        {{.source = model, .step = 0}, STATUS_USAGE, "is a checkpoint folder, --step is for runs"},
        {{.source = model, .step = -1, .best = true}, STATUS_USAGE, "--best is for runs"},
        {{.source = model, .step = 0, .best = true}, STATUS_USAGE, "give --best or --step, not both"},
        {{.source = "bare", .step = 7, .best = true}, STATUS_USAGE, "give --best or --step, not both"},
        {{.source = "bare", .step = -1}, STATUS_NOT_FOUND, "there is no checkpoint below "},
        {{.source = "bare", .step = 0}, STATUS_NOT_FOUND, "there is no checkpoint below "},
        {{.source = "bare", .step = -1, .best = true}, STATUS_NOT_FOUND, "no checkpoint of a best step"},
        {{.source = s->folder, .step = -1}, STATUS_NOT_FOUND, "the folder holds no config.json"},
        {{.source = s->corpus, .step = -1}, STATUS_NOT_FOUND, "is neither a run nor the folder of a model"},
        {{.source = "/no/where", .step = -1}, STATUS_NOT_FOUND, "/no/where: there is no such folder"},
        {{.source = "bear", .step = -1}, STATUS_NOT_FOUND, "and no imported model of this name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_choice choice = cases[i].choice;
        struct err err = {0};
        char folder[PATH_MAX];
        enum status status = model_choice_find(&choice, folder, sizeof folder, NULL, &err);
        if (status != cases[i].status || (status && !strstr(err.text, cases[i].sentence)))
            fail_msg("case %zu: %d, %s", i, status, err.text);
        if (!status) assert_string_equal(folder, model);
    }
}

STAGE_CASE(adapters_are_a_list_of_at_most_so_many, struct stage *s)
{
    static char folders[ADAPTER_STACK_MAX][PATH_MAX];
    struct checkpoint_hold holds[ADAPTER_STACK_MAX];
    struct err err = {0};
    int count;
    char *adapters = make_folder(s->folder, "adapters"), *list = kept_format("%s", adapters);
    stage_write(kept_format("%s/adapter_config.json", adapters), "{}", 2);
    for (int i = 1; i <= ADAPTER_STACK_MAX; i++, list = kept_format("%s,%s", list, adapters)) {
        assert_int_equal(loaded_model_adapters(list, "loading", folders, holds, &count, &err), STATUS_OK);
        assert_int_equal(count, i);
        assert_string_equal(folders[i - 1], adapters);
    }
    assert_int_equal(loaded_model_adapters(list, "loading", folders, holds, &count, &err), STATUS_USAGE);
    assert_string_equal(err.text, "at most 8 adapters are added up");
    list = kept_format("%s,,%s", adapters, adapters);
    assert_int_equal(loaded_model_adapters(list, "loading", folders, holds, &count, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "an adapter without a name"));
    char *bare = make_folder(s->folder, "bare");
    stage_write(kept_format("%s/config.json", bare), "{}", 2);
    list = kept_format("%s,%s", adapters, bare);
    assert_int_equal(loaded_model_adapters(list, "loading", folders, holds, &count, &err), STATUS_USAGE);
    assert_int_equal(count, 1);
    assert_non_null(strstr(err.text, "bare: holds no adapters"));
}

TEST_MAIN()
