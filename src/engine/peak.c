/* peak.c - independent chains of multiply-adds that never leave the registers. */
#include "engine/peak.h"

#include "base/clock.h"

enum { CHAINS = 12, LANES = 16, STEPS = 200000, TRIES = 5 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* As many chains as hide the latency of one multiply-add (this file is compiled to contract x * a + b into one). */
static float multiply_add(size_t steps)
{
    lanes x[CHAINS] = {{0}}, sum = {0};
    for (size_t s = 0; s < steps; s++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = x[c] * 0.999f + 0.001f;
    for (int c = 0; c < CHAINS; c++)
        sum += x[c];
    return sum[0];
}

static void work(void *ctx, size_t piece, int worker)
{
    (void)worker;
    ((volatile float *)ctx)[piece] = multiply_add(STEPS);
}

double peak_flops(struct pool *pool)
{
    float results[1024]; /* written so that the work cannot be left out */
    size_t n = (size_t)pool_size(pool);
    double best = 0;
    for (int t = 0; t < TRIES; t++) {
        double began = clock_now_s();
        pool_run(pool, n, work, results);
        double flops = 2.0 * CHAINS * LANES * STEPS * (double)n / (clock_now_s() - began);
        best = flops > best ? flops : best;
    }
    return best;
}
