/* fused.cu - what stands around the convolutions of conv3.h: their weights in bf16, residual sums, pools, and the last
 * sums of the gradients. A thread has eight channels of a pixel in its hands.
 */
#include "engine/cuda/mma.cuh"
#include "engine/cuda/sums.cuh"

SHARED_MEMORY(fused_memory);

/* Which entry a block belongs to: the last whose first block is not after it. */
template <class ENTRY> static __device__ __forceinline__ ENTRY entry_of(const ENTRY *entries, uint32_t n)
{
    uint32_t i = 0;
    while (i + 1 < n && entries[i + 1].first_block <= blockIdx.x)
        i++;
    return entries[i];
}

/* [out][in][9] floats -> forward [9][out][in], backward [9][in][out] with the taps turned round; both in bf16, missing
 * input channels as zeros. A block takes sixteen output channels. */
extern "C" __global__ void prepare_weights(const __grid_constant__ struct prepare_call c)
{
    __shared__ __align__(16) float all[9 * (PREPARE_CHANNELS * 64 + 4)]; /* [tap][o][i]; taps on other banks */
    struct prepare_entry e = entry_of(c.entries, c.n_entries);
    uint32_t first = (blockIdx.x - e.first_block) * PREPARE_CHANNELS, vectors = e.in_filled / 8;
    uint32_t step = PREPARE_CHANNELS * e.in_filled + 4;
    const float *from = c.seats[blockIdx.z].params + e.from + (size_t)first * e.in * 9;
    bf16 *to = (bf16 *)c.weights + blockIdx.z * c.stride;
    if (e.in < e.in_filled) {
        for (uint32_t i = threadIdx.x; i < 9 * step; i += blockDim.x)
            all[i] = 0;
        __syncthreads();
    }
    for (uint32_t i = threadIdx.x; i < PREPARE_CHANNELS * e.in * 9; i += blockDim.x)
        all[i % 9 * step + i / 9 / e.in * e.in_filled + i / 9 % e.in] = from[i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 9 * PREPARE_CHANNELS * vectors; i += blockDim.x) {
        uint32_t tap = i / (PREPARE_CHANNELS * vectors), at = i % (PREPARE_CHANNELS * vectors) * 8;
        const float *f = all + tap * step + at;
        float4 low = *(const float4 *)f, high = *(const float4 *)(f + 4);
        float eight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        store_eight(to, e.forward_at + ((size_t)tap * e.out + first) * e.in_filled + at, pack(eight));
    }
    for (uint32_t i = threadIdx.x; i < 9 * e.in * (PREPARE_CHANNELS / 8); i += blockDim.x) {
        uint32_t o = i % (PREPARE_CHANNELS / 8) * 8, channel = i / (PREPARE_CHANNELS / 8) % e.in;
        uint32_t tap = i / (PREPARE_CHANNELS / 8) / e.in;
        float f[8];
#pragma unroll
        for (uint32_t k = 0; k < 8; k++)
            f[k] = all[tap * step + (o + k) * e.in_filled + channel];
        store_eight(to, e.backward_at + ((size_t)(8 - tap) * e.in + channel) * e.out + first + o, pack(f));
    }
}

/* The shares of the weights' gradients, added in order: four lines of threads take a quarter of the shares each, and
 * are added in order. No splits: zeros. */
extern "C" __global__ void sum_stretches(const __grid_constant__ struct stretch_call c)
{
    __shared__ float4 sums[4][STRETCH_BLOCK / 4];
    struct stretch_entry e = entry_of(c.entries, c.n_entries);
    uint32_t lane = threadIdx.x % (STRETCH_BLOCK / 4), line = threadIdx.x / (STRETCH_BLOCK / 4);
    uint64_t i = (uint64_t)(blockIdx.x - e.first_block) * STRETCH_BLOCK + lane * 4;
    const float *from = c.stretches + blockIdx.z * (size_t)c.most_splits * c.stretch_stride + e.first + i;
    struct seat seat = c.seats[blockIdx.z];
    float *to = seat.grads + e.first + i;
    uint32_t each = (e.splits + 3) / 4, end = min((line + 1) * each, e.splits);
    float4 sum = make_float4(0, 0, 0, 0);
    if (i < e.size)
#pragma unroll 8
        for (uint32_t s = line * each; s < end; s++) {
            float4 x = __ldcs((const float4 *)(from + s * c.stretch_stride));
            sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
        }
    sums[line][lane] = sum;
    __syncthreads();
    if (line > 0 || i >= e.size)
        return;
    for (int l = 1; l < 4; l++) {
        float4 x = sums[l][lane];
        sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
    }
    if (seat.adds) {
        float4 old = *(const float4 *)to;
        sum = make_float4(old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w);
    }
    *(float4 *)to = sum;
}

static __device__ __forceinline__ const float *lines_of(const float *norm, uint32_t channels)
{
    return norm + blockIdx.z * (size_t)NORM_LINES * channels;
}

