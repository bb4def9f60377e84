/* See memory_panel.h. */
#include "tui/view/memory_panel.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/labels.h"
#include "tui/widget/bars.h"

enum { PARTS_MAX = 24, LABEL_W = 9, AMOUNT_W = 11, DEVICE_OTHERS = 1, DEVICE_FREE = 2, DEVICE_PARTS = 4 };

enum { NAMED = 3, ROWS_OF_STATE = 2, ROWS_OF_HOLDERS = 5 }; /* other processes; rows kept for what follows */

#define BLOCK  0x2588
#define DARK   0x2593
#define MEDIUM 0x2592
#define LIGHT  0x2591

/* The parts of the three bars. */
struct picture {
    struct stack_part planned[PARTS_MAX], held[PARTS_MAX + 1];
    const struct memory_record *record[PARTS_MAX]; /* of each planned part */
    bool elsewhere[PARTS_MAX];                     /* not in the device's memory: no part of bars and sums */
    int count, held_count;                         /* categories; parts of what is held */
    int snapshot;                           /* the category that checkpoints are written from; -1: none */
    struct stack_part device[DEVICE_PARTS]; /* this process, others, free, kept free */
    double planned_sum, live_sum;
    double process, used, total, reserve; /* bytes; NaN: not known */
    double scale;                         /* bytes that a bar's whole width stands for */
};

/* ---- from the rows to the parts ---- */

static double known(int64_t bytes)
{
    return bytes < 0 ? NAN : (double)bytes;
}

/* The host's own buffers lie on the device only where that is the CPU. */
static void add_category(struct picture *p, const struct memory_record *record, bool on_gpu, char letter,
                         uint32_t glyph, enum style style)
{
    if (p->count == PARTS_MAX) return;
    bool snapshot = strcmp(record->category, "snapshot") == 0;
    bool elsewhere = on_gpu && (snapshot || strcmp(record->category, "host") == 0);
    if (snapshot) p->snapshot = p->count;
    p->elsewhere[p->count] = elsewhere;
    p->record[p->count] = record;
    p->planned[p->count] = (struct stack_part){(double)record->planned_bytes, glyph, letter, style};
    p->held[p->count] = p->planned[p->count];
    p->held[p->count].amount = (double)record->live_bytes;
    if (elsewhere) p->planned[p->count].amount = p->held[p->count].amount = 0;
    p->count++;
    if (elsewhere) return;
    p->planned_sum += (double)record->planned_bytes;
    p->live_sum += (double)record->live_bytes;
}

static bool is_taken(const struct picture *p, char letter)
{
    for (int i = 0; i < p->count; i++)
        if (p->planned[i].letter == letter) return true;
    return letter == 'P' || letter == 'O' || letter == 'R';
}

static char free_letter(const struct picture *p, const char *name)
{
    for (; *name; name++)
        if (isalpha((unsigned char)*name) && !is_taken(p, (char)toupper((unsigned char)*name)))
            return (char)toupper((unsigned char)*name);
    return '?';
}

/* The categories of the planner in its order; others after them, by the first letter that is not taken. */
static void add_categories(struct picture *p, const struct memory_usage *usage)
{
    static const struct {
        const char *name;
        char letter;
        uint32_t glyph;
        enum style style;
    } known_ones[] = {
        {"weights", 'W', BLOCK, STYLE_TRAIN},   {"frozen weights", 'F', DARK, STYLE_TRAIN},
        {"gradients", 'G', DARK, STYLE_LR},     {"moments", 'M', MEDIUM, STYLE_SPEED},
        {"activations", 'A', LIGHT, STYLE_VAL}, {"workspace", 'K', BLOCK, STYLE_GRAD},
        {"host", 'H', DARK, STYLE_BEST},        {"snapshot", 'S', MEDIUM, STYLE_TEXT},
    };
    enum { KNOWN = sizeof known_ones / sizeof *known_ones };
    bool drawn[64] = {false}, on_gpu = usage->has_sample && usage->sample.gpu >= 0;
    for (size_t k = 0; k < KNOWN; k++)
        for (size_t i = 0; i < usage->category_count && i < 64; i++)
            if (strcmp(usage->categories[i].category, known_ones[k].name) == 0) {
                add_category(p, &usage->categories[i], on_gpu, known_ones[k].letter, known_ones[k].glyph,
                             known_ones[k].style);
                drawn[i] = true;
            }
    for (size_t i = 0; i < usage->category_count && i < 64; i++)
        if (!drawn[i])
            add_category(p, &usage->categories[i], on_gpu, free_letter(p, usage->categories[i].category),
                         p->count % 2 ? DARK : MEDIUM, p->count % 2 ? STYLE_BEST : STYLE_TEXT);
}

