/* place.c - a place in memory for every buffer of a program.
 *
 * The largest goes first, each to the lowest offset where it does not touch a buffer that lives in one of its
 * phases. Buffers of the workers, of the micro-batch and of the run are placed apart. Invariant: two buffers alive in one phase
 * never overlap.
 */
#include <stdlib.h>

#include "engine/dnnl/program.h"

enum { ALIGN = 256 };

static size_t buffer_bytes(const struct program *p, const struct buffer *b)
{
    if (!b->sample_bytes)
        return round_up(b->n_bytes, ALIGN);
    return round_up(b->sample_bytes * (b->is_local ? p->chunk : p->batch), ALIGN);
}

static bool is_used(const struct buffer *b)
{
    return b->first <= b->last;
}

static bool clashes(const struct buffer *a, const struct buffer *b)
{
    return a->is_local == b->is_local && a->is_kept == b->is_kept && a->first <= b->last &&
           b->first <= a->last;
}

/* The lowest offset at or after which nothing placed before is in b's way. */
static size_t lowest_gap(const struct program *p, const struct buffer *b, struct buffer *const *placed,
                         size_t n)
{
    size_t at = 0, n_bytes = buffer_bytes(p, b);
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n; i++) {
            size_t end = placed[i]->at + buffer_bytes(p, placed[i]);
            if (clashes(b, placed[i]) && at < end && placed[i]->at < at + n_bytes) {
                at = end;
                moved = true;
            }
        }
    }
    return at;
}

static int stretch_of(const struct program *p, int phase)
{
    return (phase >= p->stretch[1]) + (phase >= p->stretch[2]);
}

/* In lessons and exams nothing is kept: one run has all stretches. */
static bool is_kept(const struct program *p, const struct buffer *b)
{
    return p->kind >= PLAN_PASSES && !b->is_local && !b->is_prepared &&
           stretch_of(p, b->first) != stretch_of(p, b->last);
}

void program_place_buffers(struct program *p)
{
    struct buffer **order = ARENA_NEW(&p->arena, struct buffer *, p->n_buffers);
    if (!order) {
        p->is_full = true;
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < p->n_buffers; i++) {
        struct buffer *b = &p->buffers[i];
        if (!is_used(b))
            continue;
        if (!b->is_whole && b->sample_bytes && b->first == b->last)
            b->is_local = true;
        b->is_kept = is_kept(p, b);
        size_t k = n++;
        for (; k > 0 && buffer_bytes(p, order[k - 1]) < buffer_bytes(p, b); k--)
            order[k] = order[k - 1];
        order[k] = b;
    }
    for (size_t i = 0; i < n; i++) {
        struct buffer *b = order[i];
        b->at = lowest_gap(p, b, order, i);
        size_t *top = b->is_local ? &p->local_bytes : b->is_kept ? &p->n_kept : &p->n_bytes;
        if (b->at + buffer_bytes(p, b) > *top)
            *top = b->at + buffer_bytes(p, b);
    }
}
