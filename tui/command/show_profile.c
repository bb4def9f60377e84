/* See show_profile.h. */
#include "tui/command/show_profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clean.h"
#include "core/base/json_out.h"
#include "tui/command/command.h"

enum { NAME_WIDTH = 26 };

static double share_of(double time_us, const struct profile *profile)
{
    return profile->step_us > 0 ? time_us / profile->step_us : NAN;
}

/* "-" for what is unknown, or neither moves nor computes. */
static const char *format_rate(double rate, char *buf, size_t size)
{
    if (rate > 0)
        snprintf(buf, size, "%.*f", rate < 1 ? 3 : rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
    else
        snprintf(buf, size, "-");
    return buf;
}

static void print_row(int indent, const char *name, const struct profile_row *row,
                      const struct profile *profile)
{
    char calls[24] = "", bytes[24], flops[24];
    if (!isnan(row->calls)) snprintf(calls, sizeof calls, "%.6g", row->calls);
    printf("%*s%-*.*s %8s %11.3f %6.1f%% %8s %9s\n", indent, "", NAME_WIDTH - indent, NAME_WIDTH - indent,
           name, calls, row->time_us / 1e3, 100 * share_of(row->time_us, profile),
           format_rate(profile_gigabytes_per_second(row), bytes, sizeof bytes),
           format_rate(profile_gigaflops_per_second(row), flops, sizeof flops));
}

/* The rows from `first` on that are of one phase, and with `layer` of one layer too, as one; *end is behind
 * them. An unknown amount of one makes that of all unknown. */
static struct profile_row sum_rows(const struct profile *profile, size_t first, bool layer, size_t *end)
{
    const struct profile_row *rows = profile->rows;
    struct profile_row sum = {.phase = rows[first].phase, .layer = rows[first].layer, .calls = NAN};
    size_t i = first;
    for (; i < profile->count && strcmp(rows[i].phase, sum.phase) == 0 &&
           (!layer || rows[i].layer == sum.layer);
         i++) {
        sum.time_us += rows[i].time_us;
        sum.bytes += rows[i].bytes;
        sum.flops += rows[i].flops;
    }
    *end = i;
    return sum;
}

static void print_phase(struct profile *profile, size_t first, size_t *end)
{
    char name[32];
    struct profile_row phase = sum_rows(profile, first, false, end);
    print_row(0, clean_line_new(&profile->arena, phase.phase), &phase, profile);
    /* a phase that is one operation of its own name has no branches */
    if (*end == first + 1 && strcmp(profile->rows[first].op, phase.phase) == 0) return;
    for (size_t next, i = first; i < *end; i = next) {
        struct profile_row layer = sum_rows(profile, i, true, &next);
        int indent = layer.layer < 0 ? 2 : 4;
        snprintf(name, sizeof name, "layer %d", layer.layer);
        if (layer.layer >= 0) print_row(2, name, &layer, profile);
        for (size_t j = i; j < next; j++)
            print_row(indent, clean_line_new(&profile->arena, profile->rows[j].op), &profile->rows[j],
                      profile);
    }
}

void show_profile_print(const struct run_info *run, struct profile *profile)
{
    const char *id = clean_line_new(&profile->arena, run->id);
    if (profile->count == 0) {
        printf(
            "%s: no step has been profiled (after profile.warmup_steps one in profile.every is; 0: none)\n",
            id);
        return;
    }
    printf("%s: an average of %lld profiled step%s, the newest is step %lld\n\n", id,
           (long long)profile->steps, profile->steps == 1 ? "" : "s", (long long)profile->last_step);
    printf("%-*s %8s %11s %7s %8s %9s\n", NAME_WIDTH, "", "calls", "ms", "share", "GB/s", "GFLOP/s");
    for (size_t i = 0; i < profile->count;) print_phase(profile, i, &i);
    size_t end;
    struct profile_row step = {.calls = NAN};
    for (size_t i = 0; i < profile->count; i = end) {
        struct profile_row phase = sum_rows(profile, i, false, &end);
        step.time_us += phase.time_us;
        step.bytes += phase.bytes;
        step.flops += phase.flops;
    }
    print_row(0, "step", &step, profile);
}

enum status show_profile_json(const struct run_info *run, const struct profile *profile, struct err *err)
{
    struct json_out json;
    command_begin_json(&json, '{');
    json_out_text(&json, "run", run->id);
    json_out_int(&json, "steps", profile->steps);
    json_out_int(&json, "last_step", profile->last_step);
    json_out_real(&json, "step_ms", profile->step_us / 1e3);
    json_out_open(&json, "rows", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *r = &profile->rows[i];
        json_out_open(&json, NULL, '{', JSON_OUT_LINES);
        json_out_text(&json, "phase", r->phase);
        json_out_whole(&json, "layer", r->layer);
        json_out_text(&json, "op", r->op);
        json_out_real(&json, "calls", r->calls);
        json_out_real(&json, "time_us", r->time_us);
        json_out_real(&json, "share", share_of(r->time_us, profile));
        json_out_real(&json, "bytes", r->bytes);
        json_out_real(&json, "flops", r->flops);
        json_out_real(&json, "gb_per_sec", profile_gigabytes_per_second(r));
        json_out_real(&json, "gflops_per_sec", profile_gigaflops_per_second(r));
        json_out_close(&json);
    }
    json_out_close(&json);
    return command_end_json(&json, err);
}
