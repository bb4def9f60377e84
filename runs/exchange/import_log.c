/* llm.c's main.log, see import.h. The lines are those of its llmc/logger.h: `s:%d trl:%.4f lr:%.6f norm:%.2f`
 * (older ones end after the loss), `s:%d tel:%.4f` for the validation loss, `s:%d eval:%.4f` for the
 * HellaSwag accuracy, which becomes the measure hellaswag_acc. A resumed run appends to the log and may
 * repeat steps. */
#include <errno.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/exchange/import_stage.h"

enum { LINE_MAX_BYTES = 512 };

struct log {
    struct import *import;
    struct import_rows steps, evals, measures;
    int64_t segment, last_step; /* of training; -1: none yet */
};

/* Reads the next "NAME:NUMBER" of a line; *name is NULL at its end. */
static enum status next_word(struct log *log, char **rest, char **name, char **number)
{
    double value;
    *name = strtok_r(NULL, " \t\r\n", rest);
    if (!*name) return STATUS_OK;
    char *colon = strchr(*name, ':');
    *number = colon ? colon + 1 : *name + strlen(*name);
    if (colon) *colon = '\0';
    if (text_parse_double(*number, &value)) return STATUS_OK;
    return import_bad(log->import, "%.20s: is not a number: \"%.40s\"", *name, *number);
}

static enum status read_line(struct log *log, char *line)
{
    char segment[24], *rest = NULL, *name, *word, *number, *first = strtok_r(line, " \t\r\n", &rest);
    int64_t step;
    if (!first) return STATUS_OK; /* an empty line */
    if (strncmp(first, "s:", 2) != 0 || !text_parse_int(first + 2, &step) || step < 0)
        return import_bad(log->import, "does not begin with s:STEP, but with \"%.40s\"", first);
    enum status status = next_word(log, &rest, &name, &number);
    if (status) return status;
    if (!name) return import_bad(log->import, "has no values for step %lld", (long long)step);
    const char *fields[] = {segment, first + 2, number, NULL, NULL};
    bool training = strcmp(name, "trl") == 0;
    while (!(status = next_word(log, &rest, &word, &number)) && word) {
        int at = strcmp(word, "lr") == 0 ? 3 : strcmp(word, "norm") == 0 ? 4 : 0;
        if (!training || !at)
            return import_bad(log->import, "\"%.40s\" is not expected here (only lr and norm are)", word);
        fields[at] = number;
    }
    if (status) return status;
    if (training) {
        log->segment += step <= log->last_step;
        log->last_step = step;
    }
    snprintf(segment, sizeof segment, "%lld", (long long)log->segment);
    if (training) return import_rows_add(&log->steps, fields);
    if (strcmp(name, "tel") == 0) return import_rows_add(&log->evals, fields);
    if (strcmp(name, "eval") != 0)
        return import_bad(log->import, "\"%.40s\" is not known (known are trl, lr, norm, tel, eval)", name);
    return import_rows_add(&log->measures, (const char *[]){segment, first + 2, "hellaswag_acc", fields[2]});
}

/* The next line, without what ends it; *ends: there is such an end. *n = 0 and *ends = false at the file's
 * end. */
static enum status next_line(struct import *import, FILE *file, char line[LINE_MAX_BYTES], size_t *n,
                             bool *ends)
{
    int c;
    *n = 0;
    *ends = false;
    while (!*ends && (c = getc_unlocked(file)) != EOF) {
        if (c == 0) { /* a power cut leaves zeros at the end of a file */
            while ((c = getc_unlocked(file)) == 0) continue;
            if (c != EOF) return import_bad(import, "holds a zero byte");
            break;
        }
        if (*n + 1 == LINE_MAX_BYTES) return import_bad(import, "is longer than a line of such a log");
        *ends = c == '\n';
        if (!*ends) line[(*n)++] = (char)c;
    }
    line[*n] = '\0';
    if (ferror(file))
        return err_set(import->err, STATUS_IO, "%s: cannot read: %s", import->path, strerror(errno));
    return STATUS_OK;
}

enum status import_read_llmc(struct import *import, FILE *file)
{
    struct log log = {
        .import = import,
        .steps = {.import = import,
                  .table = TABLE_STEPS,
                  .columns = {COLUMN(STEPS, segment), COLUMN(STEPS, step), COLUMN(STEPS, loss),
                              COLUMN(STEPS, lr), COLUMN(STEPS, grad_norm)}},
        .evals = {.import = import,
                  .table = TABLE_EVALS,
                  .columns = {COLUMN(EVALS, segment), COLUMN(EVALS, step), COLUMN(EVALS, val_loss)},
                  .value = COLUMN(EVALS, val_loss)},
        .measures = {.import = import,
                     .table = TABLE_MEASURES,
                     .columns = {COLUMN(MEASURES, segment), COLUMN(MEASURES, step), COLUMN(MEASURES, name),
                                 COLUMN(MEASURES, value)},
                     .value = COLUMN(MEASURES, value)},
        .segment = 1,
        .last_step = -1,
    };
    char line[LINE_MAX_BYTES];
    size_t n;
    bool ends = true;
    enum status status = import_rows_begin(&log.steps);
    if (!status) status = import_rows_begin(&log.evals);
    if (!status) status = import_rows_begin(&log.measures);
    for (import->line = 1; !status && ends; import->line++) {
        status = next_line(import, file, line, &n, &ends);
        if (!status && ends) status = read_line(&log, line);
        if (!status && !ends && n) import_half_line(import);
    }
    return status;
}
