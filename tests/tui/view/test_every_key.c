/* Every view and every key of tui/keymap.def, on runs whose records are hostile. First on a grid, where each
 * picture is looked at cell by cell; then the real binary in five terminals of four sizes. A view that is new
 * needs a line in `views`, a key none. */
#include <locale.h>
#include <signal.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/tui/view/evil_store.h"
#include "tests/tui/view/headless.h"
#include "tests/tui/view/terminal_fixture.h"
#include "tests/tui/widget/cells.h"

/* From the list with a run selected to each view. The keys that change the list's runs come last. */
static const struct {
    const struct view_ops *ops;
    const char *path;
    const char *until; /* the words after which it changes no more by itself; NULL: it never does */
} views[] = {
    {&run_view, "\r", NULL},
    {&charts_view, "\rx", NULL},
    {&memory_view, "\rM", NULL},
    {&profile_view, "\rP", NULL},
    {&stopping_view, "\rE", NULL},
    {&configuration_view, "\ri", NULL},
    {&log_view, "\rw", NULL},
    {&checkpoints_view, "\rC", NULL},
    {&output_view, "\rCenowhere.txt\r", "failed"},
    {&rate_view, "b\x06", "failed"},
    {&playground_view, "P", NULL},
    {&form_view, "\rCf", NULL},
    {&form_view, "b", NULL},
    /* no run may have that name or begin with that model, so that neither a run nor a search is started */
    {&form_view, "nlatest\t\tnowhere", NULL},
    {&compare_view, "aC", NULL},
    {&sweep_view, "W", NULL},
    {&columns_view, "v", NULL},
    {&runs_view, "", NULL},
};
enum { VIEWS = sizeof views / sizeof *views };

/* After which keys of a view something else is in front: found on the grid, used in the terminals. */
static enum { STAYS, ASKS, LEAVES } after[VIEWS][KEY_COUNT];

#define TITLE(name, title) [CONTEXT_##name] = (title),
static const char *const titles[CONTEXT_COUNT] = {CONTEXTS(TITLE)};

/* Columns and rows. */
static const int sizes[][2] = {{40, 10}, {80, 24}, {120, 40}, {200, 60}};
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST_CASE(every_view_can_be_reached)
{
    bool reached[CONTEXT_COUNT] = {[CONTEXT_ANY] = true, [CONTEXT_CONFIRM] = true};
    for (int v = 0; v < VIEWS; v++) reached[views[v].ops->context] = true;
    for (int c = 0; c < CONTEXT_COUNT; c++)
        if (!reached[c]) fail_msg("no line of `views` leads to \"%s\"", titles[c]);
}

/* --- on a grid --- */

static const struct view_ops *top(const struct workbench *workbench)
{
    return workbench->stack[workbench->depth - 1].ops;
}

/* Every cell is one that a terminal can show, and the halves of wide characters stand together. */
static void look(struct workbench *workbench, const char *where)
{
    for (int s = 0; s < SIZES; s++) {
        struct grid grid = headless_draw(workbench, sizes[s][0], sizes[s][1]);
        bool second = false;
        for (int i = 0; i < grid.w * grid.h; i++) {
            uint32_t glyph = grid.cells[i].glyph;
            int width = glyph == GRID_CONTINUATION ? 0 : glyph_width(glyph);
            bool control = glyph != GRID_CONTINUATION && (glyph < ' ' || (glyph >= 0x7F && glyph < 0xA0));
            if (control || second != (width == 0) || (width == 2 && i % grid.w == grid.w - 1))
                fail_msg("%s, at %d x %d: cell %d, %d is U+%04X", where, grid.w, grid.h, i % grid.w,
                         i / grid.w, glyph);
            second = width == 2;
        }
        grid_release(&grid);
    }
}

static void go(struct workbench *workbench, int view, int run)
{
    workbench->left = false;
    while (workbench->depth > 1 || workbench->helping || workbench->asked || workbench->prompted)
        workbench_key(workbench, K_ESCAPE), workbench_tick(workbench, workbench->now);
    for (int i = 0; i < 2; i++) workbench_key(workbench, K_ESCAPE); /* a filter, while it is typed and then */
    workbench->left = false;
    headless_type(workbench, "g");
    headless_press(workbench, 'j', run);
    headless_type(workbench, views[view].path);
    if (top(workbench) != views[view].ops) headless_type(workbench, views[view].path); /* `a` marks none */
}

