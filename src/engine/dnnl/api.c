/* api.c - oneDNN behind api.h; what differs between its versions lies behind versions.h. */
#include "engine/dnnl/api.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "engine/dnnl/versions.h"

struct kernel {
    struct kernel *next;
    struct onednn *d; /* borrowed */
    dnnl_primitive_t primitive;
    order *in, *weights; /* of the first two arguments, owned */
    size_t copy_bytes;   /* not 0: there is no primitive, so many bytes are copied */
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
        if ((names[i].isa & isa) == names[i].isa) /* each is a set of bits; the last that it has */
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
    order_free(k->in);
    order_free(k->weights);
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

static fault ready_worker(struct onednn *d, int w, const order *o)
{
    TRY(block_open(dnnl_memory_desc_get_size(o), &d->blocks[w]));
    return check(dnnl_memory_create(&d->scratch[w], o, d->engine, d->blocks[w].bytes), "a scratchpad");
}

fault onednn_ready(struct onednn *d)
{
    dnnl_dims_t dims = {d->scratch_bytes ? (dnnl_dim_t)d->scratch_bytes : 64};
    order *o = order_new(1, dims, dnnl_u8, dnnl_a);
    fault f = o ? OK : OUT_OF_MEMORY;
    for (int w = 0; w < d->n_workers && !f; w++)
        f = ready_worker(d, w, o);
    order_free(o);
    return f;
}

size_t onednn_scratch_bytes(const struct onednn *d)
{
    return d->scratch_bytes;
}

/* What a new kernel is made of: its descriptor, the names of its arguments and how each lies. The orders are
 * borrowed, most of them from the descriptor. */
struct recipe {
    dnnl_primitive_desc_t descriptor;
    int n_args;
    int names[MOST_ARGS];
    const order *orders[MOST_ARGS];
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

static fault kernel_parts(struct kernel *k, const struct recipe *r)
{
    k->in = order_copy(r->orders[0]);
    k->weights = order_copy(r->orders[ARG_WEIGHTS]);
    if (!k->in || !k->weights)
        return OUT_OF_MEMORY;
    const order *scratch = dnnl_primitive_desc_query_md(r->descriptor, dnnl_query_scratchpad_md, 0);
    size_t n_bytes = dnnl_memory_desc_get_size(scratch);
    if (n_bytes > k->d->scratch_bytes)
        k->d->scratch_bytes = n_bytes;
    TRY(check(dnnl_primitive_create(&k->primitive, r->descriptor), "a kernel it promised"));
    return kernel_memory(k, r);
}

static struct kernel *kernel_new(struct onednn *d)
{
    struct kernel *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->d = d;
    k->next = d->kernels;
    d->kernels = k;
    return k;
}

/* Takes the recipe's descriptor, whether it works or not. */
static fault kernel_make(struct onednn *d, const struct recipe *r, struct kernel **out)
{
    struct kernel *k = kernel_new(d);
    if (!k) {
        dnnl_primitive_desc_destroy(r->descriptor);
        return OUT_OF_MEMORY;
    }
    k->n_args = r->n_args;
    for (int i = 0; i < r->n_args; i++)
        k->names[i] = r->names[i];
    fault f = kernel_parts(k, r);
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

static order *order_of_four(size_t a, size_t b, size_t c, size_t e, enum number number, dnnl_format_tag_t tag)
{
    dnnl_dims_t dims = {(dnnl_dim_t)a, (dnnl_dim_t)b, (dnnl_dim_t)c, (dnnl_dim_t)e};
    return order_new(4, dims, type_of(number), tag);
}

/* [group][out][in][kernel][kernel]; of one group, the last four. */
static order *order_of_weights(const struct conv_shape *s, enum number number)
{
    dnnl_dim_t g = (dnnl_dim_t)s->groups, k = (dnnl_dim_t)s->kernel;
    dnnl_dims_t dims = {g, (dnnl_dim_t)s->c_out / g, (dnnl_dim_t)s->c_in / g, k, k};
    return g > 1 ? order_new(5, dims, type_of(number), dnnl_format_tag_any)
                 : order_new(4, dims + 1, type_of(number), dnnl_format_tag_any);
}

static dnnl_format_tag_t tag_of(enum format f)
{
    static const dnnl_format_tag_t tags[] = {dnnl_nchw, dnnl_nhwc, dnnl_nChw8c, dnnl_nChw16c,
                                             dnnl_format_tag_any};
    return tags[f];
}

/* What a convolution in oneDNN's words is made of. */
struct conv_parts {
    order *in, *out, *weights, *gradient, *bias; /* owned */
    dnnl_dims_t strides, before, after;
};

static void conv_parts_release(struct conv_parts *p)
{
    order_free(p->in);
    order_free(p->out);
    order_free(p->weights);
    order_free(p->gradient);
    order_free(p->bias);
}

/* To be released whether it works or not. */
static fault conv_parts_init(struct conv_parts *p, const struct conv_shape *s)
{
    dnnl_dims_t bias = {(dnnl_dim_t)s->c_out};
    p->in = order_of_four(s->n, s->c_in, s->h_in, s->w_in, s->number, tag_of(s->in));
    p->out = order_of_four(s->n, s->c_out, s->h_out, s->w_out, s->number, tag_of(s->out));
    p->weights = order_of_weights(s, s->number);
    p->gradient = order_of_weights(s, NUMBER_F32);
    p->bias = s->bias ? order_new(1, bias, dnnl_f32, dnnl_a) : NULL;
    if (!p->in || !p->out || !p->weights || !p->gradient || (s->bias && !p->bias))
        return OUT_OF_MEMORY;
    /* Rows and columns that no window reaches are cut off by less padding (even a negative one) at the end.
     */
    size_t reach_h = (s->h_out - 1) * s->stride + s->kernel, reach_w = (s->w_out - 1) * s->stride + s->kernel;
    for (int i = 0; i < 2; i++) {
        p->strides[i] = (dnnl_dim_t)s->stride;
        p->before[i] = (dnnl_dim_t)s->pad;
    }
    p->after[0] = (dnnl_dim_t)reach_h - (dnnl_dim_t)(s->h_in + s->pad);
    p->after[1] = (dnnl_dim_t)reach_w - (dnnl_dim_t)(s->w_in + s->pad);
    return OK;
}

static struct conv_words conv_words(const struct conv_parts *p, const order *weights, bool winograd)
{
    return (struct conv_words){.how = winograd ? dnnl_convolution_winograd : dnnl_convolution_direct,
                               .in = p->in,
                               .weights = weights,
                               .bias = p->bias,
                               .out = p->out,
                               .strides = p->strides,
                               .before = p->before,
                               .after = p->after};
}

static fault forward_descriptor(struct onednn *d, const struct conv_parts *p, bool winograd,
                                const order *like, dnnl_primitive_desc_t *out)
{
    struct conv_words c = conv_words(p, like ? like : p->weights, winograd);
    return check(onednn_describe_forward(d->engine, d->attr, &c, out), "such a convolution");
}

static fault back_descriptor(struct onednn *d, const struct conv_parts *p, bool data, bool winograd,
                             const order *like, dnnl_primitive_desc_t *out)
{
    struct conv_words c = conv_words(p, like ? like : data ? p->weights : p->gradient, winograd);
    dnnl_primitive_desc_t hint;
    TRY(forward_descriptor(d, p, false, NULL, &hint));
    dnnl_status_t s = data ? onednn_describe_data(d->engine, d->attr, &c, hint, out)
                           : onednn_describe_weights(d->engine, d->attr, &c, hint, out);
    dnnl_primitive_desc_destroy(hint);
    return check(s, "such a gradient of a convolution");
}

static void conv_args(struct recipe *r, enum conv_work work, const order *bias)
{
    switch (work) {
    case CONV_FORWARD:
        recipe_add(r, DNNL_ARG_SRC, dnnl_query_src_md);
        recipe_add(r, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
        recipe_add(r, DNNL_ARG_DST, dnnl_query_dst_md);
        break;
    case CONV_DATA:
        recipe_add(r, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md);
        recipe_add(r, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
        recipe_add(r, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md);
        break;
    case CONV_WEIGHTS:
        recipe_add(r, DNNL_ARG_SRC, dnnl_query_src_md);
        recipe_add(r, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md);
        recipe_add(r, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md);
        break;
    }
    if (bias && work != CONV_DATA) {
        r->names[r->n_args] = work == CONV_FORWARD ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS;
        r->orders[r->n_args++] = bias;
    }
}

static fault conv_descriptor(struct onednn *d, const struct conv_parts *p, enum conv_work work, bool winograd,
                             const order *like, dnnl_primitive_desc_t *out)
{
    return work == CONV_FORWARD ? forward_descriptor(d, p, winograd, like, out)
                                : back_descriptor(d, p, work == CONV_DATA, winograd, like, out);
}

static fault conv_make(struct onednn *d, const struct conv_parts *p, enum conv_work work, bool winograd,
                       const order *like, struct kernel **out)
{
    struct recipe r = {0};
    TRY(conv_descriptor(d, p, work, winograd, like, &r.descriptor));
    conv_args(&r, work, p->bias);
    return kernel_make(d, &r, out);
}

fault kernel_conv(struct onednn *d, const struct conv_shape *s, enum conv_work work, bool winograd,
                  const struct kernel *like, struct kernel **out)
{
    struct conv_parts p;
    fault f = conv_parts_init(&p, s);
    if (!f)
        f = conv_make(d, &p, work, winograd, like ? like->weights : NULL, out);
    conv_parts_release(&p);
    return f;
}

fault conv_is_naive(struct onednn *d, const struct conv_shape *s, enum conv_work work,
                    const struct kernel *like, bool *out)
{
    struct conv_parts p;
    dnnl_primitive_desc_t descriptor;
    fault f = conv_parts_init(&p, s);
    if (!f)
        f = conv_descriptor(d, &p, work, false, like ? like->weights : NULL, &descriptor);
    conv_parts_release(&p);
    TRY(f);
    const char *name = "";
    dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &name);
    *out = strncmp(name, "ref", 3) == 0;
    dnnl_primitive_desc_destroy(descriptor);
    return OK;
}

static order *matrix(size_t rows, size_t columns, size_t row, size_t column, enum number number)
{
    dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns}, steps = {(dnnl_dim_t)row, (dnnl_dim_t)column};
    return order_with_steps(2, dims, type_of(number), steps);
}

static fault product_make(struct onednn *d, const order *a, const order *b, const order *c,
                          struct kernel **out)
{
    struct recipe r = {0};
    if (!a || !b || !c)
        return OUT_OF_MEMORY;
    TRY(check(onednn_describe_product(d->engine, d->attr, a, b, c, &r.descriptor), "such a matrix product"));
    recipe_add(&r, DNNL_ARG_SRC, dnnl_query_src_md);
    recipe_add(&r, DNNL_ARG_WEIGHTS, dnnl_query_weights_md);
    recipe_add(&r, DNNL_ARG_DST, dnnl_query_dst_md);
    return kernel_make(d, &r, out);
}

fault kernel_product(struct onednn *d, const struct product_shape *s, struct kernel **out)
{
    order *a = matrix(s->m, s->k, s->a_row, s->a_column, s->number);
    order *b = matrix(s->k, s->n, s->b_row, s->b_column, s->number);
    order *c = matrix(s->m, s->n, s->c_row, 1, NUMBER_F32);
    fault f = product_make(d, a, b, c, out);
    order_free(a);
    order_free(b);
    order_free(c);
    return f;
}

static fault copy_make(struct onednn *d, const order *of, struct kernel **out)
{
    struct kernel *k = kernel_new(d);
    if (!k)
        return OUT_OF_MEMORY;
    k->copy_bytes = dnnl_memory_desc_get_size(of);
    *out = k;
    return OK;
}

/* Between equal orders oneDNN 3.7 has a kernel of its own, which it chooses on processors without SSE4.1, too,
 * and cannot make there. */
static fault reorder(struct onednn *d, const order *from, const order *to, struct kernel **out)
{
    if (dnnl_memory_desc_equal(from, to))
        return copy_make(d, from, out);
    struct recipe r = {.n_args = 2, .names = {DNNL_ARG_FROM, DNNL_ARG_TO}, .orders = {from, to}};
    TRY(check(dnnl_reorder_primitive_desc_create(&r.descriptor, from, d->engine, to, d->engine, d->attr),
              "such an order of weights"));
    return kernel_make(d, &r, out);
}

static order *plain_weights(const struct kernel *of)
{
    struct order_view v = order_look(of->weights);
    return order_new(v.n_dims, v.dims, dnnl_f32, v.n_dims == 5 ? dnnl_goihw : dnnl_oihw);
}

fault kernel_pack(struct onednn *d, const struct kernel *of, struct kernel **out)
{
    order *plain = plain_weights(of);
    fault f = plain ? reorder(d, plain, of->weights, out) : OUT_OF_MEMORY;
    order_free(plain);
    return f;
}

fault kernel_unpack(struct onednn *d, const struct kernel *of, struct kernel **out)
{
    order *plain = plain_weights(of);
    fault f = plain ? reorder(d, of->weights, plain, out) : OUT_OF_MEMORY;
    order_free(plain);
    return f;
}

fault kernel_pack_input(struct onednn *d, const struct kernel *of, enum format from, struct kernel **out)
{
    struct order_view v = order_look(of->in);
    order *given = order_new(4, v.dims, v.type, tag_of(from));
    fault f = given ? reorder(d, given, of->in, out) : OUT_OF_MEMORY;
    order_free(given);
    return f;
}

size_t kernel_input_bytes(const struct kernel *k)
{
    return dnnl_memory_desc_get_size(k->in);
}

size_t kernel_weight_bytes(const struct kernel *k)
{
    return dnnl_memory_desc_get_size(k->weights);
}

bool kernel_same_weights(const struct kernel *a, const struct kernel *b)
{
    return dnnl_memory_desc_equal(a->weights, b->weights);
}

enum format kernel_format(const struct kernel *k)
{
    struct order_view v = order_look(k->in);
    if (v.n_blocks == 1 && v.block_dims[0] == 1)
        return v.block_sizes[0] == 16 ? FORMAT_BLOCK16 : FORMAT_BLOCK8;
    return v.steps[1] == 1 && v.dims[1] > 1 ? FORMAT_LAST : FORMAT_PLAIN;
}

/* A kernel that was made runs; an error here would be a pointer that is NULL, which the callers rule out. */
void kernel_run(const struct kernel *k, int worker, void *const *args)
{
    if (k->copy_bytes) {
        memcpy(args[1], args[0], k->copy_bytes);
        return;
    }
    dnnl_memory_t *memory = k->memory + worker * k->n_args;
    dnnl_exec_arg_t a[MOST_ARGS + 1];
    for (int i = 0; i < k->n_args; i++) {
        dnnl_memory_set_data_handle(memory[i], args[i]);
        a[i] = (dnnl_exec_arg_t){k->names[i], memory[i]};
    }
    a[k->n_args] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, k->d->scratch[worker]};
    dnnl_primitive_execute(k->primitive, k->d->streams[worker], k->n_args + 1, a);
}
