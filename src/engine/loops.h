/* loops.h - the loops over numbers that all engines on the host share, compiled for each instruction set. */
#ifndef VECHE_ENGINE_LOOPS_H
#define VECHE_ENGINE_LOOPS_H

#include "base/isa.h"
#include "data/data.h"

struct loops {
    /* sum = w x where it is the first term, else sum += w x. Every weighted sum is made by this, term after
     * term, so that a sum has the same bits wherever it is made. */
    void (*take_term)(float *restrict sum, bool is_first, float w, const float *restrict x, size_t n);
    void (*add)(float *to, const float *a, const float *b, size_t n); /* to = a + b */
    /* The sum of a b over one block of a dot product; see host_dot. */
    double (*dot)(const float *a, const float *b, size_t n);
    void (*sample)(const struct samples *s, const uint8_t *bytes, struct pick pick,
                   float *out); /* host_sample */
};

const struct loops *loops_of(enum isa isa);

#endif
