/* stream.h - samples that stay on disk, and the window of memory into which they are read ahead of need.
 *
 * A feed is deterministic, so its *course*, the batches it will give, is known: a copy of the feed gives them beforehand.
 * The window is cut into *bays*. A bay has room for the samples of one batch (or of a piece of an exam), side by side in the order
 * of their picks. A few threads fill bays: with the batches of the courses, every agent's as far ahead as any other's, and with what was said to be
 * expected.
 *
 *   FREE -> WANTED (its samples are named; readers take some at a time) -> READY -> held, let go -> FREE
 *
 * Who wants samples names them, and gets the bay with just these: what was foreseen only decides how long that takes. Where
 * they were not foreseen they take a free bay, or that of the batch which would have been needed last.
 *
 * This floor knows files and memory, and no formats: readers (reader.h) look a file through and say by its extent where the samples lie.
 *
 *   extent    where samples lie in files, and reading some of them
 *   window    which samples are in which bay
 *   ahead     what is going to be needed, and the threads that read it
 *   stream    opening, announcing, holding: what the room calls
 */
#ifndef VECHE_DATA_STREAM_STREAM_H
#define VECHE_DATA_STREAM_STREAM_H

#include "data/data.h"
#include "data/stream/extent.h"

/* Which samples of the files a set has: sample i is number at[i] of them, or i where `at` is NULL. */
struct on_disk {
    struct extents extents; /* owned */
    uint32_t *at;           /* owned, or NULL */
};

/* What is wrong with a window of so many megabytes for batches of such samples. */
fault stream_check(double window_mb, size_t batch, size_t n_bytes);

/* Takes what lies on disk, training samples first, also on a fault. */
fault stream_open(double window_mb, size_t batch, struct on_disk from[2], struct stream **out);
void stream_close(struct stream *s);

/* From now on there are only these n of the training samples. Nobody holds any, and no feed is followed. */
fault stream_keep(struct stream *s, const uint32_t *chosen, size_t n);

/* How long samples are waited for; at first a minute. */
void stream_set_patience(struct stream *s, double seconds);

/* This batch of a feed is the next to be held. */
void stream_announce(struct stream *s, const struct feed *f, uint64_t k, const struct pick *picks);

/* What samples_hold and its like are of streamed samples (samples.c). */
fault stream_hold(struct stream *s, bool is_test, const struct pick *picks, size_t n, struct held *out);
bool stream_hold_next(struct stream *s, const struct held *before, struct held *out);
void stream_let_go(struct stream *s, const struct held *h);
void stream_expect(struct stream *s, bool is_test, size_t first, size_t n, size_t piece);
fault stream_follow(struct stream *s, const struct feed *f, size_t *course);
size_t stream_bays(const struct stream *s);

struct stream_counts {
    uint64_t n_held, n_late;    /* holds; those that had to wait */
    uint64_t n_read;            /* samples read */
    size_t n_bytes, most_bytes; /* of the window; the most of it that samples took at a time */
    uint64_t on_disk;           /* bytes of all samples */
};
struct stream_counts stream_counts(struct stream *s);
/* The window: for engines that tell a device of it. */
const struct block *stream_window(const struct stream *s);

#endif
