/* versions.h - what oneDNN 2.x and 3.x spell differently, for api.c alone.
 *
 * A memory descriptor is a struct in 2.x and an object behind a pointer in 3.x. Here it is an `order`,
 * reached by a pointer in both: whatever oneDNN does with a pointer to one is spelt alike, and the few
 * functions below do the rest. The build takes api2.c or api3.c.
 */
#ifndef VECHE_ENGINE_DNNL_VERSIONS_H
#define VECHE_ENGINE_DNNL_VERSIONS_H

#include <dnnl.h>

#if DNNL_VERSION_MAJOR == 2
typedef dnnl_memory_desc_t order;
#else
typedef struct dnnl_memory_desc order;
#endif

/* Each is NULL when memory is out: oneDNN finds no other fault with positive sizes. */
order *order_new(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag);
order *order_with_steps(int n_dims, const dnnl_dim_t *dims, dnnl_data_type_t type, const dnnl_dim_t *steps);
order *order_copy(const order *o);
void order_free(order *o); /* or NULL */

/* What an order says; borrowed from it. Only `type`, `n_dims` and `dims` where the order is not one of blocks and
 * steps. */
struct order_view {
    dnnl_data_type_t type;
    int n_dims;
    const dnnl_dim_t *dims, *steps;
    int n_blocks;
    const dnnl_dim_t *block_sizes, *block_dims; /* [n_blocks]: how large, and of which dimension */
};
struct order_view order_look(const order *o);

/* A convolution in oneDNN's words, all borrowed. For a gradient of the weights, `weights` and `bias` are
 * the gradients' orders. */
struct conv_words {
    dnnl_alg_kind_t how;
    const order *in, *weights, *bias, *out; /* bias: or NULL */
    const dnnl_dim_t *strides, *before, *after;
};

dnnl_status_t onednn_describe_forward(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                      const struct conv_words *c, dnnl_primitive_desc_t *out);
/* `hint`: a descriptor of the same convolution forward. */
dnnl_status_t onednn_describe_data(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                   const struct conv_words *c, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_desc_t *out);
dnnl_status_t onednn_describe_weights(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                      const struct conv_words *c, dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *out);
/* c = a times b */
dnnl_status_t onednn_describe_product(dnnl_engine_t engine, dnnl_primitive_attr_t attr, const order *a,
                                      const order *b, const order *c, dnnl_primitive_desc_t *out);

#endif
