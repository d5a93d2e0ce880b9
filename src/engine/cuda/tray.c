/* tray.c - see tray.h. The window of the stream is pinned, so that samples go to the device from where they were read to. */
#include "engine/cuda/tray.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "data/stream/stream.h"

enum { SIDES = 2 };

/* Another engine of this process, as that of another part, may have pinned it already; it stays pinned for as long as that one is
 * open. */
static fault pin_window(struct tray *t, const struct driver *d, const struct block *window)
{
    CUresult result = d->cuMemHostRegister(window->bytes, window->n_bytes, 0);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return OK;
    TRY(driver_check(d, result, "cuMemHostRegister"));
    t->window = window->bytes;
    return OK;
}

fault tray_open(struct tray *t, struct device *device, const struct samples *train, size_t n_seats,
                size_t batch, size_t exam_samples)
{
    const struct driver *d = &device->driver;
    const struct block *window = stream_window(train->stream);
    size_t n_places = larger(2 * n_seats * batch, exam_samples),
           n_labels = SIDES * n_places * sizeof(uint16_t);
    void *pinned;
    *t = (struct tray){.device = device,
                       .train = train,
                       .one = samples_one(train),
                       .n_places = n_places,
                       .n_seats = n_seats};
    t->n_bytes = SIDES * n_places * t->one + n_labels;
    t->most_held = larger(1, samples_most_held(train) / 2);
    t->held = calloc(t->most_held, sizeof *t->held);
    t->early = calloc(n_seats, sizeof *t->early);
    t->seats = calloc(n_seats, sizeof *t->seats);
    if (!t->held || !t->early || !t->seats)
        return OUT_OF_MEMORY;
    TRY(driver_take(d, SIDES * n_places * t->one, "streamed samples", &t->pixels));
    TRY(driver_take(d, n_labels, "their labels", &t->labels));
    TRY(CU(d, cuMemAllocHost, &pinned, n_labels));
    t->labels_host = pinned;
    TRY(CU(d, cuStreamCreate, &t->ahead, CU_STREAM_DEFAULT));
    return pin_window(t, d, window);
}

static void let_go(struct tray *t)
{
    for (size_t i = 0; i < t->n_held; i++)
        samples_let_go(t->train, &t->held[i]);
    t->n_held = 0;
}

static void drop_early(struct tray *t)
{
    for (size_t i = 0; i < t->n_early; i++)
        if (!t->early[i].is_taken)
            samples_let_go(t->train, &t->early[i].held);
    t->n_early = 0;
}

void tray_close(struct tray *t)
{
    if (!tray_is_open(t))
        return;
    const struct driver *d = &t->device->driver;
    if (t->ahead)
        d->cuStreamDestroy(t->ahead);
    let_go(t);
    drop_early(t);
    if (t->window)
        d->cuMemHostUnregister(t->window);
    if (t->labels_host)
        d->cuMemFreeHost(t->labels_host);
    driver_give(d, &t->pixels);
    driver_give(d, &t->labels);
    free(t->held);
    free(t->early);
    free(t->seats);
}

/* Copies samples that are held to a place. */
static fault copy(struct tray *t, const struct samples *s, const struct held *h, size_t n, size_t place,
                  CUstream stream)
{
    for (size_t k = 0; k < n; k++)
        t->labels_host[place + k] = s->labels[h->samples[k]];
    return CU(&t->device->driver, cuMemcpyHtoDAsync, t->pixels + place * t->one, h->bytes, n * t->one,
              stream);
}

/* What is held stays until the device has it. */
static fault keep(struct tray *t, const struct held *h)
{
    t->held[t->n_held++] = *h;
    if (t->n_held < t->most_held)
        return OK;
    fault f = device_wait(t->device);
    let_go(t);
    return f;
}

static fault copy_and_keep(struct tray *t, const struct samples *s, const struct held *h, size_t n,
                           size_t place)
{
    fault f = copy(t, s, h, n, place, t->device->stream), kept = keep(t, h);
    if (f)
        fault_drop(kept);
    return f ? f : kept;
}

/* Which of the early ones it is, or n_early; mostly the seats are as they were. */
static size_t find_early(const struct tray *t, const struct held *h, size_t i)
{
    for (size_t k = 0; k < t->n_early; k++) {
        size_t at = (i + k) % t->n_early;
        if (!t->early[at].is_taken && t->early[at].held.bay == h->bay)
            return at;
    }
    return t->n_early;
}

/* Of n samples that were not sent ahead. */
static size_t place_of_seat(const struct tray *t, size_t i, size_t n)
{
    return t->side * t->n_places + (t->n_seats + i) * n;
}

fault tray_seat(struct tray *t, const struct pick *picks, size_t n, size_t i, size_t *place)
{
    struct held h;
    TRY(samples_hold(t->train, picks, n, &h));
    size_t early = find_early(t, &h, i);
    t->seats[t->n_seated++] = h;
    if (early == t->n_early) {
        *place = place_of_seat(t, i, n);
        return copy_and_keep(t, t->train, &h, n, *place);
    }
    *place = t->side * t->n_places + early * n;
    t->early[early].is_taken = true;
    samples_let_go(t->train, &t->early[early].held);
    samples_let_go(t->train, &h);
    return OK;
}

void tray_seat_labels(struct tray *t, const struct pick *picks, size_t n, size_t i, size_t *place)
{
    *place = place_of_seat(t, i, n);
    for (size_t k = 0; k < n; k++)
        t->labels_host[*place + k] = t->train->labels[picks[k].sample];
}

fault tray_piece(struct tray *t, const struct samples *s, size_t first, size_t n, size_t i, size_t *place)
{
    struct pick picks[SAMPLES_AT_ONCE] = {{0}};
    struct held h;
    for (size_t k = 0; k < n; k++)
        picks[k] = (struct pick){.sample = (uint32_t)(first + k)};
    TRY(samples_hold(s, picks, n, &h));
    *place = (1 - t->side) * t->n_places + i * SAMPLES_AT_ONCE;
    return copy_and_keep(t, s, &h, n, *place);
}

fault tray_send(struct tray *t, bool is_exam)
{
    size_t side = is_exam ? 1 - t->side : t->side, first = side * t->n_places;
    return CU(&t->device->driver, cuMemcpyHtoDAsync, t->labels + first * sizeof *t->labels_host,
              t->labels_host + first, t->n_places * sizeof *t->labels_host, t->device->stream);
}

fault tray_look_ahead(struct tray *t, size_t batch)
{
    size_t first = (1 - t->side) * t->n_places;
    drop_early(t);
    t->has_looked = true;
    for (size_t i = 0; i < t->n_seated; i++) {
        struct early e = {0};
        if (!samples_hold_next(t->train, &t->seats[i], &e.held))
            continue;
        t->early[t->n_early] = e;
        TRY(copy(t, t->train, &e.held, batch, first + t->n_early++ * batch, t->ahead));
    }
    return OK;
}

fault tray_clear(struct tray *t, bool is_exam, fault f)
{
    fault waited = device_wait(t->device), ahead = CU(&t->device->driver, cuStreamSynchronize, t->ahead);
    let_go(t);
    t->n_seated = 0;
    f = f ? (fault_drop(waited), f) : waited;
    f = f ? (fault_drop(ahead), f) : ahead;
    if (f || (!is_exam && !t->has_looked))
        drop_early(t);
    if (!is_exam)
        t->side = 1 - t->side;
    t->has_looked = false;
    return f;
}
