/* Completion: the candidates for a line that is being typed, and that bash, zsh and fish show them. */
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/command/command.h"
#include "tui/command/complete.h"

/* The candidates for the words after "anneal complete", without their descriptions, separated by blanks. The
 * buffer is overwritten by the next call. */
static const char *candidates(const char *const words[])
{
    static char list[16000];
    const char *arguments[12] = {"complete"};
    size_t used = 0;
    list[0] = '\0';
    for (int i = 0; words[i]; i++) arguments[i + 1] = words[i];
    struct process *process =
        process_expect(0, process_open(&(struct process_options){.arguments = arguments}));
    assert_string_equal(process_stderr(process), "");
    for (const char *line = process_stdout(process); *line; line = strchr(line, '\n') + 1)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s", used ? " " : "",
                                 (int)strcspn(line, "\t\n"), line);
    return list;
}
#define CANDIDATES(...) candidates((const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(commands_and_their_subcommands_are_offered)
{
    assert_string_equal(CANDIDATES("tr"), "train");
    assert_string_equal(CANDIDATES("re"), "resume");
    assert_string_equal(CANDIDATES("data", ""), "prepare info show fetch");
    assert_string_equal(CANDIDATES("--v"), "--version");
    assert_string_equal(CANDIDATES("help", "da"), "data");
    assert_string_equal(CANDIDATES("trian", ""), "");
    assert_null(strstr(CANDIDATES(""), "complete"));
    char *help = process_output("--help", NULL);
    assert_null(strstr(help, "anneal complete"));
}

TEST_CASE(an_option_is_offered_once_and_then_its_values)
{
    assert_string_equal(CANDIDATES("export", "--"),
                        "--format --metric --smooth --log --table --output --help");
    assert_string_equal(CANDIDATES("export", "x", "--format=csv", "-o", "y", "-"),
                        "--metric --smooth --log --table --help");
    assert_string_equal(CANDIDATES("export", "--format", ""), "csv long tensorboard events json svg");
    assert_string_equal(CANDIDATES("export", "--format=t"), "--format=tensorboard");
    assert_string_equal(CANDIDATES("train", "--device", "c"), "cpu cuda");
    assert_string_equal(CANDIDATES("clean", "--only", "caches,d"), "caches,damaged");
    assert_string_equal(CANDIDATES("clean", "--only=caches,d"), "--only=caches,damaged");
    assert_string_equal(CANDIDATES("generate", "x", "--seed", ""), "");
    assert_string_equal(CANDIDATES("estimate", "--fit", "--js"),
                        "--json"); /* --fit takes no word that follows */
    assert_string_equal(CANDIDATES("runs", ""),
                        "--filter --sort --columns --json --help"); /* there is nothing else */
    assert_string_equal(CANDIDATES("train", "--", "--js"), ":files");
    assert_string_equal(CANDIDATES("export", "x", "-o"), ""); /* a letter stands for itself */
    assert_string_equal(CANDIDATES("export", "x", "--formatx=csv", "--f"), "--format");
    assert_string_equal(CANDIDATES("order", "--wait", "x", "c"), "continue checkpoint");
    assert_string_equal(CANDIDATES("order", "-", "c"), "continue checkpoint"); /* a dash alone is a word */
    assert_string_equal(CANDIDATES("data", "-"), "--help");
    assert_string_equal(CANDIDATES("-"), "--help --version");
}

TEST_CASE(keys_come_by_section_and_with_the_values_that_they_accept)
{
    assert_string_equal(CANDIDATES("train", "--me"), "--memory.");
    assert_string_equal(CANDIDATES("train", "--memory."), "--memory.allocator= --memory.reserve=");
    assert_string_equal(CANDIDATES("resume", "x", "--train.lea"), "--train.learning_rate=");
    assert_string_equal(CANDIDATES("train", "--train.optimizer=a"), "--train.optimizer=adamw");
    assert_string_equal(CANDIDATES("train", "--train.async="), "--train.async=false --train.async=true");
    assert_string_equal(CANDIDATES("train", "--param_group.norms.l"), "--param_group.norms.lr_scale=");
    assert_string_equal(CANDIDATES("generate", "x", "--memory."), ""); /* takes no settings */
}

