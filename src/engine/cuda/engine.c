/* engine.c - the engine for NVIDIA GPUs: lessons of many replicas in one set of kernels (seats.c).
 *
 * Rows, samples and activations stay in device memory, but for samples that are streamed (tray.h). Updates and mixes are only
 * queued: whoever reads waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/cuda.h"
#include "engine/cuda/measure.h"

static fault check_setup(const struct engine_setup *s)
{
    TRY(engine_check(s, CUDA_CHANNELS));
    if (s->precision != PRECISION_FP32 && s->precision != PRECISION_BF16)
        return FAIL(FAULT_ENGINE, "the engine cuda computes in fp32 or bf16");
    return OK;
}

static fault open_samples(struct cuda *c, const struct samples *s, int source)
{
    struct input *in = &c->inputs[source];
    if (!s)
        return OK;
    memcpy(in->mean, s->mean, sizeof in->mean);
    memcpy(in->deviation, s->deviation, sizeof in->deviation);
    if (s->stream)
        return OK;
    const struct driver *d = &c->device.driver;
    size_t n_labels = round_up(s->n * sizeof *s->labels, 256), n_pixels = s->n * s->c * s->h * s->w;
    TRY(driver_take(d, n_labels + n_pixels, "samples", &c->sample_memory[source]));
    CUdeviceptr at = c->sample_memory[source];
    c->sample_bytes += n_labels + n_pixels;
    TRY(CU(d, cuMemcpyHtoDAsync, at, s->labels, s->n * sizeof *s->labels, c->device.stream));
    TRY(CU(d, cuMemcpyHtoDAsync, at + n_labels, s->pixels, n_pixels, c->device.stream));
    in->labels = (const uint16_t *)(uintptr_t)at;
    in->pixels = (const uint8_t *)(uintptr_t)(at + n_labels);
    return device_wait(&c->device);
}

/* As many seats as are wanted and memory allows: planned for one seat first, then for all. */
static fault plan_seats(struct cuda *c, struct launches *p, struct launches_wish wish)
{
    const struct engine_setup *s = &c->engine.setup;
    size_t unused, all, wanted = wish.n_seats;
    TRY(CU(&c->device.driver, cuMemGetInfo, &unused, &all));
    wish.n_seats = 1;
    TRY(launches_plan(p, &c->device, s, wish));
    size_t shelves = p->n_kept * cuda_shelves(s), left = unused > shelves ? unused - shelves : 0;
    size_t fit = left / 4 * 3 / p->n_bytes;
    launches_release(p);
    wish.n_seats = larger(1, smaller(wanted, fit));
    return launches_plan(p, &c->device, s, wish);
}

/* The lists for a micro-batch, if there are none of its size yet. All sizes have as many seats. */
static fault plan_lessons(struct cuda *c, size_t micro)
{
    const struct engine_setup *s = &c->engine.setup;
    struct launches *first = &c->lists[LIST_LESSON], *p = first + cuda_micro_size(s, micro);
    struct launches_wish wish = {PLAN_LESSON, PASS_FORWARD, s->n_replicas, micro_of(s, micro).n};
    if (p->device)
        return OK;
    if (p == first)
        return plan_seats(c, p, wish);
    wish.n_seats = first->n_seats;
    return launches_plan(p, &c->device, s, wish);
}

static fault plan_passes(struct cuda *c, size_t micro)
{
    const struct engine_setup *s = &c->engine.setup;
    static const enum pass_kind whole[] = {PASS_FORWARD, PASS_BACKWARD},
                                apart[] = {PASS_FORWARD, PASS_INPUTS, PASS_WEIGHTS};
    struct launches_wish wish = {.kind = s->splits ? PLAN_SPLIT_PASSES : PLAN_PASSES,
                                 .batch = micro_of(s, micro).n};
    for (int k = 0; k < (s->splits ? 3 : 2); k++) {
        wish.pass = (s->splits ? apart : whole)[k];
        int list = cuda_pass_list(s, wish.pass, micro);
        struct launches *p = &c->lists[list];
        wish.n_seats = list == LIST_PASS ? s->n_replicas : c->lists[LIST_PASS].n_seats;
        if (!p->device)
            TRY(list == LIST_PASS ? plan_seats(c, p, wish) : launches_plan(p, &c->device, s, wish));
        c->shelf_bytes = larger(c->shelf_bytes, round_up(p->n_kept, 256));
    }
    return OK;
}

static fault plan_lists(struct cuda *c)
{
    const struct engine_setup *s = &c->engine.setup;
    for (size_t k = 0; k < micro_batches(s); k++)
        TRY(s->flights ? plan_passes(c, k) : plan_lessons(c, k));
    struct launches_wish exam = {PLAN_EXAM, PASS_FORWARD, EXAM_SEATS, EXAM_BATCH};
    return graph_is_whole(s->graph) ? plan_seats(c, &c->lists[LIST_EXAM], exam) : OK;
}

