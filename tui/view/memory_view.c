/* See memory_view.h. Reads the run store and, once a second while the run trains, the ledger of device
 * memory, which changes without a commit to the store. For a past run shows the last values recorded. */
#include "tui/view/memory_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/reservations/ledger.h"
#include "runs/run.h"
#include "tui/view/labels.h"
#include "tui/view/workbench.h"
#include "tui/widget/bars.h"
#include "tui/widget/chart.h"

enum { PARTS_MAX = 24, LABEL_W = 9, NUMBER_W = 22, AMOUNT_W = 11, NAME_LEAST = 12 };
enum { HISTORY_LEAST = 7, HISTORY_MOST = 14, HISTORY_POINTS = 1024 };
enum { BATCH_MOST = 65535 };                                /* of train.batch_size */
enum { NAMED = 3, ROWS_OF_STATE = 3, ROWS_OF_HOLDERS = 5 }; /* other processes; rows kept for later parts */

#define BLOCK  0x2588
#define DARK   0x2593
#define MEDIUM 0x2592
#define LIGHT  0x2591

enum { DEVICE_OWN, DEVICE_OTHERS, DEVICE_FREE, DEVICE_KEPT, DEVICE_PARTS };

/* The parts of the three bars. */
struct picture {
    struct stack_part planned[PARTS_MAX], held[PARTS_MAX + 1];
    const struct memory_record *record[PARTS_MAX]; /* for each planned part */
    int count, held_count;                         /* planned categories; parts of the held bar */
    struct stack_part device[DEVICE_PARTS];
    double planned_sum, live_sum, peak_sum;
    double process, used, total; /* bytes; NaN: not known */
    double grows;                /* planned bytes that grow with the batch */
    double outside;              /* bytes of the process outside all categories; NaN: unknown or none */
    double scale;                /* bytes that the whole width of a bar stands for */
};

/* ---- from records to parts of bars ---- */

static double known(int64_t bytes)
{
    return bytes < 0 ? NAN : (double)bytes;
}

static double or_zero(double bytes)
{
    return isnan(bytes) ? 0 : bytes;
}

/* In the planner's order. The host's own buffers count on the device only if the device is the CPU. */
static const struct look {
    const char *name; /* NULL: all others */
    bool host, grows; /* grows: at most in proportion to the batch; the others stay */
    struct stack_part part;
} looks[] = {
    {"weights", false, false, {0, BLOCK, 'W', STYLE_TRAIN}},
    {"frozen weights", false, false, {0, DARK, 'F', STYLE_TRAIN}},
    {"gradients", false, false, {0, DARK, 'G', STYLE_LR}},
    {"moments", false, false, {0, MEDIUM, 'M', STYLE_SPEED}},
    {"activations", false, true, {0, LIGHT, 'A', STYLE_VAL}},
    {"workspace", false, true, {0, BLOCK, 'K', STYLE_GRAD}},
    {"KV cache", false, false, {0, LIGHT, 'C', STYLE_BEST}},
    {"host", true, true, {0, DARK, 'H', STYLE_BEST}},
    {"snapshot", true, false, {0, MEDIUM, 'S', STYLE_TEXT}},
    {NULL, false, true, {0, MEDIUM, '?', STYLE_TEXT}},
};
enum { LOOKS = sizeof looks / sizeof *looks };

static const struct look *look_of(const struct memory_record *record)
{
    size_t k = 0;
    while (looks[k].name && strcmp(looks[k].name, record->category) != 0) k++;
    return &looks[k];
}

static void add_category(struct picture *p, const struct memory_record *record, const struct look *look,
                         bool on_gpu)
{
    struct stack_part *planned = &p->planned[p->count], *held = &p->held[p->count];
    p->record[p->count++] = record;
    *planned = *held = look->part;
    if (on_gpu && look->host) return; /* bars and sums leave it out */
    planned->amount = (double)record->planned_bytes;
    held->amount = (double)record->live_bytes;
    p->planned_sum += planned->amount;
    p->grows += look->grows ? planned->amount : 0;
    p->live_sum += held->amount;
    p->peak_sum += (double)record->peak_bytes;
}

