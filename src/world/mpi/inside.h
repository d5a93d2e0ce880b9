/* inside.h - what the files of the world `mpi` share.
 *
 *   message.c   what a message is made of
 *   send.c      what is sent
 *   courier.c   what comes: heads, bodies, who is heard of
 *   wait.c      how one waits for it
 *   bell.c      how one is woken
 *   fetch.c     rows of ranks on this machine, read where they lie
 *   mail.c      what agents send each other and how they receive it
 *   lesson.c    the thread that computes
 *   verbs.c     what agents may ask for
 *   ask.c       what is asked of a peer whose program takes no notice: averages, rows, the next round
 *   pause.c     all stand still, so that the leader may look
 *   leader_look.c      the leader's looks, and how the others serve them
 *   silence.c   signs of life, and members that give none
 *   gone.c      a member whose process is gone, or was given up
 *   native.c    the MPI's own sums; neighbours.c: its exchange between neighbours
 *   join.c      from a process to a member; mpi_world.c: open, play, close
 *
 * Nothing is delivered but from `courier_progress`, which only those who wait call: between two waits nothing changes under an
 * agent's hands.
 */
#ifndef VECHE_WORLD_MPI_INSIDE_H
#define VECHE_WORLD_MPI_INSIDE_H

#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "world/mpi/mpi_world.h"

/* What a message is. Those up to LAST_OF_AGENTS are counted: when as many were heard as were sent, and all who live are
 * waiting, nothing will move until somebody is let go. */
enum kind_of_message {
    MSG_ROWS,
    MSG_BYTES,
    MSG_DISSOLVE, /* groups below its tag; the bytes say why */
    MSG_ASK_AVERAGE,
    MSG_AVERAGE,
    MSG_ASK_ADOPT,
    MSG_ADOPT,
    MSG_ASK_ROUND,
    MSG_ROUND,
    LAST_OF_AGENTS = MSG_ROUND,
    MSG_ENDED,  /* the sender's program */
    MSG_GONE,   /* the member that is the tag; the bytes say why */
    MSG_FAILED, /* the sender's program, with the kind of the fault as tag and its sentence */
    MSG_NOTE,   /* kind and text, two strings */
    MSG_ALIVE,  /* the leader's says whom it suspects, the tag */
    MSG_STOP,   /* to the leader: somebody asked my process to stop */
    MSG_HOLD,   /* from the leader: stop at the end of your round, and tell me at once which it will be */
    MSG_AT,     /* to the leader: that, the tag */
    MSG_PAUSED, /* to the leader: after so many rounds, the tag */
    MSG_RUN_TO, /* from the leader: go on to the end of this round, the tag */
    MSG_PROBE,  /* from the leader: how do you stand? */
    MSG_STATE,  /* to the leader: struct state and what I waited for whom */
    MSG_WARM_UP, /* from the leader: all rows are as they were to be, so learn for nothing */
    MSG_STILL,  /* from the leader: time stands still */
    MSG_GO,     /* from the leader: it goes on */
    MSG_EXAMINE, /* from the leader; the tag is the number of its look, as in the next three */
    MSG_EXAMINED,
    MSG_READ,
    MSG_READ_BACK,
    MSG_WRITE,
    MSG_SET_ACCOUNT,
    MSG_CLOSE, /* from the leader: it is over; the tag says whether well */
    MSG_CLOSED,
    MSG_FETCHED /* an offer of yours, the tag, is over */
};

struct head {
    uint32_t kind, rows;
    uint64_t tag;
    uint64_t first, end; /* of the rows */
    uint64_t n_bytes;    /* that follow: in the same MPI message where they fit, else as bodies */
    uint64_t offer;      /* 0, or its number: the rows can be read where they lie, and what follows is a struct places */
};

struct places { /* of the sender's rows, in bytes from where its memory begins */
    uint64_t at[N_ROWS];
};

enum { SLOT_BYTES = 4096, N_SLOTS = 16, INLINE_BYTES = SLOT_BYTES - sizeof(struct head), MOST_BODIES = 24 };

struct message { /* heard, and not yet let go */
    struct message *next;
    size_t from;
    struct head head;
    MPI_Request bodies[MOST_BODIES];
    int n_bodies;
    double due_s; /* the real time at which it is there, on a network that is slower than the real one */
    size_t room;  /* of bytes */
    unsigned char *bytes;
    struct message *next_in_hand; /* an agent has it, and its rows are still where they were offered */
};

struct sending {
    struct sending *next;
    MPI_Request request;
    unsigned char *copy; /* owned, or NULL: it is read from a row */
    size_t room;
    size_t to;
    const float *floats; /* n of a row, which may not be written before it is gone */
    size_t n;
    uint64_t offer; /* 0, or its number: nothing travels, and it is gone when it was fetched */
};