static fault take_pinned(struct cuda *c, size_t n_bytes, void *out)
{
    void *pinned;
    TRY(CU(&c->device.driver, cuMemAllocHost, &pinned, n_bytes));
    memcpy(out, &pinned, sizeof pinned);
    return OK;
}

/* Training and test samples come by the same tray. */
static fault open_tray(struct cuda *c)
{
    const struct engine_setup *s = &c->engine.setup;
    size_t n_seats = larger(c->lists[LIST_LESSON].n_seats, c->lists[LIST_PASS].n_seats);
    if (!s->train || !s->train->stream)
        return OK;
    TRY(tray_open(&c->tray, &c->device, s->train, n_seats, s->batch,
                  c->lists[LIST_EXAM].n_seats * EXAM_BATCH));
    c->sample_bytes += c->tray.n_bytes;
    for (int source = 0; source < 2; source++) {
        c->inputs[source].pixels = (const uint8_t *)(uintptr_t)c->tray.pixels;
        c->inputs[source].labels = (const uint16_t *)(uintptr_t)c->tray.labels;
    }
    return OK;
}

static fault take_memory(struct cuda *c)
{
    const struct engine_setup *s = &c->engine.setup;
    const struct driver *d = &c->device.driver;
    size_t most = 0, n_picks = 0;
    for (int i = 0; i < N_LISTS; i++) {
        c->n_bytes = larger(c->n_bytes, c->lists[i].n_bytes);
        most = larger(most, c->lists[i].n_seats);
        n_picks = larger(n_picks, i == LIST_EXAM ? 0 : c->lists[i].n_seats * s->batch);
    }
    TRY(driver_take(d, c->shelf_bytes * cuda_shelves(s), "micro-batches under way", &c->shelves));
    TRY(driver_take(d, c->n_bytes, "activations", &c->memory));
    TRY(driver_take(d, most * sizeof(struct seat), "seats", &c->seats));
    TRY(driver_take(d, n_picks * sizeof(struct seat_pick), "picks", &c->picks));
    TRY(open_tray(c));
    TRY(take_pinned(c, most * sizeof(struct seat), &c->seats_host));
    TRY(take_pinned(c, most * sizeof(struct outcome), &c->outcomes_host));
    return take_pinned(c, n_picks * sizeof(struct seat_pick), &c->picks_host);
}

static fault open_lists(struct cuda *c)
{
    TRY(plan_lists(c));
    TRY(take_memory(c));
    struct launch_places places = {c->memory,  c->seats,      c->picks, {c->inputs[0], c->inputs[1]},
                                   c->shelves};
    for (int i = 0; i < N_LISTS; i++) {
        places.picks = i == LIST_EXAM ? 0 : c->picks;
        if (c->lists[i].device)
            TRY(launches_place(&c->lists[i], &places));
    }
    return device_wait(&c->device);
}

static fault open_inside(struct cuda *c)
{
    TRY(store_open(&c->store, &c->device, &c->engine.setup));
    TRY(open_samples(c, c->engine.setup.train, 0));
    TRY(open_samples(c, c->engine.setup.test, 1));
    return open_lists(c);
}

static void close_inside(struct cuda *c)
{
    const struct driver *d = &c->device.driver;
    fault_drop(device_wait(&c->device));
    for (int i = 0; i < N_LISTS; i++)
        launches_release(&c->lists[i]);
    tray_close(&c->tray);
    void *pinned[] = {c->seats_host, c->picks_host, c->outcomes_host};
    for (int i = 0; i < 3; i++)
        if (pinned[i])
            d->cuMemFreeHost(pinned[i]);
    driver_give(d, &c->memory);
    driver_give(d, &c->shelves);
    driver_give(d, &c->seats);
    driver_give(d, &c->picks);
    driver_give(d, &c->sample_memory[0]);
    driver_give(d, &c->sample_memory[1]);
    store_close(&c->store);
}

static void cuda_close(struct engine *e)
{
    struct cuda *c = (struct cuda *)e;
    fault f = driver_enter(&c->device.driver);
    if (!f) {
        close_inside(c);
        driver_leave(&c->device.driver);
    }
    fault_drop(f);
    device_close(&c->device);
    free(c);
}