/* Eight normalised numbers of channels from k on. */
static __device__ __forceinline__ void normalise(const float *lines, uint32_t channels, uint32_t k, uint4 raw,
                                                 float *f)
{
    unpack(raw, f);
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] = fmaf(f[i], lines[NORM_SCALE * channels + k + i], lines[NORM_SHIFT * channels + k + i]);
}

/* Eight numbers of the side that is added; pixel i / channels of the seat, channels from k on. */
static __device__ __forceinline__ void side_of(const struct fused_add_call &c, size_t i, uint32_t k, float *f)
{
    size_t seat = blockIdx.z * (size_t)c.batch * size_of(c.dims);
    if (c.side_norm) {
        normalise(lines_of(c.side_norm, c.dims.c), c.dims.c, k, load_eight(c.side, seat + i), f);
#pragma unroll
        for (int j = 0; j < 8; j++)
            f[j] = fmaxf(f[j], 0.f);
        return;
    }
    if (!c.shortcut) {
        unpack(load_eight(c.side, seat + i), f);
        return;
    }
    uint32_t half = c.dims.c / 2, before = half / 2, p = i / c.dims.c, x = p % c.dims.w, y = p / c.dims.w % c.dims.h;
    size_t n = p / (c.dims.h * c.dims.w);
    if (k < before || k >= before + half) {
#pragma unroll
        for (int j = 0; j < 8; j++)
            f[j] = 0;
        return;
    }
    size_t at = ((n * 2 * c.dims.h + 2 * y) * 2 * c.dims.w + 2 * x) * half + k - before;
    unpack(load_eight(c.side, 2 * seat + at), f);
}

extern "C" __global__ void fused_add(const __grid_constant__ struct fused_add_call c)
{
    size_t n = c.batch * size_of(c.dims), seat = blockIdx.z * n;
    for (size_t i = my_first() * 8; i < n; i += my_step() * 8) {
        uint32_t k = i % c.dims.c;
        float f[8], side[8];
        normalise(lines_of(c.y_norm, c.dims.c), c.dims.c, k, load_eight(c.y, seat + i), f);
        side_of(c, i, k, side);
#pragma unroll
        for (int j = 0; j < 8; j++)
            f[j] = fmaxf(f[j] + side[j], 0.f);
        store_eight(c.z, seat + i, pack(f));
    }
}

/* Sums of a block over one picture (blockIdx.x), each thread with fixed channels, into the picture's place; then the
 * seat's last block finishes the batchnorm. Dynamic shared memory: [threads][16] floats. */
static __device__ __forceinline__ void finish_picture(const struct fused_pool_call &c, const float *a, const float *b)
{
    float *all = (float *)fused_memory;
    uint32_t channels = c.in.c, eights = channels / 8, lines = blockDim.x / eights;
    for (int i = 0; i < 8; i++) {
        all[threadIdx.x * 16 + i] = a[i];
        all[threadIdx.x * 16 + 8 + i] = b[i];
    }
    __syncthreads();
    float *place = c.norm.partial + (blockIdx.z * (size_t)c.batch + blockIdx.x) * 2 * channels;
    for (uint32_t k = threadIdx.x; k < 2 * channels; k += blockDim.x) {
        uint32_t channel = k % channels, which = k / channels;
        float sum = 0;
        for (uint32_t l = 0; l < lines; l++)
            sum += all[(l * eights + channel / 8) * 16 + which * 8 + channel % 8];
        place[k] = sum;
    }
    if (!is_last_block(c.norm.count))
        return;
    double *scratch = (double *)fused_memory, *sums = scratch + blockDim.x;
    add_groups(c.norm.partial + blockIdx.z * (size_t)c.batch * 2 * channels, c.batch, channels, scratch, sums);
    finish_backward(&c.norm, c.seats[blockIdx.z], channels, (double)c.batch * c.in.h * c.in.w, sums);
}

/* A global pool of z: a block takes a picture; lines of pixels are added in order. Dynamic shared memory as above. */
extern "C" __global__ void fused_globalpool_forward(const __grid_constant__ struct fused_pool_call c)
{
    float *all = (float *)fused_memory;
    uint32_t pixels = c.in.h * c.in.w, size = pixels * c.in.c, eights = c.in.c / 8, lines = blockDim.x / eights;
    size_t picture = blockIdx.z * (size_t)c.batch + blockIdx.x;
    float sum[8] = {};
    for (uint32_t i = threadIdx.x * 8; i < size; i += blockDim.x * 8) {
        float z[8];
        unpack(load_eight(c.z, picture * size + i), z);
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum[j] += z[j];
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
        all[threadIdx.x * 8 + j] = sum[j];
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < c.in.c; k += blockDim.x) {
        float total = 0;
        for (uint32_t l = 0; l < lines; l++)
            total += all[(l * eights + k / 8) * 8 + k % 8];
        put(c.pooled, picture * c.in.c + k, total / (float)pixels);
    }
}

