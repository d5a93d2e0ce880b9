/* api2.c - oneDNN 2.x behind api.h. */
#include "engine/dnnl/api.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

#if DNNL_VERSION_MAJOR != 2
#error "the engine `dnnl` is written for oneDNN 2.x"
#endif

struct kernel {
    struct kernel *next;
    struct onednn *d; /* borrowed */
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t in, weights; /* of the first argument and of the weights, where there are such */
    int n_args;
    int names[MOST_ARGS];
    dnnl_memory_t *memory; /* [workers][n_args], owned */
};

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t *streams; /* one for each worker, owned */
    dnnl_primitive_attr_t attr;
    int n_workers;
    struct kernel *kernels; /* owned, newest first */
    size_t scratch_bytes;   /* the most any kernel wants */
    struct block *blocks;   /* [workers], owned */
    dnnl_memory_t *scratch; /* [workers], owned */
};

static fault check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return OK;
    if (status == dnnl_out_of_memory)
        return OUT_OF_MEMORY;
    return FAIL(FAULT_ENGINE, "oneDNN does not offer %s (status %d)", what, (int)status);
}

int onednn_threads(int n)
{
    int before = omp_get_max_threads();
    if (n != before)
        omp_set_num_threads(n);
    return before;
}

void onednn_describe(char *text, size_t n)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {{dnnl_cpu_isa_sse41, "SSE4.1"},
                 {dnnl_cpu_isa_avx, "AVX"},
                 {dnnl_cpu_isa_avx2, "AVX2"},
                 {dnnl_cpu_isa_avx2_vnni, "AVX2 with VNNI"},
                 {dnnl_cpu_isa_avx512_core, "AVX-512"},
                 {dnnl_cpu_isa_avx512_core_vnni, "AVX-512 with VNNI"},
                 {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bf16"},
                 {dnnl_cpu_isa_avx512_core_amx, "AMX"}};
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    const char *name = "plain instructions";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].isa == isa)
            name = names[i].name;
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, n, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch, name);
}

static fault open_parts(struct onednn *d)
{
    TRY(check(dnnl_engine_create(&d->engine, dnnl_cpu, 0), "a CPU engine"));
    TRY(check(dnnl_primitive_attr_create(&d->attr), "attributes"));
    TRY(check(dnnl_primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user),
              "user scratchpads"));
    for (int w = 0; w < d->n_workers; w++)
        TRY(check(dnnl_stream_create(&d->streams[w], d->engine, dnnl_stream_default_flags), "a stream"));
    return OK;
}

fault onednn_open(int n_workers, struct onednn **out)
{
    struct onednn *d = calloc(1, sizeof *d);
    if (!d)
        return OUT_OF_MEMORY;
    d->n_workers = n_workers;
    d->streams = calloc((size_t)n_workers, sizeof *d->streams);
    d->blocks = calloc((size_t)n_workers, sizeof *d->blocks);
    d->scratch = calloc((size_t)n_workers, sizeof(dnnl_memory_t));
    fault f = OUT_OF_MEMORY;
    if (d->streams && d->blocks && d->scratch) {
        fault_drop(f);
        f = open_parts(d);
    }
    if (f) {
        onednn_close(d);
        return f;
    }
    *out = d;
    return OK;
}

static void kernel_free(struct kernel *k)
{
    if (k->memory)
        for (int i = 0; i < k->n_args * k->d->n_workers; i++)
            if (k->memory[i])
                dnnl_memory_destroy(k->memory[i]);
    free(k->memory);
    if (k->primitive)
        dnnl_primitive_destroy(k->primitive);
    free(k);
}

void onednn_close(struct onednn *d)
{
    if (!d)
        return;
    while (d->kernels) {
        struct kernel *k = d->kernels;
        d->kernels = k->next;
        kernel_free(k);
    }
    for (int w = 0; w < d->n_workers; w++) {
        if (d->scratch && d->scratch[w])
            dnnl_memory_destroy(d->scratch[w]);
        if (d->blocks)
            block_close(&d->blocks[w]);
        if (d->streams && d->streams[w])
            dnnl_stream_destroy(d->streams[w]);
    }
    if (d->attr)
        dnnl_primitive_attr_destroy(d->attr);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    free(d->streams);
    free(d->blocks);
    free(d->scratch);
    free(d);
}

