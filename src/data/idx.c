/* idx.c - the IDX format: a magic number, the sizes, the bytes.
 *
 *   00 00 08 D   8: unsigned bytes, D: how many sizes follow (3 for pictures, 1 for labels)
 *   D x 4 bytes  the sizes, most significant byte first
 *   the bytes    exactly the product of the sizes, nothing after
 */
#include <string.h>

#include "base/arena.h"
#include "data/reader.h"

enum { MOST_DIMS = 3, WORD = 4 };

struct idx {
    size_t dims[MOST_DIMS];
    const uint8_t *bytes; /* borrowed from the source */
};

static uint32_t word_at(const struct source *s, size_t offset)
{
    const uint8_t *b = s->bytes + offset;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static fault idx_head(const struct source *s, size_t n_dims, struct idx *out)
{
    size_t n_head = WORD * (1 + n_dims), need = 1;
    uint32_t expected = 0x800 + (uint32_t)n_dims, magic = s->n < WORD ? expected : word_at(s, 0);
    if (magic != expected)
        return FAIL(FAULT_DATA,
                    "%s: byte 0: expected the IDX number 0x%08x (bytes in %zu dimensions), found 0x%08x",
                    s->name, expected, n_dims, magic);
    if (s->n < n_head)
        return FAIL(FAULT_DATA, "%s: byte %zu: the file ends within its head of %zu bytes", s->name, s->n,
                    n_head);
    for (size_t i = 0; i < n_dims; i++) {
        out->dims[i] = word_at(s, WORD * (1 + i));
        if (out->dims[i] == 0)
            return FAIL(FAULT_DATA, "%s: byte %zu: a size of 0", s->name, WORD * (1 + i));
        if (__builtin_mul_overflow(need, out->dims[i], &need))
            return FAIL(FAULT_DATA, "%s: byte %zu: sizes larger than any file", s->name, WORD * (1 + i));
    }
    size_t have = s->n - n_head;
    if (have < need)
        return FAIL(FAULT_DATA,
                    "%s: byte %zu: the file ends here, but its head promises %zu bytes after byte %zu",
                    s->name, s->n, need, n_head);
    if (have > need)
        return FAIL(FAULT_DATA, "%s: byte %zu: %zu bytes too many at the end", s->name, n_head + need,
                    have - need);
    out->bytes = s->bytes + n_head;
    return OK;
}

/* The heads of both files, their labels, and room for as many samples. Of the pictures only the head is looked at. */
static fault look_at(const struct source *images, const struct source *labels, size_t classes,
                     struct intake *out, struct idx *pictures)
{
    struct idx names = {0};
    TRY(idx_head(images, 3, pictures));
    TRY(idx_head(labels, 1, &names));
    size_t n = pictures->dims[0], first = out->n;
    if (names.dims[0] != n)
        return FAIL(FAULT_DATA, "%s: byte 4: %zu labels, but %s holds %zu pictures", labels->name,
                    names.dims[0], images->name, n);
    for (size_t i = 0; i < n; i++)
        if (names.bytes[i] >= classes)
            return FAIL(FAULT_DATA, "%s: byte %zu: label %u, but there are %zu classes", labels->name,
                        2 * WORD + i, names.bytes[i], classes);
    TRY(intake_grow(out, images->name, n, 1, pictures->dims[1], pictures->dims[2]));
    for (size_t i = 0; i < n; i++)
        out->labels[first + i] = names.bytes[i];
    return OK;
}

fault idx_read(const struct source *images, const struct source *labels, size_t classes, struct intake *out)
{
    struct idx pictures = {0};
    TRY(look_at(images, labels, classes, out, &pictures));
    size_t n = pictures.dims[0], one = out->h * out->w;
    memcpy(out->pixels + (out->n - n) * one, pictures.bytes, n * one);
    return OK;
}

static fault scan_pictures(struct scan *s, size_t n, struct intake *out)
{
    const uint8_t *bytes;
    uint64_t first_byte = s->at;
    size_t one = out->h * out->w, at_once = larger(1, SCAN_ROOM / one);
    if (one > SCAN_ROOM)
        return FAIL(FAULT_DATA,
                    "%s: pictures of %zu bytes are too large to be streamed: write data.stream: false",
                    s->path, one);
    for (size_t done = 0, some; done < n; done += some) {
        some = smaller(at_once, n - done);
        TRY(scan_next(s, some * one, &bytes));
        if (out->is_measured)
            intake_measure(out, bytes, some, out->sums);
    }
    return scan_keep(s, first_byte, one, n, out);
}

fault idx_scan(struct scan *images, const struct source *labels, size_t classes, struct intake *out)
{
    struct idx pictures = {0};
    struct source head = {.name = images->path, .n = (size_t)images->was.st_size};
    size_t before = out->n;
    TRY(scan_next(images, smaller(head.n, WORD * (1 + MOST_DIMS)), &head.bytes));
    TRY(look_at(&head, labels, classes, out, &pictures));
    fault f = scan_pictures(images, pictures.dims[0], out);
    if (f)
        out->n = before;
    return f;
}
