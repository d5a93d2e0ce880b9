/* intake.c - samples laid end to end as files come in. */
#include <stdlib.h>

#include "base/arena.h"
#include "data/reader.h"

/* A pick names its sample by 32 bits. */
static const uint64_t most_samples = UINT32_MAX;

fault intake_grow(struct intake *in, const char *name, size_t more, size_t c, size_t h, size_t w)
{
    if (in->n && (in->c != c || in->h != h || in->w != w))
        return FAIL(FAULT_DATA, "%s: samples of %zu x %zu x %zu come after samples of %zu x %zu x %zu", name,
                    c, h, w, in->c, in->h, in->w);
    size_t n, one, all, n_labels;
    if (__builtin_add_overflow(in->n, more, &n) || __builtin_mul_overflow(c, h, &one) ||
        __builtin_mul_overflow(one, w, &one) || __builtin_mul_overflow(one, n, &all) ||
        __builtin_mul_overflow(n, sizeof *in->labels, &n_labels) || n > most_samples)
        return FAIL(FAULT_DATA, "%s: more samples than can be counted", name);
    uint8_t *pixels = in->on_disk ? NULL : realloc(in->pixels, all ? all : 1);
    if (!pixels && !in->on_disk)
        return OUT_OF_MEMORY;
    in->pixels = pixels;
    in->extents.n_bytes = one;
    uint16_t *labels = realloc(in->labels, n_labels ? n_labels : 1);
    if (!labels)
        return OUT_OF_MEMORY;
    in->labels = labels;
    in->n = n;
    in->c = c;
    in->h = h;
    in->w = w;
    return OK;
}

void intake_measure(const struct intake *in, const uint8_t *pixels, size_t n, struct sums sums[MOST_CHANNELS])
{
    size_t plane = in->h * in->w;
    for (size_t i = 0; i < n * in->c; i++) {
        const uint8_t *at = pixels + i * plane;
        uint64_t sum = 0, squares = 0;
        for (size_t j = 0; j < plane; j++) {
            sum += at[j];
            squares += (uint64_t)at[j] * at[j];
        }
        sums[i % in->c].sum += sum;
        sums[i % in->c].squares += squares;
    }
}

void intake_close(struct intake *in)
{
    free(in->pixels);
    free(in->labels);
    extents_close(&in->extents);
    *in = (struct intake){0};
}
