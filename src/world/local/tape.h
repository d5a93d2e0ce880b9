/* tape.h - what is to be computed, written down as it is asked for and computed together later.
 *
 * A lesson, a step, a blend reads some rows and writes others; a number only reads. An entry gets the level after all entries it
 * depends on: those that wrote what it reads, and those that read or wrote what it writes. Entries of one
 * level and kind go to the engine in one call. So the lessons of many agents run side by side, in whatever
 * order virtual time interleaved them, and each sees its rows exactly as they were when it was asked for.
 */
#ifndef VECHE_WORLD_LOCAL_TAPE_H
#define VECHE_WORLD_LOCAL_TAPE_H

#include "engine/engine.h"

struct tape_client {
    /* The batch and the dropout seed of an agent's lesson. */
    void (*prepare)(void *ctx, size_t agent, uint64_t lesson, struct pick *picks, uint64_t *seed);
    /* A lesson was answered; agents' lessons are answered in their order. */
    fault (*answered)(void *ctx, size_t agent, uint64_t lesson, double loss, size_t hits);
    void *ctx;
};

struct tape;

/* So many lessons on the tape are worth computing: one of each agent that learns. */
fault tape_new(struct engine *engine, struct tape_client client, size_t lessons_wanted, struct tape **out);
void tape_free(struct tape *t);

/* While a tape is silent, entries are taken and thrown away: a run is lived through again without its
 * numbers. */
void tape_set_silent(struct tape *t, bool silent);

fault tape_learn(struct tape *t, size_t agent, uint64_t lesson);
fault tape_update(struct tape *t, struct update u);
/* The blend's addends are copied. */
fault tape_blend(struct tape *t, struct blend b);

/* A number, which *out becomes when the tape is computed; until then it is the caller's to keep. */
fault tape_dot(struct tape *t, struct dot d, double *out);
void tape_forget(struct tape *t, const double *out); /* it is waited for no more */

/* Enough lessons wait that computing them is worth while. */
bool tape_is_long(const struct tape *t);
/* Computes all that was written down. */
fault tape_flush(struct tape *t);

struct tape_times { /* real seconds in the engine */
    double learn_s, update_s, mix_s; /* numbers among the mixes */
};
struct tape_times tape_times(const struct tape *t);

#endif
