/* cifar.c - CIFAR's binary files: records without a head.
 *
 *   CIFAR-10:  label, 1024 red, 1024 green, 1024 blue
 *   CIFAR-100: coarse label, label, 1024 red, 1024 green, 1024 blue
 */
#include <string.h>

#include "data/reader.h"

static fault check_label(const struct source *s, size_t offset, const char *what, size_t classes)
{
    if (s->bytes[offset] < classes)
        return OK;
    return FAIL(FAULT_DATA, "%s: byte %zu: %s %u, but there are %zu classes", s->name, offset, what,
                s->bytes[offset], classes);
}

fault cifar_read(const struct source *s, size_t classes, bool coarse, struct part *out)
{
    size_t n_labels = coarse ? 2 : 1, record = n_labels + CIFAR_PIXELS, n = s->n / record, first = out->n;
    if (s->n % record)
        return FAIL(FAULT_DATA, "%s: byte %zu: the record of %zu bytes that begins here ends after %zu",
                    s->name, n * record, record, s->n % record);
    if (n == 0)
        return FAIL(FAULT_DATA, "%s: byte 0: the file is empty", s->name);
    for (size_t i = 0; i < n; i++) {
        if (coarse)
            TRY(check_label(s, i * record, "coarse label", CIFAR_COARSE));
        TRY(check_label(s, i * record + n_labels - 1, "label", classes));
    }
    TRY(part_grow(out, s->name, n, 3, CIFAR_SIDE, CIFAR_SIDE));
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = s->bytes + i * record + n_labels;
        out->labels[first + i] = at[-1];
        memcpy(out->pixels + (first + i) * CIFAR_PIXELS, at, CIFAR_PIXELS);
    }
    return OK;
}