struct peer {
    struct message *arriving, **arriving_end; /* in the order in which they were sent */
    double heard_s;                           /* when anything came from it, in real time */
    bool has_ended, is_gone;
    uint64_t sent, heard; /* messages of agents to it and from it */
    /* for the leader */
    bool is_paused, is_held; /* it has stopped; it has said where it will */
    uint64_t paused_k, held_k;
    uint64_t probe; /* the last it has answered */
    bool has_closed;
    struct message *seen; /* owned: its answer to a look */
    char host[64];
    int64_t pid;
    char processor[64]; /* what it computes with, see engine_processor */
    const unsigned char *rows; /* owned: a map of its rows, laid out as mine; NULL: they cannot be seen from here */
    struct bell *bell;         /* owned: a map of its bell; NULL: it cannot be rung from here */
    bool sees_my_rows;
};

struct state { /* how a member stands, for the leader */
    uint64_t probe;
    uint64_t is_busy; /* it computes, and will go on by itself */
    uint64_t sent, heard;
    uint64_t n_gone; /* members it knows to be gone */
    struct account account;
};

struct lessons { /* the thread that computes */
    pthread_t thread;
    pthread_mutex_t lock;
    int jobs[2]; /* owned: a pipe; a byte in it is a job, its end the thread's */
    bool is_open, is_answered; /* under the lock */
    enum { JOB_NONE, JOB_LEARN, JOB_EXAM, JOB_TASK } job;
    struct lesson lesson;
    struct exam exam;
    fault (*task)(void *ctx); /* of whoever leads: not of the engine, but long */
    void *task_ctx;
    fault verdict;
    uint64_t number; /* of the lesson */
    uint64_t look;   /* of the leader's, that the exam is for */
    bool is_running; /* for the main thread: a job was given, and its answer was not taken */
    double ended_s;  /* when it was, on the world's clock */
    _Atomic size_t ready;  /* floats [ready, end) of the gradient are final */
    _Atomic size_t wanted; /* 0, or the main thread waits for floats from here on */
    double nap_s;          /* that the main thread takes beside a job, where not everything rings */
    struct bell *bell;  /* rung for what is computed; borrowed */
    struct pick *picks; /* owned */
};

struct near { /* my neighbours in the topology, once they were asked for */
    bool is_known;
    MPI_Comm comm;      /* of those that learn, as a graph */
    struct arena arena; /* owned: all below, of n */
    int n, *whom, *counts;
    MPI_Aint *from, *to;
    MPI_Datatype *types;
};

struct mpi {
    struct world world; /* first */
    struct link link;   /* of this rank's agent; its world is found by its place */
    struct mpi_seat seat;
    const struct stage *stage; /* borrowed, as the next three */
    struct agent *agents;  /* of all members; the leader keeps the others' accounts there */
    struct agent *agent;   /* mine */
    struct engine *engine;
    struct watcher watcher;
    struct totals totals; /* leader */
    size_t n;
    MPI_Comm comm, learners; /* of all; of agents that learn */
    struct near near;
    struct slot {
        MPI_Request request;
        unsigned char bytes[SLOT_BYTES];
    } *slots; /* owned: receives of heads, in a ring */
    size_t oldest_slot;
    struct peer *peers; /* owned */
    struct sending *sendings;
    struct sending *free_sendings;
    struct message *free_messages;
    struct blank {
        struct blank *next;
    } *blanks[64]; /* memory for bytes, by the logarithm of its size */
    size_t piece_bytes; /* the most that MPI gets in one piece */
    uint64_t offers;    /* made so far */
    struct message *in_hand; /* offered to me, with my agent, and not yet fetched */
    struct message *mail, **mail_end;
    struct message *asked, **asked_end; /* what peers have asked and could not yet be answered */
    uint64_t sent, heard;               /* messages of agents, to and from those that live */
    uint64_t *told, n_heads;            /* owned: heads sent to each member, and at [n] to me; heads that have come */
    MPI_Request counting;               /* of those to me, when all leave */
    size_t n_gone;
    double looked_s; /* for those that are gone */
    uint64_t dissolved;
    char why_dissolved[128];
    uint64_t writes, writes_at_lesson; /* of my parameters */
    bool keeps_copy;   /* lessons run on the second replica, since peers may write the first at any time */
    float *statistics; /* owned: as they were when a lesson on the copy began; else NULL */
    struct message *answer; /* to what I asked a peer */
    uint64_t question;      /* its number */
    bool goes_on;           /* by itself, in a moment: it asks a peer again, or others have only to read its rows */
    bool has_asked;         /* a peer to average these rows, and they are not averaged yet */
    size_t asked_whom;
    row_set asked_for;
    double card_in_s;
    fault broken; /* owned: why every wait ends */
    struct block bell_memory; /* owned */
    struct bell *bell;        /* mine, there */
    bool all_ring;            /* nothing comes from peers that does not ring, but what is long (is_moving) */
    bool awaits_readers;      /* of what I offered, to write there */
    bool in_collective;       /* of the MPI's own, which never rings */
    double alarm_s;           /* NO_ALARM, or when my wait may be over without a ring, in real time */
    struct lessons lessons;
    struct waits waits; /* what this member waited for whom */
    struct link_counts *counts; /* owned: of all members, as last heard */

