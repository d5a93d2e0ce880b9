/* winograd_gradient.c - the gradient of the weights.
 *
 *   for each group of tiles:  V = B' d B and M = A dY A' of every tile
 *                             dU += V' M at each of the 36 positions, [c x tiles] times [tiles x k]
 *   at the end of the call:   dg = G' dU G
 */
#include "engine/dnnl/winograd.h"

#include "engine/dnnl/winograd_tiles.h"

enum {
    GROUP = 64,                 /* most tiles transformed together                         */
    SLOT = (GROUP + 1) * LANES, /* floats; odd in cache lines, so that slots share no sets */
    BLOCK = POSITIONS * SLOT,   /* the slots of one channel block                          */
};

struct sweep {
    struct image x, dy;
    ptrdiff_t pad;
    float *du;    /* [36][c][k]                                */
    float *v, *m; /* [c / 16][36][GROUP], [k / 16][36][GROUP] vectors, with a gap after each slot */
};

/* dU is read and written once for each group, so groups are large; where there are many channels, half as
 * large, to stay in the second-level cache. */
static size_t group_for(size_t c, size_t k)
{
    return c * k > LANES * LANES ? GROUP / 2 : GROUP;
}

size_t winograd_scratch_bytes(const struct winograd *s)
{
    size_t here = (POSITIONS * position_stride(s->c, s->k) + (s->c + s->k) / LANES * BLOCK) * sizeof(float);
    size_t there = winograd_convolve_bytes(s);
    return here > there ? here : there;
}

ALWAYS_INLINE void gradient_blocks(enum loading loading, const struct image *dy, const struct window *win,
                                   size_t sample, float *m)
{
    for (size_t k = 0; k < dy->channels; k += LANES, m += BLOCK) {
        struct view view = view_of(loading, dy, win, sample, k, TILE);
        gradient_tile(loading, &view, m, SLOT);
    }
}

static struct tile transform_inputs(const struct sweep *s, struct tile at, size_t n_tiles)
{
    enum loading loading = loading_of(s->x.load);
    float *v = s->v;
    for (size_t t = 0; t < n_tiles; t++, v += LANES, at = next_tile(at, s->dy.h, s->dy.w)) {
        struct window win =
            window_at(s->x.h, s->x.w, (ptrdiff_t)at.y - s->pad, (ptrdiff_t)at.x - s->pad, WINDOW);
        switch (loading) {
        case RAW:
            input_blocks(RAW, &s->x, &win, at.sample, v, SLOT, BLOCK);
            break;
        case RELU:
            input_blocks(RELU, &s->x, &win, at.sample, v, SLOT, BLOCK);
            break;
        case PAIR:
            input_blocks(PAIR, &s->x, &win, at.sample, v, SLOT, BLOCK);
            break;
        }
    }
    return at;
}

static void transform_gradients(const struct sweep *s, struct tile at, size_t n_tiles)
{
    enum loading loading = loading_of(s->dy.load);
    float *m = s->m;
    for (size_t t = 0; t < n_tiles; t++, m += LANES, at = next_tile(at, s->dy.h, s->dy.w)) {
        struct window win = window_at(s->dy.h, s->dy.w, (ptrdiff_t)at.y, (ptrdiff_t)at.x, TILE);
        switch (loading) {
        case RAW:
            gradient_blocks(RAW, &s->dy, &win, at.sample, m);
            break;
        case RELU:
            gradient_blocks(RELU, &s->dy, &win, at.sample, m);
            break;
        case PAIR:
            gradient_blocks(PAIR, &s->dy, &win, at.sample, m);
            break;
        }
    }
}

/* `rows` input channels by `vectors` x 16 output channels of one position, summed over the group's tiles. */
ALWAYS_INLINE void gather_block(const int rows, const int vectors, size_t n_tiles, bool first, const float *v,
                                const float *m, float *du, size_t k)
{
    __m512 sum[LANES];
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = _mm512_setzero_ps();
    for (size_t t = 0; t < n_tiles; t++, v += LANES, m += LANES) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m512 value = _mm512_set1_ps(v[r]);
            UNROLL
            for (int j = 0; j < vectors; j++)
                sum[r * vectors + j] =
                    _mm512_fmadd_ps(value, _mm512_load_ps(m + j * BLOCK), sum[r * vectors + j]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * vectors; i++) {
        float *to = du + (size_t)(i / vectors) * k + i % vectors * LANES;
        _mm512_store_ps(to, first ? sum[i] : _mm512_add_ps(_mm512_load_ps(to), sum[i]));
    }
}

