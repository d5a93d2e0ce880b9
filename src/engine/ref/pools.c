/* pools.c - the ops that make fewer pixels: max, mean and global pooling, the residual's shortcut. */
#include <math.h>

#include "engine/ref/ref.h"

/* The stretch of input pixels under window y along one side, cut at the picture's edges. */
struct stretch {
    size_t first, end;
};

static struct stretch window_side(const struct op *op, size_t y, size_t side)
{
    size_t first = y * op->stride, end = first + op->kernel; /* counted from the padding's edge */
    return (struct stretch){first < op->pad ? 0 : first - op->pad,
                            end - op->pad < side ? end - op->pad : side};
}

/* Where windows overlap a pixel's gradient is a sum, so it starts from zero. */
static void clear_unless_adding(struct ref_call *c)
{
    for (size_t i = 0; !c->adds[0] && i < c->batch * shape_size(c->in); i++)
        c->dx[0][i] = 0;
}

typedef void window_fn(struct ref_call *c, size_t plane, struct stretch y, struct stretch x, size_t out);

/* Calls fn for every window of every channel; `plane` is the index of the channel's first pixel. */
static void each_window(struct ref_call *c, window_fn *fn)
{
    size_t out = 0;
    for (size_t i = 0; i < c->batch * c->in.c; i++)
        for (size_t y = 0; y < c->out.h; y++)
            for (size_t x = 0; x < c->out.w; x++, out++)
                fn(c, i * c->in.h * c->in.w, window_side(c->op, y, c->in.h), window_side(c->op, x, c->in.w),
                   out);
}

static size_t largest_in_window(const struct ref_call *c, size_t plane, struct stretch y, struct stretch x)
{
    size_t best = plane + y.first * c->in.w + x.first;
    for (size_t i = y.first; i < y.end; i++)
        for (size_t j = x.first; j < x.end; j++)
            if (c->x[0][plane + i * c->in.w + j] > c->x[0][best])
                best = plane + i * c->in.w + j;
    return best;
}

static void max_window(struct ref_call *c, size_t plane, struct stretch y, struct stretch x, size_t out)
{
    c->y[out] = c->x[0][largest_in_window(c, plane, y, x)];
}

static void max_window_back(struct ref_call *c, size_t plane, struct stretch y, struct stretch x, size_t out)
{
    c->dx[0][largest_in_window(c, plane, y, x)] += c->dy[out];
}

static void maxpool_forward(struct ref_call *c)
{
    each_window(c, max_window);
}

static void maxpool_backward(struct ref_call *c)
{
    clear_unless_adding(c);
    each_window(c, max_window_back);
}

const struct ref_row ref_maxpool = {maxpool_forward, maxpool_backward};

static double window_area(const struct ref_call *c)
{
    return (double)(c->op->kernel * c->op->kernel);
}

static void mean_window(struct ref_call *c, size_t plane, struct stretch y, struct stretch x, size_t out)
{
    double sum = 0;
    for (size_t i = y.first; i < y.end; i++)
        for (size_t j = x.first; j < x.end; j++)
            sum += c->x[0][plane + i * c->in.w + j];
    c->y[out] = (real)(sum / window_area(c));
}

static void mean_window_back(struct ref_call *c, size_t plane, struct stretch y, struct stretch x, size_t out)
{
    for (size_t i = y.first; i < y.end; i++)
        for (size_t j = x.first; j < x.end; j++)
            c->dx[0][plane + i * c->in.w + j] += (real)(c->dy[out] / window_area(c));
}

static void avgpool_forward(struct ref_call *c)
{
    each_window(c, mean_window);
}

static void avgpool_backward(struct ref_call *c)
{
    clear_unless_adding(c);
    each_window(c, mean_window_back);
}

const struct ref_row ref_avgpool = {avgpool_forward, avgpool_backward};

static void globalpool_forward(struct ref_call *c)
{
    size_t pixels = c->in.h * c->in.w;
    for (size_t i = 0; i < c->batch * c->in.c; i++) {
        double sum = 0;
        for (size_t k = 0; k < pixels; k++)
            sum += c->x[0][i * pixels + k];
        c->y[i] = (real)(sum / (double)pixels);
    }
}

static void globalpool_backward(struct ref_call *c)
{
    size_t pixels = c->in.h * c->in.w;
    for (size_t i = 0; i < c->batch * shape_size(c->in); i++)
        ref_put(c, 0, i, c->dy[i / pixels] / (double)pixels);
}

const struct ref_row ref_globalpool = {globalpool_forward, globalpool_backward};

/* Channels of the output before the input's first one. */
static size_t channels_before(const struct ref_call *c)
{
    return (c->out.c - c->in.c) / 2;
}

static void shortcut_forward(struct ref_call *c)
{
    size_t before = channels_before(c);
    for (size_t n = 0; n < c->batch; n++)
        for (size_t o = 0; o < c->out.c; o++)
            for (size_t y = 0; y < c->out.h; y++)
                for (size_t x = 0; x < c->out.w; x++) {
                    bool old = o >= before && o - before < c->in.c;
                    size_t iy = y * c->op->stride, ix = x * c->op->stride;
                    c->y[ref_at(c->out, n, o, y, x)] =
                        old ? c->x[0][ref_at(c->in, n, o - before, iy, ix)] : 0;
                }
}

static void shortcut_backward(struct ref_call *c)
{
    size_t stride = c->op->stride;
    for (size_t n = 0; n < c->batch; n++)
        for (size_t i = 0; i < c->in.c; i++)
            for (size_t y = 0; y < c->in.h; y++)
                for (size_t x = 0; x < c->in.w; x++) {
                    bool taken = y % stride == 0 && x % stride == 0;
                    size_t from = ref_at(c->out, n, i + channels_before(c), y / stride, x / stride);
                    ref_put(c, 0, ref_at(c->in, n, i, y, x), taken ? c->dy[from] : 0);
                }
}

const struct ref_row ref_shortcut = {shortcut_forward, shortcut_backward};
