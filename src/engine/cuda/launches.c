/* launches.c - see launches.h. */
#include "engine/cuda/launches.h"

#include <string.h>

#include "engine/cuda/fused.h"

enum { ALIGN = 256 };

size_t launches_tensor_bytes(const struct launches *p, int tensor)
{
    return p->batch * shape_size(p->graph->tensors[tensor].shape) * (launches_is_half(p, tensor) ? 2 : 4);
}

size_t launches_take(struct launches *p, size_t n_bytes)
{
    size_t at = round_up(p->n_bytes, ALIGN);
    p->n_bytes = at + n_bytes;
    return at;
}

size_t launches_take_table(struct launches *p, size_t n_bytes)
{
    size_t at = round_up(p->n_table_bytes, ALIGN);
    p->n_table_bytes = at + n_bytes;
    return at;
}

/* What lasts from pass to pass: a seat has so many bytes of it. */
static size_t take_lasting(struct launches *p, size_t n_bytes)
{
    if (!launches_are_a_pass(p))
        return launches_take(p, p->n_seats * n_bytes);
    size_t at = round_up(p->n_kept, ALIGN);
    p->n_kept = at + n_bytes;
    return at;
}

static void place_the_rest(struct launches *p)
{
    const struct graph *g = p->graph;
    size_t scratch = 0, channels = 0;
    p->n_kept = p->plan.n_kept;
    p->n_bytes = p->plan.n_bytes - p->plan.n_kept;
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        size_t own = ops_scratch(g, op, p->batch, p->bf16), c = g->tensors[op->in[0]].shape.c;
        scratch = own > scratch ? own : scratch;
        if (op->kind != OP_BATCHNORM || p->fused)
            continue;
        p->moments_at[i] = take_lasting(p, 2 * c * sizeof(float));
        channels = c > channels ? c : channels;
    }
    p->slopes_at = launches_take(p, p->n_seats * 2 * channels * sizeof(float));
    p->partial_at = launches_take(p, p->n_seats * scratch);
    p->labels_at = take_lasting(p, p->batch * sizeof(uint16_t));
    p->outcomes_at = launches_take(p, p->n_seats * sizeof(struct outcome));
}

/* The plan is one seat's: as many of each tensor behind each other as there are seats, but for what is kept. */
static void stack_seats(struct launches *p)
{
    size_t kept = p->plan.n_kept, n = p->n_seats;
    size_t *lists[] = {p->plan.value_at, p->plan.grad_at, &p->plan.n_bytes};
    for (int k = 0; k < 3; k++)
        for (size_t t = 0; t < (k < 2 ? p->graph->n_tensors : 1); t++)
            if (lists[k][t] != PLAN_NOWHERE && lists[k][t] > kept)
                lists[k][t] = kept + n * (lists[k][t] - kept);
}

static fault plan_tensors(struct launches *p)
{
    const struct graph *g = p->graph;
    size_t *sizes = ARENA_NEW(&p->arena, size_t, g->n_tensors);
    if (!sizes)
        return OUT_OF_MEMORY;
    for (size_t t = 0; t < g->n_tensors; t++) {
        size_t n = p->batch * shape_size(g->tensors[t].shape);
        if (n > UINT32_MAX)
            return FAIL(FAULT_ENGINE,
                        "a batch of %zu makes a tensor of %zu numbers; the engine cuda counts to %u",
                        p->batch, n, UINT32_MAX);
        sizes[t] = t == 0 && !graph_reads_samples(g) ? 0 : launches_tensor_bytes(p, (int)t);
    }
    TRY(plan_make(g, p->kind, sizes, sizes, &p->arena, &p->plan));
    stack_seats(p);
    return OK;
}

