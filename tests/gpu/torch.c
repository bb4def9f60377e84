/* See torch.h. */
#include "tests/gpu/torch.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* torch.compile of a preset takes a minute; a process that hangs must not hold up the rest. */
static const double MOST_SECONDS = 150;

/* The value of "key" in a line of JSON as torch_step.py prints it; NULL: it has none. */
static const char *value_of(const char *line, const char *key)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    return at ? at + strlen(quoted) : NULL;
}

static double number_of(const char *line, const char *key)
{
    const char *at = value_of(line, key);
    return at ? strtod(at, NULL) : 0;
}

/* Copies a string value, without its quotes. */
static void text_of(const char *line, const char *key, char *buf, size_t size)
{
    const char *at = value_of(line, key);
    snprintf(buf, size, "%.*s", at && *at == '"' ? (int)strcspn(at + 1, "\"") : 0, at ? at + 1 : "");
}

/* Runs the arguments and keeps the last line of their standard output. *code: the exit status, −1 when it
 * ended otherwise. */
static enum status last_line_of(char *const arguments[], char *line, size_t size, int *code, struct err *err)
{
    posix_spawn_file_actions_t actions;
    int ends[2], state = 0;
    pid_t child = 0;
    if (pipe(ends) != 0) return err_set(err, STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    int error = posix_spawn_file_actions_init(&actions);
    if (!error) {
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        posix_spawn_file_actions_addclose(&actions, ends[0]);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
        error = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return err_set(err, STATUS_NOT_FOUND, "cannot run %s: %s", arguments[0], strerror(error));
    }
    FILE *output = fdopen(ends[0], "r");
    *line = '\0';
    while (output && fgets(line, (int)size, output)) continue;
    output ? fclose(output) : close(ends[0]);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    return STATUS_OK;
}

static enum status read_losses(const char *folder, int steps, double *losses, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/losses.txt", folder);
    FILE *file = fopen(path, "r");
    int i = 0;
    while (file && i < steps && fscanf(file, "%lf", &losses[i]) == 1) i++;
    if (file) fclose(file);
    return i == steps ? STATUS_OK : err_set(err, STATUS_FAILED, "%s has %d losses of %d", path, i, steps);
}

enum status torch_train(const struct training_preset *preset, const struct torch_run *run,
                        struct torch_speed *out, double *losses, struct err *err)
{
    char line[4096], why[200], sizes[80], batch[16], length[16], steps[16], lr[32], limit[16];
    const char *python = getenv("ANNEAL_BENCH_PYTHON");
    const struct model_config c = model_preset(preset->preset);
    int code = 0;
    snprintf(sizes, sizeof sizes, "%d,%d,%d,%d,%d", c.hidden_dim, c.num_layers, c.num_heads,
             c.intermediate_dim, c.vocab_size);
    snprintf(batch, sizeof batch, "%d", preset->B);
    snprintf(length, sizeof length, "%d", preset->T);
    snprintf(steps, sizeof steps, "%d", run->steps);
    snprintf(lr, sizeof lr, "%g", run->lr);
    snprintf(limit, sizeof limit, "%.0f", ceil(fmax(1, fmin(run->seconds, MOST_SECONDS))));
    const char *arguments[] = {"timeout",
                               "-k",
                               "10",
                               limit,
                               python && *python ? python : "python3",
                               run->script,
                               "--mode",
                               run->mode,
                               "--sizes",
                               sizes,
                               "--batch",
                               batch,
                               "--seq",
                               length,
                               "--steps",
                               steps,
                               "--lr",
                               lr,
                               "--residual",
                               run->bf16_residual ? "bf16" : "fp32",
                               run->data ? "--data" : NULL,
                               run->data,
                               NULL};
    enum status status = last_line_of((char *const *)arguments, line, sizeof line, &code, err);
    if (status) return status;
    if (code == 124 || code == 137) return err_set(err, STATUS_FAILED, "no end after %s seconds", limit);
    if (code == 126 || code == 127)
        return err_set(err, STATUS_NOT_FOUND, "no %s to run (ANNEAL_BENCH_PYTHON names another)",
                       arguments[4]);
    text_of(line, "skip", why, sizeof why);
    if (*why) return err_set(err, STATUS_NOT_FOUND, "%s", why);
    if (code != 0 || number_of(line, "step_ms") <= 0)
        return err_set(err, STATUS_FAILED, "torch_step.py ended with exit status %d and no result", code);
    *out = (struct torch_speed){.step_ms = number_of(line, "step_ms"),
                                .tokens_per_second = number_of(line, "tokens_per_sec"),
                                .peak_bytes = number_of(line, "peak_bytes"),
                                .first_loss = number_of(line, "first_loss"),
                                .last_loss = number_of(line, "last_loss")};
    text_of(line, "torch", out->version, sizeof out->version);
    return losses ? read_losses(run->data, run->steps, losses, err) : STATUS_OK;
}
