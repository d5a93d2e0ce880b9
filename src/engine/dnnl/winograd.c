/* winograd.c - the forward pass and the gradient of the input (which is a forward pass with rotated weights).
 *
 *   for each group of tiles:  B' d B of every tile  ->  for each of 36 positions, M = V U  ->  A' M A of
 * every tile
 *
 * A group is as large as keeps its transforms in the second-level cache. They lie in 37 slots of one stretch:
 * inputs V in slots 1 to 36, and products M of position p in slot p, whose own V has already been used.
 */
#include "engine/dnnl/winograd.h"

#ifdef __AVX512F__

#include "base/arena.h"
#include "engine/dnnl/winograd_tiles.h"

enum { SLOTS = POSITIONS + 1, ROWS = 8 };

/* One direction of the convolution: what is read, what is written. */
struct direction {
    size_t n, c, h, w; /* in  */
    size_t k, out_h, out_w;
    ptrdiff_t pad;
    size_t group;  /* tiles transformed together   */
    size_t stride; /* floats from slot to slot      */
};

#ifndef GROUP
static size_t group_for(size_t c, size_t k)
{
    size_t widest = c > k ? c : k;
    return widest >= 64 ? 32 : widest >= 32 ? 32 : 16;
}
#define GROUP group_for
#endif

static struct direction direction_of(size_t n, size_t c, size_t h, size_t w, size_t k, size_t pad)
{
    struct direction d = {.n = n, .c = c, .h = h, .w = w, .k = k, .pad = (ptrdiff_t)pad};
    d.out_h = h + 2 * pad - 2;
    d.out_w = w + 2 * pad - 2;
    d.group = GROUP(c, k);
    /* An odd number of cache lines, so that a tile's 36 positions do not fall into the same few sets. */
    d.stride = (d.group * (c > k ? c : k) / LANES | 1) * LANES;
    return d;
}

static struct direction forward_of(const struct winograd *s)
{
    return direction_of(s->n, s->c, s->h, s->w, s->k, s->pad);
}

static struct direction backward_of(const struct winograd *s)
{
    return direction_of(s->n, s->k, s->h + 2 * s->pad - 2, s->w + 2 * s->pad - 2, s->c, 2 - s->pad);
}

bool winograd_supported(const struct winograd *s)
{
    return s->n > 0 && s->c > 0 && s->k > 0 && s->c % LANES == 0 && s->k % LANES == 0 && s->pad <= 2 &&
           s->h + 2 * s->pad >= 3 && s->w + 2 * s->pad >= 3;
}

size_t winograd_weights_bytes(const struct winograd *s)
{
    return POSITIONS * position_stride(s->c, s->k) * sizeof(float);
}

size_t winograd_forward_scratch(const struct winograd *s)
{
    struct direction d = forward_of(s);
    return SLOTS * d.stride * sizeof(float);
}

/* Vectors of output channels multiplied at once; the transformed weights lie [position][k / these][c][these].
 */
static size_t vectors_of(size_t k)
{
    return k % (2 * LANES) == 0 ? 2 : 1;
}

/* G g G' of the sixteen filters whose nine taps begin `step` floats apart; `rotated` reads them backwards. */
ALWAYS_INLINE void transform_filters(const float *filters, size_t step, bool rotated, float *u, size_t stride)
{
    __m512 taps[LANES], columns[3][6];
    UNROLL
    for (int i = 0; i < LANES; i++)
        taps[i] = _mm512_maskz_loadu_ps(0x1ff, filters + (size_t)i * step);
    transpose(taps);
    UNROLL
    for (int j = 0; j < 3; j++)
        if (rotated)
            weights_line(taps[8 - j], taps[5 - j], taps[2 - j], columns[j]);
        else
            weights_line(taps[j], taps[3 + j], taps[6 + j], columns[j]);
    UNROLL
    for (int i = 0; i < 6; i++) {
        __m512 line[6];
        weights_line(columns[0][i], columns[1][i], columns[2][i], line);
        UNROLL
        for (int j = 0; j < 6; j++)
            _mm512_store_ps(u + (size_t)(6 * i + j) * stride, line[j]);
    }
}

