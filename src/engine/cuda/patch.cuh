/* patch.cuh - patches of pictures on their way into shared memory. */
#ifndef VECHE_ENGINE_CUDA_PATCH_CUH
#define VECHE_ENGINE_CUDA_PATCH_CUH

#include "engine/cuda/multiply.cuh"
#include "engine/cuda/patch.h"

struct corner { /* of a patch, in its picture */
    uint32_t picture, y, x;
};

/* Patches in a batch count along lines, down the picture, over the pictures. */
template <int WIDTH> static __device__ __forceinline__ struct corner corner_of(struct dims d, uint32_t i)
{
    uint32_t across = (d.w + WIDTH - 1) / WIDTH, down = (d.h + PATCH_LINES - 1) / PATCH_LINES;
    struct corner at = {i / across / down, i / across % down * PATCH_LINES, i % across * WIDTH};
    return at;
}

/* Starts copies of N channels from `first` on of a patch WIDTH wide with RIM around it, a pixel's beginning
 * PITCH numbers after the last one's; zeros beyond the picture and after its last channel. Channels go by
 * fours, or in fp32 one by one where there are not as many. */
template <class NUMBER, int WIDTH, int RIM, int N, int PITCH, int THREADS>
static __device__ __forceinline__ void copy_patch(NUMBER *to, const NUMBER *from, struct dims d,
                                                  struct corner at, uint32_t first)
{
    const int across = WIDTH + 2 * RIM, fours = N / 4, all = across * (PATCH_LINES + 2 * RIM) * fours;
#pragma unroll 2
    for (int begin = 0; begin < all; begin += THREADS) {
        int i = begin + threadIdx.x, pixel = i / fours, q = i % fours * 4;
        uint32_t y = at.y + pixel / across - RIM,
                 x = at.x + pixel % across - RIM; /* -1 is beyond every edge */
        bool inside = y < d.h && x < d.w && first + q < d.c;
        const NUMBER *place =
            inside ? from + (((size_t)at.picture * d.h + y) * d.w + x) * d.c + first + q : from;
        unsigned there = shared_at(to + pixel * PITCH + q);
        if (all % THREADS != 0 && i >= all)
            break;
        if (sizeof(NUMBER) < 4 || d.c % 4 == 0)
            start_copy<4 * sizeof(NUMBER)>(there, place, inside);
        else
            for (uint32_t j = 0; j < 4; j++) {
                bool real = inside && first + q + j < d.c;
                start_copy<4>(there + j * 4, real ? place + j : from, real);
            }
    }
}

#endif
