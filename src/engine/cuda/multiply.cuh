/* multiply.cuh - one tile of a matrix product whose factors are described, not stored.
 *
 *   out(m, n) = sum over k of A(m, k) B(n, k)
 *
 * A factor says how to find an element: `row(m)` and `column(k)` do the divisions once, `at(row, column)` loads (or
 * answers 0 for padding). So convolutions, their gradients and linear layers are one loop. The tile is 64 x 64, 16
 * deep, 256 threads of 4 x 4 sums each; k runs in order, so the bits do not depend on how tiles are scheduled.
 */
#ifndef VECHE_ENGINE_CUDA_MULTIPLY_CUH
#define VECHE_ENGINE_CUDA_MULTIPLY_CUH

#include "engine/cuda/device.cuh"

enum { TILE = 64, DEPTH = 16, TILE_THREADS = 256, EACH = TILE * DEPTH / TILE_THREADS };

/* Loads a factor's tile into shared memory. Threads run along the rows first where neighbours in memory are rows. */
template <class FACTOR>
static __device__ __forceinline__ void load_tile(const FACTOR &f, uint32_t first_row, uint32_t rows,
                                                 uint32_t first, uint32_t end, float tile[DEPTH][TILE + 4])
{
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t e = threadIdx.x + i * TILE_THREADS;
        uint32_t r = FACTOR::rows_lead ? e % TILE : e / DEPTH, k = FACTOR::rows_lead ? e / TILE : e % DEPTH;
        bool inside = first_row + r < rows && first + k < end;
        tile[k][r] = inside ? f.at(f.row(first_row + r), f.column(first + k)) : 0;
    }
}

/* The tile of rows [m0, m0 + 64) and columns [n0, n0 + 64), summed over [first, end). `store(m, n, sum)` is called
 * for each element inside the matrix. */
template <class A, class B, class STORE>
static __device__ __forceinline__ void multiply_tile(const A &a, const B &b, uint32_t m0, uint32_t rows,
                                                     uint32_t n0, uint32_t columns, uint32_t first,
                                                     uint32_t end, STORE store)
{
    __shared__ float as[DEPTH][TILE + 4], bs[DEPTH][TILE + 4];
    uint32_t tm = threadIdx.x / 16 * 4, tn = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (uint32_t k0 = first; k0 < end; k0 += DEPTH) {
        load_tile(a, m0, rows, k0, end, as);
        load_tile(b, n0, columns, k0, end, bs);
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < DEPTH; k++) {
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
            if (m0 + tm + i < rows && n0 + tn + j < columns)
                store(m0 + tm + i, n0 + tn + j, sum[i][j]);
}

/* The whole product: blockIdx.x is the tile, blockIdx.y the stretch of k, of `splits`. */
template <class A, class B, class STORE>
static __device__ __forceinline__ void multiply(const A &a, const B &b, uint32_t rows, uint32_t columns,
                                                uint32_t depth, uint32_t splits, STORE store)
{
    uint32_t across = (columns + TILE - 1) / TILE;
    uint32_t m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
    uint32_t each = (depth + splits - 1) / splits, first = blockIdx.y * each;
    multiply_tile(a, b, m0, rows, n0, columns, first, min(first + each, depth), store);
}

#endif
