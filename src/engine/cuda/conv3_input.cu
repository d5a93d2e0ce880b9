/* conv3_input.cu - the gradient of a convolution's input.
 *
 *   dx[p][c] = sum over taps and k of dy[p above tap][k] w[k][c][tap]
 *
 * dy is made on the way in from the gradient behind the batchnorm that follows. On the way out dx is completed: what
 * other readers of x sent back is added, x's own relu lets it pass or not, and the sums for the batchnorm that made x
 * are gathered. What this needs is fetched before the products, and is there after them.
 */
#include "engine/cuda/conv3.cuh"

SHARED_MEMORY(conv3_memory);

/* Completes and stores eight channels of dx. */
template <int C> struct completion {
    struct needs {
        uint4 other, z, before;
    };
    const bf16 *other, *z, *before;
    bf16 *out;
    const float *scale; /* [2][C] of the batchnorm before, in device memory */
    bool relu;
    __device__ __forceinline__ completion(const struct conv3_call &c, size_t first, size_t first_other)
    {
        other = c.other ? (const bf16 *)c.other + first_other : NULL;
        z = c.z ? (const bf16 *)c.z + first : NULL;
        before = c.before ? (const bf16 *)c.before + first : NULL;
        out = (bf16 *)c.out + first;
        scale = c.norm.lines + (blockIdx.z * (size_t)NORM_LINES + NORM_SCALE) * C;
        relu = c.before_relu;
    }
    /* `from`: where what comes from other readers lies, or -1 */
    __device__ __forceinline__ void fetch(size_t at, long long from, struct needs *n) const
    {
        if (other && from >= 0)
            n->other = load_eight(other, (size_t)from);
        if (z)
            n->z = load_eight(z, at);
        if (before)
            n->before = load_eight(before, at);
    }
    __device__ __forceinline__ void operator()(size_t at, bool from, int channel, uint4 q, const struct needs &n,
                                               struct lane_sums *sums) const
    {
        float value[8], f[8];
        if (other && from)
            q = add_eight(q, n.other);
        if (z) /* a relu's output: what is not 0 is more */
            q = keep_eight(q, n.z);
        unpack(q, value);
        unpack(n.before, f);
        if (relu) {
            float by[8], to[8];
            eight_floats(scale + channel, by);
            eight_floats(scale + C + channel, to);
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[i] = fmaf(f[i], by[i], to[i]) > 0 ? value[i] : 0;
            q = pack(value); /* exact: these are what they were, or 0 */
        }
        store_eight(out, at, q);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sums->of[i] += value[i];
            sums->of[8 + i] += value[i] * f[i];
        }
    }
};

template <class S>
static __device__ __forceinline__ gradient_source source_of(const struct conv3_call &c, const room3<S> &room)
{
    size_t first = blockIdx.z * (size_t)c.batch * S::SIDE * S::SIDE * S::C;
    struct gradient_source source = {(const bf16 *)c.g + first, (const bf16 *)c.y + first, room.lines, S::C};
    return source;
}

template <class S> static __device__ __forceinline__ void begin(const struct conv3_call &c, const room3<S> &room)
{
    copy_lines(room.lines, c.y_norm, S::C, NORM_BACK_G, 3);
    begin3<S>(room, (const bf16 *)c.weight + blockIdx.z * c.weight_stride);
    __syncthreads();
}

/* The sums over one group, if they are wanted. */
template <class S>
static __device__ __forceinline__ void keep_sums(const struct conv3_call &c, const room3<S> &room,
                                                 const struct lane_sums &sums, uint32_t group)
{
    uint32_t groups = groups_of<S>(c.batch);
    if (c.norm.lines)
        gather_sums<S>(room, sums, c.norm.partial + (blockIdx.z * (size_t)groups + group) * 2 * S::K);
    __syncthreads();
}

template <class S>
static __device__ __forceinline__ void finish(const struct conv3_call &c, const room3<S> &room, double pixels)
{
    uint32_t groups = groups_of<S>(c.batch);
    if (!c.norm.lines || !is_last_block(c.norm.count))
        return;
    double *all = (double *)room.sums;
    add_groups(c.norm.partial + blockIdx.z * (size_t)groups * 2 * S::K, groups, S::K, room.scratch, all);
    finish_backward(&c.norm, c.seats[blockIdx.z], S::K, (double)c.batch * pixels, all);
}