fault onednn_ready(struct onednn *d)
{
    size_t n_bytes = d->scratch_bytes ? d->scratch_bytes : 64;
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {(dnnl_dim_t)n_bytes};
    TRY(check(dnnl_memory_desc_init_by_tag(&md, 1, dims, dnnl_u8, dnnl_a), "a scratchpad"));
    for (int w = 0; w < d->n_workers; w++) {
        TRY(block_open(n_bytes, &d->blocks[w]));
        TRY(check(dnnl_memory_create(&d->scratch[w], &md, d->engine, d->blocks[w].bytes), "a scratchpad"));
    }
    return OK;
}

size_t onednn_scratch_bytes(const struct onednn *d)
{
    return d->scratch_bytes;
}

/* What a new kernel is made of: its descriptor, the names of its arguments and how each lies. */
struct recipe {
    dnnl_primitive_desc_t descriptor;
    int n_args;
    int names[MOST_ARGS];
    const dnnl_memory_desc_t *orders[MOST_ARGS];
};

static void recipe_add(struct recipe *r, int name, dnnl_query_t query)
{
    r->names[r->n_args] = name;
    r->orders[r->n_args++] = dnnl_primitive_desc_query_md(r->descriptor, query, 0);
}

static fault kernel_memory(struct kernel *k, const struct recipe *r)
{
    struct onednn *d = k->d;
    k->memory = calloc((size_t)(k->n_args * d->n_workers), sizeof(dnnl_memory_t));
    if (!k->memory)
        return OUT_OF_MEMORY;
    for (int w = 0; w < d->n_workers; w++)
        for (int i = 0; i < k->n_args; i++)
            TRY(check(
                dnnl_memory_create(&k->memory[w * k->n_args + i], r->orders[i], d->engine, DNNL_MEMORY_NONE),
                "a memory object"));
    return OK;
}

/* Takes the recipe's descriptor, whether it works or not. */
static fault kernel_make(struct onednn *d, const struct recipe *r, struct kernel **out)
{
    struct kernel *k = calloc(1, sizeof *k);
    if (!k) {
        dnnl_primitive_desc_destroy(r->descriptor);
        return OUT_OF_MEMORY;
    }
    k->d = d;
    k->next = d->kernels;
    d->kernels = k;
    k->n_args = r->n_args;
    for (int i = 0; i < r->n_args; i++)
        k->names[i] = r->names[i];
    k->in = *r->orders[0];
    k->weights = *r->orders[ARG_WEIGHTS];
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(r->descriptor, dnnl_query_scratchpad_md, 0);
    size_t n_bytes = dnnl_memory_desc_get_size(scratch);
    if (n_bytes > d->scratch_bytes)
        d->scratch_bytes = n_bytes;
    fault f = check(dnnl_primitive_create(&k->primitive, r->descriptor), "a kernel it promised");
    if (!f)
        f = kernel_memory(k, r);
    dnnl_primitive_desc_destroy(r->descriptor);
    if (f)
        return f;
    *out = k;
    return OK;
}

static dnnl_data_type_t type_of(enum number n)
{
    return n == NUMBER_F32 ? dnnl_f32 : dnnl_bf16;
}

static dnnl_memory_desc_t order(size_t a, size_t b, size_t c, size_t e, enum number number,
                                dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {(dnnl_dim_t)a, (dnnl_dim_t)b, (dnnl_dim_t)c, (dnnl_dim_t)e};
    dnnl_memory_desc_init_by_tag(&md, 4, dims, type_of(number),
                                 tag); /* cannot fail for four positive sizes */
    return md;
}

static dnnl_format_tag_t tag_of(enum format f)
{
    static const dnnl_format_tag_t tags[] = {dnnl_nchw, dnnl_nhwc, dnnl_nChw8c, dnnl_nChw16c,
                                             dnnl_format_tag_any};
    return tags[f];
}

struct conv_parts { /* oneDNN's words for a convolution */
    dnnl_memory_desc_t in, out, weights, gradient, bias;
    dnnl_dims_t strides, before, after;
    const dnnl_memory_desc_t *with_bias;
};

