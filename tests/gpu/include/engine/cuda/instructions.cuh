/* instructions.cuh - in place of src/engine/cuda/instructions.cuh: the same for a pretended GPU, a warp's lanes together. */
#ifndef VECHE_ENGINE_CUDA_INSTRUCTIONS_CUH
#define VECHE_ENGINE_CUDA_INSTRUCTIONS_CUH

/* Addresses in shared memory are short: counted from somewhere near. */
static inline unsigned shared_at(const void *p)
{
    return (unsigned)((const char *)p - gpu_shared_memory);
}

static inline const char *shared_from(unsigned at)
{
    return gpu_shared_memory + (int)at;
}

template <int BYTES> static inline void start_copy(unsigned to, const void *from, bool real)
{
    gpu_start_copy((char *)shared_from(to), real ? from : nullptr, BYTES);
}

static inline void wait_for_copies(void)
{
    gpu_wait_for_copies();
}

static inline void load_matrices(unsigned *r, unsigned at)
{
    const unsigned *mine = gpu_together(&at, 1, [](const gpu_words &all, gpu_words &out) {
        for (int lane = 0; lane < GPU_LANES; lane++)
            for (int m = 0; m < 4; m++)
                std::memcpy(&out.of[lane][m], shared_from(all.of[8 * m + lane / 4][0]) + lane % 4 * 4, 4);
    });
    std::memcpy(r, mine, 16);
}

static inline void load_matrices_turned(unsigned *r, unsigned at)
{
    const unsigned *mine = gpu_together(&at, 1, [](const gpu_words &all, gpu_words &out) {
        for (int lane = 0; lane < GPU_LANES; lane++)
            for (int m = 0; m < 4; m++) {
                uint16_t two[2];
                for (int i = 0; i < 2; i++)
                    std::memcpy(&two[i], shared_from(all.of[8 * m + lane % 4 * 2 + i][0]) + lane / 4 * 2, 2);
                out.of[lane][m] = two[0] | (unsigned)two[1] << 16;
            }
    });
    std::memcpy(r, mine, 16);
}

/* d += a b by lanes that hold four sums, four words of a and two of b, DEEP numbers of k in all. */
template <int DEEP, class A, class B>
static inline void multiply_add_lanes(const gpu_words &all, gpu_words &out, A a_at, B b_at)
{
    float a[16][DEEP], b[DEEP][8];
    double sum[16][8] = {};
    for (int lane = 0; lane < GPU_LANES; lane++) {
        a_at(a, lane, all.of[lane] + 4);
        b_at(b, lane, all.of[lane] + 8);
    }
    for (int m = 0; m < 16; m++)
        for (int k = 0; k < DEEP; k++)
            for (int n = 0; n < 8; n++)
                sum[m][n] += (double)a[m][k] * b[k][n];
    for (int lane = 0; lane < GPU_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            double more = sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
            out.of[lane][i] = __float_as_uint((float)(__uint_as_float(all.of[lane][i]) + more));
        }
}

static inline void multiply_together(float *d, const unsigned *a, unsigned b0, unsigned b1, gpu_answer *answer)
{
    unsigned words[10];
    std::memcpy(words, d, 16);
    std::memcpy(words + 4, a, 16);
    words[8] = b0;
    words[9] = b1;
    std::memcpy(d, gpu_together(words, 10, answer), 16);
}

static inline float low_half(unsigned two) { return __uint_as_float(two << 16); }
static inline float high_half(unsigned two) { return __uint_as_float(two & 0xffff0000u); }

static inline void multiply_add(float *d, const unsigned *a, unsigned b0, unsigned b1)
{
    multiply_together(d, a, b0, b1, [](const gpu_words &all, gpu_words &out) {
        multiply_add_lanes<16>(
            all, out,
            [](float (*to)[16], int lane, const unsigned *w) {
                for (int i = 0; i < 4; i++) {
                    float *at = to[lane / 4 + i % 2 * 8] + lane % 4 * 2 + i / 2 * 8;
                    at[0] = low_half(w[i]);
                    at[1] = high_half(w[i]);
                }
            },
            [](float (*to)[8], int lane, const unsigned *w) {
                for (int i = 0; i < 2; i++) {
                    to[lane % 4 * 2 + i * 8][lane / 4] = low_half(w[i]);
                    to[lane % 4 * 2 + i * 8 + 1][lane / 4] = high_half(w[i]);
                }
            });
    });
}

/* The last 13 bits do not count. */
static inline float tf32(unsigned x) { return __uint_as_float(x & 0xffffe000u); }

static inline void multiply_add_tf32(float *d, const unsigned *a, unsigned b0, unsigned b1)
{
    multiply_together(d, a, b0, b1, [](const gpu_words &all, gpu_words &out) {
        multiply_add_lanes<8>(
            all, out,
            [](float (*to)[8], int lane, const unsigned *w) {
                for (int i = 0; i < 4; i++)
                    to[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = tf32(w[i]);
            },
            [](float (*to)[8], int lane, const unsigned *w) {
                for (int i = 0; i < 2; i++)
                    to[lane % 4 + i * 4][lane / 4] = tf32(w[i]);
            });
    });
}

static inline unsigned pack_two(float low, float high)
{
    return bits_of_bf16(low) | (unsigned)bits_of_bf16(high) << 16;
}

static inline unsigned add_two(unsigned a, unsigned b)
{
    return pack_two(low_half(a) + low_half(b), high_half(a) + high_half(b));
}

#endif
