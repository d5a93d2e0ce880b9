/* api3.c - oneDNN 3.x behind versions.h: descriptors of memory are objects that are asked for what they say,
 * and those of primitives are made at once. */
#include "engine/dnnl/versions.h"

#if DNNL_VERSION_MAJOR != 3
#error "api3.c is for oneDNN 3.x"
#endif

order *order_new(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    order *o = NULL;
    dnnl_memory_desc_create_with_tag(&o, n_dims, dims, type, tag);
    return o;
}

order *order_with_steps(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t type, const dnnl_dim_t *steps)
{
    order *o = NULL;
    dnnl_memory_desc_create_with_strides(&o, n_dims, dims, type, steps);
    return o;
}

order *order_copy(const order *o)
{
    order *copy = NULL;
    dnnl_memory_desc_clone(&copy, o);
    return copy;
}

void order_free(order *o)
{
    if (o)
        dnnl_memory_desc_destroy(o);
}

static const dnnl_dim_t *ask(const order *o, dnnl_query_t what)
{
    const dnnl_dims_t *numbers = NULL;
    dnnl_memory_desc_query(o, what, &numbers);
    return numbers ? *numbers : NULL;
}

struct order_view order_look(const order *o)
{
    struct order_view v = {.dims = ask(o, dnnl_query_dims)};
    dnnl_memory_desc_query(o, dnnl_query_data_type, &v.type);
    dnnl_memory_desc_query(o, dnnl_query_ndims_s32, &v.n_dims);
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_memory_desc_query(o, dnnl_query_format_kind, &kind);
    if (kind != dnnl_blocked)
        return v;
    v.steps = ask(o, dnnl_query_strides);
    dnnl_memory_desc_query(o, dnnl_query_inner_nblks_s32, &v.n_blocks);
    v.block_sizes = ask(o, dnnl_query_inner_blks);
    v.block_dims = ask(o, dnnl_query_inner_idxs);
    return v;
}

dnnl_status_t onednn_describe_forward(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                      const struct conv_words *c, dnnl_primitive_desc_t *out)
{
    return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, c->how, c->in,
                                                          c->weights, c->bias, c->out, c->strides, NULL,
                                                          c->before, c->after, attr);
}

dnnl_status_t onednn_describe_data(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                   const struct conv_words *c, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_desc_t *out)
{
    return dnnl_convolution_backward_data_primitive_desc_create(
        out, engine, c->how, c->in, c->weights, c->out, c->strides, NULL, c->before, c->after, hint, attr);
}

dnnl_status_t onednn_describe_weights(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                      const struct conv_words *c, dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *out)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(out, engine, c->how, c->in, c->weights,
                                                                   c->bias, c->out, c->strides, NULL,
                                                                   c->before, c->after, hint, attr);
}

dnnl_status_t onednn_describe_product(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const order *a,
                                      const order *b, const order *c, dnnl_primitive_desc_t *out)
{
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, NULL, c, attr);
}
