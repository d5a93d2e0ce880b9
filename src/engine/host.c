/* host.c - rows in one block of memory, optimiser steps in slices, pictures from bytes. The loops over
 * numbers are in loops.c.
 *
 * The slices of an update are cut at fixed places, not by the number of workers, and every element is stepped
 * by itself: the result is the same bits on any number of threads.
 */
#include "engine/host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/loops.h"

enum { ROW_ALIGN = 16, SLICE = 16384, TILE = 1024, DOT_BLOCK = 4096 }; /* floats */

static size_t n_rows_of(const struct engine_setup *s)
{
    return s->n_replicas + s->n_spare;
}

static void lay_out(struct host *h)
{
    size_t n_rows = n_rows_of(&h->engine.setup);
    float *at = h->memory.bytes;
    for (enum row row = 0; row < h->engine.setup.rows.n; row++) {
        h->rows[row] = h->rows[0] + row * n_rows;
        for (size_t i = 0; i < n_rows; i++, at += h->stride[row])
            h->rows[row][i] = at;
    }
}

static fault open_rows(struct host *h)
{
    const struct engine_setup *s = &h->engine.setup;
    size_t n_floats = 0;
    for (enum row row = 0; row < s->rows.n; row++) {
        h->stride[row] = round_up(row_size(s, row), ROW_ALIGN);
        n_floats += h->stride[row] * n_rows_of(s);
    }
    h->rows[0] = calloc(s->rows.n * n_rows_of(s), sizeof *h->rows[0]);
    if (!h->rows[0])
        return OUT_OF_MEMORY;
    fault f = (s->rows_on_host ? block_open_shared : block_open)(n_floats * sizeof(float), &h->memory);
    if (f) {
        free(h->rows[0]);
        return f;
    }
    h->engine.shared = h->memory.is_shared ? &h->memory : NULL;
    lay_out(h);
    return OK;
}

static void close_rows(struct host *h)
{
    block_close(&h->memory);
    free(h->rows[0]);
}

/* Slots are written even where they start at zero: else the first step would wait for their memory. */
static void start_rows(struct host *h)
{
    const struct engine_setup *s = &h->engine.setup;
    for (enum row row = 0; row < s->rows.n; row++) {
        bool is_slot = row >= ROW_SLOT && row < ROW_KEPT;
        for (size_t i = 0; (is_slot || s->rows.of[row].start != 0) && i < h->stride[row] * s->n_replicas; i++)
            h->rows[row][0][i] = s->rows.of[row].start;
    }
}

fault host_init(struct host *h, const struct engine_ops *ops, const struct engine_setup *setup)
{
    TRY(engine_check(setup, MOST_CHANNELS));
    *h = (struct host){.engine = {.ops = ops, .setup = *setup},
                       .isa = setup->isa == ISA_BEST ? isa_here() : setup->isa};
    TRY(open_rows(h));
    start_rows(h);
    fault f = pool_open(setup->threads, &h->pool);
    if (f)
        close_rows(h);
    return f;
}

size_t host_row_bytes(const struct host *h)
{
    size_t n_floats = 0;
    for (enum row row = 0; row < h->engine.setup.rows.n; row++)
        n_floats += h->stride[row] * h->engine.setup.n_replicas;
    return n_floats * sizeof(float);
}

void host_release(struct host *h)
{
    pool_close(h->pool);
    close_rows(h);
}

static void run(struct host *h, size_t n, pool_task *task, void *ctx)
{
    if (!h->alone)
        pool_run(h->pool, n, task, ctx);
    else
        for (size_t i = 0; i < n; i++)
            task(ctx, i, 0);
}

struct update_job {
    const struct host *host;
    const struct update *updates;
    size_t slices; /* in one row */
};

static void update_slice(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const struct update_job *job = ctx;
    const struct host *h = job->host;
    const struct optim_settings *o = h->engine.setup.optim;
    const struct update *u = &job->updates[piece / job->slices];
    size_t size = h->engine.setup.graph->size, slice = piece % job->slices * SLICE;
    size_t first = larger(slice, u->first), end = smaller(slice + SLICE, smaller(u->end, size));
    if (first >= end)
        return;
    float *slot[OPTIM_SLOTS];
    for (int i = 0; i < OPTIM_SLOTS; i++)
        slot[i] = h->stride[ROW_SLOT + i] ? host_row(h, (enum row)(ROW_SLOT + i), u->replica) + first : NULL;
    optim_row(o)->step[h->isa](o->kind.settings, u->lr, u->t, end - first,
                               host_row(h, ROW_PARAMS, u->replica) + first,
                               host_row(h, ROW_GRADS, u->replica) + first, slot);
}

fault host_update(struct engine *e, const struct update *updates, size_t n)
{
    struct host *h = (struct host *)e;
    if (!e->setup.optim)
        return FAIL(FAULT_USAGE, "this engine was opened without an optimiser and takes no steps");
    struct update_job job = {h, updates, (e->setup.graph->size + SLICE - 1) / SLICE};
    run(h, n * job.slices, update_slice, &job);
    return OK;
}

