/* norm.c - batchnorm over chunks, with relu folded in, and the add that may follow it.
 *
 *   forward:   each chunk's sums of x - k and (x - k)^2, k its own first pixel (so that nothing cancels)
 *              -> mean and variance over the batch, merged in the chunks' order
 *              -> y = scale x + shift, relu
 *   backward:  g = dy where y > 0; each chunk's sums of g and g (x - mean)
 *              -> d weight, d bias and dx = a g + b x + c with three numbers for each channel
 *
 * Parts of this may be done by an add or by convolutions next to the batchnorm: see fold.c. A convolution's
 * sums are of x and x^2, with 0 for k.
 */
#include <math.h>
#include <string.h>

#include "engine/dnnl/kernels.h"
#include "engine/dnnl/lanes.h"
#include "engine/dnnl/program.h"

/* Vectors with one number for each lane of each group; padding lanes hold zeros. */
enum coefficient { SCALE, SHIFT, MEAN, DEVIATION_INVERSE, BACK_G, BACK_X, BACK_1, N_COEFFICIENTS };
enum sum { SUM_ORIGIN, SUM_1, SUM_2, N_SUMS };

struct norm {
    int coefficients; /* buffer: [N_COEFFICIENTS][width] floats  */
    int sums;         /* buffer: [chunk][N_SUMS][width] doubles  */
    size_t width;
};

static float *coefficient(const struct task *t, const struct norm *n, enum coefficient which)
{
    return (float *)task_kept(t, n->coefficients) + (size_t)which * n->width;
}

static double *sums_of(const struct task *t, const struct norm *n, size_t chunk, enum sum which)
{
    return (double *)task_kept(t, n->sums) + (chunk * N_SUMS + (size_t)which) * n->width;
}

static const float *parameter(const struct task *t, int index)
{
    return t->frame->params + t->program->setup->graph->params[index].offset;
}

struct norm_vectors norm_vectors(const struct task *t, const struct op_unit *norm)
{
    const struct norm *m = norm->own;
    return (struct norm_vectors){coefficient(t, m, SCALE), coefficient(t, m, SHIFT)};
}

struct norm_sums norm_clear_sums(const struct task *t, const struct op_unit *norm)
{
    const struct norm *m = norm->own;
    memset(sums_of(t, m, t->index, SUM_ORIGIN), 0, N_SUMS * m->width * sizeof(double));
    return (struct norm_sums){sums_of(t, m, t->index, SUM_1), sums_of(t, m, t->index, SUM_2)};
}

INLINE void store_sum(double *to, lanes sum, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = sum[i];
}

/* Two sums at a time hide the latency of the additions. */
INLINE void stats_group(const struct layout *l, size_t samples, const void *x, size_t at, double *origin,
                        double *sum, double *squares, enum number number, size_t n)
{
    lanes k = lanes_load(x, at, number, n), s0 = {0}, s1 = {0}, q0 = {0}, q1 = {0};
    for (size_t i = 0; i < samples; i++, at += l->sample_step) {
        size_t p = 0;
        for (; p + 1 < l->pixels; p += 2) {
            lanes v0 = lanes_load(x, at + p * l->pixel_step, number, n) - k;
            lanes v1 = lanes_load(x, at + (p + 1) * l->pixel_step, number, n) - k;
            s0 += v0;
            s1 += v1;
            q0 += v0 * v0;
            q1 += v1 * v1;
        }
        if (p < l->pixels) {
            lanes v = lanes_load(x, at + p * l->pixel_step, number, n) - k;
            s0 += v;
            q0 += v * v;
        }
    }
    store_sum(origin, k, n);
    store_sum(sum, s0 + s1, n);
    store_sum(squares, q0 + q1, n);
}

static void stats_chunk(const struct task *t, const struct op_unit *u)
{
    const struct norm *m = u->own;
    const void *x = task_chunk(t, u->x[0]);
    for (size_t g = 0; g < u->in.groups; g++) {
        double *origin = sums_of(t, m, t->index, SUM_ORIGIN) + g * u->in.lanes;
        double *sum = sums_of(t, m, t->index, SUM_1) + g * u->in.lanes;
        double *squares = sums_of(t, m, t->index, SUM_2) + g * u->in.lanes;
        LANES(stats_group, u->in.number, layout_lanes(&u->in, g), &u->in, t->n, x, g * u->in.group_step,
              origin, sum, squares);
    }
}

