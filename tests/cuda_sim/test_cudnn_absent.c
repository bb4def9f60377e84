/* The graphs of attention, compiled by the real cuDNN for GPUs that are not there. Where cuDNN 9.19 or newer
 * is not installed, there is nothing to test. */
#include <dlfcn.h>
#include <limits.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/absent.h"

static const struct attention_problem problems[] = {
    {.B = 8, .T = 1024, .NH = 12, .NKV = 12, .HS = 64},
    {.B = 2, .T = 1000, .NH = 32, .NKV = 8, .HS = 128},
    {.B = 2, .T = 1000, .NH = 32, .NKV = 8, .HS = 128, .window = 100},
    {.B = 1, .T = 65, .NH = 2, .NKV = 2, .HS = 32},
};

/* Returns the library's version, 0 if there is none. */
static int compile(int major, int minor, struct attention_problem p, bool backward, bool *compiled)
{
    struct err err = {0};
    size_t workspace = 0;
    int version = 0;
    p.backward = backward;
    enum status status = absent_compile(major, minor, &p, &version, &workspace, &err);
    if (version == 0) return 0;
    if (status && status != STATUS_NOT_FOUND) fail_msg("%d.%d: %s", major, minor, err.text);
    *compiled = !status;
    if (status && (!backward || major == 10 || (major == 9 && version >= 92500)))
        fail_msg("%d.%d, %d tokens of %d heads of %d: %s", major, minor, p.T, p.NH, p.HS, err.text);
    if (!status) assert_true(workspace <= absent_workspace(major, version, &p));
    return version;
}

/* Of LeakSanitizer, if there is one: cuDNN loses what its parts allocate when it unloads them. */
extern void __lsan_disable(void) __attribute__((weak));

/* The forward pass on every GPU that we support; the backward pass where cuDNN has a fixed order. */
TEST_CASE(the_real_library_compiles_attention_for_every_gpu)
{
    static const int gpus[][2] = {{8, 0}, {8, 9}, {9, 0}, {10, 0}, {12, 0}};
    char driver[PATH_MAX];
    struct err err;
    if (__lsan_disable) __lsan_disable();
    assert_int_equal(file_of_program("stand_in/driver/libcuda.so.1", driver, sizeof driver, &err), STATUS_OK);
    if (!dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) fail_msg("%s", dlerror());
    if (!dlopen("libcudnn.so.9", RTLD_NOW)) skip();
    for (int g = 0; g < 5; g++)
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
            bool forward, backward;
            int version = compile(gpus[g][0], gpus[g][1], problems[i], false, &forward);
            if (version < 91900) skip();
            compile(gpus[g][0], gpus[g][1], problems[i], true, &backward);
            assert_true(forward);
            assert_int_equal(backward, gpus[g][0] == 10 || (gpus[g][0] == 9 && version >= 92500));
        }
}

TEST_MAIN()