/* Fills the bar of the process: the allocated categories, then the memory outside the plan, such as the
 * program, its libraries and the device's context. An operating system counts a page only once it is touched,
 * so categories at the end, above all the snapshot, are cut to what the process really holds. */
static void add_held(struct picture *p)
{
    double left = p->process;
    p->held_count = p->count;
    p->outside = NAN;
    if (isnan(left)) return;
    for (int i = 0; i < p->count; i++) {
        p->held[i].amount = fmin(p->held[i].amount, left);
        left -= p->held[i].amount;
    }
    if (p->process < p->live_sum) return;
    p->outside = left;
    p->held[p->held_count++] = (struct stack_part){left, DARK, '+', STYLE_DIM};
}

static void add_device(struct picture *p, double reserve)
{
    double own = or_zero(p->process), others = fmax(or_zero(p->used) - own, 0),
           kept = or_zero(reserve * p->total);
    double left = fmax(or_zero(p->total - fmax(p->used, own)) - kept, 0);
    if (isnan(p->used)) left = 0;
    double overdrawn = fmax(or_zero(own + others + left + kept - p->total), 0);
    p->device[DEVICE_OWN] = (struct stack_part){own, BLOCK, 'P', STYLE_ACCENT};
    p->device[DEVICE_OTHERS] = (struct stack_part){others, DARK, 'O', STYLE_WARN};
    p->device[DEVICE_FREE] = (struct stack_part){left, LIGHT, '.', STYLE_RULE};
    /* memory already taken out of the reserve cannot be kept free */
    p->device[DEVICE_KEPT] = (struct stack_part){fmax(kept - overdrawn, 0), MEDIUM, 'R', STYLE_DIM};
}

static void make_picture(struct picture *p, const struct memory_usage *usage, enum memory_scale scale)
{
    bool seen = usage->has_sample;
    *p = (struct picture){.process = seen ? known(usage->sample.process_bytes) : NAN,
                          .used = seen ? known(usage->sample.memory_used_bytes) : NAN,
                          .total = seen && usage->sample.memory_total_bytes > 0
                                       ? (double)usage->sample.memory_total_bytes
                                       : NAN};
    for (size_t k = 0; k < LOOKS; k++)
        for (size_t i = 0; i < usage->category_count && p->count < PARTS_MAX; i++)
            if (look_of(&usage->categories[i]) == &looks[k])
                add_category(p, &usage->categories[i], &looks[k], seen && usage->sample.gpu >= 0);
    add_held(p);
    add_device(p, usage->reserve);
    double run = fmax(p->planned_sum, isnan(p->process) ? p->live_sum : p->process);
    bool of_run = scale == MEMORY_SCALE_RUN || isnan(p->total) ||
                  (scale == MEMORY_SCALE_FIT && p->total > 8 * run); /* too narrow */
    p->scale = run > 0 && of_run ? run : or_zero(p->total);
}

/* ---- drawing ---- */

static char *bytes_text(double bytes, char *buf, size_t size)
{
    if (!isnan(bytes)) return text_format_bytes((uint64_t)bytes, buf, size);
    snprintf(buf, size, "-");
    return buf;
}

#define BYTES(bytes) bytes_text(bytes, (char[32]){0}, 32)

static int bar_width(const struct rect *area)
{
    return area->w - LABEL_W - NUMBER_W - 3;
}

/* Draws a label, a bar and a number. */
static void draw_bar(struct grid *grid, struct rect *area, const char *label, const struct stack_part *parts,
                     int count, double scale, const char *number)
{
    if (area->h <= 0) return;
    grid_text(grid, area->x + 1, area->y, LABEL_W - 1, STYLE_TEXT, 0, label);
    stack_draw(grid, area->x + 1 + LABEL_W, area->y, bar_width(area), parts, count, scale);
    grid_text_right(grid, area->x + area->w - NUMBER_W - 1, area->y, NUMBER_W, STYLE_TEXT, ATTR_BOLD, number);
    rect_skip(area, 1);
}

