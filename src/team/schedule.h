/* schedule.h - who of a team computes which pass when: a list of actions for each member.
 *
 *   member 0   0F0 0F1 0F2 0F3         0B0 0B1 0B2 0B3          gpipe, two members, four micro-batches;
 *   member 1       1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3              "1F0": part 1 forward, micro-batch 0
 *
 * A schedule is data: whoever runs it, draws it, prices it or checks it reads the same lists. A network is cut into `n_parts` parts, in
 * their order; a member computes part g, g + n_members, ... (`chunks` of them). A round is `n_micros` micro-batches.
 * A schedule that flushes has the same list in every round, and ends a round with all passes of it done. One that does
 * not (pipedream, 2bw) goes on in the next: `later` differs from `first`, and its micro-batches are counted from
 * the round's own first, so that n_micros + 1 is the second of the round after it.
 */
#ifndef VECHE_TEAM_SCHEDULE_H
#define VECHE_TEAM_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/fault.h"

enum action_kind {
    ACTION_FORWARD,  /* F */
    ACTION_BACKWARD, /* B: gradients of inputs and of weights */
    ACTION_INPUTS,   /* I: of inputs alone */
    ACTION_WEIGHTS,  /* W: of weights alone, after I */
    N_ACTIONS
};

struct action {
    enum action_kind kind;
    uint32_t part, micro;
};

struct action_name {
    char text[32]; /* "1F0" */
};
struct action_name action_name(struct action a);

struct actions { /* of one member in one round */
    const struct action *at;
    size_t n;
};

struct schedule {
    const char *name; /* "1f1b" */
    size_t n_members, n_parts, n_micros;
    bool flushes;
    bool delays; /* 2bw: all passes of a round take the weights from before the last step; else backward takes those of its forward */
    struct actions *first; /* [n_members]: in the first round; in the arena, as all here */
    struct actions *later; /* [n_members]: in every other */
};

static inline size_t schedule_member(const struct schedule *s, size_t part)
{
    return part % s->n_members;
}

/* What a schedule depends on. */
struct schedule_needs {
    size_t n_members;
    size_t chunks;   /* parts of each member; 1 but for `interleaved` */
    size_t n_micros; /* of a round, at least 1 */
    size_t warmup;   /* 1f1b: most micro-batches in flight on the first member, 1 to 2 n_members - 1; 0: as usual, n_members */
};

/* A kind of schedule: a name after `schedule:`, and one small function that writes a member's list. */
struct schedule_kind {
    const char *name, *help;
    bool splits;     /* has I and W in the place of B */
    bool has_chunks; /* takes more than one part a member */
    bool has_warmup; /* takes a warm-up */
    bool flushes, delays;
    /* FAULT_USAGE where it cannot be written for these: a sentence without a place. */
    fault (*write)(const struct schedule_needs *needs, struct arena *arena, struct schedule *out);
};
extern const struct schedule_kind *const schedule_rows[]; /* ends with NULL */
const struct schedule_kind *schedule_kind_named(const char *name); /* NULL: there is none */
/* The same; a fault says which name is nearest. */
fault schedule_find(const char *name, const struct schedule_kind **out);

/* What each member computes in the first n_rounds rounds, micro-batches counted from the first of all; forward passes of those that
 * come after the last round are left out. */
fault schedule_unroll(const struct schedule *s, size_t n_rounds, struct arena *arena, struct actions **out);

/* In PyTorch's notation, a line for each member: "0F0,0F1,0B0". Of a schedule that does not flush the first n_rounds rounds, of one
 * that does a single one. */
fault schedule_print_csv(const struct schedule *s, size_t n_rounds, FILE *to);
/* The same from a file's text: a schedule that flushes, checked (schedule_check). Empty cells are waiting, and mean nothing. A fault
 * names line and column. */
fault schedule_read_csv(const char *text, size_t n, const char *source, size_t n_members, size_t n_micros,
                        struct arena *arena, struct schedule *out);

/* That every pass is computed once, by the member that has its part, in an order that never deadlocks: every receive has its
 * send before it, whatever the links do; on each part passes of a kind in ascending order of the micro-batches, since sums of
 * gradients and running statistics depend on it; W after its I; and the backward passes of a round in that round. A part needs
 * the values of the one before and the gradients of the one after; those of parts further away come no later. A fault says where: "member 1
 * waits for 0F3, which member 0 computes only after ...". */
fault schedule_check(const struct schedule *s);
struct schedule_place { /* of an action in a list; after its end: what is missing there */
    size_t member, index;
};
/* The same, and says in which member's list the fault lies, and where in it. */
fault schedule_check_at(const struct schedule *s, struct schedule_place *where);

/* The most micro-batches under way on a member at a time: from the beginning of F to the end of B (or of W), counted in parts times
 * micro-batches. */
size_t schedule_in_flight(const struct schedule *s, size_t member);
/* The most micro-batches of one part under way: the room that this part's engine needs. */
size_t schedule_flights(const struct schedule *s, size_t part);
/* Versions of the weights that a member must hold: 1 where it flushes. A step follows the last backward pass of every round. */
size_t schedule_versions(const struct schedule *s, size_t member);

/* More passes than this no schedule has. */
enum { SCHEDULE_MOST_PASSES = 10000000 };

#endif