/* The memory of the process: the categories as they are allocated, and the rest outside the plan: the program
 * and its libraries, the device's context. Where that comes out below zero (an operating system counts a page
 * when it is first touched) it is the snapshot that has not been written to yet: as much of it is drawn as
 * the process has room for. Where even that is not enough the process is one part. */
static void add_held(struct picture *p)
{
    p->held_count = p->count;
    if (isnan(p->process)) return;
    double rest = p->process - p->live_sum;
    double *snapshot = p->snapshot >= 0 ? &p->held[p->snapshot].amount : NULL;
    if (rest < 0 && snapshot && *snapshot + rest >= 0) {
        *snapshot += rest;
    } else if (rest >= 0) {
        p->held[p->held_count++] = (struct stack_part){rest, DARK, '+', STYLE_DIM};
    } else {
        p->held[0] = (struct stack_part){p->process, BLOCK, 'P', STYLE_ACCENT};
        p->held_count = 1;
    }
}

static void add_device(struct picture *p)
{
    double own = isnan(p->process) ? 0 : p->process;
    double others = isnan(p->used) ? 0 : fmax(p->used - own, 0);
    double kept = isnan(p->reserve) || isnan(p->total) ? 0 : p->reserve * p->total;
    double left = isnan(p->total) || isnan(p->used) ? 0 : fmax(p->total - fmax(p->used, own) - kept, 0);
    double overdrawn = isnan(p->total) ? 0 : fmax(own + others + left + kept - p->total, 0);
    p->device[0] = (struct stack_part){own, BLOCK, 'P', STYLE_ACCENT};
    p->device[1] = (struct stack_part){others, DARK, 'O', STYLE_WARN};
    p->device[DEVICE_FREE] = (struct stack_part){left, LIGHT, '.', STYLE_RULE};
    /* what is in use of the reserve cannot be kept free any more */
    p->device[3] = (struct stack_part){fmax(kept - overdrawn, 0), MEDIUM, 'R', STYLE_DIM};
}

static void choose_scale(struct picture *p, enum memory_scale scale)
{
    double run = fmax(p->planned_sum, isnan(p->process) ? p->live_sum : p->process);
    bool sliver = !isnan(p->total) && run > 0 && p->total > 8 * run;
    if (run > 0 && (scale == MEMORY_SCALE_RUN || isnan(p->total) || (scale == MEMORY_SCALE_FIT && sliver)))
        p->scale = run;
    else
        p->scale = isnan(p->total) ? 0 : p->total;
}

static void make_picture(struct picture *p, const struct memory_panel *panel)
{
    const struct memory_usage *usage = panel->usage;
    const struct gpu_record *sample = usage->has_sample ? &usage->sample : NULL;
    *p = (struct picture){
        .process = sample ? known(sample->process_bytes) : NAN,
        .used = sample ? known(sample->memory_used_bytes) : NAN,
        .total = sample && sample->memory_total_bytes > 0 ? (double)sample->memory_total_bytes : NAN,
        .snapshot = -1,
        .reserve = usage->reserve};
    add_categories(p, usage);
    add_held(p);
    add_device(p);
    choose_scale(p, panel->scale);
}

/* ---- drawing ---- */

static char *bytes_text(double bytes, char *buf, size_t size)
{
    if (isnan(bytes)) {
        snprintf(buf, size, "-");
        return buf;
    }
    return text_format_bytes((uint64_t)bytes, buf, size);
}

/* "9.4/23.5 GiB": both in the larger one's unit, where there is no room for two. */
static char *short_share(double part, double whole, char *buf, size_t size)
{
    char text[32];
    const char *unit = strchr(bytes_text(whole, text, sizeof text), ' ');
    double in_unit = unit ? strtod(text, NULL) : 0;
    if (isnan(part) || !(in_unit > 0))
        snprintf(buf, size, "%s", text);
    else
        snprintf(buf, size, in_unit < 100 ? "%.1f/%.1f%s" : "%.0f/%.0f%s", part / whole * in_unit, in_unit,
                 unit);
    return buf;
}

enum {
    WIDE = 60,
    NUMBER_W = 22,
    NUMBER_W_NARROW = 13
}; /* columns: of the panel, of the numbers beside bars */