fault launches_plan(struct launches *p, struct device *device, const struct engine_setup *setup,
                    struct launches_wish wish)
{
    *p = (struct launches){.graph = setup->graph,
                           .setup = setup,
                           .device = device,
                           .kind = wish.kind,
                           .pass = wish.pass,
                           .learning = wish.kind != PLAN_EXAM,
                           .bf16 = setup->precision == PRECISION_BF16,
                           .n_seats = wish.n_seats,
                           .batch = wish.batch};
    p->moments_at = ARENA_NEW(&p->arena, size_t, p->graph->n_ops);
    if (!p->moments_at)
        return OUT_OF_MEMORY;
    TRY(plan_tensors(p));
    /* Passes do every op by itself: fused ones do not end where a pass does. */
    if (!launches_are_a_pass(p))
        TRY(fused_plan(p));
    place_the_rest(p);
    return OK;
}

static void *at(const struct launch_places *places, size_t offset)
{
    return (void *)(uintptr_t)(places->memory + offset);
}

static const struct seat *seats_of(const struct launch_places *places)
{
    return (const struct seat *)(uintptr_t)places->seats;
}

static struct dims dims_of(const struct launches *p, int tensor)
{
    struct shape s = p->graph->tensors[tensor].shape;
    return (struct dims){(uint32_t)s.c, (uint32_t)s.h, (uint32_t)s.w};
}

static struct numbers on_shelf(const struct launch_places *places, size_t offset, bool half)
{
    return (struct numbers){.at = (void *)(uintptr_t)(places->shelves + offset),
                            .half = half,
                            .on_shelf = true};
}

/* What take_lasting took. */
static struct numbers lasting(const struct launches *p, const struct launch_places *places, size_t offset,
                              bool half)
{
    return launches_are_a_pass(p) ? on_shelf(places, offset, half)
                                  : (struct numbers){.at = at(places, offset), .half = half};
}

static struct numbers tensor_at(const struct launches *p, const struct launch_places *places, size_t offset,
                                int tensor)
{
    bool half = launches_is_half(p, tensor);
    size_t kept = p->plan.n_kept;
    return offset < kept ? on_shelf(places, offset, half)
                         : (struct numbers){.at = at(places, offset - kept), .half = half};
}

static struct numbers value_of(const struct launches *p, const struct launch_places *places, int tensor)
{
    return tensor_at(p, places, p->plan.value_at[tensor], tensor);
}

static struct numbers gradient_of(const struct launches *p, const struct launch_places *places, int tensor,
                                  bool adds)
{
    if (p->plan.grad_at[tensor] == PLAN_NOWHERE)
        return (struct numbers){0};
    struct numbers x = tensor_at(p, places, p->plan.grad_at[tensor], tensor);
    x.adds = adds;
    return x;
}

static uint64_t offset_of(const struct param *params, int i)
{
    return i < 0 ? CUDA_NONE : params[i].offset;
}

/* Where a crossing's values and gradients begin; a row has room for the largest micro-batch. */
static void set_crossing(const struct launches *p, const struct op *op, struct call *c)
{
    const struct graph *g = p->graph;
    const struct crossing *x = &(op->kind == OP_SEND ? g->sends : g->receives)[op->crossing];
    c->values_at = x->at * micro_most(p->setup);
    c->grads_at = x->at_grad == NOT_LEARNT ? CUDA_NONE : x->at_grad * micro_most(p->setup);
}

