/* pass.c - see pass.h. */
#include "engine/cuda/pass.h"

#include <string.h>

enum { ALIGN = 256 };

static size_t tensor_bytes(const struct pass *p, int tensor)
{
    size_t n = shape_size(p->graph->tensors[tensor].shape);
    return p->n_seats * p->batch * n * (pass_is_half(p, tensor) ? 2 : 4);
}

/* Takes the next stretch of the memory after what is placed already. */
static size_t take(struct pass *p, size_t n_bytes)
{
    size_t at = round_up(p->n_bytes, ALIGN);
    p->n_bytes = at + n_bytes;
    return at;
}

static void place_the_rest(struct pass *p)
{
    const struct graph *g = p->graph;
    size_t scratch = 0, channels = 0;
    p->n_bytes = p->plan.n_bytes;
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        size_t own = ops_scratch(g, op, p->batch), c = g->tensors[op->in[0]].shape.c;
        scratch = own > scratch ? own : scratch;
        if (op->kind != OP_BATCHNORM)
            continue;
        p->moments_at[i] = take(p, p->n_seats * 2 * c * sizeof(float));
        channels = c > channels ? c : channels;
    }
    p->slopes_at = take(p, p->n_seats * 2 * channels * sizeof(float));
    p->partial_at = take(p, p->n_seats * scratch);
    p->labels_at = take(p, p->n_seats * p->batch * sizeof(uint16_t));
    p->outcomes_at = take(p, p->n_seats * sizeof(struct outcome));
}

fault pass_plan(struct pass *p, struct device *device, const struct engine_setup *setup, bool learning,
                size_t n_seats, size_t batch)
{
    const struct graph *g = setup->graph;
    *p = (struct pass){.graph = g,
                       .device = device,
                       .learning = learning,
                       .bf16 = setup->precision == PRECISION_BF16,
                       .n_seats = n_seats,
                       .batch = batch};
    size_t *sizes = ARENA_NEW(&p->arena, size_t, g->n_tensors);
    p->moments_at = ARENA_NEW(&p->arena, size_t, g->n_ops);
    if (!sizes || !p->moments_at)
        return OUT_OF_MEMORY;
    for (size_t t = 0; t < g->n_tensors; t++)
        sizes[t] = tensor_bytes(p, (int)t);
    TRY(plan_make(g, learning, sizes, sizes, &p->arena, &p->plan));
    place_the_rest(p);
    return OK;
}

static void *at(const struct pass_places *places, size_t offset)
{
    return (void *)(uintptr_t)(places->memory + offset);
}

static struct dims dims_of(const struct pass *p, int tensor)
{
    struct shape s = p->graph->tensors[tensor].shape;
    return (struct dims){(uint32_t)s.c, (uint32_t)s.h, (uint32_t)s.w};
}

static struct numbers value_of(const struct pass *p, const struct pass_places *places, int tensor)
{
    return (struct numbers){at(places, p->plan.value_at[tensor]), pass_is_half(p, tensor), 0};
}

static struct numbers gradient_of(const struct pass *p, const struct pass_places *places, int tensor,
                                  bool adds)
{
    if (p->plan.grad_at[tensor] == PLAN_NOWHERE)
        return (struct numbers){0};
    return (struct numbers){at(places, p->plan.grad_at[tensor]), pass_is_half(p, tensor), adds};
}

static uint64_t offset_of(const struct param *params, int i)
{
    return i < 0 ? CUDA_NONE : params[i].offset;
}

static struct call make_call(const struct pass *p, const struct pass_places *places, const struct step *s)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[s->op];
    struct call c = {
        .seats = (const struct seat *)(uintptr_t)places->seats,
        .op = (uint32_t)s->op,
        .batch = (uint32_t)p->batch,
        .learning = p->learning,
        .in = dims_of(p, op->in[0]),
        .kernel = (uint32_t)op->kernel,
        .stride = (uint32_t)op->stride,
        .pad = (uint32_t)op->pad,
        .relu = op->relu,
        .rate = op->rate,
        .eps = op->eps,
        .momentum = op->momentum,
        .weight = offset_of(g->params, op->weight),
        .bias = offset_of(g->params, op->bias),
        .mean = offset_of(g->stats, op->mean),
        .var = offset_of(g->stats, op->var),
        .moments = at(places, p->moments_at[s->op]),
        .slopes = at(places, p->slopes_at),
        .partial = at(places, p->partial_at),
        .splits = 1,
        .labels = at(places, p->labels_at),
        .outcomes = at(places, p->outcomes_at),
    };
    for (int k = 0; k < 2 && op->in[k] >= 0; k++) {
        c.x[k] = value_of(p, places, op->in[k]);
        if (s->wanted[k])
            c.dx[k] = gradient_of(p, places, op->in[k], s->adds[k]);
    }
    if (op->out >= 0) {
        c.out = dims_of(p, op->out);
        c.y = value_of(p, places, op->out);
        c.dy = gradient_of(p, places, op->out, false);
    }
    return c;
}

