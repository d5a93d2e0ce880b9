/* inside.h - what the files of far worlds share.
 *
 *   packet.c       what members write to each other, as bytes
 *   message.c      a message that has come, and its memory
 *   send.c         what is sent
 *   courier.c      what comes: heads, bodies, who is heard of
 *   wait.c         how one waits for it
 *   bell.c         how one is woken
 *   fetch.c        rows of ranks on this machine, read where they lie
 *   mail.c         what agents send each other and how they receive it
 *   lesson.c       the thread that computes
 *   verbs.c        what agents may ask for
 *   ask.c          what is asked of a peer whose program takes no notice: averages, rows, the next round
 *   pause.c        all stand still, so that the leader may look
 *   leader_look.c  the leader's looks, and how the others serve them
 *   silence.c      signs of life, and members that give none
 *   gone.c         a member whose process is gone, or was given up
 *   join.c         from a process to a member; world.c: open, play, close
 *
 * Nothing is delivered but from `courier_progress`, which only those who wait call: between two waits nothing
 * changes under an agent's hands.
 */
#ifndef VECHE_WORLD_FAR_INSIDE_H
#define VECHE_WORLD_FAR_INSIDE_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "world/far/far.h"
#include "world/far/packet.h"

enum { MOST_BODIES = 24 };

struct incoming { /* heard, and not yet let go */
    struct incoming *next;
    size_t from;
    struct head head;
    struct passage bodies[MOST_BODIES];
    int n_bodies;
    double due_s; /* the real time at which it is there, on a network that is slower than the real one */
    size_t room;  /* of bytes */
    unsigned char *bytes;
    struct incoming *next_in_hand; /* an agent has it, and its rows are still where they were offered */
};

struct sending {
    struct sending *next;
    struct passage passage;
    unsigned char *copy; /* owned, or NULL: it is read from a row */
    size_t room;
    size_t to;
    const float *floats; /* n of a row, which may not be written before it is gone */
    size_t n;
    uint64_t offer; /* 0, or its number: nothing travels, and it is gone when it was fetched */
};

struct peer {
    struct incoming *arriving, **arriving_end; /* in the order in which they were sent */
    double heard_s;                           /* when anything came from it, in real time */
    bool has_ended, is_gone;
    uint64_t sent, heard; /* messages of agents to it and from it */
    /* for the leader */
    bool is_paused, is_held; /* it has stopped; it has said where it will */
    uint64_t paused_k, held_k;
    uint64_t probe; /* the last it has answered */
    bool has_closed;
    bool has_left;        /* its farewell has come */
    struct incoming *seen; /* owned: its answer to a look */
    char host[64];
    int64_t pid;
    bool process_is_near;      /* its end is noticed from here: on this machine, and not in a container of its own */
    char processor[64];        /* what it computes with, see engine_processor */
    const unsigned char *rows; /* owned: a map of its rows, laid out as mine; NULL: not seen from here */
    struct bell *bell;         /* owned: a map of its bell; NULL: it cannot be rung from here */
    bool sees_my_rows;
};

struct lessons { /* the thread that computes */
    pthread_t thread;
    pthread_mutex_t lock;
    int jobs[2]; /* owned: a pipe; a byte in it is a job, its end the thread's */
    bool is_open, is_answered; /* under the lock */
    enum { JOB_NONE, JOB_LEARN, JOB_EXAM, JOB_TASK } job;
    struct lesson lesson;
    struct exam exam;
    fault (*task)(void *ctx); /* the leader's: not of the engine, but long */
    void *task_ctx;
    fault verdict;
    uint64_t number;       /* of the lesson */
    uint64_t look;         /* of the leader's, that the exam is for */
    bool is_running;       /* for the main thread: a job was given, and its answer was not taken */
    double ended_s;        /* when it was, on the world's clock */
    _Atomic size_t ready;  /* floats [ready, end) of the gradient are final */
    _Atomic size_t wanted; /* 0, or the main thread waits for floats from here on */
    double nap_s;          /* that the main thread takes beside a job, where not everything rings */
    struct bell *bell;     /* rung for what is computed; borrowed */
    struct pick *picks;    /* owned */
};

/* What a member does next that waits in a verb. A look at all members (pause.c) begins only when all wait for others.
 *
 *                        sent away by the peer it asked (ask.c)
 *   WAITS_FOR_OTHERS  ------------------------------------------->  WILL_ASK_AGAIN
 *                     <-------------------------------------------
 *                        a moment has passed
 *
 *                        is to write rows that others still read (send.c)
 *   WAITS_FOR_OTHERS  ------------------------------------------->  AWAITS_READERS
 *                     <-------------------------------------------
 *                        all have read them
 */
