/* llm.c's main.log, see import.h. The lines are those of its llmc/logger.h: `s:%d trl:%.4f lr:%.6f norm:%.2f`
 * (older ones end after the loss), `s:%d tel:%.4f` for the validation loss, `s:%d eval:%.4f` for the
 * HellaSwag accuracy. The log is appended to on a resume, so there a step goes back. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/exchange/import_stage.h"

enum { LINE_MAX_BYTES = 512 };

struct log {
    struct import *import;
    int64_t segment, last_step; /* of training; -1: none yet */
};

/* "NAME:NUMBER" of a line; false at its end. */
static bool next_word(char **rest, char **name, char **number)
{
    char *word = strtok_r(NULL, " \t", rest);
    if (!word) return false;
    char *colon = strchr(word, ':');
    *name = word;
    *number = colon ? colon + 1 : word + strlen(word);
    if (colon) *colon = '\0';
    return true;
}

static enum status store_training(struct log *log, int64_t step, const char *name, double value)
{
    static const struct {
        const char *word;
        enum column_id column;
    } words[] = {{"trl", COLUMN_STEPS_loss}, {"lr", COLUMN_STEPS_lr}, {"norm", COLUMN_STEPS_grad_norm}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(name, words[i].word) != 0) continue;
        if (i == 0 && step <= log->last_step) log->segment++;
        if (i == 0) log->last_step = step;
        return import_value(log->import, TABLE_STEPS, log->segment, step, NAN,
                            &store_columns[words[i].column], value);
    }
    return import_bad(log->import, "no word \"%.40s\" is known (trl, lr, norm, tel, eval)", name);
}

static enum status store_word(struct log *log, int64_t step, const char *name, double value)
{
    char text[80], number[32];
    if (strcmp(name, "tel") == 0)
        return import_value(log->import, TABLE_EVALS, log->segment, step, NAN,
                            &store_columns[COLUMN_EVALS_val_loss], value);
    if (strcmp(name, "eval") != 0) return store_training(log, step, name, value);
    snprintf(text, sizeof text, "HellaSwag accuracy %s", text_format_double(value, number, sizeof number));
    return import_event(log->import, log->segment, step, text);
}

static enum status read_line(struct log *log, char *line)
{
    char *rest = NULL, *name, *number, *first = strtok_r(line, " \t\r\n", &rest);
    int64_t step;
    int words = 0;
    if (!first) return STATUS_OK; /* an empty line */
    if (strncmp(first, "s:", 2) != 0 || !text_parse_int(first + 2, &step) || step < 0 ||
        step > IMPORT_STEP_MAX)
        return import_bad(log->import, "does not begin with s:STEP, but with \"%.40s\"", first);
    for (rest[strcspn(rest, "\r\n")] = '\0'; next_word(&rest, &name, &number); words++) {
        double value;
        if (!text_parse_double(number, &value))
            return import_bad(log->import, "%.20s: is no number: \"%.40s\"", name, number);
        if (words && strcmp(name, "lr") != 0 && strcmp(name, "norm") != 0)
            return import_bad(log->import, "\"%.40s\" is not what follows (lr, norm)", name);
        enum status status = store_word(log, step, name, value);
        if (status) return status;
    }
    return words ? STATUS_OK : import_bad(log->import, "says nothing of step %lld", (long long)step);
}

enum status import_read_llmc(struct import *import, FILE *file)
{
    struct log log = {.import = import, .segment = 1, .last_step = -1};
    char line[LINE_MAX_BYTES];
    enum status status = STATUS_OK;
    for (import->line = 1; !status && fgets(line, sizeof line, file); import->line++) {
        size_t n = strlen(line);
        if (n + 1 == sizeof line && line[n - 1] != '\n')
            return import_bad(import, "is longer than a line of such a log");
        status = read_line(&log, line);
    }
    if (!status && ferror(file))
        return err_set(import->err, STATUS_IO, "%s: cannot read: %s", import->path, strerror(errno));
    return status;
}
