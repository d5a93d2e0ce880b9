/* winograd_gradient.c - the gradient of the weights.
 *
 *   for each group of tiles:  V = B' d B and M = A dY A' of every tile  ->  for each of 36 positions, dU +=
 * V' M at the end of the call:   dg = G' dU G
 */
#include "engine/dnnl/winograd.h"

#ifdef __AVX512F__

#include "base/arena.h"
#include "engine/dnnl/winograd_tiles.h"

size_t winograd_forward_scratch(const struct winograd *s);

struct sweep {
    const struct winograd *sizes;
    size_t out_h, out_w;
    size_t group;
    size_t v_stride, m_stride; /* floats from position to position */
    float *du;                 /* [36][c][k]                       */
    float *v, *m;              /* [36][group][c], [36][group][k]   */
};

#ifndef GROUP_W
static size_t group_for(size_t c, size_t k)
{
    size_t widest = c > k ? c : k;
    return widest >= 64 ? 32 : 32;
}
#define GROUP_W group_for
#endif

static struct sweep sweep_of(const struct winograd *s, float *scratch)
{
    struct sweep w = {.sizes = s, .out_h = s->h + 2 * s->pad - 2, .out_w = s->w + 2 * s->pad - 2};
    w.group = GROUP_W(s->c, s->k);
    w.v_stride = position_stride(w.group, s->c);
    w.m_stride = position_stride(w.group, s->k);
    w.du = scratch;
    w.v = w.du + POSITIONS * position_stride(s->c, s->k);
    w.m = w.v + POSITIONS * w.v_stride;
    return w;
}

size_t winograd_scratch_bytes(const struct winograd *s)
{
    struct sweep w = sweep_of(s, NULL);
    size_t here = POSITIONS * (position_stride(s->c, s->k) + w.v_stride + w.m_stride) * sizeof(float);
    size_t there = winograd_forward_scratch(s);
    return here > there ? here : there;
}

static struct tile transform_group(const struct sweep *w, const struct winograd_affine *affine,
                                   const float *x, const float *dy, struct tile at, size_t n_tiles)
{
    const struct winograd *s = w->sizes;
    ptrdiff_t pad = (ptrdiff_t)s->pad;
    for (size_t t = 0; t < n_tiles; t++, at = next_tile(at, w->out_h, w->out_w)) {
        for (size_t cb = 0; cb < s->c / LANES; cb++) {
            const float *plane = x + (at.sample * s->c / LANES + cb) * s->h * s->w * LANES;
            struct window win =
                window_at(plane, s->h, s->w, (ptrdiff_t)at.y - pad, (ptrdiff_t)at.x - pad, WINDOW);
            if (affine) {
                struct affine_lanes a = {_mm512_loadu_ps(affine->scale + cb * LANES),
                                         _mm512_loadu_ps(affine->shift + cb * LANES)};
                input_tile(&win, true, &a, w->v + (cb * w->group + t) * LANES, w->v_stride);
            } else {
                input_tile(&win, false, NULL, w->v + (cb * w->group + t) * LANES, w->v_stride);
            }
        }
        for (size_t kb = 0; kb < s->k / LANES; kb++) {
            const float *plane = dy + (at.sample * s->k / LANES + kb) * w->out_h * w->out_w * LANES;
            struct window win = window_at(plane, w->out_h, w->out_w, (ptrdiff_t)at.y, (ptrdiff_t)at.x, TILE);
            gradient_tile(&win, w->m + (kb * w->group + t) * LANES, w->m_stride);
        }
    }
    return at;
}

/* `rows` input channels by `vectors` x 16 output channels of one position, summed over the group's tiles. */
ALWAYS_INLINE void gather_block(const int rows, const int vectors, const struct sweep *w, size_t n_tiles,
                                bool first, const float *v, const float *m, float *du)
{
    size_t k = w->sizes->k, block = w->group * LANES;
    __m512 sum[16];
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
                    _mm512_fmadd_ps(value, _mm512_load_ps(m + (size_t)j * block), sum[r * vectors + j]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < vectors; j++) {
            float *to = du + (size_t)r * k + j * LANES;
            _mm512_store_ps(to, first ? sum[r * vectors + j]
                                      : _mm512_add_ps(_mm512_load_ps(to), sum[r * vectors + j]));
        }
    }
}

static void gather_position(const struct sweep *w, size_t p, size_t n_tiles, bool first)
{
    size_t c = w->sizes->c, k = w->sizes->k;
    float *du = w->du + p * position_stride(c, k);
    for (size_t cb = 0; cb < c / LANES; cb++) {
        const float *v = w->v + p * w->v_stride + cb * w->group * LANES;
        for (size_t kb = 0; kb < k / LANES;) {
            const float *m = w->m + p * w->m_stride + kb * w->group * LANES;
            if (kb + 2 <= k / LANES) {
                gather_block(8, 2, w, n_tiles, first, v, m, du + cb * LANES * k + kb * LANES);
                gather_block(8, 2, w, n_tiles, first, v + 8, m, du + (cb * LANES + 8) * k + kb * LANES);
                kb += 2;
            } else {
                gather_block(16, 1, w, n_tiles, first, v, m, du + cb * LANES * k + kb * LANES);
                kb++;
            }
        }
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

static void finish(const struct sweep *w, bool add, float *dw)
{
    size_t c = w->sizes->c, k = w->sizes->k;
    for (size_t ci = 0; ci < c; ci++)
        for (size_t kb = 0; kb < k; kb += LANES)
            finish_filters(w->du + ci * k + kb, position_stride(c, k), add, dw + (kb * c + ci) * 9, c * 9);
}

void winograd_backward_weights(const struct winograd *s, const struct winograd_affine *affine, const float *x,
                               const float *dy, bool add, float *dw, void *scratch)
{
    struct sweep w = sweep_of(s, scratch);
    size_t all = s->n * tiles_along(w.out_h) * tiles_along(w.out_w);
    struct tile at = {0};
    for (size_t done = 0; done < all; done += w.group) {
        size_t n_tiles = all - done < w.group ? all - done : w.group;
        at = transform_group(&w, affine, x, dy, at, n_tiles);
        for (size_t p = 0; p < POSITIONS; p++)
            gather_position(&w, p, n_tiles, done == 0);
    }
    finish(&w, add, dw);
}

#endif
