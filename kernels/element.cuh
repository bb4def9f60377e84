/* The elements of tensors: fp32 or bf16 in memory, always float in a register. A kernel is a template over
 * the element type T and over W, the number of elements that a thread processes at once; dispatch chooses
 * both for a launch. Private to the .cu files.
 *
 * Loads widen exactly, stores round to nearest, ties to even. A vector path reads and writes 16 bytes at a
 * time (4 floats or 8 bf16); it needs every tensor to start on a 16-byte boundary and rows whose width is a
 * multiple of W. Otherwise W is 1, and any alignment of T will do. */
#ifndef ANNEAL_KERNELS_ELEMENT_CUH
#define ANNEAL_KERNELS_ELEMENT_CUH

#include <cuda_bf16.h>

#include <string.h>

#include <initializer_list>

#include "kernels/device/cuda_device.cuh"
#include "kernels/ptx.cuh"

using bf16 = __nv_bfloat16;

__device__ static inline float element_load(const float *p)
{
    return *p;
}

__device__ static inline float element_load(const bf16 *p)
{
    return __bfloat162float(*p);
}

__device__ static inline void element_store(float *p, float x)
{
    *p = x;
}

__device__ static inline void element_store(bf16 *p, float x)
{
    *p = __float2bfloat16_rn(x);
}

/* x rounded to T. */
template <typename T> __device__ static inline float element_round(float x)
{
    if constexpr (sizeof(T) == 2) return __bfloat162float(__float2bfloat16_rn(x));
    return x;
}

/* ---- W elements at once ---- */

template <int W> struct floats {
    float at[W];
};

/* The most that one instruction moves: 16 bytes. */
template <typename T, int W> struct alignas(sizeof(T) * (size_t)W) element_pack {
    T at[W];
};

template <typename T, int W> constexpr int PIECE = W * sizeof(T) > 16 ? (int)(16 / sizeof(T)) : W;

/* A GPU faults if a piece is not aligned to its size; the simulator's processor would not. */
template <typename T, int P> __device__ static inline void piece_check(const T *p)
{
#ifdef ANNEAL_CUDA_SIM
    size_t bytes = sizeof(element_pack<T, P>);
    if ((uintptr_t)p % bytes != 0) sim::fail("misaligned access: %p, %zu bytes", (const void *)p, bytes);
#else
    (void)p;
#endif
}

template <int W, typename T> __device__ static inline floats<W> load(const T *p)
{
    constexpr int P = PIECE<T, W>;
    floats<W> out;
    piece_check<T, P>(p);
    for (int i = 0; i < W; i += P) {
        element_pack<T, P> piece = *reinterpret_cast<const element_pack<T, P> *>(p + i);
        for (int k = 0; k < P; k++) out.at[i + k] = element_load(&piece.at[k]);
    }
    return out;
}

/* *to = piece in one instruction: for a struct that may alias what was read, the compiler would emit a store
 * per element. */
template <typename T, int P>
__device__ static inline void piece_store(T *to, const element_pack<T, P> &piece, PTX_CALLER)
{
    if constexpr (sizeof piece >= 8) {
        unsigned word[sizeof piece / 4];
        memcpy(word, &piece, sizeof piece);
        if constexpr (sizeof piece == 16)
            PTX("st.global.v4.b32 [%0], {%1, %2, %3, %4};", OUT(),
                IN(GLOBAL_AT(to), WORD(word[0]), WORD(word[1]), WORD(word[2]), WORD(word[3])));
        else
            PTX("st.global.v2.b32 [%0], {%1, %2};", OUT(), IN(GLOBAL_AT(to), WORD(word[0]), WORD(word[1])));
    } else {
        *reinterpret_cast<element_pack<T, P> *>(to) = piece;
    }
}

template <int W, typename T> __device__ static inline void store(T *p, const floats<W> &x)
{
    constexpr int P = PIECE<T, W>;
    piece_check<T, P>(p);
    for (int i = 0; i < W; i += P) {
        element_pack<T, P> piece;
        if constexpr (sizeof(T) == 2 && P % 2 == 0) { /* one instruction rounds two */
            for (int k = 0; k < P; k += 2) {
                __nv_bfloat162 pair = __floats2bfloat162_rn(x.at[i + k], x.at[i + k + 1]);
                piece.at[k] = pair.x;
                piece.at[k + 1] = pair.y;
            }
        } else {
            for (int k = 0; k < P; k++) element_store(&piece.at[k], x.at[i + k]);
        }
        piece_store(p + i, piece);
    }
}

/* ---- launches ---- */

static inline bool all_aligned16(std::initializer_list<const void *> tensors)
{
    for (const void *tensor : tensors)
        if (!aligned16(tensor)) return false;
    return true;
}

/* Calls launch.template operator()<T, W>(), with T by the stream's precision; W is 4 floats or WIDE bf16 if
 * the tensors (of T and of float; NULL counts as aligned) and the width of their rows allow, else 1. width 0:
 * the tensors are flat, and the kernel handles the tail itself. WIDE 4 is for kernels that mostly move
 * floats, so that neighbouring threads access neighbouring memory. */
template <int WIDE = 8, typename Launch>
static inline void dispatch(const struct stream *stream, int width,
                            std::initializer_list<const void *> tensors, Launch launch)
{
    bool wide = all_aligned16(tensors);
    if (stream->precision == PRECISION_BF16) {
        if (wide && width % WIDE == 0)
            launch.template operator()<bf16, WIDE>();
        else
            launch.template operator()<bf16, 1>();
    } else {
        if (wide && width % 4 == 0)
            launch.template operator()<float, 4>();
        else
            launch.template operator()<float, 1>();
    }
}

/* The same for kernels with one element per thread: launch.template operator()<T>(). */
template <typename Launch> static inline void dispatch_scalar(const struct stream *stream, Launch launch)
{
    if (stream->precision == PRECISION_BF16)
        launch.template operator()<bf16>();
    else
        launch.template operator()<float>();
}

#endif
