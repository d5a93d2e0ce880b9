/* winograd_none.c - in place of the kernels on other processors than x86-64: supports nothing, does nothing.
 */
#include "engine/dnnl/winograd.h"

bool winograd_supported(const struct winograd *sizes)
{
    (void)sizes;
    return false;
}

size_t winograd_weights_bytes(const struct winograd *sizes)
{
    (void)sizes;
    return 0;
}

size_t winograd_scratch_bytes(const struct winograd *sizes)
{
    (void)sizes;
    return 0;
}

void winograd_weights_forward(const struct winograd *sizes, const float *weights, float *u)
{
    (void)sizes, (void)weights, (void)u;
}

void winograd_weights_backward(const struct winograd *sizes, const float *weights, float *u)
{
    (void)sizes, (void)weights, (void)u;
}

void winograd_forward(const struct winograd *sizes, const struct winograd_load *load, const float *x,
                      const float *u, float *y, const struct winograd_store *store, void *scratch)
{
    (void)sizes, (void)load, (void)x, (void)u, (void)y, (void)store, (void)scratch;
}

void winograd_loaded(const struct winograd *sizes, const struct winograd_load *load, const float *x,
                     float *to)
{
    (void)sizes, (void)load, (void)x, (void)to;
}

void winograd_sums(const struct winograd *sizes, const float *y, double *sum, double *products)
{
    (void)sizes, (void)y, (void)sum, (void)products;
}

void winograd_backward_data(const struct winograd *sizes, const struct winograd_load *load, const float *dy,
                            const float *u, float *dx, const struct winograd_store *store, void *scratch)
{
    (void)sizes, (void)load, (void)dy, (void)u, (void)dx, (void)store, (void)scratch;
}

void winograd_backward_weights(const struct winograd *sizes, const struct winograd_load *load_x,
                               const float *x, const struct winograd_load *load_dy, const float *dy, bool add,
                               float *dw, void *scratch)
{
    (void)sizes, (void)load_x, (void)x, (void)load_dy, (void)dy, (void)add, (void)dw, (void)scratch;
}
