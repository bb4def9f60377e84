/* Describes tensors for the copies of kernels/hopper.cuh. The function that does so is part of the driver,
 * which the plugin does not link: the runtime finds it. */
#include "kernels/hopper.cuh"

typedef decltype(&cuTensorMapEncodeTiled) encode_function;

static encode_function encode_find()
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                         cudaEnableDefault, &found);
    if (error != cudaSuccess) cudaGetLastError(); /* a driver that lacks it is no fault */
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? (encode_function)function : NULL;
}

bool tensor_describe(CUtensorMap *out, const void *tensor, int B, int T, int heads, int D)
{
    encode_function encode = encode_find();
    cuuint64_t parts = (cuuint64_t)heads * (cuuint64_t)(D / BOX), row = parts * BOX * 2;
    cuuint64_t sizes[4] = {BOX, parts, (cuuint64_t)T, (cuuint64_t)B};
    cuuint64_t strides[3] = {BOX * 2, row, row * (cuuint64_t)T}; /* of all but the first dimension */
    cuuint32_t box[4] = {BOX, 1, BOX, 1}, steps[4] = {1, 1, 1, 1};
    return encode != NULL &&
           encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)tensor, sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
