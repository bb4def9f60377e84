/* Finds the compiled kernel for a launch. */
#include <cxxabi.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/cuda_sim/compiled.hh"

namespace {

using sim::compiled;

/* "void add_elements<float, 4>(...)": "add_elements<float,4>". */
std::string plain_name(std::string name)
{
    int status;
    char *readable = abi::__cxa_demangle(name.c_str(), NULL, NULL, &status);
    if (readable != NULL) name = readable;
    free(readable);
    size_t depth = 0, end = 0;
    for (; end < name.size() && (depth > 0 || name[end] != '('); end++)
        depth = name[end] == '<' ? depth + 1 : name[end] == '>' ? depth - 1 : depth;
    name.resize(end);
    if (name.compare(0, 5, "void ") == 0) name.erase(0, 5);
    name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
    return name;
}

/* Those that a GPU of this compute capability runs. Newer ones have a driver that compiles those for 9.0. */
const std::map<std::string, const compiled *> *kernels_of(int capability)
{
    static std::map<std::string, std::map<std::string, const compiled *>> read;
    const char *folder = getenv("ANNEAL_SIM_PTX");
    if (folder == NULL) return NULL;
    std::string target = capability < 90 ? "compute_80" : capability == 90 ? "compute_90a" : "compute_90";
    std::map<std::string, const compiled *> *kernels = &read[target];
    if (!kernels->empty()) return kernels;
    glob_t files;
    std::vector<compiled *> found;
    std::string pattern = std::string(folder) + "/" + target + "/kernels/{,device/}*.ptx";
    if (glob(pattern.c_str(), GLOB_BRACE, NULL, &files) != 0) sim::fail("%s: there is none", pattern.c_str());
    for (size_t i = 0; i < files.gl_pathc; i++) sim::compiled_read(files.gl_pathv[i], &found);
    globfree(&files);
    for (const compiled *c : found) (*kernels)[plain_name(c->name)] = c;
    return kernels;
}

/* Adds the kernel to the file in $ANNEAL_SIM_PTX_RAN, once. */
void note(const compiled *kernel)
{
    static std::set<const compiled *> noted;
    const char *path = getenv("ANNEAL_SIM_PTX_RAN");
    if (path == NULL || !noted.insert(kernel).second) return;
    FILE *file = fopen(path, "a");
    if (file == NULL) sim::fail("%s: cannot be written", path);
    fprintf(file, "%s\n", kernel->name.c_str());
    fclose(file);
}

} // namespace

namespace sim {

const compiled *compiled_kernel(const char *name)
{
    const auto *kernels = kernels_of(capability());
    if (kernels == NULL) return NULL;
    const char *begin = strstr(name, "K = ");
    std::string wanted = begin == NULL ? name : begin + 4;
    if (!wanted.empty() && wanted.back() == ']') wanted.pop_back();
    auto found = kernels->find(plain_name(wanted));
    if (found == kernels->end()) fail("nvcc has compiled no kernel %s", wanted.c_str());
    return found->second;
}

void run_compiled(const compiled *kernel, const void *const *arguments)
{
    if (running == 0) note(kernel);
    if (kernel->shared_bytes > 0) count_shared(kernel, kernel->shared_bytes);
    function_run(*kernel, NULL, arguments);
}

} // namespace sim

extern "C" void sim_run_ptx(const char *path, void *out, const void *x)
{
    std::vector<compiled *> kernels;
    cudaStream_t stream;
    sim::compiled_read(path, &kernels);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    sim::launch("of a file", NULL, stream, dim3(1), dim3(64), 0, [=] {
        const void *const arguments[] = {&out, &x};
        sim::run_compiled(kernels[0], arguments);
    });
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    for (compiled *c : kernels) delete c;
}
