/* synthetic.h - data made up from the experiment's seed: quick to make, learnable, of any size. */
#ifndef VECHE_DATA_SYNTHETIC_H
#define VECHE_DATA_SYNTHETIC_H

#include <stdint.h>

#include "base/field.h"
#include "data/reader.h"

/* One cloud of points around a random centre for each class. */
struct blobs_settings {
    int64_t classes, features, samples, test_samples;
    double spread;
};

/* One arm of a spiral in the plane for each class. */
struct spirals_settings {
    int64_t classes, samples, test_samples;
    double noise, turns;
};

/* One smooth random pattern for each class, under noise. */
struct images_settings {
    int64_t classes, channels, size, samples, test_samples;
    double noise;
};

extern const struct field blobs_fields[5], spirals_fields[5], images_fields[6];

fault blobs_make(const struct blobs_settings *s, uint64_t seed, struct intake *train, struct intake *test);
fault spirals_make(const struct spirals_settings *s, uint64_t seed, struct intake *train,
                   struct intake *test);
fault images_make(const struct images_settings *s, uint64_t seed, struct intake *train, struct intake *test);

#endif
