/* multiply.cuh - tiles of a matrix product whose factors are described, not stored.
 *
 *   out(m, n) = sum over k of A(m, k) B(n, k)
 *
 * A factor says how to find its elements: `row(m)` and `column(k)` do the divisions, `advance(&column, n)`
 * goes on to k + n without any, `at(row, column)` loads one (or answers 0 for padding), `four(row, column)`
 * that one and its next three. `rows_lead` says that neighbours in memory are rows, `fours` that they come in
 * whole fours. So convolutions, their gradients and linear layers are one loop, on the tensor cores with sums
 * in fp32, for two kinds of numbers:
 *
 *   in_bf16   factors rounded to bf16
 *   in_fp32   factors as sums of two numbers of tf32, a large and a small one, and three products: all but
 *             small by small. A product is off by 2^-18 of itself at most, a sum of many by about as much as
 *             fp32 rounds off.
 *
 * A tile has 4096 sums, COLUMNS wide (16, 32 or 64, so that few channels do not leave it half empty): eight
 * warps of 32 x 16. The next piece of k is on its way while this one is multiplied. k runs in order, so the
 * bits do not depend on how tiles are scheduled.
 */
#ifndef VECHE_ENGINE_CUDA_MULTIPLY_CUH
#define VECHE_ENGINE_CUDA_MULTIPLY_CUH

#include "engine/cuda/mma.cuh"

enum { TILE_THREADS = 256, WARP_ROWS = 32, WARP_COLUMNS = 16 };

enum { STEP_BYTES = 32 }; /* of a piece of k, for the tensor cores at a time */

/* ---- kinds of numbers ---- */

struct in_bf16 {
    typedef bf16 number;
    enum { DEEP = PIECE_BYTES / sizeof(bf16), STEP = STEP_BYTES / sizeof(bf16) };
    enum { BLOCKS = 2 }; /* on a multiprocessor: how many registers a thread gets */
    static __device__ __forceinline__ void store(bf16 *at, float4 x)
    {
        *(uint2 *)at = make_uint2(pack_two(x.x, x.y), pack_two(x.z, x.w));
    }
    /* 16 x STEP of the first factor or the second from tiles where rows lead: which k and which row of them
     * this lane names, and the load from there. */
    static __device__ __forceinline__ int first_k(void)
    {
        return threadIdx.x % 8 + threadIdx.x / 16 % 2 * 8;
    }
    static __device__ __forceinline__ int first_row(void)
    {
        return threadIdx.x / 8 % 2 * 8;
    }
    static __device__ __forceinline__ int second_k(void)
    {
        return threadIdx.x % 16;
    }
    static __device__ __forceinline__ int second_row(void)
    {
        return threadIdx.x / 16 % 2 * 8;
    }
    static __device__ __forceinline__ void load_first_turned(unsigned *a, const bf16 *at, int)
    {
        load_matrices_turned(a, shared_at(at));
    }
    static __device__ __forceinline__ void load_second_turned(unsigned *b, const bf16 *at, int)
    {
        load_matrices_turned(b, shared_at(at));
    }
    struct factor {
        unsigned x[4];
        __device__ __forceinline__ factor(const unsigned *raw)
        {
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = raw[i];
        }
    };
    /* sum += a b, for the left and the right eight columns of b */
    static __device__ __forceinline__ void add(float (*sum)[4], const factor &a, const factor &b)
    {
#pragma unroll
        for (int half = 0; half < 2; half++)
            multiply_add(sum[half], a.x, b.x[2 * half], b.x[2 * half + 1]);
    }
};

