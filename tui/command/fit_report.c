/* See fit_report.h. */
#include "tui/command/fit_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/memory/fit.h"
#include "core/model/config.h"
#include "tui/command/reservation_list.h"

int64_t fit_margin(int64_t memory)
{
    return memory / FIT_MARGIN_SHARE + (int64_t)PLAN_CATEGORIES * FIT_MARGIN_PAGE;
}

static void find_room(struct fit_report *r)
{
    int64_t room = r->memory - r->beside - r->promised - r->margin;
    r->room = room > 0 ? (size_t)room : 0;
}

void fit_report_give(struct fit_report *r, bool gpu, size_t memory, int64_t beside)
{
    *r = (struct fit_report){.gpu = gpu, .memory = (int64_t)memory, .beside = gpu && beside > 0 ? beside : 0};
    find_room(r);
}

enum status fit_report_look(struct fit_report *r, const struct memory_wish *wish, int64_t beside,
                            struct err *err)
{
    struct device_info info;
    wish->backend->device_describe(wish->device, &info);
    *r = (struct fit_report){.gpu = info.uuid[0] != '\0', .now = true, .beside = beside > 0 ? beside : 0};
    int64_t left = memory_share_left(wish); /* of a GPU less its context, which is taken off here */
    if (left == INT64_MAX)
        return err_set(err, STATUS_USAGE, "--fit: %s does not say what it has (give --fit MEMORY)",
                       info.short_name);
    r->memory = left + (r->gpu ? r->beside : 0);
    r->waiting = memory_share_queue(wish, &r->queue);
    for (size_t i = 0; i < r->waiting; i++) r->promised += r->queue[i].bytes - r->queue[i].used;
    r->margin = fit_margin(r->memory);
    if (r->gpu) r->host_free = memory_available();
    find_room(r);
    return STATUS_OK;
}

/* Page-locked memory is not the device's: a batch that fits there may still find too little of it. */
static enum status ask_host(struct fit_report *r, struct plan_input input, struct err *err)
{
    struct plan plan;
    int64_t left = r->host_free - fit_margin(r->host_free);
    input.B = r->batch ? r->batch : input.B;
    enum status status = plan_init(&plan, &input, err);
    if (status) return status;
    int64_t rest = (int64_t)plan.category_bytes[PLAN_HOST],
            snapshot = (int64_t)plan.category_bytes[PLAN_SNAPSHOT];
    plan_release(&plan);
    r->host_needed = rest + snapshot;
    r->no_snapshot = r->host_needed > left && snapshot > 0 && rest <= left;
    if (r->host_needed > left && !r->no_snapshot) r->batch = r->length = 0;
    return STATUS_OK;
}

/* The largest value that a configuration accepts, and which key sets that limit. */
struct limit {
    int64_t most;
    const char *by;
};

static struct limit lower_limit(struct limit a, struct limit b)
{
    return b.most < a.most ? b : a;
}

static const char micro_batch[] = "the most tokens of a micro-batch";

enum status fit_report_solve(struct fit_report *r, const struct plan_input *input, int longest,
                             struct err *err)
{
    struct limit batch = {config_most("train.batch_size"), "train.batch_size"},
                 length = {config_most("train.seq_len"), "train.seq_len"};
    batch = lower_limit(batch, (struct limit){CONFIG_MICRO_BATCH_TOKENS / input->T, micro_batch});
    length = lower_limit(length, (struct limit){CONFIG_MICRO_BATCH_TOKENS / input->B, micro_batch});
    length = lower_limit((struct limit){longest, "model.max_seq_len"}, length);
    enum status status = fit_batch(*input, r->room, (int)batch.most, &r->batch, err);
    if (!status) status = fit_length(*input, r->room, (int)length.most, &r->length, err);
    if (!status && r->host_free) status = ask_host(r, *input, err);
    r->batch_limit = r->batch == batch.most ? batch.by : "memory";
    r->length_limit = r->length == length.most ? length.by : "memory";
    return status;
}

/* ---- text ---- */

static void print_line(const char *what, const char *sign, int64_t bytes, const char *why)
{
    char amount[40];
    snprintf(amount, sizeof amount, "%s%s", sign, TEXT_BYTES(bytes));
    printf("  %-42s %12s%s%s\n", what, amount, *why ? "   " : "", why);
}

/* How the memory for the plan comes about. */
static void print_account(const struct fit_report *r)
{
    char who[64];
    snprintf(who, sizeof who, "asked for by %zu that wait%s", r->waiting, r->waiting == 1 ? "s" : "");
    printf("\nmemory for the plan, now:\n");
    print_line("could be reserved", "", r->memory, "memory.reserve and what others hold are taken off");
    if (r->beside)
        print_line(r->gpu ? "driver's context and libraries" : "the program and what it reads", "-",
                   r->beside, r->gpu ? "as last measured" : "beside the plan");
    if (r->waiting) print_line(who, "-", r->promised, "they come first:");
    for (size_t i = 0; i < r->waiting; i++) reservation_list_waiter(&r->queue[i], i + 1);
    print_line("margin", "-", r->margin, "a 32nd, and 14 MiB for rounding up to pages");
    print_line("left for the plan", "", (int64_t)r->room, "");
}

