/* multiply.cuh - tiles of a matrix product whose factors are described, not stored.
 *
 *   out(m, n) = sum over k of A(m, k) B(n, k)
 *
 * A factor says how to find an element: `row(m)` and `column(k)` do the divisions, `at(row, column)` loads (or
 * answers 0 for padding), and `rows_lead` says that neighbours in memory are rows. So convolutions, their gradients
 * and linear layers are one loop, in two precisions:
 *
 *   exact_tile    fp32: 256 threads of 4 x 4 sums each
 *   tensor_tile   bf16 factors on the tensor cores: eight warps of 16 x 32 sums each, in fp32
 *
 * A tile is 64 x 64. The next piece of k is on its way while this one is multiplied. k runs in order, so the bits do
 * not depend on how tiles are scheduled.
 */
#ifndef VECHE_ENGINE_CUDA_MULTIPLY_CUH
#define VECHE_ENGINE_CUDA_MULTIPLY_CUH

#include "engine/cuda/mma.cuh"

enum { TILE = 64, TILE_THREADS = 256 };

struct tile { /* which part of the product: rows from m0, columns from n0, k in [first, end) */
    uint32_t m0, rows, n0, columns, first, end;
};

template <int DEEP, class FACTOR>
static __device__ __forceinline__ float element(const FACTOR &f, uint32_t first_row, uint32_t rows, uint32_t first,
                                                uint32_t end, uint32_t r, uint32_t k)
{
    bool inside = first_row + r < rows && first + k < end;
    return inside ? f.at(f.row(first_row + r), f.column(first + k)) : 0;
}

/* ---- fp32 ---- */

enum { EXACT_DEEP = 16, EXACT_EACH = TILE * EXACT_DEEP / TILE_THREADS };

template <class FACTOR>
static __device__ __forceinline__ void exact_fetch(const FACTOR &f, uint32_t first_row, uint32_t rows, uint32_t first,
                                                   uint32_t end, float *raw)
{
#pragma unroll
    for (uint32_t i = 0; i < EXACT_EACH; i++) {
        uint32_t e = threadIdx.x + i * TILE_THREADS;
        uint32_t r = FACTOR::rows_lead ? e % TILE : e / EXACT_DEEP, k = FACTOR::rows_lead ? e / TILE : e % EXACT_DEEP;
        raw[i] = element<EXACT_DEEP>(f, first_row, rows, first, end, r, k);
    }
}

template <class FACTOR>
static __device__ __forceinline__ void exact_fill(const float *raw, float tile[EXACT_DEEP][TILE + 4])
{
#pragma unroll
    for (uint32_t i = 0; i < EXACT_EACH; i++) {
        uint32_t e = threadIdx.x + i * TILE_THREADS;
        uint32_t r = FACTOR::rows_lead ? e % TILE : e / EXACT_DEEP, k = FACTOR::rows_lead ? e / TILE : e % EXACT_DEEP;
        tile[k][r] = raw[i];
    }
}

