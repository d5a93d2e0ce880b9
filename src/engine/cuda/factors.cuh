/* factors.cuh - the matrices that multiply.cuh multiplies, as descriptions of where their elements lie.
 *
 *   windows           (picture, window) x (tap, channel) of a convolution's input
 *   windows_turned    the same, turned round
 *   windows_above     (picture, input pixel) x (tap, channel) of its output's gradient
 *   quarters          weights of a convolution that halves pictures, by where in its quarter a pixel lies
 *   table             weights in a replica's row, in any order of rows and columns
 *   lines             a tensor as lines of numbers
 */
#ifndef VECHE_ENGINE_CUDA_FACTORS_CUH
#define VECHE_ENGINE_CUDA_FACTORS_CUH

#include "engine/cuda/device.cuh"

struct pixel { /* of a picture in a batch: where its window begins, or where it lies, and how far that is from
                  the first */
    int y, x;
    ptrdiff_t at;
};

struct tap { /* one channel under one element of the window, and how far that is from the window's beginning
              */
    int ky, kx, at;
    uint32_t channel;
};

/* Is pixel (y, x) in the picture? */
static __device__ __forceinline__ bool is_inside(struct dims d, int y, int x)
{
    return (uint32_t)y < d.h && (uint32_t)x < d.w;
}

/* Window i, of those that make a tensor of `windows`, over pictures `in`. */
static __device__ __forceinline__ struct pixel pixel_of(struct dims windows, struct dims in, uint32_t i,
                                                        uint32_t stride, int pad)
{
    int n = i / (windows.h * windows.w), y = i / windows.w % windows.h * stride - pad,
        x = i % windows.w * stride - pad;
    struct pixel p = {y, x, (((ptrdiff_t)n * in.h + y) * in.w + x) * in.c};
    return p;
}

/* (picture, window) x (tap, channel) of the input; channels count within taps: neighbours in k are neighbours
 * in memory */
struct windows {
    static const bool rows_lead = false;
    bool fours;
    struct numbers x;
    struct dims in, out;
    uint32_t kernel, stride;
    int pad;
    __device__ __forceinline__ windows(const struct call &c, struct numbers input)
        : fours(c.in.c % 4 == 0), x(input), in(c.in), out(c.out), kernel(c.kernel), stride(c.stride),
          pad(c.pad)
    {
    }
    /* Windows of `side` that begin at each pixel. */
    __device__ __forceinline__ windows(struct numbers tensor, struct dims d, uint32_t side)
        : fours(d.c % 4 == 0), x(tensor), in(d), out(d), kernel(side), stride(1), pad(0)
    {
    }
    __device__ __forceinline__ struct pixel row(uint32_t m) const
    {
        return pixel_of(out, in, m, stride, pad);
    }
    __device__ __forceinline__ struct tap column(uint32_t k) const
    {
        int ky = k / in.c / kernel, kx = k / in.c % kernel, channel = k % in.c;
        struct tap t = {ky, kx, (int)((ky * in.w + kx) * in.c + channel), (uint32_t)channel};
        return t;
    }
    __device__ __forceinline__ void advance(struct tap *t, uint32_t by) const
    {
        t->channel += by;
        t->at += by;
        while (t->channel >= in.c) {
            t->channel -= in.c;
            if (++t->kx == (int)kernel) {
                t->kx = 0;
                t->ky++;
                t->at += (in.w - kernel) * in.c;
            }
        }
    }
    __device__ __forceinline__ float at(struct pixel p, struct tap t) const
    {
        return is_inside(in, p.y + t.ky, p.x + t.kx) ? get(x, p.at + t.at) : 0;
    }
    __device__ __forceinline__ float4 four(struct pixel p, struct tap t) const
    {
        return is_inside(in, p.y + t.ky, p.x + t.kx) ? get_four(x, p.at + t.at) : make_float4(0, 0, 0, 0);
    }
};

