/* set_kinds.h - the rows behind data_set_kinds: how each set is loaded. */
#ifndef VECHE_DATA_SET_KINDS_H
#define VECHE_DATA_SET_KINDS_H

#include "data/data.h"
#include "data/known_sets.h"
#include "data/reader.h"

/* All samples of a set before limits and normalisation. */
struct loaded {
    struct intake train, test;
    size_t classes;
};

struct set_row {
    fault (*load)(const struct set_row *row, const struct choice *set, uint64_t seed, struct loaded *out);
    const struct known *known;     /* NULL: made up, or from files that the settings name */
    const float *mean, *deviation; /* for each channel; NULL: measured on the training samples */
    /* For agents with files of their own: only the test samples and the classes; one file of training samples (with its
     * labels where they are apart). NULL for sets that are made up. */
    fault (*read_test)(const struct set_row *row, const struct choice *set, struct loaded *out);
    fault (*read_share)(const struct set_row *row, const struct choice *set, const char *file, const char *labels,
                        struct intake *out);
    bool labels_apart; /* in a file of their own */
};

/* Settings of the sets that name their files; those of the training samples are NULL where each agent has its own. */
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
