/* collective.h - what the members of a group do together: sums, means, a barrier, an exchange.
 *
 * Every member calls the same collective with the same arguments, in the same order. Afterwards all have the
 * same bits. When a member dies in the middle, all of the living get FAULT_PEER with its name, and the span
 * is undefined.
 *
 * An algorithm of all-reduce is one file: its head states the messages, rounds and bytes of the literature,
 * which its test counts. Cost on a network where a message of n floats takes alpha + n * beta, every member
 * sending and receiving one at a time: a card is busy for n * beta, and the latency alpha is spent on the
 * wire.
 *
 * Members have a rank, 0 .. m - 1. Messages that would hold no float (a share of a span shorter than m) are
 * sent all the same, so that the counts do not depend on the span; but nothing is sent for a span that is
 * empty.
 */
#ifndef VECHE_COLLECTIVE_COLLECTIVE_H
#define VECHE_COLLECTIVE_COLLECTIVE_H

#include "collective/group.h"

/* Of one sum. Its seconds are those until the last member is done where all begin together, lower ranks
 * first. */
struct cost {
    double messages, floats; /* that the busiest member sends */
    const struct collective *by;
    size_t members, span;
};

struct collective {
    /* The floats [first, end) of every member's row become their sum. */
    fault (*sum)(struct group *g, enum row row, size_t first, size_t end);
    /* The formulas of its file's head, for two members or more and one float or more. */
    void (*busiest)(size_t members, size_t floats, double *messages, double *sent);
    double (*seconds)(size_t members, size_t floats, double alpha_s, double beta_s);
};

/* All algorithms, named as written after `algorithm:`. After our own comes the world's, where it has one
 * (link_ops.sum): it sums over all agents or not at all, has no formulas, and its bits are its own affair;
 * and then the choice among our own (auto.c), which has no formulas of its own either. */
#define COLLECTIVES(X)                                                                                       \
    X(ALL_TO_ALL, all_to_all, "all-to-all")                                                                  \
    X(STAR, star, "star")                                                                                    \
    X(TREE, tree, "tree")                                                                                    \
    X(RING, ring, "ring")                                                                                    \
    X(BUTTERFLY, butterfly, "butterfly")                                                                     \
    X(HALVING_DOUBLING, halving_doubling, "halving-doubling")                                                \
    X(BINARY_BLOCKS, binary_blocks, "binary-blocks")                                                         \
    X(NATIVE, native, "native")                                                                              \
    X(AUTO, auto, "auto")

enum {
#define COLLECTIVE_ENUM(id, row, name) id,
    COLLECTIVES(COLLECTIVE_ENUM)
#undef COLLECTIVE_ENUM
        N_COLLECTIVES = NATIVE /* our own */
};
extern const struct collective *const collective_rows[AUTO + 1];
extern const char *const collective_names[AUTO + 2]; /* NULL at the end: the choices of a setting */

/* Sum, then every member divides by their number. An end beyond the row, TO_END say, means the row's end. */
fault group_sum(struct group *g, const struct collective *c, enum row row, size_t first, size_t end);
fault group_mean(struct group *g, const struct collective *c, enum row row, size_t first, size_t end);
/* Of a sum; one alone, or with nothing to sum, sends nothing. */
struct cost collective_cost(const struct collective *c, size_t members, size_t floats);
double cost_seconds(struct cost c, double alpha_s, double beta_s);
/* Of our own, for two members or more and one float or more; both times 0: nothing is known of the network. */
const struct collective *collective_fastest(size_t members, size_t floats, double alpha_s, double beta_s);

/* No member leaves before all have come (dissemination: ceil(log2 m) messages each). */
fault group_barrier(struct group *g);
/* n numbers of 64 bits of every member, integers or doubles, in rank order, to all. */
fault group_exchange(struct group *g, const void *mine, size_t n, void *all);

#endif
