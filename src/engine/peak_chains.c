/* peak_chains.c - independent chains of multiply-adds that never leave the registers; a hot file (base/isa.h). */
#include "engine/peak.h"

typedef float lanes __attribute__((vector_size(PEAK_LANES * sizeof(float))));

/* As many chains as hide the latency of one multiply-add (this file is compiled to contract x * a + b into one). */
static float multiply_add(size_t steps, volatile const float *start)
{
    lanes x[PEAK_CHAINS], sum = {0};
    for (int c = 0; c < PEAK_CHAINS; c++)
        x[c] = (lanes){0} + *start +
               (float)c; /* read anew for each, or the compiler would keep a single chain */
    for (size_t s = 0; s < steps; s++)
#pragma GCC unroll 12
        for (int c = 0; c < PEAK_CHAINS; c++)
            x[c] = x[c] * 0.999f + 0.001f;
    for (int c = 0; c < PEAK_CHAINS; c++)
        sum += x[c];
    return sum[0];
}

void FOR_ISA(peak_work)(void *ctx, size_t piece, int worker)
{
    (void)worker;
    volatile float *mine = (volatile float *)ctx + piece;
    *mine = multiply_add(PEAK_STEPS, mine);
}