void pass_add(struct pass *p, enum cuda_kernel kernel, size_t grid_x, size_t grid_y, unsigned threads,
              const struct call *call)
{
    p->launches[p->n_launches++] = (struct launch){kernel,  (unsigned)grid_x,  (unsigned)grid_y,
                                                   threads, .shared_bytes = 0, .args.call = *call};
}

static void add_gather(struct pass *p, const struct pass_places *places)
{
    struct launch *l = &p->launches[p->n_launches++];
    struct dims in = dims_of(p, 0);
    *l = (struct launch){.kernel = KERNEL_gather, .grid_y = 1, .threads = 256};
    l->grid_x = (unsigned)((p->batch * in.h * in.w + 255) / 256);
    l->args.gather = (struct gather_call){
        .seats = (const struct seat *)(uintptr_t)places->seats,
        .picks = (const struct seat_pick *)(uintptr_t)places->picks,
        .inputs = {places->inputs[0], places->inputs[1]},
        .in = in,
        .batch = (uint32_t)p->batch,
        .x = value_of(p, places, 0),
        .labels = at(places, p->labels_at),
    };
}

fault pass_place(struct pass *p, const struct pass_places *places)
{
    p->launches = ARENA_NEW(&p->arena, struct launch, 1 + OPS_MOST_LAUNCHES * p->plan.n_steps);
    if (!p->launches)
        return OUT_OF_MEMORY;
    add_gather(p, places);
    for (size_t i = 0; i < p->plan.n_steps; i++) {
        struct call c = make_call(p, places, &p->plan.steps[i]);
        ops_add(p, &p->plan.steps[i], &c);
    }
    return OK;
}

void pass_release(struct pass *p)
{
    for (size_t i = 0; p->device && i < REPLAYS; i++)
        if (p->replays[i].graph)
            p->device->driver.cuGraphExecDestroy(p->replays[i].graph);
    arena_release(&p->arena);
}

static fault launch_all(struct pass *p, size_t n)
{
    const struct driver *d = &p->device->driver;
    for (size_t i = 0; i < p->n_launches; i++) {
        struct launch *l = &p->launches[i];
        void *args[] = {&l->args};
        CUresult result =
            d->cuLaunchKernel(p->device->kernels.of[l->kernel], l->grid_x, l->grid_y, (unsigned)n, l->threads,
                              1, 1, l->shared_bytes, p->device->stream, args, NULL);
        TRY(driver_check(d, result, cuda_kernel_names[l->kernel]));
    }
    return OK;
}

static fault capture(struct pass *p, size_t n, CUgraphExec *out)
{
    const struct driver *d = &p->device->driver;
    CUgraph graph = NULL;
    TRY(CU(d, cuStreamBeginCapture, p->device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fault f = launch_all(p, n), ended = CU(d, cuStreamEndCapture, p->device->stream, &graph);
    if (!f)
        f = ended;
    else
        fault_drop(ended);
    if (!f)
        f = CU(d, cuGraphInstantiate, out, graph, 0);
    if (graph)
        d->cuGraphDestroy(graph);
    return f;
}

/* The place of runs of n seats among the captured ones, or NULL where all are taken. */
static struct replay *replay_of(struct pass *p, size_t n)
{
    for (size_t i = 0; i < REPLAYS; i++)
        if (p->replays[i].n_seats == n || !p->replays[i].n_seats) {
            p->replays[i].n_seats = n;
            return &p->replays[i];
        }
    return NULL;
}

fault pass_run(struct pass *p, size_t n)
{
    struct replay *r = replay_of(p, n);
    if (!r || r->seen++ < 2)
        return launch_all(p, n);
    if (!r->graph)
        TRY(capture(p, n, &r->graph));
    return CU(&p->device->driver, cuGraphLaunch, r->graph, p->device->stream);
}