/* `store(m, n, sum)` is called for each element inside the matrix. */
template <class A, class B, class STORE>
static __device__ __forceinline__ void exact_tile(const A &a, const B &b, struct tile t, STORE store)
{
    __shared__ float as[EXACT_DEEP][TILE + 4], bs[EXACT_DEEP][TILE + 4];
    uint32_t tm = threadIdx.x / 16 * 4, tn = threadIdx.x % 16 * 4;
    float sum[4][4] = {}, a_raw[EXACT_EACH], b_raw[EXACT_EACH];
    exact_fetch(a, t.m0, t.rows, t.first, t.end, a_raw);
    exact_fetch(b, t.n0, t.columns, t.first, t.end, b_raw);
    for (uint32_t k0 = t.first; k0 < t.end; k0 += EXACT_DEEP) {
        exact_fill<A>(a_raw, as);
        exact_fill<B>(b_raw, bs);
        __syncthreads();
        if (k0 + EXACT_DEEP < t.end) {
            exact_fetch(a, t.m0, t.rows, k0 + EXACT_DEEP, t.end, a_raw);
            exact_fetch(b, t.n0, t.columns, k0 + EXACT_DEEP, t.end, b_raw);
        }
#pragma unroll
        for (uint32_t k = 0; k < EXACT_DEEP; k++) {
            float4 x = *(const float4 *)&as[k][tm], y = *(const float4 *)&bs[k][tn];
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] += xs[i] * ys[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (t.m0 + tm + i < t.rows && t.n0 + tn + j < t.columns)
                store(t.m0 + tm + i, t.n0 + tn + j, sum[i][j]);
}

/* ---- bf16 ---- */

/* A factor's tile lies as [row][k], or as [k][row] where rows lead; either way neighbours are stored in pairs. */
enum { TENSOR_DEEP = 32, TENSOR_PAIRS = TILE * TENSOR_DEEP / 2 / TILE_THREADS };
enum { TENSOR_PITCH = TENSOR_DEEP + 8, TENSOR_TURNED = TILE + 8, TENSOR_SIZE = TILE * TENSOR_PITCH };

template <class FACTOR>
static __device__ __forceinline__ void tensor_fetch(const FACTOR &f, uint32_t first_row, uint32_t rows, uint32_t first,
                                                    uint32_t end, float (*raw)[2])
{
#pragma unroll
    for (uint32_t i = 0; i < TENSOR_PAIRS; i++) {
        uint32_t r = FACTOR::rows_lead ? threadIdx.x % 32 * 2 : threadIdx.x / 16 + 16 * i;
        uint32_t k = FACTOR::rows_lead ? threadIdx.x / 32 + 8 * i : threadIdx.x % 16 * 2;
        raw[i][0] = element<TENSOR_DEEP>(f, first_row, rows, first, end, r, k);
        raw[i][1] = element<TENSOR_DEEP>(f, first_row, rows, first, end, r + FACTOR::rows_lead, k + !FACTOR::rows_lead);
    }
}

template <class FACTOR> static __device__ __forceinline__ void tensor_fill(const float (*raw)[2], bf16 *tile)
{
#pragma unroll
    for (uint32_t i = 0; i < TENSOR_PAIRS; i++) {
        uint32_t at = FACTOR::rows_lead ? (threadIdx.x / 32 + 8 * i) * TENSOR_TURNED + threadIdx.x % 32 * 2
                                        : (threadIdx.x / 16 + 16 * i) * TENSOR_PITCH + threadIdx.x % 16 * 2;
        *(unsigned *)(tile + at) = pack_two(raw[i][0], raw[i][1]);
    }
}

/* 16 x 16 of the first factor, rows from m and k on. */
template <class FACTOR>
static __device__ __forceinline__ void load_first(unsigned *a, const bf16 *tile, uint32_t m, uint32_t k)
{
    uint32_t lane = threadIdx.x % 32;
    if (FACTOR::rows_lead)
        load_matrices_turned(
            a, shared_at(tile + (k + lane % 8 + lane / 16 * 8) * TENSOR_TURNED + m + lane / 8 % 2 * 8));
    else
        load_matrices(a, shared_at(tile + (m + lane % 16) * TENSOR_PITCH + k + lane / 16 * 8));
}

/* ... of the second: two products side by side. */
template <class FACTOR>
static __device__ __forceinline__ void load_second(unsigned *b, const bf16 *tile, uint32_t n, uint32_t k)
{
    uint32_t lane = threadIdx.x % 32;
    if (FACTOR::rows_lead)
        load_matrices_turned(b, shared_at(tile + (k + lane % 16) * TENSOR_TURNED + n + lane / 16 * 8));
    else
        load_matrices(b,
                      shared_at(tile + (n + lane % 8 + lane / 16 * 8) * TENSOR_PITCH + k + lane / 8 % 2 * 8));
}

template <class A, class B, class STORE>
static __device__ __forceinline__ void tensor_tile(const A &a, const B &b, struct tile t, STORE store)
{
    __shared__ __align__(16) bf16 as[TENSOR_SIZE], bs[TENSOR_SIZE];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / 2 * 16, wn = warp % 2 * 32;
    float sum[4][4] = {}, a_raw[TENSOR_PAIRS][2], b_raw[TENSOR_PAIRS][2];
    tensor_fetch(a, t.m0, t.rows, t.first, t.end, a_raw);
    tensor_fetch(b, t.n0, t.columns, t.first, t.end, b_raw);
    for (uint32_t k0 = t.first; k0 < t.end; k0 += TENSOR_DEEP) {
        tensor_fill<A>(a_raw, as);
        tensor_fill<B>(b_raw, bs);
        __syncthreads();
        if (k0 + TENSOR_DEEP < t.end) {
            tensor_fetch(a, t.m0, t.rows, k0 + TENSOR_DEEP, t.end, a_raw);
            tensor_fetch(b, t.n0, t.columns, k0 + TENSOR_DEEP, t.end, b_raw);
        }
#pragma unroll
        for (uint32_t k = 0; k < TENSOR_DEEP; k += 16) {
            unsigned left[4], right[2][4];
            load_first<A>(left, as, wm, k);
            load_second<B>(right[0], bs, wn, k);
            load_second<B>(right[1], bs, wn + 16, k);
#pragma unroll
            for (int n = 0; n < 4; n++)
                multiply_add(sum[n], left, right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t m = t.m0 + wm + lane / 4 + j / 2 * 8, column = t.n0 + wn + n * 8 + lane % 4 * 2 + j % 2;
            if (m < t.rows && column < t.columns)
                store(m, column, sum[n][j]);
        }
}

/* The whole product: blockIdx.x is the tile, blockIdx.y the stretch of k, of `splits`. */
template <bool TENSOR, class A, class B, class STORE>
static __device__ __forceinline__ void multiply(const A &a, const B &b, uint32_t rows, uint32_t columns,
                                                uint32_t depth, uint32_t splits, STORE store)
{
    uint32_t across = (columns + TILE - 1) / TILE, each = (depth + splits - 1) / splits;
    struct tile t = {blockIdx.x / across * TILE, rows, blockIdx.x % across * TILE, columns, blockIdx.y * each, 0};
    t.end = min(t.first + each, depth);
    if (TENSOR)
        tensor_tile(a, b, t, store);
    else
        exact_tile(a, b, t, store);
}

#endif
