/* reader.h - from the bytes of a file to pixels and labels.
 *
 * Every reader works on memory, checks everything before it takes anything, and on a fault leaves the part as
 * it was. Faults name the file and the byte, and say what was expected there.
 */
#ifndef VECHE_DATA_READER_H
#define VECHE_DATA_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "data/source.h"

/* Samples of one shape, training or test, as they come in. Starts as { 0 }; the first to come set the shape.
 */
struct part {
    size_t n, c, h, w;
    uint8_t *pixels;  /* owned: [n][c][h][w] */
    uint16_t *labels; /* owned: [n]          */
};

/* Makes room for `more` samples of a shape behind those that are there; where they begin is n before the
 * call. */
fault part_grow(struct part *p, const char *name, size_t more, size_t c, size_t h, size_t w);
void part_close(struct part *p);

/* IDX (Yann LeCun's MNIST files): pictures of one channel and their labels. */
fault idx_read(const struct source *images, const struct source *labels, size_t classes, struct part *out);

/* The records of CIFAR's binary files: label bytes, then 32 x 32 bytes each of red, green and blue. CIFAR-100
 * has a coarse label (of 20) before the fine one. */
enum {
    CIFAR_SIDE = 32,
    CIFAR_PLANE = CIFAR_SIDE * CIFAR_SIDE,
    CIFAR_PIXELS = 3 * CIFAR_PLANE,
    CIFAR_COARSE = 20
};
fault cifar_read(const struct source *s, size_t classes, bool coarse, struct part *out);

/* The same pictures as rows of one PNG, 1024 pixels wide and n high, and their labels as one JSON list of n.
 */
fault mosaic_read(const struct source *png, size_t n, const uint16_t *labels, struct part *out);
fault mosaic_labels(const struct source *json, size_t n, size_t classes, uint16_t *labels);

#endif