enum stance { WAITS_FOR_OTHERS, WILL_ASK_AGAIN, AWAITS_READERS };

struct far {
    struct world world; /* first */
    struct link link;   /* of this rank's agent; its world is found by its place */
    struct ranks ranks;
    const struct stage *stage; /* borrowed, as the next three */
    struct agent *agents;      /* of all members; the leader keeps the others' accounts there */
    struct agent *agent;       /* mine */
    struct engine *engine;
    struct watcher watcher;
    struct totals totals; /* leader */
    size_t n;
    struct transport *transport; /* owned */
    struct link_ops verbs;       /* those of all far worlds, and the transport's own */
    struct peer *peers;          /* owned */
    struct sending *sendings;
    struct sending *free_sendings;
    struct incoming *free_messages;
    struct blank {
        struct blank *next;
    } * blanks[64];     /* memory for bytes, by the logarithm of its size */
    size_t piece_bytes; /* the most that travels as one body */
    struct packet_bounds bounds;
    uint64_t offers;         /* made so far */
    struct incoming *in_hand; /* offered to me, with my agent, and not yet fetched */
    struct incoming *mail, **mail_end;
    struct incoming *asked, **asked_end; /* what peers have asked and could not yet be answered */
    uint64_t sent, heard;               /* messages of agents, to and from those that live */
    size_t n_gone;
    double looked_s; /* for those that are gone */
    uint64_t dissolved;
    char why_dissolved[128];
    uint64_t writes, writes_at_lesson; /* of my parameters */
    bool keeps_copy;   /* lessons run on the second replica, since peers may write the first at any time */
    float *statistics; /* owned: as they were when a lesson on the copy began; else NULL */
    struct incoming *answer; /* to what I asked a peer */
    uint64_t question;      /* its number */
    enum stance stance;
    bool has_asked; /* a peer to average these rows, and they are not averaged yet */
    size_t asked_whom;
    row_set asked_for;
    double card_in_s;
    fault broken;             /* owned: why every wait ends */
    struct block bell_memory; /* owned */
    struct bell *bell;        /* mine, there */
    bool all_ring;            /* nothing comes from peers that does not ring, but what is long (is_moving) */
    double alarm_s;           /* NO_ALARM, or when my wait may be over without a ring, in real time */
    struct lessons lessons;
    struct waits waits;         /* what this member waited for whom */
    struct link_counts *counts; /* owned: of all members, as last heard */

    /* the clock, and standing still */
    double began_s, stood_s, still_since_s, alive_said_s;
    double listened_s; /* when it last looked round */
    size_t suspect;    /* NO_MEMBER, or a member that gives no signs of life, by which others may be held up */
    bool is_given_up;  /* the others go on without me */
    bool says_goodbye;
    bool is_still;             /* time stands still */
    bool is_held;              /* I stop at the end of my round */
    bool is_paused;            /* I wait to be let go */
    bool is_learning;          /* my agent has begun a lesson and not awaited its end */
    bool gradient_is_new;      /* it was learnt or mixed in this round, and not yet used: see struct asker */
    bool may_warm_up, is_cold; /* before it begins: I was told to; I have not yet */
    bool has_begun, is_over, is_closed, has_said_stop;
    bool is_leaving;       /* I say nothing more */
    uint64_t pause_at;     /* NEVER, or I stop at the end of this round */
    uint64_t seen;         /* leader, asynchronous: rounds of the group that were looked at */
    uint64_t probe;        /* leader: number of the last question how all stand */
    struct state *states;  /* owned: of all members, as last heard */
    struct waits known;    /* leader: who waited for whom, as last heard */
    double *rows_of_waits; /* owned, leader: [n x n] what each member waited for whom; NULL: too many */
    uint64_t look;         /* leader: number of the last look; an answer to an earlier one is dropped */
    uint64_t restored;     /* leader: steps of the checkpoint it went back to */
    bool ended_well;
};

#define NEVER     UINT64_MAX
#define NO_ALARM  INFINITY
#define NO_MEMBER ((size_t)-1)

static inline struct far *far_of(struct link *l)
{
    return (struct far *)((char *)l - offsetof(struct far, link));
}

static inline const struct far *far_in(const struct link *l)
{
    return (const struct far *)((const char *)l - offsetof(struct far, link));
}

static inline bool is_leader(const struct far *w)
{
    return w->ranks.self == 0;
}

static inline float *row_of(const struct far *w, enum row row)
{
    return w->engine->ops->floats(w->engine, row, 0);
}

/* Spare rows of the engine: the group's model, at the leader; what is written while its row is read. */
static inline size_t far_model(const struct far *w)
{
    return w->engine->setup.n_replicas;
}
static inline size_t far_spare(const struct far *w)
{
    return w->engine->setup.n_replicas + 1;
}

