/* layout.c - see layout.h. */
#include "engine/dnnl/layout.h"

#include "engine/dnnl/lanes.h"

struct layout layout_of(struct shape shape, enum format format, enum number number)
{
    struct layout l = {.shape = shape, .pixels = shape.h * shape.w, .format = format, .number = number};
    switch (format) {
    case FORMAT_PLAIN:
        l.lanes = 1;
        l.group_step = l.pixels;
        l.pixel_step = 1;
        break;
    case FORMAT_LAST:
    case FORMAT_ANY:
        l.lanes = MOST_LANES;
        l.group_step = MOST_LANES;
        l.pixel_step = shape.c;
        break;
    case FORMAT_BLOCK8:
    case FORMAT_BLOCK16:
        l.lanes = format == FORMAT_BLOCK8 ? 8 : 16;
        l.group_step = l.pixels * l.lanes;
        l.pixel_step = l.lanes;
        break;
    }
    l.groups = (shape.c + l.lanes - 1) / l.lanes;
    bool is_padded = format == FORMAT_BLOCK8 || format == FORMAT_BLOCK16;
    l.last_lanes = is_padded ? l.lanes : shape.c - (l.groups - 1) * l.lanes;
    l.sample_step = is_padded ? l.groups * l.group_step : shape_size(shape);
    return l;
}

bool layout_is_flat(const struct layout *l)
{
    if (l->number != NUMBER_F32)
        return false;
    return l->format == FORMAT_PLAIN || (l->pixels == 1 && l->sample_step == l->shape.c);
}

INLINE void pack_group(const struct layout *l, const float *flat, void *sample, size_t g, enum number number,
                       size_t n)
{
    size_t first = g * l->lanes;
    size_t real = l->shape.c - first < n ? l->shape.c - first : n;
    for (size_t p = 0; p < l->pixels; p++) {
        lanes v = {0};
        for (size_t i = 0; i < real; i++)
            v[i] = flat[(first + i) * l->pixels + p];
        lanes_store(sample, g * l->group_step + p * l->pixel_step, v, number, n);
    }
}

void layout_pack(const struct layout *l, const float *flat, void *sample)
{
    if (layout_is_flat(l)) {
        memcpy(sample, flat, l->sample_step * sizeof(float));
        return;
    }
    for (size_t g = 0; g < l->groups; g++)
        LANES(pack_group, l->number, layout_lanes(l, g), l, flat, sample, g);
}

INLINE void unpack_group(const struct layout *l, const void *sample, void *flat, enum number to, size_t g,
                         enum number number, size_t n)
{
    size_t first = g * l->lanes;
    size_t real = l->shape.c - first < n ? l->shape.c - first : n;
    for (size_t p = 0; p < l->pixels; p++) {
        lanes v = lanes_load(sample, g * l->group_step + p * l->pixel_step, number, n);
        if (to == NUMBER_F32) {
            for (size_t i = 0; i < real; i++)
                ((float *)flat)[(first + i) * l->pixels + p] = v[i];
        } else {
            lane_halves h;
            lanes_store(&h, 0, v, NUMBER_BF16, MOST_LANES);
            for (size_t i = 0; i < real; i++)
                ((uint16_t *)flat)[(first + i) * l->pixels + p] = h[i];
        }
    }
}

void layout_unpack_as(const struct layout *l, const void *sample, enum number number, void *flat)
{
    for (size_t g = 0; g < l->groups; g++)
        LANES(unpack_group, l->number, layout_lanes(l, g), l, sample, flat, number, g);
}

void layout_unpack(const struct layout *l, const void *sample, float *flat)
{
    if (layout_is_flat(l))
        memcpy(flat, sample, l->sample_step * sizeof(float));
    else
        layout_unpack_as(l, sample, NUMBER_F32, flat);
}