static fault cuda_open(const struct engine_setup *setup, struct engine **out)
{
    TRY(check_setup(setup));
    struct cuda *c = calloc(1, sizeof *c);
    if (!c)
        return OUT_OF_MEMORY;
    c->engine = (struct engine){.ops = &engine_cuda, .setup = *setup};
    fault f = device_open(&c->device, setup->device);
    if (f) {
        free(c);
        return f;
    }
    f = driver_enter(&c->device.driver);
    if (!f) {
        f = open_inside(c);
        driver_leave(&c->device.driver);
    }
    if (f)
        cuda_close(&c->engine);
    else
        *out = &c->engine;
    return f;
}

static fault cuda_usable(void)
{
    struct driver d;
    TRY(driver_open(&d, 0));
    driver_close(&d);
    return OK;
}

/* Calls f with the device's context current. */
#define INSIDE(c, call)                                                                                      \
    do {                                                                                                     \
        TRY(driver_enter(&(c)->device.driver));                                                              \
        fault inside_ = (call);                                                                              \
        driver_leave(&(c)->device.driver);                                                                   \
        return inside_;                                                                                      \
    } while (0)

static fault cuda_learn(struct engine *e, struct lesson *lessons, size_t n)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, cuda_learn_all(c, lessons, n));
}

static fault cuda_pass(struct engine *e, struct pass *passes, size_t n)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, cuda_pass_all(c, passes, n));
}

static fault cuda_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, cuda_examine_all(c, exams, n));
}

static fault cuda_update(struct engine *e, const struct update *updates, size_t n)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, store_update(&c->store, updates, n));
}

static fault cuda_mix(struct engine *e, const struct blend *blends, size_t n)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, store_mix(&c->store, blends, n));
}

static fault cuda_read(struct engine *e, enum row row, size_t replica, float *floats)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, store_read(&c->store, row, replica, floats));
}

static fault cuda_write(struct engine *e, enum row row, size_t replica, const float *floats)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, store_write(&c->store, row, replica, floats));
}

/* Parameters and slots are read and written by a step, gradients read. */
static double step_traffic(const struct engine_setup *s)
{
    size_t n_slots = s->optim ? optim_row(s->optim)->n_slots : 0;
    return s->optim ? (double)((3 + 2 * n_slots) * s->graph->size * sizeof(float)) : 0;
}

static fault measure_all(struct cuda *c, struct engine_work *out)
{
    const struct engine_setup *s = &c->engine.setup;
    TRY(engine_check_lessons(&c->engine));
    memset(out, 0, sizeof *out);
    out->bytes = (double)s->n_replicas * step_traffic(s);
    for (size_t k = 0; k < micro_batches(s); k++) {
        struct launches *p = &c->lists[LIST_LESSON + cuda_micro_size(s, k)];
        out->bytes += (double)s->n_replicas * p->traffic;
        TRY(measure_kernels(p, smaller(s->n_replicas, p->n_seats), out));
    }
    return measure_peaks(&c->device, s->precision == PRECISION_BF16, c->memory, c->n_bytes, out);
}

static fault cuda_measure(struct engine *e, struct engine_work *out)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, measure_all(c, out));
}

/* Lessons, or passes, and exams use the same memory, which is as large as the largest of them needs. */
static void cuda_describe(const struct engine *e, char *text, size_t n)
{
    const struct cuda *c = (const struct cuda *)e;
    bool bf16 = e->setup.precision == PRECISION_BF16, passes = e->setup.flights > 0;
    size_t n_seats = c->lists[passes ? LIST_PASS : LIST_LESSON].n_seats, most = 0;
    const char *one = passes ? "pass" : "lesson", *many = passes ? "passes" : "lessons";
    for (int i = LIST_LESSON; i < N_LISTS; i++)
        most = larger(most, c->lists[i].n_bytes);
    snprintf(text, n,
             "cuda: %s, %s, %zu %s %s, %.1f MiB for rows, %.1f MiB for samples, in turn %.1f MiB for %s and "
             "%.1f MiB for exams",
             c->device.driver.name, bf16 ? "bf16" : "fp32 (engine.precision=bf16 may be faster)", n_seats,
             n_seats == 1 ? one : many, n_seats == 1 ? "at a time" : "side by side",
             (double)c->store.n_bytes / 0x1p20, (double)c->sample_bytes / 0x1p20, (double)most / 0x1p20, many,
             (double)c->lists[LIST_EXAM].n_bytes / 0x1p20);
    size_t used = strlen(text);
    if (passes)
        snprintf(text + used, n - used, ", %.1f MiB for micro-batches under way",
                 (double)(c->shelf_bytes * cuda_shelves(&e->setup)) / 0x1p20);
}

const struct engine_ops engine_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .usable = cuda_usable,
    .learn = cuda_learn,
    .pass = cuda_pass,
    .examine = cuda_examine,
    .update = cuda_update,
    .mix = cuda_mix,
    .read = cuda_read,
    .write = cuda_write,
    .measure = cuda_measure,
    .describe = cuda_describe,
};
