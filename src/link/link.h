/* link.h - one agent's end of its world: what strategies may ask for, and what each world must give.
 *
 * The verbs that take time (await, update, mix, number, receive, average, adopt, sleep) block the agent that
 * calls them and nobody else. A message is copied or handed over, never shared. Messages from one peer under
 * one tag come in the order in which they were sent. Every wait has a deadline, the world's patience; a peer
 * known to be gone gives FAULT_PEER with its name, a silent one FAULT_TIMEOUT. What comes after that is not
 * lost: one may wait again. One's own machine going down is FAULT_CRASH: that one is passed up by everyone,
 * and ends the agent's program until the machine returns; so is FAULT_GIVEN_UP, where the others go on without it.
 *
 * Nothing a verb returns may depend on the numbers that were learnt: a world is free to compute them later,
 * or to live through a run again without them. One verb is the exception, link_number.
 */
#ifndef VECHE_LINK_LINK_H
#define VECHE_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "engine/engine.h"

struct link;

/* The floats [first, end) of each of these rows, as far as it has them; up to TO_END: to the ends of the rows. */
struct span {
    row_set rows;
    size_t first, end;
};

static inline struct span whole(row_set rows)
{
    return (struct span){rows, 0, TO_END};
}

/* Spans received from a peer and not yet let go. */
struct parcel {
    void *rows; /* the world's; NULL: nothing */
};

/* A part of a weighted sum: of a row of mine, or as it came in a parcel. Its float j + shift goes into float j of the sum. */
struct term {
    double weight;
    enum row row;
    const struct parcel *parcel; /* NULL: mine */
    ptrdiff_t shift;
};

/* What a program may know of its own numbers. */
struct question {
    enum {
        NUMBER_DOT, /* the dot product of the floats [first, end) of a row of mine and as many of another, from first + shift on;
                     * of floats with themselves: their norm, squared */
        NUMBER_LOSS /* of my last lesson */
    } about;
    enum row row, other; /* DOT, as the next two */
    size_t first, end;   /* up to TO_END: to the end of `row` */
    ptrdiff_t shift;
};

/* Tags of groups (the collectives') lie above all others: TAG_GROUP | generation << TAG_GENERATION | the rest. */
#define TAG_GROUP      (1ull << 63)
#define TAG_GENERATION 40

struct link_ops {
    const char *name; /* as written after `world:` */

    double (*now_s)(const struct link *l);
    fault (*sleep)(struct link *l, double seconds);

    /* Begins a lesson on my next batch (number `lesson`, from 0); returns at once. */
    fault (*learn)(struct link *l, uint64_t lesson);
    /* Waits until the floats [first, ...) of my gradient are ready; 0: the lesson is over. The gradient
     * becomes ready from its end to its beginning, as the backward pass goes. */
    fault (*await)(struct link *l, size_t first);
    /* A step of my optimiser with the floats [first, end) of my gradient; takes the time that memory needs. t
     * counts my steps, from 1. */
    fault (*update)(struct link *l, size_t first, size_t end, double lr, uint64_t t);

    /* Of my rows, as they are now, to a peer; returns at once. FAULT_PEER when it is known to be gone. */
    fault (*send_rows)(struct link *l, size_t to, uint64_t tag, struct span span);
    /* Waits for a span under this tag, from one peer or ANYONE; `sender` may be NULL. */
    fault (*recv_rows)(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender);
    void (*drop)(struct link *l, struct parcel *p);
    /* The floats [first, end) of my row `into` become the sum of the terms, in their order; takes the time that
     * memory needs. Every term must have these floats, its parcel must hold them, and of the floats that are written none is
     * read with a shift: else FAULT_USAGE. Parcels are kept. */
    fault (*mix)(struct link *l, enum row into, size_t first, size_t end, const struct term *terms, size_t n);

    /* See link_number. */
    fault (*number)(struct link *l, const struct question *q, double *out);

    /* Bytes to a peer: borrowed only until send returns. */
    fault (*send)(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n);
    /* Waits for exactly n bytes under this tag, from one peer or ANYONE; `sender` may be NULL. */
    fault (*recv)(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender);

