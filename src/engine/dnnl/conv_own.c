/* conv_own.c - 3x3 convolutions by our own Winograd kernels (winograd.h), chunk by chunk.
 *
 *   prepare:   the replica's weights -> transformed, for the way forward and for the way back
 *   forward:   y = x * w
 *   backward:  a partial gradient of w for each chunk; dx from dy
 *   one phase later: the partial gradients are summed in the chunks' order into the replica's row
 *
 * Beside that it does what fold.c gave it of its neighbours' work. A bias has a batchnorm behind it, which takes away any
 * constant again: it moves only the remembered mean, and its gradient is zero.
 */
#include <string.h>

#include "engine/dnnl/kernels.h"
#include "engine/dnnl/winograd.h"

#ifdef __AVX512F__
enum { HAS_AVX512 = 1 };
#else
enum { HAS_AVX512 = 0 };
#endif

struct own_conv {
    size_t n_floats;   /* of the weights */
    int forward, data; /* buffers: transformed weights */
    int partial;       /* buffer: [chunk][n_floats]    */
};

/* Of the whole, as `op` is. */
static struct winograd sizes_in(const struct graph *g, const struct op *op, size_t n)
{
    struct shape in = g->tensors[op->in[0]].shape;
    return (struct winograd){
        .n = n, .c = in.c, .k = g->tensors[op->out].shape.c, .h = in.h, .w = in.w, .pad = op->pad};
}

static struct winograd sizes_of(const struct op_unit *u, size_t n)
{
    return sizes_in(u->program->setup->graph, u->op, n);
}

static bool feeds_batchnorm(const struct graph *g, const struct op *op)
{
    for (size_t i = 0; i < g->n_ops && g->tensors[op->out].n_uses == 1; i++)
        if (g->ops[i].in[0] == op->out)
            return g->ops[i].kind == OP_BATCHNORM;
    return false;
}

bool conv_is_own(const struct program *p, const struct op *op)
{
    const struct graph *g = p->setup->graph->whole;
    struct winograd w = sizes_in(g, op, p->chunk);
    return HAS_AVX512 && op->kernel == 3 && op->groups == 1 && op->stride == 1 && (op->bias < 0 || feeds_batchnorm(g, op)) &&
           p->number == NUMBER_F32 && p->layouts_of_whole[op->in[0]].format == FORMAT_BLOCK16 &&
           p->layouts_of_whole[op->out].format == FORMAT_BLOCK16 && winograd_supported(&w);
}

void conv_sums_chunk(const struct task *t, const struct op_unit *norm)
{
    struct winograd w = sizes_in(t->program->setup->graph->whole, norm->folds.summed_before, t->n);
    struct norm_sums sums = norm_clear_sums(t, norm);
    winograd_sums(&w, task_chunk(t, norm->x[0]), sums.first, sums.second);
}

void conv_load_chunk(const struct task *t, const struct op_unit *norm)
{
    struct winograd w = sizes_in(t->program->setup->graph->whole, norm->folds.applied_behind, t->n);
    struct norm_vectors v = norm_vectors(t, norm);
    struct winograd_load load = {.scale = v.scale, .shift = v.shift};
    winograd_loaded(&w, &load, task_chunk(t, norm->x[0]), task_chunk(t, norm->y));
}

static void transform_weights(const struct task *t, const struct op_unit *u);

static fault own_prepare(struct program *p, struct op_unit *u)
{
    struct own_conv *c = u->own = ARENA_NEW(&p->arena, struct own_conv, 1);
    if (!c)
        return OUT_OF_MEMORY;
    struct winograd w = sizes_of(u, p->chunk);
    c->n_floats = p->setup->graph->params[u->op->weight].size;
    c->forward = buffer_prepare(p, winograd_weights_bytes(&w));
    c->data = u->wanted[0] ? buffer_prepare(p, winograd_weights_bytes(&w)) : NO_BUFFER;
    c->partial = buffer_add(p, 0, c->n_floats * sizeof(float) * p->n_chunks);
    flat_reserve(p, winograd_scratch_bytes(&w));
    job_prepare(p, transform_weights, u);
    return OK;
}

static void transform_weights(const struct task *t, const struct op_unit *u)
{
    const struct own_conv *c = u->own;
    struct winograd w = sizes_of(u, t->program->chunk);
    const float *weights = t->frame->params + t->program->setup->graph->params[u->op->weight].offset;
    winograd_weights_forward(&w, weights, task_kept(t, c->forward));
    if (c->data != NO_BUFFER)
        winograd_weights_backward(&w, weights, task_kept(t, c->data));
}

