/* service.h - the side that answers calls: a server, a centre, a counter; with a standby or without.
 *
 *   while it is needed:   hear -> a question: keep its rows, apply them when it is time, say so, answer
 *                                 a repeat:   answer again; what it asks has been applied, or will be
 *
 * Of a pair, a service and its standby, one leads and one follows. The leader sends what it serves to the
 * follower, and with it the number of the last question of each caller that is applied in it: one whose answer
 * was lost with the leader is answered by the follower and not applied again. The follower leads as soon as it
 * is asked by a caller that cannot be served by the leader. Two that lead, after the network fell apart, find
 * out with the next copy, or when a caller asks again: the standby stays; what the other has learnt since the
 * last copy is lost.
 */
#ifndef VECHE_CALL_SERVICE_H
#define VECHE_CALL_SERVICE_H

#include "call/call.h"

struct visitor {      /* a caller, as a service knows it; see the drawings in service.c */
    bool known;       /* expected, or has called            */
    bool gone;        /* cannot be reached, which was noted */
    bool silent;      /* was waited for in vain, which was noted */
    bool has_left;    /* has nothing more to ask            */
    bool waits;       /* for an answer                      */
    bool pending;     /* the rows of its last question are with the program, not yet applied */
    uint64_t taken;   /* number of its last question        */
    uint64_t applied; /* of its last one that was applied   */
    uint64_t n_again; /* times it has repeated its last one */
    double since;     /* when it was last heard or answered */
};

struct service {
    struct link *link;        /* borrowed; put in before anything else is asked */
    double patience_s;        /* likewise */
    char name[32];            /* "server 4" */
    size_t n;                 /* members that may call: 0 .. n - 1, */
    size_t n_agents;          /* of which these are called agents, the others nodes */
    struct visitor *visitors; /* owned: [n] */
    size_t question_bytes;    /* of a letter */
    size_t answer_bytes;      /* likewise; 0: it answers with rows alone */
    uint64_t answer_tag;
    size_t other;         /* of the pair; itself: there is none */
    bool tells_applied;   /* copies come with the numbers that are applied in them */
    uint64_t n_copies;    /* sent so far */
    bool leads, is_over;  /* it was told that all is done */
    bool is_awaited;      /* a caller waits for others, */
    double awaited_since; /* without a break since then */
    void *question;       /* owned: the letter that was heard last */
    void *reply;          /* owned: room for one */
    uint64_t *numbers;    /* owned: room for one of each visitor */
};

/* It leads, has no standby until `other` is set, and tells_applied; a program that can tell from a question
 * whether it was applied may do without that. What was made before a fault is freed by release. */
fault service_init(struct service *s, size_t self, size_t n, size_t n_agents, size_t question_bytes,
                   size_t answer_bytes);
void service_release(struct service *s);
/* After a crash: what it had heard is lost, what it had applied is not. Of a pair it follows. */
void service_return(struct service *s);

struct arrival { /* what was heard */
    enum { ARRIVED_NOTHING, ARRIVED_QUESTION, ARRIVED_REPEAT, ARRIVED_COPY, ARRIVED_FAREWELL } what;
    size_t who;         /* sent it; of NOTHING: was waited for */
    const void *letter; /* valid until the service hears again */
    bool is_new;        /* the visitor was gone, silent or not known */
    bool takes_over;    /* besides: the service leads from now on */
    bool yields;        /* besides: it follows from now on, and what was pending is for the other */
    bool in_vain;       /* NOTHING: patience is over */
};

static inline bool arrival_asks(const struct arrival *x)
{
    return x->what == ARRIVED_QUESTION || x->what == ARRIVED_REPEAT;
}

/* Waits for a letter from a member or ANYONE, a patience at most. The rows of a QUESTION or a COPY come in
 * `rows`, which was empty; they are the program's to let go. What concerns the call alone, missing rows, who
 * serves, an old number, is settled here and is NOTHING. */
fault service_hear(struct service *s, size_t from, struct parcel *rows, struct arrival *out);
/* What it asked last is done. A question without rows is so when it is heard. */
void service_applied(struct service *s, size_t who);
/* Answers its last question: with rows, if any, and a letter (NULL where the service has none), whose head is
 * written here. Who went away will ask again. */
fault service_answer(struct service *s, size_t to, struct call_head *letter, struct span rows);
/* To the follower: what is served, as it is now, and a letter about it of question_bytes. */
fault service_copy(struct service *s, struct call_head *letter, struct span rows);
/* Tells another service that all is done. */
fault service_dismiss(struct service *s, size_t member);

/* ---- who is there ---- */

/* It is there, and has something to ask. */
bool service_is_active(const struct service *s, size_t visitor);
/* The same, and it is its turn. */
bool service_awaits(const struct service *s, size_t visitor);
/* Notes who cannot be reached. */
void service_look_who_is_gone(struct service *s);
/* Notes who has not been heard for a patience, while others have waited for as long (is_awaited: they do). */
void service_look_who_is_silent(struct service *s, bool is_awaited);
/* Notes that it was waited for in vain. */
void service_misses(struct service *s, size_t visitor);
/* An agent that can be reached has not come to its end. */
bool service_is_needed(const struct service *s);
/* For people: "server 4 is back". */
void service_note(const struct service *s, const char *kind, const char *what);

#endif
