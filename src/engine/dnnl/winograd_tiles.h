/* winograd_tiles.h - the transforms of F(4x4, 3x3) on sixteen channels at once, and the walk over tiles.
 *
 * With the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray 2016) a 4x4 tile of outputs is
 *
 *     Y = A' [ (G g G') . (B' d B) ] A        d: the 6x6 inputs it sees, g: the 3x3 weights, ' transposes
 *
 * Each matrix is applied to columns, then to rows; a channel block is one vector, so images are never
 * shuffled. The gradient of the weights is the adjoint, dg = G' [ (B' d B) . (A dY A') ] G.
 */
#ifndef VECHE_ENGINE_DNNL_WINOGRAD_TILES_H
#define VECHE_ENGINE_DNNL_WINOGRAD_TILES_H

#include <immintrin.h>
#include <stddef.h>

#include "engine/dnnl/winograd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Loops over registers must be unrolled to be fast. Not under sanitizers: with their checks in every turn the
 * compiler would take minutes. */
#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                                   \
    __has_feature(undefined_behavior_sanitizer)
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum { LANES = 16, TILE = 4, WINDOW = 6, POSITIONS = WINDOW * WINDOW };

/* Scratch of the forward pass and the data gradient. */
size_t winograd_convolve_bytes(const struct winograd *sizes);

/* Where a tile stands: its sample and the top left of its 4x4 outputs. */
struct tile {
    size_t sample, y, x;
};

static inline struct tile next_tile(struct tile t, size_t h, size_t w)
{
    t.x += TILE;
    if (t.x >= w) {
        t.x = 0;
        t.y += TILE;
    }
    if (t.y >= h) {
        t.y = 0;
        t.sample++;
    }
    return t;
}

static inline size_t tiles_along(size_t n)
{
    return (n + TILE - 1) / TILE;
}

/* Floats from one position's [c][k] matrix to the next's: an odd number of cache lines, so that the 36 that
 * belong to one filter do not fall into the same few sets of the cache. */
static inline size_t position_stride(size_t c, size_t k)
{
    return (c * k / LANES | 1) * LANES;
}

/* A square of an image that may hang over its edges. Positions count from the first float of a channel
 * block's plane; those of rows outside mean nothing. */
struct window {
    ptrdiff_t row[WINDOW];
    __mmask16 row_inside[WINDOW], column_inside[WINDOW];
};

/* The top left may lie outside: as a size a negative number is huge, so one comparison does for both ends. */
ALWAYS_INLINE struct window window_at(size_t h, size_t w, ptrdiff_t y, ptrdiff_t x, int side)
{
    struct window win;
    UNROLL
    for (int i = 0; i < side; i++) {
        win.row[i] = ((y + i) * (ptrdiff_t)w + x) * LANES;
        win.row_inside[i] = (__mmask16) - ((size_t)(y + i) < h);
        win.column_inside[i] = (__mmask16) - ((size_t)(x + i) < w);
    }
    return win;
}

/* How a value is made when it is loaded: as it is, or in one of the two ways of winograd_load. */
enum loading { RAW, RELU, PAIR };

static inline enum loading loading_of(const struct winograd_load *load)
{
    return !load ? RAW : !load->other ? RELU : PAIR;
}

/* An image tensor: where the channel blocks of a sample lie in it. */
struct image {
    const struct winograd_load *load;
    const float *floats;
    size_t channels, h, w;
};

/* A window on one channel block of an image, as the convolution sees it: what lies outside is zero. */
struct view {
    const float *row[WINDOW]; /* the window's first column in each row, even where that lies outside */
    const float *other[WINDOW];
    const struct window *window;
    __m512 scale, shift, other_scale;
};

static const float ZEROS[WINDOW * LANES] __attribute__((aligned(64)));

ALWAYS_INLINE struct view view_of(enum loading loading, const struct image *image, const struct window *win,
                                  size_t sample, size_t channel, int side)
{
    const struct winograd_load *load = image->load;
    size_t block = (sample * image->channels + channel) * image->h * image->w;
    struct view view = {.window = win};
    UNROLL
    for (int i = 0; i < side; i++)
        view.row[i] = win->row_inside[i] ? image->floats + (ptrdiff_t)block + win->row[i] : ZEROS;
    if (loading != RAW) {
        view.scale = _mm512_loadu_ps(load->scale + channel);
        view.shift = _mm512_loadu_ps(load->shift + channel);
    }
    if (loading == PAIR) {
        view.other_scale = _mm512_loadu_ps(load->other_scale + channel);
        UNROLL
        for (int i = 0; i < side; i++)
            view.other[i] = win->row_inside[i] ? load->other + (ptrdiff_t)block + win->row[i] : ZEROS;
    }
    return view;
}

