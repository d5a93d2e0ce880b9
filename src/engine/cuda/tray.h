/* tray.h - streamed samples on their way to the device.
 *
 * Samples that lie in memory are all on the device. Of those that are streamed the tray has what the seats of a call need, packed, with
 * their labels; a pick then names a place in the tray. It has two sides: while the lessons of one are computed, the batches that the same
 * agents will want next are copied to the other, where the stream has them already. A side of lessons:
 *
 *   | batches that were sent ahead, [seats] | those that were not, [seats] |
 *
 *   tray_seat for each seat -> tray_send -> (launches are queued) -> tray_look_ahead -> (the device is waited for) -> tray_clear
 *
 * Passes take the tray as lessons do, with their micro-batches in place of batches, and nothing is sent ahead for them.
 */
#ifndef VECHE_ENGINE_CUDA_TRAY_H
#define VECHE_ENGINE_CUDA_TRAY_H

#include "engine/cuda/store.h"

struct early { /* a batch that was copied before it was asked for */
    struct held held;
    bool is_taken;
};

struct tray {
    struct device *device;       /* borrowed */
    const struct samples *train; /* borrowed; NULL: nothing is streamed */
    size_t one, n_places;        /* bytes of a sample; samples on a side */
    size_t n_bytes;
    CUdeviceptr pixels, labels; /* owned: two sides */
    uint16_t *labels_host;      /* owned, pinned: likewise */
    CUstream ahead;             /* owned */
    void *window;               /* of the stream, pinned while the tray is open */
    size_t side;                /* of the next lessons; an exam takes the other */
    struct held *held;          /* owned: of this call */
    size_t n_held, most_held;
    size_t n_seats;
    struct held *seats; /* owned: [n_seats]: the batches of this call, some of which have been let go */
    size_t n_seated;
    struct early *early; /* owned: [seats], in the first places of the side of the next lessons */
    size_t n_early;
    bool has_looked; /* ahead, in this call */
};

static inline bool tray_is_open(const struct tray *t)
{
    return t->train;
}

/* For lessons or passes on so many seats, or as many samples of exams. */
fault tray_open(struct tray *t, struct device *device, const struct samples *train, size_t n_seats,
                size_t batch, size_t exam_samples);
void tray_close(struct tray *t);

/* The samples of seat i, as many as every seat's of the call: where the first is in the tray. */
fault tray_seat(struct tray *t, const struct pick *picks, size_t n, size_t i, size_t *place);
/* The same where nobody reads the samples: their labels alone. */
void tray_seat_labels(struct tray *t, const struct pick *picks, size_t n, size_t i, size_t *place);
/* The samples [first, first + n), which are piece i of an exam. */
fault tray_piece(struct tray *t, const struct samples *s, size_t first, size_t n, size_t i, size_t *place);
/* The labels follow. */
fault tray_send(struct tray *t, bool is_exam);
/* The next batches of those who have their seats now. */
fault tray_look_ahead(struct tray *t, size_t batch);
/* The device has all that was sent. What was sent ahead of this call and not taken is not kept, nor after a fault what was sent in
 * it. */
fault tray_clear(struct tray *t, bool is_exam, fault f);

#endif
