/* See layout.h. */
#include "tui/widget/layout.h"

#include <string.h>

enum {
    SAMPLE_LEAST = 2,
    CHART_LEAST = 4
}; /* rows that an event leaves as long as the others can give it some */

bool layout_too_small(int w, int h)
{
    return w < LAYOUT_MIN_W || h < LAYOUT_MIN_H;
}

/* The charts in what the text below them leaves. */
static void place_charts(struct run_layout *out, int main_w, int room, bool enlarged)
{
    int top = out->header.h;
    memset(out->chart, 0, sizeof out->chart);
    if (enlarged || room < 10) {
        out->chart_count = 1;
        out->chart[0] = (struct rect){0, top, main_w, room};
    } else if (main_w >= 100 && room >= 16) {
        int left = (main_w - 2) / 2, upper = (room + 1) / 2;
        out->chart_count = 4;
        out->chart[0] = (struct rect){0, top, left, upper};
        out->chart[1] = (struct rect){left + 2, top, main_w - left - 2, upper};
        out->chart[2] = (struct rect){0, top + upper, left, room - upper};
        out->chart[3] = (struct rect){left + 2, top + upper, main_w - left - 2, room - upper};
    } else {
        int upper = room >= 12 ? (room * 3 + 2) / 5 : room / 2;
        out->chart_count = 2;
        out->chart[0] = (struct rect){0, top, main_w, upper};
        out->chart[1] = (struct rect){0, top + upper, main_w, room - upper};
    }
}

void layout_run(int w, int h, bool enlarged, struct run_layout *out)
{
    memset(out, 0, sizeof *out);
    if (layout_too_small(w, h)) return;
    int header = h >= 16 ? 4 : 3, top = header, bottom = h - 1;
    out->header = (struct rect){0, 0, w, header};
    out->footer = (struct rect){0, h - 1, w, 1};
    int main_w = w;
    if (w >= 160 && h >= 30) {
        int side = w / 4 > 56 ? 56 : w / 4;
        out->side = (struct rect){w - side, top, side, bottom - top};
        main_w = w - side - 2;
    }
    int sample = h >= 50 ? 9 : h >= 36 ? 7 : h >= 22 ? 3 : 0;
    int events = h >= 50 ? 4 : h >= 36 ? 3 : h >= 20 ? 1 : 0;
    if (out->side.w) events = 0; /* the side panel has them */
    bottom -= events;
    out->events = (struct rect){0, bottom, main_w, events};
    bottom -= sample;
    out->sample = (struct rect){0, bottom, main_w, sample};
    place_charts(out, main_w, bottom - top, enlarged);
}

/* Moves up to `wanted` rows, if that is any, from `from`, which keeps `kept`. */
static void move_rows(int *from, int *to, int wanted, int kept)
{
    int rows = wanted < *from - kept ? wanted : *from - kept;
    if (rows <= 0) return;
    *from -= rows;
    *to += rows;
}

void layout_run_events(struct run_layout *layout, bool enlarged, int sample_used, int wanted, int needed)
{
    int bottom = layout->footer.y, top = layout->header.h, w = layout->events.w;
    int events = layout->events.h, sample = layout->sample.h, room = bottom - top - events - sample;
    if (!layout->footer.w) return;
    move_rows(&sample, &events, (wanted > needed ? wanted : needed) - events, sample_used);
    move_rows(&sample, &events, needed - events, SAMPLE_LEAST);
    move_rows(&room, &events, needed - events, CHART_LEAST);
    move_rows(&sample, &events, needed - events, 0);
    move_rows(&room, &events, needed - events, 0);
    layout->events = (struct rect){0, bottom - events, w, events};
    layout->sample = (struct rect){0, bottom - events - sample, w, sample};
    place_charts(layout, w, room, enlarged);
}

struct rect layout_centre(int screen_w, int screen_h, int w, int h)
{
    if (w > screen_w) w = screen_w;
    if (h > screen_h) h = screen_h;
    return (struct rect){(screen_w - w) / 2, (screen_h - h) / 2, w, h};
}
