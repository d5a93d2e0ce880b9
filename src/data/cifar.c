/* cifar.c - CIFAR's binary files: records without a head.
 *
 *   CIFAR-10:  label, 1024 red, 1024 green, 1024 blue
 *   CIFAR-100: coarse label, label, 1024 red, 1024 green, 1024 blue
 */
#include <string.h>

#include "data/reader.h"

/* How the records of a file lie in it. */
struct records {
    const char *name; /* of the file */
    size_t classes, n_labels, step, n;
};

static fault look_at(const char *name, size_t n_bytes, size_t classes, bool coarse, struct records *out)
{
    struct records r = {.name = name, .classes = classes, .n_labels = coarse ? 2 : 1};
    r.step = r.n_labels + CIFAR_PIXELS;
    r.n = n_bytes / r.step;
    if (n_bytes % r.step)
        return FAIL(FAULT_DATA, "%s: byte %zu: the record of %zu bytes that begins here ends after %zu", name,
                    r.n * r.step, r.step, n_bytes % r.step);
    if (r.n == 0)
        return FAIL(FAULT_DATA, "%s: byte 0: the file is empty", name);
    *out = r;
    return OK;
}

static fault check_label(const struct records *r, size_t offset, uint8_t label, const char *what,
                         size_t classes)
{
    if (label < classes)
        return OK;
    return FAIL(FAULT_DATA, "%s: byte %zu: %s %u, but there are %zu classes", r->name, offset, what, label,
                classes);
}

/* Record i of the file, which begins with these bytes. */
static fault check_record(const struct records *r, size_t i, const uint8_t *bytes)
{
    if (r->n_labels == 2)
        TRY(check_label(r, i * r->step, bytes[0], "coarse label", CIFAR_COARSE));
    size_t last = r->n_labels - 1;
    return check_label(r, i * r->step + last, bytes[last], "label", r->classes);
}

fault cifar_read(const struct source *s, size_t classes, bool coarse, struct intake *out)
{
    struct records r;
    size_t first = out->n;
    TRY(look_at(s->name, s->n, classes, coarse, &r));
    for (size_t i = 0; i < r.n; i++)
        TRY(check_record(&r, i, s->bytes + i * r.step));
    TRY(intake_grow(out, s->name, r.n, 3, CIFAR_SIDE, CIFAR_SIDE));
    for (size_t i = 0; i < r.n; i++) {
        const uint8_t *at = s->bytes + i * r.step + r.n_labels;
        out->labels[first + i] = at[-1];
        memcpy(out->pixels + (first + i) * CIFAR_PIXELS, at, CIFAR_PIXELS);
    }
    return OK;
}

static fault scan_records(struct scan *s, const struct records *r, uint16_t *labels, struct intake *out)
{
    const uint8_t *record;
    for (size_t i = 0; i < r->n; i++) {
        TRY(scan_next(s, r->step, &record));
        TRY(check_record(r, i, record));
        labels[i] = record[r->n_labels - 1];
        if (out->is_measured)
            intake_measure(out, record + r->n_labels, 1, out->sums);
    }
    return scan_keep(s, r->n_labels, r->step, r->n, out);
}

fault cifar_scan(struct scan *s, size_t classes, bool coarse, struct intake *out)
{
    struct records r;
    size_t first = out->n;
    TRY(look_at(s->path, (size_t)s->was.st_size, classes, coarse, &r));
    TRY(intake_grow(out, s->path, r.n, 3, CIFAR_SIDE, CIFAR_SIDE));
    fault f = scan_records(s, &r, out->labels + first, out);
    if (f)
        out->n = first;
    return f;
}