static int number_width(const struct rect *area)
{
    return area->w >= WIDE ? NUMBER_W : NUMBER_W_NARROW;
}

/* A label, a bar of `rows` rows, a number. */
static void draw_bar(struct grid *grid, struct rect *area, int rows, const char *label,
                     const struct stack_part *parts, int count, double scale, const char *number)
{
    int number_w = number_width(area), bar = area->w - LABEL_W - number_w - 3;
    for (int row = 0; row < rows && area->h > 0; row++) {
        stack_draw(grid, area->x + 1 + LABEL_W, area->y, bar, parts, count, scale);
        if (row == 0) {
            grid_text(grid, area->x + 1, area->y, LABEL_W - 1, STYLE_TEXT, 0, label);
            grid_text_right(grid, area->x + area->w - number_w - 1, area->y, number_w, STYLE_TEXT, ATTR_BOLD,
                            number);
        }
        rect_skip(area, 1);
    }
}

static void draw_bars(struct grid *grid, struct rect *area, const struct picture *p, bool tall)
{
    char text[80], a[32], b[32];
    int rows = tall ? 2 : 1, bar_x = area->x + 1 + LABEL_W;
    int bar = area->w - LABEL_W - 3 - number_width(area);
    grid_title(grid, area, "memory",
               area->w >= 70   ? "the plan, what the process holds, the device: on one scale"
               : area->w >= 44 ? "plan, process, device: on one scale"
                               : "on one scale");
    draw_bar(grid, area, rows, "planned", p->planned, p->count, p->scale,
             bytes_text(p->count ? p->planned_sum : NAN, a, sizeof a));
    draw_bar(grid, area, rows, "held", p->held, p->held_count, p->scale, bytes_text(p->process, a, sizeof a));
    snprintf(text, sizeof text, "%s of %s", bytes_text(p->used, a, sizeof a),
             bytes_text(p->total, b, sizeof b));
    draw_bar(grid, area, rows, "device", p->device, DEVICE_PARTS, p->scale,
             area->w >= WIDE ? text : short_share(p->used, p->total, text, sizeof text));
    if (area->h <= 0 || bar < 14 || !(p->scale > 0)) return;
    bytes_text(p->scale, a, sizeof a);
    grid_fill(grid, (struct rect){bar_x, area->y, bar, 1}, 0x2500, STYLE_RULE, 0);
    grid_text(grid, bar_x, area->y, 2, STYLE_DIM, 0, "0 ");
    int w = glyph_text_width(a);
    grid_put(grid, bar_x + bar - w - 1, area->y, ' ', STYLE_TEXT, 0);
    grid_text(grid, bar_x + bar - w, area->y, w, STYLE_DIM, 0, a);
    rect_skip(area, 1);
}

/* A name `indent` columns from the left, and `count` amounts, right-aligned at the end of the row, which is
 * taken off the area. Amounts beside a dimmed name are dimmed. */
static void draw_row(struct grid *grid, struct rect *area, int indent, enum style style, int attr,
                     const char *name, int amount_attr, const double *bytes, int count)
{
    char text[32];
    int room = area->w - 1 - count * AMOUNT_W;
    if (area->h <= 0) return;
    grid_text(grid, area->x + indent, area->y, room - indent, style, attr, name);
    for (int i = 0; i < count; i++)
        grid_text_right(grid, area->x + room + i * AMOUNT_W, area->y, AMOUNT_W,
                        style == STYLE_DIM ? STYLE_DIM : STYLE_TEXT, amount_attr,
                        bytes_text(bytes[i], text, sizeof text));
    rect_skip(area, 1);
}

/* The row of titles above amounts. Returns how many of the `wanted` columns have room beside a name. */
static int draw_heads(struct grid *grid, struct rect *area, const char *name, int name_w,
                      const char *const *heads, int wanted)
{
    int fit = (area->w - name_w - 4) / AMOUNT_W, shown = fit < 1 ? 1 : fit > wanted ? wanted : fit;
    grid_text(grid, area->x + 1, area->y, name_w, STYLE_DIM, 0, name);
    for (int i = 0; i < shown; i++)
        grid_text_right(grid, area->x + area->w - 1 - (shown - i) * AMOUNT_W, area->y, AMOUNT_W, STYLE_DIM, 0,
                        heads[i]);
    rect_skip(area, 1);
    return shown;
}