struct in_fp32 {
    typedef float number;
    enum { DEEP = PIECE_BYTES / sizeof(float), STEP = STEP_BYTES / sizeof(float) };
    enum { BLOCKS = 3 };
    static __device__ __forceinline__ void store(float *at, float4 x)
    {
        *(float4 *)at = x;
    }
    static __device__ __forceinline__ int first_k(void)
    {
        return threadIdx.x % 4;
    }
    static __device__ __forceinline__ int first_row(void)
    {
        return threadIdx.x / 4 % 8;
    }
    static __device__ __forceinline__ int second_k(void)
    {
        return first_k();
    }
    static __device__ __forceinline__ int second_row(void)
    {
        return first_row();
    }
    static __device__ __forceinline__ void load_first_turned(unsigned *a, const float *at, int pitch)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = __float_as_uint(at[i / 2 * 4 * pitch + i % 2 * 8]);
    }
    static __device__ __forceinline__ void load_second_turned(unsigned *b, const float *at, int pitch)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            b[i] = __float_as_uint(at[i % 2 * 4 * pitch + i / 2 * 8]);
    }
    struct factor { /* the tensor cores cut both to tf32; what that cuts off the large ones are the small */
        unsigned large[4], small[4];
        __device__ __forceinline__ factor(const unsigned *raw)
        {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                large[i] = raw[i];
                small[i] = __float_as_uint(__uint_as_float(raw[i]) - __uint_as_float(raw[i] & 0xffffe000u));
            }
        }
    };
    static __device__ __forceinline__ void add(float (*sum)[4], const factor &a, const factor &b)
    {
#pragma unroll
        for (int half = 0; half < 2; half++)
            multiply_add_tf32(sum[half], a.small, b.large[2 * half], b.large[2 * half + 1]);
#pragma unroll
        for (int half = 0; half < 2; half++)
            multiply_add_tf32(sum[half], a.large, b.small[2 * half], b.small[2 * half + 1]);
#pragma unroll
        for (int half = 0; half < 2; half++)
            multiply_add_tf32(sum[half], a.large, b.large[2 * half], b.large[2 * half + 1]);
    }
};

/* ---- a factor's way through shared memory ---- */

constexpr int least(int a, int b)
{
    return a < b ? a : b;
}

/* What this thread carries of a factor's tile of so many LINES: in each piece one k (or four that begin
 * there) of EACH rows, which stay the same, so that their divisions are done once. */
template <class KIND, int LINES, class FACTOR> struct porter {
    static const bool lead = FACTOR::rows_lead;
    static const int across = lead ? least(LINES / 4, TILE_THREADS / KIND::DEEP) : KIND::DEEP / 4;
    static const int down =
        TILE_THREADS / across; /* threads below each other: of k where rows lead, else of rows */
    static const int each = lead ? LINES / 4 / across : (LINES + down - 1) / down;
    static const int pitch = lead ? LINES + LEAD_PAD : ROW_BYTES / (int)sizeof(typename KIND::number);
    static const int n_bytes = lead ? PIECE_BYTES * (LINES + LEAD_PAD) : LINES * ROW_BYTES;
    typedef decltype(((const FACTOR *)0)->row(0)) row_kind;
    typedef decltype(((const FACTOR *)0)->column(0)) column_kind;

    const FACTOR &f;
    uint32_t first_row, rows, end;
    uint32_t k, r;      /* within the tile; the next rows are r + step, ... */
    bool works;         /* small tiles leave threads without work */
    row_kind row[each]; /* where fours; so is column, that of the next piece */
    column_kind column;
    float4 raw[each];

    static __device__ __forceinline__ uint32_t row_step(void)
    {
        return lead ? 4 * across : down;
    }
    __device__ __forceinline__ porter(const FACTOR &factor, uint32_t m0, uint32_t n_rows, uint32_t k0,
                                      uint32_t end_of_k)
        : f(factor), first_row(m0), rows(n_rows), end(end_of_k)
    {
        uint32_t x = threadIdx.x % across, y = threadIdx.x / across;
        k = lead ? y : 4 * x;
        r = lead ? 4 * x : y;
        works = lead ? k < KIND::DEEP : r < LINES;
#pragma unroll
        for (int i = 0; i < each; i++)
            row[i] = f.row(first_row + r + i * row_step());
        column = f.column(k0 + k);
    }
    __device__ __forceinline__ float single(uint32_t m, uint32_t depth) const
    {
        return m < rows && depth < end ? f.at(f.row(m), f.column(depth)) : 0;
    }
    __device__ __forceinline__ void fetch(uint32_t k0)
    {
        uint32_t depth = k0 + k;
        if (f.fours) {
#pragma unroll
            for (int i = 0; i < each; i++)
                raw[i] = works && depth < end && first_row + r + i * row_step() < rows
                             ? f.four(row[i], column)
                             : make_float4(0, 0, 0, 0);
            f.advance(&column, KIND::DEEP);
            return;
        }
#pragma unroll
        for (int i = 0; i < each; i++) {
            uint32_t m = first_row + r + i * row_step(), dm = lead, dk = !lead;
            raw[i] = works
                         ? make_float4(single(m, depth), single(m + dm, depth + dk),
                                       single(m + 2 * dm, depth + 2 * dk), single(m + 3 * dm, depth + 3 * dk))
                         : make_float4(0, 0, 0, 0);
        }
    }
    __device__ __forceinline__ void fill(typename KIND::number *tile) const
    {
#pragma unroll
        for (int i = 0; i < each; i++) {
            uint32_t line = r + i * row_step();
            if (works)
                KIND::store(tile + (lead ? k * pitch + line : line * pitch + k), raw[i]);
        }
    }
    /* 16 rows from m on, a STEP of k: as the first factor of a product, and as the second, two products side
     * by side. */
    static __device__ __forceinline__ void load_first(unsigned *a, const typename KIND::number *tile, int m,
                                                      int step)
    {
        int lane = threadIdx.x % 32;
        if (lead)
            KIND::load_first_turned(
                a, tile + (step * KIND::STEP + KIND::first_k()) * pitch + m + KIND::first_row(), pitch);
        else
            load_matrices(a,
                          shared_at(tile) + (m + lane % 16) * ROW_BYTES + step * STEP_BYTES + lane / 16 * 16);
    }
    static __device__ __forceinline__ void load_second(unsigned *b, const typename KIND::number *tile, int n,
                                                       int step)
    {
        int lane = threadIdx.x % 32;
        if (lead)
            KIND::load_second_turned(
                b, tile + (step * KIND::STEP + KIND::second_k()) * pitch + n + KIND::second_row(), pitch);
        else
            load_matrices(b, shared_at(tile) + (n + lane % 8 + lane / 16 * 8) * ROW_BYTES +
                                 step * STEP_BYTES + lane / 8 % 2 * 16);
    }
};

