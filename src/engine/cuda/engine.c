/* engine.c - the engine for NVIDIA GPUs: lessons of many replicas in one set of kernels.
 *
 *   learn:    the lessons take seats, as many at once as memory allows; seats and picks are sent over, the
 *             list of launches runs, losses and hits come back
 *   examine:  the samples are cut into pieces of fixed size; a piece takes a seat
 *
 * Rows, samples and activations stay in device memory. Updates and mixes are only queued: whoever reads
 * waits.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/measure.h"
#include "engine/cuda/launches.h"

enum { EXAM_BATCH = 64, EXAM_SEATS = 64 };

struct cuda {
    struct engine engine; /* first */
    struct device device;
    struct store store;
    struct input inputs[2];       /* training and test samples on the device */
    CUdeviceptr sample_memory[2]; /* owned */
    size_t sample_bytes;
    struct launches learn, exam;
    CUdeviceptr memory, seats, picks; /* owned: of whichever list runs */
    struct seat *seats_host;          /* owned, pinned: [most seats] */
    struct seat_pick *picks_host;     /* owned, pinned: [seats of learn][batch] */
    struct outcome *outcomes_host;    /* owned, pinned: [most seats] */
};

static fault check_setup(const struct engine_setup *s)
{
    TRY(engine_check(s, CUDA_CHANNELS));
    if (s->precision != PRECISION_FP32 && s->precision != PRECISION_BF16)
        return FAIL(FAULT_ENGINE, "the engine cuda computes in fp32 or bf16");
    return OK;
}

static fault open_samples(struct cuda *c, const struct samples *s, int source)
{
    if (!s)
        return OK;
    const struct driver *d = &c->device.driver;
    size_t n_labels = round_up(s->n * sizeof *s->labels, 256), n_pixels = s->n * s->c * s->h * s->w;
    TRY(driver_take(d, n_labels + n_pixels, "samples", &c->sample_memory[source]));
    CUdeviceptr at = c->sample_memory[source];
    c->sample_bytes += n_labels + n_pixels;
    TRY(CU(d, cuMemcpyHtoDAsync, at, s->labels, s->n * sizeof *s->labels, c->device.stream));
    TRY(CU(d, cuMemcpyHtoDAsync, at + n_labels, s->pixels, n_pixels, c->device.stream));
    struct input *in = &c->inputs[source];
    in->labels = (const uint16_t *)(uintptr_t)at;
    in->pixels = (const uint8_t *)(uintptr_t)(at + n_labels);
    memcpy(in->mean, s->mean, sizeof in->mean);
    memcpy(in->deviation, s->deviation, sizeof in->deviation);
    return device_wait(&c->device);
}

/* As many seats as are wanted and memory allows: planned for one seat first, then for all. */
static fault plan_seats(struct cuda *c, struct launches *p, bool learning, size_t wanted, size_t batch)
{
    size_t unused, all;
    TRY(CU(&c->device.driver, cuMemGetInfo, &unused, &all));
    TRY(launches_plan(p, &c->device, &c->engine.setup, learning, 1, batch));
    size_t fit = unused / 4 * 3 / p->n_bytes;
    launches_release(p);
    return launches_plan(p, &c->device, &c->engine.setup, learning, larger(1, smaller(wanted, fit)), batch);
}

static fault take_pinned(struct cuda *c, size_t n_bytes, void *out)
{
    void *pinned;
    TRY(CU(&c->device.driver, cuMemAllocHost, &pinned, n_bytes));
    memcpy(out, &pinned, sizeof pinned);
    return OK;
}