static inline double patience_of(const struct far *w)
{
    return w->stage->experiment->network.patience_s;
}

static inline size_t floats_of(const struct far *w, enum row row)
{
    return row_size(&w->engine->setup, row);
}

/* message.c */
struct incoming *incoming_new(struct far *w, size_t n_bytes); /* NULL: out of memory */
void incoming_drop(struct far *w, struct incoming *m);
/* Memory for bytes, kept for the next one who asks for so much. */
unsigned char *message_take_bytes(struct far *w, size_t n, size_t *room);
void message_give_bytes(struct far *w, unsigned char *bytes, size_t room);
void message_free_blanks(struct far *w);
/* The floats [first, end) of a row in a message of rows, or NULL where it does not hold them. Valid until
 * one waits. */
const float *incoming_floats(const struct far *w, const struct incoming *m, enum row row, size_t first,
                            size_t end);
/* A stretch of the bytes that follow a head: of a row, or of plain bytes. */
struct stretch {
    size_t n_bytes;
    int row; /* -1: plain */
    size_t first, end;
};
/* How the bytes after a head are cut into bodies; sender and receiver cut alike. */
int message_cut(const struct far *w, const struct head *h, struct stretch out[MOST_BODIES]);

/* send.c */
/* A message whose bytes are encoded, and are copied; `tag` is whatever the kind needs. */
void far_tell(struct far *w, size_t to, enum kind_of_message kind, uint64_t tag, const void *bytes, size_t n);
/* With a text; what is too long is cut. */
void far_tell_text(struct far *w, size_t to, enum kind_of_message kind, uint64_t tag, const char *text);
/* The same, where the bytes are rows, one after the other. */
void far_tell_with_head(struct far *w, size_t to, struct head h, const void *bytes);
void far_tell_all(struct far *w, enum kind_of_message kind, uint64_t tag);
/* Of my rows as they are; they may not be written before they are gone. */
void far_tell_rows(struct far *w, size_t to, enum kind_of_message kind, uint64_t tag, struct span span);
/* Waits until the floats of a row that are still being sent are gone. */
fault sendings_await(struct far *w, enum row row, size_t first, size_t end);
fault sendings_await_floats(struct far *w, const float *floats, size_t n);
bool sendings_hold(const struct far *w, enum row row, size_t first, size_t end);
void sendings_look_after(struct far *w);
bool sendings_are_left(
    const struct far *w); /* something of mine is with the transport, and not yet through */
void sendings_hear_of_fetching(struct far *w, size_t by, uint64_t offer); /* it is over */
void sendings_forget(struct far *w); /* at the end: those that were not fetched */

enum { MOST_TEXT = 2048 }; /* of what members write to each other, with its final zero */

/* courier.c */
/* What a member has sent is no message, or says what cannot be: the run ends, and says whose it was. */
void courier_refuse(struct far *w, size_t from);
fault courier_open(struct far *w);
void courier_close(struct far *w);
/* Everything that has come is delivered, everything that can go goes. */
void courier_progress(struct far *w);
/* Everything that others have sent me, each up to its farewell. */
bool courier_all_is_here(struct far *w);

/* wait.c */
/* Until then in real time, with whatever comes meanwhile. */
fault wait_to(struct far *w, double real_s);
/* Waits until done(w, ctx). `whom` is named where patience ends: a member, or ANYONE. */
typedef bool is_done(const struct far *w, const void *ctx);
fault wait_until(struct far *w, is_done *done, const void *ctx, size_t whom);
/* Without end, but for what breaks all waits: members that are gone or stall. */
fault wait_for_members(struct far *w, is_done *done, const void *ctx);
/* Every wait ends with this fault, which is taken; the first one counts. */
void wait_break_off(struct far *w, fault f);
double far_now_s(const struct far *w);
void far_stand_still(struct far *w, bool still);
/* "agent 2 (rank 2 on node7)" */
const char *far_member_called(const struct far *w, size_t member, char name[128]);

/* bell.c */
fault bell_open(struct far *w);
void bell_close(struct far *w);
uint32_t bell_heard(const struct far *w); /* so often; to be asked before one looks round */
void bell_ring(struct bell *b);           /* NULL: there is none */
void bell_ring_of_reading(struct bell *b); /* only where that is waited for */
bool bell_await_readers(struct far *w, bool awaits); /* true: one did not until now, so some may not have rung */
void bell_sleep(struct far *w, uint32_t heard, double most_s);

/* fetch.c */
/* An engine has this rank's row as replica 0, a second replica where peers may write it at any time, and
 * these. */
