/* Bad input: each mistake of a user gives its exit status and one clear sentence, leaves no new run and no
 * half-written file, and does not change stored data. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

/* `anneal train CONFIG WORD`, refused. */
static void expect_refused(const struct stage *s, int status, const char *word, const char *sentence)
{
    struct process *p = process_run(status, "train", s->config, word, NULL);
    assert_string_equal(process_stdout(p), "");
    process_expect_sentence(p, sentence);
    assert_int_equal(stage_count_runs(), 0);
    assert_int_equal(stage_count_leftovers(s), 0);
}

/* ---- corpus ---- */

STAGE_CASE(a_missing_corpus_names_the_path_and_the_recipes, struct stage *s)
{
    expect_refused(s, 1, "--data.train=/nowhere/text.txt",
                   "data.train: /nowhere/text.txt: no such file, folder or recipe (");
    expect_refused(s, 1, "--data.val=/nowhere/text.txt", "data.val: /nowhere/text.txt: no such file");
    expect_refused(
        s, 1, "--data.train=/nowhere/text.txt # mine",
        "data.train (a comment after a value begins with ;): /nowhere/text.txt # mine: no such file");
    expect_refused(s, 2, "--data.train=README.md,./README.md",
                   "/./README.md: is listed twice in the data files, also as /");
    expect_refused(s, 2, "--data.train=", "data.train is empty: name a .tok file, a text file, a folder");
}

STAGE_CASE(an_empty_corpus_says_that_there_is_nothing_to_learn, struct stage *s)
{
    struct err err = {0};
    stage_write(s->corpus, "", 0);
    expect_refused(s, 1, "--train.total_steps=3", "text.txt: is empty");
    char *path = kept_format("--data.train=%s/folder", s->folder);
    assert_int_equal(file_make_folders(strchr(path, '/'), &err), STATUS_OK);
    expect_refused(s, 1, path, "/folder: no files in this folder (put text files into it)");
}

STAGE_CASE(a_corpus_shorter_than_a_sequence_gives_both_lengths, struct stage *s)
{
    stage_write(s->corpus, "seventeen letters", 17);
    expect_refused(s, 2, "--data.val_fraction=0",
                   "the corpus is too short: 17 tokens, but one sequence of seq_len 32 needs 33");
}

STAGE_CASE(bytes_that_are_not_utf8_are_trained_on, struct stage *s)
{
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * i / 7);
    stage_write(s->corpus, bytes, sizeof bytes);
    process_run(0, "train", s->config, "--progress=none", "--train.total_steps=3", NULL);
    process_run(0, "train", s->config, "--progress=none", "--train.total_steps=3", "--data.tokenizer=bpe:300",
                "--model.vocab_size=300", NULL);
    assert_int_equal(stage_count_runs(), 2);
}

/* ---- configuration ---- */

STAGE_CASE(an_unknown_key_names_the_nearest_and_in_a_file_the_line, struct stage *s)
{
    static const char text[] = "; a comment\n[train]\n\nlerning_rate = 1e-3\n";
    expect_refused(s, 2, "--train.lerning_rate=1e-3",
                   "unknown key train.lerning_rate (did you mean train.learning_rate?");
    expect_refused(s, 2, "--sgd.learning_rate=1e-3", "did you mean train.learning_rate?");
    stage_write(s->config, text, sizeof text - 1);
    char *path =
        kept_format("%s:4: unknown key train.lerning_rate (did you mean train.learning_rate?", s->config);
    expect_refused(s, 2, "--train.total_steps=3", path);
}

