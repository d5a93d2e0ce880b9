/* plan.c - the order of the steps, the life of every buffer, and a place in memory for each.
 *
 *   forward steps 0 .. n-1, backward steps n .. in the reverse order
 *   life of a value:     from its op (the input: from step 0) to its last reader, forward or backward
 *   life of a gradient:  from the backward step of the last reader to that of its producer, or to the step that
 *                        makes the gradient of its weights from it
 *
 * Buffers are placed largest first, each into the smallest gap among those placed that live at the same time,
 * or above them all. Invariant: two buffers alive in the same step do not overlap, so no step works in place.
 */
#include "graph/plan.h"

#include <stdlib.h>

enum { ALIGN = 64 };

struct buffer {
    size_t n_bytes;
    size_t first, last; /* steps, both included */
    bool is_kept;
    size_t at;
    size_t *slot; /* where the offset is to be written */
};

/* An op has a backward step when something is learnt by it or before it, be it in another part. */
static bool has_backward(const struct graph *g, const struct op *op)
{
    if (op->kind == OP_RECEIVE)
        return g->tensors[op->out].learns;
    return op->weight >= 0 || g->tensors[op->in[0]].learns ||
           (op->in[1] >= 0 && g->tensors[op->in[1]].learns);
}

/* A batchnorm's gradients of weights are sums that those of its inputs need: they are never apart. */
static bool is_apart(const struct op *op)
{
    return op->weight >= 0 && op->kind != OP_BATCHNORM;
}

static struct step backward_step(const struct graph *g, size_t i, bool split, bool *written)
{
    const struct op *op = &g->ops[i];
    struct step s = {.op = (int)i, .back = true};
    s.weights = op->weight >= 0 && !(split && is_apart(op));
    for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
        s.wanted[k] = g->tensors[op->in[k]].learns;
        s.adds[k] = s.wanted[k] && written[op->in[k]];
        written[op->in[k]] = written[op->in[k]] || s.wanted[k];
    }
    return s;
}

static fault list_steps(const struct graph *g, enum plan_kind kind, struct arena *arena, struct plan *p)
{
    bool learning = kind != PLAN_EXAM, split = kind == PLAN_SPLIT_PASSES;
    p->steps = ARENA_NEW(arena, struct step, g->n_ops * 3);
    bool *written = ARENA_NEW(arena, bool, g->n_tensors); /* the gradients that hold something already */
    if (!p->steps || !written)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_ops; i++)
        p->steps[i].op = (int)i;
    p->n_steps = p->n_forward = g->n_ops;
    for (size_t i = g->n_ops; learning && i-- > 0;)
        if (has_backward(g, &g->ops[i]))
            p->steps[p->n_steps++] = backward_step(g, i, split, written);
    p->n_inputs = p->n_steps;
    for (size_t i = g->n_ops; split && i-- > 0;)
        if (is_apart(&g->ops[i]))
            p->steps[p->n_steps++] = (struct step){.op = (int)i, .back = true, .weights = true};
    return OK;
}

static void live_at(struct buffer *b, size_t step)
{
    if (step < b->first)
        b->first = step;
    if (step > b->last)
        b->last = step;
}

/* Stretches the lives of the buffers over one step that touches them. */
static void touch(const struct graph *g, const struct plan *p, size_t at, struct buffer *values,
                  struct buffer *grads)
{
    const struct step *s = &p->steps[at];
    const struct op *op = &g->ops[s->op];
    const struct op_row *row = &op_rows[op->kind];
    for (int k = 0; k < 2 && op->in[k] >= 0 && op->kind != OP_RECEIVE; k++) {
        if (!s->back || row->keeps_in)
            live_at(&values[op->in[k]], at);
        if (s->wanted[k])
            live_at(&grads[op->in[k]], at);
    }
    if (op->out < 0)
        return;
    if (!s->back || row->keeps_out)
        live_at(&values[op->out], at);
    if (s->back)
        live_at(&grads[op->out], at);
}

static int larger_first(const void *a, const void *b)
{
    const struct buffer *x = a, *y = b;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes > y->n_bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->slot < y->slot ? -1 : 1;
}

