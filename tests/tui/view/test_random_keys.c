/* Keys, texts, movements of the mouse, sizes of the terminal and changes of the store, all at random: the
 * workbench draws what a terminal can show, draws it again alike, and can be left. ANNEAL_TEST_SEED=7 begins
 * with that one of the sequences. */
#include <locale.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/long.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/evil_store.h"
#include "tests/tui/view/headless.h"
#include "tests/tui/widget/cells.h"

static struct {
    uint32_t seed, drawn;
    char last[40][64]; /* the newest actions, which a failure prints */
    uint32_t done;
} story;

static uint32_t at_random(size_t below)
{
    return philox4x32_10(story.drawn++, story.seed, 0, 0, 0x6B657973, 0).word[0] % (uint32_t)below;
}

#define COUNT(array)  (sizeof(array) / sizeof *(array))
#define ONE_OF(array) (array)[at_random(COUNT(array))]

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(story.last[story.done++ % COUNT(story.last)], sizeof *story.last, format, values);
    va_end(values);
}

/* Fails the test, and says what led there. */
static void fail_at(const struct workbench *workbench, const char *what)
{
    size_t n = story.done < COUNT(story.last) ? story.done : COUNT(story.last);
    for (size_t i = story.done - n; i < story.done; i++)
        print_error("%s; ", story.last[i % COUNT(story.last)]);
    fail_msg("sequence %u, action %u, view %d, message \"%s\": %s", story.seed, story.done,
             workbench->stack[workbench->depth - 1].ops->context, workbench->message, what);
}

/* ---- what is done ---- */

/* A name gets no slash, so that charts are saved in the folder of the test. */
static void press(struct workbench *workbench, uint32_t code)
{
    if (code != '/' || !(workbench->prompted || workbench->typing)) workbench_key(workbench, code);
}

static void press_a_key(struct workbench *workbench)
{
    char name[COMMAND_NAME_MAX];
    enum key_context here = workbench->stack[workbench->depth - 1].ops->context;
    const struct key *key;
    do key = &keys[at_random(KEY_COUNT)];
    while (key->context != here && (key->context != CONTEXT_ANY || at_random(4)));
    if (key->action == ACTION_BACK && at_random(4)) return; /* the list would be seen most of the time */
    note("%s", command_name(key->action, name));
    if (key_is_mouse(key->code)) {
        struct pointer at = {(int)at_random(220), (int)at_random(70), (int)at_random(3) - 1};
        workbench_mouse(workbench, key->code, &at);
    } else if (key->code) {
        press(workbench, key->code);
    } else {
        workbench_key(workbench, K_F2);
        headless_type(workbench, name);
        if (!at_random(3)) headless_type(workbench, " 1e9");
        workbench_key(workbench, K_ENTER);
    }
}

static void press_any(struct workbench *workbench)
{
    static const uint32_t codes[] = {'0',     '9',       'e',      '-',      '.',         ' ',
                                     0x65E5,  0x1F680,   0x301,    K_TAB,    K_BACKSPACE, K_DELETE,
                                     K_UP,    K_DOWN,    K_LEFT,   K_RIGHT,  K_HOME,      K_END,
                                     K_ENTER, K_PAGE_UP, K_ESCAPE, K_REPORT, K_BACK_TAB,  K_PAGE_DOWN,
                                     K_PASTE, K_OTHER,   K_PASTE,  K_ENTER,  K_PASTE_END};
    uint32_t code = at_random(2) ? ONE_OF(codes) : 1 + at_random(126);
    note("U+%04X", code);
    press(workbench, code);
}

static void change_store(struct workbench *workbench, const char *home)
{
    static const char *const changes[] = {
        "update runs set status = case abs(random() % 4) when 0 then 'running' when 1 then 'finished'"
        " when 2 then 'paused' else 'failed' end, name = substr(name || 'xyz', abs(random() % 4) + 1)",
        "insert or ignore into steps(run_id, segment, step, loss)"
        " select id, 1, 100000 + abs(random() % 1000), random() / 1e18 from runs",
        "delete from steps where random() % 10 = 0",
        "delete from checkpoints where random() % 4 = 0",
        "delete from samples where random() % 4 = 0",
        "delete from events where random() % 4 = 0",
        "insert or ignore into tags(run_id, tag) select id, 'sweep:b' from runs where random() % 3 = 0",
        "delete from tags where random() % 3 = 0",
    };
    note("the store changes");
    store_fixture_sql(home, ONE_OF(changes));
    workbench_tick(workbench, workbench->now + 1);
}

static void act(struct workbench *workbench, const char *home)
{
    uint32_t kind = at_random(100);
    if (kind < 60)
        press_a_key(workbench);
    else if (kind < 90)
        press_any(workbench);
    else if (kind < 97)
        workbench_tick(workbench, workbench->now + (at_random(2) ? 0.1 : at_random(100)));
    else
        change_store(workbench, home);
    if (workbench->asked && at_random(2)) workbench_key(workbench, 'y');
    workbench->left = false;
}

/* ---- what must be true ---- */

static void look(struct workbench *workbench)
{
    int w = 1 + (int)at_random(at_random(4) ? 220 : 30), h = 1 + (int)at_random(at_random(4) ? 70 : 8);
    struct grid grid = headless_draw(workbench, w, h), again = headless_draw(workbench, w, h);
    for (int i = 0; i < w * h; i++) {
        const struct cell *one = &grid.cells[i], *other = &again.cells[i];
        bool part = one->glyph == GRID_CONTINUATION;
        if (!part && (one->glyph < ' ' || (one->glyph >= 0x7F && one->glyph < 0xA0)))
            fail_at(workbench, "a control character is drawn");
        if (part && (i % w == 0 || glyph_width(one[-1].glyph) != 2))
            fail_at(workbench, "half of a character");
        if (!workbench->working && /* which shows for how long */
            (one->glyph != other->glyph || one->style != other->style || one->attr != other->attr))
            fail_at(workbench, "a second drawing differs from the first");
    }
    grid_release(&grid);
    grid_release(&again);
}

/* Esc may have to end text that is pasted, and what runs, which takes a moment. */
static void leave(struct workbench *workbench)
{
    workbench_key(workbench, K_PASTE_END);
    for (int i = 0; i < 100 && !workbench->left; i++) {
        workbench_key(workbench, K_ESCAPE);
        workbench_tick(workbench, workbench->now + 0.1);
        if (workbench->working) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (workbench->depth == 1 && !workbench->prompted && !workbench->helping)
            workbench_key(workbench, 'q');
    }
    if (!workbench->left) fail_at(workbench, "Esc and q do not leave");
}

TEST_CASE(no_sequence_of_keys_breaks_the_workbench)
{
    char home[1024];
    const char *seed = getenv("ANNEAL_TEST_SEED");
    assert_int_equal(chdir(getenv("ANNEAL_TEST_DIR")), 0);
    story.seed = seed && *seed ? (uint32_t)strtoul(seed, NULL, 10) : 1;
    for (uint32_t end = story.seed + (uint32_t)long_or(300, 6); story.seed < end; story.seed++) {
        story.drawn = story.done = 0;
        evil_store("random", home, sizeof home);
        struct workbench *workbench = headless_open(home, NULL);
        for (int i = 0; i < 1500; i++) {
            act(workbench, home);
            look(workbench);
        }
        leave(workbench);
        headless_close(workbench);
    }
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    (void)argv;
    if (argc > 1) return 1; /* the workbench starts this program as its trainer, and for commands */
    return TEST_RUN(NULL, NULL);
}