/* Backward of a global pool over z = relu(normalised y + side): a block takes a picture. */
extern "C" __global__ void fused_globalpool_backward(const __grid_constant__ struct fused_pool_call c)
{
    uint32_t pixels = c.in.h * c.in.w, size = pixels * c.in.c, k = threadIdx.x * 8 % c.in.c;
    size_t picture = blockIdx.z * (size_t)c.batch + blockIdx.x;
    float dy[8], a[8] = {}, b[8] = {};
#pragma unroll
    for (int j = 0; j < 8; j++)
        dy[j] = get(c.pooled, picture * c.in.c + k + j) / (float)pixels;
    for (uint32_t i = threadIdx.x * 8; i < size; i += blockDim.x * 8) {
        float z[8], y[8], g[8];
        unpack(load_eight(c.z, picture * size + i), z);
        unpack(load_eight(c.y, picture * size + i), y);
#pragma unroll
        for (int j = 0; j < 8; j++)
            g[j] = z[j] > 0 ? dy[j] : 0;
        uint4 q = pack(g);
        store_eight(c.g, picture * size + i, q);
        unpack(q, g);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            a[j] += g[j];
            b[j] += g[j] * y[j];
        }
    }
    finish_picture(c, a, b);
}

static __device__ __forceinline__ uint4 eight_pooled(struct numbers x, size_t i)
{
    if (x.half)
        return load_eight(x.at, i);
    float f[8];
    for (int j = 0; j < 8; j++)
        f[j] = ((const float *)x.at)[i + j];
    return pack(f);
}

/* Max pool 2 x 2 of relu(normalised y). */
extern "C" __global__ void fused_maxpool_forward(const __grid_constant__ struct fused_pool_call c)
{
    uint32_t oh = c.in.h / 2, ow = c.in.w / 2, channels = c.in.c;
    const float *lines = lines_of(c.norm.lines, channels);
    size_t n = (size_t)c.batch * oh * ow * channels, seat = blockIdx.z * (size_t)c.batch;
    for (size_t i = my_first() * 8; i < n; i += my_step() * 8) {
        uint32_t k = i % channels, x = i / channels % ow, y = i / channels / ow % oh;
        size_t picture = seat + i / channels / ow / oh;
        float most[8] = {};
        for (int w = 0; w < 4; w++) {
            float f[8];
            size_t at = ((picture * c.in.h + 2 * y + w / 2) * c.in.w + 2 * x + w % 2) * channels + k;
            normalise(lines, channels, k, load_eight(c.y, at), f);
#pragma unroll
            for (int j = 0; j < 8; j++)
                most[j] = fmaxf(most[j], f[j]);
        }
        size_t to = seat * oh * ow * channels + i;
        if (c.pooled.half)
            store_eight(c.pooled.at, to, pack(most));
        else
            for (int j = 0; j < 8; j++)
                ((float *)c.pooled.at)[to + j] = most[j];
    }
}

/* Its backward: a block takes a picture, a thread eight channels of a window; the first largest takes the gradient. */
extern "C" __global__ void fused_maxpool_backward(const __grid_constant__ struct fused_pool_call c)
{
    uint32_t oh = c.in.h / 2, ow = c.in.w / 2, channels = c.in.c, size = oh * ow * channels;
    uint32_t k = threadIdx.x * 8 % channels;
    const float *lines = lines_of(c.norm.lines, channels);
    size_t picture = blockIdx.z * (size_t)c.batch + blockIdx.x;
    float a[8] = {}, b[8] = {};
    for (uint32_t i = threadIdx.x * 8; i < size; i += blockDim.x * 8) {
        uint32_t x = i / channels % ow, y = i / channels / ow;
        float dy[8], most[8] = {}, raw[4][8];
        int best[8] = {-1, -1, -1, -1, -1, -1, -1, -1}; /* none where the relu let nothing pass */
        size_t at = ((picture * c.in.h + 2 * y) * c.in.w + 2 * x) * channels + k;
        unpack(eight_pooled(c.pooled, picture * size + i), dy);
#pragma unroll
        for (int w = 0; w < 4; w++) {
            uint4 q = load_eight(c.y, at + ((size_t)(w / 2) * c.in.w + w % 2) * channels);
            float f[8];
            unpack(q, raw[w]);
            normalise(lines, channels, k, q, f);
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (f[j] > most[j]) {
                    most[j] = f[j];
                    best[j] = w;
                }
        }
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float g[8];
#pragma unroll
            for (int j = 0; j < 8; j++) {
                g[j] = best[j] == w ? dy[j] : 0;
                a[j] += g[j];
                b[j] += g[j] * raw[w][j];
            }
            store_eight(c.g, at + ((size_t)(w / 2) * c.in.w + w % 2) * channels, pack(g));
        }
    }
    finish_picture(c, a, b);
}

/* Lines of a batchnorm from the running statistics. */
extern "C" __global__ void exam_norm(const __grid_constant__ struct exam_norm_call c)
{
    uint32_t k = threadIdx.x;
    struct seat seat = c.seats[blockIdx.z];
    if (k < c.channels)
        write_scale(c.norm.lines + blockIdx.z * (size_t)NORM_LINES * c.channels, c.channels, k,
                    seat.params[c.norm.weight + k], seat.params[c.norm.bias + k], seat.stats[c.norm.mean + k],
                    rsqrt(seat.stats[c.norm.var + k] + c.norm.eps));
}