static void draw_categories(struct grid *grid, struct rect area, const struct picture *p)
{
    static const char *const heads[] = {"planned", "held", "peak"};
    double peak = 0, rest = p->process - p->live_sum;
    grid_title(grid, &area, "by category", NULL);
    if (area.h <= 0) return;
    if (p->count == 0) {
        grid_line(grid, &area, STYLE_DIM, 0, "this run recorded no memory");
        return;
    }
    int shown = draw_heads(grid, &area, "", 12, heads, 3);
    for (int i = 0; i < p->count && area.h > 0; i++) {
        const struct memory_record *r = p->record[i];
        stack_key(grid, area.x + 1, area.y, &p->planned[i]);
        if (!p->elsewhere[i]) peak += (double)r->peak_bytes;
        double bytes[] = {(double)r->planned_bytes, (double)r->live_bytes, (double)r->peak_bytes};
        draw_row(grid, &area, 4, STYLE_TEXT, 0, r->category, 0, bytes, shown);
    }
    double all[] = {p->planned_sum, p->live_sum, peak}, outside[] = {NAN, rest, NAN};
    draw_row(grid, &area, 4, STYLE_TEXT, ATTR_BOLD, "all", ATTR_BOLD, all, shown);
    if (area.h <= 0 || !(rest >= 0)) return;
    stack_key(grid, area.x + 1, area.y, &p->held[p->held_count - 1]);
    draw_row(grid, &area, 4, STYLE_TEXT, 0, "outside it", 0, outside, shown);
}

/* An anneal process by its run, another one as the kernel calls it. */
static void draw_process(struct grid *grid, struct rect *area, const struct memory_panel *panel,
                         const struct gpu_process *process)
{
    char text[160];
    const char *name = process->name;
    double bytes = known(process->bytes);
    for (size_t i = 0; i < panel->holder_count; i++)
        if (panel->holders[i].pid == process->pid) name = panel->holders[i].name;
    snprintf(text, sizeof text, *name ? "%s, %" PRId64 : "%sprocess %" PRId64, name, process->pid);
    draw_row(grid, area, 6, STYLE_DIM, 0, text, 0, &bytes, 1);
}

/* The largest few; one number for those that have no row. */
static void draw_others(struct grid *grid, struct rect *area, const struct memory_panel *panel, int rows)
{
    const struct memory_usage *usage = panel->usage;
    size_t count = usage->other_count, named = count;
    char text[48];
    double rest = NAN;
    if (rows > NAMED) rows = NAMED;
    if (rows <= 0 || count == 0) return;
    if (named > (size_t)rows) named = (size_t)rows - 1;
    for (size_t i = 0; i < named; i++) draw_process(grid, area, panel, &usage->others[i]);
    if (named == count) return;
    for (size_t i = named; i < count; i++)
        if (usage->others[i].bytes >= 0) rest = (isnan(rest) ? 0 : rest) + (double)usage->others[i].bytes;
    snprintf(text, sizeof text, named ? "and %zu more" : "%zu processes", count - named);
    draw_row(grid, area, 6, STYLE_DIM, 0, text, 0, &rest, 1);
}

/* How busy it is, and what slows it: its clocks held down, other work of the host. */
static void draw_state(struct grid *grid, struct rect *area, const struct gpu_record *sample)
{
    char text[96];
    int x = area->x + 4, end = area->x + area->w - 1;
    if (area->h <= 0) return;
    if (*label_device(sample, text, sizeof text)) {
        grid_text(grid, x, area->y, end - x, STYLE_TEXT, 0, text);
        if (!rect_skip(area, 1)) return;
    }
    if (isnan(sample->load_1m) && !*sample->throttle) return;
    if (!isnan(sample->load_1m))
        x += grid_printf(grid, x, area->y, end - x, STYLE_TEXT, 0, "host load %.1f", sample->load_1m) + 2;
    if (*sample->throttle && x < end)
        grid_printf(grid, x, area->y, end - x, STYLE_WARN, 0, "clocks low: %s", sample->throttle);
    rect_skip(area, 1);
}