    /* The rows of both ends become their mean, at one moment, after the rows have travelled both ways. The
     * peer's program takes no notice. */
    fault (*average)(struct link *l, size_t peer, row_set rows);
    /* My rows become copies of the peer's, as they are when they have travelled; `round` (or NULL) is the one
     * it was in then. */
    fault (*adopt)(struct link *l, size_t peer, uint64_t *round);

    /* Takes the next of the rounds that all share, and says how many all had ended by then; false: none is left. For agents
     * whose rounds are not their own. */
    bool (*take_round)(struct link *l, uint64_t *ended);
    /* A round of mine is over: it is counted, and the world may hold me here while it looks at everybody's rows. */
    fault (*end_round)(struct link *l);
    /* So many rounds of mine are left out, and count as ended. */
    void (*skip_rounds)(struct link *l, uint64_t n);

    /* The floats [first, end) of a row of all that learn become their sum, by a means of the world's own; NULL: it has
     * none. */
    fault (*sum)(struct link *l, enum row row, size_t first, size_t end);

    /* All that learn give a span of their rows to their neighbours in the topology, by a means of the world's own: out[i]
     * becomes what neighbour i had; NULL: it has none. Everyone must take part. */
    fault (*gather_near)(struct link *l, struct span span, struct parcel *out);

    /* Something has arrived under this tag, from anyone. */
    bool (*has_mail)(const struct link *l, uint64_t tag);
    /* Lets go of messages that arrived for tags below this one. */
    void (*forget)(struct link *l, uint64_t tag);
    /* Tells everyone who can be reached that nothing more will come under tags of groups below this one, and
     * why: whoever waits for such a message, or will, gets FAULT_PEER with this text at once. 0: asks
     * everyone to do so for the generation it is in. */
    void (*dissolve)(struct link *l, uint64_t below, const char *why);
    /* The tag below which tags of groups are dissolved, as far as I have heard. */
    uint64_t (*dissolved)(const struct link *l);
    /* The peer is alive and can be reached from here, as far as is known. */
    bool (*can_reach)(const struct link *l, size_t peer);
    /* A peer that cannot be reached may come back. */
    bool (*may_return)(const struct link *l, size_t peer);
    /* The peer's program is known to have come to its end. */
    bool (*has_ended)(const struct link *l, size_t peer);
    /* Others are known to have ended rounds since then, on the clock of now_s. */
    bool (*others_go_on)(const struct link *l, double since_s);
    /* The peer is alive, can be reached from here, and takes part in round k. */
    bool (*takes_part)(const struct link *l, size_t peer, uint64_t k);
    /* Floats in each of the rows of a kind. */
    size_t (*row_floats)(const struct link *l, enum row row);
    /* Times my parameters were written since my last lesson was asked for. */
    uint64_t (*staleness)(const struct link *l);
    /* One line for people and for the records: "agent 3 is gone". `kind` lives as long as the program. */
    void (*note)(struct link *l, const char *kind, const char *text);
};

#define ANYONE ((size_t)-1)

/* A fault about a peer that is gone or silent; any other is passed up. */
static inline bool is_about_peers(fault f)
{
    return fault_kind_of(f) == FAULT_PEER || fault_kind_of(f) == FAULT_TIMEOUT;
}

/* What goes wrong with a peer is no fault of mine: it is dropped; any other is passed up. */
static inline fault forgive(fault f)
{
    if (f && !is_about_peers(f))
        return f;
    fault_drop(f);
    return OK;
}

struct link {
    const struct link_ops *ops;
    size_t self, n_members; /* agents that learn, and after them those that help */
    struct link_counts {
        uint64_t bytes, messages; /* sent by me, those that were lost included */
        uint64_t lost;            /* of these: to a peer that was gone or cut off, or no longer waited for */
        uint64_t received;        /* by me, and used */
        uint64_t unread;          /* by me, and not: forgotten, or in the mail when my machine went down */
        double waiting_s;         /* for peers; virtual in a world with a virtual clock */
    } counts;
};

/* The verbs, as programs write them; what each does stands at its entry of link_ops. */

static inline double link_now_s(const struct link *l)
{
    return l->ops->now_s(l);
}

static inline fault link_sleep(struct link *l, double seconds)
{
    return l->ops->sleep(l, seconds);
}

static inline fault link_learn(struct link *l, uint64_t lesson)
{
    return l->ops->learn(l, lesson);
}

