/* Forty processes at one ledger: they train, wait, give up waiting, pass, and are killed in the midst of it.
 * Each also writes its memory to a page that all share, apart from the ledger, so the test detects when
 * together they hold more than there is. */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"

enum {
    MIB = 1 << 20,
    CHILDREN = 40,
    FIRST = CHILDREN,
    TURNS = 4,
    LIMIT = 900,
    DOOMED_EVERY = 5,
    PATIENCE_MS = 300000,
    DEADLINE_S = 850
};

static const struct ledger_room room = {"gpu", "gpu", (int64_t)1000 * MIB, 0, 0.1, 0, false};

enum kind { WAITS, GIVES_UP, PASSES, TRIES, KINDS };

/* Of all processes. */
struct board {
    atomic_int held[CHILDREN + 1]; /* MiB; the last is FIRST's */
    atomic_bool doomed[CHILDREN];
    atomic_int most, turns, gave_up, together; /* together: the most that held at once */
};

static struct board *board;

static bool is_doomed(int number)
{
    return number % DOOMED_EVERY == 0;
}

static const char *home(void)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/crowd", getenv("ANNEAL_TEST_DIR"));
    return path;
}

static void raise_to(atomic_int *most, int value)
{
    int seen = atomic_load(most);
    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value)) continue;
}

/* The memory of all processes that are not about to be killed. */
static void look_around(void)
{
    int sum = 0, count = 0;
    for (int i = 0; i <= CHILDREN; i++) {
        if (i < CHILDREN && atomic_load(&board->doomed[i])) continue;
        int bytes = atomic_load(&board->held[i]);
        sum += bytes;
        count += bytes > 0;
    }
    raise_to(&board->most, sum);
    raise_to(&board->together, count);
}

/* Retries until the request is granted; false: it has given up. */
static bool get(struct ledger *ledger, enum kind kind, const char *holder, int mib, int64_t *id)
{
    struct ledger_room mine = room;
    struct err err = {0};
    enum status status;
    bool queued = false;
    mine.passes = kind == PASSES;
    for (int tries = 0;; tries++) {
        status = ledger_reserve(ledger, &mine, holder, (int64_t)mib * MIB, id, &err);
        if (status != STATUS_BUSY) break;
        if (kind == GIVES_UP && tries == 20) return false;
        if (!queued && (kind == WAITS || kind == GIVES_UP)) {
            queued = true;
            if (ledger_wait(ledger, &mine, holder, (int64_t)mib * MIB, &err)) _exit(10);
        }
        usleep(1000);
    }
    if (status) {
        fprintf(stderr, "%s\n", err.text);
        _exit(11);
    }
    return true;
}

static void take_a_turn(int number, int turn)
{
    struct ledger *ledger;
    struct err err = {0};
    char holder[32];
    int64_t id;
    enum kind kind = (enum kind)(number % KINDS);
    struct philox_block r = philox4x32_10((uint32_t)number, (uint32_t)turn, 0, 0, 7, 0);
    int mib = 1 + (int)(r.word[0] % (kind == PASSES ? 300 : 600));
    snprintf(holder, sizeof holder, "child-%d", number);
    if (ledger_open(home(), PATIENCE_MS, &ledger, &err)) _exit(12);
    if (!get(ledger, kind, holder, mib, &id)) {
        atomic_fetch_add(&board->gave_up, 1);
        ledger_close(ledger);
        return;
    }
    atomic_store(&board->held[number], mib);
    for (int i = 0; i < 4; i++) {
        look_around();
        if (ledger_use(ledger, id, holder, (int64_t)mib * i / 4 * MIB, &err)) _exit(13);
    }
    atomic_store(&board->held[number], 0);
    atomic_fetch_add(&board->turns, 1);
    if (turn == TURNS - 1 && r.word[1] % 2 && !is_doomed(number))
        _exit(0); /* the last one's reservation dies with it */
    if (ledger_release(ledger, id, &err)) _exit(14);
    ledger_close(ledger);
}

static pid_t start(int number)
{
    pid_t child = fork();
    if (child) return child;
    for (int turn = 0; turn < TURNS || is_doomed(number); turn++) take_a_turn(number, turn);
    _exit(0);
}

/* Reserves and holds until `is_over`. */
static void hold(struct ledger *ledger, enum kind kind, int mib, bool (*is_over)(void))
{
    int64_t id;
    if (!get(ledger, kind, "first", mib, &id)) _exit(15);
    atomic_store(&board->held[FIRST], mib);
    while (!is_over()) usleep(200);
    atomic_store(&board->held[FIRST], 0);
    if (ledger_release(ledger, id, NULL)) _exit(16);
}

static bool one_gave_up(void)
{
    return atomic_load(&board->gave_up) > 0;
}

static bool two_held_at_once(void)
{
    return atomic_load(&board->together) > 1;
}

/* It has all there is when the others come, until the first of them has given up; then a little, until
 * another has held memory beside it. */
static pid_t start_first(void)
{
    struct ledger *ledger;
    pid_t child = fork();
    if (child) {
        while (!atomic_load(&board->held[FIRST])) usleep(200);
        return child;
    }
    if (ledger_open(home(), PATIENCE_MS, &ledger, NULL)) _exit(15);
    hold(ledger, TRIES, LIMIT, one_gave_up);
    hold(ledger, PASSES, 1, two_held_at_once);
    ledger_close(ledger);
    _exit(0);
}

/* Every fifth takes turns until it is killed, wherever it is just then: each once a few turns more have been
 * taken, the last one not before two have held at once; start_first sees to that. */
static void kill_some(const pid_t *children)
{
    int status;
    for (int i = 0; i < CHILDREN; i += DOOMED_EVERY) {
        int turns = atomic_load(&board->turns);
        bool last = i + DOOMED_EVERY >= CHILDREN;
        while (atomic_load(&board->turns) < turns + 3 || (last && !two_held_at_once())) usleep(200);
        atomic_store(&board->doomed[i], true);
        assert_int_equal(kill(children[i], SIGKILL), 0);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFSIGNALED(status));
    }
}

TEST_CASE(forty_processes_never_hold_more_than_there_is_and_all_get_their_turn)
{
    pid_t children[CHILDREN];
    struct ledger *ledger;
    struct reservation *rows;
    size_t count;
    int status, expected = 0;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    alarm(DEADLINE_S); /* a deadlock ends the test program */
    pid_t first = start_first();
    for (int i = 0; i < CHILDREN; i++) children[i] = start(i);
    kill_some(children);
    for (int i = 0; i < CHILDREN; i++) {
        if (is_doomed(i)) continue;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
        expected += TURNS;
    }
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    alarm(0);
    assert_in_range(board->most, LIMIT / 2, LIMIT); /* they did meet, and never had too much */
    assert_true(board->gave_up > 0);
    assert_true(board->turns + board->gave_up >= expected);
    assert_int_equal(ledger_open(home(), LEDGER_BUSY_MS, &ledger, NULL), STATUS_OK);
    assert_int_equal(ledger_list(ledger, NULL, &rows, &count, NULL), STATUS_OK);
    assert_int_equal(count, 0);
    free(rows);
    ledger_close(ledger);
    munmap(board, sizeof *board);
}

TEST_MAIN()