TEST_CASE(words_are_offered_by_what_they_stand_for)
{
    assert_string_equal(CANDIDATES("order", "x", "c"), "continue checkpoint");
    assert_string_equal(CANDIDATES("order", "x", "lr-factor", ""), "");
    assert_string_equal(CANDIDATES("data", "fetch", ""), "kjv");
    assert_string_equal(CANDIDATES("data", "prepare", "a", "k"), "kjv :files");
    assert_string_equal(CANDIDATES("train", "--data.train="), "--data.train=kjv :files");
    assert_string_equal(CANDIDATES("train", "--data.tokenizer="),
                        "--data.tokenizer=bytes --data.tokenizer=bpe: :files");
    assert_string_equal(CANDIDATES("data", "prepare", "a", "-o", ""), ":files");
    assert_string_equal(CANDIDATES("model", "import", ""), ":folders");
    assert_string_equal(CANDIDATES("tokenizer", "encode", "b"), "bytes :files");
    assert_string_equal(CANDIDATES("tokenizer", "encode", "bytes", ""), ":files");
}

/* The names, sizes and times of all files of the store but SQLite's shared memory, which readers of a live
 * database lock. */
static const char *list_files(const struct stage *s)
{
    struct process *process = process_expect(
        0, process_open(&(struct process_options){
               .program = "/bin/sh",
               .folder = s->home,
               .arguments = (const char *const[]){
                   "-c", "find . ! -name '*-shm' -type f -printf '%p %s %T@\\n' | sort; find . | wc -l",
                   NULL}}));
    return process_stdout(process);
}

STAGE_CASE(runs_are_offered_by_name_and_by_id, struct stage *s)
{
    for (int i = 0; i < 2; i++)
        process_run(0, "train", s->config, "--device=cpu", "--name=first", "--train.total_steps=1", NULL);
    process_run(0, "train", s->config, "--device=cpu", "--name=second", "--train.total_steps=1", NULL);
    const char *before = list_files(s);
    assert_string_equal(CANDIDATES("resume", ""), "latest second first");
    assert_string_equal(CANDIDATES("compare", "first", "s"), "second");
    assert_string_equal(CANDIDATES("export", "--table", "evals", "f"), "first");
    assert_string_equal(CANDIDATES("chat", "x", "--adapter", "first,s"), "first,second :folders");
    char *id = stage_query(s, "select id from runs where name = 'second'");
    id[strcspn(id, "\n")] = '\0';
    assert_non_null(strstr(CANDIDATES("show", "2"), id));
    assert_string_equal(CANDIDATES("show", id), id);
    assert_string_equal(CANDIDATES("runs", "--sort", "best_s"), "best_step");
    assert_string_equal(CANDIDATES("runs", "--sort", "best,-ag"), "best,-age");
    assert_string_equal(CANDIDATES("runs", "--columns=name,train.learn"),
                        "--columns=name,train.learning_rate");
    assert_string_equal(CANDIDATES("runs", "--columns", "name,los"), "name,loss");
    assert_string_equal(CANDIDATES("export", "first", "--metric", "lo"), "loss");
    assert_string_equal(CANDIDATES("export", "first", "--metric=loss,grad"), "--metric=loss,grad_norm");
    assert_string_equal(CANDIDATES("runs", "--filter", "na"), "name");
    assert_string_equal(CANDIDATES("runs", "--filter", "status=finished and (best_s"),
                        "status=finished and (best_step");
    assert_string_equal(CANDIDATES("runs", "--filter=na"), "--filter=name");
    assert_string_equal(CANDIDATES("runs", "--filter", "status=na"), "");
    assert_string_equal(CANDIDATES("tag", "first", "+"), "");
    const char *after = list_files(s);
    assert_string_equal(before, after);
    process_run(0, "tag", "first", "+good", NULL);
    assert_string_equal(CANDIDATES("tag", "first", "+"), "+good");
    assert_string_equal(CANDIDATES("tag", "first", "-g"), "-good");
    assert_string_equal(CANDIDATES("show", "+"), "");
    char *model = kept_format("%s/models/qwen", s->home);
    assert_int_equal(file_make_folders(model, NULL), STATUS_OK);
    assert_string_equal(CANDIDATES("generate", ""), "latest second first qwen :folders");
    assert_string_equal(CANDIDATES("train", "--model.from=q"), "--model.from=qwen :folders");
}

