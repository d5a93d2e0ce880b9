/* layout.h - how one tensor lies in memory, seen as groups of up to sixteen channels side by side.
 *
 *   place of (sample, channel, pixel) =
 *       sample * sample_step + channel / lanes * group_step + pixel * pixel_step + channel % lanes
 *
 * Blocked, channels-last and plain orders are all of this form, so a loop over groups and pixels serves them
 * all. Lanes of the last group beyond the channels are stored in blocked orders only; they always hold zeros.
 */
#ifndef VECHE_ENGINE_DNNL_LAYOUT_H
#define VECHE_ENGINE_DNNL_LAYOUT_H

#include "engine/dnnl/api.h"
#include "engine/dnnl/names.h"
#include "graph/graph.h"

enum { MOST_LANES = 16 };

struct layout {
    struct shape shape;
    size_t pixels; /* h * w */
    enum format format;
    enum number number;
    size_t lanes, groups;
    size_t last_lanes; /* stored in the last group */
    size_t group_step, pixel_step, sample_step;
};

struct layout layout_of(struct shape shape, enum format format, enum number number);

static inline size_t layout_lanes(const struct layout *l, size_t group)
{
    return group + 1 < l->groups ? l->lanes : l->last_lanes;
}

static inline size_t layout_sample_bytes(const struct layout *l)
{
    return l->sample_step * number_size(l->number);
}

/* Channels with the padding lanes: the length of a vector that has one number for each lane of each group. */
static inline size_t layout_width(const struct layout *l)
{
    return l->groups * l->lanes;
}

/* Channels with the padding lanes that are stored. */
static inline size_t layout_stored(const struct layout *l)
{
    return (l->groups - 1) * l->lanes + l->last_lanes;
}

/* Whether a sample lies in [c][h][w] order; and whether it does so in floats. */
bool layout_is_plain(const struct layout *l);
bool layout_is_flat(const struct layout *l);

/* One sample from and to floats in [c][h][w] order. */
void layout_pack(const struct layout *l, const float *flat, void *sample);
void layout_unpack(const struct layout *l, const void *sample, float *flat);
/* The same, with the flat side in another kind of number. */
void layout_unpack_as(const struct layout *l, const void *sample, enum number number, void *flat);

#endif