static void gather_position(const struct sweep *s, size_t p, size_t n_tiles, bool first)
{
    size_t c = s->x.channels, k = s->dy.channels;
    float *du = s->du + p * position_stride(c, k);
    for (size_t cb = 0; cb < c / LANES; cb++) {
        const float *v = s->v + cb * BLOCK + p * SLOT;
        for (size_t kb = 0; kb < k / LANES; kb += 2) {
            const float *m = s->m + kb * BLOCK + p * SLOT;
            float *to = du + (cb * k + kb) * LANES;
            if (kb + 1 < k / LANES) {
                gather_block(8, 2, n_tiles, first, v, m, to, k);
                gather_block(8, 2, n_tiles, first, v + 8, m, to + 8 * k, k);
            } else {
                gather_block(16, 1, n_tiles, first, v, m, to, k);
            }
        }
    }
}

/* dU += V' M at every position. At each, two tiles of the next group are prefetched. */
static void gather(const struct sweep *s, struct tile ahead, size_t n, size_t n_tiles, bool first)
{
    for (size_t p = 0; p < POSITIONS; p++) {
        for (size_t t = 2 * p; t < 2 * p + 2 && t < n_tiles && ahead.sample < n; t++) {
            prefetch_input(&s->x, ahead);
            prefetch_input(&s->dy, ahead);
            ahead = next_tile(ahead, s->dy.h, s->dy.w);
        }
        gather_position(s, p, n_tiles, first);
    }
}

/* G' dU G of one input channel and sixteen output channels, whose nine taps begin `step` floats apart. */
static void finish_filters(const float *du, size_t stride, bool add, float *filters, size_t step)
{
    __m512 columns[6][3], taps[LANES] = {0};
    UNROLL
    for (int j = 0; j < 6; j++) {
        __m512 column[6];
        UNROLL
        for (int i = 0; i < 6; i++)
            column[i] = _mm512_load_ps(du + (size_t)(6 * i + j) * stride);
        weights_gradient_line(column, columns[j]);
    }
    UNROLL
    for (int i = 0; i < 3; i++) {
        __m512 line[6] = {columns[0][i], columns[1][i], columns[2][i],
                          columns[3][i], columns[4][i], columns[5][i]};
        weights_gradient_line(line, taps + 3 * i);
    }
    transpose(taps);
    UNROLL
    for (int i = 0; i < LANES; i++) {
        float *to = filters + (size_t)i * step;
        if (add)
            taps[i] = _mm512_add_ps(taps[i], _mm512_maskz_loadu_ps(0x1ff, to));
        _mm512_mask_storeu_ps(to, 0x1ff, taps[i]);
    }
}

static void finish(const struct sweep *s, bool add, float *dw)
{
    size_t c = s->x.channels, k = s->dy.channels;
    for (size_t ci = 0; ci < c; ci++)
        for (size_t ki = 0; ki < k; ki += LANES)
            finish_filters(s->du + ci * k + ki, position_stride(c, k), add, dw + (ki * c + ci) * 9, c * 9);
}

void winograd_backward_weights(const struct winograd *sizes, const struct winograd_load *load_x,
                               const float *x, const struct winograd_load *load_dy, const float *dy, bool add,
                               float *dw, void *scratch)
{
    size_t c = sizes->c, k = sizes->k, pad = sizes->pad;
    struct sweep s = {.x = {load_x, x, c, sizes->h, sizes->w},
                      .dy = {load_dy, dy, k, sizes->h + 2 * pad - 2, sizes->w + 2 * pad - 2},
                      .pad = (ptrdiff_t)pad,
                      .du = scratch};
    s.v = s.du + POSITIONS * position_stride(c, k);
    s.m = s.v + c / LANES * BLOCK;

    size_t all = sizes->n * tiles_along(s.dy.h) * tiles_along(s.dy.w), group = group_for(c, k);
    struct tile at = {0};
    for (size_t done = 0; done < all; done += group) {
        size_t n_tiles = all - done < group ? all - done : group;
        transform_gradients(&s, at, n_tiles);
        at = transform_inputs(&s, at, n_tiles);
        gather(&s, at, sizes->n, n_tiles, done == 0);
    }
    finish(&s, add, dw);
}