/* One round of MB tiles: SLIDE makes the sums, WHERE says which pixel of dx a pixel of the group is, and where `other`
 * lies for it. */
template <class S, class SLIDE, class WHERE>
static __device__ __forceinline__ void round3(const room3<S> &room, const completion<S::K> &complete, int round, int wn,
                                              struct lane_sums *sums, SLIDE slide, WHERE where)
{
    typename completion<S::K>::needs needs[S::MB][S::TURNS];
    float sum[S::MB][S::NT][4] = {};
    int channel = channel_of_lane<S>(wn);
#pragma unroll
    for (int m = 0; m < S::MB; m++)
#pragma unroll
        for (int turn = 0; turn < S::TURNS; turn++) {
            int p = pixel_in_turn<S>(tile_of<S>(round, m), turn);
            if (p < S::GROUP * S::PIXELS)
                complete.fetch(where.pixel(p) * S::K + channel, where.other(p, channel), &needs[m][turn]);
        }
    slide(sum);
    deliver3<S>(room, sum, round, [&](int m, int turn, uint4 q) {
        int p = pixel_in_turn<S>(tile_of<S>(round, m), turn);
        complete(where.pixel(p) * S::K + channel, where.other(p, channel) >= 0, channel, q, needs[m][turn], sums);
    });
}

/* Stride 1: dx has the pixels of the group. */
template <class S> struct where_plain {
    size_t first;
    __device__ __forceinline__ size_t pixel(int p) const
    {
        return first + p;
    }
    __device__ __forceinline__ long long other(int p, int channel) const
    {
        return (long long)(first + p) * S::K + channel;
    }
};

/* A convolution of dy with the weights turned round (prepare_weights). */
template <class S> static __device__ __forceinline__ void input_gradient(const struct conv3_call &c)
{
    typedef typename S::lines L;
    static_assert(S::GROUP == 1, "one picture, or a part of it");
    room3<S> room(conv3_memory);
    int warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    uint32_t groups = groups_of<S>(c.batch), group = blockIdx.x;
    size_t first = blockIdx.z * (size_t)c.batch * S::OUT * S::OUT * S::K;
    struct gradient_source source = source_of<S>(c, room);
    completion<S::K> complete(c, first, first);
    gradient_source::raw raw[L::PER];
    fetch3<L>(raw, source, first_of<S>(group), group % S::STRIPS, c.batch);
    begin<S>(c, room);
    for (; group < groups; group += gridDim.x) {
        struct lane_sums sums;
        uint32_t next = group + gridDim.x;
        clear(&sums);
        fill3<L>(room.pictures, raw, source, first_of<S>(group), group % S::STRIPS, c.batch);
        __syncthreads();
        if (next < groups)
            fetch3<L>(raw, source, first_of<S>(next), next % S::STRIPS, c.batch);
        where_plain<S> where = {(size_t)group * S::PIXELS};
        for (int round = wm; round < S::ROUNDS; round += S::WM)
            round3<S>(
                room, complete, round, wn, &sums, [&](float (*sum)[S::NT][4]) { slide_round<S>(room, sum, round, wn); },
                where);
        keep_sums<S>(c, room, sums, group);
    }
    finish<S>(c, room, S::OUT * S::OUT);
}

/* Stride 2: the input's pixels fall into four classes by the parity of row and column, and each class meets its own
 * taps: an even row the middle one, an odd row the outer two. */
template <class S, int PY, int PX> struct class_taps {
    static constexpr int N = (1 + PY) * (1 + PX);
    static __device__ __forceinline__ constexpr int ky(int t)
    {
        return PY ? t / (1 + PX) * 2 : 1;
    }
    static __device__ __forceinline__ constexpr int kx(int t)
    {
        return PX ? t % (1 + PX) * 2 : 1;
    }
    static __device__ __forceinline__ constexpr int shift(int t)
    {
        return ((1 + (ky(t) == 0)) * S::WIDE + 1 + (kx(t) == 0)) * S::PITCH; /* counted from the rim */
    }
    static __device__ __forceinline__ constexpr int weight(int t)
    {
        return 8 - (ky(t) * 3 + kx(t));
    }
};

