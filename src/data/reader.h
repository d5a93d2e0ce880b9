/* reader.h - from the bytes of a file to pixels and labels.
 *
 * Every reader checks everything before it takes anything, and on a fault leaves the intake as it was. Faults name the file and
 * the byte, and say what was expected there. A reader works on memory; of an intake whose samples stay on disk the files are
 * scanned instead: read once from end to end, a piece at a time, for the labels and the SHA-256.
 */
#ifndef VECHE_DATA_READER_H
#define VECHE_DATA_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/sha256.h"
#include "data/data.h"
#include "data/stream/extent.h"
#include "data/source.h"

/* Samples of one shape, training or test, as they come in. Starts as { 0 }; the first to come set the shape.
 */
struct intake {
    size_t n, c, h, w;
    uint8_t *pixels;  /* owned: [n][c][h][w]; NULL: they stay on disk */
    uint16_t *labels; /* owned: [n] */
    bool on_disk;
    struct extents extents; /* owned: where they are then */
    bool is_measured;       /* the sums are wanted of samples on disk */
    struct sums {
        uint64_t sum, squares; /* of a channel's bytes */
    } sums[MOST_CHANNELS];
};

/* Adds n samples like those of the intake to the sums. */
void intake_measure(const struct intake *in, const uint8_t *pixels, size_t n,
                    struct sums sums[MOST_CHANNELS]);

/* Makes room for `more` samples of a shape behind those that are there; where they begin is n before the
 * call. */
fault intake_grow(struct intake *in, const char *name, size_t more, size_t c, size_t h, size_t w);
void intake_close(struct intake *in);

/* IDX (Yann LeCun's MNIST files): pictures of one channel and their labels. */
fault idx_read(const struct source *images, const struct source *labels, size_t classes, struct intake *out);

/* The records of CIFAR's binary files: label bytes, then 32 x 32 bytes each of red, green and blue. CIFAR-100
 * has a coarse label (of 20) before the fine one. */
enum {
    CIFAR_SIDE = 32,
    CIFAR_PLANE = CIFAR_SIDE * CIFAR_SIDE,
    CIFAR_PIXELS = 3 * CIFAR_PLANE,
    CIFAR_COARSE = 20
};
fault cifar_read(const struct source *s, size_t classes, bool coarse, struct intake *out);

/* A file that is looked through. */
struct scan {
    const char *path; /* borrowed */
    int file;         /* owned, until it is an extent's */
    struct stat was;
    uint64_t at;        /* bytes so far */
    struct sha256 hash; /* of them */
    uint8_t *room;      /* owned */
};
enum { SCAN_ROOM = 1 << 18 };

/* A compressed file is a fault: its samples cannot be read here and there. */
fault scan_open(const char *path, struct scan *out);
/* The next n bytes, at most SCAN_ROOM, until the next call. */
fault scan_next(struct scan *s, size_t n, const uint8_t **bytes);
/* The file is the intake's from now on. */
fault scan_keep(struct scan *s, uint64_t first_byte, size_t step, size_t n, struct intake *out);
/* `hex` may be NULL. */
void scan_close(struct scan *s, char hex[SHA256_HEX]);

/* As the readers above, of an intake on disk. The scan is open, and read to its end afterwards. */
fault idx_scan(struct scan *images, const struct source *labels, size_t classes, struct intake *out);
fault cifar_scan(struct scan *s, size_t classes, bool coarse, struct intake *out);

/* The same pictures as rows of one PNG, 1024 pixels wide and n high, and their labels as one JSON list of n.
 */
fault mosaic_read(const struct source *png, size_t n, const uint16_t *labels, struct intake *out);
fault mosaic_labels(const struct source *json, size_t n, size_t classes, uint16_t *labels);

#endif