static struct call make_call(const struct launches *p, const struct launch_places *places, const struct step *s)
{
    const struct graph *g = p->graph;
    const struct op *op = &g->ops[s->op];
    bool receives = op->kind == OP_RECEIVE;
    struct call c = {
        .seats = seats_of(places),
        .op = (uint32_t)op->key,
        .batch = (uint32_t)p->batch,
        .of = (uint32_t)p->setup->batch,
        .learning = p->learning,
        .weights = s->weights,
        .in = dims_of(p, receives ? op->out : op->in[0]),
        .kernel = (uint32_t)op->kernel,
        .stride = (uint32_t)op->stride,
        .pad = (uint32_t)op->pad,
        .groups = (uint32_t)op->groups,
        .relu = op->relu,
        .rate = op->rate,
        .eps = op->eps,
        .momentum = op->momentum,
        .weight = offset_of(g->params, op->weight),
        .bias = offset_of(g->params, op->bias),
        .mean = offset_of(g->stats, op->mean),
        .var = offset_of(g->stats, op->var),
        .moments = lasting(p, places, p->moments_at[s->op], false),
        .slopes = at(places, p->slopes_at),
        .partial = at(places, p->partial_at),
        .splits = 1,
        .labels = lasting(p, places, p->labels_at, true),
        .outcomes = at(places, p->outcomes_at),
    };
    for (int k = 0; k < 2 && op->in[k] >= 0 && !receives; k++) {
        c.x[k] = value_of(p, places, op->in[k]);
        if (s->wanted[k])
            c.dx[k] = gradient_of(p, places, op->in[k], s->adds[k]);
    }
    if (op->out >= 0) {
        c.out = dims_of(p, op->out);
        c.y = value_of(p, places, op->out);
        c.dy = gradient_of(p, places, op->out, false);
    }
    if (op->crossing >= 0)
        set_crossing(p, op, &c);
    return c;
}

struct launch *launches_launch(struct launches *p, enum cuda_kernel kernel, size_t grid_x, unsigned threads,
                           size_t shared_bytes)
{
    struct launch *l = &p->launches[p->n_launches++];
    *l = (struct launch){.kernel = kernel, .grid_x = (unsigned)grid_x, .grid_y = 1, .threads = threads};
    l->shared_bytes = (unsigned)shared_bytes;
    return l;
}

void launches_add(struct launches *p, enum cuda_kernel kernel, size_t grid_x, size_t grid_y, unsigned threads,
              const struct call *call)
{
    struct launch *l = launches_launch(p, kernel, grid_x, threads, 0);
    l->grid_y = (unsigned)grid_y;
    l->args.call = *call;
}

static void add_gather(struct launches *p, const struct launch_places *places)
{
    struct dims in = dims_of(p, 0);
    bool filled = p->fused && p->fused->input_channels > in.c;
    size_t each = filled ? 1024 : 256; /* pixels of a block */
    struct launch *l = launches_launch(p, filled ? KERNEL_gather_filled : KERNEL_gather,
                                   (p->batch * in.h * in.w + each - 1) / each, 256, 0);
    l->args.gather = (struct gather_call){
        .seats = seats_of(places),
        .picks = (const struct seat_pick *)(uintptr_t)places->picks,
        .inputs = {places->inputs[0], places->inputs[1]},
        .in = in,
        .batch = (uint32_t)p->batch,
        .of = (uint32_t)p->setup->batch,
        .filled = p->fused ? (uint32_t)p->fused->input_channels : in.c,
        .labels = lasting(p, places, p->labels_at, true),
    };
    if (graph_reads_samples(p->graph))
        l->args.gather.x = value_of(p, places, 0);
    p->traffic += (double)(p->batch * l->args.gather.filled * in.h * in.w * (launches_is_half(p, 0) ? 2 : 4));
}

/* Some kernels want more shared memory than a block gets unasked, and some share out their work by how many
 * blocks the device runs at a time. */
static fault settle(struct launches *p, struct launch *l)
{
    const struct driver *d = &p->device->driver;
    CUfunction kernel = p->device->kernels.of[l->kernel];
    int blocks = 1;
    if (l->shared_bytes > 48 << 10)
        TRY(CU(d, cuFuncSetAttribute, kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               (int)l->shared_bytes));
    if (l->groups)
        TRY(CU(d, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, kernel, (int)l->threads,
               l->shared_bytes));
    l->slots = (unsigned)(blocks * d->processors);
    return OK;
}

/* The steps of the list: all, or those of its pass. */
static void stretch(const struct launches *p, size_t *first, size_t *end)
{
    bool forward = !launches_are_a_pass(p) || p->pass == PASS_FORWARD, weights = p->pass == PASS_WEIGHTS;
    *first = forward ? 0 : weights ? p->plan.n_inputs : p->plan.n_forward;
    *end = !launches_are_a_pass(p) || weights ? p->plan.n_steps
           : forward                          ? p->plan.n_forward
                                              : p->plan.n_inputs;
}

