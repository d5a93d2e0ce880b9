/* inside.h - what the files of the local world share. */
#ifndef VECHE_WORLD_LOCAL_INSIDE_H
#define VECHE_WORLD_LOCAL_INSIDE_H

#include "world/local/agenda.h"
#include "world/local/fiber.h"
#include "world/local/local.h"
#include "world/local/tape.h"

/* An agent's life:
 *
 *      READY <-> PARKED --> DONE            (its program came to its end)
 *        ^         |
 *        |         v
 *        +------ DOWN                       (crashed; back to READY when its machine returns)
 */
enum life { LIFE_READY, LIFE_PARKED, LIFE_DONE, LIFE_DOWN };

struct snapshot { /* floats [first, end) of a row as they were when they were sent */
    enum row row;
    size_t first, end;
    size_t at;    /* the agent's own row while they were not written since, else a spare one */
    size_t owner; /* the agent; NO_OWNER once they lie in a spare row */
    uint32_t refs;
    struct snapshot *next; /* of the same owner and row, or in the list of free ones */
};

struct message {
    struct message *next;
    uint64_t number; /* by order of sending */
    size_t from, to;
    uint64_t tag;
    bool given_up;  /* it arrives, and is not received */
    bool dissolves; /* groups below its tag; `bytes` says why */
    size_t n_bytes;
    void *bytes; /* owned, or NULL */
    size_t n_rows;
    struct snapshot *rows[N_ROWS];
};

struct journal { /* what a member was told when it asked for numbers, in order */
    double *at;      /* owned */
    size_t n, room;
    size_t read; /* while the run is lived through again: so many were told again */
};

struct machine {
    size_t number; /* among all machines */
    double speed;
    double card_out_s, card_in_s; /* its network card is busy until then */
};

struct actor {
    struct link link; /* first: a struct link * of this world is a struct actor * */
    struct local *world;
    struct agent *agent;
    struct fiber *fiber;
    enum life life;
    bool alive;      /* its machine is up */
    bool is_missed;  /* the others know that it is not */
    uint32_t falls;  /* times its machine went down */
    fault verdict;   /* what the verb it waits in will return */
    uint64_t ticket; /* counts its waits: what was meant for an earlier one is stale */
    bool receives;   /* waits for a message from `from` under `tag` */
    bool in_vain;    /* waits for rows of `from`, whose machine is down: it does not know yet */
    size_t from;
    uint64_t tag;
    uint64_t dissolved; /* tags of groups below this one */
    char why_dissolved[128];
    struct message *mail, **mail_end; /* arrived, oldest first */
    struct snapshot *live[N_ROWS];    /* of its rows, as long as they are not written: lists */
    struct machine *machines; /* borrowed: n_machines of them, of which none fails alone */
    size_t n_machines;
    uint64_t joined; /* takes part from this round on */
    uint64_t writes, writes_at_lesson;
    bool has_gradient;
    uint64_t adopted_round; /* of whom it took its rows last, then */
    double lesson_began_s, lesson_takes_s;
    double *done_s; /* of a team: when each machine's gradients are final, after the lesson began */
    bool is_learning;   /* it has begun a lesson and not awaited its end */
    bool gradient_is_new; /* it was learnt or mixed in this round, and not yet used: see struct asker */
    bool asks;
    struct question question;
    double number; /* the answer */
    struct journal journal;
    struct actor *next_ready;
    struct actor *next_asker;
};

struct cut {
    uint32_t a, b;
};

struct noted { /* said by an agent, to be told once its turn is over */
    struct noted *next;
    double at_s;
    size_t agent;
    const char *kind;
    char text[];
};

struct deadline {
    double at_s;
    uint32_t who;
    uint64_t ticket;
};

struct local {
    struct world world;        /* first: a struct world * of this kind is a struct local * */
    const struct stage *stage; /* borrowed */
    struct engine *engine;     /* borrowed */
    struct watcher watcher;
    struct actor *actors;     /* owned */
    struct machine *machines; /* owned: all actors' */
    double *team_times;       /* owned: room for a lesson of a team, and all actors' done_s */
    struct fibers *fibers; /* owned: the actors' programs */
    size_t n;
    struct tape *tape; /* owned */
    double now_s;
    uint64_t steps;
    uint64_t replay_to;
    bool replaying, in_step;
    size_t n_up; /* actors that are READY or PARKED */
    struct actor *ready, **ready_end;
    struct actor *askers, **askers_end; /* who wait for numbers, in the order in which they asked */
    struct noted *notes, **notes_end;
    struct agenda agenda;
    struct deadline *deadlines; /* owned: a ring, since all have the same patience */
    size_t deadline_room, deadline_first, n_deadlines;
    uint64_t posted; /* messages so far */
    struct message *free_messages;
    struct snapshot *free_snapshots;
    size_t *free_rows[N_ROWS]; /* owned: stacks of spare rows */
    size_t n_free_rows[N_ROWS];
    struct cut *cuts; /* owned */
    size_t n_cuts, cut_room;
    uint32_t *group; /* owned: of each agent while the network is partitioned */
    bool partitioned;
    uint64_t *mended;       /* owned: the ends of an edge take part together from this round on */
    uint64_t *random_draws; /* owned: per agent and link, how many random events there were */
    struct waits waits;
    struct totals totals;
    double ended_s; /* when the last round ended */
};