/* Presses key k in view v and answers what it asks. */
static void press(struct workbench *workbench, int v, size_t k, const char *where)
{
    const struct key *key = &keys[k];
    static const struct pointer points[] = {{0, 0, -1}, {30, 5, 1}, {199, 59, 1}, {1 << 14, 1 << 14, -1}};
    static const uint32_t typed[] = {'9', 0x65E5, 0x1F680, 0x301, K_TAB, 'x', K_LEFT, K_ENTER};
    char command[COMMAND_NAME_MAX];
    if (key_is_mouse(key->code)) {
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
            workbench_mouse(workbench, key->code, &points[i]);
    } else if (key->code) {
        workbench_key(workbench, key->code);
    } else {
        workbench_key(workbench, K_F2);
        headless_type(workbench, command_name(key->action, command));
        workbench_key(workbench, K_ENTER);
    }
    look(workbench, where);
    if (workbench->asked || workbench->prompted || workbench->helping) after[v][k] = ASKS;
    if (top(workbench) != views[v].ops || workbench->left) after[v][k] = LEAVES;
    if (workbench->asked) workbench_key(workbench, 'y');
    for (size_t i = 0; workbench->prompted && i < sizeof typed / sizeof *typed; i++) {
        workbench_key(workbench, typed[i]);
        if (i == 2) look(workbench, where);
    }
    workbench_tick(workbench, workbench->now + 1);
    look(workbench, where);
}

TEST_CASE(no_key_draws_what_a_terminal_cannot_show)
{
    char home[1024], where[200], name[COMMAND_NAME_MAX];
    for (int run = 0; run < 6; run++) {
        evil_store("grid", home, sizeof home);
        for (int v = 0; v < VIEWS; v++) {
            struct workbench *workbench = headless_open(home, NULL);
            enum key_context context = views[v].ops->context;
            go(workbench, v, run);
            if (run == 0 && top(workbench) != views[v].ops)
                fail_msg("\"%s\" leads elsewhere: %s", views[v].path, workbench->message);
            for (size_t k = 0; k < KEY_COUNT && top(workbench) == views[v].ops; k++) {
                if (keys[k].context != context && keys[k].context != CONTEXT_ANY) continue;
                snprintf(where, sizeof where, "run %d, %s by \"%s\", %s", run, titles[context], views[v].path,
                         command_name(keys[k].action, name));
                press(workbench, v, k, where);
                if (after[v][k] || top(workbench) != views[v].ops) go(workbench, v, run);
            }
            headless_close(workbench);
        }
    }
}

/* --- in terminals --- */

static const struct {
    const char *term, *more, *function; /* `function`: the first bytes of F1 to F4 */
    char f1;
} terminals[] = {{"xterm-256color", NULL, "\033O", 'P'},
                 {"screen", NULL, "\033O", 'P'},
                 {"linux", NULL, "\033[[", 'A'},
                 {"vt100", "LC_ALL=C", "\033O", 'P'},
                 {"xterm-nonesuch", "NO_COLOR=1", "\033O", 'P'}};

/* The bytes that terminal t sends for a key; for a command without a key, its name. */
static char *bytes_of(const struct key *key, size_t t, char buf[64])
{
    static const struct {
        uint32_t code;
        const char *bytes;
    } named[] = {{K_UP, "\033[A"},          {K_DOWN, "\033[B"},        {K_RIGHT, "\033[C"},
                 {K_LEFT, "\033[D"},        {K_HOME, "\033[H"},        {K_END, "\033[F"},
                 {K_PAGE_UP, "\033[5~"},    {K_PAGE_DOWN, "\033[6~"},  {K_BACK_TAB, "\033[Z"},
                 {K_MOVE, "\033[<35;6;5M"}, {K_CLICK, "\033[<0;3;4M"}, {K_DRAG, "\033[<32;9;4M"},
                 {K_WHEEL, "\033[<64;6;5M"}};
    char command[COMMAND_NAME_MAX];
    if (!key->code)
        snprintf(buf, 64, "%s%c%s\r", terminals[t].function, terminals[t].f1 + 1,
                 command_name(key->action, command));
    else if (key->code >= K_F1 && key->code <= K_F4)
        snprintf(buf, 64, "%s%c", terminals[t].function, terminals[t].f1 + (int)(key->code - K_F1));
    else
        snprintf(buf, 64, "%c", (int)key->code);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i].code == key->code) snprintf(buf, 64, "%s", named[i].bytes);
    return buf;
}

