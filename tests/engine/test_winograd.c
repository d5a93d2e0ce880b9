/* The Winograd kernels against convolutions written as seven loops in double precision. */
#include "engine/dnnl/winograd.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/isa.h"
#include "base/rng.h"

enum { LANES = 16 };
#define CLOSE_ENOUGH 1e-5

/* Sizes that meet every edge: whole and broken tiles, one tile, one row, groups that end in the middle of a
 * sample, odd counts of channel blocks, every padding. */
static const struct winograd CASES[] = {
    {.n = 2, .c = 16, .k = 16, .h = 32, .w = 32, .pad = 1},
    {.n = 3, .c = 32, .k = 32, .h = 16, .w = 16, .pad = 1},
    {.n = 9, .c = 64, .k = 64, .h = 8, .w = 8, .pad = 1},
    {.n = 3, .c = 32, .k = 64, .h = 14, .w = 14, .pad = 0},
    {.n = 1, .c = 16, .k = 32, .h = 3, .w = 3, .pad = 0},
    {.n = 1, .c = 32, .k = 16, .h = 1, .w = 1, .pad = 1},
    {.n = 2, .c = 48, .k = 16, .h = 5, .w = 9, .pad = 1},
    {.n = 2, .c = 16, .k = 48, .h = 7, .w = 6, .pad = 0},
    {.n = 1, .c = 16, .k = 16, .h = 1, .w = 13, .pad = 1},
    {.n = 1, .c = 16, .k = 16, .h = 11, .w = 2, .pad = 2},
    {.n = 1, .c = 128, .k = 96, .h = 6, .w = 5, .pad = 1},
    {.n = 5, .c = 32, .k = 32, .h = 4, .w = 4, .pad = 1},
};
enum { N_CASES = sizeof CASES / sizeof CASES[0] };

/* One convolution's tensors: the images plain, [n][channels][h][w], in double. */
struct trial {
    struct winograd s;
    size_t out_h, out_w;
    double *x, *dy, *w;    /* given    */
    double *y, *dx, *dw;   /* expected */
    double *scale, *shift; /* [c]      */
    float *u, *scratch, *flat;
};

static void *take(size_t n, size_t size)
{
    size_t n_bytes = (n * size + 63) / 64 * 64;
    void *p = aligned_alloc(64, n_bytes);
    assert_non_null(p);
    memset(p, 0, n_bytes);
    return p;
}

static double *numbers(struct rng *r, size_t n)
{
    double *d = take(n, sizeof *d);
    for (size_t i = 0; i < n; i++)
        d[i] = (float)rng_normal(r);
    return d;
}

static size_t n_x(const struct trial *t)
{
    return t->s.n * t->s.c * t->s.h * t->s.w;
}

static size_t n_y(const struct trial *t)
{
    return t->s.n * t->s.k * t->out_h * t->out_w;
}

static size_t n_w(const struct trial *t)
{
    return t->s.k * t->s.c * 9;
}

/* y = x * w, dx and dw: every product of the convolution visited once. */
static void convolve_plainly(struct trial *t)
{
    const struct winograd *s = &t->s;
    for (size_t n = 0; n < s->n; n++)
        for (size_t k = 0; k < s->k; k++)
            for (size_t c = 0; c < s->c; c++)
                for (size_t oy = 0; oy < t->out_h; oy++)
                    for (size_t ox = 0; ox < t->out_w; ox++)
                        for (size_t tap = 0; tap < 9; tap++) {
                            size_t iy = oy + tap / 3 - s->pad,
                                   ix = ox + tap % 3 - s->pad; /* wrap where negative */
                            if (iy >= s->h || ix >= s->w)
                                continue;
                            size_t in = ((n * s->c + c) * s->h + iy) * s->w + ix;
                            size_t out = ((n * s->k + k) * t->out_h + oy) * t->out_w + ox;
                            size_t weight = (k * s->c + c) * 9 + tap;
                            t->y[out] += t->x[in] * t->w[weight];
                            t->dx[in] += t->dy[out] * t->w[weight];
                            t->dw[weight] += t->x[in] * t->dy[out];
                        }
}