/* Draws the line below bars of this scale. */
static void draw_ruler(struct grid *grid, struct rect *area, double scale)
{
    char text[40];
    if (area->h <= 0 || bar_width(area) < 14 || !(scale > 0)) return;
    struct pen ruler = {grid, area->x + 1 + LABEL_W, area->y, area->x + 1 + LABEL_W + bar_width(area)};
    grid_fill(grid, (struct rect){ruler.x, ruler.y, bar_width(area), 1}, 0x2500, STYLE_RULE);
    pen_print(&ruler, STYLE_DIM, 0, "0 ");
    snprintf(text, sizeof text, " %s", BYTES(scale));
    pen_print_right(&ruler, STYLE_DIM, 0, text);
    rect_skip(area, 1);
}

/* The bar of the device always shows the whole of it, so that it looks as full as it is. */
static void draw_bars(struct grid *grid, struct rect *area, const struct picture *p)
{
    char text[80];
    double whole = p->total > 0 ? p->total : p->scale;
    bool same = p->scale == whole;
    grid_title(grid, area, "memory", same ? "on one scale" : "the device on its own scale");
    draw_bar(grid, area, "planned", p->planned, p->count, p->scale, BYTES(p->count ? p->planned_sum : NAN));
    draw_bar(grid, area, "held", p->held, p->held_count, p->scale, BYTES(p->process));
    if (!same) draw_ruler(grid, area, p->scale);
    snprintf(text, sizeof text, "%s of %s", BYTES(p->used), BYTES(p->total));
    draw_bar(grid, area, "device", p->device, DEVICE_PARTS, whole, text);
    draw_ruler(grid, area, whole);
}

/* Draws the key of a part (NULL: none), a name, and as many of `count` amounts as fit. */
static void draw_row(struct grid *grid, struct rect *area, const struct stack_part *key, enum style style,
                     int attr, const char *name, const char *const *amounts, int count)
{
    int fit = (area->w - NAME_LEAST - 4) / AMOUNT_W, shown = fit < 1 ? 1 : fit < count ? fit : count;
    int indent = key ? 4 : 1;
    int room = area->w - 1 - shown * AMOUNT_W;
    if (area->h <= 0) return;
    if (key) stack_key(grid, area->x + 1, area->y, key);
    grid_text(grid, area->x + indent, area->y, room - indent, style, attr, name);
    for (int i = 0; i < shown; i++)
        grid_text_right(grid, area->x + room + i * AMOUNT_W, area->y, AMOUNT_W,
                        style == STYLE_DIM ? STYLE_DIM : STYLE_TEXT, attr, amounts[i]);
    rect_skip(area, 1);
}

/* The amounts of one row, passed as the last arguments. */
#define AMOUNTS(count, ...) (const char *const[count]){__VA_ARGS__}, count

static void draw_categories(struct grid *grid, struct rect area, const struct picture *p)
{
    if (p->count > 0 && area.h < 3) { /* a title, a head and no row */
        grid_line(grid, &area, STYLE_DIM, 0, "by category: in a higher window");
        return;
    }
    grid_title(grid, &area, "by category", NULL);
    if (p->count == 0) {
        grid_line(grid, &area, STYLE_DIM, 0, "this run recorded no memory");
        return;
    }
    draw_row(grid, &area, NULL, STYLE_DIM, 0, "", AMOUNTS(3, "planned", "held", "peak"));
    for (int i = 0; i < p->count && area.h > 0; i++) {
        const struct memory_record *r = p->record[i];
        draw_row(
            grid, &area, &p->planned[i], STYLE_TEXT, 0, r->category,
            AMOUNTS(3, TEXT_BYTES(r->planned_bytes), TEXT_BYTES(r->live_bytes), TEXT_BYTES(r->peak_bytes)));
    }
    draw_row(grid, &area, NULL, STYLE_TEXT, ATTR_BOLD, "   all",
             AMOUNTS(3, BYTES(p->planned_sum), BYTES(p->live_sum), BYTES(p->peak_sum)));
    if (!isnan(p->outside))
        draw_row(grid, &area, &p->held[p->held_count - 1], STYLE_TEXT, 0, "outside it",
                 AMOUNTS(3, "-", BYTES(p->outside), "-"));
}

