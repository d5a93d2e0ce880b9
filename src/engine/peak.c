/* peak.c - see peak.h. */
#include "engine/peak.h"

#include "base/clock.h"

enum { TRIES = 5 };

double peak_flops(struct pool *pool)
{
#define ENTRY(isa, name) [ISA_##isa] = name##_##isa,
    static pool_task *const work[] = {EACH_ISA(ENTRY, peak_work)};
    float results[1024] = {0}; /* read and written so that the work cannot be left out */
    size_t n = (size_t)pool_size(pool);
    double best = 0;
    for (int t = 0; t < TRIES; t++) {
        double began = clock_now_s();
        pool_run(pool, n, work[isa_here()], results);
        double flops = 2.0 * PEAK_CHAINS * PEAK_LANES * PEAK_STEPS * (double)n / (clock_now_s() - began);
        best = flops > best ? flops : best;
    }
    return best;
}