    /* the clock, and standing still */
    double began_s, stood_s, still_since_s, alive_said_s;
    double listened_s; /* when it last looked round */
    size_t suspect;    /* NOBODY, or a member that gives no signs of life, by which others may be held up */
    bool is_given_up;  /* the others go on without me */
    bool says_goodbye;
    bool is_still;   /* time stands still */
    bool is_held;    /* I stop at the end of my round */
    bool is_paused;  /* I wait to be let go */
    bool is_learning;     /* my agent has begun a lesson and not awaited its end */
    bool gradient_is_new; /* it was learnt or mixed in this round, and not yet used: see struct asker */
    bool may_warm_up, is_cold; /* before it begins: I was told to; I have not yet */
    bool has_begun, is_over, is_closed, has_said_stop;
    bool is_leaving; /* I say nothing more */
    uint64_t pause_at; /* NEVER, or I stop at the end of this round */
    uint64_t seen;     /* leader, asynchronous: rounds of the group that were looked at */
    uint64_t probe;    /* leader: number of the last question how all stand */
    struct state *states; /* owned: of all members, as last heard */
    struct waits known;    /* leader: who waited for whom, as last heard */
    double *rows_of_waits; /* owned, leader: [n x n] what each member waited for whom; NULL: too many */
    uint64_t look;         /* leader: number of the last look; an answer to an earlier one is dropped */
    uint64_t restored; /* leader: steps of the checkpoint it went back to */
    bool ended_well;
};

#define NEVER    UINT64_MAX
#define NO_ALARM INFINITY
#define NOBODY ((size_t)-1)

static inline struct mpi *mpi_of(struct link *l)
{
    return (struct mpi *)((char *)l - offsetof(struct mpi, link));
}

static inline const struct mpi *mpi_in(const struct link *l)
{
    return (const struct mpi *)((const char *)l - offsetof(struct mpi, link));
}

static inline bool is_leader(const struct mpi *w)
{
    return w->seat.rank == 0;
}

static inline float *row_of(const struct mpi *w, enum row row)
{
    return w->engine->ops->floats(w->engine, row, 0);
}

/* Spare rows of the engine: the group's model, at the leader; what is written while its row is read. */
static inline size_t mpi_model(const struct mpi *w)
{
    return w->engine->setup.n_replicas;
}
static inline size_t mpi_spare(const struct mpi *w)
{
    return w->engine->setup.n_replicas + 1;
}

static inline double patience_of(const struct mpi *w)
{
    return w->stage->experiment->network.patience_s;
}

static inline size_t floats_of(const struct mpi *w, enum row row)
{
    return row_size(&w->engine->setup, row);
}

/* message.c */
struct message *message_new(struct mpi *w, size_t n_bytes); /* NULL: out of memory */
void message_drop(struct mpi *w, struct message *m);
/* Memory for bytes, kept for the next one who asks for so much. */
unsigned char *message_take_bytes(struct mpi *w, size_t n, size_t *room);
void message_give_bytes(struct mpi *w, unsigned char *bytes, size_t room);
void message_free_blanks(struct mpi *w);
/* The floats [first, end) of a row in a message of rows, or NULL where it does not hold them. Valid until one waits. */
const float *message_floats(const struct mpi *w, const struct message *m, enum row row, size_t first,
                            size_t end);
size_t message_span_bytes(const struct mpi *w, struct span s);
size_t message_floats_in_row(const struct mpi *w, struct span s, enum row row);
static inline struct span span_of(const struct head *h)
{
    return (struct span){h->rows, (size_t)h->first, (size_t)h->end};
}
/* A stretch of the bytes that follow a head: of a row, or of plain bytes. */
struct stretch {
    size_t n_bytes;
    int row; /* -1: plain */
    size_t first, end;
};
/* How the bytes after a head are cut into bodies; sender and receiver cut alike. */
int message_cut(const struct mpi *w, const struct head *h, struct stretch out[MOST_BODIES]);

