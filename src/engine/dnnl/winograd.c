/* winograd.c - the forward pass, and the gradient of the input, which is a forward pass with rotated weights.
 *
 *   for each group of tiles:  V = B' d B of every tile
 *                             M = V U at each of the 36 positions, [tiles x c] times [c x k]
 *                             A' M A of every tile
 *
 * A group's transforms stay in the second-level cache. Each channel block has 37 slots there, a slot being
 * the group's vectors at one position: V fills slots 1 to 36, and M of position p goes into slot p, for the V
 * that was there has been used by then.
 */
#include "engine/dnnl/winograd.h"

#include "engine/dnnl/winograd_tiles.h"

enum {
    GROUP = 32,                     /* tiles transformed together                          */
    SLOT = (GROUP + 1) * LANES,     /* floats; odd in cache lines, so that slots share no sets */
    BLOCK = (POSITIONS + 1) * SLOT, /* the slots of one channel block                      */
    ROWS = 8,                       /* tiles multiplied at once                            */
};
_Static_assert((int)GROUP <= (int)POSITIONS, "one tile is prefetched at each position");

/* One direction of the convolution: what is read, what is written. */
struct direction {
    size_t n, c, h, w;
    size_t k, out_h, out_w;
    ptrdiff_t pad;
};

static struct direction direction_of(size_t n, size_t c, size_t h, size_t w, size_t k, size_t pad)
{
    return (struct direction){.n = n,
                              .c = c,
                              .h = h,
                              .w = w,
                              .k = k,
                              .out_h = h + 2 * pad - 2,
                              .out_w = w + 2 * pad - 2,
                              .pad = (ptrdiff_t)pad};
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

size_t winograd_convolve_bytes(const struct winograd *s)
{
    return (s->c > s->k ? s->c : s->k) / LANES * BLOCK * sizeof(float);
}

/* Vectors of output channels multiplied at once; weights lie [position][k / 16 / vectors][c][vectors][16]. */
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

static struct tile transform_inputs(const struct direction *d, const struct image *x, struct tile at,
                                    size_t n_tiles, float *v)
{
    enum loading loading = loading_of(x->load);
    for (size_t t = 0; t < n_tiles; t++, v += LANES, at = next_tile(at, d->out_h, d->out_w)) {
        struct window win = window_at(d->h, d->w, (ptrdiff_t)at.y - d->pad, (ptrdiff_t)at.x - d->pad, WINDOW);
        switch (loading) {
        case RAW:
            input_blocks(RAW, x, &win, at.sample, v, SLOT, BLOCK);
            break;
        case RELU:
            input_blocks(RELU, x, &win, at.sample, v, SLOT, BLOCK);
            break;
        case PAIR:
            input_blocks(PAIR, x, &win, at.sample, v, SLOT, BLOCK);
            break;
        }
    }
    return at;
}

/* `rows` tiles by `vectors` x 16 output channels of one position: sums stay in registers. */
ALWAYS_INLINE void multiply_block(const int rows, const int vectors, size_t c, const float *v, const float *u,
                                  float *m)
{
    __m512 sum[ROWS * 2];
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = _mm512_setzero_ps();
    for (size_t cb = 0; cb < c / LANES; cb++, v += BLOCK, u += vectors * LANES * LANES) {
        UNROLL
        for (int i = 0; i < LANES; i++) {
            UNROLL
            for (int r = 0; r < rows; r++) {
                __m512 value = _mm512_set1_ps(v[r * LANES + i]);
                UNROLL
                for (int j = 0; j < vectors; j++)
                    sum[r * vectors + j] = _mm512_fmadd_ps(
                        value, _mm512_load_ps(u + (i * vectors + j) * LANES), sum[r * vectors + j]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            _mm512_store_ps(m + j * BLOCK + r * LANES, sum[r * vectors + j]);
    }
}

ALWAYS_INLINE void multiply_rows(const int vectors, size_t n_tiles, size_t c, const float *v, const float *u,
                                 float *m)
{
    size_t t = 0;
    for (; t + ROWS <= n_tiles; t += ROWS)
        multiply_block(ROWS, vectors, c, v + t * LANES, u, m + t * LANES);
    for (; t + 3 <= n_tiles; t += 3)
        multiply_block(3, vectors, c, v + t * LANES, u, m + t * LANES);
    for (; t < n_tiles; t++)
        multiply_block(1, vectors, c, v + t * LANES, u, m + t * LANES);
}

static void multiply_position(const struct direction *d, size_t n_tiles, const float *v, const float *u,
                              float *m)
{
    size_t vectors = vectors_of(d->k);
    for (size_t kb = 0; kb < d->k / LANES; kb += vectors) {
        if (vectors == 2)
            multiply_rows(2, n_tiles, d->c, v, u + kb * LANES * d->c, m + kb * BLOCK);
        else
            multiply_rows(1, n_tiles, d->c, v, u + kb * LANES * d->c, m + kb * BLOCK);
    }
}

/* How results are stored: as they are, with the sums of winograd_store, or with all it can ask for. */
enum storing { BARE, SUMMED, ALL };

/* One channel block of the result: sums gathered so far, and where the images of winograd_store are read. */
struct sink {
    const struct winograd_store *store;
    float *y;
    size_t w;
    __m512 bias; /* -0 where there is none: it changes nothing */
    __m512 sum, products, gate_scale, gate_shift;
};

ALWAYS_INLINE void sink_store(enum storing storing, struct sink *sink, size_t at, __m512 value)
{
    const struct winograd_store *store = sink->store;
    value = _mm512_add_ps(value, sink->bias);
    if (storing == ALL && store->add)
        value = _mm512_add_ps(value, _mm512_load_ps(store->add + at));
    if (storing == ALL && store->gate) {
        __m512 gate = _mm512_fmadd_ps(_mm512_load_ps(store->gate + at), sink->gate_scale, sink->gate_shift);
        value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_GT_OQ), value);
    }
    _mm512_store_ps(sink->y + at, value);
    if (storing == SUMMED || (storing == ALL && store->sum)) {
        __m512 times = storing == ALL && store->times ? _mm512_load_ps(store->times + at) : value;
        sink->sum = _mm512_add_ps(sink->sum, value);
        sink->products = _mm512_fmadd_ps(value, times, sink->products);
    }
}

/* A' M A of one tile and channel block, leaving out what hangs over the image's edges. */
ALWAYS_INLINE void output_tile(enum storing storing, const float *m, struct sink *sink, size_t at,
                               size_t rows, size_t columns)
{
    __m512 half[WINDOW][4];
    UNROLL
    for (int j = 0; j < WINDOW; j++) {
        __m512 column[6];
        UNROLL
        for (int i = 0; i < WINDOW; i++)
            column[i] = _mm512_load_ps(m + (6 * i + j) * SLOT);
        output_line(column, half[j]);
    }
    UNROLL
    for (size_t i = 0; i < TILE; i++) {
        __m512 row[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]}, y[4];
        output_line(row, y);
        UNROLL
        for (size_t j = 0; j < TILE; j++)
            if (i < rows && j < columns)
                sink_store(storing, sink, at + (i * sink->w + j) * LANES, y[j]);
    }
}

/* Whole tiles, nearly all there are, are stored without asking at every pixel. */
ALWAYS_INLINE void output_block(enum storing storing, const struct direction *d, struct tile at,
                                size_t n_tiles, size_t k, const float *m, struct sink *sink)
{
    for (size_t t = 0; t < n_tiles; t++, m += LANES, at = next_tile(at, d->out_h, d->out_w)) {
        size_t rows = d->out_h - at.y, columns = d->out_w - at.x;
        size_t row = (at.sample * d->k + k) / LANES * d->out_h + at.y;
        size_t first = (row * d->out_w + at.x) * LANES;
        if (rows >= TILE && columns >= TILE)
            output_tile(storing, m, sink, first, TILE, TILE);
        else
            output_tile(storing, m, sink, first, rows, columns);
    }
}

static void add_lanes(__m512 lanes, double *to)
{
    float each[LANES];
    _mm512_storeu_ps(each, lanes);
    for (int i = 0; i < LANES; i++)
        to[i] += each[i];
}

static enum storing storing_of(const struct winograd_store *store)
{
    if (!store)
        return BARE;
    if (store->add || store->gate || store->times)
        return ALL;
    return store->sum ? SUMMED : BARE;
}

/* A group's sums are floats, few enough to be exact to the last digits; over groups they are doubles. */
static void transform_outputs(const struct direction *d, struct tile at, size_t n_tiles, const float *m,
                              float *y, const struct winograd_store *store)
{
    enum storing storing = storing_of(store);
    for (size_t k = 0; k < d->k; k += LANES, m += BLOCK) {
        bool scaled = storing == ALL && store->gate_scale;
        struct sink sink = {
            .store = store,
            .y = y,
            .w = d->out_w,
            .bias = store && store->bias ? _mm512_loadu_ps(store->bias + k) : _mm512_set1_ps(-0.0f),
            .sum = _mm512_setzero_ps(),
            .products = _mm512_setzero_ps(),
            .gate_scale = scaled ? _mm512_loadu_ps(store->gate_scale + k) : _mm512_set1_ps(1),
            .gate_shift = scaled ? _mm512_loadu_ps(store->gate_shift + k) : _mm512_setzero_ps()};
        switch (storing) {
        case BARE:
            output_block(BARE, d, at, n_tiles, k, m, &sink);
            break;
        case SUMMED:
            output_block(SUMMED, d, at, n_tiles, k, m, &sink);
            break;
        case ALL:
            output_block(ALL, d, at, n_tiles, k, m, &sink);
            break;
        }
        if (store && store->sum) {
            add_lanes(sink.sum, store->sum + k);
            add_lanes(sink.products, store->products + k);
        }
    }
}

/* M = V U at every position. At each, one tile of what comes next is prefetched: this group's outputs, the
 * next group's inputs. */
static void multiply(const struct direction *d, const struct image *x, const float *u, const struct image *y,
                     const struct winograd_store *store, struct tile at, struct tile ahead, size_t n_tiles,
                     float *slots)
{
    for (size_t p = 0; p < POSITIONS; p++) {
        if (p < n_tiles) {
            prefetch_tile(y, y->floats, at, true);
            if (store) {
                prefetch_tile(y, store->add, at, false);
                prefetch_tile(y, store->gate, at, false);
                prefetch_tile(y, store->times, at, false);
            }
            at = next_tile(at, d->out_h, d->out_w);
            if (ahead.sample < d->n)
                prefetch_input(x, ahead);
            ahead = next_tile(ahead, d->out_h, d->out_w);
        }
        multiply_position(d, n_tiles, slots + (p + 1) * SLOT, u + p * position_stride(d->c, d->k),
                          slots + p * SLOT);
    }
}

static void convolve(const struct direction *d, const struct image *x, const float *u, float *y,
                     const struct winograd_store *store, float *slots)
{
    size_t all = d->n * tiles_along(d->out_h) * tiles_along(d->out_w);
    const struct image out = {NULL, y, d->k, d->out_h, d->out_w};
    struct tile at = {0};
    for (size_t done = 0; done < all; done += GROUP) {
        size_t n_tiles = all - done < GROUP ? all - done : GROUP;
        struct tile after = transform_inputs(d, x, at, n_tiles, slots + SLOT);
        multiply(d, x, u, &out, store, at, after, n_tiles, slots);
        transform_outputs(d, at, n_tiles, slots, y, store);
        at = after;
    }
}

void winograd_forward(const struct winograd *s, const struct winograd_load *load, const float *x,
                      const float *u, float *y, const struct winograd_store *store, void *scratch)
{
    struct direction d = forward_of(s);
    struct image image = {load, x, d.c, d.h, d.w};
    convolve(&d, &image, u, y, store, scratch);
}

void winograd_backward_data(const struct winograd *s, const struct winograd_load *load, const float *dy,
                            const float *u, float *dx, const struct winograd_store *store, void *scratch)
{
    struct direction d = backward_of(s);
    struct image image = {load, dy, d.c, d.h, d.w};
    convolve(&d, &image, u, dx, store, scratch);
}

/* Whole groups of tiles in the order in which `convolve` stores them. */
static void sum_block(const struct direction *d, struct tile at, size_t n_tiles, size_t k, const float *y,
                      double *sum, double *products)
{
    __m512 first = _mm512_setzero_ps(), second = first;
    for (size_t t = 0; t < n_tiles; t++, at = next_tile(at, d->out_h, d->out_w)) {
        size_t rows = d->out_h - at.y < TILE ? d->out_h - at.y : TILE;
        size_t columns = d->out_w - at.x < TILE ? d->out_w - at.x : TILE;
        const float *tile =
            y + (((at.sample * d->k + k) / LANES * d->out_h + at.y) * d->out_w + at.x) * LANES;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                __m512 value = _mm512_load_ps(tile + (i * d->out_w + j) * LANES);
                first = _mm512_add_ps(first, value);
                second = _mm512_fmadd_ps(value, value, second);
            }
    }
    add_lanes(first, sum + k);
    add_lanes(second, products + k);
}