/* A shortcut beside the convolution sent something to the class (even, even) alone, on half of its twice as many
 * channels. */
template <class S, int PY, int PX> struct where_class {
    size_t picture;
    __device__ __forceinline__ size_t pixel(int p) const
    {
        return (picture * 2 * S::OUT + 2 * (p / S::OUT) + PY) * 2 * S::OUT + 2 * (p % S::OUT) + PX;
    }
    __device__ __forceinline__ long long other(int p, int channel) const
    {
        return PY || PX ? -1 : (long long)(picture * S::PIXELS + p) * 2 * S::K + S::K / 2 + channel;
    }
};

template <class S, int PY, int PX>
static __device__ __forceinline__ void class3(const room3<S> &room, const completion<S::K> &complete, int wm, int wn,
                                              size_t picture, struct lane_sums *sums)
{
    where_class<S, PY, PX> where = {picture};
    for (int round = wm; round < S::ROUNDS; round += S::WM)
        round3<S>(
            room, complete, round, wn, sums,
            [&](float (*sum)[S::NT][4]) {
                unsigned pixels[S::MB];
#pragma unroll
                for (int m = 0; m < S::MB; m++)
                    pixels[m] = pixel_of_lane<S>(room, tile_of<S>(round, m));
                slide3<S, class_taps<S, PY, PX>>(sum, pixels, weights_of_lane<S>(room, wn));
            },
            where);
}

template <class S> static __device__ __forceinline__ void input_gradient_strided(const struct conv3_call &c)
{
    typedef typename S::lines L;
    static_assert(S::GROUP == 1 && S::STRIPS == 1, "one picture at a time");
    room3<S> room(conv3_memory);
    int warp = threadIdx.x / 32, wm = warp / S::WN, wn = warp % S::WN;
    uint32_t group = blockIdx.x;
    size_t first = blockIdx.z * (size_t)c.batch * 4 * S::OUT * S::OUT * S::K;
    struct gradient_source source = source_of<S>(c, room);
    completion<S::K> complete(c, first, first / 2);
    gradient_source::raw raw[L::PER];
    fetch3<L>(raw, source, group, 0, c.batch);
    begin<S>(c, room);
    for (; group < c.batch; group += gridDim.x) {
        struct lane_sums sums;
        clear(&sums);
        fill3<L>(room.pictures, raw, source, group, 0, c.batch);
        __syncthreads();
        if (group + gridDim.x < c.batch)
            fetch3<L>(raw, source, group + gridDim.x, 0, c.batch);
        class3<S, 0, 0>(room, complete, wm, wn, group, &sums);
        class3<S, 0, 1>(room, complete, wm, wn, group, &sums);
        class3<S, 1, 0>(room, complete, wm, wn, group, &sums);
        class3<S, 1, 1>(room, complete, wm, wn, group, &sums);
        keep_sums<S>(c, room, sums, group);
    }
    finish<S>(c, room, 4 * S::OUT * S::OUT);
}

#define INPUT(name, in, out, side, stride, pad, n, strips, wm, wn, mb, blocks)                               \
    extern "C" __global__ void __launch_bounds__(32 * wm * wn, blocks)                                            \
        conv3_input_##name(const __grid_constant__ struct conv3_call c)                                      \
    {                                                                                                        \
        input_gradient<shape3<out, in, CONV3_SIDE_OUT(side, stride, pad), 2 - pad, side, 1, n, strips, wm, wn, mb>>( \
            c);                                                                                              \
    }
#define INPUT_STRIDED(name, in, out, side, stride, pad, n, strips, wm, wn, mb, blocks)                       \
    extern "C" __global__ void __launch_bounds__(32 * wm * wn, blocks)                                            \
        conv3_input_##name(const __grid_constant__ struct conv3_call c)                                      \
    {                                                                                                        \
        input_gradient_strided<shape3<out, in, side / 2, 1, side / 2, 1, n, strips, wm, wn, mb>>(c);         \
    }

CONV3_INPUT(INPUT)
CONV3_INPUT_STRIDED(INPUT_STRIDED)
