/* sets.h - the rows behind data_set_kinds: how each set is loaded. */
#ifndef VECHE_DATA_SETS_H
#define VECHE_DATA_SETS_H

#include "data/data.h"
#include "data/known.h"
#include "data/reader.h"

/* All samples of a set before limits and normalisation. */
struct loaded {
    struct part train, test;
    size_t classes;
};

struct set_row {
    fault (*load)(const struct set_row *row, const void *settings, uint64_t seed, struct loaded *out);
    const struct known *known;     /* NULL: made up, or from files that the settings name */
    const float *mean, *deviation; /* for each channel; NULL: measured on the training samples */
};

/* Settings of the sets that name their files. */
struct idx_settings {
    const char *train_images, *train_labels, *test_images, *test_labels;
    int64_t classes;
};
struct cifar_binary_settings {
    const char *train, *test;
    int64_t classes;
    bool coarse;
};

#endif