/* send.c */
enum { TAG_HEAD = 1, TAG_BODY = 2 }; /* MPI's */
/* A message whose bytes are copied; `tag` is whatever the kind needs. */
void mpi_tell(struct mpi *w, size_t to, enum kind_of_message kind, uint64_t tag, const void *bytes, size_t n);
/* The same, where the bytes are rows, one after the other. */
void mpi_tell_with_head(struct mpi *w, size_t to, struct head h, const void *bytes);
void mpi_tell_all(struct mpi *w, enum kind_of_message kind, uint64_t tag);
/* Of my rows as they are; they may not be written before they are gone. */
void mpi_tell_rows(struct mpi *w, size_t to, enum kind_of_message kind, uint64_t tag, struct span span);
/* Waits until the floats of a row that are still being sent are gone. */
fault sendings_await(struct mpi *w, enum row row, size_t first, size_t end);
fault sendings_await_floats(struct mpi *w, const float *floats, size_t n);
bool sendings_hold(const struct mpi *w, enum row row, size_t first, size_t end);
bool mpi_is_through(MPI_Request *request, MPI_Status *status);
void sendings_look_after(struct mpi *w);
bool sendings_are_left(const struct mpi *w); /* something of mine is with the MPI, and not yet through */
void sendings_hear_of_fetching(struct mpi *w, uint64_t offer); /* it is over */
void sendings_forget(struct mpi *w);                           /* at the end: those that nobody has taken */

/* courier.c */
fault courier_open(struct mpi *w);
void courier_close(struct mpi *w);
/* Everything that has come is delivered, everything that can go goes. */
void courier_progress(struct mpi *w);
/* Of so many heads that were sent to me all have come, and all their bodies. */
bool courier_all_is_here(struct mpi *w, uint64_t n_heads);

/* wait.c */
/* Until then in real time, with whatever comes meanwhile. */
fault wait_to(struct mpi *w, double real_s);
/* Waits until done(w, ctx). `whom` is named where patience ends: a member, or ANYONE. */
typedef bool is_done(const struct mpi *w, const void *ctx);
fault wait_until(struct mpi *w, is_done *done, const void *ctx, size_t whom);
/* Without end, but for what breaks all waits: members that are gone or stall. */
fault wait_for_members(struct mpi *w, is_done *done, const void *ctx);
/* Every wait ends with this fault, which is taken; the first one counts. */
void wait_break_off(struct mpi *w, fault f);
double mpi_now_s(const struct mpi *w);
void mpi_stand_still(struct mpi *w, bool still);
/* "agent 2 (rank 2 on node7)" */
const char *mpi_member_called(const struct mpi *w, size_t member, char name[128]);

/* bell.c */
fault bell_open(struct mpi *w);
void bell_close(struct mpi *w);
uint32_t bell_heard(const struct mpi *w); /* so often; to be asked before one looks round */
void bell_ring(struct bell *b);           /* NULL: there is none */
void bell_ring_of_reading(struct bell *b); /* only where that is waited for */
bool bell_await_readers(struct mpi *w, bool awaits); /* true: one did not until now, so some may not have rung */
void bell_sleep(struct mpi *w, uint32_t heard, double most_s);

/* fetch.c */
struct spot { /* where another process finds a block of memory; file -1: nowhere */
    char boot[40];
    int64_t pid, file;
    uint64_t device, inode, n_bytes;
};
struct spot spot_of(const struct block *b); /* NULL: nowhere */
/* A map of theirs, as long as mine; NULL: it cannot be seen from here. `protection` as mmap has it. */
void *spot_seen_from(const struct spot *mine, const struct spot *theirs, int protection);
void fetch_forget_rows(struct mpi *w);
const float *offer_row(const struct mpi *w, const struct message *m, enum row row);
bool offer_is_possible(const struct mpi *w, size_t to, size_t n_bytes);
/* All that was offered to me, into memory of my own; about how long that takes. */
void fetch_everything(struct mpi *w);
double fetch_takes_s(const struct mpi *w);
void offer_is_over(struct mpi *w, struct message *m); /* the sender may write its rows */