/* Draws the largest few: an anneal process by its run, any other by the kernel's name. */
static void draw_others(struct grid *grid, struct rect *area, const struct memory_panel *panel, int rows)
{
    char text[160];
    for (size_t i = 0; i < panel->usage->other_count && i < NAMED && rows > 0; i++, rows--) {
        const struct gpu_process *process = &panel->usage->others[i];
        const char *name = process->name;
        for (size_t h = 0; h < panel->holder_count; h++)
            if (panel->holders[h].pid == process->pid) name = panel->holders[h].name;
        snprintf(text, sizeof text, *name ? "     %s, %" PRId64 : "     %sprocess %" PRId64, name,
                 process->pid);
        draw_row(grid, area, NULL, STYLE_DIM, 0, text, AMOUNTS(1, BYTES(known(process->bytes))));
    }
}

/* Draws how busy the device is and what slows it down: other work of the host, reduced clocks. */
static void draw_state(struct grid *grid, struct rect *area, const struct gpu_record *sample)
{
    char text[96];
    if (*label_device(sample, text, sizeof text)) grid_line(grid, area, STYLE_TEXT, 0, "   %s", text);
    if (!isnan(sample->load_1m)) grid_line(grid, area, STYLE_TEXT, 0, "   host load %.1f", sample->load_1m);
    if (*sample->throttle) grid_line(grid, area, STYLE_WARN, 0, "   clocks low: %s", sample->throttle);
}

/* A batch that would certainly fit beside what the device holds: the parts of the plan that grow do so at
 * most in proportion to it. 0: not known. */
static int64_t largest_batch(const struct picture *p, int64_t batch_size)
{
    double left = p->device[DEVICE_FREE].amount, margin = left / 32 + 16 * 1048576.0; /* as anneal estimate */
    if (batch_size <= 0 || !(p->grows > 0) || isnan(p->used) || isnan(p->total)) return 0;
    return (int64_t)fmin((double)batch_size * (1 + fmax(left - margin, 0) / p->grows), BATCH_MOST);
}

static void draw_device(struct grid *grid, struct rect *area, const struct picture *p,
                        const struct memory_panel *panel)
{
    const struct memory_usage *usage = panel->usage;
    const struct gpu_record *sample = &usage->sample;
    char title[64] = "no sample yet", kept[48] = "kept free";
    const char *const names[] = {"this process", isnan(p->process) ? "all processes" : "others", "headroom",
                                 kept};
    bool unknown[] = {isnan(p->process), isnan(p->used), isnan(p->total), isnan(p->total)};
    if (!isnan(usage->reserve)) snprintf(kept, sizeof kept, "kept free, %.0f %%", usage->reserve * 100);
    if (usage->has_sample)
        snprintf(title, sizeof title, "GPU %d, %s", sample->gpu, LABEL_AGE(sample->wall_time, panel->now));
    if (usage->has_sample && sample->gpu < 0)
        snprintf(title, sizeof title, "the CPU, %s", LABEL_AGE(sample->wall_time, panel->now));
    grid_title(grid, area, "device", title);
    int64_t batch = largest_batch(p, panel->batch_size);
    int spare = area->h - DEVICE_PARTS - (batch > 0) - ROWS_OF_STATE - (panel->live ? ROWS_OF_HOLDERS : 0);
    for (int i = 0; i < DEVICE_PARTS && area->h > 0; i++) {
        draw_row(grid, area, &p->device[i], STYLE_TEXT, i == DEVICE_FREE ? ATTR_BOLD : 0, names[i],
                 AMOUNTS(1, BYTES(unknown[i] ? NAN : p->device[i].amount)));
        if (i == DEVICE_OTHERS) draw_others(grid, area, panel, spare);
    }
    snprintf(title, sizeof title, "%" PRId64, batch);
    if (batch > 0) draw_row(grid, area, NULL, STYLE_TEXT, 0, "   largest batch, at least", AMOUNTS(1, title));
    if (usage->has_sample) draw_state(grid, area, sample);
}