static void conv_parts_init(struct conv_parts *p, const struct conv_shape *s)
{
    p->in = order(s->n, s->c_in, s->h_in, s->w_in, s->number, tag_of(s->in));
    p->out = order(s->n, s->c_out, s->h_out, s->w_out, s->number, tag_of(s->out));
    p->weights = order(s->c_out, s->c_in, s->kernel, s->kernel, s->number, dnnl_format_tag_any);
    p->gradient = order(s->c_out, s->c_in, s->kernel, s->kernel, NUMBER_F32, dnnl_format_tag_any);
    dnnl_dims_t bias = {(dnnl_dim_t)s->c_out};
    dnnl_memory_desc_init_by_tag(&p->bias, 1, bias, dnnl_f32, dnnl_a);
    p->with_bias = s->bias ? &p->bias : NULL;
    /* Rows and columns that no window reaches are cut off by less padding (even a negative one) at the end.
     */
    size_t reach_h = (s->h_out - 1) * s->stride + s->kernel, reach_w = (s->w_out - 1) * s->stride + s->kernel;
    for (int i = 0; i < 2; i++) {
        p->strides[i] = (dnnl_dim_t)s->stride;
        p->before[i] = (dnnl_dim_t)s->pad;
    }
    p->after[0] = (dnnl_dim_t)reach_h - (dnnl_dim_t)(s->h_in + s->pad);
    p->after[1] = (dnnl_dim_t)reach_w - (dnnl_dim_t)(s->w_in + s->pad);
}

/* Winograd is asked for as in inference: then oneDNN takes weights that were transformed beforehand, once a
 * lesson. */
static fault forward_descriptor(struct onednn *d, const struct conv_parts *p, bool winograd,
                                dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t c;
    TRY(check(dnnl_convolution_forward_desc_init(
                  &c, winograd ? dnnl_forward_inference : dnnl_forward_training,
                  winograd ? dnnl_convolution_winograd : dnnl_convolution_direct, &p->in, &p->weights,
                  p->with_bias, &p->out, p->strides, p->before, p->after),
              "such a convolution"));
    return check(dnnl_primitive_desc_create(out, &c, d->attr, d->engine, NULL), "such a convolution");
}

static fault back_descriptor(struct onednn *d, const struct conv_parts *p, bool data, bool winograd,
                             dnnl_primitive_desc_t *out)
{
    dnnl_alg_kind_t how = winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    dnnl_convolution_desc_t c;
    dnnl_status_t s =
        data ? dnnl_convolution_backward_data_desc_init(&c, how, &p->in, &p->weights, &p->out, p->strides,
                                                        p->before, p->after)
             : dnnl_convolution_backward_weights_desc_init(&c, how, &p->in, &p->gradient, p->with_bias,
                                                           &p->out, p->strides, p->before, p->after);
    TRY(check(s, "such a gradient of a convolution"));
    dnnl_primitive_desc_t hint;
    struct conv_parts direct = *p;
    direct.weights.format_kind = dnnl_format_kind_any;
    direct.with_bias = p->with_bias ? &direct.bias : NULL;
    TRY(forward_descriptor(d, &direct, false, &hint));
    s = dnnl_primitive_desc_create(out, &c, d->attr, d->engine, hint);
    dnnl_primitive_desc_destroy(hint);
    return check(s, "such a gradient of a convolution");
}

fault kernel_conv(struct onednn *d, const struct conv_shape *s, enum pass pass, bool winograd,
                  const struct kernel *like, struct kernel **out)
{
    struct conv_parts p;
    conv_parts_init(&p, s);
    if (like && pass == PASS_WEIGHTS)
        p.gradient = like->weights;
    else if (like)
        p.weights = like->weights;
    struct recipe r = {0};
    if (pass == PASS_FORWARD)
        TRY(forward_descriptor(d, &p, winograd, &r.descriptor));
    else
        TRY(back_descriptor(d, &p, pass == PASS_DATA, winograd, &r.descriptor));
    switch (pass) {
    case PASS_FORWARD:
        recipe_add(&r, DNNL_ARG_SRC, dnnl_query_src_md);
        recipe_add(&r, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
        recipe_add(&r, DNNL_ARG_DST, dnnl_query_dst_md);
        break;
    case PASS_DATA:
        recipe_add(&r, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md);
        recipe_add(&r, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
        recipe_add(&r, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md);
        break;
    case PASS_WEIGHTS:
        recipe_add(&r, DNNL_ARG_SRC, dnnl_query_src_md);
        recipe_add(&r, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md);
        recipe_add(&r, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md);
        break;
    }
    if (s->bias && pass != PASS_DATA) {
        r.names[3] = pass == PASS_FORWARD ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS;
        r.orders[3] = &p.bias;
        r.n_args = 4;
    }
    return kernel_make(d, &r, out);
}

static dnnl_memory_desc_t matrix(size_t rows, size_t columns, size_t row, size_t column, enum number number)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns}, steps = {(dnnl_dim_t)row, (dnnl_dim_t)column};
    dnnl_memory_desc_init_by_strides(&md, 2, dims, type_of(number),
                                     steps); /* cannot fail for positive sizes */
    return md;
}

