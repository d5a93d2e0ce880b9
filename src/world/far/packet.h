/* packet.h - what members of a far world write to each other, as bytes that mean the same to every process.
 *
 *   packet:  head | what follows it, where that fits, or for an offer the places of its rows
 *   bodies:  what follows a head, where it does not fit
 *
 * Numbers and texts are encoded as base/encode.h says. Rows travel as they lie in memory, as little-endian floats of 32 bits; agents'
 * own messages come as bytes that were encoded by those who say them: letters of calls (call/letter.h), what a group says
 * (collective/group.c, together.c). Nothing here knows a world: a packet is read against its bounds, and what is no packet, or says what
 * cannot be, is refused before anything is done with it.
 *
 * FAR_PROTOCOL is to be raised with every change here, and of what agents say in those messages: it is compared when ranks join, so
 * no message bears a version of its own.
 */
#ifndef VECHE_WORLD_FAR_PACKET_H
#define VECHE_WORLD_FAR_PACKET_H

#include "world/far/transport.h"
#include "world/world.h"

enum { FAR_PROTOCOL = 1 }; /* ranks of two do not begin */

/* What a message is. Those up to LAST_OF_AGENTS are counted: when as many were heard as were sent, and all
 * that live are waiting, nothing will move until one is let go. */
enum kind_of_message {
    MSG_ROWS,
    MSG_BYTES,
    MSG_DISSOLVE, /* groups below its tag; a text says why */
    MSG_ASK_AVERAGE,
    MSG_AVERAGE,
    MSG_ASK_ADOPT,
    MSG_ADOPT,
    MSG_ASK_ROUND, /* with the rounds that are behind me */
    MSG_ROUND,     /* a grant */
    LAST_OF_AGENTS = MSG_ROUND,
    MSG_ENDED,   /* the sender's program */
    MSG_GONE,    /* the member that is the tag; a text says why */
    MSG_FAILED,  /* the sender's program, with the kind of the fault as tag and its sentence */
    MSG_NOTE,    /* kind and text */
    MSG_ALIVE,   /* the leader's says whom it suspects, the tag */
    MSG_STOP,    /* to the leader: my process was asked to stop */
    MSG_HOLD,    /* from the leader: stop at the end of your round, and tell me at once which it will be */
    MSG_AT,      /* to the leader: that, the tag */
    MSG_PAUSED,  /* to the leader: after so many rounds, the tag */
    MSG_RUN_TO,  /* from the leader: go on to the end of this round, the tag */
    MSG_PROBE,   /* from the leader: how do you stand? */
    MSG_STATE,   /* to the leader: a state, and what I waited for whom */
    MSG_WARM_UP, /* from the leader: all rows are as they were to be, so learn for nothing */
    MSG_STILL,   /* from the leader: time stands still */
    MSG_GO,      /* from the leader: it goes on */
    MSG_EXAMINE, /* from the leader; the tag is the number of its look, as in the next three */
    MSG_EXAMINED,
    MSG_READ,
    MSG_READ_BACK,
    MSG_WRITE,
    MSG_SET_ACCOUNT,
    MSG_CLOSE, /* from the leader: it is over; the tag says whether well */
    MSG_CLOSED,
    MSG_FETCHED,  /* an offer of yours, the tag, is over */
    MSG_FAREWELL, /* the last of all */
    KINDS_OF_MESSAGE
};

struct head {
    uint32_t kind, rows;
    uint64_t tag;
    uint64_t first, end; /* of the rows */
    uint64_t n_bytes;    /* that follow: in the same packet where they fit, else as bodies */
    uint64_t offer;      /* 0, or its number: the rows can be read where they lie, and their places follow */
};

enum { HEAD_BYTES = 48, INLINE_BYTES = PACKET_BYTES - HEAD_BYTES };

struct places { /* of the sender's rows, in bytes from where its memory begins */
    uint64_t at[N_ROWS];
};

/* What both ends of a packet know. */
struct packet_bounds {
    size_t n_members, self;
    size_t floats[N_ROWS]; /* of each kind of row */
    size_t most_bytes;     /* that may follow a head */
    size_t memory_bytes;   /* in which offered rows lie */
};

size_t packet_floats_in_row(const struct packet_bounds *b, struct span s, enum row row);
size_t packet_span_bytes(const struct packet_bounds *b, struct span s);
static inline struct span packet_span(const struct head *h)
{
    return (struct span){h->rows, (size_t)h->first, (size_t)h->end};
}

/* ---- heads ---- */

void packet_write_head(unsigned char bytes[HEAD_BYTES], const struct head *h);
/* A packet of n bytes from a member. False: it is none, or what it says cannot be. The bytes after its
 * head are where they should be. */
bool packet_read_head(const struct packet_bounds *b, size_t from, const unsigned char *packet, size_t n,
                      struct head *out);
/* Of the rows of its span that have floats; returns the bytes, N_ROWS * 8 at most. */
size_t packet_write_places(const struct packet_bounds *b, const struct head *h, const struct places *places,
                           unsigned char *bytes);
bool packet_read_places(const struct packet_bounds *b, const struct head *h, const unsigned char *bytes,
                        struct places *out);

/* ---- what follows them: written into room for them; read from n bytes, false: they are something else ---- */

struct grant { /* the answer to one that wants the next round */
    bool is_given;
    uint64_t ended;
};

struct state {    /* how a member stands, for the leader */
    bool is_busy; /* it computes, or will act by itself: see enum stance */
    uint64_t sent, heard;
    uint64_t n_gone; /* members it knows to be gone */
    struct account account;
};

enum {
    ACCOUNT_BYTES = 8 * 19,
    STATE_BYTES = 4 + 3 * 8 + ACCOUNT_BYTES,
    EXAM_BYTES = 4 + 4 * 8,
    GRANT_BYTES = 4 + 8
};

void packet_write_grant(unsigned char bytes[GRANT_BYTES], const struct grant *t);
bool packet_read_grant(const unsigned char *bytes, size_t n, struct grant *out);
void packet_write_exam(unsigned char bytes[EXAM_BYTES], const struct exam *exam);
bool packet_read_exam(const unsigned char *bytes, size_t n, struct exam *out); /* but for its replica */
void packet_write_account(unsigned char bytes[ACCOUNT_BYTES], const struct account *a);
bool packet_read_account(const unsigned char *bytes, size_t n, struct account *out);
/* A state, and so many seconds of waiting: STATE_BYTES and 8 for each. */
void packet_write_state(unsigned char *bytes, const struct state *s, const double *waits, size_t n_waits);
bool packet_read_state(const unsigned char *bytes, size_t n, struct state *out, double *waits,
                       size_t n_waits);
void packet_write_number(unsigned char bytes[8], uint64_t number);
bool packet_read_number(const unsigned char *bytes, size_t n, uint64_t *out);
/* One text or two; what has no room is cut. Returns the bytes, `room` at most. */
size_t packet_write_texts(unsigned char *bytes, size_t room, const char *const *texts, size_t n_texts);
bool packet_read_texts(const unsigned char *bytes, size_t n, char *const *texts, size_t n_texts, size_t room);

#endif