static void draw_holders(struct grid *grid, struct rect area, const struct memory_panel *panel)
{
    if (area.h < 3 || !panel->live) return;
    rect_skip(&area, 1);
    grid_title(grid, &area, "runs that hold memory of it", NULL);
    if (panel->holder_count == 0) grid_line(grid, &area, STYLE_DIM, 0, "no run has reserved any");
    if (panel->holder_count && area.h > 1)
        draw_row(grid, &area, NULL, STYLE_DIM, 0, "run, process", AMOUNTS(2, "reserved", "held"));
    for (size_t i = 0; i < panel->holder_count && area.h > 0; i++) {
        const struct memory_holder *holder = &panel->holders[i];
        char name[160];
        snprintf(name, sizeof name, "%s, %" PRId64, holder->name, holder->pid);
        draw_row(grid, &area, NULL, holder->own ? STYLE_ACCENT : STYLE_TEXT, holder->own ? ATTR_BOLD : 0,
                 name,
                 AMOUNTS(2, TEXT_BYTES(holder->bytes), BYTES(holder->used > 0 ? (double)holder->used : NAN)));
    }
}

/* Draws the memory of the process from the first step on, where the categories leave room. */
static void draw_history(struct grid *grid, struct rect *area, const struct picture *p,
                         const struct memory_panel *panel)
{
    int below = p->count > 7 ? p->count + 5 : 12, h = area->h - below - 1;
    if (panel->history_count < 2 || h < HISTORY_LEAST) return;
    if (h > HISTORY_MOST) h = HISTORY_MOST;
    struct chart chart = {
        .title = "memory of the process",
        .unit = "MiB",
        .scale = 1.0 / (1 << 20),
        .trace = {{.points = panel->history, .count = panel->history_count, .style = STYLE_TRAIN}},
        .trace_count = 1,
        .first_step = panel->history[0].first_step,
        .last_step = panel->history[panel->history_count - 1].last_step,
        .zero = true,
        .cursor = -1,
        .best_step = -1};
    chart_draw(grid, (struct rect){area->x, area->y + area->h - h, area->w, h}, &chart);
    area->h -= h + 1;
}