/* The same turned round: rows are taps. */
struct windows_turned {
    static const bool rows_lead = true;
    struct windows w;
    bool fours;
    __device__ __forceinline__ windows_turned(const struct call &c, struct numbers input)
        : w(c, input), fours(w.fours)
    {
    }
    __device__ __forceinline__ struct tap row(uint32_t n) const
    {
        return w.column(n);
    }
    __device__ __forceinline__ struct pixel column(uint32_t k) const
    {
        return w.row(k);
    }
    __device__ __forceinline__ void advance(struct pixel *p, uint32_t by) const
    {
        int width = w.out.w * w.stride, height = w.out.h * w.stride;
        p->x += by * w.stride;
        p->at += by * w.stride * w.in.c;
        while (p->x + w.pad >= width) {
            p->x -= width;
            p->y += w.stride;
            p->at += ((int)(w.in.w * w.stride) - width) * (int)w.in.c;
            if (p->y + w.pad >= height) {
                p->y -= height;
                p->at += ((int)w.in.h - height) * (ptrdiff_t)w.in.w * w.in.c;
            }
        }
    }
    __device__ __forceinline__ float at(struct tap t, struct pixel p) const
    {
        return w.at(p, t);
    }
    __device__ __forceinline__ float4 four(struct tap t, struct pixel p) const
    {
        return w.four(p, t);
    }
};

/* (picture, input pixel) x (tap, output channel): the output pixel whose window has this tap on the input
 * pixel */
struct windows_above {
    static const bool rows_lead = false;
    bool fours;
    struct numbers dy;
    struct dims in, out;
    uint32_t kernel, stride, pad;
    struct place { /* an input pixel, counted from where windows begin */
        int n, y, x;
    };
    __device__ __forceinline__ windows_above(const struct call &c, struct numbers gradient)
        : fours(c.out.c % 4 == 0), dy(gradient), in(c.in), out(c.out), kernel(c.kernel), stride(c.stride),
          pad(c.pad)
    {
    }
    __device__ __forceinline__ struct place row(uint32_t m) const
    {
        struct place p = {(int)(m / (in.h * in.w)), (int)(m / in.w % in.h + pad), (int)(m % in.w + pad)};
        return p;
    }
    __device__ __forceinline__ struct tap column(uint32_t k) const
    {
        struct tap t = {(int)(k / out.c / kernel), (int)(k / out.c % kernel), 0, k % out.c};
        return t;
    }
    __device__ __forceinline__ void advance(struct tap *t, uint32_t by) const
    {
        t->channel += by;
        while (t->channel >= out.c) {
            t->channel -= out.c;
            if (++t->kx == (int)kernel) {
                t->kx = 0;
                t->ky++;
            }
        }
    }
    /* Where it lies, or -1: there is none. */
    __device__ __forceinline__ ptrdiff_t find(struct place p, struct tap t) const
    {
        int y = p.y - t.ky, x = p.x - t.kx, s = (int)stride;
        if (s == 2) { /* without divisions */
            if ((y | x) & 1)
                return -1;
            y >>= 1;
            x >>= 1;
        } else if (s > 2) {
            if (y < 0 || x < 0 || y % s || x % s)
                return -1;
            y /= s;
            x /= s;
        }
        return is_inside(out, y, x) ? (((ptrdiff_t)p.n * out.h + y) * out.w + x) * out.c + t.channel : -1;
    }
    __device__ __forceinline__ float at(struct place p, struct tap t) const
    {
        ptrdiff_t i = find(p, t);
        return i < 0 ? 0 : get(dy, i);
    }
    __device__ __forceinline__ float4 four(struct place p, struct tap t) const
    {
        ptrdiff_t i = find(p, t);
        return i < 0 ? make_float4(0, 0, 0, 0) : get_four(dy, i);
    }
};

/* A 3x3 convolution with stride 2 and a rim of one, turned back: of the four input pixels (2 y + a, 2 x + b)
 * each gets something from output pixels (y + p, x + q) with p <= a, q <= b, and none from others. Rows are
 * (a, b, input channel), columns (p, q, output channel). */
