/* samples_read.c - samples laid end to end as files come in. */
#include <stdlib.h>

#include "base/arena.h"
#include "data/reader.h"

/* A pick names its sample by 32 bits. */
static const uint64_t most_samples = UINT32_MAX;

fault part_grow(struct part *p, const char *name, size_t more, size_t c, size_t h, size_t w)
{
    if (p->n && (p->c != c || p->h != h || p->w != w))
        return FAIL(FAULT_DATA, "%s: samples of %zu x %zu x %zu come after samples of %zu x %zu x %zu", name,
                    c, h, w, p->c, p->h, p->w);
    size_t n, one, all, n_labels;
    if (__builtin_add_overflow(p->n, more, &n) || __builtin_mul_overflow(c, h, &one) ||
        __builtin_mul_overflow(one, w, &one) || __builtin_mul_overflow(one, n, &all) ||
        __builtin_mul_overflow(n, sizeof *p->labels, &n_labels) || n > most_samples)
        return FAIL(FAULT_DATA, "%s: more samples than can be counted", name);
    uint8_t *pixels = p->on_disk ? NULL : realloc(p->pixels, all ? all : 1);
    if (!pixels && !p->on_disk)
        return OUT_OF_MEMORY;
    p->pixels = pixels;
    p->extents.n_bytes = one;
    uint16_t *labels = realloc(p->labels, n_labels ? n_labels : 1);
    if (!labels)
        return OUT_OF_MEMORY;
    p->labels = labels;
    p->n = n;
    p->c = c;
    p->h = h;
    p->w = w;
    return OK;
}

void part_measure(const struct part *p, const uint8_t *pixels, size_t n, struct sums sums[MOST_CHANNELS])
{
    size_t plane = p->h * p->w;
    for (size_t i = 0; i < n * p->c; i++) {
        const uint8_t *at = pixels + i * plane;
        uint64_t sum = 0, squares = 0;
        for (size_t j = 0; j < plane; j++) {
            sum += at[j];
            squares += (uint64_t)at[j] * at[j];
        }
        sums[i % p->c].sum += sum;
        sums[i % p->c].squares += squares;
    }
}

void part_close(struct part *p)
{
    free(p->pixels);
    free(p->labels);
    extents_close(&p->extents);
    *p = (struct part){0};
}