ALWAYS_INLINE __m512 view_value(enum loading loading, const struct view *view, int i, int j)
{
    __mmask16 inside = view->window->row_inside[i] & view->window->column_inside[j];
    __m512 raw = _mm512_maskz_loadu_ps(view->window->column_inside[j], view->row[i] + j * LANES);
    if (loading == RELU) /* the maximum of zero and not-a-number is its second operand: it is not hidden */
        return _mm512_maskz_max_ps(inside, _mm512_setzero_ps(),
                                   _mm512_fmadd_ps(raw, view->scale, view->shift));
    if (loading == PAIR) {
        __m512 other = _mm512_maskz_loadu_ps(view->window->column_inside[j], view->other[i] + j * LANES);
        __m512 shifted = _mm512_fmadd_ps(other, view->other_scale, view->shift);
        return _mm512_maskz_fmadd_ps(inside, raw, view->scale, shifted);
    }
    return raw;
}

/* Asks for a tile's share of an image (which may be NULL) well before it is used: memory is slow, and there
 * is plenty of multiplying to do meanwhile. */
static inline void prefetch_tile(const struct image *image, const float *floats, struct tile at,
                                 bool to_write)
{
    if (!floats)
        return;
    for (size_t c = 0; c < image->channels; c += LANES) {
        const float *plane = floats + (at.sample * image->channels + c) * image->h * image->w;
        for (size_t y = at.y; y < at.y + TILE && y < image->h; y++)
            for (size_t x = at.x; x < at.x + TILE && x < image->w; x++)
                if (to_write)
                    __builtin_prefetch(plane + (y * image->w + x) * LANES, 1);
                else
                    __builtin_prefetch(plane + (y * image->w + x) * LANES, 0, 2);
    }
}

static inline void prefetch_input(const struct image *image, struct tile at)
{
    prefetch_tile(image, image->floats, at, false);
    prefetch_tile(image, image->load ? image->load->other : NULL, at, false);
}

ALWAYS_INLINE __m512 plus_times(__m512 sum, float factor, __m512 x)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(factor), x, sum);
}

/* B' on one line of six: its outer rows, then its four inner ones. The processor adds and multiplies side by
 * side, so the terms are arranged to give both about as much to do. */
ALWAYS_INLINE __m512 input_end(__m512 d0, __m512 d2, __m512 d4)
{
    return plus_times(_mm512_sub_ps(d4, d2), 4, _mm512_sub_ps(d0, d2));
}

ALWAYS_INLINE void input_middle(__m512 d1, __m512 d2, __m512 d3, __m512 d4, __m512 out[4])
{
    __m512 a = plus_times(d4, -4, d2), b = plus_times(d3, -4, d1);
    __m512 e = _mm512_sub_ps(d4, d2), f = _mm512_sub_ps(d3, d1);
    out[0] = _mm512_add_ps(a, b);
    out[1] = _mm512_sub_ps(a, b);
    out[2] = plus_times(e, 2, f);
    out[3] = plus_times(e, -2, f);
}

/* B' on a line of six, each result stored at its own position. */
ALWAYS_INLINE void input_line(const __m512 d[6], float *v, const size_t stride)
{
    __m512 m[4];
    input_middle(d[1], d[2], d[3], d[4], m);
    _mm512_store_ps(v, input_end(d[0], d[2], d[4]));
    UNROLL
    for (int i = 0; i < 4; i++)
        _mm512_store_ps(v + (size_t)(i + 1) * stride, m[i]);
    _mm512_store_ps(v + 5 * stride, input_end(d[1], d[3], d[5]));
}

/* B' d B: position p = 6 i + j goes to v + p * stride. The inner rows first, then the outer two: rows are
 * read again rather than kept, for there are only 32 registers and a load costs less than a spill. */
ALWAYS_INLINE void input_tile(enum loading loading, const struct view *d, float *v, const size_t stride)
{
    __m512 middle[WINDOW][4];
    UNROLL
    for (int j = 0; j < WINDOW; j++)
        input_middle(view_value(loading, d, 1, j), view_value(loading, d, 2, j), view_value(loading, d, 3, j),
                     view_value(loading, d, 4, j), middle[j]);
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512 line[6] = {middle[0][i], middle[1][i], middle[2][i], middle[3][i], middle[4][i], middle[5][i]};
        input_line(line, v + (size_t)(i + 1) * 6 * stride, stride);
    }
    UNROLL
    for (int end = 0; end < 2; end++) {
        __m512 line[6];
        UNROLL
        for (int j = 0; j < WINDOW; j++)
            line[j] = input_end(view_value(loading, d, end, j), view_value(loading, d, end + 2, j),
                                view_value(loading, d, end + 4, j));
        input_line(line, v + (size_t)end * 30 * stride, stride);
    }
}

/* The same for every channel block of the window's input, `block` floats apart in `v`. */
ALWAYS_INLINE void input_blocks(enum loading loading, const struct image *x, const struct window *win,
                                size_t sample, float *v, const size_t stride, const size_t block)
{
    for (size_t c = 0; c < x->channels; c += LANES, v += block) {
        struct view view = view_of(loading, x, win, sample, c, WINDOW);
        input_tile(loading, &view, v, stride);
    }
}