fault launches_place(struct launches *p, const struct launch_places *places)
{
    size_t most = 1 + OPS_MOST_LAUNCHES * p->plan.n_steps + (p->fused ? fused_extra_launches(p) : 0);
    p->launches = ARENA_NEW(&p->arena, struct launch, most);
    if (!p->launches)
        return OUT_OF_MEMORY;
    TRY(driver_take(&p->device->driver, p->n_table_bytes, "tables", &p->tables));
    size_t first, end;
    stretch(p, &first, &end);
    if (launches_gather(p))
        add_gather(p, places);
    if (p->fused)
        TRY(fused_begin(p, places));
    for (size_t i = first; i < end; i++) {
        const struct step *s = &p->plan.steps[i];
        struct call c = make_call(p, places, s);
        if (!p->fused || !fused_step(p, places, s)) {
            ops_add(p, s, &c);
            p->traffic += (double)ops_traffic(p, s);
        }
    }
    if (p->fused)
        TRY(fused_end(p, places));
    for (size_t i = 0; i < p->n_launches; i++)
        TRY(settle(p, &p->launches[i]));
    return OK;
}

void launches_release(struct launches *p)
{
    for (size_t i = 0; p->device && i < REPLAYS; i++)
        if (p->replays[i].graph)
            p->device->driver.cuGraphExecDestroy(p->replays[i].graph);
    if (p->device)
        driver_give(&p->device->driver, &p->tables);
    arena_release(&p->arena);
}

/* Blocks for each of n seats such that the slowest has the least to do: every block begins (half a group's
 * worth of work) and takes its groups one after the other. */
static unsigned blocks_for(const struct launch *l, size_t n)
{
    unsigned best = 1;
    double least = 0;
    for (unsigned b = 1; b <= l->groups; b++) {
        size_t waves = (n * b + l->slots - 1) / l->slots;
        double cost = (double)waves * (0.5 + (l->groups + b - 1) / b);
        if (b == 1 || cost < least) {
            least = cost;
            best = b;
        }
    }
    return best;
}

fault launches_run_one(struct launches *p, size_t i, size_t n)
{
    const struct driver *d = &p->device->driver;
    struct launch *l = &p->launches[i];
    void *args[] = {&l->args};
    unsigned grid_x = l->groups ? blocks_for(l, n) : l->grid_x;
    CUresult result = d->cuLaunchKernel(p->device->kernels.of[l->kernel], grid_x, l->grid_y, (unsigned)n,
                                        l->threads, 1, 1, l->shared_bytes, p->device->stream, args, NULL);
    return driver_check(d, result, cuda_kernel_names[l->kernel]);
}

static fault launch_all(struct launches *p, size_t n)
{
    for (size_t i = 0; i < p->n_launches; i++)
        TRY(launches_run_one(p, i, n));
    return OK;
}

static fault capture(struct launches *p, size_t n, CUgraphExec *out)
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
        f = CU(d, cuGraphInstantiateWithFlags, out, graph, 0);
    if (graph)
        d->cuGraphDestroy(graph);
    return f;
}

/* The place of runs of n seats among the captured ones, or NULL where all are taken. */
static struct replay *replay_of(struct launches *p, size_t n)
{
    for (size_t i = 0; i < REPLAYS; i++)
        if (p->replays[i].n_seats == n || !p->replays[i].n_seats) {
            p->replays[i].n_seats = n;
            return &p->replays[i];
        }
    return NULL;
}

fault launches_run(struct launches *p, size_t n)
{
    struct replay *r = replay_of(p, n);
    if (!r || r->seen++ < 2)
        return launch_all(p, n);
    if (!r->graph)
        TRY(capture(p, n, &r->graph));
    return CU(&p->device->driver, cuGraphLaunch, r->graph, p->device->stream);
}