STAGE_CASE(a_bad_value_is_met_with_the_accepted_ones, struct stage *s)
{
    static const struct {
        const char *word, *sentence;
    } cases[] = {
        {"--train.learning_rate=fast", "train.learning_rate = fast: must be a number from 0 to 1000"},
        {"--train.learning_rate=nan", "train.learning_rate = nan: must be a number from 0 to 1000"},
        {"--train.total_steps=0", "train.total_steps = 0: must be a whole number from 1 to 1000000000000"},
        {"--train.total_steps=1.5", "train.total_steps = 1.5: must be a whole number"},
        {"--train.total_steps=99999999999999999999", "must be a whole number from 1 to 1000000000000"},
        {"--train.optimizer=sgd", "train.optimizer = sgd: must be one of adamw|lion"},
        {"--model.tie_weights=yes", "model.tie_weights = yes: must be one of false|true"},
        {"--train.learning_rate", "--train.learning_rate: must be --section.key=value"},
        {"--progress=fancy", "--progress fancy: must be auto|bar|plain|json|start|none"},
        {"--device=gpu", "--device gpu: must be auto|cpu|cuda|cuda:N"},
        {"--nmae=x", "unknown option --nmae=x"},
        {"--nam", "unknown option --nam (did you mean --name?)"},
        {"--name", "--name: needs a value"},
        {"another.ini", "\"another.ini\" is one argument too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(s, 2, cases[i].word, cases[i].sentence);
}

STAGE_CASE(a_configuration_that_is_none_names_file_and_line, struct stage *s)
{
    stage_write(s->config, "[train]\nnonsense\n", 17);
    char *sentence = kept_format(
        "%s:2: must be [section], key = value, or a comment line, which begins with ; or #", s->config);
    expect_refused(s, 2, "--train.total_steps=3", sentence);
    stage_write(s->config, "\0\1\2\3", 4);
    expect_refused(s, 2, "--train.total_steps=3", "tiny.ini: not a configuration file (it must be INI text)");
    struct process *p = process_run(1, "train", "/nowhere/my.ini", NULL);
    process_expect_sentence(p, "/nowhere/my.ini: there is no such file");
    p = process_run(2, "train", s->folder, NULL);
    process_expect_sentence(p, "is a folder, not a file");
}

STAGE_CASE(more_ranks_than_the_host_can_bear_are_refused, struct stage *s)
{
    long most = 16 * sysconf(_SC_NPROCESSORS_ONLN);
    if (most >= 1024) skip(); /* the most that there are anywhere */
    struct process *p = process_run(2, "train", s->config, kept_format("--ranks=%ld", most + 1), NULL);
    process_expect_sentence(p, kept_format("on which at most %ld ranks start", most));
    assert_int_equal(stage_count_runs(), 0);
}

STAGE_CASE(impossible_sizes_name_both_keys, struct stage *s)
{
    static const struct {
        const char *word, *sentence;
    } cases[] = {
        {"--model.num_heads=3", "model.hidden_dim = 32 is not a multiple of model.num_heads = 3"},
        {"--model.num_kv_heads=3", "model.num_heads = 2 is not a multiple of model.num_kv_heads = 3"},
        {"--model.head_dim=7", "model.head_dim = 7: must be even"},
        {"--model.vocab_size=100",
         "model.vocab_size = 100 is smaller than the tokenizer's 256 (set it to at least 256)"},
        {"--model.max_seq_len=16", "train.seq_len = 32 is longer than model.max_seq_len = 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(s, 2, cases[i].word, cases[i].sentence);
}

STAGE_CASE(a_model_larger_than_memory_says_how_much_it_wants, struct stage *s)
{
    struct process *p = process_run(1, "train", s->config, "--model.hidden_dim=131072",
                                    "--model.num_heads=128", "--model.num_layers=1024", NULL);
    process_expect_sentence(p, "training needs ");
    process_expect_sentence(p, "(use a smaller model, train.batch_size or train.seq_len)");
    assert_int_equal(stage_count_runs(), 0);
}

STAGE_CASE(a_missing_gpu_is_said_in_one_sentence, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--device", "cuda", "--progress=none", NULL);
    int code = process_wait_exit(p);
    if (code == 0) {
        print_message("SKIP: this machine trains with --device cuda\n");
        skip();
    }
    assert_int_equal(code, 1);
    process_expect_sentence(p, "cuda");
    process_expect_sentence(p, "(use --device cpu or auto)");
    assert_int_equal(stage_count_runs(), 0);
}

/* ---- token files ---- */

STAGE_CASE(a_truncated_token_file_gives_both_sizes, struct stage *s)
{
    unsigned char tokens[8 + 4 * 1000] = {0xE8, 0x03}; /* 1000 */
    char *path = stage_path(s, "cut.tok");
    char *word = kept_format("--data.train=%s", path);
    stage_write(path, tokens, sizeof tokens - 404);
    expect_refused(
        s, 1, word,
        "cut.tok: is truncated: its header promises 1000 tokens of 4 bytes, but 3596 bytes follow it");
    stage_write(path, tokens, 5);
    expect_refused(s, 1, word, "cut.tok: is truncated: 5 bytes, but the header alone has 8");
    memset(tokens + 8, 0xFF, 4000);
    stage_write(path, tokens, sizeof tokens);
    expect_refused(s, 1, word, "cut.tok: has the id 4294967295, too large for any vocabulary");
}

/* ---- the store ---- */

STAGE_CASE(a_home_that_is_a_file_names_the_variable, struct stage *s)
{
    stage_write(s->home, "", 0);
    struct process *p = process_run(1, "train", s->config, NULL);
    process_expect_sentence(p, "cannot keep runs (set ANNEAL_HOME to a folder you may write to): ");
    process_expect_sentence(p, "Not a directory");
    process_expect_sentence(process_run(1, "runs", NULL), "anneal.db: cannot look for it: Not a directory");
    process_expect_sentence(process_run(1, "runs", NULL), "set ANNEAL_HOME to a folder you may read");
    static const char *const nowhere[] = {"ANNEAL_HOME", "XDG_DATA_HOME", "HOME", NULL};
    p = process_open(&(struct process_options){.arguments = (const char *const[]){"train", s->config, NULL},
                                               .environment = nowhere});
    process_expect_sentence(process_expect(1, p), "nowhere to keep runs: HOME is not set (set ANNEAL_HOME");
}

STAGE_CASE(a_database_of_a_newer_version_is_left_alone, struct stage *s)
{
    process_run(0, "train", s->config, "--progress=none", "--train.total_steps=3", NULL);
    stage_query(s, "pragma user_version = 99");
    struct process *p = process_run(1, "train", s->config, NULL);
    process_expect_sentence(
        p, "anneal.db: was written by a newer anneal (its version is 99, this anneal knows versions up "
           "to ");
    process_expect_sentence(process_run(1, "runs", NULL), "update anneal, or set ANNEAL_HOME");
    stage_expect(s, "select count(*) || ' ' || steps from runs", "1 3");
}

STAGE_CASE(a_file_that_is_no_database_is_left_alone, struct stage *s)
{
    static const char text[] = "Dear diary, today I was taken for a database. Again. It is always the same.";
    char path[700];
    struct err err = {0};
    assert_int_equal(file_make_folders(s->home, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/anneal.db", s->home);
    stage_write(path, text, sizeof text - 1);
    struct process *p = process_run(1, "train", s->config, NULL);
    process_expect_sentence(p, "anneal.db: is not a run database (move it away, or set ANNEAL_HOME");
    char *left = stage_read(path);
    assert_string_equal(left, text);
}

STAGE_CASE(a_locked_database_says_so_and_loses_nothing, struct stage *s)
{
    process_run(0, "train", s->config, "--progress=none", "--train.total_steps=3", NULL);
    stage_query(s, "select 1"); /* skips where there is no shell */
    char *database = kept_format("%s/anneal.db", s->home);
    char *pipe = stage_path(s, "pipe");
    char *wait = kept_format(".shell echo held; cat %s", pipe);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    /* holds the lock until the pipe has had a writer */
    struct process *holder = process_open(&(struct process_options){
        .program = "/usr/bin/sqlite3",
        .arguments = (const char *const[]){database, "begin exclusive", wait, NULL}});
    process_wait_text(holder, "held");
    struct process *p = process_run(1, "train", s->config, "--progress=none", NULL);
    process_expect_sentence(p, "anneal.db: the database is locked by another process");
    assert_int_equal(stage_count_runs(), 1); /* reading goes on meanwhile */
    int end = open(pipe, O_WRONLY);
    assert_true(end >= 0 && close(end) == 0);
    process_expect(0, holder);
    process_run(0, "train", s->config, "--progress=none", "--train.total_steps=3", NULL);
    assert_int_equal(stage_count_runs(), 2);
}

STAGE_CASE(a_second_trainer_on_a_run_names_the_process_of_the_first, struct stage *s)
{
    struct process *first = process_start("train", s->config, "--name", "busy",
                                          "--train.total_steps=100000000", "--progress=json", NULL);
    process_wait_lines(first, 3);
    struct process *second = process_run(1, "resume", "busy", "--train.total_steps=200000000", NULL);
    char *sentence = kept_format("another trainer (process %d on ", (int)process_pid(first));
    process_expect_sentence(second, sentence);
    process_signal(first, SIGTERM);
    process_expect(0, first);
    stage_expect(s, "select status || segment || ' ' || total_steps from runs", "stopped1 100000000");
}

/* ---- disks: a mount of our own in a namespace of our own ---- */

/* Runs a script with a file system of `size` at $1, the binary as $0 and the configuration as $2. */
static struct process *run_on_small_disk(const struct stage *s, const char *size, const char *script)
{
    struct err err = {0};
    struct process *probe = process_open(&(struct process_options){
        .program = "unshare",
        .arguments = (const char *const[]){"-rm", "mount", "-t", "tmpfs", "none", s->folder, NULL}});
    int code = process_wait_exit(probe);
    if (code) {
        print_message("SKIP: no mounting here: %s", process_stderr(probe));
        skip();
    }
    assert_int_equal(file_make_folders(s->home, &err), STATUS_OK);
    char *whole = kept_format("mount -t tmpfs -o mode=755,size=%s none \"$1\" || exit 99; %s", size, script);
    return process_open(&(struct process_options){
        .program = "unshare",
        .arguments = (const char *const[]){"-rm", "/bin/sh", "-c", whole, getenv("ANNEAL_BINARY"), s->home,
                                           s->config, NULL}});
}

STAGE_CASE(a_read_only_disk_says_so, struct stage *s)
{
    struct process *p =
        run_on_small_disk(s, "8m", "mount -o remount,ro \"$1\" || exit 99; exec \"$0\" train \"$2\"");
    process_expect(1, p);
    process_expect_sentence(p,
                            "cannot be written: Read-only file system (set ANNEAL_HOME to a folder you may "
                            "write to; its runs can only be viewed)");
}

STAGE_CASE(an_archive_on_a_read_only_disk_can_be_looked_at, struct stage *s)
{
    struct process *p = run_on_small_disk(
        s, "8m",
        "for run in old new; do \"$0\" train \"$2\" --name $run --progress=none || exit 98; done\n"
        "mount -o remount,ro \"$1\" || exit 99\n"
        "export TMPDIR=$(dirname \"$2\")/tmp; mkdir \"$TMPDIR\"; output=${TMPDIR}ld\n"
        "\"$0\" runs | grep -c finished; \"$0\" export old | wc -l\n"
        "for verb in 'show old' 'compare old new' 'model info old' \"evaluate old --data=$2\" \\\n"
        "            'generate old --max-tokens=2'; do\n"
        "  \"$0\" $verb > $output 2>&1 || cat $output\n"
        "done; ls \"$TMPDIR\"; \"$0\" order old stop\n");
    process_expect(1, p);
    assert_string_equal(process_stdout(p), "2\n41\n"); /* and nothing is left where the tokens were */
    process_expect_sentence(p, "cannot be written: Read-only file system (set ANNEAL_HOME to");
}

STAGE_CASE(a_full_disk_refuses_a_run_and_loses_none, struct stage *s)
{
    struct process *p = run_on_small_disk(
        s, "4m",
        "\"$0\" train \"$2\" --name old --progress=none || exit 98\n"
        "head -c 8m /dev/zero > \"$1/fill\" 2>/dev/null\n"
        "\"$0\" train \"$2\" --name new --progress=none; echo \"train $?\"\n"
        "\"$0\" resume old --train.total_steps=60 --progress=none; echo \"resume $?\"\n"
        "\"$0\" export old -o \"$1/steps.csv\"; echo \"export $?\"; ls \"$1\" | grep -c steps.csv\n"
        "\"$0\" runs --json | grep -c '\"id\"'\n"
        "rm \"$1/fill\"; ls \"$1/runs\" | wc -l; find \"$1\" -name '*.tmp*' | wc -l\n"
        "\"$0\" resume old --train.total_steps=60 --progress=none; echo \"again $?\"\n");
    process_expect(0, p);
    /* no new run, no file of an export, no folder of a run, nothing half-written; and all goes on after */
    assert_string_equal(process_stdout(p), "train 1\nresume 1\nexport 1\n0\n1\n1\n0\nagain 0\n");
    const char *output = process_stderr(p);
    int lines = 0;
    for (const char *line = output; (line = strchr(line, '\n')); line++) lines++;
    assert_int_equal(lines, 5); /* an error each, and for the two that train a warning about the ledger */
    assert_non_null(strstr(output, "the disk is full (free some space)"));
    assert_non_null(strstr(output, "steps.csv: cannot write: No space left on device"));
}

STAGE_CASE(a_full_disk_lets_a_run_be_deleted, struct stage *s)
{
    struct process *p =
        run_on_small_disk(s, "4m",
                          "\"$0\" train \"$2\" --name old --progress=none || exit 98\n"
                          "head -c 8m /dev/zero > \"$1/fill\" 2>/dev/null\n"
                          "\"$0\" delete old --yes; echo \"delete $?\"; ls \"$1/runs\" | wc -l\n"
                          "\"$0\" runs --json | grep -c '\"id\"'; exit 0\n");
    process_expect(0, p);
    assert_string_equal(process_stdout(p), "delete 0\n0\n0\n");
}

STAGE_CASE(a_disk_without_room_for_one_checkpoint_refuses_a_run, struct stage *s)
{
    struct process *p = run_on_small_disk(
        s, "3m",
        "\"$0\" train \"$2\" --name big --model.hidden_dim=256 --progress=none; echo \"train $?\"\n"
        "\"$0\" runs --json | grep -c '\"id\"'\n");
    process_expect(1, p); /* of grep */
    assert_string_equal(process_stdout(p), "train 1\n0\n");
    process_expect_sentence(p, "the disk has no room for a checkpoint: it takes ");
}

STAGE_CASE(a_disk_without_inodes_refuses_a_run_and_says_so, struct stage *s)
{
    struct process *p = run_on_small_disk(
        s, "64m,nr_inodes=20",
        "\"$0\" train \"$2\" --name big --dry-run | grep -c 'no more files can be created (`df -i`)'\n"
        "\"$0\" train \"$2\" --name big --progress=none");
    process_expect(1, p);
    assert_string_equal(process_stdout(p), "1\n");
    process_expect_sentence(p, "the disk has no room for a checkpoint: no more files can be created below ");
    assert_null(strstr(process_stderr(p), " are free"));
}

/* Room for all but the records is taken, or every inode. */
#define FILL_ROOM   "head -c 1m /dev/zero > \"$1/rest\"; head -c 40m /dev/zero > \"$1/fill\"; rm \"$1/rest\""
#define FILL_INODES "mkdir \"$1/fill\"; i=0; while touch \"$1/fill/$i\" 2> /dev/null; do i=$((i + 1)); done"

/* Trains on a disk that `fill` fills while the run is paused, and does what `then` says. */
static struct process *train_until_the_disk_is_full(const struct stage *s, const char *size, const char *fill,
                                                    const char *then)
{
    return run_on_small_disk(
        s, size,
        kept_format(
            "\"$0\" train \"$2\" --name big --model.hidden_dim=256 --train.total_steps=100 --eval.every=0 "
            "--sample.every=0 --checkpoint.every=0 --progress=none & until \"$0\" order big pause --wait > "
            "/dev/null; do "
            "sleep 0.1; done\n"
            "%s\n"
            "\"$0\" order big continue --wait > /dev/null\n"
            "until \"$0\" show big | grep -q 'the disk is full'; do sleep 0.1; done\n"
            "\"$0\" runs --json | grep -o '\"status\": \"[a-z]*\"'\n%s\n"
            "wait $!; echo \"train $?\"; grep 'after step 100' \"$1\"/runs/*big/log.txt >&2\n"
            "ls \"$1\"/runs/*big/checkpoints\n"
            "\"$0\" runs --json | grep -o '\"status\": \"[a-z]*\"'\n",
            fill, then));
}

#define SHOWN  "\"status\": \"paused\"\n"
#define ENDED  "train 0\nstep-100\n\"status\": \"finished\"\n"
#define WAITED SHOWN ENDED

STAGE_CASE(the_last_weights_wait_for_room_on_a_full_disk, struct stage *s)
{
    struct process *p = train_until_the_disk_is_full(s, "24m", FILL_ROOM, "rm \"$1/fill\"");
    process_expect(0, p);
    assert_string_equal(process_stdout(p), WAITED);
}

STAGE_CASE(the_last_weights_wait_for_inodes_too, struct stage *s)
{
    struct process *p = train_until_the_disk_is_full(
        s, "24m,nr_inodes=99", FILL_INODES,
        "\"$0\" show big | grep -o 'more files can be created'; rm -r \"$1/fill\"");
    process_expect(0, p);
    assert_string_equal(process_stdout(p), SHOWN "more files can be created\n" ENDED);
}

STAGE_CASE(a_run_that_waits_for_room_can_be_stopped, struct stage *s)
{
    struct process *p =
        train_until_the_disk_is_full(s, "24m", FILL_ROOM, "\"$0\" order big stop > /dev/null");
    process_expect(0, p);
    assert_string_equal(process_stdout(p), "\"status\": \"paused\"\ntrain 1\n\"status\": \"failed\"\n");
    assert_non_null(strstr(process_stderr(p), "anneal: checkpoint at step "));
    assert_null(strstr(process_stderr(p), "paused after step 100"));
    assert_null(strstr(process_stderr(p), "continues after step 100"));
    assert_non_null(strstr(process_stderr(p), "No space left on device (make room on the disk, then train "));
}

/* Two checkpoints of 4 MiB fit on the disk with the fill file, but no third one; each is written while
 * training goes on. The last one takes the place of the oldest. */
STAGE_CASE(a_disk_that_fills_during_saves_costs_no_step_and_not_the_last_checkpoint, struct stage *s)
{
    struct process *p = run_on_small_disk(
        s, "24m",
        "set -- \"$1\" \"$2\" --model.hidden_dim=256 --eval.every=0 --sample.every=0 --progress=none\n"
        "\"$0\" train \"$2\" --name whole \"$3\" \"$4\" \"$5\" \"$6\" --checkpoint.every=0 || exit 98\n"
        "rm -r \"$1\"/runs/*/checkpoints; head -c 14m /dev/zero > \"$1/fill\"\n"
        "\"$0\" train \"$2\" --name big \"$3\" \"$4\" \"$5\" \"$6\" --checkpoint.every=5 "
        "--checkpoint.keep=9\n"
        "echo \"train $?\"; ls \"$1\"/runs/*big/checkpoints; find \"$1\" -name '*.tmp*' | wc -l\n"
        "\"$0\" show big --json | grep -c 'No space left on device; training continues'\n"
        "\"$0\" show big --json | grep -c 'checkpoint of step 5 was removed to make room for the last one'\n"
        "rm \"$1/fill\"\n"
        "for run in whole big; do \"$0\" export $run | cut -d, -f3,8-10 | sort -u > \"$1/$run\"; done\n"
        "wc -l < \"$1/whole\"; cmp \"$1/whole\" \"$1/big\" && echo same\n");
    process_expect(0, p);
    /* seven are due before the end and the best is one more; two fit, and the third is reported */
    assert_string_equal(process_stdout(p), "train 0\nstep-10\nstep-40\n0\n1\n1\n41\nsame\n");
}

STAGE_CASE(a_file_size_limit_is_an_error_not_a_death, struct stage *s)
{
    process_run(0, "train", s->config, "--name=old", "--progress=none", NULL);
    struct process *p = process_open(&(struct process_options){
        .prelude = "ulimit -f 8;",
        .arguments = (const char *const[]){"train", s->config, "--progress=none", NULL}});
    process_expect_sentence(process_expect(1, p), ": File too large");
    char *tokens = stage_path(s, "big.tok");
    p = process_open(&(struct process_options){
        .prelude = "ulimit -f 1;",
        .arguments = (const char *const[]){"data", "prepare", "docs/index.md", "README.md",
                                           "--tokenizer=bytes", "-o", tokens, "--progress=none", NULL}});
    process_expect_sentence(process_expect(1, p), ": File too large");
    assert_int_equal(stage_count_runs(), 1);
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(too_small_a_stack_is_an_error_not_a_death, struct stage *s)
{
    struct process *p = process_open(&(struct process_options){
        .prelude = "ulimit -s 240;",
        .arguments = (const char *const[]){"train", s->config, "--progress=none", NULL}});
    process_expect_sentence(process_expect(1, p), "the stack is limited to 240 KiB");
    assert_int_equal(stage_count_runs(), 0);
}

STAGE_CASE(too_few_files_are_an_error_and_no_other_one, struct stage *s)
{
    static const char *const preludes[] = {"ulimit -n 12;", "ulimit -n 20; exec 3<&0 4<&0 5<&0 6<&0 7<&0;"};
    for (int i = 0; i < 2; i++) {
        struct process *p = process_open(&(struct process_options){
            .prelude = preludes[i], .arguments = (const char *const[]){"doctor", NULL}});
        process_expect_sentence(process_expect(1, p), "files may be open, which is too little");
    }
}

/* ---- commands, terminals and outputs ---- */

STAGE_CASE(the_workbench_without_a_terminal_says_what_prints_the_same, struct stage *s)
{
    struct process *p = process_open(&(struct process_options){.arguments = (const char *const[]){NULL}});
    process_expect_sentence(process_expect(1, p), "the workbench needs a terminal");
    p = process_run(1, "watch", NULL);
    process_expect_sentence(p, "show latest` print the same information");
}

STAGE_CASE(an_unknown_terminal_is_named_with_the_remedy, struct stage *s)
{
    struct pty *pty = pty_open(&(struct pty_options){.rows = 24, .columns = 120, .term = "nosuch-terminal"});
    pty_wait_text(pty, "\"nosuch-terminal\" (set TERM to");
    assert_int_equal(pty_wait_exit(pty), 1);
    pty_close(pty);
}

STAGE_CASE(a_run_that_does_not_exist_suggests_the_nearest, struct stage *s)
{
    process_run(0, "train", s->config, "--name=kingjames", "--progress=none", "--train.total_steps=2", NULL);
    process_expect_sentence(process_run(1, "show", "kingjams", NULL),
                            "run \"kingjams\": there is no such run; did you mean \"kingjames\"?");
    process_expect_sentence(process_run(1, "generate", "kingjams", NULL), "did you mean \"kingjames\"?");
    process_expect_sentence(process_run(1, "resume", "kingjams", NULL), "did you mean \"kingjames\"?");
}

STAGE_CASE(an_output_that_cannot_be_written_is_an_error, struct stage *s)
{
    struct stat st;
    process_run(0, "train", s->config, "--name=out", "--progress=none", NULL);
    process_expect_sentence(process_run(1, "export", "out", "-o", "/nowhere/x.csv", NULL),
                            "/nowhere/x.csv: cannot create: No such file or directory");
    char *path = kept_format("%s/x.csv", s->corpus); /* below a file */
    process_expect_sentence(process_run(1, "export", "out", "-o", path, NULL), "Not a directory");
    process_expect_sentence(process_run(1, "export", "out", "-o", "/dev/full", NULL),
                            "/dev/full: cannot write: No space left on device");
    assert_int_equal(stat("/dev/full", &st), 0);
    assert_true(S_ISCHR(st.st_mode)); /* written to, not replaced */
    static const char *const printing[][5] = {
        {"runs", "--json", NULL},
        {"show", "out", NULL},
        {"export", "out", NULL},
        {"generate", "out", "--max-tokens=2", NULL},
        {"resume", "out", "--train.total_steps=50", "--progress=json", NULL}};
    for (size_t i = 0; i < sizeof printing / sizeof *printing; i++) {
        struct process *p =
            process_open(&(struct process_options){.prelude = "exec >/dev/full;", .arguments = printing[i]});
        process_expect_sentence(process_expect(1, p), "cannot write: No space left on device");
    }
    assert_string_equal(stage_status(), "finished"); /* the resumed run is complete all the same */
    /* a closed stream's number is not that of the first file that is opened, which the table would ruin */
    struct process *p =
        process_open(&(struct process_options){.prelude = "exec <&- >&-;", .arguments = printing[0]});
    process_expect_sentence(process_expect(1, p), "cannot write: Bad file descriptor");
}

/* ---- hostile text in the database ---- */

#define HOSTILE "char(27) || '[31m' || char(8238) || 'x' || char(7)" /* colour, right to left, a bell */

STAGE_CASE(a_terminal_gets_no_control_characters_and_a_file_all_bytes, struct stage *s)
{
    static const char *const commands[][6] = {
        {"runs", NULL},
        {"runs", "--columns", "name,note,message,tags", NULL},
        {"runs", "--json", NULL},
        {"show", "latest", "--all", NULL},
        {"show", "latest", "--json", NULL},
        {"export", "latest", "--table", "samples", NULL},
        {"export", "latest", "--table", "params", NULL},
        {"export", "latest", "--format", "long", NULL},
        {"export", "latest", "--format", "json", NULL},
        {"generate", "latest", "--prompt", "\033[31mred\u202E", "--max-tokens=1", NULL},
        {"compare", "latest", "tame", NULL},
        {"tokenizer", "decode", "bytes", "27", NULL},
        {"\033[31m\u202E", NULL},
        {"show", "\033[31m\u202E", NULL},
    };
    process_run(0, "train", s->config, "--name", "tame", "--progress=none", NULL);
    process_run(0, "train", s->config, "--name", "out", "--progress=none", NULL);
    stage_query(s, "update runs set name = " HOSTILE ", message = " HOSTILE ", note = " HOSTILE
                   ", device = " HOSTILE " where name = 'out'");
    stage_query(s, "update samples set prompt = " HOSTILE ", text = " HOSTILE);
    stage_query(s, "update events set text = " HOSTILE);
    stage_query(s, "update checkpoints set kind = kind || " HOSTILE);
    stage_query(s, "update params set value = " HOSTILE " where name = 'sample.prompt'");
    stage_query(s, "insert into tags select id, " HOSTILE " from runs where name <> 'tame'");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct pty *pty =
            pty_open(&(struct pty_options){.rows = 40, .columns = 200, .arguments = commands[i]});
        pty_wait_exit(pty);
        const char *raw = pty_raw(pty);
        if (strchr(raw, '\033') || strchr(raw, '\a') || strstr(raw, "\u202E"))
            fail_msg("%s %s: %s", commands[i][0], commands[i][1], raw);
        assert_true(*raw);
        pty_close(pty);
    }
    assert_non_null(
        strstr(process_output("export", "latest", "--table", "samples", NULL), "\033[31m\u202Ex\a"));
    assert_string_equal(process_output("tokenizer", "decode", "bytes", "27", NULL), "\033");
}

TEST_MAIN()