/* Input channels (of the direction) are `in_step` floats apart in the flat weights, output channels
 * `out_step`. */
ALWAYS_INLINE void transform_weights(size_t c, size_t k, const float *weights, size_t in_step,
                                     size_t out_step, bool rotated, float *u)
{
    size_t vectors = vectors_of(k);
    for (size_t kb = 0; kb < k / LANES; kb++)
        for (size_t ci = 0; ci < c; ci++)
            transform_filters(weights + kb * LANES * out_step + ci * in_step, out_step, rotated,
                              u + ((kb / vectors * c + ci) * vectors + kb % vectors) * LANES,
                              position_stride(c, k));
}

void winograd_weights_forward(const struct winograd *s, const float *weights, float *u)
{
    transform_weights(s->c, s->k, weights, 9, s->c * 9, false, u);
}

void winograd_weights_backward(const struct winograd *s, const float *weights, float *u)
{
    transform_weights(s->k, s->c, weights, s->c * 9, 9, true, u);
}

static struct tile transform_inputs(const struct direction *d, const struct winograd_affine *affine,
                                    const float *x, struct tile at, size_t n_tiles, float *v)
{
    size_t plane = d->h * d->w * LANES;
    for (size_t t = 0; t < n_tiles; t++, at = next_tile(at, d->out_h, d->out_w))
        for (size_t cb = 0; cb < d->c / LANES; cb++) {
            struct window win = window_at(x + (at.sample * d->c / LANES + cb) * plane, d->h, d->w,
                                          (ptrdiff_t)at.y - d->pad, (ptrdiff_t)at.x - d->pad, WINDOW);
            float *to = v + (cb * d->group + t) * LANES;
            if (affine) {
                struct affine_lanes a = {_mm512_loadu_ps(affine->scale + cb * LANES),
                                         _mm512_loadu_ps(affine->shift + cb * LANES)};
                input_tile(&win, true, &a, to, d->stride);
            } else {
                input_tile(&win, false, NULL, to, d->stride);
            }
        }
    return at;
}