/* What x is read from and what is done to it at loading. */
static const float *load_x(const struct task *t, const struct op_unit *u, struct winograd_load *load)
{
    const struct op_unit *norm = u->folds.load;
    if (!norm)
        return task_chunk(t, u->x[0]);
    struct norm_vectors v = norm_vectors(t, norm);
    *load = (struct winograd_load){.scale = v.scale, .shift = v.shift};
    return task_chunk(t, norm->x[0]);
}

static void own_forward_chunk(const struct task *t, const struct op_unit *u)
{
    const struct own_conv *c = u->own;
    struct winograd w = sizes_of(u, t->n);
    struct winograd_load load = {0};
    struct winograd_store store = {0};
    const float *x = load_x(t, u, &load);
    if (u->op->bias >= 0)
        store.bias = t->frame->params + t->program->setup->graph->params[u->op->bias].offset;
    if (u->folds.sums) {
        struct norm_sums sums = norm_clear_sums(t, u->folds.sums);
        store.sum = sums.first;
        store.products = sums.second;
    }
    winograd_forward(&w, load.scale ? &load : NULL, x, task_kept(t, c->forward), task_chunk(t, u->y), &store,
                     task_kept(t, t->program->flat));
}

static void own_gradient_chunk(const struct task *t, const struct op_unit *u)
{
    const struct own_conv *c = u->own;
    struct winograd w = sizes_of(u, t->n);
    struct winograd_load load = {0};
    const float *x = load_x(t, u, &load);
    float *partial = (float *)task_kept(t, c->partial) + t->index * c->n_floats;
    winograd_backward_weights(&w, load.scale ? &load : NULL, x, NULL, task_chunk(t, u->dy), false, partial,
                              task_kept(t, t->program->flat));
}

static void own_data_chunk(const struct task *t, const struct op_unit *u)
{
    const struct own_conv *c = u->own;
    struct winograd w = sizes_of(u, t->n);
    struct winograd_store store = {.add = u->adds[0] ? task_chunk(t, u->prior[0]) : NULL};
    winograd_backward_data(&w, NULL, task_chunk(t, u->dy), task_kept(t, c->data), task_chunk(t, u->dx[0]),
                           u->adds[0] ? &store : NULL, task_kept(t, t->program->flat));
}

static void own_sum_gradient(const struct task *t, const struct op_unit *u)
{
    const struct own_conv *c = u->own;
    const float *partial = task_kept(t, c->partial);
    float *sum = t->frame->grads + t->program->setup->graph->params[u->op->weight].offset;
    memcpy(sum, partial, c->n_floats * sizeof *sum);
    for (size_t i = 1; i < t->program->n_chunks; i++)
        for (size_t k = 0; k < c->n_floats; k++)
            sum[k] += partial[i * c->n_floats + k];
    if (u->op->bias >= 0)
        memset(t->frame->grads + t->program->setup->graph->params[u->op->bias].offset, 0,
               u->out.shape.c * sizeof(float));
}

static void use_x(struct program *p, const struct op_unit *u)
{
    buffer_use(p, u->folds.load ? u->folds.load->x[0] : u->x[0]);
}

static void own_forward(struct program *p, struct op_unit *u)
{
    use_x(p, u);
    buffer_use(p, u->y);
    job_chunk(p, own_forward_chunk, u);
}

static void own_gradient(struct program *p, struct op_unit *u)
{
    const struct own_conv *c = u->own;
    use_x(p, u);
    buffer_use(p, u->dy);
    buffer_use_whole(p, c->partial);
    job_chunk(p, own_gradient_chunk, u);
    buffer_use_next(p, c->partial);
    job_slices_next(p, own_sum_gradient, u, 1);
    u->final_phase = p->n_phases + 1;
}

static void own_backward(struct program *p, struct op_unit *u)
{
    if (!u->wanted[0])
        return;
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    buffer_use(p, u->prior[0]);
    job_chunk(p, own_data_chunk, u);
}

const struct op_maker conv_own_maker = {.prepare = own_prepare,
                                        .forward = own_forward,
                                        .weights = own_gradient,
                                        .backward = own_backward,
                                        .takes_prior = true};
