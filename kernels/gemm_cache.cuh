/* What gemm.cu and gemm_warm.cu share: the prepared products of a device. */
#ifndef ANNEAL_KERNELS_GEMM_CACHE_CUH
#define ANNEAL_KERNELS_GEMM_CACHE_CUH

#include "kernels/device/cuda_device.cuh"

extern "C" {
#include "kernels/gemm_choices.h"
}

/* WARM_MAX of the entries may be held by warming; the others serve shapes that nobody announced. */
enum { GEMM_ENTRIES = 256, GEMM_WARM_MAX = 192, GEMM_CANDIDATES = 8 };

/* Descriptors lie in the entry itself: preparing one allocates nothing, and there is nothing to destroy. */
struct gemm_entry {
    struct gemm_key key; /* M 0: free */
    bool warmed;         /* stays until the next warming */
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
};

struct gemm_cache {
    struct gemm_entry entries[GEMM_ENTRIES];
    unsigned next_out; /* which entry makes room when all are taken */
};

/* The key of a product in this stream with this much workspace. */
struct gemm_key gemm_key_of(const struct gemm_shape *shape, enum precision precision, int alignment,
                            size_t workspace);

/* Prepares the descriptors for key; the algorithm is left for the caller to choose. */
cublasStatus_t gemm_entry_prepare(struct gemm_entry *entry, struct gemm_key key);

/* What cuBLASLt's heuristics offer for a prepared entry, best first, without what must not run here: what
 * adds up in no fixed order, or wants more workspace than the key allows. */
cublasStatus_t gemm_entry_candidates(struct gemm_entry *entry, cublasLtHandle_t blas,
                                     cublasLtMatmulAlgo_t out[GEMM_CANDIDATES], int wanted, int *count);

/* An algorithm from outside (a file) may run this entry's product: cuBLASLt knows it, for these descriptors
 * and on this device, and the rules of gemm_entry_candidates hold. */
bool gemm_entry_accepts(struct gemm_entry *entry, cublasLtHandle_t blas,
                        const cublasLtMatmulAlgo_t *algorithm);

/* Runs the product with the entry's algorithm; workspace: the key's bytes. */
cublasStatus_t gemm_entry_run(struct gemm_entry *entry, struct stream *stream, void *out, const void *a,
                              const void *b, void *workspace);

/* The entry that holds key, or NULL; and one to fill: never a warmed one. */
struct gemm_entry *gemm_cache_find(struct gemm_cache *cache, const struct gemm_key *key);
struct gemm_entry *gemm_cache_place(struct gemm_cache *cache);

#endif
