/* split.h - the rows behind split_kinds: how each split deals the training samples out.
 *
 * All but two splits decide the owner of every sample; what no owner can say (`replacement`) or what the
 * files say already (`files`) is written straight into the shares.
 */
#ifndef VECHE_DATA_SPLIT_H
#define VECHE_DATA_SPLIT_H

#include "data/set_kinds.h"

/* Settings of the splits. */
struct sizes_split {
    struct reals sizes; /* relative, one for each agent */
};
struct proportional_split {
    int to;
};
struct by_label_split {
    int64_t classes;
};
struct dirichlet_split {
    double alpha;
};
struct files_split {
    struct texts files, labels;
};

/* A split in the making. */
struct deal {
    const void *settings;
    struct place place; /* of data.split, for faults */
    const struct samples *train;
    size_t n_agents;
    const double *speeds;
    uint64_t seed;
    uint32_t *owner;   /* [train->n]: the agent of each sample, to be written by the row */
    struct split *out; /* with room for train->n samples */
};

struct split_row {
    /* What is wrong with the settings for so many agents; NULL: nothing can be. */
    fault (*check)(const void *settings, struct place place, size_t n_agents);
    fault (*deal)(struct deal *d);
    bool owns; /* `deal` writes owners, from which the shares follow; else it writes the shares */
};

/* Shares out n by parts, which are not below 0 and not all 0: rounded down, then one more each for the
 * largest remainders. */
fault split_share_out(size_t n, const double *parts, size_t n_parts, size_t *counts);
/* Gives one to each that has none, taken from those that have most. There are n_parts or more in all. */
void split_leave_nobody_out(size_t *counts, size_t n_parts);

fault split_by_label(struct deal *d); /* split_labels.c */
fault split_dirichlet(struct deal *d);

/* split_files.c */
fault split_check_files(const void *settings, struct place place, size_t n_agents);
bool split_is_files(const struct data_settings *d);
/* Loads the training samples of all agents or of one, and the test samples. *file_first is the caller's to
 * free. */
fault split_load_files(const struct data_settings *d, int64_t only_agent, struct loaded *out,
                       size_t **file_first);

#endif
