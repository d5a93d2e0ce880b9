/* rows.h - which rows a replica has: a table that those fill who need them.
 *
 *   engine       ROW_PARAMS, ROW_GRADS, ROW_STATS
 *   optimiser    ROW_SLOT, ROW_SLOT + 1, ...       its slots
 *   strategy     ROW_KEPT, ROW_KEPT + 1, ...       what it keeps from round to round
 *   part         ROW_INPUTS .. ROW_OUTPUT_GRADS    what crosses between parts of a network
 *
 * A row is a vector of floats, of a length of its own. All replicas have the same rows. A row that nobody asked for has no
 * floats, and takes no memory.
 */
#ifndef VECHE_ENGINE_ROWS_H
#define VECHE_ENGINE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "graph/graph.h"
#include "optim/optim.h"

enum { KEPT_ROWS = 4 }; /* the most that a strategy keeps */

enum row { /* a row's place in the table */
           ROW_PARAMS,
           ROW_GRADS,
           ROW_STATS,
           ROW_SLOT,
           ROW_KEPT = ROW_SLOT + OPTIM_SLOTS,
           ROW_INPUTS = ROW_KEPT + KEPT_ROWS, /* values received: written before a pass forward */
           ROW_OUTPUTS,                       /* values to be sent, after it                     */
           ROW_OUTPUT_GRADS,                  /* their gradients: written before a pass backward */
           ROW_INPUT_GRADS,                   /* gradients to be sent back, after it             */
           N_ROWS
};

struct rows {
    struct row_entry {
        const char
            *name;   /* for people and files: "parameters", "momentum_buffer"; NULL: there is no such row */
        size_t size;      /* floats */
        bool awaits_data; /* how many is known only when the data are open, and they are not */
        float start;      /* what each is at first; parameters and statistics are then written */
        enum {
            LIKE_NOTHING,
            LIKE_PARAMS,
            LIKE_STATS
        } like; /* it has a float for each of the network's parameters, or statistics */
    } of[N_ROWS];
    size_t n; /* [n, N_ROWS) are not there */
};

/* Those of the engine, and of the optimiser where there is one (NULL: none). */
struct rows rows_of(const struct graph *g, const struct optim_settings *optim);
/* One more for the strategy, after those that it has. */
void rows_keep(struct rows *rows, struct row_entry entry);

/* Those of a part that has so many micro-batches under way at a time, each of at most `most` samples. */
void rows_cross(struct rows *rows, const struct graph *part, size_t flights, size_t most);

/* Whether what a row holds is of use after the round: gradients are not, nor is what crosses. */
static inline bool row_lasts(enum row row)
{
    return row != ROW_GRADS && row < ROW_INPUTS;
}

/* A line for each row: what it is called, who asked for it, its floats and memory; the sum, of n replicas; what spare rows may
 * take beside these. */
void rows_describe(const struct rows *rows, size_t n_replicas, size_t n_spare, FILE *to);

/* Sets of rows, a bit for each. */
typedef unsigned row_set;

static inline enum row row_set_first(row_set rows) /* which are not none */
{
    return (enum row)__builtin_ctz(rows);
}

static inline row_set row_set_rest(row_set rows) /* all but the first */
{
    return rows & (rows - 1);
}

#define ROWS_PARAMS  (1u << ROW_PARAMS)
#define ROWS_STATS   (1u << ROW_STATS)
#define ROWS_GRADS   (1u << ROW_GRADS)
#define ROWS_SLOTS   ((1u << ROW_KEPT) - (1u << ROW_SLOT))
#define ROWS_KEPT    ((1u << ROW_INPUTS) - (1u << ROW_KEPT))
#define ROWS_LASTING (ROWS_PARAMS | ROWS_STATS | ROWS_SLOTS | ROWS_KEPT)

#endif