static bool lives_beside(const struct buffer *a, const struct buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The start of the smallest gap that holds b; `placed` is sorted by offset. */
static size_t best_gap(const struct buffer *b, struct buffer *const *placed, size_t n)
{
    size_t top = 0, best = 0, best_size = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct buffer *other = placed[i];
        if (!lives_beside(b, other))
            continue;
        if (other->at > top && other->at - top >= b->n_bytes && other->at - top < best_size) {
            best = top;
            best_size = other->at - top;
        }
        if (other->at + other->n_bytes > top)
            top = other->at + other->n_bytes;
    }
    return best_size == SIZE_MAX ? top : best;
}

static void insert_by_offset(struct buffer *b, struct buffer **placed, size_t n)
{
    while (n > 0 && placed[n - 1]->at > b->at) {
        placed[n] = placed[n - 1];
        n--;
    }
    placed[n] = b;
}

/* Those that are kept, or all others, from `base` on; gives where they end. */
static size_t place_all(struct buffer *buffers, size_t n, bool kept, size_t base, struct buffer **placed)
{
    size_t top = 0, n_placed = 0;
    for (size_t i = 0; i < n; i++) {
        struct buffer *b = &buffers[i];
        if (b->is_kept != kept)
            continue;
        b->at = best_gap(b, placed, n_placed);
        *b->slot = base + b->at;
        insert_by_offset(b, placed, n_placed++);
        if (b->at + b->n_bytes > top)
            top = b->at + b->n_bytes;
    }
    return base + top;
}

/* 0: forward, 1: backward, or the gradients of inputs, 2: those of weights alone. */
static int stretch_of(const struct plan *p, size_t step)
{
    return (step >= p->n_forward) + (step >= p->n_inputs);
}

static void find_kept(const struct plan *p, struct buffer *buffers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buffers[i].is_kept = stretch_of(p, buffers[i].first) != stretch_of(p, buffers[i].last);
}

static size_t keep_living(struct buffer *buffers, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (buffers[i].first <= buffers[i].last)
            buffers[kept++] = buffers[i];
    return kept;
}

fault plan_make(const struct graph *g, enum plan_kind kind, const size_t *value_bytes,
                const size_t *grad_bytes, struct arena *arena, struct plan *out)
{
    struct plan p = {0};
    size_t n = g->n_tensors;
    bool learning = kind != PLAN_EXAM;
    TRY(list_steps(g, kind, arena, &p));
    p.value_at = ARENA_NEW(arena, size_t, n);
    p.grad_at = ARENA_NEW(arena, size_t, n);
    struct buffer *buffers = ARENA_NEW(arena, struct buffer, 2 * n); /* values, then gradients */
    struct buffer **placed = ARENA_NEW(arena, struct buffer *, 2 * n);
    if (!p.value_at || !p.grad_at || !buffers || !placed)
        return OUT_OF_MEMORY;
    for (size_t t = 0; t < n; t++) {
        p.grad_at[t] = PLAN_NOWHERE;
        buffers[t] = (struct buffer){round_up(value_bytes[t], ALIGN), SIZE_MAX, 0, false, 0, &p.value_at[t]};
        buffers[n + t] = (struct buffer){
            learning ? round_up(grad_bytes[t], ALIGN) : 0, SIZE_MAX, 0, false, 0, &p.grad_at[t]};
    }
    live_at(&buffers[0], 0); /* the input is there before the first step */
    for (size_t i = 0; i < p.n_steps; i++)
        touch(g, &p, i, buffers, buffers + n);
    n = keep_living(buffers, 2 * n);
    if (kind >= PLAN_PASSES)
        find_kept(&p, buffers, n);
    qsort(buffers, n, sizeof *buffers, larger_first);
    p.n_kept = place_all(buffers, n, true, 0, placed);
    p.n_bytes = place_all(buffers, n, false, p.n_kept, placed);
    *out = p;
    return OK;
}

fault plan_lesson_bytes(const struct graph *g, size_t n_samples, size_t *out)
{
    struct arena arena = {0};
    struct plan p = {0};
    size_t *bytes = ARENA_NEW(&arena, size_t, g->n_tensors);
    for (size_t t = 0; bytes && t < g->n_tensors; t++)
        bytes[t] = n_samples * shape_size(g->tensors[t].shape) * sizeof(float);
    fault f = bytes ? plan_make(g, PLAN_LESSON, bytes, bytes, &arena, &p) : OUT_OF_MEMORY;
    arena_release(&arena);
    *out = p.n_bytes;
    return f;
}