struct quarters {
    static const bool rows_lead = false;
    bool fours;
    const float *first;
    uint32_t in, out;
    struct spot { /* of two by two, and a channel's first weight */
        uint32_t y, x, at;
    };
    __device__ __forceinline__ quarters(const struct call &c, const float *weight)
        : fours(c.out.c % 4 == 0), first(weight), in(c.in.c), out(c.out.c)
    {
    }
    __device__ __forceinline__ struct spot row(uint32_t m) const
    {
        uint32_t q = m / in;
        struct spot s = {q / 2, q % 2, m % in * 9};
        return s;
    }
    __device__ __forceinline__ struct spot column(uint32_t k) const
    {
        uint32_t q = k / out;
        struct spot s = {q / 2, q % 2, k % out * in * 9};
        return s;
    }
    __device__ __forceinline__ void advance(struct spot *s, uint32_t by) const
    {
        s->at += by * in * 9;
        while (s->at >= out * in * 9) {
            s->at -= out * in * 9;
            s->y += s->x;
            s->x ^= 1;
        }
    }
    __device__ __forceinline__ bool meet(struct spot r, struct spot k) const
    {
        return k.y <= r.y && k.x <= r.x;
    }
    /* The tap under which they meet: along each side 1 for the first pixel, 2 or 0 for the second. */
    __device__ __forceinline__ const float *weight(struct spot r, struct spot k) const
    {
        return first + r.at + k.at + (1 + r.y - 2 * k.y) * 3 + 1 + r.x - 2 * k.x;
    }
    __device__ __forceinline__ float at(struct spot r, struct spot k) const
    {
        return meet(r, k) ? *weight(r, k) : 0;
    }
    __device__ __forceinline__ float4 four(struct spot r, struct spot k) const
    {
        if (!meet(r, k))
            return make_float4(0, 0, 0, 0);
        const float *p = weight(r, k);
        uint32_t step = in * 9;
        return make_float4(p[0], p[step], p[2 * step], p[3 * step]);
    }
};

/* Numbers in groups: number i of group g at i * step + g. */
struct order {
    uint32_t group, step;
    __device__ __forceinline__ uint32_t at(uint32_t i) const
    {
        return i % group * step + i / group;
    }
};

struct walk { /* through an order */
    uint32_t in_group, at;
};

/* Weights in a replica's row: element (r, k) at rows.at(r) + columns.at(k). A row begins anywhere, so
 * neighbours are loaded one by one. */
template <bool LEAD> struct table {
    static const bool rows_lead = LEAD;
    const float *first;
    struct order rows, columns;
    bool fours;
    __device__ __forceinline__ table(const float *weights, struct order of_rows, struct order of_columns)
        : first(weights), rows(of_rows), columns(of_columns),
          fours((LEAD ? of_rows : of_columns).group % 4 == 0)
    {
    }
    __device__ __forceinline__ uint32_t row(uint32_t r) const
    {
        return rows.at(r);
    }
    __device__ __forceinline__ struct walk column(uint32_t k) const
    {
        struct walk w = {k % columns.group, columns.at(k)};
        return w;
    }
    __device__ __forceinline__ void advance(struct walk *w, uint32_t by) const
    {
        w->in_group += by;
        w->at += by * columns.step;
        while (w->in_group >= columns.group) {
            w->in_group -= columns.group;
            w->at += 1 - columns.group * columns.step;
        }
    }
    __device__ __forceinline__ float at(uint32_t r, struct walk w) const
    {
        return first[r + w.at];
    }
    __device__ __forceinline__ float4 four(uint32_t r, struct walk w) const
    {
        const float *p = first + r + w.at;
        uint32_t step = LEAD ? rows.step : columns.step;
        return make_float4(p[0], p[step], p[2 * step], p[3 * step]);
    }
};

/* Lines of a tensor, in either precision: line i begins at i * length. Lines are rows, or columns where rows
 * lead. */
template <bool LEAD> struct lines {
    static const bool rows_lead = LEAD;
    struct numbers x;
    uint32_t length;
    bool fours;
    __device__ __forceinline__ lines(struct numbers tensor, uint32_t of_length)
        : x(tensor), length(of_length), fours(of_length % 4 == 0)
    {
    }
    __device__ __forceinline__ size_t row(uint32_t r) const
    {
        return LEAD ? r : r * (size_t)length;
    }
    __device__ __forceinline__ size_t column(uint32_t k) const
    {
        return LEAD ? k * (size_t)length : k;
    }
    __device__ __forceinline__ void advance(size_t *column, uint32_t by) const
    {
        *column += LEAD ? by * (size_t)length : by;
    }
    __device__ __forceinline__ float at(size_t r, size_t k) const
    {
        return get(x, r + k);
    }
    __device__ __forceinline__ float4 four(size_t r, size_t k) const
    {
        return get_four(x, r + k);
    }
};

#endif
