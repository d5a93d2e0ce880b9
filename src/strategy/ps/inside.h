/* inside.h - what the files of the answering side of parameter servers share. */
#ifndef VECHE_STRATEGY_PS_INSIDE_H
#define VECHE_STRATEGY_PS_INSIDE_H

#include "strategy/ps/ps.h"

static inline double now_s(const struct ps_helper *h)
{
    return link_now_s(h->agent->link);
}

static inline bool can_reach(const struct ps_helper *h, size_t member)
{
    return link_can_reach(h->agent->link, member);
}

static inline bool has_ended(const struct ps_helper *h, size_t member)
{
    return link_has_ended(h->agent->link, member);
}

static inline struct parcel *parcel_of(const struct ps_helper *h, size_t child)
{
    return &h->agent->parcels[child];
}

static inline void drop(const struct ps_helper *h, struct parcel *p)
{
    link_drop(h->agent->link, p);
}

static inline const struct ps *settings_of(const struct ps_helper *h)
{
    return &ps_of(h->agent)->settings;
}

static inline size_t n_members(const struct ps_helper *h)
{
    return ps_of(h->agent)->n_members;
}

/* A message that cannot be delivered is the receiver's misfortune: it will ask again. */
static inline fault tell(const struct ps_helper *h, size_t to, uint64_t tag, struct letter x)
{
    return forgive(link_send(h->agent->link, to, tag, &x, sizeof x));
}

static inline const char *name_of(const struct ps_helper *h)
{
    return h->is_node ? "node" : "server";
}

static inline bool has_said_goodbye(const struct ps_child *c)
{
    return c->ask.kind & LETTER_BYE;
}

/* roll.c: who is there. */
void ps_look_who_is_gone(struct ps_helper *h);
void ps_look_who_is_silent(struct ps_helper *h);
/* It has work to do, and is not given up. */
bool ps_is_active(const struct ps_helper *h, size_t child);
/* Others may be waiting for something from it. */
bool ps_is_awaited(const struct ps_helper *h, size_t child);
bool ps_somebody_waits(const struct ps_helper *h);
/* Whom to listen to: one, or ANYONE. */
size_t ps_next_to_hear(const struct ps_helper *h);
/* The pushes of the active child that has made fewest; UINT64_MAX: there is none. */
uint64_t ps_slowest_clock(const struct ps_helper *h);
/* A worker or node has said goodbye, or a node above it has for it. */
bool ps_has_taken_leave(const struct ps_helper *h, size_t member);
/* Nothing more is to come from anybody. */
bool ps_has_finished(const struct ps_helper *h);

/* update.c: steps and answers. */
fault ps_update(struct ps_helper *h);
fault ps_answer(struct ps_helper *h, size_t child);
fault ps_answer_all_that_may(struct ps_helper *h);
/* A node's exchange with those above it. */
fault ps_ask_above(struct ps_helper *h, uint64_t kind, uint64_t round, uint64_t n_workers);
/* To the other of the pair: the shard as it is now, or only who serves. */
fault ps_write_to_other(struct ps_helper *h, bool with_rows);
/* Gradients that wait for their update are dropped. */
void ps_let_go(struct ps_helper *h);

#endif
