/* store.c - see store.h. */
#include "engine/cuda/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/steps.h"

enum { ROW_ALIGN = 64, HANDFUL = 16, ROW_THREADS = 256, ROW_BLOCKS = 128 };

static size_t n_handfuls(const struct engine_setup *s)
{
    return (s->n_spare + HANDFUL - 1) / HANDFUL;
}

static fault fill(struct store *r, CUdeviceptr at, size_t n, float value)
{
    const struct driver *driver = &r->device->driver;
    void *args[] = {&at, &n, &value};
    return CU(driver, cuLaunchKernel, r->device->kernels.of[KERNEL_fill_floats], 1024, 1, 1, ROW_THREADS, 1,
              1, 0, r->device->stream, args, NULL);
}

static fault start_rows(struct store *r)
{
    const struct engine_setup *s = r->setup;
    for (enum row row = 0; row < s->rows.n; row++)
        if (s->rows.of[row].start != 0)
            TRY(fill(r, r->of_replicas[row], r->stride[row] * s->n_replicas, s->rows.of[row].start));
    return OK;
}

fault store_open(struct store *r, struct device *device, const struct engine_setup *setup)
{
    *r = (struct store){.device = device, .setup = setup};
    for (enum row row = 0; row < setup->rows.n; row++) {
        r->stride[row] = round_up(row_size(setup, row), ROW_ALIGN);
        size_t n_bytes = r->stride[row] * setup->n_replicas * sizeof(float);
        if (!n_bytes)
            continue;
        TRY(driver_take(&device->driver, n_bytes, "the replicas' rows", &r->of_replicas[row]));
        r->n_bytes += n_bytes;
        r->spare[row] = calloc(n_handfuls(setup) + 1, sizeof *r->spare[row]);
        if (!r->spare[row])
            return OUT_OF_MEMORY;
    }
    TRY(start_rows(r));
    const struct step_rule *rule;
    return setup->optim ? step_rule_of(setup->optim, &rule)
                        : OK; /* so that one that is not known here is told at once */
}

void store_close(struct store *r)
{
    for (enum row row = 0; r->setup && row < r->setup->rows.n; row++) {
        driver_give(&r->device->driver, &r->of_replicas[row]);
        for (size_t i = 0; r->spare[row] && i < n_handfuls(r->setup); i++)
            driver_give(&r->device->driver, &r->spare[row][i]);
        free(r->spare[row]);
    }
}

static float *as_floats(CUdeviceptr at)
{
    return (float *)(uintptr_t)at;
}

fault store_find(struct store *r, enum row row, size_t i, float **out)
{
    size_t n = r->setup->n_replicas, stride = r->stride[row];
    assert(i < n + r->setup->n_spare);
    if (!stride) {
        *out = NULL;
        return OK;
    }
    if (i < n) {
        *out = as_floats(r->of_replicas[row]) + i * stride;
        return OK;
    }
    CUdeviceptr *handful = &r->spare[row][(i - n) / HANDFUL];
    if (!*handful)
        TRY(driver_take(&r->device->driver, HANDFUL * stride * sizeof(float), "spare rows", handful));
    *out = as_floats(*handful) + (i - n) % HANDFUL * stride;
    return OK;
}

/* A kernel over n entries; blockIdx.y is the entry. */
static fault launch_over(struct store *r, enum cuda_kernel kernel, size_t n, void **args)
{
    const struct driver *driver = &r->device->driver;
    return CU(driver, cuLaunchKernel, r->device->kernels.of[kernel], ROW_BLOCKS, (unsigned)n, 1, ROW_THREADS,
              1, 1, 0, r->device->stream, args, NULL);
}

static fault make_step(struct store *r, const struct step_rule *rule, const struct update *u,
                       struct step_entry *out)
{
    size_t size = r->setup->graph->size;
    float *params, *grads, *slot0, *slot1;
    TRY(store_find(r, ROW_PARAMS, u->replica, &params));
    TRY(store_find(r, ROW_GRADS, u->replica, &grads));
    TRY(store_find(r, ROW_SLOT, u->replica, &slot0));
    TRY(store_find(r, ROW_SLOT + 1, u->replica, &slot1));
    *out = (struct step_entry){.first = u->first,
                               .end = u->end < size ? u->end : size,
                               .params = params,
                               .slot = {slot0, slot1},
                               .grads = grads};
    rule->scalars(r->setup->optim->kind.settings, u->lr, u->t, out->number);
    return OK;
}

