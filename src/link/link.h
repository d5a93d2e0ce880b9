/* link.h - one agent's end of its world: what strategies may ask for, and what each world must give.
 *
 * The verbs that take time (learn, receive, average, adopt, sleep) block the agent that calls them and nobody
 * else. A message is copied or handed over, never shared. Every wait has a deadline, the world's patience; a
 * peer known to be gone gives FAULT_PEER with its name, a silent one FAULT_TIMEOUT, one's own machine going
 * down FAULT_CRASH: that one is passed up by everyone, and ends the agent's program until the machine
 * returns.
 *
 * Nothing a verb returns may depend on the numbers that were learnt: a world is free to compute them later,
 * or to live through a run again without them.
 */
#ifndef VECHE_LINK_LINK_H
#define VECHE_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "engine/engine.h"

struct link;

/* Which rows of an agent travel or are mixed together: bits 1 << ROW_PARAMS and so on. */
typedef unsigned row_set;
#define ROWS_PARAMS (1u << ROW_PARAMS)
#define ROWS_STATS  (1u << ROW_STATS)
#define ROWS_SLOTS  (1u << ROW_SLOT0 | 1u << ROW_SLOT1)

/* Rows received from a peer and not yet mixed or let go. */
struct parcel {
    void *rows; /* the world's */
};

struct link_ops {
    const char *name; /* as written after `world:` */

    double (*now_s)(const struct link *l);
    fault (*sleep)(struct link *l, double seconds);

    /* A lesson on my next batch (number `lesson`, from 0) in round k; my gradient is ready when this returns.
     */
    fault (*learn)(struct link *l, uint64_t lesson);
    /* A step of my optimiser with my gradient; takes no time. t counts my steps, from 1. */
    fault (*update)(struct link *l, double lr, uint64_t t);

    /* My rows as they are now, to a peer; returns at once. FAULT_PEER when it is known to be gone. */
    fault (*send_rows)(struct link *l, size_t to, uint64_t tag, row_set rows);
    /* Waits for rows from a peer under this tag. */
    fault (*recv_rows)(struct link *l, size_t from, uint64_t tag, struct parcel *out);
    void (*drop)(struct link *l, struct parcel *p);
    /* mine = self * mine + sum of weights[i] * parcels[i], in this order, row by row; lets the parcels go. */
    fault (*mix)(struct link *l, row_set rows, double self, struct parcel *parcels, const double *weights,
                 size_t n);

    /* Bytes to a peer: borrowed only until send returns. */
    fault (*send)(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n);
    /* Waits for exactly n bytes under this tag, from one peer or ANYONE; `sender` may be NULL. */
    fault (*recv)(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender);

    /* The rows of both ends become their mean, at one moment, after the rows have travelled both ways. The
     * peer's program takes no notice. */
    fault (*average)(struct link *l, size_t peer, row_set rows);
    /* My rows become copies of the peer's. */
    fault (*adopt)(struct link *l, size_t peer);

    /* Lets go of messages that arrived for tags below this one. */
    void (*forget)(struct link *l, uint64_t tag);
    /* The peer is alive, can be reached from here, and takes part in round k. */
    bool (*takes_part)(const struct link *l, size_t peer, uint64_t k);
    /* Times my parameters were written since my last lesson was asked for. */
    uint64_t (*staleness)(const struct link *l);
    /* One line for people and for the records: "agent 3 is gone". `kind` lives as long as the program. */
    void (*note)(struct link *l, const char *kind, const char *text);
};

#define ANYONE ((size_t)-1)

struct link {
    const struct link_ops *ops;
    size_t self, n_agents;
    struct link_counts {
        uint64_t bytes, messages; /* sent by me, those that were lost included */
        uint64_t lost;            /* of these: to a peer that was gone or cut off, or no longer waited for */
        uint64_t received;        /* by me, and used */
        uint64_t unread;          /* by me, and not: forgotten, or in the mail when my machine went down */
        double waiting_s;         /* for peers; virtual in a world with a virtual clock */
    } counts;
};

#endif