void winograd_sums(const struct winograd *s, const float *y, double *sum, double *products)
{
    struct direction d = forward_of(s);
    size_t all = d.n * tiles_along(d.out_h) * tiles_along(d.out_w);
    struct tile at = {0};
    for (size_t done = 0; done < all; done += GROUP) {
        size_t n_tiles = all - done < GROUP ? all - done : GROUP;
        for (size_t k = 0; k < d.k; k += LANES)
            sum_block(&d, at, n_tiles, k, y, sum, products);
        for (size_t t = 0; t < n_tiles; t++)
            at = next_tile(at, d.out_h, d.out_w);
    }
}

void winograd_loaded(const struct winograd *s, const struct winograd_load *load, const float *x, float *to)
{
    size_t pixels = s->h * s->w, blocks = s->c / LANES;
    for (size_t b = 0; b < s->n * blocks; b++) {
        __m512 scale = _mm512_loadu_ps(load->scale + b % blocks * LANES);
        __m512 shift = _mm512_loadu_ps(load->shift + b % blocks * LANES);
        for (size_t i = b * pixels * LANES; i < (b + 1) * pixels * LANES; i += LANES)
            _mm512_store_ps(to + i, _mm512_max_ps(_mm512_setzero_ps(),
                                                  _mm512_fmadd_ps(_mm512_load_ps(x + i), scale, shift)));
    }
}