void memory_panel_draw(struct grid *grid, struct rect area, const struct memory_panel *panel)
{
    struct picture picture;
    make_picture(&picture, panel->usage, panel->scale);
    if (area.w < 20 || area.h < 4) return;
    draw_bars(grid, &area, &picture);
    if (area.h < 3) return;
    rect_skip(&area, 1);
    if (area.w >= 76) draw_history(grid, &area, &picture, panel);
    struct rect left = area, right = area;
    if (area.w >= 76) { /* side by side, else one below the other */
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
    make_picture(&p, usage, MEMORY_SCALE_FIT);
    bool unknown = isnan(p.total) || isnan(p.used);
    buf[0] = '\0';
    if (p.count || usage->has_sample)
        snprintf(buf, size, "memory %s planned, %s held, %s free", BYTES(p.count ? p.planned_sum : NAN),
                 BYTES(p.process), BYTES(unknown ? NAN : p.device[DEVICE_FREE].amount));
    return buf;
}

/* ---- the view ---- */

struct memory_state {
    struct run_info run;
    struct arena arena; /* holds usage and holders */
    struct memory_usage usage;
    struct memory_panel panel;
    struct series history; /* of the process in bytes */
    double read_at;        /* like workbench->uptime */
};

/* Reads the samples of the process, and train.batch_size, in `arena`. */
static enum status read_history(struct store *store, struct memory_state *state, struct err *err)
{
    struct run_param *params;
    size_t count;
    int64_t batch;
    enum status status = run_params_list(store, state->run.id, &state->arena, &params, &count, err);
    if (status) return status;
    const char *text = run_params_get(params, count, "train.batch_size");
    state->panel.batch_size = text && text_parse_int(text, &batch) ? batch : 0;
    state->history.name = "process_bytes";
    state->history.device = state->usage.has_sample ? (int)state->usage.sample.gpu : -1;
    status = series_read(store, state->run.id, METRIC_DEVICE, 0, -1, HISTORY_POINTS, &state->history, err);
    state->panel.history = state->history.points;
    state->panel.history_count = state->history.count;
    return status;
}

/* Reads the current holders of memory, irrelevant to a past run. */
static enum status read_holders(struct store *store, struct memory_state *state, struct err *err)
{
    struct memory_holder *holders;
    struct ledger *ledger;
    state->panel.holder_count = 0;
    state->panel.live = status_is_live(state->run.status);
    if (!state->panel.live) return STATUS_OK;
    if (ledger_open_own(store_home(store), true, &ledger, err)) return err->status;
    enum status status = memory_usage_holders(store, ledger, state->run.id, &state->arena, &holders,
                                              &state->panel.holder_count, err);
    ledger_close(ledger);
    state->panel.holders = holders;
    return status;
}

/* Reads everything anew. Without the ledger the rest stays valid. */
static enum status read_memory(struct workbench *workbench, struct memory_state *state, struct err *err)
{
    struct memory_state next = *state;
    next.arena = (struct arena){0};
    next.read_at = workbench->uptime;
    enum status status = run_get(workbench->store, state->run.id, &next.run, err);
    if (!status) status = memory_usage_read(workbench->store, next.run.id, &next.arena, &next.usage, err);
    arena_release(status ? &next.arena : &state->arena);
    if (status) return status;
    *state = next;
    workbench_did(workbench, read_history(workbench->store, state, &workbench->err));
    workbench_did(workbench, read_holders(workbench->store, state, &workbench->err));
    return STATUS_OK;
}

static void memory_close(void *opaque)
{
    struct memory_state *state = opaque;
    series_release(&state->history);
    arena_release(&state->arena);
}

static enum status memory_open(struct workbench *workbench, void *opaque, const char *argument,
                               struct err *err)
{
    struct memory_state *state = opaque;
    enum status status = run_find(workbench->store, argument, &state->run, err);
    return status ? status : read_memory(workbench, state, err);
}

static bool memory_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct memory_state *state = opaque;
    bool live = state->panel.live;
    if (live ? workbench->uptime - state->read_at < 1 : !store_changed) return false;
    workbench_did(workbench, read_memory(workbench, state, &workbench->err));
    return true;
}

static void memory_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct memory_state *state = opaque;
    int top = grid->h >= 26 ? 3 : 2;
    state->panel.usage = &state->usage;
    state->panel.now = workbench->now;
    label_draw_run(grid, &state->run, workbench->now);
    memory_panel_draw(grid, (struct rect){0, top, grid->w, grid->h - top - 1}, &state->panel);
}

static bool memory_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct memory_state *state = opaque;
    (void)workbench;
    (void)code;
    if (action == ACTION_ZOOM_IN) state->panel.scale = MEMORY_SCALE_RUN;
    if (action == ACTION_ZOOM_OUT) state->panel.scale = MEMORY_SCALE_DEVICE;
    if (action == ACTION_ZOOM_ALL) state->panel.scale = MEMORY_SCALE_FIT;
    return action != ACTION_BACK;
}

const struct view_ops memory_view = {
    CONTEXT_MEMORY, sizeof(struct memory_state), memory_open, memory_read, memory_draw, memory_key,
    memory_close};