static inline fault link_await(struct link *l, size_t first)
{
    return l->ops->await(l, first);
}

static inline fault link_update(struct link *l, size_t first, size_t end, double lr, uint64_t t)
{
    return l->ops->update(l, first, end, lr, t);
}

static inline fault link_send_rows(struct link *l, size_t to, uint64_t tag, struct span span)
{
    return l->ops->send_rows(l, to, tag, span);
}

static inline fault link_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out,
                                   size_t *sender)
{
    return l->ops->recv_rows(l, from, tag, out, sender);
}

static inline void link_drop(struct link *l, struct parcel *p)
{
    l->ops->drop(l, p);
}

static inline fault link_mix(struct link *l, enum row into, size_t first, size_t end,
                             const struct term *terms, size_t n)
{
    return l->ops->mix(l, into, first, end, terms, n);
}

static inline fault link_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n)
{
    return l->ops->send(l, to, tag, bytes, n);
}

static inline fault link_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n,
                              size_t *sender)
{
    return l->ops->recv(l, from, tag, bytes, n, sender);
}

static inline fault link_average(struct link *l, size_t peer, row_set rows)
{
    return l->ops->average(l, peer, rows);
}

static inline fault link_adopt(struct link *l, size_t peer, uint64_t *round)
{
    return l->ops->adopt(l, peer, round);
}

static inline bool link_take_round(struct link *l, uint64_t *ended)
{
    return l->ops->take_round(l, ended);
}

static inline fault link_end_round(struct link *l)
{
    return l->ops->end_round(l);
}

static inline void link_skip_rounds(struct link *l, uint64_t n)
{
    l->ops->skip_rounds(l, n);
}

static inline bool link_has_sum(const struct link *l)
{
    return l->ops->sum != NULL;
}

static inline fault link_sum(struct link *l, enum row row, size_t first, size_t end)
{
    return l->ops->sum(l, row, first, end);
}

static inline bool link_has_gather_near(const struct link *l)
{
    return l->ops->gather_near != NULL;
}

static inline fault link_gather_near(struct link *l, struct span span, struct parcel *out)
{
    return l->ops->gather_near(l, span, out);
}

static inline bool link_has_mail(const struct link *l, uint64_t tag)
{
    return l->ops->has_mail(l, tag);
}

static inline void link_forget(struct link *l, uint64_t tag)
{
    l->ops->forget(l, tag);
}

static inline void link_dissolve(struct link *l, uint64_t below, const char *why)
{
    l->ops->dissolve(l, below, why);
}

static inline uint64_t link_dissolved(const struct link *l)
{
    return l->ops->dissolved(l);
}

static inline bool link_can_reach(const struct link *l, size_t peer)
{
    return l->ops->can_reach(l, peer);
}

static inline bool link_may_return(const struct link *l, size_t peer)
{
    return l->ops->may_return(l, peer);
}

static inline bool link_has_ended(const struct link *l, size_t peer)
{
    return l->ops->has_ended(l, peer);
}

static inline bool link_others_go_on(const struct link *l, double since_s)
{
    return l->ops->others_go_on(l, since_s);
}

static inline bool link_takes_part(const struct link *l, size_t peer, uint64_t k)
{
    return l->ops->takes_part(l, peer, k);
}

static inline size_t link_row_floats(const struct link *l, enum row row)
{
    return l->ops->row_floats(l, row);
}

static inline uint64_t link_staleness(const struct link *l)
{
    return l->ops->staleness(l);
}

static inline void link_note(struct link *l, const char *kind, const char *text)
{
    l->ops->note(l, kind, text);
}

/* A number that the program may decide by: of my rows as they are when I ask. Everything it depends on is
 * computed first, which costs a world that computes many agents together some of that; the rows' bytes
 * take the time that memory needs. Every world gives the same bits (host_dot), and a run that is resumed
 * gives them again. FAULT_NUMBER where it is not finite, which ends the play; FAULT_USAGE where there is
 * no such number, or a lesson under way is about to change it. A gradient may be asked about in the round
 * in which it was learnt, until a step is made with it. */
static inline fault link_number(struct link *l, const struct question *q, double *out)
{
    return l->ops->number(l, q, out);
}

#endif