static char *f1_of(size_t t, char buf[64])
{
    return bytes_of(&(struct key){.code = K_F1}, t, buf);
}

/* The last words of the help: when they are there, all of it is, and what was drawn before. */
static const char help_end[] = "key closes";

/* Back to the list, whatever is open, where the settings of this test leave Esc without a meaning; then to
 * the view, on the first run. Esc only ends what runs in a view. */
static void pty_go(struct pty *pty, size_t t, int view)
{
    char f1[64];
    for (bool home = false; !home;) {
        pty_send(pty, "\033\033\033\033\033\033\033\033\033");
        pty_send(pty, f1_of(t, f1));
        pty_wait_text(pty, help_end);
        home = pty_has_text(pty, titles[CONTEXT_RUNS]);
        pty_send(pty, "x"); /* Esc alone would take 25 ms */
        pty_wait_no_text(pty, help_end);
    }
    pty_send(pty, "g");
    pty_send(pty, views[view].path);
    if (views[view].until) pty_wait_no_text(pty, "6 runs"); /* some of which have failed */
    if (views[view].until) pty_wait_text(pty, views[view].until);
}

/* Opens a view, and its help, which names it; what is drawn bit by bit is what is drawn at once. */
static void see_view(struct pty *pty, size_t t, int view)
{
    char f1[64];
    pty_go(pty, t, view);
    pty_send(pty, f1_of(t, f1));
    pty_wait_text(pty, titles[views[view].ops->context]);
    pty_wait_text(pty, help_end);
    pty_send(pty, "\033");
    pty_wait_no_text(pty, help_end);
    pty_send(pty, f1);
    pty_wait_text(pty, help_end);
    if (views[view].ops != &form_view) pty_expect_redraw(pty, "\x0c"); /* its estimate may come meanwhile */
}

static void use_terminal(const char *environment, size_t t, const int size[2])
{
    struct pty *pty =
        terminal_open(environment, size[1], size[0], terminals[t].term, terminals[t].more, NULL);
    char bytes[64];
    pty_wait_text(pty, "6 runs");
    for (int v = 0; v < VIEWS; v++) {
        see_view(pty, t, v);
        pty_send(pty, "x");
        bool away = false;
        for (size_t k = 0; k < KEY_COUNT; k++) {
            bool leaves = keys[k].action == ACTION_LEAVE ||
                          (keys[k].context == CONTEXT_RUNS && keys[k].action == ACTION_BACK);
            if ((keys[k].context != views[v].ops->context && keys[k].context != CONTEXT_ANY) || leaves)
                continue;
            if (away) pty_go(pty, t, v);
            pty_send(pty, bytes_of(&keys[k], t, bytes));
            if (after[v][k] == ASKS) pty_send(pty, "\033\033[I"); /* Escape, not Alt and the next key */
            away = after[v][k] == LEAVES;
        }
    }
    see_view(pty, t, VIEWS - 1);
    pty_send(pty, "xq");
    assert_int_equal(pty_wait_exit(pty), 0);
    assert_true(pty_modes_restored(pty));
    assert_false(pty_on_alternate_screen(pty));
    static const char *const never[] = {"\033]0;", "\a", "\033[31mred", "\033[5m", "\xC2\x9B"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(pty_raw(pty), never[i])) fail_msg("%s gets \"%s\"", terminals[t].term, never[i] + 1);
    pty_close(pty);
}

TEST_CASE(every_key_works_in_every_terminal)
{
    char home[1024], environment[1100], path[1100];
    static const char settings[] = "key.runs.back = q\n";
    struct err err = {0};
    evil_store("terminals", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    for (size_t t = 0; t < sizeof terminals / sizeof *terminals; t++)
        for (int s = 0; s < SIZES; s++) {
            assert_int_equal(file_write_atomic(path, settings, sizeof settings - 1, &err), STATUS_OK);
            use_terminal(environment, t, sizes[s]);
        }
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    (void)argv;
    if (argc > 1) { /* the workbench starts this program as its trainer, and for commands */
        fputs("\033]0;owned\a\033[31m日本語 \xff\n", stdout);
        fputs("anneal: \033[2Jno such 🚀\n", stderr);
        return 1;
    }
    return TEST_RUN(NULL, NULL);
}
