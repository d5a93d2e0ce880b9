/* call.h - one way to ask: a member calls a service and gets an answer, or hears by name who gave none.
 *
 *   caller   a question: rows, if any, then a letter  --->   service
 *            <---   an answer: rows, if any, then a letter    (a service that has only rows to say: rows alone)
 *
 * A caller numbers its questions, and a service remembers the number of the last question of each caller that
 * it has applied: one that is asked again, because its answer was late or lost, is answered again and not
 * applied again. Rows are sent again only where they did not arrive. A service may have a standby (service.h);
 * the caller turns to the one of the two that serves. Every wait ends with patience, and so does every call.
 *
 * This is the side that asks. A letter comes last, so that the rows of a letter that was read are in the mail.
 */
#ifndef VECHE_CALL_CALL_H
#define VECHE_CALL_CALL_H

#include "link/link.h"

/* Tags: above those of rounds, below those of groups; rows below letters, so that the rows of earlier calls
 * can be forgotten by their number. */
#define CALL_DOWN   (1ull << 62)               /* + number: rows of an answer                           */
#define CALL_UP     (CALL_DOWN + (1ull << 60)) /* + number: rows of a question                          */
#define CALL_COPY   (CALL_UP + (1ull << 60))   /* + 2 copy: rows for a standby; + 1: numbers applied */
#define CALL_ASK    (CALL_COPY + (1ull << 60)) /* letters to a service                                  */
#define CALL_ANSWER (CALL_ASK + 1)             /* letters to a caller                                   */

enum call_kind {
    CALL_ROWS = 1 << 0,  /* rows came with this letter                              */
    CALL_NEEDS = 1 << 1, /* a question that is nothing without its rows             */
    CALL_SENT = 1 << 2,  /* the other of the pair sent me here                      */
    CALL_LEAVE = 1 << 3, /* no question: the caller will ask no more                */
    CALL_AGAIN = 1 << 4, /* answer: the rows are not here, send them again          */
    CALL_MOVED = 1 << 5, /* answer: the other of the pair serves                    */
    CALL_LEADS = 1 << 6, /* of a pair: I serve; with rows: and this is what I serve */
    CALL_YIELD = 1 << 7, /* of a pair: I stay, you follow                           */
    CALL_END = 1 << 8,   /* to a helper: all is done                                */
};

/* Every letter begins with it; what follows are numbers of 64 bits and nothing else, so that it can be encoded
 * (letter.h). */
struct call_head {
    uint64_t number; /* of the question                 */
    uint32_t kind;   /* of enum call_kind               */
    uint32_t what;   /* the service's and its callers' own */
};

/* A member that asks. It keeps this when its machine goes down: its numbers must not begin anew. */
struct caller {
    struct link *link; /* borrowed */
    double patience_s;
    const char *name;    /* "agent" */
    uint64_t number;     /* of its last question */
    bool may_hear_twice; /* has asked again or given up: an answer may come that is not waited for any more */
};

/* See the drawing in call.c. */
enum call_state { CALL_IDLE, CALL_ASKED, CALL_LOST, CALL_ANSWERED, CALL_GIVEN_UP };

/* From a caller to a service; one call at a time. */
struct call_line {
    struct caller *caller; /* borrowed; of the call under way */
    const char *service;   /* its name: "server" */
    size_t asked;          /* the member that serves, as far as is known */
    size_t other;          /* of the pair; the same: there is none */
    uint64_t answer_tag;   /* of the letters of answers */
    size_t question_bytes; /* of a letter */
    size_t answer_bytes;   /* likewise; 0: it answers with rows alone */
    unsigned silent;       /* patiences after which it is given up: lives and says nothing, */
    unsigned lost;         /* cannot be reached, and may come back                          */
    bool is_lost;          /* since then, until it answers or is seen to live */
    double lost_since;
    enum call_state state;
    struct call_head *question; /* borrowed until the call ends */
    struct span rows;           /* of the question */
    uint64_t number;
    double since;     /* when its answer was waited for first */
    uint64_t n_waits; /* in vain, for a service that lives */
};

#define CALL_SILENT   16 /* patiences */
#define CALL_LOST_FOR 2

/* To a service that answers with rows alone: it is asked once, and given up when it is gone or silent. */
struct call_line call_line_to(const char *service, size_t member);
/* To one that answers with letters, which has a standby, or has none (other == member). */
struct call_line call_line_to_pair(const char *service, size_t member, size_t other, size_t question_bytes,
                                   size_t answer_bytes);

/* Asks, and returns at once. The question gets its number; it stays as it is until the call ends. Rows of mine
 * travel with it as they are now, and as they are then if they must be sent again. What goes wrong with a peer
 * shows at the end. */
fault call_begin(struct caller *caller, struct call_line *c, struct call_head *question, struct span rows);
/* Waits for the answer: answer_bytes of a letter (or NULL, where there are none), and its rows, which are the
 * caller's to drop; the parcel is empty where none came. FAULT_PEER with the names of both where the service is
 * given up: it cannot be reached, is silent or has come to its end, and no standby takes its place. Returns within
 * silent + lost + 2 patiences. Calls of one caller end in the order in which they began. Once it has asked
 * twice, mail under its tags of rounds may be forgotten at the end of a call. */
fault call_end(struct call_line *c, struct call_head *answer, struct parcel *rows);
/* A fault that names this member, whose letter says what cannot be. It ends the run: by chance that does not
 * happen. */
fault call_refuse(const struct link *l, size_t from);
/* Of a call that ended in a fault: since when the service has been lost, or was waited for. */
double call_line_lost_since(const struct call_line *c);
/* Says that no question will follow; it is not answered. */
void call_leave(struct caller *caller, const struct call_line *c, struct call_head *farewell);

#endif
