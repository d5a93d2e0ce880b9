/* api2.c - oneDNN 2.x behind versions.h: descriptors of memory are structs, and those of primitives are made
 * in two steps. */
#include <stdlib.h>

#include "engine/dnnl/versions.h"

#if DNNL_VERSION_MAJOR != 2
#error "api2.c is for oneDNN 2.x"
#endif

order *order_new(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    order *o = malloc(sizeof *o);
    if (o)
        dnnl_memory_desc_init_by_tag(o, n_dims, dims, type, tag);
    return o;
}

order *order_with_steps(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t type, const dnnl_dim_t *steps)
{
    order *o = malloc(sizeof *o);
    if (o)
        dnnl_memory_desc_init_by_strides(o, n_dims, dims, type, steps);
    return o;
}

order *order_copy(const order *o)
{
    order *copy = malloc(sizeof *copy);
    if (copy)
        *copy = *o;
    return copy;
}

void order_free(order *o)
{
    free(o);
}

struct order_view order_look(const order *o)
{
    const dnnl_blocking_desc_t *b = &o->format_desc.blocking;
    if (o->format_kind != dnnl_blocked)
        return (struct order_view){.type = o->data_type, .n_dims = o->ndims, .dims = o->dims};
    return (struct order_view){o->data_type,   o->ndims,      o->dims,      b->strides,
                               b->inner_nblks, b->inner_blks, b->inner_idxs};
}

dnnl_status_t onednn_describe_forward(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                      const struct conv_words *c, dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t what;
    dnnl_status_t s =
        dnnl_convolution_forward_desc_init(&what, dnnl_forward_training, c->how, c->in, c->weights, c->bias,
                                           c->out, c->strides, c->before, c->after);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &what, attr, engine, NULL) : s;
}

dnnl_status_t onednn_describe_data(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                   const struct conv_words *c, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t what;
    dnnl_status_t s = dnnl_convolution_backward_data_desc_init(&what, c->how, c->in, c->weights, c->out,
                                                               c->strides, c->before, c->after);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &what, attr, engine, hint) : s;
}

dnnl_status_t onednn_describe_weights(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                      const struct conv_words *c, dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t what;
    dnnl_status_t s = dnnl_convolution_backward_weights_desc_init(&what, c->how, c->in, c->weights, c->bias,
                                                                  c->out, c->strides, c->before, c->after);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &what, attr, engine, hint) : s;
}

dnnl_status_t onednn_describe_product(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const order *a,
                                      const order *b, const order *c, dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t what;
    dnnl_status_t s = dnnl_matmul_desc_init(&what, a, b, NULL, c);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &what, attr, engine, NULL) : s;
}
