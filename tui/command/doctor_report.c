/* See doctor.h: how findings are printed. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/checkpoint/checkpoint.h"
#include "tui/command/doctor.h"

static const char *const levels[] = {"problem", "repaired", "note"};

void doctor_report(struct doctor *d, enum finding_level level, const char *run, const char *path,
                   const char *remedy, const char *format, ...)
{
    char text[600];
    TEXT_FORMAT(text, format);
    d->found[level]++;
    progress_bar_clear(&d->bar);
    if (d->out.json) {
        output_item(&d->out);
        OUTPUT_MEMBERS(&d->out, "level", levels[level], "run", *run ? run : NULL, "path", path, "text", text,
                       "remedy", *remedy ? remedy : NULL);
        return;
    }
    d->out.begun = true;
    printf("%-8s  %s: %s%s%s%s\n", levels[level], CLEAN_LINE(path), CLEAN_LINE(text), *remedy ? " (" : "",
           CLEAN_LINE(remedy), *remedy ? ")" : "");
    fflush(stdout);
}

void doctor_report_error(struct doctor *d, enum finding_level level, const char *run, const char *prefix,
                         const char *remedy, const struct err *why)
{
    char path[sizeof why->text];
    size_t n = strlen(prefix);
    const char *colon = strncmp(why->text, prefix, n) == 0 ? strstr(why->text + n, ": ") : NULL;
    snprintf(path, sizeof path, "%.*s", colon ? (int)(colon - why->text) : 0, why->text);
    doctor_report(d, level, run, colon ? path : prefix, remedy, "%s", colon ? colon + 2 : why->text);
}

void doctor_report_leftover(struct doctor *d, const struct cleaning_item *item)
{
    char path[PATH_MAX + 500], remedy[600];
    if (checkpoint_step(item->name) >= 0) return; /* a checkpoint, which is read whole */
    snprintf(path, sizeof path, "%s%s%s/%s", d->home, *item->run ? "/runs/" : "", item->run, item->name);
    snprintf(remedy, sizeof remedy, "%s; `%s clean` removes it", TEXT_BYTES(item->bytes), TEXT_PROGRAM);
    doctor_report(d, NOTE, item->run, path, remedy, "is left over: %s", item->why);
}