fault kernel_product(struct onednn *d, const struct product_shape *s, struct kernel **out)
{
    dnnl_memory_desc_t a = matrix(s->m, s->k, s->a_row, s->a_column, s->number);
    dnnl_memory_desc_t b = matrix(s->k, s->n, s->b_row, s->b_column, s->number);
    dnnl_memory_desc_t c = matrix(s->m, s->n, s->c_row, 1, NUMBER_F32);
    dnnl_matmul_desc_t m;
    TRY(check(dnnl_matmul_desc_init(&m, &a, &b, NULL, &c), "such a matrix product"));
    struct recipe r = {0};
    TRY(check(dnnl_primitive_desc_create(&r.descriptor, &m, d->attr, d->engine, NULL),
              "such a matrix product"));
    recipe_add(&r, DNNL_ARG_SRC, dnnl_query_src_md);
    recipe_add(&r, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
    recipe_add(&r, DNNL_ARG_DST, dnnl_query_dst_md);
    return kernel_make(d, &r, out);
}

static fault reorder(struct onednn *d, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                     struct kernel **out)
{
    struct recipe r = {.n_args = 2, .names = {DNNL_ARG_FROM, DNNL_ARG_TO}, .orders = {from, to}};
    TRY(check(dnnl_reorder_primitive_desc_create(&r.descriptor, from, d->engine, to, d->engine, d->attr),
              "such an order of weights"));
    return kernel_make(d, &r, out);
}

static dnnl_memory_desc_t plain_weights(const struct kernel *of)
{
    const dnnl_dim_t *n = of->weights.dims;
    return order((size_t)n[0], (size_t)n[1], (size_t)n[2], (size_t)n[3], NUMBER_F32, dnnl_oihw);
}

fault kernel_pack(struct onednn *d, const struct kernel *of, struct kernel **out)
{
    dnnl_memory_desc_t plain = plain_weights(of);
    return reorder(d, &plain, &of->weights, out);
}

fault kernel_unpack(struct onednn *d, const struct kernel *of, struct kernel **out)
{
    dnnl_memory_desc_t plain = plain_weights(of);
    return reorder(d, &of->weights, &plain, out);
}

size_t kernel_weight_bytes(const struct kernel *k)
{
    return dnnl_memory_desc_get_size(&k->weights);
}

bool kernel_same_weights(const struct kernel *a, const struct kernel *b)
{
    return dnnl_memory_desc_equal(&a->weights, &b->weights);
}

enum format kernel_format(const struct kernel *k)
{
    const dnnl_blocking_desc_t *b = &k->in.format_desc.blocking;
    if (b->inner_nblks == 1 && b->inner_idxs[0] == 1)
        return b->inner_blks[0] == 16 ? FORMAT_BLOCK16 : FORMAT_BLOCK8;
    return b->strides[1] == 1 && k->in.dims[1] > 1 ? FORMAT_LAST : FORMAT_PLAIN;
}

/* A kernel that was made runs; an error here would be a pointer that is NULL, which the callers rule out. */
void kernel_run(const struct kernel *k, int worker, void *const *args)
{
    dnnl_memory_t *memory = k->memory + worker * k->n_args;
    dnnl_exec_arg_t a[MOST_ARGS + 1];
    for (int i = 0; i < k->n_args; i++) {
        dnnl_memory_set_data_handle(memory[i], args[i]);
        a[i] = (dnnl_exec_arg_t){k->names[i], memory[i]};
    }
    a[k->n_args] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, k->d->scratch[worker]};
    dnnl_primitive_execute(k->primitive, k->d->streams[worker], k->n_args + 1, a);
}