static void set_scale_and_shift(const struct task *t, const struct op_unit *u, size_t c, double mean,
                                double variance)
{
    const struct norm *m = u->own;
    double inverse = 1 / sqrt(variance + u->op->eps);
    double scale = parameter(t, u->op->weight)[c] * inverse;
    coefficient(t, m, SCALE)[c] = (float)scale;
    coefficient(t, m, SHIFT)[c] = (float)(parameter(t, u->op->bias)[c] - scale * mean);
    coefficient(t, m, MEAN)[c] = (float)mean;
    coefficient(t, m, DEVIATION_INVERSE)[c] = (float)inverse;
}

static void clear_padding(const struct task *t, const struct norm *m, size_t channels)
{
    for (int k = 0; k < N_COEFFICIENTS; k++)
        for (size_t c = channels; c < m->width; c++)
            coefficient(t, m, (enum coefficient)k)[c] = 0;
}

static size_t chunk_pixels(const struct program *p, size_t chunk, const struct layout *l)
{
    size_t first = chunk * p->chunk;
    return (p->batch - first < p->chunk ? p->batch - first : p->chunk) * l->pixels;
}

/* Mean and sum of squared deviations of all chunks together. */
static void merge_stats(const struct task *t, const struct op_unit *u, size_t c, double *mean,
                        double *squares)
{
    const struct program *p = t->program;
    const struct norm *m = u->own;
    double total = (double)(p->batch * u->in.pixels), sum = 0;
    for (size_t i = 0; i < p->n_chunks; i++)
        sum +=
            sums_of(t, m, i, SUM_ORIGIN)[c] * (double)chunk_pixels(p, i, &u->in) + sums_of(t, m, i, SUM_1)[c];
    *mean = sum / total;
    *squares = 0;
    for (size_t i = 0; i < p->n_chunks; i++) {
        double n = (double)chunk_pixels(p, i, &u->in), s = sums_of(t, m, i, SUM_1)[c];
        double apart = sums_of(t, m, i, SUM_ORIGIN)[c] + s / n - *mean;
        *squares += sums_of(t, m, i, SUM_2)[c] - s * s / n + n * apart * apart;
    }
    if (*squares < 0)
        *squares = 0;
}

static void finish_stats(const struct task *t, const struct op_unit *u)
{
    const struct graph *g = t->program->setup->graph;
    double total = (double)(t->program->batch * u->in.pixels), momentum = u->op->momentum;
    float *running_mean = t->frame->stats + g->stats[u->op->mean].offset;
    float *running_var = t->frame->stats + g->stats[u->op->var].offset;
    for (size_t c = 0; c < u->in.shape.c; c++) {
        double mean, squares;
        merge_stats(t, u, c, &mean, &squares);
        set_scale_and_shift(t, u, c, mean, squares / total);
        double unbiased = total > 1 ? squares / (total - 1) : 0;
        running_mean[c] = (float)((1 - momentum) * running_mean[c] + momentum * mean);
        running_var[c] = (float)((1 - momentum) * running_var[c] + momentum * unbiased);
    }
    clear_padding(t, u->own, u->in.shape.c);
}

/* An exam uses the statistics as they stand. */
static void recall_stats(const struct task *t, const struct op_unit *u)
{
    const struct graph *g = t->program->setup->graph;
    const float *mean = t->frame->stats + g->stats[u->op->mean].offset;
    const float *var = t->frame->stats + g->stats[u->op->var].offset;
    for (size_t c = 0; c < u->in.shape.c; c++)
        set_scale_and_shift(t, u, c, mean[c], var[c]);
    clear_padding(t, u->own, u->in.shape.c);
}

struct apply { /* y = scale x + shift (+ other), relu where asked */
    const struct layout *l;
    size_t samples;
    const void *x, *other;
    void *y;
    bool relu;
};

INLINE void apply_pixels(const struct apply *a, size_t at, lanes scale, lanes shift, bool other, bool relu,
                         enum number number, size_t n)
{
    for (size_t i = 0; i < a->samples; i++, at += a->l->sample_step)
        for (size_t p = 0; p < a->l->pixels; p++) {
            size_t k = at + p * a->l->pixel_step;
            lanes v = lanes_load(a->x, k, number, n) * scale + shift;
            if (other)
                v += lanes_load(a->other, k, number, n);
            lanes_store(a->y, k, relu ? lanes_relu(v) : v, number, n);
        }
}

INLINE void apply_group(const struct apply *a, size_t at, const float *scales, const float *shifts,
                        enum number number, size_t n)
{
    lanes scale = lanes_load(scales, 0, NUMBER_F32, n), shift = lanes_load(shifts, 0, NUMBER_F32, n);
    if (a->other && a->relu)
        apply_pixels(a, at, scale, shift, true, true, number, n);
    else if (a->other)
        apply_pixels(a, at, scale, shift, true, false, number, n);
    else if (a->relu)
        apply_pixels(a, at, scale, shift, false, true, number, n);
    else
        apply_pixels(a, at, scale, shift, false, false, number, n);
}

