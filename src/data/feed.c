/* feed.c - an agent's samples in random order, epoch after epoch, cut into batches.
 *
 * Position p of the endless list is sample order_e[p mod n] of epoch e = p / n, where order_e is the share
 * shuffled by the stream (seed, agent, RNG_ORDER, e). Round k takes positions k*batch .. (k+1)*batch - 1 and
 * its flips and shifts from the stream (seed, agent, RNG_AUGMENT, k). So a batch follows from k alone; the
 * one order kept is a cache.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/stream/stream.h"

static void lay_out_epoch(struct feed *f, uint64_t epoch)
{
    struct rng r = rng_stream(f->seed, f->agent, RNG_ORDER, epoch);
    memcpy(f->order, f->share, f->n_share * sizeof *f->order);
    rng_shuffle(&r, f->order, f->n_share);
    f->epoch = epoch;
}

fault feed_init(struct feed *f, const struct data_settings *settings, uint64_t seed, uint32_t agent,
                const uint32_t *share, size_t n_share)
{
    if (n_share == 0)
        return FAIL(FAULT_DATA, "agent %u has no samples", agent);
    if (settings->batch < 1)
        return FAIL(FAULT_DATA, "data.batch: %lld samples make no batch", (long long)settings->batch);
    if (settings->crop < 0 || settings->crop > INT8_MAX)
        return FAIL(FAULT_DATA, "data.crop: %lld is not between 0 and %d", (long long)settings->crop,
                    INT8_MAX);
    uint32_t *order = malloc(n_share * sizeof *order);
    if (!order)
        return OUT_OF_MEMORY;
    *f = (struct feed){.seed = seed,
                       .agent = agent,
                       .batch = (size_t)settings->batch,
                       .share = share,
                       .n_share = n_share,
                       .flip = settings->flip,
                       .crop = (int)settings->crop,
                       .order = order};
    lay_out_epoch(f, 0);
    return OK;
}

fault feed_copy(const struct feed *f, struct feed *out)
{
    uint32_t *order = malloc(f->n_share * sizeof *order);
    if (!order)
        return OUT_OF_MEMORY;
    memcpy(order, f->order, f->n_share * sizeof *order);
    *out = *f;
    out->order = order;
    out->ahead = NULL;
    return OK;
}

void feed_release(struct feed *f)
{
    free(f->order);
    *f = (struct feed){0};
}

static int8_t shift(struct rng *r, int crop)
{
    return (int8_t)((int)rng_below(r, 2 * (uint64_t)crop + 1) - crop);
}

void feed_batch(struct feed *f, uint64_t k, struct pick *picks)
{
    struct rng r = rng_stream(f->seed, f->agent, RNG_AUGMENT, k);
    uint64_t position = k * f->batch, epoch = position / f->n_share;
    size_t at = (size_t)(position % f->n_share);
    for (size_t i = 0; i < f->batch; i++, at++) {
        if (at == f->n_share) {
            at = 0;
            epoch++;
        }
        if (epoch != f->epoch)
            lay_out_epoch(f, epoch);
        struct pick p = {.sample = f->order[at]};
        if (f->flip)
            p.flip = (int8_t)rng_below(&r, 2);
        if (f->crop) {
            p.dy = shift(&r, f->crop);
            p.dx = shift(&r, f->crop);
        }
        picks[i] = p;
    }
    if (f->ahead)
        stream_announce(f->ahead->stream, f, k, picks);
}

double feed_epochs(const struct feed *f, uint64_t k)
{
    return (double)k * (double)f->batch / (double)f->n_share;
}
