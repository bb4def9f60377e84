/* See traced.h. */
#include "tests/tui/command/traced.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"

const char *const traced_words[TRACED_KINDS] = {"open", "read",   "write", "truncate", "sync", "rename",
                                                "link", "remove", "mkdir", "mmap",     "lock"};

/* Which argument is which, counted from 1; 0: it has none. */
static const struct shape {
    long number;
    enum traced_kind kind;
    unsigned char fd, folder, path, to_folder, to, flags, data, size;
} shapes[] = {
    {SYS_openat, TRACED_OPEN, .folder = 1, .path = 2, .flags = 3},
    {SYS_read, TRACED_READ, .fd = 1},
    {SYS_pread64, TRACED_READ, .fd = 1},
    {SYS_getdents64, TRACED_READ, .fd = 1},
    {SYS_write, TRACED_WRITE, .fd = 1, .data = 2, .size = 3},
    {SYS_pwrite64, TRACED_WRITE, .fd = 1, .data = 2, .size = 3},
    {SYS_ftruncate, TRACED_TRUNCATE, .fd = 1, .size = 2},
    {SYS_fsync, TRACED_SYNC, .fd = 1},
    {SYS_fdatasync, TRACED_SYNC, .fd = 1},
    {SYS_renameat, TRACED_RENAME, .folder = 1, .path = 2, .to_folder = 3, .to = 4},
    {SYS_renameat2, TRACED_RENAME, .folder = 1, .path = 2, .to_folder = 3, .to = 4, .flags = 5},
    {SYS_linkat, TRACED_LINK, .folder = 1, .path = 2, .to_folder = 3, .to = 4},
    {SYS_unlinkat, TRACED_REMOVE, .folder = 1, .path = 2},
    {SYS_mkdirat, TRACED_FOLDER, .folder = 1, .path = 2},
    {SYS_mmap, TRACED_MAP, .fd = 5, .flags = 4},
    {SYS_flock, TRACED_LOCK, .fd = 1, .flags = 2},
#ifdef SYS_open
    {SYS_open, TRACED_OPEN, .path = 1, .flags = 2},
    {SYS_rename, TRACED_RENAME, .path = 1, .to = 2},
    {SYS_link, TRACED_LINK, .path = 1, .to = 2},
    {SYS_unlink, TRACED_REMOVE, .path = 1},
    {SYS_rmdir, TRACED_REMOVE, .path = 1},
    {SYS_mkdir, TRACED_FOLDER, .path = 1},
#endif
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- the program ---- */

static void filter_calls(void)
{
    struct sock_filter code[2 * SHAPES + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    for (int i = 0; i < SHAPES; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)shapes[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(125);
}

static void become(const struct traced *t)
{
    const char *words[40] = {getenv("ANNEAL_BINARY")};
    for (int i = 0; t->arguments[i] && i < 38; i++) words[i + 1] = t->arguments[i];
    for (int i = 0; t->environment && t->environment[i]; i++) putenv((char *)(uintptr_t)t->environment[i]);
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* LeakSanitizer cannot work in a traced process */
    int in = open("/dev/null", O_RDONLY), out = open(t->out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666),
        err = open(t->err, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(125);
    closefrom(3);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(126);
    raise(SIGSTOP);
    filter_calls();
    execv(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

/* ---- its memory and its files ---- */

static size_t read_memory(pid_t thread, uint64_t address, void *buf, size_t size)
{
    struct iovec here = {buf, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(thread, &here, 1, &there, 1, 0);
    return n > 0 ? (size_t)n : 0;
}

void traced_data(const struct traced_call *call, void *buf, size_t size)
{
    assert_int_equal(read_memory(call->thread, call->data, buf, size), size);
}

/* A text may end shortly before memory that cannot be read: it is read page by page. */
static void read_text(pid_t thread, uint64_t address, char *buf, size_t size)
{
    for (size_t n = 0; n < size;) {
        size_t piece = 4096 - (address + n) % 4096, most = size - n;
        size_t got = read_memory(thread, address + n, buf + n, piece < most ? piece : most);
        if (!got || memchr(buf + n, 0, got)) break;
        n += got;
    }
    buf[size - 1] = '\0';
}

static void read_link(pid_t thread, const char *what, int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, fd >= 0 ? "/proc/%d/%s/%d" : "/proc/%d/%s", thread, what, fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 && *path == '/' ? n : 0] = '\0';
}

/* The absolute path without doubled slashes, and none at its end. */
static void read_path(pid_t thread, const uint64_t *arguments, int folder, int text, char path[PATH_MAX])
{
    char given[PATH_MAX] = "", whole[2 * PATH_MAX] = "";
    int fd = folder ? (int)arguments[folder - 1] : AT_FDCWD;
    read_text(thread, arguments[text - 1], given, sizeof given);
    if (*given != '/') read_link(thread, fd == AT_FDCWD ? "cwd" : "fd", fd == AT_FDCWD ? -1 : fd, whole);
    snprintf(whole + strlen(whole), PATH_MAX, "/%s", given);
    size_t n = 0;
    for (const char *c = whole; *c && n + 1 < PATH_MAX; c++)
        if (*c != '/' || (c[1] && c[1] != '/')) path[n++] = *c;
    path[n] = '\0';
}

static int64_t position(pid_t thread, int fd)
{
    char path[64];
    long long at = 0;
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", thread, fd);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "pos: %lld", &at) != 1) at = 0;
    if (file) fclose(file);
    return at;
}

/* ---- calls ---- */

static bool describe(pid_t thread, const struct __ptrace_syscall_info *info, struct traced_call *call,
                     const struct shape **shape)
{
    const uint64_t *a = info->seccomp.args;
    int i = 0;
    while (i < SHAPES && shapes[i].number != (long)info->seccomp.nr) i++;
    if (i == SHAPES) return false;
    const struct shape *s = *shape = &shapes[i];
    *call = (struct traced_call){.kind = s->kind, .number = s->number, .thread = thread};
    if (s->kind == TRACED_MAP && (int)a[s->fd - 1] < 0) return false;
    if (s->fd) read_link(thread, "fd", (int)a[s->fd - 1], call->path);
    if (s->path) read_path(thread, a, s->folder, s->path, call->path);
    if (s->to) read_path(thread, a, s->to_folder, s->to, call->to);
    if (s->flags) call->flags = (int)a[s->flags - 1];
    if (s->data) call->data = a[s->data - 1];
    if (s->size) call->size = a[s->size - 1];
    if (s->number == SYS_pwrite64) call->offset = (int64_t)a[3];
    return true;
}

/* Lets the call that a thread is about to make fail. */
static void refuse(pid_t thread, int error)
{
#if defined __x86_64__
    struct user_regs_struct registers;
    assert_int_equal(ptrace(PTRACE_GETREGS, thread, 0, &registers), 0);
    registers.orig_rax = (unsigned long long)-1;
    registers.rax = (unsigned long long)-error;
    assert_int_equal(ptrace(PTRACE_SETREGS, thread, 0, &registers), 0);
#elif defined __aarch64__
    int none = -1;
    struct user_regs_struct registers;
    struct iovec number = {&none, sizeof none}, all = {&registers, sizeof registers};
    assert_int_equal(ptrace(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &number), 0);
    assert_int_equal(ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &all), 0);
    registers.regs[0] = (unsigned long long)-error;
    assert_int_equal(ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &all), 0);
#else
#error "how does a tracer let a system call fail here?"
#endif
}

/* Lets the thread make its call; false: the thread has ended in it. */
static bool finish(pid_t thread, const struct shape *shape, const struct __ptrace_syscall_info *begun,
                   struct traced_call *call)
{
    struct __ptrace_syscall_info info;
    int how, signal = 0;
    do {
        ptrace(PTRACE_SYSCALL, thread, 0, signal);
        if (waitpid(thread, &how, __WALL) != thread || !WIFSTOPPED(how)) return false;
        signal = WSTOPSIG(how) & 0x80 || how >> 16 ? 0 : WSTOPSIG(how);
    } while (WSTOPSIG(how) != (SIGTRAP | 0x80));
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return false;
    call->result = info.exit.rval;
    if (shape->number == SYS_write && call->result > 0)
        call->offset = position(thread, (int)begun->seccomp.args[shape->fd - 1]) - call->result;
    return true;
}

static void handle_call(const struct traced *t, pid_t thread)
{
    struct __ptrace_syscall_info info;
    struct traced_call call;
    const struct shape *shape;
    bool known = ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0 &&
                 describe(thread, &info, &call, &shape);
    int error = known && t->before ? t->before(t->context, &call) : 0;
    if (error)
        refuse(thread, error);
    else if (known && t->after && finish(thread, shape, &info, &call))
        t->after(t->context, &call);
    ptrace(PTRACE_CONT, thread, 0, 0);
}

/* ---- its life ---- */

static pid_t running;

static void give_up(int signal)
{
    (void)signal;
    kill(running, SIGKILL);
}

static void follow(const struct traced *t, pid_t pid, int *how)
{
    pid_t thread;
    while ((thread = waitpid(-1, how, __WALL)) > 0) {
        if (!WIFSTOPPED(*how)) {
            if (thread == pid) return;
            continue;
        }
        int signal = WSTOPSIG(*how), event = *how >> 16;
        if (event == PTRACE_EVENT_SECCOMP)
            handle_call(t, thread);
        else /* threads begin with SIGSTOP */
            ptrace(PTRACE_CONT, thread, 0,
                   event || signal == SIGSTOP || (signal & 0x7f) == SIGTRAP ? 0 : signal);
    }
}

int traced_run(const struct traced *t)
{
    int how;
    struct sigaction action = {.sa_handler = give_up, .sa_flags = SA_RESTART}, before;
    fflush(NULL);
    pid_t pid = running = fork();
    assert_true(pid >= 0);
    if (pid == 0) become(t);
    assert_int_equal(waitpid(pid, &how, __WALL), pid);
    if (!WIFSTOPPED(how) ||
        ptrace(PTRACE_SETOPTIONS, pid, 0,
               PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD)) {
        if (WIFSTOPPED(how)) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
        print_message("skipped: ptrace is not allowed here\n");
        skip();
    }
    sigaction(SIGALRM, &action, &before);
    alarm(t->seconds);
    ptrace(PTRACE_CONT, pid, 0, 0);
    follow(t, pid, &how);
    alarm(0);
    sigaction(SIGALRM, &before, NULL);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}
