/* group.h - agents that do something together: who they are, and how they find each other again when one is
 * lost.
 *
 *   working in generation G --(a member is gone, silent, or back)--> dissolve(G + 1) --> all members hear of it
 *          ^                                                                                 |
 *          +------------------ the members of generation G + 1 <------- re-form -------------+
 *
 * A member that meets a fault in a collective tells all members before passing it up, so all of the living fail
 * together and within their patience; then they re-form. Tags carry the generation: what was under way in an
 * earlier one is never received. Parts that cannot reach each other go on apart, and re-form when they can.
 *
 * Re-forming takes three exchanges between all who can reach each other: hello; whom I have heard; whom I
 * would go on with, which is the first agent, the next one that hears and is heard by it, the next one that
 * hears and is heard by both, and so on. Those with the same list are the members; usually that is all of them.
 * With single links cut some stand aside until they can reach an agent that they could not.
 *
 * It comes to an end: an agent that was silent for longer than a member's patience is left out by that member, so groups
 * shrink until a round is done; and an agent that was left out knocks, which is heard between two rounds.
 */
#ifndef VECHE_COLLECTIVE_GROUP_H
#define VECHE_COLLECTIVE_GROUP_H

#include "link/link.h"

struct hello;

struct group {
    struct link *link;      /* borrowed */
    struct parcel *parcels; /* borrowed: room for one from each agent; all empty between collectives */
    struct term *terms;     /* owned: room for one from each agent, for a sum of theirs */
    uint32_t *members;      /* owned: agents in rising order */
    size_t n, rank;         /* how many, and where I am among them */
    size_t n_all;           /* agents that could be members: 0 .. n_all - 1 */
    uint64_t generation;
    uint64_t number;      /* of the next tag */
    uint64_t origin;      /* the first member of this generation: tells parts apart that were cut off */
    uint64_t *sets;       /* owned: sets of agents, see group.c */
    struct hello *hellos; /* owned: what every agent said of itself when this generation was formed */
    double alpha_s;       /* what a message takes: its latency, ... */
    double beta_s;        /* ... and each of its floats; both 0: not known */
    bool is_newcomer;     /* back after a crash: knows nothing of the others' generation */
};

/* All of 0 .. n_all - 1 are members; the link is put in before anything else is asked. */
fault group_init(struct group *g, size_t self, struct parcel *parcels, size_t n_all);
void group_release(struct group *g);

/* A tag that no other collective of this group has. All members ask for tags in the same order. */
uint64_t group_tag(struct group *g);

/* Members by rank. */
fault group_send(struct group *g, size_t to, uint64_t tag, struct span span);
fault group_recv(struct group *g, size_t from, uint64_t tag, struct parcel *out);

/* For the end of a collective: lets all parcels go, and where it failed because of a peer, tells all members.
 * Takes the fault and returns it. */
fault group_end(struct group *g, fault f);

/* This agent made me lose patience: I do without it until a round is done. */
void group_leave_out(struct group *g, size_t agent);
/* A round is done: those that were silent for longer than my patience may come again. */
void group_forgive(struct group *g);

/* It is time to re-form, between two collectives: an agent that is not a member can be reached now and could
 * not when the group was formed, or knocks because the group was formed without it; or others have begun to. */
bool group_is_incomplete(const struct group *g);

/* What re-forming finds: the member that is furthest, and whether my rows must become its rows. */
struct reunion {
    size_t leader; /* the agent, not its rank */
    uint64_t round;
    bool adopt;
};
/* `round` is mine. Never fails because of a peer: in the end I am alone. */
fault group_reform(struct group *g, uint64_t round, const char *why, struct reunion *out);

/* An agent that can be reached is no member, at work or at its end. */
bool group_is_a_part(const struct group *g);
/* An agent that can be reached and has come to its end, a member if there is one: its last round was done
 * while others found that a member had died in it, or the group was in parts. It does not come any more, but
 * has what the others would get. */
bool group_finds_ended(const struct group *g, size_t *agent);

/* A strategy that has its own way of forming groups, by lower generations, gives it up for all agents; each
 * that hears of it knows. */
void group_abandon(struct group *g, const char *why);
bool group_is_abandoned(const struct group *g);
/* A tag for what is said until then, beside collectives; an agent that waits for it hears when that is over.
 * `number` counts from 0. */
uint64_t group_lasting_tag(unsigned number);

#endif
