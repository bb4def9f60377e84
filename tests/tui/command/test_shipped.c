/* The binary in a folder as made by `make bundle` or `make install` finds its files there; make finds its
 * headers. packaging/check.sh tests the bundle itself. */
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

static void copy_program(const char *to)
{
    struct file_map map;
    struct err err = {0};
    assert_int_equal(file_map_open(getenv("ANNEAL_BINARY"), &map, &err), STATUS_OK);
    stage_write(to, map.data, map.size);
    assert_int_equal(chmod(to, 0755), 0);
    file_map_close(&map);
}

STAGE_CASE(a_shipped_corpus_needs_no_package, struct stage *s)
{
    static const char text[] = "Genesis 1\n\nIn the beginning\n";
    static const char *const words[] = {"data", "fetch", "kjv", NULL}, *const environment[] = {
                                                                           "PATH=/nonexistent", NULL};
    struct err err = {0};
    char folder[700], path[800];
    snprintf(folder, sizeof folder, "%s/bundle/bin", s->folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    char *program = kept_format("%.600s/anneal", folder);
    copy_program(program);
    const struct process_options options = {
        .arguments = words, .environment = environment, .program = program};

    process_expect_sentence(process_expect(1, process_open(&options)), "apt install bible-kjv");

    snprintf(folder, sizeof folder, "%s/bundle/share/anneal", s->folder);
    assert_int_equal(file_make_folders(folder, &err), STATUS_OK);
    snprintf(path, sizeof path, "%.600s/kjv.txt", folder);
    stage_write(path, text, sizeof text - 1);
    struct process *fetched = process_expect(0, process_open(&options));
    snprintf(path, sizeof path, "%s/data/kjv.txt\n", s->home);
    assert_string_equal(process_stdout(fetched), path);
    path[strlen(path) - 1] = '\0';
    char *got = stage_read(path);
    assert_string_equal(got, text);
}

/* `make TARGET` of a build whose files are those in `build`, into `root`. */
static void make_target(const char *target, const char *build, const char *root)
{
    static const char *const environment[] = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", NULL};
    char words[8][900];
    snprintf(words[0], sizeof words[0], "BUILD=%s", build);
    snprintf(words[1], sizeof words[1], "DESTDIR=%s", root);
    for (int i = 0; i < 4; i++)
        snprintf(words[2 + i], sizeof words[2], "%s/%s", build,
                 (const char *const[]){"anneal", "anneal_heap.so", "anneal_cuda.so", "man/anneal.1"}[i]);
    process_expect_within(
        60, 0,
        process_open(&(struct process_options){
            .program = "/usr/bin/make",
            .environment = environment,
            .arguments = (const char *const[]){target, "-s", "SAN=", "CUDA=1", "NVCC=/bin/true", words[0],
                                               words[1], "PREFIX=/opt/my own", "-o", words[2], "-o", words[3],
                                               "-o", words[4], "-o", words[5], NULL}}));
}

/* The links between the pages below `root`, from page to page and to pictures. */
static void expect_links_that_lead_somewhere(const char *root)
{
    static const char script[] =
        "cd 'opt/my own/share/doc/anneal' && for page in *.md docs/*.md docs/*/*.md; do"
        " grep -oE '\\]\\([^)#:]+[)#]|src(set)?=\"[^\":]+\"' \"$page\" | sed -E "
        "'s/^(\\]\\(|.*=\")(.*).$/\\2/' |"
        " while read -r link; do"
        " [ -e \"$(dirname \"$page\")/$link\" ] || echo \"$page links to $link\"; done; done";
    struct process *links = process_expect(
        0,
        process_open(&(struct process_options){
            .program = "/bin/sh", .folder = root, .arguments = (const char *const[]){"-c", script, NULL}}));
    assert_string_equal(process_stdout(links), "");
}

STAGE_CASE(what_is_installed_is_where_the_binary_looks_and_is_removed_again, struct stage *s)
{
    static const char *const names[] = {
        "bin/anneal",
        "lib/anneal/anneal_heap.so",
        "lib/anneal/anneal_cuda.so",
        "share/man/man1/anneal.1",
        "share/man/man1/anneal-train.1",
        "share/man/man5/anneal.ini.5",
        "share/bash-completion/completions/anneal",
        "share/zsh/site-functions/_anneal",
        "share/fish/vendor_completions.d/anneal.fish",
        "share/doc/anneal/LICENSE",
        "share/doc/anneal/README.md",
        "share/doc/anneal/docs/reference/commands.md",
    };
    static const char *const environment[] = {"ANNEAL_CUDA_PLUGIN", NULL};
    struct err err = {0};
    char path[800];
    if (!file_exists("/usr/bin/make")) skip();
    char *build = kept_format("%.500s/build", s->folder);
    char *root = kept_format("%.500s/a root", s->folder);
    assert_int_equal(file_make_folders(build, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/anneal", build);
    copy_program(path);
    snprintf(path, sizeof path, "%s/man", build);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    for (int i = 1; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s%s", build, i < 3 ? "" : "man/", strrchr(names[i], '/') + 1);
        stage_write(path, "no library", 10);
    }
    make_target("install", build, root);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/opt/my own/%s", root, names[i]);
        if (!file_exists(path)) fail_msg("%s is not installed", path);
    }
    expect_links_that_lead_somewhere(root);
    snprintf(path, sizeof path, "%s/opt/my own/bin/anneal", root);
    struct process *devices = process_expect(
        0, process_open(&(struct process_options){.program = path,
                                                  .environment = environment,
                                                  .arguments = (const char *const[]){"devices", NULL}}));
    assert_non_null(
        strstr(process_stdout(devices), "/lib/anneal/anneal_cuda.so: ")); /* found, and no library */
    struct process *train =
        process_expect(2, process_open(&(struct process_options){
                              .program = path,
                              .arguments = (const char *const[]){"train", s->config, "--device=cpu",
                                                                 "--check-allocations", NULL}}));
    assert_non_null(strstr(process_stderr(train), "cannot count heap allocations")); /* found, tried once */
    snprintf(path, sizeof path, "%s/opt/my own/share/man/man1/other.1", root);       /* somebody else's */
    stage_write(path, "", 0);
    make_target("uninstall", build, root);
    struct process *left = process_expect(
        0, process_open(&(struct process_options){
               .program = "/bin/sh",
               .folder = root,
               .arguments = (const char *const[]){"-c", "cd 'opt/my own' && find * | sort", NULL}}));
    assert_string_equal(process_stdout(left),
                        "bin\nlib\nshare\nshare/man\nshare/man/man1\nshare/man/man1/other.1\n");
}

/* -g3 puts the definitions of all macros into the preprocessor's output, which the check for headers reads.
 */
STAGE_CASE(a_build_for_a_debugger_finds_the_headers, struct stage *s)
{
    static const char *const environment[] = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", NULL};
    if (!file_exists("/usr/bin/make")) skip();
    char *build = kept_format("BUILD=%.500s/build", s->folder);
    char *headers = kept_format("%.500s/build/headers", s->folder);
    process_expect_within(
        60, 0,
        process_open(&(struct process_options){
            .program = "/usr/bin/make",
            .environment = environment,
            .arguments = (const char *const[]){"-s", "SAN=", "CUDA=0", "DEBUG=1", build, headers, NULL}}));
    assert_true(file_exists(headers));
}

TEST_MAIN()