static void apply(const struct task *t, const struct norm *m, const struct apply *a)
{
    const struct layout *l = a->l;
    for (size_t g = 0; g < l->groups; g++)
        LANES(apply_group, l->number, layout_lanes(l, g), a, g * l->group_step,
              coefficient(t, m, SCALE) + g * l->lanes, coefficient(t, m, SHIFT) + g * l->lanes);
}

static void apply_chunk(const struct task *t, const struct op_unit *u)
{
    struct apply a = {&u->in, t->n, task_chunk(t, u->x[0]), NULL, task_chunk(t, u->y), u->op->relu};
    apply(t, u->own, &a);
}

/* The add's forward: both at once. */
void norm_apply_add_chunk(const struct task *t, const struct op_unit *u)
{
    struct apply a = {
        &u->in,     t->n, task_chunk(t, u->fused->x[0]), task_chunk(t, u->x[1]), task_chunk(t, u->y),
        u->op->relu};
    apply(t, u->fused->own, &a);
}

struct back { /* g = dy where the output was positive; sums of g and g (x - mean) */
    const struct layout *l;
    size_t samples;
    const void *x, *dy;
    const void *y;             /* the output the mask is taken from; NULL: it follows from x */
    void *g;                   /* where g is to be written, or NULL                          */
    const float *coefficients; /* [N_COEFFICIENTS][width], at this group */
    size_t width;
    bool relu;
};

INLINE lanes back_vector(const struct back *b, enum coefficient which, size_t n)
{
    return lanes_load(b->coefficients, (size_t)which * b->width, NUMBER_F32, n);
}

INLINE void back_sums_group(const struct back *b, size_t at, double *sum, double *product, enum number number,
                            size_t n)
{
    lanes scale = back_vector(b, SCALE, n), shift = back_vector(b, SHIFT, n), mean = back_vector(b, MEAN, n);
    lanes s = {0}, q = {0};
    for (size_t i = 0; i < b->samples; i++, at += b->l->sample_step)
        for (size_t p = 0; p < b->l->pixels; p++) {
            size_t k = at + p * b->l->pixel_step;
            lanes x = lanes_load(b->x, k, number, n), g = lanes_load(b->dy, k, number, n);
            if (b->relu)
                g = lanes_where(b->y ? lanes_load(b->y, k, number, n) > 0 : x * scale + shift > 0, g);
            if (b->g)
                lanes_store(b->g, k, g, number, n);
            s += g;
            q += g * (x - mean);
        }
    store_sum(sum, s, n);
    store_sum(product, q, n);
}

static void back_sums(const struct task *t, const struct norm *m, struct back *b)
{
    const struct layout *l = b->l;
    for (size_t g = 0; g < l->groups; g++) {
        b->coefficients = coefficient(t, m, SCALE) + g * l->lanes;
        LANES(back_sums_group, l->number, layout_lanes(l, g), b, g * l->group_step,
              sums_of(t, m, t->index, SUM_1) + g * l->lanes, sums_of(t, m, t->index, SUM_2) + g * l->lanes);
    }
}

static struct back back_of(const struct task *t, const struct op_unit *u)
{
    const struct norm *m = u->own;
    return (struct back){.l = &u->in,
                         .samples = t->n,
                         .x = task_chunk(t, u->x[0]),
                         .dy = task_chunk(t, u->dy),
                         .width = m->width,
                         .relu = u->op->relu};
}

static void back_sums_chunk(const struct task *t, const struct op_unit *u)
{
    const struct norm *m = u->own;
    struct back b = back_of(t, u);
    back_sums(t, m, &b);
}

/* The add's first step back together with the batchnorm's. */
void norm_back_add_chunk(const struct task *t, const struct op_unit *u)
{
    const struct norm *m = u->fused->own;
    struct back b = {.l = &u->in,
                     .samples = t->n,
                     .x = task_chunk(t, u->fused->x[0]),
                     .dy = task_chunk(t, u->dy),
                     .y = task_chunk(t, u->y),
                     .g = u->op->relu ? task_chunk(t, t->program->grads[u->op->out]) : NULL,
                     .width = m->width,
                     .relu = u->op->relu};
    back_sums(t, m, &b);
}

/* With x^ = (x - mean) / deviation over m numbers:
 *   dx = scale (g - d bias / m - x^ d weight / m) = scale g - scale k x + scale (k mean - d bias / m),
 *   k = d weight / (deviation m) */
