/* channels.c - ops whose output has their input's channels among others: the residual's shortcut, and concat.
 *
 * Channel c of the input is channel c + before of the output, so a group of one is made of pieces of two groups of the
 * other.
 */
#include "engine/dnnl/kernels.h"
#include "engine/dnnl/lanes.h"

/* Pixel (y, x) of the output is pixel (y, x) * stride of the input. */
struct among {
    const struct layout *in, *out;
    size_t before, stride, n_samples;
};

struct piece { /* lanes that begin at these numbers of a sample */
    size_t in, out;
};

INLINE void copy_piece(const struct among *a, const void *x, void *y, struct piece piece, enum number number,
                       size_t n)
{
    for (size_t i = 0; i < a->n_samples; i++)
        for (size_t row = 0; row < a->out->shape.h; row++) {
            size_t from =
                piece.in + i * a->in->sample_step + row * a->stride * a->in->shape.w * a->in->pixel_step;
            size_t to = piece.out + i * a->out->sample_step + row * a->out->shape.w * a->out->pixel_step;
            for (size_t column = 0; column < a->out->shape.w; column++)
                lanes_store(y, to + column * a->out->pixel_step,
                            lanes_load(x, from + column * a->stride * a->in->pixel_step, number, n), number,
                            n);
        }
}

INLINE void add_piece(const struct among *a, const void *dy, void *dx, struct piece piece, enum number number,
                      size_t n)
{
    for (size_t i = 0; i < a->n_samples; i++)
        for (size_t row = 0; row < a->out->shape.h; row++) {
            size_t to =
                piece.in + i * a->in->sample_step + row * a->stride * a->in->shape.w * a->in->pixel_step;
            size_t from = piece.out + i * a->out->sample_step + row * a->out->shape.w * a->out->pixel_step;
            for (size_t column = 0; column < a->out->shape.w; column++) {
                size_t k = to + column * a->stride * a->in->pixel_step;
                lanes d = lanes_load(dy, from + column * a->out->pixel_step, number, n);
                lanes_store(dx, k, lanes_load(dx, k, number, n) + d, number, n);
            }
        }
}

/* The lanes from channel c on that lie side by side in both. */
static size_t lanes_from(const struct among *a, size_t c, struct piece *piece)
{
    size_t o = c + a->before;
    *piece = (struct piece){c / a->in->lanes * a->in->group_step + c % a->in->lanes,
                            o / a->out->lanes * a->out->group_step + o % a->out->lanes};
    size_t n = smaller(a->in->lanes - c % a->in->lanes, a->out->lanes - o % a->out->lanes);
    return smaller(n, a->in->shape.c - c);
}

static void copy_channels(const struct among *a, const void *x, void *y)
{
    struct piece piece;
    for (size_t c = 0, n; c < a->in->shape.c; c += n) {
        n = lanes_from(a, c, &piece);
        LANES(copy_piece, a->in->number, n, a, x, y, piece);
    }
}

static void add_channels(const struct among *a, const void *dy, void *dx)
{
    struct piece piece;
    for (size_t c = 0, n; c < a->in->shape.c; c += n) {
        n = lanes_from(a, c, &piece);
        LANES(add_piece, a->in->number, n, a, dy, dx, piece);
    }
}

static struct among shortcut_of(const struct task *t, const struct op_unit *u)
{
    return (struct among){&u->in, &u->out, (u->out.shape.c - u->in.shape.c) / 2, u->op->stride, t->n};
}

static void shortcut_chunk(const struct task *t, const struct op_unit *u)
{
    struct among a = shortcut_of(t, u);
    memset(task_chunk(t, u->y), 0, t->n * layout_sample_bytes(&u->out));
    copy_channels(&a, task_chunk(t, u->x[0]), task_chunk(t, u->y));
}

static void shortcut_back_chunk(const struct task *t, const struct op_unit *u)
{
    struct among a = shortcut_of(t, u);
    memset(task_chunk(t, u->dx[0]), 0, t->n * layout_sample_bytes(&u->in));
    add_channels(&a, task_chunk(t, u->dy), task_chunk(t, u->dx[0]));
}

static void shortcut_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
    job_chunk(p, shortcut_chunk, u);
}

static void shortcut_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    job_chunk(p, shortcut_back_chunk, u);
}

const struct op_maker shortcut_maker = {.forward = shortcut_forward, .backward = shortcut_backward};

/* Input k among the channels of a concat's output. */
static struct among joined(const struct task *t, const struct op_unit *u, int k)
{
    const struct layout *l = &t->program->layouts[u->op->in[k]];
    return (struct among){l, &u->out, k ? u->in.shape.c : 0, 1, t->n};
}

static bool has_padding(const struct layout *l)
{
    return layout_stored(l) > l->shape.c;
}

static void concat_chunk(const struct task *t, const struct op_unit *u)
{
    if (has_padding(&u->out))
        memset(task_chunk(t, u->y), 0, t->n * layout_sample_bytes(&u->out));
    for (int k = 0; k < 2; k++) {
        struct among a = joined(t, u, k);
        copy_channels(&a, task_chunk(t, u->x[k]), task_chunk(t, u->y));
    }
}

/* What lies in dx before this gradient is added to it. */
static void begin_gradient(const struct task *t, const struct op_unit *u, int k, size_t n_bytes)
{
    void *dx = task_chunk(t, u->dx[k]);
    if (!u->adds[k])
        memset(dx, 0, n_bytes);
    else if (u->prior[k] != u->dx[k])
        memcpy(dx, task_chunk(t, u->prior[k]), n_bytes);
}

/* In turn: both inputs may be the same tensor. */
static void concat_back_chunk(const struct task *t, const struct op_unit *u)
{
    for (int k = 0; k < 2; k++) {
        if (!u->wanted[k])
            continue;
        struct among a = joined(t, u, k);
        begin_gradient(t, u, k, t->n * layout_sample_bytes(a.in));
        add_channels(&a, task_chunk(t, u->dy), task_chunk(t, u->dx[k]));
    }
}

static void concat_forward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->x[0]);
    buffer_use(p, u->x[1]);
    buffer_use(p, u->y);
    job_chunk(p, concat_chunk, u);
}

static void concat_backward(struct program *p, struct op_unit *u)
{
    buffer_use(p, u->dy);
    for (int k = 0; k < 2; k++) {
        buffer_use(p, u->prior[k]);
        buffer_use(p, u->dx[k]);
    }
    job_chunk(p, concat_back_chunk, u);
}

const struct op_maker concat_maker = {.forward = concat_forward, .backward = concat_backward, .takes_prior = true};