/* mail.c */
void mail_arrives(struct mpi *w, struct message *m);
void mail_hear_of_dissolution(struct mpi *w, uint64_t below, const char *why);
fault mpi_send_rows(struct link *l, size_t to, uint64_t tag, struct span span);
fault mpi_recv_rows(struct link *l, size_t from, uint64_t tag, struct parcel *out, size_t *sender);
fault mpi_send(struct link *l, size_t to, uint64_t tag, const void *bytes, size_t n);
fault mpi_recv(struct link *l, size_t from, uint64_t tag, void *bytes, size_t n, size_t *sender);
void mpi_drop(struct link *l, struct parcel *p);
bool mpi_has_mail(const struct link *l, uint64_t tag);
void mpi_forget(struct link *l, uint64_t tag);
void mpi_dissolve(struct link *l, uint64_t below, const char *why);
uint64_t mpi_dissolved(const struct link *l);
/* This member has waited since then for a peer. */
void mail_count_own_wait(struct mpi *w, size_t peer, double since_s);

/* lesson.c */
fault lessons_open(struct mpi *w);
void lessons_close(struct mpi *w);
/* The first lesson of a process is slower than all others: memory is touched for the first time, and libraries make their code.
 * This one comes before the clock begins and changes nothing. */
fault lessons_warm_up(struct mpi *w);
void lesson_begin(struct mpi *w, uint64_t number);
void exam_begin(struct mpi *w, const struct exam *exam, uint64_t look);
fault lessons_do_aside(struct mpi *w, fault (*task)(void *ctx), void *ctx);
bool lessons_are_computing(struct mpi *w);
/* Takes a job's answer if there is one; true: nothing is computed now. */
bool lessons_job_is_over(struct mpi *w);
bool lessons_are_over(const struct mpi *w, const void *unused); /* the same, for whoever waits */
double lessons_nap_s(struct mpi *w);        /* longer and longer */
void lessons_expect_traffic(struct mpi *w); /* something has come: naps are short again */

/* ask.c */
bool ask_try_to_answer(struct mpi *w, struct message *m); /* false: not now; else m is taken */
void ask_hear_answer(struct mpi *w, struct message *m);
fault mpi_average(struct link *l, size_t peer, row_set rows);
fault mpi_adopt(struct link *l, size_t peer, uint64_t *round);
bool mpi_take_round(struct link *l, uint64_t *ended);

/* pause.c */
fault mpi_end_round(struct link *l);
uint64_t mpi_rounds_of_all(const struct mpi *w); /* leader: ended by all, over their number */
void pause_hear(struct mpi *w, struct message *m);
void pause_somebody_is_gone(struct mpi *w); /* nobody is in step any more */
/* The leader asks how all stand, until all stand still. */
fault pause_make_quiet(struct mpi *w);
fault pause_ask_all(struct mpi *w); /* once */
/* While the leader's own agent is done and others are not. */
fault pause_lead_to_the_end(struct mpi *w);
struct account mpi_account_of(const struct mpi *w);
void mpi_set_own_account(struct mpi *w, const struct account *a);

/* leader_look.c */
void look_serve(struct mpi *w, struct message *m);
void look_hear(struct mpi *w, struct message *m); /* takes m */
void look_serve_exam(struct mpi *w);              /* the exam I was asked for is done */
extern const struct world_ops mpi_world;

/* verbs.c */
extern const struct link_ops mpi_link;

/* native.c */
fault native_open(struct mpi *w);
void native_close(struct mpi *w);
fault mpi_sum(struct link *l, enum row row, size_t first, size_t end);
fault native_wait_for_all(struct mpi *w, MPI_Request *request); /* of a collective */

/* neighbours.c */
void near_close(struct mpi *w);
fault mpi_gather_near(struct link *l, struct span span, struct parcel *out);

/* gone.c */
/* Whether those who are left live on when a process is gone. */
bool gone_others_live(void);
bool gone_is_only_delayed(int error); /* of a receive, though it says it failed */
void gone_hear(struct mpi *w, const struct message *m);
/* It cannot be reached from now on; `why` names it. Where the launcher does not let others live without it the run ends. */
void gone_give_up(struct mpi *w, size_t member, const char *why);
void gone_look(struct mpi *w, double now);

/* silence.c */
/* Gives signs of life, and gives up whoever does not. */
void silence_look(struct mpi *w, double now);
void silence_hear_alive(struct mpi *w, const struct message *m);
bool silence_suspects_somebody(const struct mpi *w);

/* join.c */
MPI_Comm mpi_comm_of(const struct mpi_seat *seat); /* all ranks, or this one alone */
fault mpi_meet(struct mpi *w); /* everyone hears who is where */
fault mpi_wait_together(MPI_Request *request, double patience_s); /* for a request that needs all ranks */
/* Between these calls MPI is not ended when the process is. */
void mpi_is_used(bool used);

/* mpi_world.c */
fault mpi_play(struct mpi *w);
void mpi_close(struct mpi *w);

#endif
