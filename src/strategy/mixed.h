/* mixed.h - what is mixed beside the parameters: a part of the settings of every strategy that mixes. */
#ifndef VECHE_STRATEGY_MIXED_H
#define VECHE_STRATEGY_MIXED_H

#include "base/field.h"
#include "link/link.h"

struct mixed {
    bool statistics, momentum;
};

/* The fields of settings that have a `struct mixed mixed`. */
#define MIXED_FIELDS(owner)                                                                                  \
    FIELD("mix_statistics", FIELD_FLAG, owner, mixed.statistics, .fallback = "false",                        \
          .help = "mix batchnorm's running statistics, too"),                                                \
        FIELD("mix_momentum", FIELD_FLAG, owner, mixed.momentum, .fallback = "false",                        \
              .help = "mix the optimiser's slots, too")

static inline row_set mixed_rows(const struct mixed *m)
{
    return ROWS_PARAMS | (m->statistics ? ROWS_STATS : 0) | (m->momentum ? ROWS_SLOTS : 0);
}

#endif
