/* pools.c - ops that make fewer pixels: max, mean and global pooling. */
#include "engine/dnnl/kernels.h"
#include "engine/dnnl/lanes.h"

struct window { /* input rows and columns under one output pixel, cut at the picture's edges */
    uint16_t y, y_end, x, x_end;
};

static void stretch(const struct op *op, size_t out, size_t side, uint16_t *first, uint16_t *end)
{
    size_t padded = out * op->stride;
    *first = (uint16_t)(padded < op->pad ? 0 : padded - op->pad);
    *end = (uint16_t)(padded + op->kernel - op->pad < side ? padded + op->kernel - op->pad : side);
}

/* The windows of all output pixels in order: what a pool keeps in u->own. */
static fault pool_prepare(struct program *p, struct op_unit *u)
{
    if (u->in.shape.h > UINT16_MAX || u->in.shape.w > UINT16_MAX)
        return FAIL(FAULT_ENGINE, "pictures of %zu x %zu are too large to pool", u->in.shape.h,
                    u->in.shape.w);
    struct window *w = u->own = ARENA_NEW(&p->arena, struct window, u->out.pixels);
    if (!w)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < u->out.pixels; i++) {
        stretch(u->op, i / u->out.shape.w, u->in.shape.h, &w[i].y, &w[i].y_end);
        stretch(u->op, i % u->out.shape.w, u->in.shape.w, &w[i].x, &w[i].x_end);
    }
    return OK;
}

#define EACH_PIXEL(w, l, k, base)                                                                            \
    for (size_t each_y = (w).y; each_y < (w).y_end; each_y++)                                                \
        for (size_t each_x = (w).x, k = (base) + (each_y * (l)->shape.w + each_x) * (l)->pixel_step;         \
             each_x < (w).x_end; each_x++, k += (l)->pixel_step)

INLINE void max_group(const struct op_unit *u, const void *x, void *y, size_t g, enum number number, size_t n)
{
    size_t base = g * u->in.group_step;
    for (size_t p = 0; p < u->out.pixels; p++) {
        struct window w = ((const struct window *)u->own)[p];
        lanes most = lanes_load(x, base + (w.y * u->in.shape.w + w.x) * u->in.pixel_step, number, n);
        EACH_PIXEL(w, &u->in, k, base)
        {
            lanes v = lanes_load(x, k, number, n);
            lane_bits more = v > most;
            most = (lanes)(((lane_bits)v & more) | ((lane_bits)most & ~more));
        }
        lanes_store(y, g * u->out.group_step + p * u->out.pixel_step, most, number, n);
    }
}

/* The first of the largest takes the gradient; `left` marks the lanes whose gradient still looks for its
 * place. */
INLINE void max_back_group(const struct op_unit *u, const void *x, const void *y, const void *dy, void *dx,
                           bool apart, size_t g, enum number number, size_t n)
{
    size_t base = g * u->in.group_step;
    for (size_t p = 0; p < u->out.pixels; p++) {
        struct window w = ((const struct window *)u->own)[p];
        size_t at = g * u->out.group_step + p * u->out.pixel_step;
        lanes most = lanes_load(y, at, number, n), d = lanes_load(dy, at, number, n);
        lane_bits left = ~(lane_bits){0};
        EACH_PIXEL(w, &u->in, k, base)
        {
            lane_bits here = (lanes_load(x, k, number, n) == most) & left;
            left &= ~here;
            lanes v = lanes_where(here, d);
            lanes_store(dx, k, apart ? v : lanes_load(dx, k, number, n) + v, number, n);
        }
    }
}

/* Whether every input pixel lies under exactly one window, so that its gradient can simply be written. */
static bool tiles(const struct op_unit *u)
{
    const struct op *op = u->op;
    return op->kernel == op->stride && op->pad == 0 && u->out.shape.h * op->stride == u->in.shape.h &&
           u->out.shape.w * op->stride == u->in.shape.w;
}

static void clear(const struct task *t, const struct op_unit *u)
{
    memset(task_chunk(t, u->dx[0]), 0, t->n * layout_sample_bytes(&u->in));
}

static void maxpool_chunk(const struct task *t, const struct op_unit *u)
{
    for (size_t i = t->first; i < t->first + t->n; i++)
        for (size_t g = 0; g < u->in.groups; g++)
            LANES(max_group, u->in.number, layout_lanes(&u->in, g), u, task_at(t, u->x[0], i),
                  task_at(t, u->y, i), g);
}

static void maxpool_back_chunk(const struct task *t, const struct op_unit *u)
{
    bool apart = tiles(u);
    if (!apart)
        clear(t, u);
    for (size_t i = t->first; i < t->first + t->n; i++)
        for (size_t g = 0; g < u->in.groups; g++)
            LANES(max_back_group, u->in.number, layout_lanes(&u->in, g), u, task_at(t, u->x[0], i),
                  task_at(t, u->y, i), task_at(t, u->dy, i), task_at(t, u->dx[0], i), apart, g);
}

static void use_values(struct program *p, const struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
}

static void use_gradients(struct program *p, const struct op_unit *u)
{
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
}

static void maxpool_forward(struct program *p, struct op_unit *u)
{
    use_values(p, u);
    job_chunk(p, maxpool_chunk, u);
}

static void maxpool_backward(struct program *p, struct op_unit *u)
{
    use_values(p, u);
    use_gradients(p, u);
    job_chunk(p, maxpool_back_chunk, u);
}