static float *to_floats(const double *from, size_t n)
{
    float *to = take(n, sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = (float)from[i];
    return to;
}

/* [n][channels][plane] <-> [n][channels / 16][plane][16] */
static size_t blocked_index(size_t i, size_t channels, size_t plane)
{
    size_t n = i / (channels * plane), c = i / plane % channels, at = i % plane;
    return ((n * channels / LANES + c / LANES) * plane + at) * LANES + c % LANES;
}

static float *to_blocked(const double *from, size_t n, size_t channels, size_t plane)
{
    float *to = take(n, sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[blocked_index(i, channels, plane)] = (float)from[i];
    return to;
}

static double blocked_error(const float *got, const double *expected, size_t n, size_t channels, size_t plane)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double d = got[blocked_index(i, channels, plane)] - expected[i];
        off += d * d;
        all += expected[i] * expected[i];
    }
    return sqrt(off / all);
}

static double flat_error(const float *got, const double *expected, size_t n)
{
    return blocked_error(got, expected, n, LANES, 1); /* blocks of 16 channels of one pixel lie as they are */
}

static float *blocked_x(const struct trial *t, const double *x)
{
    return to_blocked(x, n_x(t), t->s.c, t->s.h * t->s.w);
}

static float *blocked_y(const struct trial *t, const double *y)
{
    return to_blocked(y, n_y(t), t->s.k, t->out_h * t->out_w);
}

static void trial_init(struct trial *t, const struct winograd *sizes, uint64_t seed)
{
    struct rng r = rng_stream(seed, 0, RNG_TEST, 0);
    *t = (struct trial){.s = *sizes};
    t->out_h = sizes->h + 2 * sizes->pad - 2;
    t->out_w = sizes->w + 2 * sizes->pad - 2;
    t->x = numbers(&r, n_x(t));
    t->dy = numbers(&r, n_y(t));
    t->w = numbers(&r, n_w(t));
    t->scale = numbers(&r, sizes->c);
    t->shift = numbers(&r, sizes->c);
    t->y = take(n_y(t), sizeof(double));
    t->dx = take(n_x(t), sizeof(double));
    t->dw = take(n_w(t), sizeof(double));
    t->u = take(winograd_weights_bytes(sizes), 1);
    t->scratch = take(winograd_scratch_bytes(sizes), 1);
    t->flat = to_floats(t->w, n_w(t));
}

static void trial_release(struct trial *t)
{
    void *all[] = {t->x, t->dy, t->w, t->scale, t->shift, t->y, t->dx, t->dw, t->u, t->scratch, t->flat};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* The input after the affine map and ReLU, as a batchnorm would have left it. */
static double *activated(const struct trial *t)
{
    double *a = take(n_x(t), sizeof *a);
    for (size_t i = 0; i < n_x(t); i++) {
        size_t c = i / (t->s.h * t->s.w) % t->s.c;
        a[i] = fmax(0, t->x[i] * (float)t->scale[c] + (float)t->shift[c]);
    }
    return a;
}

static void assert_close(double error, const char *what, const struct winograd *s)
{
    if (!(error < CLOSE_ENOUGH))
        fail_msg("%s is off by %g: %zu samples, %zu -> %zu channels, %zu x %zu, padding %zu", what, error,
                 s->n, s->c, s->k, s->h, s->w, s->pad);
}

static void the_forward_pass_is_the_convolution(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        struct trial t;
        trial_init(&t, &CASES[i], i);
        convolve_plainly(&t);
        float *x = blocked_x(&t, t.x), *y = take(n_y(&t), sizeof *y);
        winograd_weights_forward(&t.s, t.flat, t.u);
        winograd_forward(&t.s, NULL, x, t.u, y, NULL, t.scratch);
        assert_close(blocked_error(y, t.y, n_y(&t), t.s.k, t.out_h * t.out_w), "y", &t.s);
        free(x);
        free(y);
        trial_release(&t);
    }
}

static void the_data_gradient_is_the_adjoint(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        struct trial t;
        trial_init(&t, &CASES[i], 100 + i);
        convolve_plainly(&t);
        float *dy = blocked_y(&t, t.dy), *dx = take(n_x(&t), sizeof *dx);
        winograd_weights_backward(&t.s, t.flat, t.u);
        winograd_backward_data(&t.s, NULL, dy, t.u, dx, NULL, t.scratch);
        assert_close(blocked_error(dx, t.dx, n_x(&t), t.s.c, t.s.h * t.s.w), "dx", &t.s);
        free(dy);
        free(dx);
        trial_release(&t);
    }
}