STAGE_CASE(without_a_store_nothing_is_offered_and_nothing_made, struct stage *s)
{
    char home[700];
    snprintf(home, sizeof home, "%s/none/at all", s->folder);
    setenv("ANNEAL_HOME", home, 1);
    assert_string_equal(CANDIDATES("resume", ""), "");
    assert_string_equal(CANDIDATES("generate", ""), ":folders");
    snprintf(home, sizeof home, "%s/none", s->folder);
    assert_false(file_exists(home));
    stage_write(home, "no database", 11); /* no folder either */
    assert_string_equal(CANDIDATES("resume", ""), "");
    setenv("ANNEAL_HOME", s->home, 1);
}

/* ---- every command ---- */

/* Arguments without candidates, as their values are new or unlimited. */
static bool is_free(const char *name)
{
    static const char *const names[] = {"NAME",     "TEXT", "TEXT...", "VALUE", "ID...",  "MEMORY",
                                        "TOKEN...", "LOSS", "RATE",    "COUNT", "TFLOPS", "GBS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Fails unless there are candidates after `words` for the argument that the help calls `name`. */
static void expect_candidates(const struct command *command, const char *words, const char *name)
{
    char line[300], *list[12], *rest = line, *output = NULL;
    size_t size = 0;
    int count = 0;
    snprintf(line, sizeof line, "%s%s ", command->line.name, words);
    while (rest) list[count++] = strsep(&rest, " ");
    FILE *out = open_memstream(&output, &size);
    assert_int_equal(complete_print(count, list, out), 0);
    fclose(out);
    if (!*output && !is_free(name)) fail_msg("anneal %s: offers nothing for %s", command->line.name, name);
    free(output);
}

static void expect_completed(const struct command *command)
{
    char names[80], words[80] = "";
    for (const struct command *const *c = command->subcommands; c && *c; c++) expect_completed(*c);
    if (!command->run) return;
    snprintf(names, sizeof names, "%s", command->line.words);
    for (char *name, *rest = names; rest && *rest && (name = strsep(&rest, " "));) {
        name[strcspn(name, "]")] = '\0';
        expect_candidates(command, words, name + (*name == '['));
        strcat(words, " x");
    }
    for (const struct option_spec *o = command->line.options; o && o->kind; o++) {
        snprintf(words, sizeof words, " --%s", o->name);
        if (o->kind == OPTION_TEXT || o->kind == OPTION_ANY_TEXT) expect_candidates(command, words, o->value);
    }
}

STAGE_CASE(whatever_a_command_takes_is_offered, struct stage *s)
{
    char *sweeps = kept_format("%s/sweeps/first", s->home);
    assert_int_equal(file_make_folders(sweeps, NULL), STATUS_OK);
    process_run(0, "train", s->config, "--device=cpu", "--tag=new", "--train.total_steps=1", NULL);
    expect_completed(&command_anneal);
}

/* ---- the shells ---- */

/* Fails the test unless `script`, run by the shell in our folder, prints this. $1 is the binary's name, found
 * by PATH. */
static void expect_shell(const char *shell, const char *flag, const char *script, const char *expected)
{
    char *binary = kept_format("%s", getenv("ANNEAL_BINARY"));
    *strrchr(binary, '/') = '\0';
    char *path = kept_format("PATH=%s:%s", binary, getenv("PATH"));
    char *program = kept_format("/usr/bin/%s", shell);
    if (!file_exists(program)) skip();
    struct process *process =
        process_expect(0, process_open(&(struct process_options){
                              .program = program,
                              .environment = (const char *const[]){path, NULL},
                              .arguments = (const char *const[]){flag, "-c", script, NULL}}));
    assert_string_equal(process_stdout(process), expected);
}

/* Readline's words: "=" and ":" are words of their own. */
TEST_CASE(bash_completes_a_line)
{
    expect_shell("bash", "--norc",
                 "source packaging/completion/anneal.bash\n"
                 "complete -p anneal\n"
                 "drive() {\n"
                 "    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=(\"${@:3}\") COMP_CWORD=$(($# - 3))\n"
                 "    _anneal anneal \"$2\"\n"
                 "    printf '<%s>' \"${COMPREPLY[@]}\"; echo\n"
                 "}\n"
                 "drive 'anneal res' res anneal res\n"
                 "drive 'anneal  export --table eva' eva anneal export --table eva\n"
                 "drive 'anneal export --table=eva' eva anneal export --table = eva\n"
                 "drive 'anneal train --train.optimizer=' '' anneal train --train.optimizer =\n"
                 "drive 'anneal train --train.opt' --train.opt anneal train --train.opt\n"
                 "drive 'anneal train --data.tokenizer=bpe' bpe anneal train --data.tokenizer = bpe\n"
                 "drive 'anneal train --data.train=core/ba' core/ba anneal train --data.train = core/ba\n"
                 "drive 'anneal train READ' READ anneal train READ\n"
                 "drive 'anneal data ' '' anneal data ''\n"
                 "drive 'anneal data \"fe' fe anneal data '\"fe'\n"
                 "drive \"anneal export --table='eva\" eva anneal export --table = \"'eva\"\n"
                 "drive 'anneal export base > READ' READ anneal export base '>' READ\n"
                 "drive 'anneal export base 2>READ' READ anneal export base 2 '>' READ\n"
                 "drive 'anneal data 2>x > y fe' fe anneal data 2 '>' x '>' y fe\n",
                 "complete -F _anneal anneal\n"
                 "<resume>\n<evals>\n<evals>\n<adamw><lion><muon>\n<--train.optimizer=>\n<bpe:>\n<core/"
                 "base>\n<README.md>\n"
                 "<prepare><info><show><fetch>\n<fetch>\n<evals>\n<README.md>\n<README.md>\n<fetch>\n");
}

/* The functions of zsh's own completion are replaced by ones that print what they are given. */
TEST_CASE(zsh_completes_a_line)
{
    expect_shell("zsh", "-f",
                 "_describe() { print -r -- ${${(P)2}%%:*} $3 }\n"
                 "_files() { print -r -- files $@ of $PREFIX }\n"
                 "compset() { PREFIX=${PREFIX#*=} }\n"
                 "words=(anneal) CURRENT=1 PREFIX=\n"
                 "source packaging/completion/_anneal >/dev/null\n"
                 "drive() { words=($@) CURRENT=$# PREFIX=$@[-1]; _anneal }\n"
                 "drive anneal data fet\n"
                 "drive anneal export --table=eva\n"
                 "drive anneal train --memory.al\n"
                 "drive anneal model import co\n"
                 "drive anneal train --data.val=core\n"
                 "store() { print -r -- of $ANNEAL_HOME }\n"
                 "LBUFFER='ANNEAL_HOME=\"/a b\" store x' drive store x\n"
                 "LBUFFER='ANNEAL_HOME=~/a store x' HOME=/me drive store x\n"
                 "ANNEAL_HOME=/b LBUFFER='ANNEAL_HOME=/a store x; store x' drive store x\n",
                 "fetch\n--table=evals\n--memory.allocator= -S\nfiles -/ of co\nfiles of core\n"
                 "of /a b\nof /me/a\nof /b\n");
}

TEST_CASE(fish_completes_a_line)
{
    expect_shell("fish", "--no-config",
                 "source packaging/completion/anneal.fish\n"
                 "for line in 'anneal data fe' 'anneal export --table=eva' 'anneal train --train.opt' \\\n"
                 "    'anneal train --data.train=core/ba' 'anneal train READ' 'anneal order x ev' \\\n"
                 "    'anneal data \"fe' 'anneal import --store READ' 'anneal import --store=cor'\n"
                 "    complete -C $line | string replace -r \"\\t.*\" \"\"\n"
                 "end\n"
                 "true\n",
                 "fetch\n--table=evals\n--train.optimizer=\n--data.train=core/base/\nREADME.md\n"
                 "eval\nfetch\n--store=core/\n");
}

TEST_MAIN()