static fault open_passes(struct cuda *c)
{
    const struct engine_setup *s = &c->engine.setup;
    const struct driver *d = &c->device.driver;
    TRY(plan_seats(c, &c->learn, true, s->n_replicas, s->batch));
    TRY(plan_seats(c, &c->exam, false, EXAM_SEATS, EXAM_BATCH));
    size_t most = larger(c->learn.n_seats, c->exam.n_seats), n_picks = c->learn.n_seats * s->batch;
    TRY(driver_take(d, larger(c->learn.n_bytes, c->exam.n_bytes), "activations", &c->memory));
    TRY(driver_take(d, most * sizeof(struct seat), "seats", &c->seats));
    TRY(driver_take(d, n_picks * sizeof(struct seat_pick), "picks", &c->picks));
    TRY(take_pinned(c, most * sizeof(struct seat), &c->seats_host));
    TRY(take_pinned(c, most * sizeof(struct outcome), &c->outcomes_host));
    TRY(take_pinned(c, n_picks * sizeof(struct seat_pick), &c->picks_host));
    struct launch_places places = {c->memory, c->seats, c->picks, {c->inputs[0], c->inputs[1]}};
    TRY(launches_place(&c->learn, &places));
    places.picks = 0;
    TRY(launches_place(&c->exam, &places));
    return device_wait(&c->device);
}

static fault open_inside(struct cuda *c)
{
    TRY(store_open(&c->store, &c->device, &c->engine.setup));
    TRY(open_samples(c, c->engine.setup.train, 0));
    TRY(open_samples(c, c->engine.setup.test, 1));
    return open_passes(c);
}

static void close_inside(struct cuda *c)
{
    const struct driver *d = &c->device.driver;
    fault_drop(device_wait(&c->device));
    launches_release(&c->learn);
    launches_release(&c->exam);
    void *pinned[] = {c->seats_host, c->picks_host, c->outcomes_host};
    for (int i = 0; i < 3; i++)
        if (pinned[i])
            d->cuMemFreeHost(pinned[i]);
    driver_give(d, &c->memory);
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

static fault seat_rows(struct cuda *c, size_t replica, struct seat *seat)
{
    TRY(store_find(&c->store, ROW_PARAMS, replica, &seat->params));
    TRY(store_find(&c->store, ROW_GRADS, replica, &seat->grads));
    return store_find(&c->store, ROW_STATS, replica, &seat->stats);
}

/* Runs a list of launches for the first n seats and brings back what came of them. */
static fault run_seats(struct cuda *c, struct launches *p, size_t n)
{
    const struct driver *d = &c->device.driver;
    CUstream stream = c->device.stream;
    TRY(CU(d, cuMemcpyHtoDAsync, c->seats, c->seats_host, n * sizeof(struct seat), stream));
    TRY(launches_run(p, n));
    TRY(CU(d, cuMemcpyDtoHAsync, c->outcomes_host, c->memory + p->outcomes_at, n * sizeof(struct outcome),
           stream));
    return device_wait(&c->device);
}

static fault learn_some(struct cuda *c, struct lesson *lessons, size_t n)
{
    size_t batch = c->learn.batch;
    for (size_t i = 0; i < n; i++) {
        c->seats_host[i] = (struct seat){.seed = lessons[i].seed, .counted = (uint32_t)batch};
        TRY(seat_rows(c, lessons[i].replica, &c->seats_host[i]));
        for (size_t k = 0; k < batch; k++) {
            struct pick p = lessons[i].picks[k];
            c->picks_host[i * batch + k] = (struct seat_pick){p.sample, p.flip, p.dy, p.dx, 0};
        }
    }
    TRY(CU(&c->device.driver, cuMemcpyHtoDAsync, c->picks, c->picks_host,
           n * batch * sizeof(struct seat_pick), c->device.stream));
    TRY(run_seats(c, &c->learn, n));
    for (size_t i = 0; i < n; i++) {
        lessons[i].loss = c->outcomes_host[i].loss / (double)batch;
        lessons[i].hits = c->outcomes_host[i].hits;
    }
    return OK;
}

static fault learn_all(struct cuda *c, struct lesson *lessons, size_t n)
{
    for (size_t done = 0; done < n; done += c->learn.n_seats)
        TRY(learn_some(c, lessons + done, smaller(n - done, c->learn.n_seats)));
    lessons_tell(lessons, n);
    return OK;
}

/* The pieces of all exams one after the other, counted through: which exam the next belongs to, and its
 * first. */
struct exam_cursor {
    size_t exam, done;
};

static fault seat_pieces(struct cuda *c, struct exam *exams, size_t n, struct exam_cursor *at,
                         size_t *n_seated)
{
    *n_seated = 0;
    while (at->exam < n && *n_seated < c->exam.n_seats) {
        struct exam *x = &exams[at->exam];
        struct seat *seat = &c->seats_host[*n_seated];
        if (at->done >= x->n) {
            *at = (struct exam_cursor){at->exam + 1, 0};
            continue;
        }
        *seat = (struct seat){.counted = (uint32_t)smaller(c->exam.batch, x->n - at->done),
                              .source = !x->on_train,
                              .first = (uint32_t)(x->first + at->done)};
        TRY(seat_rows(c, x->replica, seat));
        at->done += seat->counted;
        ++*n_seated;
    }
    return OK;
}

/* Adds what the seats found to their exams, in the order in which they were seated. */
static void collect_pieces(const struct cuda *c, struct exam *exams, struct exam_cursor at, size_t n_seated)
{
    for (size_t i = 0; i < n_seated; i++) {
        while (at.done >= exams[at.exam].n)
            at = (struct exam_cursor){at.exam + 1, 0};
        exams[at.exam].loss += c->outcomes_host[i].loss;
        exams[at.exam].hits += c->outcomes_host[i].hits;
        at.done += c->seats_host[i].counted;
    }
}

static fault examine_all(struct cuda *c, struct exam *exams, size_t n)
{
    struct exam_cursor at = {0, 0};
    for (size_t i = 0; i < n; i++) {
        const struct samples *s = exams[i].on_train ? c->engine.setup.train : c->engine.setup.test;
        assert(s && exams[i].first + exams[i].n <= s->n);
        (void)s;
        exams[i].loss = 0;
        exams[i].hits = 0;
    }
    while (at.exam < n) {
        struct exam_cursor before = at;
        size_t n_seated;
        TRY(seat_pieces(c, exams, n, &at, &n_seated));
        if (!n_seated)
            break;
        TRY(run_seats(c, &c->exam, n_seated));
        collect_pieces(c, exams, before, n_seated);
    }
    for (size_t i = 0; i < n; i++)
        exams[i].loss = exams[i].n ? exams[i].loss / (double)exams[i].n : 0;
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
    INSIDE(c, learn_all(c, lessons, n));
}

static fault cuda_examine(struct engine *e, struct exam *exams, size_t n)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, examine_all(c, exams, n));
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
    memset(out, 0, sizeof *out);
    out->bytes = (double)s->n_replicas * (c->learn.traffic + step_traffic(s));
    TRY(measure_kernels(&c->learn, smaller(s->n_replicas, c->learn.n_seats), out));
    return measure_peaks(&c->device, c->learn.bf16, c->memory, larger(c->learn.n_bytes, c->exam.n_bytes),
                         out);
}