/* kinds of moments on the agenda */
enum {
    MOMENT_WAKE,
    MOMENT_ARRIVE,
    MOMENT_AVERAGE,
    MOMENT_ADOPT,
    MOMENT_SCRIPT,
    MOMENT_RANDOM_AGENT,
    MOMENT_RANDOM_LINK,
    MOMENT_NOTICE /* that a machine is down */
};

/* world.c */
extern const struct world_ops local_world;

/* local.c */
void actor_wake(struct actor *a, fault verdict);
fault actor_park(struct actor *a);
fault local_expect(struct local *w, double at_s, int kind, struct actor *who, size_t whom, void *what);
fault actor_begin_life(struct actor *a);
/* Tells the watcher, but not from an agent's own small stack. `kind` lives as long as the program. */
void local_say(struct local *w, size_t agent, const char *kind, const char *text);

static inline struct actor *actor_of(struct link *l)
{
    return (struct actor *)l;
}

/* A machine that is down does nothing more. */
#define MUST_BE_UP(a)                                                                                        \
    do {                                                                                                     \
        if (!(a)->alive)                                                                                     \
            return FAIL(FAULT_CRASH, "the machine of agent %zu is down", (a)->link.self);                    \
    } while (0)

static inline fault gone(const struct actor *a, size_t peer)
{
    return FAIL(FAULT_PEER, "agent %zu cannot be reached from agent %zu", peer, a->link.self);
}

/* mail.c */
fault local_send_rows(struct link *l, size_t to, uint64_t tag, struct span span);
fault local_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender);
fault local_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n);
fault local_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender);
void local_drop(struct link *l, struct parcel *p);
bool local_has_mail(const struct link *l, uint64_t tag);
void local_forget(struct link *l, uint64_t tag);
void local_dissolve(struct link *l, uint64_t below, const char *why);
uint64_t local_dissolved(const struct link *l);
/* Floats of an actor's rows that its machine i has. */
size_t actor_floats(const struct actor *a, size_t i, struct span s);
/* The wait an actor is about to begin ends when patience does. */
fault actor_add_deadline(struct actor *a);
fault message_arrive(struct local *w, struct message *m);
void message_free(struct local *w, struct message *m);
/* The message that has been under way or unread for longest of those that hold a spare row of this kind is
 * given up; false where there is none. */
bool message_give_up_oldest(struct local *w, enum row row);
void actor_drop_mail(struct actor *a);

/* verbs.c */
extern const struct link_ops local_link;
fault local_average_now(struct local *w, struct actor *a, struct actor *peer, row_set rows);
void local_average_lost(struct actor *a, struct actor *peer); /* it is not waited for any more */
fault local_adopt_now(struct local *w, struct actor *a, struct actor *peer);

/* The time it takes an actor's machines to read and write these floats, so many times each. What they become is there at its
 * end: a machine that goes down before that has done nothing. */
fault actor_move_floats(struct actor *a, struct span s, double times);

/* numbers.c */
fault local_number(struct link *l, const struct question *q, double *out);
/* Once nothing more happens at this moment: computes what was asked for, or reads it in the journals, and wakes who asked. */
fault ask_answer_all(struct local *w);
void ask_no_more(struct actor *a); /* its machine goes down */
/* After a replay: every number was asked for again. */
fault ask_journals_are_read(const struct local *w);
const double *local_numbers(const struct local *w, size_t member, size_t *n);
fault local_set_numbers(struct local *w, size_t member, const double *numbers, size_t n);

/* rows.c */
fault rows_open(struct local *w);
void rows_close(struct local *w);
fault snapshot_take(struct actor *a, enum row row, size_t first, size_t end, struct snapshot **out);
void snapshot_drop(struct local *w, struct snapshot *s);
/* Before floats of a row are written: what was sent of them is copied away. */
fault rows_about_to_write(struct actor *a, enum row row, size_t first, size_t end);
fault rows_copy(struct local *w, enum row row, size_t from, size_t into, size_t first, size_t end);

/* wires.c */
bool wires_can_reach(const struct local *w, size_t a, size_t b); /* as far as a knows */
bool wires_get_through(const struct local *w, size_t a, size_t b);
/* Books a transfer that begins now at the earliest, of bytes, or of rows, which go from each machine that has some of them to its
 * like; returns when the last byte is there. */
double wires_carry(struct local *w, struct actor *from, struct actor *to, size_t n_bytes);
double wires_carry_rows(struct local *w, struct actor *from, struct actor *to, struct span s);
fault wires_cut_pair(struct local *w, size_t a, size_t b);
void wires_mend_pair(struct local *w, size_t a, size_t b);
bool wires_pair_is_cut(const struct local *w, size_t a, size_t b);
fault wires_heal_all(struct local *w);
fault wires_partition(struct local *w, const struct event *e);
uint64_t wires_take_part_from(const struct local *w, size_t a, size_t b);

/* mail.c: the actor has waited since then for `peer`, or for ANYONE and no message came. */
void actor_count_wait(struct actor *a, size_t peer, double since_s);

/* script.c */
fault script_open(struct local *w);
fault script_moment(struct local *w, const struct moment *m);
/* An agent that is down will be back. */
bool script_return_is_due(const struct local *w);

#endif