fault store_update(struct store *r, const struct update *updates, size_t n)
{
    const struct step_rule *rule;
    TRY(step_rule_of(r->setup->optim, &rule));
    size_t most = STAGING_BYTES / sizeof(struct step_entry) / 4;
    for (size_t done = 0; done < n; done += most) {
        size_t now = n - done < most ? n - done : most;
        struct parcel_room room;
        TRY(staging_take(r->device, now * sizeof(struct step_entry), &room));
        struct step_entry *entries = room.host;
        for (size_t i = 0; i < now; i++)
            TRY(make_step(r, rule, &updates[done + i], &entries[i]));
        TRY(staging_send(r->device, room));
        void *args[] = {&room.device};
        TRY(launch_over(r, rule->kernel(r->setup->optim->kind.settings), now, args));
    }
    return OK;
}

/* How many blends from the first on fit into one table, and how long it is. */
static size_t blends_that_fit(const struct blend *blends, size_t n, size_t *n_terms)
{
    size_t i = 0, bytes = 0;
    *n_terms = 0;
    while (i < n && i < 65535) {
        bytes += sizeof(struct blend_entry) + blends[i].n * sizeof(struct blend_term);
        if (i > 0 && bytes > STAGING_BYTES / 2)
            break;
        *n_terms += blends[i++].n;
    }
    return i;
}

static fault make_blend(struct store *r, const struct blend *b, uint32_t first_term,
                        struct blend_entry *entry, struct blend_term *terms)
{
    size_t size = row_size(r->setup, b->row);
    *entry = (struct blend_entry){.first = b->first,
                                  .end = b->end < size ? b->end : size,
                                  .first_term = first_term,
                                  .n_terms = (uint32_t)b->n};
    TRY(store_find(r, b->row, b->into, &entry->into));
    if (b->also != NO_ROW)
        TRY(store_find(r, b->row, b->also, &entry->also));
    for (size_t t = 0; t < b->n; t++) {
        const struct addend *x = &b->addends[t];
        float *from;
        TRY(store_find(r, x->row, x->from, &from));
        terms[first_term + t] = (struct blend_term){.row = from + x->shift, .weight = x->weight};
    }
    return OK;
}

static fault fill_tables(struct store *r, const struct blend *blends, size_t n, struct blend_entry *entries,
                         struct blend_term *terms)
{
    uint32_t first_term = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(make_blend(r, &blends[i], first_term, &entries[i], terms));
        first_term += (uint32_t)blends[i].n;
    }
    return OK;
}

/* Small mixes come one after the other, each waiting for the last: their tables go along with the launch. */
static fault mix_few(struct store *r, const struct blend *blends, size_t n)
{
    struct few_blends few;
    TRY(fill_tables(r, blends, n, few.entries, few.terms));
    void *args[] = {&few};
    return launch_over(r, KERNEL_blend_few_rows, n, args);
}

static fault mix_many(struct store *r, const struct blend *blends, size_t n, size_t n_terms)
{
    size_t entry_bytes = round_up(n * sizeof(struct blend_entry), 64);
    struct parcel_room room;
    TRY(staging_take(r->device, entry_bytes + n_terms * sizeof(struct blend_term), &room));
    TRY(fill_tables(r, blends, n, room.host, (struct blend_term *)((char *)room.host + entry_bytes)));
    TRY(staging_send(r->device, room));
    CUdeviceptr terms_at = room.device + entry_bytes;
    void *args[] = {&room.device, &terms_at};
    return launch_over(r, KERNEL_blend_rows, n, args);
}

fault store_mix(struct store *r, const struct blend *blends, size_t n)
{
    for (size_t done = 0; done < n;) {
        size_t n_terms, now = blends_that_fit(blends + done, n - done, &n_terms);
        bool few = now <= FEW_BLENDS && n_terms <= FEW_TERMS;
        TRY(few ? mix_few(r, blends + done, now) : mix_many(r, blends + done, now, n_terms));
        done += now;
    }
    return OK;
}

fault store_read(struct store *r, enum row row, size_t i, float *floats)
{
    float *at;
    size_t n = row_size(r->setup, row);
    TRY(store_find(r, row, i, &at));
    if (n)
        TRY(CU(&r->device->driver, cuMemcpyDtoHAsync, floats, (CUdeviceptr)(uintptr_t)at, n * sizeof *floats,
               r->device->stream));
    return device_wait(r->device);
}

fault store_write(struct store *r, enum row row, size_t i, const float *floats)
{
    float *at;
    size_t n = row_size(r->setup, row);
    TRY(store_find(r, row, i, &at));
    if (n)
        TRY(CU(&r->device->driver, cuMemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)at, floats, n * sizeof *floats,
               r->device->stream));
    return device_wait(r->device);
}