/* ---- the product ---- */

/* `store(m, n, sum)` is called for each element. blockIdx.x is the tile, blockIdx.y the stretch of k, of
 * `splits`. */
template <class KIND, int COLUMNS, class A, class B, class STORE>
static __device__ __forceinline__ void multiply(const A &a, const B &b, uint32_t rows, uint32_t columns,
                                                uint32_t depth, uint32_t splits, STORE store)
{
    const int ROWS = TILE / COLUMNS, warps_across = COLUMNS / WARP_COLUMNS, DEEP = KIND::DEEP;
    typedef porter<KIND, ROWS, A> first;
    typedef porter<KIND, COLUMNS, B> second;
    __shared__ __align__(16) char a_bytes[first::n_bytes], b_bytes[second::n_bytes];
    typename KIND::number *as = (typename KIND::number *)a_bytes, *bs = (typename KIND::number *)b_bytes;
    uint32_t tiles_across = (columns + COLUMNS - 1) / COLUMNS,
             each = ((depth + splits - 1) / splits + DEEP - 1) / DEEP;
    uint32_t m0 = blockIdx.x / tiles_across * ROWS, n0 = blockIdx.x % tiles_across * COLUMNS;
    uint32_t k0 = blockIdx.y * each * DEEP, end = min(k0 + each * DEEP, depth);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int wm = warp / warps_across * WARP_ROWS, wn = warp % warps_across * WARP_COLUMNS;
    float sum[2][2][4] = {};
    first left(a, m0, rows, k0, end);
    second right(b, n0, columns, k0, end);
    left.fetch(k0);
    right.fetch(k0);
    for (; k0 < end; k0 += DEEP) {
        left.fill(as);
        right.fill(bs);
        __syncthreads();
        if (k0 + DEEP < end) {
            left.fetch(k0 + DEEP);
            right.fetch(k0 + DEEP);
        }
#pragma unroll
        for (int step = 0; step < PIECE_BYTES / STEP_BYTES; step++) {
            unsigned raw[4];
            second::load_second(raw, bs, wn, step);
            typename KIND::factor y(raw);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                first::load_first(raw, as, wm + 16 * i, step);
                typename KIND::factor x(raw);
                KIND::add(sum[i], x, y);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        uint32_t m = m0 + wm + i / 8 * 16 + i / 2 % 2 * 8 + lane / 4,
                 n = n0 + wn + i / 4 % 2 * 8 + lane % 4 * 2 + i % 2;
        if (m < rows && n < columns)
            store(m, n, sum[i / 8][i / 4 % 2][i % 4]);
    }
}

#endif
