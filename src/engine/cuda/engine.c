/* engine.c - the engine for NVIDIA GPUs: lessons of many replicas in one set of kernels.
 *
 *   learn:    the lessons take seats, as many at once as memory allows; seats and picks are sent over, the
 *             pass runs, losses and hits come back
 *   examine:  the samples are cut into pieces of fixed size; a piece takes a seat
 *
 * Rows, samples and activations stay in device memory, but for samples that are streamed (tray.h). Updates and mixes are only
 * queued: whoever reads waits.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/measure.h"
#include "engine/cuda/pass.h"
#include "engine/cuda/tray.h"

enum { EXAM_BATCH = 64, EXAM_SEATS = 64 };
static_assert((int)EXAM_BATCH == (int)SAMPLES_AT_ONCE, "a piece of an exam is held at once");

struct cuda {
    struct engine engine; /* first */
    struct device device;
    struct store store;
    struct input inputs[2];       /* training and test samples on the device */
    CUdeviceptr sample_memory[2]; /* owned */
    size_t sample_bytes;
    struct tray tray; /* not open where samples lie in memory */
    struct {
        const struct samples *of;
        size_t first, n;
    } piece; /* of the exam that was seated last */
    struct pass learn, exam;
    CUdeviceptr memory, seats, picks; /* owned: of whichever pass runs */
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
static fault plan_seats(struct cuda *c, struct pass *p, bool learning, size_t wanted, size_t batch)
{
    size_t unused, all;
    TRY(CU(&c->device.driver, cuMemGetInfo, &unused, &all));
    TRY(pass_plan(p, &c->device, &c->engine.setup, learning, 1, batch));
    size_t fit = unused / 4 * 3 / p->n_bytes;
    pass_release(p);
    return pass_plan(p, &c->device, &c->engine.setup, learning, larger(1, smaller(wanted, fit)), batch);
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
    if (!s->train || !s->train->stream)
        return OK;
    TRY(tray_open(&c->tray, &c->device, s->train, c->learn.n_seats, s->batch, c->exam.n_seats * EXAM_BATCH));
    c->sample_bytes += c->tray.n_bytes;
    for (int source = 0; source < 2; source++) {
        c->inputs[source].pixels = (const uint8_t *)(uintptr_t)c->tray.pixels;
        c->inputs[source].labels = (const uint16_t *)(uintptr_t)c->tray.labels;
    }
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
    TRY(open_tray(c));
    TRY(take_pinned(c, most * sizeof(struct seat), &c->seats_host));
    TRY(take_pinned(c, most * sizeof(struct outcome), &c->outcomes_host));
    TRY(take_pinned(c, n_picks * sizeof(struct seat_pick), &c->picks_host));
    struct pass_places places = {c->memory, c->seats, c->picks, {c->inputs[0], c->inputs[1]}};
    TRY(pass_place(&c->learn, &places));
    places.picks = 0;
    TRY(pass_place(&c->exam, &places));
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
    pass_release(&c->learn);
    pass_release(&c->exam);
    tray_close(&c->tray);
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

/* Runs a pass for the first n seats and brings back what came of them. Meanwhile what they will want next is sent, if asked. */
static fault run_seats(struct cuda *c, struct pass *p, size_t n, bool looks_ahead)
{
    const struct driver *d = &c->device.driver;
    CUstream stream = c->device.stream;
    TRY(CU(d, cuMemcpyHtoDAsync, c->seats, c->seats_host, n * sizeof(struct seat), stream));
    TRY(pass_run(p, n));
    TRY(CU(d, cuMemcpyDtoHAsync, c->outcomes_host, c->memory + p->outcomes_at, n * sizeof(struct outcome),
           stream));
    if (looks_ahead)
        TRY(tray_look_ahead(&c->tray, p->batch));
    return device_wait(&c->device);
}

/* A pick names a sample of the set or, where these are streamed, its place in the tray. */
static fault seat_lesson(struct cuda *c, const struct lesson *l, size_t i)
{
    size_t batch = c->learn.batch, first = 0;
    bool is_streamed = tray_is_open(&c->tray);
    c->seats_host[i] = (struct seat){.seed = l->seed, .counted = (uint32_t)batch};
    TRY(seat_rows(c, l->replica, &c->seats_host[i]));
    if (is_streamed)
        TRY(tray_seat(&c->tray, l->picks, batch, i, &first));
    for (size_t k = 0; k < batch; k++) {
        struct pick p = l->picks[k];
        uint32_t sample = is_streamed ? (uint32_t)(first + k) : p.sample;
        c->picks_host[i * batch + k] = (struct seat_pick){sample, p.flip, p.dy, p.dx, 0};
    }
    return OK;
}

static fault learn_seated(struct cuda *c, const struct lesson *lessons, size_t n, bool looks_ahead)
{
    for (size_t i = 0; i < n; i++)
        TRY(seat_lesson(c, &lessons[i], i));
    if (tray_is_open(&c->tray))
        TRY(tray_send(&c->tray, false));
    TRY(CU(&c->device.driver, cuMemcpyHtoDAsync, c->picks, c->picks_host,
           n * c->learn.batch * sizeof(struct seat_pick), c->device.stream));
    return run_seats(c, &c->learn, n, looks_ahead && tray_is_open(&c->tray));
}

static fault learn_some(struct cuda *c, struct lesson *lessons, size_t n, bool looks_ahead)
{
    size_t batch = c->learn.batch;
    fault f = learn_seated(c, lessons, n, looks_ahead);
    TRY(tray_is_open(&c->tray) ? tray_clear(&c->tray, false, f) : f);
    for (size_t i = 0; i < n; i++) {
        lessons[i].loss = c->outcomes_host[i].loss / (double)batch;
        lessons[i].hits = c->outcomes_host[i].hits;
    }
    return OK;
}

static fault learn_all(struct cuda *c, struct lesson *lessons, size_t n)
{
    for (size_t done = 0; done < n; done += c->learn.n_seats)
        TRY(learn_some(c, lessons + done, smaller(n - done, c->learn.n_seats), n <= c->learn.n_seats));
    lessons_tell(lessons, n);
    return OK;
}

/* The pieces of all exams, counted through: the first of every exam, then the second of every exam, ..., so that exams on the same
 * samples want them at the same time. */
struct exam_cursor {
    size_t done, exam, longest;
};

/* The exam whose piece is next, and how much of it was done before; NULL: all are through. */
static struct exam *next_piece(struct exam *exams, size_t n, struct exam_cursor *at, size_t *done)
{
    for (; at->done < at->longest; at->done += EXAM_BATCH, at->exam = 0)
        while (at->exam < n) {
            struct exam *x = &exams[at->exam++];
            *done = at->done;
            if (at->done < x->n)
                return x;
        }
    return NULL;
}

static const struct samples *samples_of(const struct cuda *c, const struct exam *x)
{
    return x->on_train ? c->engine.setup.train : c->engine.setup.test;
}

/* Of streamed samples the piece lies in the tray, once for all exams that want it. */
static fault seat_piece(struct cuda *c, const struct exam *x, size_t done, size_t i)
{
    struct seat *seat = &c->seats_host[i];
    size_t first = x->first + done, n = smaller(EXAM_BATCH, x->n - done), place = first;
    bool is_first = i == 0 || c->piece.first != first || c->piece.n != n || c->piece.of != samples_of(c, x);
    if (tray_is_open(&c->tray) && is_first)
        TRY(tray_piece(&c->tray, samples_of(c, x), first, n, i, &place));
    else if (tray_is_open(&c->tray))
        place = c->seats_host[i - 1].first;
    c->piece.of = samples_of(c, x);
    c->piece.first = first;
    c->piece.n = n;
    *seat = (struct seat){.counted = (uint32_t)n, .source = !x->on_train, .first = (uint32_t)place};
    return seat_rows(c, x->replica, seat);
}

static fault seat_pieces(struct cuda *c, struct exam *exams, size_t n, struct exam_cursor *at,
                         size_t *n_seated)
{
    size_t done;
    *n_seated = 0;
    for (struct exam *x; *n_seated < c->exam.n_seats && (x = next_piece(exams, n, at, &done));)
        TRY(seat_piece(c, x, done, (*n_seated)++));
    return tray_is_open(&c->tray) ? tray_send(&c->tray, true) : OK;
}

/* Adds what the seats found to their exams, in the order in which they were seated. */
static void collect_pieces(const struct cuda *c, struct exam *exams, size_t n, struct exam_cursor at,
                           size_t n_seated)
{
    size_t done;
    for (size_t i = 0; i < n_seated; i++) {
        struct exam *x = next_piece(exams, n, &at, &done);
        x->loss += c->outcomes_host[i].loss;
        x->hits += c->outcomes_host[i].hits;
    }
}

static fault examine_some(struct cuda *c, struct exam *exams, size_t n, struct exam_cursor *at,
                          size_t *n_seated)
{
    struct exam_cursor before = *at;
    fault f = seat_pieces(c, exams, n, at, n_seated);
    if (!f && *n_seated)
        f = run_seats(c, &c->exam, *n_seated, false);
    TRY(tray_is_open(&c->tray) ? tray_clear(&c->tray, true, f) : f);
    collect_pieces(c, exams, n, before, *n_seated);
    return OK;
}

static bool is_of_same(const struct exam *a, const struct exam *b)
{
    return a->on_train == b->on_train && a->first == b->first && a->n == b->n;
}

static fault examine_all(struct cuda *c, struct exam *exams, size_t n)
{
    struct exam_cursor at = {0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        const struct samples *s = samples_of(c, &exams[i]);
        assert(s && exams[i].first + exams[i].n <= s->n);
        if (i == 0 || !is_of_same(&exams[i], &exams[i - 1]))
            samples_expect(s, exams[i].first, exams[i].n, EXAM_BATCH);
        exams[i].loss = 0;
        exams[i].hits = 0;
        at.longest = larger(at.longest, exams[i].n);
    }
    for (size_t n_seated = 1; n_seated;)
        TRY(examine_some(c, exams, n, &at, &n_seated));
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