static fault cuda_measure(struct engine *e, struct engine_work *out)
{
    struct cuda *c = (struct cuda *)e;
    INSIDE(c, measure_all(c, out));
}

/* Lessons and exams use the same memory, which is as large as the larger of them needs. */
static void cuda_describe(const struct engine *e, char *text, size_t n)
{
    const struct cuda *c = (const struct cuda *)e;
    bool bf16 = e->setup.precision == PRECISION_BF16, one = c->learn.n_seats == 1;
    snprintf(
        text, n,
        "cuda: %s, %s, %zu %s, %.1f MiB for rows, %.1f MiB for samples, in turn %.1f MiB for lessons and "
        "%.1f MiB for exams",
        c->device.driver.name, bf16 ? "bf16" : "fp32 (engine.precision=bf16 may be faster)", c->learn.n_seats,
        one ? "lesson at a time" : "lessons side by side", (double)c->store.n_bytes / 0x1p20,
        (double)c->sample_bytes / 0x1p20, (double)c->learn.n_bytes / 0x1p20,
        (double)c->exam.n_bytes / 0x1p20);
}

const struct engine_ops engine_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .usable = cuda_usable,
    .learn = cuda_learn,
    .examine = cuda_examine,
    .update = cuda_update,
    .mix = cuda_mix,
    .read = cuda_read,
    .write = cuda_write,
    .measure = cuda_measure,
    .describe = cuda_describe,
};
