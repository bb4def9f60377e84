/* See text_options.h. */
#include "tui/command/text_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/command/command.h"

enum { TEXT = 'x', VOCAB = 'v', JSON = 'j', PROGRESS = 'p', DRY_RUN = 'n' };

static int wrong(const char *command, const struct subcommand *sub, const char *what, const char *word)
{
    char why[300];
    snprintf(why, sizeof why, "%s: %s%s%.160s", sub->name, what, word ? " " : "",
             !word   ? ""
             : *word ? word
                     : "\"\"");
    return command_usage(command, why);
}

bool text_options_progress(const char *word, enum progress_style *out)
{
    static const char *const names[] = {"auto", "bar", "plain", "none"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(word, names[i]) != 0) continue;
        *out = (enum progress_style)i;
        return true;
    }
    return false;
}

/* argv[0] is the subcommand's name. Returns 0, or the exit status after a message. */
static int parse(const char *command, const struct subcommand *sub, int argc, char **argv,
                 struct text_options *out)
{
    static const struct option options[] = {
        {"tokenizer", required_argument, NULL, 't'},
        {"output", required_argument, NULL, 'o'},
        {"text", required_argument, NULL, TEXT},
        {"vocab", required_argument, NULL, VOCAB},
        {"json", no_argument, NULL, JSON},
        {"progress", required_argument, NULL, PROGRESS},
        {"dry-run", no_argument, NULL, DRY_RUN},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    optind = 0; /* GNU: begin anew */
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":t:o:h", options, NULL)) != -1;) {
        const char *word = argv[optind - 1];
        if (c == ':') return wrong(command, sub, "this option needs a value:", word);
        if (c == '?') return wrong(command, sub, "unknown option", word);
        if (c != 'h' && !strchr(sub->options, c)) {
            const struct option *option = options;
            while (option->val != c) option++;
            return wrong(command, sub, "does not take the option", option->name);
        }
        switch (c) {
        case 't':
            if (!*optarg) return wrong(command, sub, "this option needs a value:", "--tokenizer");
            out->tokenizer = optarg;
            break;
        case 'o':
            if (!*optarg) return wrong(command, sub, "this option needs a value:", "-o");
            out->output = optarg;
            break;
        case TEXT:
            out->text = optarg;
            break;
        case VOCAB:
            if (!text_parse_int(optarg, &out->vocab) || out->vocab < 1 || out->vocab > INT32_MAX)
                return wrong(command, sub, "--vocab wants a number of tokens, not", optarg);
            break;
        case DRY_RUN:
            out->dry_run = true;
            break;
        case JSON:
            out->json = true;
            break;
        case PROGRESS:
            if (!text_options_progress(optarg, &out->progress))
                return wrong(command, sub, "--progress wants auto, bar, plain or none, not", optarg);
            break;
        default:
            out->help = true;
        }
    }
    out->words = argv + optind;
    out->word_count = argc - optind;
    return 0;
}

int text_command_run(int argc, char **argv, const struct subcommand *subcommands, const char *help)
{
    const char *command = argv[0], *names[16], *word = argc > 1 ? argv[1] : NULL;
    struct text_options options = {0};
    size_t count = 0;
    if (!word) return command_usage(command, "say what to do");
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        fputs(help, stdout);
        return 0;
    }
    for (const struct subcommand *sub = subcommands; sub->name; sub++) {
        if (count < sizeof names / sizeof *names) names[count++] = sub->name;
        if (strcmp(sub->name, word) != 0) continue;
        int status = parse(command, sub, argc - 1, argv + 1, &options);
        if (status) return status;
        if (options.help) {
            fputs(help, stdout);
            return 0;
        }
        if (options.word_count < sub->least) return wrong(command, sub, "needs", sub->needs);
        for (int i = 0; i < options.word_count && (i == 0 || !sub->blank); i++)
            if (!*options.words[i]) return wrong(command, sub, "a word is empty", NULL);
        if (sub->most >= 0 && options.word_count > sub->most)
            return wrong(command, sub, "does not know what to do with", options.words[sub->most]);
        return sub->run(&options);
    }
    char why[256];
    const char *nearest = text_nearest(word, names, count);
    snprintf(why, sizeof why, "no subcommand \"%.100s\"%s%s%s", word, nearest ? "; did you mean \"" : "",
             nearest ? nearest : "", nearest ? "\"?" : "");
    return command_usage(command, why);
}

char *text_options_number(uint64_t number, char *buf, size_t size)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    size_t to = 0;
    for (int i = 0; i < n && to + 2 < size; i++) {
        if (i && (n - i) % 3 == 0) buf[to++] = ',';
        buf[to++] = digits[i];
    }
    buf[to] = '\0';
    return buf;
}
