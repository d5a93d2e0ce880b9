/* rounded.c - compiles the engine `ref` once more, with a runner that rounds.
 *
 *   every op by itself   tensors of more than a pixel are stored in bf16; a product's factors are rounded,
 *                        except in narrow linear layers
 *   fused (fused.h)      the same, but what a batchnorm or a shortcut makes is not stored: only products see
 *                        it rounded; a convolution's sums are rounded before its bias, or before what other
 *                        readers of its input sent back, is added
 *
 * Sums stay in double, where the GPU has fp32.
 */
#include "support/rounded.h"

#define ref_take  unrounded_take
#define ref_sizes rounded_sizes
#include "engine/ref/run.c"
#undef ref_take
#define ref_take rounded_take
void rounded_take(struct ref_walk *p, size_t first, size_t end);
#define engine_ref engine_rounded
#include "engine/ref/engine.c"

#include <string.h>

#include "engine/cuda/conv3.h"

float rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void round_all(float *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        x[i] = rounded(x[i]);
}

static bool has_kernel(const struct graph *g, const struct op *op)
{
    struct shape in = g->tensors[op->in[0]].shape, out = g->tensors[op->out].shape;
    size_t c = op->in[0] == 0 && in.c < CONV3_LEAST ? CONV3_LEAST : in.c;
    if (op->kernel != 3 || op->groups > 1)
        return false;
#define SAME(name, i, o, side, s, p, ...)                                                                    \
    if (c == (i) && out.c == (o) && in.h == (side) && op->stride == (s) && op->pad == (p))                   \
        return true;
    CONV3_FORWARD(SAME)
#undef SAME
    return false;
}

/* A graph is fused whole or not at all. */
static bool is_fused(const struct graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        if (g->ops[i].kind == OP_CONV && !has_kernel(g, &g->ops[i]))
            return false;
        n += g->ops[i].kind == OP_CONV;
    }
    return n > 0;
}

static bool made_by(const struct graph *g, int tensor, enum op_kind kind)
{
    int op = g->tensors[tensor].producer;
    return op >= 0 && g->ops[op].kind == kind;
}

static bool has_pixels(const struct graph *g, int tensor)
{
    struct shape s = g->tensors[tensor].shape;
    return s.h * s.w > 1;
}

static bool is_half(const struct graph *g, int tensor)
{
    bool passing = made_by(g, tensor, OP_BATCHNORM) || made_by(g, tensor, OP_SHORTCUT);
    return has_pixels(g, tensor) && !(passing && is_fused(g));
}

/* Products of the tensor cores; linear layers with few outputs are summed in fp32. */
static bool has_rounded_factors(const struct ref_call *c)
{
    bool narrow = c->out.c < 32 && shape_size(c->in) <= 4096;
    return c->op->kind == OP_CONV || (c->op->kind == OP_LINEAR && !narrow);
}

static const float *rounded_copy(const float *x, size_t n)
{
    float *copy = malloc((n + 1) * sizeof *copy);
    assert(copy);
    if (x)
        memcpy(copy, x, n * sizeof *copy);
    round_all(copy, x ? n : 0);
    return copy;
}

static void add_bias(const struct ref_call *c, const float *bias)
{
    size_t pixels = c->out.h * c->out.w;
    for (size_t i = 0; i < c->batch * shape_size(c->out); i++)
        c->y[i] += bias[i / pixels % c->out.c];
}

/* A fused convolution's sums are rounded once before anything is added to them. */
static void run_fused_conv(struct ref_call *c, bool back)
{
    size_t n_in = c->batch * shape_size(c->in), n_out = c->batch * shape_size(c->out);
    const float *bias = c->bias, *there = rounded_copy(c->dx[0], n_in);
    bool adds = back && c->dx[0] && c->adds[0];
    c->bias = NULL;
    c->adds[0] = false;
    (back ? ref_conv.backward : ref_conv.forward)(c);
    if (!back && bias) {
        round_all(c->y, n_out);
        add_bias(c, bias);
    }
    round_all(adds ? c->dx[0] : NULL, n_in);
    for (size_t i = 0; adds && i < n_in; i++)
        c->dx[0][i] += there[i];
    free((float *)there);
}

static void run_product(struct ref_call *c, const struct ref_walk *p, bool back)
{
    const float *x = rounded_copy(c->x[0], c->batch * shape_size(c->in));
    const float *dy = rounded_copy(back ? c->dy : NULL, c->batch * shape_size(c->out));
    const float *weight = rounded_copy(c->weight, p->graph->params[c->op->weight].size);
    c->x[0] = x;
    c->dy = dy;
    c->weight = weight;
    if (c->op->kind == OP_CONV && is_fused(p->graph))
        run_fused_conv(c, back);
    else
        (back ? ref_rows[c->op->kind]->backward : ref_rows[c->op->kind]->forward)(c);
    free((float *)x);
    free((float *)dy);
    free((float *)weight);
}

static void run_step(struct ref_walk *p, const struct step *s)
{
    const struct graph *g = p->graph;
    struct ref_call c = make_call(p, s);
    const struct op *op = c.op;
    if (has_rounded_factors(&c))
        run_product(&c, p, s->back);
    else
        (s->back ? ref_rows[op->kind]->backward : ref_rows[op->kind]->forward)(&c);
    if (!s->back && op->out >= 0 && is_half(g, op->out))
        round_all(c.y, c.batch * shape_size(c.out));
    /* All gradients: the one before a fused batchnorm is not stored, but whoever loads it rounds. */
    for (int k = 0; s->back && k < 2 && op->in[k] >= 0; k++)
        if (has_pixels(g, op->in[k]))
            round_all(c.dx[k], c.batch * shape_size(g->tensors[op->in[k]].shape));
    if (op_rows[op->kind].is_loss && !s->back) {
        p->loss = c.loss;
        p->hits = c.hits;
    }
    if (p->gathered && s->back && s->weights) {
        gather(p, op->weight);
        gather(p, op->bias);
    }
}

void rounded_take(struct ref_walk *p, size_t first, size_t end)
{
    if (is_half(p->graph, 0))
        round_all(in_memory(p, p->plan->value_at[0]), p->at.n * shape_size(p->graph->input));
    for (size_t i = first; i < end; i++)
        run_step(p, &p->plan->steps[i]);
}
