/* See fit_report.h. */
#include "tui/command/fit_report.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/memory/fit.h"
#include "core/model/config.h"

int64_t fit_margin(int64_t memory)
{
    return memory / 32 + (int64_t)PLAN_CATEGORIES * (2 << 20);
}

enum status fit_report_look(struct fit_report *r, const struct memory_wish *wish, int64_t given,
                            int64_t beside, struct err *err)
{
    struct device_info info;
    size_t count = 0;
    wish->backend->device_describe(wish->device, &info);
    *r = (struct fit_report){.gpu = info.uuid[0] != '\0', .now = !given, .memory = given};
    if (beside > 0 && (r->gpu || r->now)) r->beside = beside;
    if (r->now) {
        int64_t left = memory_share_left(wish); /* excludes a GPU's context, which is subtracted below */
        if (left == INT64_MAX)
            return err_set(err, STATUS_USAGE, "--fit: %s does not say what it has (give --fit MEMORY)",
                           info.short_name);
        r->memory = left + (r->gpu ? r->beside : 0);
        r->margin = fit_margin(r->memory);
        r->rows = r->queue = memory_share_list(memory_share_device(&info), &count);
    }
    for (; count && !r->queue->waits; count--) r->queue++;
    r->waiting = count;
    for (size_t i = 0; i < count; i++) r->promised += r->queue[i].bytes - r->queue[i].used;
    int64_t room = r->memory - r->beside - r->promised - r->margin;
    r->room = room > 0 ? (size_t)room : 0;
    return STATUS_OK;
}

/* Page-locked memory is the host's: a batch that fits the device may still exceed it. */
static enum status ask_host(struct fit_report *r, struct plan_input input, struct err *err)
{
    struct plan plan;
    int64_t available = memory_available();
    if (r->batch) input.B = r->batch;
    enum status status = plan_init(&plan, &input, err);
    if (status) return status;
    int64_t snapshot = (int64_t)plan.category_bytes[PLAN_SNAPSHOT],
            all = (int64_t)plan.category_bytes[PLAN_HOST] + snapshot;
    r->no_snapshot = snapshot > 0 && all > available - fit_margin(available);
    plan_release(&plan);
    return STATUS_OK;
}

enum status fit_report_solve(struct fit_report *r, const struct plan_input *input, int longest,
                             struct err *err)
{
    static const char tokens[] = "the most tokens of a micro-batch";
    int most_batch = CONFIG_BATCH_SIZE_MOST, most_length = longest;
    r->batch_limit = "train.batch_size";
    r->length_limit = "model.max_seq_len";
    if (CONFIG_MICRO_BATCH_TOKENS / input->T < most_batch) {
        most_batch = CONFIG_MICRO_BATCH_TOKENS / input->T;
        r->batch_limit = tokens;
    }
    if (CONFIG_MICRO_BATCH_TOKENS / input->B < most_length) {
        most_length = CONFIG_MICRO_BATCH_TOKENS / input->B;
        r->length_limit = tokens;
    }
    enum status status = fit_batch(*input, r->room, most_batch, &r->batch, err);
    if (!status) status = fit_length(*input, r->room, most_length, &r->length, err);
    if (!status && r->gpu && r->now) status = ask_host(r, *input, err);
    if (r->batch < most_batch) r->batch_limit = "memory";
    if (r->length < most_length) r->length_limit = "memory";
    return status;
}

/* ---- as a page or as JSON ---- */

/* Shows how the plan's memory is computed. */
static void print_account(struct output *out, const struct fit_report *r)
{
    output_open(out, "fit", r->now ? "Memory for the plan, now" : "Memory for the plan");
    if (out->json) {
        OUTPUT_MEMBERS(out, "memory_bytes", r->memory, "beside_bytes", r->beside, "waiting_bytes",
                       r->promised, "margin_bytes", r->margin, "plan_bytes", (int64_t)r->room);
        OUTPUT_MEMBERS(out, "batch_size", r->batch, "batch_size_limit", r->batch_limit, "seq_len", r->length,
                       "seq_len_limit", r->length_limit, "needs_no_snapshot", r->no_snapshot);
    }
    output_line(out, r->now ? "can be reserved" : "given", "%s", TEXT_BYTES(r->memory));
    if (r->beside)
        output_line(out, r->gpu ? "driver's context" : "the program", "%s less", TEXT_BYTES(r->beside));
    if (r->waiting) output_line(out, "waiting runs", "%s less", TEXT_BYTES(r->promised));
    if (r->margin) output_line(out, "margin", "%s less", TEXT_BYTES(r->margin));
    output_line(out, "left", "%s", TEXT_BYTES(r->room));
    output_list(out, "waiting", "Waiting runs, which come first");
    for (size_t i = 0; i < r->waiting; i++) {
        const struct reservation *row = &r->queue[i];
        output_item(out);
        OUTPUT_MEMBERS(out, "holder", row->holder, "home", row->home, "process", row->pid, "bytes",
                       row->bytes);
        if (out->json) output_real(out, "since", row->since);
    }
    output_list_end(out);
    output_close(out);
}

static void print_word(const char *word)
{
    char quoted[PATH_MAX];
    printf(" %s", CLEAN_LINE(text_quote(word, quoted, sizeof quoted)));
}

/* Prints the command that trains with this key as large as fits. */
static void print_command(const struct fit_report *r, const struct words *words, const char *device,
                          int ranks, const char *key, int value)
{
    size_t n = strlen(key);
    printf("  %s train", TEXT_PROGRAM);
    if (words->count) print_word(words->words[0]);
    if (device) printf(" --device %s", device);
    if (ranks > 1) printf(" --ranks %d", ranks);
    for (int i = 0; i < words->setting_count; i++) {
        const char *bare = words->settings[i] + 2;
        if (strncmp(bare, key, n) != 0 || bare[n] != '=') print_word(words->settings[i]);
    }
    printf(" --%s=%d", key, value);
    if (r->no_snapshot) fputs(" --checkpoint.background=false", stdout);
    if (r->waiting) fputs(" --wait", stdout);
    putchar('\n');
}

/* "a batch of 206 sequences of 256 tokens", and the key that sets the limit where memory does not. */
static void print_fit(const char *what, int batch, int length, const char *limit)
{
    bool memory = strcmp(limit, "memory") == 0;
    printf("%s %d sequence%s of %d token%s%s%s%s", what, batch, text_plural(batch), length,
           text_plural(length), memory ? "" : " (the limit is ", memory ? "" : limit, memory ? "" : ")");
}

void fit_report_print(struct output *out, const struct fit_report *r, const struct plan_input *input,
                      const struct words *words, const char *device)
{
    print_account(out, r);
    if (out->json) return;
    if (!r->batch && !r->length) {
        printf("\nNot even one sequence of %d tokens fits.\n", input->T);
        return;
    }
    fputs("\nThis fits:", stdout);
    if (r->batch) print_fit("", r->batch, input->T, r->batch_limit);
    if (r->length) print_fit(r->batch ? ", or" : "", input->B, r->length, r->length_limit);
    putchar('\n');
    if (r->batch) print_command(r, words, device, input->ranks, "train.batch_size", r->batch);
    if (r->length) print_command(r, words, device, input->ranks, "train.seq_len", r->length);
}