enum { FAR_SPARE_ROWS = 2 };

struct address { /* where another process finds a block of memory; file -1: nowhere */
    char boot[40];
    int64_t pid, file;
    uint64_t device, inode, n_bytes;
};
struct address address_of(const struct block *b); /* NULL: nowhere */
/* A map of theirs, as long as mine; NULL: it cannot be seen from here. `protection` as mmap has it. */
void *address_seen_from(const struct address *mine, const struct address *theirs, int protection);
void fetch_forget_rows(struct far *w);
const float *offer_row(const struct far *w, const struct incoming *m, enum row row);
bool offer_is_possible(const struct far *w, size_t to, size_t n_bytes);
/* All that was offered to me, into memory of my own; about how long that takes. */
void fetch_everything(struct far *w);
double fetch_takes_s(const struct far *w);
void offer_is_over(struct far *w, struct incoming *m); /* the sender may write its rows */

/* mail.c */
void mail_arrives(struct far *w, struct incoming *m);
void mail_hear_of_dissolution(struct far *w, uint64_t below, const char *why);
fault far_send_rows(struct link *l, size_t to, uint64_t tag, struct span span);
fault far_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender);
fault far_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n);
fault far_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender);
void far_drop(struct link *l, struct parcel *p);
bool far_has_mail(const struct link *l, uint64_t tag);
void far_forget(struct link *l, uint64_t tag);
void far_dissolve(struct link *l, uint64_t below, const char *why);
uint64_t far_dissolved(const struct link *l);
/* This member has waited since then for a peer. */
void mail_count_own_wait(struct far *w, size_t peer, double since_s);

/* lesson.c */
fault lessons_open(struct far *w);
void lessons_close(struct far *w);
/* The first lesson of a process is slower than all others: memory is touched for the first time, and
 * libraries make their code. This one comes before the clock begins and changes nothing. */
fault lessons_warm_up(struct far *w);
void lesson_begin(struct far *w, uint64_t number);
void exam_begin(struct far *w, const struct exam *exam, uint64_t look);
fault lessons_do_aside(struct far *w, fault (*task)(void *ctx), void *ctx);
bool lessons_are_computing(struct far *w);
/* Takes a job's answer if there is one; true: nothing is computed now. */
bool lessons_job_is_over(struct far *w);
fault lessons_take_verdict(struct far *w);                      /* of the job that is over: once */
bool lessons_are_over(const struct far *w, const void *unused); /* the same, to wait for */
double lessons_nap_s(struct far *w);                            /* longer and longer */
void lessons_expect_traffic(struct far *w);                     /* something has come: naps are short again */

/* ask.c */
bool ask_try_to_answer(struct far *w, struct incoming *m); /* false: not now; else m is taken */
void ask_hear_answer(struct far *w, struct incoming *m);
fault far_average(struct link *l, size_t peer, row_set rows);
fault far_adopt(struct link *l, size_t peer, uint64_t *round);
bool far_take_round(struct link *l, uint64_t *ended);

/* pause.c */
fault far_end_round(struct link *l);
uint64_t far_rounds_of_all(const struct far *w); /* leader: ended by all, over their number */
void pause_hear(struct far *w, struct incoming *m);
void pause_member_is_gone(struct far *w); /* none is in step any more */
/* The leader asks how all stand, until all stand still. */
fault pause_make_quiet(struct far *w);
fault pause_ask_all(struct far *w); /* once */
/* While the leader's own agent is done and others are not. */
fault pause_lead_to_the_end(struct far *w);
struct account far_account_of(const struct far *w);
void far_set_own_account(struct far *w, const struct account *a);

/* leader_look.c */
void look_serve(struct far *w, struct incoming *m);
void look_hear(struct far *w, struct incoming *m); /* takes m */
void look_serve_exam(struct far *w);              /* the exam I was asked for is done */
extern const struct world_ops far_world;

/* verbs.c */
extern const struct link_ops far_link;

/* gone.c */
void gone_hear(struct far *w, size_t member, const char *why);
/* It cannot be reached from now on; `why` names it. Where the launcher does not let others live without it
 * the run ends. */
void gone_give_up(struct far *w, size_t member, const char *why);
void gone_look(struct far *w, double now);
bool gone_process_is(const struct peer *p);

/* silence.c */
/* Gives signs of life, and gives up a member that does not. */
void silence_look(struct far *w, double now);
void silence_hear_alive(struct far *w, const struct incoming *m);
bool silence_has_suspect(const struct far *w);

/* join.c */
fault far_meet(struct far *w); /* all members hear who is where */

/* world.c */
fault far_play(struct far *w);
void far_close(struct far *w);

#endif