static void the_weight_gradient_is_written_flat(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        struct trial t;
        trial_init(&t, &CASES[i], 200 + i);
        convolve_plainly(&t);
        float *x = blocked_x(&t, t.x), *dy = blocked_y(&t, t.dy), *dw = take(n_w(&t), sizeof *dw);
        memset(dw, 0xff, n_w(&t) * sizeof *dw); /* what was there must not matter */
        winograd_backward_weights(&t.s, NULL, x, NULL, dy, false, dw, t.scratch);
        assert_close(flat_error(dw, t.dw, n_w(&t)), "dw", &t.s);
        free(x);
        free(dy);
        free(dw);
        trial_release(&t);
    }
}

static void a_weight_gradient_may_be_added_to_another(void **state)
{
    (void)state;
    struct trial t;
    trial_init(&t, &CASES[1], 300);
    convolve_plainly(&t);
    float *x = blocked_x(&t, t.x), *dy = blocked_y(&t, t.dy), *dw = to_floats(t.w, n_w(&t));
    for (size_t i = 0; i < n_w(&t); i++)
        t.dw[i] += t.w[i];
    winograd_backward_weights(&t.s, NULL, x, NULL, dy, true, dw, t.scratch);
    assert_close(flat_error(dw, t.dw, n_w(&t)), "dw", &t.s);
    free(x);
    free(dy);
    free(dw);
    trial_release(&t);
}

static void a_batchnorm_may_be_applied_while_the_input_is_loaded(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        struct trial t;
        trial_init(&t, &CASES[i], 400 + i);
        float *raw = blocked_x(&t, t.x), *dy = blocked_y(&t, t.dy);
        float *scale = to_floats(t.scale, t.s.c), *shift = to_floats(t.shift, t.s.c);
        double *a = activated(&t), *x = t.x;
        t.x = a;
        convolve_plainly(&t);
        t.x = x;
        struct winograd_load load = {.scale = scale, .shift = shift};
        float *y = take(n_y(&t), sizeof *y), *dw = take(n_w(&t), sizeof *dw);
        winograd_weights_forward(&t.s, t.flat, t.u);
        winograd_forward(&t.s, &load, raw, t.u, y, NULL, t.scratch);
        assert_close(blocked_error(y, t.y, n_y(&t), t.s.k, t.out_h * t.out_w), "y of the activated input",
                     &t.s);
        winograd_backward_weights(&t.s, &load, raw, NULL, dy, false, dw, t.scratch);
        assert_close(flat_error(dw, t.dw, n_w(&t)), "dw of the activated input", &t.s);
        void *all[] = {raw, dy, scale, shift, a, y, dw};
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            free(all[j]);
        trial_release(&t);
    }
}

static void the_sums_a_batchnorm_needs_are_added_up_on_the_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        struct trial t;
        trial_init(&t, &CASES[i], 500 + i);
        convolve_plainly(&t);
        double *sum = take(t.s.k, sizeof *sum), *squares = take(t.s.k, sizeof *squares);
        for (size_t k = 0; k < t.s.k; k++)
            sum[k] = squares[k] = 1000; /* added to, not overwritten */
        struct winograd_store store = {.sum = sum, .products = squares};
        float *x = blocked_x(&t, t.x), *y = take(n_y(&t), sizeof *y);
        winograd_weights_forward(&t.s, t.flat, t.u);
        winograd_forward(&t.s, NULL, x, t.u, y, &store, t.scratch);
        assert_close(blocked_error(y, t.y, n_y(&t), t.s.k, t.out_h * t.out_w), "y beside its sums", &t.s);
        for (size_t j = 0; j < n_y(&t); j++) {
            size_t k = j / (t.out_h * t.out_w) % t.s.k;
            sum[k] -= t.y[j];
            squares[k] -= t.y[j] * t.y[j];
        }
        double scale = sqrt((double)n_y(&t) / (double)t.s.k * (double)t.s.c * 9);
        for (size_t k = 0; k < t.s.k; k++) {
            assert_true(fabs(sum[k] - 1000) < 1e-4 * scale);
            assert_true(fabs(squares[k] - 1000) < 1e-4 * scale * scale);
        }
        void *all[] = {sum, squares, x, y};
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            free(all[j]);
        trial_release(&t);
    }
}