struct mix_job {
    const struct host *host;
    const struct blend *blends;
    size_t n;
    size_t first_tile;
};

static size_t blend_end(const struct host *h, const struct blend *b)
{
    return smaller(b->end, row_size(&h->engine.setup, b->row));
}

static void blend_tile(const struct host *h, const struct blend *b, size_t first, size_t n)
{
    const struct loops *loops = loops_of(h->isa);
    float sum[TILE];
    for (size_t t = 0; t < b->n; t++) {
        const struct addend *x = &b->addends[t];
        loops->take_term(sum, t == 0, x->weight, host_row(h, x->row, x->from) + first + x->shift, n);
    }
    memcpy(host_row(h, b->row, b->into) + first, sum, n * sizeof *sum);
    if (b->also != NO_ROW)
        memcpy(host_row(h, b->row, b->also) + first, sum, n * sizeof *sum);
}

/* to = a + b, where a may be `to`: told apart because two of the three being one defeats the vectoriser. */
static void add_spans(const struct loops *loops, float *to, const float *a, const float *b, size_t n)
{
    if (to == b && to != a)
        loops->take_term(to, false, 1, a, n);
    else if (to == a && to != b)
        loops->take_term(to, false, 1, b, n);
    else
        loops->add(to, a, b, n);
}

void host_blend(float *into, const float *const *from, const float *weights, size_t n_terms, size_t n)
{
    const struct loops *loops = loops_of(isa_here());
    if (n_terms == 1 && weights[0] == 1) {
        memmove(into, from[0], n * sizeof *into);
        return;
    }
    if (n_terms == 2 && weights[0] == 1 && weights[1] == 1) {
        add_spans(loops, into, from[0], from[1], n);
        return;
    }
    for (size_t first = 0; first < n; first += TILE) {
        float sum[TILE];
        size_t some = smaller(TILE, n - first);
        for (size_t t = 0; t < n_terms; t++)
            loops->take_term(sum, t == 0, weights[t], from[t] + first, some);
        memcpy(into + first, sum, some * sizeof *sum);
    }
}

double host_dot(const float *a, const float *b, size_t n)
{
    const struct loops *loops = loops_of(isa_here());
    double sum = 0;
    for (size_t first = 0; first < n; first += DOT_BLOCK)
        sum += loops->dot(a + first, b + first, smaller(DOT_BLOCK, n - first));
    return sum;
}

/* The same columns of all blends, so that a row read by many is fetched from memory once. */
static void mix_tile(void *ctx, size_t piece, int worker)
{
    (void)worker;
    const struct mix_job *job = ctx;
    size_t tile = (job->first_tile + piece) * TILE;
    for (size_t i = 0; i < job->n; i++) {
        const struct blend *b = &job->blends[i];
        size_t first = larger(tile, b->first), end = smaller(tile + TILE, blend_end(job->host, b));
        if (first < end)
            blend_tile(job->host, b, first, end - first);
    }
}

fault host_mix(struct engine *e, const struct blend *blends, size_t n)
{
    struct host *h = (struct host *)e;
    size_t first = TO_END, end = 0;
    for (size_t i = 0; i < n; i++) {
        first = smaller(first, blends[i].first);
        end = larger(end, blend_end(h, &blends[i]));
    }
    struct mix_job job = {h, blends, n, first / TILE};
    if (first < end)
        run(h, (end + TILE - 1) / TILE - job.first_tile, mix_tile, &job);
    return OK;
}

fault host_read(struct engine *e, enum row row, size_t replica, float *floats)
{
    assert(replica < n_rows_of(&e->setup));
    memcpy(floats, host_row((struct host *)e, row, replica), row_size(&e->setup, row) * sizeof *floats);
    return OK;
}

fault host_write(struct engine *e, enum row row, size_t replica, const float *floats)
{
    assert(replica < n_rows_of(&e->setup));
    memcpy(host_row((struct host *)e, row, replica), floats, row_size(&e->setup, row) * sizeof *floats);
    return OK;
}

float *host_floats(struct engine *e, enum row row, size_t replica)
{
    assert(replica < n_rows_of(&e->setup));
    return host_row((struct host *)e, row, replica);
}

void host_sample(const struct samples *s, const uint8_t *bytes, struct pick pick, float *out)
{
    loops_of(isa_here())->sample(s, bytes, pick, out);
}

void host_keep_first(_Atomic(fault) *kept, fault f)
{
    fault none = OK;
    if (f && !atomic_compare_exchange_strong(kept, &none, f))
        fault_drop(f);
}

void host_exchange(struct engine *e, enum row row, size_t a, size_t b)
{
    float **rows = ((struct host *)e)->rows[row], *at = rows[a];
    assert(a < n_rows_of(&e->setup) && b < n_rows_of(&e->setup));
    rows[a] = rows[b];
    rows[b] = at;
}
