/* See roofline.h. */
#include "kernels/device/roofline.h"

struct roofline roofline_of(const struct chip_sheet *sheet, enum precision precision)
{
    double peak = sheet->teraflops[precision] * 1e12, ordinary = sheet->teraflops[PRECISION_FP32] * 1e12;
    return (struct roofline){.products = ROOFLINE_PRODUCTS * peak,
                             .attention =
                                 ROOFLINE_ATTENTION * (precision == PRECISION_BF16 ? peak : ordinary),
                             .others = ordinary,
                             .memory = ROOFLINE_MEMORY * sheet->bandwidth_gbs * 1e9,
                             .starting = ROOFLINE_STARTING};
}

/* FLOP/s that the operation reaches. */
static double rate(const struct roofline *roofline, enum operation operation)
{
    switch (operation) {
    case OPERATION_gemm:
    case OPERATION_gemm_few_rows:
        return roofline->products;
    case OPERATION_attention_forward:
    case OPERATION_attention_backward:
        return roofline->attention;
    default:
        return roofline->others;
    }
}

double roofline_seconds(const struct roofline *roofline, const struct operation_call *call)
{
    double computing = (double)call->flops / rate(roofline, call->operation),
           moving = (double)call->bytes / roofline->memory;
    double longest = computing > moving ? computing : moving;
    return longest > roofline->starting ? longest : roofline->starting;
}