/* The gradient of a batchnorm, dy * scale + other * other_scale + shift, as both backward passes load it. */
static void a_batchnorms_gradient_may_be_made_while_dy_is_loaded(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        struct trial t;
        trial_init(&t, &CASES[i], 600 + i);
        struct rng r = rng_stream(i, 1, RNG_TEST, 0);
        double *part[4] = {numbers(&r, n_y(&t)), numbers(&r, t.s.k), numbers(&r, t.s.k), numbers(&r, t.s.k)};
        float *g = blocked_y(&t, t.dy), *other = blocked_y(&t, part[0]);
        float *scale = to_floats(part[1], t.s.k), *other_scale = to_floats(part[2], t.s.k);
        float *shift = to_floats(part[3], t.s.k);
        for (size_t j = 0; j < n_y(&t); j++) {
            size_t k = j / (t.out_h * t.out_w) % t.s.k;
            t.dy[j] = t.dy[j] * part[1][k] + part[0][j] * part[2][k] + part[3][k];
        }
        convolve_plainly(&t);
        struct winograd_load load = {
            .scale = scale, .shift = shift, .other = other, .other_scale = other_scale};
        float *x = blocked_x(&t, t.x), *dx = take(n_x(&t), sizeof *dx), *dw = take(n_w(&t), sizeof *dw);
        winograd_weights_backward(&t.s, t.flat, t.u);
        winograd_backward_data(&t.s, &load, g, t.u, dx, NULL, t.scratch);
        assert_close(blocked_error(dx, t.dx, n_x(&t), t.s.c, t.s.h * t.s.w), "dx of a batchnorm's gradient",
                     &t.s);
        winograd_backward_weights(&t.s, NULL, x, &load, g, false, dw, t.scratch);
        assert_close(flat_error(dw, t.dw, n_w(&t)), "dw of a batchnorm's gradient", &t.s);
        void *all[] = {part[0], part[1], part[2], part[3], g, other, scale, other_scale, shift, x, dx, dw};
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            free(all[j]);
        trial_release(&t);
    }
}

/* dx + add, where the gate lets it through, and its sums, for every way of asking: bits of `way` are add,
 * gate, the gate's batchnorm, sums, times. */
static void check_store(size_t i, unsigned way)
{
    struct trial t;
    trial_init(&t, &CASES[i], 700 + i);
    convolve_plainly(&t);
    struct rng r = rng_stream(i, 2, RNG_TEST, 0);
    double *part[3] = {numbers(&r, n_x(&t)), numbers(&r, n_x(&t)), numbers(&r, n_x(&t))};
    float *images[3] = {blocked_x(&t, part[0]), blocked_x(&t, part[1]), blocked_x(&t, part[2])};
    float *scale = to_floats(t.scale, t.s.c), *shift = to_floats(t.shift, t.s.c);
    double *sum = take(t.s.c, sizeof *sum), *products = take(t.s.c, sizeof *products);
    struct winograd_store store = {.add = way & 1 ? images[0] : NULL,
                                   .gate = way & 2 ? images[1] : NULL,
                                   .gate_scale = way & 4 ? scale : NULL,
                                   .gate_shift = way & 4 ? shift : NULL,
                                   .sum = way & 8 ? sum : NULL,
                                   .products = way & 8 ? products : NULL,
                                   .times = way & 16 ? images[2] : NULL};
    float *dy = blocked_y(&t, t.dy), *dx = take(n_x(&t), sizeof *dx);
    winograd_weights_backward(&t.s, t.flat, t.u);
    winograd_backward_data(&t.s, NULL, dy, t.u, dx, &store, t.scratch);
    size_t plane = t.s.h * t.s.w;
    for (size_t j = 0; j < n_x(&t); j++) {
        size_t c = j / plane % t.s.c;
        double gate = way & 4 ? part[1][j] * t.scale[c] + t.shift[c] : part[1][j];
        t.dx[j] += way & 1 ? part[0][j] : 0;
        t.dx[j] = way & 2 && gate <= 0 ? 0 : t.dx[j];
        sum[c] -= way & 8 ? t.dx[j] : 0;
        products[c] -= way & 8 ? t.dx[j] * (way & 16 ? part[2][j] : t.dx[j]) : 0;
    }
    assert_close(blocked_error(dx, t.dx, n_x(&t), t.s.c, plane), "dx as it was to be stored", &t.s);
    double scale_of_sums = sqrt((double)(t.s.n * plane) * (double)t.s.k * 9);
    for (size_t c = 0; c < t.s.c; c++) {
        assert_true(fabs(sum[c]) < 1e-4 * scale_of_sums);
        assert_true(fabs(products[c]) < 1e-4 * scale_of_sums * scale_of_sums);
    }
    void *all[] = {part[0], part[1], part[2], images[0], images[1], images[2],
                   scale,   shift,   sum,     products,  dy,        dx};
    for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
        free(all[j]);
    trial_release(&t);
}