void norm_finish_back(const struct task *t, const struct op_unit *u)
{
    const struct program *p = t->program;
    const struct norm *m = u->own;
    const struct graph *g = p->setup->graph;
    double total = (double)(p->batch * u->in.pixels);
    for (size_t c = 0; c < u->in.shape.c; c++) {
        double sum = 0, product = 0;
        for (size_t i = 0; i < p->n_chunks; i++) {
            sum += sums_of(t, m, i, SUM_1)[c];
            product += sums_of(t, m, i, SUM_2)[c];
        }
        double inverse = coefficient(t, m, DEVIATION_INVERSE)[c], scale = coefficient(t, m, SCALE)[c];
        double d_weight = product * inverse, k = d_weight * inverse / total;
        t->frame->grads[g->params[u->op->weight].offset + c] = (float)d_weight;
        t->frame->grads[g->params[u->op->bias].offset + c] = (float)sum;
        coefficient(t, m, BACK_G)[c] = (float)scale;
        coefficient(t, m, BACK_X)[c] = (float)(-scale * k);
        coefficient(t, m, BACK_1)[c] = (float)(scale * (k * coefficient(t, m, MEAN)[c] - sum / total));
    }
}

INLINE void back_apply_group(const struct back *b, size_t at, void *dx, enum number number, size_t n)
{
    lanes scale = back_vector(b, SCALE, n), shift = back_vector(b, SHIFT, n),
          of_g = back_vector(b, BACK_G, n), of_x = back_vector(b, BACK_X, n),
          of_1 = back_vector(b, BACK_1, n);
    lane_bits all = {0};
    if (!b->relu)
        all = ~all;
    for (size_t i = 0; i < b->samples; i++, at += b->l->sample_step)
        for (size_t p = 0; p < b->l->pixels; p++) {
            size_t k = at + p * b->l->pixel_step;
            lanes x = lanes_load(b->x, k, number, n);
            lanes g = lanes_where((x * scale + shift > 0) | all, lanes_load(b->dy, k, number, n));
            lanes_store(dx, k, of_g * g + (of_x * x + of_1), number, n);
        }
}

static void back_apply_chunk(const struct task *t, const struct op_unit *u)
{
    const struct norm *m = u->own;
    struct back b = back_of(t, u);
    void *dx = task_chunk(t, u->dx[0]);
    for (size_t g = 0; g < u->in.groups; g++) {
        b.coefficients = coefficient(t, m, SCALE) + g * u->in.lanes;
        LANES(back_apply_group, u->in.number, layout_lanes(&u->in, g), &b, g * u->in.group_step, dx);
    }
}

static fault batchnorm_prepare(struct program *p, struct op_unit *u)
{
    struct norm *m = u->own = ARENA_NEW(&p->arena, struct norm, 1);
    if (!m)
        return OUT_OF_MEMORY;
    m->width = layout_width(&u->in);
    m->coefficients = buffer_keep(p, m->width * N_COEFFICIENTS * sizeof(float));
    m->sums = buffer_keep(p, m->width * N_SUMS * p->n_chunks * sizeof(double));
    if (!p->is_learning)
        job_prepare(p, recall_stats, u);
    return OK;
}

static void batchnorm_forward(struct program *p, struct op_unit *u)
{
    if (p->is_learning) {
        if (!u->folds.is_summed) {
            buffer_use(p, u->x[0]);
            job_chunk(p, u->folds.summed_before ? conv_sums_chunk : stats_chunk, u);
        }
        job_after(p, finish_stats, u);
        phase_end(p);
    }
    if (u->fused || u->folds.is_applied)
        return;
    buffer_use(p, u->x[0]);
    buffer_use(p, u->y);
    job_chunk(p, u->folds.applied_behind ? conv_load_chunk : apply_chunk, u);
}

static void batchnorm_backward(struct program *p, struct op_unit *u)
{
    if (!u->fused) {
        buffer_use(p, u->x[0]);
        buffer_use(p, u->dy);
        job_chunk(p, back_sums_chunk, u);
        job_after(p, norm_finish_back, u);
        u->final_phase = p->n_phases;
    }
    phase_end(p);
    if (!u->wanted[0])
        return;
    buffer_use(p, u->x[0]);
    buffer_use(p, u->dy);
    buffer_use(p, u->dx[0]);
    job_chunk(p, back_apply_chunk, u);
}

const struct op_maker batchnorm_maker = {
    .prepare = batchnorm_prepare, .forward = batchnorm_forward, .backward = batchnorm_backward};