const struct op_maker maxpool_maker = {
    .prepare = pool_prepare, .forward = maxpool_forward, .backward = maxpool_backward};

INLINE void mean_group(const struct op_unit *u, const void *x, void *y, size_t g, enum number number,
                       size_t n)
{
    lanes share = lanes_all(1.0f / (float)(u->op->kernel * u->op->kernel));
    for (size_t p = 0; p < u->out.pixels; p++) {
        struct window w = ((const struct window *)u->own)[p];
        lanes sum = {0};
        EACH_PIXEL(w, &u->in, k, g * u->in.group_step)
        sum += lanes_load(x, k, number, n);
        lanes_store(y, g * u->out.group_step + p * u->out.pixel_step, sum * share, number, n);
    }
}

INLINE void mean_back_group(const struct op_unit *u, const void *dy, void *dx, size_t g, enum number number,
                            size_t n)
{
    lanes share = lanes_all(1.0f / (float)(u->op->kernel * u->op->kernel));
    for (size_t p = 0; p < u->out.pixels; p++) {
        struct window w = ((const struct window *)u->own)[p];
        lanes d = lanes_load(dy, g * u->out.group_step + p * u->out.pixel_step, number, n) * share;
        EACH_PIXEL(w, &u->in, k, g * u->in.group_step)
        lanes_store(dx, k, lanes_load(dx, k, number, n) + d, number, n);
    }
}

static void avgpool_chunk(const struct task *t, const struct op_unit *u)
{
    for (size_t i = t->first; i < t->first + t->n; i++)
        for (size_t g = 0; g < u->in.groups; g++)
            LANES(mean_group, u->in.number, layout_lanes(&u->in, g), u, task_at(t, u->x[0], i),
                  task_at(t, u->y, i), g);
}

static void avgpool_back_chunk(const struct task *t, const struct op_unit *u)
{
    clear(t, u);
    for (size_t i = t->first; i < t->first + t->n; i++)
        for (size_t g = 0; g < u->in.groups; g++)
            LANES(mean_back_group, u->in.number, layout_lanes(&u->in, g), u, task_at(t, u->dy, i),
                  task_at(t, u->dx[0], i), g);
}

static void avgpool_forward(struct program *p, struct op_unit *u)
{
    use_values(p, u);
    job_chunk(p, avgpool_chunk, u);
}

static void avgpool_backward(struct program *p, struct op_unit *u)
{
    use_gradients(p, u);
    job_chunk(p, avgpool_back_chunk, u);
}

const struct op_maker avgpool_maker = {
    .prepare = pool_prepare, .forward = avgpool_forward, .backward = avgpool_backward};

/* The output has no pixels and may lie otherwise than the input: it is read and written channel by channel.
 */
INLINE void global_group(const struct layout *l, const void *x, float *mean, size_t g, enum number number,
                         size_t n)
{
    lanes sum = {0};
    for (size_t p = 0; p < l->pixels; p++)
        sum += lanes_load(x, g * l->group_step + p * l->pixel_step, number, n);
    lanes_store(mean, 0, sum * lanes_all(1.0f / (float)l->pixels), NUMBER_F32, n);
}

static void globalpool_chunk(const struct task *t, const struct op_unit *u)
{
    float *flat = task_kept(t, t->program->flat);
    for (size_t i = t->first; i < t->first + t->n; i++) {
        for (size_t g = 0; g < u->in.groups; g++)
            LANES(global_group, u->in.number, layout_lanes(&u->in, g), &u->in, task_at(t, u->x[0], i),
                  flat + g * u->in.lanes, g);
        layout_pack(&u->out, flat, task_at(t, u->y, i));
    }
}

INLINE void global_back_group(const struct layout *l, const float *mean, void *dx, size_t g,
                              enum number number, size_t n)
{
    size_t real = l->shape.c - g * l->lanes < n ? l->shape.c - g * l->lanes : n;
    lanes d = lanes_load(mean, g * l->lanes, NUMBER_F32, real) * lanes_all(1.0f / (float)l->pixels);
    for (size_t p = 0; p < l->pixels; p++)
        lanes_store(dx, g * l->group_step + p * l->pixel_step, d, number, n);
}

static void globalpool_back_chunk(const struct task *t, const struct op_unit *u)
{
    float *flat = task_kept(t, t->program->flat);
    for (size_t i = t->first; i < t->first + t->n; i++) {
        layout_unpack(&u->out, task_at(t, u->dy, i), flat);
        for (size_t g = 0; g < u->in.groups; g++)
            LANES(global_back_group, u->in.number, layout_lanes(&u->in, g), &u->in, flat,
                  task_at(t, u->dx[0], i), g);
    }
}

static fault globalpool_prepare(struct program *p, struct op_unit *u)
{
    flat_reserve(p, layout_width(&u->in) * sizeof(float));
    return OK;
}

static void globalpool_forward(struct program *p, struct op_unit *u)
{
    use_values(p, u);
    job_chunk(p, globalpool_chunk, u);
}

static void globalpool_backward(struct program *p, struct op_unit *u)
{
    use_gradients(p, u);
    job_chunk(p, globalpool_back_chunk, u);
}

const struct op_maker globalpool_maker = {
    .prepare = globalpool_prepare, .forward = globalpool_forward, .backward = globalpool_backward};