static void draw_device(struct grid *grid, struct rect *area, const struct picture *p,
                        const struct memory_panel *panel)
{
    const struct memory_usage *usage = panel->usage;
    char text[64], age[32], kept[48];
    const struct gpu_record *sample = &usage->sample;
    snprintf(kept, sizeof kept, isnan(usage->reserve) ? "kept free" : "kept free, %.0f %%",
             usage->reserve * 100);
    const char *const names[DEVICE_PARTS] = {"this process", isnan(p->process) ? "all processes" : "others",
                                             "headroom", kept};
    label_age(sample->wall_time, panel->now, age, sizeof age);
    if (!usage->has_sample)
        snprintf(text, sizeof text, "not looked at");
    else if (sample->gpu < 0)
        snprintf(text, sizeof text, "the CPU, %s", age);
    else
        snprintf(text, sizeof text, "GPU %d, %s", sample->gpu, age);
    grid_title(grid, area, "device", text);
    int spare = area->h - DEVICE_PARTS - ROWS_OF_STATE - (panel->live ? ROWS_OF_HOLDERS : 0);
    for (int i = 0; i < DEVICE_PARTS && area->h > 0; i++) {
        bool unknown = isnan(i == 0 ? p->process : i == 1 ? p->used : p->total);
        double bytes = unknown ? NAN : p->device[i].amount;
        stack_key(grid, area->x + 1, area->y, &p->device[i]);
        draw_row(grid, area, 4, STYLE_TEXT, 0, names[i], i == DEVICE_FREE ? ATTR_BOLD : 0, &bytes, 1);
        if (i == DEVICE_OTHERS) draw_others(grid, area, panel, spare);
    }
    if (usage->has_sample) draw_state(grid, area, sample);
}

static void draw_holders(struct grid *grid, struct rect area, const struct memory_panel *panel)
{
    static const char *const heads[] = {"reserved", "held"};
    int shown = area.w >= 24 + 2 * AMOUNT_W ? 2 : 1;
    if (area.h < 3 || !panel->live) return;
    rect_skip(&area, 1);
    grid_title(grid, &area, "runs that hold some of it", NULL);
    if (panel->holder_count == 0) {
        grid_line(grid, &area, STYLE_DIM, 0, "none is in this host's ledger");
        return;
    }
    if (area.h > 1) draw_heads(grid, &area, "run, process", 20, heads, 2);
    for (size_t i = 0; i < panel->holder_count && area.h > 0; i++) {
        const struct memory_holder *holder = &panel->holders[i];
        char name[160];
        double bytes[] = {(double)holder->bytes, holder->used > 0 ? (double)holder->used : NAN};
        if (area.h == 1 && i + 1 < panel->holder_count) {
            grid_line(grid, &area, STYLE_DIM, 0, "and %zu more", panel->holder_count - i);
            return;
        }
        snprintf(name, sizeof name, "%s, %" PRId64, holder->name, holder->pid);
        draw_row(grid, &area, 1, holder->own ? STYLE_ACCENT : STYLE_TEXT, holder->own ? ATTR_BOLD : 0, name,
                 0, bytes, shown);
    }
}

void memory_panel_draw(struct grid *grid, struct rect area, const struct memory_panel *panel)
{
    struct picture picture;
    make_picture(&picture, panel);
    if (area.w < 20 || area.h < 4) return;
    draw_bars(grid, &area, &picture, area.h >= 26);
    if (area.h < 3) return;
    rect_skip(&area, 1);
    struct rect left = area, right = area;
    if (area.w >= 76) { /* beside each other, else one below the other */
        left.w = area.w / 2 - 1;
        right.x = area.x + left.w + 2;
        right.w = area.w - left.w - 2;
    } else {
        rect_skip(&right, picture.count + 5);
    }
    draw_categories(grid, left, &picture);
    if (right.h < 2) return;
    draw_device(grid, &right, &picture, panel);
    draw_holders(grid, right, panel);
}

char *memory_panel_summary(const struct memory_usage *usage, char *buf, size_t size)
{
    struct picture p;
    char text[32];
    size_t used = 0;
    make_picture(&p, &(struct memory_panel){.usage = usage});
    buf[0] = '\0';
    if (p.count)
        used +=
            (size_t)snprintf(buf, size, "memory %s planned", bytes_text(p.planned_sum, text, sizeof text));
    if (!isnan(p.process) && used < size)
        used += (size_t)snprintf(buf + used, size - used, "%s%s held", used ? ", " : "memory ",
                                 bytes_text(p.process, text, sizeof text));
    if (!isnan(p.total) && !isnan(p.used) && used < size)
        snprintf(buf + used, size - used, "%s%s free", used ? ", " : "memory ",
                 bytes_text(p.device[DEVICE_FREE].amount, text, sizeof text));
    return buf;
}