/* `rows` tiles by `vectors` x 16 output channels of one position: sums stay in registers. */
ALWAYS_INLINE void multiply_block(const int rows, const int vectors, const struct direction *d,
                                  const float *v, const float *u, float *m)
{
    __m512 sum[ROWS * 2];
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = _mm512_setzero_ps();
    for (size_t cb = 0; cb < d->c / LANES; cb++, v += d->group * LANES, u += vectors * LANES * LANES) {
        UNROLL
        for (int c = 0; c < LANES; c++) {
            UNROLL
            for (int r = 0; r < rows; r++) {
                __m512 value = _mm512_set1_ps(v[r * LANES + c]);
                UNROLL
                for (int j = 0; j < vectors; j++)
                    sum[r * vectors + j] = _mm512_fmadd_ps(
                        value, _mm512_load_ps(u + (c * vectors + j) * LANES), sum[r * vectors + j]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            _mm512_store_ps(m + ((size_t)j * d->group + (size_t)r) * LANES, sum[r * vectors + j]);
    }
}

ALWAYS_INLINE void multiply_rows(const int vectors, const struct direction *d, size_t n_tiles, const float *v,
                                 const float *u, float *m)
{
    size_t t = 0;
    for (; t + ROWS <= n_tiles; t += ROWS)
        multiply_block(ROWS, vectors, d, v + t * LANES, u, m + t * LANES);
    for (; t + 3 <= n_tiles; t += 3)
        multiply_block(3, vectors, d, v + t * LANES, u, m + t * LANES);
    for (; t < n_tiles; t++)
        multiply_block(1, vectors, d, v + t * LANES, u, m + t * LANES);
}

static void multiply_position(const struct direction *d, size_t n_tiles, const float *v, const float *u,
                              float *m)
{
    size_t vectors = vectors_of(d->k);
    for (size_t kb = 0; kb < d->k / LANES; kb += vectors) {
        if (vectors == 2)
            multiply_rows(2, d, n_tiles, v, u + kb * LANES * d->c, m + kb * d->group * LANES);
        else
            multiply_rows(1, d, n_tiles, v, u + kb * LANES * d->c, m + kb * d->group * LANES);
    }
}

/* A' M A of one tile and channel block into the image, leaving out what hangs over its edges. */
ALWAYS_INLINE void output_tile(const float *m, size_t stride, float *y, size_t w, size_t rows, size_t columns,
                               bool gather, __m512 *sum, __m512 *squares)
{
    __m512 half[WINDOW][4];
    UNROLL
    for (int j = 0; j < WINDOW; j++) {
        __m512 column[6];
        UNROLL
        for (int i = 0; i < WINDOW; i++)
            column[i] = _mm512_load_ps(m + (size_t)(6 * i + j) * stride);
        output_line(column[0], column[1], column[2], column[3], column[4], column[5], half[j]);
    }
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m512 line[4];
        output_line(half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i], line);
        UNROLL
        for (size_t j = 0; j < 4; j++)
            if (i < rows && j < columns) {
                _mm512_store_ps(y + (i * w + j) * LANES, line[j]);
                if (gather) {
                    *sum = _mm512_add_ps(*sum, line[j]);
                    *squares = _mm512_fmadd_ps(line[j], line[j], *squares);
                }
            }
    }
}

static void add_lanes(__m512 lanes, double *to)
{
    float each[LANES];
    _mm512_storeu_ps(each, lanes);
    for (int i = 0; i < LANES; i++)
        to[i] += each[i];
}

static void transform_outputs(const struct direction *d, struct tile first, size_t n_tiles, const float *m,
                              float *y, const struct winograd_sums *sums)
{
    for (size_t kb = 0; kb < d->k / LANES; kb++) {
        __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
        struct tile at = first;
        for (size_t t = 0; t < n_tiles; t++, at = next_tile(at, d->out_h, d->out_w)) {
            size_t row = (at.sample * d->k / LANES + kb) * d->out_h + at.y;
            size_t rows = d->out_h - at.y, columns = d->out_w - at.x;
            float *to = y + (row * d->out_w + at.x) * LANES;
            const float *from = m + (kb * d->group + t) * LANES;
            if (sums)
                output_tile(from, d->stride, to, d->out_w, rows, columns, true, &sum, &squares);
            else if (rows >= TILE && columns >= TILE)
                output_tile(from, d->stride, to, d->out_w, TILE, TILE, false, NULL, NULL);
            else
                output_tile(from, d->stride, to, d->out_w, rows, columns, false, NULL, NULL);
        }
        if (sums) {
            add_lanes(sum, sums->sum + kb * LANES);
            add_lanes(squares, sums->squares + kb * LANES);
        }
    }
}

static void convolve(const struct direction *d, const struct winograd_affine *affine, const float *x,
                     const float *u, float *y, const struct winograd_sums *sums, float *slots)
{
    size_t all = d->n * tiles_along(d->out_h) * tiles_along(d->out_w);
    struct tile at = {0};
    for (size_t done = 0; done < all; done += d->group) {
        size_t n_tiles = all - done < d->group ? all - done : d->group;
        struct tile after = transform_inputs(d, affine, x, at, n_tiles, slots + d->stride);
        for (size_t p = 0; p < POSITIONS; p++)
            multiply_position(d, n_tiles, slots + (p + 1) * d->stride, u + p * position_stride(d->c, d->k),
                              slots + p * d->stride);
        transform_outputs(d, at, n_tiles, slots, y, sums);
        at = after;
    }
}

void winograd_forward(const struct winograd *s, const struct winograd_affine *affine, const float *x,
                      const float *u, float *y, const struct winograd_sums *sums, void *scratch)
{
    struct direction d = forward_of(s);
    convolve(&d, affine, x, u, y, sums, scratch);
}

void winograd_backward_data(const struct winograd *s, const float *dy, const float *u, float *dx,
                            void *scratch)
{
    struct direction d = backward_of(s);
    convolve(&d, NULL, dy, u, dx, NULL, scratch);
}

#endif