static void what_follows_on_the_way_back_may_be_done_while_dx_is_stored(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 32; way++)
        check_store(6, way);
    for (size_t i = 0; i < N_CASES; i++)
        check_store(i, 31);
}

static void a_sample_gets_the_same_bits_in_any_company(void **state)
{
    (void)state;
    struct trial t;
    trial_init(&t, &CASES[2], 600);
    float *x = blocked_x(&t, t.x), *together = take(n_y(&t), sizeof(float)),
          *apart = take(n_y(&t), sizeof(float));
    winograd_weights_forward(&t.s, t.flat, t.u);
    winograd_forward(&t.s, NULL, x, t.u, together, NULL, t.scratch);
    struct winograd one = t.s;
    one.n = 1;
    for (size_t n = 0; n < t.s.n; n++)
        winograd_forward(&one, NULL, x + n * (n_x(&t) / t.s.n), t.u, apart + n * (n_y(&t) / t.s.n), NULL,
                         t.scratch);
    assert_memory_equal(together, apart, n_y(&t) * sizeof(float));
    free(x);
    free(together);
    free(apart);
    trial_release(&t);
}

static void the_same_call_gives_the_same_bits_whatever_the_scratch_held(void **state)
{
    (void)state;
    struct trial t;
    trial_init(&t, &CASES[6], 700);
    float *x = blocked_x(&t, t.x), *dy = blocked_y(&t, t.dy);
    float *first = take(n_w(&t), sizeof(float)), *again = take(n_w(&t), sizeof(float));
    winograd_backward_weights(&t.s, NULL, x, NULL, dy, false, first, t.scratch);
    memset(t.scratch, 0xff, winograd_scratch_bytes(&t.s)); /* not-a-numbers */
    winograd_backward_weights(&t.s, NULL, x, NULL, dy, false, again, t.scratch);
    assert_memory_equal(first, again, n_w(&t) * sizeof(float));
    free(x);
    free(dy);
    free(first);
    free(again);
    trial_release(&t);
}

static void a_number_that_is_none_is_not_hidden_by_relu(void **state)
{
    (void)state;
    struct trial t;
    trial_init(&t, &CASES[11], 900);
    float *x = blocked_x(&t, t.x), *y = take(n_y(&t), sizeof *y);
    float *scale = to_floats(t.scale, t.s.c), *shift = to_floats(t.shift, t.s.c);
    struct winograd_load load = {.scale = scale, .shift = shift};
    x[0] = NAN;
    winograd_weights_forward(&t.s, t.flat, t.u);
    winograd_forward(&t.s, &load, x, t.u, y, NULL, t.scratch);
    assert_true(isnan(y[0]));
    assert_false(isnan(y[n_y(&t) - 1]));
    void *all[] = {x, y, scale, shift};
    for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
        free(all[j]);
    trial_release(&t);
}

static void sizes_beyond_the_kernels_are_refused(void **state)
{
    (void)state;
    struct winograd good = CASES[0], s;
    assert_true(winograd_supported(&good));
    s = good, s.c = 3;
    assert_false(winograd_supported(&s));
    s = good, s.k = 24;
    assert_false(winograd_supported(&s));
    s = good, s.pad = 3;
    assert_false(winograd_supported(&s));
    s = good, s.h = 2, s.pad = 0;
    assert_false(winograd_supported(&s));
    s = good, s.n = 0;
    assert_false(winograd_supported(&s));
}

int main(void)
{
    if (isa_of_processor() < ISA_avx512) {
        printf("SKIPPED: this processor has no AVX-512\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_forward_pass_is_the_convolution),
        cmocka_unit_test(the_data_gradient_is_the_adjoint),
        cmocka_unit_test(the_weight_gradient_is_written_flat),
        cmocka_unit_test(a_weight_gradient_may_be_added_to_another),
        cmocka_unit_test(a_batchnorm_may_be_applied_while_the_input_is_loaded),
        cmocka_unit_test(the_sums_a_batchnorm_needs_are_added_up_on_the_way),
        cmocka_unit_test(a_batchnorms_gradient_may_be_made_while_dy_is_loaded),
        cmocka_unit_test(what_follows_on_the_way_back_may_be_done_while_dx_is_stored),
        cmocka_unit_test(a_sample_gets_the_same_bits_in_any_company),
        cmocka_unit_test(the_same_call_gives_the_same_bits_whatever_the_scratch_held),
        cmocka_unit_test(a_number_that_is_none_is_not_hidden_by_relu),
        cmocka_unit_test(sizes_beyond_the_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
