/* See trained_base.h. */
#include "tests/tui/view/trained_base.h"

#include "core/base/file.h"
#include "tests/cmocka.h"

char trained_home[1024];

int trained_base(const char *options)
{
    char corpus[1200], command[4096], text[4000];
    struct err err = {0};
    const char verse[] = "In the beginning God created the heaven and the earth. ";
    for (size_t i = 0; i < sizeof text; i++) text[i] = verse[i % (sizeof verse - 1)];
    snprintf(trained_home, sizeof trained_home, "%s/trained", getenv("ANNEAL_TEST_DIR"));
    snprintf(corpus, sizeof corpus, "%s/corpus.txt", getenv("ANNEAL_TEST_DIR"));
    if (file_make_folders(trained_home, &err) || file_write_atomic(corpus, text, sizeof text, &err)) return 1;
    snprintf(command, sizeof command,
             "ANNEAL_HOME=%s %s train --device cpu --progress none --name base --data.train=%s "
             "--data.tokenizer=bytes --model.num_layers=1 --model.hidden_dim=16 --model.num_heads=2 "
             "--train.seq_len=16 --train.batch_size=2 %s",
             trained_home, getenv("ANNEAL_BINARY"), corpus, options);
    return system(command) != 0;
}

struct pty *trained_base_watch(int rows, int columns)
{
    static const char *const watch[] = {"watch", "base", NULL};
    char environment[1100];
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", trained_home);
    struct pty *pty = terminal_open(environment, rows, columns, NULL, "OMP_NUM_THREADS=1", watch);
    pty_wait_text(pty, "finished");
    return pty;
}
