/* bench.h - how many samples a second an engine trains on: whole rounds of learning and updating, on random
 * bytes; and what a lesson, a step and a mix take each. */
#ifndef VECHE_ENGINE_BENCH_H
#define VECHE_ENGINE_BENCH_H

#include "engine/engine.h"

enum { BENCH_REPEATS = 9 };

struct engine_bench {
    double samples_per_s;                /* the median of the repeats ...    */
    double slowest_per_s, fastest_per_s; /* ... and how far they spread      */
    double round_ms, update_ms;          /* medians; the update is part of a round */
    double flops_per_s;                  /* of convolutions and linear layers, as the graph counts them */
    size_t rounds;                       /* measured in all */
    char engine[512];                    /* the engine's own description */
    bool on_device;                      /* `work` says how a device spent the round */
    struct engine_work work;
};

/* Opens an engine of this kind (setup->train and test are left out and replaced by random samples), lets all
 * its replicas learn side by side and update, for about `seconds` in all, a fifth of them to warm up. */
fault engine_bench(const struct engine_ops *ops, const struct engine_setup *setup, double seconds,
                   struct engine_bench *out);

/* Seconds of a replica's lesson, of its optimiser's step, and of a weighted sum of two rows as long as the parameters. */
struct engine_pace {
    double lesson_s, step_s, mix_s;
    double
        scatter; /* how far two lessons at one time are apart, on average, as a part of the sum of both: their Gini index */
};

/* So many engines, each with one replica and setup->threads threads, do all three over and over, each in a thread of
 * its own, for about `seconds`: what one of them takes on average where so many share this machine, its caches and its memory,
 * with rows in memory as ranks have it. A sum is of an engine's own gradient and of one that the next engine has just made. Lessons
 * at one time are those of engine i and i + 1; of an engine alone, one and another half of the measurement later, as if on another
 * machine. */
fault engine_pace(const struct engine_ops *ops, const struct engine_setup *setup, size_t side_by_side,
                  double seconds, struct engine_pace *out);

#endif