/* As a shell reads it back. */
static void print_word(const char *word)
{
    if (*word &&
        !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+@%-")]) {
        printf(" %s", word);
        return;
    }
    fputs(" '", stdout);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

/* The command that trains with this key as large as fits. */
static void print_command(const struct fit_report *r, const struct words *words, const char *device,
                          const char *key, int value)
{
    size_t n = strlen(key);
    fputs("  anneal train", stdout);
    if (words->count) print_word(words->words[0]);
    if (device) printf(" --device %s", device);
    for (int i = 0; i < words->setting_count; i++) {
        const char *bare = words->settings[i] + 2;
        if (strncmp(bare, key, n) != 0 || bare[n] != '=') print_word(words->settings[i]);
    }
    printf(" --%s=%d", key, value);
    if (r->no_snapshot) fputs(" --checkpoint.background=false", stdout);
    if (r->waiting) fputs(" --wait", stdout);
    putchar('\n');
}

static void print_host(const struct fit_report *r)
{
    if (r->host_needed <= r->host_free - fit_margin(r->host_free)) return;
    printf("It also wants %s of the host's memory, of which %s are free%s\n", TEXT_BYTES(r->host_needed),
           TEXT_BYTES(r->host_free),
           r->no_snapshot ? ": without a snapshot for checkpoints it fits." : ": that is not enough.");
}

static void print_limit(const char *limit)
{
    if (strcmp(limit, "memory") != 0) printf(" (%s is the limit, not memory)", limit);
}

void fit_report_print(const struct fit_report *r, const struct plan_input *input, const struct words *words,
                      const char *device)
{
    if (r->now) print_account(r);
    if (r->now && !r->room) {
        printf("\nNothing is left for a plan now%s.\n",
               r->waiting ? "; with --wait a run comes in after those who wait" : "");
        return;
    }
    printf("\nInto %s", TEXT_BYTES(r->now ? (uint64_t)r->room : (uint64_t)r->memory));
    if (!r->now && r->beside) printf(", %s of them the driver's context,", TEXT_BYTES(r->beside));
    printf(" fit");
    if (r->batch) {
        printf(" a batch of %d sequence%s of %d token%s", r->batch, text_plural(r->batch), input->T,
               text_plural(input->T));
        print_limit(r->batch_limit);
    } else {
        printf(" not even one sequence of %d token%s", input->T, text_plural(input->T));
    }
    if (r->length) {
        printf(", or %d sequence%s of %d token%s", input->B, text_plural(input->B), r->length,
               text_plural(r->length));
        print_limit(r->length_limit);
        puts(":");
    } else {
        printf(", nor %d sequence%s of any length.\n", input->B, text_plural(input->B));
    }
    if (r->host_free) print_host(r);
    if (r->batch) print_command(r, words, device, "train.batch_size", r->batch);
    if (r->length) print_command(r, words, device, "train.seq_len", r->length);
}

void fit_report_release(struct fit_report *r)
{
    free(r->queue);
    *r = (struct fit_report){0};
}

/* ---- JSON ---- */

void fit_report_json(struct json_out *json, const struct fit_report *r)
{
    json_out_open(json, "fit", '{', JSON_OUT_LINES);
    json_out_int(json, "memory_bytes", r->memory);
    json_out_int(json, "beside_bytes", r->beside);
    json_out_int(json, "waiting_bytes", r->promised);
    json_out_open(json, "waiting", '[', JSON_OUT_LINES);
    for (size_t i = 0; i < r->waiting; i++) {
        json_out_open(json, NULL, '{', JSON_OUT_LINES);
        json_out_text(json, "holder", r->queue[i].holder);
        json_out_text(json, "home", r->queue[i].home);
        json_out_int(json, "process", r->queue[i].pid);
        json_out_int(json, "bytes", r->queue[i].bytes);
        json_out_real(json, "since", r->queue[i].since);
        json_out_close(json);
    }
    json_out_close(json);
    json_out_int(json, "margin_bytes", r->margin);
    json_out_int(json, "plan_bytes", (int64_t)r->room);
    json_out_int(json, "batch_size", r->batch);
    json_out_text(json, "batch_size_limit", r->batch_limit);
    json_out_int(json, "seq_len", r->length);
    json_out_text(json, "seq_len_limit", r->length_limit);
    json_out_bool(json, "needs_no_snapshot", r->no_snapshot);
    json_out_close(json);
}
