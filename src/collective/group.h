/* group.h - agents that do something together: who they are, and how they find each other again when one is
 * lost.
 *
 *   working in generation G --(somebody is gone, silent, or back)--> dissolve(G + 1) --> everyone hears of it
 *          ^                                                                                 |
 *          +--- all who answer, and agree on who they are, are the next members <--- hello -----+
 *
 * Whoever meets a fault in a collective tells everyone before passing it up, so all of the living fail
 * together and within their patience; then they re-form. Tags carry the generation: what was under way in an
 * earlier one reaches nobody. Two parts that cannot reach each other go on apart, and re-form when they can.
 */
#ifndef VECHE_COLLECTIVE_GROUP_H
#define VECHE_COLLECTIVE_GROUP_H

#include "link/link.h"

struct group {
    struct link *link;      /* borrowed */
    struct parcel *parcels; /* borrowed: room for one from everybody; all empty between collectives */
    uint32_t *members;      /* owned: agents in rising order */
    size_t n, rank;         /* how many, and where I am among them */
    size_t n_all;           /* agents that could be members: 0 .. n_all - 1 */
    uint64_t generation;
    uint64_t number; /* of the next tag */
    uint64_t
        origin; /* the first member when this generation was formed: tells parts apart that were cut off */
    bool is_newcomer; /* back after a crash: knows nothing of the others' generation */
};

/* All of 0 .. n_all - 1 are members; the link is put in before anything else is asked. */
fault group_init(struct group *g, size_t self, struct parcel *parcels, size_t n_all);
void group_release(struct group *g);

/* A tag that no other collective of this group has. All members ask for tags in the same order. */
uint64_t group_tag(struct group *g);

/* Members by rank. */
fault group_send(struct group *g, size_t to, uint64_t tag, struct span span);
fault group_recv(struct group *g, size_t from, uint64_t tag, struct parcel *out);

/* For the end of a collective: lets all parcels go, and where it failed because of a peer, tells everyone.
 * Takes the fault and returns it. */
fault group_end(struct group *g, fault f);

/* Somebody who could be a member, can be reached and has not come to its end is not one. */
bool group_is_incomplete(const struct group *g);

/* What re-forming finds: the member that is furthest, and whether my rows must become its rows. */
struct reunion {
    size_t leader; /* the agent, not its rank */
    uint64_t round;
    bool adopt;
};
/* The members become all who answer; `round` is mine. FAULT_PEER where they do not agree on who they are; all of them
 * hear of that. */
fault group_reform(struct group *g, uint64_t round, const char *why, struct reunion *out);

/* I am the only member, until the next reunion. */
void group_leave(struct group *g);

#endif
