/* Ranks that differ in what they read or compute with cannot train together, and say which one differs in
 * what. Skipped where there is no MPI. */
#include <sys/stat.h>

#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Rank 1 has the same words as rank 0 in another folder, where a file may be another one, or with another
 * variable of the environment. */
static struct process *train(const struct stage *s, const char *folder, const char *variable)
{
    const char *anneal = getenv("ANNEAL_BINARY");
    return process_start_in("env", stage_mpirun_environment, "OMPI_MCA_odls_base_sigkill_timeout=0",
                            "PRTE_MCA_odls_base_sigkill_timeout=0", "mpirun", "-n", "1", "env", "-C",
                            s->folder, anneal, "train", s->config, "--data.train=/proc/self/cwd/shared.txt",
                            "--train.total_steps=2", "--progress=none", ":", "-n", "1", "env", "-C", folder,
                            variable, anneal, "train", s->config, "--data.train=/proc/self/cwd/shared.txt",
                            "--train.total_steps=2", "--progress=none", NULL);
}

STAGE_CASE(a_rank_that_differs_is_named_with_what_it_differs_in, struct stage *s)
{
    static const struct {
        const char *text, *variable, *sentence;
    } cases[] = {
        {"other", "A=B", "reads other data than rank 0: the corpus has changed"},
        {"same", "ANNEAL_CPU_ISA=baseline", " computes with SSE2, rank 0 with AVX"},
    };
    stage_need_mpi();
    char *text = stage_read(s->corpus);
    stage_write(stage_path(s, "shared.txt"), text, strlen(text));
    char *elsewhere = kept_format("%s/elsewhere", s->folder);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i == 1 && !cpu_backend_for("v3")) break; /* all have the same */
        if (strcmp(cases[i].text, "other") == 0) text[7] ^= 1;
        stage_write(kept_format("%s/shared.txt", elsewhere), text, strlen(text));
        if (strcmp(cases[i].text, "other") == 0) text[7] ^= 1;
        struct process *p = train(s, elsewhere, cases[i].variable);
        process_expect(2, p);
        process_expect_said_once(p, cases[i].sentence);
        assert_non_null(strstr(process_stderr(p), "rank 1 on "));
        assert_string_equal(stage_status(), "failed");
    }
}

TEST_MAIN()