/* A' on a line of six. */
ALWAYS_INLINE void output_line(const __m512 m[6], __m512 y[4])
{
    __m512 s1 = _mm512_add_ps(m[1], m[2]), d1 = _mm512_sub_ps(m[1], m[2]);
    __m512 s2 = _mm512_add_ps(m[3], m[4]), d2 = _mm512_sub_ps(m[3], m[4]);
    y[0] = _mm512_add_ps(_mm512_add_ps(m[0], s1), s2);
    y[1] = plus_times(d1, 2, d2);
    y[2] = plus_times(s1, 4, s2);
    y[3] = _mm512_add_ps(plus_times(d1, 8, d2), m[5]);
}

/* A on a line of four, the adjoint of output_line. */
ALWAYS_INLINE void gradient_line(__m512 y0, __m512 y1, __m512 y2, __m512 y3, __m512 m[6])
{
    __m512 even = _mm512_add_ps(y0, y2), odd = _mm512_add_ps(y1, y3);
    __m512 even2 = plus_times(y0, 4, y2), odd2 = plus_times(y1, 4, y3);
    m[0] = y0;
    m[1] = _mm512_add_ps(even, odd);
    m[2] = _mm512_sub_ps(even, odd);
    m[3] = plus_times(even2, 2, odd2);
    m[4] = plus_times(even2, -2, odd2);
    m[5] = y3;
}

/* A dY A' of a window of side four. */
ALWAYS_INLINE void gradient_tile(enum loading loading, const struct view *dy, float *m, const size_t stride)
{
    __m512 columns[4][6];
    UNROLL
    for (int j = 0; j < 4; j++)
        gradient_line(view_value(loading, dy, 0, j), view_value(loading, dy, 1, j),
                      view_value(loading, dy, 2, j), view_value(loading, dy, 3, j), columns[j]);
    UNROLL
    for (int i = 0; i < 6; i++) {
        __m512 line[6];
        gradient_line(columns[0][i], columns[1][i], columns[2][i], columns[3][i], line);
        UNROLL
        for (int j = 0; j < 6; j++)
            _mm512_store_ps(m + (size_t)(6 * i + j) * stride, line[j]);
    }
}

/* G on a line of three. */
ALWAYS_INLINE void weights_line(__m512 g0, __m512 g1, __m512 g2, __m512 u[6])
{
    __m512 sixth = _mm512_mul_ps(_mm512_set1_ps(-1.0F / 6), _mm512_add_ps(g0, g2));
    __m512 far = plus_times(_mm512_mul_ps(_mm512_set1_ps(1.0F / 24), g0), 1.0F / 6, g2);
    u[0] = _mm512_mul_ps(_mm512_set1_ps(0.25F), g0);
    u[1] = plus_times(sixth, -1.0F / 6, g1);
    u[2] = plus_times(sixth, 1.0F / 6, g1);
    u[3] = plus_times(far, 1.0F / 12, g1);
    u[4] = plus_times(far, -1.0F / 12, g1);
    u[5] = g2;
}

/* G' on a line of six, its adjoint. */
ALWAYS_INLINE void weights_gradient_line(const __m512 u[6], __m512 g[3])
{
    __m512 s1 = _mm512_add_ps(u[1], u[2]), d1 = _mm512_sub_ps(u[2], u[1]);
    __m512 s2 = _mm512_add_ps(u[3], u[4]), d2 = _mm512_sub_ps(u[3], u[4]);
    __m512 sixth = _mm512_mul_ps(_mm512_set1_ps(-1.0F / 6), s1);
    g[0] = plus_times(plus_times(sixth, 1.0F / 24, s2), 0.25F, u[0]);
    g[1] = plus_times(_mm512_mul_ps(_mm512_set1_ps(1.0F / 6), d1), 1.0F / 12, d2);
    g[2] = _mm512_add_ps(plus_times(sixth, 1.0F / 6, s2), u[5]);
}

/* Rows of a 16x16 square become its columns. */
ALWAYS_INLINE void transpose(__m512 r[LANES])
{
    __m512 a[LANES], b[LANES];
    UNROLL
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < LANES; i++) { /* quarter q of b[4 g + j]: column 4 q + j of rows 4 g to 4 g + 3 */
        __m512d first = _mm512_castps_pd(a[i / 4 * 4 + i % 4 / 2]),
                second = _mm512_castps_pd(a[i / 4 * 4 + i % 4 / 2 + 2]);
        b[i] =
            _mm512_castpd_ps(i % 2 ? _mm512_unpackhi_pd(first, second) : _mm512_unpacklo_pd(first, second));
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        __m512 even = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x88),
               odd = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xdd);
        __m512 even2 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x88),
               odd2 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xdd);
        r[j] = _mm512_shuffle_f32x4(even, even2, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(even, even2, 0xdd);
        r[12 + j] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}

#endif
