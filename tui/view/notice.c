/* See notice.h. */
#include "tui/view/notice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/labels.h"

const char *const notice_words[] = {"off", "bell", "osc9", "osc777", NULL};

static bool is_diverged(const struct run_info *run)
{
    return run->loss_recorded && !isfinite(run->final_loss);
}

/* A word for the change of a run's status; NULL: there is nothing to report. */
static const char *news_of(const struct notice_run *before, const struct run_info *now)
{
    if (!status_is_live(now->status)) return label_status(now->status).word;
    if (is_diverged(now) && !before->diverged) return "diverges";
    if (now->status == RUN_PAUSED && !before->paused) return "waits: it is paused";
    return NULL;
}

/* Keeps the runs that train now. */
static void remember(struct notice *notice, const struct run_info *runs, size_t count)
{
    notice->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!status_is_live(runs[i].status)) continue;
        if (!list_reserve(&notice->runs, notice->count, 1, &notice->capacity, sizeof *notice->runs)) return;
        struct notice_run *run = &notice->runs[notice->count++];
        memcpy(run->id, runs[i].id, sizeof run->id);
        run->paused = runs[i].status == RUN_PAUSED;
        run->diverged = is_diverged(&runs[i]);
    }
}

void notice_look(struct notice *notice, struct store *store, char *text, size_t size)
{
    struct arena arena = {0};
    struct run_info *runs, now;
    size_t count, news = 0;
    if (run_list_begun(store, &arena, &runs, &count, NULL) == STATUS_OK) {
        for (size_t i = 0; i < notice->count; i++) {
            bool there = !run_get(store, notice->runs[i].id, &now, NULL);
            const char *what = there ? news_of(&notice->runs[i], &now) : NULL;
            if (what && !news++) snprintf(text, size, "%s: %s", now.name, what);
        }
        remember(notice, runs, count);
    }
    arena_release(&arena);
    if (news > 1) text_add(text, size, ", ", "and %zu more", news - 1);
}

void notice_release(struct notice *notice)
{
    free(notice->runs);
    *notice = (struct notice){0};
}

char *notice_bytes(enum notice_kind kind, const char *text, char *buf, size_t size)
{
    char clean[256];
    clean_line(clean, sizeof clean, text);
    if (kind == NOTICE_OSC9)
        snprintf(buf, size, "\033]9;anneal: %s\a", clean);
    else if (kind == NOTICE_OSC777)
        snprintf(buf, size, "\033]777;notify;anneal;%s\a", clean);
    else
        snprintf(buf, size, "%s", kind == NOTICE_BELL ? "\a" : "");
    return buf;
}
